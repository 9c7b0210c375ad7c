//! Measures what the driver does with jobs that hang, and writes `kernel-notes/measured/`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use panthor_sim::Sim;
use panthor_tests::measure::inside::{self, verb};
use panthor_tests::measure::kills;
use panthor_tests::measure::outside::{self, Settings, Store};
use panthor_tests::measure::product;
use panthor_tests::measure::scenario::{self, Scenario};

const USAGE: &str = "\
measure list                            the scenarios
measure inside SCENARIO DEVICE          run one scenario on a render node or on sim[:…], print its record as JSON
measure registers COUNT NODE            ask for the GPU's time so often
measure product ROWS NODE               multiply the largest matrix of a model, or so many rows of it, and check it
measure kills COUNT SEED NODE           start and kill clients of a render node, print what is left as JSON (root)
measure --kernel NAME [OPTIONS]         run scenarios on the rig, write kernel-notes/measured/NAME.md
  --only A,B,…    these scenarios; the document takes the others from earlier runs
  --missing       those that have no earlier run
  --check         run those marked for continuous integration and compare with the document; exit code 1 if they differ
  --twice         run each two times and compare the whole records, traces included
  --seed N        of the model (default 0)
  --records DIR   where runs are kept (default target/measured)
  --top DIR       the repository (default: where this program was built)
  --with OPTION   a further option of the rig's device string, such as variant=debug; may be repeated";

/// Wall time within which a check ends; what is left is named and counts as unchecked.
const CHECK_LIMIT: Duration = Duration::from_secs(110);

fn main() -> ExitCode {
    panthor_rig::machine::enter();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match words.as_slice() {
        ["list"] => {
            for scenario in scenario::all() {
                println!("{:32} {}", scenario.name, scenario.what);
            }
            Ok(true)
        }
        ["inside", name, device] => named(name).and_then(|scenario| inside(scenario, device)),
        [verb::VICTIM, name, path] => named(name).map(|scenario| {
            inside::be_victim(scenario, path);
            true
        }),
        [verb::SECOND, path] => {
            inside::be_second(path);
            Ok(true)
        }
        [verb::FRESH, path] => {
            inside::be_fresh(path);
            Ok(true)
        }
        [verb::PREY, trade, path] => trade.parse().map_err(|_| USAGE.to_owned()).map(|trade| {
            kills::be_prey(trade, path);
            true
        }),
        ["registers", count, path] => registers(count, path),
        ["product", rows, path] => product(rows, path),
        ["kills", count, seed, path] => kill(count, seed, path),
        words if words.contains(&"--kernel") => Arguments::read(words).and_then(|a| a.run()),
        _ => Err(USAGE.to_owned()),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(line) => {
            eprintln!("{line}");
            ExitCode::from(2)
        }
    }
}

fn named(name: &str) -> Result<&'static Scenario, String> {
    scenario::find(name).ok_or_else(|| format!("no scenario {name:?}; see `measure list`"))
}

fn inside(scenario: &Scenario, device: &str) -> Result<bool, String> {
    let record = if device == "sim" || device.starts_with("sim:") {
        let transport = Sim::open(device).map_err(|e| e.to_string())?;
        inside::on_simulator(scenario, &transport)
    } else {
        inside::on_kernel(scenario, device)
    };
    let record = record.map_err(|e| format!("{}: {e}", scenario.name))?;
    println!(
        "{}",
        serde_json::to_string(&record).map_err(|e| e.to_string())?
    );
    Ok(true)
}

/// Asks for the GPU's time so often: each query reads a handful of registers.
fn registers(count: &str, path: &str) -> Result<bool, String> {
    let count: u64 = count.parse().map_err(|_| USAGE.to_owned())?;
    let device = inside::open(path).map_err(|e| e.to_string())?;
    for _ in 0..count {
        device
            .timestamp_info(panthor_uapi::TimestampFlags::empty())
            .map_err(|e| e.to_string())?;
    }
    Ok(true)
}

fn product(rows: &str, path: &str) -> Result<bool, String> {
    let rows = rows.parse().map_err(|_| USAGE.to_owned())?;
    let device = inside::open(path).map_err(|e| e.to_string())?;
    let record = product::run(&device, rows)?;
    println!(
        "{}",
        serde_json::to_string(&record).map_err(|e| e.to_string())?
    );
    Ok(true)
}

fn kill(count: &str, seed: &str, path: &str) -> Result<bool, String> {
    let number = |text: &str| {
        text.parse::<u64>()
            .map_err(|_| format!("{text:?} is no number\n{USAGE}"))
    };
    let count = u32::try_from(number(count)?).map_err(|e| e.to_string())?;
    let record = kills::run(count, number(seed)?, path).map_err(|e| e.to_string())?;
    println!(
        "{}",
        serde_json::to_string(&record).map_err(|e| e.to_string())?
    );
    Ok(true)
}

