//! One 4 KiB frame of host memory and what the GPU's caches hold of it.

use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};

use super::order::{AgentSet, CoreMark, Mark, PAST_LSC};

/// Bytes of a frame: the smallest page the GPU's MMU has (AArch64 4K granule; panthor_mmu.c, `SZ_4K`).
pub(super) const FRAME_BYTES: usize = 4096;

/// Bytes of a cache line of the L2 and the load-store caches. Source: the reference sheet (Valhall guide), and the
/// driver's `l2_features` on a Mali-G610, log2 line size 6.
pub const LINE_BYTES: usize = 64;

const LINES: usize = FRAME_BYTES / LINE_BYTES;
const WORDS: usize = FRAME_BYTES / 4;
const LINE_WORDS: usize = LINE_BYTES / 4;

/// The caches hold a copy of the line.
const PRESENT: u8 = 1;
/// One thread is making the copy.
const FILLING: u8 = 2;
/// A shader core's load-store cache holds data that the L2 does not.
const LSC_DIRTY: u8 = 4;
/// The L2 holds data that memory does not.
const L2_DIRTY: u8 = 8;

/// A frame of host memory, with a copy of the lines that the GPU has written.
#[derive(Debug)]
pub(super) struct Frame {
    host: NonNull<AtomicU32>,
    data: OnceLock<Box<FrameData>>,
}

// SAFETY: the host words are only accessed as atomics, and the address space promises that the page stays valid until
// it is released from the caches (`Caches::release`).
unsafe impl Send for Frame {}
// SAFETY: as for `Send`.
unsafe impl Sync for Frame {}

#[derive(Debug)]
pub(super) struct FrameData {
    words: [AtomicU32; WORDS],
    /// Last writer of each word, and the cores that wrote its bytes.
    writers: [AtomicU64; WORDS],
    /// Last reader of each word, and the cores that read its bytes.
    readers: [AtomicU64; WORDS],
    lines: [AtomicU8; LINES],
    /// Whether any line is present.
    used: AtomicBool,
}

impl Frame {
    /// `host` must be aligned to 4 and stay valid for 4096 bytes.
    pub(super) fn new(host: NonNull<AtomicU32>) -> Self {
        Self {
            host,
            data: OnceLock::new(),
        }
    }

    fn host_word(&self, word: usize) -> &AtomicU32 {
        debug_assert!(word < WORDS);
        // SAFETY: `word` is within the frame, whose 4096 bytes the address space keeps valid and which nobody
        // accesses other than atomically or volatile.
        unsafe { self.host.add(word).as_ref() }
    }

    /// A word of memory, past the caches.
    #[inline]
    pub(super) fn memory(&self, word: usize) -> u32 {
        u32::from_le(self.host_word(word).load(Ordering::Relaxed))
    }

    /// Writes the bytes of `mask` (0xff for each byte) into a word of memory, past the caches.
    pub(super) fn set_memory(&self, word: usize, value: u32, mask: u32) {
        merge(self.host_word(word), value, mask);
    }

    /// What the GPU has written of the frame, if anything.
    #[inline]
    pub(super) fn data(&self) -> Option<&FrameData> {
        self.data.get().map(|d| &**d)
    }

    /// The same, made if there is none; tells whether it was made now.
    pub(super) fn data_or_new(&self) -> (&FrameData, bool) {
        let mut new = false;
        let data = self.data.get_or_init(|| {
            new = true;
            Box::new(FrameData::new())
        });
        (data, new)
    }

    /// A word as the GPU's caches hold it.
    #[inline]
    pub(super) fn cached(&self, data: &FrameData, word: usize) -> u32 {
        if data.lines[word / LINE_WORDS].load(Ordering::Acquire) & PRESENT != 0 {
            data.words[word].load(Ordering::Relaxed)
        } else {
            self.memory(word)
        }
    }

    /// Writes the bytes of `mask` into a cached word, which makes its line dirty.
    #[inline]
    pub(super) fn set_cached(
        &self,
        data: &FrameData,
        word: usize,
        value: u32,
        mask: u32,
        past_lsc: bool,
    ) {
        let line = word / LINE_WORDS;
        let flags = self.fill(data, line);
        if mask == !0 {
            data.words[word].store(value, Ordering::Relaxed);
        } else {
            merge_native(&data.words[word], value, mask);
        }
        let dirty = if past_lsc { L2_DIRTY } else { LSC_DIRTY };
        if flags & dirty == 0 {
            data.lines[line].fetch_or(dirty, Ordering::AcqRel);
            data.used.store(true, Ordering::Release);
        }
    }

