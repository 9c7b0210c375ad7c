//! The ioctls: DRM core's dispatch (`drm_ioctl.c`) and the driver's handlers (`panthor_drv.c`).

use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};

use panthor_uapi::Errno;
use panthor_uapi::sys::drm::{drm_gem_close, drm_get_cap, drm_prime_handle, drm_version};
use panthor_uapi::sys::panthor::*;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::bind::{BindJob, BindQueue};
use super::engine::{JobCall, QueueSetup};
use super::fence::FenceRef;
use super::gem::{BO_NO_MMAP, BO_WB_MMAP, DmaBuf};
use super::group::{Group, GroupState};
use super::heap::{HeapPool, HeapRequest, KernelBo};
use super::query;
use super::queue::{Job, Queue};
use super::submit::{SubmitContext, read_array, read_syncs};
use super::user;
use super::vm::{MAP_NOEXEC, MAP_UNCACHED, Vm};
use super::world::{FdObject, FileId, World};

/// First number of a driver's own ioctls (`DRM_COMMAND_BASE`), and the first behind them (`DRM_COMMAND_END`).
const COMMANDS: std::ops::Range<u32> = 0x40..0xa0;
/// `MAX_CS_PER_CSG`.
const MAX_CS_PER_CSG: u32 = 32;
/// `CSF_MAX_QUEUE_PRIO`.
const MAX_QUEUE_PRIORITY: u8 = 15;
/// `PANTHOR_MAX_VMS_PER_FILE`.
const MAX_VMS: u32 = 32;
/// `MAX_GROUPS_PER_POOL`.
const MAX_GROUPS: u32 = 128;
/// `PANTHOR_BO_LABEL_MAXLEN`.
const MAX_LABEL: usize = 4096;
/// `struct panthor_syncobj_64b`.
const SYNCOBJ_SIZE: u64 = 16;
/// `DRM_PANTHOR_VM_BIND_ASYNC`.
const VM_BIND_ASYNC: u32 = 1;

const STATE_TIMEDOUT: u32 = 1 << 0;
const STATE_FATAL_FAULT: u32 = 1 << 1;
const STATE_INNOCENT: u32 = 1 << 2;

const TIMESTAMP_GPU: u32 = 1 << 0;
const TIMESTAMP_CPU_TYPE_MASK: u32 = 7 << 1;
const TIMESTAMP_CPU_MONOTONIC_RAW: u32 = 2 << 1;
const TIMESTAMP_GPU_OFFSET: u32 = 1 << 4;
const TIMESTAMP_GPU_CYCLE_COUNT: u32 = 1 << 5;
const TIMESTAMP_FREQ: u32 = 1 << 6;
const TIMESTAMP_DURATION: u32 = 1 << 7;

/// Which handler an ioctl number of the core has on a render node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Core {
    /// Allowed; bytes of the kernel's own struct.
    Known(u32),
    /// Exists, but not for render nodes: EACCES.
    NotAllowed,
    /// Does not exist: EINVAL.
    Unknown,
}

/// The core's table of ioctls (`drm_ioctls`), with the sizes of the kernel's structs.
pub fn core_ioctl(nr: u32, is_7x: bool) -> Core {
    match nr {
        0x00 => Core::Known(size_of::<drm_version>() as u32),
        0x09 => Core::Known(8),
        0x0c => Core::Known(16),
        0x2d | 0x2e => Core::Known(12),
        0xbf | 0xc0 => Core::Known(8),
        // The timeline point of 7.x made it longer.
        0xc1 | 0xc2 => Core::Known(if is_7x { 24 } else { 16 }),
        0xc3 => Core::Known(40),
        0xc4 | 0xc5 => Core::Known(16),
        0xca => Core::Known(48),
        0xcb | 0xcd => Core::Known(24),
        0xcc => Core::Known(40),
        0xcf => Core::Known(24),
        // Names, magic numbers, masters, vertical blanks, modes.
        0x01
        | 0x02
        | 0x05..=0x07
        | 0x0a
        | 0x0b
        | 0x0d
        | 0x10..=0x13
        | 0x1e
        | 0x1f
        | 0x3a..=0x3c => Core::NotAllowed,
        0xa0..=0xbe | 0xc6..=0xc9 | 0xce | 0xd0 => Core::NotAllowed,
        _ => Core::Unknown,
    }
}

