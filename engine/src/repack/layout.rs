//! Sizes and offsets of the planes; nothing here touches data.
//!
//! All numbers are little-endian, every plane starts at a multiple of [`PLANE_ALIGN`] bytes from the buffer's start, and all
//! offsets are in bytes from there unless said otherwise.

use crate::quant::Format;

/// The version of everything in this file. It changes with any change of a byte's place or meaning.
pub const LAYOUT_VERSION: u32 = 1;
/// Every plane starts at a multiple of this many bytes.
pub const PLANE_ALIGN: u64 = 64;
/// Rows of W in a row tile, and tokens in a token tile.
pub const TILE: usize = 16;
/// Row groups (or token groups) of a tile: one per four lanes.
pub const ROW_GROUPS: usize = 4;
/// Rows (or tokens) of a group: the ones that a lane owns.
pub const ROWS_PER_GROUP: usize = 4;
/// Elements of K that share an activation scale, and a step of the kernels' loop over K.
pub const BLOCK: usize = 32;
/// Bytes of one row (or token) in one piece: what one 128-bit load brings to a lane.
pub const PIECE: usize = 16;
/// Floats of K to which F16 and F32 weights are padded with zeros: one F16 piece.
pub const FLOAT_PAD: usize = 8;

/// A shape that no layout can be made for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// A dimension is zero.
    #[error("{what} is 0: a product needs at least one row, one column and one element")]
    Empty {
        /// The dimension: `"M"`, `"N"` or `"K"`.
        what: &'static str,
    },
    /// K is no multiple of the format's block.
    #[error("K = {k} is no multiple of the {block} elements of a {format} block")]
    NotWholeBlocks {
        /// Elements of a row.
        k: usize,
        /// Elements of the block.
        block: usize,
        /// The weights' format.
        format: Format,
    },
    /// The sizes exceed what a buffer can hold.
    #[error("the shape {rows} x {k} is too large for any buffer")]
    TooLarge {
        /// N or M.
        rows: usize,
        /// Elements of a row.
        k: usize,
    },
}

/// How the data plane stores an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WeightKind {
    /// Two elements a byte: Q4_0 (signed, q-8 in two's complement), Q4_1 and Q4_K (unsigned).
    Nibbles,
    /// A signed byte an element: Q5_0 (q-16), Q8_0, Q6_K (q-32), Q5_1 and Q5_K (0..31).
    Bytes,
    /// F16 as it is.
    Half,
    /// F32 as it is.
    Single,
}

/// N, K and the format: what decides a weight layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Shape {
    /// Format of the weights.
    pub format: Format,
    /// Rows of W, columns of Y.
    pub n: usize,
    /// Elements of a row.
    pub k: usize,
}

/// Where everything of one repacked matrix lies: a data plane, then a scale plane (absent for F16 and F32).
///
/// A *step* is what the data plane holds of one tile at once: a block of 32 elements for quantised formats
/// ([`Self::steps`] = K/32), a chunk of 8 (F16) or 4 (F32) elements otherwise.
///
/// - [`WeightKind::Nibbles`]: `[t][b][i][g][16 bytes]`; byte p = element p (low nibble) and element p+16 (high nibble).
/// - [`WeightKind::Bytes`]: `[t][b][h][i][g][16 bytes]`.
/// - [`WeightKind::Half`], [`WeightKind::Single`]: `[t][chunk][i][g][16 bytes]`, K padded to a multiple of 8 with zeros.
/// - scales of Q4_0, Q5_0, Q8_0: `[t][b][g][i]` f16.
/// - scales of Q4_1, Q5_1: `[t][b][g]{d f16 ×4 (i), m f16 ×4 (i)}`.
/// - scales of Q4_K, Q5_K: `[t][b][g]{s f32 ×4 (i), m f32 ×4 (i)}`, s = d·sc, m = -(dmin·mn), each one f32 multiplication.
/// - scales of Q6_K: `[t][b][g]{s(h=0) f32 ×4 (i), s(h=1) f32 ×4 (i)}`, s = d·scale, one f32 multiplication.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct WeightLayout {
    shape: Shape,
    tiles: u64,
    steps: u64,
    scales_at: u64,
    total: u64,
}

