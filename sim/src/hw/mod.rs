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
//! - [`fault`], [`fault_text`], [`injection`]: what is made to go wrong. [`violation`]: what the driver did wrong.
//!
//! # Invented
//! Times of resets, flushes, power changes and MMU commands; which registers a reset clears; that a
//! stream's whole address space waits while a region of it is locked, and the MCU never; that GPU_CYCLE_COUNT counts always;
//! that MCU_CONTROL starts the MCU when it leaves DISABLE, and neither a second ENABLE or AUTO nor the L2's power does.
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
pub mod fault_text;
pub mod fw;
mod gpu;
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

use address_space::AddressSpaces;
use command::Control;
use ctx::{Clock, Ctx};
use event::EventQueue;
use fault::Fault;
use fw::Firmware;
pub use gpu::Core;
use gpu::{Call, Event};
use injection::Faults;
use irq::Irqs;
pub use options::{BadOption, Options};
pub use physmem::PhysMem;
use power::Power;
use regs::{McuStatus, Reg};
pub use violation::Violation;
use violation::{Rule, Violations};

pub use crate::endpoint::JobLog;
use crate::mmu::Caches;

/// Events and firmware calls of one access: more at one time are a loop, and wait for the next access.
const MAX_STEPS: u32 = 1 << 20;

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
    /// The compute jobs that ran, with their cycles by the cost model.
    pub jobs: JobLog,
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
            jobs: JobLog::default(),
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
            jobs: self.core.jobs.clone(),
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
                Call::CachesFlushed => self.firmware.caches_flushed(&mut ctx),
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
