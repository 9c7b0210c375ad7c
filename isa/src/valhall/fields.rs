//! Building blocks of the table's rows: swizzle sets, sources, immediates and modifier fields.

use super::table::{
    Fixed, ImmInfo, ImmTarget, ModField, ModKind, ModValue, RawField, SrcInfo, SwizzleField,
    SwizzleName,
};
use super::types::Swizzle;

/// One spelling of a swizzle.
const fn n(bits: u8, swizzle: Swizzle, text: &'static str) -> SwizzleName {
    SwizzleName {
        bits,
        swizzle,
        text,
    }
}

/// Half of a 32-bit floating point source (kraid `widen_m`).
const WIDEN_F32: &[SwizzleName] = &[
    n(0, Swizzle::None, ""),
    n(1, Swizzle::H0, "h0"),
    n(2, Swizzle::H1, "h1"),
];

/// Halves of a 16-bit vector (kraid `swiz_m`).
const SWIZ_16: &[SwizzleName] = &[
    n(2, Swizzle::None, ""),
    n(0, Swizzle::H00, "h00"),
    n(1, Swizzle::H10, "h10"),
    n(3, Swizzle::H11, "h11"),
    n(2, Swizzle::None, "h01"),
];

/// Four bytes (kraid `lanes_int_m`).
const INT_8: &[SwizzleName] = &[
    n(0, Swizzle::None, ""),
    n(1, Swizzle::B3210, "b3210"),
    n(2, Swizzle::B0101, "b0101"),
    n(3, Swizzle::B2323, "b2323"),
    n(4, Swizzle::B0000, "b0000"),
    n(5, Swizzle::B1111, "b1111"),
    n(6, Swizzle::B2222, "b2222"),
    n(7, Swizzle::B3333, "b3333"),
    n(8, Swizzle::B2301, "b2301"),
    n(9, Swizzle::B1032, "b1032"),
    n(10, Swizzle::B0011, "b0011"),
    n(11, Swizzle::B2233, "b2233"),
    n(0, Swizzle::None, "b0123"),
];

/// Halves or bytes of a 16-bit integer vector (kraid `swiz_int_m`).
const INT_16: &[SwizzleName] = &[
    n(2, Swizzle::None, ""),
    n(0, Swizzle::H00, "h00"),
    n(1, Swizzle::H10, "h10"),
    n(3, Swizzle::H11, "h11"),
    n(4, Swizzle::B00, "b00"),
    n(5, Swizzle::B20, "b20"),
    n(6, Swizzle::B02, "b02"),
    n(7, Swizzle::B22, "b22"),
    n(8, Swizzle::B11, "b11"),
    n(9, Swizzle::B31, "b31"),
    n(10, Swizzle::B13, "b13"),
    n(11, Swizzle::B33, "b33"),
    n(12, Swizzle::B01, "b01"),
    n(13, Swizzle::B23, "b23"),
    n(2, Swizzle::None, "h01"),
];

/// Half or byte of a 32-bit integer (kraid `widen_int_m`).
const INT_32: &[SwizzleName] = &[
    n(0, Swizzle::None, ""),
    n(2, Swizzle::H0, "h0"),
    n(3, Swizzle::H1, "h1"),
    n(4, Swizzle::B0, "b0"),
    n(5, Swizzle::B1, "b1"),
    n(6, Swizzle::B2, "b2"),
    n(7, Swizzle::B3, "b3"),
];

/// Word, half or byte of a 64-bit integer (kraid `widen_int_m`).
const INT_64: &[SwizzleName] = &[
    n(0, Swizzle::None, ""),
    n(2, Swizzle::H0, "h0"),
    n(3, Swizzle::H1, "h1"),
    n(4, Swizzle::B0, "b0"),
    n(5, Swizzle::B1, "b1"),
    n(6, Swizzle::B2, "b2"),
    n(7, Swizzle::B3, "b3"),
    n(8, Swizzle::W0, "w0"),
];