/// Bytes of the kernel's own struct of a driver ioctl, `None` where the driver has none.
fn own_size(nr: u32, is_7x: bool) -> Option<u32> {
    let sizes = [
        size_of::<drm_panthor_dev_query>(),
        size_of::<drm_panthor_vm_create>(),
        size_of::<drm_panthor_vm_destroy>(),
        size_of::<drm_panthor_vm_bind>(),
        size_of::<drm_panthor_vm_get_state>(),
        size_of::<drm_panthor_bo_create>(),
        size_of::<drm_panthor_bo_mmap_offset>(),
        size_of::<drm_panthor_group_create>(),
        size_of::<drm_panthor_group_destroy>(),
        size_of::<drm_panthor_group_submit>(),
        size_of::<drm_panthor_group_get_state>(),
        size_of::<drm_panthor_tiler_heap_create>(),
        size_of::<drm_panthor_tiler_heap_destroy>(),
        size_of::<drm_panthor_bo_set_label>(),
        size_of::<drm_panthor_set_user_mmio_offset>(),
        size_of::<drm_panthor_bo_sync>(),
        size_of::<drm_panthor_bo_query_info>(),
    ];
    let known = if is_7x { sizes.len() } else { 13 };
    sizes[..known]
        .get((nr - COMMANDS.start) as usize)
        .map(|&size| size as u32)
}

/// An ioctl of the device, its struct copied in.
#[derive(Debug)]
pub struct Call {
    /// The number within the group of DRM's.
    pub nr: u32,
    /// The struct, padded with zeros to what the kernel expects.
    pub data: Vec<u8>,
    /// Bytes to copy back.
    out: usize,
    arg: u64,
}

impl Call {
    /// `drm_ioctl`, up to the handler: ENOTTY for another group, EINVAL for a number without a handler, EFAULT for a
    /// bad pointer, EACCES for what render nodes may not do.
    pub fn copy_in(request: u32, arg: u64, is_7x: bool) -> Result<Self, Errno> {
        let (nr, group, size, direction) = (
            request & 0xff,
            request >> 8 & 0xff,
            request >> 16 & 0x3fff,
            request >> 30,
        );
        if group != u32::from(b'd') {
            return Err(Errno::NOTTY);
        }
        let (own, allowed) = if COMMANDS.contains(&nr) {
            (own_size(nr, is_7x).ok_or(Errno::INVAL)?, true)
        } else {
            match core_ioctl(nr, is_7x) {
                Core::Known(size) => (size, true),
                Core::NotAllowed => (0, false),
                Core::Unknown => return Err(Errno::INVAL),
            }
        };
        // The kernel copies only in the directions that both numbers have: all are read-write but GEM_CLOSE, which
        // only writes.
        let own_direction = if nr == 0x09 { 1 } else { 3 };
        let copy_in = if direction & own_direction & 1 != 0 {
            size
        } else {
            0
        };
        let out = if direction & own_direction & 2 != 0 {
            size
        } else {
            0
        };
        let mut data = vec![0; own.max(copy_in).max(out) as usize];
        user::read(arg, &mut data[..copy_in as usize])?;
        if !allowed {
            return Err(Errno::ACCESS);
        }
        Ok(Self {
            nr,
            data,
            out: out as usize,
            arg,
        })
    }

    /// Copies the struct back, whatever the handler said.
    pub fn copy_out(&self, result: Result<(), Errno>) -> Result<(), Errno> {
        match user::write(self.arg, &self.data[..self.out]) {
            Ok(()) => result,
            Err(errno) => Err(errno),
        }
    }

    /// The struct as a value.
    pub fn get<T: FromBytes>(&self) -> Result<T, Errno> {
        T::read_from_prefix(&self.data)
            .map(|(value, _)| value)
            .map_err(|_| Errno::INVAL)
    }

    /// Stores the struct.
    pub fn set<T: IntoBytes + Immutable>(&mut self, value: &T) {
        let _ = value.write_to_prefix(&mut self.data);
    }

    /// Lets `handler` read and change the struct; the changes count also when it fails.
    fn with<T, R>(&mut self, handler: impl FnOnce(&mut T) -> Result<R, Errno>) -> Result<R, Errno>
    where
        T: FromBytes + IntoBytes + Immutable,
    {
        // A kernel whose struct is shorter than ours sees the rest as zeros.
        let mut padded = std::mem::take(&mut self.data);
        let len = padded.len();
        padded.resize(len.max(size_of::<T>()), 0);
        self.data = padded;
        let mut value = self.get::<T>()?;
        let result = handler(&mut value);
        self.set(&value);
        self.data.truncate(len);
        result
    }
}

