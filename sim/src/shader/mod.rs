//! The Valhall shader cores: warps of 16 lanes that run a compute job's workgroups.
//!
//! [`ShaderCores::run`] decodes the program once per job into micro-ops (`program`), cuts the job into tasks and
//! gives them to the cores (`dispatch`). A warp (`warp`) holds its registers in lane vectors and knows of every byte
//! of every lane whether it holds a value; `alu` and `message` execute. What hardware leaves undefined is a
//! [`ShaderFault`]; what was executed is counted in [`Usage`].
//!
//! Glossary: warp, sixteen lanes with one instruction stream; lane, one thread of it; FAU, the uniforms; slot, the
//! counter that a message (load, store, atomic) holds until it is done; task, the part of a job that a core takes at
//! once; SPD, shader program descriptor; TSD, local storage descriptor; TLS and WLS, storage of a thread and of a
//! workgroup.

mod alu;
mod dispatch;
mod fault;
mod float;
mod message;
mod program;
mod setup;
#[cfg(test)]
mod tests;
mod usage;
mod warp;

pub use dispatch::{MemoryError, ShaderCores, THREADS_PER_CORE, WORKGROUP_THREADS};
pub use fault::{FaultKind, Place, ShaderFault};
pub use usage::{
    CVT_PER_CYCLE, CoreUsage, FMA_PER_CYCLE, LINE_BYTES, LINES_PER_CYCLE, SFU_PER_CYCLE,
    UnitCounts, Usage,
};
pub use warp::WARP_LANES;

/// What the cores need of memory: one port per core and worker thread.
pub trait ShaderMemory: Sync {
    /// A core's way to memory.
    type Port: MemoryPort;
    /// The port of shader core `core` (0-based index among the present cores).
    fn port(&self, core: u32) -> Self::Port;
}

/// One core's loads, stores, atomics and instruction fetches. Little-endian, any alignment within a page
/// (the caller has checked the alignment that the instruction demands).
pub trait MemoryPort: Send {
    /// What can go wrong: an MMU fault or a coherency error, by name.
    type Error: std::error::Error + Send + 'static;
    /// Reads `N` bytes (1 to 16).
    fn load<const N: usize>(&mut self, va: u64) -> Result<[u8; N], Self::Error>;
    /// Writes `N` bytes (1 to 16).
    fn store<const N: usize>(&mut self, va: u64, bytes: [u8; N]) -> Result<(), Self::Error>;
    /// Replaces the 32-bit word at `va` by `f` of it, returning the old one.
    fn atomic32(&mut self, va: u64, f: &mut dyn FnMut(u32) -> u32) -> Result<u32, Self::Error>;
    /// Replaces the 64-bit word at `va` by `f` of it, returning the old one.
    fn atomic64(&mut self, va: u64, f: &mut dyn FnMut(u64) -> u64) -> Result<u64, Self::Error>;
    /// Fetches the instruction word at `va`: the mapping must be executable.
    fn fetch(&mut self, va: u64) -> Result<u64, Self::Error>;

    /// Reads `N` bytes for each lane of the mask `lanes`, from `va[lane]` to `out[lane]`. A memory that can look up
    /// a page once for several lanes overrides this.
    ///
    /// # Errors
    /// The first lane that failed, with its error.
    fn load_lanes<const N: usize>(
        &mut self,
        va: &[u64; WARP_LANES],
        lanes: u16,
        out: &mut [[u8; N]; WARP_LANES],
    ) -> Result<(), (u8, Self::Error)> {
        for lane in 0..WARP_LANES {
            if lanes & (1 << lane) != 0 {
                out[lane] = self.load(va[lane]).map_err(|error| (lane as u8, error))?;
            }
        }
        Ok(())
    }

    /// Writes `N` bytes for each lane of the mask `lanes`, in the order of the lanes.
    ///
    /// # Errors
    /// The first lane that failed, with its error.
    fn store_lanes<const N: usize>(
        &mut self,
        va: &[u64; WARP_LANES],
        lanes: u16,
        bytes: &[[u8; N]; WARP_LANES],
    ) -> Result<(), (u8, Self::Error)> {
        for lane in 0..WARP_LANES {
            if lanes & (1 << lane) != 0 {
                self.store(va[lane], bytes[lane])
                    .map_err(|error| (lane as u8, error))?;
            }
        }
        Ok(())
    }
}

/// A compute job as the command stream's RUN_COMPUTE hands it to the cores: the values of the selected
/// shader-resource registers, undecoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ComputeJob {
    /// Shader resource table pointer | number of tables in the low six bits.
    pub srt: u64,
    /// FAU pointer | count of 64-bit units << 56.
    pub fau: u64,
    /// Shader program descriptor address.
    pub spd: u64,
    /// Local storage descriptor address.
    pub tsd: u64,
    /// GLOBAL_ATTRIBUTE_OFFSET.
    pub attribute_offset: u32,
    /// The packed workgroup size word.
    pub workgroup_size: u32,
    /// First workgroup in x, y, z.
    pub offset: [u32; 3],
    /// Number of workgroups in x, y, z.
    pub size: [u32; 3],
    /// Axis along which tasks are cut (0 = x, 1 = y, 2 = z).
    pub task_axis: u8,
    /// Workgroups per task along the axis; 0 is an error.
    pub task_increment: u32,
}
