//! Groups of queues, and the jobs submitted to them.

use std::sync::Arc;

use crate::bo::obj_array;
use crate::call::failed;
use crate::device::{Device, Feature, Inner};
use crate::error::{Error, GroupState, Object};
use crate::syncobj::SyncOp;
use crate::sys::panthor::*;
use crate::transport::Errno;
use crate::vm::{GpuVa, Vm};

/// A group's priority.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GroupPriority {
    /// Below everything else.
    Low,
    /// The default.
    #[default]
    Medium,
    /// Needs CAP_SYS_NICE or DRM master.
    High,
    /// Needs CAP_SYS_NICE or DRM master. Since 1.2.
    Realtime,
}

impl GroupPriority {
    /// The kernel's number.
    pub const fn raw(self) -> u8 {
        match self {
            GroupPriority::Low => PANTHOR_GROUP_PRIORITY_LOW,
            GroupPriority::Medium => PANTHOR_GROUP_PRIORITY_MEDIUM,
            GroupPriority::High => PANTHOR_GROUP_PRIORITY_HIGH,
            GroupPriority::Realtime => PANTHOR_GROUP_PRIORITY_REALTIME,
        }
    }
}

/// One queue of a new group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueConfig {
    /// 0 to 15, 15 the highest.
    pub priority: u8,
    /// Bytes of the ring buffer: a power of two from 4096 to 65536.
    pub ringbuf_size: u32,
}

/// A new group. The masks choose cores from `shader_present` and tilers from `tiler_present`; `max_*` are at most the
/// bits of their mask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupConfig {
    /// Its queues, 1 to the slots of a group.
    pub queues: Vec<QueueConfig>,
    /// Its priority.
    pub priority: GroupPriority,
    /// Cores for compute.
    pub compute_core_mask: u64,
    /// Most of them at a time.
    pub max_compute_cores: u8,
    /// Cores for fragments.
    pub fragment_core_mask: u64,
    /// Most of them at a time.
    pub max_fragment_cores: u8,
    /// Tilers.
    pub tiler_core_mask: u64,
    /// Most of them at a time.
    pub max_tiler_cores: u8,
}

/// One job: a command stream for a queue.
#[derive(Clone, Debug)]
pub struct QueueSubmit<'a> {
    /// The queue's index in the group.
    pub queue_index: u32,
    /// The stream's address, a multiple of 64; 0 for a synchronisation point.
    pub stream_addr: GpuVa,
    /// The stream's bytes, a multiple of 8; 0 for a synchronisation point.
    pub stream_size: u32,
    /// [`crate::FlushId::latest`] from before the stream's memory was written, or 0 to flush in any case.
    pub latest_flush: u32,
    /// What to wait for before and what to signal after it.
    pub syncs: Vec<SyncOp<'a>>,
}

/// A group of queues. Destroyed when dropped: its unfinished jobs are killed and their fences signal ECANCELED.
#[derive(Debug)]
pub struct Group {
    vm: Vm,
    handle: u32,
}

impl Device {
    /// Creates a group whose jobs run in `vm`.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for realtime before 1.2; [`Error::Call`]: EINVAL (queues, masks, priority), EACCES
    /// (priority), ENOMEM, ENODEV.
    pub fn create_group(&self, vm: &Vm, config: &GroupConfig) -> Result<Group, Error> {
        if config.priority == GroupPriority::Realtime {
            self.require(Feature::RealtimePriority)?;
        }
        let queues: Vec<_> = config
            .queues
            .iter()
            .map(|queue| drm_panthor_queue_create {
                priority: queue.priority,
                pad: [0; 3],
                ringbuf_size: queue.ringbuf_size,
            })
            .collect();
        let mut args = drm_panthor_group_create {
            queues: obj_array(&queues),
            max_compute_cores: config.max_compute_cores,
            max_fragment_cores: config.max_fragment_cores,
            max_tiler_cores: config.max_tiler_cores,
            priority: config.priority.raw(),
            pad: 0,
            compute_core_mask: config.compute_core_mask,
            fragment_core_mask: config.fragment_core_mask,
            tiler_core_mask: config.tiler_core_mask,
            vm_id: vm.id(),
            group_handle: 0,
        };
        // SAFETY: `queues` leads to an array that lives to the end of this function and is only read.
        unsafe {
            self.0
                .call(DRM_IOCTL_PANTHOR_GROUP_CREATE, &mut args, || vm.object())?
        };
        Ok(Group {
            vm: vm.clone(),
            handle: args.group_handle,
        })
    }
}

