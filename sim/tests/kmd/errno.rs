//! The errno of every refusal, per kernel.

use panthor_uapi::sys::drm::*;
use panthor_uapi::sys::panthor::*;
use panthor_uapi::sys::sync_file::*;
use panthor_uapi::{Errno, Prot, Transport};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes};

use super::client::{Client, KERNELS, SIGNAL, TIMELINE, array, job, open, signal, wait};

/// A change of a struct that was good.
type Edit<T> = fn(&mut T);

/// Each edit of a good struct must be refused with its errno; the struct itself must pass.
fn refuse<T>(client: &Client, request: u32, good: &dyn Fn() -> T, cases: &[(&str, Errno, Edit<T>)])
where
    T: FromBytes + IntoBytes + Immutable,
{
    for (what, errno, edit) in cases {
        let mut args = good();
        edit(&mut args);
        assert_eq!(client.ioctl(request, &mut args), Err(*errno), "{what}");
    }
    client.ioctl(request, &mut good()).unwrap();
}

#[test]
fn the_dispatch_knows_groups_numbers_sizes_and_pointers() {
    for kernel in KERNELS {
        let client = open(&format!("sim:kernel={kernel}"));
        let mut bytes = [0_u8; 256];
        let mut call = |request: u32| client.raw(client.fd, request, bytes.as_mut_ptr());
        let number = |nr: u32, size: u32| 3 << 30 | size << 16 | u32::from(b'd') << 8 | nr;
        assert_eq!(
            call(3 << 30 | 8 << 16 | u32::from(b'e') << 8 | 0x40),
            Err(Errno::NOTTY)
        );
        assert_eq!(call(SYNC_IOC_FILE_INFO), Err(Errno::NOTTY));
        assert_eq!(
            call(number(0x51, 8)),
            Err(Errno::INVAL),
            "behind the driver's last"
        );
        assert_eq!(call(number(0x9f, 8)), Err(Errno::INVAL));
        assert_eq!(call(number(0xff, 8)), Err(Errno::INVAL));
        assert_eq!(
            call(number(0xa0, 64)),
            Err(Errno::ACCESS),
            "modes, on a render node"
        );
        assert_eq!(
            call(number(0x0a, 8)),
            Err(Errno::ACCESS),
            "flink, on a render node"
        );
        // BO_SYNC takes zeros where it exists.
        assert_eq!(
            call(number(0x4f, 16)),
            if kernel == "6.12" {
                Err(Errno::INVAL)
            } else {
                Ok(())
            }
        );
        for bad in [0_usize, 16, usize::MAX - 64] {
            assert_eq!(
                client.raw(client.fd, DRM_IOCTL_PANTHOR_VM_CREATE, bad as *mut u8),
                Err(Errno::FAULT)
            );
        }
        // A shorter struct is padded, a longer one is cut, and both are copied back by the caller's size.
        assert_eq!(
            client.raw(client.fd, number(0x41, 4), bytes.as_mut_ptr()),
            Ok(())
        );
        assert_eq!(bytes[4..8], [0; 4]);
        bytes[24..32].fill(0xff);
        client
            .raw(client.fd, number(0x41, 64), bytes.as_mut_ptr())
            .unwrap();
        assert_eq!(bytes[4], 2, "the second VM");
        // Without a direction nothing is copied.
        bytes[..16].fill(0xff);
        client
            .raw(client.fd, u32::from(b'd') << 8 | 0x41, bytes.as_mut_ptr())
            .unwrap();
        assert_eq!(bytes[..16], [0xff; 16]);
    }
}

