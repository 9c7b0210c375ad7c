//! What is said about the driver before it is measured, and the comparison.
//!
//! A claim comes from reading the driver (7.2 unless it says otherwise); the sentence is for people, the [`Expect`]s
//! are compared with a record.

use super::record::Record;

/// What the driver's log must show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Log {
    /// Nothing at all from the driver.
    Silent,
    /// A line with these words.
    Says(&'static str),
    /// Not stated.
    Any,
}

/// What a record must show. A part that is `None`, empty or `Any` is not claimed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Expect {
    /// How the first watched fence ends: one of these.
    pub status: &'static [&'static str],
    /// When it signals, in milliseconds after the submission.
    pub after_ms: Option<(u32, u32)>,
    /// What the victim's group state is.
    pub state: Option<&'static str>,
    /// What the log shows.
    pub log: Log,
    /// Whether the second client's job passes meanwhile.
    pub second: Option<bool>,
    /// What repairs it: one of these, as [`Record::cure`] says it.
    pub cure: &'static [&'static str],
}

/// Nothing claimed.
pub const NOTHING: Expect = Expect {
    status: &[],
    after_ms: None,
    state: None,
    log: Log::Any,
    second: None,
    cure: &[],
};

/// A job that passes at once.
pub const FINE: Expect = Expect {
    status: &["signalled"],
    after_ms: Some((0, 1000)),
    state: Some("0"),
    log: Log::Silent,
    second: Some(true),
    cure: &["none needed"],
};

/// A job that the driver's five-second timer kills, and that a new group makes up for.
pub const KILLED: Expect = Expect {
    status: &["ETIMEDOUT"],
    after_ms: Some((4900, 5500)),
    state: Some("TIMEDOUT"),
    log: Log::Says("job timeout"),
    second: Some(true),
    cure: &["R1"],
};

/// A job that a fault of its own kills at once.
pub const FATAL_FAULT: Expect = Expect {
    status: &["EINVAL"],
    after_ms: Some((0, 500)),
    state: Some("FATAL_FAULT"),
    log: Log::Says("Unhandled Page fault"),
    second: Some(true),
    cure: &["R1", "R2"],
};

/// A claim.
#[derive(Clone, Copy, Debug)]
pub struct Claim {
    /// In a sentence or two.
    pub text: &'static str,
    /// Where in the driver it comes from: file and function.
    pub source: &'static str,
    /// For 6.12.
    pub old: Expect,
    /// For 7.x.
    pub new: Expect,
    /// What the measurement taught, where it differs: kernel (`6.12`, `7.x`) and the reason with file and function.
    pub lessons: &'static [(&'static str, &'static str)],
}

impl Claim {
    /// The expectation for a kernel, by its short name (`7.2`).
    pub fn expect(&self, kernel: &str) -> &Expect {
        if kernel.starts_with("6.") {
            &self.old
        } else {
            &self.new
        }
    }

    /// What was learnt about this kernel.
    pub fn lessons(&self, kernel: &str) -> impl Iterator<Item = &'static str> {
        let series = if kernel.starts_with("6.") {
            "6.12"
        } else {
            "7.x"
        };
        let kernel = kernel.to_owned();
        let mine = move |(of, _): &&(&str, &str)| *of == series || *of == kernel || *of == "all";
        self.lessons.iter().filter(mine).map(|(_, text)| *text)
    }
}

