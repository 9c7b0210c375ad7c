//! What the host reads of a group and its streams after STATUS_UPDATE or SUSPEND.

use mali_isa::csf::Condition;

use super::layout::{STREAMS, cs_out, csg_in, csg_out, status};
use super::mcu::{Activity, Mcu, Stream};
use crate::hw::ctx::{Ctx, McuFault};

/// The words of a stream's status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Status {
    pub command: u64,
    pub wait: u32,
    pub resources: u32,
    pub sync: u64,
    pub value: u64,
    pub scoreboards: u32,
    pub reason: u32,
}

impl Status {
    pub(super) fn of(stream: &Stream, cycle: u64) -> Self {
        let queue = &stream.queue;
        let mut words = Status {
            command: queue.position(),
            resources: queue.holds_compute().into(),
            scoreboards: queue.busy_entries(cycle).into(),
            ..Status::default()
        };
        match &stream.activity {
            Activity::Blocked(wait) => {
                words.reason = status::SYNC_WAIT;
                words.wait = status::WAIT_SYNC;
                if wait.wide {
                    words.wait |= status::WAIT_SYNC_64B;
                }
                if wait.condition == Condition::Greater {
                    words.wait |= status::WAIT_SYNC_COND_GT;
                }
                words.sync = wait.address;
                words.value = wait.reference;
            }
            // An idle queue waits for nothing; without instructions it may still have work under way.
            Activity::Waiting | Activity::Stuck { waits: true } if queue.waits_for() != 0 => {
                words.reason = status::SB_WAIT;
                words.wait = status::WAIT_SB_SRC_WAIT | u32::from(queue.waits_for());
            }
            Activity::Progress => {
                words.reason = status::PROGRESS_WAIT;
                words.wait = status::WAIT_PROGRESS;
            }
            Activity::Cores => words.reason = status::RESOURCE,
            _ => words.reason = status::UNBLOCKED,
        }
        words
    }
}

impl Mcu {
    /// Writes the status of a slot's group and of all its streams.
    pub(super) fn write_status(&mut self, ctx: &mut Ctx<'_>, slot: usize) -> Result<(), McuFault> {
        let cycle = ctx.now_cycles();
        let group = self.slots[slot].group.as_deref();
        let idle = group.is_some_and(|group| group.idle);
        let cores = group.map_or(0, |group| group.endpoint.core_count() as u32);
        let request = ctx.read32(csg_in(slot) + csg_in::ENDPOINT_REQ)?;
        ctx.write32(csg_out(slot) + csg_out::STATUS_STATE, idle.into())?;
        ctx.write32(csg_out(slot) + csg_out::STATUS_ENDPOINT_CURRENT, cores)?;
        ctx.write32(csg_out(slot) + csg_out::STATUS_ENDPOINT_REQ, request)?;
        ctx.write32(csg_out(slot) + csg_out::RESOURCE_DEP, 0)?;
        for index in 0..STREAMS {
            let stream = group.and_then(|group| group.streams[index].as_deref());
            let words = stream.map_or(Status::default(), |s| Status::of(s, cycle));
            let out = cs_out(slot, index);
            ctx.write64(out + cs_out::STATUS_CMD_PTR, words.command)?;
            ctx.write32(out + cs_out::STATUS_WAIT, words.wait)?;
            ctx.write32(out + cs_out::STATUS_REQ_RESOURCE, words.resources)?;
            ctx.write64(out + cs_out::STATUS_WAIT_SYNC_PTR, words.sync)?;
            ctx.write32(out + cs_out::STATUS_WAIT_SYNC_VALUE, words.value as u32)?;
            ctx.write32(
                out + cs_out::STATUS_WAIT_SYNC_VALUE_HI,
                (words.value >> 32) as u32,
            )?;
            ctx.write32(out + cs_out::STATUS_SCOREBOARDS, words.scoreboards)?;
            ctx.write32(out + cs_out::STATUS_BLOCKED_REASON, words.reason)?;
        }
        Ok(())
    }
}
