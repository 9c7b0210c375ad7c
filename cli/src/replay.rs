//! `panthorctl replay`.

use std::sync::atomic::{AtomicBool, Ordering};

use panthor_engine::gemm::{EngineError, check_shape};
use panthor_engine::quant::{Spread, UnknownFormat, synthetic_activations, synthetic_matrix};
use panthor_engine::replay::capture::{CaptureError, capture};
use panthor_engine::replay::{self, ReplayError, case::Cases};
use serde::Serialize;

use crate::args::ReplayArgs;
use crate::device::Opened;
use crate::failure::{Exit, Failure};
use crate::gemm;
use crate::output::{Progress, print_json, print_table};

/// One case as `--json` shows it.
#[derive(Serialize)]
struct Row {
    op: String,
    nmse: f64,
    ok: bool,
}

/// Runs recorded jobs and compares their outputs, or records one.
///
/// # Errors
/// [`Exit::Interrupted`] between two cases once the flag is set, besides what the files and the device say.
pub fn run(
    opened: &Opened,
    args: &ReplayArgs,
    json: bool,
    interrupted: &AtomicBool,
) -> Result<Exit, Failure> {
    if args.capture {
        return record(opened, args);
    }
    let cases = Cases::open(&args.cases).map_err(failure)?;
    let chosen = match args.case {
        Some(n) if n < cases.len() => n..n + 1,
        Some(n) => {
            let line = format!(
                "{}: there is no case {n}, it has {}",
                args.cases.display(),
                cases.len()
            );
            return Err(Failure::new(Exit::Usage, line));
        }
        None => 0..cases.len(),
    };
    let progress = Progress::new(chosen.len());
    let mut rows = Vec::new();
    for index in chosen {
        if interrupted.load(Ordering::Relaxed) {
            return Err(gemm::failure(EngineError::Interrupted));
        }
        let case = cases.load(index).map_err(failure)?;
        progress.begin(&case.op);
        let outcome = replay::run(&opened.device, &case).map_err(failure)?;
        rows.push(Row {
            op: case.op,
            nmse: outcome.nmse,
            ok: outcome.ok,
        });
        progress.step();
    }
    drop(progress);
    let right = rows.iter().all(|r| r.ok);
    if json {
        print_json(&serde_json::json!({ "rows": rows }))?;
    } else {
        let lines = rows.iter().map(|r| {
            let verdict = if r.ok { "right" } else { "WRONG" };
            vec![r.op.clone(), format!("{:.1e}", r.nmse), verdict.to_owned()]
        });
        print_table(&["job", "NMSE", "verdict"], lines.collect())?;
    }
    Ok(if right { Exit::Right } else { Exit::Wrong })
}

/// Multiplies synthetic weights and writes the job down.
fn record(opened: &Opened, args: &ReplayArgs) -> Result<Exit, Failure> {
    let usage = |e: &dyn std::fmt::Display| Failure::new(Exit::Usage, e);
    let format = args.quant.parse().map_err(|e: UnknownFormat| usage(&e))?;
    let shape = (args.m as usize, args.n as usize, args.k as usize);
    check_shape(format, shape.0, shape.1, shape.2).map_err(gemm::failure)?;
    let weights = synthetic_matrix(
        format,
        args.n as usize,
        args.k as usize,
        args.seed,
        Spread::Normal,
    )
    .map_err(|e| usage(&e))?;
    let x = synthetic_activations(args.m as usize, args.k as usize, args.seed, Spread::Normal);
    capture(
        &opened.device,
        &weights.as_matrix(),
        &x,
        args.m as usize,
        &args.cases,
    )
    .map_err(|error| match error {
        CaptureError::Replay(error) => failure(error),
        CaptureError::Engine(error) => gemm::failure(error),
        CaptureError::TooLarge(_) => usage(&error),
    })?;
    Ok(Exit::Right)
}

fn failure(error: ReplayError) -> Failure {
    let exit = match &error {
        ReplayError::File { .. } => Exit::BadFile,
        _ if error.is_hang() => Exit::NotRepaired,
        ReplayError::Unfit { .. } => Exit::Usage,
        _ => Exit::NoDevice,
    };
    Failure::new(exit, error)
}
