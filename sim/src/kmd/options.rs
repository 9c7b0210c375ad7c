//! The device string: `sim` or `sim:KEY=VALUE,…`.

use std::fmt;
use std::str::FromStr;

use crate::mmu::LscRule;

/// A kernel release whose driver the simulator imitates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kernel {
    /// Linux 6.12: uAPI 1.0, the job timer is drm_sched's.
    V6_12,
    /// Linux 7.2: uAPI 1.8, a timer per queue.
    V7_2,
    /// Linux 7.3: uAPI 1.9.
    V7_3,
}

impl Kernel {
    /// The driver's uAPI minor (`panthor_drv.c:panthor_drm_driver`).
    pub const fn minor(self) -> i32 {
        match self {
            Kernel::V6_12 => 0,
            Kernel::V7_2 => 8,
            Kernel::V7_3 => 9,
        }
    }

    /// The release as the device string spells it.
    pub const fn name(self) -> &'static str {
        match self {
            Kernel::V6_12 => "6.12",
            Kernel::V7_2 => "7.2",
            Kernel::V7_3 => "7.3",
        }
    }

    /// Whether the driver is one of the 7.x series: own GEM objects, a timer per queue.
    pub const fn is_7x(self) -> bool {
        !matches!(self, Kernel::V6_12)
    }
}

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What a simulated device is like. [`Options::from_str`] reads it from a device string.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// `kernel=6.12|7.2|7.3`: whose driver. Default 7.2.
    pub kernel: Kernel,
    /// `cores=1..16`: shader cores. Default 4, as on an RK3588.
    pub cores: u32,
    /// `job_timeout_ms=1..3600000`: the driver's `JOB_TIMEOUT_MS`. Default 5000.
    pub job_timeout_ms: u64,
    /// `gpu_mhz=`: cycles per simulated microsecond, fractions allowed. Default 1000.
    pub gpu_mhz: f64,
    /// `seed=`: what the hardware leaves open (last bits of approximations) is drawn from it. Default 0.
    pub seed: u64,
    /// `threads=1..256`: host threads that run workgroups. Default: the host's parallelism, at most 16.
    pub threads: usize,
    /// `va_bits=32..48`: width of GPU virtual addresses. Default 48.
    pub va_bits: u32,
    /// `memory=1..`: memory for buffer objects in MiB; allocations beyond it fail. Default 16384.
    pub memory_mib: u64,
    /// `page_size=4096|16384|65536`: the CPU's pages, in bytes. Default 4096.
    pub page_size: usize,
    /// `strict=0|1`: whether reading what the CPU wrote through a cached mapping and did not sync is an error. Without
    /// it `lsc` is `coherent` where nothing else is given. Default 1.
    pub strict: bool,
    /// `lsc=flushed|private|coherent`: what must lie between the jobs of a stream that depend on each other. `None`
    /// leaves it to `strict` ([`Options::lsc_rule`]).
    pub lsc: Option<LscRule>,
    /// `nice=0|1`: whether the client holds CAP_SYS_NICE, which high priorities need. Default 0.
    pub nice: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            kernel: Kernel::V7_2,
            cores: 4,
            job_timeout_ms: 5000,
            gpu_mhz: 1000.0,
            seed: 0,
            threads: std::thread::available_parallelism().map_or(1, |n| n.get().min(16)),
            va_bits: 48,
            memory_mib: 16384,
            page_size: 4096,
            strict: true,
            lsc: None,
            nice: false,
        }
    }
}

/// Why a device string is refused: one line that names the key and what it takes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadOption {
    /// The string does not start with `sim` or `sim:`.
    #[error("device {0:?} is no simulator: expected \"sim\" or \"sim:KEY=VALUE,…\"")]
    NotSim(String),
    /// A part without `=`.
    #[error("simulator option {0:?} has no value: expected KEY=VALUE with KEY one of {keys}", keys = KEYS)]
    NoValue(String),
    /// A key that does not exist.
    #[error("unknown simulator option {0:?}: expected one of {keys}", keys = KEYS)]
    UnknownKey(String),
    /// A value out of its range.
    #[error("simulator option {key}={value:?} is not allowed: expected {allowed}")]
    BadValue {
        /// The key.
        key: &'static str,
        /// What was given.
        value: String,
        /// What it takes.
        allowed: &'static str,
    },
    /// The simulator could not be set up on this host.
    #[error("the simulator cannot get memory from this host: {0}")]
    Host(String),
}

const KEYS: &str = "kernel, cores, job_timeout_ms, gpu_mhz, seed, threads, va_bits, memory, page_size, strict, lsc, nice";

impl FromStr for Options {
    type Err = BadOption;

    fn from_str(device: &str) -> Result<Self, BadOption> {
        let mut options = Options::default();
        let rest = match device.strip_prefix("sim") {
            Some("") => return Ok(options),
            Some(rest) => rest
                .strip_prefix(':')
                .ok_or_else(|| BadOption::NotSim(device.into()))?,
            None => return Err(BadOption::NotSim(device.into())),
        };
        for part in rest.split(',').filter(|part| !part.is_empty()) {
            let (key, value) = part
                .split_once('=')
                .ok_or_else(|| BadOption::NoValue(part.into()))?;
            options.set(key, value)?;
        }
        Ok(options)
    }
}

