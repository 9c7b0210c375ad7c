//! `--device rig[:KEY=VALUE,…]`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use super::error::MachineError;
use super::memory;
use super::model::Hardware;
use crate::cache::{self, Flavour, Selector, Variant};

/// How long the machine may take from its start to the command's, on the wall clock, unless told otherwise. A plain kernel
/// takes half a second; one with every check on, on a loaded machine, takes many.
const BOOT_TIMEOUT: Duration = Duration::from_secs(60);
/// CPUs of an SMP machine: `CONFIG_NR_CPUS` of its configuration, and as many as an RK3588 has in one cluster.
const CPUS: u32 = 4;

/// The keys that concern the machine; those of the GPU are [`Hardware::KEYS`].
const KEYS: &str =
    "kernel, name, variant, smp, cpus, clock, memory, user, boot_timeout, log, trace, seccomp";

/// As whom the command runs inside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum User {
    /// The caller's user, group and groups, without any capability. Also root keeps his number, so that he can read
    /// and write his files as ever, but the driver sees nobody privileged.
    #[default]
    Caller,
    /// Root with every capability.
    Root,
    /// This user and group, without any capability and further groups.
    Number(u32),
}

/// What the rig is like: the string after `--device`.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// `kernel=6.12|7.2|7.3`, `name=NAME` and `variant=plain|debug|gcov`.
    pub kernel: Selector,
    /// `smp`: several CPUs on the wall clock instead of one on a virtual clock.
    pub smp: bool,
    /// `cpus=1..4`, with `smp`.
    pub cpus: u32,
    /// `clock=virtual|wall`: with one CPU; several always have the wall clock. None: virtual, but for a shell.
    pub wall_clock: Option<bool>,
    /// `memory=MIB`.
    pub memory_mib: u32,
    /// `user=caller|root|NUMBER`.
    pub user: User,
    /// `boot_timeout=SECONDS`, of wall time.
    pub boot_timeout: Duration,
    /// `log=FILE`: where the kernel's log goes as well.
    pub log: Option<PathBuf>,
    /// `trace=FILE`: where the model writes each register access.
    pub trace: Option<PathBuf>,
    /// `seccomp=0|1`: how User Mode Linux catches system calls on 7.x (6.12 knows only ptrace). None: by ptrace with one
    /// CPU; several need seccomp.
    pub seccomp: Option<bool>,
    /// What concerns the GPU.
    pub hardware: Hardware,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            kernel: Selector::default(),
            smp: false,
            cpus: CPUS,
            wall_clock: None,
            memory_mib: memory::DEFAULT_MIB,
            user: User::Caller,
            boot_timeout: BOOT_TIMEOUT,
            log: None,
            trace: None,
            seccomp: None,
            hardware: Hardware::default(),
        }
    }
}

impl Options {
    /// Whether a `--device` string means the rig.
    pub fn is_meant(device: &str) -> bool {
        device == "rig" || device.starts_with("rig:")
    }

    /// Which of the kernel's binaries.
    pub fn flavour(&self) -> Flavour {
        if self.smp {
            Flavour::Smp
        } else {
            Flavour::TimeTravel
        }
    }

    /// Whether time inside is the host's.
    pub fn on_wall_clock(&self) -> bool {
        self.smp || self.wall_clock == Some(true)
    }

    fn set(&mut self, key: &str, value: Option<&str>) -> Result<(), String> {
        if Hardware::has_key(key) {
            let value = value.ok_or_else(|| format!("rig option {key:?} has no value"))?;
            return self.hardware.set(key, value).map_err(|e| e.to_string());
        }
        if key == "smp" && value.is_none() {
            self.smp = true;
            return Ok(());
        }
        if !KEYS.split(", ").any(|known| known == key) {
            return Err(format!(
                "unknown rig option {key:?}: expected one of {KEYS}, {}",
                Hardware::KEYS
            ));
        }
        let value = value
            .ok_or_else(|| format!("rig option {key:?} has no value: expected {key}=VALUE"))?;
        let bad = |allowed: &str| {
            format!("rig option {key}={value:?} is not allowed: expected {allowed}")
        };
        let file = || match value {
            "" => Err(bad("a file's name, without comma")),
            name => Ok(Some(PathBuf::from(name))),
        };
        match key {
            "kernel" | "name" => {
                cache::check_name(value).map_err(|e| e.to_string())?;
                if key == "kernel" && !["6.12", "7.2", "7.3"].contains(&value) {
                    return Err(bad("6.12, 7.2 or 7.3 (a tree of your own: name=NAME)"));
                }
                if let Some(before) = self.kernel.name.replace(value.to_owned()) {
                    return Err(format!("the rig has one kernel: {before:?} or {value:?}"));
                }
            }
            "variant" => self.kernel.variant = value.parse::<Variant>()?,
            "smp" => self.smp = switch(value).ok_or_else(|| bad("0 or 1"))?,
            "cpus" => self.cpus = number(value, 1, CPUS).ok_or_else(|| bad("1 to 4"))?,
            "clock" => {
                self.wall_clock = match value {
                    "virtual" => Some(false),
                    "wall" => Some(true),
                    _ => return Err(bad("virtual or wall")),
                }
            }
            "memory" => {
                let (low, high) = (*memory::RANGE_MIB.start(), *memory::RANGE_MIB.end());
                self.memory_mib = number(value, low, high)
                    .ok_or_else(|| bad(&format!("{low} to {high} (MiB)")))?;
            }
            "user" => {
                self.user = match value {
                    "caller" => User::Caller,
                    "root" => User::Root,
                    _ => User::Number(
                        number(value, 1, u32::MAX - 1)
                            .ok_or_else(|| bad("caller, root or a user's number from 1"))?,
                    ),
                }
            }
            "boot_timeout" => {
                let seconds = number(value, 1, 86400).ok_or_else(|| bad("1 to 86400 (s)"))?;
                self.boot_timeout = Duration::from_secs(seconds.into());
            }
            "log" => self.log = file()?,
            "trace" => self.trace = file()?,
            _ => self.seccomp = Some(switch(value).ok_or_else(|| bad("0 or 1"))?),
        }
        Ok(())
    }
}

