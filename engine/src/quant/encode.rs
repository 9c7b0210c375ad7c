//! f32 to blocks: for synthetic weights and tests. Plain rounding, without ggml's searches for the best scale.

use half::f16;

use super::Format;

/// Quantises the elements of a row and appends its blocks to `out`. Non-finite elements are not meant for this.
///
/// # Panics
/// If `x.len()` is no multiple of the block.
pub fn quantise_row(format: Format, x: &[f32], out: &mut Vec<u8>) {
    assert_eq!(x.len() % format.block_elements(), 0, "whole blocks");
    for x in x.chunks_exact(format.block_elements()) {
        match format {
            Format::Q4_0 => {
                let (d, inverse) = signed_scale(x, 8.0);
                out.extend(d.to_le_bytes());
                pack_nibbles(x, out, |v| centred(v, inverse, 8, 15));
            }
            Format::Q4_1 => {
                let (d, m, inverse) = range_scale(x, 15.0);
                out.extend(d.to_le_bytes());
                out.extend(m.to_le_bytes());
                pack_nibbles(x, out, |v| above(v, m.to_f32(), inverse, 15));
            }
            Format::Q5_0 => {
                let (d, inverse) = signed_scale(x, 16.0);
                out.extend(d.to_le_bytes());
                pack_five_bits(x, out, |v| centred(v, inverse, 16, 31));
            }
            Format::Q5_1 => {
                let (d, m, inverse) = range_scale(x, 31.0);
                out.extend(d.to_le_bytes());
                out.extend(m.to_le_bytes());
                pack_five_bits(x, out, |v| above(v, m.to_f32(), inverse, 31));
            }
            Format::Q8_0 => {
                let d = f16::from_f32(largest(x).abs() / 127.0);
                let inverse = inverse_of(d);
                out.extend(d.to_le_bytes());
                out.extend(
                    x.iter()
                        .map(|v| (v * inverse).round().clamp(-127.0, 127.0) as i8 as u8),
                );
            }
            Format::Q4_K => k_with_minimum(x, out, 15),
            Format::Q5_K => k_with_minimum(x, out, 31),
            Format::Q6_K => q6_k(x, out),
            Format::F16 => out.extend(f16::from_f32(x[0]).to_le_bytes()),
            Format::F32 => out.extend(x[0].to_le_bytes()),
        }
    }
}

/// The element of largest magnitude, with its sign.
fn largest(x: &[f32]) -> f32 {
    x.iter()
        .fold(0.0, |a: f32, v| if v.abs() > a.abs() { *v } else { a })
}

fn inverse_of(d: f16) -> f32 {
    if d == f16::ZERO {
        0.0
    } else {
        1.0 / d.to_f32()
    }
}

/// Scale such that the largest element becomes -`steps` exactly (ggml's choice for Q4_0 and Q5_0).
fn signed_scale(x: &[f32], steps: f32) -> (f16, f32) {
    let d = f16::from_f32(largest(x) / -steps);
    (d, inverse_of(d))
}

fn range_scale(x: &[f32], steps: f32) -> (f16, f16, f32) {
    let min = x.iter().copied().fold(f32::INFINITY, f32::min);
    let max = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let d = f16::from_f32((max - min) / steps);
    (d, f16::from_f32(min), inverse_of(d))
}

fn centred(v: f32, inverse: f32, offset: i32, max: i32) -> u8 {
    ((v * inverse).round() as i32 + offset).clamp(0, max) as u8
}

fn above(v: f32, min: f32, inverse: f32, max: i32) -> u8 {
    (((v - min) * inverse).round() as i32).clamp(0, max) as u8
}

fn pack_nibbles(x: &[f32], out: &mut Vec<u8>, q: impl Fn(f32) -> u8) {
    out.extend((0..16).map(|j| (q(x[j]) & 15) | (q(x[j + 16]) << 4)));
}

