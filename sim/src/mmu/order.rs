//! Which writes a job may rely on: happens-before between jobs and stream instructions.
//!
//! Every job and every storing instruction of a stream is an *agent* with a number, ascending in order of issue. A
//! stream *knows* an agent once it has waited for it (scoreboard, or a sync object that somebody signalled after
//! waiting), and *sees* it once a cache flush has run after that. What a job may read is decided by what its stream
//! knew and saw when it issued the job.

/// A set of agent numbers: all below a bound, and some above.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentSet {
    below: u32,
    /// Sorted, all greater than `below`.
    extra: Vec<u32>,
}

impl AgentSet {
    /// All agents below `bound`.
    #[must_use]
    pub fn below(bound: u32) -> Self {
        Self {
            below: bound,
            extra: Vec::new(),
        }
    }

    /// The bound and the agents above it.
    pub(crate) fn parts(&self) -> (u32, &[u32]) {
        (self.below, &self.extra)
    }

    /// Whether `agent` is in the set.
    #[inline]
    #[must_use]
    pub fn contains(&self, agent: u32) -> bool {
        agent < self.below || (!self.extra.is_empty() && self.extra.binary_search(&agent).is_ok())
    }

    /// Adds one agent.
    pub fn insert(&mut self, agent: u32) {
        if agent < self.below {
            return;
        }
        if let Err(place) = self.extra.binary_search(&agent) {
            self.extra.insert(place, agent);
        }
        self.settle();
    }

    /// Adds all of `other`.
    pub fn union(&mut self, other: &AgentSet) {
        if other.below > self.below {
            self.below = other.below;
        }
        self.extra.extend_from_slice(&other.extra);
        self.extra.sort_unstable();
        self.extra.dedup();
        self.settle();
    }

    /// Takes into the bound what has become contiguous with it.
    fn settle(&mut self) {
        let mut taken = 0;
        for &agent in &self.extra {
            if agent > self.below {
                break;
            }
            self.below = self.below.max(agent + 1);
            taken += 1;
        }
        self.extra.drain(..taken);
    }
}

/// What must lie between a job's writes and another job's reads of them, besides the wait.
///
/// Sources disagree. Mesa (panvk_vX_cmd_buffer.c, `add_memory_dependency`) holds that the load-store caches (LSC) of
/// the shader cores are coherent with each other and with the L2, and flushes none of them between jobs; streams with
/// only a wait and an invalidation of the other caches run on silicon. This project's own rule is stricter, so that
/// nothing rests on that belief.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum LscRule {
    /// The wait is enough, as Mesa holds.
    Coherent,
    /// A FLUSH_CACHE2 that invalidates the LSC or the other caches, executed after the wait and waited for itself:
    /// what every captured stream of Mesa does between dependent jobs.
    #[default]
    Flushed,
    /// A FLUSH_CACHE2 that cleans and invalidates the LSC, executed after the wait and waited for itself: each core's
    /// cache is its own.
    Private,
}

impl LscRule {
    /// The name as device strings spell it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            LscRule::Coherent => "coherent",
            LscRule::Flushed => "flushed",
            LscRule::Private => "private",
        }
    }

    /// The rule of a name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Coherent, Self::Flushed, Self::Private]
            .into_iter()
            .find(|rule| rule.name() == name)
    }

    /// The rule that was asked for, or what the strictness of a device implies.
    #[must_use]
    pub(crate) fn chosen(asked: Option<Self>, strict: bool) -> Self {
        asked.unwrap_or(if strict {
            Self::default()
        } else {
            Self::Coherent
        })
    }
}

/// What a stream can rely on at one point.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Knowledge {
    /// Agents that have finished, as far as the stream can know.
    pub waited: AgentSet,
    /// Those of them whose writes a flush has made visible.
    pub visible: AgentSet,
}

impl Knowledge {
    /// Adds what another stream knew.
    pub fn union(&mut self, other: &Knowledge) {
        self.waited.union(&other.waited);
        self.visible.union(&other.visible);
    }

