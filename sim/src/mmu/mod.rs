//! Address translation, and the caches between the shader cores and memory.

use std::ptr::NonNull;

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
    /// Host address of the page's first byte (its "physical address": one page has one, whatever maps it).
    pub host: NonNull<u8>,
    /// Size of the page in bytes, a power of two; the GPU address of the page is aligned to it.
    pub size: u64,
    /// Whether stores are allowed.
    pub writable: bool,
    /// Whether instruction fetches are allowed.
    pub executable: bool,
    /// Whether GPU accesses bypass the caches (`DRM_PANTHOR_VM_BIND_OP_MAP_UNCACHED`).
    pub uncached: bool,
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
pub trait AddressSpace: Send + Sync {
    /// The page that holds `va`.
    ///
    /// # Errors
    /// [`MmuFault`] where nothing is mapped or the mapping does not allow `access`.
    fn translate(&self, va: u64, access: Access) -> Result<Page, MmuFault>;
}
