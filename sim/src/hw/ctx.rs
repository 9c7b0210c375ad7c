//! What the firmware reaches of the GPU and of the world.

use super::address_space::{PageFault, SpaceView};
use super::fault::Line;
use super::gpu::Core;
use super::injection::Faults;
use super::options::Options;
use super::page_table::WalkFault;
use super::physmem::{BadAddress, PhysMem};
use super::power::Domain;
use super::regs::*;
use super::violation::Rule;
use crate::csf::JobRecord;
use crate::mmu::{Access, Caches};

/// Nanoseconds and cycles of the GPU's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    hz: u64,
}

impl Clock {
    /// A clock of `hz` cycles per second, at least 1.
    #[must_use]
    pub fn new(hz: u64) -> Self {
        Self { hz: hz.max(1) }
    }

    /// Cycles per second.
    #[must_use]
    pub fn hz(self) -> u64 {
        self.hz
    }

    /// Whole cycles until `ns`.
    #[must_use]
    pub fn cycles(self, ns: u64) -> u64 {
        scale(ns, self.hz, 1_000_000_000)
    }

    /// Nanoseconds until `cycles` have passed, rounded up; `u64::MAX` stays never.
    #[must_use]
    pub fn ns(self, cycles: u64) -> u64 {
        if cycles == u64::MAX {
            return u64::MAX;
        }
        let ns = (u128::from(cycles) * 1_000_000_000).div_ceil(u128::from(self.hz));
        ns.try_into().unwrap_or(u64::MAX)
    }
}

/// `value * by / of`, rounded down.
pub(super) fn scale(value: u64, by: u64, of: u64) -> u64 {
    (u128::from(value) * u128::from(by) / u128::from(of))
        .try_into()
        .unwrap_or(u64::MAX)
}

/// Why the MCU could not access memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum McuFault {
    /// Its address space refuses.
    #[error("the MCU's {access:?} at {va:#x}: {fault:?}")]
    Mmu {
        /// The address.
        va: u64,
        /// What was wanted.
        access: Access,
        /// What was wrong.
        fault: WalkFault,
    },
    /// The page is not memory, or the word not aligned.
    #[error("the MCU at {va:#x}: {bad}")]
    Memory {
        /// The address.
        va: u64,
        /// What was wrong.
        bad: BadAddress,
    },
}

/// The firmware's address space.
pub const MCU_SPACE: u8 = 0;

/// A call's view of the GPU.
#[derive(Debug)]
pub struct Ctx<'a> {
    pub(super) core: &'a mut Core,
    pub(super) now: u64,
}

