//! Properties of the table and the code that it drives; golden words are in `isa/tests/valhall_golden.rs`.

use std::collections::HashSet;

use proptest::prelude::*;

use super::codec::set_mod;
use super::table::*;
use super::*;

/// Draws numbers below a bound from a list of random ones.
struct Dice<'a> {
    numbers: &'a [u32],
    next: usize,
}

impl Dice<'_> {
    fn below(&mut self, bound: u32) -> u32 {
        let number = self.numbers[self.next % self.numbers.len()];
        self.next += 1;
        number % bound
    }

    fn flag(&mut self) -> bool {
        self.below(2) == 1
    }

    fn of<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len() as u32) as usize]
    }

    fn value(&mut self, size: u8) -> Value {
        let even = |n: u32| (if size == 64 { n & !1 } else { n }) as u8;
        match self.below(8) {
            0 => Value::Uniform(even(self.below(256))),
            1 => {
                let index = self.below(31) as u8;
                // Constant 21 is spare.
                Value::Const(if index >= 21 { index + 1 } else { index })
            }
            2 => Value::Special(
                self.of(Special::ALL),
                if size == 64 { 0 } else { self.below(2) as u8 },
            ),
            _ => Value::Reg(even(self.below(64))),
        }
    }

    fn block(&mut self, count: u8) -> Staging {
        let reg = self.below(u32::from(REGISTER_COUNT) - u32::from(count) + 1) as u8;
        Staging::new(if count > 1 { reg & !1 } else { reg }, count)
    }

    /// An instruction that the encoding can express.
    fn instr(&mut self) -> Instr {
        let op = self.of(Op::ALL);
        let info = op.info();
        let mut instr = Instr::new(op);
        instr.flow = self.of(Flow::ALL);
        if info.family == Family::Graphics {
            let bits = u64::from(self.below(u32::MAX)) | u64::from(self.below(1 << 16)) << 32;
            instr.raw = (bits & !info.sub.mask) | info.sub.value | u64::from(self.below(4)) << 48;
            return instr;
        }
        for field in info.mods {
            let value = self.of(field.values);
            set_mod(&mut instr.mods, field.kind, value.value);
        }
        for (i, src_info) in info.srcs.iter().enumerate() {
            let src = &mut instr.srcs[i];
            src.value = self.value(src_info.size);
            src.discard = matches!(src.value, Value::Reg(_)) && self.flag();
            src.neg = src_info.neg_abs.is_some() && self.flag();
            src.abs = src_info.neg_abs.is_some() && self.flag();
            src.not = src_info.not.is_some() && self.flag();
            if let Some(field) = src_info.swizzle {
                src.swizzle = self.of(field.names).swizzle;
            }
        }
        if let Some(dest) = &mut instr.dest {
            let reg = self.below(64) as u8;
            *dest = match info.dest {
                DestKind::Pair => Dest::reg(reg & !1),
                _ => Dest {
                    reg,
                    mask: self.of(&[DestMask::Full, DestMask::Low, DestMask::High]),
                },
            };
        }
        let words = info.memory_bits().map_or(2, |bits| bits.div_ceil(32) as u8);
        if instr.staging.is_some() {
            let count = match info.staging {
                StagingKind::WritePair => 2,
                StagingKind::ReadWrite if instr.mods.compare => 2 * words,
                _ if matches!(instr.mods.atomic, AtomicOp::AddU32 | AtomicOp::AddS32) => 1,
                _ if instr.mods.load_lane == LoadLane::D0 => 2,
                _ => words,
            };
            instr.staging = Some(self.block(count));
        }
        if instr.staging_out.is_some() {
            instr.staging_out = Some(self.block(words));
        }
        for imm in info.imms {
            let (min, max) = imm.range();
            let value = min + i64::from(self.below(u32::MAX)) % (max - min + 1);
            let value = if info.family == Family::Atomic {
                value & !7
            } else {
                value
            };
            match imm.target {
                ImmTarget::Imm => instr.imm = value as i32,
                ImmTarget::Table => instr.mods.table = value as u8,
            }
        }
        instr
    }
}

fn dice() -> impl Strategy<Value = Vec<u32>> {
    prop::collection::vec(any::<u32>(), 64)
}

