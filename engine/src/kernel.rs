//! Shader kernels, written with a typed builder over `mali_isa`.
