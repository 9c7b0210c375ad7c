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
        if kernel.body != kernel.expected {
            wrong.push((kernel.name, kernel.body, kernel.expected));
        }
        assert!(kernel.registers <= 64, "{}", kernel.name);
    }
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

#[test]
fn a_kernel_that_would_spill_is_refused() {
    let mut b = Builder::new("greedy", &[]);
    b.alloc("first", 32, 4);
    b.alloc("second", 30, 2);
    b.alloc("third", 4, 4);
    let error = b.finish(0, Mix::default()).unwrap_err();
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
        b.finish(0, Mix::default()),
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
