//! Buffer objects, mappings, VMs and binds.

use panthor_uapi::sys::drm::*;
use panthor_uapi::sys::panthor::*;
use panthor_uapi::{Errno, Fd, Prot, Transport};

use super::client::{KERNELS, array, errno, open, signal, wait};
use super::script::Act;

const MS: u64 = 1_000_000;
const ASYNC: u32 = 1;
const WB_MMAP: u32 = 2;
const UNMAP: u32 = 1 << 28;
const READONLY: u32 = 1;

#[test]
fn what_the_client_writes_the_gpu_has_and_the_other_way_round() {
    let client = open("sim");
    let (vm, bo, done) = (client.vm(), client.bo(5000), client.syncobj());
    let memory = client.map(bo, 8192);
    memory[4097] = 3;
    client.bind_at(vm, bo, 0x10_0000, 8192);
    let group = client.group(vm);
    client.run(
        group,
        0,
        0x1000,
        &[Act::Store(0x10_1000, 9)],
        &[signal(done, 0)],
    );
    client.wait_done(done).unwrap();
    assert_eq!(memory[4096..4098], [9, 3]);
}

#[test]
fn cached_mappings_are_seen_after_bo_sync_only() {
    let client = open("sim");
    let bo = client.try_bo(8192, WB_MMAP, 0).unwrap();
    let (vm, done) = (client.vm(), client.syncobj());
    let memory = client.map(bo, 8192);
    client.bind_at(vm, bo, 0x10_0000, 8192);
    let group = client.group(vm);
    client.run(
        group,
        0,
        0x1000,
        &[Act::Store(0x10_0040, 9)],
        &[signal(done, 0)],
    );
    client.wait_done(done).unwrap();
    assert_eq!(memory[0x40], 0, "the CPU's caches know nothing of it");
    let sync = |r#type: u32, offset: u64, size: u64| {
        let ops = [drm_panthor_bo_sync_op {
            handle: bo,
            r#type,
            offset,
            size,
        }];
        client
            .try_with::<drm_panthor_bo_sync>(DRM_IOCTL_PANTHOR_BO_SYNC, |args| {
                args.ops = array(&ops)
            })
            .map(drop)
    };
    sync(0, 0, 8192).unwrap();
    assert_eq!(memory[0x40], 0, "a flush invalidates nothing");
    sync(1, 0, 8192).unwrap();
    assert_eq!(memory[0x40], 9);
    assert_eq!(sync(1, 8192, 1), Err(Errno::INVAL));
    assert_eq!(sync(2, 0, 1), Err(Errno::INVAL));
    // The CPU's line hides what the GPU writes into it meanwhile; the log tells.
    memory[0x41] = 1;
    client.run(
        group,
        0,
        0x1000,
        &[Act::Store(0x10_0042, 5)],
        &[signal(done, 0)],
    );
    client.wait_done(done).unwrap();
    sync(1, 0, 8192).unwrap();
    assert_eq!(memory[0x40..0x43], [9, 1, 0]);
    assert!(
        client
            .device
            .messages()
            .iter()
            .any(|line| line.starts_with("coherency:"))
    );
}

#[test]
fn binds_can_be_split_and_taken_away() {
    let client = open("sim");
    let (vm, bo) = (client.vm(), client.bo(4 << 12));
    let group = client.group(vm);
    let memory = client.map(bo, 4 << 12);
    client.bind_at(vm, bo, 0x10_0000, 4 << 12);
    let unmap = drm_panthor_vm_bind_op {
        flags: UNMAP,
        va: 0x10_1000,
        size: 0x1000,
        ..Default::default()
    };
    let readonly = drm_panthor_vm_bind_op {
        flags: READONLY,
        bo_handle: bo,
        va: 0x10_2000,
        size: 0x1000,
        ..Default::default()
    };
    client.bind(vm, &[unmap, readonly], 0).unwrap();
    let store = |group: u32, va: u64| {
        let done = client.syncobj();
        client.run(group, 0, 0x1000, &[Act::Store(va, 1)], &[signal(done, 0)]);
        client.wait_done(done).unwrap();
        client.status(done)
    };
    assert_eq!([store(group, 0x10_0000), store(group, 0x10_3000)], [1, 1]);
    assert_eq!((memory[0], memory[0x3000]), (1, 1));
    for hole in [0x10_1000, 0x10_2000] {
        assert_eq!(
            store(client.group(vm), hole),
            errno(Errno::INVAL),
            "{hole:#x}"
        );
    }
}

#[test]
fn a_sync_bind_stops_at_the_first_error_and_says_where() {
    let client = open("sim");
    let (vm, bo) = (client.vm(), client.bo(4096));
    let good = drm_panthor_vm_bind_op {
        bo_handle: bo,
        va: 0x1000,
        size: 0x1000,
        ..Default::default()
    };
    let ops = [
        good,
        good,
        drm_panthor_vm_bind_op { va: 0x1001, ..good },
        good,
    ];
    let mut args = drm_panthor_vm_bind {
        vm_id: vm,
        flags: 0,
        ops: array(&ops),
    };
    assert_eq!(
        client.ioctl(DRM_IOCTL_PANTHOR_VM_BIND, &mut args),
        Err(Errno::INVAL)
    );
    assert_eq!(args.ops.count, 2);
    assert_eq!(
        client.vm_state(vm),
        0,
        "a synchronous failure leaves the VM usable"
    );
}