/// As [`INT_64`], with the high word.
const INT_64_SECOND: &[SwizzleName] = &[
    n(0, Swizzle::None, ""),
    n(2, Swizzle::H0, "h0"),
    n(3, Swizzle::H1, "h1"),
    n(4, Swizzle::B0, "b0"),
    n(5, Swizzle::B1, "b1"),
    n(6, Swizzle::B2, "b2"),
    n(7, Swizzle::B3, "b3"),
    n(8, Swizzle::W0, "w0"),
    n(9, Swizzle::W1, "w1"),
];

/// Shift amount of a 32- or 64-bit shift, or lane of `CLPER`: one byte, written twice (kraid
/// `shift_bitwise_i32_lanes_m`; the older text has one digit).
pub(super) const LANES_I32: &[SwizzleName] = &[
    n(4, Swizzle::B00, "b00"),
    n(5, Swizzle::B11, "b11"),
    n(6, Swizzle::B22, "b22"),
    n(7, Swizzle::B33, "b33"),
    n(4, Swizzle::B00, "b0"),
    n(5, Swizzle::B11, "b1"),
    n(6, Swizzle::B22, "b2"),
    n(7, Swizzle::B33, "b3"),
];

/// As [`LANES_I32`].
pub(super) const LANES_I64: &[SwizzleName] = LANES_I32;

/// Shift amounts of a 16-bit vector: one byte for each half (kraid `shift_bitwise_i16_lanes_m`).
pub(super) const LANES_V2I16: &[SwizzleName] = &[
    n(0, Swizzle::B02, "b02"),
    n(4, Swizzle::B00, "b00"),
    n(5, Swizzle::B11, "b11"),
    n(6, Swizzle::B22, "b22"),
    n(7, Swizzle::B33, "b33"),
    n(10, Swizzle::B01, "b01"),
    n(11, Swizzle::B23, "b23"),
];

/// Shift amounts of an 8-bit vector: four bytes (kraid `lanes_int_m`). Mesa writes one byte for all four elements
/// with two digits, as in the wider shifts.
pub(super) const LANES_V4I8: &[SwizzleName] = &[
    n(0, Swizzle::None, ""),
    n(4, Swizzle::B0000, "b00"),
    n(5, Swizzle::B1111, "b11"),
    n(6, Swizzle::B2222, "b22"),
    n(7, Swizzle::B3333, "b33"),
    n(1, Swizzle::B3210, "b3210"),
    n(2, Swizzle::B0101, "b0101"),
    n(3, Swizzle::B2323, "b2323"),
    n(8, Swizzle::B2301, "b2301"),
    n(9, Swizzle::B1032, "b1032"),
    n(10, Swizzle::B0011, "b0011"),
    n(11, Swizzle::B2233, "b2233"),
    n(0, Swizzle::None, "b0123"),
    n(4, Swizzle::B0000, "b0000"),
    n(5, Swizzle::B1111, "b1111"),
    n(6, Swizzle::B2222, "b2222"),
    n(7, Swizzle::B3333, "b3333"),
];

/// Any two bytes (kraid `swiz8_2_full_m`).
const HALF_8: &[SwizzleName] = &[
    n(0, Swizzle::B00, "b00"),
    n(1, Swizzle::B10, "b10"),
    n(2, Swizzle::B20, "b20"),
    n(3, Swizzle::B30, "b30"),
    n(4, Swizzle::B01, "b01"),
    n(5, Swizzle::B11, "b11"),
    n(6, Swizzle::B21, "b21"),
    n(7, Swizzle::B31, "b31"),
    n(8, Swizzle::B02, "b02"),
    n(9, Swizzle::B12, "b12"),
    n(10, Swizzle::B22, "b22"),
    n(11, Swizzle::B32, "b32"),
    n(12, Swizzle::B03, "b03"),
    n(13, Swizzle::B13, "b13"),
    n(14, Swizzle::B23, "b23"),
    n(15, Swizzle::B33, "b33"),
];

/// One byte (kraid `lane8_m`).
const LANE_8: &[SwizzleName] = &[
    n(0, Swizzle::B0, "b0"),
    n(1, Swizzle::B1, "b1"),
    n(2, Swizzle::B2, "b2"),
    n(3, Swizzle::B3, "b3"),
];

