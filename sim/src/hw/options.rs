//! What the GPU behind the registers is like.

use std::fmt;
use std::str::FromStr;

use super::fault::Fault;
use super::fault_text::BadFault;
use crate::kmd::options::{number, switch};
use crate::mmu::LscRule;

/// The GPU's part of a device string: `KEY=VALUE,…`, in any order; `fault` may be repeated.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// `gpu_mhz=`: cycles per microsecond, fractions allowed. The device tree must say the same. Default 1000.
    pub gpu_mhz: f64,
    /// `cores=1..16`: shader cores. Default 4, as on an RK3588.
    pub cores: u32,
    /// `threads=1..256`: host threads that run workgroups. Default: the host's parallelism, at most 16.
    pub threads: usize,
    /// `seed=`: what the hardware leaves open, and the faults' probabilities, are drawn from it. Default 0.
    pub seed: u64,
    /// `strict=0|1`: what `lsc` is where it is not given: `flushed` or `coherent`. Default 1.
    pub strict: bool,
    /// `lsc=flushed|private|coherent`: what must lie between the jobs of a stream that depend on each other.
    pub lsc: Option<LscRule>,
    /// `progress_timer=0|1`: whether the firmware minds GLB_PROGRESS_TIMER. Default 1. Without it a long job meets only the
    /// driver's own timer, as it does in any case below 524 MHz (`panthor_fw.c`, `PROGRESS_TIMEOUT_CYCLES` in the 5 s of
    /// `panthor_sched.c`, `JOB_TIMEOUT_MS`).
    pub progress_timer: bool,
    /// `fault=NAME:…`: what goes wrong ([`super::fault`]).
    pub faults: Vec<Fault>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            gpu_mhz: 1000.0,
            cores: 4,
            threads: std::thread::available_parallelism().map_or(1, |n| n.get().min(16)),
            seed: 0,
            strict: true,
            lsc: None,
            progress_timer: true,
            faults: Vec::new(),
        }
    }
}

/// Why an option is refused: one line that names the key and what it takes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadOption {
    /// A part without `=`.
    #[error("GPU option {0:?} has no value: expected KEY=VALUE with KEY one of {keys}", keys = Options::KEYS)]
    NoValue(String),
    /// A key that does not exist.
    #[error("unknown GPU option {0:?}: expected one of {keys}", keys = Options::KEYS)]
    UnknownKey(String),
    /// A value out of its range.
    #[error("GPU option {key}={value:?} is not allowed: expected {allowed}")]
    BadValue {
        /// The key.
        key: &'static str,
        /// What was given.
        value: String,
        /// What it takes.
        allowed: &'static str,
    },
    /// A fault that cannot be.
    #[error(transparent)]
    Fault(#[from] BadFault),
}

impl Options {
    /// The keys.
    pub const KEYS: &str = "gpu_mhz, cores, threads, seed, strict, lsc, progress_timer, fault";

    /// Whether `key` is one of them, so that a longer device string can be split.
    #[must_use]
    pub fn has_key(key: &str) -> bool {
        Self::KEYS.split(", ").any(|known| known == key)
    }

    /// What must lie between a job's writes and another job's reads: `lsc`, or what `strict` implies.
    #[must_use]
    pub fn lsc_rule(&self) -> LscRule {
        LscRule::chosen(self.lsc, self.strict)
    }

    /// The clock in Hz, as the device tree gives it.
    #[must_use]
    pub fn gpu_hz(&self) -> u64 {
        (self.gpu_mhz * 1e6).round().max(1.0) as u64
    }

