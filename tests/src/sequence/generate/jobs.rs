//! Groups, and jobs with real command streams.

use std::mem::offset_of;

use mali_isa::csf::assemble_program;
use panthor_sim::model::shader_present;
use panthor_uapi::sys::panthor::*;

use super::super::{Buffer, Call};
use super::memory::{CODE, CODE_SIZE, DATA, DATA_SIZE};
use super::state::{Group, Handle};
use super::{ARRAY, Generator, Mode, array, buffer, elements};

/// Shader cores of an RK3588, which the simulator and the modelled GPU have too.
const CORES: u32 = 4;
/// Bytes from one stream to the next.
const STREAM_SPACE: u64 = 512;
/// Groups of all files that may hold a slot at a time: one less than there are address spaces, so that whoever can run
/// does, and when a job that never ends meets its timer does not depend on the order of slots.
const MOST_GROUPS: usize = 6;

/// Makes the data visible to everybody: the end of every stream.
const FLUSH: &str = "MOVE32 r40, #0\n\
     FLUSH_CACHE2.clean_invalidate_l2.clean_invalidate_lsc.invalidate_other r40, #0, #0\nWAIT #1\n";

/// What a stream does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stream {
    /// NOPs.
    Nop,
    /// Stores a marker.
    Store,
    /// Loads what is there and stores it elsewhere.
    Copy,
    /// Counts a sync object up.
    SyncAdd,
    /// Waits until a sync object has been counted up.
    SyncWait,
    /// Branches to itself.
    Loop,
    /// An instruction that does not exist.
    Invalid,
    /// A load from nowhere.
    Unmapped,
    /// A store to what may only be read.
    ReadOnly,
    /// A load from the field in which objects are mapped and unmapped at random.
    Field,
}

impl Generator {
    pub(super) fn group_create(&mut self, file: usize, vm: Option<Handle>, spoil: bool) {
        let alive = self
            .files
            .iter()
            .filter(|file| file.open)
            .map(|file| file.groups.len())
            .sum::<usize>();
        let vm = vm.or_else(|| self.some_vm(file));
        let Some(vm) = vm.filter(|_| alive < MOST_GROUPS) else {
            return;
        };
        // What a destroyed group leaves is given back some time: the addresses of a new one's objects depend on it.
        self.settle();
        let count = match self.rng.below(20) {
            0 if spoil => 0,
            1 if spoil => 9,
            2 if spoil => 33,
            _ => 1 + self.rng.below(3),
        };
        let mut queues = Vec::new();
        for _ in 0..count.clamp(1, 33) {
            let odd = spoil && self.rng.percent(4);
            queues.push(drm_panthor_queue_create {
                priority: if odd {
                    self.rng.pick(&[15, 16, 255])
                } else {
                    self.rng.below(4) as u8
                },
                ringbuf_size: if odd {
                    self.rng.pick(&[0, 4095, 2048, 12288, 131072])
                } else {
                    self.rng.pick(&[4096, 8192, 65536])
                },
                ..Default::default()
            });
        }
        let present = shader_present(CORES);
        let odd = spoil && self.rng.percent(25);
        let mask = if odd {
            self.rng.pick(&[0, present & 1, present | 2, u64::MAX])
        } else {
            self.rng.pick(&[present, present, present & 5, 1])
        };
        let most = mask.count_ones() as u8;
        let args = drm_panthor_group_create {
            queues: elements::<drm_panthor_queue_create>(count as usize),
            max_compute_cores: if odd {
                self.rng.pick(&[0, 4, 5, 255])
            } else {
                most
            },
            max_fragment_cores: if spoil { self.rng.pick(&[0, 1, 4]) } else { 4 },
            max_tiler_cores: if spoil {
                self.rng.pick(&[0, 1, 1, 1, 2])
            } else {
                1
            },
            priority: if spoil {
                self.rng.pick(&[0, 1, 1, 1, 1, 2, 3, 4])
            } else {
                PANTHOR_GROUP_PRIORITY_MEDIUM
            },
            compute_core_mask: mask,
            fragment_core_mask: present,
            tiler_core_mask: 1,
            ..Default::default()
        };
        let mut args = buffer(&args);
        args.pointer(offset_of!(drm_panthor_group_create, queues) + ARRAY, 1);
        args.handle(offset_of!(drm_panthor_group_create, vm_id), vm);
        let fd = self.files[file].step;
        let percent = if spoil { 15 } else { 0 };
        let buffers = vec![args, array(&queues)];
        let (step, _) = self.maybe(fd, DRM_IOCTL_PANTHOR_GROUP_CREATE, buffers, percent);
        // One that fails late has taken addresses, which it gives back some time.
        self.jobs |= spoil;
        let handle = Handle {
            step,
            at: offset_of!(drm_panthor_group_create, group_handle),
        };
        self.files[file].groups.push(Group {
            handle,
            vm,
            queues: count,
            dead: false,
        });
    }

