//! The product kernels: one warp computes a tile of 16 rows by 16 tokens, 16 accumulators a lane.
//!
//! Layouts: [`crate::repack`]. Lane l owns rows 4·(l/4) to +3 and tokens 4·(l%4) to +3. Workgroup (x, y) is row tile x
//! and token tile y of the job.
//!
//! Registers of the integer kernels, all 64: accumulators r0–15 (token-major), weights of a block r16–47, activations
//! of one token and half r48–51, integer sums r52–55, and four addresses' low words at even registers (their high words
//! are uniforms, moved in where needed, so that the odd registers serve as temporaries between).

use mali_isa::valhall::{Op, Src};

use super::builder::{Block, Builder, KernelError, LOCAL_ID, Reg, WORKGROUP_X, WORKGROUP_Y};
use super::{BLOCK, Kernel, Mix, Stated, TILE, Uniform};
use crate::quant::Format;

/// Multiply-accumulates of a tile and one block of 32.
const BLOCK_MACS: u32 = TILE * TILE * BLOCK;

/// What a product kernel depends on: how weights and scales are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum GemmClass {
    /// Signed nibbles, f16 scale: Q4_0.
    NibbleSigned,
    /// Unsigned nibbles, f16 scale and minimum: Q4_1.
    NibbleMinF16,
    /// Unsigned nibbles, f32 scale and minimum: Q4_K.
    NibbleMinF32,
    /// Bytes, f16 scale: Q5_0, Q8_0.
    Byte,
    /// Bytes, f16 scale and minimum: Q5_1.
    ByteMinF16,
    /// Bytes, f32 scale and minimum: Q5_K.
    ByteMinF32,
    /// Bytes, an f32 scale for each half of the block: Q6_K.
    ByteHalves,
    /// f16 weights, f32 activations.
    Half,
    /// f32 weights and activations.
    Single,
}

impl GemmClass {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::NibbleSigned,
        Self::NibbleMinF16,
        Self::NibbleMinF32,
        Self::Byte,
        Self::ByteMinF16,
        Self::ByteMinF32,
        Self::ByteHalves,
        Self::Half,
        Self::Single,
    ];

    /// The class that multiplies weights of `format`.
    #[must_use]
    pub const fn of(format: Format) -> Self {
        match format {
            Format::Q4_0 => Self::NibbleSigned,
            Format::Q4_1 => Self::NibbleMinF16,
            Format::Q4_K => Self::NibbleMinF32,
            Format::Q5_0 | Format::Q8_0 => Self::Byte,
            Format::Q5_1 => Self::ByteMinF16,
            Format::Q5_K => Self::ByteMinF32,
            Format::Q6_K => Self::ByteHalves,
            Format::F16 => Self::Half,
            Format::F32 => Self::Single,
        }
    }

    /// The kernel's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NibbleSigned => "gemm_nibble_signed",
            Self::NibbleMinF16 => "gemm_nibble_min_f16",
            Self::NibbleMinF32 => "gemm_nibble_min_f32",
            Self::Byte => "gemm_byte",
            Self::ByteMinF16 => "gemm_byte_min_f16",
            Self::ByteMinF32 => "gemm_byte_min_f32",
            Self::ByteHalves => "gemm_byte_halves",
            Self::Half => "gemm_half",
            Self::Single => "gemm_single",
        }
    }

    /// Whether the kernel takes quantised activations.
    #[must_use]
    pub const fn is_quantised(self) -> bool {
        !matches!(self, Self::Half | Self::Single)
    }

    const fn nibbles(self) -> bool {
        matches!(
            self,
            Self::NibbleSigned | Self::NibbleMinF16 | Self::NibbleMinF32
        )
    }

    const fn scale_bytes(self) -> i32 {
        match self {
            Self::NibbleSigned | Self::Byte => 32,
            Self::NibbleMinF16 | Self::ByteMinF16 => 64,
            Self::NibbleMinF32 | Self::ByteMinF32 | Self::ByteHalves => 128,
            Self::Half | Self::Single => 0,
        }
    }

    /// Of the integer kernels.
    const fn stated(self) -> Stated {
        let body = self.expected();
        // Every load is one line, but for the f32 scales: a row group's are 32 bytes apart, so that 16 bytes of each
        // are two lines.
        let scale_lines = match self {
            Self::NibbleMinF32 | Self::ByteMinF32 | Self::ByteHalves => 8,
            _ => 0,
        };
        Stated {
            tile: [TILE, TILE],
            registers: 64,
            body,
            lines: body.ls + scale_lines,
            macs: BLOCK_MACS,
        }
    }

    /// Per block, for the warp.
    const fn expected(self) -> Mix {
        // 16 outputs: 8 dot products of four, 1 multiplication of scales, 1 accumulation each; the minimum adds a
        // multiplication and an accumulation, the second scale of Q6_K likewise.
        let (fma, cvt_tokens) = match self {
            Self::NibbleSigned | Self::Byte => (160, 20),
            Self::NibbleMinF16 | Self::ByteMinF16 | Self::NibbleMinF32 | Self::ByteMinF32 => {
                (192, 24)
            }
            Self::ByteHalves => (192, 36),
            // Stated where they are built.
            Self::Half | Self::Single => {
                return Mix {
                    fma: 0,
                    cvt: 0,
                    sfu: 0,
                    ls: 0,
                    other: 0,
                };
            }
        };
        let scale_loads = match self {
            Self::NibbleMinF32 | Self::ByteMinF32 | Self::ByteHalves => 8,
            _ => 4,
        };
        // Of every token: three high words (four for Q6_K); and per block two of the weights' address, four
        // advances, end address, comparison, branch.
        let token_moves = if matches!(self, Self::ByteHalves) {
            16
        } else {
            12
        };
        Mix {
            fma,
            cvt: cvt_tokens + token_moves + 2 + 4 + 3,
            // The expansion of nibbles and the multiplication for the loop's end.
            sfu: if self.nibbles() { 33 } else { 1 },
            ls: (if self.nibbles() { 4 } else { 8 }) + 4 + 8 + scale_loads,
            other: 0,
        }
    }
}

