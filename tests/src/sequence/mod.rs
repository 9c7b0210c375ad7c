//! Differential testing: random sequences of system calls, run by the simulator and by the real driver, compared call by
//! call.
//!
//! A [`Sequence`] is plain data: which call, on which of the descriptors that earlier calls gave, with which bytes. What
//! differs from one run to the next (descriptors, addresses, handles, clocks) stands in it as a [`Value`] that the runner
//! fills in, so that both devices get the same raw bytes otherwise, and calls can be taken out one by one.
//!
//! - [`generate`]: a sequence from a seed;
//! - [`run`]: executes it on a transport and records what came back;
//! - [`compare`]: the first difference of two records, and the smallest sequence that still shows it;
//! - [`coverage`]: which errno came from which ioctl.
//!
//! # Time
//! When a job ends relative to the calls that follow it is nobody's promise. The generator therefore puts a pause
//! ([`Call::Sleep`]) before every call whose result depends on jobs or asynchronous binds that were issued since the last
//! pause: what is recorded is only what is decided. [`generate::Mode::Racy`] leaves the pauses out; its records must not be compared, it is for
//! finding crashes.

pub mod compare;
pub mod coverage;
pub mod generate;
pub mod hex;
mod normalise;
pub mod rng;
pub mod run;

use serde::{Deserialize, Serialize};

/// The number of a call in its sequence. It stays the same when other calls are taken out.
pub type StepId = u32;

/// A sequence of calls.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sequence {
    /// The seed that it was made from.
    pub seed: u64,
    /// The calls, in order, with growing numbers.
    pub steps: Vec<Step>,
}

/// One call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// Its number.
    pub id: StepId,
    /// What is called.
    pub call: Call,
}

/// What is called.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Call {
    /// Opens the device.
    Open,
    /// Closes what an earlier call gave.
    Close {
        /// That call.
        fd: StepId,
    },
    /// An ioctl.
    Ioctl {
        /// The call that gave the descriptor.
        fd: StepId,
        /// The request number as it is passed.
        request: u32,
        /// What the argument points to: buffer 0, or a bad address.
        arg: Arg,
        /// Memory: the struct, and what it points to.
        buffers: Vec<Buffer>,
    },
    /// Maps (shared).
    Mmap {
        /// The call that gave the descriptor.
        fd: StepId,
        /// The file offset.
        offset: Value,
        /// Bytes.
        len: u64,
        /// `PROT_READ` and `PROT_WRITE` as bits 0 and 1.
        prot: u32,
    },
    /// Undoes a mapping.
    Munmap {
        /// The call that made it.
        map: StepId,
    },
    /// Writes to a mapping.
    Write {
        /// The call that made it.
        map: StepId,
        /// Offset of the first byte.
        at: u64,
        /// What to write.
        #[serde(with = "hex")]
        bytes: Vec<u8>,
    },
    /// Records what a mapping holds.
    Read {
        /// The call that made it.
        map: StepId,
        /// Offset of the first byte.
        at: u64,
        /// Bytes.
        len: u64,
    },
    /// Records a hash of a whole mapping.
    Hash {
        /// The call that made it.
        map: StepId,
    },
    /// Creates an eventfd.
    Eventfd,
    /// Takes an eventfd's count.
    ReadEventfd {
        /// The call that made it.
        fd: StepId,
    },
    /// Polls one descriptor.
    Poll {
        /// The call that gave it.
        fd: StepId,
        /// `POLL*`.
        events: u16,
        /// Nanoseconds from now to the deadline.
        timeout_ns: u64,
    },
    /// `lseek(fd, 0, SEEK_END)`.
    SeekEnd {
        /// The call that gave it.
        fd: StepId,
    },
    /// Lets time pass.
    Sleep {
        /// Nanoseconds.
        ns: u64,
    },
}

/// Where an ioctl's argument points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arg {
    /// Buffer 0.
    Buffer,
    /// An address that nobody may use.
    Bad(u64),
}

/// Memory of the caller's. It ends at the end of a page behind which there is nothing, so that a length that lies meets
/// a hole and not other memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Buffer {
    /// The bytes.
    #[serde(with = "hex")]
    pub bytes: Vec<u8>,
    /// What is put over them when the call is issued.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<Placed>,
}

/// A value at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placed {
    /// Offset in the buffer.
    pub at: usize,
    /// Bytes, at most 8.
    pub width: usize,
    /// The value.
    pub value: Value,
}

/// A number that is known only when the call is issued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Value {
    /// Known before.
    Number(u64),
    /// The address of another buffer of the same call.
    Pointer(usize),
    /// What an earlier ioctl left in its struct: 0 where that call is gone.
    Output {
        /// The ioctl.
        step: StepId,
        /// Offset in buffer 0.
        at: usize,
        /// Bytes.
        width: usize,
    },
    /// The descriptor that an earlier call gave: -1 where that call failed or is gone.
    Fd(StepId),
    /// This many nanoseconds from now on the transport's clock.
    Deadline(u64),
}

impl Call {
    /// The call's name, as tables show it.
    pub fn name(&self) -> String {
        let name = match self {
            Call::Open => "open",
            Call::Close { .. } => "close",
            Call::Ioctl { request, .. } => return request_name(*request),
            Call::Mmap { .. } => "mmap",
            Call::Munmap { .. } => "munmap",
            Call::Write { .. } => "write",
            Call::Read { .. } => "read",
            Call::Hash { .. } => "hash",
            Call::Eventfd => "eventfd",
            Call::ReadEventfd { .. } => "read eventfd",
            Call::Poll { .. } => "poll",
            Call::SeekEnd { .. } => "lseek",
            Call::Sleep { .. } => "sleep",
        };
        name.into()
    }
}

/// The name of a request, whatever size and direction it was given.
fn request_name(request: u32) -> String {
    use panthor_uapi::sys::{drm, panthor, sync_file};
    let tables = [panthor::REQUESTS, drm::REQUESTS, sync_file::REQUESTS];
    let known = tables
        .into_iter()
        .flatten()
        .find(|known| known.value as u32 & 0xffff == request & 0xffff);
    match known {
        Some(known) => known
            .name
            .trim_start_matches("DRM_IOCTL_")
            .trim_start_matches("PANTHOR_")
            .to_owned(),
        None => format!("ioctl {request:#x}"),
    }
}
