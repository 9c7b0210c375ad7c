//! Walks of the page tables that the driver writes: AArch64, 4 KiB granule, at most four levels, with blocks.
//!
//! Source: `drivers/iommu/io-pgtable-arm.c`, format ARM_64_LPAE_S1, whose root, memory attributes and configuration
//! `panthor_mmu.c` (`panthor_vm_active`, `mair_to_memattr`) writes to the registers; and the Arm architecture's
//! stage 1 descriptors for what that file takes for granted. Every entry is foreign: it may hold anything.

use super::physmem::PhysMem;
use crate::mmu::Access;
use crate::model;

/// The levels of a table: the last has pages.
const LAST_LEVEL: u32 = 3;
/// Bits of an address within a page of the granule.
const PAGE_SHIFT: u32 = 12;
/// Bits of an address that a level resolves.
const LEVEL_BITS: u32 = 9;
/// Bits of an entry that are an address (`ARM_LPAE_PTE_ADDR_MASK`).
const ADDRESS: u64 = 0x0000_ffff_ffff_f000;
/// `ARM_LPAE_PTE_AP_UNPRIV`.
const AP_UNPRIV: u64 = 1 << 6;
/// `ARM_LPAE_PTE_AP_RDONLY`.
const AP_RDONLY: u64 = 1 << 7;
/// `ARM_LPAE_PTE_AF`.
const AF: u64 = 1 << 10;
/// `ARM_LPAE_PTE_XN`: both bits; one of them is enough to forbid.
const XN: u64 = 3 << 53;
/// APTable\[0\]: nothing below is for unprivileged accesses.
const TABLE_PRIV: u64 = 1 << 61;
/// APTable\[1\]: everything below is read only.
const TABLE_RDONLY: u64 = 1 << 62;
/// UXNTable and PXNTable: nothing below is executable.
const TABLE_XN: u64 = 3 << 59;
/// `ARM_LPAE_PTE_ATTRINDX_SHIFT`.
const ATTR_SHIFT: u32 = 2;
/// AS_TRANSCFG_DISABLE_HIER_AP.
const DISABLE_HIER_AP: u64 = 1 << 33;
/// AS_TRANSCFG_DISABLE_AF_FAULT.
const DISABLE_AF_FAULT: u64 = 1 << 34;
/// AS_TRANSCFG_WXN: what can be written is not executable.
const WXN: u64 = 1 << 35;

/// Why an address could not be translated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WalkFault {
    /// The address space is not mapped at all.
    Unmapped,
    /// No entry, or one that the level does not have.
    Translation(u32),
    /// The mapping does not allow the access.
    Permission(u32),
    /// The access flag is not set.
    AccessFlag(u32),
    /// The address has more bits than the address space.
    AddressSizeIn,
    /// The entry's address has more bits than physical addresses.
    AddressSizeOut(u32),
    /// The entry's memory attribute is the one that faults.
    MemoryAttribute(u32),
    /// The entry leads to where no memory is.
    NoMemory(u32),
    /// A block whose address is not aligned to it.
    Misaligned(u32),
}

impl WalkFault {
    /// The exception code (`panthor_device.h`, `enum drm_panthor_exception_type`). A walk outside of memory is the bus's
    /// fault.
    #[must_use]
    pub const fn exception(self) -> u8 {
        match self {
            WalkFault::Unmapped => 0xc0,
            WalkFault::Translation(level) | WalkFault::Misaligned(level) => 0xc0 + level as u8,
            WalkFault::Permission(level) => 0xc8 + level as u8,
            WalkFault::AccessFlag(level) => 0xd8 + level as u8,
            WalkFault::AddressSizeIn => 0xe0,
            WalkFault::AddressSizeOut(level) => 0xe4 + level as u8,
            WalkFault::MemoryAttribute(level) => 0xe8 + level as u8,
            WalkFault::NoMemory(_) => 0x80,
        }
    }

    /// Whether the table itself is wrong, which no driver may write.
    #[must_use]
    pub const fn is_malformed(self) -> bool {
        matches!(
            self,
            WalkFault::AddressSizeOut(_)
                | WalkFault::NoMemory(_)
                | WalkFault::Misaligned(_)
                | WalkFault::AccessFlag(_)
        )
    }
}

