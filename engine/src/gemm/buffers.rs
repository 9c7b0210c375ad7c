//! Working buffers, kept for the next product.

use std::sync::Arc;

use panthor_uapi::Syncobj;

use crate::memory::{Buffer, Memory, MemoryError, Use};

/// Free data buffers. A buffer is in here only while no unfinished job reads or writes it.
#[derive(Debug, Default)]
pub(super) struct Pool {
    free: Vec<Buffer>,
}

/// How much larger than needed a reused buffer may be.
const SLACK: u64 = 4;

/// Buffers kept at most.
const KEPT: usize = 16;

/// Sizes are rounded up to this, so that small buffers are alike.
const GRANULE: u64 = 64 << 10;

impl Pool {
    /// A data buffer of at least `size` bytes with any content.
    pub(super) fn take(
        &mut self,
        memory: &Memory,
        what: &str,
        size: u64,
    ) -> Result<Buffer, MemoryError> {
        let size = size.max(1).next_multiple_of(GRANULE);
        let best = (0..self.free.len())
            .filter(|i| (size..=size * SLACK).contains(&self.free[*i].size()))
            .min_by_key(|i| self.free[*i].size());
        match best {
            Some(i) => Ok(self.free.swap_remove(i)),
            None => memory.allocate(what, size, Use::Data).or_else(|error| {
                // What is kept may be what is missing.
                if self.free.is_empty() {
                    return Err(error);
                }
                self.free.clear();
                memory.allocate(what, size, Use::Data)
            }),
        }
    }

    /// Takes a buffer back.
    pub(super) fn give_back(&mut self, buffer: Buffer) {
        self.free.push(buffer);
        if self.free.len() > KEPT {
            self.free.remove(0);
        }
    }
}

/// What the jobs of a lost engine may still use: mapped until the engine, and before it its group, is dropped.
#[derive(Debug, Default)]
pub(super) struct Retained {
    buffers: Vec<Arc<Buffer>>,
    statuses: Vec<Syncobj>,
}

impl Retained {
    /// Keeps buffers.
    pub(super) fn keep(&mut self, buffers: impl IntoIterator<Item = Buffer>) {
        self.buffers.extend(buffers.into_iter().map(Arc::new));
    }

    /// Keeps a buffer that others own too.
    pub(super) fn keep_shared(&mut self, buffer: &Arc<Buffer>) {
        self.buffers.push(buffer.clone());
    }

    /// Keeps status syncobjs, by which the jobs' ends can still be told.
    pub(super) fn keep_statuses(&mut self, statuses: Vec<Syncobj>) {
        self.statuses.extend(statuses);
    }
}
