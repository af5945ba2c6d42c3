//! `iotrace report`: the report of a recording, as `record` printed it.

use std::{
    io::{self, IsTerminal as _},
    path::PathBuf,
    process::ExitCode,
};

use anyhow::bail;

use super::{
    output::{self, print, save},
    phases,
};
use crate::{
    recording,
    report::{self, Report},
};

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
    /// The recording's directory.
    #[arg(value_name = "DIR")]
    recording: PathBuf,
    /// Report as text, as JSON or as a page for a browser.
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Write the report to this file; one that is there is replaced when the new one is whole.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Rules that come before the built-in ones [default: iotrace.toml here, or in /etc/iotrace]
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,
}

/// Runs `iotrace report`.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let classifier = phases::compile(args.rules.as_deref())?;
    let recorded = recording::read(&args.recording)?;
    if !recorded.complete {
        log::warn!(
            "{} is not complete: it is still being written, or its recorder was killed; what follows is what it \
             holds",
            args.recording.display()
        );
    }
    let report = Report::with_rules(&recorded.model, &recorded.run, &classifier);
    match (&args.output, args.format) {
        (Some(file), format) => save(file, |out| match format {
            Format::Text => report::text(&report, false, out),
            Format::Json => report::json(&report, out),
            Format::Html => report::html(&report, recorded.complete, out),
        })?,
        (None, Format::Text) => print(&report, output::Format::Text)?,
        (None, Format::Json) => print(&report, output::Format::Json)?,
        (None, Format::Html) if io::stdout().is_terminal() => {
            bail!("a page is for a browser and not for a terminal: name a file with --output FILE")
        }
        (None, Format::Html) => report::html(&report, recorded.complete, io::stdout().lock())?,
    }
    Ok(ExitCode::SUCCESS)
}
