//! See `checks::replay`.
#![no_main]

use std::path::PathBuf;
use std::sync::OnceLock;

#[allow(dead_code)]
#[path = "../checks.rs"]
mod checks;

/// A folder of this process, in which each input overwrites the one before.
fn folder() -> &'static PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = std::env::temp_dir().join(format!("fuzz-replay-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder for the input");
        folder
    })
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    checks::replay(folder(), bytes);
});