impl WeightLayout {
    /// The layout of an N × K matrix.
    ///
    /// # Errors
    /// [`LayoutError`] where N or K is 0, K no multiple of the block, or the shape too large for any buffer.
    pub fn new(format: Format, n: usize, k: usize) -> Result<WeightLayout, LayoutError> {
        if n == 0 {
            return Err(LayoutError::Empty { what: "N" });
        }
        if k == 0 {
            return Err(LayoutError::Empty { what: "K" });
        }
        let block = format.block_elements();
        if k % block != 0 {
            return Err(LayoutError::NotWholeBlocks { k, block, format });
        }
        let too_large = || LayoutError::TooLarge { rows: n, k };
        let tiles = n.div_ceil(TILE) as u64;
        let steps = match WeightLayout::kind_of(format) {
            WeightKind::Nibbles | WeightKind::Bytes => (k / BLOCK) as u64,
            WeightKind::Half => k.div_ceil(FLOAT_PAD) as u64,
            WeightKind::Single => (k.div_ceil(FLOAT_PAD) as u64)
                .checked_mul(2)
                .ok_or_else(too_large)?,
        };
        let cells = tiles.checked_mul(steps).ok_or_else(too_large)?;
        let plane = |bytes: u64| cells.checked_mul(bytes).filter(|v| *v < 1 << 62);
        let data = plane(WeightLayout::step_bytes_of(format)).ok_or_else(too_large)?;
        let scales = plane(WeightLayout::scale_bytes_of(format)).ok_or_else(too_large)?;
        let scales_at = data.next_multiple_of(PLANE_ALIGN);
        let total = (scales_at + scales).next_multiple_of(PLANE_ALIGN);
        // Buffers are mapped and handled as slices of the host too.
        if usize::try_from(total).is_err() {
            return Err(too_large());
        }
        Ok(WeightLayout {
            shape: Shape { format, n, k },
            tiles,
            steps,
            scales_at,
            total,
        })
    }

    /// How the data plane of a format stores an element.
    pub const fn kind_of(format: Format) -> WeightKind {
        match format {
            Format::Q4_0 | Format::Q4_1 | Format::Q4_K => WeightKind::Nibbles,
            Format::Q5_0 | Format::Q5_1 | Format::Q8_0 | Format::Q5_K | Format::Q6_K => {
                WeightKind::Bytes
            }
            Format::F16 => WeightKind::Half,
            Format::F32 => WeightKind::Single,
        }
    }

    /// Bytes of the data plane for one tile and one step: 256, or 512 for [`WeightKind::Bytes`].
    pub const fn step_bytes_of(format: Format) -> u64 {
        match WeightLayout::kind_of(format) {
            WeightKind::Nibbles | WeightKind::Half | WeightKind::Single => (TILE * PIECE) as u64,
            WeightKind::Bytes => (2 * TILE * PIECE) as u64,
        }
    }

    /// Bytes of the scale plane for one tile and one block: 32, 64 or 128; 0 for F16 and F32.
    pub const fn scale_bytes_of(format: Format) -> u64 {
        match format {
            Format::Q4_0 | Format::Q5_0 | Format::Q8_0 => (TILE * 2) as u64,
            Format::Q4_1 | Format::Q5_1 => (TILE * 4) as u64,
            Format::Q4_K | Format::Q5_K | Format::Q6_K => (TILE * 8) as u64,
            Format::F16 | Format::F32 => 0,
        }
    }

    /// N, K and the format.
    pub const fn shape(&self) -> Shape {
        self.shape
    }

    /// Format of the weights.
    pub const fn format(&self) -> Format {
        self.shape.format
    }

    /// Rows of W, without padding.
    pub const fn n(&self) -> usize {
        self.shape.n
    }

