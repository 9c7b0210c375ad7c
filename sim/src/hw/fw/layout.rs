//! The interface sections of the CSF firmware as the driver reads them: offsets, bits, sizes.
//!
//! Source: `panthor_fw.h` (`struct panthor_fw_*_iface`), equal in Linux 6.12, 7.2 and 7.3 but for `endpoint_req2`, the
//! GLB_STATE field (both read from interface version 4 on only) and 7.x's name for the halt bits.

/// Where the driver maps the shared section (`panthor_fw.c`, `CSF_MCU_SHARED_REGION_START`): the control block of the
/// global interface lies there.
pub const SHARED: u64 = 0x0400_0000;

/// The interface version that this firmware publishes: major, minor, patch at bits 24, 16, 0 (`panthor_fw.c`,
/// `CSF_IFACE_VERSION`). From 1.1 on there is `instr_features`; from 4.0 on a 64-bit endpoint request.
pub const VERSION: u32 = 1 << 24 | 1 << 16;

/// Group slots ([`crate::model`]).
pub const GROUPS: usize = crate::model::CSG_SLOTS as usize;
/// Stream slots of a group ([`crate::model`]).
pub const STREAMS: usize = crate::model::CS_SLOTS as usize;

/// `CSF_GROUP_CONTROL_OFFSET` (`panthor_fw.c`).
const GROUP_CONTROL: u64 = 0x1000;
/// `CSF_STREAM_CONTROL_OFFSET` (`panthor_fw.c`).
const STREAM_CONTROL: u64 = 0x40;
/// Bytes between groups' control blocks. Our choice: the driver reads it from the global block.
pub const GROUP_STRIDE: u32 = 0x200;
/// Bytes between streams' control blocks. Our choice: the driver reads it from the group's block.
pub const STREAM_STRIDE: u32 = 0x10;

/// Bytes of a suspend buffer. Our choice: the driver allocates what the group's control block says.
pub const SUSPEND_BYTES: u32 = 0x1_0000;
/// Bytes of a protected-mode suspend buffer, which nothing uses; the driver allocates it all the same.
pub const PROTM_SUSPEND_BYTES: u32 = 0x1000;

/// Where the global input block lies. Our choice, as the places of the other blocks.
pub const GLB_IN: u64 = SHARED + 0x4000;
/// Where the global output block lies.
pub const GLB_OUT: u64 = SHARED + 0x5000;
/// Bytes of the shared section that this firmware uses, from [`SHARED`] on.
pub const SHARED_BYTES: u64 = 0x2_8000;

/// Address of a group's control block.
#[must_use]
pub const fn csg_control(group: usize) -> u64 {
    SHARED + GROUP_CONTROL + group as u64 * GROUP_STRIDE as u64
}

/// Address of a stream's control block.
#[must_use]
pub const fn cs_control(group: usize, stream: usize) -> u64 {
    csg_control(group) + STREAM_CONTROL + stream as u64 * STREAM_STRIDE as u64
}

/// Address of a group's input block.
#[must_use]
pub const fn csg_in(group: usize) -> u64 {
    SHARED + 0x1_0000 + group as u64 * 0x200
}

/// Address of a group's output block.
#[must_use]
pub const fn csg_out(group: usize) -> u64 {
    csg_in(group) + 0x100
}

/// Address of a stream's input block.
#[must_use]
pub const fn cs_in(group: usize, stream: usize) -> u64 {
    SHARED + 0x2_0000 + (group * STREAMS + stream) as u64 * 0x200
}

/// Address of a stream's output block.
#[must_use]
pub const fn cs_out(group: usize, stream: usize) -> u64 {
    cs_in(group, stream) + 0x100
}

