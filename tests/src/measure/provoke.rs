//! The client-side ways to hang: what each submits.

use std::any::Any;

use panthor_uapi::{
    BindOp, BoFlags, FenceStatus, GpuVa, Group, GroupPriority, SyncOp, Syncobj, VmBindOpFlags,
};

use super::client::{BASE, Client, Job, MS, StepError, UNMAPPED, error_word, word};
use super::record::CallRecord;
use super::sw_sync;

/// An endless loop of a branch to itself.
pub const ENDLESS: &str = "forever:\nBRANCH.always r2, forever";
/// Cycles of one turn of [`countdown`]: two instructions of a stream, as the GPU's model counts them (`cost.rs`).
pub const TURN_CYCLES: u64 = 32;

/// A loop of `turns` turns.
pub fn countdown(turns: u64) -> String {
    // Two instructions back from the one behind the branch: the addition.
    format!("MOVE32 r4, #{turns}\nADD_IMMEDIATE32 r4, r4, #-1\nBRANCH.gt r4, #-2")
}

/// A wait until the `n`-th sync object of the client exceeds `reference`.
fn wait_for(n: u64, reference: u64) -> String {
    format!(
        "MOVE48 d4, #{:#x}\nMOVE48 d6, #{reference}\nSYNC_WAIT64.gt.inherit d4, d6",
        Client::sync_address(n)
    )
}

/// Sets the `n`-th sync object of the client, and tells the host.
fn set(n: u64, value: u64) -> String {
    format!(
        "MOVE48 d4, #{:#x}\nMOVE48 d6, #{value}\nSYNC_SET64.system [d4], d6, #0, #0",
        Client::sync_address(n)
    )
}

/// What a client does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provocation {
    /// `n` healthy jobs, each awaited before the next.
    Healthy(u32),
    /// Two healthy jobs with so many milliseconds between them.
    Apart(u64),
    /// A stream that asks for the compute resource, which needs shader power.
    Compute,
    /// A stream that branches to itself.
    EndlessLoop,
    /// A stream that counts down `turns` times.
    LongJob {
        /// Turns of [`TURN_CYCLES`] cycles.
        turns: u64,
    },
    /// A SYNC_WAIT that nothing satisfies.
    SyncWaitNever,
    /// A SYNC_WAIT that nothing satisfies, while a second group of the client loops for ever.
    SyncWaitBesideLoop,
    /// An endless loop, and `n` healthy submissions behind it, one a second.
    LoopUnderSubmissions {
        /// How many.
        n: u32,
    },
    /// A SYNC_WAIT that the CPU satisfies a second later by a plain store.
    SyncWaitByCpu,
    /// A SYNC_WAIT of an evicted group of low priority, satisfied by a group that goes on running for `turns` turns.
    SyncWaitEvicted {
        /// Turns that the signalling stream still runs.
        turns: u64,
    },
    /// A job that waits for a fence that nobody signals.
    Dependency,
    /// A chain of `n` jobs on groups of their own, each waiting for the one before; the first ones loop for ever.
    DependencyChain(u32),
    /// An asynchronous bind that waits for a fence that nobody signals, and a job that waits for the bind.
    BindStuck,
    /// A load where nothing is mapped.
    Unmapped,
    /// A word that is no instruction.
    InvalidInstruction,
    /// `n` groups that each count down `turns` times.
    Groups {
        /// How many groups.
        n: u32,
        /// Turns of each.
        turns: u64,
    },
    /// Eight groups that loop for ever, and a ninth with a healthy job.
    SlotsExhausted,
    /// `n` VMs with a group each that counts down `turns` times.
    Vms {
        /// How many VMs.
        n: u32,
        /// Turns of each.
        turns: u64,
    },
    /// Healthy jobs behind an endless one until the ring is full.
    RingFull,
    /// An endless loop, and groups made and destroyed all the time from just before its kill.
    CreateDuringKill,
    /// A wait for a point that nobody submits.
    Unsubmitted,
}

/// What a provocation has set going.
#[derive(Default)]
pub struct Provoked {
    /// The fences to watch; the first is the one that the claim is about.
    pub jobs: Vec<Job>,
    /// The groups, the victim's first.
    pub groups: Vec<(String, Group)>,
    /// Facts seen on the way.
    pub facts: Vec<CallRecord>,
    /// What must live as long as the watch.
    pub keep: Vec<Box<dyn Any>>,
}

