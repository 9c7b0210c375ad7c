//! Address translation, and the caches between the shader cores and memory.
//!
//! - [`AddressSpace`] leads from GPU addresses to host memory: the driver's VM, or [`FlatSpace`] for tests and replay.
//! - [`Caches`] hold what the GPU has written until a flush cleans it: one per device.
//! - [`JobMemory`] gives each core a [`Port`], which translates, goes through the caches, and checks that a job reads
//!   and overwrites only what its stream has waited for and flushed ([`Knowledge`], [`LscRule`]).
//!
//! Host memory is accessed atomically, four bytes at a time: whoever maps the same pages must do so atomically or
//! volatile.

mod caches;
mod flat;
mod frame;
mod order;
mod port;
#[cfg(test)]
mod tests;

use std::ptr::NonNull;

pub use caches::Caches;
pub use flat::{FlatSpace, Mapping};
pub use frame::LINE_BYTES;
pub use order::{AgentSet, Knowledge, LscRule, View};
pub use port::{JobMemory, MemoryError, Port};

/// What an access wants to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// Data read.
    Read,
    /// Data write or atomic.
    Write,
    /// Instruction or command-stream fetch is `Execute` for shader code, `Read` for command streams.
    Execute,
}

/// One translated page.
#[derive(Clone, Copy, Debug)]
pub struct Page {
    /// Host address of the page's first byte (its "physical address": one page has one, whatever maps it), aligned
    /// to 8. Its `size` bytes must stay valid until [`Caches::release`] has dropped them, and nobody may access them
    /// other than atomically or volatile meanwhile.
    pub host: NonNull<u8>,
    /// Size of the page in bytes, a power of two and at least 4096; the GPU address of the page is aligned to it.
    pub size: u64,
    /// Whether stores are allowed.
    pub writable: bool,
    /// Whether instruction fetches are allowed.
    pub executable: bool,
    /// Whether GPU accesses bypass the caches (`DRM_PANTHOR_VM_BIND_OP_MAP_UNCACHED`).
    pub uncached: bool,
    /// Lines of 64 bytes of the 4 KiB that hold the address (bit `n`: those from 64 `n`) which the CPU has written
    /// through its own caches and not written back: whoever reads them past these caches reads stale data.
    pub cpu_dirty: u64,
}

/// Why a translation failed, as the MMU's fault registers report it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("MMU {kind:?} fault on {access:?} at {va:#x}")]
pub struct MmuFault {
    /// The GPU address of the access.
    pub va: u64,
    /// What the access wanted.
    pub access: Access,
    /// What was wrong.
    pub kind: MmuFaultKind,
}

/// The two kinds of fault that a mapping can give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MmuFaultKind {
    /// Nothing is mapped there.
    Translation,
    /// Mapped, but not for this access.
    Permission,
}

/// Where GPU addresses lead: the driver's VM in the simulator, page tables in guest memory elsewhere.
///
/// # Safety
/// The caches and the cores dereference what [`AddressSpace::translate`] gives. Its [`Page::host`] must lead to
/// [`Page::size`] bytes that stay mapped, readable and writable, until [`Caches::release`] has dropped them or the caches
/// and all ports are gone, and whoever else accesses them must do so atomically or volatile.
pub unsafe trait AddressSpace: Send + Sync {
    /// The page that holds `va`.
    ///
    /// # Errors
    /// [`MmuFault`] where nothing is mapped or the mapping does not allow `access`.
    fn translate(&self, va: u64, access: Access) -> Result<Page, MmuFault>;
}
