//! The MMU's address spaces: registers, commands, faults, and translation.
//!
//! TRANSTAB, MEMATTR and TRANSCFG take effect with UPDATE. LOCK holds accesses to a region off until UNLOCK or a flush
//! (`panthor_mmu.c`, `panthor_vm_lock_region`; 6.12 `mmu_hw_do_operation_locked`). A command keeps AS_ACTIVE set for a
//! while. FLUSH_PT writes the L2 back, FLUSH_MEM the load-store caches too, before the region's translations are dropped
//! (`panfrost_regs.h`, comments at `AS_COMMAND_FLUSH_PT` and `AS_COMMAND_FLUSH_MEM`).
//!
//! # Translations that may be stale
//! Hardware keeps translations, and what it does with one whose entry has changed meanwhile is left open until lock and
//! unlock, a flush or an update. The model walks the tables each time and remembers what it has found last for each page
//! or block; if it finds another entry, without one of these between, that is [`Rule::StaleTranslation`]. Not noticed:
//! - entries that changed and changed back;
//! - a change that no access follows (harmless);
//! - changes while a job runs, since a job runs in no time; its ports keep translations for as long;
//! - changes of table entries that lead to the same page;
//! - entries that were invalid before: hardware does not keep those (Arm architecture), and 6.12 maps without a lock.
//!
//! Accesses while a region is locked are not held off here: whoever makes them asks [`AddressSpaces::is_locked`] first.
//! The MCU's are made all the same, as if they had come before the lock: the driver locks only what it is about to map
//! or has done with (suspend buffers, heap contexts), and polls for the MCU without sleeping (`panthor_fw.c`,
//! `panthor_fw_wait_mcu_halted`) while somebody else may hold such a lock.

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::{Mutex, PoisonError};

use super::page_table::{Leaf, Table, WalkFault};
use super::physmem::PhysMem;
use super::regs::*;
use super::violation::Rule;
use crate::mmu::{Access, AddressSpace, MmuFault, MmuFaultKind, Page};
use crate::model;

/// Address spaces that there can be (AS_PRESENT).
const SPACES: usize = model::AS_PRESENT.count_ones() as usize;
/// The smallest page, in bytes.
const PAGE: u64 = 4096;
/// log2 of the smallest region that can be locked, less one (`AS_LOCK_REGION_MIN_SIZE`, 32 KiB).
const LOCK_MIN_WIDTH: u64 = 14;
/// Nanoseconds of a command that flushes no cache. Assumed, not measured.
pub const COMMAND_NS: u64 = 1_000;
/// Nanoseconds of a command that flushes caches. Assumed, not measured.
pub const FLUSH_COMMAND_NS: u64 = 5_000;
/// Translations that are remembered per address space before the oldest are forgotten all at once.
const REMEMBERED: usize = 1 << 20;

/// How an address space translates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Mode {
    /// Not at all.
    #[default]
    Unmapped,
    /// Addresses are physical.
    Identity,
    /// By a table.
    Table(Table),
}

/// A page fault, as the fault registers hold it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageFault {
    /// AS_FAULTSTATUS.
    pub status: u32,
    /// AS_FAULTADDRESS.
    pub address: u64,
}

#[derive(Debug, Default)]
struct Space {
    transtab: u64,
    memattr: u64,
    lockaddr: u64,
    transcfg: u64,
    mode: Mode,
    /// The command under way.
    active: Option<AsCommand>,
    locked: Option<RangeInclusive<u64>>,
    fault: PageFault,
    /// Whether `fault` has been reported and not been cleared.
    faulty: bool,
    found: Mutex<Found>,
}

/// What walks have found.
#[derive(Debug, Default)]
struct Found {
    /// Entries by the first address of their page or block.
    entries: HashMap<u64, u64>,
    breaches: Vec<(Rule, String)>,
}

/// What a completed command wants done by the caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CacheWork {
    None,
    /// Clean and invalidate the L2.
    L2,
    /// Clean and invalidate everything.
    All,
}

/// All address spaces.
#[derive(Debug)]
pub struct AddressSpaces {
    spaces: [Space; SPACES],
}

impl Default for AddressSpaces {
    fn default() -> Self {
        Self {
            spaces: std::array::from_fn(|_| Space::default()),
        }
    }
}

