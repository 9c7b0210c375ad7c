//! `panthorctl gemm`: products, checked.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use panthor_engine::gemm::{Engine, EngineError, LostCause, check_shape};
use panthor_engine::gguf::{Model, NamedMatrix};
use panthor_engine::memory::MemoryError;
use panthor_engine::quant::{Format, Matrix, Spread, synthetic_activations, synthetic_matrix};
use panthor_engine::reference::verify;
use panthor_sim::kmd::Monitor;
use serde::Serialize;

use crate::args::GemmArgs;
use crate::device::Opened;
use crate::failure::{Exit, Failure, printable, say};
use crate::output::{Progress, print_json, print_table};

/// Linux's errno of a job that the driver's timer killed (panthor_sched.c), the same on both architectures.
const ETIMEDOUT: i32 = 110;

/// One product as `--json` shows it.
#[derive(Serialize)]
struct Row {
    tensor: String,
    quant: String,
    m: usize,
    n: usize,
    k: usize,
    /// Against dequantised weights × unquantised activations in f64.
    nmse: f64,
    /// Bit-equal to the integer reference.
    exact: bool,
    macs: u64,
    /// From the first submission to the last fence, on this machine's clock.
    wall_ms: f64,
    /// Shader-core cycles, on the simulator.
    cycles: Option<u64>,
    ok: bool,
    /// What is wrong, where something is.
    #[serde(skip_serializing_if = "String::is_empty")]
    complaint: String,
}

/// Multiplies what the arguments name and checks every product.
pub fn run(
    opened: &Opened,
    args: &GemmArgs,
    json: bool,
    interrupted: &Arc<AtomicBool>,
) -> Result<Exit, Failure> {
    let model;
    let synthetic;
    let products: Vec<NamedMatrix<'_>> = if let Some(path) = &args.model {
        let bad = |e| Failure::new(Exit::BadFile, e);
        model = Model::open(path).map_err(bad)?;
        match &args.tensor {
            Some(name) => vec![model.matrix(name).map_err(bad)?],
            None if args.all => model.matrices().map_err(bad)?,
            None => {
                let line = format!(
                    "{}: name a matrix with --tensor NAME, or take --all",
                    path.display()
                );
                return Err(Failure::new(Exit::Usage, line));
            }
        }
    } else {
        let usage = |e: &dyn std::fmt::Display| Failure::new(Exit::Usage, e);
        let (Some(quant), Some(n), Some(k)) = (&args.quant, args.n, args.k) else {
            return Err(Failure::new(
                Exit::Usage,
                "name --model FILE, or --quant, --n and --k",
            ));
        };
        let format: Format = quant.parse().map_err(|e| usage(&e))?;
        // Before the weights are made: the command line may ask for more than there is memory.
        check_shape(format, args.m as usize, n as usize, k as usize).map_err(failure)?;
        synthetic = synthetic_matrix(format, n as usize, k as usize, args.seed, Spread::Normal)
            .map_err(|e| usage(&e))?;
        vec![NamedMatrix {
            name: "synthetic",
            weights: synthetic.as_matrix(),
        }]
    };

    let mut engine = Engine::open(&opened.device).map_err(failure)?;
    engine.set_interrupt(interrupted.clone());
    let progress = Progress::new(products.len());
    let mut rows = Vec::with_capacity(products.len());
    for product in &products {
        if interrupted.load(Ordering::Relaxed) {
            return Err(failure(EngineError::Interrupted));
        }
        progress.begin(product.name);
        rows.push(one(
            &mut engine,
            product.name,
            &product.weights,
            args,
            opened.monitor.as_ref(),
        )?);
        progress.step();
    }
    drop(progress);

    let right = rows.iter().all(|r| r.ok);
    if json {
        print_json(&serde_json::json!({ "rows": rows }))?;
    } else {
        table(&rows)?;
    }
    for row in rows.iter().filter(|r| !r.ok) {
        say(printable(&format!("{}: {}", row.tensor, row.complaint)));
    }
    Ok(if right { Exit::Right } else { Exit::Wrong })
}

