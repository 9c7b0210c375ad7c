//! Syncobjs and sync files (`drm_syncobj.c`, `sync_file.c`).

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use panthor_uapi::Errno;
use panthor_uapi::sys::drm::{
    drm_syncobj_array, drm_syncobj_create, drm_syncobj_destroy, drm_syncobj_eventfd,
    drm_syncobj_handle, drm_syncobj_timeline_array, drm_syncobj_transfer,
};
use panthor_uapi::sys::sync_file::{sync_fence_info, sync_file_info, sync_merge_data};
use zerocopy::IntoBytes;

use super::fence::{Fence, FenceRef};
use super::options::Kernel;
use super::user;
use super::world::{FdObject, FileId, World, signal_eventfd};

const CREATE_SIGNALED: u32 = 1 << 0;
const FD_SYNC_FILE: u32 = 1 << 0;
const FD_TIMELINE: u32 = 1 << 1;
/// `DRM_SYNCOBJ_WAIT_FLAGS_WAIT_ALL`.
pub const WAIT_ALL: u32 = 1 << 0;
/// `DRM_SYNCOBJ_WAIT_FLAGS_WAIT_FOR_SUBMIT`.
pub const WAIT_FOR_SUBMIT: u32 = 1 << 1;
/// `DRM_SYNCOBJ_WAIT_FLAGS_WAIT_AVAILABLE`.
pub const WAIT_AVAILABLE: u32 = 1 << 2;
/// `DRM_SYNCOBJ_WAIT_FLAGS_WAIT_DEADLINE`.
pub const WAIT_DEADLINE: u32 = 1 << 3;
const QUERY_LAST_SUBMITTED: u32 = 1 << 0;
/// The largest block that the kernel's allocator gives for an array of handles (`KMALLOC_MAX_SIZE`, 4 KiB pages).
const KMALLOC_MAX: u64 = 4 << 20;

/// A container for a fence.
#[derive(Debug, Default)]
pub struct Syncobj {
    fence: Mutex<Option<FenceRef>>,
    /// Eventfds that wait for a point to have a fence.
    events: Mutex<Vec<Arc<EventWait>>>,
}

impl Syncobj {
    /// The fence in it.
    pub fn fence(&self) -> Option<FenceRef> {
        lock(&self.fence).clone()
    }

    /// Puts a fence into it, or takes it out (`drm_syncobj_replace_fence`).
    pub fn replace(&self, fence: Option<FenceRef>, now: u64) {
        let old = std::mem::replace(&mut *lock(&self.fence), fence.clone());
        let same = match (&old, &fence) {
            (Some(old), Some(new)) => Arc::ptr_eq(old, new),
            (old, new) => old.is_none() && new.is_none(),
        };
        if !same {
            self.hook_events(now);
        }
    }

    /// Adds a point to the timeline (`drm_syncobj_add_point`).
    pub fn add_point(&self, fence: FenceRef, point: u64, now: u64) {
        let previous = self.fence();
        self.replace(Some(Fence::chain(previous.clone(), fence, point)), now);
        if let Some(previous) = previous {
            previous.collect(now);
        }
    }

    /// The fence of a point (`drm_syncobj_find_fence` without waiting): EINVAL where there is none yet.
    pub fn find(&self, point: u64, now: u64) -> Result<FenceRef, Errno> {
        let fence = self.fence().ok_or(Errno::INVAL)?.find_seqno(point, now)?;
        Ok(fence.unwrap_or_else(|| Fence::stub(now)))
    }

    /// The eventfds whose point has a fence now wait for that fence, whatever is put here later
    /// (`syncobj_eventfd_entry_func`).
    fn hook_events(&self, now: u64) {
        lock(&self.events).retain(|event| match self.find(event.point, now) {
            Ok(fence) => {
                fence.enable_signalling();
                *lock(&event.fence) = Some(fence);
                false
            }
            Err(_) => true,
        });
    }
}

/// Only plain data is behind the locks: a panic elsewhere leaves it usable.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An eventfd that waits for a point.
#[derive(Debug)]
pub struct EventWait {
    syncobj: Weak<Syncobj>,
    fence: Mutex<Option<FenceRef>>,
    point: u64,
    available: bool,
    count: Arc<AtomicU64>,
}

