//! Random sequences of ioctls: run them on a device, compare what two devices gave, and make what differs small.
//!
//! ```text
//! ioctl-sequences run --device sim:kernel=7.2 --seed 1 --count 10000 --out sim.jsonl
//! panthorctl rig run --device rig:kernel=7.2 -- ioctl-sequences run --device /dev/dri/renderD128 … --out rig.jsonl
//! ioctl-sequences compare sim.jsonl rig.jsonl
//! ```
//!
//! Exit codes: 0, 1 where `compare` has found differences, 2 for wrong arguments or files.

use std::error::Error;
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Parser, Subcommand, ValueEnum};
use panthor_sim::{Kernel, Sim};
use panthor_tests::sequence::Sequence;
use panthor_tests::sequence::compare::{Difference, difference, minimise};
use panthor_tests::sequence::coverage::Coverage;
use panthor_tests::sequence::generate::{Mode, Options, generate};
use panthor_tests::sequence::run::{KernelLog, Log, Record, Runner, Silent};
use panthor_uapi::{KernelTransport, Transport};

/// Random sequences of ioctls on the panthor driver.
#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run sequences and record what came back.
    Run(Run),
    /// Compare two files of records.
    Compare {
        /// Records of one device.
        left: PathBuf,
        /// Records of the other.
        right: PathBuf,
        /// Differences to print at most.
        #[arg(long, default_value_t = 20)]
        most: usize,
    },
    /// Make a sequence smaller that a file of records shows to differ from the simulator.
    Minimise {
        /// The sequence's seed.
        #[arg(long)]
        seed: u64,
        #[command(flatten)]
        shape: Shape,
        /// The device that is right.
        #[arg(long)]
        device: String,
        /// The simulator's options, with a comma before them.
        #[arg(long, default_value = "")]
        sim: String,
        /// Where the smallest sequence goes (JSON).
        #[arg(long)]
        out: PathBuf,
    },
    /// Print the sequence of a seed as JSON.
    Show {
        /// The seed.
        #[arg(long)]
        seed: u64,
        #[command(flatten)]
        shape: Shape,
    },
    /// Print how often each call gave each result.
    Coverage {
        /// Records.
        records: PathBuf,
    },
}

