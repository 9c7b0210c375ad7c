//! Our reading of every block format against candle's, on random and synthetic blocks.

use candle_core::Device;
use candle_core::quantized::GgmlDType;
use candle_core::quantized::ggml_file::qtensor_from_ggml;
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
