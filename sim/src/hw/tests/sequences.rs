//! Sequences of the driver: probe, resets, power, MMU commands, boot, interrupts.

use super::super::fault::Line;
use super::super::regs::*;
use super::*;

const GPU_MASK: u32 = GPU_IRQ_FAULT | GPU_IRQ_RESET_COMPLETED | GPU_IRQ_CLEAN_CACHES_COMPLETED;

#[test]
fn a_probe_reads_the_board() {
    let mut board = Board::new("cores=4");
    // `panthor_gpu_info_init`.
    for (offset, value) in [
        (0x0, 0xa867_0000),
        (0x1c, 0x40a_0412),
        (0x280, 0),
        (0x4, 0x712_0306),
        (0xc, 0x809),
        (0x10, 0x301),
        (0x14, 0x2830),
        (0x18, 0xff),
        (0xac, 0x401_0000),
        (0x300, 0),
        (0xb0, 0xc1ff_ff9e),
        (0x60, 0),
        (0x64, 0),
        (0x100, 0x50005),
        (0x110, 1),
        (0x120, 1),
    ] {
        assert_eq!(board.read(offset), value, "{offset:#x}");
    }
    assert_eq!(board.broken(), []);
}

#[test]
fn a_soft_reset_completes_and_forgets() {
    let mut board = Board::new("");
    board.l2_on();
    board.write(0x28, GPU_MASK);
    board.write(0x1008, !0);
    board.write(0x24, GPU_IRQ_RESET_COMPLETED);
    board.write(0x30, 0x101);
    assert_eq!((board.hw.lines(), board.read(0x34)), (0, GPU_STATUS_ACTIVE));
    board.run(100_000);
    assert_eq!(board.hw.lines(), 1 << Line::Gpu as u32);
    assert_eq!(board.read(0x2c), GPU_IRQ_RESET_COMPLETED);
    board.write(0x24, GPU_IRQ_RESET_COMPLETED);
    assert_eq!(board.hw.lines(), 0);
    assert_eq!(
        (board.read(0x160), board.read(0x1008), board.read(0x28)),
        (0, 0, GPU_MASK)
    );
    assert_eq!(board.calls(), ["reset"]);
    assert_eq!(board.broken(), []);
}

#[test]
fn a_stuck_reset_never_completes() {
    let mut board = Board::new("fault=reset-stuck:once");
    board.write(0x28, GPU_MASK);
    board.write(0x30, 0x101);
    board.run(1_000_000_000);
    assert_eq!(board.read(0x20), 0);
    assert_eq!(board.calls(), [""; 0]);
    // Only a device that answers takes another command.
    board.write(0x30, 0x101);
    assert_eq!(board.broken(), [Rule::Busy]);
}

#[test]
fn a_cache_flush_completes_and_moves_the_flush_id() {
    let mut board = Board::new("");
    board.hw.set_flush_page(0x2000);
    board.l2_on();
    let before = board.read(0x10000);
    assert_eq!(board.memory.read32(0x2000), Ok(before));
    board.write(0x28, GPU_MASK);
    board.write(0x30, 0x23304);
    board.run(10_000);
    assert_eq!(board.read(0x20) & GPU_MASK, GPU_IRQ_CLEAN_CACHES_COMPLETED);
    assert_eq!(board.read(0x10000), before + 1);
    assert_eq!(board.memory.read32(0x2000), Ok(before + 1));
    assert_eq!(board.broken(), []);
}

#[test]
fn a_frozen_flush_id_stands_still_while_flushes_complete() {
    let mut board = Board::new("fault=flush-id-frozen:once,fault=flush-stuck:after=2");
    board.hw.set_flush_page(0x2000);
    board.l2_on();
    let mut flush = |ids: u32| {
        board.write(0x24, !0);
        board.write(0x30, 0x23304);
        board.run(200_000_000);
        assert_eq!(board.memory.read32(0x2000), Ok(ids));
        let id = board.read(0x10000);
        (id, board.read(0x20) & GPU_IRQ_CLEAN_CACHES_COMPLETED != 0)
    };
    assert_eq!(flush(1), (1, true));
    assert_eq!(flush(3), (3, true));
    assert_eq!(flush(3), (3, false));
}

#[test]
fn commands_wait_for_the_l2_that_is_coming() {
    let mut board = Board::new("");
    // 7.x goes on at once.
    board.write(0x1a0, 1);
    let ready = board.now + super::super::power::POWER_NS;
    board.write(0x2430, ADRMODE_UNMAPPED as u32);
    board.write(0x2418, 1);
    board.write(0x700, 2);
    assert_eq!((board.read(0x2428), board.calls()), (1, vec![]));
    board.run(1_000_000);
    let calls: Vec<_> = board.calls.lock().unwrap().clone();
    let at = ready + super::super::address_space::COMMAND_NS;
    let names: Vec<_> = calls
        .iter()
        .map(|(at, call)| (*at, call.as_str()))
        .collect();
    let expected = [
        (at, "boot"),
        (at, "power"),
        (at, "space 0"),
        (at + 10_000, "event 0"),
    ];
    assert_eq!(names, expected);
    assert_eq!(board.broken(), []);
}

