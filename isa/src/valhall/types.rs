//! The parts of an instruction: registers, sources, swizzles, modifiers.
//!
//! Every enum here carries its assembler spelling (`text`); the bit values belong to the fields of
//! [`super::table`], because one spelling has different bits in different fields.

use core::fmt;

/// Number of general purpose registers of a thread in 64-register mode.
/// (Mesa, panfrost/compiler/kraid/encode_v9.rs, `encode_src_ref`: six index bits.)
pub const REGISTER_COUNT: u8 = 64;

/// Number of 32-bit words of the fast access uniforms (FAU) that an instruction can name: four pages of 64.
/// (Mesa, panfrost/compiler/kraid/encode_v9.rs, `src_fau_page`.)
pub const UNIFORM_WORDS: u16 = 256;

/// Words of one FAU page.
pub(crate) const PAGE_WORDS: u8 = 64;

/// Builds an enum whose variants have one assembler spelling each.
macro_rules! spelled {
    ($(#[$m:meta])* $name:ident { $($(#[$vm:meta])* $v:ident = $t:literal),+ $(,)? }) => {
        $(#[$m])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum $name { $($(#[$vm])* $v),+ }

        impl $name {
            /// Every value, in declaration order.
            pub const ALL: &'static [$name] = &[$($name::$v),+];

            /// The assembler spelling, without the dot.
            pub const fn text(self) -> &'static str {
                match self { $($name::$v => $t),+ }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.text())
            }
        }
    };
}

spelled! {
    /// What happens after the instruction issued: which message slots it waits for, or how control flows.
    /// (Mesa, panfrost/compiler/bifrost/valhall/ISA.xml, enum `Flow`.)
    Flow {
        /// Nothing.
        None = "none",
        /// Wait for slot 0.
        Wait0 = "wait0",
        /// Wait for slot 1.
        Wait1 = "wait1",
        /// Wait for slots 0 and 1.
        Wait01 = "wait01",
        /// Wait for slot 2.
        Wait2 = "wait2",
        /// Wait for slots 0 and 2.
        Wait02 = "wait02",
        /// Wait for slots 1 and 2.
        Wait12 = "wait12",
        /// Wait for slots 0, 1 and 2.
        Wait012 = "wait012",
        /// Wait for slots 0, 1, 2 and 6 (depth and stencil).
        Wait0126 = "wait0126",
        /// Wait for slots 0, 1, 2, 6 and 7 (barrier).
        Wait = "wait",
        /// The set of active lanes may change after this instruction: pick the next group of lanes.
        Reconverge = "reconverge",
        /// Wait for the resource of a fragment.
        WaitResource = "wait_resource",
        /// End helper threads.
        Discard = "discard",
        /// End the thread.
        End = "end",
    }
}

impl Flow {
    /// The message slots waited for, as a bit set over slot numbers 0 to 7.
    pub const fn waits(self) -> u8 {
        match self {
            Flow::Wait0 => 0x01,
            Flow::Wait1 => 0x02,
            Flow::Wait01 => 0x03,
            Flow::Wait2 => 0x04,
            Flow::Wait02 => 0x05,
            Flow::Wait12 => 0x06,
            Flow::Wait012 => 0x07,
            Flow::Wait0126 => 0x47,
            Flow::Wait => 0xc7,
            _ => 0,
        }
    }

    /// The cheapest plain wait that covers `slots` (a bit set over slots 0 to 2 only), none for an empty set.
    pub const fn wait_for(slots: u8) -> Option<Flow> {
        Some(match slots {
            0 => Flow::None,
            1 => Flow::Wait0,
            2 => Flow::Wait1,
            3 => Flow::Wait01,
            4 => Flow::Wait2,
            5 => Flow::Wait02,
            6 => Flow::Wait12,
            7 => Flow::Wait012,
            _ => return None,
        })
    }
}

