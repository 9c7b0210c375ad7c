//! Copies from and to user pointers, as the kernel's `copy_from_user` and `copy_to_user`: a bad pointer is EFAULT.
//!
//! Client and driver share one process here, so a wild pointer must not be dereferenced. The copies go through
//! `process_vm_readv` and `process_vm_writev` on the process itself: the kernel checks the address and the protection
//! and answers EFAULT. Where a sandbox forbids these calls, `/proc/self/mem` serves.

use std::os::unix::fs::FileExt;

use panthor_uapi::Errno;

/// Fills `to` from the user address `from`.
pub fn read(from: u64, to: &mut [u8]) -> Result<(), Errno> {
    if to.is_empty() {
        return Ok(());
    }
    let address = usize::try_from(from).map_err(|_| Errno::FAULT)?;
    let local = libc::iovec {
        iov_base: to.as_mut_ptr().cast(),
        iov_len: to.len(),
    };
    let remote = libc::iovec {
        iov_base: address as *mut libc::c_void,
        iov_len: to.len(),
    };
    // SAFETY: the local vector is `to`, exclusively borrowed; the remote one is only an address that the kernel checks.
    let done = unsafe { libc::process_vm_readv(libc::getpid(), &local, 1, &remote, 1, 0) };
    match finish(done, to.len()) {
        Refused::No(result) => result,
        Refused::Yes => own_memory(false)?
            .read_exact_at(to, from)
            .map_err(|_| Errno::FAULT),
    }
}

/// Copies `from` to the user address `to`.
pub fn write(to: u64, from: &[u8]) -> Result<(), Errno> {
    if from.is_empty() {
        return Ok(());
    }
    let address = usize::try_from(to).map_err(|_| Errno::FAULT)?;
    let local = libc::iovec {
        iov_base: from.as_ptr().cast_mut().cast(),
        iov_len: from.len(),
    };
    let remote = libc::iovec {
        iov_base: address as *mut libc::c_void,
        iov_len: from.len(),
    };
    // SAFETY: the local vector is `from`, which the call only reads; the remote one is an address that the kernel
    // checks. That the bytes there may be written is the contract of `Transport::ioctl`.
    let done = unsafe { libc::process_vm_writev(libc::getpid(), &local, 1, &remote, 1, 0) };
    match finish(done, from.len()) {
        Refused::No(result) => result,
        Refused::Yes => own_memory(true)?
            .write_all_at(from, to)
            .map_err(|_| Errno::FAULT),
    }
}

enum Refused {
    No(Result<(), Errno>),
    Yes,
}

fn finish(done: isize, len: usize) -> Refused {
    if done >= 0 {
        let whole = done as usize == len;
        return Refused::No(if whole { Ok(()) } else { Err(Errno::FAULT) });
    }
    match std::io::Error::last_os_error().raw_os_error() {
        Some(libc::ENOSYS | libc::EPERM) => Refused::Yes,
        Some(libc::ENOMEM) => Refused::No(Err(Errno::NOMEM)),
        _ => Refused::No(Err(Errno::FAULT)),
    }
}

fn own_memory(write: bool) -> Result<std::fs::File, Errno> {
    std::fs::OpenOptions::new()
        .read(true)
        .write(write)
        .open("/proc/self/mem")
        .map_err(|_| Errno::FAULT)
}

/// Reads one `T` at the user address `from`.
pub fn read_value<T: zerocopy::FromBytes + zerocopy::IntoBytes>(from: u64) -> Result<T, Errno> {
    let mut value = T::new_zeroed();
    read(from, value.as_mut_bytes())?;
    Ok(value)
}

/// Writes one `T` to the user address `to`.
pub fn write_value<T: zerocopy::IntoBytes + zerocopy::Immutable>(
    to: u64,
    value: &T,
) -> Result<(), Errno> {
    write(to, value.as_bytes())
}

/// Writes `len` zero bytes to the user address `to` (`clear_user`).
pub fn clear(to: u64, len: u64) -> Result<(), Errno> {
    let zeros = [0; 4096];
    chunks(to, len, |at, n| write(at, &zeros[..n]))
}

