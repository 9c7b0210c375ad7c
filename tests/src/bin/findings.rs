//! The smallest clients that the reproducers of `kernel-notes/findings/` need; faults come from the rig's device string.

use std::process::ExitCode;

use panthor_tests::measure::client::{Client, StepError};
use panthor_tests::measure::provoke::ENDLESS;
use panthor_uapi::{Device, KernelTransport};

const USAGE: &str = "\
findings job DEVICE        one healthy job; its fence is awaited, then everything is closed at once
findings loop DEVICE       one endless job; its fence is awaited, then everything is closed at once
findings abandon DEVICE    one endless job; everything is closed 10 ms later
findings pair DEVICE       two clients with an endless job each; the first is closed 10 ms later, the second's fence awaited";
/// Longer than the driver's timer and a reset take.
const PATIENCE_MS: u64 = 20_000;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [verb, path] = arguments.as_slice() else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let done = match verb.as_str() {
        "job" => run(path, "", true).map(drop),
        "loop" => run(path, ENDLESS, true).map(drop),
        "abandon" => run(path, ENDLESS, false).map(drop),
        "pair" => run(path, ENDLESS, false).and_then(|first| {
            let first = std::thread::spawn(move || drop(first));
            let second = run(path, ENDLESS, true);
            let _ = first.join();
            second.map(drop)
        }),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{verb}: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Submits one job and awaits it, or lets 10 ms pass; what is returned holds the client open.
fn run(path: &str, body: &str, wait: bool) -> Result<Client, StepError> {
    let device = Device::open(KernelTransport::shared(), path)?;
    let client = Client::new(&device)?;
    let group = client.group(1)?;
    let job = client.submit(&group, 0, "job", body)?;
    if wait {
        let record = client.finish(&job, PATIENCE_MS)?;
        println!("{record:?}");
    } else {
        client.sleep(10);
    }
    // The group is destroyed before the VM, as a client that ends in order does it.
    drop(group);
    Ok(client)
}
