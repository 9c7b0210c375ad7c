//! The assembler: text to instructions.
//!
//! It takes what [`super::text`] writes, and the older spelling of Mesa: `^r1` for `r1^`, `LD_BUFFER` for `LD_PKA`,
//! one digit for the byte of a shift amount. Comments start with `//` or `;` or, at the start of a line, `#`. A
//! line may start with a label (`name:`); a branch may name one as its offset (`offset:name`).

use std::collections::HashMap;
use std::str::FromStr;
use std::sync::OnceLock;

use super::codec::{mod_text, mod_value, set_mod};
use super::mods::*;
use super::table::{
    DestKind, Family, ImmInfo, ImmTarget, ModKind, Op, OpInfo, SrcInfo, StagingKind,
};
use super::text::{GRAPHICS_SUFFIX, PAGE, REST, graphics_mask};
use super::types::*;
use super::{Instr, const_index};

/// Why a text is no program.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("line {line}, column {column}: {why}")]
pub struct AsmError {
    /// Line, from 1.
    pub line: usize,
    /// Column of the token, from 1.
    pub column: usize,
    /// The token, and what was expected.
    pub why: String,
}

/// A piece of a line.
#[derive(Clone, Copy)]
struct Token<'a> {
    text: &'a str,
    line: usize,
    /// Column of the first character, from 0.
    column: usize,
}

impl<'a> Token<'a> {
    fn fail<T>(self, expected: impl AsRef<str>) -> Result<T, AsmError> {
        let found = if self.text.is_empty() {
            "nothing".into()
        } else {
            format!("`{}`", self.text)
        };
        self.error(format!("{found}: expected {}", expected.as_ref()))
    }

    fn error<T>(self, why: impl ToString) -> Result<T, AsmError> {
        Err(AsmError {
            line: self.line,
            column: self.column + 1,
            why: why.to_string(),
        })
    }

    fn slice(self, from: usize, to: usize) -> Token<'a> {
        let column = self.column + self.text[..from].chars().count();
        Token {
            text: &self.text[from..to],
            column,
            ..self
        }
    }

    fn trim(self) -> Token<'a> {
        let start = self.text.len() - self.text.trim_start().len();
        self.slice(start, start + self.text.trim().len())
    }

    /// The pieces between separators.
    fn split(self, separator: char) -> impl Iterator<Item = Token<'a>> {
        let mut from = Some(0);
        std::iter::from_fn(move || {
            let start = from?;
            let end = self.text[start..].find(separator).map(|i| start + i);
            from = end.map(|e| e + separator.len_utf8());
            Some(self.slice(start, end.unwrap_or(self.text.len())))
        })
    }

    fn cut(self, separator: char) -> Option<(Token<'a>, Token<'a>)> {
        let at = self.text.find(separator)?;
        Some((
            self.slice(0, at),
            self.slice(at + separator.len_utf8(), self.text.len()),
        ))
    }
}

/// Other names of instructions: prefix before the first dot, and what it stands for.
const ALIASES: &[(&str, &str)] = &[
    ("LD_BUFFER", "LD_PKA"),
    ("IDP", "IDPADD"),
    ("CUBEFACE2", "CUBEFACE2_V9"),
    ("FATAN_TABLE", "FATAN_ASSIST"),
];

fn by_name() -> &'static HashMap<&'static str, Op> {
    static NAMES: OnceLock<HashMap<&'static str, Op>> = OnceLock::new();
    NAMES.get_or_init(|| Op::ALL.iter().map(|op| (op.mnemonic(), *op)).collect())
}

/// Addresses of labels in instructions, if a program is assembled.
type Labels<'a> = HashMap<&'a str, usize>;

/// Assembles one instruction.
///
/// # Errors
/// Names the token and what was expected.
pub fn assemble(text: &str) -> Result<Instr, AsmError> {
    let line = Token {
        text: strip_comment(text),
        line: 1,
        column: 0,
    }
    .trim();
    parse_instr(line, &Labels::new(), 0)
}

impl FromStr for Instr {
    type Err = AsmError;

    fn from_str(text: &str) -> Result<Instr, AsmError> {
        assemble(text)
    }
}

