//! The command-stream processor: registers, scoreboards, waits, RUN_COMPUTE.
//!
//! A [`Queue`] executes the words of its source (a ring buffer, or words that the driver model gives) and the streams
//! that they call, in simulated time: [`Queue::run`] goes on from [`Env::now`] until it must [`Stop`]. Jobs run on a
//! [`ComputeEndpoint`] at issue and complete, in simulated time, when the shared cores have done all jobs before them.
//! What the queues of one GPU share is in [`Device`].
//!
//! ```text
//! let mut queue = Queue::new(0, 0);
//! queue.enqueue(&job_words(&JobParams { latest_flush: 0, start, size, sync: None })?);
//! loop {
//!     let mut env = Env { space, caches, endpoint, device: &mut device, now };
//!     match queue.run(&mut env, 1 << 16) {
//!         Stop::WaitUntil(cycle) => now = cycle,
//!         Stop::Budget => now = env.now,
//!         Stop::Idle => break,
//!         Stop::Blocked(wait) => …,      // let other queues run until one signals
//!         stop => …,                     // fault, runaway, never
//!     }
//! }
//! ```
//!
//! Strict where hardware leaves things open: a register that was never written, or whose load was not waited for; an
//! entry that does not exist; an instruction that waits for itself; data that nobody waited for or flushed (see
//! [`crate::mmu`]). Open points, decided here until somebody measures them:
//! - the entries selected before any SET_SB_ENTRY are unknown: only a wait for all entries covers such work;
//! - a deferred instruction starts when what its mask's entries hold *at issue* is done;
//! - the exception of a job without its resource, and of operands that do not exist, is CS_CONFIG_FAULT;
//! - an endless job shares the cores with the others, finite jobs have them one after another;
//! - a heap context holds the three counters of HEAP_OPERATION, where and how is ours;
//! - a shader fault stops the queue (CS_FATAL), though Arm's kernel driver lists some as CS_FAULT;
//! - after a recoverable fault, jobs are dropped until ERROR_BARRIER;
//! - cycles of instructions, memory accesses and flushes are round assumptions.

mod background;
mod device;
mod exception;
mod execute;
pub mod heap;
mod job;
#[cfg(test)]
mod panvk;
mod queue;
mod registers;
mod scoreboard;
mod state;
#[cfg(test)]
mod tests;

pub use background::{FLUSH_CYCLES, MEMORY_CYCLES};
pub use device::{ComputeEndpoint, Device, Event, JobError, JobRecord, TIMESTAMP_HZ};
pub use exception::{Cause, Exception, Fault};
pub use execute::JOB_CYCLES;
pub use job::{JobParams, job_words};
pub use queue::{CALL_DEPTH, Env, INSTR_CYCLES, Queue, RUNAWAY_INSTRUCTIONS, Stop, SyncWait};
pub use state::BadState;