    /// Everything below `bound` has finished and is visible.
    #[must_use]
    pub fn below(bound: u32) -> Self {
        Self {
            waited: AgentSet::below(bound),
            visible: AgentSet::below(bound),
        }
    }
}

/// Marks an agent whose writes go past the load-store caches (stream instructions, uncached mappings): waiting for it
/// is enough.
pub(super) const PAST_LSC: u32 = 1 << 31;

/// A shader core as words remember it: 0 for accesses that need no order within their job (of streams, atomics, and
/// past the caches), else the core's index and 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct CoreMark(u8);

impl CoreMark {
    /// None that is checked.
    pub(super) const NONE: CoreMark = CoreMark(0);
    /// Several cores have read it.
    const SEVERAL: u8 = 0xff;
    /// Cores from this one on share a mark; no GPU has so many.
    const LAST: u32 = 0xfd;

    pub(super) fn new(core: u32) -> CoreMark {
        CoreMark(core.min(Self::LAST) as u8 + 1)
    }

    /// The core's index; `None` where there is none or there are several.
    pub(super) fn index(self) -> Option<u32> {
        match self.0 {
            0 | Self::SEVERAL => None,
            mark => Some(u32::from(mark) - 1),
        }
    }

    /// The mark in each of a word's bytes.
    #[inline]
    pub(super) fn everywhere(self) -> u32 {
        u32::from(self.0) * 0x0101_0101
    }
}

/// Who has last written or read a word: the agent (0 for none), and for each byte the core, [`CoreMark`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) agent: u32,
    pub(super) cores: u32,
}

impl Mark {
    #[inline]
    pub(super) fn unpack(bits: u64) -> Mark {
        Mark {
            agent: (bits >> 32) as u32,
            cores: bits as u32,
        }
    }

    #[inline]
    pub(super) fn pack(self) -> u64 {
        u64::from(self.agent) << 32 | u64::from(self.cores)
    }

    /// The mark after `core` of `agent` has written the bytes of `mask`.
    #[inline]
    pub(super) fn written(self, agent: u32, core: CoreMark, mask: u32) -> Mark {
        let before = if self.agent == agent { self.cores } else { 0 };
        let cores = (before & !mask) | (core.everywhere() & mask);
        Mark { agent, cores }
    }

    /// The mark after `core` of `agent` has read the bytes of `mask`.
    pub(super) fn read(self, agent: u32, core: CoreMark, mask: u32) -> Mark {
        let before = if self.agent == agent { self.cores } else { 0 };
        if core == CoreMark::NONE {
            let cores = before;
            return Mark { agent, cores };
        }
        let mut cores = before.to_le_bytes();
        for (byte, covered) in cores.iter_mut().zip(mask.to_le_bytes()) {
            if covered == 0 || *byte == core.0 {
                continue;
            }
            *byte = if *byte == 0 {
                core.0
            } else {
                CoreMark::SEVERAL
            };
        }
        Mark {
            agent,
            cores: u32::from_le_bytes(cores),
        }
    }

    /// Another core than `core` that this mark, of the same agent, has in a byte of `mask`.
    #[inline]
    pub(super) fn other_core(self, core: CoreMark, mask: u32) -> Option<CoreMark> {
        if core == CoreMark::NONE || (self.cores ^ core.everywhere()) & mask == 0 {
            return None;
        }
        let other = |byte: &u8| *byte != 0 && *byte != core.0;
        let cores = (self.cores & mask).to_le_bytes();
        cores.into_iter().find(other).map(CoreMark)
    }
}

/// One agent's view of memory.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// The agent's number, with [`PAST_LSC`] for a stream's own accesses. 0 leaves no trace and needs no order.
    pub(super) tag: u32,
    pub(super) known: Knowledge,
    pub(super) rule: LscRule,
}

impl View {
    /// The view of a job `agent` issued by a stream that knew `known`.
    #[must_use]
    pub fn job(agent: u32, known: Knowledge, rule: LscRule) -> Self {
        Self {
            tag: agent,
            known,
            rule,
        }
    }

