//! Everything but the firmware: the registers' values, and the events that the blocks have asked for.

use std::collections::VecDeque;

use mali_isa::csf::FlushMode;

use super::Options;
use super::address_space::{AddressSpaces, CacheWork};
use super::command::Control;
use super::ctx::{Clock, MCU_SPACE};
use super::event::EventQueue;
use super::fault::{BootFailure, Kind, Line, Spurious};
use super::injection::Faults;
use super::irq::Irqs;
use super::physmem::PhysMem;
use super::power::{Availability, Domain, Power};
use super::regs::*;
use super::violation::{Rule, Violations};
use crate::endpoint::JobLog;
use crate::mmu::{Access, Caches};

/// Nanoseconds from MCU_CONTROL to FATAL, for a boot that fails so. Assumed.
const BOOT_FATAL_NS: u64 = 1_000_000;

/// Something that is to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    ResetDone,
    FlushDone { l2: FlushMode, lsc: FlushMode },
    AsDone(u8),
    Firmware(u64),
    BootLate,
    BootFatal,
    Spurious(usize),
}

/// A call of the firmware that is to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    Boot,
    Disable,
    Reset,
    Doorbell(u8),
    Event(u64),
    SpaceChanged(u8),
    PowerChanged,
    CachesFlushed,
}

/// Everything but the firmware.
#[derive(Debug)]
pub struct Core {
    pub(super) options: Options,
    pub(super) clock: Clock,
    // Before the memory, whose pages they know.
    pub(super) caches: Caches,
    pub(super) memory: PhysMem,
    pub(super) spaces: AddressSpaces,
    pub(super) irqs: Irqs,
    pub(super) power: Power,
    pub(super) faults: Faults,
    pub(super) events: EventQueue<Event>,
    pub(super) calls: VecDeque<Call>,
    pub(super) violations: Violations,
    pub(super) jobs: JobLog,
    pub(super) control: Control,
    pub(super) mcu_control: u32,
    pub(super) mcu_status: McuStatus,
    pub(super) mcu_running: bool,
}

impl Core {
    pub(super) fn next_deadline(&self) -> Option<u64> {
        let deadlines = [
            self.events.next_deadline(),
            self.power.next_deadline(),
            self.irqs.next_deadline(),
        ];
        deadlines.into_iter().flatten().min()
    }

    /// Carries out one thing that is due at `at`; late interrupts are looked at afterwards.
    pub(super) fn step(&mut self, at: u64, now: u64) {
        if let Some((_, domain)) = self.power.step(at) {
            self.power_changed(domain);
            return;
        }
        let Some((_, event)) = self.events.pop_due(at) else {
            return;
        };
        match event {
            Event::ResetDone => {
                self.control.resetting = false;
                self.irqs.raise(Line::Gpu, GPU_IRQ_RESET_COMPLETED);
            }
            Event::FlushDone { l2, lsc } => self.flush_done(l2, lsc),
            Event::AsDone(number) => self.as_done(number),
            Event::Firmware(token) => self.calls.push_back(Call::Event(token)),
            Event::BootLate => self.start_mcu(),
            Event::BootFatal => self.set_mcu_status(McuStatus::Fatal),
            Event::Spurious(number) => self.spurious(number, now),
        }
    }

    /// The next call that the firmware may be given now.
    pub(super) fn next_call(&mut self, now: u64) -> Option<Call> {
        loop {
            let call = *self.calls.front()?;
            let control = matches!(call, Call::Disable | Call::Reset);
            if !control && self.spaces.is_updating(MCU_SPACE) {
                return None;
            }
            if call == Call::Boot && !self.power.is_on(Domain::L2) {
                return None;
            }
            self.calls.pop_front();
            if control {
                return Some(call);
            }
            if !self.mcu_running || self.mcu_status == McuStatus::Fatal {
                continue;
            }
            if call != Call::Boot && self.faults.firmware_dead(now) {
                continue;
            }
            return Some(call);
        }
    }

    pub(super) fn schedule_firmware(&mut self, at: u64, token: u64) {
        self.events.push(at, Event::Firmware(token));
    }

    // ---- Registers

