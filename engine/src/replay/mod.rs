//! Recorded jobs with their memory and their answers: run on any device, and compared.
//!
//! A recording is how a person brings a job to a developer: a job of this program, or one of another driver. The files
//! are described in [`case`], [`capture`] writes them.

pub mod capture;
pub mod case;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mali_isa::csf::{self, Instr, Reg32};
use panthor_uapi::sys::drm::SyncobjWaitFlags;
use panthor_uapi::sys::panthor::{BoFlags, VmBindOpFlags};
use panthor_uapi::{
    BindOp, Bo, Device, GpuVa, Group, GroupConfig, GroupPriority, QueueConfig, QueueSubmit, SyncOp,
    Syncobj, Vm, WaitOutcome,
};

use case::{Case, Element, InitialRegisters, Output, Tolerance};

/// Recorded streams finish in milliseconds; the driver kills a queue after 5 s.
const PATIENCE: Duration = Duration::from_secs(20);

/// Bytes of every queue's ring buffer: the largest that the driver takes.
const RING: u32 = 64 << 10;

/// Queue priorities, 0 to 15; all the same here.
const QUEUE_PRIORITY: u8 = 1;

/// Room for one queue's setup stream; streams are 64-byte aligned.
const SETUP_STRIDE: u64 = 256;

/// Why a case could not be run.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// A file is missing, malformed, or contradicts another.
    #[error("{}: {why}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The case does not fit this device.
    #[error("case \"{op}\": {why}")]
    Unfit {
        /// The case.
        op: String,
        /// What does not fit.
        why: String,
    },
    /// The driver refused something.
    #[error(transparent)]
    Driver(#[from] panthor_uapi::Error),
    /// The driver refused something of a case.
    #[error("case \"{op}\": {error}")]
    Case {
        /// The case.
        op: String,
        /// The driver's answer.
        error: panthor_uapi::Error,
    },
    /// A stream did not finish, or finished with an error.
    #[error("case \"{op}\": stream {stream} on queue {queue} {how}; group: {state}")]
    Stream {
        /// The case.
        op: String,
        /// Index of the stream in the case.
        stream: usize,
        /// Its queue.
        queue: u32,
        /// What happened.
        how: String,
        /// What the driver says of the group.
        state: String,
    },
}

impl ReplayError {
    fn file(path: &Path, why: impl fmt::Display) -> Self {
        Self::File {
            path: path.to_owned(),
            why: why.to_string(),
        }
    }

    /// Whether a job hung or failed on the device (rather than a file being bad or the driver refusing).
    pub fn is_hang(&self) -> bool {
        matches!(
            self,
            Self::Stream { .. }
                | Self::Driver(panthor_uapi::Error::DeviceLost { .. })
                | Self::Case {
                    error: panthor_uapi::Error::DeviceLost { .. },
                    ..
                }
        )
    }
}

/// How an output compares with what was expected.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// Normalised mean squared error: Σ(got − expected)² / Σ expected².
    pub nmse: f64,
    /// How many elements differ in any bit.
    pub different: usize,
    /// Whether it is within the case's tolerance.
    pub ok: bool,
}

/// Maps the case's memory at its addresses, submits its streams on their queues, waits, and compares the output.
///
/// # Errors
/// [`ReplayError`]; nothing is left on the device then either.
pub fn run(device: &Device, case: &Case) -> Result<Outcome, ReplayError> {
    let run = || {
        let session = Session::new(device, case)?;
        session.submit_all()?;
        let mut got = vec![0; case.output.expected.len()];
        session.memory.read(case.output.va, &mut got);
        Ok(compare(&case.output, &got))
    };
    run().map_err(|error| match error {
        ReplayError::Driver(error) => ReplayError::Case {
            op: case.op.clone(),
            error,
        },
        other => other,
    })
}

/// A case's memory and group on the device.
struct Session<'a> {
    device: &'a Device,
    case: &'a Case,
    group: Group,
    memory: Memory,
    setup: GpuVa,
    setup_sizes: BTreeMap<u32, u32>,
}

