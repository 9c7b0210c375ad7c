//! Resource tables and the buffer descriptors in them.

use super::{
    DESCRIPTOR_WORDS, DescError, Named, aligned, bits, check_reserved, fit, high, join, low,
};

/// `Descriptor Type` of v10.xml: the low four bits of every descriptor in a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DescriptorType {
    /// Nothing.
    Null = 0,
    /// Sampler.
    Sampler = 1,
    /// Texture.
    Texture = 2,
    /// Vertex attribute.
    Attribute = 5,
    /// Depth and stencil state.
    DepthStencil = 7,
    /// Shader program.
    Shader = 8,
    /// Buffer.
    Buffer = 9,
    /// Texture plane.
    Plane = 10,
}

impl DescriptorType {
    pub(super) fn check(self, what: &'static str, word0: u32) -> Result<(), DescError> {
        let found = bits(word0, 0, 4);
        if found != self as u32 {
            return Err(DescError::Type { what, found });
        }
        Ok(())
    }
}

/// `Buffer Type` of v10.xml.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum BufferType {
    /// Bytes.
    #[default]
    Simple = 1,
    /// Tiler heap.
    TilerHeap = 2,
    /// Array of structures.
    Structure = 3,
    /// Vertex packets.
    VertexPacket = 4,
}

const BUFFER: &str = "buffer descriptor";

/// `Buffer` of v10.xml: what LD_PKA and LEA_PKA read through a resource table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Buffer {
    /// What it holds.
    pub kind: BufferType,
    /// Bytes.
    pub size: u32,
    /// Address of the first byte.
    pub address: u64,
    /// Structures: bytes from one to the next. Vertex packets: the two packed strides.
    pub stride: u32,
    /// Texel buffers: pixel format, which hardware does not interpret.
    pub conversion: u32,
}

impl Buffer {
    /// Alignment of the descriptor in memory (v10.xml, `align`).
    pub const ALIGNMENT: u64 = 32;

    const NAMED: Named = [0xff, !0, !0, !0, !0, 0, 0, !0];

    /// `size` bytes at `address`.
    #[must_use]
    pub const fn simple(address: u64, size: u32) -> Self {
        Self {
            kind: BufferType::Simple,
            size,
            address,
            stride: 0,
            conversion: 0,
        }
    }

    /// Packs into the words of memory.
    #[must_use]
    pub fn pack(&self) -> [u32; DESCRIPTOR_WORDS] {
        let word0 = DescriptorType::Buffer as u32 | (self.kind as u32) << 4;
        [
            word0,
            self.size,
            low(self.address),
            high(self.address),
            self.stride,
            0,
            0,
            self.conversion,
        ]
    }

    /// Unpacks the words of memory. Tiler heaps have other fields and are refused.
    ///
    /// # Errors
    /// [`DescError`] where it is no buffer, has reserved bits, or is of a reserved type.
    pub fn unpack(words: &[u32; DESCRIPTOR_WORDS]) -> Result<Self, DescError> {
        DescriptorType::Buffer.check(BUFFER, words[0])?;
        check_reserved(BUFFER, words, &Self::NAMED)?;
        let kind = match bits(words[0], 4, 4) {
            1 => BufferType::Simple,
            3 => BufferType::Structure,
            4 => BufferType::VertexPacket,
            other => {
                return Err(DescError::Reserved {
                    what: BUFFER,
                    field: "buffer type",
                    value: other.into(),
                });
            }
        };
        Ok(Self {
            kind,
            size: words[1],
            address: join(words[2], words[3]),
            stride: words[4],
            conversion: words[7],
        })
    }
}

const RESOURCE: &str = "resource table entry";

/// `Resource` of v10.xml, 16 bytes: one table of descriptors. The SRT register points at an array of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Resource {
    /// Address of the first descriptor.
    pub address: u64,
    /// Whether there are descriptors (else raw bytes).
    pub contains_descriptors: bool,
    /// Bytes.
    pub size: u64,
}

impl Resource {
    /// Alignment of the array in memory (v10.xml, `align`).
    pub const ALIGNMENT: u64 = 64;

    /// Alignment of a table's first descriptor: one descriptor.
    pub const TABLE_ALIGNMENT: u64 = 32;

    /// Packs into the words of memory.
    ///
    /// # Errors
    /// [`DescError`] for an address of more than 48 bits or not on a descriptor's alignment.
    pub fn pack(&self) -> Result<[u32; 4], DescError> {
        let address = aligned(RESOURCE, "address", self.address, Self::TABLE_ALIGNMENT)?;
        let address = fit(RESOURCE, "address", address, 48)?;
        let flag = u32::from(self.contains_descriptors) << 24;
        Ok([
            low(address),
            high(address) | flag,
            low(self.size),
            high(self.size),
        ])
    }

    /// Unpacks the words of memory. The flag is bit 24 of the second word, which v10.xml also counts to the 56-bit
    /// address: the address is taken as 48 bits wide, and bits 16 to 23 must be clear.
    ///
    /// # Errors
    /// [`DescError::ReservedBits`].
    pub fn unpack(words: &[u32; 4]) -> Result<Self, DescError> {
        let reserved = words[1] & 0xfeff_0000;
        if reserved != 0 {
            return Err(DescError::ReservedBits {
                what: RESOURCE,
                word: 1,
                bits: reserved,
            });
        }
        Ok(Self {
            address: join(words[0], bits(words[1], 0, 16)),
            contains_descriptors: bits(words[1], 24, 1) != 0,
            size: join(words[2], words[3]),
        })
    }
}
