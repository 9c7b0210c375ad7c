//! Buffer objects (`panthor_gem.c`): memory that clients map and the GPU is given.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use panthor_uapi::Errno;

use super::options::Kernel;
use super::ram::{Block, Ram};

/// `DRM_PANTHOR_BO_NO_MMAP`.
pub const BO_NO_MMAP: u32 = 1 << 0;
/// `DRM_PANTHOR_BO_WB_MMAP`.
pub const BO_WB_MMAP: u32 = 1 << 1;

/// `DRM_PANTHOR_BO_SYNC_CPU_CACHE_FLUSH`.
const SYNC_FLUSH: u32 = 0;
/// `DRM_PANTHOR_BO_SYNC_CPU_CACHE_FLUSH_AND_INVALIDATE`.
const SYNC_FLUSH_AND_INVALIDATE: u32 = 1;

/// Bytes in a line of the CPU's caches (RK3588's Cortex-A76 and A55: `CTR_EL0` says 64).
pub const CPU_LINE: u64 = 64;

/// First page offset of GEM objects in a node's file (`drm_vma_manager.h`: DRM_FILE_PAGE_OFFSET_START, in bytes).
pub const MMAP_START: u64 = 1 << 32;
/// Bytes of file offsets for GEM objects (DRM_FILE_PAGE_OFFSET_SIZE with 64-bit longs: 256 × 4 GiB).
pub const MMAP_SIZE: u64 = 256 << 32;

/// A buffer object.
#[derive(Debug)]
pub struct Bo {
    /// Size in bytes, whole CPU pages.
    pub size: u64,
    /// `DRM_PANTHOR_BO_*`.
    pub flags: u32,
    /// Serial number of the only VM that may map it.
    pub exclusive_vm: Option<u64>,
    /// File offset for mapping it.
    pub mmap_offset: u64,
    block: Block,
    cpu: Option<Mutex<CpuCache>>,
    label: Mutex<Option<Vec<u8>>>,
    offsets: Arc<OffsetSpace>,
}

/// What the CPU's caches hold of a buffer that is mapped cacheable.
///
/// The worst case of a CPU without coherency: the caches hold the whole buffer and write nothing back unasked. `view`
/// is what clients map; `base` is the state at the last synchronisation, so that a line is dirty where the two differ.
#[derive(Debug)]
struct CpuCache {
    view: Block,
    base: Block,
    mapped: bool,
}

/// What a synchronisation met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SyncReport {
    /// Lines written back.
    pub cleaned: u64,
    /// Lines written back over data that the GPU had written meanwhile.
    pub overwritten: u64,
}

impl Bo {
    /// Creates an object of `size` bytes (whole pages).
    ///
    /// Linux 6.12 takes the pages at once, 7.x when they are first mapped.
    pub fn new(
        ram: &Arc<Ram>,
        offsets: &Arc<OffsetSpace>,
        kernel: Kernel,
        size: u64,
        flags: u32,
        exclusive_vm: Option<u64>,
    ) -> Result<Self, Errno> {
        let mmap_offset = offsets.take(size)?;
        let give_back = |errno| {
            offsets.give_back(size);
            errno
        };
        let block = ram.block(size).map_err(give_back)?;
        let cpu = if flags & BO_WB_MMAP != 0 {
            // The CPU's caches are no memory of the device: their copies are not charged.
            let view = ram.block(size).map_err(give_back)?;
            let base = ram.block(size).map_err(give_back)?;
            Some(Mutex::new(CpuCache {
                view,
                base,
                mapped: false,
            }))
        } else {
            None
        };
        let offsets = offsets.clone();
        let bo = Self {
            size,
            flags,
            exclusive_vm,
            mmap_offset,
            block,
            cpu,
            label: Mutex::default(),
            offsets,
        };
        if !kernel.is_7x() {
            bo.pin()?;
        }
        Ok(bo)
    }

    /// Takes the object's pages: ENOMEM where there are none (`panthor_gem_pin`).
    pub fn pin(&self) -> Result<(), Errno> {
        self.block.charge()
    }

    /// The memory that the GPU sees.
    pub fn memory(&self) -> &Block {
        &self.block
    }

