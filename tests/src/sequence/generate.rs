//! Random sequences from a seed.
//!
//! The generator remembers what it has made (files, VMs, buffer objects, bindings, groups, syncobjs, descriptors), so that
//! most calls make sense; a share of them is then spoilt ([`hostile`]): pads, flags, strides, sizes, handles that are dead,
//! foreign or never were, ranges, pointers into nothing.

mod hostile;
mod jobs;
mod memory;
mod state;
mod sync;

use panthor_sim::Kernel;
use panthor_uapi::sys::panthor::*;
use panthor_uapi::sys::{drm, sync_file};
use zerocopy::{Immutable, IntoBytes};

use super::rng::Rng;
use super::{Arg, Buffer, Call, Placed, Sequence, Step, StepId, Value};
use state::{BoundMap, File, Handle, SyncFd};

/// Whether results may depend on when jobs end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Only what is decided is asked: records can be compared.
    Decided,
    /// No pauses: for finding crashes.
    Racy,
}

/// What sequences are to be like.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Whose interface is used. Calls that it does not have are rare, then.
    pub kernel: Kernel,
    /// Whether results may depend on when jobs end.
    pub mode: Mode,
    /// Whether jobs have command streams. Without them jobs are mere synchronisation points, and the GPU has nothing to do.
    pub streams: bool,
}

/// A pause after which everything that can end has ended.
const PAUSE_NS: u64 = 20_000_000;
/// A pause in which an idle device also goes to sleep (`autosuspend` is 50 ms).
const LONG_PAUSE_NS: u64 = 200_000_000;
/// A pause in which the timers of jobs that never end have fired, one after the other.
const TIMEOUT_PAUSE_NS: u64 = 25_000_000_000;
/// How long a job that never ends may have run for its timer (5 s) certainly not to have fired.
const BEFORE_TIMEOUT_NS: u64 = 3_000_000_000;

/// Makes sequences.
struct Generator {
    rng: Rng,
    kernel: Kernel,
    mode: Mode,
    streams: bool,
    /// Groups, VMs and files go away before the end.
    destroys: bool,
    /// The names of fences are asked for.
    names: bool,
    steps: Vec<Step>,
    files: Vec<File>,
    sync_files: Vec<SyncFd>,
    syncobj_fds: Vec<SyncFd>,
    dma_bufs: Vec<memory::DmaBuf>,
    eventfds: Vec<StepId>,
    maps: Vec<BoundMap>,
    /// Jobs were submitted since the last pause.
    jobs: bool,
    /// Binds were queued since the last pause.
    binds: bool,
    /// One of the jobs since the last pause may kill its group.
    doom: bool,
    /// The latest moment up to which time may have passed.
    clock: u64,
    /// When a job was submitted that may never end.
    hang: Option<u64>,
}

/// The sequence of a seed.
pub fn generate(seed: u64, options: Options) -> Sequence {
    let mut rng = Rng::new(seed);
    // Linux 6.12 reads a fence's name out of its scheduler, also when that has been freed with its group or VM (see
    // `kernel-notes/findings/name-after-free.md`): there a sequence either destroys or asks.
    let (destroys, names) = match options.kernel {
        Kernel::V6_12 if rng.percent(50) => (true, false),
        Kernel::V6_12 => (false, true),
        Kernel::V7_2 | Kernel::V7_3 => (true, true),
    };
    let mut generator = Generator {
        rng,
        destroys,
        names,
        kernel: options.kernel,
        mode: options.mode,
        streams: options.streams,
        steps: Vec::new(),
        files: Vec::new(),
        sync_files: Vec::new(),
        syncobj_fds: Vec::new(),
        dma_bufs: Vec::new(),
        eventfds: Vec::new(),
        maps: Vec::new(),
        jobs: false,
        binds: false,
        doom: false,
        clock: 0,
        hang: None,
    };
    generator.prologue();
    let calls = 25 + generator.rng.below(60);
    for _ in 0..calls {
        generator.any();
    }
    generator.epilogue();
    Sequence {
        seed,
        steps: generator.steps,
    }
}

