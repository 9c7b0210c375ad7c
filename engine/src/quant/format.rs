//! Names, numbers and sizes of the formats that the engine multiplies.

use std::fmt;
use std::str::FromStr;

/// A storage format of weights.
///
/// Names, type numbers and sizes as in ggml (llama.cpp, `ggml/include/ggml.h`, `enum ggml_type`; block structs in
/// `ggml/src/ggml-common.h`).
#[allow(non_camel_case_types)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Format {
    /// 32 elements, one f16 scale, 4 bits centred at 8.
    Q4_0,
    /// 32 elements, f16 scale and minimum, 4 bits from 0.
    Q4_1,
    /// 32 elements, one f16 scale, 5 bits centred at 16.
    Q5_0,
    /// 32 elements, f16 scale and minimum, 5 bits from 0.
    Q5_1,
    /// 32 elements, one f16 scale, 8 signed bits.
    Q8_0,
    /// 256 elements in eight groups of 32 with 6-bit scale and minimum each, 4 bits from 0.
    Q4_K,
    /// As [`Format::Q4_K`] with 5 bits.
    Q5_K,
    /// 256 elements in sixteen groups of 16 with an 8-bit signed scale each, 6 bits centred at 32.
    Q6_K,
    /// IEEE half precision, unquantised.
    F16,
    /// IEEE single precision, unquantised.
    F32,
}

impl Format {
    /// Every format, in the order of the enum.
    pub const ALL: [Format; 10] = [
        Format::Q4_0,
        Format::Q4_1,
        Format::Q5_0,
        Format::Q5_1,
        Format::Q8_0,
        Format::Q4_K,
        Format::Q5_K,
        Format::Q6_K,
        Format::F16,
        Format::F32,
    ];

    /// The type number in a GGUF tensor table.
    pub const fn ggml_type(self) -> u32 {
        match self {
            Format::F32 => 0,
            Format::F16 => 1,
            Format::Q4_0 => 2,
            Format::Q4_1 => 3,
            Format::Q5_0 => 6,
            Format::Q5_1 => 7,
            Format::Q8_0 => 8,
            Format::Q4_K => 12,
            Format::Q5_K => 13,
            Format::Q6_K => 14,
        }
    }

    /// The format with this GGUF type number, if the engine has it.
    pub fn from_ggml_type(number: u32) -> Option<Format> {
        Format::ALL.into_iter().find(|f| f.ggml_type() == number)
    }

    /// Elements in a block (1 for F16 and F32).
    pub const fn block_elements(self) -> usize {
        match self {
            Format::Q4_0 | Format::Q4_1 | Format::Q5_0 | Format::Q5_1 | Format::Q8_0 => 32,
            Format::Q4_K | Format::Q5_K | Format::Q6_K => 256,
            Format::F16 | Format::F32 => 1,
        }
    }

    /// Bytes of a block in a GGUF file.
    pub const fn block_bytes(self) -> usize {
        match self {
            Format::Q4_0 => 2 + 16,
            Format::Q4_1 => 4 + 16,
            Format::Q5_0 => 2 + 4 + 16,
            Format::Q5_1 => 4 + 4 + 16,
            Format::Q8_0 => 2 + 32,
            Format::Q4_K => 4 + 12 + 128,
            Format::Q5_K => 4 + 12 + 32 + 128,
            Format::Q6_K => 128 + 64 + 16 + 2,
            Format::F16 => 2,
            Format::F32 => 4,
        }
    }

    /// Bytes of a row of `k` elements in a GGUF file; `None` where `k` is no multiple of the block or the size overflows.
    pub fn row_bytes(self, k: usize) -> Option<usize> {
        if k % self.block_elements() != 0 {
            return None;
        }
        (k / self.block_elements()).checked_mul(self.block_bytes())
    }

    /// Whether the product multiplies integers and quantises activations (all but F16 and F32).
    pub const fn is_quantised(self) -> bool {
        !matches!(self, Format::F16 | Format::F32)
    }

    /// The name as ggml writes it in upper case, e.g. `Q4_K`.
    pub const fn name(self) -> &'static str {
        match self {
            Format::Q4_0 => "Q4_0",
            Format::Q4_1 => "Q4_1",
            Format::Q5_0 => "Q5_0",
            Format::Q5_1 => "Q5_1",
            Format::Q8_0 => "Q8_0",
            Format::Q4_K => "Q4_K",
            Format::Q5_K => "Q5_K",
            Format::Q6_K => "Q6_K",
            Format::F16 => "F16",
            Format::F32 => "F32",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// No format of that name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "no weight format is called {0:?}: use one of q4_0, q4_1, q5_0, q5_1, q8_0, q4_k, q5_k, q6_k, f16, f32"
)]
pub struct UnknownFormat(pub String);

impl FromStr for Format {
    type Err = UnknownFormat;

    /// Takes the name in upper or lower case.
    fn from_str(s: &str) -> Result<Self, UnknownFormat> {
        Format::ALL
            .into_iter()
            .find(|f| f.name().eq_ignore_ascii_case(s))
            .ok_or_else(|| UnknownFormat(s.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_round_trip() {
        for f in Format::ALL {
            assert_eq!(f.name().parse(), Ok(f));
            assert_eq!(f.name().to_lowercase().parse(), Ok(f));
            assert_eq!(Format::from_ggml_type(f.ggml_type()), Some(f));
        }
        assert!("q2_k".parse::<Format>().is_err());
        assert_eq!(Format::from_ggml_type(4), None);
    }

    #[test]
    fn rows_are_whole_blocks() {
        assert_eq!(Format::Q4_0.row_bytes(64), Some(36));
        assert_eq!(Format::Q4_0.row_bytes(65), None);
        assert_eq!(Format::Q6_K.row_bytes(256), Some(210));
        assert_eq!(Format::F32.row_bytes(usize::MAX), None);
    }
}