/// EFAULT where the range cannot be read, E2BIG where it holds anything but zeros (`check_zeroed_user`).
fn check_zeroed(from: u64, len: u64) -> Result<(), Errno> {
    let mut bytes = [0; 4096];
    chunks(from, len, |at, n| {
        read(at, &mut bytes[..n])?;
        if bytes[..n].iter().all(|&byte| byte == 0) {
            Ok(())
        } else {
            Err(Errno::TOOBIG)
        }
    })
}

fn chunks(
    start: u64,
    len: u64,
    mut each: impl FnMut(u64, usize) -> Result<(), Errno>,
) -> Result<(), Errno> {
    let mut done = 0;
    while done < len {
        let at = start.checked_add(done).ok_or(Errno::FAULT)?;
        // To the end of the (smallest) page: what lies before a hole counts before the hole does.
        let n = (len - done).min(4096 - at % 4096);
        each(at, n as usize)?;
        done += n;
    }
    Ok(())
}

/// Fills `to` from a user struct of `user_size` bytes: a smaller one is padded with zeros, the excess of a larger one
/// must be zero (`copy_struct_from_user`: E2BIG, EFAULT).
pub fn read_struct(from: u64, user_size: u64, to: &mut [u8]) -> Result<(), Errno> {
    let own = to.len() as u64;
    if user_size > own {
        check_zeroed(from.checked_add(own).ok_or(Errno::FAULT)?, user_size - own)?;
    }
    let common = user_size.min(own) as usize;
    to[common..].fill(0);
    read(from, &mut to[..common])
}

/// Reads a NUL-terminated string of at most `max` bytes with its NUL (`strndup_user`: EFAULT, EINVAL when longer).
pub fn read_string(from: u64, max: usize) -> Result<Vec<u8>, Errno> {
    let mut string = Vec::new();
    while string.len() < max {
        // Up to the end of the (smallest) page, so that a string at the end of a mapping is read.
        let at = from.checked_add(string.len() as u64).ok_or(Errno::FAULT)?;
        let n = (4096 - (at % 4096) as usize).min(max - string.len());
        let start = string.len();
        string.resize(start + n, 0);
        read(at, &mut string[start..])?;
        if let Some(end) = string[start..].iter().position(|&byte| byte == 0) {
            string.truncate(start + end);
            return Ok(string);
        }
    }
    Err(Errno::INVAL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_pointers_are_efault() {
        let mut bytes = [0; 8];
        for bad in [0, 8, 1 << 63, u64::MAX - 3] {
            assert_eq!(read(bad, &mut bytes), Err(Errno::FAULT), "{bad:#x}");
            assert_eq!(write(bad, &bytes), Err(Errno::FAULT), "{bad:#x}");
        }
        static READ_ONLY: [u8; 8] = *b"constant";
        read(READ_ONLY.as_ptr() as u64, &mut bytes).unwrap();
        assert_eq!(&bytes, b"constant");
    }

    #[test]
    fn larger_structs_must_end_in_zeros() {
        let mut source = [1_u8, 2, 3, 4, 0, 0, 0, 0];
        let mut own = [9_u8; 4];
        read_struct(source.as_ptr() as u64, 8, &mut own).unwrap();
        assert_eq!(own, [1, 2, 3, 4]);
        source[7] = 1;
        assert_eq!(
            read_struct(source.as_ptr() as u64, 8, &mut own),
            Err(Errno::TOOBIG)
        );
        read_struct(source.as_ptr() as u64, 2, &mut own).unwrap();
        assert_eq!(own, [1, 2, 0, 0]);
    }

    #[test]
    fn strings_end_at_their_nul() {
        let text = b"abc\0def";
        assert_eq!(read_string(text.as_ptr() as u64, 7).unwrap(), b"abc");
        assert_eq!(read_string(text.as_ptr() as u64, 3), Err(Errno::INVAL));
        assert_eq!(read_string(16, 3), Err(Errno::FAULT));
    }
}