spelled! {
    /// A 64-bit value that the hardware keeps for the thread; [`Value::Special`] names one 32-bit word of it.
    /// (Mesa, panfrost/compiler/bifrost/valhall/ISA.xml, enums `FAU special page 0`, `1` and `3`.)
    Special {
        /// Warp number and warps per core.
        WarpId = "warp_id",
        /// Size of the frame buffer (fragments only).
        FramebufferSize = "framebuffer_size",
        /// Alpha test datum (fragments only).
        AtestDatum = "atest_datum",
        /// Sample positions (fragments only).
        Sample = "sample",
        /// Blend descriptor of render target 0.
        BlendDescriptor0 = "blend_descriptor_0",
        /// Blend descriptor of render target 1.
        BlendDescriptor1 = "blend_descriptor_1",
        /// Blend descriptor of render target 2.
        BlendDescriptor2 = "blend_descriptor_2",
        /// Blend descriptor of render target 3.
        BlendDescriptor3 = "blend_descriptor_3",
        /// Blend descriptor of render target 4.
        BlendDescriptor4 = "blend_descriptor_4",
        /// Blend descriptor of render target 5.
        BlendDescriptor5 = "blend_descriptor_5",
        /// Blend descriptor of render target 6.
        BlendDescriptor6 = "blend_descriptor_6",
        /// Blend descriptor of render target 7.
        BlendDescriptor7 = "blend_descriptor_7",
        /// Base address of the thread's local storage.
        ThreadLocalPointer = "thread_local_pointer",
        /// Base address of the workgroup's local storage.
        WorkgroupLocalPointer = "workgroup_local_pointer",
        /// Address of the shader resource table.
        ResourceTablePointer = "resource_table_pointer",
        /// Lane within the warp, 0 to 15.
        LaneId = "lane_id",
        /// Number of the shader core.
        CoreId = "core_id",
        /// Address of the next instruction.
        ProgramCounter = "program_counter",
    }
}

/// What a source reads.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Value {
    /// The instruction has no such source.
    None,
    /// A register, r0 to r63; for a 64-bit source the even register of a pair.
    Reg(u8),
    /// A 32-bit word of the uniforms (u0 to u255); for a 64-bit source the even word of a pair.
    Uniform(u8),
    /// An entry of the constant table, see [`super::const_value`]. A 64-bit source reads it zero-extended.
    Const(u8),
    /// 32-bit word 0 or 1 of a special value; for a 64-bit source word 0 names the whole.
    Special(Special, u8),
}

