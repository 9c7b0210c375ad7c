//! What the owner of the device can do for a job that did not complete.

use crate::job::{GpuAddress, Job, QueueId, TimelinePoint};

/// Why a recovery step failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecoverError {
    /// The driver refused the step.
    #[error("{step}: {reason}")]
    Refused {
        /// What was tried.
        step: &'static str,
        /// The driver's answer.
        reason: String,
    },
    /// The job's outputs overlap its inputs: running it again would read what it wrote.
    #[error("job at point {} cannot be run again: it overwrites its own input", .0.value)]
    NotRepeatable(TimelinePoint),
    /// The device is gone (every ioctl answers ENODEV).
    #[error("the device is gone")]
    DeviceGone,
}

/// Implemented by whoever owns group, VM and buffers.
pub trait Recover {
    /// Destroys the group and creates another one with the same queues; returns the queue that replaces `lost`.
    ///
    /// # Errors
    /// [`RecoverError`] where the driver refuses.
    fn recreate_group(&mut self, lost: QueueId) -> Result<QueueId, RecoverError>;

    /// Submits the jobs again, in this order, with new points and status syncobjs; returns them as submitted.
    ///
    /// # Errors
    /// [`RecoverError`] where a job is not repeatable or the driver refuses; then none of them was submitted.
    fn resubmit(&mut self, jobs: &[Job]) -> Result<Vec<Job>, RecoverError>;

    /// The present value of a marker word, `None` where the address is no marker of this owner.
    fn read_marker(&self, address: GpuAddress) -> Option<u64>;
}
