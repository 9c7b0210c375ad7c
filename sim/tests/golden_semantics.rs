//! Inputs and outputs of Valhall operations, worked out with exact arithmetic from Mesa's public descriptions by
//! somebody who did not see this simulator: every vector is executed on the shader cores, once with all sources in
//! registers and once with its first source in a uniform.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use mali_isa::desc::{
    Fau, LocalStorage, RegisterAllocation, ShaderProgram, WorkgroupSize, to_bytes,
};
use mali_isa::valhall::assemble_program;
use panthor_sim::shader::{ComputeJob, FaultKind, MemoryPort, ShaderCores, ShaderMemory};

const VECTORS: &str = include_str!("../../tests/golden/valhall/semantics.txt");

/// Vectors in the file, of which those of `CLPER` have a form of their own.
const COUNT: usize = 923;
const LANE_COUNT: usize = 34;

/// Vectors that the simulator answers differently on purpose: the line, the answer, and why.
const CONTESTED: &[(&str, &str, &str)] = &[];

/// Operations that the simulator stops at with their name, since no real shader at hand uses them, and the number of
/// their vectors.
const NOT_MODELLED: &[(&str, usize)] = &[
    ("FADD.f32.rtn", 4),
    ("FADD.f32.rtp", 4),
    ("FADD.f32.rtz", 4),
    ("FMA.f32.rtn", 1),
    ("FMA.f32.rtp", 1),
    ("FMA.f32.rtz", 1),
    ("FREXPE.f32.sqrt", 10),
    ("FREXPM.f32.sqrt", 10),
];

// ---------------------------------------------------------------- memory

/// Addresses of the test's own layout.
const BASE: u64 = 0x10_0000;
const SIZE: usize = 0x2_0000;
const SPD: u64 = BASE;
const TSD: u64 = BASE + 0x40;
const UNIFORMS: u64 = BASE + 0x80;
const CODE: u64 = BASE + 0x400;
const DATA: u64 = BASE + 0x1000;
/// Bytes of the data that belong to one thread: its sources, 8 bytes each, and its result.
const ROW: u64 = 64;
const RESULT: u64 = 48;

/// Memory without pages, caches or protection.
#[derive(Clone)]
struct Flat(Arc<Mutex<Vec<u8>>>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct OutOfRange(u64);

impl fmt::Display for OutOfRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x} is outside the test's memory", self.0)
    }
}

impl std::error::Error for OutOfRange {}

impl Flat {
    fn new() -> Flat {
        Flat(Arc::new(Mutex::new(vec![0; SIZE])))
    }

    fn with<const N: usize, T>(
        &self,
        va: u64,
        f: impl FnOnce(&mut [u8; N]) -> T,
    ) -> Result<T, OutOfRange> {
        let mut bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let start = va.checked_sub(BASE).ok_or(OutOfRange(va))? as usize;
        let place = bytes
            .get_mut(start..start + N)
            .and_then(|b| b.try_into().ok())
            .ok_or(OutOfRange(va))?;
        Ok(f(place))
    }

    fn write(&self, va: u64, bytes: &[u8]) {
        for (n, byte) in bytes.iter().enumerate() {
            self.with::<1, _>(va + n as u64, |b| b[0] = *byte)
                .expect("in range");
        }
    }

    fn read64(&self, va: u64) -> u64 {
        self.with::<8, _>(va, |b| u64::from_le_bytes(*b))
            .expect("in range")
    }
}

impl ShaderMemory for Flat {
    type Port = Flat;
    fn port(&self, _core: u32) -> Flat {
        self.clone()
    }
}

impl MemoryPort for Flat {
    type Error = OutOfRange;
    fn load<const N: usize>(&mut self, va: u64) -> Result<[u8; N], OutOfRange> {
        self.with(va, |b| *b)
    }
    fn store<const N: usize>(&mut self, va: u64, bytes: [u8; N]) -> Result<(), OutOfRange> {
        self.with(va, |b| *b = bytes)
    }
    fn atomic32(&mut self, va: u64, f: &mut dyn FnMut(u32) -> u32) -> Result<u32, OutOfRange> {
        self.with(va, |b| {
            let old = u32::from_le_bytes(*b);
            *b = f(old).to_le_bytes();
            old
        })
    }
    fn atomic64(&mut self, va: u64, f: &mut dyn FnMut(u64) -> u64) -> Result<u64, OutOfRange> {
        self.with(va, |b| {
            let old = u64::from_le_bytes(*b);
            *b = f(old).to_le_bytes();
            old
        })
    }
    fn fetch(&mut self, va: u64) -> Result<u64, OutOfRange> {
        self.with(va, |b| u64::from_le_bytes(*b))
    }
}

