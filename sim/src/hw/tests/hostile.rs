//! Whatever is read and written, nothing panics, and two equal runs are equal.

use proptest::prelude::*;

use super::super::regs::Reg;
use super::*;
use crate::mmu::Access;

#[derive(Clone, Debug)]
enum Step {
    Read(u32, u32),
    Write(u32, u32, u64),
    Run(u64),
    Poke(u64, u64),
}

/// Offsets that are registers, often; any, sometimes.
fn offset() -> impl Strategy<Value = u32> {
    let registers: Vec<u32> = (0..0x20_0000u32)
        .step_by(4)
        .filter(|offset| Reg::decode(*offset, 4).is_some())
        .collect();
    prop_oneof![
        8 => proptest::sample::select(registers),
        1 => any::<u32>(),
    ]
}

fn value() -> impl Strategy<Value = u64> {
    prop_oneof![
        0u64..8,
        Just(0x101),
        Just(0x23304),
        Just(ROOT),
        Just(TRANSCFG),
        Just(MEMATTR),
        any::<u64>(),
    ]
}

const ROOT: u64 = 0x1000;

fn step() -> impl Strategy<Value = Step> {
    let size = prop_oneof![8 => Just(4u32), 4 => Just(8u32), 1 => any::<u32>()];
    prop_oneof![
        4 => (offset(), size.clone()).prop_map(|(o, s)| Step::Read(o, s)),
        6 => (offset(), size, value()).prop_map(|(o, s, v)| Step::Write(o, s, v)),
        2 => (0u64..1_000_000).prop_map(Step::Run),
        // Tables that lead here and there, also to each other.
        3 => (0u64..0x600, any::<u64>()).prop_map(|(at, v)| Step::Poke(8 * at, (v & 0xfff0_0000_0000_4fff) | 3)),
    ]
}

/// Runs the steps; gives all that can be seen.
fn play(options: &str, steps: &[Step]) -> (Vec<u64>, super::super::Summary) {
    let mut board = Board::new(options);
    board.l2_on();
    let mut seen = Vec::new();
    for step in steps {
        match *step {
            Step::Read(offset, size) => {
                board.now += 10;
                seen.push(board.hw.read(offset, size, board.now));
            }
            Step::Write(offset, size, value) => {
                board.now += 10;
                board.hw.write(offset, size, value, board.now);
            }
            Step::Run(ns) => board.run(ns),
            Step::Poke(address, value) => board.memory.write64(ROOT + address, value).unwrap(),
        }
        for (space, va) in [(0, 0), (1, 0x7fff_ffff_f000), (1, 0x4000_0000)] {
            if let Ok(physical) = board.walk(space, va, Access::Write) {
                seen.push(physical);
            }
        }
        seen.push(u64::from(board.hw.lines()));
        seen.push(board.hw.next_deadline().unwrap_or(u64::MAX));
    }
    (seen, board.hw.summary())
}

const FAULTS: &str = "seed=5,fault=irq-lost:irq=job:p=0.3,fault=irq-late:irq=gpu:by=50us:p=0.5,\
                      fault=as-stuck:p=0.1,fault=flush-stuck:p=0.2,fault=boot-late:by=1ms:p=0.5,\
                      fault=spurious-fault:kind=mmu:at=300us:as=2,fault=slow-registers:by=1us:p=0.5";

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn nothing_panics_and_runs_repeat(steps in proptest::collection::vec(step(), 1..120)) {
        for options in ["", FAULTS] {
            let (seen, summary) = play(options, &steps);
            let again = play(options, &steps);
            prop_assert_eq!(&(seen, summary), &again);
        }
    }
}

#[test]
fn a_clock_that_goes_back_stands() {
    let mut board = Board::new("");
    board.hw.tick(1_000_000);
    board.hw.write(0x1a0, 4, 1, 5);
    assert_eq!(board.hw.next_deadline(), Some(1_020_000));
    board.hw.tick(u64::MAX);
    assert_eq!(board.hw.read(0x160, 4, 0), 1);
    assert_eq!(board.hw.summary().end, u64::MAX);
}

#[test]
fn what_is_no_register_is_noted() {
    let mut board = Board::new("");
    board.read(0x38);
    board.write(0x38, 1);
    board.write(0x0, 1);
    board.read(0x30);
    board.hw.read(0x2, 4, 0);
    board.hw.read(0x0, 2, 0);
    board.write(0x304, 0);
    board.write(0x700, 9);
    let rules = board.broken();
    let expected = [
        Rule::NoRegister,
        Rule::NoRegister,
        Rule::ReadOnly,
        Rule::WriteOnly,
        Rule::NoRegister,
        Rule::NoRegister,
        Rule::BadValue,
        Rule::BadValue,
    ];
    assert_eq!(rules, expected);
    let text = board.hw.summary().violations[0].to_string();
    assert_eq!(text, "no-register: read at 0x38 (at 100 ns, 1 times)");
}
