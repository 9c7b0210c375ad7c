//! Streams: jobs, waits, faults, suspension.

use super::*;
use crate::hw::fw::layout::status;

/// Waits until the word at 0x100 of the data is greater than 4, then stores r10 at 0x200.
fn waiting() -> String {
    format!(
        "MOVE32 r10, #0x1234567\nMOVE48 d4, #{:#x}\nMOVE48 d6, #4\nMOVE48 d8, #{:#x}\n\
         SYNC_WAIT64.gt.reject d4, d6\nSTORE_MULTIPLE [d8], r10\n",
        DATA + 0x100,
        DATA + 0x200
    )
}

#[test]
fn a_job_runs_signals_and_leaves_an_idle_group() {
    let mut guest = Guest::new("");
    guest.start(0);
    guest.process(0);
    guest.take_jobs();
    let store = format!("MOVE48 d4, #{DATA:#x}\nMOVE32 r6, #77\nSTORE_MULTIPLE [d4], r6\n");
    for job in 1..=3 {
        guest.submit(0, &store);
        guest.kick(0);
        assert_eq!((guest.seqno(0), guest.data(0)), (job, 77));
        let insert = guest.get64(Guest::positions(0));
        assert_eq!(guest.get64(Guest::positions(0) + 0x1000), insert);
        assert_eq!(guest.events(0), csg::SYNC_UPDATE | csg::IDLE);
        assert_eq!(guest.take_jobs(), 1);
        guest.process(0);
        assert_eq!(guest.events(0), 0);
    }
    assert_eq!(guest.violations(), Vec::<String>::new());
}

#[test]
fn events_wait_for_the_host_and_are_not_lost() {
    let mut guest = Guest::new("");
    guest.start(0);
    guest.process(0);
    for job in 1..=2 {
        guest.submit(0, "NOP\n");
        guest.kick(0);
        assert_eq!(guest.seqno(0), job);
    }
    assert_eq!(guest.events(0) & csg::SYNC_UPDATE, csg::SYNC_UPDATE);
    // The second event comes when the first is acknowledged.
    guest.take_jobs();
    guest.process(0);
    assert_eq!(guest.events(0) & csg::SYNC_UPDATE, csg::SYNC_UPDATE);
    assert_eq!(guest.take_jobs() & 1, 1);
    guest.process(0);
    assert_eq!(guest.events(0) & csg::SYNC_UPDATE, 0);
}

#[test]
fn a_group_suspended_in_mid_stream_keeps_its_registers() {
    let mut guest = Guest::new("");
    guest.start(0);
    guest.submit(0, &waiting());
    guest.kick(0);
    assert_eq!(guest.seqno(0), 0);
    assert_eq!(guest.get(csg_out(0) + csg_out::STATUS_STATE), 1);
    guest.process(0);
    guest.state(0, csg::SUSPEND);
    assert_eq!(guest.acked_state(0), csg::SUSPEND);
    let out = cs_out(0, 0);
    assert_eq!(
        guest.get(out + cs_out::STATUS_BLOCKED_REASON),
        status::SYNC_WAIT
    );
    assert_eq!(
        guest.get64(out + cs_out::STATUS_WAIT_SYNC_PTR),
        DATA + 0x100
    );
    assert_eq!(guest.get(out + cs_out::STATUS_WAIT_SYNC_VALUE), 4);
    assert_eq!(guest.get(out + cs_out::STATUS_SCOREBOARDS), 0);
    let wait = status::WAIT_SYNC | status::WAIT_SYNC_64B | status::WAIT_SYNC_COND_GT;
    assert_eq!(guest.get(out + cs_out::STATUS_WAIT), wait);
    // Nobody runs meanwhile.
    guest.set_data(0x100, 5);
    guest.kick(0);
    assert_eq!(guest.seqno(0), 0);
    // Another group on the slot, then the first again.
    guest.process(0);
    guest.program(0);
    guest.state(0, csg::RESUME);
    assert_eq!(guest.acked_state(0), csg::RESUME);
    guest.run(1_000_000);
    assert_eq!((guest.seqno(0), guest.data(0x200)), (1, 0x123_4567));
    assert_eq!(guest.violations(), Vec::<String>::new());
}

#[test]
fn a_blocked_queue_wakes_when_another_group_signals() {
    let mut guest = Guest::new("");
    guest.start(0);
    guest.start(1);
    guest.submit(0, &waiting());
    guest.kick(0);
    assert_eq!(guest.seqno(0), 0);
    // The host's own writes wake nobody.
    guest.set_data(0x100, 4);
    guest.run(10_000_000);
    let signal = format!(
        "MOVE48 d4, #{:#x}\nMOVE48 d6, #1\nSYNC_ADD64.csg [d4], d6, #0, #0\n",
        DATA + 0x100
    );
    guest.submit(1, &signal);
    guest.kick(1);
    assert_eq!((guest.seqno(0), guest.seqno(1)), (1, 1));
    assert_eq!(guest.data(0x200), 0x123_4567);
}

