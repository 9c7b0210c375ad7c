//! Compute jobs: what they need, what lies between them, how they end.

use super::*;
use crate::mmu::MemoryError;

#[test]
fn a_job_runs_when_everything_is_in_order() {
    let mut m = machine();
    let text = format!("{PREPARE}{}{RUN}WAIT #4\n{FLUSH}", job_registers(0, DATA));
    let (_, stop) = m.run_text(&text);
    assert!(matches!(stop, Stop::Idle), "{stop:?}");
    assert_eq!(m.host(DATA), 1);
    let jobs: Vec<_> = m
        .device
        .take_events()
        .filter_map(|e| if let Event::Job(j) = e { Some(j) } else { None })
        .collect();
    assert_eq!(jobs.len(), 1);
    assert_eq!(jobs[0].end - jobs[0].start, JOB_CYCLES + 5000);
    assert_eq!(jobs[0].job.size, [1; 3]);
    assert!(m.now > jobs[0].end);
}

#[test]
fn each_requirement_of_a_job_is_checked() {
    let registers = job_registers(0, DATA);
    let good = format!("{PREPARE}{registers}{RUN}");
    runs(&good);
    let without = |line: &str| fault_of(&good.replace(line, ""));
    assert!(matches!(
        without("REQ_RESOURCE.compute\n").cause,
        Cause::NoResource
    ));
    assert!(matches!(
        without("MOVE32 r33, #0\n").cause,
        Cause::UndefinedRegister(33)
    ));
    assert!(matches!(
        without("MOVE32 r39, #1\n").cause,
        Cause::UndefinedRegister(39)
    ));
    let changed = |from: &str, to: &str| fault_of(&good.replace(from, to));
    assert!(matches!(
        changed("fau0 #1", "fau0 #0").cause,
        Cause::TaskIncrement
    ));
    let fault = changed("d16, #0x30000000", "d16, #0x30000010");
    assert!(
        matches!(fault.cause, Cause::Misaligned { alignment: 32, .. }),
        "{fault}"
    );
    let fault = changed("d24, #0x30000040", "d24, #0x30000020");
    assert!(
        matches!(fault.cause, Cause::Misaligned { alignment: 64, .. }),
        "{fault}"
    );
    assert!(matches!(
        changed("d24, #0x30000040", "d24, #0").cause,
        Cause::Missing("local storage descriptor")
    ));
    assert!(matches!(
        changed("d16, #0x30000000", "d16, #0").cause,
        Cause::Missing("shader program descriptor")
    ));
    assert!(matches!(
        changed("MOVE32 r33, #0\n", "MOVE32 r33, #0x40000000\n").cause,
        Cause::Descriptor(_)
    ));
    // Sizes by a load that was not waited for.
    let load = format!("MOVE48 d50, #{DATA:#x}\nLOAD_MULTIPLE r37, [d50]\n");
    let fault = fault_of(&good.replace(RUN, &format!("{load}{RUN}")));
    assert!(
        matches!(fault.cause, Cause::PendingRegister { register: 37, .. }),
        "{fault}"
    );
    runs(&good.replace(RUN, &format!("{load}WAIT #1\n{RUN}")));
    runs(&good.replace(RUN, "RUN_COMPUTE_INDIRECT.srt0.spd0.tsd0.fau0 #4\n"));
}

/// Two jobs, the second reading what the first wrote, with all that belongs between them.
fn two_jobs() -> Vec<String> {
    let text = format!(
        "{PREPARE}{}{RUN}WAIT #4\n{FLUSH}{}{RUN}WAIT #4\n{FLUSH}",
        job_registers(0, DATA),
        job_registers(DATA, DATA + 4096)
    );
    text.lines().map(str::to_owned).collect()
}

