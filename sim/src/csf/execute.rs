//! What each instruction does at issue. What runs in the background is in `background`.

use std::sync::Arc;

use mali_isa::csf::{
    Condition, ExceptionType, FlushMode, INSTR_BYTES, Instr, OtherFlushMode, Reg32, Reg64,
    STREAM_ALIGNMENT, TaskAxis,
};
use mali_isa::desc::{Fau, LocalStorage, ShaderProgram, WorkgroupSize, compute_sr};

use super::background::{MEMORY_CYCLES, Work, check_entry};
use super::device::{ComputeEndpoint, Event, JobError, JobRecord};
use super::exception::{Cause, Exception};
use super::heap;
use super::queue::{CALL_DEPTH, Env, Flow, Frame, Queue, Stop, SyncWait};
use super::scoreboard::Effect;
use crate::mmu::{AddressSpace, JobMemory, Port, View};
use crate::shader::{ComputeJob, MemoryPort};

/// Cycles to start a job on the cores. Assumed, not measured.
pub const JOB_CYCLES: u64 = 1000;

pub(super) type Failure = (Cause, Option<Exception>);

pub(super) fn plain(cause: impl Into<Cause>) -> Failure {
    (cause.into(), None)
}

pub(super) fn check_aligned(what: &'static str, address: u64, alignment: u64) -> Result<(), Cause> {
    if address % alignment != 0 {
        return Err(Cause::Misaligned {
            what,
            address,
            alignment,
        });
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
                if self.compute && !env.endpoint.ready() {
                    return Ok(Flow::Stop(Stop::Endpoint));
                }
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
                if self.compute && !env.endpoint.ready() {
                    return Ok(Flow::Stop(Stop::Endpoint));
                }
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
            Instr::SetExceptionHandler {
                length,
                address,
                exception_type: ExceptionType::TilerOom,
            } => {
                let frame = self.target(address, length).map_err(plain)?;
                let bytes = self.value32(length).map_err(plain)?;
                self.oom_handler = (frame.start != 0).then_some((frame.start, bytes));
            }
            Instr::HeapSet { address } => {
                let heap = self.value64(address).map_err(plain)?;
                check_aligned("heap context", heap, heap::ALIGNMENT).map_err(plain)?;
                self.heap = (heap != 0).then_some(heap);
            }
            Instr::HeapOp {
                wait_mask,
                operation,
                signal_slot,
            } => {
                let heap = self.heap.ok_or(plain(Cause::Missing("tiler heap")))?;
                let work = Work::Heap { heap, operation };
                return self.now_or_deferred(env, port, pc, instr, wait_mask, signal_slot, work);
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
            // Beyond the last address nothing is mapped: the fetch faults there.
            end: start.saturating_add(length),
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
}

/// Which of the four registers of each kind a job uses.
#[derive(Clone, Copy, Debug)]
struct Select {
    srt: u8,
    spd: u8,
    tsd: u8,
    fau: u8,
}