#[test]
fn a_recoverable_fault_holds_the_queue_until_it_is_acknowledged() {
    let mut guest = Guest::new("");
    guest.start(0);
    guest.process(0);
    guest.take_jobs();
    // A sync object with an error.
    guest.set_data(0x100, 9);
    guest.set_data(0x108, 1);
    guest.submit(0, &waiting().replace(".reject", ".inherit"));
    // Zeros are NOPs.
    guest.submit_at(0, STREAM + 0x3000, 64);
    guest.kick(0);
    assert_eq!(guest.stream_events(0), cs::FAULT);
    assert_eq!(guest.get(cs_out(0, 0) + cs_out::FAULT), 0x4b);
    let raised = guest.get(csg_out(0) + csg_out::CS_IRQ_REQ);
    assert_eq!((raised ^ guest.get(csg_in(0) + csg_in::CS_IRQ_ACK)) & 1, 1);
    assert_eq!(guest.take_jobs() & 1, 1);
    // The driver finds the job by the extract position.
    let extract = guest.get64(Guest::positions(0) + 0x1000);
    assert!(
        extract < guest.get64(Guest::positions(0)) / 2,
        "{extract:#x}"
    );
    assert_eq!(guest.seqno(0), 0);
    guest.process(0);
    guest.run(1_000_000);
    assert_eq!(guest.seqno(0), 2);
}

#[test]
fn a_word_that_is_no_instruction_is_fatal_to_its_queue() {
    let mut guest = Guest::new("");
    guest.start(0);
    guest.start(1);
    let place = guest.physical(1, STREAM + 0x3000);
    guest.memory.write64(place, 0xee << 56).unwrap();
    guest.submit_at(0, STREAM + 0x3000, 64);
    guest.kick(0);
    assert_eq!(guest.stream_events(0), cs::FATAL);
    assert_eq!(guest.get(cs_out(0, 0) + cs_out::FATAL), 0x49);
    assert_eq!(
        guest.get64(cs_out(0, 0) + cs_out::FATAL_INFO),
        STREAM + 0x3000
    );
    guest.submit(1, "NOP\n");
    guest.kick(1);
    assert_eq!(guest.seqno(1), 1);
    guest.state(0, csg::TERMINATE);
    assert_eq!(guest.acked_state(0), csg::TERMINATE);
}

#[test]
fn a_page_fault_ends_the_queue_when_the_space_is_switched_off() {
    let mut guest = Guest::new("");
    guest.start(0);
    guest.submit_at(0, 0x4000_0000, 64);
    guest.kick(0);
    assert_eq!(guest.read(0x2000) & 2, 2);
    assert_eq!(guest.read(0x2440 + 0x1c) & 0xff, 0xc1);
    assert_eq!(guest.read(0x2440 + 0x20), 0x4000_0000);
    assert_eq!(guest.stream_events(0), 0);
    guest.space(1, false);
    assert_eq!(guest.stream_events(0), cs::FATAL);
    assert_eq!(guest.get(cs_out(0, 0) + cs_out::FATAL), 0x48);
    guest.state(0, csg::TERMINATE);
    guest.write(0x2004, !0);
    guest.space(1, true);
    // The slot takes the next group.
    guest.set64(Guest::positions(0), 0);
    guest.set64(Guest::positions(0) + 0x1000, 0);
    guest.process(0);
    guest.start(0);
    guest.submit(0, "NOP\n");
    guest.kick(0);
    assert_eq!(guest.seqno(0), 1);
}

#[test]
fn an_endless_stream_is_suspended_and_terminated() {
    let mut guest = Guest::new("");
    guest.start(0);
    guest.submit(0, "again:\nNOP\nBRANCH.always r0, again\n");
    guest.kick(0);
    guest.run(1_000_000_000);
    assert_eq!(guest.get(csg_out(0) + csg_out::STATUS_STATE), 0);
    assert!(guest.hw.summary().ticks < 10_000);
    guest.state(0, csg::SUSPEND);
    assert_eq!(guest.acked_state(0), csg::SUSPEND);
    guest.process(0);
    guest.program(0);
    guest.state(0, csg::RESUME);
    guest.run(10_000_000);
    assert_eq!(guest.seqno(0), 0);
    guest.state(0, csg::TERMINATE);
    assert_eq!(guest.acked_state(0), csg::TERMINATE);
}

#[test]
fn spurious_faults_are_reported_once() {
    let mut guest = Guest::new("fault=spurious-fault:kind=cs-fatal:code=0x41:once");
    guest.start(0);
    guest.submit(0, "NOP\n");
    guest.kick(0);
    assert_eq!(guest.get(cs_out(0, 0) + cs_out::FATAL), 0x41);
    assert_eq!((guest.stream_events(0), guest.seqno(0)), (cs::FATAL, 0));
}
