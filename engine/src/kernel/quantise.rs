//! The quantiser: a token's power of two from its largest magnitude, then int8 blocks of 32 with f16 scales and sums.
//!
//! No approximated value reaches an int8: FRCP only proposes a quotient, and two fused multiply-adds, whose signs are
//! exact, move it to floor(x/d + 1/2).

use mali_isa::valhall::{Cond, Op, Src};

use super::builder::{Block, Builder, KernelError, LOCAL_ID, Reg, WORKGROUP_X, WORKGROUP_Y};
use super::{BLOCK, Kernel, Mix, Stated, TILE, Uniform};

/// Bits of 2^127·2^... : the exponent sum of a token's factor and its reciprocal, (E-13) + (267-E) = 254, in place.
const RECIPROCAL_SUM: u32 = 254 << 23;
/// Smallest and largest biased exponent that a token's normalisation takes.
const EXPONENTS: (u32, u32) = (18, 254);
/// What a normalised token's largest magnitude has as exponent.
const NORMAL_EXPONENT: i32 = 13;
/// f16 NaN: the scale of a block that holds a NaN or an infinity.
const NAN_HALF: u32 = 0x7e00;

/// Builds the kernel that finds a token's factor: workgroup x is a token, its lanes walk along K.
///
/// # Errors
/// [`KernelError`], where it breaks a rule of the ISA.
pub fn row_factor() -> Result<Kernel, KernelError> {
    let mut kernel = Builder::new("row_factor", &[LOCAL_ID, WORKGROUP_X]);
    let b = &mut kernel;
    b.uniform_pair(Uniform::InputLow, Uniform::InputHigh);
    b.uniform_pair(Uniform::FactorsLow, Uniform::FactorsHigh);
    b.uniform_pair(Uniform::Value(EXPONENTS.0), Uniform::Value(EXPONENTS.1));
    let token = b.alloc("token", 1, 1).at(0);
    let lane = b.alloc("lane", 1, 1).at(0);
    let address = b.alloc("address", 2, 2);
    let pair = b.alloc("elements", 2, 2);
    let max = b.alloc("largest", 1, 1).at(0);
    let count = b.alloc("loop counter", 1, 1).at(0);
    let t = b.alloc("temporary", 1, 1).at(0);
    let (x, base) = (b.preloaded(WORKGROUP_X), b.uniform(Uniform::BaseX));
    b.iadd(token, x, base);
    let local = b.preloaded(LOCAL_ID);
    b.shl(lane, local.half(0), 0);
    b.free_preload();

    let stride = b.uniform(Uniform::InputStride);
    let (low, high) = (b.uniform(Uniform::InputLow), b.uniform(Uniform::InputHigh));
    b.imul(address.at(0), token, stride);
    b.shl(t, lane, 3);
    b.iadd(address.at(0), address.at(0), t);
    b.iadd(address.at(0), address.at(0), low);
    b.mov(address.at(1), high);
    let iterations = b.uniform(Uniform::Count);
    b.mov(count, iterations);
    b.mov(max, Src::ZERO);

    let head = b.loop_head();
    b.load(pair, address, 0);
    b.iadd_imm(address.at(0), address.at(0), 128);
    b.iadd_imm(count, count, -1);
    b.fmax(max, max, pair.at(0).src().abs());
    b.fmax(max, max, pair.at(1).src().abs());
    b.loop_while_nonzero(head, count);

    // The largest of the warp: four exchanges between lanes whose numbers differ in one bit.
    let partner = pair.at(0);
    for distance in [8, 4, 2, 1] {
        b.xor(partner, Builder::small(distance), lane);
        b.lane_value(t, max, partner);
        b.fmax(max, max, t);
    }
    // The biased exponent, clamped. The value is not negative: its sign bit is clear.
    let (least, most) = (
        b.uniform(Uniform::Value(EXPONENTS.0)),
        b.uniform(Uniform::Value(EXPONENTS.1)),
    );
    b.shr(max, max, 23);
    b.select(
        Op::CselU32,
        Cond::Lt,
        max,
        [max.src(), least, least, max.src()],
    );
    b.select(
        Op::CselU32,
        Cond::Gt,
        max,
        [max.src(), most, most, max.src()],
    );
    b.iadd_imm(max, max, -NORMAL_EXPONENT);
    let factor = pair.part(0, 1);
    b.shl(factor.at(0), max, 23);
    let (low, high) = (
        b.uniform(Uniform::FactorsLow),
        b.uniform(Uniform::FactorsHigh),
    );
    b.shl(address.at(0), token, 2);
    b.iadd(address.at(0), address.at(0), low);
    b.mov(address.at(1), high);
    b.unless(lane, |b| b.store(factor, address, 0));
    kernel.finish(Stated {
        tile: [1, 1],
        registers: 11,
        body: Mix {
            fma: 0,
            cvt: 5,
            sfu: 0,
            ls: 1,
            other: 0,
        },
        // Eight bytes a lane.
        lines: 2,
        macs: 0,
    })
}

