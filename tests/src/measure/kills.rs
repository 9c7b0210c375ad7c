//! Clients killed at random moments, and what is left of them.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use panthor_uapi::{BindOp, BoFlags, Device, GpuVa, SyncOp, VmBindOpFlags};
use serde::{Deserialize, Serialize};

use super::client::{BASE, Client, StepError, error_word};
use super::inside::{fresh_line, open, settle, verb};
use super::observe::{KernelLog, snapshot};
use super::peer::Process;
use super::provoke::{Provocation, countdown, provoke};
use super::record::{Message, Snapshot};

/// What killed clients were doing.
pub const TRADES: [&str; 7] = [
    "healthy jobs, one after another",
    "an endless job",
    "a wait that never ends",
    "twelve groups",
    "asynchronous binds",
    "VMs and groups made and destroyed",
    "a fault",
];
/// Clients at a time.
const HERD: usize = 3;
/// Longest life of a client, in microseconds.
const LIFE_US: u64 = 60_000;
/// How long a killed client may take to be gone, in milliseconds: the driver's five seconds and more.
const GONE_MS: u64 = 20_000;

/// What is left after the last kill.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct KillsRecord {
    /// Clients killed, by what they were doing.
    pub killed: BTreeMap<String, u32>,
    /// Clients that had ended by themselves before, with their last word.
    pub ended: Vec<String>,
    /// Clients that were not gone in time after SIGKILL.
    pub stuck: Vec<String>,
    /// Before the first client.
    pub before: Snapshot,
    /// After the last.
    pub after: Snapshot,
    /// KiB of memory available (`/proc/meminfo`) after the first tenth of the clients, and at the end.
    pub available_kib: (u64, u64),
    /// KiB of kernel slabs at the same moments.
    pub slab_kib: (u64, u64),
    /// How a healthy job fared at the end: `passed …` or `failed …`.
    pub last: String,
    /// The kernel's messages.
    pub messages: Vec<Message>,
}

/// Messages that kills may cause; everything else that the driver says at warning level or above is unexpected.
///
/// The flush's is the rig's own: on the wall clock the driver's 100 ms run while the host computes what the GPU does.
pub const DOCUMENTED: [&str; 9] = [
    "job timeout",
    "Flush caches timeout",
    "CS_FATAL",
    "Unhandled Page fault",
    "raw fault status",
    "update request timedout",
    "exception type",
    "access type",
    "source id",
];

impl KillsRecord {
    /// Messages of warning level or above that no kill explains.
    pub fn unexpected(&self) -> Vec<&Message> {
        let documented = |text: &str| DOCUMENTED.iter().any(|known| text.contains(known));
        let bad = |m: &&Message| m.level <= 4 && !documented(&m.text);
        self.messages.iter().filter(bad).collect()
    }
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }
}

/// Starts and kills `count` clients of the node at `path`; needs root.
///
/// # Errors
/// [`StepError`] where no client can be started.
pub fn run(count: u32, seed: u64, path: &str) -> Result<KillsRecord, StepError> {
    let log = KernelLog::start(0);
    let mut random = Random(seed);
    // The first client ever leaves lasting allocations of its own.
    fresh_line(path);
    settle();
    let mut record = KillsRecord {
        before: snapshot(None),
        ..KillsRecord::default()
    };
    let mut herd: Vec<(usize, Process)> = Vec::new();
    for n in 0..count {
        if n == count / 10 {
            thin(&mut herd, 0, &mut random, &mut record);
            drop_caches();
            record.available_kib.0 = meminfo("MemAvailable");
            record.slab_kib.0 = meminfo("Slab");
        }
        let trade = random.below(TRADES.len() as u64) as usize;
        let client = Process::start(&[verb::PREY, &trade.to_string(), path])?;
        herd.push((trade, client));
        thin(&mut herd, HERD - 1, &mut random, &mut record);
    }
    thin(&mut herd, 0, &mut random, &mut record);
    settle();
    record.last = fresh_line(path);
    drop_caches();
    record.available_kib.1 = meminfo("MemAvailable");
    record.slab_kib.1 = meminfo("Slab");
    record.after = snapshot(None);
    record.messages = log.map(KernelLog::finish).unwrap_or_default();
    Ok(record)
}

