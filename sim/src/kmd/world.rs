//! The state of a device and of its open files.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use panthor_uapi::Errno;

use super::bind::BindQueue;
use super::engine::Gpu;
use super::fence::FenceRef;
use super::gem::{BO_NO_MMAP, Bo, DmaBuf, OffsetSpace};
use super::options::Options;
use super::ram::{Block, Ram};
use super::sched::{GroupId, Scheduler};
use super::syncobj::{EventWait, Syncobj};
use super::vm::{VM_LARGE_PAGE, Vm};

/// Nanoseconds that an ioctl takes.
pub const IOCTL_NS: u64 = 1_000;
/// When the clock starts: a device is not opened at boot.
const START_NS: u64 = 1_000_000_000;
/// First file descriptor: far from the host's, so that a mix-up shows.
const FIRST_FD: i32 = 1000;

/// Number of an open device file.
pub type FileId = u64;

/// What a file descriptor refers to.
#[derive(Clone, Debug)]
pub enum FdObject {
    /// The device.
    Device(FileId),
    /// A sync file and the name that a merge gave it.
    SyncFile(FenceRef, Option<[u8; 32]>),
    /// A syncobj.
    Syncobj(Arc<Syncobj>),
    /// A buffer object.
    DmaBuf(DmaBuf),
    /// An eventfd.
    Event(Arc<AtomicU64>),
}

/// Handles: numbers from 1, the lowest free one next.
#[derive(Debug)]
pub struct Handles<T> {
    taken: BTreeMap<u32, T>,
    /// Handle 0 is free like the others.
    zero: bool,
}

impl<T> Default for Handles<T> {
    fn default() -> Self {
        Self {
            taken: BTreeMap::new(),
            zero: false,
        }
    }
}

impl<T> Handles<T> {
    /// Gives `value` a handle of at most `max`: EBUSY where there is none (`xa_alloc`).
    pub fn insert(&mut self, value: T, max: u32) -> Result<u32, Errno> {
        let mut free = u32::from(!self.zero);
        for &taken in self.taken.keys() {
            if taken != free {
                break;
            }
            free += 1;
        }
        if free > max {
            return Err(Errno::BUSY);
        }
        self.taken.insert(free, value);
        Ok(free)
    }

    /// What `handle` stands for.
    pub fn get(&self, handle: u32) -> Option<&T> {
        self.taken.get(&handle)
    }

    /// Drops a handle.
    pub fn remove(&mut self, handle: u32) -> Option<T> {
        self.taken.remove(&handle)
    }

    /// Lets 0 be a handle too: what erasing index 0 does to an array that counts from 1 and is not empty, since what
    /// keeps that index busy is an entry like any other (`xa_erase`, XA_FLAGS_ALLOC1).
    pub fn free_zero(&mut self) {
        self.zero |= !self.taken.is_empty();
    }

    /// All handles.
    pub fn iter(&self) -> impl Iterator<Item = (&u32, &T)> {
        self.taken.iter()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.taken.len()
    }
}

/// An open device file (`struct drm_file`, `struct panthor_file`).
#[derive(Debug)]
pub struct DrmFile {
    /// Buffer objects.
    pub bos: Handles<Arc<Bo>>,
    /// Syncobjs.
    pub syncobjs: Handles<Arc<Syncobj>>,
    /// VMs.
    pub vms: Handles<Arc<Vm>>,
    /// Groups.
    pub groups: Handles<GroupId>,
    /// Where the user MMIO pages start.
    pub mmio_offset: u64,
    /// What sparse mappings show (7.x).
    pub dummy: Option<Arc<Bo>>,
}

/// A client's mapping.
#[derive(Debug)]
pub struct Mapping {
    /// Bytes.
    pub len: usize,
    /// Keeps the object alive; `None` for the flush-id page.
    #[expect(dead_code, reason = "held for its lifetime")]
    pub bo: Option<Arc<Bo>>,
}

/// The counts of what a device keeps alive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LiveObjects {
    /// File descriptors.
    pub fds: usize,
    /// Handles of buffer objects.
    pub bo_handles: usize,
    /// VMs that clients can name.
    pub vms: usize,
    /// Groups, those that are being torn down included.
    pub groups: usize,
    /// Handles of syncobjs.
    pub syncobjs: usize,
    /// Mappings of clients.
    pub mappings: usize,
    /// Asynchronous binds that have not run.
    pub pending_binds: usize,
    /// Ranges of the device's memory, whoever holds them, without the device's own.
    pub blocks: usize,
    /// Bytes in use, without the device's own.
    pub bytes: u64,
}

/// All state behind the device's lock.
pub struct World {
    /// The options.
    pub options: Options,
    /// Nanoseconds on the clock.
    pub now: u64,
    /// The memory.
    pub ram: Arc<Ram>,
    /// The file offsets of buffer objects.
    pub offsets: Arc<OffsetSpace>,
    /// Open files.
    pub files: BTreeMap<FileId, DrmFile>,
    next_file: FileId,
    /// File descriptors.
    pub fds: BTreeMap<i32, FdObject>,
    /// Clients' mappings by address.
    pub mappings: BTreeMap<usize, Mapping>,
    /// Groups and the GPU.
    pub sched: Scheduler,
    /// Asynchronous binds by VM.
    pub binds: BTreeMap<u64, BindQueue>,
    /// Eventfds that wait for syncobjs.
    pub event_waits: Vec<Arc<EventWait>>,
    /// The page with the flush id.
    pub flush_page: Block,
    own_blocks: usize,
    own_bytes: u64,
}

