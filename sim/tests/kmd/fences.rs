//! Syncobjs, timelines, sync files, eventfds, waiting.

use panthor_uapi::sys::drm::*;
use panthor_uapi::sys::sync_file::*;
use panthor_uapi::{Errno, Fd, PollEvents, PollFd, Transport};
use zerocopy::{FromZeros, IntoBytes};

use super::client::{Client, KERNELS, errno, job, open, signal, wait};
use super::script::Act;

const MS: u64 = 1_000_000;
const ALL: u32 = 1;
const FOR_SUBMIT: u32 = 2;
const AVAILABLE: u32 = 4;

fn ms(n: u64) -> Act {
    Act::Cycles(n * MS)
}

fn query(client: &Client, handle: u32, flags: u32) -> u64 {
    let (handles, mut points) = ([handle], [0_u64]);
    client
        .try_with::<drm_syncobj_timeline_array>(DRM_IOCTL_SYNCOBJ_QUERY, |args| {
            args.handles = handles.as_ptr() as u64;
            args.points = points.as_mut_ptr() as u64;
            (args.count_handles, args.flags) = (1, flags);
        })
        .unwrap();
    points[0]
}

fn signal_point(client: &Client, handle: u32, point: u64) {
    let (handles, points) = ([handle], [point]);
    client
        .try_with::<drm_syncobj_timeline_array>(DRM_IOCTL_SYNCOBJ_TIMELINE_SIGNAL, |args| {
            args.handles = handles.as_ptr() as u64;
            args.points = points.as_ptr() as u64;
            args.count_handles = 1;
        })
        .unwrap();
}

fn transfer(client: &Client, from: (u32, u64), to: (u32, u64), flags: u32) -> Result<(), Errno> {
    client
        .try_with::<drm_syncobj_transfer>(DRM_IOCTL_SYNCOBJ_TRANSFER, |args| {
            (args.src_handle, args.src_point) = from;
            (args.dst_handle, args.dst_point) = to;
            args.flags = flags;
        })
        .map(drop)
}

fn set(client: &Client, request: u32, handles: &[u32]) -> Result<(), Errno> {
    client
        .try_with::<drm_syncobj_array>(request, |args| {
            (args.handles, args.count_handles) = (handles.as_ptr() as u64, handles.len() as u32);
        })
        .map(drop)
}

#[test]
fn job_3_of_5_fails_while_5_is_pending() {
    for kernel in KERNELS {
        let client = open(&format!("sim:kernel={kernel}"));
        let (group, timeline) = (client.group(client.vm()), client.syncobj());
        let binaries = [0; 5].map(|_| client.syncobj());
        for (n, &binary) in (1..).zip(&binaries) {
            let acts = match n {
                3 => vec![ms(1), Act::Fault(0x4b)],
                5 => vec![ms(1000)],
                _ => vec![ms(1)],
            };
            client.run(
                group,
                0,
                0x1000 * n,
                &acts,
                &[signal(timeline, n), signal(binary, 0)],
            );
        }
        client.wait_points(&[(timeline, 4)], 0, 100 * MS).unwrap();
        let statuses = binaries.map(|binary| client.status(binary));
        assert_eq!(statuses, [1, 1, errno(Errno::INVAL), 1, 0], "{kernel}");
        assert_eq!(query(&client, timeline, 0), 4);
        assert_eq!(query(&client, timeline, 1), 5);
        if kernel != "6.12" {
            // The timeline does not tell: its node carries no error, and once later points have signalled even what is
            // in it is gone.
            let file = client.export(timeline, 3).unwrap();
            assert_eq!(client.file_status(file), 1);
        }
        client.wait_points(&[(timeline, 5)], 0, 2000 * MS).unwrap();
        assert_eq!(client.status(binaries[4]), 1);
    }
}

#[test]
fn a_timeline_point_shows_its_error_only_when_unwrapped_in_time() {
    let client = open("sim");
    let (group, timeline) = (client.group(client.vm()), client.syncobj());
    client.run(
        group,
        0,
        0x1000,
        &[ms(1), Act::Fault(0x41)],
        &[signal(timeline, 1)],
    );
    let early = client.export(timeline, 1).unwrap();
    client.wait_points(&[(timeline, 1)], 0, 10 * MS).unwrap();
    assert_eq!(
        (client.file_status(early), client.fence_statuses(early)),
        (1, vec![errno(Errno::INVAL)])
    );
    client.run(group, 0, 0x2000, &[ms(1)], &[signal(timeline, 2)]);
    let late = client.export(timeline, 1).unwrap();
    assert_eq!(
        client.fence_statuses(late),
        [1],
        "the failed point reads as good"
    );
}