impl EventWait {
    /// Signals the eventfd if it is time. Whether the wait is over.
    pub fn fire(&self, now: u64) -> bool {
        let fence = lock(&self.fence);
        let Some(fence) = &*fence else {
            // A syncobj that goes away takes the waits without a fence with it.
            return self.syncobj.strong_count() == 0;
        };
        let over = self.available || fence.is_signalled(now);
        if over {
            signal_eventfd(&self.count);
        }
        over
    }
}

/// A wait for syncobjs, its arguments copied.
#[derive(Debug)]
pub struct Wait {
    entries: Vec<WaitEntry>,
    flags: u32,
    /// The first entry that was done when the wait began, `u32::MAX` where none was.
    at_first: u32,
    begun: bool,
}

#[derive(Debug)]
struct WaitEntry {
    syncobj: Arc<Syncobj>,
    point: u64,
    fence: Option<FenceRef>,
}

impl Wait {
    /// `drm_syncobj_array_wait_timeout`, up to where it sleeps: EINVAL where a fence is missing that nobody waits for.
    pub fn new(
        syncobjs: Vec<Arc<Syncobj>>,
        points: Vec<u64>,
        flags: u32,
        now: u64,
    ) -> Result<Self, Errno> {
        let mut entries = Vec::with_capacity(syncobjs.len());
        for (syncobj, point) in syncobjs.into_iter().zip(points) {
            let fence = syncobj.find(point, now).ok();
            if fence.is_none() && flags & (WAIT_FOR_SUBMIT | WAIT_AVAILABLE) == 0 {
                return Err(Errno::INVAL);
            }
            entries.push(WaitEntry {
                syncobj,
                point,
                fence,
            });
        }
        Ok(Self {
            entries,
            flags,
            at_first: u32::MAX,
            begun: false,
        })
    }

    /// The first entry that is done if the wait is over. A wait for all that has slept only knows which one was done
    /// before it slept, `u32::MAX` where none was.
    pub fn poll(&mut self, now: u64) -> Option<u32> {
        let (mut first, mut done) = (u32::MAX, 0);
        for (index, entry) in self.entries.iter_mut().enumerate() {
            if entry.fence.is_none() {
                entry.fence = entry.syncobj.find(entry.point, now).ok();
            }
            let Some(fence) = &entry.fence else { continue };
            fence.enable_signalling();
            if self.flags & WAIT_AVAILABLE != 0 || fence.is_signalled(now) {
                first = first.min(index as u32);
                done += 1;
            }
        }
        let slept = std::mem::replace(&mut self.begun, true);
        if !slept {
            self.at_first = first;
        }
        let all = self.flags & WAIT_ALL != 0;
        let over = done == self.entries.len() || (done > 0 && !all);
        over.then_some(if all { self.at_first } else { first })
    }
}

impl World {
    /// The syncobj behind a handle.
    pub fn find_syncobj(&mut self, file: FileId, handle: u32) -> Option<Arc<Syncobj>> {
        self.file(file).ok()?.syncobjs.get(handle).cloned()
    }

    /// The fence of a point: ENOENT for a bad handle, EINVAL where there is no fence.
    pub fn find_fence(&mut self, file: FileId, handle: u32, point: u64) -> Result<FenceRef, Errno> {
        let now = self.now;
        self.find_syncobj(file, handle)
            .ok_or(Errno::NOENT)?
            .find(point, now)
    }

    /// The syncobjs of a user array of handles (`drm_syncobj_array_find`).
    pub fn find_syncobjs(
        &mut self,
        file: FileId,
        handles: u64,
        count: u32,
    ) -> Result<Vec<Arc<Syncobj>>, Errno> {
        let handles = read_u32s(handles, count)?;
        handles
            .into_iter()
            .map(|handle| self.find_syncobj(file, handle).ok_or(Errno::NOENT))
            .collect()
    }

    /// `DRM_IOCTL_SYNCOBJ_CREATE`.
    pub fn syncobj_create(
        &mut self,
        file: FileId,
        args: &mut drm_syncobj_create,
    ) -> Result<(), Errno> {
        if args.flags & !CREATE_SIGNALED != 0 {
            return Err(Errno::INVAL);
        }
        let syncobj = Syncobj::default();
        if args.flags & CREATE_SIGNALED != 0 {
            syncobj.replace(Some(Fence::stub(self.now)), self.now);
        }
        args.handle = self
            .file(file)?
            .syncobjs
            .insert(Arc::new(syncobj), i32::MAX as u32)?;
        Ok(())
    }

