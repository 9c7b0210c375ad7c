//! The driver's ioctls for groups, jobs and tiler heaps (`panthor_drv.c`, `panthor_sched.c`).

use std::collections::VecDeque;
use std::sync::PoisonError;

use panthor_uapi::Errno;
use panthor_uapi::sys::panthor::*;

use super::engine::{JobCall, QueueSetup};
use super::fence::FenceRef;
use super::gem::BO_NO_MMAP;
use super::group::{Group, GroupState};
use super::heap::{HeapPool, HeapRequest, KernelBo};
use super::queue::{Job, Queue};
use super::submit::{SubmitContext, read_array, read_syncs};
use super::vm::{MAP_NOEXEC, MAP_UNCACHED};
use super::world::{FileId, World};
use crate::model;

/// `MAX_CS_PER_CSG`.
const MAX_CS_PER_CSG: u32 = 32;
/// `CSF_MAX_QUEUE_PRIO`.
const MAX_QUEUE_PRIORITY: u8 = 15;
/// `MAX_GROUPS_PER_POOL`.
const MAX_GROUPS: u32 = 128;
/// `struct panthor_syncobj_64b`.
const SYNCOBJ_SIZE: u64 = 16;

/// Bytes in the ring of the smallest profiled job: 15 instructions in whole cache lines (`calc_profiling_ringbuf_num_slots`).
const PROFILED_JOB_BYTES: u64 = 16 * 8;
/// `struct panthor_job_profiling_data`.
const PROFILING_SLOT: u64 = 32;

const STATE_TIMEDOUT: u32 = 1 << 0;
const STATE_FATAL_FAULT: u32 = 1 << 1;
const STATE_INNOCENT: u32 = 1 << 2;

impl World {
    // ---- groups

    /// `group_priority_permit`.
    pub fn permit(&self, priority: u8) -> Result<(), Errno> {
        let highest = if self.options.kernel.is_7x() {
            PANTHOR_GROUP_PRIORITY_REALTIME
        } else {
            PANTHOR_GROUP_PRIORITY_HIGH
        };
        if priority > highest {
            return Err(Errno::INVAL);
        }
        if priority <= PANTHOR_GROUP_PRIORITY_MEDIUM || self.options.nice {
            Ok(())
        } else {
            Err(Errno::ACCESS)
        }
    }

    pub fn group_create(
        &mut self,
        file: FileId,
        args: &mut drm_panthor_group_create,
    ) -> Result<(), Errno> {
        if args.queues.count == 0 || args.queues.count > MAX_CS_PER_CSG {
            return Err(Errno::INVAL);
        }
        let queues: Vec<drm_panthor_queue_create> =
            read_array(&args.queues, size_of::<drm_panthor_queue_create>())?;
        self.permit(args.priority)?;
        self.check_group(args)?;
        let vm = self.vm(file, args.vm_id)?;
        let page = self.options.page_size as u64;
        let syncobjs_size = (u64::from(args.queues.count) * SYNCOBJ_SIZE).next_multiple_of(page);
        let kernel_flags = MAP_NOEXEC | MAP_UNCACHED;
        let syncobjs = KernelBo::new(
            &vm,
            self.new_bo(syncobjs_size, BO_NO_MMAP, Some(vm.serial))?,
            kernel_flags,
        )?;
        if self.options.kernel.is_7x() && self.file(file)?.groups.len() >= MAX_GROUPS as usize {
            // 7.x takes the handle before it looks at the queues, 6.12 afterwards.
            return Err(Errno::BUSY);
        }
        let timeout = self.options.job_timeout_ms * 1_000_000;
        let mut made = Vec::with_capacity(queues.len());
        for queue in &queues {
            check_queue(queue)?;
            let size = u64::from(queue.ringbuf_size).next_multiple_of(page);
            let object = |size: u64| {
                let bo = self.new_bo(size, BO_NO_MMAP, Some(vm.serial))?;
                KernelBo::new(&vm, bo, kernel_flags)
            };
            let ringbuf = object(size)?;
            let slots = u64::from(queue.ringbuf_size) / PROFILED_JOB_BYTES;
            let profiling = object((slots * PROFILING_SLOT).next_multiple_of(page))?;
            let name = if self.options.kernel.is_7x() {
                format!(
                    "panthor-queue-{file}-{}-{}",
                    self.sched.groups.len() + 1,
                    made.len()
                )
            } else {
                "panthor-queue".into()
            };
            let setup = QueueSetup {
                vm: vm.clone(),
                group: self.sched.next_group_number(),
                index: made.len() as u8,
                core_mask: args.compute_core_mask,
                max_cores: u32::from(args.max_compute_cores),
            };
            let engine = self.sched.gpu.queue(setup);
            let per_queue = self.options.kernel.is_7x();
            made.push(Queue::new(
                name,
                [ringbuf, profiling],
                queue.ringbuf_size,
                engine,
                per_queue,
                timeout,
            ));
        }
        if self.file(file)?.groups.len() >= MAX_GROUPS as usize {
            return Err(Errno::BUSY);
        }
        let mut group = Group {
            vm,
            priority: usize::from(args.priority),
            queues: made,
            syncobjs,
            slot: None,
            slot_priority: 0,
            state: GroupState::Created,
            idle_queues: 0,
            blocked_queues: 0,
            fatal_queues: 0,
            timedout: false,
            innocent: false,
            destroyed: false,
        };
        group.idle_queues = group.all_queues();
        let id = self.sched.add(group);
        args.group_handle = self.file(file)?.groups.insert(id, MAX_GROUPS)?;
        Ok(())
    }

