//! A queue's state as bytes: what a suspend buffer holds of it.
//!
//! The layout is this model's own (Arm's firmware keeps its own secret). Times are relative to the moment of saving, so
//! that a queue can go on later. Reading takes nothing on trust: the memory that holds the bytes is foreign.

use mali_isa::csf::{
    FlushMode, HeapOperation, Instr, OtherFlushMode, REGISTERS, SCOREBOARDS, State, SyncScope,
};
use thiserror::Error;

use super::background::{Deferred, SyncOp, Work};
use super::device::Device;
use super::heap;
use super::queue::{CALL_DEPTH, Frame, Queue};
use super::registers::Registers;
use super::scoreboard::{Effect, Scoreboard, UNKNOWN_ENTRY};
use crate::mmu::{AgentSet, Knowledge};

/// Why saved bytes are no state of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum BadState {
    /// They end too early.
    #[error("the saved state ends in its {0}")]
    Truncated(&'static str),
    /// They go on after the end.
    #[error("{0} bytes follow the saved state")]
    TooLong(usize),
    /// A field holds what no queue has.
    #[error("the saved state has {value:#x} as {field}")]
    Field {
        /// Which.
        field: &'static str,
        /// Its value.
        value: u64,
    },
}

/// A time that never comes.
const NEVER: u64 = u64::MAX;

/// Operations in flight, deferred instructions, or agents of a set: no queue has more.
const MANY: u32 = 1 << 16;

struct Writer(Vec<u8>);

impl Writer {
    fn u8(&mut self, value: u8) {
        self.0.push(value);
    }
    fn flag(&mut self, value: bool) {
        self.u8(value.into());
    }
    fn u32(&mut self, value: u32) {
        self.0.extend(value.to_le_bytes());
    }
    fn u64(&mut self, value: u64) {
        self.0.extend(value.to_le_bytes());
    }
    fn count(&mut self, len: usize) {
        self.u32(len.min(MANY as usize) as u32);
    }
    fn set(&mut self, set: &AgentSet) {
        let (below, extra) = set.parts();
        self.u32(below);
        self.count(extra.len());
        extra
            .iter()
            .take(MANY as usize)
            .for_each(|agent| self.u32(*agent));
    }
    fn known(&mut self, known: &Knowledge) {
        self.set(&known.waited);
        self.set(&known.visible);
    }
    fn option<T>(&mut self, value: Option<&T>, write: impl FnOnce(&mut Self, &T)) {
        self.flag(value.is_some());
        if let Some(value) = value {
            write(self, value);
        }
    }
    /// Time left until `at`.
    fn left(&mut self, at: u64, now: u64) {
        self.u64(if at == NEVER {
            NEVER
        } else {
            at.saturating_sub(now)
        });
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    field: &'static str,
    agents: u32,
}

impl Reader<'_> {
    fn bad(&self, value: u64) -> BadState {
        BadState::Field {
            field: self.field,
            value,
        }
    }
    fn take<const N: usize>(&mut self) -> Result<[u8; N], BadState> {
        let (head, rest) = self
            .bytes
            .split_first_chunk()
            .ok_or(BadState::Truncated(self.field))?;
        self.bytes = rest;
        Ok(*head)
    }
    fn u8(&mut self) -> Result<u8, BadState> {
        self.take::<1>().map(|[byte]| byte)
    }
    fn below(&mut self, bound: u8) -> Result<u8, BadState> {
        let value = self.u8()?;
        if value >= bound {
            return Err(self.bad(value.into()));
        }
        Ok(value)
    }
    fn flag(&mut self) -> Result<bool, BadState> {
        self.below(2).map(|value| value != 0)
    }
    fn u32(&mut self) -> Result<u32, BadState> {
        self.take().map(u32::from_le_bytes)
    }
    fn u64(&mut self) -> Result<u64, BadState> {
        self.take().map(u64::from_le_bytes)
    }
    fn count(&mut self, most: u32) -> Result<u32, BadState> {
        let count = self.u32()?;
        if count > most {
            return Err(self.bad(count.into()));
        }
        Ok(count)
    }
    fn agent(&mut self) -> Result<u32, BadState> {
        let agent = self.u32()?;
        if agent == 0 || agent >= self.agents {
            return Err(self.bad(agent.into()));
        }
        Ok(agent)
    }
    fn set(&mut self) -> Result<AgentSet, BadState> {
        let below = self.u32()?;
        if below > self.agents {
            return Err(self.bad(below.into()));
        }
        let mut set = AgentSet::below(below);
        for _ in 0..self.count(MANY)? {
            let agent = self.agent()?;
            set.insert(agent);
        }
        Ok(set)
    }
    fn known(&mut self) -> Result<Knowledge, BadState> {
        Ok(Knowledge {
            waited: self.set()?,
            visible: self.set()?,
        })
    }
    fn option<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, BadState>,
    ) -> Result<Option<T>, BadState> {
        self.flag()?.then(|| read(self)).transpose()
    }
}

