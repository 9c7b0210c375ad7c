//! A queue of a group: drm_sched's entity and scheduler (`scheduler/sched_main.c`, `sched_entity.c`), the ring, the
//! fences of its jobs and its timer (`panthor_sched.c`).

use std::collections::VecDeque;

use panthor_uapi::Errno;

use super::engine::{JobCall, Outcome, QueueEngine};
use super::fence::{Fence, FenceRef, new_context};
use super::heap::KernelBo;
use crate::fault::Mode;

/// Instructions in the ring per job: eleven, in whole cache lines of eight (`prepare_job_instrs` without profiling).
/// They are drm_sched's credits.
pub const JOB_CREDITS: u32 = 16;

/// A job that drm_sched has.
#[derive(Debug)]
pub struct Job {
    /// Signals when the job is done: what clients see.
    pub finished: FenceRef,
    /// What has to signal first.
    pub deps: VecDeque<FenceRef>,
    /// The stream, `None` for a mere synchronisation point.
    pub call: Option<JobCall>,
}

/// A job whose `run_job` was called: its fences are tied together.
#[derive(Debug)]
struct Begun {
    finished: FenceRef,
    parent: FenceRef,
}

/// A job in the ring.
#[derive(Debug)]
pub struct InRing {
    /// Signals when the hardware has done it.
    pub done: FenceRef,
    /// The stream.
    pub call: JobCall,
}

/// The hardware's side of a queue.
pub struct Hardware {
    /// Runs the streams.
    pub engine: Box<dyn QueueEngine>,
    /// Whether the first job of the ring was given to the engine.
    pub started: bool,
    /// What goes wrong with it.
    pub injected: Option<Mode>,
    /// When the last step's outcome takes effect, in nanoseconds; `u64::MAX` for never.
    pub due: u64,
    /// The outcome.
    pub pending: Option<Outcome>,
    /// A SYNC_WAIT is not satisfied.
    pub blocked: bool,
    /// Nothing runs here any more.
    pub dead: bool,
}

/// The driver's timer of a queue.
#[derive(Debug)]
pub enum Timer {
    /// 6.12: drm_sched's own (`work_tdr`), suspended and resumed by the driver.
    Tdr {
        /// When it fires.
        deadline: Option<u64>,
        /// The driver has suspended it.
        suspended: bool,
        /// What was left then.
        remaining: u64,
    },
    /// 7.x: one per queue, suspended with what is left of it.
    PerQueue {
        /// What is left; `None` while it runs.
        remaining: Option<u64>,
        /// When it fires, if it is armed.
        deadline: Option<u64>,
    },
}

/// A queue.
pub struct Queue {
    /// The ring buffer, as an object in the VM.
    #[expect(dead_code, reason = "held for its lifetime")]
    pub ringbuf: KernelBo,
    /// Room for what profiled jobs measure, as an object in the VM.
    #[expect(dead_code, reason = "held for its lifetime")]
    pub profiling: KernelBo,
    /// Name of its timeline.
    name: String,
    finished_context: u64,
    finished_seqno: u64,
    done_context: u64,
    done_seqno: u64,
    credit_limit: u32,
    entity: VecDeque<Job>,
    begun: VecDeque<Begun>,
    last_done: Option<FenceRef>,
    /// The jobs in the ring, the oldest first (`fence_ctx.in_flight_jobs`).
    pub ring: VecDeque<InRing>,
    /// The hardware's side.
    pub hw: Hardware,
    /// The timer.
    pub timer: Timer,
    /// `JOB_TIMEOUT_MS` in nanoseconds.
    pub timeout: u64,
}

impl Queue {
    /// An empty queue.
    pub fn new(
        name: String,
        [ringbuf, profiling]: [KernelBo; 2],
        ringbuf_size: u32,
        engine: Box<dyn QueueEngine>,
        per_queue_timer: bool,
        timeout: u64,
    ) -> Self {
        let timer = if per_queue_timer {
            Timer::PerQueue {
                remaining: Some(timeout),
                deadline: None,
            }
        } else {
            Timer::Tdr {
                deadline: None,
                suspended: false,
                remaining: timeout,
            }
        };
        Self {
            ringbuf,
            profiling,
            name,
            finished_context: new_context(),
            finished_seqno: 0,
            done_context: new_context(),
            done_seqno: 0,
            credit_limit: ringbuf_size / 8,
            entity: VecDeque::new(),
            begun: VecDeque::new(),
            last_done: None,
            ring: VecDeque::new(),
            hw: Hardware {
                engine,
                started: false,
                injected: None,
                due: 0,
                pending: None,
                blocked: false,
                dead: false,
            },
            timer,
            timeout,
        }
    }

    /// The finished fence of the next job (`drm_sched_job_arm`).
    pub fn arm(&mut self) -> FenceRef {
        self.finished_seqno += 1;
        Fence::new(
            self.finished_context,
            self.finished_seqno,
            self.name.clone(),
        )
    }

    /// Queues a job (`drm_sched_entity_push_job`).
    pub fn push(&mut self, mut job: Job) {
        // Fences of the same queue are kept by its order.
        job.deps.retain(|dep| dep.context != self.finished_context);
        self.entity.push_back(job);
    }

    /// The next job whose dependencies have signalled, if the ring has room for it (`drm_sched_entity_pop_job`).
    pub fn pop_ready(&mut self, now: u64) -> Option<Job> {
        let used = JOB_CREDITS * self.begun.len() as u32;
        let room = used + JOB_CREDITS.min(self.credit_limit) <= self.credit_limit;
        let job = self.entity.front_mut().filter(|_| room)?;
        while job.deps.front().is_some_and(|dep| dep.is_signalled(now)) {
            job.deps.pop_front();
        }
        if job.deps.is_empty() {
            self.entity.pop_front()
        } else {
            None
        }
    }

