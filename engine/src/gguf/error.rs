//! What can be wrong with a model file: one line each, naming file, tensor and remedy.

use std::fmt;
use std::path::{Path, PathBuf};

/// A model file that cannot be used, or a tensor of it.
#[derive(Debug, thiserror::Error)]
#[error("{}: {problem}", Printable(&path.to_string_lossy()))]
pub struct GgufError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it, and what helps.
    #[source]
    pub problem: Problem,
}

impl GgufError {
    pub(super) fn new(path: &Path, problem: Problem) -> GgufError {
        GgufError {
            path: path.to_owned(),
            problem,
        }
    }
}

/// What is wrong. Offsets and sizes in bytes.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// The file could not be opened or mapped.
    #[error("cannot be opened ({0}): check the path and the permissions")]
    Open(#[source] std::io::Error),
    /// A directory, pipe or device.
    #[error("is no regular file: give the path of a .gguf file")]
    NotAFile,
    /// Not a GGUF file at all.
    #[error(
        "does not start with \"GGUF\": give a model in GGUF format (convert_hf_to_gguf.py of llama.cpp makes one)"
    )]
    NotGguf,
    /// Written for machines of the other byte order.
    #[error("is a big-endian GGUF file: convert it with gguf_convert_endian.py of llama.cpp")]
    BigEndian,
    /// A version that we do not read.
    #[error(
        "is GGUF version {0}, and only 2 and 3 are read: convert the model anew with a current llama.cpp"
    )]
    Version(u32),
    /// The file ends within something.
    #[error("ends within {what} (byte {at} of {len}): the file is truncated, fetch it again")]
    Truncated {
        /// What was being read.
        what: What,
        /// Where it starts.
        at: u64,
        /// Bytes of the file.
        len: u64,
    },
    /// A count that cannot be true, as the file has not the bytes for it.
    #[error(
        "claims {count} {what}, more than its {left} remaining bytes can hold: the file is damaged, fetch it again"
    )]
    Count {
        /// What is counted.
        what: What,
        /// The count in the file.
        count: u64,
        /// Bytes from there to the file's end.
        left: u64,
    },
    /// A metadata value of no known type.
    #[error(
        "has metadata {key} of unknown value type {number}: the file is damaged or newer than this program"
    )]
    ValueType {
        /// The key.
        key: Name,
        /// The type number.
        number: u32,
    },
    /// A metadata value that is wrong in itself.
    #[error("has metadata {key} that {why}: the file is damaged, fetch it again")]
    Value {
        /// The key.
        key: Name,
        /// What is wrong.
        why: &'static str,
    },
    /// Two metadata entries or two tensors of one name.
    #[error("has two {what} called {name}: the file is damaged, fetch it again")]
    Twice {
        /// `"metadata entries"` or `"tensors"`.
        what: &'static str,
        /// The name.
        name: Name,
    },
    /// `general.alignment` is nothing to align to.
    #[error(
        "has general.alignment {0}, which is no power of two from 1 to 1048576: the file is damaged, fetch it again"
    )]
    Alignment(u64),
    /// A name that is empty, too long or not UTF-8.
    #[error("has a {what} name {name} that {why}: the file is damaged, fetch it again")]
    BadName {
        /// `"metadata"` or `"tensor"`.
        what: &'static str,
        /// As far as it can be shown.
        name: Name,
        /// What is wrong.
        why: &'static str,
    },
    /// A tensor whose dimensions are wrong.
    #[error("tensor {tensor} has {why}: the file is damaged, fetch it again")]
    Dimensions {
        /// The tensor.
        tensor: Name,
        /// What is wrong with them.
        why: &'static str,
    },
    /// A tensor type that ggml does not have (yet).
    #[error(
        "tensor {tensor} has type number {number}, which stands for nothing known: the file is damaged or newer than this program"
    )]
    UnknownType {
        /// The tensor.
        tensor: Name,
        /// The type number.
        number: u32,
    },
    /// A tensor type that ggml has removed.
    #[error(
        "tensor {tensor} is {type_name}, a type that ggml has removed: quantise the model anew, e.g. to Q4_0"
    )]
    RemovedType {
        /// The tensor.
        tensor: Name,
        /// The type.
        type_name: &'static str,
    },
    /// A row that is no whole number of blocks.
    #[error(
        "tensor {tensor} has rows of {k} elements, no multiple of the {block} of a {type_name} block: the file is damaged, fetch it again"
    )]
    NotWholeBlocks {
        /// The tensor.
        tensor: Name,
        /// Elements of a row.
        k: u64,
        /// Elements of a block.
        block: u64,
        /// The type.
        type_name: &'static str,
    },
    /// An offset that is not aligned.
    #[error(
        "tensor {tensor} starts at offset {offset}, which is not aligned to {alignment}: the file is damaged, fetch it again"
    )]
    Misaligned {
        /// The tensor.
        tensor: Name,
        /// Its offset in the data section.
        offset: u64,
        /// `general.alignment`.
        alignment: u64,
    },
    /// A tensor that reaches beyond the file.
    #[error(
        "tensor {tensor} needs {bytes} bytes at offset {offset} of a data section of {section}: the file is truncated, fetch it again"
    )]
    BeyondEnd {
        /// The tensor.
        tensor: Name,
        /// Its offset in the data section.
        offset: u64,
        /// Its size.
        bytes: u64,
        /// Bytes of the data section.
        section: u64,
    },
    /// Two tensors share bytes.
    #[error("tensors {first} and {second} overlap: the file is damaged, fetch it again")]
    Overlap {
        /// The one that starts first.
        first: Name,
        /// The other.
        second: Name,
    },
    /// No tensor of that name.
    #[error("has no tensor {tensor}{}", hint(near))]
    NoSuchTensor {
        /// The name asked for.
        tensor: Name,
        /// A name that the file has and that resembles it.
        near: Option<Name>,
    },
    /// A tensor that is a vector or has more than two dimensions.
    #[error(
        "tensor {tensor} is no matrix (its dimensions are {dims:?}): choose one with two dimensions"
    )]
    NotAMatrix {
        /// The tensor.
        tensor: Name,
        /// Its dimensions, fastest first.
        dims: Vec<u64>,
    },
    /// A matrix in a type that the engine does not multiply.
    #[error(
        "tensor {tensor} is {type_name}, which is not multiplied here: quantise the model to Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K, Q6_K, F16 or F32 (llama-quantize)"
    )]
    UnsupportedType {
        /// The tensor.
        tensor: Name,
        /// The type.
        type_name: &'static str,
    },
    /// A file without matrices.
    #[error("has no matrix among its {0} tensors: give a model file with weights")]
    NoMatrices(usize),
}