#[test]
fn dependent_jobs_need_every_wait_and_flush() {
    for rule in [LscRule::Flushed, LscRule::Private, LscRule::Coherent] {
        let lines = two_jobs();
        let mut m = Machine::new(rule);
        assert!(matches!(m.run_text(&lines.join("\n")).1, Stop::Idle));
        assert_eq!((m.host(DATA), m.host(DATA + 4096)), (1, 2));
        // Take out every WAIT and FLUSH_CACHE2 in turn. The last WAIT is done by the driver's own words too.
        let mut caught = Vec::new();
        for (i, line) in lines.iter().enumerate() {
            if !line.starts_with("WAIT") && !line.starts_with("FLUSH") {
                continue;
            }
            let mut less = lines.clone();
            less.remove(i);
            let mut m = Machine::new(rule);
            let (_, stop) = m.run_text(&less.join("\n"));
            let seen = match stop {
                Stop::Idle if m.host(DATA + 4096) == 2 => "right",
                Stop::Idle => "stale",
                Stop::Fault(fault) => match fault.cause {
                    Cause::Shader { cause, .. } => match cause.downcast_ref::<MemoryError>() {
                        Some(MemoryError::ReadBeforeWait { .. }) => "wait",
                        Some(MemoryError::ReadBeforeFlush { .. }) => "flush",
                        _ => "other",
                    },
                    _ => "other",
                },
                _ => "other",
            };
            caught.push(seen);
        }
        // wait, flush, wait for the flush; wait, flush, wait for the flush.
        let expected: [&str; 6] = match rule {
            LscRule::Coherent => ["wait", "right", "right", "stale", "stale", "right"],
            _ => ["wait", "flush", "flush", "stale", "stale", "right"],
        };
        assert_eq!(caught, expected, "{rule:?}");
    }
}

#[test]
fn an_invalidation_of_other_caches_is_enough_unless_caches_are_private() {
    let flush = FLUSH.replace("clean_invalidate_l2.clean_invalidate_lsc", "nop_l2.nop_lsc");
    let text = two_jobs()
        .join("\n")
        .replacen(FLUSH.trim_end(), flush.trim_end(), 1);
    assert!(matches!(
        Machine::new(LscRule::Flushed).run_text(&text).1,
        Stop::Idle
    ));
    assert!(matches!(
        Machine::new(LscRule::Coherent).run_text(&text).1,
        Stop::Idle
    ));
    let fault = fault(Machine::new(LscRule::Private).run_text(&text).1);
    assert!(
        fault
            .to_string()
            .contains("without a load-store-cache flush"),
        "{fault}"
    );
}

#[test]
fn stream_stores_reach_jobs_after_the_wait_alone() {
    let store = format!("MOVE48 d50, #{DATA:#x}\nMOVE32 r52, #41\nSTORE_MULTIPLE [d50], r52\n");
    let job = format!("{}{RUN}WAIT #4\n{FLUSH}", job_registers(DATA, DATA + 4096));
    let mut m = Machine::new(LscRule::Private);
    assert!(matches!(
        m.run_text(&format!("{PREPARE}{store}WAIT #1\n{job}")).1,
        Stop::Idle
    ));
    assert_eq!(m.host(DATA + 4096), 42);
    let fault = fault_of(&format!("{PREPARE}{store}{job}"));
    assert!(fault.to_string().contains("without a wait"), "{fault}");
    // And what a job wrote reaches the stream's loads after wait and flush.
    let load = format!("MOVE48 d50, #{DATA:#x}\nLOAD_MULTIPLE r52, [d50]\nWAIT #1\n");
    let job = format!("{PREPARE}{}{RUN}", job_registers(0, DATA));
    assert_eq!(
        runs(&format!("{job}WAIT #4\n{FLUSH}{load}")).register(52),
        Some(1)
    );
    let fault = fault_of(&format!("{job}{load}"));
    assert!(
        matches!(
            fault.cause,
            Cause::Memory(MemoryError::ReadBeforeWait { .. })
        ),
        "{fault}"
    );
    assert!(matches!(
        fault_of(&format!("{job}WAIT #4\n{load}")).cause,
        Cause::Memory(MemoryError::ReadBeforeFlush { .. })
    ));
}

#[test]
fn jobs_of_two_queues_share_the_cores() {
    let mut m = machine();
    let (mut a, mut b) = (Queue::new(0, 0), Queue::new(0, 1));
    m.submit_at(
        &mut a,
        STREAM,
        &format!("{PREPARE}{}{RUN}", job_registers(0, DATA)),
    );
    m.submit_at(
        &mut b,
        STREAM + 4096,
        &format!("{PREPARE}{}{RUN}", job_registers(0, DATA + 4096)),
    );
    // Both issue at once, before either waits for its job.
    m.now = FLUSH_CYCLES + 1000;
    let first = loop {
        match m.step(&mut a) {
            Stop::WaitUntil(at) if at > m.now + 5000 => break at,
            Stop::WaitUntil(at) => m.now = at,
            stop => panic!("{stop:?}"),
        }
    };
    m.now -= 3000;
    let second = loop {
        match m.step(&mut b) {
            Stop::WaitUntil(at) if at > first => break at,
            Stop::WaitUntil(at) => m.now = at,
            stop => panic!("{stop:?}"),
        }
    };
    assert_eq!(second - first, JOB_CYCLES + 5000);
    assert_eq!(m.device.cores_free_at(), second);
}

