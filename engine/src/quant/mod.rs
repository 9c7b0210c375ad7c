//! Block formats of quantised weights.
//!
//! A *block* is the unit that ggml stores: a fixed number of consecutive elements of one row together with their scales. A *row*
//! is the K weights that make one output; a matrix of N rows is N·K/block blocks, row after row. Facts about the blocks are
//! ggml's (llama.cpp, `ggml/src/ggml-common.h`, `block_*`, and `ggml/src/ggml-quants.c`, `dequantize_row_*`).
//!
//! There are two ways to read a block, kept apart on purpose: [`dequantise_row`] follows ggml element by element and is what the
//! f64 reference multiplies; [`int_block`] gives the integers and scales that the repacked layout and the integer reference use.

mod dequant;
mod encode;
mod format;
mod ints;
mod matrix;
mod rng;
mod synthetic;

pub use dequant::dequantise_row;
pub use encode::quantise_row;
pub use format::{Format, UnknownFormat};
pub use ints::{IntBlock, Scale, int_block};
pub use matrix::{Matrix, MatrixError, OwnedMatrix};
pub use rng::SplitMix;
pub use synthetic::{Spread, random_blocks, synthetic_activations, synthetic_matrix};

use half::f16;

/// Reads the f16 at byte `at`.
fn f16_at(bytes: &[u8], at: usize) -> f16 {
    f16::from_bits(u16_at(bytes, at))
}

/// Reads the little-endian u16 at byte `at`.
fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

/// Reads the little-endian u32 at byte `at`.
fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}
