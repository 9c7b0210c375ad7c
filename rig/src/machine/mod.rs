//! A machine: a kernel of the cache, booted in User Mode Linux with the modelled GPU, for one program.
//!
//! ```text
//! caller's process ── model (thread) ── socket ──┐
//!   │  frames (two pipes)                        │
//! keeper ── User Mode Linux: bridge, panthor ────┘
//!             └ init (this program again) ── the program, an ordinary user
//! ```
//!
//! The root inside is the host's file system, so any program of the host runs as it is and finds its files. `/dev`, `/proc`
//! and `/sys` are the machine's own. What the program starts and does not wait for ends with it. FIFOs and sockets in the
//! file system do not reach the host.
//!
//! On the virtual clock (the default) nothing that the host times reaches the machine unless the program is given standard
//! input or signals: the same program with the same options takes the same virtual time, to the nanosecond.
//!
//! The program that a caller of this module is runs itself again as keeper and as init, so its `main` must begin with
//! [`enter`]; a test, which has no `main`, names such a program in [`Boot::helper`].

mod error;
mod frame;
mod identity;
mod inside;
mod keeper;
mod memory;
mod model;
mod options;
mod order;
mod relay;
mod spawn;
mod terminal;
mod tree;

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

pub use error::MachineError;
pub use frame::{Ended, FrameError, Stage};
pub use model::{Hardware, Summary};
pub use options::{Options, User};
pub use order::Terminals;
pub use relay::Control;
pub use terminal::{RawTerminal, size};

use frame::Stream;
use keeper::{Keeper, Launch};
use model::Model;
use order::{Order, Stdin};
use relay::{Inputs, Relay};

use crate::cache::{self, Kernel};

/// Bytes of the kernel's log that an error shows at most.
const TAIL: u64 = 8 << 10;
/// Longest path of the boot's directory: the kernel's sockets lie in it, and a socket's path has 107 bytes (unix(7)).
const MAX_DIRECTORY: usize = 80;

/// To be called first in `main`: where this process was started as keeper or as init of a machine it is that, and does not
/// return.
pub fn enter() {
    let mut args = std::env::args_os().skip(1);
    let Some(verb) = args.next() else { return };
    if verb == keeper::VERB {
        keeper::main();
    }
    if verb == inside::VERB && std::process::id() == 1 {
        inside::main(&args.next().unwrap_or_default());
    }
}

/// What the program's standard input is.
pub enum Input {
    /// Nothing: `/dev/null`.
    Null,
    /// What this gives until it ends. It is read on a thread that outlives the machine where it blocks.
    Reader(Box<dyn Read + Send>),
}

impl Input {
    /// These bytes.
    pub fn bytes(bytes: impl Into<Vec<u8>>) -> Self {
        Self::Reader(Box::new(io::Cursor::new(bytes.into())))
    }
}

/// What runs inside.
pub struct Program {
    /// The program and its arguments; without a slash it is looked for in `env`'s PATH.
    pub argv: Vec<OsString>,
    /// Its working directory.
    pub cwd: PathBuf,
    /// Its environment.
    pub env: Vec<(OsString, OsString)>,
    /// Its standard input.
    pub input: Input,
    /// Which of its streams are terminals.
    pub terminals: Terminals,
    /// Whether panthor is bound and its render node there before the program starts. Without, the program may bind it
    /// itself (as root).
    pub bind: bool,
}

impl Program {
    /// A program with the caller's directory and environment, no input and no terminal.
    ///
    /// # Errors
    /// Where the working directory is gone.
    pub fn new<A: Into<OsString>>(argv: impl IntoIterator<Item = A>) -> Result<Self, MachineError> {
        Ok(Self {
            argv: argv.into_iter().map(Into::into).collect(),
            cwd: std::env::current_dir().map_err(MachineError::io("the working directory"))?,
            env: std::env::vars_os().collect(),
            input: Input::Null,
            terminals: Terminals::default(),
            bind: true,
        })
    }
}

/// How to boot.
#[derive(Clone, Debug)]
pub struct Boot {
    /// The kernel.
    pub kernel: Kernel,
    /// What the machine is like.
    pub options: Options,
    /// The program that is keeper and init: one whose `main` begins with [`enter`].
    pub helper: PathBuf,
}

