//! The registers of the GPU: what the real panthor driver (Linux 6.12, 7.2, 7.3) talks to.
//!
//! A kernel in another process accesses the registers one by one ([`bridge`]); [`Hardware`] answers. Nothing happens
//! between accesses: what takes time is an event of the model, at a time of the guest's clock, for which the kernel
//! calls back ([`Hardware::next_deadline`], [`Hardware::tick`]). So a run depends on nothing but the accesses, the
//! options and what is in the guest's memory.
//!
//! - [`regs`]: offsets and fields. [`crate::model`]: the values of ID and feature registers.
//! - [`irq`], [`power`], [`command`], [`address_space`] with [`page_table`]: the blocks.
//! - [`fw`]: the firmware, which runs command streams; [`ctx`] is what it reaches of the rest.
//! - [`fault`], [`injection`]: what is made to go wrong. [`violation`]: what the driver did wrong.
//!
//! # Invented
//! Times of resets, flushes, power changes and MMU commands; which registers a reset clears; that the whole address
//! space waits while a region of it is locked; that GPU_CYCLE_COUNT counts always.
//!
//! # Glossary
//! - **MCU**: the microcontroller that runs the firmware. **AS**: address space of the MMU, number 0 is the MCU's.
//! - **line**: one of the three interrupts, job, mmu and gpu.

pub mod address_space;
pub mod bridge;
pub mod command;
pub mod ctx;
pub mod event;
pub mod fault;
pub mod fw;
pub mod injection;
pub mod irq;
pub mod options;
pub mod page_table;
pub mod physmem;
pub mod power;
pub mod regs;
#[cfg(test)]
mod tests;
pub mod violation;

use std::collections::VecDeque;

use mali_isa::csf::FlushMode;

use address_space::{AddressSpaces, CacheWork};
use command::Control;
use ctx::{Clock, Ctx, MCU_SPACE};
use event::EventQueue;
use fault::{BootFailure, Fault, Kind, Line, Spurious};
use fw::Firmware;
use injection::Faults;
use irq::Irqs;
pub use options::{BadOption, Options};
pub use physmem::PhysMem;
use power::{Domain, Power};
use regs::*;
pub use violation::Violation;
use violation::{Rule, Violations};

use crate::mmu::{Access, Caches};

/// Nanoseconds from MCU_CONTROL to FATAL, for a boot that fails so. Assumed.
const BOOT_FATAL_NS: u64 = 1_000_000;
/// Events and firmware calls of one access: more at one time are a loop, and wait for the next access.
const MAX_STEPS: u32 = 1 << 20;

/// Something that is to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
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
enum Call {
    Boot,
    Disable,
    Reset,
    Doorbell(u8),
    Event(u64),
    SpaceChanged(u8),
    PowerChanged,
}

/// Everything but the firmware.
#[derive(Debug)]
pub struct Core {
    options: Options,
    clock: Clock,
    // Before the memory, whose pages they know.
    caches: Caches,
    memory: PhysMem,
    spaces: AddressSpaces,
    irqs: Irqs,
    power: Power,
    faults: Faults,
    events: EventQueue<Event>,
    calls: VecDeque<Call>,
    violations: Violations,
    control: Control,
    mcu_control: u32,
    mcu_status: McuStatus,
    mcu_running: bool,
}

/// What a run was.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// Register reads.
    pub reads: u64,
    /// Register writes.
    pub writes: u64,
    /// Calls at a deadline.
    pub ticks: u64,
    /// The guest's clock at the last access, in nanoseconds.
    pub end: u64,
    /// How often the lines job, mmu and gpu rose.
    pub interrupts: [u64; 3],
    /// Each fault that was asked for, and how often it struck.
    pub faults: Vec<(String, u64)>,
    /// What the driver did that hardware leaves undefined.
    pub violations: Vec<Violation>,
    /// Violations beyond those of the list.
    pub more_violations: u64,
}

/// A GPU behind its registers.
pub struct Hardware {
    core: Core,
    firmware: Box<dyn Firmware>,
    now: u64,
    stall: u64,
    summary: Summary,
}

impl std::fmt::Debug for Hardware {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hardware")
            .field("core", &self.core)
            .field("now", &self.now)
            .finish_non_exhaustive()
    }
}

impl Hardware {
    /// A GPU that reaches `memory`.
    #[must_use]
    pub fn new(options: Options, memory: PhysMem) -> Self {
        let firmware = fw::new(&options);
        Self::with_firmware(options, memory, firmware)
    }

