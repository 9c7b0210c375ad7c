//! `--device rig…` and `rig run`, on the kernels of the user's cache.
//!
//! Without a kernel there these tests say so and pass; with PANTHOR_TEST_RIG=1 in the environment they fail instead.

mod common;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::{Ran, command, json, refused};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use panthor_rig::cache::{self, Flavour, Selector, Variant};

/// Names of the plain kernels that are there; empty, with a word about it, where there is none.
fn kernels() -> Vec<String> {
    let found: Vec<String> = ["6.12", "7.2", "7.3"]
        .into_iter()
        .filter(|name| {
            let wanted = Selector {
                name: Some((*name).to_owned()),
                variant: Variant::Plain,
            };
            cache::find(&wanted).is_ok()
        })
        .map(str::to_owned)
        .collect();
    if found.is_empty() {
        assert!(
            std::env::var_os("PANTHOR_TEST_RIG").is_none(),
            "PANTHOR_TEST_RIG is set and the cache has no kernel: panthorctl rig build --kernel 7.2"
        );
        eprintln!("not tested: no rig kernel in the cache (panthorctl rig build --kernel 7.2)");
    }
    found
}

/// One kernel for what does not depend on its version.
fn kernel() -> Option<String> {
    let mut kernels = kernels();
    kernels
        .iter()
        .position(|k| k == cache::DEFAULT_NAME)
        .map(|at| kernels.swap_remove(at))
        .or_else(|| kernels.pop())
}

/// `rig run` with further options, and a command line for `sh -c`.
fn inside(kernel: &str, options: &str, script: &str) -> Command {
    let mut command = command(&format!(
        "--device rig:kernel={kernel},{options} rig run --"
    ));
    command.args(["sh", "-c", script]);
    command
}

fn ran(mut command: Command) -> Ran {
    command.output().expect("the program runs").into()
}

/// Waits for one line from a child.
fn line(child: &mut Child) -> String {
    let mut line = String::new();
    let stdout = child.stdout.as_mut().expect("its output");
    BufReader::with_capacity(1, stdout)
        .read_line(&mut line)
        .expect("a line");
    line.trim_end().to_owned()
}

fn signal(child: &Child, signal: Signal) {
    kill(Pid::from_raw(child.id() as i32), signal).expect("it runs");
}

/// Processes whose command line names the directory.
fn processes_of(directory: &Path) -> usize {
    let directory = directory.as_os_str().as_encoded_bytes();
    let entries = fs::read_dir("/proc").expect("processes").flatten();
    entries
        .filter_map(|e| fs::read(e.path().join("cmdline")).ok())
        .filter(|line| line.windows(directory.len()).any(|w| w == directory))
        .count()
}

