//! The types that instruction fields have, and how each packs into its bits.

use super::error::FieldError;

/// Command-stream registers of a v10 queue. Source: `work_regs` of panthor's CSIF info on a Mali-G610 (96),
/// read by the driver from the firmware's stream features (panthor_fw.c, `CS_FEATURES_WORK_REGS`).
pub const REGISTERS: u8 = 96;

/// The last registers of the file, which the kernel uses for its own instructions around each call and which user
/// streams must not write. Source: `unpreserved_cs_reg_count` of panthor's CSIF info
/// (panthor_fw.h, `CSF_UNPRESERVED_REG_COUNT` = 4).
pub const KERNEL_REGISTERS: u8 = 4;

/// Scoreboard entries of a v10 queue. Source: panthor's CSIF info (`scoreboard_slot_count`), 8 on a Mali-G610.
pub const SCOREBOARDS: u8 = 8;

/// How a field's bits are to be understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A 32-bit register, `r0` to `r95`.
    Reg32,
    /// A 64-bit register pair named by its even low register, `d0` to `d94`.
    Reg64,
    /// An unsigned number.
    Uint,
    /// A signed number in two's complement.
    Int,
    /// One bit.
    Bool,
    /// An unsigned number of units of `1 << shift`.
    Scaled {
        /// Log2 of the unit.
        shift: u8,
    },
    /// One of the listed names.
    Enum(&'static [(&'static str, u64)]),
}

impl Kind {
    /// Whether `raw` is a value of this kind.
    ///
    /// # Errors
    /// [`FieldError`]: no such register, an odd register for a pair, a value that names nothing.
    pub fn check(self, raw: u64) -> Result<(), FieldError> {
        match self {
            Kind::Reg32 if raw >= u64::from(REGISTERS) => Err(FieldError::NoSuchRegister(raw)),
            Kind::Reg64 if raw >= u64::from(REGISTERS) => Err(FieldError::NoSuchRegister(raw)),
            Kind::Reg64 if raw & 1 != 0 => Err(FieldError::OddPair(raw)),
            Kind::Enum(names) if !names.iter().any(|(_, v)| *v == raw) => {
                Err(FieldError::Reserved(raw))
            }
            _ => Ok(()),
        }
    }
}

/// A type that an instruction field can have.
pub trait FieldValue: Copy {
    /// How the raw bits are to be understood.
    const KIND: Kind;
    /// From raw bits that [`Kind::check`] has accepted.
    fn from_raw(raw: u64) -> Self;
    /// To raw bits, not yet checked nor cut to the field's width (negative numbers are sign-extended to 64 bits).
    fn to_raw(self) -> u64;
}

macro_rules! integer {
    ($($t:ty => $kind:expr),*) => {$(
        impl FieldValue for $t {
            const KIND: Kind = $kind;
            fn from_raw(raw: u64) -> Self {
                raw as $t
            }
            fn to_raw(self) -> u64 {
                self as i64 as u64
            }
        }
    )*};
}
integer!(u8 => Kind::Uint, u16 => Kind::Uint, u32 => Kind::Uint, i16 => Kind::Int, i32 => Kind::Int);

impl FieldValue for u64 {
    const KIND: Kind = Kind::Uint;
    fn from_raw(raw: u64) -> Self {
        raw
    }
    fn to_raw(self) -> u64 {
        self
    }
}

impl FieldValue for bool {
    const KIND: Kind = Kind::Bool;
    fn from_raw(raw: u64) -> Self {
        raw != 0
    }
    fn to_raw(self) -> u64 {
        self.into()
    }
}

/// A 32-bit command-stream register, `r0` to `r95`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Reg32(
    /// The register's number.
    pub u8,
);

impl FieldValue for Reg32 {
    const KIND: Kind = Kind::Reg32;
    fn from_raw(raw: u64) -> Self {
        Self(raw as u8)
    }
    fn to_raw(self) -> u64 {
        self.0.into()
    }
}

/// A pair of command-stream registers that holds 64 bits, low word in the even register named; `d0` to `d94`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Reg64(
    /// The number of the low, even register.
    pub u8,
);

impl Reg64 {
    /// The register that holds the low 32 bits.
    #[must_use]
    pub const fn low(self) -> Reg32 {
        Reg32(self.0)
    }
    /// The register that holds the high 32 bits.
    #[must_use]
    pub const fn high(self) -> Reg32 {
        Reg32(self.0 + 1)
    }
}

impl FieldValue for Reg64 {
    const KIND: Kind = Kind::Reg64;
    fn from_raw(raw: u64) -> Self {
        Self(raw as u8)
    }
    fn to_raw(self) -> u64 {
        self.0.into()
    }
}

