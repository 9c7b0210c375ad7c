//! What the generator remembers.

use super::super::{StepId, Value};

/// A handle in the struct of the ioctl that gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handle {
    /// The ioctl.
    pub step: StepId,
    /// Offset in its struct.
    pub at: usize,
}

impl Handle {
    /// As a value.
    pub fn value(self) -> Value {
        Value::Output {
            step: self.step,
            at: self.at,
            width: 4,
        }
    }
}

/// An open device.
#[derive(Clone, Debug)]
pub struct File {
    /// The call that opened it.
    pub step: StepId,
    /// Whether it is.
    pub open: bool,
    /// VMs.
    pub vms: Vec<Vm>,
    /// Buffer objects.
    pub bos: Vec<Bo>,
    /// Groups.
    pub groups: Vec<Group>,
    /// Syncobjs.
    pub syncobjs: Vec<Syncobj>,
    /// Tiler heaps.
    pub heaps: Vec<Handle>,
    /// Handles of any kind that are gone.
    pub dead: Vec<Handle>,
}

impl File {
    /// Nothing in it yet.
    pub fn new(step: StepId) -> Self {
        Self {
            step,
            open: true,
            vms: Vec::new(),
            bos: Vec::new(),
            groups: Vec::new(),
            syncobjs: Vec::new(),
            heaps: Vec::new(),
            dead: Vec::new(),
        }
    }

    /// The VM with this handle.
    pub fn vm(&mut self, handle: Handle) -> Option<&mut Vm> {
        self.vms.iter_mut().find(|vm| vm.handle == handle)
    }
}

/// A VM.
#[derive(Clone, Debug)]
pub struct Vm {
    /// Its handle.
    pub handle: Handle,
    /// Memory for streams, if it has some.
    pub code: Option<Code>,
    /// Ranges that were mapped, the latest last.
    pub mapped: Vec<(u64, u64)>,
}

/// Memory for streams.
#[derive(Clone, Copy, Debug)]
pub struct Code {
    /// The mapping in which streams are written.
    pub map: StepId,
    /// Offset of the next one.
    pub next: u64,
}

/// A buffer object.
#[derive(Clone, Copy, Debug)]
pub struct Bo {
    /// Its handle.
    pub handle: Handle,
    /// Bytes.
    pub size: u64,
    /// `DRM_PANTHOR_BO_*`.
    pub flags: u32,
    /// The VM that it is for.
    pub exclusive: Option<Handle>,
}

/// A group.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    /// Its handle.
    pub handle: Handle,
    /// Its VM.
    pub vm: Handle,
    /// Number of queues.
    pub queues: u64,
    /// It has probably been killed.
    pub dead: bool,
}

/// A syncobj.
#[derive(Clone, Copy, Debug)]
pub struct Syncobj {
    /// Its handle.
    pub handle: Handle,
    /// It has a fence.
    pub filled: bool,
    /// The last point that was added.
    pub point: u64,
    /// That it exists is beyond doubt.
    pub certain: bool,
}

/// A sync file, or a syncobj as a file.
#[derive(Clone, Copy, Debug)]
pub struct SyncFd {
    /// The call that gave it.
    pub step: StepId,
}

/// A mapping.
#[derive(Clone, Copy, Debug)]
pub struct BoundMap {
    /// The call that made it.
    pub step: StepId,
    /// The file through which it was made.
    pub file: usize,
    /// The object.
    pub handle: Handle,
    /// Bytes.
    pub len: u64,
    /// `PROT_*`.
    pub prot: u32,
    /// Write-back cached, so that BO_SYNC is needed.
    pub cached: bool,
    /// Streams lie in it.
    pub is_code: bool,
}
