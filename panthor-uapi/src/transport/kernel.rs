//! The running kernel behind the seam.

use std::ffi::c_void;
use std::os::fd::{BorrowedFd, IntoRawFd};
use std::path::Path;
use std::ptr::NonNull;
use std::sync::Arc;

use rustix::event::{EventfdFlags, PollFlags, Timespec};
use rustix::fs::{Mode, OFlags, SeekFrom};
use rustix::ioctl::{Ioctl, IoctlOutput, Opcode};
use rustix::mm::{MapFlags, ProtFlags};
use rustix::thread::ClockId;

use super::{Errno, Fd, PollEvents, PollFd, Prot, SharedTransport, Transport, TransportKind};

/// Nanoseconds in a second.
const NSEC_PER_SEC: u64 = 1_000_000_000;

/// The running kernel: plain system calls, no state.
#[derive(Clone, Copy, Debug, Default)]
pub struct KernelTransport;

impl KernelTransport {
    /// The kernel, ready to be held by several owners.
    pub fn shared() -> SharedTransport {
        Arc::new(Self)
    }
}

/// A request whose number and argument are known only at run time.
struct RawIoctl {
    request: u32,
    arg: *mut u8,
}

// SAFETY: the opcode and the pointer are those that the caller of `Transport::ioctl` vouches for; the output is the
// system call's own return value and reads no memory.
unsafe impl Ioctl for RawIoctl {
    type Output = i32;

    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        self.request as Opcode
    }

    fn as_ptr(&mut self) -> *mut c_void {
        self.arg.cast()
    }

    unsafe fn output_from_ptr(
        out: IoctlOutput,
        _: *mut c_void,
    ) -> rustix::io::Result<Self::Output> {
        Ok(out)
    }
}

/// Lends `fd` to one system call.
fn borrow<'a>(fd: Fd) -> Result<BorrowedFd<'a>, Errno> {
    if fd.raw() < 0 {
        return Err(Errno::BADF);
    }
    // SAFETY: not -1. The number is only handed to one system call, for which a closed descriptor is EBADF; that it
    // stays open meanwhile is the promise of whoever owns it (`Transport::close` is unsafe for that reason).
    Ok(unsafe { BorrowedFd::borrow_raw(fd.raw()) })
}

/// `ns` nanoseconds as a timespec.
fn timespec(ns: u64) -> Timespec {
    // Both fit: u64::MAX / 1e9 is below i64::MAX.
    Timespec {
        tv_sec: (ns / NSEC_PER_SEC) as i64,
        tv_nsec: (ns % NSEC_PER_SEC) as _,
    }
}

impl Transport for KernelTransport {
    fn kind(&self) -> TransportKind {
        TransportKind::Kernel
    }

    fn open(&self, path: &Path) -> Result<Fd, Errno> {
        let fd = rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Fd::from_raw(fd.into_raw_fd()))
    }

    unsafe fn ioctl(&self, fd: Fd, request: u32, arg: *mut u8) -> Result<i32, Errno> {
        let fd = borrow(fd)?;
        // SAFETY: the caller vouches for `arg` and the pointers behind it, as this function's contract says.
        unsafe { rustix::ioctl::ioctl(fd, RawIoctl { request, arg }) }
    }

    fn mmap(&self, fd: Fd, offset: u64, len: usize, prot: Prot) -> Result<NonNull<u8>, Errno> {
        let fd = borrow(fd)?;
        let prot = ProtFlags::from_bits_retain(prot.bits());
        // SAFETY: the kernel chooses the address (no MAP_FIXED), so no existing mapping is replaced; the memory is only
        // reached through the returned pointer.
        let ptr = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                len,
                prot,
                MapFlags::SHARED,
                fd,
                offset,
            )?
        };
        NonNull::new(ptr.cast()).ok_or(Errno::FAULT)
    }

    unsafe fn munmap(&self, addr: NonNull<u8>, len: usize) -> Result<(), Errno> {
        // SAFETY: the caller vouches that this is a whole mapping that nobody uses any more.
        unsafe { rustix::mm::munmap(addr.as_ptr().cast(), len) }
    }

    fn eventfd(&self, initial: u32) -> Result<Fd, Errno> {
        let fd = rustix::event::eventfd(initial, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Fd::from_raw(fd.into_raw_fd()))
    }

    fn read_eventfd(&self, fd: Fd) -> Result<u64, Errno> {
        let mut count = [0u8; 8];
        match rustix::io::read(borrow(fd)?, &mut count)? {
            8 => Ok(u64::from_ne_bytes(count)),
            _ => Err(Errno::INVAL),
        }
    }

    fn poll(&self, fds: &mut [PollFd], deadline_ns: Option<u64>) -> Result<usize, Errno> {
        let mut timeout = deadline_ns.map(|deadline| timespec(deadline.saturating_sub(self.now())));
        let mut places = Vec::with_capacity(fds.len());
        let mut raw = Vec::with_capacity(fds.len());
        let mut found = 0;
        for (place, entry) in fds.iter_mut().enumerate() {
            entry.revents = PollEvents::empty();
            if let Ok(fd) = borrow(entry.fd) {
                let events = PollFlags::from_bits_retain(entry.events.bits() as _);
                raw.push(rustix::event::PollFd::from_borrowed_fd(fd, events));
                places.push(place);
            } else {
                entry.revents = PollEvents::NVAL;
                found += 1;
            }
        }
        if found > 0 {
            timeout = Some(timespec(0));
        }
        found += rustix::event::poll(&mut raw, timeout.as_ref())?;
        for (place, raw) in places.into_iter().zip(&raw) {
            fds[place].revents = PollEvents::from_bits_retain(raw.revents().bits() as _);
        }
        Ok(found)
    }

    fn seek_end(&self, fd: Fd) -> Result<u64, Errno> {
        rustix::fs::seek(borrow(fd)?, SeekFrom::End(0))
    }

    unsafe fn close(&self, fd: Fd) -> Result<(), Errno> {
        if fd.raw() < 0 {
            return Err(Errno::BADF);
        }
        // SAFETY: not -1, and the caller vouches that this descriptor is ours and not used any more.
        unsafe { rustix::io::try_close(fd.raw()) }
    }

    fn now(&self) -> u64 {
        let now = rustix::time::clock_gettime(ClockId::Monotonic);
        // CLOCK_MONOTONIC is never negative.
        now.tv_sec as u64 * NSEC_PER_SEC + now.tv_nsec as u64
    }

    fn sleep_until(&self, deadline_ns: u64) {
        let deadline = timespec(deadline_ns);
        // A signal ends the sleep early, as the trait allows; other errors are for arguments that cannot occur here.
        if let Err(errno) = rustix::thread::clock_nanosleep_absolute(ClockId::Monotonic, &deadline)
        {
            log::trace!("clock_nanosleep until {deadline_ns} ns: {errno}");
        }
    }

    fn page_size(&self) -> usize {
        rustix::param::page_size()
    }
}
