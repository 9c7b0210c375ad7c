//! One core's (or stream's) way to memory: translation, caches, and the checks of order.

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use thiserror::Error;

use super::caches::Caches;
use super::frame::{FRAME_BYTES, Frame, FrameData};
use super::order::{CoreMark, Order, PAST_LSC, View};
use super::{Access, AddressSpace, MmuFault, MmuFaultKind};
use crate::shader::{MemoryPort, ShaderMemory, WARP_LANES};

/// Why an access to memory failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum MemoryError {
    /// The MMU refused it.
    #[error(transparent)]
    Mmu(#[from] MmuFault),
    /// Code in a page that stores can change: what runs is undefined.
    #[error("instruction fetch at {va:#x} from a writable page")]
    WritableCode {
        /// Address of the fetch.
        va: u64,
    },
    /// Data that is still in the CPU's caches.
    #[error(
        "read at {va:#x} of what the CPU wrote through a cached mapping and did not flush (BO_SYNC)"
    )]
    CpuDirty {
        /// Address of the read.
        va: u64,
    },
    /// Data of an agent that nobody has waited for.
    #[error(
        "read at {va:#x} of what agent {writer} wrote, by agent {reader}, without a wait between them"
    )]
    ReadBeforeWait {
        /// Address of the word.
        va: u64,
        /// Who wrote.
        writer: u32,
        /// Who reads.
        reader: u32,
    },
    /// Data of a job that was waited for, but no flush has made visible to other cores.
    #[error(
        "read at {va:#x} of what job {writer} wrote, by agent {reader}, without a load-store-cache flush between them"
    )]
    ReadBeforeFlush {
        /// Address of the word.
        va: u64,
        /// Who wrote.
        writer: u32,
        /// Who reads.
        reader: u32,
    },
    /// Two agents write the same word and nobody has waited between them.
    #[error(
        "store at {va:#x} by agent {writer} over what agent {other} wrote, without a wait (and flush) between them"
    )]
    WriteBeforeWait {
        /// Address of the word.
        va: u64,
        /// Who wrote first.
        other: u32,
        /// Who writes.
        writer: u32,
    },
    /// A word is overwritten while an agent that has read it may still read it.
    #[error(
        "store at {va:#x} by agent {writer} over what agent {reader} reads, without a wait between them"
    )]
    WriteBeforeRead {
        /// Address of the word.
        va: u64,
        /// Who reads.
        reader: u32,
        /// Who writes.
        writer: u32,
    },
    /// Each core has its own load-store cache: within a job only atomics and uncached mappings pass data between cores.
    #[error(
        "read at {va:#x} by core {core} of what core {other} wrote in the same job {job}, without an atomic"
    )]
    ReadAcrossCores {
        /// Address of the word.
        va: u64,
        /// The job.
        job: u32,
        /// Index of the core that reads, among the present ones.
        core: u32,
        /// Index of the core that wrote.
        other: u32,
    },
    /// The same, the other way round: the reader may see the old value or the new one.
    #[error(
        "store at {va:#x} by core {core} over what another core read in the same job {job}, without an atomic"
    )]
    WriteAcrossCores {
        /// Address of the word.
        va: u64,
        /// The job.
        job: u32,
        /// Index of the core that writes, among the present ones.
        core: u32,
    },
    /// The address space gave a page that does not start at a multiple of eight in the host.
    #[error("the page at {va:#x} lies misaligned in the host")]
    HostAlignment {
        /// GPU address.
        va: u64,
    },
}

/// The memory of one job: implements [`ShaderMemory`].
#[derive(Debug)]
pub struct JobMemory<'a, A> {
    space: &'a A,
    caches: &'a Caches,
    view: Arc<View>,
}

impl<'a, A: AddressSpace> JobMemory<'a, A> {
    /// Memory as the agent of `view` sees it through `space`.
    #[must_use]
    pub fn new(space: &'a A, caches: &'a Caches, view: View) -> Self {
        Self {
            space,
            caches,
            view: Arc::new(view),
        }
    }

    /// A port of no core in particular.
    #[must_use]
    pub fn new_port(&self) -> Port<'a, A> {
        Port::new(self.space, self.caches, self.view.clone())
    }
}

