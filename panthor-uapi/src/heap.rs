//! Tiler heaps: memory that tiler jobs grow into. Compute needs none.

use crate::device::Device;
use crate::error::{Error, Object};
use crate::sys::panthor::*;
use crate::vm::{GpuVa, Vm};

/// A new tiler heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TilerHeapConfig {
    /// Chunks at the start, at least 1.
    pub initial_chunk_count: u32,
    /// Bytes of a chunk: whole pages, 128 KiB to 8 MiB.
    pub chunk_size: u32,
    /// Most chunks, at least `initial_chunk_count`.
    pub max_chunks: u32,
    /// Most render passes in flight.
    pub target_in_flight: u32,
}

/// A tiler heap. Destroyed when dropped.
#[derive(Debug)]
pub struct TilerHeap {
    vm: Vm,
    handle: u32,
    context: GpuVa,
    first_chunk: GpuVa,
}

impl Device {
    /// Creates a tiler heap in `vm`.
    ///
    /// # Errors
    /// [`Error::Call`]: EINVAL, ENOMEM.
    pub fn create_tiler_heap(&self, vm: &Vm, config: &TilerHeapConfig) -> Result<TilerHeap, Error> {
        let mut args = drm_panthor_tiler_heap_create {
            vm_id: vm.id(),
            initial_chunk_count: config.initial_chunk_count,
            chunk_size: config.chunk_size,
            max_chunks: config.max_chunks,
            target_in_flight: config.target_in_flight,
            ..Default::default()
        };
        // SAFETY: no pointers inside.
        unsafe {
            self.0
                .call(DRM_IOCTL_PANTHOR_TILER_HEAP_CREATE, &mut args, || {
                    vm.object()
                })?
        };
        Ok(TilerHeap {
            vm: vm.clone(),
            handle: args.handle,
            context: GpuVa(args.tiler_heap_ctx_gpu_va),
            first_chunk: GpuVa(args.first_heap_chunk_gpu_va),
        })
    }
}

impl TilerHeap {
    /// The heap's handle.
    pub fn handle(&self) -> u32 {
        self.handle
    }

    /// Where its context lies.
    pub fn context(&self) -> GpuVa {
        self.context
    }

    /// Where its first chunk lies.
    pub fn first_chunk(&self) -> GpuVa {
        self.first_chunk
    }
}

impl Drop for TilerHeap {
    fn drop(&mut self) {
        let mut args = drm_panthor_tiler_heap_destroy {
            handle: self.handle,
            pad: 0,
        };
        let object = || Object::TilerHeap(self.handle);
        // SAFETY: no pointers inside.
        let result = unsafe {
            self.vm
                .device()
                .call(DRM_IOCTL_PANTHOR_TILER_HEAP_DESTROY, &mut args, object)
        };
        if let Err(error) = result {
            log::warn!("{error}");
        }
    }
}
