//! The GPU's caches: one set per device, physically addressed.

use std::collections::HashMap;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mali_isa::csf::FlushMode;

use super::frame::{FRAME_BYTES, Frame};
use super::order::AgentSet;

const SHARDS: usize = 64;

/// What the GPU's L2 and load-store caches hold of the host's memory.
///
/// GPU writes stay here until cleaned: the host, which sees pages directly, must not see them before. A device without
/// IO coherency (RK3588) behaves so. Cleaning works by lines of 64 bytes: bytes beside the written ones are written
/// back too, as they were when the line was first written.
///
/// What is *not* modelled: clean lines that the GPU has only read (a host write between two GPU reads is seen without
/// invalidation), capacity, and eviction (dirty data never reaches memory by itself).
#[derive(Debug)]
pub struct Caches {
    shards: [Mutex<HashMap<usize, Arc<Frame>>>; SHARDS],
    /// Frames of which the GPU has written anything.
    written: Mutex<Vec<Arc<Frame>>>,
    atomics: [Mutex<()>; SHARDS],
    flushes: AtomicU32,
}

impl Default for Caches {
    fn default() -> Self {
        Self {
            shards: std::array::from_fn(|_| Mutex::default()),
            written: Mutex::default(),
            atomics: std::array::from_fn(|_| Mutex::default()),
            // 0 is the number that asks for a flush in any case.
            flushes: AtomicU32::new(1),
        }
    }
}

/// A panic elsewhere leaves plain data behind, never half a change.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Caches {
    /// Empty caches.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn shard(address: usize) -> usize {
        (address / FRAME_BYTES) % SHARDS
    }

    /// The frame at a host address, aligned to 4.
    pub(super) fn frame(&self, host: NonNull<AtomicU32>) -> Arc<Frame> {
        let address = host.as_ptr() as usize;
        let mut shard = lock(&self.shards[Self::shard(address)]);
        shard
            .entry(address)
            .or_insert_with(|| Arc::new(Frame::new(host)))
            .clone()
    }

    /// Notes that the GPU has written something of the frame for the first time.
    pub(super) fn note_written(&self, frame: &Arc<Frame>) {
        lock(&self.written).push(frame.clone());
    }

    /// Holds off other atomics on the same address.
    pub(super) fn atomic_guard(&self, frame: &Frame, word: usize) -> MutexGuard<'_, ()> {
        let address = std::ptr::from_ref(frame) as usize / 64 + word / 2;
        lock(&self.atomics[address % SHARDS])
    }

    /// Carries out a FLUSH_CACHE2 or an MMU flush of what the agents of `done` have written (`None`: everything). Must
    /// not run at the same time as a job. Gives the number of lines written back.
    pub fn flush(&self, l2: FlushMode, lsc: FlushMode, done: Option<&AgentSet>) -> u32 {
        let clean_lsc = lsc != FlushMode::None;
        let clean_l2 = l2 != FlushMode::None;
        let drop_l2 = l2 == FlushMode::CleanInvalidate;
        if clean_l2 {
            let next = self.flushes.load(Ordering::Relaxed).wrapping_add(1).max(1);
            self.flushes.store(next, Ordering::Relaxed);
        }
        lock(&self.written)
            .iter()
            .map(|f| f.flush(clean_lsc, clean_l2, drop_l2, done))
            .sum()
    }

    /// Cleans and invalidates everything, as the driver does before it suspends or changes a mapping.
    pub fn clean_invalidate(&self) -> u32 {
        self.flush(FlushMode::CleanInvalidate, FlushMode::CleanInvalidate, None)
    }

    /// The flush counter that the driver's LATEST_FLUSH page shows: the number of the last L2 flush.
    #[must_use]
    pub fn latest_flush(&self) -> u32 {
        self.flushes.load(Ordering::Relaxed)
    }

    /// Whether a flush may be skipped, since one has been done after the caller has read `seen` from the LATEST_FLUSH
    /// page. 0 asks for a flush in any case (panthor_drm.h, `drm_panthor_queue_submit.latest_flush`).
    #[must_use]
    pub fn flushed_since(&self, seen: u32) -> bool {
        seen != 0 && seen != self.latest_flush() && self.latest_flush().wrapping_sub(seen) < 1 << 31
    }

    /// Drops whatever is held of `len` bytes of host memory: must be called before the memory is freed, while no job
    /// runs. Dirty lines are lost; flush first where the data matter.
    pub fn release(&self, host: NonNull<u8>, len: usize) {
        let (start, end) = (host.as_ptr() as usize, host.as_ptr() as usize + len);
        let mut dropped = false;
        let mut address = start;
        while address < end {
            let frame = lock(&self.shards[Self::shard(address)]).remove(&address);
            dropped |= frame.is_some_and(|f| f.data().is_some());
            address += FRAME_BYTES;
        }
        if dropped {
            // Alive elsewhere only in the list itself.
            lock(&self.written).retain(|f| Arc::strong_count(f) > 1);
        }
    }

    /// Whether any line holds what memory does not: a finished job that left something unflushed.
    #[must_use]
    pub fn is_dirty(&self) -> bool {
        lock(&self.written).iter().any(|f| f.is_dirty())
    }
}
