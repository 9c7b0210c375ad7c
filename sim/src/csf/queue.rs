//! One queue: where its instructions come from, and the loop that runs them.

use std::sync::Arc;

use mali_isa::csf::{Condition, INSTR_BYTES, Instr, Reg32};

use super::background::Deferred;
use super::device::{ComputeEndpoint, Device, Event};
use super::exception::{Cause, Fault};
use super::registers::Registers;
use super::scoreboard::{ALL_ENTRIES, Scoreboard, UNKNOWN_ENTRY};
use crate::mmu::{AddressSpace, AgentSet, Caches, Knowledge, LscRule, Port, View};
use crate::shader::MemoryPort;

/// Nested streams of a queue, the root not counted. Source: Mesa decode_csf.c, `MAX_CALL_STACK_DEPTH` ("Limit for
/// Mali-G610", 8 with the active frame).
pub const CALL_DEPTH: usize = 7;

/// Cycles that the front end takes for an instruction. Assumed, not measured.
pub const INSTR_CYCLES: u64 = 16;

/// Instructions after which a stream that neither waits nor ends is taken never to end.
pub const RUNAWAY_INSTRUCTIONS: u64 = 1 << 22;

/// What a queue needs of the world while it runs.
#[derive(Debug)]
pub struct Env<'a, A, E> {
    /// The group's address space.
    pub space: &'a A,
    /// The GPU's caches.
    pub caches: &'a Caches,
    /// The shader cores.
    pub endpoint: &'a E,
    /// What the queues share.
    pub device: &'a mut Device,
    /// The cycle at which the queue goes on; moved forward as it runs.
    pub now: u64,
}

/// A sync object that a queue waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncWait {
    /// GPU address of the object.
    pub address: u64,
    /// Whether it has 64 bits, else 32.
    pub wide: bool,
    /// How the object must compare with the reference: less or equal, or greater.
    pub condition: Condition,
    /// The reference.
    pub reference: u64,
}

/// Why a queue stopped running.
#[derive(Debug)]
pub enum Stop {
    /// No instruction is left. Asynchronous work may still be under way (see [`Queue::drained_at`]).
    Idle,
    /// A scoreboard entry is busy until this cycle: run again then.
    WaitUntil(u64),
    /// A scoreboard entry waits for something that never ends.
    Never,
    /// A sync object does not hold the value yet: run again when it changes (or deferred work is due, see
    /// [`Queue::next_deferred`]).
    Blocked(SyncWait),
    /// Another queue's progress counter has not come so far.
    Progress {
        /// The other queue of the group.
        queue: u8,
        /// The value waited for.
        value: u64,
    },
    /// A job waits for shader cores that are [`ComputeEndpoint::ready`]: run again when they are.
    Endpoint,
    /// The budget of instructions is used up, or a fault was reported that the queue survives: run again.
    Budget,
    /// The stream loops without end.
    Runaway,
    /// The queue faulted and will not go on.
    Fault(Box<Fault>),
}

#[derive(Clone, Debug)]
enum Source {
    /// Words that the driver model gives, without a place in memory.
    Words {
        /// Those that are not known to be done.
        words: Vec<u64>,
        /// Position of the first of them, in bytes.
        base: u64,
    },
    /// A ring buffer in the address space.
    Ring {
        /// Address.
        base: u64,
        /// Bytes, a power of two.
        size: u64,
        /// Where the driver will write next, in bytes, never wrapping.
        insert: u64,
    },
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    pub start: u64,
    pub pc: u64,
    pub end: u64,
}

/// A queue of a group (CS): registers, scoreboards, call stack.
#[derive(Debug)]
pub struct Queue {
    pub(super) group: u32,
    pub(super) index: u8,
    pub(super) registers: Registers,
    pub(super) scoreboard: Scoreboard,
    pub(super) known: Knowledge,
    /// The host's flushes of which `known` tells.
    host_flushes: u64,
    pub(super) deferred: Vec<Deferred>,
    pub(super) endpoint_entry: u8,
    pub(super) other_entry: u8,
    pub(super) compute: bool,
    /// Address of the tiler heap's context (HEAP_SET).
    pub(super) heap: Option<u64>,
    /// The stream that SET_EXCEPTION_HANDLER gives for a tiler without memory: address and bytes.
    pub(super) oom_handler: Option<(u64, u32)>,
    /// The error state that ERROR_BARRIER clears and SYNC_* passes on.
    pub(super) error: bool,
    pub(super) frames: Vec<Frame>,
    source: Source,
    /// Bytes of the source that are done.
    extract: u64,
    since_wait: u64,
    dead: bool,
    /// A fault was reported that does not stop the queue.
    reported: bool,
    /// The entries that the queue last found busy in a wait.
    waits_for: u16,
    /// The stream's view of memory, until what it knows changes.
    view: Option<Arc<View>>,
}

