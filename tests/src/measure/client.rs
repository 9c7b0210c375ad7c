//! A client of the driver as small as can be: one VM, one buffer, groups, and streams with markers.

use mali_isa::csf;
use panthor_uapi::{
    BindOp, Bo, BoFlags, Device, Errno, Error, FenceStatus, GpuVa, Group, GroupConfig,
    GroupPriority, GroupStateFlags, Mapping, QueueConfig, QueueSubmit, SyncOp, Syncobj,
    SyncobjWaitFlags, Vm, VmBindOpFlags, errno_name,
};

use super::record::{FenceRecord, GroupRecord};

/// Nanoseconds in a millisecond.
pub const MS: u64 = 1_000_000;
/// Where the client's buffer is bound.
pub const BASE: u64 = 0x1_0000_0000;
/// An address where nothing is ever bound.
pub const UNMAPPED: u64 = 0x2_0000_0000;
/// Bytes of the buffer.
const SIZE: u64 = 0x10000;
/// Room of one stream in bytes; there are [`JOBS`] of them.
const STREAM_ROOM: u64 = 0x200;
/// Jobs that a client can have had.
const JOBS: u64 = 48;
/// Where the markers stand: 64 bytes a job, the first word written first, the second last.
const MARKERS: u64 = 0x8000;
/// Where the sync objects of streams stand, 64 bytes each.
const SYNCS: u64 = 0xc000;
/// What a marker holds when its store has arrived.
const MARK: u32 = 0x600d_f00d;
/// The ring buffer of each queue, in bytes.
const RING: u32 = 4096;