/// `struct panthor_fw_global_control_iface`.
pub mod glb_control {
    /// Offset of `version`.
    pub const VERSION: u64 = 0x0;
    /// Offset of `features`.
    pub const FEATURES: u64 = 0x4;
    /// Offset of `input_va`.
    pub const INPUT_VA: u64 = 0x8;
    /// Offset of `output_va`.
    pub const OUTPUT_VA: u64 = 0xc;
    /// Offset of `group_num`.
    pub const GROUP_NUM: u64 = 0x10;
    /// Offset of `group_stride`.
    pub const GROUP_STRIDE: u64 = 0x14;
    /// Offset of `perfcnt_size`.
    pub const PERFCNT_SIZE: u64 = 0x18;
    /// Offset of `instr_features`.
    pub const INSTR_FEATURES: u64 = 0x1c;
}

/// `struct panthor_fw_csg_control_iface`.
pub mod csg_control {
    /// Offset of `features`.
    pub const FEATURES: u64 = 0x0;
    /// Offset of `input_va`.
    pub const INPUT_VA: u64 = 0x4;
    /// Offset of `output_va`.
    pub const OUTPUT_VA: u64 = 0x8;
    /// Offset of `suspend_size`.
    pub const SUSPEND_SIZE: u64 = 0xc;
    /// Offset of `protm_suspend_size`.
    pub const PROTM_SUSPEND_SIZE: u64 = 0x10;
    /// Offset of `stream_num`.
    pub const STREAM_NUM: u64 = 0x14;
    /// Offset of `stream_stride`.
    pub const STREAM_STRIDE: u64 = 0x18;
}

/// `struct panthor_fw_cs_control_iface`.
pub mod cs_control {
    /// Offset of `features`.
    pub const FEATURES: u64 = 0x0;
    /// Offset of `input_va`.
    pub const INPUT_VA: u64 = 0x4;
    /// Offset of `output_va`.
    pub const OUTPUT_VA: u64 = 0x8;
    /// `CS_FEATURES_COMPUTE`, `_FRAGMENT`, `_TILER`.
    pub const FEATURE_ENDPOINTS: u32 = 7 << 16;
}

/// `struct panthor_fw_global_input_iface`.
pub mod glb_in {
    /// Offset of `req`.
    pub const REQ: u64 = 0x0;
    /// Offset of `ack_irq_mask`.
    pub const ACK_IRQ_MASK: u64 = 0x4;
    /// Offset of `doorbell_req`: a bit for each group.
    pub const DOORBELL_REQ: u64 = 0x8;
    /// Offset of `progress_timer`: cycles, in units of 1024.
    pub const PROGRESS_TIMER: u64 = 0x10;
    /// Offset of `poweroff_timer`.
    pub const POWEROFF_TIMER: u64 = 0x14;
    /// Offset of `core_en_mask`, 64 bits.
    pub const CORE_EN_MASK: u64 = 0x18;
    /// Offset of `idle_timer`.
    pub const IDLE_TIMER: u64 = 0x80;
}

/// `struct panthor_fw_global_output_iface`.
pub mod glb_out {
    /// Offset of `ack`.
    pub const ACK: u64 = 0x0;
    /// Offset of `doorbell_ack`.
    pub const DOORBELL_ACK: u64 = 0x8;
    /// Offset of `halt_status`: 0 is PANTHOR_FW_HALT_OK.
    pub const HALT_STATUS: u64 = 0x10;
}

