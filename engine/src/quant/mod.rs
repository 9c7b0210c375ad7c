//! Block formats of quantised weights.
//!
//! A *block* is the unit that ggml stores: a fixed number of consecutive elements of one row together with their scales. A *row*
//! is the K weights that make one output; a matrix of N rows is N·K/block blocks, row after row. Facts about the blocks are
//! ggml's (llama.cpp, `ggml/src/ggml-common.h` and `ggml/src/ggml-quants.c`, `dequantize_row_*`).

mod format;

pub use format::{Format, UnknownFormat};
