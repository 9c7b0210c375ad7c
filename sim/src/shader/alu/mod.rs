//! The arithmetic of a warp: every instruction that is no message, in loops over sixteen lanes.
//!
//! Integer meanings are those of Mesa, panfrost/compiler/kraid/ops.rs (`fold`), which hw_tests.rs compares with
//! hardware; the others those of panfrost/compiler/bifrost/valhall/ISA.xml as corrected by real shaders.

// Lanes are walked by number, several arrays at once: that is the form which becomes vector code.
#![allow(clippy::needless_range_loop)]

use mali_isa::valhall::{Mux, Op, ResultType, Round};

mod compare;
mod integer;
pub(super) mod operands;
mod results;
mod special;

use compare::*;
use integer::*;
use operands::*;
use results::*;
use special::*;

use super::float::*;
use super::program::{Program, Uop};
use super::warp::{Lanes, RegisterFault, WARP_LANES, Warp};

/// How floating point numbers are treated, from the program descriptor, and the seed of approximations.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FloatMode {
    /// binary32 subnormals are zero.
    pub flush32: bool,
    /// binary16 subnormals are zero.
    pub flush16: bool,
    pub seed: u64,
}

type F = [f32; WARP_LANES];

/// Operations on binary16 pairs through binary32, which rounds right for sums and products of two halves.
macro_rules! on_halves {
    ($warp:ident, $program:ident, $op:ident, $mode:ident, $partial:ident, |$a:ident, $b:ident| $body:expr) => {{
        let (al, ah) = halves($warp, $program, &$op.srcs[0], $mode);
        let (bl, bh) = halves($warp, $program, &$op.srcs[1], $mode);
        let f = |$a: f32, $b: f32| f32_to_f16($body);
        let (mut low, mut high) = ([0; WARP_LANES], [0; WARP_LANES]);
        for i in 0..WARP_LANES {
            low[i] = f(al[i], bl[i]);
            high[i] = f(ah[i], bh[i]);
        }
        put_halves($warp, $op, low, high, $mode, $partial)
    }};
}

macro_rules! on_floats {
    ($warp:ident, $program:ident, $op:ident, $mode:ident, $partial:ident, |$a:ident| $body:expr) => {{
        let a = float($warp, $program, &$op.srcs[0], $mode);
        let mut out = [0.0; WARP_LANES];
        for i in 0..WARP_LANES {
            let $a = a[i];
            out[i] = $body;
        }
        put_float($warp, $op, out, $mode, $partial)
    }};
    ($warp:ident, $program:ident, $op:ident, $mode:ident, $partial:ident, |$a:ident, $b:ident| $body:expr) => {{
        let a = float($warp, $program, &$op.srcs[0], $mode);
        let b = float($warp, $program, &$op.srcs[1], $mode);
        let mut out = [0.0; WARP_LANES];
        for i in 0..WARP_LANES {
            let ($a, $b) = (a[i], b[i]);
            out[i] = $body;
        }
        put_float($warp, $op, out, $mode, $partial)
    }};
}

/// Executes one instruction on the active lanes; false if it is not modelled. `partial` tells what of the result is defined where sources are
/// not wholly (see [`Warp::check`]).
#[inline(always)]
pub(super) fn execute(
    warp: &mut Warp,
    program: &Program,
    op: &Uop,
    mode: FloatMode,
    partial: Option<u64>,
) -> Result<bool, RegisterFault> {
    match op.op {
        Op::IdpaddV4s8 if !op.mods.saturate => {
            let [a, b, c] = [0, 1, 2].map(|i| *raw(warp, program, op.srcs[i].row));
            let out = map3(a, b, c, |a, b, c| c.wrapping_add(dot_signed(a, b) as u32));
            warp.kill(op.kill);
            put(warp, op, out, partial);
        }
        Op::FmaF32 => {
            let [a, b, c] = [0, 1, 2].map(|i| float(warp, program, &op.srcs[i], mode));
            let mut out = [0.0; WARP_LANES];
            for i in 0..WARP_LANES {
                out[i] = a[i].mul_add(b[i], c[i]);
            }
            warp.kill(op.kill);
            put_float(warp, op, out, mode, partial);
        }
        Op::FmaV2f16 => {
            let [(al, ah), (bl, bh), (cl, ch)] =
                [0, 1, 2].map(|i| halves(warp, program, &op.srcs[i], mode));
            let (mut low, mut high) = ([0; WARP_LANES], [0; WARP_LANES]);
            for i in 0..WARP_LANES {
                low[i] = fma_f16(al[i], bl[i], cl[i]);
                high[i] = fma_f16(ah[i], bh[i], ch[i]);
            }
            warp.kill(op.kill);
            put_halves(warp, op, low, high, mode, partial);
        }
        Op::IaddS32 | Op::IaddU32 if !op.mods.saturate => {
            let signed = op.op == Op::IaddS32;
            let (a, b) = (
                int(warp, program, &op.srcs[0], signed),
                int(warp, program, &op.srcs[1], signed),
            );
            warp.kill(op.kill);
            put(warp, op, map2(a, b, u32::wrapping_add), partial);
        }
        Op::IaddImmI32 => {
            let a = *raw(warp, program, op.srcs[0].row);
            let constant = op.imm as u32;
            warp.kill(op.kill);
            put(warp, op, map1(a, |x| x.wrapping_add(constant)), partial);
        }
        Op::MovI32 => {
            let a = *raw(warp, program, op.srcs[0].row);
            warp.kill(op.kill);
            put(warp, op, a, partial);
        }
        Op::ClperI32 => permute_lanes(warp, program, op)?,
        _ => {
            // The kill comes first here: sources keep their values, only their definedness goes, and the
            // destination's is set last.
            warp.kill(op.kill);
            return Ok(rarer(warp, program, op, mode, partial));
        }
    }
    Ok(true)
}

