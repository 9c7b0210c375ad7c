//! The safe handles over a scripted transport: restarts, short structs, version gates, lost groups, errors of fences,
//! foreign page sizes; and the kernel's transport with bad descriptors.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use panthor_uapi::discover::{self, NodeState, RenderGroup};
use panthor_uapi::sys::drm::*;
use panthor_uapi::sys::panthor::*;
use panthor_uapi::sys::sync_file::*;
use panthor_uapi::*;

/// What the script answers to one ioctl.
type Answer = Result<i32, Errno>;
/// A script: sees every ioctl but VERSION and those that drops issue.
type Script = Box<dyn FnMut(u32, *mut u8) -> Answer + Send>;

/// A transport that plays a script.
struct Fake {
    script: Mutex<Script>,
    log: Mutex<Vec<u32>>,
    driver: &'static str,
    minor: u32,
    page_size: usize,
    clock: AtomicU64,
    /// Errors of the next polls.
    poll: Mutex<Vec<Errno>>,
    /// Lengths and offsets of mmaps.
    maps: Mutex<Vec<(u64, usize, Prot)>>,
}

impl Fake {
    fn new(minor: u32, script: impl FnMut(u32, *mut u8) -> Answer + Send + 'static) -> Arc<Self> {
        Arc::new(Self::plain(minor, script))
    }

    fn plain(minor: u32, script: impl FnMut(u32, *mut u8) -> Answer + Send + 'static) -> Self {
        Self {
            script: Mutex::new(Box::new(script)),
            log: Mutex::default(),
            driver: "panthor",
            minor,
            page_size: 4096,
            clock: AtomicU64::new(1000),
            poll: Mutex::default(),
            maps: Mutex::default(),
        }
    }

    fn count(&self, request: u32) -> usize {
        self.log
            .lock()
            .unwrap()
            .iter()
            .filter(|logged| **logged == request)
            .count()
    }
}

/// The struct behind a request's pointer.
///
/// # Safety
/// `arg` must point to a `T`.
unsafe fn arg<'a, T>(arg: *mut u8) -> &'a mut T {
    // SAFETY: as the caller says.
    unsafe { &mut *arg.cast::<T>() }
}

impl Transport for Fake {
    fn kind(&self) -> TransportKind {
        TransportKind::Simulator
    }
    fn open(&self, path: &Path) -> Result<Fd, Errno> {
        match path.file_name().and_then(|name| name.to_str()) {
            Some("renderD129") => Err(Errno::ACCESS),
            Some("renderD130") => Err(Errno::NXIO),
            _ => Ok(Fd::from_raw(3)),
        }
    }
    unsafe fn ioctl(&self, _: Fd, request: u32, ptr: *mut u8) -> Answer {
        self.log.lock().unwrap().push(request);
        match request {
            DRM_IOCTL_VERSION => {
                // SAFETY: VERSION carries a drm_version whose `name` has room for `name_len` bytes.
                unsafe {
                    let version: &mut drm_version = arg(ptr);
                    (version.version_major, version.version_minor) = (1, self.minor as i32);
                    let len = version.name_len.min(self.driver.len());
                    let name = std::ptr::with_exposed_provenance_mut::<u8>(version.name);
                    std::ptr::copy_nonoverlapping(self.driver.as_ptr(), name, len);
                    version.name_len = self.driver.len();
                }
                Ok(0)
            }
            DRM_IOCTL_GEM_CLOSE
            | DRM_IOCTL_SYNCOBJ_DESTROY
            | DRM_IOCTL_PANTHOR_VM_DESTROY
            | DRM_IOCTL_PANTHOR_GROUP_DESTROY => Ok(0),
            _ => (self.script.lock().unwrap())(request, ptr),
        }
    }
    fn mmap(&self, _: Fd, offset: u64, len: usize, prot: Prot) -> Result<NonNull<u8>, Errno> {
        self.maps.lock().unwrap().push((offset, len, prot));
        // SAFETY: never of size zero in these tests.
        NonNull::new(unsafe { alloc_zeroed(Layout::from_size_align(len, 65536).unwrap()) })
            .ok_or(Errno::NOMEM)
    }
    unsafe fn munmap(&self, addr: NonNull<u8>, len: usize) -> Result<(), Errno> {
        // SAFETY: allocated above with this layout.
        unsafe { dealloc(addr.as_ptr(), Layout::from_size_align(len, 65536).unwrap()) };
        Ok(())
    }
    fn eventfd(&self, _: u32) -> Result<Fd, Errno> {
        Ok(Fd::from_raw(9))
    }
    fn read_eventfd(&self, _: Fd) -> Result<u64, Errno> {
        Err(Errno::AGAIN)
    }
    fn poll(&self, fds: &mut [PollFd], deadline_ns: Option<u64>) -> Result<usize, Errno> {
        if let Some(errno) = self.poll.lock().unwrap().pop() {
            self.clock.fetch_add(100, Ordering::Relaxed);
            return Err(errno);
        }
        fds[0].revents = PollEvents::empty();
        self.clock.store(deadline_ns.unwrap(), Ordering::Relaxed);
        Ok(0)
    }
    fn seek_end(&self, _: Fd) -> Result<u64, Errno> {
        Ok(self.page_size as u64)
    }
    unsafe fn close(&self, _: Fd) -> Result<(), Errno> {
        Ok(())
    }
    fn now(&self) -> u64 {
        self.clock.load(Ordering::Relaxed)
    }
    fn sleep_until(&self, deadline_ns: u64) {
        self.clock.fetch_max(deadline_ns, Ordering::Relaxed);
    }
    fn page_size(&self) -> usize {
        self.page_size
    }
}