/// Assembles a program of one instruction a line.
///
/// # Errors
/// Names line, column, token and what was expected; also where an instruction has no encoding.
pub fn assemble_program(text: &str) -> Result<Vec<u64>, AsmError> {
    let mut labels = Labels::new();
    let mut lines = Vec::new();
    for (i, line) in text.lines().enumerate() {
        let mut rest = Token {
            text: strip_comment(line),
            line: i + 1,
            column: 0,
        }
        .trim();
        while let Some((label, after)) = rest.cut(':').filter(|(label, _)| is_label(label.text)) {
            if labels.insert(label.text, lines.len()).is_some() {
                return label.error(format!("label `{}` is defined twice", label.text));
            }
            rest = after.trim();
        }
        if !rest.text.is_empty() {
            lines.push(rest);
        }
    }
    let word = |(at, line): (usize, &Token<'_>)| {
        parse_instr(*line, &labels, at)?
            .encode_unchecked()
            .or_else(|why| line.error(why))
    };
    lines.iter().enumerate().map(word).collect()
}

fn strip_comment(line: &str) -> &str {
    if line.trim_start().starts_with('#') {
        return "";
    }
    let end = [line.find("//"), line.find(';')]
        .into_iter()
        .flatten()
        .min();
    &line[..end.unwrap_or(line.len())]
}

fn is_label(text: &str) -> bool {
    let mut chars = text.chars();
    chars
        .next()
        .is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn parse_instr(line: Token<'_>, labels: &Labels<'_>, at: usize) -> Result<Instr, AsmError> {
    let end = line
        .text
        .find(char::is_whitespace)
        .unwrap_or(line.text.len());
    let head = line.slice(0, end);
    let parts: Vec<Token<'_>> = head.split('.').collect();
    let (op, used) = parse_op(head, &parts)?;
    let info = op.info();
    let mut instr = Instr::new(op);
    parse_mods(head, &parts[used..], info, &mut instr)?;
    let operands = line.slice(end, line.text.len()).trim();
    let end_of_line = line.slice(line.text.len(), line.text.len());
    let mut operands = operands
        .split(',')
        .map(Token::trim)
        .filter(|t| !operands.text.is_empty() || !t.text.is_empty());
    if info.family == Family::Graphics {
        return parse_graphics(instr, info, operands);
    }
    if info.dest != DestKind::None {
        instr.dest = Some(parse_dest(operands.next().unwrap_or(end_of_line), info)?);
    }
    if info.staging == StagingKind::ReadWrite {
        instr.staging_out = Some(parse_staging(operands.next().unwrap_or(end_of_line))?);
    }
    if info.staging != StagingKind::None {
        instr.staging = Some(parse_staging(operands.next().unwrap_or(end_of_line))?);
    }
    for (i, src_info) in info.srcs.iter().enumerate() {
        let combine = if i == 0 { Some(&mut instr.mods) } else { None };
        let combine = combine.filter(|_| info.mods.iter().any(|m| m.kind == ModKind::Combine));
        instr.srcs[i] = parse_src(operands.next().unwrap_or(end_of_line), src_info, combine)?;
    }
    let mut wanted: Vec<&ImmInfo> = info.imms.iter().collect();
    for operand in operands {
        let Some(place) = wanted
            .iter()
            .position(|imm| imm_text(operand, imm).is_some())
        else {
            let names: Vec<_> = wanted.iter().map(|imm| imm_prefix(imm)).collect();
            return match names.len() {
                0 => operand.fail("the end of the line"),
                _ => operand.fail(format!("`{}` and a number", names.join("` or `"))),
            };
        };
        let imm = wanted.swap_remove(place);
        let value = parse_imm(imm_text(operand, imm).unwrap_or(operand), imm, labels, at)?;
        match imm.target {
            ImmTarget::Imm => instr.imm = value as i32,
            ImmTarget::Table => instr.mods.table = value as u8,
        }
    }
    match wanted.first() {
        Some(imm) => end_of_line.fail(format!("`{}` and a number", imm_prefix(imm))),
        None => Ok(instr),
    }
}

fn parse_op(head: Token<'_>, parts: &[Token<'_>]) -> Result<(Op, usize), AsmError> {
    let names = by_name();
    let first = ALIASES
        .iter()
        .find(|(alias, _)| *alias == parts[0].text)
        .map_or(parts[0].text, |(_, name)| name);
    if let Some(second) = parts.get(1) {
        // Mesa's older text marks the arithmetic shift by a modifier only.
        let arithmetic =
            first.starts_with("RSHIFT_") && parts[2..].iter().any(|p| p.text == "signed");
        let full = format!(
            "{}{first}.{}",
            if arithmetic { "A" } else { "" },
            second.text
        );
        if let Some(op) = names.get(full.as_str()) {
            return Ok((*op, 2));
        }
    }
    match names.get(first) {
        Some(op) => Ok((*op, 1)),
        None => {
            let types: Vec<_> = Op::ALL
                .iter()
                .filter_map(|op| op.mnemonic().strip_prefix(first)?.strip_prefix('.'))
                .collect();
            match types.len() {
                0 => head.fail("the name of a v10 instruction"),
                _ => head.fail(format!("{first} with a type out of {}", types.join(", "))),
            }
        }
    }
}

