//! Changing the cache: a finished kernel gets its place, and what is not wanted goes.

use std::fs;
use std::path::Path;

use serde::Serialize;

use super::{CacheError, Kernel, MANIFEST, Manifest, label, list_in};

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::Variant;
    use crate::cache::tests::{manifest, put};

    #[test]
    fn a_new_kernel_takes_the_place_of_the_old_one_of_its_name_and_variant_only() {
        let cache = tempfile::tempdir().expect("temporary directory");
        let cache = cache.path();
        put(cache, manifest("7.2", Variant::Plain, 10), "111111111111");
        put(cache, manifest("7.2", Variant::Gcov, 11), "222222222222");
        put(cache, manifest("7.2", Variant::Plain, 12), "333333333333");
        let names: Vec<String> = list_in(cache)
            .expect("list")
            .iter()
            .map(Kernel::hash)
            .collect();
        assert_eq!(names, ["333333333333", "222222222222"]);
        // The same again, as after --force.
        put(cache, manifest("7.2", Variant::Plain, 13), "333333333333");
        assert_eq!(list_in(cache).expect("list").len(), 2);
    }

    #[test]
    fn cleaning_takes_away_what_is_ours_and_nothing_else() {
        let cache = tempfile::tempdir().expect("temporary directory");
        let cache = cache.path();
        for (name, variant, hash) in [
            ("7.2", Variant::Plain, "111111111111"),
            ("7.2", Variant::Debug, "222222222222"),
            ("7.3", Variant::Plain, "333333333333"),
        ] {
            put(cache, manifest(name, variant, 1), hash);
        }
        fs::write(cache.join("notes"), "theirs").expect("file");
        fs::create_dir(cache.join("theirs")).expect("directory");
        fs::create_dir(cache.join(".build")).expect("directory");
        fs::write(cache.join("7.2-build.log"), "log").expect("file");
        let one = clean_in(cache, Some("7.2-debug")).expect("cleaned");
        assert_eq!(one.kernels, ["7.2-debug"]);
        assert!(one.bytes > 4);
        assert!(cache.join(".build").exists());
        assert!(matches!(
            clean_in(cache, Some("7.2-debug")),
            Err(CacheError::NothingToClean { .. })
        ));
        assert_eq!(
            clean_in(cache, None).expect("cleaned").kernels,
            ["7.2", "7.3"]
        );
        let mut left: Vec<_> = fs::read_dir(cache)
            .expect("directory")
            .map(|e| e.expect("entry").file_name())
            .collect();
        left.sort();
        assert_eq!(left, ["notes", "theirs"]);
        let nothing = clean_in(&cache.join("absent"), None).expect("nothing to do");
        assert_eq!(nothing, Cleaned::default());
    }

    #[test]
    fn nothing_is_cleaned_under_a_running_build() {
        let cache = tempfile::tempdir().expect("temporary directory");
        put(
            cache.path(),
            manifest("7.2", Variant::Plain, 1),
            "111111111111",
        );
        let lock = fs::File::create(cache.path().join(LOCK)).expect("lock");
        rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).expect("locked");
        assert!(matches!(
            clean_in(cache.path(), None),
            Err(CacheError::Busy(_))
        ));
        assert_eq!(list_in(cache.path()).expect("list").len(), 1);
    }
}