fn hint(near: &Option<Name>) -> String {
    match near {
        Some(name) => format!(": did you mean {name}?"),
        None => ": check the name (panthorctl gemm --all lists all matrices)".to_owned(),
    }
}

/// What part of the file was being read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// The fixed header.
    Header,
    /// Metadata entries, or one whose key is not read yet.
    Metadata,
    /// The value of a key.
    ValueOf(Name),
    /// Elements of an array value.
    ElementsOf(Name),
    /// Tensors, or one whose name is not read yet.
    Tensors,
    /// A tensor's entry in the table.
    Entry(Name),
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            What::Header => f.write_str("the header"),
            What::Metadata => f.write_str("metadata entries"),
            What::ValueOf(key) => write!(f, "the value of {key}"),
            What::ElementsOf(key) => write!(f, "elements of {key}"),
            What::Tensors => f.write_str("tensors"),
            What::Entry(name) => write!(f, "the entry of tensor {name}"),
        }
    }
}

/// A name out of a file, shortened and free of control characters when printed: an error stays one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name(String);

impl Name {
    /// Longest part of a name that is kept, in characters.
    const KEPT: usize = 80;

    /// Keeps the beginning of a name; invalid UTF-8 is replaced.
    pub fn new(bytes: impl AsRef<[u8]>) -> Name {
        let bytes = bytes.as_ref();
        // Four bytes a character at most, so the cut never loses a kept character.
        let head = &bytes[..bytes.len().min(4 * (Name::KEPT + 1))];
        let text = String::from_utf8_lossy(head);
        let mut kept: String = text.chars().take(Name::KEPT).collect();
        if kept.len() < bytes.len() && text.chars().count() > Name::KEPT {
            kept.push('…');
        }
        Name(kept)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", Printable(&self.0))
    }
}

/// Text with control characters escaped.
struct Printable<'a>(&'a str);

impl fmt::Display for Printable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}') {
                write!(f, "{}", c.escape_unicode())?;
            } else {
                write!(f, "{c}")?;
            }
        }
        Ok(())
    }
}
