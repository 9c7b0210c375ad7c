//! The records of one kernel as a document.
//!
//! Equal records give equal text, and numbers are rounded so that a rebuilt program gives the text of the old one: a
//! later kernel's document can be compared line by line.

use std::fmt::Write as _;

use super::claims::{differences, driver_lines};
use super::record::{FenceRecord, ProbeRecord, Record, Snapshot};
use super::scenario::{CLOCK_MHZ, Scenario};

/// Lines of the kernel's log shown per scenario.
const LOG_LINES: usize = 24;
/// Milliseconds from which the victim's own preparations are told.
const SETUP_MS: f64 = 20.0;
/// Fences shown one by one.
const FENCES: usize = 14;

/// The document of `kernel` (its short name, `7.2`) from the scenarios in order, each with its record.
pub fn document(kernel: &str, runs: &[(&Scenario, Record)]) -> String {
    let mut text = String::new();
    let release = runs
        .first()
        .map_or("?", |(_, record)| record.kernel.as_str());
    let driver = runs
        .first()
        .map_or("?", |(_, record)| record.driver.as_str());
    // Writing to a string cannot fail, here and below.
    let _ = write!(
        text,
        "# Measured: panthor of Linux {kernel}\n\n\
         Kernel {release}, uAPI {driver}. Written by `measure --kernel {kernel}`; do not edit.\n\n\
         The driver is the real one, in User Mode Linux with virtual time; the GPU and its firmware are the simulator's model,\n\
         so that times of the GPU itself (a job, an acknowledgement) are the model's, and times of the driver (5 s, 100 ms,\n\
         ticks) the driver's. Nothing here was measured on hardware. Clock {CLOCK_MHZ} MHz unless said otherwise; every scenario\n\
         on a kernel booted for it, with a second client beside it; faults of the GPU begin half a second before the job. Times\n\
         are from the submission, by the fences' own time stamps. R1: another group; R2: another VM and group; R3: another\n\
         descriptor in a child; R4: all clients closed, or the driver bound again; R5: boot again.\n\n"
    );
    summary(&mut text, kernel, runs);
    text.push_str(super::notes::SILENT_HANGS);
    for (scenario, record) in runs {
        text.push_str(&section(kernel, scenario, record));
    }
    text
}

/// The table of all scenarios.
fn summary(text: &mut String, kernel: &str, runs: &[(&Scenario, Record)]) {
    text.push_str(
        "## Summary\n\n| scenario | fence | after | group | second client meanwhile | driver's log | cured by | claim |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    for (scenario, record) in runs {
        text.push_str(&row(kernel, scenario, record));
    }
    text.push('\n');
}

/// The scenario's row of the summary.
pub fn row(kernel: &str, scenario: &Scenario, record: &Record) -> String {
    let victim = record.victim.as_ref();
    let fence = victim.and_then(|victim| victim.fences.first());
    let group = victim.and_then(|victim| victim.groups.first());
    let during = record.second.iter().find(|probe| probe.when == "during");
    let log = match driver_lines(record).count() {
        0 => "silent".to_owned(),
        1 => "1 line".to_owned(),
        n => format!("{n} lines"),
    };
    let cure = if victim.is_none() && record.rungs.is_empty() {
        "–".to_owned()
    } else {
        record.cure()
    };
    let verdict = match differences(scenario.claim.expect(kernel), record).len() {
        0 => "agrees",
        _ => "**differs**",
    };
    format!(
        "| [{name}](#{name}) | {} | {} | {} | {} | {log} | {cure} | {verdict} |\n",
        fence.map_or("–", |fence| fence.status.as_str()),
        fence
            .and_then(|fence| fence.after_ms)
            .map_or("–".to_owned(), milliseconds),
        group.map_or("–", |group| group.state.as_str()),
        during.map_or("–".to_owned(), probe_words),
        name = scenario.name,
    )
}

