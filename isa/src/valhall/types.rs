//! The parts of an instruction: registers, sources, swizzles, flow.
//!
//! Every enum here and in [`super::mods`] carries its assembler spelling (`text`); the bit values belong to the fields of
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

pub(crate) use spelled;
