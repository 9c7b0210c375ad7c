//! VM_BIND (`panthor_mmu.c`): checking an operation, doing it at once, doing it in a VM's own queue.

use std::collections::VecDeque;
use std::sync::Arc;

use panthor_uapi::Errno;
use panthor_uapi::sys::panthor::drm_panthor_vm_bind_op;

use super::fence::{Fence, FenceRef, new_context};
use super::gem::Bo;
use super::vm::{MAP_NOEXEC, MAP_READONLY, MAP_SPARSE, MAP_UNCACHED, VM_PAGE, Vm};
use super::world::{FileId, World};

/// Nanoseconds from the moment that an asynchronous bind can run until it has run.
const BIND_NS: u64 = 20_000;

/// Bytes that one entry of the root page table covers.
const ROOT_ENTRY: u64 = 1 << 39;

const TYPE_MASK: u32 = 0xf << 28;
const TYPE_MAP: u32 = 0;
const TYPE_UNMAP: u32 = 1 << 28;
const TYPE_SYNC_ONLY: u32 = 2 << 28;

/// A checked operation.
#[derive(Debug)]
pub enum BindOp {
    /// Map.
    Map {
        /// The object.
        bo: Arc<Bo>,
        /// Offset in it.
        offset: u64,
        /// Address.
        va: u64,
        /// Bytes.
        size: u64,
        /// `DRM_PANTHOR_VM_BIND_OP_MAP_*`.
        flags: u32,
    },
    /// Unmap.
    Unmap {
        /// Address.
        va: u64,
        /// Bytes.
        size: u64,
    },
    /// Only wait and signal.
    SyncOnly,
}

/// An operation in a VM's queue.
#[derive(Debug)]
pub struct BindJob {
    /// What to do.
    pub op: BindOp,
    /// Signals when it is done.
    pub finished: FenceRef,
    /// What has to signal first.
    pub deps: VecDeque<FenceRef>,
}

/// The queue of a VM (`panthor-vm-bind`).
#[derive(Debug)]
pub struct BindQueue {
    vm: Arc<Vm>,
    context: u64,
    seqno: u64,
    /// The operations, in order.
    pub jobs: VecDeque<BindJob>,
    /// When the first of them runs, once nothing keeps it.
    pub run_at: Option<u64>,
}

impl BindQueue {
    /// An empty queue.
    pub fn new(vm: Arc<Vm>) -> Self {
        Self {
            vm,
            context: new_context(),
            seqno: 0,
            jobs: VecDeque::new(),
            run_at: None,
        }
    }

    /// The finished fence of the next operation.
    pub fn arm(&mut self) -> FenceRef {
        self.seqno += 1;
        Fence::new(self.context, self.seqno, "panthor-vm-bind".into())
    }

    /// Queues an operation.
    pub fn push(&mut self, mut job: BindJob) {
        job.deps.retain(|dep| dep.context != self.context);
        self.jobs.push_back(job);
    }
}

