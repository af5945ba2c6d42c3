//! Operations, bytes and time by kind of operation.

use std::io;

use crate::Report;
use crate::json::entries::{CounterMap, Entry, Object, entries, failure_entries};
use crate::text::{
    table::{Page, Style, Table},
    units::{bytes, count, duration, rate, share},
};
use iotrace_common::op;
use iotrace_model::counters::{self, Counters};
use serde::Serialize;

/// Calls, bytes and time by kind of operation.
pub fn text(report: &Report<'_>, page: &mut Page<'_>) -> io::Result<()> {
    let counters = &report.totals.counters;
    let v = &counters.v;
    page.section("Totals")?;
    let (reads, writes) = (counters.calls(op::is_read), counters.calls(op::is_write));
    let syncs = counters.calls(op::is_sync);
    let all = counters.operations();
    let others = counters::saturating_sum([reads, writes, syncs, v[counters::FAILURES]]);
    let meta = all.saturating_sub(others);
    let whole = counters.nanoseconds();
    let mut table = Table::new(&[
        "<",
        "CALLS",
        "BYTES",
        "TIME IN CALLS",
        "SHARE",
        "BYTES / TIME",
    ]);
    for (name, calls, moved, ns) in [
        ("read", reads, v[counters::BYTES_READ], v[counters::READ_NS]),
        (
            "write",
            writes,
            v[counters::BYTES_WRITTEN],
            v[counters::WRITE_NS],
        ),
        ("sync", syncs, 0, v[counters::SYNC_NS]),
        ("metadata", meta, 0, v[counters::META_NS]),
        ("failed", v[counters::FAILURES], 0, v[counters::FAILED_NS]),
    ] {
        let moved_text = if name == "read" || name == "write" {
            bytes(moved)
        } else {
            String::new()
        };
        table.row(vec![
            name.into(),
            count(calls),
            moved_text,
            duration(ns),
            share(ns, whole),
            rate(moved, ns),
        ]);
    }
    let moved = report.totals.counters.bytes();
    table.row(vec![
        "all".into(),
        count(all),
        bytes(moved),
        duration(whole),
        String::new(),
        String::new(),
    ]);
    page.table(table)?;
    from_storage(report, page)?;
    let kinds = [
        (report.process_order.len(), "process", "processes"),
        (report.files.len(), "file", "files"),
        (report.directories.len(), "directory", "directories"),
    ];
    let kinds = kinds
        .map(|(n, one, many)| format!("{} {}", count(n as u64), if n == 1 { one } else { many }));
    page.line(
        Style::Plain,
        &format!(
            "  {}. Time in calls is summed over threads.",
            kinds.join(", ")
        ),
    )
}

/// What came from storage and what from the page cache, and how files were used as memory.
fn from_storage(report: &Report<'_>, page: &mut Page<'_>) -> io::Result<()> {
    let counters = &report.totals.counters;
    let v = &counters.v;
    let (fetched, by_reads) = (v[counters::BYTES_FETCHED], counters.fetched_by_reads());
    if fetched > 0 {
        let cached = share(counters.cached(), v[counters::BYTES_READ]);
        let cached = match cached.as_str() {
            "" => String::new(),
            _ if !report.analysis.knows_cache => String::new(),
            cached => format!("; about {cached} of what was read was in the page cache"),
        };
        let text = format!(
            "From storage: {} by reads and readahead, {} by page faults{cached}.",
            bytes(by_reads),
            bytes(fetched - by_reads),
        );
        page.prose(Style::Plain, &text)?;
    }
    let waited = match v[counters::TIMED_MAJOR_FAULTS] {
        0 => String::new(),
        faults => format!(
            "{} waited {} for storage",
            count(faults),
            duration(v[counters::MAJOR_FAULT_NS])
        ),
    };
    if v[counters::FAULTS] == 0 {
        // Older kernels tell no more of them.
        return match waited.as_str() {
            "" => Ok(()),
            waited => page.prose(
                Style::Plain,
                &format!("Page faults on mapped files: {waited}."),
            ),
        };
    }
    let dirtied = match v[counters::MAPPED_BYTES_DIRTIED] {
        0 => String::new(),
        dirtied => format!("; stores changed {}", bytes(dirtied)),
    };
    let waited = match waited.as_str() {
        "" => String::new(),
        waited => format!("; {waited}"),
    };
    let text = format!(
        "Mapped files: {} page faults, {} of them major, on at least {}{dirtied}{waited}. None of it is in the table.",
        count(v[counters::FAULTS]),
        count(v[counters::MAJOR_FAULTS]),
        bytes(v[counters::MAPPED_BYTES]),
    );
    page.prose(Style::Plain, &text)
}

/// Bytes by way of access: what one has, no other has too.
#[derive(Serialize)]
struct ByAccess {
    read: u64,
    written: u64,
    mapped: u64,
    all: u64,
}

impl ByAccess {
    fn of(of: &Counters) -> Self {
        let [read, written, mapped] = [
            counters::BYTES_READ,
            counters::BYTES_WRITTEN,
            counters::MAPPED_BYTES,
        ]
        .map(|index| of.v[index]);
        Self {
            read,
            written,
            mapped,
            all: read.saturating_add(written).saturating_add(mapped),
        }
    }
}

/// The key `totals`.
pub fn json(report: &Report<'_>) -> impl Serialize {
    let failures = report.failures.iter();
    let failures = failures.map(|((op, errno), count)| (*op, *errno, *count));
    Object(entries![
        Entry("processes", report.process_order.len()),
        Entry("files", report.files.len()),
        Entry("directories", report.directories.len()),
        CounterMap::of_sum(report, &report.totals),
        Entry("bytes_by_access", ByAccess::of(&report.totals.counters)),
        failure_entries(failures, true),
    ])
}
