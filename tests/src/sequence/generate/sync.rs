//! Syncobjs, sync files, eventfds, waits.

use std::mem::offset_of;

use panthor_uapi::sys::drm::*;
use panthor_uapi::sys::panthor::drm_panthor_sync_op;
use panthor_uapi::sys::sync_file::*;

use super::super::{Buffer, Call, StepId, Value};
use super::state::{Handle, SyncFd, Syncobj};
use super::{Generator, array, buffer};

const SIGNAL: u32 = 1 << 31;
const TIMELINE: u32 = 1;
const WAIT_ALL: u32 = 1;
const WAIT_FOR_SUBMIT: u32 = 2;
const WAIT_AVAILABLE: u32 = 4;
const WAIT_DEADLINE: u32 = 8;
const EXPORT_SYNC_FILE: u32 = 1;
const WITH_POINT: u32 = 2;

/// A wait that ends what ends soon, and does not see what is killed after five seconds.
const SHORT_WAIT_NS: u64 = 100_000_000;

impl Generator {
    pub(super) fn syncobj_create(&mut self, file: usize, spoil: bool) {
        let flags = self.rng.pick(&[0, 0, 0, 1, 1, 2]);
        let flags = if spoil { flags } else { flags & 1 };
        let args = drm_syncobj_create {
            flags,
            ..Default::default()
        };
        let fd = self.files[file].step;
        let percent = if spoil { 10 } else { 0 };
        let (step, spoilt) = self.maybe(fd, DRM_IOCTL_SYNCOBJ_CREATE, vec![buffer(&args)], percent);
        let handle = Handle {
            step,
            at: offset_of!(drm_syncobj_create, handle),
        };
        self.files[file].syncobjs.push(Syncobj {
            handle,
            filled: flags & 1 != 0,
            point: 0,
            certain: !spoilt && flags < 2,
        });
    }

    fn some_syncobj(&mut self, file: usize) -> Option<Syncobj> {
        let syncobjs = &self.files[file].syncobjs;
        let at = self.rng.below(syncobjs.len() as u64) as usize;
        syncobjs.get(at).copied()
    }

    /// The generator's memory: a fence was put into a syncobj.
    pub(super) fn filled(&mut self, file: usize, handle: Handle, point: u64) {
        let syncobjs = &mut self.files[file].syncobjs;
        for syncobj in syncobjs.iter_mut().filter(|other| other.handle == handle) {
            syncobj.filled = true;
            syncobj.point = if point == 0 {
                0
            } else {
                syncobj.point.max(point)
            };
        }
    }

    pub(super) fn syncobj_destroy(&mut self, file: usize) {
        let Some(at) = self.rng.index(self.files[file].syncobjs.len()) else {
            return;
        };
        let handle = self.files[file].syncobjs[at].handle;
        let fd = self.files[file].step;
        let destroy = |generator: &mut Self, pad: u32, value: Value| {
            let mut args = buffer(&drm_syncobj_destroy {
                pad,
                ..Default::default()
            });
            args.put(offset_of!(drm_syncobj_destroy, handle), 4, value);
            generator.clean(fd, DRM_IOCTL_SYNCOBJ_DESTROY, vec![args]);
        };
        // Nothing is destroyed by accident: a signal operation with a dead handle is left to a sequence of its own.
        match self.rng.below(8) {
            0 => destroy(self, 1, handle.value()),
            1 => {
                let wrong = self.rng.pick(&[0, 1 << 20, u64::from(u32::MAX)]);
                destroy(self, 0, Value::Number(wrong));
            }
            _ => {
                destroy(self, 0, handle.value());
                self.files[file].syncobjs.swap_remove(at);
                self.files[file].dead.push(handle);
                if self.rng.percent(30) {
                    // Twice; the number may be another's by now only if one was made in between.
                    destroy(self, 0, handle.value());
                }
            }
        }
    }

