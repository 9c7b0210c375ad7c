//! Sync files: fences as descriptors, and the only way to a fence's error.

use crate::call::{self, failed, poll};
use crate::error::{Error, Object};
use crate::fd::OwnedFd;
use crate::syncobj::WaitOutcome;
use crate::sys::sync_file::*;
use crate::transport::{Errno, Fd, PollEvents, PollFd};

/// How a fence stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FenceStatus {
    /// Not signalled.
    Pending,
    /// Signalled well.
    Signalled,
    /// Signalled with an error.
    Failed(Errno),
}

impl FenceStatus {
    /// From the kernel's number: 0, 1, or a negative errno.
    fn from_raw(raw: i32) -> Self {
        match raw {
            0 => FenceStatus::Pending,
            1.. => FenceStatus::Signalled,
            _ => FenceStatus::Failed(Errno::from_raw_os_error(raw.saturating_neg())),
        }
    }
}

/// One fence of a sync file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FenceInfo {
    /// The fence's timeline.
    pub timeline: String,
    /// The driver behind it.
    pub driver: String,
    /// How it stands.
    pub status: FenceStatus,
    /// When it signalled, in nanoseconds of CLOCK_MONOTONIC; 0 while pending.
    pub timestamp_ns: u64,
}

/// A sync file: one or more fences.
#[derive(Debug)]
pub struct SyncFile {
    fd: OwnedFd,
}

impl SyncFile {
    /// Takes over a descriptor that is a sync file.
    pub fn from_fd(fd: OwnedFd) -> Self {
        Self { fd }
    }

    /// The descriptor, for a poll with others.
    pub fn fd(&self) -> Fd {
        self.fd.fd()
    }

    /// Hands the descriptor out.
    pub fn into_fd(self) -> OwnedFd {
        self.fd
    }

    fn object(&self) -> Object {
        Object::Fd(self.fd().raw())
    }

    /// How the fences stand together: failed if one failed, pending if one is pending.
    ///
    /// # Errors
    /// [`Error::Call`]: ENOTTY when it is not a sync file.
    pub fn status(&self) -> Result<FenceStatus, Error> {
        let fences = self.fences()?;
        let failed = fences
            .iter()
            .find(|fence| matches!(fence.status, FenceStatus::Failed(_)));
        let pending = fences
            .iter()
            .find(|fence| fence.status == FenceStatus::Pending);
        match failed.or(pending) {
            Some(fence) => Ok(fence.status),
            None => self.merged_status(),
        }
    }

    /// The status of the sync file's own fence, which for a chain or an array knows no errors of those inside.
    fn merged_status(&self) -> Result<FenceStatus, Error> {
        self.info(&mut [])
            .map(|info| FenceStatus::from_raw(info.status))
    }

    /// The fences one by one.
    ///
    /// # Errors
    /// [`Error::Call`].
    pub fn fences(&self) -> Result<Vec<FenceInfo>, Error> {
        loop {
            let count = self.info(&mut [])?.num_fences as usize;
            if count == 0 {
                return Ok(Vec::new());
            }
            let mut raw = vec![sync_fence_info::default(); count];
            match self.info(&mut raw) {
                // The number of fences only shrinks, as those that have signalled drop out.
                Ok(info) => {
                    raw.truncate(info.num_fences as usize);
                    return Ok(raw.iter().map(fence_info).collect());
                }
                Err(error)
                    if error.errno() == Some(Errno::INVAL)
                        && self.info(&mut [])?.num_fences as usize > count => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn info(&self, fences: &mut [sync_fence_info]) -> Result<sync_file_info, Error> {
        let mut args = sync_file_info {
            num_fences: fences.len() as u32, // a number that the kernel gave
            sync_fence_info: if fences.is_empty() {
                0
            } else {
                fences.as_mut_ptr().expose_provenance() as u64
            },
            ..Default::default()
        };
        // SAFETY: `sync_fence_info` leads to room for `num_fences` structs, of which any content is valid.
        unsafe {
            call::ioctl(
                &**self.fd.transport(),
                self.fd(),
                SYNC_IOC_FILE_INFO,
                &mut args,
            )
        }
        .map_err(failed(SYNC_IOC_FILE_INFO, self.object()))?;
        Ok(args)
    }

    /// A sync file with the fences of both.
    ///
    /// # Errors
    /// [`Error::Call`]: ENOMEM, EMFILE, ENOENT when `other` is not a sync file.
    pub fn merge(&self, other: &SyncFile) -> Result<SyncFile, Error> {
        let mut args = sync_merge_data {
            fd2: other.fd().raw(),
            ..Default::default()
        };
        args.name[..6].copy_from_slice(b"merged");
        let transport = self.fd.transport();
        // SAFETY: no pointers inside.
        unsafe { call::ioctl(&**transport, self.fd(), SYNC_IOC_MERGE, &mut args) }
            .map_err(failed(SYNC_IOC_MERGE, self.object()))?;
        // SAFETY: just given by this transport, to us.
        let fd = unsafe { OwnedFd::from_fd(transport.clone(), Fd::from_raw(args.fence)) };
        Ok(Self { fd })
    }

    /// Waits until all fences have signalled or the clock reaches `deadline_ns`, and tells how they ended.
    ///
    /// # Errors
    /// [`Error::Call`].
    pub fn wait(&self, deadline_ns: u64) -> Result<WaitOutcome, Error> {
        let mut fds = [PollFd::new(self.fd(), PollEvents::IN)];
        let found =
            poll(&**self.fd.transport(), &mut fds, deadline_ns).map_err(|errno| Error::Call {
                call: "poll",
                object: self.object(),
                errno,
            })?;
        if found == 0 {
            return Ok(WaitOutcome::TimedOut);
        }
        self.status().map(WaitOutcome::from)
    }
}

/// The kernel's words about one fence.
fn fence_info(raw: &sync_fence_info) -> FenceInfo {
    FenceInfo {
        timeline: text(&raw.obj_name),
        driver: text(&raw.driver_name),
        status: FenceStatus::from_raw(raw.status),
        timestamp_ns: raw.timestamp_ns,
    }
}

/// A NUL-terminated name.
fn text(bytes: &[u8]) -> String {
    let len = bytes
        .iter()
        .position(|byte| *byte == 0)
        .unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..len]).into_owned()
}
