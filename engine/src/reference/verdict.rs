//! One product's result, judged.

use super::activations::{ActivationCheck, QuantisedActivations, larger_magnitude};
use super::exact::{magnitude, product_f64};
use super::product::{ProductError, product, product_float};
use crate::quant::Matrix;

/// Largest normalised mean square error Σ(y-r)²/Σr² against the f64 reference.
pub const MAX_NMSE: f64 = 5e-4;
/// Products of fewer outputs than this are judged one by one: |error| ≤ [`MAX_SMALL_ERROR`]·Σ|w||x|.
pub const SMALL_PRODUCT: usize = 64;
/// See [`SMALL_PRODUCT`].
pub const MAX_SMALL_ERROR: f64 = 0.01;

/// Where f32 results may already be infinite: within a hundredth of the largest.
const NEARLY_INFINITE: f64 = f32::MAX as f64 * 0.99;
/// The spacing of the smallest f32.
const SMALLEST: f64 = 1.0 / (1u64 << 63) as f64 / (1u64 << 63) as f64 / (1u64 << 23) as f64;

/// Why a result cannot be judged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VerifyError {
    /// The product itself cannot be computed.
    #[error(transparent)]
    Product(#[from] ProductError),
    /// Quantised weights need the GPU's quantised activations.
    #[error("the GPU's quantised activations are needed to check a product of {0} weights")]
    NoActivations(crate::quant::Format),
    /// Activations of another M.
    #[error("quantised activations of {found} tokens for a product of {expected}")]
    OtherM {
        /// Tokens of the activations.
        found: usize,
        /// Tokens of the product.
        expected: usize,
    },
    /// The result is shorter than M rows of the stride, or the stride shorter than N.
    #[error("a result of {found} values with stride {stride} cannot hold {m} x {n}")]
    Result {
        /// Values given.
        found: usize,
        /// Values from row to row.
        stride: usize,
        /// Tokens.
        m: usize,
        /// Outputs.
        n: usize,
    },
}

/// The first output that is not bit-equal to the integer reference.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mismatch {
    /// Token.
    pub m: usize,
    /// Output.
    pub n: usize,
    /// The GPU's.
    pub got: f32,
    /// The reference's.
    pub want: f32,
}

/// How near a result is to the f64 reference.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Accuracy {
    /// Σ(y-r)²/Σr² over the outputs that can be compared so; 0 where both sums are 0.
    pub nmse: f64,
    /// Largest |error|/Σ|w||x| of products with fewer than [`SMALL_PRODUCT`] outputs.
    pub small_error: Option<f64>,
    /// Outputs that are infinite or NaN in the reference (or beyond f32), and so in the result.
    pub non_finite: usize,
    /// Outputs that break a rule of their own: finite where the reference is not or the other way round, or of a token of
    /// subnormal activations and off by more than its quantisation step allows.
    pub wrong: usize,
    /// Whether all of it is within the bounds.
    pub ok: bool,
}

/// What was found about one product.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Verdict {
    /// Every output is bit-equal to the integer reference (NaN to NaN).
    pub exact: bool,
    /// Outputs that are not.
    pub mismatches: usize,
    /// The first of them.
    pub first_mismatch: Option<Mismatch>,
    /// Against f64.
    pub accuracy: Accuracy,
    /// The GPU's quantised activations against the exact ones; none for F16 and F32 weights.
    pub activations: Option<ActivationCheck>,
    /// All of it is right.
    pub ok: bool,
}

impl Verdict {
    /// One line that says what is wrong; empty if nothing is.
    pub fn complaint(&self) -> String {
        let mut parts = Vec::new();
        if let Some(x) = self.first_mismatch {
            parts.push(format!(
                "{} outputs differ from the integer reference, first y[{}][{}] = {:e} instead of {:e}",
                self.mismatches, x.m, x.n, x.got, x.want
            ));
        }
        let a = &self.accuracy;
        if !a.ok {
            parts.push(format!(
                "NMSE {:.2e} (at most {MAX_NMSE:e}), largest small error {}, {} outputs wrong by themselves",
                a.nmse,
                a.small_error.map_or("-".to_owned(), |e| format!("{e:.2e}")),
                a.wrong
            ));
        }
        if let Some(q) = self.activations.filter(|q| !q.ok()) {
            let (m, b) = q.first_wrong.unwrap_or_default();
            parts.push(format!(
                "quantised activations: {} int8, {} scales, {} sums, {} factors wrong, first in token {m}, block {b}",
                q.wrong_quants, q.wrong_scales, q.wrong_sums, q.wrong_factors
            ));
        }
        parts.join("; ")
    }
}

