//! How a command can end other than well, and with which exit code.

use std::fmt;
use std::io::Write;

/// The documented exit codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Everything right.
    Right = 0,
    /// A result is wrong.
    Wrong = 1,
    /// The command line is wrong (clap's own code too).
    Usage = 2,
    /// No device, no permission to use it, or it refused (memory, driver).
    NoDevice = 3,
    /// A hang was met and repaired.
    #[expect(dead_code, reason = "documented now; repairs come with the watchdog")]
    Repaired = 4,
    /// A hang was met and not repaired.
    NotRepaired = 5,
    /// A model or input file is bad.
    BadFile = 6,
    /// Interrupted by SIGINT or SIGTERM (128 + 2, as shells count).
    Interrupted = 130,
}

/// An error for a person: one line that says what happened, to what, and what to do next.
#[derive(Debug)]
pub struct Failure {
    /// The exit code.
    pub exit: Exit,
    message: String,
}

impl Failure {
    /// A failure with its line.
    pub fn new(exit: Exit, message: impl fmt::Display) -> Self {
        // One line, whatever a library put into its message.
        let message = message
            .to_string()
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ");
        Self {
            exit,
            message: printable(&shortened(&message)),
        }
    }
}

/// Most characters of an error: foreign names are quoted in it, and may be as long as they like.
const MAX_MESSAGE: usize = 1000;

/// The message without its middle where it is too long: what it is about stands first and the remedy last.
fn shortened(message: &str) -> String {
    let chars: Vec<char> = message.chars().collect();
    if chars.len() <= MAX_MESSAGE {
        return message.to_owned();
    }
    let (head, tail) = (
        &chars[..MAX_MESSAGE / 2],
        &chars[chars.len() - MAX_MESSAGE / 2..],
    );
    head.iter().chain(&['…']).chain(tail).collect()
}

/// Text with control characters written as escapes: names come from files and must not steer a terminal.
pub fn printable(text: &str) -> String {
    text.chars()
        .flat_map(|c| {
            let escape = c.is_control().then(|| c.escape_default());
            let plain = (!c.is_control()).then_some(c);
            escape.into_iter().flatten().chain(plain)
        })
        .collect()
}

/// Says one line on standard error. Where that cannot be written to there is nobody to tell.
pub fn say(line: impl fmt::Display) {
    let _ = writeln!(std::io::stderr(), "panthorctl: {line}");
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}
