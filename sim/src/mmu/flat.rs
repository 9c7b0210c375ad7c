//! An address space of its own memory, for tests and replay.

use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Access, AddressSpace, MmuFault, MmuFaultKind, Page};

/// What a mapping of a [`FlatSpace`] allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// Stores are allowed.
    pub writable: bool,
    /// Instruction fetches are allowed.
    pub executable: bool,
    /// GPU accesses bypass the caches.
    pub uncached: bool,
}

impl Mapping {
    /// Data: writable, not executable, cached.
    pub const DATA: Self = Self {
        writable: true,
        executable: false,
        uncached: false,
    };
    /// Code: executable, read-only, cached.
    pub const CODE: Self = Self {
        writable: false,
        executable: true,
        uncached: false,
    };
    /// Uncached data.
    pub const UNCACHED: Self = Self {
        writable: true,
        executable: false,
        uncached: true,
    };
}

const PAGE: u64 = 4096;
const PAGE_WORDS: usize = PAGE as usize / 8;

type PageMemory = Box<[AtomicU64; PAGE_WORDS]>;

/// Pages of 4 KiB at chosen GPU addresses, with memory of their own. The host's side of it is [`FlatSpace::write`] and
/// [`FlatSpace::read`], which go past the GPU's caches as the CPU does.
#[derive(Debug, Default)]
pub struct FlatSpace {
    pages: BTreeMap<u64, (PageMemory, Mapping)>,
}

impl FlatSpace {
    /// Nothing mapped.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Maps zeroed pages over `len` bytes at `va`, both rounded outwards to pages. Pages mapped already keep their
    /// memory and get the new mapping.
    pub fn map(&mut self, va: u64, len: u64, mapping: Mapping) {
        let mut page = va & !(PAGE - 1);
        while page < va + len {
            self.pages
                .entry(page)
                .or_insert_with(|| (Box::new([const { AtomicU64::new(0) }; PAGE_WORDS]), mapping))
                .1 = mapping;
            page += PAGE;
        }
    }

    fn byte(&self, va: u64) -> Option<(&AtomicU64, u32)> {
        let (page, _) = self.pages.get(&(va & !(PAGE - 1)))?;
        Some((&page[(va % PAGE) as usize / 8], (va % 8) as u32 * 8))
    }

    /// Writes bytes as the host does, past the GPU's caches.
    ///
    /// # Errors
    /// [`MmuFault`] at the first byte that is not mapped; bytes before it are written.
    pub fn write(&self, va: u64, bytes: &[u8]) -> Result<(), MmuFault> {
        for (at, byte) in (va..).zip(bytes) {
            let fault = MmuFault {
                va: at,
                access: Access::Write,
                kind: MmuFaultKind::Translation,
            };
            let (word, shift) = self.byte(at).ok_or(fault)?;
            let old = u64::from_le(word.load(Ordering::Relaxed));
            let new = (old & !(0xff << shift)) | (u64::from(*byte) << shift);
            word.store(new.to_le(), Ordering::Relaxed);
        }
        Ok(())
    }

    /// Reads bytes as the host does, past the GPU's caches.
    ///
    /// # Errors
    /// [`MmuFault`] at the first byte that is not mapped.
    pub fn read(&self, va: u64, bytes: &mut [u8]) -> Result<(), MmuFault> {
        for (at, byte) in (va..).zip(bytes) {
            let fault = MmuFault {
                va: at,
                access: Access::Read,
                kind: MmuFaultKind::Translation,
            };
            let (word, shift) = self.byte(at).ok_or(fault)?;
            *byte = (u64::from_le(word.load(Ordering::Relaxed)) >> shift) as u8;
        }
        Ok(())
    }
}

// SAFETY: a page's memory is boxed and never removed while the space lives, holds 4096 bytes of atomics, and is only
// accessed through them. Caches that have seen a page are not used after its space.
unsafe impl AddressSpace for FlatSpace {
    fn translate(&self, va: u64, access: Access) -> Result<Page, MmuFault> {
        let fault = |kind| MmuFault { va, access, kind };
        let (memory, mapping) = self
            .pages
            .get(&(va & !(PAGE - 1)))
            .ok_or_else(|| fault(MmuFaultKind::Translation))?;
        let allowed = match access {
            Access::Read => true,
            Access::Write => mapping.writable,
            Access::Execute => mapping.executable,
        };
        if !allowed {
            return Err(fault(MmuFaultKind::Permission));
        }
        Ok(Page {
            host: NonNull::from(&**memory).cast(),
            size: PAGE,
            writable: mapping.writable,
            executable: mapping.executable,
            uncached: mapping.uncached,
            cpu_dirty: 0,
        })
    }
}
