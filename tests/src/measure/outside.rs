//! The half that runs on the host: a machine for each scenario, its record, and the document of a kernel.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use panthor_rig::machine::{Boot, Machine, MachineError, Options, Program, Report};
use serde::{Deserialize, Serialize};

use super::markdown;
use super::record::{ModelRecord, Record};
use super::scenario::{self, CLOCK_MHZ, Scenario};

/// The render node inside.
const NODE: &str = "/dev/dri/renderD128";
/// Wall time after which a machine is killed: many times what the longest scenario takes.
const PATIENCE: Duration = Duration::from_secs(120);
/// Where the documents are, from the top of the repository.
const DOCUMENTS: &str = "kernel-notes/measured";

/// Why there is no record.
#[derive(Debug, thiserror::Error)]
pub enum OutsideError {
    /// The machine could not be booted, or ended before the program inside.
    #[error("{scenario}: {source}")]
    Machine {
        /// The scenario.
        scenario: &'static str,
        /// Why.
        source: MachineError,
    },
    /// The program inside gave no record.
    #[error("{scenario}: no record came out: {said}")]
    NoRecord {
        /// The scenario.
        scenario: &'static str,
        /// What it wrote instead, standard error first.
        said: String,
    },
    /// A file of records or the document.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

/// One run of one scenario, with what its record does not know.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Run {
    /// What was seen inside.
    pub record: Record,
    /// Milliseconds of wall time from the start of the machine to its end.
    pub wall_ms: u64,
    /// Of these, until the program inside started.
    pub boot_wall_ms: u64,
    /// Milliseconds of the kernel's own clock while the program ran.
    pub virtual_ms: u64,
    /// What the modelled GPU counted, in its own words.
    pub model: String,
    /// The kernel's log, boot included.
    pub kernel_log: String,
}

/// Which kernel, and how.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The kernel's short name, `6.12`, `7.2`, `7.3`, or the name of a tree of one's own.
    pub kernel: String,
    /// Seed of the model and its faults.
    pub seed: u64,
    /// Further options of the device string, such as `variant=debug`.
    pub more: Vec<String>,
    /// The program that runs inside: [`program`], or the `measure` binary where a test is the caller.
    pub helper: PathBuf,
}

/// The running program, as what runs inside.
///
/// # Errors
/// [`OutsideError::File`].
pub fn program() -> Result<PathBuf, OutsideError> {
    std::env::current_exe().map_err(|source| OutsideError::File {
        path: PathBuf::from("the running program"),
        source,
    })
}

/// Whether the rig has this kernel, so that tests can be left out without one: `Err` says what is missing.
///
/// # Errors
/// [`MachineError`], that of a kernel that is not there or a host that cannot.
pub fn available(device: &str) -> Result<(), MachineError> {
    Boot::new(device.parse()?).map(drop)
}

/// Runs `arguments` of `helper` on a machine that `device` describes; gives what it wrote and the machine's report.
///
/// # Errors
/// [`MachineError`].
pub fn run_inside(
    device: &str,
    helper: &Path,
    arguments: &[&str],
) -> Result<(String, String, Report), MachineError> {
    let mut boot = Boot::new(device.parse::<Options>()?)?;
    helper.clone_into(&mut boot.helper);
    let argv = std::iter::once(helper.as_os_str()).chain(arguments.iter().map(OsStr::new));
    let machine = Machine::start(&boot, Program::new(argv)?)?;
    let control = machine.control();
    let (over, watch) = channel::<()>();
    let guard = std::thread::spawn(move || {
        if let Err(RecvTimeoutError::Timeout) = watch.recv_timeout(PATIENCE) {
            control.kill();
        }
    });
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let result = machine.wait(&mut out, &mut err);
    drop(over);
    // The guard only waits; it cannot panic.
    let _ = guard.join();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Ok((text(out), text(err), result?))
}

impl Settings {
    /// The device string of `scenario`.
    pub fn device(&self, scenario: &Scenario) -> String {
        let key = if ["6.12", "7.2", "7.3"].contains(&self.kernel.as_str()) {
            "kernel"
        } else {
            "name"
        };
        let mut device = format!(
            "rig:{key}={},user=root,seed={},gpu_mhz={}",
            self.kernel,
            self.seed,
            scenario.gpu_mhz.unwrap_or(CLOCK_MHZ)
        );
        for fault in scenario.faults {
            device.push_str(&format!(",fault={fault}"));
        }
        for more in &self.more {
            device.push(',');
            device.push_str(more);
        }
        device
    }
}

