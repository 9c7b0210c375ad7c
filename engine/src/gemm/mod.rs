//! Products on the GPU: `Y[M,N] = X[M,K] · W[N,K]ᵀ`.
//!
//! [`Engine`] owns the VM, one group with one queue, a timeline and a pool of binary syncobjs. A product is quantised
//! and multiplied by dispatches (see [`plan`]) that are cut into jobs; jobs are submitted together, each with its own
//! timeline point and its own status syncobj, and waited for one by one with finite deadlines.
//!
//! Every job's stream ends by storing a word, and a job without it is not good, whatever its fence says.
//!
//! A failed or expired job makes the engine *lost*: every later call returns the same error. Later jobs of the
//! submission may still run then, and whoever repairs the queue may submit the lost ones again: their streams,
//! parameters, inputs, outputs and status syncobjs stay as they are until the engine is dropped.

mod buffers;
mod device;
mod fences;
pub mod plan;
mod prepare;
mod record;
mod run;
mod submit;
mod work;

pub use device::Engine;
pub use prepare::check_shape;
pub use record::{Recorded, Recording};
pub use run::Product;

use std::sync::Arc;

use crate::kernel::KernelError;
use crate::memory::{Buffer, MemoryError};
use crate::reference::ActivationError;
use crate::repack::{LayoutError, RepackError, WeightLayout};
use crate::stream::StreamError;
use panthor_uapi::{Errno, errno_name};

/// Weights on the GPU, repacked. An engine that is lost while jobs may still read them keeps them mapped.
#[derive(Debug)]
pub struct Weights {
    buffer: Arc<Buffer>,
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
    /// The engine contradicts itself: a bug.
    #[error("internal error: {0}")]
    Internal(String),
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
    #[error(transparent)]
    Lost(#[from] Box<Lost>),
}

/// How the engine was lost.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the GPU queue is lost: job {job} of {jobs}: job at point {point} {cause}; group {}",
    state_text(group)
)]
pub struct Lost {
    /// The job's number within its submission, from 1.
    pub job: usize,
    /// Jobs of the submission.
    pub jobs: usize,
    /// The job's timeline point.
    pub point: u64,
    /// What became of the job.
    pub cause: LostCause,
    /// The group's state afterwards; `None` where the driver did not tell.
    pub group: Option<panthor_uapi::GroupState>,
}

/// What became of the job that lost the engine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LostCause {
    /// Its fence did not signal in time.
    #[error("did not end within {0:?}")]
    Expired(std::time::Duration),
    /// Its fence signalled with an error (positive errno): ETIMEDOUT when the driver's timer killed it.
    #[error("ended with {}", errno_name(Errno::from_raw_os_error(*.0)))]
    Failed(i32),
    /// Its fence signalled well, yet its stream did not come to its end: a fault that the driver did not report.
    #[error("ended without its end marker: a fault that the driver did not report")]
    Unfinished,
    /// Its timeline point signalled, its own fence did not.
    #[error("is pending though its timeline point signalled")]
    NotItsOwn,
    /// The device could not be asked.
    #[error("cannot be asked for: {0}")]
    Device(panthor_uapi::Error),
}

impl From<panthor_watchdog::WatchError<panthor_uapi::Error>> for LostCause {
    fn from(error: panthor_watchdog::WatchError<panthor_uapi::Error>) -> Self {
        use panthor_watchdog::WatchError;
        match error {
            WatchError::Expired { waited, .. } => Self::Expired(waited),
            WatchError::JobFailed { errno, .. } => Self::Failed(errno),
            WatchError::NotItsOwn(_) => Self::NotItsOwn,
            WatchError::Device(error) => Self::Device(error),
        }
    }
}

fn state_text(state: &Option<panthor_uapi::GroupState>) -> String {
    state.map_or_else(|| "state unknown".to_owned(), |state| state.to_string())
}
