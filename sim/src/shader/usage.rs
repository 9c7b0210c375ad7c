//! What a job used: instructions per unit and cache lines, and the units' rates. The cycles that follow are
//! [`crate::cost`]'s.

use crate::cost;

/// Warp instructions that the fused multiply-add units of one core take per cycle: 64 lanes of 16.
/// (Mesa, panfrost/compiler/pan_model.c, G610: fma 64; Arm's libGPUInfo; clpeak on an RK3588.)
pub const FMA_PER_CYCLE: u64 = 4;
/// Warp instructions that the conversion units of one core take per cycle. (Mesa, pan_model.c, G610: cvt 64.)
pub const CVT_PER_CYCLE: u64 = 4;
/// Warp instructions that the special function units of one core take per cycle. (Mesa, pan_model.c, G610: sfu 16.)
pub const SFU_PER_CYCLE: u64 = 1;
/// Cache lines that the load-store unit of one core takes per cycle.
/// (Arm, Valhall guide: one access per cycle if all lanes hit one line.)
pub const LINES_PER_CYCLE: u64 = 1;
/// Size of a line of the load-store cache in bytes. (Arm GPU data sheet, Mali-G610.)
pub const LINE_BYTES: u64 = 64;

/// Warp instructions by the unit that executes them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnitCounts {
    /// All warp instructions, whatever the number of active lanes.
    pub instructions: u64,
    /// Slots of the fused multiply-add unit.
    pub fma: u64,
    /// Slots of the conversion unit (integer addition, selects, moves, branches); a 64-bit operation takes two.
    pub cvt: u64,
    /// Slots of the special function unit (shifts, integer products, lane permutes, reciprocals).
    pub sfu: u64,
    /// Load-store instructions.
    pub ls: u64,
    /// Distinct 64-byte lines that the load-store instructions touched, summed over the instructions.
    pub ls_lines: u64,
    /// Barriers.
    pub barriers: u64,
    /// Instructions of the dot product `IDPADD` (also counted in `fma`): 64 products of bytes each.
    pub dot: u64,
}

impl UnitCounts {
    /// The same for the cycle accounting, of a core that ran `warps` warps.
    pub fn cost(&self, warps: u64) -> cost::Usage {
        cost::Usage {
            fma: self.fma,
            cvt: self.cvt,
            sfu: self.sfu,
            ls: self.ls,
            ls_lines: self.ls_lines,
            other: self.barriers,
            warps,
        }
    }

    /// Cycles of one core by [`cost::Usage::cycles`].
    pub fn cycles(&self) -> u64 {
        self.cost(0).cycles()
    }

    /// Adds another count.
    pub fn add(&mut self, other: &UnitCounts) {
        self.instructions += other.instructions;
        self.fma += other.fma;
        self.cvt += other.cvt;
        self.sfu += other.sfu;
        self.ls += other.ls;
        self.ls_lines += other.ls_lines;
        self.barriers += other.barriers;
        self.dot += other.dot;
    }

    /// The count since an earlier state of the same counter.
    pub fn since(&self, earlier: &UnitCounts) -> UnitCounts {
        UnitCounts {
            instructions: self.instructions - earlier.instructions,
            fma: self.fma - earlier.fma,
            cvt: self.cvt - earlier.cvt,
            sfu: self.sfu - earlier.sfu,
            ls: self.ls - earlier.ls,
            ls_lines: self.ls_lines - earlier.ls_lines,
            barriers: self.barriers - earlier.barriers,
            dot: self.dot - earlier.dot,
        }
    }
}

/// What one shader core did for a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CoreUsage {
    /// Its instructions.
    pub counts: UnitCounts,
    /// Tasks that it was given.
    pub tasks: u64,
    /// Warps that it ran.
    pub warps: u64,
}

/// What a job used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Each core's part, in the order of [`super::ShaderCores::core_ids`].
    pub cores: Vec<CoreUsage>,
    /// Number of tasks that the job was cut into.
    pub tasks: u64,
    /// Number of workgroups.
    pub workgroups: u64,
    /// Number of warps.
    pub warps: u64,
    /// Cycles of the longest task by [`UnitCounts::cycles`]: it cannot be interrupted for a suspend.
    pub largest_task_cycles: u64,
}

impl Usage {
    /// The counts of all cores together.
    pub fn total(&self) -> UnitCounts {
        let mut total = UnitCounts::default();
        for core in &self.cores {
            total.add(&core.counts);
        }
        total
    }

    /// Cycles of the job: the busiest core's.
    pub fn cycles(&self) -> u64 {
        self.cores
            .iter()
            .map(|core| core.counts.cycles())
            .max()
            .unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_add_up_and_the_busiest_core_decides() {
        let counts = UnitCounts {
            instructions: 16,
            fma: 9,
            cvt: 4,
            sfu: 2,
            ls: 1,
            ls_lines: 3,
            ..UnitCounts::default()
        };
        let busy = UnitCounts { fma: 400, ..counts };
        assert_eq!(busy.since(&counts).fma, 391);
        assert_eq!(busy.cycles(), 100);
        let core = |counts| CoreUsage {
            counts,
            tasks: 1,
            warps: 2,
        };
        let usage = Usage {
            cores: vec![core(counts), core(busy)],
            ..Usage::default()
        };
        assert_eq!(usage.cycles(), 100);
        assert_eq!(usage.total().fma, 409);
        assert_eq!(usage.total().ls_lines, 6);
    }
}
