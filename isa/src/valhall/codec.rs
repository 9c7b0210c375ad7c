//! What encoding and decoding share: bit positions, the layout of an instruction as the table gives it, and the
//! rules that hold between its parts.

use std::sync::OnceLock;

use super::error::{FauError, StagingError};
use super::mods::*;
use super::table::{DestKind, Family, ModKind, Op, OpInfo, StagingKind, TABLE_OF_OPS};
use super::types::*;

/// First bit and width of the fields that every instruction has.
pub(super) const DEST_POS: u8 = 40;
pub(super) const STAGING_COUNT_POS: u8 = 33;
pub(super) const STAGING_OUT_POS: u8 = 16;
pub(super) const STAGING_OUT_COUNT_POS: u8 = 36;
pub(super) const OPCODE_POS: u8 = 48;
pub(super) const OPCODE_BITS: u64 = 0x1ff;
pub(super) const PAGE_POS: u8 = 57;
pub(super) const FLOW_POS: u8 = 59;
/// Upper bits of the register field: both halves written, or the direction of staging registers.
/// (Mesa, kraid's isa-v9-v14.xml, enums `dest_width_m` and `sr_control_t`.)
pub(super) const FULL: u64 = 3;
pub(super) const LOW: u64 = 1;
pub(super) const HIGH: u64 = 2;
const CONTROL_READ: u64 = 1;
const CONTROL_WRITE: u64 = 2;
const CONTROL_READ_WRITE: u64 = 3;
/// Low 48 bits of a graphics instruction are raw.
pub(super) const RAW_BITS: u64 = (1 << OPCODE_POS) - 1;

/// Kinds of value in the upper two bits of a source (Mesa, kraid's encode_v9.rs, `encode_src_ref`).
pub(super) const SRC_UNIFORM: u8 = 2;
pub(super) const SRC_FAU: u8 = 3;
/// Constant 21 is zero and spare until v10 (kraid's `small_constant_t`).
pub(super) const SPARE_CONSTANT: u8 = 21;

/// FAU page and 64-bit slot of the special values of v10.
pub(super) const SPECIALS: &[(Special, u8, u8)] = &[
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
pub(super) const FLOWS: [Option<Flow>; 16] = [
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

pub(super) const fn ones(width: u8) -> u64 {
    (1u64 << width) - 1
}

pub(super) const fn bits(word: u64, pos: u8, width: u8) -> u64 {
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
    pub(super) fixed: u64,
    pub(super) value: u64,
}

/// Layouts of all instructions and the candidates for every opcode.
pub(super) struct Index {
    pub(super) layouts: Vec<Layout>,
    pub(super) by_opcode: Vec<Vec<Op>>,
}

pub(super) fn index() -> &'static Index {
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
        // Where several match, the one with the most opcode bits is meant.
        for ops in &mut by_opcode {
            ops.sort_by_key(|op: &Op| std::cmp::Reverse(op.info().sub.mask.count_ones()));
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
pub(super) fn staging_counts(info: &OpInfo, mods: &Mods) -> (Option<u8>, Option<u8>) {
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

pub(super) fn check_block(
    block: Staging,
    wanted: Option<u8>,
    may_be_empty: bool,
) -> Result<(), StagingError> {
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
pub(super) fn may_be_empty(info: &OpInfo) -> bool {
    matches!(info.op, Op::Atom1ReturnI32 | Op::Atom1ReturnI64)
}

/// Bytes that the offset of an atomic has to be a multiple of (kraid's isa-v9-v14.xml, `align`).
pub(super) fn offset_align(info: &OpInfo) -> u8 {
    match info.family {
        Family::Atomic => info.memory_bits().unwrap_or(8).div_ceil(8) as u8,
        _ => 1,
    }
}

pub(super) fn special_place(which: Special) -> (u8, u8) {
    SPECIALS
        .iter()
        .find(|(s, _, _)| *s == which)
        .map_or((0, 0), |(_, page, slot)| (*page, *slot))
}

/// The page that the sources select.
pub(super) fn page_of(srcs: &[Src; 4]) -> Result<Option<u8>, FauError> {
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
pub(super) fn check_fau(info: &OpInfo, srcs: &[Src; 4]) -> Result<(), FauError> {
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
