//! GGUF model files, read without trust.
