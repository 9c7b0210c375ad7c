//! Small programs over flat memory: each operation against an independent scalar expectation, each undefined
//! behaviour against its fault.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use mali_isa::valhall::assemble_program;

use super::*;

const BASE: u64 = 0x1_0000;
const SPD: u64 = BASE;
const TSD: u64 = BASE + 0x40;
const FAU: u64 = BASE + 0x100;
const SRT: u64 = BASE + 0x400;
const TABLE: u64 = BASE + 0x500;
const CODE: u64 = BASE + 0x1000;
const DATA: u64 = BASE + 0x8000;
const OUT: u64 = BASE + 0x1_8000;
const LOCAL: u64 = BASE + 0x2_8000;
const SIZE: usize = 0x6_0000;

#[derive(Clone)]
struct Flat(Arc<Mutex<Vec<u8>>>);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("nothing at {0:#x}")]
struct Nothing(u64);

impl ShaderMemory for Flat {
    type Port = Flat;
    fn port(&self, _core: u32) -> Flat {
        self.clone()
    }
}

impl Flat {
    fn at(&self, va: u64, bytes: usize) -> Result<usize, Nothing> {
        let offset = va.checked_sub(BASE).ok_or(Nothing(va))? as usize;
        if offset + bytes > SIZE {
            Err(Nothing(va))
        } else {
            Ok(offset)
        }
    }
    fn words(&self, va: u64, words: &[u32]) {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let offset = self.at(va, bytes.len()).expect("in memory");
        self.0.lock().expect("lock")[offset..offset + bytes.len()].copy_from_slice(&bytes);
    }
    fn word(&self, va: u64) -> u32 {
        u32::from_le_bytes(self.clone().load(va).expect("in memory"))
    }
}

impl MemoryPort for Flat {
    type Error = Nothing;
    fn load<const N: usize>(&mut self, va: u64) -> Result<[u8; N], Nothing> {
        let offset = self.at(va, N)?;
        let memory = self.0.lock().expect("lock");
        Ok(std::array::from_fn(|i| memory[offset + i]))
    }
    fn store<const N: usize>(&mut self, va: u64, bytes: [u8; N]) -> Result<(), Nothing> {
        let offset = self.at(va, N)?;
        self.0.lock().expect("lock")[offset..offset + N].copy_from_slice(&bytes);
        Ok(())
    }
    fn atomic32(&mut self, va: u64, f: &mut dyn FnMut(u32) -> u32) -> Result<u32, Nothing> {
        let offset = self.at(va, 4)?;
        let mut memory = self.0.lock().expect("lock");
        let old = u32::from_le_bytes(std::array::from_fn(|i| memory[offset + i]));
        memory[offset..offset + 4].copy_from_slice(&f(old).to_le_bytes());
        Ok(old)
    }
    fn atomic64(&mut self, va: u64, f: &mut dyn FnMut(u64) -> u64) -> Result<u64, Nothing> {
        let offset = self.at(va, 8)?;
        let mut memory = self.0.lock().expect("lock");
        let old = u64::from_le_bytes(std::array::from_fn(|i| memory[offset + i]));
        memory[offset..offset + 8].copy_from_slice(&f(old).to_le_bytes());
        Ok(old)
    }
    fn fetch(&mut self, va: u64) -> Result<u64, Nothing> {
        self.load(va).map(u64::from_le_bytes)
    }
}

/// A job in memory: 64 registers, all preloads, uniforms u0:u1 = data, u2:u3 = out, one buffer of 64 bytes at data.
struct Bench {
    memory: Flat,
    job: ComputeJob,
    cores: ShaderCores,
}

const PRELOAD_ALL: u32 = 0x7f80;

impl Bench {
    fn new(program: &str) -> Bench {
        let memory = Flat(Arc::new(Mutex::new(vec![0; SIZE])));
        let bench = Bench {
            memory,
            job: ComputeJob {
                srt: SRT | 1,
                fau: FAU | 4 << 56,
                spd: SPD,
                tsd: TSD,
                workgroup_size: 15,
                size: [1, 1, 1],
                task_increment: 1,
                ..ComputeJob::default()
            },
            cores: ShaderCores {
                core_ids: vec![0, 2, 16, 18],
                threads: 1,
                seed: 0,
                instruction_limit: 1 << 20,
            },
        };
        let code = assemble_program(program).unwrap_or_else(|error| panic!("{error}: {program}"));
        let words: Vec<u32> = code
            .iter()
            .flat_map(|&word| [word as u32, (word >> 32) as u32])
            .collect();
        bench.memory.words(CODE, &words);
        bench.spd(0, PRELOAD_ALL);
        bench.memory.words(TSD, &[0, 31, 0, 0, 0, 0, 0, 0]);
        bench
            .memory
            .words(FAU, &[DATA as u32, 0, OUT as u32, 0, 7, 8, 9, 10]);
        bench.memory.words(SRT, &[TABLE as u32, 1 << 24, 64, 0]);
        bench
            .memory
            .words(TABLE, &[0x19, 64, DATA as u32, 0, 0, 0, 0, 0]);
        bench
    }

    fn spd(&self, registers: u32, preload: u32) {
        self.memory.words(
            SPD,
            &[0x18 | registers << 30, preload, CODE as u32, 0, 0, 0, 0, 0],
        );
    }

    fn run(&self) -> Result<Usage, Box<ShaderFault<Nothing>>> {
        self.cores.run(&self.job, &self.memory)
    }

    fn kind(&self) -> FaultKind<Nothing> {
        self.run().expect_err("a fault").kind
    }
}

