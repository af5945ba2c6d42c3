//! Phases in the text report.

use std::io::{self, Write};

use super::{
    table::{Page, Style, Table},
    units::{bytes, count, duration, rate, share, some, some_bytes},
};
use crate::{
    classify::phase::Phase,
    model::counters::{self, Counters},
    report::{Report, sum::Sum},
};

/// What was done in each phase.
pub fn phases(report: &Report<'_>, page: &mut Page<impl Write>) -> io::Result<()> {
    let used: Vec<_> = Phase::ALL
        .into_iter()
        .filter_map(|phase| Some((phase, report.phases.get(phase)?)))
        .collect();
    if used.is_empty() {
        return Ok(());
    }
    page.section("Phases")?;
    let whole = report.totals.counters.nanoseconds();
    let mut table = Table::new(&[
        "<",
        "READ",
        "WRITTEN",
        "CALLS",
        "TIME",
        "SHARE",
        "BYTES / TIME",
        "FILES",
    ]);
    for (phase, sum) in used {
        table.row(cells(
            phase.to_string(),
            &sum.sum.counters,
            whole,
            sum.files,
        ));
    }
    let mut beside = Sum::default();
    beside.add(&report.by_name);
    beside.add(&report.overflow);
    if beside.counters.operations() > 0 {
        let cells = cells("no file".into(), &beside.counters, whole, 0);
        table.styled_row(Style::Dim, cells);
    }
    page.table(&table)?;
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

fn cells(name: String, counters: &Counters, whole: u64, files: u64) -> Vec<String> {
    let v = &counters.v;
    let data = v[counters::READ_NS] + v[counters::WRITE_NS] + v[counters::SYNC_NS];
    vec![
        name,
        some_bytes(v[counters::BYTES_READ]),
        some_bytes(v[counters::BYTES_WRITTEN]),
        count(counters.operations()),
        duration(counters.nanoseconds()),
        share(counters.nanoseconds(), whole),
        rate(counters.bytes(), data),
        some(files),
    ]
}
