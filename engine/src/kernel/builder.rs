//! The kernel builder: register blocks, uniforms by name, waits, source rules.

use mali_isa::valhall::{
    Combine, Cond, Dest, EncodeError, Flow, Instr, Op, REGISTER_COUNT, ResultType, Slot, Special,
    Src, Staging, Swizzle, Unit, Value, const_index,
};

use super::{Kernel, Mix, Uniform};

/// Message slots that loads and stores may use (ISA.xml, enum `Flow`: general slots 0 to 2).
const SLOTS: usize = 3;

/// The most words of FAU that a kernel here may have: one page (va_pack.c: an instruction names one page of 64 words).
const FAU_WORDS: usize = 64;

/// Local thread number, x in the low half (v10 compute preload; Mesa `bi_preload`/`va_compile`: r55 local ID).
pub const LOCAL_ID: u8 = 55;
/// Workgroup number in x; y and z follow (r57, r58, r59).
pub const WORKGROUP_X: u8 = 57;
/// Workgroup number in y.
pub const WORKGROUP_Y: u8 = 58;

/// Why a kernel cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KernelError {
    /// It would need more registers than there are: it would spill, and there is no memory to spill to.
    #[error("kernel {kernel}: no {count} free registers for {block}: it would spill")]
    WouldSpill {
        /// The kernel.
        kernel: &'static str,
        /// The block that found no place.
        block: &'static str,
        /// Registers wanted.
        count: u8,
    },
    /// A register that belongs to no live block is used.
    #[error("kernel {kernel}, instruction {index}: r{register} belongs to no live block")]
    NotLive {
        /// The kernel.
        kernel: &'static str,
        /// Index of the instruction.
        index: usize,
        /// The register.
        register: u8,
    },
    /// The sources name more uniforms, constants or special values than one instruction can.
    #[error("kernel {kernel}, instruction {index} ({op}): {reason}")]
    Sources {
        /// The kernel.
        kernel: &'static str,
        /// Index of the instruction.
        index: usize,
        /// Its name.
        op: &'static str,
        /// The rule that is broken.
        reason: &'static str,
    },
    /// A load is still in flight where control flow joins.
    #[error("kernel {kernel}, instruction {index}: a load is in flight across a branch target")]
    InFlight {
        /// The kernel.
        kernel: &'static str,
        /// Index of the instruction.
        index: usize,
    },
    /// Too many uniforms.
    #[error("kernel {0}: more than {FAU_WORDS} uniform words")]
    TooManyUniforms(&'static str),
    /// A number that is no inline constant.
    #[error("kernel {kernel}: {value:#x} is no inline constant")]
    NoConstant {
        /// The kernel.
        kernel: &'static str,
        /// The number.
        value: u32,
    },
    /// An instruction has no encoding.
    #[error("kernel {kernel}, instruction {index}: {error}")]
    Encode {
        /// The kernel.
        kernel: &'static str,
        /// Index of the instruction.
        index: usize,
        /// What the encoder said.
        error: EncodeError,
    },
}

/// A register of a live block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reg(u8);

impl Reg {
    /// As a source.
    #[must_use]
    pub const fn src(self) -> Src {
        Src::reg(self.0)
    }

    /// A half of it as a source: `half` 0 or 1.
    #[must_use]
    pub const fn half(self, half: usize) -> Src {
        self.src()
            .swizzle(if half == 0 { Swizzle::H0 } else { Swizzle::H1 })
    }
}

impl From<Reg> for Src {
    fn from(reg: Reg) -> Src {
        reg.src()
    }
}

/// A named run of registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    base: u8,
    count: u8,
}

impl Block {
    /// Register `i` of the block.
    ///
    /// # Panics
    /// Beyond the block: an error in a kernel's source, found by the test that builds every kernel.
    #[must_use]
    pub const fn at(self, i: usize) -> Reg {
        assert!(i < self.count as usize, "register beyond its block");
        Reg(self.base + i as u8)
    }

    /// Part of the block: `count` registers from `first` on.
    ///
    /// # Panics
    /// Beyond the block.
    #[must_use]
    pub const fn part(self, first: usize, count: usize) -> Block {
        assert!(
            first + count <= self.count as usize,
            "registers beyond their block"
        );
        Block {
            base: self.base + first as u8,
            count: count as u8,
        }
    }

