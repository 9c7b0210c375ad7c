//! What each instruction does.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use mali_isa::csf::{
    Condition, FlushMode, INSTR_BYTES, Instr, OtherFlushMode, Reg32, Reg64, SCOREBOARDS,
    STREAM_ALIGNMENT, State, SyncScope, TaskAxis,
};
use mali_isa::desc::{Fau, LocalStorage, ShaderProgram, WorkgroupSize, compute_sr};

use super::device::{ComputeEndpoint, Event, JobError, JobRecord};
use super::exception::{Cause, Exception, Fault};
use super::queue::{CALL_DEPTH, Env, Flow, Frame, Queue, Stop, SyncWait};
use super::scoreboard::{ALL_ENTRIES, Effect};
use crate::mmu::{Access, AddressSpace, JobMemory, Knowledge, LscRule, MemoryError, Port, View};
use crate::shader::{ComputeJob, MemoryPort};

/// Cycles from the issue of a load or store of the stream to its completion. Assumed, not measured.
pub const MEMORY_CYCLES: u64 = 200;

/// Cycles of a cache flush, however much is dirty. Assumed, not measured.
pub const FLUSH_CYCLES: u64 = 2000;

/// Cycles to start a job on the cores. Assumed, not measured.
pub const JOB_CYCLES: u64 = 1000;

type Failure = (Cause, Option<Exception>);

/// An instruction that runs later, with the values its registers had at issue.
#[derive(Debug)]
pub(super) struct Deferred {
    pub start: u64,
    pc: u64,
    text: String,
    known: Knowledge,
    work: Work,
}

#[derive(Clone, Copy, Debug)]
enum Work {
    Flush {
        l2: FlushMode,
        lsc: FlushMode,
        other: OtherFlushMode,
    },
    Sync(SyncOp),
    Store {
        address: u64,
        state: State,
    },
}

#[derive(Clone, Copy, Debug)]
struct SyncOp {
    address: u64,
    data: u64,
    wide: bool,
    add: bool,
    propagate: bool,
    scope: SyncScope,
}

fn plain(cause: impl Into<Cause>) -> Failure {
    (cause.into(), None)
}

fn check_aligned(what: &'static str, address: u64, alignment: u64) -> Result<(), Cause> {
    if address % alignment != 0 {
        return Err(Cause::Misaligned {
            what,
            address,
            alignment,
        });
    }
    Ok(())
}

fn check_entry(entry: u8) -> Result<(), Cause> {
    if entry >= SCOREBOARDS {
        return Err(Cause::NoScoreboard(entry.into()));
    }
    Ok(())
}

fn check_mask(mask: u16) -> Result<(), Cause> {
    if mask & !ALL_ENTRIES != 0 {
        return Err(Cause::NoScoreboard(mask));
    }
    Ok(())
}

