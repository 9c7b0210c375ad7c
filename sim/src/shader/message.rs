//! Messages: loads, stores and atomics of a warp, and the buffer descriptors that some of them go through.

use mali_isa::desc::{Buffer, BufferType, DESCRIPTOR_WORDS, Resource};
use mali_isa::valhall::{AtomicOp, Op};

use super::MemoryPort;
use super::alu::operands::{int, wide};
use super::fault::FaultKind;
use super::program::{Class, Program, Uop};
use super::usage::{LINE_BYTES, UnitCounts};
use super::warp::{LOW, WARP_LANES, WORD, Warp, byte};

/// Bits of a resource handle below the table number. (Borne out by panvk's shaders: handle = table << 24 | index.)
const HANDLE_TABLE_SHIFT: u32 = 24;
/// Bytes of a descriptor in a resource table.
const DESCRIPTOR_BYTES: u64 = 4 * DESCRIPTOR_WORDS as u64;
/// Bytes of a resource table's entry in the array that the SRT register points at.
const RESOURCE_BYTES: u64 = 16;

/// A fault and the lane that is to blame, if one is.
#[derive(Debug)]
pub(super) struct Stop<E: std::error::Error> {
    pub kind: FaultKind<E>,
    pub lane: Option<u8>,
}

impl<E: std::error::Error> Stop<E> {
    pub(super) fn new(kind: FaultKind<E>) -> Box<Stop<E>> {
        Box::new(Stop { kind, lane: None })
    }

    pub(super) fn lane(kind: FaultKind<E>, lane: usize) -> Box<Stop<E>> {
        Box::new(Stop {
            kind,
            lane: Some(lane as u8),
        })
    }
}

type Outcome<T, E> = Result<T, Box<Stop<E>>>;

/// A buffer that a handle led to.
#[derive(Clone, Copy, Debug)]
struct BufferRange {
    handle: u32,
    address: u64,
    size: u64,
}

/// One core's way to memory, with what it counts and remembers.
pub(super) struct Messages<P: MemoryPort> {
    pub port: P,
    pub counts: UnitCounts,
    /// Address of the resource table array and its number of entries.
    pub resources: u64,
    pub resource_count: u32,
    buffers: Vec<BufferRange>,
}

impl<P: MemoryPort> Messages<P> {
    pub(super) fn new(port: P, resources: u64, resource_count: u32) -> Self {
        Messages {
            port,
            counts: UnitCounts::default(),
            resources,
            resource_count,
            buffers: Vec::new(),
        }
    }

    /// Executes a message.
    pub(super) fn execute(
        &mut self,
        warp: &mut Warp,
        program: &Program,
        op: &Uop,
    ) -> Outcome<(), P::Error> {
        match op.class {
            Class::Load => {
                let base = wide(warp, program, &op.srcs[0], false);
                let addresses = base.map(|base| base.wrapping_add_signed(i64::from(op.imm)));
                warp.kill(op.kill);
                self.load(warp, op, &addresses)
            }
            Class::LoadBuffer => {
                let addresses = self.buffer_addresses(warp, program, op, op.bytes)?.0;
                warp.kill(op.kill);
                self.load(warp, op, &addresses)
            }
            Class::LeaBuffer => {
                let (addresses, inside) = self.buffer_addresses(warp, program, op, 0)?;
                self.counts.ls_lines += 1;
                warp.kill(op.kill);
                let register = op.staging.reg;
                for lane in lanes(warp.active) {
                    warp.rows[usize::from(register)].0[lane] = addresses[lane] as u32;
                    warp.rows[usize::from(register) + 1].0[lane] = (addresses[lane] >> 32) as u32;
                }
                // The address of something beyond the buffer is no value.
                let slot = op.mods.slot.number();
                warp.pend(slot, register, WORD, inside);
                warp.pend(slot, register + 1, WORD, inside);
                warp.busy |= 1 << slot;
                Ok(())
            }
            Class::Store => {
                let base = wide(warp, program, &op.srcs[0], false);
                let addresses = base.map(|base| base.wrapping_add_signed(i64::from(op.imm)));
                self.store(warp, op, &addresses)?;
                warp.kill(op.kill);
                warp.busy |= 1 << op.mods.slot.number();
                Ok(())
            }
            _ => self.atomic(warp, program, op),
        }
    }

