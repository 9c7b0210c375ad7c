//! Group slots: which group is on them, and its requests.

use super::Breach;
use super::layout::{STREAMS, cs, cs_in, cs_out, csg, csg_in, csg_out};
use super::mcu::{Activity, Group, Leaving, Mcu, TURN_MASK, Token};
use crate::endpoint::Endpoint;
use crate::hw::ctx::{Ctx, McuFault};
use crate::hw::power::Domain;
use crate::model;
use crate::shader::ShaderCores;

/// Nanoseconds until a group with a job on the cores is terminated. Assumed.
const TERMINATE_NS: u64 = 50_000;
/// `CSG_EP_REQ_COMPUTE`.
const EP_COMPUTE: u32 = 0xff;
/// Bits of the group's `config` that are the address space.
const CONFIG_SPACE: u32 = 0xf;

impl Mcu {
    /// The host has rung for a group slot.
    pub(super) fn group_doorbell(
        &mut self,
        ctx: &mut Ctx<'_>,
        slot: usize,
    ) -> Result<(), McuFault> {
        self.release_group(ctx, slot)?;
        let req = ctx.read32(csg_in(slot) + csg_in::REQ)?;
        let changed = req ^ self.slots[slot].done;
        let mut acknowledged = 0;
        if changed & csg::STATE_MASK != 0 {
            acknowledged |= self.state_request(ctx, slot, req & csg::STATE_MASK)?;
        }
        if changed & csg::ENDPOINT_CONFIG != 0 {
            acknowledged |= csg::ENDPOINT_CONFIG;
            let endpoint = self.endpoint(ctx, slot)?;
            if let Some(group) = &mut self.slots[slot].group {
                group.endpoint = endpoint;
            }
        }
        if changed & csg::STATUS_UPDATE != 0 {
            acknowledged |= csg::STATUS_UPDATE;
            self.write_status(ctx, slot)?;
        }
        if acknowledged != 0 {
            self.acknowledge_group(ctx, slot, req, acknowledged)?;
        }
        let streams = ctx.read32(csg_in(slot) + csg_in::DOORBELL_REQ)?;
        let rung = streams ^ ctx.read32(csg_out(slot) + csg_out::DOORBELL_ACK)?;
        ctx.write32(csg_out(slot) + csg_out::DOORBELL_ACK, streams)?;
        if rung >> STREAMS != 0 {
            let none = rung >> STREAMS << STREAMS;
            ctx.violation(Breach::NoStream(slot, none).to_string());
        }
        for stream in (0..STREAMS).filter(|stream| rung >> stream & 1 != 0) {
            self.stream_doorbell(ctx, slot, stream)?;
        }
        self.judge_idleness(ctx, slot)
    }

    /// A new state is asked for. Gives the bits to acknowledge at once.
    fn state_request(
        &mut self,
        ctx: &mut Ctx<'_>,
        slot: usize,
        state: u32,
    ) -> Result<u32, McuFault> {
        let leaving = self.slots[slot].group.as_ref().map(|group| group.leaving);
        let breach = match (state, leaving) {
            (csg::START | csg::RESUME, None) => {
                return Ok(if self.start(ctx, slot, state)? {
                    csg::STATE_MASK
                } else {
                    0
                });
            }
            (csg::START | csg::RESUME, Some(None)) => Breach::SlotInUse(slot, state),
            (csg::SUSPEND, None) => Breach::SlotEmpty(slot),
            (csg::TERMINATE, None) => return Ok(csg::STATE_MASK),
            (csg::TERMINATE, Some(_)) => {
                let now = ctx.now();
                if ctx.faults().terminate_ignored(slot as u8, now) {
                    // As if it had been carried out: the same request is not looked at again.
                    self.slots[slot].done &= !csg::STATE_MASK;
                    return Ok(0);
                }
                self.begin_leaving(ctx, slot, false);
                return Ok(0);
            }
            (csg::SUSPEND, Some(None)) => {
                self.begin_leaving(ctx, slot, true);
                return Ok(0);
            }
            (csg::START | csg::RESUME | csg::SUSPEND, Some(Some(leaving))) => {
                let before = if leaving.suspend {
                    csg::SUSPEND
                } else {
                    csg::TERMINATE
                };
                // The same request, seen again.
                if before == state {
                    return Ok(0);
                }
                Breach::StateInFlight(slot, state, before)
            }
            _ => Breach::NoState(slot, state),
        };
        ctx.violation(breach.to_string());
        Ok(0)
    }

