//! Activations to int8, and the comparison with what the GPU has made of them.

use half::f16;

use crate::repack::{ActivationLayout, BLOCK, LayoutError, PIECE, TILE};

/// Smallest biased exponent that a token is normalised by: the factors of smaller ones would not be normal numbers.
const MIN_EXPONENT: u32 = 18;
/// Largest biased exponent of a finite number.
const MAX_EXPONENT: u32 = 254;
/// The largest magnitude of a token is brought to 2^13..2^14: f16 holds its blocks' scales without overflow.
const NORMAL_EXPONENT: u32 = 13;
/// f16 bits that mark a block with a NaN or an infinity.
const NAN_SCALE: u16 = 0x7e00;
/// 1/127 rounded to f32: the scale is made by a multiplication.
const ONE_127TH: f32 = 1.0 / 127.0;

/// How far from a rounding edge, in quantisation steps, the GPU's int8 may still differ from the reference's: the quotient is at
/// most 127 and comes from a reciprocal with an error of one unit in the last place and a rounded product, 127·2^-22 in all.
pub const QUANT_EDGE: f64 = 127.0 / (1 << 22) as f64;

/// Why bytes or floats are no activations.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ActivationError {
    /// No layout for this shape.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// The wrong number of floats or bytes.
    #[error("{what}: {found} given, {expected} needed")]
    Length {
        /// What is counted.
        what: &'static str,
        /// How many there are.
        found: usize,
        /// How many there must be.
        expected: usize,
    },
}

/// Quantised activations as the kernels store them (see [`ActivationLayout`]).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuantisedActivations {
    layout: ActivationLayout,
    bytes: Vec<u8>,
}

impl QuantisedActivations {
    /// Takes the bytes of a quantised buffer (copied from the GPU).
    ///
    /// # Errors
    /// [`ActivationError::Length`] where the length is not the layout's.
    pub fn from_bytes(
        layout: ActivationLayout,
        bytes: Vec<u8>,
    ) -> Result<QuantisedActivations, ActivationError> {
        let expected = layout.total_bytes() as usize;
        if bytes.len() != expected {
            return Err(ActivationError::Length {
                what: "bytes of quantised activations",
                found: bytes.len(),
                expected,
            });
        }
        Ok(QuantisedActivations { layout, bytes })
    }

    /// Where everything lies.
    pub fn layout(&self) -> &ActivationLayout {
        &self.layout
    }

    /// The buffer.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The int8 of token `m` (up to M padded), block `b`.
    pub fn block(&self, m: usize, b: usize) -> [i8; BLOCK] {
        let mut q = [0; BLOCK];
        for (h, half) in q.chunks_exact_mut(PIECE).enumerate() {
            let at = self
                .layout
                .piece_offset((m / TILE) as u64, b as u64, h, m % TILE)
                as usize;
            for (q, byte) in half.iter_mut().zip(&self.bytes[at..at + PIECE]) {
                *q = *byte as i8;
            }
        }
        q
    }

    /// The scale of token `m`, block `b`, in normalised units.
    pub fn scale(&self, m: usize, b: usize) -> f16 {
        let at = self
            .layout
            .scale_offset((m / TILE) as u64, b as u64, m % TILE);
        f16::from_bits(u16::from_le_bytes(self.array(at)))
    }

    /// The sum of the int8 of token `m`, block `b`.
    pub fn sum(&self, m: usize, b: usize) -> i16 {
        let at = self
            .layout
            .sum_offset((m / TILE) as u64, b as u64, m % TILE);
        i16::from_le_bytes(self.array(at))
    }

    /// The power of two that undoes the normalisation of token `m`.
    pub fn factor(&self, m: usize) -> f32 {
        f32::from_le_bytes(self.array(self.layout.factor_offset(m)))
    }

    fn array<const N: usize>(&self, at: u64) -> [u8; N] {
        let mut bytes = [0; N];
        bytes.copy_from_slice(&self.bytes[at as usize..at as usize + N]);
        bytes
    }
}

