//! Jobs, timers, faults, group states.

use panthor_uapi::{Errno, Transport};

use super::client::{KERNELS, errno, job, open, signal, wait};
use super::script::Act;

const MS: u64 = 1_000_000;
const STATE_TIMEDOUT: u32 = 1;
const STATE_FATAL: u32 = 2;

/// Cycles of `ms` simulated milliseconds at the default clock.
fn ms(n: u64) -> Act {
    Act::Cycles(n * MS)
}

#[test]
fn a_job_takes_its_cycles() {
    let client = open("sim:gpu_mhz=500");
    let (group, done) = (client.group(client.vm()), client.syncobj());
    let start = client.device.now();
    client.run(group, 0, 0x1000, &[ms(30)], &[signal(done, 0)]);
    assert_eq!(
        client.wait_points(&[(done, 0)], 0, 10 * MS),
        Err(Errno::TIME)
    );
    assert_eq!(client.status(done), 0);
    client.wait_done(done).unwrap();
    let took = client.device.now() - start;
    assert!((60 * MS..61 * MS).contains(&took), "{took}");
    assert_eq!(client.status(done), 1);
}

#[test]
fn six_seconds_time_out_and_thirty_milliseconds_do_not() {
    for kernel in KERNELS {
        let client = open(&format!("sim:kernel={kernel}"));
        let (vm, done) = (
            client.vm(),
            [client.syncobj(), client.syncobj(), client.syncobj()],
        );
        let group = client.group(vm);
        client.run(group, 0, 0x1000, &[ms(30)], &[signal(done[0], 0)]);
        client.run(group, 0, 0x2000, &[ms(6000)], &[signal(done[1], 0)]);
        client.run(group, 1, 0x3000, &[ms(10)], &[signal(done[2], 0)]);
        let start = client.device.now();
        client.wait_done(done[1]).unwrap();
        let took = client.device.now() - start;
        assert!((5000 * MS..5100 * MS).contains(&took), "{kernel}: {took}");
        assert_eq!(
            done.map(|done| client.status(done)),
            [1, errno(Errno::TIMEDOUT), 1],
            "{kernel}"
        );
        assert_eq!(client.group_state(group), (STATE_TIMEDOUT, 0), "{kernel}");
        assert_eq!(
            client.submit(group, &[job(0, 0x1000, &[])]),
            Err(Errno::INVAL)
        );
        assert!(
            client
                .device
                .messages()
                .iter()
                .any(|line| line.contains("job timeout"))
        );
        // Another group of the client goes on.
        let (other, after) = (client.group(vm), client.syncobj());
        client.run(other, 0, 0x1000, &[ms(1)], &[signal(after, 0)]);
        client.wait_done(after).unwrap();
        assert_eq!(client.status(after), 1);
    }
}

#[test]
fn each_job_has_the_whole_time() {
    for kernel in KERNELS {
        let client = open(&format!("sim:kernel={kernel},job_timeout_ms=100"));
        let (group, done) = (client.group(client.vm()), client.syncobj());
        client.script.stream(0x1000, &[ms(90)]);
        let jobs: Vec<_> = (0..5).map(|_| job(0, 0x1000, &[])).collect();
        client.submit(group, &jobs).unwrap();
        client
            .submit(group, &[job(0, 0, &[signal(done, 0)])])
            .unwrap();
        client.wait_done(done).unwrap();
        assert_eq!(client.status(done), 1, "{kernel}");
    }
}

#[test]
fn submitting_steadily_hides_a_hang_on_6_12_only() {
    for (kernel, hidden) in [("6.12", true), ("7.2", false)] {
        let client = open(&format!("sim:kernel={kernel},job_timeout_ms=100"));
        let (group, done) = (client.group(client.vm()), client.syncobj());
        client.run(group, 0, 0x1000, &[Act::Loop], &[signal(done, 0)]);
        for _ in 0..10 {
            let at = client.device.now() + 50 * MS;
            client.device.sleep_until(at);
            if client.submit(group, &[job(0, 0x2000, &[])]).is_err() {
                break;
            }
        }
        assert_eq!(client.status(done) == 0, hidden, "{kernel}");
        client.wait_done(done).unwrap();
        assert_eq!(client.status(done), errno(Errno::TIMEDOUT));
    }
}

