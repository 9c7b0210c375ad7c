//! The client that provokes: submits, watches, tries what still works, climbs the first two rungs.

use panthor_uapi::{BindOp, BoFlags, Device, GpuVa, Group, SyncOp, VmBindOpFlags};

use super::client::{BASE, Client, MS, StepError, error_word, group_record};
use super::provoke::{Provocation, Provoked, provoke};
use super::record::{CallRecord, FenceRecord, RungRecord, VictimRecord};

/// How long a healthy job may take after the fact, in milliseconds: longer than the driver's five seconds, the hundred
/// milliseconds of each acknowledgement and a reset together.
pub const HEALTHY_MS: u64 = 20_000;

/// How long a reset may take at most, in milliseconds (`panthor_device.c`, panthor_device_reset_work: its waits add up to
/// less).
const RESET_MS: u64 = 2000;

/// Runs `provocation` on `device` and watches its fences for `watch_ms` milliseconds. `stuck` is called once everything
/// is submitted.
///
/// # Errors
/// [`StepError`] where the scenario could not be set up.
pub fn run(
    device: &Device,
    provocation: Provocation,
    watch_ms: u64,
    stuck: &mut dyn FnMut(),
) -> Result<VictimRecord, StepError> {
    let begin = device.transport().now();
    let client = Client::new(device)?;
    let provoked = provoke(&client, provocation)?;
    let mut record = VictimRecord {
        setup_ms: (client.now() - begin) as f64 / MS as f64,
        ..VictimRecord::default()
    };
    stuck();
    for job in &provoked.jobs {
        record.fences.push(client.finish(job, watch_ms)?);
    }
    record.facts.extend(provoked.facts.iter().cloned());
    let watched = provoked.groups.iter();
    record.groups = watched
        .map(|(name, group)| group_record(name, group))
        .collect();
    let Provoked { groups, keep, .. } = provoked;
    let mut groups = groups.into_iter();
    let Some((_, group)) = groups.next() else {
        return Ok(record);
    };
    record.calls = calls(&client, &group);
    let healthy = attempt(&client, &group);
    record.healthy = passed(&healthy);
    record.calls.push(CallRecord {
        call: "healthy job on the same queue".to_owned(),
        result: in_words(&healthy),
    });
    if !record.healthy {
        drop(group);
        drop(groups);
        record.rungs.push(rung_one(
            &client,
            "destroy the group, create another, submit",
        ));
        if !record.rungs[0].cured {
            record.rungs.push(rung_two(device));
        }
        if !record.rungs.iter().any(|rung| rung.cured) {
            client.sleep(RESET_MS);
            record
                .rungs
                .push(rung_one(&client, "another group, two seconds later"));
        }
    }
    drop(keep);
    Ok(record)
}

/// R1: the group destroyed (before the call) and another created in the same VM.
fn rung_one(client: &Client, what: &str) -> RungRecord {
    let result = client
        .group(1)
        .and_then(|group| client.healthy(&group, HEALTHY_MS));
    RungRecord {
        rung: "R1".to_owned(),
        what: what.to_owned(),
        cured: passed(&result),
        result: in_words(&result),
    }
}

/// R2: another VM with another group on the same descriptor.
fn rung_two(device: &Device) -> RungRecord {
    let result = fresh(device);
    RungRecord {
        rung: "R2".to_owned(),
        what: "another VM and group on the same descriptor".to_owned(),
        cured: passed(&result),
        result: in_words(&result),
    }
}

/// A healthy job on a VM and group of its own.
pub fn fresh(device: &Device) -> Result<FenceRecord, StepError> {
    let client = Client::new(device)?;
    let group = client.group(1)?;
    client.healthy(&group, HEALTHY_MS)
}

fn attempt(client: &Client, group: &Group) -> Result<FenceRecord, StepError> {
    client.healthy(group, HEALTHY_MS)
}

/// Whether a healthy job passed: signalled well, and did its stores.
pub fn passed(result: &Result<FenceRecord, StepError>) -> bool {
    matches!(result, Ok(fence) if fence.status == "signalled" && fence.ended == Some(true))
}

/// The result of a healthy job in words.
pub fn in_words(result: &Result<FenceRecord, StepError>) -> String {
    match result {
        Ok(FenceRecord {
            status,
            after_ms: Some(ms),
            ended,
            ..
        }) => {
            let lost = if *ended == Some(false) {
                ", its store missing"
            } else {
                ""
            };
            format!("{status} after {ms:.1} ms{lost}")
        }
        Ok(fence) => fence.status.clone(),
        Err(error) => error_word(error),
    }
}

/// What the driver's calls give now.
fn calls(client: &Client, group: &Group) -> Vec<CallRecord> {
    let mut calls = Vec::new();
    let mut note = |call: &str, result: String| {
        calls.push(CallRecord {
            call: call.to_owned(),
            result,
        });
    };
    let device = client.device();
    let ok = |result: Result<(), StepError>| match result {
        Ok(()) => "ok".to_owned(),
        Err(error) => error_word(&error),
    };
    note(
        "DEV_QUERY GPU_INFO",
        ok(device.gpu_info().map(drop).map_err(Into::into)),
    );
    note(
        "DEV_QUERY TIMESTAMP_INFO",
        match device.timestamp_info(panthor_uapi::TimestampFlags::empty()) {
            Ok(_) => "ok".to_owned(),
            Err(error @ panthor_uapi::Error::Unsupported { .. }) => {
                let _ = error;
                "not in this driver".to_owned()
            }
            Err(error) => error_word(&error.into()),
        },
    );
    note(
        "VM_GET_STATE",
        match client.vm().is_usable() {
            Ok(true) => "USABLE".to_owned(),
            Ok(false) => "UNUSABLE".to_owned(),
            Err(error) => error_word(&error.into()),
        },
    );
    note("BO_CREATE and VM_BIND, synchronous", ok(bind(client)));
    note("VM_BIND, asynchronous", bind_async(client));
    note("GROUP_CREATE", ok(client.group(1).map(drop)));
    let empty = client
        .submit_empty(group, 0, "empty")
        .and_then(|job| client.finish(&job, HEALTHY_MS));
    note("GROUP_SUBMIT without a stream", in_words(&empty));
    calls
}

/// Where the calls bind their own page.
const SPARE: u64 = BASE + 0x20_0000;

fn bind(client: &Client) -> Result<(), StepError> {
    let bo = client.device().create_bo(0x1000, BoFlags::empty(), None)?;
    let flags = VmBindOpFlags::MAP_NOEXEC;
    client
        .vm()
        .bind(&[BindOp::map(&bo, 0, GpuVa(SPARE), 0x1000, flags)])?;
    client.vm().bind(&[BindOp::unmap(GpuVa(SPARE), 0x1000)])?;
    Ok(())
}

fn bind_async(client: &Client) -> String {
    let submit = || -> Result<FenceRecord, StepError> {
        let done = client.device().create_syncobj(false)?;
        let unmap = BindOp::unmap(GpuVa(SPARE), 0x1000).with_sync(SyncOp::signal(&done, 0));
        client.vm().bind_async(&[unmap])?;
        client.finish(&client.watch("bind", done), 2000)
    };
    in_words(&submit())
}
