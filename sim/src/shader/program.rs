//! A shader program, decoded once per job into micro-ops: operands resolved, uniforms folded to constants, what
//! each instruction reads and writes laid out for the checks.

use std::collections::{BTreeMap, HashMap};

use mali_isa::valhall::{
    AtomicOp, Combine, Cond, DestKind, DestMask, Family, Flow, Instr, LoadLane, Mods, Op, Round,
    Special, Src, Staging, Swizzle, Unit, Value, decode,
};

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

struct Lowering<'a> {
    environment: &'a Environment<'a>,
    constants: Vec<Lanes>,
    by_value: HashMap<(u32, u32), u16>,
    traps: Vec<Trap>,
}

/// How a source is laid out, by operation and position.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    Scalar32,
    Scalar64,
    /// One half or byte is used, the low one where no swizzle is given.
    OneHalf,
    OneByte,
    Halves,
    Bytes,
}

impl Lowering<'_> {
    /// The row of a constant; the next row holds `high`.
    fn constant(&mut self, low: u32, high: u32) -> u16 {
        if let Some(&row) = self.by_value.get(&(low, high)) {
            return row;
        }
        let row = row::CONSTANTS + self.constants.len() as u16;
        self.constants.push(Lanes::splat(low));
        self.constants.push(Lanes::splat(high));
        self.by_value.insert((low, high), row);
        row
    }

    fn trap(&mut self, pc: u64, trap: Trap) -> Uop {
        self.traps.push(trap);
        let mut uop = blank(pc, Op::Nop);
        uop.class = Class::Trap(self.traps.len() as u32 - 1);
        uop
    }

    fn register(&self, register: u8) -> Result<u8, Trap> {
        if self.environment.half_registers && (16..48).contains(&register) {
            return Err(Trap::RegisterOutOfRange(register));
        }
        Ok(register)
    }

    fn block(&self, staging: Staging) -> Result<Staging, Trap> {
        for register in staging.reg..staging.reg + staging.count {
            self.register(register)?;
        }
        if staging.count > 1 && staging.reg & 1 != 0 {
            return Err(Trap::MisalignedRegisters(staging.reg));
        }
        Ok(staging)
    }

    /// Lowers one instruction to its micro-op, its branch target and whether the next instruction may follow.
    fn lower(&mut self, pc: u64, word: u64) -> Result<(Uop, Option<u64>, bool), Trap> {
        let instr = decode(word).map_err(|error| Trap::Invalid {
            word,
            reason: error.to_string(),
        })?;
        let info = instr.op.info();
        let invalid = |reason: &str| Trap::Invalid {
            word,
            reason: format!("{}: {reason}", info.mnemonic),
        };
        instr
            .check_fau()
            .map_err(|error| invalid(&error.to_string()))?;
        refuse(&instr)?;

        let mut uop = blank(pc, instr.op);
        uop.mods = instr.mods;
        uop.imm = instr.imm;
        uop.waits = instr.flow.waits();
        uop.reconverge = instr.flow == Flow::Reconverge;
        uop.end = instr.flow == Flow::End;
        if matches!(instr.flow, Flow::WaitResource | Flow::Discard) {
            return Err(Trap::NotModelled(format!(
                "flow .{} in a compute shader",
                instr.flow
            )));
        }
        uop.elements = elements(instr.op);
        uop.shift = ShiftLogic::of(info.mnemonic);
        for (i, info) in info.srcs.iter().enumerate() {
            let shape = shape(&instr, i, info.size);
            uop.srcs[i] = self.operand(&instr.srcs[i], shape, pc, &mut uop)?;
        }
        let wide = info.is_wide();
        uop.charge = match info.unit {
            Unit::Fma if matches!(instr.op, Op::IdpaddV4s8 | Op::IdpaddV4u8) => Charge::Dot,
            Unit::Fma => Charge::Fma,
            Unit::Cvt if wide => Charge::CvtWide,
            Unit::Cvt => Charge::Cvt,
            Unit::Sfu if wide => Charge::SfuWide,
            Unit::Sfu => Charge::Sfu,
            Unit::Fixed => Charge::Barrier,
            _ => Charge::Ls,
        };
        if let Some(dest) = instr.dest {
            uop.dst = self.register(dest.reg)?;
            uop.write_set = 1 << dest.reg;
            uop.dst_bytes = match dest.mask {
                DestMask::Full => WORD,
                DestMask::Low => LOW,
                DestMask::High => HIGH,
            };
            uop.write_bytes = uop.dst_bytes;
            if info.dest == DestKind::Pair {
                self.register(dest.reg + 1)?;
                if dest.reg & 1 != 0 {
                    return Err(Trap::MisalignedRegisters(dest.reg));
                }
                uop.write_set |= 2 << dest.reg;
            }
            if dest.mask != DestMask::Full && !writes_halves(instr.op) {
                return Err(Trap::NotModelled(format!(
                    "{} with a half destination",
                    info.mnemonic
                )));
            }
        }
        if let Some(staging) = instr.staging {
            uop.staging = self.block(staging)?;
        }
        if let Some(staging) = instr.staging_out {
            uop.staging_out = self.block(staging)?;
        }
        if info.is_message() && instr.op != Op::Barrier && instr.mods.slot.number() > 2 {
            return Err(invalid("slot 7 belongs to barriers"));
        }
        uop.bytes = (info.memory_bits().unwrap_or(0) / 8) as u8;
        let mut target = None;
        let mut falls_through = !uop.end;
        match info.family {
            Family::Nop => uop.class = Class::Nop,
            Family::Branch => {
                uop.class = Class::Branch;
                target = Some(
                    pc.wrapping_add(INSTR_BYTES)
                        .wrapping_add_signed(i64::from(instr.imm) * 8),
                );
                falls_through &= !always_taken(&instr);
            }
            Family::Barrier => {
                uop.class = Class::Barrier;
                if instr.mods.slot.number() != 7 || uop.waits & 0x80 == 0 {
                    return Err(Trap::UnwaitedBarrier);
                }
            }
            Family::Load => {
                let buffer = info.srcs.len() == 2;
                uop.class = if buffer {
                    Class::LoadBuffer
                } else {
                    Class::Load
                };
                let words = if instr.mods.load_lane == LoadLane::D0 {
                    2
                } else {
                    uop.bytes.div_ceil(4)
                };
                if uop.staging.count != words {
                    return Err(invalid(
                        "the number of staging registers does not fit the width",
                    ));
                }
                uop.write_set = uop.staging.mask();
                uop.write_bytes = loaded_bytes(instr.mods.load_lane, uop.bytes);
            }
            Family::Store => {
                uop.class = Class::Store;
                if uop.staging.count != uop.bytes.div_ceil(4) {
                    return Err(invalid(
                        "the number of staging registers does not fit the width",
                    ));
                }
                let mut left = uop.bytes;
                for register in uop.staging.reg..uop.staging.reg + uop.staging.count {
                    let here = left.min(4);
                    uop.push_read(register, (0..here).fold(0, |bytes, n| bytes | byte(n)));
                    left -= here;
                }
            }
            Family::Address => {
                uop.class = Class::LeaBuffer;
                if uop.staging.count != 2 {
                    return Err(invalid("the address takes two staging registers"));
                }
                uop.write_set = uop.staging.mask();
            }
            Family::Atomic => self
                .atomic(&instr, &mut uop)
                .map_err(|reason| invalid(&reason))?,
            _ => uop.class = Class::Alu,
        }
        Ok((uop, target, falls_through))
    }

    fn atomic(&self, instr: &Instr, uop: &mut Uop) -> Result<(), String> {
        uop.class = Class::Atomic;
        let words = uop.bytes / 4;
        let read = match instr.op {
            Op::Atom1ReturnI32 | Op::Atom1ReturnI64 => {
                // No staging registers: the old value is not wanted.
                if uop.staging.count != 0 && uop.staging.count != words {
                    return Err("the number of staging registers does not fit the width".into());
                }
                uop.staging_out = uop.staging;
                0
            }
            Op::AtomI32 | Op::AtomI64 => {
                uop.staging_out.count = 0;
                words
            }
            _ => {
                if uop.staging_out.count != words {
                    return Err("the number of registers written does not fit the width".into());
                }
                if instr.mods.compare { 2 * words } else { words }
            }
        };
        if read != 0 {
            if uop.staging.count != read {
                return Err("the number of registers read does not fit the operation".into());
            }
            for register in uop.staging.reg..uop.staging.reg + read {
                uop.push_read(register, WORD);
            }
        }
        uop.write_set = uop.staging_out.mask();
        Ok(())
    }

    fn operand(
        &mut self,
        src: &Src,
        shape: Shape,
        pc: u64,
        uop: &mut Uop,
    ) -> Result<Operand, Trap> {
        let part = part(src.swizzle, shape).ok_or_else(|| {
            Trap::NotModelled(format!(
                "{} with swizzle .{}",
                uop.op.mnemonic(),
                src.swizzle
            ))
        })?;
        let pair = shape == Shape::Scalar64 && part == Part::Whole;
        let row = match src.value {
            Value::None => self.constant(0, 0),
            Value::Const(index) => self.constant(mali_isa::valhall::const_value(index), 0),
            Value::Reg(register) => {
                self.register(register)?;
                if shape == Shape::Scalar64 {
                    if register & 1 != 0 && part != Part::Word(0) {
                        return Err(Trap::MisalignedRegisters(register));
                    }
                    if pair || part == Part::Word(1) {
                        self.register(register + 1)?;
                    }
                }
                let high = pair || part == Part::Word(1);
                // CLPER may read lanes that hold nothing, as long as nobody uses what it got there.
                let checked = !(uop.op == Op::ClperI32 && shape == Shape::Scalar32);
                if part != Part::Word(1) && checked {
                    uop.push_read(register, bytes_read(uop.op, uop.mods.combine, part));
                }
                if high {
                    uop.push_read(register + 1, WORD);
                }
                if src.discard {
                    uop.kill |= 1 << register;
                    if high {
                        uop.kill |= 2 << register;
                    }
                }
                u16::from(register)
            }
            Value::Uniform(word) => {
                let words = self.environment.uniforms;
                let last = usize::from(word) + usize::from(pair || part == Part::Word(1));
                let Some(&high) = words.get(last) else {
                    return Err(Trap::UniformOutOfRange {
                        word,
                        count: words.len() as u64 / 2,
                    });
                };
                let low = words[usize::from(word)];
                let high = if last == usize::from(word) { 0 } else { high };
                self.constant(low, high)
            }
            Value::Special(special, word) => self.special(special, word, pair, pc)?,
        };
        Ok(Operand {
            row,
            part,
            neg: src.neg,
            abs: src.abs,
            not: src.not,
        })
    }

    fn special(&mut self, special: Special, word: u8, pair: bool, pc: u64) -> Result<u16, Trap> {
        let undefined = || Err(Trap::UndefinedSpecial(format!("{special}.w{word}")));
        if pair && word != 0 {
            return undefined();
        }
        let constant = |this: &mut Self, value: u64| {
            let (low, high) = (value as u32, (value >> 32) as u32);
            if pair || word == 0 {
                this.constant(low, if pair { high } else { 0 })
            } else {
                this.constant(high, 0)
            }
        };
        match special {
            Special::LaneId if word == 0 && !pair => Ok(row::LANE_ID),
            Special::CoreId if word == 0 && !pair => Ok(row::CORE_ID),
            Special::WarpId if !pair => Ok(row::WARP_ID + u16::from(word)),
            Special::ThreadLocalPointer if !self.environment.thread_local => {
                Err(Trap::NoThreadLocalStorage)
            }
            Special::WorkgroupLocalPointer if !self.environment.workgroup_local => {
                Err(Trap::NoWorkgroupLocalStorage)
            }
            Special::ThreadLocalPointer => Ok(row::THREAD_LOCAL + u16::from(word)),
            Special::WorkgroupLocalPointer => Ok(row::WORKGROUP_LOCAL + u16::from(word)),
            Special::ResourceTablePointer => Ok(constant(self, self.environment.resources)),
            Special::ProgramCounter => Ok(constant(self, pc.wrapping_add(INSTR_BYTES))),
            _ => undefined(),
        }
    }
}

