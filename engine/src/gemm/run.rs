//! Running products: upload, cut, submit, wait, read back.

use std::sync::atomic::Ordering;
use std::time::Duration;

use panthor_uapi::{GpuVa, QueueSubmit, SyncOp, Syncobj};
use panthor_watchdog::{
    BufferRange, Deadline, GpuAddress, Job, Marker, QueueId, Replay, SyncobjId, TimelinePoint,
    Watch,
};

use super::device::{Engine, KernelId, Loaded, MARKER_STRIDE};
use super::fences::EngineFences;
use super::plan::{
    Costs, MAX_TILES, Piece, Plan, Step, max_iterations, predicted_cycles, task_increment,
};
use super::record::Recording;
use super::{EngineError, Lost, LostCause, Weights};
use crate::kernel::{GemmClass, Kernel, Uniform, gemm};
use crate::memory::{Buffer, MAX_BUFFER, MemoryError};
use crate::quant::Format;
use crate::reference::QuantisedActivations;
use crate::repack::{ActivationLayout, OutputLayout, WeightLayout};
use crate::stream::{After, Dispatch, SIZE_WORDS, StreamBuilder};

/// Jobs of one GROUP_SUBMIT at most.
pub(super) const JOBS_PER_SUBMIT: usize = 32;

/// The queue of the engine's group.
const QUEUE: u32 = 0;

/// How long the engine waits for a job beyond its turn: twice the driver's own timer of 5 s (`JOB_TIMEOUT_MS`), so that
/// the driver's verdict comes first.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long a job may take before the driver kills it, with a margin.
const JOB_TIMER: Duration = Duration::from_secs(6);

/// Bytes of a dispatch's parameters: sizes, then uniforms.
const PARAMETER_BYTES: u64 = 320;

/// Where the uniforms begin among the parameters.
const UNIFORMS_AT: u64 = 64;

/// A finished product.
#[derive(Debug, Clone)]
pub struct Product {
    /// Y, row-major, M × N.
    pub y: Vec<f32>,
    /// Jobs that had a part in it.
    pub jobs: usize,
    /// Multiply-accumulates: M · N · K.
    pub macs: u64,
    /// From the first submission to the last job's end, by the transport's clock.
    pub elapsed: Duration,
    /// The GPU's quantised activations; `None` for F16 and F32 weights.
    pub quantised: Option<QuantisedActivations>,
}

/// A product under way.
struct Work<'a> {
    weights: &'a Weights,
    m: usize,
    class: GemmClass,
    activations: ActivationLayout,
    output: OutputLayout,
    x: Buffer,
    quantised: Option<Buffer>,
    y: Buffer,
    plan: Plan,
    jobs: usize,
    begin: Option<Duration>,
    end: Duration,
}

/// A job that is built but not submitted.
struct Built {
    work: usize,
    macs: u64,
    cycles: u64,
    stream: Vec<u64>,
    markers: Vec<Marker>,
    pieces: Vec<Piece>,
    /// Offsets within the parameter buffer.
    stream_at: u64,
}

/// What a product of M tokens needs beside its weights.
struct Extent {
    activations: ActivationLayout,
    output: OutputLayout,
    row_tiles: u32,
    token_tiles: u32,
    blocks: u32,
}

/// Refuses what no kernel can count or finish in time and no buffer can hold.
fn extent(layout: &WeightLayout, m: usize, kernel: &Kernel) -> Result<Extent, EngineError> {
    let activations = ActivationLayout::new(m, layout.k())?;
    let output = OutputLayout::new(m, layout.n())?;
    let limit = |what, value: u64, most: u64| {
        if value > most {
            let (value, most) = (value as usize, most as usize);
            return Err(EngineError::TooLarge { what, value, most });
        }
        Ok(value as u32)
    };
    let row_tiles = limit("N / 16", layout.tiles(), MAX_TILES)?;
    let token_tiles = limit("M / 16", activations.tiles(), MAX_TILES / 16)?;
    let blocks = limit("K / 32", activations.blocks(), MAX_TILES)?;
    // A workgroup takes a whole row, and a task is at least one workgroup.
    let longest = u64::from(max_iterations(kernel)) * u64::from(kernel.stated.step());
    limit("K", layout.k() as u64, longest)?;
    for (what, size) in [
        ("weights", layout.total_bytes()),
        ("activations", activations.x_bytes()),
        ("quantised activations", activations.total_bytes()),
        ("result", output.total_bytes()),
    ] {
        if size > MAX_BUFFER {
            let what = what.to_owned();
            return Err(MemoryError::TooLarge { what, size }.into());
        }
    }
    Ok(Extent {
        activations,
        output,
        row_tiles,
        token_tiles,
        blocks,
    })
}

