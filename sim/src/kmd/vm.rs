//! GPU address spaces (`panthor_mmu.c`): ranges of buffer objects at GPU addresses.

use std::collections::BTreeMap;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use panthor_uapi::Errno;

use super::gem::Bo;
use super::heap::HeapPool;
use super::kernel_va::KernelSpace;
use crate::mmu::{Access, AddressSpace, MmuFault, MmuFaultKind, Page};

/// Bytes in a GPU page (`panthor_vm_page_size`: the smallest of 4 KiB and 2 MiB).
pub const VM_PAGE: u64 = 4096;
/// Bytes in a large GPU page.
pub const VM_LARGE_PAGE: u64 = 2 << 20;
/// Least room for the driver's own objects (`PANTHOR_VM_MIN_KERNEL_VA_SIZE`).
const MIN_KERNEL_VA: u64 = 256 << 20;
/// What the simulated client's `TASK_SIZE` is: 48-bit addresses of arm64.
pub const TASK_SIZE: u64 = 1 << 48;

/// `DRM_PANTHOR_VM_BIND_OP_MAP_READONLY`.
pub const MAP_READONLY: u32 = 1 << 0;
/// `DRM_PANTHOR_VM_BIND_OP_MAP_NOEXEC`.
pub const MAP_NOEXEC: u32 = 1 << 1;
/// `DRM_PANTHOR_VM_BIND_OP_MAP_UNCACHED`.
pub const MAP_UNCACHED: u32 = 1 << 2;
/// `DRM_PANTHOR_VM_BIND_OP_MAP_SPARSE`.
pub const MAP_SPARSE: u32 = 1 << 3;

/// One mapping.
#[derive(Clone, Debug)]
struct Vma {
    end: u64,
    bo: Arc<Bo>,
    /// Offset in `bo` of the first byte; for sparse mappings, of address 0.
    offset: u64,
    flags: u32,
}

/// A GPU address space.
#[derive(Debug)]
pub struct Vm {
    /// A number that no other VM of the process has.
    pub serial: u64,
    /// First address that only the driver may map.
    pub kernel_va: u64,
    end: u64,
    maps: RwLock<BTreeMap<u64, Vma>>,
    kernel_space: Mutex<KernelSpace>,
    generation: AtomicU64,
    unusable: AtomicBool,
    destroyed: AtomicBool,
    /// The MMU reported a fault; the address space is off until a group on it starts again.
    faulted: AtomicBool,
    /// Whether reads of what the CPU has not flushed are errors.
    strict: bool,
    /// The tiler heaps.
    pub heaps: Mutex<Option<HeapPool>>,
}

static NEXT_SERIAL: AtomicU64 = AtomicU64::new(1);

impl Vm {
    /// Creates an address space of `va_bits` bits for a client that asks for `user_va_range` bytes (0: the driver
    /// chooses), as `panthor_vm_create_check_args` divides it.
    ///
    /// # Errors
    /// EINVAL where the driver's share would be too small.
    pub fn new(va_bits: u32, user_va_range: u64, strict: bool) -> Result<Self, Errno> {
        let full = 1_u64 << va_bits;
        let default = match () {
            () if full > TASK_SIZE => TASK_SIZE,
            () if full > 1 << 32 => full / 2,
            () => full - MIN_KERNEL_VA,
        };
        let wanted = if user_va_range == 0 {
            default
        } else {
            user_va_range
        };
        let user = wanted.min(full - MIN_KERNEL_VA);
        if user_va_range > user {
            return Err(Errno::INVAL);
        }
        let kernel_size = 1_u64 << (full - user).ilog2();
        Ok(Self {
            serial: NEXT_SERIAL.fetch_add(1, Ordering::Relaxed),
            kernel_va: full - kernel_size,
            end: full,
            maps: RwLock::default(),
            kernel_space: Mutex::new(KernelSpace::new(full - kernel_size, kernel_size)),
            generation: AtomicU64::new(0),
            unusable: AtomicBool::new(false),
            destroyed: AtomicBool::new(false),
            faulted: AtomicBool::new(false),
            strict,
            heaps: Mutex::default(),
        })
    }