impl Queue {
    pub(super) fn execute<A: AddressSpace, E: ComputeEndpoint>(
        &mut self,
        env: &mut Env<'_, A, E>,
        port: &mut Port<'_, A>,
        pc: u64,
        instr: &Instr,
    ) -> Result<Flow, Failure> {
        let kernel = self.kernel();
        match *instr {
            Instr::Nop { .. } => {}
            Instr::Move48 { dst, imm } => self.registers.set64(dst, imm, kernel).map_err(plain)?,
            Instr::Move32 { dst, imm } => self.registers.set32(dst, imm, kernel).map_err(plain)?,
            Instr::AddImm32 { dst, src, imm } => {
                let sum = self.value32(src).map_err(plain)?.wrapping_add_signed(imm);
                self.registers.set32(dst, sum, kernel).map_err(plain)?;
            }
            Instr::AddImm64 { dst, src, imm } => {
                let sum = self
                    .value64(src)
                    .map_err(plain)?
                    .wrapping_add_signed(imm.into());
                self.registers.set64(dst, sum, kernel).map_err(plain)?;
            }
            Instr::Umin32 { dst, src0, src1 } => {
                let least = self
                    .value32(src0)
                    .map_err(plain)?
                    .min(self.value32(src1).map_err(plain)?);
                self.registers.set32(dst, least, kernel).map_err(plain)?;
            }
            Instr::Wait {
                wait_mask,
                progress_increment,
            } => {
                if kernel {
                    // Between jobs the host has seen to the order; what is done by now counts as waited for.
                    self.learn(env.device.done(env.now));
                }
                if let Some(stop) = self.wait(env.now, wait_mask.into()) {
                    return Ok(Flow::Stop(stop));
                }
                self.count_progress(env, progress_increment);
            }
            Instr::Branch {
                condition,
                value,
                offset,
            } => return self.branch(condition, value, offset).map_err(plain),
            Instr::SetSbEntry { endpoint, other } => {
                check_entry(endpoint)
                    .and(check_entry(other))
                    .map_err(plain)?;
                (self.endpoint_entry, self.other_entry) = (endpoint, other);
            }
            // A new request takes the place of the old one. Graphics resources are granted too: only using them fails.
            Instr::ReqResource { compute, .. } => self.compute = compute,
            Instr::Call { address, length } => {
                let frame = self.target(address, length).map_err(plain)?;
                if self.frames.len() >= CALL_DEPTH {
                    return Err(plain(Cause::CallStack(CALL_DEPTH)));
                }
                if kernel {
                    self.learn(env.device.done(env.now));
                    self.note_progress();
                }
                if frame.pc != frame.end {
                    return Ok(Flow::Into(frame));
                }
            }
            Instr::Jump { address, length } => {
                return Ok(Flow::Jump(self.target(address, length).map_err(plain)?));
            }
            Instr::LoadMultiple {
                base,
                mask,
                address,
                offset,
            } => {
                self.load_multiple(env, port, base, mask, address, offset)
                    .map_err(plain)?;
            }
            Instr::StoreMultiple {
                base,
                mask,
                address,
                offset,
            } => {
                self.store_multiple(env, port, base, mask, address, offset)
                    .map_err(plain)?;
            }
            Instr::RunCompute {
                task_increment,
                task_axis,
                progress_increment,
                srt,
                spd,
                tsd,
                fau,
            } => {
                let select = Select { srt, spd, tsd, fau };
                self.run_compute(env, pc, select, task_axis, task_increment.into())?;
                self.count_progress(env, progress_increment);
            }
            Instr::RunComputeIndirect {
                workgroups_per_task,
                progress_increment,
                srt,
                spd,
                tsd,
                fau,
            } => {
                // Which axis hardware cuts is its own choice; results do not depend on it.
                let select = Select { srt, spd, tsd, fau };
                self.run_compute(env, pc, select, TaskAxis::X, workgroups_per_task.into())?;
                self.count_progress(env, progress_increment);
            }
            Instr::FlushCache2 {
                l2,
                lsc,
                other,
                wait_mask,
                latest_flush_id,
                signal_slot,
            } => {
                let seen = self.value32(latest_flush_id).map_err(plain)?;
                let elided = env.caches.flushed_since(seen);
                let work = if elided {
                    Work::Flush {
                        l2: FlushMode::None,
                        lsc: FlushMode::None,
                        other: OtherFlushMode::None,
                    }
                } else {
                    Work::Flush { l2, lsc, other }
                };
                self.defer(env, pc, instr, wait_mask, signal_slot, work)
                    .map_err(plain)?;
            }
            Instr::SyncAdd32 {
                error_propagate,
                scope,
                wait_mask,
                data,
                address,
                signal_slot,
            } => {
                let data = self.value32(data).map_err(plain)?.into();
                let op = self
                    .sync_op(address, data, false, true, error_propagate, scope)
                    .map_err(plain)?;
                return self.now_or_deferred(env, port, pc, instr, wait_mask, signal_slot, op);
            }
            Instr::SyncSet32 {
                error_propagate,
                scope,
                wait_mask,
                data,
                address,
                signal_slot,
            } => {
                let data = self.value32(data).map_err(plain)?.into();
                let op = self
                    .sync_op(address, data, false, false, error_propagate, scope)
                    .map_err(plain)?;
                return self.now_or_deferred(env, port, pc, instr, wait_mask, signal_slot, op);
            }
            Instr::SyncAdd64 {
                error_propagate,
                scope,
                wait_mask,
                data,
                address,
                signal_slot,
            } => {
                let data = self.value64(data).map_err(plain)?;
                let op = self
                    .sync_op(address, data, true, true, error_propagate, scope)
                    .map_err(plain)?;
                return self.now_or_deferred(env, port, pc, instr, wait_mask, signal_slot, op);
            }
            Instr::SyncSet64 {
                error_propagate,
                scope,
                wait_mask,
                data,
                address,
                signal_slot,
            } => {
                let data = self.value64(data).map_err(plain)?;
                let op = self
                    .sync_op(address, data, true, false, error_propagate, scope)
                    .map_err(plain)?;
                return self.now_or_deferred(env, port, pc, instr, wait_mask, signal_slot, op);
            }
            Instr::SyncWait32 {
                error_reject,
                condition,
                data,
                address,
            } => {
                let reference = self.value32(data).map_err(plain)?.into();
                let address = self.value64(address).map_err(plain)?;
                let wait = SyncWait {
                    address,
                    wide: false,
                    condition,
                    reference,
                };
                return self
                    .sync_wait(env, port, pc, instr, wait, error_reject)
                    .map_err(plain);
            }
            Instr::SyncWait64 {
                error_reject,
                condition,
                data,
                address,
            } => {
                let reference = self.value64(data).map_err(plain)?;
                let address = self.value64(address).map_err(plain)?;
                let wait = SyncWait {
                    address,
                    wide: true,
                    condition,
                    reference,
                };
                return self
                    .sync_wait(env, port, pc, instr, wait, error_reject)
                    .map_err(plain);
            }
            Instr::StoreState {
                offset,
                wait_mask,
                state,
                address,
                signal_slot,
            } => {
                let address = self
                    .value64(address)
                    .map_err(plain)?
                    .wrapping_add_signed(offset.into());
                check_aligned("state", address, 8).map_err(plain)?;
                let work = Work::Store { address, state };
                return self.now_or_deferred(env, port, pc, instr, wait_mask, signal_slot, work);
            }
            Instr::ProgressStore { src } => {
                let value = self.value64(src).map_err(plain)?;
                env.device.progress.insert((self.group, self.index), value);
            }
            Instr::ProgressLoad { dst } => {
                let value = env
                    .device
                    .progress
                    .get(&(self.group, self.index))
                    .copied()
                    .unwrap_or(0);
                self.registers.set64(dst, value, kernel).map_err(plain)?;
            }
            Instr::ProgressWait { queue, src } => {
                let value = self.value64(src).map_err(plain)?;
                if env
                    .device
                    .progress
                    .get(&(self.group, queue))
                    .copied()
                    .unwrap_or(0)
                    < value
                {
                    return Ok(Flow::Stop(Stop::Progress { queue, value }));
                }
            }
            Instr::ErrorBarrier {} => self.error = false,
            // Without a tiler job nothing raises the exception, nor uses the heap.
            Instr::SetExceptionHandler {
                length, address, ..
            } => {
                self.value64(address)
                    .and(self.value32(length).map(u64::from))
                    .map_err(plain)?;
            }
            Instr::HeapSet { address } => {
                self.value64(address).map_err(plain)?;
            }
            // panthor gives queues no trace buffer: the registers are read and dropped.
            Instr::TracePoint { base, count, .. } => {
                for register in 0..u16::from(count) {
                    self.registers
                        .get(u16::from(base.0) + register, kernel)
                        .map_err(plain)?;
                }
            }
            Instr::RunTiling { .. }
            | Instr::RunIdvs { .. }
            | Instr::RunFragment { .. }
            | Instr::RunFullscreen { .. }
            | Instr::FinishTiling { .. }
            | Instr::FinishFragment { .. }
            | Instr::HeapOp { .. }
            | Instr::ProtRegion { .. } => {
                return Err(plain(Cause::NotSimulated(instr.op().mnemonic)));
            }
        }
        Ok(Flow::Next)
    }