impl<'a, A: AddressSpace> ShaderMemory for JobMemory<'a, A> {
    type Port = Port<'a, A>;
    fn port(&self, core: u32) -> Port<'a, A> {
        let mut port = self.new_port();
        if self.view.rule != super::LscRule::Coherent {
            port.core = CoreMark::new(core);
        }
        port
    }
}

/// Entries of a port's translation cache.
const TLB_ENTRIES: usize = 256;

#[derive(Debug)]
struct Entry {
    page: u64,
    writable: bool,
    uncached: bool,
    cpu_dirty: u64,
    frame: Arc<Frame>,
}

/// One way to memory, with its own translation cache. Mappings must not change while it lives.
#[derive(Debug)]
pub struct Port<'a, A> {
    space: &'a A,
    caches: &'a Caches,
    view: Arc<View>,
    /// The core, where races between the cores of one job are looked for.
    core: CoreMark,
    tlb: Vec<Option<Entry>>,
}

impl<'a, A: AddressSpace> Port<'a, A> {
    /// A port for the agent of `view`.
    #[must_use]
    pub fn new(space: &'a A, caches: &'a Caches, view: Arc<View>) -> Self {
        let mut tlb = Vec::new();
        tlb.resize_with(TLB_ENTRIES, || None);
        Self {
            space,
            caches,
            view,
            core: CoreMark::NONE,
            tlb,
        }
    }

    /// Goes on as another agent.
    pub fn set_view(&mut self, view: Arc<View>) {
        self.view = view;
    }

    #[inline]
    fn entry(&mut self, va: u64, write: bool) -> Result<usize, MemoryError> {
        let page = va / FRAME_BYTES as u64;
        let slot = (page ^ (page >> 8)) as usize % TLB_ENTRIES;
        match &self.tlb[slot] {
            Some(e) if e.page == page && (e.writable || !write) => Ok(slot),
            _ => self.miss(va, slot, write),
        }
    }

    #[cold]
    fn miss(&mut self, va: u64, slot: usize, write: bool) -> Result<usize, MemoryError> {
        let access = if write { Access::Write } else { Access::Read };
        let page = self.space.translate(va, access)?;
        if write && !page.writable {
            return Err(MmuFault {
                va,
                access,
                kind: MmuFaultKind::Permission,
            }
            .into());
        }
        self.tlb[slot] = Some(Entry {
            page: va / FRAME_BYTES as u64,
            writable: page.writable,
            uncached: page.uncached,
            cpu_dirty: page.cpu_dirty,
            frame: self.frame_of(va, &page)?,
        });
        Ok(slot)
    }

    fn frame_of(&self, va: u64, page: &super::Page) -> Result<Arc<Frame>, MemoryError> {
        let offset = (va & (page.size - 1)) as usize & !(FRAME_BYTES - 1);
        // SAFETY: the offset lies within the page, which the address space keeps valid for `size` bytes.
        let host: NonNull<AtomicU32> = unsafe { page.host.add(offset) }.cast();
        if host.as_ptr() as usize % 8 != 0 {
            return Err(MemoryError::HostAlignment { va });
        }
        Ok(self.caches.frame(host))
    }

    /// Refuses to read lines that the CPU has written and not brought to memory.
    #[cold]
    fn check_cpu(dirty: u64, va: u64, len: usize) -> Result<(), MemoryError> {
        let first = va as usize % FRAME_BYTES / super::LINE_BYTES;
        let last = (va as usize % FRAME_BYTES + len - 1) / super::LINE_BYTES;
        if (first..=last.min(63)).any(|line| dirty >> line & 1 != 0) {
            return Err(MemoryError::CpuDirty { va });
        }
        Ok(())
    }

    /// Checks the order of a read of the bytes of `mask` in one word and marks it as read.
    #[inline]
    fn check_read(
        view: &View,
        core: CoreMark,
        data: &FrameData,
        word: usize,
        va: u64,
        mask: u32,
    ) -> Result<(), MemoryError> {
        let writer = data.writer(word);
        if writer.agent == view.tag {
            if let Some(other) = writer.other_core(core, mask) {
                return Err(MemoryError::ReadAcrossCores {
                    va,
                    job: view.tag & !PAST_LSC,
                    core: core.index().unwrap_or(u32::MAX),
                    other: other.index().unwrap_or(u32::MAX),
                });
            }
        } else {
            match view.order(writer.agent) {
                Order::Good => {}
                order => return Err(Self::bad_read(view, order, writer.agent, va)),
            }
        }
        data.set_reader(word, view.tag, core, mask);
        Ok(())
    }