    /// A job without a stream: done when the last one before it is.
    pub fn begin_empty(&mut self, finished: FenceRef, now: u64) {
        match self.last_done.clone() {
            Some(parent) => self.begin(finished, parent, now),
            None => finished.signal(now),
        }
    }

    /// Puts a job into the ring.
    pub fn begin_in_ring(&mut self, finished: FenceRef, call: JobCall, now: u64) {
        self.done_seqno += 1;
        let done = Fence::new(self.done_context, self.done_seqno, "queue-fence".into());
        self.begin(finished, done.clone(), now);
        self.last_done = Some(done.clone());
        self.ring.push_back(InRing { done, call });
    }

    fn begin(&mut self, finished: FenceRef, parent: FenceRef, now: u64) {
        self.begun.push_back(Begun { finished, parent });
        // `drm_sched_job_begin` arms drm_sched's timer anew.
        if let Timer::Tdr { deadline, .. } = &mut self.timer {
            *deadline = Some(now.saturating_add(self.timeout));
        }
    }

    /// Passes what the hardware has done on to the finished fences. Whether there was anything.
    pub fn propagate(&mut self, now: u64) -> bool {
        let before = self.begun.len();
        let mut retired_first = false;
        let mut index = 0;
        while index < self.begun.len() {
            if !self.begun[index].parent.is_signalled(now) {
                index += 1;
                continue;
            }
            if let Some(Begun { finished, parent }) = self.begun.remove(index) {
                if let Some(error) = parent.error() {
                    finished.set_error(error);
                }
                finished.signal(now);
                retired_first |= index == 0;
            }
        }
        if retired_first {
            // `drm_sched_get_finished_job`: the timer of the next one starts.
            if let Timer::Tdr { deadline, .. } = &mut self.timer {
                *deadline = (!self.begun.is_empty()).then(|| now.saturating_add(self.timeout));
            }
        }
        before != self.begun.len()
    }

    /// Whether drm_sched or the ring has any job.
    pub fn has_jobs(&self) -> bool {
        !self.entity.is_empty() || !self.begun.is_empty() || !self.ring.is_empty()
    }

    /// Whether drm_sched has begun a job that has not finished.
    pub fn has_begun(&self) -> bool {
        !self.begun.is_empty()
    }

    /// The hardware has done the first job of the ring: its fence signals.
    pub fn retire(&mut self, error: Option<Errno>, now: u64) {
        if let Some(job) = self.ring.pop_front() {
            if let Some(error) = error {
                job.done.set_error(error);
            }
            job.done.signal(now);
        }
        self.hw.started = false;
        self.hw.injected = None;
        // `queue_check_job_completion`.
        if self.ring.is_empty() {
            self.suspend_timer(now, false);
        } else if let Timer::PerQueue {
            remaining: None,
            deadline,
        } = &mut self.timer
        {
            *deadline = Some(now.saturating_add(self.timeout));
        }
    }

    /// Fails everything in the ring (`group_term_post_processing`).
    pub fn kill(&mut self, error: Errno, now: u64) {
        for job in self.ring.drain(..) {
            job.done.set_error(error);
            job.done.signal(now);
        }
        self.hw.dead = true;
        self.hw.pending = None;
        match &mut self.timer {
            Timer::PerQueue { deadline, .. } | Timer::Tdr { deadline, .. } => *deadline = None,
        }
    }

    /// Stops the timer with what is left of it, unless `keep` (a blocked queue of an idle group goes on being timed).
    pub fn suspend_timer(&mut self, now: u64, keep: bool) {
        let empty = self.ring.is_empty();
        match &mut self.timer {
            Timer::PerQueue {
                remaining: remaining @ None,
                deadline,
            } if !keep => {
                *remaining = Some(match *deadline {
                    Some(at) if !empty => at.saturating_sub(now).min(self.timeout),
                    _ => self.timeout,
                });
                *deadline = None;
            }
            _ => {}
        }
    }

    /// Starts the timer again.
    pub fn resume_timer(&mut self, now: u64) {
        let Timer::PerQueue {
            remaining,
            deadline,
        } = &mut self.timer
        else {
            return;
        };
        if let Some(left) = remaining.take() {
            *deadline = Some(now.saturating_add(left));
        }
    }

    /// 6.12: stops drm_sched's timer (`drm_sched_suspend_timeout`).
    pub fn suspend_tdr(&mut self, now: u64) {
        let timeout = self.timeout;
        if let Timer::Tdr {
            deadline,
            suspended: suspended @ false,
            remaining,
        } = &mut self.timer
        {
            *remaining = deadline
                .filter(|&at| at > now)
                .map_or(timeout, |at| at - now);
            *deadline = None;
            *suspended = true;
        }
    }

    /// 6.12: starts it again (`drm_sched_resume_timeout`).
    pub fn resume_tdr(&mut self, now: u64) {
        let any = self.has_begun();
        if let Timer::Tdr {
            deadline,
            suspended: suspended @ true,
            remaining,
        } = &mut self.timer
        {
            *deadline = any.then(|| now.saturating_add(*remaining));
            *suspended = false;
        }
    }

    /// When the timer fires.
    pub fn deadline(&self) -> Option<u64> {
        match self.timer {
            Timer::Tdr { deadline, .. } | Timer::PerQueue { deadline, .. } => deadline,
        }
    }

    /// The timer has fired and is no longer armed.
    pub fn disarm(&mut self) {
        match &mut self.timer {
            Timer::Tdr { deadline, .. } | Timer::PerQueue { deadline, .. } => *deadline = None,
        }
    }
}