    fn cpu(&self) -> Option<MutexGuard<'_, CpuCache>> {
        self.cpu
            .as_ref()
            .map(|cpu| cpu.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Maps the whole object or its beginning for a client.
    pub fn map(
        &self,
        len: usize,
        page_size: usize,
        prot: panthor_uapi::Prot,
    ) -> Result<std::ptr::NonNull<u8>, Errno> {
        self.pin()?;
        match self.cpu() {
            Some(mut cpu) => {
                cpu.mapped = true;
                cpu.view.map(0, len, page_size, prot)
            }
            None => self.block.map(0, len, page_size, prot),
        }
    }

    /// Synchronises the CPU's caches with memory (`panthor_gem_sync`): dirty lines of the range are written back, and
    /// with `type` 1 the range is then read anew.
    ///
    /// # Errors
    /// EINVAL for a range outside the object or an unknown type.
    pub fn sync(&self, kind: u32, offset: u64, size: u64) -> Result<SyncReport, Errno> {
        let end = offset
            .checked_add(size)
            .filter(|&end| end <= self.size)
            .ok_or(Errno::INVAL)?;
        if kind != SYNC_FLUSH && kind != SYNC_FLUSH_AND_INVALIDATE {
            return Err(Errno::INVAL);
        }
        let mut report = SyncReport::default();
        let Some(cpu) = self.cpu().filter(|cpu| cpu.mapped) else {
            return Ok(report);
        };
        if size == 0 {
            return Ok(report);
        }
        let (start, end) = (
            offset & !(CPU_LINE - 1),
            end.next_multiple_of(CPU_LINE).min(self.size),
        );
        const CHUNK: usize = 16384;
        let (mut view, mut base, mut memory) = (vec![0; CHUNK], vec![0; CHUNK], vec![0; CHUNK]);
        let mut at = start;
        while at < end {
            let n = ((end - at) as usize).min(CHUNK);
            let (view, base, memory) = (&mut view[..n], &mut base[..n], &mut memory[..n]);
            cpu.view.read(at, view)?;
            cpu.base.read(at, base)?;
            if view != base {
                self.block.read(at, memory)?;
                let lines = CPU_LINE as usize;
                for from in (0..n).step_by(lines) {
                    let line = from..(from + lines).min(n);
                    if view[line.clone()] != base[line.clone()] {
                        report.cleaned += 1;
                        report.overwritten += u64::from(memory[line.clone()] != base[line.clone()]);
                        self.block
                            .write(at + line.start as u64, &view[line.clone()])?;
                        cpu.base.write(at + line.start as u64, &view[line])?;
                    }
                }
            }
            if kind == SYNC_FLUSH_AND_INVALIDATE {
                self.block.read(at, memory)?;
                if memory != view {
                    cpu.view.write(at, memory)?;
                    cpu.base.write(at, memory)?;
                }
            }
            at += n as u64;
        }
        Ok(report)
    }

    /// The lines of the 4 KiB at `offset` that the CPU has written and no synchronisation has brought to memory, bit
    /// `n` for those from 64 `n` on.
    pub fn cpu_dirty(&self, offset: u64) -> u64 {
        const LINE: usize = CPU_LINE as usize;
        let Some(cpu) = self.cpu().filter(|cpu| cpu.mapped) else {
            return 0;
        };
        let (mut view, mut base) = ([0; 64 * LINE], [0; 64 * LINE]);
        if cpu.view.read(offset, &mut view).is_err() || cpu.base.read(offset, &mut base).is_err() {
            return 0;
        }
        if view == base {
            return 0;
        }
        let lines = view.chunks(LINE).zip(base.chunks(LINE)).enumerate();
        lines.fold(0, |mask, (line, (view, base))| {
            mask | u64::from(view != base) << line
        })
    }

    /// Sets or takes away the label.
    pub fn set_label(&self, label: Option<Vec<u8>>) {
        *self.label.lock().unwrap_or_else(PoisonError::into_inner) = label;
    }

    /// The label.
    pub fn label(&self) -> Option<Vec<u8>> {
        self.label
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl Drop for Bo {
    fn drop(&mut self) {
        self.offsets.give_back(self.size);
    }
}

/// The file offsets that stand for buffer objects. Offsets are not used again; what is given back counts as room.
#[derive(Debug)]
pub struct OffsetSpace {
    next: AtomicU64,
    used: AtomicU64,
}

impl Default for OffsetSpace {
    fn default() -> Self {
        Self {
            next: AtomicU64::new(MMAP_START),
            used: AtomicU64::new(0),
        }
    }
}

impl OffsetSpace {
    /// Room for `size` bytes: ENOSPC where there is none, or for nothing at all (`drm_mm_insert_node`).
    fn take(&self, size: u64) -> Result<u64, Errno> {
        let fits = |used: u64| {
            used.checked_add(size)
                .filter(|&sum| size > 0 && sum <= MMAP_SIZE)
        };
        self.used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits)
            .map_err(|_| Errno::NOSPC)?;
        // The numbers stay below the offsets of the user MMIO pages for longer than any process lives.
        Ok(self
            .next
            .fetch_add(size.next_multiple_of(1 << 16), Ordering::Relaxed))
    }

    fn give_back(&self, size: u64) {
        self.used.fetch_sub(size, Ordering::Relaxed);
    }
}

/// A dma-buf: a buffer object as a file.
#[derive(Clone, Debug)]
pub struct DmaBuf {
    /// The object.
    pub bo: Arc<Bo>,
    /// Whether it was exported with `DRM_RDWR`.
    pub writable: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use panthor_uapi::Prot;

    fn bo(flags: u32) -> Bo {
        let ram = Ram::new(1 << 20).unwrap();
        Bo::new(&ram, &Arc::default(), Kernel::V7_2, 8192, flags, None).unwrap()
    }

    fn client(bo: &Bo) -> &'static mut [u8] {
        let address = bo.map(8192, 4096, Prot::READ | Prot::WRITE).unwrap();
        // SAFETY: the mapping is 8192 bytes long, never undone in these tests, and used by one thread.
        unsafe { std::slice::from_raw_parts_mut(address.as_ptr(), 8192) }
    }

    fn memory(bo: &Bo, offset: u64) -> u8 {
        let mut byte = [0];
        bo.memory().read(offset, &mut byte).unwrap();
        byte[0]
    }

    #[test]
    fn write_combined_mappings_are_the_memory() {
        let bo = bo(0);
        client(&bo)[100] = 7;
        assert_eq!(memory(&bo, 100), 7);
        assert_eq!(bo.cpu_dirty(0), 0);
    }

    #[test]
    fn cached_mappings_need_synchronising_both_ways() {
        let bo = bo(BO_WB_MMAP);
        let cpu = client(&bo);
        cpu[100] = 7;
        assert_eq!(memory(&bo, 100), 0);
        assert_eq!((bo.cpu_dirty(0), bo.cpu_dirty(4096)), (2, 0));
        bo.sync(0, 0, 64).unwrap();
        assert_eq!(memory(&bo, 100), 0, "another line");
        assert_eq!(
            bo.sync(0, 127, 1).unwrap(),
            SyncReport {
                cleaned: 1,
                overwritten: 0
            }
        );
        assert_eq!(memory(&bo, 100), 7);
        // The GPU writes; the CPU sees it only after invalidation, and a clean line does not overwrite it.
        bo.memory().write(200, &[9]).unwrap();
        bo.sync(0, 0, 8192).unwrap();
        assert_eq!((cpu[200], memory(&bo, 200)), (0, 9));
        bo.sync(1, 192, 64).unwrap();
        assert_eq!(cpu[200], 9);
        // Both write to one line: the CPU's wins, and the report says so.
        cpu[300] = 1;
        bo.memory().write(301, &[2]).unwrap();
        assert_eq!(
            bo.sync(1, 256, 64).unwrap(),
            SyncReport {
                cleaned: 1,
                overwritten: 1
            }
        );
        assert_eq!((memory(&bo, 300), memory(&bo, 301)), (1, 0));
    }

    #[test]
    fn synchronising_checks_its_range() {
        let bo = bo(BO_WB_MMAP);
        assert_eq!(bo.sync(0, 8192, 1), Err(Errno::INVAL));
        assert_eq!(bo.sync(0, u64::MAX, 2), Err(Errno::INVAL));
        assert_eq!(bo.sync(2, 0, 1), Err(Errno::INVAL));
        bo.sync(1, 8192, 0).unwrap();
    }

    #[test]
    fn offsets_run_out() {
        let ram = Ram::new(1 << 20).unwrap();
        let offsets = Arc::default();
        let new = |size| Bo::new(&ram, &offsets, Kernel::V7_2, size, 0, None);
        assert_eq!(new(MMAP_SIZE + 4096).err(), Some(Errno::NOSPC));
        assert_eq!(new(0).err(), Some(Errno::NOSPC));
        let all = new(MMAP_SIZE).unwrap();
        assert_eq!(new(4096).err(), Some(Errno::NOSPC));
        drop(all);
        new(4096).unwrap();
    }
}
