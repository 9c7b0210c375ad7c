//! What one run of one scenario saw, as one JSON object.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// How a fence ended, in words: `pending`, `signalled`, or the name of the errno in it (`ETIMEDOUT`).
pub type Status = String;

/// A fence that was watched.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FenceRecord {
    /// Which job or bind it belongs to.
    pub name: String,
    /// How it stood when the watch ended.
    pub status: Status,
    /// Milliseconds from the submission to the signal, by the fence's own time stamp; `None` while pending.
    pub after_ms: Option<f64>,
    /// Whether the stream's first store arrived; `None` where there is no stream.
    pub started: Option<bool>,
    /// Whether the stream's last store arrived.
    pub ended: Option<bool>,
}

/// A group as GROUP_GET_STATE shows it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GroupRecord {
    /// Which group.
    pub name: String,
    /// The flags' names joined by `|`, `0` for none, or the errno of the query.
    pub state: String,
    /// The mask of queues with a fatal error.
    pub fatal_queues: u32,
}

/// A call made afterwards and what it gave: `ok`, an errno, or what came back.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CallRecord {
    /// The call, with what it was made on.
    pub call: String,
    /// Its result.
    pub result: String,
}

/// How a healthy job of somebody fared.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProbeRecord {
    /// When, in words: `before`, `during`, `after`.
    pub when: String,
    /// `signalled`, `pending`, the errno of the fence, or the failed call with its errno.
    pub status: Status,
    /// Milliseconds from submission to signal.
    pub after_ms: Option<f64>,
    /// State of the group afterwards.
    pub group: String,
}

/// One attempt at repair.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RungRecord {
    /// `R1` to `R5`.
    pub rung: String,
    /// What was done.
    pub what: String,
    /// Whether a healthy job passed afterwards.
    pub cured: bool,
    /// What happened, in words.
    pub result: String,
}

/// What the victim itself reports.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct VictimRecord {
    /// Milliseconds that VM, buffer, groups and submissions took.
    pub setup_ms: f64,
    /// The watched fences, in order of submission.
    pub fences: Vec<FenceRecord>,
    /// Its groups after the watch.
    pub groups: Vec<GroupRecord>,
    /// Further facts of the scenario: name and value.
    pub facts: Vec<CallRecord>,
    /// Calls made after the watch.
    pub calls: Vec<CallRecord>,
    /// Rungs R1 and R2, as far as they were climbed.
    pub rungs: Vec<RungRecord>,
    /// Whether a healthy job on the same queue passed without any repair.
    pub healthy: bool,
}

/// What can be seen from outside a client at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Interrupts so far, by line: `job`, `mmu`, `gpu`.
    pub interrupts: BTreeMap<String, u64>,
    /// `power/runtime_status` of the GPU.
    pub runtime_status: Option<String>,
    /// `panthor-active-memory` of the victim's descriptor, in the kernel's words.
    pub active_memory: Option<String>,
    /// Buffer objects that `debugfs/…/gems` lists (7.x, root).
    pub gems: Option<usize>,
    /// The GPU clock as devfreq tells it, in Hz.
    pub frequency_hz: Option<u64>,
}

/// The tracepoints that fired.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TraceRecord {
    /// Events by name.
    pub counts: BTreeMap<String, u64>,
    /// Hash (FNV-1a, 64 bits) over every line, by which two runs are compared.
    pub hash: String,
    /// The lines that tell of jobs and fences, without task and CPU, first and last ones.
    pub lines: Vec<String>,
}

/// Everything about one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The scenario's name.
    pub scenario: String,
    /// Release of the kernel inside (`uname -r`), or `simulator`.
    pub kernel: String,
    /// The driver's version, `1.8`.
    pub driver: String,
    /// What the victim saw; `None` where it was killed or never answered.
    pub victim: Option<VictimRecord>,
    /// What became of the victim where it did not report, with where its threads slept.
    pub victim_gone: Option<String>,
    /// How a second client fared.
    pub second: Vec<ProbeRecord>,
    /// Rungs R3 to R5, as far as they were climbed.
    pub rungs: Vec<RungRecord>,
    /// Before any client.
    pub at_start: Snapshot,
    /// Before the victim's submission.
    pub before: Snapshot,
    /// A second after it.
    pub during: Snapshot,
    /// When the watch was over, before any repair.
    pub after: Snapshot,
    /// At the end, with all clients closed.
    pub at_end: Snapshot,
    /// Kernel messages since the start of the scenario.
    pub messages: Vec<Message>,
    /// Tracepoints, where tracefs may be read.
    pub trace: Option<TraceRecord>,
    /// What the modelled GPU counted; filled in by the half outside.
    pub model: ModelRecord,
}

/// What the modelled GPU counted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ModelRecord {
    /// Each fault and how often it struck.
    pub struck: Vec<(String, u64)>,
    /// What the driver did that hardware leaves undefined, and how often.
    pub violations: Vec<(String, u64)>,
}

/// A line of the kernel's log.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Milliseconds since the victim's start (a submission follows at once).
    pub at_ms: f64,
    /// Its level, 0 (emergency) to 7 (debug).
    pub level: u8,
    /// The text.
    pub text: String,
}

impl Record {
    /// All rungs, the victim's own first.
    pub fn all_rungs(&self) -> impl Iterator<Item = &RungRecord> {
        let own = self.victim.iter().flat_map(|victim| &victim.rungs);
        own.chain(&self.rungs)
    }

    /// What repaired it: `none needed`, the first rung that cured, or `nothing tried helped`.
    pub fn cure(&self) -> String {
        if self.victim.as_ref().is_some_and(|victim| victim.healthy) {
            return "none needed".to_owned();
        }
        match self.all_rungs().find(|rung| rung.cured) {
            Some(rung) => rung.rung.clone(),
            None => "nothing tried helped".to_owned(),
        }
    }

    /// Whether the driver or the kernel warned or crashed: the messages that are findings.
    pub fn warnings(&self) -> Vec<&Message> {
        const MARKS: [&str; 7] = [
            "WARNING:",
            "BUG:",
            "Oops",
            "Kernel panic",
            "drm_WARN_ON",
            "refcount_t",
            "possible recursive locking",
        ];
        let marked = |m: &&Message| MARKS.iter().any(|mark| m.text.contains(mark));
        self.messages.iter().filter(marked).collect()
    }
}
