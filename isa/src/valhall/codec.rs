//! From instruction to word and back, driven by the table.

use std::sync::OnceLock;

use super::Instr;
use super::error::{DecodeError, EncodeError, FauError, SrcError, StagingError};
use super::table::{
    DestKind, Family, ImmTarget, ModKind, Op, OpInfo, SrcInfo, StagingKind, TABLE_OF_OPS,
};
use super::types::*;

/// First bit and width of the fields that every instruction has.
const DEST_POS: u8 = 40;
const STAGING_COUNT_POS: u8 = 33;
const STAGING_OUT_POS: u8 = 16;
const STAGING_OUT_COUNT_POS: u8 = 36;
const OPCODE_POS: u8 = 48;
const OPCODE_BITS: u64 = 0x1ff;
const PAGE_POS: u8 = 57;
const FLOW_POS: u8 = 59;
/// Upper bits of the register field: both halves written, or the direction of staging registers.
/// (Mesa, kraid's isa-v9-v14.xml, enums `dest_width_m` and `sr_control_t`.)
const FULL: u64 = 3;
const LOW: u64 = 1;
const HIGH: u64 = 2;
const CONTROL_READ: u64 = 1;
const CONTROL_WRITE: u64 = 2;
const CONTROL_READ_WRITE: u64 = 3;
/// Low 48 bits of a graphics instruction are raw.
const RAW_BITS: u64 = (1 << OPCODE_POS) - 1;

/// Kinds of value in the upper two bits of a source (Mesa, kraid's encode_v9.rs, `encode_src_ref`).
const SRC_UNIFORM: u8 = 2;
const SRC_FAU: u8 = 3;
/// Constant 21 is zero and spare until v10 (kraid's `small_constant_t`).
const SPARE_CONSTANT: u8 = 21;

/// FAU page and 64-bit slot of the special values of v10.
const SPECIALS: &[(Special, u8, u8)] = &[
    (Special::WarpId, 0, 2),
    (Special::FramebufferSize, 0, 4),
    (Special::AtestDatum, 0, 5),
    (Special::Sample, 0, 6),
    (Special::BlendDescriptor0, 0, 8),
    (Special::BlendDescriptor1, 0, 9),
    (Special::BlendDescriptor2, 0, 10),
    (Special::BlendDescriptor3, 0, 11),
    (Special::BlendDescriptor4, 0, 12),
    (Special::BlendDescriptor5, 0, 13),
    (Special::BlendDescriptor6, 0, 14),
    (Special::BlendDescriptor7, 0, 15),
    (Special::ThreadLocalPointer, 1, 1),
    (Special::WorkgroupLocalPointer, 1, 3),
    (Special::ResourceTablePointer, 1, 7),
    (Special::LaneId, 3, 1),
    (Special::CoreId, 3, 3),
    (Special::ProgramCounter, 3, 15),
];

/// Values of the flow field on v10 (kraid's `flow_control_m`); 11 and 14 are reserved.
const FLOWS: [Option<Flow>; 16] = [
    Some(Flow::None),
    Some(Flow::Wait0),
    Some(Flow::Wait1),
    Some(Flow::Wait01),
    Some(Flow::Wait2),
    Some(Flow::Wait02),
    Some(Flow::Wait12),
    Some(Flow::Wait012),
    Some(Flow::Wait0126),
    Some(Flow::Wait),
    Some(Flow::Reconverge),
    None,
    Some(Flow::WaitResource),
    Some(Flow::Discard),
    None,
    Some(Flow::End),
];

const fn ones(width: u8) -> u64 {
    (1u64 << width) - 1
}

const fn bits(word: u64, pos: u8, width: u8) -> u64 {
    word >> pos & ones(width)
}

