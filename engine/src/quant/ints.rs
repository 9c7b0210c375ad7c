//! Blocks as the integers and scales that the kernels multiply.

use half::f16;

use super::dequant::k_scale_min;
use super::{Format, f16_at, u16_at, u32_at};

/// The scales of 32 consecutive elements, as the repacked layout stores them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Scale {
    /// Q4_0, Q5_0, Q8_0: the bits of an f16 scale.
    Half {
        /// f16 bits.
        d: u16,
    },
    /// Q4_1, Q5_1: the bits of an f16 scale and an f16 minimum.
    HalfMin {
        /// f16 bits of the scale.
        d: u16,
        /// f16 bits of the minimum, which is added.
        m: u16,
    },
    /// Q4_K, Q5_K: scale d·sc and minimum -(dmin·mn), which is added; each one f32 multiplication.
    SingleMin {
        /// d·sc.
        s: f32,
        /// -(dmin·mn).
        m: f32,
    },
    /// Q6_K: scale d·scale of either half, one f32 multiplication.
    Halves {
        /// Scale of elements 0..16 and of elements 16..32.
        s: [f32; 2],
    },
}

impl Scale {
    /// The scale of each half as f32.
    pub fn scales(self) -> [f32; 2] {
        match self {
            Scale::Half { d } | Scale::HalfMin { d, .. } => [f16::from_bits(d).to_f32(); 2],
            Scale::SingleMin { s, .. } => [s; 2],
            Scale::Halves { s } => s,
        }
    }

    /// What is added to scale times integer, where the format has it.
    pub fn minimum(self) -> Option<f32> {
        match self {
            Scale::HalfMin { m, .. } => Some(f16::from_bits(m).to_f32()),
            Scale::SingleMin { m, .. } => Some(m),
            Scale::Half { .. } | Scale::Halves { .. } => None,
        }
    }
}

/// 32 consecutive elements of a row: element e is `q[e]·scale[e/16] + minimum`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct IntBlock {
    /// The integers: Q4_0 -8..8, Q5_0 -16..16, Q6_K -32..32, Q8_0 any, those with a minimum from 0.
    pub q: [i8; 32],
    /// The scales.
    pub scale: Scale,
}

/// Elements 32·b .. 32·b+32 of a row of a quantised format.
///
/// # Panics
/// If the format is F16 or F32, or the row has no such elements.
pub fn int_block(format: Format, row: &[u8], b: usize) -> IntBlock {
    let per_block = format.block_elements() / 32;
    assert!(format.is_quantised(), "{format} weights are not integers");
    let block = &row[(b / per_block) * format.block_bytes()..][..format.block_bytes()];
    let g = b % per_block;
    let mut q = [0i8; 32];
    let scale = match format {
        Format::Q4_0 => {
            split_nibbles(&block[2..], &mut q);
            q.iter_mut().for_each(|q| *q -= 8);
            Scale::Half {
                d: u16_at(block, 0),
            }
        }
        Format::Q4_1 => {
            split_nibbles(&block[4..], &mut q);
            Scale::HalfMin {
                d: u16_at(block, 0),
                m: u16_at(block, 2),
            }
        }
        Format::Q5_0 => {
            split_nibbles(&block[6..], &mut q);
            let high = u32_at(block, 2);
            for (e, q) in q.iter_mut().enumerate() {
                *q += (((high >> e) & 1) << 4) as i8 - 16;
            }
            Scale::Half {
                d: u16_at(block, 0),
            }
        }
        Format::Q5_1 => {
            split_nibbles(&block[8..], &mut q);
            let high = u32_at(block, 4);
            for (e, q) in q.iter_mut().enumerate() {
                *q += (((high >> e) & 1) << 4) as i8;
            }
            Scale::HalfMin {
                d: u16_at(block, 0),
                m: u16_at(block, 2),
            }
        }
        Format::Q8_0 => {
            for (q, byte) in q.iter_mut().zip(&block[2..]) {
                *q = *byte as i8;
            }
            Scale::Half {
                d: u16_at(block, 0),
            }
        }
        Format::Q4_K | Format::Q5_K => {
            let qs_at = if format == Format::Q4_K { 16 } else { 48 };
            let qs = &block[qs_at + 32 * (g / 2)..][..32];
            let shift = 4 * (g % 2);
            for (q, byte) in q.iter_mut().zip(qs) {
                *q = ((byte >> shift) & 15) as i8;
            }
            if format == Format::Q5_K {
                for (q, high) in q.iter_mut().zip(&block[16..48]) {
                    *q += (((high >> g) & 1) << 4) as i8;
                }
            }
            let (sc, mn) = k_scale_min(&block[4..16], g);
            Scale::SingleMin {
                s: f16_at(block, 0).to_f32() * f32::from(sc),
                m: -(f16_at(block, 2).to_f32() * f32::from(mn)),
            }
        }
        Format::Q6_K => {
            let (part, c) = (g / 4, g % 4);
            let low = &block[64 * part + 32 * (c % 2)..][..32];
            let high = &block[128 + 32 * part..][..32];
            for (e, q) in q.iter_mut().enumerate() {
                let nibble = (low[e] >> (4 * (c / 2))) & 15;
                *q = (nibble | (((high[e] >> (2 * c)) & 3) << 4)) as i8 - 32;
            }
            let d = f16_at(block, 208).to_f32();
            let scale = |h: usize| d * f32::from(block[192 + 8 * part + 2 * c + h] as i8);
            Scale::Halves {
                s: [scale(0), scale(1)],
            }
        }
        Format::F16 | Format::F32 => unreachable!("refused above"),
    };
    IntBlock { q, scale }
}

/// Element e in the low nibble of byte e, element e+16 in the high one.
fn split_nibbles(qs: &[u8], q: &mut [i8; 32]) {
    for (e, byte) in qs[..16].iter().enumerate() {
        q[e] = (byte & 15) as i8;
        q[e + 16] = (byte >> 4) as i8;
    }
}
