//! Runs `panthorctl` as a person would.

#![allow(dead_code, reason = "every test file uses its part")]

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// What the program did.
pub struct Ran {
    /// Its exit code; `None` where a signal ended it.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).expect("text on standard output"),
            stderr: String::from_utf8(output.stderr).expect("text on standard error"),
        }
    }
}

/// The program with its arguments, split at blanks, not yet run.
pub fn command(arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_panthorctl"));
    command
        .args(arguments.split_whitespace())
        .env_remove("RUST_LOG")
        .env("RUST_BACKTRACE", "1")
        .stdin(Stdio::null());
    command
}

/// Runs the program with arguments split at blanks.
pub fn panthorctl(arguments: &str) -> Ran {
    command(arguments)
        .output()
        .expect("the program runs")
        .into()
}

/// Runs the program, which must succeed without a word on standard error, and reads its JSON.
pub fn json(arguments: &str) -> serde_json::Value {
    let ran = panthorctl(arguments);
    assert_eq!(ran.code, Some(0), "{arguments}: {}", ran.stderr);
    assert_eq!(ran.stderr, "", "{arguments}");
    serde_json::from_str(&ran.stdout).expect("JSON")
}

/// The program must refuse with this exit code and one line that holds all of `words`, and print nothing else.
pub fn refused(mut command: Command, code: i32, words: &[&str]) {
    let ran: Ran = command.output().expect("the program runs").into();
    assert_eq!(ran.code, Some(code), "{command:?}: {}", ran.stderr);
    assert_eq!(ran.stdout, "", "{command:?}");
    assert_eq!(ran.stderr.lines().count(), 1, "{command:?}: {}", ran.stderr);
    assert!(
        ran.stderr.starts_with("panthorctl: "),
        "{command:?}: {}",
        ran.stderr
    );
    for word in words {
        assert!(
            ran.stderr.contains(word),
            "{command:?}: no {word:?} in {}",
            ran.stderr
        );
    }
}

/// A file of the golden data.
pub fn golden(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../tests/golden")
        .join(name)
}