/// Calls a macro with every member of [`Mods`] that a [`ModKind`] names: enums first, then flags.
macro_rules! with_members {
    ($callback:ident) => {
        $callback! {
            enums { Clamp clamp Clamp, Round round Round, Cond cond Cond, Result result ResultType, Mux mux Mux,
                LaneOp lane_op LaneOp, Subgroup subgroup Subgroup, Inactive inactive InactiveResult, Slot slot Slot,
                Access access Access, LoadLane load_lane LoadLane, Atomic atomic AtomicOp, Nan nan NanMode,
                Clock clock Clock, Combine combine Combine, Frexp frexp Frexp, FlogMode flog_mode FlogMode,
                FlogPrecision flog_precision FlogPrecision, Ldexp ldexp LdexpInf, Pow pow PowFunction,
                Low exp_adjust ExpAdjust, JumpStack jump_stack JumpStack }
            flags { Saturate saturate, NotResult not_result, Rhadd rhadd, Unsigned unsigned, Compare compare, Eq eq,
                Conservative conservative, Absolute absolute, Second second, Ftz ftz, FlushInf flush_inf, Neg neg,
                PreserveNull preserve_null, Sticky sticky, NanPropagate nan_propagate, Mask mask,
                NegResult neg_result, TableOffset table_offset, TableScale table_scale, Carry carry,
                Diverge diverge }
        }
    };
}

macro_rules! accessors {
    (enums { $($ek:ident $em:ident $et:ident),+ } flags { $($fk:ident $fm:ident),+ }) => {
        /// Number of the value of a member.
        pub(super) fn mod_value(mods: &Mods, kind: ModKind) -> u8 {
            match kind {
                $(ModKind::$ek => mods.$em as u8,)+
                $(ModKind::$fk => u8::from(mods.$fm),)+
                ModKind::Spelling => 0,
            }
        }

        /// Sets a member to the value with a number that comes from the table.
        pub(super) fn set_mod(mods: &mut Mods, kind: ModKind, value: u8) {
            match kind {
                $(ModKind::$ek => mods.$em = $et::ALL[usize::from(value)],)+
                $(ModKind::$fk => mods.$fm = value != 0,)+
                ModKind::Spelling => {}
            }
        }

        /// Full spelling of a value.
        pub(super) fn mod_text(kind: ModKind, value: u8) -> &'static str {
            match kind {
                $(ModKind::$ek => $et::ALL[usize::from(value)].text(),)+
                $(ModKind::$fk => if value == 0 { "none" } else { stringify!($fm) },)+
                ModKind::Spelling => "",
            }
        }

        /// Every kind, for error messages.
        pub(super) const KINDS: &[(ModKind, &str)] = &[
            $((ModKind::$ek, stringify!($em)),)+
            $((ModKind::$fk, stringify!($fm)),)+
        ];
    };
}

with_members!(accessors);

/// What the table says about the bits of one instruction.
pub(super) struct Layout {
    /// Bits with one legal value, and that value.
    fixed: u64,
    value: u64,
}

/// Layouts of all instructions and the candidates for every opcode.
struct Index {
    layouts: Vec<Layout>,
    by_opcode: Vec<Vec<Op>>,
}

fn index() -> &'static Index {
    static INDEX: OnceLock<Index> = OnceLock::new();
    INDEX.get_or_init(|| {
        let layouts: Vec<Layout> = TABLE_OF_OPS.iter().map(Layout::new).collect();
        let mut by_opcode = vec![Vec::new(); OPCODE_BITS as usize + 1];
        for (info, layout) in TABLE_OF_OPS.iter().zip(&layouts) {
            for (opcode, ops) in by_opcode.iter_mut().enumerate() {
                let word = (opcode as u64) << OPCODE_POS;
                if (word ^ layout.value) & layout.fixed & OPCODE_BITS << OPCODE_POS == 0 {
                    ops.push(info.op);
                }
            }
        }
        Index { layouts, by_opcode }
    })
}

