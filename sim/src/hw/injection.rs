//! The faults at work: which occasion is spoilt.

use super::fault::{BootFailure, Fault, Interface, Kind, Level, Line, ResetKind, Spurious};
use super::power::Domain;

/// Bit of GLB_PING in the global request word (`panthor_fw.h`).
const GLB_PING: u32 = 1 << 8;

/// What happens to an interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// It is lost.
    Lost,
    /// It comes so many nanoseconds later.
    Late(u64),
}

/// A fault that a stream is to report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamFault {
    /// CS_FATAL, else CS_FAULT.
    pub fatal: bool,
    /// The exception code.
    pub code: u8,
    /// The information word.
    pub address: u64,
}

/// The faults of one run, with what each has met so far. Equal options and equal occasions give equal answers.
#[derive(Debug)]
pub struct Faults {
    rules: Vec<Rule>,
}

#[derive(Debug)]
struct Rule {
    fault: Fault,
    met: u64,
    spoilt: u64,
    over: bool,
    random: u64,
}

impl Faults {
    /// Faults whose probabilities are drawn from `seed`, each from its own sequence.
    #[must_use]
    pub fn new(faults: &[Fault], seed: u64) -> Self {
        let rule = |(number, fault): (usize, &Fault)| Rule {
            fault: fault.clone(),
            met: 0,
            spoilt: 0,
            over: false,
            random: seed ^ (number as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15),
        };
        Self {
            rules: faults.iter().enumerate().map(rule).collect(),
        }
    }

    /// How often each fault has struck.
    pub fn struck(&self) -> impl Iterator<Item = (&Fault, u64)> {
        self.rules.iter().map(|rule| (&rule.fault, rule.spoilt))
    }

    /// An occasion of those faults for which `concerns` says so; gives the first that spoils it.
    fn strike(&mut self, now: u64, concerns: impl Fn(&Kind) -> bool) -> Option<Kind> {
        let mut rules = self.rules.iter_mut();
        let rule = rules
            .find_map(|rule| (concerns(&rule.fault.kind) && rule.meets(now)).then_some(rule))?;
        log::debug!("fault at {now} ns: {}", rule.fault);
        Some(rule.fault.kind)
    }

    // ---- Asked by the firmware

    /// The firmware is about to acknowledge `bits` of an interface's request word: those that it must not. Ask once per
    /// request.
    pub fn withheld(&mut self, interface: Interface, bits: u32, now: u64) -> u32 {
        let mut withheld = 0;
        for rule in &mut self.rules {
            let mask = match rule.fault.kind {
                Kind::AckWithheld {
                    on,
                    mask,
                    group,
                    stream,
                } => {
                    let fits = |asked: Option<u8>, slot| asked.is_none_or(|asked| asked == slot);
                    let concerned = match interface {
                        Interface::Global => on == Level::Global,
                        Interface::Group(g) => on == Level::Group && fits(group, g),
                        Interface::Stream(g, s) => {
                            on == Level::Stream && fits(group, g) && fits(stream, s)
                        }
                    };
                    if concerned { mask & bits } else { 0 }
                }
                Kind::PingUnanswered if interface == Interface::Global => GLB_PING & bits,
                _ => 0,
            };
            if mask != 0 && rule.meets(now) {
                log::debug!("fault at {now} ns: {}", rule.fault);
                withheld |= mask;
            }
        }
        withheld
    }

    /// Whether a TERMINATE of the group slot is neither carried out nor acknowledged. Ask once per request.
    pub fn terminate_ignored(&mut self, group: u8, now: u64) -> bool {
        let concerns = |kind: &Kind| matches!(kind, Kind::TerminateIgnored { group: g } if g.is_none_or(|g| g == group));
        self.strike(now, concerns).is_some()
    }

    /// A stream begins to run a job: the fault that it reports out of nothing.
    pub fn stream_fault(&mut self, now: u64) -> Option<StreamFault> {
        let concerns = |kind: &Kind| {
            matches!(
                kind,
                Kind::Spurious {
                    what: Spurious::CsFault | Spurious::CsFatal,
                    ..
                }
            )
        };
        match self.strike(now, concerns)? {
            Kind::Spurious {
                what,
                code,
                address,
                ..
            } => Some(StreamFault {
                fatal: what == Spurious::CsFatal,
                code,
                address,
            }),
            _ => None,
        }
    }

