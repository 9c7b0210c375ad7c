//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// Exit codes, printed below the help text and in the man page.
const EXIT_CODES: &str = "\
Exit codes:
  0  right
  1  a result is wrong
  2  usage
  3  no device, no permission to use it, or it refused (memory, driver)
  4  a hang was met and repaired
  5  a hang was met and not repaired, or the rig's kernel died
  6  a model or input file is bad
  130  interrupted; the device was left clean";

/// Runs, checks and watches quantised matrix products on a Mali-G610 through the panthor driver, without Mesa.
#[derive(Debug, Parser)]
#[command(name = "panthorctl", version, after_help = EXIT_CODES, propagate_version = true)]
pub struct Cli {
    /// Device: `auto` (the first panthor render node, else the simulator), the path of a render node, or
    /// `sim` or `sim:KEY=VALUE,…` (`kernel`, `cores`, `gpu_mhz`, `job_timeout_ms`, `seed`, …), or
    /// `rig` or `rig:KEY=VALUE,…` for the kernel's own driver over the simulated GPU (`kernel`, `name`, `smp`, `fault`,
    /// `seed`, `memory`, `user`, `log`, `trace`, …).
    #[arg(long, global = true, default_value = "auto", value_name = "DEVICE")]
    pub device: String,
    /// Print JSON instead of tables.
    #[arg(long, global = true)]
    pub json: bool,
    /// Log more: once for information, twice for every job, three times for every ioctl.
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What `panthorctl` can do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show the device, its driver and what is missing.
    Info,
    /// Multiply matrices of a model, or synthetic ones, and check every result against the reference.
    Gemm(GemmArgs),
    /// Run jobs that were recorded with their memory and answers, and compare; or record one of our own.
    Replay(ReplayArgs),
    /// Turn instruction bytes into text, or show one of the project's own kernels.
    Disasm(DisasmArgs),
    /// Turn instruction text into bytes.
    Asm(AsmArgs),
    /// The rig, the real driver in User Mode Linux over the simulated GPU: build its kernels, run programs in it.
    Rig(RigArgs),
    /// Print a completion script for a shell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Print the man page (troff): `panthorctl man | man -l -`.
    Man,
}

/// What to multiply.
#[derive(Debug, Args)]
pub struct GemmArgs {
    /// Model file (GGUF).
    #[arg(long, value_name = "FILE", conflicts_with = "quant")]
    pub model: Option<PathBuf>,
    /// One tensor of the model, by name.
    #[arg(long, value_name = "NAME", requires = "model", conflicts_with_all = ["all", "quant"])]
    pub tensor: Option<String>,
    /// Every matrix of the model.
    #[arg(long, requires = "model", conflicts_with = "quant")]
    pub all: bool,
    /// Synthetic weights in this format instead of a model's.
    #[arg(long, value_name = "FORMAT", required_unless_present = "model", requires_all = ["n", "k"])]
    pub quant: Option<String>,
    /// Rows of X: tokens.
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..))]
    pub m: u32,
    /// Rows of W, with `--quant`.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..), conflicts_with = "model")]
    pub n: Option<u32>,
    /// Columns of W, with `--quant`; a multiple of the format's block.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..), conflicts_with = "model")]
    pub k: Option<u32>,
    /// Seed of the random activations, and of synthetic weights.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// Which recorded jobs to run.
#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// The cases file; the images and tensors that it names lie beside it, plain or with `.xz` appended.
    #[arg(value_name = "CASES.json")]
    pub cases: PathBuf,
    /// Run only case N (from 0).
    #[arg(long, value_name = "N")]
    pub case: Option<usize>,
    /// Record instead: multiply synthetic weights and write the job with its memory and answer as CASES.json.
    #[arg(long, conflicts_with = "case")]
    pub capture: bool,
    /// With `--capture`: the weight format.
    #[arg(
        long,
        requires = "capture",
        default_value = "q4_0",
        value_name = "FORMAT"
    )]
    pub quant: String,
    /// With `--capture`: rows of X.
    #[arg(long, requires = "capture", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..))]
    pub m: u32,
    /// With `--capture`: rows of W.
    #[arg(long, requires = "capture", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    pub n: u32,
    /// With `--capture`: columns of W.
    #[arg(long, requires = "capture", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..))]
    pub k: u32,
    /// With `--capture`: seed of weights and activations.
    #[arg(long, requires = "capture", default_value_t = 1)]
    pub seed: u64,
}

/// What to run inside.
#[derive(Debug, Args)]
pub struct RigRunArgs {
    /// Where the kernel's log goes.
    #[arg(long, value_name = "FILE")]
    pub kernel_log: Option<PathBuf>,
    /// Say on standard error, after it, how long it took inside and outside.
    #[arg(long)]
    pub times: bool,
    /// The program and its arguments.
    #[arg(
        value_name = "COMMAND",
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    pub command: Vec<std::ffi::OsString>,
}

