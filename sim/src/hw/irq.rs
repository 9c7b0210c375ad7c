//! The three interrupt blocks: RAWSTAT, CLEAR, MASK, STAT at 0x20 (gpu), 0x1000 (job) and 0x2000 (mmu).
//!
//! A line is high while RAWSTAT & MASK is not 0 (`panthor_device.h`, `PANTHOR_IRQ_HANDLER`: the driver reads STAT to see
//! whether the interrupt is its own, masks the block, handles RAWSTAT & its own mask, and unmasks).

use super::event::EventQueue;
use super::fault::Line;
use super::injection::{Delivery, Faults};
use super::regs::IrqReg;

/// One block.
#[derive(Clone, Copy, Debug, Default)]
struct Block {
    raw: u32,
    mask: u32,
    /// Pending bits for which the line stays low until they are cleared, or until [`Irqs::deliver`].
    hidden: u32,
    /// Bits that were pending when last looked at.
    seen: u32,
}

/// The three blocks.
#[derive(Debug, Default)]
pub struct Irqs {
    blocks: [Block; 3],
    late: EventQueue<(Line, u32)>,
    last: u32,
    rises: [u64; 3],
}

impl Irqs {
    /// Raises bits of RAWSTAT.
    pub fn raise(&mut self, line: Line, bits: u32) {
        self.blocks[line as usize].raw |= bits;
    }

    /// RAWSTAT.
    #[must_use]
    pub fn raw(&self, line: Line) -> u32 {
        self.blocks[line as usize].raw
    }

    /// Reads a register of a block. CLEAR reads as 0.
    #[must_use]
    pub fn read(&self, line: Line, register: IrqReg) -> u32 {
        let block = self.blocks[line as usize];
        match register {
            IrqReg::RawStat => block.raw,
            IrqReg::Clear => 0,
            IrqReg::Mask => block.mask,
            IrqReg::Stat => block.raw & block.mask,
        }
    }

    /// Writes a register of a block. A write of RAWSTAT raises bits (to test the line); STAT takes none, which the caller
    /// has seen to.
    pub fn write(&mut self, line: Line, register: IrqReg, value: u32) {
        let block = &mut self.blocks[line as usize];
        match register {
            IrqReg::RawStat => block.raw |= value,
            IrqReg::Clear => {
                block.raw &= !value;
                block.hidden &= !value;
                block.seen &= !value;
                self.late.retain(|(l, bit)| *l != line || bit & value == 0);
            }
            IrqReg::Mask => block.mask = value,
            IrqReg::Stat => {}
        }
    }

    /// Looks at what has become pending, and lets the faults spoil it. After each access and each event.
    pub(super) fn update(&mut self, faults: &mut Faults, now: u64) {
        while let Some((_, (line, bit))) = self.late.pop_due(now) {
            self.blocks[line as usize].hidden &= !bit;
        }
        for line in Line::ALL {
            let block = &mut self.blocks[line as usize];
            let pending = block.raw & block.mask;
            let fresh = pending & !block.seen;
            block.seen |= pending;
            for bit in (0..32).filter(|bit| fresh >> bit & 1 != 0) {
                match faults.interrupt(line, bit, now) {
                    None => {}
                    Some(Delivery::Lost) => block.hidden |= 1 << bit,
                    Some(Delivery::Late(by)) => {
                        block.hidden |= 1 << bit;
                        self.late.push(now.saturating_add(by), (line, 1 << bit));
                    }
                }
            }
        }
        let levels = self.levels();
        for line in Line::ALL {
            self.rises[line as usize] += u64::from((levels & !self.last) >> line as u32 & 1);
        }
        self.last = levels;
    }

    /// How often each line has risen, by number.
    #[must_use]
    pub fn rises(&self) -> [u64; 3] {
        self.rises
    }

    /// The levels of the lines, bit `n` for line number `n`.
    #[must_use]
    pub fn levels(&self) -> u32 {
        let level = |line: &Line| {
            let block = self.blocks[*line as usize];
            u32::from(block.raw & block.mask & !block.hidden != 0) << *line as u32
        };
        Line::ALL.iter().map(level).sum()
    }

    /// When a late interrupt is due.
    #[must_use]
    pub fn next_deadline(&self) -> Option<u64> {
        self.late.next_deadline()
    }