    fn read(&self) -> RwLockReadGuard<'_, BTreeMap<u64, Vma>> {
        self.maps.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, BTreeMap<u64, Vma>> {
        // Every translation made before is void.
        self.generation.fetch_add(1, Ordering::Release);
        self.maps.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts the changes of the mappings: translations of an older generation are void.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Whether an asynchronous bind has failed.
    pub fn is_unusable(&self) -> bool {
        self.unusable.load(Ordering::Acquire)
    }

    /// Takes the address space out of use (`panthor_vm_declare_unusable`).
    pub fn declare_unusable(&self) {
        self.generation.fetch_add(1, Ordering::Release);
        self.unusable.store(true, Ordering::Release);
    }

    /// Whether the client has destroyed it.
    pub fn is_destroyed(&self) -> bool {
        self.destroyed.load(Ordering::Acquire)
    }

    /// Whether the MMU has reported a fault that no group has answered for (`panthor_vm_has_unhandled_faults`).
    pub fn has_unhandled_fault(&self) -> bool {
        self.faulted.load(Ordering::Acquire)
    }

    /// The MMU's interrupt: the address space is switched off (`panthor_mmu_irq_handler`).
    pub fn report_fault(&self) {
        self.faulted.store(true, Ordering::Release);
    }

    /// A group on it starts: the fault is over (`panthor_vm_active`).
    pub fn clear_fault(&self) {
        self.faulted.store(false, Ordering::Release);
    }

    /// Maps `size` bytes of `bo` from `offset` at `va`, over whatever was there.
    ///
    /// # Errors
    /// EINVAL for a range outside the address space.
    pub fn map(
        &self,
        va: u64,
        size: u64,
        bo: &Arc<Bo>,
        offset: u64,
        flags: u32,
    ) -> Result<(), Errno> {
        let end = va
            .checked_add(size)
            .filter(|&end| end <= self.end)
            .ok_or(Errno::INVAL)?;
        if size == 0 {
            return Ok(());
        }
        let mut maps = self.write();
        cut(&mut maps, va..end);
        maps.insert(
            va,
            Vma {
                end,
                bo: bo.clone(),
                offset,
                flags,
            },
        );
        Ok(())
    }

    /// Takes away whatever is mapped in the range.
    ///
    /// # Errors
    /// EINVAL for a range outside the address space.
    pub fn unmap(&self, va: u64, size: u64) -> Result<(), Errno> {
        let end = va
            .checked_add(size)
            .filter(|&end| end <= self.end)
            .ok_or(Errno::INVAL)?;
        if size > 0 {
            cut(&mut self.write(), va..end);
        }
        Ok(())
    }

    /// Drops every mapping: what is left of the address space after the client destroyed it.
    pub fn destroy(&self) {
        self.destroyed.store(true, Ordering::Release);
        *self.heaps.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.write().clear();
    }

    fn kernel_space(&self) -> MutexGuard<'_, KernelSpace> {
        self.kernel_space
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Maps an object of the driver's own at an address of its choice (`panthor_kernel_bo_create`).
    ///
    /// # Errors
    /// ENOMEM without memory, ENOSPC without addresses.
    pub fn map_kernel(&self, bo: &Arc<Bo>, flags: u32) -> Result<u64, Errno> {
        let align = if bo.size >= VM_LARGE_PAGE {
            VM_LARGE_PAGE
        } else {
            VM_PAGE
        };
        bo.pin()?;
        let va = self.kernel_space().take(bo.size, align)?;
        self.map(va, bo.size, bo, 0, flags)?;
        Ok(va)
    }

    /// Undoes [`Vm::map_kernel`].
    pub fn unmap_kernel(&self, va: u64, size: u64) {
        let _ = self.unmap(va, size);
        self.kernel_space().give_back(va);
    }

    /// Number of mappings.
    pub fn mapping_count(&self) -> usize {
        self.read().len()
    }

    /// The mappings as start, end, offset in the object and flags, in order (`gpuvas` of debugfs).
    pub fn mappings(&self) -> Vec<(u64, u64, u64, u32)> {
        self.read()
            .iter()
            .map(|(&start, vma)| (start, vma.end, vma.offset, vma.flags))
            .collect()
    }

    /// The object and its offset at `va`.
    pub fn lookup(&self, va: u64) -> Option<(Arc<Bo>, u64)> {
        let maps = self.read();
        let (&start, vma) = maps
            .range(..=va)
            .next_back()
            .filter(|(_, vma)| va < vma.end)?;
        Some((vma.bo.clone(), vma.offset_at(start, va)))
    }
}

impl Vma {
    fn offset_at(&self, start: u64, va: u64) -> u64 {
        if self.flags & MAP_SPARSE != 0 {
            va & (VM_LARGE_PAGE - 1)
        } else {
            self.offset + (va - start)
        }
    }
}

/// Takes `range` out of the mappings, splitting those that reach beyond it (`drm_gpuvm_sm_unmap`).
fn cut(maps: &mut BTreeMap<u64, Vma>, range: Range<u64>) {
    let first = maps
        .range(..range.start)
        .next_back()
        .filter(|(_, vma)| vma.end > range.start)
        .map(|(&va, _)| va);
    let inside: Vec<u64> = first
        .into_iter()
        .chain(maps.range(range.clone()).map(|(&va, _)| va))
        .collect();
    for start in inside {
        let Some(vma) = maps.remove(&start) else {
            continue;
        };
        if start < range.start {
            maps.insert(
                start,
                Vma {
                    end: range.start,
                    ..vma.clone()
                },
            );
        }
        if vma.end > range.end {
            let offset = vma.offset_at(start, range.end);
            maps.insert(range.end, Vma { offset, ..vma });
        }
    }
}

// SAFETY: a mapping holds its buffer object, whose block keeps its host view; when the last owner of a block is gone, its
// view is unmapped only after `Gpu::release` has dropped it from the caches (`Ram::bury`). Its CPU side is accessed by
// atomics (`ram.rs`) and by the client's own mapping, which the client accesses as it accesses a real GPU's memory.
unsafe impl AddressSpace for Vm {
    fn translate(&self, va: u64, access: Access) -> Result<Page, MmuFault> {
        let fault = |kind| MmuFault { va, access, kind };
        if self.is_unusable() || self.has_unhandled_fault() {
            // The driver has switched the address space off.
            return Err(fault(MmuFaultKind::Translation));
        }
        let maps = self.read();
        let Some((&start, vma)) = maps
            .range(..=va)
            .next_back()
            .filter(|(_, vma)| va < vma.end)
        else {
            return Err(fault(MmuFaultKind::Translation));
        };
        let (writable, executable) = (vma.flags & MAP_READONLY == 0, vma.flags & MAP_NOEXEC == 0);
        match access {
            Access::Write if !writable => return Err(fault(MmuFaultKind::Permission)),
            Access::Execute if !executable => return Err(fault(MmuFaultKind::Permission)),
            _ => {}
        }
        let page_va = va & !(VM_PAGE - 1);
        let offset = vma.offset_at(start, page_va);
        let Ok(host) = vma.bo.memory().host() else {
            return Err(fault(MmuFaultKind::Translation));
        };
        let cpu_dirty = if self.strict {
            vma.bo.cpu_dirty(offset)
        } else {
            0
        };
        // SAFETY: the mapping lies inside its object (checked when it was bound), so the offset is inside the view.
        let host: NonNull<u8> = unsafe { host.add(offset as usize) };
        Ok(Page {
            host,
            size: VM_PAGE,
            writable,
            executable,
            uncached: vma.flags & MAP_UNCACHED != 0,
            cpu_dirty,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kmd::options::Kernel;
    use crate::kmd::ram::Ram;

    fn bo(size: u64) -> Arc<Bo> {
        let ram = Ram::new(64 << 20).unwrap();
        let bo = Bo::new(&ram, &Arc::default(), Kernel::V7_2, size, 0, None).unwrap();
        for page in 0..size / VM_PAGE {
            bo.memory().write(page * VM_PAGE, &[page as u8]).unwrap();
        }
        Arc::new(bo)
    }

    fn first_byte(vm: &Vm, va: u64) -> Option<u8> {
        let page = vm.translate(va, Access::Read).ok()?;
        // SAFETY: the page is mapped as long as `vm` holds its object.
        Some(unsafe {
            page.host
                .as_ptr()
                .add((va % page.size) as usize)
                .read_volatile()
        })
    }

    #[test]
    fn address_space_is_divided_as_the_driver_does() {
        for (bits, user, expected) in [
            (48, 0, Ok(1 << 47)),
            (48, 1 << 32, Ok(1 << 47)),
            (48, (1 << 47) + 4096, Ok((1 << 47) + (1 << 46))),
            (48, (1 << 48) - (256 << 20), Ok((1 << 48) - (256 << 20))),
            (48, (1 << 48) - (256 << 20) + 1, Err(Errno::INVAL)),
            (48, u64::MAX, Err(Errno::INVAL)),
            (32, 0, Ok((1 << 32) - (256 << 20))),
            (33, 0, Ok(1 << 32)),
        ] {
            assert_eq!(
                Vm::new(bits, user, true).map(|vm| vm.kernel_va),
                expected,
                "{bits} bits, {user:#x}"
            );
        }
    }

    #[test]
    fn overlapping_binds_split_what_they_meet() {
        let vm = Vm::new(48, 0, true).unwrap();
        let (a, b) = (bo(8 * VM_PAGE), bo(8 * VM_PAGE));
        vm.map(0x10000, 8 * VM_PAGE, &a, 0, 0).unwrap();
        vm.map(0x12000, 2 * VM_PAGE, &b, 5 * VM_PAGE, MAP_READONLY)
            .unwrap();
        let expected = [
            (0x10000, 0x12000, 0, 0),
            (0x12000, 0x14000, 5 * VM_PAGE, MAP_READONLY),
            (0x14000, 0x18000, 0x4000, 0),
        ];
        assert_eq!(vm.mappings(), expected);
        let bytes: Vec<_> = (0..8)
            .map(|page| first_byte(&vm, 0x10000 + page * VM_PAGE).unwrap())
            .collect();
        assert_eq!(bytes, [0, 1, 5, 6, 4, 5, 6, 7]);
        vm.unmap(0x11000, 4 * VM_PAGE).unwrap();
        assert_eq!(
            vm.mappings(),
            [(0x10000, 0x11000, 0, 0), (0x15000, 0x18000, 0x5000, 0)]
        );
        assert_eq!(first_byte(&vm, 0x12000), None);
        assert_eq!(Arc::strong_count(&b), 1);
        vm.unmap(0, 1 << 47).unwrap();
        assert_eq!((vm.mapping_count(), Arc::strong_count(&a)), (0, 1));
    }

    #[test]
    fn access_is_checked() {
        let vm = Vm::new(48, 0, true).unwrap();
        vm.map(
            0x1000,
            VM_PAGE,
            &bo(VM_PAGE),
            0,
            MAP_READONLY | MAP_NOEXEC | MAP_UNCACHED,
        )
        .unwrap();
        let page = vm.translate(0x1234, Access::Read).unwrap();
        assert!(!page.writable && !page.executable && page.uncached);
        for access in [Access::Write, Access::Execute] {
            let fault = MmuFault {
                va: 0x1ffc,
                access,
                kind: MmuFaultKind::Permission,
            };
            assert_eq!(vm.translate(0x1ffc, access).unwrap_err(), fault);
        }
        assert_eq!(
            vm.translate(0x2000, Access::Read).unwrap_err().kind,
            MmuFaultKind::Translation
        );
        vm.declare_unusable();
        assert_eq!(
            vm.translate(0x1000, Access::Read).unwrap_err().kind,
            MmuFaultKind::Translation
        );
    }

    #[test]
    fn kernel_objects_find_room_behind_the_users() {
        let vm = Vm::new(32, 0, true).unwrap();
        let small = bo(VM_PAGE);
        let first = vm.map_kernel(&small, 0).unwrap();
        let second = vm.map_kernel(&small, 0).unwrap();
        assert_eq!((first, second), (vm.kernel_va, vm.kernel_va + VM_PAGE));
        let large = vm.map_kernel(&bo(VM_LARGE_PAGE), 0).unwrap();
        assert_eq!(large % VM_LARGE_PAGE, 0);
        vm.unmap_kernel(first, VM_PAGE);
        assert_eq!(vm.map_kernel(&small, 0).unwrap(), first);
    }
}
