//! Reads a fault's text.

use std::str::FromStr;

use super::fault::{
    BootFailure, FAULTS, Fault, Kind, Level, Line, ResetKind, Spec, Spurious, WHEN, WORDS, When,
};
use super::power::Domain;
use super::regs::AsCommand;

/// Why a fault is refused: one line that names the fault, the key and what it takes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadFault {
    /// No such fault.
    #[error("unknown fault {0:?}: expected one of {names}", names = names())]
    Unknown(String),
    /// No such parameter.
    #[error("fault {fault} takes no {key:?}: expected {takes}")]
    UnknownKey {
        /// The fault.
        fault: &'static str,
        /// What was given.
        key: String,
        /// What it takes.
        takes: String,
    },
    /// A value out of its range.
    #[error("fault {fault}: {key}={value:?} is not allowed: expected {takes}")]
    BadValue {
        /// The fault.
        fault: &'static str,
        /// The parameter.
        key: &'static str,
        /// What was given.
        value: String,
        /// What it takes.
        takes: &'static str,
    },
    /// A parameter is given twice.
    #[error("fault {fault}: {key} is given twice")]
    Twice {
        /// The fault.
        fault: &'static str,
        /// The parameter.
        key: String,
    },
    /// A parameter that is needed is not there.
    #[error("fault {fault} needs {key}={takes}")]
    Missing {
        /// The fault.
        fault: &'static str,
        /// The parameter.
        key: &'static str,
        /// What it takes.
        takes: &'static str,
    },
}

fn names() -> String {
    let names: Vec<_> = FAULTS.iter().map(|spec| spec.name).collect();
    names.join(", ")
}

/// What was given for one fault, by key.
struct Given<'a> {
    spec: &'static Spec,
    values: Vec<(&'static str, &'static str, &'a str)>,
}

