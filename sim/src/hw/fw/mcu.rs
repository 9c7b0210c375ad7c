//! The firmware's state, and what calls it.

use super::Firmware;
use super::layout::{GROUPS, STREAMS, glb};
use super::suspend::SavedStream;
use crate::cost::UNITS_PER_CORE;
use crate::csf::{self, Event, Fault, Queue, Stop, SyncWait};
use crate::endpoint::Endpoint;
use crate::hw::ctx::{Ctx, McuFault};
use crate::hw::options::Options;
use crate::hw::power::Domain;
use crate::hw::regs::{JOB_IRQ_GLOBAL, McuStatus};

/// Nanoseconds from MCU_CONTROL to a firmware that is up. Assumed.
const BOOT_NS: u64 = 50_000;
/// Nanoseconds from a doorbell to the firmware's look at what has changed. Assumed.
pub(super) const DOORBELL_NS: u64 = 2_000;
/// Instructions of a stream that run at first before the firmware looks again, and at most after a long while without
/// a wait: effects show in memory up to so much too early.
pub(super) const SLICE: std::ops::RangeInclusive<u64> = 1 << 8..=1 << 16;
/// Seconds of the GPU's clock for which one core may execute one job before it is taken never to end: the driver's
/// timers strike earlier (`panthor_sched.c`, `JOB_TIMEOUT_MS`).
const ENDLESS_S: u64 = 10;
/// Warp instructions of a job and core beyond which it is taken never to end in any case: minutes of host time.
const MAX_INSTRUCTIONS: u64 = 1 << 30;

/// Something to do later, as [`Ctx::schedule`] carries it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// The sections are loaded: publish.
    Boot,
    /// Look at the global interface.
    Global,
    /// Look at the streams of a user doorbell.
    Doorbell(u8),
    /// A step of a stream has come to its end.
    Settle(StreamTurn),
    /// A stream goes on.
    Run(StreamTurn),
    /// A group's jobs may have made no progress for too long.
    Progress(u32),
    /// A group leaves its slot.
    Leave(u32, u32),
    /// All groups may have been idle for long enough.
    GlobalIdle(u32),
}

/// A stream of a group, at one of its turns: what was asked for at an earlier one is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StreamTurn {
    pub group: u32,
    pub stream: usize,
    pub turn: u32,
}

/// Bits of a turn in a token; turns count modulo this.
const TURN_BITS: u32 = 24;
pub(super) const TURN_MASK: u32 = (1 << TURN_BITS) - 1;

impl Token {
    /// Kind in bits 0 to 3, stream in 4 to 7, turn in 8 to 31, group above.
    pub(super) fn pack(self) -> u64 {
        let parts = |kind: u64, stream: usize, turn: u32, group: u32| {
            kind | (stream as u64) << 4 | u64::from(turn & TURN_MASK) << 8 | u64::from(group) << 32
        };
        match self {
            Token::Boot => 0,
            Token::Global => 1,
            Token::Doorbell(id) => parts(2, 0, id.into(), 0),
            Token::Settle(t) => parts(3, t.stream, t.turn, t.group),
            Token::Run(t) => parts(4, t.stream, t.turn, t.group),
            Token::Progress(group) => parts(5, 0, 0, group),
            Token::Leave(group, turn) => parts(6, 0, turn, group),
            Token::GlobalIdle(turn) => parts(7, 0, turn, 0),
        }
    }

    fn unpack(token: u64) -> Self {
        let group = (token >> 32) as u32;
        let turn = (token >> 8) as u32 & TURN_MASK;
        let stream = StreamTurn {
            group,
            stream: (token >> 4) as usize % STREAMS,
            turn,
        };
        match token & 0xf {
            0 => Token::Boot,
            1 => Token::Global,
            2 => Token::Doorbell(turn as u8),
            3 => Token::Settle(stream),
            4 => Token::Run(stream),
            5 => Token::Progress(group),
            6 => Token::Leave(group, turn),
            _ => Token::GlobalIdle(turn),
        }
    }
}

/// The global interface.
#[derive(Debug, Default)]
pub(super) struct Global {
    /// The request word as it was last carried out.
    pub done: u32,
    /// Events that wait for the host.
    pub held: u32,
    /// Cycles without progress after which a group is reported; 0 for never.
    pub progress_cycles: u64,
    /// Nanoseconds of idleness after which it is reported.
    pub idle_ns: u64,
    /// Cores that may be used.
    pub core_mask: u64,
    /// Counts what ends idleness.
    pub idle_turn: u32,
    /// Some group has run since idleness was last reported.
    pub worked: bool,
}

/// A group slot.
#[derive(Debug, Default)]
pub(super) struct Slot {
    /// The request word as it was last carried out.
    pub done: u32,
    /// Events that wait for the host.
    pub held: u32,
    pub streams: [StreamSlot; STREAMS],
    pub group: Option<Box<Group>>,
}

