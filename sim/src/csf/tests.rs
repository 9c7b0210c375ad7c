use mali_isa::csf::{Kind, TABLE, assemble_program};
use proptest::prelude::*;

use super::*;
use crate::cost::{JobUsage, Usage};
use crate::mmu::{Caches, FlatSpace, LscRule, Mapping, MemoryError};
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

#[test]
fn arithmetic_and_branches() {
    let queue = runs(
        "MOVE32 r0, #5\nMOVE32 r1, #0\nagain:\nADD_IMMEDIATE32 r1, r1, #3\nADD_IMMEDIATE32 r0, r0, #-1\nBRANCH.gt r0, again\n\
         MOVE48 d2, #0xffffffffffff\nADD_IMMEDIATE64 d4, d2, #1\nADD_IMMEDIATE64 d6, d2, #-1\nMOVE32 r8, #0xfffffff0\n\
         UMIN32 r9, r8, r1\nBRANCH.lt r8, end\nMOVE32 r1, #0\nend:\nBRANCH.always r95, last\nMOVE32 r1, #0\nlast:\n",
    );
    assert_eq!(queue.register(1), Some(15));
    assert_eq!(
        (queue.register(4), queue.register(5)),
        (Some(0), Some(1 << 16))
    );
    assert_eq!(
        (queue.register(6), queue.register(7)),
        (Some(0xffff_fffe), Some(0xffff))
    );
    assert_eq!(queue.register(9), Some(15));
    assert_eq!(queue.register(10), None);
}

#[test]
fn every_branch_condition_is_signed() {
    for (condition, taken) in [
        ("le", [1, 1, 0]),
        ("gt", [0, 0, 1]),
        ("eq", [0, 1, 0]),
        ("ne", [1, 0, 1]),
        ("lt", [1, 0, 0]),
        ("ge", [0, 1, 1]),
    ] {
        for (value, expected) in ["0xffffffff", "0", "1"].into_iter().zip(taken) {
            let text = format!(
                "MOVE32 r0, #{value}\nMOVE32 r1, #1\nBRANCH.{condition} r0, #1\nMOVE32 r1, #0"
            );
            assert_eq!(
                runs(&text).register(1),
                Some(expected),
                "{condition} {value}"
            );
        }
    }
}

#[test]
fn loads_and_stores_go_through_the_scoreboard() {
    let mut m = machine();
    m.space
        .write(DATA + 8, &[1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0])
        .unwrap();
    let (queue, stop) = m.run_text(&format!(
        "SET_SB_ENTRY #1, #0\nMOVE48 d0, #{DATA:#x}\nLOAD_MULTIPLE r4:r6, [d0 + 8]\nWAIT #1\n\
         STORE_MULTIPLE [d0 + 64], (r3):r4:r6\nWAIT #1\nLOAD_MULTIPLE r10, [d0 + 68]\nWAIT #1"
    ));
    assert!(matches!(stop, Stop::Idle), "{stop:?}");
    assert_eq!(
        (queue.register(4), queue.register(5), queue.register(6)),
        (Some(1), None, Some(3))
    );
    assert_eq!(queue.register(10), Some(1));
    // Not flushed by the stream: the host does not see it.
    assert_eq!(m.host(DATA + 68), 0);
    m.caches.clean_invalidate();
    assert_eq!(
        (m.host(DATA + 68), m.host(DATA + 72), m.host(DATA + 76)),
        (1, 0, 3)
    );
}

#[test]
fn registers_must_be_defined() {
    assert!(matches!(
        fault_of("ADD_IMMEDIATE32 r1, r7, #0").cause,
        Cause::UndefinedRegister(7)
    ));
    let head = format!("SET_SB_ENTRY #1, #0\nMOVE48 d0, #{DATA:#x}\nLOAD_MULTIPLE r4, [d0]\n");
    let pending = |tail: &str| {
        matches!(
            fault_of(&format!("{head}{tail}")).cause,
            Cause::PendingRegister {
                register: 4,
                entry: 0
            }
        )
    };
    assert!(pending("ADD_IMMEDIATE32 r1, r4, #0"));
    assert!(pending("MOVE32 r4, #0"));
    assert!(pending("WAIT #fe\nADD_IMMEDIATE32 r1, r4, #0"));
    runs(&format!("{head}WAIT #1\nADD_IMMEDIATE32 r1, r4, #0"));
    for text in [
        "MOVE32 r92, #0",
        "MOVE48 d94, #0",
        "ADD_IMMEDIATE32 r0, r93, #0",
    ] {
        let fault = fault_of(text);
        assert!(
            matches!(fault.cause, Cause::KernelRegister(92..=94)),
            "{fault}"
        );
        assert_eq!(fault.exception.name(), "CS_INSTR_INVALID");
    }
    let text = format!("MOVE48 d0, #{DATA:#x}\nLOAD_MULTIPLE r90:r91:r92, [d0]");
    assert!(matches!(fault_of(&text).cause, Cause::KernelRegister(92)));
}

