//! Builds kernels into the cache.
//!
//! Everything happens in a directory of its own in the cache (`.build-…`), which goes away however a build ends; what is
//! finished is renamed to its place. A lock lets one build run at a time.

mod make;
mod tools;

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use sha2::{Digest, Sha256};
use thiserror::Error;

use crate::cache::{self, Binary, CacheError, Flavour, Kernel, Manifest, Origin, Variant};
use crate::config;
use crate::debian::{Apt, DebianError};
use crate::edit::{self, EditError};
use crate::process::{Interrupt, ProcessError};
use crate::source::{self, SourceError, hexadecimal};

use make::Make;
pub use tools::check_tools;
use tools::toolchain;

/// Goes up when the way of building changes what comes out of the same source, bridge and configuration.
const RECIPE: u32 = 1;

/// Free bytes that a build needs where the cache lies: the copied source (0.9 GB), objects (0.4 GB), and room.
pub const NEEDED_BYTES: u64 = 2 << 30;

/// Directory of the variant gcov's notes and sources in a kernel's directory.
pub const GCOV_DIRECTORY: &str = "gcov";

/// The driver's directory in a kernel's source.
const PANTHOR: &str = "drivers/gpu/drm/panthor";

/// How often a lock that another build holds is tried again.
const LOCK_POLL: Duration = Duration::from_millis(200);

/// Why there is no kernel.
#[derive(Debug, Error)]
pub enum BuildError {
    /// Not an x86-64 machine.
    #[error(
        "the rig needs an x86-64 machine: User Mode Linux, in which it runs the kernel's driver, exists for x86 only, and this is {0}"
    )]
    Machine(&'static str),
    /// Programs or headers are missing.
    #[error("building a kernel needs {}; Debian and Ubuntu: apt install {}", programs.join(", "), packages.join(" "))]
    Tools {
        /// What is missing.
        programs: Vec<&'static str>,
        /// The Debian packages that have it.
        packages: Vec<&'static str>,
    },
    /// Too little room.
    #[error("{path}: {free} MB free, and building a kernel needs {needed} MB; make room or set XDG_CACHE_HOME", needed = NEEDED_BYTES >> 20)]
    Disk {
        /// The cache's directory.
        path: PathBuf,
        /// Free megabytes (2^20 bytes).
        free: u64,
    },
    /// The cache cannot be used.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// The source cannot be used.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// Debian's source could not be fetched.
    #[error(transparent)]
    Debian(#[from] DebianError),
    /// The source does not take the bridge.
    #[error("Linux {release} does not take the bridge: {source}")]
    Edit {
        /// Its release.
        release: String,
        /// What does not fit.
        source: EditError,
    },
    /// The source does not have an option.
    #[error("Linux {release} cannot be configured for the rig: {} cannot be set; see {log}", options.join(", "))]
    Config {
        /// Its release.
        release: String,
        /// The options.
        options: Vec<&'static str>,
        /// The log, kept.
        log: PathBuf,
    },
    /// make failed.
    #[error("make {target} of Linux {release} failed ({status}): {last}; all of it: {log}")]
    Make {
        /// What was to be made.
        target: &'static str,
        /// The release.
        release: String,
        /// make's exit status.
        status: String,
        /// The first lines that say what is wrong.
        last: String,
        /// The log, kept.
        log: PathBuf,
    },
    /// A program could not be run.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// A file could not be read or written.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// The user interrupted; nothing is left of the build.
    #[error("interrupted; nothing is left of the build")]
    Interrupted,
}

impl BuildError {
    /// Whether the user wanted it so.
    pub fn is_interruption(&self) -> bool {
        matches!(
            self,
            Self::Interrupted
                | Self::Source(SourceError::Interrupted)
                | Self::Process(ProcessError::Interrupted)
                | Self::Debian(DebianError::Process {
                    source: ProcessError::Interrupted,
                    ..
                })
        )
    }
}

/// Where the source comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum From {
    /// Debian's package of this version: `6.12`, `7.2`, `7.3`.
    Debian(String),
    /// A tree of the user's own.
    Tree {
        /// Where it is.
        path: PathBuf,
        /// What to call the kernel.
        name: String,
    },
}

