//! A client of the simulated driver that speaks raw ioctls.

use std::path::Path;
use std::sync::Arc;

use panthor_sim::kmd::{Device, Monitor, Options, Sim};
use panthor_uapi::sys::drm::*;
use panthor_uapi::sys::panthor::*;
use panthor_uapi::sys::sync_file::*;
use panthor_uapi::{Errno, Fd, Prot, Transport};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes};

use super::script::{Act, ScriptedGpu, Shared};

pub const SIGNAL: u32 = 1 << 31;
pub const TIMELINE: u32 = 1;

/// Kernels that every rule is tried on.
pub const KERNELS: [&str; 3] = ["6.12", "7.2", "7.3"];

pub struct Client {
    pub device: Arc<Device>,
    pub script: Arc<Shared>,
    pub fd: Fd,
}

/// A client of a new device.
pub fn open(device: &str) -> Client {
    let script = Arc::new(Shared::default());
    let options: Options = device.parse().unwrap();
    let device = Device::with_gpu(options, Box::new(ScriptedGpu(script.clone()))).unwrap();
    let fd = device.open(Path::new("/dev/dri/renderD128")).unwrap();
    Client { device, script, fd }
}

/// A client of a new device with the simulated GPU.
pub fn open_mali(device: &str) -> (Client, Monitor) {
    let (device, monitor) = Sim::device(device.parse().unwrap()).unwrap();
    let fd = device.open(Path::new("/dev/dri/renderD128")).unwrap();
    (
        Client {
            device,
            script: Arc::default(),
            fd,
        },
        monitor,
    )
}

pub fn array<T>(items: &[T]) -> drm_panthor_obj_array {
    drm_panthor_obj_array {
        stride: size_of::<T>() as u32,
        count: items.len() as u32,
        array: items.as_ptr() as u64,
    }
}

pub fn signal(handle: u32, point: u64) -> drm_panthor_sync_op {
    drm_panthor_sync_op {
        flags: SIGNAL | if point > 0 { TIMELINE } else { 0 },
        handle,
        timeline_value: point,
    }
}

pub fn wait(handle: u32, point: u64) -> drm_panthor_sync_op {
    drm_panthor_sync_op {
        flags: u32::from(point > 0) * TIMELINE,
        handle,
        timeline_value: point,
    }
}

impl Client {
    /// Another client of the same device.
    pub fn again(&self) -> Client {
        let fd = self.device.open(Path::new("/dev/dri/renderD128")).unwrap();
        Client {
            device: self.device.clone(),
            script: self.script.clone(),
            fd,
        }
    }

    pub fn raw(&self, fd: Fd, request: u32, arg: *mut u8) -> Result<(), Errno> {
        // SAFETY: the tests pass structs of the request's size, or addresses that are bad on purpose, which the
        // simulator copies from with a check.
        unsafe { self.device.ioctl(fd, request, arg) }.map(|zero| assert_eq!(zero, 0))
    }

    pub fn ioctl<T: FromBytes + IntoBytes + Immutable>(
        &self,
        request: u32,
        args: &mut T,
    ) -> Result<(), Errno> {
        self.raw(self.fd, request, args.as_mut_bytes().as_mut_ptr())
    }

    /// Like `ioctl`, from a struct that `edit` changes first.
    pub fn try_with<T: FromBytes + IntoBytes + Immutable + FromZeros>(
        &self,
        request: u32,
        edit: impl FnOnce(&mut T),
    ) -> Result<T, Errno> {
        let mut args = T::new_zeroed();
        edit(&mut args);
        self.ioctl(request, &mut args).map(|()| args)
    }

    pub fn vm(&self) -> u32 {
        self.try_with::<drm_panthor_vm_create>(DRM_IOCTL_PANTHOR_VM_CREATE, |_| {})
            .unwrap()
            .id
    }

    pub fn try_bo(&self, size: u64, flags: u32, vm: u32) -> Result<u32, Errno> {
        self.try_with::<drm_panthor_bo_create>(DRM_IOCTL_PANTHOR_BO_CREATE, |args| {
            (args.size, args.flags, args.exclusive_vm_id) = (size, flags, vm);
        })
        .map(|args| args.handle)
    }

