//! `cargo xtask bench report`: how long `iotrace report` takes, and how much memory, with recordings of many files.
//!
//! The recordings are made by the program of the package `iotrace-made`, not by tracing: a job whose four workers read each
//! file in two epochs.

use std::fs::File;
use std::path::Path;
use std::process::Stdio;
use std::time::Instant;

use anyhow::{Context as _, Result};
use clap::Args;

use super::stats::Spread;
use super::{Common, iotrace, machine, table, unless_brief};
use crate::cmd;

/// Files of the recordings.
const FILES: [u64; 3] = [300_000, 600_000, 1_280_000];
/// How often each file is read.
const EPOCH_COUNT: u64 = 2;
/// Rounds, unless another number is asked for.
const ROUNDS: u32 = 3;
const MIB: f64 = 1024.0 * 1024.0;

#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    pub common: Common,
}

/// What is reported.
#[derive(Clone, Copy)]
enum Format {
    Text,
    Full,
    Html,
}

impl Format {
    const ALL: [Self; 3] = [Self::Text, Self::Full, Self::Html];

    /// As the tables name it.
    fn title(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Full => "text, --full",
            Self::Html => "HTML",
        }
    }

    fn args(self) -> &'static [&'static str] {
        match self {
            Self::Text => &["--format", "text"],
            Self::Full => &["--format", "text", "--full"],
            Self::Html => &["--format", "html"],
        }
    }
}

/// Figures of one recording in one format, over the rounds.
#[derive(Default)]
struct Figures {
    seconds: Vec<f64>,
    cpu: Vec<f64>,
    /// Most memory at one time, bytes.
    peak: Vec<f64>,
}

/// Measures and prints.
pub fn run(options: &Options) -> Result<()> {
    machine::print();
    let scratch = super::scratch()?;
    let counts = FILES.map(|files| unless_brief(files, files / 100));
    for files in counts {
        let mut made = cmd::command(super::built("made")?);
        made.arg(scratch.join(files.to_string()));
        cmd::run(made.args([files, EPOCH_COUNT].map(|number| number.to_string())))?;
    }
    let mut all: [[Figures; 3]; 3] = Default::default();
    let rounds = options.common.rounds_or(ROUNDS);
    for round in 1..=rounds {
        eprintln!("round {round} of {rounds}, load {}", machine::load());
        for (files, formats) in counts.iter().zip(&mut all) {
            for (format, figures) in Format::ALL.into_iter().zip(formats) {
                figures.add(format, &scratch.join(files.to_string()), &scratch)?;
            }
        }
    }
    for (at, format) in Format::ALL.into_iter().enumerate() {
        println!("\niotrace report, {}", format.title());
        let of = counts.iter().zip(&all).map(|(files, of)| (*files, &of[at]));
        table::print(&rows(of)?);
    }
    Ok(())
}

impl Figures {
    /// Reports once.
    fn add(&mut self, format: Format, recording: &Path, scratch: &Path) -> Result<()> {
        let mut command = cmd::command(super::built("iotrace")?);
        command.arg("report").arg(recording).args(format.args());
        command
            .stdout(File::create(scratch.join("report"))?)
            .stderr(Stdio::inherit());
        let started = Instant::now();
        let child = command.spawn().context("cannot run iotrace")?;
        let (cpu_seconds, peak_bytes) = iotrace::wait(&child)?;
        self.seconds.push(started.elapsed().as_secs_f64());
        self.cpu.push(cpu_seconds);
        self.peak.push(peak_bytes as f64);
        Ok(())
    }
}

fn rows<'a>(of: impl Iterator<Item = (u64, &'a Figures)>) -> Result<Vec<Vec<String>>> {
    let mut rows = vec![table::words(
        "files|seconds|quartiles|CPU, s|peak, MiB|us a file|bytes a file",
    )];
    for (files, figures) in of {
        let spread = |figures: &[f64]| Spread::of(figures).context("no figure");
        let Spread { low, median, high } = spread(&figures.seconds)?;
        let peak = spread(&figures.peak)?.median;
        rows.push(vec![
            files.to_string(),
            format!("{median:.2}"),
            format!("{low:.2} - {high:.2}"),
            format!("{:.2}", spread(&figures.cpu)?.median),
            format!("{:.0}", peak / MIB),
            format!("{:.2}", median * 1e6 / files as f64),
            format!("{:.0}", peak / files as f64),
        ]);
    }
    Ok(rows)
}
