//! Text of one instruction, printed and read by the table's templates.

use std::fmt;
use std::str::FromStr;

use super::error::{FieldError, ParseError};
use super::fields::{Kind, REGISTERS};
use super::table::{Field, Instr, OPCODE_SHIFT, Op, TABLE};

/// A piece of a template.
#[derive(Debug)]
enum Piece<'a> {
    Literal(&'a str),
    /// `{name}` or `{name:format}`.
    Value(&'static Field, &'a str),
    /// `{base&mask}`.
    List(&'static Field, &'static Field),
    /// `{address@offset}`.
    Indirect(&'static Field, &'static Field),
    /// `{base..count}`.
    Range(&'static Field, &'static Field),
}

/// Splits a template. `None` only for a template that the table's own test would refuse.
fn pieces(op: &'static Op) -> impl Iterator<Item = Option<Piece<'static>>> {
    let mut rest = op.template;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let Some(inner) = rest.strip_prefix('{') else {
            let end = rest.find('{').unwrap_or(rest.len());
            let (literal, tail) = rest.split_at(end);
            rest = tail;
            return Some(Some(Piece::Literal(literal)));
        };
        let Some((inner, tail)) = inner.split_once('}') else {
            rest = "";
            return Some(None);
        };
        rest = tail;
        let two = |a: &str, b: &str| Some((op.field(a)?, op.field(b)?));
        Some(if let Some((a, b)) = inner.split_once('&') {
            two(a, b).map(|(a, b)| Piece::List(a, b))
        } else if let Some((a, b)) = inner.split_once('@') {
            two(a, b).map(|(a, b)| Piece::Indirect(a, b))
        } else if let Some((a, b)) = inner.split_once("..") {
            two(a, b).map(|(a, b)| Piece::Range(a, b))
        } else {
            let (name, format) = inner.split_once(':').unwrap_or((inner, ""));
            op.field(name).map(|f| Piece::Value(f, format))
        })
    })
}

impl fmt::Display for Instr {
    /// The spelling of Mesa's `decode_csf.c`, but for these: a dot stands before the condition of SYNC_WAIT32/64 and
    /// one only before the scope of SYNC_SET64; fields that Mesa leaves out are printed where they are not zero;
    /// a register list whose base is not in its mask begins with `(rBASE)`.
    /// An instruction that has no encoding prints as `<…>` with its mnemonic and the field at fault.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self.encode() {
            Ok(word) => word,
            Err(error) => return write!(f, "<{error}>"),
        };
        let op = self.op();
        f.write_str(op.mnemonic)?;
        for piece in pieces(op) {
            match piece.ok_or(fmt::Error)? {
                Piece::Literal(text) => f.write_str(text)?,
                Piece::Value(field, format) => print_value(f, field, format, field.extract(word))?,
                Piece::List(base, mask) => print_list(f, base.extract(word), mask.extract(word))?,
                Piece::Indirect(address, offset) => {
                    let (address, offset) = (address.extract(word), offset.extract(word) as i64);
                    if offset == 0 {
                        write!(f, "[d{address}]")?;
                    } else {
                        write!(f, "[d{address} + {offset}]")?;
                    }
                }
                Piece::Range(base, count) => {
                    let (base, count) = (base.extract(word) as i64, count.extract(word) as i64);
                    if count == 0 {
                        write!(f, "r{base}:_")?;
                    } else {
                        write!(f, "r{base}:r{}", base + count - 1)?;
                    }
                }
            }
        }
        Ok(())
    }
}

fn print_value(f: &mut fmt::Formatter<'_>, field: &Field, format: &str, raw: u64) -> fmt::Result {
    match (format, field.kind) {
        ("d", _) => Ok(()),
        ("u", Kind::Scaled { shift }) => write!(f, "{}", raw << shift),
        ("u", _) => write!(f, "{raw}"),
        ("i", _) => write!(f, "{}", raw as i64),
        ("x", _) => write!(f, "{raw:x}"),
        ("H", _) => write!(f, "0x{raw:X}"),
        ("p", _) if raw == 0 => Ok(()),
        ("p", _) => write!(f, " #{raw:#x}"),
        ("R", _) => f.write_str(if raw != 0 { ".reject" } else { ".inherit" }),
        (_, Kind::Reg32) => write!(f, "r{raw}"),
        (_, Kind::Reg64) => write!(f, "d{raw}"),
        (_, Kind::Enum(names)) => f.write_str(
            names
                .iter()
                .find(|(_, v)| *v == raw)
                .map_or("?", |(name, _)| name),
        ),
        (flag, _) => match (flag.split_at_checked(1), raw != 0) {
            (Some(("+", name)), true) | (Some(("-", name)), false) => write!(f, ".{name}"),
            _ => Ok(()),
        },
    }
}

