//! What the driver must not do with the interface.

use thiserror::Error;

use crate::csf::BadState;

/// A breach of the interface's rules: reported by name. The request that broke a rule is not acknowledged, the stream or
/// group that it concerns does not run.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Breach {
    /// A global request that this firmware does not serve.
    #[error("global request {0:#x} is not served: {1}")]
    GlobalRequest(u32, &'static str),
    /// A doorbell for a group slot that does not exist.
    #[error("doorbell for group slots {0:#x}, of which there are {groups}", groups = super::layout::GROUPS)]
    NoGroup(u32),
    /// A doorbell for a stream slot that does not exist.
    #[error("doorbell for stream slots {1:#x} of group {0}, of which there are {streams}", streams = super::layout::STREAMS)]
    NoStream(usize, u32),
    /// A state that does not exist.
    #[error("group {0}: state {1} is asked for, which does not exist")]
    NoState(usize, u32),
    /// START or RESUME of a slot that is in use.
    #[error("group {0}: state {1} is asked for while a group is on the slot")]
    SlotInUse(usize, u32),
    /// SUSPEND of an empty slot.
    #[error("group {0}: SUSPEND is asked for while no group is on the slot")]
    SlotEmpty(usize),
    /// A new state is asked for before the last one was acknowledged.
    #[error("group {0}: state {1} is asked for while the request for {2} is under way")]
    StateInFlight(usize, u32, u32),
    /// A group without an address space of its own.
    #[error("group {0}: address space {1} is the firmware's or does not exist")]
    NoSpace(usize, u32),
    /// The group's address space is switched off.
    #[error("group {0}: its address space {1} is switched off, and no fault explains it")]
    SpaceOff(usize, u32),
    /// No core for compute, though the endpoint request wants some.
    #[error("group {0}: {1} cores are asked for, {2} allowed and present")]
    Cores(usize, u32, u32),
    /// A suspend buffer that cannot be accessed.
    #[error("group {0}: suspend buffer at {1:#x}: {2}")]
    SuspendBuffer(usize, u64, String),
    /// A suspend buffer that holds no group.
    #[error("group {0}: the suspend buffer holds no suspended group: {1}")]
    SuspendContents(usize, BadSuspend),
    /// The state of the group does not fit into the buffer.
    #[error("group {0}: {1} bytes of state do not fit into the suspend buffer")]
    SuspendTooBig(usize, usize),
    /// A stream's state that does not exist.
    #[error("stream {0}.{1}: state {2} is asked for, which does not exist")]
    NoStreamState(usize, usize, u32),
    /// A stream of an empty slot.
    #[error("stream {0}.{1}: START is asked for while no group is on the slot")]
    StreamWithoutGroup(usize, usize),
    /// A ring buffer whose place or size is not allowed.
    #[error(
        "stream {0}.{1}: ring buffer at {2:#x} of {3:#x} bytes: not aligned to a page, or no power of two"
    )]
    Ring(usize, usize, u64, u64),
    /// The ring has changed under a resumed stream.
    #[error("stream {0}.{1}: was suspended with another ring buffer")]
    RingChanged(usize, usize),
    /// Positions that no ring can have.
    #[error("stream {0}.{1}: insert {2:#x} is not within {4:#x} bytes of extract {3:#x}")]
    Insert(usize, usize, u64, u64, u64),
    /// An answer to TILER_OOM that is no chunk.
    #[error("stream {0}.{1}: the heap chunk {2:#x} is not mapped, or has no size")]
    Chunk(usize, usize, u64),
    /// The stream's ring positions cannot be accessed.
    #[error("stream {0}.{1}: ring positions at {2:#x}: {3}")]
    RingPage(usize, usize, u64, String),
    /// The interface itself cannot be accessed: the firmware stops.
    #[error("the shared section cannot be accessed: {0}")]
    Shared(String),
}

/// Why a suspend buffer holds no group.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BadSuspend {
    /// It does not begin with this firmware's mark.
    #[error("it begins with {0:#x}")]
    Mark(u32),
    /// A length beyond the buffer.
    #[error("it claims {0} bytes")]
    Length(u32),
    /// Its sum does not match.
    #[error("its contents have changed since it was written")]
    Sum,
    /// Its list of streams is none.
    #[error("its list of streams is damaged")]
    Streams,
    /// A stream's state is none.
    #[error("stream {0}: {1}")]
    Stream(u8, BadState),
}
