//! Syncobjs: containers for fences, binary or timelines.

use std::marker::PhantomData;
use std::sync::Arc;

use crate::call::failed;
use crate::device::{Device, Inner};
use crate::error::{Error, Object};
use crate::fd::{EventFd, OwnedFd};
use crate::sync_file::{FenceStatus, SyncFile};
use crate::sys::drm::*;
use crate::sys::panthor::{SyncOpFlags, drm_panthor_sync_op};
use crate::transport::{Errno, Fd};

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitOutcome {
    /// The deadline came first.
    TimedOut,
    /// Signalled well.
    Signalled,
    /// Signalled with an error: ETIMEDOUT (killed by the queue timer), EINVAL (fault), ECANCELED (group destroyed), …
    Failed(Errno),
}

impl From<FenceStatus> for WaitOutcome {
    fn from(status: FenceStatus) -> Self {
        match status {
            FenceStatus::Pending => WaitOutcome::TimedOut,
            FenceStatus::Signalled => WaitOutcome::Signalled,
            FenceStatus::Failed(errno) => WaitOutcome::Failed(errno),
        }
    }
}

/// A wait or a signal of a job or an asynchronous bind. Point 0 is a binary syncobj's.
#[derive(Clone, Copy, Debug)]
pub struct SyncOp<'a> {
    raw: drm_panthor_sync_op,
    syncobj: PhantomData<&'a Syncobj>,
}

impl<'a> SyncOp<'a> {
    fn new(flags: SyncOpFlags, syncobj: &'a Syncobj, point: u64) -> Self {
        let flags = if point == 0 {
            flags
        } else {
            flags | SyncOpFlags::TIMELINE_SYNCOBJ
        };
        let raw = drm_panthor_sync_op {
            flags: flags.bits(),
            handle: syncobj.handle,
            timeline_value: point,
        };
        Self {
            raw,
            syncobj: PhantomData,
        }
    }

    /// Waits for the fence at `point` (0: binary), which must have been submitted.
    pub fn wait(syncobj: &'a Syncobj, point: u64) -> Self {
        Self::new(SyncOpFlags::empty(), syncobj, point)
    }

    /// Puts the job's fence at `point` (0: binary, replacing the fence in it).
    pub fn signal(syncobj: &'a Syncobj, point: u64) -> Self {
        Self::new(SyncOpFlags::SIGNAL, syncobj, point)
    }

    /// The kernel's form of several.
    pub(crate) fn raw(ops: &[SyncOp<'_>]) -> Vec<drm_panthor_sync_op> {
        ops.iter().map(|op| op.raw).collect()
    }
}

/// A syncobj. Destroyed when dropped.
#[derive(Debug)]
pub struct Syncobj {
    device: Arc<Inner>,
    handle: u32,
}

impl Device {
    /// Creates a syncobj: without a fence, or with a signalled one.
    ///
    /// # Errors
    /// [`Error::Call`]: ENOMEM.
    pub fn create_syncobj(&self, signalled: bool) -> Result<Syncobj, Error> {
        let flags = if signalled {
            SyncobjCreateFlags::SIGNALED
        } else {
            SyncobjCreateFlags::empty()
        };
        let mut args = drm_syncobj_create {
            handle: 0,
            flags: flags.bits(),
        };
        // SAFETY: no pointers inside.
        unsafe {
            self.0
                .call(DRM_IOCTL_SYNCOBJ_CREATE, &mut args, || self.0.object())?
        };
        Ok(Syncobj {
            device: self.0.clone(),
            handle: args.handle,
        })
    }

    /// Imports a syncobj that [`Syncobj::export`] gave: another handle of the same syncobj.
    ///
    /// # Errors
    /// [`Error::Call`]: EINVAL when `fd` is not a syncobj, EBADF.
    pub fn import_syncobj(&self, fd: Fd) -> Result<Syncobj, Error> {
        let mut args = drm_syncobj_handle {
            fd: fd.raw(),
            ..Default::default()
        };
        // SAFETY: no pointers inside.
        unsafe {
            self.0.call(DRM_IOCTL_SYNCOBJ_FD_TO_HANDLE, &mut args, || {
                Object::Fd(fd.raw())
            })?
        };
        Ok(Syncobj {
            device: self.0.clone(),
            handle: args.handle,
        })
    }

