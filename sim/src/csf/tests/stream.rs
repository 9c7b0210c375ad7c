//! Registers, branches, calls, scoreboards, the driver's own words.

use mali_isa::csf::{Kind, TABLE, assemble_program};
use proptest::prelude::*;

use super::*;

#[test]
fn arithmetic_and_branches() {
    let queue = runs(
        "MOVE32 r0, #5\nMOVE32 r1, #0\nagain:\nADD_IMMEDIATE32 r1, r1, #3\nADD_IMMEDIATE32 r0, r0, #-1\nBRANCH.gt r0, again\n\
         MOVE48 d2, #0xffffffffffff\nADD_IMMEDIATE64 d4, d2, #1\nADD_IMMEDIATE64 d6, d2, #-1\nMOVE32 r8, #0xfffffff0\n\
         UMIN32 r9, r8, r1\nBRANCH.lt r8, end\nMOVE32 r1, #0\nend:\nBRANCH.always r95, last\nMOVE32 r1, #0\nlast:\n",
    );
    assert_eq!(queue.register(1), Some(15));
    assert_eq!(
        (queue.register(4), queue.register(5)),
        (Some(0), Some(1 << 16))
    );
    assert_eq!(
        (queue.register(6), queue.register(7)),
        (Some(0xffff_fffe), Some(0xffff))
    );
    assert_eq!(queue.register(9), Some(15));
    assert_eq!(queue.register(10), None);
}

#[test]
fn every_branch_condition_is_signed() {
    for (condition, taken) in [
        ("le", [1, 1, 0]),
        ("gt", [0, 0, 1]),
        ("eq", [0, 1, 0]),
        ("ne", [1, 0, 1]),
        ("lt", [1, 0, 0]),
        ("ge", [0, 1, 1]),
    ] {
        for (value, expected) in ["0xffffffff", "0", "1"].into_iter().zip(taken) {
            let text = format!(
                "MOVE32 r0, #{value}\nMOVE32 r1, #1\nBRANCH.{condition} r0, #1\nMOVE32 r1, #0"
            );
            assert_eq!(
                runs(&text).register(1),
                Some(expected),
                "{condition} {value}"
            );
        }
    }
}

#[test]
fn loads_and_stores_go_through_the_scoreboard() {
    let mut m = machine();
    m.space
        .write(DATA + 8, &[1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0])
        .unwrap();
    let (queue, stop) = m.run_text(&format!(
        "SET_SB_ENTRY #1, #0\nMOVE48 d0, #{DATA:#x}\nLOAD_MULTIPLE r4:r6, [d0 + 8]\nWAIT #1\n\
         STORE_MULTIPLE [d0 + 64], (r3):r4:r6\nWAIT #1\nLOAD_MULTIPLE r10, [d0 + 68]\nWAIT #1"
    ));
    assert!(matches!(stop, Stop::Idle), "{stop:?}");
    assert_eq!(
        (queue.register(4), queue.register(5), queue.register(6)),
        (Some(1), None, Some(3))
    );
    assert_eq!(queue.register(10), Some(1));
    // Not flushed by the stream: the host does not see it.
    assert_eq!(m.host(DATA + 68), 0);
    m.caches.clean_invalidate();
    assert_eq!(
        (m.host(DATA + 68), m.host(DATA + 72), m.host(DATA + 76)),
        (1, 0, 3)
    );
}

#[test]
fn registers_must_be_defined() {
    assert!(matches!(
        fault_of("ADD_IMMEDIATE32 r1, r7, #0").cause,
        Cause::UndefinedRegister(7)
    ));
    let head = format!("SET_SB_ENTRY #1, #0\nMOVE48 d0, #{DATA:#x}\nLOAD_MULTIPLE r4, [d0]\n");
    let pending = |tail: &str| {
        matches!(
            fault_of(&format!("{head}{tail}")).cause,
            Cause::PendingRegister {
                register: 4,
                entry: 0
            }
        )
    };
    assert!(pending("ADD_IMMEDIATE32 r1, r4, #0"));
    assert!(pending("MOVE32 r4, #0"));
    assert!(pending("WAIT #fe\nADD_IMMEDIATE32 r1, r4, #0"));
    runs(&format!("{head}WAIT #1\nADD_IMMEDIATE32 r1, r4, #0"));
    for text in [
        "MOVE32 r92, #0",
        "MOVE48 d94, #0",
        "ADD_IMMEDIATE32 r0, r93, #0",
    ] {
        let fault = fault_of(text);
        assert!(
            matches!(fault.cause, Cause::KernelRegister(92..=94)),
            "{fault}"
        );
        assert_eq!(fault.exception.name(), "CS_INSTR_INVALID");
    }
    let text = format!("MOVE48 d0, #{DATA:#x}\nLOAD_MULTIPLE r90:r91:r92, [d0]");
    assert!(matches!(fault_of(&text).cause, Cause::KernelRegister(92)));
}

