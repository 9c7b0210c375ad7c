//! A shader program, decoded once per job into micro-ops: operands resolved, uniforms folded to constants, what
//! each instruction reads and writes laid out for the checks.

use std::collections::{BTreeMap, HashMap};

use mali_isa::valhall::{
    Combine, Cond, Instr, LoadLane, Mods, Op, Round, Staging, Swizzle, decode,
};

mod lower;
mod shape;

use lower::Lowering;

use super::fault::FaultKind;
use super::warp::{HIGH, LOW, Lanes, WORD, byte, row};

/// Instructions that a program may have: no real shader comes near, a runaway decode of data would.
const PROGRAM_LIMIT: usize = 1 << 20;

/// Registers that one instruction reads at most: four staging registers and an address pair; four sources of 32 bits or
/// two of 64 have fewer.
const MAX_READS: usize = 8;

/// Bytes of an instruction.
pub(super) const INSTR_BYTES: u64 = 8;

/// The part of a source that is used, in the form that the lane loops want.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// All of it.
    Whole,
    /// One half, widened.
    Half(u8),
    /// One byte, widened.
    Byte(u8),
    /// One word of a 64-bit source, widened.
    Word(u8),
    /// Four bytes by number, lowest first (also permuted halves).
    Bytes([u8; 4]),
    /// Two bytes by number, each widened to a half.
    Pair([u8; 2]),
}

/// A source.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operand {
    /// Row of the warp, or of the constant pool from [`row::CONSTANTS`] on. A wide source has the next row too.
    pub row: u16,
    pub part: Part,
    pub neg: bool,
    pub abs: bool,
    pub not: bool,
}

impl Operand {
    const NONE: Operand = Operand {
        row: row::CONSTANTS,
        part: Part::Whole,
        neg: false,
        abs: false,
        not: false,
    };
}

/// Bytes of a register that an instruction reads: a multiplier for the lane mask.
#[derive(Clone, Copy, Debug)]
pub(super) struct Read {
    pub register: u8,
    pub bytes: u64,
}

/// Elements on which an operation works independently: an undefined one spoils only itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Elements {
    One,
    Halves,
    Bytes,
}

/// What kind of work a micro-op is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    Alu,
    Nop,
    Branch,
    Barrier,
    Load,
    Store,
    LoadBuffer,
    LeaBuffer,
    Atomic,
    /// Executing it is a fault.
    Trap(u32),
}

/// What an instruction costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Charge {
    Fma,
    Dot,
    Cvt,
    CvtWide,
    Sfu,
    SfuWide,
    Ls,
    Barrier,
}

/// What the shift family does first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shift {
    Left,
    Right,
    Arithmetic,
    RotateLeft,
    RotateRight,
}

/// What the shift family does with the shifted value and the third source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Logic {
    And,
    Or,
    Xor,
}

/// An operation of the shift family on elements of `bits` bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ShiftLogic {
    pub shift: Shift,
    pub logic: Logic,
    pub bits: u32,
}

impl ShiftLogic {
    /// The operation that a mnemonic like `LSHIFT_AND.v2i16` names, if it is one of the family.
    fn of(mnemonic: &str) -> Option<ShiftLogic> {
        let (name, kind) = mnemonic.split_once('.')?;
        let (shift, logic) = name.split_once('_')?;
        let shift = match shift {
            "LSHIFT" => Shift::Left,
            "RSHIFT" => Shift::Right,
            "ARSHIFT" => Shift::Arithmetic,
            "LROT" => Shift::RotateLeft,
            "RROT" => Shift::RotateRight,
            _ => return None,
        };
        let logic = match logic {
            "AND" => Logic::And,
            "OR" => Logic::Or,
            "XOR" => Logic::Xor,
            _ => return None,
        };
        let bits = match kind {
            "i64" => 64,
            "i32" => 32,
            "v2i16" => 16,
            "v4i8" => 8,
            _ => return None,
        };
        Some(ShiftLogic { shift, logic, bits })
    }
}

