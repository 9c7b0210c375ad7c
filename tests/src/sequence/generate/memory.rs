//! VMs, buffer objects, binds, tiler heaps, queries.

use std::mem::offset_of;

use panthor_uapi::sys::drm;
use panthor_uapi::sys::panthor::*;

use super::super::{Buffer, Call, StepId, Value};
use super::state::{Bo, BoundMap, Code, Handle, Vm};
use super::{ARRAY, Generator, array, buffer, elements};

/// Bytes in a GPU page.
pub const PAGE: u64 = 4096;
/// Bytes in a large one.
const LARGE: u64 = 2 << 20;
/// Where streams lie in a VM that has memory for them.
pub const CODE: u64 = 0x8000_0000;
/// Bytes of it.
pub const CODE_SIZE: u64 = 64 << 10;
/// Where what streams write lies.
pub const DATA: u64 = 0x9000_0000;
/// Bytes of it.
pub const DATA_SIZE: u64 = 16 << 10;
/// Where the generator maps and unmaps at random: pages from here on, often over one another.
const FIELD: u64 = 0x10_0000;

const NO_MMAP: u32 = 1;
const WB_MMAP: u32 = 2;
const READONLY: u32 = 1;
const NOEXEC: u32 = 2;
const UNCACHED: u32 = 4;
const SPARSE: u32 = 8;
const UNMAP: u32 = 1 << 28;
const SYNC_ONLY: u32 = 2 << 28;
const ASYNC: u32 = 1;

/// A dma-buf.
#[derive(Clone, Copy, Debug)]
pub struct DmaBuf {
    /// The call that gave it.
    pub step: StepId,
    /// Bytes.
    pub size: u64,
}

impl Generator {
    // ---- VMs

    pub(super) fn vm_create(&mut self, file: usize, spoil: bool) -> Handle {
        let range = match self.rng.below(10) {
            _ if !spoil => 0,
            0..=3 => 0,
            4 => 1 << 47,
            5 => (1 << 48) - (256 << 20),
            6 => (1 << 48) - (256 << 20) + 1,
            7 => u64::MAX,
            8 => 1 << 32,
            _ => 12345,
        };
        let args = drm_panthor_vm_create {
            user_va_range: range,
            ..Default::default()
        };
        let fd = self.files[file].step;
        let percent = if spoil { 20 } else { 0 };
        let (step, _) = self.maybe(
            fd,
            DRM_IOCTL_PANTHOR_VM_CREATE,
            vec![buffer(&args)],
            percent,
        );
        let handle = Handle {
            step,
            at: offset_of!(drm_panthor_vm_create, id),
        };
        self.files[file].vms.push(Vm {
            handle,
            code: None,
            mapped: Vec::new(),
        });
        handle
    }

    pub(super) fn some_vm(&mut self, file: usize) -> Option<Handle> {
        let vms = &self.files[file].vms;
        let first = vms.first()?.handle;
        let at = self.rng.below(vms.len() as u64) as usize;
        let other = self.files[file].vms[at].handle;
        Some(if self.rng.percent(50) { first } else { other })
    }

    pub(super) fn vm_destroy(&mut self, file: usize) {
        let vm = self.some_vm(file).filter(|_| self.destroys);
        let Some(vm) = vm else { return };
        self.settle();
        let mut args = buffer(&drm_panthor_vm_destroy::default());
        args.handle(offset_of!(drm_panthor_vm_destroy, id), vm);
        let fd = self.files[file].step;
        let (_, spoilt) = self.maybe(fd, DRM_IOCTL_PANTHOR_VM_DESTROY, vec![args], 25);
        if !spoilt {
            let state = &mut self.files[file];
            state.vms.retain(|other| other.handle != vm);
            state.dead.push(vm);
            // Whatever still runs on it loses its memory.
            for group in &mut state.groups {
                group.dead |= group.vm == vm;
            }
        }
        // What runs there may fault now, or be blocked for good.
        self.jobs = true;
        self.doom = true;
    }