/// The directory empties, and no process knows it any more, within some seconds.
fn nothing_left(directory: &Path) {
    let begin = Instant::now();
    loop {
        let files = fs::read_dir(directory).expect("the directory").count();
        let processes = processes_of(directory);
        if files + processes == 0 {
            return;
        }
        assert!(
            begin.elapsed() < Duration::from_secs(20),
            "{files} files and {processes} processes are left"
        );
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn info_tells_the_kernels_own_driver() {
    for kernel in kernels() {
        let real = json(&format!("--device rig:kernel={kernel} info --json"));
        assert_eq!(real["kind"], "rig", "{kernel}");
        assert_eq!(real["driver"]["name"], "panthor", "{kernel}");
        assert_eq!(real["gpu"]["name"], "Mali-G610", "{kernel}");
        assert_eq!(real["missing"], serde_json::json!([]), "{kernel}");
        let simulated = json(&format!("--device sim:kernel={kernel} info --json"));
        assert_eq!(real["driver"], simulated["driver"], "{kernel}");
        assert_eq!(real["features"], simulated["features"], "{kernel}");
    }
}

#[test]
fn products_are_exact_through_the_real_driver() {
    for kernel in kernels() {
        let report = json(&format!(
            "--device rig:kernel={kernel} gemm --quant q4_0 --m 64 --n 577 --k 2048 --json"
        ));
        let row = &report["rows"][0];
        assert_eq!(row["ok"], true, "{kernel}: {report}");
        assert_eq!(row["exact"], true, "{kernel}: {report}");
    }
}

#[test]
fn the_command_ends_outside_as_it_did_inside() {
    let Some(kernel) = kernel() else { return };
    for (script, code) in [("exit 0", 0), ("exit 37", 37), ("nonexistent-program", 127)] {
        let ran = ran(inside(&kernel, "", script));
        assert_eq!(ran.code, Some(code), "{script}: {}", ran.stderr);
    }
    let ended = inside(&kernel, "", "kill -TERM $$")
        .status()
        .expect("a status");
    assert_eq!(ended.signal(), Some(Signal::SIGTERM as i32));
    let device = format!("--device rig:kernel={kernel}");
    refused(
        command(&format!("{device} rig run nonexistent-program")),
        127,
        &["nonexistent-program"],
    );
    refused(
        command(&format!("{device} rig run /etc/passwd")),
        126,
        &["/etc/passwd"],
    );
    let gemm = format!("{device} gemm --quant q4_0 --m 1 --n 1 --k 31");
    refused(command(&gemm), 2, &["31"]);
}

#[test]
fn the_command_is_an_ordinary_user_with_the_callers_directory_and_environment() {
    let Some(kernel) = kernel() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let mut run = inside(
        &kernel,
        "",
        "pwd; echo \"$SOME\"; grep CapEff /proc/self/status; id -u; echo text >file; umask",
    );
    run.current_dir(folder.path()).env("SOME", "blank and\ttab");
    let ran = ran(run);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let lines: Vec<&str> = ran.stdout.lines().collect();
    let own = |command: &str| {
        let output = Command::new("sh")
            .args(["-c", command])
            .output()
            .expect("sh");
        String::from_utf8(output.stdout)
            .expect("text")
            .trim()
            .to_owned()
    };
    assert_eq!(
        Path::new(lines[0]),
        fs::canonicalize(folder.path()).expect("a path")
    );
    assert_eq!(lines[1], "blank and\ttab");
    assert_eq!(lines[2], "CapEff:\t0000000000000000");
    assert_eq!(lines[3], own("id -u"));
    assert_eq!(lines[4], own("umask"));
    let file = fs::read_to_string(folder.path().join("file")).expect("its file");
    assert_eq!(file, "text\n");
}

#[test]
fn streams_pass_every_byte_both_ways() {
    let Some(kernel) = kernel() else { return };
    let bytes: Vec<u8> = (0..3_000_000u32)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8)
        .collect();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("bytes");
    fs::write(&file, &bytes).expect("a file");
    let output = inside(&kernel, "", &format!("cat {}", file.display()))
        .output()
        .expect("it runs");
    assert!(output.stdout == bytes, "{} bytes", output.stdout.len());

    let some = &bytes[..200_000];
    let mut run = inside(&kernel, "", "cat; echo over >&2");
    run.stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = run.spawn().expect("it runs");
    let mut input = child.stdin.take().expect("its input");
    let output = std::thread::scope(|scope| {
        scope.spawn(move || input.write_all(some).expect("it reads"));
        child.wait_with_output().expect("its output")
    });
    assert!(output.stdout == some, "{} bytes", output.stdout.len());
    assert_eq!(output.stderr, b"over\n");
}

#[test]
fn an_output_that_nobody_reads_ends_the_command() {
    let Some(kernel) = kernel() else { return };
    let mut run = inside(&kernel, "", "echo begun; yes");
    let mut child = run.stdout(Stdio::piped()).spawn().expect("it runs");
    assert_eq!(line(&mut child), "begun");
    drop(child.stdout.take());
    let status = child.wait().expect("a status");
    assert!(!status.success(), "{status}");
}

#[test]
fn the_first_ctrl_c_is_the_commands_and_the_second_ends_the_machine() {
    let Some(kernel) = kernel() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let start = |script: &str| {
        let mut run = inside(&kernel, "clock=wall", script);
        run.stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .env("TMPDIR", folder.path());
        let mut child = run.spawn().expect("it runs");
        assert_eq!(line(&mut child), "ready");
        child
    };
    let polite = start("trap 'echo caught; exit 5' INT; echo ready; while :; do sleep 0.1; done");
    signal(&polite, Signal::SIGINT);
    let output = polite.wait_with_output().expect("its output");
    assert_eq!(
        (output.status.code(), &*output.stdout),
        (Some(5), &b"caught\n"[..])
    );
    nothing_left(folder.path());

    let deaf = start("trap '' INT; echo ready; while :; do sleep 0.1; done");
    signal(&deaf, Signal::SIGINT);
    std::thread::sleep(Duration::from_millis(300));
    signal(&deaf, Signal::SIGINT);
    let begin = Instant::now();
    let output = deaf.wait_with_output().expect("its output");
    assert_eq!(output.status.code(), Some(130));
    assert!(begin.elapsed() < Duration::from_secs(10));
    nothing_left(folder.path());

    let killed = start("echo ready; while :; do sleep 0.1; done");
    assert_ne!(processes_of(folder.path()), 0);
    signal(&killed, Signal::SIGKILL);
    let output = killed.wait_with_output().expect("its output");
    assert_eq!(output.status.signal(), Some(9));
    nothing_left(folder.path());
}

#[test]
fn a_panic_inside_is_exit_code_5_with_the_logs_end() {
    let Some(kernel) = kernel() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("kernel.log");
    let temporary = folder.path().join("tmp");
    fs::create_dir(&temporary).expect("a folder");
    let options = format!("user=root,memory=128,log={}", log.display());
    let mut run = inside(
        &kernel,
        &options,
        "echo before; echo 2 >/proc/sys/vm/panic_on_oom; tail /dev/zero; echo after",
    );
    run.env("TMPDIR", &temporary);
    let ran = ran(run);
    assert_eq!(ran.code, Some(5), "{}", ran.stderr);
    assert_eq!(ran.stdout, "before\n");
    let last = ran.stderr.lines().last().unwrap_or_default();
    assert!(
        last.starts_with("panthorctl: the rig's kernel died: Kernel panic"),
        "{last}"
    );
    assert!(
        ran.stderr.contains("panthorctl: kernel: "),
        "{}",
        ran.stderr
    );
    let log = fs::read_to_string(log).expect("the log");
    assert!(
        log.contains("Linux version") && log.contains("Kernel panic"),
        "{log}"
    );
    nothing_left(&temporary);
}

#[test]
fn the_same_command_takes_the_same_virtual_time() {
    for kernel in kernels().iter().filter(|k| k.starts_with('7')) {
        let folder = tempfile::tempdir().expect("a folder");
        let run = |n: u32| {
            let trace = folder.path().join(format!("trace{n}"));
            let mut run = command(&format!(
                "--device rig:kernel={kernel},trace={} rig run --times --",
                trace.display()
            ));
            run.arg(env!("CARGO_BIN_EXE_panthorctl"));
            run.args(
                "--device /dev/dri/renderD128 gemm --quant q4_0 --m 16 --n 32 --k 256".split(' '),
            );
            let ran = ran(run);
            assert_eq!(ran.code, Some(0), "{}", ran.stderr);
            let times = ran.stderr.lines().last().unwrap_or_default();
            let (inside, _) = times.split_once("; outside").expect("times");
            (
                inside.to_owned(),
                fs::read_to_string(trace).expect("the trace"),
            )
        };
        let (first, second) = (run(1), run(2));
        assert_eq!(first.0, second.0, "{kernel}");
        assert!(
            first.1.lines().count() > 100 && first.1 == second.1,
            "{kernel}"
        );
    }
}

#[test]
fn a_driver_that_does_not_probe_says_why() {
    let Some(kernel) = kernel() else { return };
    let ran = Ran::from(
        command(&format!(
            "--device rig:kernel={kernel},fault=boot-fails info"
        ))
        .output()
        .expect("it runs"),
    );
    assert_eq!((ran.code, &*ran.stdout), (Some(3), ""), "{}", ran.stderr);
    let last = ran.stderr.lines().last().unwrap_or_default();
    assert!(last.contains("panthor did not probe"), "{last}");
    assert!(ran.stderr.contains("kernel: "), "{}", ran.stderr);
}

#[test]
fn memory_without_room_or_execution_is_named() {
    let Some(kernel) = kernel() else { return };
    for (mount, words) in [
        ("noexec,size=4g", ["/dev/shm is mounted noexec", "TMPDIR"]),
        ("size=64m", ["/dev/shm has 6", "rig:memory=MIB"]),
    ] {
        let mut run = Command::new("unshare");
        run.args(["--map-root-user", "--mount", "sh", "-c"])
            .arg(format!(
                "mount -t tmpfs -o {mount} none /dev/shm || exit 99; exec \"$0\" --device rig:kernel={kernel} info"
            ))
            .arg(env!("CARGO_BIN_EXE_panthorctl"))
            .env_remove("TMPDIR");
        match run.output() {
            Ok(output) if output.status.code() == Some(3) => {
                let text = String::from_utf8_lossy(&output.stderr);
                for word in words {
                    assert!(text.contains(word), "{mount}: no {word:?} in {text}");
                }
            }
            other => {
                let text = format!("{other:?}");
                assert!(!text.contains("panthorctl"), "{mount}: not refused: {text}");
                eprintln!("not tested: no mount namespace of its own here ({text})");
            }
        }
    }
}

#[test]
fn a_kernel_that_is_not_there_names_the_command_that_builds_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut run = command("--device rig:kernel=7.2 info");
    run.env("XDG_CACHE_HOME", folder.path());
    if cfg!(target_arch = "x86_64") {
        refused(run, 3, &["7.2", "panthorctl rig build --kernel 7.2"]);
    } else {
        refused(run, 3, &["x86", std::env::consts::ARCH]);
    }
}

