//! What the kernel shows of itself: interrupts, power, memory, tracepoints, log.
//!
//! Everything here is optional: a file that is not there or may not be read gives nothing.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::record::{Message, Snapshot, TraceRecord};

/// Where tracefs is mounted.
const TRACING: &str = "/sys/kernel/tracing";
/// The events that are recorded; those that a kernel does not have are left out. Of `irq` only one, since the others fire for
/// the kernel's own housekeeping. Of `panthor` not `gpu_power_status`: switching it on resumes the device
/// (`panthor_gpu.c`, panthor_gpu_power_changed_on) and so changes what is observed.
const EVENTS: [&str; 5] = [
    "gpu_scheduler",
    "dma_fence",
    "panthor/gpu_job_irq",
    "rpm",
    "irq/irq_handler_entry",
];
/// Kilobytes of the trace buffer.
const TRACE_KB: &str = "16384";
/// Lines kept of the trace's start and as many of its end.
const KEPT: usize = 14;

/// What can be seen now. `pid` names the process whose `fdinfo` tells the active memory.
pub fn snapshot(pid: Option<u32>) -> Snapshot {
    let device = gpu_device();
    let read = |path: PathBuf| fs::read_to_string(path).ok().map(|s| s.trim().to_owned());
    let of_device = |file: &str| device.as_ref().and_then(|d| read(d.join(file)));
    Snapshot {
        interrupts: interrupts(&fs::read_to_string("/proc/interrupts").unwrap_or_default()),
        runtime_status: of_device("power/runtime_status"),
        active_memory: pid.and_then(active_memory),
        gems: gems(),
        frequency_hz: frequency(device.as_deref()),
    }
}

/// The GPU's device in sysfs: what stands behind the first render node.
pub fn gpu_device() -> Option<PathBuf> {
    let nodes = fs::read_dir("/sys/class/drm").ok()?;
    let mut found: Vec<_> = nodes
        .flatten()
        .filter(|node| node.file_name().to_string_lossy().starts_with("renderD"))
        .filter_map(|node| fs::canonicalize(node.path().join("device")).ok())
        .collect();
    found.sort();
    found.into_iter().next()
}

/// Counts of the driver's three lines, from the text of `/proc/interrupts`.
fn interrupts(text: &str) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let Some(name) = line.split_whitespace().last() else {
            continue;
        };
        let Some(name) = name.strip_prefix("panthor-") else {
            continue;
        };
        words.next(); // the number with its colon
        let count: u64 = words.map_while(|word| word.parse::<u64>().ok()).sum();
        *counts.entry(name.to_owned()).or_default() += count;
    }
    counts
}

fn active_memory(pid: u32) -> Option<String> {
    let files = fs::read_dir(format!("/proc/{pid}/fdinfo")).ok()?;
    for file in files.flatten() {
        let text = fs::read_to_string(file.path()).unwrap_or_default();
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("panthor-active-memory:"));
        if let Some(value) = line {
            return Some(value.trim().to_owned());
        }
    }
    None
}

fn gems() -> Option<usize> {
    let directories = fs::read_dir("/sys/kernel/debug/dri").ok()?;
    let mut paths: Vec<_> = directories
        .flatten()
        .map(|d| d.path().join("gems"))
        .collect();
    paths.sort();
    let text = paths
        .iter()
        .find_map(|path| fs::read_to_string(path).ok())?;
    Some(text.lines().filter(|line| is_gem(line)).count())
}

/// Whether a line of `gems` describes an object: they start with the creator's `comm/tgid/tid`.
fn is_gem(line: &str) -> bool {
    line.split_whitespace()
        .next()
        .is_some_and(|first| first.matches('/').count() >= 1)
}

