//! GPU addresses and buffer objects.
//!
//! Three things are kept apart by type: [`GpuAddress`] (what the GPU uses), the CPU mapping inside a [`Buffer`] (never
//! handed out as a reference, see `panthor_uapi::Mapping`), and the handle inside it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use panthor_uapi::{
    BindOp, Bo, BoFlags, BoSyncType, Device, Feature, GpuVa, Mapping, Vm, VmBindOpFlags,
};
pub use panthor_watchdog::{BufferRange, GpuAddress};

/// No buffer crosses a multiple of this, so that the high word of all its addresses is the same: kernels add 32-bit
/// offsets to the low word.
pub const WINDOW: u64 = 1 << 32;

/// Unmapped bytes after every buffer, so that an access beyond its end faults instead of reaching a neighbour.
const GUARD: u64 = 64 << 10;

/// The largest buffer, on any page size: guard and rounding lie in its window too.
pub const MAX_BUFFER: u64 = WINDOW - 2 * GUARD;

/// Where addresses begin: truncated or null pointers of the first window fault.
const FIRST: u64 = WINDOW;

/// What can go wrong with memory.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MemoryError {
    /// The address space has no hole of this size.
    #[error(
        "out of GPU address space: {what} needs {size} bytes, the largest hole of the {range:#x}-byte VM is {largest}; use a smaller model or batch"
    )]
    AddressSpace {
        /// The buffer's name.
        what: String,
        /// Bytes wanted.
        size: u64,
        /// The VM's size.
        range: u64,
        /// The largest hole.
        largest: u64,
    },
    /// The driver did not give the memory.
    #[error(
        "allocation of {size} bytes for {what} failed: {error}; free memory or use a smaller model or batch"
    )]
    Allocation {
        /// The buffer's name.
        what: String,
        /// Bytes wanted.
        size: u64,
        /// The driver's answer.
        error: panthor_uapi::Error,
    },
    /// A buffer larger than the window that kernels can address.
    #[error(
        "{what} needs {size} bytes, one buffer can have {MAX_BUFFER} at most; use a smaller shape"
    )]
    TooLarge {
        /// The buffer's name.
        what: String,
        /// Bytes wanted.
        size: u64,
    },
    /// The cache maintenance failed.
    #[error("syncing {what} failed: {error}")]
    Sync {
        /// The buffer's name.
        what: String,
        /// The driver's answer.
        error: panthor_uapi::Error,
    },
}

/// Hands out GPU addresses: first fit, lowest address, so that the same requests give the same addresses.
#[derive(Debug)]
pub struct VaSpace {
    holes: BTreeMap<u64, u64>,
    range: u64,
    page: u64,
}

impl VaSpace {
    /// The addresses below `range` (as the driver reports it), in units of `page` bytes. A range within one window is
    /// used from its first page but one; a larger one from the second window on.
    #[must_use]
    pub fn new(range: u64, page: u64) -> Self {
        let page = page.max(4096).next_power_of_two();
        let first = if range > 2 * FIRST { FIRST } else { page };
        let mut holes = BTreeMap::new();
        if range > first {
            holes.insert(first, range - first);
        }
        Self { holes, range, page }
    }

    fn place(&self, start: u64, length: u64, total: u64) -> Option<u64> {
        let fits = |at: u64| {
            at.checked_add(total)
                .is_some_and(|end| end <= start + length)
                && at / WINDOW == (at + total - 1) / WINDOW
        };
        let at = start.next_multiple_of(self.page);
        if fits(at) {
            return Some(at);
        }
        let window = start.next_multiple_of(WINDOW);
        fits(window).then_some(window)
    }

    /// Takes `size` bytes (rounded up to pages) and a guard behind them.
    ///
    /// # Errors
    /// [`MemoryError::AddressSpace`], [`MemoryError::TooLarge`].
    pub fn take(&mut self, what: &str, size: u64) -> Result<GpuAddress, MemoryError> {
        let too_large = || MemoryError::TooLarge {
            what: what.to_owned(),
            size,
        };
        if size == 0 || size > MAX_BUFFER.min(WINDOW - GUARD - self.page) {
            return Err(too_large());
        }
        let total = self.total(size);
        let found = self.holes.iter().find_map(|(start, length)| {
            Some((*start, *length, self.place(*start, *length, total)?))
        });
        let Some((start, length, at)) = found else {
            let largest = self.holes.values().copied().max().unwrap_or(0);
            return Err(MemoryError::AddressSpace {
                what: what.to_owned(),
                size,
                range: self.range,
                largest,
            });
        };
        self.holes.remove(&start);
        if at > start {
            self.holes.insert(start, at - start);
        }
        let (end, hole_end) = (at + total, start + length);
        if end < hole_end {
            self.holes.insert(end, hole_end - end);
        }
        Ok(GpuAddress(at))
    }

