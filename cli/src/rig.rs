//! `panthorctl rig`: kernels with the real driver, built and kept.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use panthor_rig::build::{BuildError, Builder, Built, From, Progress, Request};
use panthor_rig::cache::{self, CacheError, Flavour, Kernel, Manifest};
use serde::Serialize;

use crate::args::{RigArgs, RigBuildArgs, RigCleanArgs, RigCommand};
use crate::failure::{Exit, Failure, say};
use crate::output::{Steps, print_json, print_table};

/// Runs one of `panthorctl rig …`.
///
/// # Errors
/// [`Exit::Usage`] for what cannot be asked for, [`Exit::BadFile`] for a tree that cannot be built,
/// [`Exit::NoDevice`] where this machine or its network lacks something, [`Exit::Interrupted`].
pub fn run(args: &RigArgs, json: bool, interrupted: &Arc<AtomicBool>) -> Result<Exit, Failure> {
    match &args.command {
        RigCommand::Build(args) => build(args, json, interrupted),
        RigCommand::List => list(json),
        RigCommand::Clean(args) => clean(args, json),
        // `machine::run` has done these.
        RigCommand::Run(_) | RigCommand::Shell(_) => Ok(Exit::Right),
    }
}

fn build(args: &RigBuildArgs, json: bool, interrupted: &Arc<AtomicBool>) -> Result<Exit, Failure> {
    let sources = match (&args.source, &args.name) {
        (Some(path), Some(name)) => vec![From::Tree {
            path: path.clone(),
            name: name.clone(),
        }],
        _ => args.kernel.iter().cloned().map(From::Debian).collect(),
    };
    let steps = Steps::new();
    let mut progress = |event: Progress<'_>| match event {
        Progress::Step(what) => steps.begin(what),
        Progress::Objects { done, of } => steps.at(done, of),
        Progress::Note(note) => steps.say(note),
    };
    let mut kernels = Vec::new();
    let mut builder = Builder::new(interrupted, &mut progress).map_err(|e| failure(&e))?;
    for from in sources {
        let request = Request {
            from,
            variant: args.variant.into(),
            smp: !args.no_smp,
            force: args.force,
            update: args.update,
            jobs: args.jobs.map(|n| n as usize),
        };
        kernels.push(builder.build(&request).map_err(|e| failure(&e))?);
    }
    drop(steps);
    if json {
        let rows: Vec<Row> = kernels.iter().map(Row::of_built).collect();
        print_json(&Listing { kernels: rows })?;
    } else {
        for Built { kernel, cached } in &kernels {
            let how = if *cached { "is there" } else { "built" };
            say(format_args!(
                "{} (Linux {}) {how}: {}",
                kernel.label(),
                kernel.manifest.release,
                kernel.directory.display()
            ));
        }
    }
    Ok(Exit::Right)
}

fn list(json: bool) -> Result<Exit, Failure> {
    let kernels = cache::list().map_err(|e| cache_failure(&e))?;
    if json {
        let kernels = kernels.iter().map(Row::of).collect();
        print_json(&Listing { kernels })?;
        return Ok(Exit::Right);
    }
    if kernels.is_empty() {
        say("no kernels; panthorctl rig build builds one");
        return Ok(Exit::Right);
    }
    let rows = kernels.iter().map(|kernel| {
        let m = &kernel.manifest;
        vec![
            kernel.label(),
            m.release.clone(),
            m.origin.to_string(),
            date(m.built),
            size(m, Flavour::TimeTravel),
            size(m, Flavour::Smp),
        ]
    });
    let head = [
        "kernel",
        "release",
        "source",
        "built (UTC)",
        "time-travel",
        "SMP",
    ];
    print_table(&head, rows.collect())?;
    Ok(Exit::Right)
}

