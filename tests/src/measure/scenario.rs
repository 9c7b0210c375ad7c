//! What is measured: the table of scenarios. Those with faults of the GPU are in [`super::faults`].

use super::claims::{Claim, Expect, FATAL_FAULT, FINE, KILLED, Log, NOTHING};
use super::faults::BY_THE_GPU;
use super::provoke::Provocation;

/// One scenario.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// Its name: the mode of the hang catalogue where there is one.
    pub name: &'static str,
    /// What is done, in a sentence.
    pub what: &'static str,
    /// What the client does.
    pub provocation: Provocation,
    /// Faults of the GPU, as the device string of the rig takes them.
    pub faults: &'static [&'static str],
    /// The GPU's clock in MHz, where the scenario needs another than [`CLOCK_MHZ`].
    pub gpu_mhz: Option<&'static str>,
    /// How long the victim's fences are watched, in milliseconds.
    pub watch_ms: u64,
    /// When the device is looked at and the second client submits, in milliseconds after the submission.
    pub look_ms: u64,
    /// The victim is killed (SIGKILL) a second after its submission.
    pub kill: bool,
    /// The device is kept from suspending (`power/control=on`) from before the victim's start.
    pub awake: bool,
    /// What the hang catalogue says about it.
    pub claim: Claim,
    /// Measured again by continuous integration on every change.
    pub in_ci: bool,
}

/// The clock at which scenarios run unless they say otherwise, in MHz. Low, so that a loop of five seconds is a few
/// hundred thousand instructions for the model.
pub const CLOCK_MHZ: &str = "1";

/// Loop turns that take about `ms` milliseconds at [`CLOCK_MHZ`].
pub(super) const fn turns(ms: u64) -> u64 {
    ms * 1000 / super::provoke::TURN_CYCLES
}

/// Every scenario, in the order of the documents.
pub fn all() -> impl Iterator<Item = &'static Scenario> {
    BY_CLIENTS.iter().chain(BY_THE_GPU)
}

/// The scenario of this name.
pub fn find(name: &str) -> Option<&'static Scenario> {
    all().find(|scenario| scenario.name == name)
}

/// What most scenarios are like: no fault, the usual clock, watched for 20 seconds.
pub(super) const PLAIN: Scenario = Scenario {
    name: "",
    what: "",
    provocation: Provocation::Healthy(1),
    faults: &[],
    gpu_mhz: None,
    watch_ms: 20_000,
    look_ms: 1000,
    kill: false,
    awake: false,
    claim: Claim {
        text: "",
        source: "",
        old: NOTHING,
        new: NOTHING,
        lessons: &[],
    },
    in_ci: false,
};