    /// The cores that the slot's group may use. No breach gives it any.
    fn endpoint(&mut self, ctx: &mut Ctx<'_>, slot: usize) -> Result<Endpoint, McuFault> {
        let allowed = ctx.read64(csg_in(slot) + csg_in::ALLOW_COMPUTE)?;
        let wanted = ctx.read32(csg_in(slot) + csg_in::ENDPOINT_REQ)? & EP_COMPUTE;
        let present = model::shader_present(ctx.options().cores);
        let usable = allowed & present & self.global.core_mask;
        let mut core_ids: Vec<u32> = (0..u64::BITS).filter(|c| usable >> c & 1 != 0).collect();
        if wanted > core_ids.len() as u32 {
            let breach = Breach::Cores(slot, wanted, core_ids.len() as u32);
            ctx.violation(breach.to_string());
            core_ids.clear();
        }
        core_ids.truncate(wanted as usize);
        Ok(Endpoint::new(ShaderCores {
            core_ids,
            threads: self.threads,
            seed: self.seed,
            instruction_limit: self.instruction_limit,
        }))
    }

    /// START or RESUME. Whether a group is on the slot now.
    fn start(&mut self, ctx: &mut Ctx<'_>, slot: usize, state: u32) -> Result<bool, McuFault> {
        let space = ctx.read32(csg_in(slot) + csg_in::CONFIG)? & CONFIG_SPACE;
        let refused = if space == 0 || model::AS_PRESENT >> space & 1 == 0 {
            Some(Breach::NoSpace(slot, space))
        } else if !ctx.is_mapped(space as u8) && !ctx.is_locked(space as u8) {
            Some(Breach::SpaceOff(slot, space))
        } else {
            None
        };
        if let Some(breach) = refused {
            ctx.violation(breach.to_string());
            return Ok(false);
        }
        let suspend_buffer = ctx.read64(csg_in(slot) + csg_in::SUSPEND_BUF)?;
        let endpoint = self.endpoint(ctx, slot)?;
        let serial = self.next_serial;
        self.next_serial = self.next_serial.wrapping_add(1).max(1);
        let mut group = Group {
            serial,
            space: space as u8,
            endpoint,
            suspend_buffer,
            streams: Default::default(),
            saved: Default::default(),
            lost: false,
            idle: false,
            leaving: None,
        };
        if state == csg::RESUME {
            match super::suspend::load(ctx, suspend_buffer) {
                Ok(saved) => group.saved = saved,
                Err(problem) => {
                    group.lost = true;
                    ctx.violation(problem.breach(slot, suspend_buffer).to_string());
                }
            }
        }
        self.slots[slot].group = Some(Box::new(group));
        self.idleness_changed(ctx);
        Ok(true)
    }

    /// Stops a group's streams; it leaves when the tasks on the cores have ended.
    fn begin_leaving(&mut self, ctx: &mut Ctx<'_>, slot: usize, suspend: bool) {
        let now = ctx.now();
        let cycle = ctx.now_cycles();
        let Some(group) = &mut self.slots[slot].group else {
            return;
        };
        let turn = group
            .leaving
            .map_or(0, |leaving| (leaving.turn + 1) & TURN_MASK);
        group.leaving = Some(Leaving { suspend, turn });
        let jobs = group.streams.iter().flatten().flat_map(|s| &s.jobs);
        let running = jobs.filter(|job| job.start <= cycle && job.end > cycle);
        let at = if suspend {
            // Steps that lie ahead have shown their effects already: they end first.
            let tasks = running.map(|job| job.task.min(job.end - cycle)).max();
            ctx.clock()
                .ns(cycle.saturating_add(tasks.unwrap_or(0)))
                .max(now)
        } else if running.count() > 0 {
            now.saturating_add(TERMINATE_NS)
        } else {
            now
        };
        ctx.schedule(at, Token::Leave(group.serial, turn).pack());
    }

