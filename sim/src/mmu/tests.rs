use std::sync::Arc;

use mali_isa::csf::FlushMode;
use proptest::prelude::*;

use super::*;
use crate::shader::{MemoryPort, ShaderMemory};

const VA: u64 = 0x10_0000;

fn space() -> FlatSpace {
    let mut space = FlatSpace::new();
    space.map(VA, 0x4000, Mapping::DATA);
    space.map(0x20_0000, 0x1000, Mapping::CODE);
    space.map(0x30_0000, 0x1000, Mapping::UNCACHED);
    space.map(
        0x40_0000,
        0x1000,
        Mapping {
            writable: true,
            executable: true,
            uncached: false,
        },
    );
    space
}

fn host_word(space: &FlatSpace, va: u64) -> u32 {
    let mut bytes = [0; 4];
    space.read(va, &mut bytes).unwrap();
    u32::from_le_bytes(bytes)
}

fn job(agent: u32, waited: &[u32], visible: &[u32], rule: LscRule) -> View {
    let mut known = Knowledge::below(1);
    waited.iter().for_each(|a| known.waited.insert(*a));
    visible.iter().for_each(|a| known.visible.insert(*a));
    View::job(agent, known, rule)
}

#[test]
fn gpu_writes_reach_the_host_only_by_clean_of_both_caches() {
    let (space, caches) = (space(), Caches::new());
    space.write(VA + 4, &[9; 4]).unwrap();
    let mut port = JobMemory::new(&space, &caches, job(1, &[], &[], LscRule::default())).port(0);
    port.store(VA, 0x1234_5678u32.to_le_bytes()).unwrap();
    assert_eq!(port.load(VA).unwrap(), 0x1234_5678u32.to_le_bytes());
    assert_eq!(host_word(&space, VA), 0);
    // The L2 alone does not have what the load-store cache holds, and a job that is not done is not cleaned.
    assert_eq!(caches.flush(FlushMode::Clean, FlushMode::None, None), 0);
    let mut done = AgentSet::below(1);
    assert_eq!(host_word(&space, VA), 0);
    caches.flush(FlushMode::Clean, FlushMode::Clean, Some(&done));
    assert_eq!(host_word(&space, VA), 0);
    assert!(caches.is_dirty());
    done.insert(1);
    assert_eq!(
        caches.flush(FlushMode::Clean, FlushMode::Clean, Some(&done)),
        1
    );
    assert_eq!(host_word(&space, VA), 0x1234_5678);
    assert_eq!(host_word(&space, VA + 4), 0x0909_0909);
    assert!(!caches.is_dirty());
}

#[test]
fn lines_stay_until_invalidated_and_are_written_back_whole() {
    let (space, caches) = (space(), Caches::new());
    let mut port = JobMemory::new(&space, &caches, job(1, &[], &[], LscRule::default())).port(0);
    port.store(VA, [1; 4]).unwrap();
    // The host writes beside it, within the line: lost by the write-back, as on hardware.
    space.write(VA + 8, &[7; 4]).unwrap();
    space.write(VA + 64, &[7; 4]).unwrap();
    caches.flush(FlushMode::Clean, FlushMode::Clean, None);
    assert_eq!(
        (host_word(&space, VA + 8), host_word(&space, VA + 64)),
        (0, 0x0707_0707)
    );
    // The line is still there, so that the host's next write is hidden until it is invalidated.
    space.write(VA, &[5; 4]).unwrap();
    assert_eq!(port.load::<4>(VA).unwrap(), [1; 4]);
    caches.clean_invalidate();
    assert_eq!(port.load::<4>(VA).unwrap(), [5; 4]);
}

