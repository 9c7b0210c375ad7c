//! Buffer objects.

use std::ffi::CString;
use std::sync::{Arc, Mutex, PoisonError};

use crate::device::{Device, Feature, Inner};
use crate::error::{Error, Object};
use crate::fd::OwnedFd;
use crate::mapping::Mapping;
use crate::sys::drm::*;
use crate::sys::panthor::*;
use crate::transport::{Errno, Fd, Prot};
use crate::vm::Vm;

/// The longest label in bytes, its NUL included (`panthor_gem.h`, `PANTHOR_BO_LABEL_MAXLEN`).
pub const LABEL_MAXLEN: usize = 4096;

/// What BO_SYNC does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BoSyncType {
    /// Write the CPU's caches back: before the GPU reads what the CPU wrote.
    Flush,
    /// Write back and drop: before the CPU reads what the GPU wrote.
    FlushAndInvalidate,
}

impl BoSyncType {
    /// The kernel's number.
    const fn raw(self) -> u32 {
        match self {
            BoSyncType::Flush => DRM_PANTHOR_BO_SYNC_CPU_CACHE_FLUSH,
            BoSyncType::FlushAndInvalidate => DRM_PANTHOR_BO_SYNC_CPU_CACHE_FLUSH_AND_INVALIDATE,
        }
    }
}

/// One range of [`Device::sync_bos`].
#[derive(Clone, Copy, Debug)]
pub struct BoSyncOp<'a> {
    /// The BO.
    pub bo: &'a Bo,
    /// What to do.
    pub r#type: BoSyncType,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub size: u64,
}

/// What BO_QUERY_INFO tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BoInfo {
    /// The flags that it was created with; empty if it comes from another driver.
    pub create_flags: BoFlags,
    /// What else is known.
    pub extra_flags: BoExtraFlags,
}

/// A buffer object. Its handle is closed when dropped; mappings and binds keep the memory itself.
#[derive(Debug)]
pub struct Bo {
    device: Arc<Inner>,
    handle: u32,
    size: u64,
    flags: BoFlags,
    label: Mutex<String>,
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.object().fmt(f)
    }
}

impl Device {
    /// Creates a BO of at least `size` bytes; the driver rounds up to CPU pages. With `exclusive_vm` it can be bound
    /// only there and not be exported, which makes submissions cheaper.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for `WB_MMAP` before 1.7; [`Error::Call`]: EINVAL (size 0, `NO_MMAP` with `WB_MMAP`),
    /// ENOMEM.
    pub fn create_bo(
        &self,
        size: u64,
        flags: BoFlags,
        exclusive_vm: Option<&Vm>,
    ) -> Result<Bo, Error> {
        if flags.contains(BoFlags::WB_MMAP) {
            self.require(Feature::WbMmap)?;
        }
        let exclusive_vm_id = exclusive_vm.map_or(0, Vm::id);
        let mut args = drm_panthor_bo_create {
            size,
            flags: flags.bits(),
            exclusive_vm_id,
            handle: 0,
            pad: 0,
        };
        let mut handles = self.0.gem();
        // SAFETY: no pointers inside.
        unsafe {
            self.0
                .call(DRM_IOCTL_PANTHOR_BO_CREATE, &mut args, || self.0.object())?
        };
        *handles.entry(args.handle).or_default() += 1;
        drop(handles);
        let label = Mutex::default();
        Ok(Bo {
            device: self.0.clone(),
            handle: args.handle,
            size: args.size,
            flags,
            label,
        })
    }

