//! The report for people: sections of aligned tables on a page of 100 columns.

mod escape;
mod sections;
mod table;
pub mod units;

use std::io::{self, BufWriter, Write};

use table::Page;

use super::Report;

/// Writes the report as text; `color` is the caller's to know (a terminal that wants it).
pub fn text(report: &Report<'_>, color: bool, out: impl Write) -> io::Result<()> {
    let mut page = Page::new(BufWriter::new(out), color);
    sections::head(report, &mut page)?;
    sections::totals(report, &mut page)?;
    sections::processes(report, &mut page)?;
    sections::files(report, &mut page)?;
    sections::operations(report, &mut page)?;
    sections::access_sizes(report, &mut page)?;
    sections::failures(report, &mut page)?;
    sections::mounts(report, &mut page)?;
    sections::losses(report, &mut page)?;
    page.flush()
}