#[test]
fn work_before_any_entry_is_selected_needs_a_wait_for_all() {
    let head = format!("MOVE48 d0, #{DATA:#x}\nLOAD_MULTIPLE r4, [d0]\n");
    let fault = fault_of(&format!("{head}WAIT #1\nADD_IMMEDIATE32 r1, r4, #0"));
    assert!(matches!(
        fault.cause,
        Cause::PendingRegister {
            register: 4,
            entry: 8
        }
    ));
    runs(&format!("{head}WAIT #ff\nADD_IMMEDIATE32 r1, r4, #0"));
}

#[test]
fn calls_nest_to_the_depth_of_hardware() {
    let mut m = machine();
    let mut queue = Queue::new(0, 0);
    // Each level calls the next, 256 bytes further.
    let depth = CALL_DEPTH as u64;
    for level in 1..depth {
        let next = STREAM + 256 * (level + 1);
        let text = if level + 1 < depth {
            format!(
                "MOVE48 d0, #{next:#x}\nMOVE32 r2, #32\nCALL d0, r2\nADD_IMMEDIATE32 r9, r9, #1"
            )
        } else {
            "ADD_IMMEDIATE32 r9, r9, #1\nNOP\nNOP\nNOP".to_owned()
        };
        m.space
            .write(STREAM + 256 * level, &assemble_program(&text).unwrap())
            .unwrap();
    }
    let first = STREAM + 256;
    let root = format!(
        "MOVE32 r9, #0\nMOVE48 d0, #{first:#x}\nMOVE32 r2, #32\nCALL d0, r2\nADD_IMMEDIATE32 r9, r9, #1"
    );
    m.submit(&mut queue, &root);
    assert!(matches!(m.run(&mut queue), Stop::Idle));
    assert_eq!(queue.register(9), Some(CALL_DEPTH as u32));
    // One that calls itself.
    let text = format!("MOVE48 d0, #{STREAM:#x}\nMOVE32 r2, #24\nCALL d0, r2");
    let fault = fault_of(&text);
    assert_eq!(fault.exception.name(), "CS_CALL_STACK_OVERFLOW");
    assert_eq!(fault.exception.code(), 0x4a);
}

#[test]
fn jumps_replace_the_stream_and_alignment_is_checked() {
    let mut m = machine();
    m.space
        .write(STREAM + 256, &assemble_program("MOVE32 r9, #7").unwrap())
        .unwrap();
    let target = STREAM + 256;
    let (queue, stop) = m.run_text(&format!(
        "MOVE48 d0, #{target:#x}\nMOVE32 r2, #8\nJUMP d0, r2\nMOVE32 r9, #0"
    ));
    assert!(matches!(stop, Stop::Idle));
    assert_eq!(queue.register(9), Some(7));
    let off = STREAM + 264;
    let fault = fault_of(&format!("MOVE48 d0, #{off:#x}\nMOVE32 r2, #8\nCALL d0, r2"));
    assert!(
        matches!(
            fault.cause,
            Cause::Misaligned {
                what: "stream",
                alignment: 64,
                ..
            }
        ),
        "{fault}"
    );
    let fault = fault_of(&format!(
        "MOVE48 d0, #{target:#x}\nMOVE32 r2, #9\nCALL d0, r2"
    ));
    assert!(
        matches!(
            fault.cause,
            Cause::Misaligned {
                what: "stream length",
                ..
            }
        ),
        "{fault}"
    );
    let fault =
        fault_of("MOVE32 r0, #0xffffffc0\nMOVE32 r1, #0xffffffff\nMOVE32 r2, #0x80\nCALL d0, r2");
    assert!(
        matches!(fault.mmu, Some(mmu) if mmu.va == 0xffff_ffff_ffff_ffc0),
        "{fault}"
    );
    assert!(matches!(
        fault_of("BRANCH.always r0, #-2").cause,
        Cause::BranchOutside { .. }
    ));
    assert!(matches!(
        fault_of("BRANCH.always r0, #1").cause,
        Cause::BranchOutside { .. }
    ));
    runs("BRANCH.always r0, #0");
}

