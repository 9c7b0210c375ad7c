//! Floating point as the cores do it: IEEE 754 binary32 and binary16 with round to nearest even unless an
//! instruction says otherwise. Everything here is branch-free where it stands in a lane loop, so that the
//! sixteen lanes of a warp become vector code.

use mali_isa::valhall::{Clamp, Cond, Round};

/// The canonical NaN of binary32.
pub(super) const NAN32: u32 = 0x7fc0_0000;

/// The canonical NaN of binary16.
pub(super) const NAN16: u32 = 0x7e00;

/// binary16 to binary32, exact. NaN payloads move to the top of the wider payload.
#[inline(always)]
pub(super) fn f16_to_f32(half: u32) -> f32 {
    let sign = (half & 0x8000) << 16;
    let magnitude = half & 0x7fff;
    // Put the exponent and mantissa in place and rescale: exact for normals and subnormals alike.
    let scaled = f32::from_bits(magnitude << 13) * f32::from_bits(0x7780_0000);
    let special = 0x7f80_0000 | (magnitude << 13);
    let bits = if magnitude >= 0x7c00 {
        special
    } else {
        scaled.to_bits()
    };
    f32::from_bits(sign | bits)
}

/// binary32 to binary16, round to nearest even. NaN becomes the canonical NaN.
#[inline(always)]
pub(super) fn f32_to_f16(value: f32) -> u32 {
    let bits = value.to_bits();
    let sign = (bits >> 16) & 0x8000;
    let magnitude = bits & 0x7fff_ffff;
    // Normal results: add half of the last place (to even), then shift.
    let normal = magnitude
        .wrapping_add(0xc800_0fff)
        .wrapping_add((magnitude >> 13) & 1)
        >> 13;
    // Subnormal results: let the adder of binary32 do the rounding at 2^-24.
    let magic = f32::from_bits(0x3f00_0000);
    let subnormal = (f32::from_bits(magnitude) + magic)
        .to_bits()
        .wrapping_sub(0x3f00_0000);
    let finite = if magnitude < 0x3880_0000 {
        subnormal
    } else {
        normal
    };
    let finite = if magnitude >= 0x477f_f000 {
        0x7c00
    } else {
        finite
    };
    let result = sign | (finite & 0xffff);
    if magnitude > 0x7f80_0000 {
        NAN16
    } else {
        result
    }
}

/// binary32 to binary16 in any rounding mode.
pub(super) fn f32_to_f16_round(value: f32, round: Round) -> u32 {
    let nearest = f32_to_f16(value);
    if round == Round::Rte || value.is_nan() || value.is_infinite() {
        return nearest;
    }
    let back = f16_to_f32(nearest);
    let away_wanted = match round {
        Round::Rte => return nearest,
        Round::Rtp => value > 0.0,
        Round::Rtn => value < 0.0,
        // No conversion to binary16 has this mode.
        Round::Rtna => return nearest,
        Round::Rtz => false,
    };
    if away_wanted {
        // At least as far from zero as the value.
        if back.abs() < value.abs() {
            nearest + 1
        } else {
            nearest
        }
    } else if back.abs() > value.abs() {
        nearest - 1
    } else {
        nearest
    }
}

/// `a * b + c` on binary16 values that were widened, rounded once to binary16: the product is exact in
/// binary32, the sum is rounded to odd there, which makes the last rounding right.
#[inline(always)]
pub(super) fn fma_f16(a: f32, b: f32, c: f32) -> u32 {
    let p = a * b;
    let s = p + c;
    // Knuth's two-sum: the exact error of s.
    let t = s - p;
    let error = (p - (s - t)) + (c - t);
    let bits = s.to_bits();
    // Where inexact and even, step one place towards the error.
    let inexact = error != 0.0 && error.abs() < f32::INFINITY && (bits & 1) == 0;
    let away = (error.to_bits() ^ bits) >> 31 == 0;
    let step = if away { 1u32 } else { u32::MAX };
    let odd = if inexact {
        bits.wrapping_add(step)
    } else {
        bits
    };
    f32_to_f16(f32::from_bits(odd))
}

/// The smaller of two numbers; the other one where one is NaN; -0 below +0.
/// (Mesa, panfrost/compiler/bifrost/valhall/ISA.xml, enum `Clamp`.)
#[inline(always)]
pub(super) fn fmin(a: f32, b: f32) -> f32 {
    let order = key(a) <= key(b);
    let least = if order { a } else { b };
    let least = if a.is_nan() { b } else { least };
    if b.is_nan() { a } else { least }
}

/// The larger of two numbers; the other one where one is NaN; -0 below +0.
#[inline(always)]
pub(super) fn fmax(a: f32, b: f32) -> f32 {
    let order = key(a) >= key(b);
    let most = if order { a } else { b };
    let most = if a.is_nan() { b } else { most };
    if b.is_nan() { a } else { most }
}