/// The scenario's section.
pub fn section(kernel: &str, scenario: &Scenario, record: &Record) -> String {
    let mut text = format!("### {}\n\n{}", scenario.name, scenario.what);
    if !scenario.faults.is_empty() {
        let faults: Vec<_> = scenario.faults.iter().map(|f| format!("`{f}`")).collect();
        let _ = write!(text, " Fault: {}.", faults.join(", "));
    }
    if let Some(mhz) = scenario.gpu_mhz {
        let _ = write!(text, " Clock {mhz} MHz.");
    }
    text.push_str("\n\n");
    verdict(&mut text, kernel, scenario, record);
    evidence(&mut text, record);
    text
}

fn verdict(text: &mut String, kernel: &str, scenario: &Scenario, record: &Record) {
    let claim = &scenario.claim;
    let _ = writeln!(text, "- Claim: {} (`{}`)", claim.text, claim.source);
    let found = differences(claim.expect(kernel), record);
    if found.is_empty() {
        text.push_str("- Measured: agrees.\n");
    } else {
        let _ = writeln!(text, "- Measured: **differs**: {}.", found.join("; "));
    }
    for lesson in claim.lessons(kernel) {
        let _ = writeln!(text, "- Why: {lesson}");
    }
}

fn evidence(text: &mut String, record: &Record) {
    if let Some(gone) = &record.victim_gone {
        let _ = writeln!(text, "- The victim: {}", tidy(gone));
    }
    if let Some(victim) = &record.victim {
        if victim.setup_ms > SETUP_MS {
            let _ = writeln!(
                text,
                "- From the first call to the last submission: {}",
                milliseconds(victim.setup_ms)
            );
        }
        if !victim.fences.is_empty() {
            let fences: Vec<_> = victim.fences.iter().take(FENCES).map(fence_words).collect();
            let more = match victim.fences.len().saturating_sub(FENCES) {
                0 => String::new(),
                n => format!(
                    "; and {n} more, the last {}",
                    victim.fences.last().map_or(String::new(), fence_words)
                ),
            };
            let _ = writeln!(text, "- Fences: {}{more}", fences.join("; "));
        }
        let groups: Vec<_> = victim
            .groups
            .iter()
            .map(|group| match group.fatal_queues {
                0 => format!("{} {}", group.name, group.state),
                mask => format!("{} {} (fatal queues {mask:#x})", group.name, group.state),
            })
            .collect();
        let _ = writeln!(text, "- Groups: {}", groups.join("; "));
        for fact in &victim.facts {
            let _ = writeln!(text, "- {}: {}", fact.call, tidy(&fact.result));
        }
        let calls: Vec<_> = victim
            .calls
            .iter()
            .map(|call| format!("{}: {}", call.call, tidy(&call.result)))
            .collect();
        let _ = writeln!(text, "- Calls afterwards: {}", calls.join("; "));
    }
    let probes: Vec<_> = record
        .second
        .iter()
        .map(|probe| format!("{}: {}", probe.when, probe_words(probe)))
        .collect();
    let _ = writeln!(text, "- Second client: {}", probes.join("; "));
    let rungs: Vec<_> = record
        .all_rungs()
        .map(|rung| {
            format!(
                "{} ({}): {}",
                rung.rung,
                tidy(&rung.what),
                tidy(&rung.result)
            )
        })
        .collect();
    if rungs.is_empty() {
        let _ = writeln!(text, "- Repair: {}", record.cure());
    } else {
        let _ = writeln!(text, "- Repair: {}", rungs.join("; "));
    }
    let struck: Vec<_> = record
        .model
        .struck
        .iter()
        .map(|(fault, count)| format!("`{fault}` {count} times"))
        .collect();
    if !struck.is_empty() {
        let _ = writeln!(text, "- Faults struck: {}", struck.join(", "));
    }
    for (rule, count) in &record.model.violations {
        let _ = writeln!(
            text,
            "- Undefined on hardware, done by the driver: {rule} ({count} times)"
        );
    }
    seen(text, record);
    log(text, record);
    trace(text, record);
    text.push('\n');
}

