//! Faults of the device: what can be asked for, and how it is spelt.
//!
//! `fault=NAME[:KEY=VALUE|:WORD]…`, for instance `fault=irq-lost:irq=job:once`. Every fault meets *occasions* (an
//! interrupt that rises, a request that is taken up, a command that is written); which of them it spoils is said by
//! words that all faults take ([`When`]). [`FAULTS`] is the table of names, [`help`] its text; [`super::fault_text`] reads
//! it.

use std::fmt;

use super::power::Domain;

/// One of the three interrupt lines, numbered as the bridge numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Line {
    /// `job`: the firmware's interrupts.
    Job = 0,
    /// `mmu`: faults and completed commands of address spaces.
    Mmu = 1,
    /// `gpu`: reset, power, cache flushes and faults.
    Gpu = 2,
}

impl Line {
    /// All of them, by number.
    pub const ALL: [Line; 3] = [Line::Job, Line::Mmu, Line::Gpu];

    /// The name as faults and logs spell it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Line::Job => "job",
            Line::Mmu => "mmu",
            Line::Gpu => "gpu",
        }
    }
}

/// An interface of the firmware, with the slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Interface {
    /// The global interface (GLB).
    Global,
    /// A group slot (CSG).
    Group(u8),
    /// A stream slot (CS): its group's slot and its own.
    Stream(u8, u8),
}

/// Which interface's acknowledgements are withheld.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Level {
    /// `glb`.
    Global,
    /// `csg`.
    Group,
    /// `cs`.
    Stream,
}

/// After which kind of reset the firmware's boot is spoilt (`panthor_fw.c`, `panthor_fw_post_reset`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ResetKind {
    /// `fast`: the MCU was halted and the L2 switched off, but the GPU was not reset.
    Fast,
    /// `slow`: the GPU was reset since the last boot, or this is the first.
    Slow,
    /// `any`.
    Any,
}

/// How a boot goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BootFailure {
    /// `silent`: MCU_STATUS stays 0, no interrupt.
    Silent,
    /// `fatal`: MCU_STATUS becomes FATAL, no interrupt.
    Fatal,
    /// `late=TIME`: the boot succeeds, but so much later, in nanoseconds.
    Late(u64),
}

/// A fault that is reported though nothing caused it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Spurious {
    /// `gpu`: GPU_IRQ_FAULT with GPU_FAULTSTATUS.
    Gpu,
    /// `mmu`: a page fault of an address space.
    Mmu,
    /// `cs-fault`: recoverable, on a stream that runs.
    CsFault,
    /// `cs-fatal`: fatal, on a stream that runs. With code 0x41 it is CS_UNRECOVERABLE, and the driver resets.
    CsFatal,
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The line does not rise for a bit of RAWSTAT.
    IrqLost {
        /// The line.
        line: Line,
        /// Only this bit.
        bit: Option<u8>,
    },
    /// The line rises later.
    IrqLate {
        /// The line.
        line: Line,
        /// Only this bit.
        bit: Option<u8>,
        /// Nanoseconds.
        by: u64,
    },
    /// The firmware carries a request out, but does not acknowledge it.
    AckWithheld {
        /// Of which interface.
        on: Level,
        /// Bits of the request word.
        mask: u32,
        /// Only in this group slot.
        group: Option<u8>,
        /// Only in this stream slot.
        stream: Option<u8>,
    },
    /// The firmware neither carries out nor acknowledges CSG TERMINATE.
    TerminateIgnored {
        /// Only in this group slot.
        group: Option<u8>,
    },
    /// The firmware does nothing any more; MCU_STATUS stays as it is.
    FirmwareDead,
    /// GLB_PING is not acknowledged.
    PingUnanswered,
    /// The firmware does not come up.
    BootFails {
        /// After which kind of reset.
        reset: ResetKind,
        /// How it fails.
        how: BootFailure,
    },
    /// PWRON has no effect.
    PowerStuck {
        /// Of what.
        domain: Domain,
    },
    /// AS_ACTIVE stays set after a command.
    AsStuck {
        /// Only this address space.
        space: Option<u8>,
        /// Only this command (AS_COMMAND).
        command: Option<u8>,
        /// For so long, in nanoseconds, after which the command ends; else until the next reset.
        by: Option<u64>,
    },
    /// CLEAN_CACHES_COMPLETED does not come.
    FlushStuck,
    /// RESET_COMPLETED does not come, and the device stays as it is.
    ResetStuck,
    /// A fault out of nothing.
    Spurious {
        /// Which.
        what: Spurious,
        /// Exception code (`panthor_device.h`, `enum drm_panthor_exception_type`).
        code: u8,
        /// Address that is reported.
        address: u64,
        /// Address space of an MMU fault.
        space: u8,
        /// Time of a GPU or MMU fault, in nanoseconds.
        at: u64,
    },
    /// A render pass wants memory when it begins.
    TilerOom {
        /// Chunks, one after another.
        chunks: u16,
    },
    /// A doorbell is not heard.
    DoorbellLost {
        /// Only this page.
        id: Option<u8>,
    },
    /// LATEST_FLUSH_ID and its user page do not move.
    FlushIdFrozen,
    /// An access takes so long.
    SlowRegisters {
        /// Nanoseconds.
        by: u64,
        /// Only at this offset.
        offset: Option<u32>,
    },
}