impl World {
    /// `panthor_vm_bind_prepare_op_ctx`.
    pub fn prepare_bind(
        &mut self,
        file: FileId,
        vm: &Vm,
        op: &drm_panthor_vm_bind_op,
    ) -> Result<BindOp, Errno> {
        let sparse_known = self.options.kernel.is_7x();
        if (op.va | op.size | op.bo_offset) % VM_PAGE != 0 {
            return Err(Errno::INVAL);
        }
        // `range_overflows(start, size, max)`.
        if op.va >= vm.kernel_va || op.size > vm.kernel_va - op.va {
            return Err(Errno::INVAL);
        }
        let map_flags = op.flags & !TYPE_MASK;
        match op.flags & TYPE_MASK {
            TYPE_MAP => {
                let file = self.file(file)?;
                let sparse = sparse_known && op.flags & MAP_SPARSE != 0;
                let bo = if sparse {
                    file.dummy.clone()
                } else {
                    file.bos.get(op.bo_handle).cloned()
                };
                let bo = bo.ok_or(Errno::INVAL)?;
                let known = MAP_READONLY
                    | MAP_NOEXEC
                    | MAP_UNCACHED
                    | if sparse_known { MAP_SPARSE } else { 0 };
                if map_flags & !known != 0 || (sparse && op.flags & MAP_NOEXEC == 0) {
                    return Err(Errno::INVAL);
                }
                if !sparse && (op.size > bo.size || op.bo_offset > bo.size - op.size) {
                    return Err(Errno::INVAL);
                }
                if sparse && (op.bo_handle != 0 || op.bo_offset != 0) {
                    return Err(Errno::INVAL);
                }
                if bo.exclusive_vm.is_some_and(|serial| serial != vm.serial) {
                    return Err(Errno::INVAL);
                }
                bo.pin()?;
                // No page tables to preallocate is taken for none to be had (`panthor_vm_op_ctx_prealloc_pts`).
                if op.size == 0 && op.va % ROOT_ENTRY == 0 {
                    return Err(Errno::NOMEM);
                }
                Ok(BindOp::Map {
                    bo,
                    offset: op.bo_offset,
                    va: op.va,
                    size: op.size,
                    flags: map_flags,
                })
            }
            TYPE_UNMAP => {
                if map_flags != 0 || op.bo_handle != 0 || op.bo_offset != 0 {
                    return Err(Errno::INVAL);
                }
                Ok(BindOp::Unmap {
                    va: op.va,
                    size: op.size,
                })
            }
            TYPE_SYNC_ONLY => {
                let empty = map_flags == 0
                    && op.bo_handle == 0
                    && op.bo_offset == 0
                    && op.va == 0
                    && op.size == 0;
                if empty && op.syncs.count != 0 {
                    Ok(BindOp::SyncOnly)
                } else {
                    Err(Errno::INVAL)
                }
            }
            _ => Err(Errno::INVAL),
        }
    }

    /// `panthor_vm_exec_op`.
    pub fn execute_bind(&mut self, vm: &Vm, op: &BindOp) -> Result<(), Errno> {
        match op {
            BindOp::SyncOnly => return Ok(()),
            BindOp::Map {
                bo,
                offset,
                va,
                size,
                flags,
            } => {
                if vm.is_unusable() {
                    return Err(Errno::INVAL);
                }
                vm.map(*va, *size, bo, *offset, *flags)?;
            }
            BindOp::Unmap { va, size } => vm.unmap(*va, *size)?,
        }
        self.sched.flush_for(vm.serial);
        Ok(())
    }

    /// `panthor_vm_bind_exec_sync_op`.
    pub fn bind_now(
        &mut self,
        file: FileId,
        vm: &Vm,
        op: &drm_panthor_vm_bind_op,
    ) -> Result<(), Errno> {
        if op.syncs.count != 0 {
            return Err(Errno::INVAL);
        }
        if op.size == 0 {
            return Ok(());
        }
        let checked = self.prepare_bind(file, vm, op)?;
        self.execute_bind(vm, &checked)
    }

    /// Runs the asynchronous operations that are due. Whether there were any.
    pub fn run_binds(&mut self) -> bool {
        let now = self.now;
        let mut any = false;
        let serials: Vec<u64> = self.binds.keys().copied().collect();
        for serial in serials {
            while let Some(queue) = self.binds.get_mut(&serial) {
                let Some(job) = queue.jobs.front_mut() else {
                    break;
                };
                while job.deps.front().is_some_and(|dep| dep.is_signalled(now)) {
                    job.deps.pop_front();
                }
                if !job.deps.is_empty() {
                    break;
                }
                let run_at = *queue.run_at.get_or_insert(now.saturating_add(BIND_NS));
                if run_at > now {
                    break;
                }
                queue.run_at = None;
                let (vm, job) = (queue.vm.clone(), queue.jobs.pop_front());
                if let Some(job) = job {
                    if let Err(error) = self.execute_bind(&vm, &job.op) {
                        vm.declare_unusable();
                        job.finished.set_error(error);
                    }
                    job.finished.signal(now);
                    any = true;
                }
            }
        }
        self.binds
            .retain(|_, queue| !queue.jobs.is_empty() || !queue.vm.is_destroyed());
        any
    }
}