#[test]
fn shader_faults_are_fatal_with_the_mmus_address() {
    let fault = fault_of(&format!(
        "{PREPARE}{}{RUN}",
        job_registers(0x7777_0000, DATA)
    ));
    assert!(fault.fatal);
    assert_eq!(
        (fault.exception.name(), fault.info),
        ("TRANSLATION_FAULT_3", 0x7777_0000)
    );
    assert_eq!(fault.mmu.unwrap().va, 0x7777_0000);
    assert!(
        fault
            .to_string()
            .starts_with("CS_FATAL TRANSLATION_FAULT_3"),
        "{fault}"
    );
    let fault = fault_of(&format!("{PREPARE}{}{RUN}", job_registers(0, STREAM)));
    assert_eq!(fault.exception.name(), "PERM_FAULT_3");
}

#[test]
fn endless_jobs_and_streams_are_told_apart() {
    let endless = job_registers(0, DATA).replace("MOVE32 r32, #0\n", "MOVE32 r32, #99\n");
    let mut m = machine();
    let (queue, stop) = m.run_text(&format!("{PREPARE}{endless}{RUN}WAIT #4"));
    assert!(matches!(stop, Stop::Never));
    assert_eq!(queue.drained_at(), u64::MAX);
    // Others are not kept from the cores.
    assert!(m.device.cores_free_at() <= m.now);
    let mut other = Queue::new(1, 0);
    m.submit(
        &mut other,
        &format!("{PREPARE}{}{RUN}WAIT #4", job_registers(0, DATA + 4096)),
    );
    assert!(matches!(m.run(&mut other), Stop::Idle));
    // When the group is terminated, its job counts as done for those who come later.
    let mut later = Queue::new(1, 1);
    let read = format!("{PREPARE}{}{RUN}WAIT #4", job_registers(DATA, DATA + 8192));
    m.submit(&mut later, &read);
    assert!(matches!(m.run(&mut later), Stop::Fault(_)));
    m.device.kill_group(0, m.now);
    let mut later = Queue::new(1, 1);
    m.submit(&mut later, &read);
    assert!(matches!(m.run(&mut later), Stop::Idle));
    let (_, stop) = machine().run_text("again:\nBRANCH.always r0, again");
    assert!(matches!(stop, Stop::Runaway));
    // Waiting again and again is not running in circles, but the budget ends it.
    let text = format!(
        "SET_SB_ENTRY #1, #0\nMOVE48 d0, #{DATA:#x}\nagain:\nLOAD_MULTIPLE r4, [d0]\nWAIT #1\nBRANCH.eq r4, again"
    );
    let mut m = machine();
    let mut queue = Queue::new(0, 0);
    m.submit(&mut queue, &text);
    for _ in 0..1000 {
        let Stop::WaitUntil(at) = m.step(&mut queue) else {
            panic!()
        };
        m.now = at;
    }
    m.space.write(DATA, &[1]).unwrap();
    m.caches.clean_invalidate();
    assert!(matches!(m.run(&mut queue), Stop::Idle));
}

#[test]
fn a_flush_is_skipped_if_one_was_done_since() {
    let mut m = machine();
    let seen = m.caches.latest_flush();
    let body = |id: u32| {
        format!(
            "{PREPARE}MOVE32 r40, #{id}\n{}{RUN}WAIT #4\n{FLUSH}",
            job_registers(0, DATA)
        )
    };
    // The driver's own flush at the start of the job has been done since: nothing is flushed, the data stay inside.
    assert!(matches!(m.run_text(&body(seen)).1, Stop::Idle));
    assert_eq!(m.host(DATA), 0);
    let mut m = machine();
    assert!(matches!(m.run_text(&body(0)).1, Stop::Idle));
    assert_eq!(m.host(DATA), 1);
}