#[test]
fn without_the_l2_nothing_may_be_used() {
    let mut board = Board::new("");
    board.write(0x2430, 1);
    board.write(0x2418, 1);
    board.write(0x30, 0x23304);
    board.write(0x700, 2);
    assert_eq!(board.broken(), [Rule::NoPower; 3]);
}

#[test]
fn power_that_does_not_come_holds_everything_up() {
    let mut board = Board::new("fault=power-stuck:domain=l2");
    board.write(0x1a0, 1);
    board.write(0x2430, 1);
    board.write(0x2418, 1);
    board.write(0x700, 2);
    board.run(2_000_000_000);
    assert_eq!((board.read(0x160), board.read(0x220)), (0, 1));
    assert_eq!((board.read(0x2428), board.read(0x704)), (1, 0));
    assert_eq!(board.calls(), [""; 0]);
    // A reset ends it; the fault meets the next power-on too.
    board.write(0x30, 0x101);
    board.run(100_000);
    assert_eq!((board.read(0x220), board.read(0x2428)), (0, 0));
}

#[test]
fn power_changes_raise_their_interrupts() {
    let mut board = Board::new("");
    board.write(0x28, !0);
    board.l2_on();
    let both = GPU_IRQ_POWER_CHANGED | GPU_IRQ_POWER_CHANGED_ALL;
    assert_eq!(board.read(0x20), both);
    board.write(0x24, both);
    board.write(0x1e0, 1);
    assert_eq!(board.read(0x220), 1);
    assert_eq!(board.read(0x34), GPU_STATUS_PWR_ACTIVE);
    board.run(100_000);
    assert_eq!(
        (board.read(0x160), board.read(0x220), board.read(0x20)),
        (0, 0, both)
    );
}

/// Brings the firmware up: `panthor_fw_start`.
fn boot(board: &mut Board) {
    board.l2_on();
    board.write(0x1004, !0);
    board.write(0x1008, !0);
    board.write(0x700, 2);
    board.run(20_000);
}

#[test]
fn the_firmware_boots_halts_and_boots_again() {
    let mut board = Board::new("");
    boot(&mut board);
    assert_eq!((board.read(0x704), board.hw.lines()), (1, 1));
    assert_eq!(board.calls(), ["boot", "event 0"]);
    board.write(0x1004, 1 << 31);
    board.write(0x80000, 1);
    board.write(0x90000, 1);
    assert_eq!(board.calls(), ["doorbell 0", "doorbell 1"]);
    // `panthor_fw_stop`, and again by a fast reset.
    board.write(0x700, 0);
    assert_eq!(board.read(0x704), 0);
    board.write(0x80000, 1);
    assert_eq!(board.calls(), ["disable"]);
    board.write(0x700, 2);
    board.run(20_000);
    assert_eq!((board.read(0x704), board.hw.lines()), (1, 1));
    assert_eq!(board.broken(), []);
}

#[test]
fn boots_fail_as_asked() {
    for (fault, status, after) in [
        ("boot-fails", 0, 2_000_000_000),
        ("boot-fails:how=fatal", 3, 2_000_000_000),
        ("boot-fails:reset=fast", 1, 20_000),
        ("boot-late:by=1500ms", 0, 1_000_000_000),
        ("boot-late:by=1500ms", 1, 2_000_000_000),
        ("firmware-dead", 0, 2_000_000_000),
    ] {
        let mut board = Board::new(&format!("fault={fault}"));
        boot(&mut board);
        board.run(after);
        assert_eq!(board.read(0x704), status, "{fault}");
        assert_eq!(board.hw.lines(), u32::from(status == 1), "{fault}");
    }
}

#[test]
fn a_fast_reset_can_fail_where_a_slow_one_does_not() {
    let mut board = Board::new("fault=boot-fails:reset=fast");
    boot(&mut board);
    assert_eq!(board.read(0x704), 1);
    board.write(0x700, 0);
    board.write(0x700, 2);
    board.run(2_000_000_000);
    assert_eq!(board.read(0x704), 0);
    board.write(0x700, 0);
    board.write(0x30, 0x101);
    board.run(100_000);
    boot(&mut board);
    assert_eq!(board.read(0x704), 1);
}