/// The larger of `largest` and |v|; a NaN of any kind is passed over, as by the GPU's FMAX. (`f32::max` gives a NaN for a
/// signalling one on some CPUs, aarch64 among them.)
pub(super) fn larger_magnitude(largest: f32, v: &f32) -> f32 {
    if v.abs() > largest { v.abs() } else { largest }
}

/// The biased exponent that a token is normalised by: of its largest magnitude, NaN ignored and from 0 up, kept within 18..=254.
pub fn normal_exponent(token: &[f32]) -> u32 {
    let largest = token.iter().fold(0.0, larger_magnitude);
    (largest.to_bits() >> 23).clamp(MIN_EXPONENT, MAX_EXPONENT)
}

/// A block as the quantiser leaves it.
struct Block {
    q: [i8; BLOCK],
    scale: u16,
}

/// Quantises 32 normalised elements exactly.
fn quantise_block(xn: &[f32; BLOCK]) -> Block {
    let mut q = [0; BLOCK];
    if xn.iter().any(|v| !v.is_finite()) {
        return Block {
            q,
            scale: NAN_SCALE,
        };
    }
    let largest = xn.iter().fold(0.0, larger_magnitude);
    let scale = f16::from_f32(largest * ONE_127TH);
    if scale != f16::ZERO {
        for (q, v) in q.iter_mut().zip(xn) {
            *q = nearest(f64::from(*v), scale.to_f64());
        }
    }
    Block {
        q,
        scale: scale.to_bits(),
    }
}

/// floor(x/d + 1/2), exactly, within ±127. `d` has 11 significant bits, so that (q ± 1/2)·d is exact in f64.
fn nearest(x: f64, d: f64) -> i8 {
    let mut q = (x / d + 0.5).floor();
    // The quotient was rounded: the products decide.
    while x >= (q + 0.5) * d {
        q += 1.0;
    }
    while x < (q - 0.5) * d {
        q -= 1.0;
    }
    q.clamp(-127.0, 127.0) as i8
}

/// Quantises M rows of K activations exactly as the kernels must. `x` is row-major without padding.
///
/// # Errors
/// [`ActivationError`] where M or K is 0 or too large, or `x` is not M × K.
pub fn quantise(x: &[f32], m: usize, k: usize) -> Result<QuantisedActivations, ActivationError> {
    let layout = ActivationLayout::new(m, k)?;
    check_len(x, m, k)?;
    let mut bytes = vec![0; layout.total_bytes() as usize];
    let mut put = |at: u64, v: &[u8]| bytes[at as usize..at as usize + v.len()].copy_from_slice(v);
    for token in 0..layout.m_padded() {
        let (u, r) = ((token / TILE) as u64, token % TILE);
        let row = x.get(token * k..(token + 1) * k).unwrap_or_default();
        let e = normal_exponent(row);
        let norm = normaliser(e);
        for b in 0..layout.blocks() {
            let block = quantise_block(&normalised(row, b as usize, norm));
            for (h, half) in block.q.chunks_exact(PIECE).enumerate() {
                let half: [u8; PIECE] = std::array::from_fn(|p| half[p] as u8);
                put(layout.piece_offset(u, b, h, r), &half);
            }
            let sum: i16 = block.q.iter().map(|q| i16::from(*q)).sum();
            put(layout.scale_offset(u, b, r), &block.scale.to_le_bytes());
            put(layout.sum_offset(u, b, r), &sum.to_le_bytes());
        }
        put(layout.factor_offset(token), &factor(e).to_le_bytes());
    }
    Ok(QuantisedActivations { layout, bytes })
}

/// 2^(13-(e-127)).
fn normaliser(e: u32) -> f32 {
    f32::from_bits((254 + NORMAL_EXPONENT - e) << 23)
}

/// 2^((e-127)-13).
fn factor(e: u32) -> f32 {
    f32::from_bits((e - NORMAL_EXPONENT) << 23)
}

/// Block `b` of a token times the normaliser, zeros beyond K.
fn normalised(row: &[f32], b: usize, norm: f32) -> [f32; BLOCK] {
    std::array::from_fn(|e| row.get(b * BLOCK + e).map_or(0.0, |v| v * norm))
}