/// One decoded instruction.
#[derive(Clone, Debug)]
pub(super) struct Uop {
    pub op: Op,
    pub class: Class,
    pub charge: Charge,
    /// Message slots waited for after the instruction issued.
    pub waits: u8,
    pub reconverge: bool,
    pub end: bool,
    /// Destination register and the bytes written of it.
    pub dst: u8,
    pub dst_bytes: u64,
    pub srcs: [Operand; 4],
    reads: [Read; MAX_READS],
    read_count: u8,
    /// Registers given up.
    pub kill: u64,
    /// Registers written.
    pub write_set: u64,
    /// Bytes written of them, as a multiplier for the lane mask.
    pub write_bytes: u64,
    pub mods: Mods,
    pub imm: i32,
    /// Micro-op that a branch goes to.
    pub target: u32,
    /// Address of the instruction.
    pub pc: u64,
    /// Staging registers; `out` only for atomics that read and write.
    pub staging: Staging,
    pub staging_out: Staging,
    /// Bytes of memory per lane, of a load, store or atomic.
    pub bytes: u8,
    /// The operation, if it is of the shift family.
    pub shift: Option<ShiftLogic>,
    elements: Elements,
}

impl Uop {
    #[inline(always)]
    pub(super) fn reads(&self) -> &[Read] {
        // Never more than there are places (`push_read`); without a way to panic.
        self.reads
            .get(..usize::from(self.read_count))
            .unwrap_or(&self.reads)
    }

    /// What is defined of the result where some elements of the sources are not; `None` if the operation does not
    /// work on parts or a lane has no defined element at all.
    pub(super) fn partial(&self, defined: &[u64; 64], active: u16) -> Option<u64> {
        if self.elements == Elements::One {
            return None;
        }
        let field = |d: u64, n: u8| (d >> (16 * u32::from(n))) & 0xffff;
        let join = |f: [u64; 4]| f[0] | f[1] << 16 | f[2] << 32 | f[3] << 48;
        let mut all = u64::MAX;
        for src in &self.srcs {
            if src.row >= 64 {
                continue;
            }
            let d = defined[usize::from(src.row)];
            let bytes = match src.part {
                Part::Whole => d,
                Part::Bytes(n) => join(n.map(|n| field(d, n))),
                Part::Pair([a, b]) => join([field(d, a), field(d, a), field(d, b), field(d, b)]),
                _ => return None,
            };
            all &= bytes;
        }
        if self.elements == Elements::Halves {
            let (low, high) = (field(all, 0) & field(all, 1), field(all, 2) & field(all, 3));
            all = join([low, low, high, high]);
        }
        let any = (field(all, 0) | field(all, 1) | field(all, 2) | field(all, 3)) as u16;
        (any & active == active).then_some(all)
    }
}

/// Why executing a micro-op is a fault, before the error type of memory is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Trap {
    /// The fetch failed: fetch again to get memory's error.
    Refetch,
    Misaligned,
    Invalid {
        word: u64,
        reason: String,
    },
    NotModelled(String),
    RegisterOutOfRange(u8),
    MisalignedRegisters(u8),
    UniformOutOfRange {
        word: u8,
        count: u64,
    },
    UndefinedSpecial(String),
    NoThreadLocalStorage,
    NoWorkgroupLocalStorage,
    UnwaitedBarrier,
    TooLong,
}

impl Trap {
    /// The fault; `pc` is the instruction's address. `Refetch` has none of its own.
    pub(super) fn kind<E: std::error::Error>(&self, pc: u64) -> FaultKind<E> {
        match self.clone() {
            Trap::Refetch | Trap::Misaligned => FaultKind::MisalignedProgram { va: pc },
            Trap::Invalid { word, reason } => FaultKind::InvalidInstruction { word, reason },
            Trap::NotModelled(what) => FaultKind::NotModelled { what },
            Trap::RegisterOutOfRange(register) => FaultKind::RegisterOutOfRange { register },
            Trap::MisalignedRegisters(register) => FaultKind::MisalignedRegisters { register },
            Trap::UniformOutOfRange { word, count } => FaultKind::UniformOutOfRange { word, count },
            Trap::UndefinedSpecial(name) => FaultKind::UndefinedSpecial { name },
            Trap::NoThreadLocalStorage => FaultKind::NoThreadLocalStorage,
            Trap::NoWorkgroupLocalStorage => FaultKind::NoWorkgroupLocalStorage,
            Trap::UnwaitedBarrier => FaultKind::UnwaitedBarrier,
            Trap::TooLong => FaultKind::NotModelled {
                what: format!("a program of more than {PROGRAM_LIMIT} instructions"),
            },
        }
    }
}

