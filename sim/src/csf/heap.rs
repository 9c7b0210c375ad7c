//! The context of a tiler heap, as HEAP_SET names it: the counters of render passes.
//!
//! The driver gives each heap some bytes of memory that it never looks into (`panthor_heap.c`, `HEAP_CONTEXT_SIZE`); what
//! firmware keeps there is not public. Here: three counters of HEAP_OPERATION, 32 bits each, in the order of CS_STATUS's
//! `heap_vt_start`, `heap_vt_end`, `heap_frag_end`. There is no tiler: nothing else uses a heap.

use mali_isa::csf::HeapOperation;

/// Bytes of a heap context (`HEAP_CONTEXT_SIZE`).
pub const BYTES: usize = 32;
/// Alignment of a heap context.
pub const ALIGNMENT: u64 = 32;

/// Address of a counter.
#[must_use]
pub const fn counter(context: u64, operation: HeapOperation) -> u64 {
    context.wrapping_add(match operation {
        HeapOperation::VertexTilerStarted => 0,
        HeapOperation::VertexTilerCompleted => 4,
        HeapOperation::FragmentCompleted => 8,
    })
}
