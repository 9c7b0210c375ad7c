//! Text of the documents that no measurement gives.

/// The silent hangs that start inside the driver, and what of them can be brought about from outside.
pub const SILENT_HANGS: &str = "\
## Silent hangs: what the GPU or a client can bring about, and what only a changed driver could

- *Reset latched* (`reset.pending` set, nothing queued that clears it) can be brought about on 7.x, at a resume: an address-space
  command that takes longer than 100 ms there (`reset_pending_latch`; `findings/reset-latched-at-resume.md`). Outside of a resume
  it cannot: the flag is cleared at the end of `panthor_device_reset_work`, whose every wait is bounded: suspending groups
  2 × 100 ms (`csgs_upd_ctx_apply_locked`), stopping the MCU 100 ms, the soft reset 100 ms, power 20 ms, boot 1 s; a failed boot
  unplugs the device, which is not silent. There it would take a work that never returns (a register access that never ends, a
  bug in the workqueue).
- *Tick lost* (a runnable group, no tick queued, nothing else going on). `group_schedule_locked` queues a tick for every group
  that becomes runnable by a submission, unless a reset is pending. The gap that clients can reach is `sync_upd_work`, which
  makes a waiting group runnable without asking for a tick: `sync_wait_evicted`. There the group waits for somebody else's event,
  and its own timer bounds it.
- *Never resident for want of a slot.* Slots and address spaces are handed round (`slots_exhausted`, `twelve_groups`,
  `address_spaces_exhausted`). A group can be kept off for ever only by groups of a higher priority, which need CAP_SYS_NICE or
  DRM master.

";
