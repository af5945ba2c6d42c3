//! Failed operations by class and error.

use std::io;

use crate::Report;
use crate::text::{
    escape::shorten,
    table::{Page, Style, Table},
    units::{count, duration},
};
use iotrace_common::op;
use iotrace_model::{FailureCount, counters::saturating_sum, errno};
use std::cmp::Reverse;

/// Kinds of failure before the rest is summed up.
const MAX_ROWS: usize = 12;

/// Failed calls by operation and error.
pub fn text(report: &Report<'_>, page: &mut Page<'_>) -> io::Result<()> {
    let mut kinds: Vec<(&(u32, u32), &FailureCount)> = report.failures.iter().collect();
    if kinds.is_empty() {
        return Ok(());
    }
    kinds.sort_by_key(|(key, count)| (Reverse(count.calls), **key));
    let (shown, rest) = kinds.split_at(kinds.len().min(MAX_ROWS));
    page.section("Failures")?;
    let mut table = Table::new(&["CALLS", "TIME", "<OPERATION", "<ERROR"]);
    for ((op, errno), failed) in shown {
        let operation = op::NAMES.get(*op as usize).copied().unwrap_or("unknown");
        table.row(vec![
            count(failed.calls),
            duration(failed.ns),
            operation.into(),
            errno::name(*errno).into(),
        ]);
    }
    if !rest.is_empty() {
        let calls = saturating_sum(rest.iter().map(|(_, failed)| failed.calls));
        let ns = saturating_sum(rest.iter().map(|(_, failed)| failed.ns));
        table.styled_row(
            Style::Dim,
            vec![count(calls), duration(ns), "others".into(), String::new()],
        );
    }
    table.push_column(page, "", |row, room| {
        shown
            .get(row)
            .map(|((_, errno), _)| shorten(meaning(*errno).as_bytes(), room))
            .unwrap_or_default()
    });
    page.table(table)
}

fn meaning(errno: u32) -> String {
    if errno >= 512 {
        return "Interrupted by a signal".to_owned();
    }
    let text = io::Error::from_raw_os_error(errno as i32).to_string();
    text.split(" (os error")
        .next()
        .unwrap_or_default()
        .to_owned()
}