impl Boot {
    /// The kernel that the options name, with the running program as helper.
    ///
    /// # Errors
    /// [`MachineError::Host`], [`MachineError::Cache`] where there is no such kernel.
    pub fn new(options: Options) -> Result<Self, MachineError> {
        if !cfg!(target_arch = "x86_64") {
            return Err(MachineError::Host(std::env::consts::ARCH));
        }
        Ok(Self {
            kernel: cache::find(&options.kernel)?,
            options,
            helper: std::env::current_exe().map_err(MachineError::io("this program's path"))?,
        })
    }
}

/// What became of a program.
#[derive(Clone, Debug)]
pub struct Report {
    /// How it ended.
    pub ended: Ended,
    /// The kernel's log, all of it.
    pub kernel_log: String,
    /// What the modelled GPU counted.
    pub model: Summary,
    /// CLOCK_MONOTONIC inside when init began, in ns.
    pub booted_ns: u64,
    /// The same when the program started, in ns: the driver has probed.
    pub started_ns: u64,
    /// The same when it had ended and its processes were gone, in ns.
    pub ended_ns: u64,
    /// From the start of the kernel's process to the program's start, on the host's clock.
    pub boot_wall: Duration,
    /// From the start of the kernel's process to its end, on the host's clock.
    pub wall: Duration,
}

/// A [`Report`] with what the program wrote.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// How it went.
    pub report: Report,
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error.
    pub stderr: Vec<u8>,
}

/// Boots, runs the program, and collects what it writes.
///
/// # Errors
/// As [`Machine::start`] and [`Machine::wait`].
pub fn run(boot: &Boot, program: Program) -> Result<Outcome, MachineError> {
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let report = Machine::start(boot, program)?.wait(&mut stdout, &mut stderr)?;
    Ok(Outcome {
        report,
        stdout,
        stderr,
    })
}

/// A machine that runs. Dropped, it is killed.
pub struct Machine {
    relay: Relay,
    keeper: Keeper,
    model: Model,
    log: File,
    /// Removed by the keeper; by this where the keeper could not.
    directory: tempfile::TempDir,
    helper: PathBuf,
    boot_timeout: Duration,
    begin: Instant,
}

impl Machine {
    /// Starts the kernel.
    ///
    /// # Errors
    /// [`MachineError::Memory`], [`MachineError::Cache`], [`MachineError::Io`].
    pub fn start(boot: &Boot, program: Program) -> Result<Self, MachineError> {
        let options = &boot.options;
        let linux = boot.kernel.binary(options.flavour())?;
        let memory = memory::place(options.memory_mib)?;
        let directory = directory()?;
        let dir = directory.path();
        let log = log(options, dir)?;
        prepare(boot, dir, &program)?;
        let model = Model::start(
            &options.hardware,
            &dir.join(SOCKET),
            options.trace.as_deref(),
        )
        .map_err(MachineError::io("the model of the GPU"))?;

        let pipe = || {
            rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
                .map_err(|e| MachineError::io("a pipe")(e.into()))
        };
        let theirs_of_log = log.try_clone().map_err(MachineError::io("the log"))?;
        let (channel_in, to_channel) = pipe()?;
        let (from_channel, channel_out) = pipe()?;
        let mut fds: Vec<OwnedFd> = vec![theirs_of_log.into(), channel_in, channel_out];
        let mut args = arguments(options, dir);
        let mut outputs = Vec::new();
        let mut terminal_in = None;
        let t = program.terminals;
        for (line, stream, wanted) in [
            (2, Stream::Out, t.out || t.controlling),
            (3, Stream::Err, t.err && !t.controlling),
        ] {
            if !wanted {
                continue;
            }
            let input = if t.controlling {
                let (theirs, ours) = pipe()?;
                fds.push(theirs);
                terminal_in = Some(File::from(ours));
                format!("fd:{{{}}}", fds.len() - 1)
            } else {
                "null".to_owned()
            };
            let (ours, theirs) = pipe()?;
            fds.push(theirs);
            args.push(format!("con{line}={input},fd:{{{}}}", fds.len() - 1).into());
            outputs.push((stream, File::from(ours)));
        }
        args.extend(["--".into(), inside::VERB.into(), dir.into()]);
        let launch = Launch {
            kernel: &linux,
            args,
            memory: &memory,
            directory: dir,
            fds,
        };
        let begin = Instant::now();
        let keeper = Keeper::start(&boot.helper, &launch).map_err(MachineError::io(format!(
            "starting {}",
            boot.helper.display()
        )))?;
        // The kernel's end of each pipe must be its only one.
        drop(launch);
        let socket = keeper
            .socket()
            .map_err(MachineError::io("the keeper's socket"))?;
        let relay = Relay::start(
            File::from(from_channel),
            File::from(to_channel),
            socket,
            outputs,
            match (terminal_in, program.input) {
                (_, Input::Null) => Inputs::None,
                (None, Input::Reader(reader)) => Inputs::Channel(reader),
                (Some(terminal), Input::Reader(reader)) => Inputs::Terminal(reader, terminal),
            },
        );
        Ok(Self {
            relay,
            keeper,
            model,
            log,
            directory,
            helper: boot.helper.clone(),
            boot_timeout: options.boot_timeout,
            begin,
        })
    }

