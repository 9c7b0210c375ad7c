//! Exception codes as panthor names them, and the faults that a queue reports.

use std::fmt;

use mali_isa::csf::DecodeError;
use mali_isa::desc::DescError;
use thiserror::Error;

use crate::mmu::{MemoryError, MmuFault, MmuFaultKind};

macro_rules! exceptions {
    ($($(#[$doc:meta])* $variant:ident = $code:literal $name:literal),* $(,)?) => {
        /// An exception code. Source: panthor_device.h, `enum drm_panthor_exception_type`; names as
        /// `panthor_exception_infos` of panthor_device.c prints them.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Exception { $($(#[$doc])* $variant = $code),* }

        impl Exception {
            /// The name that the driver prints.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Exception::$variant => $name),* }
            }
            /// The exception of a code that this model raises.
            #[must_use]
            pub const fn from_code(code: u8) -> Option<Self> {
                match code { $($code => Some(Exception::$variant),)* _ => None }
            }
        }
    };
}

exceptions! {
    /// The queue was terminated.
    Terminated = 0x04 "TERMINATED",
    /// The configuration of the stream is faulty.
    CsConfigFault = 0x40 "CS_CONFIG_FAULT",
    /// The firmware cannot go on; the driver resets.
    CsUnrecoverable = 0x41 "CS_UNRECOVERABLE",
    /// A job could not run on its endpoint.
    CsEndpointFault = 0x44 "CS_ENDPOINT_FAULT",
    /// The stream itself, or its data, could not be accessed.
    CsBusFault = 0x48 "CS_BUS_FAULT",
    /// No instruction.
    CsInstrInvalid = 0x49 "CS_INSTR_INVALID",
    /// Too many nested calls.
    CsCallStackOverflow = 0x4a "CS_CALL_STACK_OVERFLOW",
    /// A sync object passed on an error.
    CsInheritFault = 0x4b "CS_INHERIT_FAULT",
    /// A shader's program counter left executable memory.
    InstrInvalidPc = 0x50 "INSTR_INVALID_PC",
    /// A shader met no instruction.
    InstrInvalidEnc = 0x51 "INSTR_INVALID_ENC",
    /// A barrier that not all threads reach.
    InstrBarrierFault = 0x55 "INSTR_BARRIER_FAULT",
    /// A descriptor or operand is invalid.
    DataInvalidFault = 0x58 "DATA_INVALID_FAULT",
    /// An address is out of range.
    AddrRangeFault = 0x5a "ADDR_RANGE_FAULT",
    /// The tiler got no memory, and no handler makes do without.
    Oom = 0x60 "OOM",
    /// Nothing is mapped.
    TranslationFault3 = 0xc3 "TRANSLATION_FAULT_3",
    /// Mapped, but not for this access.
    PermFault3 = 0xcb "PERM_FAULT_3",
}

impl Exception {
    /// The code.
    #[must_use]
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The MMU's exception: at the last level of the page table, since the simulator has no tables.
    #[must_use]
    pub const fn of_mmu(fault: &MmuFault) -> Self {
        match fault.kind {
            MmuFaultKind::Translation => Exception::TranslationFault3,
            MmuFaultKind::Permission => Exception::PermFault3,
        }
    }
}

impl fmt::Display for Exception {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What went wrong, in the simulator's own words.
#[derive(Debug, Error)]
pub enum Cause {
    /// A word of the stream is no instruction.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// The stream, or an instruction's data, could not be accessed, or only out of order.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// A register was read that nobody has written.
    #[error("register r{0} is read, but was never written")]
    UndefinedRegister(u8),
    /// A register was used while its load was in flight.
    #[error(
        "register r{register} is used before the load on scoreboard entry {entry} was waited for"
    )]
    PendingRegister {
        /// The register.
        register: u8,
        /// The entry; 8 stands for the unknown one before any SET_SB_ENTRY.
        entry: u8,
    },
    /// A register of the kernel was used in a user's stream.
    #[error("register r{0} is reserved to the kernel")]
    KernelRegister(u8),
    /// A register list runs beyond the register file.
    #[error("there is no register r{0}")]
    NoRegister(u16),
    /// An address is not aligned.
    #[error("{what} {address:#x} is not aligned to {alignment}")]
    Misaligned {
        /// What the address is of.
        what: &'static str,
        /// The address.
        address: u64,
        /// Bytes.
        alignment: u64,
    },
    /// A branch leaves its stream.
    #[error("branch to {target:#x}, outside of the stream")]
    BranchOutside {
        /// Where it goes.
        target: u64,
    },
    /// A job needs something that its register does not give.
    #[error("the job has no {0}")]
    Missing(&'static str),
    /// A register's word has no meaning.
    #[error(transparent)]
    Descriptor(#[from] DescError),
    /// Tasks of no workgroup.
    #[error("the task increment is 0")]
    TaskIncrement,
    /// The resource was not asked for by REQ_RESOURCE.
    #[error("the compute resource was not requested before the job")]
    NoResource,
    /// Calls are nested too deep.
    #[error("more than {0} nested calls")]
    CallStack(usize),
    /// A wait mask or slot names an entry that does not exist.
    #[error("scoreboard entry or mask {0:#x} is beyond the {entries} entries", entries = mali_isa::csf::SCOREBOARDS)]
    NoScoreboard(u16),
    /// A deferred instruction waits for the entry that it signals: it would wait for itself.
    #[error("a deferred instruction waits for its own entry {0}")]
    SelfWait(u8),
    /// SYNC_WAIT knows only "less or equal" and "greater" on v10 (Mesa cs_builder.h, `CS_SYNC_OPS`).
    #[error("SYNC_WAIT cannot compare by this condition")]
    SyncCondition,
    /// An instruction outside compute.
    #[error("{0} is not simulated")]
    NotSimulated(&'static str),
    /// A sync object carries an error that the queue inherits.
    #[error("the sync object at {address:#x} carries error {error}")]
    Inherited {
        /// Its address.
        address: u64,
        /// Its error word.
        error: u32,
    },
    /// A shader faulted.
    #[error("shader at {pc:#x}: {cause}")]
    Shader {
        /// Address of the shader instruction.
        pc: u64,
        /// What was wrong.
        cause: Box<dyn std::error::Error + Send>,
    },
}

/// A fault that a queue reports to the driver.
#[derive(Debug, Error)]
#[error("{} {exception} at {pc:#x} ({text}): {cause}", if *.fatal { "CS_FATAL" } else { "CS_FAULT" })]
pub struct Fault {
    /// CS_FATAL: the queue does not go on. Otherwise CS_FAULT: it goes on after the next ERROR_BARRIER.
    pub fatal: bool,
    /// The exception type.
    pub exception: Exception,
    /// The 64-bit information: the faulting address of memory, else that of the instruction.
    pub info: u64,
    /// Address of the stream's instruction; 0 within the kernel's own sequence where it is not in memory.
    pub pc: u64,
    /// The instruction's text.
    pub text: String,
    /// The MMU's fault, where that is the cause: the driver then sees it in the address space's registers too.
    pub mmu: Option<MmuFault>,
    /// What went wrong.
    pub cause: Cause,
}

impl Cause {
    fn memory(&self) -> Option<&MemoryError> {
        match self {
            Cause::Memory(error) => Some(error),
            Cause::Shader { cause, .. } => cause.downcast_ref(),
            _ => None,
        }
    }

    fn mmu(&self) -> Option<MmuFault> {
        match self.memory() {
            Some(MemoryError::Mmu(fault)) => Some(*fault),
            _ => None,
        }
    }

    fn exception(&self) -> Exception {
        match self {
            Cause::Memory(MemoryError::Mmu(_)) => Exception::CsBusFault,
            Cause::Decode(_)
            | Cause::NotSimulated(_)
            | Cause::KernelRegister(_)
            | Cause::NoRegister(_) => Exception::CsInstrInvalid,
            Cause::CallStack(_) => Exception::CsCallStackOverflow,
            Cause::Inherited { .. } => Exception::CsInheritFault,
            Cause::NoResource
            | Cause::NoScoreboard(_)
            | Cause::SelfWait(_)
            | Cause::SyncCondition => Exception::CsConfigFault,
            Cause::Misaligned { .. } | Cause::BranchOutside { .. } => Exception::AddrRangeFault,
            _ => Exception::DataInvalidFault,
        }
    }
}

impl Fault {
    pub(super) fn fatal(cause: Cause, pc: u64, text: String, exception: Option<Exception>) -> Self {
        let mmu = cause.mmu();
        let exception = match (&cause, &mmu) {
            // A shader's access that the MMU refuses is reported as the MMU's exception.
            (Cause::Shader { .. }, Some(fault)) => Exception::of_mmu(fault),
            _ => exception.unwrap_or_else(|| cause.exception()),
        };
        let info = match (&mmu, &cause) {
            (Some(fault), _) => fault.va,
            (_, Cause::Misaligned { address, .. }) => *address,
            (_, Cause::Shader { pc, .. }) => *pc,
            _ => pc,
        };
        Self {
            fatal: true,
            exception,
            info,
            pc,
            text,
            mmu,
            cause,
        }
    }

    pub(super) fn recoverable(cause: Cause, pc: u64, text: String) -> Self {
        Self {
            fatal: false,
            ..Self::fatal(cause, pc, text, None)
        }
    }
}
