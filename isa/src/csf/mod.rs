//! CSF v10 command-stream instructions: encode, decode, text.
//!
//! A command stream is a sequence of 64-bit little-endian words that the GPU's command-stream front end executes for a
//! queue. Glossary:
//! - *register*: one of 96 32-bit registers, `r0` to `r95`; `dN` is the pair `rN` (low), `rN+1` (high), N even.
//! - *scoreboard entry* (SB): one of 8 counters of unfinished asynchronous work; WAIT blocks until those of its mask
//!   are zero. SET_SB_ENTRY selects the entry for jobs ("endpoint") and the one for loads and stores ("other").
//! - *deferred*: an instruction with a wait mask other than zero runs in the background once the mask's entries are
//!   idle, and signals its own slot.
//! - *sync object*: a counter in memory with an error word behind it, by which queues and the host wait for each other.
//!
//! ```
//! use mali_isa::csf::{Instr, Reg64};
//! let move48 = Instr::Move48 { dst: Reg64(4), imm: 0xffff_1000 };
//! assert_eq!(move48.to_string(), "MOVE48 d4, #0xFFFF1000");
//! assert_eq!(Instr::decode(move48.encode()?)?, move48);
//! assert_eq!("MOVE48 d4, #0xffff1000".parse::<Instr>()?, move48);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod error;
mod fields;
mod program;
mod table;
mod text;

pub use error::{DecodeError, EncodeError, FieldError, ParseError, ProgramError};
pub use fields::{
    Bytes8, Condition, ExceptionType, FieldValue, FlushMode, HeapOperation, KERNEL_REGISTERS, Kind,
    OtherFlushMode, REGISTERS, Reg32, Reg64, SCOREBOARDS, State, SyncScope, TaskAxis, TileOrder,
};
pub use program::{INSTR_BYTES, STREAM_ALIGNMENT, assemble_program, decode_program, disassemble};
pub use table::{Field, Instr, Op, TABLE};

/// Packs an instruction into its word.
///
/// # Errors
/// [`EncodeError`] where a field's value has no encoding.
pub fn encode(instr: &Instr) -> Result<u64, EncodeError> {
    instr.encode()
}

/// Unpacks a word.
///
/// # Errors
/// [`DecodeError`] where the opcode, a reserved bit or a field's value is not v10's.
pub fn decode(word: u64) -> Result<Instr, DecodeError> {
    Instr::decode(word)
}

#[cfg(test)]
mod tests;
