//! The first difference of two records, and the smallest sequence that still shows it.

use std::fmt;

use super::run::{Record, StepRecord};
use super::{Sequence, hex};

/// Where two records part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Difference {
    /// A call gave something else.
    Step {
        /// Its number.
        id: u32,
        /// The call.
        name: String,
        /// On the first device.
        left: String,
        /// On the second.
        right: String,
    },
    /// The logs have other kinds of messages.
    Messages {
        /// On the first device.
        left: String,
        /// On the second.
        right: String,
    },
    /// The records are not of the same sequence.
    Shape,
    /// Only the digests are there, and they differ.
    Digest,
}

impl Difference {
    /// Whether two differences are of the same kind, so that a smaller sequence still shows what the larger one did.
    pub fn same_kind(&self, other: &Self) -> bool {
        match (self, other) {
            (
                Difference::Step {
                    name, left, right, ..
                },
                Difference::Step {
                    name: other_name,
                    left: other_left,
                    right: other_right,
                    ..
                },
            ) => {
                let word = |text: &str| text.split(' ').next().map(str::to_owned);
                name == other_name
                    && word(left) == word(other_left)
                    && word(right) == word(other_right)
            }
            _ => std::mem::discriminant(self) == std::mem::discriminant(other),
        }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Difference::Step {
                id,
                name,
                left,
                right,
            } => write!(f, "call {id} {name}: {left} / {right}"),
            Difference::Messages { left, right } => write!(f, "messages: {left} / {right}"),
            Difference::Shape => f.write_str("records of different sequences"),
            Difference::Digest => f.write_str("digests differ"),
        }
    }
}

fn text(step: &StepRecord) -> String {
    let mut text = step.result.clone();
    for change in &step.out {
        text += &format!(
            " {}+{}:{}",
            change.buffer,
            change.at,
            hex::text(&change.bytes)
        );
    }
    text
}

/// The first difference of two records, if there is one. Messages count only where both have them.
pub fn difference(left: &Record, right: &Record) -> Option<Difference> {
    if left.seed != right.seed {
        return Some(Difference::Shape);
    }
    if left.steps.is_empty() || right.steps.is_empty() {
        return (left.digest != right.digest).then_some(Difference::Digest);
    }
    if left.steps.len() != right.steps.len() {
        return Some(Difference::Shape);
    }
    for (a, b) in left.steps.iter().zip(&right.steps) {
        if a != b {
            return Some(Difference::Step {
                id: a.id,
                name: a.name.clone(),
                left: text(a),
                right: text(b),
            });
        }
    }
    match (&left.messages, &right.messages) {
        (Some(a), Some(b)) if a != b => Some(Difference::Messages {
            left: format!("{a:?}"),
            right: format!("{b:?}"),
        }),
        _ => None,
    }
}

/// Takes calls out of a sequence as long as `still` says that it shows what it is to show.
pub fn minimise(sequence: &Sequence, mut still: impl FnMut(&Sequence) -> bool) -> Sequence {
    let mut smallest = sequence.clone();
    let mut chunk = smallest.steps.len().div_ceil(2).max(1);
    loop {
        let mut at = 0;
        let mut any = false;
        while at < smallest.steps.len() {
            let mut smaller = smallest.clone();
            let end = (at + chunk).min(smaller.steps.len());
            smaller.steps.drain(at..end);
            if still(&smaller) {
                smallest = smaller;
                any = true;
            } else {
                at = end;
            }
        }
        if chunk == 1 && !any {
            return smallest;
        }
        if !any {
            chunk = (chunk / 2).max(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Call, Step};
    use super::*;

    #[test]
    fn minimising_keeps_what_is_needed() {
        let steps = (0..20).map(|id| Step {
            id,
            call: Call::Open,
        });
        let sequence = Sequence {
            seed: 1,
            steps: steps.collect(),
        };
        let needs = |sequence: &Sequence| {
            let has = |id| sequence.steps.iter().any(|step| step.id == id);
            has(3) && has(17)
        };
        let ids: Vec<_> = minimise(&sequence, needs)
            .steps
            .iter()
            .map(|step| step.id)
            .collect();
        assert_eq!(ids, [3, 17]);
    }
}
