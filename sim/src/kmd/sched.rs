//! The scheduler of groups (`panthor_sched.c`): which groups are on the slots, and what their queues do meanwhile.
//!
//! A step of a queue's engine is executed when it begins; its end (fence, fault, wait) takes effect at the cycle that the
//! engine names.

use std::collections::BTreeMap;

use panthor_uapi::Errno;

use super::engine::{CS_INHERIT_FAULT, Exception, Gpu, JobCall, Outcome};
use super::fence::FenceRef;
use super::group::{Group, GroupState};
use super::options::{Kernel, Options};
use super::queue::{Job, Timer};
use crate::fault::{Mode, Plan};
use crate::mmu::{Access, MmuFault, MmuFaultKind};
use crate::model::CSG_SLOTS;

/// Number of group priorities (`PANTHOR_CSG_PRIORITY_COUNT`).
pub(super) const PRIORITIES: usize = 4;
/// The priority that preempts (`PANTHOR_CSG_PRIORITY_RT`).
pub(super) const REALTIME: usize = 3;
/// `tick_period`: 10 ms.
pub(super) const TICK_PERIOD: u64 = 10_000_000;
/// Nanoseconds that an injected fault takes to happen.
const INJECTED_NS: u64 = 1000;
/// Messages kept for [`Scheduler::messages`].
const MAX_MESSAGES: usize = 1000;

/// Number of a group, unique within the device.
pub type GroupId = u64;

/// The scheduler and the GPU behind it.
pub struct Scheduler {
    kernel: Kernel,
    cycles_per_ns: f64,
    /// The GPU.
    pub gpu: Box<dyn Gpu>,
    /// All groups.
    pub groups: BTreeMap<GroupId, Group>,
    next_group: GroupId,
    pub(super) slots: [Option<GroupId>; CSG_SLOTS as usize],
    pub(super) runnable: [Vec<GroupId>; PRIORITIES],
    pub(super) idle: [Vec<GroupId>; PRIORITIES],
    pub(super) last_tick: u64,
    /// `None`: the tick is stopped (`U64_MAX`).
    pub(super) resched_target: Option<u64>,
    pub(super) tick_at: Option<u64>,
    pub(super) used_slots: usize,
    pub(super) might_have_idle_groups: bool,
    /// Failures to come.
    pub plan: Plan,
    /// What the kernel's log would say.
    pub messages: Vec<String>,
}

impl Scheduler {
    /// A scheduler without groups.
    pub fn new(options: &Options, gpu: Box<dyn Gpu>) -> Self {
        Self {
            kernel: options.kernel,
            cycles_per_ns: options.gpu_mhz / 1000.0,
            gpu,
            groups: BTreeMap::new(),
            next_group: 1,
            slots: Default::default(),
            runnable: Default::default(),
            idle: Default::default(),
            last_tick: 0,
            resched_target: None,
            tick_at: None,
            used_slots: 0,
            might_have_idle_groups: false,
            plan: Plan::default(),
            messages: Vec::new(),
        }
    }

    /// Writes to the kernel's log.
    pub fn report(&mut self, message: String) {
        log::warn!("{message}");
        if self.messages.len() < MAX_MESSAGES {
            self.messages.push(message);
        }
    }

    /// Writes the GPU's caches back, as the driver does around a change of `vm` while the GPU uses it.
    pub fn flush_for(&mut self, vm: u64) {
        let mut resident = self
            .slots
            .iter()
            .flatten()
            .filter_map(|id| self.groups.get(id));
        if resident.any(|group| group.vm.serial == vm) {
            self.gpu.flush_caches();
        }
    }

    /// The number that the next group gets.
    pub fn next_group_number(&self) -> u32 {
        self.next_group as u32
    }

    /// Takes a new group.
    pub fn add(&mut self, group: Group) -> GroupId {
        let id = self.next_group;
        self.next_group += 1;
        self.idle[group.priority].push(id);
        self.groups.insert(id, group);
        id
    }

    /// The client destroys a group (`panthor_group_destroy`).
    pub fn destroy(&mut self, id: GroupId, now: u64) {
        let Some(group) = self.groups.get_mut(&id) else {
            return;
        };
        group.destroyed = true;
        self.give_up(id, now);
    }

    /// A group can no longer run: off its slot at the next tick, or at once.
    fn give_up(&mut self, id: GroupId, now: u64) {
        if self
            .groups
            .get(&id)
            .is_some_and(|group| group.slot.is_some())
        {
            self.tick_in(0, now);
        } else {
            self.forget(id);
            self.terminate(id, now);
        }
    }

