//! `panthorctl`: arguments, tables, JSON, progress and exit codes over the libraries.

#![deny(missing_docs)]

mod args;
mod device;
mod failure;
mod gemm;
mod info;
mod isa;
mod output;
mod replay;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::{CommandFactory, Parser};

use args::{Cli, Command};
use failure::{Exit, Failure};
use signal_hook::consts::{SIGINT, SIGTERM};

fn main() -> ExitCode {
    let cli = Cli::parse();
    start_logger(cli.verbose);
    let exit = match run(&cli) {
        Ok(exit) => exit,
        Err(failure) => {
            eprintln!("panthorctl: {failure}");
            failure.exit
        }
    };
    ExitCode::from(exit as u8)
}

fn run(cli: &Cli) -> Result<Exit, Failure> {
    match &cli.command {
        Command::Gemm(args) => {
            gemm::run(&device::open(&cli.device)?, args, cli.json, &interrupt()?)
        }
        Command::Info => info::run(&device::open(&cli.device)?, cli.json),
        Command::Replay(args) => replay::run(&device::open(&cli.device)?, args, cli.json),
        Command::Disasm(args) => isa::disasm(args),
        Command::Asm(args) => isa::asm(args),
        Command::Completions { shell } => {
            clap_complete::generate(
                *shell,
                &mut Cli::command(),
                "panthorctl",
                &mut std::io::stdout(),
            );
            Ok(Exit::Right)
        }
        Command::Man => clap_mangen::Man::new(Cli::command())
            .render(&mut std::io::stdout())
            .map(|()| Exit::Right)
            .map_err(|e| Failure::new(Exit::Usage, format_args!("standard output: {e}"))),
    }
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
        0 => "warn",
        1 => "info",
        2 => "debug",
        _ => "trace",
    };
    env_logger::Builder::from_env(env_logger::Env::default().default_filter_or(level))
        .format_timestamp_millis()
        .init();
}
