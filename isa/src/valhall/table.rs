//! The instruction table: what encoding, decoding, text, assembler and field documentation are made from.
//!
//! Opcodes, field positions and enum values are those of Mesa, panfrost/compiler/bifrost/valhall/ISA.xml and
//! valhall.py (names, text order), completed and corrected by panfrost/compiler/kraid/isa-v9-v14.xml (which
//! instruction and which value exists on v10, execution units). Common to all: the first source in bits 0 to 7,
//! the second in 8 to 15 and so on, destination or staging register in 40 to 47, opcode in 48 to 56, FAU page
//! in 57 and 58, flow in 59 to 62, bit 63 zero.

use super::types::*;

/// Execution unit that an instruction occupies.
/// (Mesa: `unit` in ISA.xml; `exec_unit` in kraid's isa-v9-v14.xml, where LS, V, T and VT are all `msg`.)
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Unit {
    /// Floating point multiply-add and dot products.
    Fma,
    /// Conversion, integer addition, comparison, branch.
    Cvt,
    /// Special functions, integer multiplication, shifts, cross-lane.
    Sfu,
    /// Message to the load and store unit.
    Ls,
    /// Message to the varying unit.
    Varying,
    /// Message to the texture unit.
    Texture,
    /// Message to varying and texture unit.
    VaryingTexture,
    /// Message to the tile buffer, the blender or the barrier.
    Fixed,
}

/// Kind of instruction.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Family {
    /// `NOP`.
    Nop,
    /// Signals to the outside.
    System,
    /// Branches.
    Branch,
    /// Barriers.
    Barrier,
    /// Integer arithmetic.
    Integer,
    /// Shifts, bitwise operations, bit counting, vector building, moves.
    Bit,
    /// Floating point arithmetic.
    Float,
    /// Table look-ups and steps of transcendental functions.
    Special,
    /// Conversions and rounding.
    Convert,
    /// Comparisons.
    Compare,
    /// Selections.
    Select,
    /// Cross-lane operations.
    Subgroup,
    /// Loads from memory or a buffer.
    Load,
    /// Stores to memory.
    Store,
    /// Address of a buffer.
    Address,
    /// Atomics.
    Atomic,
    /// Clocks.
    Clock,
    /// Textures, varyings, attributes, blending: decoded to raw fields only.
    Graphics,
}

/// Destination of an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum DestKind {
    /// None.
    None,
    /// A register, of which one half can be selected.
    Word,
    /// An even register pair.
    Pair,
}

/// One spelling of a swizzle in a field.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SwizzleName {
    /// Bits in the field.
    pub bits: u8,
    /// Meaning.
    pub swizzle: Swizzle,
    /// Text, empty where nothing is written. The first entry of a value is written, later ones are only read.
    pub text: &'static str,
}

/// Where a source keeps its swizzle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SwizzleField {
    /// First bit.
    pub pos: u8,
    /// Number of bits.
    pub width: u8,
    /// Values.
    pub names: &'static [SwizzleName],
}

/// One source of an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SrcInfo {
    /// Bits of an element: 8, 16, 32 or 64. 64 takes an even pair.
    pub size: u8,
    /// First of the eight bits that name the value.
    pub pos: u8,
    /// Positions of the negate and absolute value bits.
    pub neg_abs: Option<(u8, u8)>,
    /// Position of the complement bit.
    pub not: Option<u8>,
    /// Swizzle field.
    pub swizzle: Option<SwizzleField>,
    /// Whether the source is a floating point number.
    pub float: bool,
}

/// Registers that a message reads or writes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum StagingKind {
    /// None.
    None,
    /// `count` at bit 33 registers at bit 40 are read.
    Read,
    /// `count` at bit 33 registers at bit 40 are written.
    Write,
    /// Two registers at bit 40 are written.
    WritePair,
    /// `count` at bit 33 registers at bit 40 are read, `count` at bit 36 registers at bit 16 are written.
    ReadWrite,
}

/// Which member an immediate belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ImmTarget {
    /// [`super::Instr::imm`].
    Imm,
    /// [`super::Mods::table`].
    Table,
}

/// An immediate number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ImmInfo {
    /// Name in the text; `constant` is written as `#`.
    pub name: &'static str,
    /// First bit.
    pub pos: u8,
    /// Number of bits.
    pub width: u8,
    /// Two's complement and written in decimal; else written in hexadecimal.
    pub signed: bool,
    /// Member that holds it.
    pub target: ImmTarget,
}

