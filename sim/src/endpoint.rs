//! The shader cores behind a command stream, and the log of what they did: what both fronts of the GPU (`kmd`, `hw`) need.

use std::collections::VecDeque;
use std::error::Error;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::cost::{JobUsage, Usage};
use crate::csf::{self, ComputeEndpoint, JobError, JobRecord};
use crate::shader::{ComputeJob, FaultKind, ShaderCores, ShaderFault, ShaderMemory};

/// Jobs that [`JobLog::recent`] keeps.
const RECENT_JOBS: usize = 1024;

/// What the shader cores have done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobLog {
    /// Compute jobs that ran.
    pub jobs: u64,
    /// Their instructions, all cores together.
    pub usage: Usage,
    /// Cycles that they took, from the first to the last workgroup of each, added up.
    pub cycles: u64,
    /// The latest of them, the oldest first.
    pub recent: VecDeque<JobRecord>,
}

impl JobLog {
    pub(crate) fn add(&mut self, record: JobRecord) {
        self.jobs += 1;
        self.usage += record.usage.total();
        self.cycles += record.usage.cycles();
        if self.recent.len() == RECENT_JOBS {
            self.recent.pop_front();
        }
        self.recent.push_back(record);
    }
}

/// Only plain data is behind the locks: a panic elsewhere leaves it usable.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The shader cores that a group may use.
#[derive(Debug)]
pub(crate) struct Endpoint {
    cores: ShaderCores,
    /// Where the last fault was, in words.
    place: Mutex<Option<String>>,
    ready: bool,
}

impl ComputeEndpoint for Endpoint {
    fn ready(&self) -> bool {
        self.ready
    }

    fn run<M: ShaderMemory>(&self, job: &ComputeJob, memory: &M) -> Result<JobUsage, JobError> {
        match self.cores.run(job, memory) {
            Ok(usage) => Ok(JobUsage::from(&usage)),
            Err(fault) => Err(self.job_error(*fault)),
        }
    }
}

impl Endpoint {
    /// The cores of a group.
    pub(crate) fn new(cores: ShaderCores) -> Self {
        Self {
            cores,
            place: Mutex::default(),
            ready: true,
        }
    }

    /// Whether the cores can take a job.
    pub(crate) fn set_ready(&mut self, ready: bool) {
        self.ready = ready;
    }

    /// Number of the cores.
    pub(crate) fn core_count(&self) -> usize {
        self.cores.core_ids.len()
    }

    /// Where the last fault was, in words.
    pub(crate) fn take_place(&self) -> Option<String> {
        lock(&self.place).take()
    }

    fn job_error<E: Error + Send + 'static>(&self, fault: ShaderFault<E>) -> JobError {
        let text = fault.to_string();
        let pc = fault.at.as_ref().map_or(0, |at| at.pc);
        let exception = exception_of(&fault.kind);
        let cause: Box<dyn Error + Send> = match fault.kind {
            FaultKind::Runaway { limit } => {
                return JobError::Endless {
                    instructions: limit,
                };
            }
            // The memory's own error, in which the command stream looks for the MMU's.
            FaultKind::Memory { error, .. } => Box::new(error),
            kind => Box::new(Reason(kind.to_string())),
        };
        *lock(&self.place) = Some(text);
        JobError::Fault {
            exception,
            pc,
            cause,
        }
    }
}

/// A fault's reason in words.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Reason(String);

/// What the hardware would report of a shader's fault; for what it leaves undefined, the closest.
fn exception_of<E: Error>(kind: &FaultKind<E>) -> csf::Exception {
    match kind {
        FaultKind::MisalignedProgram { .. } => csf::Exception::InstrInvalidPc,
        FaultKind::InvalidInstruction { .. }
        | FaultKind::NotModelled { .. }
        | FaultKind::RegisterOutOfRange { .. }
        | FaultKind::MisalignedRegisters { .. } => csf::Exception::InstrInvalidEnc,
        FaultKind::UnmarkedDivergence
        | FaultKind::DivergentBarrier
        | FaultKind::UnwaitedBarrier
        | FaultKind::BarrierWithPending { .. }
        | FaultKind::LonelyBarrier => csf::Exception::InstrBarrierFault,
        FaultKind::MisalignedAccess { .. } | FaultKind::BeyondBuffer { .. } => {
            csf::Exception::AddrRangeFault
        }
        _ => csf::Exception::DataInvalidFault,
    }
}