fn one(
    engine: &mut Engine,
    name: &str,
    weights: &Matrix<'_>,
    args: &GemmArgs,
    monitor: Option<&Monitor>,
) -> Result<Row, Failure> {
    let m = args.m as usize;
    let about = |error| about(name, error);
    check_shape(weights.format(), m, weights.n(), weights.k()).map_err(about)?;
    let x = synthetic_activations(m, weights.k(), args.seed, Spread::Normal);
    // A label goes to the kernel's log and must hold no NUL.
    let uploaded = engine.upload(&printable(name), weights).map_err(about)?;
    let cycles_before = monitor.map(|m| m.job_log().cycles);
    let begin = Instant::now();
    let product = engine.multiply(&uploaded, &x, m).map_err(about)?;
    let wall_ms = begin.elapsed().as_secs_f64() * 1e3;
    let cycles = monitor
        .zip(cycles_before)
        .map(|(m, before)| m.job_log().cycles - before);
    let verdict = verify(
        weights,
        &x,
        m,
        product.quantised.as_ref(),
        &product.y,
        weights.n(),
    )
    .map_err(|e| Failure::new(Exit::Wrong, format_args!("{name}: {e}")))?;
    Ok(Row {
        tensor: name.to_owned(),
        quant: weights.format().to_string(),
        m,
        n: weights.n(),
        k: weights.k(),
        nmse: verdict.accuracy.nmse,
        exact: verdict.exact,
        macs: product.macs,
        wall_ms,
        cycles,
        ok: verdict.ok,
        complaint: verdict.complaint(),
    })
}

fn table(rows: &[Row]) -> Result<(), Failure> {
    let lines = rows.iter().map(|r| {
        vec![
            r.tensor.clone(),
            r.quant.clone(),
            format!("{}×{}×{}", r.m, r.n, r.k),
            format!("{:.1}", r.wall_ms),
            format!("{:.1}", r.macs as f64 / 1e6),
            r.cycles
                .map_or("-".to_owned(), |c| format!("{:.3}", c as f64 / 1e6)),
            format!("{:.1e}", r.nmse),
            if r.exact { "yes" } else { "NO" }.to_owned(),
            if r.ok { "right" } else { "WRONG" }.to_owned(),
        ]
    });
    print_table(
        &[
            "tensor", "quant", "M×N×K", "ms", "MMAC", "Mcycles", "NMSE", "exact", "verdict",
        ],
        lines.collect(),
    )?;
    let right = rows.iter().filter(|r| r.ok).count();
    let exact = rows.iter().filter(|r| r.exact).count();
    let macs: u64 = rows.iter().map(|r| r.macs).sum();
    let seconds: f64 = rows.iter().map(|r| r.wall_ms).sum::<f64>() / 1e3;
    let count = rows.len();
    let gmacs = macs as f64 / 1e9;
    crate::output::print(&format!(
        "\n{count} products: {right} right, {exact} exact; {gmacs:.2} GMAC in {seconds:.1} s\n"
    ))
}

/// As [`failure`], naming the matrix.
fn about(name: &str, error: EngineError) -> Failure {
    match error {
        EngineError::Interrupted => failure(error),
        _ => Failure::new(
            exit(&error),
            format_args!("{name}: {error}{}", hint(&error)),
        ),
    }
}

/// An engine's error with its exit code and remedy.
pub fn failure(error: EngineError) -> Failure {
    Failure::new(exit(&error), format_args!("{error}{}", hint(&error)))
}

/// Which exit code an engine's error has.
fn exit(error: &EngineError) -> Exit {
    match error {
        EngineError::Lost(_) | EngineError::Driver(panthor_uapi::Error::DeviceLost { .. }) => {
            Exit::NotRepaired
        }
        EngineError::Interrupted => Exit::Interrupted,
        EngineError::Layout(_)
        | EngineError::TooLarge { .. }
        | EngineError::Memory(MemoryError::TooLarge { .. }) => Exit::Usage,
        _ => Exit::NoDevice,
    }
}

/// What to do about an error that does not say it itself.
fn hint(error: &EngineError) -> &'static str {
    match error {
        EngineError::Lost(lost) => match lost.cause {
            LostCause::Failed(ETIMEDOUT) => {
                "; the driver's timer killed the job: run again, and if it stays so look at dmesg and the GPU's clock"
            }
            _ => "; run again, and if it stays so look at dmesg",
        },
        EngineError::Layout(_) | EngineError::TooLarge { .. } => "; choose another shape",
        _ => "",
    }
}