    /// The view of an instruction of a stream that knows `known`; its stores are `agent`'s.
    #[must_use]
    pub fn stream(agent: u32, known: Knowledge, rule: LscRule) -> Self {
        Self {
            tag: agent | PAST_LSC,
            known,
            rule,
        }
    }

    /// Whether data written by `writer` may be read.
    #[inline]
    pub(super) fn order(&self, writer: u32) -> Order {
        if writer == 0 || writer == self.tag {
            return Order::Good;
        }
        let agent = writer & !PAST_LSC;
        if agent == 0 || agent == self.tag & !PAST_LSC {
            return Order::Good;
        }
        if writer & PAST_LSC == 0 && self.rule != LscRule::Coherent {
            if self.known.visible.contains(agent) {
                return Order::Good;
            }
            return if self.known.waited.contains(agent) {
                Order::Unflushed
            } else {
                Order::Unwaited
            };
        }
        if self.known.waited.contains(agent) {
            Order::Good
        } else {
            Order::Unwaited
        }
    }

    /// Whether `other`, a reader, is known to be done.
    #[inline]
    pub(super) fn done(&self, other: u32) -> bool {
        let agent = other & !PAST_LSC;
        agent == 0 || agent == self.tag & !PAST_LSC || self.known.waited.contains(agent)
    }
}

/// The relation of an earlier write to a later access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Good,
    Unwaited,
    Unflushed,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_settle_into_their_bound() {
        let mut set = AgentSet::below(3);
        set.insert(5);
        set.insert(4);
        assert!(set.contains(2) && set.contains(4) && set.contains(5));
        assert!(!set.contains(3) && !set.contains(6));
        set.insert(3);
        assert_eq!(set, AgentSet::below(6));
        let mut other = AgentSet::below(1);
        other.insert(9);
        set.union(&other);
        assert!(set.contains(9) && !set.contains(8) && set.contains(5));
        set.union(&AgentSet::below(9));
        assert_eq!(set, AgentSet::below(10));
    }

    #[test]
    fn marks_tell_the_cores_of_each_byte() {
        let [a, b] = [0, 1].map(CoreMark::new);
        let mark = Mark::default()
            .written(7, a, 0xffff)
            .written(7, b, 0xff00_0000);
        assert_eq!(Mark::unpack(mark.pack()), mark);
        assert_eq!(mark.other_core(a, 0x00ff_ffff), None);
        assert_eq!(mark.other_core(a, !0), Some(b));
        assert_eq!(mark.other_core(b, 0xff00_0000), None);
        assert_eq!(mark.other_core(b, 0xff), Some(a));
        assert_eq!(mark.other_core(CoreMark::NONE, !0), None);
        // Another agent begins anew; what needs no order leaves nothing.
        assert_eq!(mark.written(8, a, 0xff).other_core(b, !0xff), None);
        assert_eq!(mark.written(7, CoreMark::NONE, !0).other_core(b, !0), None);
        let read = Mark::default().read(7, a, !0).read(7, b, 0xff);
        assert_eq!(read.other_core(a, !0xff), None);
        // Both have read it: each is another for either.
        assert!(read.other_core(a, 0xff).is_some() && read.other_core(b, 0xff).is_some());
        assert_eq!(CoreMark::new(u32::MAX).index(), Some(CoreMark::LAST));
    }

    #[test]
    fn rules_differ_in_what_a_wait_is_worth() {
        let mut known = Knowledge::default();
        known.waited.insert(1);
        let order = |rule, writer| View::job(7, known.clone(), rule).order(writer);
        assert_eq!(order(LscRule::Coherent, 1), Order::Good);
        assert_eq!(order(LscRule::Flushed, 1), Order::Unflushed);
        assert_eq!(order(LscRule::Private, 1), Order::Unflushed);
        assert_eq!(order(LscRule::Private, 1 | PAST_LSC), Order::Good);
        assert_eq!(order(LscRule::Coherent, 2), Order::Unwaited);
        assert_eq!(order(LscRule::Private, 7), Order::Good);
        assert_eq!(order(LscRule::Private, 0), Order::Good);
    }
}
