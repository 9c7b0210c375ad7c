//! The simulator against itself always, and against the real driver of each kernel where `PANTHOR_TEST_RIG` is set:
//! `PANTHOR_TEST_RIG=1 PANTHOR_TEST_SEQUENCES=10000 cargo test --release -p panthor-tests --test differential`
//! with `panthorctl` in the same target directory. The number is that for each kernel.

use std::path::{Path, PathBuf};
use std::process::Command;

use panthor_sim::{Kernel, Sim};
use panthor_tests::sequence::coverage::Coverage;
use panthor_tests::sequence::generate::{Mode, Options, generate};
use panthor_tests::sequence::run::{Log, Record, Runner, Silent};
use panthor_tests::sequence::{Call, Sequence};

const KERNELS: [Kernel; 3] = [Kernel::V6_12, Kernel::V7_2, Kernel::V7_3];
const NODE: &str = "/dev/dri/renderD128";

fn options(kernel: Kernel) -> Options {
    Options {
        kernel,
        mode: Mode::Decided,
        streams: true,
    }
}

/// The records of `sequences` on one simulated device.
fn simulate(kernel: Kernel, sequences: &[Sequence]) -> Vec<Record> {
    // Jobs that never end are executed for five simulated seconds: few cycles make that quick.
    let device = format!("sim:kernel={kernel},gpu_mhz=50,threads=1");
    let (device, _) = Sim::device(device.parse().unwrap()).unwrap();
    let mut runner = Runner::new(&*device, Path::new(NODE)).unwrap();
    let records = sequences
        .iter()
        .map(|sequence| runner.run(sequence, &mut Silent as &mut dyn Log));
    let records = records.collect();
    let left = device.live_objects();
    assert_eq!(
        (
            left.fds,
            left.vms,
            left.groups,
            left.syncobjs,
            left.mappings
        ),
        (0, 0, 0, 0, 0),
        "{left:?}"
    );
    records
}

#[test]
fn the_simulator_answers_the_same_sequences_the_same_way_and_most_calls_succeed() {
    for kernel in KERNELS {
        let sequences: Vec<_> = (1..=40)
            .map(|seed| generate(seed, options(kernel)))
            .collect();
        let records = simulate(kernel, &sequences);
        assert_eq!(records, simulate(kernel, &sequences), "{kernel}");
        let mut coverage = Coverage::default();
        records.iter().for_each(|record| coverage.add(record));
        let (calls, good) = coverage.success();
        assert!(calls > 2000, "{coverage}");
        assert!(2 * good > calls, "{coverage}");
        // Every kind of ioctl that a kernel has is called, and succeeds at least once.
        for name in [
            "VM_BIND",
            "GROUP_SUBMIT",
            "GROUP_CREATE",
            "BO_CREATE",
            "SYNCOBJ_WAIT",
        ] {
            assert!(coverage.count(name, "ok") > 0, "{name}: {coverage}");
            assert!(coverage.count(name, "EINVAL") > 0, "{name}: {coverage}");
        }
        assert!(coverage.count("GROUP_SUBMIT", "ok") > 100, "{coverage}");
    }
}

#[test]
fn a_sequence_is_its_seeds_and_survives_json() {
    let sequence = generate(7, options(Kernel::V7_2));
    assert_eq!(sequence, generate(7, options(Kernel::V7_2)));
    assert_ne!(sequence.steps, generate(8, options(Kernel::V7_2)).steps);
    let text = serde_json::to_string(&sequence).unwrap();
    assert_eq!(serde_json::from_str::<Sequence>(&text).unwrap(), sequence);
}

#[test]
fn racy_sequences_do_not_bring_the_simulator_down() {
    let racy = Options {
        mode: Mode::Racy,
        ..options(Kernel::V7_2)
    };
    let sequences: Vec<_> = (1..=30).map(|seed| generate(seed, racy)).collect();
    for sequence in &sequences {
        let pauses = sequence
            .steps
            .iter()
            .filter(|step| matches!(step.call, Call::Sleep { .. }));
        assert!(pauses.count() <= 2, "seed {}", sequence.seed);
    }
    assert_eq!(simulate(Kernel::V7_2, &sequences).len(), sequences.len());
}

/// What `kernel-notes/findings` says of the simulator: it answers where kernels warn, crash, or lose count.
#[test]
fn the_simulator_survives_what_kernels_do_not() {
    let folder = PathBuf::from(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../kernel-notes/findings"
    ));
    let result_of = |name: &str, kernel, step: usize| {
        let text = std::fs::read_to_string(folder.join(name)).unwrap();
        let sequence: Sequence = serde_json::from_str(&text).unwrap();
        let record = simulate(kernel, &[sequence]).remove(0);
        record.steps[step].clone()
    };
    for kernel in KERNELS {
        for (name, step, expected) in [
            ("signal-of-unknown-syncobj.json", 2, "EINVAL"),
            ("wait-for-own-signal.json", 3, "EINVAL"),
            ("count-of-an-array.json", 2, "ENOMEM"),
            ("queued-map-of-nothing.json", 3, "ok"),
        ] {
            assert_eq!(
                result_of(name, kernel, step).result,
                expected,
                "{name}, {kernel}"
            );
        }
        let zero = result_of("syncobj-handle-zero.json", kernel, 3);
        let handle = zero.out[0].bytes.clone();
        let expected = vec![if kernel.is_7x() { 0 } else { 2 }];
        assert_eq!(handle, expected, "{kernel}");
    }
}

#[test]
fn the_real_driver_agrees() {
    if std::env::var_os("PANTHOR_TEST_RIG").is_none() {
        eprintln!("PANTHOR_TEST_RIG is not set: the simulator was compared with itself only");
        return;
    }
    for kernel in KERNELS {
        compare(kernel);
    }
}

/// Runs the same sequences on the simulator and on the real driver of a kernel.
fn compare(kernel: Kernel) {
    let count = std::env::var("PANTHOR_TEST_SEQUENCES").map_or(500, |n| n.parse().unwrap());
    let tool = PathBuf::from(env!("CARGO_BIN_EXE_ioctl-sequences"));
    let panthorctl = tool.with_file_name("panthorctl");
    let folder = tempfile::tempdir().unwrap();
    let (left, right) = (folder.path().join("sim"), folder.path().join("rig"));
    let arguments = |device: &str, out: &Path| {
        let words = format!(
            "run --device {device} --kernel {kernel} --seed 1 --count {count} --without-streams"
        );
        let mut words: Vec<String> = words.split(' ').map(str::to_owned).collect();
        words.extend(["--out".into(), out.to_str().unwrap().to_owned()]);
        words
    };
    let simulator = format!("sim:kernel={kernel},gpu_mhz=50");
    let sim = Command::new(&tool)
        .args(arguments(&simulator, &left))
        .status();
    assert!(sim.unwrap().success());
    let rig = Command::new(&panthorctl)
        .args([
            "rig",
            "run",
            "--device",
            &format!("rig:kernel={kernel},gpu_mhz=50"),
            "--",
        ])
        .arg(&tool)
        .args(arguments(NODE, &right))
        .stdin(std::process::Stdio::null())
        .status();
    assert!(rig.unwrap().success(), "{}", panthorctl.display());
    let compared = Command::new(&tool)
        .arg("compare")
        .args([&left, &right])
        .output()
        .unwrap();
    let report = String::from_utf8_lossy(&compared.stdout);
    eprintln!("{report}");
    assert!(compared.status.success(), "{report}");
}
