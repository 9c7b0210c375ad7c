//! Fences that software signals, or never: the kernel's `sw_sync`.
//!
//! `drivers/dma-buf/sw_sync.c`: a descriptor of `/sys/kernel/debug/sync/sw_sync` is a timeline that counts from zero; a
//! fence at a later value stays pending until the timeline is advanced, and fails with ENOENT when the descriptor is
//! closed first.

use std::path::Path;

use panthor_uapi::{Fd, OwnedFd, SharedTransport, SyncFile, TransportKind};

use super::client::StepError;

/// Where the kernel offers it (CONFIG_SW_SYNC, debugfs, root).
const NODE: &str = "/sys/kernel/debug/sync/sw_sync";

/// `struct sw_sync_create_fence_data`.
#[repr(C)]
struct CreateFence {
    value: u32,
    name: [u8; 32],
    fence: i32,
}

/// `SW_SYNC_IOC_CREATE_FENCE`, `_IOWR('W', 0, struct sw_sync_create_fence_data)`.
const CREATE_FENCE: u32 = 3 << 30 | (size_of::<CreateFence>() as u32) << 16 | (b'W' as u32) << 8;

/// A timeline and a fence of it that is pending as long as the timeline's descriptor is open.
///
/// # Errors
/// [`StepError::Unavailable`] where the kernel has no `sw_sync` or hides it.
pub fn unsignalled(transport: &SharedTransport) -> Result<(OwnedFd, SyncFile), StepError> {
    let missing = |why: String| StepError::Unavailable(format!("{NODE}: {why}"));
    if transport.kind() != TransportKind::Kernel {
        return Err(missing("the simulator has none".to_owned()));
    }
    let node = transport
        .open(Path::new(NODE))
        .map_err(|errno| missing(errno.to_string()))?;
    // SAFETY: just given by this transport, to us.
    let timeline = unsafe { OwnedFd::from_fd(transport.clone(), node) };
    let mut name = [0; 32];
    name[..5].copy_from_slice(b"never");
    let mut args = CreateFence {
        value: 1,
        name,
        fence: -1,
    };
    // SAFETY: `args` is the request's struct, without pointers inside.
    unsafe { transport.ioctl(node, CREATE_FENCE, (&raw mut args).cast()) }
        .map_err(|errno| missing(errno.to_string()))?;
    // SAFETY: just given by this transport, to us.
    let fence = unsafe { OwnedFd::from_fd(transport.clone(), Fd::from_raw(args.fence)) };
    Ok((timeline, SyncFile::from_fd(fence)))
}
