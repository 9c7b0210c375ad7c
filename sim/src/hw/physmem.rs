//! The guest's physical memory: a file that the guest and this process both map.
//!
//! The guest's CPUs write to it at any time. So it is accessed only atomically, in aligned words of four or eight bytes,
//! and every address, which may come from a foreign page table, is checked.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use memmap2::{MmapOptions, MmapRaw};
use rustix::fd::AsFd;

/// An access beyond the memory, or one that is not aligned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "access of {len} bytes at physical address {address:#x}: memory has {size:#x} bytes, words are aligned"
)]
pub struct BadAddress {
    /// The physical address.
    pub address: u64,
    /// Bytes.
    pub len: u64,
    /// Bytes of the memory.
    pub size: u64,
}

/// Why the memory of a guest cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum MapError {
    /// The file is shorter than the guest says, or its length cannot be read.
    #[error(
        "the guest's memory has {announced:#x} bytes by its own account, but its file has {file:#x}"
    )]
    Size {
        /// Bytes that the guest has announced.
        announced: u64,
        /// Bytes of the file.
        file: u64,
    },
    /// The file cannot be mapped.
    #[error("the guest's memory cannot be mapped: {0}")]
    Map(#[from] std::io::Error),
}

/// The guest's memory. An offset in the file is the physical address.
#[derive(Debug)]
pub struct PhysMem {
    map: MmapRaw,
    size: u64,
}

impl PhysMem {
    /// Maps `size` bytes of the file.
    ///
    /// # Errors
    /// [`MapError`] where the file is shorter or cannot be mapped.
    pub fn map(file: impl AsFd, size: u64) -> Result<Self, MapError> {
        let stat = rustix::fs::fstat(file.as_fd()).map_err(std::io::Error::from)?;
        let in_file = u64::try_from(stat.st_size).unwrap_or(0);
        let len = usize::try_from(size).unwrap_or(usize::MAX);
        if size == 0 || size > in_file || len == usize::MAX {
            return Err(MapError::Size {
                announced: size,
                file: in_file,
            });
        }
        let map = MmapOptions::new().len(len).map_raw(&file.as_fd())?;
        Ok(Self { map, size })
    }

    /// Memory without a guest, of zeros: for tests.
    ///
    /// # Errors
    /// [`MapError::Map`] where the host has none.
    pub fn anonymous(size: u64) -> Result<Self, MapError> {
        let file = rustix::fs::memfd_create("physmem", rustix::fs::MemfdFlags::CLOEXEC)
            .map_err(std::io::Error::from)?;
        rustix::fs::ftruncate(&file, size).map_err(std::io::Error::from)?;
        Self::map(&file, size)
    }

    /// Size in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The host's address of `len` bytes at `address`.
    ///
    /// # Errors
    /// [`BadAddress`] unless all of them are memory.
    pub fn host(&self, address: u64, len: u64) -> Result<NonNull<u8>, BadAddress> {
        let bad = BadAddress {
            address,
            len,
            size: self.size,
        };
        let end = address.checked_add(len).ok_or(bad)?;
        if end > self.size {
            return Err(bad);
        }
        // SAFETY: `address` is at most the size of the mapping, so that the result lies in it or one past its end.
        let host = unsafe { self.map.as_mut_ptr().add(address as usize) };
        NonNull::new(host).ok_or(bad)
    }

    fn word<T>(&self, address: u64) -> Result<&T, BadAddress> {
        let len = size_of::<T>() as u64;
        let host = self.host(address, len)?;
        if address % len != 0 {
            return Err(BadAddress {
                address,
                len,
                size: self.size,
            });
        }
        // SAFETY: only called for atomic integers, which have no invalid values; the bytes lie in the mapping, which
        // lives as long as `self`, and are aligned, since the mapping is aligned to pages. Everybody else accesses them
        // atomically or volatile: the guest from another process, the caches as `AtomicU32`.
        Ok(unsafe { host.cast::<T>().as_ref() })
    }

    /// A little-endian word of four bytes.
    ///
    /// # Errors
    /// [`BadAddress`] beyond the memory or where the address is not aligned.
    pub fn read32(&self, address: u64) -> Result<u32, BadAddress> {
        let word: &AtomicU32 = self.word(address)?;
        Ok(u32::from_le(word.load(Ordering::Acquire)))
    }

    /// A little-endian word of eight bytes.
    ///
    /// # Errors
    /// [`BadAddress`] beyond the memory or where the address is not aligned.
    pub fn read64(&self, address: u64) -> Result<u64, BadAddress> {
        let word: &AtomicU64 = self.word(address)?;
        Ok(u64::from_le(word.load(Ordering::Acquire)))
    }

    /// Writes a word of four bytes.
    ///
    /// # Errors
    /// [`BadAddress`] beyond the memory or where the address is not aligned.
    pub fn write32(&self, address: u64, value: u32) -> Result<(), BadAddress> {
        let word: &AtomicU32 = self.word(address)?;
        word.store(value.to_le(), Ordering::Release);
        Ok(())
    }

    /// Writes a word of eight bytes.
    ///
    /// # Errors
    /// [`BadAddress`] beyond the memory or where the address is not aligned.
    pub fn write64(&self, address: u64, value: u64) -> Result<(), BadAddress> {
        let word: &AtomicU64 = self.word(address)?;
        word.store(value.to_le(), Ordering::Release);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_little_endian_and_checked() {
        let memory = PhysMem::anonymous(8192).unwrap();
        memory.write64(8184, 0x0102_0304_0506_0708).unwrap();
        assert_eq!(memory.read32(8184), Ok(0x0506_0708));
        assert_eq!(memory.read32(8188), Ok(0x0102_0304));
        memory.write32(0, 7).unwrap();
        assert_eq!(memory.read64(0), Ok(7));
        for address in [8188, 8192, u64::MAX, u64::MAX - 7, 1 << 40, 4] {
            assert!(memory.read64(address).is_err(), "{address:#x}");
            assert!(memory.write64(address, 1).is_err(), "{address:#x}");
        }
        assert!(memory.read32(2).is_err());
        assert!(memory.write32(8190, 0).is_err());
        assert!(memory.host(4096, 4097).is_err());
        assert!(memory.host(u64::MAX, 2).is_err());
        assert!(memory.host(0, 8192).is_ok());
    }

    #[test]
    fn a_file_shorter_than_announced_is_refused() {
        let file = rustix::fs::memfd_create("short", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&file, 4096).unwrap();
        for size in [0, 4097, u64::MAX] {
            assert!(matches!(
                PhysMem::map(&file, size),
                Err(MapError::Size { file: 4096, .. })
            ));
        }
        assert_eq!(PhysMem::map(&file, 4096).unwrap().size(), 4096);
    }
}