#[test]
fn async_binds_run_in_order_behind_their_fences() {
    let client = open("sim");
    let (vm, bo) = (client.vm(), client.bo(4096));
    let (group, other) = (client.group(vm), client.group(client.vm()));
    let [gate, bound, done] = [0; 3].map(|_| client.syncobj());
    client.run(
        other,
        0,
        0x9000,
        &[Act::Cycles(50 * MS)],
        &[signal(gate, 0)],
    );
    let (first, second) = ([wait(gate, 0)], [signal(bound, 7)]);
    let map = |va, syncs| drm_panthor_vm_bind_op {
        bo_handle: bo,
        va,
        size: 4096,
        syncs,
        ..Default::default()
    };
    client
        .bind(
            vm,
            &[
                map(0x10_0000, array(&first)),
                map(0x20_0000, array(&second)),
            ],
            ASYNC,
        )
        .unwrap();
    assert_eq!(
        client.wait_points(&[(bound, 7)], 0, 40 * MS),
        Err(Errno::TIME)
    );
    client.run(
        group,
        0,
        0x1000,
        &[Act::Store(0x20_0000, 1)],
        &[wait(bound, 7), signal(done, 0)],
    );
    client.wait_done(done).unwrap();
    assert_eq!((client.status(done), client.vm_state(vm)), (1, 0));
}

#[test]
fn a_job_that_does_not_wait_for_its_bind_faults() {
    let client = open("sim");
    let (vm, bo) = (client.vm(), client.bo(4096));
    let (group, done) = (client.group(vm), client.syncobj());
    let map = drm_panthor_vm_bind_op {
        bo_handle: bo,
        va: 0x10_0000,
        size: 4096,
        ..Default::default()
    };
    client.bind(vm, &[map], ASYNC).unwrap();
    client.run(
        group,
        0,
        0x1000,
        &[Act::Store(0x10_0000, 1)],
        &[signal(done, 0)],
    );
    client.wait_done(done).unwrap();
    assert_eq!(client.status(done), errno(Errno::INVAL));
}

#[test]
fn objects_live_as_long_as_something_holds_them() {
    let client = open("sim");
    let vm = client.vm();
    let before = client.device.live_objects();
    let bo = client.bo(1 << 20);
    client.bind_at(vm, bo, 0x10_0000, 1 << 20);
    let address = client
        .device
        .mmap(
            client.fd,
            client.mmap_offset(bo).unwrap(),
            4096,
            Prot::READ | Prot::WRITE,
        )
        .unwrap();
    client
        .try_with::<drm_gem_close>(DRM_IOCTL_GEM_CLOSE, |args| args.handle = bo)
        .unwrap();
    assert_eq!(client.mmap_offset(bo), Err(Errno::NOENT));
    let (group, done) = (client.group(vm), client.syncobj());
    client.run(
        group,
        0,
        0x1000,
        &[Act::Store(0x10_0000, 4)],
        &[signal(done, 0)],
    );
    client.wait_done(done).unwrap();
    // SAFETY: the mapping is 4096 bytes long and undone below.
    let byte = unsafe { address.as_ptr().read_volatile() };
    assert_eq!((client.status(done), byte), (1, 4));
    client.destroy_group(group).unwrap();
    let unmap = drm_panthor_vm_bind_op {
        flags: UNMAP,
        va: 0,
        size: 1 << 40,
        ..Default::default()
    };
    client.bind(vm, &[unmap], 0).unwrap();
    assert_eq!(
        client.device.live_objects().bytes,
        before.bytes + (1 << 20),
        "the client's mapping holds it"
    );
    // SAFETY: nobody uses the mapping any more.
    unsafe { client.device.munmap(address, 4096) }.unwrap();
    assert_eq!(client.device.live_objects().bytes, before.bytes);
    // SAFETY: the second time it is no mapping, which is what is tried.
    let again = unsafe { client.device.munmap(address, 4096) };
    assert_eq!(again, Err(Errno::INVAL));
}

#[test]
fn memory_runs_out_where_the_kernel_takes_it() {
    for kernel in KERNELS {
        let client = open(&format!("sim:kernel={kernel},memory=16"));
        let vm = client.vm();
        let big = client.try_bo(64 << 20, 0, 0);
        if kernel == "6.12" {
            assert_eq!(big, Err(Errno::NOMEM));
        } else {
            // 7.x takes the pages when they are bound or touched.
            let op = drm_panthor_vm_bind_op {
                bo_handle: big.unwrap(),
                size: 64 << 20,
                ..Default::default()
            };
            assert_eq!(client.bind(vm, &[op], 0), Err(Errno::NOMEM));
            let offset = client.mmap_offset(big.unwrap()).unwrap();
            assert_eq!(
                client.device.mmap(client.fd, offset, 64 << 20, Prot::READ),
                Err(Errno::NOMEM)
            );
        }
        client.bind_at(vm, client.bo(8 << 20), 0, 8 << 20);
        assert_eq!(
            client.try_bo(2 << 40, 0, 0),
            Err(Errno::NOSPC),
            "beyond the file offsets"
        );
    }
}