fn frequency(device: Option<&Path>) -> Option<u64> {
    let name = device?.file_name()?;
    let path = Path::new("/sys/class/devfreq").join(name).join("cur_freq");
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// The tracepoints, switched on until [`Trace::finish`].
#[derive(Debug)]
pub struct Trace(());

impl Trace {
    /// Clears the buffer and switches the events on; `None` where tracefs cannot be used.
    pub fn start() -> Option<Self> {
        let write = |file: &str, value: &str| fs::write(Path::new(TRACING).join(file), value).ok();
        write("tracing_on", "0")?;
        // The buffer stays as it is where the kernel refuses.
        let _ = write("buffer_size_kb", TRACE_KB);
        write("trace_clock", "mono")?;
        write("trace", "")?;
        // 6.12 keeps fences of schedulers that are gone and crashes when it prints their names.
        let old = rustix::system::uname()
            .release()
            .to_bytes()
            .starts_with(b"6.");
        for events in EVENTS.into_iter().filter(|e| !(old && *e == "dma_fence")) {
            // Not there in every kernel.
            let _ = write(&format!("events/{events}/enable"), "1");
        }
        write("tracing_on", "1")?;
        Some(Self(()))
    }

    /// Switches the events off and reads them.
    pub fn finish(self) -> TraceRecord {
        let path = Path::new(TRACING);
        // Whatever fails here shows as an empty trace.
        let _ = fs::write(path.join("tracing_on"), "0");
        let text = fs::read_to_string(path.join("trace")).unwrap_or_default();
        let _ = fs::write(path.join("events/enable"), "0");
        let _ = fs::write(path.join("trace"), "");
        trace_record(&text)
    }
}

/// A trace's text reduced to a record.
fn trace_record(text: &str) -> TraceRecord {
    let mut record = TraceRecord::default();
    let mut hash = Fnv::default();
    let mut telling = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let Some((event, rest)) = event_of(line) else {
            continue;
        };
        if event == "irq_handler_entry" && !rest.contains("panthor") {
            continue;
        }
        hash.line(line);
        *record.counts.entry(event.to_owned()).or_default() += 1;
        if TELLING.contains(&event) {
            telling.push(format!("{} {event}: {rest}", time_of(line)));
        }
    }
    record.hash = format!("{:016x}", hash.0);
    if telling.len() > 2 * KEPT {
        let left = telling.len() - 2 * KEPT;
        let end = telling.split_off(telling.len() - KEPT);
        telling.truncate(KEPT);
        telling.push(format!("… {left} lines …"));
        telling.extend(end);
    }
    record.lines = telling;
    record
}

/// Events whose lines are kept.
const TELLING: [&str; 9] = [
    "drm_sched_job_queue",
    "drm_sched_job_run",
    "drm_sched_job_done",
    "drm_sched_job_unschedulable",
    "drm_sched_job",
    "drm_run_job",
    "drm_sched_process_job",
    "dma_fence_signaled",
    "gpu_job_irq",
];

/// The event's name and its fields: `comm-pid [cpu] flags time: event: fields`.
fn event_of(line: &str) -> Option<(&str, &str)> {
    let (_, after) = line.split_once("] ")?;
    let (_, after) = after.split_once(": ")?;
    let (event, rest) = after.split_once(": ").or_else(|| after.split_once(":"))?;
    Some((event.trim(), rest.trim()))
}

/// The line's time in seconds, as printed.
fn time_of(line: &str) -> &str {
    line.split_once("] ")
        .and_then(|(_, after)| after.split_once(": "))
        .and_then(|(head, _)| head.split_whitespace().last())
        .unwrap_or("?")
}