spelled! {
    /// Which part of a source is used. `None` is the natural whole: all 32 bits, both halves `h01`, all bytes
    /// `b0123`, all 64 bits. A selected byte or half is widened to the size of the operation, with zeros in an
    /// unsigned or sizeless instruction, with the sign in a signed one, as a number in a floating point one.
    /// In two- and four-element names the first digit is the source of the lowest element.
    /// (Mesa, panfrost/compiler/kraid/isa-v9-v14.xml, enums `widen_m`, `widen_int_m`, `swiz_m`, `swiz_int_m`,
    /// `swiz8_2_full_m`, `lanes_int_m`, `shift_bitwise_i16_lanes_m`, `shift_bitwise_i32_lanes_m`.)
    Swizzle {
        /// The whole source.
        None = "none",
        /// Low half.
        H0 = "h0",
        /// High half.
        H1 = "h1",
        /// Byte 0.
        B0 = "b0",
        /// Byte 1.
        B1 = "b1",
        /// Byte 2.
        B2 = "b2",
        /// Byte 3.
        B3 = "b3",
        /// Low 32-bit word.
        W0 = "w0",
        /// High 32-bit word.
        W1 = "w1",
        /// Low half twice.
        H00 = "h00",
        /// Halves exchanged.
        H10 = "h10",
        /// High half twice.
        H11 = "h11",
        /// Bytes 0, 0.
        B00 = "b00",
        /// Bytes 1, 0.
        B10 = "b10",
        /// Bytes 2, 0.
        B20 = "b20",
        /// Bytes 3, 0.
        B30 = "b30",
        /// Bytes 0, 1.
        B01 = "b01",
        /// Bytes 1, 1.
        B11 = "b11",
        /// Bytes 2, 1.
        B21 = "b21",
        /// Bytes 3, 1.
        B31 = "b31",
        /// Bytes 0, 2.
        B02 = "b02",
        /// Bytes 1, 2.
        B12 = "b12",
        /// Bytes 2, 2.
        B22 = "b22",
        /// Bytes 3, 2.
        B32 = "b32",
        /// Bytes 0, 3.
        B03 = "b03",
        /// Bytes 1, 3.
        B13 = "b13",
        /// Bytes 2, 3.
        B23 = "b23",
        /// Bytes 3, 3.
        B33 = "b33",
        /// Bytes in reverse order.
        B3210 = "b3210",
        /// Low half twice, as bytes.
        B0101 = "b0101",
        /// High half twice, as bytes.
        B2323 = "b2323",
        /// Byte 0 four times.
        B0000 = "b0000",
        /// Byte 1 four times.
        B1111 = "b1111",
        /// Byte 2 four times.
        B2222 = "b2222",
        /// Byte 3 four times.
        B3333 = "b3333",
        /// Halves exchanged, as bytes.
        B2301 = "b2301",
        /// Bytes exchanged within each half.
        B1032 = "b1032",
        /// Bytes 0, 0, 1, 1.
        B0011 = "b0011",
        /// Bytes 2, 2, 3, 3.
        B2233 = "b2233",
    }
}

/// One source of an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Src {
    /// Where the bits come from.
    pub value: Value,
    /// The register is not read again (`^`). Only registers can be so marked.
    pub discard: bool,
    /// Floating point negation, applied after `abs`.
    pub neg: bool,
    /// Floating point absolute value.
    pub abs: bool,
    /// Bitwise complement.
    pub not: bool,
    /// Part that is used.
    pub swizzle: Swizzle,
}

impl Src {
    /// No source.
    pub const NONE: Src = Src::of(Value::None);
    /// The constant 0.
    pub const ZERO: Src = Src::of(Value::Const(0));
    /// The constant with all bits set.
    pub const ONES: Src = Src::of(Value::Const(1));
    /// The floating point constant -0.0, neutral in an addition.
    pub const NEG_ZERO: Src = Src {
        neg: true,
        ..Src::ZERO
    };

    /// A source without modifiers.
    pub const fn of(value: Value) -> Src {
        Src {
            value,
            discard: false,
            neg: false,
            abs: false,
            not: false,
            swizzle: Swizzle::None,
        }
    }

    /// Register `index` (0 to 63).
    pub const fn reg(index: u8) -> Src {
        Src::of(Value::Reg(index))
    }

    /// 32-bit word `word` of the uniforms.
    pub const fn uniform(word: u8) -> Src {
        Src::of(Value::Uniform(word))
    }

    /// Entry `index` (0 to 31) of the constant table.
    pub const fn constant(index: u8) -> Src {
        Src::of(Value::Const(index))
    }

    /// Word `word` (0 or 1) of a special value.
    pub const fn special(which: Special, word: u8) -> Src {
        Src::of(Value::Special(which, word))
    }

    /// The first constant of the table that equals `bits`, if there is one.
    pub const fn imm32(bits: u32) -> Option<Src> {
        match super::const_index(bits) {
            Some(index) => Some(Src::constant(index)),
            None => None,
        }
    }

    /// The source marked as the last use of its register.
    pub const fn last(self) -> Src {
        Src {
            discard: true,
            ..self
        }
    }

    /// The source negated (the mark is toggled).
    pub const fn neg(self) -> Src {
        Src {
            neg: !self.neg,
            ..self
        }
    }