    /// `panthor_group_create`'s checks.
    pub fn check_group(&self, args: &drm_panthor_group_create) -> Result<(), Errno> {
        let present = model::shader_present(self.options.cores);
        let masks = [
            (args.compute_core_mask, present, args.max_compute_cores),
            (args.fragment_core_mask, present, args.max_fragment_cores),
            (args.tiler_core_mask, 1, args.max_tiler_cores),
        ];
        let good = args.pad == 0
            && masks.iter().all(|(mask, present, max)| {
                mask & !present == 0 && mask.count_ones() >= u32::from(*max)
            })
            && args.queues.count <= model::CS_SLOTS;
        if good { Ok(()) } else { Err(Errno::INVAL) }
    }

    pub fn group_destroy(
        &mut self,
        file: FileId,
        args: &drm_panthor_group_destroy,
    ) -> Result<(), Errno> {
        if args.pad != 0 {
            return Err(Errno::INVAL);
        }
        let id = self
            .file(file)?
            .groups
            .remove(args.group_handle)
            .ok_or(Errno::INVAL)?;
        self.sched.destroy(id, self.now);
        Ok(())
    }

    pub fn group_get_state(
        &mut self,
        file: FileId,
        args: &mut drm_panthor_group_get_state,
    ) -> Result<(), Errno> {
        if args.pad != 0 {
            return Err(Errno::INVAL);
        }
        let id = *self
            .file(file)?
            .groups
            .get(args.group_handle)
            .ok_or(Errno::INVAL)?;
        let group = self.sched.groups.get(&id).ok_or(Errno::INVAL)?;
        // The kernel clears the whole struct, the handle included.
        *args = drm_panthor_group_get_state::default();
        if group.timedout {
            args.state |= STATE_TIMEDOUT;
        }
        if group.fatal_queues != 0 {
            args.state |= STATE_FATAL_FAULT;
            args.fatal_queues = group.fatal_queues;
        }
        if group.innocent && self.options.kernel.is_7x() {
            args.state |= STATE_INNOCENT;
        }
        Ok(())
    }