    /// The same with another program on its MCU.
    #[must_use]
    pub fn with_firmware(options: Options, memory: PhysMem, firmware: Box<dyn Firmware>) -> Self {
        let faults = Faults::new(&options.faults, options.seed);
        let mut events = EventQueue::default();
        for (at, number) in faults.spurious_times() {
            events.push(at, Event::Spurious(number));
        }
        let caches = Caches::new();
        let control = Control {
            flush_id: caches.latest_flush(),
            flushes_seen: caches.latest_flush(),
            reset_since_boot: true,
            ..Control::default()
        };
        let core = Core {
            clock: Clock::new(options.gpu_hz()),
            power: Power::new(options.cores),
            options,
            caches,
            memory,
            spaces: AddressSpaces::default(),
            irqs: Irqs::default(),
            faults,
            events,
            calls: VecDeque::new(),
            violations: Violations::default(),
            control,
            mcu_control: 0,
            mcu_status: McuStatus::Disabled,
            mcu_running: false,
        };
        Self {
            core,
            firmware,
            now: 0,
            stall: 0,
            summary: Summary::default(),
        }
    }

    /// Gives the physical address of the page that user space maps to read LATEST_FLUSH_ID; its first word shows the id
    /// from now on.
    pub fn set_flush_page(&mut self, page: u64) {
        self.core.control.flush_page = Some(page);
        self.core.show_flush_id();
    }

    /// Reads `size` bytes (4 or 8) at `offset` of the register window, at `now` nanoseconds of the guest's clock. A clock
    /// that goes back is taken to stand.
    pub fn read(&mut self, offset: u32, size: u32, now: u64) -> u64 {
        self.summary.reads += 1;
        self.advance(now);
        let value = match self.check(offset, size, "read") {
            None => 0,
            Some(words) => (0..words).fold(0, |value, word| {
                let half = self.read_word(offset + 4 * word);
                value | u64::from(half) << (32 * word)
            }),
        };
        self.finish();
        value
    }

    /// Writes `size` bytes (4 or 8) at `offset` of the register window, the lower word first.
    pub fn write(&mut self, offset: u32, size: u32, value: u64, now: u64) {
        self.summary.writes += 1;
        self.advance(now);
        if let Some(words) = self.check(offset, size, "write") {
            for word in 0..words {
                self.write_word(offset + 4 * word, (value >> (32 * word)) as u32);
            }
        }
        self.finish();
    }

    /// Lets time pass: to be called when [`Hardware::next_deadline`] has come.
    pub fn tick(&mut self, now: u64) {
        self.summary.ticks += 1;
        self.advance(now);
        self.finish();
    }

    /// The levels of the interrupt lines: bit 0 job, 1 mmu, 2 gpu.
    #[must_use]
    pub fn lines(&self) -> u32 {
        self.core.irqs.levels()
    }

    /// When [`Hardware::tick`] is to be called, in nanoseconds of the guest's clock.
    #[must_use]
    pub fn next_deadline(&self) -> Option<u64> {
        self.core.next_deadline()
    }

    /// Nanoseconds that the last access took longer than usual, by a fault.
    #[must_use]
    pub fn stall(&self) -> u64 {
        self.stall
    }

    /// What has been so far.
    #[must_use]
    pub fn summary(&self) -> Summary {
        let faults = self.core.faults.struck();
        Summary {
            end: self.now,
            interrupts: self.core.irqs.rises(),
            faults: faults
                .map(|(fault, count): (&Fault, u64)| (fault.to_string(), count))
                .collect(),
            violations: self.core.violations.list().to_vec(),
            more_violations: self.core.violations.more(),
            ..self.summary.clone()
        }
    }

    /// Words of an access, `None` where it is none that registers take.
    fn check(&mut self, offset: u32, size: u32, what: &str) -> Option<u32> {
        let aligned =
            offset % 4 == 0 && matches!(size, 4 | 8) && offset.checked_add(size).is_some();
        if !aligned {
            let text = format!("{what} of {size} bytes at {offset:#x}");
            self.core.violations.add(self.now, Rule::NoRegister, text);
            return None;
        }
        self.stall = self.core.faults.slow_register(offset, self.now);
        Some(size / 4)
    }

    fn read_word(&mut self, offset: u32) -> u32 {
        let now = self.now;
        let core = &mut self.core;
        let Some(reg) = Reg::decode(offset, core.options.cores) else {
            let text = format!("read at {offset:#x}");
            core.violations.add(now, Rule::NoRegister, text);
            return 0;
        };
        if !reg.readable() {
            let text = format!("read of {reg:?}");
            core.violations.add(now, Rule::WriteOnly, text);
            return 0;
        }
        core.value(reg, now)
    }