    /// The absolute value of the source; a previous negation disappears.
    pub const fn abs(self) -> Src {
        Src {
            abs: true,
            neg: false,
            ..self
        }
    }

    /// The complement of the source (the mark is toggled).
    pub const fn not(self) -> Src {
        Src {
            not: !self.not,
            ..self
        }
    }

    /// The source with another swizzle.
    pub const fn swizzle(self, swizzle: Swizzle) -> Src {
        Src { swizzle, ..self }
    }

    /// Whether there is a source at all.
    pub const fn is_some(self) -> bool {
        !matches!(self.value, Value::None)
    }
}

/// Which halves of a destination register are written.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum DestMask {
    /// All 32 bits (or both registers of a 64-bit destination).
    Full,
    /// Bits 0 to 15 only, the rest keeps its value.
    Low,
    /// Bits 16 to 31 only, the rest keeps its value.
    High,
}

/// Destination register of an instruction that is no message.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Dest {
    /// Register, r0 to r63; even for a 64-bit result.
    pub reg: u8,
    /// Part that is written.
    pub mask: DestMask,
}

impl Dest {
    /// The whole register.
    pub const fn reg(reg: u8) -> Dest {
        Dest {
            reg,
            mask: DestMask::Full,
        }
    }

    /// Half `half` (0 or 1) of the register.
    pub const fn half(reg: u8, half: u8) -> Dest {
        Dest {
            reg,
            mask: if half == 0 {
                DestMask::Low
            } else {
                DestMask::High
            },
        }
    }
}

/// Block of consecutive registers that a message reads or writes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Staging {
    /// First register. Even where `count` is above 1.
    pub reg: u8,
    /// Number of registers, 0 to 7.
    pub count: u8,
}

impl Staging {
    /// `count` registers from `reg` on.
    pub const fn new(reg: u8, count: u8) -> Staging {
        Staging { reg, count }
    }

    /// The registers as a bit set.
    pub const fn mask(self) -> u64 {
        if self.count == 0 {
            0
        } else {
            (u64::MAX >> (64 - self.count as u32)) << (self.reg & 63)
        }
    }
}

spelled! {
    /// Clamp of a floating point result. (Mesa, ISA.xml, enum `Clamp`.) A NaN becomes 0, -1 and 0 respectively.
    Clamp {
        /// None.
        None = "none",
        /// At least 0.
        ZeroInf = "clamp_0_inf",
        /// Between -1 and 1.
        M1To1 = "clamp_m1_1",
        /// Between 0 and 1.
        ZeroTo1 = "clamp_0_1",
    }
}

spelled! {
    /// Rounding of a floating point result. (Mesa, ISA.xml, enum `Round mode`.)
    Round {
        /// To nearest, ties to even.
        Rte = "rte",
        /// To plus infinity.
        Rtp = "rtp",
        /// To minus infinity.
        Rtn = "rtn",
        /// To zero.
        Rtz = "rtz",
        /// To nearest, ties away from zero (conversions to integers and `LDEXP` only).
        Rtna = "rtna",
    }
}

spelled! {
    /// Condition of a comparison. (Mesa, ISA.xml, enum `Condition`.)
    Cond {
        /// Equal.
        Eq = "eq",
        /// Greater than.
        Gt = "gt",
        /// Greater than or equal.
        Ge = "ge",
        /// Not equal (true for NaN).
        Ne = "ne",
        /// Less than.
        Lt = "lt",
        /// Less than or equal.
        Le = "le",
        /// Greater or less than (false for NaN); floating point only.
        Gtlt = "gtlt",
        /// Neither is NaN; floating point only.
        Total = "total",
    }
}

spelled! {
    /// How a comparison writes "true". (Mesa, ISA.xml, enum `Result type`.)
    ResultType {
        /// Integer 1.
        I1 = "i1",
        /// Floating point 1.0.
        F1 = "f1",
        /// All bits set.
        M1 = "m1",
        /// Internal form of the low half of a 64-bit comparison.
        U1 = "u1",
    }
}

