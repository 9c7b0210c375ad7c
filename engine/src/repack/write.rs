//! From ggml blocks to the layout, piece by piece.
//!
//! Pieces go to a *sink*, a function that is given an offset in the destination and the bytes to put there. The destination may
//! be a write-combined mapping: pieces of a plane come in rising order, none is read back, no second copy of the tensor exists.

use std::ops::Range;

use super::layout::{FLOAT_PAD, PIECE, TILE, WeightKind, WeightLayout, piece_in_step};
use crate::quant::{Format, IntBlock, Matrix, Scale, int_block};

/// The largest piece that a sink is given, in bytes.
pub const MAX_PIECE: usize = 2 * TILE * PIECE;

/// The matrix is not the one that the layout was made for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RepackError {
    /// Format or dimensions differ.
    #[error(
        "a {found_format} matrix {found_n} x {found_k} does not go into a layout for {format} {n} x {k}"
    )]
    OtherShape {
        /// The layout's format.
        format: Format,
        /// The layout's N.
        n: usize,
        /// The layout's K.
        k: usize,
        /// The matrix's format.
        found_format: Format,
        /// The matrix's N.
        found_n: usize,
        /// The matrix's K.
        found_k: usize,
    },
    /// The tile range does not lie within the layout.
    #[error("row tiles {from}..{to} of a layout with {tiles}")]
    NoSuchTiles {
        /// First tile asked for.
        from: u64,
        /// End of the range asked for.
        to: u64,
        /// Tiles that there are.
        tiles: u64,
    },
}

/// Writes the whole matrix: every byte of the layout's [`WeightLayout::total_bytes`] exactly once, padding as zeros.
///
/// # Errors
/// As [`repack_tiles`].
pub fn repack(
    w: &Matrix<'_>,
    layout: &WeightLayout,
    sink: &mut impl FnMut(u64, &[u8]),
) -> Result<(), RepackError> {
    repack_tiles(w, layout, 0..layout.tiles(), sink)
}

/// Writes the row tiles of a range, so that threads can share the work: ranges that together cover all tiles once write every
/// byte once.
///
/// # Errors
/// [`RepackError`] where the layout is another matrix's or the range goes beyond its tiles.
pub fn repack_tiles(
    w: &Matrix<'_>,
    layout: &WeightLayout,
    tiles: Range<u64>,
    sink: &mut impl FnMut(u64, &[u8]),
) -> Result<(), RepackError> {
    if (w.format(), w.n(), w.k()) != (layout.format(), layout.n(), layout.k()) {
        return Err(RepackError::OtherShape {
            format: layout.format(),
            n: layout.n(),
            k: layout.k(),
            found_format: w.format(),
            found_n: w.n(),
            found_k: w.k(),
        });
    }
    if tiles.start > tiles.end || tiles.end > layout.tiles() {
        return Err(RepackError::NoSuchTiles {
            from: tiles.start,
            to: tiles.end,
            tiles: layout.tiles(),
        });
    }
    for t in tiles.clone() {
        let rows = tile_rows(w, t);
        match layout.kind() {
            WeightKind::Nibbles | WeightKind::Bytes => integer_tile(w, layout, t, &rows, sink),
            WeightKind::Half => float_tile::<2>(w, layout, t, &rows, sink),
            WeightKind::Single => float_tile::<4>(w, layout, t, &rows, sink),
        }
    }
    // The end of the buffer is aligned beyond the last scale.
    let used = layout.scales_at() + layout.tiles() * layout.scale_tile_stride();
    let rest = layout.total_bytes() - used;
    if tiles.end == layout.tiles() && !tiles.is_empty() && rest > 0 {
        sink(used, &[0; 64][..rest as usize]);
    }
    Ok(())
}

/// The rows of tile `t`, `None` for padding.
fn tile_rows<'a>(w: &Matrix<'a>, t: u64) -> [Option<&'a [u8]>; TILE] {
    std::array::from_fn(|r| {
        let n = t as usize * TILE + r;
        (n < w.n()).then(|| w.row(n))
    })
}

fn integer_tile(
    w: &Matrix<'_>,
    layout: &WeightLayout,
    t: u64,
    rows: &[Option<&[u8]>; TILE],
    sink: &mut impl FnMut(u64, &[u8]),
) {
    let format = w.format();
    let data_bytes = layout.step_stride() as usize;
    let scale_bytes = layout.scale_block_stride() as usize;
    // Two passes, so that each plane is written in rising order.
    for b in 0..layout.blocks() {
        let mut data = [0u8; MAX_PIECE];
        for (r, row) in rows.iter().enumerate() {
            let Some(row) = row else { continue };
            let block = int_block(format, row, b as usize);
            match layout.kind() {
                WeightKind::Nibbles => pack_nibbles(format, &block, &mut data[piece_in_step(r)..]),
                _ => {
                    for (h, half) in block.q.chunks_exact(PIECE).enumerate() {
                        let at = h * TILE * PIECE + piece_in_step(r);
                        for (to, q) in data[at..at + PIECE].iter_mut().zip(half) {
                            *to = *q as u8;
                        }
                    }
                }
            }
        }
        sink(layout.step_offset(t, b), &data[..data_bytes]);
    }
    for b in 0..layout.blocks() {
        let mut scales = [0u8; 8 * TILE];
        for (r, row) in rows.iter().enumerate() {
            let Some(row) = row else { continue };
            put_scale(
                int_block(format, row, b as usize).scale,
                r,
                &mut scales[..scale_bytes],
            );
        }
        sink(layout.scale_offset(t, b), &scales[..scale_bytes]);
    }
}