    pub(super) fn ask_vm(&mut self, fd: StepId, vm: Handle) {
        let mut args = buffer(&drm_panthor_vm_get_state::default());
        args.handle(offset_of!(drm_panthor_vm_get_state, vm_id), vm);
        self.clean(fd, DRM_IOCTL_PANTHOR_VM_GET_STATE, vec![args]);
    }

    pub(super) fn vm_get_state(&mut self, file: usize) {
        let Some(vm) = self.some_vm(file) else { return };
        self.settle();
        let mut args = buffer(&drm_panthor_vm_get_state::default());
        args.handle(offset_of!(drm_panthor_vm_get_state, vm_id), vm);
        let fd = self.files[file].step;
        self.maybe(fd, DRM_IOCTL_PANTHOR_VM_GET_STATE, vec![args], 30);
    }

    // ---- buffer objects

    fn new_bo(
        &mut self,
        file: usize,
        size: u64,
        flags: u32,
        vm: Option<Handle>,
        percent: u64,
    ) -> Bo {
        let args = drm_panthor_bo_create {
            size,
            flags,
            ..Default::default()
        };
        let mut args = buffer(&args);
        if let Some(vm) = vm {
            args.handle(offset_of!(drm_panthor_bo_create, exclusive_vm_id), vm);
        }
        let fd = self.files[file].step;
        let (step, _) = self.maybe(fd, DRM_IOCTL_PANTHOR_BO_CREATE, vec![args], percent);
        let handle = Handle {
            step,
            at: offset_of!(drm_panthor_bo_create, handle),
        };
        let bo = Bo {
            handle,
            size: size.checked_next_multiple_of(PAGE).unwrap_or(0),
            flags,
            exclusive: vm,
        };
        self.files[file].bos.push(bo);
        bo
    }

    pub(super) fn bo_create(&mut self, file: usize) {
        let size = match self.rng.below(20) {
            0 => 0,
            1 => 1,
            2 => u64::MAX,
            3 => 1 << 63,
            4 => PAGE + 1,
            5..=6 => LARGE,
            _ => PAGE * (1 + self.rng.below(16)),
        };
        let vm = if self.rng.percent(30) {
            self.some_vm(file)
        } else {
            None
        };
        let cached = if self.kernel.is_7x() && self.rng.percent(25) {
            WB_MMAP
        } else {
            0
        };
        let flags = if self.rng.percent(10) {
            NO_MMAP
        } else {
            cached
        };
        self.new_bo(file, size, flags, vm, 15);
    }

    pub(super) fn some_bo(&mut self, file: usize) -> Option<Bo> {
        let bos = &self.files[file].bos;
        let at = self.rng.below(bos.len() as u64) as usize;
        bos.get(at).copied()
    }

    /// Asks for the offset of a BO and maps it. The mapping's step.
    fn map_bo(&mut self, file: usize, bo: Bo, percent: u64) -> StepId {
        let fd = self.files[file].step;
        let mut args = buffer(&drm_panthor_bo_mmap_offset::default());
        args.handle(offset_of!(drm_panthor_bo_mmap_offset, handle), bo.handle);
        let (step, _) = self.maybe(fd, DRM_IOCTL_PANTHOR_BO_MMAP_OFFSET, vec![args], percent);
        let offset = Value::Output {
            step,
            at: offset_of!(drm_panthor_bo_mmap_offset, offset),
            width: 8,
        };
        let (len, prot) = match self.rng.below(100) {
            n if n >= percent => (bo.size, 3),
            n => match n % 5 {
                0 => (bo.size + PAGE, 3),
                1 => (0, 3),
                2 => (bo.size, 1),
                3 => (PAGE, 3),
                _ => (bo.size / 2 + 1, 1),
            },
        };
        let map = self.step(Call::Mmap {
            fd,
            offset,
            len,
            prot,
        });
        let cached = bo.flags & WB_MMAP != 0;
        self.maps.push(BoundMap {
            step: map,
            file,
            handle: bo.handle,
            len,
            prot,
            cached,
            is_code: false,
        });
        map
    }