    #[cold]
    fn bad_read(view: &View, order: Order, writer: u32, va: u64) -> MemoryError {
        let (writer, reader) = (writer & !PAST_LSC, view.tag & !PAST_LSC);
        match order {
            Order::Unflushed => MemoryError::ReadBeforeFlush { va, writer, reader },
            _ => MemoryError::ReadBeforeWait { va, writer, reader },
        }
    }

    /// Checks the order of a write of the bytes of `mask` in one word and marks it as written.
    #[inline]
    fn check_write(
        view: &View,
        core: CoreMark,
        data: &FrameData,
        word: usize,
        va: u64,
        tag: u32,
        mask: u32,
    ) -> Result<(), MemoryError> {
        let other = data.writer(word).agent;
        if other != tag {
            // Bytes beside the written ones stay: only whoever wrote last is remembered, so order is needed.
            if view.order(other) != Order::Good && !Self::may_overwrite(view, other) {
                let (other, writer) = (other & !PAST_LSC, tag & !PAST_LSC);
                return Err(MemoryError::WriteBeforeWait { va, other, writer });
            }
        }
        let reader = data.reader(word);
        if reader.agent == tag {
            if reader.other_core(core, mask).is_some() {
                return Err(MemoryError::WriteAcrossCores {
                    va,
                    job: tag,
                    core: core.index().unwrap_or(u32::MAX),
                });
            }
        } else if !view.done(reader.agent) {
            let (reader, writer) = (reader.agent & !PAST_LSC, tag & !PAST_LSC);
            return Err(MemoryError::WriteBeforeRead { va, reader, writer });
        }
        data.set_writer(word, tag, core, mask);
        Ok(())
    }

    /// Only where each core's cache is its own must a flush lie between two writes of different jobs.
    #[cold]
    fn may_overwrite(view: &View, other: u32) -> bool {
        view.rule != super::LscRule::Private && view.done(other)
    }

    /// Reads within the entry's page.
    #[inline]
    fn load_from<const N: usize>(
        entry: &Entry,
        view: &View,
        core: CoreMark,
        va: u64,
    ) -> Result<[u8; N], MemoryError> {
        let offset = va as usize % FRAME_BYTES;
        if entry.cpu_dirty != 0 {
            Self::check_cpu(entry.cpu_dirty, va, N)?;
        }
        let frame = &*entry.frame;
        let Some(data) = frame.data() else {
            // Never written by the GPU: weights, code, descriptors.
            return Ok(assemble(offset, |word| frame.memory(word)));
        };
        let core = if entry.uncached { CoreMark::NONE } else { core };
        for (i, word) in (offset / 4..(offset + N).div_ceil(4)).enumerate() {
            let mask = covered(offset, N, word);
            Self::check_read(view, core, data, word, va - (va % 4) + 4 * i as u64, mask)?;
        }
        Ok(if entry.uncached {
            assemble(offset, |word| frame.memory(word))
        } else {
            assemble(offset, |word| frame.cached(data, word))
        })
    }

    /// Reads bytes one by one, across pages.
    #[cold]
    fn load_split<const N: usize>(&mut self, va: u64) -> Result<[u8; N], MemoryError> {
        let mut bytes = [0; N];
        for (i, byte) in bytes.iter_mut().enumerate() {
            let [b] = self.load::<1>(va.wrapping_add(i as u64))?;
            *byte = b;
        }
        Ok(bytes)
    }

    /// Copies `len` bytes from the caches to memory, as a write with system scope does: words of other writers in the
    /// same line stay where they are. Address and length must be multiples of 4.
    ///
    /// # Errors
    /// [`MemoryError`] where an address is not mapped.
    pub fn write_through(&mut self, va: u64, len: usize) -> Result<(), MemoryError> {
        for at in (0..len as u64).step_by(4) {
            let va = va.wrapping_add(at);
            let slot = self.entry(va, true)?;
            if let Some(Entry {
                frame,
                uncached: false,
                ..
            }) = &self.tlb[slot]
            {
                if let Some(data) = frame.data() {
                    let word = va as usize % FRAME_BYTES / 4;
                    frame.set_memory(word, frame.cached(data, word), !0);
                }
            }
        }
        Ok(())
    }