impl Layout {
    fn new(info: &OpInfo) -> Layout {
        let mut used = ones(2) << PAGE_POS | ones(4) << FLOW_POS;
        if info.family == Family::Graphics {
            used |= RAW_BITS & !info.sub.mask;
        }
        for src in info.srcs {
            used |= 0xff << src.pos;
            if let Some((neg, abs)) = src.neg_abs {
                used |= 1 << neg | 1 << abs;
            }
            if let Some(not) = src.not {
                used |= 1 << not;
            }
            if let Some(field) = src.swizzle {
                used |= ones(field.width) << field.pos;
            }
        }
        for imm in info.imms {
            used |= ones(imm.width) << imm.pos;
        }
        for field in info.mods {
            used |= ones(field.width) << field.pos;
        }
        let mut fixed = info.sub.mask;
        let mut value = info.sub.value;
        let register = 0x3f << DEST_POS;
        let upper = ones(2) << (DEST_POS + 6);
        match info.staging {
            StagingKind::None => match info.dest {
                DestKind::Word => used |= register | upper,
                DestKind::Pair => {
                    used |= register;
                    fixed |= upper;
                    value |= FULL << (DEST_POS + 6);
                }
                // Mesa, va_pack.c, `va_pack_alu`: without a destination the field is r0, both halves.
                DestKind::None
                    if info.family != Family::Graphics && info.sub.mask >> DEST_POS & 0xff == 0 =>
                {
                    fixed |= (register | upper) & !used;
                    value |= FULL << (DEST_POS + 6);
                }
                DestKind::None => {}
            },
            kind => {
                used |= register;
                fixed |= upper;
                value |= match kind {
                    StagingKind::Read => CONTROL_READ,
                    StagingKind::ReadWrite => CONTROL_READ_WRITE,
                    _ => CONTROL_WRITE,
                } << (DEST_POS + 6);
                if kind == StagingKind::WritePair {
                    fixed |= ones(3) << STAGING_COUNT_POS;
                    value |= 2 << STAGING_COUNT_POS;
                } else {
                    used |= ones(3) << STAGING_COUNT_POS;
                }
                if kind == StagingKind::ReadWrite {
                    used |= ones(3) << STAGING_OUT_COUNT_POS | ones(6) << STAGING_OUT_POS;
                }
            }
        }
        fixed |= OPCODE_BITS << OPCODE_POS & !used;
        value |= u64::from(info.opcode) << OPCODE_POS;
        // What belongs to no field is zero.
        fixed |= !used;
        Layout { fixed, value }
    }
}

/// How many staging registers an instruction has to name: those read or written, and those that `ATOM_RETURN`
/// writes. `None` where the table fixes the number or there are none.
fn staging_counts(info: &OpInfo, mods: &Mods) -> (Option<u8>, Option<u8>) {
    let words = info.memory_bits().map(|bits| bits.div_ceil(32) as u8);
    let double = matches!(mods.load_lane, LoadLane::D0);
    let count = match info.staging {
        StagingKind::None | StagingKind::WritePair => None,
        StagingKind::ReadWrite if mods.compare => words.map(|w| 2 * w),
        _ if matches!(mods.atomic, AtomicOp::AddU32 | AtomicOp::AddS32) => Some(1),
        _ if double => Some(2),
        _ => words,
    };
    let out = if info.staging == StagingKind::ReadWrite {
        words
    } else {
        None
    };
    (count, out)
}

fn check_block(block: Staging, wanted: Option<u8>, may_be_empty: bool) -> Result<(), StagingError> {
    let Staging { reg, count } = block;
    if let Some(wanted) = wanted {
        if count != wanted && !(may_be_empty && count == 0) {
            return Err(StagingError::Count { count, wanted });
        }
    }
    if u16::from(reg) + u16::from(count) > u16::from(REGISTER_COUNT) {
        return Err(StagingError::Range { reg, count });
    }
    if count > 1 && reg % 2 != 0 {
        return Err(StagingError::Odd { reg, count });
    }
    Ok(())
}

/// `ATOM1_RETURN` may name no register at all; then r0 stands in the field.
fn may_be_empty(info: &OpInfo) -> bool {
    matches!(info.op, Op::Atom1ReturnI32 | Op::Atom1ReturnI64)
}

/// Bytes that the offset of an atomic has to be a multiple of (kraid's isa-v9-v14.xml, `align`).
fn offset_align(info: &OpInfo) -> u8 {
    match info.family {
        Family::Atomic => info.memory_bits().unwrap_or(8).div_ceil(8) as u8,
        _ => 1,
    }
}