#[test]
fn waits_end_at_their_deadline_in_simulated_time() {
    let client = open("sim");
    let host = std::time::Instant::now();
    let (never, signalled) = (client.syncobj(), client.syncobj());
    set(&client, DRM_IOCTL_SYNCOBJ_SIGNAL, &[signalled]).unwrap();
    let start = client.device.now();
    assert_eq!(
        client.wait_points(&[(never, 0)], 0, MS),
        Err(Errno::INVAL),
        "no fence and no FOR_SUBMIT"
    );
    assert_eq!(
        client.wait_points(&[(never, 0)], FOR_SUBMIT, 3_600_000 * MS),
        Err(Errno::TIME)
    );
    assert!(client.device.now() - start >= 3_600_000 * MS);
    assert_eq!(
        client.wait_points(&[(never, 7)], FOR_SUBMIT | AVAILABLE, MS),
        Err(Errno::TIME)
    );
    assert_eq!(
        client.wait_points(&[(never, 0), (signalled, 0)], FOR_SUBMIT, MS),
        Ok(1)
    );
    assert_eq!(
        client.wait_points(&[(never, 0), (signalled, 0)], FOR_SUBMIT | ALL, MS),
        Err(Errno::TIME)
    );
    assert_eq!(client.wait_points(&[(signalled, 0)], 0, 0), Ok(0));
    assert_eq!(
        client.wait_points(&[(signalled, 0), (999, 0)], 0, 0),
        Err(Errno::NOENT)
    );
    assert_eq!(
        client.wait_points(&[(signalled, 1)], 0, 0),
        Err(Errno::INVAL),
        "no timeline"
    );
    assert_eq!(client.wait_points(&[], 0, 0), Ok(0));
    assert!(host.elapsed().as_secs() < 10);
    client.device.sleep_until(client.device.now() + 5000 * MS);
    assert!(host.elapsed().as_secs() < 10);
}

#[test]
fn available_means_submitted() {
    let client = open("sim");
    let (group, timeline) = (client.group(client.vm()), client.syncobj());
    client.run(group, 0, 0x1000, &[ms(50)], &[signal(timeline, 5)]);
    let start = client.device.now();
    client.wait_points(&[(timeline, 3)], AVAILABLE, MS).unwrap();
    assert!(client.device.now() - start < MS);
    assert_eq!(
        client.wait_points(&[(timeline, 6)], AVAILABLE, MS),
        Err(Errno::TIME)
    );
}

#[test]
fn another_thread_can_submit_what_one_waits_for() {
    let client = open("sim");
    let (group, done) = (client.group(client.vm()), client.syncobj());
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| client.wait_points(&[(done, 0)], FOR_SUBMIT, u64::MAX >> 2));
        std::thread::sleep(std::time::Duration::from_millis(2));
        client.run(group, 0, 0x1000, &[ms(10)], &[signal(done, 0)]);
        assert_eq!(waiter.join().unwrap(), Ok(0));
    });
}

#[test]
fn jobs_wait_for_their_fences_across_queues_groups_and_calls() {
    let client = open("sim");
    let vm = client.vm();
    let (a, b) = (client.group(vm), client.group(vm));
    let (timeline, done) = (client.syncobj(), client.syncobj());
    client.run(a, 0, 0x1000, &[ms(1); 20], &[signal(timeline, 1)]);
    client.run(
        b,
        0,
        0x2000,
        &[ms(1)],
        &[wait(timeline, 1), signal(timeline, 2)],
    );
    client.run(b, 1, 0x3000, &[ms(1)], &[signal(done, 0)]);
    client.wait_done(done).unwrap();
    assert_eq!(client.script.started(), [0x1000, 0x3000]);
    client.wait_points(&[(timeline, 2)], 0, 100 * MS).unwrap();
    assert_eq!(client.script.started(), [0x1000, 0x3000, 0x2000]);
    // Two jobs of one call, the second waiting for the first.
    client.script.stream(0x4000, &[ms(5)]);
    client.script.stream(0x5000, &[ms(5)]);
    let syncs = (
        [signal(timeline, 3)],
        [wait(timeline, 3), signal(timeline, 4)],
    );
    client
        .submit(a, &[job(0, 0x4000, &syncs.0), job(1, 0x5000, &syncs.1)])
        .unwrap();
    let start = client.device.now();
    client.wait_points(&[(timeline, 4)], 0, 100 * MS).unwrap();
    assert!(client.device.now() - start > 9 * MS);
}

