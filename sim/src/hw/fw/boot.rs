//! Coming up: the control blocks, from which the driver learns what there is.

use mali_isa::csf::{REGISTERS, SCOREBOARDS};

use super::layout::{self, GROUPS, STREAMS, cs_control, csg_control, glb, glb_control};
use super::mcu::{Mcu, Slot};
use crate::hw::ctx::{Ctx, McuFault};

impl Mcu {
    /// Fills the control blocks and takes over the acknowledgements that stand in memory: after a fast reset the
    /// driver does not reload the sections (`panthor_fw.c`, `panthor_fw_post_reset`), and its next requests differ from
    /// what was acknowledged last.
    pub(super) fn publish(&mut self, ctx: &mut Ctx<'_>) -> Result<(), McuFault> {
        let shared = layout::SHARED;
        for (offset, value) in [
            (glb_control::VERSION, layout::VERSION),
            (glb_control::FEATURES, 0),
            (glb_control::INPUT_VA, layout::GLB_IN as u32),
            (glb_control::OUTPUT_VA, layout::GLB_OUT as u32),
            (glb_control::GROUP_NUM, GROUPS as u32),
            (glb_control::GROUP_STRIDE, layout::GROUP_STRIDE),
            (glb_control::PERFCNT_SIZE, 0),
            (glb_control::INSTR_FEATURES, 0),
        ] {
            ctx.write32(shared + offset, value)?;
        }
        for group in 0..GROUPS {
            let block = csg_control(group);
            for (offset, value) in [
                (csg_control::FEATURES, 0),
                (csg_control::INPUT_VA, layout::csg_in(group) as u32),
                (csg_control::OUTPUT_VA, layout::csg_out(group) as u32),
                (csg_control::SUSPEND_SIZE, layout::SUSPEND_BYTES),
                (csg_control::PROTM_SUSPEND_SIZE, layout::PROTM_SUSPEND_BYTES),
                (csg_control::STREAM_NUM, STREAMS as u32),
                (csg_control::STREAM_STRIDE, layout::STREAM_STRIDE),
            ] {
                ctx.write32(block + offset, value)?;
            }
            let mut slot = Slot {
                done: ctx.read32(layout::csg_out(group) + layout::csg_out::ACK)?,
                ..Slot::default()
            };
            for stream in 0..STREAMS {
                let block = cs_control(group, stream);
                for (offset, value) in [
                    (cs_control::FEATURES, stream_features()),
                    (cs_control::INPUT_VA, layout::cs_in(group, stream) as u32),
                    (cs_control::OUTPUT_VA, layout::cs_out(group, stream) as u32),
                ] {
                    ctx.write32(block + offset, value)?;
                }
                let out = layout::cs_out(group, stream) + layout::cs_out::ACK;
                // No stream runs, whatever ran before.
                let ack = ctx.read32(out)? & !layout::cs::STATE_MASK;
                ctx.write32(out, ack)?;
                slot.streams[stream].done = ack;
            }
            self.slots[group] = slot;
        }
        let out = layout::GLB_OUT;
        ctx.write32(out + layout::glb_out::HALT_STATUS, 0)?;
        let ack = ctx.read32(out + layout::glb_out::ACK)?;
        let req = ctx.read32(layout::GLB_IN + layout::glb_in::REQ)?;
        // Of HALT only a rise counts ("The FW detects 0 -> 1 transitions", 6.12's `panthor_fw_pre_reset`).
        self.global.done = (ack & !glb::HALT) | (req & glb::HALT);
        Ok(())
    }
}

/// `CS_FEATURES_*`: registers, scoreboard entries, and all kinds of endpoint.
const fn stream_features() -> u32 {
    (REGISTERS as u32 - 1) | (SCOREBOARDS as u32) << 8 | layout::cs_control::FEATURE_ENDPOINTS
}