/// Builds the kernel of a class.
///
/// # Errors
/// [`KernelError`], where it needs more than 64 registers or breaks a rule of the ISA.
pub fn gemm(class: GemmClass) -> Result<Kernel, KernelError> {
    if class.is_quantised() {
        quantised(class)
    } else {
        super::float::float(class)
    }
}

/// The tile's coordinates, packed (x in the low half, y in the high half), and the lane, from the preloaded registers.
pub(super) fn tile_and_lane(b: &mut Builder, tile: Reg, lane: Reg) {
    let (x, y) = (b.preloaded(WORKGROUP_X), b.preloaded(WORKGROUP_Y));
    let (base_x, base_y) = (b.uniform(Uniform::BaseX), b.uniform(Uniform::BaseY));
    b.iadd(x, x, base_x);
    b.iadd(y, y, base_y);
    let local = b.preloaded(LOCAL_ID);
    // A warp is a whole workgroup, so that the thread's number is the lane's.
    b.shl(lane, local.half(0), 0);
    b.pack_halves(tile, x.half(0), y.half(0));
    b.free_preload();
}

/// `address = plane + tile coordinate * stride + lane part`.
pub(super) fn plane_address(
    b: &mut Builder,
    address: Reg,
    coordinate: Src,
    stride: Uniform,
    plane: Uniform,
    lane_part: Reg,
) {
    let (stride, plane) = (b.uniform(stride), b.uniform(plane));
    b.imul(address, coordinate, stride);
    b.iadd(address, address, plane);
    b.iadd(address, address, lane_part);
}

struct Addresses {
    activations: Block,
    scales: Block,
    weights_low: Reg,
    tile: Reg,
    sums: Block,
}

