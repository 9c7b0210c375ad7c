//! Power of shader cores, tiler and L2: READY, PWRON, PWROFF, PWRTRANS, PWRACTIVE.
//!
//! The driver switches the L2 (`panthor_gpu.c`, `panthor_gpu_l2_power_on`); the firmware the rest. It waits for PWRTRANS
//! to clear, writes PWRON and waits for READY, 20 ms at most.

use super::event::EventQueue;
use super::injection::Faults;
use crate::model;

/// What has power of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Domain {
    /// The shader cores.
    Shader = 0,
    /// The tiler.
    Tiler = 1,
    /// The L2 cache, without which nothing works that needs memory.
    L2 = 2,
}

impl Domain {
    /// All of them.
    pub const ALL: [Domain; 3] = [Domain::Shader, Domain::Tiler, Domain::L2];

    /// The name as faults and logs spell it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Domain::Shader => "shader",
            Domain::Tiler => "tiler",
            Domain::L2 => "l2",
        }
    }

    /// The domain of a name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|domain| domain.name() == name)
    }

    /// *_PRESENT of a GPU with `cores` shader cores.
    #[must_use]
    pub const fn present(self, cores: u32) -> u64 {
        match self {
            Domain::Shader => model::shader_present(cores),
            Domain::Tiler => model::TILER_PRESENT,
            Domain::L2 => model::L2_PRESENT,
        }
    }
}

/// Nanoseconds that a change of power takes. Assumed, not measured: less than the driver's 100 µs between two looks.
pub const POWER_NS: u64 = 20_000;

#[derive(Clone, Copy, Debug, Default)]
struct State {
    present: u64,
    ready: u64,
    transition: u64,
    /// When the last power-on is done; `u64::MAX` for never.
    on_at: u64,
}

/// Whether a domain can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Availability {
    /// All of it is on.
    On,
    /// It is being switched on, until this time; `u64::MAX` for never. What needs it waits: 7.2 and 7.3 write MCU_CONTROL
    /// and AS_COMMAND without having seen L2_READY (`panthor_gpu.c`, `panthor_gpu_block_power_on` polls for
    /// `(mask & val) == val`, which 0 fulfils; 6.12 compares with the mask).
    Coming(u64),
    /// It is off, or being switched off.
    Off,
}

/// A change under way.
#[derive(Clone, Copy, Debug)]
struct Change {
    domain: Domain,
    mask: u64,
    on: bool,
}

/// The three domains.
#[derive(Debug)]
pub struct Power {
    states: [State; 3],
    changes: EventQueue<Change>,
}

impl Power {
    /// Everything is off.
    #[must_use]
    pub fn new(cores: u32) -> Self {
        let state = |domain: Domain| State {
            present: domain.present(cores),
            ..State::default()
        };
        Self {
            states: Domain::ALL.map(state),
            changes: EventQueue::default(),
        }
    }

    /// *_PRESENT.
    #[must_use]
    pub fn present(&self, domain: Domain) -> u64 {
        self.states[domain as usize].present
    }

    /// *_READY.
    #[must_use]
    pub fn ready(&self, domain: Domain) -> u64 {
        self.states[domain as usize].ready
    }

    /// *_PWRTRANS.
    #[must_use]
    pub fn transition(&self, domain: Domain) -> u64 {
        self.states[domain as usize].transition
    }

    /// Whether all of a domain is on.
    #[must_use]
    pub fn is_on(&self, domain: Domain) -> bool {
        let state = self.states[domain as usize];
        state.ready == state.present
    }

    /// Whether a domain can be used.
    #[must_use]
    pub fn availability(&self, domain: Domain) -> Availability {
        let state = self.states[domain as usize];
        if state.ready == state.present {
            Availability::On
        } else if state.on_at != 0 {
            Availability::Coming(state.on_at)
        } else {
            Availability::Off
        }
    }