#[test]
fn work_before_any_entry_is_selected_needs_a_wait_for_all() {
    let head = format!("MOVE48 d0, #{DATA:#x}\nLOAD_MULTIPLE r4, [d0]\n");
    let fault = fault_of(&format!("{head}WAIT #1\nADD_IMMEDIATE32 r1, r4, #0"));
    assert!(matches!(
        fault.cause,
        Cause::PendingRegister {
            register: 4,
            entry: 8
        }
    ));
    runs(&format!("{head}WAIT #ff\nADD_IMMEDIATE32 r1, r4, #0"));
}

#[test]
fn calls_nest_to_the_depth_of_hardware() {
    let mut m = machine();
    let mut queue = Queue::new(0, 0);
    // Each level calls the next, 256 bytes further.
    let depth = CALL_DEPTH as u64;
    for level in 1..depth {
        let next = STREAM + 256 * (level + 1);
        let text = if level + 1 < depth {
            format!(
                "MOVE48 d0, #{next:#x}\nMOVE32 r2, #32\nCALL d0, r2\nADD_IMMEDIATE32 r9, r9, #1"
            )
        } else {
            "ADD_IMMEDIATE32 r9, r9, #1\nNOP\nNOP\nNOP".to_owned()
        };
        m.space
            .write(STREAM + 256 * level, &assemble_program(&text).unwrap())
            .unwrap();
    }
    let first = STREAM + 256;
    let root = format!(
        "MOVE32 r9, #0\nMOVE48 d0, #{first:#x}\nMOVE32 r2, #32\nCALL d0, r2\nADD_IMMEDIATE32 r9, r9, #1"
    );
    m.submit(&mut queue, &root);
    assert!(matches!(m.run(&mut queue), Stop::Idle));
    assert_eq!(queue.register(9), Some(CALL_DEPTH as u32));
    // One that calls itself.
    let text = format!("MOVE48 d0, #{STREAM:#x}\nMOVE32 r2, #24\nCALL d0, r2");
    let fault = fault_of(&text);
    assert_eq!(fault.exception.name(), "CS_CALL_STACK_OVERFLOW");
    assert_eq!(fault.exception.code(), 0x4a);
}

#[test]
fn jumps_replace_the_stream_and_alignment_is_checked() {
    let mut m = machine();
    m.space
        .write(STREAM + 256, &assemble_program("MOVE32 r9, #7").unwrap())
        .unwrap();
    let target = STREAM + 256;
    let (queue, stop) = m.run_text(&format!(
        "MOVE48 d0, #{target:#x}\nMOVE32 r2, #8\nJUMP d0, r2\nMOVE32 r9, #0"
    ));
    assert!(matches!(stop, Stop::Idle));
    assert_eq!(queue.register(9), Some(7));
    let off = STREAM + 264;
    let fault = fault_of(&format!("MOVE48 d0, #{off:#x}\nMOVE32 r2, #8\nCALL d0, r2"));
    assert!(
        matches!(
            fault.cause,
            Cause::Misaligned {
                what: "stream",
                alignment: 64,
                ..
            }
        ),
        "{fault}"
    );
    let fault = fault_of(&format!(
        "MOVE48 d0, #{target:#x}\nMOVE32 r2, #9\nCALL d0, r2"
    ));
    assert!(
        matches!(
            fault.cause,
            Cause::Misaligned {
                what: "stream length",
                ..
            }
        ),
        "{fault}"
    );
    assert!(matches!(
        fault_of("BRANCH.always r0, #-2").cause,
        Cause::BranchOutside { .. }
    ));
    assert!(matches!(
        fault_of("BRANCH.always r0, #1").cause,
        Cause::BranchOutside { .. }
    ));
    runs("BRANCH.always r0, #0");
}

