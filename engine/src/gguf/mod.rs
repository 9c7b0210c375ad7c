//! GGUF model files, read without trust.
//!
//! A file is mapped read-only; its header, metadata and tensor table are walked once and checked completely ([`Model::open`]),
//! after which every tensor's data is known to lie within the file. Nothing in a file can cause a panic or an allocation beyond a
//! small multiple of its size. Every error is one line that names file, tensor and remedy.
//!
//! The walk is our own: candle-core's reader (0.9, `quantized::gguf_file::Content::read`) allocates by counts and lengths that
//! it has not compared with the file, and refuses a whole file for one tensor of a type it lacks.

mod builder;
mod error;
mod types;
mod walk;

use std::fs::File;
use std::path::{Path, PathBuf};

use memmap2::Mmap;

use crate::quant::Matrix;

pub use builder::Builder;
pub use error::{GgufError, Name, Problem, What};
pub use types::TensorType;
pub use walk::{Tensor, Value};

/// A matrix of a model and its name.
#[derive(Debug, Clone, Copy)]
pub struct NamedMatrix<'a> {
    /// The tensor's name.
    pub name: &'a str,
    /// Its blocks.
    pub weights: Matrix<'a>,
}

/// Where the bytes of a file come from.
#[derive(Debug)]
enum Bytes {
    Mapped(Mmap),
    Owned(Vec<u8>),
}

impl Bytes {
    fn get(&self) -> &[u8] {
        match self {
            Bytes::Mapped(map) => map,
            Bytes::Owned(bytes) => bytes,
        }
    }
}

/// A model file, mapped and checked.
#[derive(Debug)]
pub struct Model {
    path: PathBuf,
    bytes: Bytes,
    contents: walk::Contents,
}

impl Model {
    /// Maps a file and checks everything but the weights themselves.
    ///
    /// # Errors
    /// [`GgufError`], which names the file: it cannot be read or mapped, or its structure is not that of a GGUF file.
    pub fn open(path: impl AsRef<Path>) -> Result<Model, GgufError> {
        let path = path.as_ref();
        let open_error = |e| GgufError::new(path, Problem::Open(e));
        // Asked before opening: to open a pipe would wait for a writer.
        if !std::fs::metadata(path).map_err(open_error)?.is_file() {
            return Err(GgufError::new(path, Problem::NotAFile));
        }
        let file = File::open(path).map_err(open_error)?;
        // SAFETY: the mapping is read-only and private to us, and the file is not written by this program. Another program that
        // changes the file meanwhile can change what we read (every offset is checked before use, and none is read twice) or,
        // by truncating it, end this process with SIGBUS, as for every program that maps its model.
        let map = unsafe { Mmap::map(&file) }.map_err(open_error)?;
        Model::check(path, Bytes::Mapped(map))
    }

    /// As [`Model::open`], for bytes that are in memory already; `path` is only used in errors.
    ///
    /// # Errors
    /// [`GgufError`]: the structure is not that of a GGUF file.
    pub fn from_bytes(path: impl AsRef<Path>, bytes: Vec<u8>) -> Result<Model, GgufError> {
        Model::check(path.as_ref(), Bytes::Owned(bytes))
    }

    fn check(path: &Path, bytes: Bytes) -> Result<Model, GgufError> {
        let contents = walk::walk(bytes.get()).map_err(|p| GgufError::new(path, p))?;
        Ok(Model {
            path: path.to_owned(),
            bytes,
            contents,
        })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The version of the format: 2 or 3.
    pub fn version(&self) -> u32 {
        self.contents.version
    }

    /// All tensors in the file's order.
    pub fn tensors(&self) -> &[Tensor] {
        &self.contents.tensors
    }

    /// The metadata value of a key.
    pub fn metadata(&self, key: &str) -> Option<&Value> {
        let found = self.contents.metadata.iter().find(|(k, _)| k == key);
        found.map(|(_, v)| v)
    }

    /// The bytes of a tensor, or of nothing if it is another model's.
    pub fn data(&self, tensor: &Tensor) -> &[u8] {
        let range = tensor.from as usize..tensor.to as usize;
        self.bytes.get().get(range).unwrap_or_default()
    }

    /// The tensor of that name.
    ///
    /// # Errors
    /// [`GgufError`] where no tensor has that name.
    pub fn tensor(&self, name: &str) -> Result<&Tensor, GgufError> {
        self.tensors()
            .iter()
            .find(|t| t.name == name)
            .ok_or_else(|| {
                let near = self.tensors().iter().find(|t| {
                    t.name.strip_suffix(".weight") == Some(name)
                        || t.name.eq_ignore_ascii_case(name)
                });
                self.error(Problem::NoSuchTensor {
                    tensor: Name::new(name),
                    near: near.map(|t| Name::new(&t.name)),
                })
            })
    }

    /// The matrix of that name, refused where it has not two dimensions or a type that the engine does not multiply.
    ///
    /// # Errors
    /// [`GgufError`] where no tensor has that name, or it is no matrix of a known type.
    pub fn matrix(&self, name: &str) -> Result<NamedMatrix<'_>, GgufError> {
        self.as_matrix(self.tensor(name)?)
    }

    /// All matrices (tensors with two dimensions) in the file's order. Fails on the first of a type that the engine refuses, and
    /// where there is none.
    ///
    /// The embedding table is one of them: models with tied embeddings, such as SmolLM2, multiply by it for their output.
    /// SmolLM2-135M-Instruct has 30 layers of 7 matrices and that one, 211 in all.
    ///
    /// # Errors
    /// [`GgufError`], see above.
    pub fn matrices(&self) -> Result<Vec<NamedMatrix<'_>>, GgufError> {
        let all: Result<Vec<_>, _> = self
            .tensors()
            .iter()
            .filter(|t| t.is_matrix())
            .map(|t| self.as_matrix(t))
            .collect();
        match all {
            Ok(all) if all.is_empty() => Err(self.error(Problem::NoMatrices(self.tensors().len()))),
            other => other,
        }
    }

    fn as_matrix<'a>(&'a self, tensor: &'a Tensor) -> Result<NamedMatrix<'a>, GgufError> {
        let name = || Name::new(&tensor.name);
        if !tensor.is_matrix() {
            return Err(self.error(Problem::NotAMatrix {
                tensor: name(),
                dims: tensor.dims.clone(),
            }));
        }
        let TensorType::Known(format) = tensor.kind else {
            return Err(self.error(Problem::UnsupportedType {
                tensor: name(),
                type_name: tensor.kind.name(),
            }));
        };
        let dimension = |d: u64| {
            usize::try_from(d).map_err(|_| {
                self.error(Problem::Dimensions {
                    tensor: name(),
                    why: "a dimension that this machine cannot address",
                })
            })
        };
        let (k, n) = (dimension(tensor.dims[0])?, dimension(tensor.dims[1])?);
        let weights = Matrix::new(format, n, k, self.data(tensor)).map_err(|_| {
            self.error(Problem::Dimensions {
                tensor: name(),
                why: "dimensions that do not fit its data",
            })
        })?;
        Ok(NamedMatrix {
            name: &tensor.name,
            weights,
        })
    }

    fn error(&self, problem: Problem) -> GgufError {
        GgufError::new(&self.path, problem)
    }
}

#[cfg(test)]
mod tests;