/// Why a step of a scenario could not be done.
#[derive(Debug, thiserror::Error)]
pub enum StepError {
    /// The driver refused.
    #[error(transparent)]
    Driver(#[from] Error),
    /// The scenario's stream does not assemble or does not fit.
    #[error("stream of {0}: {1}")]
    Stream(String, String),
    /// A file could not be read or a process not started.
    #[error("{0}: {1}")]
    Io(String, std::io::Error),
    /// The scenario needs what this kernel or device does not have.
    #[error("not available here: {0}")]
    Unavailable(String),
}

/// The errno's name, or the error in words.
pub fn error_word(error: &StepError) -> String {
    match error {
        StepError::Driver(Error::DeviceLost { .. }) => "EINVAL (group dead)".to_owned(),
        StepError::Driver(Error::VmLost { .. }) => "EINVAL (VM unusable)".to_owned(),
        StepError::Driver(error) => match error.errno() {
            Some(errno) => word(errno),
            None => error.to_string(),
        },
        other => other.to_string(),
    }
}

/// An errno's name.
pub fn word(errno: Errno) -> String {
    match errno_name(errno) {
        "errno" => format!("errno {}", errno.raw_os_error()),
        name => name.to_owned(),
    }
}

/// A submitted job.
#[derive(Debug)]
pub struct Job {
    name: String,
    fence: Syncobj,
    slot: Option<u64>,
    submitted_ns: u64,
}

/// A client with a VM of its own.
#[derive(Debug)]
pub struct Client {
    device: Device,
    vm: Vm,
    bo: Bo,
    map: Mapping,
    next: std::cell::Cell<u64>,
}

/// The driver's rules for a group of `queues` queues on all cores.
pub fn group_config(
    device: &Device,
    queues: usize,
    priority: GroupPriority,
) -> Result<GroupConfig, StepError> {
    let info = device.gpu_info()?;
    Ok(GroupConfig {
        queues: vec![
            QueueConfig {
                priority: 1,
                ringbuf_size: RING,
            };
            queues
        ],
        priority,
        compute_core_mask: info.shader_present,
        max_compute_cores: info.shader_present.count_ones() as u8, // at most 64
        fragment_core_mask: info.shader_present,
        max_fragment_cores: info.shader_present.count_ones() as u8, // at most 64
        tiler_core_mask: info.tiler_present,
        max_tiler_cores: info.tiler_present.count_ones() as u8, // at most 64
    })
}

impl Client {
    /// A new VM with one buffer in it, which the GPU does not cache.
    pub fn new(device: &Device) -> Result<Self, StepError> {
        let vm = device.create_vm(0)?;
        let bo = device.create_bo(SIZE, BoFlags::empty(), None)?;
        let map = bo.map()?;
        map.fill(0..SIZE as usize, 0);
        let flags = VmBindOpFlags::MAP_NOEXEC | VmBindOpFlags::MAP_UNCACHED;
        vm.bind(&[BindOp::map(&bo, 0, GpuVa(BASE), SIZE, flags)])?;
        Ok(Self {
            device: device.clone(),
            vm,
            bo,
            map,
            next: std::cell::Cell::new(0),
        })
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The VM.
    pub fn vm(&self) -> &Vm {
        &self.vm
    }

    /// The buffer.
    pub fn bo(&self) -> &Bo {
        &self.bo
    }

    /// The clock, in nanoseconds.
    pub fn now(&self) -> u64 {
        self.device.transport().now()
    }

    /// Lets `ms` milliseconds pass.
    pub fn sleep(&self, ms: u64) {
        let deadline = self.now() + ms * MS;
        while self.now() < deadline {
            self.device.transport().sleep_until(deadline);
        }
    }

    /// A group of `queues` queues of medium priority.
    pub fn group(&self, queues: usize) -> Result<Group, StepError> {
        self.group_with(queues, GroupPriority::Medium)
    }

    /// A group of `queues` queues.
    pub fn group_with(&self, queues: usize, priority: GroupPriority) -> Result<Group, StepError> {
        let config = group_config(&self.device, queues, priority)?;
        Ok(self.device.create_group(&self.vm, &config)?)
    }

    /// Address of the `n`-th sync object of this client.
    pub fn sync_address(n: u64) -> u64 {
        BASE + SYNCS + 64 * n
    }

    /// Writes a sync object from the CPU.
    pub fn write_sync(&self, n: u64, value: u64) {
        self.map.write_u64((SYNCS + 64 * n) as usize, value);
    }

    /// Submits `body` between a store of the start marker and one of the end marker.
    pub fn submit(
        &self,
        group: &Group,
        queue: u32,
        name: &str,
        body: &str,
    ) -> Result<Job, StepError> {
        self.submit_with(group, queue, name, body, &[])
    }

    /// As [`Client::submit`], after the fences in `waits`.
    pub fn submit_with(
        &self,
        group: &Group,
        queue: u32,
        name: &str,
        body: &str,
        waits: &[&Syncobj],
    ) -> Result<Job, StepError> {
        let slot = self.next.get() % JOBS;
        let marker = BASE + MARKERS + 64 * slot;
        let text = stream_text(marker, body);
        let bad = |what: String| StepError::Stream(name.to_owned(), what);
        let words = csf::assemble_program(&text).map_err(|e| bad(e.to_string()))?;
        self.submit_words(group, queue, name, &words, waits)
    }

    /// Submits the words of a stream as they stand. The markers are the next job's: see [`Client::next_marker`].
    pub fn submit_words(
        &self,
        group: &Group,
        queue: u32,
        name: &str,
        words: &[u8],
        waits: &[&Syncobj],
    ) -> Result<Job, StepError> {
        let slot = self.next.get() % JOBS;
        self.next.set(self.next.get() + 1);
        if words.len() as u64 > STREAM_ROOM {
            let what = format!("{} bytes are more than {STREAM_ROOM}", words.len());
            return Err(StepError::Stream(name.to_owned(), what));
        }
        let offset = STREAM_ROOM * slot;
        self.map.write(offset as usize, words);
        let markers = (MARKERS + 64 * slot) as usize;
        self.map.write_u64(markers, 0);
        self.enqueue(
            group,
            queue,
            name,
            BASE + offset,
            words.len() as u32,
            Some(slot),
            waits,
        )
    }

    /// Submits a synchronisation point: a job without a stream, which the GPU never sees.
    pub fn submit_empty(&self, group: &Group, queue: u32, name: &str) -> Result<Job, StepError> {
        self.enqueue(group, queue, name, 0, 0, None, &[])
    }

    #[allow(clippy::too_many_arguments)] // the fields of one submission
    fn enqueue(
        &self,
        group: &Group,
        queue: u32,
        name: &str,
        va: u64,
        size: u32,
        slot: Option<u64>,
        waits: &[&Syncobj],
    ) -> Result<Job, StepError> {
        let fence = self.device.create_syncobj(false)?;
        let mut syncs: Vec<_> = waits.iter().map(|wait| SyncOp::wait(wait, 0)).collect();
        syncs.push(SyncOp::signal(&fence, 0));
        let submitted_ns = self.now();
        group.submit(&[QueueSubmit {
            queue_index: queue,
            stream_addr: GpuVa(va),
            stream_size: size,
            latest_flush: 0,
            syncs,
        }])?;
        Ok(Job {
            name: name.to_owned(),
            fence,
            slot,
            submitted_ns,
        })
    }

    /// The marker address of the job that is submitted next.
    pub fn next_marker(&self) -> u64 {
        BASE + MARKERS + 64 * (self.next.get() % JOBS)
    }

    /// A fence of a bind or of somebody else, watched like a job's.
    pub fn watch(&self, name: &str, fence: Syncobj) -> Job {
        Job {
            name: name.to_owned(),
            fence,
            slot: None,
            submitted_ns: self.now(),
        }
    }

    /// Waits for `job` until `within_ms` after its submission, and says how it stands.
    pub fn finish(&self, job: &Job, within_ms: u64) -> Result<FenceRecord, StepError> {
        let deadline = job.submitted_ns + within_ms * MS;
        job.fence.wait(0, SyncobjWaitFlags::empty(), deadline)?;
        self.look(job)
    }

    /// How `job` stands now.
    pub fn look(&self, job: &Job) -> Result<FenceRecord, StepError> {
        let fences = job.fence.export_sync_file(0)?;
        let status = fences.status()?;
        let signalled_ns = fences
            .fences()?
            .iter()
            .map(|fence| fence.timestamp_ns)
            .max();
        let after = |ns: u64| ns.saturating_sub(job.submitted_ns) as f64 / MS as f64;
        let marker = |n: u64| {
            job.slot
                .map(|slot| self.map.read_u32((MARKERS + 64 * slot + 4 * n) as usize) == MARK)
        };
        let (status, after_ms) = match status {
            FenceStatus::Pending => ("pending".to_owned(), None),
            FenceStatus::Signalled => ("signalled".to_owned(), signalled_ns.map(after)),
            FenceStatus::Failed(errno) => (word(errno), signalled_ns.map(after)),
        };
        Ok(FenceRecord {
            name: job.name.clone(),
            status,
            after_ms,
            started: marker(0),
            ended: marker(1),
        })
    }

    /// A healthy job on queue 0 of `group`: how it fares within `within_ms`.
    pub fn healthy(&self, group: &Group, within_ms: u64) -> Result<FenceRecord, StepError> {
        let job = self.submit(group, 0, "healthy", "")?;
        self.finish(&job, within_ms)
    }
}

impl Job {
    /// The syncobj with its fence.
    pub fn fence(&self) -> &Syncobj {
        &self.fence
    }