#[test]
fn uncached_pages_go_straight_to_memory() {
    let (space, caches) = (space(), Caches::new());
    let mut port = JobMemory::new(&space, &caches, job(1, &[], &[], LscRule::default())).port(0);
    port.store(0x30_0000, [1, 2, 3, 4]).unwrap();
    assert_eq!(host_word(&space, 0x30_0000), 0x0403_0201);
    space.write(0x30_0000, &[9]).unwrap();
    assert_eq!(port.load::<4>(0x30_0000).unwrap(), [9, 2, 3, 4]);
    // Waiting is needed all the same, flushing is not.
    let read = |view| {
        JobMemory::new(&space, &caches, view)
            .port(0)
            .load::<4>(0x30_0000)
    };
    assert!(matches!(
        read(job(2, &[], &[], LscRule::Private)),
        Err(MemoryError::ReadBeforeWait { .. })
    ));
    assert!(read(job(2, &[1], &[], LscRule::Private)).is_ok());
}

#[test]
fn reads_need_the_wait_and_the_flush() {
    let (space, caches) = (space(), Caches::new());
    JobMemory::new(&space, &caches, job(1, &[], &[], LscRule::default()))
        .port(0)
        .store(VA, [1; 16])
        .unwrap();
    let read = |view| JobMemory::new(&space, &caches, view).port(1).load::<16>(VA);
    let error = read(job(2, &[], &[], LscRule::Private)).unwrap_err();
    assert_eq!(
        error,
        MemoryError::ReadBeforeWait {
            va: VA,
            writer: 1,
            reader: 2
        }
    );
    assert!(error.to_string().contains("without a wait"), "{error}");
    let error = read(job(2, &[1], &[], LscRule::Private)).unwrap_err();
    assert_eq!(
        error,
        MemoryError::ReadBeforeFlush {
            va: VA,
            writer: 1,
            reader: 2
        }
    );
    assert!(read(job(2, &[1], &[1], LscRule::Private)).is_ok());
    assert!(read(job(2, &[1], &[], LscRule::Coherent)).is_ok());
    // The neighbouring word was not written by anybody.
    let mut port = JobMemory::new(&space, &caches, job(3, &[], &[], LscRule::Private)).port(0);
    assert_eq!(port.load::<4>(VA + 16).unwrap(), [0; 4]);
    assert!(port.load::<8>(VA + 12).is_err());
}

#[test]
fn overwriting_needs_the_wait_for_readers_and_writers() {
    let (space, caches) = (space(), Caches::new());
    let mut first = JobMemory::new(&space, &caches, job(1, &[], &[], LscRule::default())).port(0);
    first.store(VA, [1; 4]).unwrap();
    let mut reader =
        JobMemory::new(&space, &caches, job(2, &[1], &[1], LscRule::default())).port(0);
    reader.load::<4>(VA).unwrap();
    let write = |view| {
        JobMemory::new(&space, &caches, view)
            .port(0)
            .store(VA, [3; 4])
    };
    let error = write(job(3, &[2], &[], LscRule::default())).unwrap_err();
    assert_eq!(
        error,
        MemoryError::WriteBeforeWait {
            va: VA,
            other: 1,
            writer: 3
        }
    );
    let error = write(job(3, &[1], &[], LscRule::Private)).unwrap_err();
    assert!(matches!(error, MemoryError::WriteBeforeWait { .. }));
    let error = write(job(3, &[1], &[], LscRule::default())).unwrap_err();
    assert_eq!(
        error,
        MemoryError::WriteBeforeRead {
            va: VA,
            reader: 2,
            writer: 3
        }
    );
    assert!(write(job(3, &[1, 2], &[], LscRule::default())).is_ok());
}

#[test]
fn mmu_faults_name_the_address() {
    let (space, caches) = (space(), Caches::new());
    let mut port = JobMemory::new(&space, &caches, job(1, &[], &[], LscRule::default())).port(0);
    let fault = |va, access, kind| Err(MemoryError::Mmu(MmuFault { va, access, kind }));
    use MmuFaultKind::{Permission, Translation};
    assert_eq!(
        port.load::<4>(0x99_0000),
        fault(0x99_0000, Access::Read, Translation).map(|()| [0; 4])
    );
    assert_eq!(
        port.store(0x20_0000, [0; 4]),
        fault(0x20_0000, Access::Write, Permission)
    );
    port.load::<4>(0x20_0000).unwrap();
    assert_eq!(
        port.store(0x20_0000, [0; 4]),
        fault(0x20_0000, Access::Write, Permission)
    );
    assert_eq!(
        port.fetch(VA),
        fault(VA, Access::Execute, Permission).map(|()| 0)
    );
    assert_eq!(
        port.fetch(0x40_0000),
        Err(MemoryError::WritableCode { va: 0x40_0000 })
    );
    space.write(0x20_0008, &[1, 2, 3, 4, 5, 6, 7, 8]).unwrap();
    assert_eq!(port.fetch(0x20_0008), Ok(0x0807_0605_0403_0201));
    // The last byte of one page and the first of an unmapped one.
    assert!(port.load::<2>(VA + 0x3fff).is_err());
}