fn parse_mods(
    head: Token<'_>,
    parts: &[Token<'_>],
    info: &OpInfo,
    instr: &mut Instr,
) -> Result<(), AsmError> {
    let mut given: Vec<(ModKind, u8)> = Vec::new();
    let mut flow = None;
    for part in parts {
        if info.family == Family::Graphics && part.text == GRAPHICS_SUFFIX {
            continue;
        }
        let fields = || info.mods.iter().filter(|m| m.kind != ModKind::Combine);
        let short =
            fields().find_map(|m| Some((m, m.values.iter().find(|v| v.text == part.text)?)));
        let long = || {
            let full = |kind, value| {
                mod_text(kind, value) == part.text && !matches!(part.text, "none" | "default")
            };
            fields().find_map(|m| Some((m, m.values.iter().find(|v| full(m.kind, v.value))?)))
        };
        if part.text.is_empty() {
            return part.fail("a modifier after the dot");
        }
        if let Some((field, value)) = short.or_else(long) {
            match given.iter().find(|(kind, _)| *kind == field.kind) {
                Some((_, before)) if *before != value.value => {
                    return part.error(format!(
                        "`{}`: the {} is already given",
                        part.text, field.name
                    ));
                }
                Some(_) => {}
                None => given.push((field.kind, value.value)),
            }
            set_mod(&mut instr.mods, field.kind, value.value);
        } else if let Some(found) = Flow::ALL
            .iter()
            .find(|f| **f != Flow::None && f.text() == part.text)
        {
            if flow.replace(*found).is_some() {
                return part.error(format!("`{}`: the flow is already given", part.text));
            }
        } else {
            let mut names: Vec<&str> = fields()
                .flat_map(|m| m.values.iter().map(|v| v.text))
                .collect();
            names.retain(|n| !n.is_empty());
            let own = if names.is_empty() {
                String::new()
            } else {
                format!("{} or ", names.join(", "))
            };
            return part.fail(format!("for {} {own}a flow (wait0 … end)", info.mnemonic));
        }
    }
    instr.flow = flow.unwrap_or(Flow::None);
    if head.text.starts_with("FATAN_TABLE") {
        instr.mods.second = true;
    }
    for field in info.mods {
        let needed = field.width > 0 && field.values.iter().all(|v| !v.text.is_empty());
        if needed && !given.iter().any(|(kind, _)| *kind == field.kind) {
            let names: Vec<_> = field.values.iter().map(|v| v.text).collect();
            return head.fail(format!("a {} out of {}", field.name, names.join(", ")));
        }
        if !given.iter().any(|(kind, _)| *kind == field.kind) {
            if let Some(default) = field.values.iter().find(|v| v.text.is_empty()) {
                debug_assert_eq!(mod_value(&instr.mods, field.kind), default.value);
            }
        }
    }
    Ok(())
}

fn parse_graphics<'a>(
    mut instr: Instr,
    info: &OpInfo,
    operands: impl Iterator<Item = Token<'a>>,
) -> Result<Instr, AsmError> {
    for operand in operands {
        let Some((name, value)) = operand.cut(':') else {
            return operand.fail("a raw field as in `src0:0x80`");
        };
        let number = parse_number(value)? as u64;
        let (mask, pos) = match info.raw.iter().find(|f| f.name == name.text) {
            Some(field) => ((1 << field.width) - 1, field.pos),
            None if name.text == REST => {
                (((1 << 48) - 1) & !graphics_mask(info) & !info.sub.mask, 0)
            }
            None if name.text == PAGE => (3, 48),
            None => {
                let names: Vec<_> = info.raw.iter().map(|f| f.name).collect();
                return name.fail(format!(
                    "a field out of {}, {REST}, {PAGE}",
                    names.join(", ")
                ));
            }
        };
        if number & !mask != 0 {
            return value.fail(format!("bits within {mask:#x}"));
        }
        instr.raw = instr.raw & !(mask << pos) | number << pos;
    }
    Ok(instr)
}