#[test]
fn faulty_words_and_unmapped_streams() {
    let mut m = machine();
    m.space
        .write(STREAM + 8, &(0xee_u64 << 56).to_le_bytes())
        .unwrap();
    let mut queue = Queue::new(0, 0);
    queue.enqueue(
        &job_words(&JobParams {
            latest_flush: 0,
            start: STREAM,
            size: 16,
            sync: None,
        })
        .unwrap(),
    );
    let fatal = fault(m.run(&mut queue));
    assert_eq!(
        (fatal.exception.name(), fatal.info, fatal.pc),
        ("CS_INSTR_INVALID", STREAM + 8, STREAM + 8)
    );
    assert!(queue.is_dead() && matches!(m.step(&mut queue), Stop::Never));
    let mut queue = Queue::new(0, 0);
    queue.enqueue(
        &job_words(&JobParams {
            latest_flush: 0,
            start: 0x9_0000,
            size: 16,
            sync: None,
        })
        .unwrap(),
    );
    let fatal = fault(m.run(&mut queue));
    assert_eq!(
        (fatal.exception.name(), fatal.info),
        ("CS_BUS_FAULT", 0x9_0000)
    );
    assert_eq!(fatal.mmu.unwrap().va, 0x9_0000);
    assert_eq!(
        fault_of("PROT_REGION #8").exception.name(),
        "CS_INSTR_INVALID"
    );
    assert!(matches!(
        fault_of("FINISH_TILING").cause,
        Cause::NotSimulated("FINISH_TILING")
    ));
}

#[test]
fn a_job_runs_when_everything_is_in_order() {
    let mut m = machine();
    let text = format!("{PREPARE}{}{RUN}WAIT #4\n{FLUSH}", job_registers(0, DATA));
    let (_, stop) = m.run_text(&text);
    assert!(matches!(stop, Stop::Idle), "{stop:?}");
    assert_eq!(m.host(DATA), 1);
    let jobs: Vec<_> = m
        .device
        .take_events()
        .filter_map(|e| if let Event::Job(j) = e { Some(j) } else { None })
        .collect();
    assert_eq!(jobs.len(), 1);
    assert_eq!(jobs[0].end - jobs[0].start, JOB_CYCLES + 5000);
    assert_eq!(jobs[0].job.size, [1; 3]);
    assert!(m.now > jobs[0].end);
}

#[test]
fn each_requirement_of_a_job_is_checked() {
    let registers = job_registers(0, DATA);
    let good = format!("{PREPARE}{registers}{RUN}");
    runs(&good);
    let without = |line: &str| fault_of(&good.replace(line, ""));
    assert!(matches!(
        without("REQ_RESOURCE.compute\n").cause,
        Cause::NoResource
    ));
    assert!(matches!(
        without("MOVE32 r33, #0\n").cause,
        Cause::UndefinedRegister(33)
    ));
    assert!(matches!(
        without("MOVE32 r39, #1\n").cause,
        Cause::UndefinedRegister(39)
    ));
    let changed = |from: &str, to: &str| fault_of(&good.replace(from, to));
    assert!(matches!(
        changed("fau0 #1", "fau0 #0").cause,
        Cause::TaskIncrement
    ));
    let fault = changed("d16, #0x30000000", "d16, #0x30000010");
    assert!(
        matches!(fault.cause, Cause::Misaligned { alignment: 32, .. }),
        "{fault}"
    );
    let fault = changed("d24, #0x30000040", "d24, #0x30000020");
    assert!(
        matches!(fault.cause, Cause::Misaligned { alignment: 64, .. }),
        "{fault}"
    );
    assert!(matches!(
        changed("d24, #0x30000040", "d24, #0").cause,
        Cause::Missing("local storage descriptor")
    ));
    assert!(matches!(
        changed("d16, #0x30000000", "d16, #0").cause,
        Cause::Missing("shader program descriptor")
    ));
    assert!(matches!(
        changed("MOVE32 r33, #0\n", "MOVE32 r33, #0x40000000\n").cause,
        Cause::Descriptor(_)
    ));
    // Sizes by a load that was not waited for.
    let load = format!("MOVE48 d50, #{DATA:#x}\nLOAD_MULTIPLE r37, [d50]\n");
    let fault = fault_of(&good.replace(RUN, &format!("{load}{RUN}")));
    assert!(
        matches!(fault.cause, Cause::PendingRegister { register: 37, .. }),
        "{fault}"
    );
    runs(&good.replace(RUN, &format!("{load}WAIT #1\n{RUN}")));
    runs(&good.replace(RUN, "RUN_COMPUTE_INDIRECT.srt0.spd0.tsd0.fau0 #4\n"));
}