impl AddressSpaces {
    fn space(&self, number: u8) -> Option<&Space> {
        self.spaces.get(usize::from(number))
    }

    /// Reads a register; of write-only ones 0.
    #[must_use]
    pub fn read(&self, number: u8, register: AsReg, half: Half) -> u32 {
        let Some(space) = self.space(number) else {
            return 0;
        };
        match register {
            AsReg::TransTab => half.of(space.transtab),
            AsReg::MemAttr => half.of(space.memattr),
            AsReg::LockAddr => half.of(space.lockaddr),
            AsReg::TransCfg => half.of(space.transcfg),
            AsReg::FaultStatus => space.fault.status,
            AsReg::FaultAddress => half.of(space.fault.address),
            AsReg::Status if half == Half::Low && space.active.is_some() => AS_STATUS_ACTIVE,
            AsReg::Status | AsReg::Command | AsReg::FaultExtra => 0,
        }
    }

    /// Writes one of the registers that only hold a value.
    pub(super) fn write(&mut self, number: u8, register: AsReg, half: Half, value: u32) {
        let Some(space) = self.spaces.get_mut(usize::from(number)) else {
            return;
        };
        let place = match register {
            AsReg::TransTab => &mut space.transtab,
            AsReg::MemAttr => &mut space.memattr,
            AsReg::LockAddr => &mut space.lockaddr,
            AsReg::TransCfg => &mut space.transcfg,
            _ => return,
        };
        *place = half.replace(*place, value);
    }

    /// Begins a command and gives the nanoseconds that it takes; then [`AddressSpaces::complete`] is to be called.
    ///
    /// # Errors
    /// The breach, where the space is busy or the command makes no sense. Nothing is done then.
    pub(super) fn begin(&mut self, number: u8, command: AsCommand) -> Result<u64, (Rule, String)> {
        let Some(space) = self.spaces.get_mut(usize::from(number)) else {
            return Err((Rule::NoRegister, format!("AS{number} does not exist")));
        };
        if let Some(active) = space.active {
            let text = format!("AS{number}: {command:?} while {active:?} is under way");
            return Err((Rule::Busy, text));
        }
        match command {
            AsCommand::Update => {
                space
                    .checked_mode()
                    .map_err(|text| (Rule::BadValue, format!("AS{number}: UPDATE with {text}")))?;
            }
            AsCommand::Lock => {
                region(space.lockaddr).ok_or_else(|| {
                    let text = format!("AS{number}: LOCK of LOCKADDR {:#x}", space.lockaddr);
                    (Rule::BadValue, text)
                })?;
            }
            // The driver locks before it flushes and unlocks only what is locked.
            AsCommand::Unlock | AsCommand::FlushPt | AsCommand::FlushMem
                if space.locked.is_none() =>
            {
                let text = format!("AS{number}: {command:?} without a locked region");
                return Err((Rule::BadValue, text));
            }
            _ => {}
        }
        space.active = Some(command);
        Ok(match command {
            AsCommand::FlushPt | AsCommand::FlushMem => FLUSH_COMMAND_NS,
            _ => COMMAND_NS,
        })
    }

    /// Completes the command under way: what the caches have to do, and whether accesses that waited may go on.
    pub(super) fn complete(&mut self, number: u8) -> (CacheWork, bool) {
        let Some(space) = self.spaces.get_mut(usize::from(number)) else {
            return (CacheWork::None, false);
        };
        let Some(command) = space.active.take() else {
            return (CacheWork::None, false);
        };
        match command {
            AsCommand::Nop => (CacheWork::None, false),
            AsCommand::Update => {
                space.mode = space.checked_mode().unwrap_or_default();
                space.found_mut().entries.clear();
                (CacheWork::None, true)
            }
            AsCommand::Lock => {
                space.locked = region(space.lockaddr);
                (CacheWork::None, false)
            }
            AsCommand::Unlock | AsCommand::FlushPt | AsCommand::FlushMem => {
                if let Some(region) = space.locked.take() {
                    // Entries of blocks that begin before the region reach into it, at most by the largest block.
                    let first = region.start() & !((1 << 30) - 1);
                    let reach = first..=*region.end();
                    space
                        .found_mut()
                        .entries
                        .retain(|va, _| !reach.contains(va));
                }
                let work = match command {
                    AsCommand::FlushPt => CacheWork::L2,
                    AsCommand::FlushMem => CacheWork::All,
                    _ => CacheWork::None,
                };
                (work, true)
            }
        }
    }