    /// Waits for points of several syncobjs (0: binary) until the clock reaches `deadline_ns`. `flags`: `WAIT_ALL` or
    /// the first; `WAIT_FOR_SUBMIT`; `WAIT_AVAILABLE`. Returns the index of the first that signalled (0 with `WAIT_ALL`),
    /// `None` at the deadline.
    ///
    /// This is the bare wait: it does not tell a good signal from an error. See [`Syncobj::wait`].
    ///
    /// # Errors
    /// [`Error::Call`]: EINVAL without `WAIT_FOR_SUBMIT` where a fence is missing; ENOMEM.
    pub fn wait_syncobjs(
        &self,
        points: &[(&Syncobj, u64)],
        flags: SyncobjWaitFlags,
        deadline_ns: u64,
    ) -> Result<Option<usize>, Error> {
        let handles: Vec<u32> = points.iter().map(|(syncobj, _)| syncobj.handle).collect();
        let timeout_nsec = i64::try_from(deadline_ns).unwrap_or(i64::MAX);
        let count_handles = handles.len() as u32; // as obj_array
        let raw_flags = (flags - SyncobjWaitFlags::WAIT_DEADLINE).bits();
        let binary = points.iter().all(|(_, point)| *point == 0);
        let (request, result) = if binary && !flags.contains(SyncobjWaitFlags::WAIT_AVAILABLE) {
            let mut args = drm_syncobj_wait {
                handles: address(&handles),
                timeout_nsec,
                count_handles,
                flags: raw_flags,
                ..Default::default()
            };
            // SAFETY: the array has `count_handles` elements, lives to the end of this function and is only read.
            let result = unsafe { self.0.ioctl(DRM_IOCTL_SYNCOBJ_WAIT, &mut args) };
            (DRM_IOCTL_SYNCOBJ_WAIT, result.map(|_| args.first_signaled))
        } else {
            let values: Vec<u64> = points.iter().map(|(_, point)| *point).collect();
            let mut args = drm_syncobj_timeline_wait {
                handles: address(&handles),
                points: address(&values),
                timeout_nsec,
                count_handles,
                flags: raw_flags,
                ..Default::default()
            };
            // SAFETY: both arrays have `count_handles` elements, live to the end of this block and are only read.
            let result = unsafe { self.0.ioctl(DRM_IOCTL_SYNCOBJ_TIMELINE_WAIT, &mut args) };
            (
                DRM_IOCTL_SYNCOBJ_TIMELINE_WAIT,
                result.map(|_| args.first_signaled),
            )
        };
        match result {
            Ok(_) if flags.contains(SyncobjWaitFlags::WAIT_ALL) => Ok(Some(0)),
            Ok(first) => Ok(Some(first as usize)),
            Err(Errno::TIME) => Ok(None),
            Err(errno) => {
                let object = points
                    .first()
                    .map_or_else(|| self.0.object(), |(syncobj, _)| syncobj.object());
                Err(failed(request, object)(errno))
            }
        }
    }
}

/// The user pointer to a slice.
fn address<T>(slice: &[T]) -> u64 {
    slice.as_ptr().expose_provenance() as u64
}

impl Syncobj {
    /// The handle, nonzero.
    pub fn handle(&self) -> u32 {
        self.handle
    }

    /// The syncobj as errors name it.
    pub fn object(&self) -> Object {
        Object::Syncobj(self.handle)
    }

    /// Issues a request on an array of this one handle.
    fn array(&self, request: u32) -> Result<(), Error> {
        let handles = [self.handle];
        let mut args = drm_syncobj_array {
            handles: address(&handles),
            count_handles: 1,
            pad: 0,
        };
        // SAFETY: `handles` leads to one handle that lives to the end of this function and is only read.
        unsafe { self.device.call(request, &mut args, || self.object()) }
    }