#[test]
fn faulty_words_and_unmapped_streams() {
    let mut m = machine();
    m.space
        .write(STREAM + 8, &(0xee_u64 << 56).to_le_bytes())
        .unwrap();
    let mut queue = Queue::new(0, 0);
    queue.enqueue(
        &job_words(&JobParams {
            latest_flush: 0,
            start: STREAM,
            size: 16,
            sync: None,
        })
        .unwrap(),
    );
    let fatal = fault(m.run(&mut queue));
    assert_eq!(
        (fatal.exception.name(), fatal.info, fatal.pc),
        ("CS_INSTR_INVALID", STREAM + 8, STREAM + 8)
    );
    assert!(queue.is_dead() && matches!(m.step(&mut queue), Stop::Never));
    let mut queue = Queue::new(0, 0);
    queue.enqueue(
        &job_words(&JobParams {
            latest_flush: 0,
            start: 0x9_0000,
            size: 16,
            sync: None,
        })
        .unwrap(),
    );
    let fatal = fault(m.run(&mut queue));
    assert_eq!(
        (fatal.exception.name(), fatal.info),
        ("CS_BUS_FAULT", 0x9_0000)
    );
    assert_eq!(fatal.mmu.unwrap().va, 0x9_0000);
    assert_eq!(
        fault_of("PROT_REGION #8").exception.name(),
        "CS_INSTR_INVALID"
    );
    assert!(matches!(
        fault_of("FINISH_TILING").cause,
        Cause::NotSimulated("FINISH_TILING")
    ));
}

#[test]
fn scoreboard_operands_are_checked() {
    let flush = |mask: &str, slot: u32| {
        format!("MOVE32 r40, #0\nFLUSH_CACHE2.clean_l2.clean_lsc.nop_other r40, #{mask}, #{slot}")
    };
    assert!(matches!(
        fault_of(&flush("100", 0)).cause,
        Cause::NoScoreboard(0x100)
    ));
    assert!(matches!(
        fault_of(&flush("1", 8)).cause,
        Cause::NoScoreboard(8)
    ));
    assert!(matches!(fault_of(&flush("2", 1)).cause, Cause::SelfWait(1)));
    assert!(matches!(
        fault_of("SET_SB_ENTRY #8, #0").cause,
        Cause::NoScoreboard(8)
    ));
}

#[test]
fn state_and_progress() {
    let mut m = machine();
    let text = format!(
        "MOVE48 d0, #{DATA:#x}\nSTORE_STATE.CYCLE_COUNT d0, #8, #0, #0\nSTORE_STATE.SYSTEM_TIMESTAMP d0, #16, #0, #0\n\
         MOVE48 d2, #7\nPROGRESS_STORE d2\nWAIT.progress_inc #1\nPROGRESS_LOAD d4\nTRACE_POINT r2:r5, #0, #0\n\
         MOVE32 r40, #0\n{FLUSH}"
    );
    m.now = 1_000_000;
    let (queue, stop) = m.run_text(&text);
    assert!(matches!(stop, Stop::Idle), "{stop:?}");
    assert_eq!(queue.register(4), Some(8));
    let cycles = m.host(DATA + 8);
    assert!((1_000_000..1_010_000).contains(&cycles), "{cycles}");
    assert_eq!(
        m.host(DATA + 16),
        (cycles + INSTR_CYCLES as u32) * 24 / 1000
    );
    let (_, stop) = m.run_text("MOVE48 d2, #9\nPROGRESS_WAIT d2, #0");
    assert!(matches!(stop, Stop::Progress { queue: 0, value: 9 }));
    let (_, stop) = m.run_text("MOVE48 d2, #8\nPROGRESS_WAIT d2, #0");
    assert!(matches!(stop, Stop::Idle));
}

