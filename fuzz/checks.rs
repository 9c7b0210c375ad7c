//! What must hold for any input. Shared by the fuzz targets and by `engine/tests/fuzz.rs`, which feeds them a fixed set of inputs.

use std::path::Path;

use mali_isa::{csf, valhall};
use panthor_engine::gguf::Model;
use panthor_engine::quant::dequantise_row;
use panthor_engine::replay::case::Cases;

/// Any bytes as a model file: refused in one line, or every tensor can be used. Returns how many matrices there were.
pub fn gguf(bytes: &[u8]) -> usize {
    let one_line = |text: String| assert!(!text.chars().any(char::is_control), "{text:?}");
    let model = match Model::from_bytes("model.gguf", bytes.to_vec()) {
        Ok(model) => model,
        Err(e) => {
            one_line(e.to_string());
            return 0;
        }
    };
    let mut matrices = 0;
    for t in model.tensors() {
        assert_eq!(model.data(t).len() as u64, t.bytes());
        match model.matrix(&t.name) {
            Ok(m) => {
                let w = m.weights;
                let mut row = vec![0.0; w.k()];
                dequantise_row(w.format(), w.row(w.n() - 1), &mut row);
                matrices += 1;
            }
            Err(e) => one_line(e.to_string()),
        }
    }
    matrices
}

/// Any bytes as a recording, its three files one after the other with a zero byte between them (cases, map, memory; the
/// first two are text). They are written to `folder`, beside an expected output of 16 bytes in `ref`. Refused in one line,
/// or whole. Returns how many cases could be loaded.
pub fn replay(folder: &Path, bytes: &[u8]) -> usize {
    let mut parts = bytes.splitn(3, |b| *b == 0);
    for name in ["cases.json", "map", "memory"] {
        let part = parts.next().unwrap_or_default();
        std::fs::write(folder.join(name), part).expect("the folder can be written");
    }
    std::fs::write(folder.join("ref"), [0; 16]).expect("the folder can be written");
    let one_line = |text: String| assert!(!text.chars().any(char::is_control), "{text:?}");
    let cases = match Cases::open(&folder.join("cases.json")) {
        Ok(cases) => cases,
        Err(e) => {
            one_line(e.to_string());
            return 0;
        }
    };
    let mut good = 0;
    for index in 0..cases.len() {
        match cases.load(index) {
            Ok(case) => {
                assert!(!case.streams.is_empty());
                assert_eq!(case.output.expected.len(), 16);
                good += 1;
            }
            Err(e) => one_line(e.to_string()),
        }
    }
    good
}

/// Any bytes as a command stream and as its text: what decodes encodes to the same word, and so does its text.
/// Returns how many words decoded or were assembled.
pub fn csf(bytes: &[u8]) -> usize {
    let mut good = 0;
    for word in words(bytes) {
        if let Ok(instr) = csf::decode(word) {
            assert_eq!(csf::encode(&instr), Ok(word), "{instr}");
            let text = instr.to_string();
            assert_eq!(text.parse().as_ref(), Ok(&instr), "{word:#018x} {text}");
            good += 1;
        }
    }
    let _ = csf::disassemble(bytes);
    if let Ok(text) = std::str::from_utf8(bytes) {
        if let Ok(program) = csf::assemble_program(text) {
            good += csf::decode_program(&program)
                .expect("what was assembled decodes")
                .len();
        }
    }
    good
}

/// Any bytes as a shader and as its text: as [`csf`].
pub fn valhall(bytes: &[u8]) -> usize {
    let mut good = 0;
    for line in valhall::disassemble(bytes, 0) {
        let _ = line.to_string();
    }
    for word in words(bytes) {
        if let Ok(instr) = valhall::decode(word) {
            assert_eq!(instr.encode_unchecked(), Ok(word), "{instr}");
            let text = instr.to_string();
            let again = valhall::assemble(&text).map(|i| i.encode_unchecked());
            assert_eq!(again, Ok(Ok(word)), "{word:#018x} {text}");
            good += 1;
        }
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        if let Ok(program) = valhall::assemble_program(text) {
            for word in program {
                valhall::decode(word).expect("what was assembled decodes");
                good += 1;
            }
        }
    }
    good
}

fn words(bytes: &[u8]) -> impl Iterator<Item = u64> {
    bytes.chunks_exact(8).map(|c| {
        let mut word = [0; 8];
        word.copy_from_slice(c);
        u64::from_le_bytes(word)
    })
}
