//! What can go wrong, with the ioctl, the object, the errno and what to do about it.

use std::fmt;
use std::path::PathBuf;

use crate::sys::panthor::GroupStateFlags;
use crate::transport::{Errno, errno_name};

/// The object that a call was about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Object {
    /// The device, by the path it was opened at.
    Device(PathBuf),
    /// A buffer object: its handle and its label ("" if it has none).
    Bo(u32, String),
    /// A VM's id.
    Vm(u32),
    /// A group's handle.
    Group(u32),
    /// A tiler heap's handle.
    TilerHeap(u32),
    /// A syncobj's handle.
    Syncobj(u32),
    /// A file descriptor: a sync file, dma-buf or eventfd.
    Fd(i32),
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Object::Device(path) => write!(f, "{}", path.display()),
            Object::Bo(handle, label) if label.is_empty() => write!(f, "BO {handle}"),
            Object::Bo(handle, label) => write!(f, "BO {handle} \"{label}\""),
            Object::Vm(id) => write!(f, "VM {id}"),
            Object::Group(handle) => write!(f, "group {handle}"),
            Object::TilerHeap(handle) => write!(f, "tiler heap {handle:#x}"),
            Object::Syncobj(handle) => write!(f, "syncobj {handle}"),
            Object::Fd(fd) => write!(f, "fd {fd}"),
        }
    }
}

/// The driver's version: `major.minor`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// Changes never, so far.
    pub major: u32,
    /// Grows with every addition.
    pub minor: u32,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// What the driver says about a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct GroupState {
    /// Empty while the group accepts jobs.
    pub flags: GroupStateFlags,
    /// Mask of the queues with fatal faults.
    pub fatal_queues: u32,
}

impl GroupState {
    /// Whether the group will never run a job again.
    pub fn is_dead(&self) -> bool {
        self.flags
            .intersects(GroupStateFlags::TIMEDOUT | GroupStateFlags::FATAL_FAULT)
    }
}

impl fmt::Display for GroupState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.flags.is_empty() {
            return f.write_str("alive");
        }
        bitflags::parser::to_writer(&self.flags, &mut *f)?;
        if self.fatal_queues != 0 {
            write!(f, ", fatal queues {:#x}", self.fatal_queues)?;
        }
        Ok(())
    }
}

/// Everything that the safe handles can fail with.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A system call failed.
    #[error("{call} on {object}: {} ({errno}); {}", errno_name(*errno), remedy(call, *errno))]
    Call {
        /// The ioctl or system call.
        call: &'static str,
        /// What it was about.
        object: Object,
        /// What the kernel said.
        errno: Errno,
    },

    /// The node is driven by something else.
    #[error("{} belongs to driver \"{driver}\", not \"panthor\"; name another node of /dev/dri/renderD*", path.display())]
    NotPanthor {
        /// The node.
        path: PathBuf,
        /// The driver's name.
        driver: String,
    },

    /// The driver is panthor, but of a major version that this library does not know.
    #[error("{} speaks panthor {has}, this program speaks major version 1; update the program", path.display())]
    UnknownMajor {
        /// The node.
        path: PathBuf,
        /// The driver's version.
        has: Version,
    },

    /// The driver is too old for what was asked. Nothing was issued.
    #[error("{feature} needs panthor {needs}, the driver is {has}; run a newer kernel")]
    Unsupported {
        /// What was asked.
        feature: &'static str,
        /// The first version that has it.
        needs: Version,
        /// The driver's version.
        has: Version,
    },

    /// A submission was refused since the group is dead. Sticky: the group must be replaced.
    #[error("{group} is lost ({state}); destroy it and create another")]
    DeviceLost {
        /// The group.
        group: Object,
        /// Its state.
        state: GroupState,
    },

    /// An operation was refused since the VM is unusable. Sticky: the VM and its groups must be replaced.
    #[error(
        "{vm} is unusable since an asynchronous bind failed; create another and its groups with it"
    )]
    VmLost {
        /// The VM.
        vm: Object,
    },

    /// An argument that no driver could accept. Nothing was issued.
    #[error("{object}: {what}")]
    Argument {
        /// The object.
        object: Object,
        /// What is wrong with the argument.
        what: String,
    },
}

impl Error {
    /// The kernel's errno, where there is one.
    pub fn errno(&self) -> Option<Errno> {
        match self {
            Error::Call { errno, .. } => Some(*errno),
            _ => None,
        }
    }

    /// Whether the device itself is gone (ENODEV from every call), so that no new group or VM helps.
    pub fn is_device_gone(&self) -> bool {
        self.errno() == Some(Errno::NODEV)
    }
}

/// One line on what to do about an errno.
fn remedy(call: &str, errno: Errno) -> &'static str {
    match errno {
        Errno::ACCESS | Errno::PERM if call == "open" => {
            "add yourself to group \"render\" and log in again"
        }
        Errno::ACCESS | Errno::PERM => "needs CAP_SYS_NICE, or an object that allows it",
        Errno::NOENT if call == "open" => "no such node: is the panthor module loaded?",
        Errno::NOENT => "no such handle",
        Errno::BADF => "not an open descriptor",
        Errno::NOTTY => "not a DRM device, or a kernel without this ioctl",
        Errno::NODEV | Errno::NXIO => "the device is gone: unbind and bind the driver, or reboot",
        Errno::NOMEM => "out of memory or address space: use smaller buffers or free some",
        Errno::NOSPC => "no room: destroy unused objects",
        Errno::MFILE | Errno::NFILE => "too many open files: raise the limit (ulimit -n)",
        Errno::INVAL => "the driver refuses these arguments: see dmesg",
        Errno::TOOBIG => "longer than this kernel knows",
        Errno::AGAIN => "still busy after many attempts: try again later",
        Errno::INTR => "interrupted again and again",
        Errno::OPNOTSUPP => "this driver has no such feature",
        Errno::IO => "input/output error: see dmesg",
        _ => "see dmesg",
    }
}