#[test]
fn released_memory_is_forgotten() {
    let (space, caches) = (space(), Caches::new());
    let host = space.translate(VA, Access::Read).unwrap().host;
    {
        let mut port =
            JobMemory::new(&space, &caches, job(1, &[], &[], LscRule::default())).port(0);
        port.store(VA, [1; 4]).unwrap();
    }
    assert!(caches.is_dirty());
    caches.release(host, 4096);
    assert!(!caches.is_dirty());
    let mut port = JobMemory::new(&space, &caches, job(2, &[], &[], LscRule::default())).port(0);
    assert_eq!(port.load::<4>(VA).unwrap(), [0; 4]);
}

#[test]
fn flush_numbers_tell_what_may_be_skipped() {
    let caches = Caches::new();
    let seen = caches.latest_flush();
    assert!(!caches.flushed_since(seen) && !caches.flushed_since(0));
    caches.flush(FlushMode::None, FlushMode::Clean, None);
    assert!(!caches.flushed_since(seen));
    caches.clean_invalidate();
    assert!(caches.flushed_since(seen) && !caches.flushed_since(0));
    assert!(!caches.flushed_since(caches.latest_flush()));
}

#[test]
fn atomics_of_many_threads_add_up() {
    let (space, caches) = (space(), Caches::new());
    let memory = JobMemory::new(&space, &caches, job(1, &[], &[], LscRule::default()));
    std::thread::scope(|s| {
        for core in 0..4 {
            let memory = &memory;
            s.spawn(move || {
                let mut port = memory.port(core);
                for i in 0..1000u32 {
                    port.atomic32(VA, &mut |v| v.wrapping_add(1)).unwrap();
                    port.atomic64(VA + 8, &mut |v| v.wrapping_add(1 << 32))
                        .unwrap();
                    // Plain stores of bytes and words of one line, from all threads at once.
                    port.store(VA + 64 + u64::from(core), [i as u8]).unwrap();
                    port.store(VA + 128 + 4 * u64::from(core), i.to_le_bytes())
                        .unwrap();
                }
            });
        }
    });
    let mut port = memory.new_port();
    assert_eq!(port.load(VA).unwrap(), 4000u32.to_le_bytes());
    assert_eq!(port.load(VA + 8).unwrap(), (4000u64 << 32).to_le_bytes());
    assert_eq!(port.load::<4>(VA + 64).unwrap(), [231; 4]);
    for core in 0..4 {
        assert_eq!(
            port.load(VA + 128 + 4 * core).unwrap(),
            999u32.to_le_bytes()
        );
    }
}

#[test]
fn a_port_can_go_on_as_another_agent() {
    let (space, caches) = (space(), Caches::new());
    let mut port = JobMemory::new(&space, &caches, job(1, &[], &[], LscRule::default())).new_port();
    port.store(VA, [1; 4]).unwrap();
    port.set_view(Arc::new(job(2, &[], &[], LscRule::default())));
    assert!(port.load::<4>(VA).is_err());
    port.set_view(Arc::new(View::stream(
        0,
        Knowledge {
            waited: AgentSet::below(2),
            visible: AgentSet::below(2),
        },
        LscRule::default(),
    )));
    assert!(port.load::<4>(VA).is_ok());
    // What a stream writes needs only the wait.
    port.set_view(Arc::new(View::stream(
        3,
        Knowledge::below(2),
        LscRule::Private,
    )));
    port.store(VA + 64, [1; 4]).unwrap();
    port.set_view(Arc::new(job(4, &[3], &[], LscRule::Private)));
    assert!(port.load::<4>(VA + 64).is_ok());
}

