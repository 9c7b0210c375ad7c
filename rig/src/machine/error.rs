//! What can keep a machine from running a program, and how it can end in the middle.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use thiserror::Error;

use super::frame::{FrameError, Stage};
use crate::cache::CacheError;

/// Why there is no outcome.
#[derive(Debug, Error)]
pub enum MachineError {
    /// The string after `--device` is wrong.
    #[error("{0}")]
    Options(String),
    /// No such kernel, or not its binary.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// User Mode Linux exists for x86 only.
    #[error(
        "the rig needs an x86-64 host: User Mode Linux, in which the kernel runs, exists for x86 only and this is {0}; use the simulator (--device sim) or a board"
    )]
    Host(&'static str),
    /// Nowhere to put the machine's memory.
    #[error("{0}")]
    Memory(String),
    /// The operating system refused something.
    #[error("{what}: {source}")]
    Io {
        /// What was being done, to what.
        what: String,
        /// What the system said.
        source: io::Error,
    },
    /// The command inside was not run.
    #[error("{why}")]
    NotRun {
        /// What init could not do.
        stage: Stage,
        /// In words.
        why: String,
        /// The end of the kernel's log.
        log: String,
    },
    /// The machine had not come as far as starting the command after this time.
    #[error(
        "the rig had not {reached} after {} s; a longer time: rig:boot_timeout=SECONDS", .after.as_secs()
    )]
    BootTimeout {
        /// How long it was waited for.
        after: Duration,
        /// What it had not done yet.
        reached: &'static str,
        /// The end of the kernel's log.
        log: String,
    },
    /// The kernel panicked, or its process died, before the command ended.
    #[error("the rig's kernel died: {why}")]
    KernelDied {
        /// The panic's line, the model's error, or how the process ended.
        why: String,
        /// The end of the kernel's log.
        log: String,
    },
    /// What came over the channel is no frame.
    #[error("the rig's channel: {0}")]
    Channel(#[from] FrameError),
    /// Init inside is another build of the program.
    #[error("init inside the rig speaks version {inside} of the channel, this program {here}: {} is another build", .helper.display())]
    Version {
        /// Inside.
        inside: u32,
        /// Here.
        here: u32,
        /// The program that is init.
        helper: PathBuf,
    },
    /// It was killed at the caller's wish.
    #[error("interrupted; the rig was killed")]
    Killed,
}

impl MachineError {
    /// The end of the kernel's log, where the error has one.
    pub fn log(&self) -> Option<&str> {
        match self {
            Self::NotRun { log, .. }
            | Self::BootTimeout { log, .. }
            | Self::KernelDied { log, .. } => Some(log),
            _ => None,
        }
    }

    pub(super) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }
}
