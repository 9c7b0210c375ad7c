//! The device as a [`Transport`]: descriptors, mappings, waiting, and the clock.

use std::collections::HashMap;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use panthor_uapi::sys::drm::{drm_syncobj_timeline_wait, drm_syncobj_transfer, drm_syncobj_wait};
use panthor_uapi::{Errno, Fd, PollEvents, PollFd, Prot, Transport, TransportKind};

use super::engine::Gpu;
use super::gem::BO_NO_MMAP;
use super::gpu::{Mali, Monitor};
use super::ioctl::Call;
use super::options::{BadOption, Options};
use super::syncobj::{WAIT_ALL, WAIT_AVAILABLE, WAIT_DEADLINE, WAIT_FOR_SUBMIT, Wait, read_points};
use super::vm::TASK_SIZE;
use super::world::{FdObject, FileId, IOCTL_NS, LiveObjects, Mapping, World};
use crate::fault::Mode;

/// Host time for which the clock does not jump over idle time while another thread of the process uses the device.
///
/// The clock stands for all threads: a wait that nothing simulated can end jumps to its deadline at once, unless another
/// thread, which needs host time only, is about to do something.
const GRACE: Duration = Duration::from_millis(20);
/// How long a transfer waits for its source (`DRM_SYNCOBJ_WAIT_FOR_SUBMIT_TIMEOUT`).
const TRANSFER_TIMEOUT_NS: u64 = 5_000_000_000;

/// The simulator as a device string opens it.
#[derive(Debug)]
pub struct Sim;

impl Sim {
    /// Opens `sim` or `sim:KEY=VALUE,…`: a device of its own, with nobody else on it.
    ///
    /// # Errors
    /// [`BadOption`], in one line.
    pub fn open(device: &str) -> Result<Arc<dyn Transport>, BadOption> {
        let (device, _) = Self::device(device.parse()?)?;
        Ok(device)
    }

    /// A device with these options, and a view of what its GPU does.
    ///
    /// # Errors
    /// [`BadOption::Host`] where the host gives no memory.
    pub fn device(options: Options) -> Result<(Arc<Device>, Monitor), BadOption> {
        let gpu = Mali::new(&options);
        let monitor = gpu.monitor();
        Ok((Device::with_gpu(options, Box::new(gpu))?, monitor))
    }
}

/// A simulated device. Clones of its handle share it; every [`Transport::open`] is another client of it.
pub struct Device {
    world: Mutex<World>,
    changed: Condvar,
    threads: Mutex<HashMap<ThreadId, Seen>>,
    page_size: usize,
    is_7x: bool,
}

#[derive(Clone, Copy, Debug)]
struct Seen {
    at: Instant,
    blocked: bool,
}

impl Device {
    /// A device with a GPU of one's own, for tests and other front ends.
    ///
    /// # Errors
    /// [`BadOption::Host`] where the host gives no memory.
    pub fn with_gpu(options: Options, gpu: Box<dyn Gpu>) -> Result<Arc<Self>, BadOption> {
        let (page_size, is_7x) = (options.page_size, options.kernel.is_7x());
        let world = World::new(options, gpu).map_err(|error| BadOption::Host(error.to_string()))?;
        Ok(Arc::new(Self {
            world: Mutex::new(world),
            changed: Condvar::new(),
            threads: Mutex::default(),
            page_size,
            is_7x,
        }))
    }

    fn lock(&self) -> MutexGuard<'_, World> {
        self.seen(false);
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn seen(&self, blocked: bool) {
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = Seen {
            at: Instant::now(),
            blocked,
        };
        threads.insert(std::thread::current().id(), seen);
        if threads.len() > 64 {
            threads.retain(|_, seen| seen.blocked || seen.at.elapsed() < GRACE);
        }
    }

    /// Whether another thread has used the device just now and is not waiting itself.
    fn others_active(&self) -> bool {
        let threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        let own = std::thread::current().id();
        threads
            .iter()
            .any(|(&id, seen)| id != own && !seen.blocked && seen.at.elapsed() < GRACE)
    }

    /// What the device keeps alive, for tests of what clients leave behind.
    pub fn live_objects(&self) -> LiveObjects {
        let mut world = self.lock();
        world.settle();
        world.live_objects()
    }

    /// What the kernel's log would say, oldest first: faults with their reason, time-outs, coherency errors.
    pub fn messages(&self) -> Vec<String> {
        self.lock().sched.messages.clone()
    }