#[test]
fn a_dead_firmware_hears_nothing_until_a_reset() {
    let mut board =
        Board::new("fault=firmware-dead:from=1ms:until-reset,fault=doorbell-lost:id=1:once");
    boot(&mut board);
    board.write(0x90000, 1);
    board.write(0x90000, 1);
    board.write(0x80000, 1);
    assert_eq!(
        board.calls(),
        ["boot", "event 0", "doorbell 1", "doorbell 0"]
    );
    board.run(1_000_000);
    board.write(0x80000, 1);
    assert_eq!((board.calls(), board.read(0x704)), (vec![], 1));
    board.write(0x700, 0);
    board.write(0x30, 0x101);
    board.run(100_000);
    boot(&mut board);
    assert_eq!(board.calls(), ["disable", "reset", "boot", "event 0"]);
}

#[test]
fn the_firmware_waits_for_an_update_but_not_for_a_lock() {
    let mut board = Board::new("");
    boot(&mut board);
    board.calls();
    // The driver polls for the MCU without sleeping while somebody else holds the lock.
    board.write64(0x2410, 14);
    board.as_command(0, 2);
    board.write(0x80000, 1);
    assert_eq!(board.calls(), ["doorbell 0"]);
    board.as_command(0, 3);
    assert_eq!(board.calls(), ["space 0"]);
    board.write64(0x2430, ADRMODE_UNMAPPED);
    board.write(0x2418, 1);
    board.write(0x80000, 1);
    assert_eq!(board.calls(), [""; 0]);
    board.run(10_000);
    assert_eq!(board.calls(), ["doorbell 0", "space 0"]);
}

#[test]
fn a_lost_job_interrupt_comes_with_the_next() {
    let mut board = Board::new("fault=irq-lost:irq=job:once");
    boot(&mut board);
    assert_eq!((board.hw.lines(), board.read(0x100c)), (0, 1 << 31));
    board.write(0x1000, 1);
    assert_eq!((board.hw.lines(), board.read(0x100c)), (1, 1 << 31 | 1));
}

#[test]
fn spurious_faults_come_at_their_time() {
    let mut board = Board::new(
        "fault=spurious-fault:kind=gpu:at=1ms:address=0x1234,fault=spurious-fault:kind=mmu:at=2ms:as=3:code=0xc2",
    );
    board.write(0x28, GPU_MASK);
    board.write(0x2008, 0xff);
    assert_eq!(board.hw.next_deadline(), Some(1_000_000));
    board.run(1_500_000);
    assert_eq!(board.hw.lines(), 1 << Line::Gpu as u32);
    assert_eq!(
        (board.read(0x3c), board.read(0x40), board.read(0x44)),
        (0x80, 0x1234, 0)
    );
    board.write(0x24, GPU_IRQ_FAULT);
    board.run(1_000_000);
    assert_eq!(board.hw.lines(), 1 << Line::Mmu as u32);
    assert_eq!((board.read(0x200c), board.read(0x24dc)), (8, 0x2c2));
    assert_eq!(
        board.read(0x34) & GPU_STATUS_PAGE_FAULT,
        GPU_STATUS_PAGE_FAULT
    );
    board.write(0x2004, 8);
    assert_eq!((board.hw.lines(), board.read(0x34)), (0, 0));
}

#[test]
fn slow_registers_take_their_time() {
    let mut board = Board::new("fault=slow-registers:by=3us:offset=0x700");
    board.read(0x700);
    assert_eq!(board.hw.stall(), 3000);
    board.read(0x704);
    assert_eq!(board.hw.stall(), 0);
}

#[test]
fn counters_run_at_their_clocks() {
    let mut board = Board::new("gpu_mhz=0.2");
    board.run(1_000_000_000 - 100);
    assert_eq!(board.hw.read(0x90, 8, board.now), 199_999);
    assert_eq!(board.read(0x98), 24_000_000);
    board.write64(0x88, 5);
    assert_eq!(
        board.hw.read(0x98, 8, board.now) - 24_000_000,
        5 + (board.now - 1_000_000_000) * 24 / 1000
    );
}

#[test]
fn a_second_start_without_disable_boots_nothing() {
    // 7.x after a fast boot that failed: panthor_device_resume switches the L2 off and on and starts again.
    let mut board = Board::new("fault=boot-fails:reset=any:once");
    board.l2_on();
    board.as_enable(0, 0);
    board.write(0x700, 2);
    board.run(1_000_000);
    assert_eq!(board.read(0x704), 0);
    board.write(0x1e0, 1);
    board.run(100_000);
    board.l2_on();
    board.write(0x700, 2);
    board.run(1_000_000_000);
    assert_eq!(board.read(0x704), 0);
    assert_eq!(board.broken(), [Rule::Busy]);
    assert!(!board.calls().contains(&"boot".to_owned()));
    // 6.12: panthor_fw_stop lies between.
    board.write(0x700, 0);
    board.write(0x700, 2);
    board.run(1_000_000);
    assert_eq!(board.read(0x704), 1);
}