fn kind(program: &str) -> FaultKind<Nothing> {
    Bench::new(program).kind()
}

/// Runs `body` on every row of four input words (r0 to r3); the results are r8 and r9.
fn compute(body: &str, rows: &[[u32; 4]], seed: u64) -> Vec<[u32; 2]> {
    let program = format!(
        "LSHIFT_OR.i32 r4, r60, 0x7060504.b00, 0x0\n\
         IADD.u32 r4, r4^, u0\n\
         MOV.i32 r5, u1\n\
         LOAD.i128.unsigned.slot0.wait0 @r0:r1:r2:r3, r4^, offset:0\n\
         MOV.i32 r8, 0xFFFFFFFF\n\
         MOV.i32 r9, 0xFFFFFFFF\n\
         {body}\n\
         LSHIFT_OR.i32 r6, r60^, 0x3020100.b33, 0x0\n\
         IADD.u32 r6, r6^, u2\n\
         MOV.i32 r7, u3\n\
         STORE.i64.slot0.end @r8:r9, r6^, offset:0\n"
    );
    let mut bench = Bench::new(&program);
    bench.cores.seed = seed;
    bench.job.size[0] = rows.len().div_ceil(16) as u32;
    for (i, row) in rows.iter().enumerate() {
        bench.memory.words(DATA + 16 * i as u64, row);
    }
    bench.run().unwrap_or_else(|fault| panic!("{fault}"));
    (0..rows.len() as u64)
        .map(|i| {
            [
                bench.memory.word(OUT + 8 * i),
                bench.memory.word(OUT + 8 * i + 4),
            ]
        })
        .collect()
}

/// Input rows: edge values against each other, then noise.
fn rows() -> Vec<[u32; 4]> {
    let edges = [
        0,
        1,
        2,
        0x7f,
        0x80,
        0xff,
        0x7fff,
        0x8000,
        0xffff,
        0x1_0000,
        0x7fff_ffff,
        0x8000_0000,
        0xffff_ffff,
        0x3f80_0000,
        0xbf80_0000,
        0x7f80_0000,
        0xff80_0000,
        0x7fc0_0000,
        0x0000_0001,
        0x807f_ffff,
        0x3c00_bc00,
        0x7c00_fc00,
        0x7e00_0001,
        0x4049_0fdb,
    ];
    let mut rows = Vec::new();
    for (i, &a) in edges.iter().enumerate() {
        for (j, &b) in edges.iter().enumerate() {
            rows.push([
                a,
                b,
                edges[(i * 7 + j) % edges.len()],
                edges[(i + j * 5) % edges.len()],
            ]);
        }
    }
    let mut x = 0x1234_5678u32;
    while rows.len() < 1024 {
        rows.push(std::array::from_fn(|_| {
            x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            x ^ (x >> 15)
        }));
    }
    rows
}

fn same(got: u32, want: u32, float: bool) -> bool {
    got == want || (float && f32::from_bits(got).is_nan() && f32::from_bits(want).is_nan())
}

/// Checks the low result word of `text` (which reads r0 to r3 and writes r8) against `want` of each row.
fn check(text: &str, float: bool, want: impl Fn(u32, u32, u32, u32) -> u32) {
    let rows = rows();
    for (row, got) in rows.iter().zip(compute(text, &rows, 0)) {
        let [a, b, c, d] = *row;
        let want = want(a, b, c, d);
        assert!(
            same(got[0], want, float),
            "{text}: {row:x?} gives {:x}, not {want:x}",
            got[0]
        );
    }
}

fn each_half(a: u32, b: u32, f: impl Fn(u16, u16) -> u16) -> u32 {
    u32::from(f(a as u16, b as u16)) | u32::from(f((a >> 16) as u16, (b >> 16) as u16)) << 16
}

fn each_byte(a: u32, b: u32, f: impl Fn(u8, u8) -> u8) -> u32 {
    let (a, b) = (a.to_le_bytes(), b.to_le_bytes());
    u32::from_le_bytes(std::array::from_fn(|i| f(a[i], b[i])))
}

