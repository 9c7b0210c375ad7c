//! `--device rig…`, `rig run` and `rig shell`: a program inside a machine with the kernel's own driver.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use panthor_rig::machine::{
    self, Boot, Control, Ended, Input, Machine, MachineError, Options, Program, RawTerminal,
    Report, Stage, Terminals,
};
use signal_hook::consts::{SIGHUP, SIGINT, SIGPIPE, SIGQUIT, SIGTERM, SIGWINCH};
use signal_hook::iterator::Signals;

use crate::args::{Cli, Command, RigCommand};
use crate::failure::{Exit, Failure, printable, say};

/// The rig's render node.
const NODE: &str = "/dev/dri/renderD128";
/// Exit codes of a program that could not be run or was not found, as shells count.
const NOT_RUN: u8 = 126;
const NOT_FOUND: u8 = 127;
/// Lines of the kernel's log before an error.
const TAIL_LINES: usize = 16;
/// How long a killed machine may take to be gone, before this process goes without it (its keeper stays until it is).
const GONE: Duration = Duration::from_secs(5);

/// What the command line wants inside a machine, done; `None` where it wants nothing there.
pub fn run(cli: &Cli) -> Option<Result<u8, Failure>> {
    match &cli.command {
        Command::Rig(rig) => match &rig.command {
            RigCommand::Build(_) | RigCommand::List | RigCommand::Clean(_) => None,
            RigCommand::Run(args) => Some(options(cli, &args.kernel_log).and_then(|options| {
                let mut program = program(args.command.clone())?;
                program.input = Input::of_caller();
                program.terminals = Terminals::of_caller();
                relay(options, program, args.times)
            })),
            RigCommand::Shell(args) => Some(options(cli, &args.kernel_log).and_then(shell)),
        },
        Command::Gemm(_) | Command::Info | Command::Replay(_) if Options::is_meant(&cli.device) => {
            Some(same_program(cli))
        }
        _ => None,
    }
}

/// The rig's options; `auto` means the rig here.
fn options(cli: &Cli, kernel_log: &Option<PathBuf>) -> Result<Options, Failure> {
    let device = match cli.device.as_str() {
        "auto" => "rig",
        device => device,
    };
    let mut options: Options = device.parse().map_err(failure)?;
    if let Some(file) = kernel_log {
        options.log = Some(file.clone());
    }
    Ok(options)
}

fn program(argv: Vec<OsString>) -> Result<Program, Failure> {
    Program::new(argv).map_err(failure)
}

/// This very command inside, on the rig's node.
fn same_program(cli: &Cli) -> Result<u8, Failure> {
    let options = options(cli, &None)?;
    let this = std::env::current_exe()
        .map_err(|e| Failure::new(Exit::NoDevice, format_args!("this program's path: {e}")))?;
    let mut argv = vec![this.into_os_string()];
    argv.extend(on_node(std::env::args_os().skip(1)));
    let mut program = program(argv)?;
    // None of these commands reads standard input.
    program.terminals = Terminals::of_caller();
    relay(options, program, false)
}

/// The arguments with `--device`'s value replaced.
fn on_node(args: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut out: Vec<OsString> = Vec::new();
    let mut over = false;
    let mut value = false;
    for arg in args {
        if std::mem::take(&mut value) {
            out.push(NODE.into());
            continue;
        }
        over |= arg == "--";
        value = !over && arg == "--device";
        let joined = !over && arg.as_encoded_bytes().starts_with(b"--device=");
        out.push(if joined {
            format!("--device={NODE}").into()
        } else {
            arg
        });
    }
    out
}

fn shell(mut options: Options) -> Result<u8, Failure> {
    // At a prompt nothing happens, and the virtual clock would run to the next timer for ever.
    options.wall_clock.get_or_insert(true);
    let shell = std::env::var_os("SHELL").filter(|s| !s.is_empty());
    let mut program = program(vec![shell.unwrap_or_else(|| OsStr::new("/bin/sh").into())])?;
    program.input = Input::of_caller();
    program.terminals = Terminals::of_caller();
    // Raw only where the shell is a person's; a script goes through pipes.
    let raw = match program.terminals.out {
        true => RawTerminal::enter().ok(),
        false => None,
    };
    program.terminals.controlling = raw.is_some();
    let code = relay(options, program, false);
    drop(raw);
    code
}