/// Whether M tokens can be multiplied by N × K weights of a format at all, before anything is allocated for them.
///
/// # Errors
/// [`EngineError::Layout`], [`EngineError::TooLarge`], [`MemoryError::TooLarge`].
pub fn check_shape(format: Format, m: usize, n: usize, k: usize) -> Result<(), EngineError> {
    let kernel = gemm(GemmClass::of(format))?;
    extent(&WeightLayout::new(format, n, k)?, m, &kernel).map(|_| ())
}

impl Engine {
    /// One product: `x` is M × K, row-major.
    ///
    /// Limits: M up to 16 · 2,047 (`M / 16` counts token tiles), N up to 16 · 32,767, every buffer up to
    /// [`MAX_BUFFER`]. A workgroup takes whole rows and must end within [`super::plan::TASK_CYCLES`], so that K is at
    /// most 31,456 for Q4_0, 27,552 for Q4_1, 27,136 for Q4_K, 35,360 for Q5_0 and Q8_0, 30,496 for Q5_1, 29,952 for
    /// Q5_K, 28,160 for Q6_K, 13,600 for F16 and 12,648 for F32 with the kernels as they are (see
    /// [`super::plan::max_iterations`]).
    ///
    /// # Errors
    /// As [`Engine::batch`].
    pub fn multiply(
        &mut self,
        weights: &Weights,
        x: &[f32],
        m: usize,
    ) -> Result<Product, EngineError> {
        let mut products = self.batch(&[(weights, x, m)])?;
        products
            .pop()
            .ok_or_else(|| EngineError::Internal("no product came back".to_owned()))
    }

    /// Many products, their jobs submitted together. Each is (weights, X, M).
    ///
    /// # Errors
    /// [`EngineError::Activations`], [`EngineError::Layout`], [`EngineError::TooLarge`] for shapes;
    /// [`EngineError::Interrupted`]; [`EngineError::Memory`]; [`EngineError::Driver`]; [`EngineError::Lost`] where a job failed or did not end, and
    /// for every call after that.
    pub fn batch(
        &mut self,
        products: &[(&Weights, &[f32], usize)],
    ) -> Result<Vec<Product>, EngineError> {
        if let Some(lost) = &self.lost {
            return Err(lost.clone().into());
        }
        let mut works = Vec::with_capacity(products.len());
        for (weights, x, m) in products {
            works.push(self.prepare(weights, x, *m)?);
        }
        if let Err(error) = self.run_all(&mut works) {
            if self.lost.is_some() {
                self.retain(works);
            }
            return Err(error);
        }
        works.into_iter().map(|work| self.finish(work)).collect()
    }

    /// Keeps mapped what the jobs of these products may still use.
    fn retain(&mut self, works: Vec<Work<'_>>) {
        for work in works {
            self.retained.keep_shared(&work.weights.buffer);
            self.retained.keep([work.x, work.y]);
            self.retained.keep(work.quantised);
        }
    }

    /// Cuts, submits and awaits jobs until nothing remains.
    fn run_all(&mut self, works: &mut [Work<'_>]) -> Result<(), EngineError> {
        let mut current = 0;
        loop {
            let built = self.build(works, &mut current)?;
            if built.is_empty() {
                return Ok(());
            }
            // Between submissions nothing runs: stopping here leaves nothing behind on the GPU.
            if self
                .interrupt
                .as_ref()
                .is_some_and(|flag| flag.load(Ordering::Relaxed))
            {
                return Err(EngineError::Interrupted);
            }
            self.run(works, built)?;
        }
    }

    fn prepare<'a>(
        &mut self,
        weights: &'a Weights,
        x: &[f32],
        m: usize,
    ) -> Result<Work<'a>, EngineError> {
        let layout = weights.layout;
        let k = layout.k();
        if m.checked_mul(k) != Some(x.len()) {
            return Err(EngineError::Activations {
                found: x.len(),
                m,
                k,
            });
        }
        let class = GemmClass::of(layout.format());
        let Extent {
            activations,
            output,
            row_tiles,
            token_tiles,
            blocks,
        } = extent(&layout, m, &self.loaded(class, Step::Product)?.kernel)?;