impl World {
    /// A device that nobody has opened.
    pub fn new(options: Options, gpu: Box<dyn Gpu>) -> std::io::Result<Self> {
        let ram = Ram::new(options.memory_mib << 20)?;
        let flush_page = ram.block(options.page_size as u64)?;
        let sched = Scheduler::new(&options, gpu);
        let (own_blocks, own_bytes) = (ram.blocks(), ram.charged());
        let world = Self {
            options,
            now: START_NS,
            ram,
            offsets: Arc::default(),
            files: BTreeMap::new(),
            next_file: 1,
            fds: BTreeMap::new(),
            mappings: BTreeMap::new(),
            sched,
            binds: BTreeMap::new(),
            event_waits: Vec::new(),
            flush_page,
            own_blocks,
            own_bytes,
        };
        world.publish_flush_id();
        Ok(world)
    }

    fn publish_flush_id(&self) {
        let _ = self
            .flush_page
            .write(0, &self.sched.gpu.flush_id().to_le_bytes());
    }

    // ---- time

    /// Does everything that is due now.
    pub fn settle(&mut self) {
        loop {
            let mut changed = self.sched.settle(self.now);
            changed |= self.run_binds();
            if !changed {
                break;
            }
        }
        self.fire_eventfds();
        let gpu = &mut self.sched.gpu;
        self.ram.bury(|host, len| gpu.release(host, len));
        self.publish_flush_id();
    }

    /// When the next thing happens by itself.
    pub fn next_event(&self) -> Option<u64> {
        let binds = self.binds.values().filter_map(|queue| queue.run_at);
        binds.chain(self.sched.next_event()).min()
    }

    /// Lets the clock run to `target`; everything on the way happens.
    pub fn advance_to(&mut self, target: u64) {
        self.settle();
        while let Some(at) = self.next_event().filter(|&at| at <= target) {
            self.step_to(at.max(self.now));
        }
        if target > self.now {
            self.step_to(target);
        }
    }

    /// Lets the clock run to `at`, before which nothing happens by itself.
    pub fn step_to(&mut self, at: u64) {
        self.now = at;
        self.settle();
    }

    // ---- files

    /// Opens the device.
    pub fn open_file(&mut self) -> Result<i32, Errno> {
        let dummy = if self.options.kernel.is_7x() {
            Some(Arc::new(self.new_bo(VM_LARGE_PAGE, BO_NO_MMAP, None)?))
        } else {
            None
        };
        let id = self.next_file;
        self.next_file += 1;
        let file = DrmFile {
            bos: Handles::default(),
            syncobjs: Handles::default(),
            vms: Handles::default(),
            groups: Handles::default(),
            mmio_offset: panthor_uapi::sys::panthor::DRM_PANTHOR_USER_MMIO_OFFSET,
            dummy,
        };
        self.files.insert(id, file);
        self.new_fd(FdObject::Device(id))
    }

    /// A new descriptor: the lowest free number.
    pub fn new_fd(&mut self, object: FdObject) -> Result<i32, Errno> {
        let mut free = FIRST_FD;
        for &taken in self.fds.keys() {
            if taken != free {
                break;
            }
            free += 1;
        }
        self.fds.insert(free, object);
        Ok(free)
    }

    /// Closes a descriptor; the last one of a device file takes the file's objects with it.
    pub fn close(&mut self, fd: i32) -> Result<(), Errno> {
        let object = self.fds.remove(&fd).ok_or(Errno::BADF)?;
        if let FdObject::Device(id) = object {
            if let Some(file) = self.files.remove(&id) {
                for (_, &group) in file.groups.iter() {
                    self.sched.destroy(group, self.now);
                }
                for (_, vm) in file.vms.iter() {
                    vm.destroy();
                }
            }
        }
        self.settle();
        Ok(())
    }

    /// The open file with this number.
    pub fn file(&mut self, id: FileId) -> Result<&mut DrmFile, Errno> {
        self.files.get_mut(&id).ok_or(Errno::BADF)
    }

    /// A buffer object of this device.
    pub fn new_bo(&self, size: u64, flags: u32, exclusive_vm: Option<u64>) -> Result<Bo, Errno> {
        Bo::new(
            &self.ram,
            &self.offsets,
            self.options.kernel,
            size,
            flags,
            exclusive_vm,
        )
    }

    fn fire_eventfds(&mut self) {
        let now = self.now;
        self.event_waits.retain(|wait| !wait.fire(now));
    }

    /// What the device keeps alive.
    pub fn live_objects(&self) -> LiveObjects {
        let sum = |count: &dyn Fn(&DrmFile) -> usize| self.files.values().map(count).sum();
        LiveObjects {
            fds: self.fds.len(),
            bo_handles: sum(&|file| file.bos.len()),
            vms: sum(&|file| file.vms.len()),
            groups: self.sched.groups.len(),
            syncobjs: sum(&|file| file.syncobjs.len()),
            mappings: self.mappings.len(),
            pending_binds: self.binds.values().map(|queue| queue.jobs.len()).sum(),
            blocks: self.ram.blocks() - self.own_blocks,
            bytes: self.ram.charged() - self.own_bytes,
        }
    }
}

/// Adds one to an eventfd's count, which never exceeds 2^64 - 2 (`eventfd_signal`).
pub fn signal_eventfd(count: &AtomicU64) {
    let _ = count.fetch_update(Ordering::AcqRel, Ordering::Acquire, |n| {
        (n < u64::MAX - 1).then_some(n + 1)
    });
}
