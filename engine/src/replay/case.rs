//! Recorded jobs: the file format, read without trust.
//!
//! A cases file is a JSON array. Each case names files that lie beside it, plain or with `.xz` appended:
//!
//! | key | meaning |
//! |---|---|
//! | `op` | what the job computes, for people |
//! | `snapshot` | memory image: repeated `u64 va, u64 len, len bytes` (little-endian); absent pages are zero |
//! | `map` | one JSON object a line: `va`, `size`, `bo`, `bo_off`, `vmflags` (of `drm_panthor_vm_bind_op`), `boflags` |
//! | `streams` | `queue`, `stream` (GPU address), `size` (bytes), in order of submission |
//! | `initial_cs_registers` | optional, per queue: `r90_r91` (a 64-bit value) and `r84_to_r89` (one value for all six) |
//! | `scoreboard` | optional: the scoreboard entry that the streams expect to be selected (default 3, as Mesa's) |
//! | `tensors` | `role` (`src` or `dst`), `type` (`f32`, `f16`, …), `va`, `bytes`, and for sources `file` |
//! | `ref` | the bytes that the one `dst` tensor must hold afterwards |
//! | `tolerance` | `{"exact": true}` or `{"nmse": X}` |
//!
//! Numbers are JSON numbers or strings, decimal or `0x…`. Other keys are comments.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use mali_isa::csf;
use panthor_uapi::VmBindOpFlags;
use serde::Deserialize;

use super::ReplayError;

/// The largest scoreboard entry that SET_SB_ENTRY can name (four bits; Mesa's `genxml/v10.xml`). How many there are is the
/// device's.
const MAX_SCOREBOARD: u8 = 15;

/// No file of a case may unpack to more than this.
const MAX_FILE: usize = 1 << 30;

/// No address of a v10 GPU lies beyond (48 bits, `va_bits` in panthor_mmu.c).
const MAX_VA: u64 = 1 << 48;

/// A job with its memory and its answer.
#[derive(Clone, Debug)]
pub struct Case {
    /// What it computes.
    pub op: String,
    /// Command streams in order of submission.
    pub streams: Vec<Stream>,
    /// Command-stream registers that earlier work left behind.
    pub registers: Vec<InitialRegisters>,
    /// The scoreboard entry that earlier work selected.
    pub scoreboard: u8,
    /// GPU address ranges.
    pub mappings: Vec<Mapping>,
    /// Contents of memory: address and bytes.
    pub memory: Vec<(u64, Vec<u8>)>,
    /// The tensor to compare.
    pub output: Output,
}

/// One command stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    /// Index of the queue in its group.
    pub queue: u32,
    /// GPU address of the first instruction.
    pub va: u64,
    /// Length in bytes.
    pub size: u32,
}

/// Register values that a queue's streams read without writing them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InitialRegisters {
    /// Index of the queue.
    pub queue: u32,
    /// The pair r90:r91.
    pub r90_r91: u64,
    /// Each of r84 to r89.
    pub r84_to_r89: u32,
}

/// One range of GPU addresses and the buffer object behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// First GPU address.
    pub va: u64,
    /// Length in bytes.
    pub size: u64,
    /// Which buffer object, by its number in the file.
    pub bo: u32,
    /// Offset in the buffer object.
    pub bo_offset: u64,
    /// `DRM_PANTHOR_VM_BIND_OP_MAP_*` flags.
    pub flags: u32,
}

/// The tensor that the job writes.
#[derive(Clone, Debug)]
pub struct Output {
    /// GPU address.
    pub va: u64,
    /// How to read its elements.
    pub element: Element,
    /// What it must hold.
    pub expected: Vec<u8>,
    /// How far off it may be.
    pub tolerance: Tolerance,
}

/// Element types that outputs have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    /// Single precision.
    F32,
    /// Half precision.
    F16,
}

/// How far an output may be from the expected bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Tolerance {
    /// Every byte equal.
    Exact,
    /// Normalised mean squared error at most this.
    Nmse(f64),
}

#[derive(Deserialize)]
struct RawCase {
    op: String,
    snapshot: String,
    map: String,
    streams: Vec<RawStream>,
    #[serde(default)]
    initial_cs_registers: Vec<RawRegisters>,
    #[serde(default = "mesa_scoreboard")]
    scoreboard: u8,
    tensors: Vec<RawTensor>,
    #[serde(rename = "ref")]
    reference: String,
    tolerance: RawTolerance,
}

/// Mesa's panvk selects entry 3 once per command buffer chain (`SB_ITER(0)` in `vulkan/csf/panvk_cmd_buffer.h`).
fn mesa_scoreboard() -> u8 {
    3
}

#[derive(Deserialize)]
struct RawStream {
    queue: u32,
    stream: Number,
    size: u32,
}

