//! A compute job on the cores: cut into tasks, tasks given to cores, cores to host threads; within a core
//! workgroup after workgroup, within a workgroup warp after warp from barrier to barrier.

use std::sync::atomic::{AtomicU64, Ordering};

use mali_isa::valhall::Combine;

use super::alu::operands::int;
use super::alu::{self, FloatMode};
use super::fault::{FaultKind, Place, ShaderFault};
use super::message::{Messages, Stop};
use super::program::{Charge, Class, Program, Trap, Uop};
use super::setup::{Setup, product, read_uniforms};
use super::usage::{CoreUsage, Usage};
use super::warp::{ALL_LANES, LOW, Lanes, RegisterFault, WARP_LANES, WORD, Warp, row};
use super::{ComputeJob, MemoryPort, ShaderMemory};

/// Threads that one core holds at once with at most 32 registers each; half of it with 64.
/// (Mesa, panfrost/lib/pan_props.c; THREAD_MAX_THREADS of a Mali-G610.)
pub const THREADS_PER_CORE: u32 = 2048;

/// Threads that a workgroup may have: THREAD_MAX_WORKGROUP_SIZE of a Mali-G610.
pub const WORKGROUP_THREADS: u32 = 1024;

/// First register that can be preloaded. (Mesa, genxml/v10.xml, `Preload`: r48 to r63.)
const PRELOAD_BASE: u32 = 48;

/// The error of a memory's ports.
pub type MemoryError<M> = <<M as ShaderMemory>::Port as MemoryPort>::Error;

/// The shader cores of a GPU and how the simulator runs them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShaderCores {
    /// Number of each present core, as the special source `core_id` gives it (the bits of SHADER_PRESENT).
    pub core_ids: Vec<u32>,
    /// Host threads to use; results and counts do not depend on it.
    pub threads: usize,
    /// Moves results of approximating units by up to one place; 0 rounds correctly.
    pub seed: u64,
    /// Warp instructions that one core may execute in one job.
    pub instruction_limit: u64,
}

impl ShaderCores {
    /// Runs a compute job to its end.
    ///
    /// # Errors
    /// [`ShaderFault`] for whatever hardware leaves undefined, for memory faults, and for jobs that do not end. Of
    /// several faults the one of the first task is returned. Memory then holds what was stored until then.
    pub fn run<M: ShaderMemory>(
        &self,
        job: &ComputeJob,
        memory: &M,
    ) -> Result<Usage, Box<ShaderFault<MemoryError<M>>>> {
        if self.core_ids.is_empty() {
            return Err(ShaderFault::job(FaultKind::InvalidJob {
                reason: "no shader core is present".into(),
            }));
        }
        let mut messages = Messages::new(memory.port(0), 0, 0);
        let setup = Setup::new(job, &mut messages).map_err(|stop| ShaderFault::job(stop.kind))?;
        let tasks = setup.tasks();
        let cores = self.core_ids.len();
        let threads = self.threads.clamp(1, cores);
        // The lowest task that failed so far: later ones need not run.
        let failed = AtomicU64::new(u64::MAX);
        let mut results: Vec<Option<CoreResult<MemoryError<M>>>> =
            (0..cores).map(|_| None).collect();
        let run_cores = |thread: usize| {
            (thread..cores)
                .step_by(threads)
                .map(|core| (core, self.run_core(&setup, memory, core, tasks, &failed)))
                .collect::<Vec<_>>()
        };
        if threads == 1 {
            for (core, result) in run_cores(0) {
                results[core] = Some(result);
            }
        } else {
            std::thread::scope(|scope| {
                let run_cores = &run_cores;
                let handles: Vec<_> = (0..threads)
                    .map(|thread| scope.spawn(move || run_cores(thread)))
                    .collect();
                for handle in handles {
                    // A panic of a worker is a bug here; it continues in the caller.
                    match handle.join() {
                        Ok(done) => done
                            .into_iter()
                            .for_each(|(core, result)| results[core] = Some(result)),
                        Err(panic) => std::panic::resume_unwind(panic),
                    }
                }
            });
        }
        let workgroups = product(&setup.size, 1);
        let mut usage = Usage {
            tasks,
            workgroups,
            warps: workgroups.saturating_mul(setup.warps as u64),
            ..Usage::default()
        };
        let mut first: Option<(u64, Box<ShaderFault<MemoryError<M>>>)> = None;
        for result in results.into_iter().flatten() {
            match result {
                Ok((core, largest)) => {
                    usage.cores.push(core);
                    usage.largest_task_cycles = usage.largest_task_cycles.max(largest);
                }
                Err((task, fault)) => {
                    if first.as_ref().is_none_or(|(other, _)| task < *other) {
                        first = Some((task, fault));
                    }
                }
            }
        }
        match first {
            Some((_, fault)) => Err(fault),
            None => Ok(usage),
        }
    }

