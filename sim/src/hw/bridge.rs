//! The way from the kernel to the model: lock-step requests over a Unix stream socket.
//!
//! The kernel's half is `rig/kernel/files/arch/um/drivers/mali_bridge.c`. Each access, and each deadline, is one request
//! and one reply, in the host's byte order; the kernel stands still meanwhile. The first request is HELLO, which brings
//! the file of the guest's physical memory along.
//!
//! | request, 32 bytes | HELLO | READ | WRITE | TICK |
//! |---|---|---|---|---|
//! | `op: u32` | 0 | 1 | 2 | 3 |
//! | `offset: u32` | protocol | offset in the window | the same | 0 |
//! | `size: u32` | 32 | 4 or 8 | the same | 0 |
//! | `pid: u32` | of the kernel | 0 | 0 | 0 |
//! | `value: u64` | bytes of memory | 0 | value | 0 |
//! | `now: u64` | physical address of the flush id's page | the guest's clock in ns | the same | the same |
//!
//! Reply, 24 bytes: `value: u64`, `deadline: u64` (when to send TICK; all ones for never), `lines: u32` (levels: bit 0 job,
//! 1 mmu, 2 gpu), and `extra: u32`: the protocol in the reply to HELLO; otherwise, from protocol 2 on, the nanoseconds
//! that the access takes longer than usual, by a fault, which the kernel is to let pass.

use std::io::{IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::unix::net::UnixStream;

use rustix::fd::OwnedFd;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, recvmsg};

use super::physmem::MapError;
use super::regs::{AsReg, Reg};
use super::{Hardware, Options, PhysMem, Summary};

/// Bytes of a request.
pub const REQUEST_BYTES: usize = 32;
/// Bytes of a reply.
pub const REPLY_BYTES: usize = 24;
/// What the reply to HELLO holds: "MALIU".
pub const MAGIC: u64 = 0x004d_414c_4955;
/// The newest protocol; older ones are spoken too.
pub const PROTOCOL: u32 = 2;
/// The first protocol whose replies tell how much longer an access takes.
const PROTOCOL_STALL: u32 = 2;
/// Page size of the guest: what the flush id's page is aligned to at least.
const GUEST_PAGE: u64 = 4096;

/// The kinds of request.
mod op {
    pub const HELLO: u32 = 0;
    pub const READ: u32 = 1;
    pub const WRITE: u32 = 2;
    pub const TICK: u32 = 3;
}

/// Why a kernel could not be served.
#[derive(Debug, thiserror::Error)]
pub enum BridgeError {
    /// The socket failed.
    #[error("the kernel's socket: {0}")]
    Socket(#[from] std::io::Error),
    /// The kernel went away in the middle of a request.
    #[error("the kernel went away after {got} of a request's {REQUEST_BYTES} bytes")]
    Truncated {
        /// Bytes that came.
        got: usize,
    },
    /// The first request is not HELLO, or not one that is understood.
    #[error("no greeting: operation {op} with size {size} came first")]
    NoHello {
        /// The operation.
        op: u32,
        /// Its size.
        size: u32,
    },
    /// The protocol of another release.
    #[error(
        "the kernel's bridge speaks protocol {0}, this program 1 to {PROTOCOL}: build the kernel anew"
    )]
    Protocol(u32),
    /// HELLO brought no file.
    #[error("the greeting brings {0} files along, expected the one of the guest's memory")]
    NoMemory(usize),
    /// The file cannot be used.
    #[error(transparent)]
    Memory(#[from] MapError),
    /// The page for the flush id is no page of the guest's memory.
    #[error(
        "the page of the flush id at {page:#x} is no page of the guest's {size:#x} bytes of memory"
    )]
    FlushPage {
        /// Its physical address.
        page: u64,
        /// Bytes of memory.
        size: u64,
    },
    /// A request that does not exist.
    #[error("request {number} has operation {op}, which does not exist")]
    BadOperation {
        /// The request, counted from 0.
        number: u64,
        /// The operation.
        op: u32,
    },
}

/// A request, as it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Request {
    op: u32,
    offset: u32,
    size: u32,
    value: u64,
    now: u64,
}

