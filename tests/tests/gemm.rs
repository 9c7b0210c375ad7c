//! Products through the whole engine on a transport, checked bit for bit against the arithmetic that the layouts fix.
//!
//! Two checks: the engine's verdict (integer reference, f64 reference), and a second one in this file, written from the
//! description of the arithmetic alone, so that the engine does not judge itself only.

use std::sync::Arc;
use std::time::Duration;

use half::f16;
use panthor_engine::gemm::plan::TASK_CYCLES;
use panthor_engine::gemm::{Engine, EngineError, LostCause, Product, check_shape};
use panthor_engine::quant::{
    Format, Matrix, Scale, Spread, int_block, random_blocks, synthetic_activations,
    synthetic_matrix,
};
use panthor_engine::reference::{QuantisedActivations, verify};
use panthor_sim::Sim;
use panthor_sim::fault::Mode;
use panthor_sim::kmd::Monitor;
use panthor_tests::{device, simulator};
use panthor_uapi::{Device, SyncobjWaitFlags};

/// The larger of `largest` and |v|, whatever kind of NaN v is.
fn larger_magnitude(largest: f32, v: &f32) -> f32 {
    if v.abs() > largest { v.abs() } else { largest }
}

/// The product of the GPU's quantised activations with the weights, in the kernels' order of additions.
fn product(w: &Matrix<'_>, q: &QuantisedActivations, m: usize) -> Vec<f32> {
    let l = q.layout();
    let byte = |at: u64| q.bytes()[at as usize];
    let half = |at: u64| u16::from_le_bytes([byte(at), byte(at + 1)]);
    let mut y = Vec::new();
    for token in 0..m {
        let (u, r) = ((token / 16) as u64, token % 16);
        let at = l.factor_offset(token);
        let factor = f32::from_le_bytes([byte(at), byte(at + 1), byte(at + 2), byte(at + 3)]);
        for n in 0..w.n() {
            let mut acc = 0f32;
            for b in 0..w.k() / 32 {
                let weights = int_block(w.format(), w.row(n), b);
                let mut sums = [0i32; 2];
                for e in 0..32 {
                    let piece = l.piece_offset(u, b as u64, e / 16, r);
                    sums[e / 16] +=
                        i32::from(weights.q[e]) * i32::from(byte(piece + (e % 16) as u64) as i8);
                }
                let da = f16::from_bits(half(l.scale_offset(u, b as u64, r))).to_f32();
                let sum = f32::from(half(l.sum_offset(u, b as u64, r)) as i16);
                let sixteen = if w.format() == Format::Q4_0 { 16 } else { 1 };
                match weights.scale {
                    Scale::Halves { s } => {
                        for (sum, s) in sums.into_iter().zip(s) {
                            acc = (sum as f32).mul_add(s * da, acc);
                        }
                    }
                    scale => {
                        let whole = sixteen * (sums[0] + sums[1]);
                        acc = (whole as f32).mul_add(scale.scales()[0] * da, acc);
                        if let Some(minimum) = scale.minimum() {
                            acc = sum.mul_add(minimum * da, acc);
                        }
                    }
                }
            }
            let factor = if w.format() == Format::Q4_0 {
                factor * 0.0625
            } else {
                factor
            };
            y.push(acc * factor);
        }
    }
    y
}

/// As `product`, of F16 and F32 weights with X itself.
fn float_product(w: &Matrix<'_>, x: &[f32], m: usize) -> Vec<f32> {
    let weights = w.dequantise();
    let mut y = Vec::new();
    for token in 0..m {
        for n in 0..w.n() {
            let row = &weights[n * w.k()..][..w.k()];
            let terms = row.iter().zip(&x[token * w.k()..]);
            y.push(terms.fold(0f32, |acc, (w, x)| w.mul_add(*x, acc)));
        }
    }
    y
}

