//! The kernels that were built: a directory each below `$XDG_CACHE_HOME/panthorctl/rig/` (`~/.cache/…`), with a
//! manifest that says what they are.
//!
//! A directory is complete as soon as it has its name: it is filled under a temporary name and renamed.

mod change;

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

pub use change::{Cleaned, clean_in};
pub(crate) use change::{LOCK, LOG_SUFFIX, WORK, publish, remove_leftovers};

/// Name of the manifest in a kernel's directory.
pub const MANIFEST: &str = "manifest.json";

/// The manifest's format that this program writes and reads.
pub const FORMAT: u32 = 1;

/// The kernel that is meant where none is named: what `rig build` builds and what `--device rig` boots.
pub const DEFAULT_NAME: &str = "7.2";

/// What can go wrong in the cache.
#[derive(Debug, Error)]
pub enum CacheError {
    /// Neither `XDG_CACHE_HOME` nor `HOME` is an absolute path.
    #[error("no cache directory: set XDG_CACHE_HOME or HOME to an absolute path")]
    NoDirectory,
    /// The operating system refused something.
    #[error("{path}: {source}")]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
    /// No such kernel was built.
    #[error(
        "no rig kernel {wanted}{}; build it: panthorctl rig build{arguments}",
        other(have)
    )]
    NotBuilt {
        /// What was asked for.
        wanted: String,
        /// The kernels that are there.
        have: Vec<String>,
        /// Arguments of the command that builds it.
        arguments: String,
    },
    /// The kernel was built with another version of the bridge or of its configuration.
    #[error(
        "rig kernel {kernel} was built for another version of this program; build it again: panthorctl rig build{arguments}"
    )]
    Outdated {
        /// The kernel.
        kernel: String,
        /// Arguments of the command that builds it.
        arguments: String,
    },
    /// The kernel is there without the binary that was asked for.
    #[error("rig kernel {kernel} has no {flavour} binary: {reason}")]
    NoBinary {
        /// The kernel.
        kernel: String,
        /// The binary.
        flavour: Flavour,
        /// Why it has none.
        reason: String,
    },
    /// No such kernel was built, and so none can be taken away.
    #[error("no rig kernel is called {name}{}", other(have))]
    NothingToClean {
        /// What was asked for.
        name: String,
        /// The kernels that are there.
        have: Vec<String>,
    },
    /// A build is running.
    #[error("{0}: a build is running; wait for it, or end it, and clean then")]
    Busy(PathBuf),
    /// A name that cannot be a directory's.
    #[error(
        "kernel name {0:?}: letters, digits, '.', '_' and '-' only, at most 40, beginning with a letter or digit"
    )]
    BadName(String),
}

fn other(have: &[String]) -> String {
    if have.is_empty() {
        String::new()
    } else {
        format!(" (there are: {})", have.join(", "))
    }
}

/// Which of a kernel's two binaries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Flavour {
    /// One CPU, virtual clock (`time-travel=inf-cpu`): deterministic.
    TimeTravel,
    /// Several CPUs, wall clock. 7.x only: 6.12's User Mode Linux knows one CPU.
    Smp,
}

impl Flavour {
    /// Name of the binary in the kernel's directory.
    pub fn file_name(self) -> &'static str {
        match self {
            Self::TimeTravel => "linux",
            Self::Smp => "linux-smp",
        }
    }
}

impl fmt::Display for Flavour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TimeTravel => "time-travel",
            Self::Smp => "SMP",
        })
    }
}

/// Configurations beyond the plain one.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Variant {
    /// What everything runs on unless told otherwise.
    #[default]
    Plain,
    /// Lock, memory and object checks on: finds what the driver does wrong, slowly.
    Debug,
    /// Counts the lines of panthor that run.
    Gcov,
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plain => "plain",
            Self::Debug => "debug",
            Self::Gcov => "gcov",
        })
    }
}

impl FromStr for Variant {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "plain" => Ok(Self::Plain),
            "debug" => Ok(Self::Debug),
            "gcov" => Ok(Self::Gcov),
            _ => Err(format!("variant {text:?}: plain, debug or gcov")),
        }
    }
}

/// Where a kernel's source came from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Origin {
    /// Debian's package.
    Debian {
        /// Its name, `linux-source-X`.
        package: String,
        /// Its version, as `7.2.13-1`.
        version: String,
    },
    /// A tree of the user's own.
    Tree {
        /// Where it was.
        path: PathBuf,
        /// SHA-256 over the names and contents of the files that were built from.
        digest: String,
    },
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Debian { package, version } => write!(f, "{package} {version}"),
            Self::Tree { path, .. } => write!(f, "{}", path.display()),
        }
    }
}