    fn count_progress<A, E>(&self, env: &mut Env<'_, A, E>, increment: bool) {
        if increment {
            let counter = env
                .device
                .progress
                .entry((self.group, self.index))
                .or_default();
            *counter = counter.wrapping_add(1);
        }
    }

    fn branch(&self, condition: Condition, value: Reg32, offset: i16) -> Result<Flow, Cause> {
        let taken = match condition {
            Condition::Always => true,
            _ => {
                let value = self.value32(value)? as i32;
                match condition {
                    Condition::LessEqual => value <= 0,
                    Condition::Greater => value > 0,
                    Condition::Equal => value == 0,
                    Condition::NotEqual => value != 0,
                    Condition::Less => value < 0,
                    Condition::GreaterEqual => value >= 0,
                    Condition::Always => true,
                }
            }
        };
        if !taken {
            return Ok(Flow::Next);
        }
        self.check_branch(offset)?;
        Ok(Flow::Skip(offset))
    }

    fn target(&self, address: Reg64, length: Reg32) -> Result<Frame, Cause> {
        let (start, length) = (self.value64(address)?, u64::from(self.value32(length)?));
        check_aligned("stream", start, STREAM_ALIGNMENT)?;
        check_aligned("stream length", length, INSTR_BYTES as u64)?;
        Ok(Frame {
            start,
            pc: start,
            end: start.wrapping_add(length),
        })
    }