/// What to build.
#[derive(Clone, Debug)]
pub struct Request {
    /// The source.
    pub from: From,
    /// The configuration.
    pub variant: Variant,
    /// Also the SMP binary, where the version has one.
    pub smp: bool,
    /// Build even what is there.
    pub force: bool,
    /// Ask Debian for a newer package even though one of that version was built.
    pub update: bool,
    /// Compilers at a time; none: as many as there are CPUs.
    pub jobs: Option<usize>,
}

/// What a build says while it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress<'a> {
    /// The next step begins.
    Step(&'a str),
    /// So many of about so many objects are compiled.
    Objects {
        /// Done.
        done: u64,
        /// Expected.
        of: u64,
    },
    /// Something that the user wants to know.
    Note(&'a str),
}

/// Builds kernels, one after another, into one cache. From the first that must be built on no other builder runs there.
pub struct Builder<'a> {
    cache: PathBuf,
    interrupt: &'a Interrupt,
    progress: &'a mut dyn FnMut(Progress<'_>),
    apt: Option<Apt>,
    /// Taken when first something must be built, and kept: package lists serve all that follow.
    lock: Option<fs::File>,
}

/// A kernel, and whether it was there before.
#[derive(Clone, Debug)]
pub struct Built {
    /// The kernel.
    pub kernel: Kernel,
    /// Nothing had to be built.
    pub cached: bool,
}