#[derive(Deserialize)]
struct RawRegisters {
    queue: u32,
    r90_r91: Number,
    r84_to_r89: Number,
}

#[derive(Deserialize)]
struct RawTensor {
    role: String,
    #[serde(rename = "type")]
    kind: String,
    va: Number,
    bytes: u64,
    file: Option<String>,
}

#[derive(Deserialize)]
struct RawTolerance {
    #[serde(default)]
    exact: bool,
    nmse: Option<f64>,
}

#[derive(Deserialize)]
struct RawMapping {
    va: Number,
    size: Number,
    bo: u32,
    bo_off: Number,
    vmflags: Number,
}

/// A number written as JSON number or as decimal or hexadecimal string.
#[derive(Deserialize)]
#[serde(untagged)]
enum Number {
    Plain(u64),
    Text(String),
}

impl Number {
    fn value(&self, file: &Path) -> Result<u64, ReplayError> {
        match self {
            Number::Plain(n) => Ok(*n),
            Number::Text(text) => match text.strip_prefix("0x") {
                Some(hex) => u64::from_str_radix(hex, 16),
                None => text.parse(),
            }
            .map_err(|_| ReplayError::file(file, format!("{text:?} is no number"))),
        }
    }
}

/// The cases of one file, loaded one at a time: each may be hundreds of megabytes unpacked.
pub struct Cases {
    path: PathBuf,
    raw: Vec<RawCase>,
}

impl Cases {
    /// Reads the cases file, not yet the files that it names.
    ///
    /// # Errors
    /// [`ReplayError::File`] when it cannot be read or is no cases file.
    pub fn open(path: &Path) -> Result<Self, ReplayError> {
        let bytes = read_file(path)?;
        let raw: Vec<RawCase> = serde_json::from_slice(&bytes)
            .map_err(|e| ReplayError::file(path, format!("no cases file: {e}")))?;
        if raw.is_empty() {
            return Err(ReplayError::file(path, "holds no case"));
        }
        Ok(Self {
            path: path.to_owned(),
            raw,
        })
    }

    /// How many cases there are.
    pub fn len(&self) -> usize {
        self.raw.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.raw.is_empty()
    }

    /// Loads case `index` with all its files.
    ///
    /// # Errors
    /// [`ReplayError::File`] naming the file that is missing, malformed or contradicts another.
    ///
    /// # Panics
    /// When `index` is not below [`Cases::len`].
    pub fn load(&self, index: usize) -> Result<Case, ReplayError> {
        let raw = &self.raw[index];
        let path = &self.path;
        let beside = |name: &str| -> Result<PathBuf, ReplayError> {
            if name.is_empty() || name.contains(['/', '\\']) {
                return Err(ReplayError::file(
                    path,
                    format!("{name:?} must be the name of a file beside it"),
                ));
            }
            Ok(path.with_file_name(name))
        };

        let mut streams = Vec::new();
        for s in &raw.streams {
            let va = s.stream.value(path)?;
            // What the driver would refuse without saying of which stream (panthor_sched.c, `group_submit_ioctl`).
            if va % csf::STREAM_ALIGNMENT != 0
                || s.size == 0
                || s.size as usize % csf::INSTR_BYTES != 0
            {
                let why = format!(
                    "case {index}: a stream of {} bytes at {va:#x}: want whole instructions of {} bytes at a multiple of {}",
                    s.size,
                    csf::INSTR_BYTES,
                    csf::STREAM_ALIGNMENT
                );
                return Err(ReplayError::file(path, why));
            }
            streams.push(Stream {
                queue: s.queue,
                va,
                size: s.size,
            });
        }
        if streams.is_empty() {
            let why = format!("case {index} has no stream");
            return Err(ReplayError::file(path, why));
        }
        let mut registers = Vec::new();
        for r in &raw.initial_cs_registers {
            let each = r.r84_to_r89.value(path)?;
            let r84_to_r89 = u32::try_from(each).map_err(|_| {
                ReplayError::file(path, format!("r84_to_r89 {each:#x} exceeds 32 bits"))
            })?;
            registers.push(InitialRegisters {
                queue: r.queue,
                r90_r91: r.r90_r91.value(path)?,
                r84_to_r89,
            });
        }

        let mappings = load_mappings(&beside(&raw.map)?)?;
        let snapshot = beside(&raw.snapshot)?;
        let mut memory = split_snapshot(&snapshot, &read_file(&snapshot)?)?;
        let mut output = None;
        for tensor in &raw.tensors {
            let va = tensor.va.value(path)?;
            match (tensor.role.as_str(), &tensor.file) {
                ("src", Some(name)) => {
                    let file = beside(name)?;
                    let bytes = read_file(&file)?;
                    if bytes.len() as u64 != tensor.bytes {
                        let why =
                            format!("{} bytes, but its tensor has {}", bytes.len(), tensor.bytes);
                        return Err(ReplayError::file(&file, why));
                    }
                    memory.push((va, bytes));
                }
                ("dst", None) if output.is_none() => output = Some((va, tensor)),
                _ => {
                    let why = format!(
                        "case {index}: want one `dst` tensor without and any `src` with a file"
                    );
                    return Err(ReplayError::file(path, why));
                }
            }
        }
        let (va, tensor) = output
            .ok_or_else(|| ReplayError::file(path, format!("case {index} has no `dst` tensor")))?;
        let reference = beside(&raw.reference)?;
        let expected = read_file(&reference)?;
        if expected.len() as u64 != tensor.bytes {
            let why = format!(
                "{} bytes, but the output tensor has {}",
                expected.len(),
                tensor.bytes
            );
            return Err(ReplayError::file(&reference, why));
        }
        let element = match tensor.kind.as_str() {
            "f32" => Element::F32,
            "f16" => Element::F16,
            other => {
                return Err(ReplayError::file(
                    path,
                    format!("outputs of type {other:?} cannot be compared"),
                ));
            }
        };
        let tolerance = match (raw.tolerance.exact, raw.tolerance.nmse) {
            (true, None) => Tolerance::Exact,
            (false, Some(nmse)) if nmse >= 0.0 => Tolerance::Nmse(nmse),
            _ => {
                let why = format!(
                    "case {index}: tolerance is either {{\"exact\": true}} or {{\"nmse\": X}}"
                );
                return Err(ReplayError::file(path, why));
            }
        };

        if raw.scoreboard > MAX_SCOREBOARD {
            let why = format!(
                "case {index}: there is no scoreboard entry {}",
                raw.scoreboard
            );
            return Err(ReplayError::file(path, why));
        }
        let case = Case {
            op: raw.op.clone(),
            streams,
            registers,
            scoreboard: raw.scoreboard,
            mappings,
            memory,
            output: Output {
                va,
                element,
                expected,
                tolerance,
            },
        };
        let mapped = Mapped::new(&case.mappings);
        for (va, len, what) in case.ranges() {
            if !mapped.covers(va, len) {
                return Err(ReplayError::file(
                    path,
                    format!("case {index}: {what} at {va:#x} is not mapped"),
                ));
            }
        }
        Ok(case)
    }
}

