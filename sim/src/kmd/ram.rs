//! The device's memory: one sparse memory file of this process. A page's offset in it is its "physical address".
//!
//! Buffer objects are ranges of the file, so that a client's mapping, the driver's and the GPU's view of a page are the
//! same host memory. Offsets are never used twice.

use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use panthor_uapi::{Errno, Prot};
use rustix::fd::OwnedFd;
use rustix::fs::{FallocateFlags, MemfdFlags};
use rustix::mm::{MapFlags, ProtFlags};

/// Blocks start on multiples of this: the largest CPU page, so that every simulated page size can map them.
const BLOCK_ALIGN: u64 = 65536;
/// Blocks of at least this size are aligned to it in the host's address space too, for large GPU pages.
const LARGE: usize = 2 << 20;

/// The memory of one device.
#[derive(Debug)]
pub struct Ram {
    file: OwnedFd,
    limit: u64,
    host_page: usize,
    state: Mutex<RamState>,
}

#[derive(Debug, Default)]
struct RamState {
    next: u64,
    charged: u64,
    blocks: usize,
    /// Views of blocks that are gone, kept until the GPU has dropped what its caches hold of them.
    buried: Vec<(HostView, usize)>,
}

impl Ram {
    /// Memory of which `limit` bytes can be in use at a time.
    pub fn new(limit: u64) -> std::io::Result<Arc<Self>> {
        let file = rustix::fs::memfd_create("panthor-sim", MemfdFlags::CLOEXEC)?;
        Ok(Arc::new(Self {
            file,
            limit,
            host_page: rustix::param::page_size(),
            state: Mutex::default(),
        }))
    }

    /// A block of `size` bytes of zeros. Nothing is taken from the limit before [`Block::charge`].
    pub fn block(self: &Arc<Self>, size: u64) -> Result<Block, Errno> {
        let mut state = self.lock();
        let offset = state.next;
        let spaced = size
            .checked_next_multiple_of(BLOCK_ALIGN)
            .ok_or(Errno::NOMEM)?;
        let end = offset
            .checked_add(spaced)
            .filter(|&end| end <= i64::MAX as u64)
            .ok_or(Errno::NOMEM)?;
        rustix::fs::ftruncate(&self.file, end).map_err(|_| Errno::NOMEM)?;
        state.next = end;
        state.blocks += 1;
        drop(state);
        Ok(Block {
            ram: self.clone(),
            offset,
            size,
            charged: OnceLock::new(),
            host: OnceLock::new(),
        })
    }

    /// Bytes in use.
    pub fn charged(&self) -> u64 {
        self.lock().charged
    }

    /// Blocks alive.
    pub fn blocks(&self) -> usize {
        self.lock().blocks
    }

    /// Unmaps the views of blocks that are gone, each after `release` was told.
    pub fn bury(&self, mut release: impl FnMut(NonNull<u8>, usize)) {
        let buried = std::mem::take(&mut self.lock().buried);
        for (HostView(view), len) in buried {
            release(view, len);
            // SAFETY: the block is gone, and with `release` the last one who knew the address.
            unsafe { self.unmap(view, len) };
        }
    }

