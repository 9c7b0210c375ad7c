//! The shader instruction table against words and texts that come from elsewhere: the shaders of another driver,
//! as Mesa's disassembler lists them, and Mesa's assembler cases (`tests/golden/valhall/README.md`).

use std::fmt::Write as _;
use std::fs;
use std::io::BufReader;
use std::path::PathBuf;

use mali_isa::valhall::{Family, assemble, assemble_program, decode, disassemble};

fn golden(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../tests/golden/valhall")
        .join(name)
}

/// Blanks do not count in a comparison of texts.
fn squeeze(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The eight bytes of a line, in memory order, as a word.
fn word_of(hex: &str) -> u64 {
    let digits: String = hex.split_whitespace().collect();
    assert_eq!(digits.len(), 16, "{hex}");
    u64::from_str_radix(&digits, 16)
        .expect("hexadecimal")
        .swap_bytes()
}

/// What the listings hold: occurrences, word, text of every distinct word.
fn listing_words() -> Vec<(usize, u64, String)> {
    let file = fs::File::open(golden("listing-words.txt.xz"))
        .expect("the golden words are part of the project");
    let mut bytes = Vec::new();
    lzma_rs::xz_decompress(&mut BufReader::new(file), &mut bytes).expect("a sound archive");
    let text = String::from_utf8(bytes).expect("text");
    let parse = |line: &str| {
        let mut parts = line.splitn(3, ' ');
        let mut next = || parts.next().expect("three columns");
        (
            next().parse().expect("a number"),
            word_of(next()),
            next().to_owned(),
        )
    };
    text.lines().map(parse).collect()
}

/// Number of instructions in the sixteen listings, and of distinct words among them.
const LISTED: usize = 31_388;
const DISTINCT: usize = 15_050;

#[test]
fn every_listed_word_decodes_to_its_text_and_assembles_back() {
    let words = listing_words();
    assert_eq!(words.len(), DISTINCT);
    assert_eq!(
        words.iter().map(|(count, _, _)| count).sum::<usize>(),
        LISTED
    );
    let mut wrong = String::new();
    let mut failures = 0;
    for (_, word, text) in &words {
        let found = match decode(*word) {
            Err(why) => why.to_string(),
            Ok(instr) if squeeze(&instr.to_string()) != *text => instr.to_string(),
            Ok(instr) if instr.encode() != Ok(*word) => format!("encodes to {:x?}", instr.encode()),
            Ok(instr) => match assemble(text) {
                Ok(back) if back == instr => continue,
                Ok(back) => format!("assembles to {back:?}"),
                Err(why) => why.to_string(),
            },
        };
        failures += 1;
        if failures <= 20 {
            writeln!(wrong, "{:016x} {text}: {found}", word.swap_bytes()).expect("memory");
        }
    }
    assert_eq!(failures, 0, "\n{wrong}");
}

#[test]
fn a_listing_assembles_to_its_program() {
    let words = listing_words();
    let text: String = words
        .iter()
        .map(|(_, _, text)| format!("{text}\n"))
        .collect();
    let program = assemble_program(&text).expect("all lines");
    assert!(program.iter().eq(words.iter().map(|(_, word, _)| word)));
    let bytes: Vec<u8> = program.iter().flat_map(|w| w.to_le_bytes()).collect();
    let lines: Vec<_> = disassemble(&bytes, 0x1000).collect();
    assert_eq!(lines.len(), DISTINCT);
    assert_eq!(lines[1].address, 0x1008);
    assert!(lines.iter().all(|line| line.content.is_ok()));
}

/// The lines of the assembler cases that are no compute instruction: they decode to a graphics instruction of this
/// name, whose text is its raw fields.
const GRAPHICS: &[(&str, &str)] = &[
    ("f0 00 3c 33 04 40 7f 78", "BLEND"),
    ("44 00 46 32 28 40 71 78", "ST_CVT"),
    ("44 00 46 34 28 40 71 78", "ST_CVT"),
    ("7c c0 12 00 26 84 67 00", "LEA_TEX_IMM"),
    ("7c c0 02 00 26 84 67 00", "LEA_TEX_IMM"),
    ("3d 00 00 12 b4 82 56 08", "LD_VAR_SPECIAL"),
    ("3d 00 00 33 14 82 5d 08", "LD_VAR_BUF_IMM.f16"),
    ("3d 00 08 33 44 80 5d 08", "LD_VAR_BUF_IMM.f16"),
    ("7c 7d 11 33 04 80 66 00", "LD_ATTR_IMM"),
    ("3d 00 00 b2 88 80 5c 68", "LD_VAR_BUF_IMM.f32"),
    ("81 0b 80 33 04 8e 78 00", "LD_TILE"),
    ("f0 00 3c 32 08 40 7f 78", "BLEND"),
    ("80 00 c0 17 34 7c 25 01", "TEX_FETCH"),
    ("82 20 80 15 b4 80 38 09", "VAR_TEX_SINGLE"),
    ("82 20 80 1d 84 80 38 41", "VAR_TEX_SINGLE"),
];

#[test]
fn assembler_cases_give_their_bytes() {
    let text = fs::read_to_string(golden("assembler-cases.txt"))
        .expect("the cases are part of the project");
    let mut compute = 0;
    let mut graphics = Vec::new();
    let mut wrong = String::new();
    for line in text
        .lines()
        .filter(|l| !l.starts_with('#') && !l.trim().is_empty())
    {
        let (hex, text) = line.split_at(23);
        let word = word_of(hex);
        let text = squeeze(text);
        let instr = match decode(word) {
            Ok(instr) => instr,
            Err(why) => {
                writeln!(wrong, "{line}: {why}").expect("memory");
                continue;
            }
        };
        assert_eq!(instr.encode_unchecked(), Ok(word), "{line}");
        let own = instr.to_string();
        assert_eq!(assemble(&own), Ok(instr), "{line}: {own}");
        if instr.op.info().family == Family::Graphics {
            graphics.push((hex.to_owned(), instr.op.mnemonic()));
            continue;
        }
        compute += 1;
        match assemble(&text) {
            Ok(back) if back == instr => {}
            Ok(back) => writeln!(wrong, "{line}: {back}").expect("memory"),
            Err(why) => writeln!(wrong, "{line}: {why}").expect("memory"),
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
    let named: Vec<_> = graphics
        .iter()
        .map(|(hex, name)| (hex.as_str(), *name))
        .collect();
    assert_eq!(named, GRAPHICS);
    assert_eq!(compute, 147);
}
