//! Shader instruction words beyond those of real shaders, worked out from Mesa's public descriptions by somebody who
//! did not see this crate: each word decodes to the text that stands beside it, and both the decoded instruction and
//! the text give the word.

use std::collections::BTreeSet;

use mali_isa::valhall::{Family, INSTR_BYTES, Op, assemble, assemble_program, decode};

const EXTRA: &str = include_str!("../../tests/golden/valhall/extra.txt");

/// Words that decode: two sections and the doubts about the round mode of FADD.
const WORDS: usize = 304;
/// Words that public descriptions contradict each other about, and that hardware's own description has not.
const REFUSED: usize = 3;

/// Instructions of the file that this project counts as graphics: conversions through an attribute's format. They
/// decode by name with raw fields, not to Mesa's text.
const RAW: [&str; 2] = ["LD_CVT", "ST_CVT"];

/// One line of the file.
struct Golden {
    section: &'static str,
    word: u64,
    text: &'static str,
    /// The text in the spelling of Mesa's newest tests, where that differs.
    newest: Option<&'static str>,
}

fn all() -> Vec<Golden> {
    let mut section = "";
    let mut lines = Vec::new();
    for line in EXTRA
        .lines()
        .filter(|l| !l.is_empty() && !l.starts_with('#'))
    {
        if let Some(name) = line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
            section = name;
            continue;
        }
        let (bytes, text) = line.split_once("    ").expect("bytes, four spaces, text");
        let bytes: Vec<u8> = bytes
            .split(' ')
            .map(|b| u8::from_str_radix(b, 16).expect("two hex digits"))
            .collect();
        let bytes: [u8; INSTR_BYTES] = bytes.try_into().expect("eight bytes");
        let (text, note) = match text.split_once(';') {
            Some((text, note)) => (text, Some(note.trim())),
            None => (text, None),
        };
        lines.push(Golden {
            section,
            word: u64::from_le_bytes(bytes),
            text: text.trim(),
            newest: note.and_then(|n| n.strip_prefix("newest:")),
        });
    }
    lines
}

impl Golden {
    /// The mnemonic up to the first dot.
    fn name(&self) -> &'static str {
        self.text.split(['.', ' ']).next().expect("a name")
    }

    fn is_raw(&self) -> bool {
        RAW.contains(&self.name())
    }
}

/// The lines whose text is Mesa's.
fn golden() -> Vec<Golden> {
    let mut lines = all();
    lines.retain(|l| l.section != "refused" && !l.is_raw());
    assert_eq!(lines.len(), WORDS - 3);
    lines
}

fn without_blanks(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace()).collect()
}

/// All failures at once: one wrong row of the table shows as a family of lines.
fn report(failures: &[String]) {
    assert!(
        failures.is_empty(),
        "{} lines:\n{}",
        failures.len(),
        failures.join("\n")
    );
}

#[test]
fn every_word_decodes_to_its_text() {
    let mut failures = Vec::new();
    for line in golden() {
        match decode(line.word) {
            Ok(instr) => {
                let text = instr.to_string();
                if without_blanks(&text) != without_blanks(line.text) {
                    failures.push(format!(
                        "{:016x} [{}]: {} is printed {text}",
                        line.word, line.section, line.text
                    ));
                }
            }
            Err(error) => failures.push(format!("{:016x} {}: {error}", line.word, line.text)),
        }
    }
    report(&failures);
}

#[test]
fn every_decoded_word_comes_back() {
    let mut failures = Vec::new();
    for line in golden() {
        // The words are about encodings alone: some break the rules about the FAU, which `encode` holds.
        let back = decode(line.word).map(|i| i.encode_unchecked());
        if back != Ok(Ok(line.word)) {
            failures.push(format!("{:016x} {}: {back:x?}", line.word, line.text));
        }
    }
    report(&failures);
}

#[test]
fn every_text_gives_its_word() {
    let mut failures = Vec::new();
    for line in golden() {
        match assemble(line.text).map(|i| i.encode_unchecked()) {
            Ok(Ok(word)) if word == line.word => {}
            Ok(Ok(word)) => failures.push(format!(
                "{}: {word:016x}, should be {:016x}",
                line.text, line.word
            )),
            Ok(Err(error)) => failures.push(format!("{}: {error}", line.text)),
            Err(error) => failures.push(format!("{}: {error}", line.text)),
        }
    }
    report(&failures);
}

#[test]
fn all_texts_together_are_a_program() {
    let golden = golden();
    let text: Vec<&str> = golden.iter().map(|l| l.text).collect();
    let words: Vec<u64> = golden.iter().map(|l| l.word).collect();
    assert_eq!(assemble_program(&text.join("\n")), Ok(words));
}

#[test]
fn conversions_through_a_format_are_named_with_raw_fields() {
    let raw: Vec<_> = all().into_iter().filter(Golden::is_raw).collect();
    assert_eq!(raw.len(), 3);
    for line in raw {
        let instr = decode(line.word).expect("decodes");
        assert_eq!(instr.op.info().family, Family::Graphics, "{}", line.text);
        assert_eq!(instr.op.mnemonic(), line.name());
        assert_eq!(instr.encode_unchecked(), Ok(line.word), "{instr}");
        assert_eq!(assemble(&instr.to_string()), Ok(instr), "{instr}");
    }
}

#[test]
fn words_without_a_meaning_are_refused_by_name() {
    let refused: Vec<_> = all()
        .into_iter()
        .filter(|l| l.section == "refused")
        .collect();
    assert_eq!(refused.len(), REFUSED);
    for line in refused {
        let error = decode(line.word).expect_err(line.text).to_string();
        assert!(error.contains(line.name()), "{}: {error}", line.text);
        let error = assemble(line.text).expect_err(line.text).to_string();
        assert!(!error.is_empty(), "{}", line.text);
    }
}

#[test]
fn the_file_is_what_its_head_says() {
    let all = all();
    assert_eq!(all.len(), WORDS + REFUSED);
    let words: BTreeSet<u64> = all.iter().map(|l| l.word).collect();
    assert_eq!(words.len(), WORDS + REFUSED, "a word stands twice");
    let doubtful = all.iter().filter(|l| l.section == "doubts").count();
    assert_eq!(doubtful, 5);
    let newest = all.iter().filter(|l| l.newest.is_some()).count();
    assert!(newest > 50, "{newest} lines have a newer spelling");
    let ops: BTreeSet<Op> = all
        .iter()
        .filter_map(|l| decode(l.word).ok())
        .map(|i| i.op)
        .collect();
    assert!(ops.len() > 190, "{} instructions", ops.len());
}
