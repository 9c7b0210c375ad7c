//! The driver's rules with the simulated GPU behind them: real streams and shaders.

use mali_isa::csf;
use mali_isa::desc::{
    Fau, LocalStorage, RegisterAllocation, ShaderProgram, WorkgroupSize, to_bytes,
};
use mali_isa::valhall;
use panthor_sim::kmd::{Monitor, Sim};
use panthor_uapi::sys::panthor::*;
use panthor_uapi::{Errno, Transport, TransportKind};

use super::client::{Client, KERNELS, array, errno, job, open_mali, signal, wait};

const MS: u64 = 1_000_000;
/// Shader code, read-only and executable.
const CODE: u64 = 0x1_0000_0000;
/// Descriptors and streams.
const DESC: u64 = 0x2_0000_0000;
/// Streams, in the same object.
const STREAMS: u64 = DESC + 0x1000;
/// Data, cached by the GPU.
const DATA: u64 = 0x3_0000_0000;
/// Data, not cached by the GPU.
const MARKERS: u64 = 0x4_0000_0000;
const SIZE: u64 = 0x10000;

const READONLY: u32 = 1;
const NOEXEC: u32 = 2;
const UNCACHED: u32 = 4;

const STATE_TIMEDOUT: u32 = 1;
const STATE_FATAL: u32 = 2;

const FLUSH: &str = "MOVE32 r40, #0\n\
    FLUSH_CACHE2.clean_invalidate_l2.clean_invalidate_lsc.invalidate_other r40, #0, #0\nWAIT #1\n";

/// A client with everything that a job needs.
struct Bench {
    client: Client,
    monitor: Monitor,
    vm: u32,
    group: u32,
    code: &'static mut [u8],
    desc: &'static mut [u8],
    data: &'static mut [u8],
    markers: &'static mut [u8],
    next_stream: u64,
}

fn bench(device: &str) -> Bench {
    let (client, monitor) = open_mali(device);
    let vm = client.vm();
    let object = |va: u64, flags: u32| {
        let handle = client.bo(SIZE);
        let op = drm_panthor_vm_bind_op {
            flags,
            bo_handle: handle,
            va,
            size: SIZE,
            ..Default::default()
        };
        client.bind(vm, &[op], 0).unwrap();
        client.map(handle, SIZE as usize)
    };
    let code = object(CODE, READONLY);
    let desc = object(DESC, NOEXEC);
    let data = object(DATA, NOEXEC);
    let markers = object(MARKERS, NOEXEC | UNCACHED);
    let group = client.group(vm);
    Bench {
        client,
        monitor,
        vm,
        group,
        code,
        desc,
        data,
        markers,
        next_stream: STREAMS,
    }
}

impl Bench {
    /// Puts a stream into memory: its address and size.
    fn stream(&mut self, text: &str) -> (u64, u32) {
        let bytes = csf::assemble_program(text).unwrap();
        let va = self.next_stream;
        self.next_stream = (va + bytes.len() as u64).next_multiple_of(64);
        self.desc[(va - DESC) as usize..][..bytes.len()].copy_from_slice(&bytes);
        (va, bytes.len() as u32)
    }

    fn submit(
        &mut self,
        queue: u32,
        text: &str,
        syncs: &[drm_panthor_sync_op],
    ) -> Result<(), Errno> {
        let (stream_addr, stream_size) = self.stream(text);
        let submit = drm_panthor_queue_submit {
            stream_addr,
            stream_size,
            ..job(queue, DESC, syncs)
        };
        self.client.submit(self.group, &[submit])
    }

    /// Runs a stream to its end: the status of its fence.
    fn run(&mut self, text: &str) -> i32 {
        let done = self.client.syncobj();
        self.submit(0, text, &[signal(done, 0)]).unwrap();
        self.client.wait_done(done).unwrap();
        self.client.status(done)
    }

    /// A new group in place of a dead one.
    fn new_group(&mut self) {
        self.client.destroy_group(self.group).unwrap();
        self.group = self.client.group(self.vm);
    }

    fn state(&self) -> (u32, u32) {
        self.client.group_state(self.group)
    }

    fn last_message(&self) -> String {
        self.client.device.messages().pop().unwrap_or_default()
    }