    /// A group, one that lives if there is one.
    fn some_group(&mut self, file: usize) -> Option<Group> {
        let groups = &self.files[file].groups;
        let alive: Vec<Group> = groups.iter().filter(|group| !group.dead).copied().collect();
        let all = groups.clone();
        let from = if alive.is_empty() || self.rng.percent(10) {
            all
        } else {
            alive
        };
        self.rng.index(from.len()).map(|at| from[at])
    }

    pub(super) fn group_destroy(&mut self, file: usize) {
        if !self.destroys {
            return;
        }
        let groups = self.files[file].groups.clone();
        let dead = groups.iter().position(|group| group.dead);
        let Some(at) = dead.or_else(|| self.rng.index(groups.len())) else {
            return;
        };
        self.settle();
        let handle = groups[at].handle;
        let mut args = buffer(&drm_panthor_group_destroy::default());
        args.handle(offset_of!(drm_panthor_group_destroy, group_handle), handle);
        let fd = self.files[file].step;
        let (_, spoilt) = self.maybe(fd, DRM_IOCTL_PANTHOR_GROUP_DESTROY, vec![args], 20);
        if !spoilt {
            self.files[file].groups.swap_remove(at);
            self.files[file].dead.push(handle);
        }
        self.jobs = true;
        self.doom = true;
        if !spoilt && self.rng.percent(60) {
            self.group_create(file, None, false);
        }
    }

    pub(super) fn ask_group(&mut self, fd: u32, group: Handle) {
        let mut args = buffer(&drm_panthor_group_get_state::default());
        args.handle(offset_of!(drm_panthor_group_get_state, group_handle), group);
        self.clean(fd, DRM_IOCTL_PANTHOR_GROUP_GET_STATE, vec![args]);
    }

    pub(super) fn group_get_state(&mut self, file: usize) {
        let Some(group) = self.some_group(file) else {
            return;
        };
        self.settle();
        let mut args = buffer(&drm_panthor_group_get_state::default());
        args.handle(
            offset_of!(drm_panthor_group_get_state, group_handle),
            group.handle,
        );
        let fd = self.files[file].step;
        self.maybe(fd, DRM_IOCTL_PANTHOR_GROUP_GET_STATE, vec![args], 25);
    }