impl Request {
    fn parse(bytes: &[u8; REQUEST_BYTES]) -> Self {
        let word = |at: usize| {
            let mut word = [0; 4];
            word.copy_from_slice(&bytes[at..at + 4]);
            u32::from_ne_bytes(word)
        };
        let long = |at: usize| {
            let mut long = [0; 8];
            long.copy_from_slice(&bytes[at..at + 8]);
            u64::from_ne_bytes(long)
        };
        Self {
            op: word(0),
            offset: word(4),
            size: word(8),
            value: long(16),
            now: long(24),
        }
    }
}

/// Answers a kernel until it goes away, and tells what was.
///
/// # Errors
/// [`BridgeError`] where the socket fails or a request is malformed. Accesses to registers that do not exist are no
/// errors: they are in [`Summary::violations`].
pub fn serve(stream: UnixStream, options: Options) -> Result<Summary, BridgeError> {
    Session::accept(stream, options)?.run(None)
}

/// As [`serve`], with a line for each request in `trace`: time, operation, offset, size, value, then lines and deadline.
/// The physical address of a page table's root is replaced by its number among those seen, since where the guest's
/// kernel puts it differs from run to run; otherwise equal runs give equal traces. Errors of writing the trace end it,
/// with a warning, not the run.
///
/// # Errors
/// As [`serve`].
pub fn serve_traced(
    stream: UnixStream,
    options: Options,
    trace: &mut dyn Write,
) -> Result<Summary, BridgeError> {
    Session::accept(stream, options)?.run(Some(trace))
}

/// A kernel that has been greeted.
#[derive(Debug)]
struct Session {
    stream: UnixStream,
    hardware: Hardware,
    protocol: u32,
    /// Halves of the page tables' roots, in the order in which they were seen.
    roots: Vec<u64>,
}

impl Session {
    /// Takes HELLO and answers it.
    fn accept(mut stream: UnixStream, options: Options) -> Result<Self, BridgeError> {
        let (bytes, mut files) = receive_hello(&mut stream)?;
        let hello = Request::parse(&bytes);
        if hello.op != op::HELLO || hello.size as usize != REQUEST_BYTES {
            return Err(BridgeError::NoHello {
                op: hello.op,
                size: hello.size,
            });
        }
        if !(1..=PROTOCOL).contains(&hello.offset) {
            return Err(BridgeError::Protocol(hello.offset));
        }
        let memory = match (files.pop(), files.len()) {
            (Some(file), 0) => PhysMem::map(file, hello.value)?,
            (last, others) => {
                let count = others + usize::from(last.is_some());
                return Err(BridgeError::NoMemory(count));
            }
        };
        let page = hello.now;
        if page % GUEST_PAGE != 0 || memory.host(page, GUEST_PAGE).is_err() {
            return Err(BridgeError::FlushPage {
                page,
                size: memory.size(),
            });
        }
        let mut session = Self {
            stream,
            hardware: Hardware::new(options, memory),
            protocol: hello.offset,
            roots: Vec::new(),
        };
        session.hardware.set_flush_page(page);
        session.reply(MAGIC, session.protocol)?;
        Ok(session)
    }

    fn run(mut self, mut trace: Option<&mut dyn Write>) -> Result<Summary, BridgeError> {
        let mut number = 0;
        while let Some(bytes) = self.receive()? {
            let request = Request::parse(&bytes);
            let Request {
                op,
                offset,
                size,
                mut value,
                now,
            } = request;
            match op {
                op::READ => value = self.hardware.read(offset, size, now),
                op::WRITE => self.hardware.write(offset, size, value, now),
                op::TICK => self.hardware.tick(now),
                _ => return Err(BridgeError::BadOperation { number, op }),
            }
            number += 1;
            if let Some(sink) = &mut trace {
                if let Err(error) = self.trace(*sink, &request, value) {
                    log::warn!("the trace ends here: {error}");
                    trace = None;
                }
            }
            let stall = self.hardware.stall();
            let reply = if op == op::READ { value } else { 0 };
            if self.protocol >= PROTOCOL_STALL {
                self.reply(reply, stall.try_into().unwrap_or(u32::MAX))?;
            } else {
                // An older kernel cannot let its own clock pass; the host's does.
                if stall != 0 {
                    std::thread::sleep(std::time::Duration::from_nanos(stall));
                }
                self.reply(reply, 0)?;
            }
        }
        Ok(self.hardware.summary())
    }