/// Which shell to run inside.
#[derive(Debug, Args)]
pub struct RigShellArgs {
    /// Where the kernel's log goes.
    #[arg(long, value_name = "FILE")]
    pub kernel_log: Option<PathBuf>,
}

/// Which instruction set a word belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Isa {
    /// Valhall v10 shader instructions.
    Valhall,
    /// CSF v10 command-stream instructions.
    Csf,
}

/// What to disassemble.
#[derive(Debug, Args)]
pub struct DisasmArgs {
    /// The instruction set.
    #[arg(long, required_unless_present_any = ["kernel", "list_kernels"])]
    pub isa: Option<Isa>,
    /// Bytes in hexadecimal, eight an instruction in memory order; blanks are ignored.
    #[arg(long, value_name = "BYTES", conflicts_with_all = ["file", "kernel"])]
    pub hex: Option<String>,
    /// One of the project's own kernels, by name.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["file", "isa"])]
    pub kernel: Option<String>,
    /// List the names of the project's own kernels.
    #[arg(long, conflicts_with_all = ["file", "kernel", "hex", "isa"])]
    pub list_kernels: bool,
    /// A binary file; `-` is standard input.
    #[arg(value_name = "FILE", required_unless_present_any = ["hex", "kernel", "list_kernels"])]
    pub file: Option<PathBuf>,
}

/// What to assemble.
#[derive(Debug, Args)]
pub struct AsmArgs {
    /// The instruction set.
    #[arg(long)]
    pub isa: Isa,
    /// Print bytes in hexadecimal, one instruction per line, instead of binary.
    #[arg(long)]
    pub hex: bool,
    /// A text file, one instruction per line; `-` is standard input.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
}

/// What to do with the rig.
#[derive(Debug, Args)]
pub struct RigArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: RigCommand,
}

/// What `panthorctl rig` can do.
#[derive(Debug, Subcommand)]
pub enum RigCommand {
    /// Build a kernel with the real driver, from Debian's source or from a tree of yours, which is not changed.
    Build(RigBuildArgs),
    /// List the kernels that were built.
    List,
    /// Remove kernels that were built.
    Clean(RigCleanArgs),
    /// Run a program of this machine inside, where /dev/dri/renderD128 is the rig's GPU. Its streams, signals and exit code
    /// are passed on; 126 and 127 say that it could not be run or found.
    Run(RigRunArgs),
    /// A shell inside, on the wall clock unless `--device rig:clock=virtual` says otherwise.
    Shell(RigShellArgs),
}

/// Which kernel to build.
#[derive(Debug, Args)]
pub struct RigBuildArgs {
    /// Debian's version; may be given more than once.
    #[arg(long, value_parser = panthor_rig::debian::VERSIONS, default_value = panthor_rig::cache::DEFAULT_NAME)]
    pub kernel: Vec<String>,
    /// A kernel source tree of your own instead (6.12 to 7.x); it is copied, not changed.
    #[arg(long, value_name = "DIR", requires = "name", conflicts_with = "kernel")]
    pub source: Option<PathBuf>,
    /// What to call the kernel of that tree, as in `--device rig:name=NAME`.
    #[arg(long, value_name = "NAME", requires = "source")]
    pub name: Option<String>,
    /// The configuration: `debug` checks locks, memory and objects; `gcov` counts the driver's lines that run.
    #[arg(long, value_enum, default_value_t = RigVariant::Plain)]
    pub variant: RigVariant,
    /// Only the deterministic binary, not the one with several CPUs.
    #[arg(long)]
    pub no_smp: bool,
    /// Build even what is there.
    #[arg(long)]
    pub force: bool,
    /// Ask Debian for a newer package of a version that is there.
    #[arg(long, conflicts_with = "source")]
    pub update: bool,
    /// Compilers at a time [default: one a CPU].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub jobs: Option<u32>,
}

/// Configurations of rig kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RigVariant {
    /// What everything runs on unless told otherwise.
    Plain,
    /// Lock, memory and object checks on.
    Debug,
    /// Counts the lines of panthor that run.
    Gcov,
}

impl From<RigVariant> for panthor_rig::cache::Variant {
    fn from(variant: RigVariant) -> Self {
        match variant {
            RigVariant::Plain => Self::Plain,
            RigVariant::Debug => Self::Debug,
            RigVariant::Gcov => Self::Gcov,
        }
    }
}

/// Which kernels to remove.
#[derive(Debug, Args)]
pub struct RigCleanArgs {
    /// One kernel: `7.2` with all its variants, or `7.2-debug` alone.
    #[arg(value_name = "NAME", required_unless_present = "all")]
    pub name: Option<String>,
    /// All of them, and what broken builds left.
    #[arg(long, conflicts_with = "name")]
    pub all: bool,
}