/// Where `record` differs from `expect`; empty where it agrees.
pub fn differences(expect: &Expect, record: &Record) -> Vec<String> {
    let mut found = Vec::new();
    for (fault, count) in &record.model.struck {
        if *count == 0 {
            found.push(format!("the fault {fault} never struck"));
        }
    }
    let victim = record.victim.as_ref();
    let fence = victim.and_then(|victim| victim.fences.first());
    if !expect.status.is_empty() {
        let status = fence.map_or("never reported", |fence| fence.status.as_str());
        if !expect.status.contains(&status) {
            found.push(format!(
                "fence {status}, claimed {}",
                expect.status.join(" or ")
            ));
        }
    }
    if let (Some((least, most)), Some(fence)) = (expect.after_ms, fence) {
        if let Some(ms) = fence.after_ms {
            if ms < f64::from(least) || ms > f64::from(most) {
                found.push(format!(
                    "signalled after {ms:.0} ms, claimed {least} to {most} ms"
                ));
            }
        }
    }
    if let Some(claimed) = expect.state {
        let state = victim
            .and_then(|victim| victim.groups.first())
            .map_or("never reported", |group| group.state.as_str());
        if state != claimed {
            found.push(format!("group state {state}, claimed {claimed}"));
        }
    }
    match expect.log {
        Log::Any => {}
        Log::Silent => {
            if let Some(line) = driver_lines(record).next() {
                found.push(format!("the driver said \"{line}\", claimed silent"));
            }
        }
        Log::Says(words) => {
            if !driver_lines(record).any(|line| line.contains(words)) {
                found.push(format!("no message with \"{words}\""));
            }
        }
    }
    if let Some(claimed) = expect.second {
        let during = record.second.iter().find(|probe| probe.when == "during");
        if let Some(probe) = during {
            let passed = probe.status == "signalled";
            if passed != claimed {
                found.push(format!(
                    "the second client's job meanwhile: {}, claimed {}",
                    probe.status,
                    if claimed { "fine" } else { "stuck" }
                ));
            }
        }
    }
    if !expect.cure.is_empty() {
        let cure = record.cure();
        if !expect.cure.contains(&cure.as_str()) {
            found.push(format!(
                "cure: {cure}, claimed {}",
                expect.cure.join(" or ")
            ));
        }
    }
    found
}

/// The driver's own lines in the log.
pub fn driver_lines(record: &Record) -> impl Iterator<Item = &str> {
    let ours = |text: &&str| text.contains("[drm]");
    record.messages.iter().map(|m| m.text.as_str()).filter(ours)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::record::{FenceRecord, GroupRecord, Message, ProbeRecord, VictimRecord};

    fn killed() -> Record {
        Record {
            victim: Some(VictimRecord {
                fences: vec![FenceRecord {
                    status: "ETIMEDOUT".into(),
                    after_ms: Some(5012.0),
                    ..FenceRecord::default()
                }],
                groups: vec![GroupRecord {
                    state: "TIMEDOUT".into(),
                    ..GroupRecord::default()
                }],
                rungs: vec![crate::measure::record::RungRecord {
                    rung: "R1".into(),
                    cured: true,
                    ..Default::default()
                }],
                ..VictimRecord::default()
            }),
            second: vec![ProbeRecord {
                when: "during".into(),
                status: "signalled".into(),
                ..ProbeRecord::default()
            }],
            messages: vec![Message {
                text: "panthor 8fb.gpu: [drm] job timeout: pid=40".into(),
                ..Message::default()
            }],
            ..Record::default()
        }
    }

    #[test]
    fn a_record_as_claimed_has_no_differences() {
        assert_eq!(differences(&KILLED, &killed()), Vec::<String>::new());
        assert_eq!(
            differences(&NOTHING, &Record::default()),
            Vec::<String>::new()
        );
    }

    #[test]
    fn each_part_is_compared() {
        let found = differences(&FINE, &killed());
        let words = [
            "fence ETIMEDOUT, claimed signalled",
            "after 5012 ms",
            "group state TIMEDOUT, claimed 0",
            "claimed silent",
            "cure: R1, claimed none needed",
        ];
        for words in words {
            assert!(
                found.iter().any(|line| line.contains(words)),
                "{words}: {found:?}"
            );
        }
        assert_eq!(found.len(), words.len());
        let mut stuck = killed();
        stuck.second[0].status = "pending".into();
        stuck.messages.clear();
        let found = differences(&KILLED, &stuck);
        assert_eq!(
            found,
            [
                "no message with \"job timeout\"",
                "the second client's job meanwhile: pending, claimed fine"
            ]
        );
        assert!(differences(&KILLED, &Record::default())[0].contains("never reported"));
    }
}