fn special_place(which: Special) -> (u8, u8) {
    SPECIALS
        .iter()
        .find(|(s, _, _)| *s == which)
        .map_or((0, 0), |(_, page, slot)| (*page, *slot))
}

/// The page that the sources select.
fn page_of(srcs: &[Src; 4]) -> Result<Option<u8>, FauError> {
    let mut page = None;
    for src in srcs {
        let at = match src.value {
            Value::Uniform(word) => word / PAGE_WORDS,
            Value::Special(which, _) => special_place(which).0,
            _ => continue,
        };
        if *page.get_or_insert(at) != at {
            return Err(FauError::Pages);
        }
    }
    Ok(page)
}

/// Whether the hardware can read all the sources together.
fn check_fau(info: &OpInfo, srcs: &[Src; 4]) -> Result<(), FauError> {
    page_of(srcs)?;
    let mut slot = None;
    let mut special = None;
    let mut words: [Option<(u8, u16)>; 2] = [None; 2];
    for (src, src_info) in srcs.iter().zip(info.srcs) {
        let words_read = if src_info.size == 64 { 2 } else { 1 };
        let (kind, first, count) = match src.value {
            Value::None | Value::Reg(_) => continue,
            Value::Const(index) => (0u8, u16::from(index), 1),
            Value::Uniform(word) => {
                if *slot.get_or_insert(word / 2) != word / 2 {
                    return Err(FauError::Slots);
                }
                (1, u16::from(word), words_read)
            }
            Value::Special(which, word) => {
                if *special.get_or_insert(which) != which {
                    return Err(FauError::Specials);
                }
                let (page, slot) = special_place(which);
                let first = u16::from(page) << 8 | u16::from(2 * slot + word);
                (2, first, words_read)
            }
        };
        for word in first..first + count {
            let entry = Some((kind, word));
            match words.iter_mut().find(|w| w.is_none() || **w == entry) {
                Some(place) => *place = entry,
                None => return Err(FauError::Words),
            }
        }
    }
    Ok(())
}

fn encode_src(src: &Src, info: &SrcInfo) -> Result<u64, SrcError> {
    if src.discard && !matches!(src.value, Value::Reg(_)) {
        return Err(SrcError::Discard);
    }
    let even = |index: u8| {
        if info.size == 64 && index % 2 != 0 {
            Err(SrcError::Odd)
        } else {
            Ok(())
        }
    };
    let byte = match src.value {
        Value::None => return Err(SrcError::Missing),
        Value::Reg(reg) if reg >= REGISTER_COUNT => return Err(SrcError::Register(reg)),
        Value::Reg(reg) => {
            even(reg)?;
            u8::from(src.discard) << 6 | reg
        }
        Value::Uniform(word) => {
            even(word)?;
            (SRC_UNIFORM << 6) | (word % PAGE_WORDS)
        }
        Value::Const(SPARE_CONSTANT) => return Err(SrcError::SpareConstant),
        Value::Const(index) if index >= 32 => return Err(SrcError::Constant(index)),
        Value::Const(index) => SRC_FAU << 6 | index,
        Value::Special(_, word) if word > 1 => return Err(SrcError::Word(word)),
        Value::Special(which, word) => {
            even(word)?;
            SRC_FAU << 6 | 0x20 | special_place(which).1 << 1 | word
        }
    };
    let mut out = u64::from(byte) << info.pos;
    match info.neg_abs {
        Some((neg, abs)) => out |= u64::from(src.neg) << neg | u64::from(src.abs) << abs,
        None if src.neg => return Err(SrcError::Neg),
        None if src.abs => return Err(SrcError::Abs),
        None => {}
    }
    match info.not {
        Some(not) => out |= u64::from(src.not) << not,
        None if src.not => return Err(SrcError::Not),
        None => {}
    }
    match info.swizzle {
        Some(field) => {
            let name = field.names.iter().find(|n| n.swizzle == src.swizzle);
            out |= u64::from(name.ok_or(SrcError::Swizzle(src.swizzle))?.bits) << field.pos;
        }
        None if src.swizzle != Swizzle::None => return Err(SrcError::Swizzle(src.swizzle)),
        None => {}
    }
    Ok(out)
}