impl Case {
    /// Every range that must lie in mapped memory.
    fn ranges(&self) -> impl Iterator<Item = (u64, u64, &'static str)> + '_ {
        let memory = self
            .memory
            .iter()
            .map(|(va, bytes)| (*va, bytes.len() as u64, "contents"));
        let streams = self
            .streams
            .iter()
            .map(|s| (s.va, u64::from(s.size), "a stream"));
        let output = [(
            self.output.va,
            self.output.expected.len() as u64,
            "the output",
        )];
        memory.chain(streams).chain(output)
    }
}

/// The mapped ranges, sorted, without overlaps, those that touch joined.
struct Mapped(Vec<(u64, u64)>);

impl Mapped {
    fn new(mappings: &[Mapping]) -> Self {
        let ranges = mappings.iter().map(|m| (m.va, m.va.saturating_add(m.size)));
        let mut sorted: Vec<_> = ranges.collect();
        sorted.sort_unstable();
        let mut joined: Vec<(u64, u64)> = Vec::with_capacity(sorted.len());
        for (start, end) in sorted {
            match joined.last_mut() {
                Some(last) if start <= last.1 => last.1 = last.1.max(end),
                _ => joined.push((start, end)),
            }
        }
        Self(joined)
    }

    /// Whether all of `len` bytes at `va` are mapped.
    fn covers(&self, va: u64, len: u64) -> bool {
        let Some(end) = va.checked_add(len) else {
            return false;
        };
        let after = self.0.partition_point(|(start, _)| *start <= va);
        len == 0 || (after > 0 && end <= self.0[after - 1].1)
    }
}

fn load_mappings(path: &Path) -> Result<Vec<Mapping>, ReplayError> {
    let text = String::from_utf8(read_file(path)?)
        .map_err(|_| ReplayError::file(path, "not UTF-8 text"))?;
    let mut mappings = Vec::new();
    for (number, line) in text
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty())
    {
        let at = |why: String| ReplayError::file(path, format!("line {}: {why}", number + 1));
        let raw: RawMapping = serde_json::from_str(line).map_err(|e| at(e.to_string()))?;
        let flags = raw.vmflags.value(path)?;
        let known = VmBindOpFlags::all().difference(VmBindOpFlags::TYPE_MASK);
        if flags & !u64::from(known.bits()) != 0 {
            return Err(at(format!("vmflags {flags:#x} are no flags of a mapping")));
        }
        let mapping = Mapping {
            va: raw.va.value(path)?,
            size: raw.size.value(path)?,
            bo: raw.bo,
            bo_offset: raw.bo_off.value(path)?,
            flags: u32::try_from(flags)
                .map_err(|_| at(format!("vmflags {flags:#x} exceed 32 bits")))?,
        };
        let fits = |start: u64| start.checked_add(mapping.size).is_some_and(|e| e <= MAX_VA);
        if mapping.size == 0 || !fits(mapping.va) || !fits(mapping.bo_offset) {
            return Err(at(format!(
                "a mapping of {:#x} bytes at {:#x} from {:#x} of its buffer: want a size, and ends within 48 bits",
                mapping.size, mapping.va, mapping.bo_offset
            )));
        }
        mappings.push(mapping);
    }
    Ok(mappings)
}