fn open(fake: &Arc<Fake>) -> Device {
    Device::open(fake.clone(), "/dev/dri/renderD128").unwrap()
}

#[test]
fn interrupted_calls_start_again_from_the_same_bytes() {
    let mut attempt = 0;
    let fake = Fake::new(9, move |request, ptr| {
        assert_eq!(request, DRM_IOCTL_PANTHOR_VM_CREATE);
        // SAFETY: VM_CREATE carries this struct.
        let args: &mut drm_panthor_vm_create = unsafe { arg(ptr) };
        assert_eq!(
            args.user_va_range,
            1 << 32,
            "a restart must not see what the failed attempt wrote back"
        );
        attempt += 1;
        (args.id, args.user_va_range) = (7, 1 << 40);
        match attempt {
            1 | 3 => Err(Errno::INTR),
            2 => Err(Errno::AGAIN),
            _ => Ok(0),
        }
    });
    let vm = open(&fake).create_vm(1 << 32).unwrap();
    assert_eq!((vm.id(), vm.user_va_range()), (7, 1 << 40));
    assert_eq!(fake.count(DRM_IOCTL_PANTHOR_VM_CREATE), 4);
}

#[test]
fn endless_eagain_ends() {
    let fake = Fake::new(9, |_, _| Err(Errno::AGAIN));
    let error = open(&fake).create_vm(0).unwrap_err();
    assert_eq!(error.errno(), Some(Errno::AGAIN));
    assert!(fake.now() > 500_000_000, "it pauses between attempts");
}

#[test]
fn an_interrupted_poll_keeps_its_deadline() {
    let fake = Fake::new(9, |_, _| unreachable!());
    *fake.poll.lock().unwrap() = vec![Errno::INTR, Errno::AGAIN, Errno::INTR];
    let mut fds = [PollFd::new(Fd::from_raw(3), PollEvents::IN)];
    assert_eq!(poll(&*fake, &mut fds, 5000), Ok(0));
    assert_eq!(fake.now(), 5000);
}

