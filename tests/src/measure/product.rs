//! The largest product of a model on a GPU however slow, through the engine, on any node.

use panthor_engine::gemm::Engine;
use panthor_engine::quant::{Format, Spread, synthetic_activations, synthetic_matrix};
use panthor_engine::reference::verify;
use panthor_uapi::Device;
use serde::{Deserialize, Serialize};

/// Rows, columns and depth: the embedding of SmolLM2-135M at half a batch.
pub const SHAPE: [usize; 3] = [32, 49_152, 576];

/// How the product went.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProductRecord {
    /// Jobs into which it was cut.
    pub jobs: u64,
    /// Milliseconds of the device's clock.
    pub elapsed_ms: u64,
    /// Whether it equals the integer reference bit by bit.
    pub exact: bool,
    /// What is wrong with it, or nothing.
    pub complaint: String,
}

/// Multiplies a synthetic Q8_0 matrix of `n` rows (at most [`SHAPE`]'s) on `device` and checks the result.
///
/// # Errors
/// In words: the engine's refusal or a lost device.
pub fn run(device: &Device, n: usize) -> Result<ProductRecord, String> {
    let [m, most, k] = SHAPE;
    let n = n.min(most);
    let mut engine = Engine::open(device).map_err(|e| e.to_string())?;
    let matrix =
        synthetic_matrix(Format::Q8_0, n, k, 1, Spread::Normal).map_err(|e| e.to_string())?;
    let x = synthetic_activations(m, k, 1, Spread::Normal);
    let weights = engine
        .upload("largest", &matrix.as_matrix())
        .map_err(|e| e.to_string())?;
    let begin = device.transport().now();
    let product = engine
        .multiply(&weights, &x, m)
        .map_err(|e| e.to_string())?;
    let elapsed_ms = (device.transport().now() - begin) / 1_000_000;
    let verdict = verify(
        &matrix.as_matrix(),
        &x,
        m,
        product.quantised.as_ref(),
        &product.y,
        n,
    )
    .map_err(|e| e.to_string())?;
    Ok(ProductRecord {
        jobs: product.jobs as u64,
        elapsed_ms,
        exact: verdict.exact,
        complaint: verdict.complaint(),
    })
}
