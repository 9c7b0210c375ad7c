//! All matrices of a real model through the reference: shapes, exactness of the fast path's bookkeeping, nearness to f64.

use std::time::Instant;

use panthor_engine::gguf::Model;
use panthor_engine::quant::{Spread, synthetic_activations};
use panthor_engine::reference::{product, product_float, quantise, verify};

/// At M = `PANTHOR_TEST_M` (default 2).
#[test]
#[ignore = "needs a model: PANTHOR_TEST_MODEL=FILE (scripts/test fetches one)"]
fn every_matrix_of_the_model_is_near_f64() {
    let path =
        std::env::var_os("PANTHOR_TEST_MODEL").expect("PANTHOR_TEST_MODEL names a model file");
    let m: usize = std::env::var("PANTHOR_TEST_M").map_or(2, |m| m.parse().unwrap());
    let model = Model::open(&path).unwrap();
    let all = model.matrices().unwrap();
    let (mut macs, mut product_s, mut verify_s, mut worst) = (0u64, 0.0, 0.0, 0f64);
    for (i, t) in all.iter().enumerate() {
        let w = t.weights;
        let x = synthetic_activations(m, w.k(), i as u64, Spread::Normal);
        let start = Instant::now();
        let a = w
            .format()
            .is_quantised()
            .then(|| quantise(&x, m, w.k()).unwrap());
        let y = match &a {
            Some(a) => product(&w, a).unwrap(),
            None => product_float(&w, &x, m).unwrap(),
        };
        product_s += start.elapsed().as_secs_f64();
        let start = Instant::now();
        let v = verify(&w, &x, m, a.as_ref(), &y, w.n()).unwrap();
        verify_s += start.elapsed().as_secs_f64();
        assert!(v.ok, "{}: {}", t.name, v.complaint());
        macs += (m * w.n() * w.k()) as u64;
        worst = worst.max(v.accuracy.nmse);
    }
    println!(
        "{} matrices at M={m}, {:.2} GMAC: product {product_s:.2} s, whole check {verify_s:.2} s, largest NMSE {worst:.2e}",
        all.len(),
        macs as f64 / 1e9,
    );
}