    /// Puts a shader of `threads` threads into memory, with u0 and u1 the address of the data: the stream that runs
    /// `groups` workgroups of it.
    fn shader(&mut self, text: &str, threads: u16, groups: u32) -> String {
        let words = valhall::assemble_program(text).unwrap();
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.code[..bytes.len()].copy_from_slice(&bytes);
        let mut program = ShaderProgram::compute(CODE, RegisterAllocation::PerThread64);
        // The global id in x: r60.
        program.preload = 1 << 12;
        self.desc[..32].copy_from_slice(&to_bytes(&program.pack().unwrap()));
        self.desc[64..96].copy_from_slice(&to_bytes(&LocalStorage::none().pack().unwrap()));
        self.desc[128..136].copy_from_slice(&DATA.to_le_bytes());
        let fau = Fau {
            pointer: DESC + 128,
            count: 1,
        }
        .pack()
        .unwrap();
        let size = WorkgroupSize {
            x: threads,
            y: 1,
            z: 1,
            allow_merging: false,
        }
        .pack()
        .unwrap();
        format!(
            "REQ_RESOURCE.compute\nSET_SB_ENTRY #1, #0\n\
             MOVE32 r0, #0\nMOVE32 r1, #0\nMOVE32 r8, #{:#x}\nMOVE32 r9, #{:#x}\nMOVE48 d16, #{DESC:#x}\n\
             MOVE48 d24, #{:#x}\nMOVE32 r32, #0\nMOVE32 r33, #{size:#x}\nMOVE32 r34, #0\nMOVE32 r35, #0\n\
             MOVE32 r36, #0\nMOVE32 r37, #{groups}\nMOVE32 r38, #1\nMOVE32 r39, #1\n\
             RUN_COMPUTE.x_axis.srt0.spd0.tsd0.fau0 #1\nWAIT #2\n",
            fau as u32,
            fau >> 32,
            DESC + 64,
        )
    }
}

/// Stores the global id at data + 4 × id.
const STORE_IDS: &str = "IADD.u32 r0, r60, r60\nIADD.u32 r0, r0, r0\nIADD.u32 r2, r0, u0\nMOV.i32 r3, u1\n\
    STORE.i32.slot0 @r60, r2, offset:0\nNOP.wait0\nNOP.end\n";

fn word(bytes: &[u8], index: usize) -> u32 {
    u32::from_le_bytes(bytes[4 * index..][..4].try_into().unwrap())
}

#[test]
fn the_device_string_opens_it() {
    let transport = Sim::open("sim:cores=2").unwrap();
    assert_eq!(transport.kind(), TransportKind::Simulator);
    let fd = transport
        .open(std::path::Path::new("/dev/dri/renderD128"))
        .unwrap();
    // SAFETY: the descriptor is used nowhere else.
    unsafe { transport.close(fd) }.unwrap();
    assert!(Sim::open("sim:cores=0").is_err());
}

#[test]
fn an_empty_stream_and_a_marker() {
    for kernel in KERNELS {
        let mut bench = bench(&format!("sim:kernel={kernel}"));
        assert_eq!(bench.run("NOP\n"), 1, "{kernel}");
        let store = format!(
            "SET_SB_ENTRY #1, #0\nMOVE48 d0, #{MARKERS:#x}\nMOVE32 r2, #0x1234\nSTORE_MULTIPLE [d0 + 8], r2\nWAIT #1\n"
        );
        assert_eq!(bench.run(&store), 1, "{kernel}");
        assert_eq!(word(bench.markers, 2), 0x1234);
        assert_eq!(bench.state(), (0, 0));
    }
}

#[test]
fn cached_stores_are_seen_after_the_streams_flush_only() {
    let mut bench = bench("sim");
    let store = format!(
        "SET_SB_ENTRY #1, #0\nMOVE48 d0, #{DATA:#x}\nMOVE32 r2, #77\nSTORE_MULTIPLE [d0], r2\nWAIT #1\n"
    );
    assert_eq!((bench.run(&store), word(bench.data, 0)), (1, 0));
    assert!(bench.monitor.caches_dirty());
    assert_eq!(
        (bench.run(&format!("{store}{FLUSH}")), word(bench.data, 0)),
        (1, 77)
    );
}

#[test]
fn a_shader_runs_on_all_cores() {
    let mut bench = bench("sim");
    let run = bench.shader(STORE_IDS, 32, 64);
    assert_eq!(
        bench.run(&format!("{run}{FLUSH}")),
        1,
        "{}",
        bench.last_message()
    );
    for index in 0..2048 {
        assert_eq!(word(bench.data, index), index as u32);
    }
    let log = bench.monitor.job_log();
    assert_eq!((log.jobs, log.usage.warps, log.recent.len()), (1, 128, 1));
    assert_eq!(log.usage.ls, 128);
    assert!(log.cycles > 0);
    assert_eq!(bench.run(&format!("{run}{FLUSH}")), 1);
    assert_eq!(bench.monitor.job_log().jobs, 2);
}