    /// Checks alignment and counts lines.
    fn examine(
        &mut self,
        warp: &Warp,
        bytes: u8,
        addresses: &[u64; WARP_LANES],
    ) -> Outcome<(), P::Error> {
        // Mesa, panfrost/compiler/bifrost: "All loads must be aligned up to the next power of two of their byte
        // size" (`mem_access_size_align_cb`).
        let align = bytes.next_power_of_two();
        let mut seen = [0u64; WARP_LANES];
        let mut count = 0;
        for lane in lanes(warp.active) {
            let va = addresses[lane];
            if va & u64::from(align - 1) != 0 {
                return Err(Stop::lane(
                    FaultKind::MisalignedAccess { va, bytes, align },
                    lane,
                ));
            }
            let line = va / LINE_BYTES;
            // The newest line first: neighbours mostly share it.
            if !seen[..count].iter().rev().any(|&other| other == line) {
                seen[count] = line;
                count += 1;
            }
        }
        self.counts.ls_lines += count as u64;
        Ok(())
    }

    fn load(
        &mut self,
        warp: &mut Warp,
        op: &Uop,
        addresses: &[u64; WARP_LANES],
    ) -> Outcome<(), P::Error> {
        self.examine(warp, op.bytes, addresses)?;
        match op.bytes {
            1 => self.load_sized::<1>(warp, op, addresses),
            2 => self.load_sized::<2>(warp, op, addresses),
            3 => self.load_sized::<3>(warp, op, addresses),
            4 => self.load_sized::<4>(warp, op, addresses),
            6 => self.load_sized::<6>(warp, op, addresses),
            8 => self.load_sized::<8>(warp, op, addresses),
            12 => self.load_sized::<12>(warp, op, addresses),
            _ => self.load_sized::<16>(warp, op, addresses),
        }
    }

    fn load_sized<const N: usize>(
        &mut self,
        warp: &mut Warp,
        op: &Uop,
        addresses: &[u64; WARP_LANES],
    ) -> Outcome<(), P::Error> {
        let mut data = [[0; N]; WARP_LANES];
        self.port
            .load_lanes(addresses, warp.active, &mut data)
            .map_err(|(lane, error)| {
                Stop::lane(
                    FaultKind::Memory {
                        va: addresses[usize::from(lane) & 15],
                        error,
                    },
                    usize::from(lane),
                )
            })?;
        let slot = op.mods.slot.number();
        let register = op.staging.reg;
        let extend = |value: u64| {
            let unused = 64 - 8 * N as u32;
            if op.mods.unsigned {
                value
            } else {
                ((value << unused) as i64 >> unused) as u64
            }
        };
        if N <= 4 {
            let bytes = op.write_bytes;
            let written = (0..4)
                .filter(|&n| bytes & byte(n) != 0)
                .fold(0u32, |mask, n| mask | 0xff << (8 * n));
            let (keep, shift) = (!written, written.trailing_zeros());
            let row = &mut warp.rows[usize::from(register)];
            let mut high = [0; WARP_LANES];
            for lane in lanes(warp.active) {
                let mut whole = [0; 8];
                whole[..N].copy_from_slice(&data[lane]);
                let value = extend(u64::from_le_bytes(whole));
                row.0[lane] = (row.0[lane] & keep) | (((value as u32) << shift) & !keep);
                high[lane] = (value >> 32) as u32;
            }
            warp.pend(slot, register, bytes, warp.active);
            if op.staging.count == 2 {
                let row = &mut warp.rows[usize::from(register) + 1];
                for lane in lanes(warp.active) {
                    row.0[lane] = high[lane];
                }
                warp.pend(slot, register + 1, WORD, warp.active);
            }
        } else {
            for word in 0..N.div_ceil(4) {
                let here = (N - 4 * word).min(4);
                let index = register + word as u8;
                let row = &mut warp.rows[usize::from(index)];
                for lane in lanes(warp.active) {
                    let mut part = [0; 4];
                    part[..here].copy_from_slice(&data[lane][4 * word..4 * word + here]);
                    let old = if here == 4 {
                        0
                    } else {
                        row.0[lane] & 0xffff_0000
                    };
                    row.0[lane] = u32::from_le_bytes(part) | old;
                }
                warp.pend(slot, index, if here == 4 { WORD } else { LOW }, warp.active);
            }
        }
        warp.busy |= 1 << slot;
        Ok(())
    }

    fn store(
        &mut self,
        warp: &Warp,
        op: &Uop,
        addresses: &[u64; WARP_LANES],
    ) -> Outcome<(), P::Error> {
        self.examine(warp, op.bytes, addresses)?;
        match op.bytes {
            1 => self.store_sized::<1>(warp, op, addresses),
            2 => self.store_sized::<2>(warp, op, addresses),
            3 => self.store_sized::<3>(warp, op, addresses),
            4 => self.store_sized::<4>(warp, op, addresses),
            6 => self.store_sized::<6>(warp, op, addresses),
            8 => self.store_sized::<8>(warp, op, addresses),
            12 => self.store_sized::<12>(warp, op, addresses),
            _ => self.store_sized::<16>(warp, op, addresses),
        }
    }