    const fn mask(self) -> u64 {
        (u64::MAX >> (64 - self.count as u32)) << self.base
    }
}

/// A place to branch to.
#[derive(Clone, Copy, Debug)]
pub struct Label(usize);

/// Builds one kernel.
///
/// The first error sticks: later calls do nothing, [`Builder::finish`] returns it. So kernels read as straight lists.
#[derive(Debug)]
pub struct Builder {
    name: &'static str,
    code: Vec<Instr>,
    fau: Vec<Uniform>,
    live: u64,
    ever: u64,
    preload: u64,
    in_flight: [u64; SLOTS],
    next_slot: usize,
    block_start: usize,
    body: Option<(usize, usize)>,
    error: Option<KernelError>,
}

impl Builder {
    /// An empty kernel. The preloaded registers are live until [`Builder::free_preload`].
    #[must_use]
    pub fn new(name: &'static str, preload: &[u8]) -> Self {
        let preload = preload.iter().fold(0, |mask, r| mask | 1u64 << r);
        Self {
            name,
            code: Vec::new(),
            fau: Vec::new(),
            live: preload,
            ever: preload,
            preload,
            in_flight: [0; SLOTS],
            next_slot: 0,
            block_start: 0,
            body: None,
            error: None,
        }
    }

    fn fail(&mut self, error: KernelError) {
        self.error.get_or_insert(error);
    }

    /// A preloaded register, to be read before [`Builder::free_preload`].
    #[must_use]
    pub const fn preloaded(&self, register: u8) -> Reg {
        Reg(register)
    }

    /// What is built so far.
    #[must_use]
    pub fn code(&self) -> &[Instr] {
        &self.code
    }

    /// Gives the preloaded registers free for blocks.
    pub fn free_preload(&mut self) {
        self.live &= !self.preload;
    }

    /// A block of `count` registers whose first is a multiple of `align`, at the lowest free place.
    pub fn alloc(&mut self, block: &'static str, count: u8, align: u8) -> Block {
        let fits = |base: u8| {
            let candidate = Block { base, count };
            base + count <= REGISTER_COUNT && self.live & candidate.mask() == 0
        };
        let found = (0..REGISTER_COUNT)
            .step_by(align.into())
            .find(|base| fits(*base));
        let Some(base) = found else {
            self.fail(KernelError::WouldSpill {
                kernel: self.name,
                block,
                count,
            });
            return Block { base: 0, count };
        };
        let block = Block { base, count };
        self.live |= block.mask();
        self.ever |= block.mask();
        block
    }

    /// A block at a given place.
    pub fn alloc_at(&mut self, block: &'static str, base: u8, count: u8) -> Block {
        let wanted = Block { base, count };
        if base + count > REGISTER_COUNT || self.live & wanted.mask() != 0 {
            self.fail(KernelError::WouldSpill {
                kernel: self.name,
                block,
                count,
            });
            return wanted;
        }
        self.live |= wanted.mask();
        self.ever |= wanted.mask();
        wanted
    }

    /// Gives a block's registers free.
    pub fn free(&mut self, block: Block) {
        self.live &= !block.mask();
    }

    /// A uniform word as a source; declared at its first use unless [`Builder::uniform_pair`] placed it.
    pub fn uniform(&mut self, uniform: Uniform) -> Src {
        let index = self
            .fau
            .iter()
            .position(|u| *u == uniform)
            .unwrap_or_else(|| {
                self.fau.push(uniform);
                self.fau.len() - 1
            });
        if index >= FAU_WORDS {
            self.fail(KernelError::TooManyUniforms(self.name));
        }
        Src::uniform(index as u8 % FAU_WORDS as u8)
    }

    /// Declares two uniforms in one 64-bit unit, so that one instruction can name both.
    pub fn uniform_pair(&mut self, low: Uniform, high: Uniform) {
        if self.fau.len() % 2 == 1 {
            self.fau.push(Uniform::Unused);
        }
        self.fau.extend([low, high]);
    }

    /// An inline constant.
    pub fn constant(&mut self, bits: u32) -> Src {
        match const_index(bits) {
            Some(index) => Src::constant(index),
            None => {
                self.fail(KernelError::NoConstant {
                    kernel: self.name,
                    value: bits,
                });
                Src::ZERO
            }
        }
    }

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