    /// Gives back what [`VaSpace::take`] gave for the same size.
    pub fn give_back(&mut self, at: GpuAddress, size: u64) {
        let (mut start, mut end) = (at.0, at.0 + self.total(size));
        if let Some((before, length)) = self.holes.range(..start).next_back().map(|(s, l)| (*s, *l))
        {
            if before + length == start {
                self.holes.remove(&before);
                start = before;
            }
        }
        if let Some(length) = self.holes.remove(&end) {
            end += length;
        }
        self.holes.insert(start, end - start);
    }

    fn total(&self, size: u64) -> u64 {
        size.next_multiple_of(self.page) + GUARD.next_multiple_of(self.page)
    }
}

/// What a buffer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Use {
    /// Shader code: the GPU may execute and not write it.
    Code,
    /// Data: the GPU may not execute it.
    Data,
    /// Words that the CPU watches while the GPU works: not cached by the GPU, not executable.
    Markers,
}

impl Use {
    fn bind_flags(self) -> VmBindOpFlags {
        match self {
            Use::Code => VmBindOpFlags::MAP_READONLY,
            Use::Data => VmBindOpFlags::MAP_NOEXEC,
            Use::Markers => VmBindOpFlags::MAP_NOEXEC | VmBindOpFlags::MAP_UNCACHED,
        }
    }
}

struct Shared {
    device: Device,
    vm: Vm,
    addresses: Mutex<VaSpace>,
}

/// The memory of one VM. Cheap to clone; the VM lives as long as a clone or a buffer does.
#[derive(Clone)]
pub struct Memory(Arc<Shared>);

impl std::fmt::Debug for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Memory({:?})", self.0.vm)
    }
}

impl Memory {
    /// A VM with all the user addresses that the driver gives.
    ///
    /// # Errors
    /// The driver's.
    pub fn new(device: &Device) -> Result<Self, panthor_uapi::Error> {
        let vm = device.create_vm(0)?;
        let page = device.gpu_page_size()?.max(device.page_size() as u64);
        let addresses = Mutex::new(VaSpace::new(vm.user_va_range(), page));
        Ok(Self(Arc::new(Shared {
            device: device.clone(),
            vm,
            addresses,
        })))
    }

    /// The VM.
    #[must_use]
    pub fn vm(&self) -> &Vm {
        &self.0.vm
    }

    /// Creates, names, maps and binds a buffer. Cached on the CPU where the driver can sync it (1.7), write-combined
    /// otherwise. Its content is zero (the kernel clears memory that it gives).
    ///
    /// # Errors
    /// [`MemoryError`].
    pub fn allocate(&self, what: &str, size: u64, r#use: Use) -> Result<Buffer, MemoryError> {
        let failed = |error| MemoryError::Allocation {
            what: what.to_owned(),
            size,
            error,
        };
        let shared = &self.0;
        let lock = || {
            shared
                .addresses
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
        };
        let va = lock().take(what, size)?;
        let give_back = |error| {
            lock().give_back(va, size);
            failed(error)
        };
        let cached = r#use != Use::Markers && shared.device.has(Feature::BoSync);
        let flags = if cached {
            BoFlags::WB_MMAP
        } else {
            BoFlags::empty()
        };
        let bo = shared
            .device
            .create_bo(size, flags, Some(&shared.vm))
            .map_err(give_back)?;
        bo.set_label(what).map_err(give_back)?;
        let mapping = bo.map().map_err(give_back)?;
        let bind_flags = r#use.bind_flags();
        shared
            .vm
            .bind(&[BindOp::map(&bo, 0, GpuVa(va.0), bo.size(), bind_flags)])
            .map_err(give_back)?;
        Ok(Buffer {
            memory: self.clone(),
            what: what.to_owned(),
            bo,
            mapping,
            va,
            size,
            bind_flags,
            cached,
        })
    }
}

/// A buffer object with its mapping and its place in the VM. Unbound and closed when dropped.
#[derive(Debug)]
pub struct Buffer {
    memory: Memory,
    what: String,
    bo: Bo,
    mapping: Mapping,
    va: GpuAddress,
    size: u64,
    bind_flags: VmBindOpFlags,
    cached: bool,
}

impl Buffer {
    /// Its first byte for the GPU.
    #[must_use]
    pub const fn address(&self) -> GpuAddress {
        self.va
    }

    /// Bytes asked for.
    #[must_use]
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// What it was allocated for.
    #[must_use]
    pub fn what(&self) -> &str {
        &self.what
    }

    /// Bytes that are mapped: its size in whole pages.
    #[must_use]
    pub fn mapped_size(&self) -> u64 {
        self.bo.size()
    }

    /// The flags that it is bound with.
    #[must_use]
    pub const fn bind_flags(&self) -> VmBindOpFlags {
        self.bind_flags
    }

    /// Part of it, as jobs name their inputs and outputs.
    #[must_use]
    pub const fn range(&self, offset: u64, size: u64) -> BufferRange {
        BufferRange {
            start: self.va.offset(offset),
            size,
        }
    }