    fn lock(&self) -> MutexGuard<'_, RamState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn map(
        &self,
        offset: u64,
        len: usize,
        align: usize,
        prot: ProtFlags,
    ) -> Result<NonNull<u8>, Errno> {
        let len = len
            .checked_next_multiple_of(self.host_page)
            .ok_or(Errno::NOMEM)?;
        let slack = if align > self.host_page { align } else { 0 };
        let reserved_len = len.checked_add(slack).ok_or(Errno::NOMEM)?;
        // SAFETY: a fresh reservation at an address of the kernel's choice touches no existing memory.
        let reserved = unsafe {
            rustix::mm::mmap_anonymous(
                std::ptr::null_mut(),
                reserved_len,
                ProtFlags::empty(),
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )
        }
        .map_err(|_| Errno::NOMEM)?;
        let start = reserved as usize;
        let aligned = start.next_multiple_of(align.max(self.host_page));
        // The parts of the reservation before and behind the block go back.
        for (from, to) in [(start, aligned), (aligned + len, start + reserved_len)] {
            if to > from {
                // SAFETY: the range lies in the reservation just made and nobody has its address.
                let _ = unsafe { rustix::mm::munmap(from as *mut _, to - from) };
            }
        }
        // SAFETY: MAP_FIXED replaces pages of the reservation only, which nobody else has.
        let mapped = unsafe {
            rustix::mm::mmap(
                aligned as *mut _,
                len,
                prot,
                MapFlags::SHARED | MapFlags::FIXED,
                &self.file,
                offset,
            )
        };
        match mapped {
            Ok(address) => NonNull::new(address.cast()).ok_or(Errno::NOMEM),
            Err(_) => {
                // SAFETY: as above, the reservation is still ours alone.
                let _ = unsafe { rustix::mm::munmap(aligned as *mut _, len) };
                Err(Errno::NOMEM)
            }
        }
    }

    /// Undoes a mapping of `len` bytes at `address`.
    ///
    /// # Safety
    /// The range must be one mapping of [`Block::map`] with that length, and nobody may use it afterwards.
    pub unsafe fn unmap(&self, address: NonNull<u8>, len: usize) {
        // SAFETY: passed on to the caller.
        let _ = unsafe {
            rustix::mm::munmap(
                address.as_ptr().cast(),
                len.next_multiple_of(self.host_page),
            )
        };
    }
}

/// A range of the device's memory.
#[derive(Debug)]
pub struct Block {
    ram: Arc<Ram>,
    offset: u64,
    size: u64,
    charged: OnceLock<()>,
    host: OnceLock<HostView>,
}

#[derive(Debug)]
struct HostView(NonNull<u8>);

// SAFETY: the address is that of a shared mapping that lives as long as the block; all accesses through it are raw,
// volatile or atomic, and none is owned by a thread.
unsafe impl Send for HostView {}
// SAFETY: as above.
unsafe impl Sync for HostView {}

impl Block {
    /// Size in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Takes the block's size from the device's limit, once: ENOMEM where it is exhausted.
    pub fn charge(&self) -> Result<(), Errno> {
        let mut state = self.ram.lock();
        if self.charged.get().is_none() {
            let charged = state.charged.saturating_add(self.size);
            if charged > self.ram.limit {
                return Err(Errno::NOMEM);
            }
            state.charged = charged;
            let _ = self.charged.set(());
        }
        Ok(())
    }

    /// The driver's and the GPU's own view of the block.
    pub fn host(&self) -> Result<NonNull<u8>, Errno> {
        if let Some(view) = self.host.get() {
            return Ok(view.0);
        }
        let len = usize::try_from(self.size).map_err(|_| Errno::NOMEM)?;
        let align = if len >= LARGE {
            LARGE
        } else {
            BLOCK_ALIGN as usize
        };
        let address = self
            .ram
            .map(self.offset, len, align, ProtFlags::READ | ProtFlags::WRITE)?;
        if self.host.set(HostView(address)).is_err() {
            // SAFETY: another thread's view won; this one was never given out.
            unsafe { self.ram.unmap(address, len) };
        }
        self.host.get().map(|view| view.0).ok_or(Errno::NOMEM)
    }

    /// A client's mapping of `len` bytes from `offset`, aligned to `page_size`.
    pub fn map(
        &self,
        offset: u64,
        len: usize,
        page_size: usize,
        prot: Prot,
    ) -> Result<NonNull<u8>, Errno> {
        let mut flags = ProtFlags::empty();
        flags.set(ProtFlags::READ, prot.contains(Prot::READ));
        flags.set(ProtFlags::WRITE, prot.contains(Prot::WRITE));
        self.ram.map(self.offset + offset, len, page_size, flags)
    }

