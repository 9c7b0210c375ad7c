//! Packed register words, and which command-stream registers a compute job takes.

use super::{DescError, aligned, bits, fit};

/// Where RUN_COMPUTE looks for its operands. Source: v10.xml, enum `COMPUTE SR`.
pub mod compute_sr {
    use crate::csf::{Reg32, Reg64};

    /// Shader resource table pointer `n` (0 to 3).
    #[must_use]
    pub const fn srt(n: u8) -> Reg64 {
        Reg64(2 * (n & 3))
    }
    /// FAU pointer and count `n` (0 to 3).
    #[must_use]
    pub const fn fau(n: u8) -> Reg64 {
        Reg64(8 + 2 * (n & 3))
    }
    /// Shader program descriptor `n` (0 to 3).
    #[must_use]
    pub const fn spd(n: u8) -> Reg64 {
        Reg64(16 + 2 * (n & 3))
    }
    /// Local storage descriptor `n` (0 to 3).
    #[must_use]
    pub const fn tsd(n: u8) -> Reg64 {
        Reg64(24 + 2 * (n & 3))
    }
    /// Global attribute offset.
    pub const GLOBAL_ATTRIBUTE_OFFSET: Reg32 = Reg32(32);
    /// Packed workgroup size.
    pub const WG_SIZE: Reg32 = Reg32(33);
    /// First workgroup in x; y and z follow.
    pub const JOB_OFFSET_X: Reg32 = Reg32(34);
    /// Workgroups in x; y and z follow.
    pub const JOB_SIZE_X: Reg32 = Reg32(37);
}

const WORKGROUP: &str = "workgroup size word";

/// `Compute size workgroup` of v10.xml: threads of a workgroup along each axis, 1 to 1024.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WorkgroupSize {
    /// Threads in x.
    pub x: u16,
    /// Threads in y.
    pub y: u16,
    /// Threads in z.
    pub z: u16,
    /// Hardware may run several workgroups as one: only for shaders without barriers and workgroup storage.
    pub allow_merging: bool,
}

impl WorkgroupSize {
    /// Packs into the register's word.
    ///
    /// # Errors
    /// [`DescError::TooWide`] for 0 or more than 1024 threads along an axis.
    pub fn pack(&self) -> Result<u32, DescError> {
        let axis = |field, size: u16| -> Result<u32, DescError> {
            match size.checked_sub(1) {
                Some(n) if n < 1024 => Ok(n.into()),
                _ => Err(DescError::TooWide {
                    what: WORKGROUP,
                    field,
                    value: size.into(),
                }),
            }
        };
        Ok(axis("x", self.x)?
            | axis("y", self.y)? << 10
            | axis("z", self.z)? << 20
            | u32::from(self.allow_merging) << 31)
    }

    /// Unpacks the register's word.
    ///
    /// # Errors
    /// [`DescError::ReservedBits`] for bit 30.
    pub fn unpack(word: u32) -> Result<Self, DescError> {
        if bits(word, 30, 1) != 0 {
            return Err(DescError::ReservedBits {
                what: WORKGROUP,
                word: 0,
                bits: 1 << 30,
            });
        }
        let axis = |start| bits(word, start, 10) as u16 + 1;
        Ok(Self {
            x: axis(0),
            y: axis(10),
            z: axis(20),
            allow_merging: bits(word, 31, 1) != 0,
        })
    }

    /// Threads of a workgroup.
    #[must_use]
    pub const fn threads(&self) -> u32 {
        self.x as u32 * self.y as u32 * self.z as u32
    }
}

const FAU: &str = "FAU register";

/// The FAU register: where a shader's uniforms lie and how many 64-bit units there are.
/// Source: Mesa decode_csf.c, `pandecode_run_compute` (48 bits of pointer, count in the top byte).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Fau {
    /// Address of the first unit.
    pub pointer: u64,
    /// 64-bit units.
    pub count: u8,
}

impl Fau {
    /// Alignment of the pointer: one unit. Mesa aligns to 16 or more.
    pub const ALIGNMENT: u64 = 8;

    /// Packs into the register's 64 bits.
    ///
    /// # Errors
    /// [`DescError`] for a pointer of more than 48 bits or not aligned.
    pub fn pack(&self) -> Result<u64, DescError> {
        let pointer = aligned(FAU, "pointer", self.pointer, Self::ALIGNMENT)?;
        Ok(fit(FAU, "pointer", pointer, 48)? | u64::from(self.count) << 56)
    }

    /// Unpacks the register's 64 bits.
    ///
    /// # Errors
    /// [`DescError`] for bits 48 to 55, or a pointer that is not aligned.
    pub fn unpack(word: u64) -> Result<Self, DescError> {
        let reserved = word >> 48 & 0xff;
        if reserved != 0 {
            return Err(DescError::ReservedBits {
                what: FAU,
                word: 1,
                bits: (reserved as u32) << 16,
            });
        }
        let pointer = aligned(FAU, "pointer", word & ((1 << 48) - 1), Self::ALIGNMENT)?;
        Ok(Self {
            pointer,
            count: (word >> 56) as u8,
        })
    }
}

const SRT: &str = "SRT register";

/// The shader resource table register: where the array of [`super::Resource`] entries lies, and how many there are.
/// Source: the low six bits hold the number of tables (Mesa decode.c, `pandecode_resource_tables`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Srt {
    /// Address of the array.
    pub pointer: u64,
    /// Entries, at most 63.
    pub count: u8,
}

impl Srt {
    /// Alignment of the pointer.
    pub const ALIGNMENT: u64 = 64;

    /// Packs into the register's 64 bits.
    ///
    /// # Errors
    /// [`DescError`] for a pointer that is not aligned or too many entries.
    pub fn pack(&self) -> Result<u64, DescError> {
        let pointer = aligned(SRT, "pointer", self.pointer, Self::ALIGNMENT)?;
        Ok(pointer | fit(SRT, "count", self.count.into(), 6)?)
    }

    /// Unpacks the register's 64 bits.
    #[must_use]
    pub const fn unpack(word: u64) -> Self {
        Self {
            pointer: word & !(Self::ALIGNMENT - 1),
            count: (word & (Self::ALIGNMENT - 1)) as u8,
        }
    }
}