    /// After a soft or hard reset: nothing is pending, and only the gpu block keeps its mask (the driver waits for
    /// RESET_COMPLETED without writing it again: `panthor_gpu.c`, `panthor_gpu_soft_reset`). That the other masks are
    /// cleared is assumed; the driver sets them anew.
    pub fn reset(&mut self) {
        let mask = self.blocks[Line::Gpu as usize].mask;
        self.blocks = Default::default();
        self.blocks[Line::Gpu as usize].mask = mask;
        self.late = EventQueue::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hw::fault::Fault;

    fn none() -> Faults {
        Faults::new(&[], 0)
    }

    fn one(text: &str) -> Faults {
        Faults::new(&[text.parse::<Fault>().unwrap()], 0)
    }

    #[test]
    fn a_line_is_raw_and_mask() {
        let (mut irqs, mut faults) = (Irqs::default(), none());
        irqs.raise(Line::Job, 1 << 31 | 4);
        irqs.update(&mut faults, 0);
        assert_eq!((irqs.levels(), irqs.read(Line::Job, IrqReg::Stat)), (0, 0));
        irqs.write(Line::Job, IrqReg::Mask, 4);
        irqs.update(&mut faults, 0);
        assert_eq!((irqs.levels(), irqs.read(Line::Job, IrqReg::Stat)), (1, 4));
        assert_eq!(irqs.read(Line::Job, IrqReg::RawStat), 1 << 31 | 4);
        // The handler's sequence: mask, clear, unmask.
        irqs.write(Line::Job, IrqReg::Mask, 0);
        irqs.update(&mut faults, 0);
        assert_eq!(irqs.levels(), 0);
        irqs.write(Line::Job, IrqReg::Clear, 4);
        irqs.write(Line::Job, IrqReg::Mask, !0);
        irqs.update(&mut faults, 0);
        assert_eq!(irqs.read(Line::Job, IrqReg::Stat), 1 << 31);
        assert_eq!(irqs.levels(), 1);
        assert_eq!(irqs.rises(), [2, 0, 0]);
        irqs.raise(Line::Gpu, 1);
        irqs.raise(Line::Mmu, 1);
        irqs.write(Line::Gpu, IrqReg::Mask, 1);
        irqs.write(Line::Mmu, IrqReg::Mask, 1);
        assert_eq!(irqs.levels(), 7);
        irqs.reset();
        assert_eq!(irqs.levels(), 0);
        assert_eq!(irqs.read(Line::Gpu, IrqReg::Mask), 1);
        assert_eq!(irqs.read(Line::Mmu, IrqReg::Mask), 0);
    }

    #[test]
    fn a_lost_interrupt_is_seen_with_the_next() {
        let (mut irqs, mut faults) = (Irqs::default(), one("irq-lost:irq=job:once"));
        irqs.write(Line::Job, IrqReg::Mask, !0);
        irqs.raise(Line::Job, 1);
        irqs.update(&mut faults, 0);
        irqs.update(&mut faults, 1);
        assert_eq!((irqs.levels(), irqs.read(Line::Job, IrqReg::Stat)), (0, 1));
        irqs.raise(Line::Job, 2);
        irqs.update(&mut faults, 2);
        assert_eq!((irqs.levels(), irqs.read(Line::Job, IrqReg::Stat)), (1, 3));
    }

    #[test]
    fn a_late_interrupt_comes_at_its_time() {
        let (mut irqs, mut faults) = (Irqs::default(), one("irq-late:irq=gpu:by=1ms:bit=8"));
        irqs.write(Line::Gpu, IrqReg::Mask, !0);
        irqs.raise(Line::Gpu, 1 << 8);
        irqs.update(&mut faults, 5);
        assert_eq!((irqs.levels(), irqs.next_deadline()), (0, Some(1_000_005)));
        irqs.update(&mut faults, 1_000_004);
        assert_eq!(irqs.levels(), 0);
        irqs.update(&mut faults, 1_000_005);
        assert_eq!(irqs.levels(), 4);
        // Cleared and raised again: late anew.
        irqs.write(Line::Gpu, IrqReg::Clear, 1 << 8);
        irqs.raise(Line::Gpu, 1 << 8);
        irqs.update(&mut faults, 2_000_000);
        assert_eq!((irqs.levels(), irqs.next_deadline()), (0, Some(3_000_000)));
        irqs.write(Line::Gpu, IrqReg::Clear, 1 << 8);
        irqs.update(&mut faults, 2_000_001);
        assert_eq!((irqs.levels(), irqs.next_deadline()), (0, None));
    }
}
