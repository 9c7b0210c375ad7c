//! Sync objects, and the errors that they carry.

use super::*;

#[test]
fn sync_objects_block_wake_and_carry_order() {
    let mut m = machine();
    let (object, reference) = (DATA + 8192, "MOVE48 d60, #0x20002000\nMOVE48 d62, #0\n");
    let (mut producer, mut consumer) = (Queue::new(0, 0), Queue::new(0, 1));
    let consume = format!(
        "{PREPARE}{reference}SYNC_WAIT64.gt.inherit d60, d62\n{}{RUN}WAIT #4\n{FLUSH}",
        job_registers(DATA, DATA + 4096)
    );
    m.submit_at(&mut consumer, STREAM + 4096, &consume);
    let Stop::Blocked(wait) = m.run(&mut consumer) else {
        panic!()
    };
    assert_eq!((wait.address, wait.wide, wait.reference), (object, true, 0));
    // The producer signals by a deferred SYNC_ADD64 that waits for the job's entry, as panvk does, after a flush that
    // waits for it likewise.
    let flush = "FLUSH_CACHE2.clean_l2.clean_invalidate_lsc.nop_other r40, #4, #1\n";
    let produce = format!(
        "{PREPARE}MOVE48 d60, #{object:#x}\nMOVE48 d62, #1\n{}{RUN}{flush}SYNC_ADD64.error_propagate.csg [d60], d62, #6, #3\n",
        job_registers(0, DATA)
    );
    m.submit(&mut producer, &produce);
    assert!(matches!(m.run(&mut producer), Stop::Idle));
    let updates: Vec<_> = m
        .device
        .take_events()
        .filter(|e| matches!(e, Event::SyncUpdate { system: false, .. }))
        .collect();
    assert_eq!(updates.len(), 1);
    assert!(matches!(m.run(&mut consumer), Stop::Idle));
    assert_eq!(m.host(DATA + 4096), 2);
}

#[test]
fn a_signal_without_the_producers_wait_orders_nothing() {
    let mut m = machine();
    let (mut producer, mut consumer) = (Queue::new(0, 0), Queue::new(0, 1));
    let object = DATA + 8192;
    let head = format!("{PREPARE}MOVE48 d60, #{object:#x}\nMOVE48 d62, #1\n");
    m.submit(
        &mut producer,
        &format!(
            "{head}{}{RUN}SYNC_ADD64.csg [d60], d62, #0, #0\n",
            job_registers(0, DATA)
        ),
    );
    // Only as far as the signal.
    while !matches!(
        m.device.take_events().last(),
        Some(Event::SyncUpdate { .. })
    ) {
        if let Stop::WaitUntil(at) = m.step(&mut producer) {
            if m.device.cores_free_at() > 0 {
                break;
            }
            m.now = at;
        }
    }
    let wait = "MOVE48 d62, #0\nSYNC_WAIT64.gt.inherit d60, d62\n";
    m.submit_at(
        &mut consumer,
        STREAM + 4096,
        &format!(
            "{head}{wait}{FLUSH}{}{RUN}",
            job_registers(DATA, DATA + 4096)
        ),
    );
    m.now = m.now.min(3000);
    let fault = fault(m.run(&mut consumer));
    assert!(fault.to_string().contains("without a wait"), "{fault}");
}

#[test]
fn sync_conditions_and_widths() {
    let object = DATA + 8192;
    let head = format!("MOVE48 d60, #{object:#x}\nMOVE48 d62, #5\nMOVE48 d64, #4\n");
    runs(&format!(
        "{head}SYNC_SET64.system [d60], d62, #0, #0\nSYNC_WAIT64.gt.inherit d60, d64\nSYNC_WAIT64.le.inherit d60, d62"
    ));
    runs(&format!(
        "{head}SYNC_ADD32.system [d60], r62, #0, #0\nSYNC_WAIT32.gt.inherit d60, r64\nSYNC_WAIT32.le.inherit d60, r62"
    ));
    let (_, stop) = machine().run_text(&format!(
        "{head}SYNC_SET32.csg [d60], r64, #0, #0\nSYNC_WAIT32.gt.inherit d60, r64"
    ));
    assert!(
        matches!(
            stop,
            Stop::Blocked(SyncWait {
                wide: false,
                reference: 4,
                ..
            })
        ),
        "{stop:?}"
    );
    let fault = fault_of(&format!("{head}SYNC_WAIT64.eq.inherit d60, d62"));
    assert!(matches!(fault.cause, Cause::SyncCondition));
    let fault =
        fault_of("MOVE48 d60, #0x20002004\nMOVE48 d62, #0\nSYNC_WAIT64.le.inherit d60, d62");
    assert!(matches!(
        fault.cause,
        Cause::Misaligned {
            what: "sync object",
            ..
        }
    ));
}

