//! The report for people: one screen that says what matters, and sections of aligned tables.

pub mod diff;
pub mod escape;
pub mod head;
pub mod rollup;
pub mod scale;
mod summary;
pub mod table;
pub mod units;
mod view;

use std::io::{self, Write};

pub use diff::diff_text;
pub use escape::{escape, shorten};
pub use scale::scale_text;
pub use table::Layout;
use table::Page;
pub use view::view_text;

use super::{
    Report,
    sections::{SECTIONS, Section, nodes},
};

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
            head::head(report, &mut page)?;
            nodes::remarks(report, &mut page)?;
            for section in SECTIONS {
                (section.text)(report, &mut page)?;
            }
        }
        Extent::Sections(names) => {
            head::head(report, &mut page)?;
            let is_chosen = |section: &&Section| names.iter().any(|name| name == section.name);
            for section in SECTIONS.iter().filter(is_chosen) {
                let lines = page.lines();
                (section.text)(report, &mut page)?;
                if page.lines() == lines {
                    page.section(&section.absent())?;
                }
            }
        }
    }
    page.flush()
}