    /// An array of sync operations for a job: its buffer, their number, and what they fill.
    ///
    /// Waits are for what has a fence already where that can be known, and not for what never signals if the job may
    /// hang itself.
    pub(super) fn sync_ops(
        &mut self,
        file: usize,
        waits: bool,
    ) -> (Buffer, usize, Vec<(Handle, u64)>) {
        let count = 1 + self.rng.below(3) as usize;
        let mut ops = Vec::new();
        let mut handles = Vec::new();
        let mut fills = Vec::new();
        for _ in 0..count {
            let Some(syncobj) = self.some_syncobj(file) else {
                break;
            };
            // Linux up to 7.3 dereferences NULL where the handle of a signal operation is none
            // (`panthor_submit_ctx_add_sync_signal`): the driver under test would be gone.
            let may_wait = waits && syncobj.filled;
            if !(syncobj.certain || may_wait) {
                continue;
            }
            let only_wait = !syncobj.certain;
            let wait = only_wait
                || waits && self.rng.percent(40) && (syncobj.filled || self.rng.percent(8));
            let op = if wait {
                let timeline = syncobj.point > 0 && self.rng.percent(80);
                let point = 1 + self.rng.below(syncobj.point.max(1));
                drm_panthor_sync_op {
                    flags: u32::from(timeline),
                    timeline_value: if timeline { point } else { 0 },
                    ..Default::default()
                }
            } else {
                let timeline = self.rng.percent(40);
                let step = if self.rng.percent(90) { 1 } else { 0 };
                let point = if timeline {
                    syncobj.point + step * (1 + self.rng.below(3))
                } else {
                    0
                };
                fills.push((syncobj.handle, point));
                drm_panthor_sync_op {
                    flags: SIGNAL | if timeline { TIMELINE } else { 0 },
                    timeline_value: point,
                    ..Default::default()
                }
            };
            ops.push(op);
            handles.push(syncobj.handle);
        }
        let mut list = array(&ops);
        for (index, handle) in handles.iter().enumerate() {
            let at = index * size_of::<drm_panthor_sync_op>();
            list.handle(at + offset_of!(drm_panthor_sync_op, handle), *handle);
        }
        (list, ops.len(), fills)
    }

    /// A list of handles, and how many.
    fn handles(&mut self, file: usize, most: u64) -> (Buffer, Vec<Syncobj>) {
        let count = 1 + self.rng.below(most);
        let mut chosen = Vec::new();
        for _ in 0..count {
            chosen.extend(self.some_syncobj(file));
        }
        let mut list = Buffer {
            bytes: vec![0; 4 * chosen.len()],
            values: Vec::new(),
        };
        for (index, syncobj) in chosen.iter().enumerate() {
            list.handle(4 * index, syncobj.handle);
        }
        (list, chosen)
    }

    fn points(&mut self, chosen: &[Syncobj]) -> Buffer {
        let points = chosen.iter().map(|syncobj| {
            let slack = u64::from(self.rng.percent(15));
            let point = self.rng.below(syncobj.point + 1 + slack);
            if self.rng.percent(50) {
                syncobj.point
            } else {
                point
            }
        });
        let bytes = points.flat_map(u64::to_le_bytes).collect();
        Buffer {
            bytes,
            values: Vec::new(),
        }
    }

    pub(super) fn syncobj_wait(&mut self, file: usize) {
        let (list, chosen) = self.handles(file, 3);
        if chosen.is_empty() {
            return;
        }
        // One that ends soon or not at all is decided; which of several ends first is not, nor what a wait for all says of
        // the first.
        let alone = chosen.len() == 1 && self.rng.percent(50);
        if !alone {
            self.settle();
        }
        let submitted = chosen.iter().all(|syncobj| syncobj.filled);
        let mut flags = 0;
        for (flag, percent) in [
            (WAIT_ALL, if alone { 0 } else { 60 }),
            (WAIT_FOR_SUBMIT, if submitted { 20 } else { 80 }),
            (WAIT_DEADLINE, 10),
            (WAIT_AVAILABLE, 10),
            (1 << 4, 2),
        ] {
            if self.rng.percent(percent) {
                flags |= flag;
            }
        }
        let timeline = self.rng.percent(50);
        if !timeline && self.rng.percent(90) {
            flags &= !WAIT_AVAILABLE;
        }
        let settled = !self.jobs && !self.binds;
        let timeout = match self.rng.below(3) {
            0 if settled => Value::Number(0),
            1 if settled => Value::Number(u64::from(self.rng.percent(50)) << 63),
            _ => Value::Deadline(SHORT_WAIT_NS),
        };
        if matches!(timeout, Value::Deadline(_)) {
            self.clock += SHORT_WAIT_NS;
        }
        let fd = self.files[file].step;
        if timeline {
            let args = drm_syncobj_timeline_wait {
                count_handles: chosen.len() as u32,
                flags,
                first_signaled: 77,
                ..Default::default()
            };
            let mut args = buffer(&args);
            args.pointer(offset_of!(drm_syncobj_timeline_wait, handles), 1);
            args.pointer(offset_of!(drm_syncobj_timeline_wait, points), 2);
            args.put(
                offset_of!(drm_syncobj_timeline_wait, timeout_nsec),
                8,
                timeout,
            );
            let points = self.points(&chosen);
            let buffers = vec![args, list, points];
            self.maybe(fd, DRM_IOCTL_SYNCOBJ_TIMELINE_WAIT, buffers, 12);
        } else {
            let args = drm_syncobj_wait {
                count_handles: chosen.len() as u32,
                flags,
                first_signaled: 77,
                ..Default::default()
            };
            let mut args = buffer(&args);
            args.pointer(offset_of!(drm_syncobj_wait, handles), 1);
            args.put(offset_of!(drm_syncobj_wait, timeout_nsec), 8, timeout);
            self.maybe(fd, DRM_IOCTL_SYNCOBJ_WAIT, vec![args, list], 12);
        }
    }