    /// Whether accesses through the space have to wait: a region of it is locked, or a command under way.
    #[must_use]
    pub fn is_locked(&self, number: u8) -> bool {
        self.space(number)
            .is_some_and(|space| space.locked.is_some() || space.active.is_some())
    }

    /// Whether the space's tables are about to change as a whole.
    #[must_use]
    pub fn is_updating(&self, number: u8) -> bool {
        self.space(number)
            .is_some_and(|space| space.active == Some(AsCommand::Update))
    }

    /// Whether the space translates at all.
    #[must_use]
    pub fn is_mapped(&self, number: u8) -> bool {
        self.space(number)
            .is_some_and(|space| space.mode != Mode::Unmapped)
    }

    /// Notes a fault, unless one is noted already and not cleared: hardware keeps the first.
    pub(super) fn set_fault(&mut self, number: u8, fault: PageFault) -> bool {
        let Some(space) = self.spaces.get_mut(usize::from(number)) else {
            return false;
        };
        if space.faulty {
            return false;
        }
        space.fault = fault;
        space.faulty = true;
        true
    }

    /// The interrupt bits of faults were cleared: the registers keep their values until the next fault.
    pub(super) fn clear_faults(&mut self, bits: u32) {
        for (number, space) in self.spaces.iter_mut().enumerate() {
            if bits >> number & 1 != 0 {
                space.faulty = false;
            }
        }
    }

    /// Whether any fault is not cleared (GPU_STATUS_PAGE_FAULT).
    #[must_use]
    pub fn has_fault(&self) -> bool {
        self.spaces.iter().any(|space| space.faulty)
    }

    /// The page or block at `va`.
    ///
    /// # Errors
    /// [`WalkFault`] where there is none for this access.
    pub fn walk(
        &self,
        memory: &PhysMem,
        number: u8,
        va: u64,
        access: Access,
    ) -> Result<Leaf, WalkFault> {
        let space = self.space(number).ok_or(WalkFault::Unmapped)?;
        match &space.mode {
            Mode::Unmapped => Err(WalkFault::Unmapped),
            Mode::Identity => {
                let page = va & !(PAGE - 1);
                Ok(Leaf {
                    va: page,
                    physical: page,
                    size: PAGE,
                    writable: true,
                    executable: true,
                    uncached: true,
                    entry: 0,
                })
            }
            Mode::Table(table) => {
                let result = table.walk(memory, va, access);
                space.remember(number, va, access, &result);
                result
            }
        }
    }

    /// A view for translations in one space.
    #[must_use]
    pub fn view<'a>(&'a self, memory: &'a PhysMem, number: u8) -> SpaceView<'a> {
        SpaceView {
            spaces: self,
            memory,
            number,
        }
    }

    /// Takes the breaches that walks have found, each with its space.
    pub(super) fn take_breaches(&mut self) -> Vec<(Rule, String)> {
        let mut all = Vec::new();
        for space in &mut self.spaces {
            all.append(&mut space.found_mut().breaches);
        }
        all
    }

    /// After a reset: nothing is mapped.
    pub(super) fn reset(&mut self) {
        let breaches = self.take_breaches();
        *self = Self::default();
        self.spaces[0].found_mut().breaches = breaches;
    }
}

