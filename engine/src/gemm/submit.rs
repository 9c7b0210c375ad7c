//! Submitting jobs and waiting for them, one by one, with finite deadlines.

use std::time::Duration;

use panthor_uapi::{GpuVa, QueueSubmit, SyncOp, Syncobj};
use panthor_watchdog::{Deadline, Job, QueueId, Replay, SyncobjId, TimelinePoint, Watch};

use super::device::Engine;
use super::fences::EngineFences;
use super::run::Built;
use super::work::Work;
use super::{EngineError, Lost, LostCause};
use crate::memory::Buffer;

/// The queue of the engine's group.
const QUEUE: u32 = 0;

/// How long the engine waits for a job beyond its turn: twice the driver's own timer of 5 s (`JOB_TIMEOUT_MS`), so that
/// the driver's verdict comes first.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long a job may take before the driver kills it, with a margin.
const JOB_TIMER: Duration = Duration::from_secs(6);

impl Engine {
    /// Submits the jobs together.
    pub(super) fn submit(
        &mut self,
        works: &mut [Work<'_>],
        built: &[Built],
        parameters: &Buffer,
        statuses: &[Syncobj],
    ) -> Result<Vec<Job>, EngineError> {
        let begin = self.now();
        let queue = QueueId {
            group: self.group.handle(),
            queue: QUEUE,
        };
        let timeline = SyncobjId(self.timeline.handle());
        let mut jobs = Vec::with_capacity(built.len());
        for (job, status) in built.iter().zip(statuses) {
            let work = &mut works[job.work];
            work.begin.get_or_insert(begin);
            let (inputs, outputs) = work.ranges(&job.pieces);
            jobs.push(Job {
                queue,
                point: TimelinePoint {
                    syncobj: timeline,
                    value: self.next_point + jobs.len() as u64,
                },
                status: SyncobjId(status.handle()),
                markers: job.markers.clone(),
                predicted_cycles: job.cycles,
                inputs,
                outputs,
                replay: Replay {
                    stream: parameters.address().offset(job.stream_at),
                    // A stream has at most a few hundred words.
                    stream_size: 8 * job.stream.len() as u32,
                    waits: Vec::new(),
                },
            });
        }
        let submits: Vec<_> = jobs
            .iter()
            .zip(statuses)
            .map(|(job, status)| QueueSubmit {
                queue_index: QUEUE,
                stream_addr: GpuVa(job.replay.stream.0),
                stream_size: job.replay.stream_size,
                // Flush whatever was cached, in any case.
                latest_flush: 0,
                syncs: vec![
                    SyncOp::signal(&self.timeline, job.point.value),
                    SyncOp::signal(status, 0),
                ],
            })
            .collect();
        self.group.submit(&submits)?;
        self.next_point += jobs.len() as u64;
        let fences = EngineFences {
            device: &self.device,
            timeline: &self.timeline,
            statuses,
        };
        self.watch.submitted(&fences, &jobs);
        self.last_jobs.clone_from(&jobs);
        Ok(jobs)
    }

    /// Waits for the jobs in order; the first that is not good is the reason of the loss.
    pub(super) fn wait(
        &mut self,
        works: &mut [Work<'_>],
        built: &[Built],
        jobs: &[Job],
        statuses: &[Syncobj],
    ) -> Result<(), Box<Lost>> {
        let begin = self.now();
        let mut before = begin;
        for (i, (job, built)) in jobs.iter().zip(built).enumerate() {
            let turn = JOB_TIMER.saturating_mul(i as u32 + 1);
            let deadline = Deadline(begin + turn + PATIENCE);
            let fences = EngineFences {
                device: &self.device,
                timeline: &self.timeline,
                statuses,
            };
            let waited = self.watch.wait(&fences, job, deadline);
            let cause = match waited {
                Ok(()) if self.reached_its_end(job) => None,
                Ok(()) => Some(LostCause::Unfinished),
                Err(error) => Some(error.into()),
            };
            if let Some(cause) = cause {
                return Err(Box::new(Lost {
                    job: i + 1,
                    jobs: jobs.len(),
                    point: job.point.value,
                    cause,
                    group: self.group.state().ok(),
                }));
            }
            let now = self.now();
            self.rate.update(built.macs, now.saturating_sub(before));
            before = now;
            works[built.work].end = now;
        }
        Ok(())
    }

    /// Whether the job has stored its last marker.
    ///
    /// The driver of Linux 6.12 gives a job's fence an error only for CS_INHERIT_FAULT (panthor_sched.c,
    /// `cs_slot_process_fault_event_locked`): with any other CS_FAULT the rest of the stream is skipped and the fence
    /// signals well.
    fn reached_its_end(&self, job: &Job) -> bool {
        job.markers
            .last()
            .is_some_and(|end| self.marker(end.address) == Some(end.value))
    }
}
