//! Executes a sequence on a transport and records what came back.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;

use panthor_uapi::{Errno, Fd, PollEvents, PollFd, Prot, Transport, errno_name};
use serde::{Deserialize, Serialize};

use super::normalise::{descriptor_field, normalise};
use super::{Arg, Buffer, Call, Sequence, StepId, Value, hex};

mod arena;
mod log;

pub use arena::Arena;
pub use log::{KernelLog, Log, Silent};

/// What came back from a sequence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The sequence's seed.
    pub seed: u64,
    /// FNV-1a of everything below, for a quick comparison.
    pub digest: u64,
    /// What every call gave, in order. Left out of records that carry the digest only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<StepRecord>,
    /// Kinds of messages in the kernel's log, `None` where the log cannot be read.
    #[serde(default)]
    pub messages: Option<BTreeSet<String>>,
    /// Lines of the kernel's log that no client may cause: warnings, leaks, crashes. Not part of the digest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alarms: Vec<String>,
}

/// What one call gave.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepRecord {
    /// The call.
    pub id: StepId,
    /// The call's name, for tables.
    pub name: String,
    /// `ok` or the errno's name; `skipped` where the call it needs had failed.
    pub result: String,
    /// What the call changed in its buffers, or what it read: normalised, as `normalise` says.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub out: Vec<Change>,
}

/// Bytes that a call left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// The buffer.
    pub buffer: usize,
    /// Offset of the first byte.
    pub at: usize,
    /// The bytes.
    #[serde(with = "hex")]
    pub bytes: Vec<u8>,
}

impl Record {
    /// FNV-1a of the steps and messages.
    fn digest_of(steps: &[StepRecord], messages: Option<&BTreeSet<String>>) -> u64 {
        let mut hash = Fnv::default();
        for step in steps {
            hash.add(&step.id.to_le_bytes());
            hash.add(step.result.as_bytes());
            for change in &step.out {
                hash.add(&[change.buffer as u8, change.at as u8]);
                hash.add(&change.bytes);
            }
        }
        for message in messages.into_iter().flatten() {
            hash.add(message.as_bytes());
        }
        hash.0
    }
}

/// FNV-1a, 64 bits.
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    fn add(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
}

/// What a call left behind for later ones.
#[derive(Debug)]
enum Left {
    /// A descriptor.
    Fd(Fd),
    /// A mapping.
    Map {
        address: NonNull<u8>,
        len: usize,
        prot: u32,
    },
    /// An ioctl's struct as it came back, and the descriptor in it if there is one.
    Struct { bytes: Vec<u8>, fd: Option<Fd> },
}

/// Runs sequences on one device.
pub struct Runner<'a> {
    transport: &'a dyn Transport,
    path: PathBuf,
    arena: Arena,
    /// Print every call before it is issued: the last line names the call that the kernel did not survive.
    pub trace: bool,
}

/// One sequence under way.
struct Run<'r, 'a> {
    runner: &'r mut Runner<'a>,
    left: BTreeMap<StepId, Left>,
}

impl<'a> Runner<'a> {
    /// Runs on the device at `path` of `transport`.
    ///
    /// # Errors
    /// ENOMEM where there is no memory for the buffers.
    pub fn new(transport: &'a dyn Transport, path: &Path) -> Result<Self, Errno> {
        Ok(Self {
            transport,
            path: path.into(),
            arena: Arena::new()?,
            trace: false,
        })
    }

