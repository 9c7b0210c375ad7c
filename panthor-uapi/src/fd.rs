//! Descriptors that close themselves, and eventfds.

use crate::call::poll;
use crate::error::{Error, Object};
use crate::transport::{Errno, Fd, PollEvents, PollFd, SharedTransport};

/// A descriptor of one transport, closed when dropped.
#[derive(Debug)]
pub struct OwnedFd {
    transport: SharedTransport,
    fd: Fd,
}

impl OwnedFd {
    /// Takes over `fd`.
    ///
    /// # Safety
    /// `fd` must have been given by `transport` and belong to nobody else.
    pub unsafe fn from_fd(transport: SharedTransport, fd: Fd) -> Self {
        Self { transport, fd }
    }

    /// The number, for calls on the same transport while `self` lives.
    pub fn fd(&self) -> Fd {
        self.fd
    }

    /// The transport that gave it.
    pub fn transport(&self) -> &SharedTransport {
        &self.transport
    }

    /// Hands the number out; the caller closes it.
    pub fn into_fd(self) -> Fd {
        let fd = self.fd;
        let mut this = std::mem::ManuallyDrop::new(self);
        // SAFETY: `this` is never dropped nor used again, so its transport is dropped exactly once, here.
        unsafe { std::ptr::drop_in_place(&raw mut this.transport) };
        fd
    }
}

impl Drop for OwnedFd {
    fn drop(&mut self) {
        // SAFETY: the constructor's caller vouched that the descriptor is ours, and nobody can use it after the drop.
        if let Err(errno) = unsafe { self.transport.close(self.fd) } {
            log::warn!("close {}: {errno}", self.fd);
        }
    }
}

/// A counter that syncobjs can count up, to be polled among other things.
#[derive(Debug)]
pub struct EventFd {
    fd: OwnedFd,
}

impl EventFd {
    /// A counter at zero.
    ///
    /// # Errors
    /// [`Error::Call`] with EMFILE, ENFILE or ENOMEM.
    pub fn new(transport: &SharedTransport) -> Result<Self, Error> {
        let fd = transport.eventfd(0).map_err(|errno| Error::Call {
            call: "eventfd",
            object: Object::Fd(-1),
            errno,
        })?;
        // SAFETY: just given by this transport, to us.
        let fd = unsafe { OwnedFd::from_fd(transport.clone(), fd) };
        Ok(Self { fd })
    }

    /// The descriptor, for a poll with others.
    pub fn fd(&self) -> Fd {
        self.fd.fd()
    }

    /// Takes the count; 0 if nothing was counted since.
    ///
    /// # Errors
    /// [`Error::Call`]; none is expected.
    pub fn take(&self) -> Result<u64, Error> {
        loop {
            match self.fd.transport.read_eventfd(self.fd()) {
                Ok(count) => return Ok(count),
                Err(Errno::AGAIN) => return Ok(0),
                Err(Errno::INTR) => {}
                Err(errno) => {
                    return Err(Error::Call {
                        call: "read eventfd",
                        object: Object::Fd(self.fd().raw()),
                        errno,
                    });
                }
            }
        }
    }

    /// Waits until the count is nonzero; `false` if the clock reached `deadline_ns` first.
    ///
    /// # Errors
    /// [`Error::Call`]; none is expected.
    pub fn wait(&self, deadline_ns: u64) -> Result<bool, Error> {
        let mut fds = [PollFd::new(self.fd(), PollEvents::IN)];
        let found =
            poll(&*self.fd.transport, &mut fds, deadline_ns).map_err(|errno| Error::Call {
                call: "poll",
                object: Object::Fd(self.fd().raw()),
                errno,
            })?;
        Ok(found > 0)
    }
}
