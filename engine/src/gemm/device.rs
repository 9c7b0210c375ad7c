//! The engine's objects on the device.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use mali_isa::desc::{LocalStorage, RegisterAllocation, ShaderProgram, to_bytes};
use panthor_uapi::{Device, Group, GroupConfig, GroupPriority, QueueConfig, Syncobj};
use panthor_watchdog::{FiniteWait, GpuAddress, Job};

use super::buffers::{Pool, Retained};
use super::plan::{Rate, WorkUnit};
use super::record::Recording;
use super::run::JOBS_PER_SUBMIT;
use super::{EngineError, Lost, Weights};
use crate::kernel::{GemmClass, Kernel, gemm, quantise, row_factor};
use crate::memory::{Buffer, Memory, Use};
use crate::quant::Matrix;
use crate::repack::{WeightLayout, repack};
use crate::stream;

/// Bytes of the queue's ring buffer: the most that the driver takes (panthor_sched.c, `SZ_64K`).
const RING_BYTES: u32 = 64 << 10;

/// A kernel in GPU memory.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) kernel: Kernel,
    /// Its program descriptor.
    pub(super) program: GpuAddress,
}

/// Which kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum KernelId {
    RowFactor,
    Quantise,
    Product(GemmClass),
}

/// A device ready for products. Everything on the device is released when it is dropped; jobs still in flight are
/// killed with their group first.
#[derive(Debug)]
pub struct Engine {
    // Dropped in this order: the group (which ends its jobs) before the memory that the jobs use.
    pub(super) group: Group,
    pub(super) timeline: Syncobj,
    pub(super) statuses: Vec<Syncobj>,
    pub(super) pool: Pool,
    pub(super) retained: Retained,
    pub(super) kernels: HashMap<KernelId, Loaded>,
    // Mapped for the GPU as long as the engine lives.
    pub(super) code: Buffer,
    pub(super) descriptors: Buffer,
    pub(super) storage: GpuAddress,
    pub(super) memory: Memory,
    pub(super) device: Device,
    pub(super) watch: FiniteWait,
    pub(super) next_point: u64,
    pub(super) rate: Rate,
    pub(super) unit: WorkUnit,
    /// Shader cores that the group may use.
    pub(super) cores: u32,
    pub(super) lost: Option<Box<Lost>>,
    pub(super) omit: Option<usize>,
    /// A word for the start and one for the end of each job of a submission.
    pub(super) markers: Buffer,
    /// Whether jobs store the word of their start too.
    pub(super) start_markers: bool,
    pub(super) last_jobs: Vec<Job>,
    pub(super) interrupt: Option<Arc<AtomicBool>>,
    pub(super) recordings: Option<Vec<Recording>>,
}

/// Bytes between the marker words of two jobs of a submission: a cache line.
pub(super) const MARKER_STRIDE: u64 = 64;

impl Engine {
    /// Creates VM, group, syncobjs and kernels.
    ///
    /// # Errors
    /// [`EngineError::Device`] where the GPU's command-stream interface is smaller than a Mali-G610's,
    /// [`EngineError::Driver`], [`EngineError::Memory`].
    pub fn open(device: &Device) -> Result<Self, EngineError> {
        let csif = device.csif_info()?;
        let usable = csif
            .cs_reg_count
            .saturating_sub(csif.unpreserved_cs_reg_count);
        let need = |what, has, needs| {
            if has < needs {
                Err(EngineError::Device { what, has, needs })
            } else {
                Ok(())
            }
        };
        need("command-stream registers", usable, stream::REGISTERS_USED)?;
        need(
            "scoreboard entries",
            csif.scoreboard_slot_count,
            stream::SCOREBOARDS_USED,
        )?;
        let gpu = device.gpu_info()?;
        let memory = Memory::new(device)?;
        // u64::count_ones is at most 64.
        let count = |mask: u64| mask.count_ones() as u8;
        let group = device.create_group(
            memory.vm(),
            &GroupConfig {
                queues: vec![QueueConfig {
                    priority: 0,
                    ringbuf_size: RING_BYTES,
                }],
                priority: GroupPriority::default(),
                compute_core_mask: gpu.shader_present,
                max_compute_cores: count(gpu.shader_present),
                fragment_core_mask: gpu.shader_present,
                max_fragment_cores: count(gpu.shader_present),
                tiler_core_mask: gpu.tiler_present,
                max_tiler_cores: count(gpu.tiler_present),
            },
        )?;
        let timeline = device.create_syncobj(false)?;
        let marker_bytes = JOBS_PER_SUBMIT as u64 * MARKER_STRIDE;
        let markers = memory.allocate("job markers", marker_bytes, Use::Markers)?;
        let (code, descriptors, storage, kernels) = load_kernels(&memory)?;
        Ok(Self {
            group,
            timeline,
            statuses: Vec::new(),
            pool: Pool::default(),
            retained: Retained::default(),
            unit: WorkUnit::of(kernels.values().map(|loaded| &loaded.kernel)),
            cores: gpu.shader_present.count_ones(),
            kernels,
            code,
            descriptors,
            storage,
            memory,
            device: device.clone(),
            watch: FiniteWait,
            next_point: 1,
            rate: Rate::default(),
            lost: None,
            omit: None,
            markers,
            start_markers: false,
            last_jobs: Vec::new(),
            interrupt: None,
            recordings: None,
        })
    }