// ---------------------------------------------------------------- vectors

/// A source: its bits, their number, and what stands behind it.
#[derive(Clone, Debug)]
struct Source {
    bits: u64,
    wide: bool,
    suffix: &'static str,
}

/// What the result must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    Word(u32),
    Pair(u64),
    /// Any NaN of binary32.
    Nan,
    /// High and low half, each a number or any NaN of binary16.
    Halves([Option<u16>; 2]),
}

impl Wanted {
    fn parse(text: &str) -> Wanted {
        let hex = |t: &str| u64::from_str_radix(t, 16).unwrap_or_else(|_| panic!("{t}?"));
        if text == "nan" {
            return Wanted::Nan;
        }
        if let Some((high, low)) = text.split_once('|') {
            return Wanted::Halves([high, low].map(|t| (t != "nan").then(|| hex(t) as u16)));
        }
        match text.len() {
            8 => Wanted::Word(hex(text) as u32),
            16 => Wanted::Pair(hex(text)),
            _ => panic!("{text}?"),
        }
    }

    fn accepts(self, found: u64) -> bool {
        match self {
            Wanted::Word(word) => found as u32 == word,
            Wanted::Pair(pair) => found == pair,
            Wanted::Nan => f32::from_bits(found as u32).is_nan(),
            Wanted::Halves(halves) => {
                let found = [(found >> 16) as u16, found as u16];
                halves.iter().zip(found).all(|(want, half)| match want {
                    Some(want) => half == *want,
                    None => half & 0x7c00 == 0x7c00 && half & 0x03ff != 0,
                })
            }
        }
    }

    fn wide(self) -> bool {
        matches!(self, Wanted::Pair(_))
    }
}

/// One line of the file.
#[derive(Clone, Debug)]
struct Vector {
    line: &'static str,
    /// Mnemonic with modifiers.
    op: &'static str,
    sources: Vec<Source>,
    wanted: Wanted,
}

/// Lines with a result, without their remarks.
fn lines() -> Vec<&'static str> {
    let lines: Vec<_> = VECTORS
        .lines()
        .filter(|l| !l.starts_with(['#', '[']))
        .map(|l| l.split('#').next().unwrap_or(l).trim())
        .filter(|l| !l.is_empty())
        .collect();
    assert_eq!(lines.len(), COUNT);
    lines
}

fn vectors() -> Vec<Vector> {
    let vectors: Vec<_> = lines()
        .into_iter()
        .filter(|l| !l.starts_with("CLPER"))
        .map(|line| {
            let (call, result) = line.split_once(" -> ").expect("-> result");
            let mut parts = call.split(' ');
            let op = parts.next().expect("an operation");
            let sources = parts
                .map(|text| {
                    let (bits, suffix) = match text.find('.') {
                        Some(dot) => text.split_at(dot),
                        None => (text, ""),
                    };
                    Source {
                        bits: u64::from_str_radix(bits, 16).expect("hexadecimal"),
                        wide: bits.len() == 16,
                        suffix,
                    }
                })
                .collect();
            Vector {
                line,
                op,
                sources,
                wanted: Wanted::parse(result),
            }
        })
        .collect();
    assert_eq!(vectors.len(), COUNT - LANE_COUNT);
    vectors
}

// ---------------------------------------------------------------- running

/// Why a program did not run to its end.
#[derive(Debug, PartialEq, Eq)]
enum Stop {
    /// With the simulator's name of what it is.
    NotModelled(String),
    Other(String),
}

/// Runs a program with one workgroup of `threads` threads. Data and uniforms are in memory already.
fn run(memory: &Flat, threads: usize, text: &str) -> Result<(), Stop> {
    let words = assemble_program(text).map_err(|e| Stop::Other(format!("{e} in\n{text}")))?;
    let code: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    memory.write(CODE, &code);
    let program = ShaderProgram {
        // The global id, r60 to r62.
        preload: 7 << 12,
        ..ShaderProgram::compute(CODE, RegisterAllocation::PerThread64)
    };
    memory.write(SPD, &to_bytes(&program.pack().expect("valid")));
    memory.write(TSD, &to_bytes(&LocalStorage::none().pack().expect("valid")));
    let fau = Fau {
        pointer: UNIFORMS,
        count: 2,
    };
    let size = WorkgroupSize {
        x: threads as u16,
        y: 1,
        z: 1,
        allow_merging: false,
    };
    let job = ComputeJob {
        fau: fau.pack().expect("valid"),
        spd: SPD,
        tsd: TSD,
        workgroup_size: size.pack().expect("valid"),
        size: [1, 1, 1],
        task_increment: 1,
        ..ComputeJob::default()
    };
    let cores = ShaderCores {
        core_ids: vec![0],
        threads: 1,
        seed: 0,
        instruction_limit: 10_000,
    };
    match cores.run(&job, memory) {
        Ok(_) => Ok(()),
        Err(fault) => match fault.kind {
            FaultKind::NotModelled { what } => Err(Stop::NotModelled(what)),
            _ => Err(Stop::Other(format!("{fault}\n{text}"))),
        },
    }
}