    /// `DRM_IOCTL_SYNCOBJ_DESTROY`.
    pub fn syncobj_destroy(
        &mut self,
        file: FileId,
        args: &drm_syncobj_destroy,
    ) -> Result<(), Errno> {
        if args.pad != 0 {
            return Err(Errno::INVAL);
        }
        // 6.12 keeps the handles in an IDR, newer kernels in an xarray.
        let in_xarray = self.options.kernel.is_7x();
        let syncobjs = &mut self.file(file)?.syncobjs;
        let removed = syncobjs.remove(args.handle);
        if in_xarray && args.handle == 0 {
            syncobjs.free_zero();
        }
        removed.map(drop).ok_or(Errno::INVAL)
    }

    fn checked_fd_flags(&self, args: &drm_syncobj_handle) -> Result<u64, Errno> {
        // The point came with Linux 6.16; an older kernel does not see the field.
        let timeline = if self.options.kernel == Kernel::V6_12 {
            0
        } else {
            FD_TIMELINE
        };
        if args.pad != 0 || args.flags & !(FD_SYNC_FILE | timeline) != 0 {
            return Err(Errno::INVAL);
        }
        let point = if args.flags & FD_TIMELINE != 0 {
            args.point
        } else {
            0
        };
        if args.flags & FD_SYNC_FILE == 0 && timeline != 0 && args.point != 0 {
            return Err(Errno::INVAL);
        }
        Ok(point)
    }

    /// `DRM_IOCTL_SYNCOBJ_HANDLE_TO_FD`.
    pub fn syncobj_to_fd(
        &mut self,
        file: FileId,
        args: &mut drm_syncobj_handle,
    ) -> Result<(), Errno> {
        let point = self.checked_fd_flags(args)?;
        let object = if args.flags & FD_SYNC_FILE != 0 {
            FdObject::SyncFile(self.find_fence(file, args.handle, point)?, None)
        } else {
            FdObject::Syncobj(self.find_syncobj(file, args.handle).ok_or(Errno::INVAL)?)
        };
        args.fd = self.new_fd(object)?;
        Ok(())
    }

    /// `DRM_IOCTL_SYNCOBJ_FD_TO_HANDLE`.
    pub fn syncobj_from_fd(
        &mut self,
        file: FileId,
        args: &mut drm_syncobj_handle,
    ) -> Result<(), Errno> {
        let point = self.checked_fd_flags(args)?;
        let now = self.now;
        let object = self.fds.get(&args.fd).cloned();
        if args.flags & FD_SYNC_FILE != 0 {
            let Some(FdObject::SyncFile(fence, _)) = object else {
                return Err(Errno::INVAL);
            };
            let syncobj = self.find_syncobj(file, args.handle).ok_or(Errno::NOENT)?;
            if point != 0 {
                syncobj.add_point(fence, point, now);
            } else {
                syncobj.replace(Some(fence), now);
            }
        } else {
            let Some(FdObject::Syncobj(syncobj)) = object else {
                return Err(Errno::INVAL);
            };
            args.handle = self.file(file)?.syncobjs.insert(syncobj, i32::MAX as u32)?;
        }
        Ok(())
    }

    /// `DRM_IOCTL_SYNCOBJ_TRANSFER`, once the source has a fence.
    pub fn syncobj_transfer(
        &mut self,
        file: FileId,
        args: &drm_syncobj_transfer,
    ) -> Result<(), Errno> {
        let now = self.now;
        if args.pad != 0 {
            return Err(Errno::INVAL);
        }
        let target = self
            .find_syncobj(file, args.dst_handle)
            .ok_or(Errno::NOENT)?;
        let source = self
            .find_syncobj(file, args.src_handle)
            .ok_or(Errno::NOENT)?;
        if args.flags & !WAIT_FOR_SUBMIT != 0 {
            return Err(Errno::INVAL);
        }
        let fence = source.find(args.src_point, now)?;
        if args.dst_point != 0 {
            target.add_point(Fence::merge(&[fence], now), args.dst_point, now);
        } else {
            target.replace(Some(fence), now);
        }
        Ok(())
    }

