//! How the operands of each operation are laid out, and which bytes of a register they cover.

use mali_isa::valhall::{Combine, Instr, Op, Swizzle};

use super::super::warp::{HIGH, LOW, WORD, byte};
use super::{Elements, Part, ShiftLogic};

/// How a source is laid out, by operation and position.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    Scalar32,
    Scalar64,
    /// One half or byte is used, the low one where no swizzle is given.
    OneHalf,
    OneByte,
    Halves,
    Bytes,
}

/// Whether a half destination is modelled: element-wise operations and moves write the half in place, binary32
/// results are converted to binary16.
pub(super) fn writes_halves(op: Op) -> bool {
    let name = op.mnemonic();
    elements(op) != Elements::One
        || matches!(
            op,
            Op::MkvecV2i16 | Op::MkvecV2i8 | Op::FrcpF16 | Op::FrsqF16 | Op::V2f32ToV2f16
        )
        || matches!(
            op,
            Op::FaddF32 | Op::FmaF32 | Op::FminF32 | Op::FmaxF32 | Op::FaddImmF32
        )
        || (name.ends_with(".i32") && (ShiftLogic::of(name).is_some() || name.starts_with("MUX")))
}

/// On what elements an operation works independently.
pub(super) fn elements(op: Op) -> Elements {
    let name = op.mnemonic();
    if op == Op::MovI32 {
        Elements::Bytes
    } else if matches!(
        op,
        Op::IdpaddV4s8 | Op::IdpaddV4u8 | Op::MkvecV2i16 | Op::MkvecV2i8 | Op::V2f32ToV2f16
    ) {
        Elements::One
    } else if name.contains(".v4") {
        Elements::Bytes
    } else if name.contains(".v2") || name.starts_with("V2") {
        Elements::Halves
    } else {
        Elements::One
    }
}

/// How source `i` is laid out.
pub(super) fn shape(instr: &Instr, i: usize, size: u8) -> Shape {
    let name = instr.op.mnemonic();
    let shift_amount = i == 1 && ShiftLogic::of(name).is_some();
    match instr.op {
        Op::IdpaddV4s8 | Op::IdpaddV4u8 | Op::V2f32ToV2f16 => Shape::Scalar32,
        Op::MkvecV2i16 => Shape::OneHalf,
        Op::MkvecV2i8 if i == 2 => Shape::OneHalf,
        Op::MkvecV2i8 => Shape::OneByte,
        Op::ClperI32 if i == 1 => Shape::OneByte,
        _ if shift_amount && (name.ends_with(".i32") || name.ends_with(".i64")) => Shape::OneByte,
        _ if shift_amount && name.ends_with(".v2i16") => Shape::Halves,
        _ if size == 64 => Shape::Scalar64,
        _ if size == 32 => Shape::Scalar32,
        _ if elements(instr.op) == Elements::Halves => Shape::Halves,
        _ if elements(instr.op) == Elements::Bytes => Shape::Bytes,
        _ if size == 16 => Shape::OneHalf,
        _ => Shape::OneByte,
    }
}

/// The part that a swizzle selects from a source of some shape; `None` for combinations without a known meaning.
pub(super) fn part(swizzle: Swizzle, shape: Shape) -> Option<Part> {
    let text = swizzle.text();
    let digits: Vec<u8> = text
        .bytes()
        .skip(1)
        .filter(u8::is_ascii_digit)
        .map(|digit| digit - b'0')
        .collect();
    let kind = text.as_bytes()[0];
    let whole = swizzle == Swizzle::None;
    Some(match (shape, kind, digits.as_slice()) {
        (Shape::Scalar32 | Shape::Scalar64 | Shape::Halves | Shape::Bytes, ..) if whole => {
            Part::Whole
        }
        (Shape::OneHalf, ..) if whole => Part::Half(0),
        (Shape::OneByte, ..) if whole => Part::Byte(0),
        (Shape::Scalar32 | Shape::Scalar64 | Shape::OneHalf, b'h', &[n]) => Part::Half(n),
        (Shape::Scalar32 | Shape::Scalar64 | Shape::OneByte, b'b', &[n]) => Part::Byte(n),
        (Shape::Scalar64, b'w', &[n]) => Part::Word(n),
        (Shape::OneHalf, b'h', &[a, b]) if a == b => Part::Half(a),
        (Shape::OneByte, b'b', &[a, b]) if a == b => Part::Byte(a),
        (Shape::OneByte, b'b', &[0, 2]) => Part::Byte(0),
        (Shape::Halves, b'h', &[n]) => Part::Bytes([2 * n, 2 * n + 1, 2 * n, 2 * n + 1]),
        (Shape::Halves, b'h', &[a, b]) => Part::Bytes([2 * a, 2 * a + 1, 2 * b, 2 * b + 1]),
        (Shape::Halves, b'b', &[a, b]) => Part::Pair([a, b]),
        (Shape::Halves, b'b', &[a]) => Part::Pair([a, a]),
        (Shape::Bytes, b'b', &[a, b, c, d]) => Part::Bytes([a, b, c, d]),
        (Shape::Bytes, b'b', &[a, b]) => Part::Bytes([a, b, a, b]),
        (Shape::Bytes, b'b', &[a]) => Part::Bytes([a; 4]),
        _ => return None,
    })
}

/// The bytes of a register that a part covers.
pub(super) fn bytes_read(op: Op, combine: Combine, part: Part) -> u64 {
    if op == Op::Branchz {
        match combine {
            Combine::H0 => return LOW,
            Combine::H1 => return HIGH,
            Combine::None | Combine::And | Combine::LowBits => return WORD,
        }
    }

    match part {
        Part::Whole | Part::Word(_) => WORD,
        Part::Half(0) => LOW,
        Part::Half(_) => HIGH,
        Part::Byte(n) => byte(n),
        Part::Bytes(n) => n.iter().fold(0, |bytes, &n| bytes | byte(n)),
        Part::Pair(n) => n.iter().fold(0, |bytes, &n| bytes | byte(n)),
    }
}
