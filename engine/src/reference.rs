//! The integer reference in plain Rust.
