//! The report for people: one screen that says what matters, and sections of aligned tables.

mod block;
mod diff;
mod escape;
mod events;
mod file_counts;
mod files;
mod findings;
mod in_flight;
mod library;
mod losses;
mod nodes;
mod operations;
mod overview;
mod phases;
mod rollup;
mod scale;
mod summary;
mod table;
pub mod units;
mod unseen;
mod view;
mod waits;

use std::io::{self, Write};

pub use diff::diff_text;
pub use escape::{escape, shorten};
pub use scale::scale_text;
pub use table::Layout;
use table::Page;
pub use view::view_text;

use super::Report;

/// A part of the report that can be asked for by its name.
pub struct Section {
    pub name: &'static str,
    write: fn(&Report<'_>, &mut Page<'_>) -> io::Result<()>,
}

/// All sections, in the order of the whole report.
pub const SECTIONS: &[Section] = &[
    section("findings", findings::findings),
    section("in-flight", in_flight::in_flight),
    section("nodes", nodes::nodes),
    section("waits", waits::waits),
    section("phases", phases::phases),
    section("checkpoints", events::checkpoints),
    section("epochs", events::epochs),
    section("startup", events::startup),
    section("totals", overview::totals),
    section("processes", overview::processes),
    section("files", files::files),
    section("file-counts", file_counts::file_counts),
    section("operations", operations::operations),
    section("sizes", operations::access_sizes),
    section("failures", operations::failures),
    section("mounts", files::mounts),
    section("block", block::block),
    section("libraries", library::libraries),
    section("unseen", unseen::unseen),
    section("losses", losses::losses),
];

const fn section(
    name: &'static str,
    write: fn(&Report<'_>, &mut Page<'_>) -> io::Result<()>,
) -> Section {
    Section { name, write }
}

/// How much of the report is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Extent {
    /// The verdict, where the time went and what to change, on one screen.
    Summary,
    /// All sections.
    Full,
    /// The sections with these names.
    Sections(Vec<String>),
}

/// Writes the report as text.
pub fn text(
    report: &Report<'_>,
    extent: &Extent,
    layout: Layout,
    out: impl Write,
) -> io::Result<()> {
    let mut page = Page::new(out, layout);
    match extent {
        Extent::Summary => summary::summary(report, &mut page)?,
        Extent::Full => {
            overview::head(report, &mut page)?;
            nodes::remarks(report, &mut page)?;
            for section in SECTIONS {
                (section.write)(report, &mut page)?;
            }
        }
        Extent::Sections(names) => {
            overview::head(report, &mut page)?;
            let is_chosen = |section: &&Section| names.iter().any(|name| name == section.name);
            for section in SECTIONS.iter().filter(is_chosen) {
                (section.write)(report, &mut page)?;
            }
        }
    }
    page.flush()
}
