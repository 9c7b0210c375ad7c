//! The local storage descriptor: where a thread's stack and a workgroup's shared memory lie.

use super::{DESCRIPTOR_WORDS, DescError, Named, bits, check_reserved, fit, high, join, low};

const WHAT: &str = "local storage descriptor";

/// How the thread storage's base field is to be understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum AddressMode {
    /// The field is the address.
    #[default]
    Flat = 0,
    /// The field is the address divided by 256; threads' storage is interleaved by the cores.
    Packed = 1,
    /// Accesses are out of bounds.
    OutOfBounds = 8,
}

/// Workgroup local storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Wls {
    /// Log2 of the number of workgroups that have storage at once.
    pub instances_log2: u8,
    /// `WLS Size Base`, two bits; Mesa leaves it 0.
    pub size_base: u8,
    /// `WLS Size Scale`, five bits: log2 of the bytes, plus one.
    pub size_scale: u8,
    /// Address of the first workgroup's storage.
    pub base: u64,
}

impl Wls {
    /// Bytes of one workgroup's storage: 1 << (scale - 1), borne out by panvk's shared memory sizes; 0 for scale 0.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        if self.size_scale == 0 {
            0
        } else {
            1 << (self.size_scale - 1)
        }
    }
}

/// `Local Storage` of v10.xml.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct LocalStorage {
    /// Log2 of the thread storage's 16-byte units (five bits): 16 << n bytes per thread.
    /// Source: Mesa pan_encoder.h, `panfrost_get_stack_shift`.
    pub tls_size: u8,
    /// How `tls_base` is to be understood.
    pub tls_address_mode: AddressMode,
    /// The base field of thread storage, 48 bits (see [`LocalStorage::tls_address`]).
    pub tls_base: u64,
    /// Workgroup storage, if any.
    pub wls: Option<Wls>,
}

/// What `WLS Instances` holds without workgroup storage: log2 of v10.xml's `No Workgroup Mem` (0x8000_0000).
const NO_WORKGROUP_MEM_LOG2: u32 = 31;

impl LocalStorage {
    /// Alignment of the descriptor in memory (v10.xml, `align`).
    pub const ALIGNMENT: u64 = 64;

    const NAMED: Named = [0x1f, 0x1f7f, !0, 0xf000_ffff, !0, !0, 0, 0];

    /// A job without thread or workgroup storage. It still needs this descriptor in memory.
    #[must_use]
    pub const fn none() -> Self {
        Self {
            tls_size: 0,
            tls_address_mode: AddressMode::Flat,
            tls_base: 0,
            wls: None,
        }
    }

    /// Bytes of one thread's storage. 16 for a size of 0, which Mesa also writes where there is none.
    #[must_use]
    pub const fn tls_bytes(&self) -> u64 {
        16 << self.tls_size
    }

    /// Address of the thread storage, `None` where no address is given.
    #[must_use]
    pub const fn tls_address(&self) -> Option<u64> {
        match self.tls_address_mode {
            AddressMode::OutOfBounds => None,
            _ if self.tls_base == 0 => None,
            AddressMode::Flat => Some(self.tls_base),
            AddressMode::Packed => Some(self.tls_base << 8),
        }
    }

    /// Packs into the words of memory.
    ///
    /// # Errors
    /// [`DescError::TooWide`] where a value does not fit into its field.
    pub fn pack(&self) -> Result<[u32; DESCRIPTOR_WORDS], DescError> {
        let tls_size = fit(WHAT, "TLS size", self.tls_size.into(), 5)?;
        let tls_base = fit(WHAT, "TLS base", self.tls_base, 48)?;
        let (word1, wls_base) = match self.wls {
            None => (NO_WORKGROUP_MEM_LOG2, 0),
            Some(wls) => {
                let instances = fit(WHAT, "WLS instances", wls.instances_log2.into(), 5)?;
                if instances == u64::from(NO_WORKGROUP_MEM_LOG2) {
                    return Err(DescError::Reserved {
                        what: WHAT,
                        field: "WLS instances",
                        value: instances,
                    });
                }
                let base = fit(WHAT, "WLS size base", wls.size_base.into(), 2)?;
                let scale = fit(WHAT, "WLS size scale", wls.size_scale.into(), 5)?;
                (low(instances | base << 5 | scale << 8), wls.base)
            }
        };
        let mode = (self.tls_address_mode as u32) << 28;
        Ok([
            low(tls_size),
            word1,
            low(tls_base),
            high(tls_base) | mode,
            low(wls_base),
            high(wls_base),
            0,
            0,
        ])
    }

    /// Unpacks the words of memory.
    ///
    /// # Errors
    /// [`DescError`] for reserved bits and values.
    pub fn unpack(words: &[u32; DESCRIPTOR_WORDS]) -> Result<Self, DescError> {
        check_reserved(WHAT, words, &Self::NAMED)?;
        let tls_address_mode = match bits(words[3], 28, 4) {
            0 => AddressMode::Flat,
            1 => AddressMode::Packed,
            8 => AddressMode::OutOfBounds,
            other => {
                return Err(DescError::Reserved {
                    what: WHAT,
                    field: "TLS address mode",
                    value: other.into(),
                });
            }
        };
        let wls = match bits(words[1], 0, 5) {
            NO_WORKGROUP_MEM_LOG2 => {
                // Without storage the other fields mean nothing.
                check_reserved(
                    WHAT,
                    words,
                    &[!0, NO_WORKGROUP_MEM_LOG2, !0, !0, 0, 0, 0, 0],
                )?;
                None
            }
            instances => Some(Wls {
                instances_log2: instances as u8,
                size_base: bits(words[1], 5, 2) as u8,
                size_scale: bits(words[1], 8, 5) as u8,
                base: join(words[4], words[5]),
            }),
        };
        Ok(Self {
            tls_size: bits(words[0], 0, 5) as u8,
            tls_address_mode,
            tls_base: join(words[2], bits(words[3], 0, 16)),
            wls,
        })
    }
}
