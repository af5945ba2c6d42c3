//! The columns of the recording's tables.

use iotrace_model::{
    counters::{Descriptor, TABLE, Unit},
    spans::COUNTERS,
};

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Signed, 64 bits.
    Int,
    /// Unsigned, 64 bits.
    Unsigned,
    /// Microseconds since the Unix epoch, UTC.
    Timestamp,
    /// UTF-8.
    Text,
    /// Bytes that are no UTF-8.
    Bytes,
    Flag,
    /// A list of pairs, by the names of their two members.
    Pairs(&'static str, &'static str),
}

/// One column.
#[derive(Clone, Debug)]
pub struct Field {
    pub name: String,
    pub kind: Kind,
    pub optional: bool,
}

impl Field {
    /// Parquet columns that it takes.
    pub fn leaves(&self) -> usize {
        if matches!(self.kind, Kind::Pairs(..)) {
            2
        } else {
            1
        }
    }

    fn declaration(&self) -> String {
        let name = &self.name;
        let repetition = if self.optional {
            "optional"
        } else {
            "required"
        };
        match self.kind {
            Kind::Int => format!("{repetition} int64 {name};"),
            Kind::Unsigned => format!("{repetition} int64 {name} (INTEGER(64,false));"),
            Kind::Timestamp => format!("{repetition} int64 {name} (TIMESTAMP(MICROS,true));"),
            Kind::Text => format!("{repetition} binary {name} (STRING);"),
            Kind::Bytes => format!("{repetition} binary {name};"),
            Kind::Flag => format!("{repetition} boolean {name};"),
            Kind::Pairs(first, second) => format!(
                "required group {name} (LIST) {{ repeated group list {{ required group element {{ \
                 required int64 {first}; required int64 {second}; }} }} }}"
            ),
        }
    }
}

/// One table: the name of its file, and its columns in order.
#[derive(Debug)]
pub struct Schema {
    pub name: &'static str,
    pub fields: Vec<Field>,
}

impl Schema {
    /// Its file in a part.
    pub fn file_name(&self) -> String {
        format!("{}.parquet", self.name)
    }

    /// The schema in Parquet's own notation.
    pub fn declaration(&self) -> String {
        let fields: Vec<_> = self.fields.iter().map(Field::declaration).collect();
        format!("message {} {{ {} }}", self.name, fields.join(" "))
    }
}

fn required(name: &str, kind: Kind) -> Field {
    Field {
        name: name.into(),
        kind,
        optional: false,
    }
}

fn optional(name: &str, kind: Kind) -> Field {
    Field {
        name: name.into(),
        kind,
        optional: true,
    }
}

/// Column of a counter: durations and moments say their unit.
pub fn counter_name(descriptor: &Descriptor) -> String {
    match descriptor.unit {
        Unit::Calls | Unit::Bytes | Unit::Mode => descriptor.name.to_owned(),
        Unit::Nanoseconds => format!("{}_ns", descriptor.name),
        Unit::Moment => format!("{}_unix_ns", descriptor.name),
    }
}

/// Its column.
fn counter_field(descriptor: &Descriptor) -> Field {
    Field {
        name: counter_name(descriptor),
        kind: Kind::Int,
        optional: descriptor.unit == Unit::Moment,
    }
}

/// Columns that tell an interval and a process, and a table's own.
fn of_process<const OWN: usize>(own: [Field; OWN]) -> Vec<Field> {
    let shared = [
        required("interval_start", Kind::Timestamp),
        required("interval_end", Kind::Timestamp),
        required("host", Kind::Text),
        required("pid", Kind::Int),
        required("start_key", Kind::Int),
    ];
    shared.into_iter().chain(own).collect()
}

/// Counters of one interval: one row per process and file, and for calls by name and overflow.
pub fn files() -> Schema {
    use Kind::{Bytes, Flag, Int, Pairs, Text, Unsigned};
    let mut fields = of_process([
        required("place", Text),
        optional("type", Text),
        optional("path", Text),
        optional("path_raw", Bytes),
        optional("opened_as", Text),
        optional("opened_as_raw", Bytes),
        required("path_truncated", Flag),
        required("deleted", Flag),
        optional("size", Int),
        optional("mode", Int),
        optional("device", Text),
        optional("inode", Unsigned),
        optional("generation", Int),
        optional("mount_point", Text),
        optional("fs_type", Text),
        optional("fs_magic", Int),
        optional("block_size", Int),
        required("phases", Text),
    ]);
    fields.extend(TABLE.iter().map(counter_field));
    fields.push(required("access_sizes", Pairs("size", "count")));
    fields.push(required("strides", Pairs("stride", "count")));
    Schema {
        name: "files",
        fields,
    }
}

