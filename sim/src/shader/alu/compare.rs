//! Comparisons, and what a comparison gives: all ones, one, or a chain of conditions.

// Lanes are walked by number, several arrays at once: that is the form which becomes vector code.
#![allow(clippy::needless_range_loop)]

use mali_isa::valhall::{Cond, ResultType};

use super::super::float::compare;
use super::super::warp::{Lanes, WARP_LANES};
use super::F;
use super::integer::{by_bytes, by_halves};
use super::operands::{map1, map2};

/// Sixteen truth values as words of all ones or zeros.
#[inline(always)]
pub(super) fn test<T: Copy>(
    a: [T; WARP_LANES],
    b: [T; WARP_LANES],
    f: impl Fn(T, T) -> bool,
) -> Lanes {
    let mut out = Lanes::ZERO;
    for i in 0..WARP_LANES {
        out.0[i] = 0u32.wrapping_sub(u32::from(f(a[i], b[i])));
    }
    out
}

#[inline(always)]
pub(super) fn compare_ints<T: Copy + Ord>(
    cond: Cond,
    a: [T; WARP_LANES],
    b: [T; WARP_LANES],
) -> Lanes {
    match cond {
        Cond::Eq => test(a, b, |a, b| a == b),
        Cond::Gt => test(a, b, |a, b| a > b),
        Cond::Ge => test(a, b, |a, b| a >= b),
        Cond::Ne | Cond::Gtlt | Cond::Total => test(a, b, |a, b| a != b),
        Cond::Lt => test(a, b, |a, b| a < b),
        Cond::Le => test(a, b, |a, b| a <= b),
    }
}

#[inline(always)]
pub(super) fn compare32(cond: Cond, signed: bool, a: Lanes, b: Lanes) -> Lanes {
    if signed {
        compare_ints(cond, a.0.map(|x| x as i32), b.0.map(|x| x as i32))
    } else {
        compare_ints(cond, a.0, b.0)
    }
}

/// Compares element by element: `bits` is 8 or 16. The result has all bits of an element set or clear.
pub(super) fn compare_packed(cond: Cond, signed: bool, bits: u32, a: Lanes, b: Lanes) -> Lanes {
    let mut out = Lanes::ZERO;
    let mut shift = 0;
    while shift < 32 {
        let widen = |x: u32| {
            let top = (x << (32 - bits - shift)) & (u32::MAX << (32 - bits));
            if signed {
                i64::from(top as i32)
            } else {
                i64::from(top)
            }
        };
        let verdict = compare_ints(cond, a.0.map(widen), b.0.map(widen));
        let mask = (u32::MAX >> (32 - bits)) << shift;
        out = map2(out, verdict, |out, verdict| out | (verdict & mask));
        shift += bits;
    }
    out
}

#[inline(always)]
pub(super) fn compare_floats(cond: Cond, a: F, b: F) -> Lanes {
    match cond {
        Cond::Eq => test(a, b, |a, b| a == b),
        Cond::Gt => test(a, b, |a, b| a > b),
        Cond::Ge => test(a, b, |a, b| a >= b),
        Cond::Ne => test(a, b, |a, b| a != b),
        Cond::Lt => test(a, b, |a, b| a < b),
        Cond::Le => test(a, b, |a, b| a <= b),
        Cond::Gtlt | Cond::Total => test(a, b, |a, b| compare(cond, a, b)),
    }
}

/// Elements of the accumulator that are not zero, as all ones.
#[inline(always)]
pub(super) fn truth(value: Lanes, bits: u32) -> Lanes {
    map1(value, |x| {
        let mut out = 0;
        let mut shift = 0;
        while shift < 32 {
            let mask = (u32::MAX >> (32 - bits)) << shift;
            if x & mask != 0 {
                out |= mask;
            }
            shift += bits;
        }
        out
    })
}

/// A comparison's truth (all ones or zeros per element) in the form that the instruction asks for.
#[inline(always)]
pub(super) fn verdict(value: Lanes, result: ResultType, bits: u32) -> Lanes {
    let one = match (result, bits) {
        (ResultType::M1, _) => return value,
        (ResultType::F1, 32) => 0x3f80_0000,
        (ResultType::F1, _) => 0x3c00_3c00,
        (_, 32) => 1,
        (_, 16) => 0x0001_0001,
        _ => 0x0101_0101,
    };
    map1(value, |x| x & one)
}

#[derive(Clone, Copy)]
pub(super) enum Chain {
    Or,
    And,
}

#[inline(always)]
pub(super) fn chain(value: Lanes, accumulator: Lanes, how: Chain, bits: u32) -> Lanes {
    let accumulator = truth(accumulator, bits);
    match how {
        Chain::Or => map2(value, accumulator, |a, b| a | b),
        Chain::And => map2(value, accumulator, |a, b| a & b),
    }
}

/// Elements whose sign bit is set, as all ones.
pub(super) fn compare_mux_sign(mask: Lanes, bits: u32) -> Lanes {
    match bits {
        32 => map1(mask, |x| ((x as i32) >> 31) as u32),
        16 => by_halves(mask, Lanes::ZERO, true, |x, _| x >> 15),
        _ => by_bytes(mask, Lanes::ZERO, true, |x, _| x >> 7),
    }
}
