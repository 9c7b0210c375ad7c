//! The firmware: what the MCU does when it boots, hears a doorbell, or something that it waits for comes.
//!
//! [`Firmware`] is the seam. The registers ([`super::Hardware`]) call it; it reaches memory, interrupts, time and power
//! through [`Ctx`]. It never acts by itself, takes no time while it is called, and is called by one thread.

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

    /// The GPU was reset: everything is forgotten. Memory stays.
    fn reset(&mut self);
}

/// The firmware of a GPU with these options.
#[must_use]
pub fn new(_options: &Options) -> Box<dyn Firmware> {
    Box::new(Blank)
}

/// An MCU without a program: it never comes up.
#[derive(Debug, Default)]
pub struct Blank;

impl Firmware for Blank {
    fn boot(&mut self, _ctx: &mut Ctx<'_>) {}
    fn disable(&mut self, _ctx: &mut Ctx<'_>) {}
    fn doorbell(&mut self, _ctx: &mut Ctx<'_>, _id: u8) {}
    fn event(&mut self, _ctx: &mut Ctx<'_>, _token: u64) {}
    fn address_space_changed(&mut self, _ctx: &mut Ctx<'_>, _number: u8) {}
    fn power_changed(&mut self, _ctx: &mut Ctx<'_>) {}
    fn reset(&mut self) {}
}