/// One half of a 16-bit table look-up; Mesa writes it with the names of a wider field.
const LANE_16_OLD: &[SwizzleName] = &[
    n(0, Swizzle::H0, "h00"),
    n(1, Swizzle::H1, "h10"),
    n(0, Swizzle::H0, "h0"),
    n(1, Swizzle::H1, "h1"),
];

/// One half (kraid `lane16_m`); the older text names the halves by the bits of a wider field.
const LANE_16: &[SwizzleName] = &[
    n(0, Swizzle::H0, "h0"),
    n(1, Swizzle::H1, "h1"),
    n(0, Swizzle::H0, "h00"),
    n(1, Swizzle::H1, "h10"),
];

/// Source `i` without modifiers.
pub(super) const fn x(i: u8, size: u8) -> SrcInfo {
    SrcInfo {
        size,
        pos: 8 * i,
        neg_abs: None,
        not: None,
        swizzle: None,
        float: false,
    }
}

/// Floating point source `i` without modifiers.
pub(super) const fn fl(i: u8, size: u8) -> SrcInfo {
    SrcInfo {
        float: true,
        ..x(i, size)
    }
}

/// Floating point source `i` with sign and absolute value.
pub(super) const fn fa(i: u8, size: u8) -> SrcInfo {
    let pos = 34 + 2 * (2 - i);
    SrcInfo {
        neg_abs: Some((pos, pos + 1)),
        ..fl(i, size)
    }
}

/// The two swizzle bits of a floating point source `i`.
const fn float_swizzle(i: u8, size: u8) -> Option<SwizzleField> {
    Some(SwizzleField {
        pos: 24 + 2 * (2 - i),
        width: 2,
        names: if size == 32 { WIDEN_F32 } else { SWIZ_16 },
    })
}

/// Floating point source `i` with sign, absolute value and swizzle.
pub(super) const fn fs(i: u8, size: u8) -> SrcInfo {
    SrcInfo {
        swizzle: float_swizzle(i, size),
        ..fa(i, size)
    }
}

/// Floating point source `i` with swizzle.
pub(super) const fn fw(i: u8, size: u8) -> SrcInfo {
    SrcInfo {
        swizzle: float_swizzle(i, size),
        ..fl(i, size)
    }
}

/// Integer source `i` with the swizzle of a floating point source.
pub(super) const fn sw(i: u8, size: u8) -> SrcInfo {
    SrcInfo {
        swizzle: float_swizzle(i, size),
        ..x(i, size)
    }
}

/// First bit of the four swizzle bits of an integer source.
const fn wide_pos(i: u8) -> u8 {
    if i == 1 { 26 } else { 36 }
}

/// Integer source `i` with swizzle.
pub(super) const fn iw(i: u8, size: u8) -> SrcInfo {
    let names = match size {
        8 => INT_8,
        16 => INT_16,
        32 => INT_32,
        _ => INT_64,
    };
    SrcInfo {
        swizzle: Some(SwizzleField {
            pos: wide_pos(i),
            width: 4,
            names,
        }),
        ..x(i, size)
    }
}

/// Shift amount or lane number, always the second source.
pub(super) const fn sh(names: &'static [SwizzleName]) -> SrcInfo {
    SrcInfo {
        swizzle: Some(SwizzleField {
            pos: wide_pos(1),
            width: 4,
            names,
        }),
        ..x(1, 8)
    }
}

/// Two bytes of source `i`.
pub(super) const fn hs(i: u8) -> SrcInfo {
    SrcInfo {
        swizzle: Some(SwizzleField {
            pos: wide_pos(i),
            width: 4,
            names: HALF_8,
        }),
        ..x(i, 8)
    }
}

/// Source `i` with complement.
pub(super) const fn nt(i: u8, size: u8) -> SrcInfo {
    SrcInfo {
        not: Some(35),
        ..x(i, size)
    }
}

