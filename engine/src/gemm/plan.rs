//! How a product is cut into jobs. Pure arithmetic.
//!
//! The driver kills a queue after 5 s without a completion (`JOB_TIMEOUT_MS`, panthor_sched.c), and while a job runs
//! other clients wait: a job takes at most [`JOB_SECONDS`] at the measured rate, the first at most [`FIRST_MACS`].

use std::time::Duration;

use crate::kernel::{Kernel, QUARTERS, TILE};

/// How long a job may take at the measured rate.
pub const JOB_SECONDS: f64 = 0.25;

/// Multiply-accumulates of the job that sets the rate.
pub const FIRST_MACS: u64 = 200_000_000;

/// Shader-core cycles that one task may take at most: 10 ms at 100 MHz, a tenth of what a suspend may take
/// (panthor_sched.c waits 100 ms for a group's suspend).
pub const TASK_CYCLES: u64 = 1_000_000;

/// Cycles that an instruction of a warp takes at worst on average, when nothing hides its latency. An assumption.
const CYCLES_PER_INSTRUCTION: u64 = 4;

/// Workgroups in x or y of one dispatch at most: tile numbers are 16-bit, and kernels may extend their sign.
pub const MAX_TILES: u64 = 32_767;

/// Multiply-accumulates as the unit of work: what the kernel that does most of them in a clock does in the time that
/// another takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkUnit {
    macs: u64,
    quarters: u64,
}

impl WorkUnit {
    /// The unit that these kernels agree on.
    #[must_use]
    pub fn of<'a>(kernels: impl IntoIterator<Item = &'a Kernel>) -> Self {
        let mut unit = Self {
            macs: 1,
            quarters: 1,
        };
        let mut found = false;
        for kernel in kernels {
            let pass = kernel.body_quarter_cycles();
            let macs = u64::from(kernel.stated.macs);
            if macs > 0 && pass > 0 && (!found || macs * unit.quarters > unit.macs * pass) {
                (unit.macs, unit.quarters, found) = (macs, pass, true);
            }
        }
        unit
    }

    /// Work of one workgroup of `kernel`.
    #[must_use]
    pub fn work(&self, kernel: &Kernel, iterations: u32) -> u64 {
        kernel.quarter_cycles(iterations) * self.macs / self.quarters
    }
}

/// Shader-core clocks that a dispatch of `count` workgroups takes on `cores` cores, which take tasks of `increment`
/// workgroups along x in turn: the busiest core's.
#[must_use]
pub fn predicted_cycles(
    kernel: &Kernel,
    iterations: u32,
    count: [u32; 2],
    increment: u16,
    cores: u32,
) -> u64 {
    let [x, y] = count.map(u64::from);
    let increment = u64::from(increment.max(1));
    let tasks = x.div_ceil(increment) * y;
    let busiest = (tasks.div_ceil(cores.max(1).into()) * increment).min(x * y);
    (busiest * kernel.quarter_cycles(iterations)).div_ceil(QUARTERS)
}

/// Passes of a kernel's loop that one workgroup can take within [`TASK_CYCLES`]; never more than it can count.
#[must_use]
pub fn max_iterations(kernel: &Kernel) -> u32 {
    let once = kernel.instructions(1);
    let pass = (kernel.instructions(2) - once).max(1);
    let most = TASK_CYCLES / CYCLES_PER_INSTRUCTION;
    let passes = 1 + most.saturating_sub(once) / pass;
    passes.min(MAX_COUNT) as u32
}

/// What a kernel's loop counter holds at most: 16 bits.
const MAX_COUNT: u64 = 65_535;

/// Which kernel a dispatch runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Tokens' factors: x counts tokens.
    RowFactor,
    /// Quantisation: x counts blocks, y token tiles.
    Quantise,
    /// The product: x counts row tiles, y token tiles.
    Product,
}

/// A dispatch: a rectangle of workgroups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The kernel.
    pub step: Step,
    /// First workgroup in x and y.
    pub base: [u32; 2],
    /// Workgroups in x and y.
    pub count: [u32; 2],
    /// Work in multiply-accumulates, or what takes as long.
    pub work: u64,
}

/// What one workgroup of each step costs, in multiply-accumulates or what takes as long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Costs {
    /// Of a token's factor.
    pub row_factor: u64,
    /// Of a quantised block of a token tile.
    pub quantise: u64,
    /// Of a product tile.
    pub product: u64,
}

/// The rate that the jobs so far have shown.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rate {
    macs_per_second: Option<f64>,
}

impl Rate {
    /// Takes in a finished job. Slower jobs count at once, faster ones by half.
    pub fn update(&mut self, work: u64, took: Duration) {
        let seconds = took.as_secs_f64();
        if seconds <= 0.0 || work == 0 {
            return;
        }
        let measured = work as f64 / seconds;
        self.macs_per_second = Some(match self.macs_per_second {
            Some(known) if measured > known => (known + measured) / 2.0,
            _ => measured,
        });
    }

    /// Multiply-accumulates per second, once a job has finished.
    #[must_use]
    pub const fn macs_per_second(&self) -> Option<f64> {
        self.macs_per_second
    }