impl<'a> Given<'a> {
    fn get<T>(
        &self,
        key: &str,
        read: impl Fn(&'a str) -> Option<T>,
    ) -> Result<Option<T>, BadFault> {
        let Some((key, takes, value)) = self.values.iter().find(|(k, ..)| *k == key) else {
            return Ok(None);
        };
        match read(value) {
            Some(read) => Ok(Some(read)),
            None => Err(BadFault::BadValue {
                fault: self.spec.name,
                key,
                value: (*value).to_owned(),
                takes,
            }),
        }
    }

    /// A parameter that must be there.
    fn need<T>(&self, key: &str, read: impl Fn(&'a str) -> Option<T>) -> Result<T, BadFault> {
        match self.get(key, read)? {
            Some(value) => Ok(value),
            None => {
                let (key, takes) = self.spec.needed(key);
                Err(BadFault::Missing {
                    fault: self.spec.name,
                    key,
                    takes,
                })
            }
        }
    }

    fn slot(&self, key: &str) -> Result<Option<u8>, BadFault> {
        self.get(key, |v| below(v, 32))
    }
}

impl Spec {
    fn needed(&self, key: &str) -> (&'static str, &'static str) {
        let strip = |k: &'static str| k.strip_prefix('*').unwrap_or(k);
        let found = self.params.iter().find(|(k, _)| strip(k) == key);
        found.map_or(("", ""), |(k, takes)| (strip(k), *takes))
    }
}

fn below(text: &str, bound: u8) -> Option<u8> {
    text.parse().ok().filter(|n: &u8| *n < bound)
}

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

fn byte(text: &str) -> Option<u8> {
    number(text).and_then(|n| n.try_into().ok())
}

/// Nanoseconds of `20us` and the like.
fn time(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

fn line(text: &str) -> Option<Line> {
    Line::ALL.into_iter().find(|line| line.name() == text)
}

fn reset(text: &str) -> Option<ResetKind> {
    Some(match text {
        "fast" => ResetKind::Fast,
        "slow" => ResetKind::Slow,
        "any" => ResetKind::Any,
        _ => return None,
    })
}

/// The bits that a request's name stands for: `state` are the three of CS and CSG (panthor_fw.h, `CSG_STATE_MASK`).
fn request_bits(text: &str) -> Option<u32> {
    match text {
        "state" => Some(7),
        bit => below(bit, 32).map(|bit| 1 << bit),
    }
}

fn as_command(text: &str) -> Option<u8> {
    Some(match text {
        "update" => AsCommand::Update as u8,
        "lock" => AsCommand::Lock as u8,
        "unlock" => AsCommand::Unlock as u8,
        "flush-pt" => AsCommand::FlushPt as u8,
        "flush-mem" => AsCommand::FlushMem as u8,
        _ => return None,
    })
}

impl FromStr for Fault {
    type Err = BadFault;

    fn from_str(text: &str) -> Result<Self, BadFault> {
        let mut parts = text.split(':');
        let name = parts.next().unwrap_or_default();
        let spec = FAULTS
            .iter()
            .find(|spec| spec.name == name)
            .ok_or_else(|| BadFault::Unknown(name.to_owned()))?;
        let mut given = Given {
            spec,
            values: Vec::new(),
        };
        let mut words = (false, false, false);
        for part in parts.filter(|part| !part.is_empty()) {
            let Some((key, value)) = part.split_once('=') else {
                match part {
                    "once" => words.0 = true,
                    "always" => words.1 = true,
                    "until-reset" => words.2 = true,
                    _ => return Err(spec.unknown_key(part)),
                }
                continue;
            };
            let known = spec.params.iter().chain(WHEN);
            let (known, takes) = known
                .map(|(k, takes)| (k.strip_prefix('*').unwrap_or(k), *takes))
                .find(|(k, _)| *k == key)
                .ok_or_else(|| spec.unknown_key(key))?;
            if given.values.iter().any(|(k, ..)| *k == key) {
                return Err(BadFault::Twice {
                    fault: spec.name,
                    key: key.to_owned(),
                });
            }
            given.values.push((known, takes, value));
        }
        let count = given.get("n", |v| v.parse().ok().filter(|n| *n > 0))?;
        if usize::from(words.0) + usize::from(words.1) + usize::from(count.is_some()) > 1 {
            return Err(BadFault::Twice {
                fault: spec.name,
                key: "the number of occasions (n, once, always)".to_owned(),
            });
        }
        let when = When {
            from: given.get("from", time)?.unwrap_or(0),
            until: given.get("until", time)?.unwrap_or(u64::MAX),
            after: given.get("after", |v| v.parse().ok())?.unwrap_or(0),
            count: if words.0 {
                1
            } else {
                count.unwrap_or(u64::MAX)
            },
            probability: given
                .get("p", |v| v.parse().ok().filter(|p| *p > 0.0 && *p <= 1.0))?
                .unwrap_or(1.0),
            until_reset: words.2,
        };
        let kind = spec.kind(&given)?;
        Ok(Self {
            kind,
            when,
            text: text.to_owned(),
        })
    }
}

impl Spec {
    fn unknown_key(&self, key: &str) -> BadFault {
        let keys = self.params.iter().chain(WHEN);
        let keys: Vec<_> = keys.map(|(k, _)| k.trim_start_matches('*')).collect();
        BadFault::UnknownKey {
            fault: self.name,
            key: key.to_owned(),
            takes: format!("{}, {WORDS}", keys.join(", ")),
        }
    }

    fn kind(&self, given: &Given<'_>) -> Result<Kind, BadFault> {
        let bit = || given.get("bit", |v| below(v, 32));
        Ok(match self.name {
            "irq-lost" => Kind::IrqLost {
                line: given.need("irq", line)?,
                bit: bit()?,
            },
            "irq-late" => Kind::IrqLate {
                line: given.need("irq", line)?,
                bit: bit()?,
                by: given.need("by", time)?,
            },
            "ack-withheld" => Kind::AckWithheld {
                on: given.need("on", |v| {
                    Some(match v {
                        "glb" => Level::Global,
                        "csg" => Level::Group,
                        "cs" => Level::Stream,
                        _ => return None,
                    })
                })?,
                mask: given.need("bit", request_bits)?,
                group: given.slot("group")?,
                stream: given.slot("stream")?,
            },
            "terminate-ignored" => Kind::TerminateIgnored {
                group: given.slot("group")?,
            },
            "firmware-dead" => Kind::FirmwareDead,
            "ping-unanswered" => Kind::PingUnanswered,
            "boot-fails" => Kind::BootFails {
                reset: given.get("reset", reset)?.unwrap_or(ResetKind::Any),
                how: given
                    .get("how", |v| {
                        Some(match v {
                            "silent" => BootFailure::Silent,
                            "fatal" => BootFailure::Fatal,
                            _ => return None,
                        })
                    })?
                    .unwrap_or(BootFailure::Silent),
            },
            "boot-late" => Kind::BootFails {
                reset: given.get("reset", reset)?.unwrap_or(ResetKind::Any),
                how: BootFailure::Late(given.need("by", time)?),
            },
            "power-stuck" => Kind::PowerStuck {
                domain: given.need("domain", Domain::from_name)?,
            },
            "as-stuck" => Kind::AsStuck {
                space: given.slot("as")?,
                command: given.get("command", as_command)?,
                by: given.get("by", time)?,
            },
            "flush-stuck" => Kind::FlushStuck,
            "reset-stuck" => Kind::ResetStuck,
            "spurious-fault" => {
                let what = given.need("kind", |v| {
                    Some(match v {
                        "gpu" => Spurious::Gpu,
                        "mmu" => Spurious::Mmu,
                        "cs-fault" => Spurious::CsFault,
                        "cs-fatal" => Spurious::CsFatal,
                        _ => return None,
                    })
                })?;
                Kind::Spurious {
                    what,
                    code: given.get("code", byte)?.unwrap_or(match what {
                        // GPU_BUS_FAULT, TRANSLATION_FAULT_3, CS_INHERIT_FAULT, CS_ENDPOINT_FAULT.
                        Spurious::Gpu => 0x80,
                        Spurious::Mmu => 0xc3,
                        Spurious::CsFault => 0x4b,
                        Spurious::CsFatal => 0x44,
                    }),
                    address: given.get("address", number)?.unwrap_or(0),
                    space: given.slot("as")?.unwrap_or(1),
                    at: given.get("at", time)?.unwrap_or(0),
                }
            }
            "tiler-oom" => Kind::TilerOom {
                chunks: given
                    .get("chunks", |v| v.parse().ok().filter(|n| *n > 0))?
                    .unwrap_or(1),
            },
            "doorbell-lost" => Kind::DoorbellLost {
                id: given.get("id", |v| below(v, 64))?,
            },
            "flush-id-frozen" => Kind::FlushIdFrozen,
            // The last of the table.
            _ => Kind::SlowRegisters {
                by: given.need("by", time)?,
                offset: given.get("offset", |v| number(v).and_then(|n| n.try_into().ok()))?,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hw::fault::help;

    fn parse(text: &str) -> Fault {
        text.parse()
            .unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn every_fault_of_the_table_can_be_asked_for() {
        let line = Line::Job;
        let on = Level::Stream;
        for (text, kind) in [
            ("irq-lost:irq=job", Kind::IrqLost { line, bit: None }),
            (
                "irq-late:irq=job:bit=31:by=2ms",
                Kind::IrqLate {
                    line,
                    bit: Some(31),
                    by: 2_000_000,
                },
            ),
            (
                "ack-withheld:on=cs:bit=state:group=1:stream=2",
                Kind::AckWithheld {
                    on,
                    mask: 7,
                    group: Some(1),
                    stream: Some(2),
                },
            ),
            ("terminate-ignored", Kind::TerminateIgnored { group: None }),
            ("firmware-dead", Kind::FirmwareDead),
            ("ping-unanswered", Kind::PingUnanswered),
            (
                "boot-fails",
                Kind::BootFails {
                    reset: ResetKind::Any,
                    how: BootFailure::Silent,
                },
            ),
            (
                "boot-late:reset=fast:by=2s",
                Kind::BootFails {
                    reset: ResetKind::Fast,
                    how: BootFailure::Late(2_000_000_000),
                },
            ),
            (
                "power-stuck:domain=l2",
                Kind::PowerStuck { domain: Domain::L2 },
            ),
            (
                "as-stuck:as=1:command=lock",
                Kind::AsStuck {
                    space: Some(1),
                    command: Some(2),
                    by: None,
                },
            ),
            (
                "as-stuck:by=150ms",
                Kind::AsStuck {
                    space: None,
                    command: None,
                    by: Some(150_000_000),
                },
            ),
            ("flush-stuck", Kind::FlushStuck),
            ("reset-stuck", Kind::ResetStuck),
            (
                "spurious-fault:kind=mmu:at=3ns:as=2:address=0x1000",
                Kind::Spurious {
                    what: Spurious::Mmu,
                    code: 0xc3,
                    address: 0x1000,
                    space: 2,
                    at: 3,
                },
            ),
            ("tiler-oom:chunks=3", Kind::TilerOom { chunks: 3 }),
            ("doorbell-lost:id=3", Kind::DoorbellLost { id: Some(3) }),
            ("flush-id-frozen", Kind::FlushIdFrozen),
            (
                "slow-registers:by=20us:offset=0x700",
                Kind::SlowRegisters {
                    by: 20_000,
                    offset: Some(0x700),
                },
            ),
        ] {
            let fault = parse(text);
            assert_eq!((fault.kind, fault.when), (kind, When::default()), "{text}");
            assert_eq!(fault.to_string(), text);
        }
        for spec in FAULTS {
            assert!(help().contains(&format!("{}: {}", spec.name, spec.help)));
        }
    }

    #[test]
    fn every_fault_takes_the_common_words() {
        let when = parse("flush-stuck:from=1s:until=2s:after=3:n=4:p=0.5:until-reset").when;
        let expected = When {
            from: 1_000_000_000,
            until: 2_000_000_000,
            after: 3,
            count: 4,
            probability: 0.5,
            until_reset: true,
        };
        assert_eq!(when, expected);
        assert_eq!(parse("flush-stuck:once").when.count, 1);
        assert_eq!(parse("flush-stuck:always").when, When::default());
    }

    #[test]
    fn refuses_in_one_line_that_names_the_key() {
        for (text, part) in [
            (
                "flush",
                "unknown fault \"flush\": expected one of irq-lost, irq-late",
            ),
            ("irq-lost", "fault irq-lost needs irq=job, mmu or gpu"),
            (
                "irq-lost:irq=usb",
                "irq-lost: irq=\"usb\" is not allowed: expected job, mmu or gpu",
            ),
            ("irq-lost:irq=job:bit=32", "expected a bit, 0 to 31"),
            ("irq-late:irq=job", "fault irq-late needs by=a time such as"),
            (
                "irq-late:irq=job:by=5",
                "by=\"5\" is not allowed: expected a time such as",
            ),
            ("irq-late:irq=job:by=99999999999s", "expected a time"),
            (
                "irq-lost:irq=job:colour=1",
                "takes no \"colour\": expected irq, bit, from, until",
            ),
            ("irq-lost:irq=job:twice", "takes no \"twice\""),
            ("irq-lost:irq=job:irq=mmu", "irq is given twice"),
            ("irq-lost:irq=job:once:n=2", "is given twice"),
            ("flush-stuck:n=0", "at least 1"),
            ("flush-stuck:p=0", "above 0"),
            ("flush-stuck:p=nan", "above 0"),
            ("ack-withheld:on=csg", "needs bit="),
            ("ack-withheld:on=gpu:bit=1", "expected glb, csg or cs"),
            ("boot-fails:how=loud", "silent or fatal"),
            ("power-stuck:domain=core", "l2, shader or tiler"),
            ("spurious-fault:kind=mmu:code=256", "an exception code"),
            ("doorbell-lost:id=64", "0 to 63"),
            ("as-stuck:command=nop", "update, lock, unlock"),
        ] {
            let message = text.parse::<Fault>().unwrap_err().to_string();
            assert!(message.contains(part), "{message}");
            assert!(!message.contains('\n'), "{message}");
        }
    }
}