/// What is to be measured.
struct Arguments {
    settings: Settings,
    only: Option<Vec<&'static Scenario>>,
    missing: bool,
    check: bool,
    twice: bool,
    records: PathBuf,
    top: PathBuf,
}

impl Arguments {
    fn read(words: &[&str]) -> Result<Self, String> {
        let top = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
        let mut found = Self {
            settings: Settings {
                kernel: String::new(),
                seed: 0,
                more: Vec::new(),
                helper: outside::program().map_err(|e| e.to_string())?,
            },
            only: None,
            missing: false,
            check: false,
            twice: false,
            records: top.join("target/measured"),
            top,
        };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match *word {
                "--missing" => found.missing = true,
                "--check" => found.check = true,
                "--twice" => found.twice = true,
                key => {
                    let value = words
                        .next()
                        .ok_or_else(|| format!("{key} has no value\n{USAGE}"))?;
                    found.set(key, value)?;
                }
            }
        }
        Ok(found)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "--kernel" => value.clone_into(&mut self.settings.kernel),
            "--seed" => {
                self.settings.seed = value
                    .parse()
                    .map_err(|_| format!("--seed takes a number, not {value:?}"))?;
            }
            "--with" => self.settings.more.push(value.to_owned()),
            "--records" => self.records = PathBuf::from(value),
            "--top" => self.top = PathBuf::from(value),
            "--only" => {
                self.only = Some(value.split(',').map(named).collect::<Result<_, _>>()?);
            }
            _ => return Err(format!("unknown option {key}\n{USAGE}")),
        }
        Ok(())
    }

    fn run(&self) -> Result<bool, String> {
        let store = Store::new(&self.records, &self.settings.kernel).map_err(|e| e.to_string())?;
        let wanted = |scenario: &&'static Scenario| {
            self.only
                .as_ref()
                .is_none_or(|only| only.iter().any(|s| s.name == scenario.name))
                && (!self.missing || store.get(scenario.name).is_none())
                && (!self.check || scenario.in_ci || self.only.is_some())
        };
        let chosen: Vec<_> = scenario::all().filter(wanted).collect();
        if self.check {
            return self.check(&chosen);
        }
        let mut good = true;
        for scenario in chosen {
            match self.once(scenario) {
                Ok(run) => {
                    store.put(scenario.name, &run).map_err(|e| e.to_string())?;
                    for warning in run.record.warnings() {
                        eprintln!("{}: FINDING: {}", scenario.name, warning.text);
                    }
                    if self.twice {
                        good &= self.again(scenario, &run)?;
                    }
                }
                Err(line) => {
                    eprintln!("{line}");
                    good = false;
                }
            }
        }
        let path = outside::document_path(&self.top, &self.settings.kernel);
        let folder = path.parent().unwrap_or(&self.top);
        std::fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        std::fs::write(&path, store.document(&self.settings.kernel))
            .map_err(|e| format!("{}: {e}", path.display()))?;
        eprintln!("{}", path.display());
        Ok(good)
    }

    fn once(&self, scenario: &'static Scenario) -> Result<outside::Run, String> {
        let run = outside::measure(&self.settings, scenario).map_err(|e| e.to_string())?;
        eprintln!(
            "{}: {} ms of wall time ({} until the program started), {} ms inside",
            scenario.name, run.wall_ms, run.boot_wall_ms, run.virtual_ms
        );
        Ok(run)
    }

    /// Whether a second run gives the same record, every trace line included.
    fn again(&self, scenario: &'static Scenario, first: &outside::Run) -> Result<bool, String> {
        let second = self.once(scenario)?;
        let same = second.record == first.record;
        let word = if same {
            "the same record twice"
        } else {
            "two runs DIFFER"
        };
        eprintln!("{}: {word}", scenario.name);
        Ok(same)
    }

    fn check(&self, chosen: &[&'static Scenario]) -> Result<bool, String> {
        let kernel = &self.settings.kernel;
        let path = outside::document_path(&self.top, kernel);
        let document =
            std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        let begin = Instant::now();
        let mut same = true;
        for scenario in chosen {
            if begin.elapsed() > CHECK_LIMIT {
                return Err(format!("{}: no time left to check it", scenario.name));
            }
            let run = self.once(scenario)?;
            let lines = outside::compare(kernel, &document, scenario, &run.record);
            if !lines.is_empty() {
                same = false;
                println!("{} differs from {}:", scenario.name, path.display());
                for line in lines {
                    println!("{line}");
                }
            }
        }
        Ok(same)
    }
}
