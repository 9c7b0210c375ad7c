//! Whole programs: bytes to lines and lines to bytes.

use std::collections::HashMap;
use std::fmt::Write as _;

use super::error::{ParseError, ProgramError};
use super::table::Instr;

/// Bytes of one instruction.
pub const INSTR_BYTES: usize = 8;

/// Alignment of a stream's first byte. Source: panthor uAPI, `drm_panthor_queue_submit.stream_addr` ("Must be 64-byte
/// aligned").
pub const STREAM_ALIGNMENT: u64 = 64;

/// Bytes (little-endian words) to one line per instruction.
///
/// # Errors
/// [`ProgramError`] with the byte offset where a word does not decode, or where bytes are left over.
pub fn disassemble(bytes: &[u8]) -> Result<String, ProgramError> {
    let mut text = String::new();
    for instr in decode_program(bytes)? {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{instr}");
    }
    Ok(text)
}

/// Bytes (little-endian words) to instructions.
///
/// # Errors
/// [`ProgramError`] with the byte offset where a word does not decode, or where bytes are left over.
pub fn decode_program(bytes: &[u8]) -> Result<Vec<Instr>, ProgramError> {
    if bytes.len() % INSTR_BYTES != 0 {
        return Err(ProgramError::Length(bytes.len()));
    }
    let words = bytes
        .chunks_exact(INSTR_BYTES)
        .map(|c| c.iter().rev().fold(0u64, |w, b| w << 8 | u64::from(*b)));
    words
        .enumerate()
        .map(|(i, word)| {
            Instr::decode(word).map_err(|error| ProgramError::Decode {
                offset: i * INSTR_BYTES,
                error,
            })
        })
        .collect()
}

/// One instruction per line to bytes. `//` and `;` begin a comment; `name:` alone on a line is a label, and
/// `BRANCH.cond rN, name` jumps to it.
///
/// # Errors
/// [`ProgramError`] with the line that does not parse.
pub fn assemble_program(text: &str) -> Result<Vec<u8>, ProgramError> {
    let mut labels = HashMap::new();
    let mut lines = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let number = index + 1;
        let code = line
            .split("//")
            .next()
            .unwrap_or("")
            .split(';')
            .next()
            .unwrap_or("")
            .trim();
        if let Some(label) = code.strip_suffix(':').filter(|l| is_label(l)) {
            if labels.insert(label, lines.len()).is_some() {
                return Err(ProgramError::LabelTwice {
                    line: number,
                    label: label.to_owned(),
                });
            }
        } else if !code.is_empty() {
            lines.push((number, code));
        }
    }
    let mut bytes = Vec::with_capacity(lines.len() * INSTR_BYTES);
    for (position, &(line, code)) in lines.iter().enumerate() {
        let resolved = match label_of(code) {
            Some((head, label)) => {
                let target = *labels.get(label).ok_or_else(|| ProgramError::NoLabel {
                    line,
                    label: label.to_owned(),
                })?;
                // The branch counts from the instruction after it.
                let offset = target as i64 - position as i64 - 1;
                i16::try_from(offset).map_err(|_| ProgramError::TooFar { line, offset })?;
                format!("{head}, #{offset}")
            }
            None => code.to_owned(),
        };
        let parse = |error: ParseError| ProgramError::Parse { line, error };
        let instr: Instr = resolved.parse().map_err(parse)?;
        let word = instr.encode().map_err(|e| parse(e.into()))?;
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    Ok(bytes)
}

fn is_label(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// The label that a branch names, and what stands before it.
fn label_of(code: &str) -> Option<(&str, &str)> {
    let (head, label) = code.rsplit_once(',')?;
    let label = label.trim();
    (code.starts_with("BRANCH") && is_label(label)).then_some((head, label))
}