    /// The most work that the next job may have.
    #[must_use]
    pub fn budget(&self) -> u64 {
        match self.macs_per_second {
            None => FIRST_MACS,
            // Casts saturate.
            Some(rate) => ((rate * JOB_SECONDS) as u64).max(1),
        }
    }
}

/// What remains of a product, cut as jobs are asked for.
#[derive(Clone, Debug)]
pub struct Plan {
    quantise: Option<Quantise>,
    product: Rectangle,
    costs: Costs,
}

#[derive(Clone, Debug)]
struct Quantise {
    blocks: u32,
    tiles: u32,
    next: u32,
}

/// The row tiles and token tiles of a product, walked column by column.
#[derive(Clone, Debug)]
struct Rectangle {
    size: [u32; 2],
    next: [u32; 2],
}

impl Rectangle {
    const fn is_done(&self) -> bool {
        self.next[0] >= self.size[0]
    }

    /// The next rectangle of at most `tiles` tiles (at least one): whole columns, or part of one.
    fn take(&mut self, tiles: u64) -> ([u32; 2], [u32; 2]) {
        let [x, y] = self.next;
        let height = u64::from(self.size[1]);
        let tiles = tiles.clamp(1, u64::from(u32::MAX));
        let count = if y == 0 && tiles >= height {
            let columns = (tiles / height).min(u64::from(self.size[0] - x));
            [columns as u32, self.size[1]]
        } else {
            [1, tiles.min(height - u64::from(y)) as u32]
        };
        self.next = if y + count[1] == self.size[1] {
            [x + count[0], 0]
        } else {
            [x, y + count[1]]
        };
        ([x, y], count)
    }
}

impl Plan {
    /// A product of `row_tiles` × `token_tiles` tiles; its activations are quantised first if `blocks` are given.
    #[must_use]
    pub const fn new(row_tiles: u32, token_tiles: u32, blocks: Option<u32>, costs: Costs) -> Self {
        let quantise = match blocks {
            Some(blocks) => Some(Quantise {
                blocks,
                tiles: token_tiles,
                next: 0,
            }),
            None => None,
        };
        Self {
            quantise,
            product: Rectangle {
                size: [row_tiles, token_tiles],
                next: [0, 0],
            },
            costs,
        }
    }

    /// The next job's dispatches in order, of at most `budget` work together, but at least one workgroup; empty when
    /// nothing remains.
    ///
    /// A job holds quantisation and product together only where it quantises everything: so no job reads what it
    /// writes beyond what itself wrote before, and each can be run again.
    pub fn next_job(&mut self, budget: u64) -> Vec<Piece> {
        let mut pieces = Vec::new();
        let mut left = budget;
        if let Some(q) = &mut self.quantise {
            let tile_work =
                u64::from(q.blocks) * self.costs.quantise + u64::from(TILE) * self.costs.row_factor;
            let first = q.next;
            let tiles = (budget / tile_work.max(1)).clamp(1, u64::from(q.tiles - first)) as u32;
            q.next += tiles;
            pieces.push(Piece {
                step: Step::RowFactor,
                base: [first * TILE, 0],
                count: [tiles * TILE, 1],
                work: u64::from(tiles * TILE) * self.costs.row_factor,
            });
            pieces.push(Piece {
                step: Step::Quantise,
                base: [0, first],
                count: [q.blocks, tiles],
                work: u64::from(q.blocks) * u64::from(tiles) * self.costs.quantise,
            });
            let (done, whole) = (q.next == q.tiles, first == 0);
            if done {
                self.quantise = None;
            }
            left = left.saturating_sub(u64::from(tiles) * tile_work);
            if !(done && whole && left >= self.costs.product) {
                return pieces;
            }
        }
        if !self.product.is_done() {
            let (base, count) = self.product.take(left / self.costs.product.max(1));
            let work = u64::from(count[0]) * u64::from(count[1]) * self.costs.product;
            pieces.push(Piece {
                step: Step::Product,
                base,
                count,
                work,
            });
        }
        pieces
    }
}

