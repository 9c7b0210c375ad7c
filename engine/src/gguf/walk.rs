//! The header, metadata and tensor table, read without trust.
//!
//! The format is GGUF 2 and 3 (ggml, `docs/gguf.md`; llama.cpp, `ggml/src/gguf.cpp`). Nothing is allocated by a count from the
//! file before the file is known to be long enough for that many entries, so memory stays within a small multiple of its size.

use std::collections::HashSet;

use super::error::{Name, Problem, What};
use super::types::TensorType;

/// Longest metadata key, as the format demands.
const MAX_KEY: u64 = 65_535;
/// Longest tensor name. The format says 64, some writers go beyond; nobody needs more than this.
const MAX_TENSOR_NAME: u64 = 512;
/// Most dimensions of a tensor (ggml.h, `GGML_MAX_DIMS`).
const MAX_DIMS: u32 = 4;
/// Arrays in arrays deeper than this are refused (llama.cpp reads none at all).
const MAX_NESTING: u32 = 4;
/// Alignment where the file does not give one (`GGUF_DEFAULT_ALIGNMENT`).
const DEFAULT_ALIGNMENT: u64 = 32;
/// Largest alignment that is believed.
const MAX_ALIGNMENT: u64 = 1 << 20;
/// Fewest bytes of a metadata entry: key length, one byte of key, type, one byte of value.
const MIN_ENTRY: u64 = 8 + 1 + 4 + 1;
/// Fewest bytes of a tensor entry: name length, one byte of name, dimension count, one dimension, type, offset.
const MIN_TENSOR: u64 = 8 + 1 + 4 + 8 + 4 + 8;

/// A metadata value. Strings and arrays stay in the file: their place is kept.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Any of the unsigned integer types.
    Unsigned(u64),
    /// Any of the signed integer types.
    Signed(i64),
    /// f32 or f64.
    Float(f64),
    /// A truth value.
    Bool(bool),
    /// UTF-8 text.
    Text(String),
    /// An array: type number of its elements, their count, and where they lie in the file.
    Array {
        /// GGUF's number of the element type.
        element: u32,
        /// How many.
        count: u64,
        /// First byte of the elements in the file.
        from: u64,
        /// First byte after them.
        to: u64,
    },
}

/// A line of the tensor table, checked.
#[derive(Debug, Clone)]
pub struct Tensor {
    /// Its name.
    pub name: String,
    /// Elements along each dimension, fastest first, as ggml counts: `[K, N]` for a matrix.
    pub dims: Vec<u64>,
    /// Its type.
    pub kind: TensorType,
    /// First byte in the file.
    pub(super) from: u64,
    /// First byte after it.
    pub(super) to: u64,
}

impl Tensor {
    /// Bytes of its data.
    pub fn bytes(&self) -> u64 {
        self.to - self.from
    }

    /// Whether it has exactly two dimensions (trailing ones beyond the second do not count).
    pub fn is_matrix(&self) -> bool {
        self.dims.len() >= 2 && self.dims[2..].iter().all(|d| *d == 1)
    }
}

/// What a file says of itself.
#[derive(Debug)]
pub(super) struct Contents {
    pub version: u32,
    pub metadata: Vec<(String, Value)>,
    pub tensors: Vec<Tensor>,
}

/// Reads and checks everything but the tensors' data.
pub(super) fn walk(file: &[u8]) -> Result<Contents, Problem> {
    let mut r = Reader { file, at: 0 };
    let version = header(&mut r)?;
    let tensor_count = r.u64(&What::Header)?;
    let entry_count = r.u64(&What::Header)?;
    r.check_count(&What::Tensors, tensor_count, MIN_TENSOR)?;
    r.check_count(&What::Metadata, entry_count, MIN_ENTRY)?;

    let metadata = metadata(&mut r, entry_count)?;
    let alignment = match metadata.iter().find(|(k, _)| k == "general.alignment") {
        None => DEFAULT_ALIGNMENT,
        Some((_, Value::Unsigned(a))) if a.is_power_of_two() && *a <= MAX_ALIGNMENT => *a,
        Some((_, Value::Unsigned(a))) => return Err(Problem::Alignment(*a)),
        Some((key, _)) => {
            return Err(Problem::Value {
                key: Name::new(key),
                why: "is no unsigned integer",
            });
        }
    };

    // Again: metadata has used some of the bytes since.
    r.check_count(&What::Tensors, tensor_count, MIN_TENSOR)?;
    let mut entries = Vec::with_capacity(tensor_count as usize);
    for _ in 0..tensor_count {
        entries.push(entry(&mut r)?);
    }
    let names: HashSet<&str> = entries.iter().map(|e| e.name.as_str()).collect();
    if names.len() != entries.len() {
        return Err(twice("tensors", entries.iter().map(|e| e.name.as_str())));
    }

    let len = file.len() as u64;
    // Where there are no tensors the data section may be missing altogether.
    let data = r.at.next_multiple_of(alignment);
    let section = len.saturating_sub(data);
    let mut tensors = Vec::with_capacity(entries.len());
    for e in entries {
        let offset = e.from;
        if offset % alignment != 0 {
            return Err(Problem::Misaligned {
                tensor: Name::new(&e.name),
                offset,
                alignment,
            });
        }
        if offset.checked_add(e.to).is_none_or(|end| end > section) {
            return Err(Problem::BeyondEnd {
                tensor: Name::new(&e.name),
                offset,
                bytes: e.to,
                section,
            });
        }
        let from = data + offset;
        tensors.push(Tensor {
            from,
            to: from + e.to,
            ..e
        });
    }
    check_overlap(&tensors)?;
    Ok(Contents {
        version,
        metadata,
        tensors,
    })
}