    /// Sets one option.
    ///
    /// # Errors
    /// [`BadOption`] where there is no such key or the value is out of its range.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), BadOption> {
        let bad = |key, allowed| BadOption::BadValue {
            key,
            value: value.into(),
            allowed,
        };
        match key {
            "gpu_mhz" => {
                self.gpu_mhz = value
                    .parse()
                    .ok()
                    .filter(|mhz: &f64| (0.001..=100_000.0).contains(mhz))
                    .ok_or_else(|| bad("gpu_mhz", "a number from 0.001 to 100000"))?;
            }
            "cores" => {
                self.cores = number(value, 1, 16).ok_or_else(|| bad("cores", "1 to 16"))? as u32;
            }
            "threads" => {
                self.threads =
                    number(value, 1, 256).ok_or_else(|| bad("threads", "1 to 256"))? as usize;
            }
            "seed" => {
                self.seed = value
                    .parse()
                    .map_err(|_| bad("seed", "0 to 18446744073709551615"))?;
            }
            "strict" => self.strict = switch(value).ok_or_else(|| bad("strict", "0 or 1"))?,
            "lsc" => {
                self.lsc = Some(
                    LscRule::from_name(value)
                        .ok_or_else(|| bad("lsc", "flushed, private or coherent"))?,
                );
            }
            "progress_timer" => {
                self.progress_timer =
                    switch(value).ok_or_else(|| bad("progress_timer", "0 or 1"))?;
            }
            "fault" => self.faults.push(value.parse()?),
            _ => return Err(BadOption::UnknownKey(key.into())),
        }
        Ok(())
    }
}

impl FromStr for Options {
    type Err = BadOption;

    fn from_str(text: &str) -> Result<Self, BadOption> {
        let mut options = Options::default();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let (key, value) = part
                .split_once('=')
                .ok_or_else(|| BadOption::NoValue(part.into()))?;
            options.set(key, value)?;
        }
        Ok(options)
    }
}

impl fmt::Display for Options {
    /// A string that [`FromStr`] reads to the same options.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "gpu_mhz={},cores={},threads={},seed={},strict={}",
            self.gpu_mhz,
            self.cores,
            self.threads,
            self.seed,
            u8::from(self.strict)
        )?;
        if let Some(lsc) = self.lsc {
            write!(f, ",lsc={}", lsc.name())?;
        }
        if !self.progress_timer {
            write!(f, ",progress_timer=0")?;
        }
        for fault in &self.faults {
            write!(f, ",fault={fault}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_every_key_and_writes_it_back() {
        let text = "gpu_mhz=0.2,cores=2,threads=3,seed=9,strict=0,lsc=private,progress_timer=0,fault=irq-lost:irq=job:once,fault=flush-stuck";
        let options: Options = text.parse().unwrap();
        assert_eq!(options.gpu_hz(), 200_000);
        assert_eq!((options.cores, options.threads, options.seed), (2, 3, 9));
        assert_eq!(options.lsc_rule(), LscRule::Private);
        assert_eq!(options.faults.len(), 2);
        assert_eq!(options.to_string(), text);
        let default = Options::default();
        assert_eq!("".parse::<Options>().unwrap(), default);
        assert_eq!(default.to_string().parse::<Options>().unwrap(), default);
        for key in Options::KEYS.split(", ") {
            assert!(Options::has_key(key));
        }
        assert!(!Options::has_key("kernel") && !Options::has_key(""));
    }

    #[test]
    fn refuses_in_one_line_that_names_the_key() {
        for (text, part) in [
            ("cores=17", "cores=\"17\" is not allowed: expected 1 to 16"),
            ("kernel=7.2", "unknown GPU option \"kernel\""),
            ("cores", "\"cores\" has no value"),
            ("gpu_mhz=0", "0.001 to 100000"),
            ("lsc=shared", "flushed, private or coherent"),
            (
                "fault=colour",
                "unknown fault \"colour\": expected one of irq-lost",
            ),
            ("fault=", "unknown fault \"\""),
        ] {
            let message = text.parse::<Options>().unwrap_err().to_string();
            assert!(message.contains(part), "{message}");
            assert!(!message.contains('\n'), "{message}");
        }
    }
}