    fn store_sized<const N: usize>(
        &mut self,
        warp: &Warp,
        op: &Uop,
        addresses: &[u64; WARP_LANES],
    ) -> Outcome<(), P::Error> {
        let mut data = [[0; N]; WARP_LANES];
        for word in 0..N.div_ceil(4) {
            let row = &warp.rows[usize::from(op.staging.reg) + word];
            let here = (N - 4 * word).min(4);
            for (lane, data) in data.iter_mut().enumerate() {
                data[4 * word..4 * word + here].copy_from_slice(&row.0[lane].to_le_bytes()[..here]);
            }
        }
        self.port
            .store_lanes(addresses, warp.active, &data)
            .map_err(|(lane, error)| {
                Stop::lane(
                    FaultKind::Memory {
                        va: addresses[usize::from(lane) & 15],
                        error,
                    },
                    usize::from(lane),
                )
            })
    }

    fn atomic(&mut self, warp: &mut Warp, program: &Program, op: &Uop) -> Outcome<(), P::Error> {
        let base = wide(warp, program, &op.srcs[0], false);
        // The eight offset bits are a signed number.
        let addresses = base.map(|base| base.wrapping_add_signed(i64::from(op.imm)));
        self.examine(warp, op.bytes, &addresses)?;
        let with_one = matches!(op.op, Op::Atom1ReturnI32 | Op::Atom1ReturnI64);
        let first = usize::from(op.staging.reg);
        let is_wide = op.bytes == 8;
        let mut old = [0u64; WARP_LANES];
        for lane in lanes(warp.active) {
            let value = |index: usize| -> u64 {
                let word = |n: usize| u64::from(warp.rows[(first + n) & 63].0[lane]);
                if is_wide {
                    word(2 * index) | word(2 * index + 1) << 32
                } else {
                    word(index)
                }
            };
            let operand = if with_one { 1 } else { value(0) };
            // The new value comes first, the one compared with second.
            // (Mesa, bifrost_compile.c, `bi_emit_acmpxchg_to`: "hardware is swapped from NIR".)
            let expected = if op.mods.compare {
                Some(value(1))
            } else {
                None
            };
            let (kind, va) = (op.mods.atomic, addresses[lane]);
            let result = if is_wide {
                self.port.atomic64(va, &mut |memory| {
                    if expected.is_some_and(|expected| expected != memory) {
                        return memory;
                    }
                    combine64(kind, memory, operand)
                })
            } else {
                self.port
                    .atomic32(va, &mut |memory| {
                        if expected.is_some_and(|expected| expected as u32 != memory) {
                            return memory;
                        }
                        combine32(kind, memory, operand as u32)
                    })
                    .map(u64::from)
            };
            old[lane] =
                result.map_err(|error| Stop::lane(FaultKind::Memory { va, error }, lane))?;
        }
        warp.kill(op.kill);
        let slot = op.mods.slot.number();
        for word in 0..op.staging_out.count {
            let register = op.staging_out.reg + word;
            for lane in lanes(warp.active) {
                warp.rows[usize::from(register)].0[lane] =
                    (old[lane] >> (32 * u32::from(word))) as u32;
            }
            warp.pend(slot, register, WORD, warp.active);
        }
        warp.busy |= 1 << slot;
        Ok(())
    }

    /// Addresses of the active lanes through their handles, and the lanes whose offset is within the buffer.
    /// With `bytes` above 0 an access beyond the buffer is a fault.
    fn buffer_addresses(
        &mut self,
        warp: &Warp,
        program: &Program,
        op: &Uop,
        bytes: u8,
    ) -> Outcome<([u64; WARP_LANES], u16), P::Error> {
        let offsets = int(warp, program, &op.srcs[0], false);
        let handles = int(warp, program, &op.srcs[1], false);
        let mut addresses = [0; WARP_LANES];
        let mut inside = 0;
        let mut current: Option<BufferRange> = None;
        for lane in lanes(warp.active) {
            let (handle, offset) = (handles.0[lane], offsets.0[lane]);
            let range = match current {
                Some(range) if range.handle == handle => range,
                _ => self.buffer(handle).map_err(|mut stop| {
                    stop.lane = Some(lane as u8);
                    stop
                })?,
            };
            current = Some(range);
            let end = u64::from(offset) + u64::from(bytes);
            if end <= range.size {
                inside |= 1 << lane;
            } else if bytes != 0 {
                let size = range.size;
                return Err(Stop::lane(
                    FaultKind::BeyondBuffer {
                        handle,
                        offset,
                        bytes,
                        size,
                    },
                    lane,
                ));
            }
            addresses[lane] = range.address.wrapping_add(u64::from(offset));
        }
        Ok((addresses, inside))
    }

