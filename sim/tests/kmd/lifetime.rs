//! Nothing is left behind on the device.

use std::path::Path;

use panthor_sim::kmd::LiveObjects;
use panthor_uapi::sys::drm::*;
use panthor_uapi::sys::panthor::*;
use panthor_uapi::{Errno, Fd, Prot, Transport};

use super::client::{KERNELS, array, open, signal, wait};
use super::script::Act;

const MS: u64 = 1_000_000;

#[test]
fn closing_the_file_frees_everything() {
    for kernel in KERNELS {
        let client = open(&format!("sim:kernel={kernel}"));
        let empty = client.device.live_objects();
        let second = client.again();
        let (vm, bo) = (second.vm(), second.bo(1 << 20));
        let (group, done, gate) = (second.group(vm), second.syncobj(), second.syncobj());
        second.bind_at(vm, bo, 0x10_0000, 1 << 20);
        let address = second
            .device
            .mmap(second.fd, second.mmap_offset(bo).unwrap(), 4096, Prot::READ)
            .unwrap();
        second
            .try_with::<drm_panthor_tiler_heap_create>(
                DRM_IOCTL_PANTHOR_TILER_HEAP_CREATE,
                |args| {
                    (
                        args.vm_id,
                        args.initial_chunk_count,
                        args.chunk_size,
                        args.max_chunks,
                    ) = (vm, 5, 1 << 20, 64);
                },
            )
            .unwrap();
        // One job runs, one waits in the ring, one for a fence, and a bind behind them.
        second.run(
            group,
            0,
            0x1000,
            &[Act::Cycles(500 * MS)],
            &[signal(gate, 0)],
        );
        second.run(group, 0, 0x1000, &[Act::Cycles(500 * MS)], &[]);
        second.run(
            group,
            1,
            0x1000,
            &[Act::Loop],
            &[wait(gate, 0), signal(done, 0)],
        );
        let syncs = [wait(done, 0)];
        let op = drm_panthor_vm_bind_op {
            bo_handle: bo,
            va: 0,
            size: 4096,
            syncs: array(&syncs),
            ..Default::default()
        };
        second.bind(vm, &[op], 1).unwrap();
        let file = second.export(done, 0).unwrap();
        assert_eq!(second.device.live_objects().pending_binds, 1);
        second.close(second.fd);
        second.close(file);
        // SAFETY: nobody uses the mapping any more.
        unsafe { second.device.munmap(address, 4096) }.unwrap();
        client.device.sleep_until(client.device.now() + MS);
        assert_eq!(client.device.live_objects(), empty, "{kernel}");
        client.close(client.fd);
        assert_eq!(
            client.device.live_objects(),
            LiveObjects::default(),
            "{kernel}"
        );
    }
}

#[test]
fn a_closed_file_is_gone_and_others_are_not() {
    let client = open("sim");
    let second = client.again();
    let (vm, done) = (client.vm(), client.syncobj());
    let group = client.group(vm);
    client.run(
        group,
        0,
        0x1000,
        &[Act::Cycles(50 * MS)],
        &[signal(done, 0)],
    );
    second.close(second.fd);
    assert_eq!(second.try_bo(4096, 0, 0), Err(Errno::BADF));
    // SAFETY: the descriptor is closed already, which is what is tried.
    assert_eq!(unsafe { second.device.close(second.fd) }, Err(Errno::BADF));
    client.wait_done(done).unwrap();
    assert_eq!(client.status(done), 1);
}

#[test]
fn the_lowest_numbers_come_back() {
    let client = open("sim");
    let bos = [client.bo(1), client.bo(1), client.bo(1)];
    assert_eq!(bos, [1, 2, 3]);
    client
        .try_with::<drm_gem_close>(DRM_IOCTL_GEM_CLOSE, |args| args.handle = 2)
        .unwrap();
    assert_eq!([client.bo(1), client.bo(1)], [2, 4]);
    let closing = client.try_with::<drm_gem_close>(DRM_IOCTL_GEM_CLOSE, |args| args.handle = 77);
    assert_eq!(closing, Err(Errno::INVAL));
}

#[test]
fn handles_belong_to_their_file() {
    let client = open("sim");
    let second = client.again();
    let bo = client.bo(4096);
    let offset = client.mmap_offset(bo).unwrap();
    assert_eq!(second.mmap_offset(bo), Err(Errno::NOENT));
    assert_eq!(
        second.device.mmap(second.fd, offset, 4096, Prot::READ),
        Err(Errno::ACCESS)
    );
    let vm = client.vm();
    assert_eq!(second.try_group(vm, |_| {}), Err(Errno::INVAL));
}

#[test]
fn groups_and_vms_are_limited() {
    for kernel in KERNELS {
        let client = open(&format!("sim:kernel={kernel}"));
        let vms: Vec<u32> = (0..32).map(|_| client.vm()).collect();
        let more = client.try_with::<drm_panthor_vm_create>(DRM_IOCTL_PANTHOR_VM_CREATE, |_| {});
        assert_eq!(more, Err(Errno::BUSY));
        for _ in 0..128 {
            client.group(vms[0]);
        }
        assert_eq!(client.try_group(vms[0], |_| {}), Err(Errno::BUSY));
        client.destroy_group(7).unwrap();
        assert_eq!(client.try_group(vms[0], |_| {}), Ok(7));
    }
}

#[test]
fn only_render_nodes_open() {
    let client = open("sim");
    assert_eq!(
        client.device.open(Path::new("/dev/dri/card0")),
        Err(Errno::NOENT)
    );
    client.device.open(Path::new("sim")).unwrap();
    let fd = Fd::from_raw(5);
    assert_eq!(
        client.raw(fd, DRM_IOCTL_VERSION, std::ptr::null_mut()),
        Err(Errno::BADF)
    );
}