#[test]
fn a_job_runs_also_behind_a_failed_one() {
    let client = open("sim");
    let vm = client.vm();
    let (a, b) = (client.group(vm), client.group(vm));
    let done = [client.syncobj(), client.syncobj()];
    client.run(a, 0, 0x1000, &[Act::Fatal(0x40)], &[signal(done[0], 0)]);
    client.run(
        b,
        0,
        0x2000,
        &[ms(1)],
        &[wait(done[0], 0), signal(done[1], 0)],
    );
    client.wait_done(done[1]).unwrap();
    assert_eq!(
        done.map(|done| client.status(done)),
        [errno(Errno::INVAL), 1]
    );
}

#[test]
fn transfer_copies_fences_and_merges_chains() {
    let client = open("sim");
    let (group, timeline, binary) = (
        client.group(client.vm()),
        client.syncobj(),
        client.syncobj(),
    );
    client.run(
        group,
        0,
        0x1000,
        &[ms(10), Act::Fault(0x4b)],
        &[signal(timeline, 1)],
    );
    transfer(&client, (timeline, 1), (binary, 0), 0).unwrap();
    let other = client.syncobj();
    transfer(&client, (timeline, 1), (other, 9), 0).unwrap();
    assert_eq!(query(&client, other, 1), 9);
    client.wait_done(binary).unwrap();
    assert_eq!(
        client.status(binary),
        1,
        "the copy is a chain's node: no error"
    );
    assert_eq!(
        client.fence_statuses(client.export(binary, 0).unwrap()),
        [errno(Errno::INVAL)]
    );
    assert_eq!(
        client.fence_statuses(client.export(other, 9).unwrap()),
        [errno(Errno::INVAL)]
    );
    let empty = client.syncobj();
    assert_eq!(
        transfer(&client, (empty, 0), (binary, 0), 0),
        Err(Errno::INVAL)
    );
    assert_eq!(
        transfer(&client, (empty, 0), (binary, 0), FOR_SUBMIT),
        Err(Errno::TIME)
    );
    assert_eq!(
        transfer(&client, (empty, 0), (binary, 0), ALL),
        Err(Errno::INVAL)
    );
    assert_eq!(
        transfer(&client, (999, 0), (binary, 0), FOR_SUBMIT),
        Err(Errno::NOENT)
    );
    assert_eq!(
        transfer(&client, (binary, 0), (999, 1), 0),
        Err(Errno::NOENT)
    );
}

#[test]
fn timelines_are_signalled_from_the_cpu_and_reset() {
    let client = open("sim");
    let timeline = client.syncobj();
    signal_point(&client, timeline, 4);
    assert_eq!(query(&client, timeline, 0), 4);
    client.wait_points(&[(timeline, 4)], 0, 0).unwrap();
    signal_point(&client, timeline, 2);
    assert_eq!(
        query(&client, timeline, 1),
        4,
        "a point out of order cannot go back"
    );
    set(&client, DRM_IOCTL_SYNCOBJ_RESET, &[timeline]).unwrap();
    assert_eq!(query(&client, timeline, 0), 0);
    assert_eq!(
        client.wait_points(&[(timeline, 1)], 0, 0),
        Err(Errno::INVAL)
    );
}

