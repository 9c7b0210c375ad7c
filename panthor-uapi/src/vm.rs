//! GPU address spaces.

use std::fmt;
use std::ops::Add;
use std::sync::Arc;

use crate::bo::{Bo, obj_array};
use crate::call::{Restarts, failed};
use crate::device::{Device, Feature, Inner};
use crate::error::{Error, Object};
use crate::syncobj::SyncOp;
use crate::sys::panthor::*;
use crate::transport::Errno;

/// A GPU virtual address: never a CPU pointer, never a handle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GpuVa(pub u64);

impl Add<u64> for GpuVa {
    type Output = GpuVa;

    fn add(self, bytes: u64) -> GpuVa {
        GpuVa(self.0 + bytes)
    }
}

impl fmt::Display for GpuVa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// One operation of a bind, with the syncs of an asynchronous one.
#[derive(Clone, Debug)]
pub struct BindOp<'a> {
    raw: drm_panthor_vm_bind_op,
    bo: Option<&'a Bo>,
    syncs: Vec<SyncOp<'a>>,
}

impl<'a> BindOp<'a> {
    fn new(flags: VmBindOpFlags, va: GpuVa, size: u64) -> Self {
        let raw = drm_panthor_vm_bind_op {
            flags: flags.bits(),
            va: va.0,
            size,
            ..Default::default()
        };
        Self {
            raw,
            bo: None,
            syncs: Vec::new(),
        }
    }

    /// Maps `size` bytes of `bo`, from `bo_offset` on, at `va`; whatever was there is replaced. `flags` are `MAP_*`
    /// flags. All numbers are multiples of [`Device::gpu_page_size`].
    pub fn map(bo: &'a Bo, bo_offset: u64, va: GpuVa, size: u64, flags: VmBindOpFlags) -> Self {
        let mut op = Self::new(flags, va, size);
        op.raw.bo_handle = bo.handle();
        op.raw.bo_offset = bo_offset;
        op.bo = Some(bo);
        op
    }

    /// Maps a dummy over a range; reads from it are undefined. Since 1.9.
    pub fn map_sparse(va: GpuVa, size: u64) -> Self {
        Self::new(
            VmBindOpFlags::MAP_SPARSE | VmBindOpFlags::MAP_NOEXEC,
            va,
            size,
        )
    }

    /// Unmaps a range.
    pub fn unmap(va: GpuVa, size: u64) -> Self {
        Self::new(VmBindOpFlags::TYPE_UNMAP, va, size)
    }

    /// Only waits and signals, in the order of the VM's queue; for asynchronous binds.
    pub fn sync_only() -> Self {
        Self::new(VmBindOpFlags::TYPE_SYNC_ONLY, GpuVa(0), 0)
    }

    /// Adds a wait or a signal; for asynchronous binds.
    #[must_use]
    pub fn with_sync(mut self, sync: SyncOp<'a>) -> Self {
        self.syncs.push(sync);
        self
    }
}

/// The id of a VM, destroyed with the last holder.
struct VmInner {
    device: Arc<Inner>,
    id: u32,
    user_va_range: u64,
}

impl Drop for VmInner {
    fn drop(&mut self) {
        let mut args = drm_panthor_vm_destroy {
            id: self.id,
            pad: 0,
        };
        // SAFETY: no pointers inside.
        let result = unsafe {
            self.device
                .call(DRM_IOCTL_PANTHOR_VM_DESTROY, &mut args, || {
                    Object::Vm(self.id)
                })
        };
        if let Err(error) = result {
            log::warn!("{error}");
        }
    }
}

/// A GPU address space. Cheap to clone; groups and heaps in it hold it too, and the last holder destroys it.
#[derive(Clone)]
pub struct Vm(Arc<VmInner>);

impl fmt::Debug for Vm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Vm({}, {:#x} bytes)", self.0.id, self.0.user_va_range)
    }
}

impl Device {
    /// Creates a VM whose first `user_va_range` bytes are the user's; 0 leaves the size to the driver.
    ///
    /// # Errors
    /// [`Error::Call`]: EINVAL for a range that the GPU does not have, ENOMEM, ENODEV.
    pub fn create_vm(&self, user_va_range: u64) -> Result<Vm, Error> {
        let mut args = drm_panthor_vm_create {
            flags: 0,
            id: 0,
            user_va_range,
        };
        // SAFETY: no pointers inside.
        unsafe {
            self.0
                .call(DRM_IOCTL_PANTHOR_VM_CREATE, &mut args, || self.0.object())?
        };
        let inner = VmInner {
            device: self.0.clone(),
            id: args.id,
            user_va_range: args.user_va_range,
        };
        Ok(Vm(Arc::new(inner)))
    }
}

impl Vm {
    /// The VM's id, nonzero.
    pub fn id(&self) -> u32 {
        self.0.id
    }

    /// The VM as errors name it.
    pub fn object(&self) -> Object {
        Object::Vm(self.0.id)
    }

