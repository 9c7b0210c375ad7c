//! Two hundred clients of the real driver killed at random moments, on several CPUs: no warning but the documented ones,
//! nothing left behind.
//!
//! Needs a kernel in the rig's cache (`panthorctl rig build`) with its SMP binary; without one the test says so and passes,
//! unless `PANTHOR_TEST_RIG` is set. `PANTHOR_RIG_KERNEL` chooses the kernel (default 7.2).

use std::path::Path;

use panthor_tests::measure::kills::KillsRecord;
use panthor_tests::measure::outside::{available, run_inside};

/// Clients that are killed.
const COUNT: u32 = 200;
/// KiB by which the memory in use may have grown between the first tenth of the clients and the last. Caches of four CPUs
/// fill by 4 to 12 MiB, after 60 clients as after 400; the buffers of two hundred clients are more. Objects are counted
/// one by one besides.
const GROWTH_KIB: u64 = 16 << 10;

#[test]
fn killed_clients_leave_nothing_behind() {
    let kernel = std::env::var("PANTHOR_RIG_KERNEL").unwrap_or_else(|_| "7.2".to_owned());
    let device = format!("rig:kernel={kernel},smp,user=root,gpu_mhz=100");
    if let Err(error) = available(&device) {
        assert!(std::env::var_os("PANTHOR_TEST_RIG").is_none(), "{error}");
        eprintln!("skipped: {error}");
        return;
    }
    let helper = Path::new(env!("CARGO_BIN_EXE_measure"));
    let count = COUNT.to_string();
    let arguments = ["kills", &count, "1", "/dev/dri/renderD128"];
    let (out, err, report) = run_inside(&device, helper, &arguments).expect("machine");
    let record: KillsRecord = serde_json::from_str(out.trim())
        .unwrap_or_else(|error| panic!("{error}: {out}{err}\n{}", report.kernel_log));
    eprintln!(
        "{} killed in {:.1} s of wall time: {:?}; available {:?} KiB, slab {:?} KiB",
        record.killed.values().sum::<u32>(),
        report.wall.as_secs_f32(),
        record.killed,
        record.available_kib,
        record.slab_kib,
    );
    assert_eq!(record.stuck, Vec::<String>::new());
    assert_eq!(record.killed.values().sum::<u32>(), COUNT);
    let unexpected: Vec<_> = record.unexpected().iter().map(|m| m.text.clone()).collect();
    assert_eq!(unexpected, Vec::<String>::new());
    assert!(record.last.starts_with("passed "), "{}", record.last);
    assert_eq!(record.after.runtime_status.as_deref(), Some("suspended"));
    assert_eq!(record.before.gems, record.after.gems);
    let (early, late) = record.available_kib;
    assert!(
        early.saturating_sub(late) <= GROWTH_KIB,
        "{early} KiB, then {late}"
    );
    let (early, late) = record.slab_kib;
    assert!(
        late.saturating_sub(early) <= GROWTH_KIB,
        "{early} KiB, then {late}"
    );
}