/// How many of the GPU's int8 activations differ from rounding `x / scale` exactly. None may.
fn wrong_quants(q: &QuantisedActivations, x: &[f32], m: usize, k: usize) -> usize {
    let l = q.layout();
    let byte = |at: u64| q.bytes()[at as usize];
    let half = |at: u64| u16::from_le_bytes([byte(at), byte(at + 1)]);
    let mut wrong = 0;
    for token in 0..m {
        let (u, r) = ((token / 16) as u64, token % 16);
        let row = &x[token * k..][..k];
        let largest = row.iter().fold(0f32, larger_magnitude);
        let exponent = (largest.to_bits() >> 23).clamp(18, 254);
        let at = l.factor_offset(token);
        let factor = u32::from_le_bytes([byte(at), byte(at + 1), byte(at + 2), byte(at + 3)]);
        assert_eq!(factor, (exponent - 13) << 23, "factor of token {token}");
        let norm = f32::from_bits((267 - exponent) << 23);
        for b in 0..k / 32 {
            let block: Vec<f32> = row[32 * b..][..32].iter().map(|v| v * norm).collect();
            let finite = block.iter().all(|v| v.is_finite());
            let d = f16::from_f32(block.iter().fold(0f32, larger_magnitude) * (1.0 / 127.0));
            let da = if finite { d.to_bits() } else { 0x7e00 };
            assert_eq!(
                half(l.scale_offset(u, b as u64, r)),
                da,
                "scale of token {token}, block {b}"
            );
            let d = f64::from(d.to_f32());
            let mut sum = 0;
            for (e, v) in block.iter().enumerate() {
                let expected = if finite && d != 0.0 {
                    (f64::from(*v) / d + 0.5).floor().clamp(-127.0, 127.0) as i32
                } else {
                    0
                };
                let found = byte(l.piece_offset(u, b as u64, e / 16, r) + (e % 16) as u64) as i8;
                wrong += usize::from(i32::from(found) != expected);
                sum += i32::from(found);
            }
            assert_eq!(i32::from(half(l.sum_offset(u, b as u64, r)) as i16), sum);
        }
    }
    wrong
}

fn same(a: f32, b: f32) -> bool {
    a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan()
}

/// Every output of every token of ordinary values is within a hundredth of Σ|w||x|. Tokens that hold NaN, infinities or
/// subnormals are left out: those are judged by what `verify` says of their outputs one by one.
fn judge_tokens(w: &Matrix<'_>, x: &[f32], m: usize, y: &[f32], what: &str) {
    let weights = w.dequantise();
    let mut judged = 0;
    for token in 0..m {
        let row = &x[token * w.k()..][..w.k()];
        let largest = row.iter().fold(0f32, larger_magnitude);
        let ordinary = largest == 0.0 || largest.is_normal();
        if !ordinary || !row.iter().all(|v| v.is_finite()) {
            continue;
        }
        judged += 1;
        for n in 0..w.n() {
            let terms = weights[n * w.k()..].iter().zip(row);
            let terms: Vec<f64> = terms.map(|(w, x)| f64::from(*w) * f64::from(*x)).collect();
            let (sum, size) = terms
                .iter()
                .fold((0.0, 0.0), |(s, a), t| (s + t, a + t.abs()));
            if size >= f64::from(f32::MAX) {
                continue;
            }
            let error = (f64::from(y[token * w.n() + n]) - sum).abs();
            assert!(
                error <= 0.01 * size,
                "{what}: Y[{token}][{n}] is off by {error:e} of {size:e}"
            );
        }
    }
    assert!(judged >= 4, "{what}: {judged} tokens");
}