/// One binary of a kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Binary {
    /// Which.
    pub flavour: Flavour,
    /// Size in bytes.
    pub bytes: u64,
    /// How long compiling took, in seconds of wall time.
    pub build_seconds: u64,
}

/// What a kernel is: `manifest.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// [`FORMAT`].
    pub format: u32,
    /// `6.12`, `7.2`, `7.3`, or the name that the user gave to a tree.
    pub name: String,
    /// The configuration.
    pub variant: Variant,
    /// What `uname -r` says inside, as `7.2.13`.
    pub release: String,
    /// Where the source came from.
    pub origin: Origin,
    /// SHA-256 over the bridge, the edits and the configuration.
    pub recipe: String,
    /// When it was built, in seconds since 1970 (UTC).
    pub built: u64,
    /// First line of `gcc --version`.
    pub toolchain: String,
    /// This version's User Mode Linux knows one CPU: there is no SMP binary to be had.
    #[serde(default)]
    pub smp_unavailable: bool,
    /// The binaries.
    pub binaries: Vec<Binary>,
}

/// A kernel in the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// Its directory, absolute.
    pub directory: PathBuf,
    /// What it is.
    pub manifest: Manifest,
}

impl Kernel {
    /// The path of a binary.
    ///
    /// # Errors
    /// [`CacheError::NoBinary`] where the kernel has none of that flavour.
    pub fn binary(&self, flavour: Flavour) -> Result<PathBuf, CacheError> {
        let path = self.directory.join(flavour.file_name());
        let listed = self.manifest.binaries.iter().any(|b| b.flavour == flavour);
        if listed && path.is_file() {
            return Ok(path);
        }
        Err(CacheError::NoBinary {
            kernel: self.label(),
            flavour,
            reason: if listed {
                format!("{} is gone; panthorctl rig build --force", path.display())
            } else {
                match flavour {
                    Flavour::Smp if self.manifest.smp_unavailable => {
                        format!("User Mode Linux of {} knows one CPU", self.manifest.release)
                    }
                    Flavour::Smp => "it was built with --no-smp".to_owned(),
                    Flavour::TimeTravel => "it was built without".to_owned(),
                }
            },
        })
    }

    /// The hash of source, bridge and configuration that its directory's name ends with.
    pub fn hash(&self) -> String {
        let name = self
            .directory
            .file_name()
            .unwrap_or_default()
            .to_string_lossy();
        name.rsplit('-').next().unwrap_or_default().to_owned()
    }

    /// Major and minor version, (0, 0) where the release does not begin with them.
    pub fn version(&self) -> (u32, u32) {
        let mut parts = self
            .manifest
            .release
            .split(|c: char| !c.is_ascii_digit())
            .map(|p| p.parse().unwrap_or(0));
        (parts.next().unwrap_or(0), parts.next().unwrap_or(0))
    }

    /// Name and, unless plain, variant: `7.2`, `7.2-debug`.
    pub fn label(&self) -> String {
        label(&self.manifest.name, self.manifest.variant)
    }
}

/// Name and, unless plain, variant: `7.2`, `7.2-debug`.
pub fn label(name: &str, variant: Variant) -> String {
    match variant {
        Variant::Plain => name.to_owned(),
        _ => format!("{name}-{variant}"),
    }
}

/// Which kernel is wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    /// `6.12`, `7.2`, `7.3` or a name that the user gave; none: [`DEFAULT_NAME`], else the one that was built last.
    pub name: Option<String>,
    /// The configuration.
    pub variant: Variant,
}

/// The directory with the kernels, which need not exist.
///
/// # Errors
/// [`CacheError::NoDirectory`].
pub fn directory() -> Result<PathBuf, CacheError> {
    let absolute = |name: &str| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|p| p.is_absolute())
    };
    absolute("XDG_CACHE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".cache")))
        .map(|base| base.join("panthorctl/rig"))
        .ok_or(CacheError::NoDirectory)
}

/// The kernels of the user's cache, by name and then the newest first. What has no readable manifest is passed over.
///
/// # Errors
/// [`CacheError::Io`] where the directory exists and cannot be read.
pub fn list() -> Result<Vec<Kernel>, CacheError> {
    list_in(&directory()?)
}