/// The lane field at `pos` of an 8- or 16-bit source.
const fn lane(size: u8, pos: u8) -> Option<SwizzleField> {
    Some(if size == 8 {
        SwizzleField {
            pos,
            width: 2,
            names: LANE_8,
        }
    } else {
        SwizzleField {
            pos,
            width: 1,
            names: LANE_16,
        }
    })
}

/// One byte or half of source `i`, selected at `pos`.
pub(super) const fn ln(i: u8, size: u8, pos: u8) -> SrcInfo {
    SrcInfo {
        swizzle: lane(size, pos),
        ..x(i, size)
    }
}

/// One half of floating point source `i`, selected at `pos`, with sign and absolute value.
pub(super) const fn fb(i: u8, size: u8, pos: u8) -> SrcInfo {
    SrcInfo {
        swizzle: lane(size, pos),
        ..fa(i, size)
    }
}

/// One half of floating point source `i` of a table look-up.
pub(super) const fn fo(i: u8) -> SrcInfo {
    let field = SwizzleField {
        pos: 28 - 2 * i,
        width: 1,
        names: LANE_16_OLD,
    };
    SrcInfo {
        swizzle: Some(field),
        ..fa(i, 16)
    }
}

/// Second source of a 64-bit addition: either word, too.
pub(super) const fn iw1(i: u8) -> SrcInfo {
    SrcInfo {
        swizzle: Some(SwizzleField {
            pos: wide_pos(i),
            width: 4,
            names: INT_64_SECOND,
        }),
        ..x(i, 64)
    }
}

impl SrcInfo {
    /// The same source as a 64-bit one.
    pub(super) const fn wide(self) -> SrcInfo {
        SrcInfo { size: 64, ..self }
    }
}

/// Opcode bits.
pub(super) const fn at(pos: u8, mask: u64, value: u64) -> Fixed {
    Fixed::at(pos, mask, value)
}

/// Raw field of a graphics instruction.
pub(super) const fn r(name: &'static str, pos: u8, width: u8) -> RawField {
    RawField { name, pos, width }
}

const fn imm(name: &'static str, pos: u8, width: u8, signed: bool) -> ImmInfo {
    ImmInfo {
        name,
        pos,
        width,
        signed,
        target: ImmTarget::Imm,
    }
}

/// Distance of a branch in instructions, relative to the next one.
pub(super) const OFFSET27: ImmInfo = imm("offset", 8, 27, true);
/// Byte distance of a load or store.
pub(super) const OFFSET16: ImmInfo = imm("offset", 8, 16, true);
/// Byte distance of an atomic.
pub(super) const OFFSET8: ImmInfo = imm("offset", 8, 8, false);
/// 32 bits that are added.
pub(super) const CONSTANT: ImmInfo = imm("constant", 8, 32, false);
/// Left shift of the second source of `SHADDX`.
pub(super) const SHIFT: ImmInfo = imm("shift", 20, 3, false);
/// Index of a descriptor in its table.
pub(super) const INDEX: ImmInfo = imm("index", 12, 8, false);
/// Number of a resource table.
pub(super) const TABLE: ImmInfo = ImmInfo {
    target: ImmTarget::Table,
    ..imm("table", 8, 4, false)
};

const fn v(bits: u8, value: u8, text: &'static str) -> ModValue {
    ModValue { bits, value, text }
}

/// A one-bit field that is written by its name.
macro_rules! flag {
    ($const:ident, $name:literal, $pos:literal, $kind:ident, $doc:literal) => {
        #[doc = $doc]
        pub(super) const $const: ModField = ModField {
            name: $name,
            pos: $pos,
            width: 1,
            kind: ModKind::$kind,
            values: &[v(0, 0, ""), v(1, 1, $name)],
            doc: $doc,
        };
    };
}

/// Mesa writes `.signed` behind the arithmetic right shifts; no bits of its own.
pub(super) const SIGNED: ModField = ModField {
    name: "signedness",
    pos: 34,
    width: 0,
    kind: ModKind::Spelling,
    values: &[v(0, 0, "signed")],
    doc: "The shift copies the sign.",
};

