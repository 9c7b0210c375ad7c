//! Where the machine's memory lies: an unlinked file that User Mode Linux makes in a directory, and executes from.

use std::path::{Path, PathBuf};

use rustix::fs::{StatVfs, StatVfsMountFlags};

use super::error::MachineError;

/// Where User Mode Linux puts its memory unless told otherwise (arch/um/os-Linux/mem.c, `choose_tempdir`).
const SHARED_MEMORY: &str = "/dev/shm";
/// Names a directory that is taken where the first does not do.
const VARIABLE: &str = "TMPDIR";
/// Memory of a machine, in MiB, where `memory=` does not say otherwise.
pub const DEFAULT_MIB: u32 = 1024;
/// Bounds of `memory=`, in MiB. Below, the driver and the commands do not fit.
pub const RANGE_MIB: std::ops::RangeInclusive<u32> = 128..=65536;

/// The directory for a machine's memory of `mib` MiB: `/dev/shm`, else what TMPDIR names.
///
/// # Errors
/// [`MachineError::Memory`]: what is wrong with each, and what to do.
pub fn place(mib: u32) -> Result<PathBuf, MachineError> {
    let variable = std::env::var_os(VARIABLE).map(PathBuf::from);
    choose(Path::new(SHARED_MEMORY), variable.as_deref(), mib)
}

fn choose(first: &Path, second: Option<&Path>, mib: u32) -> Result<PathBuf, MachineError> {
    let Err(why) = check(first, mib) else {
        return Ok(first.to_owned());
    };
    let second = second.filter(|s| s.is_absolute() && *s != first);
    let also = match second.map(|s| (s, check(s, mib))) {
        Some((second, Ok(()))) => return Ok(second.to_owned()),
        Some((_, Err(why))) => format!(", and {VARIABLE}'s {why}"),
        None => String::new(),
    };
    Err(MachineError::Memory(format!(
        "the rig's memory of {mib} MiB has no place: {why}{also}; remount it (mount -o remount,exec,size={}M {}), let \
         {VARIABLE} name a directory with room, or ask for less (rig:memory=MIB)",
        u64::from(mib) * 2,
        first.display(),
    )))
}

/// Whether the directory has the room and allows execution; else what is wrong, beginning with its name.
fn check(directory: &Path, mib: u32) -> Result<(), String> {
    let name = directory.display();
    let found = rustix::fs::statvfs(directory)
        .map_err(|e| format!("{name}: {}", std::io::Error::from(e)))?;
    judge(&found, mib).map_err(|why| format!("{name} {why}"))
}

fn judge(found: &StatVfs, mib: u32) -> Result<(), String> {
    if found.f_flag.contains(StatVfsMountFlags::NOEXEC) {
        return Err("is mounted noexec".to_owned());
    }
    if found.f_flag.contains(StatVfsMountFlags::RDONLY) {
        return Err("is mounted read-only".to_owned());
    }
    let free = found.f_bavail.saturating_mul(found.f_frsize) >> 20;
    // A tmpfs without a limit counts no blocks at all.
    if found.f_blocks > 0 && free < u64::from(mib) {
        return Err(format!("has {free} MiB free"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statvfs(blocks: u64, free: u64, flags: StatVfsMountFlags) -> StatVfs {
        let mut found = rustix::fs::statvfs("/").expect("the root");
        (found.f_blocks, found.f_bavail, found.f_frsize) = (blocks, free, 4096);
        found.f_flag = flags;
        found
    }

    #[test]
    fn too_little_room_and_noexec_are_told_apart() {
        let none = StatVfsMountFlags::empty();
        assert_eq!(judge(&statvfs(1 << 20, 256 << 8, none), 256), Ok(()));
        assert_eq!(
            judge(&statvfs(1 << 20, (256 << 8) - 1, none), 256),
            Err("has 255 MiB free".into())
        );
        assert_eq!(judge(&statvfs(0, 0, none), 256), Ok(()));
        assert_eq!(
            judge(&statvfs(1 << 20, 1 << 20, StatVfsMountFlags::NOEXEC), 256),
            Err("is mounted noexec".into())
        );
    }

    #[test]
    fn the_second_directory_serves_where_the_first_does_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let absent = Path::new("/nonexistent/shm");
        let chosen = choose(absent, Some(folder.path()), 128);
        assert_eq!(chosen.expect("the second"), folder.path());
        let error = choose(absent, None, 128).expect_err("no place").to_string();
        for word in ["/nonexistent/shm", "128 MiB", "TMPDIR", "rig:memory="] {
            assert!(error.contains(word), "{word}: {error}");
        }
        let error = choose(absent, Some(Path::new("/nonexistent/tmp")), 128).expect_err("none");
        assert!(error.to_string().contains("/nonexistent/tmp"), "{error}");
    }
}
