//! `errors.parquet`: failed calls.

use iotrace_common::key::FileId;
use iotrace_model::{history::Bounds, input::{Place, ProcessId}};

use super::{Part, Restored};
use crate::columns::{Damage, Derived, ErrorName, OperationClass, PlaceName, row};

row! {
    pub struct Row<'a> in each "errors" {
        /// the interval
        interval: Bounds,
        /// the host
        host: Derived<&'a str>,
        /// the process
        process: ProcessId,
        /// as in `files.parquet`
        place: PlaceName,
        /// the file, if `place` is `file`
        file: Option<FileId>,
        /// the operation class: `open`, `stat`, `read`, ...
        operation: OperationClass,
        /// name of the error
        error: Derived<ErrorName>,
        /// number of the error
        errno: u32,
        /// failed calls
        calls: u64,
        /// time inside them
        failed_ns: u64,
    }
}

pub fn rows<'a>(part: &'a Part<'_>) -> impl Iterator<Item = Row<'a>> {
    part.model.failures().interval().map(move |(key, count)| Row {
        interval: part.interval,
        host: Derived(&part.run.host),
        process: part.process(key.process),
        place: key.place.into(),
        file: match key.place {
            Place::File(index) => Some(part.model.file(index).id),
            Place::PathOnly | Place::Overflow => None,
        },
        operation: OperationClass(key.op),
        error: Derived(ErrorName(key.errno)),
        errno: key.errno,
        calls: count.calls,
        failed_ns: count.ns,
    })
}

pub fn restore(row: Row<'_>, into: &mut Restored<'_>) -> Result<(), Damage> {
    let place = row.place.place(row.file)?;
    let (op, errno) = (row.operation.0, row.errno);
    into.model
        .add_failures(row.process, place, op, errno, row.calls, row.failed_ns);
    Ok(())
}