    fn trace(
        &mut self,
        sink: &mut dyn Write,
        request: &Request,
        value: u64,
    ) -> std::io::Result<()> {
        let Request {
            op,
            offset,
            size,
            now,
            ..
        } = request;
        let kind = match *op {
            op::READ => "R",
            op::WRITE => "W",
            _ => "T",
        };
        write!(sink, "{now} {kind}")?;
        if kind != "T" {
            write!(sink, " {offset:#07x} {size} ")?;
            match self.root_number(*offset, value) {
                Some(number) => write!(sink, "root {number}")?,
                None => write!(sink, "{value:#x}")?,
            }
        }
        write!(sink, " irq {:#x}", self.hardware.lines())?;
        match self.hardware.next_deadline() {
            Some(at) => writeln!(sink, " next {at}"),
            None => writeln!(sink),
        }
    }

    /// The number of a page table's root, if that is what an access is about.
    fn root_number(&mut self, offset: u32, value: u64) -> Option<usize> {
        match Reg::decode(offset, 1)? {
            Reg::As(_, AsReg::TransTab, _) if value != 0 => {}
            _ => return None,
        }
        let seen = self.roots.iter().position(|root| *root == value);
        Some(seen.unwrap_or_else(|| {
            self.roots.push(value);
            self.roots.len() - 1
        }))
    }

    /// The next request; `None` if the kernel has gone.
    fn receive(&mut self) -> Result<Option<[u8; REQUEST_BYTES]>, BridgeError> {
        let mut bytes = [0; REQUEST_BYTES];
        let got = fill(&mut self.stream, &mut bytes)?;
        match got {
            0 => Ok(None),
            REQUEST_BYTES => Ok(Some(bytes)),
            got => Err(BridgeError::Truncated { got }),
        }
    }

    fn reply(&mut self, value: u64, extra: u32) -> Result<(), BridgeError> {
        let deadline = self.hardware.next_deadline().unwrap_or(u64::MAX);
        let mut bytes = [0; REPLY_BYTES];
        bytes[..8].copy_from_slice(&value.to_ne_bytes());
        bytes[8..16].copy_from_slice(&deadline.to_ne_bytes());
        bytes[16..20].copy_from_slice(&self.hardware.lines().to_ne_bytes());
        bytes[20..].copy_from_slice(&extra.to_ne_bytes());
        match self.stream.write_all(&bytes) {
            // It went away while it waited: the next read finds that out.
            Err(error) if is_gone(&error) => Ok(()),
            done => Ok(done?),
        }
    }
}

/// Whether the other side has gone.
fn is_gone(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{BrokenPipe, ConnectionReset};
    matches!(error.kind(), BrokenPipe | ConnectionReset)
}

/// Reads until the buffer is full or the other side has gone; gives the bytes that came.
fn fill(stream: &mut UnixStream, bytes: &mut [u8]) -> std::io::Result<usize> {
    let mut got = 0;
    while got < bytes.len() {
        match stream.read(&mut bytes[got..]) {
            Ok(0) => break,
            Ok(more) => got += more,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) if is_gone(&error) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(got)
}

/// Receives the first request with the files that come along.
fn receive_hello(
    stream: &mut UnixStream,
) -> Result<([u8; REQUEST_BYTES], Vec<OwnedFd>), BridgeError> {
    let mut bytes = [0; REQUEST_BYTES];
    // Room for more than the one that is expected, so that others are closed again and can be counted.
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let got = loop {
        let received = recvmsg(
            &*stream,
            &mut [IoSliceMut::new(&mut bytes)],
            &mut control,
            RecvFlags::CMSG_CLOEXEC,
        );
        match received {
            Ok(message) if message.flags.contains(ReturnFlags::CTRUNC) => {
                return Err(BridgeError::NoMemory(5));
            }
            Ok(message) => break message.bytes,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(std::io::Error::from(error).into()),
        }
    };
    let mut files = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            files.extend(rights);
        }
    }
    let got = got + fill(stream, &mut bytes[got..])?;
    if got < REQUEST_BYTES {
        return Err(BridgeError::Truncated { got });
    }
    Ok((bytes, files))
}

#[cfg(test)]
mod tests {
    use std::io::IoSlice;
    use std::thread::JoinHandle;

    use rustix::fd::{AsFd, BorrowedFd};
    use rustix::fs::MemfdFlags;
    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

    use super::*;

