//! The modifiers of an instruction.

use core::fmt;

use super::types::spelled;

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
        /// Less than in IEEE 754's total order; floating point only. (Mesa, kraid/ops.rs, `CmpOp::fold`.)
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
    /// Where a load narrower than its registers puts the value. (Mesa, ISA.xml, enums `Load lane (…)`.) `LD_PKA` into
    /// byte 1 or 3 writes byte 0 or 2 instead on v9 to v15 (Mesa, panfrost/compiler/kraid/hw_tests.rs).
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
    /// Place of a loaded value, or of the stored one within its register (`STORE.i8` and `STORE.i16`).
    pub load_lane: LoadLane,
    /// A widened load extends with zeros instead of the sign. Mesa sets it on every plain load, too.
    pub unsigned: bool,
    /// Operation of an atomic.
    pub atomic: AtomicOp,
    /// `ACMPXCHG`: the first staging value is stored only where memory equals the second.
    /// (Mesa, bifrost_compile.c, `bi_emit_acmpxchg_to`: new value before compared value, swapped from NIR's order.)
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