fn header(r: &mut Reader<'_>) -> Result<u32, Problem> {
    if r.file.len() >= 4 && r.file[..4] != *b"GGUF" {
        return Err(Problem::NotGguf);
    }
    r.take(4, &What::Header)?;
    let version = r.u32(&What::Header)?;
    match version {
        2 | 3 => Ok(version),
        // A version that is small when its bytes are swapped.
        v if v.swap_bytes() <= 0xffff && v > 0xffff => Err(Problem::BigEndian),
        v => Err(Problem::Version(v)),
    }
}

fn metadata(r: &mut Reader<'_>, count: u64) -> Result<Vec<(String, Value)>, Problem> {
    let mut all: Vec<(String, Value)> = Vec::with_capacity(count as usize);
    for _ in 0..count {
        let key = r.name("metadata", MAX_KEY, &What::Metadata)?;
        let number = r.u32(&What::ValueOf(Name::new(&key)))?;
        let value = value(r, &key, number, 0)?;
        all.push((key, value));
    }
    let keys: HashSet<&str> = all.iter().map(|(k, _)| k.as_str()).collect();
    if keys.len() != all.len() {
        return Err(twice(
            "metadata entries",
            all.iter().map(|(k, _)| k.as_str()),
        ));
    }
    Ok(all)
}

/// The error for the first name that occurs a second time.
fn twice<'a>(what: &'static str, names: impl Iterator<Item = &'a str>) -> Problem {
    let mut seen = HashSet::new();
    let name = names
        .into_iter()
        .find(|n| !seen.insert(*n))
        .unwrap_or_default();
    Problem::Twice {
        what,
        name: Name::new(name),
    }
}

/// Bytes of a value of fixed size, by GGUF's type number (`gguf.h`, `enum gguf_type`).
fn fixed_size(number: u32) -> Option<u64> {
    match number {
        0 | 1 | 7 => Some(1),
        2 | 3 => Some(2),
        4..=6 => Some(4),
        10..=12 => Some(8),
        _ => None,
    }
}

fn value(r: &mut Reader<'_>, key: &str, number: u32, depth: u32) -> Result<Value, Problem> {
    let what = || What::ValueOf(Name::new(key));
    let bad = |why| Problem::Value {
        key: Name::new(key),
        why,
    };
    Ok(match number {
        0 => Value::Unsigned(r.array::<1>(&what())?[0].into()),
        1 => Value::Signed(i8::from_le_bytes(r.array(&what())?).into()),
        2 => Value::Unsigned(u16::from_le_bytes(r.array(&what())?).into()),
        3 => Value::Signed(i16::from_le_bytes(r.array(&what())?).into()),
        4 => Value::Unsigned(r.u32(&what())?.into()),
        5 => Value::Signed(i32::from_le_bytes(r.array(&what())?).into()),
        6 => Value::Float(f32::from_le_bytes(r.array(&what())?).into()),
        7 => match r.array::<1>(&what())? {
            [0] => Value::Bool(false),
            [1] => Value::Bool(true),
            _ => return Err(bad("is a truth value other than 0 and 1")),
        },
        8 => {
            let text = r.string(&what())?;
            // Tokenizers and templates are not always valid; nothing depends on it.
            Value::Text(String::from_utf8_lossy(text).into_owned())
        }
        9 => {
            if depth == MAX_NESTING {
                return Err(bad("nests arrays too deeply"));
            }
            let element = r.u32(&what())?;
            let count = r.u64(&what())?;
            let from = r.at;
            let elements = What::ElementsOf(Name::new(key));
            if let Some(size) = fixed_size(element) {
                r.check_count(&elements, count, size)?;
                r.take(count * size, &elements)?;
            } else if element == 8 || element == 9 {
                // A string is at least its length, an array its type and length.
                r.check_count(&elements, count, if element == 8 { 8 } else { 12 })?;
                for _ in 0..count {
                    if element == 8 {
                        r.string(&elements)?;
                    } else {
                        value(r, key, 9, depth + 1)?;
                    }
                }
            } else {
                return Err(Problem::ValueType {
                    key: Name::new(key),
                    number: element,
                });
            }
            Value::Array {
                element,
                count,
                from,
                to: r.at,
            }
        }
        10 => Value::Unsigned(r.u64(&what())?),
        11 => Value::Signed(i64::from_le_bytes(r.array(&what())?)),
        12 => Value::Float(f64::from_le_bytes(r.array(&what())?)),
        number => {
            return Err(Problem::ValueType {
                key: Name::new(key),
                number,
            });
        }
    })
}