spelled! {
    /// Condition of `MUX` on its third source. (Mesa, ISA.xml, enum `Mux`.)
    Mux {
        /// The sign bit is set.
        Neg = "neg",
        /// It is integer zero.
        IntZero = "int_zero",
        /// It is floating point zero of either sign.
        FpZero = "fp_zero",
        /// Each bit for itself.
        Bit = "bit",
    }
}

spelled! {
    /// Effective number of lanes of a cross-lane operation. (Mesa, ISA.xml, enum `Subgroup size`.)
    Subgroup {
        /// Two lanes.
        Two = "subgroup2",
        /// Four lanes.
        Four = "subgroup4",
        /// Eight lanes.
        Eight = "subgroup8",
        /// The whole warp.
        Sixteen = "subgroup16",
    }
}

impl Subgroup {
    /// Number of lanes.
    pub const fn lanes(self) -> u8 {
        2 << self as u8
    }
}

spelled! {
    /// How `CLPER` derives the lane that it reads. (Mesa, ISA.xml, enum `Lane operation`.)
    LaneOp {
        /// The second source is the lane.
        None = "none",
        /// Exclusive-or with the reading lane.
        Xor = "xor",
        /// Accumulation pattern of a scan.
        Accumulate = "accumulate",
        /// Reading lane plus the second source.
        Shift = "shift",
        /// Reading lane plus the second source, around the end.
        Rotate = "rotate",
    }
}

spelled! {
    /// What `CLPER` returns for an inactive lane. (Mesa, ISA.xml, enum `Inactive result`.)
    InactiveResult {
        /// 0x00000000.
        Zero = "zero",
        /// 0xFFFFFFFF.
        Umax = "umax",
        /// 0x00000001.
        I1 = "i1",
        /// 0x00010001.
        V2i1 = "v2i1",
        /// 0x80000000.
        Smin = "smin",
        /// 0x7FFFFFFF.
        Smax = "smax",
        /// 0x80008000.
        V2smin = "v2smin",
        /// 0x7FFF7FFF.
        V2smax = "v2smax",
        /// 0x80808080.
        V4smin = "v4smin",
        /// 0x7F7F7F7F.
        V4smax = "v4smax",
        /// 1.0.
        F1 = "f1",
        /// 1.0 in both halves.
        V2f1 = "v2f1",
        /// Minus infinity.
        Infn = "infn",
        /// Infinity.
        Inf = "inf",
        /// Minus infinity in both halves.
        V2infn = "v2infn",
        /// Infinity in both halves.
        V2inf = "v2inf",
    }
}

impl InactiveResult {
    /// The 32 bits that are returned.
    pub const fn bits(self) -> u32 {
        match self {
            InactiveResult::Zero => 0,
            InactiveResult::Umax => 0xffff_ffff,
            InactiveResult::I1 => 1,
            InactiveResult::V2i1 => 0x0001_0001,
            InactiveResult::Smin => 0x8000_0000,
            InactiveResult::Smax => 0x7fff_ffff,
            InactiveResult::V2smin => 0x8000_8000,
            InactiveResult::V2smax => 0x7fff_7fff,
            InactiveResult::V4smin => 0x8080_8080,
            InactiveResult::V4smax => 0x7f7f_7f7f,
            InactiveResult::F1 => 0x3f80_0000,
            InactiveResult::V2f1 => 0x3c00_3c00,
            InactiveResult::Infn => 0xff80_0000,
            InactiveResult::Inf => 0x7f80_0000,
            InactiveResult::V2infn => 0xfc00_fc00,
            InactiveResult::V2inf => 0x7c00_7c00,
        }
    }
}

