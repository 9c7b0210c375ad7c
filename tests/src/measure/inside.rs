//! The half that runs on the device: one scenario, one record.

use std::io::{BufRead, Write};
use std::path::Path;
use std::time::Duration;

use panthor_uapi::{Device, KernelTransport, SharedTransport};

use super::client::{StepError, error_word};
use super::observe::{KernelLog, Trace, gpu_device, snapshot, threads};
use super::peer::{Bystander, PROBE_MS, Process};
use super::record::{ProbeRecord, Record, RungRecord, VictimRecord};
use super::scenario::Scenario;
use super::victim::{self, HEALTHY_MS, in_words, passed};

/// The words by which this program's processes are started (hidden verbs of the binary).
pub mod verb {
    /// The victim: scenario and device follow.
    pub const VICTIM: &str = "victim";
    /// The second client: the device follows.
    pub const SECOND: &str = "second";
    /// One healthy job on a descriptor of its own: the device follows.
    pub const FRESH: &str = "fresh";
    /// A client that is to be killed: what it does (an index of [`super::super::kills::TRADES`]) and the device follow.
    pub const PREY: &str = "prey";
}

/// What the victim says once everything is submitted.
const STUCK: &str = "stuck";
/// When the victim is started, in milliseconds of the kernel's monotonic clock: late enough for the boot and the second
/// client's first job. Faults of scenarios strike from [`FAULT_AT_MS`] on.
const VICTIM_AT_MS: u64 = 5000;
/// From when on the faults of scenarios strike, as their `from=` says: see the test.
pub const FAULT_AT_MS: u64 = 4500;
/// What a victim may take for everything but the watch, in milliseconds: the calls afterwards and two rungs.
const AFTERWARDS_MS: u64 = 6 * HEALTHY_MS;
/// How long a process may take to end after its input closed, in milliseconds.
const END_MS: u64 = 15_000;
/// How long the idle device is given to suspend, in milliseconds (the driver's autosuspend is 50 ms).
const SUSPEND_MS: u64 = 3000;

/// Opens the node at `path` of the running kernel.
///
/// # Errors
/// [`StepError::Driver`].
pub fn open(path: &str) -> Result<Device, StepError> {
    Ok(Device::open(KernelTransport::shared(), path)?)
}

/// Runs `scenario` on a simulator: victim and second client are two files of it, and there is nothing to observe.
///
/// # Errors
/// [`StepError`] where the scenario could not be set up.
pub fn on_simulator(scenario: &Scenario, transport: &SharedTransport) -> Result<Record, StepError> {
    let device = Device::open(transport.clone(), "/dev/dri/renderD128")?;
    let other = Device::open(transport.clone(), "/dev/dri/renderD128")?;
    let mut second = Bystander::new(&other)?;
    let mut probes = vec![second.probe("before")];
    let mut during = None;
    let victim = victim::run(
        &device,
        scenario.provocation,
        scenario.watch_ms,
        &mut || {
            during = Some(second.probe("during"));
        },
    )?;
    probes.extend(during);
    probes.push(second.probe("after"));
    Ok(Record {
        scenario: scenario.name.to_owned(),
        kernel: "simulator".to_owned(),
        driver: device.version().to_string(),
        victim: Some(victim),
        second: probes,
        ..Record::default()
    })
}

/// Runs `scenario` on the node at `path` of the running kernel, with processes for victim and second client.
///
/// # Errors
/// [`StepError`] where the scenario could not be set up; a victim that hangs is a result.
pub fn on_kernel(scenario: &Scenario, path: &str) -> Result<Record, StepError> {
    let log = KernelLog::start(VICTIM_AT_MS * 1000);
    let at_start = snapshot(None);
    let driver = open(path).map(|device| device.version().to_string())?;
    let mut record = Record {
        scenario: scenario.name.to_owned(),
        kernel: release(),
        driver,
        at_start,
        ..Record::default()
    };
    let mut second = Process::start(&[verb::SECOND, path])?;
    record.second.push(ask(&mut second, "before"));
    if scenario.awake {
        keep_awake()?;
    }
    // The device comes to rest meanwhile, unless it is kept awake, so that a scenario begins with a resume.
    sleep_until(VICTIM_AT_MS);
    record.before = snapshot(None);
    let trace = Trace::start();
    let mut victim = Process::start(&[verb::VICTIM, scenario.name, path])?;
    watch(scenario, &mut victim, &mut second, &mut record);
    record.trace = trace.map(Trace::finish);
    record.after = snapshot(Some(victim.id()));
    if !record
        .victim
        .as_ref()
        .is_some_and(|v| v.healthy || v.rungs.iter().any(|r| r.cured))
        || scenario.kill
    {
        climb(path, &mut victim, &mut second, &mut record);
    }
    close(&mut victim, "victim", &mut record);
    record.second.push(ask(&mut second, "after"));
    close(&mut second, "second client", &mut record);
    settle();
    record.at_end = snapshot(None);
    record.messages = log.map(KernelLog::finish).unwrap_or_default();
    Ok(record)
}

