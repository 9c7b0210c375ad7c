//! CPU mappings of memory that a GPU may write meanwhile.

use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64};

use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::error::{Error, Object};
use crate::transport::{Fd, Prot, SharedTransport};

/// A mapped range. No reference to its bytes is ever handed out, since the GPU may write them at any time: access is
/// volatile, atomic or by copy. Unmapped when dropped; it keeps the memory alive, whatever becomes of the BO's handle.
///
/// Offsets are bytes from the mapping's start. An access outside the mapping, or misaligned, or a write to a read-only
/// mapping, is a bug of the caller and panics, as for a slice.
#[derive(Debug)]
pub struct Mapping {
    transport: SharedTransport,
    start: NonNull<u8>,
    len: usize,
    writable: bool,
}

// SAFETY: the mapping is plain shared memory that belongs to the process, not to a thread; every access below is
// volatile or atomic and never forms a reference to non-atomic bytes. Races of two threads' volatile copies can only
// mix bytes, which the GPU's own accesses do as well.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `len` bytes at `offset` of `fd`.
    pub(crate) fn new(
        transport: &SharedTransport,
        fd: Fd,
        offset: u64,
        len: usize,
        prot: Prot,
        object: Object,
    ) -> Result<Self, Error> {
        let start = transport
            .mmap(fd, offset, len, prot)
            .map_err(|errno| Error::Call {
                call: "mmap",
                object,
                errno,
            })?;
        Ok(Self {
            transport: transport.clone(),
            start,
            len,
            writable: prot.contains(Prot::WRITE),
        })
    }

    /// Bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the mapping has no bytes; never true, since the kernel refuses such a mapping.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The CPU address of the first byte. Whoever reads or writes through it must do so with volatile or atomic access.
    pub fn address(&self) -> NonNull<u8> {
        self.start
    }

    /// The address of `range`, after checking it.
    fn at(&self, offset: usize, len: usize, align: usize, write: bool) -> *mut u8 {
        let end = offset.checked_add(len);
        assert!(
            end.is_some_and(|end| end <= self.len),
            "access of {len} bytes at {offset} in {} bytes",
            self.len
        );
        assert!(
            offset % align == 0,
            "access at {offset} is not aligned to {align}"
        );
        assert!(!write || self.writable, "write to a read-only mapping");
        // SAFETY: within the mapping, as just checked.
        unsafe { self.start.as_ptr().add(offset) }
    }

    /// Reads a little-endian word.
    pub fn read_u32(&self, offset: usize) -> u32 {
        // SAFETY: in bounds and aligned (`at`); the mapping's start is page-aligned.
        u32::from_le(unsafe { self.at(offset, 4, 4, false).cast::<u32>().read_volatile() })
    }

    /// Reads a little-endian double word.
    pub fn read_u64(&self, offset: usize) -> u64 {
        // SAFETY: in bounds and aligned (`at`); the mapping's start is page-aligned.
        u64::from_le(unsafe { self.at(offset, 8, 8, false).cast::<u64>().read_volatile() })
    }

    /// Writes a little-endian word.
    pub fn write_u32(&self, offset: usize, value: u32) {
        // SAFETY: in bounds, aligned and writable (`at`); the mapping's start is page-aligned.
        unsafe {
            self.at(offset, 4, 4, true)
                .cast::<u32>()
                .write_volatile(value.to_le())
        }
    }

    /// Writes a little-endian double word.
    pub fn write_u64(&self, offset: usize, value: u64) {
        // SAFETY: in bounds, aligned and writable (`at`); the mapping's start is page-aligned.
        unsafe {
            self.at(offset, 8, 8, true)
                .cast::<u64>()
                .write_volatile(value.to_le())
        }
    }

    /// The word at `offset` as an atomic, in the CPU's byte order. Needs a writable mapping.
    pub fn atomic_u32(&self, offset: usize) -> &AtomicU32 {
        // SAFETY: in bounds, aligned and writable (`at`), alive as long as `self`; all other access is volatile.
        unsafe { AtomicU32::from_ptr(self.at(offset, 4, 4, true).cast()) }
    }

    /// The double word at `offset` as an atomic, in the CPU's byte order. Needs a writable mapping.
    pub fn atomic_u64(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: in bounds, aligned and writable (`at`), alive as long as `self`; all other access is volatile.
        unsafe { AtomicU64::from_ptr(self.at(offset, 8, 8, true).cast()) }
    }

    /// Copies `bytes` into the mapping, whole aligned double words at a time where possible: a good pattern for
    /// write-combined memory.
    pub fn write(&self, offset: usize, bytes: &[u8]) {
        let to = self.at(offset, bytes.len(), 1, true);
        let (head, words) = bytes.split_at(to.align_offset(8).min(bytes.len()));
        for (n, byte) in head.iter().enumerate() {
            // SAFETY: within the range that `at` checked.
            unsafe { to.add(n).write_volatile(*byte) };
        }
        // SAFETY: within the range that `at` checked, or one past its end.
        let to = unsafe { to.add(head.len()) };
        let (chunks, tail) = words.as_chunks_compat();
        for (n, chunk) in chunks.iter().enumerate() {
            // SAFETY: within the range, and aligned since `head` ends at a multiple of 8.
            unsafe {
                to.cast::<u64>()
                    .add(n)
                    .write_volatile(u64::from_ne_bytes(*chunk))
            };
        }
        for (n, byte) in tail.iter().enumerate() {
            // SAFETY: within the range that `at` checked.
            unsafe { to.add(chunks.len() * 8 + n).write_volatile(*byte) };
        }
    }

    /// Copies bytes out of the mapping into `bytes`, whole aligned double words at a time where possible.
    pub fn read(&self, offset: usize, bytes: &mut [u8]) {
        let from = self.at(offset, bytes.len(), 1, false);
        let split = from.align_offset(8).min(bytes.len());
        let (head, words) = bytes.split_at_mut(split);
        for (n, byte) in head.iter_mut().enumerate() {
            // SAFETY: within the range that `at` checked.
            *byte = unsafe { from.add(n).read_volatile() };
        }
        // SAFETY: within the range that `at` checked, or one past its end.
        let from = unsafe { from.add(split) };
        let mut chunks = words.chunks_exact_mut(8);
        let mut done = 0;
        for chunk in &mut chunks {
            // SAFETY: within the range, and aligned since `head` ends at a multiple of 8.
            let word = unsafe { from.add(done).cast::<u64>().read_volatile() };
            chunk.copy_from_slice(&word.to_ne_bytes());
            done += 8;
        }
        for (n, byte) in chunks.into_remainder().iter_mut().enumerate() {
            // SAFETY: within the range that `at` checked.
            *byte = unsafe { from.add(done + n).read_volatile() };
        }
    }

    /// Copies values into the mapping, in the CPU's byte order.
    pub fn write_slice<T: IntoBytes + Immutable>(&self, offset: usize, values: &[T]) {
        self.write(offset, values.as_bytes());
    }

    /// Copies `count` values out of the mapping, in the CPU's byte order.
    pub fn read_vec<T: FromBytes + IntoBytes + Clone>(
        &self,
        offset: usize,
        count: usize,
    ) -> Vec<T> {
        let mut values = vec![T::new_zeroed(); count];
        self.read(offset, values.as_mut_slice().as_mut_bytes());
        values
    }

    /// Sets every byte of `range` to `byte`.
    pub fn fill(&self, range: Range<usize>, byte: u8) {
        const PIECE: usize = 4096;
        let piece = [byte; PIECE];
        let mut offset = range.start;
        while offset < range.end {
            let len = PIECE.min(range.end - offset);
            self.write(offset, &piece[..len]);
            offset += len;
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: a whole mapping of this transport; access needs `self`, which is gone after this.
        if let Err(errno) = unsafe { self.transport.munmap(self.start, self.len) } {
            log::warn!("munmap of {} bytes: {errno}", self.len);
        }
    }
}

/// `slice::as_chunks::<8>`, which rust 1.85 does not have yet.
trait Chunks {
    /// Whole chunks of 8 and the rest.
    fn as_chunks_compat(&self) -> (&[[u8; 8]], &[u8]);
}

impl Chunks for [u8] {
    fn as_chunks_compat(&self) -> (&[[u8; 8]], &[u8]) {
        let (chunks, tail) = self.split_at(self.len() & !7);
        // A multiple of 8 bytes, so that the conversion cannot fail.
        (<[[u8; 8]]>::ref_from_bytes(chunks).unwrap_or(&[]), tail)
    }
}
