//! The panthor driver's rules behind [`panthor_uapi::Transport`].
//!
//! A client's raw ioctl bytes arrive here and get the errno that the driver of the chosen kernel gives for them. The
//! facts are those of Linux 6.12, 7.2 and 7.3, `drivers/gpu/drm/panthor`, `drivers/gpu/drm/scheduler`,
//! `drivers/gpu/drm/drm_syncobj.c` and `drivers/dma-buf`; functions are named where their rules are kept.
//!
//! # Time
//! The clock is virtual: GPU cycles divided by `gpu_mhz`, and a microsecond per ioctl. It runs only while a client waits
//! (for a syncobj, in [`Transport::poll`](panthor_uapi::Transport::poll), in
//! [`sleep_until`](panthor_uapi::Transport::sleep_until)) or calls an ioctl. The queues' timers and all deadlines read
//! it, so that a job times out by what it costs the GPU, not by what it costs the host.
//!
//! # Where it knowingly differs from the kernel
//! - Waits end exactly at their deadline; the kernel rounds up to its timer's ticks.
//! - Nothing interrupts: EINTR, EAGAIN and lost interrupts do not occur by themselves.
//! - A buffer object whose pages cannot be had fails when it is mapped (ENOMEM); 7.x kills the client that touches it.
//! - The jobs' ring instructions are not in the ring's memory; the engine does what they say.
//! - `DMA_BUF_IOCTL_SYNC` and buffers of other drivers do not exist.
//! - The device is never reset and never suspended: CS_UNRECOVERABLE kills its group like every CS_FATAL, no group
//!   becomes innocent, and caches are not written back by idling. Acknowledgements of the firmware take no time.
//! - Profiling instructions (`profiling` of sysfs) are never in the ring.
//!
//! # Glossary
//! - **drm_sched**: the kernel's scheduler of GPU jobs: one *entity* per queue, jobs run in order when their
//!   dependencies have signalled. A job has a *done* fence (the hardware's) and a *finished* fence (what clients see).
//! - **slot**: where the firmware runs a group (CSG slot); the driver's *tick* decides which groups are on the slots.

mod bind;
mod device;
mod drv_group;
mod drv_memory;
pub mod engine;
mod fence;
mod gem;
mod gpu;
mod group;
mod heap;
mod ioctl;
mod kernel_va;
pub(crate) mod options;
mod query;
mod queue;
mod ram;
mod sched;
mod submit;
mod syncobj;
mod tick;
mod user;
mod vm;
mod world;

pub use device::{Device, Sim};
pub use gpu::{JobLog, Mali, Monitor};
pub use options::{BadOption, Kernel, Options};
pub use vm::{VM_PAGE, Vm};
pub use world::LiveObjects;