/// Which occasions a fault spoils.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct When {
    /// `from=TIME`: none before, in nanoseconds of the guest's clock.
    pub from: u64,
    /// `until=TIME`: none from then on.
    pub until: u64,
    /// `after=N`: the first N are spared.
    pub after: u64,
    /// `n=N`, or `once` for 1: at most so many.
    pub count: u64,
    /// `p=0..1`: each with this probability, drawn from `seed`.
    pub probability: f64,
    /// `until-reset`: none after the first soft or hard reset that follows a spoilt one.
    pub until_reset: bool,
}

impl Default for When {
    fn default() -> Self {
        Self {
            from: 0,
            until: u64::MAX,
            after: 0,
            count: u64::MAX,
            probability: 1.0,
            until_reset: false,
        }
    }
}

/// A fault that is asked for. [`FromStr`] reads `NAME[:KEY=VALUE|:WORD]…`.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    /// What goes wrong.
    pub kind: Kind,
    /// When.
    pub when: When,
    /// As it was spelt.
    pub text: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// A line of the table.
#[derive(Clone, Copy, Debug)]
pub struct Spec {
    /// The name.
    pub name: &'static str,
    /// Its parameters, each with what it takes; those that begin with `*` must be given.
    pub params: &'static [(&'static str, &'static str)],
    /// What happens, and what counts as an occasion.
    pub help: &'static str,
}

const TIME: &str = "a time such as 20us, 100ms or 5s";
const LINE: &str = "job, mmu or gpu";
const BIT: &str = "a bit, 0 to 31";
const SLOT: &str = "a slot, 0 to 31";
const RESET: &str = "fast, slow or any";
const CODE: &str = "an exception code, 0 to 255 or 0x…";
const ADDRESS: &str = "an address, 0x…";