fn quantised(class: GemmClass) -> Result<Kernel, KernelError> {
    let mut kernel = Builder::new(class.name(), &[LOCAL_ID, WORKGROUP_X, WORKGROUP_Y]);
    let b = &mut kernel;
    b.uniform_pair(Uniform::WeightsLow, Uniform::WeightsHigh);
    b.uniform_pair(Uniform::ScalesLow, Uniform::ScalesHigh);
    b.uniform_pair(Uniform::ActivationsLow, Uniform::ActivationsHigh);
    b.uniform_pair(Uniform::SumsLow, Uniform::SumsHigh);
    b.uniform_pair(Uniform::FactorsLow, Uniform::FactorsHigh);
    b.uniform_pair(Uniform::OutputLow, Uniform::OutputHigh);

    let acc = b.alloc("accumulators", 16, 16);
    let weights = b.alloc("weights", 32, 16);
    let act = b.alloc("activations", 4, 4);

    // Set-up in the weights' registers, which the loop fills first.
    let (tile0, lane) = (weights.at(0), weights.at(1));
    tile_and_lane(b, tile0, lane);
    let part = b.alloc("sums", 4, 4);
    let at = Addresses {
        activations: b.alloc("activation address", 2, 2),
        scales: b.alloc("scale address", 2, 2),
        weights_low: b.alloc("weight address", 1, 2).at(0),
        tile: b.alloc("tile", 1, 1).at(0),
        sums: b.alloc("sum address", 2, 2),
    };
    b.mov(at.tile, tile0);
    let (x, y) = (at.tile.half(0), at.tile.half(1));

    // 16·g and 16·c, where g = lane / 4 and c = lane % 4.
    let (g, g16, c16, g_scale) = (weights.at(2), weights.at(3), weights.at(4), weights.at(5));
    b.shr(g, lane, 2);
    b.shl(g16, g, 4);
    b.shl_and(c16, Builder::small(3), 0, lane);
    b.shl(c16, c16, 4);
    // The scales of a row group: a quarter of the block's.
    b.shl(g_scale, g, (class.scale_bytes() / 4).trailing_zeros() as u8);
    plane_address(
        b,
        at.weights_low,
        x,
        Uniform::WeightsStride,
        Uniform::WeightsLow,
        g16,
    );
    plane_address(
        b,
        at.scales.at(0),
        x,
        Uniform::ScalesStride,
        Uniform::ScalesLow,
        g_scale,
    );
    plane_address(
        b,
        at.activations.at(0),
        y,
        Uniform::ActivationsStride,
        Uniform::ActivationsLow,
        c16,
    );
    plane_address(
        b,
        at.sums.at(0),
        y,
        Uniform::SumsStride,
        Uniform::SumsLow,
        c16,
    );
    for i in 0..16 {
        b.mov(acc.at(i), Src::ZERO);
    }

    let head = b.loop_head();
    load_weights(b, class, &at, weights, part);
    for token in 0..4 {
        token_sums(b, class, &at, weights, act, part, acc, token);
    }
    // The end first: it needs temporaries, and the last address advances give the comparison's waits time.
    let (end, done) = (act.at(0), act.at(1));
    let (stride, end_base) = (
        b.uniform(Uniform::ActivationsStride),
        b.uniform(Uniform::ActivationsEnd),
    );
    b.iadd_imm(at.activations.at(0), at.activations.at(0), 512);
    b.iadd_imm(at.sums.at(0), at.sums.at(0), 64);
    b.iadd_imm(at.scales.at(0), at.scales.at(0), class.scale_bytes());
    b.imul(end, y, stride);
    b.iadd(end, end, end_base);
    b.at_least(done, at.activations.at(0), end);
    b.loop_while_zero(head, done);

    epilogue(b, class, &at, weights, act, acc);
    kernel.finish(class.stated())
}