/// Interrupts, power and memory.
fn seen(text: &mut String, record: &Record) {
    let line = |name: &str| {
        let at = |s: &Snapshot| s.interrupts.get(name).copied().unwrap_or_default();
        format!(
            "{name} {} then {}",
            at(&record.during).saturating_sub(at(&record.before)),
            at(&record.after).saturating_sub(at(&record.during))
        )
    };
    let lines: Vec<_> = ["job", "mmu", "gpu"].map(line).into();
    let _ = writeln!(
        text,
        "- Interrupts until the look (a second after the submission, unless said otherwise), and from then to the end of the watch: {}",
        lines.join(", ")
    );
    let word = |value: &Option<String>| value.clone().unwrap_or_else(|| "not available".to_owned());
    let count = |value: Option<usize>| value.map_or("–".to_owned(), |n| n.to_string());
    let _ = writeln!(
        text,
        "- Power: {} at the look, {} at the end of the watch, {} with all clients closed; `panthor-active-memory` at the \
         look: {}; buffer objects in debugfs before the first client and after the last: {}, {}",
        word(&record.during.runtime_status),
        word(&record.after.runtime_status),
        word(&record.at_end.runtime_status),
        word(&record.during.active_memory),
        count(record.at_start.gems),
        count(record.at_end.gems),
    );
}

fn log(text: &mut String, record: &Record) {
    if record.messages.is_empty() {
        text.push_str("- Kernel log: nothing\n");
        return;
    }
    text.push_str("- Kernel log:\n\n```text\n");
    let telling =
        |text: &str| text.contains("[drm]") || text.starts_with("WARNING") || text.contains("BUG");
    let lines: Vec<_> = record
        .messages
        .iter()
        .filter(|m| telling(&m.text))
        .collect();
    for message in lines.iter().take(LOG_LINES) {
        let _ = writeln!(
            text,
            "{:>8} {}",
            milliseconds(message.at_ms),
            tidy(&message.text)
        );
    }
    if lines.len() > LOG_LINES {
        let _ = writeln!(text, "… {} lines more", lines.len() - LOG_LINES);
    }
    if record.messages.len() > lines.len() {
        let _ = writeln!(
            text,
            "({} lines of registers and stacks left out)",
            record.messages.len() - lines.len()
        );
    }
    text.push_str("```\n");
}

fn trace(text: &mut String, record: &Record) {
    let Some(trace) = &record.trace else {
        text.push_str("- Trace: not available\n");
        return;
    };
    let counts: Vec<_> = trace
        .counts
        .iter()
        .filter(|(name, _)| !name.starts_with("rpm_"))
        .map(|(name, count)| format!("{name} {count}"))
        .collect();
    let _ = writeln!(text, "- Trace: {}", counts.join(", "));
    if trace.lines.is_empty() {
        return;
    }
    let start = trace
        .lines
        .iter()
        .find_map(|line| seconds(line))
        .unwrap_or(0.0);
    text.push_str("\n```text\n");
    for line in &trace.lines {
        match (seconds(line), line.split_once(' ')) {
            (Some(at), Some((_, rest))) => {
                let _ = writeln!(
                    text,
                    "{:>8} {}",
                    milliseconds((at - start) * 1000.0),
                    tidy(rest)
                );
            }
            _ => {
                let _ = writeln!(text, "{line}");
            }
        }
    }
    text.push_str("```\n");
}

/// The time at a trace line's head.
fn seconds(line: &str) -> Option<f64> {
    line.split(' ').next()?.parse().ok()
}

fn fence_words(fence: &FenceRecord) -> String {
    let marks = match (fence.started, fence.ended) {
        (Some(false), _) => ", not started",
        (Some(true), Some(false)) => ", started, not ended",
        _ => "",
    };
    let after = fence
        .after_ms
        .map_or(String::new(), |ms| format!(" after {}", milliseconds(ms)));
    format!("{} {}{after}{marks}", fence.name, fence.status)
}

fn probe_words(probe: &ProbeRecord) -> String {
    let after = probe
        .after_ms
        .map_or(String::new(), |ms| format!(" after {}", milliseconds(ms)));
    let group = match probe.group.as_str() {
        "" | "0" => String::new(),
        state => format!(" ({state})"),
    };
    format!("{}{after}{group}", tidy(&probe.status))
}