/// A word that is near an instruction: its opcode bits, and random others with a given density.
fn near_word(op: Op, random: u64, sparse: u64) -> u64 {
    let plain = Instr::new(op)
        .encode_unchecked()
        .expect("every instruction has a plain form");
    plain ^ (random & sparse & !(0x1ff << 48))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn instructions_survive_encoding_and_text(numbers in dice()) {
        let instr = Dice { numbers: &numbers, next: 0 }.instr();
        let word = match instr.encode_unchecked() {
            Ok(word) => word,
            Err(EncodeError::Fau { why: FauError::Pages, .. }) => return Ok(()),
            Err(why) => return Err(TestCaseError::fail(format!("{instr:?}: {why}"))),
        };
        prop_assert_eq!(decode(word), Ok(instr));
        match (instr.encode(), instr.check_fau()) {
            (Ok(checked), Ok(())) => prop_assert_eq!(checked, word),
            (Err(EncodeError::Fau { why, .. }), Err(same)) => prop_assert_eq!(why, same),
            (found, rule) => prop_assert!(false, "{:?} {:?}", found, rule),
        }
        let text = instr.to_string();
        prop_assert_eq!(text.parse::<Instr>(), Ok(instr), "{}", text);
        prop_assert_eq!(assemble_program(&text), Ok(vec![word]));
    }

    #[test]
    fn any_word_decodes_or_is_refused(word in any::<u64>()) {
        if let Ok(instr) = decode(word) {
            prop_assert_eq!(instr.encode_unchecked(), Ok(word));
        }
    }

    #[test]
    fn words_near_instructions_decode_or_are_refused(
        op in 0..Op::ALL.len(), random in any::<u64>(), sparse in any::<u64>(), sparser in any::<u64>(),
    ) {
        let word = near_word(Op::ALL[op], random, sparse & sparser);
        match decode(word) {
            Ok(instr) => {
                prop_assert_eq!(instr.encode_unchecked(), Ok(word));
                let text = instr.to_string();
                prop_assert_eq!(assemble(&text), Ok(instr), "{}", text);
            }
            Err(why) => prop_assert!(why.to_string().starts_with(&format!("{word:#018x}: ")), "{}", why),
        }
    }

    #[test]
    fn no_text_makes_the_assembler_panic(text in "\\PC{0,60}") {
        let _ = assemble(&text);
        let _ = assemble_program(&text);
    }

    #[test]
    fn damaged_lines_give_an_error_or_an_instruction(
        numbers in dice(), at in any::<prop::sample::Index>(), with in "[ -~]?",
    ) {
        let mut text = Dice { numbers: &numbers, next: 0 }.instr().to_string();
        let at = at.index(text.len());
        text.replace_range(at..=at, &with);
        if let Err(why) = assemble(&text) {
            prop_assert_eq!(why.line, 1);
            prop_assert!(why.column <= text.len() + 1, "{}: {}", text, why);
        }
    }

    #[test]
    fn any_bytes_can_be_listed(bytes in prop::collection::vec(any::<u8>(), 0..64), base in any::<u64>()) {
        let lines: Vec<_> = disassemble(&bytes, base).collect();
        prop_assert_eq!(lines.len(), bytes.len().div_ceil(INSTR_BYTES));
        prop_assert!(lines.iter().all(|line| !line.to_string().is_empty()));
    }
}

#[test]
fn every_instruction_has_its_own_plain_word() {
    let mut names = HashSet::new();
    let mut words = HashSet::new();
    for op in Op::ALL {
        let instr = Instr::new(*op);
        let word = instr.encode().unwrap_or_else(|why| panic!("{why}"));
        assert_eq!(decode(word), Ok(instr));
        assert_eq!(assemble(&instr.to_string()), Ok(instr), "{instr}");
        assert_eq!(op.info().op, *op);
        assert!(names.insert(op.mnemonic()), "{}", op.mnemonic());
        assert!(words.insert(word), "{}", op.mnemonic());
    }
}

#[test]
fn fields_do_not_overlap() {
    for op in Op::ALL {
        let info = op.info();
        let mut seen = info.sub.mask;
        for field in field_docs(info) {
            let mask = ((1u64 << field.width) - 1) << field.pos;
            // The raw fields of a graphics instruction may overlap, and the rounding of FMA_RSCALE lies in the opcode.
            let may = info.family == Family::Graphics || field.pos > 48 && field.name == "round";
            assert!(may || seen & mask == 0, "{}: {}", info.mnemonic, field.name);
            seen |= mask;
        }
        assert_eq!(info.sub.value & !info.sub.mask, 0, "{}", info.mnemonic);
    }
}

