//! The keeper: a process between the caller's and User Mode Linux, so that nothing is left behind however the caller ends.
//!
//! It starts the kernel in a process group of its own, is the parent of whatever the kernel orphans, and ends when the
//! kernel has ended. As soon as its socket to the caller closes (also because the caller was killed), it kills that group. In
//! either case it waits for every process below it, removes the boot's private directory, and only then goes.

use std::ffi::OsString;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use rustix::process::{Pid, PidfdFlags, Resource, Rlimit, Signal, WaitOptions};

/// First argument of the program as keeper.
pub(super) const VERB: &str = "panthor-rig-keeper";
/// Most file descriptors that the kernel is given.
const MAX_FDS: usize = 8;
/// Most bytes of an order: names of files and the kernel's command line.
const MAX_ORDER: u32 = 1 << 20;

/// What the keeper shall start.
pub(super) struct Launch<'a> {
    /// The kernel.
    pub kernel: &'a Path,
    /// Its arguments; `{0}`, `{1}`, … become the numbers that the descriptors have in it.
    pub args: Vec<OsString>,
    /// Where its memory lies.
    pub memory: &'a Path,
    /// The directory that goes when it ends.
    pub directory: &'a Path,
    /// What it inherits; the first is its standard output and error as well.
    pub fds: Vec<OwnedFd>,
}

/// A keeper that runs, seen by the caller.
pub(super) struct Keeper {
    child: Child,
    socket: UnixStream,
}

impl Keeper {
    /// Starts `helper` as keeper, and the kernel through it.
    pub(super) fn start(helper: &Path, launch: &Launch<'_>) -> io::Result<Self> {
        let (ours, theirs) = UnixStream::pair()?;
        let child = Command::new(helper)
            .arg(VERB)
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Ctrl-C is for the command inside, not for the keeper.
            .process_group(0)
            .spawn()?;
        let mut keeper = Self {
            child,
            socket: ours,
        };
        let mut order = Vec::new();
        let mut text = |s: &std::ffi::OsStr| {
            order.extend((s.len() as u32).to_le_bytes());
            order.extend(s.as_bytes());
        };
        text(launch.directory.as_os_str());
        text(launch.memory.as_os_str());
        text(launch.kernel.as_os_str());
        launch.args.iter().for_each(|a| text(a));
        let borrowed: Vec<_> = launch.fds.iter().map(AsFd::as_fd).collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !control.push(SendAncillaryMessage::ScmRights(&borrowed)) {
            return Err(io::Error::other("too many descriptors"));
        }
        let head = (order.len() as u32).to_le_bytes();
        sendmsg(
            &keeper.socket,
            &[IoSlice::new(&head)],
            &mut control,
            SendFlags::NOSIGNAL,
        )?;
        keeper.socket.write_all(&order)?;
        Ok(keeper)
    }

    /// A second handle on the socket, whose closing kills the kernel.
    pub(super) fn socket(&self) -> io::Result<UnixStream> {
        self.socket.try_clone()
    }

    /// Waits until the kernel and its processes are gone, and says how the kernel ended; `None` where the keeper itself was
    /// killed.
    pub(super) fn wait(&mut self) -> Option<ExitStatus> {
        let mut status = [0; 4];
        let read = self.socket.read_exact(&mut status);
        let _ = self.child.wait();
        read.ok()
            .map(|()| ExitStatus::from_raw(i32::from_le_bytes(status)))
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        // Tells it to kill, where it has not ended.
        let _ = self.socket.shutdown(std::net::Shutdown::Both);
        let _ = self.child.wait();
    }
}

/// The keeper's life, in its own process.
pub(super) fn main() -> ! {
    // Nobody hears an error: the caller sees the socket close without a status.
    let _ = keep();
    std::process::exit(0)
}

fn keep() -> io::Result<()> {
    let (directory, mut command, socket) = receive()?;
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    // A panic inside makes User Mode Linux abort: no core file of it.
    let limit = rustix::process::getrlimit(Resource::Core);
    rustix::process::setrlimit(
        Resource::Core,
        Rlimit {
            current: Some(0),
            maximum: limit.maximum,
        },
    )?;
    let status = match command.spawn() {
        Ok(child) => {
            // The descriptors are the kernel's now: the caller sees them close when it ends.
            drop(command);
            watch(child, &socket)
        }
        Err(error) => Err(error),
    };
    let _ = std::fs::remove_dir_all(&directory);
    (&socket).write_all(&status?.to_le_bytes())
}

