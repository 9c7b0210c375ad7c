//! Injection of failures, by the modes of the hang catalogue.
//!
//! An injection stands for something that goes wrong in the device, so that a client's way of noticing and repairing it
//! can be tried. It applies to one job: the n-th that reaches the hardware of a device, counted from 0.

use std::collections::BTreeMap;

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// `cs_infinite_loop`: the stream never ends; the driver's timer kills the group.
    CsInfiniteLoop,
    /// `cs_fault`: a recoverable fault; the job's fence fails, the queue goes on.
    CsFault {
        /// CS_FAULT.EXCEPTION_TYPE (`panthor_device.h`, 0x4b is CS_INHERIT_FAULT).
        exception: u8,
    },
    /// `cs_fatal`: the queue dies and with it its group.
    CsFatal {
        /// CS_FATAL.EXCEPTION_TYPE.
        exception: u8,
    },
    /// `mmu_fault`: a read of an address where nothing is mapped.
    MmuFault {
        /// The address.
        va: u64,
    },
}

/// The failures that a device has still to meet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    by_job: BTreeMap<u64, Mode>,
    started: u64,
}

impl Plan {
    /// Lets job `job` fail: the number counts jobs with a stream, in the order in which the device starts them, from 0.
    pub fn inject(&mut self, job: u64, mode: Mode) {
        self.by_job.insert(job, mode);
    }

    /// Number of jobs started so far.
    pub fn started(&self) -> u64 {
        self.started
    }

    /// Counts a job that starts and says what goes wrong with it.
    pub fn start_job(&mut self) -> Option<Mode> {
        let mode = self.by_job.remove(&self.started);
        self.started += 1;
        mode
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn injections_meet_their_job_once() {
        let mut plan = Plan::default();
        plan.inject(1, Mode::CsInfiniteLoop);
        assert_eq!(
            [plan.start_job(), plan.start_job(), plan.start_job()],
            [None, Some(Mode::CsInfiniteLoop), None]
        );
        assert_eq!(plan.started(), 3);
    }
}
