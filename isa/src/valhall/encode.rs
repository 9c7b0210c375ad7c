//! From instruction to word.

use super::Instr;
use super::codec::*;
use super::error::{EncodeError, FauError, SrcError, StagingError};
use super::mods::*;
use super::table::{DestKind, Family, ImmTarget, ModKind, Op, OpInfo, SrcInfo, StagingKind};
use super::types::*;

fn encode_src(src: &Src, info: &SrcInfo) -> Result<u64, SrcError> {
    if src.discard && !matches!(src.value, Value::Reg(_)) {
        return Err(SrcError::Discard);
    }
    let even = |index: u8| {
        if info.size == 64 && index % 2 != 0 {
            Err(SrcError::Odd)
        } else {
            Ok(())
        }
    };
    let byte = match src.value {
        Value::None => return Err(SrcError::Missing),
        Value::Reg(reg) if reg >= REGISTER_COUNT => return Err(SrcError::Register(reg)),
        Value::Reg(reg) => {
            even(reg)?;
            u8::from(src.discard) << 6 | reg
        }
        Value::Uniform(word) => {
            even(word)?;
            (SRC_UNIFORM << 6) | (word % PAGE_WORDS)
        }
        Value::Const(SPARE_CONSTANT) => return Err(SrcError::SpareConstant),
        Value::Const(index) if index >= 32 => return Err(SrcError::Constant(index)),
        Value::Const(index) => SRC_FAU << 6 | index,
        Value::Special(_, word) if word > 1 => return Err(SrcError::Word(word)),
        Value::Special(which, word) => {
            even(word)?;
            SRC_FAU << 6 | 0x20 | special_place(which).1 << 1 | word
        }
    };
    let mut out = u64::from(byte) << info.pos;
    match info.neg_abs {
        Some((neg, abs)) => out |= u64::from(src.neg) << neg | u64::from(src.abs) << abs,
        None if src.neg => return Err(SrcError::Neg),
        None if src.abs => return Err(SrcError::Abs),
        None => {}
    }
    match info.not {
        Some(not) => out |= u64::from(src.not) << not,
        None if src.not => return Err(SrcError::Not),
        None => {}
    }
    match info.swizzle {
        Some(field) => {
            let name = field.names.iter().find(|n| n.swizzle == src.swizzle);
            out |= u64::from(name.ok_or(SrcError::Swizzle(src.swizzle))?.bits) << field.pos;
        }
        None if src.swizzle != Swizzle::None => return Err(SrcError::Swizzle(src.swizzle)),
        None => {}
    }
    Ok(out)
}

impl Instr {
    /// An instruction with nothing but its name: sources are [`Src::ZERO`] with the first swizzle that they have, a
    /// destination is r0, staging registers start at r0 with the number that the width asks for, modifiers have
    /// their default or, where there is none, the first value of the table.
    pub fn new(op: Op) -> Instr {
        let info = op.info();
        let mut srcs = [Src::NONE; 4];
        for (src, src_info) in srcs.iter_mut().zip(info.srcs) {
            *src = Src::ZERO;
            if let Some(field) = src_info.swizzle {
                src.swizzle = field.names[0].swizzle;
            }
        }
        let mut mods = Mods::DEFAULT;
        for field in info.mods {
            let default = mod_value(&mods, field.kind);
            if !field.values.iter().any(|v| v.value == default) {
                set_mod(&mut mods, field.kind, field.values[0].value);
            }
        }
        let (count, out) = staging_counts(info, &mods);
        let block = |count: Option<u8>| Some(Staging::new(0, count.unwrap_or(2)));
        Instr {
            op,
            dest: (info.dest != DestKind::None).then_some(Dest::reg(0)),
            srcs,
            staging: if info.staging == StagingKind::None {
                None
            } else {
                block(count)
            },
            staging_out: if info.staging == StagingKind::ReadWrite {
                block(out)
            } else {
                None
            },
            imm: 0,
            mods,
            flow: Flow::None,
            raw: if info.family == Family::Graphics {
                info.sub.value & RAW_BITS
            } else {
                0
            },
        }
    }