/// A struct as a buffer.
fn buffer<T: IntoBytes + Immutable>(value: &T) -> Buffer {
    Buffer {
        bytes: value.as_bytes().to_vec(),
        values: Vec::new(),
    }
}

/// Several structs as one buffer.
fn array<T: IntoBytes + Immutable>(values: &[T]) -> Buffer {
    let bytes = values.iter().flat_map(|value| value.as_bytes().to_vec());
    Buffer {
        bytes: bytes.collect(),
        values: Vec::new(),
    }
}

impl Buffer {
    /// Puts `value` over `width` bytes at `at`.
    fn put(&mut self, at: usize, width: usize, value: Value) {
        self.values.push(Placed { at, width, value });
    }

    /// A handle at `at`.
    fn handle(&mut self, at: usize, handle: Handle) {
        self.put(at, 4, handle.value());
    }

    /// The address of buffer `number` at `at`.
    fn pointer(&mut self, at: usize, number: usize) {
        self.put(at, 8, Value::Pointer(number));
    }
}

/// `struct drm_panthor_obj_array` for `count` elements of type `T`; its pointer is put at 8 bytes from its offset.
fn elements<T>(count: usize) -> drm_panthor_obj_array {
    drm_panthor_obj_array {
        stride: size_of::<T>() as u32,
        count: count as u32,
        array: 0,
    }
}

/// Offset of the pointer in `struct drm_panthor_obj_array`.
const ARRAY: usize = std::mem::offset_of!(drm_panthor_obj_array, array);

impl Generator {
    // ---- steps

    fn step(&mut self, call: Call) -> StepId {
        let id = self.steps.len() as StepId;
        self.steps.push(Step { id, call });
        id
    }

    /// An ioctl as it ought to be.
    fn clean(&mut self, fd: StepId, request: u32, buffers: Vec<Buffer>) -> StepId {
        self.step(Call::Ioctl {
            fd,
            request,
            arg: Arg::Buffer,
            buffers,
        })
    }

    /// An ioctl that may be spoilt on the way. Whether it was.
    fn maybe(
        &mut self,
        fd: StepId,
        request: u32,
        buffers: Vec<Buffer>,
        percent: u64,
    ) -> (StepId, bool) {
        if self.rng.percent(percent) {
            (self.spoilt(fd, request, buffers), true)
        } else {
            (self.clean(fd, request, buffers), false)
        }
    }

    // ---- time

    /// Lets everything end that can end, if anything is under way whose end the next call would see.
    fn settle(&mut self) {
        if self.mode == Mode::Racy {
            return;
        }
        let late = self
            .hang
            .is_some_and(|since| self.clock - since > BEFORE_TIMEOUT_NS);
        if late {
            self.sleep(TIMEOUT_PAUSE_NS);
            self.hang = None;
        } else if self.jobs || self.binds {
            let long = self.rng.percent(10);
            self.sleep(if long { LONG_PAUSE_NS } else { PAUSE_NS });
        }
        self.jobs = false;
        self.binds = false;
        self.doom = false;
    }

    fn sleep(&mut self, ns: u64) {
        self.clock += ns;
        self.step(Call::Sleep { ns });
    }

    /// A job that may not end was submitted.
    fn may_hang(&mut self) {
        self.hang.get_or_insert(self.clock);
    }

    // ---- the whole

    fn prologue(&mut self) {
        let file = self.open();
        if self.rng.percent(90) {
            self.bench(file);
        }
        if self.rng.percent(25) {
            let second = self.open();
            if self.rng.percent(50) {
                self.bench(second);
            }
        }
    }

    /// A VM with memory for streams and data, a group, and syncobjs.
    fn bench(&mut self, file: usize) {
        let vm = self.vm_create(file, false);
        self.stream_memory(file, vm);
        self.group_create(file, Some(vm), false);
        for _ in 0..2 + self.rng.below(3) {
            self.syncobj_create(file, false);
        }
    }