    /// A render pass begins: the chunks that its tiler wants.
    pub fn tiler_oom(&mut self, now: u64) -> Option<u16> {
        match self.strike(now, |kind| matches!(kind, Kind::TilerOom { .. }))? {
            Kind::TilerOom { chunks } => Some(chunks),
            _ => None,
        }
    }

    // ---- Asked by the registers

    /// A bit of a line becomes pending.
    pub(super) fn interrupt(&mut self, line: Line, bit: u8, now: u64) -> Option<Delivery> {
        let fits = |l: Line, b: Option<u8>| l == line && b.is_none_or(|b| b == bit);
        let concerns = |kind: &Kind| match *kind {
            Kind::IrqLost { line, bit } | Kind::IrqLate { line, bit, .. } => fits(line, bit),
            _ => false,
        };
        match self.strike(now, concerns)? {
            Kind::IrqLate { by, .. } => Some(Delivery::Late(by)),
            _ => Some(Delivery::Lost),
        }
    }

    /// The firmware would do something.
    pub(super) fn firmware_dead(&mut self, now: u64) -> bool {
        self.strike(now, |kind| *kind == Kind::FirmwareDead)
            .is_some()
    }

    /// The firmware is started; `fast` if the GPU has not been reset since it last ran.
    pub(super) fn boot(&mut self, fast: bool, now: u64) -> Option<BootFailure> {
        let concerns = |kind: &Kind| match kind {
            Kind::BootFails { reset, .. } => match reset {
                ResetKind::Any => true,
                ResetKind::Fast => fast,
                ResetKind::Slow => !fast,
            },
            _ => false,
        };
        match self.strike(now, concerns)? {
            Kind::BootFails { how, .. } => Some(how),
            _ => None,
        }
    }

    /// Power of a domain is switched on.
    pub(super) fn power_stuck(&mut self, domain: Domain, now: u64) -> bool {
        self.strike(now, |kind| *kind == Kind::PowerStuck { domain })
            .is_some()
    }

    /// A command is given to an address space: by how much it takes longer, [`u64::MAX`] where it does not end.
    pub(super) fn as_stuck(&mut self, space: u8, command: u8, now: u64) -> Option<u64> {
        let fits = |asked: Option<u8>, is: u8| asked.is_none_or(|asked| asked == is);
        let concerns = |kind: &Kind| matches!(*kind, Kind::AsStuck { space: s, command: c, .. } if fits(s, space) && fits(c, command));
        match self.strike(now, concerns)? {
            Kind::AsStuck { by, .. } => Some(by.unwrap_or(u64::MAX)),
            _ => None,
        }
    }

    /// A cache flush is asked for.
    pub(super) fn flush_stuck(&mut self, now: u64) -> bool {
        self.strike(now, |kind| *kind == Kind::FlushStuck).is_some()
    }

    /// A reset is asked for.
    pub(super) fn reset_stuck(&mut self, now: u64) -> bool {
        self.strike(now, |kind| *kind == Kind::ResetStuck).is_some()
    }

    /// A doorbell is rung.
    pub(super) fn doorbell_lost(&mut self, id: u8, now: u64) -> bool {
        let concerns =
            |kind: &Kind| matches!(kind, Kind::DoorbellLost { id: i } if i.is_none_or(|i| i == id));
        self.strike(now, concerns).is_some()
    }

    /// The flush id would move.
    pub(super) fn flush_id_frozen(&mut self, now: u64) -> bool {
        self.strike(now, |kind| *kind == Kind::FlushIdFrozen)
            .is_some()
    }

    /// A register is accessed: nanoseconds that it takes longer.
    pub(super) fn slow_register(&mut self, offset: u32, now: u64) -> u64 {
        let concerns = |kind: &Kind| matches!(kind, Kind::SlowRegisters { offset: o, .. } if o.is_none_or(|o| o == offset));
        match self.strike(now, concerns) {
            Some(Kind::SlowRegisters { by, .. }) => by,
            _ => 0,
        }
    }

    /// The times at which [`Faults::spurious`] is to be asked, with the number to ask by.
    pub(super) fn spurious_times(&self) -> Vec<(u64, usize)> {
        let rules = self.rules.iter().enumerate();
        rules
            .filter_map(|(number, rule)| match rule.fault.kind {
                Kind::Spurious {
                    what: Spurious::Gpu | Spurious::Mmu,
                    at,
                    ..
                } => Some((at, number)),
                _ => None,
            })
            .collect()
    }

