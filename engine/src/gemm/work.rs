//! A product under way: its buffers, what of it a job reads and writes, and its result.

use std::time::Duration;

use panthor_watchdog::{BufferRange, GpuAddress};

use super::device::Engine;
use super::plan::{Piece, Plan, Step};
use super::run::Product;
use super::{EngineError, Weights};
use crate::kernel::{GemmClass, Uniform};
use crate::memory::Buffer;
use crate::reference::QuantisedActivations;
use crate::repack::{ActivationLayout, OutputLayout};

/// A product under way.
pub(super) struct Work<'a> {
    pub(super) weights: &'a Weights,
    pub(super) m: usize,
    pub(super) class: GemmClass,
    pub(super) activations: ActivationLayout,
    pub(super) output: OutputLayout,
    pub(super) x: Buffer,
    pub(super) quantised: Option<Buffer>,
    pub(super) y: Buffer,
    pub(super) plan: Plan,
    pub(super) jobs: usize,
    pub(super) begin: Option<Duration>,
    pub(super) end: Duration,
}

impl Engine {
    /// Reads the result and gives the buffers back.
    pub(super) fn finish(&mut self, work: Work<'_>) -> Result<Product, EngineError> {
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
    pub(super) fn buffers(&self) -> impl Iterator<Item = &Buffer> {
        let always = [&*self.weights.buffer, &self.x, &self.y];
        always.into_iter().chain(self.quantised.as_ref())
    }

    /// Iterations of a step's loop.
    pub(super) fn iterations(&self, step: Step) -> u32 {
        // Both were checked to fit.
        match step {
            Step::RowFactor => self.activations.blocks() as u32,
            Step::Quantise => 1,
            Step::Product => self.weights.layout.steps() as u32,
        }
    }

    pub(super) fn uniform(&self, uniform: Uniform, piece: &Piece) -> u32 {
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
    pub(super) fn ranges(&self, pieces: &[Piece]) -> (Vec<BufferRange>, Vec<BufferRange>) {
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