fn print_list(f: &mut fmt::Formatter<'_>, base: u64, mask: u64) -> fmt::Result {
    if mask == 0 && base == 0 {
        return f.write_str("_");
    }
    let mut colon = "";
    if mask & 1 == 0 {
        // Words are counted from the base, so that a base that is not loaded matters.
        write!(f, "(r{base})")?;
        colon = ":";
    }
    for i in (0..16).filter(|i| mask >> i & 1 != 0) {
        write!(f, "{colon}r{}", base + i)?;
        colon = ":";
    }
    Ok(())
}

impl FromStr for Instr {
    type Err = ParseError;

    /// Reads what `Display` prints, with any blanks between tokens, and Mesa's own spelling where it differs.
    ///
    /// # Errors
    /// [`ParseError`] that names what was expected and where, or the operand without an encoding.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        let text = text.trim();
        let end = text
            .find(|c: char| !(c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_'))
            .unwrap_or(text.len());
        let (mnemonic, rest) = text.split_at(end);
        let op = TABLE
            .iter()
            .find(|op| op.mnemonic == mnemonic)
            .ok_or_else(|| {
                ParseError::UnknownMnemonic(text.split_whitespace().next().unwrap_or("").to_owned())
            })?;
        // Mesa prints `SYNC_WAIT64gt.inherit` and `SYNC_SET64..csg`.
        let spelled = if rest.starts_with("..") {
            rest[1..].to_owned()
        } else if rest.starts_with(|c: char| c.is_ascii_lowercase()) {
            format!(".{rest}")
        } else {
            rest.to_owned()
        };
        let mut reader = Reader { rest: &spelled };
        let mut word = u64::from(op.opcode) << OPCODE_SHIFT;
        let mut put = |field: &'static Field, raw: u64| -> Result<(), ParseError> {
            word |= field
                .pack(raw)
                .map_err(|error| encode_error(op, field, error))?;
            Ok(())
        };
        for piece in pieces(op) {
            match piece.ok_or_else(|| reader.expected("a valid template"))? {
                Piece::Literal(literal) => reader.literal(literal)?,
                Piece::Value(field, format) => put(field, reader.value(field, format)?)?,
                Piece::List(base, mask) => {
                    let (b, m) = reader.list()?;
                    put(base, b)?;
                    put(mask, m)?;
                }
                Piece::Indirect(address, offset) => {
                    reader.literal("[")?;
                    put(address, reader.value(address, "")?)?;
                    let sign = if reader.take("+") {
                        1
                    } else if reader.take("-") {
                        -1
                    } else {
                        0
                    };
                    if sign != 0 {
                        put(offset, (reader.signed()? * sign) as u64)?;
                    }
                    reader.literal("]")?;
                }
                Piece::Range(base, count) => {
                    let first = reader.register('r')?;
                    reader.literal(":")?;
                    let end = if reader.take("_") {
                        first
                    } else {
                        reader.register('r')? + 1
                    };
                    put(base, first)?;
                    put(count, end.wrapping_sub(first))?;
                }
            }
        }
        if !reader.rest.trim().is_empty() {
            return Err(reader.expected("the end of the line"));
        }
        // Every field has been checked; decoding again cannot fail for them, and gives the typed form.
        Instr::decode(word).map_err(|error| ParseError::Expected {
            expected: error.to_string(),
            found: text.to_owned(),
        })
    }
}

fn encode_error(op: &'static Op, field: &'static Field, error: FieldError) -> ParseError {
    ParseError::Encode(super::error::EncodeError {
        mnemonic: op.mnemonic,
        field: field.name,
        error,
    })
}

struct Reader<'a> {
    rest: &'a str,
}