/// The engine's own verdict, and the arithmetic above.
fn check(w: &Matrix<'_>, x: &[f32], m: usize, result: &Product, what: &str) {
    let verdict = verify(w, x, m, result.quantised.as_ref(), &result.y, w.n()).unwrap();
    let activations_ok = verdict.activations.is_none_or(|a| a.ok());
    assert!(
        verdict.exact && activations_ok,
        "{what}: {}",
        verdict.complaint()
    );
    if what.ends_with("odd values") {
        // One token outweighs all others, so that the mean over all outputs says nothing: each token for itself.
        assert_eq!(verdict.accuracy.wrong, 0, "{what}: {}", verdict.complaint());
        judge_tokens(w, x, m, &result.y, what);
    } else {
        assert!(verdict.ok, "{what}: {}", verdict.complaint());
    }
    let expected = match &result.quantised {
        Some(q) => {
            assert_eq!(wrong_quants(q, x, m, w.k()), 0, "{what}: activations");
            product(w, q, m)
        }
        None => float_product(w, x, m),
    };
    assert_eq!(result.y.len(), expected.len(), "{what}");
    for (i, (y, e)) in result.y.iter().zip(&expected).enumerate() {
        assert!(
            same(*y, *e),
            "{what}: Y[{}][{}] is {y}, not {e}",
            i / w.n(),
            i % w.n()
        );
    }
}

fn multiply(engine: &mut Engine, w: &Matrix<'_>, x: &[f32], m: usize, what: &str) {
    let weights = engine.upload(what, w).unwrap();
    let result = engine
        .multiply(&weights, x, m)
        .unwrap_or_else(|e| panic!("{what}: {e}"));
    check(w, x, m, &result, what);
}

fn run(engine: &mut Engine, format: Format, [m, n, k]: [usize; 3], seed: u64, spread: Spread) {
    let what = format!("{format} M={m} N={n} K={k} seed {seed} {spread:?}");
    let w = synthetic_matrix(format, n, k, seed, spread).unwrap();
    let x = synthetic_activations(m, k, seed, spread);
    multiply(engine, &w.as_matrix(), &x, m, &what);
}

/// The smallest K of a format that the kernels' loops run more than once for.
fn some_k(format: Format) -> usize {
    if format.is_quantised() {
        format.block_elements().max(96)
    } else {
        44
    }
}

#[test]
fn every_format_at_ragged_shapes() {
    let device = device();
    let mut engine = Engine::open(&device).unwrap();
    for format in Format::ALL {
        for (i, m) in [1, 7, 16, 33, 64, 128, 512].into_iter().enumerate() {
            for n in [1, 17] {
                let shape = [m, n, some_k(format)];
                run(&mut engine, format, shape, i as u64, Spread::Normal);
            }
        }
        run(
            &mut engine,
            format,
            [2, 5, format.block_elements()],
            9,
            Spread::Normal,
        );
        run(
            &mut engine,
            format,
            [5, 18, 2 * some_k(format)],
            10,
            Spread::Extreme,
        );
    }
}

#[test]
fn any_bits_of_a_block_are_multiplied_exactly() {
    let (device, _sim) = simulator("seed=7");
    let mut engine = Engine::open(&device).unwrap();
    for format in Format::ALL {
        let k = some_k(format);
        let w = random_blocks(format, 20, k, 3).unwrap();
        let x = synthetic_activations(9, k, 3, Spread::Extreme);
        multiply(
            &mut engine,
            &w.as_matrix(),
            &x,
            9,
            &format!("{format}, random blocks"),
        );
    }
}

#[test]
fn quants_do_not_depend_on_the_reciprocals_last_bit() {
    for seed in 0..6 {
        let (device, _sim) = simulator(&format!("seed={seed}"));
        let mut engine = Engine::open(&device).unwrap();
        let w = synthetic_matrix(Format::Q8_0, 16, 256, 1, Spread::Normal).unwrap();
        // Multiples of half a step: every quotient is near a rounding edge.
        let x: Vec<f32> = (0..16 * 256)
            .map(|i| {
                let (token, e) = (i / 256, i % 256);
                if e % 32 == 0 {
                    127.0
                } else {
                    ((e * 37 + token * 11) % 254) as f32 - 126.5
                }
            })
            .collect();
        multiply(
            &mut engine,
            &w.as_matrix(),
            &x,
            16,
            &format!("edges, seed {seed}"),
        );
    }
}

