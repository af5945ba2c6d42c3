//! The report as one JSON object, written row by row: `docs/reference/report-json.md` is its schema.

mod diff;
pub mod entries;
mod view;

use std::io::{self, BufWriter, Write};

pub use diff::diff_json;
use entries::seconds;
use serde::{Serialize, Serializer, ser::SerializeMap};
pub use view::view_json;

use super::{FORMAT_VERSION, Report, sections::json_entries};
use iotrace_model::run::{Target, rfc3339};

/// Writes the report as one JSON object and a newline.
pub fn json(report: &Report<'_>, out: impl Write) -> io::Result<()> {
    write(&Whole(report), out)
}

/// As [`json()`], without the lists of processes, files and intervals.
pub fn summary_json(report: &Report<'_>, out: impl Write) -> io::Result<()> {
    write(&Summary(report), out)
}

fn write(value: &impl Serialize, out: impl Write) -> io::Result<()> {
    let mut out = BufWriter::with_capacity(1 << 16, out);
    serde_json::to_writer(&mut out, value)?;
    out.write_all(b"\n")?;
    out.flush()
}

struct Whole<'a>(&'a Report<'a>);

impl Serialize for Whole<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serialize(self.0, true, serializer)
    }
}

/// The report without its long lists.
pub struct Summary<'a>(pub &'a Report<'a>);

impl Serialize for Summary<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serialize(self.0, false, serializer)
    }
}

fn serialize<S: Serializer>(
    report: &Report<'_>,
    is_whole: bool,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let run = report.run;
    let mut map = serializer.serialize_map(None)?;
    map.serialize_entry("format_version", &FORMAT_VERSION)?;
    map.serialize_entry("iotrace_version", &run.iotrace_version)?;
    map.serialize_entry("host", &run.host)?;
    map.serialize_entry("kernel", &run.kernel)?;
    map.serialize_entry("hook", &run.hook)?;
    map.serialize_entry("detail", &run.detail)?;
    map.serialize_entry("merged_time", &run.merged_time)?;
    match &run.target {
        Target::Command(command) => map.serialize_entry("command", command)?,
        Target::Pids(pids) => map.serialize_entry("pids", pids)?,
        Target::All(all) => map.serialize_entry("all", all)?,
        Target::Unit(unit) => map.serialize_entry("unit", unit)?,
    }
    map.serialize_entry("exit_code", &run.exit_code)?;
    map.serialize_entry("start_time", &rfc3339(run.start_unix_ns))?;
    map.serialize_entry("duration_seconds", &seconds(run.duration_ns))?;
    if let Some(selection) = &report.selection {
        map.serialize_entry("selection", &selection.json())?;
    }
    json_entries(&mut map, report, is_whole)?;
    map.end()
}
