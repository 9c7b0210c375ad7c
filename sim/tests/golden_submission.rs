//! One whole submission, worked out from Mesa's public descriptions by somebody who did not see this simulator: its
//! descriptors and its stream go into memory as they stand, the stream runs on a queue and the shader cores, and every
//! thread of the three-dimensional dispatch must appear once with the ids that belong to it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use mali_isa::valhall::assemble_program;
use panthor_sim::cost::JobUsage;
use panthor_sim::csf::{
    ComputeEndpoint, Device, Env, Event, Exception, JobError, JobParams, JobRecord, Queue, Stop,
    job_words,
};
use panthor_sim::mmu::{Caches, FlatSpace, LscRule, Mapping};
use panthor_sim::shader::{ComputeJob, ShaderCores, ShaderMemory};

const SUBMISSION: &str = include_str!("../../tests/golden/csf/submission-3d.txt");

/// The file's memory map.
const OBJECT: u64 = 0x1000_0000;
const CODE: u64 = 0x1000_0080;
const CODE_BYTES: usize = 0x80;
const DATA: u64 = 0x2000_0000;
const DATA_BYTES: usize = 0x1_0000;

/// The dispatch.
const GRID: [u32; 3] = [5, 6, 7];
const WORKGROUP: [u32; 3] = [4, 2, 3];
const THREADS: usize = 5040;
/// Axis y, two workgroups at a time: 3 pieces along y, 7 layers along z.
const TASKS: u64 = 21;

/// Where a thread leaves its record, by the number that the counter at the buffer's start gives it.
const RECORDS: u64 = 0x40;
const RECORD_WORDS: usize = 3;

/// Each thread takes a number from a counter (by the address in u0:u1) and stores three words at its record's place
/// (by the address of the buffer descriptor, table 0 entry 0): its local id x and y as r55 has them; local z and the
/// workgroup, a byte each; the global id, a byte each.
const SHADER: &str = "
    ATOM1_RETURN.i32.slot0.ainc @r8, u0, offset:0x0
    LEA_PKA.slot1 @r2:r3, 0x0, 0x0
    U16_TO_U32 r12, r56.h0
    LSHIFT_OR.i32 r12, r57, 0xB0A0908.b00, r12
    LSHIFT_OR.i32 r12, r58, 0x13121110.b00, r12
    LSHIFT_OR.i32.wait01 r12, r59, 0x1B1A1918.b00, r12
    LSHIFT_OR.i32 r13, r61, 0xB0A0908.b00, r60
    LSHIFT_OR.i32 r13, r62, 0x13121110.b00, r13
    IMUL.i32 r8, r8, 0xF0E0D0C.b0
    SHADDX.u64 r2, r2, r8.w0, shift:0x0
    STORE.i32.slot0 @r55, r2, offset:64
    STORE.i32.slot0 @r12, r2, offset:68
    STORE.i32.slot0.wait0 @r13, r2, offset:72
    NOP.end
";

fn hex(text: &str) -> u64 {
    u64::from_str_radix(text, 16).unwrap_or_else(|_| panic!("{text} is not hexadecimal"))
}

/// The descriptors' words by address, and each stream's address and words.
#[derive(Default)]
struct Submission {
    memory: Vec<(u64, Vec<u32>)>,
    streams: BTreeMap<&'static str, (u64, Vec<u64>)>,
}

fn submission() -> Submission {
    let mut found = Submission::default();
    let mut section = "";
    for line in SUBMISSION
        .lines()
        .filter(|l| !l.is_empty() && !l.starts_with('#'))
    {
        if line.starts_with('[') {
            section = line;
        } else if section == "[descriptors]" {
            let (head, _) = line.split_once(" : ").expect("words : meaning");
            let mut parts = head.split(' ').skip(1);
            let address = parts.next().and_then(|p| p.strip_prefix("@0x"));
            let words = parts.map(|w| hex(w) as u32).collect();
            found
                .memory
                .push((hex(address.expect("an address")), words));
        } else if let Some(name) = section.strip_prefix("[stream-") {
            let (name, place) = name.split_once(']').expect("a section");
            let address = place.trim().split(',').next().expect("an address");
            let address = hex(address.strip_prefix("@0x").expect("an address"));
            let word = line.split(' ').next().expect("a word");
            let stream = found.streams.entry(name).or_insert((address, Vec::new()));
            stream.1.push(hex(word));
        }
    }
    assert_eq!((found.memory.len(), found.streams.len()), (6, 3));
    found
}

