//! Blocks to f32, in ggml's order of operations.

use super::{Format, f16_at, u32_at};

/// Writes the elements of a row of blocks as f32, with ggml's rounding: scale times integer, then the minimum.
///
/// # Panics
/// If `row` is not exactly the blocks of `out.len()` elements.
pub fn dequantise_row(format: Format, row: &[u8], out: &mut [f32]) {
    assert_eq!(
        Some(row.len()),
        format.row_bytes(out.len()),
        "bytes of a {format} row"
    );
    let blocks = row.chunks_exact(format.block_bytes());
    for (block, y) in blocks.zip(out.chunks_exact_mut(format.block_elements())) {
        match format {
            Format::Q4_0 => nibbles(&block[2..], y, |q| {
                (q - 8) as f32 * f16_at(block, 0).to_f32()
            }),
            Format::Q4_1 => {
                let (d, m) = (f16_at(block, 0).to_f32(), f16_at(block, 2).to_f32());
                nibbles(&block[4..], y, |q| q as f32 * d + m);
            }
            Format::Q5_0 => {
                let d = f16_at(block, 0).to_f32();
                five_bits(u32_at(block, 2), &block[6..], y, |q| (q - 16) as f32 * d);
            }
            Format::Q5_1 => {
                let (d, m) = (f16_at(block, 0).to_f32(), f16_at(block, 2).to_f32());
                five_bits(u32_at(block, 4), &block[8..], y, |q| q as f32 * d + m);
            }
            Format::Q8_0 => {
                let d = f16_at(block, 0).to_f32();
                for (y, q) in y.iter_mut().zip(&block[2..]) {
                    *y = f32::from(*q as i8) * d;
                }
            }
            Format::Q4_K => q4_k(block, y),
            Format::Q5_K => q5_k(block, y),
            Format::Q6_K => q6_k(block, y),
            Format::F16 => y[0] = f16_at(block, 0).to_f32(),
            Format::F32 => y[0] = f32::from_bits(u32_at(block, 0)),
        }
    }
}

/// Low nibbles are the first half of the block, high nibbles the second.
fn nibbles(qs: &[u8], y: &mut [f32], value: impl Fn(i32) -> f32) {
    for (j, byte) in qs.iter().enumerate() {
        y[j] = value(i32::from(byte & 15));
        y[j + 16] = value(i32::from(byte >> 4));
    }
}

/// As [`nibbles`], with the fifth bit of element e in bit e of `high`.
fn five_bits(high: u32, qs: &[u8], y: &mut [f32], value: impl Fn(i32) -> f32) {
    for (j, byte) in qs.iter().enumerate() {
        let bit = |e: usize| ((high >> e) & 1) << 4;
        y[j] = value((u32::from(byte & 15) | bit(j)) as i32);
        y[j + 16] = value((u32::from(byte >> 4) | bit(j + 16)) as i32);
    }
}

/// The 6-bit scale and minimum of group `g` (0..8) in the 12 packed bytes of Q4_K and Q5_K.
///
/// Groups 0..4 use the low six bits of bytes 0..4 and 4..8; groups 4..8 the nibbles of bytes 8..12 with the upper two bits of the
/// earlier bytes on top (`get_scale_min_k4` in ggml-quants.c).
pub(super) fn k_scale_min(scales: &[u8], g: usize) -> (u8, u8) {
    if g < 4 {
        (scales[g] & 63, scales[g + 4] & 63)
    } else {
        (
            (scales[g + 4] & 15) | ((scales[g - 4] >> 6) << 4),
            (scales[g + 4] >> 4) | ((scales[g] >> 6) << 4),
        )
    }
}

fn q4_k(block: &[u8], y: &mut [f32]) {
    let (d, dmin) = (f16_at(block, 0).to_f32(), f16_at(block, 2).to_f32());
    for pair in 0..4 {
        let qs = &block[16 + 32 * pair..][..32];
        for (upper, y) in y[64 * pair..][..64].chunks_exact_mut(32).enumerate() {
            let (sc, mn) = k_scale_min(&block[4..16], 2 * pair + upper);
            let (s, m) = (d * f32::from(sc), dmin * f32::from(mn));
            for (y, q) in y.iter_mut().zip(qs) {
                *y = s * f32::from((q >> (4 * upper)) & 15) - m;
            }
        }
    }
}

fn q5_k(block: &[u8], y: &mut [f32]) {
    let (d, dmin) = (f16_at(block, 0).to_f32(), f16_at(block, 2).to_f32());
    let high = &block[16..48];
    for pair in 0..4 {
        let qs = &block[48 + 32 * pair..][..32];
        for (upper, y) in y[64 * pair..][..64].chunks_exact_mut(32).enumerate() {
            let g = 2 * pair + upper;
            let (sc, mn) = k_scale_min(&block[4..16], g);
            let (s, m) = (d * f32::from(sc), dmin * f32::from(mn));
            for (l, y) in y.iter_mut().enumerate() {
                let q =
                    ((qs[l] >> (4 * upper)) & 15) + if high[l] & (1 << g) != 0 { 16 } else { 0 };
                *y = s * f32::from(q) - m;
            }
        }
    }
}

fn q6_k(block: &[u8], y: &mut [f32]) {
    let d = f16_at(block, 208).to_f32();
    for (part, y) in y.chunks_exact_mut(128).enumerate() {
        let low = &block[64 * part..][..64];
        let high = &block[128 + 32 * part..][..32];
        let scales = &block[192 + 8 * part..][..8];
        for l in 0..32 {
            let quads = [
                (low[l] & 15) | ((high[l] & 3) << 4),
                (low[l + 32] & 15) | (((high[l] >> 2) & 3) << 4),
                (low[l] >> 4) | (((high[l] >> 4) & 3) << 4),
                (low[l + 32] >> 4) | ((high[l] >> 6) << 4),
            ];
            for (c, q) in quads.into_iter().enumerate() {
                let s = d * f32::from(scales[2 * c + l / 16] as i8);
                y[32 * c + l] = s * f32::from(q as i8 - 32);
            }
        }
    }
}
