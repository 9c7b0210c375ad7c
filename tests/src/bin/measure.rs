//! Measures what the driver does with jobs that hang, and writes `kernel-notes/measured/`.

use std::process::ExitCode;

use panthor_sim::Sim;
use panthor_tests::measure::inside::{self, verb};
use panthor_tests::measure::scenario::{self, Scenario};

const USAGE: &str = "\
measure list                         the scenarios
measure inside SCENARIO DEVICE       run one scenario on a render node or on sim[:…], print its record as JSON";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match words.as_slice() {
        ["list"] => {
            for scenario in scenario::all() {
                println!("{:26} {}", scenario.name, scenario.what);
            }
            Ok(())
        }
        ["inside", name, device] => named(name).and_then(|scenario| inside(scenario, device)),
        [verb::VICTIM, name, path] => named(name).map(|scenario| inside::be_victim(scenario, path)),
        [verb::SECOND, path] => {
            inside::be_second(path);
            Ok(())
        }
        [verb::FRESH, path] => {
            inside::be_fresh(path);
            Ok(())
        }
        _ => Err(USAGE.to_owned()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(line) => {
            eprintln!("{line}");
            ExitCode::from(2)
        }
    }
}

fn named(name: &str) -> Result<&'static Scenario, String> {
    scenario::find(name).ok_or_else(|| format!("no scenario {name:?}; see `measure list`"))
}

fn inside(scenario: &Scenario, device: &str) -> Result<(), String> {
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
    Ok(())
}
