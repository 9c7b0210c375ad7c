//! End-to-end tests across the crates, run once per transport.