    /// The time of a fault out of nothing has come.
    pub(super) fn spurious(&mut self, number: usize, now: u64) -> Option<Kind> {
        let rule = self.rules.get_mut(number)?;
        rule.meets(now).then_some(rule.fault.kind)
    }

    /// The GPU was reset.
    pub(super) fn note_reset(&mut self) {
        for rule in &mut self.rules {
            rule.over |= rule.fault.when.until_reset && rule.spoilt > 0;
        }
    }
}

impl Rule {
    /// Meets an occasion; tells whether it is spoilt.
    fn meets(&mut self, now: u64) -> bool {
        let when = self.fault.when;
        if self.over || now < when.from || now >= when.until {
            return false;
        }
        self.met += 1;
        if self.met <= when.after || self.spoilt >= when.count || !self.draw(when.probability) {
            return false;
        }
        self.spoilt += 1;
        true
    }

    /// Splitmix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators").
    fn draw(&mut self, probability: f64) -> bool {
        if probability >= 1.0 {
            return true;
        }
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        // 53 bits are what a double holds.
        ((z >> 11) as f64) / ((1u64 << 53) as f64) < probability
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(texts: &[&str]) -> Faults {
        let faults: Vec<Fault> = texts.iter().map(|t| t.parse().unwrap()).collect();
        Faults::new(&faults, 7)
    }

    #[test]
    fn occasions_are_counted() {
        let mut f = faults(&["doorbell-lost:id=0:after=1:n=2"]);
        let heard: Vec<bool> = (0..5).map(|_| f.doorbell_lost(0, 1)).collect();
        assert_eq!(heard, [false, true, true, false, false]);
        assert!(!f.doorbell_lost(1, 1));
        assert_eq!(f.struck().next().unwrap().1, 2);
    }

    #[test]
    fn times_bound_a_fault() {
        let mut f = faults(&["flush-stuck:from=1ms:until=2ms"]);
        let stuck = [0, 999_999, 1_000_000, 1_999_999, 2_000_000].map(|now| f.flush_stuck(now));
        assert_eq!(stuck, [false, false, true, true, false]);
    }

    #[test]
    fn a_reset_cures_what_has_struck() {
        let mut f = faults(&["firmware-dead:until-reset:from=1ms"]);
        f.note_reset();
        assert!(f.firmware_dead(1_000_000));
        f.note_reset();
        assert!(!f.firmware_dead(2_000_000));
    }

    #[test]
    fn probability_is_drawn_from_the_seed() {
        let draw = |seed| {
            let fault = "irq-lost:irq=job:p=0.25".parse().unwrap();
            let mut f = Faults::new(&[fault], seed);
            (0..4000)
                .map(|_| f.interrupt(Line::Job, 0, 0).is_some())
                .collect::<Vec<_>>()
        };
        let lost = draw(1).iter().filter(|lost| **lost).count();
        assert!((900..1100).contains(&lost), "{lost}");
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }

    #[test]
    fn requests_are_withheld_by_bit_and_slot() {
        let mut f = faults(&[
            "ack-withheld:on=csg:bit=state:group=2",
            "ack-withheld:on=cs:bit=4:group=0:stream=1",
            "ping-unanswered:once",
            "terminate-ignored:group=1",
        ]);
        assert_eq!(f.withheld(Interface::Group(2), 0x15, 0), 5);
        assert_eq!(f.withheld(Interface::Group(1), 0x15, 0), 0);
        assert_eq!(f.withheld(Interface::Stream(0, 1), 0x17, 0), 0x10);
        assert_eq!(f.withheld(Interface::Stream(1, 1), 0x17, 0), 0);
        assert_eq!(f.withheld(Interface::Global, 0x501, 0), 0x100);
        assert_eq!(f.withheld(Interface::Global, 0x501, 0), 0);
        assert!(f.terminate_ignored(1, 0) && !f.terminate_ignored(0, 0));
    }

    #[test]
    fn boots_fail_by_the_kind_of_reset() {
        let mut f = faults(&[
            "boot-fails:reset=fast:how=fatal",
            "boot-late:reset=slow:by=2s",
        ]);
        assert_eq!(f.boot(true, 0), Some(BootFailure::Fatal));
        assert_eq!(f.boot(false, 0), Some(BootFailure::Late(2_000_000_000)));
    }
}