/// A size in bytes, stored in units of eight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Bytes8(
    /// Bytes, a multiple of eight.
    pub u32,
);

impl FieldValue for Bytes8 {
    const KIND: Kind = Kind::Scaled { shift: 3 };
    fn from_raw(raw: u64) -> Self {
        Self((raw << 3) as u32)
    }
    fn to_raw(self) -> u64 {
        // A size that is no multiple of eight has no encoding: make it fail the width check.
        if self.0 % 8 == 0 {
            u64::from(self.0 >> 3)
        } else {
            u64::MAX >> 1
        }
    }
}

macro_rules! field_enum {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $value:literal $text:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$vdoc])* $variant = $value),* }
        impl FieldValue for $name {
            const KIND: Kind = Kind::Enum(&[$(($text, $value)),*]);
            fn from_raw(raw: u64) -> Self {
                const ALL: &[$name] = &[$($name::$variant),*];
                // `Kind::check` has accepted the value, so that the first is never taken for another.
                ALL.iter().copied().find(|v| *v as u64 == raw).unwrap_or(ALL[0])
            }
            fn to_raw(self) -> u64 {
                self as u64
            }
        }
    };
}

field_enum! {
    /// Comparison of a register with zero (BRANCH) or of memory with a register (SYNC_WAIT).
    /// Signed for BRANCH (Mesa decode_csf.c, `eval_cond`), unsigned for SYNC_WAIT.
    Condition {
        /// Less or equal.
        LessEqual = 0 "le",
        /// Greater.
        Greater = 1 "gt",
        /// Equal.
        Equal = 2 "eq",
        /// Not equal.
        NotEqual = 3 "ne",
        /// Less.
        Less = 4 "lt",
        /// Greater or equal.
        GreaterEqual = 5 "ge",
        /// Without condition.
        Always = 6 "always",
    }
}

field_enum! {
    /// The axis along which a compute job is cut into tasks.
    TaskAxis {
        /// Along x.
        X = 0 "x_axis",
        /// Along y.
        Y = 1 "y_axis",
        /// Along z.
        Z = 2 "z_axis",
    }
}

field_enum! {
    /// The order in which RUN_FRAGMENT renders tiles.
    TileOrder {
        /// Z order.
        ZOrder = 0 "zorder",
        /// Rows, left to right.
        Horizontal = 1 "horizontal",
        /// Columns, top to bottom.
        Vertical = 2 "vertical",
        /// Rows, right to left.
        ReverseHorizontal = 5 "rev_horizontal",
        /// Columns, bottom to top.
        ReverseVertical = 6 "rev_vertical",
    }
}

field_enum! {
    /// What FLUSH_CACHE2 does with the L2 or the load-store caches.
    FlushMode {
        /// Nothing.
        None = 0 "nop",
        /// Writes dirty lines back.
        Clean = 1 "clean",
        /// Writes dirty lines back and drops all.
        CleanInvalidate = 3 "clean_invalidate",
    }
}

field_enum! {
    /// What FLUSH_CACHE2 does with the other caches (texture, constant, instruction).
    OtherFlushMode {
        /// Nothing.
        None = 0 "nop_other",
        /// Drops all lines.
        Invalidate = 2 "invalidate_other",
    }
}

field_enum! {
    /// Who must see a change of a sync object.
    SyncScope {
        /// The whole system: the host is told too.
        System = 0 "system",
        /// The queues of the group.
        Csg = 2 "csg",
    }
}

field_enum! {
    /// What STORE_STATE writes.
    State {
        /// The system's timestamp.
        Timestamp = 0 "SYSTEM_TIMESTAMP",
        /// The GPU's cycle count.
        CycleCount = 1 "CYCLE_COUNT",
        /// How often the cycle count was disturbed.
        DisjointCount = 2 "DISJOINT_COUNT",
        /// The queue's error state.
        ErrorState = 3 "ERROR_STATE",
    }
}

field_enum! {
    /// Which counter of the tiler heap HEAP_OPERATION increments.
    HeapOperation {
        /// Vertex and tiling work started.
        VertexTilerStarted = 0 "vt_start",
        /// Vertex and tiling work completed.
        VertexTilerCompleted = 1 "vt_end",
        /// Fragment work completed.
        FragmentCompleted = 3 "frag_end",
    }
}

field_enum! {
    /// The exception that SET_EXCEPTION_HANDLER handles.
    ExceptionType {
        /// The tiler ran out of heap.
        TilerOom = 2 "tiler_oom",
    }
}
