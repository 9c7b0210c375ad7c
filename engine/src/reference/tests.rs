//! The product against a plain restatement of its rules, and everything against f64.

use super::*;
use crate::quant::{
    Format, Matrix, OwnedMatrix, Scale, SplitMix, Spread, int_block, random_blocks,
    synthetic_activations, synthetic_matrix,
};
use crate::repack::OutputLayout;
use half::f16;
use proptest::prelude::*;

/// The rules of layout version 1, one output at a time and without any of the fast path's arrangements.
fn plain(w: &Matrix<'_>, a: &QuantisedActivations, m: usize, n: usize) -> f32 {
    let mut acc = 0f32;
    for b in 0..w.k() / 32 {
        let block = int_block(w.format(), w.row(n), b);
        let (q, da) = (a.block(m, b), a.scale(m, b).to_f32());
        let isum = |range: std::ops::Range<usize>| -> i32 {
            range.map(|e| i32::from(block.q[e]) * i32::from(q[e])).sum()
        };
        let half = |bits: u16| f16::from_bits(bits).to_f32();
        let (s, min) = match block.scale {
            Scale::Half { d } => (half(d), None),
            Scale::HalfMin { d, m } => (half(d), Some(half(m))),
            Scale::SingleMin { s, m } => (s, Some(m)),
            Scale::Halves { s } => {
                for (h, s) in s.into_iter().enumerate() {
                    acc = (isum(16 * h..16 * h + 16) as f32).mul_add(s * da, acc);
                }
                continue;
            }
        };
        let times = if w.format() == Format::Q4_0 { 16 } else { 1 };
        acc = ((times * isum(0..32)) as f32).mul_add(s * da, acc);
        if let Some(min) = min {
            acc = f32::from(a.sum(m, b)).mul_add(min * da, acc);
        }
    }
    match w.format() {
        Format::Q4_0 => acc * (a.factor(m) * 0.0625),
        _ => acc * a.factor(m),
    }
}

fn bits(y: &[f32]) -> Vec<u32> {
    y.iter()
        .map(|v| if v.is_nan() { 0x7fc0_0000 } else { v.to_bits() })
        .collect()
}

/// Runs the reference as if it were the GPU and judges it.
fn judged(w: &Matrix<'_>, x: &[f32], m: usize) -> Verdict {
    let a = w
        .format()
        .is_quantised()
        .then(|| quantise(x, m, w.k()).unwrap());
    let y = product_of(w, x, m).unwrap();
    let verdict = verify(w, x, m, a.as_ref(), &y, w.n()).unwrap();
    assert!(verdict.exact);
    verdict
}

#[test]
fn the_product_follows_the_rules() {
    for format in Format::ALL.into_iter().filter(|f| f.is_quantised()) {
        for (m, n, k, seed) in [(1, 1, 256, 1), (5, 3, 512, 2), (18, 17, 256, 3)] {
            for w in [
                random_blocks(format, n, k, seed).unwrap(),
                synthetic_matrix(format, n, k, seed, Spread::Extreme).unwrap(),
            ] {
                let x = synthetic_activations(m, k, seed, Spread::Extreme);
                let a = quantise(&x, m, k).unwrap();
                let y = product(&w.as_matrix(), &a).unwrap();
                let want: Vec<f32> = (0..m * n)
                    .map(|i| plain(&w.as_matrix(), &a, i / n, i % n))
                    .collect();
                assert_eq!(bits(&y), bits(&want), "{format} {m} {n} {k}");
            }
        }
    }
}

#[test]
fn a_hand_worked_product() {
    // Q4_0, d = 0.5, all weights (9 - 8)·0.5; activations 127, then zeros: 127·128/127 = 128 is the scale, 127 the int8.
    let mut block = f16::from_f32(0.5).to_le_bytes().to_vec();
    block.extend([0x99; 16]);
    let w = OwnedMatrix::new(Format::Q4_0, 1, 32, block).unwrap();
    let mut x = [0.0; 32];
    x[0] = 127.0;
    x[31] = -1.0;
    assert_eq!(product_of(&w.as_matrix(), &x, 1).unwrap(), [63.0]);
    assert_eq!(product_f64(&w.as_matrix(), &x, 1).unwrap(), [63.0]);
}

