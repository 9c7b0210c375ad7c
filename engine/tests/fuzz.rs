//! The checks of the fuzz targets on a fixed set of mutated inputs, so that every test run exercises them.

use panthor_engine::gguf::Builder;
use panthor_engine::quant::{Format, SplitMix, random_blocks};

#[path = "../../fuzz/checks.rs"]
mod checks;

/// Instructions as text, good and nearly good; mutation makes the rest.
const CSF_TEXT: &str = "MOVE32 r10, #0x123456\nloop: // a label\nADD_IMMEDIATE32 r1, r1, #-1\nBRANCH.ne r1, loop\nNOP\n";
const VALHALL_TEXT: &str = "IADD.u32 r0, r1, r2.h0\nloop:\nFMA.f32 r1, r1^, u8, 0x0.neg\nBRANCHZ.eq.reconverge r0, offset:loop\nNOP.end\n";

fn mutate(seed: &[u8], rng: &mut SplitMix) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for _ in 0..1 + rng.below(8) {
        let len = bytes.len() as u64;
        if len == 0 {
            break;
        }
        let at = rng.below(len) as usize;
        match rng.below(6) {
            0 => bytes[at] = rng.next_u64() as u8,
            1 => bytes[at] ^= 1 << rng.below(8),
            2 => bytes.truncate(at),
            3 => bytes.insert(at, b" .,rux#0:/-\n"[rng.below(12) as usize]),
            4 => {
                let end = (at + 8).min(bytes.len());
                let word = [0, u64::MAX, 1 << 63, 33][rng.below(4) as usize];
                bytes[at..end].copy_from_slice(&word.to_le_bytes()[..end - at]);
            }
            _ => {
                let from = rng.below(len) as usize;
                let n = rng.below(16).min(len - from.max(at) as u64) as usize;
                bytes.copy_within(from..from + n, at);
            }
        }
    }
    bytes
}

fn random_words(rng: &mut SplitMix, opcode_byte: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..16 {
        let mut word = rng.next_u64().to_le_bytes();
        // Few bits set: reserved fields are then mostly zero and more words decode.
        if rng.below(2) == 0 {
            let thin = rng.next_u64() & rng.next_u64() & rng.next_u64();
            let opcode = word[opcode_byte];
            word = thin.to_le_bytes();
            word[opcode_byte] = opcode;
        }
        bytes.extend(word);
    }
    bytes
}

#[test]
fn model_files() {
    let a = random_blocks(Format::Q4_0, 3, 64, 1).unwrap();
    let b = random_blocks(Format::Q6_K, 2, 256, 2).unwrap();
    let mut builder = Builder::new();
    builder.alignment = 64;
    let seed = builder
        .text("general.architecture", "llama")
        .metadata("general.alignment", 4, &64u32.to_le_bytes())
        .matrix("a.weight", &a.as_matrix())
        .matrix("b.weight", &b.as_matrix())
        .build();
    assert_eq!(checks::gguf(&seed), 2);
    let mut rng = SplitMix::new(1);
    let mut accepted = 0;
    for _ in 0..20_000 {
        checks::gguf(&mutate(&seed[..seed.len().min(600)], &mut rng));
        accepted += checks::gguf(&mutate(&seed, &mut rng));
    }
    assert!(accepted > 2_000, "only {accepted} matrices got through");
}

const CASES: &str = r#"[{"op": "copy", "snapshot": "memory", "map": "map", "streams": [{"queue": 0, "stream": "0x10000",
"size": 64}], "tensors": [{"role": "dst", "type": "f32", "va": "0x11000", "bytes": 16}], "ref": "ref", "tolerance":
{"nmse": 0.001}}]"#;
const MAP: &str = r#"{"va": "0x10000", "size": 8192, "bo": 1, "bo_off": 0, "vmflags": 0}
{"va": "0x12000", "size": "0x1000", "bo": 1, "bo_off": 8192, "vmflags": 2}"#;

#[test]
fn recordings() {
    let folder = tempfile::tempdir().unwrap();
    let mut seed = [CASES.as_bytes(), MAP.as_bytes(), &[]].join(&0);
    seed.extend(0x10000u64.to_le_bytes());
    seed.extend(8u64.to_le_bytes());
    seed.extend([1; 8]);
    assert_eq!(checks::replay(folder.path(), &seed), 1);
    let mut rng = SplitMix::new(3);
    let mut loaded = 0;
    for round in 0..1_500 {
        // JSON rarely survives: the files are mutated from the first, the second or the third on.
        let kept = [0, CASES.len() + 1, CASES.len() + MAP.len() + 2][round % 3];
        let input = [&seed[..kept], &mutate(&seed[kept..], &mut rng)].concat();
        loaded += checks::replay(folder.path(), &input);
    }
    assert!(loaded > 50, "only {loaded} recordings got through");
}

#[test]
fn command_streams() {
    let mut rng = SplitMix::new(2);
    assert!(checks::csf(CSF_TEXT.as_bytes()) >= 4);
    let (mut from_words, mut from_text) = (0, 0);
    for opcode in 0..=255u64 {
        for operands in [0, 0xff_ffff_ffff_ffff, 0x0012_3456_789a_bcde] {
            from_words += checks::csf(&((opcode << 56) | operands).to_le_bytes());
        }
    }
    for _ in 0..20_000 {
        from_words += checks::csf(&random_words(&mut rng, 7));
        from_text += checks::csf(&mutate(CSF_TEXT.as_bytes(), &mut rng));
    }
    assert!(
        from_words > 2_000 && from_text > 2_000,
        "only {from_words} words and {from_text} instructions got through"
    );
}

#[test]
fn shaders() {
    let mut rng = SplitMix::new(3);
    assert!(checks::valhall(VALHALL_TEXT.as_bytes()) >= 4);
    let (mut from_words, mut from_text) = (0, 0);
    for _ in 0..20_000 {
        from_words += checks::valhall(&random_words(&mut rng, 6));
        from_text += checks::valhall(&mutate(VALHALL_TEXT.as_bytes(), &mut rng));
    }
    assert!(
        from_words > 2_000 && from_text > 2_000,
        "only {from_words} words and {from_text} instructions got through"
    );
}