/// Bits of the global request word (`GLB_*`).
pub mod glb {
    /// Halt the MCU; not acknowledged through the interface (`panthor_fw_glb_wait_acks`).
    pub const HALT: u32 = 1 << 0;
    /// `progress_timer` has changed.
    pub const CFG_PROGRESS_TIMER: u32 = 1 << 1;
    /// `core_en_mask` has changed.
    pub const CFG_ALLOC_EN: u32 = 1 << 2;
    /// `poweroff_timer` has changed.
    pub const CFG_POWEROFF_TIMER: u32 = 1 << 3;
    /// Enter protected mode.
    pub const PROTM_ENTER: u32 = 1 << 4;
    /// Performance counters.
    pub const PERFCNT: u32 = 3 << 5;
    /// Keep the cycle and timestamp counters on (7.x).
    pub const COUNTER_EN: u32 = 1 << 7;
    /// Are you there?
    pub const PING: u32 = 1 << 8;
    /// Firmware configuration has changed.
    pub const FWCFG_UPDATE: u32 = 1 << 9;
    /// Report when all groups are idle.
    pub const IDLE_EN: u32 = 1 << 10;
    /// Bit 11 (DESCHEDULE in Arm's kernel driver): panthor has no name for it and never sets it.
    pub const DESCHEDULE: u32 = 1 << 11;
    /// `GLB_SLEEP`, and from interface version 4.1 on GLB_STATE.
    pub const STATE_MASK: u32 = 7 << 12;
    /// Event: all groups have been idle for `idle_timer`.
    pub const IDLE: u32 = 1 << 26;
    /// `GLB_TIMER_SOURCE_GPU_COUNTER`: a timer counts GPU cycles, else ticks of the system timestamp.
    pub const TIMER_SOURCE_GPU_COUNTER: u32 = 1 << 31;
    /// A timer's value counts units of 1024 (`panthor_fw_conv_timeout`, `PROGRESS_TIMEOUT_SCALE_SHIFT`).
    pub const TIMER_SHIFT: u32 = 10;
    /// What is acknowledged as soon as it is read.
    pub const CONFIG: u32 = CFG_PROGRESS_TIMER
        | CFG_ALLOC_EN
        | CFG_POWEROFF_TIMER
        | COUNTER_EN
        | PING
        | FWCFG_UPDATE
        | IDLE_EN;
    /// What this firmware refuses.
    pub const REFUSED: u32 = PROTM_ENTER | PERFCNT | DESCHEDULE | STATE_MASK;
}

/// `struct panthor_fw_csg_input_iface`.
pub mod csg_in {
    /// Offset of `req`.
    pub const REQ: u64 = 0x0;
    /// Offset of `ack_irq_mask`.
    pub const ACK_IRQ_MASK: u64 = 0x4;
    /// Offset of `doorbell_req`: a bit for each stream.
    pub const DOORBELL_REQ: u64 = 0x8;
    /// Offset of `cs_irq_ack`.
    pub const CS_IRQ_ACK: u64 = 0xc;
    /// Offset of `allow_compute`, 64 bits.
    pub const ALLOW_COMPUTE: u64 = 0x20;
    /// Offset of `endpoint_req`.
    pub const ENDPOINT_REQ: u64 = 0x34;
    /// Offset of `suspend_buf`, 64 bits: an address of the MCU.
    pub const SUSPEND_BUF: u64 = 0x40;
    /// Offset of `config`: the address space.
    pub const CONFIG: u64 = 0x50;
}

/// `struct panthor_fw_csg_output_iface`.
pub mod csg_out {
    /// Offset of `ack`.
    pub const ACK: u64 = 0x0;
    /// Offset of `doorbell_ack`.
    pub const DOORBELL_ACK: u64 = 0x8;
    /// Offset of `cs_irq_req`.
    pub const CS_IRQ_REQ: u64 = 0xc;
    /// Offset of `status_endpoint_current`.
    pub const STATUS_ENDPOINT_CURRENT: u64 = 0x10;
    /// Offset of `status_endpoint_req`.
    pub const STATUS_ENDPOINT_REQ: u64 = 0x14;
    /// Offset of `status_state`; bit 0 is `CSG_STATUS_STATE_IS_IDLE`.
    pub const STATUS_STATE: u64 = 0x18;
    /// Offset of `resource_dep`.
    pub const RESOURCE_DEP: u64 = 0x1c;
}

/// Bits of a group's request word (`CSG_*`).
pub mod csg {
    /// The state that is asked for.
    pub const STATE_MASK: u32 = 7;
    /// `CSG_STATE_TERMINATE`.
    pub const TERMINATE: u32 = 0;
    /// `CSG_STATE_START`.
    pub const START: u32 = 1;
    /// `CSG_STATE_SUSPEND`.
    pub const SUSPEND: u32 = 2;
    /// `CSG_STATE_RESUME`.
    pub const RESUME: u32 = 3;
    /// The endpoint request has changed.
    pub const ENDPOINT_CONFIG: u32 = 1 << 4;
    /// Write the status words.
    pub const STATUS_UPDATE: u32 = 1 << 5;
    /// Event: a sync object has changed.
    pub const SYNC_UPDATE: u32 = 1 << 28;
    /// Event: no queue has anything to do.
    pub const IDLE: u32 = 1 << 29;
    /// Event: no task of a job has ended for the time of the progress timer.
    pub const PROGRESS_TIMER_EVENT: u32 = 1 << 31;
}