#[test]
fn every_format_is_near_f64() {
    for format in Format::ALL {
        let block = format.block_elements().max(32);
        for m in [1, 7, 16, 33] {
            for (n, k) in [(1, block), (17, 3 * block), (37, 512)] {
                let w = synthetic_matrix(format, n, k, 21, Spread::Normal).unwrap();
                let x = synthetic_activations(m, k, 22, Spread::Normal);
                let v = judged(&w.as_matrix(), &x, m);
                assert!(v.ok, "{format} {m} {n} {k}: {}", v.complaint());
                if m * n >= SMALL_PRODUCT {
                    assert!(v.accuracy.nmse > 0.0 && v.accuracy.small_error.is_none());
                }
            }
        }
    }
}

#[test]
fn odd_k_of_floats() {
    for format in [Format::F16, Format::F32] {
        for k in [1, 3, 8, 33, 100] {
            let w = synthetic_matrix(format, 5, k, 1, Spread::Normal).unwrap();
            let x = synthetic_activations(17, k, 2, Spread::Normal);
            let v = judged(&w.as_matrix(), &x, 17);
            assert!(v.ok, "{format} {k}: {}", v.complaint());
        }
    }
}

#[test]
fn extreme_scales_zeros_and_subnormals_are_near_f64() {
    for format in Format::ALL {
        let k = 512;
        for spread in [Spread::Normal, Spread::Extreme] {
            let w = synthetic_matrix(format, 19, k, 5, spread).unwrap();
            let mut x = synthetic_activations(9, k, 6, Spread::Extreme);
            // A token of zeros, one of subnormals, one of the smallest and one of huge numbers.
            x[..k].fill(0.0);
            let mut rng = SplitMix::new(1);
            for v in &mut x[k..2 * k] {
                *v = f32::from_bits((rng.next_u64() >> 45) as u32);
            }
            x[2 * k..3 * k].fill(f32::from_bits(1));
            for v in &mut x[3 * k..4 * k] {
                *v = rng.normal() * 2f32.powi(100);
            }
            let v = judged(&w.as_matrix(), &x, 9);
            assert!(v.ok, "{format} {spread:?}: {}", v.complaint());
            // Each alone too: the largest token must not hide the others.
            for (i, token) in x.chunks_exact(k).enumerate() {
                let v = judged(&w.as_matrix(), token, 1);
                assert!(v.ok, "{format} {spread:?} token {i}: {}", v.complaint());
            }
        }
    }
}

#[test]
fn nan_and_infinity_compare_as_such() {
    for format in Format::ALL {
        let w = synthetic_matrix(format, 40, 256, 5, Spread::Normal).unwrap();
        let mut x = synthetic_activations(3, 256, 6, Spread::Normal);
        x[7] = f32::NAN;
        x[256 + 9] = f32::INFINITY;
        let v = judged(&w.as_matrix(), &x, 3);
        assert!(v.ok, "{format}: {}", v.complaint());
        assert_eq!(v.accuracy.non_finite, 80, "{format}");
        // A finite answer where there is none is wrong.
        let a = format.is_quantised().then(|| quantise(&x, 3, 256).unwrap());
        let mut y = product_of(&w.as_matrix(), &x, 3).unwrap();
        y[0] = 0.0;
        let v = verify(&w.as_matrix(), &x, 3, a.as_ref(), &y, 40).unwrap();
        assert_eq!((v.mismatches, v.accuracy.wrong, v.ok), (1, 1, false));
        // And a NaN where there is an answer.
        let mut y = product_of(&w.as_matrix(), &x, 3).unwrap();
        y[81] = f32::NAN;
        let v = verify(&w.as_matrix(), &x, 3, a.as_ref(), &y, 40).unwrap();
        assert_eq!((v.mismatches, v.accuracy.wrong, v.ok), (1, 1, false));
    }
}

#[test]
fn weights_with_infinite_scales_are_non_finite_in_both() {
    for format in Format::ALL.into_iter().filter(|f| *f != Format::F32) {
        let w = random_blocks(format, 65, 512, 5).unwrap();
        let mut bytes = w.as_matrix().bytes().to_vec();
        let at = if format == Format::Q6_K { 208 } else { 0 };
        for (n, bits) in [(0, f16::INFINITY), (1, f16::NAN)] {
            let row = w.as_matrix().row(0).len() * n;
            bytes[row + at..row + at + 2].copy_from_slice(&bits.to_le_bytes());
        }
        let w = OwnedMatrix::new(format, 65, 512, bytes).unwrap();
        let x = synthetic_activations(2, 512, 6, Spread::Normal);
        let v = judged(&w.as_matrix(), &x, 2);
        assert!(v.ok, "{format}: {}", v.complaint());
        assert_eq!(v.accuracy.non_finite, 4, "{format}");
    }
}

