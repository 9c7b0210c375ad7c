//! The ioctls: DRM core's dispatch and its own handlers (`drm_ioctl.c`, `drm_prime.c`).

use std::sync::Arc;

use panthor_uapi::Errno;
use panthor_uapi::sys::drm::{drm_gem_close, drm_get_cap, drm_prime_handle, drm_version};
use panthor_uapi::sys::panthor::*;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::gem::DmaBuf;
use super::user;
use super::world::{FdObject, FileId, World};

/// First number of a driver's own ioctls (`DRM_COMMAND_BASE`), and the first behind them (`DRM_COMMAND_END`).
const COMMANDS: std::ops::Range<u32> = 0x40..0xa0;

/// `_IOC_WRITE`: the client's struct is copied in.
const IN: u32 = 1;
/// `_IOC_READ`: the struct is copied back.
const OUT: u32 = 2;

/// Which handler an ioctl number of the core has on a render node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Core {
    /// Allowed; bytes of the kernel's own struct.
    Known(u32),
    /// Exists, but not for render nodes: EACCES. Its directions.
    NotAllowed(u32),
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
        // SET_CLIENT_NAME, and GEM_CHANGE_HANDLE, which is EINVAL whatever it says (`drm_invalid_op`).
        0xd1 | 0xd2 if is_7x => Core::Known(16),
        // Names, magic numbers, masters, drawables, vertical blanks, modes.
        0x02 | 0x06 => Core::NotAllowed(OUT),
        0x0d | 0x10 | 0x11 | 0x2c | 0x3f => Core::NotAllowed(IN),
        0x1e | 0x1f => Core::NotAllowed(0),
        0x01
        | 0x05
        | 0x07
        | 0x0a
        | 0x0b
        | 0x12
        | 0x13
        | 0x27
        | 0x28
        | 0x3a..=0x3c
        | 0xa0..=0xbe
        | 0xc6..=0xc9
        | 0xce
        | 0xd0 => Core::NotAllowed(IN | OUT),
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
    /// Whether a render node may.
    allowed: bool,
    /// Bytes to copy back.
    out: usize,
    arg: u64,
}

impl Call {
    /// `drm_ioctl`, up to the handler: ENOTTY for another group, EINVAL for a number without a handler, EFAULT for a
    /// bad pointer.
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
        // All are read-write but GEM_CLOSE, which only writes, and some that nobody may call here.
        let (own, own_direction, allowed) = if COMMANDS.contains(&nr) {
            (own_size(nr, is_7x).ok_or(Errno::INVAL)?, IN | OUT, true)
        } else {
            match core_ioctl(nr, is_7x) {
                Core::Known(size) => (size, if nr == 0x09 { IN } else { IN | OUT }, true),
                Core::NotAllowed(direction) => (0, direction, false),
                Core::Unknown => return Err(Errno::INVAL),
            }
        };
        // The kernel copies only in the directions that both numbers have.
        let both = direction & own_direction;
        let copy_in = if both & IN != 0 { size } else { 0 };
        let out = if both & OUT != 0 { size } else { 0 };
        let mut data = vec![0; own.max(copy_in).max(out) as usize];
        user::read(arg, &mut data[..copy_in as usize])?;
        Ok(Self {
            nr,
            data,
            allowed,
            out: out as usize,
            arg,
        })
    }

    /// EACCES for what render nodes may not do (`drm_ioctl_permit`); the struct is copied back nevertheless.
    pub fn permitted(&self) -> Result<(), Errno> {
        if self.allowed {
            Ok(())
        } else {
            Err(Errno::ACCESS)
        }
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
            0xd1 => call.with(set_client_name),
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
        // The core has no date any more and says "0".
        let date: &[u8] = b"0";
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
}

/// `drm_set_client_name`: nothing here shows the name, but what is none is refused.
fn set_client_name(args: &mut [u64; 2]) -> Result<(), Errno> {
    /// `DRM_CLIENT_NAME_MAX_LEN`.
    const MAX_LEN: u64 = 64;
    let [len, address] = *args;
    if len > MAX_LEN {
        return Err(Errno::INVAL);
    }
    let mut name = vec![0; len as usize];
    user::read(address, &mut name)?;
    if name.iter().all(u8::is_ascii_graphic) {
        Ok(())
    } else {
        Err(Errno::INVAL)
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
