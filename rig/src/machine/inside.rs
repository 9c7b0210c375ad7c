//! Init inside the machine (process 1): mounts, binds the driver, runs the command and relays its streams.
//!
//! The root is the host's file system, so nothing in it is changed: what is mounted here is seen here only.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::mount::{MountFlags, mount};
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, WaitStatus};
use rustix::termios::{OptionalActions, Winsize, tcgetattr, tcsetattr, tcsetwinsize};

use super::frame::{
    Ended, HEAD, Inward, MAX_PAYLOAD, Outward, Parser, Payload, Stage, Stream, VERSION,
};
use super::order::{Order, Stdin};
use super::spawn::spawn;
use super::tree;

/// First argument of the program as init.
pub(super) const VERB: &str = "panthor-rig-init";
/// The order's name in the boot's directory.
pub(super) const ORDER: &str = "order";
/// The line on which the frames go.
const CHANNEL: &str = "/dev/tty1";
/// The line that is the command's standard output, or its one terminal.
const OUT_TERMINAL: &str = "/dev/tty2";
/// The line that is its standard error.
const ERR_TERMINAL: &str = "/dev/tty3";
/// Bytes of frames with standard input that may be under way. The line holds 4096 (drivers/tty/n_tty.c, N_TTY_BUF_SIZE);
/// with fewer than 128 of them free it is throttled, and User Mode Linux then never reads from the host again
/// (arch/um/drivers/line.c: `line_throttle` takes the descriptor off the list and `line_unthrottle` does not put it back).
const WINDOW: usize = 3 << 10;
/// Bytes of output that wait for the channel at most: beyond, the command waits.
const QUEUE: usize = 256 << 10;
/// How long what the command leaves behind may take to die, in ns of the machine's clock.
const LAST_WAIT: u64 = 10_000_000_000;

/// Process 1's life.
pub(super) fn main(directory: &OsStr) -> ! {
    let outcome = Channel::open().map(|mut channel| {
        let frame = match run(&mut channel, Path::new(directory)) {
            Ok(ended) => Outward::Exit { ended, now: now() },
            Err((stage, why)) => Outward::Failed { stage, why },
        };
        channel.send(&frame);
        channel.flush()
    });
    if let Err(error) | Ok(Err(error)) = outcome {
        log_to_kernel(&format!("panthor-rig: channel {CHANNEL}: {error}"));
    }
    // What the command wrote to files may still be in this kernel's memory.
    rustix::fs::sync();
    let _ = rustix::system::reboot(rustix::system::RebootCommand::PowerOff);
    // Without the right to power off there is nothing sensible left; the end of process 1 ends the kernel.
    std::process::exit(1)
}

/// CLOCK_MONOTONIC in ns.
fn now() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn log_to_kernel(line: &str) {
    if let Ok(mut kmsg) = OpenOptions::new().write(true).open("/dev/kmsg") {
        let _ = kmsg.write_all(line.as_bytes());
    }
}

type Failed = (Stage, String);

fn run(channel: &mut Channel, directory: &Path) -> Result<Ended, Failed> {
    let prepare =
        |what: &str, e: io::Error| (Stage::Prepare, format!("inside the rig: {what}: {e}"));
    mounts().map_err(|(what, e)| prepare(&format!("mounting {what}"), e))?;
    let path = directory.join(ORDER);
    let bytes = fs::read(&path).map_err(|e| prepare(&path.display().to_string(), e))?;
    let order = Order::decode(&bytes).ok_or_else(|| {
        let why = format!(
            "{}: written by another build of this program",
            path.display()
        );
        (Stage::Prepare, why)
    })?;
    channel.send(&Outward::Hello {
        version: VERSION,
        now: now(),
    });
    channel.flush().map_err(|e| prepare(CHANNEL, e))?;
    if order.bind {
        bind()?;
    }
    let mut relay = Relay::start(&order)?;
    channel.send(&Outward::Started { now: now() });
    if relay.input.is_some() {
        channel.send(&Outward::Credit(WINDOW as u32));
    }
    relay.run(channel).map_err(|e| prepare("relaying", e))
}