/// `struct panthor_fw_cs_input_iface`.
pub mod cs_in {
    /// Offset of `req`.
    pub const REQ: u64 = 0x0;
    /// Offset of `config`.
    pub const CONFIG: u64 = 0x4;
    /// Offset of `ack_irq_mask`.
    pub const ACK_IRQ_MASK: u64 = 0xc;
    /// Offset of `ringbuf_base`, 64 bits: an address of the group's space.
    pub const RINGBUF_BASE: u64 = 0x10;
    /// Offset of `ringbuf_size`.
    pub const RINGBUF_SIZE: u64 = 0x18;
    /// Offset of `heap_start`, 64 bits: the chunk that answers a TILER_OOM, 0 for none.
    pub const HEAP_START: u64 = 0x20;
    /// Offset of `ringbuf_input`, 64 bits: an address of the MCU.
    pub const RINGBUF_INPUT: u64 = 0x30;
    /// Offset of `ringbuf_output`, 64 bits: an address of the MCU.
    pub const RINGBUF_OUTPUT: u64 = 0x38;
}

/// `struct panthor_fw_cs_output_iface`.
pub mod cs_out {
    /// Offset of `ack`.
    pub const ACK: u64 = 0x0;
    /// Offset of `status_cmd_ptr`, 64 bits.
    pub const STATUS_CMD_PTR: u64 = 0x40;
    /// Offset of `status_wait`.
    pub const STATUS_WAIT: u64 = 0x48;
    /// Offset of `status_req_resource`.
    pub const STATUS_REQ_RESOURCE: u64 = 0x4c;
    /// Offset of `status_wait_sync_ptr`, 64 bits.
    pub const STATUS_WAIT_SYNC_PTR: u64 = 0x50;
    /// Offset of `status_wait_sync_value`.
    pub const STATUS_WAIT_SYNC_VALUE: u64 = 0x58;
    /// Offset of `status_scoreboards`.
    pub const STATUS_SCOREBOARDS: u64 = 0x5c;
    /// Offset of `status_blocked_reason`.
    pub const STATUS_BLOCKED_REASON: u64 = 0x60;
    /// Offset of `status_wait_sync_value_hi`.
    pub const STATUS_WAIT_SYNC_VALUE_HI: u64 = 0x64;
    /// Offset of `fault`: exception type in the low byte.
    pub const FAULT: u64 = 0x80;
    /// Offset of `fatal`.
    pub const FATAL: u64 = 0x84;
    /// Offset of `fault_info`, 64 bits.
    pub const FAULT_INFO: u64 = 0x88;
    /// Offset of `fatal_info`, 64 bits.
    pub const FATAL_INFO: u64 = 0x90;
    /// Offset of `heap_vt_start`.
    pub const HEAP_VT_START: u64 = 0xc0;
    /// Offset of `heap_vt_end`.
    pub const HEAP_VT_END: u64 = 0xc4;
    /// Offset of `heap_frag_end`.
    pub const HEAP_FRAG_END: u64 = 0xcc;
    /// Offset of `heap_address`, 64 bits.
    pub const HEAP_ADDRESS: u64 = 0xd0;
}

