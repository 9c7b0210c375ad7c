//! Streams at work: steps of their queues, and what comes of them.

use super::Breach;
use super::layout::{cs, cs_out, csg, ring};
use super::mcu::{Activity, Mcu, Pending, Running, SLICE, StreamTurn, TURN_MASK, Token};
use crate::csf::{Env, Event, Exception, Fault, JobRecord, Stop};
use crate::hw::ctx::{Ctx, McuFault};
use crate::shader::ComputeJob;

/// Upper half of AS_FAULTSTATUS: who made the access. Arm's numbers are not public; 0 is ours.
const FAULT_SOURCE: u16 = 0;

impl Mcu {
    /// Runs a stream's queue until something lies ahead. What it comes to shows at its time.
    pub(super) fn go(
        &mut self,
        ctx: &mut Ctx<'_>,
        slot: usize,
        index: usize,
    ) -> Result<(), McuFault> {
        let cores = self.cores_ready_if_wanted(ctx, slot, index);
        let now = ctx.now();
        let clock = ctx.clock();
        let cycle = ctx.now_cycles();
        let Some(group) = self.slots[slot].group.as_deref_mut() else {
            return Ok(());
        };
        let Some(stream) = group.streams[index].as_deref_mut() else {
            return Ok(());
        };
        if group.leaving.is_some()
            || matches!(
                stream.activity,
                Activity::Dead | Activity::PageFault(_) | Activity::Stuck { .. }
            )
        {
            return Ok(());
        }
        if stream.faulted || stream.oom != 0 {
            stream.activity = Activity::Held;
            return Ok(());
        }
        if stream.pending.is_some() {
            return Ok(());
        }
        if ctx.is_locked(group.space) {
            stream.activity = Activity::Locked;
            return Ok(());
        }
        let extract = stream.queue.extract();
        let breach = match ctx.read64(stream.input + ring::INSERT) {
            Err(fault) => Some(Breach::RingPage(
                slot,
                index,
                stream.input,
                fault.to_string(),
            )),
            Ok(insert) if insert < extract || insert - extract > stream.size || insert % 8 != 0 => {
                Some(Breach::Insert(slot, index, insert, extract, stream.size))
            }
            Ok(insert) => {
                stream.queue.set_insert(insert);
                let begins = matches!(stream.activity, Activity::Idle) && insert > extract;
                if let Some(fault) = begins.then(|| ctx.faults().stream_fault(now)).flatten() {
                    if fault.fatal {
                        return self.fatal(ctx, slot, index, fault.code, fault.address);
                    }
                    return self.fault(ctx, slot, index, fault.code, fault.address);
                }
                None
            }
        };
        if let Some(breach) = breach {
            // Hardware would run what lies there; here the stream does not go on.
            ctx.violation(breach.to_string());
            let code = Exception::CsConfigFault.code();
            return self.fatal(ctx, slot, index, code, stream_input(self, slot, index));
        }
        group.endpoint.set_ready(cores);
        let space = ctx.space(group.space);
        let mut env = Env {
            space: &space,
            caches: ctx.caches(),
            endpoint: &group.endpoint,
            device: &mut self.device,
            now: cycle,
        };
        let stop = stream.queue.run(&mut env, stream.slice);
        let at = clock.ns(env.now);
        let events: Vec<Event> = self.device.take_events().collect();
        stream.pending = Some(Pending { stop, events });
        stream.activity = Activity::Busy;
        stream.turn = (stream.turn + 1) & TURN_MASK;
        let turn = StreamTurn {
            group: group.serial,
            stream: index,
            turn: stream.turn,
        };
        if at > now {
            ctx.schedule(at, Token::Settle(turn).pack());
            self.judge_idleness(ctx, slot)
        } else {
            self.settle(ctx, slot, index)
        }
    }

    /// A queue that stopped for want of cores asks for them.
    fn cores_ready_if_wanted(&mut self, ctx: &mut Ctx<'_>, slot: usize, index: usize) -> bool {
        let wants = self
            .stream(slot, index)
            .is_some_and(|stream| matches!(stream.activity, Activity::Cores));
        if wants {
            return self.cores_ready(ctx, slot);
        }
        let any = self
            .resident(slot)
            .is_some_and(|group| group.endpoint.core_count() != 0);
        any && ctx.is_powered(crate::hw::power::Domain::Shader)
    }

    /// The end of a step has come.
    pub(super) fn settle(
        &mut self,
        ctx: &mut Ctx<'_>,
        slot: usize,
        index: usize,
    ) -> Result<(), McuFault> {
        self.finish_step(ctx, slot, index)?;
        self.judge_idleness(ctx, slot)
    }