    /// PWRON or PWROFF. What is in transition already, in that state, or not there, is not concerned. Gives whether
    /// anything changes.
    pub(super) fn switch(
        &mut self,
        domain: Domain,
        mask: u64,
        on: bool,
        faults: &mut Faults,
        now: u64,
    ) -> bool {
        let state = &mut self.states[domain as usize];
        let differs = if on { !state.ready } else { state.ready };
        let mask = mask & state.present & differs & !state.transition;
        if mask == 0 {
            return false;
        }
        state.transition |= mask;
        if !on {
            // What is being switched off can no longer be used.
            state.ready &= !mask;
        }
        let at = if on && faults.power_stuck(domain, now) {
            u64::MAX
        } else {
            now.saturating_add(POWER_NS)
        };
        state.on_at = if on { at } else { 0 };
        self.changes.push(at, Change { domain, mask, on });
        true
    }

    /// Carries out a change that is due; tells which domain has changed.
    pub(super) fn step(&mut self, now: u64) -> Option<(u64, Domain)> {
        let (at, change) = self.changes.pop_due(now)?;
        let state = &mut self.states[change.domain as usize];
        state.transition &= !change.mask;
        if change.on {
            state.ready |= change.mask;
        }
        Some((at, change.domain))
    }

    /// When the next change is done.
    #[must_use]
    pub fn next_deadline(&self) -> Option<u64> {
        self.changes.next_deadline()
    }

    /// Whether anything is in transition.
    #[must_use]
    pub fn is_changing(&self) -> bool {
        self.states.iter().any(|state| state.transition != 0)
    }

    /// After a reset everything is off.
    pub fn reset(&mut self) {
        for state in &mut self.states {
            state.ready = 0;
            state.transition = 0;
            state.on_at = 0;
        }
        self.changes = EventQueue::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn power_comes_and_goes_after_a_while() {
        let (mut power, mut faults) = (Power::new(4), Faults::new(&[], 0));
        assert!(power.switch(Domain::L2, 1, true, &mut faults, 0));
        assert!(!power.switch(Domain::L2, 1, true, &mut faults, 0));
        assert_eq!(
            (power.ready(Domain::L2), power.transition(Domain::L2)),
            (0, 1)
        );
        assert!(power.is_changing());
        let coming = Availability::Coming(POWER_NS);
        assert_eq!(power.availability(Domain::L2), coming);
        assert_eq!(power.availability(Domain::Tiler), Availability::Off);
        assert_eq!(power.step(POWER_NS - 1), None);
        assert_eq!(power.next_deadline(), Some(POWER_NS));
        assert_eq!(power.step(POWER_NS), Some((POWER_NS, Domain::L2)));
        assert!(power.is_on(Domain::L2) && !power.is_changing());
        // Cores that are not there do not come.
        assert!(power.switch(Domain::Shader, !0, true, &mut faults, POWER_NS));
        power.step(2 * POWER_NS);
        assert_eq!(power.ready(Domain::Shader), 0x50005);
        assert!(power.switch(Domain::L2, 1, false, &mut faults, 2 * POWER_NS));
        assert_eq!(
            (power.ready(Domain::L2), power.transition(Domain::L2)),
            (0, 1)
        );
        assert_eq!(power.availability(Domain::L2), Availability::Off);
        power.reset();
        assert_eq!(power.next_deadline(), None);
        assert_eq!(power.ready(Domain::Shader), 0);
    }

    #[test]
    fn stuck_power_stays_in_transition() {
        let fault = "power-stuck:domain=shader".parse().unwrap();
        let (mut power, mut faults) = (Power::new(4), Faults::new(&[fault], 0));
        assert!(power.switch(Domain::Shader, !0, true, &mut faults, 0));
        assert!(power.switch(Domain::L2, !0, true, &mut faults, 0));
        while power.step(u64::MAX - 1).is_some() {}
        assert_eq!(power.transition(Domain::Shader), 0x50005);
        let never = Availability::Coming(u64::MAX);
        assert_eq!(power.availability(Domain::Shader), never);
        assert!(!power.is_on(Domain::Shader) && power.is_on(Domain::L2));
    }
}