#[test]
fn a_fault_fails_its_job_only() {
    for (kernel, exception, expected) in [
        ("7.2", 0x41, errno(Errno::INVAL)),
        ("7.3", 0x4b, errno(Errno::INVAL)),
        ("6.12", 0x4b, errno(Errno::INVAL)),
        // 6.12 marks only inherited faults: the fence of a job that faulted itself reads as good.
        ("6.12", 0x41, 1),
    ] {
        let client = open(&format!("sim:kernel={kernel}"));
        let (group, done) = (
            client.group(client.vm()),
            [client.syncobj(), client.syncobj()],
        );
        client.run(
            group,
            0,
            0x1000,
            &[Act::Fault(exception)],
            &[signal(done[0], 0)],
        );
        client.run(group, 0, 0x2000, &[ms(1)], &[signal(done[1], 0)]);
        client.wait_done(done[1]).unwrap();
        assert_eq!(
            done.map(|done| client.status(done)),
            [expected, 1],
            "{kernel} {exception:#x}"
        );
        assert_eq!(client.group_state(group), (0, 0));
    }
}

#[test]
fn a_fatal_fault_kills_the_group_and_names_the_queue() {
    for kernel in KERNELS {
        let client = open(&format!("sim:kernel={kernel}"));
        let (group, done) = (client.group(client.vm()), [0; 4].map(|_| client.syncobj()));
        client.run(group, 0, 0x1000, &[ms(1); 50], &[signal(done[0], 0)]);
        client.run(
            group,
            1,
            0x2000,
            &[ms(1), Act::Fatal(0x40)],
            &[signal(done[1], 0)],
        );
        client.run(group, 1, 0x3000, &[ms(1)], &[signal(done[2], 0)]);
        // Queued behind a job that is lost: drm_sched starts it afterwards, on a dead group.
        client.run(
            group,
            0,
            0x4000,
            &[ms(1)],
            &[wait(done[1], 0), signal(done[3], 0)],
        );
        for done in done {
            client.wait_done(done).unwrap();
        }
        let (fatal, cancelled) = (errno(Errno::INVAL), errno(Errno::CANCELED));
        assert_eq!(
            done.map(|done| client.status(done)),
            [cancelled, fatal, fatal, cancelled],
            "{kernel}"
        );
        assert_eq!(client.group_state(group), (STATE_FATAL, 0b10), "{kernel}");
    }
}

#[test]
fn a_page_fault_is_fatal_for_all_groups_of_the_vm() {
    let client = open("sim");
    let vm = client.vm();
    let groups = [
        client.group(vm),
        client.group(vm),
        client.group(client.vm()),
    ];
    let done = [0; 3].map(|_| client.syncobj());
    client.run(
        groups[0],
        1,
        0x1000,
        &[ms(5), Act::Store(0xdead_0000, 1)],
        &[signal(done[0], 0)],
    );
    client.run(groups[1], 0, 0x2000, &[ms(50)], &[signal(done[1], 0)]);
    client.run(groups[2], 0, 0x3000, &[ms(50)], &[signal(done[2], 0)]);
    for done in done {
        client.wait_done(done).unwrap();
    }
    assert_eq!(
        done.map(|done| client.status(done)),
        [errno(Errno::INVAL), errno(Errno::INVAL), 1]
    );
    assert_eq!(
        groups.map(|group| client.group_state(group)),
        [(STATE_FATAL, 0b10), (STATE_FATAL, 0b11), (0, 0)]
    );
    assert!(
        client
            .device
            .messages()
            .iter()
            .any(|line| line.contains("0x00000000DEAD0000"))
    );
    // The VM works again for a new group.
    let (group, after) = (client.group(vm), client.syncobj());
    let bo = client.bo(4096);
    client.bind_at(vm, bo, 0xdead_0000, 4096);
    client.run(
        group,
        0,
        0x4000,
        &[Act::Store(0xdead_0001, 7)],
        &[signal(after, 0)],
    );
    client.wait_done(after).unwrap();
    assert_eq!((client.status(after), client.map(bo, 4096)[1]), (1, 7));
}

