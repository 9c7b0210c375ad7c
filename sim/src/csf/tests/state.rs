//! Queues that are saved in mid-stream and go on elsewhere.

use super::*;

const RING: u64 = STREAM + 0x8000;

/// A queue with a ring that holds the driver's words for the stream.
fn ring_queue(m: &Machine, text: &str) -> Queue {
    let bytes = assemble_program(text).unwrap();
    m.space.write(STREAM, &bytes).unwrap();
    let words = job_words(&JobParams {
        latest_flush: 0,
        start: STREAM,
        size: bytes.len() as u32,
        sync: Some(DATA + 0x100),
    })
    .unwrap();
    let words: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    m.space.write(RING, &words).unwrap();
    let mut queue = Queue::with_ring(7, 2, RING, 4096);
    queue.set_insert(words.len() as u64);
    queue
}

/// Every kind of state: loads in flight, a job, a deferred store and a deferred signal, a nested stream.
fn stream() -> String {
    format!(
        "{PREPARE}{}MOVE48 d50, #{DATA:#x}\nMOVE32 r52, #7\nSTORE_MULTIPLE [d50 + 8], r52\n\
         LOAD_MULTIPLE r60, [d50 + 16]\n{RUN}MOVE48 d54, #5\nMOVE48 d56, #{:#x}\n\
         SYNC_ADD64.csg [d56], d54, #4, #3\nPROGRESS_STORE d54\nWAIT #0xFF\n{FLUSH}",
        job_registers(0, DATA),
        DATA + 0x200,
    )
}

/// Runs until the queue waits for the `stops`-th time.
fn until(m: &mut Machine, queue: &mut Queue, stops: usize) -> bool {
    for _ in 0..stops {
        match m.step(queue) {
            Stop::WaitUntil(cycle) => m.now = m.now.max(cycle - 1),
            Stop::Idle => return false,
            stop => panic!("{stop:?}"),
        }
        m.now += 1;
    }
    true
}

#[test]
fn a_saved_queue_goes_on_with_its_registers_jobs_and_deferred_work() {
    let mut saved_anywhere = 0;
    for stops in 1.. {
        let mut m = machine();
        let mut queue = ring_queue(&m, &stream());
        // The stream itself is at its wait for the job.
        if !until(&mut m, &mut queue, stops) {
            break;
        }
        let before = m.step(&mut queue);
        let left = match before {
            Stop::WaitUntil(cycle) => cycle - m.now,
            Stop::Idle => 0,
            stop => panic!("{stop:?}"),
        };
        let bytes = queue.save(&m.device, m.now, 1 << 16);
        let stack = queue.call_stack();
        m.device.kill_group(7, m.now);
        m.device.forget_group(7);
        m.now += 1_000_000;
        let mut other = Queue::with_ring(8, 2, RING, 4096);
        other.set_insert(1 << 20);
        other.restore(&bytes, &mut m.device, m.now).unwrap();
        assert_eq!(other.call_stack(), stack);
        assert_eq!(other.extract(), queue.extract());
        for register in 0..96 {
            assert_eq!(other.register(register), queue.register(register));
        }
        other.set_insert(128);
        if left != 0 {
            let Stop::WaitUntil(cycle) = m.step(&mut other) else {
                panic!("the restored queue does not wait");
            };
            assert_eq!(cycle - m.now, left, "after {stops} stops");
        }
        let end = m.run(&mut other);
        assert!(matches!(end, Stop::Idle), "{end:?}");
        assert_eq!([m.host(DATA), m.host(DATA + 8)], [1, 7]);
        assert_eq!([m.host(DATA + 0x100), m.host(DATA + 0x200)], [1, 5]);
        assert_eq!(m.device.progress_of(8, 2), 5);
        saved_anywhere += 1;
    }
    assert!(saved_anywhere >= 3, "{saved_anywhere}");
}

#[test]
fn foreign_bytes_are_refused_or_harmless() {
    let mut m = machine();
    let mut queue = ring_queue(&m, &stream());
    until(&mut m, &mut queue, 2);
    let _ = m.step(&mut queue);
    let good = queue.save(&m.device, m.now, 1 << 16);
    let restore = |m: &mut Machine, bytes: &[u8]| {
        let mut other = Queue::with_ring(9, 0, RING, 4096);
        let result = other.restore(bytes, &mut m.device, m.now);
        (other, result)
    };
    for len in 0..good.len() {
        let (_, result) = restore(&mut m, &good[..len]);
        assert!(matches!(result, Err(BadState::Truncated(_))), "{len}");
    }
    let mut long = good.clone();
    long.push(0);
    assert_eq!(restore(&mut m, &long).1, Err(BadState::TooLong(1)));
    // Whatever one byte says, the queue is refused or runs without a panic.
    let (mut refused, mut taken) = (0, 0);
    for at in 0..good.len() {
        for value in [0xff, 0x80, 0x01] {
            let mut bytes = good.clone();
            bytes[at] ^= value;
            match restore(&mut m, &bytes) {
                (_, Err(_)) => refused += 1,
                (mut other, Ok(())) => {
                    let _ = m.step(&mut other);
                    taken += 1;
                }
            }
        }
    }
    assert!(refused > 100 && taken > 100, "{refused} {taken}");
}

#[test]
fn knowledge_that_does_not_fit_is_cut() {
    let mut m = machine();
    let mut queue = ring_queue(&m, &stream());
    until(&mut m, &mut queue, 2);
    let whole = queue.save(&m.device, m.now, usize::MAX);
    let brief = queue.save(&m.device, m.now, 0);
    assert!(brief.len() <= whole.len());
    let mut other = Queue::with_ring(8, 2, RING, 4096);
    other.restore(&brief, &mut m.device, m.now).unwrap();
    other.set_insert(128);
    let end = m.run(&mut other);
    assert!(matches!(end, Stop::Idle), "{end:?}");
}

/// The driver gives pages that a GPU wrote to another group's ring once it has flushed all caches; before, what the ring
/// holds is undefined.
#[test]
fn a_ring_may_lie_where_others_wrote_once_the_host_has_flushed() {
    let mut m = machine();
    let store = format!(
        "MOVE48 d50, #{DATA:#x}\nMOVE48 d52, #0\nSTORE_MULTIPLE [d50], r52\nSTORE_MULTIPLE [d50 + 4], r53\nWAIT #0xFF\n"
    );
    let mut before = ring_queue(&m, &format!("{PREPARE}{store}"));
    assert!(matches!(m.run(&mut before), Stop::Idle));
    let ring = |m: &mut Machine| {
        let mut queue = Queue::with_ring(9, 0, DATA, 4096);
        queue.set_insert(8);
        m.run(&mut queue)
    };
    let Stop::Fault(fault) = ring(&mut m) else {
        panic!("read what nobody waited for");
    };
    assert!(fault.to_string().contains("without a wait"), "{fault}");
    m.caches.clean_invalidate();
    m.device.flushed_by_host(m.now);
    assert!(matches!(ring(&mut m), Stop::Idle));
}