    fn write_word(&mut self, offset: u32, value: u32) {
        let now = self.now;
        let core = &mut self.core;
        let Some(reg) = Reg::decode(offset, core.options.cores) else {
            let text = format!("write at {offset:#x}");
            return core.violations.add(now, Rule::NoRegister, text);
        };
        if !reg.writable() {
            let text = format!("write of {reg:?}");
            return core.violations.add(now, Rule::ReadOnly, text);
        }
        core.set(reg, value, now);
    }

    /// Carries out what is due until `now`, each at its own time.
    fn advance(&mut self, now: u64) {
        self.stall = 0;
        let now = now.max(self.now);
        for _ in 0..MAX_STEPS {
            let Some(at) = self.core.next_deadline().filter(|at| *at <= now) else {
                break;
            };
            self.now = self.now.max(at);
            self.core.step(at, self.now);
            self.finish();
        }
        self.now = now;
    }

    /// Makes the calls of the firmware that are due, and looks at the interrupts.
    fn finish(&mut self) {
        for _ in 0..MAX_STEPS {
            let now = self.now;
            let Some(call) = self.core.next_call(now) else {
                break;
            };
            let mut ctx = Ctx {
                core: &mut self.core,
                now,
            };
            match call {
                Call::Boot => self.firmware.boot(&mut ctx),
                Call::Disable => self.firmware.disable(&mut ctx),
                Call::Reset => self.firmware.reset(),
                Call::Doorbell(id) => self.firmware.doorbell(&mut ctx, id),
                Call::Event(token) => self.firmware.event(&mut ctx, token),
                Call::SpaceChanged(number) => {
                    self.firmware.address_space_changed(&mut ctx, number);
                }
                Call::PowerChanged => self.firmware.power_changed(&mut ctx),
            }
        }
        let core = &mut self.core;
        core.follow_flush_id(self.now);
        for (rule, text) in core.spaces.take_breaches() {
            core.violations.add(self.now, rule, text);
        }
        core.irqs.update(&mut core.faults, self.now);
    }
}

impl Core {
    fn next_deadline(&self) -> Option<u64> {
        let deadlines = [
            self.events.next_deadline(),
            self.power.next_deadline(),
            self.irqs.next_deadline(),
        ];
        deadlines.into_iter().flatten().min()
    }

    /// Carries out one thing that is due at `at`; late interrupts are looked at afterwards.
    fn step(&mut self, at: u64, now: u64) {
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
    fn next_call(&mut self, now: u64) -> Option<Call> {
        loop {
            let call = *self.calls.front()?;
            let control = matches!(call, Call::Disable | Call::Reset);
            if !control && self.spaces.is_locked(MCU_SPACE) {
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

    fn schedule_firmware(&mut self, at: u64, token: u64) {
        self.events.push(at, Event::Firmware(token));
    }

    // ---- Registers

    fn value(&mut self, reg: Reg, now: u64) -> u32 {
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

    fn set(&mut self, reg: Reg, value: u32, now: u64) {
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
        if !self.power.is_on(Domain::L2) {
            let text = format!("AS{number}: {command:?} without power of the L2");
            self.violations.add(now, Rule::NoPower, text);
        }
        match self.spaces.begin(number, command) {
            Err((rule, text)) => self.violations.add(now, rule, text),
            Ok(_) if self.faults.as_stuck(number, command as u8, now) => {}
            Ok(takes) => {
                let at = now.saturating_add(takes);
                self.events.push(at, Event::AsDone(number));
            }
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
        }
        self.irqs.raise(
            Line::Mmu,
            1 << (MMU_IRQ_COMPLETED_SHIFT + u32::from(number)),
        );
        if changed {
            self.calls.push_back(Call::SpaceChanged(number));
        }
    }

    // ---- Power and MCU

    fn switch_power(&mut self, domain: Domain, mask: u64, on: bool, now: u64) {
        let changes = self.power.switch(domain, mask, on, &mut self.faults, now);
        if changes && !on && domain == Domain::L2 {
            // A cache that goes off writes back what it holds.
            self.caches.clean_invalidate();
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
                if !self.power.is_on(Domain::L2) {
                    let text = "MCU_CONTROL without power of the L2".to_owned();
                    self.violations.add(now, Rule::NoPower, text);
                }
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

    fn set_mcu_status(&mut self, status: McuStatus) {
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