    /// Copies bytes out of the block. The range must lie in it.
    pub fn read(&self, offset: u64, to: &mut [u8]) -> Result<(), Errno> {
        let from = self.at(offset, to.len())?;
        // SAFETY: `at` has checked the range against the view's length. Others may write meanwhile; the bytes are
        // plain data of which any value is valid.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to.as_mut_ptr(), to.len()) };
        Ok(())
    }

    /// Copies bytes into the block. The range must lie in it.
    pub fn write(&self, offset: u64, from: &[u8]) -> Result<(), Errno> {
        let to = self.at(offset, from.len())?;
        // SAFETY: as in `read`.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to.as_ptr(), from.len()) };
        Ok(())
    }

    /// Like [`Block::write`], for a block that the host need not map.
    pub fn write_unmapped(&self, offset: u64, from: &[u8]) -> Result<(), Errno> {
        offset
            .checked_add(from.len() as u64)
            .filter(|&end| end <= self.size)
            .ok_or(Errno::INVAL)?;
        match rustix::io::pwrite(&self.ram.file, from, self.offset + offset) {
            Ok(n) if n == from.len() => Ok(()),
            _ => Err(Errno::NOMEM),
        }
    }

    fn at(&self, offset: u64, len: usize) -> Result<NonNull<u8>, Errno> {
        let end = offset.checked_add(len as u64).ok_or(Errno::INVAL)?;
        if end > self.size {
            return Err(Errno::INVAL);
        }
        // SAFETY: the offset lies inside the view.
        Ok(unsafe { self.host()?.add(offset as usize) })
    }
}

impl Drop for Ram {
    fn drop(&mut self) {
        self.bury(|_, _| {});
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let mut state = self.ram.lock();
        if let Some(view) = self.host.take() {
            state.buried.push((view, self.size as usize));
        }
        if self.charged.get().is_some() {
            state.charged -= self.size;
        }
        state.blocks -= 1;
        drop(state);
        if self.size > 0 {
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            let _ = rustix::fs::fallocate(
                &self.ram.file,
                flags,
                self.offset,
                self.size.next_multiple_of(BLOCK_ALIGN),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_share_memory_with_their_mappings_and_go_back() {
        let ram = Ram::new(1 << 20).unwrap();
        let block = ram.block(8192).unwrap();
        block.charge().unwrap();
        block.charge().unwrap();
        assert_eq!(ram.charged(), 8192);
        block.write(4096, b"hello").unwrap();
        let client = block
            .map(4096, 4096, 65536, Prot::READ | Prot::WRITE)
            .unwrap();
        assert_eq!(client.as_ptr() as usize % 65536, 0);
        // SAFETY: the mapping was just made and is 4096 bytes long.
        unsafe {
            assert_eq!(*client.as_ptr(), b'h');
            *client.as_ptr() = b'j';
        }
        let mut bytes = [0; 5];
        block.read(4096, &mut bytes).unwrap();
        assert_eq!(&bytes, b"jello");
        assert_eq!(block.read(8190, &mut bytes), Err(Errno::INVAL));
        // SAFETY: the mapping is not used below.
        unsafe { ram.unmap(client, 4096) };
        drop(block);
        assert_eq!((ram.charged(), ram.blocks()), (0, 0));
    }

    #[test]
    fn the_limit_holds() {
        let ram = Ram::new(1 << 20).unwrap();
        let big = ram.block(1 << 30).unwrap();
        assert_eq!(big.charge(), Err(Errno::NOMEM));
        let small = ram.block(1 << 20).unwrap();
        small.charge().unwrap();
        assert_eq!(ram.block(4096).unwrap().charge(), Err(Errno::NOMEM));
        drop(small);
        ram.block(4096).unwrap().charge().unwrap();
        assert_eq!(ram.block(u64::MAX).err(), Some(Errno::NOMEM));
    }
}
