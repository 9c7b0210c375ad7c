//! DRM core: version, GEM handles, PRIME, syncobjs (`include/uapi/drm/drm.h`).

use super::layout::Constant;
use super::{kernel_structs, requests};

/// `DRM_IOCTL_BASE`: the group of all DRM requests.
pub const DRM_IOCTL_BASE: u8 = b'd';
/// `DRM_COMMAND_BASE`: number of a driver's first own request.
pub const DRM_COMMAND_BASE: u8 = 0x40;
/// `DRM_CAP_SYNCOBJ`: whether the driver has syncobjs.
pub const DRM_CAP_SYNCOBJ: u64 = 0x13;
/// `DRM_CAP_SYNCOBJ_TIMELINE`: whether the driver has timeline syncobjs.
pub const DRM_CAP_SYNCOBJ_TIMELINE: u64 = 0x14;

kernel_structs! {
    /// `DRM_IOCTL_VERSION`: the driver's name and version.
    pub struct drm_version {
        /// Out: major version.
        pub version_major: i32,
        /// Out: minor version.
        pub version_minor: i32,
        /// Out: patch level.
        pub version_patchlevel: i32,
        /// Padding that C leaves implicit on 64-bit machines.
        pub _padding: [u32; size_of::<usize>() / 4 - 1],
        /// In: room at `name`. Out: full length of the name.
        pub name_len: usize,
        /// User pointer to a buffer for the name (no NUL is written).
        pub name: usize,
        /// In: room at `date`. Out: full length of the date.
        pub date_len: usize,
        /// User pointer to a buffer for the date.
        pub date: usize,
        /// In: room at `desc`. Out: full length of the description.
        pub desc_len: usize,
        /// User pointer to a buffer for the description.
        pub desc: usize,
    }

    /// `DRM_IOCTL_GET_CAP`: one capability.
    pub struct drm_get_cap {
        /// `DRM_CAP_*`.
        pub capability: u64,
        /// Out: its value.
        pub value: u64,
    }

    /// `DRM_IOCTL_GEM_CLOSE`: drops a GEM handle.
    pub struct drm_gem_close {
        /// The handle.
        pub handle: u32,
        /// Zero.
        pub pad: u32,
    }

    /// `DRM_IOCTL_PRIME_HANDLE_TO_FD` and `DRM_IOCTL_PRIME_FD_TO_HANDLE`.
    pub struct drm_prime_handle {
        /// The GEM handle.
        pub handle: u32,
        /// [`PrimeFlags`], for handle to fd only.
        pub flags: u32,
        /// The dma-buf.
        pub fd: i32,
    }

    /// `DRM_IOCTL_SYNCOBJ_CREATE`.
    pub struct drm_syncobj_create {
        /// Out: the handle.
        pub handle: u32,
        /// [`SyncobjCreateFlags`].
        pub flags: u32,
    }

    /// `DRM_IOCTL_SYNCOBJ_DESTROY`.
    pub struct drm_syncobj_destroy {
        /// The handle.
        pub handle: u32,
        /// Zero.
        pub pad: u32,
    }

    /// `DRM_IOCTL_SYNCOBJ_HANDLE_TO_FD` and `DRM_IOCTL_SYNCOBJ_FD_TO_HANDLE`.
    pub struct drm_syncobj_handle {
        /// The handle.
        pub handle: u32,
        /// [`SyncobjFdFlags`].
        pub flags: u32,
        /// The file descriptor.
        pub fd: i32,
        /// Zero.
        pub pad: u32,
        /// Timeline point, with [`SyncobjFdFlags::TIMELINE`] (kernels since 6.16; older ones have no such field).
        pub point: u64,
    }

    /// `DRM_IOCTL_SYNCOBJ_TRANSFER`: copies a fence from one syncobj's point to another's.
    pub struct drm_syncobj_transfer {
        /// From.
        pub src_handle: u32,
        /// To.
        pub dst_handle: u32,
        /// Point to copy, 0 for a binary syncobj.
        pub src_point: u64,
        /// Point to fill, 0 for a binary syncobj.
        pub dst_point: u64,
        /// [`SyncobjWaitFlags`]: only `WAIT_FOR_SUBMIT`.
        pub flags: u32,
        /// Zero.
        pub pad: u32,
    }

    /// `DRM_IOCTL_SYNCOBJ_WAIT`: waits for binary syncobjs.
    pub struct drm_syncobj_wait {
        /// User pointer to an array of `u32` handles.
        pub handles: u64,
        /// Absolute CLOCK_MONOTONIC deadline in nanoseconds.
        pub timeout_nsec: i64,
        /// Number of handles.
        pub count_handles: u32,
        /// [`SyncobjWaitFlags`].
        pub flags: u32,
        /// Out: index of the first that signalled; only valid when not waiting for all.
        pub first_signaled: u32,
        /// Zero.
        pub pad: u32,
        /// Deadline hint for the fences' driver, with [`SyncobjWaitFlags::WAIT_DEADLINE`].
        pub deadline_nsec: u64,
    }

    /// `DRM_IOCTL_SYNCOBJ_TIMELINE_WAIT`: waits for points of syncobjs.
    pub struct drm_syncobj_timeline_wait {
        /// User pointer to an array of `u32` handles.
        pub handles: u64,
        /// User pointer to an array of `u64` points.
        pub points: u64,
        /// Absolute CLOCK_MONOTONIC deadline in nanoseconds.
        pub timeout_nsec: i64,
        /// Number of handles and points.
        pub count_handles: u32,
        /// [`SyncobjWaitFlags`].
        pub flags: u32,
        /// Out: index of the first that signalled; only valid when not waiting for all.
        pub first_signaled: u32,
        /// Zero.
        pub pad: u32,
        /// Deadline hint for the fences' driver, with [`SyncobjWaitFlags::WAIT_DEADLINE`].
        pub deadline_nsec: u64,
    }

    /// `DRM_IOCTL_SYNCOBJ_EVENTFD`: counts an eventfd up by one when a point signals.
    pub struct drm_syncobj_eventfd {
        /// The syncobj.
        pub handle: u32,
        /// [`SyncobjWaitFlags`]: none, or `WAIT_AVAILABLE`.
        pub flags: u32,
        /// The point, 0 for a binary syncobj.
        pub point: u64,
        /// The eventfd.
        pub fd: i32,
        /// Zero.
        pub pad: u32,
    }

    /// `DRM_IOCTL_SYNCOBJ_RESET` and `DRM_IOCTL_SYNCOBJ_SIGNAL`.
    pub struct drm_syncobj_array {
        /// User pointer to an array of `u32` handles.
        pub handles: u64,
        /// Number of handles.
        pub count_handles: u32,
        /// Zero.
        pub pad: u32,
    }

    /// `DRM_IOCTL_SYNCOBJ_QUERY` and `DRM_IOCTL_SYNCOBJ_TIMELINE_SIGNAL`.
    pub struct drm_syncobj_timeline_array {
        /// User pointer to an array of `u32` handles.
        pub handles: u64,
        /// User pointer to an array of `u64` points.
        pub points: u64,
        /// Number of handles and points.
        pub count_handles: u32,
        /// [`SyncobjQueryFlags`], for the query only.
        pub flags: u32,
    }
}