/// Byte p: element p in the low nibble, element p+16 in the high one. Q4_0's q-8 is kept in two's complement.
fn pack_nibbles(format: Format, block: &IntBlock, to: &mut [u8]) {
    let (low, high) = block.q.split_at(PIECE);
    debug_assert!(match format {
        Format::Q4_0 => block.q.iter().all(|q| (-8..8).contains(q)),
        _ => block.q.iter().all(|q| (0..16).contains(q)),
    });
    for (to, (l, h)) in to.iter_mut().zip(low.iter().zip(high)) {
        *to = (*l as u8 & 15) | ((*h as u8) << 4);
    }
}

/// Puts the scale of row `r` into the scales of a tile's block.
fn put_scale(scale: Scale, r: usize, to: &mut [u8]) {
    let (g, i) = (r / 4, r % 4);
    // [g]{first ×4 (i), second ×4 (i)} of `size` bytes each.
    let pair = |second: usize, size: usize| (g * 8 + second * 4 + i) * size;
    match scale {
        Scale::Half { d } => to[r * 2..][..2].copy_from_slice(&d.to_le_bytes()),
        Scale::HalfMin { d, m } => {
            to[pair(0, 2)..][..2].copy_from_slice(&d.to_le_bytes());
            to[pair(1, 2)..][..2].copy_from_slice(&m.to_le_bytes());
        }
        Scale::SingleMin { s, m } | Scale::Halves { s: [s, m] } => {
            to[pair(0, 4)..][..4].copy_from_slice(&s.to_le_bytes());
            to[pair(1, 4)..][..4].copy_from_slice(&m.to_le_bytes());
        }
    }
}

