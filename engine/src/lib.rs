//! Quantised matrix products of GGUF models on a Mali-G610.
//!
//! - [`gguf`]: model files, read without trust. [`quant`]: block formats. [`repack`]: the weight layout.
//! - [`mod@reference`]: the integer reference in plain Rust that the GPU's result must equal bit for bit.
//! - [`kernel`]: shader kernels, written with a typed builder over `mali_isa`.
//! - [`replay`]: recorded jobs with their answers.
//! - [`memory`]: GPU addresses and buffer objects. [`stream`]: command streams. [`gemm`]: products, cut into jobs.

#![deny(clippy::missing_errors_doc)]

pub mod gemm;
pub mod gguf;
pub mod kernel;
pub mod memory;
pub mod quant;
pub mod reference;
pub mod repack;
pub mod replay;
pub mod stream;
