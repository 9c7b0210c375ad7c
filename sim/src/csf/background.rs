//! Instructions that may run in the background: cache flushes, sync objects, STORE_STATE.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use mali_isa::csf::{
    Condition, FlushMode, HeapOperation, Instr, OtherFlushMode, Reg64, SCOREBOARDS, State,
    SyncScope,
};

use super::device::Event;
use super::exception::{Cause, Fault};
use super::execute::{Failure, check_aligned, plain};
use super::heap;
use super::queue::{Env, Flow, Queue, Stop, SyncWait};
use super::scoreboard::{ALL_ENTRIES, Effect};
use crate::mmu::{Access, AddressSpace, AgentSet, Knowledge, LscRule, MemoryError, Port, View};
use crate::shader::MemoryPort;

/// Cycles from the issue of a load or store of the stream to its completion. Assumed, not measured.
pub const MEMORY_CYCLES: u64 = 200;

/// Cycles of a cache flush, however much is dirty. Assumed, not measured.
pub const FLUSH_CYCLES: u64 = 2000;

/// An instruction that runs later, with the values its registers had at issue.
#[derive(Debug)]
pub(super) struct Deferred {
    pub start: u64,
    pub pc: u64,
    pub word: u64,
    pub text: String,
    pub known: Knowledge,
    pub work: Work,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Work {
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
    Heap {
        heap: u64,
        operation: HeapOperation,
    },
}

#[derive(Clone, Copy, Debug)]
pub(super) struct SyncOp {
    pub address: u64,
    pub data: u64,
    pub wide: bool,
    pub add: bool,
    pub propagate: bool,
    pub scope: SyncScope,
}

pub(super) fn check_entry(entry: u8) -> Result<(), Cause> {
    if entry >= SCOREBOARDS {
        return Err(Cause::NoScoreboard(entry.into()));
    }
    Ok(())
}

pub(super) fn check_mask(mask: u16) -> Result<(), Cause> {
    if mask & !ALL_ENTRIES != 0 {
        return Err(Cause::NoScoreboard(mask));
    }
    Ok(())
}

impl Queue {
    pub(super) fn sync_op(
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
    pub(super) fn now_or_deferred<A: AddressSpace, E>(
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
    pub(super) fn defer<A, E>(
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
            // It was decoded from a word.
            word: instr.encode().unwrap_or_default(),
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
    ) -> AgentSet {
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
            Work::Heap {
                heap: context,
                operation,
            } => {
                port.set_view(view);
                port.atomic32(heap::counter(context, operation), &mut |old| {
                    old.wrapping_add(1)
                })?;
                // The firmware reads it past the caches.
                port.write_through(context, heap::BYTES)?;
                if operation == HeapOperation::VertexTilerStarted {
                    self.pause();
                    env.device.push_event(Event::RenderPass {
                        heap: context,
                        cycle,
                    });
                }
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

    pub(super) fn sync_wait<A: AddressSpace, E>(
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