    /// A handle to signal or kill with, from any thread.
    pub fn control(&self) -> Control {
        self.relay.control()
    }

    /// Relays until the program has ended and the machine is gone, with all of its processes and files.
    ///
    /// # Errors
    /// All of [`MachineError`] that can happen to a machine that runs. A sink that can take no more is no error: the
    /// program's next write fails, as it would with a pipe that nobody reads.
    pub fn wait(
        mut self,
        out: &mut dyn Write,
        err: &mut dyn Write,
    ) -> Result<Report, MachineError> {
        let deadline = self.begin + self.boot_timeout;
        let met = self.relay.run(deadline, out, err);
        self.relay.control().kill_quietly();
        let status = self.keeper.wait();
        let wall = self.begin.elapsed();
        let model = self.model.finish();
        // Where the keeper was killed.
        drop(self.directory);
        let tail = || tail(&self.log);
        if met.killed {
            return Err(MachineError::Killed);
        }
        if let Some(error) = met.broken {
            return Err(error.into());
        }
        if let Some((inside, _)) = met.hello.filter(|(v, _)| *v != frame::VERSION) {
            return Err(MachineError::Version {
                inside,
                here: frame::VERSION,
                helper: self.helper,
            });
        }
        if let Some((stage, why)) = met.failed {
            return Err(MachineError::NotRun {
                stage,
                why,
                log: tail(),
            });
        }
        if met.late {
            return Err(MachineError::BootTimeout {
                after: self.boot_timeout,
                reached: match met.hello {
                    None => "booted",
                    Some(_) => "probed panthor",
                },
                log: tail(),
            });
        }
        let (Some((ended, ended_ns)), Some(started), Some((_, booted_ns))) =
            (met.exit, met.started, met.hello)
        else {
            let log = tail();
            return Err(MachineError::KernelDied {
                why: cause(&log, model.err(), status),
                log,
            });
        };
        let model = model.map_err(|why| MachineError::KernelDied { why, log: tail() })?;
        Ok(Report {
            ended,
            kernel_log: whole(&self.log),
            model,
            booted_ns,
            started_ns: started.0,
            ended_ns,
            boot_wall: started.1.saturating_duration_since(self.begin),
            wall,
        })
    }
}

/// The first version whose panthor does without a regulator by name (`panthor_devfreq.c`).
const REGULATOR_GONE: (u32, u32) = (7, 0);
/// Name of the model's socket in the boot's directory.
const SOCKET: &str = "mali.sock";
const TREE: &str = "mali.dtb";
const FIRMWARE: &str = "firmware";
const INIT: &str = "init";

/// A private directory. Its path goes onto the kernel's command line, which knows no way to quote.
fn directory() -> Result<tempfile::TempDir, MachineError> {
    let named = std::env::temp_dir();
    let plain = |path: &Path| {
        let bytes = path.as_os_str().as_bytes();
        let good = |b: &u8| b.is_ascii_graphic() && !b"\"',\\".contains(b);
        path.is_absolute() && bytes.len() <= MAX_DIRECTORY && bytes.iter().all(good)
    };
    let base = if plain(&named) {
        &*named
    } else {
        Path::new("/tmp")
    };
    tempfile::Builder::new()
        .prefix("panthor-rig-")
        .tempdir_in(base)
        .map_err(MachineError::io(format!(
            "a directory in {}",
            base.display()
        )))
}

/// The file that takes the kernel's log: the user's, else one that is gone when it is closed.
fn log(options: &Options, dir: &Path) -> Result<File, MachineError> {
    let path = options.log.clone().unwrap_or_else(|| dir.join("log"));
    OpenOptions::new()
        .read(true)
        .append(true)
        .create(true)
        .open(&path)
        .and_then(|file| file.set_len(0).map(|()| file))
        .map_err(MachineError::io(path.display().to_string()))
}

