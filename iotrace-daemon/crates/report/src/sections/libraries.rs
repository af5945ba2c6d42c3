//! Library calls and marked ranges.

use std::io;

use crate::json::entries::{Seq, seconds, text_entries};
use crate::text::{
    escape::{escape, shorten},
    table::{Page, Style, Table},
    units::{bytes, count, duration, some, some_bytes},
};
use crate::{
    Report,
    library::{LibraryRow, OfName, OfSubject, Subject, length},
};
use iotrace_common::library::{Calls, FUNCTIONS, NAMES, class};
use iotrace_model::{library::Range, run::Probed};
use serde::{Serialize, Serializer, ser::SerializeMap};
use std::cmp::Reverse;

/// Files of a library, and names of ranges, before the rest is counted.
const MAX_ROWS: usize = 15;

/// What programs asked each library for.
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
            some(all.iter().map(|calls| calls.failures).sum()),
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
    let moved = |pick: fn(&OfSubject) -> u64| subjects.iter().map(|(_, sum)| pick(sum)).sum();
    let text = format!(
        "{} read and {} written by calls of the library; SYSCALLS are the reads and writes of the same file by system \
         calls.",
        bytes(moved(|sum| sum.reads.bytes)),
        bytes(moved(|sum| sum.writes.bytes))
    );
    page.prose(Style::Dim, &text)
}

fn time(sum: &OfSubject) -> u64 {
    sum.reads.ns + sum.writes.ns + sum.others.ns
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
            some_bytes(name.bytes_read),
            some_bytes(name.bytes_written),
            some(name.operations),
            duration(name.calls_ns),
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

/// The key `uprobes`.
pub struct Uprobes<'a>(&'a Report<'a>);

impl<'a> Uprobes<'a> {
    /// None if there is nothing to say.
    pub fn of(report: &'a Report<'a>) -> Option<Self> {
        let libraries = report.model.libraries();
        let is_there = !report.run.uprobes.is_empty()
            || libraries.all().next().is_some()
            || !libraries.ranges().is_empty();
        is_there.then_some(Self(report))
    }
}

impl Serialize for Uprobes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let report = self.0;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("libraries", &Seq(|| report.run.uprobes.iter().map(Probes)))?;
        let rows = report.library_rows();
        let row = |row| RowJson { report, row };
        map.serialize_entry("calls", &Seq(|| rows.iter().map(row)))?;
        let names = report.range_names();
        map.serialize_entry("range_names", &Seq(|| names.iter().map(NameJson)))?;
        for (key, is_mark) in [("ranges", false), ("marks", true)] {
            let all = report.model.libraries().ranges().iter();
            let mut ranges: Vec<&Range> = all.filter(|range| range.is_mark == is_mark).collect();
            ranges.sort_by_key(|range| (range.start, range.depth));
            let ranges = ranges.iter().map(|range| RangeJson { report, range });
            map.serialize_entry(key, &ranges.collect::<Vec<_>>())?;
        }
        map.serialize_entry("unmatched_ends", &report.model.libraries().unmatched)?;
        map.end()
    }
}

struct Probes<'a>(&'a Probed);

impl Serialize for Probes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("library", &self.0.library)?;
        map.serialize_entry("file", &self.0.file)?;
        map.serialize_entry("functions", &self.0.functions)?;
        map.serialize_entry("missing", &self.0.missing)?;
        map.serialize_entry("late_seconds", &seconds(self.0.late_ns))?;
        map.end()
    }
}

struct RowJson<'a> {
    report: &'a Report<'a>,
    row: &'a LibraryRow,
}

impl Serialize for RowJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let process = &self.report.model.processes()[self.row.process as usize];
        let (symbol, function) = FUNCTIONS[usize::from(self.row.function)];
        let Calls {
            calls,
            failures,
            bytes,
            ns,
            slowest_ns,
            ..
        } = self.row.calls;
        let mut map = serializer.serialize_map(None)?;
        if let Some(host) = self.report.host_of(process.node) {
            map.serialize_entry("host", host)?;
        }
        map.serialize_entry("pid", &process.id.pid)?;
        map.serialize_entry("library", NAMES[usize::from(function.library)])?;
        map.serialize_entry("function", symbol)?;
        map.serialize_entry("class", class::NAMES[usize::from(function.class)])?;
        let subject = &self.row.subject;
        match &*subject.path {
            [] => map.serialize_entry("path", &None::<&str>)?,
            path => text_entries(&mut map, "path", "path_hex", path)?,
        }
        if !subject.object.is_empty() {
            text_entries(&mut map, "object", "object_hex", &subject.object)?;
        }
        map.serialize_entry("calls", &calls)?;
        map.serialize_entry("failures", &failures)?;
        map.serialize_entry("bytes", &bytes)?;
        map.serialize_entry("seconds", &seconds(ns))?;
        map.serialize_entry("slowest_seconds", &seconds(slowest_ns))?;
        map.end()
    }
}

struct NameJson<'a>(&'a OfName);

impl Serialize for NameJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let name = self.0;
        let mut map = serializer.serialize_map(None)?;
        text_entries(&mut map, "name", "name_hex", &name.name)?;
        map.serialize_entry("count", &name.count)?;
        map.serialize_entry("unended", &name.unended)?;
        for (key, ns) in [
            ("seconds", name.ns),
            ("mean_seconds", name.ns / name.count.max(1)),
            ("shortest_seconds", name.shortest_ns),
            ("longest_seconds", name.longest_ns),
        ] {
            map.serialize_entry(key, &seconds(ns))?;
        }
        map.serialize_entry("operations", &name.operations)?;
        map.serialize_entry("bytes_read", &name.bytes_read)?;
        map.serialize_entry("bytes_written", &name.bytes_written)?;
        map.serialize_entry("seconds_in_calls", &seconds(name.calls_ns))?;
        map.end()
    }
}

struct RangeJson<'a> {
    report: &'a Report<'a>,
    range: &'a Range,
}

impl Serialize for RangeJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { report, range } = self;
        let process = &report.model.processes()[range.process as usize];
        let mut map = serializer.serialize_map(None)?;
        if let Some(host) = report.host_of(process.node) {
            map.serialize_entry("host", host)?;
        }
        map.serialize_entry("pid", &process.id.pid)?;
        map.serialize_entry("tid", &range.tid)?;
        text_entries(&mut map, "name", "name_hex", &range.name)?;
        map.serialize_entry("depth", &range.depth)?;
        map.serialize_entry("start", &report.at(range.start))?;
        if !range.is_mark {
            map.serialize_entry("end", &range.end.map(|end| report.at(end)))?;
            map.serialize_entry("seconds", &length(range).map(seconds))?;
            map.serialize_entry("operations", &range.done.operations)?;
            map.serialize_entry("bytes_read", &range.done.bytes_read)?;
            map.serialize_entry("bytes_written", &range.done.bytes_written)?;
            map.serialize_entry("seconds_in_calls", &seconds(range.done.ns))?;
        }
        map.end()
    }
}
