//! What the device says of itself (`DEV_QUERY`).
//!
//! The values are those of [`crate::model`].

use mali_isa::csf::{KERNEL_REGISTERS, REGISTERS, SCOREBOARDS};
use panthor_uapi::Errno;
use panthor_uapi::sys::panthor::*;
use zerocopy::IntoBytes;

use super::options::Options;
use super::user;
use super::vm::{VM_LARGE_PAGE, VM_PAGE};
use super::world::{IOCTL_NS, World};
use crate::csf::TIMESTAMP_HZ;
use crate::model::{self, CS_SLOTS, CSG_SLOTS};
use crate::shader::{THREADS_PER_CORE, WORKGROUP_THREADS};

const TIMESTAMP_GPU: u32 = 1 << 0;
const TIMESTAMP_CPU_TYPE_MASK: u32 = 7 << 1;
const TIMESTAMP_CPU_MONOTONIC_RAW: u32 = 2 << 1;
const TIMESTAMP_GPU_OFFSET: u32 = 1 << 4;
const TIMESTAMP_GPU_CYCLE_COUNT: u32 = 1 << 5;
const TIMESTAMP_FREQ: u32 = 1 << 6;
const TIMESTAMP_DURATION: u32 = 1 << 7;

/// `DRM_PANTHOR_DEV_QUERY_GPU_INFO`.
pub fn gpu_info(options: &Options) -> drm_panthor_gpu_info {
    drm_panthor_gpu_info {
        gpu_id: model::GPU_ID,
        gpu_rev: model::GPU_REV,
        csf_id: model::CSF_ID,
        l2_features: model::L2_FEATURES,
        tiler_features: model::TILER_FEATURES,
        mem_features: model::MEM_FEATURES,
        mmu_features: model::mmu_features(options.va_bits),
        thread_features: model::THREAD_FEATURES,
        max_threads: THREADS_PER_CORE,
        thread_max_workgroup_size: WORKGROUP_THREADS,
        thread_max_barrier_size: WORKGROUP_THREADS,
        coherency_features: model::COHERENCY_FEATURES,
        texture_features: [model::TEXTURE_FEATURES; 4],
        as_present: model::AS_PRESENT,
        // 6.12 has a padding field of zeros here.
        selected_coherency: if options.kernel.is_7x() {
            DRM_PANTHOR_GPU_COHERENCY_NONE
        } else {
            0
        },
        shader_present: model::shader_present(options.cores),
        l2_present: model::L2_PRESENT,
        tiler_present: model::TILER_PRESENT,
        core_features: model::CORE_FEATURES,
        pad: 0,
        gpu_features: model::GPU_FEATURES,
    }
}

/// Bytes of the kernel's own `struct drm_panthor_gpu_info`: 6.12 ends before `gpu_features`.
pub fn gpu_info_size(options: &Options) -> usize {
    let whole = size_of::<drm_panthor_gpu_info>();
    if options.kernel.is_7x() {
        whole
    } else {
        whole - size_of::<u64>()
    }
}

/// `DRM_PANTHOR_DEV_QUERY_CSIF_INFO`.
pub fn csif_info() -> drm_panthor_csif_info {
    drm_panthor_csif_info {
        csg_slot_count: CSG_SLOTS,
        cs_slot_count: CS_SLOTS,
        cs_reg_count: REGISTERS.into(),
        scoreboard_slot_count: SCOREBOARDS.into(),
        unpreserved_cs_reg_count: KERNEL_REGISTERS.into(),
        pad: 0,
    }
}

/// `DRM_PANTHOR_DEV_QUERY_MMU_INFO`.
pub fn mmu_info() -> drm_panthor_mmu_info {
    drm_panthor_mmu_info {
        page_size_bitmap: VM_PAGE | VM_LARGE_PAGE,
    }
}

impl World {
    // ---- DEV_QUERY