impl Options {
    /// What must lie between a job's writes and another job's reads: `lsc`, or what `strict` implies.
    #[must_use]
    pub fn lsc_rule(&self) -> LscRule {
        LscRule::chosen(self.lsc, self.strict)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), BadOption> {
        let bad = |key, allowed| BadOption::BadValue {
            key,
            value: value.into(),
            allowed,
        };
        match key {
            "kernel" => {
                self.kernel = match value {
                    "6.12" => Kernel::V6_12,
                    "7.2" => Kernel::V7_2,
                    "7.3" => Kernel::V7_3,
                    _ => return Err(bad("kernel", "6.12, 7.2 or 7.3")),
                }
            }
            "cores" => {
                self.cores = number(value, 1, 16).ok_or_else(|| bad("cores", "1 to 16"))? as u32;
            }
            "job_timeout_ms" => {
                self.job_timeout_ms = number(value, 1, 3_600_000)
                    .ok_or_else(|| bad("job_timeout_ms", "1 to 3600000"))?;
            }
            "gpu_mhz" => {
                self.gpu_mhz = value
                    .parse()
                    .ok()
                    .filter(|mhz: &f64| (0.001..=100_000.0).contains(mhz))
                    .ok_or_else(|| bad("gpu_mhz", "a number from 0.001 to 100000"))?;
            }
            "seed" => {
                self.seed = value
                    .parse()
                    .map_err(|_| bad("seed", "0 to 18446744073709551615"))?
            }
            "threads" => {
                self.threads =
                    number(value, 1, 256).ok_or_else(|| bad("threads", "1 to 256"))? as usize;
            }
            "va_bits" => {
                self.va_bits =
                    number(value, 32, 48).ok_or_else(|| bad("va_bits", "32 to 48"))? as u32;
            }
            "memory" => {
                self.memory_mib = number(value, 1, 1 << 24)
                    .ok_or_else(|| bad("memory", "1 to 16777216 (MiB)"))?;
            }
            "page_size" => {
                self.page_size = match value {
                    "4096" => 4096,
                    "16384" => 16384,
                    "65536" => 65536,
                    _ => return Err(bad("page_size", "4096, 16384 or 65536")),
                }
            }
            "strict" => self.strict = switch(value).ok_or_else(|| bad("strict", "0 or 1"))?,
            "lsc" => {
                self.lsc = Some(
                    LscRule::from_name(value)
                        .ok_or_else(|| bad("lsc", "flushed, private or coherent"))?,
                );
            }
            "nice" => self.nice = switch(value).ok_or_else(|| bad("nice", "0 or 1"))?,
            _ => return Err(BadOption::UnknownKey(key.into())),
        }
        Ok(())
    }
}

/// A number from `min` to `max`.
pub(crate) fn number(value: &str, min: u64, max: u64) -> Option<u64> {
    value.parse().ok().filter(|n| (min..=max).contains(n))
}

/// `0` or `1`.
pub(crate) fn switch(value: &str) -> Option<bool> {
    match value {
        "0" => Some(false),
        "1" => Some(true),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_every_key() {
        let text = "sim:kernel=6.12,cores=2,job_timeout_ms=7,gpu_mhz=0.2,seed=9,threads=3,va_bits=40,memory=64,\
                    page_size=65536,strict=0,lsc=private,nice=1";
        let options: Options = text.parse().unwrap();
        let expected = Options {
            kernel: Kernel::V6_12,
            cores: 2,
            job_timeout_ms: 7,
            gpu_mhz: 0.2,
            seed: 9,
            threads: 3,
            va_bits: 40,
            memory_mib: 64,
            page_size: 65536,
            strict: false,
            lsc: Some(LscRule::Private),
            nice: true,
        };
        assert_eq!(options, expected);
        assert_eq!("sim".parse::<Options>().unwrap(), Options::default());
        assert_eq!("sim:".parse::<Options>().unwrap(), Options::default());
    }

    #[test]
    fn the_rule_between_jobs_is_given_or_follows_from_strict() {
        for (text, rule) in [
            ("sim", LscRule::Flushed),
            ("sim:strict=0", LscRule::Coherent),
            ("sim:lsc=coherent", LscRule::Coherent),
            ("sim:lsc=private", LscRule::Private),
            ("sim:lsc=flushed,strict=0", LscRule::Flushed),
            ("sim:strict=0,lsc=private", LscRule::Private),
        ] {
            assert_eq!(text.parse::<Options>().unwrap().lsc_rule(), rule, "{text}");
        }
    }

    #[test]
    fn refuses_in_one_line_that_names_the_key() {
        for (text, part) in [
            (
                "sim:cores=17",
                "cores=\"17\" is not allowed: expected 1 to 16",
            ),
            ("sim:kernel=6.6", "expected 6.12, 7.2 or 7.3"),
            ("sim:colour=red", "unknown simulator option \"colour\""),
            ("sim:cores", "\"cores\" has no value"),
            ("simulator", "no simulator"),
            ("/dev/dri/renderD128", "no simulator"),
            ("sim:gpu_mhz=nan", "0.001 to 100000"),
            (
                "sim:lsc=shared",
                "lsc=\"shared\" is not allowed: expected flushed, private or coherent",
            ),
            ("sim:page_size=8192", "4096, 16384 or 65536"),
        ] {
            let message = text.parse::<Options>().unwrap_err().to_string();
            assert!(message.contains(part), "{message}");
            assert!(!message.contains('\n'), "{message}");
        }
    }
}
