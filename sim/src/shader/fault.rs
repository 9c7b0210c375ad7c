//! Why a shader stopped: what hardware leaves undefined, by name, with the instruction and where it stood.

use std::fmt;

/// What was wrong. `E` is the memory port's own error (an MMU fault or a coherency error).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FaultKind<E: std::error::Error> {
    /// Memory refused an access; `va` is the address that the lane wanted.
    #[error("{error} (access at {va:#x})")]
    Memory {
        /// Address of the access.
        va: u64,
        /// The port's error.
        error: E,
    },
    /// The program counter left the address alignment of instructions.
    #[error("instruction address {va:#x} is not a multiple of 8")]
    MisalignedProgram {
        /// The address.
        va: u64,
    },
    /// The word is no instruction of v10.
    #[error("invalid instruction {word:#018x}: {reason}")]
    InvalidInstruction {
        /// The eight bytes, little-endian.
        word: u64,
        /// What the decoder said.
        reason: String,
    },
    /// A valid instruction that this simulator does not execute.
    #[error("{what} is not modelled")]
    NotModelled {
        /// Instruction or feature.
        what: String,
    },
    /// A job descriptor is not aligned.
    #[error("{object} at {va:#x} is not aligned to {align} bytes")]
    MisalignedDescriptor {
        /// Which descriptor.
        object: &'static str,
        /// Its address.
        va: u64,
        /// The alignment that hardware demands.
        align: u64,
    },
    /// A job descriptor that must exist does not.
    #[error("{object} is missing")]
    MissingDescriptor {
        /// Which descriptor.
        object: &'static str,
    },
    /// A descriptor holds a value that is undefined for a compute job.
    #[error("{object} at {va:#x}: {reason}")]
    InvalidDescriptor {
        /// Which descriptor.
        object: &'static str,
        /// Its address.
        va: u64,
        /// What is wrong with it.
        reason: String,
    },
    /// The job's own numbers are undefined (a task increment of 0, an axis above 2, too large a workgroup).
    #[error("compute job: {reason}")]
    InvalidJob {
        /// What is wrong.
        reason: String,
    },
    /// A register was read in lanes where nothing was written to it.
    #[error("r{register} read before it was written")]
    UndefinedRegister {
        /// Register number.
        register: u8,
    },
    /// A register was read after a read that discarded it.
    #[error("r{register} read after a discarding read")]
    DiscardedRegister {
        /// Register number.
        register: u8,
    },
    /// A preload register was read without its bit in the program descriptor.
    #[error("r{register} read without its preload bit in the program descriptor")]
    NotPreloaded {
        /// Register number.
        register: u8,
    },
    /// A register that a message writes was read before its slot was waited for.
    #[error("r{register} read before slot {slot} was waited for")]
    PendingRegister {
        /// Register number.
        register: u8,
        /// Slot of the message.
        slot: u8,
    },
    /// A register that a message still has to write was overwritten.
    #[error("r{register} written while the message in slot {slot} has still to write it")]
    PendingOverwrite {
        /// Register number.
        register: u8,
        /// Slot of the message.
        slot: u8,
    },
    /// r16 to r47 do not exist in 32-register mode.
    #[error("r{register} used with 32 registers per thread")]
    RegisterOutOfRange {
        /// Register number.
        register: u8,
    },
    /// A 64-bit source or destination, or a staging block, begins with an odd register.
    #[error("r{register} begins a register pair or block but is odd")]
    MisalignedRegisters {
        /// Register number.
        register: u8,
    },
    /// A uniform beyond the count that the job gave.
    #[error("u{word} read, but the FAU holds {count} 64-bit units")]
    UniformOutOfRange {
        /// 32-bit word index.
        word: u8,
        /// Count in 64-bit units.
        count: u64,
    },
    /// A special source without a meaning here.
    #[error("{name} has no value in this job")]
    UndefinedSpecial {
        /// Assembler name.
        name: String,
    },
    /// The thread local pointer was used without thread local storage.
    #[error(
        "thread_local_pointer used, but the local storage descriptor has no thread local storage"
    )]
    NoThreadLocalStorage,
    /// The workgroup local pointer was used without workgroup local storage.
    #[error(
        "workgroup_local_pointer used, but the local storage descriptor has no workgroup memory"
    )]
    NoWorkgroupLocalStorage,
    /// A load, store or atomic whose address is not aligned to its size rounded up to a power of two.
    #[error("{bytes}-byte access at {va:#x} is not aligned to {align} bytes")]
    MisalignedAccess {
        /// Address of the access.
        va: u64,
        /// Bytes accessed.
        bytes: u8,
        /// Alignment demanded.
        align: u8,
    },
    /// A resource handle names a table that the job does not have.
    #[error("resource table {table} of handle {handle:#x}: the job has {count}")]
    NoSuchTable {
        /// The handle.
        handle: u32,
        /// Table index.
        table: u32,
        /// Number of tables.
        count: u32,
    },
    /// A resource handle names a descriptor beyond its table or of another type.
    #[error("handle {handle:#x}: {reason}")]
    BadResource {
        /// The handle.
        handle: u32,
        /// What is wrong.
        reason: String,
    },
    /// An access through a buffer descriptor beyond the buffer's size.
    #[error(
        "offset {offset:#x} of {bytes} bytes is beyond the {size:#x} bytes of the buffer of handle {handle:#x}"
    )]
    BeyondBuffer {
        /// The handle.
        handle: u32,
        /// Byte offset.
        offset: u32,
        /// Bytes accessed.
        bytes: u8,
        /// Size of the buffer.
        size: u64,
    },
    /// Lanes took different ways at a branch that lacks the `reconverge` flow.
    #[error("lanes diverge at a branch without .reconverge")]
    UnmarkedDivergence,
    /// A barrier was reached by some of a warp's live lanes only.
    #[error("barrier in divergent code")]
    DivergentBarrier,
    /// A barrier without slot 7 or without the `wait` flow.
    #[error("barrier without slot 7 and the .wait flow")]
    UnwaitedBarrier,
    /// A barrier with messages outstanding in slots 0 to 2.
    #[error("barrier while slots {slots:#x} (bit set) are outstanding")]
    BarrierWithPending {
        /// Bit set of slots.
        slots: u8,
    },
    /// Warps of a workgroup ended while others wait at a barrier.
    #[error("some warps of the workgroup ended while others wait at a barrier")]
    LonelyBarrier,
    /// More instructions than the limit: the job never completes.
    #[error("the core executed more than {limit} instructions: the job does not end")]
    Runaway {
        /// The limit.
        limit: u64,
    },
}

