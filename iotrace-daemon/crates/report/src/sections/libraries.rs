//! Library calls and marked ranges.

use std::io;

use crate::json::entries::{Entry, Object, Text, entries, path_entry, process_entries, seconds};
use crate::text::{
    escape::{escape, shorten},
    table::{Page, Style, Table},
    units::{bytes, count, duration, some, some_bytes},
};
use crate::{
    Report,
    library::{LibraryRow, NamedRanges, OfSubject, Subject, length},
};
use iotrace_common::library::{FUNCTIONS, NAMES, class};
use iotrace_model::{counters::saturating_sum, library::Range, run::Probed};
use serde::Serialize;
use std::cmp::Reverse;

/// Rows of each table; further rows are counted.
const MAX_ROWS: usize = 15;

/// Calls of each library, and marked ranges.
pub fn text(report: &Report<'_>, page: &mut Page<'_>) -> io::Result<()> {
    for library in NAMES {
        let mut subjects = report.library_subjects(library);
        if !subjects.is_empty() {
            subjects.sort_by_key(|(subject, sum)| (Reverse(time(sum)), subject.clone()));
            of_library(library, &subjects, page)?;
        }
    }
    let probed = &report.run.uprobes;
    for late in probed.iter().filter(|probed| probed.late_ns > 0) {
        let text = format!(
            "The probes on {} came {} after it was mapped: calls until then are not counted.",
            escape(late.file.as_bytes()),
            duration(late.late_ns)
        );
        page.prose(Style::Warning, &text)?;
    }
    ranges(report, page)
}

fn of_library(
    library: &str,
    subjects: &[(Subject, OfSubject)],
    page: &mut Page<'_>,
) -> io::Result<()> {
    page.section(&format!("Calls of {library}"))?;
    let mut table = Table::new(&[
        "READS", "READ", "WRITES", "WRITTEN", "OTHERS", "FAILED", "TIME", "SYSCALLS",
    ]);
    let shown = &subjects[..subjects.len().min(MAX_ROWS)];
    for (_, sum) in shown {
        let all = [&sum.reads, &sum.writes, &sum.others];
        table.row(vec![
            some(sum.reads.calls),
            some_bytes(sum.reads.bytes),
            some(sum.writes.calls),
            some_bytes(sum.writes.bytes),
            some(sum.others.calls),
            some(saturating_sum(all.map(|calls| calls.failures))),
            duration(time(sum)),
            sum.system_calls.map(count).unwrap_or_default(),
        ]);
    }
    table.push_column(page, "FILE", |row, room| {
        let (subject, _) = &shown[row];
        let name = if subject.path.is_empty() {
            b"(not known)"
        } else {
            subject.path.as_slice()
        };
        if subject.object.is_empty() {
            return shorten(name, room);
        }
        shorten(&[name, b" ", &subject.object].concat(), room)
    });
    page.table(table)?;
    if subjects.len() > shown.len() {
        let more = count((subjects.len() - shown.len()) as u64);
        page.line(Style::Dim, &format!("  and {more} more"))?;
    }
    let moved =
        |pick: fn(&OfSubject) -> u64| saturating_sum(subjects.iter().map(|(_, sum)| pick(sum)));
    let text = format!(
        "{} read and {} written by calls of the library; SYSCALLS are the reads and writes of the same file by system \
         calls.",
        bytes(moved(|sum| sum.reads.bytes)),
        bytes(moved(|sum| sum.writes.bytes))
    );
    page.prose(Style::Dim, &text)
}

fn time(sum: &OfSubject) -> u64 {
    saturating_sum([sum.reads.ns, sum.writes.ns, sum.others.ns])
}

/// Ranges that programs marked, by name.
fn ranges(report: &Report<'_>, page: &mut Page<'_>) -> io::Result<()> {
    let names = report.range_names();
    if names.is_empty() {
        return Ok(());
    }
    page.section("Marked ranges")?;
    let mut table = Table::new(&[
        "TIMES", "TIME", "MEAN", "SHORTEST", "LONGEST", "READ", "WRITTEN", "CALLS", "IN CALLS",
    ]);
    let shown = &names[..names.len().min(MAX_ROWS)];
    for name in shown {
        table.row(vec![
            count(name.count),
            duration(name.ns),
            duration(name.ns / name.count.max(1)),
            duration(name.shortest_ns),
            duration(name.longest_ns),
            some_bytes(name.io.bytes_read),
            some_bytes(name.io.bytes_written),
            some(name.io.operations),
            duration(name.io.ns),
        ]);
    }
    table.push_column(page, "RANGE", |row, room| shorten(&shown[row].name, room));
    page.table(table)?;
    if names.len() > shown.len() {
        let more = count((names.len() - shown.len()) as u64);
        page.line(Style::Dim, &format!("  and {more} more names"))?;
    }
    page.prose(
        Style::Dim,
        "What is read and written is that of all traced processes while the range lasted.",
    )
}