impl Uop {
    fn push_read(&mut self, register: u8, bytes: u64) {
        let read = Read { register, bytes };
        match self.reads.get_mut(usize::from(self.read_count)) {
            Some(place) => {
                *place = read;
                self.read_count += 1;
            }
            // Cannot be, see `MAX_READS`; a read that is checked too strictly is better than one that is not checked.
            None => self.reads[MAX_READS - 1] = read,
        }
    }
}

fn blank(pc: u64, op: Op) -> Uop {
    Uop {
        op,
        class: Class::Nop,
        charge: Charge::Cvt,
        waits: 0,
        reconverge: false,
        end: false,
        dst: 0,
        dst_bytes: 0,
        srcs: [Operand::NONE; 4],
        reads: [Read {
            register: 0,
            bytes: 0,
        }; MAX_READS],
        read_count: 0,
        kill: 0,
        write_set: 0,
        write_bytes: WORD,
        mods: Mods::DEFAULT,
        imm: 0,
        target: 0,
        pc,
        staging: Staging { reg: 0, count: 0 },
        staging_out: Staging { reg: 0, count: 0 },
        bytes: 0,
        shift: None,
        elements: Elements::One,
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

/// Whether a branch goes the same way for every value of its condition: a condition from the constant table.
fn always_taken(instr: &Instr) -> bool {
    match instr.srcs[0].value {
        Value::Const(index) => (mali_isa::valhall::const_value(index) == 0) == instr.mods.eq,
        _ => false,
    }
}

/// Stops at what is decoded but not executed.
fn refuse(instr: &Instr) -> Result<(), Trap> {
    let info = instr.op.info();
    let name = info.mnemonic;
    let no = |what: String| Err(Trap::NotModelled(what));
    if info.family == Family::Graphics {
        return no(format!("{name} (graphics)"));
    }
    let mods = &instr.mods;
    match instr.op {
        Op::Branchzi
        | Op::LeaBuf
        | Op::LeaBufImm
        | Op::LdGclkU64
        | Op::CubeSsel
        | Op::CubeTsel
        | Op::Cubeface1
        | Op::Cubeface2V9
        | Op::FpclassF32
        | Op::FpclassF16
        | Op::FlogTableF32
        | Op::FrcpApproxF32
        | Op::FrsqApproxF32
        | Op::FsincosOffsetU6
        | Op::FexpTableU4
        | Op::FatanAssistF32
        | Op::FrexpmV2f16
        | Op::FrexpeV2f16
        | Op::LdexpV2f16
        | Op::FmaRscaleLeftF32
        | Op::SegAddU64
        | Op::Atom1I32
        | Op::Atom1I64
        | Op::FmulSliceF32
        | Op::IlogbF32
        | Op::IlogbV2f16
        | Op::LogbF32
        | Op::LogbV2f16
        | Op::FrcbrtApproxAF32
        | Op::FrcbrtApproxBF32
        | Op::FrcbrtApproxCF32
        | Op::FpowScDetF32
        | Op::FpowScApply
        | Op::IaddcU32
        | Op::IsubbU32
        | Op::JumpEx
        | Op::Doorbell
        | Op::Eureka
        | Op::Kaboom => return no(name.to_string()),
        _ => {}
    }
    if mods.frexp == mali_isa::valhall::Frexp::Sqrt {
        return no(format!("{name}.sqrt"));
    }
    let unmodelled = [
        (mods.sticky, "sticky"),
        (
            info.family == Family::Store && mods.load_lane != LoadLane::Default,
            "lane",
        ),
        (mods.nan_propagate, "nan_propagate"),
        (mods.mask, "mask"),
        (mods.neg_result, "neg_result"),
        (mods.table_offset, "offset"),
        (mods.ldexp != mali_isa::valhall::LdexpInf::None, "inf"),
        (
            matches!(mods.atomic, AtomicOp::AddU32 | AtomicOp::AddS32),
            "aaddu",
        ),
    ];
    if let Some((_, what)) = unmodelled.iter().find(|(set, _)| *set) {
        return no(format!("{name}.{what}"));
    }
    let rounds_exactly = matches!(info.family, Family::Convert | Family::Special);
    if mods.round != Round::Rte && !rounds_exactly {
        return no(format!("{name}.{}", mods.round));
    }
    if instr.op == Op::ClperI32
        && matches!(
            mods.lane_op,
            mali_isa::valhall::LaneOp::Accumulate
                | mali_isa::valhall::LaneOp::Shift
                | mali_isa::valhall::LaneOp::Rotate
        )
    {
        return no(format!("{name}.{}", mods.lane_op));
    }
    if instr.op == Op::Wmask && mods.subgroup != mali_isa::valhall::Subgroup::Sixteen {
        return no(format!("{name}.{}", mods.subgroup));
    }
    if mods.saturate && info.is_wide() {
        // Mesa, panfrost/compiler/kraid/ops.rs: "64-bit IADD.sat not supported by HW".
        return no(format!("{name}.saturate"));
    }
    if matches!(mods.combine, Combine::And | Combine::LowBits) {
        return no(format!("{name} with condition .{}", mods.combine));
    }
    if name.starts_with("ARSHIFT_") && instr.srcs[0].swizzle != Swizzle::None {
        return no(format!("{name} with a widened source"));
    }
    if mods.conservative {
        return no(format!("{name}.conservative"));
    }
    let integer = matches!(info.family, Family::Compare | Family::Select)
        && !name.contains(".f32")
        && !name.contains(".v2f16");
    if integer && matches!(mods.cond, Cond::Gtlt | Cond::Total) {
        return no(format!("{name}.{}", mods.cond));
    }
    Ok(())
}

/// Whether a half destination is modelled: element-wise operations and moves write the half in place, binary32
/// results are converted to binary16.
fn writes_halves(op: Op) -> bool {
    let name = op.mnemonic();
    elements(op) != Elements::One
        || matches!(
            op,
            Op::MkvecV2i16 | Op::MkvecV2i8 | Op::FrcpF16 | Op::FrsqF16 | Op::V2f32ToV2f16
        )
        || matches!(
            op,
            Op::FaddF32 | Op::FmaF32 | Op::FminF32 | Op::FmaxF32 | Op::FaddImmF32
        )
        || (name.ends_with(".i32") && (ShiftLogic::of(name).is_some() || name.starts_with("MUX")))
}

/// On what elements an operation works independently.
fn elements(op: Op) -> Elements {
    let name = op.mnemonic();
    if op == Op::MovI32 {
        Elements::Bytes
    } else if matches!(
        op,
        Op::IdpaddV4s8 | Op::IdpaddV4u8 | Op::MkvecV2i16 | Op::MkvecV2i8 | Op::V2f32ToV2f16
    ) {
        Elements::One
    } else if name.contains(".v4") {
        Elements::Bytes
    } else if name.contains(".v2") || name.starts_with("V2") {
        Elements::Halves
    } else {
        Elements::One
    }
}

/// How source `i` is laid out.
fn shape(instr: &Instr, i: usize, size: u8) -> Shape {
    let name = instr.op.mnemonic();
    let shift_amount = i == 1 && ShiftLogic::of(name).is_some();
    match instr.op {
        Op::IdpaddV4s8 | Op::IdpaddV4u8 | Op::V2f32ToV2f16 => Shape::Scalar32,
        Op::MkvecV2i16 => Shape::OneHalf,
        Op::MkvecV2i8 if i == 2 => Shape::OneHalf,
        Op::MkvecV2i8 => Shape::OneByte,
        Op::ClperI32 if i == 1 => Shape::OneByte,
        _ if shift_amount && (name.ends_with(".i32") || name.ends_with(".i64")) => Shape::OneByte,
        _ if shift_amount && name.ends_with(".v2i16") => Shape::Halves,
        _ if size == 64 => Shape::Scalar64,
        _ if size == 32 => Shape::Scalar32,
        _ if elements(instr.op) == Elements::Halves => Shape::Halves,
        _ if elements(instr.op) == Elements::Bytes => Shape::Bytes,
        _ if size == 16 => Shape::OneHalf,
        _ => Shape::OneByte,
    }
}

/// The part that a swizzle selects from a source of some shape; `None` for combinations without a known meaning.
fn part(swizzle: Swizzle, shape: Shape) -> Option<Part> {
    let text = swizzle.text();
    let digits: Vec<u8> = text
        .bytes()
        .skip(1)
        .filter(u8::is_ascii_digit)
        .map(|digit| digit - b'0')
        .collect();
    let kind = text.as_bytes()[0];
    let whole = swizzle == Swizzle::None;
    Some(match (shape, kind, digits.as_slice()) {
        (Shape::Scalar32 | Shape::Scalar64 | Shape::Halves | Shape::Bytes, ..) if whole => {
            Part::Whole
        }
        (Shape::OneHalf, ..) if whole => Part::Half(0),
        (Shape::OneByte, ..) if whole => Part::Byte(0),
        (Shape::Scalar32 | Shape::Scalar64 | Shape::OneHalf, b'h', &[n]) => Part::Half(n),
        (Shape::Scalar32 | Shape::Scalar64 | Shape::OneByte, b'b', &[n]) => Part::Byte(n),
        (Shape::Scalar64, b'w', &[n]) => Part::Word(n),
        (Shape::OneHalf, b'h', &[a, b]) if a == b => Part::Half(a),
        (Shape::OneByte, b'b', &[a, b]) if a == b => Part::Byte(a),
        (Shape::OneByte, b'b', &[0, 2]) => Part::Byte(0),
        (Shape::Halves, b'h', &[n]) => Part::Bytes([2 * n, 2 * n + 1, 2 * n, 2 * n + 1]),
        (Shape::Halves, b'h', &[a, b]) => Part::Bytes([2 * a, 2 * a + 1, 2 * b, 2 * b + 1]),
        (Shape::Halves, b'b', &[a, b]) => Part::Pair([a, b]),
        (Shape::Halves, b'b', &[a]) => Part::Pair([a, a]),
        (Shape::Bytes, b'b', &[a, b, c, d]) => Part::Bytes([a, b, c, d]),
        (Shape::Bytes, b'b', &[a, b]) => Part::Bytes([a, b, a, b]),
        (Shape::Bytes, b'b', &[a]) => Part::Bytes([a; 4]),
        _ => return None,
    })
}

/// The bytes of a register that a part covers.
fn bytes_read(op: Op, combine: Combine, part: Part) -> u64 {
    if op == Op::Branchz {
        match combine {
            Combine::H0 => return LOW,
            Combine::H1 => return HIGH,
            Combine::None | Combine::And | Combine::LowBits => return WORD,
        }
    }

    match part {
        Part::Whole | Part::Word(_) => WORD,
        Part::Half(0) => LOW,
        Part::Half(_) => HIGH,
        Part::Byte(n) => byte(n),
        Part::Bytes(n) => n.iter().fold(0, |bytes, &n| bytes | byte(n)),
        Part::Pair(n) => n.iter().fold(0, |bytes, &n| bytes | byte(n)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_number_of_reads_escapes_the_check() {
        let mut uop = blank(0, Op::Nop);
        for count in 1..=2 * MAX_READS {
            uop.push_read(count as u8, WORD);
            assert_eq!(uop.reads().len(), count.min(MAX_READS));
            let last = uop.reads()[uop.reads().len() - 1];
            assert_eq!(usize::from(last.register), count);
        }
    }
}
