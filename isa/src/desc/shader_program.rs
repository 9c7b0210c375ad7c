//! The shader program descriptor.

use super::{
    DESCRIPTOR_WORDS, DescError, DescriptorType, Named, bits, check_reserved, high, join, low,
};

const WHAT: &str = "shader program descriptor";

/// Which stage a shader is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    /// Compute.
    Compute = 1,
    /// Fragment.
    Fragment = 2,
    /// Vertex.
    Vertex = 3,
}

/// What becomes of subnormal numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum FlushToZero {
    /// They are kept.
    #[default]
    Preserve = 0,
    /// As Direct3D 11 asks: 32-bit ones are flushed, 16-bit ones kept.
    Dx11 = 1,
    /// All are flushed.
    Always = 2,
    /// Flushed abruptly.
    Abrupt = 3,
}

/// How many registers a thread gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RegisterAllocation {
    /// r0 to r63, half the threads.
    PerThread64 = 0,
    /// r0 to r15 and r48 to r63, all threads.
    PerThread32 = 2,
}

/// `Shader Program` of v10.xml: what a shader is and where its code lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ShaderProgram {
    /// The stage.
    pub stage: Stage,
    /// Bits 8 and 9: `Vertex warp limit`, for fragments bit 8 is `Fragment coverage bitmask type`. 0 for compute.
    pub stage_option: u8,
    /// NaN results become 0.
    pub suppress_nan: bool,
    /// What becomes of subnormal numbers.
    pub flush_to_zero: FlushToZero,
    /// Infinite results become the largest number.
    pub suppress_inf: bool,
    /// Fragment only.
    pub requires_helper_threads: bool,
    /// The code contains JUMP_EX.
    pub contains_jump_ex: bool,
    /// Registers per thread.
    pub registers: RegisterAllocation,
    /// Bit `n` says that register 48 + n is loaded before the first instruction.
    pub preload: u16,
    /// Address of the first instruction.
    pub binary: u64,
}

impl ShaderProgram {
    /// Alignment of the descriptor in memory (v10.xml, `align`).
    pub const ALIGNMENT: u64 = 32;

    /// Alignment that Mesa gives to shader code (panvk_vX_shader.c and pan_shader.c upload code at 128 bytes).
    /// Whether hardware needs all of it is not known.
    pub const BINARY_ALIGNMENT: u64 = 128;

    const NAMED: Named = [0xf00f_03ff, 0x0000_ffff, !0, !0, 0, 0, 0, 0];

    /// A compute shader that keeps subnormals, with nothing preloaded.
    #[must_use]
    pub const fn compute(binary: u64, registers: RegisterAllocation) -> Self {
        Self {
            stage: Stage::Compute,
            stage_option: 0,
            suppress_nan: false,
            flush_to_zero: FlushToZero::Preserve,
            suppress_inf: false,
            requires_helper_threads: false,
            contains_jump_ex: false,
            registers,
            preload: 0,
            binary,
        }
    }

    /// Packs into the words of memory.
    ///
    /// # Errors
    /// [`DescError::TooWide`] for a stage option of more than two bits.
    pub fn pack(&self) -> Result<[u32; DESCRIPTOR_WORDS], DescError> {
        let option = super::fit(WHAT, "stage option", self.stage_option.into(), 2)?;
        let word0 = DescriptorType::Shader as u32
            | (self.stage as u32) << 4
            | low(option) << 8
            | u32::from(self.suppress_nan) << 16
            | (self.flush_to_zero as u32) << 17
            | u32::from(self.suppress_inf) << 19
            | u32::from(self.requires_helper_threads) << 28
            | u32::from(self.contains_jump_ex) << 29
            | (self.registers as u32) << 30;
        Ok([
            word0,
            self.preload.into(),
            low(self.binary),
            high(self.binary),
            0,
            0,
            0,
            0,
        ])
    }

    /// Unpacks the words of memory.
    ///
    /// # Errors
    /// [`DescError`] where it is no shader program, has reserved bits, or a field a reserved value.
    pub fn unpack(words: &[u32; DESCRIPTOR_WORDS]) -> Result<Self, DescError> {
        let word0 = words[0];
        DescriptorType::Shader.check(WHAT, word0)?;
        check_reserved(WHAT, words, &Self::NAMED)?;
        let reserved = |field, value: u32| DescError::Reserved {
            what: WHAT,
            field,
            value: value.into(),
        };
        let stage = match bits(word0, 4, 4) {
            1 => Stage::Compute,
            2 => Stage::Fragment,
            3 => Stage::Vertex,
            other => return Err(reserved("stage", other)),
        };
        let flush_to_zero = match bits(word0, 17, 2) {
            0 => FlushToZero::Preserve,
            1 => FlushToZero::Dx11,
            2 => FlushToZero::Always,
            _ => FlushToZero::Abrupt,
        };
        let registers = match bits(word0, 30, 2) {
            0 => RegisterAllocation::PerThread64,
            2 => RegisterAllocation::PerThread32,
            other => return Err(reserved("register allocation", other)),
        };
        Ok(Self {
            stage,
            stage_option: bits(word0, 8, 2) as u8,
            suppress_nan: bits(word0, 16, 1) != 0,
            flush_to_zero,
            suppress_inf: bits(word0, 19, 1) != 0,
            requires_helper_threads: bits(word0, 28, 1) != 0,
            contains_jump_ex: bits(word0, 29, 1) != 0,
            registers,
            preload: words[1] as u16,
            binary: join(words[2], words[3]),
        })
    }
}
