//! The scenarios in which the GPU misbehaves: a healthy or an endless job under a fault of the model.
//!
//! Every fault strikes from [`super::inside::FAULT_AT_MS`] on, so that the boot and the second client's first job are
//! healthy.

use super::claims::{Claim, Expect, FATAL_FAULT, FINE, KILLED, Log, NOTHING};
use super::provoke::Provocation;
use super::scenario::{PLAIN, Scenario};

/// A job that passes, but only when the queue's timer looks after five seconds.
const LATE_SUCCESS: Expect = Expect {
    status: &["signalled"],
    after_ms: Some((4900, 7000)),
    state: Some("0"),
    log: Log::Silent,
    second: None,
    cure: &[],
};

/// The faults of the GPU.
pub const BY_THE_GPU: &[Scenario] = &[
    // Interrupts. The first are the candidates for "silent, compute only".
    Scenario {
        name: "irq_lost",
        what: "The job interrupt line is dead from before the job on; the device is kept awake.",
        provocation: Provocation::Healthy(3),
        faults: &["irq-lost:irq=job:from=4500ms"],
        awake: true,
        watch_ms: 60_000,
        claim: Claim {
            text: "7.x: every job is late by the queue's five seconds and successful, with nothing in the log, since the \
                   timer looks at the job's counter before it accuses. 6.12 kills the job.",
            source: "panthor_sched.c: queue_timeout_work, queue_check_job_completion; 6.12: queue_timedout_job",
            old: Expect {
                cure: &[],
                second: None,
                ..KILLED
            },
            new: LATE_SUCCESS,
            lessons: &[
                (
                    "6.12",
                    "the group is killed (TIMEDOUT, \"job timeout\"), but the fence signals well: on its way the tick handles the lost event (sched_process_csg_irq_locked), whose completion of the job comes before group_term_post_processing gives the rest an error. Only the group's state tells.",
                ),
                (
                    "7.x",
                    "the same holds for the second client, and every start of a group costs 100 ms more, since panthor_fw_wait_acks looks once more after its time-out. The device does not suspend in the meantime: CSG_IDLE is lost too, so that pm.has_ref is kept.",
                ),
            ],
        },
        in_ci: true,
        ..PLAIN
    },
    Scenario {
        name: "irq_lost_from_rest",
        what: "As irq_lost, but the device was suspended when the line died.",
        provocation: Provocation::Healthy(2),
        faults: &["irq-lost:irq=job:from=4500ms"],
        watch_ms: 60_000,
        claim: Claim {
            text: "Each resume costs a second more, the time for which the driver waits for the firmware's first interrupt, \
                   and succeeds since the driver then looks at the status register itself.",
            source: "panthor_fw.c: panthor_fw_start",
            old: Expect {
                cure: &[],
                second: None,
                ..KILLED
            },
            new: Expect {
                after_ms: Some((5900, 8500)),
                ..LATE_SUCCESS
            },
            lessons: &[],
        },
        ..PLAIN
    },
    Scenario {
        name: "irq_lost_once",
        what: "One job interrupt is lost while the device is awake.",
        provocation: Provocation::Healthy(3),
        faults: &["irq-lost:irq=job:from=4500ms:once"],
        awake: true,
        claim: Claim {
            text: "The next interrupt makes up for it, since the driver reads requests and acknowledgements, not the \
                   interrupt's bits; without a next one the job is late by five seconds.",
            source: "panthor_sched.c: sched_process_csg_irq_locked, queue_timeout_work",
            old: NOTHING,
            new: Expect {
                status: &["signalled"],
                state: Some("0"),
                log: Log::Silent,
                ..NOTHING
            },
            lessons: &[],
        },
        ..PLAIN
    },
    Scenario {
        name: "irq_lost_half",
        what: "Every second job interrupt is lost, at random.",
        provocation: Provocation::Healthy(8),
        faults: &["irq-lost:irq=job:from=4500ms:p=0.5"],
        awake: true,
        watch_ms: 60_000,
        claim: Claim {
            text: "Some jobs pass at once, some are late by five seconds; nothing is said.",
            source: "panthor_sched.c: queue_timeout_work",
            old: NOTHING,
            new: Expect {
                status: &["signalled"],
                state: Some("0"),
                log: Log::Silent,
                ..NOTHING
            },
            lessons: &[],
        },
        ..PLAIN
    },
    Scenario {
        name: "irq_delayed",
        what: "Every job interrupt is late by 50 ms.",
        provocation: Provocation::Healthy(3),
        faults: &["irq-late:irq=job:by=50ms:from=4500ms"],
        awake: true,
        claim: Claim {
            text: "Jobs are slow, nothing else: acknowledgements are awaited for 100 ms.",
            source: "panthor_fw.c: panthor_fw_wait_acks",
            old: FINE,
            new: FINE,
            lessons: &[],
        },
        ..PLAIN
    },
    Scenario {
        name: "irq_lost_mmu",
        what: "The MMU interrupt line is dead, and a stream loads from an unbound address.",
        provocation: Provocation::Unmapped,
        faults: &["irq-lost:irq=mmu:from=4500ms"],
        claim: Claim {
            text: "The fault is never handled: the job stands still and dies of the timer.",
            source: "panthor_mmu.c: panthor_mmu_irq_handler",
            old: KILLED,
            new: KILLED,
            lessons: &[],
        },
        ..PLAIN
    },
    Scenario {
        name: "irq_lost_gpu",
        what: "The GPU interrupt line is dead (resets, power, cache flushes).",
        provocation: Provocation::Healthy(2),
        faults: &["irq-lost:irq=gpu:from=4500ms"],
        claim: Claim {
            text: "Cache flushes and resets are noticed by looking at RAWSTAT after 100 ms.",
            source: "panthor_gpu.c: panthor_gpu_flush_caches, panthor_gpu_soft_reset",
            old: FINE,
            new: FINE,
            lessons: &[],
        },
        ..PLAIN
    },
    // Resets and what is left of them.
    Scenario {
        name: "sync_wait_after_reset",
        what: "A group waits for ever in a stream while another loops; the firmware ignores the looping group's TERMINATE, so \
               that the GPU is reset (timer lost).",
        provocation: Provocation::SyncWaitBesideLoop,
        faults: &["terminate-ignored:from=4500ms:once"],
        watch_ms: 60_000,
        claim: Claim {
            text: "7.x: the reset stops the waiter's timer, which was left running as the group is blocked, and cannot start \
                   it again as it is still noted as running: fence pending for ever, state 0, no word about the waiter.",
            source: "panthor_sched.c: queue_suspend_timeout_locked, queue_stop, queue_resume_timeout",
            old: Expect {
                status: &["ETIMEDOUT"],
                ..NOTHING
            },
            new: Expect {
                status: &["pending"],
                state: Some("0"),
                second: Some(true),
                cure: &["R1"],
                ..NOTHING
            },
            lessons: &[(
                "7.x",
                "the healthy job submitted behind the waiter is just as stuck, 20 s and more. The only words in the log are about the other group. See findings/timer-lost-after-reset.md.",
            )],
        },
        in_ci: true,
        ..PLAIN
    },
    Scenario {
        name: "client_killed_terminate_timeout",
        what: "A client with an endless job is killed; the firmware ignores the TERMINATE.",
        provocation: Provocation::EndlessLoop,
        faults: &["terminate-ignored:from=4500ms:once"],
        kill: true,
        claim: Claim {
            text: "After 100 ms without acknowledgement the driver resets the GPU; a survivor goes on afterwards, or is \
                   INNOCENT (7.x) if it could not be suspended.",
            source: "panthor_sched.c: csgs_upd_ctx_apply_locked; panthor_device.c: panthor_device_reset_work",
            old: Expect {
                log: Log::Says("update request timedout"),
                second: Some(true),
                ..NOTHING
            },
            new: Expect {
                log: Log::Says("update request timedout"),
                second: Some(true),
                ..NOTHING
            },
            lessons: &[],
        },
        ..PLAIN
    },
    Scenario {
        name: "terminate_ignored",
        what: "An endless job; the firmware ignores every TERMINATE until the GPU is reset.",
        provocation: Provocation::EndlessLoop,
        faults: &["terminate-ignored:from=4500ms:until-reset"],
        claim: Claim {
            text: "The kill costs 100 ms and a reset more; then as usual.",
            source: "panthor_sched.c: tick_ctx_apply, panthor_sched_suspend",
            old: Expect {
                after_ms: Some((5000, 6500)),
                log: Log::Says("update request timedout"),
                ..KILLED
            },
            new: Expect {
                after_ms: Some((5000, 6500)),
                log: Log::Says("update request timedout"),
                ..KILLED
            },
            lessons: &[(
                "all",
                "an immediate R1 fails with ENOSPC while the reset is under way; two seconds later it works (group_create_during_reset).",
            )],
        },
        ..PLAIN
    },
    Scenario {
        name: "reset_boot_fails",
        what: "An endless job, TERMINATE ignored, and the firmware does not boot after the reset that follows.",
        provocation: Provocation::EndlessLoop,
        faults: &[
            "terminate-ignored:from=4500ms",
            "boot-fails:reset=slow:from=4500ms",
        ],
        claim: Claim {
            text: "\"Failed to boot MCU after reset, making device unusable\": ENODEV from every call until the driver is \
                   bound again.",
            source: "panthor_device.c: panthor_device_reset_work, panthor_device_unplug",
            old: Expect {
                log: Log::Says("making device unusable"),
                second: Some(true),
                cure: &["R4", "R5"],
                ..NOTHING
            },
            new: Expect {
                log: Log::Says("making device unusable"),
                second: Some(true),
                cure: &["R4", "R5"],
                ..NOTHING
            },
            lessons: &[],
        },
        ..PLAIN
    },
    Scenario {
        name: "reset_latched_slow_boot",
        what: "An endless job, TERMINATE ignored once, and the firmware takes 900 ms to boot after the reset (the nearest to a \
               latched reset that the GPU can bring about).",
        provocation: Provocation::EndlessLoop,
        faults: &[
            "terminate-ignored:from=4500ms:once",
            "boot-late:reset=slow:by=900ms:from=4500ms",
        ],
        claim: Claim {
            text: "While a reset is pending no tick runs; every wait on the reset's way is bounded (stop 100 ms, reset \
                   100 ms, power 20 ms, boot 1 s), so that it ends.",
            source: "panthor_device.c: panthor_device_reset_work; panthor_sched.c: sched_queue_delayed_work",
            old: Expect {
                after_ms: Some((5000, 7500)),
                ..KILLED
            },
            new: Expect {
                after_ms: Some((5000, 7500)),
                ..KILLED
            },
            lessons: &[(
                "all",
                "the cure has to wait: GROUP_CREATE is ENOSPC until the firmware has booted (group_create_during_reset).",
            )],
        },
        ..PLAIN
    },
    Scenario {
        name: "group_create_during_reset",
        what: "As reset_latched_slow_boot with 500 ms, and the client makes and destroys a group every 10 ms meanwhile.",
        provocation: Provocation::CreateDuringKill,
        faults: &[
            "terminate-ignored:from=4500ms:once",
            "boot-late:reset=slow:by=500ms:from=4500ms",
        ],
        claim: Claim {
            text: "GROUP_CREATE takes the size of the suspend buffers from the firmware's interface, which a slow reset fills \
                   with zeros until the firmware has booted: ENOSPC meanwhile.",
            source: "panthor_sched.c: panthor_group_create; panthor_fw.c: panthor_reload_fw_sections",
            old: NOTHING,
            new: NOTHING,
            lessons: &[(
                "all",
                "the size in the zeroed interface is 0, for which drm_mm_insert_node_in_range has ENOSPC. See findings/group-create-during-reset.md.",
            )],
        },
        ..PLAIN
    },
    Scenario {
        name: "reset_stuck",
        what: "An endless job, TERMINATE ignored once, and the soft reset that follows never completes.",
        provocation: Provocation::EndlessLoop,
        faults: &[
            "terminate-ignored:from=4500ms:once",
            "reset-stuck:from=4500ms:once",
        ],
        claim: Claim {
            text: "\"Soft reset timeout\" after 100 ms; the driver goes on as if it had been reset.",
            source: "panthor_gpu.c: panthor_gpu_soft_reset; panthor_device.c: panthor_device_reset_work",
            old: Expect {
                log: Log::Says("Soft reset timeout"),
                ..NOTHING
            },
            new: Expect {
                log: Log::Says("Soft reset timeout"),
                ..NOTHING
            },
            lessons: &[(
                "7.x",
                "the driver never recovers: pending_reqs still notes the reset, so that later ones are not even issued (panthor_gpu_soft_reset), each with a warning.",
            )],
        },
        ..PLAIN
    },
    // The firmware.
    Scenario {
        name: "ack_start_withheld",
        what: "The firmware starts groups, but does not acknowledge it, until the GPU is reset.",
        provocation: Provocation::Healthy(1),
        faults: &["ack-withheld:on=csg:bit=state:from=4500ms:until-reset"],
        claim: Claim {
            text: "100 ms, \"CSG %d update request timedout\", reset; the group starts again afterwards.",
            source: "panthor_sched.c: tick_ctx_apply, tick_ctx_cleanup",
            old: Expect {
                log: Log::Says("update request timedout"),
                ..NOTHING
            },
            new: Expect {
                log: Log::Says("update request timedout"),
                ..NOTHING
            },
            lessons: &[],
        },
        ..PLAIN
    },
    Scenario {
        name: "ack_endpoint_withheld",
        what: "The firmware does not acknowledge ENDPOINT_CONFIG, until the GPU is reset.",
        provocation: Provocation::Healthy(1),
        faults: &["ack-withheld:on=csg:bit=4:from=4500ms:until-reset"],
        claim: Claim {
            text: "As for the start: the update times out and the GPU is reset.",
            source: "panthor_sched.c: csgs_upd_ctx_apply_locked",
            old: Expect {
                log: Log::Says("update request timedout"),
                ..NOTHING
            },
            new: Expect {
                log: Log::Says("update request timedout"),
                ..NOTHING
            },
            lessons: &[],
        },
        ..PLAIN
    },
    Scenario {
        name: "ack_status_withheld",
        what: "An endless job; the firmware does not acknowledge STATUS_UPDATE, until the GPU is reset.",
        provocation: Provocation::EndlessLoop,
        faults: &["ack-withheld:on=csg:bit=5:from=4500ms:until-reset"],
        claim: Claim {
            text: "The first tick after the start times out and resets the GPU: the running group is suspended and resumed, \
                   and dies of its timer later.",
            source: "panthor_sched.c: tick_ctx_init",
            old: Expect {
                log: Log::Says("update request timedout"),
                ..NOTHING
            },
            new: Expect {
                log: Log::Says("update request timedout"),
                ..NOTHING
            },
            lessons: &[],
        },
        ..PLAIN
    },
    Scenario {
        name: "mcu_dead",
        what: "The firmware does nothing more, from before the job on, until the GPU is reset; the device is kept awake.",
        provocation: Provocation::Healthy(1),
        faults: &["firmware-dead:from=4500ms:until-reset"],
        awake: true,
        claim: Claim {
            text: "The first request to the firmware times out after 100 ms and the GPU is reset; jobs then pass.",
            source: "panthor_sched.c: csgs_upd_ctx_apply_locked; panthor_fw.c: panthor_fw_ping_work",
            old: Expect {
                log: Log::Says("timedout"),
                ..NOTHING
            },
            new: Expect {
                log: Log::Says("timedout"),
                ..NOTHING
            },
            lessons: &[(
                "7.x",
                "the second client had an idle group on a slot: it could not be suspended and is INNOCENT. The job that met the dead firmware passed.",
            )],
        },
        ..PLAIN
    },
    Scenario {
        name: "ping_unanswered",
        what: "The firmware does not answer one ping, while an idle device is kept awake.",
        provocation: Provocation::Apart(15_000),
        faults: &["ping-unanswered:from=4500ms:once"],
        awake: true,
        watch_ms: 20_000,
        claim: Claim {
            text: "\"FW ping timeout, scheduling a reset\" within 12 s; jobs are not disturbed.",
            source: "panthor_fw.c: panthor_fw_ping_work",
            old: Expect {
                log: Log::Says("ping timeout"),
                ..FINE
            },
            new: Expect {
                log: Log::Says("ping timeout"),
                ..FINE
            },
            lessons: &[],
        },
        ..PLAIN
    },
    Scenario {
        name: "boot_fails_once_at_resume",
        what: "The firmware does not come up when the device resumes for the job, once.",
        provocation: Provocation::Healthy(2),
        faults: &["boot-fails:from=4500ms:once"],
        claim: Claim {
            text: "After a second \"Failed to boot MCU\", then \"Fast reset failed, trying a slow reset\", which succeeds.",
            source: "panthor_device.c: panthor_device_resume; panthor_fw.c: panthor_fw_start",
            old: NOTHING,
            new: Expect {
                status: &["signalled"],
                log: Log::Says("trying a slow reset"),
                ..NOTHING
            },
            lessons: &[(
                "7.x",
                "the slow attempt does not start the firmware anew: between the attempts the driver neither disables the MCU nor resets the GPU (panthor_gpu_suspend still sees reset.fast and only switches the L2 off), so that writing MCU_CONTROL a second time changes nothing in this model. The job fails with the resume's error and a warning; the next submission works, since the failure has been followed by a soft reset.",
            )],
        },
        ..PLAIN
    },
    Scenario {
        name: "resume_fail",
        what: "The firmware does not come up any more when the device resumes for the job.",
        provocation: Provocation::Healthy(1),
        faults: &["boot-fails:from=4500ms"],
        watch_ms: 30_000,
        claim: Claim {
            text: "queue_run_job's resume fails: the job's fence carries the error; 6.12 keeps the runtime-PM error, 7.x \
                   tries again at each resume.",
            source: "panthor_sched.c: queue_run_job; panthor_device.h: panthor_device_resume_and_get",
            old: NOTHING,
            new: Expect {
                log: Log::Says("Failed to boot MCU"),
                cure: &["R5"],
                ..NOTHING
            },
            lessons: &[(
                "7.x",
                "every failed resume warns in queue_run_job; the job's fence has ETIMEDOUT, the group's state stays 0. GROUP_CREATE is ENOSPC from then on (group_create_during_reset), and after an unbind, which warns, the driver cannot be bound again while the firmware does not boot.",
            )],
        },
        ..PLAIN
    },
    // Power, caches, address spaces.
    Scenario {
        name: "shader_unpowered",
        what: "The shader cores do not come up.",
        provocation: Provocation::Compute,
        faults: &["power-stuck:domain=shader:from=4500ms"],
        claim: Claim {
            text: "Streams run, compute does not: a job that asks for cores stands still and dies of the timer; the driver never \
                   looks at the cores' power.",
            source: "panthor_gpu.c: panthor_gpu_l2_power_on (the cores are the firmware's business)",
            old: KILLED,
            new: KILLED,
            lessons: &[],
        },
        ..PLAIN
    },
    Scenario {
        name: "l2_unpowered",
        what: "The L2 does not come up when the device resumes.",
        provocation: Provocation::Healthy(1),
        faults: &["power-stuck:domain=l2:from=4500ms"],
        watch_ms: 30_000,
        claim: Claim {
            text: "\"timeout waiting on L2:1 readiness\"; the error is dropped, and the firmware's boot decides.",
            source: "panthor_gpu.c: panthor_gpu_resume, panthor_gpu_block_power_on",
            old: NOTHING,
            new: Expect {
                log: Log::Says("readiness"),
                ..NOTHING
            },
            lessons: &[(
                "7.x",
                "PWRTRANS is what stays set, and the driver says \"timeout waiting on L2:1 power transition\"; jobs fail at once with the resume's error, each with a warning. Nothing short of power cures it.",
            )],
        },
        ..PLAIN
    },
    Scenario {
        name: "as_stuck",
        what: "A command to an address space never ends, once, as the victim's group is bound.",
        provocation: Provocation::Healthy(1),
        faults: &["as-stuck:command=update:from=4500ms:once"],
        awake: true,
        claim: Claim {
            text: "\"AS_ACTIVE bit stuck\" after 100 ms of busy waiting, and a reset; 7.x takes the failed bind for a failed \
                   update, so that the group is scheduled again.",
            source: "panthor_mmu.c: wait_ready, panthor_vm_active; panthor_sched.c: tick_ctx_apply",
            old: Expect {
                log: Log::Says("AS_ACTIVE bit stuck"),
                ..NOTHING
            },
            new: Expect {
                log: Log::Says("AS_ACTIVE bit stuck"),
                ..NOTHING
            },
            lessons: &[],
        },
        ..PLAIN
    },
    Scenario {
        name: "reset_pending_latch",
        what: "The command that gives the firmware its address space at a resume takes 150 ms, once: the driver gives up after \
               100 ms, and the reset is asked for while the device is not active (reset latched). The second client's job, 30 s \
               later, is the first that anybody submits after the victim's.",
        provocation: Provocation::Healthy(1),
        faults: &["as-stuck:as=0:by=150ms:from=4500ms:once"],
        watch_ms: 60_000,
        look_ms: 30_000,
        claim: Claim {
            text: "7.x: panthor_device_schedule_reset sets the flag but queues no work, since the device is resuming; the second, \
                   slow attempt of the same resume succeeds and does not clear the flag. Ticks are dropped: the job's group never \
                   gets a slot and has no timer. Fence pending, state 0, 0 % busy, until some other submission resumes the device \
                   again, which clears the flag. 6.12 queues the reset at the end of the resume.",
            source: "panthor_device.h: panthor_device_schedule_reset; panthor_device.c: panthor_device_resume",
            old: NOTHING,
            new: Expect {
                status: &["signalled"],
                after_ms: Some((29_000, 33_000)),
                state: Some("0"),
                log: Log::Says("AS_ACTIVE bit stuck"),
                second: Some(true),
                cure: &["none needed"],
            },
            lessons: &[(
                "7.x",
                "the waiting ends with the second client's submission, whose resume clears the flag (poke). Until then the device is even suspended: an onlooker sees an idle GPU, state 0, 0 bytes of active memory. See findings/reset-latched-at-resume.md.",
            )],
        },
        in_ci: true,
        ..PLAIN
    },
    Scenario {
        name: "as_stuck_at_resume",
        what: "As reset_pending_latch, but the command ends only with a reset.",
        provocation: Provocation::Healthy(2),
        faults: &["as-stuck:as=0:from=4500ms:once"],
        claim: Claim {
            text: "The reset is noted as pending, but its work is not queued, since the device is resuming; the failed resume \
                   is tried again, which clears the note.",
            source: "panthor_device.h: panthor_device_schedule_reset; panthor_device.c: panthor_device_resume",
            old: NOTHING,
            new: Expect {
                log: Log::Says("AS_ACTIVE bit stuck"),
                ..NOTHING
            },
            lessons: &[],
        },
        ..PLAIN
    },
    Scenario {
        name: "flush_stuck",
        what: "A cache flush never completes, once.",
        provocation: Provocation::Healthy(2),
        faults: &["flush-stuck:from=4500ms:once"],
        claim: Claim {
            text: "\"Flush caches timeout\" after 100 ms and a reset.",
            source: "panthor_gpu.c: panthor_gpu_flush_caches",
            old: NOTHING,
            new: Expect {
                log: Log::Says("Flush caches timeout"),
                ..NOTHING
            },
            lessons: &[(
                "7.x",
                "the flush that got stuck was the suspend's: panthor_sched_suspend sets the state of every group on a slot to TERMINATED without timedout or fatal_queues, so that GROUP_GET_STATE shows 0 for groups that refuse every submission with EINVAL; the second client lost its idle group that way, and every flush fails until the next reset (pending_reqs), which costs other jobs their five seconds. See findings/flush-timeout-at-suspend.md.",
            )],
        },
        ..PLAIN
    },
    // Faults out of nothing.
    Scenario {
        name: "cs_fault",
        what: "A stream reports a recoverable fault (CS_INHERIT_FAULT), once.",
        provocation: Provocation::Healthy(1),
        faults: &["spurious-fault:kind=cs-fault:from=4500ms:once"],
        claim: Claim {
            text: "The log has CS_FAULT, the job's fence fails with EINVAL, the group lives on.",
            source: "panthor_sched.c: cs_slot_process_fault_event_locked",
            old: Expect {
                status: &["EINVAL"],
                after_ms: Some((0, 500)),
                state: Some("0"),
                log: Log::Says("CS_FAULT"),
                second: Some(true),
                cure: &["none needed"],
            },
            new: Expect {
                status: &["EINVAL"],
                after_ms: Some((0, 500)),
                state: Some("0"),
                log: Log::Says("CS_FAULT"),
                second: Some(true),
                cure: &["none needed"],
            },
            lessons: &[(
                "7.x",
                "a submission without a stream afterwards fails with EINVAL too: it takes over the fence of the last job (queue_run_job, last_fence).",
            )],
        },
        ..PLAIN
    },
    Scenario {
        name: "cs_unrecoverable",
        what: "A stream reports CS_UNRECOVERABLE, once.",
        provocation: Provocation::Healthy(1),
        faults: &["spurious-fault:kind=cs-fatal:code=0x41:from=4500ms:once"],
        claim: Claim {
            text: "The group dies and the GPU is reset.",
            source: "panthor_sched.c: cs_slot_process_fatal_event_locked",
            old: Expect {
                after_ms: Some((0, 1500)),
                log: Log::Says("CS_UNRECOVERABLE"),
                ..FATAL_FAULT
            },
            new: Expect {
                after_ms: Some((0, 1500)),
                log: Log::Says("CS_UNRECOVERABLE"),
                ..FATAL_FAULT
            },
            lessons: &[],
        },
        ..PLAIN
    },
    Scenario {
        name: "gpu_fault",
        what: "The GPU reports a bus fault that concerns nobody.",
        provocation: Provocation::Healthy(2),
        faults: &["spurious-fault:kind=gpu:at=5500ms:once"],
        awake: true,
        claim: Claim {
            text: "A line in the log and nothing else.",
            source: "panthor_gpu.c: panthor_gpu_irq_handler",
            old: Expect {
                log: Log::Says("GPU Fault"),
                ..FINE
            },
            new: Expect {
                log: Log::Says("GPU Fault"),
                ..FINE
            },
            lessons: &[],
        },
        ..PLAIN
    },
    Scenario {
        name: "doorbell_lost",
        what: "A queue's doorbell is not heard, once, while its group is on a slot.",
        provocation: Provocation::Healthy(3),
        faults: &["doorbell-lost:id=1:from=4500ms:once"],
        claim: Claim {
            text: "The job stands in the ring unseen until something else makes the firmware look, else the timer kills it.",
            source: "panthor_sched.c: queue_run_job, panthor_fw_ring_doorbell",
            old: NOTHING,
            new: NOTHING,
            lessons: &[],
        },
        ..PLAIN
    },
    Scenario {
        name: "firmware_doorbell_lost",
        what: "The firmware's own doorbell is not heard, once.",
        provocation: Provocation::Healthy(2),
        faults: &["doorbell-lost:id=0:from=4500ms:once"],
        awake: true,
        claim: Claim {
            text: "The group's start is not acknowledged: reset, then as usual.",
            source: "panthor_fw.c: panthor_fw_ring_csg_doorbells",
            old: NOTHING,
            new: Expect {
                status: &["signalled"],
                log: Log::Says("update request timedout"),
                ..NOTHING
            },
            lessons: &[],
        },
        ..PLAIN
    },
    Scenario {
        name: "flush_id_frozen",
        what: "LATEST_FLUSH_ID stands still.",
        provocation: Provocation::Healthy(3),
        faults: &["flush-id-frozen:from=4500ms"],
        claim: Claim {
            text: "No hang: at worst flushes are left out that were needed.",
            source: "panthor_sched.c: prepare_job_instrs",
            old: FINE,
            new: FINE,
            lessons: &[],
        },
        ..PLAIN
    },
    Scenario {
        name: "slow_registers",
        what: "Every register access takes a millisecond.",
        provocation: Provocation::Healthy(2),
        faults: &["slow-registers:by=1ms:from=4500ms"],
        claim: Claim {
            text: "Slow, else nothing.",
            source: "panthor_gpu.c: gpu_read, gpu_write of panthor_device.h",
            old: FINE,
            new: FINE,
            lessons: &[],
        },
        ..PLAIN
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::inside::FAULT_AT_MS;

    #[test]
    fn faults_strike_when_the_boot_is_over() {
        let from = format!(":from={FAULT_AT_MS}ms");
        for scenario in BY_THE_GPU {
            assert!(!scenario.faults.is_empty(), "{}", scenario.name);
            for fault in scenario.faults {
                assert!(fault.contains(&from) || fault.contains(":at="), "{fault}");
                assert!(!fault.contains(','), "{fault}");
            }
        }
    }
}