/// Processes that are new or changed since the part before; the last row of a process is the whole of it.
pub fn processes() -> Schema {
    use Kind::{Bytes, Int, Text, Timestamp};
    let fields = vec![
        required("host", Text),
        required("pid", Int),
        required("start_key", Int),
        required("start_boottime_ns", Int),
        optional("start_time", Timestamp),
        required("ppid", Int),
        optional("uid", Int),
        required("comm", Text),
        optional("comm_raw", Bytes),
        required("exe", Text),
        optional("exe_raw", Bytes),
        required("command", Text),
        required("args_raw", Bytes),
        optional("rank", Int),
        optional("rank_variable", Text),
        optional("job", Text),
        required("execs", Int),
        optional("end_time", Timestamp),
        optional("end_unix_ns", Int),
        optional("status", Int),
        optional("exit_code", Int),
    ];
    Schema {
        name: "processes",
        fields,
    }
}

/// What each process did in one interval by phase, as the kernel side sorted it.
pub fn phases() -> Schema {
    use Kind::{Int, Text};
    let fields = of_process([
        required("phase", Text),
        required("operations", Int),
        required("bytes_read", Int),
        required("bytes_written", Int),
        required("calls_ns", Int),
        required("merged_ns", Int),
    ]);
    Schema {
        name: "phases",
        fields,
    }
}

/// What a process did with a file in one interval, by span: one use of it, in the phases whose uses are counted apart.
pub fn spans() -> Schema {
    use Kind::{Bytes, Int, Text, Unsigned};
    let mut fields = of_process([
        required("span", Int),
        optional("path", Text),
        optional("path_raw", Bytes),
        optional("device", Text),
        optional("inode", Unsigned),
        optional("generation", Int),
    ]);
    fields.extend(COUNTERS.map(|index| counter_field(&TABLE[index])));
    Schema {
        name: "spans",
        fields,
    }
}

/// CPU time of one interval, by process.
pub fn cpu() -> Schema {
    use Kind::{Int, Text, Timestamp};
    Schema {
        name: "cpu",
        fields: vec![
            required("interval_start", Timestamp),
            required("interval_end", Timestamp),
            required("host", Text),
            required("pid", Int),
            required("start_key", Int),
            required("cpu_ns", Int),
            required("computing_at_least_ns", Int),
            required("beside_calls_at_most_ns", Int),
            required("between_looks_ns", Int),
        ],
    }
}

/// Time of main threads in one interval, by what it went to.
pub fn waits() -> Schema {
    use Kind::{Bytes, Int, Text, Timestamp, Unsigned};
    Schema {
        name: "waits",
        fields: vec![
            required("interval_start", Timestamp),
            required("interval_end", Timestamp),
            required("host", Text),
            required("pid", Int),
            required("start_key", Int),
            required("tid", Int),
            required("leaf", Text),
            optional("by_pid", Int),
            optional("by_start_key", Int),
            optional("path", Text),
            optional("path_raw", Bytes),
            optional("device", Text),
            optional("inode", Unsigned),
            optional("generation", Int),
            required("phase", Text),
            required("ns", Int),
        ],
    }
}

/// Merged time of one interval over all processes, by phases.
pub fn merged() -> Schema {
    use Kind::{Int, Text, Timestamp};
    Schema {
        name: "merged",
        fields: vec![
            required("interval_start", Timestamp),
            required("interval_end", Timestamp),
            required("host", Text),
            required("phases", Text),
            required("merged_ns", Int),
            required("uncertain_ns", Int),
        ],
    }
}

/// Requests to block devices of one interval, by device and operation.
pub fn devices() -> Schema {
    use Kind::{Int, Pairs, Text, Timestamp};
    Schema {
        name: "devices",
        fields: vec![
            required("interval_start", Timestamp),
            required("interval_end", Timestamp),
            required("host", Text),
            required("device", Text),
            required("device_name", Text),
            required("operation", Text),
            required("requests", Int),
            required("bytes", Int),
            required("failures", Int),
            required("requests_ns", Int),
            required("most_in_flight", Int),
            required("durations", Pairs("bucket", "count")),
        ],
    }
}

/// Bytes moved between devices and files in one interval, by process and file.
pub fn transfers() -> Schema {
    use Kind::{Bytes, Int, Text, Timestamp, Unsigned};
    Schema {
        name: "transfers",
        fields: vec![
            required("interval_start", Timestamp),
            required("interval_end", Timestamp),
            required("host", Text),
            optional("pid", Int),
            optional("start_key", Int),
            optional("path", Text),
            optional("path_raw", Bytes),
            optional("device", Text),
            optional("inode", Unsigned),
            optional("generation", Int),
            required("device_reads", Int),
            required("device_writes", Int),
            required("device_bytes_read", Int),
            required("device_bytes_written", Int),
        ],
    }
}