/// `now` and what is left.
fn at(now: u64, left: u64) -> u64 {
    if left == NEVER {
        NEVER
    } else {
        now.saturating_add(left)
    }
}

impl Queue {
    /// The queue's state: registers, scoreboard entries with the time that their work still takes, call stack, deferred
    /// instructions. Its jobs leave the shader cores: [`Device::kill_group`] must follow.
    ///
    /// What the checks of order know of other queues' jobs is part of it. `room` is the number of bytes there is: where
    /// that knowledge does not fit, all that has ended by now counts as known.
    #[must_use]
    pub fn save(&self, device: &Device, now: u64, room: usize) -> Vec<u8> {
        let bytes = self.save_known(device, now, &self.known, false);
        if bytes.len() <= room {
            return bytes;
        }
        let all = Knowledge::below(device.agents());
        self.save_known(device, now, &all, true)
    }

    fn save_known(&self, device: &Device, now: u64, known: &Knowledge, brief: bool) -> Vec<u8> {
        let mut w = Writer(Vec::with_capacity(1024));
        self.registers
            .parts()
            .for_each(|(value, state)| match state {
                Some(state) => {
                    w.u8(state);
                    w.u32(value);
                }
                None => w.u8(0),
            });
        w.u8(self.endpoint_entry);
        w.u8(self.other_entry);
        w.flag(self.compute);
        w.flag(self.error);
        w.option(self.heap.as_ref(), |w, heap| w.u64(*heap));
        w.option(self.oom_handler.as_ref(), |w, (start, bytes)| {
            w.u64(*start);
            w.u32(*bytes);
        });
        w.u64(self.extract());
        w.u64(self.since_wait());
        w.u64(device.progress_of(self.group, self.index));
        w.u8(self.frames.len() as u8);
        for frame in &self.frames {
            w.u64(frame.start);
            w.u64(frame.pc);
            w.u64(frame.end);
        }
        w.known(known);
        let operations: Vec<_> = self.scoreboard.operations().collect();
        w.count(operations.len());
        for (entry, done_at, effect) in operations.into_iter().take(MANY as usize) {
            w.u8(entry);
            w.left(done_at, now);
            w.u64(effect.registers as u64);
            w.u64((effect.registers >> 64) as u64);
            w.option(effect.agent.as_ref(), |w, agent| w.u32(*agent));
            w.flag(effect.past_lsc);
            w.option(effect.visible.as_ref().filter(|_| !brief), Writer::set);
            w.option(effect.known.as_ref().filter(|_| !brief), Writer::known);
        }
        w.count(self.deferred.len());
        for deferred in self.deferred.iter().take(MANY as usize) {
            w.left(deferred.start, now);
            w.u64(deferred.pc);
            w.u64(deferred.word);
            w.known(if brief { known } else { &deferred.known });
            write_work(&mut w, &deferred.work);
        }
        w.0
    }