    pub(super) fn bo_map(&mut self, file: usize) {
        let Some(bo) = self.some_bo(file) else { return };
        // Large objects are mapped seldom: hashing them takes time.
        if bo.size <= 16 * PAGE || self.rng.percent(10) {
            self.map_bo(file, bo, 25);
        }
    }

    /// Memory for streams and for what they write, both mapped by the CPU.
    pub(super) fn stream_memory(&mut self, file: usize, vm: Handle) {
        let exclusive = self.rng.percent(50).then_some(vm);
        let code = self.new_bo(file, CODE_SIZE, 0, exclusive, 0);
        let data = self.new_bo(file, DATA_SIZE, 0, exclusive, 0);
        let map = self.map_bo(file, code, 0);
        self.map_bo(file, data, 0);
        if let Some(code_map) = self.maps.iter_mut().find(|known| known.step == map) {
            code_map.is_code = true;
        }
        let op = |bo: Bo, va, flags| {
            let op = drm_panthor_vm_bind_op {
                flags,
                va,
                size: bo.size,
                ..Default::default()
            };
            (op, bo.handle)
        };
        let ops = [op(code, CODE, READONLY), op(data, DATA, NOEXEC | UNCACHED)];
        let values: Vec<_> = ops.iter().map(|(op, _)| *op).collect();
        let mut list = array(&values);
        for (index, (_, handle)) in ops.iter().enumerate() {
            let at = index * size_of::<drm_panthor_vm_bind_op>();
            list.handle(at + offset_of!(drm_panthor_vm_bind_op, bo_handle), *handle);
        }
        let buffers = self.bind_buffers(vm, 0, ops.len(), list, Vec::new());
        let fd = self.files[file].step;
        self.clean(fd, DRM_IOCTL_PANTHOR_VM_BIND, buffers);
        if let Some(vm) = self.files[file].vm(vm) {
            vm.code = Some(Code { map, next: 0 });
        }
    }

    fn bind_buffers(
        &mut self,
        vm: Handle,
        flags: u32,
        count: usize,
        ops: Buffer,
        syncs: Vec<Buffer>,
    ) -> Vec<Buffer> {
        let args = drm_panthor_vm_bind {
            flags,
            ops: elements::<drm_panthor_vm_bind_op>(count),
            ..Default::default()
        };
        let mut args = buffer(&args);
        args.handle(offset_of!(drm_panthor_vm_bind, vm_id), vm);
        args.pointer(offset_of!(drm_panthor_vm_bind, ops) + ARRAY, 1);
        let mut buffers = vec![args, ops];
        buffers.extend(syncs);
        buffers
    }

    /// One random operation and the handle in it.
    fn bind_op(&mut self, file: usize, vm: Handle) -> (drm_panthor_vm_bind_op, Option<Handle>) {
        let known = self.files[file]
            .vm(vm)
            .map(|vm| vm.mapped.clone())
            .unwrap_or_default();
        // Near the end of the user's range as often as in the field.
        let va = match self.rng.below(12) {
            0 => 0,
            1 => (1 << 47) - PAGE * self.rng.below(3),
            2 => LARGE * self.rng.below(4),
            3 => CODE + PAGE * self.rng.below(4),
            _ => FIELD + PAGE * self.rng.below(48),
        };
        let mut op = drm_panthor_vm_bind_op {
            va,
            ..Default::default()
        };
        match self.rng.below(100) {
            0..=59 => {
                let Some(bo) = self.some_bo(file) else {
                    op.flags = UNMAP;
                    op.size = PAGE;
                    return (op, None);
                };
                let pages = bo.size / PAGE;
                let offset = if self.rng.percent(40) {
                    self.rng.below(pages.max(1))
                } else {
                    0
                };
                op.bo_offset = offset * PAGE;
                op.size = match self.rng.below(10) {
                    0 => bo.size,
                    1 => 0,
                    2 => PAGE,
                    _ => PAGE * (1 + self.rng.below((pages - offset.min(pages)).max(1))),
                };
                op.flags = self.rng.below(8) as u32;
                if self.kernel.is_7x() && self.rng.percent(8) {
                    op.flags = SPARSE | NOEXEC;
                    op.bo_offset = 0;
                    op.size = PAGE * (1 + self.rng.below(600));
                    if self.rng.percent(20) {
                        op.flags &= !NOEXEC;
                    }
                    return (op, None);
                }
                (op, Some(bo.handle))
            }
            60..=94 => {
                op.flags = UNMAP;
                op.size = PAGE * (1 + self.rng.below(20));
                if let Some(at) = self.rng.index(known.len()).filter(|_| self.rng.percent(60)) {
                    // A piece of something that is there.
                    let (va, size) = known[at];
                    let pages = (size / PAGE).max(1);
                    op.va = va + PAGE * self.rng.below(pages);
                    op.size = PAGE * (1 + self.rng.below(pages));
                }
                (op, None)
            }
            _ => {
                op.flags = SYNC_ONLY;
                op.va = 0;
                (op, None)
            }
        }
    }