impl World {
    /// Runs an ioctl that does not sleep.
    pub fn handle(&mut self, file: FileId, call: &mut Call) -> Result<(), Errno> {
        match call.nr {
            0x00 => call.with(|args| self.version(args)),
            0x09 => call.with(|args: &mut drm_gem_close| {
                self.file(file)?
                    .bos
                    .remove(args.handle)
                    .map(drop)
                    .ok_or(Errno::INVAL)
            }),
            0x0c => call.with(get_cap),
            0x2d => call.with(|args| self.prime_export(file, args)),
            0x2e => call.with(|args| self.prime_import(file, args)),
            0xbf => call.with(|args| self.syncobj_create(file, args)),
            0xc0 => call.with(|args| self.syncobj_destroy(file, args)),
            0xc1 => call.with(|args| self.syncobj_to_fd(file, args)),
            0xc2 => call.with(|args| self.syncobj_from_fd(file, args)),
            0xc4 => call.with(|args| self.syncobj_set(file, args, false)),
            0xc5 => call.with(|args| self.syncobj_set(file, args, true)),
            0xcb => call.with(|args| self.syncobj_query(file, args)),
            0xcc => call.with(|args| self.syncobj_transfer(file, args)),
            0xcd => call.with(|args| self.syncobj_timeline_signal(file, args)),
            0xcf => call.with(|args| self.syncobj_eventfd(file, args)),
            0x40 => call.with(|args| self.dev_query(args)),
            0x41 => call.with(|args| self.vm_create(file, args)),
            0x42 => call.with(|args| self.vm_destroy(file, args)),
            0x43 => call.with(|args| self.vm_bind(file, args)),
            0x44 => call.with(|args: &mut drm_panthor_vm_get_state| {
                args.state = u32::from(self.vm(file, args.vm_id)?.is_unusable());
                Ok(())
            }),
            0x45 => call.with(|args| self.bo_create(file, args)),
            0x46 => call.with(|args| self.bo_mmap_offset(file, args)),
            0x47 => call.with(|args| self.group_create(file, args)),
            0x48 => call.with(|args| self.group_destroy(file, args)),
            0x49 => call.with(|args| self.group_submit(file, args)),
            0x4a => call.with(|args| self.group_get_state(file, args)),
            0x4b => call.with(|args| self.tiler_heap_create(file, args)),
            0x4c => call.with(|args| self.tiler_heap_destroy(file, args)),
            0x4d => call.with(|args| self.bo_set_label(file, args)),
            0x4e => call.with(|args: &mut drm_panthor_set_user_mmio_offset| {
                let known = [
                    DRM_PANTHOR_USER_MMIO_OFFSET_32BIT,
                    DRM_PANTHOR_USER_MMIO_OFFSET_64BIT,
                ];
                if !known.contains(&args.offset) {
                    return Err(Errno::INVAL);
                }
                self.file(file)?.mmio_offset = args.offset;
                Ok(())
            }),
            0x4f => call.with(|args| self.bo_sync(file, args)),
            0x50 => call.with(|args| self.bo_query_info(file, args)),
            _ => Err(Errno::INVAL),
        }
    }

    // ---- DRM core

    fn version(&self, args: &mut drm_version) -> Result<(), Errno> {
        args.version_major = 1;
        args.version_minor = self.options.kernel.minor();
        args.version_patchlevel = 0;
        // Newer cores have no date and say "0".
        let date: &[u8] = if self.options.kernel.is_7x() {
            b"0"
        } else {
            b"20230801"
        };
        let field = |address: usize, room: &mut usize, text: &[u8]| {
            let len = text.len().min(*room);
            *room = text.len();
            if len > 0 && address != 0 {
                user::write(address as u64, &text[..len])
            } else {
                Ok(())
            }
        };
        field(args.name, &mut args.name_len, b"panthor")?;
        field(args.date, &mut args.date_len, date)?;
        field(args.desc, &mut args.desc_len, b"Panthor DRM driver")
    }

    fn prime_export(&mut self, file: FileId, args: &mut drm_prime_handle) -> Result<(), Errno> {
        let (cloexec, rdwr) = (libc::O_CLOEXEC as u32, libc::O_RDWR as u32);
        if args.flags & !(cloexec | rdwr) != 0 {
            return Err(Errno::INVAL);
        }
        let bo = self
            .file(file)?
            .bos
            .get(args.handle)
            .cloned()
            .ok_or(Errno::NOENT)?;
        if bo.exclusive_vm.is_some() {
            return Err(Errno::INVAL);
        }
        args.fd = self.new_fd(FdObject::DmaBuf(DmaBuf {
            bo,
            writable: args.flags & rdwr != 0,
        }))?;
        Ok(())
    }

    fn prime_import(&mut self, file: FileId, args: &mut drm_prime_handle) -> Result<(), Errno> {
        let bo = match self.fds.get(&args.fd) {
            Some(FdObject::DmaBuf(buf)) => buf.bo.clone(),
            Some(_) => return Err(Errno::INVAL),
            None => return Err(Errno::BADF),
        };
        let bos = &mut self.file(file)?.bos;
        // A file that has the object already keeps its handle.
        let known = bos
            .iter()
            .find(|(_, other)| Arc::ptr_eq(other, &bo))
            .map(|(&handle, _)| handle);
        args.handle = match known {
            Some(handle) => handle,
            None => bos.insert(bo, i32::MAX as u32)?,
        };
        Ok(())
    }