    /// Goes on with a saved state at cycle `now`. Jobs that were under way get the shader cores again after those that
    /// have them. The queue must be a new one with its ring.
    ///
    /// # Errors
    /// [`BadState`] where the bytes are no state of a queue. The queue is unchanged then.
    pub fn restore(&mut self, bytes: &[u8], device: &mut Device, now: u64) -> Result<(), BadState> {
        let mut r = Reader {
            bytes,
            field: "registers",
            agents: device.agents(),
        };
        let mut registers = Registers::new();
        for register in 0..REGISTERS {
            match r.below(2 + UNKNOWN_ENTRY + 1)? {
                0 => {}
                state => registers.set_part(register, r.u32()?, state),
            }
        }
        r.field = "selected scoreboard entry";
        let endpoint_entry = r.below(UNKNOWN_ENTRY + 1)?;
        let other_entry = r.below(UNKNOWN_ENTRY + 1)?;
        r.field = "flag";
        let (compute, error) = (r.flag()?, r.flag()?);
        r.field = "tiler heap";
        let heap = r.option(Reader::u64)?;
        if let Some(heap) = heap.filter(|heap| heap % heap::ALIGNMENT != 0) {
            return Err(r.bad(heap));
        }
        r.field = "exception handler";
        let oom_handler = r.option(|r| Ok((r.u64()?, r.u32()?)))?;
        if let Some((start, _)) =
            oom_handler.filter(|(start, bytes)| (start | u64::from(*bytes)) % 8 != 0)
        {
            return Err(r.bad(start));
        }
        r.field = "position";
        let (extract, since_wait, progress) = (r.u64()?, r.u64()?, r.u64()?);
        if extract % 8 != 0 {
            return Err(r.bad(extract));
        }
        r.field = "call stack";
        let mut frames = Vec::new();
        for _ in 0..r.below(CALL_DEPTH as u8 + 1)? {
            let frame = Frame {
                start: r.u64()?,
                pc: r.u64()?,
                end: r.u64()?,
            };
            if frame.pc % 8 != 0 || frame.pc < frame.start || frame.pc > frame.end {
                return Err(r.bad(frame.pc));
            }
            frames.push(frame);
        }
        r.field = "knowledge";
        let known = r.known()?;
        r.field = "operation in flight";
        let mut operations = Vec::new();
        for _ in 0..r.count(MANY)? {
            let entry = r.below(SCOREBOARDS + 1)?;
            let left = r.u64()?;
            let (low, high) = (r.u64()?, r.u64()?);
            let effect = Effect {
                registers: u128::from(high) << 64 | u128::from(low),
                agent: r.option(Reader::agent)?,
                past_lsc: r.flag()?,
                visible: r.option(Reader::set)?,
                known: r.option(Reader::known)?,
            };
            operations.push((entry, left, effect));
        }
        r.field = "deferred instruction";
        let mut deferred = Vec::new();
        for _ in 0..r.count(MANY)? {
            let (left, pc, word) = (r.u64()?, r.u64()?, r.u64()?);
            let text = match Instr::decode(word) {
                Ok(instr) => instr.to_string(),
                Err(_) => return Err(r.bad(word)),
            };
            deferred.push((
                left,
                Deferred {
                    start: 0,
                    pc,
                    word,
                    text,
                    known: r.known()?,
                    work: read_work(&mut r)?,
                },
            ));
        }
        if !r.bytes.is_empty() {
            return Err(BadState::TooLong(r.bytes.len()));
        }

        // Jobs get the cores when these are free; all that follows from them moves with them.
        let is_job = |effect: &Effect| effect.agent.is_some() && !effect.past_lsc;
        let any_job = operations
            .iter()
            .any(|(_, left, effect)| is_job(effect) && *left != 0);
        let start = if any_job {
            device.cores_free_at().max(now)
        } else {
            now
        };
        let mut scoreboard = Scoreboard::default();
        for (entry, left, effect) in operations {
            let end = if left == 0 { now } else { at(start, left) };
            if let (Some(agent), true) = (effect.agent, is_job(&effect)) {
                device.occupy(agent, self.group, end, now);
            }
            scoreboard.add(entry, end, effect);
        }
        self.deferred = deferred
            .into_iter()
            .map(|(left, deferred)| Deferred {
                start: at(start, left),
                ..deferred
            })
            .collect();
        self.registers = registers;
        self.endpoint_entry = endpoint_entry;
        self.other_entry = other_entry;
        self.compute = compute;
        self.error = error;
        self.heap = heap;
        self.oom_handler = oom_handler;
        self.frames = frames;
        self.known = known;
        self.scoreboard = scoreboard;
        self.set_extract(extract);
        self.set_since_wait(since_wait);
        self.forget_view();
        device.set_progress(self.group, self.index, progress);
        Ok(())
    }
}

