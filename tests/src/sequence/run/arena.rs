//! Memory for the calls' buffers, each in front of a hole.

use std::ptr::NonNull;

use panthor_uapi::Errno;
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect};

/// Most buffers of one call.
pub const SLOTS: usize = 24;
/// Most bytes of a buffer.
pub const ROOM: usize = 64 << 10;
/// From one buffer's place to the next: the rest is a hole, as long as a length of 32 bits can reach.
const PITCH: usize = 8 << 30;

/// Rooms in which buffers lie at the end.
#[derive(Debug)]
pub struct Arena {
    base: NonNull<u8>,
}

impl Arena {
    /// Reserves the rooms.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn new() -> Result<Self, Errno> {
        // SAFETY: a new mapping at an address of the kernel's choice, of which only the rooms become accessible.
        unsafe {
            let base = mmap_anonymous(
                std::ptr::null_mut(),
                SLOTS * PITCH,
                ProtFlags::empty(),
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )?;
            for slot in 0..SLOTS {
                let flags = MprotectFlags::READ | MprotectFlags::WRITE;
                mprotect(base.cast::<u8>().add(slot * PITCH).cast(), ROOM, flags)?;
            }
            Ok(Self {
                base: NonNull::new(base.cast()).ok_or(Errno::NOMEM)?,
            })
        }
    }

    /// Where buffers of these sizes lie: each ends (to the last multiple of 8 bytes) where its room ends.
    ///
    /// # Panics
    /// For more or larger buffers than there is room for, which the generator does not make.
    pub fn addresses(&self, sizes: &[usize]) -> Vec<u64> {
        assert!(sizes.len() <= SLOTS, "{} buffers", sizes.len());
        let places = sizes.iter().enumerate().map(|(slot, &size)| {
            assert!(size <= ROOM, "buffer of {size} bytes");
            self.at(slot, size) as u64
        });
        places.collect()
    }

    fn at(&self, slot: usize, size: usize) -> *mut u8 {
        // SAFETY: the offset lies in the slot's room.
        unsafe {
            self.base
                .as_ptr()
                .add(slot * PITCH + ROOM - size.next_multiple_of(8))
        }
    }

    /// Puts the buffers at their places.
    pub fn fill(&mut self, buffers: &[Vec<u8>]) {
        for (slot, bytes) in buffers.iter().enumerate() {
            let to = self.at(slot, bytes.len());
            // SAFETY: the place lies in the room (`addresses` was asked before), which is ours and writable.
            unsafe {
                to.write_bytes(0, bytes.len().next_multiple_of(8));
                to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
            }
        }
    }

    /// What the buffers hold now.
    pub fn contents(&self, sizes: &[usize]) -> Vec<Vec<u8>> {
        let read = |(slot, &size): (usize, &usize)| {
            let mut bytes = vec![0; size];
            // SAFETY: as in `fill`; the kernel has finished writing when its call has returned.
            unsafe { bytes.as_mut_ptr().copy_from(self.at(slot, size), size) };
            bytes
        };
        sizes.iter().enumerate().map(read).collect()
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and its addresses are not used after the arena.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), SLOTS * PITCH) };
    }
}