#[test]
fn zeros_subnormals_infinities_and_nans() {
    let device = device();
    let mut engine = Engine::open(&device).unwrap();
    let k = 128;
    for format in [Format::Q4_0, Format::Q4_1, Format::Q6_K] {
        let k = k.max(format.block_elements());
        let w = synthetic_matrix(format, 16, k, 1, Spread::Normal).unwrap();
        let mut x = synthetic_activations(8, k, 1, Spread::Normal);
        x[..k].fill(0.0);
        x[k..2 * k]
            .iter_mut()
            .for_each(|v| *v *= f32::MIN_POSITIVE / 16.0);
        x[2 * k + 5] = f32::NAN;
        x[3 * k + 40] = f32::INFINITY;
        x[4 * k + 3] = f32::NEG_INFINITY;
        x[5 * k..6 * k].iter_mut().for_each(|v| *v *= 1e38);
        // A block so much smaller than its token's largest that its scale is a subnormal f16, or none.
        x[6 * k..6 * k + 32].iter_mut().for_each(|v| *v *= 3e-9);
        x[7 * k..7 * k + 32].iter_mut().for_each(|v| *v *= 1e-12);
        multiply(
            &mut engine,
            &w.as_matrix(),
            &x,
            8,
            &format!("{format}, odd values"),
        );
    }
}

#[test]
fn a_slow_gpu_gets_many_jobs_and_none_times_out() {
    let (device, sim) = simulator("gpu_mhz=0.02");
    let mut engine = Engine::open(&device).unwrap();
    let w = synthetic_matrix(Format::Q4_1, 600, 256, 2, Spread::Normal).unwrap();
    let x = synthetic_activations(64, 256, 2, Spread::Normal);
    let weights = engine.upload("w", &w.as_matrix()).unwrap();
    for round in 0..2 {
        let result = engine.multiply(&weights, &x, 64).unwrap();
        check(&w.as_matrix(), &x, 64, &result, "slow");
        assert!(round == 0 || result.jobs > 2, "{} jobs", result.jobs);
    }
    assert!(sim.messages().is_empty(), "{:?}", sim.messages());
}

#[test]
fn a_batch_gives_what_single_products_give() {
    let device = device();
    let mut engine = Engine::open(&device).unwrap();
    let cases = [
        (Format::Q4_0, 3, 40, 64),
        (Format::F16, 5, 33, 24),
        (Format::Q5_1, 17, 16, 160),
    ];
    let data: Vec<_> = cases
        .iter()
        .map(|(format, m, n, k)| {
            let w = synthetic_matrix(*format, *n, *k, 4, Spread::Normal).unwrap();
            let weights = engine.upload(&format.to_string(), &w.as_matrix()).unwrap();
            (
                w,
                weights,
                synthetic_activations(*m, *k, 4, Spread::Normal),
                *m,
            )
        })
        .collect();
    for _ in 0..3 {
        let batch: Vec<_> = data
            .iter()
            .map(|(_, weights, x, m)| (weights, &x[..], *m))
            .collect();
        let results = engine.batch(&batch).unwrap();
        for ((w, _, x, m), result) in data.iter().zip(&results) {
            check(&w.as_matrix(), x, *m, result, "batch");
        }
    }
}