/// The shader cores, and what the jobs that they ran were made of.
struct Cores {
    cores: ShaderCores,
    tasks: Mutex<Vec<(u64, u64)>>,
}

impl ComputeEndpoint for Cores {
    fn run<M: ShaderMemory>(&self, job: &ComputeJob, memory: &M) -> Result<JobUsage, JobError> {
        let usage = self
            .cores
            .run(job, memory)
            .map_err(|fault| JobError::Fault {
                exception: Exception::DataInvalidFault,
                pc: fault.at.as_ref().map_or(0, |place| place.pc),
                cause: fault,
            })?;
        let mut tasks = self.tasks.lock().expect("no panic");
        tasks.push((usage.tasks, usage.workgroups));
        Ok(JobUsage::default())
    }
}

fn cores(threads: usize) -> Cores {
    Cores {
        cores: ShaderCores {
            // The four cores of an RK3588, whose numbers have gaps.
            core_ids: vec![0, 2, 16, 18],
            threads,
            seed: 0,
            instruction_limit: 1 << 20,
        },
        tasks: Mutex::default(),
    }
}

/// Takes jobs and does not run them.
struct Idle;

impl ComputeEndpoint for Idle {
    fn run<M: ShaderMemory>(&self, _: &ComputeJob, _: &M) -> Result<JobUsage, JobError> {
        Ok(JobUsage::default())
    }
}

fn execute<E: ComputeEndpoint>(name: &str, endpoint: &E) -> (FlatSpace, Vec<JobRecord>) {
    try_execute(&submission(), name, endpoint).unwrap_or_else(|fault| panic!("{name}: {fault}"))
}

/// Puts the submission into memory, runs one of its streams to the end on a new queue and returns what it ran, or the
/// text of a fault.
fn try_execute<E: ComputeEndpoint>(
    submission: &Submission,
    name: &str,
    endpoint: &E,
) -> Result<(FlatSpace, Vec<JobRecord>), String> {
    let mut space = FlatSpace::new();
    space.map(OBJECT, 0x1000, Mapping::CODE);
    space.map(DATA, DATA_BYTES as u64, Mapping::DATA);
    for (address, words) in &submission.memory {
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        space.write(*address, &bytes).expect("mapped");
    }
    let code = assemble_program(SHADER).expect("assembles");
    let code: Vec<u8> = code.iter().flat_map(|w| w.to_le_bytes()).collect();
    assert!(code.len() <= CODE_BYTES);
    space.write(CODE, &code).expect("mapped");
    let (start, words) = &submission.streams[name];
    let stream: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    space.write(*start, &stream).expect("mapped");

    let caches = Caches::new();
    let mut device = Device::new(LscRule::Private, 1_000_000_000);
    let mut queue = Queue::new(0, 0);
    let call = JobParams {
        latest_flush: 0,
        start: *start,
        size: stream.len() as u32,
        sync: None,
    };
    queue.enqueue(&job_words(&call).expect("encodes"));
    let mut now = 0;
    loop {
        let mut env = Env {
            space: &space,
            caches: &caches,
            endpoint,
            device: &mut device,
            now,
        };
        match queue.run(&mut env, 1 << 16) {
            Stop::WaitUntil(cycle) => now = cycle,
            Stop::Idle => break,
            Stop::Fault(fault) => return Err(fault.to_string()),
            stop => panic!("{name}: {stop:?}"),
        }
    }
    assert!(!queue.has_error());
    assert!(!caches.is_dirty(), "the stream's last flush leaves nothing");
    let jobs = device
        .take_events()
        .filter_map(|event| match event {
            Event::Job(record) => Some(record),
            Event::Fault { fault, .. } => panic!("{fault:?}"),
            Event::SyncUpdate { .. } | Event::RenderPass { .. } => None,
        })
        .collect();
    Ok((space, jobs))
}