impl<'a> Builder<'a> {
    /// A builder for the user's cache.
    ///
    /// # Errors
    /// [`BuildError::Machine`] on anything but x86-64; [`CacheError::NoDirectory`].
    pub fn new(
        interrupt: &'a Interrupt,
        progress: &'a mut dyn FnMut(Progress<'_>),
    ) -> Result<Self, BuildError> {
        check_machine(std::env::consts::ARCH)?;
        Ok(Self::in_directory(cache::directory()?, interrupt, progress))
    }

    /// A builder for another directory.
    pub fn in_directory(
        cache: PathBuf,
        interrupt: &'a Interrupt,
        progress: &'a mut dyn FnMut(Progress<'_>),
    ) -> Self {
        Self {
            cache,
            interrupt,
            progress,
            apt: None,
            lock: None,
        }
    }

    /// Builds a kernel, or finds that it has been built.
    ///
    /// # Errors
    /// [`BuildError`]. Of a build that fails the log is left, and nothing else.
    pub fn build(&mut self, request: &Request) -> Result<Built, BuildError> {
        let name = match &request.from {
            From::Debian(version) => version.clone(),
            From::Tree { path, name } => {
                cache::check_name(name)?;
                source::check(path)?;
                name.clone()
            }
        };
        // What needs no more than a look comes first: no tools, no lock, no network.
        let mut digest = None;
        if let From::Tree { path, .. } = &request.from {
            (self.progress)(Progress::Step("reading the tree"));
            digest = Some(source::digest(path, self.interrupt)?.digest);
        }
        if let Some(kernel) = self.there(request, &name, digest.as_deref())? {
            return Ok(Built {
                kernel,
                cached: true,
            });
        }
        check_tools()?;
        fs::create_dir_all(&self.cache).map_err(|e| io_error(&self.cache, e))?;
        if self.lock.is_none() {
            self.lock = Some(self.lock()?);
            cache::remove_leftovers(&self.cache)?;
            // Whoever had the lock may have built it.
            if let Some(kernel) = self.there(request, &name, digest.as_deref())? {
                return Ok(Built {
                    kernel,
                    cached: true,
                });
            }
        }
        self.check_disk()?;
        let kernel = self
            .build_locked(request, &name, digest)
            .map_err(|error| match error {
                e if e.is_interruption() => BuildError::Interrupted,
                e => e,
            })?;
        Ok(Built {
            kernel,
            cached: false,
        })
    }

    /// The kernel that the request would build, if it is there.
    fn there(
        &self,
        request: &Request,
        name: &str,
        digest: Option<&str>,
    ) -> Result<Option<Kernel>, BuildError> {
        if request.force || (request.update && digest.is_none()) {
            return Ok(None);
        }
        let recipe = recipe(request.variant);
        let kernel = cache::list_in(&self.cache)?.into_iter().find(|kernel| {
            let m = &kernel.manifest;
            let origin = match (&m.origin, digest) {
                (Origin::Debian { .. }, None) => true,
                (Origin::Tree { digest: built, .. }, Some(digest)) => built == digest,
                _ => false,
            };
            // One that lacks only what the version cannot have is complete.
            let complete = m.binaries.iter().any(|b| b.flavour == Flavour::Smp)
                || !request.smp
                || m.smp_unavailable;
            m.name == name
                && m.variant == request.variant
                && m.recipe == recipe
                && origin
                && complete
        });
        Ok(kernel)
    }

    fn build_locked(
        &mut self,
        request: &Request,
        name: &str,
        digest: Option<String>,
    ) -> Result<Kernel, BuildError> {
        // The same for every build: the compiler writes paths into what it makes.
        let work = tempfile::Builder::new()
            .prefix(cache::WORK)
            .rand_bytes(0)
            .tempdir_in(&self.cache)
            .map_err(|e| io_error(&self.cache, e))?;
        let tree = work.path().join("source");
        fs::create_dir(&tree).map_err(|e| io_error(&tree, e))?;
        let origin = match &request.from {
            From::Debian(version) => self.unpack_debian(version, request, name, &tree)?,
            From::Tree { path, .. } => {
                (self.progress)(Progress::Step("copying the tree"));
                let content = source::copy(path, &tree, self.interrupt)?;
                if digest.is_some_and(|d| d != content.digest) {
                    return Err(SourceError::Changed(path.clone()).into());
                }
                let megabytes = content.bytes >> 20;
                let note = format!(
                    "copied {} files, {megabytes} MB, of {}",
                    content.files,
                    path.display()
                );
                (self.progress)(Progress::Note(&note));
                Origin::Tree {
                    path: fs::canonicalize(path).map_err(|e| io_error(path, e))?,
                    digest: content.digest,
                }
            }
        };
        let release = source::check(&tree)?;
        edit::apply(&tree).map_err(|source| BuildError::Edit {
            release: release.text.clone(),
            source,
        })?;
        if request.variant == Variant::Gcov {
            append(
                &tree.join(PANTHOR).join("Makefile"),
                "\nGCOV_PROFILE := y\n",
            )?;
        }

        let label = cache::label(name, request.variant);
        let mut make = Make {
            tree: &tree,
            objects: work.path().join("objects"),
            log_path: work.path().join("build.log"),
            kept_log: self.cache.join(format!("{label}{}", cache::LOG_SUFFIX)),
            release: &release,
            request,
            interrupt: self.interrupt,
        };
        let out = work.path().join("kernel");
        fs::create_dir(&out).map_err(|e| io_error(&out, e))?;
        // A kernel of the same source and recipe that only lacks a binary.
        let same = cache::list_in(&self.cache)?.into_iter().find(|kernel| {
            let m = &kernel.manifest;
            let same = m.name == name && m.variant == request.variant && m.origin == origin;
            same && m.recipe == recipe(request.variant) && !request.force
        });
        let mut binaries = Vec::new();
        let mut smp_unavailable = false;
        for flavour in [Flavour::TimeTravel, Flavour::Smp] {
            if flavour == Flavour::Smp && !request.smp {
                continue;
            }
            if flavour == Flavour::Smp && !make.has_smp() {
                smp_unavailable = true;
                let note = format!(
                    "User Mode Linux of {} knows one CPU: no SMP binary",
                    release.text
                );
                (self.progress)(Progress::Note(&note));
                continue;
            }
            if let Some(binary) = same.as_ref().and_then(|k| reuse(k, flavour, &out)) {
                binaries.push(binary);
                continue;
            }
            let started = Instant::now();
            let step = format!("{label}: configuring ({flavour})");
            (self.progress)(Progress::Step(&step));
            make.configure(flavour)?;
            let step = format!("{label}: compiling ({flavour})");
            (self.progress)(Progress::Step(&step));
            make.compile(self.progress)?;
            let built = make.objects.join("linux");
            let to = out.join(flavour.file_name());
            let bytes = fs::copy(&built, &to).map_err(|e| io_error(&built, e))?;
            if request.variant == Variant::Gcov {
                keep_gcov(
                    &make.objects,
                    &out.join(GCOV_DIRECTORY).join(flavour.file_name()),
                )?;
            }
            binaries.push(Binary {
                flavour,
                bytes,
                build_seconds: started.elapsed().as_secs(),
            });
        }
        if request.variant == Variant::Gcov {
            copy_directory(
                &tree.join(PANTHOR),
                &out.join(GCOV_DIRECTORY).join("source").join(PANTHOR),
            )?;
        }
        let manifest = Manifest {
            format: cache::FORMAT,
            name: name.to_owned(),
            variant: request.variant,
            release: release.text.clone(),
            recipe: recipe(request.variant),
            built: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap_or_default()
                .as_secs(),
            toolchain: toolchain(self.interrupt)?,
            origin,
            smp_unavailable,
            binaries,
        };
        let log = out.join("build.log");
        let mut said = same
            .map_or(Ok(Vec::new()), |k| fs::read(k.directory.join("build.log")))
            .unwrap_or_default();
        said.extend(fs::read(&make.log_path).unwrap_or_default());
        fs::write(&log, said).map_err(|e| io_error(&log, e))?;
        let _ = fs::remove_file(&make.kept_log);
        Ok(cache::publish(&self.cache, &out, manifest, hash)?)
    }

    fn unpack_debian(
        &mut self,
        version: &str,
        request: &Request,
        name: &str,
        tree: &Path,
    ) -> Result<Origin, BuildError> {
        let apt = match self.apt.take() {
            Some(apt) => apt,
            None => {
                (self.progress)(Progress::Step("reading Debian's package lists"));
                Apt::open(&self.cache, self.interrupt)?
            }
        };
        let step = format!("{name}: fetching linux-source-{version}");
        (self.progress)(Progress::Step(&step));
        let package = apt.fetch(version, self.interrupt);
        self.apt = Some(apt);
        let package = package?;
        if request.update {
            let note = format!("{} is {}", package.name, package.version);
            (self.progress)(Progress::Note(&note));
        }
        let step = format!("{name}: unpacking {} {}", package.name, package.version);
        (self.progress)(Progress::Step(&step));
        package.unpack(tree, self.interrupt)?;
        Ok(Origin::Debian {
            package: package.name,
            version: package.version,
        })
    }

    /// The lock under which builds run; waits for another's.
    fn lock(&mut self) -> Result<fs::File, BuildError> {
        let path = self.cache.join(cache::LOCK);
        let file = fs::File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(|e| io_error(&path, e))?;
        let mut told = false;
        loop {
            match rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(file),
                Err(rustix::io::Errno::WOULDBLOCK) => {}
                Err(rustix::io::Errno::INTR) => continue,
                Err(e) => return Err(io_error(&path, e.into())),
            }
            if !told {
                (self.progress)(Progress::Step("waiting for another build to end"));
                told = true;
            }
            if self.interrupt.load(Ordering::Relaxed) {
                return Err(BuildError::Interrupted);
            }
            std::thread::sleep(LOCK_POLL);
        }
    }

    fn check_disk(&self) -> Result<(), BuildError> {
        let stat = rustix::fs::statvfs(&self.cache).map_err(|e| io_error(&self.cache, e.into()))?;
        let free = stat.f_bavail.saturating_mul(stat.f_frsize);
        if free < NEEDED_BYTES {
            return Err(BuildError::Disk {
                path: self.cache.clone(),
                free: free >> 20,
            });
        }
        Ok(())
    }
}

