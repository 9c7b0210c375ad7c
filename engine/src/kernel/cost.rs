//! What a kernel costs on a shader core.
//!
//! The model is *max*: the units of a core overlap perfectly and the busiest decides. No latency, no cache misses; a
//! planner needs no more, since the measured rate corrects it. Costs are in quarters of a clock, so that they are whole.

use super::{Kernel, Mix};

/// Warp instructions per clock and core on the fused multiply-add units: 64 lanes of 16. (Mesa, pan_model.c, G610:
/// fma 64.)
const FMA_PER_CYCLE: u64 = 4;
/// The same on the conversion units. (Mesa, pan_model.c, G610: cvt 64.)
const CVT_PER_CYCLE: u64 = 4;
/// The same on the special function units. (Mesa, pan_model.c, G610: sfu 16.)
const SFU_PER_CYCLE: u64 = 1;
/// 64-byte lines per clock of a core's load-store unit. (Arm, Valhall guide: an access takes one cycle if all lanes hit
/// one line.)
const LINES_PER_CYCLE: u64 = 1;

/// Lines that a load or store outside the loop touches: a store of a tile has a line for each of four tokens.
const LINES_OUTSIDE: u64 = 4;

/// The unit of [`Kernel::quarter_cycles`].
pub const QUARTERS: u64 = 4;

/// What the author of a kernel says of it; a test holds the kernel to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stated {
    /// Results of one workgroup: rows × tokens of a product, elements × tokens of the quantiser, 1 × tokens otherwise.
    pub tile: [u32; 2],
    /// Registers.
    pub registers: u32,
    /// Instructions of the loop body (one block or chunk), or of the whole kernel where it has no loop.
    pub body: Mix,
    /// 64-byte lines that the loads and stores of `body` touch, each counting its own.
    pub lines: u32,
    /// Multiply-accumulates of the body, of a whole warp; 0 for kernels that are no product.
    pub macs: u32,
}

impl Stated {
    /// Elements of K that one pass of a product's loop takes; 0 for other kernels.
    #[must_use]
    pub const fn step(&self) -> u32 {
        self.macs / (self.tile[0] * self.tile[1])
    }
}

impl Kernel {
    /// Quarters of a shader-core clock that one workgroup takes where others keep the core busy.
    #[must_use]
    pub fn quarter_cycles(&self, iterations: u32) -> u64 {
        if !self.has_loop() {
            return self.body_quarter_cycles();
        }
        let whole = Mix::of(&self.code);
        let count = |whole: u32, body: u32| {
            u64::from(whole - body) + u64::from(body) * u64::from(iterations)
        };
        let lines = u64::from(whole.ls - self.body.ls) * LINES_OUTSIDE
            + u64::from(self.stated.lines) * u64::from(iterations);
        busiest(
            count(whole.fma, self.body.fma),
            count(whole.cvt, self.body.cvt),
            count(whole.sfu, self.body.sfu),
            lines,
        )
    }

    /// Quarters of a shader-core clock that one pass of the loop takes; the whole kernel where it has none.
    #[must_use]
    pub fn body_quarter_cycles(&self) -> u64 {
        let Mix { fma, cvt, sfu, .. } = self.body;
        busiest(fma.into(), cvt.into(), sfu.into(), self.stated.lines.into())
    }
}

/// Quarters of a clock that the busiest unit takes.
fn busiest(fma: u64, cvt: u64, sfu: u64, lines: u64) -> u64 {
    let quarters = |count: u64, per_cycle: u64| (count * QUARTERS).div_ceil(per_cycle);
    quarters(fma, FMA_PER_CYCLE)
        .max(quarters(cvt, CVT_PER_CYCLE))
        .max(quarters(sfu, SFU_PER_CYCLE))
        .max(quarters(lines, LINES_PER_CYCLE))
}
