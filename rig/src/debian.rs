//! Debian's kernel sources, fetched with apt from the mirror that this machine already uses.
//!
//! apt gets a list of suites, caches and state of its own in a temporary directory; no system file changes and no
//! privilege is needed. Signatures are checked against Debian's archive keyring.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use thiserror::Error;

use crate::process::{Interrupt, ProcessError, Run};
use crate::source::{DESCRIBED_ONLY, NOT_NEEDED};

/// The suites that are searched; together they have every kernel that [`VERSIONS`] names.
const SUITES: [&str; 3] = ["trixie", "trixie-backports", "sid"];

/// The versions that Debian has.
pub const VERSIONS: [&str; 3] = ["6.12", "7.2", "7.3"];

/// Debian's keys (package `debian-archive-keyring`).
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Machines whose code need not be unpacked.
const OTHER_MACHINES: [&str; 19] = [
    "alpha",
    "arc",
    "arm",
    "arm64",
    "csky",
    "hexagon",
    "loongarch",
    "m68k",
    "microblaze",
    "mips",
    "nios2",
    "openrisc",
    "parisc",
    "powerpc",
    "riscv",
    "s390",
    "sh",
    "sparc",
    "xtensa",
];

/// Why a source could not be fetched.
#[derive(Debug, Error)]
pub enum DebianError {
    /// Not a Debian machine, or one without what is needed.
    #[error(
        "cannot fetch Debian's kernel source here: {reason}; unpack a kernel's source and use --source DIR --name NAME"
    )]
    NotHere {
        /// What is missing.
        reason: String,
    },
    /// A program failed.
    #[error("{what}: {source}")]
    Process {
        /// What it was to do.
        what: &'static str,
        /// How it ended.
        source: ProcessError,
    },
    /// The suites have no such package.
    #[error("{package} is in none of the suites {}; use --source DIR --name NAME", SUITES.join(", "))]
    NoPackage {
        /// Its name.
        package: String,
    },
    /// The package has another layout than all before.
    #[error("{package} does not have the source archive that was expected in it")]
    NoArchive {
        /// Its name.
        package: String,
    },
    /// A file could not be read or written.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
}

/// apt with lists of its own: one for all the versions that one run fetches.
#[derive(Debug)]
pub struct Apt {
    directory: tempfile::TempDir,
    mirror: String,
}

/// A package that was fetched.
#[derive(Debug)]
pub struct Package {
    /// `linux-source-7.2`.
    pub name: String,
    /// Its version, as `7.2.13-1`.
    pub version: String,
    file: PathBuf,
}

impl Apt {
    /// Reads the lists of Debian's suites (some 30 MB). Temporary files go below `directory`.
    ///
    /// # Errors
    /// [`DebianError`].
    pub fn open(directory: &Path, interrupt: &Interrupt) -> Result<Self, DebianError> {
        let mirror = mirror(Path::new("/"))?;
        let directory = tempfile::Builder::new()
            .prefix(".apt-")
            .tempdir_in(directory)
            .map_err(|source| DebianError::Io {
                path: directory.to_owned(),
                source,
            })?;
        let write = |name: &str, text: &str| {
            let path = directory.path().join(name);
            fs::write(&path, text).map_err(|source| DebianError::Io { path, source })
        };
        for name in ["lists/partial", "cache/archives/partial", "log", "parts"] {
            let path = directory.path().join(name);
            fs::create_dir_all(&path).map_err(|source| DebianError::Io { path, source })?;
        }
        let lists: String = SUITES
            .iter()
            .map(|suite| format!("deb [signed-by={KEYRING}] {mirror} {suite} main\n"))
            .collect();
        write("sources.list", &lists)?;
        write("status", "")?;
        let apt = Self { directory, mirror };
        apt.run(
            "reading Debian's package lists",
            "apt-get",
            &["-qq", "update"],
            interrupt,
        )?;
        Ok(apt)
    }