/// What a program expects to find. What is there already stays.
fn mounts() -> Result<(), (&'static str, io::Error)> {
    let needed = [
        ("devtmpfs", "/dev", ""),
        ("proc", "/proc", ""),
        ("sysfs", "/sys", ""),
    ];
    // These a kernel may lack.
    let wanted = [
        ("debugfs", "/sys/kernel/debug", ""),
        ("tracefs", "/sys/kernel/tracing", ""),
        ("tmpfs", "/dev/shm", "mode=1777"),
        ("devpts", "/dev/pts", "mode=620,ptmxmode=666"),
    ];
    let mounted = |kind: &str, at: &str, options: &str| {
        let options = std::ffi::CString::new(options).unwrap_or_default();
        match mount(kind, at, kind, MountFlags::empty(), options.as_c_str()) {
            Err(Errno::BUSY) => Ok(()),
            other => other.map_err(io::Error::from),
        }
    };
    for (kind, at, options) in needed {
        mounted(kind, at, options).map_err(|e| (at, e))?;
    }
    for (kind, at, options) in wanted {
        if at.starts_with("/dev/") {
            let _ = fs::create_dir(at);
        }
        if let Err(error) = mounted(kind, at, options) {
            log::debug!("{at}: {error}");
        }
    }
    for (name, target) in [
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
    ] {
        let _ = std::os::unix::fs::symlink(target, Path::new("/dev").join(name));
    }
    Ok(())
}

/// Binds the driver to the GPU. A driver that is built in has probed before the root was there, and found no firmware.
fn bind() -> Result<(), Failed> {
    let probe = |why: String| (Stage::Probe, why);
    if nodes().is_empty() {
        let path = "/sys/bus/platform/drivers/panthor/bind";
        let written = OpenOptions::new()
            .write(true)
            .open(path)
            .map_err(|e| probe(format!("this kernel has no driver panthor ({path}: {e})")))?
            .write_all(tree::DEVICE.as_bytes());
        if let Err(error) = written {
            return Err(probe(format!(
                "panthor did not probe the rig's GPU: {error}"
            )));
        }
    }
    let nodes = nodes();
    if nodes.is_empty() {
        return Err(probe(
            "panthor probed the rig's GPU and made no render node".into(),
        ));
    }
    for node in nodes {
        // As udev does for the group `render`, which a caller need not be in here.
        fs::set_permissions(&node, Permissions::from_mode(0o666))
            .map_err(|e| probe(format!("{}: {e}", node.display())))?;
    }
    Ok(())
}

fn nodes() -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir("/dev/dri").into_iter().flatten().flatten();
    entries
        .filter(|e| e.file_name().as_encoded_bytes().starts_with(b"renderD"))
        .map(|e| e.path())
        .collect()
}

/// The line to the host, without any processing.
struct Channel {
    line: File,
    queue: VecDeque<u8>,
    parser: Parser,
}

impl Channel {
    fn open() -> io::Result<Self> {
        // The node may not be there yet: the kernel mounts devtmpfs itself only where it is told to.
        if !Path::new(CHANNEL).exists() {
            let _ = mount("devtmpfs", "/dev", "devtmpfs", MountFlags::empty(), None);
        }
        let line = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags((OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC).bits() as i32)
            .open(CHANNEL)?;
        raw(&line)?;
        Ok(Self {
            line,
            queue: VecDeque::new(),
            parser: Parser::default(),
        })
    }

    fn send(&mut self, frame: &Outward) {
        self.queue.extend(frame.encode());
    }