/// Two jobs, the second reading what the first wrote, with all that belongs between them.
fn two_jobs() -> Vec<String> {
    let text = format!(
        "{PREPARE}{}{RUN}WAIT #4\n{FLUSH}{}{RUN}WAIT #4\n{FLUSH}",
        job_registers(0, DATA),
        job_registers(DATA, DATA + 4096)
    );
    text.lines().map(str::to_owned).collect()
}

#[test]
fn dependent_jobs_need_every_wait_and_flush() {
    for rule in [LscRule::Flushed, LscRule::Private, LscRule::Coherent] {
        let lines = two_jobs();
        let mut m = Machine::new(rule);
        assert!(matches!(m.run_text(&lines.join("\n")).1, Stop::Idle));
        assert_eq!((m.host(DATA), m.host(DATA + 4096)), (1, 2));
        // Take out every WAIT and FLUSH_CACHE2 in turn. The last WAIT is done by the driver's own words too.
        let mut caught = Vec::new();
        for (i, line) in lines.iter().enumerate() {
            if !line.starts_with("WAIT") && !line.starts_with("FLUSH") {
                continue;
            }
            let mut less = lines.clone();
            less.remove(i);
            let mut m = Machine::new(rule);
            let (_, stop) = m.run_text(&less.join("\n"));
            let seen = match stop {
                Stop::Idle if m.host(DATA + 4096) == 2 => "right",
                Stop::Idle => "stale",
                Stop::Fault(fault) => match fault.cause {
                    Cause::Shader { cause, .. } => match cause.downcast_ref::<MemoryError>() {
                        Some(MemoryError::ReadBeforeWait { .. }) => "wait",
                        Some(MemoryError::ReadBeforeFlush { .. }) => "flush",
                        _ => "other",
                    },
                    _ => "other",
                },
                _ => "other",
            };
            caught.push(seen);
        }
        // wait, flush, wait for the flush; wait, flush, wait for the flush.
        let expected: [&str; 6] = match rule {
            LscRule::Coherent => ["wait", "right", "right", "stale", "stale", "right"],
            _ => ["wait", "flush", "flush", "stale", "stale", "right"],
        };
        assert_eq!(caught, expected, "{rule:?}");
    }
}

#[test]
fn an_invalidation_of_other_caches_is_enough_unless_caches_are_private() {
    let flush = FLUSH.replace("clean_invalidate_l2.clean_invalidate_lsc", "nop_l2.nop_lsc");
    let text = two_jobs()
        .join("\n")
        .replacen(FLUSH.trim_end(), flush.trim_end(), 1);
    assert!(matches!(
        Machine::new(LscRule::Flushed).run_text(&text).1,
        Stop::Idle
    ));
    assert!(matches!(
        Machine::new(LscRule::Coherent).run_text(&text).1,
        Stop::Idle
    ));
    let fault = fault(Machine::new(LscRule::Private).run_text(&text).1);
    assert!(
        fault
            .to_string()
            .contains("without a load-store-cache flush"),
        "{fault}"
    );
}

