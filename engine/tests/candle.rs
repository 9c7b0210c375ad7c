//! Our reading of every block format against candle's, on random and synthetic blocks.

use std::io::Cursor;

use candle_core::Device;
use candle_core::quantized::GgmlDType;
use candle_core::quantized::ggml_file::qtensor_from_ggml;
use candle_core::quantized::gguf_file::Content;
use panthor_engine::gguf::{Builder, Model, Value};
use panthor_engine::quant::{Format, Matrix, Spread, random_blocks, synthetic_matrix};

fn dtype(format: Format) -> GgmlDType {
    match format {
        Format::Q4_0 => GgmlDType::Q4_0,
        Format::Q4_1 => GgmlDType::Q4_1,
        Format::Q5_0 => GgmlDType::Q5_0,
        Format::Q5_1 => GgmlDType::Q5_1,
        Format::Q8_0 => GgmlDType::Q8_0,
        Format::Q4_K => GgmlDType::Q4K,
        Format::Q5_K => GgmlDType::Q5K,
        Format::Q6_K => GgmlDType::Q6K,
        Format::F16 => GgmlDType::F16,
        Format::F32 => GgmlDType::F32,
    }
}

fn candle(w: Matrix<'_>) -> Vec<f32> {
    let tensor = qtensor_from_ggml(
        dtype(w.format()),
        w.bytes(),
        vec![w.n(), w.k()],
        &Device::Cpu,
    )
    .unwrap();
    let rows = tensor.dequantize(&Device::Cpu).unwrap();
    rows.flatten_all().unwrap().to_vec1().unwrap()
}

#[test]
fn every_format_reads_as_candle_reads_it() {
    for format in Format::ALL {
        for owned in [
            random_blocks(format, 7, 1024, 11).unwrap(),
            synthetic_matrix(format, 7, 1024, 12, Spread::Normal).unwrap(),
            synthetic_matrix(format, 7, 1024, 13, Spread::Extreme).unwrap(),
        ] {
            let ours = owned.as_matrix().dequantise();
            let theirs = candle(owned.as_matrix());
            assert_eq!(ours.len(), theirs.len());
            for (i, (a, b)) in ours.iter().zip(&theirs).enumerate() {
                assert_eq!(a, b, "{format}, element {i}");
            }
        }
    }
}

#[test]
fn the_tensor_table_reads_as_candle_reads_it() {
    let a = random_blocks(Format::Q4_0, 3, 64, 1).unwrap();
    let b = random_blocks(Format::Q6_K, 5, 256, 2).unwrap();
    let file = Builder::new()
        .text("general.architecture", "llama")
        .matrix("a.weight", &a.as_matrix())
        .tensor("norm", &[3], 0, &[1; 12])
        .matrix("b.weight", &b.as_matrix())
        .build();
    same_tables(file);
}

/// The whole model.
#[test]
#[ignore = "needs a model: PANTHOR_TEST_MODEL=FILE (scripts/test fetches one)"]
fn the_model_reads_as_candle_reads_it() {
    let path =
        std::env::var_os("PANTHOR_TEST_MODEL").expect("PANTHOR_TEST_MODEL names a model file");
    same_tables(std::fs::read(&path).unwrap());
    let model = Model::open(&path).unwrap();
    let all = model.matrices().unwrap();
    for m in all.iter().take(12) {
        let w = m.weights;
        let rows = w.n().min(64);
        let part =
            Matrix::new(w.format(), rows, w.k(), &w.bytes()[..rows * w.row(0).len()]).unwrap();
        assert_eq!(part.dequantise(), candle(part), "{}", m.name);
    }
    let text = |key: &str| match model.metadata(key) {
        Some(Value::Text(t)) => t.clone(),
        other => panic!("{key}: {other:?}"),
    };
    if text("general.basename") == "smollm2" && text("general.size_label") == "135M" {
        assert_eq!(all.len(), 211);
        let embedding = model.matrix("token_embd.weight").unwrap().weights;
        assert_eq!((embedding.n(), embedding.k()), (49152, 576));
        assert_eq!(embedding.format(), Format::Q8_0);
        let q4_1 = all.iter().filter(|m| m.weights.format() == Format::Q4_1);
        assert_eq!(q4_1.count(), 210);
    }
}

fn same_tables(file: Vec<u8>) {
    let theirs = Content::read(&mut Cursor::new(&file)).unwrap();
    let model = Model::from_bytes("model.gguf", file.clone()).unwrap();
    assert_eq!(model.tensors().len(), theirs.tensor_infos.len());
    for t in model.tensors() {
        let info = &theirs.tensor_infos[&t.name];
        // candle lists dimensions slowest first.
        let dims: Vec<u64> = info.shape.dims().iter().rev().map(|d| *d as u64).collect();
        assert_eq!(t.dims, dims, "{}", t.name);
        let from = (theirs.tensor_data_offset + info.offset) as usize;
        assert_eq!(model.data(t), &file[from..from + t.bytes() as usize]);
    }
}
