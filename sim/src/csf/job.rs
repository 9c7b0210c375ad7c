//! The words that the driver puts around each submission.

use mali_isa::csf::{
    EncodeError, FlushMode, Instr, KERNEL_REGISTERS, OtherFlushMode, REGISTERS, Reg32, Reg64,
    SyncScope,
};

use super::scoreboard::ALL_ENTRIES;

/// What differs from one submission to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobParams {
    /// The flush number that the submitter has seen.
    pub latest_flush: u32,
    /// Address of the user's stream.
    pub start: u64,
    /// Bytes of the user's stream.
    pub size: u32,
    /// Address of the queue's sync object, which is incremented when the job is done. Without one the driver model
    /// sees the end by [`super::Queue::extract`].
    pub sync: Option<u64>,
}

/// The driver's sequence of a job, without profiling: flush, call, wait for everything, signal, error barrier.
/// Source: panthor_sched.c, `prepare_job_instrs` (padded with NOPs to a cache line).
///
/// # Errors
/// [`EncodeError`] for an address of more than 48 bits.
pub fn job_words(params: &JobParams) -> Result<Vec<u64>, EncodeError> {
    let address = Reg64(REGISTERS - KERNEL_REGISTERS);
    let value = Reg64(address.0 + 2);
    let size = Reg32(value.0);
    let mut instrs = vec![
        Instr::Move32 {
            dst: size,
            imm: params.latest_flush,
        },
        Instr::FlushCache2 {
            l2: FlushMode::CleanInvalidate,
            lsc: FlushMode::CleanInvalidate,
            other: OtherFlushMode::Invalidate,
            wait_mask: 0,
            latest_flush_id: size,
            signal_slot: 0,
        },
        Instr::Move48 {
            dst: address,
            imm: params.start,
        },
        Instr::Move32 {
            dst: size,
            imm: params.size,
        },
        Instr::Wait {
            wait_mask: 1,
            progress_increment: false,
        },
        Instr::Call {
            address,
            length: size,
        },
    ];
    if let Some(sync) = params.sync {
        instrs.push(Instr::Move48 {
            dst: address,
            imm: sync,
        });
        instrs.push(Instr::Move48 { dst: value, imm: 1 });
    }
    instrs.push(Instr::Wait {
        wait_mask: ALL_ENTRIES as u8,
        progress_increment: false,
    });
    if params.sync.is_some() {
        instrs.push(Instr::SyncAdd64 {
            error_propagate: true,
            scope: SyncScope::System,
            wait_mask: 0,
            data: value,
            address,
            signal_slot: 0,
        });
    }
    instrs.push(Instr::ErrorBarrier {});
    let mut words = instrs
        .iter()
        .map(Instr::encode)
        .collect::<Result<Vec<_>, _>>()?;
    words.resize(words.len().next_multiple_of(INSTRS_PER_LINE), 0);
    Ok(words)
}

/// The driver pads to a cache line (panthor_sched.c, `NUM_INSTRS_PER_CACHE_LINE`).
const INSTRS_PER_LINE: usize = 8;