#[test]
fn a_wait_in_a_stream_is_ended_by_another_queue_or_by_the_timer() {
    let client = open("sim");
    let (group, done) = (client.group(client.vm()), [0; 3].map(|_| client.syncobj()));
    client.run(
        group,
        0,
        0x1000,
        &[Act::WaitCounter(1), ms(1)],
        &[signal(done[0], 0)],
    );
    client.run(
        group,
        1,
        0x2000,
        &[ms(20), Act::AddCounter(1)],
        &[signal(done[1], 0)],
    );
    let start = client.device.now();
    client.wait_done(done[0]).unwrap();
    assert!((21 * MS..22 * MS).contains(&(client.device.now() - start)));
    client.run(
        group,
        0,
        0x3000,
        &[Act::WaitCounter(2)],
        &[signal(done[2], 0)],
    );
    client.wait_done(done[2]).unwrap();
    assert_eq!(
        done.map(|done| client.status(done)),
        [1, 1, errno(Errno::TIMEDOUT)]
    );
}

#[test]
fn queues_take_turns_on_the_gpu() {
    let client = open("sim");
    let (group, done) = (
        client.group(client.vm()),
        [client.syncobj(), client.syncobj()],
    );
    let start = client.device.now();
    client.run(group, 0, 0x1000, &[ms(10); 2], &[signal(done[0], 0)]);
    client.run(group, 1, 0x2000, &[ms(10); 3], &[signal(done[1], 0)]);
    client.wait_done(done[0]).unwrap();
    let first = client.device.now() - start;
    client.wait_done(done[1]).unwrap();
    let both = client.device.now() - start;
    assert!(
        (30 * MS..31 * MS).contains(&first) && (50 * MS..51 * MS).contains(&both),
        "{first} {both}"
    );
}

#[test]
fn more_groups_than_slots_take_turns_and_all_finish() {
    let client = open("sim");
    let vm = client.vm();
    let jobs: Vec<_> = (0..12_u64)
        .map(|n| (client.group(vm), client.syncobj(), 0x1000 * (n + 1)))
        .collect();
    for &(group, done, va) in &jobs {
        // In pieces, so that a group can be taken off its slot in the middle.
        client.run(group, 0, va, &[ms(1); 30], &[signal(done, 0)]);
    }
    let start = client.device.now();
    for &(_, done, _) in &jobs {
        client.wait_done(done).unwrap();
        assert_eq!(client.status(done), 1);
    }
    let took = client.device.now() - start;
    assert!((359 * MS..370 * MS).contains(&took), "{took}");
    // All have started before the first eight had finished, which took them 240 ms.
    assert_eq!(client.script.started().len(), 12);
}

#[test]
fn a_realtime_group_preempts() {
    let client = open("sim:nice=1");
    let vm = client.vm();
    for n in 0..8 {
        let group = client.group(vm);
        client.run(group, 0, 0x1000 * (n + 1), &[ms(1); 100], &[]);
    }
    let urgent = client.try_group(vm, |args| args.priority = 3).unwrap();
    let done = client.syncobj();
    let start = client.device.now();
    client.run(urgent, 0, 0x10_0000, &[ms(1)], &[signal(done, 0)]);
    client.wait_done(done).unwrap();
    let took = client.device.now() - start;
    assert!(took < 12 * MS, "{took}");
}

#[test]
fn the_ring_bounds_what_runs_at_a_time() {
    let client = open("sim");
    let (group, done) = (client.group(client.vm()), client.syncobj());
    // 64 KiB of ring hold 512 jobs of 16 instructions.
    let jobs = vec![job(0, 0x1000, &[]); 600];
    client.submit(group, &jobs).unwrap();
    client
        .submit(group, &[job(0, 0, &[signal(done, 0)])])
        .unwrap();
    client.wait_done(done).unwrap();
    assert_eq!(client.device.jobs_started(), 600);
}

