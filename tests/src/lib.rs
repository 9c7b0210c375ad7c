//! What the end-to-end tests share: the device that they run on.
//!
//! The same suite runs on a simulator of its own for every test (the default) and on a board:
//! `PANTHOR_TEST_DEVICE=/dev/dri/renderD128 cargo test -p panthor-tests`. Tests that need a simulator's options or its
//! view of the GPU open one themselves and say so.

pub mod measure;
pub mod sequence;

use std::path::PathBuf;
use std::sync::Arc;

use panthor_sim::Sim;
use panthor_uapi::{Device, KernelTransport};

/// The environment variable that names a render node to run on.
pub const DEVICE_VARIABLE: &str = "PANTHOR_TEST_DEVICE";

/// The device under test: the render node that [`DEVICE_VARIABLE`] names, else a fresh simulator.
///
/// # Panics
/// Where it cannot be opened, with the reason.
pub fn device() -> Device {
    let opened = match std::env::var_os(DEVICE_VARIABLE) {
        Some(path) => Device::open(KernelTransport::shared(), PathBuf::from(path)),
        None => {
            let transport = Sim::open("sim").unwrap_or_else(|e| panic!("simulator: {e}"));
            Device::open(transport, "/dev/dri/renderD128")
        }
    };
    opened.unwrap_or_else(|e| panic!("{e}"))
}

/// A simulator with these options (`KEY=VALUE,…`), and a view of what its driver and GPU do.
///
/// # Panics
/// Where the options are wrong.
pub fn simulator(options: &str) -> (Device, Arc<panthor_sim::Device>) {
    let options = format!("sim:{options}")
        .parse()
        .unwrap_or_else(|e| panic!("{e}"));
    let (simulator, _) = Sim::device(options).unwrap_or_else(|e| panic!("simulator: {e}"));
    let device =
        Device::open(simulator.clone(), "/dev/dri/renderD128").unwrap_or_else(|e| panic!("{e}"));
    (device, simulator)
}

/// Golden data at the top of the repository.
pub fn golden(path: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/golden")).join(path)
}