    /// Checks what the encoding can express but hardware does not define: the sources may read one 64-bit uniform
    /// slot, one special value, and no more than 64 bits of uniforms, special values and constants altogether.
    /// (Mesa, panfrost/compiler/bifrost/valhall/va_validate.c.)
    ///
    /// # Errors
    /// Names the rule.
    pub fn check_fau(&self) -> Result<(), FauError> {
        check_fau(self.op.info(), &self.srcs)
    }

    /// The instruction as a 64-bit word, little-endian in memory.
    ///
    /// # Errors
    /// Names the member that the instruction does not have, that is missing, or that does not fit, or the rule of
    /// [`Instr::check_fau`] that it breaks.
    pub fn encode(&self) -> Result<u64, EncodeError> {
        let word = self.encode_unchecked()?;
        match self.check_fau() {
            Ok(()) => Ok(word),
            Err(why) => Err(EncodeError::Fau {
                op: self.op.mnemonic(),
                why,
            }),
        }
    }

    /// As [`Instr::encode`], without [`Instr::check_fau`]: whatever the encoding can express.
    ///
    /// # Errors
    /// As [`Instr::encode`].
    pub fn encode_unchecked(&self) -> Result<u64, EncodeError> {
        let info = self.op.info();
        let op = info.mnemonic;
        let layout = &index().layouts[self.op as usize];
        let mut word = layout.value;
        let flow = FLOWS
            .iter()
            .position(|f| *f == Some(self.flow))
            .unwrap_or(0);
        word |= (flow as u64) << FLOW_POS;
        if info.family == Family::Graphics {
            return self.encode_graphics(word, layout);
        }
        if self.raw != 0 {
            return Err(EncodeError::Raw { op, bits: self.raw });
        }
        word |= self.encode_dest(info)?;
        for (i, src) in self.srcs.iter().enumerate() {
            let fail = |why| EncodeError::Src {
                op,
                index: i as u8,
                why,
            };
            match info.srcs.get(i) {
                Some(src_info) => word |= encode_src(src, src_info).map_err(fail)?,
                None if *src != Src::NONE => return Err(fail(SrcError::Extra)),
                None => {}
            }
        }
        let page = page_of(&self.srcs).map_err(|why| EncodeError::Fau { op, why })?;
        word |= u64::from(page.unwrap_or(0)) << PAGE_POS;
        word |= self.encode_mods(info)?;
        word |= self
            .encode_staging(info)
            .map_err(|why| EncodeError::Staging { op, why })?;
        self.encode_imms(info, word)
    }

    fn encode_graphics(&self, word: u64, layout: &Layout) -> Result<u64, EncodeError> {
        let op = self.op.mnemonic();
        let page = self.raw >> OPCODE_POS;
        let low = self.raw & RAW_BITS;
        let wrong =
            (low ^ layout.value) & layout.fixed & RAW_BITS | (page & !ones(2)) << OPCODE_POS;
        if wrong != 0 {
            return Err(EncodeError::Raw { op, bits: wrong });
        }
        let plain = Instr {
            flow: self.flow,
            raw: self.raw,
            ..Instr::new(self.op)
        };
        if *self != plain {
            return Err(EncodeError::Modifier {
                op,
                field: "member beside its raw bits",
            });
        }
        Ok(word | low | page << PAGE_POS)
    }

    fn encode_dest(&self, info: &OpInfo) -> Result<u64, EncodeError> {
        let op = info.mnemonic;
        let dest = match (info.dest, self.dest) {
            (DestKind::None, None) => return Ok(0),
            (DestKind::None, Some(_)) => return Err(EncodeError::ExtraDest { op }),
            (_, None) => return Err(EncodeError::MissingDest { op }),
            (_, Some(dest)) => dest,
        };
        let fail = |why| {
            Err(EncodeError::Dest {
                op,
                reg: dest.reg,
                why,
            })
        };
        if dest.reg >= REGISTER_COUNT {
            return fail("the last register is r63");
        }
        if info.dest == DestKind::Pair {
            if dest.reg % 2 != 0 {
                return fail("a pair starts at an even register");
            }
            if dest.mask != DestMask::Full {
                return fail("a pair is written as a whole");
            }
        }
        let mask = match dest.mask {
            DestMask::Full => FULL,
            DestMask::Low => LOW,
            DestMask::High => HIGH,
        };
        Ok(u64::from(dest.reg) << DEST_POS | mask << (DEST_POS + 6))
    }