/// Takes each wait and each flush out of a stream of three dispatches, one at a time: the simulator must object by name,
/// or lines must be left dirty and the result be stale.
///
/// The wait before the end marker is the exception: nothing reads the marker before the job's end here. A watcher does,
/// and a test of the stream's builder holds the wait in place.
#[test]
fn every_wait_and_flush_is_needed() {
    let w = synthetic_matrix(Format::Q4_0, 32, 64, 1, Spread::Normal).unwrap();
    let x = synthetic_activations(32, 64, 1, Spread::Normal);
    let device = device();
    let mut engine = Engine::open(&device).unwrap();
    let weights = engine.upload("w", &w.as_matrix()).unwrap();
    let expected = engine.multiply(&weights, &x, 32).unwrap().y;
    // Of each dispatch a wait for its sizes, a wait for its end and a flush; between dispatches a wait for the flush.
    let (sizes, end, flush) = ("was waited for", "without a wait", "load-store-cache flush");
    let removed = [
        ("sizes of the factors", sizes),
        ("end of the factors", end),
        ("flush of the factors", flush),
        ("flush of the factors, wait", flush),
        ("sizes of the quantiser", sizes),
        ("end of the quantiser", end),
        ("flush of the quantiser", flush),
        ("flush of the quantiser, wait", flush),
        ("sizes of the product", sizes),
        ("end of the product", "the result is stale"),
        ("flush of the product", "the result is stale"),
    ];
    let rules = ["", "lsc=private"];
    for (options, start_markers) in rules.into_iter().flat_map(|o| [(o, false), (o, true)]) {
        for n in 0..=removed.len() + 1 {
            let (device, sim, monitor) = monitored(options);
            let mut engine = Engine::open(&device).unwrap();
            engine.set_start_markers(start_markers);
            let weights = engine.upload("w", &w.as_matrix()).unwrap();
            engine.omit(Some(n));
            let result = engine.multiply(&weights, &x, 32);
            let right = result
                .as_ref()
                .is_ok_and(|r| expected.iter().zip(&r.y).all(|(a, b)| same(*a, *b)));
            let messages = sim.messages();
            println!(
                "{n}: {right}, dirty {}, {messages:?}",
                monitor.caches_dirty()
            );
            match removed.get(n) {
                None => assert!(right && messages.is_empty(), "{n}: {messages:?}"),
                Some((what, "the result is stale")) => {
                    assert!(!right && monitor.caches_dirty(), "{what}: {messages:?}");
                }
                Some((what, name)) => {
                    assert!(!right, "{what} is not needed");
                    let named = messages.iter().any(|m| m.contains(name));
                    assert!(named, "{what}: {messages:?}");
                }
            }
        }
    }
}

#[test]
fn a_failed_job_loses_the_engine_with_its_reason() {
    let device = device();
    let mut engine = Engine::open(&device).unwrap();
    let w = synthetic_matrix(Format::Q4_0, 32, 64, 1, Spread::Normal).unwrap();
    let x = synthetic_activations(1, 64, 1, Spread::Normal);
    let weights = engine.upload("w", &w.as_matrix()).unwrap();
    engine.omit(Some(0));
    let first = engine.multiply(&weights, &x, 1).unwrap_err().to_string();
    engine.omit(None);
    let second = engine.multiply(&weights, &x, 1).unwrap_err().to_string();
    assert!(first.contains("lost"), "{first}");
    assert_eq!(first, second);
}

/// A job in the middle of a submission fails: it is that job that the engine names, with its own errno, though the
/// later jobs of the timeline end well (a fault) or die with it (a hang).
#[test]
fn the_job_that_failed_is_named_with_its_errno() {
    let w = synthetic_matrix(Format::Q4_0, 400, 256, 1, Spread::Normal).unwrap();
    let x = synthetic_activations(48, 256, 1, Spread::Normal);
    let inherited = Mode::CsFault { exception: 0x4b };
    let configuration = Mode::CsFault { exception: 0x40 };
    let hang = Mode::CsInfiniteLoop;
    let page_fault = Mode::MmuFault { va: 0x12_3000 };
    let failed = LostCause::Failed;
    for (kernel, mode, cause) in [
        ("7.2", inherited, failed(22)),
        ("7.2", configuration, failed(22)),
        ("7.2", hang, failed(110)),
        ("7.2", page_fault, failed(22)),
        ("6.12", inherited, failed(22)),
        // The old driver's fence says that all is well.
        ("6.12", configuration, LostCause::Unfinished),
        ("6.12", hang, failed(110)),
        ("6.12", page_fault, failed(22)),
    ] {
        let (device, sim) = simulator(&format!("gpu_mhz=0.01,kernel={kernel}"));
        let mut engine = Engine::open(&device).unwrap();
        let weights = engine.upload("w", &w.as_matrix()).unwrap();
        // The first product sets the rate, the second comes in many jobs.
        engine.multiply(&weights, &x, 48).unwrap();
        sim.inject(sim.jobs_started() + 2, mode);
        let error = engine.multiply(&weights, &x, 48).unwrap_err();
        let EngineError::Lost(lost) = &error else {
            panic!("{error}");
        };
        assert_eq!((lost.job, &lost.cause), (3, &cause), "{kernel} {mode:?}");
        // A recoverable fault leaves the group alive.
        let dies = !matches!(mode, Mode::CsFault { .. });
        assert_eq!(lost.group.map(|g| g.is_dead()), Some(dies));
        let error = error.to_string();
        let (jobs, group) = (engine.last_jobs().len(), "group");
        assert!(jobs >= 5, "{jobs} jobs");
        let expected = format!(
            "job 3 of {jobs}: job at point {}",
            engine.last_jobs()[2].point.value
        );
        assert!(error.contains(&expected), "{error}");
        assert!(
            error.contains(&cause.to_string()) && error.contains(group),
            "{error}"
        );
    }
}