/// A field with the values of an enum: bits and spelling, empty for the default.
macro_rules! field {
    ($const:ident, $name:literal, $pos:literal, $width:literal, $kind:ident: $ty:ident,
     [$($bits:literal $variant:ident $text:literal),* $(,)?], $doc:literal) => {
        #[doc = $doc]
        pub(super) const $const: ModField = ModField {
            name: $name,
            pos: $pos,
            width: $width,
            kind: ModKind::$kind,
            values: &[$(v($bits, super::mods::$ty::$variant as u8, $text)),*],
            doc: $doc,
        };
    };
}

flag! { SATURATE, "saturate", 30, Saturate, "The result saturates instead of wrapping." }
flag! { NOT_RESULT, "not_result", 30, NotResult, "The result is complemented." }
flag! { RHADD, "rhadd", 30, Rhadd, "The halved sum is rounded up." }
flag! { UNSIGNED, "unsigned", 39, Unsigned, "A widened value is extended with zeros." }
flag! { COMPARE, "compare", 26, Compare, "Exchange only where memory equals the second staging value." }
flag! { CONSERVATIVE, "conservative", 35, Conservative, "Conservative branch." }
flag! { EQ, "eq", 36, Eq, "Branch where the source is zero." }
flag! { ABSOLUTE, "absolute", 40, Absolute, "The target is an address." }
flag! { SECOND, "second", 24, Second, "Second step of the arc tangent." }
flag! { FTZ, "ftz", 10, Ftz, "Subnormals become zero." }
flag! { FLUSH_INF, "flush_inf", 11, FlushInf, "Infinity becomes the largest finite value." }
flag! { NEG, "neg", 38, Neg, "Subtract instead of add." }
flag! { PRESERVE_NULL, "preserve_null", 39, PreserveNull, "Null stays null." }
flag! { STICKY, "sticky", 34, Sticky, "Sticky addition (kraid `fadd_sticky_m`)." }
flag! { NAN_PROPAGATE, "nan_propagate", 30, NanPropagate, "NaN goes into the result (kraid `sem_m`)." }
flag! { MASK, "mask", 30, Mask, "Mask form (kraid `clz_mask_m`)." }
flag! { NEG_RESULT, "neg_result", 30, NegResult, "The exponent is negated." }
flag! { TABLE_OFFSET, "offset", 30, TableOffset, "Offset form (kraid `table_sincos_offset_m`)." }
flag! { TABLE_SCALE, "scale", 30, TableScale, "Scaled form (kraid `table_sincos_scale_m`)." }
flag! { CARRY, "c", 30, Carry, "The carry is returned instead of the sum." }
flag! { DIVERGE, "diverge", 32, Diverge, "The lanes may diverge." }