#[inline(always)]
fn rarer(
    warp: &mut Warp,
    program: &Program,
    op: &Uop,
    mode: FloatMode,
    partial: Option<u64>,
) -> bool {
    use Op::*;
    let mods = &op.mods;
    let a32 = |signed: bool| int(warp, program, &op.srcs[0], signed);
    let b32 = |signed: bool| int(warp, program, &op.srcs[1], signed);
    let c32 = || *raw(warp, program, op.srcs[2].row);
    let d32 = || *raw(warp, program, op.srcs[3].row);
    let sat = mods.saturate;
    // Saturating arithmetic in a wider type.
    let clip = |signed: bool, bits: u32, x: i64| -> i64 {
        let (low, high) = if signed {
            (-(1i64 << (bits - 1)), (1i64 << (bits - 1)) - 1)
        } else {
            (0, (1i64 << bits) - 1)
        };
        x.clamp(low, high)
    };
    let widen32 = |signed: bool, x: u32| {
        if signed {
            i64::from(x as i32)
        } else {
            i64::from(x)
        }
    };
    let full = |signed: bool, f: fn(i64, i64) -> i64| {
        map2(a32(signed), b32(signed), |a, b| {
            let x = f(widen32(signed, a), widen32(signed, b));
            if sat {
                clip(signed, 32, x) as u32
            } else {
                x as u32
            }
        })
    };
    let half = |signed: bool, f: fn(i64, i64) -> i64| {
        by_halves(a32(signed), b32(signed), signed, |a, b| {
            let x = f(i64::from(a), i64::from(b));
            (if sat { clip(signed, 16, x) } else { x }) as i32
        })
    };
    let quarter = |signed: bool, f: fn(i64, i64) -> i64| {
        by_bytes(a32(signed), b32(signed), signed, |a, b| {
            let x = f(i64::from(a), i64::from(b));
            (if sat { clip(signed, 8, x) } else { x }) as i32
        })
    };
    let add: fn(i64, i64) -> i64 = |a, b| a + b;
    let sub: fn(i64, i64) -> i64 = |a, b| a - b;
    // An unsigned 32-bit product does not fit into i64 with its sign: saturate through u64's bits.
    let mul: fn(i64, i64) -> i64 = |a, b| a.saturating_mul(b);
    let hadd: fn(i64, i64) -> i64 = if mods.rhadd {
        |a, b| (a + b + 1) >> 1
    } else {
        |a, b| (a + b) >> 1
    };

    let out: Lanes = match op.op {
        IaddU32 => full(false, add),
        IaddS32 => full(true, add),
        IaddV2u16 => half(false, add),
        IaddV2s16 => half(true, add),
        IaddV4u8 => quarter(false, add),
        IaddV4s8 => quarter(true, add),
        IsubU32 => full(false, sub),
        IsubS32 => full(true, sub),
        IsubV2u16 => half(false, sub),
        IsubV2s16 => half(true, sub),
        IsubV4u8 => quarter(false, sub),
        IsubV4s8 => quarter(true, sub),
        ImulI32 if !sat => map2(a32(false), b32(false), u32::wrapping_mul),
        ImulS32 if !sat => map2(a32(true), b32(true), u32::wrapping_mul),
        ImulI32 => full(false, mul),
        ImulS32 => full(true, mul),
        ImulV2i16 => half(false, mul),
        ImulV2s16 => half(true, mul),
        ImulV4i8 => quarter(false, mul),
        ImulV4s8 => quarter(true, mul),
        HaddU32 => full(false, hadd),
        HaddS32 => full(true, hadd),
        HaddV2u16 => half(false, hadd),
        HaddV2s16 => half(true, hadd),
        HaddV4u8 => quarter(false, hadd),
        HaddV4s8 => quarter(true, hadd),
        IaddImmV2i16 => by_halves(a32(false), Lanes::splat(op.imm as u32), false, |a, b| a + b),
        IaddImmV4i8 => by_bytes(a32(false), Lanes::splat(op.imm as u32), false, |a, b| a + b),
        IdpaddV4s8 => map3(a32(false), b32(false), c32(), |a, b, c| {
            clip(true, 32, i64::from(dot_signed(a, b)) + i64::from(c as i32)) as u32
        }),
        IdpaddV4u8 => map3(a32(false), b32(false), c32(), |a, b, c| {
            let sum = i64::from(dot_unsigned(a, b)) + i64::from(c);
            if sat {
                clip(false, 32, sum) as u32
            } else {
                sum as u32
            }
        }),
        IabsS32 => map1(a32(true), |x| (x as i32).unsigned_abs()),
        IabsV2s16 => by_halves(a32(true), Lanes::ZERO, true, |x, _| x.abs()),
        IabsV4s8 => by_bytes(a32(true), Lanes::ZERO, true, |x, _| x.abs()),
        ClzU32 => map1(a32(false), u32::leading_zeros),
        ClzV2u16 => by_halves(a32(false), Lanes::ZERO, false, |x, _| {
            (x as u16).leading_zeros() as i32
        }),
        ClzV4u8 => by_bytes(a32(false), Lanes::ZERO, false, |x, _| {
            (x as u8).leading_zeros() as i32
        }),
        PopcountI32 => map1(a32(false), u32::count_ones),
        BitrevI32 => map1(a32(false), u32::reverse_bits),
        NotOldI32 => map1(a32(false), |x| !x),
        MkvecV2i16 => map2(a32(false), b32(false), |a, b| (a & 0xffff) | b << 16),
        MkvecV2i8 => {
            let c = int(warp, program, &op.srcs[2], false);
            map3(a32(false), b32(false), c, |a, b, c| {
                (a & 0xff) | (b & 0xff) << 8 | c << 16
            })
        }
        Wmask => {
            let a = a32(false);
            let mut mask = 0;
            for (lane, &value) in a.0.iter().enumerate() {
                mask |= u32::from(value != 0) << lane;
            }
            Lanes::splat(mask & u32::from(warp.active))
        }
        S16ToS32 | S8ToS32 => a32(true),
        U16ToU32 | U8ToU32 => a32(false),
        V2s8ToV2s16 => a32(true),
        V2u8ToV2u16 => a32(false),
        S16ToF32 | S8ToF32 => map1(a32(true), |x| (x as i32 as f32).to_bits()),
        U16ToF32 | U8ToF32 => map1(a32(false), |x| (x as f32).to_bits()),
        S32ToF32 if mods.round == Round::Rte => map1(a32(true), |x| (x as i32 as f32).to_bits()),
        U32ToF32 if mods.round == Round::Rte => map1(a32(false), |x| (x as f32).to_bits()),
        S32ToF32 => map1(a32(true), |x| {
            int_to_f32(i64::from(x as i32), mods.round).to_bits()
        }),
        U32ToF32 => map1(a32(false), |x| {
            int_to_f32(i64::from(x), mods.round).to_bits()
        }),
        V2s16ToV2f16 | V2s8ToV2f16 => by_halves(a32(true), Lanes::ZERO, true, |x, _| {
            f32_to_f16_round(x as f32, mods.round) as i32
        }),
        V2u16ToV2f16 | V2u8ToV2f16 => by_halves(a32(false), Lanes::ZERO, false, |x, _| {
            f32_to_f16_round(x as f32, mods.round) as i32
        }),
        F32ToS32 | F16ToS32 => {
            let a = float(warp, program, &op.srcs[0], mode);
            Lanes(a.map(|x| f32_to_s32(x, mods.round)))
        }
        F32ToU32 | F16ToU32 => {
            let a = float(warp, program, &op.srcs[0], mode);
            Lanes(a.map(|x| f32_to_u32(x, mods.round)))
        }
        V2f16ToV2s16 | V2f16ToV2u16 => {
            let signed = op.op == V2f16ToV2s16;
            let (low, high) = halves(warp, program, &op.srcs[0], mode);
            let convert =
                |x: f32| clip(signed, 16, f32_to_s32(x, mods.round) as i32 as i64) as u32 & 0xffff;
            Lanes(std::array::from_fn(|i| {
                convert(low[i]) | convert(high[i]) << 16
            }))
        }
        IcmpOrU32 | IcmpOrS32 | IcmpAndU32 | IcmpAndS32 => {
            let signed = matches!(op.op, IcmpOrS32 | IcmpAndS32);
            let how = if matches!(op.op, IcmpOrU32 | IcmpOrS32) {
                Chain::Or
            } else {
                Chain::And
            };
            let value = compare32(mods.cond, signed, a32(signed), b32(signed));
            verdict(chain(value, c32(), how, 32), mods.result, 32)
        }
        IcmpOrV2u16 | IcmpOrV2s16 | IcmpAndV2u16 | IcmpAndV2s16 => {
            let signed = matches!(op.op, IcmpOrV2s16 | IcmpAndV2s16);
            let how = if matches!(op.op, IcmpOrV2u16 | IcmpOrV2s16) {
                Chain::Or
            } else {
                Chain::And
            };
            let value = compare_packed(mods.cond, signed, 16, a32(signed), b32(signed));
            verdict(chain(value, c32(), how, 16), mods.result, 16)
        }
        IcmpOrV4u8 | IcmpOrV4s8 | IcmpAndV4u8 | IcmpAndV4s8 => {
            let signed = matches!(op.op, IcmpOrV4s8 | IcmpAndV4s8);
            let how = if matches!(op.op, IcmpOrV4u8 | IcmpOrV4s8) {
                Chain::Or
            } else {
                Chain::And
            };
            let value = compare_packed(mods.cond, signed, 8, a32(signed), b32(signed));
            verdict(chain(value, c32(), how, 8), mods.result, 8)
        }
        // The order of the first two sources, or where they are equal that of the third against zero: -1, 0 or 1.
        // `u1` gives it as it is, for the next one of a wider comparison. (Mesa, kraid's ops.rs, `OpICmpMulti`.)
        IcmpMultiU32 | IcmpMultiS32 => {
            let signed = op.op == IcmpMultiS32;
            let order = map3(a32(signed), b32(signed), c32(), |a, b, c| {
                let order = if signed {
                    (a as i32).cmp(&(b as i32))
                } else {
                    a.cmp(&b)
                };
                order.then((c as i32).cmp(&0)) as i32 as u32
            });
            if mods.result == ResultType::U1 {
                order
            } else {
                verdict(
                    compare32(mods.cond, true, order, Lanes::ZERO),
                    mods.result,
                    32,
                )
            }
        }
        FcmpOrF32 | FcmpAndF32 => {
            let how = if op.op == FcmpOrF32 {
                Chain::Or
            } else {
                Chain::And
            };
            let [a, b] = [0, 1].map(|i| float(warp, program, &op.srcs[i], mode));
            verdict(
                chain(compare_floats(mods.cond, a, b), c32(), how, 32),
                mods.result,
                32,
            )
        }
        FcmpOrV2f16 | FcmpAndV2f16 => {
            let how = if op.op == FcmpOrV2f16 {
                Chain::Or
            } else {
                Chain::And
            };
            let [(al, ah), (bl, bh)] = [0, 1].map(|i| halves(warp, program, &op.srcs[i], mode));
            let (low, high) = (
                compare_floats(mods.cond, al, bl),
                compare_floats(mods.cond, ah, bh),
            );
            let value = map2(low, high, |l, h| (l & 0xffff) | (h & 0xffff_0000));
            verdict(chain(value, c32(), how, 16), mods.result, 16)
        }
        CselU32 | CselS32 | CselF32 => {
            let chosen = match op.op {
                CselF32 => {
                    let [a, b] = [0, 1].map(|i| float(warp, program, &op.srcs[i], mode));
                    compare_floats(mods.cond, a, b)
                }
                _ => compare32(mods.cond, op.op == CselS32, a32(false), b32(false)),
            };
            map3(chosen, c32(), d32(), |m, c, d| (c & m) | (d & !m))
        }
        CselV2u16 | CselV2s16 | CselV2f16 => {
            let chosen = match op.op {
                CselV2f16 => {
                    let [(al, ah), (bl, bh)] =
                        [0, 1].map(|i| halves(warp, program, &op.srcs[i], mode));
                    let (low, high) = (
                        compare_floats(mods.cond, al, bl),
                        compare_floats(mods.cond, ah, bh),
                    );
                    map2(low, high, |l, h| (l & 0xffff) | (h & 0xffff_0000))
                }
                _ => compare_packed(mods.cond, op.op == CselV2s16, 16, a32(false), b32(false)),
            };
            map3(chosen, c32(), d32(), |m, c, d| (c & m) | (d & !m))
        }
        MuxI32 | MuxV2i16 | MuxV4i8 => {
            let mask = int(warp, program, &op.srcs[2], false);
            let bits = match op.op {
                MuxI32 => 32,
                MuxV2i16 => 16,
                _ => 8,
            };
            let choose = match mods.mux {
                Mux::Bit => mask,
                Mux::IntZero => map1(truth(mask, bits), |x| !x),
                Mux::Neg => compare_mux_sign(mask, bits),
                Mux::FpZero => {
                    let sign = match bits {
                        32 => 0x7fff_ffff,
                        16 => 0x7fff_7fff,
                        _ => 0x7f7f_7f7f,
                    };
                    map1(truth(map1(mask, |x| x & sign), bits), |x| !x)
                }
            };
            map3(choose, a32(false), b32(false), |m, a, b| (a & m) | (b & !m))
        }
        FsinTableU6 | FcosTableU6 => {
            let angle = |x: u32| f64::from(x & 63) * std::f64::consts::PI / 32.0;
            // Multiples of a quarter turn are exact.
            let exact = |x: f64| if x.abs() < 1e-12 { 0.0 } else { x as f32 };
            if op.op == FsinTableU6 {
                map1(a32(false), |x| exact(angle(x).sin()).to_bits())
            } else {
                map1(a32(false), |x| exact(angle(x).cos()).to_bits())
            }
        }
        FrexpeF32 => {
            let a = float(warp, program, &op.srcs[0], mode);
            Lanes(a.map(|x| {
                if x == 0.0 || !x.is_finite() {
                    0
                } else if mods.frexp == mali_isa::valhall::Frexp::Log {
                    split_log(x).1 as u32
                } else {
                    (split(x).1 + 1) as u32
                }
            }))
        }
        FrexpmF32 => {
            let a = float(warp, program, &op.srcs[0], mode);
            Lanes(a.map(|x| {
                let m = if x == 0.0 || !x.is_finite() {
                    x
                } else if mods.frexp == mali_isa::valhall::Frexp::Log {
                    split_log(x).0
                } else {
                    split(x).0 * 0.5
                };
                m.to_bits()
            }))
        }
        FrcpF16 | FrsqF16 => {
            let a = float(warp, program, &op.srcs[0], mode);
            let f = if op.op == FrcpF16 { recip } else { rsqrt };
            let both = a.map(|x| {
                let half = f32_to_f16(f(x));
                half | half << 16
            });
            Lanes(both)
        }
        FroundV2f16 => {
            let (low, high) = halves(warp, program, &op.srcs[0], mode);
            let f = |x: f32| f32_to_f16(round_integral(f64::from(x), mods.round) as f32);
            Lanes(std::array::from_fn(|i| f(low[i]) | f(high[i]) << 16))
        }
        V2f32ToV2f16 => {
            let [a, b] = [0, 1].map(|i| float(warp, program, &op.srcs[i], mode));
            let f = |x: f32| f32_to_f16_round(clamp(x, mods.clamp), mods.round);
            Lanes(std::array::from_fn(|i| f(a[i]) | f(b[i]) << 16))
        }
        FlushF32 | FlushV2f16 => {
            let (width, source) = (if op.op == FlushF32 { 32 } else { 16 }, &op.srcs[0]);
            map1(a32(false), |bits| flush(bits, width, source, mods))
        }
        NotOldI64 => {
            return put_wide(
                warp,
                op,
                wide(warp, program, &op.srcs[0], false).map(|x| !x),
            );
        }
        IaddU64 | IaddS64 | IsubU64 | IsubS64 | ShaddxU64 | ShaddxS64 | ImuldU64 => {
            let signed = matches!(op.op, IaddS64 | IsubS64 | ShaddxS64);
            let [a, b] = [0, 1].map(|i| wide(warp, program, &op.srcs[i], signed));
            let shift = op.imm as u32 & 7;
            let value = std::array::from_fn(|i| match op.op {
                IaddU64 | IaddS64 => a[i].wrapping_add(b[i]),
                IsubU64 | IsubS64 => a[i].wrapping_sub(b[i]),
                // 32 by 32 bits; the low words count.
                ImuldU64 => (a[i] & 0xffff_ffff) * (b[i] & 0xffff_ffff),
                _ => a[i].wrapping_add(b[i] << shift),
            });
            return put_wide(warp, op, value);
        }
        FaddF32 => return on_floats!(warp, program, op, mode, partial, |a, b| a + b),
        FminF32 => return on_floats!(warp, program, op, mode, partial, |a, b| fmin(a, b)),
        FmaxF32 => return on_floats!(warp, program, op, mode, partial, |a, b| fmax(a, b)),
        FaddV2f16 => return on_halves!(warp, program, op, mode, partial, |a, b| a + b),
        FminV2f16 => return on_halves!(warp, program, op, mode, partial, |a, b| fmin(a, b)),
        FmaxV2f16 => return on_halves!(warp, program, op, mode, partial, |a, b| fmax(a, b)),
        FaddImmF32 => {
            let constant = f32::from_bits(op.imm as u32);
            return on_floats!(warp, program, op, mode, partial, |a| a + constant);
        }
        FaddImmV2f16 => {
            let (al, ah) = halves(warp, program, &op.srcs[0], mode);
            let (bl, bh) = (
                f16_to_f32(op.imm as u32 & 0xffff),
                f16_to_f32(op.imm as u32 >> 16),
            );
            let (low, high) = (
                al.map(|x| f32_to_f16(x + bl)),
                ah.map(|x| f32_to_f16(x + bh)),
            );
            return put_halves(warp, op, low, high, mode, partial);
        }
        F16ToF32 => return on_floats!(warp, program, op, mode, partial, |a| a),
        FroundF32 => {
            return on_floats!(warp, program, op, mode, partial, |a| {
                round_integral(f64::from(a), op.mods.round) as f32
            });
        }
        FrcpF32 => {
            return on_floats!(warp, program, op, mode, partial, |a| perturb(
                recip(a),
                a.to_bits(),
                mode.seed
            ));
        }
        FrsqF32 => {
            return on_floats!(warp, program, op, mode, partial, |a| perturb(
                rsqrt(a),
                a.to_bits(),
                mode.seed
            ));
        }
        FlogdF32 => return on_floats!(warp, program, op, mode, partial, |a| log_derivative(a)),
        FexpF32 => {
            let (fixed, original) = (a32(false), float(warp, program, &op.srcs[1], mode));
            let value = std::array::from_fn(|i| exponential(fixed.0[i], original[i]));
            return put_float(warp, op, value, mode, partial);
        }
        FaddLscaleF32 => {
            // The mantissa of the second operand, as the logarithm reduces it, is added.
            return on_floats!(warp, program, op, mode, partial, |a, b| {
                a + if b == 0.0 || !b.is_finite() {
                    b
                } else {
                    split_log(b).0
                }
            });
        }
        LdexpF32 => {
            let (a, b) = (float(warp, program, &op.srcs[0], mode), b32(true));
            let value = std::array::from_fn(|i| ldexp(a[i], b.0[i] as i32, op.mods.round));
            return put_float(warp, op, value, mode, partial);
        }
        FmaRscaleF32 | FmaRscaleNF32 | FmaRscaleScale16F32 => {
            let [a, b, c] = [0, 1, 2].map(|i| float(warp, program, &op.srcs[i], mode));
            let d = d32();
            let value = std::array::from_fn(|i| {
                let (a, b) = (a[i], b[i]);
                let zero_product = op.op == FmaRscaleNF32 && (a == 0.0 || b == 0.0);
                let sum = if zero_product {
                    c[i]
                } else {
                    a.mul_add(b, c[i])
                };
                let exponent = d.0[i] as i32;
                let exponent = if op.op == FmaRscaleScale16F32 {
                    i32::from(exponent as i16)
                } else {
                    exponent
                };
                ldexp(sum, exponent, Round::Rte)
            });
            return put_float(warp, op, value, mode, partial);
        }
        _ => return shifts(warp, program, op, partial),
    };
    put(warp, op, out, partial);
    true
}