    /// RESET, SIGNAL, TIMELINE_SIGNAL.
    pub(super) fn syncobj_set(&mut self, file: usize) {
        let (list, chosen) = self.handles(file, 2);
        if chosen.is_empty() {
            return;
        }
        // What waits for one of them may now begin.
        self.settle();
        self.jobs = true;
        self.binds = true;
        let fd = self.files[file].step;
        if self.rng.percent(50) {
            let args = drm_syncobj_timeline_array {
                count_handles: chosen.len() as u32,
                flags: u32::from(self.rng.percent(5)),
                ..Default::default()
            };
            let mut args = buffer(&args);
            args.pointer(offset_of!(drm_syncobj_timeline_array, handles), 1);
            args.pointer(offset_of!(drm_syncobj_timeline_array, points), 2);
            let mut points = Vec::new();
            for syncobj in &chosen {
                let ahead = self.rng.below(3);
                points.push(syncobj.point + ahead);
            }
            for (syncobj, point) in chosen.iter().zip(&points) {
                self.filled(file, syncobj.handle, *point);
            }
            let bytes = points
                .iter()
                .flat_map(|point| point.to_le_bytes())
                .collect();
            let values = Vec::new();
            let buffers = vec![args, list, Buffer { bytes, values }];
            self.maybe(fd, DRM_IOCTL_SYNCOBJ_TIMELINE_SIGNAL, buffers, 12);
            return;
        }
        let signal = self.rng.percent(50);
        let args = drm_syncobj_array {
            count_handles: chosen.len() as u32,
            ..Default::default()
        };
        let mut args = buffer(&args);
        args.pointer(offset_of!(drm_syncobj_array, handles), 1);
        let request = if signal {
            DRM_IOCTL_SYNCOBJ_SIGNAL
        } else {
            DRM_IOCTL_SYNCOBJ_RESET
        };
        self.maybe(fd, request, vec![args, list], 12);
        for chosen in chosen {
            let syncobjs = &mut self.files[file].syncobjs;
            for syncobj in syncobjs
                .iter_mut()
                .filter(|one| one.handle == chosen.handle)
            {
                (syncobj.filled, syncobj.point) = (signal, 0);
            }
        }
    }

    fn query(&mut self, fd: StepId, list: Buffer, count: usize, flags: u32, percent: u64) {
        let args = drm_syncobj_timeline_array {
            count_handles: count as u32,
            flags,
            ..Default::default()
        };
        let mut args = buffer(&args);
        args.pointer(offset_of!(drm_syncobj_timeline_array, handles), 1);
        args.pointer(offset_of!(drm_syncobj_timeline_array, points), 2);
        // Not zeros, so that a written zero shows.
        let points = Buffer {
            bytes: vec![0xee; 8 * count],
            values: Vec::new(),
        };
        let buffers = vec![args, list, points];
        self.maybe(fd, DRM_IOCTL_SYNCOBJ_QUERY, buffers, percent);
    }

    pub(super) fn syncobj_query(&mut self, file: usize) {
        let (list, chosen) = self.handles(file, 3);
        if chosen.is_empty() {
            return;
        }
        self.settle();
        let flags = self.rng.pick(&[0, 0, 1, 2]);
        let fd = self.files[file].step;
        self.query(fd, list, chosen.len(), flags, 15);
    }

