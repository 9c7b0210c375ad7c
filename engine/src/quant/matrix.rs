//! A weight matrix in ggml's own blocks.

use super::{Format, dequantise_row};

/// Why bytes are not a matrix.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MatrixError {
    /// A dimension is zero.
    #[error("a matrix of {n} rows of {k} elements is empty")]
    Empty {
        /// Rows.
        n: usize,
        /// Elements of a row.
        k: usize,
    },
    /// K is no multiple of the format's block.
    #[error("K = {k} is no multiple of the {block} elements of a {format} block")]
    NotWholeBlocks {
        /// Elements of a row.
        k: usize,
        /// Elements of the block.
        block: usize,
        /// The format.
        format: Format,
    },
    /// The size does not fit an address space.
    #[error("{n} rows of {k} elements are too large")]
    TooLarge {
        /// Rows.
        n: usize,
        /// Elements of a row.
        k: usize,
    },
    /// The bytes are not as many as the dimensions say.
    #[error("{n} rows of {k} {format} elements are {expected} bytes, not {found}")]
    WrongLength {
        /// Rows.
        n: usize,
        /// Elements of a row.
        k: usize,
        /// The format.
        format: Format,
        /// Bytes that the dimensions ask for.
        expected: usize,
        /// Bytes given.
        found: usize,
    },
}

/// N rows of K elements in ggml blocks, borrowed (usually from a mapped model file).
#[derive(Debug, Clone, Copy)]
pub struct Matrix<'a> {
    format: Format,
    n: usize,
    k: usize,
    row_bytes: usize,
    bytes: &'a [u8],
}

impl<'a> Matrix<'a> {
    /// Checks that `bytes` are exactly N rows of K elements.
    ///
    /// # Errors
    /// [`MatrixError`] where N or K is 0, K no multiple of the block, or the length another.
    pub fn new(
        format: Format,
        n: usize,
        k: usize,
        bytes: &'a [u8],
    ) -> Result<Matrix<'a>, MatrixError> {
        let (row_bytes, expected) = matrix_bytes(format, n, k)?;
        if bytes.len() != expected {
            return Err(MatrixError::WrongLength {
                n,
                k,
                format,
                expected,
                found: bytes.len(),
            });
        }
        Ok(Matrix {
            format,
            n,
            k,
            row_bytes,
            bytes,
        })
    }

    /// The format of every row.
    pub const fn format(&self) -> Format {
        self.format
    }

    /// Rows: the outputs of a token.
    pub const fn n(&self) -> usize {
        self.n
    }

    /// Elements of a row.
    pub const fn k(&self) -> usize {
        self.k
    }

    /// All blocks, row after row.
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The blocks of row `n`.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn row(&self, n: usize) -> &'a [u8] {
        assert!(n < self.n, "row {n} of {}", self.n);
        &self.bytes[n * self.row_bytes..(n + 1) * self.row_bytes]
    }

    /// All elements as f32, row-major. For tests and small matrices: this is the full size in memory.
    pub fn dequantise(&self) -> Vec<f32> {
        let mut out = vec![0.0; self.n * self.k];
        for (n, row) in out.chunks_exact_mut(self.k).enumerate() {
            dequantise_row(self.format, self.row(n), row);
        }
        out
    }
}

/// A matrix that owns its blocks (synthetic ones).
#[derive(Debug, Clone)]
pub struct OwnedMatrix {
    format: Format,
    n: usize,
    k: usize,
    bytes: Vec<u8>,
}

impl OwnedMatrix {
    /// Checks that `bytes` are exactly N rows of K elements.
    ///
    /// # Errors
    /// As [`Matrix::new`].
    pub fn new(
        format: Format,
        n: usize,
        k: usize,
        bytes: Vec<u8>,
    ) -> Result<OwnedMatrix, MatrixError> {
        Matrix::new(format, n, k, &bytes)?;
        Ok(OwnedMatrix {
            format,
            n,
            k,
            bytes,
        })
    }

    /// The same matrix, borrowed.
    pub fn as_matrix(&self) -> Matrix<'_> {
        Matrix::new(self.format, self.n, self.k, &self.bytes).expect("checked when it was made")
    }
}

/// Bytes of a row and of the whole matrix.
pub(super) fn matrix_bytes(
    format: Format,
    n: usize,
    k: usize,
) -> Result<(usize, usize), MatrixError> {
    if n == 0 || k == 0 {
        return Err(MatrixError::Empty { n, k });
    }
    let block = format.block_elements();
    if k % block != 0 {
        return Err(MatrixError::NotWholeBlocks { k, block, format });
    }
    let too_large = MatrixError::TooLarge { n, k };
    let row = format.row_bytes(k).ok_or_else(|| too_large.clone())?;
    let all = row
        .checked_mul(n)
        .filter(|b| *b <= isize::MAX as usize)
        .ok_or(too_large)?;
    Ok((row, all))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_checked() {
        let bytes = [0u8; 36];
        assert!(Matrix::new(Format::Q4_0, 2, 32, &bytes).is_ok());
        assert!(Matrix::new(Format::Q4_0, 1, 64, &bytes).is_ok());
        assert!(matches!(
            Matrix::new(Format::Q4_0, 3, 32, &bytes),
            Err(MatrixError::WrongLength { expected: 54, .. })
        ));
        assert!(matches!(
            Matrix::new(Format::Q4_0, 1, 48, &bytes),
            Err(MatrixError::NotWholeBlocks { .. })
        ));
        assert!(matches!(
            Matrix::new(Format::F32, usize::MAX, 2, &bytes),
            Err(MatrixError::TooLarge { .. })
        ));
        assert!(matches!(
            Matrix::new(Format::F32, 0, 2, &[]),
            Err(MatrixError::Empty { .. })
        ));
    }
}