/// Boots a machine for `scenario` and gives what came out of it. The helper's `main` must begin with
/// [`panthor_rig::machine::enter`] and know the words of [`super::inside::verb`].
///
/// # Errors
/// [`OutsideError`].
pub fn measure(settings: &Settings, scenario: &'static Scenario) -> Result<Run, OutsideError> {
    let name = scenario.name;
    let failed = |source| OutsideError::Machine {
        scenario: name,
        source,
    };
    let device = settings.device(scenario);
    let (text, said, report) =
        run_inside(&device, &settings.helper, &["inside", name, NODE]).map_err(failed)?;
    let mut record = text
        .lines()
        .find_map(|line| serde_json::from_str::<Record>(line).ok())
        .ok_or_else(|| OutsideError::NoRecord {
            scenario: name,
            said: format!("{said} {text}"),
        })?;
    record.model = ModelRecord {
        struck: report.model.faults.clone(),
        violations: report
            .model
            .violations
            .iter()
            .map(|v| (format!("{:?}: {}", v.rule, v.text), v.count))
            .collect(),
    };
    Ok(Run {
        record,
        wall_ms: report.wall.as_millis() as u64,
        boot_wall_ms: report.boot_wall.as_millis() as u64,
        virtual_ms: report.ended_ns.saturating_sub(report.started_ns) / 1_000_000,
        model: format!("{:?}", report.model),
        kernel_log: report.kernel_log,
    })
}

/// The runs of a kernel, kept as a file each, so that a document can be made again and completed bit by bit.
#[derive(Debug)]
pub struct Store(PathBuf);

impl Store {
    /// A directory for this kernel under `directory`.
    ///
    /// # Errors
    /// [`OutsideError::File`].
    pub fn new(directory: &Path, kernel: &str) -> Result<Self, OutsideError> {
        let path = directory.join(kernel);
        fs::create_dir_all(&path).map_err(|source| OutsideError::File {
            path: path.clone(),
            source,
        })?;
        Ok(Self(path))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(format!("{name}.json"))
    }

    /// The run of this scenario, if there is one that can be read.
    pub fn get(&self, name: &str) -> Option<Run> {
        serde_json::from_str(&fs::read_to_string(self.path(name)).ok()?).ok()
    }

    /// Keeps a run.
    ///
    /// # Errors
    /// [`OutsideError::File`].
    pub fn put(&self, name: &str, run: &Run) -> Result<(), OutsideError> {
        let path = self.path(name);
        let text = serde_json::to_string_pretty(run).unwrap_or_default();
        fs::write(&path, text).map_err(|source| OutsideError::File { path, source })
    }

    /// The document from all runs that are there, in the table's order.
    pub fn document(&self, kernel: &str) -> String {
        let runs: Vec<_> = scenario::all()
            .filter_map(|scenario| self.get(scenario.name).map(|run| (scenario, run.record)))
            .collect();
        markdown::document(kernel, &runs)
    }
}

/// Where the document of `kernel` is, under the repository's top.
pub fn document_path(top: &Path, kernel: &str) -> PathBuf {
    top.join(DOCUMENTS).join(format!("{kernel}.md"))
}

/// How a new measurement compares with the committed document: the lines that differ, or nothing.
pub fn compare(kernel: &str, document: &str, scenario: &Scenario, record: &Record) -> Vec<String> {
    let Some((row, section)) = markdown::parts(document, scenario.name) else {
        return vec![format!("{}: not in the document", scenario.name)];
    };
    let now =
        markdown::row(kernel, scenario, record) + &markdown::section(kernel, scenario, record);
    let then = row + &section;
    let mut found = Vec::new();
    let (mut now, mut then) = (now.lines(), then.lines());
    loop {
        match (then.next(), now.next()) {
            (None, None) => return found,
            (a, b) if a == b => {}
            (a, b) => {
                found.extend(a.map(|line| format!("- {line}")));
                found.extend(b.map(|line| format!("+ {line}")));
            }
        }
    }
}