    /// Fetches the source package of a version: one of [`VERSIONS`], or any other that Debian comes to have.
    ///
    /// # Errors
    /// [`DebianError`].
    pub fn fetch(&self, version: &str, interrupt: &Interrupt) -> Result<Package, DebianError> {
        let name = format!("linux-source-{version}");
        // Succeeds without a word where there is no such package.
        let policy = self.run(
            "looking for the kernel's source",
            "apt-cache",
            &["policy", &name],
            interrupt,
        )?;
        let candidate = policy
            .lines()
            .find_map(|line| line.trim().strip_prefix("Candidate: "))
            .filter(|candidate| *candidate != "(none)")
            .ok_or_else(|| DebianError::NoPackage {
                package: name.clone(),
            })?
            .to_owned();
        self.run(
            "fetching the kernel's source",
            "apt-get",
            &["-qq", "download", &name],
            interrupt,
        )?;
        let directory = self.directory.path();
        let entries = fs::read_dir(directory).map_err(|source| DebianError::Io {
            path: directory.to_owned(),
            source,
        })?;
        let prefix = format!("{name}_");
        let file = entries
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .find(|file| file.starts_with(&prefix) && file.ends_with(".deb"))
            .ok_or_else(|| DebianError::NoArchive {
                package: name.clone(),
            })?;
        Ok(Package {
            name,
            version: candidate,
            file: directory.join(file),
        })
    }

    fn run(
        &self,
        what: &'static str,
        program: &str,
        arguments: &[&str],
        interrupt: &Interrupt,
    ) -> Result<String, DebianError> {
        let path = |name: &str| self.directory.path().join(name).display().to_string();
        let options = [
            format!("Dir::Etc::SourceList={}", path("sources.list")),
            format!("Dir::Etc::SourceParts={}", path("parts")),
            format!("Dir::State::Lists={}", path("lists")),
            format!("Dir::State::Status={}", path("status")),
            format!("Dir::Cache={}", path("cache")),
            format!("Dir::Log={}", path("log")),
            "Acquire::Languages=none".to_owned(),
            "Acquire::Retries=2".to_owned(),
            "APT::Sandbox::User=root".to_owned(),
            "Debug::NoLocking=1".to_owned(),
        ];
        let mut command = Command::new(program);
        for option in &options {
            command.arg("-o").arg(option);
        }
        command
            .args(arguments)
            .current_dir(self.directory.path())
            .env("LC_ALL", "C")
            .env("DEBIAN_FRONTEND", "noninteractive");
        let output = Run::new(command)
            .captured(interrupt)
            .map_err(|source| DebianError::Process { what, source })?;
        if output.success {
            return Ok(output.text);
        }
        Err(DebianError::Process {
            what,
            source: ProcessError::Failed {
                program: program.to_owned(),
                status: output.status,
                last: without_host(&last_lines(&output.text, 4), &self.mirror),
            },
        })
    }
}

impl Package {
    /// Unpacks what a build needs into an empty directory.
    ///
    /// # Errors
    /// [`DebianError`].
    pub fn unpack(&self, to: &Path, interrupt: &Interrupt) -> Result<(), DebianError> {
        let what = "unpacking the kernel's source";
        let process = |source| DebianError::Process { what, source };
        let directory = tempfile::Builder::new()
            .prefix(".deb-")
            .tempdir_in(to.parent().unwrap_or(to))
            .map_err(|source| DebianError::Io {
                path: to.to_owned(),
                source,
            })?;
        let mut extract = Command::new("dpkg-deb");
        extract.arg("-x").arg(&self.file).arg(directory.path());
        Run::new(extract).succeeds(interrupt).map_err(process)?;
        let archive = directory
            .path()
            .join(format!("usr/src/{}.tar.xz", self.name));
        if !archive.is_file() {
            return Err(DebianError::NoArchive {
                package: self.name.clone(),
            });
        }
        let mut tar = Command::new("tar");
        tar.args([
            "-x",
            "--xz",
            "--strip-components=1",
            "--no-same-owner",
            "-C",
        ])
        .arg(to)
        .arg("-f")
        .arg(&archive)
        .args(exclusions(&self.name))
        .stdin(Stdio::null());
        Run::new(tar).succeeds(interrupt).map_err(process)
    }
}

