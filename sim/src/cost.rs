//! Cycle accounting: what each instruction costs on which unit.
//!
//! A Mali-G610 core has two execution engines of two processing units (PU) each; a PU takes one 16-lane warp
//! instruction per clock for the FMA or the CVT unit, and one in four clocks for the SFU, which has four lanes a PU.
//! The load-store unit takes one 64-byte line per core and clock. The rates and their sources are with the cores that
//! count by them ([`crate::shader`]).
//!
//! Whether a PU can issue to two units in one clock is not known, so there are two models, and both are reported:
//! - [`Usage::cycles`], *max*: units overlap perfectly, the busiest one decides. This is what simulated time uses.
//! - [`Usage::cycles_issue`], *sum of issues*: a PU issues one instruction per clock, whatever its unit.
//!
//! Neither counts latency, cache misses or bandwidth.

use std::ops::{Add, AddAssign};

use crate::shader::{CVT_PER_CYCLE, FMA_PER_CYCLE, LINES_PER_CYCLE, SFU_PER_CYCLE};

/// Processing units of a core: two engines of two. Source: Arm's libGPUInfo (2 engines), and the FMA rate.
pub const UNITS_PER_CORE: u64 = 4;

/// Warp instructions per unit, of one core or added up over cores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Usage {
    /// FMA unit: FMA, FADD, IDPADD and the like.
    pub fma: u64,
    /// CVT unit: integer addition, comparison, conversion, moves, branches.
    pub cvt: u64,
    /// SFU: shifts and logic, IMUL, MUX, CLPER, transcendental functions.
    pub sfu: u64,
    /// Load-store unit: LOAD, STORE, LD_PKA, LEA_PKA, atomics.
    pub ls: u64,
    /// Distinct 64-byte lines that those instructions touched, summed over instructions: the unit's cycles.
    pub ls_lines: u64,
    /// Instructions of other units (texture, varying, barriers, NOP). Not in the max model.
    pub other: u64,
    /// Warps that ran.
    pub warps: u64,
}

impl Usage {
    /// Warp instructions of all units.
    #[must_use]
    pub const fn instructions(&self) -> u64 {
        self.fma + self.cvt + self.sfu + self.ls + self.other
    }

    /// Clocks of one core by the max model: the busiest of FMA, CVT, SFU and load-store unit.
    #[must_use]
    pub fn cycles(&self) -> u64 {
        let alu = self
            .fma
            .div_ceil(FMA_PER_CYCLE)
            .max(self.cvt.div_ceil(CVT_PER_CYCLE));
        alu.max(self.sfu.div_ceil(SFU_PER_CYCLE))
            .max(self.ls_lines.div_ceil(LINES_PER_CYCLE))
    }

    /// Clocks of one core by the sum-of-issues model: every instruction takes an issue slot of a PU.
    #[must_use]
    pub fn cycles_issue(&self) -> u64 {
        self.instructions()
            .div_ceil(UNITS_PER_CORE)
            .max(self.cycles())
    }
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.fma += other.fma;
        self.cvt += other.cvt;
        self.sfu += other.sfu;
        self.ls += other.ls;
        self.ls_lines += other.ls_lines;
        self.other += other.other;
        self.warps += other.warps;
    }
}

impl Add for Usage {
    type Output = Self;
    fn add(mut self, other: Self) -> Self {
        self += other;
        self
    }
}

/// What one job used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobUsage {
    /// Per core.
    pub cores: Vec<Usage>,
}

impl JobUsage {
    /// All cores together.
    #[must_use]
    pub fn total(&self) -> Usage {
        self.cores
            .iter()
            .fold(Usage::default(), |sum, core| sum + *core)
    }

    /// Clocks from the first to the last workgroup by the max model: the busiest core decides.
    #[must_use]
    pub fn cycles(&self) -> u64 {
        self.cores.iter().map(Usage::cycles).max().unwrap_or(0)
    }

    /// The same by the sum-of-issues model.
    #[must_use]
    pub fn cycles_issue(&self) -> u64 {
        self.cores
            .iter()
            .map(Usage::cycles_issue)
            .max()
            .unwrap_or(0)
    }
}

impl From<&crate::shader::Usage> for JobUsage {
    fn from(usage: &crate::shader::Usage) -> Self {
        Self {
            cores: usage
                .cores
                .iter()
                .map(|core| core.counts.cost(core.warps))
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busiest_unit_decides() {
        // The reference sheet's 4x4 tile: 84 % of 128 IDPADD issues by the max model, 59 % by the sum.
        let tile = Usage {
            fma: 152,
            cvt: 16 + 3,
            sfu: 32,
            ls: 14,
            ls_lines: 14,
            ..Usage::default()
        };
        assert_eq!(tile.cycles(), 38);
        assert_eq!(tile.cycles_issue(), 55);
        assert_eq!(
            Usage {
                sfu: 10,
                ..Usage::default()
            }
            .cycles(),
            10
        );
        assert_eq!(
            Usage {
                ls_lines: 7,
                fma: 8,
                ..Usage::default()
            }
            .cycles(),
            7
        );
        assert_eq!(
            Usage {
                fma: 1,
                ..Usage::default()
            }
            .cycles(),
            1
        );
    }

    #[test]
    fn the_busiest_core_decides() {
        let job = JobUsage {
            cores: vec![
                Usage {
                    fma: 8,
                    warps: 1,
                    ..Usage::default()
                },
                Usage {
                    fma: 80,
                    ..Usage::default()
                },
            ],
        };
        assert_eq!(job.cycles(), 20);
        assert_eq!(
            job.total(),
            Usage {
                fma: 88,
                warps: 1,
                ..Usage::default()
            }
        );
        assert_eq!(JobUsage::default().cycles(), 0);
    }
}