    /// Elements of a row, without padding.
    pub const fn k(&self) -> usize {
        self.shape.k
    }

    /// How an element is stored.
    pub const fn kind(&self) -> WeightKind {
        WeightLayout::kind_of(self.shape.format)
    }

    /// Row tiles: N/16 rounded up.
    pub const fn tiles(&self) -> u64 {
        self.tiles
    }

    /// Steps of the data plane along K: blocks of 32 (quantised), chunks of 8 (F16) or 4 (F32).
    pub const fn steps(&self) -> u64 {
        self.steps
    }

    /// Blocks of 32 along K in the scale plane: K/32 for quantised formats, 0 otherwise.
    pub const fn blocks(&self) -> u64 {
        if self.shape.format.is_quantised() {
            self.steps
        } else {
            0
        }
    }

    /// Elements of K that one step holds.
    pub const fn step_elements(&self) -> usize {
        match self.kind() {
            WeightKind::Nibbles | WeightKind::Bytes => BLOCK,
            WeightKind::Half => PIECE / 2,
            WeightKind::Single => PIECE / 4,
        }
    }

    /// N padded to whole tiles.
    pub const fn n_padded(&self) -> usize {
        self.tiles as usize * TILE
    }

    /// Bytes from one step of a tile to the next in the data plane.
    pub const fn step_stride(&self) -> u64 {
        WeightLayout::step_bytes_of(self.shape.format)
    }

    /// Bytes from one tile to the next in the data plane.
    pub const fn tile_stride(&self) -> u64 {
        self.steps * self.step_stride()
    }

    /// Bytes from one block of a tile to the next in the scale plane.
    pub const fn scale_block_stride(&self) -> u64 {
        WeightLayout::scale_bytes_of(self.shape.format)
    }

    /// Bytes from one tile to the next in the scale plane.
    pub const fn scale_tile_stride(&self) -> u64 {
        self.blocks() * self.scale_block_stride()
    }

    /// Start of the data plane.
    pub const fn data_at(&self) -> u64 {
        0
    }

    /// Start of the scale plane (the buffer's end where there is none).
    pub const fn scales_at(&self) -> u64 {
        self.scales_at
    }

    /// Bytes of the whole buffer, a multiple of [`PLANE_ALIGN`].
    pub const fn total_bytes(&self) -> u64 {
        self.total
    }

    /// Offset of the 256 or 512 bytes of tile `t`, step `s`.
    pub const fn step_offset(&self, t: u64, s: u64) -> u64 {
        debug_assert!(t < self.tiles && s < self.steps);
        self.data_at() + t * self.tile_stride() + s * self.step_stride()
    }

    /// Offset of the 16 bytes of row `r` (0..16) of tile `t` in step `s`; `half` is 0 unless the kind is
    /// [`WeightKind::Bytes`].
    pub const fn piece_offset(&self, t: u64, s: u64, half: usize, r: usize) -> u64 {
        debug_assert!(half == 0 || (half == 1 && matches!(self.kind(), WeightKind::Bytes)));
        self.step_offset(t, s) + (half * TILE * PIECE) as u64 + piece_in_step(r) as u64
    }

    /// Offset of the scales of tile `t`, block `b`: 32, 64 or 128 bytes. Not for F16 and F32.
    pub const fn scale_offset(&self, t: u64, b: u64) -> u64 {
        debug_assert!(t < self.tiles && b < self.blocks());
        self.scales_at + t * self.scale_tile_stride() + b * self.scale_block_stride()
    }
}

/// Byte offset of row `r` (0..16) within a step's half: `[i][g][16 bytes]` with r = 4·g + i.
pub const fn piece_in_step(r: usize) -> usize {
    debug_assert!(r < TILE);
    let (g, i) = (r / ROWS_PER_GROUP, r % ROWS_PER_GROUP);
    (i * ROW_GROUPS + g) * PIECE
}

