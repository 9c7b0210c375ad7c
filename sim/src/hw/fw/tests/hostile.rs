//! Memory that the host, or anybody, has filled with anything.

use super::*;

/// Xorshift (Marsaglia).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

#[test]
fn damaged_suspend_buffers_are_named_and_fatal() {
    for (offset, text) in [
        (0, "it begins with"),
        (4, "claims"),
        (8, "have changed"),
        (0x40, "have changed"),
    ] {
        let mut guest = Guest::new("");
        guest.start(0);
        guest.state(0, csg::SUSPEND);
        let word = guest.get(SUSPEND + offset);
        guest.set(SUSPEND + offset, !word);
        guest.process(0);
        guest.program(0);
        guest.state(0, csg::RESUME);
        assert_eq!(guest.stream_events(0), cs::FATAL);
        assert_eq!(guest.get(cs_out(0, 0) + cs_out::FATAL), 0x40);
        let all = guest.violations();
        assert!(all.iter().any(|v| v.contains(text)), "{text}: {all:?}");
    }
}

#[test]
fn no_contents_of_the_interface_panic() {
    let mut random = Random(0x9e37_79b9);
    let mut breaches = 0;
    for _ in 0..40 {
        let mut guest = Guest::new("");
        guest.start(0);
        guest.submit(0, "NOP\n");
        for _ in 0..60 {
            let block = match random.next() % 5 {
                0 => GLB_IN,
                1 => csg_in(random.next() as usize % 2),
                2 => cs_in(random.next() as usize % 2, random.next() as usize % 2),
                3 => Guest::positions(0),
                _ => SUSPEND,
            };
            let offset = (random.next() % 0x58) & !3;
            let mut value = random.next() as u32;
            if random.next() % 2 == 0 {
                value &= 0x3f;
            }
            // Not the halt bit: a halted firmware hears nothing.
            if block == GLB_IN && offset == 0 {
                value &= !1;
            }
            guest.set(block + offset, value);
            match random.next() % 4 {
                0 => guest.kick(0),
                1 => guest.ring_group(0),
                2 => guest.ring_stream(0, random.next() as usize % 8),
                _ => guest.ring(),
            }
        }
        breaches += guest.violations().len();
    }
    assert!(breaches > 40, "{breaches}");
}

#[test]
fn equal_runs_are_equal() {
    let run = || {
        let mut guest = Guest::new("seed=5");
        guest.start(0);
        guest.start(1);
        for job in 0..10 {
            guest.submit(job % 2, "NOP\n");
            guest.kick(job % 2);
            guest.process(job % 2);
        }
        (guest.hw.summary(), guest.now)
    };
    assert_eq!(run(), run());
}
