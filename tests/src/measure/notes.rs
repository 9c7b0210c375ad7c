//! Text of the documents that no measurement gives.

/// What was looked for and cannot be brought about from outside the driver.
pub const NOT_BROUGHT_ABOUT: &str = "\
## What cannot be brought about without changing the driver

- *Reset latched* (`reset.pending` set for ever). The flag is set by `panthor_device_schedule_reset` and cleared at the end of
  `panthor_device_reset_work`, whose every wait is bounded: suspending groups 2 × 100 ms (`csgs_upd_ctx_apply_locked`), stopping
  the MCU 100 ms, the soft reset 100 ms, power 20 ms, boot 1 s; a failed boot unplugs the device, which is not silent. Where the
  device is not active the work is not queued (or returns early) and 7.x keeps the flag, but the next resume clears it
  (`panthor_device_resume`), and an idle device suspends after 50 ms. So the flag stays only if the work itself never returns
  (a register access that never ends, a bug in the workqueue), or if something holds the device awake while the flag was set
  during a resume. `reset_latched_slow_boot` and `as_stuck_at_resume` come nearest.
- *Tick lost* (a runnable group, no tick queued, nothing else going on). `group_schedule_locked` queues a tick for every group
  that becomes runnable by a submission, unless a reset is pending. The gap that clients can reach is `sync_upd_work`, which
  makes a waiting group runnable without asking for a tick: `sync_wait_evicted`. There the group waits for somebody else's event,
  and its own timer bounds it.
- *Never resident for want of a slot.* Slots and address spaces are handed round (`slots_exhausted`, `twelve_groups`,
  `address_spaces_exhausted`). A group can be kept off for ever only by groups of a higher priority, which need CAP_SYS_NICE or
  DRM master.

";
