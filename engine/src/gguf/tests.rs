//! Good files are read, bad ones are refused in one line, and nothing panics.

use super::*;
use crate::quant::{Format, SplitMix, random_blocks};
use proptest::prelude::*;

const F32: u32 = 0;
const Q4_0: u32 = 2;
const Q4_K: u32 = 12;

fn sample() -> Builder {
    let a = random_blocks(Format::Q4_0, 3, 64, 1).unwrap();
    let b = random_blocks(Format::Q6_K, 5, 256, 2).unwrap();
    let mut file = Builder::new();
    file.text("general.architecture", "llama")
        .metadata("llama.block_count", 4, &30u32.to_le_bytes())
        .metadata(
            "numbers",
            9,
            &[
                5u32.to_le_bytes(),
                2u32.to_le_bytes(),
                [0; 4],
                [1; 4],
                [2; 4],
            ]
            .concat(),
        )
        .matrix("a.weight", &a.as_matrix())
        .tensor("norm.weight", &[8], F32, &[0; 32])
        .matrix("b.weight", &b.as_matrix());
    file
}

fn open(file: &Builder) -> Result<Model, GgufError> {
    Model::from_bytes("model.gguf", file.build())
}

/// The one-line error of a file that must be refused.
fn refused(file: &Builder) -> String {
    let text = open(file).expect_err("must be refused").to_string();
    assert_one_line(&text);
    text
}

fn assert_one_line(text: &str) {
    assert!(text.starts_with("model.gguf: "), "{text}");
    assert!(!text.chars().any(char::is_control), "{text:?}");
    assert!(text.len() < 700, "{text}");
}

#[test]
fn a_good_file_is_read() {
    let model = open(&sample()).unwrap();
    assert_eq!(model.version(), 3);
    assert_eq!(model.tensors().len(), 3);
    assert_eq!(
        model.metadata("llama.block_count"),
        Some(&Value::Unsigned(30))
    );
    assert_eq!(
        model.metadata("general.architecture"),
        Some(&Value::Text("llama".to_owned()))
    );
    assert!(matches!(
        model.metadata("numbers"),
        Some(Value::Array { element: 5, count: 2, from, to }) if to - from == 8
    ));
    let all = model.matrices().unwrap();
    let names: Vec<_> = all.iter().map(|m| m.name).collect();
    assert_eq!(names, ["a.weight", "b.weight"]);
    let b = model.matrix("b.weight").unwrap().weights;
    assert_eq!((b.format(), b.n(), b.k()), (Format::Q6_K, 5, 256));
    let wanted = random_blocks(Format::Q6_K, 5, 256, 2).unwrap();
    assert_eq!(b.bytes(), wanted.as_matrix().bytes());
}

#[test]
fn a_file_on_disk_is_mapped() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("m.gguf");
    std::fs::write(&path, sample().build()).unwrap();
    assert_eq!(Model::open(&path).unwrap().matrices().unwrap().len(), 2);

    std::fs::write(&path, b"").unwrap();
    let text = Model::open(&path).unwrap_err().to_string();
    assert!(text.contains("ends within the header"), "{text}");
    let text = Model::open(dir.path()).unwrap_err().to_string();
    assert!(text.contains("no regular file"), "{text}");
    let text = Model::open(dir.path().join("none"))
        .unwrap_err()
        .to_string();
    assert!(text.contains("cannot be opened"), "{text}");
}

#[test]
fn every_truncation_is_refused() {
    let whole = sample().build();
    for len in 0..whole.len() {
        let text = Model::from_bytes("model.gguf", whole[..len].to_vec())
            .expect_err("truncated")
            .to_string();
        assert_one_line(&text);
        assert!(
            ["truncated", "more than its"]
                .iter()
                .any(|w| text.contains(w)),
            "{len}: {text}"
        );
    }
}

#[test]
fn hostile_headers_are_refused() {
    let with = |change: fn(&mut Builder)| {
        let mut file = sample();
        change(&mut file);
        refused(&file)
    };
    let has = |text: String, part: &str| assert!(text.contains(part), "{text}");
    has(with(|f| f.version = 1), "version 1");
    has(with(|f| f.version = 4), "version 4");
    has(with(|f| f.version = 3u32.swap_bytes()), "big-endian");
    for count in [10_000, 1 << 31, 1 << 60, u64::MAX] {
        let mut file = sample();
        file.tensor_count = Some(count);
        has(refused(&file), "tensors");
        let mut file = sample();
        file.metadata_count = Some(count);
        has(refused(&file), "metadata entries");
    }
    let mut bytes = sample().build();
    bytes[0] = b'g';
    let text = Model::from_bytes("model.gguf", bytes).unwrap_err();
    has(text.to_string(), "does not start with");
}

