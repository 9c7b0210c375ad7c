//! The programs that a build runs.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::BuildError;
use crate::process::{Interrupt, Run};

/// Programs that a kernel's build runs, and the Debian packages that have them.
const TOOLS: [(&str, &str); 9] = [
    ("gcc", "gcc"),
    ("ld", "binutils"),
    ("make", "make"),
    ("flex", "flex"),
    ("bison", "bison"),
    ("bc", "bc"),
    ("perl", "perl"),
    ("tar", "tar"),
    ("xz", "xz-utils"),
];

/// Whether all of [`TOOLS`] and the C library's headers are here.
///
/// # Errors
/// [`BuildError::Tools`] with all that is missing.
pub fn check_tools() -> Result<(), BuildError> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = |program: &str| {
        use std::os::unix::fs::PermissionsExt;
        std::env::split_paths(&path).any(|directory| {
            fs::metadata(directory.join(program))
                .is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
        })
    };
    let mut missing: Vec<(&str, &str)> = TOOLS
        .iter()
        .filter(|(program, _)| !found(program))
        .copied()
        .collect();
    if !Path::new("/usr/include/stdio.h").is_file() {
        missing.push(("stdio.h", "libc6-dev"));
    }
    if missing.is_empty() {
        return Ok(());
    }
    let (programs, packages) = missing.into_iter().unzip();
    Err(BuildError::Tools { programs, packages })
}

/// The first line that gcc says of itself.
pub(super) fn toolchain(interrupt: &Interrupt) -> Result<String, BuildError> {
    let mut gcc = Command::new("gcc");
    gcc.arg("--version").env("LC_ALL", "C");
    let output = Run::new(gcc).captured(interrupt)?;
    Ok(output.text.lines().next().unwrap_or_default().to_owned())
}