fn check_machine(machine: &'static str) -> Result<(), BuildError> {
    if machine == "x86_64" {
        Ok(())
    } else {
        Err(BuildError::Machine(machine))
    }
}

fn io_error(path: &Path, source: io::Error) -> BuildError {
    BuildError::Io {
        path: path.to_owned(),
        source,
    }
}

/// SHA-256 over what is ours in a kernel: bridge, changes, configuration.
pub fn recipe(variant: Variant) -> String {
    let mut hash = Sha256::new();
    hash.update(RECIPE.to_le_bytes());
    for text in edit::content()
        .map(str::to_owned)
        .chain(config::content(variant))
    {
        hash.update((text.len() as u64).to_le_bytes());
        hash.update(&text);
    }
    hexadecimal(&hash.finalize())
}

/// The hash in a kernel's directory's name: source, patch and configuration.
fn hash(manifest: &Manifest) -> String {
    let origin = match &manifest.origin {
        Origin::Debian { package, version } => format!("{package} {version}"),
        Origin::Tree { digest, .. } => digest.clone(),
    };
    let mut hash = Sha256::new();
    for text in [&origin, &manifest.recipe] {
        hash.update((text.len() as u64).to_le_bytes());
        hash.update(text);
    }
    hexadecimal(&hash.finalize())
}

