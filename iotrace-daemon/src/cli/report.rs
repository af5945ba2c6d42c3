//! `iotrace report`: the report of a recording, as `record` printed it.

use std::{path::PathBuf, process::ExitCode};

use super::record::{Format, print};
use crate::{recording, report::Report};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The recording's directory.
    #[arg(value_name = "DIR")]
    recording: PathBuf,
    /// Report as text or JSON.
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// Runs `iotrace report`.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let recorded = recording::read(&args.recording)?;
    if !recorded.complete {
        log::warn!(
            "{} is not complete: it is still being written, or its recorder was killed; what follows is what it \
             holds",
            args.recording.display()
        );
    }
    print(&Report::new(&recorded.model, &recorded.run), args.format)?;
    Ok(ExitCode::SUCCESS)
}
