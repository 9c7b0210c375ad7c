//! What must hold before a product runs: its shape, its buffers, its plan.

use std::time::Duration;

use super::device::Engine;
use super::plan::{Costs, MAX_TILES, Plan, Step, max_iterations};
use super::work::Work;
use super::{EngineError, Weights};
use crate::kernel::{GemmClass, Kernel, gemm};
use crate::memory::{MAX_BUFFER, MemoryError};
use crate::quant::Format;
use crate::repack::{ActivationLayout, OutputLayout, WeightLayout};

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
    /// Checks a product, uploads its activations and plans it.
    pub(super) fn prepare<'a>(
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
}