#[test]
fn buffers_travel_as_dma_bufs() {
    let (client, bo) = (open("sim"), 1);
    assert_eq!(client.bo(8192), bo);
    let export = |handle: u32, flags: u32| {
        client
            .try_with::<drm_prime_handle>(DRM_IOCTL_PRIME_HANDLE_TO_FD, |args| {
                (args.handle, args.flags) = (handle, flags)
            })
            .map(|args| Fd::from_raw(args.fd))
    };
    let fd = export(bo, PrimeFlags::RDWR.bits() | PrimeFlags::CLOEXEC.bits()).unwrap();
    assert_eq!(client.device.seek_end(fd), Ok(8192));
    let other = client.again();
    let import = |fd: i32| {
        other
            .try_with::<drm_prime_handle>(DRM_IOCTL_PRIME_FD_TO_HANDLE, |args| args.fd = fd)
            .map(|args| args.handle)
    };
    let handle = import(fd.raw()).unwrap();
    assert_eq!(import(fd.raw()), Ok(handle), "one handle per file");
    other.map(handle, 4096)[5] = 6;
    assert_eq!(client.map(bo, 4096)[5], 6);
    assert_eq!(import(3), Err(Errno::BADF));
    assert_eq!(import(client.fd.raw()), Err(Errno::INVAL));
    assert_eq!(export(99, 0), Err(Errno::NOENT));
    assert_eq!(export(bo, 4), Err(Errno::INVAL));
    let private = client.try_bo(4096, 0, client.vm()).unwrap();
    assert_eq!(export(private, 0), Err(Errno::INVAL), "bound to one VM");
}

#[test]
fn pages_of_other_sizes_round_objects_and_mappings() {
    for page in [4096_usize, 16384, 65536] {
        let client = open(&format!("sim:page_size={page}"));
        assert_eq!(client.device.page_size(), page);
        let args = client
            .try_with::<drm_panthor_bo_create>(DRM_IOCTL_PANTHOR_BO_CREATE, |args| args.size = 1)
            .unwrap();
        assert_eq!(args.size, page as u64);
        let offset = client.mmap_offset(args.handle).unwrap();
        assert_eq!(offset % page as u64, 0);
        let address = client
            .device
            .mmap(client.fd, offset, 1, Prot::READ)
            .unwrap();
        assert_eq!(address.as_ptr() as usize % page, 0);
        assert_eq!(
            client.device.mmap(client.fd, offset, page + 1, Prot::READ),
            Err(Errno::INVAL)
        );
        // The GPU's pages stay at 4 KiB.
        client.bind_at(client.vm(), args.handle, 0x1000, 0x1000);
    }
}

#[test]
fn the_flush_id_page_is_readable_and_no_more() {
    for kernel in KERNELS {
        let client = open(&format!("sim:kernel={kernel}"));
        let map = |len, prot| {
            client
                .device
                .mmap(client.fd, DRM_PANTHOR_USER_FLUSH_ID_MMIO_OFFSET, len, prot)
        };
        let page = map(4096, Prot::READ).unwrap().cast::<u32>();
        // SAFETY: the page stays mapped and is at least four bytes long.
        let read = || unsafe { page.as_ptr().read_volatile() };
        let before = read();
        let (vm, bo) = (client.vm(), client.bo(4096));
        client.bind_at(vm, bo, 0, 4096);
        assert_eq!(
            read(),
            before,
            "nothing to flush for a VM that is not in use"
        );
        let (group, done) = (client.group(vm), client.syncobj());
        client.run(group, 0, 0x1000, &[], &[signal(done, 0)]);
        client.wait_done(done).unwrap();
        client.bind_at(vm, bo, 4096, 4096);
        assert_ne!(read(), before, "the driver flushed");
        assert_eq!(map(4096, Prot::READ | Prot::WRITE), Err(Errno::INVAL));
        assert_eq!(map(8192, Prot::READ), Err(Errno::INVAL));
    }
}

#[test]
fn the_user_mmio_offset_moves() {
    let client = open("sim");
    let set = |offset: u64| {
        client
            .try_with::<drm_panthor_set_user_mmio_offset>(
                DRM_IOCTL_PANTHOR_SET_USER_MMIO_OFFSET,
                |args| {
                    args.offset = offset;
                },
            )
            .map(drop)
    };
    assert_eq!(set(1 << 44), Err(Errno::INVAL));
    set(DRM_PANTHOR_USER_MMIO_OFFSET_32BIT).unwrap();
    client
        .device
        .mmap(
            client.fd,
            DRM_PANTHOR_USER_MMIO_OFFSET_32BIT,
            4096,
            Prot::READ,
        )
        .unwrap();
}
