//! How fast the simulator multiplies, through the whole stack with the strict checks on: MAC/s by criterion, warp
//! instructions and simulated cycles beside it.
//!
//! The matrix has the shape and format of SmolLM2-135M's `blk.0.ffn_down.weight`; with `PANTHOR_TEST_MODEL` it is that
//! tensor itself.

use std::hint::black_box;

use criterion::{Criterion, Throughput};
use panthor_engine::gemm::Engine;
use panthor_engine::gguf::Model;
use panthor_engine::quant::{Format, OwnedMatrix, Spread, synthetic_activations, synthetic_matrix};
use panthor_sim::Sim;
use panthor_uapi::Device;

const TENSOR: &str = "blk.0.ffn_down.weight";
const M: usize = 64;
const N: usize = 576;
const K: usize = 1536;

fn weights() -> OwnedMatrix {
    match std::env::var_os("PANTHOR_TEST_MODEL") {
        Some(path) => {
            let model = Model::open(path).unwrap();
            let w = model.matrix(TENSOR).unwrap().weights;
            let rows = (0..w.n()).flat_map(|n| w.row(n).to_vec()).collect();
            OwnedMatrix::new(w.format(), w.n(), w.k(), rows).unwrap()
        }
        None => synthetic_matrix(Format::Q4_1, N, K, 1, Spread::Normal).unwrap(),
    }
}

fn product(c: &mut Criterion) {
    let weights = weights();
    let w = weights.as_matrix();
    let x = synthetic_activations(M, w.k(), 1, Spread::Normal);
    let (simulator, monitor) = Sim::device("sim".parse().unwrap()).unwrap();
    let device = Device::open(simulator, "/dev/dri/renderD128").unwrap();
    let mut engine = Engine::open(&device).unwrap();
    let uploaded = engine.upload(TENSOR, &w).unwrap();

    let before = monitor.job_log();
    let macs = engine.multiply(&uploaded, &x, M).unwrap().macs;
    let after = monitor.job_log();
    let instructions = after.usage.instructions() - before.usage.instructions();
    println!(
        "{TENSOR} {} at M={M}: {macs} MAC, {instructions} warp instructions, {} simulated cycles",
        w.format(),
        after.cycles - before.cycles
    );

    let mut group = c.benchmark_group(TENSOR);
    group.sample_size(10);
    // Criterion prints the unit of `Elements`: once they are MACs, once warp instructions.
    for (unit, count) in [("MAC", macs), ("warp instructions", instructions)] {
        group.throughput(Throughput::Elements(count));
        group.bench_function(unit, |b| {
            b.iter(|| black_box(engine.multiply(&uploaded, &x, M).unwrap()))
        });
    }
    group.finish();
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    product(&mut criterion);
    criterion.final_summary();
}
