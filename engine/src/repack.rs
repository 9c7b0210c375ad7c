//! The weight layout that the kernels read.