fn decode_src(word: u64, info: &SrcInfo) -> Result<Src, SrcError> {
    let byte = bits(word, info.pos, 8) as u8;
    let page = bits(word, PAGE_POS, 2) as u8;
    let low = byte & 0x3f;
    let value = match byte >> 6 {
        SRC_UNIFORM => Value::Uniform(page * PAGE_WORDS + low),
        SRC_FAU if low == SPARE_CONSTANT => return Err(SrcError::SpareConstant),
        SRC_FAU if low < 32 => Value::Const(low),
        SRC_FAU => {
            let slot = (low & 0x1f) >> 1;
            let found = SPECIALS.iter().find(|(_, p, s)| (*p, *s) == (page, slot));
            let (which, _, _) = found.ok_or(SrcError::Special { page, index: slot })?;
            Value::Special(*which, low & 1)
        }
        _ => Value::Reg(low),
    };
    if info.size == 64 && byte & 1 != 0 && !matches!(value, Value::Const(_)) {
        return Err(SrcError::Odd);
    }
    let mut src = Src {
        discard: byte >> 6 == 1,
        ..Src::of(value)
    };
    if let Some((neg, abs)) = info.neg_abs {
        src.neg = bits(word, neg, 1) != 0;
        src.abs = bits(word, abs, 1) != 0;
    }
    if let Some(not) = info.not {
        src.not = bits(word, not, 1) != 0;
    }
    if let Some(field) = info.swizzle {
        let value = bits(word, field.pos, field.width) as u8;
        let name = field.names.iter().find(|n| n.bits == value);
        src.swizzle = name.ok_or(SrcError::ReservedSwizzle(value))?.swizzle;
    }
    Ok(src)
}

impl Instr {
    /// An instruction with nothing but its name: sources are [`Src::ZERO`] with the first swizzle that they have, a
    /// destination is r0, staging registers start at r0 with the number that the width asks for, modifiers have
    /// their default or, where there is none, the first value of the table.
    pub fn new(op: Op) -> Instr {
        let info = op.info();
        let mut srcs = [Src::NONE; 4];
        for (src, src_info) in srcs.iter_mut().zip(info.srcs) {
            *src = Src::ZERO;
            if let Some(field) = src_info.swizzle {
                src.swizzle = field.names[0].swizzle;
            }
        }
        let mut mods = Mods::DEFAULT;
        for field in info.mods {
            let default = mod_value(&mods, field.kind);
            if !field.values.iter().any(|v| v.value == default) {
                set_mod(&mut mods, field.kind, field.values[0].value);
            }
        }
        let (count, out) = staging_counts(info, &mods);
        let block = |count: Option<u8>| Some(Staging::new(0, count.unwrap_or(2)));
        Instr {
            op,
            dest: (info.dest != DestKind::None).then_some(Dest::reg(0)),
            srcs,
            staging: if info.staging == StagingKind::None {
                None
            } else {
                block(count)
            },
            staging_out: if info.staging == StagingKind::ReadWrite {
                block(out)
            } else {
                None
            },
            imm: 0,
            mods,
            flow: Flow::None,
            raw: 0,
        }
    }

    /// Checks what the encoding can express but hardware does not define: the sources may read one 64-bit uniform
    /// slot, one special value, and no more than 64 bits of uniforms, special values and constants altogether.
    /// (Mesa, panfrost/compiler/bifrost/valhall/va_validate.c.)
    ///
    /// # Errors
    /// Names the rule.
    pub fn check_fau(&self) -> Result<(), FauError> {
        check_fau(self.op.info(), &self.srcs)
    }

