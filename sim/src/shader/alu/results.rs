//! Results: into the active lanes of a row, clamped, rounded and marked as defined.

// Lanes are walked by number, several arrays at once: that is the form which becomes vector code.
#![allow(clippy::needless_range_loop)]

use mali_isa::valhall::Clamp;

use super::super::float::*;
use super::super::program::Uop;
use super::super::warp::{HIGH, LOW, Lanes, WARP_LANES, WORD, Warp};
use super::operands::map1;
use super::{F, FloatMode};

/// Writes a result in the active lanes.
#[inline(always)]
pub(super) fn put(warp: &mut Warp, op: &Uop, value: Lanes, partial: Option<u64>) {
    let keep = match op.dst_bytes {
        WORD => 0,
        LOW => 0xffff_0000,
        _ => 0x0000_ffff,
    };
    put_row(warp, op.dst, value, keep);
    match partial {
        None => warp.define(op.dst, op.dst_bytes),
        Some(defined) => warp.define_partly(op.dst, op.dst_bytes, defined),
    }
}

#[inline(always)]
pub(super) fn put_row(warp: &mut Warp, register: u8, value: Lanes, keep: u32) {
    let mask = warp.active_words;
    let row = &mut warp.rows[usize::from(register & 63)];
    for i in 0..WARP_LANES {
        let mask = mask.0[i] & !keep;
        row.0[i] = (value.0[i] & mask) | (row.0[i] & !mask);
    }
}

/// Writes a binary32 result: clamped, canonical NaN, converted where the destination is a half.
#[inline(always)]
pub(super) fn put_float(
    warp: &mut Warp,
    op: &Uop,
    mut value: F,
    mode: FloatMode,
    partial: Option<u64>,
) -> bool {
    if op.mods.clamp != Clamp::None {
        for x in &mut value {
            *x = clamp(*x, op.mods.clamp);
        }
    }
    let mut bits = Lanes::ZERO;
    for i in 0..WARP_LANES {
        bits.0[i] = if value[i].is_nan() {
            NAN32
        } else {
            value[i].to_bits()
        };
    }
    if mode.flush32 {
        bits = map1(bits, flush32);
    }
    match op.dst_bytes {
        LOW | HIGH => {
            let both = map1(bits, |x| {
                let half = f32_to_f16(f32::from_bits(x));
                half | half << 16
            });
            put(
                warp,
                op,
                if mode.flush16 {
                    map1(both, flush16x2)
                } else {
                    both
                },
                partial,
            );
        }
        _ => put(warp, op, bits, partial),
    }
    true
}

/// Packs two halves that are binary16 already, clamped before the packing.
#[inline(always)]
pub(super) fn put_halves(
    warp: &mut Warp,
    op: &Uop,
    low: [u32; 16],
    high: [u32; 16],
    mode: FloatMode,
    partial: Option<u64>,
) -> bool {
    let mut out = Lanes::ZERO;
    for i in 0..WARP_LANES {
        out.0[i] = (low[i] & 0xffff) | high[i] << 16;
    }
    if op.mods.clamp != Clamp::None {
        let clamp_half = |half: u32| f32_to_f16(clamp(f16_to_f32(half & 0xffff), op.mods.clamp));
        out = map1(out, |x| clamp_half(x) | clamp_half(x >> 16) << 16);
    }
    if mode.flush16 {
        out = map1(out, flush16x2);
    }
    put(warp, op, out, partial);
    true
}

pub(super) fn put_wide(warp: &mut Warp, op: &Uop, value: [u64; WARP_LANES]) -> bool {
    let low = Lanes(std::array::from_fn(|i| value[i] as u32));
    let high = Lanes(std::array::from_fn(|i| (value[i] >> 32) as u32));
    put_row(warp, op.dst, low, 0);
    put_row(warp, op.dst + 1, high, 0);
    warp.define(op.dst, WORD);
    warp.define(op.dst + 1, WORD);
    true
}