    fn export(
        &mut self,
        fd: StepId,
        handle: Handle,
        flags: u32,
        point: u64,
        percent: u64,
    ) -> StepId {
        let args = drm_syncobj_handle {
            flags,
            point,
            fd: -1,
            ..Default::default()
        };
        let mut args = buffer(&args);
        args.handle(offset_of!(drm_syncobj_handle, handle), handle);
        self.maybe(fd, DRM_IOCTL_SYNCOBJ_HANDLE_TO_FD, vec![args], percent)
            .0
    }

    pub(super) fn syncobj_to_fd(&mut self, file: usize) {
        let Some(syncobj) = self.some_syncobj(file) else {
            return;
        };
        self.settle();
        let fd = self.files[file].step;
        if self.rng.percent(25) {
            let step = self.export(fd, syncobj.handle, 0, 0, 20);
            self.syncobj_fds.push(SyncFd { step });
            return;
        }
        let pointed = self.kernel.is_7x() && syncobj.point > 0 && self.rng.percent(50);
        let flags = EXPORT_SYNC_FILE | if pointed { WITH_POINT } else { 0 };
        let beyond = u64::from(self.rng.percent(10));
        let point = if pointed {
            1 + self.rng.below(syncobj.point + beyond)
        } else {
            0
        };
        let step = self.export(fd, syncobj.handle, flags, point, 15);
        self.sync_files.push(SyncFd { step });
    }

    pub(super) fn syncobj_from_fd(&mut self, file: usize) {
        let fd = self.files[file].step;
        self.settle();
        let as_file = self.rng.percent(60);
        let from = if as_file {
            &self.sync_files
        } else {
            &self.syncobj_fds
        };
        let count = from.len();
        let Some(at) = self.rng.index(count) else {
            return;
        };
        let source = if as_file {
            self.sync_files[at]
        } else {
            self.syncobj_fds[at]
        };
        if !as_file {
            let mut args = buffer(&drm_syncobj_handle::default());
            args.put(
                offset_of!(drm_syncobj_handle, fd),
                4,
                Value::Fd(source.step),
            );
            let (step, _) = self.maybe(fd, DRM_IOCTL_SYNCOBJ_FD_TO_HANDLE, vec![args], 20);
            let handle = Handle {
                step,
                at: offset_of!(drm_syncobj_handle, handle),
            };
            // Whether it has a fence is what the original has; nothing depends on it but the chance of success.
            self.files[file].syncobjs.push(Syncobj {
                handle,
                filled: true,
                point: 0,
                certain: false,
            });
            return;
        }
        let Some(syncobj) = self.some_syncobj(file) else {
            return;
        };
        let pointed = self.kernel.is_7x() && self.rng.percent(30);
        let point = if pointed { syncobj.point + 1 } else { 0 };
        let args = drm_syncobj_handle {
            flags: EXPORT_SYNC_FILE | if pointed { WITH_POINT } else { 0 },
            point,
            ..Default::default()
        };
        let mut args = buffer(&args);
        args.handle(offset_of!(drm_syncobj_handle, handle), syncobj.handle);
        args.put(
            offset_of!(drm_syncobj_handle, fd),
            4,
            Value::Fd(source.step),
        );
        self.maybe(fd, DRM_IOCTL_SYNCOBJ_FD_TO_HANDLE, vec![args], 20);
        self.filled(file, syncobj.handle, point);
    }

    pub(super) fn syncobj_transfer(&mut self, file: usize) {
        let (Some(source), Some(target)) = (self.some_syncobj(file), self.some_syncobj(file))
        else {
            return;
        };
        if !source.filled && self.rng.percent(80) {
            return;
        }
        self.settle();
        let to = if self.rng.percent(50) {
            target.point + 1
        } else {
            0
        };
        let args = drm_syncobj_transfer {
            src_point: self.rng.below(source.point + 1),
            dst_point: to,
            flags: self.rng.pick(&[0, 0, 0, 1, 4]),
            ..Default::default()
        };
        let mut args = buffer(&args);
        args.handle(offset_of!(drm_syncobj_transfer, src_handle), source.handle);
        args.handle(offset_of!(drm_syncobj_transfer, dst_handle), target.handle);
        let fd = self.files[file].step;
        self.maybe(fd, DRM_IOCTL_SYNCOBJ_TRANSFER, vec![args], 15);
        self.filled(file, target.handle, to);
        self.jobs = true;
    }

