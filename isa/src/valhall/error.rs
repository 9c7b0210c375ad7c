//! Why an instruction or a word is refused.

use super::types::Swizzle;

/// What is wrong with the sources that come from the FAU: uniforms, constants and special values.
/// (Mesa, panfrost/compiler/bifrost/valhall/va_validate.c.)
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FauError {
    /// Uniforms of two different 64-bit slots.
    #[error("reads two 64-bit uniform slots, one is the most")]
    Slots,
    /// More than two different 32-bit words of uniforms, constants and special values.
    #[error("reads more than 64 bits of uniforms, constants and special values")]
    Words,
    /// Two different special values, or a uniform beside a special value of another page.
    #[error("reads two pages of uniforms and special values, one is the most")]
    Pages,
    /// Two different special values.
    #[error("reads two special values, one is the most")]
    Specials,
}

/// What is wrong with a source.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SrcError {
    /// The instruction has this source, but none is given.
    #[error("is missing")]
    Missing,
    /// The instruction has no such source.
    #[error("does not exist")]
    Extra,
    /// Register above r63.
    #[error("names r{0}, the last register is r63")]
    Register(u8),
    /// Constant above 31.
    #[error("names constant {0}, the last one is 31")]
    Constant(u8),
    /// Constant 21, which v10 keeps spare.
    #[error("names constant 21, which is spare on v10")]
    SpareConstant,
    /// Special value that v10 does not have.
    #[error("names special value {index} of page {page}, which v10 does not have")]
    Special {
        /// FAU page.
        page: u8,
        /// 64-bit slot.
        index: u8,
    },
    /// Word of a special value that is neither 0 nor 1.
    #[error("names word {0} of a special value, which has words 0 and 1")]
    Word(u8),
    /// A 64-bit source that does not start at an even word or register.
    #[error("is 64 bits wide and has to start at an even register or word")]
    Odd,
    /// Last-use mark on something that is no register.
    #[error("is no register and cannot be marked as last use")]
    Discard,
    /// Negation on a source without it.
    #[error("cannot be negated")]
    Neg,
    /// Absolute value on a source without it.
    #[error("has no absolute value modifier")]
    Abs,
    /// Complement on a source without it.
    #[error("cannot be complemented")]
    Not,
    /// Swizzle that the source does not have.
    #[error("does not have the swizzle {0}")]
    Swizzle(Swizzle),
    /// Reserved bits in the swizzle field.
    #[error("has the reserved swizzle {0}")]
    ReservedSwizzle(u8),
}

/// Why an instruction has no encoding.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum EncodeError {
    /// The instruction needs a destination.
    #[error("{op}: the destination is missing")]
    MissingDest {
        /// Instruction.
        op: &'static str,
    },
    /// The instruction has no destination.
    #[error("{op} has no destination")]
    ExtraDest {
        /// Instruction.
        op: &'static str,
    },
    /// Destination register above r63, odd for a pair, or half of a pair.
    #[error("{op}: r{reg} cannot be the destination ({why})")]
    Dest {
        /// Instruction.
        op: &'static str,
        /// Register.
        reg: u8,
        /// Reason.
        why: &'static str,
    },
    /// A source is wrong.
    #[error("{op}: source {index} {why}")]
    Src {
        /// Instruction.
        op: &'static str,
        /// Number of the source, from 0.
        index: u8,
        /// Reason.
        why: SrcError,
    },
    /// The sources together are wrong.
    #[error("{op} {why}")]
    Fau {
        /// Instruction.
        op: &'static str,
        /// Reason.
        why: FauError,
    },
    /// Staging registers are missing, superfluous, beyond r63, odd, or of the wrong number.
    #[error("{op}: staging registers: {why}")]
    Staging {
        /// Instruction.
        op: &'static str,
        /// Reason.
        why: StagingError,
    },
    /// A modifier that the instruction does not have, or a value of it that it does not have.
    #[error("{op} does not have this {field}")]
    Modifier {
        /// Instruction.
        op: &'static str,
        /// Field.
        field: &'static str,
    },
    /// A number that does not fit.
    #[error("{op}: {field} {value} does not fit, {min} to {max} does")]
    Immediate {
        /// Instruction.
        op: &'static str,
        /// Field.
        field: &'static str,
        /// Value.
        value: i64,
        /// Smallest value.
        min: i64,
        /// Largest value.
        max: i64,
    },
    /// A byte offset that is no multiple of the size of an atomic.
    #[error("{op}: offset {value} is no multiple of {align}")]
    Misaligned {
        /// Instruction.
        op: &'static str,
        /// Value.
        value: i64,
        /// What it has to be a multiple of.
        align: u8,
    },
    /// Raw bits outside those of a graphics instruction, or in another instruction.
    #[error("{op}: raw bits {bits:#x} do not belong to it")]
    Raw {
        /// Instruction.
        op: &'static str,
        /// Offending bits.
        bits: u64,
    },
}