#[test]
fn stream_stores_reach_jobs_after_the_wait_alone() {
    let store = format!("MOVE48 d50, #{DATA:#x}\nMOVE32 r52, #41\nSTORE_MULTIPLE [d50], r52\n");
    let job = format!("{}{RUN}WAIT #4\n{FLUSH}", job_registers(DATA, DATA + 4096));
    let mut m = Machine::new(LscRule::Private);
    assert!(matches!(
        m.run_text(&format!("{PREPARE}{store}WAIT #1\n{job}")).1,
        Stop::Idle
    ));
    assert_eq!(m.host(DATA + 4096), 42);
    let fault = fault_of(&format!("{PREPARE}{store}{job}"));
    assert!(fault.to_string().contains("without a wait"), "{fault}");
    // And what a job wrote reaches the stream's loads after wait and flush.
    let load = format!("MOVE48 d50, #{DATA:#x}\nLOAD_MULTIPLE r52, [d50]\nWAIT #1\n");
    let job = format!("{PREPARE}{}{RUN}", job_registers(0, DATA));
    assert_eq!(
        runs(&format!("{job}WAIT #4\n{FLUSH}{load}")).register(52),
        Some(1)
    );
    let fault = fault_of(&format!("{job}{load}"));
    assert!(
        matches!(
            fault.cause,
            Cause::Memory(MemoryError::ReadBeforeWait { .. })
        ),
        "{fault}"
    );
    assert!(matches!(
        fault_of(&format!("{job}WAIT #4\n{load}")).cause,
        Cause::Memory(MemoryError::ReadBeforeFlush { .. })
    ));
}

#[test]
fn jobs_of_two_queues_share_the_cores() {
    let mut m = machine();
    let (mut a, mut b) = (Queue::new(0, 0), Queue::new(0, 1));
    m.submit_at(
        &mut a,
        STREAM,
        &format!("{PREPARE}{}{RUN}", job_registers(0, DATA)),
    );
    m.submit_at(
        &mut b,
        STREAM + 4096,
        &format!("{PREPARE}{}{RUN}", job_registers(0, DATA + 4096)),
    );
    // Both issue at once, before either waits for its job.
    m.now = FLUSH_CYCLES + 1000;
    let first = loop {
        match m.step(&mut a) {
            Stop::WaitUntil(at) if at > m.now + 5000 => break at,
            Stop::WaitUntil(at) => m.now = at,
            stop => panic!("{stop:?}"),
        }
    };
    m.now -= 3000;
    let second = loop {
        match m.step(&mut b) {
            Stop::WaitUntil(at) if at > first => break at,
            Stop::WaitUntil(at) => m.now = at,
            stop => panic!("{stop:?}"),
        }
    };
    assert_eq!(second - first, JOB_CYCLES + 5000);
    assert_eq!(m.device.cores_free_at(), second);
}

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

#[test]
fn shader_faults_are_fatal_with_the_mmus_address() {
    let fault = fault_of(&format!(
        "{PREPARE}{}{RUN}",
        job_registers(0x7777_0000, DATA)
    ));
    assert!(fault.fatal);
    assert_eq!(
        (fault.exception.name(), fault.info),
        ("TRANSLATION_FAULT_3", 0x7777_0000)
    );
    assert_eq!(fault.mmu.unwrap().va, 0x7777_0000);
    assert!(
        fault
            .to_string()
            .starts_with("CS_FATAL TRANSLATION_FAULT_3"),
        "{fault}"
    );
    let fault = fault_of(&format!("{PREPARE}{}{RUN}", job_registers(0, STREAM)));
    assert_eq!(fault.exception.name(), "PERM_FAULT_3");
}

#[test]
fn endless_jobs_and_streams_are_told_apart() {
    let endless = job_registers(0, DATA).replace("MOVE32 r32, #0\n", "MOVE32 r32, #99\n");
    let mut m = machine();
    let (queue, stop) = m.run_text(&format!("{PREPARE}{endless}{RUN}WAIT #4"));
    assert!(matches!(stop, Stop::Never));
    assert_eq!(queue.drained_at(), u64::MAX);
    // Others are not kept from the cores.
    assert!(m.device.cores_free_at() <= m.now);
    let mut other = Queue::new(1, 0);
    m.submit(
        &mut other,
        &format!("{PREPARE}{}{RUN}WAIT #4", job_registers(0, DATA + 4096)),
    );
    assert!(matches!(m.run(&mut other), Stop::Idle));
    // When the group is terminated, its job counts as done for those who come later.
    let mut later = Queue::new(1, 1);
    let read = format!("{PREPARE}{}{RUN}WAIT #4", job_registers(DATA, DATA + 8192));
    m.submit(&mut later, &read);
    assert!(matches!(m.run(&mut later), Stop::Fault(_)));
    m.device.kill_group(0, m.now);
    let mut later = Queue::new(1, 1);
    m.submit(&mut later, &read);
    assert!(matches!(m.run(&mut later), Stop::Idle));
    let (_, stop) = machine().run_text("again:\nBRANCH.always r0, again");
    assert!(matches!(stop, Stop::Runaway));
    // Waiting again and again is not running in circles, but the budget ends it.
    let text = format!(
        "SET_SB_ENTRY #1, #0\nMOVE48 d0, #{DATA:#x}\nagain:\nLOAD_MULTIPLE r4, [d0]\nWAIT #1\nBRANCH.eq r4, again"
    );
    let mut m = machine();
    let mut queue = Queue::new(0, 0);
    m.submit(&mut queue, &text);
    for _ in 0..1000 {
        let Stop::WaitUntil(at) = m.step(&mut queue) else {
            panic!()
        };
        m.now = at;
    }
    m.space.write(DATA, &[1]).unwrap();
    m.caches.clean_invalidate();
    assert!(matches!(m.run(&mut queue), Stop::Idle));
}