impl Ctx<'_> {
    // ---- Time

    /// Nanoseconds of the guest's clock.
    #[must_use]
    pub fn now(&self) -> u64 {
        self.now
    }

    /// The GPU's clock.
    #[must_use]
    pub fn clock(&self) -> Clock {
        self.core.clock
    }

    /// Cycles since the guest's clock began.
    #[must_use]
    pub fn now_cycles(&self) -> u64 {
        self.core.clock.cycles(self.now)
    }

    /// Lets [`super::fw::Firmware::event`] be called with `token` at `at` nanoseconds, not before now; `u64::MAX` is
    /// never. Events cannot be taken back: a token should tell whether it is still wanted.
    pub fn schedule(&mut self, at: u64, token: u64) {
        self.core.schedule_firmware(at.max(self.now), token);
    }

    // ---- Memory

    /// A word as the MCU reads it through address space 0, past the GPU's caches (the driver maps what the host shares
    /// with the firmware uncached: `panthor_fw.c`, `CSF_FW_BINARY_IFACE_ENTRY_CACHE_MODE_*`).
    ///
    /// # Errors
    /// [`McuFault`]; [`Ctx::mcu_fault`] reports it as hardware does.
    pub fn read32(&self, va: u64) -> Result<u32, McuFault> {
        let physical = self.mcu_address(va, Access::Read)?;
        let word = self.core.memory.read32(physical);
        word.map_err(|bad| McuFault::Memory { va, bad })
    }

    /// The same of eight bytes, aligned to eight.
    ///
    /// # Errors
    /// [`McuFault`].
    pub fn read64(&self, va: u64) -> Result<u64, McuFault> {
        let physical = self.mcu_address(va, Access::Read)?;
        let word = self.core.memory.read64(physical);
        word.map_err(|bad| McuFault::Memory { va, bad })
    }

    /// Writes a word as the MCU does.
    ///
    /// # Errors
    /// [`McuFault`].
    pub fn write32(&mut self, va: u64, value: u32) -> Result<(), McuFault> {
        let physical = self.mcu_address(va, Access::Write)?;
        let done = self.core.memory.write32(physical, value);
        done.map_err(|bad| McuFault::Memory { va, bad })
    }

    /// The same of eight bytes, aligned to eight.
    ///
    /// # Errors
    /// [`McuFault`].
    pub fn write64(&mut self, va: u64, value: u64) -> Result<(), McuFault> {
        let physical = self.mcu_address(va, Access::Write)?;
        let done = self.core.memory.write64(physical, value);
        done.map_err(|bad| McuFault::Memory { va, bad })
    }

    /// A word as [`Ctx::read32`], but through another address space: a stream's memory that the firmware looks into.
    ///
    /// # Errors
    /// [`McuFault`].
    pub fn read32_in(&self, space: u8, va: u64) -> Result<u32, McuFault> {
        let physical = self.address(space, va, Access::Read)?;
        let word = self.core.memory.read32(physical);
        word.map_err(|bad| McuFault::Memory { va, bad })
    }

    fn mcu_address(&self, va: u64, access: Access) -> Result<u64, McuFault> {
        self.address(MCU_SPACE, va, access)
    }

    fn address(&self, space: u8, va: u64, access: Access) -> Result<u64, McuFault> {
        let core = &*self.core;
        let leaf = core.spaces.walk(&core.memory, space, va, access);
        let leaf = leaf.map_err(|fault| McuFault::Mmu { va, access, fault })?;
        Ok(leaf.physical + (va - leaf.va))
    }

    /// An address space, for a stream's accesses.
    #[must_use]
    pub fn space(&self, number: u8) -> SpaceView<'_> {
        self.core.spaces.view(&self.core.memory, number)
    }

    /// Whether accesses through a space have to wait: a region is locked, or a command under way. The caller puts off
    /// what it wanted until [`super::fw::Firmware::address_space_changed`]. Hardware holds off only accesses to the
    /// region; here the whole space waits, which it may.
    #[must_use]
    pub fn is_locked(&self, number: u8) -> bool {
        self.core.spaces.is_locked(number)
    }

    /// Whether a space translates at all.
    #[must_use]
    pub fn is_mapped(&self, number: u8) -> bool {
        self.core.spaces.is_mapped(number)
    }

    /// The guest's memory by physical address.
    #[must_use]
    pub fn memory(&self) -> &PhysMem {
        &self.core.memory
    }

    /// The GPU's caches.
    #[must_use]
    pub fn caches(&self) -> &Caches {
        &self.core.caches
    }

    // ---- Interrupts and faults

    /// Raises bits of the job block's RAWSTAT: a group slot's, or [`JOB_IRQ_GLOBAL`].
    pub fn raise_job(&mut self, bits: u32) {
        self.core.irqs.raise(Line::Job, bits);
    }

    /// Reports a page fault of a space: fault registers and the mmu block's bit. The exception is found by walking
    /// again; `source` is the upper half of AS_FAULTSTATUS. A fault that has not been cleared stays in the registers.
    pub fn page_fault(&mut self, number: u8, va: u64, access: Access, source: u16) {
        let core = &mut *self.core;
        let code = match core.spaces.walk(&core.memory, number, va, access) {
            // Mapped meanwhile: it was not when the access was made.
            Ok(_) => WalkFault::Translation(3).exception(),
            Err(fault) => fault.exception(),
        };
        core.page_fault(number, code, va, access, source);
    }

    /// Reports a fault of the MCU's own access and stops it: MCU_STATUS is FATAL.
    pub fn mcu_fault(&mut self, fault: &McuFault) {
        log::warn!("{} ns: {fault}", self.now);
        match *fault {
            McuFault::Mmu { va, access, .. } => self.page_fault(MCU_SPACE, va, access, 0),
            McuFault::Memory { va, .. } => self.core.gpu_fault(GPU_BUS_FAULT, va),
        }
        self.set_mcu_status(McuStatus::Fatal);
    }

    /// Reports a fault of the GPU itself: GPU_FAULT_STATUS, GPU_FAULT_ADDR and GPU_IRQ_FAULT.
    pub fn gpu_fault(&mut self, status: u32, address: u64) {
        self.core.gpu_fault(status, address);
    }

    /// MCU_STATUS, with GPU_IRQ_MCU_STATUS_CHANGED.
    pub fn set_mcu_status(&mut self, status: McuStatus) {
        self.core.set_mcu_status(status);
    }

    /// MCU_STATUS.
    #[must_use]
    pub fn mcu_status(&self) -> McuStatus {
        self.core.mcu_status
    }

    // ---- Power

    /// Switches on what is not on; [`super::fw::Firmware::power_changed`] is called when it is. Gives whether all of it
    /// is on already.
    pub fn power_on(&mut self, domain: Domain) -> bool {
        let now = self.now;
        self.core.switch_power(domain, !0, true, now);
        self.core.power.is_on(domain)
    }

    /// Switches a domain off.
    pub fn power_off(&mut self, domain: Domain) {
        let now = self.now;
        self.core.switch_power(domain, !0, false, now);
    }

    /// Whether all of a domain is on.
    #[must_use]
    pub fn is_powered(&self, domain: Domain) -> bool {
        self.core.power.is_on(domain)
    }

    // ---- The rest

    /// What the GPU is like.
    #[must_use]
    pub fn options(&self) -> &Options {
        &self.core.options
    }

    /// The faults at work.
    pub fn faults(&mut self) -> &mut Faults {
        &mut self.core.faults
    }

    /// Notes a job that ran on the shader cores.
    pub fn job_ran(&mut self, record: JobRecord) {
        self.core.jobs.add(record);
    }

    /// Notes that the driver, or a stream, did what is left undefined.
    pub fn violation(&mut self, text: String) {
        self.core.violations.add(self.now, Rule::Firmware, text);
    }
}

