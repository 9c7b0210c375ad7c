//! Tiler heaps (`panthor_heap.c`). No job here tiles anything, but the ioctls answer as the driver does.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use panthor_uapi::Errno;

use super::gem::{BO_NO_MMAP, Bo};
use super::vm::{MAP_NOEXEC, Vm};

/// `MAX_HEAPS_PER_POOL`.
const MAX_HEAPS: u32 = 128;
/// Bytes of a heap context (`HEAP_CONTEXT_SIZE` in a cache line of the GPU's L2).
const CONTEXT_STRIDE: u64 = 64;
const MIN_CHUNK: u32 = 128 << 10;
const MAX_CHUNK: u32 = 8 << 20;

/// The heaps of one VM.
#[derive(Debug)]
pub struct HeapPool {
    contexts: KernelBo,
    heaps: BTreeMap<u32, Vec<KernelBo>>,
}

/// An object of the driver's own, mapped in a client's VM.
#[derive(Debug)]
pub struct KernelBo {
    /// The object.
    pub bo: Arc<Bo>,
    /// Its GPU address.
    pub va: u64,
    vm: Weak<Vm>,
}

impl KernelBo {
    /// Maps `bo` in `vm`.
    pub fn new(vm: &Arc<Vm>, bo: Bo, flags: u32) -> Result<Self, Errno> {
        let bo = Arc::new(bo);
        let va = vm.map_kernel(&bo, flags)?;
        Ok(Self {
            bo,
            va,
            vm: Arc::downgrade(vm),
        })
    }
}

impl Drop for KernelBo {
    fn drop(&mut self) {
        if let Some(vm) = self.vm.upgrade().filter(|vm| !vm.is_destroyed()) {
            vm.unmap_kernel(self.va, self.bo.size);
        }
    }
}

/// What `TILER_HEAP_CREATE` asks for.
#[derive(Clone, Copy, Debug)]
pub struct HeapRequest {
    /// Chunks to allocate at once.
    pub initial_chunk_count: u32,
    /// Bytes in a chunk.
    pub chunk_size: u32,
    /// The most chunks.
    pub max_chunks: u32,
}

impl HeapRequest {
    /// `panthor_heap_create`'s checks.
    pub fn check(&self, page_size: usize) -> Result<(), Errno> {
        let sized = (MIN_CHUNK..=MAX_CHUNK).contains(&self.chunk_size);
        let good = self.initial_chunk_count != 0
            && self.initial_chunk_count <= self.max_chunks
            && self.chunk_size as usize % page_size == 0
            && sized;
        if good { Ok(()) } else { Err(Errno::INVAL) }
    }
}

impl HeapPool {
    /// An empty pool.
    pub fn new(
        vm: &Arc<Vm>,
        new_bo: &dyn Fn(u64, u32) -> Result<Bo, Errno>,
    ) -> Result<Self, Errno> {
        let bo = new_bo(u64::from(MAX_HEAPS) * CONTEXT_STRIDE, BO_NO_MMAP)?;
        Ok(Self {
            contexts: KernelBo::new(vm, bo, MAP_NOEXEC)?,
            heaps: BTreeMap::new(),
        })
    }

    /// Creates a heap: its number, the address of its context, that of its first chunk.
    pub fn create(
        &mut self,
        vm: &Arc<Vm>,
        request: &HeapRequest,
        new_bo: &dyn Fn(u64, u32) -> Result<Bo, Errno>,
    ) -> Result<(u32, u64, u64), Errno> {
        let mut chunks: Vec<KernelBo> = Vec::new();
        for _ in 0..request.initial_chunk_count {
            let bo = new_bo(u64::from(request.chunk_size), BO_NO_MMAP)?;
            let chunk = KernelBo::new(vm, bo, MAP_NOEXEC)?;
            if let Some(previous) = chunks.last() {
                let next = (previous.va & !0xfff) | u64::from(request.chunk_size >> 12);
                chunk.bo.memory().write_unmapped(0, &next.to_le_bytes())?;
            }
            chunks.push(chunk);
        }
        let first = chunks.last().map_or(0, |chunk| chunk.va);
        let id = (0..MAX_HEAPS)
            .find(|id| !self.heaps.contains_key(id))
            .ok_or(Errno::BUSY)?;
        self.heaps.insert(id, chunks);
        Ok((id, self.contexts.va + u64::from(id) * CONTEXT_STRIDE, first))
    }

    /// Destroys a heap.
    pub fn destroy(&mut self, id: u32) -> Result<(), Errno> {
        let mut chunks = self.heaps.remove(&id).ok_or(Errno::INVAL)?;
        // The newest first (`panthor_free_heap_chunks`).
        while chunks.pop().is_some() {}
        Ok(())
    }
}
