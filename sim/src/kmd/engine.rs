//! The seam between the driver and the GPU: who runs the streams of a queue.
//!
//! The driver's ring instructions around a job are the engine's business: flush and invalidate the caches unless they
//! have been flushed since `latest_flush`, CALL the stream, wait for all scoreboard slots, count the queue's sync
//! object up, error barrier (`panthor_sched.c:prepare_job_instrs`).

use std::ptr::NonNull;
use std::sync::Arc;

use super::vm::Vm;
use crate::mmu::MmuFault;

/// `DRM_PANTHOR_EXCEPTION_CS_INHERIT_FAULT`: the fault came with a sync object's error (`panthor_device.h`).
pub const CS_INHERIT_FAULT: u8 = 0x4b;

/// A job of a queue: a command stream to call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobCall {
    /// GPU address of the queue's sync object, which the driver's ring instructions count up when the job is done.
    pub sync: u64,
    /// GPU address of the stream, a multiple of 64.
    pub stream: u64,
    /// Bytes in it, a multiple of 8, not 0.
    pub size: u32,
    /// The flush id that the client read when it built the stream; 0 asks for a flush in any case.
    pub latest_flush: u32,
}

/// How far a queue has come.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// There is more to do, from [`Step::at`] on.
    Running,
    /// The job is done, its memory accesses included.
    Finished,
    /// A SYNC_WAIT is not satisfied. [`QueueEngine::run`] looks again.
    Blocked,
    /// CS_FAULT: the rest of the job was skipped up to the error barrier; the queue goes on with the next job.
    Fault(Exception),
    /// CS_FATAL: the queue is dead.
    Fatal(Exception),
    /// The MMU refused an access: the queue is dead.
    Mmu(MmuFault, Exception),
    /// The instruction limit was reached: to the driver a job that never ends.
    Runaway,
}

/// What the hardware reports of a fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exception {
    /// CS_FAULT.EXCEPTION_TYPE or CS_FATAL.EXCEPTION_TYPE.
    pub kind: u8,
    /// In words, with the instruction, its address and the register.
    pub message: String,
}

/// What one call of [`QueueEngine::run`] did.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The GPU cycle at which the outcome takes effect, or the queue goes on: now or later.
    pub at: u64,
    /// How it ended.
    pub outcome: Outcome,
}

/// One queue of a group. It keeps its registers from job to job.
///
/// Cycles count from the device's start; how the queues share the shader cores is the GPU's business.
pub trait QueueEngine: Send {
    /// Gives the queue its next job. The previous one has ended.
    fn start(&mut self, job: JobCall);

    /// Runs the job from cycle `now` on, up to the next point where time has to pass, or until it ends or blocks.
    /// Called again when [`Step::at`] is reached after [`Outcome::Running`], and when
    /// [`QueueEngine::wait_satisfied`] after [`Outcome::Blocked`].
    fn run(&mut self, now: u64) -> Step;

    /// The driver gives the queue up at cycle `now`: what it has on the shader cores ends.
    fn kill(&mut self, now: u64);

    /// Whether the SYNC_WAIT that blocks the queue is satisfied at cycle `now`. Runs nothing else.
    fn wait_satisfied(&mut self, now: u64) -> bool;
}

/// What a queue is created with.
#[derive(Clone)]
pub struct QueueSetup {
    /// The address space.
    pub vm: Arc<Vm>,
    /// A number for the group that no other group of the device has.
    pub group: u32,
    /// The queue's index in the group.
    pub index: u8,
    /// The shader cores that the group may use for compute (`compute_core_mask`), bits as in `shader_present`.
    pub core_mask: u64,
    /// How many of them at a time (`max_compute_cores`).
    pub max_cores: u32,
}

/// The GPU.
pub trait Gpu: Send {
    /// A new queue.
    fn queue(&mut self, setup: QueueSetup) -> Box<dyn QueueEngine>;

    /// Writes the caches back and invalidates them (`panthor_gpu_flush_caches`), as the driver does around changes of a
    /// VM that is in use.
    fn flush_caches(&mut self);

    /// `len` bytes of host memory at `host`, which translations have named, are about to go away.
    fn release(&mut self, host: NonNull<u8>, len: usize);

    /// The flush id: counts the flushes of all caches (register LATEST_FLUSH_ID).
    fn flush_id(&self) -> u32;
}
