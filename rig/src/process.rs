//! Programs that are run on the way to a kernel: in a process group of their own, which ends with them, with us, or when the
//! user interrupts.

use std::io::{self, BufRead, BufReader};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use thiserror::Error;

/// Set from elsewhere (a signal's handler) when the user wants no more.
pub type Interrupt = AtomicBool;

/// How running a program can go wrong.
#[derive(Debug, Error)]
pub enum ProcessError {
    /// It could not be started.
    #[error("{program}: {source}")]
    Start {
        /// The program.
        program: String,
        /// What the operating system said.
        source: io::Error,
    },
    /// It said that it failed.
    #[error("{program} failed ({status}): {last}")]
    Failed {
        /// The program.
        program: String,
        /// Its exit status.
        status: String,
        /// What it said last.
        last: String,
    },
    /// The user interrupted, and the program and all that it had started are gone.
    #[error("interrupted")]
    Interrupted,
}

/// How long a group of processes has to end after SIGTERM before it gets SIGKILL.
const GRACE: Duration = Duration::from_secs(3);

/// How often an interruption is looked for.
const POLL: Duration = Duration::from_millis(50);

/// A program to run.
pub(crate) struct Run(Command);

/// What came of a program.
pub(crate) struct Output {
    /// Whether it says that it succeeded.
    pub success: bool,
    /// Its exit status in words.
    pub status: String,
    /// Standard output and standard error, in order.
    pub text: String,
}

impl Run {
    pub(crate) fn new(command: Command) -> Self {
        Self(command)
    }

    /// Runs it and keeps what it says.
    pub(crate) fn captured(self, interrupt: &Interrupt) -> Result<Output, ProcessError> {
        let mut text = String::new();
        let status = self.lines(interrupt, &mut |line| {
            text += line;
            text.push('\n');
        })?;
        Ok(Output {
            success: status.success(),
            status: in_words(status),
            text,
        })
    }

    /// Runs it; failing is an error.
    pub(crate) fn succeeds(self, interrupt: &Interrupt) -> Result<(), ProcessError> {
        let program = self.program();
        let output = self.captured(interrupt)?;
        if output.success {
            return Ok(());
        }
        let lines: Vec<&str> = output.text.lines().collect();
        Err(ProcessError::Failed {
            program,
            status: output.status,
            last: lines[lines.len().saturating_sub(3)..].join("; "),
        })
    }

    /// Runs it and hands over each line that it says.
    pub(crate) fn lines(
        mut self,
        interrupt: &Interrupt,
        line: &mut dyn FnMut(&str),
    ) -> Result<ExitStatus, ProcessError> {
        let program = self.program();
        let start = |source| ProcessError::Start {
            program: program.clone(),
            source,
        };
        let (output, input) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
            .map_err(|e| start(e.into()))?;
        let errors = input.try_clone().map_err(start)?;
        self.0
            .stdin(Stdio::null())
            .stdout(input)
            .stderr(errors)
            .process_group(0);
        // SAFETY: prctl is a system call that takes no lock and touches no memory of ours.
        unsafe {
            self.0.pre_exec(|| {
                // Whoever kills us outright leaves no compilers behind.
                match libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM) {
                    0 => Ok(()),
                    _ => Err(io::Error::last_os_error()),
                }
            });
        }
        let mut child = Group(self.0.spawn().map_err(start)?);
        // The command still holds the writing ends.
        drop(self.0);

        let (sender, receiver) = mpsc::channel();
        let reader = std::thread::spawn(move || {
            for line in BufReader::new(std::fs::File::from(output)).split(b'\n') {
                let Ok(line) = line else { return };
                if sender
                    .send(String::from_utf8_lossy(&line).into_owned())
                    .is_err()
                {
                    return;
                }
            }
        });
        loop {
            match receiver.recv_timeout(POLL) {
                Ok(text) => line(&text),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if interrupt.load(Ordering::Relaxed) {
                child.end();
                return Err(ProcessError::Interrupted);
            }
        }
        // The reader saw the end of the pipe and is done.
        let _ = reader.join();
        loop {
            if let Some(status) = child.0.try_wait().map_err(start)? {
                return Ok(status);
            }
            if interrupt.load(Ordering::Relaxed) {
                child.end();
                return Err(ProcessError::Interrupted);
            }
            std::thread::sleep(POLL);
        }
    }

    fn program(&self) -> String {
        self.0.get_program().to_string_lossy().into_owned()
    }
}

/// An exit status in words.
pub(crate) fn in_words(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "no exit code".to_owned(),
    }
}

/// A child that leads a process group; the group is ended with it.
struct Group(Child);

impl Group {
    /// Asks all processes of the group to end, and ends those that do not.
    fn end(&mut self) {
        let Some(group) = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw) else {
            return;
        };
        // While the leader is not waited for, its number is not another group's.
        if !matches!(self.0.try_wait(), Ok(None)) {
            return;
        }
        let _ = rustix::process::kill_process_group(group, Signal::TERM);
        let until = Instant::now() + GRACE;
        while Instant::now() < until {
            // WNOWAIT: the leader stays a zombie, so that the group can still be signalled below.
            let waited = rustix::process::waitid(
                rustix::process::WaitId::Pid(group),
                rustix::process::WaitIdOptions::EXITED
                    | rustix::process::WaitIdOptions::NOHANG
                    | rustix::process::WaitIdOptions::NOWAIT,
            );
            if !matches!(waited, Ok(None)) {
                break;
            }
            std::thread::sleep(POLL);
        }
        let _ = rustix::process::kill_process_group(group, Signal::KILL);
        let _ = self.0.wait();
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Run {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Run::new(command)
    }

    static NEVER: Interrupt = AtomicBool::new(false);

    #[test]
    fn both_outputs_are_kept_in_order_and_the_exit_code_too() {
        let output = shell("echo a; echo b >&2; echo c; exit 3")
            .captured(&NEVER)
            .expect("runs");
        assert_eq!(output.text, "a\nb\nc\n");
        assert_eq!(
            (output.success, output.status.as_str()),
            (false, "exit code 3")
        );
        let error = shell("echo no such thing; exit 1")
            .succeeds(&NEVER)
            .expect_err("fails");
        assert_eq!(error.to_string(), "sh failed (exit code 1): no such thing");
        assert!(matches!(
            Run::new(Command::new("/nonexistent/program")).succeeds(&NEVER),
            Err(ProcessError::Start { .. })
        ));
    }

    #[test]
    fn an_interruption_ends_the_whole_group() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let file = dir.path().join("alive");
        let script = format!(
            "(trap '' TERM; while :; do date >> {0}; sleep 0.05; done) & trap '' TERM; echo started; wait",
            file.display()
        );
        let interrupt = AtomicBool::new(false);
        let started = Instant::now();
        let result = shell(&script).lines(&interrupt, &mut |_| {
            interrupt.store(true, Ordering::Relaxed);
        });
        assert!(matches!(result, Err(ProcessError::Interrupted)));
        assert!(started.elapsed() < GRACE + Duration::from_secs(5));
        let size = || std::fs::metadata(&file).map(|m| m.len()).unwrap_or(0);
        let before = size();
        std::thread::sleep(Duration::from_millis(300));
        assert_eq!(before, size(), "the grandchild still runs");
    }
}