    fn run_core<M: ShaderMemory>(
        &self,
        setup: &Setup,
        memory: &M,
        core: usize,
        tasks: u64,
        failed: &AtomicU64,
    ) -> CoreResult<MemoryError<M>> {
        let mut worker = Worker {
            setup,
            messages: Messages::new(
                memory.port(core as u32),
                setup.srt.pointer,
                setup.srt.count.into(),
            ),
            warps: (0..setup.warps).map(|_| Warp::new()).collect(),
            core: self.core_ids[core],
            mode: FloatMode {
                seed: self.seed,
                ..setup.mode
            },
            limit: self.instruction_limit,
            wls_turn: 0,
        };
        let mut usage = CoreUsage::default();
        let mut largest = 0;
        let mut task = core as u64;
        while task < tasks && task < failed.load(Ordering::Relaxed) {
            let before = worker.messages.counts;
            if let Err(fault) = worker.task(task) {
                failed.fetch_min(task, Ordering::Relaxed);
                return Err((task, fault));
            }
            largest = largest.max(worker.messages.counts.since(&before).cycles());
            usage.tasks += 1;
            task += self.core_ids.len() as u64;
        }
        usage.counts = worker.messages.counts;
        usage.warps = worker.wls_turn * setup.warps as u64;
        Ok((usage, largest))
    }
}

type CoreResult<E> = Result<(CoreUsage, u64), (u64, Box<ShaderFault<E>>)>;

/// Why a warp stopped running.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Ready,
    Barrier,
    Ended,
}

/// One core at work.
struct Worker<'a, P: MemoryPort> {
    setup: &'a Setup,
    messages: Messages<P>,
    warps: Vec<Warp>,
    core: u32,
    mode: FloatMode,
    limit: u64,
    /// Workgroups done, to take the instances of workgroup storage in turn.
    wls_turn: u64,
}

