//! Recording a product of our own in the form that [`super::run`] takes.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use panthor_uapi::Device;
use serde_json::json;

use super::ReplayError;
use crate::gemm::{Engine, EngineError, Recording};
use crate::quant::Matrix;

/// Memory images are written page by page, without the pages that are zero.
const PAGE: usize = 4096;

/// Why nothing was recorded. Files are whole or absent.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// A file could not be written, or is there already.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// The product was not computed.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The product takes several submissions, of which each finds what the one before left.
    #[error("the product takes {0} submissions, a recording holds one: take a smaller one")]
    TooLarge(usize),
}

/// Multiplies `x` (M × K, row-major) with the weights and writes the job, the memory that it finds, and its result:
/// `cases` and beside it its stem with `.bin`, `.map` and `_ref.bin`.
///
/// # Errors
/// [`CaptureError`]; no file is overwritten.
pub fn capture(
    device: &Device,
    weights: &Matrix<'_>,
    x: &[f32],
    m: usize,
    cases: &Path,
) -> Result<(), CaptureError> {
    let files = Files::beside(cases)?;
    let mut engine = Engine::open(device)?;
    let uploaded = engine.upload("weights", weights)?;
    engine.record();
    engine.multiply(&uploaded, x, m)?;
    let mut recordings = engine.take_recordings();
    let (Some(recording), true) = (recordings.pop(), recordings.is_empty()) else {
        return Err(CaptureError::TooLarge(recordings.len() + 1));
    };
    let op = format!(
        "gemm {} m{m} n{} k{}",
        weights.format(),
        weights.n(),
        weights.k()
    );
    files.write(&op, &recording)?;
    Ok(())
}

/// The files of one recording.
struct Files {
    cases: PathBuf,
    snapshot: PathBuf,
    map: PathBuf,
    reference: PathBuf,
}

impl Files {
    fn beside(cases: &Path) -> Result<Self, ReplayError> {
        let stem = cases
            .file_stem()
            .ok_or_else(|| ReplayError::file(cases, "is no file name"))?
            .to_string_lossy();
        let files = Self {
            cases: cases.to_owned(),
            snapshot: cases.with_file_name(format!("{stem}.bin")),
            map: cases.with_file_name(format!("{stem}.map")),
            reference: cases.with_file_name(format!("{stem}_ref.bin")),
        };
        for path in [&files.cases, &files.snapshot, &files.map, &files.reference] {
            if path.exists() {
                return Err(ReplayError::file(path, "exists already: name another file"));
            }
        }
        Ok(files)
    }

    /// Writes all four, the cases file last: while it is absent there is no recording.
    fn write(&self, op: &str, recording: &Recording) -> Result<(), ReplayError> {
        let name = |path: &Path| {
            path.file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned()
        };
        let Some((output_va, output)) = &recording.output else {
            return Err(ReplayError::file(&self.cases, "the product has no result"));
        };
        let hex = |n: u64| format!("{n:#x}");
        let streams = recording
            .streams
            .iter()
            .map(|(va, size)| json!({"queue": 0, "stream": hex(va.0), "size": size}));
        let cases = json!([{
            "op": op,
            "snapshot": name(&self.snapshot),
            "map": name(&self.map),
            "ref": name(&self.reference),
            "streams": streams.collect::<Vec<_>>(),
            "tensors": [{"role": "dst", "type": "f32", "va": hex(output_va.0), "bytes": output.len()}],
            "tolerance": {"exact": true},
        }]);
        let mut map = String::new();
        let mut snapshot = Vec::new();
        for (number, buffer) in recording.buffers.iter().enumerate() {
            map += &json!({
                "va": hex(buffer.va.0),
                "size": hex(buffer.bytes.len() as u64),
                "bo": number,
                "bo_off": "0x0",
                "vmflags": hex(buffer.flags.bits().into()),
                "label": buffer.what,
            })
            .to_string();
            map.push('\n');
            for (index, page) in buffer
                .bytes
                .chunks(PAGE)
                .enumerate()
                .filter(|(_, p)| p.iter().any(|b| *b != 0))
            {
                snapshot.extend((buffer.va.0 + (index * PAGE) as u64).to_le_bytes());
                snapshot.extend((page.len() as u64).to_le_bytes());
                snapshot.extend(page);
            }
        }
        write_whole(&self.snapshot, &snapshot)?;
        write_whole(&self.map, map.as_bytes())?;
        write_whole(&self.reference, output)?;
        write_whole(&self.cases, format!("{cases:#}\n").as_bytes())
    }
}

/// Writes a file under a temporary name and renames it: it is there whole or not at all.
fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), ReplayError> {
    let mut part = path.as_os_str().to_owned();
    part.push(".part");
    let part = PathBuf::from(part);
    let written = fs::File::create(&part)
        .and_then(|mut file| {
            file.write_all(bytes)?;
            file.sync_all()
        })
        .and_then(|()| fs::rename(&part, path));
    written.map_err(|error| {
        // The error that matters is the first one.
        let _ = fs::remove_file(&part);
        ReplayError::file(path, error)
    })
}
