//! The Linux panthor driver's ABI: structs, ioctls, the transport seam and safe handles.
//!
//! Layers, from the kernel upwards:
//! - [`sys`]: what the kernel's headers say: `repr(C)` structs, request numbers, flags. Spelt as the kernel spells them.
//! - [`transport`]: [`Transport`], the only place that reaches an operating system. [`KernelTransport`] is the real one;
//!   a simulator implements the same trait and receives the same bytes.
//!
//! # Glossary
//! - **BO**: buffer object, memory that the GPU can be given (a GEM object).
//! - **VM**: a GPU address space; BOs are bound in it at GPU virtual addresses (VA).
//! - **group, queue**: a command-stream group (CSG) and its command streams (CS), the unit of GPU scheduling.
//! - **syncobj**: a container for fences; a *timeline* syncobj holds many, each at a 64-bit point.
//! - **sync file**: a file descriptor with fences in it, the only way to learn a fence's error.
//! - **minor**: the driver's version number's second part; it says which ioctls and fields exist.

pub mod sys;
pub mod transport;

pub use transport::{
    Errno, Fd, KernelTransport, PollEvents, PollFd, Prot, SharedTransport, Transport,
    TransportKind, errno_name,
};