#[test]
fn an_empty_job_takes_the_fate_of_the_one_before() {
    let client = open("sim");
    let (group, done) = (client.group(client.vm()), [0; 3].map(|_| client.syncobj()));
    client
        .submit(group, &[job(0, 0, &[signal(done[0], 0)])])
        .unwrap();
    assert_eq!(client.status(done[0]), 1, "nothing before it");
    client.run(group, 0, 0x1000, &[ms(3), Act::Fault(0x41)], &[]);
    client
        .submit(
            group,
            &[
                job(0, 0, &[signal(done[1], 0)]),
                job(1, 0, &[signal(done[2], 0)]),
            ],
        )
        .unwrap();
    assert_eq!(client.status(done[1]), 0);
    client.wait_done(done[1]).unwrap();
    assert_eq!(
        [done[1], done[2]].map(|done| client.status(done)),
        [errno(Errno::INVAL), 1]
    );
}

#[test]
fn destroying_a_group_cancels_its_jobs() {
    let client = open("sim");
    let (group, done) = (
        client.group(client.vm()),
        [client.syncobj(), client.syncobj()],
    );
    client.run(group, 0, 0x1000, &[ms(100)], &[signal(done[0], 0)]);
    client.run(group, 0, 0x1000, &[ms(100)], &[signal(done[1], 0)]);
    client.destroy_group(group).unwrap();
    for done in done {
        client.wait_points(&[(done, 0)], 0, MS).unwrap();
        assert_eq!(client.status(done), errno(Errno::CANCELED));
    }
    assert_eq!(client.destroy_group(group), Err(Errno::INVAL));
}

#[test]
fn injected_failures_meet_the_job_that_they_name() {
    use panthor_sim::fault::Mode;
    let client = open("sim");
    for (mode, status, state) in [
        (Mode::CsFault { exception: 0x49 }, Errno::INVAL, 0),
        (Mode::CsFatal { exception: 0x44 }, Errno::INVAL, STATE_FATAL),
        (
            Mode::MmuFault { va: 0x1234_5000 },
            Errno::INVAL,
            STATE_FATAL,
        ),
        (Mode::CsInfiniteLoop, Errno::TIMEDOUT, STATE_TIMEDOUT),
    ] {
        let (group, done) = (
            client.group(client.vm()),
            [client.syncobj(), client.syncobj()],
        );
        client.device.inject(client.device.jobs_started() + 1, mode);
        for done in done {
            client.run(group, 0, 0x1000, &[ms(1)], &[signal(done, 0)]);
        }
        client.wait_done(done[1]).unwrap();
        assert_eq!(
            done.map(|done| client.status(done)),
            [1, errno(status)],
            "{mode:?}"
        );
        assert_eq!(client.group_state(group).0, state, "{mode:?}");
    }
}

#[test]
fn clients_in_threads_share_the_device_and_its_clock() {
    let client = open("sim");
    let start = client.device.now();
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..4)
            .map(|n| {
                let client = client.again();
                scope.spawn(move || {
                    let (group, done) = (client.group(client.vm()), client.syncobj());
                    for _ in 0..20 {
                        client.run(group, 0, 0x1000 * (n + 1), &[ms(1)], &[signal(done, 0)]);
                        client.wait_done(done).unwrap();
                        assert_eq!(client.status(done), 1);
                    }
                    client.close(client.fd);
                })
            })
            .collect();
        // One that only looks at the clock and sleeps, as a watchdog does.
        let watcher = scope.spawn(|| {
            for _ in 0..10 {
                client.device.sleep_until(client.device.now() + MS);
            }
        });
        for worker in workers {
            worker.join().unwrap();
        }
        watcher.join().unwrap();
    });
    let took = client.device.now() - start;
    assert!(
        took >= 80 * MS,
        "80 jobs of a millisecond on shared cores: {took}"
    );
    assert_eq!(client.device.live_objects().groups, 0);
}
