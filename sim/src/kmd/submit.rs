//! What VM_BIND and GROUP_SUBMIT share (`panthor_drv.c`): arrays of objects with a stride, and the sync operations that
//! tie the jobs of one call to syncobjs.

use std::collections::VecDeque;
use std::sync::Arc;

use panthor_uapi::Errno;
use panthor_uapi::sys::panthor::{drm_panthor_obj_array, drm_panthor_sync_op};

use super::fence::FenceRef;
use super::syncobj::Syncobj;
use super::user;
use super::world::{FileId, World};

const SYNC_OP_SIGNAL: u32 = 1 << 31;
const SYNC_OP_TYPE_MASK: u32 = 0xff;
const SYNC_OP_TIMELINE: u32 = 1;
/// What one allocation of the kernel's may hold (`kvmalloc`: INT_MAX).
const KVMALLOC_MAX: u64 = i32::MAX as u64;

/// Copies a user array (`panthor_get_uobj_array`): elements of `stride` bytes, at least `min_stride`. Shorter ones are
/// padded with zeros, longer ones must end in zeros.
pub fn read_array<T>(array: &drm_panthor_obj_array, min_stride: usize) -> Result<Vec<T>, Errno>
where
    T: zerocopy::FromBytes + zerocopy::IntoBytes,
{
    if array.count == 0 {
        return Ok(Vec::new());
    }
    if (array.stride as usize) < min_stride {
        return Err(Errno::INVAL);
    }
    if u64::from(array.count) * size_of::<T>() as u64 > KVMALLOC_MAX {
        return Err(Errno::NOMEM);
    }
    let mut values = Vec::new();
    for index in 0..u64::from(array.count) {
        // Element by element: a count that lies about the array meets the end of the mapping before it costs memory.
        let offset = index
            .checked_mul(u64::from(array.stride))
            .ok_or(Errno::FAULT)?;
        let at = array.array.checked_add(offset).ok_or(Errno::FAULT)?;
        let mut value = T::new_zeroed();
        user::read_struct(at, u64::from(array.stride), value.as_mut_bytes())?;
        values.push(value);
    }
    Ok(values)
}

/// Reads sync operations.
pub fn read_syncs(array: &drm_panthor_obj_array) -> Result<Vec<drm_panthor_sync_op>, Errno> {
    read_array(array, size_of::<drm_panthor_sync_op>())
}

fn is_signal(op: &drm_panthor_sync_op) -> bool {
    op.flags & SYNC_OP_SIGNAL != 0
}

/// `panthor_check_sync_op`.
fn check(op: &drm_panthor_sync_op) -> Result<(), Errno> {
    let kind = op.flags & SYNC_OP_TYPE_MASK;
    let known = op.flags & !(SYNC_OP_TYPE_MASK | SYNC_OP_SIGNAL) == 0 && kind <= SYNC_OP_TIMELINE;
    let point = kind == SYNC_OP_TIMELINE || op.timeline_value == 0;
    if known && point {
        Ok(())
    } else {
        Err(Errno::INVAL)
    }
}

/// The syncobj points that the jobs of one call signal (`struct panthor_submit_ctx`).
#[derive(Debug, Default)]
pub struct SubmitContext {
    signals: Vec<Signal>,
}

#[derive(Debug)]
struct Signal {
    handle: u32,
    point: u64,
    syncobj: Arc<Syncobj>,
    fence: Option<FenceRef>,
}

impl SubmitContext {
    /// Notes the points that a job signals (`panthor_submit_ctx_collect_job_signal_ops`).
    pub fn collect(
        &mut self,
        world: &mut World,
        file: FileId,
        ops: &[drm_panthor_sync_op],
    ) -> Result<(), Errno> {
        for op in ops.iter().filter(|op| is_signal(op)) {
            check(op)?;
            if self.find(op).is_some() {
                continue;
            }
            let syncobj = world.find_syncobj(file, op.handle).ok_or(Errno::INVAL)?;
            let fence = syncobj.find(op.timeline_value, world.now).ok();
            self.signals.push(Signal {
                handle: op.handle,
                point: op.timeline_value,
                syncobj,
                fence,
            });
        }
        Ok(())
    }

    fn find(&mut self, op: &drm_panthor_sync_op) -> Option<&mut Signal> {
        self.signals
            .iter_mut()
            .find(|signal| signal.handle == op.handle && signal.point == op.timeline_value)
    }

    /// What a job waits for (`panthor_submit_ctx_add_sync_deps_to_job`).
    pub fn dependencies(
        &mut self,
        world: &mut World,
        file: FileId,
        ops: &[drm_panthor_sync_op],
    ) -> Result<VecDeque<FenceRef>, Errno> {
        let mut deps = VecDeque::new();
        for op in ops.iter().filter(|op| !is_signal(op)) {
            check(op)?;
            let fence = match self.find(op) {
                Some(signal) => signal.fence.clone().ok_or(Errno::INVAL)?,
                None => world.find_fence(file, op.handle, op.timeline_value)?,
            };
            deps.push_back(fence);
        }
        Ok(deps)
    }

    /// A job's fence becomes that of the points that it signals.
    pub fn signals(&mut self, ops: &[drm_panthor_sync_op], fence: &FenceRef) {
        for op in ops.iter().filter(|op| is_signal(op)) {
            if let Some(signal) = self.find(op) {
                signal.fence = Some(fence.clone());
            }
        }
    }

    /// Puts the fences into the syncobjs (`panthor_submit_ctx_push_fences`).
    pub fn push_fences(self, now: u64) {
        for Signal {
            point,
            syncobj,
            fence,
            ..
        } in self.signals
        {
            match fence {
                Some(fence) if point > 0 => syncobj.add_point(fence, point, now),
                fence => syncobj.replace(fence, now),
            }
        }
    }
}