fn pack_five_bits(x: &[f32], out: &mut Vec<u8>, q: impl Fn(f32) -> u8) {
    let high = x
        .iter()
        .enumerate()
        .fold(0u32, |a, (e, v)| a | (u32::from(q(*v) >> 4) << e));
    out.extend(high.to_le_bytes());
    pack_nibbles(x, out, q);
}

/// Q4_K (`max` 15) and Q5_K (`max` 31).
fn k_with_minimum(x: &[f32], out: &mut Vec<u8>, max: u8) {
    // ggml subtracts the minimum, so it is stored as a magnitude and never above zero.
    let ranges: Vec<(f32, f32)> = x
        .chunks_exact(32)
        .map(|g| {
            let min = g.iter().copied().fold(0.0f32, f32::min);
            let top = g.iter().copied().fold(0.0f32, f32::max);
            ((top - min) / f32::from(max), -min)
        })
        .collect();
    let scale_of = |v: f32| f16::from_f32(v / 63.0);
    let d = scale_of(ranges.iter().fold(0.0, |a, r| r.0.max(a)));
    let dmin = scale_of(ranges.iter().fold(0.0, |a, r| r.1.max(a)));
    let six = |v: f32, d: f16| (v * inverse_of(d)).round().clamp(0.0, 63.0) as u8;
    let steps: Vec<(u8, u8)> = ranges
        .iter()
        .map(|r| (six(r.0, d), six(r.1, dmin)))
        .collect();
    let mut scales = [0u8; 12];
    for (g, (sc, mn)) in steps.iter().copied().enumerate() {
        if g < 4 {
            scales[g] |= sc;
            scales[g + 4] |= mn;
        } else {
            scales[g + 4] = (sc & 15) | (mn << 4);
            scales[g - 4] |= (sc >> 4) << 6;
            scales[g] |= (mn >> 4) << 6;
        }
    }
    out.extend(d.to_le_bytes());
    out.extend(dmin.to_le_bytes());
    out.extend(scales);
    let q: Vec<u8> = x
        .iter()
        .enumerate()
        .map(|(e, v)| {
            let (sc, mn) = steps[e / 32];
            let s = d.to_f32() * f32::from(sc);
            let m = dmin.to_f32() * f32::from(mn);
            let inverse = if s == 0.0 { 0.0 } else { 1.0 / s };
            ((v + m) * inverse).round().clamp(0.0, f32::from(max)) as u8
        })
        .collect();
    if max == 31 {
        out.extend((0..32).map(|l| (0..8).fold(0, |a, g| a | ((q[32 * g + l] >> 4) << g))));
    }
    for pair in q.chunks_exact(64) {
        out.extend((0..32).map(|l| (pair[l] & 15) | (pair[l + 32] << 4)));
    }
}

fn q6_k(x: &[f32], out: &mut Vec<u8>) {
    let wanted: Vec<f32> = x.chunks_exact(16).map(|g| largest(g) / -32.0).collect();
    let d = f16::from_f32(largest(&wanted).abs() / 127.0);
    let scales: Vec<i8> = wanted
        .iter()
        .map(|s| (s * inverse_of(d)).round().clamp(-128.0, 127.0) as i8)
        .collect();
    let q: Vec<u8> = x
        .iter()
        .enumerate()
        .map(|(e, v)| {
            let s = d.to_f32() * f32::from(scales[e / 16]);
            let inverse = if s == 0.0 { 0.0 } else { 1.0 / s };
            ((v * inverse).round() as i32 + 32).clamp(0, 63) as u8
        })
        .collect();
    for part in q.chunks_exact(128) {
        out.extend((0..64).map(|l| (part[l] & 15) | (part[l + 64] << 4)));
    }
    for part in q.chunks_exact(128) {
        out.extend(
            (0..32).map(|l| (0..4).fold(0, |a, c| a | ((part[32 * c + l] >> 4) << (2 * c)))),
        );
    }
    out.extend(scales.iter().map(|s| *s as u8));
    out.extend(d.to_le_bytes());
}
