//! What a submitted job is.

use std::fmt;

/// An address in a GPU virtual address space; never a pointer of this process and never a handle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GpuAddress(pub u64);

impl GpuAddress {
    /// The address `bytes` further on.
    ///
    /// Wraps on overflow: addresses come from an allocator whose range ends far below.
    #[must_use]
    pub const fn offset(self, bytes: u64) -> Self {
        Self(self.0.wrapping_add(bytes))
    }

    /// Whether the address is a multiple of `align` (a power of two).
    #[must_use]
    pub const fn is_aligned(self, align: u64) -> bool {
        self.0 & (align - 1) == 0
    }
}

impl fmt::Display for GpuAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// A group and one of its queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct QueueId {
    /// Handle of the group, as GROUP_CREATE returned it.
    pub group: u32,
    /// Index of the queue within the group.
    pub queue: u32,
}

/// Handle of a DRM syncobj, binary or timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SyncobjId(pub u32);

/// A value of a timeline syncobj.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TimelinePoint {
    /// The timeline.
    pub syncobj: SyncobjId,
    /// The value that the job signals.
    pub value: u64,
}

/// A range of GPU memory that a job reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BufferRange {
    /// First byte.
    pub start: GpuAddress,
    /// Length in bytes.
    pub size: u64,
}

impl BufferRange {
    /// Whether the two ranges share a byte.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        self.size != 0
            && other.size != 0
            && self.start.0 < other.start.0.saturating_add(other.size)
            && other.start.0 < self.start.0.saturating_add(self.size)
    }
}

/// A 64-bit word that the job's stream stores, so that an onlooker sees how far it came.
///
/// The word lies in memory that is mapped uncached for the GPU, or is read only after the job's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Marker {
    /// Where the stream stores it; 8-byte aligned.
    pub address: GpuAddress,
    /// What the stream stores; distinct for every marker of a job, never 0.
    pub value: u64,
    /// Index of the product within the job after which it is stored; `None`: at the very start of the stream. A job of
    /// the engine holds (a part of) one product, so that its end marker has `Some(0)`.
    pub after_product: Option<u32>,
}

/// What to submit again so that the job runs again from its start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replay {
    /// The command stream; 64-byte aligned, unchanged and mapped as long as the job is not retired.
    pub stream: GpuAddress,
    /// Its length in bytes, a multiple of 8.
    pub stream_size: u32,
    /// The points that the job must wait for first.
    pub waits: Vec<TimelinePoint>,
}

/// One queue submission.
///
/// No job overwrites what it or an unfinished predecessor reads: `outputs` shares no byte with `inputs` of this job or
/// of an earlier one that has not completed. So a job that was stopped anywhere can be submitted again as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Where it was submitted.
    pub queue: QueueId,
    /// The timeline point that it signals.
    pub point: TimelinePoint,
    /// The pooled binary syncobj that it alone signals: the errno of its sync_file is the job's result.
    pub status: SyncobjId,
    /// Words that its stream stores on the way, in this order; the last when its results are in memory.
    pub markers: Vec<Marker>,
    /// How many clocks of the GPU's shader cores the planner expects: those of the busiest core.
    pub predicted_cycles: u64,
    /// What it reads.
    pub inputs: Vec<BufferRange>,
    /// What it writes.
    pub outputs: Vec<BufferRange>,
    /// How to run it again.
    pub replay: Replay,
}

impl Job {
    /// Whether the job can be run again as it is: nothing that it writes is also read by it.
    #[must_use]
    pub fn is_repeatable(&self) -> bool {
        !self
            .outputs
            .iter()
            .any(|o| self.inputs.iter().any(|i| i.overlaps(o)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_overlap_only_where_they_share_a_byte() {
        let r = |start, size| BufferRange {
            start: GpuAddress(start),
            size,
        };
        assert!(r(0x1000, 0x10).overlaps(&r(0x100f, 1)));
        assert!(!r(0x1000, 0x10).overlaps(&r(0x1010, 1)));
        assert!(!r(0x1000, 0).overlaps(&r(0x1000, 1)));
        assert!(r(u64::MAX - 1, 2).overlaps(&r(u64::MAX - 1, 8)));
    }
}