/// Brings the block's weights into registers as signed bytes: element p of row i in word p/4 of `weights[16·h + 4·i]`,
/// where h is the half of the block.
fn load_weights(b: &mut Builder, class: GemmClass, at: &Addresses, weights: Block, part: Block) {
    let address = part.part(0, 2);
    let high = b.uniform(Uniform::WeightsHigh);
    b.mov(address.at(0), at.weights_low);
    b.mov(address.at(1), high);
    let halves = if class.nibbles() { 1 } else { 2 };
    for h in 0..halves {
        for i in 0..4 {
            b.load(
                weights.part(16 * h + 4 * i, 4),
                address,
                (256 * h + 64 * i) as i16,
            );
        }
    }
    b.iadd_imm(at.weights_low, at.weights_low, 256 * halves as i32);
    if class == GemmClass::NibbleSigned {
        // Sixteen times the signed nibble: the sign is the byte's own.
        let mask = b.uniform(Uniform::Value(0xf0f0_f0f0));
        for word in 0..16 {
            let (low, high) = (weights.at(word), weights.at(16 + word));
            b.shl_and(high, low, 0, mask);
            b.shl_and(low, low, 4, mask);
        }
    } else if class.nibbles() {
        let mask = b.uniform(Uniform::Value(0x0f0f_0f0f));
        for word in 0..16 {
            let (low, high) = (weights.at(word), weights.at(16 + word));
            b.shr_and(high, low, 4, mask);
            b.shr_and(low, low, 0, mask);
        }
    }
}

/// One token of the lane's four: 4 rows' sums over the block, scaled and accumulated.
#[allow(clippy::too_many_arguments)]
fn token_sums(
    b: &mut Builder,
    class: GemmClass,
    at: &Addresses,
    weights: Block,
    act: Block,
    part: Block,
    acc: Block,
    token: usize,
) {
    let (t1, t2, factors) = (at.activations.at(1), at.scales.at(1), at.sums.at(1));
    let high = b.uniform(Uniform::SumsHigh);
    b.mov(at.sums.at(1), high);
    b.load(part, at.sums, 0);
    let high = b.uniform(Uniform::ActivationsHigh);
    b.mov(at.activations.at(1), high);
    b.load(act, at.activations, 128 * token as i16);
    // The token's scale in the low half, its sum in the high half.
    b.pack_halves(
        factors,
        part.at(token / 2).half(token % 2),
        part.at(2 + token / 2).half(token % 2),
    );

    let rows = acc.part(4 * token, 4);
    half_dots(b, weights.part(0, 16), act, part, true);
    if class == GemmClass::ByteHalves {
        load_scales(b, at, act, 0);
        accumulate_f32(b, part, act, factors, t1, rows);
        let high = b.uniform(Uniform::ActivationsHigh);
        b.mov(at.activations.at(1), high);
    }
    b.load(act, at.activations, 128 * token as i16 + 64);
    half_dots(
        b,
        weights.part(16, 16),
        act,
        part,
        class == GemmClass::ByteHalves,
    );

    match class {
        GemmClass::NibbleSigned | GemmClass::Byte => {
            load_scales(b, at, act.part(0, 2), 0);
            to_float(b, part);
            for i in 0..4 {
                b.fmul(t1, act.at(i / 2).half(i % 2), factors.half(0));
                b.fma(rows.at(i), part.at(i), t1, rows.at(i));
            }
        }
        GemmClass::NibbleMinF16 | GemmClass::ByteMinF16 => {
            load_scales(b, at, act, 0);
            to_float(b, part);
            b.unary(Op::S16ToF32, t2, factors.half(1));
            for i in 0..4 {
                b.fmul(t1, act.at(i / 2).half(i % 2), factors.half(0));
                b.fma(rows.at(i), part.at(i), t1, rows.at(i));
            }
            for i in 0..4 {
                b.fmul(t1, act.at(2 + i / 2).half(i % 2), factors.half(0));
                b.fma(rows.at(i), t2, t1, rows.at(i));
            }
        }
        GemmClass::NibbleMinF32 | GemmClass::ByteMinF32 => {
            load_scales(b, at, act, 0);
            accumulate_f32(b, part, act, factors, t1, rows);
            // The pair still holds the address: the minima follow the scales.
            b.load(act, at.scales, 16);
            b.unary(Op::S16ToF32, t2, factors.half(1));
            for i in 0..4 {
                b.fmul(t1, act.at(i), factors.half(0));
                b.fma(rows.at(i), t2, t1, rows.at(i));
            }
        }
        GemmClass::ByteHalves => {
            b.load(act, at.scales, 16);
            accumulate_f32(b, part, act, factors, t1, rows);
        }
        GemmClass::Half | GemmClass::Single => {}
    }
}

