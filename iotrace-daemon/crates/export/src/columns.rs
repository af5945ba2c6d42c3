//! The rows of the tables: which columns they have, and what stands in them.

use std::borrow::Cow;

use iotrace_common::op;

use super::{Activity, Export, Interval, operations::Operation};
use iotrace_model::{
    Process, Row,
    counters::{Counters, Level, TABLE, Unit},
    errno,
    top::commonest,
};
use iotrace_phases::{phase::Phase, used::Used};

/// What stands in one column of one row.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'a> {
    /// Not known, not measured, or without a meaning here.
    None,
    Text(Cow<'a, str>),
    Int(u64),
    Signed(i64),
    Float(f64),
    Flag(bool),
}

/// Commonest sizes and strides that a row has.
const COMMON: usize = 4;

const PROCESS: [&str; 4] = ["host", "pid", "comm", "rank"];

const PLACE: [&str; 19] = [
    "place",
    "type",
    "path",
    "path_hex",
    "opened_as",
    "opened_as_hex",
    "path_truncated",
    "deleted",
    "size",
    "device",
    "inode",
    "generation",
    "mount_point",
    "fs_type",
    "block_size",
    "phase",
    "class",
    "phase_read",
    "class_read",
];

/// Columns of the table of intervals.
pub const INTERVAL: [&str; 16] = [
    "interval_start",
    "interval_end",
    PROCESS[0],
    PROCESS[1],
    PROCESS[2],
    PROCESS[3],
    "phase",
    "class",
    "operations",
    "bytes_read",
    "bytes_written",
    "read_seconds",
    "write_seconds",
    "meta_seconds",
    "sync_seconds",
    "failed_seconds",
];

/// Columns of the table of operations.
pub const OPERATION: [&str; 16] = [
    "start",
    "duration_seconds",
    PROCESS[0],
    PROCESS[1],
    PROCESS[2],
    PROCESS[3],
    "tid",
    "operation",
    "path",
    "path_hex",
    "phase",
    "class",
    "offset",
    "length",
    "result",
    "error",
];

/// Columns of the table of files.
pub fn file_columns() -> Vec<String> {
    let common = |what: &str, unit: &str| -> Vec<String> {
        (1..=COMMON)
            .flat_map(|rank| {
                [
                    format!("{what}_{rank}_{unit}"),
                    format!("{what}_{rank}_calls"),
                ]
            })
            .collect()
    };
    let mut columns: Vec<String> = PROCESS
        .iter()
        .chain(&PLACE)
        .map(|name| (*name).into())
        .collect();
    columns.extend(TABLE.iter().map(|descriptor| descriptor.key.into()));
    columns.push("bytes_cached".into());
    columns.extend(common("access_size", "bytes"));
    columns.extend(common("stride", "bytes"));
    columns
}

/// One row of the table of files.
pub fn file_row<'a>(
    export: &'a Export<'_>,
    process: &'a Process,
    row: &Row,
    counters: &Counters,
) -> Vec<Value<'a>> {
    let file = export.model.file(row.file);
    let mut values = process_values(export, process);
    values.push(text("file"));
    values.push(match file.mode {
        0 => Value::None,
        _ if file.is_directory() => text("directory"),
        _ => text("regular"),
    });
    path_values(
        export,
        Some(file.path).filter(|path| !path.is_empty()),
        &mut values,
    );
    path_values(export, file.opened_as, &mut values);
    values.push(Value::Flag(file.truncated));
    values.push(Value::Flag(file.deleted));
    values.push(Value::Int(file.size));
    let device = file.id.device;
    values.push(Value::Text(
        format!("{}:{}", device >> 20, device & 0xf_ffff).into(),
    ));
    values.push(Value::Int(file.id.inode));
    values.push(Value::Int(file.id.generation.into()));
    let (mount_point, fs_type) = export.model.mount_of(&file);
    let mount_point = export.names.path(mount_point);
    values.push(Value::Text(
        String::from_utf8_lossy(&mount_point).into_owned().into(),
    ));
    values.push(Value::Text(fs_type.into()));
    values.push(Value::Int(file.block_size.into()));
    let sorted = export.sorted(row.file);
    let mut phases = Used::new(&row.cell.total(), sorted).phases(sorted);
    for phase in [phases.next(), phases.next()] {
        phase_values(phase.map(|(phase, _)| phase), &mut values);
    }
    counter_values(export, counters, &mut values);
    values
}

/// One row of what a process did that no file has: `by_name` or `overflow`.
pub fn rest_row<'a>(
    export: &'a Export<'_>,
    process: &'a Process,
    place: &'a str,
    counters: &Counters,
) -> Vec<Value<'a>> {
    let mut values = process_values(export, process);
    values.push(text(place));
    values.resize(PROCESS.len() + PLACE.len(), Value::None);
    counter_values(export, counters, &mut values);
    values
}

