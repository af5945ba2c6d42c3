//! `cargo xtask bench programs`: what tracers cost whole programs: two data loaders and a job that saves much (`jobs.py`).
//!
//! All programs run under all tracers in turn, round by round; ratios are taken within a round. A program's time is by its own
//! clock: what a recording takes to begin and to end is in the time of the whole command.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use clap::Args;

use super::service::Service;
use super::stats::Spread;
use super::trace::tracers as traced;
use super::tracer;
use super::{Common, machine, table, unless_brief};
use crate::cmd;

const PROGRAM: &str = "xtask/src/bench/programs/jobs.py";
/// Rounds, unless another number is asked for.
const ROUNDS: u32 = 5;
/// What iotrace may add to the time of a run, percent.
const LIMIT_PERCENT: f64 = 1.0;

#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    pub common: Common,
}

/// A job of the program.
struct Job {
    /// As the program calls it.
    word: &'static str,
    title: &'static str,
    /// Samples that it has.
    samples: u32,
    /// Epochs, or saves.
    count: u32,
}

const JOBS: [Job; 3] = [
    Job {
        word: "images",
        title: "images: files of 110 KB, decoded by two worker processes",
        samples: 3000,
        count: 2,
    },
    Job {
        word: "volumes",
        title: "volumes: samples of 32 MiB, read by four threads",
        samples: 16,
        count: 4,
    },
    Job {
        word: "checkpoints",
        title: "checkpoints: 64 MiB, written and synced again and again",
        samples: 0,
        count: 12,
    },
];

/// What a job runs under.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tracer {
    Untraced,
    Service,
    Standalone,
    Dftracer,
    Darshan,
}

/// Seconds of a job, by its own clock and of the whole command.
#[derive(Default)]
struct Figures {
    own: Vec<f64>,
    whole: Vec<f64>,
}

/// Measures and prints.
pub fn run(options: &Options) -> Result<()> {
    super::install_tracers();
    machine::print();
    let scratch = super::scratch()?;
    for job in &JOBS {
        cmd::run(&mut job.command("make", &scratch, unless_brief(job.samples, job.samples / 8)))?;
    }
    let tracers: Vec<Tracer> = Tracer::ALL
        .into_iter()
        .filter(|tracer| tracer.lack().is_none())
        .collect();
    let figures = || tracers.iter().map(|_| Figures::default()).collect();
    let mut all: [Vec<Figures>; JOBS.len()] = std::array::from_fn(|_| figures());
    let rounds = options.common.rounds_or(ROUNDS);
    for round in 1..=rounds {
        eprintln!("round {round} of {rounds}, load {}", machine::load());
        for (job, figures) in JOBS.iter().zip(&mut all) {
            for (tracer, figures) in tracers.iter().zip(figures) {
                let [own, whole] = tracer.measure(job, &scratch)?;
                figures.own.push(own);
                figures.whole.push(whole);
            }
        }
    }
    for (job, figures) in JOBS.iter().zip(&all) {
        println!("\n{}", job.title);
        table::print(&rows(&tracers, figures));
    }
    println!();
    for tracer in Tracer::ALL {
        if let Some(lack) = tracer.lack() {
            println!("{} was not measured: {lack}", tracer.title());
        }
    }
    print_targets(&tracers, &all);
    Ok(())
}

impl Job {
    /// The program's command line for this job.
    fn command(&self, what: &str, scratch: &Path, count: u32) -> Command {
        let mut command = cmd::command("python3");
        command
            .arg(cmd::root().join(PROGRAM))
            .args([what, self.word]);
        command.arg(scratch.join(self.word)).arg(count.to_string());
        command
    }
}

impl Tracer {
    /// The first is what the others are compared with.
    const ALL: [Self; 5] = [
        Self::Untraced,
        Self::Service,
        Self::Standalone,
        Self::Dftracer,
        Self::Darshan,
    ];