    /// Makes the line present and gives its flags.
    fn fill(&self, data: &FrameData, line: usize) -> u8 {
        let flags = &data.lines[line];
        loop {
            let now = flags.load(Ordering::Acquire);
            if now & PRESENT != 0 {
                return now;
            }
            if now & FILLING != 0 {
                std::hint::spin_loop();
                continue;
            }
            if flags
                .compare_exchange(now, now | FILLING, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
            {
                for word in line * LINE_WORDS..(line + 1) * LINE_WORDS {
                    data.words[word].store(self.memory(word), Ordering::Relaxed);
                }
                // Only the filling thread changes the flags of a line that is not present.
                flags.store((now & !FILLING) | PRESENT, Ordering::Release);
                return now | PRESENT;
            }
        }
    }

    /// Cleans, and drops where asked, the lines whose writers are in `done`. Runs while no job does.
    pub(super) fn flush(
        &self,
        clean_lsc: bool,
        clean_l2: bool,
        drop_l2: bool,
        done: Option<&AgentSet>,
    ) -> u32 {
        let Some(data) = self.data() else { return 0 };
        if !data.used.load(Ordering::Acquire) {
            return 0;
        }
        let is_done = |word: usize| {
            let agent = data.writer(word).agent & !PAST_LSC;
            agent == 0 || done.is_none_or(|d| d.contains(agent))
        };
        let (mut cleaned, mut used) = (0, false);
        for line in 0..LINES {
            let mut flags = data.lines[line].load(Ordering::Acquire);
            if flags & PRESENT == 0 {
                continue;
            }
            let words = line * LINE_WORDS..(line + 1) * LINE_WORDS;
            let all_done = words.clone().all(is_done);
            if clean_lsc && flags & LSC_DIRTY != 0 {
                // A word whose writer still runs keeps the line dirty in that core's cache.
                flags |= L2_DIRTY;
                if all_done {
                    flags &= !LSC_DIRTY;
                }
            }
            if clean_l2 && flags & L2_DIRTY != 0 {
                for word in words {
                    // The whole line goes, also words that the GPU has not written: the CPU must not write beside it.
                    if is_done(word) {
                        self.set_memory(word, data.words[word].load(Ordering::Relaxed), !0);
                    }
                }
                cleaned += 1;
                if all_done {
                    flags &= !L2_DIRTY;
                }
            }
            if drop_l2 && flags & (LSC_DIRTY | L2_DIRTY) == 0 {
                flags = 0;
            }
            used |= flags != 0;
            data.lines[line].store(flags, Ordering::Release);
        }
        data.used.store(used, Ordering::Release);
        cleaned
    }

    /// Whether any line holds what memory does not.
    pub(super) fn is_dirty(&self) -> bool {
        self.data().is_some_and(|d| {
            d.lines
                .iter()
                .any(|l| l.load(Ordering::Acquire) & (LSC_DIRTY | L2_DIRTY) != 0)
        })
    }
}

impl FrameData {
    fn new() -> Self {
        Self {
            words: [const { AtomicU32::new(0) }; WORDS],
            writers: [const { AtomicU64::new(0) }; WORDS],
            readers: [const { AtomicU64::new(0) }; WORDS],
            lines: [const { AtomicU8::new(0) }; LINES],
            used: AtomicBool::new(false),
        }
    }

    #[inline]
    pub(super) fn writer(&self, word: usize) -> Mark {
        Mark::unpack(self.writers[word].load(Ordering::Relaxed))
    }

    /// Notes that `core` of the agent has written the bytes of `mask`.
    #[inline]
    pub(super) fn set_writer(&self, word: usize, agent: u32, core: CoreMark, mask: u32) {
        let place = &self.writers[word];
        let old = place.load(Ordering::Relaxed);
        let new = Mark::unpack(old).written(agent, core, mask).pack();
        if new != old {
            // Another core at the same word may be forgotten here: a race is then not seen, never one invented.
            place.store(new, Ordering::Relaxed);
        }
    }

    #[inline]
    pub(super) fn reader(&self, word: usize) -> Mark {
        Mark::unpack(self.readers[word].load(Ordering::Relaxed))
    }

    /// Notes that `core` of the agent has read the bytes of `mask`.
    #[inline]
    pub(super) fn set_reader(&self, word: usize, agent: u32, core: CoreMark, mask: u32) {
        let place = &self.readers[word];
        let old = place.load(Ordering::Relaxed);
        // Mostly the same reader again.
        let whole = Mark {
            agent,
            cores: core.everywhere(),
        };
        if old == whole.pack() {
            return;
        }
        let new = Mark::unpack(old).read(agent, core, mask).pack();
        if new != old {
            place.store(new, Ordering::Relaxed);
        }
    }
}

/// Merges into a word that lies in memory as the GPU sees it, little-endian.
fn merge(word: &AtomicU32, value: u32, mask: u32) {
    if mask == !0 {
        word.store(value.to_le(), Ordering::Relaxed);
    } else {
        // Always some, so that the update cannot fail.
        let _ = word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |old| {
            Some(((u32::from_le(old) & !mask) | (value & mask)).to_le())
        });
    }
}

/// Merges into a word of the copy, which is kept in the host's own byte order.
fn merge_native(word: &AtomicU32, value: u32, mask: u32) {
    // Always some, so that the update cannot fail.
    let _ = word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |old| {
        Some((old & !mask) | (value & mask))
    });
}
