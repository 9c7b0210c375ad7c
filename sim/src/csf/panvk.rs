//! Streams of another driver, which run on silicon: they must run here, under the strict checks.

use std::collections::BTreeMap;
use std::sync::Mutex;

use mali_isa::desc::{DESCRIPTOR_WORDS, ShaderProgram, WorkgroupSize};

use super::*;
use crate::cost::JobUsage;
use crate::mmu::{Caches, FlatSpace, LscRule, Mapping};
use crate::shader::{ComputeJob, MemoryPort, ShaderMemory};

const FIXTURE: &str = include_str!("../../../tests/golden/csf/panvk-streams.txt");

/// What the fixture and the recorder say of a job.
#[derive(Debug, PartialEq, Eq)]
struct Job {
    workgroup: [u32; 3],
    size: [u32; 3],
    axis: u8,
    increment: u32,
    shader: u64,
    storage: [u32; DESCRIPTOR_WORDS],
}

#[derive(Debug, Default)]
struct Case {
    name: &'static str,
    /// Queue, address, bytes.
    streams: Vec<(u8, u64, u32)>,
    contexts: BTreeMap<u8, u64>,
    lines: Vec<(u64, Vec<u8>)>,
    jobs: Vec<Job>,
}

fn hex(text: &str) -> u64 {
    u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap()
}

fn cases() -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for line in FIXTURE.lines().filter(|l| !l.starts_with('#')) {
        let (kind, rest) = line.split_once(' ').unwrap();
        if kind == "case" {
            cases.push(Case {
                name: rest,
                ..Case::default()
            });
            continue;
        }
        let case = cases.last_mut().unwrap();
        let words: Vec<_> = rest.split(' ').collect();
        match kind {
            "queue" => case.streams.push((
                words[0].parse().unwrap(),
                hex(words[1]),
                words[2].parse().unwrap(),
            )),
            "context" => {
                case.contexts
                    .insert(words[0].parse().unwrap(), hex(words[1]));
            }
            "line" => {
                let bytes = (0..64)
                    .map(|i| hex(&words[1][2 * i..2 * i + 2]) as u8)
                    .collect();
                case.lines.push((hex(words[0]), bytes));
            }
            "job" => {
                let numbers: Vec<u32> = words[..6].iter().map(|w| w.parse().unwrap()).collect();
                case.jobs.push(Job {
                    workgroup: numbers[..3].try_into().unwrap(),
                    size: numbers[3..].try_into().unwrap(),
                    axis: "xyz".find(words[6]).unwrap() as u8,
                    increment: words[7].parse().unwrap(),
                    shader: hex(words[8]),
                    storage: std::array::from_fn(|i| hex(words[9 + i]) as u32),
                });
            }
            other => panic!("{other}"),
        }
    }
    cases
}

/// Notes what each job is, reading its descriptors as the cores do.
#[derive(Default)]
struct Recorder(Mutex<Vec<Job>>);

impl ComputeEndpoint for Recorder {
    fn run<M: ShaderMemory>(&self, job: &ComputeJob, memory: &M) -> Result<JobUsage, JobError> {
        let mut port = memory.port(0);
        let mut words = |va: u64| -> Result<[u32; DESCRIPTOR_WORDS], JobError> {
            let mut words = [0; DESCRIPTOR_WORDS];
            for (i, word) in words.iter_mut().enumerate() {
                *word = u32::from_le_bytes(port.load(va + 4 * i as u64).map_err(|e| {
                    JobError::Fault {
                        exception: Exception::DataInvalidFault,
                        pc: 0,
                        cause: Box::new(e),
                    }
                })?);
            }
            Ok(words)
        };
        let workgroup = WorkgroupSize::unpack(job.workgroup_size).unwrap();
        let program = ShaderProgram::unpack(&words(job.spd)?).unwrap();
        self.0.lock().unwrap().push(Job {
            workgroup: [workgroup.x.into(), workgroup.y.into(), workgroup.z.into()],
            size: job.size,
            axis: job.task_axis,
            increment: job.task_increment,
            shader: program.binary,
            storage: words(job.tsd)?,
        });
        assert_eq!((job.offset, job.attribute_offset), ([0; 3], 0));
        Ok(JobUsage::default())
    }
}

fn run_case(case: &Case) -> Vec<Job> {
    let mut space = FlatSpace::new();
    for (va, bytes) in &case.lines {
        space.map(va & !0xfff, 4096, Mapping::DATA);
        space.write(*va, bytes).unwrap();
    }
    let (caches, recorder) = (Caches::new(), Recorder::default());
    let mut device = Device::new(LscRule::default(), 1_000_000_000);
    let mut queues: BTreeMap<u8, Queue> = case
        .contexts
        .iter()
        .map(|(index, context)| {
            let mut queue = Queue::new(0, *index);
            queue.set_register(90, *context as u32);
            queue.set_register(91, (*context >> 32) as u32);
            (84..90).for_each(|r| queue.set_register(r, 0));
            queue.set_initial(3, 0, false);
            (*index, queue)
        })
        .collect();
    for &(queue, start, size) in &case.streams {
        let words = job_words(&JobParams {
            latest_flush: 0,
            start,
            size,
            sync: None,
        })
        .unwrap();
        queues.get_mut(&queue).unwrap().enqueue(&words);
    }
    // The queues advance in turn, each to its next wait, until none has anything left.
    let mut now = 0;
    for _ in 0..1000 {
        let mut next = u64::MAX;
        let mut idle = 0;
        for queue in queues.values_mut() {
            let mut env = Env {
                space: &space,
                caches: &caches,
                endpoint: &recorder,
                device: &mut device,
                now,
            };
            match queue.run(&mut env, 1 << 16) {
                Stop::Idle => idle += 1,
                Stop::WaitUntil(at) => next = next.min(at),
                Stop::Blocked(_) => {}
                Stop::Fault(fault) => panic!("{}: {fault}", case.name),
                stop => panic!("{}: {stop:?}", case.name),
            }
            next = queue.next_deferred().map_or(next, |at| next.min(at));
        }
        if idle == queues.len() {
            return recorder.0.into_inner().unwrap();
        }
        // Nothing to wait for: somebody was unblocked in this round, or nobody ever will be.
        now = if next == u64::MAX {
            now + 1
        } else {
            next.max(now + 1)
        };
    }
    panic!("{}: the queues do not end", case.name);
}

#[test]
fn captured_streams_run_under_the_strict_checks_and_give_their_jobs() {
    let cases = cases();
    assert_eq!(cases.len(), 13);
    for case in &cases {
        assert_eq!(run_case(case), case.jobs, "{}", case.name);
    }
}