spelled! {
    /// Message slot that an asynchronous instruction holds until it is done. (Mesa, ISA.xml, enum `Slot`.)
    Slot {
        /// Slot 0.
        Slot0 = "slot0",
        /// Slot 1.
        Slot1 = "slot1",
        /// Slot 2.
        Slot2 = "slot2",
        /// Slot 7, for `BARRIER` only.
        Slot7 = "slot7",
    }
}

impl Slot {
    /// The slot's number.
    pub const fn number(self) -> u8 {
        match self {
            Slot::Slot0 => 0,
            Slot::Slot1 => 1,
            Slot::Slot2 => 2,
            Slot::Slot7 => 7,
        }
    }
}

spelled! {
    /// Hint of a memory access. (Mesa, ISA.xml, enum `Memory access`.)
    Access {
        /// Plain.
        None = "none",
        /// Internally streaming.
        Istream = "istream",
        /// Externally streaming.
        Estream = "estream",
        /// Also in discarded threads.
        Force = "force",
    }
}

spelled! {
    /// Where a load narrower than its registers puts the value. (Mesa, ISA.xml, enums `Load lane (…)`.)
    LoadLane {
        /// The default: byte 0 for i8, low half for i16, word for i32, the whole for other widths. The rest
        /// of a partly written register keeps its value.
        Default = "default",
        /// Byte 1 of the register (i8).
        B1 = "b1",
        /// Byte 2 of the register (i8).
        B2 = "b2",
        /// Byte 3 of the register (i8).
        B3 = "b3",
        /// Extended to the low half (i8).
        H0 = "h0",
        /// Extended to the high half (i8), or the high half itself (i16).
        H1 = "h1",
        /// Extended to 32 bits (i8, i16).
        W0 = "w0",
        /// Extended to 64 bits (i8, i16, i32).
        D0 = "d0",
    }
}

spelled! {
    /// Operation of an atomic. (Mesa, ISA.xml, enums `Atomic operation` and `Atomic operation with 1`.)
    AtomicOp {
        /// Add.
        Add = "aadd",
        /// Signed minimum.
        Smin = "asmin",
        /// Signed maximum.
        Smax = "asmax",
        /// Unsigned minimum.
        Umin = "aumin",
        /// Unsigned maximum.
        Umax = "aumax",
        /// Bitwise and.
        And = "aand",
        /// Bitwise or.
        Or = "aor",
        /// Bitwise exclusive or.
        Xor = "axor",
        /// Exchange; with [`Mods::compare`] compare and exchange.
        Xchg = "axchg",
        /// Add 1 (`ATOM1` only).
        Inc = "ainc",
        /// Subtract 1 (`ATOM1` only).
        Dec = "adec",
        /// Unsigned maximum with 1 (`ATOM1` only).
        Umax1 = "aumax1",
        /// Signed maximum with 1 (`ATOM1` only).
        Smax1 = "asmax1",
        /// Set bit 0 (`ATOM1` only).
        Or1 = "aor1",
        /// Add an unsigned 32-bit value to 64 bits (64-bit atomics only).
        AddU32 = "aaddu",
        /// Add a signed 32-bit value to 64 bits (64-bit atomics only).
        AddS32 = "aadds",
    }
}

spelled! {
    /// Which part of the condition a branch looks at. (Mesa, ISA.xml, enum `Combine`.)
    Combine {
        /// All 32 bits.
        None = "none",
        /// Low half.
        H0 = "h0",
        /// High half.
        H1 = "h1",
        /// Both halves.
        And = "and",
        /// Bit 0 of each.
        LowBits = "lowbits",
    }
}

spelled! {
    /// What `FLUSH` does with NaN. (Mesa, ISA.xml, enum `NaN mode`.)
    NanMode {
        /// Nothing.
        None = "none",
        /// All NaN become 0.
        Flush = "flush_nan",
        /// Signalling NaN become quiet.
        Quiet = "quiet_nan",
    }
}