impl<P: MemoryPort> Worker<'_, P> {
    fn task(&mut self, task: u64) -> Result<(), Box<ShaderFault<P::Error>>> {
        // Each core fetches the uniforms itself: they must be visible to it.
        read_uniforms(&mut self.messages, self.setup.fau)
            .map_err(|stop| ShaderFault::job(stop.kind))?;
        let (first, count) = self.setup.task(task);
        for z in first[2]..first[2] + count[2] {
            for y in first[1]..first[1] + count[1] {
                for x in first[0]..first[0] + count[0] {
                    let [ox, oy, oz] = self.setup.offset;
                    self.workgroup([x.wrapping_add(ox), y.wrapping_add(oy), z.wrapping_add(oz)])?;
                }
            }
        }
        Ok(())
    }

    fn workgroup(&mut self, id: [u32; 3]) -> Result<(), Box<ShaderFault<P::Error>>> {
        self.enter(id);
        let mut states = vec![State::Ready; self.warps.len()];
        loop {
            for (index, state) in states.iter_mut().enumerate() {
                if *state != State::Ready {
                    continue;
                }
                match self.run(index) {
                    Ok(after) => *state = after,
                    Err(stop) => return Err(self.fault(*stop, id, index)),
                }
            }
            let waiting = states
                .iter()
                .filter(|&&state| state == State::Barrier)
                .count();
            if waiting == 0 {
                return Ok(());
            }
            if waiting != states.len() {
                let index = states
                    .iter()
                    .position(|&state| state == State::Barrier)
                    .unwrap_or(0);
                let stop = Stop {
                    kind: FaultKind::LonelyBarrier,
                    lane: None,
                };
                // The barrier itself is behind the warp already.
                self.warps[index].pc = self.warps[index].pc.saturating_sub(1);
                return Err(self.fault(stop, id, index));
            }
            states.fill(State::Ready);
        }
    }

    /// Brings all warps to the entry of the shader.
    fn enter(&mut self, id: [u32; 3]) {
        let setup = self.setup;
        let last = self.warps.len() - 1;
        let threads = (setup.warps_per_core as usize * WARP_LANES) as u64;
        let tls = setup.storage.tls_address().unwrap_or(0);
        let wls = setup.storage.wls.map_or(0, |wls| {
            let instances = 1u64 << wls.instances_log2;
            let instance = u64::from(self.core) * instances + self.wls_turn % instances;
            wls.base.wrapping_add(instance.wrapping_mul(wls.bytes()))
        });
        self.wls_turn += 1;
        for (index, warp) in self.warps.iter_mut().enumerate() {
            warp.reset(if index == last {
                setup.last_lanes
            } else {
                ALL_LANES
            });
            warp.pc = setup.program.entry;
            let [x, y, z] = setup.local[index];
            for register in 55u32..=62 {
                if setup.preload & (1 << (register - PRELOAD_BASE)) == 0 {
                    continue;
                }
                let mut bytes = WORD;
                let value = match register {
                    55 => Lanes(std::array::from_fn(|lane| x.0[lane] | y.0[lane] << 16)),
                    56 => {
                        bytes = LOW;
                        z
                    }
                    57..=59 => Lanes::splat(id[register as usize - 57]),
                    _ => {
                        let axis = register as usize - 60;
                        let first = id[axis].wrapping_mul(setup.workgroup[axis]);
                        Lanes(
                            setup.local[index][axis]
                                .0
                                .map(|local| first.wrapping_add(local)),
                        )
                    }
                };
                warp.rows[register as usize] = value;
                warp.define(register as u8, bytes);
            }
            let thread = |lane: usize| {
                let thread = u64::from(self.core) * threads + (index * WARP_LANES + lane) as u64;
                tls.wrapping_add(thread.wrapping_mul(setup.storage.tls_bytes()))
            };
            let mut set = |row: u16, value: Lanes| warp.rows[usize::from(row)] = value;
            set(
                row::THREAD_LOCAL,
                Lanes(std::array::from_fn(|lane| thread(lane) as u32)),
            );
            set(
                row::THREAD_LOCAL + 1,
                Lanes(std::array::from_fn(|lane| (thread(lane) >> 32) as u32)),
            );
            set(row::WORKGROUP_LOCAL, Lanes::splat(wls as u32));
            set(row::WORKGROUP_LOCAL + 1, Lanes::splat((wls >> 32) as u32));
            set(row::CORE_ID, Lanes::splat(self.core));
            set(row::WARP_ID, Lanes::splat(index as u32));
            set(row::WARP_ID + 1, Lanes::splat(setup.warps_per_core - 1));
        }
    }

    fn fault(
        &self,
        stop: Stop<P::Error>,
        workgroup: [u32; 3],
        warp: usize,
    ) -> Box<ShaderFault<P::Error>> {
        let index = self.warps[warp].pc as usize;
        let program = &self.setup.program;
        let text = match program.instrs.get(index).and_then(Option::as_ref) {
            Some(instr) => instr.to_string(),
            None => "?".to_string(),
        };
        let pc = program.ops.get(index).map_or(0, |op| op.pc);
        let warp = warp as u32;
        let at = Place {
            pc,
            text,
            core: self.core,
            workgroup,
            warp,
            lane: stop.lane,
        };
        Box::new(ShaderFault {
            kind: stop.kind,
            at: Some(at),
        })
    }

    /// Runs one warp to its end or the next barrier.
    fn run(&mut self, index: usize) -> Result<State, Box<Stop<P::Error>>> {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma")
        {
            // SAFETY: the features that the function is compiled for were found on this machine just now.
            return unsafe { self.run_avx2(index) };
        }
        self.run_portable(index)
    }

    /// The same code for machines with 256-bit vectors and a fused multiply-add instruction.
    ///
    /// # Safety
    /// The machine must have AVX2 and FMA.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn run_avx2(&mut self, index: usize) -> Result<State, Box<Stop<P::Error>>> {
        self.run_portable(index)
    }

    #[inline(always)]
    fn run_portable(&mut self, index: usize) -> Result<State, Box<Stop<P::Error>>> {
        let setup = self.setup;
        let program = &setup.program;
        let messages = &mut self.messages;
        let warp = &mut self.warps[index];
        let mode = self.mode;
        loop {
            let op = &program.ops[warp.pc as usize];
            messages.counts.instructions += 1;
            if messages.counts.instructions > self.limit {
                return Err(Stop::new(FaultKind::Runaway { limit: self.limit }));
            }
            let partial = match warp.check(op) {
                Ok(partial) => partial,
                Err(fault) => return Err(register_fault(fault, setup.preload)),
            };
            let counts = &mut messages.counts;
            match op.charge {
                Charge::Fma => counts.fma += 1,
                Charge::Dot => {
                    counts.fma += 1;
                    counts.dot += 1;
                }
                Charge::Cvt => counts.cvt += 1,
                Charge::CvtWide => counts.cvt += 2,
                Charge::Sfu => counts.sfu += 1,
                Charge::SfuWide => counts.sfu += 2,
                Charge::Ls => counts.ls += 1,
                Charge::Barrier => counts.barriers += 1,
            }
            let mut taken = 0;
            match op.class {
                Class::Alu => match alu::execute(warp, program, op, mode, partial) {
                    Ok(true) => {}
                    Ok(false) => {
                        let what = op.op.mnemonic().to_string();
                        return Err(Stop::new(FaultKind::NotModelled { what }));
                    }
                    Err(fault) => return Err(register_fault(fault, setup.preload)),
                },
                Class::Nop => {}
                Class::Branch => {
                    taken = branch(warp, program, op);
                    warp.kill(op.kill);
                }
                Class::Barrier => {
                    if warp.active != warp.live {
                        return Err(Stop::new(FaultKind::DivergentBarrier));
                    }
                    if warp.busy != 0 {
                        return Err(Stop::new(FaultKind::BarrierWithPending {
                            slots: warp.busy,
                        }));
                    }
                    warp.pc += 1;
                    return Ok(State::Barrier);
                }
                Class::Trap(trap) => {
                    return Err(spring(&program.traps[trap as usize], op, messages));
                }
                _ => messages.execute(warp, program, op)?,
            }
            warp.wait(op.waits);
            if op.end {
                if !warp.end() {
                    return Ok(State::Ended);
                }
                continue;
            }
            let next = warp.pc + 1;
            if op.reconverge {
                if warp.active == warp.live && (taken == 0 || taken == warp.active) {
                    warp.pc = if taken == 0 { next } else { op.target };
                } else {
                    warp.regroup(taken, op.target, next);
                }
            } else if taken == 0 {
                warp.pc = next;
            } else if taken == warp.active {
                warp.pc = op.target;
            } else {
                return Err(Stop::new(FaultKind::UnmarkedDivergence));
            }
        }
    }
}