    /// Takes the messages out of the log.
    pub fn take_messages(&self) -> Vec<String> {
        std::mem::take(&mut self.lock().sched.messages)
    }

    /// Lets job `job` fail: the number counts jobs with a stream, in the order in which the device starts them, from 0.
    pub fn inject(&self, job: u64, mode: Mode) {
        self.lock().sched.plan.inject(job, mode);
    }

    /// Number of jobs that the device has started.
    pub fn jobs_started(&self) -> u64 {
        self.lock().sched.plan.started()
    }

    /// Lets simulated time pass until `ready` says something or `deadline` is reached (`None`: for ever).
    fn block<'a, R>(
        &'a self,
        mut world: MutexGuard<'a, World>,
        deadline: Option<u64>,
        mut ready: impl FnMut(&mut World) -> Option<R>,
    ) -> (MutexGuard<'a, World>, Option<R>) {
        let started = Instant::now();
        loop {
            world.settle();
            if let Some(result) = ready(&mut world) {
                return (world, Some(result));
            }
            if deadline.is_some_and(|deadline| world.now >= deadline) {
                return (world, None);
            }
            let event = world
                .next_event()
                .filter(|&at| deadline.is_none_or(|deadline| at <= deadline));
            if let Some(at) = event {
                let at = at.max(world.now);
                world.step_to(at);
                // Others may act between two events.
                drop(world);
                self.seen(true);
                self.changed.notify_all();
                world = self.world.lock().unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            self.seen(true);
            match deadline {
                None => {
                    world = self
                        .changed
                        .wait(world)
                        .unwrap_or_else(PoisonError::into_inner)
                }
                Some(_) if self.others_active() && started.elapsed() < GRACE => {
                    let waited = self.changed.wait_timeout(world, GRACE / 4);
                    world = waited.unwrap_or_else(PoisonError::into_inner).0;
                }
                Some(deadline) => {
                    let target = deadline.max(world.now);
                    world.step_to(target);
                }
            }
        }
    }

    // ---- ioctls that sleep

    fn syncobj_wait(&self, file: FileId, call: &mut Call) -> Result<(), Errno> {
        let timeline = call.nr == 0xca;
        let mut args: drm_syncobj_timeline_wait = if timeline {
            call.get()?
        } else {
            let wait: drm_syncobj_wait = call.get()?;
            drm_syncobj_timeline_wait {
                handles: wait.handles,
                points: 0,
                timeout_nsec: wait.timeout_nsec,
                count_handles: wait.count_handles,
                flags: wait.flags,
                first_signaled: wait.first_signaled,
                pad: wait.pad,
                deadline_nsec: wait.deadline_nsec,
            }
        };
        let possible =
            WAIT_ALL | WAIT_FOR_SUBMIT | WAIT_DEADLINE | if timeline { WAIT_AVAILABLE } else { 0 };
        if args.flags & !possible != 0 {
            return Err(Errno::INVAL);
        }
        if args.count_handles == 0 {
            return Ok(());
        }
        let mut world = self.lock();
        world.settle();
        let syncobjs = world.find_syncobjs(file, args.handles, args.count_handles)?;
        let points = read_points(args.points, args.count_handles)?;
        let mut wait = Wait::new(syncobjs, points, args.flags, world.now)?;
        let deadline = match args.timeout_nsec {
            i64::MAX => None,
            // Zero and the past: look once.
            at => Some(u64::try_from(at).unwrap_or(0)),
        };
        let (world, first) = self.block(world, deadline, |world| wait.poll(world.now));
        drop(world);
        self.seen(false);
        args.first_signaled = first.ok_or(Errno::TIME)?;
        if timeline {
            call.set(&args);
        } else {
            let mut wait: drm_syncobj_wait = call.get()?;
            wait.first_signaled = args.first_signaled;
            call.set(&wait);
        }
        Ok(())
    }

    fn syncobj_transfer(&self, file: FileId, call: &mut Call) -> Result<(), Errno> {
        let args: drm_syncobj_transfer = call.get()?;
        let world = self.lock();
        if args.flags & WAIT_FOR_SUBMIT == 0 {
            let mut world = world;
            return world.handle(file, call);
        }
        let deadline = world.now.saturating_add(TRANSFER_TIMEOUT_NS);
        let (world, result) = self.block(world, Some(deadline), |world| {
            match world.syncobj_transfer(file, &args) {
                // Bad handles and flags are EINVAL too, but they do not get better by waiting.
                Err(Errno::INVAL) if args.pad == 0 && args.flags == WAIT_FOR_SUBMIT => None,
                result => Some(result),
            }
        });
        drop(world);
        self.seen(false);
        result.unwrap_or(Err(Errno::TIME))
    }

    fn device_ioctl(&self, file: FileId, request: u32, arg: u64) -> Result<(), Errno> {
        let mut call = Call::copy_in(request, arg, self.is_7x)?;
        let result = match call.nr {
            _ if call.permitted().is_err() => call.permitted(),
            0xc3 | 0xca => self.syncobj_wait(file, &mut call),
            0xcc => self.syncobj_transfer(file, &mut call),
            _ => self.lock().handle(file, &mut call),
        };
        call.copy_out(result)
    }

    fn map_device(
        &self,
        file: FileId,
        offset: u64,
        len: usize,
        prot: Prot,
    ) -> Result<NonNull<u8>, Errno> {
        let mut world = self.lock();
        let mmio = world.file(file)?.mmio_offset;
        if offset >= mmio {
            if offset != mmio || len != self.page_size || prot.contains(Prot::WRITE) {
                return Err(Errno::INVAL);
            }
            let address = world.flush_page.map(0, len, self.page_size, prot)?;
            world
                .mappings
                .insert(address.as_ptr() as usize, Mapping { len, bo: None });
            return Ok(address);
        }
        // An offset names an object of the device; a client needs a handle of its own for it.
        let mut found = None;
        for (&id, open) in &world.files {
            if let Some((_, bo)) = open.bos.iter().find(|(_, bo)| bo.mmap_offset == offset) {
                found = Some((
                    bo.clone(),
                    id == file || found.as_ref().is_some_and(|(_, own)| *own),
                ));
                if id == file {
                    break;
                }
            }
        }
        let (bo, own) = found
            .filter(|(bo, _)| len as u64 <= bo.size)
            .ok_or(Errno::INVAL)?;
        if !own {
            return Err(Errno::ACCESS);
        }
        if !self.is_7x && bo.flags & BO_NO_MMAP != 0 {
            return Err(Errno::INVAL);
        }
        let address = bo.map(len, self.page_size, prot)?;
        world
            .mappings
            .insert(address.as_ptr() as usize, Mapping { len, bo: Some(bo) });
        Ok(address)
    }

    fn revents(world: &World, entry: &PollFd) -> PollEvents {
        let readable = match world.fds.get(&entry.fd.raw()) {
            None => return PollEvents::NVAL,
            Some(FdObject::SyncFile(fence, _)) => {
                fence.enable_signalling();
                fence.is_signalled(world.now)
            }
            Some(FdObject::Event(count)) => {
                let writable = PollEvents::OUT & entry.events;
                let readable = if count.load(Ordering::Acquire) > 0 {
                    PollEvents::IN
                } else {
                    PollEvents::empty()
                };
                return writable | (readable & entry.events);
            }
            // A file without a poll of its own is always ready (`vfs_poll`, DEFAULT_POLLMASK).
            Some(FdObject::Syncobj(_)) => {
                return (PollEvents::IN | PollEvents::OUT) & entry.events;
            }
            Some(FdObject::Device(_) | FdObject::DmaBuf(_)) => false,
        };
        if readable {
            PollEvents::IN & entry.events
        } else {
            PollEvents::empty()
        }
    }
}

