//! Weights and activations that depend on a seed alone.

use half::f16;

use super::matrix::matrix_bytes;
use super::{Format, MatrixError, OwnedMatrix, SplitMix, quantise_row};

/// How magnitudes are spread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spread {
    /// Near normal with unit variance, like trained weights.
    Normal,
    /// Near normal, each row scaled by its own power of two: 2^-14 to 2^14 for weights, so that some f16 scales are subnormal
    /// and some near the largest; 2^-100 to 2^100 for activations.
    Extreme,
}

/// Weights quantised from near-normal numbers. The same for the same arguments on every machine.
///
/// # Errors
/// [`MatrixError`] for a shape that the format cannot have.
pub fn synthetic_matrix(
    format: Format,
    n: usize,
    k: usize,
    seed: u64,
    spread: Spread,
) -> Result<OwnedMatrix, MatrixError> {
    let (_, total) = matrix_bytes(format, n, k)?;
    let mut bytes = Vec::with_capacity(total);
    let mut row = vec![0.0; k];
    for i in 0..n {
        // A generator per row: a prefix of the rows does not depend on N.
        let mut rng = SplitMix::new(seed ^ (i as u64 + 1).wrapping_mul(0x2545_f491_4f6c_dd1d));
        let scale = match spread {
            Spread::Normal => 1.0,
            Spread::Extreme => 2f32.powi(rng.below(29) as i32 - 14),
        };
        row.iter_mut().for_each(|x| *x = rng.normal() * scale);
        quantise_row(format, &row, &mut bytes);
    }
    OwnedMatrix::new(format, n, k, bytes)
}

/// Activations, row-major M × K.
pub fn synthetic_activations(m: usize, k: usize, seed: u64, spread: Spread) -> Vec<f32> {
    let mut x = Vec::with_capacity(m * k);
    for i in 0..m {
        let mut rng = SplitMix::new(!seed ^ (i as u64 + 1).wrapping_mul(0x9fb2_1c65_1e98_df25));
        let scale = match spread {
            Spread::Normal => 1.0,
            Spread::Extreme => 2f32.powi(rng.below(201) as i32 - 100),
        };
        x.extend((0..k).map(|_| rng.normal() * scale));
    }
    x
}

/// A matrix of random bits with finite scales of moderate size: every value of every bit field occurs.
///
/// # Errors
/// [`MatrixError`] for a shape that the format cannot have.
pub fn random_blocks(
    format: Format,
    n: usize,
    k: usize,
    seed: u64,
) -> Result<OwnedMatrix, MatrixError> {
    let (_, total) = matrix_bytes(format, n, k)?;
    let mut rng = SplitMix::new(seed);
    let mut bytes: Vec<u8> = (0..total).map(|_| (rng.next_u64() >> 56) as u8).collect();
    let half_at: &[usize] = match format {
        Format::Q4_0 | Format::Q5_0 | Format::Q8_0 | Format::F16 => &[0],
        Format::Q4_1 | Format::Q5_1 | Format::Q4_K | Format::Q5_K => &[0, 2],
        Format::Q6_K => &[208],
        Format::F32 => &[],
    };
    for block in bytes.chunks_exact_mut(format.block_bytes()) {
        for at in half_at {
            block[*at..at + 2].copy_from_slice(&f16::from_f32(rng.normal()).to_le_bytes());
        }
        if format == Format::F32 {
            block.copy_from_slice(&rng.normal().to_le_bytes());
        }
    }
    OwnedMatrix::new(format, n, k, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quant::int_block;

    /// Relative root mean square error that plain rounding at this width must keep on near-normal numbers.
    fn tolerance(format: Format) -> f64 {
        match format {
            Format::Q4_0 | Format::Q4_1 | Format::Q4_K => 0.12,
            Format::Q5_0 | Format::Q5_1 | Format::Q5_K => 0.06,
            Format::Q6_K => 0.03,
            Format::Q8_0 => 0.01,
            Format::F16 => 0.0005,
            Format::F32 => 0.0,
        }
    }

    #[test]
    fn quantised_weights_are_near_what_they_came_from() {
        for format in Format::ALL {
            let mut rng = SplitMix::new(3);
            let x: Vec<f32> = (0..2048).map(|_| rng.normal()).collect();
            let mut bytes = Vec::new();
            quantise_row(format, &x, &mut bytes);
            let y = OwnedMatrix::new(format, 1, 2048, bytes)
                .unwrap()
                .as_matrix()
                .dequantise();
            let error: f64 = x
                .iter()
                .zip(&y)
                .map(|(x, y)| f64::from(x - y).powi(2))
                .sum();
            let power: f64 = x.iter().map(|x| f64::from(*x).powi(2)).sum();
            let relative = (error / power).sqrt();
            assert!(relative <= tolerance(format), "{format}: {relative}");
        }
    }

    #[test]
    fn seeds_decide_and_rows_do_not_depend_on_n() {
        let one = synthetic_matrix(Format::Q4_K, 3, 256, 9, Spread::Normal).unwrap();
        let two = synthetic_matrix(Format::Q4_K, 5, 256, 9, Spread::Normal).unwrap();
        let other = synthetic_matrix(Format::Q4_K, 3, 256, 10, Spread::Normal).unwrap();
        let rows = one.as_matrix().bytes();
        assert_eq!(rows, &two.as_matrix().bytes()[..rows.len()]);
        assert_ne!(rows, other.as_matrix().bytes());
        assert!(synthetic_matrix(Format::Q4_K, 3, 32, 9, Spread::Normal).is_err());
    }

    #[test]
    fn both_ways_to_read_a_block_agree() {
        for format in Format::ALL.into_iter().filter(|f| f.is_quantised()) {
            for owned in [
                random_blocks(format, 5, 512, 1).unwrap(),
                synthetic_matrix(format, 5, 512, 2, Spread::Extreme).unwrap(),
            ] {
                let w = owned.as_matrix();
                for (n, row) in w.dequantise().chunks_exact(512).enumerate() {
                    for (b, y) in row.chunks_exact(32).enumerate() {
                        let block = int_block(format, w.row(n), b);
                        for (e, y) in y.iter().enumerate() {
                            let sq = f32::from(block.q[e]) * block.scale.scales()[e / 16];
                            let v = block.scale.minimum().map_or(sq, |m| sq + m);
                            assert_eq!(v, *y, "{format} {n} {b} {e}");
                        }
                    }
                }
            }
        }
    }
}