    pub(super) fn vm_bind(&mut self, file: usize) {
        let Some(vm) = self.some_vm(file) else { return };
        let asynchronous = self.rng.percent(35);
        if !asynchronous || self.jobs || self.mode == super::Mode::Racy {
            self.settle();
        }
        let count = 1 + self.rng.below(3) as usize;
        let mut ops = Vec::new();
        let mut handles = Vec::new();
        for _ in 0..count {
            let (op, handle) = self.bind_op(file, vm);
            ops.push(op);
            handles.push(handle);
        }
        let mut syncs = Vec::new();
        let mut filled = Vec::new();
        for op in &mut ops {
            // What is queued has a size: Linux 7.x does not survive a map of nothing (see `hostile::tamed`).
            if asynchronous && op.flags != SYNC_ONLY && op.size == 0 {
                op.size = PAGE;
            }
            let wanted = (asynchronous || self.rng.percent(4)) && syncs.len() < 4;
            if wanted && (op.flags == SYNC_ONLY || self.rng.percent(60)) {
                let (list, count, fills) = self.sync_ops(file, true);
                op.syncs = elements::<drm_panthor_sync_op>(count);
                filled.push(Some(2 + syncs.len()));
                syncs.push(list);
                for (handle, point) in fills {
                    self.filled(file, handle, point);
                }
            } else {
                filled.push(None);
            }
        }
        let mut list = array(&ops);
        for (index, handle) in handles.iter().enumerate() {
            let at = index * size_of::<drm_panthor_vm_bind_op>();
            if let Some(handle) = handle {
                list.handle(at + offset_of!(drm_panthor_vm_bind_op, bo_handle), *handle);
            }
            if let Some(which) = filled[index] {
                list.pointer(
                    at + offset_of!(drm_panthor_vm_bind_op, syncs) + ARRAY,
                    which,
                );
            }
        }
        let flags = if asynchronous { ASYNC } else { 0 };
        let buffers = self.bind_buffers(vm, flags, count, list, syncs);
        let fd = self.files[file].step;
        let (_, spoilt) = self.maybe(fd, DRM_IOCTL_PANTHOR_VM_BIND, buffers, 15);
        self.binds |= asynchronous || spoilt;
        if let Some(vm) = self.files[file].vm(vm) {
            let maps = ops.iter().filter(|op| op.flags >> 28 == 0);
            vm.mapped.extend(maps.map(|op| (op.va, op.size)));
        }
    }