impl Provoked {
    fn fact(&mut self, call: &str, result: impl Into<String>) {
        self.facts.push(CallRecord {
            call: call.to_owned(),
            result: result.into(),
        });
    }
}

/// Does what `provocation` says.
pub fn provoke(client: &Client, provocation: Provocation) -> Result<Provoked, StepError> {
    let mut out = Provoked::default();
    let priority = match provocation {
        Provocation::SyncWaitEvicted { .. } => GroupPriority::Low,
        _ => GroupPriority::Medium,
    };
    let group = client.group_with(1, priority)?;
    match provocation {
        Provocation::Healthy(n) => {
            for i in 0..n {
                let job = match client.submit(&group, 0, &format!("job {i}"), "") {
                    Ok(job) => job,
                    Err(error) if i > 0 => {
                        out.fact(&format!("GROUP_SUBMIT of job {i}"), error_word(&error));
                        break;
                    }
                    Err(error) => return Err(error),
                };
                if i + 1 < n {
                    client.finish(&job, 20_000)?;
                }
                out.jobs.push(job);
            }
        }
        Provocation::Apart(ms) => {
            let first = client.submit(&group, 0, "first", "")?;
            client.sleep(ms);
            out.jobs.push(first);
            out.jobs.push(client.submit(&group, 0, "second", "")?);
        }
        Provocation::Compute => {
            // Without descriptors: the firmware looks for cores first, and finds none.
            let body = "REQ_RESOURCE.compute\nRUN_COMPUTE.x_axis.srt0.spd0.tsd0.fau0 #1";
            out.jobs.push(client.submit(&group, 0, "compute", body)?);
        }
        Provocation::EndlessLoop => out.jobs.push(client.submit(&group, 0, "loop", ENDLESS)?),
        Provocation::LongJob { turns } => {
            out.jobs
                .push(client.submit(&group, 0, "long job", &countdown(turns))?);
        }
        Provocation::SyncWaitNever => {
            out.jobs
                .push(client.submit(&group, 0, "waiter", &wait_for(0, 0))?);
        }
        Provocation::SyncWaitBesideLoop => {
            let other = client.group(1)?;
            let looping = client.submit(&other, 0, "loop", ENDLESS)?;
            // Later than the loop, so that its own timer is still running when the loop's kill leads to a reset.
            client.sleep(2000);
            out.jobs
                .push(client.submit(&group, 0, "waiter", &wait_for(0, 0))?);
            out.jobs.push(looping);
            out.groups.push(("looping".to_owned(), other));
        }
        Provocation::LoopUnderSubmissions { n } => {
            out.jobs.push(client.submit(&group, 0, "loop", ENDLESS)?);
            for i in 0..n {
                client.sleep(1000);
                match client.submit(&group, 0, &format!("behind {i}"), "") {
                    Ok(job) => out.jobs.push(job),
                    Err(error) => {
                        let call = format!("GROUP_SUBMIT {} s after the loop's", i + 1);
                        out.fact(&call, error_word(&error));
                        break;
                    }
                }
            }
        }
        Provocation::SyncWaitByCpu => {
            out.jobs
                .push(client.submit(&group, 0, "waiter", &wait_for(0, 0))?);
            client.sleep(1000);
            client.write_sync(0, 1);
            out.fact(
                "CPU store of the awaited value",
                "1000 ms after the submission",
            );
        }
        Provocation::SyncWaitEvicted { turns } => evicted(client, &group, turns, &mut out)?,
        Provocation::Dependency => {
            let never = never(client, &mut out)?;
            out.jobs
                .push(client.submit_with(&group, 0, "dependent", "", &[&never])?);
            out.keep.push(Box::new(never));
        }
        Provocation::DependencyChain(n) => chain(client, &group, n, &mut out)?,
        Provocation::BindStuck => bind_stuck(client, &group, &mut out)?,
        Provocation::Unmapped => {
            let body = format!("MOVE48 d4, #{UNMAPPED:#x}\nLOAD_MULTIPLE r8, [d4]\nWAIT #1");
            out.jobs.push(client.submit(&group, 0, "load", &body)?);
        }
        Provocation::InvalidInstruction => {
            let text = super::client::stream_text(client.next_marker(), "NOP");
            let bad = |e: mali_isa::csf::ProgramError| {
                StepError::Stream("invalid".to_owned(), e.to_string())
            };
            let mut words = mali_isa::csf::assemble_program(&text).map_err(bad)?;
            // The NOP is the sixth instruction; no v10 instruction has the opcode 0xfe.
            words[5 * 8..6 * 8].copy_from_slice(&0xfe00_0000_0000_0000u64.to_le_bytes());
            let job = client.submit_words(&group, 0, "invalid instruction", &words, &[])?;
            out.jobs.push(job);
        }
        Provocation::Groups { n, turns } => {
            out.jobs
                .push(client.submit(&group, 0, "group 0", &countdown(turns))?);
            for i in 1..n {
                let other = client.group(1)?;
                let name = format!("group {i}");
                out.jobs
                    .push(client.submit(&other, 0, &name, &countdown(turns))?);
                out.groups.push((name, other));
            }
        }
        Provocation::SlotsExhausted => {
            let slots = client.device().csif_info()?.csg_slot_count;
            for i in 0..slots {
                let other = client.group(1)?;
                let name = format!("loop {i}");
                out.keep
                    .push(Box::new(client.submit(&other, 0, &name, ENDLESS)?));
                out.groups.push((name, other));
            }
            client.sleep(100);
            out.jobs.insert(0, client.submit(&group, 0, "healthy", "")?);
        }
        Provocation::Vms { n, turns } => {
            out.jobs
                .push(client.submit(&group, 0, "VM 0", &countdown(turns))?);
            for i in 1..n {
                let other = Client::new(client.device())?;
                let its = other.group(1)?;
                let name = format!("VM {i}");
                out.jobs
                    .push(other.submit(&its, 0, &name, &countdown(turns))?);
                out.groups.push((name, its));
                out.keep.push(Box::new(other));
            }
        }
        Provocation::RingFull => {
            out.jobs.push(client.submit(&group, 0, "loop", ENDLESS)?);
            let mut accepted = 0;
            for i in 0..40 {
                match client.submit(&group, 0, &format!("behind {i}"), "") {
                    Ok(job) => {
                        accepted += 1;
                        out.jobs.push(job);
                    }
                    Err(error) => {
                        out.fact("GROUP_SUBMIT behind the loop", error_word(&error));
                        break;
                    }
                }
            }
            out.fact("submissions accepted behind the loop", accepted.to_string());
        }
        Provocation::CreateDuringKill => {
            out.jobs.push(client.submit(&group, 0, "loop", ENDLESS)?);
            client.sleep(4900);
            create(client, &mut out);
        }
        Provocation::Unsubmitted => unsubmitted(client, &mut out)?,
    }
    out.groups.insert(0, ("victim".to_owned(), group));
    Ok(out)
}