    fn any(&mut self) {
        let Some(file) = self.some_file() else {
            self.open();
            return;
        };
        match self.rng.below(100) {
            0..=5 => self.bo_create(file),
            6..=8 => self.bo_map(file),
            9..=20 => self.vm_bind(file),
            21..=22 => {
                let spoil = self.rng.percent(40);
                self.vm_create(file, spoil);
            }
            23 => self.vm_destroy(file),
            24..=25 => self.vm_get_state(file),
            26..=28 => {
                self.group_create(file, None, true);
            }
            29..=30 => self.group_destroy(file),
            31..=33 => self.group_get_state(file),
            34..=53 => self.submit(file),
            54..=56 => {
                self.syncobj_create(file, true);
            }
            57 => self.syncobj_destroy(file),
            58..=63 => self.syncobj_wait(file),
            64..=66 => self.syncobj_set(file),
            67..=69 => self.syncobj_query(file),
            70..=72 => self.syncobj_to_fd(file),
            73..=74 => self.syncobj_from_fd(file),
            75..=76 => self.syncobj_transfer(file),
            77 => self.syncobj_eventfd(file),
            78..=80 => self.sync_file_ioctl(),
            81 => self.poll(),
            82..=83 => self.heap_create(file),
            84 => self.heap_destroy(file),
            85..=86 => self.dev_query(file),
            87 => self.bo_label(file),
            88..=89 => self.bo_sync(file),
            90 => self.bo_query(file),
            91 => self.mmio(file),
            92..=93 => self.touch(),
            94 => self.gem_close(file),
            95 => self.prime(file),
            96 => self.core(file),
            97 => self.stranger(file),
            98 => {
                if self.files.len() < 4 {
                    self.open();
                }
            }
            _ => self.close_something(),
        }
    }

    fn open(&mut self) -> usize {
        let step = self.step(Call::Open);
        self.files.push(File::new(step));
        self.files.len() - 1
    }

    /// A file that is open, mostly the first one.
    fn some_file(&mut self) -> Option<usize> {
        let open: Vec<usize> = (0..self.files.len())
            .filter(|&file| self.files[file].open)
            .collect();
        let first = self.rng.percent(60);
        match open.first() {
            Some(&file) if first => Some(file),
            _ => self.rng.index(open.len()).map(|index| open[index]),
        }
    }

    /// Closes a file in the middle of everything, or another descriptor.
    fn close_something(&mut self) {
        self.settle();
        match self.rng.below(4) {
            0 if self.files.len() > 1 && self.destroys => {
                if let Some(file) = self.some_file() {
                    let fd = self.files[file].step;
                    self.files[file].open = false;
                    self.maps.retain(|map| map.file != file || !map.is_code);
                    self.step(Call::Close { fd });
                }
            }
            1 => {
                if let Some(at) = self.rng.index(self.sync_files.len()) {
                    let fd = self.sync_files.swap_remove(at).step;
                    self.step(Call::Close { fd });
                }
            }
            2 => {
                if let Some(at) = self.rng.index(self.dma_bufs.len()) {
                    let fd = self.dma_bufs.swap_remove(at).step;
                    self.step(Call::Close { fd });
                }
            }
            _ => {
                let free: Vec<usize> = (0..self.maps.len())
                    .filter(|&at| !self.maps[at].is_code)
                    .collect();
                if let Some(at) = self.rng.index(free.len()) {
                    let map = self.maps.swap_remove(free[at]).step;
                    self.step(Call::Munmap { map });
                }
            }
        }
    }

    /// Asks everything that is left how it stands.
    fn epilogue(&mut self) {
        if self.hang.is_some() && self.rng.percent(70) {
            self.jobs = false;
            self.sleep(TIMEOUT_PAUSE_NS);
        } else {
            self.settle();
        }
        for file in 0..self.files.len() {
            if !self.files[file].open {
                continue;
            }
            let fd = self.files[file].step;
            for group in self.files[file].groups.clone() {
                self.ask_group(fd, group.handle);
            }
            for vm in self.files[file].vms.clone() {
                self.ask_vm(fd, vm.handle);
            }
            for syncobj in self.files[file].syncobjs.clone() {
                self.ask_syncobj(fd, syncobj.handle);
            }
        }
        for fd in self.sync_files.clone() {
            self.ask_sync_file(fd.step);
        }
        for fd in self.eventfds.clone() {
            self.step(Call::ReadEventfd { fd });
        }
        for map in self.maps.clone() {
            if map.prot & 1 != 0 && self.fresh(&map) {
                self.step(Call::Hash { map: map.step });
            }
        }
    }