#[test]
fn an_interrupted_bind_goes_on_where_it_stopped() {
    let ranges = Arc::new(Mutex::new(Vec::new()));
    let seen = ranges.clone();
    let mut attempt = 0;
    let fake = Fake::new(0, move |request, ptr| {
        if request == DRM_IOCTL_PANTHOR_VM_CREATE {
            // SAFETY: VM_CREATE carries this struct.
            unsafe { arg::<drm_panthor_vm_create>(ptr).id = 1 };
            return Ok(0);
        }
        // SAFETY: VM_BIND carries this struct, and `ops.array` leads to the operations.
        let (ops, args) = unsafe {
            let args: &mut drm_panthor_vm_bind = arg(ptr);
            let array = std::ptr::with_exposed_provenance::<drm_panthor_vm_bind_op>(
                args.ops.array as usize,
            );
            (
                std::slice::from_raw_parts(array, args.ops.count as usize),
                args,
            )
        };
        assert_eq!(
            args.ops.stride as usize,
            size_of::<drm_panthor_vm_bind_op>()
        );
        attempt += 1;
        let finished = match attempt {
            1 => 1, // interrupted after one
            2 => 2, // restarted by the kernel itself with a lower count: success, but not all
            _ => ops.len(),
        };
        seen.lock()
            .unwrap()
            .extend(ops[..finished].iter().map(|op| op.va));
        args.ops.count = finished as u32;
        if attempt == 1 {
            Err(Errno::INTR)
        } else {
            Ok(0)
        }
    });
    let vm = open(&fake).create_vm(0).unwrap();
    let ops: Vec<_> = (0..5)
        .map(|n| BindOp::unmap(GpuVa(n * 4096), 4096))
        .collect();
    vm.bind(&ops).unwrap();
    assert_eq!(*ranges.lock().unwrap(), [0, 4096, 8192, 12288, 16384]);
}

#[test]
fn an_older_kernels_shorter_struct_is_read() {
    // 6.12's drm_panthor_gpu_info ends before gpu_features: 104 bytes.
    let fake = Fake::new(0, |request, ptr| {
        assert_eq!(request, DRM_IOCTL_PANTHOR_DEV_QUERY);
        // SAFETY: DEV_QUERY carries this struct, and `pointer` has room for `size` bytes.
        unsafe {
            let args: &mut drm_panthor_dev_query = arg(ptr);
            if args.pointer == 0 {
                args.size = 104;
            } else {
                assert_eq!(args.size, 104);
                let to = std::ptr::with_exposed_provenance_mut::<u8>(args.pointer as usize);
                let info = drm_panthor_gpu_info {
                    gpu_id: 0xa867_0000,
                    shader_present: 0x50005,
                    ..Default::default()
                };
                std::ptr::copy_nonoverlapping(std::ptr::from_ref(&info).cast(), to, 104);
            }
        }
        Ok(0)
    });
    let device = open(&fake);
    let info = device.gpu_info().unwrap();
    assert_eq!(
        (info.gpu_id, info.shader_present, info.gpu_features),
        (0xa867_0000, 0x50005, 0)
    );
    // The pad that later became selected_coherency must not read as "ACE Lite".
    assert_eq!(device.coherency().unwrap(), None);
    assert_eq!(device.gpu_page_size().unwrap(), 4096);
}

