//! Running products: cut into jobs, written, submitted, awaited.

use std::sync::atomic::Ordering;
use std::time::Duration;

use panthor_watchdog::Marker;

use super::device::{Engine, KernelId, Loaded, MARKER_STRIDE};
use super::plan::{Piece, Step, predicted_cycles, task_increment};
use super::record::Recording;
use super::work::Work;
use super::{EngineError, Weights};
use crate::kernel::GemmClass;
use crate::memory::Buffer;
use crate::reference::QuantisedActivations;
use crate::stream::{After, Dispatch, SIZE_WORDS, StreamBuilder};

/// Jobs of one GROUP_SUBMIT at most.
pub(super) const JOBS_PER_SUBMIT: usize = 32;

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

/// A job that is built but not submitted.
pub(super) struct Built {
    pub(super) work: usize,
    pub(super) macs: u64,
    pub(super) cycles: u64,
    pub(super) stream: Vec<u64>,
    pub(super) markers: Vec<Marker>,
    pub(super) pieces: Vec<Piece>,
    /// Offsets within the parameter buffer.
    pub(super) stream_at: u64,
}

impl Engine {
    /// One product: `x` is M × K, row-major.
    ///
    /// Limits: M up to 16 · 2,047 (`M / 16` counts token tiles), N up to 16 · 32,767, every buffer up to
    /// [`crate::memory::MAX_BUFFER`]. A workgroup takes whole rows and must end within [`super::plan::TASK_CYCLES`], so that K is at
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
    /// [`EngineError::Interrupted`]; [`EngineError::Memory`]; [`EngineError::Driver`]; [`EngineError::Lost`] where a job
    /// failed or did not end, and for every call after that.
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

    /// The kernel of a step.
    pub(super) fn loaded(&self, class: GemmClass, step: Step) -> Result<&Loaded, EngineError> {
        let id = match step {
            Step::RowFactor => KernelId::RowFactor,
            Step::Quantise => KernelId::Quantise,
            Step::Product => KernelId::Product(class),
        };
        self.kernels
            .get(&id)
            .ok_or_else(|| EngineError::Internal(format!("kernel {id:?} is not loaded")))
    }
}
