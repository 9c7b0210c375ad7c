//! Products on the GPU: `Y[M,N] = X[M,K] · W[N,K]ᵀ`.
//!
//! [`Engine`] owns the VM, one group with one queue, a timeline and a pool of binary syncobjs. A product is quantised
//! and multiplied by dispatches (see [`plan`]) that are cut into jobs; jobs are submitted together, each with its own
//! timeline point and its own status syncobj, and waited for one by one with finite deadlines.
//!
//! A failed or expired job makes the engine *lost*: every later call returns the same error.

mod buffers;
mod device;
mod fences;
pub mod plan;
mod run;

pub use device::Engine;
pub use run::Product;

use crate::kernel::KernelError;
use crate::memory::{Buffer, MemoryError};
use crate::reference::ActivationError;
use crate::repack::{LayoutError, RepackError, WeightLayout};
use crate::stream::StreamError;

/// Weights on the GPU, repacked.
#[derive(Debug)]
pub struct Weights {
    buffer: Buffer,
    layout: WeightLayout,
}

impl Weights {
    /// Their layout.
    #[must_use]
    pub const fn layout(&self) -> &WeightLayout {
        &self.layout
    }
}

/// Why a product was not computed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum EngineError {
    /// The driver refused something.
    #[error(transparent)]
    Driver(#[from] panthor_uapi::Error),
    /// Memory.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// A kernel could not be built.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// A stream could not be built.
    #[error(transparent)]
    Stream(#[from] StreamError),
    /// A descriptor could not be packed.
    #[error("descriptor: {0}")]
    Descriptor(#[from] mali_isa::desc::DescError),
    /// A shape that cannot be laid out.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// The weights are not what their layout says.
    #[error(transparent)]
    Repack(#[from] RepackError),
    /// What came back are no activations.
    #[error(transparent)]
    Reference(#[from] ActivationError),
    /// The activations are not M × K.
    #[error("activations: {found} floats for M = {m}, K = {k}")]
    Activations {
        /// Floats given.
        found: usize,
        /// Tokens.
        m: usize,
        /// Elements of a token.
        k: usize,
    },
    /// More tiles or blocks than a kernel can count.
    #[error("{what} = {value} is too large: at most {most}")]
    TooLarge {
        /// The dimension.
        what: &'static str,
        /// Its value.
        value: usize,
        /// The most.
        most: usize,
    },
    /// The GPU lacks something that the engine needs.
    #[error("this GPU has {has} {what}, {needs} are needed")]
    Device {
        /// What.
        what: &'static str,
        /// How many there are.
        has: u32,
        /// How many are needed.
        needs: u32,
    },
    /// [`Engine::set_interrupt`]'s flag was set; what was submitted has ended.
    #[error("interrupted; the jobs that were running have ended")]
    Interrupted,
    /// A job failed or did not end: the engine accepts no more work. The same reason for ever.
    #[error("the GPU queue is lost: {0}")]
    Lost(String),
}