    // ---- DEV_QUERY

    fn dev_query(&mut self, args: &mut drm_panthor_dev_query) -> Result<(), Errno> {
        let minor = self.options.kernel.minor();
        let known = match args.r#type {
            DRM_PANTHOR_DEV_QUERY_GPU_INFO | DRM_PANTHOR_DEV_QUERY_CSIF_INFO => true,
            DRM_PANTHOR_DEV_QUERY_TIMESTAMP_INFO => minor >= 1,
            DRM_PANTHOR_DEV_QUERY_GROUP_PRIORITIES_INFO => minor >= 2,
            DRM_PANTHOR_DEV_QUERY_MMU_INFO => minor >= 9,
            _ => false,
        };
        if !known {
            return Err(Errno::INVAL);
        }
        // Bytes of the kernel's struct, and the least that it takes.
        let (size, least) = match args.r#type {
            DRM_PANTHOR_DEV_QUERY_GPU_INFO => {
                let end =
                    std::mem::offset_of!(drm_panthor_gpu_info, tiler_present) + size_of::<u64>();
                (query::gpu_info_size(&self.options), end)
            }
            DRM_PANTHOR_DEV_QUERY_CSIF_INFO => (
                size_of::<drm_panthor_csif_info>(),
                size_of::<drm_panthor_csif_info>(),
            ),
            DRM_PANTHOR_DEV_QUERY_TIMESTAMP_INFO => (
                size_of::<drm_panthor_timestamp_info>(),
                std::mem::offset_of!(drm_panthor_timestamp_info, timestamp_offset),
            ),
            DRM_PANTHOR_DEV_QUERY_GROUP_PRIORITIES_INFO => {
                (size_of::<drm_panthor_group_priorities_info>(), 4)
            }
            _ => (
                size_of::<drm_panthor_mmu_info>(),
                size_of::<drm_panthor_mmu_info>(),
            ),
        };
        if args.pointer == 0 {
            args.size = size as u32;
            return Ok(());
        }
        let bytes = match args.r#type {
            DRM_PANTHOR_DEV_QUERY_GPU_INFO => query::gpu_info(&self.options).as_bytes().to_vec(),
            DRM_PANTHOR_DEV_QUERY_CSIF_INFO => query::csif_info().as_bytes().to_vec(),
            DRM_PANTHOR_DEV_QUERY_TIMESTAMP_INFO => {
                let mut info = drm_panthor_timestamp_info::default();
                user::read_struct(args.pointer, u64::from(args.size), info.as_mut_bytes())?;
                self.timestamp(&mut info)?;
                info.as_bytes().to_vec()
            }
            DRM_PANTHOR_DEV_QUERY_GROUP_PRIORITIES_INFO => {
                let allowed = (0..=PANTHOR_GROUP_PRIORITY_REALTIME)
                    .filter(|&priority| self.permit(priority).is_ok());
                let allowed_mask = allowed.fold(0, |mask, priority| mask | 1 << priority);
                drm_panthor_group_priorities_info {
                    allowed_mask,
                    pad: [0; 3],
                }
                .as_bytes()
                .to_vec()
            }
            _ => query::mmu_info().as_bytes().to_vec(),
        };
        set_user_object(args.pointer, args.size, least, &bytes[..size])
    }

    fn timestamp(&self, info: &mut drm_panthor_timestamp_info) -> Result<(), Errno> {
        let flags = match info.flags {
            0 => TIMESTAMP_GPU | TIMESTAMP_GPU_OFFSET | TIMESTAMP_FREQ,
            flags => flags,
        };
        let known = TIMESTAMP_GPU
            | TIMESTAMP_CPU_TYPE_MASK
            | TIMESTAMP_GPU_OFFSET
            | TIMESTAMP_GPU_CYCLE_COUNT
            | TIMESTAMP_FREQ
            | TIMESTAMP_DURATION;
        let cpu = flags & TIMESTAMP_CPU_TYPE_MASK;
        if cpu > TIMESTAMP_CPU_MONOTONIC_RAW || flags & !known != 0 {
            return Err(Errno::INVAL);
        }
        let when = |flag: u32, value: u64| if flags & flag != 0 { value } else { 0 };
        let ticks = (u128::from(self.now) * u128::from(query::TIMESTAMP_HZ) / 1_000_000_000) as u64;
        info.timestamp_frequency = when(TIMESTAMP_FREQ, query::TIMESTAMP_HZ);
        info.timestamp_offset = 0;
        info.current_timestamp = when(TIMESTAMP_GPU, ticks);
        info.cycle_count = when(
            TIMESTAMP_GPU_CYCLE_COUNT,
            (self.now as f64 * self.options.gpu_mhz / 1000.0) as u64,
        );
        info.duration_nsec = when(TIMESTAMP_DURATION, super::world::IOCTL_NS) as u32;
        info.cpu_timestamp_sec = when(TIMESTAMP_CPU_TYPE_MASK, self.now / 1_000_000_000);
        info.cpu_timestamp_nsec = when(TIMESTAMP_CPU_TYPE_MASK, self.now % 1_000_000_000);
        Ok(())
    }

    // ---- VMs

    fn vm(&mut self, file: FileId, id: u32) -> Result<Arc<Vm>, Errno> {
        self.file(file)?.vms.get(id).cloned().ok_or(Errno::INVAL)
    }

    fn vm_create(&mut self, file: FileId, args: &mut drm_panthor_vm_create) -> Result<(), Errno> {
        if args.flags != 0 {
            return Err(Errno::INVAL);
        }
        let vm = Vm::new(
            self.options.va_bits,
            args.user_va_range,
            self.options.strict,
        )?;
        let user_va_range = vm.kernel_va;
        args.id = self.file(file)?.vms.insert(Arc::new(vm), MAX_VMS)?;
        args.user_va_range = user_va_range;
        Ok(())
    }

    fn vm_destroy(&mut self, file: FileId, args: &drm_panthor_vm_destroy) -> Result<(), Errno> {
        if args.pad != 0 {
            return Err(Errno::INVAL);
        }
        let vm = self.file(file)?.vms.remove(args.id).ok_or(Errno::INVAL)?;
        self.sched.flush_for(vm.serial);
        vm.destroy();
        Ok(())
    }

    fn vm_bind(&mut self, file: FileId, args: &mut drm_panthor_vm_bind) -> Result<(), Errno> {
        let vm = self.vm(file, args.vm_id)?;
        let ops: Vec<drm_panthor_vm_bind_op> =
            read_array(&args.ops, size_of::<drm_panthor_vm_bind_op>())?;
        if args.flags & VM_BIND_ASYNC != 0 {
            return self.vm_bind_async(file, &vm, &ops);
        }
        for (index, op) in ops.iter().enumerate() {
            if let Err(errno) = self.bind_now(file, &vm, op) {
                // The client learns how far it came.
                args.ops.count = index as u32;
                return Err(errno);
            }
        }
        Ok(())
    }

    fn vm_bind_async(
        &mut self,
        file: FileId,
        vm: &Arc<Vm>,
        ops: &[drm_panthor_vm_bind_op],
    ) -> Result<(), Errno> {
        let mut jobs = Vec::with_capacity(ops.len());
        for op in ops {
            if vm.is_destroyed() || vm.is_unusable() {
                return Err(Errno::INVAL);
            }
            let checked = self.prepare_bind(file, vm, op)?;
            jobs.push((checked, read_syncs(&op.syncs)?));
        }
        let mut context = SubmitContext::default();
        for (_, syncs) in &jobs {
            context.collect(self, file, syncs)?;
        }
        let mut armed = Vec::with_capacity(jobs.len());
        for (op, syncs) in jobs {
            let deps = context.dependencies(self, file, &syncs)?;
            let finished = self.bind_queue(vm).arm();
            context.signals(&syncs, &finished);
            armed.push(BindJob { op, finished, deps });
        }
        for job in armed {
            self.bind_queue(vm).push(job);
        }
        context.push_fences(self.now);
        Ok(())
    }

    fn bind_queue(&mut self, vm: &Arc<Vm>) -> &mut BindQueue {
        self.binds
            .entry(vm.serial)
            .or_insert_with(|| BindQueue::new(vm.clone()))
    }

    // ---- buffer objects

    fn bo_create(&mut self, file: FileId, args: &mut drm_panthor_bo_create) -> Result<(), Errno> {
        let cached = if self.options.kernel.is_7x() {
            BO_WB_MMAP
        } else {
            0
        };
        if args.size == 0 || args.pad != 0 || args.flags & !(BO_NO_MMAP | cached) != 0 {
            return Err(Errno::INVAL);
        }
        if args.flags & (BO_NO_MMAP | BO_WB_MMAP) == BO_NO_MMAP | BO_WB_MMAP {
            return Err(Errno::INVAL);
        }
        let exclusive = match args.exclusive_vm_id {
            0 => None,
            id => Some(self.vm(file, id)?.serial),
        };
        let page = self.options.page_size as u64;
        // `PAGE_ALIGN` wraps; `shmem_file_setup` takes a signed size.
        let size = args.size.checked_next_multiple_of(page).unwrap_or(0);
        if i64::try_from(size).is_err() {
            return Err(Errno::INVAL);
        }
        let bo = self.new_bo(size, args.flags, exclusive)?;
        args.handle = self.file(file)?.bos.insert(Arc::new(bo), i32::MAX as u32)?;
        args.size = size;
        Ok(())
    }

    fn bo_mmap_offset(
        &mut self,
        file: FileId,
        args: &mut drm_panthor_bo_mmap_offset,
    ) -> Result<(), Errno> {
        if args.pad != 0 {
            return Err(Errno::INVAL);
        }
        let is_7x = self.options.kernel.is_7x();
        let bo = self.file(file)?.bos.get(args.handle).ok_or(Errno::NOENT)?;
        if is_7x && bo.flags & BO_NO_MMAP != 0 {
            return Err(Errno::PERM);
        }
        args.offset = bo.mmap_offset;
        Ok(())
    }

    fn bo_set_label(&mut self, file: FileId, args: &drm_panthor_bo_set_label) -> Result<(), Errno> {
        if args.pad != 0 {
            return Err(Errno::INVAL);
        }
        let bo = self
            .file(file)?
            .bos
            .get(args.handle)
            .cloned()
            .ok_or(Errno::NOENT)?;
        let label = match args.label {
            0 => None,
            address => Some(user::read_string(address, MAX_LABEL).map_err(
                |errno| match errno {
                    Errno::INVAL => Errno::TOOBIG,
                    other => other,
                },
            )?),
        };
        bo.set_label(label);
        Ok(())
    }

    fn bo_sync(&mut self, file: FileId, args: &drm_panthor_bo_sync) -> Result<(), Errno> {
        let ops: Vec<drm_panthor_bo_sync_op> =
            read_array(&args.ops, size_of::<drm_panthor_bo_sync_op>())?;
        for op in ops {
            let bo = self
                .file(file)?
                .bos
                .get(op.handle)
                .cloned()
                .ok_or(Errno::NOENT)?;
            let report = bo.sync(op.r#type, op.offset, op.size)?;
            if report.overwritten > 0 {
                let label = bo.label().unwrap_or_default();
                self.sched.report(format!(
                    "coherency: BO {} ({:?}): {} cache lines written back by the CPU over data that the GPU had written",
                    op.handle,
                    String::from_utf8_lossy(&label),
                    report.overwritten
                ));
            }
        }
        Ok(())
    }

    fn bo_query_info(
        &mut self,
        file: FileId,
        args: &mut drm_panthor_bo_query_info,
    ) -> Result<(), Errno> {
        let bo = self.file(file)?.bos.get(args.handle).ok_or(Errno::NOENT)?;
        // Objects of another driver do not exist here, so that none is imported.
        (args.pad, args.create_flags, args.extra_flags) = (0, bo.flags, 0);
        Ok(())
    }

    // ---- groups

    /// `group_priority_permit`.
    fn permit(&self, priority: u8) -> Result<(), Errno> {
        let highest = if self.options.kernel.is_7x() {
            PANTHOR_GROUP_PRIORITY_REALTIME
        } else {
            PANTHOR_GROUP_PRIORITY_HIGH
        };
        if priority > highest {
            return Err(Errno::INVAL);
        }
        if priority <= PANTHOR_GROUP_PRIORITY_MEDIUM || self.options.nice {
            Ok(())
        } else {
            Err(Errno::ACCESS)
        }
    }

    fn group_create(
        &mut self,
        file: FileId,
        args: &mut drm_panthor_group_create,
    ) -> Result<(), Errno> {
        if args.queues.count == 0 || args.queues.count > MAX_CS_PER_CSG {
            return Err(Errno::INVAL);
        }
        let queues: Vec<drm_panthor_queue_create> =
            read_array(&args.queues, size_of::<drm_panthor_queue_create>())?;
        self.permit(args.priority)?;
        self.check_group(args)?;
        let vm = self.vm(file, args.vm_id)?;
        let page = self.options.page_size as u64;
        let syncobjs_size = (u64::from(args.queues.count) * SYNCOBJ_SIZE).next_multiple_of(page);
        let kernel_flags = MAP_NOEXEC | MAP_UNCACHED;
        let syncobjs = KernelBo::new(
            &vm,
            self.new_bo(syncobjs_size, BO_NO_MMAP, Some(vm.serial))?,
            kernel_flags,
        )?;
        if self.options.kernel.is_7x() && self.file(file)?.groups.len() >= MAX_GROUPS as usize {
            // 7.x takes the handle before it looks at the queues, 6.12 afterwards.
            return Err(Errno::BUSY);
        }
        let timeout = self.options.job_timeout_ms * 1_000_000;
        let mut made = Vec::with_capacity(queues.len());
        for queue in &queues {
            check_queue(queue)?;
            let size = u64::from(queue.ringbuf_size).next_multiple_of(page);
            let ringbuf = KernelBo::new(
                &vm,
                self.new_bo(size, BO_NO_MMAP, Some(vm.serial))?,
                kernel_flags,
            )?;
            let name = if self.options.kernel.is_7x() {
                format!(
                    "panthor-queue-{file}-{}-{}",
                    self.sched.groups.len() + 1,
                    made.len()
                )
            } else {
                "panthor-queue".into()
            };
            let setup = QueueSetup {
                vm: vm.clone(),
                group: self.sched.next_group_number(),
                index: made.len() as u8,
                core_mask: args.compute_core_mask,
                max_cores: u32::from(args.max_compute_cores),
            };
            let engine = self.sched.gpu.queue(setup);
            let per_queue = self.options.kernel.is_7x();
            made.push(Queue::new(
                name,
                ringbuf,
                queue.ringbuf_size,
                engine,
                per_queue,
                timeout,
            ));
        }
        if self.file(file)?.groups.len() >= MAX_GROUPS as usize {
            return Err(Errno::BUSY);
        }
        let mut group = Group {
            vm,
            priority: usize::from(args.priority),
            queues: made,
            syncobjs,
            slot: None,
            slot_priority: 0,
            state: GroupState::Created,
            idle_queues: 0,
            blocked_queues: 0,
            fatal_queues: 0,
            timedout: false,
            innocent: false,
            destroyed: false,
        };
        group.idle_queues = group.all_queues();
        let id = self.sched.add(group);
        args.group_handle = self.file(file)?.groups.insert(id, MAX_GROUPS)?;
        Ok(())
    }

    /// `panthor_group_create`'s checks.
    fn check_group(&self, args: &drm_panthor_group_create) -> Result<(), Errno> {
        let present = query::shader_present(self.options.cores);
        let masks = [
            (args.compute_core_mask, present, args.max_compute_cores),
            (args.fragment_core_mask, present, args.max_fragment_cores),
            (args.tiler_core_mask, 1, args.max_tiler_cores),
        ];
        let good = args.pad == 0
            && masks.iter().all(|(mask, present, max)| {
                mask & !present == 0 && mask.count_ones() >= u32::from(*max)
            })
            && args.queues.count <= query::CS_SLOTS;
        if good { Ok(()) } else { Err(Errno::INVAL) }
    }

    fn group_destroy(
        &mut self,
        file: FileId,
        args: &drm_panthor_group_destroy,
    ) -> Result<(), Errno> {
        if args.pad != 0 {
            return Err(Errno::INVAL);
        }
        let id = self
            .file(file)?
            .groups
            .remove(args.group_handle)
            .ok_or(Errno::INVAL)?;
        self.sched.destroy(id, self.now);
        Ok(())
    }

    fn group_get_state(
        &mut self,
        file: FileId,
        args: &mut drm_panthor_group_get_state,
    ) -> Result<(), Errno> {
        if args.pad != 0 {
            return Err(Errno::INVAL);
        }
        let id = *self
            .file(file)?
            .groups
            .get(args.group_handle)
            .ok_or(Errno::INVAL)?;
        let group = self.sched.groups.get(&id).ok_or(Errno::INVAL)?;
        // The kernel clears the whole struct, the handle included.
        *args = drm_panthor_group_get_state::default();
        if group.timedout {
            args.state |= STATE_TIMEDOUT;
        }
        if group.fatal_queues != 0 {
            args.state |= STATE_FATAL_FAULT;
            args.fatal_queues = group.fatal_queues;
        }
        if group.innocent && self.options.kernel.is_7x() {
            args.state |= STATE_INNOCENT;
        }
        Ok(())
    }

    fn group_submit(&mut self, file: FileId, args: &drm_panthor_group_submit) -> Result<(), Errno> {
        if args.pad != 0 {
            return Err(Errno::INVAL);
        }
        let submits: Vec<drm_panthor_queue_submit> =
            read_array(&args.queue_submits, size_of::<drm_panthor_queue_submit>())?;
        let mut jobs = Vec::with_capacity(submits.len());
        let mut target = 0;
        for submit in &submits {
            check_submit(submit)?;
            // The driver passes the handle on in 16 bits.
            target = *self
                .file(file)?
                .groups
                .get(args.group_handle & 0xffff)
                .ok_or(Errno::INVAL)?;
            let group = self
                .sched
                .groups
                .get(&target)
                .filter(|group| group.can_run())
                .ok_or(Errno::INVAL)?;
            if submit.queue_index as usize >= group.queues.len() {
                return Err(Errno::INVAL);
            }
            jobs.push((submit, read_syncs(&submit.syncs)?));
        }
        let mut context = SubmitContext::default();
        for (_, syncs) in &jobs {
            context.collect(self, file, syncs)?;
        }
        let mut armed: Vec<(usize, Job)> = Vec::with_capacity(jobs.len());
        for (submit, syncs) in jobs {
            let deps: VecDeque<FenceRef> = context.dependencies(self, file, &syncs)?;
            let queue = submit.queue_index as usize;
            let group = self.sched.groups.get_mut(&target).ok_or(Errno::INVAL)?;
            let sync = group.syncobjs.va + queue as u64 * SYNCOBJ_SIZE;
            let finished = group.queues[queue].arm();
            context.signals(&syncs, &finished);
            let call = (submit.stream_size != 0).then_some(JobCall {
                sync,
                stream: submit.stream_addr,
                size: submit.stream_size,
                latest_flush: submit.latest_flush,
            });
            armed.push((
                queue,
                Job {
                    finished,
                    deps,
                    call,
                },
            ));
        }
        for (queue, job) in armed {
            self.sched.push_job(target, queue, job);
        }
        context.push_fences(self.now);
        Ok(())
    }

    // ---- tiler heaps

    fn tiler_heap_create(
        &mut self,
        file: FileId,
        args: &mut drm_panthor_tiler_heap_create,
    ) -> Result<(), Errno> {
        let vm = self.vm(file, args.vm_id)?;
        let mut heaps = vm.heaps.lock().unwrap_or_else(PoisonError::into_inner);
        let new_bo = |size: u64, flags| {
            let size = size.next_multiple_of(self.options.page_size as u64);
            self.new_bo(size, flags, Some(vm.serial))
        };
        let pool = match &mut *heaps {
            Some(pool) => pool,
            empty => empty.insert(HeapPool::new(&vm, &new_bo)?),
        };
        let request = HeapRequest {
            initial_chunk_count: args.initial_chunk_count,
            chunk_size: args.chunk_size,
            max_chunks: args.max_chunks,
        };
        request.check(self.options.page_size)?;
        let (id, context, chunk) = pool.create(&vm, &request, &new_bo)?;
        args.tiler_heap_ctx_gpu_va = context;
        args.first_heap_chunk_gpu_va = chunk;
        args.handle = args.vm_id << 16 | id;
        Ok(())
    }

    fn tiler_heap_destroy(
        &mut self,
        file: FileId,
        args: &drm_panthor_tiler_heap_destroy,
    ) -> Result<(), Errno> {
        if args.pad != 0 {
            return Err(Errno::INVAL);
        }
        let vm = self.vm(file, args.handle >> 16)?;
        let mut heaps = vm.heaps.lock().unwrap_or_else(PoisonError::into_inner);
        heaps
            .as_mut()
            .ok_or(Errno::NOENT)?
            .destroy(args.handle & 0xffff)
    }
}