    pub(super) fn value(&mut self, reg: Reg, now: u64) -> u32 {
        match reg {
            Reg::Fixed(value) => value,
            Reg::Irq(line, register) => self.irqs.read(line, register),
            Reg::GpuStatus => self.gpu_status(),
            Reg::GpuFaultStatus => self.control.fault_status,
            Reg::GpuFaultAddress(half) => half.of(self.control.fault_address),
            Reg::L2Config => self.control.l2_config,
            Reg::TimestampOffset(half) => half.of(self.control.timestamp_offset),
            Reg::CycleCount(half) => half.of(self.clock.cycles(now)),
            Reg::Timestamp(half) => half.of(self.timestamp(now)),
            Reg::Power(domain, register, half) => half.of(match register {
                PowerReg::Present => self.power.present(domain),
                PowerReg::Ready => self.power.ready(domain),
                PowerReg::Transition => self.power.transition(domain),
                // The firmware's view of which powered cores work: they work while it runs.
                PowerReg::Active if self.mcu_running => self.power.ready(domain),
                PowerReg::Active | PowerReg::PowerOn | PowerReg::PowerOff => 0,
            }),
            Reg::CoherencyProtocol => self.control.coherency,
            Reg::McuControl => self.mcu_control,
            Reg::McuStatus => self.mcu_status as u32,
            Reg::As(number, register, half) => self.spaces.read(number, register, half),
            Reg::LatestFlushId => self.control.flush_id,
            Reg::GpuCommand | Reg::Doorbell(_) => 0,
        }
    }

    pub(super) fn set(&mut self, reg: Reg, value: u32, now: u64) {
        match reg {
            Reg::Irq(line, register) => {
                self.irqs.write(line, register, value);
                if (line, register) == (Line::Mmu, IrqReg::Clear) {
                    self.spaces.clear_faults(value & MMU_IRQ_FAULTS);
                }
            }
            Reg::GpuCommand => self.gpu_command(value, now),
            Reg::L2Config => self.control.l2_config = value,
            Reg::TimestampOffset(half) => {
                let offset = &mut self.control.timestamp_offset;
                *offset = half.replace(*offset, value);
            }
            Reg::CoherencyProtocol => {
                // The model's COHERENCY_FEATURES offer no protocol.
                if value != GPU_COHERENCY_NONE {
                    let text = format!("COHERENCY_PROTOCOL {value}");
                    self.violations.add(now, Rule::BadValue, text);
                }
                self.control.coherency = value;
            }
            Reg::Power(domain, register, half) => {
                let mask = half.replace(0, value);
                self.switch_power(domain, mask, register == PowerReg::PowerOn, now);
            }
            Reg::McuControl => self.set_mcu_control(value, now),
            Reg::As(number, AsReg::Command, _) => self.as_command(number, value, now),
            Reg::As(number, register, half) => self.spaces.write(number, register, half, value),
            Reg::Doorbell(id) => self.doorbell(id, now),
            _ => {}
        }
    }

    fn doorbell(&mut self, id: u8, now: u64) {
        if self.mcu_running && !self.faults.doorbell_lost(id, now) {
            self.calls.push_back(Call::Doorbell(id));
        }
    }

    // ---- Address spaces

    fn as_command(&mut self, number: u8, value: u32, now: u64) {
        let Some(command) = AsCommand::from_value(value) else {
            let text = format!("AS{number}: AS_COMMAND {value}");
            return self.violations.add(now, Rule::BadValue, text);
        };
        let from = self.needs_l2(now, || format!("AS{number}: {command:?}"));
        match self.spaces.begin(number, command) {
            Err((rule, text)) => self.violations.add(now, rule, text),
            Ok(takes) => match self.faults.as_stuck(number, command as u8, now) {
                Some(u64::MAX) => {}
                late => {
                    let at = from.saturating_add(takes).saturating_add(late.unwrap_or(0));
                    self.events.push(at, Event::AsDone(number));
                }
            },
        }
    }

    fn as_done(&mut self, number: u8) {
        let (work, changed) = self.spaces.complete(number);
        let lsc = match work {
            CacheWork::None => None,
            CacheWork::L2 => Some(FlushMode::None),
            CacheWork::All => Some(FlushMode::CleanInvalidate),
        };
        if let Some(lsc) = lsc {
            self.caches.flush(FlushMode::CleanInvalidate, lsc, None);
            self.note_flush(FlushMode::CleanInvalidate, lsc);
        }
        self.irqs.raise(
            Line::Mmu,
            1 << (MMU_IRQ_COMPLETED_SHIFT + u32::from(number)),
        );
        if changed {
            self.calls.push_back(Call::SpaceChanged(number));
        }
    }