    /// Imports a dma-buf of this transport. The same dma-buf twice gives two `Bo`s with one handle, which is closed with
    /// the last of them.
    ///
    /// # Errors
    /// [`Error::Call`]: EBADF, EINVAL (not a dma-buf), ENOMEM.
    pub fn import_bo(&self, dma_buf: Fd) -> Result<Bo, Error> {
        let object = || Object::Fd(dma_buf.raw());
        let size = self
            .0
            .transport
            .seek_end(dma_buf)
            .map_err(|errno| Error::Call {
                call: "lseek",
                object: object(),
                errno,
            })?;
        let mut args = drm_prime_handle {
            handle: 0,
            flags: 0,
            fd: dma_buf.raw(),
        };
        let mut handles = self.0.gem();
        // SAFETY: no pointers inside.
        unsafe {
            self.0
                .call(DRM_IOCTL_PRIME_FD_TO_HANDLE, &mut args, object)?
        };
        *handles.entry(args.handle).or_default() += 1;
        drop(handles);
        let label = Mutex::default();
        let mut bo = Bo {
            device: self.0.clone(),
            handle: args.handle,
            size,
            flags: BoFlags::empty(),
            label,
        };
        if self.has(Feature::BoQueryInfo) {
            bo.flags = bo.query_info()?.create_flags;
        }
        Ok(bo)
    }

    /// Syncs ranges of cached BOs, in order.
    ///
    /// # Errors
    /// [`Error::Unsupported`] before 1.7; [`Error::Argument`] for a range outside its BO; [`Error::Call`].
    pub fn sync_bos(&self, ops: &[BoSyncOp<'_>]) -> Result<(), Error> {
        self.require(Feature::BoSync)?;
        for op in ops {
            op.bo.check_range(op.offset, op.size)?;
        }
        let raw: Vec<_> = ops
            .iter()
            .map(|op| drm_panthor_bo_sync_op {
                handle: op.bo.handle,
                r#type: op.r#type.raw(),
                offset: op.offset,
                size: op.size,
            })
            .collect();
        let mut args = drm_panthor_bo_sync {
            ops: obj_array(&raw),
        };
        let object = || {
            ops.first()
                .map_or_else(|| self.0.object(), |op| op.bo.object())
        };
        // SAFETY: `ops` leads to `raw`, which lives to the end of this function and is only read.
        unsafe { self.0.call(DRM_IOCTL_PANTHOR_BO_SYNC, &mut args, object) }
    }
}

/// An object array over `objects`, which must live as long as the ioctl runs.
pub(crate) fn obj_array<T>(objects: &[T]) -> drm_panthor_obj_array {
    if objects.is_empty() {
        return drm_panthor_obj_array::default();
    }
    drm_panthor_obj_array {
        stride: size_of::<T>() as u32, // of a kernel struct: small
        count: objects.len() as u32, // callers check; no slice of such structs of 2^32 fits in memory in practice
        array: objects.as_ptr().expose_provenance() as u64,
    }
}

impl Bo {
    /// The GEM handle, nonzero.
    pub fn handle(&self) -> u32 {
        self.handle
    }

    /// Bytes, whole CPU pages.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The flags that it was created with.
    pub fn flags(&self) -> BoFlags {
        self.flags
    }

    /// The BO as errors name it.
    pub fn object(&self) -> Object {
        Object::Bo(self.handle, self.label())
    }

