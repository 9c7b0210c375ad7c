//! Every tensor type that GGUF knows: names and sizes, so that what the engine cannot multiply is refused by its name.

use std::fmt;

use crate::quant::Format;

/// Elements and bytes of a block.
type Size = Option<(u64, u64)>;

/// Number, name and block size (elements, bytes) of the types that the engine does not multiply; no size where ggml has removed
/// the type. Source: llama.cpp, `gguf-py/gguf/constants.py`, `GGMLQuantizationType` and `GGML_QUANT_SIZES`; removed ones:
/// `ggml/include/ggml.h`, `enum ggml_type`.
const OTHERS: &[(u32, &str, Size)] = &[
    (4, "Q4_2", None),
    (5, "Q4_3", None),
    (9, "Q8_1", Some((32, 40))),
    (10, "Q2_K", Some((256, 84))),
    (11, "Q3_K", Some((256, 110))),
    (15, "Q8_K", Some((256, 292))),
    (16, "IQ2_XXS", Some((256, 66))),
    (17, "IQ2_XS", Some((256, 74))),
    (18, "IQ3_XXS", Some((256, 98))),
    (19, "IQ1_S", Some((256, 50))),
    (20, "IQ4_NL", Some((32, 18))),
    (21, "IQ3_S", Some((256, 110))),
    (22, "IQ2_S", Some((256, 82))),
    (23, "IQ4_XS", Some((256, 136))),
    (24, "I8", Some((1, 1))),
    (25, "I16", Some((1, 2))),
    (26, "I32", Some((1, 4))),
    (27, "I64", Some((1, 8))),
    (28, "F64", Some((1, 8))),
    (29, "IQ1_M", Some((256, 56))),
    (30, "BF16", Some((1, 2))),
    (31, "Q4_0_4_4", None),
    (32, "Q4_0_4_8", None),
    (33, "Q4_0_8_8", None),
    (34, "TQ1_0", Some((256, 54))),
    (35, "TQ2_0", Some((256, 66))),
    (36, "IQ4_NL_4_4", None),
    (37, "IQ4_NL_4_8", None),
    (38, "IQ4_NL_8_8", None),
    (39, "MXFP4", Some((32, 17))),
    (40, "NVFP4", Some((64, 36))),
    (41, "Q1_0", Some((128, 18))),
];

/// The type of a tensor in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TensorType {
    /// One that the engine multiplies.
    Known(Format),
    /// One that ggml has and the engine refuses: its name, and elements and bytes of a block where ggml still has them.
    Other(&'static str, Option<(u64, u64)>),
}

impl TensorType {
    /// The type with this number; `None` for a number that stands for nothing.
    pub fn from_number(number: u32) -> Option<TensorType> {
        if let Some(format) = Format::from_ggml_type(number) {
            return Some(TensorType::Known(format));
        }
        OTHERS
            .iter()
            .find(|o| o.0 == number)
            .map(|o| TensorType::Other(o.1, o.2))
    }

    /// Elements and bytes of a block; `None` for a type that ggml has removed.
    pub fn block(self) -> Option<(u64, u64)> {
        match self {
            TensorType::Known(f) => Some((f.block_elements() as u64, f.block_bytes() as u64)),
            TensorType::Other(_, size) => size,
        }
    }

    /// ggml's name of the type.
    pub fn name(self) -> &'static str {
        match self {
            TensorType::Known(f) => f.name(),
            TensorType::Other(name, _) => name,
        }
    }
}

impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_up_to_the_last_has_one_name() {
        let names: Vec<_> = (0..=41)
            .map(|n| TensorType::from_number(n).expect("a name").name())
            .collect();
        let mut unique = names.clone();
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(unique.len(), names.len());
        assert_eq!(names[12], "Q4_K");
        assert_eq!(names[23], "IQ4_XS");
        assert_eq!(TensorType::from_number(42), None);
        assert_eq!(TensorType::from_number(u32::MAX), None);
    }
}