#[derive(Debug, clap::Args)]
struct Shape {
    /// Whose interface the sequences use.
    #[arg(long, default_value = "7.2", value_parser = kernel)]
    kernel: Kernel,
    /// Whether results may depend on when jobs end.
    #[arg(long, value_enum, default_value = "decided")]
    mode: ModeArgument,
    /// Jobs are mere synchronisation points: nothing for the GPU.
    #[arg(long)]
    without_streams: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ModeArgument {
    Decided,
    Racy,
}

#[derive(Debug, clap::Args)]
struct Run {
    /// A render node, or `sim:…`.
    #[arg(long)]
    device: String,
    /// The first seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many.
    #[arg(long, default_value_t = 1)]
    count: u64,
    #[command(flatten)]
    shape: Shape,
    /// A sequence in a JSON file instead of generated ones.
    #[arg(long)]
    sequence: Option<PathBuf>,
    /// Where the records go, a JSON object per line.
    #[arg(long)]
    out: PathBuf,
    /// Only digests.
    #[arg(long)]
    digest: bool,
    /// Print every call before it is issued.
    #[arg(long)]
    trace: bool,
}

fn kernel(text: &str) -> Result<Kernel, String> {
    [Kernel::V6_12, Kernel::V7_2, Kernel::V7_3]
        .into_iter()
        .find(|kernel| kernel.name() == text)
        .ok_or_else(|| "expected 6.12, 7.2 or 7.3".into())
}

impl Shape {
    fn options(&self) -> Options {
        Options {
            kernel: self.kernel,
            mode: match self.mode {
                ModeArgument::Decided => Mode::Decided,
                ModeArgument::Racy => Mode::Racy,
            },
            streams: !self.without_streams,
        }
    }
}

/// The simulator's messages.
struct SimLog(Arc<panthor_sim::Device>);

impl Log for SimLog {
    fn take(&mut self) -> Option<Vec<String>> {
        Some(self.0.take_messages())
    }
}

type Opened = (Arc<dyn Transport>, PathBuf, Box<dyn Log>);

fn open(device: &str) -> Result<Opened, Box<dyn Error>> {
    if device.starts_with("sim") {
        let (device, _) = Sim::device(device.parse()?)?;
        let log = SimLog(device.clone());
        return Ok((device, "/dev/dri/renderD128".into(), Box::new(log)));
    }
    let log: Box<dyn Log> = match KernelLog::open() {
        Ok(log) => Box::new(log),
        Err(error) => {
            eprintln!("the kernel's log is left out: /dev/kmsg: {error}");
            Box::new(Silent)
        }
    };
    Ok((KernelTransport::shared(), device.into(), log))
}

fn read_sequence(path: &Path) -> Result<Sequence, Box<dyn Error>> {
    Ok(serde_json::from_reader(BufReader::new(File::open(path)?))?)
}

fn run(arguments: &Run) -> Result<ExitCode, Box<dyn Error>> {
    let (transport, path, mut log) = open(&arguments.device)?;
    let mut runner = Runner::new(&*transport, &path)?;
    runner.trace = arguments.trace;
    let mut out = BufWriter::new(File::create(&arguments.out)?);
    let mut coverage = Coverage::default();
    let given = arguments
        .sequence
        .as_deref()
        .map(read_sequence)
        .transpose()?;
    let count = if given.is_some() { 1 } else { arguments.count };
    let started = std::time::Instant::now();
    let mut alarms = 0;
    for index in 0..count {
        let sequence = match &given {
            Some(sequence) => sequence.clone(),
            None => generate(arguments.seed + index, arguments.shape.options()),
        };
        let mut record = runner.run(&sequence, &mut *log);
        coverage.add(&record);
        alarms += record.alarms.len();
        if arguments.digest {
            record.steps.clear();
        }
        serde_json::to_writer(&mut out, &record)?;
        out.write_all(b"\n")?;
        // A crash of the kernel must not take the records along.
        out.flush()?;
    }
    let took = started.elapsed().as_secs_f64();
    let (calls, good) = coverage.success();
    eprintln!(
        "{count} sequences, {calls} calls, {good} succeeded, {alarms} alarms, {took:.1} s ({:.0} a second)",
        count as f64 / took.max(1e-9)
    );
    Ok(ExitCode::SUCCESS)
}

fn records(
    path: &Path,
) -> Result<impl Iterator<Item = Result<Record, Box<dyn Error>>>, Box<dyn Error>> {
    let lines = BufReader::new(File::open(path)?).lines();
    Ok(lines.map(|line| Ok(serde_json::from_str(&line?)?)))
}

fn compare(left: &Path, right: &Path, most: usize) -> Result<ExitCode, Box<dyn Error>> {
    let (mut left, mut right) = (records(left)?, records(right)?);
    let (mut compared, mut different, mut alarms) = (0_u64, 0_usize, 0_usize);
    loop {
        let (a, b) = match (left.next(), right.next()) {
            (Some(a), Some(b)) => (a?, b?),
            (None, None) => break,
            _ => {
                println!("one file has more records than the other");
                different += 1;
                break;
            }
        };
        compared += 1;
        for alarm in a.alarms.iter().chain(&b.alarms) {
            alarms += 1;
            println!("seed {}: alarm: {alarm}", a.seed);
        }
        if let Some(found) = difference(&a, &b) {
            different += 1;
            if different <= most {
                println!("seed {}: {found}", a.seed);
            }
        }
    }
    println!("{compared} sequences compared, {different} differ, {alarms} alarms");
    Ok(ExitCode::from(u8::from(different > 0)))
}

/// What the two devices make of a sequence.
fn judged(
    sequence: &Sequence,
    left: &str,
    right: &str,
) -> Result<Option<Difference>, Box<dyn Error>> {
    let mut found = Vec::new();
    for device in [left, right] {
        let (transport, path, mut log) = open(device)?;
        found.push(Runner::new(&*transport, &path)?.run(sequence, &mut *log));
    }
    Ok(difference(&found[0], &found[1]))
}

fn shrink(
    seed: u64,
    shape: &Shape,
    left: &str,
    right: &str,
    out: &Path,
) -> Result<ExitCode, Box<dyn Error>> {
    let sequence = generate(seed, shape.options());
    let Some(wanted) = judged(&sequence, left, right)? else {
        println!("seed {seed}: no difference when it runs alone");
        return Ok(ExitCode::SUCCESS);
    };
    let mut failed = None;
    let smallest = minimise(&sequence, |smaller| match judged(smaller, left, right) {
        Ok(found) => found.is_some_and(|found| found.same_kind(&wanted)),
        Err(error) => {
            failed = Some(error);
            false
        }
    });
    if let Some(error) = failed {
        return Err(error);
    }
    serde_json::to_writer_pretty(File::create(out)?, &smallest)?;
    println!(
        "seed {seed}: {wanted}; {} calls are left",
        smallest.steps.len()
    );
    Ok(ExitCode::from(1))
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let result = match &arguments.command {
        Command::Run(arguments) => run(arguments),
        Command::Compare { left, right, most } => compare(left, right, *most),
        Command::Minimise {
            seed,
            shape,
            device,
            sim,
            out,
        } => {
            let left = format!("sim:kernel={}{sim}", shape.kernel);
            shrink(*seed, shape, &left, device, out)
        }
        Command::Show { seed, shape } => {
            let sequence = generate(*seed, shape.options());
            serde_json::to_string_pretty(&sequence)
                .map(|text| {
                    println!("{text}");
                    ExitCode::SUCCESS
                })
                .map_err(Into::into)
        }
        Command::Coverage { records: path } => (|| {
            let mut coverage = Coverage::default();
            for record in records(path)? {
                coverage.add(&record?);
            }
            print!("{coverage}");
            Ok(ExitCode::SUCCESS)
        })(),
    };
    result.unwrap_or_else(|error| {
        eprintln!("ioctl-sequences: {error}");
        ExitCode::from(2)
    })
}
