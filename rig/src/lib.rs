//! The rig: the kernel's own panthor driver, unmodified, in User Mode Linux, over the GPU that `panthor-sim` models
//! register by register.
//!
//! - [`build`]: builds kernels: from Debian's sources ([`debian`]) or a tree of the user's ([`source`]), with the bridge put in
//!   ([`edit`]) and configured ([`config`]).
//! - [`firmware`]: the image that the driver loads.
//! - [`cache`]: the kernels that were built, where they lie and what they were built from.
//! - [`machine`]: boots one and runs a program in it.
//!
//! Glossary: a *kernel* is one set of binaries from one source, patch and configuration; *time-travel* is the binary
//! whose clock is virtual and whose runs repeat bit for bit; *SMP* the binary with several CPUs on the wall clock (User
//! Mode Linux cannot have both); a *variant* is a configuration beyond the plain one ([`cache::Variant`]); the *bridge* is
//! the kernel code (`rig/kernel/`, GPL-2.0) that hands every access to the Mali register window to the model.

#![deny(missing_docs)]

pub mod build;
pub mod cache;
pub mod config;
pub mod debian;
pub mod edit;
pub mod firmware;
pub mod machine;
pub mod process;
pub mod source;
