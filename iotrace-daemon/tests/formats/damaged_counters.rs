//! Recordings whose counters are as large as a reader lets pass: sums of them end at the largest number, and no report
//! wraps or panics. Debug builds check each addition.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
};

use iotrace_model::counters::{TABLE, Unit};
use parquet::{
    basic::Type,
    column::reader::{ColumnReader, get_typed_column_reader},
    data_type::{BoolType, ByteArrayType, DataType, Int64Type},
    file::{
        properties::WriterProperties,
        reader::{FileReader as _, RowGroupReader, SerializedFileReader},
        writer::{SerializedColumnWriter, SerializedFileWriter},
    },
};

use crate::common::golden;

/// A reader refuses what is larger.
const LARGEST: i64 = (1 << 56) - 1;
/// Each row comes so often that its sum does not fit into 64 bits.
const COPIES: usize = 300;
/// Tables that have no counters, or a row for each moment of a thread.
const NOT_COPIED: [&str; 3] = ["processes", "timeline", "ranges"];
/// Counters outside the table of counters that do not end with `_ns`.
const OTHERS: [&str; 21] = [
    "bytes",
    "bytes_read",
    "bytes_written",
    "calls",
    "closes",
    "count",
    "device_bytes_read",
    "device_bytes_written",
    "device_reads",
    "device_writes",
    "failures",
    "most_in_flight",
    "ns",
    "opens",
    "operations",
    "others",
    "reads",
    "requests",
    "size",
    "slow",
    "writes",
];

fn is_counter(name: &str) -> bool {
    let listed = TABLE.iter().find(|counter| counter.column == name);
    let is_moment = name.contains("unix") || name.contains("boottime");
    match listed {
        Some(counter) => counter.unit != Unit::Moment,
        None => OTHERS.contains(&name) || name.ends_with("_ns") && !is_moment,
    }
}

/// Replaces a table by one with each row many times, and with the largest counters.
fn enlarge(table: &Path) {
    let name = table
        .file_stem()
        .and_then(|name| name.to_str())
        .expect("a name");
    let copies = if NOT_COPIED.contains(&name) {
        1
    } else {
        COPIES
    };
    let reader = SerializedFileReader::new(File::open(table).expect("a table")).expect("Parquet");
    let schema = Arc::new(reader.metadata().file_metadata().schema().clone());
    let enlarged = table.with_extension("new");
    let file = File::create(&enlarged).expect("room");
    let properties = Arc::new(WriterProperties::builder().build());
    let mut writer = SerializedFileWriter::new(file, schema, properties).expect("a schema");
    for group in 0..reader.num_row_groups() {
        let group = reader.get_row_group(group).expect("a group");
        let mut copy = writer.next_row_group().expect("a group");
        for index in 0..group.num_columns() {
            let mut column = copy.next_column().expect("a column").expect("as many");
            copy_column(&*group, index, &mut column, copies);
            column.close().expect("written");
        }
        copy.close().expect("written");
    }
    writer.close().expect("written");
    fs::rename(enlarged, table).expect("one directory");
}

fn copy_column(
    group: &dyn RowGroupReader,
    index: usize,
    to: &mut SerializedColumnWriter<'_>,
    copies: usize,
) {
    let about = group.metadata().column(index).column_descr_ptr();
    let is_counter = is_counter(about.name());
    let from = group.get_column_reader(index).expect("a column");
    let rows = group.metadata().num_rows() as usize;
    match about.physical_type() {
        Type::INT64 => copy_values::<Int64Type>(from, rows, to, copies, |value| {
            if is_counter && *value > 0 {
                *value = LARGEST;
            }
        }),
        Type::BOOLEAN => copy_values::<BoolType>(from, rows, to, copies, |_| ()),
        _ => copy_values::<ByteArrayType>(from, rows, to, copies, |_| ()),
    }
}

fn copy_values<T: DataType>(
    from: ColumnReader,
    rows: usize,
    to: &mut SerializedColumnWriter<'_>,
    copies: usize,
    change: impl Fn(&mut T::T),
) {
    let (mut values, mut presence, mut lists) = (Vec::new(), Vec::new(), Vec::new());
    let mut reader = get_typed_column_reader::<T>(from);
    let read = reader.read_records(rows, Some(&mut presence), Some(&mut lists), &mut values);
    assert_eq!(read.expect("a column").0, rows);
    values.iter_mut().for_each(change);
    let presence = (!presence.is_empty()).then(|| presence.repeat(copies));
    let lists = (!lists.is_empty()).then(|| lists.repeat(copies));
    let values: Vec<T::T> = std::iter::repeat_n(values, copies).flatten().collect();
    let written = to
        .typed::<T>()
        .write_batch(&values, presence.as_deref(), lists.as_deref());
    written.expect("written");
}

/// The recording of a name, with the largest counters and without the checksums that would tell it.
fn damaged(name: &str) -> golden::Kept {
    let kept = golden::kept(name);
    let entries = fs::read_dir(&kept.recording).expect("a recording");
    let parts = entries.map(|entry| entry.expect("an entry").path());
    for part in parts.filter(|path| path.is_dir()) {
        for file in fs::read_dir(part).expect("a part") {
            let file = file.expect("an entry").path();
            if file.ends_with("checksums") {
                fs::remove_file(file).expect("it was there");
            } else {
                enlarge(&file);
            }
        }
    }
    kept
}

/// The output of iotrace; none where it does not end well.
fn run(args: &[&str], recordings: &[&PathBuf]) -> Result<String, String> {
    let mut iotrace = Command::new(env!("CARGO_BIN_EXE_iotrace"));
    let out = iotrace
        .args(args)
        .args(recordings)
        .output()
        .expect("iotrace");
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    if out.status.success() {
        return Ok(text(&out.stdout));
    }
    Err(format!("{args:?}: {}: {}", out.status, text(&out.stderr)))
}

/// All that is made of a recording, which may be refused; faults go to `faults`.
fn check(name: &str, faults: &mut Vec<String>) {
    let kept = damaged(name);
    let recording = &kept.recording;
    for args in [
        &["report", "--full"][..],
        &["report", "--format", "html", "--output", "/dev/null"],
        &["report", "--stage-to", "100G"],
        &["report", "--by", "directory"],
        &["report", "--include", "/**"],
        &["export", "--format", "darshan"],
        &["export", "--format", "chrome"],
        &["export", "--format", "csv", "--by", "interval"],
    ] {
        let told = run(args, &[recording]);
        faults.extend(told.err().filter(|told| told.contains("panicked")));
    }
    faults.extend(run(&["diff"], &[recording, recording]).err());
    match run(&["report", "--format", "json"], &[recording]) {
        Ok(json) if json.contains(&u64::MAX.to_string()) => {}
        Ok(_) => faults.push(format!("{name}: no sum ended at the largest number")),
        Err(told) => faults.push(told),
    }
}

#[test]
fn sums_of_the_largest_counters_end_at_the_largest_number() {
    let mut faults = Vec::new();
    for name in ["tables", "ranks-2", "epochs", "large-reads"] {
        check(name, &mut faults);
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
