//! Jobs on the shader cores: what takes time there.

use super::*;
use mali_isa::valhall;

/// Executable.
const CODE: u64 = 0x40_0000;
const SPD: u64 = CODE + 0x400;
const TSD: u64 = CODE + 0x440;
const FAU: u64 = CODE + 0x500;
/// Nanoseconds of a cycle at the clock of these tests.
const CYCLE_NS: u64 = 1000;

impl Guest {
    /// Slot 0 has a group; a job of `tasks` workgroups, each counting down from `loops`, is submitted there and begins.
    fn with_job(options: &str, tasks: u32, loops: u32) -> Self {
        let mut guest = Guest::new(&format!("gpu_mhz=1,cores=4,threads=1,{options}"));
        guest.map(1, CODE, 0x1000);
        // Executable, without PXN and UXN, and therefore read only (AP).
        let mut table = guest.roots[1];
        for shift in [39, 30, 21] {
            table = guest
                .memory
                .read64(table + 8 * (CODE >> shift & 511))
                .unwrap()
                & !0xfff;
        }
        let place = table + 8 * (CODE >> 12 & 511);
        let leaf = guest.memory.read64(place).unwrap();
        guest
            .memory
            .write64(place, leaf & !(3 << 53) | 1 << 7)
            .unwrap();
        let code = valhall::assemble_program(
            "MOV.i32 r0, u0\nagain:\nIADD_IMM.i32 r0, r0^, #0xFFFFFFFF\nBRANCHZ.reconverge r0, offset:again\n\
             MOV.i32 r6, u2\nMOV.i32 r7, u3\nMOV.i32 r8, u4\nSTORE.i32.slot0.end @r8, r6^, offset:0\n",
        )
        .unwrap();
        let words = |guest: &Guest, va: u64, words: &[u64]| {
            let place = guest.physical(1, va);
            for (at, word) in words.iter().enumerate() {
                guest.memory.write64(place + 8 * at as u64, *word).unwrap();
            }
        };
        words(&guest, CODE, &code);
        words(&guest, SPD, &[0x18 | 0x7f80 << 32, CODE, 0, 0]);
        words(&guest, TSD, &[31 << 32, 0, 0, 0]);
        words(&guest, FAU, &[loops.into(), DATA + 0x200, 9, 0]);
        guest.start(0);
        guest.process(0);
        guest.submit(
            0,
            &format!(
                "REQ_RESOURCE.compute\nSET_SB_ENTRY #2, #0\nMOVE48 d0, #0\nMOVE48 d8, #{fau:#x}\nMOVE32 r9, #{count:#x}\nMOVE48 d16, #{SPD:#x}\n\
                 MOVE48 d24, #{TSD:#x}\nMOVE32 r32, #0\nMOVE32 r33, #0\nMOVE32 r34, #0\nMOVE32 r35, #0\nMOVE32 r36, #0\n\
                 MOVE32 r37, #{tasks}\nMOVE32 r38, #1\nMOVE32 r39, #1\nRUN_COMPUTE.x_axis.srt0.spd0.tsd0.fau0 #1\n",
                fau = FAU,
                count = 3 << 24,
            ),
        );
        guest.write(0x9_0000, 1);
        // The job has begun: a few hundred cycles of the stream, and the driver's flush before it.
        guest.run(6_000 * CYCLE_NS);
        assert_eq!(guest.violations(), Vec::<String>::new());
        let fatal = (
            guest.get(cs_out(0, 0) + cs_out::FATAL),
            guest.get64(cs_out(0, 0) + cs_out::FATAL_INFO),
        );
        assert_eq!(
            (guest.hw.summary().jobs.jobs, guest.stream_events(0)),
            (1, 0),
            "{fatal:x?}"
        );
        guest
    }

    /// Nanoseconds that the job takes.
    fn job_ns(&self) -> u64 {
        let job = &self.hw.summary().jobs.recent[0];
        (job.end - job.start) * CYCLE_NS
    }
}

#[test]
fn the_summary_has_the_jobs() {
    let mut guest = Guest::with_job("", 4, 50_000);
    let took = guest.job_ns();
    assert!(took > 10_000_000, "{took}");
    assert_eq!((guest.seqno(0), guest.events(0)), (0, 0));
    guest.run(took + 5_000_000);
    assert_eq!((guest.seqno(0), guest.data(0x200)), (1, 9));
    let jobs = guest.hw.summary().jobs;
    assert!(jobs.cycles * CYCLE_NS <= took && jobs.cycles * CYCLE_NS > took / 2);
}

