//! The suspend buffer: what a group was when it left its slot.
//!
//! ```text
//! 0x00  mark "PSB1"        0x08  sum of what follows (FNV-1a, 64 bits)
//! 0x04  bytes in all       0x10  streams, one after another:
//!                                u8 index, u8 flags, u16 chunks, u32 bytes of state, u64 ring base, u64 ring size,
//!                                u64 cycles of its longest task, state
//! ```
//! The state is [`crate::csf::Queue::save`]'s. The driver gives the memory and must not touch it; that it has not is
//! checked, not trusted.

use super::layout::{STREAMS, SUSPEND_BYTES};
use super::mcu::{Activity, Group};
use super::{BadSuspend, Breach};
use crate::csf::Device;
use crate::hw::ctx::{Ctx, McuFault};

/// "PSB1".
const MARK: u32 = u32::from_le_bytes(*b"PSB1");
const HEADER: usize = 0x10;
const RECORD: usize = 32;
const DEAD: u8 = 1;

/// A stream as the buffer holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SavedStream {
    pub base: u64,
    pub size: u64,
    pub dead: bool,
    /// Chunks that its tiler waits for.
    pub oom: u16,
    /// Cycles of the longest task of its jobs.
    pub task: u64,
    pub state: Vec<u8>,
}

/// Why a group cannot be loaded.
#[derive(Debug)]
pub(super) enum Problem {
    Access(McuFault),
    Contents(BadSuspend),
}

impl Problem {
    pub(super) fn breach(self, slot: usize, buffer: u64) -> Breach {
        match self {
            Problem::Access(fault) => Breach::SuspendBuffer(slot, buffer, fault.to_string()),
            Problem::Contents(bad) => Breach::SuspendContents(slot, bad),
        }
    }
}

/// FNV-1a (Fowler, Noll, Vo): to notice changes, not to keep anybody out.
fn sum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    })
}

/// Writes a group's streams into its buffer.
pub(super) fn store(
    ctx: &mut Ctx<'_>,
    device: &Device,
    slot: usize,
    group: &Group,
    cycle: u64,
) -> Result<(), Breach> {
    let mut bytes = vec![0; HEADER];
    let room = (SUSPEND_BYTES as usize - HEADER) / STREAMS - RECORD;
    for (index, stream) in group.streams.iter().enumerate() {
        let Some(stream) = stream else { continue };
        let dead = matches!(stream.activity, Activity::Dead | Activity::PageFault(_));
        let state = stream.queue.save(device, cycle, room);
        bytes.push(index as u8);
        bytes.push(dead.into());
        bytes.extend(stream.oom.to_le_bytes());
        bytes.extend((state.len() as u32).to_le_bytes());
        bytes.extend(stream.base.to_le_bytes());
        bytes.extend(stream.size.to_le_bytes());
        let task = stream.jobs.iter().map(|job| job.task).max();
        bytes.extend(task.unwrap_or(0).to_le_bytes());
        bytes.extend(state);
    }
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    if bytes.len() > SUSPEND_BYTES as usize {
        return Err(Breach::SuspendTooBig(slot, bytes.len()));
    }
    let len = bytes.len() as u32;
    let check = sum(&bytes[HEADER..]);
    bytes[..4].copy_from_slice(&MARK.to_le_bytes());
    bytes[4..8].copy_from_slice(&len.to_le_bytes());
    bytes[8..HEADER].copy_from_slice(&check.to_le_bytes());
    let buffer = group.suspend_buffer;
    for (word, chunk) in bytes.chunks_exact(8).enumerate() {
        let value = chunk.try_into().map(u64::from_le_bytes).unwrap_or(0);
        ctx.write64(buffer.wrapping_add(8 * word as u64), value)
            .map_err(|fault| Breach::SuspendBuffer(slot, buffer, fault.to_string()))?;
    }
    Ok(())
}

/// Reads a group's streams from a buffer.
pub(super) fn load(ctx: &Ctx<'_>, buffer: u64) -> Result<[Option<SavedStream>; STREAMS], Problem> {
    let read = |word: u64| {
        ctx.read64(buffer.wrapping_add(8 * word))
            .map_err(Problem::Access)
    };
    let head = read(0)?;
    let (mark, len) = (head as u32, (head >> 32) as u32);
    if mark != MARK {
        return Err(Problem::Contents(BadSuspend::Mark(mark)));
    }
    if len > SUSPEND_BYTES || (len as usize) < HEADER || len % 8 != 0 {
        return Err(Problem::Contents(BadSuspend::Length(len)));
    }
    let check = read(1)?;
    let mut bytes = Vec::with_capacity(len as usize);
    for word in 2..u64::from(len) / 8 {
        bytes.extend(read(word)?.to_le_bytes());
    }
    if sum(&bytes) != check {
        return Err(Problem::Contents(BadSuspend::Sum));
    }
    parse(&bytes).ok_or(Problem::Contents(BadSuspend::Streams))
}

/// The list of streams; padding to eight bytes may follow.
fn parse(mut bytes: &[u8]) -> Option<[Option<SavedStream>; STREAMS]> {
    let mut streams: [Option<SavedStream>; STREAMS] = Default::default();
    // At most seven bytes of padding follow.
    while bytes.len() >= 8 {
        let (record, rest) = bytes.split_first_chunk::<RECORD>()?;
        let word = |at: usize| -> Option<u64> {
            Some(u64::from_le_bytes(record.get(at..at + 8)?.try_into().ok()?))
        };
        let len = (word(0)? >> 32) as usize;
        let state = rest.get(..len)?;
        bytes = &rest[len..];
        let place = streams.get_mut(usize::from(record[0]))?;
        if place.is_some() || record[1] & !DEAD != 0 {
            return None;
        }
        *place = Some(SavedStream {
            base: word(8)?,
            size: word(16)?,
            dead: record[1] & DEAD != 0,
            oom: u16::from_le_bytes([record[2], record[3]]),
            task: word(24)?,
            state: state.to_vec(),
        });
    }
    bytes.iter().all(|byte| *byte == 0).then_some(streams)
}
