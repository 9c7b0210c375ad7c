//! What is taken out of the bytes that come back, because two good devices may differ in it. Nothing else is.
//!
//! | what | instead | why |
//! |---|---|---|
//! | descriptors (HANDLE_TO_FD, PRIME, MERGE) | [`FD`], if not negative | numbers are the process's |
//! | offsets for mmap | [`OFFSET`], if nonzero and a multiple of 4096 | the core gives any free range |
//! | `timestamp_ns` of fences | 0 | clocks; that of the kernel's own signalled fence may even be 0 |
//! | the name in a sync file's info | cut at the first digit, unless a merge named it | fence contexts are numbered by the machine |
//! | a fence's timeline | the client's number in `panthor-queue-N-…` becomes `#` | clients are numbered by the machine |
//! | DEV_QUERY TIMESTAMP_INFO: frequency, time, cycles, duration, CPU time | 0, where the flags ask for them | clocks; UML has no architected timer, so its frequency is 0 |
//! | the driver's date in VERSION | its length only | the driver's own list of versions is what counts |

use panthor_uapi::sys::panthor::{
    DRM_IOCTL_PANTHOR_BO_MMAP_OFFSET, DRM_IOCTL_PANTHOR_DEV_QUERY,
    DRM_PANTHOR_DEV_QUERY_TIMESTAMP_INFO,
};
use panthor_uapi::sys::sync_file::{
    SYNC_IOC_FILE_INFO, SYNC_IOC_MERGE, sync_fence_info, sync_file_info, sync_merge_data,
};
use panthor_uapi::sys::{drm, panthor};
use std::mem::offset_of;

/// Stands for a descriptor.
pub const FD: i32 = 0x0fd0_0fd0;
/// Stands for an offset that can be mapped.
pub const OFFSET: u64 = 0x0ff5_e700_0000;

/// Number of a request without its size and direction.
fn number(request: u32) -> u32 {
    request & 0xffff
}

/// Where an ioctl that gives a descriptor puts it.
pub fn descriptor_field(request: u32) -> Option<usize> {
    let known = [
        (
            drm::DRM_IOCTL_SYNCOBJ_HANDLE_TO_FD,
            offset_of!(drm::drm_syncobj_handle, fd),
        ),
        (
            drm::DRM_IOCTL_PRIME_HANDLE_TO_FD,
            offset_of!(drm::drm_prime_handle, fd),
        ),
        (SYNC_IOC_MERGE, offset_of!(sync_merge_data, fence)),
    ];
    let found = known
        .iter()
        .find(|(giver, _)| number(*giver) == number(request));
    found.map(|(_, at)| *at)
}

/// Takes out of `buffers`, which a successful ioctl left, what need not be the same.
pub fn normalise(request: u32, buffers: &mut [Vec<u8>]) {
    let is = |known: u32| number(request) == number(known);
    let Some((head, rest)) = buffers.split_first_mut() else {
        return;
    };
    if let Some(at) = descriptor_field(request) {
        descriptor(head, at);
    } else if is(DRM_IOCTL_PANTHOR_BO_MMAP_OFFSET) {
        let at = offset_of!(panthor::drm_panthor_bo_mmap_offset, offset);
        if let Some(field) = head.get_mut(at..at + 8) {
            let offset = u64::from_le_bytes(field.try_into().unwrap_or_default());
            if offset != 0 && offset % 4096 == 0 {
                field.copy_from_slice(&OFFSET.to_le_bytes());
            }
        }
    } else if is(SYNC_IOC_FILE_INFO) {
        if let Some(name) = head.get_mut(offset_of!(sync_file_info, name)..32) {
            cut_at_digit(name);
        }
        for fence in rest
            .iter_mut()
            .flat_map(|buffer| buffer.chunks_exact_mut(size_of::<sync_fence_info>()))
        {
            let at = offset_of!(sync_fence_info, timestamp_ns);
            fence[at..at + 8].fill(0);
            client(&mut fence[..32]);
        }
    } else if is(DRM_IOCTL_PANTHOR_DEV_QUERY) {
        let kind = head
            .get(..4)
            .map(|kind| kind == DRM_PANTHOR_DEV_QUERY_TIMESTAMP_INFO.to_le_bytes());
        if kind == Some(true) {
            rest.iter_mut().for_each(|info| timestamps(info));
        }
    } else if is(drm::DRM_IOCTL_VERSION) {
        // The generator's third text is the date.
        if let Some(date) = rest.get_mut(1) {
            date.fill(0);
        }
    }
}