#[test]
fn a_suspended_job_ends_its_tasks_and_goes_on_with_the_rest() {
    let mut guest = Guest::with_job("", 16, 50_000);
    let task = guest.job_ns() / 4;
    let begun = guest.now;
    let req = guest.get(csg_in(0) + csg_in::REQ);
    guest.set(
        csg_in(0) + csg_in::REQ,
        (req & !csg::STATE_MASK) | csg::SUSPEND,
    );
    let stream = guest.get(cs_in(0, 0) + cs_in::REQ);
    guest.set(cs_in(0, 0) + cs_in::REQ, stream & !cs::STATE_MASK);
    guest.ring_group(0);
    assert_eq!(
        guest.acked_state(0),
        csg::START,
        "the tasks on the cores have not ended"
    );
    guest.run(task);
    assert_eq!(guest.acked_state(0), csg::SUSPEND);
    let ran = guest.now - begun;
    assert_eq!(guest.get(cs_out(0, 0) + cs_out::STATUS_SCOREBOARDS), 1 << 2);
    // Nothing goes on while the group is away.
    guest.run(10 * task);
    assert_eq!(guest.seqno(0), 0);
    guest.process(0);
    guest.program(0);
    guest.state(0, csg::RESUME);
    assert_eq!(guest.acked_state(0), csg::RESUME);
    guest.run(2 * task);
    assert_eq!(guest.seqno(0), 0, "two of the three turns that are left");
    guest.run(2 * task);
    assert_eq!((guest.seqno(0), guest.data(0x200)), (1, 9));
    assert!(ran < 2 * task);
    assert_eq!(guest.violations(), Vec::<String>::new());
    // Once, not once more at the resume.
    assert_eq!(guest.hw.summary().jobs.jobs, 1);
}

#[test]
fn a_job_is_terminated_in_its_middle() {
    let mut guest = Guest::with_job("", 4, 500_000);
    let took = guest.job_ns();
    guest.state(0, csg::TERMINATE);
    assert_eq!(guest.acked_state(0), csg::TERMINATE);
    guest.run(2 * took);
    assert_eq!(guest.seqno(0), 0);
}

/// GLB_PROGRESS_TIMER, in units of 1024 cycles.
fn progress_timer(guest: &mut Guest, units: u32) {
    guest.set(GLB_IN + glb_in::PROGRESS_TIMER, units);
    let req = guest.get(GLB_IN + glb_in::REQ);
    guest.set(GLB_IN + glb_in::REQ, req ^ 1 << 1);
    guest.ring();
    assert_eq!((guest.get(GLB_OUT + glb_out::ACK) ^ req) & 2, 2);
}

#[test]
fn a_task_longer_than_the_progress_timer_is_reported_once() {
    for (options, units, tasks, late) in [
        ("", 8, 4, true),
        ("", 200, 16, false), // The job is longer, its tasks are not.
        ("progress_timer=0", 8, 4, false),
    ] {
        let mut guest = Guest::with_job(options, 1, 1);
        guest.run(10_000_000);
        assert_eq!(guest.seqno(0), 1);
        guest.process(0);
        progress_timer(&mut guest, units);
        guest.take_jobs();
        let fau = guest.physical(1, FAU);
        guest.memory.write64(fau, 100_000).unwrap();
        let place = guest.physical(1, STREAM);
        let size = (0..64)
            .map(|at| place + 8 * at)
            .find(|at| guest.memory.read64(*at).unwrap() == assembled("MOVE32 r37, #1\n"));
        let resized = assembled(&format!("MOVE32 r37, #{tasks}\n"));
        guest.memory.write64(size.unwrap(), resized).unwrap();
        guest.submit_at(0, STREAM, 16 * 8);
        guest.write(0x9_0000, 1);
        guest.run(4_000 * CYCLE_NS);
        let took = guest.hw.summary().jobs.recent[1].clone();
        assert!(took.end - took.start > 40_000, "{took:?}");
        assert_eq!(guest.events(0) & csg::PROGRESS_TIMER_EVENT, 0);
        guest.run(9_000 * CYCLE_NS);
        let expected = if late { csg::PROGRESS_TIMER_EVENT } else { 0 };
        assert_eq!(
            guest.events(0) & csg::PROGRESS_TIMER_EVENT,
            expected,
            "{options} {units}"
        );
        guest.process(0);
        guest.run(1_000_000_000);
        assert_eq!(guest.events(0) & csg::PROGRESS_TIMER_EVENT, 0);
        assert_eq!(guest.seqno(0), 2);
    }
}

fn assembled(text: &str) -> u64 {
    u64::from_le_bytes(assemble_program(text).unwrap().try_into().unwrap())
}