#[test]
fn lanes_read_what_single_loads_read() {
    let (space, caches) = (space(), Caches::new());
    let memory = JobMemory::new(&space, &caches, job(1, &[], &[], LscRule::default()));
    let mut port = memory.port(0);
    let bytes: Vec<u8> = (0..0x4000u32).map(|i| (i * 7 + i / 256) as u8).collect();
    space.write(VA, &bytes).unwrap();
    // One page that the GPU has written, others that it has not, and one access across a page's end.
    port.store(VA + 0x1000, [0xee; 16]).unwrap();
    let va: [u64; 16] = std::array::from_fn(|lane| {
        VA + [0x1004, 0x1008, 0x0ffd, 0x2003, 0x2008, 0x10, 0x3000, 0][lane % 8]
            + 32 * (lane as u64 / 8)
    });
    for lanes in [0xffffu16, 0x0001, 0xa5a5, 0] {
        let mut out = [[0u8; 8]; 16];
        port.load_lanes(&va, lanes, &mut out).unwrap();
        for lane in 0..16 {
            let expected = if lanes >> lane & 1 != 0 {
                port.load::<8>(va[lane]).unwrap()
            } else {
                [0; 8]
            };
            assert_eq!(out[lane], expected, "{lanes:#x} {lane}");
        }
    }
    let mut bad = va;
    bad[9] = 0x99_0000;
    let (lane, error) = port
        .load_lanes(&bad, 0xffff, &mut [[0u8; 8]; 16])
        .unwrap_err();
    assert!(lane == 9 && matches!(error, MemoryError::Mmu(MmuFault { va: 0x99_0000, .. })));
}

#[test]
fn cores_of_a_job_share_data_only_by_atomics_and_past_the_caches() {
    let (space, caches) = (space(), Caches::new());
    let memory = JobMemory::new(&space, &caches, job(1, &[], &[], LscRule::default()));
    let [mut a, mut b] = [0, 1].map(|core| memory.port(core));
    a.store(VA, [1; 8]).unwrap();
    assert_eq!(a.load::<8>(VA).unwrap(), [1; 8]);
    let error = b.load::<4>(VA + 4).unwrap_err();
    let expected = MemoryError::ReadAcrossCores {
        va: VA + 4,
        job: 1,
        core: 1,
        other: 0,
    };
    assert_eq!(error, expected);
    assert!(
        error
            .to_string()
            .contains("by core 1 of what core 0 wrote in the same job 1")
    );
    assert!(b.load_lanes::<4>(&[VA; 16], 1, &mut [[0; 4]; 16]).is_err());
    // Bytes beside each other have nothing to do with each other.
    a.store(VA + 16, [2; 2]).unwrap();
    b.store(VA + 18, [3; 2]).unwrap();
    assert_eq!(a.load::<2>(VA + 16).unwrap(), [2; 2]);
    assert_eq!(b.load::<2>(VA + 18).unwrap(), [3; 2]);
    assert!(a.load::<4>(VA + 16).is_err() && b.load::<1>(VA + 17).is_err());
    // Whatever the order in which the host runs them: a store over what the other reads.
    a.store(VA + 32, [4; 4]).unwrap();
    assert!(a.load::<4>(VA + 32).is_ok() && a.load::<4>(VA + 36).is_ok());
    assert!(a.store(VA + 36, [5; 4]).is_ok());
    b.load::<4>(VA + 40).unwrap();
    let error = a.store(VA + 40, [5; 4]).unwrap_err();
    let expected = MemoryError::WriteAcrossCores {
        va: VA + 40,
        job: 1,
        core: 0,
    };
    assert_eq!(error, expected);
    assert!(error.to_string().contains("over what another core read"));
    a.load::<4>(VA + 44).unwrap();
    b.load::<4>(VA + 44).unwrap();
    assert!(a.store(VA + 44, [5]).is_err() && b.store(VA + 44, [5]).is_err());
    // Atomics, and what lies past the caches.
    a.atomic32(VA + 64, &mut |x| x + 1).unwrap();
    assert_eq!(b.atomic32(VA + 64, &mut |x| x + 1).unwrap(), 1);
    assert_eq!(a.load::<4>(VA + 64).unwrap(), [2, 0, 0, 0]);
    a.atomic64(VA + 72, &mut |x| x + 1).unwrap();
    assert_eq!(b.atomic64(VA + 72, &mut |x| x + 1).unwrap(), 1);
    a.store(0x30_0000, [7; 4]).unwrap();
    assert_eq!(b.load::<4>(0x30_0000).unwrap(), [7; 4]);
    // The next job begins anew, and where the caches are coherent nothing is wrong.
    let next = JobMemory::new(&space, &caches, job(2, &[1], &[1], LscRule::default()));
    assert_eq!(next.port(1).load::<8>(VA).unwrap(), [1; 8]);
    assert!(next.port(1).store(VA, [6; 4]).is_ok());
    let coherent = JobMemory::new(&space, &caches, job(3, &[1, 2], &[], LscRule::Coherent));
    coherent.port(0).store(VA, [8; 4]).unwrap();
    assert_eq!(coherent.port(1).load::<4>(VA).unwrap(), [8; 4]);
}