    /// The text of a stream, and whether it may hang or kill its group.
    fn text(&mut self, stream: Stream) -> (String, bool, bool) {
        let place = DATA + 64 * self.rng.below(DATA_SIZE / 128);
        // Sync objects have a place of their own, each with 64 bytes.
        let object = DATA + DATA_SIZE / 2 + 64 * self.rng.below(4);
        let marker = self.rng.number() as u32;
        let head = "SET_SB_ENTRY #1, #0\n";
        match stream {
            Stream::Nop => ("NOP\nNOP\nNOP\n".into(), false, false),
            Stream::Store => {
                let text = format!(
                    "{head}MOVE48 d0, #{place:#x}\nMOVE32 r4, #{marker:#x}\nSTORE_MULTIPLE [d0], r4\nWAIT #1\n{FLUSH}"
                );
                (text, false, false)
            }
            Stream::Copy => {
                let to = DATA + 64 * self.rng.below(DATA_SIZE / 128);
                let text = format!(
                    "{head}MOVE48 d0, #{place:#x}\nLOAD_MULTIPLE r4, [d0]\nWAIT #1\nADD_IMMEDIATE32 r4, r4, #1\n\
                     MOVE48 d0, #{to:#x}\nSTORE_MULTIPLE [d0 + 8], r4\nWAIT #1\n{FLUSH}"
                );
                (text, false, false)
            }
            Stream::SyncAdd => {
                let by = 1 + self.rng.below(2);
                let text = format!(
                    "{head}MOVE48 d0, #{object:#x}\nMOVE48 d2, #{by}\nSYNC_ADD64.system [d0], d2, #0, #0\nWAIT #1\n{FLUSH}"
                );
                (text, false, false)
            }
            Stream::SyncWait => {
                let above = self.rng.below(3);
                let text = format!(
                    "{head}MOVE48 d0, #{object:#x}\nMOVE48 d2, #{above}\nSYNC_WAIT64.gt.inherit d0, d2\n"
                );
                (text, true, true)
            }
            Stream::Loop => ("again:\nBRANCH.always r0, again\n".into(), true, true),
            // Assembled below.
            Stream::Invalid => ("NOP\n".into(), false, true),
            Stream::Unmapped => {
                let text =
                    format!("{head}MOVE48 d0, #0x7000000000\nLOAD_MULTIPLE r4, [d0]\nWAIT #1\n");
                (text, false, true)
            }
            Stream::ReadOnly => {
                let text = format!(
                    "{head}MOVE48 d0, #{:#x}\nMOVE32 r4, #1\nSTORE_MULTIPLE [d0], r4\nWAIT #1\n{FLUSH}",
                    CODE + CODE_SIZE - 64
                );
                (text, false, true)
            }
            Stream::Field => {
                let from = 0x10_0000 + 4096 * self.rng.below(48);
                let text = format!(
                    "{head}MOVE48 d0, #{from:#x}\nLOAD_MULTIPLE r4, [d0]\nWAIT #1\n\
                     MOVE48 d0, #{place:#x}\nSTORE_MULTIPLE [d0], r4\nWAIT #1\n{FLUSH}"
                );
                (text, false, true)
            }
        }
    }

    /// Puts a stream into the VM's memory for them: its address, its size.
    fn place(&mut self, file: usize, vm: Handle, text: &str, invalid: bool) -> Option<(u64, u32)> {
        let code = self.files[file].vm(vm)?.code.as_mut()?;
        let at = code.next;
        if at + STREAM_SPACE > CODE_SIZE - 64 {
            return None;
        }
        code.next += STREAM_SPACE;
        let map = code.map;
        // The texts above are right; were one not, its stream would be missing and a test would say so.
        let mut bytes = assemble_program(text).ok()?;
        if invalid {
            bytes.extend((0xff_u64 << 56 | 0x1234).to_le_bytes());
        }
        debug_assert!(bytes.len() as u64 <= STREAM_SPACE);
        let size = bytes.len() as u32;
        self.step(Call::Write { map, at, bytes });
        Some((CODE + at, size))
    }