/// A fence that nobody signals: software's own (`sw_sync`, root with debugfs), else none.
fn never(client: &Client, out: &mut Provoked) -> Result<Syncobj, StepError> {
    let syncobj = client.device().create_syncobj(false)?;
    let (timeline, fence) = sw_sync::unsignalled(client.device().transport())?;
    if fence.status()? != FenceStatus::Pending {
        return Err(StepError::Unavailable("a pending sw_sync fence".to_owned()));
    }
    syncobj.import_sync_file(0, &fence)?;
    out.keep.push(Box::new(timeline));
    Ok(syncobj)
}

/// Jobs behind each other on groups of their own.
fn chain(client: &Client, group: &Group, n: u32, out: &mut Provoked) -> Result<(), StepError> {
    let mut before: Option<Job> = None;
    for i in 0..n {
        let other = client.group(1)?;
        let name = format!("link {i}");
        let waits: Vec<&Syncobj> = before.iter().map(Job::fence).collect();
        let job = client.submit_with(&other, 0, &name, ENDLESS, &waits)?;
        out.groups.push((name, other));
        out.jobs.extend(before.replace(job));
    }
    let waits: Vec<&Syncobj> = before.iter().map(Job::fence).collect();
    let last = client.submit_with(group, 0, "dependent", "", &waits)?;
    out.jobs.extend(before);
    out.jobs.insert(0, last);
    Ok(())
}