    /// Makes the step's effects known and finds out how the stream goes on.
    pub(super) fn finish_step(
        &mut self,
        ctx: &mut Ctx<'_>,
        slot: usize,
        index: usize,
    ) -> Result<(), McuFault> {
        let cycle = ctx.now_cycles();
        let Some(group) = self.slots[slot].group.as_deref_mut() else {
            return Ok(());
        };
        let (space, serial, cores) = (group.space, group.serial, group.endpoint.core_count());
        let Some(stream) = group.streams[index].as_deref_mut() else {
            return Ok(());
        };
        let Some(Pending { stop, events }) = stream.pending.take() else {
            return Ok(());
        };
        let mut signalled = false;
        let mut host = false;
        let mut faults = Vec::new();
        let mut chunks = None;
        stream.jobs.retain(|job| job.end > cycle);
        for event in events {
            match event {
                Event::SyncUpdate { system, .. } => {
                    signalled = true;
                    host |= system;
                }
                Event::Fault { fault, .. } => faults.push(fault),
                Event::RenderPass { .. } => {
                    let now = ctx.now();
                    chunks = chunks.or(ctx.faults().tiler_oom(now));
                }
                Event::Job(record) => {
                    let running = running(&record, cores);
                    ctx.job_ran(record);
                    let timer = self.global.progress_cycles;
                    if timer != 0 && running.task > timer {
                        let at = ctx.clock().ns(running.start.saturating_add(timer));
                        ctx.schedule(at, Token::Progress(serial).pack());
                    }
                    stream.jobs.push(running);
                }
            }
        }
        let (output, extract) = (stream.output, stream.queue.extract());
        let more = match ctx
            .write64(output + ring::EXTRACT, extract)
            .and_then(|()| ctx.read64(stream.input + ring::INSERT))
        {
            Ok(insert) => insert != extract,
            Err(fault) => {
                let breach = Breach::RingPage(slot, index, output, fault.to_string());
                ctx.violation(breach.to_string());
                false
            }
        };
        let waits = !matches!(stop, Stop::Budget);
        stream.slice = if waits {
            *SLICE.start()
        } else {
            (stream.slice * 2).min(*SLICE.end())
        };
        let turn = StreamTurn {
            group: serial,
            stream: index,
            turn: stream.turn,
        };
        let due = stream.queue.next_deferred();
        let mut again = None;
        let mut failed = None;
        stream.activity = match stop {
            Stop::Idle if more => {
                again = Some(cycle);
                Activity::Busy
            }
            Stop::Idle => match stream.queue.drained_at() {
                u64::MAX => Activity::Stuck { waits: true },
                at if at > cycle || due.is_some() => {
                    again = Some(due.map_or(at, |due| due.min(at.max(cycle))));
                    Activity::Waiting
                }
                _ => Activity::Idle,
            },
            Stop::WaitUntil(at) => {
                again = Some(due.map_or(at, |due| due.min(at)));
                Activity::Waiting
            }
            Stop::Budget => {
                again = Some(cycle);
                Activity::Busy
            }
            Stop::Runaway => Activity::Stuck { waits: false },
            Stop::Never => Activity::Stuck { waits: true },
            Stop::Blocked(wait) => {
                again = due;
                Activity::Blocked(wait)
            }
            Stop::Progress { .. } => {
                again = due;
                Activity::Progress
            }
            Stop::Endpoint => Activity::Cores,
            Stop::Fault(fault) => {
                if let Some(place) = group.endpoint.take_place() {
                    log::info!("stream {slot}.{index}: {place}");
                }
                failed = Some(fault);
                Activity::Busy
            }
        };
        let wants_cores = matches!(stream.activity, Activity::Cores);
        if let Some(at) = again {
            let at = ctx.clock().ns(at);
            ctx.schedule(at, Token::Run(turn).pack());
        }
        for fault in faults {
            log::info!("stream {slot}.{index}: {fault}");
            self.fault(ctx, slot, index, fault.exception.code(), fault.info)?;
        }
        if let Some(chunks) = chunks {
            self.tiler_oom(ctx, slot, index, chunks)?;
        }
        if let Some(fault) = failed {
            self.failed(ctx, slot, index, space, fault)?;
        }
        if wants_cores && self.cores_ready(ctx, slot) {
            ctx.schedule(ctx.now(), Token::Run(turn).pack());
        }
        if signalled {
            self.wake(ctx);
        }
        self.wake_progress(ctx, slot);
        if host {
            self.group_event(ctx, slot, csg::SYNC_UPDATE)?;
        }
        Ok(())
    }

    /// A sync object has changed: blocked queues look again, of whatever group.
    fn wake(&mut self, ctx: &mut Ctx<'_>) {
        for slot in 0..self.slots.len() {
            self.wake_slot(ctx, slot, |activity| {
                matches!(activity, Activity::Blocked(_))
            });
        }
    }

    /// Progress counters of a group may have changed.
    fn wake_progress(&mut self, ctx: &mut Ctx<'_>, slot: usize) {
        self.wake_slot(ctx, slot, |activity| matches!(activity, Activity::Progress));
    }

    fn wake_slot(&mut self, ctx: &mut Ctx<'_>, slot: usize, which: impl Fn(&Activity) -> bool) {
        let now = ctx.now();
        let Some(group) = self.resident(slot) else {
            return;
        };
        let group_serial = group.serial;
        for (index, stream) in group.streams.iter().enumerate() {
            let Some(stream) = stream.as_deref().filter(|s| which(&s.activity)) else {
                continue;
            };
            let turn = StreamTurn {
                group: group_serial,
                stream: index,
                turn: stream.turn,
            };
            ctx.schedule(now, Token::Run(turn).pack());
        }
    }

