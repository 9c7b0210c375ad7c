//! The layouts and numbers of this module as data, so that a test can compare them with the kernel's own headers.

use super::{drm, panthor, sync_file};

/// One struct's layout in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Struct {
    /// The struct's name in C, without `struct`.
    pub name: &'static str,
    /// Its size.
    pub size: usize,
    /// Its fields in order, this crate's explicit `_padding` included.
    pub fields: &'static [Field],
}

/// One field of a [`Struct`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// The field's name in C; `r#type` for `type`.
    pub name: &'static str,
    /// Its offset in bytes.
    pub offset: usize,
    /// Its size in bytes.
    pub size: usize,
}

/// One named number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Constant {
    /// Its name in C.
    pub name: &'static str,
    /// Its value; a 32-bit flag is not sign-extended.
    pub value: u64,
}

/// A kernel struct whose layout is known.
pub trait Layout {
    /// The layout.
    const LAYOUT: Struct;
}

/// Every struct.
pub fn structs() -> impl Iterator<Item = &'static Struct> {
    [panthor::STRUCTS, drm::STRUCTS, sync_file::STRUCTS]
        .into_iter()
        .flatten()
}

/// Every request number.
pub fn requests() -> impl Iterator<Item = &'static Constant> {
    [panthor::REQUESTS, drm::REQUESTS, sync_file::REQUESTS]
        .into_iter()
        .flatten()
}

/// Every flag and enumerator.
pub fn constants() -> impl Iterator<Item = &'static Constant> {
    panthor::CONSTANTS
        .into_iter()
        .chain([drm::CONSTANTS])
        .flatten()
}
