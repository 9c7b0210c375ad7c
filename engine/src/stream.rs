//! Command streams: a typed builder over `mali_isa::csf` for compute jobs.
//!
//! The shape is that of the smallest known-good submission on this driver (Mesa, `kraid/hw_runner/hw_runner_vX.c`):
//! request the compute iterator, set registers, RUN_COMPUTE, wait for its scoreboard entry, flush. Differences: sizes
//! come by LOAD_MULTIPLE, and there is no flush at the head (the driver flushes before it calls the stream,
//! panthor_sched.c `prepare_job_instrs`) and no wait at the tail (the driver waits for all entries after the call,
//! same place).

use mali_isa::csf::{FlushMode, Instr, OtherFlushMode, Reg32, Reg64, TaskAxis};
use mali_isa::desc::{DescError, Fau, WorkgroupSize, compute_sr};
use panthor_watchdog::{GpuAddress, Marker};

use crate::kernel::WARP_LANES;

/// Scoreboard entry of compute jobs.
const ENDPOINT: u8 = 0;
/// Scoreboard entry of the stream's own loads and stores.
const LOADS: u8 = 1;
/// Scoreboard entry of cache flushes.
const FLUSHES: u8 = 2;
/// Scoreboard entries that a stream uses.
pub const SCOREBOARDS_USED: u32 = 3;

/// Address of the sizes.
const SIZES: Reg64 = Reg64(40);
/// The flush number: 0 makes no flush superfluous.
const FLUSH_ID: Reg32 = Reg32(42);
/// Address of a marker.
const MARKER_ADDRESS: Reg64 = Reg64(44);
/// Value of a marker.
const MARKER_VALUE: Reg64 = Reg64(46);
/// Registers that a stream uses, counted from r0.
pub const REGISTERS_USED: u32 = 48;

/// First workgroup and number of workgroups along x, y and z: the six words that a dispatch loads.
pub const SIZE_WORDS: usize = 6;

/// What must be seen after a dispatch, by whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// Later dispatches of the stream read what this one wrote: wait, then write back and drop the cores' load-store
    /// caches, then wait for that.
    SameStream,
    /// The CPU and later jobs read it: additionally write the L2 back; the driver waits for the rest.
    Memory,
}

/// One compute dispatch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dispatch {
    /// Shader program descriptor; 32-byte aligned.
    pub program: GpuAddress,
    /// Uniforms; 8-byte aligned.
    pub fau: GpuAddress,
    /// Number of 64-bit uniform units.
    pub fau_units: u8,
    /// [`SIZE_WORDS`] words in memory.
    pub sizes: GpuAddress,
    /// Workgroups per task, along x: at least 1.
    pub task_increment: u16,
    /// Who reads the result.
    pub after: After,
}

