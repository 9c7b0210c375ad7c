//! The panthor driver's own ioctls, uAPI 1.0 to 1.9 (`include/uapi/drm/panthor_drm.h`).
//!
//! Where nothing else is said a field exists since 1.0, pads are zero and handles are nonzero.

use super::drm::{DRM_COMMAND_BASE, DRM_IOCTL_BASE};
use super::layout::Constant;
use super::{kernel_structs, requests};

/// `DRM_PANTHOR_USER_MMIO_OFFSET_32BIT`: where user MMIO pages are mapped by a process with 32-bit `unsigned long`.
pub const DRM_PANTHOR_USER_MMIO_OFFSET_32BIT: u64 = 1 << 43;
/// `DRM_PANTHOR_USER_MMIO_OFFSET_64BIT`: where user MMIO pages are mapped by a process with 64-bit `unsigned long`.
pub const DRM_PANTHOR_USER_MMIO_OFFSET_64BIT: u64 = 1 << 56;
/// `DRM_PANTHOR_USER_MMIO_OFFSET` for this build.
pub const DRM_PANTHOR_USER_MMIO_OFFSET: u64 = if size_of::<usize>() < 8 {
    DRM_PANTHOR_USER_MMIO_OFFSET_32BIT
} else {
    DRM_PANTHOR_USER_MMIO_OFFSET_64BIT
};
/// `DRM_PANTHOR_USER_FLUSH_ID_MMIO_OFFSET`: the page whose first word is LATEST_FLUSH_ID.
pub const DRM_PANTHOR_USER_FLUSH_ID_MMIO_OFFSET: u64 = DRM_PANTHOR_USER_MMIO_OFFSET;

/// Type of `drm_panthor_dev_query`: [`drm_panthor_gpu_info`].
pub const DRM_PANTHOR_DEV_QUERY_GPU_INFO: u32 = 0;
/// Type of `drm_panthor_dev_query`: [`drm_panthor_csif_info`].
pub const DRM_PANTHOR_DEV_QUERY_CSIF_INFO: u32 = 1;
/// Type of `drm_panthor_dev_query`: [`drm_panthor_timestamp_info`]. Since 1.1.
pub const DRM_PANTHOR_DEV_QUERY_TIMESTAMP_INFO: u32 = 2;
/// Type of `drm_panthor_dev_query`: [`drm_panthor_group_priorities_info`]. Since 1.2.
pub const DRM_PANTHOR_DEV_QUERY_GROUP_PRIORITIES_INFO: u32 = 3;
/// Type of `drm_panthor_dev_query`: [`drm_panthor_mmu_info`]. Since 1.9.
pub const DRM_PANTHOR_DEV_QUERY_MMU_INFO: u32 = 4;

/// Value of `selected_coherency`: ACE Lite.
pub const DRM_PANTHOR_GPU_COHERENCY_ACE_LITE: u32 = 0;
/// Value of `selected_coherency`: ACE.
pub const DRM_PANTHOR_GPU_COHERENCY_ACE: u32 = 1;
/// Value of `selected_coherency`: none.
pub const DRM_PANTHOR_GPU_COHERENCY_NONE: u32 = 31;

/// Value of `drm_panthor_vm_get_state::state`: new operations are accepted.
pub const DRM_PANTHOR_VM_STATE_USABLE: u32 = 0;
/// Value of `drm_panthor_vm_get_state::state`: only unmaps are accepted; the VM must be replaced.
pub const DRM_PANTHOR_VM_STATE_UNUSABLE: u32 = 1;