#[test]
fn wrong_instructions_are_refused_by_name() {
    let fma = || Instr {
        srcs: [Src::reg(1), Src::reg(2), Src::NEG_ZERO, Src::NONE],
        ..Instr::new(Op::FmaF32)
    };
    let refused = |instr: Instr| instr.encode().expect_err("refused").to_string();
    assert!(fma().encode().is_ok());
    assert_eq!(
        refused(Instr {
            dest: None,
            ..fma()
        }),
        "FMA.f32: the destination is missing"
    );
    let with = |i: usize, src: Src| {
        let mut instr = fma();
        instr.srcs[i] = src;
        refused(instr)
    };
    assert_eq!(
        with(0, Src::reg(64)),
        "FMA.f32: source 0 names r64, the last register is r63"
    );
    assert_eq!(
        with(1, Src::constant(32)),
        "FMA.f32: source 1 names constant 32, the last one is 31"
    );
    assert_eq!(
        with(1, Src::constant(21)),
        "FMA.f32: source 1 names constant 21, which is spare on v10"
    );
    assert_eq!(with(2, Src::NONE), "FMA.f32: source 2 is missing");
    assert_eq!(with(3, Src::ZERO), "FMA.f32: source 3 does not exist");
    assert_eq!(
        with(0, Src::ZERO.last()),
        "FMA.f32: source 0 is no register and cannot be marked as last use"
    );
    assert_eq!(
        with(0, Src::reg(1).not()),
        "FMA.f32: source 0 cannot be complemented"
    );
    assert_eq!(
        with(0, Src::reg(1).swizzle(Swizzle::B0)),
        "FMA.f32: source 0 does not have the swizzle b0"
    );
    let saturated = Mods {
        saturate: true,
        ..Mods::DEFAULT
    };
    assert_eq!(
        refused(Instr {
            mods: saturated,
            ..fma()
        }),
        "FMA.f32 does not have this saturate"
    );
    assert_eq!(
        refused(Instr {
            staging: Some(Staging::new(0, 1)),
            ..fma()
        }),
        "FMA.f32: staging registers: the instruction has none"
    );
    assert_eq!(
        refused(Instr { imm: 1, ..fma() }),
        "FMA.f32: immediate 1 does not fit, 0 to 0 does"
    );
}

#[test]
fn uniforms_follow_the_rules() {
    let of = |a: Src, b: Src, c: Src| Instr {
        srcs: [a, b, c, Src::NONE],
        ..Instr::new(Op::FmaF32)
    };
    let why = |instr: Instr| match instr.encode() {
        Err(EncodeError::Fau { why, .. }) => Some(why),
        _ => None,
    };
    let lane = Src::special(Special::LaneId, 0);
    assert_eq!(why(of(Src::uniform(4), Src::uniform(5), Src::reg(0))), None);
    assert_eq!(why(of(Src::uniform(4), Src::uniform(4), Src::ZERO)), None);
    assert_eq!(
        why(of(Src::uniform(4), Src::uniform(6), Src::reg(0))),
        Some(FauError::Slots)
    );
    assert_eq!(
        why(of(Src::uniform(4), Src::uniform(5), Src::ZERO)),
        Some(FauError::Words)
    );
    assert_eq!(
        why(of(Src::uniform(4), lane, Src::reg(0))),
        Some(FauError::Pages)
    );
    assert_eq!(why(of(Src::uniform(200), lane, Src::reg(0))), None);
    assert_eq!(
        why(of(Src::special(Special::CoreId, 0), lane, Src::reg(0))),
        Some(FauError::Specials)
    );
}

#[test]
fn memory_accesses_keep_their_rules() {
    let load = |reg, count, imm| Instr {
        srcs: [Src::reg(2), Src::NONE, Src::NONE, Src::NONE],
        staging: Some(Staging::new(reg, count)),
        imm,
        mods: Mods {
            unsigned: true,
            ..Mods::DEFAULT
        },
        ..Instr::new(Op::LoadI128)
    };
    assert!(load(4, 4, -8).encode().is_ok());
    let why = |instr: Instr| instr.encode().expect_err("refused").to_string();
    assert_eq!(
        why(load(4, 3, 0)),
        "LOAD.i128: staging registers: 3 registers, the width asks for 4"
    );
    assert_eq!(
        why(load(5, 4, 0)),
        "LOAD.i128: staging registers: a block of 4 cannot start at the odd r5"
    );
    assert_eq!(
        why(load(62, 4, 0)),
        "LOAD.i128: staging registers: r62 and the 4 from there on end beyond r63"
    );
    assert_eq!(
        why(load(4, 4, 40000)),
        "LOAD.i128: offset 40000 does not fit, -32768 to 32767 does"
    );
    let mut odd = load(4, 4, 0);
    odd.srcs[0] = Src::reg(3);
    assert_eq!(
        why(odd),
        "LOAD.i128: source 0 is 64 bits wide and has to start at an even register or word"
    );
    let atomic = Instr {
        imm: 2,
        ..Instr::new(Op::AtomI32)
    };
    assert_eq!(why(atomic), "ATOM.i32: offset 2 is no multiple of 4");
}

