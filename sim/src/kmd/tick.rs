//! The tick: which groups get the slots (`panthor_sched.c:tick_work`).

use std::collections::BTreeMap;

use super::group::{Group, GroupState};
use super::sched::{GroupId, PRIORITIES, REALTIME, Scheduler, TICK_PERIOD};
use crate::model::AS_PRESENT;

/// `MAX_CSG_PRIO`.
const MAX_SLOT_PRIORITY: u32 = 0xf;

impl Scheduler {
    /// `tick_work`.
    pub(super) fn tick(&mut self, now: u64) {
        let target = self.resched_target.unwrap_or(self.last_tick + TICK_PERIOD);
        let full_tick = now >= target;
        let mut tick = Tick {
            old: self.old_groups(),
            ..Tick::default()
        };
        if !full_tick {
            // Only real-time groups preempt in the middle of a tick.
            for priority in (0..PRIORITIES).rev() {
                tick.pick(self, From::Old(priority), true);
                if priority == REALTIME {
                    tick.pick(self, From::Runnable(priority), true);
                }
            }
        }
        for priority in (0..PRIORITIES).rev() {
            let rotated = (!tick.old[priority].is_empty()).then(|| tick.old[priority].remove(0));
            tick.pick(self, From::Old(priority), true);
            tick.pick(self, From::Runnable(priority), true);
            if let Some(rotated) = rotated {
                tick.old[priority].push(rotated);
                tick.pick(self, From::Old(priority), true);
            }
        }
        for priority in (0..PRIORITIES).rev() {
            tick.pick(self, From::Old(priority), false);
            tick.pick(self, From::Idle(priority), false);
        }
        self.apply(&tick, now);
        self.last_tick = now;
        if tick.keep_ticking {
            let next = now + TICK_PERIOD;
            if self
                .resched_target
                .is_none_or(|target| target <= now || next < target)
            {
                self.resched_target = Some(next);
            }
            if self.tick_at.is_none() {
                self.tick_at = self.resched_target;
            }
        } else {
            self.resched_target = None;
        }
    }

    /// The groups on the slots by priority, the highest slot priority first (`tick_ctx_init`).
    fn old_groups(&mut self) -> [Vec<GroupId>; PRIORITIES] {
        let mut old: [Vec<GroupId>; PRIORITIES] = Default::default();
        for &id in self.slots.iter().flatten() {
            let Some(group) = self.groups.get_mut(&id) else {
                continue;
            };
            if group.vm.has_unhandled_fault() && group.fatal_queues == 0 {
                group.fatal_queues = group.all_queues();
            }
            group.sync_queues();
            old[group.priority].push(id);
        }
        for list in &mut old {
            list.sort_by_key(|id| std::cmp::Reverse(self.groups[id].slot_priority));
        }
        old
    }

    /// `tick_ctx_apply` and `tick_ctx_cleanup`.
    fn apply(&mut self, tick: &Tick, now: u64) {
        let evicted: Vec<GroupId> = tick.old.iter().rev().flatten().copied().collect();
        for &id in &evicted {
            self.evict(id, now);
        }
        let mut slot_priority = MAX_SLOT_PRIORITY;
        for &id in tick.picked.iter().rev().flatten() {
            self.forget(id);
            let Some(group) = self.groups.get_mut(&id) else {
                continue;
            };
            group.slot_priority = slot_priority;
            slot_priority = slot_priority.saturating_sub(1);
            if group.slot.is_some() {
                continue;
            }
            let Some(slot) = self.slots.iter().position(Option::is_none) else {
                continue;
            };
            self.slots[slot] = Some(id);
            group.slot = Some(slot);
            group.state = GroupState::Active;
            if !self
                .slots
                .iter()
                .flatten()
                .any(|other| *other != id && shares_vm(&self.groups, *other, id))
            {
                // `panthor_vm_active` switches the address space on again.
                self.groups[&id].vm.clear_fault();
            }
            let Some(group) = self.groups.get_mut(&id) else {
                continue;
            };
            for queue in &mut group.queues {
                if !queue.ring.is_empty() {
                    queue.resume_timer(now);
                    queue.resume_tdr(now);
                }
            }
        }
        for id in evicted {
            let Some(group) = self.groups.get(&id) else {
                continue;
            };
            let (priority, idle) = (group.priority, group.is_idle());
            if !group.can_run() {
                self.forget(id);
                self.terminate(id, now);
            } else if idle {
                self.idle[priority].push(id);
            } else {
                self.runnable[priority].push(id);
            }
        }
        self.used_slots = self.slots.iter().flatten().count();
        self.might_have_idle_groups = tick.idle_groups > 0;
    }

    /// Takes a group off its slot: suspended, or terminated where it cannot run.
    fn evict(&mut self, id: GroupId, now: u64) {
        let Some(group) = self.groups.get_mut(&id) else {
            return;
        };
        group.state = if group.can_run() {
            GroupState::Suspended
        } else {
            GroupState::Terminated
        };
        group.sync_queues();
        let (idle_group, blocked) = (group.is_idle(), group.blocked_queues);
        let can_run = group.can_run();
        for (index, queue) in group.queues.iter_mut().enumerate() {
            let is_blocked = blocked & (1 << index) != 0;
            queue.suspend_timer(now, can_run && is_blocked && idle_group);
            if !is_blocked {
                queue.suspend_tdr(now);
            }
        }
        if let Some(slot) = group.slot.take() {
            self.slots[slot] = None;
        }
    }
}

fn shares_vm(groups: &BTreeMap<GroupId, Group>, a: GroupId, b: GroupId) -> bool {
    groups
        .get(&a)
        .zip(groups.get(&b))
        .is_some_and(|(a, b)| a.vm.serial == b.vm.serial)
}

/// `struct panthor_sched_tick_ctx`.
#[derive(Default)]
struct Tick {
    old: [Vec<GroupId>; PRIORITIES],
    picked: [Vec<GroupId>; PRIORITIES],
    count: usize,
    idle_groups: usize,
    vms: Vec<u64>,
    keep_ticking: bool,
}

enum From {
    Old(usize),
    Runnable(usize),
    Idle(usize),
}

impl Tick {
    /// `tick_ctx_pick_groups_from_list`.
    fn pick(&mut self, sched: &Scheduler, from: From, skip_idle: bool) {
        let candidates = match from {
            From::Old(priority) => self.old[priority].clone(),
            From::Runnable(priority) => sched.runnable[priority].clone(),
            From::Idle(priority) => sched.idle[priority].clone(),
        };
        // Address space 0 is the firmware's.
        let address_spaces = (AS_PRESENT & !1).count_ones() as usize;
        for id in candidates {
            if self.count == sched.slots.len() {
                return;
            }
            let Some(group) = sched.groups.get(&id).filter(|group| group.can_run()) else {
                continue;
            };
            if (skip_idle && group.is_idle())
                || self.picked.iter().flatten().any(|&other| other == id)
            {
                continue;
            }
            if !self.vms.contains(&group.vm.serial) {
                if self.vms.len() == address_spaces {
                    continue;
                }
                self.vms.push(group.vm.serial);
            }
            self.count += 1;
            if group.is_idle() {
                self.idle_groups += 1;
            } else if !self.picked[group.priority].is_empty() {
                self.keep_ticking = true;
            }
            self.picked[group.priority].push(id);
            self.old[group.priority].retain(|&other| other != id);
        }
    }
}