/// Writes what the kernel and init read.
fn prepare(boot: &Boot, dir: &Path, program: &Program) -> Result<(), MachineError> {
    let write = |path: PathBuf, bytes: &[u8]| {
        fs::write(&path, bytes).map_err(MachineError::io(path.display().to_string()))
    };
    let blob = tree::blob(
        boot.options.hardware.gpu_hz(),
        boot.kernel.version() < REGULATOR_GONE,
    )
    .map_err(|e| MachineError::Io {
        what: "the device tree".to_owned(),
        source: io::Error::other(e),
    })?;
    write(dir.join(TREE), &blob)?;
    let firmware = dir.join(FIRMWARE).join(panthor_uapi::discover::FIRMWARE);
    if let Some(parent) = firmware.parent() {
        fs::create_dir_all(parent).map_err(MachineError::io(parent.display().to_string()))?;
    }
    write(firmware, &crate::firmware::image())?;
    std::os::unix::fs::symlink(&boot.helper, dir.join(INIT))
        .map_err(MachineError::io(dir.join(INIT).display().to_string()))?;
    let umask = rustix::process::umask(rustix::fs::Mode::empty());
    rustix::process::umask(umask);
    let order = Order {
        argv: program.argv.clone(),
        env: program.env.clone(),
        cwd: program.cwd.clone(),
        umask: umask.as_raw_mode(),
        identity: identity::of(boot.options.user),
        stdin: match (&program.input, program.terminals.controlling) {
            (Input::Reader(_), false) => Stdin::Channel,
            _ => Stdin::Null,
        },
        terminals: program.terminals,
        bind: program.bind,
    };
    write(dir.join(inside::ORDER), &order.encode())
}

/// The kernel's command line, but for init's part.
fn arguments(options: &Options, dir: &Path) -> Vec<OsString> {
    let at = |name: &str, file: &str| {
        let mut arg = OsString::from(name);
        arg.push(dir.join(file));
        arg
    };
    let mut args: Vec<OsString> = [
        "rootfstype=hostfs",
        "rootflags=/",
        "rw",
        "panic=1",
        "umid=rig",
    ]
    .into_iter()
    .map(OsString::from)
    .collect();
    args.extend([
        format!("mem={}M", options.memory_mib).into(),
        at("dtb=", TREE),
        at("mali_bridge.socket=", SOCKET),
        at("firmware_class.path=", FIRMWARE),
        at("init=", INIT),
        at("uml_dir=", "uml"),
        // The kernel's log, the frames; the other lines are connected where the program has terminals.
        "con0=null,fd:{0}".into(),
        "con1=fd:{1},fd:{2}".into(),
        "con=null".into(),
    ]);
    if options.smp {
        args.push(format!("ncpus={}", options.cpus).into());
    }
    if !options.on_wall_clock() {
        args.push("time-travel=inf-cpu".into());
    }
    // User Mode Linux has several CPUs with seccomp only (arch/um/os-Linux/start_up.c).
    if let Some(on) = options.seccomp.or(options.smp.then_some(true)) {
        args.push(if on { "seccomp=on" } else { "seccomp=off" }.into());
    }
    args
}

/// Why the kernel is dead: what the model complains of, the panic's own line, or how its process ended.
fn cause(log: &str, model: Option<String>, status: Option<std::process::ExitStatus>) -> String {
    if let Some(error) = model {
        return format!("the model of the GPU: {error}");
    }
    let panic = log.lines().rev().find_map(|line| {
        let at = line.find("Kernel panic")?;
        line.get(at..)
    });
    match (panic, status) {
        (Some(line), _) => line.to_owned(),
        (None, Some(status)) => format!("its process ended with {status}"),
        (None, None) => "its keeper was killed".to_owned(),
    }
}

fn whole(log: &File) -> String {
    let mut bytes = Vec::new();
    let mut at = 0;
    let mut piece = vec![0; 64 << 10];
    while let Ok(n @ 1..) = log.read_at(&mut piece, at) {
        bytes.extend_from_slice(&piece[..n]);
        at += n as u64;
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The log's end, beginning with a whole line.
fn tail(log: &File) -> String {
    let length = log.metadata().map_or(0, |m| m.len());
    let from = length.saturating_sub(TAIL);
    let mut bytes = vec![0; (length - from) as usize];
    let read = log.read_at(&mut bytes, from).unwrap_or(0);
    bytes.truncate(read);
    let text = String::from_utf8_lossy(&bytes);
    match (from, text.split_once('\n')) {
        (1.., Some((_, rest))) => rest.to_owned(),
        _ => text.into_owned(),
    }
}