    /// Bytes of the user's part of the address space, from address 0 on.
    pub fn user_va_range(&self) -> u64 {
        self.0.user_va_range
    }

    /// Runs `ops` before it returns. Where one fails, those before it stay.
    ///
    /// # Errors
    /// [`Error::VmLost`] on an unusable VM (unmaps still work); [`Error::Unsupported`] for a sparse map before 1.9;
    /// [`Error::Argument`] for syncs or a range outside a BO; [`Error::Call`]: EINVAL (misaligned, outside the user's
    /// range, unknown handle, unknown flags), ENOMEM.
    pub fn bind(&self, ops: &[BindOp<'_>]) -> Result<(), Error> {
        self.check(ops)?;
        if ops.iter().any(|op| !op.syncs.is_empty()) {
            let what = "a synchronous bind cannot wait or signal".to_owned();
            return Err(Error::Argument {
                object: self.object(),
                what,
            });
        }
        let raw: Vec<_> = ops.iter().map(|op| op.raw).collect();
        let mut done = 0;
        let mut restarts = Restarts::default();
        while done < raw.len() {
            let rest = &raw[done..];
            let mut args = drm_panthor_vm_bind {
                vm_id: self.0.id,
                flags: 0,
                ops: obj_array(rest),
            };
            let device = &self.0.device;
            // The kernel writes the number of finished operations back into the array's count, also when it fails
            // (`panthor_drv.c`, panthor_ioctl_vm_bind_sync), so that an interrupted bind goes on where it stopped.
            // SAFETY: `ops` leads to `raw`, which lives to the end of this function and is only read.
            let result = unsafe {
                device.transport.ioctl(
                    device.fd(),
                    DRM_IOCTL_PANTHOR_VM_BIND,
                    std::ptr::from_mut(&mut args).cast(),
                )
            };
            let finished = (args.ops.count as usize).min(rest.len());
            match result {
                // Usually all of them; fewer if the kernel itself restarted an interrupted call with the lower count.
                Ok(_) if finished > 0 => done += finished,
                Ok(_) => return Err(self.refused(Errno::INTR)),
                Err(errno) if restarts.again(&*device.transport, errno) => {
                    done += if finished < rest.len() { finished } else { 0 };
                }
                Err(errno) => return Err(self.refused(errno)),
            }
        }
        Ok(())
    }

    /// Queues `ops` on the VM's queue, each with its waits and signals; they run in order.
    ///
    /// # Errors
    /// As [`Vm::bind`]; operations that fail later make the VM unusable and give their signals an error.
    pub fn bind_async(&self, ops: &[BindOp<'_>]) -> Result<(), Error> {
        self.check(ops)?;
        let syncs: Vec<Vec<_>> = ops.iter().map(|op| SyncOp::raw(&op.syncs)).collect();
        let raw: Vec<_> = ops
            .iter()
            .zip(&syncs)
            .map(|(op, syncs)| drm_panthor_vm_bind_op {
                syncs: obj_array(syncs),
                ..op.raw
            })
            .collect();
        let flags = VmBindFlags::ASYNC.bits();
        let mut args = drm_panthor_vm_bind {
            vm_id: self.0.id,
            flags,
            ops: obj_array(&raw),
        };
        // SAFETY: `ops` leads to `raw` and from there to `syncs`; both live to the end of this function and are only
        // read.
        match unsafe { self.0.device.ioctl(DRM_IOCTL_PANTHOR_VM_BIND, &mut args) } {
            Ok(_) => Ok(()),
            Err(errno) => Err(self.refused(errno)),
        }
    }

    /// Whether the VM still accepts maps: `false` once an asynchronous bind failed.
    ///
    /// # Errors
    /// [`Error::Call`].
    pub fn is_usable(&self) -> Result<bool, Error> {
        let mut args = drm_panthor_vm_get_state {
            vm_id: self.0.id,
            state: 0,
        };
        // SAFETY: no pointers inside.
        unsafe {
            self.0
                .device
                .call(DRM_IOCTL_PANTHOR_VM_GET_STATE, &mut args, || self.object())?
        };
        Ok(args.state == DRM_PANTHOR_VM_STATE_USABLE)
    }

    /// The device that it belongs to.
    pub(crate) fn device(&self) -> &Arc<Inner> {
        &self.0.device
    }

    fn check(&self, ops: &[BindOp<'_>]) -> Result<(), Error> {
        for op in ops {
            if VmBindOpFlags::from_bits_retain(op.raw.flags).contains(VmBindOpFlags::MAP_SPARSE) {
                self.0.device.require(Feature::SparseMap)?;
            }
            if let Some(bo) = op.bo {
                bo.check_range(op.raw.bo_offset, op.raw.size)?;
            }
        }
        Ok(())
    }

    /// The error of a refused bind.
    fn refused(&self, errno: Errno) -> Error {
        if errno == Errno::INVAL && matches!(self.is_usable(), Ok(false)) {
            return Error::VmLost { vm: self.object() };
        }
        failed(DRM_IOCTL_PANTHOR_VM_BIND, self.object())(errno)
    }
}