    pub(super) fn submit(&mut self, file: usize) {
        let Some(group) = self.some_group(file) else {
            return;
        };
        let count = 1 + self.rng.below(2) as usize + usize::from(self.rng.percent(10));
        let with_waits = self.rng.percent(45);
        if self.doom || with_waits && self.rng.percent(80) || self.binds {
            self.settle();
        }
        // A wait that meets a signalled fence or one that is about to be is the same only for binary syncobjs.
        let settled = !self.jobs && !self.binds || self.mode == Mode::Racy;
        let mut submits = Vec::new();
        let mut syncs: Vec<Buffer> = Vec::new();
        let mut which = Vec::new();
        let (mut hangs, mut dooms) = (false, false);
        for _ in 0..count {
            let stream = match self.rng.below(100) {
                _ if !self.streams => None,
                0..=14 => None,
                15..=24 => Some(Stream::Nop),
                25..=54 => Some(Stream::Store),
                55..=69 => Some(Stream::Copy),
                70..=83 => Some(Stream::SyncAdd),
                84..=88 => Some(Stream::SyncWait),
                89..=91 => Some(Stream::Loop),
                92..=93 => Some(Stream::Invalid),
                94 => Some(Stream::Unmapped),
                95 => Some(Stream::ReadOnly),
                _ => Some(Stream::Field),
            };
            let mut submit = drm_panthor_queue_submit {
                queue_index: self.rng.below(group.queues.max(1)) as u32,
                ..Default::default()
            };
            if self.rng.percent(2) {
                submit.queue_index = self.rng.pick(&[group.queues as u32, 31, u32::MAX]);
            }
            let mut may_hang = false;
            if let Some(stream) = stream {
                let (text, hang, doom) = self.text(stream);
                let invalid = stream == Stream::Invalid;
                match self.place(file, group.vm, &text, invalid) {
                    Some((addr, size)) => {
                        (submit.stream_addr, submit.stream_size) = (addr, size);
                        hangs |= hang;
                        dooms |= doom;
                        may_hang = hang;
                    }
                    // No memory for streams: the group faults at once.
                    None if self.rng.percent(30) => {
                        (submit.stream_addr, submit.stream_size) = (CODE, 8);
                        dooms = true;
                    }
                    None => {}
                }
            }
            if self.rng.percent(85) && syncs.len() < 4 {
                // What may hang waits for nothing: otherwise nobody knew when its timer started.
                let (list, count, fills) = self.sync_ops(file, settled && with_waits && !may_hang);
                if count > 0 {
                    submit.syncs = elements::<drm_panthor_sync_op>(count);
                    which.push(Some(2 + syncs.len()));
                    syncs.push(list);
                    for (handle, point) in fills {
                        self.filled(file, handle, point);
                    }
                } else {
                    which.push(None);
                }
            } else {
                which.push(None);
            }
            submits.push(submit);
        }
        let args = drm_panthor_group_submit {
            queue_submits: elements::<drm_panthor_queue_submit>(count),
            ..Default::default()
        };
        let mut args = buffer(&args);
        args.handle(
            offset_of!(drm_panthor_group_submit, group_handle),
            group.handle,
        );
        args.pointer(
            offset_of!(drm_panthor_group_submit, queue_submits) + ARRAY,
            1,
        );
        let mut list = array(&submits);
        for (index, which) in which.iter().enumerate() {
            if let Some(which) = which {
                let at = index * size_of::<drm_panthor_queue_submit>();
                let field = offset_of!(drm_panthor_queue_submit, syncs) + ARRAY;
                list.pointer(at + field, *which);
            }
        }
        let mut buffers = vec![args, list];
        buffers.extend(syncs);
        let fd = self.files[file].step;
        let (_, spoilt) = self.maybe(fd, DRM_IOCTL_PANTHOR_GROUP_SUBMIT, buffers, 10);
        self.jobs = true;
        self.doom |= dooms || hangs || spoilt;
        if hangs || spoilt {
            self.may_hang();
        }
        if dooms {
            let groups = &mut self.files[file].groups;
            for other in groups
                .iter_mut()
                .filter(|other| other.handle == group.handle)
            {
                other.dead = true;
            }
            // Few calls make sense without a group that lives.
            if self.rng.percent(80) {
                self.group_destroy(file);
            }
        }
    }
}
