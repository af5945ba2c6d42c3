//! Calls of libraries and marked ranges in the JSON report.

use iotrace_common::library::{Calls, FUNCTIONS, NAMES, class};
use serde::{Serialize, Serializer, ser::SerializeMap};

use super::{Report, Seq, entries::text_entries, seconds};
use crate::library::{LibraryRow, OfName, length};
use iotrace_model::{library::Range, run::Probed};

/// The key `uprobes`.
pub struct Uprobes<'a>(pub &'a Report<'a>);

impl Uprobes<'_> {
    /// Whether there is anything to say.
    pub fn are_there(&self) -> bool {
        let libraries = self.0.model.libraries();
        !self.0.run.uprobes.is_empty()
            || libraries.all().next().is_some()
            || !libraries.ranges().is_empty()
    }
}

impl Serialize for Uprobes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let report = self.0;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("libraries", &Seq(|| report.run.uprobes.iter().map(OfFile)))?;
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

struct OfFile<'a>(&'a Probed);

impl Serialize for OfFile<'_> {
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
