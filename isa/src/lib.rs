//! Mali Valhall v10 shader instructions, CSF v10 command streams and descriptors: encode, decode, text.
//!
//! Pure functions, no I/O. One table per instruction set; encoding, decoding, text and field documentation
//! come from it.

pub mod csf;
pub mod desc;
pub mod valhall;