#[test]
fn integer_arithmetic() {
    check("IADD.u32 r8, r0, r1", false, |a, b, _, _| a.wrapping_add(b));
    check("IADD.s32.saturate r8, r0, r1", false, |a, b, _, _| {
        (a as i32).saturating_add(b as i32) as u32
    });
    check("IADD.u32.saturate r8, r0, r1", false, |a, b, _, _| {
        a.saturating_add(b)
    });
    check("ISUB.u32.saturate r8, r0, r1", false, |a, b, _, _| {
        a.saturating_sub(b)
    });
    check("ISUB.s32 r8, r0, r1", false, |a, b, _, _| a.wrapping_sub(b));
    check("IADD.s32 r8, r0.b1, r1.h1", false, |a, b, _, _| {
        i32::from((a >> 8) as i8).wrapping_add(i32::from((b >> 16) as i16)) as u32
    });
    check("IADD.u32 r8, r0.b3, r1.h0", false, |a, b, _, _| {
        (a >> 24) + (b & 0xffff)
    });
    check("IADD.v2s16.saturate r8, r0, r1", false, |a, b, _, _| {
        each_half(a, b, |a, b| (a as i16).saturating_add(b as i16) as u16)
    });
    check("IADD.v2u16 r8, r0.h10, r1", false, |a, b, _, _| {
        each_half(a.rotate_left(16), b, u16::wrapping_add)
    });
    check("ISUB.v4s8.saturate r8, r0, r1", false, |a, b, _, _| {
        each_byte(a, b, |a, b| (a as i8).saturating_sub(b as i8) as u8)
    });
    check("IMUL.i32 r8, r0, r1", false, |a, b, _, _| a.wrapping_mul(b));
    check("IMUL.s32.saturate r8, r0, r1", false, |a, b, _, _| {
        (a as i32).saturating_mul(b as i32) as u32
    });
    check("IMUL.v4i8 r8, r0, r1", false, |a, b, _, _| {
        each_byte(a, b, u8::wrapping_mul)
    });
    check("HADD.s32 r8, r0, r1", false, |a, b, _, _| {
        ((i64::from(a as i32) + i64::from(b as i32)) >> 1) as u32
    });
    check("HADD.u32.rhadd r8, r0, r1", false, |a, b, _, _| {
        ((u64::from(a) + u64::from(b) + 1) >> 1) as u32
    });
    check("IADD_IMM.i32 r8, r0, #0xFFFFFFFE", false, |a, _, _, _| {
        a.wrapping_sub(2)
    });
    check("IADD_IMM.v2i16 r8, r0, #0x10002", false, |a, _, _, _| {
        each_half(a, 0x1_0002, u16::wrapping_add)
    });
    check("IABS.s32 r8, r0", false, |a, _, _, _| {
        (a as i32).wrapping_abs() as u32
    });
    check("CLZ.u32 r8, r0", false, |a, _, _, _| a.leading_zeros());
    check("POPCOUNT.i32 r8, r0", false, |a, _, _, _| a.count_ones());
    check("BITREV.i32 r8, r0", false, |a, _, _, _| a.reverse_bits());
}

#[test]
fn dot_products() {
    let dot = |a: u32, b: u32| -> i64 {
        a.to_le_bytes()
            .iter()
            .zip(b.to_le_bytes())
            .map(|(&a, b)| i64::from(a as i8) * i64::from(b as i8))
            .sum()
    };
    let udot = |a: u32, b: u32| -> u64 {
        a.to_le_bytes()
            .iter()
            .zip(b.to_le_bytes())
            .map(|(&a, b)| u64::from(a) * u64::from(b))
            .sum()
    };
    check("IDPADD.v4s8 r8, r0, r1, r2", false, |a, b, c, _| {
        c.wrapping_add(dot(a, b) as u32)
    });
    check(
        "IDPADD.v4s8.saturate r8, r0, r1, r2",
        false,
        |a, b, c, _| {
            (dot(a, b) + i64::from(c as i32)).clamp(i32::MIN.into(), i32::MAX.into()) as u32
        },
    );
    check("IDPADD.v4u8 r8, r0, r1, r2", false, |a, b, c, _| {
        c.wrapping_add(udot(a, b) as u32)
    });
}

#[test]
fn shifts_logic_and_selection() {
    check("LSHIFT_AND.i32 r8, r0, r1.b00, r2", false, |a, b, c, _| {
        (a << (b & 31)) & c
    });
    check(
        "RSHIFT_OR.i32 r8, r0, r1.b11, r2.not",
        false,
        |a, b, c, _| (a >> ((b >> 8) & 31)) | !c,
    );
    check("ARSHIFT_XOR.i32 r8, r0, r1.b00, r2", false, |a, b, c, _| {
        ((a as i32) >> (b & 31)) as u32 ^ c
    });
    check("LROT_OR.i32 r8, r0, r1.b00, r2", false, |a, b, c, _| {
        a.rotate_left(b & 31) | c
    });
    check(
        "LSHIFT_OR.i32 r8, r0.h1, r1.b00, 0x0",
        false,
        |a, b, _, _| (a >> 16) << (b & 31),
    );
    check("MUX.i32.bit r8, r0, r1, r2", false, |a, b, c, _| {
        (a & c) | (b & !c)
    });
    check(
        "MUX.i32 r8, r0, r1, r2",
        false,
        |a, b, c, _| if c == 0 { a } else { b },
    );
    check("MUX.i32.neg r8, r0, r1, r2", false, |a, b, c, _| {
        if (c as i32) < 0 { a } else { b }
    });
    check("CSEL.u32.lt r8, r0, r1, r2, r3", false, |a, b, c, d| {
        if a < b { c } else { d }
    });
    check("CSEL.s32.ge r8, r0, r1, r2, r3", false, |a, b, c, d| {
        if a as i32 >= b as i32 { c } else { d }
    });
    check("CSEL.f32.gt r8, r0, r1, r2, r3", false, |a, b, c, d| {
        if f32::from_bits(a) > f32::from_bits(b) {
            c
        } else {
            d
        }
    });
    check("MKVEC.v2i16 r8, r0.h1, r1.h0", false, |a, b, _, _| {
        a >> 16 | b << 16
    });
    check("MKVEC.v2i8 r8, r0.b2, r1.b0, r2", false, |a, b, c, _| {
        (a >> 16) & 0xff | (b & 0xff) << 8 | c << 16
    });
}