/// The directory to remove, the kernel's command and the socket to the caller.
fn receive() -> io::Result<(PathBuf, Command, UnixStream)> {
    let socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let mut head = [0; 4];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let got = recvmsg(
        &socket,
        &mut [IoSliceMut::new(&mut head)],
        &mut control,
        RecvFlags::CMSG_CLOEXEC | RecvFlags::WAITALL,
    )?;
    let short = || io::Error::from(io::ErrorKind::UnexpectedEof);
    let length = u32::from_le_bytes(head);
    if got.bytes != head.len() || length > MAX_ORDER {
        return Err(short());
    }
    let mut fds = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            fds.extend(rights);
        }
    }
    let mut order = vec![0; length as usize];
    (&socket).read_exact(&mut order)?;
    let mut rest = &order[..];
    let mut texts = Vec::new();
    while let Some((count, tail)) = rest.split_first_chunk::<4>() {
        let count = u32::from_le_bytes(*count) as usize;
        let (text, tail) = tail.split_at_checked(count).ok_or_else(short)?;
        texts.push(OsString::from_vec(text.to_vec()));
        rest = tail;
    }
    let mut texts = texts.into_iter();
    let mut next = || texts.next().ok_or_else(short);
    let (directory, memory, kernel) = (next()?, next()?, next()?);
    let mut command = Command::new(kernel);
    for arg in texts {
        let mut arg = arg.into_vec();
        for (i, fd) in fds.iter().enumerate() {
            arg = replaced(&arg, &format!("{{{i}}}"), &fd.as_raw_fd().to_string());
        }
        command.arg(OsString::from_vec(arg));
    }
    let log = fds.first().ok_or_else(short)?;
    command
        .env_clear()
        .env("TMPDIR", memory)
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::from(log.try_clone()?))
        .stderr(Stdio::from(log.try_clone()?));
    // SAFETY: the closure runs in the forked child of a process with one thread and makes plain system calls only; the
    // descriptors that it borrows are owned by it.
    unsafe {
        command.pre_exec(move || {
            // A session of its own: no terminal, and a process group that can be killed whole.
            rustix::process::setsid()?;
            rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
            for fd in &fds {
                rustix::io::fcntl_setfd(fd, rustix::io::FdFlags::empty())?;
            }
            Ok(())
        });
    }
    Ok((PathBuf::from(directory), command, socket))
}

fn replaced(text: &[u8], from: &str, to: &str) -> Vec<u8> {
    let from = from.as_bytes();
    let mut out = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.windows(from.len()).position(|w| w == from) {
        out.extend(&rest[..at]);
        out.extend(to.as_bytes());
        rest = &rest[at + from.len()..];
    }
    out.extend(rest);
    out
}

/// Waits until the kernel ends or the caller is gone; then nothing of the kernel is left. The kernel's wait status.
fn watch(mut kernel: Child, socket: &UnixStream) -> io::Result<i32> {
    let pid = Pid::from_child(&kernel);
    let ended = rustix::process::pidfd_open(pid, PidfdFlags::empty());
    if let Ok(ended) = &ended {
        loop {
            let mut fds = [
                PollFd::new(ended, PollFlags::IN),
                PollFd::new(socket, PollFlags::IN | PollFlags::RDHUP),
            ];
            match poll(&mut fds, None) {
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => {
                    log_end(&error);
                    break;
                }
                Ok(_) => break,
            }
        }
    }
    // Whatever is left of the group: with ptrace every process inside is one outside. The caller is asked no more.
    let _ = rustix::process::kill_process_group(pid, Signal::KILL);
    let status = kernel.wait()?.into_raw();
    // The orphans' parent is this process (PR_SET_CHILD_SUBREAPER).
    while let Ok(_) | Err(rustix::io::Errno::INTR) = rustix::process::wait(WaitOptions::empty()) {}
    ended?;
    Ok(status)
}

fn log_end(error: &rustix::io::Errno) {
    log::warn!("keeper: poll: {error}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_filled_everywhere() {
        assert_eq!(
            replaced(b"con1=fd:{1},fd:{2}", "{1}", "17"),
            b"con1=fd:17,fd:{2}"
        );
        assert_eq!(replaced(b"{0}{0}", "{0}", "3"), b"33");
        assert_eq!(replaced(b"plain", "{0}", "3"), b"plain");
    }
}