#[test]
fn version_and_capabilities() {
    for (kernel, minor, date) in [("6.12", 0, &b"0"[..]), ("7.2", 8, b"0"), ("7.3", 9, b"0")] {
        let client = open(&format!("sim:kernel={kernel}"));
        let (mut name, mut dates) = ([0_u8; 4], [0_u8; 16]);
        let mut args = drm_version::new_zeroed();
        (args.name, args.name_len) = (name.as_mut_ptr() as usize, name.len());
        (args.date, args.date_len) = (dates.as_mut_ptr() as usize, dates.len());
        client.ioctl(DRM_IOCTL_VERSION, &mut args).unwrap();
        assert_eq!(
            (args.version_major, args.version_minor, args.name_len),
            (1, minor, 7)
        );
        assert_eq!((&name, &dates[..args.date_len]), (b"pant", date));
        let cap = |capability: u64| {
            client
                .try_with::<drm_get_cap>(DRM_IOCTL_GET_CAP, |args| args.capability = capability)
                .map(|args| args.value)
        };
        assert_eq!(
            [cap(DRM_CAP_SYNCOBJ), cap(DRM_CAP_SYNCOBJ_TIMELINE)],
            [Ok(1), Ok(1)]
        );
        assert_eq!(cap(0x1), Err(Errno::OPNOTSUPP), "dumb buffers");
    }
}