#[test]
fn an_endless_shader_times_out_and_the_next_group_works() {
    for kernel in KERNELS {
        // A slow clock, so that few instructions fill the time.
        let mut bench = bench(&format!(
            "sim:kernel={kernel},gpu_mhz=0.01,job_timeout_ms=5000"
        ));
        let endless = bench.shader(
            "MOV.i32 r0, 0x0\nBRANCHZ.eq.reconverge r0, offset:-1\nNOP.end\n",
            16,
            1,
        );
        let start = bench.client.device.now();
        assert_eq!(bench.run(&endless), errno(Errno::TIMEDOUT), "{kernel}");
        let took = bench.client.device.now() - start;
        assert!((5000 * MS..5100 * MS).contains(&took), "{kernel}: {took}");
        assert_eq!(bench.state(), (STATE_TIMEDOUT, 0));
        bench.new_group();
        let good = bench.shader(STORE_IDS, 16, 1);
        assert_eq!(
            bench.run(&format!("{good}{FLUSH}")),
            1,
            "{kernel}: {}",
            bench.last_message()
        );
        assert_eq!(word(bench.data, 15), 15);
    }
}

#[test]
fn an_endless_stream_times_out() {
    let mut bench = bench("sim:job_timeout_ms=100");
    let endless = "MOVE32 r0, #0\nagain:\nBRANCH.always r0, again\n";
    assert_eq!(bench.run(endless), errno(Errno::TIMEDOUT));
    assert_eq!(bench.state(), (STATE_TIMEDOUT, 0));
}

#[test]
fn faults_are_reported_with_their_reason() {
    let mut bench = bench("sim");
    for (text, part) in [
        ("ADD_IMMEDIATE32 r1, r7, #0\n".to_owned(), "r7"),
        ("MOVE32 r92, #0\n".to_owned(), "r92"),
        (
            "SET_SB_ENTRY #1, #0\nMOVE48 d0, #0x5000\nLOAD_MULTIPLE r2, [d0]\nWAIT #1\n".to_owned(),
            "0x5000",
        ),
        (
            format!(
                "SET_SB_ENTRY #1, #0\nMOVE48 d0, #{CODE:#x}\nMOVE32 r2, #0\nSTORE_MULTIPLE [d0], r2\nWAIT #1\n"
            ),
            "Permission",
        ),
    ] {
        assert_eq!(bench.run(&text), errno(Errno::INVAL), "{text}");
        assert_eq!(bench.state(), (STATE_FATAL, 1), "{text}");
        assert!(
            bench.last_message().contains(part),
            "{}",
            bench.last_message()
        );
        bench.new_group();
    }
    // A shader that reads a register that nobody wrote; the log names the place.
    let run = bench.shader("IADD.u32 r0, r5, r5\nNOP.end\n", 16, 1);
    assert_eq!(bench.run(&run), errno(Errno::INVAL));
    let message = bench.last_message();
    assert!(
        message.contains("r5 read before it was written") && message.contains("workgroup 0,0,0"),
        "{message}"
    );
    // One that stores where nothing is mapped: the MMU's fault.
    bench.new_group();
    let run = bench.shader(
        "MOV.i32 r2, 0x0\nMOV.i32 r3, 0x0\nSTORE.i32.slot0 @r60, r2, offset:16\nNOP.wait0\nNOP.end\n",
        16,
        1,
    );
    assert_eq!(bench.run(&run), errno(Errno::INVAL));
    let messages = bench.client.device.messages().join("\n");
    assert!(
        messages.contains("Unhandled Page fault at VA 0x0000000000000010"),
        "{messages}"
    );
}

#[test]
fn code_must_not_be_writable_and_data_not_executable() {
    let mut bench = bench("sim");
    let run = bench.shader(STORE_IDS, 16, 1);
    let words = valhall::assemble_program(STORE_IDS).unwrap();
    for (index, word) in words.iter().enumerate() {
        bench.data[8 * index..][..8].copy_from_slice(&word.to_le_bytes());
    }
    let mut program = ShaderProgram::compute(DATA, RegisterAllocation::PerThread64);
    program.preload = 1 << 12;
    bench.desc[..32].copy_from_slice(&to_bytes(&program.pack().unwrap()));
    assert_eq!(bench.run(&run), errno(Errno::INVAL), "NOEXEC");
    assert_eq!(bench.state(), (STATE_FATAL, 1));
}