    /// Its label, "" without one.
    pub fn label(&self) -> String {
        self.label
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Names the BO. The name serves in this program's errors with every driver; since 1.4 the kernel knows it too and
    /// shows it in debugfs.
    ///
    /// # Errors
    /// [`Error::Argument`] for a label with a NUL or too long; [`Error::Call`].
    pub fn set_label(&self, label: &str) -> Result<(), Error> {
        let refuse = |what: &str| Error::Argument {
            object: self.object(),
            what: what.to_owned(),
        };
        let text = CString::new(label).map_err(|_| refuse("a label with a NUL inside"))?;
        if text.as_bytes_with_nul().len() > LABEL_MAXLEN {
            return Err(refuse("a label of more than 4095 bytes"));
        }
        label.clone_into(&mut self.label.lock().unwrap_or_else(PoisonError::into_inner));
        if self.device.require(Feature::BoLabel).is_err() {
            return Ok(());
        }
        let pointer = text.as_ptr().expose_provenance() as u64;
        let mut args = drm_panthor_bo_set_label {
            handle: self.handle,
            pad: 0,
            label: pointer,
        };
        // SAFETY: `label` leads to a NUL-terminated string that lives to the end of this function and is only read.
        unsafe {
            self.device
                .call(DRM_IOCTL_PANTHOR_BO_SET_LABEL, &mut args, || self.object())
        }
    }

    /// Maps the whole BO for reading and writing.
    ///
    /// # Errors
    /// [`Error::Call`]: EPERM for `NO_MMAP`, ENOMEM.
    pub fn map(&self) -> Result<Mapping, Error> {
        let mut args = drm_panthor_bo_mmap_offset {
            handle: self.handle,
            pad: 0,
            offset: 0,
        };
        // SAFETY: no pointers inside.
        unsafe {
            self.device
                .call(DRM_IOCTL_PANTHOR_BO_MMAP_OFFSET, &mut args, || {
                    self.object()
                })?
        };
        let len = usize::try_from(self.size).map_err(|_| Error::Call {
            call: "mmap",
            object: self.object(),
            errno: Errno::NOMEM,
        })?;
        let prot = Prot::READ | Prot::WRITE;
        Mapping::new(
            &self.device.transport,
            self.device.fd(),
            args.offset,
            len,
            prot,
            self.object(),
        )
    }

    /// Syncs a range of a cached BO.
    ///
    /// # Errors
    /// As [`Device::sync_bos`].
    pub fn sync(&self, r#type: BoSyncType, offset: u64, size: u64) -> Result<(), Error> {
        Device(self.device.clone()).sync_bos(&[BoSyncOp {
            bo: self,
            r#type,
            offset,
            size,
        }])
    }

    /// Asks the driver about the BO.
    ///
    /// # Errors
    /// [`Error::Unsupported`] before 1.7; [`Error::Call`].
    pub fn query_info(&self) -> Result<BoInfo, Error> {
        self.device.require(Feature::BoQueryInfo)?;
        let mut args = drm_panthor_bo_query_info {
            handle: self.handle,
            ..Default::default()
        };
        // SAFETY: no pointers inside.
        unsafe {
            self.device
                .call(DRM_IOCTL_PANTHOR_BO_QUERY_INFO, &mut args, || self.object())?
        };
        Ok(BoInfo {
            create_flags: BoFlags::from_bits_retain(args.create_flags),
            extra_flags: BoExtraFlags::from_bits_retain(args.extra_flags),
        })
    }

    /// Exports the BO as a dma-buf that others can map for writing.
    ///
    /// # Errors
    /// [`Error::Call`]: EINVAL for a BO with an exclusive VM, EMFILE.
    pub fn export(&self) -> Result<OwnedFd, Error> {
        let flags = (PrimeFlags::CLOEXEC | PrimeFlags::RDWR).bits();
        let mut args = drm_prime_handle {
            handle: self.handle,
            flags,
            fd: -1,
        };
        // SAFETY: no pointers inside.
        unsafe {
            self.device
                .call(DRM_IOCTL_PRIME_HANDLE_TO_FD, &mut args, || self.object())?
        };
        // SAFETY: just given by this transport, to us.
        Ok(unsafe { OwnedFd::from_fd(self.device.transport.clone(), Fd::from_raw(args.fd)) })
    }

    /// Fails unless the range lies inside the BO.
    pub(crate) fn check_range(&self, offset: u64, size: u64) -> Result<(), Error> {
        if offset.checked_add(size).is_none_or(|end| end > self.size) {
            let what = format!("a range of {size} bytes at {offset} in {} bytes", self.size);
            return Err(Error::Argument {
                object: self.object(),
                what,
            });
        }
        Ok(())
    }
}

impl Drop for Bo {
    fn drop(&mut self) {
        let mut handles = self.device.gem();
        if let Some(count) = handles.get_mut(&self.handle) {
            *count -= 1;
            if *count > 0 {
                return;
            }
        }
        handles.remove(&self.handle);
        let mut args = drm_gem_close {
            handle: self.handle,
            pad: 0,
        };
        // SAFETY: no pointers inside.
        if let Err(error) = unsafe {
            self.device
                .call(DRM_IOCTL_GEM_CLOSE, &mut args, || self.device.object())
        } {
            log::warn!("{error}");
        }
    }
}
