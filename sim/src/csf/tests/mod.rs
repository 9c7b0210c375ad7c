//! Streams by hand on a small machine: the harness.

mod jobs;
mod state;
mod stream;
mod sync;

use mali_isa::csf::assemble_program;

use super::*;
use crate::cost::{JobUsage, Usage};
use crate::mmu::{Caches, FlatSpace, LscRule, Mapping};
use crate::shader::{ComputeJob, MemoryPort, ShaderMemory};

const STREAM: u64 = 0x1000_0000;
const DATA: u64 = 0x2000_0000;
const SPD: u64 = 0x3000_0000;

/// A job here copies the word at its SRT pointer (if any), plus one, to its FAU pointer.
struct Copier {
    cycles: u64,
}

impl ComputeEndpoint for Copier {
    fn run<M: ShaderMemory>(&self, job: &ComputeJob, memory: &M) -> Result<JobUsage, JobError> {
        let mut port = memory.port(0);
        let mut run = || -> Result<(), <M::Port as MemoryPort>::Error> {
            let word = if job.srt == 0 {
                0
            } else {
                u32::from_le_bytes(port.load(job.srt)?)
            };
            if job.fau != 0 {
                port.store(job.fau & ((1 << 48) - 1), (word + 1).to_le_bytes())?;
            }
            Ok(())
        };
        run().map_err(|e| JobError::Fault {
            exception: Exception::DataInvalidFault,
            pc: 0x4444,
            cause: Box::new(e),
        })?;
        if job.attribute_offset == 99 {
            return Err(JobError::Endless { instructions: 1 });
        }
        Ok(JobUsage {
            cores: vec![Usage {
                ls_lines: self.cycles,
                ..Usage::default()
            }],
        })
    }
}

struct Machine {
    space: FlatSpace,
    caches: Caches,
    device: Device,
    endpoint: Copier,
    now: u64,
}

impl Machine {
    fn new(rule: LscRule) -> Self {
        let mut space = FlatSpace::new();
        space.map(
            STREAM,
            0x10000,
            Mapping {
                writable: false,
                ..Mapping::DATA
            },
        );
        space.map(DATA, 0x10000, Mapping::DATA);
        space.map(SPD, 0x1000, Mapping::DATA);
        let device = Device::new(rule, 1_000_000_000);
        Self {
            space,
            caches: Caches::new(),
            device,
            endpoint: Copier { cycles: 5000 },
            now: 0,
        }
    }

    /// Puts a stream into memory and gives the queue the driver's words for it.
    fn submit_at(&self, queue: &mut Queue, address: u64, text: &str) {
        let bytes = assemble_program(text).unwrap();
        self.space.write(address, &bytes).unwrap();
        let size = bytes.len() as u32;
        queue.enqueue(
            &job_words(&JobParams {
                latest_flush: 0,
                start: address,
                size,
                sync: None,
            })
            .unwrap(),
        );
    }

    fn submit(&self, queue: &mut Queue, text: &str) {
        self.submit_at(queue, STREAM, text);
    }

    fn step(&mut self, queue: &mut Queue) -> Stop {
        let Self {
            space,
            caches,
            device,
            endpoint,
            now,
        } = self;
        let mut env = Env {
            space: &*space,
            caches: &*caches,
            endpoint: &*endpoint,
            device,
            now: *now,
        };
        let stop = queue.run(&mut env, 1 << 23);
        *now = env.now;
        stop
    }

    /// Runs until something other than time is waited for.
    fn run(&mut self, queue: &mut Queue) -> Stop {
        loop {
            match self.step(queue) {
                Stop::WaitUntil(cycle) => {
                    assert!(cycle > self.now);
                    self.now = cycle;
                }
                // A recoverable fault was reported.
                Stop::Budget => {}
                stop => return stop,
            }
        }
    }

    /// Runs one stream on a new queue.
    fn run_text(&mut self, text: &str) -> (Queue, Stop) {
        let mut queue = Queue::new(0, 0);
        self.submit(&mut queue, text);
        let stop = self.run(&mut queue);
        (queue, stop)
    }

    fn host(&self, va: u64) -> u32 {
        let mut bytes = [0; 4];
        self.space.read(va, &mut bytes).unwrap();
        u32::from_le_bytes(bytes)
    }
}

fn machine() -> Machine {
    Machine::new(LscRule::default())
}

fn fault(stop: Stop) -> Box<Fault> {
    match stop {
        Stop::Fault(fault) => fault,
        other => panic!("{other:?}"),
    }
}

/// The stream's fault on a new machine.
fn fault_of(text: &str) -> Box<Fault> {
    fault(machine().run_text(text).1)
}

fn runs(text: &str) -> Queue {
    let (queue, stop) = machine().run_text(text);
    assert!(matches!(stop, Stop::Idle), "{stop:?}");
    queue
}

/// Registers of a job that reads `srt` and writes `fau`; r32 to r39 and the descriptors too.
fn job_registers(srt: u64, fau: u64) -> String {
    format!(
        "MOVE48 d0, #{srt:#x}\nMOVE48 d8, #{fau:#x}\nMOVE48 d16, #{SPD:#x}\nMOVE48 d24, #{tsd:#x}\nMOVE32 r32, #0\n\
         MOVE32 r33, #0\nMOVE32 r34, #0\nMOVE32 r35, #0\nMOVE32 r36, #0\nMOVE32 r37, #1\nMOVE32 r38, #1\nMOVE32 r39, #1\n",
        tsd = SPD + 64
    )
}

const RUN: &str = "RUN_COMPUTE.x_axis.srt0.spd0.tsd0.fau0 #1\n";
const PREPARE: &str = "REQ_RESOURCE.compute\nSET_SB_ENTRY #2, #0\nMOVE32 r40, #0\n";
const FLUSH: &str =
    "FLUSH_CACHE2.clean_invalidate_l2.clean_invalidate_lsc.invalidate_other r40, #0, #1\nWAIT #2\n";
