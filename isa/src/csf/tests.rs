use proptest::prelude::*;

use super::*;

/// A valid word of `op` from random bits: every field gets a value of its kind.
fn valid_word(op: &Op, random: u64) -> u64 {
    op.fields
        .iter()
        .fold(u64::from(op.opcode) << 56, |word, f| {
            let bits = (random >> f.start) & f.value_mask();
            let value = match f.kind {
                Kind::Reg32 => bits % u64::from(REGISTERS),
                Kind::Reg64 => (bits % u64::from(REGISTERS)) & !1,
                Kind::Enum(names) => names[bits as usize % names.len()].1,
                _ => bits,
            };
            word | value << f.start
        })
}

#[test]
fn fields_of_one_instruction_do_not_overlap() {
    for op in TABLE {
        let mut seen = 0xffu64 << 56;
        for f in op.fields {
            assert_eq!(seen & f.mask(), 0, "{} {}", op.mnemonic, f.name);
            seen |= f.mask();
            assert!(!f.doc.is_empty(), "{} {}", op.mnemonic, f.name);
        }
        assert_eq!(
            TABLE.iter().filter(|o| o.opcode == op.opcode).count(),
            1,
            "{}",
            op.mnemonic
        );
        assert_eq!(
            TABLE.iter().filter(|o| o.mnemonic == op.mnemonic).count(),
            1,
            "{}",
            op.mnemonic
        );
    }
}

#[test]
fn text_of_known_words() {
    // Words of the kernel's own sequence around a job (panthor_sched.c, `prepare_job_instrs`) with rX = 92, in the
    // spelling of Mesa's disassembler.
    let cases = [
        (2u64 << 56 | 94 << 48 | 7, "MOVE32 r94, #0x7"),
        (
            36 << 56 | 94 << 40 | 0x233,
            "FLUSH_CACHE2.clean_invalidate_l2.clean_invalidate_lsc.invalidate_other r94, #0, #0",
        ),
        (
            40 << 56 | 90 << 40 | 1 << 32,
            "STORE_STATE.CYCLE_COUNT d90, #0, #0, #0",
        ),
        (1 << 56 | 92 << 48 | 0xffc5_6000, "MOVE48 d92, #0xFFC56000"),
        (3 << 56 | 1 << 16, "WAIT #1"),
        (32 << 56 | 92 << 40 | 94 << 32, "CALL d92, r94"),
        (3 << 56 | 0xff << 16, "WAIT #ff"),
        (
            51 << 56 | 92 << 40 | 94 << 32 | 1,
            "SYNC_ADD64.error_propagate.system [d92], d94, #0, #0",
        ),
        (47 << 56, "ERROR_BARRIER"),
        (0, "NOP"),
        (
            4 << 56 | 1 << 14 | 5,
            "RUN_COMPUTE.y_axis.srt0.spd0.tsd0.fau0 #5",
        ),
        (
            20 << 56 | 37 << 48 | 8 << 40 | 0b101 << 16 | 0xfff8,
            "LOAD_MULTIPLE r37:r39, [d8 + -8]",
        ),
        (22 << 56 | 9 << 40 | 3 << 28 | 0xffff, "BRANCH.ne r9, #-1"),
        (
            53 << 56 | 4 << 40 | 6 << 32 | 1 << 28,
            "SYNC_WAIT64.gt.inherit d4, d6",
        ),
        (41 << 56 | 3, "PROT_REGION #24"),
    ];
    for (word, text) in cases {
        let instr = decode(word).unwrap();
        assert_eq!(instr.to_string(), text);
        assert_eq!(text.parse::<Instr>().unwrap(), instr);
        assert_eq!(encode(&instr).unwrap(), word);
    }
}

#[test]
fn mesa_spellings_are_taken() {
    for (mesa, ours) in [
        (
            "SYNC_WAIT64gt.inherit d4, d6",
            "SYNC_WAIT64.gt.inherit d4, d6",
        ),
        (
            "SYNC_SET64..csg [d4], d6, #0, #0",
            "SYNC_SET64.csg [d4], d6, #0, #0",
        ),
        ("RUN_FULLSCREEN r4, #1f", "RUN_FULLSCREEN d4, #1f"),
        ("  MOVE32   r1 ,#0xA", "MOVE32 r1, #0xA"),
    ] {
        assert_eq!(mesa.parse::<Instr>().unwrap().to_string(), ours);
    }
}