/// Kills clients after a random while until `left` are left.
fn thin(
    herd: &mut Vec<(usize, Process)>,
    left: usize,
    random: &mut Random,
    record: &mut KillsRecord,
) {
    while herd.len() > left {
        std::thread::sleep(Duration::from_micros(random.below(LIFE_US)));
        let (trade, mut client) = herd.remove(random.below(herd.len() as u64) as usize);
        let trade = TRADES[trade];
        if let Ok(word) = client.hear(0) {
            record.ended.push(format!("{trade}: {word}"));
        }
        client.kill();
        if client.end(GONE_MS) {
            *record.killed.entry(trade.to_owned()).or_default() += 1;
        } else {
            let where_ = super::observe::threads(client.id());
            record.stuck.push(format!("{trade}: {where_}"));
        }
    }
}

/// Gives back what the kernel keeps only because nobody else wants it: pages of files, inodes, directory entries.
fn drop_caches() {
    // Without it the figures are larger, and the limits catch it.
    let _ = fs::write("/proc/sys/vm/drop_caches", "3");
    settle();
}

/// A line of `/proc/meminfo`, in KiB.
fn meminfo(name: &str) -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok())
        .unwrap_or_default()
}

/// A client to be killed: goes on with its trade until then; says a word only where it cannot go on.
pub fn be_prey(trade: usize, path: &str) {
    if let Err(error) = open(path).and_then(|device| ply(trade, &device)) {
        println!("{}", error_word(&error));
    }
    loop {
        std::thread::sleep(Duration::from_secs(3600));
    }
}

fn ply(trade: usize, device: &Device) -> Result<(), StepError> {
    let client = Client::new(device)?;
    match trade {
        0 => {
            let group = client.group(1)?;
            loop {
                let job = client.submit(&group, 0, "healthy", &countdown(200))?;
                client.finish(&job, 10_000)?;
            }
        }
        1 => hold(&client, Provocation::EndlessLoop),
        2 => hold(&client, Provocation::SyncWaitNever),
        3 => hold(&client, Provocation::Groups { n: 12, turns: 1000 }),
        4 => loop {
            let bo = device.create_bo(0x10000, BoFlags::empty(), None)?;
            let done = device.create_syncobj(false)?;
            let va = GpuVa(BASE + 0x100_0000);
            let map = BindOp::map(&bo, 0, va, 0x10000, VmBindOpFlags::MAP_NOEXEC);
            let unmap = BindOp::unmap(va, 0x10000).with_sync(SyncOp::signal(&done, 0));
            client.vm().bind_async(&[map, unmap])?;
            client.finish(&client.watch("bind", done), 10_000)?;
        },
        5 => loop {
            let other = Client::new(device)?;
            let group = other.group(2)?;
            other.submit(&group, 1, "dropped", &countdown(100))?;
        },
        _ => hold(&client, Provocation::Unmapped),
    }
}

/// Keeps what a provocation set going until the end.
fn hold(client: &Client, provocation: Provocation) -> Result<(), StepError> {
    let provoked = provoke(client, provocation)?;
    loop {
        std::thread::sleep(Duration::from_secs(3600));
        std::hint::black_box(&provoked.jobs);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_documented_messages_are_expected() {
        let message = |level, text: &str| Message {
            at_ms: 0.0,
            level,
            text: text.to_owned(),
        };
        let record = KillsRecord {
            messages: vec![
                message(4, "panthor: [drm] job timeout: pid=3"),
                message(6, "something chatty"),
                message(4, "WARNING: drivers/gpu/drm/panthor/panthor_sched.c:1 at x"),
                message(3, "panthor: [drm] *ERROR* AS_ACTIVE bit stuck"),
            ],
            ..KillsRecord::default()
        };
        let texts: Vec<_> = record.unexpected().iter().map(|m| m.text.clone()).collect();
        assert_eq!(texts.len(), 2);
        assert!(texts[0].starts_with("WARNING"));
    }

    #[test]
    fn randomness_is_the_seed_s() {
        let draw = |seed| {
            let mut random = Random(seed);
            [random.below(1000), random.below(1000), random.below(7)]
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }
}