/// tar's options for (most of) what [`crate::source`] does not copy either.
fn exclusions(root: &str) -> Vec<String> {
    let mut options = vec!["--anchored".to_owned(), "--wildcards".to_owned()];
    let mut exclude = |pattern: String| options.push(format!("--exclude={root}/{pattern}"));
    for path in NOT_NEEDED {
        exclude(path.to_owned());
    }
    for path in DESCRIBED_ONLY {
        for ending in ["c", "h", "S", "rst", "yaml", "dts", "txt", "svg", "json"] {
            exclude(format!("{path}/*.{ending}"));
        }
    }
    for machine in OTHER_MACHINES {
        for ending in ["c", "h", "S", "dts", "dtsi", "dtso", "sh"] {
            exclude(format!("arch/{machine}/*.{ending}"));
        }
    }
    exclude("tools/testing".to_owned());
    exclude("tools/perf".to_owned());
    options
}

/// The mirror of this machine's own apt configuration (below `root`).
fn mirror(root: &Path) -> Result<String, DebianError> {
    let not_here = |reason: &str| DebianError::NotHere {
        reason: reason.to_owned(),
    };
    let system = fs::read_to_string(root.join("etc/os-release")).unwrap_or_default();
    let field = |name: &str| {
        system.lines().find_map(|line| {
            let value = line.strip_prefix(name)?.strip_prefix('=')?;
            Some(value.trim_matches('"').to_owned())
        })
    };
    if field("ID").as_deref() != Some("debian") {
        let name = field("PRETTY_NAME").unwrap_or_else(|| "another system".to_owned());
        return Err(not_here(&format!(
            "this is {name}, and only Debian has its mirrors and keys"
        )));
    }
    if !root.join(KEYRING.trim_start_matches('/')).is_file() {
        return Err(not_here(&format!(
            "{KEYRING} is missing (apt install debian-archive-keyring)"
        )));
    }
    let apt = root.join("etc/apt");
    let mut files: Vec<PathBuf> = fs::read_dir(apt.join("sources.list.d"))
        .map(|entries| entries.filter_map(|e| Some(e.ok()?.path())).collect())
        .unwrap_or_default();
    files.sort();
    files.push(apt.join("sources.list"));
    files
        .iter()
        .find_map(|path| {
            let text = fs::read_to_string(path).ok()?;
            match path.extension()?.to_str()? {
                "sources" => mirror_of_stanzas(&text),
                "list" => mirror_of_lines(&text),
                _ => None,
            }
        })
        .ok_or_else(|| {
            not_here("apt's configuration names no http mirror of Debian's main archive")
        })
}

/// Whether the URI can be that of Debian's main archive.
fn is_main_archive(uri: &str) -> bool {
    let http = uri.starts_with("http://") || uri.starts_with("https://");
    http && !uri.contains("security") && uri.trim_end_matches('/').ends_with("/debian")
}

/// From a `.sources` file (deb822).
fn mirror_of_stanzas(text: &str) -> Option<String> {
    text.split("\n\n").find_map(|stanza| {
        let field = |name: &str| {
            stanza.lines().find_map(|line| {
                let (key, value) = line.split_once(':')?;
                key.eq_ignore_ascii_case(name).then(|| value.trim())
            })
        };
        if field("Enabled").is_some_and(|v| v.eq_ignore_ascii_case("no")) {
            return None;
        }
        let mut uris = field("URIs")?.split_whitespace();
        uris.find(|uri| is_main_archive(uri)).map(str::to_owned)
    })
}