    pub(super) fn forget(&mut self, id: GroupId) {
        for list in self.runnable.iter_mut().chain(&mut self.idle) {
            list.retain(|&other| other != id);
        }
    }

    /// Fails all jobs of a group (`group_term_post_processing`).
    pub(super) fn terminate(&mut self, id: GroupId, now: u64) {
        let cycle = self.cycle(now);
        let Some(group) = self.groups.get_mut(&id) else {
            return;
        };
        for index in 0..group.queues.len() {
            let error = group.kill_error(index);
            group.queues[index].kill(error, now);
            group.queues[index].hw.engine.kill(cycle);
        }
    }

    fn tick_in(&mut self, delay: u64, now: u64) {
        self.tick_at = Some(now.saturating_add(delay));
    }

    /// Queues a job.
    pub fn push_job(&mut self, id: GroupId, queue: usize, job: Job) {
        if let Some(group) = self.groups.get_mut(&id) {
            group.queues[queue].push(job);
        }
    }

    /// Does everything that is due at `now`. Whether there was anything.
    pub fn settle(&mut self, now: u64) -> bool {
        let mut any = false;
        loop {
            let mut changed = self.run_jobs(now);
            changed |= self.pump(now);
            changed |= self.fire_timers(now);
            if self.tick_at.is_some_and(|at| at <= now) {
                self.tick_at = None;
                self.tick(now);
                changed = true;
            }
            for group in self.groups.values_mut() {
                for queue in &mut group.queues {
                    changed |= queue.propagate(now);
                }
            }
            if !changed {
                break;
            }
            any = true;
        }
        self.groups.retain(|_, group| {
            let gone = group.destroyed
                && group.slot.is_none()
                && !group.queues.iter().any(|queue| queue.has_jobs());
            !gone
        });
        any
    }

    /// When the next thing happens by itself.
    pub fn next_event(&self) -> Option<u64> {
        let timers = self
            .groups
            .values()
            .flat_map(|group| &group.queues)
            .filter_map(|queue| queue.deadline());
        timers.chain(self.tick_at).chain(self.gpu_event()).min()
    }

    // ---- drm_sched: run_job

    fn run_jobs(&mut self, now: u64) -> bool {
        let ids: Vec<GroupId> = self.groups.keys().copied().collect();
        let mut any = false;
        for id in ids {
            for queue in 0..self.groups.get(&id).map_or(0, |group| group.queues.len()) {
                while let Some(job) = self
                    .groups
                    .get_mut(&id)
                    .and_then(|group| group.queues[queue].pop_ready(now))
                {
                    self.run_job(id, queue, job, now);
                    any = true;
                }
            }
        }
        any
    }

    /// `queue_run_job`.
    fn run_job(&mut self, id: GroupId, queue: usize, job: Job, now: u64) {
        let kernel = self.kernel;
        let Some(group) = self.groups.get_mut(&id) else {
            return;
        };
        let can_run = group.can_run();
        let bit = 1 << queue;
        let target = &mut group.queues[queue];
        let Some(call) = job.call else {
            return target.begin_empty(job.finished, now);
        };
        if !can_run {
            return finish(&job.finished, Errno::CANCELED, now);
        }
        target.begin_in_ring(job.finished, call, now);
        if group.slot.is_none() {
            if !kernel.is_7x() && group.blocked_queues & bit == 0 {
                group.queues[queue].suspend_tdr(now);
            }
            self.schedule(id, bit, now);
        } else {
            let resume_tick = group.is_idle()
                && group.idle_queues & bit != 0
                && group.blocked_queues & bit == 0
                && self.resched_target.is_none();
            group.idle_queues &= !bit;
            group.queues[queue].resume_timer(now);
            if resume_tick {
                self.resume_tick(now);
            }
        }
    }

    /// `group_schedule_locked`.
    fn schedule(&mut self, id: GroupId, queues: u32, now: u64) {
        let Some(group) = self.groups.get_mut(&id).filter(|group| group.can_run()) else {
            return;
        };
        if queues & group.blocked_queues == queues {
            return;
        }
        let was_idle = group.is_idle();
        group.idle_queues &= !queues;
        let (priority, idle) = (group.priority, group.is_idle());
        if was_idle && !idle {
            self.forget(id);
            self.runnable[priority].push(id);
        }
        if priority == REALTIME || self.might_have_idle_groups {
            self.tick_in(0, now);
        } else if self.resched_target.is_some() {
            if self.used_slots < self.slots.len() {
                self.tick_in(0, now);
            }
        } else {
            self.resume_tick(now);
        }
    }