/// An asynchronous map behind a fence that never signals, and a job behind the map.
fn bind_stuck(client: &Client, group: &Group, out: &mut Provoked) -> Result<(), StepError> {
    let never = never(client, out)?;
    let bound = client.device().create_syncobj(false)?;
    let bo = client.device().create_bo(0x1000, BoFlags::empty(), None)?;
    let flags = VmBindOpFlags::MAP_NOEXEC | VmBindOpFlags::MAP_UNCACHED;
    let map = BindOp::map(&bo, 0, GpuVa(BASE + 0x10_0000), 0x1000, flags)
        .with_sync(SyncOp::wait(&never, 0))
        .with_sync(SyncOp::signal(&bound, 0));
    client.vm().bind_async(&[map])?;
    let job = client.submit_with(group, 0, "job behind the bind", "", &[&bound])?;
    out.jobs.push(job);
    out.jobs.push(client.watch("bind", bound));
    out.keep.push(Box::new(never));
    out.keep.push(Box::new(bo));
    Ok(())
}

/// The waiter is evicted by eight running groups, of which one then satisfies the wait and runs on.
fn evicted(
    client: &Client,
    group: &Group,
    turns: u64,
    out: &mut Provoked,
) -> Result<(), StepError> {
    out.jobs
        .push(client.submit(group, 0, "waiter", &wait_for(0, 0))?);
    client.sleep(200); // long enough for the idle device to suspend, which takes the group off its slot
    let slots = client.device().csif_info()?.csg_slot_count;
    // Groups of a higher priority that stay on the slots, idle: they wait too.
    for i in 1..slots {
        let other = client.group(1)?;
        let name = format!("occupant {i}");
        out.keep.push(Box::new(client.submit(
            &other,
            0,
            &name,
            &wait_for(1, 0),
        )?));
        out.groups.push((name, other));
    }
    let signaller = client.group(1)?;
    let body = format!(
        "{}\n{}\n{}",
        countdown(turns / 10),
        set(0, 1),
        countdown(turns)
    );
    out.jobs
        .push(client.submit(&signaller, 0, "signaller", &body)?);
    out.groups.push(("signaller".to_owned(), signaller));
    Ok(())
}

/// Makes and destroys a group every ten milliseconds for two seconds; what the calls gave, one after another.
fn create(client: &Client, out: &mut Provoked) {
    let start = client.now();
    let mut spells: Vec<(String, u64, u64, u32)> = Vec::new();
    while client.now() < start + 2000 * MS {
        let at = (client.now() - start) / MS;
        let word = match client.group(1) {
            Ok(_) => "ok".to_owned(),
            Err(error) => error_word(&error),
        };
        match spells.last_mut() {
            Some(spell) if spell.0 == word => (spell.2, spell.3) = (at, spell.3 + 1),
            _ => spells.push((word, at, at, 1)),
        }
        client.sleep(10);
    }
    let words: Vec<_> = spells
        .iter()
        .map(|(word, first, last, n)| format!("{n} times {word} ({first} to {last} ms)"))
        .collect();
    out.fact("GROUP_CREATE, every 10 ms from 4.9 s on", words.join(", "));
}

/// A wait for a point that nobody submits, with and without WAIT_FOR_SUBMIT.
fn unsubmitted(client: &Client, out: &mut Provoked) -> Result<(), StepError> {
    use panthor_uapi::SyncobjWaitFlags;
    let timeline = client.device().create_syncobj(false)?;
    let deadline = client.now() + 1000 * MS;
    let wait = |flags| match timeline.wait(7, flags, deadline) {
        Ok(outcome) => format!("{outcome:?}"),
        Err(error) => error.errno().map_or_else(|| error.to_string(), word),
    };
    let plain = wait(SyncobjWaitFlags::empty());
    let submit = wait(SyncobjWaitFlags::WAIT_FOR_SUBMIT);
    out.fact("SYNCOBJ_TIMELINE_WAIT for a point without fence", plain);
    out.fact("the same with WAIT_FOR_SUBMIT, one second", submit);
    Ok(())
}
