//! What can be wrong with a command-stream word or its text.

use thiserror::Error;

/// Why the bits of one field, or a value for it, are not valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FieldError {
    /// The register file has fewer registers.
    #[error("there is no register {0}")]
    NoSuchRegister(u64),
    /// A 64-bit operand must start at an even register.
    #[error("a pair cannot start at the odd register {0}")]
    OddPair(u64),
    /// The value is reserved.
    #[error("value {0} is reserved")]
    Reserved(u64),
    /// The value does not fit into the field.
    #[error("value {value:#x} does not fit into {bits} bits")]
    TooWide {
        /// The value given.
        value: u64,
        /// The field's width.
        bits: u8,
    },
}

/// A 64-bit word is no v10 command-stream instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DecodeError {
    /// No v10 instruction has this opcode.
    #[error("{word:#018x}: v10 has no opcode {opcode}")]
    UnknownOpcode {
        /// The word.
        word: u64,
        /// Its top byte.
        opcode: u8,
    },
    /// Bits outside every field are set.
    #[error("{word:#018x}: reserved bits {bits:#x} of {mnemonic} are set")]
    ReservedBits {
        /// The word.
        word: u64,
        /// The instruction.
        mnemonic: &'static str,
        /// The offending bits, in place.
        bits: u64,
    },
    /// A field has a value that means nothing.
    #[error("{word:#018x}: field {field} of {mnemonic}: {error}")]
    Field {
        /// The word.
        word: u64,
        /// The instruction.
        mnemonic: &'static str,
        /// The field.
        field: &'static str,
        /// What is wrong with it.
        error: FieldError,
    },
}

/// An instruction's fields hold values that have no encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("field {field} of {mnemonic}: {error}")]
pub struct EncodeError {
    /// The instruction.
    pub mnemonic: &'static str,
    /// The field.
    pub field: &'static str,
    /// What is wrong with it.
    pub error: FieldError,
}

/// A line of text is no command-stream instruction.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ParseError {
    /// The first word names no instruction.
    #[error("no instruction is called {0:?}")]
    UnknownMnemonic(String),
    /// Something else was expected.
    #[error("expected {expected} at {found:?}")]
    Expected {
        /// What belongs there.
        expected: String,
        /// The rest of the line.
        found: String,
    },
    /// An operand has no encoding.
    #[error(transparent)]
    Encode(#[from] EncodeError),
}

/// A program's bytes or text do not hold instructions.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ProgramError {
    /// The bytes do not divide into words of eight.
    #[error("{0} bytes are no whole number of 8-byte instructions")]
    Length(usize),
    /// A word does not decode.
    #[error("offset {offset:#x}: {error}")]
    Decode {
        /// Byte offset of the word.
        offset: usize,
        /// Why.
        error: DecodeError,
    },
    /// A line does not parse.
    #[error("line {line}: {error}")]
    Parse {
        /// One-based line.
        line: usize,
        /// Why.
        error: ParseError,
    },
    /// A branch names a label that nothing defines.
    #[error("line {line}: no label {label:?}")]
    NoLabel {
        /// One-based line.
        line: usize,
        /// The label.
        label: String,
    },
    /// A label is defined twice.
    #[error("line {line}: label {label:?} is defined twice")]
    LabelTwice {
        /// One-based line.
        line: usize,
        /// The label.
        label: String,
    },
    /// A branch is too far from its label.
    #[error("line {line}: {offset} instructions do not fit into a branch")]
    TooFar {
        /// One-based line.
        line: usize,
        /// Instructions between the one after the branch and the target.
        offset: i64,
    },
}
