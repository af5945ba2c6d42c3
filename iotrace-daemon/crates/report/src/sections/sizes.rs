//! Access sizes and access pattern.

use std::io;

use crate::Report;
use crate::text::{
    table::{Page, Style, Table},
    units::{bytes, count, share},
};
use iotrace_common::bucket;
use iotrace_model::{counters, counters::saturating_sum, top::commonest};

/// Calls by size of access, the commonest sizes, and the pattern (detail `full`).
pub fn text(report: &Report<'_>, page: &mut Page<'_>) -> io::Result<()> {
    let v = &report.totals.counters.v;
    let reads = &v[counters::READ_SIZE_0_100..=counters::READ_SIZE_1G_PLUS];
    let writes = &v[counters::WRITE_SIZE_0_100..=counters::WRITE_SIZE_1G_PLUS];
    let [all_reads, all_writes] =
        [reads, writes].map(|calls| saturating_sum(calls.iter().copied()));
    if all_reads == 0 && all_writes == 0 {
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
    for bucket in (0..bucket::SIZES).filter(|bucket| reads[*bucket] > 0 || writes[*bucket] > 0) {
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

/// Length of the longest bar.
const BAR_COLUMNS: u64 = 16;

fn bar(part: u64, whole: u64) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    if part == 0 || whole == 0 {
        return String::new();
    }
    let eighths = (part as f64 / whole as f64 * (BAR_COLUMNS * 8) as f64)
        .round()
        .max(1.0) as usize;
    "█".repeat(eighths / 8) + EIGHTHS[eighths % 8]
}
