//! The integer reference in plain Rust that the GPU's result must equal bit for bit, and the f64 reference it must be near.
//!
//! - [`quantise`]: activations to int8, every quotient rounded exactly.
//! - [`product`]: the product of given quantised activations with weights in ggml's own blocks, in the same order of f32
//!   operations as the kernels (layout version 1); [`product_float`] for F16 and F32 weights.
//! - [`product_f64`]: dequantised weights times unquantised activations in f64.
//! - [`verify`]: all of it for one product, as a [`Verdict`].
//!
//! Two errors that hide each other are kept apart: `product` takes the activations that the GPU has quantised, and
//! [`ActivationCheck`] compares those with `quantise`.

mod activations;
mod exact;
mod product;
mod simd;
mod verdict;

pub use activations::{
    ActivationCheck, ActivationError, QUANT_EDGE, QuantisedActivations, normal_exponent, quantise,
};
pub use exact::{magnitude, product_f64};
pub use product::{ProductError, product, product_float, product_of};
pub use verdict::{
    Accuracy, MAX_NMSE, MAX_SMALL_ERROR, Mismatch, SMALL_PRODUCT, Verdict, VerifyError, verify,
};

#[cfg(test)]
mod tests;