#[test]
fn scoreboard_operands_are_checked() {
    let flush = |mask: &str, slot: u32| {
        format!("MOVE32 r40, #0\nFLUSH_CACHE2.clean_l2.clean_lsc.nop_other r40, #{mask}, #{slot}")
    };
    assert!(matches!(
        fault_of(&flush("100", 0)).cause,
        Cause::NoScoreboard(0x100)
    ));
    assert!(matches!(
        fault_of(&flush("1", 8)).cause,
        Cause::NoScoreboard(8)
    ));
    assert!(matches!(fault_of(&flush("2", 1)).cause, Cause::SelfWait(1)));
    assert!(matches!(
        fault_of("SET_SB_ENTRY #8, #0").cause,
        Cause::NoScoreboard(8)
    ));
}

#[test]
fn state_and_progress() {
    let mut m = machine();
    let text = format!(
        "MOVE48 d0, #{DATA:#x}\nSTORE_STATE.CYCLE_COUNT d0, #8, #0, #0\nSTORE_STATE.SYSTEM_TIMESTAMP d0, #16, #0, #0\n\
         MOVE48 d2, #7\nPROGRESS_STORE d2\nWAIT.progress_inc #1\nPROGRESS_LOAD d4\nTRACE_POINT r2:r5, #0, #0\n\
         MOVE32 r40, #0\n{FLUSH}"
    );
    m.now = 1_000_000;
    let (queue, stop) = m.run_text(&text);
    assert!(matches!(stop, Stop::Idle), "{stop:?}");
    assert_eq!(queue.register(4), Some(8));
    let cycles = m.host(DATA + 8);
    assert!((1_000_000..1_010_000).contains(&cycles), "{cycles}");
    assert_eq!(
        m.host(DATA + 16),
        (cycles + INSTR_CYCLES as u32) * 24 / 1000
    );
    let (_, stop) = m.run_text("MOVE48 d2, #9\nPROGRESS_WAIT d2, #0");
    assert!(matches!(stop, Stop::Progress { queue: 0, value: 9 }));
    let (_, stop) = m.run_text("MOVE48 d2, #8\nPROGRESS_WAIT d2, #0");
    assert!(matches!(stop, Stop::Idle));
}

#[test]
fn a_ring_buffer_runs_the_drivers_own_words() {
    let mut m = machine();
    let (ring, object) = (DATA + 0x8000, DATA + 0x9000);
    let stream = assemble_program("MOVE32 r9, #1").unwrap();
    m.space.write(STREAM, &stream).unwrap();
    let params = JobParams {
        latest_flush: 0,
        start: STREAM,
        size: 8,
        sync: Some(object),
    };
    let words = job_words(&params).unwrap();
    assert_eq!(words.len(), 16);
    // A small ring: the third job wraps around.
    let mut queue = Queue::with_ring(0, 0, ring, 256);
    let mut position = 0u64;
    for job in 1..=3 {
        for word in &words {
            m.space
                .write(ring + position % 256, &word.to_le_bytes())
                .unwrap();
            position += 8;
        }
        m.caches.clean_invalidate();
        assert!(matches!(m.run(&mut queue), Stop::Idle));
        assert_eq!(m.host(object), job - 1);
        queue.set_insert(position);
        assert!(matches!(m.run(&mut queue), Stop::Idle));
        assert_eq!((queue.extract(), m.host(object)), (position, job));
    }
}