/// Value of `drm_panthor_group_create::priority`: low.
pub const PANTHOR_GROUP_PRIORITY_LOW: u8 = 0;
/// Value of `drm_panthor_group_create::priority`: medium, the default.
pub const PANTHOR_GROUP_PRIORITY_MEDIUM: u8 = 1;
/// Value of `drm_panthor_group_create::priority`: high; needs CAP_SYS_NICE or DRM master.
pub const PANTHOR_GROUP_PRIORITY_HIGH: u8 = 2;
/// Value of `drm_panthor_group_create::priority`: realtime; needs CAP_SYS_NICE or DRM master. Since 1.2.
pub const PANTHOR_GROUP_PRIORITY_REALTIME: u8 = 3;

/// Value of `drm_panthor_bo_sync_op::type`: write the CPU's caches back.
pub const DRM_PANTHOR_BO_SYNC_CPU_CACHE_FLUSH: u32 = 0;
/// Value of `drm_panthor_bo_sync_op::type`: write the CPU's caches back and drop them.
pub const DRM_PANTHOR_BO_SYNC_CPU_CACHE_FLUSH_AND_INVALIDATE: u32 = 1;

kernel_structs! {
    /// An array of objects that newer kernels may know longer.
    pub struct drm_panthor_obj_array {
        /// Size in bytes of one object as this side knows it.
        pub stride: u32,
        /// Number of objects.
        pub count: u32,
        /// User pointer to the first.
        pub array: u64,
    }

    /// Waits for or signals a syncobj.
    pub struct drm_panthor_sync_op {
        /// [`SyncOpFlags`].
        pub flags: u32,
        /// The syncobj.
        pub handle: u32,
        /// The point of a timeline syncobj; zero for a binary one.
        pub timeline_value: u64,
    }

    /// GPU information.
    pub struct drm_panthor_gpu_info {
        /// GPU_ID register: architecture, product, version.
        pub gpu_id: u32,
        /// REVIDR register.
        pub gpu_rev: u32,
        /// CSF_ID register.
        pub csf_id: u32,
        /// L2_FEATURES register.
        pub l2_features: u32,
        /// TILER_FEATURES register.
        pub tiler_features: u32,
        /// MEM_FEATURES register.
        pub mem_features: u32,
        /// MMU_FEATURES register; bits 7:0 are the VA bits.
        pub mmu_features: u32,
        /// THREAD_FEATURES register.
        pub thread_features: u32,
        /// Maximum number of threads of a core.
        pub max_threads: u32,
        /// Maximum number of threads of a workgroup.
        pub thread_max_workgroup_size: u32,
        /// Maximum number of threads that can wait on a barrier.
        pub thread_max_barrier_size: u32,
        /// COHERENCY_FEATURES register: what the GPU could do.
        pub coherency_features: u32,
        /// TEXTURE_FEATURES registers.
        pub texture_features: [u32; 4],
        /// Mask of address spaces.
        pub as_present: u32,
        /// `DRM_PANTHOR_GPU_COHERENCY_*`: what is in place. Since 1.7; a zero pad before, which would read as ACE Lite.
        pub selected_coherency: u32,
        /// Mask of shader cores.
        pub shader_present: u64,
        /// Mask of L2 caches.
        pub l2_present: u64,
        /// Mask of tilers.
        pub tiler_present: u64,
        /// CORE_FEATURES register.
        pub core_features: u32,
        /// Zero.
        pub pad: u32,
        /// GPU_FEATURES register. Longer than 6.12's struct.
        pub gpu_features: u64,
    }

    /// Command-stream interface information.
    pub struct drm_panthor_csif_info {
        /// Number of group slots.
        pub csg_slot_count: u32,
        /// Number of queues of a group.
        pub cs_slot_count: u32,
        /// Number of command-stream registers.
        pub cs_reg_count: u32,
        /// Number of scoreboard entries.
        pub scoreboard_slot_count: u32,
        /// Number of registers, from the last down, that the kernel overwrites at every submission.
        pub unpreserved_cs_reg_count: u32,
        /// Zero.
        pub pad: u32,
    }

    /// Timestamps. Since 1.1 (the first three fields), the rest since 1.8.
    pub struct drm_panthor_timestamp_info {
        /// Frequency in Hz, 0 if unknown.
        pub timestamp_frequency: u64,
        /// GPU time.
        pub current_timestamp: u64,
        /// Offset of the GPU's timer.
        pub timestamp_offset: u64,
        /// In: [`TimestampFlags`], 0 for the three fields above. Since 1.8.
        pub flags: u32,
        /// How long the query took, in nanoseconds. Since 1.8.
        pub duration_nsec: u32,
        /// GPU_CYCLE_COUNT. Since 1.8.
        pub cycle_count: u64,
        /// CPU time, seconds. Since 1.8.
        pub cpu_timestamp_sec: u64,
        /// CPU time, nanoseconds. Since 1.8.
        pub cpu_timestamp_nsec: u64,
    }

    /// MMU information. Since 1.9.
    pub struct drm_panthor_mmu_info {
        /// Mask of page sizes: bit n is 2^n bytes.
        pub page_size_bitmap: u64,
    }

    /// Which group priorities this process may use. Since 1.2.
    pub struct drm_panthor_group_priorities_info {
        /// Bit n: priority n.
        pub allowed_mask: u8,
        /// Zero.
        pub pad: [u8; 3],
    }

    /// Argument of DEV_QUERY.
    pub struct drm_panthor_dev_query {
        /// `DRM_PANTHOR_DEV_QUERY_*`.
        pub r#type: u32,
        /// In: room at `pointer`. Out: bytes written, or the kernel's size if `pointer` is null.
        pub size: u32,
        /// User pointer to the struct of this type, or null.
        pub pointer: u64,
    }

    /// Argument of VM_CREATE.
    pub struct drm_panthor_vm_create {
        /// Zero.
        pub flags: u32,
        /// Out: the VM.
        pub id: u32,
        /// In: size of the user's part of the address space, 0 for the kernel's choice. Out: the size in place.
        pub user_va_range: u64,
    }

    /// Argument of VM_DESTROY.
    pub struct drm_panthor_vm_destroy {
        /// The VM.
        pub id: u32,
        /// Zero.
        pub pad: u32,
    }

    /// One operation of VM_BIND.
    pub struct drm_panthor_vm_bind_op {
        /// [`VmBindOpFlags`].
        pub flags: u32,
        /// The BO to map; zero for the others.
        pub bo_handle: u32,
        /// Offset in the BO; zero for the others.
        pub bo_offset: u64,
        /// GPU address; zero for sync-only.
        pub va: u64,
        /// Bytes; zero for sync-only.
        pub size: u64,
        /// Array of [`drm_panthor_sync_op`]; empty unless the bind is asynchronous.
        pub syncs: drm_panthor_obj_array,
    }

    /// Argument of VM_BIND.
    pub struct drm_panthor_vm_bind {
        /// The VM.
        pub vm_id: u32,
        /// [`VmBindFlags`].
        pub flags: u32,
        /// Array of [`drm_panthor_vm_bind_op`].
        pub ops: drm_panthor_obj_array,
    }

    /// Argument of VM_GET_STATE.
    pub struct drm_panthor_vm_get_state {
        /// The VM.
        pub vm_id: u32,
        /// Out: `DRM_PANTHOR_VM_STATE_*`.
        pub state: u32,
    }

    /// Argument of BO_CREATE.
    pub struct drm_panthor_bo_create {
        /// In: wanted bytes. Out: bytes, rounded up to pages.
        pub size: u64,
        /// [`BoFlags`].
        pub flags: u32,
        /// The only VM that will map it, or 0.
        pub exclusive_vm_id: u32,
        /// Out: the handle.
        pub handle: u32,
        /// Zero.
        pub pad: u32,
    }

    /// Argument of BO_MMAP_OFFSET.
    pub struct drm_panthor_bo_mmap_offset {
        /// The BO.
        pub handle: u32,
        /// Zero.
        pub pad: u32,
        /// Out: the offset for mmap.
        pub offset: u64,
    }

    /// One queue of a new group.
    pub struct drm_panthor_queue_create {
        /// 0 to 15, 15 the highest.
        pub priority: u8,
        /// Zero.
        pub pad: [u8; 3],
        /// Bytes of the ring buffer, a power of two from 4 KiB to 64 KiB.
        pub ringbuf_size: u32,
    }

    /// Argument of GROUP_CREATE.
    pub struct drm_panthor_group_create {
        /// Array of [`drm_panthor_queue_create`].
        pub queues: drm_panthor_obj_array,
        /// Most cores for compute, at most the bits in `compute_core_mask`.
        pub max_compute_cores: u8,
        /// Most cores for fragments, at most the bits in `fragment_core_mask`.
        pub max_fragment_cores: u8,
        /// Most tilers, at most the bits in `tiler_core_mask`.
        pub max_tiler_cores: u8,
        /// `PANTHOR_GROUP_PRIORITY_*`.
        pub priority: u8,
        /// Zero.
        pub pad: u32,
        /// Cores for compute, within `shader_present`.
        pub compute_core_mask: u64,
        /// Cores for fragments, within `shader_present`.
        pub fragment_core_mask: u64,
        /// Tilers, within `tiler_present`.
        pub tiler_core_mask: u64,
        /// The VM of all its jobs.
        pub vm_id: u32,
        /// Out: the group.
        pub group_handle: u32,
    }

    /// Argument of GROUP_DESTROY.
    pub struct drm_panthor_group_destroy {
        /// The group.
        pub group_handle: u32,
        /// Zero.
        pub pad: u32,
    }

    /// One job of GROUP_SUBMIT.
    pub struct drm_panthor_queue_submit {
        /// Index of the queue in the group.
        pub queue_index: u32,
        /// Bytes of the command stream, a multiple of 8; 0 with `stream_addr` 0 for a synchronisation point.
        pub stream_size: u32,
        /// GPU address of the command stream, a multiple of 64.
        pub stream_addr: u64,
        /// LATEST_FLUSH_ID when the stream was built; 0 flushes in any case.
        pub latest_flush: u32,
        /// Zero.
        pub pad: u32,
        /// Array of [`drm_panthor_sync_op`].
        pub syncs: drm_panthor_obj_array,
    }

    /// Argument of GROUP_SUBMIT.
    pub struct drm_panthor_group_submit {
        /// The group.
        pub group_handle: u32,
        /// Zero.
        pub pad: u32,
        /// Array of [`drm_panthor_queue_submit`].
        pub queue_submits: drm_panthor_obj_array,
    }

    /// Argument of GROUP_GET_STATE.
    pub struct drm_panthor_group_get_state {
        /// The group.
        pub group_handle: u32,
        /// Out: [`GroupStateFlags`].
        pub state: u32,
        /// Out: mask of queues with fatal faults.
        pub fatal_queues: u32,
        /// Zero.
        pub pad: u32,
    }

    /// Argument of TILER_HEAP_CREATE.
    pub struct drm_panthor_tiler_heap_create {
        /// The VM.
        pub vm_id: u32,
        /// Chunks at the start, at least 1.
        pub initial_chunk_count: u32,
        /// Bytes of a chunk, whole pages, 128 KiB to 8 MiB.
        pub chunk_size: u32,
        /// Most chunks.
        pub max_chunks: u32,
        /// Most render passes in flight.
        pub target_in_flight: u32,
        /// Out: the heap.
        pub handle: u32,
        /// Out: GPU address of the heap's context.
        pub tiler_heap_ctx_gpu_va: u64,
        /// Out: GPU address of the first chunk.
        pub first_heap_chunk_gpu_va: u64,
    }

    /// Argument of TILER_HEAP_DESTROY.
    pub struct drm_panthor_tiler_heap_destroy {
        /// The heap.
        pub handle: u32,
        /// Zero.
        pub pad: u32,
    }

    /// Argument of BO_SET_LABEL. Since 1.4.
    pub struct drm_panthor_bo_set_label {
        /// The BO.
        pub handle: u32,
        /// Zero.
        pub pad: u32,
        /// User pointer to a NUL-terminated string.
        pub label: u64,
    }

    /// Argument of SET_USER_MMIO_OFFSET. Since 1.5.
    pub struct drm_panthor_set_user_mmio_offset {
        /// `DRM_PANTHOR_USER_MMIO_OFFSET_32BIT` or `_64BIT`.
        pub offset: u64,
    }

    /// One operation of BO_SYNC. Since 1.7.
    pub struct drm_panthor_bo_sync_op {
        /// The BO.
        pub handle: u32,
        /// `DRM_PANTHOR_BO_SYNC_*`.
        pub r#type: u32,
        /// First byte, rounded down to a cache line.
        pub offset: u64,
        /// Bytes; the end is rounded up to a cache line.
        pub size: u64,
    }

    /// Argument of BO_SYNC. Since 1.7.
    pub struct drm_panthor_bo_sync {
        /// Array of [`drm_panthor_bo_sync_op`].
        pub ops: drm_panthor_obj_array,
    }

    /// Argument of BO_QUERY_INFO. Since 1.7.
    pub struct drm_panthor_bo_query_info {
        /// The BO.
        pub handle: u32,
        /// Out: [`BoExtraFlags`].
        pub extra_flags: u32,
        /// Out: [`BoFlags`] of its creation; zero if it comes from another driver.
        pub create_flags: u32,
        /// Zero.
        pub pad: u32,
    }
}

