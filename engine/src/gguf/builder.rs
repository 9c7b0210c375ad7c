//! Writes GGUF files: for tests, and for hostile ones, as nothing is checked.

use super::types::TensorType;
use crate::quant::{Format, Matrix};

/// Gathers metadata and tensors and lays them out as GGUF version 3. Everything can be set wrong on purpose.
#[derive(Debug, Clone)]
pub struct Builder {
    /// Version in the header.
    pub version: u32,
    /// Tensor count in the header, where it shall not be the true one.
    pub tensor_count: Option<u64>,
    /// Metadata count in the header, where it shall not be the true one.
    pub metadata_count: Option<u64>,
    /// Alignment of the data section and its tensors.
    pub alignment: u64,
    metadata: Vec<u8>,
    entries: u64,
    tensors: Vec<Entry>,
    data: Vec<u8>,
}

#[derive(Debug, Clone)]
struct Entry {
    name: Vec<u8>,
    dims: Vec<u64>,
    kind: u32,
    offset: u64,
}

impl Default for Builder {
    fn default() -> Builder {
        Builder {
            version: 3,
            tensor_count: None,
            metadata_count: None,
            alignment: 32,
            metadata: Vec::new(),
            entries: 0,
            tensors: Vec::new(),
            data: Vec::new(),
        }
    }
}

impl Builder {
    /// An empty file.
    pub fn new() -> Builder {
        Builder::default()
    }

    /// Adds a metadata entry: key, GGUF's value type number, and the value's bytes.
    pub fn metadata(&mut self, key: impl AsRef<[u8]>, kind: u32, value: &[u8]) -> &mut Builder {
        put_string(&mut self.metadata, key.as_ref());
        self.metadata.extend(kind.to_le_bytes());
        self.metadata.extend(value);
        self.entries += 1;
        self
    }

    /// Adds a text entry.
    pub fn text(&mut self, key: &str, value: &str) -> &mut Builder {
        let mut bytes = Vec::new();
        put_string(&mut bytes, value.as_bytes());
        self.metadata(key, 8, &bytes)
    }

    /// Adds a matrix with its data.
    pub fn matrix(&mut self, name: &str, w: &Matrix<'_>) -> &mut Builder {
        let dims = [w.k() as u64, w.n() as u64];
        self.tensor(name, &dims, w.format().ggml_type(), w.bytes())
    }

    /// Adds a tensor of zeros in a type of known block size.
    pub fn zeros(&mut self, name: &str, dims: &[u64], kind: u32) -> &mut Builder {
        let (elements, bytes) = TensorType::from_number(kind)
            .and_then(TensorType::block)
            .unwrap_or((1, Format::F32.block_bytes() as u64));
        let count = dims.iter().product::<u64>() / elements * bytes;
        self.tensor(name, dims, kind, &vec![0; count as usize])
    }

    /// Adds a tensor with any type number and any bytes, at the next aligned offset.
    pub fn tensor(
        &mut self,
        name: impl AsRef<[u8]>,
        dims: &[u64],
        kind: u32,
        data: &[u8],
    ) -> &mut Builder {
        let offset = (self.data.len() as u64).next_multiple_of(self.alignment.max(1));
        self.data.resize(offset as usize, 0);
        self.data.extend(data);
        self.entry(name, dims, kind, offset)
    }

    /// Adds a tensor's entry without data.
    pub fn entry(
        &mut self,
        name: impl AsRef<[u8]>,
        dims: &[u64],
        kind: u32,
        offset: u64,
    ) -> &mut Builder {
        self.tensors.push(Entry {
            name: name.as_ref().to_owned(),
            dims: dims.to_owned(),
            kind,
            offset,
        });
        self
    }

    /// The file.
    pub fn build(&self) -> Vec<u8> {
        let mut out = b"GGUF".to_vec();
        out.extend(self.version.to_le_bytes());
        let tensors = self.tensor_count.unwrap_or(self.tensors.len() as u64);
        out.extend(tensors.to_le_bytes());
        out.extend(self.metadata_count.unwrap_or(self.entries).to_le_bytes());
        out.extend(&self.metadata);
        for t in &self.tensors {
            put_string(&mut out, &t.name);
            out.extend((t.dims.len() as u32).to_le_bytes());
            t.dims.iter().for_each(|d| out.extend(d.to_le_bytes()));
            out.extend(t.kind.to_le_bytes());
            out.extend(t.offset.to_le_bytes());
        }
        let data = (out.len() as u64).next_multiple_of(self.alignment.max(1));
        out.resize(data as usize, 0);
        out.extend(&self.data);
        out
    }
}

fn put_string(out: &mut Vec<u8>, text: &[u8]) {
    out.extend((text.len() as u64).to_le_bytes());
    out.extend(text);
}