/// A tensor's entry. `from` is its offset within the data section and `to` its size, until the section's place is known.
fn entry(r: &mut Reader<'_>) -> Result<Tensor, Problem> {
    let name = r.name("tensor", MAX_TENSOR_NAME, &What::Tensors)?;
    let tensor = || Name::new(&name);
    let what = What::Entry(tensor());
    let dimensions = |why| Problem::Dimensions {
        tensor: tensor(),
        why,
    };
    let dim_count = r.u32(&what)?;
    if dim_count == 0 {
        return Err(dimensions("no dimensions"));
    }
    if dim_count > MAX_DIMS {
        return Err(dimensions("more than four dimensions"));
    }
    let mut dims = Vec::with_capacity(dim_count as usize);
    for _ in 0..dim_count {
        dims.push(r.u64(&what)?);
    }
    let number = r.u32(&what)?;
    let offset = r.u64(&what)?;

    if dims.contains(&0) {
        return Err(dimensions("a dimension of 0"));
    }
    // ggml counts elements in an i64.
    let elements = dims
        .iter()
        .try_fold(1u64, |a, d| a.checked_mul(*d))
        .filter(|e| i64::try_from(*e).is_ok())
        .ok_or_else(|| dimensions("more elements than can be counted"))?;
    let kind = TensorType::from_number(number).ok_or_else(|| Problem::UnknownType {
        tensor: tensor(),
        number,
    })?;
    let (block, block_bytes) = kind.block().ok_or_else(|| Problem::RemovedType {
        tensor: tensor(),
        type_name: kind.name(),
    })?;
    if dims[0] % block != 0 {
        return Err(Problem::NotWholeBlocks {
            tensor: tensor(),
            k: dims[0],
            block,
            type_name: kind.name(),
        });
    }
    let bytes = (elements / block)
        .checked_mul(block_bytes)
        .ok_or_else(|| dimensions("more bytes than can be counted"))?;
    Ok(Tensor {
        name,
        dims,
        kind,
        from: offset,
        to: bytes,
    })
}

fn check_overlap(tensors: &[Tensor]) -> Result<(), Problem> {
    let mut order: Vec<&Tensor> = tensors.iter().collect();
    order.sort_by_key(|t| t.from);
    for pair in order.windows(2) {
        if pair[0].to > pair[1].from {
            return Err(Problem::Overlap {
                first: Name::new(&pair[0].name),
                second: Name::new(&pair[1].name),
            });
        }
    }
    Ok(())
}

/// A place in the file. Every step is checked against its end.
struct Reader<'a> {
    file: &'a [u8],
    at: u64,
}

impl<'a> Reader<'a> {
    fn left(&self) -> u64 {
        self.file.len() as u64 - self.at
    }

    fn take(&mut self, count: u64, what: &What) -> Result<&'a [u8], Problem> {
        if count > self.left() {
            return Err(Problem::Truncated {
                what: what.clone(),
                at: self.at,
                len: self.file.len() as u64,
            });
        }
        let from = self.at as usize;
        self.at += count;
        Ok(&self.file[from..from + count as usize])
    }

    fn array<const N: usize>(&mut self, what: &What) -> Result<[u8; N], Problem> {
        let mut bytes = [0; N];
        bytes.copy_from_slice(self.take(N as u64, what)?);
        Ok(bytes)
    }

    fn u32(&mut self, what: &What) -> Result<u32, Problem> {
        Ok(u32::from_le_bytes(self.array(what)?))
    }

    fn u64(&mut self, what: &What) -> Result<u64, Problem> {
        Ok(u64::from_le_bytes(self.array(what)?))
    }

    fn string(&mut self, what: &What) -> Result<&'a [u8], Problem> {
        let len = self.u64(what)?;
        self.take(len, what)
    }

    fn name(&mut self, kind: &'static str, max: u64, what: &What) -> Result<String, Problem> {
        let bytes = self.string(what)?;
        let bad = |why| Problem::BadName {
            what: kind,
            name: Name::new(bytes),
            why,
        };
        if bytes.is_empty() {
            return Err(bad("is empty"));
        }
        if bytes.len() as u64 > max {
            return Err(bad("is longer than any name may be"));
        }
        let text = std::str::from_utf8(bytes).map_err(|_| bad("is no UTF-8"))?;
        Ok(text.to_owned())
    }

    /// Refuses a count of things of at least `size` bytes each that cannot fit into the rest of the file.
    fn check_count(&self, what: &What, count: u64, size: u64) -> Result<(), Problem> {
        if count > self.left() / size {
            return Err(Problem::Count {
                what: what.clone(),
                count,
                left: self.left(),
            });
        }
        Ok(())
    }
}
