//! What was not counted, in the text report.

use std::io::{self, Write};

use iotrace_common::diag;

use super::{
    table::{Page, Style},
    units::count,
};
use crate::report::Report;

/// What was not counted, always said; and what was left out on purpose.
pub fn losses(report: &Report<'_>, page: &mut Page<impl Write>) -> io::Result<()> {
    page.section("Losses")?;
    let lost = report.losses(true);
    if lost.values().all(|count| *count == 0) {
        page.line(Style::Good, "  Nothing lost: every operation is counted.")?;
    }
    for (style, reasons) in [(Style::Warning, lost), (Style::Dim, report.losses(false))] {
        for (name, times) in reasons.into_iter().filter(|(_, times)| *times > 0) {
            let known = diag::NAMES.iter().position(|known| *known == name);
            let meaning = known.map_or("", |index| diag::MEANINGS[index]);
            page.prose(style, &format!("{} {name}: {meaning}", count(times)))?;
        }
    }
    let overflow = report.overflow.operations();
    if overflow > 0 {
        let text = format!(
            "{} overflow: Operations counted exactly to their process, but to no file, because the \
             counters of files were full.",
            count(overflow)
        );
        page.prose(Style::Warning, &text)?;
    }
    Ok(())
}