/// Builds the kernel that quantises: workgroup (x, y) is block x of token tile y, a lane is a token.
///
/// # Errors
/// [`KernelError`], where it needs more than 64 registers or breaks a rule of the ISA.
pub fn quantise() -> Result<Kernel, KernelError> {
    let mut kernel = Builder::new("quantise", &[LOCAL_ID, WORKGROUP_X, WORKGROUP_Y]);
    let b = &mut kernel;
    b.uniform_pair(Uniform::InputLow, Uniform::InputHigh);
    b.uniform_pair(Uniform::FactorsLow, Uniform::FactorsHigh);
    b.uniform_pair(Uniform::ActivationsLow, Uniform::ActivationsHigh);
    b.uniform_pair(Uniform::SumsLow, Uniform::SumsHigh);

    let x = b.alloc("elements", 32, 4);
    let words = b.alloc("packed elements", 8, 4);
    let address = b.alloc("address", 2, 2);
    let block = b.alloc("block", 1, 1).at(0);
    let tile = b.alloc("token tile", 1, 1).at(0);
    let lane = b.alloc("lane", 1, 1).at(0);
    let (px, py, local) = (
        b.preloaded(WORKGROUP_X),
        b.preloaded(WORKGROUP_Y),
        b.preloaded(LOCAL_ID),
    );
    let (base_x, base_y) = (b.uniform(Uniform::BaseX), b.uniform(Uniform::BaseY));
    b.iadd(block, px, base_x);
    b.iadd(tile, py, base_y);
    b.shl(lane, local.half(0), 0);
    b.free_preload();

    let token = b.alloc("token", 1, 1).at(0);
    let t = b.alloc("temporaries", 4, 4);
    b.shl(token, tile, 4);
    b.iadd(token, token, lane);
    let factor = b.alloc("factor", 1, 1);
    let (low, high) = (
        b.uniform(Uniform::FactorsLow),
        b.uniform(Uniform::FactorsHigh),
    );
    b.shl(address.at(0), token, 2);
    b.iadd(address.at(0), address.at(0), low);
    b.mov(address.at(1), high);
    b.load(factor, address, 0);
    let stride = b.uniform(Uniform::InputStride);
    let (low, high) = (b.uniform(Uniform::InputLow), b.uniform(Uniform::InputHigh));
    b.imul(t.at(0), token, stride);
    b.shl(t.at(1), block, 7);
    b.iadd(t.at(0), t.at(0), t.at(1));
    b.iadd(address.at(0), t.at(0), low);
    b.mov(address.at(1), high);
    for piece in 0..8 {
        b.load(x.part(4 * piece, 4), address, 16 * piece as i16);
    }

    let norm = factor.at(0);
    let sum = b.uniform(Uniform::Value(RECIPROCAL_SUM));
    b.isub(norm, sum, norm);
    let max = b.alloc("largest", 1, 1).at(0);
    let odd = b.alloc("not finite", 1, 1).at(0);
    b.mov(max, Src::ZERO);
    b.mov(odd, Src::ZERO);
    for i in 0..32 {
        b.fmul(x.at(i), x.at(i), norm);
        b.fmax(max, max, x.at(i).src().abs());
        // 0 times a finite value leaves +0, anything else makes a NaN that stays.
        b.fma(odd, x.at(i), Src::ZERO, odd);
    }

    // scale = f16(largest / 127), the division as a multiplication.
    let (half, scale, mask) = (
        b.alloc("scale, half", 1, 1),
        b.alloc("scale", 1, 1).at(0),
        b.alloc("mask", 1, 1).at(0),
    );
    let inverse = b.uniform(Uniform::Value((1.0f32 / 127.0).to_bits()));
    let nan = b.uniform(Uniform::Value(NAN_HALF));
    b.fmul(max, max, inverse);
    b.to_halves(half.at(0), max, Src::ZERO);
    // Where the scale is 0 or the block not finite, no element counts.
    b.select(
        Op::CselU32,
        Cond::Eq,
        mask,
        [half.at(0).src(), Src::ZERO, Src::ZERO, Src::ONES],
    );
    b.select(
        Op::CselU32,
        Cond::Eq,
        mask,
        [odd.src(), Src::ZERO, mask.src(), Src::ZERO],
    );
    b.select(
        Op::CselU32,
        Cond::Eq,
        half.at(0),
        [odd.src(), Src::ZERO, half.at(0).src(), nan],
    );
    b.unary(Op::F16ToF32, scale, half.at(0).half(0));
    let reciprocal = odd;
    b.unary(Op::FrcpF32, reciprocal, scale);

    let total = max;
    b.mov(total, Src::ZERO);
    for word in 0..8 {
        for i in 0..4 {
            nearest(b, x.at(4 * word + i), scale, reciprocal, &t);
        }
        pack(b, words.at(word), x.part(4 * word, 4), mask, total, &t);
    }

    store(b, block, tile, lane, words, half, total, address, &t);
    kernel.finish(Stated {
        tile: [BLOCK, TILE],
        registers: 58,
        body: QUANTISE_MIX,
        // The factors; eight pieces of sixteen rows; two pieces for each of four j; scales and sums.
        lines: 1 + 8 * 16 + 2 * 4 + 2,
        macs: 0,
    })
}