#[test]
fn what_the_driver_is_too_old_for_is_not_issued() {
    let fake = Fake::new(0, |request, ptr| match request {
        DRM_IOCTL_PANTHOR_BO_CREATE => {
            // SAFETY: BO_CREATE carries this struct.
            unsafe { arg::<drm_panthor_bo_create>(ptr).handle = 5 };
            Ok(0)
        }
        DRM_IOCTL_PANTHOR_VM_CREATE => {
            // SAFETY: VM_CREATE carries this struct.
            unsafe { arg::<drm_panthor_vm_create>(ptr).id = 1 };
            Ok(0)
        }
        other => panic!("{other:#x} was issued"),
    });
    let device = open(&fake);
    let bo = device.create_bo(4096, BoFlags::empty(), None).unwrap();
    let vm = device.create_vm(0).unwrap();
    let realtime = GroupConfig {
        queues: vec![QueueConfig {
            priority: 0,
            ringbuf_size: 4096,
        }],
        priority: GroupPriority::Realtime,
        compute_core_mask: 1,
        max_compute_cores: 1,
        fragment_core_mask: 1,
        max_fragment_cores: 1,
        tiler_core_mask: 1,
        max_tiler_cores: 1,
    };
    let refused: Vec<(Error, u32)> = vec![
        (
            device.timestamp_info(TimestampFlags::empty()).unwrap_err(),
            1,
        ),
        (device.group_priorities_info().unwrap_err(), 2),
        (device.create_group(&vm, &realtime).unwrap_err(), 2),
        (
            device
                .set_user_mmio_offset(DRM_PANTHOR_USER_MMIO_OFFSET)
                .unwrap_err(),
            5,
        ),
        (
            device.create_bo(4096, BoFlags::WB_MMAP, None).unwrap_err(),
            7,
        ),
        (bo.sync(BoSyncType::Flush, 0, 4096).unwrap_err(), 7),
        (bo.query_info().unwrap_err(), 7),
        (device.mmu_info().unwrap_err(), 9),
        (
            vm.bind(&[BindOp::map_sparse(GpuVa(0), 4096)]).unwrap_err(),
            9,
        ),
    ];
    for (error, minor) in refused {
        match error {
            Error::Unsupported { needs, has, .. } => {
                assert_eq!(
                    (needs, has),
                    (Version { major: 1, minor }, Version { major: 1, minor: 0 })
                );
            }
            other => panic!("{other}"),
        }
    }
    // A label is this program's own where the kernel has none.
    bo.set_label("weights").unwrap();
    assert_eq!(bo.object().to_string(), "BO 5 \"weights\"");
}

#[test]
fn a_dead_group_is_lost_with_its_state() {
    for (state, lost) in [(0, false), (3, true)] {
        let fake = Fake::new(3, move |request, ptr| {
            // SAFETY: each request carries its struct.
            unsafe {
                match request {
                    DRM_IOCTL_PANTHOR_VM_CREATE => arg::<drm_panthor_vm_create>(ptr).id = 1,
                    DRM_IOCTL_PANTHOR_GROUP_CREATE => {
                        arg::<drm_panthor_group_create>(ptr).group_handle = 2
                    }
                    DRM_IOCTL_PANTHOR_GROUP_SUBMIT => return Err(Errno::INVAL),
                    DRM_IOCTL_PANTHOR_GROUP_GET_STATE => {
                        let args = arg::<drm_panthor_group_get_state>(ptr);
                        (args.group_handle, args.state, args.fatal_queues) = (0, state, 1);
                    }
                    other => panic!("{other:#x}"),
                }
            }
            Ok(0)
        });
        let device = open(&fake);
        let vm = device.create_vm(0).unwrap();
        let config = GroupConfig {
            queues: vec![QueueConfig {
                priority: 0,
                ringbuf_size: 4096,
            }],
            priority: GroupPriority::Medium,
            compute_core_mask: 1,
            max_compute_cores: 1,
            fragment_core_mask: 1,
            max_fragment_cores: 1,
            tiler_core_mask: 1,
            max_tiler_cores: 1,
        };
        let group = device.create_group(&vm, &config).unwrap();
        let error = group.submit(&[]).unwrap_err();
        if lost {
            let flags = GroupStateFlags::TIMEDOUT | GroupStateFlags::FATAL_FAULT;
            let state = GroupState {
                flags,
                fatal_queues: 1,
            };
            assert_eq!(
                error,
                Error::DeviceLost {
                    group: Object::Group(2),
                    state
                }
            );
        } else {
            assert_eq!(error.errno(), Some(Errno::INVAL));
            assert!(
                error
                    .to_string()
                    .contains("DRM_IOCTL_PANTHOR_GROUP_SUBMIT on group 2: EINVAL"),
                "{error}"
            );
        }
    }
}