#[test]
fn queues_of_a_group_meet_at_a_sync_object() {
    let mut bench = bench("sim");
    let done = [bench.client.syncobj(), bench.client.syncobj()];
    let object = MARKERS + 0x100;
    let head = format!("SET_SB_ENTRY #1, #0\nMOVE48 d0, #{object:#x}\n");
    let wait_text = format!("{head}MOVE48 d2, #0\nSYNC_WAIT64.gt.inherit d0, d2\n");
    bench.submit(0, &wait_text, &[signal(done[0], 0)]).unwrap();
    assert_eq!(
        bench.client.wait_points(&[(done[0], 0)], 0, 10 * MS),
        Err(Errno::TIME)
    );
    bench
        .submit(
            1,
            &format!("{head}MOVE48 d2, #1\nSYNC_ADD64.system [d0], d2, #0, #0\nWAIT #1\n"),
            &[signal(done[1], 0)],
        )
        .unwrap();
    for done in done {
        bench.client.wait_points(&[(done, 0)], 0, 10 * MS).unwrap();
        assert_eq!(bench.client.status(done), 1, "{}", bench.last_message());
    }
    assert_eq!(word(bench.markers, 0x40), 1);
    // And alone it is killed.
    let text = format!("{head}MOVE48 d2, #5\nSYNC_WAIT64.gt.inherit d0, d2\n");
    assert_eq!(bench.run(&text), errno(Errno::TIMEDOUT));
}

#[test]
fn jobs_of_two_groups_run_in_the_order_of_their_fences() {
    let mut bench = bench("sim");
    let first = bench.shader(STORE_IDS, 16, 4);
    let (ready, done) = (bench.client.syncobj(), bench.client.syncobj());
    bench
        .submit(0, &format!("{first}{FLUSH}"), &[signal(ready, 1)])
        .unwrap();
    bench.group = bench.client.group(bench.vm);
    let load = format!(
        "SET_SB_ENTRY #1, #0\nMOVE48 d0, #{DATA:#x}\nLOAD_MULTIPLE r4, [d0 + 252]\nWAIT #1\n\
         MOVE48 d2, #{MARKERS:#x}\nSTORE_MULTIPLE [d2], r4\nWAIT #1\n"
    );
    bench
        .submit(0, &load, &[wait(ready, 1), signal(done, 0)])
        .unwrap();
    bench.client.wait_done(done).unwrap();
    assert_eq!(
        (bench.client.status(done), word(bench.markers, 0)),
        (1, 63),
        "{}",
        bench.last_message()
    );
}

#[test]
fn a_job_takes_the_cycles_that_are_counted() {
    let mut took = Vec::new();
    for mhz in ["1000", "0.2"] {
        let mut bench = bench(&format!("sim:gpu_mhz={mhz},job_timeout_ms=3600000"));
        let run = bench.shader(STORE_IDS, 64, 256);
        let start = bench.client.device.now();
        assert_eq!(bench.run(&run), 1, "{}", bench.last_message());
        took.push((bench.client.device.now() - start) as f64);
    }
    // But for the ioctls' microseconds.
    assert!((took[1] / 5000.0 - took[0]).abs() < 10_000.0, "{took:?}");
}

#[test]
fn what_the_cpu_did_not_flush_is_an_error_with_a_name() {
    for (device, expected) in [("sim", errno(Errno::INVAL)), ("sim:strict=0", 1)] {
        let mut bench = bench(device);
        let cached = bench.client.try_bo(SIZE, 2, 0).unwrap();
        let (memory, va) = (bench.client.map(cached, SIZE as usize), 0x5_0000_0000);
        let bind = drm_panthor_vm_bind_op {
            flags: NOEXEC,
            bo_handle: cached,
            va,
            size: SIZE,
            ..Default::default()
        };
        bench.client.bind(bench.vm, &[bind], 0).unwrap();
        let copy = format!(
            "SET_SB_ENTRY #1, #0\nMOVE48 d0, #{va:#x}\nLOAD_MULTIPLE r4, [d0 + 64]\nWAIT #1\n\
             MOVE48 d2, #{MARKERS:#x}\nSTORE_MULTIPLE [d2], r4\nWAIT #1\n"
        );
        // Another line of the page does not matter.
        memory[128] = 5;
        assert_eq!(bench.run(&copy), 1, "{}", bench.last_message());
        memory[64] = 6;
        assert_eq!(bench.run(&copy), expected);
        assert_eq!(word(bench.markers, 0), 0);
        if expected < 0 {
            let message = bench.last_message();
            assert!(message.contains("did not flush (BO_SYNC)"), "{message}");
            bench.new_group();
        }
        let ops = [drm_panthor_bo_sync_op {
            handle: cached,
            r#type: 0,
            offset: 64,
            size: 1,
        }];
        let sync = |args: &mut drm_panthor_bo_sync| args.ops = array(&ops);
        bench
            .client
            .try_with(DRM_IOCTL_PANTHOR_BO_SYNC, sync)
            .unwrap();
        assert_eq!(
            (bench.run(&copy), word(bench.markers, 0)),
            (1, 6),
            "{}",
            bench.last_message()
        );
    }
}