    pub fn dev_query(&mut self, args: &mut drm_panthor_dev_query) -> Result<(), Errno> {
        let minor = self.options.kernel.minor();
        let known = match args.r#type {
            DRM_PANTHOR_DEV_QUERY_GPU_INFO | DRM_PANTHOR_DEV_QUERY_CSIF_INFO => true,
            DRM_PANTHOR_DEV_QUERY_TIMESTAMP_INFO => minor >= 1,
            DRM_PANTHOR_DEV_QUERY_GROUP_PRIORITIES_INFO => minor >= 2,
            DRM_PANTHOR_DEV_QUERY_MMU_INFO => minor >= 9,
            _ => false,
        };
        if !known {
            return Err(Errno::INVAL);
        }
        // Bytes of the kernel's struct, and the least that it takes.
        let (size, least) = match args.r#type {
            DRM_PANTHOR_DEV_QUERY_GPU_INFO => {
                let end =
                    std::mem::offset_of!(drm_panthor_gpu_info, tiler_present) + size_of::<u64>();
                (gpu_info_size(&self.options), end)
            }
            DRM_PANTHOR_DEV_QUERY_CSIF_INFO => (
                size_of::<drm_panthor_csif_info>(),
                size_of::<drm_panthor_csif_info>(),
            ),
            DRM_PANTHOR_DEV_QUERY_TIMESTAMP_INFO => (
                size_of::<drm_panthor_timestamp_info>(),
                std::mem::offset_of!(drm_panthor_timestamp_info, timestamp_offset),
            ),
            DRM_PANTHOR_DEV_QUERY_GROUP_PRIORITIES_INFO => {
                (size_of::<drm_panthor_group_priorities_info>(), 4)
            }
            _ => (
                size_of::<drm_panthor_mmu_info>(),
                size_of::<drm_panthor_mmu_info>(),
            ),
        };
        if args.pointer == 0 {
            args.size = size as u32;
            return Ok(());
        }
        let bytes = match args.r#type {
            DRM_PANTHOR_DEV_QUERY_GPU_INFO => gpu_info(&self.options).as_bytes().to_vec(),
            DRM_PANTHOR_DEV_QUERY_CSIF_INFO => csif_info().as_bytes().to_vec(),
            DRM_PANTHOR_DEV_QUERY_TIMESTAMP_INFO => {
                let mut info = drm_panthor_timestamp_info::default();
                user::read_struct(args.pointer, u64::from(args.size), info.as_mut_bytes())?;
                self.timestamp(&mut info)?;
                info.as_bytes().to_vec()
            }
            DRM_PANTHOR_DEV_QUERY_GROUP_PRIORITIES_INFO => {
                let allowed = (0..=PANTHOR_GROUP_PRIORITY_REALTIME)
                    .filter(|&priority| self.permit(priority).is_ok());
                let allowed_mask = allowed.fold(0, |mask, priority| mask | 1 << priority);
                drm_panthor_group_priorities_info {
                    allowed_mask,
                    pad: [0; 3],
                }
                .as_bytes()
                .to_vec()
            }
            _ => mmu_info().as_bytes().to_vec(),
        };
        set_user_object(args.pointer, args.size, least, &bytes[..size])
    }

    pub fn timestamp(&self, info: &mut drm_panthor_timestamp_info) -> Result<(), Errno> {
        let flags = match info.flags {
            0 => TIMESTAMP_GPU | TIMESTAMP_GPU_OFFSET | TIMESTAMP_FREQ,
            flags => flags,
        };
        let known = TIMESTAMP_GPU
            | TIMESTAMP_CPU_TYPE_MASK
            | TIMESTAMP_GPU_OFFSET
            | TIMESTAMP_GPU_CYCLE_COUNT
            | TIMESTAMP_FREQ
            | TIMESTAMP_DURATION;
        let cpu = flags & TIMESTAMP_CPU_TYPE_MASK;
        if cpu > TIMESTAMP_CPU_MONOTONIC_RAW || flags & !known != 0 {
            return Err(Errno::INVAL);
        }
        let when = |flag: u32, value: u64| if flags & flag != 0 { value } else { 0 };
        let ticks = (u128::from(self.now) * u128::from(TIMESTAMP_HZ) / 1_000_000_000) as u64;
        info.timestamp_frequency = when(TIMESTAMP_FREQ, TIMESTAMP_HZ);
        info.timestamp_offset = 0;
        info.current_timestamp = when(TIMESTAMP_GPU, ticks);
        info.cycle_count = when(
            TIMESTAMP_GPU_CYCLE_COUNT,
            (self.now as f64 * self.options.gpu_mhz / 1000.0) as u64,
        );
        info.duration_nsec = when(TIMESTAMP_DURATION, IOCTL_NS) as u32;
        info.cpu_timestamp_sec = when(TIMESTAMP_CPU_TYPE_MASK, self.now / 1_000_000_000);
        info.cpu_timestamp_nsec = when(TIMESTAMP_CPU_TYPE_MASK, self.now % 1_000_000_000);
        Ok(())
    }
}

/// `panthor_set_uobj`.
fn set_user_object(pointer: u64, user_size: u32, least: usize, bytes: &[u8]) -> Result<(), Errno> {
    let user_size = user_size as usize;
    if user_size < least {
        return Err(Errno::INVAL);
    }
    user::write(pointer, &bytes[..user_size.min(bytes.len())])?;
    if user_size > bytes.len() {
        user::clear(
            pointer.wrapping_add(bytes.len() as u64),
            (user_size - bytes.len()) as u64,
        )?;
    }
    Ok(())
}
