//! The instructions that kernels are written in: one method of the builder each.

use mali_isa::valhall::{Cond, Dest, Instr, Op, ResultType, Slot, Special, Src, Staging, Swizzle};

use super::builder::{Block, Builder, Reg, SLOTS, is_store};

/// First of the eight inline constants that hold the numbers 0 to 31 as bytes (ISA.xml, `Immediates`).
const SMALL_NUMBERS: u8 = 8;

impl Builder {
    /// A small number (0 to 31) as byte of an inline constant, spelt as the shift amount of an instruction.
    fn shift_amount(n: u8) -> Src {
        let swizzle = [Swizzle::B00, Swizzle::B11, Swizzle::B22, Swizzle::B33][usize::from(n % 4)];
        Src::constant(SMALL_NUMBERS + n / 4 % 8).swizzle(swizzle)
    }

    /// A small number (0 to 31) as byte of an inline constant, spelt as a 32-bit integer source.
    #[must_use]
    pub fn small(n: u8) -> Src {
        let swizzle = [Swizzle::B0, Swizzle::B1, Swizzle::B2, Swizzle::B3][usize::from(n % 4)];
        Src::constant(SMALL_NUMBERS + n / 4 % 8).swizzle(swizzle)
    }

    /// An instruction with up to four sources.
    fn alu(&mut self, op: Op, dest: Reg, srcs: &[Src]) {
        self.alu_with(op, dest, srcs, |_| {});
    }

    fn alu_with(&mut self, op: Op, dest: Reg, srcs: &[Src], change: impl FnOnce(&mut Instr)) {
        let mut instr = Instr::new(op);
        instr.dest = Some(Dest::reg(dest.0));
        for (to, from) in instr.srcs.iter_mut().zip(srcs) {
            *to = *from;
        }
        change(&mut instr);
        self.push(instr);
    }

    /// `dest = a`.
    pub fn mov(&mut self, dest: Reg, a: impl Into<Src>) {
        self.alu(Op::MovI32, dest, &[a.into()]);
    }

    /// `dest = a + b`.
    pub fn iadd(&mut self, dest: Reg, a: impl Into<Src>, b: impl Into<Src>) {
        self.alu(Op::IaddU32, dest, &[a.into(), b.into()]);
    }

    /// `dest = a - b`.
    pub fn isub(&mut self, dest: Reg, a: impl Into<Src>, b: impl Into<Src>) {
        self.alu(Op::IsubU32, dest, &[a.into(), b.into()]);
    }

    /// `dest = a + number`.
    pub fn iadd_imm(&mut self, dest: Reg, a: impl Into<Src>, number: i32) {
        self.alu_with(Op::IaddImmI32, dest, &[a.into()], |i| i.imm = number);
    }

    /// `dest = a * b`, the low 32 bits.
    pub fn imul(&mut self, dest: Reg, a: impl Into<Src>, b: impl Into<Src>) {
        self.alu(Op::ImulI32, dest, &[a.into(), b.into()]);
    }

    /// `dest = (a << n) & mask`.
    pub fn shl_and(&mut self, dest: Reg, a: impl Into<Src>, n: u8, mask: impl Into<Src>) {
        self.alu(
            Op::LshiftAndI32,
            dest,
            &[a.into(), Self::shift_amount(n), mask.into()],
        );
    }

    /// `dest = (a >> n) & mask`, logical.
    pub fn shr_and(&mut self, dest: Reg, a: impl Into<Src>, n: u8, mask: impl Into<Src>) {
        self.alu(
            Op::RshiftAndI32,
            dest,
            &[a.into(), Self::shift_amount(n), mask.into()],
        );
    }

    /// `dest = a << n`.
    pub fn shl(&mut self, dest: Reg, a: impl Into<Src>, n: u8) {
        self.alu(
            Op::LshiftOrI32,
            dest,
            &[a.into(), Self::shift_amount(n), Src::ZERO],
        );
    }

    /// `dest = a >> n`, logical.
    pub fn shr(&mut self, dest: Reg, a: impl Into<Src>, n: u8) {
        self.alu(
            Op::RshiftOrI32,
            dest,
            &[a.into(), Self::shift_amount(n), Src::ZERO],
        );
    }

    /// `dest = a ^ b`.
    pub fn xor(&mut self, dest: Reg, a: impl Into<Src>, b: impl Into<Src>) {
        self.alu(
            Op::LshiftXorI32,
            dest,
            &[a.into(), Self::shift_amount(0), b.into()],
        );
    }

    /// `dest = low half a | half b << 16`; the sources are halves ([`Reg::half`]).
    pub fn pack_halves(&mut self, dest: Reg, a: Src, b: Src) {
        self.alu(Op::MkvecV2i16, dest, &[a, b]);
    }

    /// `dest = a.byte0 | b.byte0 << 8 | cd << 16`.
    pub fn pack_bytes(&mut self, dest: Reg, a: Reg, b: Reg, cd: impl Into<Src>) {
        let low = |r: Reg| r.src().swizzle(Swizzle::B0);
        self.alu(Op::MkvecV2i8, dest, &[low(a), low(b), cd.into()]);
    }