    /// Registers that an instruction reads and writes.
    fn touched(instr: &Instr) -> (u64, u64) {
        let info = instr.op.info();
        let mut read = 0u64;
        for (src, kind) in instr.srcs.iter().zip(info.srcs) {
            if let Value::Reg(r) = src.value {
                read |= if kind.size == 64 {
                    3u64 << r
                } else {
                    1u64 << r
                };
            }
        }
        let mut write = instr.dest.map_or(0, |d| 1u64 << d.reg);
        if let Some(staging) = instr.staging {
            if is_store(instr) {
                read |= staging.mask();
            } else {
                write |= staging.mask();
            }
        }
        (read, write)
    }

    /// Rules for uniforms, constants and special values of one instruction (Mesa va_validate.c): one 64-bit uniform
    /// unit, 64 bits of uniforms and constants together, one special value, and not beside a uniform.
    fn check_sources(instr: &Instr) -> Result<(), &'static str> {
        let mut unit = None;
        let mut words: Vec<Value> = Vec::new();
        let mut special = None;
        for src in instr.srcs {
            match src.value {
                Value::None | Value::Reg(_) => continue,
                Value::Uniform(word) => {
                    if unit.is_some_and(|u| u != word / 2) {
                        return Err("names two 64-bit uniform units");
                    }
                    unit = Some(word / 2);
                }
                Value::Special(which, word) => {
                    if special.is_some_and(|s| s != (which, word)) {
                        return Err("names two special values");
                    }
                    special = Some((which, word));
                }
                Value::Const(_) => {}
            }
            if !words.contains(&src.value) {
                words.push(src.value);
            }
        }
        if words.len() > 2 {
            return Err("names more than 64 bits of uniforms and constants");
        }
        if unit.is_some() && special.is_some() {
            return Err("names a uniform and a special value");
        }
        Ok(())
    }

    /// Appends an instruction, after the waits that it needs.
    pub fn push(&mut self, instr: Instr) {
        if self.error.is_some() {
            return;
        }
        let index = self.code.len();
        if let Err(reason) = Self::check_sources(&instr) {
            self.fail(KernelError::Sources {
                kernel: self.name,
                index,
                op: instr.op.mnemonic(),
                reason,
            });
            return;
        }
        let (read, write) = Self::touched(&instr);
        let dead = (read | write) & !self.live;
        if dead != 0 {
            let register = dead.trailing_zeros() as u8;
            self.fail(KernelError::NotLive {
                kernel: self.name,
                index,
                register,
            });
            return;
        }
        self.wait_for(read | write);
        if let (Some(staging), false) = (instr.staging, is_store(&instr)) {
            self.in_flight[usize::from(instr.mods.slot.number()) % SLOTS] |= staging.mask();
        }
        self.code.push(instr);
    }

    /// Waits for every load in flight that writes one of the registers.
    fn wait_for(&mut self, registers: u64) {
        let mut slots = 0u8;
        for (slot, mask) in self.in_flight.iter_mut().enumerate() {
            if *mask & registers != 0 {
                slots |= 1 << slot;
                *mask = 0;
            }
        }
        if slots == 0 {
            return;
        }
        // A wait acts after its instruction issued: it belongs on the one before (va_merge_flow.c), unless that one
        // stands before a branch target or its flow field says something else.
        let may_merge = self.code.len() > self.block_start;
        let merged = self
            .code
            .last()
            .filter(|_| may_merge)
            .and_then(|last| match last.flow {
                Flow::None
                | Flow::Wait0
                | Flow::Wait1
                | Flow::Wait2
                | Flow::Wait01
                | Flow::Wait02
                | Flow::Wait12 => Flow::wait_for(last.flow.waits() | slots),
                _ => None,
            });
        match (merged, self.code.last_mut()) {
            (Some(flow), Some(last)) => last.flow = flow,
            _ => {
                let flow = Flow::wait_for(slots).unwrap_or(Flow::Wait012);
                self.code.push(Instr {
                    flow,
                    ..Instr::new(Op::Nop)
                });
            }
        }
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

    /// Ends a basic block: what follows can be reached from elsewhere.
    fn join(&mut self) {
        if self.in_flight.iter().any(|m| *m != 0) {
            self.fail(KernelError::InFlight {
                kernel: self.name,
                index: self.code.len(),
            });
            return;
        }
        // ISA.xml, enum `Flow`: `reconverge` stands on the last instruction before the target of a divergent branch.
        match self.code.last_mut() {
            Some(last) if last.flow == Flow::None => last.flow = Flow::Reconverge,
            _ => self.code.push(Instr {
                flow: Flow::Reconverge,
                ..Instr::new(Op::Nop)
            }),
        }
        self.block_start = self.code.len();
    }

    /// The head of a loop.
    pub fn loop_head(&mut self) -> Label {
        self.join();
        Label(self.code.len())
    }

    fn branch(&mut self, condition: Reg, eq: bool, imm: i32) {
        let mut instr = Instr::new(Op::Branchz);
        instr.srcs[0] = condition.src();
        instr.imm = imm;
        instr.mods.eq = eq;
        instr.mods.combine = Combine::H0;
        instr.flow = Flow::Reconverge;
        self.push(instr);
        self.block_start = self.code.len();
    }

    /// Branches back to `head` while the low half of `condition` is zero; what lies between is the kernel's body.
    pub fn loop_while_zero(&mut self, head: Label, condition: Reg) {
        self.loop_while(head, condition, true);
    }

    /// Branches back to `head` while the low half of `condition` is not zero; what lies between is the kernel's body.
    pub fn loop_while_nonzero(&mut self, head: Label, condition: Reg) {
        self.loop_while(head, condition, false);
    }

    fn loop_while(&mut self, head: Label, condition: Reg, eq: bool) {
        // The wait that the condition may need could add an instruction: force it first.
        self.wait_for(1u64 << condition.0);
        if self.in_flight.iter().any(|m| *m != 0) {
            self.fail(KernelError::InFlight {
                kernel: self.name,
                index: self.code.len(),
            });
            return;
        }
        let distance = head.0 as i32 - self.code.len() as i32 - 1;
        self.branch(condition, eq, distance);
        self.body = Some((head.0, self.code.len()));
    }

    /// Skips what `skipped` builds where the low half of `condition` is not zero.
    pub fn unless(&mut self, condition: Reg, skipped: impl FnOnce(&mut Self)) {
        self.wait_for(1u64 << condition.0);
        let at = self.code.len();
        self.branch(condition, false, 0);
        skipped(self);
        self.join();
        let distance = self.code.len() as i32 - at as i32 - 1;
        if let Some(branch) = self.code.get_mut(at) {
            branch.imm = distance;
        }
    }

    /// Ends the kernel.
    ///
    /// # Errors
    /// The first [`KernelError`] met.
    pub fn finish(mut self, body_macs: u32, expected: Mix) -> Result<Kernel, KernelError> {
        // va_insert_flow.c ends with NOP.end; stores may be outstanding.
        self.code.push(Instr {
            flow: Flow::End,
            ..Instr::new(Op::Nop)
        });
        if let Some(error) = self.error {
            return Err(error);
        }
        if self.fau.len() % 2 == 1 {
            self.fau.push(Uniform::Unused);
        }
        let mut words = Vec::with_capacity(self.code.len());
        for (index, instr) in self.code.iter().enumerate() {
            let word = instr.encode().map_err(|error| KernelError::Encode {
                kernel: self.name,
                index,
                error,
            })?;
            words.push(word);
        }
        let body = self
            .body
            .map_or(&self.code[..], |(from, to)| &self.code[from..to]);
        Ok(Kernel {
            name: self.name,
            body: Mix::of(body),
            words,
            registers: self.ever.count_ones(),
            fits_32: self.ever & 0x0000_ffff_ffff_0000 == 0,
            preload: (self.preload >> 48) as u16,
            fau: self.fau,
            body_macs,
            expected,
            code: self.code,
        })
    }
}

/// First of the eight inline constants that hold the numbers 0 to 31 as bytes (ISA.xml, `Immediates`).
const SMALL_NUMBERS: u8 = 8;

fn is_store(instr: &Instr) -> bool {
    instr.op.info().unit == Unit::Ls
        && instr.op.info().staging == mali_isa::valhall::StagingKind::Read
}
