//! Which results the calls of many records gave.

use std::collections::BTreeMap;
use std::fmt;

use super::run::Record;

/// How often each call gave each result, and the first seed that did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    by_call: BTreeMap<(String, String), Hits>,
    /// Sequences.
    pub sequences: u64,
}

/// How often, and where first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Hits {
    count: u64,
    seed: u64,
}

impl Coverage {
    /// Counts a record's calls.
    pub fn add(&mut self, record: &Record) {
        self.sequences += 1;
        for step in &record.steps {
            let key = (step.name.clone(), step.result.clone());
            let hits = self.by_call.entry(key).or_insert(Hits {
                count: 0,
                seed: record.seed,
            });
            hits.count += 1;
        }
    }

    /// Calls that were issued, and how many of them succeeded. Pauses do not count, nor what was skipped.
    pub fn success(&self) -> (u64, u64) {
        let counted = self
            .by_call
            .iter()
            .filter(|((name, result), _)| name != "sleep" && result != "skipped");
        counted.fold((0, 0), |(all, good), ((_, result), hits)| {
            let ok = if result == "ok" { hits.count } else { 0 };
            (all + hits.count, good + ok)
        })
    }

    /// How often `call` gave `result`.
    pub fn count(&self, call: &str, result: &str) -> u64 {
        let key = (call.to_owned(), result.to_owned());
        self.by_call.get(&key).map_or(0, |hits| hits.count)
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (all, good) = self.success();
        writeln!(
            f,
            "{} sequences, {all} calls, {good} succeeded ({:.1} %)",
            self.sequences,
            100.0 * good as f64 / all.max(1) as f64
        )?;
        for ((name, result), hits) in &self.by_call {
            writeln!(f, "{name}\t{result}\t{}\tseed {}", hits.count, hits.seed)?;
        }
        Ok(())
    }
}