    const MEMORY: u64 = 1 << 20;

    /// A kernel as far as the bridge sees it.
    struct Kernel {
        stream: UnixStream,
        file: OwnedFd,
    }

    type Served = JoinHandle<(Result<Summary, BridgeError>, Vec<u8>)>;

    fn boot(options: &str) -> (Kernel, Served) {
        let (stream, other) = UnixStream::pair().unwrap();
        let file = rustix::fs::memfd_create("guest", MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&file, MEMORY).unwrap();
        let options: Options = options.parse().unwrap();
        let served = std::thread::spawn(move || {
            let mut trace = Vec::new();
            (serve_traced(other, options, &mut trace), trace)
        });
        (Kernel { stream, file }, served)
    }

    fn request(op: u32, offset: u32, size: u32, value: u64, now: u64) -> [u8; REQUEST_BYTES] {
        let mut bytes = [0; REQUEST_BYTES];
        bytes[..4].copy_from_slice(&op.to_ne_bytes());
        bytes[4..8].copy_from_slice(&offset.to_ne_bytes());
        bytes[8..12].copy_from_slice(&size.to_ne_bytes());
        bytes[16..24].copy_from_slice(&value.to_ne_bytes());
        bytes[24..].copy_from_slice(&now.to_ne_bytes());
        bytes
    }

    impl Kernel {
        fn send_hello(&self, bytes: &[u8], files: &[BorrowedFd<'_>]) {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            assert!(control.push(SendAncillaryMessage::ScmRights(files)));
            let sent = sendmsg(
                &self.stream,
                &[IoSlice::new(bytes)],
                &mut control,
                SendFlags::empty(),
            );
            assert_eq!(sent, Ok(bytes.len()));
        }

        fn hello(&mut self, protocol: u32) -> (u64, u64, u32, u32) {
            let bytes = request(0, protocol, 32, MEMORY, 0x3000);
            self.send_hello(&bytes, &[self.file.as_fd()]);
            self.reply()
        }

        fn reply(&mut self) -> (u64, u64, u32, u32) {
            let mut bytes = [0; REPLY_BYTES];
            self.stream.read_exact(&mut bytes).unwrap();
            let long = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap());
            let word = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap());
            (long(0), long(8), word(16), word(20))
        }

        fn call(&mut self, op: u32, offset: u32, size: u32, value: u64, now: u64) -> u64 {
            let bytes = request(op, offset, size, value, now);
            self.stream.write_all(&bytes).unwrap();
            self.reply().0
        }