impl Queue {
    /// A queue without a ring buffer: [`Queue::enqueue`] gives it the driver's words.
    #[must_use]
    pub fn new(group: u32, index: u8) -> Self {
        Self {
            group,
            index,
            registers: Registers::new(),
            scoreboard: Scoreboard::default(),
            known: Knowledge::below(1),
            host_flushes: 0,
            deferred: Vec::new(),
            endpoint_entry: UNKNOWN_ENTRY,
            other_entry: UNKNOWN_ENTRY,
            compute: false,
            heap: None,
            oom_handler: None,
            error: false,
            frames: Vec::new(),
            source: Source::Words {
                words: Vec::new(),
                base: 0,
            },
            extract: 0,
            since_wait: 0,
            dead: false,
            reported: false,
            waits_for: 0,
            view: None,
        }
    }

    /// A queue that takes its words from a ring buffer of `size` bytes (a power of two) at `base`.
    #[must_use]
    pub fn with_ring(group: u32, index: u8, base: u64, size: u64) -> Self {
        let source = Source::Ring {
            base,
            size: size.checked_next_power_of_two().unwrap_or(1 << 63).max(8),
            insert: 0,
        };
        Self {
            source,
            ..Self::new(group, index)
        }
    }

    /// Appends words that run with the kernel's rights (its registers may be written). See [`super::job_words`].
    /// Returns the value that [`Queue::extract`] has when they are done. A queue with a ring takes none and returns its
    /// insert position.
    pub fn enqueue(&mut self, words: &[u64]) -> u64 {
        match &mut self.source {
            Source::Words { words: all, base } => {
                let done =
                    (self.extract.saturating_sub(*base) as usize / INSTR_BYTES).min(all.len());
                all.drain(..done);
                *base += (done * INSTR_BYTES) as u64;
                all.extend_from_slice(words);
                *base + (all.len() * INSTR_BYTES) as u64
            }
            Source::Ring { insert, .. } => *insert,
        }
    }

    /// Moves the insert position of the ring: bytes ever written, as the driver's CS_INSERT.
    pub fn set_insert(&mut self, position: u64) {
        if let Source::Ring { insert, .. } = &mut self.source {
            *insert = position;
        }
    }

    /// Sets the extract position, as the driver does when it starts a queue afresh.
    pub fn set_extract(&mut self, position: u64) {
        if matches!(self.source, Source::Ring { .. }) {
            self.extract = position;
        }
    }

    /// Bytes of the source that are done, as CS_EXTRACT.
    #[must_use]
    pub fn extract(&self) -> u64 {
        self.extract
    }

    /// Gives a register an initial value.
    pub fn set_register(&mut self, register: u8, value: u32) {
        // A register that does not exist has no value; nothing can read it either.
        let _ = self.registers.set(register.into(), value, true);
    }

    /// A register's value, `None` where it is not defined or a load for it is in flight.
    #[must_use]
    pub fn register(&self, register: u8) -> Option<u32> {
        self.registers.peek(register)
    }

    /// Grants the compute resource and selects scoreboard entries, as an earlier submission's REQ_RESOURCE and
    /// SET_SB_ENTRY have left them (to replay a capture).
    pub fn set_initial(&mut self, endpoint_entry: u8, other_entry: u8, compute: bool) {
        self.endpoint_entry = endpoint_entry.min(UNKNOWN_ENTRY);
        self.other_entry = other_entry.min(UNKNOWN_ENTRY);
        self.compute = compute;
    }

    /// When all asynchronous work of the queue is done: 0 if there is none, `u64::MAX` for never.
    #[must_use]
    pub fn drained_at(&self) -> u64 {
        self.scoreboard.all_done_at()
    }

    /// When the next deferred instruction is due: run the queue then, also while it is blocked or idle.
    #[must_use]
    pub fn next_deferred(&self) -> Option<u64> {
        self.deferred
            .iter()
            .map(|d| d.start)
            .filter(|s| *s != u64::MAX)
            .min()
    }

    /// Whether the error state is set: a recoverable fault since the last ERROR_BARRIER.
    #[must_use]
    pub fn has_error(&self) -> bool {
        self.error
    }

    /// Addresses of the instruction that runs next in each nested stream, innermost last.
    #[must_use]
    pub fn call_stack(&self) -> Vec<u64> {
        self.frames.iter().map(|f| f.pc).collect()
    }

    /// Whether the kernel's own words run, which may use its registers.
    pub(super) fn kernel(&self) -> bool {
        self.frames.is_empty()
    }