pub(super) fn check_len(x: &[f32], m: usize, k: usize) -> Result<(), ActivationError> {
    let expected = m * k;
    if x.len() != expected {
        return Err(ActivationError::Length {
            what: "activations",
            found: x.len(),
            expected,
        });
    }
    Ok(())
}

/// How the GPU's quantised activations compare with the reference's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ActivationCheck {
    /// Largest difference of an int8.
    pub max_quant_diff: u8,
    /// Int8 that differ by one step at a rounding edge ([`QUANT_EDGE`]).
    pub at_edges: usize,
    /// Int8 that differ by more, or by one step elsewhere: errors.
    pub wrong_quants: usize,
    /// Block scales that are not the same bits (any NaN for NaN).
    pub wrong_scales: usize,
    /// Block sums that are not the sum of the GPU's own int8.
    pub wrong_sums: usize,
    /// Token factors that are not the same bits.
    pub wrong_factors: usize,
    /// Token and block of the first error.
    pub first_wrong: Option<(usize, usize)>,
}

impl ActivationCheck {
    /// Compares the GPU's activations with the exact quantisation of the same `x` (row-major, M × K), padding tokens included.
    ///
    /// # Errors
    /// [`ActivationError`] where `x` is not M × K.
    pub fn new(x: &[f32], gpu: &QuantisedActivations) -> Result<ActivationCheck, ActivationError> {
        let layout = gpu.layout();
        let k = layout.k();
        let reference = quantise(x, layout.m(), k)?;
        let mut check = ActivationCheck::default();
        for m in 0..layout.m_padded() {
            let row = x.get(m * k..(m + 1) * k).unwrap_or_default();
            if gpu.factor(m).to_bits() != reference.factor(m).to_bits() {
                check.wrong_factors += 1;
                check.first_wrong.get_or_insert((m, 0));
            }
            let norm = normaliser(normal_exponent(row));
            for b in 0..layout.blocks() as usize {
                check
                    .block(&gpu_block(gpu, m, b), &gpu_block(&reference, m, b), || {
                        normalised(row, b, norm)
                    })
                    .then(|| check.first_wrong.get_or_insert((m, b)));
            }
        }
        Ok(check)
    }

    /// Compares one block; whether it is wrong.
    fn block(
        &mut self,
        gpu: &GpuBlock,
        reference: &GpuBlock,
        xn: impl FnOnce() -> [f32; BLOCK],
    ) -> bool {
        let before = self.errors();
        let same_scale = gpu.scale.to_bits() == reference.scale.to_bits()
            || (gpu.scale.is_nan() && reference.scale.is_nan());
        self.wrong_scales += usize::from(!same_scale);
        let sum: i16 = gpu.q.iter().map(|q| i16::from(*q)).sum();
        self.wrong_sums += usize::from(sum != gpu.sum);
        if gpu.q != reference.q {
            let (xn, d) = (xn(), reference.scale.to_f64());
            for ((g, r), x) in gpu.q.iter().zip(&reference.q).zip(&xn) {
                let diff = g.abs_diff(*r);
                self.max_quant_diff = self.max_quant_diff.max(diff);
                let edge = f64::from(*g.min(r)) + 0.5;
                let near = (f64::from(*x) / d - edge).abs() <= QUANT_EDGE;
                match diff {
                    0 => {}
                    1 if near => self.at_edges += 1,
                    _ => self.wrong_quants += 1,
                }
            }
        }
        self.errors() > before
    }

    fn errors(&self) -> usize {
        self.wrong_quants + self.wrong_scales + self.wrong_sums + self.wrong_factors
    }

    /// Whether the GPU's activations are right.
    pub fn ok(&self) -> bool {
        self.errors() == 0
    }
}

struct GpuBlock {
    q: [i8; BLOCK],
    scale: f16,
    sum: i16,
}

