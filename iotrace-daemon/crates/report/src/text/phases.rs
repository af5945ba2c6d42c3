//! Phases in the text report.

use std::io;

use super::{
    table::{Page, Style, Table},
    units::{bytes, count, duration, rate, share, some_bytes},
};
use crate::{Report, merged::Merged};
use iotrace_analysis::sum::Sum;
use iotrace_model::counters::{self, Counters};
use iotrace_phases::phase::Phase;

/// What was done in each phase.
pub fn phases(report: &Report<'_>, page: &mut Page<'_>) -> io::Result<()> {
    let used: Vec<_> = Phase::ALL
        .into_iter()
        .filter_map(|phase| Some((phase, report.phases.get(phase)?)))
        .collect();
    if used.is_empty() {
        return Ok(());
    }
    page.section("Phases")?;
    let mut table = Table::new(&[
        "<",
        "READ",
        "WRITTEN",
        "CALLS",
        "TIME",
        "MERGED",
        "OF RUN",
        "BYTES / MERGED",
        "FILES",
    ])
    .dispensable(&["BYTES / MERGED", "CALLS"]);
    for (phase, sum) in used {
        let merged = report.merged(|other| other == phase);
        let counters = &sum.sum.counters;
        let cells = cells(report, phase.to_string(), counters, Some(merged), sum.files);
        table.row(cells);
    }
    let mut beside = Sum::default();
    beside.add(&report.path_only);
    beside.add(&report.overflow);
    if beside.counters.operations() > 0 {
        let cells = cells(report, "no file".into(), &beside.counters, None, 0);
        table.styled_row(Style::Dim, cells);
    }
    page.table(table)?;
    components(report, page)?;
    overlapped(report, page)?;
    let unmatched = report
        .phases
        .get(Phase::UNMATCHED)
        .map_or(0, |sum| sum.sum.counters.bytes());
    if unmatched > 0 {
        let text = format!(
            "No rule matches the files of {}: `iotrace phases` lists the rules, and `--rules` takes more.",
            bytes(unmatched)
        );
        page.prose(Style::Dim, &text)?;
    }
    Ok(())
}

/// What the time of the run went into.
fn components(report: &Report<'_>, page: &mut Page<'_>) -> io::Result<()> {
    let run = report.run.duration_ns;
    let breakdown = report.breakdown();
    if run == 0 || breakdown.read.at_most + breakdown.checkpoint.at_most == 0 {
        return Ok(());
    }
    let part = |merged: &Merged| {
        let (time, of_run) = (duration(merged.at_most), share(merged.at_most, run));
        format!("{}{time} ({of_run})", bound(merged))
    };
    let (least, most) = (breakdown.rest_at_least(), breakdown.rest_at_most());
    let rest = if least == most {
        duration(most)
    } else {
        format!("{} to {}", duration(least), duration(most))
    };
    let text = format!(
        "Of {}: reads of training data {}, checkpoints {}, the rest {rest}. Merged time counts what overlaps once{}.",
        duration(run),
        part(&breakdown.read),
        part(&breakdown.checkpoint),
        if breakdown.read.is_exact() && breakdown.checkpoint.is_exact() {
            ""
        } else {
            "; over processes that overlap it is known within bounds only (≤)"
        }
    );
    page.prose(Style::Plain, &text)
}

/// How much of reads and saves overlapped with computing.
fn overlapped(report: &Report<'_>, page: &mut Page<'_>) -> io::Result<()> {
    let told = [
        (Phase::Training, "reads of training data"),
        (Phase::Checkpoint, "checkpoints"),
    ];
    let parts = told.into_iter().filter_map(|(phase, name)| {
        let merged = report.merged(|other| other == phase);
        let both = report.overlapped(&merged, |other| other == phase)?;
        let (least, most) = (duration(both.at_least), duration(both.at_most));
        let time = match both.at_least == both.at_most {
            true => most,
            false => format!("{least} to {most}"),
        };
        (merged.at_most > 0).then(|| format!("{time} of {name}"))
    });
    let parts: Vec<String> = parts.collect();
    if parts.is_empty() {
        return Ok(());
    }
    let text = format!(
        "While other threads of the job computed: {}.",
        parts.join(", ")
    );
    page.prose(Style::Plain, &text)
}

/// What stands before a merged time that is not exact.
fn bound(merged: &Merged) -> &'static str {
    if merged.is_exact() { "" } else { "≤" }
}

fn cells(
    report: &Report<'_>,
    name: String,
    counters: &Counters,
    merged: Option<Merged>,
    files: u64,
) -> Vec<String> {
    let v = &counters.v;
    let merged = merged.unwrap_or_default();
    let known = merged.at_most > 0;
    let some = |text: String| if known { text } else { String::new() };
    let at_least = if merged.is_exact() { "" } else { "≥" };
    let rate = rate(counters.bytes(), merged.at_most);
    vec![
        name,
        some_bytes(v[counters::BYTES_READ]),
        some_bytes(v[counters::BYTES_WRITTEN]),
        count(counters.operations()),
        duration(counters.nanoseconds()),
        some(format!("{}{}", bound(&merged), duration(merged.at_most))),
        some(share(merged.at_most, report.run.duration_ns)),
        if rate.is_empty() {
            rate
        } else {
            format!("{at_least}{rate}")
        },
        super::units::some(files),
    ]
}
