//! The text of an instruction, as Mesa's disassembler writes it (panfrost/compiler/bifrost/valhall/disasm.py), and
//! listings of whole programs.

use core::fmt::{self, Write};

use super::codec::mod_value;
use super::decode::decode;
use super::error::DecodeError;
use super::mods::*;
use super::table::{Family, ImmTarget, ModField, ModKind, OpInfo, SrcInfo, StagingKind};
use super::types::*;
use super::{INSTR_BYTES, Instr, const_value};

/// What a graphics instruction's name is followed by, so that its raw fields are never taken for Mesa's text.
pub(super) const GRAPHICS_SUFFIX: &str = "graphics";
/// Names of the bits of a graphics instruction that no field of the table covers, and of its FAU page.
pub(super) const REST: &str = "rest";
pub(super) const PAGE: &str = "page";

/// Separates operands.
struct Operands<'a, 'b> {
    f: &'a mut fmt::Formatter<'b>,
    first: bool,
}

impl<'b> Operands<'_, 'b> {
    fn next(&mut self) -> Result<&mut fmt::Formatter<'b>, fmt::Error> {
        self.f.write_str(if self.first { " " } else { ", " })?;
        self.first = false;
        Ok(&mut *self.f)
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::None => f.write_str("none"),
            Value::Reg(reg) => write!(f, "r{reg}"),
            Value::Uniform(word) => write!(f, "u{word}"),
            Value::Const(index) => write!(f, "0x{:X}", const_value(*index)),
            Value::Special(which, word) => write!(f, "{which}.w{word}"),
        }
    }
}

impl fmt::Display for Staging {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('@')?;
        for i in 0..self.count {
            let colon = if i == 0 { "" } else { ":" };
            write!(f, "{colon}r{}", u16::from(self.reg) + u16::from(i))?;
        }
        Ok(())
    }
}

impl fmt::Display for Dest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let half = match self.mask {
            DestMask::Full => "",
            DestMask::Low => ".h0",
            DestMask::High => ".h1",
        };
        write!(f, "r{}{half}", self.reg)
    }
}

/// Text of the value that a modifier field has.
fn mod_spelling(field: &ModField, mods: &Mods) -> &'static str {
    let value = mod_value(mods, field.kind);
    field
        .values
        .iter()
        .find(|v| v.value == value)
        .map_or("?", |v| v.text)
}

fn write_dotted(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    if text.is_empty() {
        Ok(())
    } else {
        write!(f, ".{text}")
    }
}

fn write_src(f: &mut fmt::Formatter<'_>, src: &Src, info: &SrcInfo) -> fmt::Result {
    write!(f, "{}", src.value)?;
    if src.discard {
        f.write_char('^')?;
    }
    for (on, text) in [(src.neg, "neg"), (src.abs, "abs")] {
        write_dotted(f, if on { text } else { "" })?;
    }
    let swizzle = match info.swizzle {
        Some(field) => field
            .names
            .iter()
            .find(|n| n.swizzle == src.swizzle)
            .map_or("?", |n| n.text),
        None if src.swizzle == Swizzle::None => "",
        None => src.swizzle.text(),
    };
    write_dotted(f, swizzle)?;
    write_dotted(f, if src.not { "not" } else { "" })
}

/// The named raw fields of a graphics instruction with their values.
pub fn graphics_fields(instr: &Instr) -> impl Iterator<Item = (&'static str, u64)> {
    let raw = instr.raw;
    let fields = instr.op.info().raw.iter();
    fields.map(move |field| (field.name, raw >> field.pos & ((1 << field.width) - 1)))
}

/// Bits of a graphics instruction that belong to a named field.
pub(super) fn graphics_mask(info: &OpInfo) -> u64 {
    info.raw.iter().fold(0, |mask, field| {
        mask | ((1 << field.width) - 1) << field.pos
    })
}

impl fmt::Display for Instr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let info = self.op.info();
        f.write_str(info.mnemonic)?;
        if info.family == Family::Graphics {
            write_dotted(f, GRAPHICS_SUFFIX)?;
        }
        for field in info.mods.iter().filter(|m| m.kind != ModKind::Combine) {
            write_dotted(f, mod_spelling(field, &self.mods))?;
        }
        write_dotted(
            f,
            if self.flow == Flow::None {
                ""
            } else {
                self.flow.text()
            },
        )?;
        let mut operands = Operands { f, first: true };
        if info.family == Family::Graphics {
            for (name, value) in graphics_fields(self) {
                write!(operands.next()?, "{name}:{value:#X}")?;
            }
            let rest = self.raw & ((1 << 48) - 1) & !graphics_mask(info) & !info.sub.mask;
            for (name, value) in [(REST, rest), (PAGE, self.raw >> 48)] {
                if value != 0 {
                    write!(operands.next()?, "{name}:{value:#X}")?;
                }
            }
            return Ok(());
        }
        if let Some(dest) = self.dest {
            write!(operands.next()?, "{dest}")?;
        }
        for block in [self.staging_out, self.staging].into_iter().flatten() {
            write!(operands.next()?, "{block}")?;
        }
        for (i, (src, src_info)) in self.srcs.iter().zip(info.srcs).enumerate() {
            let f = operands.next()?;
            write_src(f, src, src_info)?;
            if let Some(field) = info
                .mods
                .iter()
                .find(|m| i == 0 && m.kind == ModKind::Combine)
            {
                write_dotted(f, mod_spelling(field, &self.mods))?;
            }
        }
        for imm in info.imms {
            let value = match imm.target {
                ImmTarget::Imm => i64::from(self.imm),
                ImmTarget::Table => i64::from(self.mods.table),
            };
            let f = operands.next()?;
            match imm.name {
                "constant" => f.write_char('#')?,
                name => write!(f, "{name}:")?,
            }
            if imm.signed {
                write!(f, "{value}")?;
            } else {
                write!(f, "0x{:X}", value as u32)?;
            }
        }
        Ok(())
    }
}

