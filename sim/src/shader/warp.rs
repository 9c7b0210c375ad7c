//! A warp: sixteen lanes with their registers, and what is known about the registers: which bytes of which lanes
//! hold a value, which were discarded, which a message has still to write.

use super::program::Uop;

/// Lanes of a warp. (Mesa, panfrost/lib/pan_props.c: 16 threads per warp on Valhall.)
pub const WARP_LANES: usize = 16;
/// All lanes as a mask.
pub(super) const ALL_LANES: u16 = 0xffff;
/// Multiplies a lane mask to all four bytes of a definedness word.
pub(super) const WORD: u64 = 0x0001_0001_0001_0001;
/// Multiplies a lane mask to the two bytes of the low half.
pub(super) const LOW: u64 = 0x0000_0000_0001_0001;
/// Multiplies a lane mask to the two bytes of the high half.
pub(super) const HIGH: u64 = 0x0001_0001_0000_0000;

/// Multiplies a lane mask to byte `n`.
pub(super) const fn byte(n: u8) -> u64 {
    1 << (16 * n as u32)
}

/// The value of one register in sixteen lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(64))]
pub(super) struct Lanes(pub [u32; WARP_LANES]);

impl Lanes {
    pub(super) const ZERO: Lanes = Lanes([0; WARP_LANES]);

    pub(super) const fn splat(value: u32) -> Lanes {
        Lanes([value; WARP_LANES])
    }
}

/// Rows of [`Warp::rows`] after the 64 registers: special sources that differ between lanes, warps or cores.
pub(super) mod row {
    /// Lane within the warp.
    pub(in super::super) const LANE_ID: u16 = 64;
    /// Thread local pointer, low word; the high word follows.
    pub(in super::super) const THREAD_LOCAL: u16 = 65;
    /// Workgroup local pointer, low word; the high word follows.
    pub(in super::super) const WORKGROUP_LOCAL: u16 = 67;
    /// Number of the shader core.
    pub(in super::super) const CORE_ID: u16 = 69;
    /// Number of the warp on its core; the number of warps per core less one follows.
    pub(in super::super) const WARP_ID: u16 = 70;
    /// Number of rows.
    pub(in super::super) const COUNT: usize = 72;
    /// From here on rows are in the program's constant pool.
    pub(in super::super) const CONSTANTS: u16 = 128;
}

/// Message slots that hold registers.
pub(super) const SLOTS: usize = 3;

/// A register that failed a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RegisterFault {
    Undefined { register: u8, lane: u8 },
    Discarded { register: u8, lane: u8 },
    Pending { register: u8, slot: u8, lane: u8 },
    Overwrite { register: u8, slot: u8, lane: u8 },
}

/// State of one warp.
#[derive(Clone)]
pub(super) struct Warp {
    /// 64 registers, then the special rows.
    pub rows: [Lanes; row::COUNT],
    /// Bit 16 b + l: byte b of lane l holds a value that may be read.
    pub defined: [u64; 64],
    /// Lanes whose value was given up by a discarding read (only to explain a fault).
    discarded: [u16; 64],
    /// Registers that a message in any slot has still to write.
    pub pending: u64,
    /// The same by slot.
    slot_registers: [u64; SLOTS],
    /// Bytes and lanes that become defined when the slot was waited for; valid where `slot_registers` says so.
    slot_defines: [[u64; 64]; SLOTS],
    /// Slots in use, bit set.
    pub busy: u8,
    /// Lanes that execute now, all at `pc`.
    pub active: u16,
    /// Lanes that have not ended.
    pub live: u16,
    /// `active` as words of all ones or zeros.
    pub active_words: Lanes,
    /// Index of the next micro-op of the active lanes.
    pub pc: u32,
    /// The same for the live lanes that are not active.
    pub lane_pc: [u32; WARP_LANES],
}