        let x_buffer = self
            .pool
            .take(&self.memory, "activations", activations.x_bytes())?;
        let stride = activations.x_stride();
        let mut row = vec![0u8; 4 * stride];
        for (i, values) in x.chunks_exact(k).enumerate() {
            for (to, from) in row.chunks_exact_mut(4).zip(values) {
                to.copy_from_slice(&from.to_le_bytes());
            }
            x_buffer.write((4 * stride * i) as u64, &row);
        }
        let written = (4 * stride * m) as u64;
        x_buffer.clear(written, activations.x_bytes() - written);
        x_buffer.publish(0, activations.x_bytes())?;

        let quantised = if class.is_quantised() {
            Some(self.pool.take(
                &self.memory,
                "quantised activations",
                activations.total_bytes(),
            )?)
        } else {
            None
        };
        let y = self
            .pool
            .take(&self.memory, "result", output.total_bytes())?;
        let cost = |step, iterations| {
            let kernel = &self.loaded(class, step)?.kernel;
            Ok::<_, EngineError>(self.unit.work(kernel, iterations))
        };
        let costs = Costs {
            row_factor: cost(Step::RowFactor, blocks)?,
            quantise: cost(Step::Quantise, 1)?,
            product: cost(Step::Product, layout.steps() as u32)?,
        };
        let plan = Plan::new(
            row_tiles,
            token_tiles,
            class.is_quantised().then_some(blocks),
            costs,
        );
        Ok(Work {
            weights,
            m,
            class,
            activations,
            output,
            x: x_buffer,
            quantised,
            y,
            plan,
            jobs: 0,
            begin: None,
            end: Duration::ZERO,
        })
    }

    /// Cuts the next jobs: as many as one submission takes, or the one that sets the rate.
    fn build(
        &self,
        works: &mut [Work<'_>],
        current: &mut usize,
    ) -> Result<Vec<Built>, EngineError> {
        let mut built = Vec::new();
        let most = if self.rate.macs_per_second().is_some() {
            JOBS_PER_SUBMIT
        } else {
            1
        };
        while built.len() < most && *current < works.len() {
            let work = &mut works[*current];
            let pieces = work.plan.next_job(self.rate.budget());
            if pieces.is_empty() {
                *current += 1;
                continue;
            }
            work.jobs += 1;
            built.push(Built {
                work: *current,
                macs: pieces.iter().map(|p| p.work).sum(),
                cycles: 0,
                stream: Vec::new(),
                markers: Vec::new(),
                pieces,
                stream_at: 0,
            });
        }
        Ok(built)
    }

    /// Writes the jobs' parameters and streams, submits and waits.
    fn run(&mut self, works: &mut [Work<'_>], mut built: Vec<Built>) -> Result<(), EngineError> {
        let dispatches: u64 = built.iter().map(|b| b.pieces.len() as u64).sum();
        // A stream has under 32 instructions and as many for each dispatch.
        let stream_bytes = 256 * (dispatches + built.len() as u64);
        let parameters = self.pool.take(
            &self.memory,
            "job parameters",
            dispatches * PARAMETER_BYTES + stream_bytes,
        )?;
        let mut at = 0;
        for (index, job) in built.iter_mut().enumerate() {
            self.write_job(&works[job.work], index as u64, job, &parameters, &mut at)?;
        }
        for job in &mut built {
            at = u64::next_multiple_of(at, mali_isa::csf::STREAM_ALIGNMENT);
            job.stream_at = at;
            for word in &job.stream {
                parameters.write(at, &word.to_le_bytes());
                at += 8;
            }
        }
        parameters.publish(0, at)?;

        let mut statuses = Vec::with_capacity(built.len());
        while statuses.len() < built.len() {
            match self.statuses.pop() {
                Some(status) => statuses.push(status),
                None => statuses.push(self.device.create_syncobj(false)?),
            }
        }
        if let Some(recordings) = &mut self.recordings {
            let fixed = [&self.code, &self.descriptors, &parameters, &self.markers];
            let buffers = fixed.into_iter();
            let working = works.iter().flat_map(Work::buffers);
            let streams = built.iter().map(|job| {
                let va = parameters.address().offset(job.stream_at);
                (va, 8 * job.stream.len() as u32)
            });
            recordings.push(Recording::new(buffers.chain(working), streams));
        }
        let jobs = self.submit(works, &built, &parameters, &statuses)?;
        if let Err(lost) = self.wait(works, &built, &jobs, &statuses) {
            self.lost = Some(lost.clone());
            self.retained.keep([parameters]);
            self.retained.keep_statuses(statuses);
            return Err(lost.into());
        }
        for status in &statuses {
            status.reset()?;
        }
        self.statuses.append(&mut statuses);
        self.pool.give_back(parameters);
        Ok(())
    }

    /// Parameters of the job's dispatches, and its stream.
    fn write_job(
        &self,
        work: &Work<'_>,
        index: u64,
        job: &mut Built,
        parameters: &Buffer,
        at: &mut u64,
    ) -> Result<(), EngineError> {
        // Values differ from job to job, so that the words need no clearing.
        let point = self.next_point + index;
        let marker = |end: u64| {
            let address = self.markers.address();
            (
                address.offset(index * MARKER_STRIDE + 8 * end),
                2 * point + end,
            )
        };
        let start = self.start_markers.then(|| {
            let (address, value) = marker(0);
            Marker {
                address,
                value,
                after_product: None,
            }
        });
        let mut stream = StreamBuilder::new(self.storage, start)?;
        let last = job.pieces.len() - 1;
        for (i, piece) in job.pieces.iter().enumerate() {
            let loaded = self.loaded(work.class, piece.step)?;
            let iterations = work.iterations(piece.step);
            let increment = task_increment(&loaded.kernel, iterations, piece.count[0]);
            // First workgroup, then how many.
            let sizes: [u32; SIZE_WORDS] = [0, 0, 0, piece.count[0], piece.count[1], 1];
            let fau = loaded.kernel.fau_words(|u| work.uniform(u, piece));
            parameters.write_words(*at, &sizes);
            parameters.write_words(*at + UNIFORMS_AT, &fau);
            stream.dispatch(&Dispatch {
                program: loaded.program,
                fau: parameters.address().offset(*at + UNIFORMS_AT),
                fau_units: loaded.kernel.fau_units(),
                sizes: parameters.address().offset(*at),
                task_increment: increment,
                after: if i == last {
                    After::Memory
                } else {
                    After::SameStream
                },
            })?;
            job.cycles += predicted_cycles(
                &loaded.kernel,
                iterations,
                piece.count,
                increment,
                self.cores,
            );
            *at += PARAMETER_BYTES;
        }
        stream.product_done(Some(marker(1)));
        (job.stream, job.markers) = stream.finish(self.omit)?;
        Ok(())
    }

    fn loaded(&self, class: GemmClass, step: Step) -> Result<&Loaded, EngineError> {
        let id = match step {
            Step::RowFactor => KernelId::RowFactor,
            Step::Quantise => KernelId::Quantise,
            Step::Product => KernelId::Product(class),
        };
        self.kernels
            .get(&id)
            .ok_or_else(|| EngineError::Internal(format!("kernel {id:?} is not loaded")))
    }

    fn submit(
        &mut self,
        works: &mut [Work<'_>],
        built: &[Built],
        parameters: &Buffer,
        statuses: &[Syncobj],
    ) -> Result<Vec<Job>, EngineError> {
        let begin = self.now();
        let queue = QueueId {
            group: self.group.handle(),
            queue: QUEUE,
        };
        let timeline = SyncobjId(self.timeline.handle());
        let mut jobs = Vec::with_capacity(built.len());
        for (job, status) in built.iter().zip(statuses) {
            let work = &mut works[job.work];
            work.begin.get_or_insert(begin);
            let (inputs, outputs) = work.ranges(&job.pieces);
            jobs.push(Job {
                queue,
                point: TimelinePoint {
                    syncobj: timeline,
                    value: self.next_point + jobs.len() as u64,
                },
                status: SyncobjId(status.handle()),
                markers: job.markers.clone(),
                predicted_cycles: job.cycles,
                inputs,
                outputs,
                replay: Replay {
                    stream: parameters.address().offset(job.stream_at),
                    // A stream has at most a few hundred words.
                    stream_size: 8 * job.stream.len() as u32,
                    waits: Vec::new(),
                },
            });
        }
        let submits: Vec<_> = jobs
            .iter()
            .zip(statuses)
            .map(|(job, status)| QueueSubmit {
                queue_index: QUEUE,
                stream_addr: GpuVa(job.replay.stream.0),
                stream_size: job.replay.stream_size,
                // Flush whatever was cached, in any case.
                latest_flush: 0,
                syncs: vec![
                    SyncOp::signal(&self.timeline, job.point.value),
                    SyncOp::signal(status, 0),
                ],
            })
            .collect();
        self.group.submit(&submits)?;
        self.next_point += jobs.len() as u64;
        let fences = EngineFences {
            device: &self.device,
            timeline: &self.timeline,
            statuses,
        };
        self.watch.submitted(&fences, &jobs);
        self.last_jobs.clone_from(&jobs);
        Ok(jobs)
    }

    fn wait(
        &mut self,
        works: &mut [Work<'_>],
        built: &[Built],
        jobs: &[Job],
        statuses: &[Syncobj],
    ) -> Result<(), Box<Lost>> {
        let begin = self.now();
        let mut before = begin;
        for (i, (job, built)) in jobs.iter().zip(built).enumerate() {
            let turn = JOB_TIMER.saturating_mul(i as u32 + 1);
            let deadline = Deadline(begin + turn + PATIENCE);
            let fences = EngineFences {
                device: &self.device,
                timeline: &self.timeline,
                statuses,
            };
            let waited = self.watch.wait(&fences, job, deadline);
            let cause = match waited {
                Ok(()) if self.reached_its_end(job) => None,
                Ok(()) => Some(LostCause::Unfinished),
                Err(error) => Some(error.into()),
            };
            if let Some(cause) = cause {
                return Err(Box::new(Lost {
                    job: i + 1,
                    jobs: jobs.len(),
                    point: job.point.value,
                    cause,
                    group: self.group.state().ok(),
                }));
            }
            let now = self.now();
            self.rate.update(built.macs, now.saturating_sub(before));
            before = now;
            works[built.work].end = now;
        }
        Ok(())
    }

    /// Whether the job has stored its last marker.
    ///
    /// The driver of Linux 6.12 gives a job's fence an error only for CS_INHERIT_FAULT (panthor_sched.c,
    /// `cs_slot_process_fault_event_locked`): with any other CS_FAULT the rest of the stream is skipped and the fence
    /// signals well.
    fn reached_its_end(&self, job: &Job) -> bool {
        job.markers
            .last()
            .is_some_and(|end| self.marker(end.address) == Some(end.value))
    }

    /// Reads the result and gives the buffers back.
    fn finish(&mut self, work: Work<'_>) -> Result<Product, EngineError> {
        let (n, k) = (work.weights.layout.n(), work.weights.layout.k());
        let row_bytes = work.output.total_bytes() as usize / work.output.m_padded();
        work.y.fetch(0, work.output.total_bytes())?;
        if let Some(last) = self.recordings.as_mut().and_then(|r| r.last_mut()) {
            last.set_output(&work.y, work.output.total_bytes());
        }
        let mut y = Vec::with_capacity(work.m * n);
        let mut row = vec![0u8; 4 * n];
        for token in 0..work.m {
            work.y.read((token * row_bytes) as u64, &mut row);
            y.extend(
                row.chunks_exact(4)
                    .map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])),
            );
        }
        let quantised = match work.quantised {
            Some(buffer) => {
                let layout = work.activations;
                let mut bytes = vec![0; layout.total_bytes() as usize];
                buffer.fetch(0, layout.total_bytes())?;
                buffer.read(0, &mut bytes);
                self.pool.give_back(buffer);
                Some(QuantisedActivations::from_bytes(layout, bytes)?)
            }
            None => None,
        };
        self.pool.give_back(work.x);
        self.pool.give_back(work.y);
        Ok(Product {
            y,
            jobs: work.jobs,
            macs: work.m as u64 * n as u64 * k as u64,
            elapsed: work
                .begin
                .map_or(Duration::ZERO, |begin| work.end.saturating_sub(begin)),
            quantised,
        })
    }
}