/// `DRM_PANTHOR_EXCEPTION_GPU_BUS_FAULT`.
pub const GPU_BUS_FAULT: u32 = 0x80;

impl Core {
    pub(super) fn page_fault(
        &mut self,
        number: u8,
        code: u8,
        va: u64,
        access: Access,
        source: u16,
    ) {
        // AS_FAULTSTATUS_ACCESS_TYPE_*.
        let kind = match access {
            Access::Execute => 1,
            Access::Read => 2,
            Access::Write => 3,
        };
        let fault = PageFault {
            status: u32::from(source) << 16 | kind << 8 | u32::from(code),
            address: va,
        };
        log::info!("AS{number}: page fault {:#x} at {va:#x}", fault.status);
        if self.spaces.set_fault(number, fault) {
            self.irqs.raise(Line::Mmu, 1 << number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_convert_without_losing_a_cycle() {
        for hz in [1, 200_000, 850_000_000, 1_000_000_000, u64::MAX] {
            let clock = Clock::new(hz);
            for cycles in [0, 1, 7, 1_000_003, 1 << 40] {
                let ns = clock.ns(cycles);
                assert!(
                    ns == u64::MAX || clock.cycles(ns) >= cycles,
                    "{hz} {cycles}"
                );
            }
            assert_eq!(clock.ns(u64::MAX), u64::MAX);
        }
        assert_eq!(Clock::new(200_000).ns(1), 5000);
        assert_eq!(Clock::new(200_000).cycles(4999), 0);
    }
}
