//! Sync files: fences as file descriptors (`include/uapi/linux/sync_file.h`).

use super::{kernel_structs, requests};

/// `SYNC_IOC_MAGIC`.
const MAGIC: u8 = b'>';

kernel_structs! {
    /// `SYNC_IOC_MERGE`: a new sync file with the fences of two.
    pub struct sync_merge_data {
        /// Name of the new sync file, NUL-terminated.
        pub name: [u8; 32],
        /// The second sync file.
        pub fd2: i32,
        /// Out: the new sync file.
        pub fence: i32,
        /// Zero.
        pub flags: u32,
        /// Zero.
        pub pad: u32,
    }

    /// One fence of a sync file.
    pub struct sync_fence_info {
        /// Name of the fence's timeline.
        pub obj_name: [u8; 32],
        /// Name of the driver behind it.
        pub driver_name: [u8; 32],
        /// 0: not signalled; 1: signalled; negative: signalled with that errno.
        pub status: i32,
        /// Zero.
        pub flags: u32,
        /// When the fence signalled, CLOCK_MONOTONIC in nanoseconds.
        pub timestamp_ns: u64,
    }

    /// `SYNC_IOC_FILE_INFO`: the state of a sync file's fences.
    pub struct sync_file_info {
        /// Out: name.
        pub name: [u8; 32],
        /// Out: 0: not all signalled; 1: all signalled; negative: one signalled with that errno.
        pub status: i32,
        /// Zero.
        pub flags: u32,
        /// In: room in `sync_fence_info`; 0 asks for the number only. Out: number of fences.
        pub num_fences: u32,
        /// Zero.
        pub pad: u32,
        /// User pointer to an array of [`sync_fence_info`].
        pub sync_fence_info: u64,
    }
}

requests! {
    /// Merges two sync files.
    SYNC_IOC_MERGE = read_write::<sync_merge_data>(MAGIC, 3);
    /// Reads a sync file's state.
    SYNC_IOC_FILE_INFO = read_write::<sync_file_info>(MAGIC, 4);
}
