//! The Valhall shader cores: warps of 16 lanes that run a compute job's workgroups.

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
