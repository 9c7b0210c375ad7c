//! Watches GPU jobs: what a fence that does not signal means and how to repair it.
//!
//! - [`job`]: what a submitted job is, shared by the engine, the watchdog and prefill.
//! - [`watch`]: who waits for jobs, with what deadline, and what can come of it.
//! - [`recover`]: what the owner of the device can do for a job that did not complete.
//!
//! Glossary: a *job* is one queue submission, with a drm_sched fence and timer of its own. Its *point* is a value of a
//! timeline syncobj, its *status* a binary syncobj that nobody else signals: a `dma_fence_chain` does not carry an
//! error (`drm_syncobj.c`, `dma-fence-chain.c`: a chain node signals without the error of the fence that it holds),
//! so only the status' sync_file tells how the job ended.

pub mod job;
pub mod recover;
pub mod watch;

pub use job::{BufferRange, GpuAddress, Job, Marker, QueueId, Replay, SyncobjId, TimelinePoint};
pub use recover::{Recover, RecoverError};
pub use watch::{Deadline, FenceState, Fences, FiniteWait, Watch, WatchError};
