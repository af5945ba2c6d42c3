//! What was not counted, in the text report.

use std::io;

use iotrace_common::diag;

use super::{
    escape::escape,
    table::{Page, Style},
    units::{bytes, count},
};
use crate::Report;
use iotrace_model::run::TraceRun;

/// What a reason means.
fn meaning(name: &str) -> &'static str {
    let diagnostics = diag::NAMES.into_iter().zip(diag::MEANINGS);
    let known = diagnostics
        .chain(diag::MISSES)
        .find(|(known, _)| *known == name);
    known.map_or("", |(_, meaning)| meaning)
}

/// What the operation trace has, and what it has not.
fn operations(trace: &TraceRun, page: &mut Page<'_>) -> io::Result<()> {
    let text = format!(
        "{} operations in the trace, {}.",
        count(trace.operations),
        bytes(trace.bytes)
    );
    page.prose(Style::Dim, &text)?;
    if trace.lost() > 0 {
        let text = format!(
            "{} operations ({:.2} %) are lost in the trace, of {} processes: the kernel's buffer was full \
             (--trace-buffer), or they could not be written. They are counted.",
            count(trace.lost()),
            trace.lost_share() * 100.0,
            trace.missing.iter().filter(|one| one.lost > 0).count()
        );
        page.prose(Style::Warning, &text)?;
    }
    if trace.left_out() > 0 {
        let text = format!(
            "{} operations came when the trace had reached its size; they are counted, and not in it.",
            count(trace.left_out())
        );
        page.prose(Style::Warning, &text)?;
    }
    Ok(())
}

/// What was not counted, always said; and what was left out on purpose.
pub fn losses(report: &Report<'_>, page: &mut Page<'_>) -> io::Result<()> {
    page.section("Losses")?;
    let lost = report.losses(true);
    if lost.values().all(|count| *count == 0) {
        page.line(Style::Good, "  Nothing lost: every operation is counted.")?;
    }
    for (style, reasons) in [(Style::Warning, lost), (Style::Dim, report.losses(false))] {
        for (name, times) in reasons.into_iter().filter(|(_, times)| *times > 0) {
            let shown = escape(name.as_bytes());
            let text = format!("{} {shown}: {}", count(times), meaning(name));
            page.prose(style, &text)?;
        }
    }
    if let Some(trace) = &report.run.trace {
        operations(trace, page)?;
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