    /// Issues a request on this one handle and point; returns the point as the kernel left it.
    fn point(&self, request: u32, point: u64, flags: SyncobjQueryFlags) -> Result<u64, Error> {
        let handles = [self.handle];
        let mut points = [point];
        let mut args = drm_syncobj_timeline_array {
            handles: address(&handles),
            points: points.as_mut_ptr().expose_provenance() as u64,
            count_handles: 1,
            flags: flags.bits(),
        };
        // SAFETY: both arrays have one element and live to the end of this function.
        unsafe { self.device.call(request, &mut args, || self.object())? };
        Ok(points[0])
    }

    /// Takes the fence out.
    ///
    /// # Errors
    /// [`Error::Call`]; none is expected.
    pub fn reset(&self) -> Result<(), Error> {
        self.array(DRM_IOCTL_SYNCOBJ_RESET)
    }

    /// Puts a signalled fence in.
    ///
    /// # Errors
    /// [`Error::Call`]: ENOMEM.
    pub fn signal(&self) -> Result<(), Error> {
        self.array(DRM_IOCTL_SYNCOBJ_SIGNAL)
    }

    /// Signals a point of a timeline from the CPU.
    ///
    /// # Errors
    /// [`Error::Call`]: ENOMEM.
    pub fn signal_point(&self, point: u64) -> Result<(), Error> {
        self.point(
            DRM_IOCTL_SYNCOBJ_TIMELINE_SIGNAL,
            point,
            SyncobjQueryFlags::empty(),
        )
        .map(|_| ())
    }

    /// The last point of a timeline that signalled; 0 for a binary syncobj.
    ///
    /// # Errors
    /// [`Error::Call`].
    pub fn query(&self) -> Result<u64, Error> {
        self.point(DRM_IOCTL_SYNCOBJ_QUERY, 0, SyncobjQueryFlags::empty())
    }

    /// The last point of a timeline that was submitted; 0 for a binary syncobj.
    ///
    /// # Errors
    /// [`Error::Call`].
    pub fn query_submitted(&self) -> Result<u64, Error> {
        self.point(
            DRM_IOCTL_SYNCOBJ_QUERY,
            0,
            SyncobjQueryFlags::LAST_SUBMITTED,
        )
    }

    /// Copies the fence at `point` of `from` to `to_point` of this one (0: binary).
    ///
    /// # Errors
    /// [`Error::Call`]: EINVAL when there is no such fence.
    pub fn transfer_from(&self, from: &Syncobj, point: u64, to_point: u64) -> Result<(), Error> {
        let mut args = drm_syncobj_transfer {
            src_handle: from.handle,
            dst_handle: self.handle,
            src_point: point,
            dst_point: to_point,
            flags: 0,
            pad: 0,
        };
        // SAFETY: no pointers inside.
        unsafe {
            self.device
                .call(DRM_IOCTL_SYNCOBJ_TRANSFER, &mut args, || from.object())
        }
    }

    /// Waits for `point` (0: binary) until the clock reaches `deadline_ns`, and tells how it ended. `flags`: usually
    /// none, or `WAIT_FOR_SUBMIT` where the job may not be submitted yet.
    ///
    /// SYNCOBJ_WAIT returns 0 for a fence that signalled with an error, so that the error is read from the fence's sync
    /// file afterwards. A timeline forgets: a point whose chain has dropped its signalled links reads as good. For a
    /// job's status wait on a binary syncobj that only this job signals.
    ///
    /// # Errors
    /// [`Error::Call`]: EINVAL without `WAIT_FOR_SUBMIT` where there is no fence.
    pub fn wait(
        &self,
        point: u64,
        flags: SyncobjWaitFlags,
        deadline_ns: u64,
    ) -> Result<WaitOutcome, Error> {
        let device = Device(self.device.clone());
        match device.wait_syncobjs(&[(self, point)], flags, deadline_ns)? {
            None => Ok(WaitOutcome::TimedOut),
            Some(_) => self
                .export_sync_file(point)?
                .status()
                .map(WaitOutcome::from),
        }
    }