#[test]
fn comparisons() {
    let m1 = |x: bool| if x { u32::MAX } else { 0 };
    check("ICMP_OR.u32.lt.m1 r8, r0, r1, 0x0", false, |a, b, _, _| {
        m1(a < b)
    });
    check("ICMP_OR.s32.le.i1 r8, r0, r1, r2", false, |a, b, c, _| {
        u32::from(a as i32 <= b as i32 || c != 0)
    });
    check("ICMP_AND.u32.ne.f1 r8, r0, r1, r2", false, |a, b, c, _| {
        if a != b && c != 0 { 0x3f80_0000 } else { 0 }
    });
    check(
        "ICMP_OR.v2s16.gt.m1 r8, r0, r1, 0x0",
        false,
        |a, b, _, _| each_half(a, b, |a, b| if a as i16 > b as i16 { 0xffff } else { 0 }),
    );
    check("ICMP_OR.v4u8.ge.i1 r8, r0, r1, 0x0", false, |a, b, _, _| {
        each_byte(a, b, |a, b| u8::from(a >= b))
    });
    check("FCMP_OR.f32.ne.m1 r8, r0, r1, 0x0", false, |a, b, _, _| {
        m1(f32::from_bits(a) != f32::from_bits(b))
    });
    check(
        "FCMP_OR.f32.gtlt.m1 r8, r0, r1, 0x0",
        false,
        |a, b, _, _| {
            m1(f32::from_bits(a)
                .partial_cmp(&f32::from_bits(b))
                .is_some_and(|order| order.is_ne()))
        },
    );
    check(
        "FCMP_AND.f32.lt.i1 r8, r0.abs, r1.neg, r2",
        false,
        |a, b, c, _| u32::from(f32::from_bits(a).abs() < -f32::from_bits(b) && c != 0),
    );
}

#[test]
fn float_arithmetic_and_conversions() {
    use half::f16;
    let f = f32::from_bits;
    check("FADD.f32 r8, r0, r1", true, |a, b, _, _| {
        (f(a) + f(b)).to_bits()
    });
    check("FADD.f32 r8, r0.h1, r1.neg", true, |a, b, _, _| {
        (f16::from_bits((a >> 16) as u16).to_f32() - f(b)).to_bits()
    });
    check("FMA.f32 r8, r0, r1, r2.abs", true, |a, b, c, _| {
        f(a).mul_add(f(b), f(c).abs()).to_bits()
    });
    check("FMA.f32.clamp_0_1 r8, r0, r1, r2", true, |a, b, c, _| {
        let x = f(a).mul_add(f(b), f(c));
        if x > 1.0 {
            1f32.to_bits()
        } else if x > 0.0 {
            x.to_bits()
        } else {
            0
        }
    });
    check("FMIN.f32 r8, r0, r1", true, |a, b, _, _| {
        let (x, y) = (f(a), f(b));
        // The operand that is a number wins; `f32::min` would not on every host where the NaN is a signalling one.
        if x == 0.0 && y == 0.0 {
            a | b
        } else if x.is_nan() || y < x {
            b
        } else {
            a
        }
    });
    check("S32_TO_F32 r8, r0", false, |a, _, _, _| {
        (a as i32 as f32).to_bits()
    });
    check("U32_TO_F32 r8, r0", false, |a, _, _, _| {
        (a as f32).to_bits()
    });
    check("F32_TO_S32 r8, r0", false, |a, _, _, _| {
        f64::from(f(a)).round_ties_even() as i32 as u32
    });
    check("F32_TO_U32.rtz r8, r0", false, |a, _, _, _| f(a) as u32);
    check("F16_TO_F32 r8, r0.h1", true, |a, _, _, _| {
        f16::from_bits((a >> 16) as u16).to_f32().to_bits()
    });
    check("U16_TO_U32 r8, r0.h1", false, |a, _, _, _| a >> 16);
    check("S8_TO_S32 r8, r0.b3", false, |a, _, _, _| {
        ((a as i32) >> 24) as u32
    });
    check("FROUND.f32 r8, r0", true, |a, _, _, _| {
        f(a).round_ties_even().to_bits()
    });
    // Reciprocals take subnormals as zeros, and FRCP gives none.
    let flushed = |x: f32| {
        if x.is_subnormal() {
            0f32.copysign(x)
        } else {
            x
        }
    };
    check("FRCP.f32 r8, r0", true, |a, _, _, _| {
        flushed(1.0 / flushed(f(a))).to_bits()
    });
    check("FRSQ.f32 r8, r0", true, |a, _, _, _| {
        ((1.0 / f64::from(flushed(f(a))).sqrt()) as f32).to_bits()
    });
    check("FADD_IMM.f32 r8, r0, #0x3F800000", true, |a, _, _, _| {
        (f(a) + 1.0).to_bits()
    });
    check("FADD.v2f16 r8, r0, r1.h00", true, |a, b, _, _| {
        let sum = |x: u16, y: u16| {
            let sum = f16::from_f32(f16::from_bits(x).to_f32() + f16::from_bits(y).to_f32());
            if sum.is_nan() { 0x7e00 } else { sum.to_bits() }
        };
        let clean = |x: u16| {
            if f16::from_bits(x).is_nan() {
                0x7e00
            } else {
                x
            }
        };
        u32::from(clean(sum(a as u16, b as u16)))
            | u32::from(clean(sum((a >> 16) as u16, b as u16))) << 16
    });
    // A half destination converts and leaves the other half.
    check("FADD.f32 r8.h0, r0, r1", false, |a, b, _, _| {
        let sum = f(a) + f(b);
        let half = if sum.is_nan() {
            0x7e00
        } else {
            f16::from_f32(sum).to_bits()
        };
        0xffff_0000 | u32::from(half)
    });
}