/// The one job of a stream.
fn job(records: &[JobRecord]) -> ComputeJob {
    assert_eq!(records.len(), 1);
    records[0].job
}

fn word(space: &FlatSpace, va: u64) -> u32 {
    let mut bytes = [0; 4];
    space.read(va, &mut bytes).expect("mapped");
    u32::from_le_bytes(bytes)
}

/// What the registers of the file mean to the cores; the offset is the stream's.
fn expected(offset: [u32; 3]) -> ComputeJob {
    ComputeJob {
        srt: 0x1000_0181,
        fau: 0x0300_0000_1000_0000,
        spd: 0x1000_0140,
        tsd: 0x1000_0100,
        attribute_offset: 0,
        workgroup_size: 0x0020_0403,
        offset,
        size: GRID,
        task_axis: 1,
        task_increment: 2,
    }
}

#[test]
fn every_thread_of_the_grid_runs_once_with_its_ids() {
    for threads in [1, 2] {
        let endpoint = cores(threads);
        let (space, records) = execute("immediate-no-offset", &endpoint);
        assert_eq!(job(&records), expected([0; 3]));
        let tasks = endpoint.tasks.into_inner().expect("no panic");
        assert_eq!(tasks, [(TASKS, 210)]);
        assert_eq!(word(&space, DATA) as usize, THREADS);
        let mut seen = BTreeSet::new();
        for number in 0..THREADS {
            let at = DATA + RECORDS + 4 * (RECORD_WORDS * number) as u64;
            let [first, second, third] = [0, 4, 8].map(|n| word(&space, at + n));
            let byte = |word: u32, n: u32| word >> (8 * n) & 0xff;
            let local = [first & 0xffff, first >> 16, byte(second, 0)];
            let workgroup = [1, 2, 3].map(|n| byte(second, n));
            let global = [0, 1, 2].map(|n| byte(third, n));
            assert_eq!(third >> 24, 0);
            for axis in 0..3 {
                assert!(local[axis] < WORKGROUP[axis], "{local:?}");
                assert!(workgroup[axis] < GRID[axis], "{workgroup:?}");
                assert_eq!(
                    global[axis],
                    workgroup[axis] * WORKGROUP[axis] + local[axis],
                    "{workgroup:?} {local:?} {global:?}"
                );
            }
            assert!(seen.insert((workgroup, local)), "{workgroup:?} {local:?}");
        }
        assert_eq!(seen.len(), THREADS);
        let end = DATA + RECORDS + 4 * (RECORD_WORDS * THREADS) as u64;
        assert_eq!(word(&space, end), 0, "nothing behind the last record");
    }
}

/// Nothing public states what a job's offset means, so that these two are not run on the cores.
#[test]
fn the_streams_with_offsets_give_the_cores_their_registers() {
    for name in ["immediate", "load"] {
        let (_, records) = execute(name, &Idle);
        assert_eq!(job(&records), expected([1, 2, 3]), "{name}");
    }
}

/// The ids come from the preload bits of the file's program descriptor: without one of them the shader stops.
#[test]
fn without_its_preload_bit_the_last_id_is_an_error() {
    let mut submission = submission();
    let (_, program) = submission
        .memory
        .iter_mut()
        .find(|(address, _)| *address == expected([0; 3]).spd)
        .expect("a program descriptor");
    assert_eq!(program[1], 0x7f80, "r55 to r62");
    program[1] &= !(1 << (62 - 48));
    let fault = try_execute(&submission, "immediate-no-offset", &cores(1)).expect_err("stops");
    assert!(
        fault.contains("r62 read without its preload bit"),
        "{fault}"
    );
}