impl Group {
    fn device(&self) -> &Arc<Inner> {
        self.vm.device()
    }

    /// The group's handle, nonzero.
    pub fn handle(&self) -> u32 {
        self.handle
    }

    /// The group as errors name it.
    pub fn object(&self) -> Object {
        Object::Group(self.handle)
    }

    /// The VM of its jobs.
    pub fn vm(&self) -> &Vm {
        &self.vm
    }

    /// Submits jobs, all or none. Jobs of one queue run in order.
    ///
    /// # Errors
    /// [`Error::DeviceLost`] when the group is dead; [`Error::Call`]: EINVAL (misaligned stream, unknown queue, wait on a
    /// syncobj without a fence), ENOENT (unknown syncobj), ENOMEM, ENODEV.
    pub fn submit(&self, jobs: &[QueueSubmit<'_>]) -> Result<(), Error> {
        let syncs: Vec<Vec<_>> = jobs.iter().map(|job| SyncOp::raw(&job.syncs)).collect();
        let raw: Vec<_> = jobs
            .iter()
            .zip(&syncs)
            .map(|(job, syncs)| drm_panthor_queue_submit {
                queue_index: job.queue_index,
                stream_size: job.stream_size,
                stream_addr: job.stream_addr.0,
                latest_flush: job.latest_flush,
                pad: 0,
                syncs: obj_array(syncs),
            })
            .collect();
        let mut args = drm_panthor_group_submit {
            group_handle: self.handle,
            pad: 0,
            queue_submits: obj_array(&raw),
        };
        // SAFETY: `queue_submits` leads to `raw` and from there to `syncs`; both live to the end of this function and
        // are only read.
        match unsafe {
            self.device()
                .ioctl(DRM_IOCTL_PANTHOR_GROUP_SUBMIT, &mut args)
        } {
            Ok(_) => Ok(()),
            Err(errno) => {
                // A dead group and a wrong argument are the same EINVAL (`panthor_sched.c`, panthor_job_create).
                if errno == Errno::INVAL {
                    match self.state() {
                        Ok(state) if state.is_dead() => {
                            return Err(Error::DeviceLost {
                                group: self.object(),
                                state,
                            });
                        }
                        Ok(_) => {}
                        Err(error) => log::warn!("{error}"),
                    }
                }
                Err(failed(DRM_IOCTL_PANTHOR_GROUP_SUBMIT, self.object())(errno))
            }
        }
    }

    /// What the driver says about the group.
    ///
    /// # Errors
    /// [`Error::Call`].
    pub fn state(&self) -> Result<GroupState, Error> {
        let mut args = drm_panthor_group_get_state {
            group_handle: self.handle,
            ..Default::default()
        };
        // SAFETY: no pointers inside.
        unsafe {
            self.device()
                .call(DRM_IOCTL_PANTHOR_GROUP_GET_STATE, &mut args, || {
                    self.object()
                })?
        };
        let flags = GroupStateFlags::from_bits_retain(args.state);
        Ok(GroupState {
            flags,
            fatal_queues: args.fatal_queues,
        })
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let mut args = drm_panthor_group_destroy {
            group_handle: self.handle,
            pad: 0,
        };
        // SAFETY: no pointers inside.
        let result = unsafe {
            self.device()
                .call(DRM_IOCTL_PANTHOR_GROUP_DESTROY, &mut args, || self.object())
        };
        if let Err(error) = result {
            log::warn!("{error}");
        }
    }
}
