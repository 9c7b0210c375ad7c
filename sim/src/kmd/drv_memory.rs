//! The driver's ioctls for VMs and buffer objects (`panthor_drv.c`).

use std::sync::Arc;

use panthor_uapi::Errno;
use panthor_uapi::sys::panthor::*;

use super::bind::{BindJob, BindQueue};
use super::gem::{BO_NO_MMAP, BO_WB_MMAP};
use super::submit::{SubmitContext, read_array, read_syncs};
use super::user;
use super::vm::Vm;
use super::world::{FileId, World};

/// `PANTHOR_MAX_VMS_PER_FILE`.
const MAX_VMS: u32 = 32;
/// `PANTHOR_BO_LABEL_MAXLEN`.
const MAX_LABEL: usize = 4096;
/// `DRM_PANTHOR_VM_BIND_ASYNC`.
const VM_BIND_ASYNC: u32 = 1;

impl World {
    // ---- VMs

    pub fn vm(&mut self, file: FileId, id: u32) -> Result<Arc<Vm>, Errno> {
        self.file(file)?.vms.get(id).cloned().ok_or(Errno::INVAL)
    }

    pub fn vm_create(
        &mut self,
        file: FileId,
        args: &mut drm_panthor_vm_create,
    ) -> Result<(), Errno> {
        if args.flags != 0 {
            return Err(Errno::INVAL);
        }
        let vm = Vm::new(
            self.options.va_bits,
            args.user_va_range,
            self.options.strict,
        )?;
        let user_va_range = vm.kernel_va;
        args.id = self.file(file)?.vms.insert(Arc::new(vm), MAX_VMS)?;
        args.user_va_range = user_va_range;
        Ok(())
    }

    pub fn vm_destroy(&mut self, file: FileId, args: &drm_panthor_vm_destroy) -> Result<(), Errno> {
        if args.pad != 0 {
            return Err(Errno::INVAL);
        }
        let vm = self.file(file)?.vms.remove(args.id).ok_or(Errno::INVAL)?;
        self.sched.flush_for(vm.serial);
        vm.destroy();
        Ok(())
    }

    pub fn vm_bind(&mut self, file: FileId, args: &mut drm_panthor_vm_bind) -> Result<(), Errno> {
        let vm = self.vm(file, args.vm_id)?;
        let ops: Vec<drm_panthor_vm_bind_op> =
            read_array(&args.ops, size_of::<drm_panthor_vm_bind_op>())?;
        if args.flags & VM_BIND_ASYNC != 0 {
            return self.vm_bind_async(file, &vm, &ops);
        }
        for (index, op) in ops.iter().enumerate() {
            if let Err(errno) = self.bind_now(file, &vm, op) {
                // The client learns how far it came.
                args.ops.count = index as u32;
                return Err(errno);
            }
        }
        Ok(())
    }

    pub fn vm_bind_async(
        &mut self,
        file: FileId,
        vm: &Arc<Vm>,
        ops: &[drm_panthor_vm_bind_op],
    ) -> Result<(), Errno> {
        let mut jobs = Vec::with_capacity(ops.len());
        for op in ops {
            if vm.is_destroyed() || vm.is_unusable() {
                return Err(Errno::INVAL);
            }
            let checked = self.prepare_bind(file, vm, op)?;
            jobs.push((checked, read_syncs(&op.syncs)?));
        }
        let mut context = SubmitContext::default();
        for (_, syncs) in &jobs {
            context.collect(self, file, syncs)?;
        }
        let mut armed = Vec::with_capacity(jobs.len());
        for (op, syncs) in jobs {
            let deps = context.dependencies(self, file, &syncs)?;
            let finished = self.bind_queue(vm).arm();
            context.signals(&syncs, &finished);
            armed.push(BindJob { op, finished, deps });
        }
        for job in armed {
            self.bind_queue(vm).push(job);
        }
        context.push_fences(self.now);
        Ok(())
    }

