//! The caller's own streams: which are terminals, and a terminal without processing for the time of a shell inside.

use std::io::{self, IsTerminal, Read};
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::FileType;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

use super::Input;
use super::order::Terminals;

/// Device number of `/dev/null` (kernel, Documentation/admin-guide/devices.txt).
const NULL: (u32, u32) = (1, 3);

impl Terminals {
    /// As the caller's standard output and error are.
    pub fn of_caller() -> Self {
        let (rows, columns) = size().unwrap_or_default();
        Self {
            out: io::stdout().is_terminal(),
            err: io::stderr().is_terminal(),
            controlling: false,
            rows,
            columns,
        }
    }
}

/// Rows and columns of the caller's terminal; `None` where none of its outputs is one.
pub fn size() -> Option<(u16, u16)> {
    let of = |fd: BorrowedFd<'_>| tcgetwinsize(fd).ok().map(|s| (s.ws_row, s.ws_col));
    of(io::stdout().as_fd()).or_else(|| of(io::stderr().as_fd()))
}

impl Input {
    /// The caller's standard input. Where that is `/dev/null`, closed, or a terminal that belongs to another job, it is
    /// [`Input::Null`].
    pub fn of_caller() -> Self {
        let stdin = io::stdin();
        let null = rustix::fs::fstat(&stdin).map_or(true, |found| {
            let number = (
                rustix::fs::major(found.st_rdev),
                rustix::fs::minor(found.st_rdev),
            );
            FileType::from_raw_mode(found.st_mode) == FileType::CharacterDevice && number == NULL
        });
        // Reading would stop this process (SIGTTIN), whether the program inside reads or not.
        let elsewhere = rustix::termios::tcgetpgrp(&stdin)
            .is_ok_and(|group| group != rustix::process::getpgrp());
        if null || elsewhere {
            return Self::Null;
        }
        Self::Reader(Box::new(Unbuffered))
    }
}

/// Standard input, of which no more is taken than is asked for.
struct Unbuffered;

impl Read for Unbuffered {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::io::read(io::stdin(), bytes)?)
    }
}

/// The caller's terminal passes every byte as it is, until this is dropped.
pub struct RawTerminal(Termios);

impl RawTerminal {
    /// Makes the terminal that standard input is raw.
    ///
    /// # Errors
    /// Where it is none.
    pub fn enter() -> io::Result<Self> {
        let before = tcgetattr(io::stdin())?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(io::stdin(), OptionalActions::Now, &raw)?;
        Ok(Self(before))
    }
}

impl Drop for RawTerminal {
    fn drop(&mut self) {
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.0);
    }
}