/// A time, rounded: tenths below ten milliseconds, tens above a second.
fn milliseconds(ms: f64) -> String {
    if ms < 10.0 {
        format!("{ms:.1} ms")
    } else if ms < 1000.0 {
        format!("{ms:.0} ms")
    } else {
        format!("{:.2} s", ms / 1000.0)
    }
}

/// Text without what differs from boot to boot: process numbers, addresses, and the table's own signs.
fn tidy(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['p', '0', '|', '\n', 'C', 'P']) {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let digits =
            |from: &str| from.len() - from.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let hex = |from: &str| {
            from.len()
                - from
                    .trim_start_matches(|c: char| c.is_ascii_hexdigit())
                    .len()
        };
        if let Some(after) = ["pid=", "PID: "]
            .iter()
            .find_map(|mark| rest.strip_prefix(mark))
        {
            out.push_str("pid=N");
            rest = &after[digits(after)..];
        } else if rest.starts_with("00000000") && hex(rest) == 16 {
            out.push_str("PTR");
            rest = &rest[16..];
        } else if let Some(after) = rest.strip_prefix('|') {
            out.push('/');
            rest = after;
        } else if let Some(after) = rest.strip_prefix('\n') {
            out.push(' ');
            rest = after;
        } else {
            let first = rest.chars().next().map_or(0, char::len_utf8);
            out.push_str(&rest[..first]);
            rest = &rest[first..];
        }
    }
    out.push_str(rest);
    out
}

/// The parts of a document that belong to one scenario: its row and its section; `None` where it has none.
pub fn parts(document: &str, name: &str) -> Option<(String, String)> {
    let mark = format!("| [{name}](");
    let row = document.lines().find(|line| line.starts_with(&mark))?;
    let start = document.find(&format!("\n### {name}\n"))? + 1;
    let rest = &document[start..];
    let end = rest[1..].find("\n### ").map_or(rest.len(), |at| at + 2);
    Some((format!("{row}\n"), rest[..end].to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::record::{Message, VictimRecord};
    use crate::measure::scenario;

    fn run(name: &str) -> (&'static Scenario, Record) {
        let record = Record {
            kernel: "7.2.13".into(),
            driver: "1.8".into(),
            victim: Some(VictimRecord {
                fences: vec![FenceRecord {
                    name: "loop".into(),
                    status: "ETIMEDOUT".into(),
                    after_ms: Some(5012.4),
                    started: Some(true),
                    ended: Some(false),
                }],
                ..VictimRecord::default()
            }),
            messages: vec![Message {
                at_ms: 5000.2,
                level: 4,
                text: "panthor: [drm] job timeout: pid=31, comm=measure".into(),
            }],
            ..Record::default()
        };
        (scenario::find(name).unwrap(), record)
    }

    #[test]
    fn a_document_gives_its_parts_back() {
        let runs = [run("cs_infinite_loop"), run("irq_lost"), run("long_job")];
        let text = document("7.2", &runs);
        for (scenario, record) in &runs {
            let (row_text, section_text) = parts(&text, scenario.name).unwrap();
            assert_eq!(row_text, row("7.2", scenario, record));
            assert_eq!(section_text, section("7.2", scenario, record));
        }
        assert_eq!(parts(&text, "mmu_fault"), None);
        assert!(text.contains("loop ETIMEDOUT after 5.01 s, started, not ended"));
        assert!(text.contains("pid=N, comm=measure"));
    }

    #[test]
    fn what_differs_from_boot_to_boot_is_left_out() {
        assert_eq!(tidy("a pid=312, b"), "a pid=N, b");
        assert_eq!(tidy("entity=00000000deadbeef, id=1"), "entity=PTR, id=1");
        assert_eq!(
            tidy("CPU: 0 UID: 0 PID: 41 Comm"),
            "CPU: 0 UID: 0 pid=N Comm"
        );
        assert_eq!(tidy("TIMEDOUT|INNOCENT"), "TIMEDOUT/INNOCENT");
        assert_eq!(milliseconds(1.04), "1.0 ms");
        assert_eq!(milliseconds(5039.9), "5.04 s");
    }
}