/// Judges a result.
///
/// `x` are the activations, row-major M × K without padding; `activations` the GPU's quantised ones (none for F16 and F32
/// weights); `y` the result with `stride` values from token to token (see [`crate::repack::OutputLayout::stride`]).
///
/// # Errors
/// [`VerifyError`] where the arguments do not belong to one product.
pub fn verify(
    w: &Matrix<'_>,
    x: &[f32],
    m: usize,
    activations: Option<&QuantisedActivations>,
    y: &[f32],
    stride: usize,
) -> Result<Verdict, VerifyError> {
    let n = w.n();
    let fits = stride >= n
        && m > 0
        && (m - 1)
            .checked_mul(stride)
            .and_then(|v| v.checked_add(n))
            .is_some_and(|v| v <= y.len());
    if !fits {
        return Err(VerifyError::Result {
            found: y.len(),
            stride,
            m,
            n,
        });
    }
    let (want, check) = if w.format().is_quantised() {
        let a = activations.ok_or(VerifyError::NoActivations(w.format()))?;
        if a.layout().m() != m {
            return Err(VerifyError::OtherM {
                found: a.layout().m(),
                expected: m,
            });
        }
        let want = product(w, a)?;
        let check = ActivationCheck::new(x, a).map_err(ProductError::from)?;
        (want, Some(check))
    } else {
        (product_float(w, x, m)?, None)
    };

    let mut mismatches = 0;
    let mut first_mismatch = None;
    for (i, want) in want.chunks_exact(n).enumerate() {
        for (j, (got, want)) in y[i * stride..].iter().zip(want).enumerate() {
            let same = got.to_bits() == want.to_bits() || (got.is_nan() && want.is_nan());
            if !same {
                mismatches += 1;
                first_mismatch.get_or_insert(Mismatch {
                    m: i,
                    n: j,
                    got: *got,
                    want: *want,
                });
            }
        }
    }
    let accuracy = accuracy(w, x, m, y, stride)?;
    Ok(Verdict {
        exact: mismatches == 0,
        mismatches,
        first_mismatch,
        accuracy,
        activations: check,
        ok: mismatches == 0 && accuracy.ok && check.is_none_or(|c| c.ok()),
    })
}

fn accuracy(
    w: &Matrix<'_>,
    x: &[f32],
    m: usize,
    y: &[f32],
    stride: usize,
) -> Result<Accuracy, ProductError> {
    let (n, k) = (w.n(), w.k());
    let reference = product_f64(w, x, m)?;
    let small = m * n < SMALL_PRODUCT;
    // Sums of unquantised products round at each of K additions, down to the spacing of subnormals.
    let slack = if w.format().is_quantised() {
        SMALLEST
    } else {
        SMALLEST * k as f64
    };
    let (mut error_power, mut power) = (0f64, 0f64);
    let (mut non_finite, mut wrong) = (0, 0);
    let mut small_error = small.then_some(0f64);
    for (i, want) in reference.chunks_exact(n).enumerate() {
        let token = &x[i * k..(i + 1) * k];
        let largest = token.iter().fold(0.0, larger_magnitude);
        let subnormal = largest > 0.0 && largest < f32::MIN_POSITIVE;
        for (j, (got, want)) in y[i * stride..].iter().zip(want).enumerate() {
            if !want.is_finite() {
                non_finite += 1;
                wrong += usize::from(got.is_finite());
                continue;
            }
            if !got.is_finite() {
                non_finite += 1;
                let (wx, _) = magnitude(w, j, token);
                wrong += usize::from(wx < NEARLY_INFINITE);
                continue;
            }
            let error = ((f64::from(*got) - want).abs() - slack).max(0.0);
            if subnormal {
                // The normalisation ends at 2^-109: such a token's step may be as coarse as f16's smallest scale.
                let (_, ws) = magnitude(w, j, token);
                let step = f64::from(largest) / 127.0 + f64::from(2f32.powi(-139));
                wrong += usize::from(error > ws * step);
                continue;
            }
            if let Some(worst) = &mut small_error {
                let (wx, _) = magnitude(w, j, token);
                let relative = if error == 0.0 { 0.0 } else { error / wx };
                *worst = worst.max(relative);
            }
            error_power += error * error;
            power += want * want;
        }
    }
    let nmse = if error_power == 0.0 {
        0.0
    } else {
        error_power / power
    };
    let near = match small_error {
        Some(e) => e <= MAX_SMALL_ERROR,
        None => nmse <= MAX_NMSE,
    };
    Ok(Accuracy {
        nmse,
        small_error,
        non_finite,
        wrong,
        ok: near && wrong == 0,
    })
}