    /// Runs instructions until the queue stops, at most `budget` of them.
    pub fn run<A: AddressSpace, E: ComputeEndpoint>(
        &mut self,
        env: &mut Env<'_, A, E>,
        budget: u64,
    ) -> Stop {
        if self.dead {
            return Stop::Never;
        }
        if self.kernel() && self.host_flushes != env.device.host_flushes {
            // The ring's pages may have been somebody else's before.
            self.host_flushes = env.device.host_flushes;
            self.known.union(&env.device.known_to_all());
            self.forget_view();
        }
        let mut port = Port::new(env.space, env.caches, self.view(env.device.rule()));
        for _ in 0..budget {
            if let Err(fault) = self.run_deferred(env, &mut port) {
                return self.die(fault);
            }
            let (pc, word) = match self.fetch(env, &mut port) {
                Ok(Some(fetched)) => fetched,
                Ok(None) => return Stop::Idle,
                Err((pc, cause)) => {
                    return self.die(Box::new(Fault::fatal(cause, pc, "fetch".to_owned(), None)));
                }
            };
            let instr = match Instr::decode(word) {
                Ok(instr) => instr,
                Err(error) => {
                    let text = format!("{word:#018x}");
                    return self.die(Box::new(Fault::fatal(error.into(), pc, text, None)));
                }
            };
            match self.execute(env, &mut port, pc, &instr) {
                Ok(Flow::Next) => self.advance(1),
                Ok(Flow::Skip(instructions)) => self.advance(1 + i64::from(instructions)),
                Ok(Flow::Into(frame)) => {
                    self.advance(1);
                    self.frames.push(frame);
                }
                Ok(Flow::Jump(frame)) => match self.frames.last_mut() {
                    Some(active) => *active = frame,
                    // A jump out of the ring buffer: its words are done.
                    None => {
                        self.advance(1);
                        self.frames.push(frame);
                    }
                },
                Ok(Flow::Stop(stop)) => return stop,
                Err((cause, exception)) => {
                    return self.die(Box::new(Fault::fatal(
                        cause,
                        pc,
                        instr.to_string(),
                        exception,
                    )));
                }
            }
            self.pop_finished();
            env.now = env.now.saturating_add(INSTR_CYCLES);
            self.since_wait = self.since_wait.saturating_add(1);
            if self.since_wait > RUNAWAY_INSTRUCTIONS {
                return Stop::Runaway;
            }
            if std::mem::take(&mut self.reported) {
                // Whoever plays the firmware may want to hold the queue until the host has seen the fault.
                return Stop::Budget;
            }
        }
        Stop::Budget
    }

    pub(super) fn since_wait(&self) -> u64 {
        self.since_wait
    }

    pub(super) fn set_since_wait(&mut self, instructions: u64) {
        self.since_wait = instructions;
    }

    /// Where the next instruction is: in the innermost stream, or in the ring.
    #[must_use]
    pub fn position(&self) -> u64 {
        match (self.frames.last(), &self.source) {
            (Some(frame), _) => frame.pc,
            (None, Source::Words { .. }) => 0,
            (None, Source::Ring { base, size, .. }) => base.wrapping_add(self.extract & (size - 1)),
        }
    }

    /// The scoreboard entries with unfinished work, a bit each (CS_STATUS_SCOREBOARDS).
    #[must_use]
    pub fn busy_entries(&self, now: u64) -> u16 {
        self.scoreboard.busy(now)
    }