impl Transport for Device {
    fn kind(&self) -> TransportKind {
        TransportKind::Simulator
    }

    /// Any path that looks like a render node, or `sim…`, is the device.
    fn open(&self, path: &Path) -> Result<Fd, Errno> {
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        if !name.starts_with("renderD") && !name.starts_with("sim") {
            return Err(Errno::NOENT);
        }
        self.lock().open_file().map(Fd::from_raw)
    }

    unsafe fn ioctl(&self, fd: Fd, request: u32, arg: *mut u8) -> Result<i32, Errno> {
        let object = self.lock().fds.get(&fd.raw()).cloned().ok_or(Errno::BADF)?;
        let arg = arg as u64;
        let result = match object {
            FdObject::Device(file) => self.device_ioctl(file, request, arg),
            FdObject::SyncFile(fence, name) => {
                self.lock().sync_file_ioctl(&fence, name, request, arg)
            }
            FdObject::Syncobj(_) | FdObject::DmaBuf(_) | FdObject::Event(_) => Err(Errno::NOTTY),
        };
        let mut world = self.lock();
        let end = world.now.saturating_add(IOCTL_NS);
        world.advance_to(end);
        drop(world);
        self.changed.notify_all();
        result.map(|()| 0)
    }

    fn mmap(&self, fd: Fd, offset: u64, len: usize, prot: Prot) -> Result<NonNull<u8>, Errno> {
        if offset % self.page_size as u64 != 0 {
            return Err(Errno::INVAL);
        }
        let object = self.lock().fds.get(&fd.raw()).cloned().ok_or(Errno::BADF)?;
        if len == 0 {
            return Err(Errno::INVAL);
        }
        let len = len
            .checked_next_multiple_of(self.page_size)
            .filter(|&len| len as u64 <= TASK_SIZE)
            .ok_or(Errno::NOMEM)?;
        match object {
            FdObject::Device(file) => self.map_device(file, offset, len, prot),
            FdObject::DmaBuf(buf) => {
                if prot.contains(Prot::WRITE) && !buf.writable {
                    return Err(Errno::ACCESS);
                }
                if offset != 0 || len as u64 > buf.bo.size {
                    return Err(Errno::INVAL);
                }
                let address = buf.bo.map(len, self.page_size, prot)?;
                self.lock().mappings.insert(
                    address.as_ptr() as usize,
                    Mapping {
                        len,
                        bo: Some(buf.bo),
                    },
                );
                Ok(address)
            }
            FdObject::SyncFile(..) | FdObject::Syncobj(_) | FdObject::Event(_) => Err(Errno::NODEV),
        }
    }

