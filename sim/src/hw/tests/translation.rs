//! Page tables and the commands around them.

use super::super::page_table::Table;
use super::super::regs::*;
use super::*;
use crate::mmu::{Access, AddressSpace, MmuFaultKind};

/// nG, AF, inner shareable, unprivileged, cached: what io-pgtable-arm writes for a readable and writable cached page,
/// without address and type.
const RW: u64 = 1 << 11 | 1 << 10 | 3 << 8 | 1 << 6 | 1 << 2;
const RDONLY: u64 = 1 << 7;
const XN: u64 = 3 << 53;
const TABLE: u64 = 3;
const PAGE: u64 = 3;
const BLOCK: u64 = 1;

/// The root; tables of levels 1 to 3 follow it.
const ROOT: u64 = 0x10_0000;

/// Writes the entries that lead to `va`: tables, then `leaf` at `level`.
fn map(memory: &PhysMem, va: u64, leaf: u64, level: u64) {
    for at in 0..=level {
        let table = ROOT + 0x1000 * at;
        let index = va >> (39 - 9 * at) & 511;
        let entry = if at == level {
            leaf
        } else {
            (table + 0x1000) | TABLE
        };
        memory.write64(table + 8 * index, entry).unwrap();
    }
}

fn board() -> Board {
    let mut board = Board::new("");
    board.l2_on();
    board.as_enable(1, ROOT);
    board
}

fn lock(board: &mut Board, va: u64, width: u64) {
    board.write64(0x2450, va | width);
    board.as_command(1, 2);
}

#[test]
fn pages_and_blocks_lead_to_memory() {
    let board = board();
    map(
        &board.memory,
        0x7fff_1234_5000,
        0x2_3000 | RW | XN | PAGE,
        3,
    );
    assert_eq!(board.walk(1, 0x7fff_1234_5678, Access::Read), Ok(0x2_3678));
    assert_eq!(board.walk(1, 0x7fff_1234_5678, Access::Write), Ok(0x2_3678));
    let fault = WalkFault::Permission(3);
    assert_eq!(board.walk(1, 0x7fff_1234_5678, Access::Execute), Err(fault));
    map(
        &board.memory,
        0x4020_0000,
        0x20_0000 | RW | RDONLY | BLOCK,
        2,
    );
    assert_eq!(board.walk(1, 0x402f_fff8, Access::Execute), Ok(0x2f_fff8));
    let fault = WalkFault::Permission(2);
    assert_eq!(board.walk(1, 0x4020_0000, Access::Write), Err(fault));
    assert_eq!(board.broken(), []);

    let core = &board.hw.core;
    let view = core.spaces.view(&core.memory, 1);
    let page = view.translate(0x7fff_1234_5678, Access::Read).unwrap();
    let flags = (page.size, page.writable, page.executable, page.uncached);
    assert_eq!(flags, (4096, true, false, false));
    let page = view.translate(0x402f_0000, Access::Read).unwrap();
    assert_eq!(
        (page.size, page.writable, page.executable),
        (2 << 20, false, true)
    );
    assert_eq!(page.host, core.memory.host(0x20_0000, 2 << 20).unwrap());
    let fault = view.translate(0x4020_0000, Access::Write).unwrap_err();
    assert_eq!(
        (fault.kind, fault.va),
        (MmuFaultKind::Permission, 0x4020_0000)
    );
}

#[test]
fn attributes_tell_what_is_not_cached() {
    let board = board();
    for (index, uncached) in [(0, true), (1, false), (2, true)] {
        let leaf = (RW & !(7 << 2)) | index << 2 | PAGE;
        map(&board.memory, 0x1000 * (index + 1), 0x5000 | leaf, 3);
        let core = &board.hw.core;
        let leaf = core
            .spaces
            .walk(&core.memory, 1, 0x1000 * (index + 1), Access::Read);
        assert_eq!(leaf.unwrap().uncached, uncached, "{index}");
    }
    // The attribute that faults.
    let table = Table {
        root: ROOT,
        va_bits: 48,
        memattr: 3 << 6,
        transcfg: TRANSCFG,
    };
    let fault = table.walk(&board.memory, 0x1000, Access::Read);
    assert_eq!(fault.unwrap_err(), WalkFault::MemoryAttribute(3));
}

#[test]
fn faults_tell_the_level() {
    let board = board();
    let walk = |va| board.walk(1, va, Access::Read).unwrap_err();
    map(&board.memory, 0, 0x5000 | RW | PAGE, 3);
    assert_eq!(walk(1 << 39), WalkFault::Translation(0));
    assert_eq!(walk(1 << 30), WalkFault::Translation(1));
    assert_eq!(walk(1 << 21), WalkFault::Translation(2));
    assert_eq!(walk(1 << 12), WalkFault::Translation(3));
    assert_eq!(walk(1 << 48), WalkFault::AddressSizeIn);
    assert_eq!(walk(u64::MAX), WalkFault::AddressSizeIn);
    assert_eq!(walk(1 << 12).exception(), 0xc3);
    let unmapped = board.walk(2, 0, Access::Read).unwrap_err();
    assert_eq!(
        (unmapped, unmapped.exception()),
        (WalkFault::Unmapped, 0xc0)
    );
    for (number, fault) in [(9, 0), (255, 0)] {
        let unmapped = board.walk(number, fault, Access::Read);
        assert_eq!(unmapped, Err(WalkFault::Unmapped));
    }
}