/// What clients can do by themselves.
pub const BY_CLIENTS: &[Scenario] = &[
    Scenario {
        name: "control",
        what: "Three healthy jobs, one after another.",
        provocation: Provocation::Healthy(3),
        claim: Claim {
            text: "A healthy job signals within milliseconds and the driver says nothing.",
            source: "panthor_sched.c: queue_run_job, group_sync_upd_work",
            old: FINE,
            new: FINE,
            lessons: &[],
        },
        in_ci: true,
        ..PLAIN
    },
    // Endless work on the GPU.
    Scenario {
        name: "cs_infinite_loop",
        what: "A command stream that branches to itself.",
        provocation: Provocation::EndlessLoop,
        claim: Claim {
            text: "The queue's timer fires after five seconds without a completed job: the group is terminated, the fence \
                   fails with ETIMEDOUT, the log has \"job timeout\". Others are not disturbed; a new group works.",
            source: "panthor_sched.c: queue_timeout_work, queue_timedout_job, group_term_post_processing",
            old: KILLED,
            new: KILLED,
            lessons: &[(
                "7.x",
                "the 80 ms above five seconds are the timer wheel: at HZ=100 a timer of 500 jiffies has a granularity of eight (kernel/time/timer.c). The group keeps its slot until then, and its VM counts as active memory.",
            )],
        },
        in_ci: true,
        ..PLAIN
    },
    Scenario {
        name: "long_job",
        what: "A stream that counts down for six seconds and would then end well.",
        provocation: Provocation::LongJob { turns: turns(6000) },
        claim: Claim {
            text: "The timer does not know that a job makes progress within itself: it dies after five seconds like an \
                   endless one.",
            source: "panthor_sched.c: JOB_TIMEOUT_MS, queue_reset_timeout_locked",
            old: KILLED,
            new: KILLED,
            lessons: &[],
        },
        ..PLAIN
    },
    Scenario {
        name: "loop_under_submissions",
        what: "An endless loop, and a healthy job submitted behind it on the same queue every second, ten times.",
        provocation: Provocation::LoopUnderSubmissions { n: 10 },
        claim: Claim {
            text: "6.12 restarts the scheduler's timer whenever a job begins or retires, so that steady submission puts \
                   the kill off; 7.x has a timer per queue that only progress restarts.",
            source: "6.12: scheduler/sched_main.c: drm_sched_job_begin, drm_sched_start_timeout; 7.x: panthor_sched.c: \
                     queue_resume_timeout",
            old: Expect {
                after_ms: Some((5500, 20_000)),
                ..KILLED
            },
            new: KILLED,
            lessons: &[],
        },
        ..PLAIN
    },
    // Waits inside a stream.
    Scenario {
        name: "sync_wait_never",
        what: "A stream that waits for a sync object that nobody changes.",
        provocation: Provocation::SyncWaitNever,
        claim: Claim {
            text: "The timer goes on although the group is idle and leaves its slot, and kills it after five seconds.",
            source: "panthor_sched.c: queue_suspend_timeout_locked",
            old: KILLED,
            new: KILLED,
            lessons: &[],
        },
        ..PLAIN
    },
    Scenario {
        name: "sync_wait_by_cpu",
        what: "A stream waits for a sync object; a second later the CPU stores the awaited value.",
        provocation: Provocation::SyncWaitByCpu,
        look_ms: 8000,
        claim: Claim {
            text: "A store by the CPU wakes nobody: the driver looks at sync objects only after an event of the GPU. The \
                   job dies of the timer although what it waited for has come.",
            source: "panthor_sched.c: sync_upd_work, called from csg_slot_sync_update_locked only",
            old: KILLED,
            new: KILLED,
            lessons: &[],
        },
        ..PLAIN
    },
    Scenario {
        name: "sync_wait_evicted",
        what: "A waiting group of low priority has lost its slot to seven waiting groups and one that runs; the running one \
               satisfies the wait after 0.3 s and runs on for three seconds (lost tick, by behaviour of clients).",
        provocation: Provocation::SyncWaitEvicted { turns: turns(3000) },
        look_ms: 8000,
        claim: Claim {
            text: "The group is made runnable, but nothing asks for a tick unless its priority is realtime: it waits, \
                   silent and with its fence pending, until some other event makes the scheduler look.",
            source: "panthor_sched.c: sync_upd_work",
            old: NOTHING,
            new: Expect {
                status: &["signalled"],
                after_ms: Some((3000, 5000)),
                ..NOTHING
            },
            lessons: &[(
                "7.x",
                "the waiter goes on only when the signaller has ended and its CSG_IDLE event asks for a tick (csg_slot_process_idle_event_locked): three seconds for nothing, without a word. Any submission of any client ends the wait earlier. Had the signaller run on for five seconds, the waiter would have been killed for a timeout though its wait was satisfied.",
            )],
        },
        ..PLAIN
    },
    // Dependencies and binds.
    Scenario {
        name: "dep_unsignaled",
        what: "A job waits for a fence that nobody signals (sw_sync).",
        provocation: Provocation::Dependency,
        watch_ms: 60_000,
        claim: Claim {
            text: "A job whose dependency is pending has not reached the driver: no timer, no message, group state 0, \
                   fence pending without bound. A new group works.",
            source: "scheduler/sched_entity.c: drm_sched_entity_pop_job",
            old: Expect {
                status: &["pending"],
                state: Some("0"),
                log: Log::Silent,
                second: Some(true),
                cure: &["R1"],
                after_ms: None,
            },
            new: Expect {
                status: &["pending"],
                state: Some("0"),
                log: Log::Silent,
                second: Some(true),
                cure: &["R1"],
                after_ms: None,
            },
            lessons: &[],
        },
        ..PLAIN
    },
    Scenario {
        name: "dep_chain",
        what: "A job waits for the last of three endless jobs that wait for each other, each on a group of its own.",
        provocation: Provocation::DependencyChain(3),
        watch_ms: 30_000,
        claim: Claim {
            text: "Each link dies five seconds after its predecessor; the dependent job of another group waits for all of \
                   them and then runs, since a failed dependency does not fail the job.",
            source: "scheduler/sched_entity.c: drm_sched_entity_clear_dep; panthor_sched.c: queue_timedout_job",
            old: Expect {
                status: &["signalled"],
                after_ms: Some((14_900, 16_500)),
                log: Log::Says("job timeout"),
                state: Some("0"),
                second: Some(true),
                cure: &["none needed"],
            },
            new: Expect {
                status: &["signalled"],
                after_ms: Some((14_900, 16_500)),
                log: Log::Says("job timeout"),
                state: Some("0"),
                second: Some(true),
                cure: &["none needed"],
            },
            lessons: &[],
        },
        ..PLAIN
    },
    Scenario {
        name: "vm_bind_stuck",
        what: "An asynchronous VM_BIND waits for a fence that nobody signals; a job waits for the bind.",
        provocation: Provocation::BindStuck,
        watch_ms: 60_000,
        claim: Claim {
            text: "No timer and no message; VM_GET_STATE says USABLE all the time. Later asynchronous binds of the VM queue \
                   up behind it; a new VM works.",
            source: "panthor_mmu.c: panthor_vm_bind_ops, panthor_vm_create (timeout MAX_SCHEDULE_TIMEOUT)",
            old: Expect {
                status: &["pending"],
                state: Some("0"),
                log: Log::Silent,
                second: Some(true),
                cure: &["R1", "R2"],
                after_ms: None,
            },
            new: Expect {
                status: &["pending"],
                state: Some("0"),
                log: Log::Silent,
                second: Some(true),
                cure: &["R1", "R2"],
                after_ms: None,
            },
            lessons: &[],
        },
        ..PLAIN
    },
    // Faults that the client causes.
    Scenario {
        name: "mmu_fault",
        what: "A stream loads from an address where nothing is bound.",
        provocation: Provocation::Unmapped,
        claim: Claim {
            text: "The driver prints \"Unhandled Page fault\", an immediate tick terminates the groups of that VM, the \
                   fence fails with EINVAL.",
            source: "panthor_mmu.c: panthor_mmu_irq_handler; panthor_sched.c: tick_ctx_init",
            old: FATAL_FAULT,
            new: FATAL_FAULT,
            lessons: &[(
                "all",
                "a new group in the same VM is enough (R1): panthor_vm_active clears unhandled_fault and enables the address space again.",
            )],
        },
        in_ci: true,
        ..PLAIN
    },
    Scenario {
        name: "cs_fatal",
        what: "A stream with a word that is no instruction.",
        provocation: Provocation::InvalidInstruction,
        claim: Claim {
            text: "The firmware reports CS_FATAL, an immediate tick terminates the group, the fence fails with EINVAL.",
            source: "panthor_sched.c: cs_slot_process_fatal_event_locked",
            old: Expect {
                log: Log::Says("CS_FATAL"),
                ..FATAL_FAULT
            },
            new: Expect {
                log: Log::Says("CS_FATAL"),
                ..FATAL_FAULT
            },
            lessons: &[],
        },
        ..PLAIN
    },
    // Other clients.
    Scenario {
        name: "client_killed_clean",
        what: "A client is killed (SIGKILL) in the middle of an endless job.",
        provocation: Provocation::EndlessLoop,
        kill: true,
        claim: Claim {
            text: "Closing the descriptor marks the groups destroyed; the next tick terminates them. A survivor notices \
                   nothing.",
            source: "panthor_drv.c: panthor_postclose; panthor_sched.c: panthor_group_destroy",
            old: Expect {
                second: Some(true),
                log: Log::Silent,
                ..NOTHING
            },
            new: Expect {
                second: Some(true),
                log: Log::Silent,
                ..NOTHING
            },
            lessons: &[],
        },
        in_ci: true,
        ..PLAIN
    },
    Scenario {
        name: "twelve_groups",
        what: "Twelve groups on eight slots, each with a job of 300 ms.",
        provocation: Provocation::Groups {
            n: 12,
            turns: turns(300),
        },
        claim: Claim {
            text: "The scheduler rotates the groups over the slots by suspending and resuming them; all end well.",
            source: "panthor_sched.c: tick_work, tick_ctx_apply",
            old: Expect {
                after_ms: Some((0, 5000)),
                ..FINE
            },
            new: Expect {
                after_ms: Some((0, 5000)),
                ..FINE
            },
            lessons: &[],
        },
        ..PLAIN
    },
    Scenario {
        name: "slots_exhausted",
        what: "Eight groups loop for ever; a ninth of the same priority submits a healthy job.",
        provocation: Provocation::SlotsExhausted,
        claim: Claim {
            text: "Groups of the same priority take turns, so that the ninth runs within a few ticks of 10 ms.",
            source: "panthor_sched.c: group_schedule_locked, tick_work",
            old: Expect {
                log: Log::Any,
                ..FINE
            },
            new: Expect {
                log: Log::Any,
                ..FINE
            },
            lessons: &[],
        },
        ..PLAIN
    },
    Scenario {
        name: "address_spaces_exhausted",
        what: "Nine VMs with a group each, with a job of 300 ms; the GPU has seven address spaces for clients.",
        provocation: Provocation::Vms {
            n: 9,
            turns: turns(300),
        },
        claim: Claim {
            text: "The scheduler takes at most as many VMs at a time as there are address spaces; the rest wait their turn.",
            source: "panthor_sched.c: tick_ctx_pick_groups_from_list; panthor_mmu.c: panthor_vm_active",
            old: Expect {
                after_ms: Some((0, 5000)),
                ..FINE
            },
            new: Expect {
                after_ms: Some((0, 5000)),
                ..FINE
            },
            lessons: &[],
        },
        ..PLAIN
    },
    Scenario {
        name: "ring_full",
        what: "Forty healthy jobs behind an endless one on the same queue.",
        provocation: Provocation::RingFull,
        claim: Claim {
            text: "Submissions are accepted whether or not the ring has room; what does not fit waits in the scheduler. All \
                   die with the group.",
            source: "scheduler/sched_main.c: drm_sched_can_queue; panthor_sched.c: calc_job_credits",
            old: KILLED,
            new: KILLED,
            lessons: &[],
        },
        ..PLAIN
    },
    Scenario {
        name: "user_wait_unsubmitted",
        what: "A wait for a point of a timeline that nobody submits.",
        provocation: Provocation::Unsubmitted,
        claim: Claim {
            text: "EINVAL without WAIT_FOR_SUBMIT, a wait to its deadline with it; the device has no part in it.",
            source: "drm_syncobj.c: drm_syncobj_array_wait_timeout",
            old: Expect {
                log: Log::Silent,
                second: Some(true),
                cure: &["none needed"],
                ..NOTHING
            },
            new: Expect {
                log: Log::Silent,
                second: Some(true),
                cure: &["none needed"],
                ..NOTHING
            },
            lessons: &[],
        },
        ..PLAIN
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_are_unique_and_say_something() {
        let mut names = HashSet::new();
        for scenario in all() {
            assert!(names.insert(scenario.name), "{}", scenario.name);
            assert!(!scenario.what.is_empty() && !scenario.claim.text.is_empty());
            assert!(scenario.claim.source.contains(".c: "), "{}", scenario.name);
            assert!(find(scenario.name).is_some());
        }
    }

    #[test]
    fn streams_of_every_provocation_count_what_they_say() {
        assert_eq!(turns(1000), 31_250);
    }
}