fn number(value: &str, low: u32, high: u32) -> Option<u32> {
    value.parse().ok().filter(|n| (low..=high).contains(n))
}

fn switch(value: &str) -> Option<bool> {
    match value {
        "0" => Some(false),
        "1" => Some(true),
        _ => None,
    }
}

impl FromStr for Options {
    type Err = MachineError;

    fn from_str(text: &str) -> Result<Self, MachineError> {
        let parts = match text.strip_prefix("rig") {
            Some("") => "",
            Some(rest) if rest.starts_with(':') => &rest[1..],
            _ => {
                return Err(MachineError::Options(format!(
                    "device {text:?} is no rig: expected rig or rig:KEY=VALUE,…"
                )));
            }
        };
        let mut options = Self::default();
        for part in parts.split(',').filter(|part| !part.is_empty()) {
            let (key, value) = match part.split_once('=') {
                Some((key, value)) => (key, Some(value)),
                None => (part, None),
            };
            options.set(key, value).map_err(MachineError::Options)?;
        }
        if options.smp && options.wall_clock == Some(false) {
            return Err(MachineError::Options(
                "rig option clock=virtual: several CPUs (smp) have the wall clock only".to_owned(),
            ));
        }
        if options.smp && options.seccomp == Some(false) {
            return Err(MachineError::Options(
                "rig option seccomp=0: with several CPUs (smp) User Mode Linux cannot use ptrace"
                    .to_owned(),
            ));
        }
        Ok(options)
    }
}

impl fmt::Display for Options {
    /// The machine in a few words, for messages.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.kernel.name.as_deref().unwrap_or(cache::DEFAULT_NAME);
        write!(
            f,
            "rig {}, {}",
            cache::label(name, self.kernel.variant),
            self.flavour()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_read() {
        let text = "rig:kernel=7.3,variant=debug,smp,cpus=2,memory=256,user=1000,boot_timeout=5,log=/tmp/a b,trace=t,\
                    seccomp=1,gpu_mhz=0.2,seed=3";
        let options: Options = text.parse().expect("options");
        assert_eq!(options.kernel.name.as_deref(), Some("7.3"));
        assert_eq!(options.kernel.variant, Variant::Debug);
        assert_eq!((options.smp, options.flavour()), (true, Flavour::Smp));
        assert_eq!((options.cpus, options.memory_mib), (2, 256));
        assert_eq!(options.user, User::Number(1000));
        assert_eq!(options.boot_timeout, Duration::from_secs(5));
        assert_eq!(options.log, Some("/tmp/a b".into()));
        assert_eq!(options.trace, Some("t".into()));
        assert_eq!(options.seccomp, Some(true));
        assert_eq!(options.hardware.gpu_hz(), 200_000);
        assert_eq!(
            "rig".parse::<Options>().expect("options"),
            Options::default()
        );
    }

    #[test]
    fn what_is_wrong_is_named_with_what_is_allowed() {
        for (text, words) in [
            ("rig:colour=1", ["\"colour\"", "memory, user"]),
            ("rig:memory", ["\"memory\"", "memory=VALUE"]),
            ("rig:memory=1", ["\"1\"", "128 to 65536"]),
            ("rig:kernel=6.13", ["\"6.13\"", "6.12, 7.2 or 7.3"]),
            ("rig:name=../x", ["\"../x\"", "letters"]),
            ("rig:kernel=7.2,name=mine", ["\"7.2\"", "\"mine\""]),
            ("rig:variant=fast", ["\"fast\"", "gcov"]),
            ("rig:cpus=5", ["\"5\"", "1 to 4"]),
            ("rig:clock=sun", ["\"sun\"", "virtual or wall"]),
            ("rig:smp,clock=virtual", ["clock=virtual", "smp"]),
            ("rig:smp,seccomp=0", ["seccomp=0", "ptrace"]),
            ("rig:smp=2", ["\"2\"", "0 or 1"]),
            ("rig:user=0", ["\"0\"", "root"]),
            ("rig:boot_timeout=0", ["\"0\"", "86400"]),
            ("rig:log=", ["log=", "file"]),
            ("rig:gpu_mhz=nan", ["\"nan\"", "0.001"]),
            ("rig:seed", ["\"seed\"", "no value"]),
            ("rigging", ["\"rigging\"", "rig:KEY=VALUE"]),
        ] {
            let message = text.parse::<Options>().expect_err(text).to_string();
            for word in words {
                assert!(message.contains(word), "{text}: no {word} in {message}");
            }
        }
    }
}