    /// Applies `change` to the words of `len` bytes at `va` within one frame: it gets the word's index from the first,
    /// the old word if `read`, and gives the new one and the mask of bytes to change.
    fn modify(
        &mut self,
        va: u64,
        len: usize,
        read: bool,
        change: &mut dyn FnMut(usize, u32) -> (u32, u32),
    ) -> Result<(), MemoryError> {
        let slot = self.entry(va, true)?;
        let Some(entry) = &self.tlb[slot] else {
            return Err(MmuFault {
                va,
                access: Access::Write,
                kind: MmuFaultKind::Translation,
            }
            .into());
        };
        let frame = &entry.frame;
        let (data, new) = frame.data_or_new();
        if new {
            self.caches.note_written(frame);
        }
        let view = &*self.view;
        let (tag, core) = if entry.uncached {
            (view.tag | PAST_LSC, CoreMark::NONE)
        } else {
            (view.tag, self.core)
        };
        let offset = va as usize % FRAME_BYTES;
        for (index, word) in (offset / 4..(offset + len).div_ceil(4)).enumerate() {
            let word_va = va - (va % 4) + 4 * index as u64;
            let covered = covered(offset, len, word);
            if read {
                Self::check_read(view, core, data, word, word_va, covered)?;
            }
            if view.tag != 0 {
                Self::check_write(view, core, data, word, word_va, tag, covered)?;
            }
            let old = match (read, entry.uncached) {
                (false, _) => 0,
                (true, true) => frame.memory(word),
                (true, false) => frame.cached(data, word),
            };
            let (value, mask) = change(index, old);
            if entry.uncached {
                frame.set_memory(word, value, mask);
            } else {
                frame.set_cached(data, word, value, mask, tag & PAST_LSC != 0);
            }
        }
        Ok(())
    }
}

/// The bytes of word `word` that `len` bytes from byte `offset` on cover, 0xff for each.
#[inline(always)]
fn covered(offset: usize, len: usize, word: usize) -> u32 {
    if offset % 4 == 0 && len % 4 == 0 {
        return !0;
    }
    let start = 4 * word;
    let low = offset.saturating_sub(start).min(4) as u32;
    let high = (offset + len).saturating_sub(start).min(4) as u32;
    let below = |bytes: u32| ((1u64 << (8 * bytes)) - 1) as u32;
    below(high) & !below(low)
}

/// The `N` bytes from byte `offset` on, out of little-endian words.
#[inline(always)]
fn assemble<const N: usize>(offset: usize, word: impl Fn(usize) -> u32) -> [u8; N] {
    let mut bytes = [0; N];
    if offset % 4 == 0 && N % 4 == 0 {
        for (i, chunk) in bytes.chunks_exact_mut(4).enumerate() {
            chunk.copy_from_slice(&word(offset / 4 + i).to_le_bytes());
        }
    } else {
        for (i, byte) in bytes.iter_mut().enumerate() {
            *byte = (word((offset + i) / 4) >> (8 * ((offset + i) % 4))) as u8;
        }
    }
    bytes
}