fn split_snapshot(path: &Path, mut bytes: &[u8]) -> Result<Vec<(u64, Vec<u8>)>, ReplayError> {
    let mut pieces: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
    while !bytes.is_empty() {
        let piece = bytes.split_at_checked(16).and_then(|(head, rest)| {
            let va = u64::from_le_bytes(head[..8].try_into().ok()?);
            let len = u64::from_le_bytes(head[8..].try_into().ok()?);
            let (data, rest) = rest.split_at_checked(usize::try_from(len).ok()?)?;
            va.checked_add(len)?;
            Some((va, data, rest))
        });
        let Some((va, data, rest)) = piece else {
            return Err(ReplayError::file(
                path,
                "truncated: want repeated `u64 va, u64 len, len bytes`",
            ));
        };
        pieces.insert(va, data.to_vec());
        bytes = rest;
    }
    Ok(pieces.into_iter().collect())
}

/// A file whole, or its `.xz` neighbour unpacked.
fn read_file(path: &Path) -> Result<Vec<u8>, ReplayError> {
    let error = |e: io::Error| ReplayError::file(path, e);
    let mut packed_name = path.as_os_str().to_owned();
    packed_name.push(".xz");
    let packed = Path::new(&packed_name);
    if !path.exists() && packed.exists() {
        let mut input = io::BufReader::new(std::fs::File::open(packed).map_err(error)?);
        let mut output = Bounded(Vec::new());
        lzma_rs::xz_decompress(&mut input, &mut output)
            .map_err(|e| ReplayError::file(packed, format!("cannot be unpacked: {e}")))?;
        return Ok(output.0);
    }
    let file = std::fs::File::open(path).map_err(error)?;
    let mut bytes = Vec::new();
    file.take(MAX_FILE as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(error)?;
    if bytes.len() > MAX_FILE {
        return Err(ReplayError::file(
            path,
            format!("larger than {} MiB", MAX_FILE >> 20),
        ));
    }
    Ok(bytes)
}

/// Collects what a decompressor writes, up to [`MAX_FILE`].
struct Bounded(Vec<u8>);

impl Write for Bounded {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        if self.0.len() + buf.len() > MAX_FILE {
            return Err(io::Error::other(format!(
                "unpacks to more than {} MiB",
                MAX_FILE >> 20
            )));
        }
        self.0.extend_from_slice(buf);
        Ok(buf.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snapshots_are_read_to_their_last_byte_or_refused() {
        let mut image = Vec::new();
        for (va, data) in [(0x2000u64, [7u8; 16]), (0x1000, [9; 16])] {
            image.extend(va.to_le_bytes());
            image.extend((data.len() as u64).to_le_bytes());
            image.extend(data);
        }
        let path = Path::new("image");
        let pieces = split_snapshot(path, &image).unwrap();
        assert_eq!(pieces, [(0x1000, vec![9; 16]), (0x2000, vec![7; 16])]);
        for cut in 1..image.len() {
            let whole = cut == image.len() / 2;
            assert_eq!(
                split_snapshot(path, &image[..cut]).is_ok(),
                whole,
                "cut at {cut}"
            );
        }
        image[8..16].copy_from_slice(&u64::MAX.to_le_bytes());
        assert!(split_snapshot(path, &image).is_err());
    }

    #[test]
    fn a_range_is_covered_only_without_holes() {
        let map = |va, size| Mapping {
            va,
            size,
            bo: 1,
            bo_offset: 0,
            flags: 0,
        };
        let mappings = [
            map(0x1000, 0x1000),
            map(0x2000, 0x1000),
            map(0x4000, 0x1000),
        ];
        let mapped = Mapped::new(&mappings);
        assert!(mapped.covers(0x1800, 0x1000));
        assert!(!mapped.covers(0x2800, 0x1801));
        assert!(!mapped.covers(0, 1));
        assert!(!mapped.covers(u64::MAX, 2));
    }
}