impl Reader<'_> {
    fn expected(&self, what: impl Into<String>) -> ParseError {
        ParseError::Expected {
            expected: what.into(),
            found: self.rest.trim().to_owned(),
        }
    }

    /// Takes `token` if it comes next, blanks before it ignored.
    fn take(&mut self, token: &str) -> bool {
        let Some(rest) = self.rest.trim_start().strip_prefix(token) else {
            return false;
        };
        self.rest = rest;
        true
    }

    fn literal(&mut self, literal: &str) -> Result<(), ParseError> {
        for token in literal.split_whitespace() {
            if !self.take(token) {
                return Err(self.expected(format!("{token:?}")));
            }
        }
        Ok(())
    }

    fn digits(&mut self, radix: u32) -> Result<u64, ParseError> {
        let rest = self.rest.trim_start();
        let end = rest
            .find(|c: char| !c.is_digit(radix))
            .unwrap_or(rest.len());
        let value =
            u64::from_str_radix(&rest[..end], radix).map_err(|_| self.expected("a number"))?;
        self.rest = &rest[end..];
        Ok(value)
    }

    fn number(&mut self, default_radix: u32) -> Result<u64, ParseError> {
        if self.take("0x") || self.take("0X") {
            self.digits(16)
        } else {
            self.digits(default_radix)
        }
    }

    fn signed(&mut self) -> Result<i64, ParseError> {
        let negative = self.take("-");
        let value = self.number(10)?;
        let value = i64::try_from(value).map_err(|_| self.expected("a smaller number"))?;
        Ok(if negative { -value } else { value })
    }

    fn register(&mut self, prefix: char) -> Result<u64, ParseError> {
        if !self.take(prefix.encode_utf8(&mut [0; 4])) {
            return Err(self.expected(format!("a register {prefix}0 to {prefix}{}", REGISTERS - 1)));
        }
        self.digits(10)
    }

    fn value(&mut self, field: &Field, format: &str) -> Result<u64, ParseError> {
        match (format, field.kind) {
            ("d", Kind::Enum(names)) => Ok(names.first().map_or(0, |(_, v)| *v)),
            ("u", Kind::Scaled { shift }) => {
                let value = self.number(10)?;
                // A value between two units has no encoding; any value that fails the width check says so.
                if value & ((1 << shift) - 1) == 0 {
                    Ok(value >> shift)
                } else {
                    Ok(u64::MAX >> 1)
                }
            }
            ("u" | "H", _) => self.number(10),
            ("i", _) => self.signed().map(|v| v as u64),
            ("x", _) => self.number(16),
            ("p", _) => {
                if self.take("#") {
                    self.number(10)
                } else {
                    Ok(0)
                }
            }
            ("R", _) => {
                if self.take(".reject") {
                    Ok(1)
                } else if self.take(".inherit") {
                    Ok(0)
                } else {
                    Err(self.expected(".reject or .inherit"))
                }
            }
            (_, Kind::Reg32) => self.register('r'),
            (_, Kind::Reg64) => {
                if self.rest.trim_start().starts_with('r') {
                    self.register('r')
                } else {
                    self.register('d')
                }
            }
            (_, Kind::Enum(names)) => {
                let mut sorted: Vec<_> = names.to_vec();
                sorted.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
                for (name, value) in sorted {
                    if self.take(name) {
                        return Ok(value);
                    }
                }
                let all: Vec<_> = names.iter().map(|(name, _)| *name).collect();
                Err(self.expected(format!("one of {}", all.join(", "))))
            }
            (flag, _) => match flag.split_at_checked(1) {
                Some((sign, name)) => {
                    let found = self.flag(name);
                    Ok(u64::from(found == (sign == "+")))
                }
                None => Err(self.expected("a valid template")),
            },
        }
    }

    /// Takes `.name` if it comes next as a whole word.
    fn flag(&mut self, name: &str) -> bool {
        let rest = self.rest.trim_start();
        let Some(tail) = rest.strip_prefix('.').and_then(|r| r.strip_prefix(name)) else {
            return false;
        };
        if tail.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_') {
            return false;
        }
        self.rest = tail;
        true
    }

    /// Takes `rA:rB:…`, `(rBASE):rA:…` or `_`; gives the base register and the mask relative to it. Registers must
    /// ascend within sixteen.
    fn list(&mut self) -> Result<(u64, u64), ParseError> {
        if self.take("_") {
            return Ok((0, 0));
        }
        let unlisted = self.take("(");
        let base = self.register('r')?;
        if unlisted {
            self.literal(")")?;
        }
        let (mut mask, mut last) = (u64::from(!unlisted), base);
        while self.take(":") {
            let register = self.register('r')?;
            if register <= last || register - base > 15 {
                return Err(self.expected("ascending registers within sixteen"));
            }
            mask |= 1 << (register - base);
            last = register;
        }
        Ok((base, mask))
    }
}