    /// As the tables name it.
    fn title(self) -> &'static str {
        match self {
            Self::Untraced => "untraced",
            Self::Service => "iotrace record",
            Self::Standalone => "iotrace record --standalone",
            Self::Dftracer => traced::Tracer::Dftracer.title(),
            Self::Darshan => tracer::Tracer::Darshan.title(),
        }
    }

    /// What there is lacking to measure it.
    fn lack(self) -> Option<String> {
        match self {
            Self::Dftracer => traced::Tracer::Dftracer.lack(),
            Self::Darshan => tracer::Tracer::Darshan.lack(),
            _ => None,
        }
    }

    /// Whether it is iotrace, of which the target is.
    fn is_iotrace(self) -> bool {
        matches!(self, Self::Service | Self::Standalone)
    }

    /// Runs a job once: seconds by its own clock, and of the whole command.
    fn measure(self, job: &Job, scratch: &Path) -> Result<[f64; 2]> {
        let logs = scratch.join("logs");
        super::empty(&logs)?;
        let socket = logs.join("socket");
        let _service = match self {
            Self::Service => Some(Service::start_with_socket(&logs, &socket, "")?),
            _ => None,
        };
        let plain = job.command("run", scratch, unless_brief(job.count, 1));
        let mut command = match self {
            Self::Service => recorded(&plain, &logs, &["--socket".as_ref(), &socket])?,
            Self::Standalone => recorded(&plain, &logs, &["--standalone".as_ref()])?,
            _ => plain,
        };
        match self {
            Self::Dftracer => drop(command.envs(traced::dftracer(&logs)?)),
            Self::Darshan => drop(command.envs(tracer::darshan(&logs)?)),
            _ => {}
        }
        let messages: PathBuf = logs.join("messages");
        command
            .stderr(File::create(&messages)?)
            .stdout(Stdio::piped());
        let started = Instant::now();
        let output = command.output().context("cannot run python3")?;
        let whole = started.elapsed().as_secs_f64();
        if !output.status.success() {
            let said = fs::read_to_string(&messages)?;
            bail!("{} of {} failed: {said}", self.title(), job.word);
        }
        let text = String::from_utf8_lossy(&output.stdout);
        let own = text.lines().next().and_then(|line| line.parse().ok());
        Ok([
            own.context("the program does not say how long it ran")?,
            whole,
        ])
    }
}

/// The same command under `iotrace record`.
fn recorded(command: &Command, logs: &Path, more: &[&Path]) -> Result<Command> {
    let mut record = cmd::command(super::built("iotrace")?);
    record.args(["record", "-o"]).arg(logs.join("recording"));
    record.args(more).arg("--").arg(command.get_program());
    record.args(command.get_args());
    Ok(record)
}

/// What each tracer's rounds took, in multiples of the untraced ones.
fn ratios(figures: &[Figures], tracer: usize) -> Vec<f64> {
    let rounds = figures[tracer].own.iter().zip(&figures[0].own);
    rounds.map(|(traced, untraced)| traced / untraced).collect()
}

fn rows(tracers: &[Tracer], figures: &[Figures]) -> Vec<Vec<String>> {
    let mut rows = vec![table::words(
        "|seconds|quartiles|x untraced|quartiles|whole command",
    )];
    for (index, tracer) in tracers.iter().enumerate() {
        let mut row = vec![format!("  {}", tracer.title())];
        for of in [&figures[index].own, &ratios(figures, index)] {
            if let Some(Spread { low, median, high }) = Spread::of(of) {
                row.push(format!("{median:.3}"));
                row.push(format!("{low:.3} - {high:.3}"));
            }
        }
        let whole = Spread::of(&figures[index].whole);
        row.push(whole.map_or_else(String::new, |whole| format!("{:.3}", whole.median)));
        rows.push(row);
    }
    rows
}

fn print_targets(tracers: &[Tracer], all: &[Vec<Figures>]) {
    let mut rows = vec![table::words(
        "added to the run, percent|limit|measured|quartiles|",
    )];
    for (job, figures) in JOBS.iter().zip(all) {
        for (index, tracer) in tracers.iter().enumerate() {
            let added = ratios(figures, index).into_iter();
            let added: Vec<f64> = added.map(|ratio| (ratio - 1.0) * 100.0).collect();
            let Some(Spread { low, median, high }) = Spread::of(&added) else {
                continue;
            };
            if tracer.is_iotrace() {
                rows.push(vec![
                    format!("{}, {}", job.word, tracer.title()),
                    format!("{LIMIT_PERCENT}"),
                    format!("{median:.2}"),
                    format!("{low:.2} - {high:.2}"),
                    table::verdict(median <= LIMIT_PERCENT).into(),
                ]);
            }
        }
    }
    table::print(&rows);
}