    /// The instruction as a 64-bit word, little-endian in memory.
    ///
    /// # Errors
    /// Names the member that the instruction does not have, that is missing, or that does not fit, or the rule of
    /// [`Instr::check_fau`] that it breaks.
    pub fn encode(&self) -> Result<u64, EncodeError> {
        let word = self.encode_unchecked()?;
        match self.check_fau() {
            Ok(()) => Ok(word),
            Err(why) => Err(EncodeError::Fau {
                op: self.op.mnemonic(),
                why,
            }),
        }
    }

    /// As [`Instr::encode`], without [`Instr::check_fau`]: whatever the encoding can express.
    ///
    /// # Errors
    /// As [`Instr::encode`].
    pub fn encode_unchecked(&self) -> Result<u64, EncodeError> {
        let info = self.op.info();
        let op = info.mnemonic;
        let layout = &index().layouts[self.op as usize];
        let mut word = layout.value;
        let flow = FLOWS
            .iter()
            .position(|f| *f == Some(self.flow))
            .unwrap_or(0);
        word |= (flow as u64) << FLOW_POS;
        if info.family == Family::Graphics {
            return self.encode_graphics(word, layout);
        }
        if self.raw != 0 {
            return Err(EncodeError::Raw { op, bits: self.raw });
        }
        word |= self.encode_dest(info)?;
        for (i, src) in self.srcs.iter().enumerate() {
            let fail = |why| EncodeError::Src {
                op,
                index: i as u8,
                why,
            };
            match info.srcs.get(i) {
                Some(src_info) => word |= encode_src(src, src_info).map_err(fail)?,
                None if *src != Src::NONE => return Err(fail(SrcError::Extra)),
                None => {}
            }
        }
        let page = page_of(&self.srcs).map_err(|why| EncodeError::Fau { op, why })?;
        word |= u64::from(page.unwrap_or(0)) << PAGE_POS;
        word |= self.encode_mods(info)?;
        word |= self
            .encode_staging(info)
            .map_err(|why| EncodeError::Staging { op, why })?;
        self.encode_imms(info, word)
    }

    fn encode_graphics(&self, word: u64, layout: &Layout) -> Result<u64, EncodeError> {
        let op = self.op.mnemonic();
        let page = self.raw >> OPCODE_POS;
        let low = self.raw & RAW_BITS;
        let wrong =
            (low ^ layout.value) & layout.fixed & RAW_BITS | (page & !ones(2)) << OPCODE_POS;
        if wrong != 0 {
            return Err(EncodeError::Raw { op, bits: wrong });
        }
        let plain = Instr {
            flow: self.flow,
            raw: self.raw,
            ..Instr::new(self.op)
        };
        if *self != plain {
            return Err(EncodeError::Modifier {
                op,
                field: "member beside its raw bits",
            });
        }
        Ok(word | low | page << PAGE_POS)
    }

    fn encode_dest(&self, info: &OpInfo) -> Result<u64, EncodeError> {
        let op = info.mnemonic;
        let dest = match (info.dest, self.dest) {
            (DestKind::None, None) => return Ok(0),
            (DestKind::None, Some(_)) => return Err(EncodeError::ExtraDest { op }),
            (_, None) => return Err(EncodeError::MissingDest { op }),
            (_, Some(dest)) => dest,
        };
        let fail = |why| {
            Err(EncodeError::Dest {
                op,
                reg: dest.reg,
                why,
            })
        };
        if dest.reg >= REGISTER_COUNT {
            return fail("the last register is r63");
        }
        if info.dest == DestKind::Pair {
            if dest.reg % 2 != 0 {
                return fail("a pair starts at an even register");
            }
            if dest.mask != DestMask::Full {
                return fail("a pair is written as a whole");
            }
        }
        let mask = match dest.mask {
            DestMask::Full => FULL,
            DestMask::Low => LOW,
            DestMask::High => HIGH,
        };
        Ok(u64::from(dest.reg) << DEST_POS | mask << (DEST_POS + 6))
    }