#[test]
fn system_scope_reaches_the_host_without_a_flush() {
    let mut m = machine();
    let object = DATA + 8192;
    let text = format!(
        "MOVE48 d60, #{object:#x}\nMOVE48 d62, #5\nSYNC_ADD64.error_propagate.system [d60], d62, #0, #0"
    );
    assert!(matches!(m.run_text(&text).1, Stop::Idle));
    assert_eq!(m.host(object), 5);
    assert!(m.device.take_events().any(
        |e| matches!(e, Event::SyncUpdate { system: true, address, .. } if address == object)
    ));
    // An object whose status lies on the next page.
    let mut m = machine();
    let last = DATA + 4096 - 8;
    m.space.write(last + 8, &[9]).unwrap();
    let at_the_end = text.replace(&format!("{object:#x}"), &format!("{last:#x}"));
    assert!(matches!(m.run_text(&at_the_end).1, Stop::Idle));
    assert_eq!((m.host(last), m.host(last + 8)), (5, 0));
    let mut m = machine();
    assert!(matches!(
        m.run_text(&text.replace("system", "csg")).1,
        Stop::Idle
    ));
    assert_eq!(m.host(object), 0);
}

#[test]
fn errors_are_inherited_rejected_propagated_and_barred() {
    let object = DATA + 8192;
    let mut m = machine();
    m.space.write(object, &[9, 0, 0, 0, 0, 0, 0, 0, 1]).unwrap();
    let other = object + 64;
    let head =
        format!("{PREPARE}MOVE48 d60, #{object:#x}\nMOVE48 d62, #0\nMOVE48 d64, #{other:#x}\n");
    let tail = format!(
        "{}{RUN}SYNC_ADD64.error_propagate.system [d64], d62, #0, #0\nWAIT #4\n{FLUSH}",
        job_registers(0, DATA)
    );
    let (_, stop) = m.run_text(&format!("{head}SYNC_WAIT64.gt.inherit d60, d62\n{tail}"));
    assert!(matches!(stop, Stop::Idle), "{stop:?}");
    // The job was dropped, the error passed on, and the driver told.
    assert_eq!((m.host(DATA), m.host(other + 8)), (0, 1));
    let faults: Vec<_> = m
        .device
        .take_events()
        .filter_map(|e| {
            if let Event::Fault { fault, .. } = e {
                Some(fault)
            } else {
                None
            }
        })
        .collect();
    assert_eq!(faults.len(), 1);
    assert!(!faults[0].fatal && faults[0].exception == Exception::CsInheritFault);
    // Rejected: nothing happens.
    let mut m = machine();
    m.space.write(object, &[9, 0, 0, 0, 0, 0, 0, 0, 1]).unwrap();
    m.run_text(&format!("{head}SYNC_WAIT64.gt.reject d60, d62\n{tail}"));
    assert_eq!((m.host(DATA), m.host(other + 8)), (1, 0));
    // Inherited, but barred.
    let mut m = machine();
    m.space.write(object, &[9, 0, 0, 0, 0, 0, 0, 0, 1]).unwrap();
    let (queue, _) = m.run_text(&format!(
        "{head}SYNC_WAIT64.gt.inherit d60, d62\nERROR_BARRIER\n{tail}"
    ));
    assert_eq!((m.host(DATA), m.host(other + 8)), (1, 0));
    assert!(!queue.has_error());
}
