//! The simulated Mali-G610 behind the driver: command-stream queues, shader cores and caches put together.

use std::ptr::NonNull;
use std::sync::{Arc, Mutex};

use super::engine::{Exception, Gpu, JobCall, Outcome, QueueEngine, QueueSetup, Step};
use super::options::Options;
use crate::cost::UNITS_PER_CORE;
use crate::csf::{self, Env, Event, JobParams, Queue, Stop, job_words};
pub use crate::endpoint::JobLog;
use crate::endpoint::{Endpoint, lock};
use crate::mmu::Caches;
use crate::shader::ShaderCores;

/// Instructions of a stream that run before the driver looks again.
const STREAM_BUDGET: u64 = 1 << 16;
/// Warp instructions of one job on one core that are executed before the job is taken never to end, where the driver's
/// timer would not strike earlier: minutes of host time.
const MAX_INSTRUCTIONS: u64 = 1 << 30;
/// What the queues share.
#[derive(Debug)]
struct Shared {
    caches: Caches,
    device: Mutex<csf::Device>,
    log: Mutex<JobLog>,
}

/// A Mali-G610.
#[derive(Debug)]
pub struct Mali {
    shared: Arc<Shared>,
    threads: usize,
    seed: u64,
    instruction_limit: u64,
}

/// A view of what a [`Mali`] has done, which outlives its place behind the driver.
#[derive(Clone, Debug)]
pub struct Monitor(Arc<Shared>);

impl Monitor {
    /// What the shader cores have done so far.
    pub fn job_log(&self) -> JobLog {
        lock(&self.0.log).clone()
    }

    /// Whether the caches hold anything that memory does not: something was left unflushed.
    pub fn caches_dirty(&self) -> bool {
        self.0.caches.is_dirty()
    }
}

impl Mali {
    /// The GPU that the options describe.
    pub fn new(options: &Options) -> Self {
        let hz = (options.gpu_mhz * 1e6) as u64;
        // No core issues more than this before the driver's timer strikes.
        let timeout_cycles = options.job_timeout_ms as f64 * 1000.0 * options.gpu_mhz;
        let timeout_instructions = (timeout_cycles * UNITS_PER_CORE as f64) as u64;
        Self {
            shared: Arc::new(Shared {
                caches: Caches::new(),
                device: Mutex::new(csf::Device::new(options.lsc_rule(), hz)),
                log: Mutex::default(),
            }),
            threads: options.threads,
            seed: options.seed,
            instruction_limit: timeout_instructions.clamp(1 << 16, MAX_INSTRUCTIONS),
        }
    }

    /// A view of what it does.
    pub fn monitor(&self) -> Monitor {
        Monitor(self.shared.clone())
    }
}

impl Gpu for Mali {
    fn queue(&mut self, setup: QueueSetup) -> Box<dyn QueueEngine> {
        let core_ids = (0..64).filter(|core| setup.core_mask & (1 << core) != 0);
        let cores = ShaderCores {
            core_ids: core_ids.take(setup.max_cores as usize).collect(),
            threads: self.threads,
            seed: self.seed,
            instruction_limit: self.instruction_limit,
        };
        Box::new(MaliQueue {
            queue: Queue::new(setup.group, setup.index),
            endpoint: Endpoint::new(cores),
            shared: self.shared.clone(),
            setup,
            found: None,
            fault: None,
        })
    }

    fn flush_caches(&mut self) {
        self.shared.caches.clean_invalidate();
    }

    fn release(&mut self, host: NonNull<u8>, len: usize) {
        self.shared.caches.release(host, len);
    }

    fn flush_id(&self) -> u32 {
        self.shared.caches.latest_flush()
    }
}

struct MaliQueue {
    setup: QueueSetup,
    queue: Queue,
    endpoint: Endpoint,
    shared: Arc<Shared>,
    /// Where the queue stopped when a wait was tried and found satisfied.
    found: Option<(u64, Stop)>,
    /// The recoverable fault that the job has met.
    fault: Option<Exception>,
}

impl MaliQueue {
    /// Runs the stream; gives the cycle it came to.
    fn go(&mut self, now: u64, budget: u64) -> (u64, Stop) {
        let mut device = lock(&self.shared.device);
        let mut env = Env {
            space: &*self.setup.vm,
            caches: &self.shared.caches,
            endpoint: &self.endpoint,
            device: &mut device,
            now,
        };
        let stop = self.queue.run(&mut env, budget);
        let at = env.now;
        for event in device.take_events() {
            match event {
                Event::Fault { fault, .. } => {
                    // The first is what the driver reads.
                    let exception = Exception {
                        kind: fault.exception.code(),
                        message: fault.to_string(),
                    };
                    self.fault.get_or_insert(exception);
                }
                // There is no tiler, so no heap that runs out.
                Event::RenderPass { .. } => {}
                Event::Job(record) => lock(&self.shared.log).add(record),
                Event::SyncUpdate { .. } => {}
            }
        }
        (at, stop)
    }

    fn outcome(&mut self, at: u64, stop: Stop) -> Step {
        let (at, outcome) = match stop {
            Stop::Idle => {
                let outcome = self.fault.take().map_or(Outcome::Finished, Outcome::Fault);
                (at, outcome)
            }
            Stop::WaitUntil(cycle) => (cycle, Outcome::Running),
            Stop::Budget => (at, Outcome::Running),
            Stop::Never | Stop::Runaway => (at, Outcome::Runaway),
            Stop::Blocked(_) | Stop::Progress { .. } | Stop::Endpoint => {
                match self.queue.next_deferred() {
                    // Blocked only once nothing deferred is left.
                    Some(due) => (due, Outcome::Running),
                    None => (at, Outcome::Blocked),
                }
            }
            Stop::Fault(fault) => {
                let mut message = fault.to_string();
                if let Some(place) = self.endpoint.take_place() {
                    message = format!("{message}; {place}");
                }
                let exception = Exception {
                    kind: fault.exception.code(),
                    message,
                };
                (
                    at,
                    fault.mmu.map_or(Outcome::Fatal(exception.clone()), |mmu| {
                        Outcome::Mmu(mmu, exception)
                    }),
                )
            }
        };
        Step { at, outcome }
    }
}

impl QueueEngine for MaliQueue {
    fn start(&mut self, job: JobCall) {
        let params = JobParams {
            latest_flush: job.latest_flush,
            start: job.stream,
            size: job.size,
            sync: Some(job.sync),
        };
        self.fault = None;
        // The driver shifts the address into the instruction unchecked; with more than 48 bits that is none.
        let words = job_words(&params).unwrap_or_else(|_| vec![u64::MAX]);
        self.queue.enqueue(&words);
    }

    fn run(&mut self, now: u64) -> Step {
        let (at, stop) = match self.found.take() {
            Some(found) => found,
            None => self.go(now, STREAM_BUDGET),
        };
        self.outcome(at.max(now), stop)
    }

    fn kill(&mut self, now: u64) {
        lock(&self.shared.device).kill_group(self.setup.group, now);
    }

    fn wait_satisfied(&mut self, now: u64) -> bool {
        if self.found.is_some() {
            return true;
        }
        // The one instruction that blocks: a wait that is satisfied does nothing else.
        match self.go(now, 1) {
            (_, Stop::Blocked(_) | Stop::Progress { .. }) => false,
            (at, stop) => {
                self.found = Some((at, stop));
                true
            }
        }
    }
}