/// A signed integer that orders as the numbers do, -0 below +0.
#[inline(always)]
fn key(value: f32) -> i32 {
    let bits = value.to_bits() as i32;
    bits ^ (((bits >> 31) as u32) >> 1) as i32
}

/// The clamp of a result, by the maximum and minimum above. (Mesa, ISA.xml, enum `Clamp`.)
#[inline(always)]
pub(super) fn clamp(value: f32, clamp: Clamp) -> f32 {
    match clamp {
        Clamp::None => value,
        Clamp::ZeroInf => fmax(value, 0.0),
        Clamp::M1To1 => fmin(fmax(value, -1.0), 1.0),
        Clamp::ZeroTo1 => fmin(fmax(value, 0.0), 1.0),
    }
}

/// Rounds to an integral value, ties to even or in the given direction.
#[inline(always)]
pub(super) fn round_integral(value: f64, round: Round) -> f64 {
    match round {
        Round::Rte => value.round_ties_even(),
        Round::Rtp => value.ceil(),
        Round::Rtn => value.floor(),
        Round::Rtz => value.trunc(),
        Round::Rtna => value.round(),
    }
}

/// A comparison. `Total` is "less" in IEEE 754's total order.
/// (Mesa, panfrost/compiler/kraid/ops.rs, `CmpOp::fold`, compared with hardware by hw_tests.rs.)
#[inline(always)]
pub(super) fn compare(cond: Cond, a: f32, b: f32) -> bool {
    match cond {
        Cond::Eq => a == b,
        Cond::Gt => a > b,
        Cond::Ge => a >= b,
        Cond::Ne => a != b,
        Cond::Lt => a < b,
        Cond::Le => a <= b,
        // Not the same as `a != b`: false for NaN.
        Cond::Gtlt => (a < b) | (a > b),
        Cond::Total => key(a) < key(b),
    }
}

/// An integer of up to 33 bits to binary32 in the given rounding mode.
pub(super) fn int_to_f32(value: i64, round: Round) -> f32 {
    round_f64_to_f32(value as f64, round)
}

/// binary64 to binary32 in the given rounding mode.
pub(super) fn round_f64_to_f32(value: f64, round: Round) -> f32 {
    let nearest = value as f32;
    let back = f64::from(nearest);
    if round == Round::Rte || back == value || !value.is_finite() {
        return nearest;
    }
    let up = match round {
        Round::Rtp => true,
        Round::Rtz => value < 0.0,
        _ => false,
    };
    if up && back < value {
        nearest.next_up_()
    } else if !up && back > value {
        nearest.next_down_()
    } else {
        nearest
    }
}

/// Neighbours in binary32 (`f32::next_up` came with Rust 1.86).
trait Neighbours {
    fn next_up_(self) -> Self;
    fn next_down_(self) -> Self;
}

impl Neighbours for f32 {
    fn next_up_(self) -> f32 {
        if self == 0.0 {
            return f32::from_bits(1);
        }
        let bits = self.to_bits();
        f32::from_bits(if self > 0.0 { bits + 1 } else { bits - 1 })
    }

    fn next_down_(self) -> f32 {
        -(-self).next_up_()
    }
}

/// binary32 to a signed 32-bit integer, saturating, NaN to 0.
#[inline(always)]
pub(super) fn f32_to_s32(value: f32, round: Round) -> u32 {
    round_integral(f64::from(value), round) as i32 as u32
}

/// binary32 to an unsigned 32-bit integer, saturating, NaN to 0.
#[inline(always)]
pub(super) fn f32_to_u32(value: f32, round: Round) -> u32 {
    round_integral(f64::from(value), round) as u32
}

/// `value * 2^exponent`, rounded once, by at most two exact scalings of the binary64 range.
pub(super) fn ldexp(value: f32, exponent: i32, round: Round) -> f32 {
    let exponent = exponent.clamp(-600, 600);
    let half = exponent / 2;
    let scale = |e: i32| f64::from_bits(((1023 + e) as u64) << 52);
    round_f64_to_f32(
        f64::from(value) * scale(half) * scale(exponent - half),
        round,
    )
}

/// Splits a finite, nonzero number into a mantissa in [1, 2) and its exponent.
pub(super) fn split(value: f32) -> (f32, i32) {
    let wide = f64::from(value).to_bits();
    let exponent = ((wide >> 52) & 0x7ff) as i32 - 1023;
    let mantissa = f64::from_bits((wide & !(0x7ff << 52)) | (1023 << 52));
    (mantissa as f32, exponent)
}

