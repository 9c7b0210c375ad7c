//! What the queues of one GPU share: the shader cores' time, the order of agents, and events for the driver.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::error::Error;

use crate::cost::JobUsage;
use crate::mmu::{AgentSet, Caches, Knowledge, LscRule};
use crate::shader::{ComputeJob, ShaderMemory};

use super::exception::{Exception, Fault};

/// Why a job did not complete.
#[derive(Debug)]
pub enum JobError {
    /// A shader faulted. Where `cause` is a [`crate::mmu::MemoryError`] of the MMU, that is what the driver sees.
    Fault {
        /// The exception, unless the MMU gives another.
        exception: Exception,
        /// Address of the shader instruction.
        pc: u64,
        /// What was wrong.
        cause: Box<dyn Error + Send>,
    },
    /// The job had not ended after so many instructions, and is taken never to end.
    Endless {
        /// Instructions that ran.
        instructions: u64,
    },
}

/// The shader cores, as the command streams reach them.
pub trait ComputeEndpoint {
    /// Runs a job to its end and tells what it used. Time does not pass meanwhile: the caller accounts for the cycles.
    ///
    /// # Errors
    /// [`JobError`] where a shader faults or does not end.
    fn run<M: ShaderMemory>(&self, job: &ComputeJob, memory: &M) -> Result<JobUsage, JobError>;

    /// Whether a job can be given to the cores now: they are there and have power. Else the queue waits.
    fn ready(&self) -> bool {
        true
    }
}

/// Something that happened in the streams and that the driver, or a report, wants to know.
#[derive(Debug)]
pub enum Event {
    /// A sync object changed with system scope: the interrupt that lets the driver look at its objects, and
    /// blocked queues be tried again. `cycle` is when.
    SyncUpdate {
        /// GPU address of the object.
        address: u64,
        /// When.
        cycle: u64,
        /// Whether the host is told (system scope), or only the group's queues.
        system: bool,
    },
    /// A fault that does not stop the queue.
    Fault {
        /// Group of the queue.
        group: u32,
        /// The queue.
        queue: u8,
        /// The fault.
        fault: Fault,
    },
    /// A stream says that tiling begins (HEAP_OPERATION): from now on its tiler may want memory.
    RenderPass {
        /// Address of the heap's context.
        heap: u64,
        /// When.
        cycle: u64,
    },
    /// A job ran.
    Job(JobRecord),
}

/// One job that ran on the shader cores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobRecord {
    /// The job's number among agents.
    pub agent: u32,
    /// Group of the queue.
    pub group: u32,
    /// The queue.
    pub queue: u8,
    /// Address of the RUN_COMPUTE instruction.
    pub pc: u64,
    /// The job.
    pub job: ComputeJob,
    /// When the cores began with it.
    pub start: u64,
    /// When they were done; `u64::MAX` for never.
    pub end: u64,
    /// What it used.
    pub usage: JobUsage,
}

/// The shared state.
#[derive(Debug)]
pub struct Device {
    pub(super) rule: LscRule,
    /// Nanoseconds' worth of the timestamp: ticks per million cycles.
    pub(super) timestamp_per_mcycle: u64,
    next_agent: u32,
    /// Agents with the cycle at which they are done, and their group.
    running: BTreeMap<u32, (u64, u32)>,
    /// When the shader cores have done all jobs issued so far.
    cores_free: u64,
    /// What was known when each sync object, by host address, was last signalled.
    sync: HashMap<usize, Knowledge>,
    /// What full flushes have made visible to everybody.
    pub(super) flushed: AgentSet,
    /// Agents that were done at a flush of all caches by the host.
    flushed_by_host: AgentSet,
    /// How many such flushes there were.
    pub(super) host_flushes: u64,
    pub(super) progress: HashMap<(u32, u8), u64>,
    events: VecDeque<Event>,
}

/// Queues go ahead of each other in time, but not by so many cycles: agents that ended longer ago are done for all.
const OLD_CYCLES: u64 = 1 << 32;

/// When to look for such agents.
const MANY_AGENTS: usize = 1 << 12;

/// Ticks of the system timestamp per second on an RK3588 (device tree: arch timer at 24 MHz, `CNTFRQ_EL0`).
pub const TIMESTAMP_HZ: u64 = 24_000_000;

impl Device {
    /// A device whose shader cores run at `hz`.
    #[must_use]
    pub fn new(rule: LscRule, hz: u64) -> Self {
        Self {
            rule,
            timestamp_per_mcycle: TIMESTAMP_HZ.saturating_mul(1_000_000) / hz.max(1),
            next_agent: 1,
            running: BTreeMap::new(),
            cores_free: 0,
            sync: HashMap::new(),
            flushed: AgentSet::below(1),
            flushed_by_host: AgentSet::below(1),
            host_flushes: 0,
            progress: HashMap::new(),
            events: VecDeque::new(),
        }
    }