    /// Lets `event` count up by one when `point` (0: binary) signals, or at once if it has; with `available` when the
    /// point gets a fence. Kernels since 6.6.
    ///
    /// # Errors
    /// [`Error::Call`]: ENOMEM.
    pub fn notify(&self, point: u64, event: &EventFd, available: bool) -> Result<(), Error> {
        let flags = if available {
            SyncobjWaitFlags::WAIT_AVAILABLE
        } else {
            SyncobjWaitFlags::empty()
        };
        let fd = event.fd().raw();
        let mut args = drm_syncobj_eventfd {
            handle: self.handle,
            flags: flags.bits(),
            point,
            fd,
            pad: 0,
        };
        // SAFETY: no pointers inside.
        unsafe {
            self.device
                .call(DRM_IOCTL_SYNCOBJ_EVENTFD, &mut args, || self.object())
        }
    }

    /// The syncobj itself as a descriptor, for [`Device::import_syncobj`] on another open device.
    ///
    /// # Errors
    /// [`Error::Call`]: EMFILE.
    pub fn export(&self) -> Result<OwnedFd, Error> {
        self.handle_to_fd(SyncobjFdFlags::empty(), 0)
    }

    /// The fence at `point` (0: binary) as a sync file. Kernels before 6.16 export no points: there the fence takes the
    /// way through a binary syncobj.
    ///
    /// # Errors
    /// [`Error::Call`]: EINVAL when there is no fence, EMFILE.
    pub fn export_sync_file(&self, point: u64) -> Result<SyncFile, Error> {
        if point == 0 {
            return self
                .handle_to_fd(SyncobjFdFlags::SYNC_FILE, 0)
                .map(SyncFile::from_fd);
        }
        match self.handle_to_fd(SyncobjFdFlags::SYNC_FILE | SyncobjFdFlags::TIMELINE, point) {
            Err(error) if error.errno() == Some(Errno::INVAL) => {
                let binary = Device(self.device.clone()).create_syncobj(false)?;
                binary.transfer_from(self, point, 0)?;
                binary.export_sync_file(0)
            }
            result => result.map(SyncFile::from_fd),
        }
    }

    fn handle_to_fd(&self, flags: SyncobjFdFlags, point: u64) -> Result<OwnedFd, Error> {
        let mut args = drm_syncobj_handle {
            handle: self.handle,
            flags: flags.bits(),
            fd: -1,
            pad: 0,
            point,
        };
        // SAFETY: no pointers inside.
        unsafe {
            self.device
                .call(DRM_IOCTL_SYNCOBJ_HANDLE_TO_FD, &mut args, || self.object())?
        };
        // SAFETY: just given by this transport, to us.
        Ok(unsafe { OwnedFd::from_fd(self.device.transport.clone(), Fd::from_raw(args.fd)) })
    }

    /// Puts a sync file's fence at `point` (0: binary), the reverse of [`Syncobj::export_sync_file`].
    ///
    /// # Errors
    /// [`Error::Call`]: EINVAL when it is not a sync file.
    pub fn import_sync_file(&self, point: u64, file: &SyncFile) -> Result<(), Error> {
        let fd = file.fd().raw();
        let import = |flags: SyncobjFdFlags| {
            let mut args = drm_syncobj_handle {
                handle: self.handle,
                flags: flags.bits(),
                fd,
                pad: 0,
                point,
            };
            // SAFETY: no pointers inside.
            unsafe {
                self.device
                    .call(DRM_IOCTL_SYNCOBJ_FD_TO_HANDLE, &mut args, || self.object())
            }
        };
        if point == 0 {
            return import(SyncobjFdFlags::SYNC_FILE);
        }
        match import(SyncobjFdFlags::SYNC_FILE | SyncobjFdFlags::TIMELINE) {
            Err(error) if error.errno() == Some(Errno::INVAL) => {
                let binary = Device(self.device.clone()).create_syncobj(false)?;
                binary.import_sync_file(0, file)?;
                self.transfer_from(&binary, 0, point)
            }
            result => result,
        }
    }
}

impl Drop for Syncobj {
    fn drop(&mut self) {
        let mut args = drm_syncobj_destroy {
            handle: self.handle,
            pad: 0,
        };
        // SAFETY: no pointers inside.
        let result = unsafe {
            self.device
                .call(DRM_IOCTL_SYNCOBJ_DESTROY, &mut args, || self.object())
        };
        if let Err(error) = result {
            log::warn!("{error}");
        }
    }
}
