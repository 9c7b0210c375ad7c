//! What a compute job is before its first workgroup runs: descriptors, program, preloaded registers, cut into tasks.

use mali_isa::desc::{
    DESCRIPTOR_WORDS, Fau, FlushToZero, LocalStorage, RegisterAllocation, ShaderProgram, Srt,
    Stage, WorkgroupSize,
};

use super::alu::FloatMode;
use super::dispatch::*;
use super::fault::FaultKind;
use super::message::{Messages, Stop};
use super::program::{Environment, Program};
use super::warp::{ALL_LANES, Lanes, WARP_LANES};
use super::{ComputeJob, MemoryPort};

/// What all cores share of a job.
pub(super) struct Setup {
    pub(super) program: Program,
    pub(super) mode: FloatMode,
    pub(super) preload: u16,
    pub(super) storage: LocalStorage,
    pub(super) srt: Srt,
    pub(super) fau: Fau,
    pub(super) workgroup: [u32; 3],
    pub(super) warps: usize,
    /// Lanes that exist in the last warp.
    pub(super) last_lanes: u16,
    /// r55 and r56 of each warp: local x and y, local z.
    pub(super) local: Vec<[Lanes; 3]>,
    pub(super) offset: [u32; 3],
    pub(super) size: [u32; 3],
    pub(super) axis: usize,
    pub(super) increment: u32,
    pub(super) warps_per_core: u32,
}

impl Setup {
    pub(super) fn new<P: MemoryPort>(
        job: &ComputeJob,
        messages: &mut Messages<P>,
    ) -> Result<Setup, Box<Stop<P::Error>>> {
        let invalid = |reason: String| Stop::new(FaultKind::InvalidJob { reason });
        if job.task_increment == 0 {
            return Err(invalid("the task increment is 0".into()));
        }
        let axis = usize::from(job.task_axis);
        if axis > 2 {
            return Err(invalid(format!("task axis {axis} does not exist")));
        }
        let spd = descriptor(
            messages,
            "shader program descriptor",
            job.spd,
            ShaderProgram::ALIGNMENT,
        )?;
        let bad_spd = |reason: String| {
            Stop::new(FaultKind::InvalidDescriptor {
                object: "shader program descriptor",
                va: job.spd,
                reason,
            })
        };
        let spd = ShaderProgram::unpack(&spd).map_err(|error| bad_spd(error.to_string()))?;
        if spd.stage != Stage::Compute {
            return Err(bad_spd(format!("stage {:?} in a compute job", spd.stage)));
        }
        if spd.suppress_nan || spd.suppress_inf {
            return Err(Stop::new(FaultKind::NotModelled {
                what: "suppression of NaN or infinity".into(),
            }));
        }
        let tsd = descriptor(
            messages,
            "local storage descriptor",
            job.tsd,
            LocalStorage::ALIGNMENT,
        )?;
        let storage = LocalStorage::unpack(&tsd).map_err(|error| {
            let (object, reason) = ("local storage descriptor", error.to_string());
            Stop::new(FaultKind::InvalidDescriptor {
                object,
                va: job.tsd,
                reason,
            })
        })?;
        let fau = Fau::unpack(job.fau).map_err(|error| invalid(error.to_string()))?;
        let srt = Srt::unpack(job.srt);
        let size = WorkgroupSize::unpack(job.workgroup_size)
            .map_err(|error| invalid(error.to_string()))?;
        if size.threads() > WORKGROUP_THREADS {
            return Err(invalid(format!(
                "a workgroup of {} threads; {WORKGROUP_THREADS} are possible",
                size.threads()
            )));
        }
        let uniforms = read_uniforms(messages, fau)?;
        let half_registers = spd.registers == RegisterAllocation::PerThread32;
        let environment = Environment {
            entry: spd.binary,
            half_registers,
            uniforms: &uniforms,
            resources: srt.pointer,
            thread_local: storage.tls_address().is_some(),
            workgroup_local: storage.wls.is_some_and(|wls| wls.bytes() != 0),
        };
        let program = Program::decode(&environment, |va| messages.port.fetch(va).ok());
        let threads = size.threads() as usize;
        let warps = threads.div_ceil(WARP_LANES);
        let spare = warps * WARP_LANES - threads;
        let workgroup = [u32::from(size.x), u32::from(size.y), u32::from(size.z)];
        let local = (0..warps)
            .map(|warp| {
                let id = |lane: usize| {
                    let linear = (warp * WARP_LANES + lane) as u32;
                    let [x, y, _] = workgroup;
                    [linear % x, linear / x % y, linear / (x * y)]
                };
                [0, 1, 2].map(|axis| Lanes(std::array::from_fn(|lane| id(lane)[axis])))
            })
            .collect();
        let threads_per_core = if half_registers {
            THREADS_PER_CORE
        } else {
            THREADS_PER_CORE / 2
        };
        Ok(Setup {
            program,
            mode: FloatMode {
                flush32: spd.flush_to_zero != FlushToZero::Preserve,
                flush16: matches!(spd.flush_to_zero, FlushToZero::Always | FlushToZero::Abrupt),
                seed: 0,
            },
            preload: spd.preload,
            storage,
            srt,
            fau,
            workgroup,
            warps,
            last_lanes: ALL_LANES >> spare,
            local,
            offset: job.offset,
            size: job.size,
            axis,
            increment: job.task_increment,
            warps_per_core: threads_per_core / WARP_LANES as u32,
        })
    }

