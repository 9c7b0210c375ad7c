//! The product in the kernels' own order of operations.

use std::ops::Range;

use super::activations::{QuantisedActivations, check_len};
use super::simd::{Task, over_rows, transpose, with_fma};
use super::{ActivationError, quantise};
use crate::quant::{Format, Matrix, dequantise_row, int_block};
use crate::repack::{BLOCK, FLOAT_PAD, LayoutError, OutputLayout, TILE};

/// Why a reference product cannot be computed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProductError {
    /// Weights of a format for the other kind of product.
    #[error("{format} weights have no product with {kind} activations")]
    Format {
        /// The weights' format.
        format: Format,
        /// `"quantised"` or `"unquantised"`.
        kind: &'static str,
    },
    /// Activations with another K than the weights.
    #[error("activations of {found} elements do not fit weights of {expected}")]
    OtherK {
        /// The activations' K.
        found: usize,
        /// The weights' K.
        expected: usize,
    },
    /// Activations that are none.
    #[error(transparent)]
    Activations(#[from] ActivationError),
    /// No layout for the output.
    #[error(transparent)]
    Layout(#[from] LayoutError),
}

/// Y\[M, N\] of given quantised activations and weights in ggml's own blocks, without padding, bit for bit as the kernels of layout
/// version 1 must compute it: per block of 32 an exact integer sum, then f32 operations rounded to nearest even with subnormals
/// kept, in rising order of blocks.
///
/// # Errors
/// [`ProductError`] for weights that take no quantised activations, and for activations of another K.
pub fn product(w: &Matrix<'_>, a: &QuantisedActivations) -> Result<Vec<f32>, ProductError> {
    if !w.format().is_quantised() {
        return Err(ProductError::Format {
            format: w.format(),
            kind: "quantised",
        });
    }
    if a.layout().k() != w.k() {
        return Err(ProductError::OtherK {
            found: a.layout().k(),
            expected: w.k(),
        });
    }
    let m = a.layout().m();
    OutputLayout::new(m, w.n())?;
    let tokens = Tokens::new(a, w.format());
    let mut y = vec![0.0; w.n() * m];
    over_rows(w.n(), m, &mut y, |rows, part| {
        with_fma(IntegerRows {
            w,
            tokens: &tokens,
            rows,
            y: part,
        });
    });
    Ok(transpose(&y, w.n(), m))
}

/// Activations spread for the inner loops. A token group is 16 tokens.
struct Tokens {
    m: usize,
    blocks: usize,
    /// [group][block][token of group][element].
    q: Vec<[[i16; BLOCK]; TILE]>,
    /// [group][block][token of group].
    scale: Vec<[f32; TILE]>,
    /// [group][block][token of group].
    sum: Vec<[f32; TILE]>,
    /// By token: what the accumulator is multiplied by in the end.
    factor: Vec<f32>,
}

impl Tokens {
    fn new(a: &QuantisedActivations, format: Format) -> Tokens {
        let layout = a.layout();
        let (groups, blocks) = (layout.tiles() as usize, layout.blocks() as usize);
        let cells = groups * blocks;
        let mut t = Tokens {
            m: layout.m(),
            blocks,
            q: vec![[[0; BLOCK]; TILE]; cells],
            scale: vec![[0.0; TILE]; cells],
            sum: vec![[0.0; TILE]; cells],
            // The kernel's Q4_0 integers are 16 times too large.
            factor: (0..layout.m())
                .map(|m| match format {
                    Format::Q4_0 => a.factor(m) * 0.0625,
                    _ => a.factor(m),
                })
                .collect(),
        };
        for cell in 0..cells {
            let (u, b) = (cell / blocks, cell % blocks);
            for j in 0..TILE {
                let m = u * TILE + j;
                t.q[cell][j] = a.block(m, b).map(i16::from);
                t.scale[cell][j] = a.scale(m, b).to_f32();
                t.sum[cell][j] = f32::from(a.sum(m, b));
            }
        }
        t
    }
}

/// Rows of Y transposed: `y` is [row][token].
struct IntegerRows<'a> {
    w: &'a Matrix<'a>,
    tokens: &'a Tokens,
    rows: Range<usize>,
    y: &'a mut [f32],
}

/// One block of weights, spread for the inner loop.
#[derive(Clone, Copy)]
struct WeightBlock {
    q: [i16; BLOCK],
    s: [f32; 2],
    min: Option<f32>,
}

impl Task for IntegerRows<'_> {
    #[inline(always)]
    fn run(self) {
        let format = self.w.format();
        let t = self.tokens;
        let mut row_blocks = Vec::with_capacity(t.blocks);
        for (n, y) in self.rows.zip(self.y.chunks_exact_mut(t.m)) {
            let row = self.w.row(n);
            row_blocks.clear();
            row_blocks.extend((0..t.blocks).map(|b| {
                let block = int_block(format, row, b);
                let times = if format == Format::Q4_0 { 16 } else { 1 };
                WeightBlock {
                    q: block.q.map(|q| i16::from(q) * times),
                    s: block.scale.scales(),
                    min: block.scale.minimum(),
                }
            }));
            for (u, y) in y.chunks_mut(TILE).enumerate() {
                let acc = accumulate(&row_blocks, t, u * t.blocks, format == Format::Q6_K);
                for (j, y) in y.iter_mut().enumerate() {
                    *y = acc[j] * t.factor[u * TILE + j];
                }
            }
        }
    }
}