fn descriptor(bytes: &mut [u8], at: usize) {
    if let Some(field) = bytes.get_mut(at..at + 4) {
        if field[3] & 0x80 == 0 {
            field.copy_from_slice(&FD.to_le_bytes());
        }
    }
}

fn cut_at_digit(name: &mut [u8]) {
    if let Some(at) = name.iter().position(u8::is_ascii_digit) {
        name[at..].fill(0);
    }
}

/// `panthor-queue-12-1-0` becomes `panthor-queue-#-1-0`.
fn client(name: &mut [u8]) {
    const PREFIX: &[u8] = b"panthor-queue-";
    let Some(rest) = name.strip_prefix(PREFIX) else {
        return;
    };
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let tail = rest[digits..].to_vec();
    let place = &mut name[PREFIX.len()..];
    place.fill(0);
    place[0] = b'#';
    let room = place.len().min(tail.len() + 1);
    place[1..room].copy_from_slice(&tail[..room - 1]);
}

/// Clocks of `struct drm_panthor_timestamp_info`, each where the flags ask for it.
fn timestamps(info: &mut [u8]) {
    use panthor::drm_panthor_timestamp_info as Info;
    /// `DRM_PANTHOR_TIMESTAMP_*` of the header: GPU, CPU type, offset, cycles, frequency, duration.
    const GPU: u32 = 1 << 0;
    const CPU: u32 = 7 << 1;
    const CYCLES: u32 = 1 << 5;
    const FREQUENCY: u32 = 1 << 6;
    const DURATION: u32 = 1 << 7;
    let at = offset_of!(Info, flags);
    let flags = info.get(at..at + 4).map_or(0, |field| {
        u32::from_le_bytes(field.try_into().unwrap_or_default())
    });
    let flags = if flags == 0 { GPU | FREQUENCY } else { flags };
    for (asked, at, width) in [
        (FREQUENCY, offset_of!(Info, timestamp_frequency), 8),
        (GPU, offset_of!(Info, current_timestamp), 8),
        (CYCLES, offset_of!(Info, cycle_count), 8),
        (DURATION, offset_of!(Info, duration_nsec), 4),
        (CPU, offset_of!(Info, cpu_timestamp_sec), 8),
        (CPU, offset_of!(Info, cpu_timestamp_nsec), 8),
    ] {
        if flags & asked != 0 {
            let end = info.len().min(at + width);
            if let Some(field) = info.get_mut(at..end) {
                field.fill(0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_the_machine_go_and_the_rest_stays() {
        let mut info = vec![0; size_of::<sync_file_info>()];
        info[..20].copy_from_slice(b"drm_sched-panthor-q7");
        info[32] = 1;
        let mut fence = vec![0; size_of::<sync_fence_info>()];
        fence[..20].copy_from_slice(b"panthor-queue-12-3-1");
        fence[72..74].copy_from_slice(&[9, 9]);
        let mut buffers = [info, fence];
        normalise(SYNC_IOC_FILE_INFO, &mut buffers);
        assert_eq!(&buffers[0][..20], b"drm_sched-panthor-q\0");
        assert_eq!(buffers[0][32], 1, "the status stays");
        assert_eq!(&buffers[1][..20], b"panthor-queue-#-3-1\0");
        assert_eq!(&buffers[1][72..80], [0; 8]);

        let mut failed = [vec![0xff; 24]];
        normalise(drm::DRM_IOCTL_SYNCOBJ_HANDLE_TO_FD, &mut failed);
        assert_eq!(failed[0][8..12], [0xff; 4], "no descriptor");
        failed[0][8..12].copy_from_slice(&7_i32.to_le_bytes());
        normalise(drm::DRM_IOCTL_SYNCOBJ_HANDLE_TO_FD, &mut failed);
        assert_eq!(failed[0][8..12], FD.to_le_bytes());
    }
}