/// Lets the device's clock pass, by waiting for what never comes.
fn let_time_pass(device: &Device, time: Duration) {
    let never = device.create_syncobj(false).unwrap();
    let deadline = device.transport().now() + u64::try_from(time.as_nanos()).unwrap();
    let flags = SyncobjWaitFlags::WAIT_ALL | SyncobjWaitFlags::WAIT_FOR_SUBMIT;
    let first = device.wait_syncobjs(&[(&never, 0)], flags, deadline);
    assert!(matches!(first, Ok(None)), "{first:?}");
}

/// The third of many jobs fails and the engine gives up, while the later jobs run on in what it had mapped for them,
/// even if the caller drops the weights.
#[test]
fn jobs_after_the_failed_one_keep_their_memory() {
    let w = synthetic_matrix(Format::Q4_0, 400, 256, 1, Spread::Normal).unwrap();
    let x = synthetic_activations(48, 256, 1, Spread::Normal);
    let (device, sim) = simulator("gpu_mhz=0.01");
    let nothing = sim.live_objects();
    let mut engine = Engine::open(&device).unwrap();
    engine.set_start_markers(true);
    let weights = engine.upload("w", &w.as_matrix()).unwrap();
    engine.multiply(&weights, &x, 48).unwrap();
    let before = sim.jobs_started();
    sim.inject(before + 2, Mode::CsFault { exception: 0x4b });
    let error = engine.multiply(&weights, &x, 48).unwrap_err();
    assert!(
        matches!(&error, EngineError::Lost(lost) if lost.job == 3),
        "{error}"
    );
    let jobs = engine.last_jobs().to_vec();
    assert!(jobs.len() > 4 && sim.jobs_started() < before + jobs.len() as u64);
    drop(weights);
    let_time_pass(&device, Duration::from_secs(60));
    assert_eq!(sim.jobs_started(), before + jobs.len() as u64);
    // The injected fault and nothing else; the jobs after it came to their ends.
    let messages = sim.messages();
    assert_eq!(messages.len(), 1, "{messages:?}");
    assert!(messages[0].contains("CS_FAULT"), "{messages:?}");
    for (i, job) in jobs.iter().enumerate() {
        let end = job.markers.last().unwrap();
        assert_eq!(engine.marker(end.address) == Some(end.value), i != 2, "{i}");
    }
    drop(engine);
    assert_eq!(sim.live_objects(), nothing);
}

/// A simulator with a view of its shader cores.
fn monitored(options: &str) -> (Device, Arc<panthor_sim::Device>, Monitor) {
    let options = format!("sim:{options}").parse().unwrap();
    let (sim, monitor) = Sim::device(options).unwrap();
    let device = Device::open(sim.clone(), "/dev/dri/renderD128").unwrap();
    (device, sim, monitor)
}

/// The format by which each kernel class is tried.
const CLASSES: [Format; 9] = [
    Format::Q4_0,
    Format::Q4_1,
    Format::Q4_K,
    Format::Q8_0,
    Format::Q5_1,
    Format::Q5_K,
    Format::Q6_K,
    Format::F16,
    Format::F32,
];