impl Warp {
    pub(super) fn new() -> Warp {
        let mut warp = Warp {
            rows: [Lanes::ZERO; row::COUNT],
            defined: [0; 64],
            discarded: [0; 64],
            pending: 0,
            slot_registers: [0; SLOTS],
            slot_defines: [[0; 64]; SLOTS],
            busy: 0,
            active: 0,
            live: 0,
            active_words: Lanes::ZERO,
            pc: 0,
            lane_pc: [0; WARP_LANES],
        };
        warp.rows[row::LANE_ID as usize] = Lanes(std::array::from_fn(|lane| lane as u32));
        warp
    }

    /// Back to the state at a shader's entry, with `live` lanes.
    pub(super) fn reset(&mut self, live: u16) {
        self.defined = [0; 64];
        self.discarded = [0; 64];
        self.pending = 0;
        self.slot_registers = [0; SLOTS];
        self.busy = 0;
        self.live = live;
        self.pc = 0;
        self.set_active(live);
    }

    pub(super) fn set_active(&mut self, active: u16) {
        self.active = active;
        self.active_words = Lanes(std::array::from_fn(|lane| {
            0u32.wrapping_sub(u32::from((active >> lane) & 1))
        }));
    }

    /// Checks that the micro-op may read and write its registers. `Ok(None)`: all it reads is defined.
    /// `Ok(Some(d))`: parts are not, but it works on parts; `d` is what will be defined of its result.
    #[inline(always)]
    pub(super) fn check(&self, op: &Uop) -> Result<Option<u64>, RegisterFault> {
        let lanes = u64::from(self.active);
        let mut missing = 0;
        for read in op.reads() {
            let need = read.bytes.wrapping_mul(lanes);
            missing |= need & !self.defined[read.register as usize & 63];
        }
        if missing | (op.write_set & self.pending) == 0 {
            return Ok(None);
        }
        self.check_slow(op)
    }

    #[cold]
    #[inline(never)]
    fn check_slow(&self, op: &Uop) -> Result<Option<u64>, RegisterFault> {
        for register in 0..64u8 {
            if op.write_set & self.pending & (1 << register) == 0 {
                continue;
            }
            for slot in 0..SLOTS {
                let written = op.write_bytes.wrapping_mul(u64::from(self.active));
                let lanes = fold(self.slot_defines[slot][register as usize] & written);
                if self.slot_registers[slot] & (1 << register) != 0 && lanes != 0 {
                    let lane = lanes.trailing_zeros() as u8;
                    return Err(RegisterFault::Overwrite {
                        register,
                        slot: slot as u8,
                        lane,
                    });
                }
            }
        }
        let mut fault = None;
        for read in op.reads() {
            let missing = read.bytes.wrapping_mul(u64::from(self.active))
                & !self.defined[read.register as usize & 63];
            if missing != 0 && fault.is_none() {
                fault = Some(self.explain(read.register, fold(missing)));
            }
        }
        let Some(fault) = fault else { return Ok(None) };
        match op.partial(&self.defined, self.active) {
            Some(defined) if !matches!(fault, RegisterFault::Pending { .. }) => Ok(Some(defined)),
            _ => Err(fault),
        }
    }

    /// Why `register` has no value in the first of `lanes`.
    fn explain(&self, register: u8, lanes: u16) -> RegisterFault {
        let lane = lanes.trailing_zeros() as u8;
        for slot in 0..SLOTS {
            let waiting = self.slot_registers[slot] & (1 << register) != 0
                && fold(self.slot_defines[slot][register as usize]) & (1 << lane) != 0;
            if waiting {
                return RegisterFault::Pending {
                    register,
                    slot: slot as u8,
                    lane,
                };
            }
        }
        if self.discarded[register as usize] & (1 << lane) != 0 {
            RegisterFault::Discarded { register, lane }
        } else {
            RegisterFault::Undefined { register, lane }
        }
    }

    /// Takes the value of the registers in `kill` from the active lanes.
    #[inline(always)]
    pub(super) fn kill(&mut self, kill: u64) {
        let mut rest = kill;
        while rest != 0 {
            let register = rest.trailing_zeros() as usize & 63;
            rest &= rest - 1;
            self.defined[register] &= !WORD.wrapping_mul(u64::from(self.active));
            self.discarded[register] |= self.active;
        }
    }

