//! What was not counted.

use std::io;

use crate::Report;
use crate::text::{
    escape::escape,
    table::{Page, Style},
    units::{bytes, count},
};
use iotrace_common::diag;
use iotrace_model::run::{SECONDS_BETWEEN_LOGS, TraceMissing, TraceRun};
use serde::Serialize;
use std::collections::BTreeMap;

/// What a reason means.
fn meaning(name: &str) -> &'static str {
    let diagnostics = diag::NAMES.into_iter().zip(diag::MEANINGS);
    let known = diagnostics
        .chain(diag::MISSES)
        .chain([(
            SECONDS_BETWEEN_LOGS,
            "Seconds in which the service did not run, between two logs of the job.",
        )])
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
pub fn text(report: &Report<'_>, page: &mut Page<'_>) -> io::Result<()> {
    page.section("Losses")?;
    let lost = report.losses(true);
    if lost.values().all(|count| *count == 0) {
        match report.is_incomplete() {
            true => page.line(Style::Plain, "  Nothing else lost.")?,
            false => page.line(Style::Good, "  Nothing lost: every operation is counted.")?,
        }
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
    if let Some(timeline) = report.run.timeline.filter(|one| one.dropped > 0) {
        let text = format!(
            "{} waits had no room in the timeline: iotrace whatif cannot use it.",
            count(timeline.dropped)
        );
        page.prose(Style::Warning, &text)?;
    }
    let overflow = report.overflow.operations();
    if overflow > 0 {
        let text = format!(
            "{} overflow: Operations counted exactly to their process, but to no file. The counters of files were full, or, in a \
             job log, it was not known yet whether the job's user may see the names.",
            count(overflow)
        );
        page.prose(Style::Warning, &text)?;
    }
    Ok(())
}

/// The key `trace`: the operation trace.
#[derive(Serialize)]
pub struct TraceJson<'a> {
    operations: u64,
    bytes: u64,
    parts: u32,
    filter: &'a [String],
    max_bytes: Option<u64>,
    lost: u64,
    lost_share: f64,
    left_out: u64,
    /// By process.
    missing: &'a [TraceMissing],
}

impl<'a> TraceJson<'a> {
    pub fn of(trace: &'a TraceRun) -> Self {
        Self {
            operations: trace.operations,
            bytes: trace.bytes,
            parts: trace.parts,
            filter: &trace.filter,
            max_bytes: trace.most_bytes,
            lost: trace.lost(),
            lost_share: trace.lost_share(),
            left_out: trace.left_out(),
            missing: &trace.missing,
        }
    }
}

impl Report<'_> {
    /// Every reason with its count, 0 included: those that lose something, or those that do not. Without the parts of one,
    /// which are among what is not seen.
    pub fn losses(&self, lost: bool) -> BTreeMap<&str, u64> {
        let known = diag::NAMES
            .iter()
            .zip(diag::IS_LOSS)
            .filter(|(name, is_loss)| *is_loss == lost && !diag::is_part(name));
        let mut losses: BTreeMap<&str, u64> = known.map(|(name, _)| (*name, 0)).collect();
        if lost {
            losses.extend(diag::MISSES.map(|(name, _)| (name, 0)));
        }
        for (name, count) in &self.run.losses {
            if diag::is_loss(name) == lost && !diag::is_part(name) {
                losses.insert(name, *count);
            }
        }
        losses
    }
}