const FLUSH_MODES: [FlushMode; 3] = [
    FlushMode::None,
    FlushMode::Clean,
    FlushMode::CleanInvalidate,
];
const STATES: [State; 4] = [
    State::Timestamp,
    State::CycleCount,
    State::DisjointCount,
    State::ErrorState,
];

const HEAP_OPERATIONS: [HeapOperation; 3] = [
    HeapOperation::VertexTilerStarted,
    HeapOperation::VertexTilerCompleted,
    HeapOperation::FragmentCompleted,
];

fn place<T: PartialEq>(table: &[T], value: &T) -> u8 {
    table.iter().position(|entry| entry == value).unwrap_or(0) as u8
}

fn write_work(w: &mut Writer, work: &Work) {
    match work {
        Work::Flush { l2, lsc, other } => {
            w.u8(0);
            w.u8(place(&FLUSH_MODES, l2));
            w.u8(place(&FLUSH_MODES, lsc));
            w.flag(*other == OtherFlushMode::Invalidate);
        }
        Work::Sync(op) => {
            w.u8(1);
            w.u64(op.address);
            w.u64(op.data);
            w.flag(op.wide);
            w.flag(op.add);
            w.flag(op.propagate);
            w.flag(op.scope == SyncScope::System);
        }
        Work::Store { address, state } => {
            w.u8(2);
            w.u64(*address);
            w.u8(place(&STATES, state));
        }
        Work::Heap { heap, operation } => {
            w.u8(3);
            w.u64(*heap);
            w.u8(place(&HEAP_OPERATIONS, operation));
        }
    }
}

fn read_work(r: &mut Reader<'_>) -> Result<Work, BadState> {
    Ok(match r.below(4)? {
        0 => Work::Flush {
            l2: FLUSH_MODES[usize::from(r.below(3)?)],
            lsc: FLUSH_MODES[usize::from(r.below(3)?)],
            other: if r.flag()? {
                OtherFlushMode::Invalidate
            } else {
                OtherFlushMode::None
            },
        },
        1 => {
            let op = SyncOp {
                address: r.u64()?,
                data: r.u64()?,
                wide: r.flag()?,
                add: r.flag()?,
                propagate: r.flag()?,
                scope: if r.flag()? {
                    SyncScope::System
                } else {
                    SyncScope::Csg
                },
            };
            if op.address % if op.wide { 8 } else { 4 } != 0 {
                return Err(r.bad(op.address));
            }
            Work::Sync(op)
        }
        2 => {
            let address = r.u64()?;
            if address % 8 != 0 {
                return Err(r.bad(address));
            }
            Work::Store {
                address,
                state: STATES[usize::from(r.below(4)?)],
            }
        }
        _ => {
            let heap = r.u64()?;
            if heap % heap::ALIGNMENT != 0 {
                return Err(r.bad(heap));
            }
            Work::Heap {
                heap,
                operation: HEAP_OPERATIONS[usize::from(r.below(3)?)],
            }
        }
    })
}