    fn stream_view<A, E>(&self, env: &Env<'_, A, E>, agent: u32) -> Arc<View> {
        Arc::new(View::stream(agent, self.known.clone(), env.device.rule))
    }

    fn load_multiple<A: AddressSpace, E>(
        &mut self,
        env: &mut Env<'_, A, E>,
        port: &mut Port<'_, A>,
        base: Reg32,
        mask: u16,
        address: Reg64,
        offset: i16,
    ) -> Result<(), Cause> {
        let kernel = self.kernel();
        let address = self.value64(address)?.wrapping_add_signed(offset.into());
        check_aligned("load", address, 4)?;
        port.set_view(self.view(env.device.rule));
        let mut registers = 0u128;
        for i in (0..16u16).filter(|i| mask >> i & 1 != 0) {
            let value = u32::from_le_bytes(port.load(address.wrapping_add(4 * u64::from(i)))?);
            let register = u16::from(base.0) + i;
            self.registers
                .load(register, value, self.other_entry, kernel)?;
            registers |= 1 << register;
        }
        let effect = Effect {
            registers,
            ..Effect::default()
        };
        self.scoreboard
            .add(self.other_entry, env.now + MEMORY_CYCLES, effect);
        Ok(())
    }

    fn store_multiple<A: AddressSpace, E>(
        &mut self,
        env: &mut Env<'_, A, E>,
        port: &mut Port<'_, A>,
        base: Reg32,
        mask: u16,
        address: Reg64,
        offset: i16,
    ) -> Result<(), Cause> {
        let address = self.value64(address)?.wrapping_add_signed(offset.into());
        check_aligned("store", address, 4)?;
        let agent = env.device.new_agent();
        port.set_view(self.stream_view(env, agent));
        for i in (0..16u16).filter(|i| mask >> i & 1 != 0) {
            let value = self.registers.get(u16::from(base.0) + i, self.kernel())?;
            port.store(address.wrapping_add(4 * u64::from(i)), value.to_le_bytes())?;
        }
        let done_at = env.now + MEMORY_CYCLES;
        env.device.set_end(agent, self.group, done_at, env.now);
        let effect = Effect {
            agent: Some(agent),
            past_lsc: true,
            ..Effect::default()
        };
        self.scoreboard.add(self.other_entry, done_at, effect);
        Ok(())
    }