    /// `DRM_IOCTL_SYNCOBJ_EVENTFD`.
    pub fn syncobj_eventfd(
        &mut self,
        file: FileId,
        args: &drm_syncobj_eventfd,
    ) -> Result<(), Errno> {
        if args.flags & !WAIT_AVAILABLE != 0 || args.pad != 0 {
            return Err(Errno::INVAL);
        }
        let syncobj = self.find_syncobj(file, args.handle).ok_or(Errno::NOENT)?;
        let count = match self.fds.get(&args.fd) {
            Some(FdObject::Event(count)) => count.clone(),
            Some(_) => return Err(Errno::INVAL),
            None => return Err(Errno::BADF),
        };
        let available = args.flags & WAIT_AVAILABLE != 0;
        let event = Arc::new(EventWait {
            syncobj: Arc::downgrade(&syncobj),
            fence: Mutex::default(),
            point: args.point,
            available,
            count,
        });
        lock(&syncobj.events).push(event.clone());
        syncobj.hook_events(self.now);
        self.event_waits.push(event);
        Ok(())
    }

    /// `DRM_IOCTL_SYNCOBJ_RESET` and `DRM_IOCTL_SYNCOBJ_SIGNAL`.
    pub fn syncobj_set(
        &mut self,
        file: FileId,
        args: &drm_syncobj_array,
        signalled: bool,
    ) -> Result<(), Errno> {
        if args.pad != 0 || args.count_handles == 0 {
            return Err(Errno::INVAL);
        }
        let now = self.now;
        for syncobj in self.find_syncobjs(file, args.handles, args.count_handles)? {
            syncobj.replace(signalled.then(|| Fence::stub(now)), now);
        }
        Ok(())
    }

    /// `DRM_IOCTL_SYNCOBJ_TIMELINE_SIGNAL`.
    pub fn syncobj_timeline_signal(
        &mut self,
        file: FileId,
        args: &drm_syncobj_timeline_array,
    ) -> Result<(), Errno> {
        if args.flags != 0 || args.count_handles == 0 {
            return Err(Errno::INVAL);
        }
        let syncobjs = self.find_syncobjs(file, args.handles, args.count_handles)?;
        let points = read_points(args.points, args.count_handles)?;
        let now = self.now;
        for (syncobj, point) in syncobjs.iter().zip(points) {
            syncobj.add_point(Fence::stub(now), point, now);
        }
        Ok(())
    }

    /// `DRM_IOCTL_SYNCOBJ_QUERY`.
    pub fn syncobj_query(
        &mut self,
        file: FileId,
        args: &drm_syncobj_timeline_array,
    ) -> Result<(), Errno> {
        if args.flags & !QUERY_LAST_SUBMITTED != 0 || args.count_handles == 0 {
            return Err(Errno::INVAL);
        }
        let now = self.now;
        let syncobjs = self.find_syncobjs(file, args.handles, args.count_handles)?;
        for (index, syncobj) in syncobjs.iter().enumerate() {
            let point = match syncobj.fence().filter(|fence| fence.is_chain()) {
                None => 0,
                Some(fence) if args.flags & QUERY_LAST_SUBMITTED != 0 => fence.seqno,
                Some(fence) => {
                    let oldest = fence.oldest_of_context(now);
                    if oldest.is_signalled(now) {
                        oldest.seqno
                    } else {
                        oldest.prev_seqno()
                    }
                }
            };
            user::write_value(args.points.wrapping_add(index as u64 * 8), &point)?;
        }
        Ok(())
    }

