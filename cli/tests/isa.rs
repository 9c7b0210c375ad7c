//! `asm` and `disasm`.

mod common;

use common::{Ran, command, golden, panthorctl, refused};
use std::io::Write;
use std::process::Stdio;

/// Runs with bytes on standard input.
fn with_input(arguments: &str, input: &[u8]) -> std::process::Output {
    let mut child = command(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program runs");
    child
        .stdin
        .take()
        .expect("its input")
        .write_all(input)
        .expect("input is read");
    child.wait_with_output().expect("its output")
}

/// The text after the bytes of each line.
fn texts(listing: &str) -> String {
    listing
        .lines()
        .map(|line| {
            line.split_once("    ")
                .map_or("", |(_, text)| text.trim_start())
                .to_owned()
                + "\n"
        })
        .collect()
}

#[test]
fn the_project_s_own_kernels_go_through_both_ways() {
    let names = panthorctl("disasm --list-kernels");
    assert!(names.stdout.lines().count() > 2, "{}", names.stdout);
    for name in names.stdout.lines() {
        let listing = panthorctl(&format!("disasm --kernel {name}"));
        assert_eq!(listing.code, Some(0), "{}", listing.stderr);
        let binary = with_input("asm --isa valhall -", texts(&listing.stdout).as_bytes());
        assert!(
            binary.status.success(),
            "{name}: {}",
            String::from_utf8_lossy(&binary.stderr)
        );
        assert!(!binary.stdout.is_empty() && binary.stdout.len() % 8 == 0);
        let again: Ran = with_input("disasm --isa valhall -", &binary.stdout).into();
        assert_eq!(again.stdout, listing.stdout, "{name}");
    }
}

#[test]
fn command_streams_go_through_both_ways() {
    let golden = std::fs::read_to_string(golden("csf/panvk-words.txt")).expect("golden words");
    let lines: Vec<(u64, &str)> = golden
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once(' '))
        .map(|(word, text)| (u64::from_str_radix(word, 16).expect("a word"), text))
        .collect();
    assert!(lines.len() > 100);
    let binary: Vec<u8> = lines
        .iter()
        .flat_map(|(word, _)| word.to_le_bytes())
        .collect();
    let listing: Ran = with_input("disasm --isa csf -", &binary).into();
    for (line, (_, text)) in listing.stdout.lines().zip(&lines) {
        // Mesa's printer leaves out the dot before this condition.
        let line = line.replace("SYNC_WAIT64.", "SYNC_WAIT64");
        assert!(line.ends_with(text), "{line} is not {text}");
    }
    let text: String = lines.iter().map(|(_, text)| format!("{text}\n")).collect();
    assert_eq!(
        with_input("asm --isa csf -", text.as_bytes()).stdout,
        binary
    );
    let hex: Ran = with_input("asm --isa csf --hex -", text.as_bytes()).into();
    assert_eq!(hex.stdout.lines().count(), lines.len());
    let first = hex.stdout.lines().next().expect("a line");
    let again = panthorctl(&format!(
        "disasm --isa csf --hex {}",
        first.replace(' ', "")
    ));
    assert!(again.stdout.contains(lines[0].1), "{}", again.stdout);
}

#[test]
fn any_whole_words_have_a_listing() {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let junk: Vec<u8> = (0..4000)
        .flat_map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state ^ state >> 29).to_le_bytes()
        })
        .collect();
    for isa in ["valhall", "csf"] {
        let ran: Ran = with_input(&format!("disasm --isa {isa} -"), &junk).into();
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
        assert_eq!(ran.stdout.lines().count(), 4000);
    }
}

#[test]
fn bytes_that_are_no_instructions_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("program.bin");
    std::fs::write(&path, [0; 13]).expect("a file");
    for isa in ["valhall", "csf"] {
        let file = format!("disasm --isa {isa} {}", path.display());
        refused(command(&file), 6, &["program.bin", "13 bytes"]);
        refused(
            command(&format!("disasm --isa {isa} --hex 1234")),
            2,
            &["--hex", "2 bytes"],
        );
        refused(
            command(&format!("disasm --isa {isa} --hex 123")),
            2,
            &["--hex \"123\"", "pairs"],
        );
        refused(
            command(&format!("disasm --isa {isa} --hex zz")),
            2,
            &["--hex \"zz\"", "hexadecimal"],
        );
        refused(
            command(&format!("disasm --isa {isa} /nonexistent")),
            6,
            &["/nonexistent"],
        );
        refused(
            command(&format!("disasm --isa {isa} /dev/zero")),
            6,
            &["/dev/zero", "larger than"],
        );
    }
    refused(
        command("disasm --kernel nope"),
        2,
        &["\"nope\"", "quantise"],
    );
    refused(command("disasm --hex 00"), 2, &["--isa", "--help"]);
}

#[test]
fn text_that_is_no_program_is_refused_with_its_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("program.asm");
    let long = format!("NOP\nX{}\n", "9".repeat(100_000));
    for isa in ["valhall", "csf"] {
        for (text, words) in [
            (b"NOP\nFOO r1\n".as_slice(), ["program.asm: line 2", "FOO"]),
            (b"NOP\n\x1b[31m\0\n", ["line 2", r"\u{1b}[31m"]),
            (b"\xff\xfe", ["program.asm", "UTF-8"]),
            (long.as_bytes(), ["line 2", "…"]),
        ] {
            std::fs::write(&path, text).expect("a file");
            refused(
                command(&format!("asm --isa {isa} {}", path.display())),
                6,
                &words,
            );
        }
    }
}
