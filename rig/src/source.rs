//! Kernel sources: what is a tree that can be built, and a copy of the part of it that is needed.
//!
//! Nothing is ever built in, or written into, a tree of the user's: what a User Mode Linux kernel with panthor needs of it
//! is copied (about 0.5 GB of 1.6 GB) and the copy gets the bridge. Drivers for other machines are copied without their code, since
//! configuring reads their `Kconfig` and `Makefile` all the same.

use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use sha2::{Digest, Sha256};
use thiserror::Error;

/// The oldest version that the bridge knows (panthor itself is in Linux since 6.10).
pub const OLDEST: (u32, u32) = (6, 12);

/// The newest series that the bridge was written for.
pub const NEWEST_MAJOR: u32 = 7;

/// Why a tree cannot be used.
#[derive(Debug, Error)]
pub enum SourceError {
    /// A file could not be read or written.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// The directory does not hold a kernel's source.
    #[error("{path} is no kernel source tree: {reason}")]
    NoTree {
        /// The directory.
        path: PathBuf,
        /// What is missing.
        reason: String,
    },
    /// The kernel is too old or too new.
    #[error(
        "Linux {release} is not supported: the rig builds {}.{} to {NEWEST_MAJOR}.x",
        OLDEST.0,
        OLDEST.1
    )]
    Unsupported {
        /// Its release.
        release: String,
    },
    /// A kernel without the driver.
    #[error(
        "{path} (Linux {release}) has no panthor: drivers/gpu/drm/panthor/panthor_drv.c is missing"
    )]
    NoPanthor {
        /// The directory.
        path: PathBuf,
        /// Its release.
        release: String,
    },
    /// Files changed while they were copied.
    #[error("{0} changed while it was copied; build again")]
    Changed(PathBuf),
    /// The user interrupted.
    #[error("interrupted")]
    Interrupted,
}

/// A kernel's version, from its `Makefile`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    /// `VERSION`.
    pub major: u32,
    /// `PATCHLEVEL`.
    pub minor: u32,
    /// All of it, as `7.2.13` or `7.3.0-rc1`.
    pub text: String,
}

/// The version of the tree, if it can be built: the right age, and with panthor.
///
/// # Errors
/// [`SourceError::NoTree`], [`SourceError::Unsupported`], [`SourceError::NoPanthor`].
pub fn check(tree: &Path) -> Result<Release, SourceError> {
    let no_tree = |reason: String| SourceError::NoTree {
        path: tree.to_owned(),
        reason,
    };
    let makefile =
        fs::read(tree.join("Makefile")).map_err(|e| no_tree(format!("Makefile: {e}")))?;
    let makefile = String::from_utf8_lossy(&makefile);
    let release = parse_release(&makefile)
        .ok_or_else(|| no_tree("its Makefile does not say VERSION and PATCHLEVEL".to_owned()))?;
    if (release.major, release.minor) < OLDEST || release.major > NEWEST_MAJOR {
        return Err(SourceError::Unsupported {
            release: release.text,
        });
    }
    if !tree.join("arch/um/Kconfig").is_file() {
        return Err(no_tree("arch/um/Kconfig is missing".to_owned()));
    }
    if !tree.join("drivers/gpu/drm/panthor/panthor_drv.c").is_file() {
        return Err(SourceError::NoPanthor {
            path: tree.to_owned(),
            release: release.text,
        });
    }
    Ok(release)
}

fn parse_release(makefile: &str) -> Option<Release> {
    let value = |name: &str| {
        makefile.lines().take(20).find_map(|line| {
            let rest = line.strip_prefix(name)?.trim_start();
            Some(rest.strip_prefix('=')?.trim())
        })
    };
    let (major, minor) = (
        value("VERSION")?.parse().ok()?,
        value("PATCHLEVEL")?.parse().ok()?,
    );
    let sub = value("SUBLEVEL").filter(|s| !s.is_empty());
    let extra = value("EXTRAVERSION").unwrap_or_default();
    let text = match sub {
        Some(sub) => format!("{major}.{minor}.{sub}{extra}"),
        None => format!("{major}.{minor}{extra}"),
    };
    Some(Release { major, minor, text })
}

