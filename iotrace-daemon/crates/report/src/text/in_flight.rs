//! Calls that had not returned, in the text report.

use std::io;

use super::{
    escape::shorten,
    table::{Page, Style, Table},
    units::{count, duration},
};
use crate::{Report, json::phases::NAMES};

/// Calls before the rest is summed up.
const ROWS: usize = 12;

/// Who has been in which call on which file, and for how long.
pub fn in_flight(report: &Report<'_>, page: &mut Page<'_>) -> io::Result<()> {
    let calls = &report.run.in_flight;
    if calls.is_empty() {
        return Ok(());
    }
    page.section(&format!("Calls in flight: {}", count(calls.len() as u64)))?;
    let mut table = Table::new(&["FOR", "PID", "TID", "<OPERATION"]);
    for call in calls.iter().take(ROWS) {
        table.row(vec![
            if call.began_before {
                format!("> {}", duration(call.ns))
            } else {
                duration(call.ns)
            },
            call.pid.to_string(),
            call.tid.to_string(),
            call.operation.clone(),
        ]);
    }
    table.push_column(page, "FILE", |row, room| match &calls[row].path {
        Some(path) => shorten(path.as_bytes(), room),
        None => "not known yet".into(),
    });
    page.table(table)?;
    if calls.len() > ROWS {
        let rest = format!("  and {} more", count((calls.len() - ROWS) as u64));
        page.line(Style::Dim, &rest)?;
    }
    let by_phase = NAMES.map(|name| (name, report.in_flight_ns(name, None)));
    let by_phase: Vec<String> = by_phase
        .into_iter()
        .filter(|(_, ns)| *ns > 0)
        .map(|(name, ns)| format!("{name} {}", duration(ns)))
        .collect();
    page.prose(Style::Plain, &format!("By phase: {}.", by_phase.join(", ")))?;
    page.prose(
        Style::Dim,
        "They had not returned when the recording ended, and are in none of the counters.",
    )
}