/// Where the activations of one product lie: X as uploaded in a buffer of its own, and the quantised planes in another.
///
/// X: row-major f32, [`Self::m_padded`] rows of [`Self::x_stride`] floats, padding zero.
///
/// Quantised, in this order: the int8 plane `[u][b][j][h][c][16 bytes]`, the scale plane `[u][b][c]{da f16 ×4 (j), sum i16 ×4 (j)}`
/// and the token factors, f32 × M padded. Token m = 16·u + 4·c + j.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ActivationLayout {
    m: usize,
    k: usize,
    tiles: u64,
    blocks: u64,
    scales_at: u64,
    factors_at: u64,
    total: u64,
}

impl ActivationLayout {
    /// Bytes of the int8 plane for one token tile and block.
    pub const BLOCK_BYTES: u64 = (2 * TILE * PIECE) as u64;
    /// Bytes of the scale plane for one token tile and block.
    pub const SCALE_BYTES: u64 = (TILE * 4) as u64;

    /// The layout of M tokens of K elements. K need not be a multiple of 32: X is padded with zeros.
    ///
    /// # Errors
    /// [`LayoutError`] where M or K is 0 or the shape too large for any buffer.
    pub fn new(m: usize, k: usize) -> Result<ActivationLayout, LayoutError> {
        if m == 0 {
            return Err(LayoutError::Empty { what: "M" });
        }
        if k == 0 {
            return Err(LayoutError::Empty { what: "K" });
        }
        let too_large = || LayoutError::TooLarge { rows: m, k };
        let tiles = m.div_ceil(TILE) as u64;
        let blocks = k.div_ceil(BLOCK) as u64;
        // X is the largest of all: 2048 bytes a cell.
        let cells = tiles
            .checked_mul(blocks)
            .filter(|c| *c < 1 << 50)
            .ok_or_else(too_large)?;
        let scales_at = (cells * Self::BLOCK_BYTES).next_multiple_of(PLANE_ALIGN);
        let factors_at = (scales_at + cells * Self::SCALE_BYTES).next_multiple_of(PLANE_ALIGN);
        let total = (factors_at + tiles * (TILE * 4) as u64).next_multiple_of(PLANE_ALIGN);
        if usize::try_from(cells * 2048).is_err() || usize::try_from(total).is_err() {
            return Err(too_large());
        }
        Ok(ActivationLayout {
            m,
            k,
            tiles,
            blocks,
            scales_at,
            factors_at,
            total,
        })
    }

    /// Tokens, without padding.
    pub const fn m(&self) -> usize {
        self.m
    }

    /// Elements of a token, without padding.
    pub const fn k(&self) -> usize {
        self.k
    }

    /// Token tiles: M/16 rounded up.
    pub const fn tiles(&self) -> u64 {
        self.tiles
    }

    /// Blocks of 32 along K, rounded up.
    pub const fn blocks(&self) -> u64 {
        self.blocks
    }

    /// M padded to whole tiles.
    pub const fn m_padded(&self) -> usize {
        self.tiles as usize * TILE
    }

    /// Floats from one row of X to the next: K padded to whole blocks.
    pub const fn x_stride(&self) -> usize {
        self.blocks as usize * BLOCK
    }

    /// Bytes of X as uploaded.
    pub const fn x_bytes(&self) -> u64 {
        self.tiles * self.blocks * (TILE * BLOCK * 4) as u64
    }

    /// Start of the int8 plane.
    pub const fn quants_at(&self) -> u64 {
        0
    }

    /// Start of the scale and sum plane.
    pub const fn scales_at(&self) -> u64 {
        self.scales_at
    }

    /// Start of the token factors.
    pub const fn factors_at(&self) -> u64 {
        self.factors_at
    }

    /// Bytes of the quantised buffer, a multiple of [`PLANE_ALIGN`].
    pub const fn total_bytes(&self) -> u64 {
        self.total
    }

    /// Offset of the 512 int8 bytes of token tile `u`, block `b`.
    pub const fn block_offset(&self, u: u64, b: u64) -> u64 {
        debug_assert!(u < self.tiles && b < self.blocks);
        self.quants_at() + (u * self.blocks + b) * Self::BLOCK_BYTES
    }