/// All faults.
pub const FAULTS: &[Spec] = &[
    Spec {
        name: "irq-lost",
        params: &[("*irq", LINE), ("bit", BIT)],
        help: "an interrupt is lost: the line does not rise, RAWSTAT shows it; per bit that becomes pending",
    },
    Spec {
        name: "irq-late",
        params: &[("*irq", LINE), ("*by", TIME), ("bit", BIT)],
        help: "the line rises later; per bit that becomes pending",
    },
    Spec {
        name: "ack-withheld",
        params: &[
            ("*on", "glb, csg or cs"),
            ("*bit", "a bit of the request word, 0 to 31, or state"),
            ("group", SLOT),
            ("stream", SLOT),
        ],
        help: "a request is carried out, its acknowledgement never written; per request",
    },
    Spec {
        name: "terminate-ignored",
        params: &[("group", SLOT)],
        help: "CSG TERMINATE is neither carried out nor acknowledged; per request",
    },
    Spec {
        name: "firmware-dead",
        params: &[],
        help: "the firmware does nothing more, MCU_STATUS stays ENABLED; per doorbell or event",
    },
    Spec {
        name: "ping-unanswered",
        params: &[],
        help: "GLB_PING is not acknowledged; per request",
    },
    Spec {
        name: "boot-fails",
        params: &[("reset", RESET), ("how", "silent or fatal")],
        help: "the firmware does not come up after a fast or a slow reset (first boot: slow); per boot",
    },
    Spec {
        name: "boot-late",
        params: &[("reset", RESET), ("*by", TIME)],
        help: "the firmware comes up later (the driver waits for 1 s); per boot",
    },
    Spec {
        name: "power-stuck",
        params: &[("*domain", "l2, shader or tiler")],
        help: "power does not come: PWRTRANS stays set; per power-on",
    },
    Spec {
        name: "as-stuck",
        params: &[
            ("as", "an address space, 0 to 31"),
            ("command", "update, lock, unlock, flush-pt or flush-mem"),
            ("by", TIME),
        ],
        help: "AS_ACTIVE stays set so much longer, else until the next reset; per command",
    },
    Spec {
        name: "flush-stuck",
        params: &[],
        help: "a cache flush never completes; per flush",
    },
    Spec {
        name: "reset-stuck",
        params: &[],
        help: "a soft reset does nothing and never completes; per reset",
    },
    Spec {
        name: "spurious-fault",
        params: &[
            ("*kind", "gpu, mmu, cs-fault or cs-fatal"),
            ("at", TIME),
            ("code", CODE),
            ("address", ADDRESS),
            ("as", "an address space, 0 to 31"),
        ],
        help: "a fault that nothing caused: gpu and mmu at a time, cs-* per stream that begins to run",
    },
    Spec {
        name: "tiler-oom",
        params: &[("chunks", "a number of chunks, 1 to 65535")],
        help: "the tiler of a render pass runs out of heap (CS_TILER_OOM) and asks for chunks; per HEAP_OPERATION.vt_start",
    },
    Spec {
        name: "doorbell-lost",
        params: &[("id", "a doorbell page, 0 to 63")],
        help: "a doorbell is not heard; per write (0 is the firmware's, others are streams')",
    },
    Spec {
        name: "flush-id-frozen",
        params: &[],
        help: "LATEST_FLUSH_ID and its user page stand still; per flush",
    },
    Spec {
        name: "slow-registers",
        params: &[("*by", TIME), ("offset", "a register's offset, 0x…")],
        help: "register accesses take longer; per access",
    },
];

/// What every fault takes beside its own parameters.
pub const WHEN: &[(&str, &str)] = &[
    ("from", TIME),
    ("until", TIME),
    ("after", "a number of occasions that are spared"),
    ("n", "a number of occasions, at least 1"),
    ("p", "a probability, above 0 and at most 1"),
];

/// The words without a value that every fault takes.
pub const WORDS: &str = "once, always or until-reset";

/// The table as text, for a command line's help.
#[must_use]
pub fn help() -> String {
    let mut text = String::new();
    for spec in FAULTS {
        text.push_str(&format!("{}: {}\n", spec.name, spec.help));
        for (key, takes) in spec.params {
            let (key, needed) = match key.strip_prefix('*') {
                Some(key) => (key, " (needed)"),
                None => (*key, ""),
            };
            text.push_str(&format!("    {key}={takes}{needed}\n"));
        }
    }
    text.push_str("every fault: ");
    let when: Vec<String> = WHEN.iter().map(|(k, t)| format!("{k}={t}")).collect();
    text.push_str(&format!("{}; {WORDS}\n", when.join("; ")));
    text
}
