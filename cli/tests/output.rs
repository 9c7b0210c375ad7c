//! Help, completions, the man page, and outputs that cannot be written.

mod common;

use common::{command, panthorctl, refused};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::Stdio;

#[test]
fn the_exit_codes_are_in_help_and_man_page() {
    for arguments in ["--help", "man"] {
        let ran = panthorctl(arguments);
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
        for words in ["no device, no permission", "interrupted"] {
            assert!(ran.stdout.contains(words), "{arguments}: {}", ran.stdout);
        }
    }
}

#[test]
fn completions_for_every_shell() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let ran = panthorctl(&format!("completions {shell}"));
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        assert!(
            ran.stdout.contains("gemm") && ran.stdout.contains("disasm"),
            "{shell}"
        );
    }
    refused(command("completions nope"), 2, &["nope", "bash"]);
    refused(command("nonsense"), 2, &["'nonsense'", "--help"]);
}

const PRINTING: [&str; 5] = [
    "man",
    "completions zsh",
    "--device sim info",
    "--device sim --json gemm --quant q4_0 --m 1 --n 1 --k 32",
    "disasm --kernel quantise",
];

#[test]
fn a_full_disk_is_said_in_one_line() {
    for arguments in PRINTING {
        let full = File::options()
            .write(true)
            .open("/dev/full")
            .expect("/dev/full");
        let mut command = command(arguments);
        command.stdout(full);
        let child = command
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program runs");
        let ran: common::Ran = child.wait_with_output().expect("its output").into();
        assert_eq!(ran.code, Some(2), "{arguments}: {}", ran.stderr);
        assert!(
            ran.stderr
                .starts_with("panthorctl: standard output: No space left"),
            "{}",
            ran.stderr
        );
        assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
    }
}

#[test]
fn a_reader_that_went_away_is_no_error() {
    for arguments in PRINTING {
        let (reader, writer) = UnixStream::pair().expect("a pair of sockets");
        drop(reader);
        let child = command(arguments)
            .stdout(OwnedFd::from(writer))
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program runs");
        let ran: common::Ran = child.wait_with_output().expect("its output").into();
        assert_eq!(
            (ran.code, ran.stderr.as_str()),
            (Some(0), ""),
            "{arguments}"
        );
    }
}

#[test]
fn errors_that_nobody_can_read_keep_their_exit_code() {
    for (arguments, code) in [
        ("--device /nonexistent info", 3),
        ("gemm", 2),
        ("--device sim gemm --model /nonexistent --all", 6),
        ("info", 0),
    ] {
        let full = File::options()
            .write(true)
            .open("/dev/full")
            .expect("/dev/full");
        let status = command(arguments)
            .stdout(Stdio::null())
            .stderr(full)
            .status()
            .expect("the program runs");
        assert_eq!(status.code(), Some(code), "{arguments}");
    }
}
