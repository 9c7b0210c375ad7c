//! The firmware: what the MCU does when it boots, hears a doorbell, or something that it waits for comes.
//!
//! [`Firmware`] is the seam. The registers ([`super::Hardware`]) call it; it reaches memory, interrupts, time and power
//! through [`Ctx`]. It never acts by itself, takes no time while it is called, and is called by one thread.
//!
//! What it does is this model's own, made to fit what the driver does and waits for (`panthor_fw.c`, `panthor_sched.c`);
//! Arm's firmware is closed. [`layout`] has the interface as memory shows it, `global`, `group` and `stream` take up
//! requests, `execute` runs [`crate::csf::Queue`]s, `suspend` keeps them in memory, [`Breach`] is what the driver must
//! not do.
//!
//! # Invented
//! - the firmware hears a doorbell 2 µs later; TERMINATE of a group with a job on the cores takes 50 µs and ends endless
//!   jobs too;
//! - SUSPEND waits until the tasks that are on the cores have ended, and keeps what is left of the job; so an endless
//!   shader is never suspended, an endless stream is;
//! - an event that the host has not acknowledged is not raised again: a second one waits until the next doorbell of
//!   its group slot finds the first acknowledged;
//! - a queue that has reported CS_FAULT goes on when the host has acknowledged it;
//! - after a page fault a queue waits, and ends with CS_BUS_FAULT when the driver switches the address space off;
//! - a tiler wants memory only where a fault says so; without it the stream's exception handler runs, or the queue ends
//!   with CS_FATAL and OOM; fragment jobs that could give some back are not waited for;
//! - a TILER_OOM that is not answered when its group leaves the slot is taken back, and comes again with the group;
//! - the progress timer runs while a task of the group is on the cores, not while a stream loops;
//! - CSG_IDLE comes at once, GLB_IDLE after `idle_timer`; there is no CS_EXTRACT_EVENT;
//! - the shader cores get power when the first job needs it, and lose it when the MCU halts.

mod boot;
mod breach;
mod execute;
mod global;
mod group;
mod heap;
pub mod layout;
mod mcu;
mod notify;
mod status;
mod stream;
mod suspend;
#[cfg(test)]
mod tests;

pub use breach::{BadSuspend, Breach};

use super::ctx::Ctx;
use super::options::Options;

/// The program on the MCU.
///
/// The registers see to this, so that the firmware need not:
/// - no call while the MCU is off, dead by a fault, or an update of its address space 0 is under way (calls are put off);
/// - after [`Firmware::disable`] and [`Firmware::reset`] all scheduled events are forgotten;
/// - a doorbell that a fault loses is not called;
/// - LATEST_FLUSH_ID and its user page follow [`Ctx::caches`] after each call.
pub trait Firmware: Send {
    /// MCU_CONTROL was written with ENABLE or AUTO while the MCU was off. The sections are in memory, through address
    /// space 0. When it is up, the firmware publishes its interfaces, calls [`Ctx::set_mcu_status`] with ENABLED, and
    /// raises [`super::regs::JOB_IRQ_GLOBAL`] (`panthor_fw.c`, `panthor_fw_start`: within 1 s).
    fn boot(&mut self, ctx: &mut Ctx<'_>);

    /// MCU_CONTROL was written with DISABLE: the MCU stops at once, whatever runs; MCU_STATUS is DISABLED already.
    fn disable(&mut self, ctx: &mut Ctx<'_>);

    /// A doorbell page was written: 0 is the global one, others are those of streams (CS_CONFIG).
    fn doorbell(&mut self, ctx: &mut Ctx<'_>, id: u8);

    /// An event that [`Ctx::schedule`] asked for is due; [`Ctx::now`] is its time.
    fn event(&mut self, ctx: &mut Ctx<'_>, token: u64);

    /// An address space was unlocked, flushed or updated: streams that waited for it may go on, those that faulted in it
    /// and whose space is no longer mapped ([`Ctx::is_mapped`]) end with a bus fault.
    fn address_space_changed(&mut self, ctx: &mut Ctx<'_>, number: u8);

    /// A change of power is done ([`Ctx::power_on`]).
    fn power_changed(&mut self, ctx: &mut Ctx<'_>);

    /// The host has cleaned and invalidated all caches: whatever was done before is in memory.
    fn caches_flushed(&mut self, ctx: &mut Ctx<'_>);

    /// The GPU was reset: everything is forgotten. Memory stays.
    fn reset(&mut self);
}

/// The firmware of a GPU with these options.
#[must_use]
pub fn new(options: &Options) -> Box<dyn Firmware> {
    Box::new(mcu::Mcu::new(options))
}