#[test]
fn hostile_entries_are_faults() {
    for (leaf, level, fault) in [
        // Reserved types: a block at the root, at the last level.
        (RW | BLOCK, 0, WalkFault::Translation(0)),
        (RW | BLOCK, 3, WalkFault::Translation(3)),
        (RW | 2, 3, WalkFault::Translation(3)),
        // No access flag, only for privileged accesses.
        ((RW & !(1 << 10)) | PAGE, 3, WalkFault::AccessFlag(3)),
        ((RW & !(1 << 6)) | PAGE, 3, WalkFault::Permission(3)),
        // More bits than physical addresses have; tables and blocks where they cannot be.
        (1 << 40 | RW | PAGE, 3, WalkFault::AddressSizeOut(3)),
        (1 << 47 | TABLE, 0, WalkFault::AddressSizeOut(0)),
        (1 << 39 | TABLE, 1, WalkFault::NoMemory(2)),
        (0x1000 | RW | BLOCK, 2, WalkFault::Misaligned(2)),
    ] {
        let mut board = board();
        map(&board.memory, 0, leaf, level);
        assert_eq!(board.walk(1, 0, Access::Read), Err(fault), "{leaf:#x}");
        board.run(0);
        let rule = fault.is_malformed().then_some(Rule::PageTable);
        assert_eq!(board.broken(), Vec::from_iter(rule), "{fault:?}");
    }
}

#[test]
fn a_page_beyond_memory_is_no_host_memory() {
    let board = board();
    map(&board.memory, 0, 1 << 30 | RW | PAGE, 3);
    // A block of which memory holds only the first half.
    map(&board.memory, 1 << 30, RW | BLOCK, 1);
    let core = &board.hw.core;
    let view = core.spaces.view(&core.memory, 1);
    let fault = view.translate(0, Access::Read).unwrap_err();
    assert_eq!(fault.kind, MmuFaultKind::Translation);
    let page = view.translate((1 << 30) + 0x3008, Access::Read).unwrap();
    assert_eq!(page.size, 4096);
    assert_eq!(page.host, core.memory.host(0x3000, 4096).unwrap());
    assert!(view.translate((1 << 30) + MEMORY, Access::Read).is_err());
}

#[test]
fn tables_restrict_what_lies_below() {
    let board = board();
    map(&board.memory, 0, 0x5000 | RW | PAGE, 3);
    let above = |bits: u64| {
        board
            .memory
            .write64(ROOT + 0x1000, (ROOT + 0x2000) | TABLE | bits)
            .unwrap();
        [Access::Read, Access::Write, Access::Execute]
            .map(|access| board.walk(1, 0, access).is_ok())
    };
    assert_eq!(above(0), [true, true, true]);
    assert_eq!(above(1 << 62), [true, false, true]);
    assert_eq!(above(3 << 59), [true, true, false]);
    assert_eq!(above(1 << 61), [false, false, false]);
    // NSTable has no meaning here.
    assert_eq!(above(1 << 63), [true, true, true]);
}

#[test]
fn registers_take_effect_with_update() {
    let mut board = Board::new("");
    board.l2_on();
    map(&board.memory, 0, 0x5000 | RW | PAGE, 3);
    board.write64(0x2440, ROOT);
    board.write64(0x2448, MEMATTR);
    board.write64(0x2470, TRANSCFG);
    assert!(!board.hw.core.spaces.is_mapped(1));
    board.write(0x2458, 1);
    assert_eq!(board.walk(1, 0, Access::Read), Err(WalkFault::Unmapped));
    board.run(10_000);
    assert_eq!(board.walk(1, 0, Access::Read), Ok(0x5000));
    // `panthor_mmu_as_disable`.
    board.write64(0x2440, 0);
    board.write64(0x2470, ADRMODE_UNMAPPED);
    assert_eq!(board.walk(1, 0, Access::Read), Ok(0x5000));
    board.as_command(1, 1);
    assert_eq!(board.walk(1, 0, Access::Read), Err(WalkFault::Unmapped));
    assert_eq!(board.read(0x2000), 1 << (16 + 1));
    assert_eq!(board.broken(), []);
}

