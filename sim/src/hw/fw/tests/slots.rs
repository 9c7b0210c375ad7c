//! Boot, the global interface, and group slots.

use super::*;
use crate::hw::fw::layout::{GROUPS, STREAMS, csg_control, glb, glb_control};

#[test]
fn the_driver_finds_its_interfaces() {
    let guest = Guest::new("");
    assert_eq!(guest.get(layout::SHARED + glb_control::VERSION) >> 24, 1);
    assert_eq!(
        guest.get(layout::SHARED + glb_control::GROUP_NUM),
        GROUPS as u32
    );
    let first = guest.get(layout::cs_control(0, 0));
    assert_eq!(first & 0xff, 95);
    for group in 0..GROUPS {
        assert_eq!(
            guest.get(csg_control(group) + csg_control::STREAM_NUM),
            STREAMS as u32
        );
        for stream in 0..STREAMS {
            assert_eq!(guest.get(layout::cs_control(group, stream)), first);
        }
    }
    assert_eq!(guest.violations(), Vec::<String>::new());
}

#[test]
fn a_shared_section_that_is_missing_stops_the_firmware() {
    let mut guest = Guest::unbooted("");
    // Without the last page that the interface needs.
    let last = layout::SHARED + layout::SHARED_BYTES - 0x1000;
    let mut table = guest.roots[0];
    for shift in [39, 30, 21] {
        table = guest
            .memory
            .read64(table + 8 * (last >> shift & 511))
            .unwrap()
            & !0xfff;
    }
    guest
        .memory
        .write64(table + 8 * (last >> 12 & 511), 0)
        .unwrap();
    guest.write(0x1a0, 1);
    guest.run(1_000_000);
    guest.space(0, true);
    guest.write(0x700, 2);
    guest.run(1_000_000);
    assert_eq!(guest.read(0x704), 3);
    assert_eq!(guest.read(0x1000) >> 31, 0);
    assert!(guest.violations()[0].contains("shared section"));
}

#[test]
fn pings_are_answered_and_masked_interrupts_stay_away() {
    let mut guest = Guest::new("");
    let req = guest.get(GLB_IN + glb_in::REQ) ^ glb::PING;
    guest.set(GLB_IN + glb_in::REQ, req);
    guest.ring();
    assert_eq!((guest.get(GLB_OUT + glb_out::ACK) ^ req) & glb::PING, 0);
    assert_eq!(guest.take_jobs(), 1 << 31);
    guest.set(GLB_IN + glb_in::ACK_IRQ_MASK, 0);
    let req = req ^ glb::PING;
    guest.set(GLB_IN + glb_in::REQ, req);
    guest.ring();
    assert_eq!((guest.get(GLB_OUT + glb_out::ACK) ^ req) & glb::PING, 0);
    assert_eq!(guest.take_jobs(), 0);

    let mut guest = Guest::new("fault=ping-unanswered");
    let req = guest.get(GLB_IN + glb_in::REQ) ^ glb::PING;
    guest.set(GLB_IN + glb_in::REQ, req);
    guest.ring();
    assert_eq!(
        (guest.get(GLB_OUT + glb_out::ACK) ^ req) & glb::PING,
        glb::PING
    );
}

#[test]
fn refused_requests_are_named() {
    let mut guest = Guest::new("");
    let req = guest.get(GLB_IN + glb_in::REQ) ^ glb::PROTM_ENTER;
    guest.set(GLB_IN + glb_in::REQ, req);
    guest.ring();
    assert!(guest.violations()[0].contains("no protected mode"));
}

#[test]
fn a_halted_firmware_boots_again_over_its_old_interface() {
    let mut guest = Guest::new("");
    guest.start(0);
    guest.state(0, csg::SUSPEND);
    let req = guest.get(GLB_IN + glb_in::REQ);
    guest.set(GLB_IN + glb_in::REQ, req | glb::HALT);
    guest.ring();
    assert_eq!(guest.read(0x704), 2);
    guest.write(0x700, 0);
    assert_eq!(guest.read(0x704), 0);
    guest.set(GLB_IN + glb_in::REQ, req);
    guest.take_jobs();
    guest.write(0x700, 2);
    guest.run(1_000_000);
    assert_eq!(guest.read(0x704), 1);
    guest.program(0);
    guest.state(0, csg::RESUME);
    assert_eq!(guest.acked_state(0), csg::RESUME);
    guest.submit(0, "NOP\n");
    guest.kick(0);
    assert_eq!(guest.seqno(0), 1);
    assert_eq!(guest.violations(), Vec::<String>::new());
}

#[test]
fn idleness_is_reported_after_its_timer() {
    let mut guest = Guest::new("");
    guest.start(0);
    assert_eq!(guest.events(0) & csg::IDLE, csg::IDLE);
    assert_eq!(guest.get(csg_out(0) + csg_out::STATUS_STATE), 1);
    let pending = |guest: &Guest| {
        (guest.get(GLB_IN + glb_in::REQ) ^ guest.get(GLB_OUT + glb_out::ACK)) & glb::IDLE
    };
    assert_eq!(pending(&guest), 0);
    guest.run(1_000_000);
    assert_eq!(pending(&guest), glb::IDLE);
}

#[test]
fn acknowledgements_are_withheld_while_the_work_is_done() {
    let mut guest = Guest::new("fault=ack-withheld:on=csg:bit=state:once");
    guest.program(0);
    guest.state(0, csg::START);
    assert_eq!(guest.acked_state(0), csg::TERMINATE);
    guest.submit(0, "NOP\n");
    guest.kick(0);
    assert_eq!(guest.seqno(0), 1);
    let mut guest = Guest::new("fault=terminate-ignored:once");
    guest.start(0);
    guest.state(0, csg::TERMINATE);
    assert_eq!(guest.acked_state(0), csg::START);
}

#[test]
fn what_the_driver_must_not_do_has_a_name() {
    let says = |guest: &Guest, text: &str| {
        let all = guest.violations();
        assert!(all.iter().any(|v| v.contains(text)), "{text}: {all:?}");
    };
    let mut guest = Guest::new("");
    guest.state(3, csg::SUSPEND);
    says(&guest, "group 3: SUSPEND is asked for while no group");
    guest.start(0);
    guest.program(0);
    guest.state(0, csg::RESUME);
    says(
        &guest,
        "group 0: state 3 is asked for while a group is on the slot",
    );
    guest.state(0, 5);
    says(&guest, "state 5 is asked for, which does not exist");
    guest.program(1);
    guest.set64(cs_in(1, 0) + cs_in::RINGBUF_BASE, RING + 64);
    guest.state(1, csg::START);
    says(&guest, "stream 1.0: ring buffer at 0x100040");
    guest.program(2);
    guest.set(csg_in(2) + csg_in::CONFIG, 3);
    guest.state(2, csg::START);
    says(&guest, "group 2: its address space 3 is switched off");
    assert_eq!(guest.acked_state(2), 0);
    guest.set64(Guest::positions(0), 2 * RING_BYTES);
    guest.kick(0);
    says(
        &guest,
        "stream 0.0: insert 0x2000 is not within 0x1000 bytes of extract 0x0",
    );
    assert_eq!(guest.stream_events(0), cs::FATAL);
}