/// Waits on a syncobj whose wait gives `wait` and whose fence has `status`.
fn outcome(wait: Answer, status: i32) -> WaitOutcome {
    let fake = Fake::new(0, move |request, ptr| {
        // SAFETY: each request carries its struct; `sync_fence_info` has room for `num_fences`.
        unsafe {
            match request {
                DRM_IOCTL_SYNCOBJ_CREATE => arg::<drm_syncobj_create>(ptr).handle = 4,
                DRM_IOCTL_SYNCOBJ_WAIT => {
                    assert_eq!(arg::<drm_syncobj_wait>(ptr).timeout_nsec, 5000);
                    return wait;
                }
                DRM_IOCTL_SYNCOBJ_HANDLE_TO_FD => {
                    let args = arg::<drm_syncobj_handle>(ptr);
                    assert_eq!(args.flags, SyncobjFdFlags::SYNC_FILE.bits());
                    args.fd = 11;
                }
                SYNC_IOC_FILE_INFO => {
                    let args = arg::<sync_file_info>(ptr);
                    if args.num_fences > 0 {
                        let to = args.sync_fence_info as usize;
                        (*std::ptr::with_exposed_provenance_mut::<sync_fence_info>(to)).status =
                            status;
                    }
                    (args.num_fences, args.status) = (1, 1);
                }
                other => panic!("{other:#x}"),
            }
        }
        Ok(0)
    });
    let syncobj = open(&fake).create_syncobj(false).unwrap();
    syncobj.wait(0, SyncobjWaitFlags::empty(), 5000).unwrap()
}

#[test]
fn a_wait_tells_three_things_apart() {
    assert_eq!(outcome(Err(Errno::TIME), 0), WaitOutcome::TimedOut);
    assert_eq!(outcome(Ok(0), 1), WaitOutcome::Signalled);
    assert_eq!(outcome(Ok(0), -110), WaitOutcome::Failed(Errno::TIMEDOUT));
}

#[test]
fn foreign_page_sizes_hold() {
    for page_size in [4096usize, 16384, 65536] {
        let mut fake = Fake::plain(7, move |request, ptr| {
            // SAFETY: each request carries its struct.
            unsafe {
                match request {
                    DRM_IOCTL_PANTHOR_BO_CREATE => {
                        let args = arg::<drm_panthor_bo_create>(ptr);
                        args.size = args.size.next_multiple_of(page_size as u64);
                        args.handle = 1;
                    }
                    DRM_IOCTL_PANTHOR_BO_MMAP_OFFSET => {
                        arg::<drm_panthor_bo_mmap_offset>(ptr).offset = 3 * page_size as u64;
                    }
                    other => panic!("{other:#x}"),
                }
            }
            Ok(0)
        });
        fake.page_size = page_size;
        let fake = Arc::new(fake);
        let device = open(&fake);
        let bo = device.create_bo(100, BoFlags::empty(), None).unwrap();
        assert_eq!(bo.size(), page_size as u64);
        let map = bo.map().unwrap();
        assert_eq!(map.len(), page_size);
        assert_eq!(device.map_flush_id().unwrap().latest(), 0);
        let both = Prot::READ | Prot::WRITE;
        let flush_id = (DRM_PANTHOR_USER_FLUSH_ID_MMIO_OFFSET, page_size, Prot::READ);
        assert_eq!(
            *fake.maps.lock().unwrap(),
            [(3 * page_size as u64, page_size, both), flush_id]
        );
    }
}