/// Keeps the device from suspending: `power/control=on`.
fn keep_awake() -> Result<(), StepError> {
    let device =
        gpu_device().ok_or_else(|| StepError::Unavailable("the GPU in sysfs".to_owned()))?;
    std::fs::write(device.join("power/control"), "on")
        .map_err(|e| StepError::Io("power/control".to_owned(), e))
}

/// Sleeps until the monotonic clock shows `ms` milliseconds.
fn sleep_until(ms: u64) {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let now_ns = now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64;
    std::thread::sleep(Duration::from_nanos(
        (ms * 1_000_000).saturating_sub(now_ns),
    ));
}

/// From the victim's submission to its report, or to what became of it.
fn watch(scenario: &Scenario, victim: &mut Process, second: &mut Process, record: &mut Record) {
    match victim.hear(scenario.watch_ms.max(60_000)) {
        Ok(line) if line == STUCK => {}
        Ok(line) => {
            record.victim_gone = Some(line);
            return;
        }
        Err(why) => {
            record.victim_gone = Some(format!(
                "{why} before its submission: {}",
                threads(victim.id())
            ));
            return;
        }
    }
    std::thread::sleep(Duration::from_millis(scenario.look_ms));
    record.during = snapshot(Some(victim.id()));
    if scenario.kill {
        victim.kill();
        record.second.push(ask(second, "during"));
        let ended = victim.end(END_MS);
        let word = if ended {
            "killed, gone"
        } else {
            "killed, not gone"
        };
        let where_ = if ended {
            String::new()
        } else {
            format!(": {}", threads(victim.id()))
        };
        record.victim_gone = Some(format!("{word}{where_}"));
        return;
    }
    record.second.push(ask(second, "during"));
    match victim.hear(scenario.watch_ms + AFTERWARDS_MS) {
        Ok(line) => match serde_json::from_str::<VictimRecord>(&line) {
            Ok(report) => record.victim = Some(report),
            Err(_) => record.victim_gone = Some(line),
        },
        Err(why) => record.victim_gone = Some(format!("{why}: {}", threads(victim.id()))),
    }
}

/// R3 to R5, until a healthy job passes.
fn climb(path: &str, victim: &mut Process, second: &mut Process, record: &mut Record) {
    let ended = victim.end(END_MS);
    let closed = if ended {
        "close, open again in a child".to_owned()
    } else {
        format!(
            "open again in a child; the victim's close blocks: {}",
            threads(victim.id())
        )
    };
    if rung(path, "R3", &closed, record) {
        return;
    }
    let _ = second.end(END_MS);
    settle();
    let status = snapshot(None)
        .runtime_status
        .unwrap_or_else(|| "unknown".to_owned());
    let what = format!("all clients closed, runtime status {status}, open again");
    if rung(path, "R4", &what, record) {
        return;
    }
    let what = match rebind() {
        Ok(()) => "driver unbound and bound again".to_owned(),
        Err(error) => format!("driver unbound and bound again: {}", error_word(&error)),
    };
    if rung(path, "R4", &what, record) {
        return;
    }
    record.rungs.push(RungRecord {
        rung: "R5".to_owned(),
        what: "boot again".to_owned(),
        cured: true,
        result: "every scenario runs on a kernel of its own; the model's fault ends with it"
            .to_owned(),
    });
}