field! { CLAMP, "clamp", 32, 2, Clamp: Clamp,
[0 None "", 1 ZeroInf "clamp_0_inf", 2 M1To1 "clamp_m1_1", 3 ZeroTo1 "clamp_0_1"], "Clamp of the result." }
field! { ROUND, "round", 30, 2, Round: Round,
[0 Rte "", 1 Rtp "rtp", 2 Rtn "rtn", 3 Rtz "rtz"], "Rounding of the result." }
field! { ROUND_INT, "round", 30, 3, Round: Round,
[0 Rte "", 1 Rtp "rtp", 2 Rtn "rtn", 3 Rtz "rtz", 4 Rtna "rtna"], "Rounding of the result." }
field! { ROUND_ZERO, "round", 50, 1, Round: Round, [0 Rte "", 1 Rtz "rtz"], "Rounding of the result." }
field! { COND, "condition", 32, 3, Cond: Cond,
[0 Eq "eq", 1 Gt "gt", 2 Ge "ge", 3 Ne "ne", 4 Lt "lt", 5 Le "le", 6 Gtlt "gtlt", 7 Total "total"],
"Condition between the first two sources." }
field! { ICOND, "condition", 32, 3, Cond: Cond,
[0 Eq "eq", 1 Gt "gt", 2 Ge "ge", 3 Ne "ne", 4 Lt "lt", 5 Le "le"],
"Condition between the first two sources." }
field! { RESULT, "result type", 30, 2, Result: ResultType,
[0 I1 "i1", 1 F1 "f1", 2 M1 "m1"], "How true is written." }
field! { RESULT_BYTE, "result type", 30, 2, Result: ResultType, [0 I1 "i1", 2 M1 "m1"], "How true is written." }
field! { RESULT_MULTI, "result type", 30, 2, Result: ResultType,
[0 I1 "i1", 1 F1 "f1", 2 M1 "m1", 3 U1 "u1"], "How true is written." }
field! { MUX, "mux", 32, 2, Mux: Mux,
[0 Neg "neg", 1 IntZero "", 2 FpZero "fp_zero", 3 Bit "bit"], "Condition on the third source." }
field! { MUX_BYTE, "mux", 32, 2, Mux: Mux,
[0 Neg "neg", 1 IntZero "", 3 Bit "bit"], "Condition on the third source." }
field! { SUBGROUP, "subgroup", 36, 4, Subgroup: Subgroup,
[0 Two "subgroup2", 1 Four "subgroup4", 2 Eight "subgroup8", 3 Sixteen ""], "Lanes that belong together." }
field! { LANE_OP, "lane operation", 32, 4, LaneOp: LaneOp,
[0 None "", 1 Xor "xor", 2 Accumulate "accumulate", 3 Shift "shift", 4 Rotate "rotate"],
"How the lane is derived." }
field! { INACTIVE, "inactive result", 22, 4, Inactive: InactiveResult,
[0 Zero "", 1 Umax "umax", 2 I1 "i1", 3 V2i1 "v2i1", 4 Smin "smin", 5 Smax "smax", 6 V2smin "v2smin",
 7 V2smax "v2smax", 8 V4smin "v4smin", 9 V4smax "v4smax", 10 F1 "f1", 11 V2f1 "v2f1", 12 Infn "infn",
 13 Inf "inf", 14 V2infn "v2infn", 15 V2inf "v2inf"], "Value of an inactive lane." }
field! { SLOT, "slot", 30, 3, Slot: Slot,
[0 Slot0 "slot0", 1 Slot1 "slot1", 2 Slot2 "slot2"], "Message slot that is held until the message is done." }
field! { SLOT_BARRIER, "slot", 30, 3, Slot: Slot,
[7 Slot7 "slot7"], "Message slot that is held until the barrier is passed." }
field! { ACCESS, "memory access", 24, 2, Access: Access,
[0 None "", 1 Istream "istream", 2 Estream "estream", 3 Force "force"], "Hint for the caches." }
field! { LOAD_LANE_8, "load lane", 36, 3, LoadLane: LoadLane,
[0 Default "", 1 B1 "b1", 2 B2 "b2", 3 B3 "b3", 4 H0 "h0", 5 H1 "h1", 6 W0 "w0", 7 D0 "d0"],
"Place and widening of the loaded byte." }
field! { LOAD_LANE_16, "load lane", 36, 3, LoadLane: LoadLane,
[0 Default "", 1 H1 "h1", 2 W0 "w0", 3 D0 "d0"], "Place and widening of the loaded half." }
field! { LOAD_LANE_24, "load lane", 36, 3, LoadLane: LoadLane, [0 Default ""], "Place of the loaded value." }
field! { LOAD_LANE_32, "load lane", 36, 3, LoadLane: LoadLane,
[0 Default "", 1 D0 "d0"], "Widening of the loaded word." }
field! { LOAD_LANE_48, "load lane", 36, 3, LoadLane: LoadLane, [4 Default ""], "Place of the loaded value." }
field! { LOAD_LANE_64, "load lane", 36, 3, LoadLane: LoadLane, [7 Default ""], "Place of the loaded value." }
field! { LOAD_LANE_96, "load lane", 36, 3, LoadLane: LoadLane, [6 Default ""], "Place of the loaded value." }
field! { LOAD_LANE_128, "load lane", 36, 3, LoadLane: LoadLane, [7 Default ""], "Place of the loaded value." }
field! { STORE_LANE_8, "store lane", 36, 2, LoadLane: LoadLane,
[0 Default "", 1 B1 "b1", 2 B2 "b2", 3 B3 "b3"], "Byte of the register that is stored (kraid `lane8_m`)." }
field! { STORE_LANE_16, "store lane", 36, 1, LoadLane: LoadLane,
[0 Default "", 1 H1 "h1"], "Half of the register that is stored (kraid `lane16_m`)." }
field! { ATOMIC, "atomic operation", 22, 4, Atomic: AtomicOp,
[2 Add "aadd", 8 Smin "asmin", 9 Smax "asmax", 10 Umin "aumin", 11 Umax "aumax", 12 And "aand", 13 Or "aor",
 14 Xor "axor", 15 Xchg "axchg"], "Operation on memory." }
