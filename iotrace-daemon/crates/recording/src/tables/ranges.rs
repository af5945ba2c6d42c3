//! `ranges.parquet`: ranges and moments that programs marked.

use iotrace_model::{IoTotals, input::ProcessId, library::Range};

use super::{Part, Restored};
use crate::columns::{Damage, Derived, Moment, RequiredName, row};

row! {
    pub struct Row<'a> in "ranges" {
        /// the host
        host: Derived<&'a str>,
        /// the process
        process: ProcessId,
        /// the thread
        tid: u32,
        /// as given by the program
        name: RequiredName<'a>,
        /// whether it is a point in time (`iotrace_mark`)
        is_moment: bool,
        /// number of enclosing ranges of the thread
        depth: u32,
        /// start
        range_start_unix_ns: Moment,
        /// end; null if the recording ended first
        range_end_unix_ns: Option<Moment>,
        /// successful calls of all traced processes during the range
        operations: u64,
        /// bytes that they read
        bytes_read: u64,
        /// bytes that they wrote
        bytes_written: u64,
        /// time inside them, summed
        calls_ns: u64,
    }
}

pub fn rows<'a>(part: &'a Part<'_>) -> impl Iterator<Item = Row<'a>> {
    let ranges = part.model.libraries().ended(part.is_last);
    ranges.map(move |range| Row {
        host: Derived(&part.run.host),
        process: part.process(range.process),
        tid: range.tid,
        name: RequiredName(&range.name),
        is_moment: range.is_mark,
        depth: range.depth,
        range_start_unix_ns: Moment(range.start),
        range_end_unix_ns: range.end.map(Moment),
        operations: range.done.operations,
        bytes_read: range.done.bytes_read,
        bytes_written: range.done.bytes_written,
        calls_ns: range.done.ns,
    })
}

pub fn restore(row: Row<'_>, into: &mut Restored<'_>) -> Result<(), Damage> {
    let range = Range {
        process: 0, // given by the model
        tid: row.tid,
        name: row.name.0.to_vec(),
        depth: row.depth,
        start: row.range_start_unix_ns.0,
        end: row.range_end_unix_ns.map(|end| end.0),
        is_mark: row.is_moment,
        done: IoTotals {
            operations: row.operations,
            bytes_read: row.bytes_read,
            bytes_written: row.bytes_written,
            ns: row.calls_ns,
            merged_ns: 0,
        },
    };
    into.model.restore_range(row.process, range);
    Ok(())
}
