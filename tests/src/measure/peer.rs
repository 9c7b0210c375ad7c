//! The second client, and victims, as processes of their own (or, on the simulator, as files of their own).

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use panthor_uapi::{Device, Group};

use super::client::{Client, StepError, error_word, group_record};
use super::record::ProbeRecord;

/// How long the second client's job is given, in milliseconds.
pub const PROBE_MS: u64 = 10_000;

/// A client with a group that it keeps, which submits a healthy job when asked.
#[derive(Debug)]
pub struct Bystander {
    client: Client,
    group: Group,
}

impl Bystander {
    /// Opens nothing: works on `device`.
    ///
    /// # Errors
    /// [`StepError`] where VM or group cannot be had.
    pub fn new(device: &Device) -> Result<Self, StepError> {
        let client = Client::new(device)?;
        let group = client.group(1)?;
        Ok(Self { client, group })
    }

    /// Submits a healthy job and tells how it fared. A group that died is replaced afterwards.
    pub fn probe(&mut self, when: &str) -> ProbeRecord {
        let result = self.client.healthy(&self.group, PROBE_MS);
        let group = group_record("second", &self.group).state;
        let (status, after_ms) = match result {
            Ok(fence) => (fence.status, fence.after_ms),
            Err(error) => (error_word(&error), None),
        };
        if group != "0" {
            if let Ok(other) = self.client.group(1) {
                self.group = other;
            }
        }
        ProbeRecord {
            when: when.to_owned(),
            status,
            after_ms,
            group,
        }
    }
}

/// A process of this program that speaks in lines.
#[derive(Debug)]
pub struct Process {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl Process {
    /// Starts this program with `arguments`.
    ///
    /// # Errors
    /// [`StepError::Io`].
    pub fn start(arguments: &[&str]) -> Result<Self, StepError> {
        let failed = |e| StepError::Io(format!("start of {}", arguments.join(" ")), e);
        let program = std::env::current_exe().map_err(failed)?;
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let stdin = child.stdin.take();
        let (sender, lines) = channel();
        if let Some(stdout) = child.stdout.take() {
            std::thread::spawn(move || {
                for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                    if sender.send(line).is_err() {
                        break;
                    }
                }
            });
        }
        Ok(Self {
            child,
            stdin,
            lines,
        })
    }

    /// Its process number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends it a line; a process that has ended shows when its answer is awaited.
    pub fn tell(&mut self, line: &str) {
        if let Some(stdin) = &mut self.stdin {
            let _ = writeln!(stdin, "{line}").and_then(|()| stdin.flush());
        }
    }

    /// Its next line within `ms` milliseconds; `Err` says whether it is late or has ended.
    ///
    /// # Errors
    /// A word: `late` or `ended`.
    pub fn hear(&self, ms: u64) -> Result<String, &'static str> {
        match self.lines.recv_timeout(Duration::from_millis(ms)) {
            Ok(line) => Ok(line),
            Err(RecvTimeoutError::Timeout) => Err("late"),
            Err(RecvTimeoutError::Disconnected) => Err("ended"),
        }
    }

    /// Sends SIGKILL.
    pub fn kill(&mut self) {
        // An error means that it has ended already.
        let _ = self.child.kill();
    }

    /// Closes its input and waits up to `ms` milliseconds for its end; says whether it ended.
    pub fn end(&mut self, ms: u64) -> bool {
        self.stdin = None;
        let pause = 10;
        for _ in 0..ms.div_ceil(pause) {
            match self.child.try_wait() {
                Ok(Some(_)) => return true,
                Ok(None) => std::thread::sleep(Duration::from_millis(pause)),
                Err(_) => return false,
            }
        }
        false
    }
}
