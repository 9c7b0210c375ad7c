//! The safe handles of `panthor-uapi` on the simulator: both sides of the seam agree.

use std::sync::Arc;

use mali_isa::csf;
use panthor_sim::fault::Mode;
use panthor_sim::kmd::{LiveObjects, Sim};
use panthor_uapi::{
    BindOp, BoFlags, BoSyncType, Device, Errno, Error, EventFd, Feature, GpuVa, GroupConfig,
    GroupPriority, QueueConfig, QueueSubmit, SharedTransport, SyncOp, SyncobjWaitFlags, Transport,
    VmBindOpFlags, WaitOutcome,
};

use super::client::KERNELS;

const MS: u64 = 1_000_000;
const VA: u64 = 0x1_0000_0000;

fn config() -> GroupConfig {
    GroupConfig {
        queues: vec![QueueConfig {
            priority: 1,
            ringbuf_size: 4096,
        }],
        priority: GroupPriority::Medium,
        compute_core_mask: 0x50005,
        max_compute_cores: 4,
        fragment_core_mask: 0x50005,
        max_fragment_cores: 4,
        tiler_core_mask: 1,
        max_tiler_cores: 1,
    }
}

#[test]
fn a_whole_life_on_every_kernel() {
    for kernel in KERNELS {
        let (sim, _) = Sim::device(format!("sim:kernel={kernel}").parse().unwrap()).unwrap();
        {
            let transport: SharedTransport = sim.clone();
            let device = Device::open(transport, "/dev/dri/renderD128").unwrap();
            assert_eq!(device.gpu_info().unwrap().gpu_id >> 16, 0xa867);
            assert_eq!(device.csif_info().unwrap().cs_reg_count, 96);
            let vm = device.create_vm(0).unwrap();
            let cached = device.has(Feature::WbMmap);
            assert_eq!(cached, kernel != "6.12");
            let flags = if cached {
                BoFlags::WB_MMAP
            } else {
                BoFlags::empty()
            };
            let bo = device.create_bo(0x10000, flags, Some(&vm)).unwrap();
            let map = bo.map().unwrap();
            // A stream that stores 42 at VA + 4096, uncached by the GPU, and a copy of the mapping for streams.
            let text = format!(
                "SET_SB_ENTRY #1, #0\nMOVE48 d0, #{:#x}\nMOVE32 r2, #42\nSTORE_MULTIPLE [d0], r2\nWAIT #1\n",
                VA + 4096
            );
            let stream = csf::assemble_program(&text).unwrap();
            map.write(0, &stream);
            if cached {
                bo.sync(BoSyncType::Flush, 0, stream.len() as u64).unwrap();
            }
            let ops = [BindOp::map(
                &bo,
                0,
                GpuVa(VA),
                0x10000,
                VmBindOpFlags::MAP_NOEXEC | VmBindOpFlags::MAP_UNCACHED,
            )];
            vm.bind(&ops).unwrap();
            assert!(vm.is_usable().unwrap());
            let group = device.create_group(&vm, &config()).unwrap();
            let (timeline, binary) = (
                device.create_syncobj(false).unwrap(),
                device.create_syncobj(false).unwrap(),
            );
            let event = EventFd::new(device.transport()).unwrap();
            timeline.notify(1, &event, false).unwrap();
            let job = |point: u64| QueueSubmit {
                queue_index: 0,
                stream_addr: GpuVa(VA),
                stream_size: stream.len() as u32,
                latest_flush: 0,
                syncs: vec![SyncOp::signal(&timeline, point), SyncOp::signal(&binary, 0)],
            };
            group.submit(&[job(1)]).unwrap();
            let deadline = sim.now() + 100 * MS;
            assert!(event.wait(deadline).unwrap());
            let outcome = binary.wait(0, SyncobjWaitFlags::empty(), deadline).unwrap();
            assert_eq!(
                outcome,
                WaitOutcome::Signalled,
                "{kernel}: {:?}",
                sim.messages()
            );
            assert_eq!(timeline.query().unwrap(), 1);
            if cached {
                bo.sync(BoSyncType::FlushAndInvalidate, 4096, 64).unwrap();
            }
            assert_eq!(map.read_u32(4096), 42);
            // A job that dies takes the group with it, and the handle says so.
            sim.inject(1, Mode::CsFatal { exception: 0x44 });
            group.submit(&[job(2)]).unwrap();
            let outcome = binary.wait(0, SyncobjWaitFlags::empty(), deadline).unwrap();
            assert_eq!(outcome, WaitOutcome::Failed(Errno::INVAL));
            assert!(matches!(
                group.submit(&[job(3)]),
                Err(Error::DeviceLost { .. })
            ));
            assert!(group.state().unwrap().is_dead());
        }
        assert_eq!(sim.live_objects(), LiveObjects::default(), "{kernel}");
    }
}

#[test]
fn an_expired_wait_is_no_error() {
    let sim: Arc<dyn Transport> = Sim::open("sim").unwrap();
    let device = Device::open(sim.clone(), "/dev/dri/renderD128").unwrap();
    let syncobj = device.create_syncobj(false).unwrap();
    let start = sim.now();
    let outcome = syncobj
        .wait(0, SyncobjWaitFlags::WAIT_FOR_SUBMIT, start + 50 * MS)
        .unwrap();
    assert_eq!(outcome, WaitOutcome::TimedOut);
    assert!(sim.now() >= start + 50 * MS);
}

#[test]
fn memory_that_is_not_there_is_named() {
    for kernel in KERNELS {
        let sim = Sim::open(&format!("sim:kernel={kernel},memory=1")).unwrap();
        let device = Device::open(sim, "/dev/dri/renderD128").unwrap();
        let mapped = device
            .create_bo(64 << 20, BoFlags::empty(), None)
            .and_then(|bo| bo.map().map(drop));
        assert_eq!(mapped.unwrap_err().errno(), Some(Errno::NOMEM), "{kernel}");
    }
}