/// A stream slot.
#[derive(Debug, Default)]
pub(super) struct StreamSlot {
    /// The request word as it was last carried out.
    pub done: u32,
    /// Events that wait for the host.
    pub held: u32,
}

/// A group on a slot.
#[derive(Debug)]
pub(super) struct Group {
    /// A number that no other group has had.
    pub serial: u32,
    pub space: u8,
    pub endpoint: Endpoint,
    pub suspend_buffer: u64,
    pub streams: [Option<Box<Stream>>; STREAMS],
    /// What a resumed group's streams were.
    pub saved: [Option<SavedStream>; STREAMS],
    /// The suspend buffer was no good: whatever starts is at fault.
    pub lost: bool,
    pub idle: bool,
    /// On its way from the slot.
    pub leaving: Option<Leaving>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Leaving {
    /// To memory, or for ever.
    pub suspend: bool,
    pub turn: u32,
}

/// A stream (CS) that was started.
#[derive(Debug)]
pub(super) struct Stream {
    pub queue: Queue,
    pub doorbell: u8,
    pub base: u64,
    pub size: u64,
    pub input: u64,
    pub output: u64,
    pub activity: Activity,
    pub turn: u32,
    pub slice: u64,
    pub pending: Option<Pending>,
    /// Jobs that are on the cores or wait for them.
    pub jobs: Vec<Running>,
    /// A CS_FAULT is not acknowledged.
    pub faulted: bool,
    /// Chunks that the tiler waits for; a TILER_OOM is not answered where it is not 0.
    pub oom: u16,
}

/// What a stream does.
#[derive(Debug)]
pub(super) enum Activity {
    /// No instruction is left, no work under way.
    Idle,
    /// A step is under way, or the next one asked for.
    Busy,
    /// Until a scoreboard entry is free, or deferred work is due.
    Waiting,
    Blocked(SyncWait),
    /// Another queue's progress.
    Progress,
    /// Shader cores.
    Cores,
    /// The address space is locked.
    Locked,
    /// The host's answer to a fault or a tiler without memory.
    Held,
    /// For ever: in a loop, or for a job that never ends.
    Stuck {
        waits: bool,
    },
    /// A page fault was reported; the address space is not off yet.
    PageFault(Box<Fault>),
    /// Nothing runs any more.
    Dead,
}

/// A step whose end lies ahead.
#[derive(Debug)]
pub(super) struct Pending {
    pub stop: Stop,
    pub events: Vec<Event>,
}

/// A job on the cores.
#[derive(Clone, Copy, Debug)]
pub(super) struct Running {
    pub start: u64,
    /// `u64::MAX` for never.
    pub end: u64,
    /// Cycles of one task; `u64::MAX` for one that never ends.
    pub task: u64,
}

/// The MCU with its program.
#[derive(Debug)]
pub(super) struct Mcu {
    pub up: bool,
    pub device: csf::Device,
    pub global: Global,
    pub slots: [Slot; GROUPS],
    pub next_serial: u32,
    pub threads: usize,
    pub seed: u64,
    pub instruction_limit: u64,
}

impl Mcu {
    pub(super) fn new(options: &Options) -> Self {
        let hz = options.gpu_hz();
        let limit = hz.saturating_mul(ENDLESS_S).saturating_mul(UNITS_PER_CORE);
        Self {
            up: false,
            device: csf::Device::new(options.lsc_rule(), hz),
            global: Global::default(),
            slots: Default::default(),
            next_serial: 1,
            threads: options.threads,
            seed: options.seed,
            instruction_limit: limit.clamp(1 << 16, MAX_INSTRUCTIONS),
        }
    }

    /// The slot of a group.
    pub(super) fn slot_of(&self, serial: u32) -> Option<usize> {
        self.slots
            .iter()
            .position(|slot| slot.group.as_ref().is_some_and(|g| g.serial == serial))
    }

    /// A group that is on its slot to stay.
    pub(super) fn resident(&mut self, slot: usize) -> Option<&mut Group> {
        self.slots[slot]
            .group
            .as_deref_mut()
            .filter(|group| group.leaving.is_none())
    }

    /// A stream of a group that is on its slot to stay.
    pub(super) fn stream(&mut self, slot: usize, stream: usize) -> Option<&mut Stream> {
        self.resident(slot)?.streams[stream].as_deref_mut()
    }

