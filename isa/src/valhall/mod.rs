//! Valhall v10 shader instructions.
//!
//! One table ([`table`]) tells how every instruction is encoded, decoded, written and read.
//!
//! Glossary: FAU, fast access uniforms, the constant memory of a shader, with special values beside it; staging
//! register, a register block that a message reads or writes; message, an instruction that another unit executes
//! while the thread goes on; slot, the counter that tells when a message is done; flow, the field that waits for
//! slots or steers control after an instruction.

mod asm;
mod codec;
mod decode;
mod encode;
pub mod error;
mod fields;
pub mod mods;
pub mod table;
#[cfg(test)]
mod tests;
mod text;
pub mod types;

pub use asm::{AsmError, assemble, assemble_program};
pub use decode::decode;
pub use error::{DecodeError, EncodeError, FauError, SrcError, StagingError};
pub use mods::*;
pub use table::{DestKind, Family, Op, OpInfo, StagingKind, Unit};
pub use text::{FieldDoc, Line, LineError, disassemble, field_docs, graphics_fields};
pub use types::*;

/// Size of an instruction in bytes.
pub const INSTR_BYTES: usize = 8;

/// The constants that every instruction can name.
/// (Mesa, panfrost/compiler/bifrost/valhall/ISA.xml, `Immediates`; kraid's `small_constant_t` until v10, where
/// entry 21 is zero.)
const CONSTANTS: [u32; 32] = [
    0x0000_0000,
    0xffff_ffff,
    0x7fff_ffff,
    0xfafc_fdfe,
    0x0100_0000,
    0x8000_2000,
    0x7060_5030,
    0xc0b0_a090,
    0x0302_0100,
    0x0706_0504,
    0x0b0a_0908,
    0x0f0e_0d0c,
    0x1312_1110,
    0x1716_1514,
    0x1b1a_1918,
    0x1f1e_1d1c,
    0x3f80_0000,
    0x3dcc_cccd,
    0x3ea2_f983,
    0x3f31_7218,
    0x4049_0fdb,
    0x0000_0000,
    0x477f_ff00,
    0x5c00_5bf8,
    0x2e66_0000,
    0x3400_0000,
    0x3800_0000,
    0x3c00_0000,
    0x4000_0000,
    0x4400_0000,
    0x4800_0000,
    0x4248_0000,
];

/// Entry `index` of the constant table; entries above 31 do not exist and read as 0.
pub const fn const_value(index: u8) -> u32 {
    if (index as usize) < CONSTANTS.len() {
        CONSTANTS[index as usize]
    } else {
        0
    }
}

/// The first entry of the constant table that equals `bits`.
pub const fn const_index(bits: u32) -> Option<u8> {
    let mut i = 0;
    while i < 32 {
        if const_value(i) == bits {
            return Some(i);
        }
        i += 1;
    }
    None
}

/// One instruction.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Instr {
    /// What it does.
    pub op: Op,
    /// Destination, where the instruction has one ([`OpInfo::dest`]).
    pub dest: Option<Dest>,
    /// Sources in encoding order; those beyond [`OpInfo::srcs`] are [`Src::NONE`].
    pub srcs: [Src; 4],
    /// Registers that a message reads or writes ([`OpInfo::staging`]). `ATOM_RETURN` reads these.
    pub staging: Option<Staging>,
    /// Registers that `ATOM_RETURN` writes.
    pub staging_out: Option<Staging>,
    /// Immediate: byte offset of a memory access, branch distance in instructions relative to the next one, shift,
    /// index, or the bits of the constant that is added. 0 where there is none.
    pub imm: i32,
    /// Modifiers.
    pub mods: Mods,
    /// What happens after the instruction issued.
    pub flow: Flow,
    /// For graphics instructions the bits 0 to 47 of the word, with the FAU page in bits 48 and 49; else 0.
    pub raw: u64,
}
