//! Tables: by process and file, by interval, process and phase, or by operation; as CSV, or as JSON. Written row by row.

use std::{
    borrow::Cow,
    io::{self, Write},
};

use serde::{Serialize, Serializer, ser::SerializeMap};

use super::{
    Export,
    columns::{self, Value},
};
use iotrace_model::run::rfc3339;

/// Version of the JSON tables. It rises when a name or a meaning changes, not when a name is added.
const FORMAT_VERSION: u32 = 1;

/// What one row of a table is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum By {
    /// A process and a file: all counters, over the whole run.
    File,
    /// An interval, a process and a phase.
    Interval,
    /// One operation; the recording must have an operation trace.
    Operation,
}

/// How a table is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// With a line of names; quoted as RFC 4180 has it.
    Csv,
    /// One object, with the rows in its list `rows`.
    Json,
}

/// Writes a table.
pub fn write(
    export: &Export<'_>,
    by: By,
    encoding: Encoding,
    mut out: impl Write,
) -> io::Result<()> {
    let columns = match by {
        By::File => columns::file_columns(),
        By::Interval => columns::INTERVAL.map(String::from).to_vec(),
        By::Operation => columns::OPERATION.map(String::from).to_vec(),
    };
    if encoding == Encoding::Json {
        begin_json(export, by, &mut out)?;
    } else {
        let names: Vec<_> = columns.iter().map(|name| name.as_str().into()).collect();
        csv_line(names.into_iter(), &mut out)?;
    }
    let mut first = true;
    each_row(export, by, &mut |row| match encoding {
        Encoding::Csv => csv_line(row.iter().map(csv_text), &mut out),
        Encoding::Json => {
            out.write_all(if std::mem::take(&mut first) {
                b"\n"
            } else {
                b",\n"
            })?;
            Ok(serde_json::to_writer(&mut out, &JsonRow(&columns, row))?)
        }
    })?;
    if encoding == Encoding::Json {
        out.write_all(b"\n]}\n")?;
    }
    Ok(())
}

type RowSink<'s> = dyn FnMut(&[Value<'_>]) -> io::Result<()> + 's;

fn each_row(export: &Export<'_>, by: By, sink: &mut RowSink<'_>) -> io::Result<()> {
    match by {
        By::File => file_rows(export, sink),
        By::Interval => interval_rows(export, sink),
        By::Operation => operation_rows(export, sink),
    }
}

fn file_rows(export: &Export<'_>, sink: &mut RowSink<'_>) -> io::Result<()> {
    let rows = export.rows();
    let mut rows = rows.iter().peekable();
    for (place, process) in export.processes().enumerate() {
        while let Some((_, row)) = rows.next_if(|(of, _)| *of == place) {
            if let Some(counters) = export.counters(row) {
                sink(&columns::file_row(export, process, row, &counters))?;
            }
        }
        let rest = [
            ("by_name", &process.path_only),
            ("overflow", &process.overflow),
        ];
        for (name, cell) in rest.into_iter().filter(|_| !export.is_by_phase()) {
            let counters = cell.total();
            if !counters.is_zero() {
                sink(&columns::rest_row(export, process, name, &counters))?;
            }
        }
    }
    Ok(())
}

fn interval_rows(export: &Export<'_>, sink: &mut RowSink<'_>) -> io::Result<()> {
    let processes: Vec<_> = export.processes().collect();
    for interval in export.intervals() {
        for ((place, phase), activity) in &interval.activities {
            let process = processes[*place];
            sink(&columns::interval_row(
                export, &interval, process, *phase, activity,
            ))?;
        }
    }
    Ok(())
}

/// Goes through the traces row group by row group.
fn operation_rows(export: &Export<'_>, sink: &mut RowSink<'_>) -> io::Result<()> {
    let processes: Vec<_> = export.processes().collect();
    let mut written = Ok(());
    let visited = export.each_operation(|operation| {
        if written.is_ok() {
            let process = processes[operation.place];
            written = sink(&columns::operation_row(export, process, &operation));
        }
    });
    visited.map_err(io::Error::other)?;
    written
}

fn begin_json(export: &Export<'_>, by: By, mut out: impl Write) -> io::Result<()> {
    let run = export.run;
    let head = serde_json::json!({
        "format_version": FORMAT_VERSION,
        "iotrace_version": run.iotrace_version,
        "host": export.hosts(),
        "kernel": run.kernel,
        "detail": run.detail,
        "start_time": rfc3339(run.start_unix_ns),
        "duration_seconds": run.duration_ns as f64 / 1e9,
        "complete": export.complete,
        "losses": run.losses,
        "by": match by { By::File => "file", By::Interval => "interval", By::Operation => "operation" },
    });
    let head = head.to_string();
    let head = head.strip_suffix('}').unwrap_or(&head);
    write!(out, "{head},\"rows\":[")
}

/// A row as an object, without what it has not.
struct JsonRow<'a>(&'a [String], &'a [Value<'a>]);

impl Serialize for JsonRow<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (name, value) in self.0.iter().zip(self.1) {
            match value {
                Value::None => {}
                Value::Text(text) => map.serialize_entry(name, text)?,
                Value::Int(number) => map.serialize_entry(name, number)?,
                Value::Signed(number) => map.serialize_entry(name, number)?,
                Value::Float(number) => map.serialize_entry(name, number)?,
                Value::Flag(flag) => map.serialize_entry(name, flag)?,
            }
        }
        map.end()
    }
}

fn csv_text<'a>(value: &'a Value<'_>) -> Cow<'a, str> {
    match value {
        Value::None => "".into(),
        // Spreadsheets would take it for a formula, which can read files and run programs.
        Value::Text(text) if text.starts_with(['=', '+', '-', '@', '\t', '\r']) => {
            format!("'{text}").into()
        }
        Value::Text(text) => text.as_ref().into(),
        Value::Int(number) => number.to_string().into(),
        Value::Signed(number) => number.to_string().into(),
        Value::Float(number) => number.to_string().into(),
        Value::Flag(flag) => flag.to_string().into(),
    }
}

fn csv_line<'a>(
    fields: impl Iterator<Item = Cow<'a, str>>,
    out: &mut impl Write,
) -> io::Result<()> {
    for (index, field) in fields.enumerate() {
        if index > 0 {
            out.write_all(b",")?;
        }
        if field.contains(['"', ',', '\n', '\r']) {
            write!(out, "\"{}\"", field.replace('"', "\"\""))?;
        } else {
            out.write_all(field.as_bytes())?;
        }
    }
    out.write_all(b"\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_quoted_where_they_must_be() {
        let mut out = Vec::new();
        let fields = ["plain", "", "a,b", "say \"x\"\n", " blank "].map(Cow::from);
        csv_line(fields.into_iter(), &mut out).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "plain,,\"a,b\",\"say \"\"x\"\"\n\", blank \n"
        );
    }

    #[test]
    fn no_text_is_a_formula() {
        for text in ["=1+1", "+1", "-1", "@x", "\t=1", "\r=1"] {
            let value = Value::Text(text.into());
            assert_eq!(csv_text(&value), format!("'{text}"));
        }
        assert_eq!(csv_text(&Value::Text("a=1".into())), "a=1");
        assert_eq!(csv_text(&Value::Signed(-1)), "-1");
    }

    #[test]
    fn every_row_has_all_columns() {
        let columns = columns::file_columns();
        let distinct: std::collections::BTreeSet<_> = columns.iter().collect();
        assert_eq!(distinct.len(), columns.len());
    }
}