    pub(super) fn bo_label(&mut self, file: usize) {
        let Some(bo) = self.some_bo(file) else { return };
        let mut args = buffer(&drm_panthor_bo_set_label::default());
        args.handle(offset_of!(drm_panthor_bo_set_label, handle), bo.handle);
        let len = self.rng.pick(&[8, 16, 4096, 4104]);
        let mut bytes = vec![b'x'; len];
        if self.rng.percent(85) {
            bytes[len.min(4096) - 1] = 0;
        }
        if self.rng.percent(90) {
            args.pointer(offset_of!(drm_panthor_bo_set_label, label), 1);
        }
        let values = Vec::new();
        let fd = self.files[file].step;
        let buffers = vec![args, Buffer { bytes, values }];
        self.maybe(fd, DRM_IOCTL_PANTHOR_BO_SET_LABEL, buffers, 25);
    }

    /// Brings a cached mapping up to date in both directions. False where that cannot be done any more.
    pub(super) fn fresh(&mut self, map: &BoundMap) -> bool {
        if !map.cached {
            return true;
        }
        let file = &self.files[map.file];
        if !file.open || !file.bos.iter().any(|bo| bo.handle == map.handle) {
            return false;
        }
        let op = drm_panthor_bo_sync_op {
            r#type: DRM_PANTHOR_BO_SYNC_CPU_CACHE_FLUSH_AND_INVALIDATE,
            size: map.len,
            ..Default::default()
        };
        self.sync_op(map.file, op, map.handle, 0);
        true
    }

    fn sync_op(&mut self, file: usize, op: drm_panthor_bo_sync_op, bo: Handle, percent: u64) {
        let args = drm_panthor_bo_sync {
            ops: elements::<drm_panthor_bo_sync_op>(1),
        };
        let mut args = buffer(&args);
        args.pointer(ARRAY, 1);
        let mut list = buffer(&op);
        list.handle(offset_of!(drm_panthor_bo_sync_op, handle), bo);
        let fd = self.files[file].step;
        self.maybe(fd, DRM_IOCTL_PANTHOR_BO_SYNC, vec![args, list], percent);
    }

    pub(super) fn bo_sync(&mut self, file: usize) {
        let Some(bo) = self.some_bo(file) else { return };
        self.settle();
        let op = drm_panthor_bo_sync_op {
            r#type: self.rng.pick(&[0, 1, 1, 2]),
            offset: self.rng.pick(&[0, 0, 64, bo.size, bo.size + 1]),
            size: self.rng.pick(&[0, 1, 64, bo.size, u64::MAX]),
            ..Default::default()
        };
        self.sync_op(file, op, bo.handle, 15);
    }

    pub(super) fn bo_query(&mut self, file: usize) {
        let Some(bo) = self.some_bo(file) else { return };
        let mut args = buffer(&drm_panthor_bo_query_info::default());
        args.handle(offset_of!(drm_panthor_bo_query_info, handle), bo.handle);
        let fd = self.files[file].step;
        self.maybe(fd, DRM_IOCTL_PANTHOR_BO_QUERY_INFO, vec![args], 30);
    }

    pub(super) fn gem_close(&mut self, file: usize) {
        let Some(at) = self.rng.index(self.files[file].bos.len()) else {
            return;
        };
        self.settle();
        let bo = self.files[file].bos[at];
        let mut args = buffer(&drm::drm_gem_close::default());
        args.handle(offset_of!(drm::drm_gem_close, handle), bo.handle);
        let fd = self.files[file].step;
        let (_, spoilt) = self.maybe(fd, drm::DRM_IOCTL_GEM_CLOSE, vec![args], 20);
        if !spoilt {
            let state = &mut self.files[file];
            state.bos.swap_remove(at);
            state.dead.push(bo.handle);
        }
    }

