//! Stream slots: START, STOP, answers to faults, doorbells.

use super::Breach;
use super::layout::{STREAMS, cs, cs_in, cs_out, ring};
use super::mcu::{Activity, Mcu, Running, SLICE, Stream};
use crate::csf::{Exception, Queue};
use crate::hw::ctx::{Ctx, McuFault};

/// Rings begin at a page (`panthor_kernel_bo_create` gives nothing less).
const RING_ALIGNMENT: u64 = 4096;
/// Bits 8 to 15 of a stream's `config`.
const DOORBELL_SHIFT: u32 = 8;

impl Mcu {
    /// The host has rung for a stream slot.
    pub(super) fn stream_doorbell(
        &mut self,
        ctx: &mut Ctx<'_>,
        slot: usize,
        stream: usize,
    ) -> Result<(), McuFault> {
        self.release_stream(ctx, slot, stream)?;
        let req = ctx.read32(cs_in(slot, stream) + cs_in::REQ)?;
        let changed = req ^ self.slots[slot].streams[stream].done;
        let mut acknowledged = changed & cs::CONFIG;
        let mut started = false;
        if changed & cs::STATE_MASK != 0 {
            match req & cs::STATE_MASK {
                cs::START => {
                    started = self.start_stream(ctx, slot, stream)?;
                    acknowledged |= if started { cs::STATE_MASK } else { 0 };
                }
                cs::STOP => {
                    if let Some(group) = self.resident(slot) {
                        group.streams[stream] = None;
                    }
                    acknowledged |= cs::STATE_MASK;
                }
                state => ctx.violation(Breach::NoStreamState(slot, stream, state).to_string()),
            }
        }
        if acknowledged != 0 {
            self.acknowledge_stream(ctx, slot, stream, req, acknowledged)?;
        }
        let pending = req ^ ctx.read32(cs_out(slot, stream) + cs_out::ACK)?;
        let Some(running) = self.stream(slot, stream) else {
            return Ok(());
        };
        running.faulted &= pending & cs::FAULT != 0;
        if running.oom != 0 && pending & cs::TILER_OOM == 0 {
            self.chunk_answered(ctx, slot, stream)?;
        }
        let Some(running) = self.stream(slot, stream) else {
            return Ok(());
        };
        let wanted = match running.activity {
            Activity::Held => !running.faulted && running.oom == 0,
            Activity::Idle | Activity::Blocked(_) | Activity::Progress => true,
            _ => started,
        };
        if wanted {
            self.go(ctx, slot, stream)?;
        }
        Ok(())
    }

    /// A doorbell page of streams was written: those that have it look at their rings.
    pub(super) fn user_doorbell(&mut self, ctx: &mut Ctx<'_>, id: u8) -> Result<(), McuFault> {
        self.go_all(ctx, |stream| {
            stream.doorbell == id
                && matches!(
                    stream.activity,
                    Activity::Idle | Activity::Blocked(_) | Activity::Progress
                )
        })
    }

    /// START. Whether a stream is on the slot now.
    fn start_stream(
        &mut self,
        ctx: &mut Ctx<'_>,
        slot: usize,
        index: usize,
    ) -> Result<bool, McuFault> {
        let block = cs_in(slot, index);
        let base = ctx.read64(block + cs_in::RINGBUF_BASE)?;
        let size = u64::from(ctx.read32(block + cs_in::RINGBUF_SIZE)?);
        let input = ctx.read64(block + cs_in::RINGBUF_INPUT)?;
        let output = ctx.read64(block + cs_in::RINGBUF_OUTPUT)?;
        let doorbell = (ctx.read32(block + cs_in::CONFIG)? >> DOORBELL_SHIFT) as u8;
        let Some(group) = self.resident(slot) else {
            ctx.violation(Breach::StreamWithoutGroup(slot, index).to_string());
            return Ok(false);
        };
        let (serial, lost) = (group.serial, group.lost);
        let saved = group.saved[index].take();
        if base % RING_ALIGNMENT != 0 || !size.is_power_of_two() || size < RING_ALIGNMENT {
            ctx.violation(Breach::Ring(slot, index, base, size).to_string());
            return Ok(false);
        }
        if saved
            .as_ref()
            .is_some_and(|s| (s.base, s.size) != (base, size))
        {
            ctx.violation(Breach::RingChanged(slot, index).to_string());
            return Ok(false);
        }
        let extract = match ctx
            .read64(input + ring::EXTRACT_INIT)
            .and_then(|extract| ctx.read64(output + ring::EXTRACT).map(|_| extract))
        {
            Ok(extract) => extract,
            Err(fault) => {
                let breach = Breach::RingPage(slot, index, input, fault.to_string());
                ctx.violation(breach.to_string());
                return Ok(false);
            }
        };
        let mut queue = Queue::with_ring(serial, index as u8, base, size);
        queue.set_extract(extract);
        // A stream that was in the middle of something goes on with it; a new one is about to begin.
        let mut activity = match saved {
            Some(_) => Activity::Busy,
            None => Activity::Idle,
        };
        let mut oom = 0;
        let mut bad = lost;
        let mut task = 0;
        if let Some(saved) = saved {
            task = saved.task;
            oom = saved.oom;
            if saved.dead {
                activity = Activity::Dead;
            }
            let cycle = ctx.now_cycles();
            if let Err(state) = queue.restore(&saved.state, &mut self.device, cycle) {
                let problem = super::BadSuspend::Stream(index as u8, state);
                ctx.violation(Breach::SuspendContents(slot, problem).to_string());
                bad = true;
            }
        }
        if oom != 0 {
            activity = Activity::Held;
        }
        let start = ctx.now_cycles();
        let jobs = queue.jobs_in_flight(start).map(|end| Running {
            start,
            end,
            task: task.min(end - start),
        });
        let jobs = jobs.collect();
        let stream = Stream {
            queue,
            doorbell,
            base,
            size,
            input,
            output,
            activity,
            turn: 0,
            slice: *SLICE.start(),
            pending: None,
            jobs,
            faulted: false,
            oom,
        };
        let Some(group) = self.resident(slot) else {
            return Ok(false);
        };
        group.streams[index] = Some(Box::new(stream));
        if bad {
            self.fatal(ctx, slot, index, Exception::CsConfigFault.code(), 0)?;
        } else if oom != 0 {
            self.ask_for_chunk(ctx, slot, index)?;
        }
        Ok(true)
    }

    /// Lets all streams go on for which `which` says so.
    pub(super) fn go_all(
        &mut self,
        ctx: &mut Ctx<'_>,
        which: impl Fn(&Stream) -> bool,
    ) -> Result<(), McuFault> {
        for slot in 0..self.slots.len() {
            for stream in 0..STREAMS {
                if self.stream(slot, stream).is_some_and(|s| which(s)) {
                    self.go(ctx, slot, stream)?;
                }
            }
        }
        Ok(())
    }
}
