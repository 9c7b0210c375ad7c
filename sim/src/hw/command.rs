//! GPU_CMD and what belongs to it: resets, cache flushes, the flush id, counters, GPU_STATUS and the GPU's own faults.

use mali_isa::csf::FlushMode;

use super::ctx::scale;
use super::fault::Line;
use super::gpu::{Call, Core, Event};
use super::regs::*;
use super::violation::Rule;
use crate::csf::TIMESTAMP_HZ;

/// Nanoseconds of a soft or hard reset. Assumed, not measured; the driver waits for 100 ms.
pub const RESET_NS: u64 = 20_000;
/// Nanoseconds of a cache flush by GPU_CMD. Assumed, not measured; the driver waits for 100 ms.
pub const FLUSH_NS: u64 = 5_000;
/// CACHE_CLEAN.
const CACHE_CLEAN: u8 = 1;
/// CACHE_INV.
const CACHE_INV: u8 = 2;

/// The registers around GPU_CMD.
#[derive(Debug, Default)]
pub(super) struct Control {
    pub l2_config: u32,
    pub timestamp_offset: u64,
    pub coherency: u32,
    pub fault_status: u32,
    pub fault_address: u64,
    /// A reset is under way.
    pub resetting: bool,
    /// A cache flush is under way.
    pub flushing: bool,
    /// What LATEST_FLUSH_ID shows.
    pub flush_id: u32,
    /// The caches' own counter when last looked at.
    pub flushes_seen: u32,
    /// Physical address of the page that user space maps for LATEST_FLUSH_ID.
    pub flush_page: Option<u64>,
    /// Whether the GPU has been reset since the firmware last ran.
    pub reset_since_boot: bool,
}

impl Core {
    /// A write of GPU_CMD.
    pub(super) fn gpu_command(&mut self, value: u32, now: u64) {
        let Some(command) = GpuCommand::from_value(value) else {
            let text = format!("GPU_CMD {value:#x}");
            return self.violations.add(now, Rule::BadValue, text);
        };
        if self.control.resetting {
            let text = format!("GPU_CMD {command:?} during a reset");
            return self.violations.add(now, Rule::Busy, text);
        }
        match command {
            GpuCommand::SoftReset | GpuCommand::HardReset => self.reset(now),
            GpuCommand::Flush { l2, lsc, other } => self.flush(l2, lsc, other, now),
        }
    }

    /// Everything goes back to its state after power-on but what the guest's memory holds, and the mask of the gpu
    /// block. The caches are written back: whether hardware does so is not known, and the driver flushes before.
    fn reset(&mut self, now: u64) {
        self.control.resetting = true;
        if self.faults.reset_stuck(now) {
            return;
        }
        self.faults.note_reset();
        self.events
            .retain(|event| matches!(event, Event::Spurious(_)));
        self.calls.clear();
        self.calls.push_back(Call::Reset);
        self.mcu_status = McuStatus::Disabled;
        self.mcu_control = 0;
        self.mcu_running = false;
        self.caches.clean_invalidate();
        self.spaces.reset();
        self.power.reset();
        self.irqs.reset();
        self.control.flushing = false;
        self.control.fault_status = 0;
        self.control.fault_address = 0;
        self.control.l2_config = 0;
        self.control.coherency = 0;
        self.control.reset_since_boot = true;
        self.events
            .push(now.saturating_add(RESET_NS), Event::ResetDone);
    }

    fn flush(&mut self, l2: u8, lsc: u8, other: u8, now: u64) {
        if self.control.flushing {
            let text = "GPU_CMD flush during another".to_owned();
            return self.violations.add(now, Rule::Busy, text);
        }
        // The other caches hold nothing that could be written back.
        let modes = (mode(l2), mode(lsc), other & CACHE_CLEAN == 0);
        let (Some(l2), Some(lsc), true) = modes else {
            let text = format!("GPU_CMD flush of L2 {l2}, LSC {lsc}, others {other}");
            return self.violations.add(now, Rule::BadValue, text);
        };
        let from = self.needs_l2(now, || "GPU_CMD flush".to_owned());
        self.control.flushing = true;
        if self.faults.flush_stuck(now) {
            return;
        }
        let at = from.saturating_add(FLUSH_NS);
        self.events.push(at, Event::FlushDone { l2, lsc });
    }

    /// The end of a flush.
    pub(super) fn flush_done(&mut self, l2: FlushMode, lsc: FlushMode) {
        self.control.flushing = false;
        self.caches.flush(l2, lsc, None);
        self.note_flush(l2, lsc);
        self.irqs.raise(Line::Gpu, GPU_IRQ_CLEAN_CACHES_COMPLETED);
    }

    /// Lets LATEST_FLUSH_ID and its user page follow the caches.
    pub(super) fn follow_flush_id(&mut self, now: u64) {
        let latest = self.caches.latest_flush();
        if latest == self.control.flushes_seen {
            return;
        }
        self.control.flushes_seen = latest;
        if self.faults.flush_id_frozen(now) {
            return;
        }
        self.control.flush_id = latest;
        self.show_flush_id();
    }

    pub(super) fn show_flush_id(&mut self) {
        let Some(page) = self.control.flush_page else {
            return;
        };
        if let Err(bad) = self.memory.write32(page, self.control.flush_id) {
            log::error!("LATEST_FLUSH_ID page: {bad}");
            self.control.flush_page = None;
        }
    }

    /// GPU_STATUS.
    pub(super) fn gpu_status(&self) -> u32 {
        let busy = self.control.flushing || self.control.resetting || self.mcu_running;
        let bit = |set: bool, bit: u32| if set { bit } else { 0 };
        bit(busy, GPU_STATUS_ACTIVE)
            | bit(self.power.is_changing(), GPU_STATUS_PWR_ACTIVE)
            | bit(self.spaces.has_fault(), GPU_STATUS_PAGE_FAULT)
    }

    /// GPU_TIMESTAMP: the system counter's ticks, with the offset.
    pub(super) fn timestamp(&self, now: u64) -> u64 {
        scale(now, TIMESTAMP_HZ, 1_000_000_000).wrapping_add(self.control.timestamp_offset)
    }

    /// A fault of the GPU itself. The first stays until the interrupt is cleared.
    pub(super) fn gpu_fault(&mut self, status: u32, address: u64) {
        if self.irqs.raw(Line::Gpu) & GPU_IRQ_FAULT != 0 {
            return;
        }
        self.control.fault_status = status;
        self.control.fault_address = address;
        self.irqs.raise(Line::Gpu, GPU_IRQ_FAULT);
    }
}

/// What a flush does with a cache; invalidation without cleaning loses data, which no driver asks for.
fn mode(bits: u8) -> Option<FlushMode> {
    match bits {
        0 => Some(FlushMode::None),
        CACHE_CLEAN => Some(FlushMode::Clean),
        bits if bits == CACHE_CLEAN | CACHE_INV => Some(FlushMode::CleanInvalidate),
        _ => None,
    }
}