/// A field of an instruction: name, first bit, number of bits and what it does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FieldDoc {
    /// Name.
    pub name: String,
    /// First bit.
    pub pos: u8,
    /// Number of bits.
    pub width: u8,
    /// Meaning.
    pub doc: String,
}

/// The fields of an instruction, from the table, in order of their first bit.
pub fn field_docs(info: &OpInfo) -> Vec<FieldDoc> {
    let mut docs = Vec::new();
    let mut add = |name: String, pos, width, doc: String| {
        docs.push(FieldDoc {
            name,
            pos,
            width,
            doc,
        })
    };
    for (i, src) in info.srcs.iter().enumerate() {
        add(
            format!("src{i}"),
            src.pos,
            8,
            format!("{}-bit source", src.size),
        );
        if let Some((neg, abs)) = src.neg_abs {
            add(format!("neg{i}"), neg, 1, "Negation.".into());
            add(format!("abs{i}"), abs, 1, "Absolute value.".into());
        }
        if let Some(not) = src.not {
            add(format!("not{i}"), not, 1, "Complement.".into());
        }
        if let Some(field) = src.swizzle {
            let names: Vec<_> = field
                .names
                .iter()
                .map(|n| format!("{} {}", n.bits, n.swizzle))
                .collect();
            add(
                format!("swizzle{i}"),
                field.pos,
                field.width,
                names.join(", "),
            );
        }
    }
    for imm in info.imms {
        let (min, max) = imm.range();
        add(
            imm.name.into(),
            imm.pos,
            imm.width,
            format!("Number from {min} to {max}."),
        );
    }
    for field in info.mods {
        let names = field.values.iter().map(|v| match v.text {
            "" => format!("{} (default)", v.bits),
            text => format!("{} {text}", v.bits),
        });
        let names: Vec<_> = names.collect();
        add(
            field.name.into(),
            field.pos,
            field.width,
            format!("{} {}", field.doc, names.join(", ")),
        );
    }
    for field in info.raw {
        add(field.name.into(), field.pos, field.width, "Raw.".into());
    }
    if info.staging != StagingKind::None {
        add(
            "staging".into(),
            40,
            6,
            format!("First staging register ({:?}).", info.staging),
        );
    }
    if info.staging == StagingKind::ReadWrite {
        add(
            "staging_out".into(),
            16,
            6,
            "First register that is written.".into(),
        );
    }
    if info.dest != super::DestKind::None {
        add(
            "dest".into(),
            40,
            8,
            format!("Destination ({:?}).", info.dest),
        );
    }
    add("opcode".into(), 48, 9, format!("{:#05x}", info.opcode));
    add(
        "page".into(),
        57,
        2,
        "FAU page of uniforms and special values.".into(),
    );
    add(
        "flow".into(),
        59,
        4,
        "Waits and control flow after the instruction issued.".into(),
    );
    docs.sort_by_key(|d| d.pos);
    docs
}

/// Why a line of a listing is no instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LineError {
    /// The word is no instruction.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// The program ends within an instruction.
    #[error("{0} bytes are no instruction, which has 8")]
    Short(usize),
}

/// One line of a listing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Line<'a> {
    /// Address of the first byte.
    pub address: u64,
    /// The bytes, eight but for a last line that is too short.
    pub bytes: &'a [u8],
    /// The instruction, or why there is none.
    pub content: Result<Instr, LineError>,
}

impl fmt::Display for Line<'_> {
    /// Bytes in memory order, separated by blanks, and the text: the form of Mesa's assembler cases.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for byte in self.bytes {
            write!(f, "{byte:02x} ")?;
        }
        match &self.content {
            Ok(instr) => write!(f, "   {instr}"),
            Err(why) => write!(f, "   <{why}>"),
        }
    }
}

/// Lists the instructions of a program whose first byte lies at `base`, one line for each eight bytes.
pub fn disassemble(program: &[u8], base: u64) -> impl Iterator<Item = Line<'_>> {
    program
        .chunks(INSTR_BYTES)
        .enumerate()
        .map(move |(i, bytes)| Line {
            address: base.wrapping_add((i * INSTR_BYTES) as u64),
            bytes,
            content: match <[u8; INSTR_BYTES]>::try_from(bytes) {
                Ok(word) => decode(u64::from_le_bytes(word)).map_err(LineError::Decode),
                Err(_) => Err(LineError::Short(bytes.len())),
            },
        })
}
