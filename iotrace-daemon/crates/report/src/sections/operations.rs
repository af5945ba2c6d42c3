//! How often each operation was called.

use std::io;

use crate::Report;
use crate::text::{
    table::{Page, Style, Table},
    units::{bytes, count, duration, some},
};
use iotrace_common::op;
use iotrace_model::counters::{TABLE, Unit, saturating_sum, shown::LINES};
use std::cmp::Reverse;

/// How often each operation was called, in three columns.
pub fn text(report: &Report<'_>, page: &mut Page<'_>) -> io::Result<()> {
    let v = &report.totals.counters.v;
    let mut kinds: Vec<(u64, u64, &str)> = (0..op::COUNT)
        .map(|op| {
            let failed = report
                .failures
                .range((op as u32, 0)..=(op as u32, u32::MAX));
            (
                v[op],
                saturating_sum(failed.map(|(_, count)| count.calls)),
                op::NAMES[op],
            )
        })
        .filter(|(calls, failed, _)| *calls > 0 || *failed > 0)
        .collect();
    if kinds.is_empty() {
        return Ok(());
    }
    kinds.sort_by_key(|(calls, failed, name)| (Reverse(calls.saturating_add(*failed)), *name));
    page.section("Operations")?;
    let lines = kinds.len().div_ceil(3);
    let mut table = Table::new(&[
        "<", "CALLS", "FAILED", "<   ", "CALLS", "FAILED", "<   ", "CALLS", "FAILED",
    ]);
    for line in 0..lines {
        let mut cells = Vec::new();
        for (calls, failed, name) in kinds.iter().skip(line).step_by(lines) {
            let indent = if cells.is_empty() { "" } else { "   " };
            cells.extend([format!("{indent}{name}"), some(*calls), some(*failed)]);
        }
        table.row(cells);
    }
    page.table(table)?;
    for (counter, text) in LINES.iter().filter(|(counter, _)| v[*counter] > 0) {
        let value = match TABLE[*counter].unit {
            Unit::Bytes => bytes(v[*counter]),
            Unit::Nanoseconds => duration(v[*counter]),
            Unit::Calls | Unit::Moment | Unit::Mode => count(v[*counter]),
        };
        page.line(Style::Plain, &format!("  {}", text.replace("{}", &value)))?;
    }
    Ok(())
}
