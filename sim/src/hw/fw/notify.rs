//! Acknowledgements and events of group and stream slots.

use super::layout::{cs_in, cs_out, csg_in, csg_out};
use super::mcu::Mcu;
use crate::hw::ctx::{Ctx, McuFault};
use crate::hw::fault::Interface;

impl Mcu {
    /// Acknowledges requests of a group slot.
    pub(super) fn acknowledge_group(
        &mut self,
        ctx: &mut Ctx<'_>,
        slot: usize,
        req: u32,
        bits: u32,
    ) -> Result<(), McuFault> {
        let done = &mut self.slots[slot].done;
        *done = (*done & !bits) | (req & bits);
        let now = ctx.now();
        let bits = bits
            & !ctx
                .faults()
                .withheld(Interface::Group(slot as u8), bits, now);
        let out = csg_out(slot) + csg_out::ACK;
        let ack = ctx.read32(out)?;
        ctx.write32(out, (ack & !bits) | (req & bits))?;
        if ctx.read32(csg_in(slot) + csg_in::ACK_IRQ_MASK)? & bits != 0 {
            ctx.raise_job(1 << slot);
        }
        Ok(())
    }

    /// Raises an event of a group slot. One that the host has not seen yet is not raised again: the new one waits.
    pub(super) fn group_event(
        &mut self,
        ctx: &mut Ctx<'_>,
        slot: usize,
        bit: u32,
    ) -> Result<(), McuFault> {
        let req = ctx.read32(csg_in(slot) + csg_in::REQ)?;
        let ack = ctx.read32(csg_out(slot) + csg_out::ACK)?;
        if (req ^ ack) & bit != 0 {
            self.slots[slot].held |= bit;
            return Ok(());
        }
        ctx.write32(csg_out(slot) + csg_out::ACK, ack ^ bit)?;
        if ctx.read32(csg_in(slot) + csg_in::ACK_IRQ_MASK)? & bit != 0 {
            ctx.raise_job(1 << slot);
        }
        Ok(())
    }

    /// Raises what waited, where the host has seen the last event.
    pub(super) fn release_group(&mut self, ctx: &mut Ctx<'_>, slot: usize) -> Result<(), McuFault> {
        let held = std::mem::take(&mut self.slots[slot].held);
        for bit in (0..32).map(|bit| 1 << bit).filter(|bit| held & bit != 0) {
            self.group_event(ctx, slot, bit)?;
        }
        Ok(())
    }

    /// Acknowledges requests of a stream slot.
    pub(super) fn acknowledge_stream(
        &mut self,
        ctx: &mut Ctx<'_>,
        slot: usize,
        stream: usize,
        req: u32,
        bits: u32,
    ) -> Result<(), McuFault> {
        let done = &mut self.slots[slot].streams[stream].done;
        *done = (*done & !bits) | (req & bits);
        let now = ctx.now();
        let interface = Interface::Stream(slot as u8, stream as u8);
        let bits = bits & !ctx.faults().withheld(interface, bits, now);
        let out = cs_out(slot, stream) + cs_out::ACK;
        let ack = ctx.read32(out)?;
        ctx.write32(out, (ack & !bits) | (req & bits))?;
        self.stream_interrupt(ctx, slot, stream, bits)
    }

    /// Raises an event of a stream slot, in the same way as [`Mcu::group_event`].
    pub(super) fn stream_event(
        &mut self,
        ctx: &mut Ctx<'_>,
        slot: usize,
        stream: usize,
        bit: u32,
    ) -> Result<(), McuFault> {
        let req = ctx.read32(cs_in(slot, stream) + cs_in::REQ)?;
        let ack = ctx.read32(cs_out(slot, stream) + cs_out::ACK)?;
        if (req ^ ack) & bit != 0 {
            self.slots[slot].streams[stream].held |= bit;
            return Ok(());
        }
        ctx.write32(cs_out(slot, stream) + cs_out::ACK, ack ^ bit)?;
        self.stream_interrupt(ctx, slot, stream, bit)
    }

    pub(super) fn release_stream(
        &mut self,
        ctx: &mut Ctx<'_>,
        slot: usize,
        stream: usize,
    ) -> Result<(), McuFault> {
        let held = std::mem::take(&mut self.slots[slot].streams[stream].held);
        for bit in (0..32).map(|bit| 1 << bit).filter(|bit| held & bit != 0) {
            self.stream_event(ctx, slot, stream, bit)?;
        }
        Ok(())
    }

    /// Tells the host through the group slot that a stream slot wants it.
    fn stream_interrupt(
        &mut self,
        ctx: &mut Ctx<'_>,
        slot: usize,
        stream: usize,
        bits: u32,
    ) -> Result<(), McuFault> {
        if ctx.read32(cs_in(slot, stream) + cs_in::ACK_IRQ_MASK)? & bits == 0 {
            return Ok(());
        }
        let out = csg_out(slot) + csg_out::CS_IRQ_REQ;
        let req = ctx.read32(out)?;
        let ack = ctx.read32(csg_in(slot) + csg_in::CS_IRQ_ACK)?;
        if (req ^ ack) >> stream & 1 == 0 {
            ctx.write32(out, req ^ 1 << stream)?;
        }
        ctx.raise_job(1 << slot);
        Ok(())
    }
}