    fn run_compute<A: AddressSpace, E: ComputeEndpoint>(
        &mut self,
        env: &mut Env<'_, A, E>,
        pc: u64,
        select: Select,
        axis: TaskAxis,
        task_increment: u32,
    ) -> Result<(), Failure> {
        if !self.compute {
            return Err(plain(Cause::NoResource));
        }
        let job = self
            .compute_job(select, axis, task_increment)
            .map_err(plain)?;
        self.note_progress();
        if self.error {
            // Until the next ERROR_BARRIER jobs are dropped.
            return Ok(());
        }
        let agent = env.device.new_agent();
        let view = View::job(agent, self.known.clone(), env.device.rule);
        let memory = JobMemory::new(env.space, env.caches, view);
        let (usage, cycles) = match env.endpoint.run(&job, &memory) {
            Ok(usage) => {
                let cycles = JOB_CYCLES.saturating_add(usage.cycles());
                (usage, Some(cycles))
            }
            Err(JobError::Endless { .. }) => (Default::default(), None),
            Err(JobError::Fault {
                exception,
                pc,
                cause,
            }) => {
                env.device.set_end(agent, self.group, env.now, env.now);
                return Err((Cause::Shader { pc, cause }, Some(exception)));
            }
        };
        let (start, end) = env.device.schedule(env.now, cycles);
        env.device.set_end(agent, self.group, end, env.now);
        let effect = Effect {
            agent: Some(agent),
            ..Effect::default()
        };
        self.scoreboard.add(self.endpoint_entry, end, effect);
        let (group, queue) = (self.group, self.index);
        env.device.push_event(Event::Job(JobRecord {
            agent,
            group,
            queue,
            pc,
            job,
            start,
            end,
            usage,
        }));
        Ok(())
    }

    fn compute_job(
        &self,
        select: Select,
        axis: TaskAxis,
        task_increment: u32,
    ) -> Result<ComputeJob, Cause> {
        if task_increment == 0 {
            return Err(Cause::TaskIncrement);
        }
        let three = |first: Reg32| -> Result<[u32; 3], Cause> {
            Ok([
                self.value32(first)?,
                self.value32(Reg32(first.0 + 1))?,
                self.value32(Reg32(first.0 + 2))?,
            ])
        };
        let job = ComputeJob {
            srt: self.value64(compute_sr::srt(select.srt))?,
            fau: self.value64(compute_sr::fau(select.fau))?,
            spd: self.value64(compute_sr::spd(select.spd))?,
            tsd: self.value64(compute_sr::tsd(select.tsd))?,
            attribute_offset: self.value32(compute_sr::GLOBAL_ATTRIBUTE_OFFSET)?,
            workgroup_size: self.value32(compute_sr::WG_SIZE)?,
            offset: three(compute_sr::JOB_OFFSET_X)?,
            size: three(compute_sr::JOB_SIZE_X)?,
            task_axis: axis as u8,
            task_increment,
        };
        if job.spd == 0 {
            return Err(Cause::Missing("shader program descriptor"));
        }
        if job.tsd == 0 {
            return Err(Cause::Missing("local storage descriptor"));
        }
        check_aligned(
            "shader program descriptor",
            job.spd,
            ShaderProgram::ALIGNMENT,
        )?;
        check_aligned("local storage descriptor", job.tsd, LocalStorage::ALIGNMENT)?;
        Fau::unpack(job.fau)?;
        WorkgroupSize::unpack(job.workgroup_size)?;
        Ok(job)
    }

    fn sync_op(
        &self,
        address: Reg64,
        data: u64,
        wide: bool,
        add: bool,
        propagate: bool,
        scope: SyncScope,
    ) -> Result<Work, Cause> {
        let address = self.value64(address)?;
        check_aligned("sync object", address, if wide { 8 } else { 4 })?;
        Ok(Work::Sync(SyncOp {
            address,
            data,
            wide,
            add,
            propagate,
            scope,
        }))
    }