/// Workgroups per task: few enough that a task yields in time, 16 at most so that the cores share evenly.
#[must_use]
pub fn task_increment(kernel: &Kernel, iterations: u32, workgroups: u32) -> u16 {
    let cycles = kernel.instructions(iterations).max(1) * CYCLES_PER_INSTRUCTION;
    let most = (TASK_CYCLES / cycles).clamp(1, 16);
    most.min(u64::from(workgroups.max(1))) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const COSTS: Costs = Costs {
        row_factor: 1_000,
        quantise: 20_000,
        product: 500_000,
    };

    proptest! {
        #[test]
        fn jobs_cover_everything_once_within_the_budget(
            rows in 1u32..200, tokens in 1u32..40, blocks in 1u32..50, budget in 1u64..50_000_000
        ) {
            let mut plan = Plan::new(rows, tokens, Some(blocks), COSTS);
            let mut tiles = vec![0u32; (rows * tokens) as usize];
            let mut quantised = vec![0u32; tokens as usize];
            loop {
                let job = plan.next_job(budget);
                if job.is_empty() {
                    break;
                }
                let work: u64 = job.iter().map(|p| p.work).sum();
                let least = u64::from(blocks) * COSTS.quantise + 16 * COSTS.row_factor;
                prop_assert!(work <= budget.max(least).max(COSTS.product));
                for piece in job {
                    for y in piece.base[1]..piece.base[1] + piece.count[1] {
                        match piece.step {
                            Step::RowFactor => {}
                            Step::Quantise => quantised[y as usize] += 1,
                            Step::Product => {
                                prop_assert!(quantised.iter().all(|n| *n == 1));
                                for x in piece.base[0]..piece.base[0] + piece.count[0] {
                                    tiles[(y * rows + x) as usize] += 1;
                                }
                            }
                        }
                    }
                }
            }
            prop_assert!(tiles.iter().chain(&quantised).all(|n| *n == 1));
        }
    }

    #[test]
    fn the_first_job_sets_the_rate_and_slow_ones_count_at_once() {
        let mut rate = Rate::default();
        assert_eq!(rate.budget(), FIRST_MACS);
        rate.update(200_000_000, Duration::from_millis(100));
        assert_eq!(rate.budget(), 500_000_000);
        rate.update(200_000_000, Duration::from_millis(400));
        assert_eq!(rate.budget(), 125_000_000);
        rate.update(200_000_000, Duration::from_millis(100));
        assert_eq!(rate.budget(), 312_500_000);
    }

    #[test]
    fn a_task_of_a_long_row_stays_below_a_million_cycles() {
        use crate::kernel::{GemmClass, gemm};
        let k = 11_008;
        for class in GemmClass::ALL {
            let kernel = gemm(class).unwrap();
            let iterations = match class {
                GemmClass::Half => k / 8,
                GemmClass::Single => k / 4,
                _ => k / 32,
            };
            let tasks = u64::from(task_increment(&kernel, iterations, 1_000));
            let cycles = tasks * kernel.instructions(iterations) * CYCLES_PER_INSTRUCTION;
            assert!(
                tasks >= 1 && cycles <= TASK_CYCLES,
                "{}: {cycles}",
                kernel.name
            );
            assert_eq!(task_increment(&kernel, 1, 3), 3);
        }
    }

    #[test]
    fn a_workgroup_of_the_longest_row_is_a_task_below_a_million_cycles() {
        use crate::kernel::{GemmClass, gemm, row_factor};
        let factor = max_iterations(&row_factor().unwrap());
        for class in GemmClass::ALL {
            let kernel = gemm(class).unwrap();
            let most = max_iterations(&kernel);
            let cycles = |n| kernel.instructions(n) * CYCLES_PER_INSTRUCTION;
            assert!(cycles(most) <= TASK_CYCLES && cycles(most + 1) > TASK_CYCLES);
            assert_eq!(task_increment(&kernel, most, 1_000), 1);
            // The longest row's factor is found in time too.
            assert!(
                most * kernel.stated.step() <= 32 * factor,
                "{}",
                kernel.name
            );
        }
    }

    #[test]
    fn work_counts_in_the_macs_of_the_fastest_kernel() {
        use crate::kernel::{GemmClass, gemm};
        let kernels: Vec<_> = GemmClass::ALL.iter().map(|c| gemm(*c).unwrap()).collect();
        let unit = WorkUnit::of(&kernels);
        let nibbles = &kernels[0];
        let per_block = unit.work(nibbles, 1_100) - unit.work(nibbles, 1_000);
        assert_eq!(per_block, 100 * 8192);
        for kernel in &kernels {
            // None does more in its time than the unit says, and the slowest a sixth.
            let macs = u64::from(kernel.stated.macs) * 1_000;
            let work = unit.work(kernel, 1_000);
            assert!(
                work >= macs && work < 6 * macs,
                "{}: {work} for {macs}",
                kernel.name
            );
        }
    }

    #[test]
    fn the_busiest_core_takes_what_is_predicted() {
        use crate::kernel::{GemmClass, gemm};
        let kernel = gemm(GemmClass::Byte).unwrap();
        let one = predicted_cycles(&kernel, 10, [1, 1], 1, 4);
        assert_eq!(one, kernel.quarter_cycles(10).div_ceil(4));
        // Five tasks of four: a core has two of them.
        let eight = predicted_cycles(&kernel, 10, [20, 1], 4, 4);
        assert_eq!(eight, (8 * kernel.quarter_cycles(10)).div_ceil(4));
        let all = predicted_cycles(&kernel, 10, [20, 1], 4, 1);
        assert_eq!(all, (20 * kernel.quarter_cycles(10)).div_ceil(4));
    }

    #[test]
    fn small_products_are_one_job() {
        let mut plan = Plan::new(1, 1, Some(1), COSTS);
        let steps: Vec<_> = plan.next_job(FIRST_MACS).iter().map(|p| p.step).collect();
        assert_eq!(steps, [Step::RowFactor, Step::Quantise, Step::Product]);
        assert!(plan.next_job(FIRST_MACS).is_empty());
    }
}