/// The accumulators of one row and one token group, whose cells start at `cell`.
#[inline(always)]
fn accumulate(row: &[WeightBlock], t: &Tokens, cell: usize, two_scales: bool) -> [f32; TILE] {
    let mut acc = [0f32; TILE];
    for (b, w) in row.iter().enumerate() {
        let (q, scale) = (&t.q[cell + b], &t.scale[cell + b]);
        if two_scales {
            for h in 0..2 {
                let isum = dots::<16>(&w.q, q, 16 * h);
                for j in 0..TILE {
                    acc[j] = (isum[j] as f32).mul_add(w.s[h] * scale[j], acc[j]);
                }
            }
            continue;
        }
        let isum = dots::<BLOCK>(&w.q, q, 0);
        for j in 0..TILE {
            acc[j] = (isum[j] as f32).mul_add(w.s[0] * scale[j], acc[j]);
        }
        if let Some(min) = w.min {
            let sum = &t.sum[cell + b];
            for j in 0..TILE {
                acc[j] = sum[j].mul_add(min * scale[j], acc[j]);
            }
        }
    }
    acc
}

/// Sixteen integer dot products of LEN elements from `from`.
#[inline(always)]
fn dots<const LEN: usize>(w: &[i16; BLOCK], q: &[[i16; BLOCK]; TILE], from: usize) -> [i32; TILE] {
    let mut sums = [0; TILE];
    let w = &w[from..from + LEN];
    for (sum, q) in sums.iter_mut().zip(q) {
        *sum = w
            .iter()
            .zip(&q[from..from + LEN])
            .map(|(w, q)| i32::from(*w) * i32::from(*q))
            .sum();
    }
    sums
}

/// Y\[M, N\] of F16 or F32 weights and unquantised activations (row-major M × K), without padding: one fused multiply-add an
/// element, K rising, K padded to a multiple of 8 with zeros.
///
/// # Errors
/// [`ProductError`] for weights that take quantised activations, and where `x` is not M × K.
pub fn product_float(w: &Matrix<'_>, x: &[f32], m: usize) -> Result<Vec<f32>, ProductError> {
    if w.format().is_quantised() {
        return Err(ProductError::Format {
            format: w.format(),
            kind: "unquantised",
        });
    }
    OutputLayout::new(m, w.n())?;
    check_len(x, m, w.k())?;
    let k = w.k().next_multiple_of(FLOAT_PAD);
    let groups = m.div_ceil(TILE);
    let mut tokens = vec![[0f32; TILE]; groups * k];
    for (i, row) in x.chunks_exact(w.k()).enumerate() {
        for (e, v) in row.iter().enumerate() {
            tokens[i / TILE * k + e][i % TILE] = *v;
        }
    }
    let mut y = vec![0.0; w.n() * m];
    over_rows(w.n(), m, &mut y, |rows, part| {
        with_fma(FloatRows {
            w,
            tokens: &tokens,
            k,
            m,
            rows,
            y: part,
        });
    });
    Ok(transpose(&y, w.n(), m))
}

struct FloatRows<'a> {
    w: &'a Matrix<'a>,
    /// [group][element][token of group].
    tokens: &'a [[f32; TILE]],
    /// Padded.
    k: usize,
    m: usize,
    rows: Range<usize>,
    y: &'a mut [f32],
}

impl Task for FloatRows<'_> {
    #[inline(always)]
    fn run(self) {
        let mut row = vec![0f32; self.k];
        for (n, y) in self.rows.zip(self.y.chunks_exact_mut(self.m)) {
            dequantise_row(self.w.format(), self.w.row(n), &mut row[..self.w.k()]);
            let groups = self.tokens.chunks_exact(self.k);
            for (y, x) in y.chunks_mut(TILE).zip(groups) {
                let mut acc = [0f32; TILE];
                for (w, x) in row.iter().zip(x) {
                    for j in 0..TILE {
                        acc[j] = w.mul_add(x[j], acc[j]);
                    }
                }
                y.copy_from_slice(&acc[..y.len()]);
            }
        }
    }
}

/// The reference's own result for unquantised activations: quantised exactly first where the format asks for it.
///
/// # Errors
/// [`ProductError`] where `x` is not M × K.
pub fn product_of(w: &Matrix<'_>, x: &[f32], m: usize) -> Result<Vec<f32>, ProductError> {
    if w.format().is_quantised() {
        product(w, &quantise(x, m, w.k())?)
    } else {
        product_float(w, x, m)
    }
}
