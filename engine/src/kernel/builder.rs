//! The kernel builder: register blocks, uniforms by name, waits, source rules.

use mali_isa::valhall::{
    Combine, DestKind, EncodeError, Flow, Instr, Op, REGISTER_COUNT, Src, Swizzle, Unit, Value,
    const_index,
};

use super::{Kernel, Mix, Stated, Uniform};

/// Message slots that loads and stores may use (ISA.xml, enum `Flow`: general slots 0 to 2).
pub(super) const SLOTS: usize = 3;

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
pub struct Reg(pub(super) u8);

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
    pub(super) base: u8,
    pub(super) count: u8,
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
    pub(super) next_slot: usize,
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
        let width = if info.dest == DestKind::Pair { 3 } else { 1 };
        let mut write = instr.dest.map_or(0, |d| width << d.reg);
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
    pub fn finish(mut self, stated: Stated) -> Result<Kernel, KernelError> {
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
            stated,
            code: self.code,
        })
    }
}

pub(super) fn is_store(instr: &Instr) -> bool {
    instr.op.info().unit == Unit::Ls
        && instr.op.info().staging == mali_isa::valhall::StagingKind::Read
}