    /// When each job that is not done at `now` will be; `u64::MAX` for never.
    pub fn jobs_in_flight(&self, now: u64) -> impl Iterator<Item = u64> + '_ {
        self.scoreboard
            .operations()
            .filter(move |(_, end, effect)| {
                *end > now && effect.agent.is_some() && !effect.past_lsc
            })
            .map(|(_, end, _)| end)
    }

    /// The entries of the wait that last stopped the queue (CS_STATUS_WAIT.SB_MASK).
    #[must_use]
    pub fn waits_for(&self) -> u16 {
        self.waits_for
    }

    /// Whether the compute resource is held (CS_STATUS_REQ_RESOURCE).
    #[must_use]
    pub fn holds_compute(&self) -> bool {
        self.compute
    }

    /// The stream has waited for something or given work away: it does not run in circles.
    pub(super) fn note_progress(&mut self) {
        self.since_wait = 0;
    }

    /// Address of the tiler heap's context, `None` where no HEAP_SET has given any.
    #[must_use]
    pub fn heap(&self) -> Option<u64> {
        self.heap
    }

    /// The exception handler for a tiler without memory runs next, then what would have run now. `false` where the stream
    /// has set none, or has no room for its call.
    pub fn call_oom_handler(&mut self) -> bool {
        let Some((start, bytes)) = self.oom_handler else {
            return false;
        };
        if self.dead || self.frames.len() >= CALL_DEPTH {
            return false;
        }
        let end = start.saturating_add(bytes.into());
        if start != end {
            let pc = start;
            self.frames.push(Frame { start, pc, end });
        }
        true
    }

    fn die(&mut self, fault: Box<Fault>) -> Stop {
        self.dead = true;
        Stop::Fault(fault)
    }

    /// Whether the queue has faulted fatally.
    #[must_use]
    pub fn is_dead(&self) -> bool {
        self.dead
    }

    /// The next word and its address, `None` at the end of the source.
    fn fetch<A: AddressSpace, E>(
        &mut self,
        env: &Env<'_, A, E>,
        port: &mut Port<'_, A>,
    ) -> Result<Option<(u64, u64)>, (u64, Cause)> {
        let pc = match (self.frames.last(), &self.source) {
            (Some(frame), _) => frame.pc,
            (None, Source::Words { words, base }) => {
                let index = self.extract.wrapping_sub(*base) as usize / INSTR_BYTES;
                return Ok(words.get(index).map(|word| (0, *word)));
            }
            (None, Source::Ring { insert, .. }) if self.extract >= *insert => return Ok(None),
            (None, Source::Ring { base, size, .. }) => base.wrapping_add(self.extract & (size - 1)),
        };
        port.set_view(self.view(env.device.rule()));
        match port.load::<8>(pc) {
            Ok(bytes) => Ok(Some((pc, u64::from_le_bytes(bytes)))),
            Err(error) => Err((pc, error.into())),
        }
    }

    /// Moves by instructions within the active stream.
    fn advance(&mut self, instructions: i64) {
        let bytes = instructions.wrapping_mul(INSTR_BYTES as i64);
        match self.frames.last_mut() {
            Some(frame) => frame.pc = frame.pc.wrapping_add_signed(bytes),
            None => self.extract = self.extract.wrapping_add_signed(bytes),
        }
    }

    fn pop_finished(&mut self) {
        while self.frames.last().is_some_and(|f| f.pc >= f.end) {
            self.frames.pop();
        }
    }

    /// Checks that a branch stays within its stream (its end included, which returns): outside, hardware would run
    /// whatever lies there.
    pub(super) fn check_branch(&self, offset: i16) -> Result<(), Cause> {
        let Some(frame) = self.frames.last() else {
            return Ok(());
        };
        let next = frame.pc.wrapping_add(INSTR_BYTES as u64);
        let target = next.wrapping_add_signed(i64::from(offset) * INSTR_BYTES as i64);
        if target < frame.start || target > frame.end {
            return Err(Cause::BranchOutside { target });
        }
        Ok(())
    }

    /// The stream's own view of memory.
    pub(super) fn view(&mut self, rule: LscRule) -> Arc<View> {
        let known = &self.known;
        self.view
            .get_or_insert_with(|| Arc::new(View::stream(0, known.clone(), rule)))
            .clone()
    }

    /// Must follow every change of what the stream knows.
    pub(super) fn forget_view(&mut self) {
        self.view = None;
    }

    /// Adds agents that are known to be done.
    pub(super) fn learn(&mut self, done: AgentSet) {
        self.known.waited.union(&done);
        self.forget_view();
    }

    /// Waits for scoreboard entries: `None` when they are idle now.
    pub(super) fn wait(&mut self, now: u64, mask: u16) -> Option<Stop> {
        match self.scoreboard.done_at(mask) {
            u64::MAX => {
                self.waits_for = mask;
                Some(Stop::Never)
            }
            at if at > now => {
                self.waits_for = mask;
                Some(Stop::WaitUntil(at))
            }
            _ => {
                let loaded = self.scoreboard.retire(mask, &mut self.known);
                self.registers.define(loaded);
                self.forget_view();
                self.note_progress();
                None
            }
        }
    }

    /// Waits for everything, as a test or the end of a job does.
    pub fn wait_all(&mut self, now: u64) -> Option<Stop> {
        self.wait(now, ALL_ENTRIES)
    }

    /// The queue stops after this instruction, so that the firmware can look at what it reports.
    pub(super) fn pause(&mut self) {
        self.reported = true;
    }

    pub(super) fn report(&mut self, device: &mut Device, fault: Fault) {
        self.pause();
        device.push_event(Event::Fault {
            group: self.group,
            queue: self.index,
            fault,
        });
    }

    pub(super) fn value64(&self, register: mali_isa::csf::Reg64) -> Result<u64, Cause> {
        self.registers.get64(register, self.kernel())
    }

    pub(super) fn value32(&self, register: Reg32) -> Result<u32, Cause> {
        self.registers.get32(register, self.kernel())
    }
}

/// Where execution goes on.
pub(super) enum Flow {
    Next,
    /// Past so many instructions after the next.
    Skip(i16),
    /// Into a called stream.
    Into(Frame),
    /// To another stream in place of this one.
    Jump(Frame),
    /// Nowhere: the same instruction again later.
    Stop(Stop),
}