    /// Runs an instruction at once if its wait mask is empty, else hands it to the background.
    #[allow(clippy::too_many_arguments)]
    fn now_or_deferred<A: AddressSpace, E>(
        &mut self,
        env: &mut Env<'_, A, E>,
        port: &mut Port<'_, A>,
        pc: u64,
        instr: &Instr,
        wait_mask: u16,
        slot: u8,
        work: Work,
    ) -> Result<Flow, Failure> {
        if wait_mask == 0 {
            let known = self.known.clone();
            self.perform(env, port, work, &known, env.now)
                .map_err(plain)?;
        } else {
            self.defer(env, pc, instr, wait_mask, slot, work)
                .map_err(plain)?;
        }
        Ok(Flow::Next)
    }

    /// Begins background work: it starts when what is in the mask's entries now is done, and signals its slot.
    fn defer<A, E>(
        &mut self,
        env: &mut Env<'_, A, E>,
        pc: u64,
        instr: &Instr,
        wait_mask: u16,
        slot: u8,
        work: Work,
    ) -> Result<(), Cause> {
        check_mask(wait_mask)?;
        check_entry(slot)?;
        if wait_mask >> slot & 1 != 0 {
            return Err(Cause::SelfWait(slot));
        }
        let kernel = self.kernel();
        let mut known = self.known.clone();
        self.scoreboard.preview(wait_mask, &mut known);
        let start = self.scoreboard.done_at(wait_mask).max(env.now);
        if kernel {
            known.waited.union(&env.device.done(start));
        }
        let mut effect = Effect {
            known: Some(known.clone()),
            ..Effect::default()
        };
        let cycles = match work {
            Work::Flush { l2, lsc, other } => {
                effect.visible = Some(self.flush_makes_visible(env, l2, lsc, other, &known));
                FLUSH_CYCLES
            }
            _ => MEMORY_CYCLES,
        };
        self.scoreboard
            .add(slot, start.saturating_add(cycles), effect);
        self.deferred.push(Deferred {
            start,
            pc,
            text: instr.to_string(),
            known,
            work,
        });
        Ok(())
    }

    /// Which agents' writes everybody sees after the flush, by the device's rule.
    fn flush_makes_visible<A, E>(
        &self,
        env: &Env<'_, A, E>,
        l2: FlushMode,
        lsc: FlushMode,
        other: OtherFlushMode,
        known: &Knowledge,
    ) -> crate::mmu::AgentSet {
        let mut visible = env.device.flushed.clone();
        let enough = match env.device.rule {
            LscRule::Coherent => true,
            LscRule::Flushed => {
                lsc == FlushMode::CleanInvalidate || other == OtherFlushMode::Invalidate
            }
            LscRule::Private => lsc == FlushMode::CleanInvalidate,
        };
        // A skipped flush adds nothing to what earlier ones have done.
        let skipped =
            l2 == FlushMode::None && lsc == FlushMode::None && other == OtherFlushMode::None;
        if enough && !skipped {
            visible.union(&known.waited);
        }
        visible
    }

    /// Runs what is due of the background work, in order of time.
    pub(super) fn run_deferred<A: AddressSpace, E>(
        &mut self,
        env: &mut Env<'_, A, E>,
        port: &mut Port<'_, A>,
    ) -> Result<(), Box<Fault>> {
        while let Some(next) = (0..self.deferred.len()).min_by_key(|i| self.deferred[*i].start) {
            if self.deferred[next].start > env.now {
                break;
            }
            let Deferred {
                start,
                pc,
                text,
                known,
                work,
                ..
            } = self.deferred.remove(next);
            self.perform(env, port, work, &known, start)
                .map_err(|cause| Box::new(Fault::fatal(cause, pc, text, None)))?;
        }
        Ok(())
    }

