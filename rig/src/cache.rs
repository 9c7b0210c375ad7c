//! The kernels that were built: a directory each below `$XDG_CACHE_HOME/panthorctl/rig/` (`~/.cache/…`), with a
//! manifest that says what they are.
//!
//! A directory is complete as soon as it has its name: it is filled under a temporary name and renamed.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Name of the manifest in a kernel's directory.
pub const MANIFEST: &str = "manifest.json";

/// The manifest's format that this program writes and reads.
pub const FORMAT: u32 = 1;

/// The lock under which a kernel is built.
pub(crate) const LOCK: &str = ".lock";

/// The directory in which a kernel is built.
pub(crate) const WORK: &str = ".build";

/// What directories that only a running build may have begin with: its work, package lists, a package, what is being deleted.
const LEFTOVERS: [&str; 4] = [WORK, ".apt-", ".deb-", TRASH_PREFIX];

const TRASH_PREFIX: &str = ".trash-";

/// What the name of the log of a build that failed ends with.
pub(crate) const LOG_SUFFIX: &str = "-build.log";

/// Digits of the hash in a kernel's directory's name.
const HASH_DIGITS: usize = 12;

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
        let path = entry.map_err(io)?.path();
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
/// [`CacheError::NotBuilt`] with the command that builds it; what [`list`] says.
pub fn find(selector: &Selector) -> Result<Kernel, CacheError> {
    find_in(&directory()?, selector)
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
        let mut arguments = match name {
            "6.12" | "7.2" | "7.3" => format!(" --kernel {name}"),
            _ => format!(" --source DIR --name {name}"),
        };
        if selector.variant != Variant::Plain {
            arguments += &format!(" --variant {}", selector.variant);
        }
        CacheError::NotBuilt {
            wanted: label(name, selector.variant),
            have,
            arguments,
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

/// Gives a finished kernel its place and takes away those that it replaces: earlier ones of its name and variant.
pub(crate) fn publish(
    cache: &Path,
    finished: &Path,
    manifest: Manifest,
    hash: impl Fn(&Manifest) -> String,
) -> Result<Kernel, CacheError> {
    let io = |path: &Path| {
        let path = path.to_owned();
        move |source| CacheError::Io { path, source }
    };
    let hash = hash(&manifest);
    let directory = cache.join(format!(
        "{}-{}",
        label(&manifest.name, manifest.variant),
        &hash[..HASH_DIGITS.min(hash.len())]
    ));
    let path = finished.join(MANIFEST);
    let text = serde_json::to_vec_pretty(&manifest).map_err(|e| io(&path)(e.into()))?;
    fs::write(&path, text).map_err(io(&path))?;
    for earlier in list_in(cache)? {
        let m = &earlier.manifest;
        if m.name == manifest.name && m.variant == manifest.variant {
            remove(cache, &earlier.directory)?;
        }
    }
    // Something of that name without a manifest that can be read.
    if directory.exists() {
        remove(cache, &directory)?;
    }
    fs::rename(finished, &directory).map_err(io(&directory))?;
    Ok(Kernel {
        directory,
        manifest,
    })
}

/// Takes a directory away: first its name, so that nobody finds half of it.
fn remove(cache: &Path, directory: &Path) -> Result<(), CacheError> {
    let io = |path: &Path| {
        let path = path.to_owned();
        move |source| CacheError::Io { path, source }
    };
    let trash = tempfile::Builder::new()
        .prefix(TRASH_PREFIX)
        .tempdir_in(cache)
        .map_err(io(cache))?;
    let to = trash.path().join("kernel");
    fs::rename(directory, &to).map_err(io(directory))?;
    trash.close().map_err(io(&to))
}

/// Takes away what builds left that were killed. Only while no build runs.
pub(crate) fn remove_leftovers(cache: &Path) -> Result<u64, CacheError> {
    let io = |path: &Path| {
        let path = path.to_owned();
        move |source| CacheError::Io { path, source }
    };
    let mut freed = 0;
    for entry in fs::read_dir(cache).map_err(io(cache))? {
        let entry = entry.map_err(io(cache))?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let ours = LEFTOVERS.iter().any(|prefix| name.starts_with(prefix));
        if ours && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            freed += size(&entry.path());
            fs::remove_dir_all(entry.path()).map_err(io(&entry.path()))?;
        }
    }
    Ok(freed)
}

/// Bytes of the files below a directory; what cannot be read counts nothing.
fn size(directory: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(directory) else {
        return 0;
    };
    entries
        .flatten()
        .map(|entry| match entry.metadata() {
            Ok(m) if m.is_dir() => size(&entry.path()),
            Ok(m) => m.len(),
            Err(_) => 0,
        })
        .sum()
}

/// What [`clean`] took away.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Cleaned {
    /// Labels of the kernels.
    pub kernels: Vec<String>,
    /// Bytes that are free now.
    pub bytes: u64,
}

/// Takes away the kernels of one name (a name with all its variants, or one label such as `7.2-debug`), or all, and with all also logs
/// and what killed builds left. Files that are not the rig's are left alone.
///
/// # Errors
/// [`CacheError::NothingToClean`] where there is none of that name; [`CacheError::Busy`] while a build runs; [`CacheError::Io`].
pub fn clean_in(directory: &Path, name: Option<&str>) -> Result<Cleaned, CacheError> {
    let io = |path: &Path| {
        let path = path.to_owned();
        move |source| CacheError::Io { path, source }
    };
    let mut cleaned = Cleaned::default();
    let kernels = list_in(directory)?;
    let chosen: Vec<&Kernel> = kernels
        .iter()
        .filter(|k| name.is_none_or(|n| n == k.manifest.name || n == k.label()))
        .collect();
    if let (Some(name), true) = (name, chosen.is_empty()) {
        let mut have: Vec<String> = kernels.iter().map(Kernel::label).collect();
        have.dedup();
        return Err(CacheError::NothingToClean {
            name: name.to_owned(),
            have,
        });
    }
    if !directory.exists() {
        return Ok(cleaned);
    }
    let lock = directory.join(LOCK);
    let file = fs::File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&lock)
        .map_err(io(&lock))?;
    match rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(rustix::io::Errno::WOULDBLOCK) => return Err(CacheError::Busy(directory.to_owned())),
        Err(e) => return Err(io(&lock)(e.into())),
    }
    for kernel in chosen {
        cleaned.bytes += size(&kernel.directory);
        remove(directory, &kernel.directory)?;
        cleaned.kernels.push(kernel.label());
    }
    if name.is_some() {
        return Ok(cleaned);
    }
    cleaned.bytes += remove_leftovers(directory)?;
    for entry in fs::read_dir(directory).map_err(io(directory))? {
        let entry = entry.map_err(io(directory))?;
        if entry.file_name().to_string_lossy().ends_with(LOG_SUFFIX) {
            cleaned.bytes += entry.metadata().map_or(0, |m| m.len());
            fs::remove_file(entry.path()).map_err(io(&entry.path()))?;
        }
    }
    // The lock goes last, and the directory if nothing else is in it.
    let _ = fs::remove_file(&lock);
    let _ = fs::remove_dir(directory);
    Ok(cleaned)
}