    /// Offset of the 16 int8 bytes of token `r` (0..16) of tile `u`, block `b`, half `h`.
    pub const fn piece_offset(&self, u: u64, b: u64, h: usize, r: usize) -> u64 {
        debug_assert!(h < 2 && r < TILE);
        let (c, j) = (r / ROWS_PER_GROUP, r % ROWS_PER_GROUP);
        self.block_offset(u, b) + (((j * 2 + h) * ROW_GROUPS + c) * PIECE) as u64
    }

    /// Offset of the f16 scale of token `r` (0..16) of tile `u`, block `b`. Its i16 sum lies 8 bytes further.
    pub const fn scale_offset(&self, u: u64, b: u64, r: usize) -> u64 {
        debug_assert!(u < self.tiles && b < self.blocks && r < TILE);
        let (c, j) = (r / ROWS_PER_GROUP, r % ROWS_PER_GROUP);
        self.scales_at + (u * self.blocks + b) * Self::SCALE_BYTES + (c * 16 + j * 2) as u64
    }

    /// Offset of the i16 sum of token `r` (0..16) of tile `u`, block `b`.
    pub const fn sum_offset(&self, u: u64, b: u64, r: usize) -> u64 {
        self.scale_offset(u, b, r) + 8
    }

    /// Offset of the f32 factor of token `m`.
    pub const fn factor_offset(&self, m: usize) -> u64 {
        debug_assert!(m < self.m_padded());
        self.factors_at + (m * 4) as u64
    }
}

/// Where Y lies: f32 row-major, M padded to 16 rows, N padded to 16 columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct OutputLayout {
    /// Tokens, without padding.
    pub m: usize,
    /// Outputs of a token, without padding.
    pub n: usize,
}

impl OutputLayout {
    /// The layout of Y\[M, N\].
    ///
    /// # Errors
    /// [`LayoutError`] where M or N is 0 or the shape too large for any buffer.
    pub fn new(m: usize, n: usize) -> Result<OutputLayout, LayoutError> {
        if m == 0 {
            return Err(LayoutError::Empty { what: "M" });
        }
        if n == 0 {
            return Err(LayoutError::Empty { what: "N" });
        }
        let cells = m
            .checked_next_multiple_of(TILE)
            .zip(n.checked_next_multiple_of(TILE))
            .and_then(|(m, n)| m.checked_mul(n))
            .filter(|v| v.checked_mul(4).is_some());
        match cells {
            Some(_) => Ok(OutputLayout { m, n }),
            None => Err(LayoutError::TooLarge { rows: m, k: n }),
        }
    }

    /// Floats from one row of Y to the next.
    pub const fn stride(&self) -> usize {
        self.n.next_multiple_of(TILE)
    }

    /// Rows of Y with padding.
    pub const fn m_padded(&self) -> usize {
        self.m.next_multiple_of(TILE)
    }

    /// Bytes of Y.
    pub const fn total_bytes(&self) -> u64 {
        self.m_padded() as u64 * self.stride() as u64 * 4
    }

