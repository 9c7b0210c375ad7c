//! The driver's sequences against the registers, and what no driver does.

mod hostile;
mod sequences;
mod translation;

use std::sync::{Arc, Mutex};

use super::ctx::Ctx;
use super::fw::Firmware;
use super::page_table::WalkFault;
use super::regs::{JOB_IRQ_GLOBAL, McuStatus};
use super::violation::Rule;
use super::{Hardware, Options, PhysMem};

/// What was called of the firmware, with the time.
type Calls = Arc<Mutex<Vec<(u64, String)>>>;

/// A firmware that comes up after 10 µs and writes down what it is told.
struct Probe {
    calls: Calls,
}

impl Probe {
    fn note(&self, now: u64, call: String) {
        self.calls.lock().unwrap().push((now, call));
    }
}

impl Firmware for Probe {
    fn boot(&mut self, ctx: &mut Ctx<'_>) {
        self.note(ctx.now(), "boot".into());
        ctx.schedule(ctx.now() + 10_000, 0);
    }
    fn disable(&mut self, ctx: &mut Ctx<'_>) {
        self.note(ctx.now(), "disable".into());
    }
    fn doorbell(&mut self, ctx: &mut Ctx<'_>, id: u8) {
        self.note(ctx.now(), format!("doorbell {id}"));
    }
    fn event(&mut self, ctx: &mut Ctx<'_>, token: u64) {
        self.note(ctx.now(), format!("event {token}"));
        ctx.set_mcu_status(McuStatus::Enabled);
        ctx.raise_job(JOB_IRQ_GLOBAL);
    }
    fn address_space_changed(&mut self, ctx: &mut Ctx<'_>, number: u8) {
        self.note(ctx.now(), format!("space {number}"));
    }
    fn power_changed(&mut self, ctx: &mut Ctx<'_>) {
        self.note(ctx.now(), "power".into());
    }
    fn caches_flushed(&mut self, ctx: &mut Ctx<'_>) {
        self.note(ctx.now(), "flushed".into());
    }
    fn reset(&mut self) {
        self.note(0, "reset".into());
    }
}

/// Bytes of the guest's memory.
const MEMORY: u64 = 4 << 20;

/// A GPU with a driver's view of its registers.
struct Board {
    hw: Hardware,
    now: u64,
    calls: Calls,
    /// Another view of the guest's memory.
    memory: PhysMem,
}

impl Board {
    fn new(options: &str) -> Self {
        let options: Options = options.parse().unwrap();
        let file = rustix::fs::memfd_create("guest", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&file, MEMORY).unwrap();
        let calls = Calls::default();
        let firmware = Probe {
            calls: calls.clone(),
        };
        let memory = PhysMem::map(&file, MEMORY).unwrap();
        let hw = Hardware::with_firmware(options, memory, Box::new(firmware));
        Self {
            hw,
            now: 0,
            calls,
            memory: PhysMem::map(&file, MEMORY).unwrap(),
        }
    }

    fn read(&mut self, offset: u32) -> u32 {
        self.now += 100;
        self.hw.read(offset, 4, self.now) as u32
    }

    fn write(&mut self, offset: u32, value: u32) {
        self.now += 100;
        self.hw.write(offset, 4, value.into(), self.now);
    }

    /// As `gpu_write64`: the lower half first.
    fn write64(&mut self, offset: u32, value: u64) {
        self.write(offset, value as u32);
        self.write(offset + 4, (value >> 32) as u32);
    }

    /// Lets time pass, as the bridge's timer does.
    fn run(&mut self, ns: u64) {
        let end = self.now + ns;
        while let Some(at) = self.hw.next_deadline().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            self.hw.tick(self.now);
        }
        self.now = end;
        self.hw.tick(end);
    }

    fn calls(&self) -> Vec<String> {
        let mut calls = self.calls.lock().unwrap();
        calls.drain(..).map(|(_, call)| call).collect()
    }

    fn broken(&self) -> Vec<Rule> {
        self.hw
            .summary()
            .violations
            .iter()
            .map(|v| v.rule)
            .collect()
    }

    /// `panthor_gpu_l2_power_on`.
    fn l2_on(&mut self) {
        self.write(0x304, 31);
        assert_eq!(self.read(0x220), 0);
        self.write(0x1a0, 1);
        self.run(100_000);
        assert_eq!(self.read(0x160), 1);
    }

    /// `as_send_cmd_and_wait`.
    fn as_command(&mut self, space: u32, command: u32) {
        let base = 0x2400 + 0x40 * space;
        self.write(base + 0x18, command);
        assert_eq!(self.read(base + 0x28), 1);
        self.run(10_000);
        assert_eq!(self.read(base + 0x28), 0);
    }

    /// `panthor_mmu_as_enable` with a table at `root`.
    fn as_enable(&mut self, space: u32, root: u64) {
        let base = 0x2400 + 0x40 * space;
        self.write64(base, root);
        self.write64(base + 8, MEMATTR);
        self.write64(base + 0x30, TRANSCFG);
        self.as_command(space, 1);
    }

    fn walk(&self, space: u8, va: u64, access: crate::mmu::Access) -> Result<u64, WalkFault> {
        let core = &self.hw.core;
        let leaf = core.spaces.walk(&core.memory, space, va, access)?;
        Ok(leaf.physical + (va - leaf.va))
    }
}

/// What `mair_to_memattr` makes of io-pgtable-arm's MAIR: index 0 not cached, 1 cached, 2 device, 3 not cached.
const MEMATTR: u64 = 0x004c_4c4c_8f4c;
/// `panthor_vm_active` for 48 bits.
const TRANSCFG: u64 = 2 << 24 | 1 << 30 | 6 | 7 << 6;