/// The key `uprobes`, if there is anything to say.
pub fn json(report: &Report<'_>) -> Option<impl Serialize> {
    let model = report.model.libraries();
    let is_there = !report.run.uprobes.is_empty()
        || model.all().next().is_some()
        || !model.ranges().is_empty();
    if !is_there {
        return None;
    }
    let probes = report.run.uprobes.iter().map(probes_json);
    let rows = report.library_rows().into_iter();
    let rows = rows.map(|row| row_json(report, row));
    let names = report.range_names().into_iter().map(name_json);
    let ranges = |is_mark| {
        let all = model.ranges().iter();
        let mut ranges: Vec<&Range> = all.filter(|range| range.is_mark == is_mark).collect();
        ranges.sort_by_key(|range| (range.start, range.depth));
        let ranges = ranges.into_iter().map(|range| range_json(report, range));
        ranges.collect::<Vec<_>>()
    };
    Some(Object(entries![
        Entry("libraries", probes.collect::<Vec<_>>()),
        Entry("calls", rows.collect::<Vec<_>>()),
        Entry("range_names", names.collect::<Vec<_>>()),
        Entry("ranges", ranges(false)),
        Entry("marks", ranges(true)),
        Entry("unmatched_ends", model.unmatched),
    ]))
}

fn probes_json(probed: &Probed) -> impl Serialize {
    Object(entries![
        Entry("library", &probed.library),
        Entry("file", &probed.file),
        Entry("functions", &probed.functions),
        Entry("missing", &probed.missing),
        Entry("late_seconds", seconds(probed.late_ns)),
    ])
}

fn row_json(report: &Report<'_>, row: LibraryRow) -> impl Serialize {
    let (symbol, function) = FUNCTIONS[usize::from(row.function)];
    let (subject, calls) = (row.subject, row.calls);
    let path = subject.path;
    Object(entries![
        process_entries(report, row.process),
        Entry("library", NAMES[usize::from(function.library)]),
        Entry("function", symbol),
        Entry("class", class::NAMES[usize::from(function.class)]),
        path_entry(path),
        (!subject.object.is_empty()).then_some(Text("object", subject.object)),
        Entry("calls", calls.calls),
        Entry("failures", calls.failures),
        Entry("bytes", calls.bytes),
        Entry("seconds", seconds(calls.ns)),
        Entry("slowest_seconds", seconds(calls.slowest_ns)),
    ])
}

fn name_json(name: NamedRanges) -> impl Serialize {
    Object(entries![
        Text("name", name.name),
        Entry("count", name.count),
        Entry("unended", name.unended),
        Entry("seconds", seconds(name.ns)),
        Entry("mean_seconds", seconds(name.ns / name.count.max(1))),
        Entry("shortest_seconds", seconds(name.shortest_ns)),
        Entry("longest_seconds", seconds(name.longest_ns)),
        Entry("operations", name.io.operations),
        Entry("bytes_read", name.io.bytes_read),
        Entry("bytes_written", name.io.bytes_written),
        Entry("seconds_in_calls", seconds(name.io.ns)),
    ])
}

fn range_json(report: &Report<'_>, range: &Range) -> impl Serialize {
    let done = range.done;
    let lasted = (!range.is_mark).then(|| {
        entries![
            Entry("end", range.end.map(|end| report.at(end))),
            Entry("seconds", length(range).map(seconds)),
            Entry("operations", done.operations),
            Entry("bytes_read", done.bytes_read),
            Entry("bytes_written", done.bytes_written),
            Entry("seconds_in_calls", seconds(done.ns)),
        ]
    });
    Object(entries![
        process_entries(report, range.process),
        Entry("tid", range.tid),
        Text("name", &range.name),
        Entry("depth", range.depth),
        Entry("start", report.at(range.start)),
        lasted,
    ])
}