    /// The rule by which dependent jobs are checked.
    #[must_use]
    pub fn rule(&self) -> LscRule {
        self.rule
    }

    /// Takes the events since the last call, in order.
    pub fn take_events(&mut self) -> impl Iterator<Item = Event> + '_ {
        self.events.drain(..)
    }

    pub(super) fn push_event(&mut self, event: Event) {
        self.events.push_back(event);
    }

    /// When the shader cores are done with all that was issued and that ends.
    #[must_use]
    pub fn cores_free_at(&self) -> u64 {
        self.cores_free
    }

    /// Ends the group's jobs at `now`, as the driver's termination of the group does. Jobs of other groups keep the
    /// times that they were given. The group's queues must not run on.
    pub fn kill_group(&mut self, group: u32, now: u64) {
        for (end, owner) in self.running.values_mut() {
            if *owner == group {
                *end = (*end).min(now);
            }
        }
        let ends = self.running.values().map(|(end, _)| *end);
        self.cores_free = ends
            .filter(|end| *end != u64::MAX)
            .max()
            .unwrap_or(0)
            .min(self.cores_free);
    }

    /// Everything before is finished, flushed and visible: after a reset, or when a test starts afresh.
    pub fn settle(&mut self, caches: &Caches) {
        caches.clean_invalidate();
        self.running.clear();
        self.flushed = AgentSet::below(self.next_agent);
        self.cores_free = 0;
    }

    /// The number that the next agent gets.
    pub(super) fn agents(&self) -> u32 {
        self.next_agent
    }

    pub(super) fn progress_of(&self, group: u32, queue: u8) -> u64 {
        self.progress.get(&(group, queue)).copied().unwrap_or(0)
    }

    pub(super) fn set_progress(&mut self, group: u32, queue: u8, value: u64) {
        self.progress.insert((group, queue), value);
    }

    /// Forgets the progress counters of a group that has left its slot.
    pub fn forget_group(&mut self, group: u32) {
        self.progress.retain(|(owner, _), _| *owner != group);
    }

    /// Gives the cores to an agent that was under way before, until `end`.
    pub(super) fn occupy(&mut self, agent: u32, group: u32, end: u64, now: u64) {
        self.set_end(agent, group, end, now);
        if end != u64::MAX {
            self.cores_free = self.cores_free.max(end);
        }
    }

    /// The host has cleaned and invalidated all caches at cycle `now`, as it does before it takes pages away and gives
    /// them to somebody else: what was done by then is in memory, and is read from there.
    pub fn flushed_by_host(&mut self, now: u64) {
        let done = self.done(now);
        self.flushed.union(&done);
        self.flushed_by_host.union(&done);
        self.host_flushes += 1;
    }

    /// What a queue knows at the beginning of a job, whoever has done it.
    pub(super) fn known_to_all(&self) -> Knowledge {
        Knowledge {
            waited: self.flushed_by_host.clone(),
            visible: self.flushed_by_host.clone(),
        }
    }

    pub(super) fn new_agent(&mut self) -> u32 {
        let agent = self.next_agent;
        // 2^31 agents: more than any run has. At the end the numbers stand still, and order is no longer checked.
        self.next_agent = (self.next_agent + 1).min((1 << 31) - 1);
        agent
    }

    /// `now` is the time of the queue that issues the agent.
    pub(super) fn set_end(&mut self, agent: u32, group: u32, end: u64, now: u64) {
        if self.running.len() > MANY_AGENTS {
            let old = now.saturating_sub(OLD_CYCLES);
            self.running.retain(|_, (end, _)| *end > old);
        }
        self.running.insert(agent, (end, group));
    }

    /// The agents that are done at `now`.
    pub(super) fn done(&self, now: u64) -> AgentSet {
        let running = |agent: &u32| self.running.get(agent).is_some_and(|(end, _)| *end > now);
        let first = self
            .running
            .keys()
            .copied()
            .find(running)
            .unwrap_or(self.next_agent);
        let mut done = AgentSet::below(first);
        (first..self.next_agent)
            .filter(|a| !running(a))
            .for_each(|a| done.insert(a));
        done
    }

    /// Gives the cores to a job of so many cycles, after those before it; tells when it begins and ends. A job without
    /// end (`None`) does not keep the others from the cores, which it shares with them.
    pub(super) fn schedule(&mut self, now: u64, cycles: Option<u64>) -> (u64, u64) {
        let start = self.cores_free.max(now);
        match cycles {
            None => (start, u64::MAX),
            Some(cycles) => {
                self.cores_free = start.saturating_add(cycles);
                (start, self.cores_free)
            }
        }
    }

    pub(super) fn publish(&mut self, object: usize, known: &Knowledge) {
        self.sync.entry(object).or_default().union(known);
    }

    pub(super) fn published(&self, object: usize) -> Option<&Knowledge> {
        self.sync.get(&object)
    }
}