fn gpu_block(a: &QuantisedActivations, m: usize, b: usize) -> GpuBlock {
    GpuBlock {
        q: a.block(m, b),
        scale: a.scale(m, b),
        sum: a.sum(m, b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quant::{Spread, synthetic_activations};
    use proptest::prelude::*;

    fn one_block(x: &[f32]) -> (Vec<i8>, f16, f32) {
        let a = quantise(x, 1, x.len()).unwrap();
        assert!(ActivationCheck::new(x, &a).unwrap().ok());
        (
            a.block(0, 0)[..x.len().min(32)].to_vec(),
            a.scale(0, 0),
            a.factor(0),
        )
    }

    #[test]
    fn a_hand_worked_block() {
        // Largest 127 = 2^6·1.98: exponent 133, norm 2^7, scale 127·128/127 = 128, factor 2^-7.
        let mut x = [0.0; 32];
        x[..6].copy_from_slice(&[127.0, -127.0, 0.5, -0.5, 1.5, -1.49]);
        let (q, scale, factor) = one_block(&x);
        assert_eq!(scale.to_f32(), 128.0);
        assert_eq!(factor, 2f32.powi(-7));
        // Ties go up: 0.5 to 1, -0.5 to 0, 1.5 to 2.
        assert_eq!(q[..7], [127, -127, 1, 0, 2, -1, 0]);
    }

    #[test]
    fn zeros_stay_zero_and_padding_is_quantised_zeros() {
        let a = quantise(&[0.0; 64], 2, 32).unwrap();
        for m in 0..16 {
            assert_eq!(a.block(m, 0), [0; 32]);
            assert_eq!(a.scale(m, 0).to_bits(), 0);
            assert_eq!(a.sum(m, 0), 0);
            assert_eq!(a.factor(m), 2f32.powi(18 - 127 - 13));
        }
    }

    #[test]
    fn a_block_with_nan_or_infinity_is_marked_and_the_others_are_not() {
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut x = [1.0f32; 64];
            x[3] = bad;
            let a = quantise(&x, 1, 64).unwrap();
            assert!(a.scale(0, 0).is_nan());
            assert_eq!(a.block(0, 0), [0; 32]);
            assert!(a.scale(0, 1).is_finite());
            if bad.is_nan() {
                // NaN does not count for the normalisation.
                assert_eq!(a.factor(0), factor(127));
                assert_eq!(a.block(0, 1), [127; 32]);
            } else {
                assert_eq!(a.factor(0), factor(254));
            }
        }
        let a = quantise(&[f32::NAN; 32], 1, 32).unwrap();
        assert_eq!(a.factor(0), factor(18));
    }

    #[test]
    fn subnormal_and_huge_tokens_have_normal_factors() {
        let (q, _, f) = one_block(&[f32::MAX; 32]);
        assert_eq!((q[0], f), (127, factor(254)));
        let (q, s, f) = one_block(&[f32::MIN_POSITIVE; 32]);
        assert_eq!(f, factor(18));
        assert!(s.is_normal() && q[0] == 127);
        let (q, s, f) = one_block(&[f32::from_bits(1); 32]);
        assert_eq!((q[0], s.to_bits()), (0, 0));
        assert!(f.is_normal() && (f * 0.0625).is_normal());
        // A scale that is the smallest f16 subnormal: the quotient of 1.4 steps times 127 is cut at 127.
        let mut x = [0.0; 64];
        x[0] = 1.0;
        x[32] = 1.4 * 127.0 * 2f32.powi(-24 - 13);
        let a = quantise(&x, 1, 64).unwrap();
        assert_eq!((a.scale(0, 1).to_bits(), a.block(0, 1)[0]), (1, 127));
    }

    #[test]
    fn wrong_activations_are_found() {
        let x = synthetic_activations(3, 64, 1, Spread::Normal);
        let good = quantise(&x, 3, 64).unwrap();
        let layout = *good.layout();
        let broken = |at: u64, by: u8| {
            let mut bytes = good.bytes().to_vec();
            bytes[at as usize] = bytes[at as usize].wrapping_add(by);
            let a = QuantisedActivations::from_bytes(layout, bytes).unwrap();
            let check = ActivationCheck::new(&x, &a).unwrap();
            assert!(!check.ok());
            check
        };
        let check = broken(layout.piece_offset(0, 1, 0, 2) + 3, 1);
        assert_eq!((check.wrong_quants, check.wrong_sums), (1, 1));
        assert_eq!((check.max_quant_diff, check.first_wrong), (1, Some((2, 1))));
        assert_eq!(broken(layout.scale_offset(0, 0, 1), 1).wrong_scales, 1);
        assert_eq!(broken(layout.sum_offset(0, 0, 1), 1).wrong_sums, 1);
        assert_eq!(broken(layout.factor_offset(9) + 3, 1).wrong_factors, 1);
    }

    #[test]
    fn one_step_at_an_edge_is_allowed_and_elsewhere_not() {
        let mut x = [0.0; 32];
        // Scale 128·2^-7 = 1: element 1 lies at the edge between 2 and 3, element 2 does not.
        x[..3].copy_from_slice(&[127.0, 2.5, 2.6]);
        let good = quantise(&x, 1, 32).unwrap();
        assert_eq!(good.block(0, 0)[..3], [127, 3, 3]);
        let layout = *good.layout();
        let with = |e: u64| {
            let mut bytes = good.bytes().to_vec();
            bytes[(layout.piece_offset(0, 0, 0, 0) + e) as usize] -= 1;
            bytes[layout.sum_offset(0, 0, 0) as usize] -= 1;
            let a = QuantisedActivations::from_bytes(layout, bytes).unwrap();
            ActivationCheck::new(&x, &a).unwrap()
        };
        assert!(with(1).ok() && with(1).at_edges == 1 && with(1).max_quant_diff == 1);
        assert!(!with(2).ok());
    }

    /// Any float at all, each class often.
    fn any_float() -> impl Strategy<Value = f32> {
        prop_oneof![
            8 => any::<u32>().prop_map(f32::from_bits),
            8 => -1e3f32..1e3,
            2 => (-127i32..=127).prop_map(|v| v as f32 + 0.5),
            1 => Just(0.0),
            1 => (0u32..0x80_0000).prop_map(f32::from_bits),
        ]
    }

    proptest! {
        #[test]
        fn quantisation_is_exact(x in prop::collection::vec(any_float(), 96)) {
            let a = quantise(&x, 1, 96).unwrap();
            prop_assert!(ActivationCheck::new(&x, &a).unwrap().ok());
            let norm = normaliser(normal_exponent(&x));
            prop_assert_eq!(f64::from(norm) * f64::from(a.factor(0)), 1.0);
            for b in 0..3 {
                let xs = &x[32 * b..32 * b + 32];
                let q = a.block(0, b);
                let d = a.scale(0, b);
                prop_assert!(q.iter().all(|q| (-127..=127).contains(q)));
                prop_assert_eq!(a.sum(0, b), q.iter().map(|q| i16::from(*q)).sum::<i16>());
                if xs.iter().any(|v| !v.is_finite()) {
                    prop_assert!(d.is_nan() && q == [0; 32]);
                    continue;
                }
                prop_assert!(d.is_finite() && d.to_f32() >= 0.0 && d.to_f32() < 130.0);
                if d.to_f32() == 0.0 {
                    prop_assert_eq!(q, [0; 32]);
                    continue;
                }
                for (q, x) in q.iter().zip(xs) {
                    // d has 11 significant bits: both products are exact.
                    let xn = f64::from(x * norm);
                    let d = d.to_f64();
                    let (low, high) = ((f64::from(*q) - 0.5) * d, (f64::from(*q) + 0.5) * d);
                    prop_assert!(xn >= low || *q == -127, "{xn} below {q} steps of {d}");
                    prop_assert!(xn < high || *q == 127, "{xn} above {q} steps of {d}");
                    // q = -127 holds -127.5 too; below lie only quotients of subnormal scales.
                    if *q == -127 && xn < low || *q == 127 && xn >= high {
                        prop_assert!(d < f64::from(f16::MIN_POSITIVE), "{xn} beyond 127 steps of {d}");
                    }
                }
            }
        }
    }
}