    /// A queue has met a fault that stops it.
    fn failed(
        &mut self,
        ctx: &mut Ctx<'_>,
        slot: usize,
        index: usize,
        space: u8,
        fault: Box<Fault>,
    ) -> Result<(), McuFault> {
        log::info!("stream {slot}.{index}: {fault}");
        let Some(mmu) = fault.mmu else {
            return self.fatal(ctx, slot, index, fault.exception.code(), fault.info);
        };
        if !ctx.is_mapped(space) {
            // Nobody has to be told that the space is off.
            return self.fatal(ctx, slot, index, Exception::CsBusFault.code(), fault.info);
        }
        ctx.page_fault(space, mmu.va, mmu.access, FAULT_SOURCE);
        if let Some(group) = self.slots[slot].group.as_deref_mut() {
            if let Some(stream) = group.streams[index].as_deref_mut() {
                stream.activity = Activity::PageFault(fault);
            }
        }
        Ok(())
    }

    /// An address space was unlocked, updated or switched off.
    pub(super) fn space_changed(&mut self, ctx: &mut Ctx<'_>, number: u8) -> Result<(), McuFault> {
        for slot in 0..self.slots.len() {
            let Some(group) = self.slots[slot].group.as_deref() else {
                continue;
            };
            if group.space != number || ctx.is_locked(number) {
                continue;
            }
            let mapped = ctx.is_mapped(number);
            for index in 0..group_streams(self, slot) {
                let Some(stream) = self.stream(slot, index) else {
                    continue;
                };
                match &stream.activity {
                    Activity::PageFault(fault) if !mapped => {
                        let info = fault.info;
                        let code = Exception::CsBusFault.code();
                        self.fatal(ctx, slot, index, code, info)?;
                    }
                    Activity::Locked => self.go(ctx, slot, index)?,
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// Reports CS_FATAL; the queue is dead.
    pub(super) fn fatal(
        &mut self,
        ctx: &mut Ctx<'_>,
        slot: usize,
        index: usize,
        code: u8,
        info: u64,
    ) -> Result<(), McuFault> {
        if let Some(group) = self.slots[slot].group.as_deref_mut() {
            if let Some(stream) = group.streams[index].as_deref_mut() {
                stream.activity = Activity::Dead;
                stream.turn = (stream.turn + 1) & TURN_MASK;
                stream.pending = None;
            }
        }
        ctx.write32(cs_out(slot, index) + cs_out::FATAL, code.into())?;
        ctx.write64(cs_out(slot, index) + cs_out::FATAL_INFO, info)?;
        self.stream_event(ctx, slot, index, cs::FATAL)
    }

    /// Reports CS_FAULT; the queue is held until the host has acknowledged it.
    pub(super) fn fault(
        &mut self,
        ctx: &mut Ctx<'_>,
        slot: usize,
        index: usize,
        code: u8,
        info: u64,
    ) -> Result<(), McuFault> {
        if let Some(group) = self.slots[slot].group.as_deref_mut() {
            if let Some(stream) = group.streams[index].as_deref_mut() {
                stream.faulted = true;
                stream.activity = Activity::Held;
                stream.turn = (stream.turn + 1) & TURN_MASK;
            }
        }
        ctx.write32(cs_out(slot, index) + cs_out::FAULT, code.into())?;
        ctx.write64(cs_out(slot, index) + cs_out::FAULT_INFO, info)?;
        self.stream_event(ctx, slot, index, cs::FAULT)
    }
}

fn stream_input(mcu: &Mcu, slot: usize, index: usize) -> u64 {
    let group = mcu.slots[slot].group.as_deref();
    let stream = group.and_then(|group| group.streams[index].as_deref());
    stream.map_or(0, |stream| stream.input)
}

fn group_streams(mcu: &Mcu, slot: usize) -> usize {
    let group = mcu.slots[slot].group.as_deref();
    group.map_or(0, |group| group.streams.len())
}

/// A job's times, with those of one task: tasks of a job take the cores in turns, each as long as the others.
fn running(record: &JobRecord, cores: usize) -> Running {
    let JobRecord { start, end, .. } = *record;
    let task = if end == u64::MAX {
        u64::MAX
    } else {
        let turns = tasks(&record.job).div_ceil(cores.max(1) as u64).max(1);
        (end - start).div_ceil(turns)
    };
    Running { start, end, task }
}

/// Tasks of a job: cut along an axis, each whole in the axes before it.
fn tasks(job: &ComputeJob) -> u64 {
    let axis = usize::from(job.task_axis.min(2));
    let along = u64::from(job.size[axis].div_ceil(job.task_increment.max(1)));
    let after = job.size[axis + 1..].iter();
    after.fold(along, |tasks, size| tasks.saturating_mul(u64::from(*size)))
}