    /// Copies bytes in; the GPU sees them after [`Buffer::publish`].
    ///
    /// # Panics
    /// Beyond the buffer, as for a slice.
    pub fn write(&self, offset: u64, bytes: &[u8]) {
        self.mapping.write(index(offset), bytes);
    }

    /// Copies 32-bit words in, little-endian; the GPU sees them after [`Buffer::publish`].
    ///
    /// # Panics
    /// Beyond the buffer or misaligned.
    pub fn write_words(&self, offset: u64, words: &[u32]) {
        for (i, word) in words.iter().enumerate() {
            self.mapping.write_u32(index(offset) + 4 * i, *word);
        }
    }

    /// Sets bytes to zero; the GPU sees it after [`Buffer::publish`].
    ///
    /// # Panics
    /// Beyond the buffer.
    pub fn clear(&self, offset: u64, size: u64) {
        self.mapping.fill(index(offset)..index(offset + size), 0);
    }

    /// Makes what the CPU wrote visible to the GPU.
    ///
    /// # Errors
    /// [`MemoryError::Sync`].
    pub fn publish(&self, offset: u64, size: u64) -> Result<(), MemoryError> {
        self.sync(BoSyncType::Flush, offset, size)
    }

    /// Makes what the GPU wrote (and its stream flushed) visible to the CPU.
    ///
    /// # Errors
    /// [`MemoryError::Sync`].
    pub fn fetch(&self, offset: u64, size: u64) -> Result<(), MemoryError> {
        self.sync(BoSyncType::FlushAndInvalidate, offset, size)
    }

    fn sync(&self, kind: BoSyncType, offset: u64, size: u64) -> Result<(), MemoryError> {
        if !self.cached || size == 0 {
            // Write-combined memory is not read through a cache; the submitting ioctl orders the writes.
            return Ok(());
        }
        self.bo
            .sync(kind, offset, size)
            .map_err(|error| MemoryError::Sync {
                what: self.what.clone(),
                error,
            })
    }

    /// Copies bytes out, as they are after [`Buffer::fetch`].
    ///
    /// # Panics
    /// Beyond the buffer.
    pub fn read(&self, offset: u64, bytes: &mut [u8]) {
        self.mapping.read(index(offset), bytes);
    }

    /// A 64-bit word, for markers.
    ///
    /// # Panics
    /// Beyond the buffer or misaligned.
    #[must_use]
    pub fn read_u64(&self, offset: u64) -> u64 {
        self.mapping.read_u64(index(offset))
    }
}

/// Offsets within a mapping fit the CPU's addresses, since the whole mapping does; a larger one lies beyond it.
fn index(offset: u64) -> usize {
    usize::try_from(offset).unwrap_or(usize::MAX)
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let shared = &self.memory.0;
        match shared
            .vm
            .bind(&[BindOp::unmap(GpuVa(self.va.0), self.bo.size())])
        {
            Ok(()) => {
                let mut addresses = shared
                    .addresses
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner);
                addresses.give_back(self.va, self.size);
            }
            // The addresses stay taken: something may still be mapped there.
            Err(error) => log::warn!("unmapping {}: {error}", self.what),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn addresses_begin_beyond_the_first_window_and_repeat() {
        let mut a = VaSpace::new(1 << 47, 4096);
        let mut b = VaSpace::new(1 << 47, 4096);
        for size in [1, 4096, 100_000, 3 << 30, 3 << 30] {
            let at = a.take("x", size).unwrap();
            assert!(at.0 >= WINDOW && at.is_aligned(4096));
            assert_eq!(at, b.take("x", size).unwrap());
        }
    }

    #[test]
    fn a_full_space_and_a_huge_buffer_have_names() {
        let mut space = VaSpace::new(1 << 20, 4096);
        let error = space.take("weights of layer 3", 2 << 20).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("out of GPU address space: weights of layer 3"),
            "{error}"
        );
        let error = VaSpace::new(1 << 47, 4096)
            .take("all", 1 << 32)
            .unwrap_err();
        assert!(matches!(error, MemoryError::TooLarge { .. }));
    }

    proptest! {
        #[test]
        fn buffers_never_overlap_nor_cross_a_window(
            ops in prop::collection::vec((0u64..3, 1u64..(2 << 30)), 1..60)
        ) {
            let mut space = VaSpace::new(1 << 36, 16384);
            let whole = space.holes.clone();
            let mut held: Vec<(u64, u64)> = vec![];
            for (op, size) in ops {
                if op == 0 && !held.is_empty() {
                    let (at, size) = held.swap_remove(size as usize % held.len());
                    space.give_back(GpuAddress(at), size);
                } else if let Ok(GpuAddress(at)) = space.take("x", size) {
                    prop_assert_eq!(at / WINDOW, (at + size + GUARD - 1) / WINDOW);
                    for (other, other_size) in &held {
                        prop_assert!(at >= other + other_size + GUARD || *other >= at + size + GUARD);
                    }
                    held.push((at, size));
                }
            }
            for (at, size) in held {
                space.give_back(GpuAddress(at), size);
            }
            prop_assert_eq!(space.holes, whole);
        }
    }
}
