//! Names of error numbers, for messages and reports.

use super::Errno;

/// Defines [`errno_name`] from a list of `CONSTANT "NAME"`.
macro_rules! errno_names {
    ($($name:ident $text:literal),* $(,)?) => {
        /// The kernel's name of an error number (`"EINVAL"`), for those that DRM and the calls around it return;
        /// `"errno"` for any other.
        pub fn errno_name(errno: Errno) -> &'static str {
            match errno {
                $(Errno::$name => $text,)*
                _ => "errno",
            }
        }
    };
}

errno_names! {
    PERM "EPERM", NOENT "ENOENT", INTR "EINTR", IO "EIO", NXIO "ENXIO", TOOBIG "E2BIG", BADF "EBADF", AGAIN "EAGAIN",
    NOMEM "ENOMEM", ACCESS "EACCES", FAULT "EFAULT", BUSY "EBUSY", EXIST "EEXIST", NODEV "ENODEV", NOTDIR "ENOTDIR",
    ISDIR "EISDIR", INVAL "EINVAL", NFILE "ENFILE", MFILE "EMFILE", NOTTY "ENOTTY", FBIG "EFBIG", NOSPC "ENOSPC",
    SPIPE "ESPIPE", ROFS "EROFS", DOM "EDOM", RANGE "ERANGE", DEADLK "EDEADLK", NOSYS "ENOSYS", LOOP "ELOOP",
    TIME "ETIME", OVERFLOW "EOVERFLOW", OPNOTSUPP "EOPNOTSUPP", TIMEDOUT "ETIMEDOUT", ALREADY "EALREADY",
    SRCH "ESRCH", STALE "ESTALE", CANCELED "ECANCELED", HWPOISON "EHWPOISON",
}
