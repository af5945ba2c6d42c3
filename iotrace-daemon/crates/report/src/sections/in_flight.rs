//! Calls that had not returned when the recording ended.

use std::io;

use super::phases::NAMES;
use crate::Report;
use crate::json::entries::seconds;
use crate::text::{
    escape::shorten,
    table::{Page, Style, Table},
    units::{count, duration},
};
use iotrace_model::run::{Run, rfc3339};
use iotrace_phases::phase::Phase;
use serde_json::{Value as Json, json};

/// Rows of the text; further calls are counted.
const MAX_ROWS: usize = 12;

/// Who has been in which call on which file, and for how long.
pub fn text(report: &Report<'_>, page: &mut Page<'_>) -> io::Result<()> {
    let calls = &report.run.in_flight;
    if calls.is_empty() {
        return Ok(());
    }
    page.section(&format!("Calls in flight: {}", count(calls.len() as u64)))?;
    let mut table = Table::new(&["FOR", "PID", "TID", "<OPERATION"]);
    for call in calls.iter().take(MAX_ROWS) {
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
    if calls.len() > MAX_ROWS {
        let rest = format!("  and {} more", count((calls.len() - MAX_ROWS) as u64));
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

/// The key `in_flight`.
pub fn json(run: &Run) -> Json {
    let calls = run.in_flight.iter();
    let calls = calls.map(|call| {
        let phase = (call.phase != 0).then(|| Phase::from_code(call.phase).name());
        json!({
            "pid": call.pid,
            "tid": call.tid,
            "operation": call.operation,
            "path": call.path,
            "mount_point": call.mount_point,
            "fs_type": call.fs_type,
            "phase": phase,
            "seconds": seconds(call.ns),
            "began_before": call.began_before,
            "since": rfc3339(call.start_unix_ns),
        })
    });
    Json::Array(calls.collect())
}