    /// Writes as much as goes.
    fn write(&mut self) -> io::Result<()> {
        while !self.queue.is_empty() {
            match self.line.write(self.queue.as_slices().0) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => drop(self.queue.drain(..n)),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Writes everything, and waits until the host has it.
    fn flush(&mut self) -> io::Result<()> {
        loop {
            self.write()?;
            if self.queue.is_empty() {
                return Ok(rustix::termios::tcdrain(&self.line)?);
            }
            let mut fds = [PollFd::new(&self.line, PollFlags::OUT)];
            again(poll(&mut fds, None))?;
        }
    }

    /// Reads what is there.
    fn read(&mut self) -> io::Result<()> {
        let mut bytes = [0; 4096];
        match self.line.read(&mut bytes) {
            // The host's end is closed.
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(n) => {
                self.parser.push(&bytes[..n]);
                Ok(())
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(()),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(e) => Err(e),
        }
    }
}

fn again(result: rustix::io::Result<usize>) -> io::Result<usize> {
    match result {
        Err(Errno::INTR) => Ok(0),
        other => Ok(other?),
    }
}

/// Bytes pass as they are.
fn raw(line: &impl AsFd) -> io::Result<()> {
    let mut settings = tcgetattr(line)?;
    settings.make_raw();
    Ok(tcsetattr(line, OptionalActions::Now, &settings)?)
}

/// A running command and its streams.
struct Relay {
    /// The command, which leads a session and a process group.
    command: Pid,
    ended: OwnedFd,
    input: Option<File>,
    /// What came for `input` and did not fit yet.
    waiting: VecDeque<u8>,
    /// Bytes of frames that came and were not credited again.
    owed: usize,
    input_over: bool,
    outputs: [Option<OwnedFd>; 2],
    /// The lines that are terminals of the command, for their size.
    terminals: Vec<File>,
}

impl Relay {
    fn start(order: &Order) -> Result<Self, Failed> {
        let io = |what: &str| {
            let what = what.to_owned();
            move |e: io::Error| (Stage::Prepare, format!("inside the rig: {what}: {e}"))
        };
        let program = order.argv.first().ok_or_else(|| {
            let why = "no command to run inside the rig".to_owned();
            (Stage::NotFound, why)
        })?;
        let t = &order.terminals;
        let size = Winsize {
            ws_row: t.rows,
            ws_col: t.columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        let mut terminals = Vec::new();
        let mut terminal = |name: &str, cooked: bool| -> Result<OwnedFd, Failed> {
            let line = OpenOptions::new()
                .read(cooked)
                .write(true)
                .custom_flags(OFlags::NOCTTY.bits() as i32)
                .open(name)
                .map_err(io(name))?;
            if !cooked {
                // The host's terminal does what is to be done to output.
                raw(&line).map_err(io(name))?;
            }
            tcsetwinsize(&line, size).map_err(|e| io(name)(e.into()))?;
            if !order.identity.capable {
                fs::set_permissions(name, Permissions::from_mode(0o666)).map_err(io(name))?;
            }
            let theirs = line.try_clone().map_err(io(name))?;
            terminals.push(line);
            Ok(theirs.into())
        };
        let pipe = || {
            rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
                .map_err(|e| io("a pipe")(e.into()))
        };
        let (mut input, mut outputs) = (None, [None, None]);
        let streams = if t.controlling {
            let line = terminal(OUT_TERMINAL, true)?;
            let again = || line.try_clone().map_err(io(OUT_TERMINAL));
            [again()?, again()?, line]
        } else {
            let stdin = match order.stdin {
                Stdin::Null => File::open("/dev/null").map_err(io("/dev/null"))?.into(),
                Stdin::Channel => {
                    let (theirs, ours) = pipe()?;
                    input = Some(File::from(ours));
                    theirs
                }
            };
            let mut output = |i: usize, wanted: bool, name: &str| match wanted {
                true => terminal(name, false),
                false => {
                    let (ours, theirs) = pipe()?;
                    outputs[i] = Some(ours);
                    Ok(theirs)
                }
            };
            [
                stdin,
                output(0, t.out, OUT_TERMINAL)?,
                output(1, t.err, ERR_TERMINAL)?,
            ]
        };
        fs::metadata(&order.cwd).map_err(io(&format!("directory {}", order.cwd.display())))?;
        let pid = spawn(order, streams).map_err(|e| {
            let stage = match e.kind() {
                io::ErrorKind::NotFound => Stage::NotFound,
                _ => Stage::Start,
            };
            (stage, format!("{}: {e}", program.to_string_lossy()))
        })?;
        let ended = rustix::process::pidfd_open(pid, PidfdFlags::empty())
            .map_err(|e| io("pidfd_open")(e.into()))?;
        let ends = outputs.iter().flatten().map(AsFd::as_fd);
        for end in ends.chain(input.as_ref().map(AsFd::as_fd)) {
            rustix::fs::fcntl_setfl(end, OFlags::NONBLOCK).map_err(|e| io("a pipe")(e.into()))?;
        }
        Ok(Self {
            command: pid,
            ended,
            input,
            waiting: VecDeque::new(),
            owed: 0,
            input_over: false,
            outputs,
            terminals,
        })
    }

    /// Relays until the command has ended and all that it wrote is under way.
    fn run(&mut self, channel: &mut Channel) -> io::Result<Ended> {
        let status = loop {
            if let Some(status) = reap(self.command) {
                break status;
            }
            let room = channel.queue.len() < QUEUE;
            let channel_wants = match channel.queue.is_empty() {
                true => PollFlags::IN,
                false => PollFlags::IN | PollFlags::OUT,
            };
            let mut fds = vec![
                PollFd::new(&channel.line, channel_wants),
                PollFd::new(&self.ended, PollFlags::IN),
            ];
            let at_outputs = [0, 1].map(|i| {
                let output = self.outputs[i].as_ref().filter(|_| room)?;
                fds.push(PollFd::new(output, PollFlags::IN));
                Some(fds.len() - 1)
            });
            let at_input = self.input.as_ref().map(|input| {
                // Without bytes for it, only its closing is of interest, which is always told.
                let wants = match self.waiting.is_empty() {
                    true => PollFlags::empty(),
                    false => PollFlags::OUT,
                };
                fds.push(PollFd::new(input, wants));
                fds.len() - 1
            });
            again(poll(&mut fds, None))?;
            let events: Vec<PollFlags> = fds.iter().map(PollFd::revents).collect();
            drop(fds);
            let is = |at: Option<usize>| at.is_some_and(|i| !events[i].is_empty());
            if events[0].contains(PollFlags::OUT) {
                channel.write()?;
            }
            if events[0].intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) {
                channel.read()?;
                while let Some(frame) = channel.parser.next().map_err(io::Error::other)? {
                    self.obey(frame, channel)?;
                }
            }
            for i in [0, 1] {
                if is(at_outputs[i]) {
                    self.output(i, channel)?;
                }
            }
            if is(at_input) {
                self.feed(channel)?;
            }
        };
        // Its children end with it: one that holds its pipes would keep the machine up.
        kill_all();
        bury();
        for i in [0, 1] {
            while self.output(i, channel)? {
                if channel.queue.len() >= QUEUE {
                    channel.flush()?;
                }
            }
        }
        let small = |n: i32| u8::try_from(n & 0xff).unwrap_or(u8::MAX);
        Ok(match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => Ended::Code(small(code)),
            (None, signal) => Ended::Signal(small(signal.unwrap_or(Signal::KILL.as_raw()))),
        })
    }

    fn obey(&mut self, frame: Inward, channel: &mut Channel) -> io::Result<()> {
        match frame {
            Inward::Input(bytes) => {
                self.owed += bytes.len() + HEAD;
                if self.owed > WINDOW {
                    return Err(io::Error::other("more input than was credited"));
                }
                self.waiting.extend(bytes);
                self.feed(channel)?;
            }
            Inward::InputEnd => {
                self.input_over = true;
                self.feed(channel)?;
            }
            Inward::Signal(number) => {
                if let Some(signal) = Signal::from_named_raw(i32::from(number)) {
                    let _ = rustix::process::kill_process_group(self.command, signal);
                }
                channel.send(&Outward::Signalled(number));
            }
            Inward::Size { rows, columns } => {
                for terminal in &self.terminals {
                    let size = Winsize {
                        ws_row: rows,
                        ws_col: columns,
                        ws_xpixel: 0,
                        ws_ypixel: 0,
                    };
                    let _ = tcsetwinsize(terminal, size);
                }
                if !self.terminals.is_empty() {
                    let _ = rustix::process::kill_process_group(self.command, Signal::WINCH);
                }
            }
            // Its next write tells the command, as it would outside.
            Inward::OutputClosed(Stream::Out) => self.outputs[0] = None,
            Inward::OutputClosed(Stream::Err) => self.outputs[1] = None,
        }
        Ok(())
    }

    /// Passes on a piece of an output; whether there may be more at once.
    fn output(&mut self, i: usize, channel: &mut Channel) -> io::Result<bool> {
        let Some(output) = &self.outputs[i] else {
            return Ok(false);
        };
        let stream = [Stream::Out, Stream::Err][i];
        let mut bytes = vec![0; MAX_PAYLOAD];
        match rustix::io::read(output, &mut bytes) {
            Ok(0) => self.outputs[i] = None,
            Ok(n) => {
                bytes.truncate(n);
                channel.send(&Outward::Output(stream, bytes));
                channel.write()?;
                return Ok(true);
            }
            Err(Errno::INTR) => return Ok(true),
            Err(Errno::AGAIN) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(false)
    }

    /// Gives the command its input, and the host credit for what was taken.
    fn feed(&mut self, channel: &mut Channel) -> io::Result<()> {
        let Some(input) = &mut self.input else {
            self.waiting.clear();
            return Ok(());
        };
        let mut closed = false;
        loop {
            if self.waiting.is_empty() {
                // A pipe without reader says so without being written to.
                let mut fds = [PollFd::new(input, PollFlags::empty())];
                again(poll(
                    &mut fds,
                    Some(&Timespec {
                        tv_sec: 0,
                        tv_nsec: 0,
                    }),
                ))?;
                closed |= fds[0].revents().contains(PollFlags::ERR);
                break;
            }
            match input.write(self.waiting.as_slices().0) {
                Ok(n) => drop(self.waiting.drain(..n)),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => {
                    closed = true;
                    break;
                }
            }
        }
        if closed {
            self.input = None;
            self.waiting.clear();
            channel.send(&Outward::InputClosed);
        } else if self.waiting.is_empty() && self.input_over {
            self.input = None;
        } else if !self.input_over {
            let taken = self.owed - self.waiting.len();
            if taken >= WINDOW / 3 {
                self.owed = self.waiting.len();
                channel.send(&Outward::Credit(taken as u32));
            }
        }
        Ok(())
    }
}

/// Kills every process but this one and the kernel's.
fn kill_all() {
    let _ = nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(-1),
        nix::sys::signal::Signal::SIGKILL,
    );
}

/// Takes whatever has ended; the status of the command, where it was among it.
fn reap(command: Pid) -> Option<WaitStatus> {
    let mut status = None;
    while let Ok(Some((pid, how))) = rustix::process::wait(WaitOptions::NOHANG) {
        if pid == command {
            status = Some(how);
        }
    }
    status
}

/// Takes what was killed, for [`LAST_WAIT`] at most.
fn bury() {
    let begin = now();
    loop {
        match rustix::process::wait(WaitOptions::NOHANG) {
            Ok(Some(_)) => {}
            Ok(None) if now() - begin < LAST_WAIT => std::thread::sleep(Duration::from_millis(1)),
            Ok(None) => {
                log_to_kernel("panthor-rig: a process of the command does not die");
                break;
            }
            Err(_) => break,
        }
    }
}