    /// Exports an object, or imports it into this or another file.
    pub(super) fn prime(&mut self, file: usize) {
        let fd = self.files[file].step;
        let import = self
            .rng
            .index(self.dma_bufs.len())
            .filter(|_| self.rng.percent(60));
        if let Some(at) = import {
            let buf = self.dma_bufs[at];
            if self.rng.percent(30) {
                self.step(Call::SeekEnd { fd: buf.step });
            }
            let mut args = buffer(&drm::drm_prime_handle::default());
            args.put(
                offset_of!(drm::drm_prime_handle, fd),
                4,
                Value::Fd(buf.step),
            );
            let (step, _) = self.maybe(fd, drm::DRM_IOCTL_PRIME_FD_TO_HANDLE, vec![args], 20);
            let handle = Handle {
                step,
                at: offset_of!(drm::drm_prime_handle, handle),
            };
            // A known object keeps its handle; the generator may then have it twice, one of them dead in the end.
            self.files[file].bos.push(Bo {
                handle,
                size: buf.size,
                flags: NO_MMAP,
                exclusive: None,
            });
            return;
        }
        let Some(bo) = self.some_bo(file) else { return };
        if bo.exclusive.is_some() && self.rng.percent(80) {
            return;
        }
        let args = drm::drm_prime_handle {
            flags: self.rng.pick(&[0, 0o2, 0o2000002, 0o2000000]),
            ..Default::default()
        };
        let mut args = buffer(&args);
        args.handle(offset_of!(drm::drm_prime_handle, handle), bo.handle);
        let (step, _) = self.maybe(fd, drm::DRM_IOCTL_PRIME_HANDLE_TO_FD, vec![args], 20);
        self.dma_bufs.push(DmaBuf {
            step,
            size: bo.size,
        });
        if self.rng.percent(30) && bo.size <= 16 * PAGE && bo.flags & WB_MMAP == 0 {
            let prot = self.rng.pick(&[1, 3]);
            let map = self.step(Call::Mmap {
                fd: step,
                offset: Value::Number(0),
                len: bo.size,
                prot,
            });
            self.maps.push(BoundMap {
                step: map,
                file,
                handle: bo.handle,
                len: bo.size,
                prot,
                cached: false,
                is_code: false,
            });
        }
    }

    /// Reads or writes through a mapping.
    pub(super) fn touch(&mut self) {
        let Some(at) = self.rng.index(self.maps.len()) else {
            return;
        };
        let map = self.maps[at];
        self.settle();
        let offset = self.rng.below(map.len.max(1)) & !7;
        if map.is_code || self.rng.percent(50) {
            if self.fresh(&map) {
                self.step(Call::Read {
                    map: map.step,
                    at: offset,
                    len: 16,
                });
            }
        } else if map.prot & 2 != 0 {
            let bytes = self.rng.number().to_le_bytes().to_vec();
            self.step(Call::Write {
                map: map.step,
                at: offset,
                bytes,
            });
            self.fresh(&map);
        }
    }

    /// The user's MMIO page.
    pub(super) fn mmio(&mut self, file: usize) {
        let fd = self.files[file].step;
        let places = [
            DRM_PANTHOR_USER_MMIO_OFFSET_64BIT,
            DRM_PANTHOR_USER_MMIO_OFFSET_32BIT,
        ];
        if self.kernel.is_7x() && self.rng.percent(40) {
            let args = drm_panthor_set_user_mmio_offset {
                offset: self.rng.pick(&[places[0], places[1], 0, 1 << 44]),
            };
            let request = DRM_IOCTL_PANTHOR_SET_USER_MMIO_OFFSET;
            self.maybe(fd, request, vec![buffer(&args)], 10);
            return;
        }
        let offset = self
            .rng
            .pick(&[places[0], places[0], places[0], places[1], places[0] + PAGE]);
        let len = self.rng.pick(&[PAGE, PAGE, PAGE, 2 * PAGE, 100]);
        let prot = self.rng.pick(&[1, 1, 1, 3]);
        let map = self.step(Call::Mmap {
            fd,
            offset: Value::Number(offset),
            len,
            prot,
        });
        // Its value counts flushes, which no two devices do alike; that it can be unmapped is enough.
        self.step(Call::Munmap { map });
    }

    // ---- tiler heaps

