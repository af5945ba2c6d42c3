//! `iotrace report`: the report of a recording, as `record` printed it.

use std::{path::PathBuf, process::ExitCode};

use super::{
    output::{Format, print},
    phases,
};
use crate::{recording, report::Report};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The recording's directory.
    #[arg(value_name = "DIR")]
    recording: PathBuf,
    /// Report as text or JSON.
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    format: Format,
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
    print(&report, args.format)?;
    Ok(ExitCode::SUCCESS)
}