    /// Tells the firmware when the host's flush has left nothing of what came before it in any cache.
    pub(super) fn note_flush(&mut self, l2: FlushMode, lsc: FlushMode) {
        if l2 == FlushMode::CleanInvalidate && lsc == FlushMode::CleanInvalidate {
            self.calls.push_back(Call::CachesFlushed);
        }
    }

    // ---- Power and MCU

    /// From when on the L2 can be used by something that needs it; without power that is a breach, and now.
    pub(super) fn needs_l2(&mut self, now: u64, what: impl Fn() -> String) -> u64 {
        match self.power.availability(Domain::L2) {
            Availability::On => now,
            Availability::Coming(at) => at.max(now),
            Availability::Off => {
                let text = format!("{} without power of the L2", what());
                self.violations.add(now, Rule::NoPower, text);
                now
            }
        }
    }

    pub(super) fn switch_power(&mut self, domain: Domain, mask: u64, on: bool, now: u64) {
        let changes = self.power.switch(domain, mask, on, &mut self.faults, now);
        if changes && !on && domain == Domain::L2 {
            // A cache that goes off writes back what it holds.
            self.caches.clean_invalidate();
            self.note_flush(FlushMode::CleanInvalidate, FlushMode::CleanInvalidate);
        }
        if !changes && !self.power.is_changing() {
            // Nothing is left to be done.
            self.irqs.raise(Line::Gpu, GPU_IRQ_POWER_CHANGED_ALL);
        }
    }

    fn power_changed(&mut self, _domain: Domain) {
        self.irqs.raise(Line::Gpu, GPU_IRQ_POWER_CHANGED);
        if !self.power.is_changing() {
            self.irqs.raise(Line::Gpu, GPU_IRQ_POWER_CHANGED_ALL);
        }
        self.calls.push_back(Call::PowerChanged);
    }

    fn set_mcu_control(&mut self, value: u32, now: u64) {
        match value {
            0 => {
                self.mcu_control = value;
                self.mcu_running = false;
                self.mcu_status = McuStatus::Disabled;
                let firmware = |event: &Event| {
                    matches!(
                        event,
                        Event::Firmware(_) | Event::BootLate | Event::BootFatal
                    )
                };
                self.events.retain(|event| !firmware(event));
                self.calls.retain(|call| *call == Call::Reset);
                self.calls.push_back(Call::Disable);
            }
            1 | 2 if self.mcu_control == 0 => {
                self.mcu_control = value;
                // The boot itself waits for the power.
                self.needs_l2(now, || format!("MCU_CONTROL {value}"));
                let fast = !std::mem::take(&mut self.control.reset_since_boot);
                match self.faults.boot(fast, now) {
                    None => self.start_mcu(),
                    Some(BootFailure::Silent) => {}
                    Some(BootFailure::Fatal) => {
                        let at = now.saturating_add(BOOT_FATAL_NS);
                        self.events.push(at, Event::BootFatal);
                    }
                    Some(BootFailure::Late(by)) => {
                        self.events.push(now.saturating_add(by), Event::BootLate);
                    }
                }
            }
            1 | 2 => {
                let text = format!("MCU_CONTROL {value} while the MCU is on");
                self.violations.add(now, Rule::Busy, text);
            }
            _ => {
                let text = format!("MCU_CONTROL {value}");
                self.violations.add(now, Rule::BadValue, text);
            }
        }
    }

    fn start_mcu(&mut self) {
        self.mcu_running = true;
        self.calls.push_back(Call::Boot);
    }

    pub(super) fn set_mcu_status(&mut self, status: McuStatus) {
        if self.mcu_status != status {
            self.mcu_status = status;
            self.irqs.raise(Line::Gpu, GPU_IRQ_MCU_STATUS_CHANGED);
        }
    }

    /// Reports a fault that nothing caused.
    fn spurious(&mut self, number: usize, now: u64) {
        match self.faults.spurious(number, now) {
            Some(Kind::Spurious {
                what: Spurious::Mmu,
                code,
                address,
                space,
                ..
            }) => self.page_fault(space, code, address, Access::Read, 0),
            Some(Kind::Spurious { code, address, .. }) => self.gpu_fault(code.into(), address),
            _ => {}
        }
    }
}
