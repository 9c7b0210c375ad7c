//! Measurements on the driver: what becomes of a job that hangs, and what repairs it.
//!
//! - [`scenario`], [`faults`], [`claims`]: the table of what is measured, and what is claimed about it.
//! - [`client`], [`provoke`], [`victim`]: the client that hangs, written against the driver's ioctls alone.
//! - [`inside`], [`observe`], [`peer`]: the half that runs on the device: a victim, a second client, and what the kernel shows.
//! - [`outside`]: the half on the host: boots a machine for each scenario.
//! - [`record`]: what one run saw. [`kills`]: clients killed at random, and what is left of them. [`product`]: a large product.
//! - [`markdown`], [`notes`]: the records of one kernel as a document of `kernel-notes/measured/`.

pub mod claims;
pub mod client;
pub mod faults;
pub mod inside;
pub mod kills;
pub mod markdown;
pub mod notes;
pub mod observe;
pub mod outside;
pub mod peer;
pub mod product;
pub mod provoke;
pub mod record;
pub mod scenario;
pub mod sw_sync;
pub mod victim;