    // ---- small ioctls of the core

    /// VERSION, GET_CAP, and what a render node may not do.
    fn core(&mut self, file: usize) {
        let fd = self.files[file].step;
        match self.rng.below(4) {
            0 => {
                let rooms = [7_usize, 10, 18].map(|room| {
                    let spare = self.rng.below(3) as usize * 4;
                    (room + spare).saturating_sub(4)
                });
                let version = drm::drm_version {
                    name_len: rooms[0],
                    date_len: rooms[1],
                    desc_len: rooms[2],
                    ..Default::default()
                };
                let mut head = buffer(&version);
                use std::mem::offset_of;
                head.pointer(offset_of!(drm::drm_version, name), 1);
                head.pointer(offset_of!(drm::drm_version, date), 2);
                head.pointer(offset_of!(drm::drm_version, desc), 3);
                let texts = rooms.map(|room| Buffer {
                    bytes: vec![0; room],
                    values: Vec::new(),
                });
                let buffers = std::iter::once(head).chain(texts).collect();
                self.clean(fd, drm::DRM_IOCTL_VERSION, buffers);
            }
            1 => {
                let capability = self.rng.pick(&[1, 5, 6, 0x10, 0x13, 0x14, 0x15, 99]);
                let cap = drm::drm_get_cap {
                    capability,
                    value: 7,
                };
                self.maybe(fd, drm::DRM_IOCTL_GET_CAP, vec![buffer(&cap)], 10);
            }
            _ => {
                // Any number of the core's and of the driver's, with a struct of small numbers.
                let nr = self.rng.below(256) as u32;
                if forbidden(nr) {
                    return;
                }
                let size = 8 * (1 + self.rng.below(6)) as u32;
                let direction = self.rng.below(4) as u32;
                let request = direction << 30 | size << 16 | u32::from(b'd') << 8 | nr;
                let words = (0..size / 4).map(|_| self.rng.below(3) as u32);
                let bytes = words.flat_map(u32::to_le_bytes).collect();
                let values = Vec::new();
                self.clean(fd, request, vec![Buffer { bytes, values }]);
            }
        }
    }

    /// A request that the descriptor does not know.
    fn stranger(&mut self, file: usize) {
        let fd = match self.rng.below(4) {
            0 => self.sync_files.last().map(|fd| fd.step),
            1 => self.dma_bufs.last().map(|buf| buf.step),
            2 => self.eventfds.last().copied(),
            _ => None,
        };
        let fd = fd.unwrap_or(self.files[file].step);
        let request = self.rng.pick(&[
            0x8008_6601,
            0xc008_6440,
            sync_file::SYNC_IOC_FILE_INFO,
            sync_file::SYNC_IOC_MERGE,
            DRM_IOCTL_PANTHOR_VM_GET_STATE,
            0xc010_3e77,
        ]);
        let size = (request >> 16 & 0x3fff) as usize;
        let bytes = vec![0; size.next_multiple_of(8)];
        let values = Vec::new();
        self.clean(fd, request, vec![Buffer { bytes, values }]);
    }
}

/// Numbers that are never drawn blindly: they would give a descriptor that nobody closes, name a process, or make and
/// destroy what the generator has to know of.
fn forbidden(nr: u32) -> bool {
    let known = [0x09, 0x2d, 0x2e];
    known.contains(&nr) || (0x40..0x51).contains(&nr) || (0xbf..=0xcf).contains(&nr)
        // SET_CLIENT_NAME and GEM_CHANGE_HANDLE of newer cores.
        || (0xd0..=0xd2).contains(&nr)
}
