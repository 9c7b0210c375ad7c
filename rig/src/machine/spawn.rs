//! Starting the command: `fork` and `execve` by hand. (`std::process` makes a pair of Unix sockets for each child, and a
//! kernel that is being tried need not have them.)

use std::convert::Infallible;
use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use nix::errno::Errno;
use nix::unistd::{ForkResult, execve, fork};
use rustix::process::Pid;

use super::order::Order;

/// Where a program is looked for in an environment without PATH (execvp(3)).
const DEFAULT_PATH: &str = "/bin:/usr/bin";
/// What executes a text without `#!` (execvp(3)).
const SHELL: &str = "/bin/sh";

/// Starts the order's command with these three streams, leading a session of its own; `streams[0]` becomes that session's
/// terminal where the order says so.
///
/// # Errors
/// What the child's calls said, the program's absence among it ([`io::ErrorKind::NotFound`]).
pub(super) fn spawn(order: &Order, streams: [OwnedFd; 3]) -> io::Result<Pid> {
    let words = |words: &mut dyn Iterator<Item = &OsStr>| {
        words
            .map(|w| CString::new(w.as_bytes()).map_err(io::Error::from))
            .collect::<io::Result<Vec<_>>>()
    };
    let argv = words(&mut order.argv.iter().map(OsString::as_os_str))?;
    let pairs: Vec<OsString> = order
        .env
        .iter()
        .map(|(name, value)| {
            let mut pair = name.clone();
            pair.push("=");
            pair.push(value);
            pair
        })
        .collect();
    let env = words(&mut pairs.iter().map(OsString::as_os_str))?;
    let program = order.argv.first().map(OsString::as_os_str);
    let places = places(program.unwrap_or_default(), &order.env);
    let places = words(&mut places.iter().map(OsString::as_os_str))?;
    let (failed, fails) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    // SAFETY: init has one thread, so nothing is held in the child that nobody there would release.
    match unsafe { fork() }? {
        ForkResult::Child => {
            let Err(error) = become_it(order, streams, &places, argv, &env);
            let number = error.raw_os_error().unwrap_or(Errno::EIO as i32);
            let _ = rustix::io::write(&fails, &number.to_ne_bytes());
            std::process::exit(127)
        }
        ForkResult::Parent { child } => {
            drop((fails, streams));
            let mut number = [0; 4];
            let pid = Pid::from_raw(child.as_raw()).ok_or(io::ErrorKind::NotFound)?;
            match rustix::io::read(&failed, &mut number)? {
                // Closed by execve.
                0 => Ok(pid),
                _ => {
                    let _ =
                        rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty());
                    Err(io::Error::from_raw_os_error(i32::from_ne_bytes(number)))
                }
            }
        }
    }
}

/// In the child: everything until `execve`.
fn become_it(
    order: &Order,
    [input, output, error]: [OwnedFd; 3],
    places: &[CString],
    mut argv: Vec<CString>,
    env: &[CString],
) -> io::Result<Infallible> {
    rustix::stdio::dup2_stdin(&input)?;
    rustix::stdio::dup2_stdout(&output)?;
    rustix::stdio::dup2_stderr(&error)?;
    rustix::process::setsid()?;
    if order.terminals.controlling {
        rustix::process::ioctl_tiocsctty(io::stdin().as_fd())?;
    }
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(order.umask));
    rustix::process::chdir(&order.cwd)?;
    super::identity::assume(&order.identity)?;
    // Rust's start-up ignores it; the command expects what a shell gives.
    // SAFETY: it sets the default disposition, no handler.
    unsafe {
        nix::sys::signal::signal(
            nix::sys::signal::Signal::SIGPIPE,
            nix::sys::signal::SigHandler::SigDfl,
        )
    }?;
    let mut denied = None;
    for place in places {
        let Err(error) = execve(place, &argv, env);
        match error {
            Errno::ENOEXEC => {
                let shell = CString::new(SHELL).map_err(io::Error::from)?;
                if let Some(first) = argv.first_mut() {
                    first.clone_from(place);
                }
                argv.insert(0, shell.clone());
                execve(&shell, &argv, env)?;
            }
            Errno::ENOENT | Errno::ENOTDIR => {}
            Errno::EACCES => denied = Some(error),
            error => return Err(error.into()),
        }
    }
    Err(denied.unwrap_or(Errno::ENOENT).into())
}

/// The files that a program's name can mean.
fn places(program: &OsStr, env: &[(OsString, OsString)]) -> Vec<OsString> {
    if program.is_empty() || program.as_bytes().contains(&b'/') {
        return vec![program.to_owned()];
    }
    let path = env.iter().rev().find(|(name, _)| name == "PATH");
    let path = path.map_or(OsStr::new(DEFAULT_PATH), |(_, value)| value.as_os_str());
    path.as_bytes()
        .split(|byte| *byte == b':')
        .map(|dir| Path::new(OsStr::from_bytes(dir)).join(program).into())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_without_slash_is_looked_for_in_the_commands_path() {
        let env = [("PATH".into(), "/a::/b c".into())];
        assert_eq!(places(OsStr::new("x"), &env), ["/a/x", "x", "/b c/x"]);
        assert_eq!(places(OsStr::new("./x"), &env), ["./x"]);
        assert_eq!(places(OsStr::new("x"), &[]), ["/bin/x", "/usr/bin/x"]);
    }
}