    pub(super) fn syncobj_eventfd(&mut self, file: usize) {
        let Some(syncobj) = self.some_syncobj(file) else {
            return;
        };
        if self.eventfds.len() < 3 {
            let step = self.step(Call::Eventfd);
            self.eventfds.push(step);
        }
        let Some(at) = self.rng.index(self.eventfds.len()) else {
            return;
        };
        self.settle();
        let args = drm_syncobj_eventfd {
            flags: self.rng.pick(&[0, 0, WAIT_AVAILABLE, 1]),
            point: syncobj.point + u64::from(self.rng.percent(40)),
            ..Default::default()
        };
        let mut args = buffer(&args);
        args.handle(offset_of!(drm_syncobj_eventfd, handle), syncobj.handle);
        args.put(
            offset_of!(drm_syncobj_eventfd, fd),
            4,
            Value::Fd(self.eventfds[at]),
        );
        let fd = self.files[file].step;
        self.maybe(fd, DRM_IOCTL_SYNCOBJ_EVENTFD, vec![args], 20);
        self.jobs = true;
    }

    // ---- sync files

    fn file_info(&mut self, fd: StepId, room: u32, percent: u64) {
        if !self.names {
            return;
        }
        let args = sync_file_info {
            num_fences: room,
            ..Default::default()
        };
        let mut args = buffer(&args);
        let mut buffers = Vec::new();
        if room > 0 {
            args.pointer(offset_of!(sync_file_info, sync_fence_info), 1);
        }
        buffers.push(args);
        if room > 0 {
            buffers.push(Buffer {
                bytes: vec![0; room as usize * size_of::<sync_fence_info>()],
                values: Vec::new(),
            });
        }
        self.maybe(fd, SYNC_IOC_FILE_INFO, buffers, percent);
    }

    pub(super) fn ask_sync_file(&mut self, fd: StepId) {
        self.file_info(fd, 0, 0);
        self.file_info(fd, 6, 0);
    }

    /// How the fence in a syncobj stands, and the timeline's point.
    pub(super) fn ask_syncobj(&mut self, fd: StepId, handle: Handle) {
        let file = self.export(fd, handle, EXPORT_SYNC_FILE, 0, 0);
        self.ask_sync_file(file);
        let mut list = Buffer {
            bytes: vec![0; 4],
            values: Vec::new(),
        };
        list.handle(0, handle);
        self.query(fd, list, 1, 0, 0);
    }

    pub(super) fn sync_file_ioctl(&mut self) {
        let Some(at) = self.rng.index(self.sync_files.len()) else {
            return;
        };
        let fd = self.sync_files[at].step;
        self.settle();
        match self.rng.below(10) {
            0..=4 => {
                let room = self.rng.pick(&[0, 0, 1, 2, 6]);
                self.file_info(fd, room, 15);
            }
            5..=8 => {
                let other = self.rng.below(self.sync_files.len() as u64) as usize;
                let mut args = sync_merge_data::default();
                if self.rng.percent(60) {
                    args.name[..6].copy_from_slice(b"merged");
                }
                let mut args = buffer(&args);
                args.put(
                    offset_of!(sync_merge_data, fd2),
                    4,
                    Value::Fd(self.sync_files[other].step),
                );
                let (step, _) = self.maybe(fd, SYNC_IOC_MERGE, vec![args], 20);
                self.sync_files.push(SyncFd { step });
            }
            _ => {
                // SYNC_IOC_SET_DEADLINE: `_IOW('>', 5, struct sync_set_deadline)`.
                let bytes = vec![0; 16];
                let values = Vec::new();
                self.maybe(fd, 0x4010_3e05, vec![Buffer { bytes, values }], 30);
            }
        }
    }

    pub(super) fn poll(&mut self) {
        self.settle();
        let from_events = self.rng.percent(40);
        let events = self.rng.pick(&[1, 1, 4, 5]);
        let fd = if from_events {
            self.rng
                .index(self.eventfds.len())
                .map(|at| self.eventfds[at])
        } else {
            self.rng
                .index(self.sync_files.len())
                .map(|at| self.sync_files[at].step)
        };
        let Some(fd) = fd else { return };
        if from_events && self.rng.percent(50) {
            self.step(Call::ReadEventfd { fd });
            return;
        }
        self.step(Call::Poll {
            fd,
            events,
            timeout_ns: 0,
        });
    }
}