    /// `sched_resume_tick`.
    fn resume_tick(&mut self, now: u64) {
        let target = self.last_tick + TICK_PERIOD;
        self.resched_target = Some(target);
        let full = self.used_slots == self.slots.len();
        if self.tick_at.is_none() {
            self.tick_at = Some(if full { target.max(now) } else { now });
        }
    }

    // ---- the queues' timers

    fn fire_timers(&mut self, now: u64) -> bool {
        let mut expired = Vec::new();
        for (&id, group) in &mut self.groups {
            for (index, queue) in group.queues.iter_mut().enumerate() {
                if queue.deadline().is_none_or(|at| at > now) {
                    continue;
                }
                queue.disarm();
                match queue.timer {
                    // `queue_timeout_work` looks for finished jobs first; the simulated interrupt is never lost, so
                    // that a job in the ring is one that is not done.
                    Timer::PerQueue { .. } if queue.ring.is_empty() => {
                        queue.suspend_timer(now, false)
                    }
                    Timer::Tdr { .. } if !queue.has_begun() => {}
                    _ => expired.push((id, index)),
                }
            }
        }
        for &(id, index) in &expired {
            let Some(group) = self.groups.get_mut(&id) else {
                continue;
            };
            group.timedout = true;
            self.report(match self.kernel {
                Kernel::V6_12 => "job timeout".into(),
                _ => format!("job timeout: pid={}, queue={index}", std::process::id()),
            });
            self.give_up(id, now);
        }
        !expired.is_empty()
    }

    // ---- the hardware

    fn runs(group: &Group, index: usize) -> bool {
        let queue = &group.queues[index];
        group.slot.is_some()
            && group.state == GroupState::Active
            && !queue.hw.dead
            && !queue.hw.blocked
            && !queue.ring.is_empty()
    }

    /// The queues that run, `(group, index)`.
    fn running(&self) -> Vec<(GroupId, usize)> {
        let groups = self
            .slots
            .iter()
            .flatten()
            .filter_map(|id| Some((*id, self.groups.get(id)?)));
        groups
            .flat_map(|(id, group)| (0..group.queues.len()).map(move |index| (id, group, index)))
            .filter(|(_, group, index)| Self::runs(group, *index))
            .map(|(id, _, index)| (id, index))
            .collect()
    }

    fn gpu_event(&self) -> Option<u64> {
        let due = self.running().into_iter().map(|(id, index)| {
            let hw = &self.groups[&id].queues[index].hw;
            if hw.pending.is_some() { hw.due } else { 0 }
        });
        due.min().filter(|&at| at != u64::MAX)
    }

    /// The GPU's cycle at `now`.
    fn cycle(&self, now: u64) -> u64 {
        (now as f64 * self.cycles_per_ns) as u64
    }

    /// The first nanosecond at which the GPU's cycle is at least `cycle`.
    fn time_of(&self, cycle: u64) -> u64 {
        // Beyond 2^62 ns nothing happens.
        let ns = (cycle as f64 / self.cycles_per_ns).ceil();
        if ns > 4.6e18 {
            return u64::MAX;
        }
        let mut ns = ns as u64;
        while self.cycle(ns) < cycle {
            ns += 1;
        }
        ns
    }

    /// Ends the steps whose cycles have passed and begins new ones. Whether there was anything.
    fn pump(&mut self, now: u64) -> bool {
        let mut any = false;
        for (id, index) in self.running() {
            let Some(group) = self.groups.get_mut(&id) else {
                continue;
            };
            let hw = &mut group.queues[index].hw;
            let waits = hw.pending.is_some() && hw.due > now;
            if waits || !Self::runs(group, index) {
                continue;
            }
            any = true;
            match group.queues[index].hw.pending.take() {
                Some(outcome) => self.end_step(id, index, outcome, now),
                None => self.begin_step(id, index, now),
            }
        }
        any
    }

    fn begin_step(&mut self, id: GroupId, index: usize, now: u64) {
        let cycle = self.cycle(now);
        let Some(group) = self.groups.get_mut(&id) else {
            return;
        };
        let queue = &mut group.queues[index];
        let Some(call) = queue.ring.front().map(|job| job.call) else {
            return;
        };
        let hw = &mut queue.hw;
        if !hw.started {
            hw.started = true;
            hw.injected = self.plan.start_job();
            if hw.injected.is_none() {
                hw.engine.start(call);
            }
        }
        let (due, outcome) = match hw.injected {
            Some(mode) => (now + INJECTED_NS, injected(mode, &call)),
            None => {
                let step = hw.engine.run(cycle);
                let at = match step.outcome {
                    // Time passes wherever there is more to do.
                    Outcome::Running => step.at.max(cycle + 1),
                    _ => step.at,
                };
                (
                    if at <= cycle { now } else { self.time_of(at) },
                    step.outcome,
                )
            }
        };
        let Some(group) = self.groups.get_mut(&id) else {
            return;
        };
        let hw = &mut group.queues[index].hw;
        hw.due = if outcome == Outcome::Runaway {
            u64::MAX
        } else {
            due
        };
        hw.pending = Some(outcome);
    }