/// F16 (`SIZE` 2) and F32 (`SIZE` 4): the file's own little-endian elements, 16 bytes a row and chunk.
fn float_tile<const SIZE: usize>(
    w: &Matrix<'_>,
    layout: &WeightLayout,
    t: u64,
    rows: &[Option<&[u8]>; TILE],
    sink: &mut impl FnMut(u64, &[u8]),
) {
    debug_assert_eq!(
        layout.steps() as usize,
        w.k().div_ceil(FLOAT_PAD) * FLOAT_PAD * SIZE / PIECE
    );
    for s in 0..layout.steps() {
        let mut data = [0u8; TILE * PIECE];
        for (r, row) in rows.iter().enumerate() {
            let Some(row) = row else { continue };
            let from = (s as usize * PIECE).min(row.len());
            let to = (from + PIECE).min(row.len());
            data[piece_in_step(r)..][..to - from].copy_from_slice(&row[from..to]);
        }
        sink(layout.step_offset(t, s), &data);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quant::{OwnedMatrix, Spread, random_blocks, synthetic_matrix};
    use half::f16;
    use proptest::prelude::*;

    /// Repacks into memory and checks that every byte is written exactly once.
    fn packed(w: &Matrix<'_>) -> (WeightLayout, Vec<u8>) {
        let layout = WeightLayout::new(w.format(), w.n(), w.k()).unwrap();
        let mut bytes = vec![0xaa; layout.total_bytes() as usize];
        let mut written = vec![0u8; bytes.len()];
        repack(w, &layout, &mut |at, piece| {
            assert!(piece.len() <= MAX_PIECE);
            let at = at as usize;
            bytes[at..at + piece.len()].copy_from_slice(piece);
            written[at..at + piece.len()]
                .iter_mut()
                .for_each(|c| *c += 1);
        })
        .unwrap();
        assert!(written.iter().all(|c| *c == 1), "every byte once");
        (layout, bytes)
    }

    /// Reads element (n, k) back as the kernels would, by the layout's documentation and without its offset functions.
    fn element(format: Format, kp: usize, tiles: usize, bytes: &[u8], n: usize, k: usize) -> f32 {
        let (t, g, i) = (n / 16, n % 16 / 4, n % 4);
        let f16_at = |at: usize| f16::from_le_bytes([bytes[at], bytes[at + 1]]).to_f32();
        let f32_at = |at: usize| f32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        let (kb, b, e) = (kp / 32, k / 32, k % 32);
        let cell = t * kb + b;
        let nibble = |signed: bool| {
            let byte = bytes[cell * 256 + i * 64 + g * 16 + e % 16];
            let q = if e < 16 { byte & 15 } else { byte >> 4 };
            if signed {
                f32::from(((q << 4) as i8) >> 4)
            } else {
                f32::from(q)
            }
        };
        let byte = || f32::from(bytes[cell * 512 + e / 16 * 256 + i * 64 + g * 16 + e % 16] as i8);
        let nibbles_end = tiles * kb * 256;
        let bytes_end = tiles * kb * 512;
        let half = |base: usize| f16_at(base + cell * 32 + g * 8 + i * 2);
        let half_min = |base: usize, q: f32| {
            let at = base + cell * 64 + g * 16 + i * 2;
            q * f16_at(at) + f16_at(at + 8)
        };
        let single_min = |base: usize, q: f32| {
            let at = base + cell * 128 + g * 32 + i * 4;
            q * f32_at(at) + f32_at(at + 16)
        };
        match format {
            Format::Q4_0 => nibble(true) * half(nibbles_end),
            Format::Q4_1 => half_min(nibbles_end, nibble(false)),
            Format::Q5_0 | Format::Q8_0 => byte() * half(bytes_end),
            Format::Q5_1 => half_min(bytes_end, byte()),
            Format::Q4_K => single_min(nibbles_end, nibble(false)),
            Format::Q5_K => single_min(bytes_end, byte()),
            Format::Q6_K => byte() * f32_at(bytes_end + cell * 128 + g * 32 + e / 16 * 16 + i * 4),
            Format::F16 => f16_at((t * kp.div_ceil(8) + k / 8) * 256 + i * 64 + g * 16 + k % 8 * 2),
            Format::F32 => {
                f32_at((t * kp.div_ceil(8) * 2 + k / 4) * 256 + i * 64 + g * 16 + k % 4 * 4)
            }
        }
    }

    fn round_trip(owned: &OwnedMatrix) {
        let w = owned.as_matrix();
        let (layout, bytes) = packed(&w);
        let tiles = layout.tiles() as usize;
        let mut wanted = w.dequantise();
        wanted.resize(layout.n_padded() * w.k(), 0.0);
        for n in 0..layout.n_padded() {
            for k in 0..w.k() {
                let got = element(w.format(), w.k(), tiles, &bytes, n, k);
                let want = wanted[n * w.k() + k];
                assert_eq!(got, want, "{} n {n} k {k}", w.format());
            }
        }
    }

    #[test]
    fn unpacking_gives_the_decoded_weights() {
        for format in Format::ALL {
            let block = format.block_elements();
            for (n, blocks) in [(1, 1), (15, 3), (16, 2), (17, 1), (33, 5)] {
                round_trip(&random_blocks(format, n, block * blocks, 5).unwrap());
                let k = block * blocks;
                round_trip(&synthetic_matrix(format, n, k, 6, Spread::Extreme).unwrap());
            }
        }
    }

    #[test]
    fn odd_k_of_floats_is_padded_with_zeros() {
        for format in [Format::F16, Format::F32] {
            for k in [1, 7, 8, 9, 37] {
                round_trip(&random_blocks(format, 3, k, 1).unwrap());
            }
        }
        let owned = random_blocks(Format::F32, 1, 5, 1).unwrap();
        let (_, bytes) = packed(&owned.as_matrix());
        assert_eq!(bytes.len(), 512);
        // Row 0 is the first piece of each chunk; elements 5, 6 and 7 are padding.
        assert_ne!(bytes[256..260], [0; 4]);
        assert_eq!(bytes[260..], [0; 252]);
    }

    #[test]
    fn ranges_of_tiles_write_the_same_bytes() {
        let owned = random_blocks(Format::Q4_0, 49, 96, 8).unwrap();
        let w = owned.as_matrix();
        let (layout, whole) = packed(&w);
        let mut parts = vec![0xaa; whole.len()];
        for range in [0..1, 1..3, 3..4] {
            repack_tiles(&w, &layout, range, &mut |at, piece| {
                parts[at as usize..at as usize + piece.len()].copy_from_slice(piece);
            })
            .unwrap();
        }
        assert_eq!(parts, whole);
        assert!(matches!(
            repack_tiles(&w, &layout, 3..5, &mut |_, _| {}),
            Err(RepackError::NoSuchTiles { tiles: 4, .. })
        ));
    }

    #[test]
    fn another_matrix_is_refused() {
        let owned = random_blocks(Format::Q8_0, 16, 64, 8).unwrap();
        let layout = WeightLayout::new(Format::Q8_0, 16, 32).unwrap();
        let result = repack(&owned.as_matrix(), &layout, &mut |_, _| {
            panic!("nothing may be written")
        });
        assert!(matches!(result, Err(RepackError::OtherShape { .. })));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn any_bits_round_trip(f in 0usize..10, n in 1usize..40, blocks in 1usize..4, seed: u64) {
            let format = Format::ALL[f];
            let k = format.block_elements() * blocks;
            round_trip(&random_blocks(format, n, k, seed).unwrap());
        }
    }
}