spelled! {
    /// Clock that `LD_GCLK_U64` reads. (Mesa, ISA.xml, enum `Source`.)
    Clock {
        /// GPU cycles.
        Cycles = "cycle_counter",
        /// System time.
        Timestamp = "system_timestamp",
    }
}

spelled! {
    /// Range into which `FREXPM` brings the mantissa, with the exponent of `FREXPE` to match.
    /// (Mesa, kraid's isa-v9-v14.xml, enum `frexp_special_m`.)
    Frexp {
        /// As in C's `frexp`.
        None = "none",
        /// Even exponents, for square roots.
        Sqrt = "sqrt",
        /// Mantissa around 1, for logarithms.
        Log = "log",
    }
}

spelled! {
    /// What `FLOG_TABLE` looks up. (Mesa, kraid's isa-v9-v14.xml, enum `table_flog_mode_m`.)
    FlogMode {
        /// Reduction factor.
        Red = "red",
        /// Logarithm to base 2.
        Base2 = "base2",
        /// Natural logarithm.
        Natural = "natural",
    }
}

spelled! {
    /// Part of the value that `FLOG_TABLE` returns. (Mesa, kraid's isa-v9-v14.xml, enum
    /// `table_flog_precision_m`.)
    FlogPrecision {
        /// The value.
        None = "none",
        /// High part.
        High = "high",
        /// Low part.
        Low = "low",
    }
}

spelled! {
    /// Part of the value that `FEXP_TABLE` returns. (Mesa, kraid's isa-v9-v14.xml, enum `fexp_adj_m`.)
    ExpAdjust {
        /// The value.
        None = "none",
        /// Low part.
        Low = "low",
    }
}

spelled! {
    /// What `LDEXP` does with infinity. (Mesa, kraid's isa-v9-v14.xml, enum `ldexp_inf_m`.)
    LdexpInf {
        /// Nothing special.
        None = "none",
        /// Mode `inf`.
        Inf = "inf",
        /// Mode `inf0`.
        Inf0 = "inf0",
    }
}

spelled! {
    /// Function that `FPOW_SC_DET` prepares. (Mesa, kraid's isa-v9-v14.xml, enum `fpow_sc_det_function_m`.)
    PowFunction {
        /// `pow`.
        Pow = "pow",
        /// `powr`.
        Powr = "powr",
    }
}

spelled! {
    /// What `JUMP_EX` does with the return stack. (Mesa, kraid's isa-v9-v14.xml, enum `jump_stack_mode_m`.)
    JumpStack {
        /// Return.
        Return = "return",
        /// Call.
        Call = "call",
        /// Nothing.
        None = "none",
        /// Replace the top.
        Replace = "replace",
    }
}