    fn perform<A: AddressSpace, E>(
        &mut self,
        env: &mut Env<'_, A, E>,
        port: &mut Port<'_, A>,
        work: Work,
        known: &Knowledge,
        cycle: u64,
    ) -> Result<(), Cause> {
        let view = Arc::new(View::stream(0, known.clone(), env.device.rule));
        match work {
            Work::Flush { l2, lsc, other } => {
                env.caches.flush(l2, lsc, Some(&known.waited));
                let visible = self.flush_makes_visible(env, l2, lsc, other, known);
                env.device.flushed.union(&visible);
            }
            Work::Store { address, state } => {
                port.set_view(view);
                let value = match state {
                    State::Timestamp => {
                        (u128::from(cycle) * u128::from(env.device.timestamp_per_mcycle)
                            / 1_000_000) as u64
                    }
                    State::CycleCount => cycle,
                    State::DisjointCount => 0,
                    State::ErrorState => self.error.into(),
                };
                port.store(address, value.to_le_bytes())?;
            }
            Work::Sync(op) => {
                port.set_view(view);
                let status = op.address.wrapping_add(if op.wide { 8 } else { 4 });
                if op.wide {
                    let data = op.data;
                    port.atomic64(op.address, &mut |old| {
                        if op.add { old.wrapping_add(data) } else { data }
                    })?;
                } else {
                    let data = op.data as u32;
                    port.atomic32(op.address, &mut |old| {
                        if op.add { old.wrapping_add(data) } else { data }
                    })?;
                }
                if op.propagate {
                    port.store(status, u32::from(self.error).to_le_bytes())?;
                }
                let object = object_key(env.space, op.address)?;
                env.device.publish(object, known);
                let system = op.scope == SyncScope::System;
                if system {
                    // The host must see the object itself, flush or not.
                    port.write_through(op.address, if op.wide { 12 } else { 8 })?;
                }
                self.note_progress();
                env.device.push_event(Event::SyncUpdate {
                    address: op.address,
                    cycle,
                    system,
                });
            }
        }
        Ok(())
    }

    fn sync_wait<A: AddressSpace, E>(
        &mut self,
        env: &mut Env<'_, A, E>,
        port: &mut Port<'_, A>,
        pc: u64,
        instr: &Instr,
        wait: SyncWait,
        reject: bool,
    ) -> Result<Flow, Cause> {
        check_aligned("sync object", wait.address, if wait.wide { 8 } else { 4 })?;
        port.set_view(self.view(env.device.rule));
        let (value, status) = if wait.wide {
            (
                u64::from_le_bytes(port.load(wait.address)?),
                wait.address.wrapping_add(8),
            )
        } else {
            (
                u32::from_le_bytes(port.load(wait.address)?).into(),
                wait.address.wrapping_add(4),
            )
        };
        let met = match wait.condition {
            Condition::LessEqual => value <= wait.reference,
            Condition::Greater => value > wait.reference,
            _ => return Err(Cause::SyncCondition),
        };
        if !met {
            return Ok(Flow::Stop(Stop::Blocked(wait)));
        }
        self.note_progress();
        let object = object_key(env.space, wait.address)?;
        if let Some(known) = env.device.published(object) {
            self.known.union(known);
            self.forget_view();
        }
        let error = u32::from_le_bytes(port.load(status)?);
        if error != 0 && !reject && !self.error {
            self.error = true;
            let cause = Cause::Inherited {
                address: wait.address,
                error,
            };
            let fault = Fault::recoverable(cause, pc, instr.to_string());
            self.report(env.device, fault);
        }
        Ok(Flow::Next)
    }
}

/// One object has one key, whatever address it is mapped at.
fn object_key(space: &impl AddressSpace, va: u64) -> Result<usize, Cause> {
    let page = space
        .translate(va, Access::Read)
        .map_err(MemoryError::from)?;
    Ok(page.host.cast::<AtomicU32>().as_ptr() as usize + (va & (page.size - 1)) as usize)
}

/// Which of the four registers of each kind a job uses.
#[derive(Clone, Copy, Debug)]
struct Select {
    srt: u8,
    spd: u8,
    tsd: u8,
    fau: u8,
}
