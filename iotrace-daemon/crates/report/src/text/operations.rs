//! Operations, access sizes and failures in the text report.

use std::{cmp::Reverse, io};

use iotrace_common::{bucket, op};

use super::{
    escape::shorten,
    table::{Page, Style, Table},
    units::{bytes, count, duration, share, some},
};
use crate::Report;
use iotrace_model::{FailureCount, counters, errno, top::commonest};

/// Kinds of failure before the rest is summed up.
const FAILURES: usize = 12;

/// How often each operation was called, in three columns.
pub fn operations(report: &Report<'_>, page: &mut Page<'_>) -> io::Result<()> {
    let v = &report.totals.counters.v;
    let mut kinds: Vec<(u64, u64, &str)> = (0..op::COUNT)
        .map(|op| {
            let failed = report
                .failures
                .range((op as u32, 0)..=(op as u32, u32::MAX));
            (
                v[op],
                failed.map(|(_, count)| count.calls).sum(),
                op::NAMES[op],
            )
        })
        .filter(|(calls, failed, _)| calls + failed > 0)
        .collect();
    if kinds.is_empty() {
        return Ok(());
    }
    kinds.sort_by_key(|(calls, failed, name)| (Reverse(calls + failed), *name));
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
    let eof = v[counters::ZERO_READS];
    if eof > 0 {
        page.line(
            Style::Plain,
            &format!(
                "  {} reads returned 0 bytes: the end of the file.",
                count(eof)
            ),
        )?;
    }
    Ok(())
}

/// Calls by size of access, the commonest sizes, and the pattern (detail `full`).
pub fn access_sizes(report: &Report<'_>, page: &mut Page<'_>) -> io::Result<()> {
    let v = &report.totals.counters.v;
    let reads = &v[counters::READ_SIZE_0_100..=counters::READ_SIZE_1G_PLUS];
    let writes = &v[counters::WRITE_SIZE_0_100..=counters::WRITE_SIZE_1G_PLUS];
    let (all_reads, all_writes) = (reads.iter().sum(), writes.iter().sum());
    if all_reads + all_writes == 0 {
        return Ok(());
    }
    page.section("Access sizes")?;
    let mut table = Table::new(&[
        "<BYTES IN A CALL",
        "READS",
        "SHARE",
        "<",
        "WRITES",
        "SHARE",
        "<",
    ]);
    for bucket in (0..bucket::SIZES).filter(|bucket| reads[*bucket] + writes[*bucket] > 0) {
        let mut cells = vec![SIZE_LABELS[bucket].to_owned()];
        for (calls, whole) in [(reads[bucket], all_reads), (writes[bucket], all_writes)] {
            let shown = if calls == 0 {
                String::new()
            } else {
                share(calls, whole)
            };
            cells.extend([count(calls), shown, bar(calls, whole)]);
        }
        table.row(cells);
    }
    page.table(table)?;
    let common = commonest(
        report
            .totals
            .sizes
            .iter()
            .map(|(size, calls)| (*size, *calls)),
        4,
    );
    let common = common
        .iter()
        .map(|(size, calls)| format!("{} × {}", size_text(*size), count(*calls)));
    let common = common.collect::<Vec<_>>().join(", ");
    if !common.is_empty() {
        page.line(Style::Plain, &format!("  Commonest: {common}."))?;
    }
    for (name, all, sequential, consecutive) in [
        (
            "Reads",
            all_reads,
            v[counters::SEQUENTIAL_READS],
            v[counters::CONSECUTIVE_READS],
        ),
        (
            "Writes",
            all_writes,
            v[counters::SEQUENTIAL_WRITES],
            v[counters::CONSECUTIVE_WRITES],
        ),
    ] {
        if all > 0 {
            let (forward, right) = (share(sequential, all), share(consecutive, all));
            let text = format!(
                "  {name}: {forward} went forward in the file, {right} began where the one before ended."
            );
            page.line(Style::Plain, &text)?;
        }
    }
    Ok(())
}

const SIZE_LABELS: [&str; bucket::SIZES] = [
    "0 to 100 B",
    "to 1 KiB",
    "to 10 KiB",
    "to 100 KiB",
    "to 1 MiB",
    "to 4 MiB",
    "to 10 MiB",
    "to 100 MiB",
    "to 1 GiB",
    "above 1 GiB",
];

/// A size that is read as one: exact where rounding would hide something.
fn size_text(size: u64) -> String {
    let rounded = bytes(size);
    let is_whole = (0..6)
        .any(|unit| size >> (10 * unit) < 1024 && (size >> (10 * unit)) << (10 * unit) == size);
    if is_whole {
        rounded.replace(".00", "").replace(".0 ", " ")
    } else {
        format!("{} B", count(size))
    }
}

const BAR: u64 = 16;

fn bar(part: u64, whole: u64) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    if part == 0 || whole == 0 {
        return String::new();
    }
    let eighths = (part as f64 / whole as f64 * (BAR * 8) as f64)
        .round()
        .max(1.0) as usize;
    "█".repeat(eighths / 8) + EIGHTHS[eighths % 8]
}

/// Failed calls by operation and error.
pub fn failures(report: &Report<'_>, page: &mut Page<'_>) -> io::Result<()> {
    let mut kinds: Vec<(&(u32, u32), &FailureCount)> = report.failures.iter().collect();
    if kinds.is_empty() {
        return Ok(());
    }
    kinds.sort_by_key(|(key, count)| (Reverse(count.calls), **key));
    let (shown, rest) = kinds.split_at(kinds.len().min(FAILURES));
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
        let calls = rest.iter().map(|(_, failed)| failed.calls).sum();
        let ns = rest.iter().map(|(_, failed)| failed.ns).sum();
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
