//! The product kernels of f16 and f32 weights: activations are not quantised, one fused multiply-add per element in
//! ascending k.

use mali_isa::valhall::Src;

use super::builder::{Builder, KernelError, LOCAL_ID, WORKGROUP_X, WORKGROUP_Y};
use super::gemm::{plane_address, store_tile, tile_and_lane};
use super::{GemmClass, Kernel, Mix, Stated, TILE, Uniform};

/// Builds [`GemmClass::Half`] or [`GemmClass::Single`].
pub(super) fn float(class: GemmClass) -> Result<Kernel, KernelError> {
    let half = class == GemmClass::Half;
    // Elements of one 16-byte piece of a row.
    let chunk: usize = if half { 8 } else { 4 };
    let mut kernel = Builder::new(class.name(), &[LOCAL_ID, WORKGROUP_X, WORKGROUP_Y]);
    let b = &mut kernel;
    b.uniform_pair(Uniform::WeightsLow, Uniform::WeightsHigh);
    b.uniform_pair(Uniform::InputLow, Uniform::InputHigh);
    b.uniform_pair(Uniform::OutputLow, Uniform::OutputHigh);

    let acc = b.alloc("accumulators", 16, 16);
    let weights = b.alloc("weights", 16, 16);
    let input = b.alloc("activations", 8, 4);
    let tokens = b.alloc("token addresses", 8, 2);
    let address = b.alloc("weight address", 2, 2);
    let tile = b.alloc("tile", 1, 1).at(0);
    let lane = b.alloc("lane", 1, 1).at(0);
    tile_and_lane(b, tile, lane);
    let count = b.alloc("loop counter", 1, 1).at(0);
    let (x, y) = (tile.half(0), tile.half(1));

    let (g16, c4, row) = (weights.at(0), weights.at(1), weights.at(2));
    b.shr(g16, lane, 2);
    b.shl(g16, g16, 4);
    b.shl_and(c4, Builder::small(3), 0, lane);
    b.shl(c4, c4, 2);
    plane_address(
        b,
        address.at(0),
        x,
        Uniform::WeightsStride,
        Uniform::WeightsLow,
        g16,
    );
    let high = b.uniform(Uniform::WeightsHigh);
    b.mov(address.at(1), high);
    // Row of the lane's first token, then one stride further each.
    b.shl(row, y, 4);
    b.iadd(row, row, c4);
    let stride = b.uniform(Uniform::InputStride);
    let (low, high) = (b.uniform(Uniform::InputLow), b.uniform(Uniform::InputHigh));
    b.imul(row, row, stride);
    b.iadd(row, row, low);
    for token in 0..4 {
        b.mov(tokens.at(2 * token), row);
        b.mov(tokens.at(2 * token + 1), high);
        if token < 3 {
            b.iadd(row, row, stride);
        }
    }
    let iterations = b.uniform(Uniform::Count);
    b.mov(count, iterations);
    for i in 0..16 {
        b.mov(acc.at(i), Src::ZERO);
    }

    let head = b.loop_head();
    for i in 0..4 {
        b.load(weights.part(4 * i, 4), address, 64 * i as i16);
    }
    for token in 0..4 {
        let pair = tokens.part(2 * token, 2);
        b.load(input.part(0, 4), pair, 0);
        if half {
            b.load(input.part(4, 4), pair, 16);
        }
        for k in 0..chunk {
            for i in 0..4 {
                let weight = if half {
                    weights.at(4 * i + k / 2).half(k % 2)
                } else {
                    weights.at(4 * i + k).src()
                };
                let sum = acc.at(4 * token + i);
                b.fma(sum, weight, input.at(k), sum);
            }
        }
        b.iadd_imm(tokens.at(2 * token), tokens.at(2 * token), 4 * chunk as i32);
    }
    b.iadd_imm(address.at(0), address.at(0), 256);
    b.iadd_imm(count, count, -1);
    b.loop_while_nonzero(head, count);

    b.shr(g16, lane, 2);
    b.shl(g16, g16, 4);
    b.shl_and(c4, Builder::small(3), 0, lane);
    b.shl(c4, c4, 2);
    store_tile(b, x, y, c4, g16, weights.part(4, 4), acc);
    let fma = 16 * chunk as u32;
    let inputs = if half { 8 } else { 4 };
    kernel.finish(Stated {
        tile: [TILE, TILE],
        registers: 56,
        body: Mix {
            fma,
            cvt: 7,
            sfu: 0,
            ls: 4 + inputs,
            other: 0,
        },
        // A line of weights each; of the activations one for each of the warp's four tokens.
        lines: 4 + 4 * inputs,
        macs: 16 * fma,
    })
}