#[test]
fn the_drivers_words_are_those_of_the_kernel() {
    let params = JobParams {
        latest_flush: 7,
        start: 0xffc5_6000,
        size: 184,
        sync: Some(0x1234_0000),
    };
    // panthor_sched.c, `prepare_job_instrs`, with address register 92 and value register 94.
    let expected = [
        2u64 << 56 | 94 << 48 | 7,
        36 << 56 | 94 << 40 | 0x233,
        1 << 56 | 92 << 48 | 0xffc5_6000,
        2 << 56 | 94 << 48 | 184,
        3 << 56 | 1 << 16,
        32 << 56 | 92 << 40 | 94 << 32,
        1 << 56 | 92 << 48 | 0x1234_0000,
        1 << 56 | 94 << 48 | 1,
        3 << 56 | 0xff << 16,
        51 << 56 | 92 << 40 | 94 << 32 | 1,
        47 << 56,
        0,
        0,
        0,
        0,
        0,
    ];
    assert_eq!(job_words(&params).unwrap(), expected);
    assert!(
        job_words(&JobParams {
            start: 1 << 48,
            ..params
        })
        .is_err()
    );
}

#[test]
fn a_flush_is_skipped_if_one_was_done_since() {
    let mut m = machine();
    let seen = m.caches.latest_flush();
    let body = |id: u32| {
        format!(
            "{PREPARE}MOVE32 r40, #{id}\n{}{RUN}WAIT #4\n{FLUSH}",
            job_registers(0, DATA)
        )
    };
    // The driver's own flush at the start of the job has been done since: nothing is flushed, the data stay inside.
    assert!(matches!(m.run_text(&body(seen)).1, Stop::Idle));
    assert_eq!(m.host(DATA), 0);
    let mut m = machine();
    assert!(matches!(m.run_text(&body(0)).1, Stop::Idle));
    assert_eq!(m.host(DATA), 1);
}

/// A word of a known opcode whose fields are mostly valid.
fn some_word(index: usize, random: u64, valid: bool) -> u64 {
    let op = &TABLE[index % TABLE.len()];
    op.fields
        .iter()
        .fold(u64::from(op.opcode) << 56, |word, f| {
            let bits = (random >> f.start) & f.value_mask();
            let value = match f.kind {
                // Few registers, so that some are defined.
                Kind::Reg32 if valid => bits % 8,
                Kind::Reg64 if valid => (bits % 8) & !1,
                Kind::Enum(names) if valid => names[bits as usize % names.len()].1,
                _ => bits,
            };
            word | value << f.start
        })
}

proptest! {
    /// Whatever the words, a queue stops with a reason; it neither panics nor runs on for ever.
    #[test]
    fn any_stream_ends_with_a_reason(
        words in proptest::collection::vec((any::<usize>(), any::<u64>(), 0u8..10), 1..40),
        registers in proptest::collection::vec(prop_oneof![Just(0u64), Just(DATA), Just(STREAM), any::<u64>()], 4),
    ) {
        let mut m = machine();
        let mut queue = Queue::new(0, 0);
        for (i, value) in registers.iter().enumerate() {
            queue.set_register(2 * i as u8, *value as u32);
            queue.set_register(2 * i as u8 + 1, (*value >> 32) as u32);
        }
        for (i, (index, random, luck)) in words.iter().enumerate() {
            let word = if *luck == 0 { *random } else { some_word(*index, *random, *luck < 9) };
            m.space.write(STREAM + 8 * i as u64, &word.to_le_bytes()).unwrap();
        }
        let size = 8 * words.len() as u32;
        queue.enqueue(&job_words(&JobParams { latest_flush: 0, start: STREAM, size, sync: None }).unwrap());
        let Machine { space, caches, device, endpoint, .. } = &mut m;
        let (mut now, mut steps) = (0, 0);
        loop {
            let mut env = Env { space: &*space, caches: &*caches, endpoint: &*endpoint, device, now };
            match queue.run(&mut env, 2000) {
                Stop::WaitUntil(at) => {
                    prop_assert!(at > env.now);
                    now = at;
                }
                Stop::Budget => now = env.now,
                Stop::Fault(fault) => {
                    prop_assert!(fault.fatal && !fault.to_string().is_empty());
                    break;
                }
                _ => break,
            }
            steps += 1;
            if steps > 20 {
                // A loop that waits in every round.
                break;
            }
        }
    }
}