/// Failed calls of one interval by process, place, operation and error.
pub fn errors() -> Schema {
    use Kind::{Int, Text, Unsigned};
    let fields = of_process([
        required("place", Text),
        optional("device", Text),
        optional("inode", Unsigned),
        optional("generation", Int),
        required("operation", Text),
        required("error", Text),
        required("errno", Int),
        required("calls", Int),
        required("failed_ns", Int),
    ]);
    Schema {
        name: "errors",
        fields,
    }
}

/// Look-ups of one interval that found nothing, by process and directory.
pub fn missing() -> Schema {
    use Kind::{Bytes, Int, Text};
    let fields = of_process([
        optional("directory", Text),
        optional("directory_raw", Bytes),
        required("calls", Int),
        required("failed_ns", Int),
    ]);
    Schema {
        name: "missing",
        fields,
    }
}

/// Calls of libraries: one row per process, function, file and object.
pub fn library() -> Schema {
    use Kind::{Int, Pairs, Text, Unsigned};
    let mut fields = of_process([
        required("library", Text),
        required("function", Text),
        required("class", Text),
        optional("path", Text),
        optional("path_raw", Kind::Bytes),
        optional("device", Text),
        optional("inode", Unsigned),
        optional("generation", Int),
        optional("opened_name", Text),
        optional("opened_name_raw", Kind::Bytes),
        optional("object", Text),
        optional("object_raw", Kind::Bytes),
    ]);
    let counters = [
        "calls",
        "failures",
        "bytes",
        "ns",
        "slowest_ns",
        "slowest_bytes",
        "max_byte",
    ];
    fields.extend(counters.map(|name| required(name, Int)));
    fields.extend([
        optional("first_call_unix_ns", Int),
        optional("last_call_unix_ns", Int),
        required("call_sizes", Pairs("bucket", "count")),
    ]);
    Schema {
        name: "library",
        fields,
    }
}

/// Ranges and moments that programs marked.
pub fn ranges() -> Schema {
    use Kind::{Flag, Int, Text};
    let mut fields = vec![
        required("host", Text),
        required("pid", Int),
        required("start_key", Int),
        required("tid", Int),
        required("name", Text),
        optional("name_raw", Kind::Bytes),
        required("is_moment", Flag),
        required("depth", Int),
        required("range_start_unix_ns", Int),
        optional("range_end_unix_ns", Int),
    ];
    let counters = ["operations", "bytes_read", "bytes_written", "calls_ns"];
    fields.extend(counters.map(|name| required(name, Int)));
    Schema {
        name: "ranges",
        fields,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotrace_model::counters::{Level, Merge};

    #[test]
    fn parquet_takes_the_schemas() {
        for schema in all() {
            let parsed =
                parquet::schema::parser::parse_message_type(&schema.declaration()).unwrap();
            assert_eq!(parsed.get_fields().len(), schema.fields.len());
        }
    }

    fn all() -> [Schema; 12] {
        [
            files(),
            processes(),
            errors(),
            phases(),
            cpu(),
            waits(),
            merged(),
            devices(),
            transfers(),
            missing(),
            library(),
            ranges(),
        ]
    }

    const DOCUMENT: &str = include_str!("../../../../docs/reference/recording-format.md");
    const COUNTERS_DOCUMENT: &str = include_str!("../../../../docs/reference/counters.md");

    #[test]
    fn every_column_is_documented() {
        for field in all().into_iter().flat_map(|schema| schema.fields) {
            let name = format!("`{}`", field.name);
            assert!(
                DOCUMENT.contains(&name) || COUNTERS_DOCUMENT.contains(&name),
                "{name}"
            );
        }
    }

    #[test]
    fn counters_are_documented_as_they_are() {
        for descriptor in &TABLE {
            let merge = match descriptor.merge {
                Merge::Sum => "sum",
                Merge::Max | Merge::Peak => "max",
                Merge::Earliest => "min",
                Merge::Newest => "last that is not 0",
                Merge::OfPeak => "with the one before",
            };
            let level = match descriptor.level {
                Level::Basic => "basic",
                Level::Full => "full",
            };
            let name = counter_name(descriptor);
            let start = format!("| `{name}` | ");
            let end = format!(" | {merge} | {level} | {} |", descriptor.doc);
            let mut lines = COUNTERS_DOCUMENT.lines();
            assert!(
                lines.any(|line| line.starts_with(&start) && line.ends_with(&end)),
                "{start}...{end}"
            );
        }
    }
}