    /// The buffer of a handle. Its descriptor is read once per core and job, as the cores' descriptor caches do.
    fn buffer(&mut self, handle: u32) -> Outcome<BufferRange, P::Error> {
        if let Some(range) = self.buffers.iter().find(|range| range.handle == handle) {
            return Ok(*range);
        }
        let table = handle >> HANDLE_TABLE_SHIFT;
        let index = u64::from(handle & ((1 << HANDLE_TABLE_SHIFT) - 1));
        if table >= self.resource_count {
            return Err(Stop::new(FaultKind::NoSuchTable {
                handle,
                table,
                count: self.resource_count,
            }));
        }
        let bad = |reason: String| Stop::new(FaultKind::BadResource { handle, reason });
        let entry = self.read_words::<4>(self.resources + RESOURCE_BYTES * u64::from(table))?;
        let entry = Resource::unpack(&entry).map_err(|error| bad(error.to_string()))?;
        if !entry.contains_descriptors {
            return Err(bad(format!("resource table {table} holds no descriptors")));
        }
        if (index + 1) * DESCRIPTOR_BYTES > entry.size {
            return Err(bad(format!(
                "resource table {table} has only {:#x} bytes",
                entry.size
            )));
        }
        let words =
            self.read_words::<DESCRIPTOR_WORDS>(entry.address + DESCRIPTOR_BYTES * index)?;
        let buffer = Buffer::unpack(&words).map_err(|error| bad(error.to_string()))?;
        if buffer.kind != BufferType::Simple {
            return Err(bad(format!(
                "a buffer of type {:?} is no plain buffer",
                buffer.kind
            )));
        }
        let range = BufferRange {
            handle,
            address: buffer.address,
            size: u64::from(buffer.size),
        };
        self.buffers.push(range);
        Ok(range)
    }

    /// Reads descriptor words, 16 bytes at a time.
    pub(super) fn read_words<const W: usize>(&mut self, va: u64) -> Outcome<[u32; W], P::Error> {
        let mut words = [0; W];
        for (i, chunk) in words.chunks_mut(4).enumerate() {
            let va = va + 16 * i as u64;
            let bytes: [u8; 16] = self
                .port
                .load(va)
                .map_err(|error| Stop::new(FaultKind::Memory { va, error }))?;
            for (word, bytes) in chunk.iter_mut().zip(bytes.chunks_exact(4)) {
                *word = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
            }
        }
        Ok(words)
    }
}

/// The numbers of the lanes in a mask.
#[inline(always)]
pub(super) fn lanes(mask: u16) -> impl Iterator<Item = usize> {
    (0..WARP_LANES).filter(move |lane| mask & (1 << lane) != 0)
}

fn combine32(op: AtomicOp, memory: u32, operand: u32) -> u32 {
    match op {
        AtomicOp::Add | AtomicOp::Inc | AtomicOp::AddU32 | AtomicOp::AddS32 => {
            memory.wrapping_add(operand)
        }
        AtomicOp::Dec => memory.wrapping_sub(operand),
        AtomicOp::Smin => (memory as i32).min(operand as i32) as u32,
        AtomicOp::Smax | AtomicOp::Smax1 => (memory as i32).max(operand as i32) as u32,
        AtomicOp::Umin => memory.min(operand),
        AtomicOp::Umax | AtomicOp::Umax1 => memory.max(operand),
        AtomicOp::And => memory & operand,
        AtomicOp::Or | AtomicOp::Or1 => memory | operand,
        AtomicOp::Xor => memory ^ operand,
        AtomicOp::Xchg => operand,
    }
}

fn combine64(op: AtomicOp, memory: u64, operand: u64) -> u64 {
    match op {
        AtomicOp::Add | AtomicOp::Inc => memory.wrapping_add(operand),
        AtomicOp::AddU32 => memory.wrapping_add(u64::from(operand as u32)),
        AtomicOp::AddS32 => memory.wrapping_add(operand as u32 as i32 as u64),
        AtomicOp::Dec => memory.wrapping_sub(operand),
        AtomicOp::Smin => (memory as i64).min(operand as i64) as u64,
        AtomicOp::Smax | AtomicOp::Smax1 => (memory as i64).max(operand as i64) as u64,
        AtomicOp::Umin => memory.min(operand),
        AtomicOp::Umax | AtomicOp::Umax1 => memory.max(operand),
        AtomicOp::And => memory & operand,
        AtomicOp::Or | AtomicOp::Or1 => memory | operand,
        AtomicOp::Xor => memory ^ operand,
        AtomicOp::Xchg => operand,
    }
}