    pub fn bind_queue(&mut self, vm: &Arc<Vm>) -> &mut BindQueue {
        self.binds
            .entry(vm.serial)
            .or_insert_with(|| BindQueue::new(vm.clone()))
    }

    // ---- buffer objects

    pub fn bo_create(
        &mut self,
        file: FileId,
        args: &mut drm_panthor_bo_create,
    ) -> Result<(), Errno> {
        let cached = if self.options.kernel.is_7x() {
            BO_WB_MMAP
        } else {
            0
        };
        if args.size == 0 || args.pad != 0 || args.flags & !(BO_NO_MMAP | cached) != 0 {
            return Err(Errno::INVAL);
        }
        if args.flags & (BO_NO_MMAP | BO_WB_MMAP) == BO_NO_MMAP | BO_WB_MMAP {
            return Err(Errno::INVAL);
        }
        let exclusive = match args.exclusive_vm_id {
            0 => None,
            id => Some(self.vm(file, id)?.serial),
        };
        let page = self.options.page_size as u64;
        // `PAGE_ALIGN` wraps; `shmem_file_setup` takes a signed size.
        let size = args.size.checked_next_multiple_of(page).unwrap_or(0);
        if i64::try_from(size).is_err() {
            return Err(Errno::INVAL);
        }
        let bo = self.new_bo(size, args.flags, exclusive)?;
        args.handle = self.file(file)?.bos.insert(Arc::new(bo), i32::MAX as u32)?;
        args.size = size;
        Ok(())
    }

    pub fn bo_mmap_offset(
        &mut self,
        file: FileId,
        args: &mut drm_panthor_bo_mmap_offset,
    ) -> Result<(), Errno> {
        if args.pad != 0 {
            return Err(Errno::INVAL);
        }
        let is_7x = self.options.kernel.is_7x();
        let bo = self.file(file)?.bos.get(args.handle).ok_or(Errno::NOENT)?;
        if is_7x && bo.flags & BO_NO_MMAP != 0 {
            return Err(Errno::PERM);
        }
        args.offset = bo.mmap_offset;
        Ok(())
    }

    pub fn bo_set_label(
        &mut self,
        file: FileId,
        args: &drm_panthor_bo_set_label,
    ) -> Result<(), Errno> {
        if args.pad != 0 {
            return Err(Errno::INVAL);
        }
        let bo = self
            .file(file)?
            .bos
            .get(args.handle)
            .cloned()
            .ok_or(Errno::NOENT)?;
        let label = match args.label {
            0 => None,
            address => Some(user::read_string(address, MAX_LABEL).map_err(
                |errno| match errno {
                    Errno::INVAL => Errno::TOOBIG,
                    other => other,
                },
            )?),
        };
        bo.set_label(label);
        Ok(())
    }

    pub fn bo_sync(&mut self, file: FileId, args: &drm_panthor_bo_sync) -> Result<(), Errno> {
        let ops: Vec<drm_panthor_bo_sync_op> =
            read_array(&args.ops, size_of::<drm_panthor_bo_sync_op>())?;
        for op in ops {
            let bo = self
                .file(file)?
                .bos
                .get(op.handle)
                .cloned()
                .ok_or(Errno::NOENT)?;
            let report = bo.sync(op.r#type, op.offset, op.size)?;
            if report.overwritten > 0 {
                let label = bo.label().unwrap_or_default();
                self.sched.report(format!(
                    "coherency: BO {} ({:?}): {} cache lines written back by the CPU over data that the GPU had written",
                    op.handle,
                    String::from_utf8_lossy(&label),
                    report.overwritten
                ));
            }
        }
        Ok(())
    }

    pub fn bo_query_info(
        &mut self,
        file: FileId,
        args: &mut drm_panthor_bo_query_info,
    ) -> Result<(), Errno> {
        let bo = self.file(file)?.bos.get(args.handle).ok_or(Errno::NOENT)?;
        // Objects of another driver do not exist here, so that none is imported.
        (args.pad, args.create_flags, args.extra_flags) = (0, bo.flags, 0);
        Ok(())
    }
}