/// As [`list`], of another directory.
///
/// # Errors
/// As [`list`].
pub fn list_in(directory: &Path) -> Result<Vec<Kernel>, CacheError> {
    let io = |source| CacheError::Io {
        path: directory.to_owned(),
        source,
    };
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(io(e)),
    };
    let mut kernels = Vec::new();
    for entry in entries {
        let entry = entry.map_err(io)?;
        // What is being made or taken away.
        if entry.file_name().as_encoded_bytes().starts_with(b".") {
            continue;
        }
        let path = entry.path();
        let Ok(text) = fs::read(path.join(MANIFEST)) else {
            continue;
        };
        match serde_json::from_slice::<Manifest>(&text) {
            Ok(manifest) if manifest.format == FORMAT => kernels.push(Kernel {
                directory: path,
                manifest,
            }),
            Ok(manifest) => log::info!(
                "{}: format {}, not {FORMAT}: passed over",
                path.display(),
                manifest.format
            ),
            Err(e) => log::warn!("{}: {e}: passed over", path.join(MANIFEST).display()),
        }
    }
    kernels.sort_by(|a, b| {
        (&a.manifest.name, a.manifest.variant)
            .cmp(&(&b.manifest.name, b.manifest.variant))
            .then(b.manifest.built.cmp(&a.manifest.built))
            .then_with(|| a.directory.cmp(&b.directory))
    });
    Ok(kernels)
}

/// The kernel that was built last of those that the selector means.
///
/// # Errors
/// [`CacheError::NotBuilt`] or [`CacheError::Outdated`] with the command that builds it; what [`list`] says.
pub fn find(selector: &Selector) -> Result<Kernel, CacheError> {
    let kernel = find_in(&directory()?, selector)?;
    current(kernel)
}

/// The kernel, if its bridge and configuration are those of this program.
fn current(kernel: Kernel) -> Result<Kernel, CacheError> {
    if kernel.manifest.recipe == crate::build::recipe(kernel.manifest.variant) {
        return Ok(kernel);
    }
    Err(CacheError::Outdated {
        kernel: kernel.label(),
        arguments: build_arguments(&kernel.manifest.name, kernel.manifest.variant),
    })
}

/// What follows `panthorctl rig build` for such a kernel.
fn build_arguments(name: &str, variant: Variant) -> String {
    let mut arguments = match name {
        "6.12" | "7.2" | "7.3" => format!(" --kernel {name}"),
        _ => format!(" --source DIR --name {name}"),
    };
    if variant != Variant::Plain {
        arguments += &format!(" --variant {variant}");
    }
    arguments
}

/// As [`find`], in another directory.
///
/// # Errors
/// As [`find`].
pub fn find_in(directory: &Path, selector: &Selector) -> Result<Kernel, CacheError> {
    let kernels = list_in(directory)?;
    let newest = |name: Option<&str>| {
        kernels
            .iter()
            .filter(|k| k.manifest.variant == selector.variant)
            .filter(|k| name.is_none_or(|n| n == k.manifest.name))
            .max_by_key(|k| k.manifest.built)
            .cloned()
    };
    let found = match &selector.name {
        Some(name) => newest(Some(name)),
        None => newest(Some(DEFAULT_NAME)).or_else(|| newest(None)),
    };
    found.ok_or_else(|| {
        let name = selector.name.as_deref().unwrap_or(DEFAULT_NAME);
        let mut have: Vec<String> = kernels.iter().map(Kernel::label).collect();
        have.dedup();
        CacheError::NotBuilt {
            wanted: label(name, selector.variant),
            have,
            arguments: build_arguments(name, selector.variant),
        }
    })
}