impl<'a> Session<'a> {
    fn new(device: &'a Device, case: &'a Case) -> Result<Self, ReplayError> {
        let unfit = |why: String| ReplayError::Unfit {
            op: case.op.clone(),
            why,
        };
        let page = device.gpu_page_size()?;
        for m in &case.mappings {
            if [m.va, m.size, m.bo_offset].iter().any(|n| n % page != 0) {
                return Err(unfit(format!(
                    "its mapping at {:#x} is no multiple of this device's {page}-byte pages",
                    m.va
                )));
            }
        }
        let top = case
            .mappings
            .iter()
            .map(|m| m.va + m.size)
            .max()
            .unwrap_or(0);
        let setup = free_page(case, page)
            .ok_or_else(|| unfit("no free page for the setup streams".into()))?;

        // The whole range, where its power of two does not exist.
        let range = top
            .max(setup.0 + page)
            .checked_next_power_of_two()
            .unwrap_or(0);
        let vm = device.create_vm(range)?;
        let memory = Memory::new(device, &vm, case)?;
        for (va, bytes) in &case.memory {
            memory.write(*va, bytes);
        }

        let gpu = device.gpu_info()?;
        let queues = case
            .streams
            .iter()
            .map(|s| s.queue)
            .max()
            .map_or(1, |q| q.saturating_add(1));
        let slots = device.csif_info()?.cs_slot_count;
        if queues > slots {
            return Err(unfit(format!(
                "it uses {queues} queues, this device has {slots} a group"
            )));
        }
        let queue = QueueConfig {
            priority: QUEUE_PRIORITY,
            ringbuf_size: RING,
        };
        let group = device.create_group(
            &vm,
            &GroupConfig {
                queues: vec![queue; queues as usize],
                priority: GroupPriority::Medium,
                compute_core_mask: gpu.shader_present,
                max_compute_cores: gpu.shader_present.count_ones() as u8,
                fragment_core_mask: gpu.shader_present,
                max_fragment_cores: gpu.shader_present.count_ones() as u8,
                tiler_core_mask: gpu.tiler_present,
                max_tiler_cores: gpu.tiler_present.count_ones() as u8,
            },
        )?;

        let mut setup_sizes = BTreeMap::new();
        let mut code = Vec::new();
        for queue in 0..queues {
            let registers = case.registers.iter().find(|r| r.queue == queue);
            let stream =
                setup_stream(case.scoreboard, registers).map_err(|e| unfit(e.to_string()))?;
            code.resize(queue as usize * SETUP_STRIDE as usize, 0);
            code.extend(&stream);
            setup_sizes.insert(queue, stream.len() as u32);
        }
        memory.add_page(device, &vm, setup, page, &code)?;
        Ok(Self {
            device,
            case,
            group,
            memory,
            setup,
            setup_sizes,
        })
    }

    /// Submits the setup streams and then the case's, and waits for all of them.
    fn submit_all(&self) -> Result<(), ReplayError> {
        let setups = self
            .setup_sizes
            .iter()
            .map(|(&queue, &size)| (queue, self.setup + u64::from(queue) * SETUP_STRIDE, size));
        let streams = self
            .case
            .streams
            .iter()
            .map(|s| (s.queue, GpuVa(s.va), s.size));
        let all: Vec<_> = setups.chain(streams).collect();
        let fences = all
            .iter()
            .map(|_| self.device.create_syncobj(false))
            .collect::<Result<Vec<Syncobj>, _>>()?;
        for (&(queue_index, stream_addr, stream_size), fence) in all.iter().zip(&fences) {
            let syncs = vec![SyncOp::signal(fence, 0)];
            self.group.submit(&[QueueSubmit {
                queue_index,
                stream_addr,
                stream_size,
                latest_flush: 0,
                syncs,
            }])?;
        }
        let deadline = self.device.transport().now() + PATIENCE.as_nanos() as u64;
        let mut failures = Vec::new();
        for (index, (&(queue, ..), fence)) in all.iter().zip(&fences).enumerate() {
            match fence.wait(0, SyncobjWaitFlags::empty(), deadline)? {
                WaitOutcome::Signalled => {}
                WaitOutcome::TimedOut => {
                    let how = format!("did not finish within {} s", PATIENCE.as_secs());
                    failures.push((index, queue, how));
                    break;
                }
                WaitOutcome::Failed(errno) => {
                    failures.push((index, queue, format!("failed: {errno}")))
                }
            }
        }
        if failures.is_empty() {
            return Ok(());
        }
        // A fault on one queue ends the jobs of all: name the queue at fault, where the driver knows it.
        let state = self.group.state()?;
        let at_fault = failures
            .iter()
            .position(|(_, queue, _)| state.fatal_queues >> queue & 1 == 1);
        let (index, queue, how) = failures.swap_remove(at_fault.unwrap_or(0));
        Err(ReplayError::Stream {
            op: self.case.op.clone(),
            stream: index.saturating_sub(self.setup_sizes.len()),
            queue,
            how,
            state: state.to_string(),
        })
    }
}