/// 16 dot products of four: one half of the block, four rows. `fresh`: the chains begin from zero.
fn half_dots(b: &mut Builder, weights: Block, act: Block, part: Block, fresh: bool) {
    for word in 0..4 {
        for row in 0..4 {
            let before = if fresh && word == 0 {
                Src::ZERO
            } else {
                part.at(row).src()
            };
            b.dot4(
                part.at(row),
                weights.at(4 * row + word),
                act.at(word),
                before,
            );
        }
    }
}

fn load_scales(b: &mut Builder, at: &Addresses, to: Block, offset: i16) {
    let high = b.uniform(Uniform::ScalesHigh);
    b.mov(at.scales.at(1), high);
    b.load(to, at.scales, offset);
}

fn to_float(b: &mut Builder, part: Block) {
    for i in 0..4 {
        b.unary(Op::S32ToF32, part.at(i), part.at(i));
    }
}

fn accumulate_f32(b: &mut Builder, part: Block, scales: Block, factors: Reg, t: Reg, rows: Block) {
    to_float(b, part);
    for i in 0..4 {
        b.fmul(t, scales.at(i), factors.half(0));
        b.fma(rows.at(i), part.at(i), t, rows.at(i));
    }
}

/// Undoes the tokens' normalisation and stores the tile. `weights` and `act` are free by now.
fn epilogue(
    b: &mut Builder,
    class: GemmClass,
    at: &Addresses,
    weights: Block,
    act: Block,
    acc: Block,
) {
    let (x, y) = (at.tile.half(0), at.tile.half(1));
    // The planes are 64-byte aligned and so are their strides: bits 4 and 5 of the addresses are the lane's part.
    let (c16, g16) = (weights.at(0), weights.at(1));
    let lane_bits = b.uniform(Uniform::Value(0x30));
    b.shl_and(c16, at.sums.at(0), 0, lane_bits);
    b.shl_and(g16, at.weights_low, 0, lane_bits);

    let address = weights.part(2, 2);
    let (low, high) = (
        b.uniform(Uniform::FactorsLow),
        b.uniform(Uniform::FactorsHigh),
    );
    b.shl(address.at(0), y, 6);
    b.iadd(address.at(0), address.at(0), c16);
    b.iadd(address.at(0), address.at(0), low);
    b.mov(address.at(1), high);
    b.load(act, address, 0);
    if class == GemmClass::NibbleSigned {
        let sixteenth = b.uniform(Uniform::Value(0.0625f32.to_bits()));
        for token in 0..4 {
            b.fmul(act.at(token), act.at(token), sixteenth);
        }
    }
    for token in 0..4 {
        for i in 0..4 {
            let value = acc.at(4 * token + i);
            b.fmul(value, value, act.at(token));
        }
    }
    let c4 = weights.at(4);
    b.shr(c4, c16, 2);
    store_tile(b, x, y, c4, g16, weights.part(6, 4), acc);
}

/// Stores the accumulators: `c4` = 4·c, `g16` = 16·g, `free`: four registers, the first even.
pub(super) fn store_tile(
    b: &mut Builder,
    x: Src,
    y: Src,
    c4: Reg,
    g16: Reg,
    free: Block,
    acc: Block,
) {
    let (out, t) = (free.part(0, 2), free.at(2));
    let stride = b.uniform(Uniform::OutputStride);
    let (low, high) = (
        b.uniform(Uniform::OutputLow),
        b.uniform(Uniform::OutputHigh),
    );
    b.shl(out.at(0), y, 4);
    b.iadd(out.at(0), out.at(0), c4);
    b.imul(out.at(0), out.at(0), stride);
    b.shl(t, x, 6);
    b.iadd(out.at(0), out.at(0), t);
    b.iadd(out.at(0), out.at(0), g16);
    b.iadd(out.at(0), out.at(0), low);
    b.mov(out.at(1), high);
    for token in 0..4 {
        b.store(acc.part(4 * token, 4), out, 0);
        if token < 3 {
            b.iadd(out.at(0), out.at(0), stride);
        }
    }
}