/// Where a table begins and how it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Table {
    /// Physical address of the root (AS_TRANSTAB).
    pub root: u64,
    /// Width of virtual addresses, 24 to 48.
    pub va_bits: u32,
    /// AS_MEMATTR: eight attributes of eight bits.
    pub memattr: u64,
    /// AS_TRANSCFG, of which the permission bits are used.
    pub transcfg: u64,
}

/// A translated block or page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leaf {
    /// Its first virtual address.
    pub va: u64,
    /// Its first physical address.
    pub physical: u64,
    /// Bytes.
    pub size: u64,
    /// Whether stores are allowed.
    pub writable: bool,
    /// Whether fetches are allowed.
    pub executable: bool,
    /// Whether it is not cached.
    pub uncached: bool,
    /// The entry.
    pub entry: u64,
}

impl Table {
    /// The page or block that holds `va`.
    ///
    /// # Errors
    /// [`WalkFault`] with the level at which the walk ended.
    pub fn walk(&self, memory: &PhysMem, va: u64, access: Access) -> Result<Leaf, WalkFault> {
        if self.va_bits < 64 && va >> self.va_bits != 0 {
            return Err(WalkFault::AddressSizeIn);
        }
        let levels = self.va_bits.saturating_sub(PAGE_SHIFT).div_ceil(LEVEL_BITS);
        let first = (LAST_LEVEL + 1).saturating_sub(levels.max(1));
        let (mut unprivileged, mut writable, mut executable) = (true, true, true);
        let mut table = self.root;
        for level in first..=LAST_LEVEL {
            let shift = PAGE_SHIFT + LEVEL_BITS * (LAST_LEVEL - level);
            let index = va >> shift & ((1 << LEVEL_BITS) - 1);
            let entry = memory
                .read64(table.wrapping_add(8 * index))
                .map_err(|_| WalkFault::NoMemory(level))?;
            // A block is of type 1, a table or a page of type 3; the root has no blocks, the last level no tables.
            let leaf = match (entry & 3, level) {
                (3, LAST_LEVEL) | (1, 1 | 2) => true,
                (3, _) => false,
                _ => return Err(WalkFault::Translation(level)),
            };
            let address = entry & ADDRESS;
            if address >> model::PA_BITS != 0 {
                return Err(WalkFault::AddressSizeOut(level));
            }
            if !leaf {
                if self.transcfg & DISABLE_HIER_AP == 0 {
                    unprivileged &= entry & TABLE_PRIV == 0;
                    writable &= entry & TABLE_RDONLY == 0;
                    executable &= entry & TABLE_XN == 0;
                }
                table = address;
                continue;
            }
            let size = 1u64 << shift;
            if address & (size - 1) != 0 {
                return Err(WalkFault::Misaligned(level));
            }
            if entry & AF == 0 && self.transcfg & DISABLE_AF_FAULT == 0 {
                return Err(WalkFault::AccessFlag(level));
            }
            let uncached = match self.memattr >> (8 * (entry >> ATTR_SHIFT & 7)) >> 6 & 3 {
                3 => return Err(WalkFault::MemoryAttribute(level)),
                // AS_MEMATTR_AARCH64_INNER_OUTER_NC.
                attribute => attribute == 1,
            };
            writable &= entry & AP_RDONLY == 0;
            unprivileged &= entry & AP_UNPRIV != 0;
            executable &= entry & XN == 0 && !(writable && self.transcfg & WXN != 0);
            let allowed = match access {
                Access::Read => true,
                Access::Write => writable,
                Access::Execute => executable,
            };
            if !allowed || !unprivileged {
                return Err(WalkFault::Permission(level));
            }
            return Ok(Leaf {
                va: va & !(size - 1),
                physical: address,
                size,
                writable,
                executable,
                uncached,
                entry,
            });
        }
        // The last level is a leaf or an error.
        Err(WalkFault::Translation(LAST_LEVEL))
    }
}
