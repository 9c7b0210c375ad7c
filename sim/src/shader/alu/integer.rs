//! Integers: elements of packed words, dot products, shifts with their logic.

// Lanes are walked by number, several arrays at once: that is the form which becomes vector code.
#![allow(clippy::needless_range_loop)]

use super::super::program::{Logic, Program, Shift, ShiftLogic, Uop};
use super::super::warp::{Lanes, WARP_LANES, Warp};
use super::operands::{int, map1, map2, wide};
use super::results::{put, put_wide};

/// Works on the two halves of each lane, widened to `i32`.
#[inline(always)]
pub(super) fn by_halves(a: Lanes, b: Lanes, signed: bool, f: impl Fn(i32, i32) -> i32) -> Lanes {
    let w = |x: u32| {
        if signed {
            i32::from(x as u16 as i16)
        } else {
            i32::from(x as u16)
        }
    };
    map2(a, b, |a, b| {
        (f(w(a), w(b)) as u32 & 0xffff) | (f(w(a >> 16), w(b >> 16)) as u32) << 16
    })
}

/// Works on the four bytes of each lane, widened to `i32`.
#[inline(always)]
pub(super) fn by_bytes(a: Lanes, b: Lanes, signed: bool, f: impl Fn(i32, i32) -> i32) -> Lanes {
    let w = |x: u32| {
        if signed {
            i32::from(x as u8 as i8)
        } else {
            i32::from(x as u8)
        }
    };
    map2(a, b, |a, b| {
        let mut out = 0;
        for n in [0, 8, 16, 24] {
            out |= (f(w(a >> n), w(b >> n)) as u32 & 0xff) << n;
        }
        out
    })
}

#[inline(always)]
pub(super) fn shift_logic(
    data: Lanes,
    amount: Lanes,
    with: Lanes,
    shift: Shift,
    logic: Logic,
    bits: u32,
) -> Lanes {
    let shifted = match (shift, bits) {
        (Shift::Left, 32) => map2(data, amount, |x, n| x << (n & 31)),
        (Shift::Right, 32) => map2(data, amount, |x, n| x >> (n & 31)),
        (Shift::Arithmetic, 32) => map2(data, amount, |x, n| ((x as i32) >> (n & 31)) as u32),
        (Shift::RotateLeft, 32) => map2(data, amount, |x, n| x.rotate_left(n & 31)),
        (Shift::RotateRight, 32) => map2(data, amount, |x, n| x.rotate_right(n & 31)),
        (Shift::RotateLeft, 16) => by_halves(data, amount, false, |x, n| {
            i32::from((x as u16).rotate_left(n as u32 & 15))
        }),
        (Shift::RotateRight, 16) => by_halves(data, amount, false, |x, n| {
            i32::from((x as u16).rotate_right(n as u32 & 15))
        }),
        (Shift::RotateLeft, _) => by_bytes(data, amount, false, |x, n| {
            i32::from((x as u8).rotate_left(n as u32 & 7))
        }),
        (Shift::RotateRight, _) => by_bytes(data, amount, false, |x, n| {
            i32::from((x as u8).rotate_right(n as u32 & 7))
        }),
        (Shift::Left, 16) => by_halves(data, amount, false, |x, n| x << (n & 15)),
        (Shift::Right, 16) => by_halves(data, amount, false, |x, n| x >> (n & 15)),
        (Shift::Arithmetic, 16) => by_halves(data, amount, true, |x, n| x >> (n & 15)),
        (Shift::Left, _) => by_bytes(data, amount, false, |x, n| x << (n & 7)),
        (Shift::Right, _) => by_bytes(data, amount, false, |x, n| x >> (n & 7)),
        (Shift::Arithmetic, _) => by_bytes(data, amount, true, |x, n| x >> (n & 7)),
    };
    match logic {
        Logic::And => map2(shifted, with, |a, b| a & b),
        Logic::Or => map2(shifted, with, |a, b| a | b),
        Logic::Xor => map2(shifted, with, |a, b| a ^ b),
    }
}

pub(super) fn shift_logic_wide(
    data: [u64; WARP_LANES],
    amount: Lanes,
    with: [u64; WARP_LANES],
    shift: Shift,
    logic: Logic,
) -> [u64; WARP_LANES] {
    std::array::from_fn(|i| {
        let n = amount.0[i] & 63;
        let shifted = match shift {
            Shift::Left => data[i] << n,
            Shift::Right => data[i] >> n,
            Shift::Arithmetic => ((data[i] as i64) >> n) as u64,
            Shift::RotateLeft => data[i].rotate_left(n),
            Shift::RotateRight => data[i].rotate_right(n),
        };
        match logic {
            Logic::And => shifted & with[i],
            Logic::Or => shifted | with[i],
            Logic::Xor => shifted ^ with[i],
        }
    })
}

#[inline(always)]
pub(super) fn dot_signed(a: u32, b: u32) -> i32 {
    let product = |n: u32| ((a << (24 - n)) as i32 >> 24) * ((b << (24 - n)) as i32 >> 24);
    product(0) + product(8) + product(16) + product(24)
}

#[inline(always)]
pub(super) fn dot_unsigned(a: u32, b: u32) -> u32 {
    let product = |n: u32| ((a >> n) & 0xff) * ((b >> n) & 0xff);
    product(0) + product(8) + product(16) + product(24)
}

/// The shift and logic family.
#[inline(always)]
pub(super) fn shifts(warp: &mut Warp, program: &Program, op: &Uop, partial: Option<u64>) -> bool {
    let Some(ShiftLogic { shift, logic, bits }) = op.shift else {
        return false;
    };
    let amount = int(warp, program, &op.srcs[1], false);
    let flip = op.srcs[2].not;
    if bits == 64 {
        let [data, with] = [0, 2].map(|i| wide(warp, program, &op.srcs[i], false));
        let with = if flip { with.map(|x| !x) } else { with };
        let out = shift_logic_wide(data, amount, with, shift, logic);
        put_wide(
            warp,
            op,
            if op.mods.not_result {
                out.map(|x| !x)
            } else {
                out
            },
        );
        return true;
    }
    let data = int(warp, program, &op.srcs[0], false);
    let with = int(warp, program, &op.srcs[2], false);
    let with = if flip { map1(with, |x| !x) } else { with };
    let out = shift_logic(data, amount, with, shift, logic, bits);
    put(
        warp,
        op,
        if op.mods.not_result {
            map1(out, |x| !x)
        } else {
            out
        },
        partial,
    );
    true
}