    pub fn bo(&self, size: u64) -> u32 {
        self.try_bo(size, 0, 0).unwrap()
    }

    pub fn mmap_offset(&self, handle: u32) -> Result<u64, Errno> {
        self.try_with::<drm_panthor_bo_mmap_offset>(DRM_IOCTL_PANTHOR_BO_MMAP_OFFSET, |args| {
            args.handle = handle
        })
        .map(|args| args.offset)
    }

    /// A mapping that stays until the test ends.
    pub fn map(&self, handle: u32, len: usize) -> &'static mut [u8] {
        let offset = self.mmap_offset(handle).unwrap();
        let address = self
            .device
            .mmap(self.fd, offset, len, Prot::READ | Prot::WRITE)
            .unwrap();
        // SAFETY: the mapping is `len` bytes long and never undone by the tests that use it.
        unsafe { std::slice::from_raw_parts_mut(address.as_ptr(), len) }
    }

    pub fn bind(&self, vm: u32, ops: &[drm_panthor_vm_bind_op], flags: u32) -> Result<(), Errno> {
        self.try_with::<drm_panthor_vm_bind>(DRM_IOCTL_PANTHOR_VM_BIND, |args| {
            (args.vm_id, args.flags, args.ops) = (vm, flags, array(ops));
        })
        .map(drop)
    }

    pub fn bind_at(&self, vm: u32, handle: u32, va: u64, size: u64) {
        let op = drm_panthor_vm_bind_op {
            bo_handle: handle,
            va,
            size,
            ..Default::default()
        };
        self.bind(vm, &[op], 0).unwrap();
    }

    pub fn vm_state(&self, vm: u32) -> u32 {
        self.try_with::<drm_panthor_vm_get_state>(DRM_IOCTL_PANTHOR_VM_GET_STATE, |args| {
            args.vm_id = vm
        })
        .unwrap()
        .state
    }

    pub fn try_group(
        &self,
        vm: u32,
        edit: impl FnOnce(&mut drm_panthor_group_create),
    ) -> Result<u32, Errno> {
        let queues = [drm_panthor_queue_create {
            ringbuf_size: 65536,
            ..Default::default()
        }; 2];
        self.try_with::<drm_panthor_group_create>(DRM_IOCTL_PANTHOR_GROUP_CREATE, |args| {
            *args = drm_panthor_group_create {
                queues: array(&queues),
                max_compute_cores: 4,
                max_fragment_cores: 4,
                max_tiler_cores: 1,
                priority: 1,
                pad: 0,
                compute_core_mask: 0x50005,
                fragment_core_mask: 0x50005,
                tiler_core_mask: 1,
                vm_id: vm,
                group_handle: 0,
            };
            edit(args);
        })
        .map(|args| args.group_handle)
    }

    /// A group of two queues.
    pub fn group(&self, vm: u32) -> u32 {
        self.try_group(vm, |_| {}).unwrap()
    }

    pub fn destroy_group(&self, group: u32) -> Result<(), Errno> {
        self.try_with::<drm_panthor_group_destroy>(DRM_IOCTL_PANTHOR_GROUP_DESTROY, |args| {
            args.group_handle = group
        })
        .map(drop)
    }

    /// State and fatal queues.
    pub fn group_state(&self, group: u32) -> (u32, u32) {
        let args = self
            .try_with::<drm_panthor_group_get_state>(DRM_IOCTL_PANTHOR_GROUP_GET_STATE, |args| {
                args.group_handle = group
            })
            .unwrap();
        (args.state, args.fatal_queues)
    }

    pub fn submit(&self, group: u32, jobs: &[drm_panthor_queue_submit]) -> Result<(), Errno> {
        self.try_with::<drm_panthor_group_submit>(DRM_IOCTL_PANTHOR_GROUP_SUBMIT, |args| {
            (args.group_handle, args.queue_submits) = (group, array(jobs));
        })
        .map(drop)
    }

    /// Submits one stream that does `acts`.
    pub fn run(
        &self,
        group: u32,
        queue: u32,
        va: u64,
        acts: &[Act],
        syncs: &[drm_panthor_sync_op],
    ) {
        self.script.stream(va, acts);
        self.submit(group, &[job(queue, va, syncs)]).unwrap();
    }

    pub fn syncobj(&self) -> u32 {
        self.try_with::<drm_syncobj_create>(DRM_IOCTL_SYNCOBJ_CREATE, |_| {})
            .unwrap()
            .handle
    }

    /// Waits for points until `timeout` nanoseconds from now.
    pub fn wait_points(
        &self,
        points: &[(u32, u64)],
        flags: u32,
        timeout: u64,
    ) -> Result<u32, Errno> {
        let (handles, values): (Vec<u32>, Vec<u64>) = points.iter().copied().unzip();
        self.try_with::<drm_syncobj_timeline_wait>(DRM_IOCTL_SYNCOBJ_TIMELINE_WAIT, |args| {
            args.handles = handles.as_ptr() as u64;
            args.points = values.as_ptr() as u64;
            args.timeout_nsec = (self.device.now() + timeout) as i64;
            args.count_handles = handles.len() as u32;
            args.flags = flags;
        })
        .map(|args| args.first_signaled)
    }

    /// Waits for a binary syncobj for up to 100 simulated seconds.
    pub fn wait_done(&self, handle: u32) -> Result<(), Errno> {
        self.wait_points(&[(handle, 0)], 0, 100_000_000_000)
            .map(drop)
    }

    pub fn export(&self, handle: u32, point: u64) -> Result<Fd, Errno> {
        self.try_with::<drm_syncobj_handle>(DRM_IOCTL_SYNCOBJ_HANDLE_TO_FD, |args| {
            let flags = SyncobjFdFlags::SYNC_FILE
                | if point > 0 {
                    SyncobjFdFlags::TIMELINE
                } else {
                    SyncobjFdFlags::empty()
                };
            (args.handle, args.flags, args.point) = (handle, flags.bits(), point);
        })
        .map(|args| Fd::from_raw(args.fd))
    }

    /// The status of a sync file as the short form of FILE_INFO tells it.
    pub fn file_status(&self, file: Fd) -> i32 {
        let mut info = sync_file_info::new_zeroed();
        self.raw(file, SYNC_IOC_FILE_INFO, info.as_mut_bytes().as_mut_ptr())
            .unwrap();
        info.status
    }

    /// The status of every fence in a sync file.
    pub fn fence_statuses(&self, file: Fd) -> Vec<i32> {
        let mut fences = vec![sync_fence_info::new_zeroed(); 64];
        let mut info = sync_file_info::new_zeroed();
        info.num_fences = 64;
        info.sync_fence_info = fences.as_mut_ptr() as u64;
        self.raw(file, SYNC_IOC_FILE_INFO, info.as_mut_bytes().as_mut_ptr())
            .unwrap();
        fences[..info.num_fences as usize]
            .iter()
            .map(|fence| fence.status)
            .collect()
    }

    /// The status of a binary syncobj's fence: 0 pending, 1 good, negative an errno.
    pub fn status(&self, handle: u32) -> i32 {
        let file = self.export(handle, 0).unwrap();
        let status = self.file_status(file);
        self.close(file);
        status
    }

    pub fn close(&self, fd: Fd) {
        // SAFETY: the tests use no descriptor after closing it.
        unsafe { self.device.close(fd) }.unwrap();
    }
}

pub fn job(queue: u32, va: u64, syncs: &[drm_panthor_sync_op]) -> drm_panthor_queue_submit {
    drm_panthor_queue_submit {
        queue_index: queue,
        stream_size: if va == 0 { 0 } else { 64 },
        stream_addr: va,
        latest_flush: 0,
        pad: 0,
        syncs: array(syncs),
    }
}

pub fn errno(error: Errno) -> i32 {
    -error.raw_os_error()
}
