//! The kernel's log during a sequence.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;

/// A log that can be asked for what is new in it.
pub trait Log {
    /// The lines since the last call, `None` where they cannot be had.
    fn take(&mut self) -> Option<Vec<String>>;
}

/// No log.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Log for Silent {
    fn take(&mut self) -> Option<Vec<String>> {
        None
    }
}

/// The running kernel's: `/dev/kmsg`.
#[derive(Debug)]
pub struct KernelLog(File);

impl KernelLog {
    /// Opens it at its end.
    ///
    /// # Errors
    /// Those of `open(2)`: most users may not.
    pub fn open() -> std::io::Result<Self> {
        let mut file = File::options()
            .read(true)
            .custom_flags(rustix::fs::OFlags::NONBLOCK.bits() as i32)
            .open("/dev/kmsg")?;
        file.seek(SeekFrom::End(0))?;
        Ok(Self(file))
    }
}

impl Log for KernelLog {
    fn take(&mut self) -> Option<Vec<String>> {
        let mut lines = Vec::new();
        let mut record = [0; 8192];
        loop {
            match self.0.read(&mut record) {
                Ok(0) => break,
                Ok(n) => {
                    let text = String::from_utf8_lossy(&record[..n]);
                    // "priority,number,time,flags;text", then lines of details.
                    let text = text.split_once(';').map_or(&*text, |(_, text)| text);
                    lines.extend(text.lines().next().map(str::to_owned));
                }
                // EPIPE: the ring has overtaken us; the next read goes on with what is left.
                Err(error) if error.raw_os_error() == Some(32) => {
                    lines.push("log: lines lost".into());
                }
                Err(_) => break,
            }
        }
        Some(lines)
    }
}

/// What a client's mistakes may bring into the log, by a part of the line, and its name in records.
const EXPECTED: [(&str, &str); 5] = [
    ("job timeout", "job timeout"),
    ("CS_FATAL", "CS_FATAL"),
    ("CS_FAULT", "CS_FAULT"),
    ("Unhandled Page fault", "page fault"),
    ("CS_UNRECOVERABLE", "unrecoverable"),
];

/// Beginnings and parts of lines that no client may cause.
const ALARMS: [&str; 16] = [
    "WARNING:",
    "BUG:",
    "Oops",
    "refcount_t",
    "list_add corruption",
    "list_del corruption",
    "use-after-free",
    "KASAN",
    "possible circular locking",
    "possible recursive locking",
    "sleeping function called",
    "Kernel panic",
    "blocked for more than",
    "timedout",
    "Failed to boot MCU",
    "AS_ACTIVE bit stuck",
];

/// The names of expected messages, and the lines that are none.
pub fn classify(lines: Option<Vec<String>>) -> (Option<BTreeSet<String>>, Vec<String>) {
    let Some(lines) = lines else {
        return (None, Vec::new());
    };
    let mut names = BTreeSet::new();
    let mut alarms = Vec::new();
    for line in lines {
        if let Some((_, name)) = EXPECTED.iter().find(|(part, _)| line.contains(part)) {
            names.insert((*name).to_owned());
        } else if ALARMS.iter().any(|part| line.contains(part)) {
            alarms.push(line);
        }
    }
    (Some(names), alarms)
}

#[cfg(test)]
mod tests {
    use super::classify;

    #[test]
    fn faults_are_expected_and_warnings_are_not() {
        let lines = [
            "panthor 8fb000000.gpu: [drm] job timeout: pid=3, comm=x, seqno=1",
            "WARNING: CPU: 0 PID: 33 at drivers/gpu/drm/panthor/panthor_drv.c:625",
            "Modules linked in:",
        ];
        let (names, alarms) = classify(Some(lines.map(str::to_owned).to_vec()));
        assert_eq!(
            names.unwrap().into_iter().collect::<Vec<_>>(),
            ["job timeout"]
        );
        assert_eq!(alarms.len(), 1);
        assert_eq!(classify(None), (None, vec![]));
    }
}