    /// Repacks weights straight into a new buffer's mapping.
    ///
    /// # Errors
    /// [`EngineError::Layout`], [`EngineError::Memory`] with `what` in the message, [`EngineError::Repack`].
    pub fn upload(&self, what: &str, matrix: &Matrix<'_>) -> Result<Weights, EngineError> {
        let layout = WeightLayout::new(matrix.format(), matrix.n(), matrix.k())?;
        let buffer = self
            .memory
            .allocate(what, layout.total_bytes(), Use::Data)?;
        repack(matrix, &layout, &mut |offset, bytes| {
            buffer.write(offset, bytes)
        })?;
        buffer.publish(0, layout.total_bytes())?;
        let buffer = Arc::new(buffer);
        Ok(Weights { buffer, layout })
    }

    /// The device.
    #[must_use]
    pub const fn device(&self) -> &Device {
        &self.device
    }

    /// The rate that the jobs so far have shown.
    #[must_use]
    pub const fn rate(&self) -> &Rate {
        &self.rate
    }

    /// Lets every job's stream store a word at its start, or no longer; see [`panthor_watchdog::Job::markers`]. The word
    /// of its end, when its results are in memory, is always stored: a job without it is not taken for good.
    pub const fn set_start_markers(&mut self, on: bool) {
        self.start_markers = on;
    }

    /// The jobs of the last submission, in order.
    #[must_use]
    pub fn last_jobs(&self) -> &[Job] {
        &self.last_jobs
    }

    /// The present value of a marker word; `None` where the address is no marker of this engine.
    #[must_use]
    pub fn marker(&self, address: GpuAddress) -> Option<u64> {
        let offset = address.0.checked_sub(self.markers.address().0)?;
        (offset % 8 == 0 && offset < self.markers.size()).then(|| self.markers.read_u64(offset))
    }

    /// Once the flag is set, products end with [`EngineError::Interrupted`] before their next submission.
    pub fn set_interrupt(&mut self, flag: Arc<AtomicBool>) {
        self.interrupt = Some(flag);
    }

    /// Keeps what every submission finds in memory from now on, see [`Engine::take_recordings`].
    pub fn record(&mut self) {
        self.recordings = Some(Vec::new());
    }

    /// The submissions since [`Engine::record`], in order; recording ends.
    pub fn take_recordings(&mut self) -> Vec<Recording> {
        self.recordings.take().unwrap_or_default()
    }

    /// The transport's clock.
    pub(super) fn now(&self) -> Duration {
        Duration::from_nanos(self.device.transport().now())
    }

    /// For tests: leaves the given wait or flush out of every stream (see
    /// [`crate::stream::StreamBuilder::removable_count`]).
    #[doc(hidden)]
    pub const fn omit(&mut self, instruction: Option<usize>) {
        self.omit = instruction;
    }
}

/// Code in an executable read-only mapping, descriptors beside it in data.
#[allow(clippy::type_complexity)]
fn load_kernels(
    memory: &Memory,
) -> Result<(Buffer, Buffer, GpuAddress, HashMap<KernelId, Loaded>), EngineError> {
    let mut kernels = vec![
        (KernelId::RowFactor, row_factor()?),
        (KernelId::Quantise, quantise()?),
    ];
    for class in GemmClass::ALL {
        kernels.push((KernelId::Product(class), gemm(class)?));
    }
    let align = ShaderProgram::BINARY_ALIGNMENT;
    let bytes = |k: &Kernel| (8 * k.words.len() as u64).next_multiple_of(align);
    let code = memory.allocate(
        "shader code",
        kernels.iter().map(|(_, k)| bytes(k)).sum(),
        Use::Code,
    )?;
    // The storage descriptor first (64-byte aligned), then the program descriptors (32 bytes each).
    let descriptor_bytes =
        LocalStorage::ALIGNMENT + ShaderProgram::ALIGNMENT * kernels.len() as u64;
    let descriptors = memory.allocate("descriptors", descriptor_bytes, Use::Data)?;
    descriptors.write(0, &to_bytes(&LocalStorage::none().pack()?));
    let mut loaded = HashMap::new();
    let (mut at, mut descriptor_at) = (0, LocalStorage::ALIGNMENT);
    for (id, kernel) in kernels {
        for (i, word) in kernel.words.iter().enumerate() {
            code.write(at + 8 * i as u64, &word.to_le_bytes());
        }
        let registers = if kernel.fits_32 {
            RegisterAllocation::PerThread32
        } else {
            RegisterAllocation::PerThread64
        };
        let program = ShaderProgram {
            preload: kernel.preload,
            ..ShaderProgram::compute(code.address().offset(at).0, registers)
        };
        descriptors.write(descriptor_at, &to_bytes(&program.pack()?));
        let program = descriptors.address().offset(descriptor_at);
        at += bytes(&kernel);
        descriptor_at += ShaderProgram::ALIGNMENT;
        loaded.insert(id, Loaded { kernel, program });
    }
    code.publish(0, code.size())?;
    descriptors.publish(0, descriptor_bytes)?;
    let storage = descriptors.address();
    Ok((code, descriptors, storage, loaded))
}
