//! `iotrace report`: the report of a recording, as `record` printed it, or of the recordings of a job's nodes.

use std::{
    io::{self, BufWriter, IsTerminal as _, Write},
    path::PathBuf,
    process::ExitCode,
};

use anyhow::bail;

use super::{config::Sorting, meter::Meter, output::save};
use crate::{
    classify::phase::Phase,
    memory::disk,
    recording,
    report::{
        self, Report,
        view::{By, Choice, View},
    },
};

/// Rows of a view that nobody said otherwise of.
const TOP: usize = 20;

/// How a report is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// For people.
    Text,
    /// One JSON object.
    Json,
    /// A page for a browser, with all that it needs in it.
    Html,
}

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The recording's directory; those of several nodes make one job.
    #[arg(value_name = "DIR", required = true)]
    recordings: Vec<PathBuf>,
    /// Report as text, as JSON or as a page for a browser.
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Write the report to this file; one that is there is replaced when the new one is whole.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// One table by this, instead of the whole report.
    #[arg(long, value_enum)]
    by: Option<By>,
    /// One table of what was done in this phase [default: by file]
    #[arg(long, value_parser = ["startup", "training", "checkpoint", "restore", "other"])]
    phase: Option<String>,
    /// One table of so many rows [default: 20]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    top: Option<u64>,
    /// Rules and thresholds that come before the built-in ones [default: iotrace.toml here, or in /etc/iotrace]
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,
}

/// Runs `iotrace report`.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let Sorting {
        classifier,
        thresholds,
    } = Sorting::read(args.rules.as_deref())?;
    disk::begin(None);
    let mut meter = Meter::new();
    let tell = |done, whole| meter.part("reading", done, whole);
    let job = recording::read_job_and_tell(&args.recordings, tell)?;
    drop(meter);
    for node in job.nodes.iter().filter(|node| !node.complete) {
        log::warn!(
            "{} is not complete: it is still being written, or its recorder was killed; what follows is what it \
             holds",
            node.directory.display()
        );
    }
    let report = Report::with(&job.model, &job.run, &classifier, &thresholds).of_nodes(&job.nodes);
    let is_complete = job.nodes.iter().all(|node| node.complete);
    let view = args.choice().map(|choice| View::new(&report, choice));
    if view.is_some() && args.format == Format::Html {
        bail!(
            "--by, --phase and --top make one table, and a page has all of them: leave them out, or the format"
        )
    }
    let write = |color: bool, out: &mut dyn Write| match (args.format, &view) {
        (Format::Text, None) => report::text(&report, color, out),
        (Format::Json, None) => report::json(&report, out),
        (Format::Text, Some(view)) => report::view_text(&report, view, color, out),
        (Format::Json, Some(view)) => report::view_json(&report, view, out),
        (Format::Html, _) => report::html(&report, is_complete, out),
    };
    let is_terminal = io::stdout().is_terminal();
    match &args.output {
        Some(file) => save(file, |out| write(false, out))?,
        None if args.format == Format::Html && is_terminal => {
            bail!("a page is for a browser and not for a terminal: name a file with --output FILE")
        }
        None => {
            let color = is_terminal && std::env::var_os("NO_COLOR").is_none();
            let mut out = BufWriter::new(io::stdout().lock());
            write(color, &mut out)?;
            out.flush()?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

impl Args {
    /// The view that is asked for, if one is.
    fn choice(&self) -> Option<Choice> {
        let is_asked = self.by.is_some() || self.phase.is_some() || self.top.is_some();
        let name = self.phase.as_deref();
        let mut known = Phase::ALL.into_iter().map(Phase::name);
        is_asked.then_some(Choice {
            by: self.by.unwrap_or(By::File),
            phase: known.find(|known| Some(*known) == name),
            top: self
                .top
                .map_or(TOP, |top| usize::try_from(top).unwrap_or(usize::MAX)),
        })
    }
}