    /// Executes a sequence, closes whatever it left open, lets the teardown happen, and records.
    pub fn run(&mut self, sequence: &Sequence, log: &mut dyn Log) -> Record {
        /// Time for what the last close leaves to the driver's own workers.
        const TEARDOWN_NS: u64 = 100_000_000;
        log.take();
        let (transport, trace) = (self.transport, self.trace);
        let mut run = Run {
            runner: self,
            left: BTreeMap::new(),
        };
        let mut steps = Vec::with_capacity(sequence.steps.len());
        for step in &sequence.steps {
            if trace {
                eprintln!(
                    "seed {} call {} {}",
                    sequence.seed,
                    step.id,
                    step.call.name()
                );
            }
            let (result, out) = run.call(step.id, &step.call);
            steps.push(StepRecord {
                id: step.id,
                name: step.call.name(),
                result: result.into_owned(),
                out,
            });
        }
        run.close_all();
        transport.sleep_until(transport.now().saturating_add(TEARDOWN_NS));
        let (messages, alarms) = log::classify(log.take());
        Record {
            seed: sequence.seed,
            digest: Record::digest_of(&steps, messages.as_ref()),
            steps,
            messages,
            alarms,
        }
    }
}

type Outcome = (std::borrow::Cow<'static, str>, Vec<Change>);

fn outcome<T>(result: Result<T, Errno>) -> Outcome {
    match result {
        Ok(_) => ("ok".into(), Vec::new()),
        Err(errno) => (errno_name(errno).into(), Vec::new()),
    }
}

fn skipped() -> Outcome {
    ("skipped".into(), Vec::new())
}

impl Run<'_, '_> {
    fn fd(&self, step: StepId) -> Fd {
        match self.left.get(&step) {
            Some(&Left::Fd(fd)) => fd,
            Some(Left::Struct { fd: Some(fd), .. }) => *fd,
            _ => Fd::from_raw(-1),
        }
    }

    fn value(&self, value: Value, addresses: &[u64]) -> u64 {
        match value {
            Value::Number(number) => number,
            Value::Pointer(buffer) => addresses.get(buffer).copied().unwrap_or(0),
            Value::Output { step, at, width } => match self.left.get(&step) {
                Some(Left::Struct { bytes, .. }) => {
                    let mut number = [0; 8];
                    let field = bytes.get(at..at + width.min(8)).unwrap_or_default();
                    number[..field.len()].copy_from_slice(field);
                    u64::from_le_bytes(number)
                }
                _ => 0,
            },
            Value::Fd(step) => u64::from(self.fd(step).raw() as u32),
            Value::Deadline(ns) => self.runner.transport.now().saturating_add(ns),
        }
    }

    fn call(&mut self, id: StepId, call: &Call) -> Outcome {
        let transport = self.runner.transport;
        match call {
            Call::Open => self.opened(id, transport.open(&self.runner.path)),
            Call::Eventfd => self.opened(id, transport.eventfd(0)),
            Call::Close { fd } => {
                let Some(fd) = self.take_fd(*fd) else {
                    return skipped();
                };
                // SAFETY: the number was taken out of what is left: nobody uses it any more.
                outcome(unsafe { transport.close(fd) })
            }
            Call::Ioctl {
                fd,
                request,
                arg,
                buffers,
            } => self.ioctl(id, *fd, *request, *arg, buffers),
            Call::Mmap {
                fd,
                offset,
                len,
                prot,
            } => {
                let offset = self.value(*offset, &[]);
                let len = *len as usize;
                let flags = Prot::from_bits_truncate(*prot);
                let mapped = transport.mmap(self.fd(*fd), offset, len, flags);
                if let Ok(address) = mapped {
                    let prot = *prot;
                    self.left.insert(id, Left::Map { address, len, prot });
                }
                outcome(mapped)
            }
            Call::Munmap { map } => match self.left.remove(map) {
                Some(Left::Map { address, len, .. }) => {
                    // SAFETY: the mapping was taken out of what is left: nobody uses it any more.
                    outcome(unsafe { transport.munmap(address, len) })
                }
                _ => skipped(),
            },
            Call::Write { map, at, bytes } => match self.window(*map, *at, bytes.len(), 2) {
                Some(to) => {
                    for (index, &byte) in bytes.iter().enumerate() {
                        // SAFETY: `window` has checked that the range lies in a writable mapping that is still there.
                        unsafe { to.add(index).write_volatile(byte) };
                    }
                    outcome(Ok(()))
                }
                None => skipped(),
            },
            Call::Read { map, at, len } => match self.read(*map, *at, *len as usize) {
                Some(bytes) => ("ok".into(), vec![changed(0, *at as usize, bytes)]),
                None => skipped(),
            },
            Call::Hash { map } => {
                let Some(&Left::Map { len, .. }) = self.left.get(map) else {
                    return skipped();
                };
                let Some(bytes) = self.read(*map, 0, len) else {
                    return skipped();
                };
                let mut hash = Fnv::default();
                hash.add(&bytes);
                (
                    "ok".into(),
                    vec![changed(0, 0, hash.0.to_be_bytes().to_vec())],
                )
            }
            Call::ReadEventfd { fd } => match transport.read_eventfd(self.fd(*fd)) {
                Ok(count) => (
                    "ok".into(),
                    vec![changed(0, 0, count.to_le_bytes().to_vec())],
                ),
                Err(errno) => outcome::<()>(Err(errno)),
            },
            Call::Poll {
                fd,
                events,
                timeout_ns,
            } => {
                let mut entry = [PollFd::new(
                    self.fd(*fd),
                    PollEvents::from_bits_retain(*events),
                )];
                let deadline = transport.now().saturating_add(*timeout_ns);
                let (result, _) = outcome(transport.poll(&mut entry, Some(deadline)));
                let found = entry[0].revents.bits().to_le_bytes();
                (result, vec![changed(0, 0, found.to_vec())])
            }
            Call::SeekEnd { fd } => match transport.seek_end(self.fd(*fd)) {
                Ok(size) => (
                    "ok".into(),
                    vec![changed(0, 0, size.to_le_bytes().to_vec())],
                ),
                Err(errno) => outcome::<()>(Err(errno)),
            },
            Call::Sleep { ns } => {
                transport.sleep_until(transport.now().saturating_add(*ns));
                outcome(Ok(()))
            }
        }
    }

    fn opened(&mut self, id: StepId, result: Result<Fd, Errno>) -> Outcome {
        if let Ok(fd) = result {
            self.left.insert(id, Left::Fd(fd));
        }
        outcome(result)
    }

    fn ioctl(
        &mut self,
        id: StepId,
        fd: StepId,
        request: u32,
        arg: Arg,
        buffers: &[Buffer],
    ) -> Outcome {
        if self.would_kill(request, buffers) {
            return skipped();
        }
        let sizes: Vec<usize> = buffers.iter().map(|buffer| buffer.bytes.len()).collect();
        let addresses = self.runner.arena.addresses(&sizes);
        let filled: Vec<Vec<u8>> = buffers
            .iter()
            .map(|buffer| {
                let mut bytes = buffer.bytes.clone();
                for placed in &buffer.values {
                    let number = self.value(placed.value, &addresses).to_le_bytes();
                    if let Some(field) = bytes.get_mut(placed.at..placed.at + placed.width.min(8)) {
                        field.copy_from_slice(&number[..field.len()]);
                    }
                }
                bytes
            })
            .collect();
        self.runner.arena.fill(&filled);
        let arg = match arg {
            Arg::Buffer => addresses.first().copied().unwrap_or(0),
            Arg::Bad(address) => address,
        };
        let descriptor = self.fd(fd);
        // SAFETY: whatever the struct says, it leads to the arena's buffers, to the holes behind them, or to addresses
        // that no process has; what the kernel writes there is copied out below.
        let result = unsafe {
            self.runner
                .transport
                .ioctl(descriptor, request, arg as usize as *mut u8)
        };
        let mut after = self.runner.arena.contents(&sizes);
        if result.is_ok() && request >> 30 & 2 != 0 {
            if let Some(head) = after.first() {
                let (bytes, fd) = (head.clone(), descriptor_in(request, head));
                self.left.insert(id, Left::Struct { bytes, fd });
            }
        }
        normalise(request, &mut after);
        let (text, mut out) = outcome(result);
        for (index, (before, after)) in filled.iter().zip(&after).enumerate() {
            changes(index, before, after, &mut out);
        }
        (text, out)
    }

    /// Whether the call has a sync operation whose syncobj was never made. Linux up to 7.3 dereferences NULL where such
    /// an operation signals (`panthor_submit_ctx_add_sync_signal`), and when calls are taken out of a sequence, what made
    /// the syncobj may be among them.
    fn would_kill(&self, request: u32, buffers: &[Buffer]) -> bool {
        use panthor_uapi::sys::panthor::{
            DRM_IOCTL_PANTHOR_GROUP_SUBMIT, DRM_IOCTL_PANTHOR_VM_BIND,
        };
        if ![DRM_IOCTL_PANTHOR_GROUP_SUBMIT, DRM_IOCTL_PANTHOR_VM_BIND].contains(&request) {
            return false;
        }
        let mut values = buffers.iter().skip(2).flat_map(|buffer| &buffer.values);
        values.any(|placed| match placed.value {
            Value::Output { step, .. } => !self.left.contains_key(&step),
            _ => false,
        })
    }

    /// The address of `len` bytes at `at` of a mapping that allows `prot`.
    fn window(&self, map: StepId, at: u64, len: usize, needs: u32) -> Option<*mut u8> {
        let Some(Left::Map {
            address,
            len: mapped,
            prot,
        }) = self.left.get(&map)
        else {
            return None;
        };
        let end = usize::try_from(at).ok()?.checked_add(len)?;
        // SAFETY: the offset lies in the mapping.
        (end <= *mapped && prot & needs == needs)
            .then(|| unsafe { address.as_ptr().add(at as usize) })
    }

    fn read(&self, map: StepId, at: u64, len: usize) -> Option<Vec<u8>> {
        let from = self.window(map, at, len, 1)?;
        let byte = |index| {
            // SAFETY: `window` has checked that the range lies in a readable mapping that is still there.
            unsafe { from.add(index).read_volatile() }
        };
        Some((0..len).map(byte).collect())
    }

    /// Takes a descriptor out of what is left.
    fn take_fd(&mut self, step: StepId) -> Option<Fd> {
        match self.left.get_mut(&step)? {
            Left::Fd(fd) => {
                let fd = *fd;
                self.left.remove(&step);
                Some(fd)
            }
            Left::Struct { fd, .. } => fd.take(),
            Left::Map { .. } => None,
        }
    }

    fn close_all(&mut self) {
        let transport = self.runner.transport;
        for (_, left) in std::mem::take(&mut self.left) {
            match left {
                Left::Fd(fd) | Left::Struct { fd: Some(fd), .. } => {
                    // SAFETY: nobody has the number but this run, which is over.
                    let _ = unsafe { transport.close(fd) };
                }
                Left::Map { address, len, .. } => {
                    // SAFETY: nobody has the address but this run, which is over.
                    let _ = unsafe { transport.munmap(address, len) };
                }
                Left::Struct { fd: None, .. } => {}
            }
        }
    }
}

/// The descriptor that an ioctl has put into its struct.
fn descriptor_in(request: u32, head: &[u8]) -> Option<Fd> {
    let at = descriptor_field(request)?;
    let field = head.get(at..at + 4)?;
    let number = i32::from_le_bytes(field.try_into().ok()?);
    (number >= 0).then_some(Fd::from_raw(number))
}

fn changed(buffer: usize, at: usize, bytes: Vec<u8>) -> Change {
    Change { buffer, at, bytes }
}

/// The runs of bytes in which the two differ.
fn changes(buffer: usize, before: &[u8], after: &[u8], out: &mut Vec<Change>) {
    let mut at = 0;
    while at < after.len() {
        let same = |at: usize| before.get(at) == after.get(at);
        if same(at) {
            at += 1;
            continue;
        }
        let start = at;
        while at < after.len() && !same(at) {
            at += 1;
        }
        out.push(changed(buffer, start, after[start..at].to_vec()));
    }
}