/// Argument reduction of the logarithm: value = m * 2^e with |m| in [0.75, 1.5).
/// (Mesa, panfrost/compiler/bifrost_compile.c, `bi_lower_flog2_32`: "a1 in [0.75, 1.5)".)
pub(super) fn split_log(value: f32) -> (f32, i32) {
    let (m, e) = split(value);
    if m.abs() >= 1.5 {
        (m * 0.5, e + 1)
    } else {
        (m, e)
    }
}

/// A number flushed to a zero of its sign where it is subnormal.
#[inline(always)]
pub(super) fn flush32(bits: u32) -> u32 {
    if bits & 0x7f80_0000 == 0 {
        bits & 0x8000_0000
    } else {
        bits
    }
}

/// Both halves flushed to zeros of their sign where subnormal.
#[inline(always)]
pub(super) fn flush16x2(bits: u32) -> u32 {
    let low = if bits & 0x7c00 == 0 {
        bits & 0x8000
    } else {
        bits & 0xffff
    };
    let high = if bits & 0x7c00_0000 == 0 {
        bits & 0x8000_0000
    } else {
        bits & 0xffff_0000
    };
    low | high
}

/// Moves a correctly rounded result of an approximating unit by one place up or down, or not at all, as a
/// function of the seed and the input. Seed 0 leaves it. Zero, infinity and NaN stay.
pub(super) fn perturb(result: f32, input: u32, seed: u64) -> f32 {
    if seed == 0 || !result.is_normal() {
        return result;
    }
    let mut x =
        seed ^ (u64::from(input) << 32) ^ u64::from(input).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^= x >> 31;
    let moved = match x % 3 {
        0 => f32::from_bits(result.to_bits() - 1),
        1 => f32::from_bits(result.to_bits() + 1),
        _ => result,
    };
    if moved.is_normal() { moved } else { result }
}

/// Reciprocal, correctly rounded. The unit flushes subnormal binary32 numbers on both sides, whatever the program
/// descriptor says; widened binary16 numbers are never such. (Mesa, kraid's ops.rs, `OpFRcp`.)
pub(super) fn recip(value: f32) -> f32 {
    flushed(1.0 / flushed(value))
}

/// Reciprocal square root, correctly rounded: the binary64 estimate is off by less than 2^-51 of its value, and
/// no binary32 input has a result that close to a midpoint. Subnormal inputs are zero (Mesa, kraid's ops.rs, `OpFRsq`).
pub(super) fn rsqrt(value: f32) -> f32 {
    let value = flushed(value);
    if value == 0.0 {
        return f32::INFINITY.copysign(value);
    }
    (1.0 / f64::from(value).sqrt()) as f32
}