#[test]
fn hostile_metadata_is_refused() {
    let with = |key: &str, kind: u32, value: &[u8]| {
        let mut file = Builder::new();
        file.metadata(key, kind, value)
            .zeros("a.weight", &[32, 2], Q4_0);
        refused(&file)
    };
    let has = |text: String, part: &str| assert!(text.contains(part), "{text}");
    let array = |element: u32, count: u64, rest: &[u8]| {
        [&element.to_le_bytes()[..], &count.to_le_bytes(), rest].concat()
    };
    has(with("k", 13, &[0; 8]), "unknown value type 13");
    has(with("k", 7, &[2]), "truth value");
    has(with("k", 8, &u64::MAX.to_le_bytes()), "the value of \"k\"");
    has(with("k", 9, &array(5, u64::MAX, &[])), "elements of \"k\"");
    has(with("k", 9, &array(12, 1 << 61, &[])), "elements of \"k\"");
    has(
        with("k", 9, &array(8, u64::MAX / 8, &[])),
        "elements of \"k\"",
    );
    has(with("k", 9, &array(8, 1, &[0xff; 8])), "elements of \"k\"");
    has(with("k", 9, &array(99, 1, &[])), "unknown value type 99");
    // Arrays in arrays, deep enough to exhaust a stack if one followed.
    let deep = array(9, 1, &[]).repeat(100_000);
    has(with("k", 9, &deep), "too deeply");
    has(with("", 4, &[0; 4]), "metadata name \"\" that is empty");
    let long = "x".repeat(70_000);
    has(with(&long, 4, &[0; 4]), "longer than any name");

    for alignment in [0u32, 3, 48, 1 << 21] {
        let text = with("general.alignment", 4, &alignment.to_le_bytes());
        has(text, &format!("general.alignment {alignment}"));
    }
    has(with("general.alignment", 6, &[0; 4]), "no unsigned integer");

    let mut file = sample();
    file.text("general.architecture", "again");
    has(
        refused(&file),
        "two metadata entries called \"general.architecture\"",
    );
}

#[test]
fn hostile_tensors_are_refused_by_name() {
    let with = |change: &dyn Fn(&mut Builder)| {
        let mut file = sample();
        change(&mut file);
        refused(&file)
    };
    let has = |text: String, part: &str| assert!(text.contains(part), "{text}");
    let entry = |dims: &'static [u64], kind: u32, offset: u64| {
        with(&move |f: &mut Builder| {
            f.entry("evil", dims, kind, offset);
        })
    };
    has(entry(&[32, 0], Q4_0, 0), "\"evil\" has a dimension of 0");
    has(entry(&[], Q4_0, 0), "\"evil\" has no dimensions");
    has(entry(&[1; 5], F32, 0), "more than four");
    has(entry(&[u64::MAX, 2], F32, 0), "more elements");
    has(entry(&[1 << 32, 1 << 32], F32, 0), "more elements");
    has(entry(&[1 << 31, 1 << 30], F32, 0), "\"evil\" needs");
    has(entry(&[1 << 62, 1], F32, 0), "more bytes");
    has(entry(&[33, 1], Q4_0, 0), "no multiple of the 32");
    has(
        entry(&[128, 2], Q4_K, 0),
        "no multiple of the 256 of a Q4_K",
    );
    has(entry(&[32, 1], Q4_0, 1), "not aligned to 32");
    has(entry(&[32, 1], Q4_0, 1 << 20), "\"evil\" needs 18 bytes");
    has(
        entry(&[32, 1], Q4_0, u64::MAX - 31),
        "\"evil\" needs 18 bytes",
    );
    has(entry(&[32, 1], 4, 0), "Q4_2, a type that ggml has removed");
    has(entry(&[32, 1], 99, 0), "type number 99");
    has(entry(&[32, 1], Q4_0, 0), "overlap");
    has(
        entry(&[8], F32, 128),
        "\"norm.weight\" and \"evil\" overlap",
    );
    has(
        with(&|f| {
            f.zeros("a.weight", &[32, 1], Q4_0);
        }),
        "two tensors called \"a.weight\"",
    );
    has(
        with(&|f| {
            f.tensor([0xff, 0xfe], &[1], F32, &[0; 4]);
        }),
        "no UTF-8",
    );
    has(
        with(&|f| {
            f.tensor("y".repeat(1000), &[1], F32, &[0; 4]);
        }),
        "longer than any name",
    );
    // A name that would break the line or turn the terminal's colours.
    has(
        with(&|f| {
            f.tensor("bad\n\u{1b}[31m", &[0], F32, &[0; 4]);
        }),
        "bad\\u{a}\\u{1b}[31m",
    );
}