    /// Offset of Y\[m\]\[n\].
    pub const fn offset(&self, m: usize, n: usize) -> u64 {
        (m as u64 * self.stride() as u64 + n as u64) * 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn sizes_are_those_of_the_agreement() {
        let l = WeightLayout::new(Format::Q4_0, 577, 4096).unwrap();
        assert_eq!((l.tiles(), l.steps(), l.blocks()), (37, 128, 128));
        assert_eq!((l.step_stride(), l.scale_block_stride()), (256, 32));
        assert_eq!(l.total_bytes(), 37 * 128 * (256 + 32));
        let sizes = |f| {
            (
                WeightLayout::step_bytes_of(f),
                WeightLayout::scale_bytes_of(f),
            )
        };
        assert_eq!(sizes(Format::Q4_1), (256, 64));
        assert_eq!(sizes(Format::Q5_0), (512, 32));
        assert_eq!(sizes(Format::Q5_1), (512, 64));
        assert_eq!(sizes(Format::Q8_0), (512, 32));
        assert_eq!(sizes(Format::Q4_K), (256, 128));
        assert_eq!(sizes(Format::Q5_K), (512, 128));
        assert_eq!(sizes(Format::Q6_K), (512, 128));
        assert_eq!(sizes(Format::F16), (256, 0));
        assert_eq!(sizes(Format::F32), (256, 0));
        let l = WeightLayout::new(Format::F16, 1, 9).unwrap();
        assert_eq!((l.steps(), l.total_bytes()), (2, 512));
        let l = WeightLayout::new(Format::F32, 1, 9).unwrap();
        assert_eq!((l.steps(), l.total_bytes()), (4, 1024));
    }

    #[test]
    fn every_piece_and_scale_has_its_own_bytes() {
        for format in Format::ALL {
            let l = WeightLayout::new(format, 33, 256).unwrap();
            let mut seen = HashSet::new();
            let halves = if l.kind() == WeightKind::Bytes { 2 } else { 1 };
            for t in 0..l.tiles() {
                for s in 0..l.steps() {
                    for h in 0..halves {
                        for r in 0..TILE {
                            let at = l.piece_offset(t, s, h, r);
                            assert_eq!(at % PIECE as u64, 0);
                            assert!(at + PIECE as u64 <= l.scales_at());
                            assert!(seen.insert(at));
                        }
                    }
                }
                for b in 0..l.blocks() {
                    let at = l.scale_offset(t, b);
                    assert!(at >= l.scales_at());
                    assert!(at + l.scale_block_stride() <= l.total_bytes());
                    assert!(seen.insert(at));
                }
            }
            assert_eq!(l.total_bytes() % PLANE_ALIGN, 0);
            assert_eq!(l.scales_at() % PLANE_ALIGN, 0);
        }
    }

    #[test]
    fn activation_planes_do_not_meet() {
        let l = ActivationLayout::new(17, 96).unwrap();
        let mut seen = HashSet::new();
        for u in 0..l.tiles() {
            for b in 0..l.blocks() {
                for r in 0..TILE {
                    for h in 0..2 {
                        let at = l.piece_offset(u, b, h, r);
                        (at..at + 16).for_each(|a| assert!(seen.insert(a) && a < l.scales_at()));
                    }
                    for at in [l.scale_offset(u, b, r), l.sum_offset(u, b, r)] {
                        (at..at + 2).for_each(|a| assert!(seen.insert(a) && a < l.factors_at()));
                    }
                }
            }
        }
        for m in 0..l.m_padded() {
            let at = l.factor_offset(m);
            (at..at + 4).for_each(|a| assert!(seen.insert(a) && a < l.total_bytes()));
        }
        assert_eq!(seen.len() as u64, l.total_bytes());
        assert_eq!((l.x_stride(), l.x_bytes()), (96, 32 * 96 * 4));
    }

    #[test]
    fn shapes_without_a_layout_are_refused() {
        assert!(matches!(
            WeightLayout::new(Format::Q4_K, 16, 128),
            Err(LayoutError::NotWholeBlocks { block: 256, .. })
        ));
        assert!(WeightLayout::new(Format::Q4_0, 0, 32).is_err());
        assert!(WeightLayout::new(Format::F32, usize::MAX, usize::MAX).is_err());
        assert!(WeightLayout::new(Format::Q8_0, usize::MAX, 32).is_err());
        assert!(ActivationLayout::new(usize::MAX, 1 << 40).is_err());
        assert!(ActivationLayout::new(0, 32).is_err());
        assert!(OutputLayout::new(usize::MAX, 1).is_err());
        assert!(OutputLayout::new(1 << 40, 1 << 40).is_err());
        assert_eq!(OutputLayout::new(1, 17).unwrap().total_bytes(), 16 * 32 * 4);
    }
}
