//! `panthorctl replay`.

use panthor_engine::replay::{self, ReplayError, case::Cases};
use serde::Serialize;

use crate::args::ReplayArgs;
use crate::device::Opened;
use crate::failure::{Exit, Failure};
use crate::output::{Progress, print_json, print_table};

/// One case as `--json` shows it.
#[derive(Serialize)]
struct Row {
    op: String,
    nmse: f64,
    ok: bool,
}

/// Runs recorded jobs and compares their outputs.
pub fn run(opened: &Opened, args: &ReplayArgs, json: bool) -> Result<Exit, Failure> {
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

fn failure(error: ReplayError) -> Failure {
    let exit = match &error {
        ReplayError::File { .. } => Exit::BadFile,
        _ if error.is_hang() => Exit::NotRepaired,
        ReplayError::Unfit { .. } => Exit::Usage,
        _ => Exit::NoDevice,
    };
    Failure::new(exit, error)
}