#[test]
fn updates_with_nonsense_are_breaches() {
    for (root, transcfg) in [
        (ROOT, 8),
        (ROOT, 0),
        (ROOT + 8, TRANSCFG),
        (1 << 40, TRANSCFG),
        (ROOT, TRANSCFG & !(31 << 6)),
    ] {
        let mut board = Board::new("");
        board.l2_on();
        board.write64(0x2440, root);
        board.write64(0x2470, transcfg);
        board.write(0x2458, 1);
        assert_eq!(board.read(0x2468), 0);
        assert_eq!(board.broken(), [Rule::BadValue], "{transcfg:#x}");
        assert!(!board.hw.core.spaces.is_mapped(1));
    }
}

#[test]
fn a_locked_region_is_unlocked_or_flushed() {
    for (command, name) in [(3, "unlock"), (4, "flush-pt"), (5, "flush-mem")] {
        let mut board = board();
        let flushes = board.read(0x10000);
        lock(&mut board, 0x10_0000, 14);
        assert!(board.hw.core.spaces.is_locked(1), "{name}");
        board.as_command(1, command);
        assert!(!board.hw.core.spaces.is_locked(1), "{name}");
        assert_eq!(
            board.read(0x10000),
            flushes + u32::from(command != 3),
            "{name}"
        );
        assert_eq!(board.broken(), [], "{name}");
        // 6.12 locks everything: width 63.
        lock(&mut board, 0, 63);
        board.as_command(1, command);
        assert_eq!(board.broken(), [], "{name}");
    }
}

#[test]
fn commands_out_of_order_are_breaches() {
    let mut board = board();
    board.write(0x2458, 3);
    board.write64(0x2450, 13);
    board.write(0x2458, 2);
    board.write(0x2458, 6);
    assert_eq!(board.broken(), [Rule::BadValue; 3]);
    board.write64(0x2450, 14);
    board.write(0x2458, 2);
    board.write(0x2458, 2);
    assert_eq!(board.broken()[3..], [Rule::Busy]);
}

#[test]
fn a_stuck_command_keeps_the_space_busy_until_a_reset() {
    let mut board = Board::new("fault=as-stuck:as=1:command=lock:once");
    board.l2_on();
    board.as_enable(1, ROOT);
    board.write64(0x2450, 14);
    board.write(0x2458, 2);
    board.run(1_000_000_000);
    assert_eq!(board.read(0x2468), 1);
    board.write(0x30, 0x101);
    board.run(100_000);
    assert_eq!(board.read(0x2468), 0);
    board.l2_on();
    board.as_enable(1, ROOT);
    lock(&mut board, 0, 14);
    assert_eq!(board.broken(), []);
}

#[test]
fn the_first_fault_stays_until_it_is_cleared() {
    let mut board = board();
    board.write(0x2008, 0xff);
    let now = board.now;
    let mut fault = |va, access| {
        let core = &mut board.hw.core;
        Ctx { core, now }.page_fault(1, va, access, 0x12);
    };
    fault(0x1234, Access::Write);
    fault(0x9999, Access::Read);
    board.run(0);
    assert_eq!((board.hw.lines(), board.read(0x200c)), (2, 2));
    assert_eq!(
        (board.read(0x245c), board.read(0x2460), board.read(0x2464)),
        (0x12_03c0, 0x1234, 0)
    );
    board.write(0x2004, 2);
    assert_eq!((board.hw.lines(), board.read(0x2460)), (0, 0x1234));
    let core = &mut board.hw.core;
    Ctx { core, now }.page_fault(1, 0x9999, Access::Read, 0);
    assert_eq!((board.read(0x245c), board.read(0x2460)), (0x2c0, 0x9999));
}

#[test]
fn an_entry_that_changes_without_a_lock_is_noticed() {
    let mut board = board();
    map(&board.memory, 0, 0x5000 | RW | PAGE, 3);
    board.walk(1, 0, Access::Read).unwrap();
    // With a lock between: as 7.x does.
    lock(&mut board, 0, 14);
    map(&board.memory, 0, 0x6000 | RW | PAGE, 3);
    board.as_command(1, 3);
    assert_eq!(board.walk(1, 0, Access::Read), Ok(0x6000));
    assert_eq!(board.broken(), []);
    // A lock of another region does not help.
    lock(&mut board, 1 << 30, 14);
    map(&board.memory, 0, 0x7000 | RW | PAGE, 3);
    board.as_command(1, 3);
    board.walk(1, 0, Access::Read).unwrap();
    board.run(0);
    assert_eq!(board.broken(), [Rule::StaleTranslation]);
    // Nor is an entry that is gone.
    map(&board.memory, 0, 0, 3);
    board.walk(1, 0, Access::Read).unwrap_err();
    board.run(0);
    assert_eq!(board.broken(), [Rule::StaleTranslation; 2]);
    // An entry that is new needs no lock.
    map(&board.memory, 0x1000, 0x8000 | RW | PAGE, 3);
    board.walk(1, 0x1000, Access::Read).unwrap();
    board.run(0);
    assert_eq!(board.broken().len(), 2);
}