impl<A: AddressSpace> MemoryPort for Port<'_, A> {
    type Error = MemoryError;

    #[inline]
    fn load<const N: usize>(&mut self, va: u64) -> Result<[u8; N], MemoryError> {
        let offset = va as usize % FRAME_BYTES;
        if offset + N > FRAME_BYTES {
            return self.load_split(va);
        }
        let slot = self.entry(va, false)?;
        let Some(entry) = &self.tlb[slot] else {
            return Err(MmuFault {
                va,
                access: Access::Read,
                kind: MmuFaultKind::Translation,
            }
            .into());
        };
        Self::load_from(entry, &self.view, self.core, va)
    }

    fn load_lanes<const N: usize>(
        &mut self,
        va: &[u64; WARP_LANES],
        lanes: u16,
        out: &mut [[u8; N]; WARP_LANES],
    ) -> Result<(), (u8, MemoryError)> {
        let place = |va: u64| {
            (
                va / FRAME_BYTES as u64,
                va as usize % FRAME_BYTES + N <= FRAME_BYTES,
            )
        };
        let mut left = lanes;
        while left != 0 {
            let lane = left.trailing_zeros() as usize;
            let (page, whole) = place(va[lane]);
            if !whole {
                out[lane] = self.load(va[lane]).map_err(|error| (lane as u8, error))?;
                left &= left - 1;
                continue;
            }
            let slot = self
                .entry(va[lane], false)
                .map_err(|error| (lane as u8, error))?;
            let Some(entry) = &self.tlb[slot] else {
                let fault = MmuFault {
                    va: va[lane],
                    access: Access::Read,
                    kind: MmuFaultKind::Translation,
                };
                return Err((lane as u8, fault.into()));
            };
            // The lanes that follow on the same page need no translation of their own.
            while left != 0 {
                let lane = left.trailing_zeros() as usize;
                if place(va[lane]) != (page, true) {
                    break;
                }
                out[lane] = Self::load_from(entry, &self.view, self.core, va[lane])
                    .map_err(|error| (lane as u8, error))?;
                left &= left - 1;
            }
        }
        Ok(())
    }

    fn store<const N: usize>(&mut self, va: u64, bytes: [u8; N]) -> Result<(), MemoryError> {
        let offset = va as usize % FRAME_BYTES;
        if offset + N > FRAME_BYTES {
            for (i, byte) in bytes.iter().enumerate() {
                self.store(va.wrapping_add(i as u64), [*byte])?;
            }
            return Ok(());
        }
        let first = offset % 4;
        self.modify(va, N, false, &mut |index, _| {
            let (mut value, mut mask) = (0u32, 0u32);
            for byte in 0..4 {
                if let Some(b) = (4 * index + byte)
                    .checked_sub(first)
                    .and_then(|i| bytes.get(i))
                {
                    value |= u32::from(*b) << (8 * byte);
                    mask |= 0xff << (8 * byte);
                }
            }
            (value, mask)
        })
    }

    fn atomic32(&mut self, va: u64, f: &mut dyn FnMut(u32) -> u32) -> Result<u32, MemoryError> {
        let slot = self.entry(va, true)?;
        let frame = self.tlb[slot].as_ref().map(|e| e.frame.clone());
        let _guard = frame.as_ref().map(|frame| {
            self.caches
                .atomic_guard(frame, va as usize % FRAME_BYTES / 4)
        });
        // The L2 carries out atomics: they need no order between cores.
        let core = std::mem::replace(&mut self.core, CoreMark::NONE);
        let mut before = 0;
        let done = self.modify(va & !3, 4, true, &mut |_, old| {
            before = old;
            (f(old), !0)
        });
        self.core = core;
        done.map(|()| before)
    }

    fn atomic64(&mut self, va: u64, f: &mut dyn FnMut(u64) -> u64) -> Result<u64, MemoryError> {
        let va = va & !7;
        let slot = self.entry(va, true)?;
        let frame = self.tlb[slot].as_ref().map(|e| e.frame.clone());
        let _guard = frame.as_ref().map(|frame| {
            self.caches
                .atomic_guard(frame, va as usize % FRAME_BYTES / 4)
        });
        let core = std::mem::replace(&mut self.core, CoreMark::NONE);
        let done = self.load(va).map(u64::from_le_bytes).and_then(|before| {
            self.store(va, f(before).to_le_bytes())?;
            Ok(before)
        });
        self.core = core;
        done
    }

    fn fetch(&mut self, va: u64) -> Result<u64, MemoryError> {
        // Fetches are decoded once per program: no need to remember the translation for execution.
        let page = self.space.translate(va, Access::Execute)?;
        if !page.executable {
            return Err(MmuFault {
                va,
                access: Access::Execute,
                kind: MmuFaultKind::Permission,
            }
            .into());
        }
        if page.writable {
            return Err(MemoryError::WritableCode { va });
        }
        if page.cpu_dirty != 0 {
            Self::check_cpu(page.cpu_dirty, va, size_of::<u64>())?;
        }
        let frame = self.frame_of(va, &page)?;
        let view = &*self.view;
        let mut word = 0;
        for half in 0..2 {
            let place = (va as usize % FRAME_BYTES) / 4 + half;
            let value = match frame.data() {
                None => frame.memory(place),
                Some(data) => {
                    let va = va + 4 * half as u64;
                    Self::check_read(view, CoreMark::NONE, data, place, va, !0)?;
                    if page.uncached {
                        frame.memory(place)
                    } else {
                        frame.cached(data, place)
                    }
                }
            };
            word |= u64::from(value) << (32 * half);
        }
        Ok(word)
    }
}
