//! What the driver, or a stream, did that hardware leaves undefined: collected, not punished.

use std::collections::BTreeMap;
use std::fmt;

/// A rule that was broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// An access to an offset where no register is, or of a size that registers do not have.
    NoRegister,
    /// A write to a register that takes none.
    ReadOnly,
    /// A read of a register that gives none.
    WriteOnly,
    /// A value that the register does not take.
    BadValue,
    /// A command while the block is busy with another.
    Busy,
    /// A block was used without its power.
    NoPower,
    /// A page table that the format does not allow, or that leads outside of memory.
    PageTable,
    /// A translation was used after its entry had changed, without lock and unlock or flush.
    StaleTranslation,
    /// The firmware found the shared interface as it must not be.
    Firmware,
}

impl Rule {
    /// The name as reports spell it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Rule::NoRegister => "no-register",
            Rule::ReadOnly => "read-only",
            Rule::WriteOnly => "write-only",
            Rule::BadValue => "bad-value",
            Rule::Busy => "busy",
            Rule::NoPower => "no-power",
            Rule::PageTable => "page-table",
            Rule::StaleTranslation => "stale-translation",
            Rule::Firmware => "firmware",
        }
    }
}

/// A breach of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The rule.
    pub rule: Rule,
    /// What was done, with register and value.
    pub text: String,
    /// When it was first done, in nanoseconds of the guest's clock.
    pub first: u64,
    /// How often.
    pub count: u64,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            rule,
            text,
            first,
            count,
        } = self;
        write!(f, "{}: {text} (at {first} ns, {count} times)", rule.name())
    }
}

/// Different breaches that are kept; further ones are only counted.
const KEPT: usize = 256;

/// All breaches of a run.
#[derive(Debug, Default)]
pub struct Violations {
    list: Vec<Violation>,
    index: BTreeMap<(Rule, String), usize>,
    more: u64,
}

impl Violations {
    /// Notes a breach.
    pub fn add(&mut self, now: u64, rule: Rule, text: String) {
        if let Some(violation) = self
            .index
            .get(&(rule, text.clone()))
            .and_then(|at| self.list.get_mut(*at))
        {
            violation.count += 1;
            return;
        }
        if self.list.len() >= KEPT {
            self.more += 1;
            return;
        }
        log::warn!("{now} ns: {}: {text}", rule.name());
        self.index.insert((rule, text.clone()), self.list.len());
        self.list.push(Violation {
            rule,
            text,
            first: now,
            count: 1,
        });
    }

    /// The different breaches, in the order in which they first occurred.
    #[must_use]
    pub fn list(&self) -> &[Violation] {
        &self.list
    }

    /// Breaches that differ from all of the list, which is full.
    #[must_use]
    pub fn more(&self) -> u64 {
        self.more
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_breaches_are_counted_and_the_list_is_bounded() {
        let mut all = Violations::default();
        all.add(3, Rule::ReadOnly, "x".into());
        all.add(4, Rule::ReadOnly, "x".into());
        assert_eq!(all.list()[0].to_string(), "read-only: x (at 3 ns, 2 times)");
        for n in 0..2 * KEPT {
            all.add(5, Rule::Busy, n.to_string());
        }
        assert_eq!(all.list().len(), KEPT);
        assert_eq!(all.more(), KEPT as u64 + 1);
    }
}