impl Space {
    fn found_mut(&mut self) -> &mut Found {
        self.found.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    /// What UPDATE makes of the registers, or in words why it cannot.
    fn checked_mode(&self) -> Result<Mode, String> {
        match self.transcfg & TRANSCFG_ADRMODE {
            ADRMODE_UNMAPPED => Ok(Mode::Unmapped),
            ADRMODE_IDENTITY => Ok(Mode::Identity),
            ADRMODE_AARCH64_4K => {
                let ina = self.transcfg >> TRANSCFG_INA_SHIFT & TRANSCFG_INA_MASK;
                let va_bits = (TRANSCFG_INA_BASE - ina) as u32;
                if va_bits > model::VA_BITS {
                    return Err(format!("TRANSCFG {:#x}: {va_bits} bits", self.transcfg));
                }
                if self.transtab % PAGE != 0 || self.transtab >> model::PA_BITS != 0 {
                    return Err(format!("TRANSTAB {:#x}", self.transtab));
                }
                Ok(Mode::Table(Table {
                    root: self.transtab,
                    va_bits,
                    memattr: self.memattr,
                    transcfg: self.transcfg,
                }))
            }
            mode => Err(format!(
                "TRANSCFG {:#x}: address mode {mode}",
                self.transcfg
            )),
        }
    }

    /// Compares a walk with the last one for the same page.
    fn remember(&self, number: u8, va: u64, access: Access, result: &Result<Leaf, WalkFault>) {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        match result {
            Ok(leaf) => {
                if found.entries.len() >= REMEMBERED {
                    found.entries.clear();
                }
                if let Some(old) = found.entries.insert(leaf.va, leaf.entry) {
                    if old != leaf.entry {
                        let text = format!(
                            "AS{number}: page {:#x} used with entry {:#x}, before {old:#x}, without lock or flush between",
                            leaf.va, leaf.entry
                        );
                        found.breaches.push((Rule::StaleTranslation, text));
                    }
                }
            }
            Err(fault) => {
                if fault.is_malformed() {
                    let text = format!("AS{number}: {fault:?} at {va:#x}");
                    found.breaches.push((Rule::PageTable, text));
                }
                // A permission fault says nothing of whether the entry has changed.
                let page = va & !(PAGE - 1);
                if matches!(fault, WalkFault::Translation(_))
                    && found.entries.remove(&page).is_some()
                {
                    let text = format!(
                        "AS{number}: {access:?} of page {page:#x}, whose entry is gone without lock or flush"
                    );
                    found.breaches.push((Rule::StaleTranslation, text));
                }
            }
        }
    }
}

/// The region of a LOCKADDR: log2 of its size less one in bits 0 to 5, its start above (`pack_region_range`).
fn region(lockaddr: u64) -> Option<RangeInclusive<u64>> {
    let width = lockaddr & 0x3f;
    if width < LOCK_MIN_WIDTH {
        return None;
    }
    let mask = if width == 63 {
        u64::MAX
    } else {
        (1 << (width + 1)) - 1
    };
    let start = lockaddr & !mask;
    Some(start..=start | mask)
}

/// One address space, for those who access memory through it.
#[derive(Clone, Copy, Debug)]
pub struct SpaceView<'a> {
    spaces: &'a AddressSpaces,
    memory: &'a PhysMem,
    number: u8,
}

impl SpaceView<'_> {
    /// The number of the space.
    #[must_use]
    pub fn number(&self) -> u8 {
        self.number
    }

    /// The page or block at `va`, with the fault in the MMU's own terms.
    ///
    /// # Errors
    /// [`WalkFault`] where there is none for this access.
    pub fn walk(&self, va: u64, access: Access) -> Result<Leaf, WalkFault> {
        self.spaces.walk(self.memory, self.number, va, access)
    }
}

// SAFETY: `host` is checked to lie in the guest's memory with all of `size`. That mapping lives as long as the
// `PhysMem`, which the view borrows and which `Hardware` keeps longer than its caches; everybody accesses it atomically
// or volatile.
unsafe impl AddressSpace for SpaceView<'_> {
    fn translate(&self, va: u64, access: Access) -> Result<Page, MmuFault> {
        let fault = |kind| MmuFault { va, access, kind };
        let leaf = self.walk(va, access).map_err(|walk| match walk {
            WalkFault::Permission(_) => fault(MmuFaultKind::Permission),
            _ => fault(MmuFaultKind::Translation),
        })?;
        let offset = (va - leaf.va) & !(PAGE - 1);
        // Of a block that memory does not hold in whole, the page.
        let whole = self.memory.host(leaf.physical, leaf.size);
        let (host, size) = match whole {
            Ok(host) => (host, leaf.size),
            Err(_) => {
                let physical = leaf.physical + offset;
                let host = self.memory.host(physical, PAGE);
                (host.map_err(|_| fault(MmuFaultKind::Translation))?, PAGE)
            }
        };
        Ok(Page {
            host,
            size,
            writable: leaf.writable,
            executable: leaf.executable,
            uncached: leaf.uncached,
            cpu_dirty: 0,
        })
    }
}
