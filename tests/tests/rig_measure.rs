//! Figures and promises of the rig that the measurements rest on: equal runs, short runs, the driver's timer at work.
//!
//! Needs kernels in the rig's cache (`panthorctl rig build`); without one a test says so and passes, unless
//! `PANTHOR_TEST_RIG` is set.

use std::path::{Path, PathBuf};

use panthor_tests::measure::outside::{Run, Settings, available, measure, run_inside};
use panthor_tests::measure::product::{ProductRecord, SHAPE};
use panthor_tests::measure::scenario;

/// The node inside.
const NODE: &str = "/dev/dri/renderD128";

fn helper() -> PathBuf {
    env!("CARGO_BIN_EXE_measure").into()
}

/// Whether figures are held to their limits: on a host that does nothing else. Elsewhere every round trip and every boot
/// waits for a CPU.
fn figures() -> bool {
    std::env::var_os("PANTHOR_FIGURES").is_some()
}

/// Whether the rig has this kernel; says so where it has not.
fn has(kernel: &str) -> bool {
    match available(&format!("rig:kernel={kernel}")) {
        Ok(()) => true,
        Err(error) => {
            assert!(std::env::var_os("PANTHOR_TEST_RIG").is_none(), "{error}");
            eprintln!("skipped: {error}");
            false
        }
    }
}

fn once(kernel: &str, name: &str) -> Run {
    let settings = Settings {
        kernel: kernel.to_owned(),
        seed: 0,
        more: Vec::new(),
        helper: helper(),
    };
    let scenario = scenario::find(name).expect("a scenario");
    measure(&settings, scenario).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn equal_seeds_give_equal_records_and_traces() {
    for kernel in ["7.2", "7.3"] {
        if !has(kernel) {
            continue;
        }
        for name in ["cs_infinite_loop", "irq_lost_half", "twelve_groups"] {
            let (a, b) = (once(kernel, name).record, once(kernel, name).record);
            let trace = a.trace.as_ref().expect("tracefs");
            assert!(trace.counts["dma_fence_signaled"] > 0);
            assert_eq!(a, b, "{kernel}, {name}");
        }
    }
}

#[test]
fn five_seconds_and_the_recovery_take_less_than_one() {
    if !has("7.2") {
        return;
    }
    // The best of three, since other tests use the host meanwhile.
    let best = (0..3)
        .map(|_| {
            let run = once("7.2", "cs_infinite_loop");
            let victim = run.record.victim.expect("a report");
            assert_eq!(victim.fences[0].status, "ETIMEDOUT");
            assert!(victim.rungs[0].cured);
            run.wall_ms - run.boot_wall_ms
        })
        .min();
    eprintln!("{best:?} ms of wall time");
    let limit = if figures() { 1_000 } else { 60_000 };
    assert!(best < Some(limit), "{best:?} ms");
}

#[test]
fn a_register_access_takes_microseconds() {
    if !has("7.2") {
        return;
    }
    let run = |count: &str| {
        let device = "rig:kernel=7.2,user=root";
        let (_, err, report) = run_inside(device, &helper(), &["registers", count, NODE])
            .unwrap_or_else(|e| panic!("{e}"));
        assert!(err.is_empty(), "{err}");
        (report.model.reads + report.model.writes, report.wall)
    };
    let best = (0..3)
        .map(|_| {
            let ((few, short), (many, long)) = (run("10"), run("5000"));
            assert!(many > few + 10_000, "{few}, {many}");
            long.saturating_sub(short).as_secs_f64() * 1e6 / (many - few) as f64
        })
        .fold(f64::INFINITY, f64::min);
    eprintln!("{best:.1} µs an access, the query's own work included");
    let limit = if figures() { 20.0 } else { 5_000.0 };
    assert!(best <= limit, "{best} µs");
}

#[test]
fn a_job_of_six_seconds_dies_in_each_kernels_own_way() {
    for (kernel, words) in [
        ("6.12", "job timeout"),
        ("7.2", "job timeout: pid="),
        ("7.3", "job timeout: pid="),
    ] {
        if !has(kernel) {
            continue;
        }
        let record = once(kernel, "long_job").record;
        let fence = &record.victim.as_ref().expect("a report").fences[0];
        assert_eq!(
            (fence.status.as_str(), fence.ended),
            ("ETIMEDOUT", Some(false))
        );
        let line = record
            .messages
            .iter()
            .find(|m| m.text.contains("job timeout"));
        let text = &line.expect("a message").text;
        assert!(text.contains(words), "{kernel}: {text}");
        assert_eq!(kernel == "6.12", text.ends_with("job timeout"), "{text}");
    }
}

/// Multiplies so many rows at 0.2 MHz.
fn product(kernel: &str, rows: usize) -> ProductRecord {
    let device = format!("rig:kernel={kernel},gpu_mhz=0.2");
    let rows = rows.to_string();
    let (out, err, report) = run_inside(&device, Path::new(&helper()), &["product", &rows, NODE])
        .unwrap_or_else(|e| panic!("{e}"));
    serde_json::from_str(out.trim())
        .unwrap_or_else(|e| panic!("{e}: {out}{err}\n{}", report.kernel_log))
}

#[test]
fn a_large_product_on_a_slow_gpu_is_cut_and_passes() {
    for kernel in ["6.12", "7.2"] {
        if !has(kernel) {
            continue;
        }
        let record = product(kernel, 16_384);
        eprintln!("{kernel}: {record:?}");
        assert!(record.exact, "{}", record.complaint);
        assert!(record.jobs > 1, "{record:?}");
    }
}

/// The whole matrix: minutes of the host's time, so only where figures are asked for.
#[test]
fn the_largest_product_on_a_slow_gpu_is_cut_and_passes() {
    if figures() && has("7.2") {
        let record = product("7.2", SHAPE[1]);
        eprintln!("{record:?}");
        assert!(record.exact && record.jobs > 10, "{record:?}");
    }
}