#[test]
fn predicted_cycles_are_what_the_shader_cores_take() {
    for cores in [4, 1] {
        for format in CLASSES {
            let (device, _sim, monitor) = monitored(&format!("cores={cores}"));
            let mut engine = Engine::open(&device).unwrap();
            let w = synthetic_matrix(format, 150, 512, 1, Spread::Normal).unwrap();
            let x = synthetic_activations(64, 512, 1, Spread::Normal);
            let weights = engine.upload("w", &w.as_matrix()).unwrap();
            let result = engine.multiply(&weights, &x, 64).unwrap();
            let jobs = engine.last_jobs();
            assert_eq!(jobs.len(), result.jobs);
            let predicted: u64 = jobs.iter().map(|job| job.predicted_cycles).sum();
            let counted = monitor.job_log().cycles;
            println!("{format} on {cores} cores: {predicted} predicted, {counted} counted");
            assert!(
                predicted <= 2 * counted && counted <= 2 * predicted,
                "{format} on {cores} cores: {predicted} predicted, {counted} counted"
            );
        }
    }
}

/// The longest row that is taken makes a task of under a million cycles; a longer one is refused by name.
#[test]
fn rows_too_long_for_a_task_are_refused() {
    for format in CLASSES {
        let block = format.block_elements().max(8);
        let fits = |k| check_shape(format, 1, 1, k);
        let mut k = block;
        while fits(2 * k).is_ok() {
            k *= 2;
        }
        let mut step = k;
        while step > block {
            step = (step / 2).next_multiple_of(block);
            if fits(k + step).is_ok() {
                k += step;
            }
        }
        let error = fits(k + block).unwrap_err();
        assert!(
            matches!(error, EngineError::TooLarge { what: "K", value, most } if value == k + block && most < value),
            "{format}: {error}"
        );
        assert!(k > 8_192, "{format}: at most {k}");

        let (device, sim, monitor) = monitored("");
        let mut engine = Engine::open(&device).unwrap();
        let w = synthetic_matrix(format, 1, k, 1, Spread::Normal).unwrap();
        let x = synthetic_activations(1, k, 1, Spread::Normal);
        multiply(
            &mut engine,
            &w.as_matrix(),
            &x,
            1,
            &format!("{format} K={k}"),
        );
        // One workgroup is one task.
        let longest = monitor
            .job_log()
            .recent
            .iter()
            .map(|job| job.usage.cycles())
            .max();
        println!("{format}: K up to {k}, {longest:?} cycles");
        assert!(
            longest.is_some_and(|cycles| cycles <= TASK_CYCLES),
            "{format}: {longest:?}"
        );
        assert!(sim.messages().is_empty(), "{:?}", sim.messages());
    }
}

#[test]
fn jobs_leave_their_marks_and_can_be_run_again() {
    let (device, sim) = simulator("gpu_mhz=0.02");
    let mut engine = Engine::open(&device).unwrap();
    engine.set_start_markers(true);
    let w = synthetic_matrix(Format::Q4_0, 400, 256, 1, Spread::Normal).unwrap();
    let x = synthetic_activations(48, 256, 1, Spread::Normal);
    let weights = engine.upload("w", &w.as_matrix()).unwrap();
    for _ in 0..2 {
        let result = engine.multiply(&weights, &x, 48).unwrap();
        check(&w.as_matrix(), &x, 48, &result, "marked");
    }
    let jobs = engine.last_jobs().to_vec();
    assert!(jobs.len() > 1);
    let mut point = 0;
    for job in &jobs {
        assert!(job.is_repeatable() && job.point.value > point && job.predicted_cycles > 0);
        point = job.point.value;
        assert_eq!(job.markers.len(), 2);
        for marker in &job.markers {
            assert_eq!(
                engine.marker(marker.address),
                Some(marker.value),
                "{:?}",
                sim.messages()
            );
        }
    }
}