/// Register that holds source `i`; its pair is even.
fn register(i: usize) -> usize {
    8 + 2 * i
}

/// Loads a thread's sources, executes, stores the result.
fn program(vector: &Vector, first_uniform: bool) -> String {
    let mut text = String::from("SHADDX.u64 r2, u0, r60.w0, shift:0x6\n");
    for i in 0..vector.sources.len() {
        let r = register(i);
        text += &format!(
            "LOAD.i64.unsigned.slot0.wait0 @r{r}:r{}, r2, offset:{}\n",
            r + 1,
            8 * i
        );
    }
    let sources: Vec<_> = vector
        .sources
        .iter()
        .enumerate()
        .map(|(i, source)| {
            let name = if first_uniform && i == 0 {
                "u2".to_owned()
            } else {
                format!("r{}", register(i))
            };
            format!("{name}{}", ordered(source.suffix))
        })
        .collect();
    text += &format!("{} r0, {}\n", vector.op, sources.join(", "));
    text += &if vector.wanted.wide() {
        format!("STORE.i64.slot0 @r0:r1, r2, offset:{RESULT}\n")
    } else {
        format!("STORE.i32.slot0 @r0, r2, offset:{RESULT}\n")
    };
    text + "NOP.end\n"
}

/// The assembler's order of modifiers: sign and magnitude before the lane.
fn ordered(suffix: &str) -> String {
    let mut parts: Vec<_> = suffix.split('.').filter(|p| !p.is_empty()).collect();
    parts.sort_by_key(|p| match *p {
        "neg" => 0,
        "abs" => 1,
        "not" => 2,
        _ => 3,
    });
    parts.iter().map(|p| format!(".{p}")).collect()
}

/// Runs vectors of one program, one a thread, and returns what each gave.
fn execute(batch: &[&Vector], first_uniform: bool) -> Result<Vec<u64>, Stop> {
    let memory = Flat::new();
    memory.write(UNIFORMS, &DATA.to_le_bytes());
    let first = batch[0].sources[0].bits;
    memory.write(UNIFORMS + 8, &first.to_le_bytes());
    for (thread, vector) in batch.iter().enumerate() {
        let row = DATA + ROW * thread as u64;
        for (i, source) in vector.sources.iter().enumerate() {
            // The registers behind 32-bit sources are loaded too, with what no operation may use.
            let bits = if source.wide || vector.wanted.wide() {
                source.bits
            } else {
                0xdead_beef << 32 | source.bits
            };
            memory.write(row + 8 * i as u64, &bits.to_le_bytes());
        }
    }
    run(&memory, batch.len(), &program(batch[0], first_uniform))?;
    let rows = (0..batch.len()).map(|t| DATA + ROW * t as u64);
    Ok(rows.map(|row| memory.read64(row + RESULT)).collect())
}

/// What came out of all runs.
#[derive(Default)]
struct Outcome {
    ran: usize,
    wrong: Vec<String>,
    not_modelled: BTreeMap<&'static str, usize>,
}

impl Outcome {
    fn note(&mut self, batch: &[&Vector], result: Result<Vec<u64>, Stop>) {
        let found = match result {
            Ok(found) => found,
            Err(Stop::NotModelled(what)) => {
                // `FADD.f32.rtp` as `FADD.f32.rtp` or `FADD.f32`.
                let name = what.split(' ').next().unwrap_or(&what);
                if !batch[0].op.starts_with(name) {
                    self.wrong
                        .push(format!("{}: stops at {what}", batch[0].line));
                }
                *self.not_modelled.entry(batch[0].op).or_default() += batch.len();
                return;
            }
            Err(Stop::Other(why)) => return self.wrong.push(format!("{}: {why}", batch[0].line)),
        };
        for (vector, found) in batch.iter().zip(found) {
            self.ran += 1;
            let contested = CONTESTED.iter().find(|c| c.0 == vector.line);
            let wanted = contested.map_or(vector.wanted, |c| Wanted::parse(c.1));
            if !wanted.accepts(found) {
                self.wrong
                    .push(format!("{}: found {found:08x}", vector.line));
            }
        }
    }

