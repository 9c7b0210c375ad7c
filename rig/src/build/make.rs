//! make in a kernel's tree.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{BuildError, Progress, Request, append, io_error};
use crate::cache::Flavour;
use crate::process::{self, Interrupt, Run};
use crate::source::Release;
use crate::{config, edit};

/// Objects that a build of one binary compiles, about (7.2: 680): for progress only.
const TYPICAL_OBJECTS: u64 = 680;

/// Lines of make's that an error quotes, at most.
const MAX_ERRORS: usize = 4;

/// make in one tree, for one binary after another.
pub(super) struct Make<'a> {
    pub(super) tree: &'a Path,
    pub(super) objects: PathBuf,
    pub(super) log_path: PathBuf,
    pub(super) kept_log: PathBuf,
    pub(super) release: &'a Release,
    pub(super) request: &'a Request,
    pub(super) interrupt: &'a Interrupt,
}

impl Make<'_> {
    /// Whether User Mode Linux of this version can have several CPUs.
    pub(super) fn has_smp(&self) -> bool {
        fs::read_to_string(self.tree.join("arch/um/Kconfig"))
            .is_ok_and(|text| text.contains("UML_SUBARCH_SUPPORTS_SMP"))
    }

    pub(super) fn configure(&mut self, flavour: Flavour) -> Result<(), BuildError> {
        fs::create_dir_all(&self.objects).map_err(|e| io_error(&self.objects, e))?;
        let fragment = self.objects.join("rig.config");
        let text = config::all(
            self.request.variant,
            flavour,
            edit::has_fixed_fp_size(self.tree),
        );
        fs::write(&fragment, text).map_err(|e| io_error(&fragment, e))?;
        let setting = format!("KCONFIG_ALLCONFIG={}", fragment.display());
        self.run("allnoconfig", &[&setting], &mut |_| {})?;
        let path = self.objects.join(".config");
        let config = fs::read_to_string(&path).map_err(|e| io_error(&path, e))?;
        let wanted = config::essential(self.request.variant, flavour);
        let options = config::missing(&config, &wanted);
        if options.is_empty() {
            return Ok(());
        }
        append(&self.log_path, &config)?;
        Err(BuildError::Config {
            release: self.release.text.clone(),
            options,
            log: self.keep_log()?,
        })
    }

    pub(super) fn compile(
        &mut self,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<(), BuildError> {
        let mut done = 0;
        let mut of = TYPICAL_OBJECTS;
        self.run("linux", &[], &mut |line| {
            // make says "  CC      kernel/fork.o".
            let mut words = line.split_whitespace();
            if matches!(words.next(), Some("CC" | "AS" | "HOSTCC")) {
                done += 1;
                of = of.max(done);
                progress(Progress::Objects { done, of });
            }
        })
    }

    fn run(
        &mut self,
        target: &'static str,
        settings: &[&str],
        line: &mut dyn FnMut(&str),
    ) -> Result<(), BuildError> {
        let jobs = self.request.jobs.unwrap_or_else(|| {
            std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
        });
        let mut command = Command::new("make");
        command
            .arg("-C")
            .arg(self.tree)
            .arg("ARCH=um")
            .arg(format!("O={}", self.objects.display()))
            .arg(format!("-j{jobs}"))
            .args(settings)
            .arg(target)
            .env("LC_ALL", "C")
            // What would make two builds of one source differ.
            .env("KBUILD_BUILD_USER", "rig")
            .env("KBUILD_BUILD_HOST", "rig")
            .env("KBUILD_BUILD_TIMESTAMP", "Thu Jan  1 00:00:00 UTC 1970")
            .env("KBUILD_BUILD_VERSION", "1");
        // What the caller's own make, or kernel building, may have left in the environment.
        for name in [
            "MAKEFLAGS",
            "MFLAGS",
            "MAKELEVEL",
            "GNUMAKEFLAGS",
            "ARCH",
            "SUBARCH",
            "CROSS_COMPILE",
            "LLVM",
            "KBUILD_OUTPUT",
            "KCFLAGS",
            "KCPPFLAGS",
            "KAFLAGS",
            "KCONFIG_CONFIG",
            "V",
            "W",
            "C",
        ] {
            command.env_remove(name);
        }
        let mut log = fs::File::options()
            .create(true)
            .append(true)
            .open(&self.log_path)
            .map_err(|e| io_error(&self.log_path, e))?;
        let mut wrong = Vec::new();
        let mut before = String::new();
        let mut written = Ok(());
        let status = Run::new(command).lines(self.interrupt, &mut |text| {
            if written.is_ok() {
                written = writeln!(log, "{text}");
            }
            if is_error(text) && wrong.len() < MAX_ERRORS {
                // make's own errors only say where: what went wrong stands before them.
                if wrong.is_empty() && text.contains("*** ") {
                    wrong.push(before.trim().to_owned());
                }
                wrong.push(text.trim().to_owned());
            }
            before = text.to_owned();
            line(text);
        })?;
        written.map_err(|e| io_error(&self.log_path, e))?;
        if status.success() {
            return Ok(());
        }
        Err(BuildError::Make {
            target,
            release: self.release.text.clone(),
            status: process::in_words(status),
            last: if wrong.is_empty() {
                "it did not say why".to_owned()
            } else {
                wrong.join("; ")
            },
            log: self.keep_log()?,
        })
    }

    fn keep_log(&self) -> Result<PathBuf, BuildError> {
        fs::copy(&self.log_path, &self.kept_log).map_err(|e| io_error(&self.kept_log, e))?;
        Ok(self.kept_log.clone())
    }
}

/// Whether a line of make's says what is wrong.
fn is_error(line: &str) -> bool {
    line.contains("error: ")
        || line.contains("Error: ")
        || line.contains("*** ")
        || line.contains("undefined reference")
        || line.contains("No space left on device")
        || line.contains("cannot execute")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_told_from_other_lines() {
        assert!(is_error("arch/um/x.c:3:5: error: unknown type name 'foo'"));
        assert!(is_error(
            "make[2]: *** [scripts/Makefile.build:289: x.o] Error 1"
        ));
        assert!(is_error("fatal error: stdio.h: No such file or directory"));
        assert!(!is_error("  CC      drivers/base/error.o"));
        assert!(!is_error("x.c:1:1: warning: unused"));
    }
}
