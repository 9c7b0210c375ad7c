//! Tables, JSON and progress.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

use crate::failure::{Exit, Failure, printable, say};

/// Prints a table with left-aligned first column and right-aligned others.
///
/// # Errors
/// What writing to standard output says; a reader that went away is no error.
pub fn print_table(head: &[&str], mut rows: Vec<Vec<String>>) -> Result<(), Failure> {
    for cell in rows.iter_mut().flatten() {
        *cell = printable(cell);
    }
    let mut widths: Vec<usize> = head.iter().map(|h| h.chars().count()).collect();
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |cells: Vec<&str>| {
        let mut text = String::new();
        for (i, (cell, width)) in cells.iter().zip(&widths).enumerate() {
            let pad = " ".repeat(width - cell.chars().count());
            text += &if i == 0 {
                format!("{cell}{pad}")
            } else {
                format!("  {pad}{cell}")
            };
        }
        text.trim_end().to_owned() + "\n"
    };
    let mut text = line(head.to_vec());
    for row in &rows {
        text += &line(row.iter().map(String::as_str).collect());
    }
    print(&text)
}

/// Prints a value as indented JSON.
///
/// # Errors
/// As [`print_table`].
pub fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value).map_err(|e| Failure::new(Exit::Usage, e))?;
    print(&(text + "\n"))
}

/// Prints text to standard output; a reader that went away is no error.
///
/// # Errors
/// Any other error of writing.
pub fn print(text: &str) -> Result<(), Failure> {
    print_bytes(text.as_bytes())
}

/// Prints bytes to standard output; a reader that went away is no error.
///
/// # Errors
/// Any other error of writing.
pub fn print_bytes(bytes: &[u8]) -> Result<(), Failure> {
    match io::stdout()
        .write_all(bytes)
        .and_then(|()| io::stdout().flush())
    {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => Err(Failure::new(
            Exit::Usage,
            format_args!("standard output: {e}"),
        )),
        _ => Ok(()),
    }
}

/// A progress bar on standard error; nothing where that is no terminal. Cleared when dropped.
pub struct Progress(ProgressBar);

impl Progress {
    /// A bar of `steps` steps.
    pub fn new(steps: usize) -> Self {
        let target = if io::stderr().is_terminal() {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        let bar = ProgressBar::with_draw_target(Some(steps as u64), target);
        if let Ok(style) = ProgressStyle::with_template("{pos}/{len} {bar:30} {elapsed} {msg}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(200));
        Self(bar)
    }

    /// Names what is being done.
    pub fn begin(&self, what: &str) {
        self.0.set_message(printable(what));
    }

    /// One step is done.
    pub fn step(&self) {
        self.0.inc(1);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// Steps whose number is not known before: a spinner, or within a step a bar, on standard error; where that is no terminal,
/// a line for each step. Cleared when dropped.
pub struct Steps {
    bar: ProgressBar,
    terminal: bool,
}

impl Steps {
    /// No step yet.
    pub fn new() -> Self {
        let terminal = io::stderr().is_terminal();
        let bar = ProgressBar::with_draw_target(
            None,
            if terminal {
                ProgressDrawTarget::stderr()
            } else {
                ProgressDrawTarget::hidden()
            },
        );
        bar.enable_steady_tick(Duration::from_millis(200));
        Self { bar, terminal }
    }

    /// The next step.
    pub fn begin(&self, what: &str) {
        if !self.terminal {
            return say(what);
        }
        self.bar.set_style(ProgressStyle::default_spinner());
        self.bar.set_message(printable(what));
    }

    /// How far the step is.
    pub fn at(&self, done: u64, of: u64) {
        if self.bar.length() != Some(of) {
            self.bar.set_length(of);
        }
        if done == 1 {
            if let Ok(style) = ProgressStyle::with_template("{pos}/{len} {bar:30} {elapsed} {msg}")
            {
                self.bar.set_style(style);
            }
        }
        self.bar.set_position(done);
    }

    /// A line that stays.
    pub fn say(&self, line: &str) {
        self.bar.suspend(|| say(line));
    }
}

impl Drop for Steps {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