/// Directories below which only [`is_build_description`] is needed: nothing there is ever configured.
pub(crate) const DESCRIBED_ONLY: [&str; 17] = [
    "drivers/gpu/drm/amd",
    "drivers/gpu/drm/i915",
    "drivers/gpu/drm/msm",
    "drivers/gpu/drm/nouveau",
    "drivers/gpu/drm/radeon",
    "drivers/gpu/drm/xe",
    "drivers/infiniband",
    "drivers/media",
    "drivers/net/ethernet",
    "drivers/net/wireless",
    "drivers/scsi",
    "drivers/staging",
    "drivers/usb",
    "fs/btrfs",
    "fs/xfs",
    "sound",
    "Documentation",
];

/// What is not needed at all: other machines, tests, licences' texts, and what a build in the tree left behind.
pub(crate) const NOT_NEEDED: [&str; 6] = [
    ".git",
    "LICENSES",
    "include/config",
    "include/generated",
    "samples/bpf",
    "vmlinux",
];

/// Of `arch/` these are needed; of other machines' what [`is_build_description`] says (`crypto/Kconfig` reads it).
const MACHINES: [&str; 2] = ["um", "x86"];

/// Of `tools/` this is needed, and nothing else.
const TOOLS: [&str; 4] = ["arch", "build", "include", "scripts"];

fn is_build_description(name: &str) -> bool {
    ["Kconfig", "Makefile", "Kbuild"]
        .iter()
        .any(|known| name.starts_with(known))
}

/// Whether a file left by a build, by its name.
fn is_built(name: &str) -> bool {
    let suffixes = [
        ".o", ".a", ".ko", ".cmd", ".mod", ".order", ".symvers", ".rej", ".orig", ".dtb",
    ];
    suffixes.iter().any(|s| name.ends_with(s))
}

/// Whether a path of the tree (with `/`, relative) is needed. A directory that is not is not entered.
pub(crate) fn is_needed(path: &str, directory: bool) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let below = |root: &str| {
        path.strip_prefix(root)
            .is_some_and(|rest| rest.starts_with('/'))
    };
    if NOT_NEEDED.contains(&path) || (!directory && is_built(name)) {
        return false;
    }
    // The configuration of a build in the tree, and what it generated.
    if path.starts_with(".config") || path.ends_with("/include/generated") {
        return false;
    }
    let first_below = |root: &str| {
        below(root)
            .then(|| path[root.len() + 1..].split('/').next())
            .flatten()
    };
    if let Some(tool) = first_below("tools") {
        return TOOLS.contains(&tool);
    }
    if let Some(machine) = first_below("arch") {
        return directory || MACHINES.contains(&machine) || is_build_description(name);
    }
    directory || !DESCRIBED_ONLY.iter().any(|root| below(root)) || is_build_description(name)
}

/// What a walk over a tree came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    /// SHA-256 over the names and contents of the needed files, in hexadecimal.
    pub digest: String,
    /// Their number.
    pub files: u64,
    /// Their size in bytes.
    pub bytes: u64,
}

/// The digest of what is needed of a tree.
///
/// # Errors
/// [`SourceError::Io`], [`SourceError::Interrupted`].
pub fn digest(tree: &Path, interrupted: &AtomicBool) -> Result<Content, SourceError> {
    walk(tree, None, interrupted)
}

/// Copies what is needed of a tree into an empty directory.
///
/// # Errors
/// [`SourceError::Io`], [`SourceError::Interrupted`].
pub fn copy(tree: &Path, to: &Path, interrupted: &AtomicBool) -> Result<Content, SourceError> {
    walk(tree, Some(to), interrupted)
}

fn walk(tree: &Path, to: Option<&Path>, interrupted: &AtomicBool) -> Result<Content, SourceError> {
    let mut walk = Walk {
        tree,
        to,
        interrupted,
        hash: Sha256::new(),
        content: Content {
            digest: String::new(),
            files: 0,
            bytes: 0,
        },
        buffer: vec![0; 1 << 20],
    };
    walk.directory("")?;
    walk.content.digest = hexadecimal(&walk.hash.finalize());
    Ok(walk.content)
}

/// Bytes as lower-case hexadecimal digits.
pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

struct Walk<'a> {
    tree: &'a Path,
    to: Option<&'a Path>,
    interrupted: &'a AtomicBool,
    hash: Sha256,
    content: Content,
    buffer: Vec<u8>,
}

