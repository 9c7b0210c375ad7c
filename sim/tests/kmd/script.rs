//! A GPU that does what the test says: streams are looked up by their address.

use std::collections::HashMap;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use panthor_sim::kmd::engine::{Exception, Gpu, JobCall, Outcome, QueueEngine, QueueSetup, Step};
use panthor_sim::mmu::{Access, AddressSpace};

/// One thing that a stream does.
#[derive(Clone, Copy, Debug)]
pub enum Act {
    /// Takes cycles.
    Cycles(u64),
    /// Waits until the counter is at least this.
    WaitCounter(u64),
    /// Adds to the counter.
    AddCounter(u64),
    /// Stores a byte at a GPU address.
    Store(u64, u8),
    /// CS_FAULT with this exception type.
    Fault(u8),
    /// CS_FATAL with this exception type.
    Fatal(u8),
    /// Never ends.
    Loop,
}

/// What all queues share.
#[derive(Default)]
pub struct Shared {
    streams: Mutex<HashMap<u64, Vec<Act>>>,
    counter: AtomicU64,
    flushes: AtomicU32,
    log: Mutex<Vec<u64>>,
    /// The cycle at which the cores have done what was given to them.
    free: AtomicU64,
}

impl Shared {
    /// Says what the stream at `va` does.
    pub fn stream(&self, va: u64, acts: &[Act]) {
        self.streams.lock().unwrap().insert(va, acts.to_vec());
    }

    /// The streams started so far, in order.
    pub fn started(&self) -> Vec<u64> {
        self.log.lock().unwrap().clone()
    }
}

/// The GPU.
pub struct ScriptedGpu(pub Arc<Shared>);

impl Gpu for ScriptedGpu {
    fn queue(&mut self, setup: QueueSetup) -> Box<dyn QueueEngine> {
        Box::new(ScriptedQueue {
            shared: self.0.clone(),
            setup,
            acts: Vec::new(),
            wait: None,
        })
    }

    fn flush_caches(&mut self) {
        self.0.flushes.fetch_add(1, Ordering::Relaxed);
    }

    fn release(&mut self, _host: NonNull<u8>, _len: usize) {}

    fn flush_id(&self) -> u32 {
        self.0.flushes.load(Ordering::Relaxed)
    }
}

struct ScriptedQueue {
    shared: Arc<Shared>,
    setup: QueueSetup,
    acts: Vec<Act>,
    wait: Option<u64>,
}

impl QueueEngine for ScriptedQueue {
    fn start(&mut self, job: JobCall) {
        self.shared.log.lock().unwrap().push(job.stream);
        let streams = self.shared.streams.lock().unwrap();
        self.acts = streams
            .get(&job.stream)
            .cloned()
            .unwrap_or_else(|| vec![Act::Cycles(1000)]);
        self.acts.reverse();
    }

    fn run(&mut self, now: u64) -> Step {
        let exception = |kind| Exception {
            kind,
            message: "scripted".into(),
        };
        let step = |cycles, outcome| Step {
            at: now + cycles,
            outcome,
        };
        match self.acts.pop() {
            None => step(0, Outcome::Finished),
            Some(Act::Cycles(cycles)) => {
                // One thing after the other, as on cores that all queues share.
                let at = self.shared.free.load(Ordering::Relaxed).max(now) + cycles;
                self.shared.free.store(at, Ordering::Relaxed);
                Step {
                    at,
                    outcome: Outcome::Running,
                }
            }
            Some(Act::AddCounter(n)) => {
                self.shared.counter.fetch_add(n, Ordering::Relaxed);
                step(1, Outcome::Running)
            }
            Some(Act::WaitCounter(n)) => {
                if self.shared.counter.load(Ordering::Relaxed) >= n {
                    return step(1, Outcome::Running);
                }
                self.wait = Some(n);
                self.acts.push(Act::WaitCounter(n));
                step(0, Outcome::Blocked)
            }
            Some(Act::Store(va, byte)) => match self.setup.vm.translate(va, Access::Write) {
                Ok(page) => {
                    // SAFETY: the page is mapped while the VM holds its object, and `va` lies in it.
                    unsafe {
                        page.host
                            .as_ptr()
                            .add((va % page.size) as usize)
                            .write_volatile(byte)
                    };
                    step(1, Outcome::Running)
                }
                Err(fault) => step(1, Outcome::Mmu(fault, exception(0x48))),
            },
            Some(Act::Fault(kind)) => step(1, Outcome::Fault(exception(kind))),
            Some(Act::Fatal(kind)) => step(1, Outcome::Fatal(exception(kind))),
            Some(Act::Loop) => step(1, Outcome::Runaway),
        }
    }

    fn kill(&mut self, now: u64) {
        self.shared.free.fetch_min(now, Ordering::Relaxed);
    }

    fn wait_satisfied(&mut self, _now: u64) -> bool {
        self.wait
            .is_none_or(|n| self.shared.counter.load(Ordering::Relaxed) >= n)
    }
}