    /// `dest = acc + four signed byte products of a and b`.
    pub fn dot4(&mut self, dest: Reg, a: impl Into<Src>, b: impl Into<Src>, acc: impl Into<Src>) {
        self.alu(Op::IdpaddV4s8, dest, &[a.into(), b.into(), acc.into()]);
    }

    /// `dest = fma(a, b, c)` in f32, rounded once to nearest even.
    pub fn fma(&mut self, dest: Reg, a: impl Into<Src>, b: impl Into<Src>, c: impl Into<Src>) {
        self.alu(Op::FmaF32, dest, &[a.into(), b.into(), c.into()]);
    }

    /// `dest = a * b` in f32: a fused addition of -0.0, which changes nothing.
    pub fn fmul(&mut self, dest: Reg, a: impl Into<Src>, b: impl Into<Src>) {
        self.fma(dest, a, b, Src::NEG_ZERO);
    }

    /// `dest = a + b` in f32.
    pub fn fadd(&mut self, dest: Reg, a: impl Into<Src>, b: impl Into<Src>) {
        self.alu(Op::FaddF32, dest, &[a.into(), b.into()]);
    }

    /// `dest = max(a, b)` in f32; a NaN loses.
    pub fn fmax(&mut self, dest: Reg, a: impl Into<Src>, b: impl Into<Src>) {
        self.alu(Op::FmaxF32, dest, &[a.into(), b.into()]);
    }

    /// `dest = min(a, b)` in f32; a NaN loses.
    pub fn fmin(&mut self, dest: Reg, a: impl Into<Src>, b: impl Into<Src>) {
        self.alu(Op::FminF32, dest, &[a.into(), b.into()]);
    }

    /// An instruction with one source: conversions, rounding, reciprocal.
    pub fn unary(&mut self, op: Op, dest: Reg, a: impl Into<Src>) {
        self.alu(op, dest, &[a.into()]);
    }

    /// `dest = f16(a) | f16(b) << 16`, to nearest even.
    pub fn to_halves(&mut self, dest: Reg, a: impl Into<Src>, b: impl Into<Src>) {
        self.alu(Op::V2f32ToV2f16, dest, &[a.into(), b.into()]);
    }

    /// `dest = if a cond b { c } else { d }`, with the comparison of `op` (a CSEL).
    pub fn select(&mut self, op: Op, cond: Cond, dest: Reg, abcd: [Src; 4]) {
        self.alu_with(op, dest, &abcd, |i| i.mods.cond = cond);
    }

    /// `dest = value of a in lane number lane (its low byte)`.
    pub fn lane_value(&mut self, dest: Reg, a: Reg, lane: Reg) {
        self.alu(
            Op::ClperI32,
            dest,
            &[a.src(), lane.src().swizzle(Swizzle::B00)],
        );
    }

    /// `dest = all ones if a >= b else 0`, unsigned.
    pub fn at_least(&mut self, dest: Reg, a: impl Into<Src>, b: impl Into<Src>) {
        self.alu_with(Op::IcmpOrU32, dest, &[a.into(), b.into(), Src::ZERO], |i| {
            i.mods.cond = Cond::Ge;
            i.mods.result = ResultType::M1;
        });
    }

    /// The number of the lane within its warp.
    #[must_use]
    pub const fn lane_id() -> Src {
        Src::special(Special::LaneId, 0).swizzle(Swizzle::W0)
    }

    fn message(&mut self, op: Op, block: Block, address: Block, offset: i16) {
        let slot = self.next_slot;
        self.next_slot = (slot + 1) % SLOTS;
        let mut instr = Instr::new(op);
        instr.srcs[0] = Src::reg(address.base);
        instr.staging = Some(Staging::new(block.base, block.count));
        instr.imm = offset.into();
        instr.mods.slot = [Slot::Slot0, Slot::Slot1, Slot::Slot2][slot];
        if !is_store(&instr) {
            instr.mods.unsigned = true;
        }
        self.push(instr);
    }

    /// Loads the block from the 64-bit address (a pair at an even register) plus `offset`. The widest access is 128
    /// bits, and an access must not straddle a multiple of its size.
    pub fn load(&mut self, block: Block, address: Block, offset: i16) {
        let op = match block.count {
            1 => Op::LoadI32,
            2 => Op::LoadI64,
            3 => Op::LoadI96,
            _ => Op::LoadI128,
        };
        self.message(op, block, address, offset);
    }

    /// Stores the block; see [`Builder::load`].
    pub fn store(&mut self, block: Block, address: Block, offset: i16) {
        let op = match block.count {
            1 => Op::StoreI32,
            2 => Op::StoreI64,
            3 => Op::StoreI96,
            _ => Op::StoreI128,
        };
        self.message(op, block, address, offset);
    }

    /// Stores the low half of a register.
    pub fn store_half(&mut self, block: Block, address: Block, offset: i16) {
        self.message(Op::StoreI16, block.part(0, 1), address, offset);
    }
}