/// A healthy job by a child of its own; notes the rung and says whether it passed.
fn rung(path: &str, name: &str, what: &str, record: &mut Record) -> bool {
    let result = fresh_line(path);
    let cured = result.starts_with("passed ");
    record.rungs.push(RungRecord {
        rung: name.to_owned(),
        what: what.to_owned(),
        cured,
        result,
    });
    cured
}

/// What a child with a descriptor of its own says about a healthy job: `passed …`, `failed …`, or why it said nothing.
pub fn fresh_line(path: &str) -> String {
    let mut child = match Process::start(&[verb::FRESH, path]) {
        Ok(child) => child,
        Err(error) => return error_word(&error),
    };
    let line = child.hear(2 * HEALTHY_MS);
    let line = line.unwrap_or_else(|why| format!("{why}: {}", threads(child.id())));
    if !child.end(1000) {
        child.kill();
    }
    line
}

/// Waits until the device is suspended, or long enough.
pub fn settle() {
    for _ in 0..SUSPEND_MS / 50 {
        if snapshot(None).runtime_status.as_deref() == Some("suspended") {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Unbinds the driver from the device and binds it again, through sysfs.
fn rebind() -> Result<(), StepError> {
    let device =
        gpu_device().ok_or_else(|| StepError::Unavailable("the GPU in sysfs".to_owned()))?;
    let name = device
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let driver = Path::new("/sys/bus/platform/drivers/panthor");
    for file in ["unbind", "bind"] {
        std::fs::write(driver.join(file), &name).map_err(|e| StepError::Io(file.to_owned(), e))?;
    }
    Ok(())
}

fn close(process: &mut Process, who: &str, record: &mut Record) {
    if !process.end(END_MS) {
        let line = format!("{who} does not end: {}", threads(process.id()));
        record.victim_gone = Some(match record.victim_gone.take() {
            Some(before) => format!("{before}; {line}"),
            None => line,
        });
        process.kill();
    }
}

/// Asks the second client for a healthy job.
fn ask(second: &mut Process, when: &str) -> ProbeRecord {
    second.tell(when);
    let lost = |status: String| ProbeRecord {
        when: when.to_owned(),
        status,
        ..ProbeRecord::default()
    };
    match second.hear(2 * PROBE_MS) {
        Ok(line) => serde_json::from_str(&line).unwrap_or_else(|_| lost(line)),
        Err(why) => lost(format!("{why}: {}", threads(second.id()))),
    }
}

/// The running kernel's release.
fn release() -> String {
    rustix::system::uname()
        .release()
        .to_string_lossy()
        .into_owned()
}

/// The victim's process: says [`STUCK`], then its report, and ends when its input closes.
pub fn be_victim(scenario: &Scenario, path: &str) {
    let say = |line: &str| {
        let mut out = std::io::stdout();
        // Nobody listens any more: then nothing is to be said.
        let _ = writeln!(out, "{line}").and_then(|()| out.flush());
    };
    let result = open(path).and_then(|device| {
        let record = victim::run(
            &device,
            scenario.provocation,
            scenario.watch_ms,
            &mut || {
                say(STUCK);
            },
        )?;
        Ok((device, record))
    });
    match &result {
        Ok((_, record)) => match serde_json::to_string(record) {
            Ok(line) => say(&line),
            Err(error) => say(&error.to_string()),
        },
        Err(error) => say(&format!("could not: {error}")),
    }
    wait_for_end();
}

/// The second client's process: a healthy job for every line.
pub fn be_second(path: &str) {
    let bystander = open(path).and_then(|device| Bystander::new(&device));
    let mut out = std::io::stdout();
    match bystander {
        Ok(mut bystander) => {
            for when in std::io::stdin().lock().lines().map_while(Result::ok) {
                let line = serde_json::to_string(&bystander.probe(&when)).unwrap_or_default();
                let _ = writeln!(out, "{line}").and_then(|()| out.flush());
            }
        }
        Err(error) => {
            let _ = writeln!(out, "{}", error_word(&error));
            wait_for_end();
        }
    }
}

/// The process of a rung: one healthy job.
pub fn be_fresh(path: &str) {
    let result = open(path).and_then(|device| victim::fresh(&device));
    let word = if passed(&result) { "passed" } else { "failed" };
    println!("{word} {}", in_words(&result));
}

fn wait_for_end() {
    for _ in std::io::stdin().lock().lines() {}
}