#[test]
fn one_wrong_bit_is_found_and_padding_is_not_looked_at() {
    let w = synthetic_matrix(Format::Q4_1, 17, 64, 5, Spread::Normal).unwrap();
    let w = w.as_matrix();
    let x = synthetic_activations(7, 64, 6, Spread::Normal);
    let a = quantise(&x, 7, 64).unwrap();
    let tight = product(&w, &a).unwrap();
    let layout = OutputLayout::new(7, 17).unwrap();
    let mut y = vec![f32::NAN; layout.total_bytes() as usize / 4];
    for (to, from) in y
        .chunks_exact_mut(layout.stride())
        .zip(tight.chunks_exact(17))
    {
        to[..17].copy_from_slice(from);
    }
    let good = verify(&w, &x, 7, Some(&a), &y, layout.stride()).unwrap();
    assert!(good.ok, "{}", good.complaint());
    assert_eq!(good.complaint(), "");
    let at = 3 * layout.stride() + 16;
    y[at] = f32::from_bits(y[at].to_bits() ^ 1);
    let v = verify(&w, &x, 7, Some(&a), &y, layout.stride()).unwrap();
    assert!(!v.ok && !v.exact && v.accuracy.ok);
    let first = v.first_mismatch.unwrap();
    assert_eq!((first.m, first.n), (3, 16));
    assert!(
        v.complaint().contains("first y[3][16]"),
        "{}",
        v.complaint()
    );
    // Far off: f64 notices as well.
    y[at] += 1e6;
    let v = verify(&w, &x, 7, Some(&a), &y, layout.stride()).unwrap();
    assert!(!v.accuracy.ok && v.accuracy.nmse > 1.0);
}

#[test]
fn what_does_not_fit_is_refused() {
    let q = synthetic_matrix(Format::Q8_0, 3, 64, 5, Spread::Normal).unwrap();
    let f = synthetic_matrix(Format::F16, 3, 64, 5, Spread::Normal).unwrap();
    let (q, f) = (q.as_matrix(), f.as_matrix());
    let x = [1.0; 64];
    let a = quantise(&x, 1, 64).unwrap();
    assert!(matches!(product(&f, &a), Err(ProductError::Format { .. })));
    assert!(matches!(
        product_float(&q, &x, 1),
        Err(ProductError::Format { .. })
    ));
    let short = quantise(&x[..32], 1, 32).unwrap();
    assert!(matches!(
        product(&q, &short),
        Err(ProductError::OtherK { .. })
    ));
    assert!(product_float(&f, &x, 2).is_err());
    assert!(product_f64(&f, &x[1..], 1).is_err());
    assert!(quantise(&x, 2, 64).is_err());
    let v = |a, y: &[f32], stride| verify(&q, &x, 1, a, y, stride);
    assert!(matches!(
        v(None, &[0.0; 3], 3),
        Err(VerifyError::NoActivations(_))
    ));
    assert!(matches!(
        v(Some(&a), &[0.0; 2], 3),
        Err(VerifyError::Result { .. })
    ));
    assert!(matches!(
        v(Some(&a), &[0.0; 3], 2),
        Err(VerifyError::Result { .. })
    ));
    let two = quantise(&[1.0; 128], 2, 64).unwrap();
    assert!(matches!(
        v(Some(&two), &[0.0; 3], 3),
        Err(VerifyError::OtherM { .. })
    ));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn any_shape_is_exact_and_near(
        f in 0usize..10, m in 1usize..20, n in 1usize..40, blocks in 1usize..4, seed: u64,
    ) {
        let format = Format::ALL[f];
        let k = blocks * format.block_elements().max(8);
        let w = synthetic_matrix(format, n, k, seed, Spread::Normal).unwrap();
        let w = w.as_matrix();
        let x = synthetic_activations(m, k, seed, Spread::Normal);
        let v = judged(&w, &x, m);
        prop_assert!(v.ok, "{format} {m} {n} {k}: {}", v.complaint());
        if format.is_quantised() {
            let a = quantise(&x, m, k).unwrap();
            let y = product(&w, &a).unwrap();
            let (i, j) = (seed as usize % m, seed as usize % n);
            prop_assert_eq!(y[i * n + j].to_bits(), plain(&w, &a, i, j).to_bits());
        }
    }
}

#[test]
fn a_signalling_nan_is_passed_over_like_any_other() {
    let signalling = f32::from_bits(0xff82_bdbd);
    assert!(signalling.is_nan());
    for token in [[signalling, 1.5], [1.5, signalling]] {
        assert_eq!(normal_exponent(&token), 127);
    }
}