    fn check(&self, all: usize) {
        assert!(
            self.wrong.is_empty(),
            "{} of {all} are wrong:\n{}",
            self.wrong.len(),
            self.wrong.join("\n")
        );
        let listed: BTreeMap<_, _> = NOT_MODELLED.iter().copied().collect();
        assert_eq!(self.not_modelled, listed);
        let stopped: usize = listed.values().sum();
        assert_eq!(self.ran + stopped, all);
    }
}

#[test]
fn every_vector_with_its_sources_in_registers() {
    let vectors = vectors();
    // All vectors of one program run in one workgroup.
    let mut batches: BTreeMap<String, Vec<&Vector>> = BTreeMap::new();
    for vector in &vectors {
        batches
            .entry(program(vector, false))
            .or_default()
            .push(vector);
    }
    let mut outcome = Outcome::default();
    for batch in batches.values() {
        outcome.note(batch, execute(batch, false));
    }
    outcome.check(COUNT - LANE_COUNT);
}

#[test]
fn every_vector_with_its_first_source_in_a_uniform() {
    let mut outcome = Outcome::default();
    for vector in &vectors() {
        outcome.note(&[vector], execute(&[vector], true));
    }
    outcome.check(COUNT - LANE_COUNT);
}

#[test]
fn contested_vectors_are_in_the_file() {
    let lines = lines();
    for (line, answer, reason) in CONTESTED {
        assert!(lines.contains(line), "{line}");
        assert!(!line.ends_with(&format!("-> {answer}")), "{line}");
        assert!(!reason.is_empty());
    }
}

// ---------------------------------------------------------------- lanes

/// Lanes of a warp.
const LANES: usize = 16;

/// `CLPER`'s lines: all lanes hold 0x100 + lane, `lane=` is the second source in every lane, `active=` the lanes
/// that execute.
#[test]
fn every_vector_of_the_lane_permutation() {
    let mut ran = 0;
    let mut wrong = Vec::new();
    for line in lines().into_iter().filter(|l| l.starts_with("CLPER")) {
        let (call, result) = line.split_once(" -> ").expect("-> result");
        let mut parts = call.split(' ');
        let op = parts.next().expect("an operation");
        let (mut lane, mut active) = (0, 0xffff);
        for part in parts {
            match part.split_once('=') {
                Some(("lane", text)) => lane = text.parse::<u64>().expect("a lane"),
                Some(("active", text)) => active = u16::from_str_radix(text, 16).expect("a mask"),
                _ => assert_eq!(part, "data"),
            }
        }
        let results: Vec<u32> = result
            .split(' ')
            .map(|t| u32::from_str_radix(t, 16).expect("hexadecimal"))
            .collect();
        let memory = Flat::new();
        memory.write(UNIFORMS, &DATA.to_le_bytes());
        for thread in 0..LANES {
            let row = DATA + ROW * thread as u64;
            let words = [0x100 + thread as u64, lane, u64::from(active >> thread & 1)];
            for (i, word) in words.iter().enumerate() {
                memory.write(row + 8 * i as u64, &word.to_le_bytes());
            }
        }
        // Lanes whose flag is 0 leave before the permutation.
        let text = format!(
            "SHADDX.u64 r2, u0, r60.w0, shift:0x6\n\
             LOAD.i32.unsigned.slot0.wait0 @r8, r2, offset:0\n\
             LOAD.i32.unsigned.slot0.wait0 @r10, r2, offset:8\n\
             LOAD.i32.unsigned.slot0.wait0 @r12, r2, offset:16\n\
             BRANCHZ.eq.reconverge r12, offset:2\n\
             {op} r0, r8, r10.b0\n\
             STORE.i32.slot0 @r0, r2, offset:{RESULT}\n\
             NOP.end\n"
        );
        if let Err(stop) = run(&memory, LANES, &text) {
            wrong.push(format!("{line}: {stop:?}"));
            continue;
        }
        for thread in (0..LANES).filter(|t| active >> t & 1 != 0) {
            let found = memory.read64(DATA + ROW * thread as u64 + RESULT) as u32;
            let wanted = if results.len() == 1 {
                results[0]
            } else {
                results[thread]
            };
            if found != wanted {
                wrong.push(format!("{line}: lane {thread} found {found:08x}"));
            }
        }
        ran += 1;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(ran, LANE_COUNT);
}