    /// Number of tasks: the axis is cut by the increment, the axes below it are whole in each task, each step of
    /// the axes above it is a task of its own. (Mesa, panfrost/vulkan/csf, choice of task axis and increment.)
    pub(super) fn tasks(&self) -> u64 {
        if self.size.contains(&0) {
            return 0;
        }
        let along = u64::from(self.size[self.axis].div_ceil(self.increment));
        product(&self.size[self.axis + 1..], along)
    }

    /// First workgroup and number of workgroups of a task in x, y and z, before the job's offset.
    pub(super) fn task(&self, task: u64) -> ([u32; 3], [u32; 3]) {
        let mut first = [0; 3];
        let mut count = [1; 3];
        count[..self.axis].copy_from_slice(&self.size[..self.axis]);
        let along = u64::from(self.size[self.axis].div_ceil(self.increment));
        let begin = (task % along) as u32 * self.increment;
        first[self.axis] = begin;
        count[self.axis] = self.increment.min(self.size[self.axis] - begin);
        let mut rest = task / along;
        for (first, &size) in first.iter_mut().zip(&self.size).skip(self.axis + 1) {
            *first = (rest % u64::from(size)) as u32;
            rest /= u64::from(size);
        }
        (first, count)
    }
}

/// `first` times all `sizes`. The registers hold three numbers of 32 bits, whose product may have more than 64: so many
/// workgroups never end, whatever their exact number.
pub(super) fn product(sizes: &[u32], first: u64) -> u64 {
    sizes
        .iter()
        .fold(first, |all, &n| all.saturating_mul(n.into()))
}

pub(super) fn descriptor<P: MemoryPort>(
    messages: &mut Messages<P>,
    object: &'static str,
    va: u64,
    align: u64,
) -> Result<[u32; DESCRIPTOR_WORDS], Box<Stop<P::Error>>> {
    if va == 0 {
        return Err(Stop::new(FaultKind::MissingDescriptor { object }));
    }
    if va % align != 0 {
        return Err(Stop::new(FaultKind::MisalignedDescriptor {
            object,
            va,
            align,
        }));
    }
    messages.read_words(va)
}

pub(super) fn read_uniforms<P: MemoryPort>(
    messages: &mut Messages<P>,
    fau: Fau,
) -> Result<Vec<u32>, Box<Stop<P::Error>>> {
    let mut words = Vec::with_capacity(2 * usize::from(fau.count));
    for unit in 0..u64::from(fau.count) {
        let va = fau.pointer + 8 * unit;
        let bytes = messages
            .port
            .load::<8>(va)
            .map_err(|error| Stop::new(FaultKind::Memory { va, error }))?;
        let value = u64::from_le_bytes(bytes);
        words.extend([value as u32, (value >> 32) as u32]);
    }
    Ok(words)
}