bitflags::bitflags! {
    /// Flags of `drm_prime_handle` (`DRM_CLOEXEC`, `DRM_RDWR`, which are `O_CLOEXEC` and `O_RDWR`).
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
    pub struct PrimeFlags: u32 {
        /// Closed on exec.
        const CLOEXEC = rustix::fs::OFlags::CLOEXEC.bits();
        /// The dma-buf can be mapped for writing.
        const RDWR = rustix::fs::OFlags::RDWR.bits();
    }

    /// Flags of `drm_syncobj_create`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
    pub struct SyncobjCreateFlags: u32 {
        /// Starts with a signalled fence.
        const SIGNALED = 1 << 0;
    }

    /// Flags of `drm_syncobj_handle`; the two directions use the same bits.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
    pub struct SyncobjFdFlags: u32 {
        /// The descriptor is a sync file, not a syncobj.
        const SYNC_FILE = 1 << 0;
        /// `point` names a timeline point (kernels since 6.16).
        const TIMELINE = 1 << 1;
    }

    /// Flags of the syncobj waits.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
    pub struct SyncobjWaitFlags: u32 {
        /// Wait for all, not for the first.
        const WAIT_ALL = 1 << 0;
        /// Wait also for the fence to be submitted; without it a syncobj without a fence is EINVAL.
        const WAIT_FOR_SUBMIT = 1 << 1;
        /// Wait for the point to have a fence, not for the fence.
        const WAIT_AVAILABLE = 1 << 2;
        /// `deadline_nsec` is set.
        const WAIT_DEADLINE = 1 << 3;
    }

    /// Flags of the syncobj query.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
    pub struct SyncobjQueryFlags: u32 {
        /// The last submitted point instead of the last signalled one.
        const LAST_SUBMITTED = 1 << 0;
    }
}