#[test]
fn old_and_new_drivers_and_other_page_sizes() {
    for options in [
        "kernel=6.12",
        "kernel=7.3",
        "page_size=16384",
        "page_size=65536,kernel=6.12",
        "cores=1",
    ] {
        let (device, _sim) = simulator(options);
        let mut engine = Engine::open(&device).unwrap();
        run(&mut engine, Format::Q4_1, [20, 40, 96], 1, Spread::Normal);
    }
}

#[test]
fn nothing_is_left_on_the_device() {
    let (device, sim) = simulator("kernel=6.12");
    let before = sim.live_objects();
    {
        let mut engine = Engine::open(&device).unwrap();
        run(&mut engine, Format::Q4_K, [3, 20, 256], 1, Spread::Normal);
    }
    assert_eq!(sim.live_objects(), before);
}

#[test]
fn a_full_device_says_what_it_was_for() {
    let (device, sim) = simulator("memory=4");
    let before = sim.live_objects();
    let engine = Engine::open(&device).unwrap();
    let w = synthetic_matrix(Format::Q8_0, 4096, 2048, 1, Spread::Normal).unwrap();
    let error = engine
        .upload("weights of blk.0", &w.as_matrix())
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("weights of blk.0") && error.contains("failed"),
        "{error}"
    );
    drop(engine);
    assert_eq!(sim.live_objects(), before);
}

#[test]
fn shapes_that_do_not_fit_are_refused() {
    let device = device();
    let mut engine = Engine::open(&device).unwrap();
    let w = synthetic_matrix(Format::Q4_0, 16, 32, 1, Spread::Normal).unwrap();
    let weights = engine.upload("w", &w.as_matrix()).unwrap();
    let error = engine
        .multiply(&weights, &[0.0; 31], 1)
        .unwrap_err()
        .to_string();
    assert_eq!(error, "activations: 31 floats for M = 1, K = 32");
    assert!(engine.multiply(&weights, &[], 0).is_err());
}

/// The largest matrix of SmolLM2-135M: 49,152 × 576, on a GPU so slow that it takes minutes of simulated time.
#[test]
fn the_largest_product_of_a_model_on_a_slow_gpu() {
    let (device, sim) = simulator("gpu_mhz=0.2");
    let mut engine = Engine::open(&device).unwrap();
    let (m, n, k) = (32, 49_152, 576);
    let w = synthetic_matrix(Format::Q8_0, n, k, 1, Spread::Normal).unwrap();
    let x = synthetic_activations(m, k, 1, Spread::Normal);
    let weights = engine.upload("token_embd.weight", &w.as_matrix()).unwrap();
    let begin = std::time::Instant::now();
    let result = engine.multiply(&weights, &x, m);
    let result = result.unwrap_or_else(|e| panic!("{e}\n{}", sim.messages().join("\n")));
    println!(
        "{} jobs, {:?} simulated, {:?} of ours",
        result.jobs,
        result.elapsed,
        begin.elapsed()
    );
    assert!(
        result.jobs > 10 && sim.messages().is_empty(),
        "{:?}",
        sim.messages()
    );
    // Some rows stand for all.
    let q = result.quantised.as_ref().unwrap();
    for row in (0..n).step_by(4_801) {
        let bytes = w.as_matrix().row(row).to_vec();
        let one = Matrix::new(Format::Q8_0, 1, k, &bytes).unwrap();
        for (token, expected) in product(&one, q, m).into_iter().enumerate() {
            assert!(
                same(result.y[token * n + row], expected),
                "Y[{token}][{row}]"
            );
        }
    }
}

#[test]
fn a_long_row_at_sixty_four_tokens() {
    let device = device();
    let mut engine = Engine::open(&device).unwrap();
    let begin = std::time::Instant::now();
    run(
        &mut engine,
        Format::Q4_0,
        [64, 577, 4096],
        1,
        Spread::Normal,
    );
    println!("{:?} of ours, rate {:?}", begin.elapsed(), engine.rate());
}