field! { ATOMIC64, "atomic operation", 22, 4, Atomic: AtomicOp,
[0 AddU32 "aaddu", 1 AddS32 "aadds", 2 Add "aadd", 8 Smin "asmin", 9 Smax "asmax", 10 Umin "aumin",
 11 Umax "aumax", 12 And "aand", 13 Or "aor", 14 Xor "axor", 15 Xchg "axchg"], "Operation on memory." }
field! { ATOMIC_NO_XCHG, "atomic operation", 22, 4, Atomic: AtomicOp,
[2 Add "aadd", 8 Smin "asmin", 9 Smax "asmax", 10 Umin "aumin", 11 Umax "aumax", 12 And "aand", 13 Or "aor",
 14 Xor "axor"], "Operation on memory." }
field! { ATOMIC64_NO_XCHG, "atomic operation", 22, 4, Atomic: AtomicOp,
[0 AddU32 "aaddu", 1 AddS32 "aadds", 2 Add "aadd", 8 Smin "asmin", 9 Smax "asmax", 10 Umin "aumin",
 11 Umax "aumax", 12 And "aand", 13 Or "aor", 14 Xor "axor"], "Operation on memory." }
field! { ATOMIC1, "atomic operation", 22, 4, Atomic: AtomicOp,
[0 Inc "ainc", 1 Dec "adec", 2 Umax1 "aumax1", 3 Smax1 "asmax1", 4 Or1 "aor1"], "Operation on memory." }
field! { NAN_MODE, "NaN mode", 8, 2, Nan: NanMode,
[0 None "", 1 Flush "flush_nan", 2 Quiet "quiet_nan"], "What becomes of NaN." }
field! { CLOCK, "clock", 0, 8, Clock: Clock,
[6 Cycles "cycle_counter", 7 Timestamp "system_timestamp"], "Clock that is read." }
field! { COMBINE, "combine", 37, 3, Combine: Combine,
[0 None "", 1 H0 "h0", 2 H1 "h1", 3 And "and", 4 LowBits "lowbits"], "Part of the condition that counts." }
field! { FREXP, "reduction", 24, 2, Frexp: Frexp,
[0 None "", 1 Sqrt "sqrt", 2 Log "log"], "Range of the mantissa." }
field! { FLOG_MODE, "mode", 31, 2, FlogMode: FlogMode,
[0 Red "", 1 Base2 "base2", 2 Natural "natural"], "Value that is looked up." }
field! { FLOG_PRECISION, "precision", 33, 2, FlogPrecision: FlogPrecision,
[0 None "", 1 High "high", 2 Low "low"], "Part of the value." }
field! { LOW, "adjustment", 31, 2, Low: ExpAdjust, [0 None "", 2 Low "low"], "Part of the value." }
field! { LDEXP_INF, "infinity", 28, 2, Ldexp: LdexpInf,
[0 None "", 1 Inf "inf", 2 Inf0 "inf0"], "Treatment of infinity." }
field! { POW, "function", 20, 2, Pow: PowFunction, [0 Pow "", 1 Powr "powr"], "Function that is prepared." }
field! { JUMP_STACK, "stack mode", 33, 2, JumpStack: JumpStack,
[0 Return "return", 1 Call "call", 2 None "", 3 Replace "replace"], "What happens to the return stack." }
