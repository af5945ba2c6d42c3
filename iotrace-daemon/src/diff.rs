//! `iotrace diff`: two recordings side by side, before and after a change.

use std::{
    io::Write,
    path::{Path, PathBuf},
    process::ExitCode,
};

use super::{
    config::Sorting,
    output::{Format, Place, TextJsonOrHtml, TextOptions, check_outside},
};
use iotrace_analysis::findings::thresholds::Thresholds;
use iotrace_phases::Classifier;
use iotrace_recording::memory::disk;
use iotrace_recording::{self, Job};
use iotrace_report::{self, Extent, Layout, Report, diff::Diff};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The recording before the change.
    #[arg(value_name = "BEFORE")]
    before: PathBuf,
    /// The recording after it.
    #[arg(value_name = "AFTER")]
    after: PathBuf,
    /// How the comparison is written [default: what the name of the output file tells, else text]
    #[arg(short, long, value_enum)]
    format: Option<TextJsonOrHtml>,
    /// Write to this file; an existing one is replaced when the new one is complete.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Rules and thresholds that come before the built-in ones [default: iotrace.toml here, or in /etc/iotrace]
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,
}

/// Runs `iotrace diff`.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let Sorting {
        classifier,
        thresholds,
    } = Sorting::read(args.rules.as_deref())?;
    disk::begin(None);
    let format = Format::of(args.format.map(Format::from), args.output.as_deref());
    let place = args.output.clone().map_or(Place::Stdout, Place::File);
    format.check(&TextOptions::default(), &place, "--output")?;
    if let Some(output) = &args.output {
        check_outside(output, &[args.before.clone(), args.after.clone()])?;
    }
    let (before, after) = (read(&args.before)?, read(&args.after)?);
    let before = report_of(&before, &classifier, &thresholds);
    let after = report_of(&after, &classifier, &thresholds);
    let diff = Diff::new(&before, &after);
    let write = |layout: Layout, out: &mut dyn Write| match format {
        Format::Text => iotrace_report::diff_text(&diff, layout, out),
        Format::Json | Format::JsonSummary => iotrace_report::diff_json(&diff, out),
        Format::Html => iotrace_report::diff_html(&diff, out),
    };
    place.write(&Extent::Full, write)?;
    Ok(ExitCode::SUCCESS)
}

fn read(directory: &Path) -> anyhow::Result<Job> {
    Ok(iotrace_recording::read_job(&[directory.to_owned()])?)
}

fn report_of<'a>(job: &'a Job, classifier: &'a Classifier, thresholds: &Thresholds) -> Report<'a> {
    Report::with(&job.model, &job.run, classifier, thresholds).of_nodes(&job.nodes)
}