/// What the whole quantiser takes for a block of a token tile. Of each element: 8 FMA (normalise, look for what is not
/// finite, propose, two edges with their tests, correct) and 7 CVT (largest, round, two choices, two limits, convert);
/// of each word of four: a sum (FMA), two packings (CVT), a mask (SFU). 9 loads and 4 stores. The rest is addresses.
const QUANTISE_MIX: Mix = Mix {
    fma: 32 * 8 + 8 + 1,
    cvt: 32 * 7 + 8 * 2 + 29,
    sfu: 8 + 15,
    ls: 9 + 4,
    other: 0,
};

/// `x = floor(x / scale + 1/2)` within ±127, as an integer.
fn nearest(b: &mut Builder, x: Reg, scale: Reg, reciprocal: Reg, t: &Block) {
    let (q, edge, above, below) = (t.at(0), t.at(1), t.at(2), t.at(3));
    // 0.5 as a half of an inline constant.
    let one_half = b
        .constant(0x3800_0000)
        .swizzle(mali_isa::valhall::Swizzle::H1);
    let one = b.constant(1.0f32.to_bits());
    let minus_one = b.uniform(Uniform::Value((-1.0f32).to_bits()));
    b.fmul(q, x, reciprocal);
    b.unary(Op::FroundF32, q, q);
    b.fadd(edge, q, one_half);
    b.fma(above, edge.src().neg(), scale, x);
    b.fadd(edge, q, one_half.neg());
    b.fma(below, edge.src().neg(), scale, x);
    b.select(
        Op::CselF32,
        Cond::Lt,
        below,
        [below.src(), Src::ZERO, minus_one, Src::ZERO],
    );
    b.select(
        Op::CselF32,
        Cond::Ge,
        above,
        [above.src(), Src::ZERO, one, below.src()],
    );
    b.fadd(q, q, above);
    let limit = b.uniform(Uniform::Value(127.0f32.to_bits()));
    b.fmin(q, q, limit);
    b.fmax(q, q, limit.neg());
    b.unary(Op::F32ToS32, x, q);
}

/// Four elements into a word; the masked word adds to the block's sum.
fn pack(b: &mut Builder, word: Reg, elements: Block, mask: Reg, total: Reg, t: &Block) {
    let ones = b.uniform(Uniform::Value(0x0101_0101));
    b.pack_bytes(t.at(0), elements.at(2), elements.at(3), Src::ZERO);
    b.pack_bytes(word, elements.at(0), elements.at(1), t.at(0));
    b.shl_and(word, word, 0, mask);
    b.dot4(total, word, ones, total);
}

#[allow(clippy::too_many_arguments)]
fn store(
    b: &mut Builder,
    block: Reg,
    tile: Reg,
    lane: Reg,
    words: Block,
    half: Block,
    total: Reg,
    address: Block,
    t: &Block,
) {
    // Lane = token = 4·c + j of the tile.
    let (c16, j) = (t.at(2), t.at(3));
    b.shr(c16, lane, 2);
    b.shl(c16, c16, 4);
    b.shl_and(j, Builder::small(3), 0, lane);

    let stride = b.uniform(Uniform::ActivationsStride);
    let (low, high) = (
        b.uniform(Uniform::ActivationsLow),
        b.uniform(Uniform::ActivationsHigh),
    );
    b.imul(t.at(0), tile, stride);
    b.shl(t.at(1), block, 9);
    b.iadd(t.at(0), t.at(0), t.at(1));
    b.shl(t.at(1), j, 7);
    b.iadd(t.at(0), t.at(0), t.at(1));
    b.iadd(t.at(0), t.at(0), c16);
    b.iadd(address.at(0), t.at(0), low);
    b.mov(address.at(1), high);
    b.store(words.part(0, 4), address, 0);
    b.store(words.part(4, 4), address, 64);

    let stride = b.uniform(Uniform::SumsStride);
    let (low, high) = (b.uniform(Uniform::SumsLow), b.uniform(Uniform::SumsHigh));
    b.imul(t.at(0), tile, stride);
    b.shl(t.at(1), block, 6);
    b.iadd(t.at(0), t.at(0), t.at(1));
    b.shl(t.at(1), j, 1);
    b.iadd(t.at(0), t.at(0), t.at(1));
    b.iadd(t.at(0), t.at(0), c16);
    b.iadd(address.at(0), t.at(0), low);
    b.mov(address.at(1), high);
    b.store_half(half, address, 0);
    // The sum's register as a block of its own.
    b.mov(words.at(0), total);
    b.store_half(words.part(0, 1), address, 8);
}