    fn encode_mods(&self, info: &OpInfo) -> Result<u64, EncodeError> {
        let op = info.mnemonic;
        let mut word = 0;
        // What is left after taking the instruction's own fields away has to be the default.
        let mut rest = self.mods;
        for field in info.mods {
            let value = mod_value(&self.mods, field.kind);
            let found = field.values.iter().find(|v| v.value == value);
            let found = found.ok_or(EncodeError::Modifier {
                op,
                field: field.name,
            })?;
            word |= u64::from(found.bits) << field.pos;
            set_mod(&mut rest, field.kind, mod_value(&Mods::DEFAULT, field.kind));
        }
        if info.imms.iter().any(|i| i.target == ImmTarget::Table) {
            rest.table = 0;
        }
        if rest != Mods::DEFAULT {
            let differs = |(kind, _): &&(ModKind, &str)| {
                mod_value(&rest, *kind) != mod_value(&Mods::DEFAULT, *kind)
            };
            let field = KINDS.iter().find(differs).map_or("table", |(_, name)| name);
            return Err(EncodeError::Modifier { op, field });
        }
        Ok(word)
    }

    fn encode_staging(&self, info: &OpInfo) -> Result<u64, StagingError> {
        if self.staging_out.is_some() != (info.staging == StagingKind::ReadWrite) {
            return Err(if self.staging_out.is_some() {
                StagingError::Extra
            } else {
                StagingError::Missing
            });
        }
        let block = match (info.staging, self.staging) {
            (StagingKind::None, None) => return Ok(0),
            (StagingKind::None, Some(_)) => return Err(StagingError::Extra),
            (_, None) => return Err(StagingError::Missing),
            (_, Some(block)) => block,
        };
        let (count, out_count) = staging_counts(info, &self.mods);
        if info.staging == StagingKind::WritePair {
            check_block(block, Some(2), false)?;
            return Ok(u64::from(block.reg) << DEST_POS);
        }
        check_block(block, count, may_be_empty(info))?;
        let mut word =
            u64::from(block.reg) << DEST_POS | u64::from(block.count) << STAGING_COUNT_POS;
        if let Some(out) = self.staging_out {
            check_block(out, out_count, false)?;
            word |= u64::from(out.reg) << STAGING_OUT_POS;
            word |= u64::from(out.count.saturating_sub(1)) << STAGING_OUT_COUNT_POS;
        }
        Ok(word)
    }

    fn encode_imms(&self, info: &OpInfo, mut word: u64) -> Result<u64, EncodeError> {
        let op = info.mnemonic;
        let mut has_imm = false;
        for imm in info.imms {
            let value = match imm.target {
                ImmTarget::Table => i64::from(self.mods.table),
                ImmTarget::Imm if imm.width == 32 => i64::from(self.imm as u32),
                ImmTarget::Imm => i64::from(self.imm),
            };
            has_imm |= imm.target == ImmTarget::Imm;
            let (min, max) = imm.range();
            if value < min || value > max {
                return Err(EncodeError::Immediate {
                    op,
                    field: imm.name,
                    value,
                    min,
                    max,
                });
            }
            let align = offset_align(info);
            if value % i64::from(align) != 0 {
                return Err(EncodeError::Misaligned { op, value, align });
            }
            word |= (value as u64 & ones(imm.width)) << imm.pos;
        }
        if !has_imm && self.imm != 0 {
            let value = i64::from(self.imm);
            return Err(EncodeError::Immediate {
                op,
                field: "immediate",
                value,
                min: 0,
                max: 0,
            });
        }
        Ok(word)
    }
}