/// The active lanes that take the branch.
#[inline(always)]
fn branch(warp: &Warp, program: &Program, op: &Uop) -> u16 {
    let condition = int(warp, program, &op.srcs[0], false);
    let mut zero = 0u16;
    for (lane, &value) in condition.0.iter().enumerate() {
        let is_zero = match op.mods.combine {
            Combine::H0 => value & 0xffff == 0,
            Combine::H1 => value >> 16 == 0,
            // Lowering refuses the others.
            Combine::None | Combine::And | Combine::LowBits => value == 0,
        };
        zero |= u16::from(is_zero) << lane;
    }
    (if op.mods.eq { zero } else { !zero }) & warp.active
}

fn spring<P: MemoryPort>(trap: &Trap, op: &Uop, messages: &mut Messages<P>) -> Box<Stop<P::Error>> {
    if *trap != Trap::Refetch {
        return Stop::new(trap.kind(op.pc));
    }
    match messages.port.fetch(op.pc) {
        Err(error) => Stop::new(FaultKind::Memory { va: op.pc, error }),
        Ok(word) => {
            let reason = "it could not be fetched when the job began".to_string();
            Stop::new(FaultKind::InvalidInstruction { word, reason })
        }
    }
}

#[cold]
fn register_fault<E: std::error::Error>(fault: RegisterFault, preload: u16) -> Box<Stop<E>> {
    match fault {
        RegisterFault::Undefined { register, lane } => {
            let preloadable = (55..=62).contains(&register);
            let kind = if preloadable && preload & (1 << (u32::from(register) - PRELOAD_BASE)) == 0
            {
                FaultKind::NotPreloaded { register }
            } else {
                FaultKind::UndefinedRegister { register }
            };
            Stop::lane(kind, lane.into())
        }
        RegisterFault::Discarded { register, lane } => {
            Stop::lane(FaultKind::DiscardedRegister { register }, lane.into())
        }
        RegisterFault::Pending {
            register,
            slot,
            lane,
        } => Stop::lane(FaultKind::PendingRegister { register, slot }, lane.into()),
        RegisterFault::Overwrite {
            register,
            slot,
            lane,
        } => Stop::lane(FaultKind::PendingOverwrite { register, slot }, lane.into()),
    }
}