/// `drm_getcap` for a driver without modes.
fn get_cap(args: &mut drm_get_cap) -> Result<(), Errno> {
    const CAP_PRIME: u64 = 0x5;
    const CAP_TIMESTAMP_MONOTONIC: u64 = 0x6;
    const CAP_SYNCOBJ: u64 = 0x13;
    const CAP_SYNCOBJ_TIMELINE: u64 = 0x14;
    args.value = match args.capability {
        // Import and export.
        CAP_PRIME => 3,
        CAP_TIMESTAMP_MONOTONIC | CAP_SYNCOBJ | CAP_SYNCOBJ_TIMELINE => 1,
        _ => {
            args.value = 0;
            return Err(Errno::OPNOTSUPP);
        }
    };
    Ok(())
}

/// `panthor_set_uobj`.
fn set_user_object(pointer: u64, user_size: u32, least: usize, bytes: &[u8]) -> Result<(), Errno> {
    let user_size = user_size as usize;
    if user_size < least {
        return Err(Errno::INVAL);
    }
    user::write(pointer, &bytes[..user_size.min(bytes.len())])?;
    if user_size > bytes.len() {
        user::clear(
            pointer.wrapping_add(bytes.len() as u64),
            (user_size - bytes.len()) as u64,
        )?;
    }
    Ok(())
}

/// `group_create_queue`'s checks.
fn check_queue(queue: &drm_panthor_queue_create) -> Result<(), Errno> {
    let sized =
        (4096..=65536).contains(&queue.ringbuf_size) && queue.ringbuf_size.is_power_of_two();
    let good = queue.pad == [0; 3] && sized && queue.priority <= MAX_QUEUE_PRIORITY;
    if good { Ok(()) } else { Err(Errno::INVAL) }
}

/// `panthor_job_create`'s checks.
fn check_submit(submit: &drm_panthor_queue_submit) -> Result<(), Errno> {
    let good = submit.pad == 0
        && (submit.stream_size == 0) == (submit.stream_addr == 0)
        && submit.stream_addr % 64 == 0
        && submit.stream_size % 8 == 0
        // Bits 24 to 30 of a flush id are zero.
        && submit.latest_flush & 0x7f00_0000 == 0;
    if good { Ok(()) } else { Err(Errno::INVAL) }
}