    pub fn group_submit(
        &mut self,
        file: FileId,
        args: &drm_panthor_group_submit,
    ) -> Result<(), Errno> {
        if args.pad != 0 {
            return Err(Errno::INVAL);
        }
        let submits: Vec<drm_panthor_queue_submit> =
            read_array(&args.queue_submits, size_of::<drm_panthor_queue_submit>())?;
        let mut jobs = Vec::with_capacity(submits.len());
        let mut target = 0;
        for submit in &submits {
            check_submit(submit)?;
            // The driver passes the handle on in 16 bits.
            target = *self
                .file(file)?
                .groups
                .get(args.group_handle & 0xffff)
                .ok_or(Errno::INVAL)?;
            let group = self
                .sched
                .groups
                .get(&target)
                .filter(|group| group.can_run())
                .ok_or(Errno::INVAL)?;
            if submit.queue_index as usize >= group.queues.len() {
                return Err(Errno::INVAL);
            }
            jobs.push((submit, read_syncs(&submit.syncs)?));
        }
        let mut context = SubmitContext::default();
        for (_, syncs) in &jobs {
            context.collect(self, file, syncs)?;
        }
        let mut armed: Vec<(usize, Job)> = Vec::with_capacity(jobs.len());
        for (submit, syncs) in jobs {
            let deps: VecDeque<FenceRef> = context.dependencies(self, file, &syncs)?;
            let queue = submit.queue_index as usize;
            let group = self.sched.groups.get_mut(&target).ok_or(Errno::INVAL)?;
            let sync = group.syncobjs.va + queue as u64 * SYNCOBJ_SIZE;
            let finished = group.queues[queue].arm();
            context.signals(&syncs, &finished);
            let call = (submit.stream_size != 0).then_some(JobCall {
                sync,
                stream: submit.stream_addr,
                size: submit.stream_size,
                latest_flush: submit.latest_flush,
            });
            armed.push((
                queue,
                Job {
                    finished,
                    deps,
                    call,
                },
            ));
        }
        for (queue, job) in armed {
            self.sched.push_job(target, queue, job);
        }
        context.push_fences(self.now);
        Ok(())
    }

    // ---- tiler heaps

    pub fn tiler_heap_create(
        &mut self,
        file: FileId,
        args: &mut drm_panthor_tiler_heap_create,
    ) -> Result<(), Errno> {
        let vm = self.vm(file, args.vm_id)?;
        let mut heaps = vm.heaps.lock().unwrap_or_else(PoisonError::into_inner);
        let new_bo = |size: u64, flags| {
            let size = size.next_multiple_of(self.options.page_size as u64);
            self.new_bo(size, flags, Some(vm.serial))
        };
        let pool = match &mut *heaps {
            Some(pool) => pool,
            empty => empty.insert(HeapPool::new(&vm, &new_bo)?),
        };
        let request = HeapRequest {
            initial_chunk_count: args.initial_chunk_count,
            chunk_size: args.chunk_size,
            max_chunks: args.max_chunks,
        };
        request.check(self.options.page_size)?;
        let (id, context, chunk) = pool.create(&vm, &request, &new_bo)?;
        args.tiler_heap_ctx_gpu_va = context;
        args.first_heap_chunk_gpu_va = chunk;
        args.handle = args.vm_id << 16 | id;
        Ok(())
    }

    pub fn tiler_heap_destroy(
        &mut self,
        file: FileId,
        args: &drm_panthor_tiler_heap_destroy,
    ) -> Result<(), Errno> {
        if args.pad != 0 {
            return Err(Errno::INVAL);
        }
        let vm = self.vm(file, args.handle >> 16)?;
        let mut heaps = vm.heaps.lock().unwrap_or_else(PoisonError::into_inner);
        heaps
            .as_mut()
            .ok_or(Errno::NOENT)?
            .destroy(args.handle & 0xffff)
    }
}

/// `group_create_queue`'s checks.
fn check_queue(queue: &drm_panthor_queue_create) -> Result<(), Errno> {
    let sized =
        (4096..=65536).contains(&queue.ringbuf_size) && queue.ringbuf_size.is_power_of_two();
    let good = queue.pad == [0; 3] && sized && queue.priority <= MAX_QUEUE_PRIORITY;
    if good { Ok(()) } else { Err(Errno::INVAL) }
}

/// `panthor_job_create`'s checks.
fn check_submit(submit: &drm_panthor_queue_submit) -> Result<(), Errno> {
    let good = submit.pad == 0
        && (submit.stream_size == 0) == (submit.stream_addr == 0)
        && submit.stream_addr % 64 == 0
        && submit.stream_size % 8 == 0
        // Bits 24 to 30 of a flush id are zero.
        && submit.latest_flush & 0x7f00_0000 == 0;
    if good { Ok(()) } else { Err(Errno::INVAL) }
}
