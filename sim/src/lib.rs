//! A simulator of the panthor driver and of a Mali-G610 behind it.
//!
//! Rooms, from the application downwards:
//! - [`kmd`]: the driver's rules; implements `panthor_uapi::Transport`, receives raw ioctl bytes.
//! - [`csf`]: the command-stream processor: registers, scoreboards, waits, RUN_COMPUTE.
//! - [`shader`]: the Valhall cores: warps of 16 lanes that run a compute job's workgroups.
//! - [`mmu`]: address translation and the caches between the cores and memory.
//! - [`hw`]: the registers of the same GPU, for the real driver: a second front beside [`kmd`].
//! - [`model`]: the values of its ID and feature registers. [`cost`]: cycle accounting. [`fault`]: injection of failures.
//!
//! The GPU part (`csf`, `shader`, `mmu`) knows nothing of the driver: it reaches memory only through
//! [`mmu::AddressSpace`] and time only as counted cycles, so that the same GPU can serve behind another driver.
//!
//! What hardware leaves undefined is an error here, with the instruction, its address and the register.
//!
//! [`Sim::open`] is the way in.

pub mod cost;
pub mod csf;
pub(crate) mod endpoint;
pub mod fault;
pub mod hw;
pub mod kmd;
pub mod mmu;
pub mod model;
pub mod shader;

pub use kmd::{BadOption, Device, Kernel, Options, Sim};
