use super::*;

#[test]
fn every_kernel_has_its_stated_mix_and_fits_the_registers() {
    let mut wrong = Vec::new();
    for kernel in all().unwrap() {
        println!(
            "{:22} {:4} instructions, {:2} registers (32: {}), body {:?}, {} FAU units",
            kernel.name,
            kernel.code.len(),
            kernel.registers,
            kernel.fits_32,
            kernel.body,
            kernel.fau_units()
        );
        let stated = kernel.stated;
        if (kernel.body, kernel.registers) != (stated.body, stated.registers) {
            wrong.push((kernel.name, kernel.body, kernel.registers, stated));
        }
        assert!(kernel.registers <= 64, "{}", kernel.name);
        assert!(kernel.stated.lines >= kernel.body.ls, "{}", kernel.name);
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// What a warp stores, result by result, is its tile.
#[test]
fn every_kernel_stores_its_stated_tile() {
    for class in GemmClass::ALL {
        let kernel = gemm(class).unwrap();
        let [rows, tokens] = kernel.stated.tile;
        assert_eq!(stored_words(&kernel) * WARP_LANES, rows * tokens);
        assert_eq!([rows, tokens], [TILE, TILE]);
        let step = kernel.stated.step();
        assert_eq!(step * rows * tokens, kernel.stated.macs);
        assert_eq!(
            step,
            match class {
                GemmClass::Half => 8,
                GemmClass::Single => 4,
                _ => BLOCK,
            }
        );
    }
    // Four int8 a word; beside them each lane stores its token's scale and sum of the block.
    let kernel = quantise().unwrap();
    let [elements, tokens] = kernel.stated.tile;
    assert_eq!(
        (stored_words(&kernel) - 2) * 4 * WARP_LANES,
        elements * tokens
    );
    assert_eq!([elements, tokens], [BLOCK, TILE]);
    // One lane stores.
    let kernel = row_factor().unwrap();
    let [rows, tokens] = kernel.stated.tile;
    assert_eq!(stored_words(&kernel), rows * tokens);
}

/// Registers that a lane stores, a half counting as one.
fn stored_words(kernel: &Kernel) -> u32 {
    let stores = kernel.code.iter().filter(|i| builder::is_store(i));
    stores
        .filter_map(|i| i.staging)
        .map(|s| s.mask().count_ones())
        .sum()
}

#[test]
fn the_busiest_unit_decides_the_cost() {
    let kernel = gemm(GemmClass::NibbleSigned).unwrap();
    // 160 FMA a block at four a clock: the reference sheet's 40 clocks for 8192 multiply-accumulates.
    assert_eq!(kernel.body_quarter_cycles(), 160);
    let hundred = kernel.quarter_cycles(1_100) - kernel.quarter_cycles(1_000);
    assert_eq!(hundred, 100 * 160);
    // Loads decide where tokens are apart.
    let kernel = gemm(GemmClass::Single).unwrap();
    assert_eq!(
        kernel.body_quarter_cycles(),
        u64::from(4 * kernel.stated.lines)
    );
    let kernel = quantise().unwrap();
    assert_eq!(kernel.quarter_cycles(1), kernel.quarter_cycles(5));
}

#[test]
fn no_kernel_touches_local_memory_or_barriers() {
    use mali_isa::valhall::{Op, Special, Value};
    for kernel in all().unwrap() {
        for instr in &kernel.code {
            assert_ne!(instr.op, Op::Barrier, "{}", kernel.name);
            for src in instr.srcs {
                assert!(
                    !matches!(
                        src.value,
                        Value::Special(
                            Special::ThreadLocalPointer | Special::WorkgroupLocalPointer,
                            _
                        )
                    ),
                    "{}",
                    kernel.name
                );
            }
        }
    }
}

#[test]
fn the_words_decode_to_the_instructions() {
    for kernel in all().unwrap() {
        for (word, instr) in kernel.words.iter().zip(&kernel.code) {
            let decoded = mali_isa::valhall::decode(*word).unwrap();
            assert_eq!(decoded.encode().unwrap(), *word, "{}", kernel.name);
            assert_eq!(
                (decoded.op, decoded.imm, decoded.flow),
                (instr.op, instr.imm, instr.flow)
            );
        }
    }
}

const NOTHING: Stated = Stated {
    tile: [1, 1],
    registers: 0,
    body: Mix {
        fma: 0,
        cvt: 0,
        sfu: 0,
        ls: 0,
        other: 0,
    },
    lines: 0,
    macs: 0,
};

#[test]
fn a_kernel_that_would_spill_is_refused() {
    let mut b = Builder::new("greedy", &[]);
    b.alloc("first", 32, 4);
    b.alloc("second", 30, 2);
    b.alloc("third", 4, 4);
    let error = b.finish(NOTHING).unwrap_err();
    assert_eq!(
        error,
        KernelError::WouldSpill {
            kernel: "greedy",
            block: "third",
            count: 4
        }
    );
}

#[test]
fn uniforms_of_two_units_in_one_instruction_are_refused() {
    let mut b = Builder::new("greedy", &[]);
    let r = b.alloc("r", 1, 1).at(0);
    b.uniform_pair(Uniform::WeightsLow, Uniform::WeightsHigh);
    b.uniform_pair(Uniform::ScalesLow, Uniform::ScalesHigh);
    let (one, other) = (
        b.uniform(Uniform::WeightsLow),
        b.uniform(Uniform::ScalesLow),
    );
    b.iadd(r, one, other);
    assert!(matches!(
        b.finish(NOTHING),
        Err(KernelError::Sources { .. })
    ));
}

#[test]
fn a_loaded_register_is_waited_for_before_its_use() {
    use mali_isa::valhall::Flow;
    let mut b = Builder::new("waits", &[]);
    let address = b.alloc("address", 2, 2);
    let (one, two) = (b.alloc("one", 1, 1), b.alloc("two", 2, 2));
    b.mov(address.at(0), mali_isa::valhall::Src::ZERO);
    b.mov(address.at(1), mali_isa::valhall::Src::ZERO);
    b.load(one, address, 0);
    b.load(two, address, 8);
    b.iadd_imm(address.at(0), address.at(0), 4);
    b.iadd(two.at(0), two.at(0), one.at(0));
    b.iadd(two.at(0), two.at(0), two.at(1));
    let flows: Vec<_> = b.code().iter().map(|i| i.flow).collect();
    assert_eq!(
        flows,
        [
            Flow::None,
            Flow::None,
            Flow::None,
            Flow::None,
            Flow::Wait01,
            Flow::None,
            Flow::None
        ]
    );
}
