//! Command-stream words that were worked out from Mesa's `genxml/v10.xml` by somebody who did not see this crate, and
//! words of panvk's own streams: each decodes to the fields that stand beside it and encodes back to itself.

use std::collections::BTreeMap;

use mali_isa::csf::{self, Field, Op};

const WORDS: &str = include_str!("../../tests/golden/csf/words.txt");

/// One line of the file.
struct Golden<'a> {
    section: &'a str,
    word: u64,
    mnemonic: &'a str,
    fields: Vec<(&'a str, &'a str)>,
}

fn golden() -> Vec<Golden<'static>> {
    let mut section = "";
    let mut lines = Vec::new();
    for line in WORDS
        .lines()
        .filter(|l| !l.is_empty() && !l.starts_with('#'))
    {
        if let Some(name) = line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
            section = name;
            continue;
        }
        let mut parts = line.split_whitespace();
        let word = parts.next().expect("a word");
        lines.push(Golden {
            section,
            word: u64::from_str_radix(word, 16).expect("sixteen hex digits"),
            mnemonic: parts.next().expect("a mnemonic"),
            fields: parts
                .map(|p| p.split_once('=').expect("field=value"))
                .collect(),
        });
    }
    lines
}

/// `v10.xml`'s mnemonic of an instruction, where `decode_csf.c`, whose spelling is ours, prints another.
fn xml_mnemonic(op: &Op) -> &'static str {
    match op.mnemonic {
        "ADD_IMMEDIATE32" => "ADD_IMM32",
        "ADD_IMMEDIATE64" => "ADD_IMM64",
        same => same,
    }
}

/// Our name of a field that `v10.xml` calls `theirs`.
fn field(op: &'static Op, theirs: &str) -> &'static Field {
    let ours = match theirs {
        "ignored" => "payload",
        "immediate" => "imm",
        "destination" => "dst",
        "source" => "src",
        "source_0" => "src0",
        "source_1" => "src1",
        "base_register" => "base",
        "register_count" => "count",
        "l2_flush_mode" => "l2",
        "lsc_flush_mode" => "lsc",
        "other_flush_mode" => "other",
        "other_entry" => "other",
        "endpoint_entry" => "endpoint",
        _ => theirs.strip_suffix("_select").unwrap_or(theirs),
    };
    op.fields
        .iter()
        .find(|f| f.name == ours || f.name == theirs)
        .unwrap_or_else(|| panic!("{} has no field {theirs}", op.mnemonic))
}

/// The enumerators of `v10.xml`; the same number wherever the name stands.
fn enumerator(field: &str, name: &str) -> Option<u64> {
    Some(match (field, name) {
        (_, "false" | "none" | "x" | "lequal" | "system" | "z_order" | "timestamp") => 0,
        (_, "vertex_tiler_started") => 0,
        (_, "true" | "y" | "clean" | "greater" | "horizontal" | "cycle_count") => 1,
        (_, "vertex_tiler_completed") => 1,
        (_, "z" | "equal" | "csg" | "invalidate" | "vertical" | "disjoint_count" | "tiler_oom") => {
            2
        }
        (_, "clean_and_invalidate" | "nequal" | "error_status" | "fragment_completed") => 3,
        (_, "less") => 4,
        (_, "gequal" | "reverse_horizontal") => 5,
        (_, "always" | "reverse_vertical") => 6,
        _ => return None,
    })
}

fn value(field: &str, text: &str) -> i128 {
    if let Some(hex) = text.strip_prefix("0x") {
        i128::from(u64::from_str_radix(hex, 16).expect("hexadecimal"))
    } else if let Ok(number) = text.parse() {
        number
    } else {
        i128::from(enumerator(field, text).unwrap_or_else(|| panic!("{field}={text}?")))
    }
}

#[test]
fn every_valid_and_every_real_word_has_its_fields_and_comes_back() {
    let mut checked = BTreeMap::new();
    for line in golden().iter().filter(|l| l.section != "raw") {
        let instr = csf::decode(line.word)
            .unwrap_or_else(|e| panic!("{:016x} {}: {e}", line.word, line.mnemonic));
        let op = instr.op();
        assert_eq!(xml_mnemonic(op), line.mnemonic, "{:016x}", line.word);
        for (name, text) in &line.fields {
            let field = field(op, name);
            let bits = field.extract(line.word);
            // Signed fields are printed with a sign, all others as they are.
            let found = if text.starts_with('-') {
                i128::from(bits as i64)
            } else {
                i128::from(bits)
            };
            // The size of a protected region is written in bytes, the field counts instructions.
            let found = if (line.mnemonic, *name) == ("PROT_REGION", "size") {
                8 * found
            } else {
                found
            };
            assert_eq!(
                found,
                value(name, text),
                "{:016x} {} {name}",
                line.word,
                line.mnemonic
            );
        }
        assert_eq!(csf::encode(&instr), Ok(line.word), "{instr}");
        let text = instr.to_string();
        assert_eq!(text.parse(), Ok(instr), "{text}");
        *checked.entry(line.section).or_insert(0) += 1;
    }
    assert_eq!(checked.values().sum::<i32>(), 305, "{checked:?}");
}

#[test]
fn every_instruction_of_v10_has_golden_words() {
    let seen: std::collections::BTreeSet<_> = golden()
        .iter()
        .filter(|l| l.section == "valid")
        .map(|l| l.mnemonic)
        .collect();
    for op in csf::TABLE {
        assert!(seen.contains(xml_mnemonic(op)), "{} has none", op.mnemonic);
    }
}

#[test]
fn raw_words_that_decode_come_back_and_the_others_are_refused_by_name() {
    let (mut taken, mut refused) = (0, 0);
    for line in golden().iter().filter(|l| l.section == "raw") {
        match csf::decode(line.word) {
            Ok(instr) => {
                assert_eq!(csf::encode(&instr), Ok(line.word), "{instr}");
                taken += 1;
            }
            Err(error) => {
                let named = csf::TABLE
                    .iter()
                    .find(|op| xml_mnemonic(op) == line.mnemonic)
                    .expect("known");
                assert!(
                    error.to_string().contains(named.mnemonic),
                    "{:016x}: {error}",
                    line.word
                );
                refused += 1;
            }
        }
    }
    assert!(
        taken > 50 && refused > 50,
        "{taken} taken, {refused} refused"
    );
}
