//! The Linux panthor driver's ABI: structs, ioctls, the transport seam and safe handles.
//!
//! Layers, from the kernel upwards:
//! - [`sys`]: what the kernel's headers say: `repr(C)` structs, request numbers, flags. Spelt as the kernel spells them.
//! - [`transport`]: [`Transport`], the only place that reaches an operating system. [`KernelTransport`] is the real one;
//!   a simulator implements the same trait and receives the same bytes.
//! - safe handles over both: [`Device`], [`Bo`] with its [`Mapping`], [`Vm`], [`Group`], [`TilerHeap`], [`Syncobj`],
//!   [`SyncFile`], [`EventFd`]. One type per kernel object, destroyed when dropped; EINTR and EAGAIN are restarted, what a
//!   driver is too old for is refused before it is issued, and errors name ioctl, object, errno and remedy. No policy.
//!   A drop issues one call, never panics, and only logs a failure.
//! - [`discover`]: which nodes there are, and what is missing where there is none.
//!
//! # Glossary
//! - **BO**: buffer object, memory that the GPU can be given (a GEM object).
//! - **VM**: a GPU address space; BOs are bound in it at GPU virtual addresses (VA).
//! - **group, queue**: a command-stream group (CSG) and its command streams (CS), the unit of GPU scheduling.
//! - **syncobj**: a container for fences; a *timeline* syncobj holds many, each at a 64-bit point.
//! - **sync file**: a file descriptor with fences in it, the only way to learn a fence's error.
//! - **minor**: the driver's version number's second part; it says which ioctls and fields exist.

mod bo;
mod call;
mod device;
pub mod discover;
mod error;
mod fd;
mod group;
mod heap;
mod mapping;
mod sync_file;
mod syncobj;
pub mod sys;
pub mod transport;
mod vm;

pub use bo::{Bo, BoInfo, BoSyncOp, BoSyncType, LABEL_MAXLEN};
pub use call::poll;
pub use device::{
    Coherency, DRIVER_NAME, Device, DriverVersion, Feature, FlushId, GPU_PAGE_SIZE, MAJOR,
};
pub use error::{Error, GroupState, Object, Version};
pub use fd::{EventFd, OwnedFd};
pub use group::{Group, GroupConfig, GroupPriority, QueueConfig, QueueSubmit};
pub use heap::{TilerHeap, TilerHeapConfig};
pub use mapping::Mapping;
pub use sync_file::{FenceInfo, FenceStatus, SyncFile};
pub use syncobj::{SyncOp, Syncobj, WaitOutcome};
pub use sys::drm::SyncobjWaitFlags;
pub use sys::panthor::{BoExtraFlags, BoFlags, GroupStateFlags, TimestampFlags, VmBindOpFlags};
pub use transport::{
    Errno, Fd, KernelTransport, PollEvents, PollFd, Prot, SharedTransport, Transport,
    TransportKind, errno_name,
};
pub use vm::{BindOp, GpuVa, Vm};