#[test]
fn a_malformed_rig_string_is_a_usage_error() {
    for (device, words) in [
        ("rig:colour=red", ["\"colour\"", "memory"]),
        ("rig:kernel=6.13", ["\"6.13\"", "6.12, 7.2 or 7.3"]),
        ("rig:fault=colour", ["\"colour\"", "irq-lost"]),
    ] {
        refused(command(&format!("--device {device} info")), 2, &words);
        refused(
            command(&format!("--device {device} rig run true")),
            2,
            &words,
        );
    }
}

#[test]
fn several_cpus_on_the_wall_clock() {
    let Some(kernel) = kernel() else { return };
    let wanted = Selector {
        name: Some(kernel.clone()),
        variant: Variant::Plain,
    };
    let found = cache::find(&wanted).expect("it was there");
    if let Err(why) = found.binary(Flavour::Smp) {
        eprintln!("not tested: {why}");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let mut run = inside(&kernel, "smp,cpus=3", "nproc; cat; kill -HUP $$");
    run.env("TMPDIR", folder.path());
    run.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = run.spawn().expect("it runs");
    let text = "0123456789abcde\n".repeat(4096);
    let mut input = child.stdin.take().expect("its input");
    let output = std::thread::scope(|scope| {
        let bytes = text.as_bytes();
        scope.spawn(move || input.write_all(bytes).expect("it reads"));
        child.wait_with_output().expect("its output")
    });
    assert_eq!(output.status.signal(), Some(Signal::SIGHUP as i32));
    assert!(output.stdout == ["3\n", &text].concat().as_bytes());
    nothing_left(folder.path());
}

#[test]
fn a_slow_reader_slows_the_command_and_loses_nothing() {
    let Some(kernel) = kernel() else { return };
    let mut run = inside(&kernel, "", "seq 200000");
    let mut child = run.stdout(Stdio::piped()).spawn().expect("it runs");
    let mut stdout = child.stdout.take().expect("its output");
    std::thread::sleep(Duration::from_secs(1));
    let mut text = String::new();
    stdout.read_to_string(&mut text).expect("text");
    assert!(child.wait().expect("a status").success());
    let numbers = text.lines().map(|l| l.parse::<u32>().expect("a number"));
    assert!(numbers.eq(1..=200_000));
}
