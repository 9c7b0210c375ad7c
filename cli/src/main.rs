//! `panthorctl`: arguments, tables, JSON, progress and exit codes over the libraries.

#![deny(missing_docs)]

mod args;
mod device;
mod failure;
mod gemm;
mod info;
mod isa;
mod machine;
mod output;
mod replay;
mod rig;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::{CommandFactory, Parser};

use args::{Cli, Command};
use failure::{Exit, Failure, say};
use signal_hook::consts::{SIGINT, SIGTERM};

fn main() -> ExitCode {
    // Inside the rig this program is init, beside it the keeper.
    panthor_rig::machine::enter();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return not_a_command(&error),
    };
    start_logger(cli.verbose);
    let code = match machine::run(&cli) {
        Some(result) => result,
        None => run(&cli).map(|exit| exit as u8),
    };
    ExitCode::from(code.unwrap_or_else(|failure| {
        say(&failure);
        failure.exit as u8
    }))
}

fn run(cli: &Cli) -> Result<Exit, Failure> {
    match &cli.command {
        Command::Gemm(args) => {
            gemm::run(&device::open(&cli.device)?, args, cli.json, &interrupt()?)
        }
        Command::Info => info::run(&device::open(&cli.device)?, cli.json),
        Command::Replay(args) => {
            let interrupted = interrupt()?;
            replay::run(&device::open(&cli.device)?, args, cli.json, &interrupted)
        }
        Command::Disasm(args) => isa::disasm(args),
        Command::Asm(args) => isa::asm(args),
        Command::Rig(args) => rig::run(args, cli.json, &interrupt()?),
        Command::Completions { shell } => {
            // Into memory first: the generator panics where its output cannot be written.
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Cli::command(), "panthorctl", &mut script);
            output::print_bytes(&script).map(|()| Exit::Right)
        }
        Command::Man => {
            // One page for the program and one for each command, one after another: `man -l -` shows them all.
            let mut program = Cli::command();
            program.build();
            let mut pages = Vec::new();
            let commands = program.get_subcommands().filter(|c| c.get_name() != "help");
            for command in std::iter::once(&program).chain(commands) {
                clap_mangen::Man::new(command.clone())
                    .render(&mut pages)
                    .map_err(|e| Failure::new(Exit::Usage, e))?;
            }
            output::print_bytes(&pages).map(|()| Exit::Right)
        }
    }
}

/// Help and version as clap prints them; its errors in one line, without the usage that `--help` shows.
fn not_a_command(error: &clap::Error) -> ExitCode {
    use clap::error::ErrorKind;
    if !error.use_stderr() || error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        // A reader that went away is no error.
        let _ = error.print();
        return ExitCode::from(error.exit_code() as u8);
    }
    let text = error.to_string();
    let what = text
        .split("\n\nUsage:")
        .next()
        .and_then(|t| t.split("\n\nFor more information").next())
        .unwrap_or_default();
    let what = what.strip_prefix("error: ").unwrap_or(what);
    say(Failure::new(
        Exit::Usage,
        format_args!("{what}; see --help"),
    ));
    ExitCode::from(Exit::Usage as u8)
}

/// A flag that SIGINT and SIGTERM set, so that work in flight ends in order; a second one ends the program at once (the
/// kernel then kills what is left of its jobs).
fn interrupt() -> Result<Arc<AtomicBool>, Failure> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(
            signal,
            Exit::Interrupted as i32,
            flag.clone(),
        )
        .and_then(|_| signal_hook::flag::register(signal, flag.clone()))
        .map_err(|e| Failure::new(Exit::Usage, format_args!("signal handler: {e}")))?;
    }
    Ok(flag)
}

fn start_logger(verbose: u8) {
    let level = match verbose {
        // What the simulated kernel logs ends up in the error anyway, as a real one's would in dmesg alone.
        0 => "warn,panthor_sim=off",
        1 => "info",
        2 => "debug",
        _ => "trace",
    };
    env_logger::Builder::from_env(env_logger::Env::default().default_filter_or(level))
        .format_timestamp_millis()
        .init();
}
