//! Descriptors in memory: shader program, local storage, buffers, and packed register words.
