//! Every matrix of a real model through the whole stack.

use panthor_engine::gemm::Engine;
use panthor_engine::gguf::Model;
use panthor_engine::quant::{Spread, synthetic_activations};
use panthor_engine::reference::verify;
use panthor_tests::device;

/// Tokens of X.
const M: usize = 32;

#[test]
#[ignore = "needs a model: PANTHOR_TEST_MODEL=FILE (scripts/test fetches one)"]
fn all_matrices_of_the_model_are_right_and_exact() {
    let path =
        std::env::var_os("PANTHOR_TEST_MODEL").expect("PANTHOR_TEST_MODEL names a model file");
    let model = Model::open(path).unwrap();
    let matrices = model.matrices().unwrap();
    assert_eq!(
        matrices.len(),
        211,
        "SmolLM2-135M-Instruct has 211 matrices"
    );
    let device = device();
    let mut engine = Engine::open(&device).unwrap();
    for (seed, matrix) in matrices.iter().enumerate() {
        let w = &matrix.weights;
        let x = synthetic_activations(M, w.k(), seed as u64, Spread::Normal);
        let weights = engine.upload(matrix.name, w).unwrap();
        let product = engine.multiply(&weights, &x, M).unwrap();
        let verdict = verify(w, &x, M, product.quantised.as_ref(), &product.y, w.n()).unwrap();
        assert!(
            verdict.ok && verdict.exact,
            "{}: {}",
            matrix.name,
            verdict.complaint()
        );
    }
}