fn parse_register(token: Token<'_>, text: &str) -> Result<u8, AsmError> {
    let index = text
        .strip_prefix('r')
        .filter(|d| d.bytes().all(|b| b.is_ascii_digit()));
    match index
        .and_then(|d| d.parse().ok())
        .filter(|i| *i < REGISTER_COUNT)
    {
        Some(index) => Ok(index),
        None => token.fail("a register r0 to r63"),
    }
}

/// A register of a destination, with the brackets of newer text around a pair taken off.
fn parse_dest(token: Token<'_>, info: &OpInfo) -> Result<Dest, AsmError> {
    let (name, mask) = match token.text.rsplit_once('.') {
        None => (token.text, DestMask::Full),
        Some((name, "h0")) if info.dest == DestKind::Word => (name, DestMask::Low),
        Some((name, "h1")) if info.dest == DestKind::Word => (name, DestMask::High),
        Some(_) => return token.fail("a destination register, perhaps with .h0 or .h1"),
    };
    Ok(Dest {
        reg: parse_register(token, name)?,
        mask,
    })
}

fn parse_staging(token: Token<'_>) -> Result<Staging, AsmError> {
    let Some(list) = token.text.strip_prefix('@') else {
        return token.fail("staging registers as in `@r0:r1`");
    };
    if list.is_empty() {
        return Ok(Staging::new(0, 0));
    }
    let mut block: Option<Staging> = None;
    for part in token.slice(1, token.text.len()).split(':') {
        let reg = parse_register(part, part.text)?;
        let next = match block {
            None => Staging::new(reg, 1),
            Some(b) if u16::from(b.reg) + u16::from(b.count) == u16::from(reg) => {
                Staging::new(b.reg, b.count + 1)
            }
            Some(b) => {
                return part.fail(format!(
                    "r{}, the register after the one before",
                    b.reg + b.count
                ));
            }
        };
        block = Some(next);
    }
    Ok(block.unwrap_or(Staging::new(0, 0)))
}