#[test]
fn mappings_copy_at_any_alignment() {
    let fake = Fake::new(0, |request, ptr| {
        if request == DRM_IOCTL_PANTHOR_BO_CREATE {
            // SAFETY: BO_CREATE carries this struct.
            unsafe { arg::<drm_panthor_bo_create>(ptr).handle = 1 };
        }
        Ok(0)
    });
    let map = open(&fake)
        .create_bo(4096, BoFlags::empty(), None)
        .unwrap()
        .map()
        .unwrap();
    for offset in 0..17 {
        for len in 0..40usize {
            let bytes: Vec<u8> = (0..len as u8).map(|n| n + 1).collect();
            map.fill(0..64, 0xee);
            map.write(offset, &bytes);
            let mut all = [0; 64];
            map.read(0, &mut all);
            let expected: Vec<u8> = (0..64)
                .map(|n| {
                    if (offset..offset + len).contains(&n) {
                        bytes[n - offset]
                    } else {
                        0xee
                    }
                })
                .collect();
            assert_eq!(all[..], expected[..]);
            let mut part = vec![0; len];
            map.read(offset, &mut part);
            assert_eq!(part, bytes);
        }
    }
    map.write_u32(8, 0x0403_0201);
    assert_eq!(map.read_vec::<u8>(8, 4), [1, 2, 3, 4]);
    let outside = std::panic::AssertUnwindSafe(|| map.read_u64(4096));
    assert!(std::panic::catch_unwind(outside).is_err());
}

#[test]
fn a_handle_held_twice_is_closed_once() {
    let fake = Fake::new(0, |request, ptr| {
        if request == DRM_IOCTL_PRIME_FD_TO_HANDLE {
            // SAFETY: the request carries this struct.
            unsafe { arg::<drm_prime_handle>(ptr).handle = 6 };
        }
        Ok(0)
    });
    let device = open(&fake);
    let first = device.import_bo(Fd::from_raw(8)).unwrap();
    let second = device.import_bo(Fd::from_raw(8)).unwrap();
    drop(first);
    assert_eq!(fake.count(DRM_IOCTL_GEM_CLOSE), 0);
    drop(second);
    assert_eq!(fake.count(DRM_IOCTL_GEM_CLOSE), 1);
}

#[test]
fn another_driver_is_refused_by_name() {
    let mut fake = Fake::plain(0, |_, _| Ok(0));
    fake.driver = "amdgpu";
    let error = Device::open(Arc::new(fake), "/dev/dri/renderD128").unwrap_err();
    assert!(
        matches!(&error, Error::NotPanthor { driver, .. } if driver == "amdgpu"),
        "{error}"
    );
}

#[test]
fn nodes_and_what_is_missing_are_told() {
    let root = std::env::temp_dir().join(format!("panthor-discover-{}", std::process::id()));
    let transport: SharedTransport = Fake::new(7, |_, _| Ok(0));
    for dir in [
        "dev/dri",
        "etc",
        "lib/firmware/arm/mali/arch10.8",
        "sys/bus/platform/drivers/mali",
    ] {
        std::fs::create_dir_all(root.join(dir)).unwrap();
    }
    for file in ["renderD130", "renderD128", "renderD129", "card0"] {
        std::fs::write(root.join("dev/dri").join(file), "").unwrap();
    }
    let nodes = discover::nodes(&transport, &root).unwrap();
    assert_eq!(nodes.len(), 3);
    assert!(nodes[0].is_panthor() && nodes[0].path.ends_with("renderD128"));
    assert_eq!(nodes[1].state, NodeState::Denied);
    assert!(
        matches!(&nodes[2].state, NodeState::Unusable(error) if error.errno() == Some(Errno::NXIO))
    );

    // The kernel's transport finds that these are no devices at all.
    let nodes = discover::nodes(&KernelTransport::shared(), &root).unwrap();
    assert!(
        matches!(&nodes[0].state, NodeState::Unusable(error) if error.errno() == Some(Errno::NOTTY))
    );

    std::fs::write(root.join("etc/group"), "root:x:0:\nrender:x:105:me\n").unwrap();
    assert_eq!(
        discover::render_group(&root, &[1000, 105]).unwrap(),
        RenderGroup::Member
    );
    assert_eq!(
        discover::render_group(&root, &[1000]).unwrap(),
        RenderGroup::NotMember(105)
    );
    std::fs::write(root.join("etc/group"), "root:x:0:\n").unwrap();
    assert_eq!(
        discover::render_group(&root, &[0]).unwrap(),
        RenderGroup::Absent
    );

    assert_eq!(discover::firmware(&root), None);
    let firmware = root.join("lib/firmware/arm/mali/arch10.8/mali_csffw.bin.xz");
    std::fs::write(&firmware, "").unwrap();
    assert_eq!(discover::firmware(&root), Some(firmware));
    // What the kernel's command line names comes first.
    let parameters = root.join("sys/module/firmware_class/parameters");
    let named = root.join("named/arm/mali/arch10.8/mali_csffw.bin");
    for folder in [&parameters, named.parent().unwrap()] {
        std::fs::create_dir_all(folder).unwrap();
    }
    std::fs::write(parameters.join("path"), "/named\n").unwrap();
    std::fs::write(&named, "").unwrap();
    assert_eq!(discover::firmware(&root), Some(named));

    assert!(!discover::is_rig(&root));
    let tree = root.join("sys/firmware/devicetree/base");
    std::fs::create_dir_all(&tree).unwrap();
    for (compatible, rig) in [
        ("radxa,rock-5b\0rockchip,rk3588\0", false),
        ("uml,mali-hosts\0", false),
        ("uml,mali-host\0", true),
    ] {
        std::fs::write(tree.join("compatible"), compatible).unwrap();
        assert_eq!(discover::is_rig(&root), rig, "{compatible:?}");
    }

    let mali = root.join("sys/bus/platform/drivers/mali");
    std::os::unix::fs::symlink("/nowhere", mali.join("fb000000.gpu")).unwrap();
    std::fs::write(mali.join("bind"), "").unwrap();
    let bound = discover::bound_gpus(&root).unwrap();
    assert_eq!(
        bound,
        [discover::BoundGpu {
            driver: "mali".into(),
            device: "fb000000.gpu".into()
        }]
    );

    std::fs::remove_dir_all(&root).unwrap();
    assert_eq!(discover::nodes(&transport, &root).unwrap(), []);
}