impl Walk<'_> {
    /// One directory, by its path in the tree ("" is the tree), its entries in order of their names.
    fn directory(&mut self, path: &str) -> Result<(), SourceError> {
        if self.interrupted.load(Ordering::Relaxed) {
            return Err(SourceError::Interrupted);
        }
        let full = self.tree.join(path);
        let io = |source| SourceError::Io {
            path: full.clone(),
            source,
        };
        if let Some(to) = self.to {
            let made = to.join(path);
            fs::create_dir_all(&made).map_err(|source| SourceError::Io { path: made, source })?;
        }
        let mut entries = Vec::new();
        for entry in fs::read_dir(&full).map_err(io)? {
            let entry = entry.map_err(io)?;
            // A name that is no text belongs to no kernel.
            if let Ok(name) = entry.file_name().into_string() {
                entries.push((name, entry.file_type().map_err(io)?));
            }
        }
        entries.sort_by(|a, b| a.0.cmp(&b.0));
        for (name, kind) in entries {
            let child = if path.is_empty() {
                name
            } else {
                format!("{path}/{name}")
            };
            if !is_needed(&child, kind.is_dir()) {
                continue;
            }
            if kind.is_dir() {
                self.directory(&child)?;
            } else if kind.is_symlink() {
                self.link(&child)?;
            } else if kind.is_file() {
                self.file(&child)?;
            }
        }
        Ok(())
    }

    fn link(&mut self, path: &str) -> Result<(), SourceError> {
        let full = self.tree.join(path);
        let io = |source| SourceError::Io {
            path: full.clone(),
            source,
        };
        let target = fs::read_link(&full).map_err(io)?;
        self.begin(b'l', path, target.as_os_str().len() as u64);
        self.hash.update(target.as_os_str().as_bytes());
        if let Some(to) = self.to {
            std::os::unix::fs::symlink(&target, to.join(path)).map_err(io)?;
        }
        Ok(())
    }

    fn file(&mut self, path: &str) -> Result<(), SourceError> {
        let full = self.tree.join(path);
        let io = |source| SourceError::Io {
            path: full.clone(),
            source,
        };
        let mut from = fs::File::open(&full).map_err(io)?;
        let metadata = from.metadata().map_err(io)?;
        let mut to = match self.to {
            Some(to) => {
                let path = to.join(path);
                let file = fs::File::create(&path).map_err(|source| SourceError::Io {
                    path: path.clone(),
                    source,
                })?;
                // Scripts must stay executable.
                file.set_permissions(metadata.permissions())
                    .map_err(|source| SourceError::Io {
                        path: path.clone(),
                        source,
                    })?;
                Some((path, file))
            }
            None => None,
        };
        self.begin(b'f', path, metadata.len());
        let mut size = 0;
        loop {
            let n = match from.read(&mut self.buffer) {
                Ok(0) => break,
                Ok(n) => n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(io(e)),
            };
            size += n as u64;
            self.hash.update(&self.buffer[..n]);
            if let Some((path, to)) = &mut to {
                to.write_all(&self.buffer[..n])
                    .map_err(|source| SourceError::Io {
                        path: path.clone(),
                        source,
                    })?;
            }
        }
        if size != metadata.len() {
            return Err(SourceError::Changed(full));
        }
        self.content.bytes += size;
        Ok(())
    }

    /// What stands before an entry's bytes: their number and the name make the whole unambiguous.
    fn begin(&mut self, kind: u8, path: &str, size: u64) {
        self.content.files += 1;
        self.hash.update([kind]);
        self.hash.update((path.len() as u64).to_le_bytes());
        self.hash.update(path);
        self.hash.update(size.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static QUIET: AtomicBool = AtomicBool::new(false);

    fn tree(version: &str, panthor: bool) -> tempfile::TempDir {
        let dir = tempfile::tempdir().expect("temporary directory");
        let (major, minor) = version.split_once('.').expect("a version");
        let write = |file: &str, text: &str| {
            let path = dir.path().join(file);
            fs::create_dir_all(path.parent().expect("has a parent")).expect("directory");
            fs::write(path, text).expect("file");
        };
        write(
            "Makefile",
            &format!(
                "# SPDX\nVERSION = {major}\nPATCHLEVEL = {minor}\nSUBLEVEL = 3\nEXTRAVERSION =\n"
            ),
        );
        write("arch/um/Kconfig", "x");
        if panthor {
            write("drivers/gpu/drm/panthor/panthor_drv.c", "int x;\n");
        }
        dir
    }

    #[test]
    fn the_release_is_read_from_the_makefile() {
        let release = check(tree("7.2", true).path()).expect("a good tree");
        assert_eq!((release.major, release.minor), (7, 2));
        assert_eq!(release.text, "7.2.3");
        let text = "VERSION = 6\nPATCHLEVEL = 13\nSUBLEVEL = 0\nEXTRAVERSION = -rc4\n";
        assert_eq!(parse_release(text).expect("a release").text, "6.13.0-rc4");
        assert_eq!(parse_release("PATCHLEVEL = 1\n"), None);
    }

    #[test]
    fn trees_that_cannot_be_built_are_refused_by_name() {
        let refused = |dir: tempfile::TempDir| {
            check(dir.path())
                .expect_err("cannot be built")
                .to_string()
                .replace(&dir.path().display().to_string(), "DIR")
        };
        assert_eq!(
            refused(tree("6.11", true)),
            "Linux 6.11.3 is not supported: the rig builds 6.12 to 7.x"
        );
        assert_eq!(
            refused(tree("8.0", true)),
            "Linux 8.0.3 is not supported: the rig builds 6.12 to 7.x"
        );
        assert_eq!(
            refused(tree("6.12", false)),
            "DIR (Linux 6.12.3) has no panthor: drivers/gpu/drm/panthor/panthor_drv.c is missing"
        );
        let empty = tempfile::tempdir().expect("temporary directory");
        assert!(refused(empty).starts_with("DIR is no kernel source tree: Makefile: "));
        let dir = tree("7.3", true);
        fs::remove_file(dir.path().join("arch/um/Kconfig")).expect("remove");
        assert_eq!(
            refused(dir),
            "DIR is no kernel source tree: arch/um/Kconfig is missing"
        );
    }

    #[test]
    fn what_is_needed_is_known_by_path() {
        for needed in [
            "Makefile",
            "arch/Kconfig",
            "arch/arm/crypto/Kconfig",
            "arch/um/kernel/physmem.c",
            "arch/x86/um/ptrace.c",
            "drivers/gpu/drm/panthor/panthor_mmu.c",
            "drivers/gpu/drm/drm_edid.c",
            "drivers/net/Kconfig",
            "drivers/gpu/drm/amd/display/Kconfig",
            "Documentation/Kconfig",
            "scripts/kconfig/conf.c",
            "include/linux/sched.h",
        ] {
            assert!(is_needed(needed, false), "{needed}");
        }
        for not in [
            "arch/arm64/kernel/setup.c",
            "drivers/gpu/drm/amd/include/x.h",
            "drivers/net/ethernet/dec/tulip/eeprom.c",
            "drivers/base/core.o",
            "drivers/base/.core.o.cmd",
            ".config",
            ".config.old",
            "tools/perf/perf.c",
            "Documentation/index.rst",
        ] {
            assert!(!is_needed(not, false), "{not}");
        }
        for not in [
            ".git",
            "include/config",
            "include/generated",
            "tools/testing",
            "arch/x86/include/generated",
        ] {
            assert!(!is_needed(not, true), "{not}");
        }
        assert!(
            is_needed("arch", true) && is_needed("arch/um", true) && is_needed("drivers/net", true)
        );
    }

    #[test]
    fn a_copy_has_the_digest_of_its_original_and_every_needed_byte_counts() {
        let dir = tree("7.2", true);
        let script = dir.path().join("scripts/run");
        fs::create_dir(dir.path().join("scripts")).expect("directory");
        fs::write(&script, "#!/bin/sh\n").expect("file");
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("mode");
        std::os::unix::fs::symlink("run", dir.path().join("scripts/link")).expect("link");
        fs::write(dir.path().join("left.o"), "object").expect("file");

        let original = digest(dir.path(), &QUIET).expect("digest");
        assert_eq!(original.files, 5);
        let to = tempfile::tempdir().expect("temporary directory");
        assert_eq!(copy(dir.path(), to.path(), &QUIET).expect("copy"), original);
        assert_eq!(digest(to.path(), &QUIET).expect("digest"), original);
        assert!(!to.path().join("left.o").exists());
        let mode = fs::metadata(to.path().join("scripts/run"))
            .expect("copied")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o755);

        let changed = |file: &str, text: &str| {
            fs::write(dir.path().join(file), text).expect("file");
            digest(dir.path(), &QUIET).expect("digest").digest
        };
        assert_eq!(changed("left.o", "other"), original.digest);
        assert_ne!(
            changed("drivers/gpu/drm/panthor/panthor_drv.c", "int y;\n"),
            original.digest
        );
    }

    #[test]
    fn a_walk_ends_when_it_is_interrupted() {
        let dir = tree("7.2", true);
        let interrupted = AtomicBool::new(true);
        assert!(matches!(
            digest(dir.path(), &interrupted),
            Err(SourceError::Interrupted)
        ));
    }
}