    fn encode_mods(&self, info: &OpInfo) -> Result<u64, EncodeError> {
        let op = info.mnemonic;
        let mut word = 0;
        // What is left after taking the instruction's own fields away has to be the default.
        let mut rest = self.mods;
        for field in info.mods {
            let value = mod_value(&self.mods, field.kind);
            let found = field.values.iter().find(|v| v.value == value);
            let found = found.ok_or(EncodeError::Modifier {
                op,
                field: field.name,
            })?;
            word |= u64::from(found.bits) << field.pos;
            set_mod(&mut rest, field.kind, mod_value(&Mods::DEFAULT, field.kind));
        }
        if info.imms.iter().any(|i| i.target == ImmTarget::Table) {
            rest.table = 0;
        }
        if rest != Mods::DEFAULT {
            let differs = |(kind, _): &&(ModKind, &str)| {
                mod_value(&rest, *kind) != mod_value(&Mods::DEFAULT, *kind)
            };
            let field = KINDS.iter().find(differs).map_or("table", |(_, name)| name);
            return Err(EncodeError::Modifier { op, field });
        }
        Ok(word)
    }

    fn encode_staging(&self, info: &OpInfo) -> Result<u64, StagingError> {
        if self.staging_out.is_some() != (info.staging == StagingKind::ReadWrite) {
            return Err(if self.staging_out.is_some() {
                StagingError::Extra
            } else {
                StagingError::Missing
            });
        }
        let block = match (info.staging, self.staging) {
            (StagingKind::None, None) => return Ok(0),
            (StagingKind::None, Some(_)) => return Err(StagingError::Extra),
            (_, None) => return Err(StagingError::Missing),
            (_, Some(block)) => block,
        };
        let (count, out_count) = staging_counts(info, &self.mods);
        if info.staging == StagingKind::WritePair {
            check_block(block, Some(2), false)?;
            return Ok(u64::from(block.reg) << DEST_POS);
        }
        check_block(block, count, may_be_empty(info))?;
        let mut word =
            u64::from(block.reg) << DEST_POS | u64::from(block.count) << STAGING_COUNT_POS;
        if let Some(out) = self.staging_out {
            check_block(out, out_count, false)?;
            word |= u64::from(out.reg) << STAGING_OUT_POS;
            word |= u64::from(out.count.saturating_sub(1)) << STAGING_OUT_COUNT_POS;
        }
        Ok(word)
    }

    fn encode_imms(&self, info: &OpInfo, mut word: u64) -> Result<u64, EncodeError> {
        let op = info.mnemonic;
        let mut has_imm = false;
        for imm in info.imms {
            let value = match imm.target {
                ImmTarget::Table => i64::from(self.mods.table),
                ImmTarget::Imm if imm.width == 32 => i64::from(self.imm as u32),
                ImmTarget::Imm => i64::from(self.imm),
            };
            has_imm |= imm.target == ImmTarget::Imm;
            let (min, max) = imm.range();
            if value < min || value > max {
                return Err(EncodeError::Immediate {
                    op,
                    field: imm.name,
                    value,
                    min,
                    max,
                });
            }
            let align = offset_align(info);
            if value % i64::from(align) != 0 {
                return Err(EncodeError::Misaligned { op, value, align });
            }
            word |= (value as u64 & ones(imm.width)) << imm.pos;
        }
        if !has_imm && self.imm != 0 {
            let value = i64::from(self.imm);
            return Err(EncodeError::Immediate {
                op,
                field: "immediate",
                value,
                min: 0,
                max: 0,
            });
        }
        Ok(word)
    }
}

