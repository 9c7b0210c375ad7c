//! The same product in f64, from dequantised weights and unquantised activations.

use std::ops::Range;

use super::activations::check_len;
use super::product::ProductError;
use super::simd::{Task, over_rows, transpose, with_fma};
use crate::quant::{Matrix, dequantise_row};
use crate::repack::OutputLayout;

/// Partial sums per dot product: enough to fill vector registers.
const LANES: usize = 8;

/// Y\[M, N\] in f64 from dequantised weights and activations as they are (row-major M × K). The sum of a product of two f32 is
/// exact but for the additions' own rounding of 2^-53, so the order does not matter here.
///
/// # Errors
/// [`ProductError`] where `x` is not M × K, or the result is empty or too large.
pub fn product_f64(w: &Matrix<'_>, x: &[f32], m: usize) -> Result<Vec<f64>, ProductError> {
    OutputLayout::new(m, w.n())?;
    check_len(x, m, w.k())?;
    let stride = w.k().next_multiple_of(LANES);
    let mut tokens = vec![0f64; m * stride];
    for (to, from) in tokens.chunks_exact_mut(stride).zip(x.chunks_exact(w.k())) {
        for (to, from) in to.iter_mut().zip(from) {
            *to = f64::from(*from);
        }
    }
    let mut y = vec![0.0; w.n() * m];
    over_rows(w.n(), m, &mut y, |rows, part| {
        with_fma(Rows {
            w,
            tokens: &tokens,
            stride,
            m,
            rows,
            y: part,
        });
    });
    Ok(transpose(&y, w.n(), m))
}

struct Rows<'a> {
    w: &'a Matrix<'a>,
    tokens: &'a [f64],
    stride: usize,
    m: usize,
    rows: Range<usize>,
    y: &'a mut [f64],
}

impl Task for Rows<'_> {
    #[inline(always)]
    fn run(self) {
        let mut single = vec![0f32; self.w.k()];
        let mut row = vec![0f64; self.stride];
        for (n, y) in self.rows.zip(self.y.chunks_exact_mut(self.m)) {
            dequantise_row(self.w.format(), self.w.row(n), &mut single);
            for (to, from) in row.iter_mut().zip(&single) {
                *to = f64::from(*from);
            }
            for (y, x) in y.iter_mut().zip(self.tokens.chunks_exact(self.stride)) {
                let mut sums = [[0f64; LANES]; 2];
                let pairs = row.chunks_exact(LANES).zip(x.chunks_exact(LANES));
                for (i, (w, x)) in pairs.enumerate() {
                    let sums = &mut sums[i % 2];
                    for l in 0..LANES {
                        sums[l] = w[l].mul_add(x[l], sums[l]);
                    }
                }
                *y = sums.iter().flatten().sum();
            }
        }
    }
}

/// Σ|w||x| and Σ|w| of one output: what its error is measured against where the product is small or does not fit f32.
pub fn magnitude(w: &Matrix<'_>, n: usize, token: &[f32]) -> (f64, f64) {
    let mut row = vec![0.0; w.k()];
    dequantise_row(w.format(), w.row(n), &mut row);
    row.iter().zip(token).fold((0.0, 0.0), |(wx, ws), (w, x)| {
        let w = f64::from(w.abs());
        (wx + w * f64::from(x.abs()), ws + w)
    })
}
