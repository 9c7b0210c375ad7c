//! Block formats of quantised weights.