/// FNV-1a over lines.
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    fn line(&mut self, line: &str) {
        for byte in line.bytes().chain([b'\n']) {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
}

/// The kernel's log from here on.
#[derive(Debug)]
pub struct KernelLog {
    file: fs::File,
    zero_us: u64,
}

impl KernelLog {
    /// Starts at the log's present end; times are told from `zero_us` of the monotonic clock. `None` where `/dev/kmsg` may
    /// not be read.
    pub fn start(zero_us: u64) -> Option<Self> {
        let file = fs::OpenOptions::new()
            .read(true)
            .custom_flags(rustix::fs::OFlags::NONBLOCK.bits() as i32)
            .open("/dev/kmsg")
            .ok()?;
        rustix::fs::seek(&file, rustix::fs::SeekFrom::End(0)).ok()?;
        Some(Self { file, zero_us })
    }

    /// The lines since then.
    pub fn finish(mut self) -> Vec<Message> {
        let mut messages = Vec::new();
        let mut buffer = [0; 8192];
        // Each read is one record; the end is EAGAIN, an overwritten record EPIPE.
        loop {
            match self.file.read(&mut buffer) {
                Ok(0) => break,
                Ok(len) => {
                    let text = String::from_utf8_lossy(&buffer[..len]);
                    messages.extend(message(&text, self.zero_us));
                }
                Err(error)
                    if error.raw_os_error() == Some(rustix::io::Errno::PIPE.raw_os_error()) => {}
                Err(_) => break,
            }
        }
        messages
    }
}

/// One record of `/dev/kmsg`: `priority,sequence,microseconds,flags;text`, continued by lines with a space.
fn message(record: &str, zero_us: u64) -> Option<Message> {
    let (head, text) = record.split_once(';')?;
    let mut fields = head.split(',');
    let priority: u32 = fields.next()?.parse().ok()?;
    let at_us: u64 = fields.nth(1)?.parse().ok()?;
    let text = text.lines().next()?.replace("\\x0a", " / ");
    Some(Message {
        at_ms: (at_us as f64 - zero_us as f64) / 1000.0,
        level: (priority & 7) as u8, // three bits
        text: text.trim_end_matches(" / ").trim_end().to_owned(),
    })
}

/// Where a process's threads sleep: `name: wchan, syscall` each.
pub fn threads(pid: u32) -> String {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return "gone".to_owned();
    };
    let mut lines = Vec::new();
    for task in tasks.flatten() {
        let read = |file: &str| {
            let text = fs::read_to_string(task.path().join(file)).unwrap_or_default();
            text.trim().replace('\n', " < ")
        };
        let state = read("stat");
        let state = state.rsplit(") ").next().and_then(|s| s.chars().next());
        lines.push(format!(
            "state {}, wchan {}, syscall {}, stack {}",
            state.unwrap_or('?'),
            read("wchan"),
            read("syscall").split(' ').next().unwrap_or(""),
            read("stack")
        ));
    }
    lines.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interrupts_of_the_driver_are_summed_over_cpus() {
        let text = "           CPU0       CPU1\n  4:        731          1  um_timer\n \
                    72:          9          3  mali 0 panthor-job\n 73:  0  0  mali 1 panthor-mmu\n";
        let counts = interrupts(text);
        assert_eq!(counts.get("job"), Some(&12));
        assert_eq!(counts.get("mmu"), Some(&0));
        assert_eq!(counts.len(), 2);
    }

    #[test]
    fn trace_lines_are_counted_hashed_and_shortened() {
        let line = |event: &str, n: u32| {
            format!("  ptest-31  [000] d..2.  1.{n:06}: {event}: driver=panthor seqno={n}\n")
        };
        let mut text = String::from("# tracer: nop\n");
        for n in 0..100 {
            text += &line("dma_fence_signaled", n);
        }
        text += &line("dma_fence_destroy", 3);
        text += "  idle-0  [000] d.h1. 2.0: irq_handler_entry: irq=4 name=um_timer\n";
        let record = trace_record(&text);
        assert_eq!(record.counts["dma_fence_signaled"], 100);
        assert_eq!(record.counts["dma_fence_destroy"], 1);
        assert!(!record.counts.contains_key("irq_handler_entry"));
        assert_eq!(record.lines.len(), 2 * KEPT + 1);
        assert_eq!(
            record.lines[0],
            "1.000000 dma_fence_signaled: driver=panthor seqno=0"
        );
        let other = trace_record(&text.replace("seqno=3", "seqno=4"));
        assert_ne!(record.hash, other.hash);
        assert_eq!(record, trace_record(&text));
    }

    #[test]
    fn records_of_the_log_are_read() {
        let m = message(
            "4,512,5012345,-;panthor 8fb.gpu: [drm] job timeout\\x0a\n SUBSYSTEM=x\n",
            5_000_000,
        );
        let m = m.unwrap();
        assert_eq!((m.level, m.at_ms), (4, 12.345));
        assert_eq!(m.text, "panthor 8fb.gpu: [drm] job timeout");
        assert_eq!(message("no record", 0), None);
    }
}
