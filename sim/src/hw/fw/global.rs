//! The global interface: requests, doorbells of group slots, idleness.

use super::Breach;
use super::layout::{GLB_IN, GLB_OUT, GROUPS, glb, glb_in, glb_out};
use super::mcu::{Mcu, TURN_MASK, Token};
use crate::csf::TIMESTAMP_HZ;
use crate::hw::ctx::{Clock, Ctx, McuFault};
use crate::hw::fault::Interface;
use crate::hw::regs::JOB_IRQ_GLOBAL;

impl Mcu {
    /// Looks at what the host asks for.
    pub(super) fn global_doorbell(&mut self, ctx: &mut Ctx<'_>) -> Result<(), McuFault> {
        self.release_global(ctx)?;
        let req = ctx.read32(GLB_IN + glb_in::REQ)?;
        let changed = req ^ self.global.done;
        let refused = changed & glb::REFUSED;
        if refused != 0 {
            let why = match refused {
                glb::PROTM_ENTER => "there is no protected mode",
                bits if bits & glb::PERFCNT != 0 => "there are no performance counters",
                _ => "its interface version has no such request",
            };
            ctx.violation(Breach::GlobalRequest(refused, why).to_string());
            self.global.done ^= refused;
        }
        if changed & glb::HALT != 0 {
            self.global.done ^= glb::HALT;
            if req & glb::HALT != 0 {
                self.halt(ctx);
                return Ok(());
            }
        }
        let requests = changed & glb::CONFIG;
        if requests & glb::CFG_PROGRESS_TIMER != 0 {
            let timer = ctx.read32(GLB_IN + glb_in::PROGRESS_TIMER)?;
            if ctx.options().progress_timer {
                self.global.progress_cycles = u64::from(timer) << glb::TIMER_SHIFT;
            }
        }
        if requests & glb::CFG_ALLOC_EN != 0 {
            self.global.core_mask = ctx.read64(GLB_IN + glb_in::CORE_EN_MASK)?;
        }
        if requests & glb::IDLE_EN != 0 {
            let timer = ctx.read32(GLB_IN + glb_in::IDLE_TIMER)?;
            self.global.idle_ns = timer_ns(timer, ctx.clock());
        }
        if requests != 0 {
            self.acknowledge_global(ctx, req, requests)?;
        }
        let groups = ctx.read32(GLB_IN + glb_in::DOORBELL_REQ)?;
        let rung = groups ^ ctx.read32(GLB_OUT + glb_out::DOORBELL_ACK)?;
        ctx.write32(GLB_OUT + glb_out::DOORBELL_ACK, groups)?;
        if rung >> GROUPS != 0 {
            ctx.violation(Breach::NoGroup(rung >> GROUPS << GROUPS).to_string());
        }
        for slot in (0..GROUPS).filter(|slot| rung >> slot & 1 != 0) {
            self.group_doorbell(ctx, slot)?;
        }
        Ok(())
    }

    fn acknowledge_global(
        &mut self,
        ctx: &mut Ctx<'_>,
        req: u32,
        bits: u32,
    ) -> Result<(), McuFault> {
        self.global.done = (self.global.done & !bits) | (req & bits);
        let now = ctx.now();
        let bits = bits & !ctx.faults().withheld(Interface::Global, bits, now);
        let ack = ctx.read32(GLB_OUT + glb_out::ACK)?;
        ctx.write32(GLB_OUT + glb_out::ACK, (ack & !bits) | (req & bits))?;
        if ctx.read32(GLB_IN + glb_in::ACK_IRQ_MASK)? & bits != 0 {
            ctx.raise_job(JOB_IRQ_GLOBAL);
        }
        Ok(())
    }

    fn global_event(&mut self, ctx: &mut Ctx<'_>, bit: u32) -> Result<(), McuFault> {
        let req = ctx.read32(GLB_IN + glb_in::REQ)?;
        let ack = ctx.read32(GLB_OUT + glb_out::ACK)?;
        if (req ^ ack) & bit != 0 {
            self.global.held |= bit;
            return Ok(());
        }
        ctx.write32(GLB_OUT + glb_out::ACK, ack ^ bit)?;
        if ctx.read32(GLB_IN + glb_in::ACK_IRQ_MASK)? & bit != 0 {
            ctx.raise_job(JOB_IRQ_GLOBAL);
        }
        Ok(())
    }

    fn release_global(&mut self, ctx: &mut Ctx<'_>) -> Result<(), McuFault> {
        let held = std::mem::take(&mut self.global.held);
        if held & glb::IDLE != 0 {
            self.global_event(ctx, glb::IDLE)?;
        }
        Ok(())
    }

    fn all_idle(&self) -> bool {
        let mut groups = self.slots.iter().filter_map(|slot| slot.group.as_ref());
        groups.all(|group| group.idle)
    }

    /// A group has become idle, busy, or has left.
    pub(super) fn idleness_changed(&mut self, ctx: &mut Ctx<'_>) {
        self.global.idle_turn = self.global.idle_turn.wrapping_add(1) & TURN_MASK;
        if !self.all_idle() {
            self.global.worked = true;
        } else if self.global.worked && self.global.done & glb::IDLE_EN != 0 {
            let at = ctx.now().saturating_add(self.global.idle_ns);
            ctx.schedule(at, Token::GlobalIdle(self.global.idle_turn).pack());
        }
    }

    pub(super) fn check_global_idle(
        &mut self,
        ctx: &mut Ctx<'_>,
        turn: u32,
    ) -> Result<(), McuFault> {
        if turn != self.global.idle_turn || !self.all_idle() {
            return Ok(());
        }
        self.global.worked = false;
        self.global_event(ctx, glb::IDLE)
    }
}

/// Nanoseconds of a timer word.
fn timer_ns(timer: u32, clock: Clock) -> u64 {
    let ticks = u64::from(timer & !glb::TIMER_SOURCE_GPU_COUNTER) << glb::TIMER_SHIFT;
    if timer & glb::TIMER_SOURCE_GPU_COUNTER != 0 {
        clock.ns(ticks)
    } else {
        Clock::new(TIMESTAMP_HZ).ns(ticks)
    }
}