/// What decoding needs to know of the job.
pub(super) struct Environment<'a> {
    /// Address of the first instruction.
    pub entry: u64,
    /// Only r0 to r15 and r48 to r63 exist.
    pub half_registers: bool,
    /// The uniforms, 32-bit words.
    pub uniforms: &'a [u32],
    /// Address of the resource table.
    pub resources: u64,
    pub thread_local: bool,
    pub workgroup_local: bool,
}

/// A decoded program.
#[derive(Clone, Debug)]
pub(super) struct Program {
    /// Micro-ops by ascending address; the first executed is `entry`.
    pub ops: Vec<Uop>,
    /// The instructions behind the micro-ops, where there are any, for the text of a fault.
    pub instrs: Vec<Option<Instr>>,
    pub entry: u32,
    /// Constants and uniforms, one row each.
    pub constants: Vec<Lanes>,
    pub traps: Vec<Trap>,
}

impl Program {
    /// Decodes all code that can be reached from the entry. What cannot be decoded or executed becomes a trap, so
    /// that only reaching it is a fault.
    pub(super) fn decode(
        environment: &Environment<'_>,
        mut fetch: impl FnMut(u64) -> Option<u64>,
    ) -> Program {
        let mut lowering = Lowering {
            environment,
            constants: Vec::new(),
            by_value: HashMap::new(),
            traps: Vec::new(),
        };
        lowering.constant(0, 0);
        let mut ops: BTreeMap<u64, (Uop, Option<u64>, Option<Instr>)> = BTreeMap::new();
        let mut work = vec![environment.entry];
        while let Some(start) = work.pop() {
            let mut pc = start;
            while !ops.contains_key(&pc) {
                let mut instr = None;
                let lowered = if ops.len() >= PROGRAM_LIMIT {
                    Err(Trap::TooLong)
                } else if pc % INSTR_BYTES != 0 {
                    Err(Trap::Misaligned)
                } else {
                    match fetch(pc) {
                        Some(word) => {
                            instr = decode(word).ok();
                            lowering.lower(pc, word)
                        }
                        None => Err(Trap::Refetch),
                    }
                };
                let (uop, target, falls_through) = match lowered {
                    Ok(lowered) => lowered,
                    Err(trap) => (lowering.trap(pc, trap), None, false),
                };
                ops.insert(pc, (uop, target, instr));
                work.extend(target);
                if !falls_through {
                    break;
                }
                pc = pc.wrapping_add(INSTR_BYTES);
            }
        }
        let index: HashMap<u64, u32> = ops
            .keys()
            .enumerate()
            .map(|(i, &pc)| (pc, i as u32))
            .collect();
        let entry = index[&environment.entry];
        let mut instrs = Vec::with_capacity(ops.len());
        let ops = ops
            .into_values()
            .map(|(mut uop, target, instr)| {
                if let Some(target) = target {
                    uop.target = index[&target];
                }
                instrs.push(instr);
                uop
            })
            .collect();
        Program {
            ops,
            instrs,
            entry,
            constants: lowering.constants,
            traps: lowering.traps,
        }
    }
}

/// The bytes that a load of up to four bytes writes of its register.
pub(super) fn loaded_bytes(lane: LoadLane, bytes: u8) -> u64 {
    match (lane, bytes) {
        (LoadLane::Default, 1) => byte(0),
        (LoadLane::B1, 1) => byte(1),
        (LoadLane::B2, 1) => byte(2),
        (LoadLane::B3, 1) => byte(3),
        (LoadLane::H0, 1) | (LoadLane::Default, 2) => LOW,
        (LoadLane::H1, _) => HIGH,
        (LoadLane::Default, 3) => byte(0) | byte(1) | byte(2),
        _ => WORD,
    }
}
