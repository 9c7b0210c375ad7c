//! Descriptors in memory: shader program, local storage, buffers, and packed register words.
//!
//! Layouts are those of Mesa's `src/panfrost/genxml/v10.xml` (the struct named at each type); where the meaning of a
//! field is not in that file, its source is named. All words are little-endian in memory. Unpacking refuses bits that
//! the description does not name: hardware leaves their effect open.
//!
//! ```
//! use mali_isa::desc::{RegisterAllocation, ShaderProgram};
//! let spd = ShaderProgram { preload: 0xfe00, ..ShaderProgram::compute(0xfff0_7000, RegisterAllocation::PerThread64) };
//! assert_eq!(ShaderProgram::unpack(&spd.pack()?)?, spd);
//! # Ok::<(), mali_isa::desc::DescError>(())
//! ```

mod buffer;
mod local_storage;
mod registers;
mod shader_program;

use thiserror::Error;

pub use buffer::{Buffer, BufferType, DescriptorType, Resource};
pub use local_storage::{AddressMode, LocalStorage, Wls};
pub use registers::{Fau, Srt, WorkgroupSize, compute_sr};
pub use shader_program::{FlushToZero, RegisterAllocation, ShaderProgram, Stage};

/// Why a descriptor or register word does not unpack, or has no packed form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DescError {
    /// Bits outside every field are set.
    #[error("{what}: reserved bits {bits:#x} of word {word} are set")]
    ReservedBits {
        /// The descriptor.
        what: &'static str,
        /// Index of the 32-bit word.
        word: usize,
        /// The bits, in place.
        bits: u32,
    },
    /// The type field says that it is something else.
    #[error("{what}: the type field holds {found}")]
    Type {
        /// The descriptor wanted.
        what: &'static str,
        /// What the field holds.
        found: u32,
    },
    /// A field's value means nothing.
    #[error("{what}: field {field} holds the reserved value {value:#x}")]
    Reserved {
        /// The descriptor.
        what: &'static str,
        /// The field.
        field: &'static str,
        /// Its value.
        value: u64,
    },
    /// A value does not fit into its field.
    #[error("{what}: {value:#x} does not fit into {field}")]
    TooWide {
        /// The descriptor.
        what: &'static str,
        /// The field.
        field: &'static str,
        /// The value.
        value: u64,
    },
    /// An address is not aligned as hardware demands.
    #[error("{what}: {field} {value:#x} is not aligned to {alignment}")]
    Misaligned {
        /// The descriptor.
        what: &'static str,
        /// The field.
        field: &'static str,
        /// The address.
        value: u64,
        /// Bytes.
        alignment: u64,
    },
}

/// Words of a full descriptor.
pub const DESCRIPTOR_WORDS: usize = 8;

/// Bytes of a full descriptor.
pub const DESCRIPTOR_BYTES: u64 = 32;

/// Words to their bytes in memory.
#[must_use]
pub fn to_bytes(words: &[u32; DESCRIPTOR_WORDS]) -> [u8; DESCRIPTOR_BYTES as usize] {
    let mut bytes = [0; DESCRIPTOR_BYTES as usize];
    for (chunk, word) in bytes.chunks_exact_mut(4).zip(words) {
        chunk.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

/// Bytes in memory to words.
#[must_use]
pub fn from_bytes(bytes: &[u8; DESCRIPTOR_BYTES as usize]) -> [u32; DESCRIPTOR_WORDS] {
    let mut words = [0; DESCRIPTOR_WORDS];
    for (word, chunk) in words.iter_mut().zip(bytes.chunks_exact(4)) {
        *word = chunk.iter().rev().fold(0, |w, b| w << 8 | u32::from(*b));
    }
    words
}

/// The named bits of each word of a descriptor.
type Named = [u32; DESCRIPTOR_WORDS];

fn check_reserved(
    what: &'static str,
    words: &[u32; DESCRIPTOR_WORDS],
    named: &Named,
) -> Result<(), DescError> {
    for (word, (value, mask)) in words.iter().zip(named).enumerate() {
        let bits = value & !mask;
        if bits != 0 {
            return Err(DescError::ReservedBits { what, word, bits });
        }
    }
    Ok(())
}

fn bits(word: u32, start: u32, size: u32) -> u32 {
    (word >> start) & (((1u64 << size) - 1) as u32)
}

fn fit(what: &'static str, field: &'static str, value: u64, size: u32) -> Result<u64, DescError> {
    if size < 64 && value >> size != 0 {
        return Err(DescError::TooWide { what, field, value });
    }
    Ok(value)
}

fn aligned(
    what: &'static str,
    field: &'static str,
    value: u64,
    alignment: u64,
) -> Result<u64, DescError> {
    if value % alignment != 0 {
        return Err(DescError::Misaligned {
            what,
            field,
            value,
            alignment,
        });
    }
    Ok(value)
}

fn low(value: u64) -> u32 {
    value as u32
}

fn high(value: u64) -> u32 {
    (value >> 32) as u32
}

fn join(low: u32, high: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

#[cfg(test)]
mod tests;