/// Why a stream cannot be built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StreamError {
    /// A register word does not pack.
    #[error("command stream: {0}")]
    Descriptor(#[from] DescError),
    /// An instruction does not encode.
    #[error("command stream: {0}")]
    Encode(#[from] mali_isa::csf::EncodeError),
    /// A task of no workgroups.
    #[error("command stream: a task increment of 0")]
    EmptyTask,
}

/// Builds one stream.
#[derive(Debug)]
pub struct StreamBuilder {
    code: Vec<Instr>,
    removable: Vec<usize>,
    markers: Vec<Marker>,
    products: u32,
}

impl StreamBuilder {
    /// A stream that will run dispatches of one warp per workgroup with the (empty) local storage at `tsd`
    /// (64-byte aligned). `start` is stored first, if given.
    ///
    /// # Errors
    /// [`StreamError`] where a register word does not pack.
    pub fn new(tsd: GpuAddress, start: Option<Marker>) -> Result<Self, StreamError> {
        let workgroup = WorkgroupSize {
            x: WARP_LANES as u16,
            y: 1,
            z: 1,
            allow_merging: false,
        }
        .pack()?;
        let mut stream = Self {
            code: Vec::new(),
            removable: Vec::new(),
            markers: Vec::new(),
            products: 0,
        };
        stream.code.extend([
            Instr::ReqResource {
                compute: true,
                fragment: false,
                tiler: false,
                idvs: false,
            },
            Instr::SetSbEntry {
                endpoint: ENDPOINT,
                other: LOADS,
            },
        ]);
        if let Some(marker) = start {
            stream.marker(marker);
        }
        stream.code.extend([
            Instr::Move48 {
                dst: compute_sr::srt(0),
                imm: 0,
            },
            Instr::Move48 {
                dst: compute_sr::tsd(0),
                imm: tsd.0,
            },
            Instr::Move32 {
                dst: compute_sr::GLOBAL_ATTRIBUTE_OFFSET,
                imm: 0,
            },
            Instr::Move32 {
                dst: compute_sr::WG_SIZE,
                imm: workgroup,
            },
            Instr::Move32 {
                dst: FLUSH_ID,
                imm: 0,
            },
        ]);
        Ok(stream)
    }

    /// Stores a marker.
    fn marker(&mut self, marker: Marker) {
        self.code.extend([
            Instr::Move48 {
                dst: MARKER_ADDRESS,
                imm: marker.address.0,
            },
            Instr::Move32 {
                dst: MARKER_VALUE.low(),
                imm: marker.value as u32,
            },
            Instr::Move32 {
                dst: MARKER_VALUE.high(),
                imm: (marker.value >> 32) as u32,
            },
            Instr::StoreMultiple {
                base: MARKER_VALUE.low(),
                mask: 0b11,
                address: MARKER_ADDRESS,
                offset: 0,
            },
        ]);
        self.markers.push(marker);
    }

    fn removable(&mut self, instr: Instr) {
        self.removable.push(self.code.len());
        self.code.push(instr);
    }

    /// Appends a dispatch.
    ///
    /// # Errors
    /// [`StreamError`] where a register word does not pack or the increment is 0.
    pub fn dispatch(&mut self, dispatch: &Dispatch) -> Result<(), StreamError> {
        if dispatch.task_increment == 0 {
            return Err(StreamError::EmptyTask);
        }
        let fau = Fau {
            pointer: dispatch.fau.0,
            count: dispatch.fau_units,
        }
        .pack()?;
        let fau_register = compute_sr::fau(0);
        self.code.extend([
            Instr::Move48 {
                dst: SIZES,
                imm: dispatch.sizes.0,
            },
            Instr::LoadMultiple {
                base: compute_sr::JOB_OFFSET_X,
                mask: (1 << SIZE_WORDS) - 1,
                address: SIZES,
                offset: 0,
            },
            Instr::Move48 {
                dst: compute_sr::spd(0),
                imm: dispatch.program.0,
            },
            Instr::Move32 {
                dst: fau_register.low(),
                imm: fau as u32,
            },
            Instr::Move32 {
                dst: fau_register.high(),
                imm: (fau >> 32) as u32,
            },
        ]);
        self.wait(LOADS);
        self.code.push(Instr::RunCompute {
            task_increment: dispatch.task_increment,
            task_axis: TaskAxis::X,
            progress_increment: false,
            srt: 0,
            spd: 0,
            tsd: 0,
            fau: 0,
        });
        self.wait(ENDPOINT);
        let l2 = match dispatch.after {
            After::SameStream => FlushMode::None,
            After::Memory => FlushMode::Clean,
        };
        self.removable(Instr::FlushCache2 {
            l2,
            lsc: FlushMode::CleanInvalidate,
            other: OtherFlushMode::None,
            wait_mask: 0,
            latest_flush_id: FLUSH_ID,
            signal_slot: FLUSHES,
        });
        if dispatch.after == After::SameStream {
            self.wait(FLUSHES);
        }
        Ok(())
    }

    fn wait(&mut self, entry: u8) {
        self.removable(Instr::Wait {
            wait_mask: 1 << entry,
            progress_increment: false,
        });
    }

    /// The hook between products: `marker` is stored after everything so far is in memory.
    pub fn product_done(&mut self, marker: Option<(GpuAddress, u64)>) {
        if let Some((address, value)) = marker {
            // The last flush may still run.
            self.wait(FLUSHES);
            let after_product = Some(self.products);
            self.marker(Marker {
                address,
                value,
                after_product,
            });
        }
        self.products += 1;
    }

    /// How many instructions (waits and flushes) tests may remove one at a time.
    #[must_use]
    pub fn removable_count(&self) -> usize {
        self.removable.len()
    }

    /// The stream's words, without the removable instruction number `omit`, and its markers.
    ///
    /// # Errors
    /// [`StreamError`] where an instruction does not encode.
    pub fn finish(self, omit: Option<usize>) -> Result<(Vec<u64>, Vec<Marker>), StreamError> {
        let omitted = omit.and_then(|n| self.removable.get(n).copied());
        let words = self
            .code
            .iter()
            .enumerate()
            .filter(|(index, _)| Some(*index) != omitted)
            .map(|(_, instr)| Ok(instr.encode()?))
            .collect::<Result<Vec<_>, StreamError>>()?;
        Ok((words, self.markers))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(after: &[After]) -> StreamBuilder {
        let mut b = StreamBuilder::new(GpuAddress(0x1_0000_0040), None).unwrap();
        for (i, after) in after.iter().enumerate() {
            b.dispatch(&Dispatch {
                program: GpuAddress(0x1_0000_0000),
                fau: GpuAddress(0x1_0000_1000 + i as u64 * 64),
                fau_units: 8,
                sizes: GpuAddress(0x1_0000_2000),
                task_increment: 4,
                after: *after,
            })
            .unwrap();
        }
        b
    }

    #[test]
    fn a_stream_reads_as_its_list() {
        let (words, _) = stream(&[After::Memory]).finish(None).unwrap();
        let text: Vec<String> = words
            .iter()
            .map(|w| mali_isa::csf::decode(*w).unwrap().to_string())
            .collect();
        assert_eq!(
            text,
            [
                "REQ_RESOURCE.compute",
                "SET_SB_ENTRY #0, #1",
                "MOVE48 d0, #0x0",
                "MOVE48 d24, #0x100000040",
                "MOVE32 r32, #0x0",
                "MOVE32 r33, #0xF",
                "MOVE32 r42, #0x0",
                "MOVE48 d40, #0x100002000",
                "LOAD_MULTIPLE r34:r35:r36:r37:r38:r39, [d40]",
                "MOVE48 d16, #0x100000000",
                "MOVE32 r8, #0x1000",
                "MOVE32 r9, #0x8000001",
                "WAIT #2",
                "RUN_COMPUTE.x_axis.srt0.spd0.tsd0.fau0 #4",
                "WAIT #1",
                "FLUSH_CACHE2.clean_l2.clean_invalidate_lsc.nop_other r42, #0, #2",
            ]
        );
    }

    #[test]
    fn each_removable_instruction_can_go_alone() {
        let whole = stream(&[After::SameStream, After::Memory])
            .finish(None)
            .unwrap()
            .0;
        let count = stream(&[After::SameStream, After::Memory]).removable_count();
        assert_eq!(count, 7);
        for n in 0..count {
            let less = stream(&[After::SameStream, After::Memory])
                .finish(Some(n))
                .unwrap()
                .0;
            assert_eq!(less.len() + 1, whole.len());
            let gone = whole
                .iter()
                .zip(&less)
                .find(|(a, b)| a != b)
                .map_or(whole.last(), |(a, _)| Some(a));
            let text = mali_isa::csf::decode(*gone.unwrap()).unwrap().to_string();
            assert!(
                text.starts_with("WAIT") || text.starts_with("FLUSH"),
                "{text}"
            );
        }
    }

    #[test]
    fn no_register_of_the_kernels_is_written() {
        let most = u32::from(mali_isa::csf::REGISTERS - mali_isa::csf::KERNEL_REGISTERS);
        assert!(REGISTERS_USED <= most);
    }

    #[test]
    fn a_marker_is_stored_with_its_value_and_place() {
        let mut b = stream(&[After::Memory]);
        b.product_done(Some((GpuAddress(0x1_0000_3000), 7)));
        let (words, markers) = b.finish(None).unwrap();
        assert_eq!(
            markers,
            [Marker {
                address: GpuAddress(0x1_0000_3000),
                value: 7,
                after_product: Some(0)
            }]
        );
        let text = |word: &u64| mali_isa::csf::decode(*word).unwrap().to_string();
        let last = text(words.last().unwrap());
        assert!(last.starts_with("STORE_MULTIPLE"), "{last}");
        // Whoever sees the marker may read the results: the flush has ended.
        let end: Vec<_> = words[words.len() - 6..].iter().map(text).collect();
        assert!(end[0].starts_with("FLUSH_CACHE2.clean_l2"), "{end:?}");
        assert_eq!(end[1], "WAIT #4");
    }
}