#[test]
fn sixty_four_bits() {
    let rows = rows();
    let wide = |row: &[u32; 4]| {
        (
            u64::from(row[0]) | u64::from(row[1]) << 32,
            u64::from(row[2]) | u64::from(row[3]) << 32,
        )
    };
    type Case = (&'static str, fn(u64, u64) -> u64);
    let cases: [Case; 4] = [
        ("IADD.u64 r8, r0, r2", |a, b| a.wrapping_add(b)),
        ("ISUB.s64 r8, r0, r2", |a, b| a.wrapping_sub(b)),
        ("SHADDX.u64 r8, r0, r2.w0, shift:0x3", |a, b| {
            a.wrapping_add((b & 0xffff_ffff) << 3)
        }),
        ("SHADDX.s64 r8, r0, r2.w0, shift:0x2", |a, b| {
            a.wrapping_add((b as u32 as i32 as i64 as u64) << 2)
        }),
    ];
    for (text, want) in cases {
        for (row, got) in rows.iter().zip(compute(text, &rows, 0)) {
            let (a, b) = wide(row);
            assert_eq!(
                u64::from(got[0]) | u64::from(got[1]) << 32,
                want(a, b),
                "{text}: {row:x?}"
            );
        }
    }
}

#[test]
fn exponential_and_logarithm_sequences() {
    // 2^x as Mesa computes it: scale to 8.24 fixed point, then FEXP.
    let exp = "FMA_RSCALE.f32 r4, r0, 0x3F800000, 0x0.neg, r1\n\
               F32_TO_S32 r5, r4\n\
               FEXP.f32 r8, r5, r4";
    let values = [
        0.0f32,
        1.0,
        -1.0,
        0.5,
        3.75,
        -20.25,
        100.5,
        f32::NEG_INFINITY,
        f32::INFINITY,
    ];
    let rows: Vec<[u32; 4]> = values.iter().map(|x| [x.to_bits(), 24, 0, 0]).collect();
    for (x, got) in values.iter().zip(compute(exp, &rows, 0)) {
        let (got, want) = (f32::from_bits(got[0]), x.exp2());
        assert!(
            got == want || (got - want).abs() <= 1e-6 * want,
            "2^{x} = {got}"
        );
    }
    let log = "FREXPE.f32.log r4, r0\n\
               S32_TO_F32 r4, r4^\n\
               FADD_LSCALE.f32 r5, 0x3F800000.neg, r0\n\
               FLOGD.f32 r6, r0\n\
               FMA.f32 r8, r6, r5, r4";
    let values = [
        1.0f32,
        2.0,
        0.7,
        1.49,
        1.51,
        1e-30,
        3e38,
        0.0,
        f32::INFINITY,
        -1.0,
    ];
    let rows: Vec<[u32; 4]> = values.iter().map(|x| [x.to_bits(), 0, 0, 0]).collect();
    for (x, got) in values.iter().zip(compute(log, &rows, 0)) {
        let (got, want) = (f32::from_bits(got[0]), x.log2());
        let near = (got - want).abs() <= 2e-6 * want.abs().max(0.1);
        assert!(
            got == want || near || (got.is_nan() && want.is_nan()),
            "log2 {x} = {got}, not {want}"
        );
    }
}

#[test]
fn approximations_move_with_the_seed_only() {
    let rows: Vec<[u32; 4]> = (1..200)
        .map(|i| [(i as f32 * 0.7).to_bits(), 0, 0, 0])
        .collect();
    let exact = compute("FRCP.f32 r8, r0", &rows, 0);
    let moved = compute("FRCP.f32 r8, r0", &rows, 5);
    assert_eq!(moved, compute("FRCP.f32 r8, r0", &rows, 5));
    assert_ne!(exact, moved);
    for (a, b) in exact.iter().zip(&moved) {
        assert!((i64::from(a[0]) - i64::from(b[0])).abs() <= 1);
    }
}

const STORE_R8: &str = "LSHIFT_OR.i32 r6, r60, 0x3020100.b22, 0x0\n\
                        IADD.u32 r6, r6^, u2\n\
                        MOV.i32 r7, u3\n\
                        STORE.i32.slot0.end @r8, r6^, offset:0\n";

#[test]
fn lanes_loop_as_often_as_they_need_and_meet_again() {
    // r8 counts down the lane's local id in a loop, then every lane takes the mask of active lanes.
    let program = format!(
        "MOV.i32 r8, 0x0\n\
         U16_TO_U32.reconverge r1, r55.h0\n\
         ICMP_OR.u32.eq.m1 r2, r1, 0x0, 0x0\n\
         BRANCHZ.reconverge r2^.h0, offset:3\n\
         IADD.u32 r8, r8^, 0x3020100.b2\n\
         IADD_IMM.i32 r1, r1^, #0xFFFFFFFF\n\
         BRANCHZ.eq.reconverge 0x0, offset:-5\n\
         WMASK r9, 0xFFFFFFFF\n\
         LSHIFT_OR.i32 r8, r8^, 0x13121110.b00, r9^\n{STORE_R8}"
    );
    let bench = Bench::new(&program);
    let usage = bench.run().unwrap_or_else(|fault| panic!("{fault}"));
    for lane in 0..16 {
        assert_eq!(
            bench.memory.word(OUT + 4 * lane),
            (2 * lane as u32) << 16 | 0xffff,
            "lane {lane}"
        );
    }
    assert_eq!(usage.warps, 1);
    assert!(usage.total().instructions > 16 * 4);
}

#[test]
fn lanes_read_each_other() {
    let program = format!(
        "IADD.u32 r0, r60, r60\n\
         CLPER.i32.xor r8, r0, 0x3020100.b11\n{STORE_R8}"
    );
    let bench = Bench::new(&program);
    bench.run().unwrap_or_else(|fault| panic!("{fault}"));
    for lane in 0..16u64 {
        assert_eq!(u64::from(bench.memory.word(OUT + 4 * lane)), 2 * (lane ^ 1));
    }
}

#[test]
fn a_barrier_makes_workgroup_storage_common() {
    // Each thread stores its id, then reads the one of the thread 32 places on.
    let program = format!(
        "U16_TO_U32 r0, r55.h0\n\
         LSHIFT_OR.i32 r2, r0, 0x3020100.b22, 0x0\n\
         IADD.u32 r2, workgroup_local_pointer.w0, r2^\n\
         MOV.i32 r3, workgroup_local_pointer.w1\n\
         STORE.i32.slot0.wait0 @r0, r2^, offset:0\n\
         BARRIER.slot7.wait\n\
         IADD_IMM.i32 r1, r0, #0x20\n\
         LSHIFT_AND.i32 r1, r1^, 0x0.b00, 0x7F\n\
         LSHIFT_OR.i32 r2, r1^, 0x3020100.b22, 0x0\n\
         IADD.u32 r2, workgroup_local_pointer.w0, r2^\n\
         MOV.i32 r3, workgroup_local_pointer.w1\n\
         LOAD.i32.unsigned.slot0.wait0 @r8, r2^, offset:0\n{STORE_R8}"
    )
    .replace("0x7F", "u4");
    let mut bench = Bench::new(&program);
    bench.memory.words(FAU + 16, &[0x3f]);
    bench.job.workgroup_size = 63;
    bench.job.size[0] = 2;
    assert_eq!(bench.kind(), FaultKind::NoWorkgroupLocalStorage);
    // One instance of 1 << 8 bytes.
    bench
        .memory
        .words(TSD, &[0, 9 << 8, 0, 0, LOCAL as u32, 0, 0, 0]);
    bench.run().unwrap_or_else(|fault| panic!("{fault}"));
    for thread in 0..128u64 {
        assert_eq!(
            u64::from(bench.memory.word(OUT + 4 * thread)),
            (thread % 64 + 32) % 64
        );
    }
}

#[test]
fn buffers_are_reached_through_their_handles() {
    let program = format!(
        "LSHIFT_OR.i32 r0, r60, 0x3020100.b22, 0x0\n\
         LD_PKA.i32.unsigned.slot0.wait0 @r8, r0^, 0x0\n{STORE_R8}"
    );
    let bench = Bench::new(&program);
    let numbers: Vec<u32> = (0..16).map(|i| i * 1001).collect();
    bench.memory.words(DATA, &numbers);
    let usage = bench.run().unwrap_or_else(|fault| panic!("{fault}"));
    for lane in 0..16u64 {
        assert_eq!(bench.memory.word(OUT + 4 * lane), lane as u32 * 1001);
    }
    assert_eq!((usage.total().ls, usage.total().ls_lines), (2, 2));
    let mut wide = Bench::new(&program);
    wide.job.workgroup_size = 31;
    assert_eq!(
        wide.kind(),
        FaultKind::BeyondBuffer {
            handle: 0,
            offset: 64,
            bytes: 4,
            size: 64
        }
    );
    let other = Bench::new("LD_PKA.i32.unsigned.slot0.wait0 @r8, 0x0, 0x1000000\nNOP.end");
    assert_eq!(
        other.kind(),
        FaultKind::NoSuchTable {
            handle: 0x100_0000,
            table: 1,
            count: 1
        }
    );
    let next = Bench::new(
        "LD_PKA.i32.unsigned.slot0.wait0 @r8, 0x0, 0x3020100.b1\nNOP.end"
            .replace(".b1", "")
            .as_str(),
    );
    assert!(matches!(
        next.kind(),
        FaultKind::NoSuchTable { .. } | FaultKind::BadResource { .. }
    ));
}

#[test]
fn atomics_return_what_was_there() {
    let program = format!(
        "MOV.i32 r2, u0\nMOV.i32 r3, u1\nMOV.i32 r0, 0x1000000\n\
         ATOM_RETURN.i32.slot0.wait0.aadd @r8, @r0, r2, offset:0x0\n\
         ATOM1_RETURN.i32.slot1.wait1.ainc @r9, r2^, offset:0x4\n{STORE_R8}"
    );
    let bench = Bench::new(&program);
    bench.run().unwrap_or_else(|fault| panic!("{fault}"));
    assert_eq!(bench.memory.word(DATA), 16 * 0x100_0000);
    assert_eq!(bench.memory.word(DATA + 4), 16);
    for lane in 0..16u64 {
        assert_eq!(bench.memory.word(OUT + 4 * lane), lane as u32 * 0x100_0000);
    }
}

#[test]
fn results_and_counts_do_not_depend_on_host_threads() {
    let program = format!("IMUL.i32 r8, r60, r57\n{STORE_R8}");
    let mut all = HashMap::new();
    for threads in [1, 2, 3, 8] {
        let mut bench = Bench::new(&program);
        bench.cores.threads = threads;
        bench.job.size = [40, 1, 1];
        bench.job.task_increment = 3;
        let usage = bench.run().unwrap_or_else(|fault| panic!("{fault}"));
        assert_eq!((usage.tasks, usage.workgroups), (14, 40));
        assert_eq!(
            usage
                .cores
                .iter()
                .map(|core| core.tasks)
                .collect::<Vec<_>>(),
            [4, 4, 3, 3]
        );
        let memory = bench.memory.0.lock().expect("lock").clone();
        all.insert(threads, (memory, usage));
    }
    assert!(all.values().all(|other| *other == all[&1]));
}

#[test]
fn identifiers_come_from_the_job() {
    let program = "MOV.i32 r8, r57\nMOV.i32 r9, r58\nMOV.i32 r10, r59\nMOV.i32 r11, r61\n\
                   IMUL.i32 r0, r62, 0x7060504.b0\nIADD.u32 r0, r0^, r61\n\
                   LSHIFT_OR.i32 r0, r0^, 0x7060504.b00, 0x0\n\
                   IADD.u32 r6, r0^, u2\nMOV.i32 r7, u3\n\
                   STORE.i128.slot0.end @r8:r9:r10:r11, r6^, offset:0";
    let mut bench = Bench::new(program);
    bench.job.workgroup_size = 1 << 10;
    bench.job.offset = [5, 0, 0];
    bench.job.size = [1, 2, 3];
    bench.job.task_axis = 1;
    let usage = bench.run().unwrap_or_else(|fault| panic!("{fault}"));
    assert_eq!(usage.tasks, 6);
    for z in 0..3u64 {
        for y in 0..4u64 {
            let at = OUT + 16 * (4 * z + y);
            let got = [0, 4, 8, 12].map(|n| bench.memory.word(at + n));
            assert_eq!(got, [5, y as u32 / 2, z as u32, y as u32]);
        }
    }
}

#[test]
fn undefined_registers_are_faults() {
    assert_eq!(
        kind("MOV.i32 r8, r0\nNOP.end"),
        FaultKind::UndefinedRegister { register: 0 }
    );
    assert_eq!(
        kind("MOV.i32 r0, 0x0\nMOV.i32 r1, r0^\nMOV.i32 r2, r0\nNOP.end"),
        FaultKind::DiscardedRegister { register: 0 }
    );
    // Only the half that was written may be read.
    let half = "FADD.f32 r0.h0, 0x3F800000, 0x0\n";
    assert_eq!(
        kind(&format!("{half}U16_TO_U32 r1, r0.h1\nNOP.end")),
        FaultKind::UndefinedRegister { register: 0 }
    );
    assert!(
        Bench::new(&format!("{half}U16_TO_U32 r1, r0.h0\nNOP.end"))
            .run()
            .is_ok()
    );
    let load = "MOV.i32 r2, u0\nMOV.i32 r3, u1\nLOAD.i32.unsigned.slot1 @r0, r2, offset:0\n";
    assert_eq!(
        kind(&format!("{load}IADD.u32 r1, r0, r0\nNOP.end")),
        FaultKind::PendingRegister {
            register: 0,
            slot: 1
        }
    );
    assert_eq!(
        kind(&format!("{load}NOP.wait0\nIADD.u32 r1, r0, r0\nNOP.end")),
        FaultKind::PendingRegister {
            register: 0,
            slot: 1
        }
    );
    assert!(
        Bench::new(&format!("{load}NOP.wait1\nIADD.u32 r1, r0, r0\nNOP.end"))
            .run()
            .is_ok()
    );
    assert_eq!(
        kind(&format!("{load}MOV.i32 r0, 0x0\nNOP.end")),
        FaultKind::PendingOverwrite {
            register: 0,
            slot: 1
        }
    );
    // The data of a store was read when it issued, and a program may end with stores outstanding.
    let store =
        "MOV.i32 r2, u0\nMOV.i32 r3, u1\nMOV.i32 r0, 0x0\nSTORE.i32.slot1 @r0, r2, offset:0\n";
    assert!(
        Bench::new(&format!("{store}MOV.i32 r0, 0x0\nNOP.end"))
            .run()
            .is_ok()
    );
}

#[test]
fn the_compute_interface_is_held_to_the_letter() {
    let bench = Bench::new("MOV.i32 r0, r57\nNOP.end");
    bench.spd(0, PRELOAD_ALL & !(1 << 9));
    assert_eq!(bench.kind(), FaultKind::NotPreloaded { register: 57 });
    for (register, ok) in [(15, true), (16, false), (47, false), (48, true)] {
        let bench = Bench::new(&format!("MOV.i32 r{register}, 0x0\nNOP.end"));
        bench.spd(2, PRELOAD_ALL);
        match bench.run() {
            Ok(_) => assert!(ok),
            Err(fault) => assert_eq!(fault.kind, FaultKind::RegisterOutOfRange { register }),
        }
    }
    assert!(Bench::new("MOV.i32 r0, u7\nNOP.end").run().is_ok());
    assert_eq!(
        kind("MOV.i32 r0, u8\nNOP.end"),
        FaultKind::UniformOutOfRange { word: 8, count: 4 }
    );
    assert_eq!(
        kind("MOV.i32 r0, thread_local_pointer.w0\nNOP.end"),
        FaultKind::NoThreadLocalStorage
    );
    let with = |change: fn(&mut ComputeJob)| {
        let mut bench = Bench::new("NOP.end");
        change(&mut bench.job);
        bench.kind()
    };
    assert_eq!(
        with(|job| job.tsd = 0),
        FaultKind::MissingDescriptor {
            object: "local storage descriptor"
        }
    );
    assert!(matches!(
        with(|job| job.tsd += 32),
        FaultKind::MisalignedDescriptor { align: 64, .. }
    ));
    assert!(matches!(
        with(|job| job.spd += 16),
        FaultKind::MisalignedDescriptor { align: 32, .. }
    ));
    assert!(matches!(
        with(|job| job.task_increment = 0),
        FaultKind::InvalidJob { .. }
    ));
    assert!(matches!(
        with(|job| job.task_axis = 3),
        FaultKind::InvalidJob { .. }
    ));
    assert!(matches!(
        with(|job| job.workgroup_size = 31 | 63 << 10),
        FaultKind::InvalidJob { .. }
    ));
    assert!(matches!(
        with(|job| job.spd = TSD),
        FaultKind::InvalidDescriptor { .. }
    ));
    assert!(matches!(
        with(|job| job.fau = 0x10 | 1 << 56),
        FaultKind::Memory { va: 0x10, .. }
    ));
}

#[test]
fn memory_faults_carry_the_place() {
    let program = "MOV.i32 r2, u0\nMOV.i32 r3, 0x3020100\nLOAD.i32.unsigned.slot0.wait0 @r0, r2, offset:4\nNOP.end";
    let fault = Bench::new(program).run().expect_err("nothing is there");
    let va = 0x302_0100 << 32 | (DATA + 4);
    assert_eq!(
        fault.kind,
        FaultKind::Memory {
            va,
            error: Nothing(va)
        }
    );
    let at = fault.at.expect("a place");
    assert_eq!(
        (at.pc, at.core, at.warp, at.lane),
        (CODE + 16, 0, 0, Some(0))
    );
    assert!(at.text.starts_with("LOAD.i32"), "{}", at.text);
    for (width, registers, offset, align) in [
        ("i16", "@r0", 1, 2),
        ("i32", "@r0", 2, 4),
        ("i64", "@r0:r1", 4, 8),
        ("i128", "@r4:r5:r6:r7", 8, 16),
    ] {
        let program = format!(
            "MOV.i32 r2, u0\nMOV.i32 r3, u1\nLOAD.{width}.unsigned.slot0.wait0 {registers}, r2, offset:{offset}\nNOP.end"
        );
        assert!(
            matches!(kind(&program), FaultKind::MisalignedAccess { align: a, .. } if a == align),
            "{width}"
        );
    }
}

#[test]
fn code_that_is_none_is_a_fault_only_where_it_is_reached() {
    let bench = Bench::new("NOP.end");
    bench.memory.words(CODE, &[0xffff_ffff, 0xffff_ffff]);
    assert!(matches!(bench.kind(), FaultKind::InvalidInstruction { .. }));
    // The branch is always taken.
    let bench = Bench::new("BRANCHZ.eq 0x0, offset:1\nNOP\nNOP.end");
    bench.memory.words(CODE + 8, &[0xffff_ffff, 0xffff_ffff]);
    assert!(bench.run().is_ok());
    assert!(matches!(
        kind("FPCLASS.f32 r0, r60\nNOP.end"),
        FaultKind::NotModelled { .. }
    ));
}

#[test]
fn barriers_and_branches_in_divergent_code_are_faults() {
    let odd = "LSHIFT_AND.i32 r0, r60, 0x0.b00, 0x1\n".replace("0x1\n", "u4\n");
    assert_eq!(
        kind(&format!("{odd}BRANCHZ.eq r0.h0, offset:1\nNOP\nNOP.end")),
        FaultKind::UnmarkedDivergence
    );
    assert_eq!(
        kind(&format!(
            "{odd}BRANCHZ.eq.reconverge r0.h0, offset:1\nBARRIER.slot7.wait\nNOP.end"
        )),
        FaultKind::DivergentBarrier
    );
    assert_eq!(kind("BARRIER.slot7\nNOP.end"), FaultKind::UnwaitedBarrier);
    let store =
        "MOV.i32 r2, u0\nMOV.i32 r3, u1\nMOV.i32 r0, 0x0\nSTORE.i32.slot1 @r0, r2, offset:0\n";
    assert_eq!(
        kind(&format!("{store}BARRIER.slot7.wait\nNOP.end")),
        FaultKind::BarrierWithPending { slots: 2 }
    );
    // Only the first warp gets to the barrier.
    let mut bench = Bench::new(
        "ICMP_OR.u32.lt.m1 r0, r60, 0x13121110.b0, 0x0\nBRANCHZ.eq.reconverge r0^.h0, offset:1\n\
         BARRIER.slot7.wait\nNOP.end",
    );
    bench.job.workgroup_size = 31;
    assert_eq!(bench.kind(), FaultKind::LonelyBarrier);
}

#[test]
fn a_job_without_end_runs_away() {
    let mut bench = Bench::new("BRANCHZ.eq 0x0, offset:-1");
    bench.cores.instruction_limit = 1000;
    assert_eq!(bench.kind(), FaultKind::Runaway { limit: 1000 });
    // More workgroups than 64 bits count.
    for axis in 0..3 {
        let mut bench = Bench::new("NOP.end");
        bench.cores.instruction_limit = 1000;
        bench.job.size = [u32::MAX; 3];
        bench.job.task_axis = axis;
        assert_eq!(bench.kind(), FaultKind::Runaway { limit: 1000 });
        bench.job.size[2] = 0;
        let usage = bench.run().expect("nothing to run");
        assert_eq!((usage.tasks, usage.workgroups, usage.warps), (0, 0, 0));
    }
}

#[test]
fn of_several_faults_the_first_task_s_is_told() {
    let program = "ICMP_OR.u32.ge.m1 r0, r57, 0x7060504.b1, 0x0\nBRANCHZ.eq r0^.h0, offset:1\nMOV.i32 r1, r2\nNOP.end";
    for threads in [1, 2, 4] {
        let mut bench = Bench::new(program);
        bench.cores.threads = threads;
        bench.job.size[0] = 30;
        let fault = bench.run().expect_err("a fault");
        assert_eq!(fault.kind, FaultKind::UndefinedRegister { register: 2 });
        assert_eq!(fault.at.expect("a place").workgroup, [5, 0, 0]);
    }
}