#[test]
fn tensors_that_cannot_be_multiplied_are_refused_when_used() {
    let mut file = sample();
    file.zeros("iq", &[256, 2], 23)
        .zeros("experts", &[32, 2, 4], Q4_0)
        .zeros("flat", &[32, 2, 1, 1], Q4_0);
    let model = open(&file).unwrap();
    assert!(model.matrix("a.weight").is_ok());
    let flat = model.matrix("flat").unwrap().weights;
    assert_eq!((flat.n(), flat.k()), (2, 32));
    let error = |name: &str| {
        let text = model.matrix(name).unwrap_err().to_string();
        assert_one_line(&text);
        text
    };
    assert!(error("iq").contains("\"iq\" is IQ4_XS, which is not multiplied"));
    assert!(error("experts").contains("no matrix (its dimensions are [32, 2, 4])"));
    assert!(error("norm.weight").contains("no matrix"));
    assert!(error("a").contains("did you mean \"a.weight\"?"));
    assert!(error("nothing").contains("check the name"));
    let text = model.matrices().unwrap_err().to_string();
    assert!(text.contains("IQ4_XS"), "{text}");
    let empty = open(&Builder::new()).unwrap();
    let text = empty.matrices().unwrap_err().to_string();
    assert!(text.contains("no matrix among its 0 tensors"), "{text}");
}

#[test]
fn other_alignments_are_kept() {
    for alignment in [1u32, 8, 64, 4096] {
        let mut file = Builder::new();
        file.alignment = alignment.into();
        file.metadata("general.alignment", 4, &alignment.to_le_bytes())
            .tensor("a", &[32, 1], Q4_0, &[7; 18])
            .tensor("b", &[32, 1], Q4_0, &[9; 18]);
        let model = open(&file).unwrap();
        assert_eq!(model.matrix("b").unwrap().weights.bytes(), [9; 18]);
    }
}

/// Whatever the bytes are: an answer, and what is accepted can be used.
fn survive(bytes: Vec<u8>) {
    match Model::from_bytes("model.gguf", bytes) {
        Err(e) => assert_one_line(&e.to_string()),
        Ok(model) => {
            for t in model.tensors() {
                assert_eq!(model.data(t).len() as u64, t.bytes());
                match model.matrix(&t.name) {
                    Ok(m) => {
                        let w = m.weights;
                        let mut row = vec![0.0; w.k()];
                        crate::quant::dequantise_row(w.format(), w.row(w.n() - 1), &mut row);
                    }
                    Err(e) => assert_one_line(&e.to_string()),
                }
            }
        }
    }
}

#[test]
fn single_bytes_can_take_any_value() {
    let whole = sample().build();
    // The table ends before the first tensor's data; beyond it every byte is legal anyway.
    for at in 0..500 {
        for value in [0, 1, 0x7f, 0x80, 0xff] {
            let mut bytes = whole.clone();
            bytes[at] = value;
            survive(bytes);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn mutated_files_never_panic(seed: u64, changes in 1usize..12, cut: bool) {
        let mut bytes = sample().build();
        let mut rng = SplitMix::new(seed);
        for _ in 0..changes {
            let at = rng.below(500) as usize;
            match rng.below(4) {
                0 => bytes[at] = rng.next_u64() as u8,
                1 => bytes[at] ^= 1 << rng.below(8),
                2 => {
                    let word = [0, u64::MAX, 1 << 63, 1 << 32, 33][rng.below(5) as usize];
                    bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
                }
                _ => {
                    let (to, n) = (rng.below(480) as usize, rng.below(20) as usize);
                    bytes.copy_within(at..at + n, to);
                }
            }
        }
        if cut {
            bytes.truncate(rng.below(bytes.len() as u64) as usize);
        }
        survive(bytes);
    }

    #[test]
    fn random_bytes_after_the_magic_never_panic(tail in prop::collection::vec(any::<u8>(), 0..200)) {
        survive([b"GGUF\x03\0\0\0".to_vec(), tail].concat());
    }
}