/// A fault with the place where it happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShaderFault<E: std::error::Error> {
    /// What was wrong.
    pub kind: FaultKind<E>,
    /// Where, unless the job failed before its first instruction.
    pub at: Option<Place>,
}

/// Where a shader stood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Address of the instruction.
    pub pc: u64,
    /// Its text.
    pub text: String,
    /// Core number as `core_id` gives it.
    pub core: u32,
    /// Workgroup in x, y, z.
    pub workgroup: [u32; 3],
    /// Warp within the workgroup.
    pub warp: u32,
    /// Lane within the warp, where one lane is at fault.
    pub lane: Option<u8>,
}

impl<E: std::error::Error> ShaderFault<E> {
    /// A fault of the job itself.
    pub(super) fn job(kind: FaultKind<E>) -> Box<Self> {
        Box::new(ShaderFault { kind, at: None })
    }
}

impl<E: std::error::Error> fmt::Display for ShaderFault<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kind.fmt(f)?;
        let Some(at) = &self.at else { return Ok(()) };
        let [x, y, z] = at.workgroup;
        write!(
            f,
            ": `{}` at {:#x}, core {}, workgroup {x},{y},{z}, warp {}",
            at.text, at.pc, at.core, at.warp
        )?;
        match at.lane {
            Some(lane) => write!(f, ", lane {lane}"),
            None => Ok(()),
        }
    }
}

impl<E: std::error::Error> std::error::Error for ShaderFault<E> {}