/// Decodes one instruction word. What it returns can be encoded to the same word by
/// [`Instr::encode_unchecked`]; whether hardware defines the combination of uniforms is for [`Instr::check_fau`].
///
/// # Errors
/// Names the field that is reserved or wrong. Never panics, whatever the word.
pub fn decode(word: u64) -> Result<Instr, DecodeError> {
    let index = index();
    let opcode = bits(word, OPCODE_POS, 9) as u16;
    let matches = |op: &&Op| {
        let sub = op.info().sub;
        (word ^ sub.value) & sub.mask == 0
    };
    let unknown = DecodeError::UnknownOpcode { word, opcode };
    let op = *index.by_opcode[usize::from(opcode)]
        .iter()
        .find(matches)
        .ok_or(unknown)?;
    let info = op.info();
    let name = info.mnemonic;
    let layout = &index.layouts[op as usize];
    let wrong = (word ^ layout.value) & layout.fixed;
    if wrong != 0 {
        return Err(DecodeError::Reserved {
            word,
            op: name,
            bits: wrong,
        });
    }
    let reserved = |field, value| DecodeError::ReservedValue {
        word,
        op: name,
        field,
        value,
    };
    let flow = bits(word, FLOW_POS, 4) as u8;
    let flow = FLOWS[usize::from(flow)].ok_or(reserved("flow", flow))?;
    let page = bits(word, PAGE_POS, 2) as u8;
    let mut instr = Instr {
        op,
        dest: None,
        srcs: [Src::NONE; 4],
        staging: None,
        staging_out: None,
        imm: 0,
        mods: Mods::DEFAULT,
        flow,
        raw: 0,
    };
    if info.family == Family::Graphics {
        instr.raw = word & RAW_BITS | u64::from(page) << OPCODE_POS;
        return Ok(instr);
    }
    let reg = bits(word, DEST_POS, 6) as u8;
    instr.dest = match info.dest {
        DestKind::None => None,
        DestKind::Pair if reg % 2 != 0 => {
            return Err(DecodeError::OddDest {
                word,
                op: name,
                reg,
            });
        }
        DestKind::Pair => Some(Dest::reg(reg)),
        DestKind::Word => {
            let mask = match bits(word, DEST_POS + 6, 2) {
                FULL => DestMask::Full,
                LOW => DestMask::Low,
                HIGH => DestMask::High,
                value => return Err(reserved("destination halves", value as u8)),
            };
            Some(Dest { reg, mask })
        }
    };
    for (i, src_info) in info.srcs.iter().enumerate() {
        let fail = |why| DecodeError::Src {
            word,
            op: name,
            index: i as u8,
            why,
        };
        instr.srcs[i] = decode_src(word, src_info).map_err(fail)?;
    }
    if page != 0 && page_of(&instr.srcs) == Ok(None) {
        return Err(DecodeError::UnusedPage {
            word,
            op: name,
            page,
        });
    }
    for field in info.mods {
        let value = bits(word, field.pos, field.width) as u8;
        let found = field
            .values
            .iter()
            .find(|v| v.bits == value)
            .ok_or(reserved(field.name, value))?;
        set_mod(&mut instr.mods, field.kind, found.value);
    }
    decode_staging(word, info, &mut instr).map_err(|why| DecodeError::Staging {
        word,
        op: name,
        why,
    })?;
    for imm in info.imms {
        let raw = bits(word, imm.pos, imm.width);
        let value = if imm.signed {
            (raw as i64) << (64 - imm.width) >> (64 - imm.width)
        } else {
            raw as i64
        };
        let align = offset_align(info);
        if value % i64::from(align) != 0 {
            return Err(DecodeError::Misaligned {
                word,
                op: name,
                value,
                align,
            });
        }
        match imm.target {
            ImmTarget::Imm => instr.imm = value as i32,
            ImmTarget::Table => instr.mods.table = value as u8,
        }
    }
    Ok(instr)
}

fn decode_staging(word: u64, info: &OpInfo, instr: &mut Instr) -> Result<(), StagingError> {
    if info.staging == StagingKind::None {
        return Ok(());
    }
    let block = Staging::new(
        bits(word, DEST_POS, 6) as u8,
        bits(word, STAGING_COUNT_POS, 3) as u8,
    );
    let (count, out_count) = staging_counts(info, &instr.mods);
    check_block(block, count, may_be_empty(info))?;
    instr.staging = Some(block);
    if info.staging == StagingKind::ReadWrite {
        let count = bits(word, STAGING_OUT_COUNT_POS, 3) as u8 + 1;
        let out = Staging::new(bits(word, STAGING_OUT_POS, 6) as u8, count);
        check_block(out, out_count, false)?;
        instr.staging_out = Some(out);
    }
    Ok(())
}
