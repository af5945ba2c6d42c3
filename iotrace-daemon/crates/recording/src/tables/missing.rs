//! `missing.parquet`: look-ups that found nothing, by directory.

use iotrace_model::{FailureCount, history::Bounds, input::ProcessId};

use super::{Part, Restored};
use crate::columns::{Damage, Derived, Name, row};

row! {
    pub struct Row<'a> in each "missing" {
        /// the interval
        interval: Bounds,
        /// the host
        host: Derived<&'a str>,
        /// the process
        process: ProcessId,
        /// absolute, without `.`, `..` and double slashes; symbolic links as given; null if no name was received
        directory: Name<'a>,
        /// look-ups
        calls: u64,
        /// time inside them
        failed_ns: u64,
    }
}

pub fn rows<'a>(part: &'a Part<'_>) -> impl Iterator<Item = Row<'a>> {
    let interval = part.model.negative_lookups().interval();
    interval.map(move |(process, path, count)| Row {
        interval: part.interval,
        host: Derived(&part.run.host),
        process: part.process(process),
        directory: Name::unless_empty(path),
        calls: count.calls,
        failed_ns: count.ns,
    })
}

pub fn restore(row: Row<'_>, into: &mut Restored<'_>) -> Result<(), Damage> {
    let count = FailureCount {
        calls: row.calls,
        ns: row.failed_ns,
    };
    let directory = row.directory.0.unwrap_or_default();
    into.model.add_negative_lookups_at(row.process, &directory, count);
    Ok(())
}