    fn end_step(&mut self, id: GroupId, index: usize, outcome: Outcome, now: u64) {
        let Some(group) = self.groups.get_mut(&id) else {
            return;
        };
        let queue = &mut group.queues[index];
        match outcome {
            Outcome::Running | Outcome::Runaway => {}
            Outcome::Blocked => {
                queue.hw.blocked = true;
                self.went_idle(id, now);
            }
            Outcome::Finished => {
                queue.retire(None, now);
                self.went_idle(id, now);
            }
            Outcome::Fault(exception) => {
                // 6.12 marks the fence only for an inherited fault, 7.x for every one
                // (`cs_slot_process_fault_event_locked`).
                let marked = self.kernel.is_7x() || exception.kind == CS_INHERIT_FAULT;
                queue.retire(marked.then_some(Errno::INVAL), now);
                self.report(format!("CS_FAULT: {}", text(&exception)));
                self.went_idle(id, now);
            }
            Outcome::Fatal(exception) => {
                queue.hw.dead = true;
                group.fatal_queues |= 1 << index;
                self.report(format!("CS_FATAL: {}", text(&exception)));
                self.tick_in(0, now);
            }
            Outcome::Mmu(fault, exception) => {
                queue.hw.dead = true;
                group.fatal_queues |= 1 << index;
                group.vm.report_fault();
                self.report(format!(
                    "Unhandled Page fault at VA 0x{:016X}: {fault}",
                    fault.va
                ));
                self.report(format!("CS_FATAL: {}", text(&exception)));
                self.tick_in(0, now);
            }
        }
        self.wake_blocked(now);
    }

    /// Sync objects may have changed: blocked queues look again, those off their slot through the driver
    /// (`sync_upd_work`).
    fn wake_blocked(&mut self, now: u64) {
        let cycle = self.cycle(now);
        let mut runnable = Vec::new();
        for (&id, group) in &mut self.groups {
            let mut woken = 0;
            for (index, queue) in group.queues.iter_mut().enumerate() {
                if queue.hw.blocked && !queue.hw.dead && queue.hw.engine.wait_satisfied(cycle) {
                    queue.hw.blocked = false;
                    woken |= 1 << index;
                }
            }
            if woken != 0 {
                group.blocked_queues &= !woken;
                if group.slot.is_none() && group.can_run() {
                    runnable.push((id, group.priority));
                }
            }
        }
        for (id, priority) in runnable {
            self.forget(id);
            self.runnable[priority].push(id);
            // The driver forces a tick for real-time groups only; others wait for the next one.
            if priority == REALTIME {
                self.tick_in(0, now);
            }
        }
    }

    /// The firmware says that a group has nothing to do (`csg_slot_process_idle_event_locked`).
    fn went_idle(&mut self, id: GroupId, now: u64) {
        let Some(group) = self.groups.get(&id) else {
            return;
        };
        let (idle, blocked) = group.hardware_state();
        if idle | blocked == group.all_queues() {
            self.might_have_idle_groups = true;
            self.tick_in(0, now);
        }
    }
}

fn finish(fence: &FenceRef, error: Errno, now: u64) {
    fence.set_error(error);
    fence.signal(now);
}

fn text(exception: &Exception) -> String {
    format!(
        "EXCEPTION_TYPE {:#x}: {}",
        exception.kind, exception.message
    )
}

fn injected(mode: Mode, call: &JobCall) -> Outcome {
    let exception = |kind| Exception {
        kind,
        message: format!("injected into the job at {:#x}", call.stream),
    };
    match mode {
        Mode::CsInfiniteLoop => Outcome::Runaway,
        Mode::CsFault { exception: kind } => Outcome::Fault(exception(kind)),
        Mode::CsFatal { exception: kind } => Outcome::Fatal(exception(kind)),
        Mode::MmuFault { va } => {
            let fault = MmuFault {
                va,
                access: Access::Read,
                kind: MmuFaultKind::Translation,
            };
            // CS_BUS_FAULT is what the stream's queue reports of it.
            Outcome::Mmu(fault, exception(0x48))
        }
    }
}
