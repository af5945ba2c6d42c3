//! How a report leaves: as text or JSON, to standard output.

use std::io::{self, BufWriter, IsTerminal as _, Write as _};

use crate::report::{self, Report};

/// How a report is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For people.
    Text,
    /// One JSON object.
    Json,
}

/// Writes a report to standard output.
pub fn print(report: &Report<'_>, format: Format) -> anyhow::Result<()> {
    let stdout = io::stdout();
    let color = stdout.is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let mut out = BufWriter::new(stdout.lock());
    match format {
        Format::Text => report::text(report, color, &mut out)?,
        Format::Json => report::json(report, &mut out)?,
    }
    out.flush()?;
    Ok(())
}
