//! `iotrace report`: the report of a recording, as `record` printed it, or of the recordings of a job's nodes.

use std::{
    ffi::OsStr,
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
};

use anyhow::bail;

use super::{
    config::Sorting,
    jobs,
    meter::Meter,
    newest,
    output::{self, Format, Place, TextOptions, check_outside},
    quote::quote,
    stage::{Tier, stage},
};
use iotrace_analysis::findings::thresholds::Thresholds;
use iotrace_phases::{
    Classifier,
    path_glob::{FileChoice, PathGlob},
    phase::Phase,
};
use iotrace_recording::{Node, memory::disk};
use iotrace_report::{
    self, Extent, Layout, Report, Selection,
    view::{By, Choice, View},
};

/// Rows of a view that nobody said otherwise of.
const TOP: usize = 20;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The recording's directory; those of several nodes make one job. `job:ID`: the logs of a job [default: the newest
    /// recording here]
    #[arg(value_name = "DIR")]
    recordings: Vec<PathBuf>,
    /// Directory of the job logs, for `job:ID` [default: that of the service's configuration]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Report as text, as JSON or as a page for a browser [default: as the name of the file ends, else text]
    #[arg(short, long, value_enum)]
    format: Option<Format>,
    #[command(flatten)]
    text: TextOptions,
    /// Write the report to this file; an existing one is replaced when the new one is complete.
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
    /// Print which files to copy to a faster tier, for `rsync --files-from`: those with the most time in reads from storage for
    /// their size that fit in this size, or in the room that this directory has.
    #[arg(long, value_name = "DIR|SIZE", conflicts_with_all = ["full", "sections", "by", "phase", "top"])]
    stage_to: Option<Tier>,
    /// Compare runs of different size, each a recording: one row a run, with its bandwidth for each rank, the shares of reads and
    /// checkpoints, and how near to the ideal line it is.
    #[arg(long, conflicts_with_all = ["full", "sections", "by", "phase", "top", "stage_to"])]
    scale: bool,
    /// Only files whose whole path this glob matches, as in rules of phases: `/data/**`, `*.pt`; may be given several times. `*`
    /// stops at `/`, `**` does not. A part of the files gets no verdict and no findings.
    #[arg(long, value_name = "GLOB", conflicts_with_all = ["stage_to", "scale"])]
    include: Vec<PathGlob>,
    /// Without files whose whole path this glob matches, even if --include does; may be given several times.
    #[arg(long, value_name = "GLOB", conflicts_with_all = ["stage_to", "scale"])]
    exclude: Vec<PathGlob>,
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
    let format = Format::of(args.format, args.output.as_deref());
    let recordings = newest::or_newest(&args.recordings)?;
    let recordings = jobs::expand(recordings, args.dir.as_deref())?;
    let place = args.output.clone().map_or(Place::Stdout, Place::File);
    format.check(&args.text, &place, "--output")?;
    if let Some(output) = &args.output {
        check_outside(output, &recordings)?;
    }
    if args.text.are_given() && args.choice().is_some() {
        bail!("leave out --full and --section: --by, --phase and --top make one table");
    }
    if args.scale {
        return scale(&recordings, &classifier, &thresholds, format, &place);
    }
    let mut job = iotrace_recording::read_job_and_tell(&recordings, tell)?;
    drop(meter);
    warn_incomplete(&job.nodes, "what follows is");
    let files = FileChoice {
        include: args.include.clone(),
        exclude: args.exclude.clone(),
    };
    let selection = (!files.is_everything())
        .then(|| Selection::new(&files, &mut job.model, &mut job.run, &classifier));
    let report = match selection {
        Some(selection) => Report::of_selection(&job.model, &job.run, &classifier, selection),
        None => Report::with(&job.model, &job.run, &classifier, &thresholds),
    };
    let mut report = report.of_nodes(&job.nodes);
    if let Some(tier) = &args.stage_to {
        if format == Format::Html {
            bail!("write --format text or json: a list of files to copy is no page");
        }
        stage(&report, tier, format != Format::Text, &place)?;
        return Ok(ExitCode::SUCCESS);
    }
    let is_complete = job.nodes.iter().all(|node| node.is_complete());
    if args.choice().is_none() {
        quote(&mut report, &recordings);
    }
    let view = args.choice().map(|choice| View::new(&report, choice));
    if view.is_some() && format == Format::Html {
        bail!(
            "--by, --phase and --top make one table, and a page has all of them: leave them out, or the format"
        )
    }
    let extent = match view {
        Some(_) => Extent::Full,
        None => args.text.extent(),
    };
    let write = |layout: Layout, out: &mut dyn Write| match &view {
        Some(view) if format == Format::Text => {
            iotrace_report::view_text(&report, view, layout, out)
        }
        Some(view) => iotrace_report::view_json(&report, view, out),
        None => {
            output::write(&report, format, &extent, is_complete, layout, out)?;
            match (format, &extent) {
                (Format::Text, Extent::Summary) => next_steps(&recordings, out),
                _ => Ok(()),
            }
        }
    };
    place.write(&extent, write)?;
    Ok(ExitCode::SUCCESS)
}

/// Writes one row a recording.
fn scale(
    recordings: &[PathBuf],
    classifier: &Classifier,
    thresholds: &Thresholds,
    format: Format,
    place: &Place,
) -> anyhow::Result<ExitCode> {
    let mut rows = Vec::new();
    for directory in recordings {
        let job = iotrace_recording::read_job(std::slice::from_ref(directory))?;
        let report = Report::with(&job.model, &job.run, classifier, thresholds);
        rows.push(report.scale_row(directory.display().to_string()));
    }
    iotrace_report::scale::compare(&mut rows);
    place.write(&Extent::Full, |layout, out| match format {
        Format::Text => iotrace_report::scale_text(&rows, layout, out),
        Format::Html => iotrace_report::scale_html(&rows, out),
        Format::Json | Format::JsonSummary => {
            serde_json::to_writer(&mut *out, &rows)?;
            out.write_all(b"\n")
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Warns of recordings without their end. `what`: what is done with what they hold.
pub fn warn_incomplete(nodes: &[Node], what: &str) {
    for directory in nodes.iter().flat_map(|node| &node.incomplete) {
        log::warn!(
            "{} is not complete: it is still being written, its recorder was killed or had no room, or the service ended it; \
             {what} what it holds",
            directory.display()
        );
    }
}

/// Writes where the recording is, and what else can be done with it.
pub fn next_steps(recordings: &[PathBuf], out: &mut dyn Write) -> io::Result<()> {
    let names = recordings.iter().map(|path| quoted(path.as_os_str()));
    let names: Vec<String> = names.collect();
    let names = names.join(" ");
    writeln!(out, " Recording: {names}")?;
    writeln!(
        out,
        "   iotrace report --full | iotrace report -o report.html | iotrace export"
    )
}

/// A word as a shell takes it, without what would control a terminal.
pub fn quoted(word: &OsStr) -> String {
    let text = iotrace_report::escape(word.as_encoded_bytes());
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%,=".contains(c);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text,
        false => format!("'{}'", text.replace('\'', "'\\''")),
    }
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