    unsafe fn munmap(&self, addr: NonNull<u8>, len: usize) -> Result<(), Errno> {
        let mut world = self.lock();
        let start = addr.as_ptr() as usize;
        let rounded = len.checked_next_multiple_of(self.page_size);
        if world
            .mappings
            .get(&start)
            .is_none_or(|mapping| rounded != Some(mapping.len))
        {
            return Err(Errno::INVAL);
        }
        if let Some(mapping) = world.mappings.remove(&start) {
            // SAFETY: the mapping is one of this device's and the caller says that nobody uses it any more.
            unsafe { world.ram.unmap(addr, mapping.len) };
        }
        Ok(())
    }

    fn eventfd(&self, initial: u32) -> Result<Fd, Errno> {
        let count = Arc::new(AtomicU64::new(u64::from(initial)));
        self.lock().new_fd(FdObject::Event(count)).map(Fd::from_raw)
    }

    fn read_eventfd(&self, fd: Fd) -> Result<u64, Errno> {
        match self.lock().fds.get(&fd.raw()) {
            Some(FdObject::Event(count)) => match count.swap(0, Ordering::AcqRel) {
                0 => Err(Errno::AGAIN),
                count => Ok(count),
            },
            Some(_) => Err(Errno::INVAL),
            None => Err(Errno::BADF),
        }
    }

    fn poll(&self, fds: &mut [PollFd], deadline_ns: Option<u64>) -> Result<usize, Errno> {
        let world = self.lock();
        let (world, found) = self.block(world, deadline_ns, |world| {
            let mut found = 0;
            for entry in &mut *fds {
                entry.revents = Self::revents(world, entry);
                found += usize::from(!entry.revents.is_empty());
            }
            (found > 0).then_some(found)
        });
        drop(world);
        self.seen(false);
        Ok(found.unwrap_or(0))
    }

    fn seek_end(&self, fd: Fd) -> Result<u64, Errno> {
        match self.lock().fds.get(&fd.raw()) {
            None => Err(Errno::BADF),
            Some(FdObject::DmaBuf(buf)) => Ok(buf.bo.size),
            Some(FdObject::Device(_) | FdObject::Event(_)) => Ok(0),
            Some(FdObject::SyncFile(..) | FdObject::Syncobj(_)) => Err(Errno::SPIPE),
        }
    }

    unsafe fn close(&self, fd: Fd) -> Result<(), Errno> {
        let result = self.lock().close(fd.raw());
        self.changed.notify_all();
        result
    }

    fn now(&self) -> u64 {
        self.lock().now
    }

    fn sleep_until(&self, deadline_ns: u64) {
        let world = self.lock();
        let (world, _) = self.block(world, Some(deadline_ns), |_| None::<()>);
        drop(world);
        self.seen(false);
    }

    fn page_size(&self) -> usize {
        self.page_size
    }
}