#[test]
fn reserved_bits_are_refused_by_name() {
    let mov = Instr::new(Op::MovI32).encode().expect("plain");
    let why = |word: u64| decode(word).expect_err("refused").to_string();
    assert!(why(mov | 1 << 63).ends_with("MOV.i32: reserved bits 0x8000000000000000 are wrong"));
    assert!(why(mov | 1 << 30).ends_with("MOV.i32: reserved bits 0x40000000 are wrong"));
    assert!(why(mov | 11 << 59).ends_with("MOV.i32: field flow has the reserved value 11"));
    assert!(
        why(mov | 1 << 57).ends_with("MOV.i32: FAU page 1 is selected, but no source reads it")
    );
    assert!(
        why(mov & !(3 << 46))
            .ends_with("MOV.i32: field destination halves has the reserved value 0")
    );
    assert!(why(0x01ff << 48).ends_with("opcode 0x1ff with these secondary opcode bits"));
    let barrier = Instr::new(Op::Barrier).encode().expect("plain");
    assert!(why(barrier & !(7 << 30)).ends_with("BARRIER: field slot has the reserved value 0"));
}

#[test]
fn assembler_errors_name_place_and_expectation() {
    let why = |text: &str| assemble_program(text).expect_err("refused").to_string();
    assert_eq!(
        why("NOP.end\nFMA.f32 r70, r1, r2, r3"),
        "line 2, column 9: `r70`: expected a register r0 to r63"
    );
    assert_eq!(
        why("  FOO r1"),
        "line 1, column 3: `FOO`: expected the name of a v10 instruction"
    );
    assert_eq!(
        why("MOV r1, r2"),
        "line 1, column 1: `MOV`: expected MOV with a type out of i32"
    );
    assert_eq!(
        why("MOV.i32.sideways r1, r2"),
        "line 1, column 9: `sideways`: expected for MOV.i32 a flow (wait0 … end)"
    );
    assert_eq!(
        why("MOV.i32 r1"),
        "line 1, column 11: nothing: expected a source: register, uniform, special value or constant"
    );
    assert_eq!(
        why("MOV.i32 r1, r2, r3"),
        "line 1, column 17: `r3`: expected the end of the line"
    );
    assert_eq!(
        why("MOV.i32 r1, 0x1234"),
        "line 1, column 13: `0x1234`: expected a number out of the table of constants"
    );
    assert_eq!(
        why("CSEL.u32 r1, r2, r3, r4, r5"),
        "line 1, column 1: `CSEL.u32`: expected a condition out of eq, gt, ge, ne, lt, le"
    );
    assert_eq!(
        why("LOAD.i32.slot0 @r1:r3, r2, offset:0"),
        "line 1, column 20: `r3`: expected r2, the register after the one before"
    );
    assert_eq!(
        why("BRANCHZ r1, offset:nowhere"),
        "line 1, column 20: `nowhere`: expected a label of this program"
    );
    assert_eq!(
        why("NOP\n  LOAD.i128.slot0 @r0:r1, r2, offset:0"),
        "line 2, column 3: LOAD.i128: staging registers: 2 registers, the width asks for 4"
    );
}

#[test]
fn labels_count_from_the_next_instruction() {
    let program = "// a loop\nstart:\n  IADD_IMM.i32 r0, r0^, #0x1\n  BRANCHZ.reconverge r0, offset:start\n\
                   BRANCHZ.eq.reconverge r0, offset:done ; ahead\nNOP\ndone: NOP.end\n";
    let words = assemble_program(program).expect("a program");
    let offsets: Vec<i32> = words
        .iter()
        .map(|w| decode(*w).expect("an instruction").imm)
        .collect();
    assert_eq!(offsets, [1, -2, 1, 0, 0]);
    let twice = assemble_program("a:\na: NOP").expect_err("refused");
    assert_eq!(
        twice.to_string(),
        "line 2, column 1: label `a` is defined twice"
    );
}

#[test]
fn constants_are_found_by_value() {
    assert_eq!(Src::imm32(0), Some(Src::ZERO));
    assert_eq!(Src::imm32(0x3f80_0000), Some(Src::constant(16)));
    assert_eq!(Src::imm32(0x1234), None);
    assert_eq!(const_value(32), 0);
    assert!(
        (0..32)
            .filter(|i| *i != 21)
            .all(|i| const_index(const_value(i)) == Some(i))
    );
}