    /// When it was submitted, on the transport's clock.
    pub fn submitted_ns(&self) -> u64 {
        self.submitted_ns
    }
}

/// `body` between the two marker stores.
pub fn stream_text(marker: u64, body: &str) -> String {
    format!(
        "SET_SB_ENTRY #1, #0\nMOVE48 d0, #{marker:#x}\nMOVE32 r2, #{MARK:#x}\nSTORE_MULTIPLE [d0], r2\nWAIT #1\n\
         {body}\nMOVE48 d0, #{end:#x}\nMOVE32 r2, #{MARK:#x}\nSTORE_MULTIPLE [d0], r2\nWAIT #1\n",
        end = marker + 4
    )
}

/// A group's state in words.
pub fn group_record(name: &str, group: &Group) -> GroupRecord {
    match group.state() {
        Ok(state) => GroupRecord {
            name: name.to_owned(),
            state: flags_word(state.flags),
            fatal_queues: state.fatal_queues,
        },
        Err(error) => GroupRecord {
            name: name.to_owned(),
            state: error_word(&error.into()),
            fatal_queues: 0,
        },
    }
}

/// Flags of a group's state joined by `|`; `0` for none.
pub fn flags_word(flags: GroupStateFlags) -> String {
    let names: Vec<_> = flags.iter_names().map(|(name, _)| name).collect();
    if names.is_empty() {
        "0".to_owned()
    } else {
        names.join("|")
    }
}
