//! Shader kernels, written with a typed builder over `mali_isa::valhall`.
//!
//! Glossary: a *warp* is 16 lanes, here always one workgroup; FAU, the uniforms of a kernel, 32-bit *words* in 64-bit
//! units; a *block* is 32 consecutive k; a *tile* is 16 rows of the weights by 16 tokens, one warp's work.
//!
//! No kernel uses thread-local or workgroup-local memory: there is no instruction here that could.
//!
//! Address arithmetic is 32-bit: the memory plan keeps every buffer within one 4 GiB window
//! ([`crate::memory::WINDOW`]), so that the high word of all its addresses is a uniform.

mod builder;
mod cost;
mod float;
mod gemm;
mod ops;
mod quantise;

pub use builder::{Block, Builder, KernelError, Reg};
pub use cost::{QUARTERS, Stated};
pub use gemm::{GemmClass, gemm};
pub use quantise::{quantise, row_factor};

use mali_isa::valhall::{Instr, Unit};

/// Lanes of a warp, and threads of every workgroup here (Mali-G610: Mesa `pan_props.c`, 16-lane warps since Bifrost
/// 2nd generation).
pub const WARP_LANES: u32 = 16;

/// Rows and tokens of a tile.
pub const TILE: u32 = 16;

/// Elements of a block.
pub const BLOCK: u32 = 32;

/// A 32-bit uniform word of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Uniform {
    /// Address of the weight plane, low word.
    WeightsLow,
    /// Address of the weight plane, high word.
    WeightsHigh,
    /// Address of the weights' scale plane, low word.
    ScalesLow,
    /// Address of the weights' scale plane, high word.
    ScalesHigh,
    /// Address of the int8 activations, low word.
    ActivationsLow,
    /// Address of the int8 activations, high word.
    ActivationsHigh,
    /// Address of the activations' scale and sum plane, low word.
    SumsLow,
    /// Address of the activations' scale and sum plane, high word.
    SumsHigh,
    /// Address of the token factors, low word.
    FactorsLow,
    /// Address of the token factors, high word.
    FactorsHigh,
    /// Address of the result, low word.
    OutputLow,
    /// Address of the result, high word.
    OutputHigh,
    /// Address of the f32 activations, low word.
    InputLow,
    /// Address of the f32 activations, high word.
    InputHigh,
    /// Bytes of the weight plane per row tile.
    WeightsStride,
    /// Bytes of the scale plane per row tile.
    ScalesStride,
    /// Bytes of the int8 activations per token tile.
    ActivationsStride,
    /// Bytes of the scale and sum plane per token tile.
    SumsStride,
    /// Address of the int8 activations, low word, plus [`Uniform::ActivationsStride`].
    ActivationsEnd,
    /// Bytes of the result per token.
    OutputStride,
    /// Bytes of the f32 activations per token.
    InputStride,
    /// First tile of the job in x.
    BaseX,
    /// First tile of the job in y.
    BaseY,
    /// Number of loop iterations, 1 to 65535.
    Count,
    /// A number.
    Value(u32),
    /// Fills a 64-bit unit.
    Unused,
}

/// Instructions by the unit that executes them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mix {
    /// Fused multiply-add unit.
    pub fma: u32,
    /// Conversion unit, with branches and no-operations.
    pub cvt: u32,
    /// Special function unit (shifts, multiplications, permutations).
    pub sfu: u32,
    /// Load-store unit.
    pub ls: u32,
    /// Anything else.
    pub other: u32,
}

impl Mix {
    /// Counts a piece of code.
    #[must_use]
    pub fn of(code: &[Instr]) -> Self {
        let mut mix = Self::default();
        for instr in code {
            match instr.op.info().unit {
                Unit::Fma => mix.fma += 1,
                Unit::Cvt => mix.cvt += 1,
                Unit::Sfu => mix.sfu += 1,
                Unit::Ls => mix.ls += 1,
                _ => mix.other += 1,
            }
        }
        mix
    }

    /// All of them.
    #[must_use]
    pub const fn total(&self) -> u32 {
        self.fma + self.cvt + self.sfu + self.ls + self.other
    }
}

/// A built kernel.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// Its name, as `panthorctl disasm --kernel` takes it.
    pub name: &'static str,
    /// Its instructions.
    pub code: Vec<Instr>,
    /// Its instruction words, little-endian in memory.
    pub words: Vec<u64>,
    /// Registers used, counted from r0 without gaps that stay unused; at most 64.
    pub registers: u32,
    /// Whether the 32-register mode has all of them: r0 to r15 and r48 to r63 (v10.xml, `Register Allocation`).
    pub fits_32: bool,
    /// Preloaded registers, bit n for r48+n, as the program descriptor takes them.
    pub preload: u16,
    /// Its uniforms, in order; an even number, so that they fill 64-bit units.
    pub fau: Vec<Uniform>,
    /// Instructions of its loop body (one block or chunk), or of the whole kernel where it has no loop.
    pub body: Mix,
    /// What the author expects of it.
    pub stated: Stated,
}

impl Kernel {
    /// Number of 64-bit FAU units.
    #[must_use]
    pub fn fau_units(&self) -> u8 {
        // At most 64 words (`Builder`), so that the cast is exact.
        (self.fau.len() / 2) as u8
    }

    /// The uniforms' values, `value` giving those that are no constants.
    pub fn fau_words(&self, value: impl Fn(Uniform) -> u32) -> Vec<u32> {
        self.fau
            .iter()
            .map(|u| match *u {
                Uniform::Value(v) => v,
                Uniform::Unused => 0,
                other => value(other),
            })
            .collect()
    }

    /// Whether it has a loop: [`Kernel::body`] is not the whole of it.
    #[must_use]
    pub fn has_loop(&self) -> bool {
        self.body.total() as usize != self.code.len()
    }

    /// A warp's instructions for `iterations` of the loop.
    #[must_use]
    pub fn instructions(&self, iterations: u32) -> u64 {
        let body = u64::from(self.body.total());
        if !self.has_loop() {
            return body;
        }
        self.code.len() as u64 - body + body * u64::from(iterations)
    }
}

/// Every kernel that the engine has.
///
/// # Errors
/// [`KernelError`] where one of them cannot be built: it needs more than 64 registers, or breaks a rule of the ISA.
pub fn all() -> Result<Vec<Kernel>, KernelError> {
    let mut kernels = vec![row_factor()?, quantise()?];
    for class in GemmClass::ALL {
        kernels.push(gemm(class)?);
    }
    Ok(kernels)
}

#[cfg(test)]
mod tests;
