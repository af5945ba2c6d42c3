//! The report for people: sections of aligned tables on a page of 100 columns.

mod block;
mod diff;
mod escape;
mod events;
mod files;
mod findings;
mod in_flight;
mod library;
mod losses;
mod nodes;
mod operations;
mod overview;
mod phases;
mod table;
pub mod units;
mod unseen;
mod view;

use std::io::{self, BufWriter, Write};

pub use diff::diff_text;
pub use escape::{escape, shorten};
use table::Page;
pub use view::view_text;

use super::Report;

/// Writes the report as text; `color` is the caller's to know (a terminal that wants it).
pub fn text(report: &Report<'_>, color: bool, out: impl Write) -> io::Result<()> {
    let mut page = Page::new(BufWriter::new(out), color);
    overview::head(report, &mut page)?;
    nodes::remarks(report, &mut page)?;
    findings::findings(report, &mut page)?;
    in_flight::in_flight(report, &mut page)?;
    nodes::nodes(report, &mut page)?;
    phases::phases(report, &mut page)?;
    events::checkpoints(report, &mut page)?;
    events::epochs(report, &mut page)?;
    events::startup(report, &mut page)?;
    overview::totals(report, &mut page)?;
    overview::processes(report, &mut page)?;
    files::files(report, &mut page)?;
    operations::operations(report, &mut page)?;
    operations::access_sizes(report, &mut page)?;
    operations::failures(report, &mut page)?;
    files::mounts(report, &mut page)?;
    block::block(report, &mut page)?;
    library::libraries(report, &mut page)?;
    unseen::unseen(report, &mut page)?;
    losses::losses(report, &mut page)?;
    page.flush()
}