    /// What the firmware cannot access stops it.
    fn guarded(
        &mut self,
        ctx: &mut Ctx<'_>,
        work: impl FnOnce(&mut Self, &mut Ctx<'_>) -> Result<(), McuFault>,
    ) {
        if let Err(fault) = work(self, ctx) {
            self.up = false;
            ctx.violation(super::Breach::Shared(fault.to_string()).to_string());
            ctx.mcu_fault(&fault);
        }
    }

    /// Everything that is on the slots is gone.
    fn drop_groups(&mut self) {
        self.up = false;
        for slot in &mut self.slots {
            if let Some(group) = slot.group.take() {
                self.device.kill_group(group.serial, 0);
                self.device.forget_group(group.serial);
            }
        }
    }

    /// The MCU stops as GLB_HALT asks; MCU_STATUS tells.
    pub(super) fn halt(&mut self, ctx: &mut Ctx<'_>) {
        self.drop_groups();
        ctx.power_off(Domain::Shader);
        ctx.set_mcu_status(McuStatus::Halt);
    }

    fn publish_and_tell(&mut self, ctx: &mut Ctx<'_>) -> Result<(), McuFault> {
        self.publish(ctx)?;
        self.up = true;
        ctx.set_mcu_status(McuStatus::Enabled);
        ctx.raise_job(JOB_IRQ_GLOBAL);
        Ok(())
    }

    fn token(&mut self, ctx: &mut Ctx<'_>, token: Token) -> Result<(), McuFault> {
        match token {
            Token::Boot if !self.up => return self.publish_and_tell(ctx),
            _ if !self.up => return Ok(()),
            Token::Boot => {}
            Token::Global => self.global_doorbell(ctx)?,
            Token::Doorbell(id) => self.user_doorbell(ctx, id)?,
            Token::Settle(at) => {
                if let Some(slot) = self.find(at) {
                    self.settle(ctx, slot, at.stream)?;
                }
            }
            Token::Run(at) => {
                if let Some(slot) = self.find(at) {
                    self.go(ctx, slot, at.stream)?;
                }
            }
            Token::Progress(serial) => {
                if let Some(slot) = self.slot_of(serial) {
                    self.check_progress(ctx, slot)?;
                }
            }
            Token::Leave(serial, turn) => {
                if let Some(slot) = self.slot_of(serial) {
                    self.leave(ctx, slot, turn)?;
                }
            }
            Token::GlobalIdle(turn) => self.check_global_idle(ctx, turn)?,
        }
        Ok(())
    }

    /// The slot, if the turn is the stream's present one.
    fn find(&mut self, at: StreamTurn) -> Option<usize> {
        let slot = self.slot_of(at.group)?;
        let stream = self.stream(slot, at.stream)?;
        (stream.turn & TURN_MASK == at.turn).then_some(slot)
    }
}

impl Firmware for Mcu {
    fn boot(&mut self, ctx: &mut Ctx<'_>) {
        self.drop_groups();
        self.global = Global {
            core_mask: !0,
            ..Global::default()
        };
        let at = ctx.now().saturating_add(BOOT_NS);
        ctx.schedule(at, Token::Boot.pack());
    }

    fn disable(&mut self, _ctx: &mut Ctx<'_>) {
        self.drop_groups();
    }

    fn doorbell(&mut self, ctx: &mut Ctx<'_>, id: u8) {
        if !self.up {
            return;
        }
        let at = ctx.now().saturating_add(DOORBELL_NS);
        let token = match id {
            0 => Token::Global,
            id => Token::Doorbell(id),
        };
        ctx.schedule(at, token.pack());
    }

    fn event(&mut self, ctx: &mut Ctx<'_>, token: u64) {
        self.guarded(ctx, |mcu, ctx| mcu.token(ctx, Token::unpack(token)));
    }

    fn address_space_changed(&mut self, ctx: &mut Ctx<'_>, number: u8) {
        if self.up {
            self.guarded(ctx, |mcu, ctx| mcu.space_changed(ctx, number));
        }
    }

    fn power_changed(&mut self, ctx: &mut Ctx<'_>) {
        if self.up && ctx.is_powered(Domain::Shader) {
            self.guarded(ctx, |mcu, ctx| {
                mcu.go_all(ctx, |stream| matches!(stream.activity, Activity::Cores))
            });
        }
    }

    fn caches_flushed(&mut self, ctx: &mut Ctx<'_>) {
        self.device.flushed_by_host(ctx.now_cycles());
    }

    fn reset(&mut self) {
        self.drop_groups();
        self.global.done &= !glb::HALT;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_read_back() {
        let at = StreamTurn {
            group: u32::MAX,
            stream: STREAMS - 1,
            turn: TURN_MASK,
        };
        for token in [
            Token::Boot,
            Token::Global,
            Token::Doorbell(63),
            Token::Settle(at),
            Token::Run(at),
            Token::Progress(9),
            Token::Leave(7, 3),
            Token::GlobalIdle(TURN_MASK),
        ] {
            assert_eq!(Token::unpack(token.pack()), token);
        }
    }
}
