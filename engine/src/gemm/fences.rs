//! The engine's fences as the watchdog sees them.

use std::time::Duration;

use panthor_uapi::{Device, FenceStatus, Syncobj, SyncobjWaitFlags};
use panthor_watchdog::{Deadline, FenceState, Fences, SyncobjId, TimelinePoint};

/// The engine's timeline and the status syncobjs of the jobs in flight.
pub(super) struct EngineFences<'a> {
    pub(super) device: &'a Device,
    pub(super) timeline: &'a Syncobj,
    pub(super) statuses: &'a [Syncobj],
}

/// Nanoseconds of a duration, saturating.
pub(super) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl Fences for EngineFences<'_> {
    type Error = panthor_uapi::Error;

    fn now(&self) -> Duration {
        Duration::from_nanos(self.device.transport().now())
    }

    fn wait_point(&self, point: TimelinePoint, deadline: Deadline) -> Result<bool, Self::Error> {
        debug_assert_eq!(point.syncobj.0, self.timeline.handle());
        let points = [(self.timeline, point.value)];
        let flags = SyncobjWaitFlags::WAIT_ALL;
        self.device
            .wait_syncobjs(&points, flags, nanoseconds(deadline.0))
            .map(|first| first.is_some())
    }

    fn status(&self, status: SyncobjId) -> Result<FenceState, Self::Error> {
        let Some(syncobj) = self.statuses.iter().find(|s| s.handle() == status.0) else {
            return Err(panthor_uapi::Error::Argument {
                object: panthor_uapi::Object::Syncobj(status.0),
                what: "is no status syncobj of this engine".to_owned(),
            });
        };
        Ok(match syncobj.export_sync_file(0)?.status()? {
            FenceStatus::Pending => FenceState::Pending,
            FenceStatus::Signalled => FenceState::Done,
            FenceStatus::Failed(errno) => FenceState::Failed(errno.raw_os_error()),
        })
    }
}