/// Takes a binary over from a kernel that has it; none where there is none, or it cannot be read.
fn reuse(kernel: &Kernel, flavour: Flavour, out: &Path) -> Option<Binary> {
    let mut listed = kernel.manifest.binaries.iter();
    let binary = listed.find(|b| b.flavour == flavour)?;
    if kernel.manifest.variant == Variant::Gcov {
        let notes = Path::new(GCOV_DIRECTORY).join(flavour.file_name());
        copy_directory(&kernel.directory.join(&notes), &out.join(notes)).ok()?;
    }
    let name = flavour.file_name();
    let bytes = fs::copy(kernel.directory.join(name), out.join(name)).ok()?;
    (bytes == binary.bytes).then(|| binary.clone())
}

fn append(path: &Path, text: &str) -> Result<(), BuildError> {
    fs::File::options()
        .append(true)
        .open(path)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|e| io_error(path, e))
}

/// Keeps the notes that gcov reads beside the counts.
fn keep_gcov(objects: &Path, to: &Path) -> Result<(), BuildError> {
    let from = objects.join(PANTHOR);
    fs::create_dir_all(to).map_err(|e| io_error(to, e))?;
    for entry in fs::read_dir(&from).map_err(|e| io_error(&from, e))? {
        let path = entry.map_err(|e| io_error(&from, e))?.path();
        if path.extension().is_some_and(|e| e == "gcno") {
            let to = to.join(path.file_name().unwrap_or_default());
            fs::copy(&path, &to).map_err(|e| io_error(&path, e))?;
        }
    }
    Ok(())
}

fn copy_directory(from: &Path, to: &Path) -> Result<(), BuildError> {
    fs::create_dir_all(to).map_err(|e| io_error(to, e))?;
    for entry in fs::read_dir(from).map_err(|e| io_error(from, e))? {
        let path = entry.map_err(|e| io_error(from, e))?.path();
        if path.is_file() {
            let to = to.join(path.file_name().unwrap_or_default());
            fs::copy(&path, &to).map_err(|e| io_error(&path, e))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_machines_are_told_plainly() {
        assert!(check_machine("x86_64").is_ok());
        let error = check_machine("aarch64").expect_err("no User Mode Linux");
        assert_eq!(
            error.to_string(),
            "the rig needs an x86-64 machine: User Mode Linux, in which it runs the kernel's driver, exists for x86 only, and this is aarch64"
        );
    }

    #[test]
    fn what_decides_a_kernels_bytes_decides_its_hash() {
        assert_ne!(recipe(Variant::Plain), recipe(Variant::Debug));
        let manifest = |origin, recipe: &str| Manifest {
            format: cache::FORMAT,
            name: "7.2".to_owned(),
            variant: Variant::Plain,
            release: "7.2.13".to_owned(),
            origin,
            recipe: recipe.to_owned(),
            built: 0,
            toolchain: String::new(),
            smp_unavailable: false,
            binaries: Vec::new(),
        };
        let debian = |version: &str| Origin::Debian {
            package: "linux-source-7.2".to_owned(),
            version: version.to_owned(),
        };
        let tree = |path: &str, digest: &str| Origin::Tree {
            path: path.into(),
            digest: digest.to_owned(),
        };
        let first = hash(&manifest(debian("7.2.13-1"), "a"));
        assert_eq!(first, hash(&manifest(debian("7.2.13-1"), "a")));
        assert_ne!(first, hash(&manifest(debian("7.2.14-1"), "a")));
        assert_ne!(first, hash(&manifest(debian("7.2.13-1"), "b")));
        assert_eq!(
            hash(&manifest(tree("/a", "d"), "a")),
            hash(&manifest(tree("/b", "d"), "a"))
        );
        assert_ne!(
            hash(&manifest(tree("/a", "d"), "a")),
            hash(&manifest(tree("/a", "e"), "a"))
        );
    }
}