#[test]
fn sync_files_travel_and_merge() {
    let client = open("sim");
    let (group, done) = (
        client.group(client.vm()),
        [client.syncobj(), client.syncobj()],
    );
    client.run(
        group,
        0,
        0x1000,
        &[ms(10), Act::Fault(0x4b)],
        &[signal(done[0], 0)],
    );
    client.run(group, 1, 0x2000, &[ms(30)], &[signal(done[1], 0)]);
    let files = done.map(|done| client.export(done, 0).unwrap());
    let mut data = sync_merge_data::new_zeroed();
    data.name[..4].copy_from_slice(b"both");
    data.fd2 = files[1].raw();
    client
        .raw(files[0], SYNC_IOC_MERGE, data.as_mut_bytes().as_mut_ptr())
        .unwrap();
    let merged = Fd::from_raw(data.fence);
    let mut polled = [
        PollFd::new(merged, PollEvents::IN),
        PollFd::new(files[0], PollEvents::IN),
    ];
    assert_eq!(
        client.device.poll(&mut polled, Some(client.device.now())),
        Ok(0)
    );
    assert_eq!(client.device.poll(&mut polled, None), Ok(1));
    assert_eq!(
        polled.map(|entry| entry.revents),
        [PollEvents::empty(), PollEvents::IN]
    );
    assert_eq!(client.device.poll(&mut polled[..1], None), Ok(1));
    assert_eq!(
        client.file_status(merged),
        errno(Errno::INVAL),
        "someone waited, so the array has the error"
    );
    assert_eq!(client.fence_statuses(merged), [errno(Errno::INVAL), 1]);
    let mut info = sync_file_info::new_zeroed();
    client
        .raw(merged, SYNC_IOC_FILE_INFO, info.as_mut_bytes().as_mut_ptr())
        .unwrap();
    assert_eq!((&info.name[..5], info.num_fences), (&b"both\0"[..], 2));
    // Into another client's syncobj.
    let other = client.again();
    let target = other.syncobj();
    let import = |flags: u32, fd: i32, handle: u32| {
        other.try_with::<drm_syncobj_handle>(DRM_IOCTL_SYNCOBJ_FD_TO_HANDLE, |args| {
            (args.flags, args.fd, args.handle) = (flags, fd, handle);
        })
    };
    import(1, merged.raw(), target).unwrap();
    assert_eq!(other.status(target), errno(Errno::INVAL));
    assert_eq!(import(1, 5, target), Err(Errno::INVAL));
    assert_eq!(import(1, merged.raw(), 99), Err(Errno::NOENT));
    assert_eq!(
        import(0, merged.raw(), 0),
        Err(Errno::INVAL),
        "a sync file is no syncobj"
    );
    // The syncobj itself.
    let shared = client
        .try_with::<drm_syncobj_handle>(DRM_IOCTL_SYNCOBJ_HANDLE_TO_FD, |args| {
            args.handle = done[1]
        })
        .unwrap();
    let handle = import(0, shared.fd, 0).unwrap().handle;
    set(&client, DRM_IOCTL_SYNCOBJ_RESET, &[done[1]]).unwrap();
    assert_eq!(
        other.export(handle, 0),
        Err(Errno::INVAL),
        "both handles are one syncobj"
    );
}

#[test]
fn eventfds_count_what_signals() {
    let client = open("sim");
    let (group, timeline) = (client.group(client.vm()), client.syncobj());
    let event = client.device.eventfd(0).unwrap();
    let watch = |point: u64, flags: u32, fd: i32| {
        client.try_with::<drm_syncobj_eventfd>(DRM_IOCTL_SYNCOBJ_EVENTFD, |args| {
            (args.handle, args.point, args.flags, args.fd) = (timeline, point, flags, fd);
        })
    };
    watch(1, 0, event.raw()).unwrap();
    watch(2, AVAILABLE, event.raw()).unwrap();
    assert_eq!(client.device.read_eventfd(event), Err(Errno::AGAIN));
    client.run(group, 0, 0x1000, &[ms(10)], &[signal(timeline, 1)]);
    assert_eq!(client.device.read_eventfd(event), Err(Errno::AGAIN));
    let mut polled = [PollFd::new(event, PollEvents::IN)];
    let deadline = client.device.now() + 100 * MS;
    assert_eq!(client.device.poll(&mut polled, Some(deadline)), Ok(1));
    assert_eq!(client.device.read_eventfd(event), Ok(1));
    assert!(client.device.now() < deadline - 80 * MS);
    client.run(group, 0, 0x1000, &[ms(10)], &[signal(timeline, 2)]);
    assert_eq!(
        client.device.read_eventfd(event),
        Ok(1),
        "available at once"
    );
    assert_eq!(watch(1, 0, 3), Err(Errno::BADF));
    assert_eq!(watch(1, 0, client.fd.raw()), Err(Errno::INVAL));
    assert_eq!(watch(1, ALL, event.raw()), Err(Errno::INVAL));
}

#[test]
fn polling_a_bad_descriptor_says_so() {
    let client = open("sim");
    let mut polled = [PollFd::new(Fd::from_raw(77), PollEvents::IN)];
    assert_eq!(client.device.poll(&mut polled, None), Ok(1));
    assert_eq!(polled[0].revents, PollEvents::NVAL);
}