        fn word(&self, address: u64) -> u32 {
            PhysMem::map(&self.file, MEMORY)
                .unwrap()
                .read32(address)
                .unwrap()
        }
    }

    #[test]
    fn a_kernel_reads_writes_and_is_called_back() {
        let (mut kernel, served) = boot("seed=3");
        assert_eq!(kernel.hello(1), (MAGIC, u64::MAX, 0, 1));
        assert_eq!(kernel.word(0x3000), 1);
        assert_eq!(kernel.call(op::READ, 0, 4, 0, 10), 0xa867_0000);
        assert_eq!(kernel.call(op::READ, 0x100, 8, 0, 20), 0x50005);
        kernel.call(op::WRITE, 0x28, 4, 1 << 8, 30);
        for (space, root) in [(0, 0x7000), (1, 0x8000), (2, 0x7000), (3, 0)] {
            kernel.call(op::WRITE, 0x2400 + 0x40 * space, 8, root, 40);
        }
        let bytes = request(op::WRITE, 0x30, 4, 0x101, 100);
        kernel.stream.write_all(&bytes).unwrap();
        assert_eq!(kernel.reply(), (0, 20_100, 0, 0));
        let bytes = request(op::TICK, 0, 0, 0, 20_100);
        kernel.stream.write_all(&bytes).unwrap();
        assert_eq!(kernel.reply(), (0, u64::MAX, 4, 0));
        drop(kernel);
        let (summary, trace) = served.join().unwrap();
        let summary = summary.unwrap();
        assert_eq!((summary.reads, summary.writes, summary.ticks), (2, 6, 1));
        assert_eq!((summary.end, summary.interrupts), (20_100, [0, 0, 1]));
        assert_eq!(summary.violations, []);
        let trace = String::from_utf8(trace).unwrap();
        let expected = "10 R 0x00000 4 0xa8670000 irq 0x0\n20 R 0x00100 8 0x50005 irq 0x0\n\
                        30 W 0x00028 4 0x100 irq 0x0\n40 W 0x02400 8 root 0 irq 0x0\n\
                        40 W 0x02440 8 root 1 irq 0x0\n40 W 0x02480 8 root 0 irq 0x0\n\
                        40 W 0x024c0 8 0x0 irq 0x0\n100 W 0x00030 4 0x101 irq 0x0 next 20100\n\
                        20100 T irq 0x4\n";
        assert_eq!(trace, expected);
    }

    #[test]
    fn slow_registers_are_told_from_protocol_2_on() {
        let (mut kernel, served) = boot("fault=slow-registers:by=7us:offset=0x0");
        assert_eq!(kernel.hello(2).3, 2);
        for (offset, stall) in [(0, 7000), (4, 0)] {
            let bytes = request(op::READ, offset, 4, 0, 0);
            kernel.stream.write_all(&bytes).unwrap();
            assert_eq!(kernel.reply().3, stall);
        }
        drop(kernel);
        let summary = served.join().unwrap().0.unwrap();
        assert_eq!(summary.faults[0].1, 1);
    }

    #[test]
    fn a_kernel_that_goes_in_mid_request_is_an_error() {
        let (mut kernel, served) = boot("");
        kernel.hello(1);
        kernel.stream.write_all(&[1; 7]).unwrap();
        drop(kernel);
        let error = served.join().unwrap().0.unwrap_err();
        assert!(
            matches!(error, BridgeError::Truncated { got: 7 }),
            "{error}"
        );
    }

    #[test]
    fn malformed_greetings_are_errors() {
        let good = request(0, 1, 32, MEMORY, 0x3000);
        let fails = |bytes: &[u8], files: usize| {
            let (kernel, served) = boot("");
            let all = [kernel.file.as_fd(); 6];
            kernel.send_hello(bytes, &all[..files]);
            drop(kernel);
            served.join().unwrap().0.unwrap_err()
        };
        let truncated = |error| matches!(error, BridgeError::Truncated { got: 31 });
        assert!(truncated(fails(&good[..31], 1)));
        assert!(matches!(fails(&good, 0), BridgeError::NoMemory(0)));
        assert!(matches!(fails(&good, 2), BridgeError::NoMemory(2)));
        assert!(matches!(fails(&good, 6), BridgeError::NoMemory(5 | 6)));
        let error = fails(&request(1, 1, 32, MEMORY, 0x3000), 1);
        assert!(matches!(error, BridgeError::NoHello { op: 1, .. }));
        let error = fails(&request(0, 1, 31, MEMORY, 0x3000), 1);
        assert!(matches!(error, BridgeError::NoHello { size: 31, .. }));
        for protocol in [0, PROTOCOL + 1, u32::MAX] {
            let error = fails(&request(0, protocol, 32, MEMORY, 0x3000), 1);
            assert!(matches!(error, BridgeError::Protocol(p) if p == protocol));
        }
        for memory in [0, MEMORY + 1, u64::MAX] {
            let error = fails(&request(0, 1, 32, memory, 0x3000), 1);
            assert!(matches!(error, BridgeError::Memory(_)), "{error}");
        }
        for page in [8, MEMORY, MEMORY - 8, u64::MAX, !4095] {
            let error = fails(&request(0, 1, 32, MEMORY, page), 1);
            assert!(matches!(error, BridgeError::FlushPage { .. }), "{error}");
        }
    }

    #[test]
    fn an_unknown_operation_ends_the_session() {
        let (mut kernel, served) = boot("");
        kernel.hello(1);
        assert_eq!(kernel.call(op::READ, 0x38, 4, 0, 0), 0);
        for (size, offset) in [(3, 0), (8, 0x1f_fffc), (0, 0), (u32::MAX, u32::MAX)] {
            kernel.call(op::READ, offset, size, 0, 0);
            kernel.call(op::WRITE, offset, size, u64::MAX, 0);
        }
        kernel.stream.write_all(&request(4, 0, 0, 0, 0)).unwrap();
        let error = served.join().unwrap().0.unwrap_err();
        assert!(
            matches!(error, BridgeError::BadOperation { number: 9, op: 4 }),
            "{error}"
        );
    }
}