/// An address space that maps everything twice.
struct Twice(FlatSpace);

const ALIAS: u64 = 1 << 40;

// SAFETY: hands on what `FlatSpace` promises.
unsafe impl AddressSpace for Twice {
    fn translate(&self, va: u64, access: Access) -> Result<Page, MmuFault> {
        self.0.translate(va & !ALIAS, access)
    }
}

#[test]
fn two_addresses_of_a_page_share_its_lines_and_its_order() {
    let (space, caches) = (Twice(space()), Caches::new());
    let mut port = JobMemory::new(&space, &caches, job(1, &[], &[], LscRule::default())).port(0);
    port.store(VA, [5; 4]).unwrap();
    assert_eq!(port.load::<4>(VA | ALIAS).unwrap(), [5; 4]);
    let other = JobMemory::new(&space, &caches, job(2, &[], &[], LscRule::default()))
        .port(0)
        .load::<4>(VA | ALIAS);
    assert!(matches!(
        other,
        Err(MemoryError::ReadBeforeWait { writer: 1, .. })
    ));
}

proptest! {
    /// Any mix of widths and places gives what a plain array gives, and the host sees it after a flush.
    #[test]
    fn accesses_of_any_width_agree_with_plain_memory(
        steps in proptest::collection::vec((0u8..8, 0u64..8192 - 16, any::<[u8; 16]>()), 1..60)
    ) {
        let (space, caches) = (space(), Caches::new());
        let mut plain = vec![0u8; 8192];
        let mut port = JobMemory::new(&space, &caches, job(1, &[], &[], LscRule::default())).port(0);
        fn store<const N: usize>(port: &mut Port<'_, FlatSpace>, plain: &mut [u8], at: u64, bytes: &[u8; 16]) {
            let part: [u8; N] = bytes[..N].try_into().unwrap();
            port.store(VA + at, part).unwrap();
            plain[at as usize..at as usize + N].copy_from_slice(&part);
        }
        for (kind, at, bytes) in &steps {
            match kind {
                0 => store::<1>(&mut port, &mut plain, *at, bytes),
                1 => store::<2>(&mut port, &mut plain, *at, bytes),
                2 => store::<3>(&mut port, &mut plain, *at, bytes),
                3 => store::<4>(&mut port, &mut plain, *at, bytes),
                4 => store::<8>(&mut port, &mut plain, *at, bytes),
                5 => store::<16>(&mut port, &mut plain, *at, bytes),
                6 => { caches.flush(FlushMode::Clean, FlushMode::Clean, None); }
                _ => { caches.clean_invalidate(); }
            }
            prop_assert_eq!(&port.load::<16>(VA + at).unwrap()[..], &plain[*at as usize..*at as usize + 16]);
        }
        caches.clean_invalidate();
        let mut seen = vec![0u8; 8192];
        space.read(VA, &mut seen).unwrap();
        prop_assert_eq!(seen, plain);
    }
}