requests! {
    /// The driver's name and version.
    DRM_IOCTL_VERSION = read_write::<drm_version>(DRM_IOCTL_BASE, 0x00);
    /// Drops a GEM handle.
    DRM_IOCTL_GEM_CLOSE = write::<drm_gem_close>(DRM_IOCTL_BASE, 0x09);
    /// Reads a capability.
    DRM_IOCTL_GET_CAP = read_write::<drm_get_cap>(DRM_IOCTL_BASE, 0x0c);
    /// Exports a GEM object as a dma-buf.
    DRM_IOCTL_PRIME_HANDLE_TO_FD = read_write::<drm_prime_handle>(DRM_IOCTL_BASE, 0x2d);
    /// Imports a dma-buf as a GEM object.
    DRM_IOCTL_PRIME_FD_TO_HANDLE = read_write::<drm_prime_handle>(DRM_IOCTL_BASE, 0x2e);
    /// Creates a syncobj.
    DRM_IOCTL_SYNCOBJ_CREATE = read_write::<drm_syncobj_create>(DRM_IOCTL_BASE, 0xbf);
    /// Destroys a syncobj.
    DRM_IOCTL_SYNCOBJ_DESTROY = read_write::<drm_syncobj_destroy>(DRM_IOCTL_BASE, 0xc0);
    /// Exports a syncobj, or its fence as a sync file.
    DRM_IOCTL_SYNCOBJ_HANDLE_TO_FD = read_write::<drm_syncobj_handle>(DRM_IOCTL_BASE, 0xc1);
    /// Imports a syncobj, or a sync file's fence into one.
    DRM_IOCTL_SYNCOBJ_FD_TO_HANDLE = read_write::<drm_syncobj_handle>(DRM_IOCTL_BASE, 0xc2);
    /// Waits for binary syncobjs.
    DRM_IOCTL_SYNCOBJ_WAIT = read_write::<drm_syncobj_wait>(DRM_IOCTL_BASE, 0xc3);
    /// Takes the fences out of syncobjs.
    DRM_IOCTL_SYNCOBJ_RESET = read_write::<drm_syncobj_array>(DRM_IOCTL_BASE, 0xc4);
    /// Signals binary syncobjs from the CPU.
    DRM_IOCTL_SYNCOBJ_SIGNAL = read_write::<drm_syncobj_array>(DRM_IOCTL_BASE, 0xc5);
    /// Waits for timeline points.
    DRM_IOCTL_SYNCOBJ_TIMELINE_WAIT = read_write::<drm_syncobj_timeline_wait>(DRM_IOCTL_BASE, 0xca);
    /// Reads timelines' points.
    DRM_IOCTL_SYNCOBJ_QUERY = read_write::<drm_syncobj_timeline_array>(DRM_IOCTL_BASE, 0xcb);
    /// Copies a fence between syncobjs.
    DRM_IOCTL_SYNCOBJ_TRANSFER = read_write::<drm_syncobj_transfer>(DRM_IOCTL_BASE, 0xcc);
    /// Signals timeline points from the CPU.
    DRM_IOCTL_SYNCOBJ_TIMELINE_SIGNAL = read_write::<drm_syncobj_timeline_array>(DRM_IOCTL_BASE, 0xcd);
    /// Registers an eventfd for a point.
    DRM_IOCTL_SYNCOBJ_EVENTFD = read_write::<drm_syncobj_eventfd>(DRM_IOCTL_BASE, 0xcf);
}

/// The flags of this file under their C names.
pub const CONSTANTS: &[Constant] = &[
    Constant {
        name: "DRM_COMMAND_BASE",
        value: DRM_COMMAND_BASE as u64,
    },
    Constant {
        name: "DRM_CAP_SYNCOBJ",
        value: DRM_CAP_SYNCOBJ,
    },
    Constant {
        name: "DRM_CAP_SYNCOBJ_TIMELINE",
        value: DRM_CAP_SYNCOBJ_TIMELINE,
    },
    Constant {
        name: "DRM_CLOEXEC",
        value: PrimeFlags::CLOEXEC.bits() as u64,
    },
    Constant {
        name: "DRM_RDWR",
        value: PrimeFlags::RDWR.bits() as u64,
    },
    Constant {
        name: "DRM_SYNCOBJ_CREATE_SIGNALED",
        value: SyncobjCreateFlags::SIGNALED.bits() as u64,
    },
    Constant {
        name: "DRM_SYNCOBJ_FD_TO_HANDLE_FLAGS_IMPORT_SYNC_FILE",
        value: SyncobjFdFlags::SYNC_FILE.bits() as u64,
    },
    Constant {
        name: "DRM_SYNCOBJ_FD_TO_HANDLE_FLAGS_TIMELINE",
        value: SyncobjFdFlags::TIMELINE.bits() as u64,
    },
    Constant {
        name: "DRM_SYNCOBJ_HANDLE_TO_FD_FLAGS_EXPORT_SYNC_FILE",
        value: SyncobjFdFlags::SYNC_FILE.bits() as u64,
    },
    Constant {
        name: "DRM_SYNCOBJ_HANDLE_TO_FD_FLAGS_TIMELINE",
        value: SyncobjFdFlags::TIMELINE.bits() as u64,
    },
    Constant {
        name: "DRM_SYNCOBJ_WAIT_FLAGS_WAIT_ALL",
        value: SyncobjWaitFlags::WAIT_ALL.bits() as u64,
    },
    Constant {
        name: "DRM_SYNCOBJ_WAIT_FLAGS_WAIT_FOR_SUBMIT",
        value: SyncobjWaitFlags::WAIT_FOR_SUBMIT.bits() as u64,
    },
    Constant {
        name: "DRM_SYNCOBJ_WAIT_FLAGS_WAIT_AVAILABLE",
        value: SyncobjWaitFlags::WAIT_AVAILABLE.bits() as u64,
    },
    Constant {
        name: "DRM_SYNCOBJ_WAIT_FLAGS_WAIT_DEADLINE",
        value: SyncobjWaitFlags::WAIT_DEADLINE.bits() as u64,
    },
    Constant {
        name: "DRM_SYNCOBJ_QUERY_FLAGS_LAST_SUBMITTED",
        value: SyncobjQueryFlags::LAST_SUBMITTED.bits() as u64,
    },
];