/// One row of the table of intervals.
pub fn interval_row<'a>(
    export: &'a Export<'_>,
    interval: &Interval,
    process: &'a Process,
    phase: u16,
    activity: &Activity,
) -> Vec<Value<'a>> {
    let seconds = |ns: i64| Value::Float(ns as f64 / 1e9);
    let mut values = vec![seconds(interval.start), seconds(interval.end)];
    values.extend(process_values(export, process));
    phase_values((phase != 0).then(|| Phase::from_code(phase)), &mut values);
    let flow = &activity.flow;
    values.extend(
        [
            flow.io.operations,
            flow.io.bytes_read,
            flow.io.bytes_written,
        ]
        .map(Value::Int),
    );
    let times = [
        flow.read_ns,
        flow.write_ns,
        flow.meta_ns,
        flow.sync_ns,
        flow.failed_ns,
    ];
    values.extend(times.map(|ns| Value::Float(ns as f64 / 1e9)));
    values
}

/// One row of the table of operations.
pub fn operation_row<'a>(
    export: &'a Export<'_>,
    process: &'a Process,
    operation: &Operation<'_>,
) -> Vec<Value<'a>> {
    let traced = operation.traced;
    let mut values = vec![
        Value::Float(operation.start as f64 / 1e9),
        Value::Float(traced.duration as f64 / 1e9),
    ];
    values.extend(process_values(export, process));
    values.push(Value::Int(traced.tid.into()));
    values.push(
        op::NAMES
            .get(traced.op as usize)
            .map_or(Value::None, |name| text(name)),
    );
    let path = operation.row.map(|row| export.model.file(row.file).path);
    path_values(export, path.filter(|path| !path.is_empty()), &mut values);
    phase_values(operation.phase, &mut values);
    let known = |number: Option<i64>| number.map_or(Value::None, Value::Signed);
    values.extend([known(traced.offset), known(traced.length)]);
    values.push(Value::Signed(traced.result));
    let error = u32::try_from(-traced.result)
        .ok()
        .filter(|number| *number > 0);
    values.push(error.map_or(Value::None, |number| Value::Text(errno::name(number))));
    values
}

fn text(text: &str) -> Value<'_> {
    Value::Text(text.into())
}

fn process_values<'a>(export: &'a Export<'_>, process: &'a Process) -> Vec<Value<'a>> {
    let comm = export.names.word(&process.about.comm);
    vec![
        Value::Text(export.host(process)),
        Value::Int(process.id.pid.into()),
        Value::Text(String::from_utf8_lossy(&comm).into_owned().into()),
        process
            .about
            .role
            .rank
            .map_or(Value::None, |rank| Value::Int(rank.number.into())),
    ]
}

/// A path as text, and its bytes in hexadecimal where it is not UTF-8.
fn path_values(export: &Export<'_>, path: Option<&[u8]>, values: &mut Vec<Value<'_>>) {
    let Some(path) = path.map(|path| export.names.path(path)) else {
        return values.extend([Value::None, Value::None]);
    };
    match std::str::from_utf8(&path) {
        Ok(text) => values.extend([Value::Text(text.to_owned().into()), Value::None]),
        Err(_) => {
            let digits: String = path.iter().map(|byte| format!("{byte:02x}")).collect();
            let text = String::from_utf8_lossy(&path).into_owned();
            values.extend([Value::Text(text.into()), Value::Text(digits.into())]);
        }
    }
}

fn phase_values(phase: Option<Phase>, values: &mut Vec<Value<'_>>) {
    values.push(phase.map_or(Value::None, |phase| text(phase.name())));
    let class = phase.and_then(Phase::class);
    values.push(class.map_or(Value::None, |class| text(class.name())));
}

fn counter_values(export: &Export<'_>, counters: &Counters, values: &mut Vec<Value<'_>>) {
    let full = export.run.detail == "full";
    for (value, descriptor) in counters.v.iter().zip(&TABLE) {
        values.push(match descriptor.unit {
            _ if descriptor.level == Level::Full && !full => Value::None,
            Unit::Calls | Unit::Bytes | Unit::Mode => Value::Int(*value),
            Unit::Nanoseconds => Value::Float(*value as f64 / 1e9),
            Unit::Moment if *value == 0 => Value::None,
            Unit::Moment => Value::Float(export.moment(*value) as f64 / 1e9),
        });
    }
    values.push(match export.knows_cache() {
        true => Value::Int(counters.cached()),
        false => Value::None,
    });
    for table in [&counters.sizes, &counters.strides] {
        let common = commonest(table.entries().iter().copied(), COMMON);
        for rank in 0..COMMON {
            values.extend(match common.get(rank) {
                Some((value, calls)) => [Value::Int(*value), Value::Int(*calls)],
                None => [Value::None, Value::None],
            });
        }
    }
}
