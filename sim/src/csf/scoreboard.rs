//! Scoreboard entries: unfinished asynchronous work, and what becomes true when it is waited for.

use mali_isa::csf::SCOREBOARDS;

use crate::mmu::{AgentSet, Knowledge};

/// The entry before any SET_SB_ENTRY. Which one hardware starts with is not documented: only a wait for all entries
/// is sure to cover it.
pub(super) const UNKNOWN_ENTRY: u8 = SCOREBOARDS;

/// A mask with every entry.
pub(super) const ALL_ENTRIES: u16 = (1 << SCOREBOARDS) - 1;

/// What waiting for an operation gives.
#[derive(Clone, Debug, Default)]
pub(super) struct Effect {
    /// Registers that hold their loaded value, a bit each.
    pub registers: u128,
    /// An agent that is done.
    pub agent: Option<u32>,
    /// Its writes went past the load-store caches.
    pub past_lsc: bool,
    /// Agents whose writes a flush has made visible.
    pub visible: Option<AgentSet>,
    /// What was known when a deferred operation began.
    pub known: Option<Knowledge>,
}

impl Effect {
    pub(super) fn apply(&self, known: &mut Knowledge) {
        if let Some(more) = &self.known {
            known.union(more);
        }
        if let Some(agent) = self.agent {
            known.waited.insert(agent);
            if self.past_lsc {
                known.visible.insert(agent);
            }
        }
        if let Some(visible) = &self.visible {
            known.visible.union(visible);
        }
    }
}

#[derive(Clone, Debug)]
struct Operation {
    done_at: u64,
    effect: Effect,
}

/// The entries of one queue.
#[derive(Clone, Debug, Default)]
pub(super) struct Scoreboard {
    entries: [Vec<Operation>; SCOREBOARDS as usize + 1],
}

impl Scoreboard {
    pub(super) fn add(&mut self, entry: u8, done_at: u64, effect: Effect) {
        self.entries[usize::from(entry.min(UNKNOWN_ENTRY))].push(Operation { done_at, effect });
    }

    fn selected(mask: u16) -> impl Iterator<Item = usize> {
        (0..usize::from(SCOREBOARDS) + 1).filter(move |i| {
            let whole = mask & ALL_ENTRIES == ALL_ENTRIES;
            if *i == usize::from(UNKNOWN_ENTRY) {
                whole
            } else {
                mask >> i & 1 != 0
            }
        })
    }

    /// When everything in the entries of the mask is done; 0 if nothing is there.
    pub(super) fn done_at(&self, mask: u16) -> u64 {
        Self::selected(mask)
            .flat_map(|i| &self.entries[i])
            .map(|op| op.done_at)
            .max()
            .unwrap_or(0)
    }

    /// All operations that nobody has waited for: entry, end, effect.
    pub(super) fn operations(&self) -> impl Iterator<Item = (u8, u64, &Effect)> {
        self.entries.iter().enumerate().flat_map(|(entry, ops)| {
            ops.iter()
                .map(move |op| (entry as u8, op.done_at, &op.effect))
        })
    }

    /// The entries whose work is not done at `now`. Work of the unknown entry counts for the first.
    pub(super) fn busy(&self, now: u64) -> u16 {
        self.operations()
            .filter(|(_, done_at, _)| *done_at > now)
            .fold(0, |mask, (entry, ..)| mask | 1 << (entry % UNKNOWN_ENTRY))
    }

    /// When everything in all entries is done.
    pub(super) fn all_done_at(&self) -> u64 {
        self.done_at(ALL_ENTRIES)
    }

    /// What waiting for the mask's entries would make known.
    pub(super) fn preview(&self, mask: u16, known: &mut Knowledge) {
        Self::selected(mask)
            .flat_map(|i| &self.entries[i])
            .for_each(|op| op.effect.apply(known));
    }

    /// Empties the entries of the mask; gives the registers that are loaded now.
    pub(super) fn retire(&mut self, mask: u16, known: &mut Knowledge) -> u128 {
        let mut registers = 0;
        for i in Self::selected(mask) {
            for op in self.entries[i].drain(..) {
                op.effect.apply(known);
                registers |= op.effect.registers;
            }
        }
        registers
    }
}
