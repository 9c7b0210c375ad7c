//! The weight layout that the kernels read.
//!
//! Words used here: a *row tile* `t` is 16 consecutive rows (output columns n) of W; within it row `n = 16·t + 4·g + i` belongs to
//! *row group* `g` (0..4, the lane's group) and has index `i` (0..4) in it. K runs in *blocks* `b` of 32 elements, of which a
//! *half* `h` is elements 16h..16h+15. N is padded to whole tiles with zero rows (zero scales included).

mod layout;
mod write;

pub use layout::{
    ActivationLayout, LAYOUT_VERSION, LayoutError, OutputLayout, PLANE_ALIGN, Shape, WeightKind,
    WeightLayout,
};
pub use layout::{BLOCK, FLOAT_PAD, PIECE, ROW_GROUPS, ROWS_PER_GROUP, TILE};
pub use write::{MAX_PIECE, RepackError, repack, repack_tiles};