/// What is wrong with staging registers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum StagingError {
    /// They are missing.
    #[error("missing")]
    Missing,
    /// The instruction has none.
    #[error("the instruction has none")]
    Extra,
    /// The block ends beyond r63.
    #[error("r{reg} and the {count} from there on end beyond r63")]
    Range {
        /// First register.
        reg: u8,
        /// Number of registers.
        count: u8,
    },
    /// A block of several registers starts at an odd one.
    #[error("a block of {count} cannot start at the odd r{reg}")]
    Odd {
        /// First register.
        reg: u8,
        /// Number of registers.
        count: u8,
    },
    /// The number differs from what the width asks for.
    #[error("{count} registers, the width asks for {wanted}")]
    Count {
        /// Given number.
        count: u8,
        /// Right number.
        wanted: u8,
    },
}

/// Why a word is no instruction of v10.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DecodeError {
    /// No instruction of v10 has this opcode.
    #[error(
        "{word:#018x}: no v10 instruction has opcode {opcode:#05x} with these secondary opcode bits"
    )]
    UnknownOpcode {
        /// The word.
        word: u64,
        /// Its bits 48 to 56.
        opcode: u16,
    },
    /// Bits that have to be zero (or fixed) are not.
    #[error("{word:#018x}: {op}: reserved bits {bits:#x} are wrong")]
    Reserved {
        /// The word.
        word: u64,
        /// Instruction.
        op: &'static str,
        /// Bits that differ from what they have to be.
        bits: u64,
    },
    /// A field has a reserved value.
    #[error("{word:#018x}: {op}: field {field} has the reserved value {value}")]
    ReservedValue {
        /// The word.
        word: u64,
        /// Instruction.
        op: &'static str,
        /// Field.
        field: &'static str,
        /// Value.
        value: u8,
    },
    /// A source is wrong.
    #[error("{word:#018x}: {op}: source {index} {why}")]
    Src {
        /// The word.
        word: u64,
        /// Instruction.
        op: &'static str,
        /// Number of the source, from 0.
        index: u8,
        /// Reason.
        why: SrcError,
    },
    /// A FAU page is selected, but no source reads from a page.
    #[error("{word:#018x}: {op}: FAU page {page} is selected, but no source reads it")]
    UnusedPage {
        /// The word.
        word: u64,
        /// Instruction.
        op: &'static str,
        /// Page.
        page: u8,
    },
    /// Destination of a pair at an odd register.
    #[error("{word:#018x}: {op}: the 64-bit destination r{reg} is odd")]
    OddDest {
        /// The word.
        word: u64,
        /// Instruction.
        op: &'static str,
        /// Register.
        reg: u8,
    },
    /// Staging registers are wrong.
    #[error("{word:#018x}: {op}: staging registers: {why}")]
    Staging {
        /// The word.
        word: u64,
        /// Instruction.
        op: &'static str,
        /// Reason.
        why: StagingError,
    },
    /// A byte offset that is no multiple of the size of an atomic.
    #[error("{word:#018x}: {op}: offset {value} is no multiple of {align}")]
    Misaligned {
        /// The word.
        word: u64,
        /// Instruction.
        op: &'static str,
        /// Value.
        value: i64,
        /// What it has to be a multiple of.
        align: u8,
    },
}
