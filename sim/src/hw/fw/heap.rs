//! A tiler without memory: CS_TILER_OOM, and what the host answers.
//!
//! There is no tiler, so nothing wants memory by itself: the fault `tiler-oom` makes a render pass want chunks when it
//! begins (HEAP_OPERATION), and the whole exchange with the driver runs (`panthor_sched.c`, `group_process_tiler_oom`;
//! `panthor_heap.c`, `panthor_heap_grow`). The chunks are not used for anything.

use mali_isa::csf::HeapOperation;

use super::Breach;
use super::layout::{cs, cs_in, cs_out};
use super::mcu::{Activity, Mcu, TURN_MASK};
use crate::csf::{Exception, heap};
use crate::hw::ctx::{Ctx, McuFault};

/// A chunk's size in its address, in units of [`CHUNK_UNIT`] (`panthor_heap_grow`).
const CHUNK_SIZE: u64 = 0xfff;
/// Bytes.
const CHUNK_UNIT: u64 = 4096;

impl Mcu {
    /// The stream's tiler wants so many chunks, one after another.
    pub(super) fn tiler_oom(
        &mut self,
        ctx: &mut Ctx<'_>,
        slot: usize,
        index: usize,
        chunks: u16,
    ) -> Result<(), McuFault> {
        let Some(stream) = self.stream(slot, index) else {
            return Ok(());
        };
        stream.oom = chunks;
        stream.activity = Activity::Held;
        stream.turn = (stream.turn + 1) & TURN_MASK;
        self.ask_for_chunk(ctx, slot, index)
    }

    /// Raises TILER_OOM with the heap's counters. What cannot be read of them is 0, which the driver refuses.
    pub(super) fn ask_for_chunk(
        &mut self,
        ctx: &mut Ctx<'_>,
        slot: usize,
        index: usize,
    ) -> Result<(), McuFault> {
        let Some(space) = self.resident(slot).map(|group| group.space) else {
            return Ok(());
        };
        let context = self
            .stream(slot, index)
            .and_then(|stream| stream.queue.heap())
            .unwrap_or(0);
        let out = cs_out(slot, index);
        for (place, operation) in [
            (cs_out::HEAP_VT_START, HeapOperation::VertexTilerStarted),
            (cs_out::HEAP_VT_END, HeapOperation::VertexTilerCompleted),
            (cs_out::HEAP_FRAG_END, HeapOperation::FragmentCompleted),
        ] {
            let count = ctx.read32_in(space, heap::counter(context, operation));
            ctx.write32(out + place, count.unwrap_or(0))?;
        }
        ctx.write64(out + cs_out::HEAP_ADDRESS, context)?;
        self.stream_event(ctx, slot, index, cs::TILER_OOM)
    }

    /// The host has acknowledged TILER_OOM: `heap_start` is a chunk, or 0 where there is none. Then the stream's exception
    /// handler runs; a stream without one is at fault.
    pub(super) fn chunk_answered(
        &mut self,
        ctx: &mut Ctx<'_>,
        slot: usize,
        index: usize,
    ) -> Result<(), McuFault> {
        let chunk = ctx.read64(cs_in(slot, index) + cs_in::HEAP_START)?;
        let Some(space) = self.resident(slot).map(|group| group.space) else {
            return Ok(());
        };
        let Some(stream) = self.stream(slot, index) else {
            return Ok(());
        };
        let context = stream.queue.heap().unwrap_or(0);
        if chunk == 0 {
            stream.oom = 0;
            if stream.queue.call_oom_handler() {
                log::info!("stream {slot}.{index}: no chunk, the exception handler runs");
                return Ok(());
            }
            return self.fatal(ctx, slot, index, Exception::Oom.code(), context);
        }
        let bytes = (chunk & CHUNK_SIZE) * CHUNK_UNIT;
        let first = chunk & !CHUNK_SIZE;
        let last = first.wrapping_add(bytes.saturating_sub(CHUNK_UNIT));
        let there = bytes != 0
            && last >= first
            && [first, last]
                .into_iter()
                .all(|page| ctx.read32_in(space, page).is_ok());
        if !there {
            ctx.violation(Breach::Chunk(slot, index, chunk).to_string());
            stream.oom = 0;
            return self.fatal(ctx, slot, index, Exception::CsConfigFault.code(), chunk);
        }
        stream.oom -= 1;
        if stream.oom != 0 {
            return self.ask_for_chunk(ctx, slot, index);
        }
        Ok(())
    }
}