impl Work<'_> {
    /// Everything that its jobs read or write.
    fn buffers(&self) -> impl Iterator<Item = &Buffer> {
        let always = [&*self.weights.buffer, &self.x, &self.y];
        always.into_iter().chain(self.quantised.as_ref())
    }

    /// Iterations of a step's loop.
    fn iterations(&self, step: Step) -> u32 {
        // Both were checked to fit.
        match step {
            Step::RowFactor => self.activations.blocks() as u32,
            Step::Quantise => 1,
            Step::Product => self.weights.layout.steps() as u32,
        }
    }

    fn uniform(&self, uniform: Uniform, piece: &Piece) -> u32 {
        let layout = &self.weights.layout;
        let weights = self.weights.buffer.address();
        // Float products have no quantised activations and no uniform that asks for them.
        let quantised = self
            .quantised
            .as_ref()
            .map_or(GpuAddress(0), Buffer::address);
        let activations = &self.activations;
        let activations_stride = activations.blocks() * ActivationLayout::BLOCK_BYTES;
        let address = |at: GpuAddress, offset: u64| at.offset(offset).0;
        let value = match uniform {
            Uniform::WeightsLow => address(weights, layout.data_at()),
            Uniform::WeightsHigh => address(weights, layout.data_at()) >> 32,
            Uniform::ScalesLow => address(weights, layout.scales_at()),
            Uniform::ScalesHigh => address(weights, layout.scales_at()) >> 32,
            Uniform::ActivationsLow => address(quantised, activations.quants_at()),
            Uniform::ActivationsHigh => address(quantised, activations.quants_at()) >> 32,
            Uniform::SumsLow => address(quantised, activations.scales_at()),
            Uniform::SumsHigh => address(quantised, activations.scales_at()) >> 32,
            Uniform::FactorsLow => address(quantised, activations.factors_at()),
            Uniform::FactorsHigh => address(quantised, activations.factors_at()) >> 32,
            Uniform::OutputLow => address(self.y.address(), 0),
            Uniform::OutputHigh => address(self.y.address(), 0) >> 32,
            Uniform::InputLow => address(self.x.address(), 0),
            Uniform::InputHigh => address(self.x.address(), 0) >> 32,
            Uniform::WeightsStride => layout.tile_stride(),
            Uniform::ScalesStride => layout.scale_tile_stride(),
            Uniform::ActivationsStride => activations_stride,
            Uniform::SumsStride => activations.blocks() * ActivationLayout::SCALE_BYTES,
            Uniform::ActivationsEnd => {
                address(quantised, activations.quants_at()) + activations_stride
            }
            Uniform::OutputStride => self.output.total_bytes() / self.output.m_padded() as u64,
            Uniform::InputStride => 4 * activations.x_stride() as u64,
            Uniform::BaseX => piece.base[0].into(),
            Uniform::BaseY => piece.base[1].into(),
            Uniform::Count => self.iterations(piece.step).into(),
            Uniform::Value(value) => value.into(),
            Uniform::Unused => 0,
        };
        // The low word: the window rule keeps what follows from it within 32 bits.
        value as u32
    }

    /// What a job of these pieces reads (that it did not write itself) and writes.
    fn ranges(&self, pieces: &[Piece]) -> (Vec<BufferRange>, Vec<BufferRange>) {
        let (mut inputs, mut outputs) = (Vec::new(), Vec::new());
        let has = |step| pieces.iter().any(|p| p.step == step);
        let quantised = self
            .quantised
            .as_ref()
            .map(|buffer| buffer.range(0, self.activations.total_bytes()));
        let x = self.x.range(0, self.activations.x_bytes());
        if has(Step::Quantise) {
            inputs.push(x);
            outputs.extend(quantised);
        }
        if has(Step::Product) {
            inputs.push(
                self.weights
                    .buffer
                    .range(0, self.weights.layout.total_bytes()),
            );
            outputs.push(self.y.range(0, self.output.total_bytes()));
            match quantised {
                Some(range) if !has(Step::Quantise) => inputs.push(range),
                Some(_) => {}
                None => inputs.push(x),
            }
        }
        (inputs, outputs)
    }
}
