//! Groups of queues (`struct panthor_group`).

use std::sync::Arc;

use panthor_uapi::Errno;

use super::heap::KernelBo;
use super::queue::Queue;
use super::vm::Vm;

/// `enum panthor_group_state`, as far as a group without firmware trouble goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupState {
    /// Never on a slot.
    Created,
    /// On a slot.
    Active,
    /// Off its slot with its state saved.
    Suspended,
    /// Gone for good.
    Terminated,
}

/// A group.
pub struct Group {
    /// The address space.
    pub vm: Arc<Vm>,
    /// `PANTHOR_GROUP_PRIORITY_*`.
    pub priority: usize,
    /// The queues.
    pub queues: Vec<Queue>,
    /// The queues' sync objects, as an object in the VM.
    pub syncobjs: KernelBo,
    /// The slot it is on.
    pub slot: Option<usize>,
    /// The slot's priority, 15 the highest.
    pub slot_priority: u32,
    /// What the firmware has made of it.
    pub state: GroupState,
    /// Queues without work, as the driver last heard.
    pub idle_queues: u32,
    /// Queues that a SYNC_WAIT blocks, as the driver last heard.
    pub blocked_queues: u32,
    /// Queues that met a fatal fault.
    pub fatal_queues: u32,
    /// A job was killed by the timer.
    pub timedout: bool,
    /// Killed by a reset that another group caused.
    pub innocent: bool,
    /// The client has destroyed it.
    pub destroyed: bool,
}

impl Group {
    /// Whether it may run and take jobs (`group_can_run`).
    pub fn can_run(&self) -> bool {
        self.state != GroupState::Terminated
            && !self.destroyed
            && self.fatal_queues == 0
            && !self.timedout
    }

    /// Whether no queue has anything to do, as the driver last heard (`group_is_idle`).
    pub fn is_idle(&self) -> bool {
        (self.idle_queues | self.blocked_queues).count_ones() as usize == self.queues.len()
    }

    /// What the hardware would say of that now: idle and blocked queues.
    pub fn hardware_state(&self) -> (u32, u32) {
        let (mut idle, mut blocked) = (0, 0);
        for (index, queue) in self.queues.iter().enumerate() {
            idle |= u32::from(queue.ring.is_empty()) << index;
            blocked |= u32::from(!queue.ring.is_empty() && queue.hw.blocked) << index;
        }
        (idle, blocked)
    }

    /// Hears it (`csg_slot_sync_queues_state_locked`).
    pub fn sync_queues(&mut self) {
        (self.idle_queues, self.blocked_queues) = self.hardware_state();
    }

    /// The errno of the jobs of a queue that is given up (`group_term_post_processing`).
    pub fn kill_error(&self, queue: usize) -> Errno {
        if self.fatal_queues & (1 << queue) != 0 {
            Errno::INVAL
        } else if self.timedout {
            Errno::TIMEDOUT
        } else {
            Errno::CANCELED
        }
    }

    /// Bits of all queues.
    pub fn all_queues(&self) -> u32 {
        ((1_u64 << self.queues.len()) - 1) as u32
    }
}