fn parse_src(
    token: Token<'_>,
    info: &SrcInfo,
    mut combine: Option<&mut Mods>,
) -> Result<Src, AsmError> {
    let mut parts = token.split('.');
    let first = parts.next().unwrap_or(token);
    let mut src = Src::of(Value::None);
    if let Some(field) = info.swizzle {
        // Where nothing is written the source is used as a whole; a lane has to be named.
        src.swizzle = field
            .names
            .iter()
            .find(|n| n.text.is_empty())
            .map_or(field.names[0].swizzle, |n| n.swizzle);
    }
    let mut named = info
        .swizzle
        .is_none_or(|field| field.names.iter().any(|n| n.text.is_empty()));
    let bare = first
        .text
        .strip_prefix('^')
        .or(first.text.strip_suffix('^'));
    if let Some(bare) = bare {
        src.discard = true;
        src.value = Value::Reg(parse_register(first, bare)?);
    } else if let Some(which) = Special::ALL.iter().find(|s| s.text() == first.text) {
        src.value = match parts.next().map(|p| p.text) {
            Some("w0") => Value::Special(*which, 0),
            Some("w1") => Value::Special(*which, 1),
            _ => return token.fail(format!("{which}.w0 or {which}.w1")),
        };
    } else if first.text.starts_with('r') {
        src.value = Value::Reg(parse_register(first, first.text)?);
    } else if let Some(word) = first.text.strip_prefix('u') {
        match word
            .parse()
            .ok()
            .filter(|_| word.bytes().all(|b| b.is_ascii_digit()))
        {
            Some(word) => src.value = Value::Uniform(word),
            None => return first.fail("a uniform u0 to u255"),
        }
    } else if first.text.starts_with(|c: char| c.is_ascii_digit()) {
        let number = parse_number(first)?;
        match u32::try_from(number).ok().and_then(const_index) {
            Some(index) => src.value = Value::Const(index),
            None => return first.fail("a number out of the table of constants"),
        }
    } else {
        return first.fail("a source: register, uniform, special value or constant");
    }
    for part in parts {
        let swizzle = info
            .swizzle
            .and_then(|field| field.names.iter().find(|n| n.text == part.text));
        let combined = combine.as_mut().and_then(|mods| {
            let found = Combine::ALL.iter().find(|c| c.text() == part.text)?;
            mods.combine = *found;
            Some(())
        });
        match part.text {
            "neg" if info.neg_abs.is_some() => src.neg = true,
            "abs" if info.neg_abs.is_some() => src.abs = true,
            "not" if info.not.is_some() => src.not = true,
            _ if combined.is_some() => {}
            text if !text.is_empty() && swizzle.is_some() => {
                src.swizzle = swizzle.map_or(src.swizzle, |n| n.swizzle);
                named = true;
            }
            _ => return part.fail(src_modifiers(info, combine.is_some())),
        }
    }
    if named {
        Ok(src)
    } else {
        token.fail(src_modifiers(info, false))
    }
}

/// What a source may be followed by, for messages.
fn src_modifiers(info: &SrcInfo, combine: bool) -> String {
    let mut names: Vec<&str> = Vec::new();
    if info.neg_abs.is_some() {
        names.extend(["neg", "abs"]);
    }
    if info.not.is_some() {
        names.push("not");
    }
    if let Some(field) = info.swizzle {
        names.extend(field.names.iter().map(|n| n.text).filter(|t| !t.is_empty()));
    }
    if combine {
        names.extend(Combine::ALL.iter().map(|c| c.text()));
    }
    match names.len() {
        0 => "no modifier on this source".into(),
        _ => format!("a modifier out of {}", names.join(", ")),
    }
}

fn imm_prefix(imm: &ImmInfo) -> String {
    if imm.name == "constant" {
        "#".into()
    } else {
        format!("{}:", imm.name)
    }
}

/// The number of an operand, if it is this immediate.
fn imm_text<'a>(operand: Token<'a>, imm: &ImmInfo) -> Option<Token<'a>> {
    let prefix = imm_prefix(imm);
    operand
        .text
        .starts_with(&prefix)
        .then(|| operand.slice(prefix.len(), operand.text.len()).trim())
}

fn parse_imm(
    token: Token<'_>,
    imm: &ImmInfo,
    labels: &Labels<'_>,
    at: usize,
) -> Result<i64, AsmError> {
    // Only a branch, with its wide offset, can go to a label.
    if imm.width == 27 && is_label(token.text) {
        return match labels.get(token.text) {
            Some(target) => Ok(*target as i64 - (at as i64 + 1)),
            None => token.fail("a label of this program"),
        };
    }
    let value = parse_number(token)?;
    let (min, max) = imm.range();
    if value < min || value > max {
        return token.fail(format!("a number from {min} to {max}"));
    }
    Ok(value)
}

fn parse_number(token: Token<'_>) -> Result<i64, AsmError> {
    let (negative, digits) = match token.text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, token.text),
    };
    let hex = digits.strip_prefix("0x").or(digits.strip_prefix("0X"));
    let plain = |d: &str| !d.is_empty() && d.bytes().all(|b| b.is_ascii_hexdigit());
    let value = match hex {
        Some(hex) if plain(hex) => i64::from_str_radix(hex, 16).ok(),
        None if plain(digits) => digits.parse::<i64>().ok(),
        _ => None,
    };
    match value {
        Some(value) => Ok(if negative { -value } else { value }),
        None => token.fail("a number"),
    }
}