/// Whether a name can stand in a directory's name and in `--device rig:name=…`.
///
/// # Errors
/// [`CacheError::BadName`].
pub fn check_name(name: &str) -> Result<(), CacheError> {
    let good = name.len() <= 40
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "._-".contains(c));
    if good {
        Ok(())
    } else {
        Err(CacheError::BadName(name.to_owned()))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A manifest of a plausible kernel.
    pub(crate) fn manifest(name: &str, variant: Variant, built: u64) -> Manifest {
        Manifest {
            format: FORMAT,
            name: name.to_owned(),
            variant,
            release: format!("{name}.1"),
            origin: Origin::Debian {
                package: format!("linux-source-{name}"),
                version: format!("{name}.1-1"),
            },
            recipe: "recipe".to_owned(),
            built,
            toolchain: "gcc".to_owned(),
            smp_unavailable: name == "6.12",
            binaries: vec![Binary {
                flavour: Flavour::TimeTravel,
                bytes: 4,
                build_seconds: 1,
            }],
        }
    }

    /// Publishes a kernel under a hash.
    pub(crate) fn put(cache: &Path, manifest: Manifest, hash: &str) -> Kernel {
        let finished = cache.join(WORK);
        fs::create_dir(&finished).expect("directory");
        fs::write(finished.join("linux"), "ELF!").expect("file");
        publish(cache, &finished, manifest, |_| hash.to_owned()).expect("published")
    }

    fn find_name(cache: &Path, name: Option<&str>, variant: Variant) -> Result<Kernel, CacheError> {
        let name = name.map(str::to_owned);
        find_in(cache, &Selector { name, variant })
    }

    #[test]
    fn kernels_are_found_by_name_and_variant_and_the_default_comes_first() {
        let cache = tempfile::tempdir().expect("temporary directory");
        let cache = cache.path();
        let error = find_name(cache, None, Variant::Plain).expect_err("empty");
        assert_eq!(
            error.to_string(),
            "no rig kernel 7.2; build it: panthorctl rig build --kernel 7.2"
        );
        put(
            cache,
            manifest("mine", Variant::Plain, 30),
            "aaaaaaaaaaaa0000",
        );
        let only = find_name(cache, None, Variant::Plain).expect("the only one");
        assert_eq!(only.manifest.name, "mine");
        assert_eq!(only.directory, cache.join("mine-aaaaaaaaaaaa"));
        assert_eq!(only.hash(), "aaaaaaaaaaaa");
        put(cache, manifest("7.2", Variant::Plain, 10), "bbbbbbbbbbbb");
        put(cache, manifest("7.2", Variant::Debug, 20), "cccccccccccc");
        let default = find_name(cache, None, Variant::Plain).expect("the default");
        assert_eq!(
            (default.label().as_str(), default.version()),
            ("7.2", (7, 2))
        );
        let debug = find_name(cache, Some("7.2"), Variant::Debug).expect("the variant");
        assert_eq!(debug.label(), "7.2-debug");
        let error = find_name(cache, Some("theirs"), Variant::Gcov).expect_err("not built");
        assert_eq!(
            error.to_string(),
            "no rig kernel theirs-gcov (there are: 7.2, 7.2-debug, mine); \
             build it: panthorctl rig build --source DIR --name theirs --variant gcov"
        );
    }

    #[test]
    fn a_kernel_of_another_bridge_or_configuration_is_refused() {
        let cache = tempfile::tempdir().expect("temporary directory");
        let mut kernel = put(cache.path(), manifest("7.3", Variant::Plain, 1), "5555");
        assert_eq!(
            current(kernel.clone())
                .expect_err("another recipe")
                .to_string(),
            "rig kernel 7.3 was built for another version of this program; \
             build it again: panthorctl rig build --kernel 7.3"
        );
        kernel.manifest.recipe = crate::build::recipe(Variant::Plain);
        assert_eq!(current(kernel).expect("this recipe").label(), "7.3");
    }

    #[test]
    fn a_binary_that_is_not_there_is_refused_with_the_reason() {
        let cache = tempfile::tempdir().expect("temporary directory");
        let kernel = put(
            cache.path(),
            manifest("6.12", Variant::Plain, 1),
            "444444444444",
        );
        let path = kernel.binary(Flavour::TimeTravel).expect("is there");
        assert_eq!(fs::read(path).expect("file"), b"ELF!");
        let reason =
            |kernel: &Kernel, flavour| kernel.binary(flavour).expect_err("none").to_string();
        assert_eq!(
            reason(&kernel, Flavour::Smp),
            "rig kernel 6.12 has no SMP binary: User Mode Linux of 6.12.1 knows one CPU"
        );
        fs::remove_file(kernel.directory.join("linux")).expect("remove");
        assert!(
            reason(&kernel, Flavour::TimeTravel)
                .contains("linux is gone; panthorctl rig build --force")
        );
        let other = put(
            cache.path(),
            manifest("7.3", Variant::Plain, 1),
            "555555555555",
        );
        assert!(reason(&other, Flavour::Smp).ends_with("it was built with --no-smp"));
    }

    #[test]
    fn manifests_that_cannot_be_read_are_passed_over() {
        let cache = tempfile::tempdir().expect("temporary directory");
        let cache = cache.path();
        let kernel = put(cache, manifest("7.2", Variant::Plain, 1), "111111111111");
        let text = serde_json::to_string(&kernel.manifest).expect("JSON");
        assert_eq!(
            serde_json::from_str::<Manifest>(&text).expect("a manifest"),
            kernel.manifest
        );
        fs::create_dir(cache.join("broken")).expect("directory");
        fs::write(cache.join("broken").join(MANIFEST), "{").expect("file");
        fs::create_dir(cache.join("later")).expect("directory");
        let later = text.replace("\"format\":1", "\"format\":2");
        fs::write(cache.join("later").join(MANIFEST), later).expect("file");
        assert_eq!(list_in(cache).expect("list"), [kernel]);
    }

    #[test]
    fn names_are_fit_for_a_directory() {
        for good in ["7.2", "mine", "a1-kernel_6.18", "6"] {
            assert!(check_name(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            ".",
            "..",
            "a/b",
            "-x",
            ".hidden",
            "ä",
            "a b",
            &"x".repeat(41),
        ] {
            assert!(check_name(bad).is_err(), "{bad:?}");
        }
    }
}