/// From a `.list` file (one line each).
fn mirror_of_lines(text: &str) -> Option<String> {
    text.lines()
        .filter(|line| line.split_whitespace().next() == Some("deb"))
        .find_map(|line| line.split_whitespace().find(|word| is_main_archive(word)))
        .map(str::to_owned)
}

/// The last lines with something in them, as one.
fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|l| !l.is_empty())
        .collect();
    lines[lines.len().saturating_sub(count)..].join("; ")
}

/// Where a machine gets its packages from is its owner's business: not for logs that travel.
fn without_host(text: &str, mirror: &str) -> String {
    let host = mirror
        .split("//")
        .nth(1)
        .and_then(|rest| rest.split('/').next())
        .unwrap_or_default();
    let name = host.rsplit('@').next().unwrap_or(host);
    let name = name.split(':').next().unwrap_or(name);
    let mut text = text.to_owned();
    for secret in [mirror, host, name] {
        if !secret.is_empty() {
            text = text.replace(secret, "MIRROR");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().expect("temporary directory");
        for (file, text) in files {
            let path = dir.path().join(file);
            fs::create_dir_all(path.parent().expect("has a parent")).expect("directory");
            fs::write(path, text).expect("file");
        }
        dir
    }

    const DEBIAN: (&str, &str) = (
        "etc/os-release",
        "PRETTY_NAME=\"Debian GNU/Linux 13 (trixie)\"\nID=debian\n",
    );
    const KEYS: (&str, &str) = ("usr/share/keyrings/debian-archive-keyring.gpg", "");

    #[test]
    fn the_mirror_is_that_of_the_machines_own_configuration() {
        let stanzas = "Types: deb\nURIs: http://security.example.org/debian-security\nSuites: x\n\nTypes: deb\nEnabled: no\nURIs: http://off.example.org/debian\n\nTypes: deb\nURIs: http://mirror.example.org/debian\nSuites: trixie trixie-updates\n";
        let dir = machine(&[
            DEBIAN,
            KEYS,
            ("etc/apt/sources.list.d/debian.sources", stanzas),
        ]);
        assert_eq!(
            mirror(dir.path()).expect("a mirror"),
            "http://mirror.example.org/debian"
        );

        let lines = "# deb http://no.example.org/debian x main\ndeb-src http://src.example.org/debian x main\ndeb [arch=amd64] https://old.example.org/debian/ trixie main\n";
        let dir = machine(&[DEBIAN, KEYS, ("etc/apt/sources.list", lines)]);
        assert_eq!(
            mirror(dir.path()).expect("a mirror"),
            "https://old.example.org/debian/"
        );
    }

    #[test]
    fn a_machine_that_cannot_fetch_is_told_why_and_what_to_do() {
        let refused = |files: &[(&str, &str)]| {
            mirror(machine(files).path())
                .expect_err("no mirror")
                .to_string()
        };
        assert_eq!(
            refused(&[(
                "etc/os-release",
                "ID=ubuntu\nPRETTY_NAME=\"Ubuntu 24.04.1 LTS\"\n"
            )]),
            "cannot fetch Debian's kernel source here: this is Ubuntu 24.04.1 LTS, and only Debian has its mirrors and keys; \
             unpack a kernel's source and use --source DIR --name NAME"
        );
        assert!(refused(&[DEBIAN]).contains("debian-archive-keyring.gpg is missing (apt install"));
        assert!(
            refused(&[
                DEBIAN,
                KEYS,
                ("etc/apt/sources.list", "deb cdrom:[x]/ trixie main\n")
            ])
            .contains("names no http mirror")
        );
    }

    #[test]
    fn no_message_names_the_mirror() {
        let text =
            "Err: http://user:pw@m.example.org:81/debian sid; Could not resolve 'm.example.org'";
        assert_eq!(
            without_host(text, "http://user:pw@m.example.org:81/debian"),
            "Err: MIRROR sid; Could not resolve 'MIRROR'"
        );
    }
}
