// Rows of the table; included by `table.rs`. Compute instructions first, graphics after them.

use super::fields::*;

/// Declares [`Op`] and its table from the rows.
macro_rules! ops {
    (compute { $($op:ident = $mnemonic:literal, $unit:ident, $family:ident, $opcode:literal, $sub:expr, $dest:ident, $srcs:expr,
        $staging:ident, $imms:expr, $mods:expr;)+ }
     graphics { $($gop:ident = $gmnemonic:literal, $gunit:ident, $gopcode:literal, $gsub:expr, $raw:expr;)+ }) => {
        /// Every instruction of v10, named as its mnemonic.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
        #[repr(u16)]
        pub enum Op {
            $(#[doc = concat!("`", $mnemonic, "`")] $op,)+
            $(#[doc = concat!("`", $gmnemonic, "` (graphics)")] $gop,)+
        }

        impl Op {
            /// Every instruction.
            pub const ALL: &'static [Op] = &[$(Op::$op,)+ $(Op::$gop,)+];
        }

        /// The table, indexed by [`Op`].
        pub(crate) static TABLE_OF_OPS: &[OpInfo] = &[
            $(OpInfo {
                op: Op::$op,
                mnemonic: $mnemonic,
                unit: Unit::$unit,
                family: Family::$family,
                opcode: $opcode,
                sub: $sub,
                dest: DestKind::$dest,
                srcs: &$srcs,
                staging: StagingKind::$staging,
                imms: &$imms,
                mods: &$mods,
                raw: &[],
            },)+
            $(OpInfo {
                op: Op::$gop,
                mnemonic: $gmnemonic,
                unit: Unit::$gunit,
                family: Family::Graphics,
                opcode: $gopcode,
                sub: $gsub,
                dest: DestKind::None,
                srcs: &[],
                staging: StagingKind::None,
                imms: &[],
                mods: &[],
                raw: &$raw,
            },)+
        ];
    };
}

impl Op {
    /// What the table knows of the instruction.
    pub fn info(self) -> &'static OpInfo {
        &TABLE_OF_OPS[self as usize]
    }

    /// Name with type, as in `FMA.f32`.
    pub fn mnemonic(self) -> &'static str {
        self.info().mnemonic
    }
}

