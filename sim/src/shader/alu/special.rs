//! Single instructions with a meaning of their own: special functions, FLUSH, CLPER.

// Lanes are walked by number, several arrays at once: that is the form which becomes vector code.
#![allow(clippy::needless_range_loop)]

use mali_isa::valhall::{LaneOp, Mods, NanMode};

use super::super::float::*;
use super::super::program::{Operand, Program, Uop};
use super::super::warp::{Lanes, RegisterFault, WARP_LANES, WORD, Warp};
use super::operands::{int, raw};
use super::results::put;

/// The exponent function on a fixed-point number with 24 fractional bits; `original` decides special values.
/// (Mesa, ISA.xml, `FEXP.f32`; bifrost_compile.c, `bi_fexp_32`.)
pub(super) fn exponential(fixed: u32, original: f32) -> f32 {
    if original.is_nan() {
        original
    } else if original.is_infinite() {
        if original > 0.0 { f32::INFINITY } else { 0.0 }
    } else {
        (f64::from(fixed as i32) / f64::from(1 << 24)).exp2() as f32
    }
}

/// `log2(m) / (m - 1)` of the reduced mantissa m in [0.75, 1.5). Special values are chosen so that the sequence
/// of Mesa's `bi_flog2_32` gives -infinity, infinity and NaN where the logarithm does.
pub(super) fn log_derivative(value: f32) -> f32 {
    if value.is_nan() || value < 0.0 {
        f32::NAN
    } else if value == 0.0 || value.is_infinite() {
        f32::INFINITY
    } else {
        let m = f64::from(split_log(value).0);
        if m == 1.0 {
            std::f64::consts::LOG2_E as f32
        } else {
            (m.log2() / (m - 1.0)) as f32
        }
    }
}

/// `FLUSH` of one binary32 or two binary16 numbers. (Mesa, kraid's ops.rs, `OpFlush::fold`.)
pub(super) fn flush(packed: u32, width: u32, source: &Operand, mods: &Mods) -> u32 {
    let (fraction, quiet) = if width == 32 {
        (23, 1 << 22)
    } else {
        (10, 1 << 9)
    };
    let sign = 1u32 << (width - 1);
    let infinity = (sign - 1) & !((1 << fraction) - 1);
    let one = |bits: u32| {
        let magnitude = bits & (sign - 1);
        let bits = if source.abs { magnitude } else { bits };
        let bits = if source.neg { bits ^ sign } else { bits };
        match (magnitude, mods.nan) {
            (m, NanMode::Flush) if m > infinity => 0,
            (m, NanMode::Quiet) if m > infinity => bits | quiet,
            (m, _) if m == infinity && mods.flush_inf => bits - 1,
            (m, _) if m < 1 << fraction && mods.ftz => bits & sign,
            _ => bits,
        }
    };
    match width {
        32 => one(packed),
        _ => one(packed & 0xffff) | one(packed >> 16) << 16,
    }
}

/// `CLPER`: each lane reads another lane's value. A value that is not defined there is not defined here; the
/// result for an inactive lane is defined by the instruction (Mesa, ISA.xml, enum `Inactive result`).
pub(super) fn permute_lanes(
    warp: &mut Warp,
    program: &Program,
    op: &Uop,
) -> Result<(), RegisterFault> {
    let src = &op.srcs[0];
    let value = *raw(warp, program, src.row);
    let mut defined_there = u64::MAX;
    if src.row < 64 {
        if let Some(slot) = warp.pending_slot(src.row as u8) {
            let lane = warp.active.trailing_zeros() as u8;
            return Err(RegisterFault::Pending {
                register: src.row as u8,
                slot,
                lane,
            });
        }
        defined_there = warp.defined[usize::from(src.row)];
    }
    let selector = int(warp, program, &op.srcs[1], false);
    let group = usize::from(op.mods.subgroup.lanes()) - 1;
    let mut out = Lanes::ZERO;
    let mut defined = 0;
    for lane in 0..WARP_LANES {
        let wanted = selector.0[lane] as usize;
        let from = match op.mods.lane_op {
            LaneOp::Xor => lane ^ (wanted & group),
            _ => (lane & !group) | (wanted & group),
        };
        if warp.active & (1 << from) == 0 {
            out.0[lane] = op.mods.inactive.bits();
            defined |= WORD << lane;
        } else {
            out.0[lane] = value.0[from];
            defined |= ((defined_there >> from) & WORD) << lane;
        }
    }
    warp.kill(op.kill);
    put(warp, op, out, Some(defined));
    Ok(())
}