/// Defines a flag type per kernel enum, and [`CONSTANTS`] with the numbers under their C names.
macro_rules! flags {
    ($( $(#[$meta:meta])* $type:ident { $( $(# $fattr:tt)* $flag:ident = $value:expr, $cname:literal; )* } )*) => {
        bitflags::bitflags! {
            $(
                $(#[$meta])*
                #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
                pub struct $type: u32 { $( $(# $fattr)* const $flag = $value; )* }
            )*
        }

        /// The flags of this file under their C names.
        const FLAGS: &[Constant] =
            &[ $( $( Constant { name: $cname, value: $type::$flag.bits() as u64 }, )* )* ];
    };
}

flags! {
    /// Flags of `drm_panthor_sync_op`. No flag: wait for a binary syncobj.
    SyncOpFlags {
        /// The handle is a timeline syncobj (handle type 1 of the mask 0xff; 0 is a binary syncobj).
        TIMELINE_SYNCOBJ = 1, "DRM_PANTHOR_SYNC_OP_HANDLE_TYPE_TIMELINE_SYNCOBJ";
        /// Signal instead of wait.
        SIGNAL = 1 << 31, "DRM_PANTHOR_SYNC_OP_SIGNAL";
    }

    /// Flags of the timestamp query. Since 1.8.
    TimestampFlags {
        /// GPU time.
        GPU = 1 << 0, "DRM_PANTHOR_TIMESTAMP_GPU";
        /// CPU time, CLOCK_MONOTONIC.
        CPU_MONOTONIC = 1 << 1, "DRM_PANTHOR_TIMESTAMP_CPU_MONOTONIC";
        /// CPU time, CLOCK_MONOTONIC_RAW.
        CPU_MONOTONIC_RAW = 2 << 1, "DRM_PANTHOR_TIMESTAMP_CPU_MONOTONIC_RAW";
        /// The room for the CPU clock's type.
        CPU_TYPE_MASK = 7 << 1, "DRM_PANTHOR_TIMESTAMP_CPU_TYPE_MASK";
        /// GPU timer offset.
        GPU_OFFSET = 1 << 4, "DRM_PANTHOR_TIMESTAMP_GPU_OFFSET";
        /// GPU cycle count.
        GPU_CYCLE_COUNT = 1 << 5, "DRM_PANTHOR_TIMESTAMP_GPU_CYCLE_COUNT";
        /// Timer frequency.
        FREQ = 1 << 6, "DRM_PANTHOR_TIMESTAMP_FREQ";
        /// Duration of the query.
        DURATION = 1 << 7, "DRM_PANTHOR_TIMESTAMP_DURATION";
    }

    /// Flags of `drm_panthor_vm_bind_op`. No type flag: map.
    VmBindOpFlags {
        /// Map read-only.
        MAP_READONLY = 1 << 0, "DRM_PANTHOR_VM_BIND_OP_MAP_READONLY";
        /// Map not executable.
        MAP_NOEXEC = 1 << 1, "DRM_PANTHOR_VM_BIND_OP_MAP_NOEXEC";
        /// Map uncached.
        MAP_UNCACHED = 1 << 2, "DRM_PANTHOR_VM_BIND_OP_MAP_UNCACHED";
        /// Map a dummy over the whole range; needs `MAP_NOEXEC`. Since 1.9.
        MAP_SPARSE = 1 << 3, "DRM_PANTHOR_VM_BIND_OP_MAP_SPARSE";
        /// Unmap.
        TYPE_UNMAP = 1 << 28, "DRM_PANTHOR_VM_BIND_OP_TYPE_UNMAP";
        /// A synchronisation point of an asynchronous bind.
        TYPE_SYNC_ONLY = 2 << 28, "DRM_PANTHOR_VM_BIND_OP_TYPE_SYNC_ONLY";
        /// The room for the type.
        TYPE_MASK = 0xf << 28, "DRM_PANTHOR_VM_BIND_OP_TYPE_MASK";
    }

    /// Flags of `drm_panthor_vm_bind`.
    VmBindFlags {
        /// Queue the operations instead of running them before the ioctl returns.
        ASYNC = 1 << 0, "DRM_PANTHOR_VM_BIND_ASYNC";
    }

    /// Flags of `drm_panthor_bo_create`.
    BoFlags {
        /// Never mapped by the CPU.
        NO_MMAP = 1 << 0, "DRM_PANTHOR_BO_NO_MMAP";
        /// CPU mappings are write-back cached and need BO_SYNC. Since 1.7.
        WB_MMAP = 1 << 1, "DRM_PANTHOR_BO_WB_MMAP";
    }

    /// What `drm_panthor_bo_query_info` adds to the creation flags. Since 1.7.
    BoExtraFlags {
        /// The BO comes from another driver.
        IS_IMPORTED = 1 << 0, "DRM_PANTHOR_BO_IS_IMPORTED";
    }

    /// The state of a group. Empty: alive.
    GroupStateFlags {
        /// A job did not finish; no more submissions.
        TIMEDOUT = 1 << 0, "DRM_PANTHOR_GROUP_STATE_TIMEDOUT";
        /// A fatal fault; no more submissions.
        FATAL_FAULT = 1 << 1, "DRM_PANTHOR_GROUP_STATE_FATAL_FAULT";
        /// Killed by a reset that another group caused; only with `TIMEDOUT`. Since 1.3.
        INNOCENT = 1 << 2, "DRM_PANTHOR_GROUP_STATE_INNOCENT";
    }
}

requests! {
    /// Query device information.
    DRM_IOCTL_PANTHOR_DEV_QUERY = read_write::<drm_panthor_dev_query>(DRM_IOCTL_BASE, DRM_COMMAND_BASE);
    /// Create a VM.
    DRM_IOCTL_PANTHOR_VM_CREATE = read_write::<drm_panthor_vm_create>(DRM_IOCTL_BASE, DRM_COMMAND_BASE + 1);
    /// Destroy a VM.
    DRM_IOCTL_PANTHOR_VM_DESTROY = read_write::<drm_panthor_vm_destroy>(DRM_IOCTL_BASE, DRM_COMMAND_BASE + 2);
    /// Bind and unbind memory.
    DRM_IOCTL_PANTHOR_VM_BIND = read_write::<drm_panthor_vm_bind>(DRM_IOCTL_BASE, DRM_COMMAND_BASE + 3);
    /// Read a VM's state.
    DRM_IOCTL_PANTHOR_VM_GET_STATE = read_write::<drm_panthor_vm_get_state>(DRM_IOCTL_BASE, DRM_COMMAND_BASE + 4);
    /// Create a BO.
    DRM_IOCTL_PANTHOR_BO_CREATE = read_write::<drm_panthor_bo_create>(DRM_IOCTL_BASE, DRM_COMMAND_BASE + 5);
    /// Get a BO's mmap offset.
    DRM_IOCTL_PANTHOR_BO_MMAP_OFFSET = read_write::<drm_panthor_bo_mmap_offset>(DRM_IOCTL_BASE, DRM_COMMAND_BASE + 6);
    /// Create a group.
    DRM_IOCTL_PANTHOR_GROUP_CREATE = read_write::<drm_panthor_group_create>(DRM_IOCTL_BASE, DRM_COMMAND_BASE + 7);
    /// Destroy a group.
    DRM_IOCTL_PANTHOR_GROUP_DESTROY = read_write::<drm_panthor_group_destroy>(DRM_IOCTL_BASE, DRM_COMMAND_BASE + 8);
    /// Submit jobs.
    DRM_IOCTL_PANTHOR_GROUP_SUBMIT = read_write::<drm_panthor_group_submit>(DRM_IOCTL_BASE, DRM_COMMAND_BASE + 9);
    /// Read a group's state.
    DRM_IOCTL_PANTHOR_GROUP_GET_STATE = read_write::<drm_panthor_group_get_state>(DRM_IOCTL_BASE, DRM_COMMAND_BASE + 10);
    /// Create a tiler heap.
    DRM_IOCTL_PANTHOR_TILER_HEAP_CREATE = read_write::<drm_panthor_tiler_heap_create>(DRM_IOCTL_BASE, DRM_COMMAND_BASE + 11);
    /// Destroy a tiler heap.
    DRM_IOCTL_PANTHOR_TILER_HEAP_DESTROY = read_write::<drm_panthor_tiler_heap_destroy>(DRM_IOCTL_BASE, DRM_COMMAND_BASE + 12);
    /// Label a BO. Since 1.4.
    DRM_IOCTL_PANTHOR_BO_SET_LABEL = read_write::<drm_panthor_bo_set_label>(DRM_IOCTL_BASE, DRM_COMMAND_BASE + 13);
    /// Choose the user MMIO offset. Since 1.5.
    DRM_IOCTL_PANTHOR_SET_USER_MMIO_OFFSET = read_write::<drm_panthor_set_user_mmio_offset>(DRM_IOCTL_BASE, DRM_COMMAND_BASE + 14);
    /// Sync a cached BO. Since 1.7.
    DRM_IOCTL_PANTHOR_BO_SYNC = read_write::<drm_panthor_bo_sync>(DRM_IOCTL_BASE, DRM_COMMAND_BASE + 15);
    /// Query a BO. Since 1.7.
    DRM_IOCTL_PANTHOR_BO_QUERY_INFO = read_write::<drm_panthor_bo_query_info>(DRM_IOCTL_BASE, DRM_COMMAND_BASE + 16);
}

/// Plain enumerators of this file under their C names.
const ENUMERATORS: &[Constant] = &[
    Constant {
        name: "DRM_PANTHOR_USER_MMIO_OFFSET_32BIT",
        value: DRM_PANTHOR_USER_MMIO_OFFSET_32BIT,
    },
    Constant {
        name: "DRM_PANTHOR_USER_MMIO_OFFSET_64BIT",
        value: DRM_PANTHOR_USER_MMIO_OFFSET_64BIT,
    },
    Constant {
        name: "DRM_PANTHOR_USER_MMIO_OFFSET",
        value: DRM_PANTHOR_USER_MMIO_OFFSET,
    },
    Constant {
        name: "DRM_PANTHOR_USER_FLUSH_ID_MMIO_OFFSET",
        value: DRM_PANTHOR_USER_FLUSH_ID_MMIO_OFFSET,
    },
    Constant {
        name: "DRM_PANTHOR_DEV_QUERY_GPU_INFO",
        value: DRM_PANTHOR_DEV_QUERY_GPU_INFO as u64,
    },
    Constant {
        name: "DRM_PANTHOR_DEV_QUERY_CSIF_INFO",
        value: DRM_PANTHOR_DEV_QUERY_CSIF_INFO as u64,
    },
    Constant {
        name: "DRM_PANTHOR_DEV_QUERY_TIMESTAMP_INFO",
        value: DRM_PANTHOR_DEV_QUERY_TIMESTAMP_INFO as u64,
    },
    Constant {
        name: "DRM_PANTHOR_DEV_QUERY_GROUP_PRIORITIES_INFO",
        value: DRM_PANTHOR_DEV_QUERY_GROUP_PRIORITIES_INFO as u64,
    },
    Constant {
        name: "DRM_PANTHOR_DEV_QUERY_MMU_INFO",
        value: DRM_PANTHOR_DEV_QUERY_MMU_INFO as u64,
    },
    Constant {
        name: "DRM_PANTHOR_GPU_COHERENCY_ACE_LITE",
        value: DRM_PANTHOR_GPU_COHERENCY_ACE_LITE as u64,
    },
    Constant {
        name: "DRM_PANTHOR_GPU_COHERENCY_ACE",
        value: DRM_PANTHOR_GPU_COHERENCY_ACE as u64,
    },
    Constant {
        name: "DRM_PANTHOR_GPU_COHERENCY_NONE",
        value: DRM_PANTHOR_GPU_COHERENCY_NONE as u64,
    },
    Constant {
        name: "DRM_PANTHOR_VM_STATE_USABLE",
        value: DRM_PANTHOR_VM_STATE_USABLE as u64,
    },
    Constant {
        name: "DRM_PANTHOR_VM_STATE_UNUSABLE",
        value: DRM_PANTHOR_VM_STATE_UNUSABLE as u64,
    },
    Constant {
        name: "PANTHOR_GROUP_PRIORITY_LOW",
        value: PANTHOR_GROUP_PRIORITY_LOW as u64,
    },
    Constant {
        name: "PANTHOR_GROUP_PRIORITY_MEDIUM",
        value: PANTHOR_GROUP_PRIORITY_MEDIUM as u64,
    },
    Constant {
        name: "PANTHOR_GROUP_PRIORITY_HIGH",
        value: PANTHOR_GROUP_PRIORITY_HIGH as u64,
    },
    Constant {
        name: "PANTHOR_GROUP_PRIORITY_REALTIME",
        value: PANTHOR_GROUP_PRIORITY_REALTIME as u64,
    },
    Constant {
        name: "DRM_PANTHOR_BO_SYNC_CPU_CACHE_FLUSH",
        value: DRM_PANTHOR_BO_SYNC_CPU_CACHE_FLUSH as u64,
    },
    Constant {
        name: "DRM_PANTHOR_BO_SYNC_CPU_CACHE_FLUSH_AND_INVALIDATE",
        value: DRM_PANTHOR_BO_SYNC_CPU_CACHE_FLUSH_AND_INVALIDATE as u64,
    },
];

/// The flags and enumerators of this file under their C names.
pub const CONSTANTS: [&[Constant]; 2] = [FLAGS, ENUMERATORS];