/// What earlier submissions left behind on a queue.
fn setup_stream(
    scoreboard: u8,
    registers: Option<&InitialRegisters>,
) -> Result<Vec<u8>, csf::EncodeError> {
    let mut stream = vec![Instr::SetSbEntry {
        endpoint: scoreboard,
        other: 0,
    }];
    if let Some(r) = registers {
        stream.extend((84..90).map(|n| Instr::Move32 {
            dst: Reg32(n),
            imm: r.r84_to_r89,
        }));
        // MOVE48 clears the top 16 bits of its pair, so that the high register is set by a MOVE32 of its own.
        stream.push(Instr::Move32 {
            dst: Reg32(90),
            imm: r.r90_r91 as u32,
        });
        stream.push(Instr::Move32 {
            dst: Reg32(91),
            imm: (r.r90_r91 >> 32) as u32,
        });
    }
    let words = stream
        .iter()
        .map(csf::encode)
        .collect::<Result<Vec<u64>, _>>()?;
    Ok(words.iter().flat_map(|w| w.to_le_bytes()).collect())
}

/// The lowest page above the first that no mapping of the case touches.
fn free_page(case: &Case, page: u64) -> Option<GpuVa> {
    let mut at = page;
    loop {
        let end = at.checked_add(page)?;
        // The case's own ranges were checked not to wrap.
        match case
            .mappings
            .iter()
            .find(|m| m.va < end && at < m.va + m.size)
        {
            Some(m) => at = (m.va + m.size).checked_next_multiple_of(page)?,
            None => return Some(GpuVa(at)),
        }
    }
}

/// The buffer objects of a case, found by GPU address.
struct Memory {
    bos: BTreeMap<u32, (Bo, panthor_uapi::Mapping)>,
    ranges: Vec<case::Mapping>,
    extra: std::cell::OnceCell<(Bo, panthor_uapi::Mapping)>,
}

impl Memory {
    fn new(device: &Device, vm: &Vm, case: &Case) -> Result<Self, ReplayError> {
        let mut sizes: BTreeMap<u32, u64> = BTreeMap::new();
        for m in &case.mappings {
            let size = sizes.entry(m.bo).or_default();
            *size = (*size).max(m.bo_offset + m.size);
        }
        let mut bos = BTreeMap::new();
        for (number, size) in sizes {
            // Write-combined, whatever the recording had: its bytes are written and read from here.
            let bo = device.create_bo(size, BoFlags::empty(), Some(vm))?;
            bo.set_label(&format!("replay {number}"))?;
            let mapping = bo.map()?;
            bos.insert(number, (bo, mapping));
        }
        for m in &case.mappings {
            let flags = VmBindOpFlags::from_bits(m.flags)
                .filter(|f| !f.intersects(VmBindOpFlags::TYPE_MASK));
            let flags = flags.ok_or_else(|| ReplayError::Unfit {
                op: case.op.clone(),
                why: format!(
                    "its mapping at {:#x} has unknown flags {:#x}",
                    m.va, m.flags
                ),
            })?;
            vm.bind(&[BindOp::map(
                &bos[&m.bo].0,
                m.bo_offset,
                GpuVa(m.va),
                m.size,
                flags,
            )])?;
        }
        Ok(Self {
            bos,
            ranges: case.mappings.clone(),
            extra: std::cell::OnceCell::new(),
        })
    }

    /// Adds one page with code at `va`, which the case does not use.
    fn add_page(
        &self,
        device: &Device,
        vm: &Vm,
        va: GpuVa,
        page: u64,
        code: &[u8],
    ) -> Result<(), ReplayError> {
        let bo = device.create_bo(page, BoFlags::empty(), Some(vm))?;
        bo.set_label("replay setup streams")?;
        let mapping = bo.map()?;
        mapping.write(0, code);
        vm.bind(&[BindOp::map(
            &bo,
            0,
            va,
            page,
            VmBindOpFlags::MAP_NOEXEC | VmBindOpFlags::MAP_READONLY,
        )])?;
        // Kept so that the buffer lives as long as the others.
        let _ = self.extra.set((bo, mapping));
        Ok(())
    }

