//! From an instruction to a micro-op: what it reads and writes, what it costs, or why it is not executed.

use std::collections::HashMap;

use mali_isa::valhall::{
    AtomicOp, DestKind, DestMask, Family, Flow, Instr, LoadLane, Mods, Op, Special, Src, Staging,
    Unit, Value, decode,
};

use super::super::warp::{HIGH, LOW, Lanes, WORD, byte, row};
use super::shape::{Shape, bytes_read, elements, part, shape, writes_halves};
use super::*;

pub(super) struct Lowering<'a> {
    pub(super) environment: &'a Environment<'a>,
    pub(super) constants: Vec<Lanes>,
    pub(super) by_value: HashMap<(u32, u32), u16>,
    pub(super) traps: Vec<Trap>,
}

impl Lowering<'_> {
    /// The row of a constant; the next row holds `high`.
    pub(super) fn constant(&mut self, low: u32, high: u32) -> u16 {
        if let Some(&row) = self.by_value.get(&(low, high)) {
            return row;
        }
        let row = row::CONSTANTS + self.constants.len() as u16;
        self.constants.push(Lanes::splat(low));
        self.constants.push(Lanes::splat(high));
        self.by_value.insert((low, high), row);
        row
    }

    pub(super) fn trap(&mut self, pc: u64, trap: Trap) -> Uop {
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
    pub(super) fn lower(&mut self, pc: u64, word: u64) -> Result<(Uop, Option<u64>, bool), Trap> {
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

pub(super) fn blank(pc: u64, op: Op) -> Uop {
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

/// Whether a branch goes the same way for every value of its condition: a condition from the constant table.
pub(super) fn always_taken(instr: &Instr) -> bool {
    match instr.srcs[0].value {
        Value::Const(index) => (mali_isa::valhall::const_value(index) == 0) == instr.mods.eq,
        _ => false,
    }
}

/// Stops at what is decoded but not executed.
pub(super) fn refuse(instr: &Instr) -> Result<(), Trap> {
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