fn flushed(value: f32) -> f32 {
    f32::from_bits(flush32(value.to_bits()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::f16;

    #[test]
    fn every_half_widens_exactly() {
        for bits in 0..=0xffffu16 {
            let want = f16::from_bits(bits).to_f32();
            let got = f16_to_f32(u32::from(bits));
            assert!(
                want.to_bits() == got.to_bits() || (want.is_nan() && got.is_nan()),
                "{bits:#x}"
            );
        }
    }

    #[test]
    fn narrowing_is_nearest_even() {
        let mut x = 1u32;
        for i in 0..2_000_000u32 {
            x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            // Half of the samples in the range where halves live.
            let bits = if i & 1 == 0 {
                x
            } else {
                (x & 0x83ff_ffff) | (0x3000_0000 + ((x >> 3) & 0x1fff_ffff))
            };
            let value = f32::from_bits(bits);
            let want = f16::from_f32(value);
            let got = f32_to_f16(value);
            if want.is_nan() {
                assert!(f16::from_bits(got as u16).is_nan());
            } else {
                assert_eq!(u32::from(want.to_bits()), got, "{bits:#x}");
            }
        }
        for bits in 0..0x7c00u32 {
            // Midpoints between neighbours go to the even one, their neighbours to the nearer.
            let low = f16_to_f32(bits);
            let high = f16_to_f32(bits + 1);
            if high.is_finite() {
                let middle = (low + high) * 0.5;
                assert_eq!(f32_to_f16(middle), bits + (bits & 1));
                assert_eq!(f32_to_f16(f32::from_bits(middle.to_bits() - 1)), bits);
                assert_eq!(f32_to_f16(f32::from_bits(middle.to_bits() + 1)), bits + 1);
            }
        }
    }

    #[test]
    fn half_fma_rounds_once() {
        let mut x = 7u64;
        for _ in 0..400_000 {
            x = x
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let (a, b, c) = ((x >> 48) as u16, (x >> 32) as u16, (x >> 16) as u16);
            let [fa, fb, fc] = [a, b, c].map(|h| f16::from_bits(h).to_f64());
            let exact = fa.mul_add(fb, fc);
            let got = fma_f16(fa as f32, fb as f32, fc as f32) as u16;
            if exact.is_nan() {
                assert!(f16::from_bits(got).is_nan());
                continue;
            }
            let value = |bits: u16| f16::from_bits(bits).to_f64();
            if exact.abs() >= 65520.0 || value(got).is_infinite() {
                assert!(
                    value(got).is_infinite() == (exact.abs() >= 65520.0),
                    "{a:#x} {b:#x} {c:#x}"
                );
                continue;
            }
            // No neighbour is nearer, and of two equally near ones the even one was taken.
            let distance = (value(got) - exact).abs();
            for other in [got.wrapping_sub(1), got.wrapping_add(1)] {
                if !value(other).is_finite() || (other ^ got) & 0x8000 != 0 {
                    continue;
                }
                let theirs = (value(other) - exact).abs();
                let better = distance < theirs || (distance == theirs && got & 1 == 0);
                assert!(better, "{a:#x} {b:#x} {c:#x}: {got:#x}");
            }
        }
    }

    #[test]
    fn directed_rounding() {
        let third = 1.0f32 / 3.0;
        let down = f32_to_f16_round(third, Round::Rtn);
        let up = f32_to_f16_round(third, Round::Rtp);
        assert_eq!(up, down + 1);
        assert!(f16_to_f32(down) < third && f16_to_f32(up) > third);
        assert_eq!(f32_to_f16_round(third, Round::Rtz), down);
        assert_eq!(f32_to_f16_round(-third, Round::Rtn), 0x8000 | up);
        assert_eq!(
            int_to_f32(0x0100_0001, Round::Rte).to_bits(),
            16_777_216f32.to_bits()
        );
        assert_eq!(
            int_to_f32(0x0100_0001, Round::Rtp).to_bits(),
            16_777_218f32.to_bits()
        );
        assert_eq!(
            int_to_f32(-0x0100_0001, Round::Rtz).to_bits(),
            (-16_777_216f32).to_bits()
        );
        assert_eq!(f32_to_s32(2.5, Round::Rte), 2);
        assert_eq!(f32_to_s32(-2.5, Round::Rtn), (-3i32) as u32);
        assert_eq!(f32_to_s32(f32::NAN, Round::Rte), 0);
        assert_eq!(f32_to_s32(1e10, Round::Rte), i32::MAX as u32);
        assert_eq!(f32_to_u32(-1.0, Round::Rte), 0);
        assert_eq!(f32_to_u32(4e9, Round::Rtz), 4_000_000_000);
    }

    #[test]
    fn minimum_and_clamps_follow_the_description() {
        assert_eq!(fmin(-0.0, 0.0).to_bits(), (-0.0f32).to_bits());
        assert_eq!(fmax(-0.0, 0.0).to_bits(), 0);
        assert_eq!(fmax(f32::NAN, -2.0), -2.0);
        assert_eq!(fmin(3.0, f32::NAN), 3.0);
        assert_eq!(clamp(-0.0, Clamp::ZeroTo1).to_bits(), 0);
        assert_eq!(clamp(f32::NAN, Clamp::M1To1), -1.0);
        assert_eq!(clamp(f32::NAN, Clamp::ZeroInf), 0.0);
        assert_eq!(clamp(-0.0, Clamp::M1To1).to_bits(), (-0.0f32).to_bits());
        assert_eq!(clamp(7.0, Clamp::ZeroTo1), 1.0);
    }

    #[test]
    fn scaling_and_reduction() {
        assert_eq!(ldexp(1.5, -149, Round::Rte).to_bits(), 2);
        assert_eq!(ldexp(1.0, -150, Round::Rte).to_bits(), 0);
        assert_eq!(ldexp(1.0, 200, Round::Rte), f32::INFINITY);
        assert_eq!(split_log(1.6), (0.8, 1));
        assert_eq!(split_log(1.0), (1.0, 0));
        assert_eq!(split_log(0.75), (0.75, 0));
        assert_eq!(split_log(f32::from_bits(1)), (1.0, -149));
        assert_eq!(flush32(0x8000_0001), 0x8000_0000);
        assert_eq!(flush16x2(0x8001_3c00), 0x8000_3c00);
    }

    #[test]
    fn the_seed_moves_by_one_place_at_most_and_zero_not_at_all() {
        let mut moved = 0;
        for i in 1..1000u32 {
            let x = i as f32 * 0.37;
            let exact = recip(x);
            assert_eq!(perturb(exact, x.to_bits(), 0).to_bits(), exact.to_bits());
            let other = perturb(exact, x.to_bits(), 42);
            let distance = (i64::from(other.to_bits()) - i64::from(exact.to_bits())).abs();
            assert!(distance <= 1);
            moved += distance;
            assert_eq!(other.to_bits(), perturb(exact, x.to_bits(), 42).to_bits());
        }
        assert!(moved > 500);
    }
}
