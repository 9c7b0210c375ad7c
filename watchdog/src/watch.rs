//! Who waits for jobs, with what deadline, and what can come of it.

use std::time::Duration;

use crate::job::{Job, SyncobjId, TimelinePoint};

/// A point of the transport's clock (the simulator's runs with simulated cycles).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline(pub Duration);

/// How a fence stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FenceState {
    /// Not signalled.
    Pending,
    /// Signalled without error.
    Done,
    /// Signalled with an error: a positive errno, as the sync_file tells it.
    Failed(i32),
}

/// What the watchdog needs of a device: its clock and its fences.
pub trait Fences {
    /// What an access to the device can fail with.
    type Error: std::error::Error + Send + Sync + 'static;

    /// The transport's monotonic clock.
    fn now(&self) -> Duration;

    /// Waits until the point is signalled or the deadline passes; `Ok(false)` in the latter case.
    ///
    /// # Errors
    /// The ioctl's.
    fn wait_point(&self, point: TimelinePoint, deadline: Deadline) -> Result<bool, Self::Error>;

    /// How the fence of a binary syncobj stands, read through its sync_file.
    ///
    /// # Errors
    /// The ioctl's, among them that the syncobj holds no fence.
    fn status(&self, status: SyncobjId) -> Result<FenceState, Self::Error>;
}

/// What can come of waiting, other than success.
#[derive(Debug, thiserror::Error)]
pub enum WatchError<E: std::error::Error + 'static> {
    /// The deadline passed.
    #[error("point {} of timeline {} did not signal within {waited:?}", .point.value, .point.syncobj.0)]
    Expired {
        /// The point.
        point: TimelinePoint,
        /// From the beginning of the wait to the deadline.
        waited: Duration,
    },
    /// The job ended with an error.
    #[error("job at point {} ended with errno {errno}", .point.value)]
    JobFailed {
        /// The job's point.
        point: TimelinePoint,
        /// Positive errno of its fence.
        errno: i32,
    },
    /// The point signalled, yet the job's own fence is still pending: something else advanced the timeline.
    #[error("point {} signalled but the job's own fence is pending", .0.value)]
    NotItsOwn(TimelinePoint),
    /// The device could not be asked.
    #[error("the fence could not be read: {0}")]
    Device(#[source] E),
}

/// Told of every job when it was submitted, asked to wait for it; never waits without a deadline.
pub trait Watch<F: Fences> {
    /// The jobs of one GROUP_SUBMIT, in order, right after it succeeded.
    fn submitted(&mut self, fences: &F, jobs: &[Job]);

    /// Waits for one job; `Ok` only if its own fence signalled without error.
    ///
    /// # Errors
    /// [`WatchError`]: expired, failed, or the device could not be asked.
    fn wait(
        &mut self,
        fences: &F,
        job: &Job,
        deadline: Deadline,
    ) -> Result<(), WatchError<F::Error>>;
}

/// The simplest watch: waits until the deadline and reads the result from the status syncobj.
#[derive(Clone, Copy, Debug, Default)]
pub struct FiniteWait;

impl<F: Fences> Watch<F> for FiniteWait {
    fn submitted(&mut self, _fences: &F, jobs: &[Job]) {
        for job in jobs {
            log::trace!(
                "submitted point {} ({} cycles predicted)",
                job.point.value,
                job.predicted_cycles
            );
        }
    }

    fn wait(
        &mut self,
        fences: &F,
        job: &Job,
        deadline: Deadline,
    ) -> Result<(), WatchError<F::Error>> {
        let begin = fences.now();
        let signalled = fences
            .wait_point(job.point, deadline)
            .map_err(WatchError::Device)?;
        match fences.status(job.status).map_err(WatchError::Device)? {
            FenceState::Done => Ok(()),
            FenceState::Failed(errno) => Err(WatchError::JobFailed {
                point: job.point,
                errno,
            }),
            FenceState::Pending if signalled => Err(WatchError::NotItsOwn(job.point)),
            FenceState::Pending => Err(WatchError::Expired {
                point: job.point,
                waited: deadline.0.saturating_sub(begin),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{QueueId, Replay};

    struct Fake {
        signalled: bool,
        status: FenceState,
    }

    #[derive(Debug, thiserror::Error)]
    #[error("none")]
    struct NoError;

    impl Fences for Fake {
        type Error = NoError;
        fn now(&self) -> Duration {
            Duration::from_secs(3)
        }
        fn wait_point(&self, _: TimelinePoint, _: Deadline) -> Result<bool, NoError> {
            Ok(self.signalled)
        }
        fn status(&self, _: SyncobjId) -> Result<FenceState, NoError> {
            Ok(self.status)
        }
    }

    fn wait(signalled: bool, status: FenceState) -> Result<(), WatchError<NoError>> {
        let job = Job {
            queue: QueueId { group: 1, queue: 0 },
            point: TimelinePoint {
                syncobj: SyncobjId(1),
                value: 7,
            },
            status: SyncobjId(2),
            markers: vec![],
            predicted_cycles: 0,
            inputs: vec![],
            outputs: vec![],
            replay: Replay {
                stream: crate::GpuAddress(0),
                stream_size: 0,
                waits: vec![],
            },
        };
        FiniteWait.wait(
            &Fake { signalled, status },
            &job,
            Deadline(Duration::from_secs(5)),
        )
    }

    #[test]
    fn a_signalled_point_is_not_enough() {
        assert!(wait(true, FenceState::Done).is_ok());
        assert!(matches!(
            wait(true, FenceState::Failed(110)),
            Err(WatchError::JobFailed { errno: 110, .. })
        ));
        assert!(matches!(
            wait(true, FenceState::Pending),
            Err(WatchError::NotItsOwn(_))
        ));
        let expired = wait(false, FenceState::Pending);
        assert!(
            matches!(expired, Err(WatchError::Expired { waited, .. }) if waited == Duration::from_secs(2))
        );
    }
}
