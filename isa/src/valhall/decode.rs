//! From word to instruction.

use super::Instr;
use super::codec::*;
use super::error::{DecodeError, SrcError, StagingError};
use super::mods::*;
use super::table::{DestKind, Family, ImmTarget, Op, OpInfo, SrcInfo, StagingKind};
use super::types::*;

fn decode_src(word: u64, info: &SrcInfo) -> Result<Src, SrcError> {
    let byte = bits(word, info.pos, 8) as u8;
    let page = bits(word, PAGE_POS, 2) as u8;
    let low = byte & 0x3f;
    let value = match byte >> 6 {
        SRC_UNIFORM => Value::Uniform(page * PAGE_WORDS + low),
        SRC_FAU if low == SPARE_CONSTANT => return Err(SrcError::SpareConstant),
        SRC_FAU if low < 32 => Value::Const(low),
        SRC_FAU => {
            let slot = (low & 0x1f) >> 1;
            let found = SPECIALS.iter().find(|(_, p, s)| (*p, *s) == (page, slot));
            let (which, _, _) = found.ok_or(SrcError::Special { page, index: slot })?;
            Value::Special(*which, low & 1)
        }
        _ => Value::Reg(low),
    };
    if info.size == 64 && byte & 1 != 0 && !matches!(value, Value::Const(_)) {
        return Err(SrcError::Odd);
    }
    let mut src = Src {
        discard: byte >> 6 == 1,
        ..Src::of(value)
    };
    if let Some((neg, abs)) = info.neg_abs {
        src.neg = bits(word, neg, 1) != 0;
        src.abs = bits(word, abs, 1) != 0;
    }
    if let Some(not) = info.not {
        src.not = bits(word, not, 1) != 0;
    }
    if let Some(field) = info.swizzle {
        let value = bits(word, field.pos, field.width) as u8;
        let name = field.names.iter().find(|n| n.bits == value);
        src.swizzle = name.ok_or(SrcError::ReservedSwizzle(value))?.swizzle;
    }
    Ok(src)
}

/// Decodes one instruction word. What it returns can be encoded to the same word by
/// [`Instr::encode_unchecked`]; whether hardware defines the combination of uniforms is for [`Instr::check_fau`].
///
/// # Errors
/// Names the field that is reserved or wrong. Never panics, whatever the word.
pub fn decode(word: u64) -> Result<Instr, DecodeError> {
    let index = index();
    let opcode = bits(word, OPCODE_POS, 9) as u16;
    let matches = |op: &&Op| {
        let sub = op.info().sub;
        (word ^ sub.value) & sub.mask == 0
    };
    let unknown = DecodeError::UnknownOpcode { word, opcode };
    let op = *index.by_opcode[usize::from(opcode)]
        .iter()
        .find(matches)
        .ok_or(unknown)?;
    let info = op.info();
    let name = info.mnemonic;
    let layout = &index.layouts[op as usize];
    let wrong = (word ^ layout.value) & layout.fixed;
    if wrong != 0 {
        return Err(DecodeError::Reserved {
            word,
            op: name,
            bits: wrong,
        });
    }
    let reserved = |field, value| DecodeError::ReservedValue {
        word,
        op: name,
        field,
        value,
    };
    let flow = bits(word, FLOW_POS, 4) as u8;
    let flow = FLOWS[usize::from(flow)].ok_or(reserved("flow", flow))?;
    let page = bits(word, PAGE_POS, 2) as u8;
    let mut instr = Instr {
        op,
        dest: None,
        srcs: [Src::NONE; 4],
        staging: None,
        staging_out: None,
        imm: 0,
        mods: Mods::DEFAULT,
        flow,
        raw: 0,
    };
    if info.family == Family::Graphics {
        instr.raw = word & RAW_BITS | u64::from(page) << OPCODE_POS;
        return Ok(instr);
    }
    let reg = bits(word, DEST_POS, 6) as u8;
    instr.dest = match info.dest {
        DestKind::None => None,
        DestKind::Pair if reg % 2 != 0 => {
            return Err(DecodeError::OddDest {
                word,
                op: name,
                reg,
            });
        }
        DestKind::Pair => Some(Dest::reg(reg)),
        DestKind::Word => {
            let mask = match bits(word, DEST_POS + 6, 2) {
                FULL => DestMask::Full,
                LOW => DestMask::Low,
                HIGH => DestMask::High,
                value => return Err(reserved("destination halves", value as u8)),
            };
            Some(Dest { reg, mask })
        }
    };
    for (i, src_info) in info.srcs.iter().enumerate() {
        let fail = |why| DecodeError::Src {
            word,
            op: name,
            index: i as u8,
            why,
        };
        instr.srcs[i] = decode_src(word, src_info).map_err(fail)?;
    }
    if page != 0 && page_of(&instr.srcs) == Ok(None) {
        return Err(DecodeError::UnusedPage {
            word,
            op: name,
            page,
        });
    }
    for field in info.mods {
        let value = bits(word, field.pos, field.width) as u8;
        let found = field
            .values
            .iter()
            .find(|v| v.bits == value)
            .ok_or(reserved(field.name, value))?;
        set_mod(&mut instr.mods, field.kind, found.value);
    }
    decode_staging(word, info, &mut instr).map_err(|why| DecodeError::Staging {
        word,
        op: name,
        why,
    })?;
    for imm in info.imms {
        let raw = bits(word, imm.pos, imm.width);
        let value = if imm.signed {
            (raw as i64) << (64 - imm.width) >> (64 - imm.width)
        } else {
            raw as i64
        };
        let align = offset_align(info);
        if value % i64::from(align) != 0 {
            return Err(DecodeError::Misaligned {
                word,
                op: name,
                value,
                align,
            });
        }
        match imm.target {
            ImmTarget::Imm => instr.imm = value as i32,
            ImmTarget::Table => instr.mods.table = value as u8,
        }
    }
    Ok(instr)
}

fn decode_staging(word: u64, info: &OpInfo, instr: &mut Instr) -> Result<(), StagingError> {
    if info.staging == StagingKind::None {
        return Ok(());
    }
    let block = Staging::new(
        bits(word, DEST_POS, 6) as u8,
        bits(word, STAGING_COUNT_POS, 3) as u8,
    );
    let (count, out_count) = staging_counts(info, &instr.mods);
    check_block(block, count, may_be_empty(info))?;
    instr.staging = Some(block);
    if info.staging == StagingKind::ReadWrite {
        let count = bits(word, STAGING_OUT_COUNT_POS, 3) as u8 + 1;
        let out = Staging::new(bits(word, STAGING_OUT_POS, 6) as u8, count);
        check_block(out, out_count, false)?;
        instr.staging_out = Some(out);
    }
    Ok(())
}
