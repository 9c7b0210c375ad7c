//! Random bytes never bring the simulator down.

use panthor_uapi::Transport;
use panthor_uapi::sys::sync_file::*;
use proptest::prelude::*;
use proptest::strategy::ValueTree;

use super::client::{Client, KERNELS, open, signal};
use super::script::Act;

/// A struct of random words, many of them small or meaningful: pointers to `memory`, page multiples, flags.
fn words(memory: u64) -> impl Strategy<Value = Vec<u32>> {
    let pointer = move |offset: u64| {
        vec![
            (memory + offset % 4096) as u32,
            ((memory + offset % 4096) >> 32) as u32,
        ]
    };
    let word = prop_oneof![
        4 => (0_u32..5).prop_map(|n| vec![n]),
        1 => Just(vec![0]),
        2 => (0_u32..256).prop_map(|n| vec![n << 12, 0]),
        1 => any::<u32>().prop_map(|n| vec![n]),
        1 => (0_u32..32).prop_map(|n| vec![1 << n]),
        2 => prop_oneof![Just(8_u32), Just(16), Just(24), Just(40), Just(48)].prop_map(|n| vec![n]),
        2 => any::<u64>().prop_map(pointer),
    ];
    prop::collection::vec(word, 1..14).prop_map(|words| words.concat())
}

fn client(kernel: &str) -> Client {
    let client = open(&format!("sim:kernel={kernel},memory=64,job_timeout_ms=100"));
    let (vm, bo) = (client.vm(), client.bo(1 << 16));
    client.bind_at(vm, bo, 0, 1 << 16);
    let (group, done) = (client.group(vm), client.syncobj());
    client.run(group, 0, 0x1000, &[Act::Cycles(1000)], &[signal(done, 0)]);
    client.syncobj();
    client
}

/// Memory for user pointers, and behind it a hole of 4 GiB: random sizes lead the driver beyond the memory, and what lies
/// there must be nobody's.
struct Arena(*mut u64);

impl Arena {
    const WORDS: usize = 1024;
    const HOLE: usize = 4 << 30;

    fn new() -> Self {
        use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect};
        // SAFETY: a new mapping of our own, of which only the first pages become accessible.
        let base = unsafe {
            let base = mmap_anonymous(
                std::ptr::null_mut(),
                Self::HOLE,
                ProtFlags::empty(),
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )
            .unwrap();
            mprotect(
                base,
                8 * Self::WORDS,
                MprotectFlags::READ | MprotectFlags::WRITE,
            )
            .unwrap();
            base
        };
        Self(base.cast())
    }

    fn words(&mut self) -> &mut [u64] {
        // SAFETY: the first pages are mapped for reading and writing, page-aligned, zero from the start, and ours until drop.
        unsafe { std::slice::from_raw_parts_mut(self.0, Self::WORDS) }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: exactly what `new` mapped; the slices of `words` have ended.
        unsafe { rustix::mm::munmap(self.0.cast(), Self::HOLE).unwrap() }
    }
}

/// The call would sleep until somebody else does something: a deadline of "never", taken out of the struct.
fn bound_wait(nr: u32, words: &mut [u32]) {
    let high = match nr {
        0xc3 => 3,
        0xca => 5,
        _ => return,
    };
    if let Some(word) = words.get_mut(high) {
        *word &= 0xff;
    }
}

/// 300 cases, or what PROPTEST_CASES says.
fn config() -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES")
        .ok()
        .and_then(|cases| cases.parse().ok());
    ProptestConfig {
        cases: cases.unwrap_or(300),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn random_ioctls_never_panic(
        kernel in 0..3_usize,
        calls in prop::collection::vec((0_u32..0xd8, 0_u32..4, prop::option::weighted(0.1, 0_u32..200), any::<u64>()), 1..24),
        seed in any::<u64>(),
    ) {
        let client = client(KERNELS[kernel]);
        let mut memory = Arena::new();
        let base = memory.0 as u64;
        let mut runner = proptest::test_runner::TestRunner::new_with_rng(
            ProptestConfig::default(),
            proptest::test_runner::TestRng::from_seed(
                proptest::test_runner::RngAlgorithm::ChaCha,
                &std::array::from_fn::<u8, 32, _>(|i| seed.to_le_bytes()[i % 8]),
            ),
        );
        for (nr, direction, size, fill) in calls {
            for word in memory.words() {
                let tree = words(base).new_tree(&mut runner).unwrap();
                let words = tree.current();
                *word = u64::from(words[0]) | u64::from(words.get(1).copied().unwrap_or(fill as u32)) << 32;
                if fill % 7 != 0 {
                    break;
                }
            }
            let mut args = words(base).new_tree(&mut runner).unwrap().current();
            args.resize(64, 0);
            bound_wait(nr, &mut args);
            let direction = if direction == 0 { 0 } else { 3 };
            let size = size.unwrap_or(24 + (fill % 64) as u32);
            let request = direction << 30 | size << 16 | u32::from(b'd') << 8 | nr;
            let _ = client.raw(client.fd, request, args.as_mut_ptr().cast());
        }
        for request in [SYNC_IOC_MERGE, SYNC_IOC_FILE_INFO] {
            let _ = client.raw(client.fd, request, memory.0.cast());
        }
        client.close(client.fd);
        client.device.sleep_until(client.device.now() + 1_000_000_000);
        prop_assert_eq!(client.device.live_objects().groups, 0);
        prop_assert_eq!(client.device.live_objects().pending_binds, 0);
    }
}