#[test]
fn the_kernels_transport_reports_bad_descriptors() {
    let kernel = KernelTransport;
    for bad in [Fd::from_raw(-1), Fd::from_raw(i32::MAX)] {
        let mut args = drm_gem_close::default();
        // SAFETY: the struct is the request's, and the descriptor is not open.
        let result = unsafe {
            kernel.ioctl(
                bad,
                DRM_IOCTL_GEM_CLOSE,
                std::ptr::from_mut(&mut args).cast(),
            )
        };
        assert_eq!(result, Err(Errno::BADF));
        assert_eq!(
            kernel.mmap(bad, 0, kernel.page_size(), Prot::READ),
            Err(Errno::BADF)
        );
        assert_eq!(kernel.read_eventfd(bad), Err(Errno::BADF));
        assert_eq!(kernel.seek_end(bad), Err(Errno::BADF));
        let mut fds = [PollFd::new(bad, PollEvents::IN)];
        assert_eq!(kernel.poll(&mut fds, None), Ok(1));
        assert_eq!(fds[0].revents, PollEvents::NVAL);
    }
    assert_eq!(kernel.open(Path::new("/nonexistent")), Err(Errno::NOENT));
}

#[test]
fn the_kernels_eventfd_and_clock_work() {
    let kernel = KernelTransport::shared();
    let event = EventFd::new(&kernel).unwrap();
    assert_eq!(event.take().unwrap(), 0);
    let deadline = kernel.now() + 2_000_000;
    assert!(!event.wait(deadline).unwrap());
    assert!(kernel.now() >= deadline);
    kernel.sleep_until(deadline + 1_000_000);
    assert!(kernel.now() >= deadline + 1_000_000);
    let not_a_sync_file = SyncFile::from_fd({
        let fd = kernel.eventfd(1).unwrap();
        // SAFETY: just given by this transport, to this test.
        unsafe { OwnedFd::from_fd(kernel.clone(), fd) }
    });
    let error = not_a_sync_file.status().unwrap_err();
    assert_eq!(error.errno(), Some(Errno::NOTTY), "{error}");
}