#[test]
fn dev_query_in_two_steps() {
    for (kernel, sizes) in [
        ("6.12", [Some(104), Some(24), None, None, None]),
        ("7.2", [Some(112), Some(24), Some(56), Some(4), None]),
        ("7.3", [Some(112), Some(24), Some(56), Some(4), Some(8)]),
    ] {
        let client = open(&format!("sim:kernel={kernel}"));
        let query = |r#type: u32, size: u32, pointer: u64| {
            let edit = |args: &mut drm_panthor_dev_query| {
                (args.r#type, args.size, args.pointer) = (r#type, size, pointer)
            };
            client
                .try_with(DRM_IOCTL_PANTHOR_DEV_QUERY, edit)
                .map(|args| args.size)
        };
        for (r#type, size) in (0..).zip(sizes) {
            assert_eq!(
                query(r#type, 0, 0),
                size.ok_or(Errno::INVAL),
                "{kernel} {type}"
            );
            let Some(size) = size else { continue };
            let mut bytes = vec![0xee_u8; size as usize + 16];
            if r#type == DRM_PANTHOR_DEV_QUERY_TIMESTAMP_INFO {
                bytes.fill(0);
            }
            query(r#type, size + 8, bytes.as_mut_ptr() as u64).unwrap();
            assert_eq!(
                bytes[size as usize..size as usize + 8],
                [0; 8],
                "the gap is filled"
            );
            assert_eq!(
                query(r#type, 3, bytes.as_mut_ptr() as u64),
                Err(Errno::INVAL)
            );
            assert_eq!(query(r#type, size, 64), Err(Errno::FAULT));
        }
        assert_eq!(query(5, 0, 0), Err(Errno::INVAL));
    }
}

#[test]
fn what_the_device_says_of_itself() {
    let client = open("sim:kernel=7.3,cores=2,va_bits=40");
    let mut info = drm_panthor_gpu_info::new_zeroed();
    let mut csif = drm_panthor_csif_info::new_zeroed();
    let mut time = drm_panthor_timestamp_info::new_zeroed();
    let mut priorities = drm_panthor_group_priorities_info::new_zeroed();
    for (r#type, bytes) in [
        (DRM_PANTHOR_DEV_QUERY_GPU_INFO, info.as_mut_bytes()),
        (DRM_PANTHOR_DEV_QUERY_CSIF_INFO, csif.as_mut_bytes()),
        (DRM_PANTHOR_DEV_QUERY_TIMESTAMP_INFO, time.as_mut_bytes()),
        (
            DRM_PANTHOR_DEV_QUERY_GROUP_PRIORITIES_INFO,
            priorities.as_mut_bytes(),
        ),
    ] {
        client
            .try_with::<drm_panthor_dev_query>(DRM_IOCTL_PANTHOR_DEV_QUERY, |args| {
                (args.r#type, args.size, args.pointer) =
                    (r#type, bytes.len() as u32, bytes.as_mut_ptr() as u64);
            })
            .unwrap();
    }
    assert_eq!(
        (
            info.gpu_id >> 16,
            info.shader_present,
            info.mmu_features & 0xff
        ),
        (0xa867, 0x5, 40)
    );
    assert_eq!(info.selected_coherency, DRM_PANTHOR_GPU_COHERENCY_NONE);
    assert_eq!(
        (csif.csg_slot_count, csif.cs_slot_count, csif.cs_reg_count),
        (8, 8, 96)
    );
    assert_eq!(
        (csif.scoreboard_slot_count, csif.unpreserved_cs_reg_count),
        (8, 4)
    );
    assert_eq!(time.timestamp_frequency, 24_000_000);
    let seconds = time.current_timestamp as f64 / 24e6;
    assert!((seconds - client.device.now() as f64 / 1e9).abs() < 1e-3);
    assert_eq!(priorities.allowed_mask, 0b0011);
    // Flags of the timestamp.
    for (flags, good) in [
        (0xff & !(3 << 2), true),
        (3 << 1, false),
        (1 << 8, false),
        (1 << 5, true),
    ] {
        let mut time = drm_panthor_timestamp_info {
            flags,
            ..FromZeros::new_zeroed()
        };
        let result =
            client.try_with::<drm_panthor_dev_query>(DRM_IOCTL_PANTHOR_DEV_QUERY, |args| {
                let bytes = time.as_mut_bytes();
                (args.r#type, args.size, args.pointer) =
                    (2, bytes.len() as u32, bytes.as_mut_ptr() as u64);
            });
        assert_eq!(
            result.map(drop),
            if good { Ok(()) } else { Err(Errno::INVAL) },
            "{flags:#x}"
        );
        assert_eq!(good && flags & 1 << 5 != 0, time.cycle_count != 0);
    }
}

#[test]
fn vm_create_and_destroy() {
    let client = open("sim");
    refuse(
        &client,
        DRM_IOCTL_PANTHOR_VM_CREATE,
        &drm_panthor_vm_create::new_zeroed,
        &[
            ("flags", Errno::INVAL, |args| args.flags = 1),
            ("no room for the driver", Errno::INVAL, |args| {
                args.user_va_range = 1 << 48
            }),
        ],
    );
    let good = || drm_panthor_vm_destroy {
        id: client.vm(),
        pad: 0,
    };
    refuse(
        &client,
        DRM_IOCTL_PANTHOR_VM_DESTROY,
        &good,
        &[
            ("pad", Errno::INVAL, |args| args.pad = 1),
            ("no such VM", Errno::INVAL, |args| args.id = 99),
        ],
    );
    let state = client
        .try_with::<drm_panthor_vm_get_state>(DRM_IOCTL_PANTHOR_VM_GET_STATE, |args| {
            args.vm_id = 99
        });
    assert_eq!(state, Err(Errno::INVAL));
}

#[test]
fn bo_create_and_friends() {
    for kernel in KERNELS {
        let client = open(&format!("sim:kernel={kernel}"));
        let is_7x = kernel != "6.12";
        let good = || drm_panthor_bo_create {
            size: 1,
            ..FromZeros::new_zeroed()
        };
        refuse(
            &client,
            DRM_IOCTL_PANTHOR_BO_CREATE,
            &good,
            &[
                ("size", Errno::INVAL, |args| args.size = 0),
                ("pad", Errno::INVAL, |args| args.pad = 1),
                ("flags", Errno::INVAL, |args| args.flags = 4),
                ("both flags", Errno::INVAL, |args| args.flags = 3),
                ("no such VM", Errno::INVAL, |args| args.exclusive_vm_id = 9),
                ("negative size", Errno::INVAL, |args| args.size = 1 << 63),
                ("size that wraps", Errno::NOSPC, |args| args.size = u64::MAX),
            ],
        );
        assert_eq!(
            client.try_bo(4096, 2, 0).is_ok(),
            is_7x,
            "WB_MMAP came with 7.x"
        );
        let hidden = client.try_bo(4096, 1, 0).unwrap();
        let offset = client.mmap_offset(hidden);
        if is_7x {
            assert_eq!(offset, Err(Errno::PERM));
        } else {
            let map = client
                .device
                .mmap(client.fd, offset.unwrap(), 4096, Prot::READ);
            assert_eq!(map, Err(Errno::INVAL));
        }
        let bo = client.bo(4096);
        let good = || drm_panthor_bo_mmap_offset {
            handle: bo,
            pad: 0,
            offset: 0,
        };
        refuse(
            &client,
            DRM_IOCTL_PANTHOR_BO_MMAP_OFFSET,
            &good,
            &[
                ("pad", Errno::INVAL, |args| args.pad = 1),
                ("no such object", Errno::NOENT, |args| args.handle = 99),
            ],
        );
        if !is_7x {
            continue;
        }
        let label = b"weights\0";
        let good = || drm_panthor_bo_set_label {
            handle: bo,
            pad: 0,
            label: label.as_ptr() as u64,
        };
        refuse(
            &client,
            DRM_IOCTL_PANTHOR_BO_SET_LABEL,
            &good,
            &[
                ("pad", Errno::INVAL, |args| args.pad = 1),
                ("no such object", Errno::NOENT, |args| args.handle = 99),
                ("bad pointer", Errno::FAULT, |args| args.label = 8),
            ],
        );
        let long = [b'x'; 5000];
        let args = |address: u64| drm_panthor_bo_set_label {
            handle: bo,
            pad: 0,
            label: address,
        };
        let set = |address| client.ioctl(DRM_IOCTL_PANTHOR_BO_SET_LABEL, &mut args(address));
        assert_eq!(set(long.as_ptr() as u64), Err(Errno::TOOBIG));
        assert_eq!(set(0), Ok(()), "takes the label away");
        let info = |handle: u32| {
            client.try_with::<drm_panthor_bo_query_info>(DRM_IOCTL_PANTHOR_BO_QUERY_INFO, |args| {
                (args.handle, args.pad, args.extra_flags) = (handle, 7, 7);
            })
        };
        let found = info(hidden).unwrap();
        assert_eq!(
            (found.create_flags, found.extra_flags, found.pad),
            (1, 0, 0)
        );
        assert_eq!(info(99), Err(Errno::NOENT));
    }
}

#[test]
fn vm_bind_operations() {
    for kernel in KERNELS {
        let client = open(&format!("sim:kernel={kernel}"));
        let (vm, other, bo) = (client.vm(), client.vm(), client.bo(0x4000));
        let private = client.try_bo(0x1000, 0, other).unwrap();
        let try_op = |flags: u32, op: drm_panthor_vm_bind_op| client.bind(vm, &[op], flags);
        let good = drm_panthor_vm_bind_op {
            bo_handle: bo,
            va: 0x1000,
            size: 0x2000,
            bo_offset: 0x2000,
            ..Default::default()
        };
        let end = 1_u64 << 47;
        let syncs = [wait(1, 0)];
        let cases: &[(&str, Edit<drm_panthor_vm_bind_op>)] = &[
            ("va", |op| op.va = 0x1800),
            ("size", |op| op.size = 0x1800),
            ("offset", |op| op.bo_offset = 0x100),
            ("beyond the object", |op| op.size = 0x3000),
            ("offset beyond the object", |op| op.bo_offset = 0x5000),
            ("offset that wraps", |op| op.bo_offset = u64::MAX << 12),
            ("no such object", |op| op.bo_handle = 99),
            ("flags", |op| op.flags = 1 << 4),
            ("type", |op| op.flags = 3 << 28),
            ("unmap with an object", |op| op.flags = 1 << 28),
            ("unmap with flags", |op| {
                *op = drm_panthor_vm_bind_op {
                    flags: 1 << 28 | 1,
                    size: 0x1000,
                    ..Default::default()
                }
            }),
            ("the driver's half", |op| op.va = 1 << 47),
            ("into the driver's half", |op| op.va = (1 << 47) - 0x1000),
            ("va that wraps", |op| op.va = u64::MAX << 12),
            ("sparse without NOEXEC", |op| {
                (op.flags, op.bo_handle, op.bo_offset) = (8, 0, 0)
            }),
            ("sparse with an object", |op| op.flags = 8 | 2),
            ("sync only with a range", |op| op.flags = 2 << 28),
            ("sync only without syncs", |op| {
                *op = drm_panthor_vm_bind_op {
                    flags: 2 << 28,
                    ..Default::default()
                }
            }),
        ];
        for (what, edit) in cases {
            let mut op = good;
            edit(&mut op);
            if op.size != 0 {
                assert_eq!(try_op(0, op), Err(Errno::INVAL), "{kernel}: {what}");
            }
            assert_eq!(try_op(1, op), Err(Errno::INVAL), "{kernel}, async: {what}");
        }
        assert_eq!(
            try_op(
                0,
                drm_panthor_vm_bind_op {
                    syncs: array(&syncs),
                    ..good
                }
            ),
            Err(Errno::INVAL)
        );
        assert_eq!(
            try_op(
                0,
                drm_panthor_vm_bind_op {
                    bo_handle: private,
                    size: 0x1000,
                    ..Default::default()
                }
            ),
            Err(Errno::INVAL)
        );
        assert_eq!(client.bind(99, &[good], 0), Err(Errno::INVAL));
        try_op(0, good).unwrap();
        try_op(1, good).unwrap();
        // Nothing to do is fine whatever else it says, as long as it is synchronous.
        try_op(
            0,
            drm_panthor_vm_bind_op {
                va: 1,
                ..Default::default()
            },
        )
        .unwrap();
        try_op(
            0,
            drm_panthor_vm_bind_op {
                flags: 1 << 28,
                size: end,
                ..Default::default()
            },
        )
        .unwrap();
        let sparse = drm_panthor_vm_bind_op {
            flags: 8 | 2,
            va: 0x1000,
            size: 64 << 20,
            ..Default::default()
        };
        assert_eq!(
            try_op(0, sparse).is_ok(),
            kernel != "6.12",
            "{kernel}: sparse"
        );
    }
}

#[test]
fn strides_of_arrays() {
    let client = open("sim");
    let (vm, bo) = (client.vm(), client.bo(0x1000));
    let op = drm_panthor_vm_bind_op {
        bo_handle: bo,
        va: 0x1000,
        size: 0x1000,
        ..Default::default()
    };
    // Operations of 56 bytes, 48 of which the kernel knows.
    let mut long = [0_u64; 14];
    for at in [0, 7] {
        long[at..at + 6]
            .as_mut_bytes()
            .copy_from_slice(op.as_bytes());
    }
    let bind = |stride: u32, count: u32, address: u64| {
        client
            .try_with::<drm_panthor_vm_bind>(DRM_IOCTL_PANTHOR_VM_BIND, |args| {
                (args.vm_id, args.ops) = (
                    vm,
                    drm_panthor_obj_array {
                        stride,
                        count,
                        array: address,
                    },
                );
            })
            .map(drop)
    };
    let address = long.as_ptr() as u64;
    assert_eq!(bind(56, 2, address), Ok(()));
    assert_eq!(
        bind(40, 2, address),
        Err(Errno::INVAL),
        "shorter than the first version"
    );
    assert_eq!(bind(0, 1, address), Err(Errno::INVAL));
    assert_eq!(bind(0, 0, 0), Ok(()), "nothing at all");
    assert_eq!(bind(48, 1, 8), Err(Errno::FAULT));
    assert_eq!(bind(48, 1 << 31, address), Err(Errno::NOMEM));
    assert_eq!(bind(48, 1 << 20, 4096), Err(Errno::FAULT));
    long[13] = 1;
    assert_eq!(
        bind(56, 2, long.as_ptr() as u64),
        Err(Errno::TOOBIG),
        "a field that this kernel does not know"
    );
}

#[test]
fn group_create() {
    for kernel in KERNELS {
        let client = open(&format!("sim:kernel={kernel}"));
        let vm = client.vm();
        let cases: &[(&str, Errno, Edit<drm_panthor_group_create>)] = &[
            ("pad", Errno::INVAL, |args| args.pad = 1),
            ("no queues", Errno::INVAL, |args| args.queues.count = 0),
            ("33 queues", Errno::INVAL, |args| args.queues.count = 33),
            ("stride", Errno::INVAL, |args| args.queues.stride = 4),
            ("queues nowhere", Errno::FAULT, |args| {
                args.queues.array = 16
            }),
            ("cores that do not exist", Errno::INVAL, |args| {
                args.compute_core_mask = 0xf0005
            }),
            ("fragment cores", Errno::INVAL, |args| {
                args.fragment_core_mask = 2
            }),
            ("tilers", Errno::INVAL, |args| args.tiler_core_mask = 3),
            ("more than in the mask", Errno::INVAL, |args| {
                args.max_compute_cores = 5
            }),
            ("no such VM", Errno::INVAL, |args| args.vm_id = 99),
            ("priority", Errno::INVAL, |args| args.priority = 4),
            ("high priority", Errno::ACCESS, |args| args.priority = 2),
        ];
        for (what, errno, edit) in cases {
            assert_eq!(client.try_group(vm, edit), Err(*errno), "{kernel}: {what}");
        }
        let realtime = if kernel == "6.12" {
            Errno::INVAL
        } else {
            Errno::ACCESS
        };
        assert_eq!(
            client.try_group(vm, |args| args.priority = 3),
            Err(realtime)
        );
        let allowed = open(&format!("sim:kernel={kernel},nice=1"));
        let vm_of_allowed = allowed.vm();
        allowed
            .try_group(vm_of_allowed, |args| args.priority = 2)
            .unwrap();
        let good = drm_panthor_queue_create {
            priority: 15,
            pad: [0; 3],
            ringbuf_size: 4096,
        };
        let with = |queues: &[drm_panthor_queue_create]| {
            client.try_group(vm, |args| args.queues = array(queues))
        };
        with(&[good; 8]).unwrap();
        assert_eq!(
            with(&[good; 9]),
            Err(Errno::INVAL),
            "the firmware has eight"
        );
        for bad in [
            drm_panthor_queue_create {
                priority: 16,
                ..good
            },
            drm_panthor_queue_create {
                pad: [0, 0, 1],
                ..good
            },
            drm_panthor_queue_create {
                ringbuf_size: 2048,
                ..good
            },
            drm_panthor_queue_create {
                ringbuf_size: 131_072,
                ..good
            },
            drm_panthor_queue_create {
                ringbuf_size: 12288,
                ..good
            },
        ] {
            assert_eq!(with(&[good, bad]), Err(Errno::INVAL), "{bad:?}");
        }
        let destroy = |group_handle, pad| {
            let edit = |args: &mut drm_panthor_group_destroy| {
                (args.group_handle, args.pad) = (group_handle, pad)
            };
            client
                .try_with(DRM_IOCTL_PANTHOR_GROUP_DESTROY, edit)
                .map(drop)
        };
        assert_eq!(
            [destroy(1, 1), destroy(99, 0), destroy(1, 0)],
            [Err(Errno::INVAL), Err(Errno::INVAL), Ok(())]
        );
        let state = |group_handle, pad| {
            let edit = |args: &mut drm_panthor_group_get_state| {
                (args.group_handle, args.pad) = (group_handle, pad)
            };
            client.try_with(DRM_IOCTL_PANTHOR_GROUP_GET_STATE, edit)
        };
        assert_eq!([state(1, 0), state(2, 1)], [Err(Errno::INVAL); 2]);
    }
}

#[test]
fn group_submit() {
    for kernel in KERNELS {
        let client = open(&format!("sim:kernel={kernel}"));
        let (group, syncobj) = (client.group(client.vm()), client.syncobj());
        let good = job(0, 0x1000, &[]);
        let cases: &[(&str, Edit<drm_panthor_queue_submit>)] = &[
            ("pad", |job| job.pad = 1),
            ("queue", |job| job.queue_index = 2),
            ("size without address", |job| job.stream_addr = 0),
            ("address without size", |job| job.stream_size = 0),
            ("address", |job| job.stream_addr = 0x1020),
            ("size", |job| job.stream_size = 12),
            ("flush id", |job| job.latest_flush = 1 << 24),
            ("stride of syncs", |job| {
                (job.syncs.count, job.syncs.stride) = (1, 8)
            }),
        ];
        for (what, edit) in cases {
            let mut bad = good;
            edit(&mut bad);
            assert_eq!(
                client.submit(group, &[good, bad]),
                Err(Errno::INVAL),
                "{kernel}: {what}"
            );
        }
        assert_eq!(client.device.jobs_started(), 0, "all or nothing");
        let with = |op: drm_panthor_sync_op| client.submit(group, &[job(0, 0x1000, &[op])]);
        assert_eq!(with(signal(99, 0)), Err(Errno::INVAL), "signals say EINVAL");
        assert_eq!(with(wait(99, 0)), Err(Errno::NOENT), "waits say ENOENT");
        assert_eq!(with(wait(syncobj, 0)), Err(Errno::INVAL), "no fence yet");
        for bad in [
            drm_panthor_sync_op {
                flags: 1 << 8,
                handle: syncobj,
                timeline_value: 0,
            },
            drm_panthor_sync_op {
                flags: SIGNAL | 2,
                handle: syncobj,
                timeline_value: 0,
            },
            drm_panthor_sync_op {
                flags: SIGNAL,
                handle: syncobj,
                timeline_value: 1,
            },
        ] {
            assert_eq!(with(bad), Err(Errno::INVAL), "{bad:?}");
        }
        with(drm_panthor_sync_op {
            flags: SIGNAL | TIMELINE,
            handle: syncobj,
            timeline_value: 0,
        })
        .unwrap();
        assert_eq!(client.submit(99, &[good]), Err(Errno::INVAL));
        client.submit(99, &[]).unwrap();
        client.submit(group | 1 << 16, &[good]).unwrap();
        let padded = client
            .try_with::<drm_panthor_group_submit>(DRM_IOCTL_PANTHOR_GROUP_SUBMIT, |args| {
                args.pad = 1
            });
        assert_eq!(padded, Err(Errno::INVAL));
        let nowhere = drm_panthor_obj_array {
            stride: 40,
            count: 1,
            array: 32,
        };
        let submit =
            client.try_with::<drm_panthor_group_submit>(DRM_IOCTL_PANTHOR_GROUP_SUBMIT, |args| {
                args.queue_submits = nowhere;
            });
        assert_eq!(submit, Err(Errno::FAULT));
    }
}

#[test]
fn tiler_heaps() {
    let client = open("sim");
    let vm = client.vm();
    let good = || drm_panthor_tiler_heap_create {
        vm_id: vm,
        initial_chunk_count: 2,
        chunk_size: 1 << 17,
        max_chunks: 4,
        ..FromZeros::new_zeroed()
    };
    let destroy = |handle: u32, pad: u32| {
        let edit =
            |args: &mut drm_panthor_tiler_heap_destroy| (args.handle, args.pad) = (handle, pad);
        client
            .try_with(DRM_IOCTL_PANTHOR_TILER_HEAP_DESTROY, edit)
            .map(drop)
    };
    assert_eq!(destroy(vm << 16, 0), Err(Errno::NOENT), "no heaps yet");
    refuse(
        &client,
        DRM_IOCTL_PANTHOR_TILER_HEAP_CREATE,
        &good,
        &[
            ("no such VM", Errno::INVAL, |args| args.vm_id = 99),
            ("no chunks", Errno::INVAL, |args| {
                args.initial_chunk_count = 0
            }),
            ("more than the most", Errno::INVAL, |args| {
                args.initial_chunk_count = 5
            }),
            ("too small", Errno::INVAL, |args| args.chunk_size = 1 << 16),
            ("too large", Errno::INVAL, |args| args.chunk_size = 1 << 24),
            ("not of pages", Errno::INVAL, |args| {
                args.chunk_size = (1 << 17) + 1
            }),
        ],
    );
    let mut second = good();
    client
        .ioctl(DRM_IOCTL_PANTHOR_TILER_HEAP_CREATE, &mut second)
        .unwrap();
    assert_eq!(second.handle, vm << 16 | 1);
    assert_ne!(
        (second.tiler_heap_ctx_gpu_va, second.first_heap_chunk_gpu_va),
        (0, 0)
    );
    assert_eq!(
        [destroy(second.handle, 1), destroy(second.handle, 0)],
        [Err(Errno::INVAL), Ok(())]
    );
    assert_eq!(
        [destroy(second.handle, 0), destroy(99 << 16, 0)],
        [Err(Errno::INVAL); 2]
    );
}

#[test]
fn syncobjs() {
    for kernel in KERNELS {
        let client = open(&format!("sim:kernel={kernel}"));
        let syncobj = client.syncobj();
        refuse(
            &client,
            DRM_IOCTL_SYNCOBJ_CREATE,
            &drm_syncobj_create::new_zeroed,
            &[("flags", Errno::INVAL, |args| args.flags = 2)],
        );
        let good = || drm_syncobj_destroy {
            handle: client.syncobj(),
            pad: 0,
        };
        refuse(
            &client,
            DRM_IOCTL_SYNCOBJ_DESTROY,
            &good,
            &[
                ("pad", Errno::INVAL, |args| args.pad = 1),
                ("no such syncobj", Errno::INVAL, |args| args.handle = 99),
            ],
        );
        let to_fd = |edit: Edit<drm_syncobj_handle>| {
            client
                .try_with::<drm_syncobj_handle>(DRM_IOCTL_SYNCOBJ_HANDLE_TO_FD, edit)
                .map(drop)
        };
        assert_eq!(
            to_fd(|args| (args.handle, args.pad) = (1, 1)),
            Err(Errno::INVAL)
        );
        assert_eq!(to_fd(|args| args.handle = 99), Err(Errno::INVAL));
        assert_eq!(
            to_fd(|args| (args.handle, args.flags) = (99, 1)),
            Err(Errno::NOENT)
        );
        assert_eq!(
            to_fd(|args| (args.handle, args.flags) = (1, 1)),
            Err(Errno::INVAL),
            "no fence"
        );
        assert_eq!(
            to_fd(|args| (args.handle, args.flags) = (1, 4)),
            Err(Errno::INVAL)
        );
        let timeline = to_fd(|args| (args.handle, args.flags) = (1, 2));
        assert_eq!(
            timeline,
            if kernel == "6.12" {
                Err(Errno::INVAL)
            } else {
                Ok(())
            }
        );
        let point = to_fd(|args| (args.handle, args.point) = (1, 5));
        assert_eq!(
            point,
            if kernel == "6.12" {
                Ok(())
            } else {
                Err(Errno::INVAL)
            },
            "6.12 does not see the point"
        );
        let handles = [syncobj, 99];
        for request in [DRM_IOCTL_SYNCOBJ_RESET, DRM_IOCTL_SYNCOBJ_SIGNAL] {
            let call = |address: u64, count: u32, pad: u32| {
                let edit = |args: &mut drm_syncobj_array| {
                    (args.handles, args.count_handles, args.pad) = (address, count, pad);
                };
                client.try_with(request, edit).map(drop)
            };
            let address = handles.as_ptr() as u64;
            assert_eq!(call(address, 1, 0), Ok(()));
            assert_eq!(call(address, 2, 0), Err(Errno::NOENT));
            assert_eq!(
                [call(address, 0, 0), call(address, 1, 1)],
                [Err(Errno::INVAL); 2]
            );
            assert_eq!(
                [call(8, 1, 0), call(address, u32::MAX, 0)],
                [Err(Errno::FAULT), Err(Errno::NOMEM)]
            );
        }
        let wait = |edit: &dyn Fn(&mut drm_syncobj_wait)| {
            client.try_with::<drm_syncobj_wait>(DRM_IOCTL_SYNCOBJ_WAIT, |args| {
                (args.handles, args.count_handles) = (handles.as_ptr() as u64, 1);
                edit(args);
            })
        };
        assert_eq!(wait(&|_| {}).unwrap().first_signaled, 0);
        assert_eq!(
            wait(&|args| args.flags = 4).map(drop),
            Err(Errno::INVAL),
            "AVAILABLE is for timelines"
        );
        assert_eq!(
            wait(&|args| args.count_handles = 2).map(drop),
            Err(Errno::NOENT)
        );
        assert_eq!(wait(&|args| args.handles = 4).map(drop), Err(Errno::FAULT));
        assert_eq!(
            wait(&|args| args.flags = 8).map(drop),
            Ok(()),
            "a deadline hint changes nothing"
        );
    }
}