    /// An ioctl of a sync file.
    pub fn sync_file_ioctl(
        &mut self,
        fence: &FenceRef,
        name: Option<[u8; 32]>,
        request: u32,
        arg: u64,
    ) -> Result<(), Errno> {
        use panthor_uapi::sys::sync_file::{SYNC_IOC_FILE_INFO, SYNC_IOC_MERGE};
        /// `SYNC_IOC_SET_DEADLINE`: `_IOW('>', 5, struct sync_set_deadline)`.
        const SYNC_IOC_SET_DEADLINE: u32 = 1 << 30 | 16 << 16 | (b'>' as u32) << 8 | 5;
        match request {
            SYNC_IOC_MERGE => self.sync_file_merge(fence, arg),
            SYNC_IOC_FILE_INFO => self.sync_file_info(fence, name, arg),
            SYNC_IOC_SET_DEADLINE => {
                let [_deadline, pad]: [u64; 2] = user::read_value(arg)?;
                if pad == 0 { Ok(()) } else { Err(Errno::INVAL) }
            }
            _ => Err(Errno::NOTTY),
        }
    }

    fn sync_file_merge(&mut self, fence: &FenceRef, arg: u64) -> Result<(), Errno> {
        let mut data: sync_merge_data = user::read_value(arg)?;
        if data.flags != 0 || data.pad != 0 {
            return Err(Errno::INVAL);
        }
        let Some(FdObject::SyncFile(second, _)) = self.fds.get(&data.fd2) else {
            return Err(Errno::NOENT);
        };
        let merged = Fence::merge(&[fence.clone(), second.clone()], self.now);
        data.name[31] = 0;
        let named = (data.name[0] != 0).then_some(data.name);
        data.fence = self.new_fd(FdObject::SyncFile(merged, named))?;
        user::write_value(arg, &data).inspect_err(|_| {
            self.fds.remove(&data.fence);
        })
    }

    fn sync_file_info(
        &mut self,
        fence: &FenceRef,
        name: Option<[u8; 32]>,
        arg: u64,
    ) -> Result<(), Errno> {
        let now = self.now;
        let mut info: sync_file_info = user::read_value(arg)?;
        if info.flags != 0 || info.pad != 0 {
            return Err(Errno::INVAL);
        }
        let detached = self.options.kernel.is_7x();
        let fences = fence.unwrap(now);
        if info.num_fences == 0 {
            info.status = fence.status(now);
        } else {
            if (info.num_fences as usize) < fences.len() {
                return Err(Errno::INVAL);
            }
            info.status = 1;
            let mut array = Vec::with_capacity(fences.len() * size_of::<sync_fence_info>());
            for fence in &fences {
                let (driver, timeline) = fence.names(detached);
                let status = fence.status(now);
                if info.status > 0 {
                    info.status = status;
                }
                let entry = sync_fence_info {
                    obj_name: fixed(timeline),
                    driver_name: fixed(driver),
                    status,
                    flags: 0,
                    timestamp_ns: if status != 0 { fence.timestamp() } else { 0 },
                };
                array.extend_from_slice(entry.as_bytes());
            }
            user::write(info.sync_fence_info, &array)?;
        }
        let name = name.unwrap_or_else(|| {
            let (driver, timeline) = fence.names(detached);
            fixed(&format!(
                "{driver}-{timeline}{}-{}",
                fence.context, fence.seqno
            ))
        });
        // What the client passed stays behind the NUL.
        let end = name.iter().position(|&byte| byte == 0).unwrap_or(31);
        info.name[..=end].copy_from_slice(&name[..=end]);
        info.num_fences = fences.len() as u32;
        user::write_value(arg, &info)
    }
}

/// A name in 32 bytes with a NUL at the end (`strscpy`).
fn fixed(name: &str) -> [u8; 32] {
    let mut bytes = [0; 32];
    let len = name.len().min(31);
    bytes[..len].copy_from_slice(&name.as_bytes()[..len]);
    bytes
}

fn check_array(count: u32, size: u64) -> Result<(), Errno> {
    if u64::from(count) * size > KMALLOC_MAX {
        Err(Errno::NOMEM)
    } else {
        Ok(())
    }
}

fn read_u32s(address: u64, count: u32) -> Result<Vec<u32>, Errno> {
    check_array(count, 4)?;
    let mut values = vec![0_u32; count as usize];
    user::read(address, values.as_mut_bytes())?;
    Ok(values)
}

/// A user array of points; zeros where there is none.
pub fn read_points(address: u64, count: u32) -> Result<Vec<u64>, Errno> {
    check_array(count, 8)?;
    let mut values = vec![0_u64; count as usize];
    if address != 0 {
        user::read(address, values.as_mut_bytes())?;
    }
    Ok(values)
}