fn clean(args: &RigCleanArgs, json: bool) -> Result<Exit, Failure> {
    let directory = cache::directory().map_err(|e| cache_failure(&e))?;
    let cleaned =
        cache::clean_in(&directory, args.name.as_deref()).map_err(|e| cache_failure(&e))?;
    if json {
        print_json(&cleaned)?;
    } else if cleaned.kernels.is_empty() && cleaned.bytes == 0 {
        say("nothing to clean");
    } else {
        let what = match cleaned.kernels.join(", ") {
            names if names.is_empty() => "leftovers".to_owned(),
            names => names,
        };
        say(format_args!(
            "removed {what}: {} MB",
            megabytes(cleaned.bytes)
        ));
    }
    Ok(Exit::Right)
}

/// What `--json` prints.
#[derive(Serialize)]
struct Listing<'a> {
    kernels: Vec<Row<'a>>,
}

/// A kernel of `--json`.
#[derive(Serialize)]
struct Row<'a> {
    label: String,
    directory: String,
    hash: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    cached: Option<bool>,
    #[serde(flatten)]
    manifest: &'a Manifest,
}

impl<'a> Row<'a> {
    fn of(kernel: &'a Kernel) -> Self {
        Self {
            label: kernel.label(),
            directory: kernel.directory.display().to_string(),
            hash: kernel.hash(),
            cached: None,
            manifest: &kernel.manifest,
        }
    }

    fn of_built(built: &'a Built) -> Self {
        Self {
            cached: Some(built.cached),
            ..Self::of(&built.kernel)
        }
    }
}

fn failure(error: &BuildError) -> Failure {
    let exit = match error {
        e if e.is_interruption() => Exit::Interrupted,
        BuildError::Cache(e) => return cache_failure(e),
        BuildError::Source(_)
        | BuildError::Edit { .. }
        | BuildError::Config { .. }
        | BuildError::Make { .. } => Exit::BadFile,
        BuildError::Machine(_)
        | BuildError::Tools { .. }
        | BuildError::Disk { .. }
        | BuildError::Debian(_)
        | BuildError::Process(_)
        | BuildError::Io { .. }
        | BuildError::Interrupted => Exit::NoDevice,
    };
    Failure::new(exit, error)
}

fn cache_failure(error: &CacheError) -> Failure {
    let exit = match error {
        CacheError::BadName(_) | CacheError::NothingToClean { .. } | CacheError::NoDirectory => {
            Exit::Usage
        }
        CacheError::Io { .. }
        | CacheError::NotBuilt { .. }
        | CacheError::Outdated { .. }
        | CacheError::NoBinary { .. }
        | CacheError::Busy(_) => Exit::NoDevice,
    };
    Failure::new(exit, error)
}

fn megabytes(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / f64::from(1 << 20))
}

fn size(manifest: &Manifest, flavour: Flavour) -> String {
    let binary = manifest.binaries.iter().find(|b| b.flavour == flavour);
    binary.map_or_else(|| "-".to_owned(), |b| format!("{} MB", megabytes(b.bytes)))
}

/// Seconds since 1970 as `2026-12-01 02:30`.
fn date(seconds: u64) -> String {
    let (days, minute) = (seconds / 86_400, seconds % 86_400 / 60);
    // Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms": civil_from_days, for days after 1970.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!(
        "{year}-{month:02}-{day:02} {:02}:{:02}",
        minute / 60,
        minute % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_date_u() {
        assert_eq!(date(0), "1970-01-01 00:00");
        assert_eq!(date(951_782_399), "2000-02-28 23:59");
        assert_eq!(date(951_782_400), "2000-02-29 00:00");
        assert_eq!(date(1_796_092_230), "2026-12-01 02:30");
    }

    #[test]
    fn failures_have_the_documented_exit_codes() {
        let exit = |error: BuildError| failure(&error).exit;
        assert_eq!(exit(BuildError::Interrupted), Exit::Interrupted);
        assert_eq!(exit(BuildError::Machine("aarch64")), Exit::NoDevice);
        let unsupported = panthor_rig::source::SourceError::Unsupported {
            release: "6.6".to_owned(),
        };
        assert_eq!(exit(unsupported.into()), Exit::BadFile);
        assert_eq!(exit(CacheError::BadName(String::new()).into()), Exit::Usage);
    }
}