#[test]
fn faulty_words_have_named_errors() {
    assert!(matches!(
        decode(0xff << 56),
        Err(DecodeError::UnknownOpcode { opcode: 0xff, .. })
    ));
    assert!(matches!(
        decode(3 << 56 | 1),
        Err(DecodeError::ReservedBits {
            mnemonic: "WAIT",
            bits: 1,
            ..
        })
    ));
    let odd = decode(1 << 56 | 5 << 48);
    assert!(
        matches!(
            odd,
            Err(DecodeError::Field {
                field: "dst",
                error: FieldError::OddPair(5),
                ..
            })
        ),
        "{odd:?}"
    );
    let far = decode(2 << 56 | 96 << 48);
    assert!(
        matches!(
            far,
            Err(DecodeError::Field {
                error: FieldError::NoSuchRegister(96),
                ..
            })
        ),
        "{far:?}"
    );
    let cond = decode(22 << 56 | 7 << 28);
    assert!(matches!(
        cond,
        Err(DecodeError::Field {
            field: "condition",
            error: FieldError::Reserved(7),
            ..
        })
    ));
    let wide = Instr::Move48 {
        dst: Reg64(0),
        imm: 1 << 48,
    }
    .encode();
    assert!(matches!(
        wide,
        Err(EncodeError {
            field: "imm",
            error: FieldError::TooWide { .. },
            ..
        })
    ));
    assert!(Instr::ProtRegion { size: Bytes8(12) }.encode().is_err());
}

#[test]
fn faulty_text_has_named_errors() {
    for text in [
        "",
        "FROB r1",
        "MOVE32 r1",
        "MOVE32 r96, #0x1",
        "MOVE48 d3, #0x1",
        "WAIT #100",
        "WAIT #1 x",
        "LOAD_MULTIPLE r3:r2, [d0]",
        "LOAD_MULTIPLE r0, [d0 + 40000]",
        "BRANCH.maybe r1, #0",
        "PROT_REGION #12",
        "REQ_RESOURCE.computer",
        "MOVE32 r1, #0x",
    ] {
        assert!(text.parse::<Instr>().is_err(), "{text}");
    }
}

#[test]
fn programs_have_labels_and_comments() {
    let text = "again:\n  ADD_IMMEDIATE32 r1, r1, #-1 // count down\n  BRANCH.ne r1, again\n; nothing\nBRANCH.always r0, end\nNOP\nend:\n";
    let bytes = assemble_program(text).unwrap();
    assert_eq!(
        disassemble(&bytes).unwrap(),
        "ADD_IMMEDIATE32 r1, r1, #-1\nBRANCH.ne r1, #-2\nBRANCH.always r0, #1\nNOP\n"
    );
    assert!(matches!(
        assemble_program("BRANCH.eq r1, nowhere"),
        Err(ProgramError::NoLabel { line: 1, .. })
    ));
    assert!(matches!(
        assemble_program("a:\na:\n"),
        Err(ProgramError::LabelTwice { line: 2, .. })
    ));
    assert!(matches!(disassemble(&[0; 7]), Err(ProgramError::Length(7))));
    assert!(matches!(
        disassemble(&[0xff; 8]),
        Err(ProgramError::Decode { offset: 0, .. })
    ));
}

proptest! {
    #[test]
    fn valid_words_round_trip(index in 0..TABLE.len(), random: u64) {
        let word = valid_word(&TABLE[index], random);
        let instr = decode(word).unwrap();
        prop_assert_eq!(encode(&instr).unwrap(), word);
        let text = instr.to_string();
        prop_assert_eq!(text.parse::<Instr>().unwrap(), instr, "{}", text);
    }

    #[test]
    fn decoding_any_word_is_exact_or_refused(word: u64) {
        if let Ok(instr) = decode(word) {
            prop_assert_eq!(encode(&instr).unwrap(), word);
        }
    }

    #[test]
    fn decoding_any_operands_of_known_opcodes_is_exact_or_refused(index in 0..TABLE.len(), low in 0u64..1 << 56) {
        if let Ok(instr) = decode(u64::from(TABLE[index].opcode) << 56 | low) {
            prop_assert_eq!(encode(&instr).unwrap() & ((1 << 56) - 1), low);
            let _ = instr.to_string();
        }
    }

    #[test]
    fn any_text_is_read_or_refused(text in ".{0,60}") {
        let _ = text.parse::<Instr>();
        let _ = assemble_program(&text);
    }
}

/// Words of real streams with the text that another decoder gives them.
const PANVK_WORDS: &str = include_str!("../../../tests/golden/csf/panvk-words.txt");

#[test]
fn words_of_captured_streams_have_mesas_text_and_assemble_back() {
    let mut count = 0;
    for line in PANVK_WORDS.lines().filter(|l| !l.starts_with('#')) {
        let (hex, text) = line.split_once(' ').unwrap();
        let word = u64::from_str_radix(hex, 16).unwrap();
        let instr = decode(word).unwrap();
        // The one spelling that differs on purpose.
        let ours = instr.to_string().replace("SYNC_WAIT64.", "SYNC_WAIT64");
        assert_eq!(ours, text);
        let back: Instr = text.parse().unwrap();
        assert_eq!(encode(&back).unwrap(), word, "{text}");
        count += 1;
    }
    assert_eq!(count, 150);
}