    /// A group leaves its slot.
    pub(super) fn leave(
        &mut self,
        ctx: &mut Ctx<'_>,
        slot: usize,
        turn: u32,
    ) -> Result<(), McuFault> {
        let leaving = self.slots[slot].group.as_ref().and_then(|g| g.leaving);
        let Some(leaving) = leaving.filter(|leaving| leaving.turn == turn) else {
            return Ok(());
        };
        for stream in 0..STREAMS {
            self.finish_step(ctx, slot, stream)?;
        }
        self.write_status(ctx, slot)?;
        let cycle = ctx.now_cycles();
        let Some(group) = self.slots[slot].group.take() else {
            return Ok(());
        };
        let mut state = csg::TERMINATE;
        if leaving.suspend {
            state = csg::SUSPEND;
            if let Err(breach) = super::suspend::store(ctx, &self.device, slot, &group, cycle) {
                // Not acknowledged: the group has nowhere to go.
                ctx.violation(breach.to_string());
                self.slots[slot].group = Some(group);
                return Ok(());
            }
        }
        self.device.kill_group(group.serial, cycle);
        self.device.forget_group(group.serial);
        for (stream, slot_of_stream) in self.slots[slot].streams.iter_mut().enumerate() {
            // The next group's START is a new one.
            slot_of_stream.done &= !cs::STATE_MASK;
            let out = cs_out(slot, stream) + cs_out::ACK;
            // So is what its streams ask for.
            let req = ctx.read32(cs_in(slot, stream) + cs_in::REQ)?;
            let ack = ctx.read32(out)? & !cs::STATE_MASK & !cs::TILER_OOM;
            ctx.write32(out, ack | (req & cs::TILER_OOM))?;
            slot_of_stream.held &= !cs::TILER_OOM;
        }
        self.idleness_changed(ctx);
        self.acknowledge_group(ctx, slot, state, csg::STATE_MASK)
    }

    /// Reports whether the group has anything to do.
    pub(super) fn judge_idleness(
        &mut self,
        ctx: &mut Ctx<'_>,
        slot: usize,
    ) -> Result<(), McuFault> {
        let done: [u32; STREAMS] =
            std::array::from_fn(|stream| self.slots[slot].streams[stream].done);
        let cycle = ctx.now_cycles();
        let Some(group) = self.resident(slot) else {
            return Ok(());
        };
        let idle = group.streams.iter().zip(done).all(|(stream, done)| {
            let Some(stream) = stream else {
                return true;
            };
            match stream.activity {
                Activity::Idle => done & cs::IDLE_EMPTY != 0,
                Activity::Blocked(_) => {
                    done & cs::IDLE_SYNC_WAIT != 0
                        && stream.queue.busy_entries(cycle) == 0
                        && stream.queue.next_deferred().is_none()
                }
                _ => false,
            }
        });
        if idle == group.idle {
            return Ok(());
        }
        group.idle = idle;
        ctx.write32(csg_out(slot) + csg_out::STATUS_STATE, idle.into())?;
        self.idleness_changed(ctx);
        if idle {
            self.group_event(ctx, slot, csg::IDLE)?;
        }
        Ok(())
    }

    /// The progress timer of a group may have run out.
    pub(super) fn check_progress(
        &mut self,
        ctx: &mut Ctx<'_>,
        slot: usize,
    ) -> Result<(), McuFault> {
        let cycle = ctx.now_cycles();
        let timer = self.global.progress_cycles;
        if timer == 0 {
            return Ok(());
        }
        let Some(group) = self.resident(slot) else {
            return Ok(());
        };
        let mut jobs = group.streams.iter().flatten().flat_map(|s| &s.jobs);
        let late = jobs.any(|job| {
            job.task > timer && job.end > cycle && job.start.saturating_add(timer) <= cycle
        });
        if late {
            self.group_event(ctx, slot, csg::PROGRESS_TIMER_EVENT)?;
        }
        Ok(())
    }

    /// Whether the shader cores have power and the group may use any; asks for it where they have none.
    pub(super) fn cores_ready(&mut self, ctx: &mut Ctx<'_>, slot: usize) -> bool {
        let any = self.slots[slot]
            .group
            .as_ref()
            .is_some_and(|group| group.endpoint.core_count() != 0);
        any && ctx.power_on(Domain::Shader)
    }
}