    /// Notes that the active lanes of `register` were written, in `bytes`.
    #[inline(always)]
    pub(super) fn define(&mut self, register: u8, bytes: u64) {
        self.defined[register as usize & 63] |= bytes.wrapping_mul(u64::from(self.active));
    }

    /// Notes that the active lanes of `register` were written in `bytes`, but hold a value only in `defined`.
    #[inline(always)]
    pub(super) fn define_partly(&mut self, register: u8, bytes: u64, defined: u64) {
        let written = bytes.wrapping_mul(u64::from(self.active));
        let slot = &mut self.defined[register as usize & 63];
        *slot = (*slot & !written) | (written & defined);
    }

    /// Notes that a message in `slot` will write `bytes` of `register` in the active lanes; what it writes is a
    /// value in `valid` lanes only.
    pub(super) fn pend(&mut self, slot: u8, register: u8, bytes: u64, valid: u16) {
        let written = bytes.wrapping_mul(u64::from(self.active));
        let (slot, index) = (slot as usize, register as usize & 63);
        self.defined[index] &= !written;
        if self.slot_registers[slot] & (1 << index) == 0 {
            self.slot_registers[slot] |= 1 << index;
            self.slot_defines[slot][index] = 0;
        }
        self.slot_defines[slot][index] |= bytes.wrapping_mul(u64::from(self.active & valid));
        self.pending |= 1 << index;
    }

    /// Waits for the slots of a bit set: what their messages wrote may be read.
    #[inline(always)]
    pub(super) fn wait(&mut self, slots: u8) {
        if self.busy & slots != 0 {
            self.wait_slow(slots);
        }
    }

    #[inline(never)]
    fn wait_slow(&mut self, slots: u8) {
        for slot in 0..SLOTS {
            if slots & (1 << slot) == 0 {
                continue;
            }
            let mut rest = std::mem::take(&mut self.slot_registers[slot]);
            while rest != 0 {
                let register = rest.trailing_zeros() as usize;
                rest &= rest - 1;
                self.defined[register] |= self.slot_defines[slot][register];
            }
        }
        self.busy &= !slots;
        self.pending = self
            .slot_registers
            .iter()
            .fold(0, |all, registers| all | registers);
    }

    /// Sets the next micro-op of lanes, then continues with the live lanes of the lowest address.
    pub(super) fn regroup(&mut self, taken: u16, target: u32, other: u32) {
        for lane in 0..WARP_LANES {
            let bit = 1u16 << lane;
            if self.active & bit != 0 {
                self.lane_pc[lane] = if taken & bit != 0 { target } else { other };
            }
        }
        self.pick();
    }

    /// Ends the active lanes and continues with the others. False when none is left.
    pub(super) fn end(&mut self) -> bool {
        self.live &= !self.active;
        if self.live == 0 {
            self.set_active(0);
            return false;
        }
        self.pick();
        true
    }

    fn pick(&mut self) {
        let mut least = u32::MAX;
        let mut group = 0u16;
        for lane in 0..WARP_LANES {
            if self.live & (1 << lane) == 0 {
                continue;
            }
            let pc = self.lane_pc[lane];
            if pc < least {
                least = pc;
                group = 0;
            }
            if pc == least {
                group |= 1 << lane;
            }
        }
        self.pc = least;
        self.set_active(group);
    }
}

/// The lanes that appear in any byte.
fn fold(bytes: u64) -> u16 {
    (bytes | (bytes >> 16) | (bytes >> 32) | (bytes >> 48)) as u16
}

impl Warp {
    /// The slot of a message that has still to write `register` in some lane.
    pub(super) fn pending_slot(&self, register: u8) -> Option<u8> {
        if self.pending & (1 << register) == 0 {
            return None;
        }
        (0..SLOTS)
            .find(|&slot| self.slot_registers[slot] & (1 << register) != 0)
            .map(|slot| slot as u8)
    }
}
