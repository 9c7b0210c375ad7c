//! The seam: the only place of the project that reaches an operating system for the GPU's sake.

mod errno;
mod kernel;

use std::fmt;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::Arc;

pub use errno::errno_name;
pub use kernel::KernelTransport;
/// An error number as the kernel returns it (positive), with the kernel's names as constants (`Errno::INVAL`).
pub use rustix::io::Errno;

/// What stands behind a transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TransportKind {
    /// The running kernel: a real device.
    Kernel,
    /// A simulator inside this process.
    Simulator,
}

impl TransportKind {
    /// The word that reports use: `"hardware"` or `"simulator"`.
    pub const fn word(self) -> &'static str {
        match self {
            TransportKind::Kernel => "hardware",
            TransportKind::Simulator => "simulator",
        }
    }
}

impl fmt::Display for TransportKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// A file descriptor, numbered by the transport that gave it: no number means anything to another transport.
///
/// A plain number without ownership; the safe handles close theirs when they are dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fd(i32);

impl Fd {
    /// The descriptor with this number.
    pub const fn from_raw(raw: i32) -> Self {
        Self(raw)
    }

    /// The number, as ioctl structs carry it.
    pub const fn raw(self) -> i32 {
        self.0
    }
}

impl fmt::Display for Fd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "fd {}", self.0)
    }
}

bitflags::bitflags! {
    /// What the CPU may do with a mapping (`PROT_*`).
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Prot: u32 {
        /// Loads.
        const READ = 1;
        /// Stores.
        const WRITE = 2;
    }

    /// What [`Transport::poll`] waits for and reports (`POLL*`, asm-generic values).
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct PollEvents: u16 {
        /// Readable: an eventfd with a count, a sync file whose fences have all signalled.
        const IN = 0x1;
        /// Writable.
        const OUT = 0x4;
        /// An error condition; reported unasked.
        const ERR = 0x8;
        /// Hung up; reported unasked.
        const HUP = 0x10;
        /// Not an open descriptor; reported unasked.
        const NVAL = 0x20;
    }
}

/// One entry of [`Transport::poll`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PollFd {
    /// The descriptor to watch.
    pub fd: Fd,
    /// What to wait for.
    pub events: PollEvents,
    /// What was found; written by every successful call.
    pub revents: PollEvents,
}

impl PollFd {
    /// An entry that waits for `events` on `fd`.
    pub const fn new(fd: Fd, events: PollEvents) -> Self {
        Self {
            fd,
            events,
            revents: PollEvents::empty(),
        }
    }
}

/// The operating system as the panthor driver's user sees it.
///
/// Every call is *raw*: it is issued once and its errno is returned as it came, EINTR and EAGAIN included. Restarting
/// them is the work of the safe handles above. All times are nanoseconds of [`Transport::now`]'s clock, absolute.
///
/// Two implementations exist: [`KernelTransport`], and the simulator's, which receives the very bytes that the kernel
/// would and answers with the errno that the kernel gives for them.
pub trait Transport: Send + Sync {
    /// What stands behind this transport.
    fn kind(&self) -> TransportKind;

    /// Opens a device node (`O_RDWR | O_CLOEXEC`).
    ///
    /// # Errors
    /// As `open(2)`: ENOENT, EACCES, ENXIO, …
    fn open(&self, path: &Path) -> Result<Fd, Errno>;

    /// Issues one ioctl, once.
    ///
    /// `arg` points to the request's struct: as many bytes as the size field of `request` says, read and written as its
    /// direction says. Pointers inside the struct are user pointers, as for the kernel.
    ///
    /// # Errors
    /// The kernel's errno for these bytes.
    ///
    /// # Safety
    /// `arg` and every user pointer inside the struct must be valid for what the request reads and writes.
    unsafe fn ioctl(&self, fd: Fd, request: u32, arg: *mut u8) -> Result<i32, Errno>;

    /// Maps `len` bytes at `offset` of `fd`, shared. The address is the transport's choice, page-aligned.
    ///
    /// # Errors
    /// As `mmap(2)`: EINVAL for a misaligned offset or a range outside the object, EACCES, EPERM, ENOMEM, …
    fn mmap(&self, fd: Fd, offset: u64, len: usize, prot: Prot) -> Result<NonNull<u8>, Errno>;

    /// Undoes one [`Transport::mmap`].
    ///
    /// # Errors
    /// EINVAL for a misaligned address.
    ///
    /// # Safety
    /// `addr` and `len` must be those of one mapping of this transport that nobody uses any more.
    unsafe fn munmap(&self, addr: NonNull<u8>, len: usize) -> Result<(), Errno>;

    /// Creates an eventfd (`EFD_CLOEXEC | EFD_NONBLOCK`) that counts from `initial`.
    ///
    /// # Errors
    /// EMFILE, ENFILE, ENOMEM.
    fn eventfd(&self, initial: u32) -> Result<Fd, Errno>;

    /// Takes the count of an eventfd and sets it to zero.
    ///
    /// # Errors
    /// EAGAIN when the count is zero, EBADF, EINVAL when it is not an eventfd.
    fn read_eventfd(&self, fd: Fd) -> Result<u64, Errno>;

    /// Waits until one of `fds` has something to report or the clock reaches `deadline_ns` (`None`: for ever).
    /// Returns how many entries have nonzero `revents`: 0 is the deadline.
    ///
    /// # Errors
    /// EINTR, ENOMEM. A bad descriptor is [`PollEvents::NVAL`] in its entry, no error.
    fn poll(&self, fds: &mut [PollFd], deadline_ns: Option<u64>) -> Result<usize, Errno>;

    /// The size in bytes of what `fd` refers to (`lseek(fd, 0, SEEK_END)`): how a dma-buf tells its size.
    ///
    /// # Errors
    /// EBADF, ESPIPE where the object has no size.
    fn seek_end(&self, fd: Fd) -> Result<u64, Errno>;

    /// Closes a descriptor. Whatever is returned, it is closed.
    ///
    /// # Errors
    /// EBADF, and errors that the object reports on its last close.
    ///
    /// # Safety
    /// `fd` must have been given by this transport, and nobody may use the number afterwards.
    unsafe fn close(&self, fd: Fd) -> Result<(), Errno>;

    /// The clock: CLOCK_MONOTONIC in nanoseconds, which the DRM timeouts use too. The simulator's clock is virtual.
    fn now(&self) -> u64;

    /// Returns once the clock has reached `deadline_ns`, or earlier when a signal arrives.
    fn sleep_until(&self, deadline_ns: u64);

    /// The size in bytes of the CPU's pages, which is the granularity of BO sizes and mmap offsets: 4096, 16384, 65536.
    fn page_size(&self) -> usize;
}

/// A transport that several owners hold.
pub type SharedTransport = Arc<dyn Transport>;

impl fmt::Debug for dyn Transport + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Transport({})", self.kind())
    }
}