/// Bits of a stream's request word (`CS_*`).
pub mod cs {
    /// The state that is asked for.
    pub const STATE_MASK: u32 = 7;
    /// `CS_STATE_STOP`.
    pub const STOP: u32 = 0;
    /// `CS_STATE_START`.
    pub const START: u32 = 1;
    /// Report the extract position (6.12 sets it and ignores the event).
    pub const EXTRACT_EVENT: u32 = 1 << 4;
    /// A queue in SYNC_WAIT counts as idle.
    pub const IDLE_SYNC_WAIT: u32 = 1 << 8;
    /// A queue that waits for protected mode counts as idle.
    pub const IDLE_PROTM_PENDING: u32 = 1 << 9;
    /// A queue without instructions counts as idle.
    pub const IDLE_EMPTY: u32 = 1 << 10;
    /// A queue that waits for a resource counts as idle.
    pub const IDLE_RESOURCE_REQ: u32 = 1 << 11;
    /// Event: the tiler's heap is exhausted.
    pub const TILER_OOM: u32 = 1 << 26;
    /// Event: the queue cannot go on.
    pub const FATAL: u32 = 1 << 30;
    /// Event: a fault from which the queue recovers.
    pub const FAULT: u32 = 1 << 31;
    /// What is acknowledged as soon as it is read.
    pub const CONFIG: u32 =
        EXTRACT_EVENT | IDLE_SYNC_WAIT | IDLE_PROTM_PENDING | IDLE_EMPTY | IDLE_RESOURCE_REQ;
}

/// Fields of `status_wait` and values of `status_blocked_reason`.
pub mod status {
    /// `CS_STATUS_WAIT_SB_SRC_WAIT`.
    pub const WAIT_SB_SRC_WAIT: u32 = 8 << 16;
    /// `CS_STATUS_WAIT_SYNC_COND_GT`.
    pub const WAIT_SYNC_COND_GT: u32 = 1 << 24;
    /// `CS_STATUS_WAIT_PROGRESS`.
    pub const WAIT_PROGRESS: u32 = 1 << 28;
    /// `CS_STATUS_WAIT_SYNC_64B`.
    pub const WAIT_SYNC_64B: u32 = 1 << 30;
    /// `CS_STATUS_WAIT_SYNC`.
    pub const WAIT_SYNC: u32 = 1 << 31;
    /// `CS_STATUS_BLOCKED_REASON_UNBLOCKED`.
    pub const UNBLOCKED: u32 = 0;
    /// `CS_STATUS_BLOCKED_REASON_SB_WAIT`.
    pub const SB_WAIT: u32 = 1;
    /// `CS_STATUS_BLOCKED_REASON_PROGRESS_WAIT`.
    pub const PROGRESS_WAIT: u32 = 2;
    /// `CS_STATUS_BLOCKED_REASON_SYNC_WAIT`.
    pub const SYNC_WAIT: u32 = 3;
    /// `CS_STATUS_BLOCKED_REASON_RESOURCE`.
    pub const RESOURCE: u32 = 5;
}

/// `struct panthor_fw_ringbuf_input_iface` and `_output_iface`.
pub mod ring {
    /// Offset of `insert` in the input block.
    pub const INSERT: u64 = 0x0;
    /// Offset of the initial `extract` in the input block.
    pub const EXTRACT_INIT: u64 = 0x8;
    /// Offset of `extract` in the output block.
    pub const EXTRACT: u64 = 0x0;
    /// Offset of `active` in the output block.
    pub const ACTIVE: u64 = 0x8;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_neither_overlap_nor_leave_the_section() {
        let mut blocks = vec![(SHARED, 0x20), (GLB_IN, 0x84), (GLB_OUT, 0x1c)];
        for group in 0..GROUPS {
            blocks.extend([
                (super::csg_control(group), 0x1c),
                (super::csg_in(group), 0x58),
                (super::csg_out(group), 0x20),
            ]);
            for stream in 0..STREAMS {
                blocks.extend([
                    (super::cs_control(group, stream), 0xc),
                    (super::cs_in(group, stream), 0x58),
                    (super::cs_out(group, stream), 0xd8),
                ]);
            }
        }
        blocks.sort_unstable();
        for pair in blocks.windows(2) {
            assert!(pair[0].0 + pair[0].1 <= pair[1].0, "{pair:x?}");
        }
        let (last, bytes) = blocks[blocks.len() - 1];
        assert!(last + bytes <= SHARED + SHARED_BYTES);
    }
}