    fn write(&self, va: u64, bytes: &[u8]) {
        self.pieces(va, bytes.len(), |mapping, offset, range| {
            mapping.write(offset, &bytes[range])
        });
    }

    fn read(&self, va: u64, bytes: &mut [u8]) {
        self.pieces(va, bytes.len(), |mapping, offset, range| {
            mapping.read(offset, &mut bytes[range])
        });
    }

    /// Walks a range mapping by mapping. [`case::Cases::load`] has checked that there are no holes.
    fn pieces(
        &self,
        va: u64,
        len: usize,
        mut each: impl FnMut(&panthor_uapi::Mapping, usize, std::ops::Range<usize>),
    ) {
        let mut done = 0;
        while done < len {
            let at = va + done as u64;
            let Some(m) = self
                .ranges
                .iter()
                .find(|m| m.va <= at && at < m.va + m.size)
            else {
                return;
            };
            let count = (len - done).min((m.va + m.size - at) as usize);
            each(
                &self.bos[&m.bo].1,
                (m.bo_offset + (at - m.va)) as usize,
                done..done + count,
            );
            done += count;
        }
    }
}

fn compare(output: &Output, got: &[u8]) -> Outcome {
    let (size, value): (usize, fn(&[u8]) -> f64) = match output.element {
        Element::F32 => (4, |b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]).into()),
        Element::F16 => (2, |b| half::f16::from_le_bytes([b[0], b[1]]).into()),
    };
    let (mut error, mut power, mut different) = (0.0, 0.0, 0);
    for (got, want) in got
        .chunks_exact(size)
        .zip(output.expected.chunks_exact(size))
    {
        if got == want {
            power += value(want).powi(2);
            continue;
        }
        different += 1;
        error += (value(got) - value(want)).powi(2);
        power += value(want).powi(2);
    }
    let nmse = if different == 0 { 0.0 } else { error / power };
    let ok = match output.tolerance {
        Tolerance::Exact => different == 0,
        // A NaN where there should be none makes the error NaN, which is not within anything.
        Tolerance::Nmse(most) => nmse <= most,
    };
    Outcome {
        nmse,
        different,
        ok,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(expected: &[f32], tolerance: Tolerance) -> Output {
        let expected = expected.iter().flat_map(|x| x.to_le_bytes()).collect();
        Output {
            va: 0,
            element: Element::F32,
            expected,
            tolerance,
        }
    }

    fn bytes(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|x| x.to_le_bytes()).collect()
    }

    #[test]
    fn outputs_are_right_within_their_tolerance_only() {
        let exact = output(&[1.0, -2.0], Tolerance::Exact);
        assert!(compare(&exact, &bytes(&[1.0, -2.0])).ok);
        assert!(!compare(&exact, &bytes(&[1.0, -2.000_000_2])).ok);

        let near = output(&[3.0, 4.0], Tolerance::Nmse(0.01));
        let found = compare(&near, &bytes(&[3.0, 4.5]));
        assert_eq!((found.nmse, found.different, found.ok), (0.01, 1, true));
        assert!(!compare(&near, &bytes(&[3.0, 4.6])).ok);
        assert!(!compare(&near, &bytes(&[3.0, f32::NAN])).ok);
    }

    #[test]
    fn the_setup_page_lies_beside_the_case() {
        let mapping = |va, size| case::Mapping {
            va,
            size,
            bo: 0,
            bo_offset: 0,
            flags: 0,
        };
        let case = Case {
            op: String::new(),
            streams: Vec::new(),
            registers: Vec::new(),
            scoreboard: 3,
            mappings: vec![mapping(0x3000, 0x1000), mapping(0x1000, 0x2000)],
            memory: Vec::new(),
            output: output(&[], Tolerance::Exact),
        };
        assert_eq!(free_page(&case, 0x1000), Some(GpuVa(0x4000)));

        let everything = Case {
            mappings: vec![mapping(0, u64::MAX)],
            ..case
        };
        assert_eq!(free_page(&everything, 0x1000), None);
    }
}