#[test]
fn a_ring_buffer_runs_the_drivers_own_words() {
    let mut m = machine();
    let (ring, object) = (DATA + 0x8000, DATA + 0x9000);
    let stream = assemble_program("MOVE32 r9, #1").unwrap();
    m.space.write(STREAM, &stream).unwrap();
    let params = JobParams {
        latest_flush: 0,
        start: STREAM,
        size: 8,
        sync: Some(object),
    };
    let words = job_words(&params).unwrap();
    assert_eq!(words.len(), 16);
    // A small ring: the third job wraps around.
    let mut queue = Queue::with_ring(0, 0, ring, 256);
    let mut position = 0u64;
    for job in 1..=3 {
        for word in &words {
            m.space
                .write(ring + position % 256, &word.to_le_bytes())
                .unwrap();
            position += 8;
        }
        m.caches.clean_invalidate();
        assert!(matches!(m.run(&mut queue), Stop::Idle));
        assert_eq!(m.host(object), job - 1);
        queue.set_insert(position);
        assert!(matches!(m.run(&mut queue), Stop::Idle));
        assert_eq!((queue.extract(), m.host(object)), (position, job));
    }
}

#[test]
fn the_drivers_words_are_those_of_the_kernel() {
    let params = JobParams {
        latest_flush: 7,
        start: 0xffc5_6000,
        size: 184,
        sync: Some(0x1234_0000),
    };
    // panthor_sched.c, `prepare_job_instrs`, with address register 92 and value register 94.
    let expected = [
        2u64 << 56 | 94 << 48 | 7,
        36 << 56 | 94 << 40 | 0x233,
        1 << 56 | 92 << 48 | 0xffc5_6000,
        2 << 56 | 94 << 48 | 184,
        3 << 56 | 1 << 16,
        32 << 56 | 92 << 40 | 94 << 32,
        1 << 56 | 92 << 48 | 0x1234_0000,
        1 << 56 | 94 << 48 | 1,
        3 << 56 | 0xff << 16,
        51 << 56 | 92 << 40 | 94 << 32 | 1,
        47 << 56,
        0,
        0,
        0,
        0,
        0,
    ];
    assert_eq!(job_words(&params).unwrap(), expected);
    assert!(
        job_words(&JobParams {
            start: 1 << 48,
            ..params
        })
        .is_err()
    );
}

/// A word of a known opcode whose fields are mostly valid.
fn some_word(index: usize, random: u64, valid: bool) -> u64 {
    let op = &TABLE[index % TABLE.len()];
    op.fields
        .iter()
        .fold(u64::from(op.opcode) << 56, |word, f| {
            let bits = (random >> f.start) & f.value_mask();
            let value = match f.kind {
                // Few registers, so that some are defined.
                Kind::Reg32 if valid => bits % 8,
                Kind::Reg64 if valid => (bits % 8) & !1,
                Kind::Enum(names) if valid => names[bits as usize % names.len()].1,
                _ => bits,
            };
            word | value << f.start
        })
}

proptest! {
    /// Whatever the words, a queue stops with a reason; it neither panics nor runs on for ever.
    #[test]
    fn any_stream_ends_with_a_reason(
        words in proptest::collection::vec((any::<usize>(), any::<u64>(), 0u8..10), 1..40),
        registers in proptest::collection::vec(prop_oneof![Just(0u64), Just(DATA), Just(STREAM), any::<u64>()], 4),
    ) {
        let mut m = machine();
        let mut queue = Queue::new(0, 0);
        for (i, value) in registers.iter().enumerate() {
            queue.set_register(2 * i as u8, *value as u32);
            queue.set_register(2 * i as u8 + 1, (*value >> 32) as u32);
        }
        for (i, (index, random, luck)) in words.iter().enumerate() {
            let word = if *luck == 0 { *random } else { some_word(*index, *random, *luck < 9) };
            m.space.write(STREAM + 8 * i as u64, &word.to_le_bytes()).unwrap();
        }
        let size = 8 * words.len() as u32;
        queue.enqueue(&job_words(&JobParams { latest_flush: 0, start: STREAM, size, sync: None }).unwrap());
        let Machine { space, caches, device, endpoint, .. } = &mut m;
        let (mut now, mut steps) = (0, 0);
        loop {
            let mut env = Env { space: &*space, caches: &*caches, endpoint: &*endpoint, device, now };
            match queue.run(&mut env, 2000) {
                Stop::WaitUntil(at) => {
                    prop_assert!(at > env.now);
                    now = at;
                }
                Stop::Budget => now = env.now,
                Stop::Fault(fault) => {
                    prop_assert!(fault.fatal && !fault.to_string().is_empty());
                    break;
                }
                _ => break,
            }
            steps += 1;
            if steps > 20 {
                // A loop that waits in every round.
                break;
            }
        }
    }
}