ops! {
compute {
    Nop = "NOP", Cvt, Nop, 0x000, Fixed::NONE, None, [], None, [], [];
    Branchz = "BRANCHZ", Cvt, Branch, 0x01f, Fixed::NONE, None, [x(0, 32)], None, [OFFSET27], [COMBINE, CONSERVATIVE, EQ];
    Branchzi = "BRANCHZI", Cvt, Branch, 0x02f, Fixed::NONE, None, [x(0, 32), x(1, 32)], None, [], [COMBINE, CONSERVATIVE, EQ, ABSOLUTE];
    Barrier = "BARRIER", Fixed, Barrier, 0x045, Fixed::NONE, None, [], None, [], [SLOT_BARRIER];
    CselF32 = "CSEL.f32", Cvt, Select, 0x154, Fixed::NONE, Word, [fl(0, 32), fl(1, 32), fl(2, 32), fl(3, 32)], None, [], [COND];
    CselV2f16 = "CSEL.v2f16", Cvt, Select, 0x155, Fixed::NONE, Word, [fl(0, 16), fl(1, 16), fl(2, 16), fl(3, 16)], None, [], [COND];
    CselU32 = "CSEL.u32", Cvt, Select, 0x150, Fixed::NONE, Word, [x(0, 32), x(1, 32), x(2, 32), x(3, 32)], None, [], [ICOND];
    CselV2u16 = "CSEL.v2u16", Cvt, Select, 0x151, Fixed::NONE, Word, [x(0, 16), x(1, 16), x(2, 16), x(3, 16)], None, [], [ICOND];
    CselS32 = "CSEL.s32", Cvt, Select, 0x158, Fixed::NONE, Word, [x(0, 32), x(1, 32), x(2, 32), x(3, 32)], None, [], [ICOND];
    CselV2s16 = "CSEL.v2s16", Cvt, Select, 0x159, Fixed::NONE, Word, [x(0, 16), x(1, 16), x(2, 16), x(3, 16)], None, [], [ICOND];
    LdPkaI8 = "LD_PKA.i8", Ls, Load, 0x06a, at(27, 7, 0), None, [x(0, 32), x(1, 32)], Write, [], [LOAD_LANE_8, UNSIGNED, SLOT];
    LdPkaI16 = "LD_PKA.i16", Ls, Load, 0x06a, at(27, 7, 1), None, [x(0, 32), x(1, 32)], Write, [], [LOAD_LANE_16, UNSIGNED, SLOT];
    LdPkaI24 = "LD_PKA.i24", Ls, Load, 0x06a, at(27, 7, 2), None, [x(0, 32), x(1, 32)], Write, [], [LOAD_LANE_24, UNSIGNED, SLOT];
    LdPkaI32 = "LD_PKA.i32", Ls, Load, 0x06a, at(27, 7, 3), None, [x(0, 32), x(1, 32)], Write, [], [LOAD_LANE_32, UNSIGNED, SLOT];
    LdPkaI48 = "LD_PKA.i48", Ls, Load, 0x06a, at(27, 7, 4), None, [x(0, 32), x(1, 32)], Write, [], [LOAD_LANE_48, UNSIGNED, SLOT];
    LdPkaI64 = "LD_PKA.i64", Ls, Load, 0x06a, at(27, 7, 5), None, [x(0, 32), x(1, 32)], Write, [], [LOAD_LANE_64, UNSIGNED, SLOT];
    LdPkaI96 = "LD_PKA.i96", Ls, Load, 0x06a, at(27, 7, 6), None, [x(0, 32), x(1, 32)], Write, [], [LOAD_LANE_96, UNSIGNED, SLOT];
    LdPkaI128 = "LD_PKA.i128", Ls, Load, 0x06a, at(27, 7, 7), None, [x(0, 32), x(1, 32)], Write, [], [LOAD_LANE_128, UNSIGNED, SLOT];
    LeaBufImm = "LEA_BUF_IMM", Ls, Address, 0x05e, Fixed::NONE, None, [x(0, 32)], WritePair, [TABLE, INDEX], [SLOT];
    LoadI8 = "LOAD.i8", Ls, Load, 0x060, at(27, 7, 0), None, [x(0, 64)], Write, [OFFSET16], [ACCESS, LOAD_LANE_8, UNSIGNED, SLOT];
    LoadI16 = "LOAD.i16", Ls, Load, 0x060, at(27, 7, 1), None, [x(0, 64)], Write, [OFFSET16], [ACCESS, LOAD_LANE_16, UNSIGNED, SLOT];
    LoadI24 = "LOAD.i24", Ls, Load, 0x060, at(27, 7, 2), None, [x(0, 64)], Write, [OFFSET16], [ACCESS, LOAD_LANE_24, UNSIGNED, SLOT];
    LoadI32 = "LOAD.i32", Ls, Load, 0x060, at(27, 7, 3), None, [x(0, 64)], Write, [OFFSET16], [ACCESS, LOAD_LANE_32, UNSIGNED, SLOT];
    LoadI48 = "LOAD.i48", Ls, Load, 0x060, at(27, 7, 4), None, [x(0, 64)], Write, [OFFSET16], [ACCESS, LOAD_LANE_48, UNSIGNED, SLOT];
    LoadI64 = "LOAD.i64", Ls, Load, 0x060, at(27, 7, 5), None, [x(0, 64)], Write, [OFFSET16], [ACCESS, LOAD_LANE_64, UNSIGNED, SLOT];
    LoadI96 = "LOAD.i96", Ls, Load, 0x060, at(27, 7, 6), None, [x(0, 64)], Write, [OFFSET16], [ACCESS, LOAD_LANE_96, UNSIGNED, SLOT];
    LoadI128 = "LOAD.i128", Ls, Load, 0x060, at(27, 7, 7), None, [x(0, 64)], Write, [OFFSET16], [ACCESS, LOAD_LANE_128, UNSIGNED, SLOT];
    StoreI8 = "STORE.i8", Ls, Store, 0x061, at(27, 7, 0), None, [x(0, 64)], Read, [OFFSET16], [ACCESS, STORE_LANE_8, SLOT];
    StoreI16 = "STORE.i16", Ls, Store, 0x061, at(27, 7, 1), None, [x(0, 64)], Read, [OFFSET16], [ACCESS, STORE_LANE_16, SLOT];
    StoreI24 = "STORE.i24", Ls, Store, 0x061, at(27, 7, 2), None, [x(0, 64)], Read, [OFFSET16], [ACCESS, SLOT];
    StoreI32 = "STORE.i32", Ls, Store, 0x061, at(27, 7, 3), None, [x(0, 64)], Read, [OFFSET16], [ACCESS, SLOT];
    StoreI48 = "STORE.i48", Ls, Store, 0x061, at(27, 7, 4), None, [x(0, 64)], Read, [OFFSET16], [ACCESS, SLOT];
    StoreI64 = "STORE.i64", Ls, Store, 0x061, at(27, 7, 5), None, [x(0, 64)], Read, [OFFSET16], [ACCESS, SLOT];
    StoreI96 = "STORE.i96", Ls, Store, 0x061, at(27, 7, 6), None, [x(0, 64)], Read, [OFFSET16], [ACCESS, SLOT];
    StoreI128 = "STORE.i128", Ls, Store, 0x061, at(27, 7, 7), None, [x(0, 64)], Read, [OFFSET16], [ACCESS, SLOT];
    V2s16ToV2f16 = "V2S16_TO_V2F16", Cvt, Convert, 0x090, at(16, 0x1f, 0x7), Word, [iw(0, 16)], None, [], [ROUND];
    S32ToF32 = "S32_TO_F32", Cvt, Convert, 0x090, at(16, 0x1f, 0x9), Word, [iw(0, 32)], None, [], [ROUND];
    V2u16ToV2f16 = "V2U16_TO_V2F16", Cvt, Convert, 0x090, at(16, 0x1f, 0x17), Word, [iw(0, 16)], None, [], [ROUND];
    U32ToF32 = "U32_TO_F32", Cvt, Convert, 0x090, at(16, 0x1f, 0x19), Word, [iw(0, 32)], None, [], [ROUND];
    S16ToS32 = "S16_TO_S32", Cvt, Convert, 0x090, at(16, 0x1f, 0x4), Word, [ln(0, 16, 28)], None, [], [];
    S16ToF32 = "S16_TO_F32", Cvt, Convert, 0x090, at(16, 0x1f, 0x5), Word, [ln(0, 16, 28)], None, [], [];
    U16ToU32 = "U16_TO_U32", Cvt, Convert, 0x090, at(16, 0x1f, 0x14), Word, [ln(0, 16, 28)], None, [], [];
    U16ToF32 = "U16_TO_F32", Cvt, Convert, 0x090, at(16, 0x1f, 0x15), Word, [ln(0, 16, 28)], None, [], [];
    F32ToS32 = "F32_TO_S32", Cvt, Convert, 0x090, at(16, 0x1f, 0xc), Word, [fa(0, 32)], None, [], [ROUND_INT];
    F32ToU32 = "F32_TO_U32", Cvt, Convert, 0x090, at(16, 0x1f, 0x1c), Word, [fa(0, 32)], None, [], [ROUND_INT];
    V2f16ToV2s16 = "V2F16_TO_V2S16", Cvt, Convert, 0x090, at(16, 0x1f, 0xe), Word, [fs(0, 16)], None, [], [ROUND_INT];
    V2f16ToV2u16 = "V2F16_TO_V2U16", Cvt, Convert, 0x090, at(16, 0x1f, 0x1e), Word, [fs(0, 16)], None, [], [ROUND_INT];
    F16ToS32 = "F16_TO_S32", Cvt, Convert, 0x090, at(16, 0x1f, 0xa), Word, [fb(0, 16, 28)], None, [], [ROUND_INT];
    F16ToU32 = "F16_TO_U32", Cvt, Convert, 0x090, at(16, 0x1f, 0x1a), Word, [fb(0, 16, 28)], None, [], [ROUND_INT];
    F16ToF32 = "F16_TO_F32", Cvt, Convert, 0x090, at(16, 0x1f, 0xb), Word, [fb(0, 16, 28)], None, [], [ROUND];
    S8ToS32 = "S8_TO_S32", Cvt, Convert, 0x090, at(16, 0x1f, 0x0), Word, [ln(0, 8, 28)], None, [], [];
    S8ToF32 = "S8_TO_F32", Cvt, Convert, 0x090, at(16, 0x1f, 0x1), Word, [ln(0, 8, 28)], None, [], [];
    U8ToU32 = "U8_TO_U32", Cvt, Convert, 0x090, at(16, 0x1f, 0x10), Word, [ln(0, 8, 28)], None, [], [];
    U8ToF32 = "U8_TO_F32", Cvt, Convert, 0x090, at(16, 0x1f, 0x11), Word, [ln(0, 8, 28)], None, [], [];
    V2s8ToV2s16 = "V2S8_TO_V2S16", Cvt, Convert, 0x090, at(16, 0x1f, 0x2), Word, [hs(0)], None, [], [];
    V2s8ToV2f16 = "V2S8_TO_V2F16", Cvt, Convert, 0x090, at(16, 0x1f, 0x3), Word, [hs(0)], None, [], [];
    V2u8ToV2u16 = "V2U8_TO_V2U16", Cvt, Convert, 0x090, at(16, 0x1f, 0x12), Word, [hs(0)], None, [], [];
    V2u8ToV2f16 = "V2U8_TO_V2F16", Cvt, Convert, 0x090, at(16, 0x1f, 0x13), Word, [hs(0)], None, [], [];
    FroundF32 = "FROUND.f32", Cvt, Convert, 0x090, at(16, 0x1f, 0xd), Word, [fs(0, 32)], None, [], [ROUND_INT];
    FroundV2f16 = "FROUND.v2f16", Cvt, Convert, 0x090, at(16, 0x1f, 0xf), Word, [fs(0, 16)], None, [], [ROUND_INT];
    MovI32 = "MOV.i32", Cvt, Bit, 0x091, at(16, 0x1f, 0x0), Word, [x(0, 32)], None, [], [];
    ClzU32 = "CLZ.u32", Sfu, Bit, 0x091, at(16, 0x1f, 0x4), Word, [x(0, 32)], None, [], [MASK];
    ClzV2u16 = "CLZ.v2u16", Sfu, Bit, 0x091, at(16, 0x1f, 0x5), Word, [sw(0, 16)], None, [], [MASK];
    ClzV4u8 = "CLZ.v4u8", Sfu, Bit, 0x091, at(16, 0x1f, 0x6), Word, [x(0, 8)], None, [], [MASK];
    IabsS32 = "IABS.s32", Cvt, Integer, 0x091, at(16, 0x1f, 0x8), Word, [iw(0, 32)], None, [], [];
    IabsV2s16 = "IABS.v2s16", Cvt, Integer, 0x091, at(16, 0x1f, 0x9), Word, [iw(0, 16)], None, [], [];
    IabsV4s8 = "IABS.v4s8", Cvt, Integer, 0x091, at(16, 0x1f, 0xa), Word, [iw(0, 8)], None, [], [];
    PopcountI32 = "POPCOUNT.i32", Sfu, Bit, 0x091, at(16, 0x1f, 0xc), Word, [x(0, 32)], None, [], [];
    BitrevI32 = "BITREV.i32", Sfu, Bit, 0x091, at(16, 0x1f, 0xd), Word, [x(0, 32)], None, [], [];
    NotOldI32 = "NOT_OLD.i32", Sfu, Bit, 0x091, at(16, 0x1f, 0xe), Word, [x(0, 32)], None, [], [];
    NotOldI64 = "NOT_OLD.i64", Sfu, Bit, 0x191, at(16, 0x1f, 0xe), Pair, [x(0, 64)], None, [], [];
    Wmask = "WMASK", Cvt, Subgroup, 0x095, Fixed::NONE, Word, [x(0, 32)], None, [], [SUBGROUP];
    FrexpmF32 = "FREXPM.f32", Cvt, Special, 0x099, at(16, 0x1f, 0x0), Word, [fs(0, 32)], None, [], [FREXP];
    FrexpmV2f16 = "FREXPM.v2f16", Cvt, Special, 0x099, at(16, 0x1f, 0x1), Word, [fs(0, 16)], None, [], [FREXP];
    FrexpeF32 = "FREXPE.f32", Cvt, Special, 0x099, at(16, 0x1f, 0x2), Word, [fw(0, 32)], None, [], [FREXP, NEG_RESULT];
    FrexpeV2f16 = "FREXPE.v2f16", Cvt, Special, 0x099, at(16, 0x1f, 0x3), Word, [fw(0, 16)], None, [], [FREXP, NEG_RESULT];
    FrcpF32 = "FRCP.f32", Sfu, Special, 0x09c, at(16, 0x1f, 0x0), Word, [fs(0, 32)], None, [], [];
    FrcpF16 = "FRCP.f16", Sfu, Special, 0x09c, at(16, 0x1f, 0x1), Word, [fo(0)], None, [], [];
    FrsqF32 = "FRSQ.f32", Sfu, Special, 0x09c, at(16, 0x1f, 0x2), Word, [fs(0, 32)], None, [], [];
    FrsqF16 = "FRSQ.f16", Sfu, Special, 0x09c, at(16, 0x1f, 0x3), Word, [fo(0)], None, [], [];
    FlogdF32 = "FLOGD.f32", Sfu, Special, 0x09c, at(16, 0x1f, 0x8), Word, [fs(0, 32)], None, [], [];
    FpclassF32 = "FPCLASS.f32", Sfu, Special, 0x09c, at(16, 0x1f, 0xa), Word, [fa(0, 32)], None, [], [];
    FpclassF16 = "FPCLASS.f16", Sfu, Special, 0x09c, at(16, 0x1f, 0xb), Word, [fo(0)], None, [], [];
    FlogTableF32 = "FLOG_TABLE.f32", Sfu, Special, 0x09c, at(16, 0x1f, 0xc), Word, [fs(0, 32)], None, [], [FLOG_MODE, FLOG_PRECISION];
    FrcpApproxF32 = "FRCP_APPROX.f32", Sfu, Special, 0x09c, at(16, 0x1f, 0xe), Word, [fs(0, 32)], None, [], [];
    FrsqApproxF32 = "FRSQ_APPROX.f32", Sfu, Special, 0x09c, at(16, 0x1f, 0xf), Word, [fs(0, 32)], None, [], [];
    FsinTableU6 = "FSIN_TABLE.u6", Sfu, Special, 0x09c, at(16, 0x1f, 0x4), Word, [x(0, 32)], None, [], [TABLE_OFFSET];
    FcosTableU6 = "FCOS_TABLE.u6", Sfu, Special, 0x09c, at(16, 0x1f, 0x5), Word, [x(0, 32)], None, [], [TABLE_OFFSET];
    FsincosOffsetU6 = "FSINCOS_OFFSET.u6", Sfu, Special, 0x09c, at(16, 0x1f, 0x6), Word, [x(0, 32)], None, [], [TABLE_SCALE];
    FexpTableU4 = "FEXP_TABLE.u4", Sfu, Special, 0x09c, at(16, 0x1f, 0xd), Word, [x(0, 32)], None, [], [LOW];
    FaddF32 = "FADD.f32", Fma, Float, 0x0a4, at(16, 0xf, 0x0), Word, [fs(0, 32), fs(1, 32)], None, [], [STICKY, CLAMP, ROUND];
    FaddV2f16 = "FADD.v2f16", Fma, Float, 0x0a5, at(16, 0xf, 0x0), Word, [fs(0, 16), fs(1, 16)], None, [], [STICKY, CLAMP, ROUND];
    FminF32 = "FMIN.f32", Cvt, Float, 0x0a4, at(16, 0xf, 0x2), Word, [fs(0, 32), fs(1, 32)], None, [], [NAN_PROPAGATE, CLAMP];
    FminV2f16 = "FMIN.v2f16", Cvt, Float, 0x0a5, at(16, 0xf, 0x2), Word, [fs(0, 16), fs(1, 16)], None, [], [NAN_PROPAGATE, CLAMP];
    FmaxF32 = "FMAX.f32", Cvt, Float, 0x0a4, at(16, 0xf, 0x3), Word, [fs(0, 32), fs(1, 32)], None, [], [NAN_PROPAGATE, CLAMP];
    FmaxV2f16 = "FMAX.v2f16", Cvt, Float, 0x0a5, at(16, 0xf, 0x3), Word, [fs(0, 16), fs(1, 16)], None, [], [NAN_PROPAGATE, CLAMP];
    V2f32ToV2f16 = "V2F32_TO_V2F16", Cvt, Convert, 0x0a5, at(16, 0xf, 0x4), Word, [fa(0, 16), fa(1, 16)], None, [], [CLAMP, ROUND];
    LdexpF32 = "LDEXP.f32", Fma, Special, 0x0a4, at(16, 0xf, 0x6), Word, [fa(0, 32), x(1, 32)], None, [], [ROUND_INT, LDEXP_INF];
    LdexpV2f16 = "LDEXP.v2f16", Fma, Special, 0x0a5, at(16, 0xf, 0x6), Word, [fa(0, 16), x(1, 16)], None, [], [ROUND_INT, LDEXP_INF];
    FexpF32 = "FEXP.f32", Sfu, Special, 0x0a4, at(16, 0xf, 0x8), Word, [x(0, 32), fs(1, 32)], None, [], [CLAMP];
    FaddLscaleF32 = "FADD_LSCALE.f32", Fma, Special, 0x0a4, at(16, 0xf, 0x9), Word, [fs(0, 32), fs(1, 32)], None, [], [STICKY, CLAMP, ROUND];
    FatanAssistF32 = "FATAN_ASSIST.f32", Sfu, Special, 0x0a4, at(16, 0xf, 0xe), Word, [x(0, 32), x(1, 32)], None, [], [SECOND];
    IaddU32 = "IADD.u32", Cvt, Integer, 0x0a0, at(16, 0xf, 0x0), Word, [iw(0, 32), iw(1, 32)], None, [], [SATURATE];
    IaddV2u16 = "IADD.v2u16", Cvt, Integer, 0x0a1, at(16, 0xf, 0x0), Word, [iw(0, 16), iw(1, 16)], None, [], [SATURATE];
    IaddV4u8 = "IADD.v4u8", Cvt, Integer, 0x0a2, at(16, 0xf, 0x0), Word, [iw(0, 8), iw(1, 8)], None, [], [SATURATE];
    IaddS32 = "IADD.s32", Cvt, Integer, 0x0a8, at(16, 0xf, 0x0), Word, [iw(0, 32), iw(1, 32)], None, [], [SATURATE];
    IaddV2s16 = "IADD.v2s16", Cvt, Integer, 0x0a9, at(16, 0xf, 0x0), Word, [iw(0, 16), iw(1, 16)], None, [], [SATURATE];
    IaddV4s8 = "IADD.v4s8", Cvt, Integer, 0x0aa, at(16, 0xf, 0x0), Word, [iw(0, 8), iw(1, 8)], None, [], [SATURATE];
    IaddU64 = "IADD.u64", Cvt, Integer, 0x1a3, at(16, 0xf, 0x0), Pair, [iw(0, 64), iw1(1)], None, [], [SATURATE];
    IaddS64 = "IADD.s64", Cvt, Integer, 0x1ab, at(16, 0xf, 0x0), Pair, [iw(0, 64), iw1(1)], None, [], [SATURATE];
    MkvecV2i16 = "MKVEC.v2i16", Cvt, Bit, 0x0a1, at(16, 0xf, 0x5), Word, [ln(0, 16, 28), ln(1, 16, 26)], None, [], [];
    IsubU32 = "ISUB.u32", Cvt, Integer, 0x0a0, at(16, 0xf, 0x1), Word, [iw(0, 32), iw(1, 32)], None, [], [SATURATE];
    IsubV2u16 = "ISUB.v2u16", Cvt, Integer, 0x0a1, at(16, 0xf, 0x1), Word, [iw(0, 16), iw(1, 16)], None, [], [SATURATE];
    IsubV4u8 = "ISUB.v4u8", Cvt, Integer, 0x0a2, at(16, 0xf, 0x1), Word, [iw(0, 8), iw(1, 8)], None, [], [SATURATE];
    IsubS32 = "ISUB.s32", Cvt, Integer, 0x0a8, at(16, 0xf, 0x1), Word, [iw(0, 32), iw(1, 32)], None, [], [SATURATE];
    IsubV2s16 = "ISUB.v2s16", Cvt, Integer, 0x0a9, at(16, 0xf, 0x1), Word, [iw(0, 16), iw(1, 16)], None, [], [SATURATE];
    IsubV4s8 = "ISUB.v4s8", Cvt, Integer, 0x0aa, at(16, 0xf, 0x1), Word, [iw(0, 8), iw(1, 8)], None, [], [SATURATE];
    IsubU64 = "ISUB.u64", Cvt, Integer, 0x1a3, at(16, 0xf, 0x1), Pair, [iw(0, 64), iw1(1)], None, [], [SATURATE];
    IsubS64 = "ISUB.s64", Cvt, Integer, 0x1ab, at(16, 0xf, 0x1), Pair, [iw(0, 64), iw1(1)], None, [], [SATURATE];
    SegAddU64 = "SEG_ADD.u64", Cvt, Integer, 0x1a3, at(16, 0xf, 0x6), Pair, [x(0, 64), iw1(1)], None, [], [NEG, PRESERVE_NULL];
    ShaddxU64 = "SHADDX.u64", Cvt, Integer, 0x1a3, at(16, 0xf, 0x7), Pair, [x(0, 64), iw1(1)], None, [SHIFT], [];
    ShaddxS64 = "SHADDX.s64", Cvt, Integer, 0x1ab, at(16, 0xf, 0x7), Pair, [x(0, 64), iw1(1)], None, [SHIFT], [];
    ImulI32 = "IMUL.i32", Sfu, Integer, 0x0a0, at(16, 0xf, 0xa), Word, [iw(0, 32), iw(1, 32)], None, [], [SATURATE];
    ImulV2i16 = "IMUL.v2i16", Sfu, Integer, 0x0a1, at(16, 0xf, 0xa), Word, [iw(0, 16), iw(1, 16)], None, [], [SATURATE];
    ImulV4i8 = "IMUL.v4i8", Sfu, Integer, 0x0a2, at(16, 0xf, 0xa), Word, [iw(0, 8), iw(1, 8)], None, [], [SATURATE];
    ImulS32 = "IMUL.s32", Sfu, Integer, 0x0a8, at(16, 0xf, 0xa), Word, [iw(0, 32), iw(1, 32)], None, [], [SATURATE];
    ImulV2s16 = "IMUL.v2s16", Sfu, Integer, 0x0a9, at(16, 0xf, 0xa), Word, [iw(0, 16), iw(1, 16)], None, [], [SATURATE];
    ImulV4s8 = "IMUL.v4s8", Sfu, Integer, 0x0aa, at(16, 0xf, 0xa), Word, [iw(0, 8), iw(1, 8)], None, [], [SATURATE];
    ImuldU64 = "IMULD.u64", Sfu, Integer, 0x1a3, at(16, 0xf, 0xa), Pair, [iw(0, 64), iw(1, 64)], None, [], [SATURATE];
    HaddU32 = "HADD.u32", Cvt, Integer, 0x0a0, at(16, 0xf, 0xb), Word, [iw(0, 32), iw(1, 32)], None, [], [RHADD];
    HaddV2u16 = "HADD.v2u16", Cvt, Integer, 0x0a1, at(16, 0xf, 0xb), Word, [iw(0, 16), iw(1, 16)], None, [], [RHADD];
    HaddV4u8 = "HADD.v4u8", Cvt, Integer, 0x0a2, at(16, 0xf, 0xb), Word, [iw(0, 8), iw(1, 8)], None, [], [RHADD];
    HaddS32 = "HADD.s32", Cvt, Integer, 0x0a8, at(16, 0xf, 0xb), Word, [iw(0, 32), iw(1, 32)], None, [], [RHADD];
    HaddV2s16 = "HADD.v2s16", Cvt, Integer, 0x0a9, at(16, 0xf, 0xb), Word, [iw(0, 16), iw(1, 16)], None, [], [RHADD];
    HaddV4s8 = "HADD.v4s8", Cvt, Integer, 0x0aa, at(16, 0xf, 0xb), Word, [iw(0, 8), iw(1, 8)], None, [], [RHADD];
    ClperI32 = "CLPER.i32", Sfu, Subgroup, 0x0a0, at(16, 0xf, 0xf), Word, [x(0, 32), sh(LANES_I32)], None, [], [SUBGROUP, LANE_OP, INACTIVE];
    FmaF32 = "FMA.f32", Fma, Float, 0x0b2, Fixed::NONE, Word, [fs(0, 32), fs(1, 32), fs(2, 32)], None, [], [CLAMP, ROUND];
    FmaV2f16 = "FMA.v2f16", Fma, Float, 0x0b3, Fixed::NONE, Word, [fs(0, 16), fs(1, 16), fs(2, 16)], None, [], [CLAMP, ROUND];
    LshiftAndI32 = "LSHIFT_AND.i32", Sfu, Bit, 0x0b4, at(24, 0x703, 0x100), Word, [iw(0, 32), sh(LANES_I32), nt(2, 32)], None, [], [NOT_RESULT];
    LshiftAndV2i16 = "LSHIFT_AND.v2i16", Sfu, Bit, 0x0b5, at(24, 0x703, 0x100), Word, [iw(0, 16), sh(LANES_V2I16), nt(2, 16)], None, [], [NOT_RESULT];
    LshiftAndV4i8 = "LSHIFT_AND.v4i8", Sfu, Bit, 0x0b6, at(24, 0x703, 0x100), Word, [iw(0, 8), sh(LANES_V4I8), nt(2, 8)], None, [], [NOT_RESULT];
    LshiftAndI64 = "LSHIFT_AND.i64", Sfu, Bit, 0x1b7, at(24, 0x703, 0x100), Pair, [iw(0, 32).wide(), sh(LANES_I64), nt(2, 64)], None, [], [NOT_RESULT];
    RshiftAndI32 = "RSHIFT_AND.i32", Sfu, Bit, 0x0b4, at(24, 0x703, 0x000), Word, [iw(0, 32), sh(LANES_I32), nt(2, 32)], None, [], [NOT_RESULT];
    ArshiftAndI32 = "ARSHIFT_AND.i32", Sfu, Bit, 0x0b4, at(24, 0x703, 0x400), Word, [iw(0, 32), sh(LANES_I32), nt(2, 32)], None, [], [SIGNED, NOT_RESULT];
    RshiftAndV2i16 = "RSHIFT_AND.v2i16", Sfu, Bit, 0x0b5, at(24, 0x703, 0x000), Word, [iw(0, 16), sh(LANES_V2I16), nt(2, 16)], None, [], [NOT_RESULT];
    ArshiftAndV2i16 = "ARSHIFT_AND.v2i16", Sfu, Bit, 0x0b5, at(24, 0x703, 0x400), Word, [iw(0, 16), sh(LANES_V2I16), nt(2, 16)], None, [], [SIGNED, NOT_RESULT];
    RshiftAndV4i8 = "RSHIFT_AND.v4i8", Sfu, Bit, 0x0b6, at(24, 0x703, 0x000), Word, [iw(0, 8), sh(LANES_V4I8), nt(2, 8)], None, [], [NOT_RESULT];
    ArshiftAndV4i8 = "ARSHIFT_AND.v4i8", Sfu, Bit, 0x0b6, at(24, 0x703, 0x400), Word, [iw(0, 8), sh(LANES_V4I8), nt(2, 8)], None, [], [SIGNED, NOT_RESULT];
    RshiftAndI64 = "RSHIFT_AND.i64", Sfu, Bit, 0x1b7, at(24, 0x703, 0x000), Pair, [iw(0, 32).wide(), sh(LANES_I64), nt(2, 64)], None, [], [NOT_RESULT];
    ArshiftAndI64 = "ARSHIFT_AND.i64", Sfu, Bit, 0x1b7, at(24, 0x703, 0x400), Pair, [iw(0, 32).wide(), sh(LANES_I64), nt(2, 64)], None, [], [SIGNED, NOT_RESULT];
    LshiftOrI32 = "LSHIFT_OR.i32", Sfu, Bit, 0x0b4, at(24, 0x703, 0x101), Word, [iw(0, 32), sh(LANES_I32), nt(2, 32)], None, [], [NOT_RESULT];
    LshiftOrV2i16 = "LSHIFT_OR.v2i16", Sfu, Bit, 0x0b5, at(24, 0x703, 0x101), Word, [iw(0, 16), sh(LANES_V2I16), nt(2, 16)], None, [], [NOT_RESULT];
    LshiftOrV4i8 = "LSHIFT_OR.v4i8", Sfu, Bit, 0x0b6, at(24, 0x703, 0x101), Word, [iw(0, 8), sh(LANES_V4I8), nt(2, 8)], None, [], [NOT_RESULT];
    LshiftOrI64 = "LSHIFT_OR.i64", Sfu, Bit, 0x1b7, at(24, 0x703, 0x101), Pair, [iw(0, 32).wide(), sh(LANES_I64), nt(2, 64)], None, [], [NOT_RESULT];
    RshiftOrI32 = "RSHIFT_OR.i32", Sfu, Bit, 0x0b4, at(24, 0x703, 0x001), Word, [iw(0, 32), sh(LANES_I32), nt(2, 32)], None, [], [NOT_RESULT];
    ArshiftOrI32 = "ARSHIFT_OR.i32", Sfu, Bit, 0x0b4, at(24, 0x703, 0x401), Word, [iw(0, 32), sh(LANES_I32), nt(2, 32)], None, [], [SIGNED, NOT_RESULT];
    RshiftOrV2i16 = "RSHIFT_OR.v2i16", Sfu, Bit, 0x0b5, at(24, 0x703, 0x001), Word, [iw(0, 16), sh(LANES_V2I16), nt(2, 16)], None, [], [NOT_RESULT];
    ArshiftOrV2i16 = "ARSHIFT_OR.v2i16", Sfu, Bit, 0x0b5, at(24, 0x703, 0x401), Word, [iw(0, 16), sh(LANES_V2I16), nt(2, 16)], None, [], [SIGNED, NOT_RESULT];
    RshiftOrV4i8 = "RSHIFT_OR.v4i8", Sfu, Bit, 0x0b6, at(24, 0x703, 0x001), Word, [iw(0, 8), sh(LANES_V4I8), nt(2, 8)], None, [], [NOT_RESULT];
    ArshiftOrV4i8 = "ARSHIFT_OR.v4i8", Sfu, Bit, 0x0b6, at(24, 0x703, 0x401), Word, [iw(0, 8), sh(LANES_V4I8), nt(2, 8)], None, [], [SIGNED, NOT_RESULT];
    RshiftOrI64 = "RSHIFT_OR.i64", Sfu, Bit, 0x1b7, at(24, 0x703, 0x001), Pair, [iw(0, 32).wide(), sh(LANES_I64), nt(2, 64)], None, [], [NOT_RESULT];
    ArshiftOrI64 = "ARSHIFT_OR.i64", Sfu, Bit, 0x1b7, at(24, 0x703, 0x401), Pair, [iw(0, 32).wide(), sh(LANES_I64), nt(2, 64)], None, [], [SIGNED, NOT_RESULT];
    LshiftXorI32 = "LSHIFT_XOR.i32", Sfu, Bit, 0x0b4, at(24, 0x703, 0x102), Word, [iw(0, 32), sh(LANES_I32), nt(2, 32)], None, [], [NOT_RESULT];
    LshiftXorV2i16 = "LSHIFT_XOR.v2i16", Sfu, Bit, 0x0b5, at(24, 0x703, 0x102), Word, [iw(0, 16), sh(LANES_V2I16), nt(2, 16)], None, [], [NOT_RESULT];
    LshiftXorV4i8 = "LSHIFT_XOR.v4i8", Sfu, Bit, 0x0b6, at(24, 0x703, 0x102), Word, [iw(0, 8), sh(LANES_V4I8), nt(2, 8)], None, [], [NOT_RESULT];
    LshiftXorI64 = "LSHIFT_XOR.i64", Sfu, Bit, 0x1b7, at(24, 0x703, 0x102), Pair, [iw(0, 32).wide(), sh(LANES_I64), nt(2, 64)], None, [], [NOT_RESULT];
    RshiftXorI32 = "RSHIFT_XOR.i32", Sfu, Bit, 0x0b4, at(24, 0x703, 0x002), Word, [iw(0, 32), sh(LANES_I32), nt(2, 32)], None, [], [NOT_RESULT];
    ArshiftXorI32 = "ARSHIFT_XOR.i32", Sfu, Bit, 0x0b4, at(24, 0x703, 0x402), Word, [iw(0, 32), sh(LANES_I32), nt(2, 32)], None, [], [SIGNED, NOT_RESULT];
    RshiftXorV2i16 = "RSHIFT_XOR.v2i16", Sfu, Bit, 0x0b5, at(24, 0x703, 0x002), Word, [iw(0, 16), sh(LANES_V2I16), nt(2, 16)], None, [], [NOT_RESULT];
    ArshiftXorV2i16 = "ARSHIFT_XOR.v2i16", Sfu, Bit, 0x0b5, at(24, 0x703, 0x402), Word, [iw(0, 16), sh(LANES_V2I16), nt(2, 16)], None, [], [SIGNED, NOT_RESULT];
    RshiftXorV4i8 = "RSHIFT_XOR.v4i8", Sfu, Bit, 0x0b6, at(24, 0x703, 0x002), Word, [iw(0, 8), sh(LANES_V4I8), nt(2, 8)], None, [], [NOT_RESULT];
    ArshiftXorV4i8 = "ARSHIFT_XOR.v4i8", Sfu, Bit, 0x0b6, at(24, 0x703, 0x402), Word, [iw(0, 8), sh(LANES_V4I8), nt(2, 8)], None, [], [SIGNED, NOT_RESULT];
    RshiftXorI64 = "RSHIFT_XOR.i64", Sfu, Bit, 0x1b7, at(24, 0x703, 0x002), Pair, [iw(0, 32).wide(), sh(LANES_I64), nt(2, 64)], None, [], [NOT_RESULT];
    ArshiftXorI64 = "ARSHIFT_XOR.i64", Sfu, Bit, 0x1b7, at(24, 0x703, 0x402), Pair, [iw(0, 32).wide(), sh(LANES_I64), nt(2, 64)], None, [], [SIGNED, NOT_RESULT];
    LrotAndI32 = "LROT_AND.i32", Sfu, Bit, 0x0b4, at(24, 0x703, 0x300), Word, [iw(0, 32), sh(LANES_I32), nt(2, 32)], None, [], [NOT_RESULT];
    RrotAndI32 = "RROT_AND.i32", Sfu, Bit, 0x0b4, at(24, 0x703, 0x200), Word, [iw(0, 32), sh(LANES_I32), nt(2, 32)], None, [], [NOT_RESULT];
    LrotAndV2i16 = "LROT_AND.v2i16", Sfu, Bit, 0x0b5, at(24, 0x703, 0x300), Word, [iw(0, 16), sh(LANES_V2I16), nt(2, 16)], None, [], [NOT_RESULT];
    RrotAndV2i16 = "RROT_AND.v2i16", Sfu, Bit, 0x0b5, at(24, 0x703, 0x200), Word, [iw(0, 16), sh(LANES_V2I16), nt(2, 16)], None, [], [NOT_RESULT];
    LrotAndV4i8 = "LROT_AND.v4i8", Sfu, Bit, 0x0b6, at(24, 0x703, 0x300), Word, [iw(0, 8), sh(LANES_V4I8), nt(2, 8)], None, [], [NOT_RESULT];
    RrotAndV4i8 = "RROT_AND.v4i8", Sfu, Bit, 0x0b6, at(24, 0x703, 0x200), Word, [iw(0, 8), sh(LANES_V4I8), nt(2, 8)], None, [], [NOT_RESULT];
    LrotAndI64 = "LROT_AND.i64", Sfu, Bit, 0x1b7, at(24, 0x703, 0x300), Pair, [iw(0, 32).wide(), sh(LANES_I64), nt(2, 64)], None, [], [NOT_RESULT];
    RrotAndI64 = "RROT_AND.i64", Sfu, Bit, 0x1b7, at(24, 0x703, 0x200), Pair, [iw(0, 32).wide(), sh(LANES_I64), nt(2, 64)], None, [], [NOT_RESULT];
    LrotOrI32 = "LROT_OR.i32", Sfu, Bit, 0x0b4, at(24, 0x703, 0x301), Word, [iw(0, 32), sh(LANES_I32), nt(2, 32)], None, [], [NOT_RESULT];
    RrotOrI32 = "RROT_OR.i32", Sfu, Bit, 0x0b4, at(24, 0x703, 0x201), Word, [iw(0, 32), sh(LANES_I32), nt(2, 32)], None, [], [NOT_RESULT];
    LrotOrV2i16 = "LROT_OR.v2i16", Sfu, Bit, 0x0b5, at(24, 0x703, 0x301), Word, [iw(0, 16), sh(LANES_V2I16), nt(2, 16)], None, [], [NOT_RESULT];
    RrotOrV2i16 = "RROT_OR.v2i16", Sfu, Bit, 0x0b5, at(24, 0x703, 0x201), Word, [iw(0, 16), sh(LANES_V2I16), nt(2, 16)], None, [], [NOT_RESULT];
    LrotOrV4i8 = "LROT_OR.v4i8", Sfu, Bit, 0x0b6, at(24, 0x703, 0x301), Word, [iw(0, 8), sh(LANES_V4I8), nt(2, 8)], None, [], [NOT_RESULT];
    RrotOrV4i8 = "RROT_OR.v4i8", Sfu, Bit, 0x0b6, at(24, 0x703, 0x201), Word, [iw(0, 8), sh(LANES_V4I8), nt(2, 8)], None, [], [NOT_RESULT];
    LrotOrI64 = "LROT_OR.i64", Sfu, Bit, 0x1b7, at(24, 0x703, 0x301), Pair, [iw(0, 32).wide(), sh(LANES_I64), nt(2, 64)], None, [], [NOT_RESULT];
    RrotOrI64 = "RROT_OR.i64", Sfu, Bit, 0x1b7, at(24, 0x703, 0x201), Pair, [iw(0, 32).wide(), sh(LANES_I64), nt(2, 64)], None, [], [NOT_RESULT];
    LrotXorI32 = "LROT_XOR.i32", Sfu, Bit, 0x0b4, at(24, 0x703, 0x302), Word, [iw(0, 32), sh(LANES_I32), nt(2, 32)], None, [], [NOT_RESULT];
    RrotXorI32 = "RROT_XOR.i32", Sfu, Bit, 0x0b4, at(24, 0x703, 0x202), Word, [iw(0, 32), sh(LANES_I32), nt(2, 32)], None, [], [NOT_RESULT];
    LrotXorV2i16 = "LROT_XOR.v2i16", Sfu, Bit, 0x0b5, at(24, 0x703, 0x302), Word, [iw(0, 16), sh(LANES_V2I16), nt(2, 16)], None, [], [NOT_RESULT];
    RrotXorV2i16 = "RROT_XOR.v2i16", Sfu, Bit, 0x0b5, at(24, 0x703, 0x202), Word, [iw(0, 16), sh(LANES_V2I16), nt(2, 16)], None, [], [NOT_RESULT];
    LrotXorV4i8 = "LROT_XOR.v4i8", Sfu, Bit, 0x0b6, at(24, 0x703, 0x302), Word, [iw(0, 8), sh(LANES_V4I8), nt(2, 8)], None, [], [NOT_RESULT];
    RrotXorV4i8 = "RROT_XOR.v4i8", Sfu, Bit, 0x0b6, at(24, 0x703, 0x202), Word, [iw(0, 8), sh(LANES_V4I8), nt(2, 8)], None, [], [NOT_RESULT];
    LrotXorI64 = "LROT_XOR.i64", Sfu, Bit, 0x1b7, at(24, 0x703, 0x302), Pair, [iw(0, 32).wide(), sh(LANES_I64), nt(2, 64)], None, [], [NOT_RESULT];
    RrotXorI64 = "RROT_XOR.i64", Sfu, Bit, 0x1b7, at(24, 0x703, 0x202), Pair, [iw(0, 32).wide(), sh(LANES_I64), nt(2, 64)], None, [], [NOT_RESULT];
    MuxI32 = "MUX.i32", Sfu, Select, 0x0b8, Fixed::NONE, Word, [x(0, 32), x(1, 32), x(2, 32)], None, [], [MUX];
    MuxV2i16 = "MUX.v2i16", Sfu, Select, 0x0b9, Fixed::NONE, Word, [sw(0, 16), sw(1, 16), sw(2, 16)], None, [], [MUX];
    MuxV4i8 = "MUX.v4i8", Sfu, Select, 0x0ba, Fixed::NONE, Word, [x(0, 8), x(1, 8), x(2, 8)], None, [], [MUX_BYTE];
    CubeSsel = "CUBE_SSEL", Sfu, Special, 0x0bc, at(24, 1, 0), Word, [fs(0, 32), fs(1, 32), x(2, 32)], None, [], [];
    CubeTsel = "CUBE_TSEL", Sfu, Special, 0x0bc, at(24, 1, 1), Word, [fs(0, 32), fs(1, 32), x(2, 32)], None, [], [];
    MkvecV2i8 = "MKVEC.v2i8", Cvt, Bit, 0x0bd, Fixed::NONE, Word, [ln(0, 8, 38), ln(1, 8, 36), x(2, 8)], None, [], [];
    Cubeface1 = "CUBEFACE1", Cvt, Special, 0x0c0, Fixed::NONE, Word, [fs(0, 32), fs(1, 32), fs(2, 32)], None, [], [];
    Cubeface2V9 = "CUBEFACE2_V9", Cvt, Special, 0x0c1, Fixed::NONE, Word, [fs(0, 32), fs(1, 32), fs(2, 32)], None, [], [];
    IdpaddV4s8 = "IDPADD.v4s8", Fma, Integer, 0x0c2, at(24, 1, 0), Word, [x(0, 8), x(1, 8), x(2, 8)], None, [], [SATURATE];
    IdpaddV4u8 = "IDPADD.v4u8", Fma, Integer, 0x0c2, at(24, 1, 1), Word, [x(0, 8), x(1, 8), x(2, 8)], None, [], [SATURATE];
    IcmpOrU32 = "ICMP_OR.u32", Cvt, Compare, 0x0f0, at(24, 3, 0), Word, [iw(0, 32), iw(1, 32), x(2, 32)], None, [], [ICOND, RESULT];
    IcmpOrV2u16 = "ICMP_OR.v2u16", Cvt, Compare, 0x0f1, at(24, 3, 0), Word, [iw(0, 16), iw(1, 16), x(2, 16)], None, [], [ICOND, RESULT];
    IcmpOrV4u8 = "ICMP_OR.v4u8", Cvt, Compare, 0x0f2, at(24, 3, 0), Word, [iw(0, 8), iw(1, 8), x(2, 8)], None, [], [ICOND, RESULT_BYTE];
    IcmpAndU32 = "ICMP_AND.u32", Cvt, Compare, 0x0f0, at(24, 3, 1), Word, [iw(0, 32), iw(1, 32), x(2, 32)], None, [], [ICOND, RESULT];
    IcmpAndV2u16 = "ICMP_AND.v2u16", Cvt, Compare, 0x0f1, at(24, 3, 1), Word, [iw(0, 16), iw(1, 16), x(2, 16)], None, [], [ICOND, RESULT];
    IcmpAndV4u8 = "ICMP_AND.v4u8", Cvt, Compare, 0x0f2, at(24, 3, 1), Word, [iw(0, 8), iw(1, 8), x(2, 8)], None, [], [ICOND, RESULT_BYTE];
    FcmpOrF32 = "FCMP_OR.f32", Cvt, Compare, 0x0f4, at(24, 3, 0), Word, [fs(0, 32), fs(1, 32), x(2, 32)], None, [], [COND, RESULT];
    FcmpOrV2f16 = "FCMP_OR.v2f16", Cvt, Compare, 0x0f5, at(24, 3, 0), Word, [fs(0, 16), fs(1, 16), x(2, 16)], None, [], [COND, RESULT];
    FcmpAndF32 = "FCMP_AND.f32", Cvt, Compare, 0x0f4, at(24, 3, 1), Word, [fs(0, 32), fs(1, 32), x(2, 32)], None, [], [COND, RESULT];
    FcmpAndV2f16 = "FCMP_AND.v2f16", Cvt, Compare, 0x0f5, at(24, 3, 1), Word, [fs(0, 16), fs(1, 16), x(2, 16)], None, [], [COND, RESULT];
    IcmpOrS32 = "ICMP_OR.s32", Cvt, Compare, 0x0f8, at(24, 3, 0), Word, [iw(0, 32), iw(1, 32), x(2, 32)], None, [], [ICOND, RESULT];
    IcmpOrV2s16 = "ICMP_OR.v2s16", Cvt, Compare, 0x0f9, at(24, 3, 0), Word, [iw(0, 16), iw(1, 16), x(2, 16)], None, [], [ICOND, RESULT];
    IcmpOrV4s8 = "ICMP_OR.v4s8", Cvt, Compare, 0x0fa, at(24, 3, 0), Word, [iw(0, 8), iw(1, 8), x(2, 8)], None, [], [ICOND, RESULT_BYTE];
    IcmpAndS32 = "ICMP_AND.s32", Cvt, Compare, 0x0f8, at(24, 3, 1), Word, [iw(0, 32), iw(1, 32), x(2, 32)], None, [], [ICOND, RESULT];
    IcmpAndV2s16 = "ICMP_AND.v2s16", Cvt, Compare, 0x0f9, at(24, 3, 1), Word, [iw(0, 16), iw(1, 16), x(2, 16)], None, [], [ICOND, RESULT];
    IcmpAndV4s8 = "ICMP_AND.v4s8", Cvt, Compare, 0x0fa, at(24, 3, 1), Word, [iw(0, 8), iw(1, 8), x(2, 8)], None, [], [ICOND, RESULT_BYTE];
    IcmpMultiU32 = "ICMP_MULTI.u32", Cvt, Compare, 0x0f0, at(24, 3, 2), Word, [iw(0, 32), iw(1, 32), x(2, 32)], None, [], [ICOND, RESULT_MULTI];
    IcmpMultiS32 = "ICMP_MULTI.s32", Cvt, Compare, 0x0f8, at(24, 3, 2), Word, [iw(0, 32), iw(1, 32), x(2, 32)], None, [], [ICOND, RESULT_MULTI];
    IaddImmI32 = "IADD_IMM.i32", Cvt, Integer, 0x110, Fixed::NONE, Word, [x(0, 32)], None, [CONSTANT], [];
    IaddImmV2i16 = "IADD_IMM.v2i16", Cvt, Integer, 0x111, Fixed::NONE, Word, [x(0, 16)], None, [CONSTANT], [];
    IaddImmV4i8 = "IADD_IMM.v4i8", Cvt, Integer, 0x112, Fixed::NONE, Word, [x(0, 8)], None, [CONSTANT], [];
    FaddImmF32 = "FADD_IMM.f32", Fma, Float, 0x114, Fixed::NONE, Word, [x(0, 32)], None, [CONSTANT], [];
    FaddImmV2f16 = "FADD_IMM.v2f16", Fma, Float, 0x115, Fixed::NONE, Word, [fl(0, 16)], None, [CONSTANT], [];
    Atom1ReturnI32 = "ATOM1_RETURN.i32", Ls, Atomic, 0x069, at(27, 7, 3), None, [x(0, 64)], Write, [OFFSET8], [SLOT, ATOMIC1];
    Atom1ReturnI64 = "ATOM1_RETURN.i64", Ls, Atomic, 0x069, at(27, 7, 5), None, [x(0, 64)], Write, [OFFSET8], [SLOT, ATOMIC1];
    AtomI32 = "ATOM.i32", Ls, Atomic, 0x068, at(27, 7, 3), None, [x(0, 64)], Read, [OFFSET8], [SLOT, ATOMIC_NO_XCHG];
    AtomI64 = "ATOM.i64", Ls, Atomic, 0x068, at(27, 7, 5), None, [x(0, 64)], Read, [OFFSET8], [SLOT, ATOMIC64_NO_XCHG];
    AtomReturnI32 = "ATOM_RETURN.i32", Ls, Atomic, 0x120, at(27, 7, 3), None, [x(0, 64)], ReadWrite, [OFFSET8], [SLOT, COMPARE, ATOMIC];
    AtomReturnI64 = "ATOM_RETURN.i64", Ls, Atomic, 0x120, at(27, 7, 5), None, [x(0, 64)], ReadWrite, [OFFSET8], [SLOT, COMPARE, ATOMIC64];
    FmaRscaleF32 = "FMA_RSCALE.f32", Fma, Special, 0x160, Fixed::NONE, Word, [fa(0, 32), fa(1, 32), fa(2, 32), x(3, 32)], None, [], [ROUND_ZERO, CLAMP];
    FmaRscaleNF32 = "FMA_RSCALE_N.f32", Fma, Special, 0x161, Fixed::NONE, Word, [fa(0, 32), fa(1, 32), fa(2, 32), x(3, 32)], None, [], [ROUND_ZERO, CLAMP];
    FmaRscaleLeftF32 = "FMA_RSCALE_LEFT.f32", Fma, Special, 0x162, Fixed::NONE, Word, [fa(0, 32), fa(1, 32), fa(2, 32), x(3, 32)], None, [], [ROUND_ZERO, CLAMP];
    FmaRscaleScale16F32 = "FMA_RSCALE_SCALE16.f32", Fma, Special, 0x163, Fixed::NONE, Word, [fa(0, 32), fa(1, 32), fa(2, 32), x(3, 32)], None, [], [ROUND_ZERO, CLAMP];
    LeaPka = "LEA_PKA", Ls, Address, 0x06b, Fixed::NONE, None, [x(0, 32), x(1, 32)], WritePair, [], [SLOT];
    LeaBuf = "LEA_BUF", Ls, Address, 0x06e, Fixed::NONE, None, [x(0, 32), x(1, 32)], WritePair, [], [SLOT];
    LdGclkU64 = "LD_GCLK_U64", Ls, Clock, 0x044, Fixed::NONE, None, [], WritePair, [], [SLOT, CLOCK];
    FlushF32 = "FLUSH.f32", Cvt, Float, 0x098, at(16, 0x1f, 0x0), Word, [fs(0, 32)], None, [], [NAN_MODE, FTZ, FLUSH_INF];
    FlushV2f16 = "FLUSH.v2f16", Cvt, Float, 0x098, at(16, 0x1f, 0x1), Word, [fs(0, 16)], None, [], [NAN_MODE, FTZ, FLUSH_INF];
    Atom1I32 = "ATOM1.i32", Ls, Atomic, 0x069, at(27, 7, 3).and(at(33, 7, 0)).and(at(40, 0xff, 0x40)), None, [x(0, 64)], None, [OFFSET8], [SLOT, ATOMIC1];
    Atom1I64 = "ATOM1.i64", Ls, Atomic, 0x069, at(27, 7, 5).and(at(33, 7, 0)).and(at(40, 0xff, 0x40)), None, [x(0, 64)], None, [OFFSET8], [SLOT, ATOMIC1];
    FmulSliceF32 = "FMUL_SLICE.f32", Fma, Special, 0x0a4, at(16, 0xf, 0xa), Word, [fl(0, 32), fl(1, 32)], None, [], [];
    IlogbF32 = "ILOGB.f32", Cvt, Special, 0x098, at(16, 0x1f, 0x4), Word, [fw(0, 32)], None, [], [];
    IlogbV2f16 = "ILOGB.v2f16", Cvt, Special, 0x098, at(16, 0x1f, 0x5), Word, [fw(0, 16)], None, [], [];
    LogbF32 = "LOGB.f32", Cvt, Special, 0x098, at(16, 0x1f, 0x6), Word, [fw(0, 32)], None, [], [];
    LogbV2f16 = "LOGB.v2f16", Cvt, Special, 0x098, at(16, 0x1f, 0x7), Word, [fw(0, 16)], None, [], [];
    FrcbrtApproxAF32 = "FRCBRT_APPROX_A.f32", Sfu, Special, 0x09e, at(16, 0x1f, 0x0), Word, [fs(0, 32)], None, [], [];
    FrcbrtApproxBF32 = "FRCBRT_APPROX_B.f32", Sfu, Special, 0x09e, at(16, 0x1f, 0x1), Word, [fl(0, 32)], None, [], [];
    FrcbrtApproxCF32 = "FRCBRT_APPROX_C.f32", Sfu, Special, 0x09e, at(16, 0x1f, 0x2), Word, [fl(0, 32)], None, [], [];
    FpowScDetF32 = "FPOW_SC_DET.f32", Sfu, Special, 0x0a4, at(16, 0xf, 0xd).and(at(24, 3, 0)), Word, [fl(0, 32), fl(1, 32)], None, [], [POW];
    FpowScApply = "FPOW_SC_APPLY", Sfu, Special, 0x0a4, at(16, 0xf, 0xd).and(at(24, 3, 1)), Word, [fl(0, 32), x(1, 32)], None, [], [];
    IaddcU32 = "IADDC.u32", Cvt, Integer, 0x0b0, at(24, 3, 0), Word, [x(0, 32), x(1, 32), x(2, 32)], None, [], [CARRY];
    IsubbU32 = "ISUBB.u32", Cvt, Integer, 0x0b0, at(24, 3, 1), Word, [x(0, 32), x(1, 32), x(2, 32)], None, [], [CARRY];
    JumpEx = "JUMP_EX", Cvt, Branch, 0x03f, Fixed::NONE, None, [x(0, 32), x(1, 32), x(2, 32)], None, [], [COMBINE, CONSERVATIVE, EQ, JUMP_STACK, DIVERGE];
    Doorbell = "DOORBELL", Fixed, System, 0x004, Fixed::NONE, None, [], None, [], [];
    Eureka = "EUREKA", Fixed, System, 0x005, Fixed::NONE, None, [], None, [], [];
    Kaboom = "KABOOM", Fixed, System, 0x006, Fixed::NONE, None, [], None, [], [];
}
graphics {
    LdCvt = "LD_CVT", Ls, 0x070, Fixed::NONE, [r("src0", 0, 8), r("src2", 16, 8), r("sr", 40, 8), r("offset", 8, 8), r("slot", 30, 3), r("memory_access", 37, 3), r("vecsize", 28, 2), r("regfmt", 24, 3), r("sr_count", 33, 3)];
    TexGradient = "TEX_GRADIENT", Texture, 0x12a, Fixed::NONE, [r("src0", 0, 8), r("sr_write", 16, 6), r("sr", 40, 6), r("slot", 30, 3), r("skip", 39, 1), r("register_type", 26, 2), r("register_width", 46, 1), r("write_mask", 22, 4), r("dimension", 28, 2), r("wide_indices", 8, 1), r("force_delta_enable", 12, 1), r("lod_bias_disable", 13, 1), r("lod_clamp_disable", 14, 1), r("derivative_enable", 15, 1), r("sr_count", 33, 3), r("sr_write_count", 36, 3)];
    DiscardF32 = "DISCARD.f32", Cvt, 0x020, Fixed::NONE, [r("src0", 0, 8), r("src1", 8, 8), r("cmp", 32, 3)];
    LdVarSpecial = "LD_VAR_SPECIAL", Varying, 0x056, Fixed::NONE, [r("src0", 0, 8), r("sr", 40, 8), r("index", 12, 4), r("sr_count", 33, 3), r("vecsize", 28, 2), r("regfmt", 24, 3), r("sample", 38, 2), r("update", 36, 2), r("slot", 30, 3)];
    LdVarBufImmF32 = "LD_VAR_BUF_IMM.f32", Varying, 0x05c, Fixed::NONE, [r("src0", 0, 8), r("sr", 40, 8), r("index", 16, 8), r("slot", 30, 3), r("vecsize", 28, 2), r("source_format", 24, 4), r("sample", 38, 2), r("update", 36, 2), r("sr_count", 33, 3)];
    LdVarBufImmF16 = "LD_VAR_BUF_IMM.f16", Varying, 0x05d, Fixed::NONE, [r("src0", 0, 8), r("sr", 40, 8), r("index", 16, 8), r("slot", 30, 3), r("vecsize", 28, 2), r("source_format", 24, 4), r("sample", 38, 2), r("update", 36, 2), r("sr_count", 33, 3)];
    LdVarBufF32 = "LD_VAR_BUF.f32", Varying, 0x06c, Fixed::NONE, [r("src0", 0, 8), r("src1", 8, 8), r("sr", 40, 8), r("slot", 30, 3), r("vecsize", 28, 2), r("source_format", 24, 4), r("sample", 38, 2), r("update", 36, 2), r("sr_count", 33, 3)];
    LdVarBufF16 = "LD_VAR_BUF.f16", Varying, 0x06d, Fixed::NONE, [r("src0", 0, 8), r("src1", 8, 8), r("sr", 40, 8), r("slot", 30, 3), r("vecsize", 28, 2), r("source_format", 24, 4), r("sample", 38, 2), r("update", 36, 2), r("sr_count", 33, 3)];
    LdVar = "LD_VAR", Varying, 0x064, Fixed::NONE, [r("src0", 0, 8), r("src1", 8, 8), r("sr", 40, 8), r("slot", 30, 3), r("vecsize", 28, 2), r("regfmt", 24, 3), r("sample", 38, 2), r("update", 36, 2), r("sr_count", 33, 3)];
    LdVarImm = "LD_VAR_IMM", Varying, 0x054, Fixed::NONE, [r("src0", 0, 8), r("sr", 40, 8), r("table", 8, 4), r("index", 12, 8), r("slot", 30, 3), r("vecsize", 28, 2), r("regfmt", 24, 3), r("sample", 38, 2), r("update", 36, 2), r("sr_count", 33, 3)];
    LdVarFlat = "LD_VAR_FLAT", Varying, 0x055, Fixed::NONE, [r("src0", 0, 8), r("sr", 40, 8), r("slot", 30, 3), r("vecsize", 28, 2), r("regfmt", 24, 3), r("sr_count", 33, 3)];
    LdVarFlatImm = "LD_VAR_FLAT_IMM", Varying, 0x041, Fixed::NONE, [r("sr", 40, 8), r("table", 8, 4), r("index", 12, 8), r("slot", 30, 3), r("vecsize", 28, 2), r("regfmt", 24, 3), r("sr_count", 33, 3)];
    LdAttrImm = "LD_ATTR_IMM", Ls, 0x066, at(37, 3, 0), [r("src0", 0, 8), r("src1", 8, 8), r("sr", 40, 8), r("index", 20, 4), r("table", 16, 4), r("sr_count", 33, 3), r("vecsize", 28, 2), r("regfmt", 24, 3), r("slot", 30, 3)];
    LdAttr = "LD_ATTR", Ls, 0x076, at(37, 3, 0), [r("src0", 0, 8), r("src1", 8, 8), r("src2", 16, 8), r("sr", 40, 8), r("sr_count", 33, 3), r("vecsize", 28, 2), r("regfmt", 24, 3), r("slot", 30, 3)];
    LdTexImm = "LD_TEX_IMM", Ls, 0x066, at(37, 3, 1), [r("src0", 0, 8), r("src1", 8, 8), r("sr", 40, 8), r("index", 20, 4), r("table", 16, 4), r("sr_count", 33, 3), r("vecsize", 28, 2), r("regfmt", 24, 3), r("slot", 30, 3)];
    LdTex = "LD_TEX", Ls, 0x076, at(37, 3, 1), [r("src0", 0, 8), r("src1", 8, 8), r("src2", 16, 8), r("sr", 40, 8), r("sr_count", 33, 3), r("vecsize", 28, 2), r("regfmt", 24, 3), r("slot", 30, 3)];
    LeaAttrImm = "LEA_ATTR_IMM", Ls, 0x067, at(37, 3, 0), [r("src0", 0, 8), r("src1", 8, 8), r("sr", 40, 8), r("table", 16, 4), r("index", 20, 4), r("slot", 30, 3), r("sr_count", 33, 3)];
    LeaAttr = "LEA_ATTR", Ls, 0x077, at(37, 3, 0), [r("src0", 0, 8), r("src1", 8, 8), r("src2", 16, 8), r("sr", 40, 8), r("vecsize", 28, 2), r("slot", 30, 3), r("sr_count", 33, 3)];
    LeaTexImm = "LEA_TEX_IMM", Ls, 0x067, at(37, 3, 1), [r("src0", 0, 8), r("src1", 8, 8), r("sr", 40, 8), r("table", 16, 4), r("index", 20, 4), r("slot", 30, 3), r("sr_count", 33, 3)];
    LeaTex = "LEA_TEX", Ls, 0x077, at(37, 3, 1), [r("src0", 0, 8), r("src1", 8, 8), r("src2", 16, 8), r("sr", 40, 8), r("vecsize", 28, 2), r("slot", 30, 3), r("sr_count", 33, 3)];
    StCvt = "ST_CVT", Ls, 0x071, Fixed::NONE, [r("src0", 0, 8), r("src2", 16, 8), r("sr", 40, 8), r("offset", 8, 8), r("slot", 30, 3), r("memory_access", 37, 3), r("vecsize", 28, 2), r("regfmt", 24, 3), r("sr_count", 33, 3)];
    LdTile = "LD_TILE", Fixed, 0x078, Fixed::NONE, [r("src0", 0, 8), r("src1", 8, 8), r("src2", 16, 8), r("sr", 40, 8), r("sr_count", 33, 3), r("vecsize", 28, 2), r("regfmt", 24, 3), r("slot", 30, 3)];
    StTile = "ST_TILE", Fixed, 0x079, Fixed::NONE, [r("src0", 0, 8), r("src1", 8, 8), r("src2", 16, 8), r("sr", 40, 8), r("sr_count", 33, 3), r("vecsize", 28, 2), r("regfmt", 24, 3), r("slot", 30, 3)];
    Blend = "BLEND", Fixed, 0x07f, Fixed::NONE, [r("src0", 0, 8), r("src2", 16, 8), r("sr", 40, 8), r("target", 8, 8), r("slot", 30, 3), r("sr_count", 33, 3), r("vecsize", 28, 2), r("regfmt", 24, 3)];
    Atest = "ATEST", Fixed, 0x07d, Fixed::NONE, [r("src0", 0, 8), r("src1", 8, 8), r("src2", 16, 8), r("sr", 40, 8), r("sr_count", 33, 3)];
    ZsEmit = "ZS_EMIT", Fixed, 0x07e, Fixed::NONE, [r("src0", 0, 8), r("src1", 8, 8), r("src2", 16, 8), r("sr", 40, 8), r("z", 25, 1), r("stencil", 24, 1), r("sr_count", 33, 3), r("slot", 30, 3)];
    TexFetch = "TEX_FETCH", Texture, 0x125, Fixed::NONE, [r("src0", 0, 8), r("sr_write", 16, 6), r("sr", 40, 6), r("slot", 30, 3), r("skip", 39, 1), r("register_type", 26, 2), r("register_width", 46, 1), r("write_mask", 22, 4), r("dimension", 28, 2), r("wide_indices", 8, 1), r("array_enable", 10, 1), r("texel_offset", 11, 1), r("sr_count", 33, 3), r("sr_write_count", 36, 3)];
    TexSingle = "TEX_SINGLE", Texture, 0x128, Fixed::NONE, [r("src0", 0, 8), r("sr_write", 16, 6), r("sr", 40, 6), r("slot", 30, 3), r("skip", 39, 1), r("register_type", 26, 2), r("register_width", 46, 1), r("write_mask", 22, 4), r("dimension", 28, 2), r("wide_indices", 8, 1), r("array_enable", 10, 1), r("texel_offset", 11, 1), r("shadow", 12, 1), r("lod_mode", 13, 3), r("sr_count", 33, 3), r("sr_write_count", 36, 3)];
    TexGather = "TEX_GATHER", Texture, 0x129, Fixed::NONE, [r("src0", 0, 8), r("sr_write", 16, 6), r("sr", 40, 6), r("slot", 30, 3), r("skip", 39, 1), r("register_type", 26, 2), r("register_width", 46, 1), r("write_mask", 22, 4), r("dimension", 28, 2), r("wide_indices", 8, 1), r("array_enable", 10, 1), r("texel_offset", 11, 1), r("integer_coordinates", 13, 1), r("fetch_component", 14, 2), r("shadow", 12, 1), r("sr_count", 33, 3), r("sr_write_count", 36, 3)];
    TexDual = "TEX_DUAL", Texture, 0x12f, Fixed::NONE, [r("src0", 0, 8), r("sr_write", 16, 6), r("sr", 40, 6), r("slot", 30, 3), r("skip", 39, 1), r("register_type", 26, 2), r("register_width", 46, 1), r("secondary_register_width", 47, 1), r("write_mask", 22, 4), r("dimension", 28, 2), r("wide_indices", 8, 1), r("array_enable", 10, 1), r("texel_offset", 11, 1), r("shadow", 12, 1), r("lod_mode", 13, 3), r("sr_count", 33, 3), r("sr_write_count", 36, 3)];
    VarTexBufSingle = "VAR_TEX_BUF_SINGLE", VaryingTexture, 0x130, Fixed::NONE, [r("src0", 0, 8), r("src2", 16, 8), r("sr", 40, 8), r("slot", 30, 3), r("skip", 39, 1), r("sample_and_update", 33, 3), r("register_type", 26, 2), r("vartex_register_width", 24, 2), r("dimension", 28, 2), r("array_enable", 10, 1), r("shadow", 12, 1), r("lod_mode", 13, 3), r("sr_write_count", 36, 3)];
    VarTexBufGather = "VAR_TEX_BUF_GATHER", VaryingTexture, 0x131, Fixed::NONE, [r("src0", 0, 8), r("src2", 16, 8), r("sr", 40, 8), r("slot", 30, 3), r("skip", 39, 1), r("sample_and_update", 33, 3), r("register_type", 26, 2), r("vartex_register_width", 24, 2), r("dimension", 28, 2), r("array_enable", 10, 1), r("integer_coordinates", 13, 1), r("fetch_component", 14, 2), r("shadow", 12, 1), r("sr_write_count", 36, 3)];
    VarTexBufGradient = "VAR_TEX_BUF_GRADIENT", VaryingTexture, 0x132, Fixed::NONE, [r("src0", 0, 8), r("src2", 16, 8), r("sr", 40, 8), r("slot", 30, 3), r("skip", 39, 1), r("sample_and_update", 33, 3), r("register_type", 26, 2), r("vartex_register_width", 24, 2), r("dimension", 28, 2), r("array_enable", 10, 1), r("shadow", 12, 1), r("lod_bias_disable", 13, 1), r("lod_clamp_disable", 14, 1), r("sr_write_count", 36, 3)];
    VarTexBufDual = "VAR_TEX_BUF_DUAL", VaryingTexture, 0x137, Fixed::NONE, [r("src0", 0, 8), r("src2", 16, 8), r("sr", 40, 8), r("slot", 30, 3), r("skip", 39, 1), r("sample_and_update", 33, 3), r("register_type", 26, 2), r("vartex_register_width", 24, 2), r("dimension", 28, 2), r("array_enable", 10, 1), r("shadow", 12, 1), r("lod_mode", 13, 3), r("sr_write_count", 36, 3)];
    VarTexSingle = "VAR_TEX_SINGLE", VaryingTexture, 0x138, Fixed::NONE, [r("src0", 0, 8), r("src2", 16, 8), r("sr", 40, 8), r("slot", 30, 3), r("skip", 39, 1), r("sample_and_update", 33, 3), r("register_type", 26, 2), r("vartex_register_width", 24, 2), r("dimension", 28, 2), r("array_enable", 10, 1), r("shadow", 12, 1), r("lod_mode", 13, 3), r("sr_write_count", 36, 3)];
    VarTexGather = "VAR_TEX_GATHER", VaryingTexture, 0x139, Fixed::NONE, [r("src0", 0, 8), r("src2", 16, 8), r("sr", 40, 8), r("slot", 30, 3), r("skip", 39, 1), r("sample_and_update", 33, 3), r("register_type", 26, 2), r("vartex_register_width", 24, 2), r("dimension", 28, 2), r("array_enable", 10, 1), r("integer_coordinates", 13, 1), r("fetch_component", 14, 2), r("shadow", 12, 1), r("sr_write_count", 36, 3)];
    VarTexGradient = "VAR_TEX_GRADIENT", VaryingTexture, 0x13a, Fixed::NONE, [r("src0", 0, 8), r("src2", 16, 8), r("sr", 40, 8), r("slot", 30, 3), r("skip", 39, 1), r("sample_and_update", 33, 3), r("register_type", 26, 2), r("vartex_register_width", 24, 2), r("dimension", 28, 2), r("array_enable", 10, 1), r("shadow", 12, 1), r("lod_bias_disable", 13, 1), r("lod_clamp_disable", 14, 1), r("sr_write_count", 36, 3)];
    VarTexDual = "VAR_TEX_DUAL", VaryingTexture, 0x13f, Fixed::NONE, [r("src0", 0, 8), r("src2", 16, 8), r("sr", 40, 8), r("slot", 30, 3), r("skip", 39, 1), r("sample_and_update", 33, 3), r("register_type", 26, 2), r("vartex_register_width", 24, 2), r("dimension", 28, 2), r("array_enable", 10, 1), r("shadow", 12, 1), r("lod_mode", 13, 3), r("sr_write_count", 36, 3)];
}
}