fn relay(options: Options, program: Program, times: bool) -> Result<u8, Failure> {
    // Before there is anything to clean up.
    let mut signals = Signals::new([SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGWINCH])
        .map_err(|e| Failure::new(Exit::NoDevice, format_args!("signal handlers: {e}")))?;
    let boot = Boot::new(options).map_err(failure)?;
    let machine = Machine::start(&boot, program).map_err(failure)?;
    let control = machine.control();
    std::thread::spawn(move || obey(&mut signals, &control));
    let report = machine
        .wait(&mut io::stdout(), &mut io::stderr())
        .map_err(or_code);
    let report = match report {
        Ok(report) => report,
        Err(Ok(code)) => return Ok(code),
        Err(Err(failure)) => return Err(failure),
    };
    if times {
        say(said(&report));
    }
    Ok(end_alike(report.ended))
}

/// Passes signals on; the second one that means an end kills the machine.
fn obey(signals: &mut Signals, control: &Control) {
    let mut ends = 0;
    for signal in signals.forever() {
        if signal == SIGWINCH {
            if let Some((rows, columns)) = machine::size() {
                control.resize(rows, columns);
            }
            continue;
        }
        ends += 1;
        if ends == 1 {
            control.signal(signal as u8);
            continue;
        }
        control.kill();
        if ends == 2 {
            // The reader of our output may be what is stuck.
            std::thread::spawn(|| {
                std::thread::sleep(GONE);
                std::process::exit(Exit::Interrupted as i32);
            });
        } else {
            std::process::exit(Exit::Interrupted as i32);
        }
    }
}

/// Ends as the program inside did: by its exit code, or by the signal that people send.
fn end_alike(ended: Ended) -> u8 {
    if let Ended::Signal(number) = ended {
        let number = i32::from(number);
        if [SIGHUP, SIGINT, SIGPIPE, SIGTERM].contains(&number) {
            // Where it returns, the code says it.
            let _ = signal_hook::low_level::emulate_default_handler(number);
        }
    }
    ended.code()
}

fn said(report: &Report) -> String {
    let ms = |ns: u64| ns as f64 / 1e6;
    format!(
        "inside: init at {:.3} ms, program {:.3} to {:.3} ms; outside: program after {:.0} ms, gone after {:.0} ms",
        ms(report.booted_ns),
        ms(report.started_ns),
        ms(report.ended_ns),
        report.boot_wall.as_secs_f64() * 1e3,
        report.wall.as_secs_f64() * 1e3,
    )
}

/// An exit code of the program's own kind, or a failure of the rig.
fn or_code(error: MachineError) -> Result<u8, Failure> {
    if let MachineError::NotRun { stage, why, .. } = &error {
        let code = match stage {
            Stage::NotFound => Some(NOT_FOUND),
            Stage::Start => Some(NOT_RUN),
            Stage::Prepare | Stage::Probe => None,
        };
        if let Some(code) = code {
            say(printable(why));
            return Ok(code);
        }
    }
    Err(failure(error))
}

/// The failure, after the end of the kernel's log where that may tell more.
fn failure(error: MachineError) -> Failure {
    let exit = match &error {
        MachineError::Options(_) => Exit::Usage,
        MachineError::Killed => Exit::Interrupted,
        MachineError::KernelDied { .. }
        | MachineError::BootTimeout { .. }
        | MachineError::Channel(_) => Exit::NotRepaired,
        _ => Exit::NoDevice,
    };
    if let Some(log) = error.log() {
        let lines: Vec<&str> = log.lines().collect();
        for line in &lines[lines.len().saturating_sub(TAIL_LINES)..] {
            say(format_args!("kernel: {}", printable(line)));
        }
    }
    Failure::new(exit, error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_devices_value_is_replaced() {
        let changed = |args: &[&str]| on_node(args.iter().map(OsString::from));
        assert_eq!(
            changed(&["--device", "rig:seed=1", "--json", "info"]),
            ["--device", NODE, "--json", "info"]
        );
        assert_eq!(
            changed(&["gemm", "--quant=q4_0", "--device=rig"]),
            ["gemm", "--quant=q4_0", "--device=/dev/dri/renderD128"]
        );
        assert_eq!(
            changed(&["replay", "--", "--device"]),
            ["replay", "--", "--device"]
        );
    }
}