    pub(super) fn heap_create(&mut self, file: usize) {
        let Some(vm) = self.some_vm(file) else { return };
        self.settle();
        let max_chunks = self.rng.pick(&[1, 2, 4, 6]);
        let chunk = self
            .rng
            .pick(&[128 << 10, 128 << 10, 256 << 10, 2 << 20, (128 << 10) + 4096]);
        let args = drm_panthor_tiler_heap_create {
            initial_chunk_count: 1 + self.rng.below(u64::from(max_chunks)) as u32,
            chunk_size: match self.rng.below(12) {
                0 => 64 << 10,
                1 => 16 << 20,
                2 => (128 << 10) + 1,
                _ => chunk,
            },
            max_chunks,
            target_in_flight: self.rng.below(4) as u32,
            ..Default::default()
        };
        let mut args = buffer(&args);
        args.handle(offset_of!(drm_panthor_tiler_heap_create, vm_id), vm);
        let fd = self.files[file].step;
        let (step, _) = self.maybe(fd, DRM_IOCTL_PANTHOR_TILER_HEAP_CREATE, vec![args], 20);
        let handle = Handle {
            step,
            at: offset_of!(drm_panthor_tiler_heap_create, handle),
        };
        self.files[file].heaps.push(handle);
    }

    pub(super) fn heap_destroy(&mut self, file: usize) {
        let Some(at) = self.rng.index(self.files[file].heaps.len()) else {
            return;
        };
        self.settle();
        let heap = self.files[file].heaps[at];
        let mut args = buffer(&drm_panthor_tiler_heap_destroy::default());
        args.handle(offset_of!(drm_panthor_tiler_heap_destroy, handle), heap);
        let fd = self.files[file].step;
        let (_, spoilt) = self.maybe(fd, DRM_IOCTL_PANTHOR_TILER_HEAP_DESTROY, vec![args], 30);
        if !spoilt {
            self.files[file].heaps.swap_remove(at);
            self.files[file].dead.push(heap);
        }
    }

    // ---- queries

    pub(super) fn dev_query(&mut self, file: usize) {
        let kind = self.rng.below(6) as u32;
        let whole = match kind {
            DRM_PANTHOR_DEV_QUERY_GPU_INFO => size_of::<drm_panthor_gpu_info>(),
            DRM_PANTHOR_DEV_QUERY_CSIF_INFO => size_of::<drm_panthor_csif_info>(),
            DRM_PANTHOR_DEV_QUERY_TIMESTAMP_INFO => size_of::<drm_panthor_timestamp_info>(),
            DRM_PANTHOR_DEV_QUERY_GROUP_PRIORITIES_INFO => 4,
            _ => 8,
        };
        let size = match self.rng.below(10) {
            0 => whole - 4,
            1 => whole + 8,
            2 => whole + 4096,
            3 => 24,
            4 => 0,
            _ => whole,
        };
        let args = drm_panthor_dev_query {
            r#type: kind,
            size: size as u32,
            pointer: 0,
        };
        let mut args = buffer(&args);
        if self.rng.percent(85) {
            args.pointer(offset_of!(drm_panthor_dev_query, pointer), 1);
        }
        // 6.12 has no flags there, and what it is given is not looked at.
        let mut bytes = vec![0; size.max(8)];
        if kind == DRM_PANTHOR_DEV_QUERY_TIMESTAMP_INFO && self.rng.percent(70) {
            let at = offset_of!(drm_panthor_timestamp_info, flags);
            let flags = self.rng.pick(&[
                0x41_u32, 0xff, 0x11, 0x20, 0x03, 0x05, 0x07, 0x100, 0x80, 0x40,
            ]);
            if let Some(field) = bytes.get_mut(at..at + 4) {
                field.copy_from_slice(&flags.to_le_bytes());
            }
        }
        if self.rng.percent(10) {
            bytes[size.max(8) - 1] = 1;
        }
        let values = Vec::new();
        let fd = self.files[file].step;
        let buffers = vec![args, Buffer { bytes, values }];
        self.maybe(fd, DRM_IOCTL_PANTHOR_DEV_QUERY, buffers, 10);
    }
}
