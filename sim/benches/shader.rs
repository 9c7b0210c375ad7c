//! How fast the shader cores are simulated: an unrolled `IDPADD` kernel as a quantised product has it, through
//! a plain memory port, with all register checks on.

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, Throughput};
use mali_isa::valhall::assemble_program;
use panthor_sim::shader::{ComputeJob, MemoryPort, ShaderCores, ShaderMemory, WARP_LANES};

const CODE: u64 = 0x10_0000;
const SPD: u64 = 0x20_0000;
const TSD: u64 = 0x20_0040;
const FAU: u64 = 0x20_0080;
const DATA: u64 = 0x30_0000;
const SIZE: usize = 0x40_0000;

/// Flat memory that is only read by several threads, except for each thread's own outputs.
struct Flat(Vec<u8>);

struct View<'a>(&'a [u8]);

#[derive(Debug, thiserror::Error)]
#[error("nothing at {0:#x}")]
struct Nothing(u64);

impl<'a> ShaderMemory for &'a Flat {
    type Port = View<'a>;
    fn port(&self, _core: u32) -> View<'a> {
        View(&self.0)
    }
}

impl MemoryPort for View<'_> {
    type Error = Nothing;
    fn load<const N: usize>(&mut self, va: u64) -> Result<[u8; N], Nothing> {
        let bytes = self
            .0
            .get(va as usize..va as usize + N)
            .ok_or(Nothing(va))?;
        bytes.try_into().map_err(|_| Nothing(va))
    }
    fn store<const N: usize>(&mut self, va: u64, bytes: [u8; N]) -> Result<(), Nothing> {
        // The kernel's few results only have to be computed.
        black_box((va, bytes));
        Ok(())
    }
    fn atomic32(&mut self, va: u64, _f: &mut dyn FnMut(u32) -> u32) -> Result<u32, Nothing> {
        Err(Nothing(va))
    }
    fn atomic64(&mut self, va: u64, _f: &mut dyn FnMut(u64) -> u64) -> Result<u64, Nothing> {
        Err(Nothing(va))
    }
    fn fetch(&mut self, va: u64) -> Result<u64, Nothing> {
        self.load(va).map(u64::from_le_bytes)
    }
}

/// A 4x4 tile per thread over `STEPS` blocks of 32: two 16-byte loads per row and column, 128 `IDPADD`, and the
/// conversions and multiply-adds of a block scale.
fn kernel() -> String {
    let mut text = String::from(
        "MOV.i32 r60, 0x0\nLSHIFT_OR.i32 r58, r57, 0x7060504.b11, 0x0\nIADD.u32 r58, r58^, u0\nMOV.i32 r59, u1\n",
    );
    for i in 0..16 {
        text += &format!("MOV.i32 r{i}, 0x0\n");
    }
    for half in 0..4 {
        let base = 16 + 8 * half;
        for part in 0..2 {
            let r = base + 4 * part;
            text += &format!(
                "LOAD.i128.unsigned.slot0 @r{}:r{}:r{}:r{}, r58, offset:{}\n",
                r,
                r + 1,
                r + 2,
                r + 3,
                64 * (2 * half + part)
            );
        }
    }
    text += "NOP.wait0\n";
    // The loop: the operands stay, the sums go on.
    for row in 0..4 {
        for column in 0..4 {
            let sum = 4 * row + column;
            let first = if column % 2 == 0 {
                "0x0".to_string()
            } else {
                "r48".to_string()
            };
            for k in 0..8 {
                let (a, b) = (16 + 8 * row + k % 8, 16 + 8 * column + (k + 3) % 8);
                let accumulator = if k == 0 && column % 2 == 0 {
                    first.clone()
                } else {
                    "r48".to_string()
                };
                text += &format!("IDPADD.v4s8 r48, r{a}, r{b}, {accumulator}\n");
            }
            text += &format!("S32_TO_F32 r49, r48\nFMA.f32 r{sum}, r49^, u2, r{sum}\n");
        }
    }
    text += "IADD_IMM.i32 r60, r60^, #0x1\nICMP_OR.u32.lt.m1 r61, r60, u3, 0x0\n";
    let distance = 4 * 4 * 10 + 3;
    text += &format!("BRANCHZ.reconverge r61^.h0, offset:-{distance}\n");
    text += "STORE.i32.slot0.end @r0, r58, offset:0\n";
    text
}

/// Times that the tile's loop runs per warp.
const STEPS: u32 = 64;
const WORKGROUPS: u32 = 64;

fn shader(criterion: &mut Criterion) {
    let mut memory = Flat(vec![0x5a; SIZE]);
    let mut put = |va: u64, words: &[u32]| {
        for (i, word) in words.iter().enumerate() {
            let at = va as usize + 4 * i;
            memory.0[at..at + 4].copy_from_slice(&word.to_le_bytes());
        }
    };
    let code = match assemble_program(&kernel()) {
        Ok(code) => code,
        Err(error) => panic!("the benchmark's kernel does not assemble: {error}"),
    };
    let words: Vec<u32> = code
        .iter()
        .flat_map(|&word| [word as u32, (word >> 32) as u32])
        .collect();
    put(CODE, &words);
    put(SPD, &[0x18, 0x7f80, CODE as u32, 0, 0, 0, 0, 0]);
    put(TSD, &[0, 31, 0, 0, 0, 0, 0, 0]);
    put(FAU, &[DATA as u32, 0, 0x3f80_0000, STEPS]);
    let job = ComputeJob {
        fau: FAU | 2 << 56,
        spd: SPD,
        tsd: TSD,
        workgroup_size: 63,
        size: [WORKGROUPS, 1, 1],
        task_increment: 4,
        ..ComputeJob::default()
    };
    let cores = |threads| ShaderCores {
        core_ids: vec![0, 2, 16, 18],
        threads,
        seed: 0,
        instruction_limit: u64::MAX,
    };
    let usage = match cores(1).run(&job, &&memory) {
        Ok(usage) => usage.total(),
        Err(fault) => panic!("{fault}"),
    };
    // Four products per lane and instruction.
    let macs = usage.dot * 4 * WARP_LANES as u64;
    for threads in [1, 2] {
        let mut group = criterion.benchmark_group(format!("idpadd/{threads} threads"));
        group
            .measurement_time(Duration::from_secs(3))
            .sample_size(10);
        for (name, elements) in [("MAC", macs), ("warp instructions", usage.instructions)] {
            group.throughput(Throughput::Elements(elements));
            group.bench_function(name, |bencher| {
                bencher.iter(|| {
                    cores(threads)
                        .run(black_box(&job), &&memory)
                        .map(|usage| usage.cycles())
                        .ok()
                });
            });
        }
        group.finish();
    }
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    shader(&mut criterion);
    criterion.final_summary();
}