/// All modifiers. A field that an instruction does not have must keep its default.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Mods {
    /// Clamp of the result.
    pub clamp: Clamp,
    /// Rounding of the result.
    pub round: Round,
    /// Condition of a comparison or select.
    pub cond: Cond,
    /// Form of a comparison's result.
    pub result: ResultType,
    /// Integer saturation.
    pub saturate: bool,
    /// The result is complemented.
    pub not_result: bool,
    /// `HADD` rounds up.
    pub rhadd: bool,
    /// Condition of `MUX`.
    pub mux: Mux,
    /// Lane arithmetic of `CLPER`.
    pub lane_op: LaneOp,
    /// Subgroup size of `CLPER` and `WMASK`.
    pub subgroup: Subgroup,
    /// Value of inactive lanes in `CLPER`.
    pub inactive: InactiveResult,
    /// Message slot.
    pub slot: Slot,
    /// Hint of a load or store.
    pub access: Access,
    /// Place of a loaded value.
    pub load_lane: LoadLane,
    /// A widened load extends with zeros instead of the sign. Mesa sets it on every plain load, too.
    pub unsigned: bool,
    /// Operation of an atomic.
    pub atomic: AtomicOp,
    /// The exchange happens only where memory equals the first staging value (`ACMPXCHG`).
    pub compare: bool,
    /// The branch is taken where the source is zero (else where it is not).
    pub eq: bool,
    /// Part of the branch's condition.
    pub combine: Combine,
    /// Conservative branch.
    pub conservative: bool,
    /// The target of `BRANCHZI` is an address, not a distance.
    pub absolute: bool,
    /// Range of `FREXPM` and `FREXPE`.
    pub frexp: Frexp,
    /// Second step of `FATAN_ASSIST`.
    pub second: bool,
    /// NaN handling of `FLUSH`.
    pub nan: NanMode,
    /// `FLUSH` turns subnormals into zero.
    pub ftz: bool,
    /// `FLUSH` turns infinity into the largest finite value.
    pub flush_inf: bool,
    /// `SEG_ADD` subtracts.
    pub neg: bool,
    /// `SEG_ADD` leaves a null pointer null.
    pub preserve_null: bool,
    /// Table of a resource in `LEA_BUF_IMM`.
    pub table: u8,
    /// Clock of `LD_GCLK_U64`.
    pub clock: Clock,
    /// Value of `FLOG_TABLE`.
    pub flog_mode: FlogMode,
    /// Part of the value of `FLOG_TABLE`.
    pub flog_precision: FlogPrecision,
    /// Part of the value of `FEXP_TABLE`.
    pub exp_adjust: ExpAdjust,
    /// Infinity in `LDEXP`.
    pub ldexp: LdexpInf,
    /// Function of `FPOW_SC_DET`.
    pub pow: PowFunction,
    /// Return stack of `JUMP_EX`.
    pub jump_stack: JumpStack,
    /// `JUMP_EX` may diverge.
    pub diverge: bool,
    /// Sticky `FADD`.
    pub sticky: bool,
    /// `FMIN` and `FMAX` return NaN where an operand is NaN, else the other operand.
    pub nan_propagate: bool,
    /// Mask form of `CLZ`.
    pub mask: bool,
    /// `FREXPE` negates the exponent.
    pub neg_result: bool,
    /// Offset form of `FSIN_TABLE` and `FCOS_TABLE`.
    pub table_offset: bool,
    /// Scaled form of `FSINCOS_OFFSET`.
    pub table_scale: bool,
    /// `IADDC` and `ISUBB` return the carry.
    pub carry: bool,
}

impl Mods {
    /// No modifier at all.
    pub const DEFAULT: Mods = Mods {
        clamp: Clamp::None,
        round: Round::Rte,
        cond: Cond::Eq,
        result: ResultType::I1,
        saturate: false,
        not_result: false,
        rhadd: false,
        mux: Mux::IntZero,
        lane_op: LaneOp::None,
        subgroup: Subgroup::Sixteen,
        inactive: InactiveResult::Zero,
        slot: Slot::Slot0,
        access: Access::None,
        load_lane: LoadLane::Default,
        unsigned: false,
        atomic: AtomicOp::Add,
        compare: false,
        eq: false,
        combine: Combine::None,
        conservative: false,
        absolute: false,
        frexp: Frexp::None,
        second: false,
        nan: NanMode::None,
        ftz: false,
        flush_inf: false,
        neg: false,
        preserve_null: false,
        table: 0,
        clock: Clock::Cycles,
        flog_mode: FlogMode::Red,
        flog_precision: FlogPrecision::None,
        exp_adjust: ExpAdjust::None,
        ldexp: LdexpInf::None,
        pow: PowFunction::Pow,
        jump_stack: JumpStack::None,
        diverge: false,
        sticky: false,
        nan_propagate: false,
        mask: false,
        neg_result: false,
        table_offset: false,
        table_scale: false,
        carry: false,
    };
}

impl Default for Mods {
    fn default() -> Mods {
        Mods::DEFAULT
    }
}