impl ImmInfo {
    /// Smallest and largest value.
    pub const fn range(&self) -> (i64, i64) {
        if self.signed {
            (-(1 << (self.width - 1)), (1 << (self.width - 1)) - 1)
        } else {
            (0, (1 << self.width) - 1)
        }
    }
}

/// Member of [`super::Mods`] that a field belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)]
pub enum ModKind {
    Clamp,
    Round,
    Cond,
    Result,
    Saturate,
    NotResult,
    Rhadd,
    Mux,
    LaneOp,
    Subgroup,
    Inactive,
    Slot,
    Access,
    LoadLane,
    Unsigned,
    Atomic,
    Compare,
    Eq,
    Conservative,
    Absolute,
    Second,
    Nan,
    Ftz,
    FlushInf,
    Neg,
    PreserveNull,
    Clock,
    Combine,
    Frexp,
    FlogMode,
    FlogPrecision,
    Ldexp,
    Pow,
    Low,
    JumpStack,
    Sticky,
    NanPropagate,
    Mask,
    NegResult,
    TableOffset,
    TableScale,
    Carry,
    Diverge,
    Spelling,
}

/// One value of a modifier field.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ModValue {
    /// Bits in the field.
    pub bits: u8,
    /// Number of the value in its enum (0 and 1 for flags).
    pub value: u8,
    /// Text without the dot, empty where nothing is written.
    pub text: &'static str,
}

/// A modifier field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ModField {
    /// Name of the field.
    pub name: &'static str,
    /// First bit.
    pub pos: u8,
    /// Number of bits.
    pub width: u8,
    /// Member of [`super::Mods`].
    pub kind: ModKind,
    /// Legal values; every other is reserved.
    pub values: &'static [ModValue],
    /// What it does.
    pub doc: &'static str,
}

/// A field of a graphics instruction.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RawField {
    /// Name.
    pub name: &'static str,
    /// First bit.
    pub pos: u8,
    /// Number of bits.
    pub width: u8,
}

/// Bits besides the opcode that tell instructions apart, or that an instruction fixes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Fixed {
    /// Bits compared.
    pub mask: u64,
    /// Their value.
    pub value: u64,
}

impl Fixed {
    /// Nothing fixed.
    pub const NONE: Fixed = Fixed { mask: 0, value: 0 };

    /// Both this and `other`.
    pub const fn and(self, other: Fixed) -> Fixed {
        Fixed {
            mask: self.mask | other.mask,
            value: self.value | other.value,
        }
    }

    /// `value` under `mask`, both shifted to `pos`.
    pub const fn at(pos: u8, mask: u64, value: u64) -> Fixed {
        Fixed {
            mask: mask << pos,
            value: value << pos,
        }
    }
}

/// All that is known of one instruction.
#[derive(Clone, Copy, Debug)]
pub struct OpInfo {
    /// The instruction.
    pub op: Op,
    /// Name with type, as in `FMA.f32`.
    pub mnemonic: &'static str,
    /// Execution unit.
    pub unit: Unit,
    /// Kind.
    pub family: Family,
    /// Bits 48 to 56.
    pub opcode: u16,
    /// Further opcode bits.
    pub sub: Fixed,
    /// Destination.
    pub dest: DestKind,
    /// Sources in encoding order.
    pub srcs: &'static [SrcInfo],
    /// Staging registers.
    pub staging: StagingKind,
    /// Immediates in text order.
    pub imms: &'static [ImmInfo],
    /// Modifiers in text order.
    pub mods: &'static [ModField],
    /// Raw fields, for graphics instructions only.
    pub raw: &'static [RawField],
}

impl OpInfo {
    /// Whether the instruction is a message, that is, takes time outside the pipeline and may hold a slot.
    pub const fn is_message(&self) -> bool {
        !matches!(self.unit, Unit::Fma | Unit::Cvt | Unit::Sfu)
    }

    /// Whether the destination or a source is 64 bits wide.
    pub fn is_wide(&self) -> bool {
        self.dest == DestKind::Pair || self.srcs.iter().any(|s| s.size == 64)
    }

    /// Bits of memory that a load, store or atomic touches per lane, where that is fixed.
    pub fn memory_bits(&self) -> Option<u16> {
        if !matches!(self.family, Family::Load | Family::Store | Family::Atomic) {
            return None;
        }
        self.mnemonic
            .rsplit_once(".i")
            .and_then(|(_, bits)| bits.parse().ok())
    }
}

include!("ops.rs");
