//! One ioctl as the safe handles issue it: restarted where the kernel asks for it.

use zerocopy::{FromBytes, IntoBytes};

use crate::error::{Error, Object};
use crate::sys::{request_name, request_size};
use crate::transport::{Errno, Fd, PollFd, Transport};

/// EAGAIN is restarted at once this often, then with pauses.
const EAGAIN_AT_ONCE: u32 = 16;
/// The pause between later attempts, in nanoseconds.
const EAGAIN_PAUSE_NS: u64 = 100_000;
/// How often in all EAGAIN is restarted (about a second with the pauses) before it is reported.
const EAGAIN_MOST: u32 = 10_000;
/// How often EINTR is restarted before it is reported: nobody gets that many signals during one ioctl by chance.
const EINTR_MOST: u32 = 100_000;

/// Counts restarts of one call.
#[derive(Default)]
pub(crate) struct Restarts {
    eintr: u32,
    eagain: u32,
}

impl Restarts {
    /// Whether a call that failed with `errno` is to be issued again; pauses first where that is due.
    pub(crate) fn again(&mut self, transport: &dyn Transport, errno: Errno) -> bool {
        match errno {
            Errno::INTR => {
                self.eintr += 1;
                self.eintr <= EINTR_MOST
            }
            Errno::AGAIN => {
                self.eagain += 1;
                if self.eagain > EAGAIN_AT_ONCE {
                    transport.sleep_until(transport.now().saturating_add(EAGAIN_PAUSE_NS));
                }
                self.eagain <= EAGAIN_MOST
            }
            _ => false,
        }
    }
}

/// Issues `request` with `arg`, again while it is interrupted. Every attempt starts from the same bytes: the kernel may
/// write the struct back even when it fails. Timeouts inside DRM structs are absolute, so a restart keeps the rest.
///
/// # Safety
/// Every user pointer inside `arg` must be valid for what `request` reads and writes.
pub(crate) unsafe fn ioctl<T: FromBytes + IntoBytes + Copy>(
    transport: &dyn Transport,
    fd: Fd,
    request: u32,
    arg: &mut T,
) -> Result<i32, Errno> {
    assert_eq!(
        request_size(request),
        size_of::<T>(),
        "request and struct do not fit"
    );
    let original = *arg;
    let mut restarts = Restarts::default();
    loop {
        // SAFETY: `arg` is exactly as long as the request says, and any bytes are a valid `T`; the caller vouches for
        // the pointers inside.
        match unsafe { transport.ioctl(fd, request, std::ptr::from_mut(arg).cast()) } {
            Err(errno) if restarts.again(transport, errno) => *arg = original,
            result => return result,
        }
    }
}

/// The error of a failed `request` on `object`.
pub(crate) fn failed(request: u32, object: Object) -> impl FnOnce(Errno) -> Error {
    move |errno| Error::Call {
        call: request_name(request).unwrap_or("ioctl"),
        object,
        errno,
    }
}

/// Polls until something happens or the clock reaches `deadline_ns`; interrupted polls go on with the time that is left.
/// Returns the number of entries with something to report, 0 at the deadline.
///
/// # Errors
/// ENOMEM; EINTR after very many interruptions.
pub fn poll(
    transport: &dyn Transport,
    fds: &mut [PollFd],
    deadline_ns: u64,
) -> Result<usize, Errno> {
    let mut restarts = Restarts::default();
    loop {
        match transport.poll(fds, Some(deadline_ns)) {
            Err(errno) if restarts.again(transport, errno) => {}
            result => return result,
        }
    }
}
