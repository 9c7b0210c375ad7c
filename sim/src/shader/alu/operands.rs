//! Sources: rows of a warp or constants, narrowed, permuted and converted as the operand says.

// Lanes are walked by number, several arrays at once: that is the form which becomes vector code.
#![allow(clippy::needless_range_loop)]

use super::super::float::*;
use super::super::program::{Operand, Part, Program};
use super::super::warp::{Lanes, WARP_LANES, Warp, row};
use super::{F, FloatMode};

#[inline(always)]
pub(super) fn raw<'a>(warp: &'a Warp, program: &'a Program, index: u16) -> &'a Lanes {
    if index < row::CONSTANTS {
        &warp.rows[usize::from(index)]
    } else {
        &program.constants[usize::from(index - row::CONSTANTS)]
    }
}

#[inline(always)]
pub(super) fn map1(a: Lanes, f: impl Fn(u32) -> u32) -> Lanes {
    let mut out = Lanes::ZERO;
    for i in 0..WARP_LANES {
        out.0[i] = f(a.0[i]);
    }
    out
}

#[inline(always)]
pub(super) fn map2(a: Lanes, b: Lanes, f: impl Fn(u32, u32) -> u32) -> Lanes {
    let mut out = Lanes::ZERO;
    for i in 0..WARP_LANES {
        out.0[i] = f(a.0[i], b.0[i]);
    }
    out
}

#[inline(always)]
pub(super) fn map3(a: Lanes, b: Lanes, c: Lanes, f: impl Fn(u32, u32, u32) -> u32) -> Lanes {
    let mut out = Lanes::ZERO;
    for i in 0..WARP_LANES {
        out.0[i] = f(a.0[i], b.0[i], c.0[i]);
    }
    out
}

/// A 32-bit integer source: the whole, or a half or byte widened.
#[inline(always)]
pub(in super::super) fn int(warp: &Warp, program: &Program, src: &Operand, signed: bool) -> Lanes {
    let value = *raw(warp, program, src.row);
    match src.part {
        Part::Whole => value,
        part => narrow(value, part, signed),
    }
}

/// The wide source's low word, or the part of it that is used.
pub(super) fn narrow(value: Lanes, part: Part, signed: bool) -> Lanes {
    let extract = |shift: u32, bits: u32| {
        map1(value, |x| {
            let top = x << (32 - bits - shift);
            if signed {
                ((top as i32) >> (32 - bits)) as u32
            } else {
                top >> (32 - bits)
            }
        })
    };
    match part {
        Part::Half(n) => extract(16 * u32::from(n & 1), 16),
        Part::Byte(n) => extract(8 * u32::from(n & 3), 8),
        Part::Bytes(n) => permute(value, n),
        Part::Pair([a, b]) => map1(value, |x| {
            let pick = |n: u8| {
                let byte = (x >> (8 * u32::from(n & 3))) as u8;
                if signed {
                    u32::from(byte as i8 as i16 as u16)
                } else {
                    u32::from(byte)
                }
            };
            pick(a) | pick(b) << 16
        }),
        Part::Whole | Part::Word(_) => value,
    }
}

#[inline(always)]
pub(super) fn permute(value: Lanes, n: [u8; 4]) -> Lanes {
    let [a, b, c, d] = n.map(|n| 8 * u32::from(n & 3));
    map1(value, |x| {
        (x >> a) & 0xff | ((x >> b) & 0xff) << 8 | ((x >> c) & 0xff) << 16 | ((x >> d) & 0xff) << 24
    })
}

/// A 64-bit source.
#[inline(always)]
pub(in super::super) fn wide(
    warp: &Warp,
    program: &Program,
    src: &Operand,
    signed: bool,
) -> [u64; WARP_LANES] {
    let low = raw(warp, program, src.row);
    let mut out = [0; WARP_LANES];
    match src.part {
        Part::Whole => {
            let high = raw(warp, program, src.row + 1);
            for i in 0..WARP_LANES {
                out[i] = u64::from(low.0[i]) | u64::from(high.0[i]) << 32;
            }
        }
        part => {
            let value = match part {
                Part::Word(1) => *raw(warp, program, src.row + 1),
                part => narrow(*low, part, signed),
            };
            for i in 0..WARP_LANES {
                let value = value.0[i];
                out[i] = if signed {
                    value as i32 as i64 as u64
                } else {
                    u64::from(value)
                };
            }
        }
    }
    out
}

/// A binary32 source with its widening and sign modifiers.
#[inline(always)]
pub(super) fn float(warp: &Warp, program: &Program, src: &Operand, mode: FloatMode) -> F {
    let value = raw(warp, program, src.row);
    let mut out = [0.0; WARP_LANES];
    match src.part {
        Part::Half(n) => {
            let shift = 16 * u32::from(n & 1);
            for i in 0..WARP_LANES {
                let half = (value.0[i] >> shift) & 0xffff;
                let half = if mode.flush16 { flush16x2(half) } else { half };
                out[i] = f16_to_f32(half);
            }
        }
        _ => {
            for i in 0..WARP_LANES {
                out[i] = f32::from_bits(value.0[i]);
            }
            if mode.flush32 {
                for x in &mut out {
                    *x = f32::from_bits(flush32(x.to_bits()));
                }
            }
        }
    }
    signs(&mut out, src);
    out
}

#[inline(always)]
pub(super) fn signs(values: &mut F, src: &Operand) {
    if src.abs {
        for x in values.iter_mut() {
            *x = f32::from_bits(x.to_bits() & 0x7fff_ffff);
        }
    }
    if src.neg {
        for x in values.iter_mut() {
            *x = f32::from_bits(x.to_bits() ^ 0x8000_0000);
        }
    }
}

/// A source of two binary16 numbers, widened: low halves, high halves.
#[inline(always)]
pub(super) fn halves(warp: &Warp, program: &Program, src: &Operand, mode: FloatMode) -> (F, F) {
    let packed = int(warp, program, src, false);
    let packed = if mode.flush16 {
        map1(packed, flush16x2)
    } else {
        packed
    };
    let (mut low, mut high) = ([0.0; WARP_LANES], [0.0; WARP_LANES]);
    for i in 0..WARP_LANES {
        low[i] = f16_to_f32(packed.0[i] & 0xffff);
        high[i] = f16_to_f32(packed.0[i] >> 16);
    }
    signs(&mut low, src);
    signs(&mut high, src);
    (low, high)
}
