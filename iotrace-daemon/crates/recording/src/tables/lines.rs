//! `lines.parquet`: what was done by line of a Python program, and by function of a native one.

use std::{borrow::Cow, sync::Arc};

use iotrace_model::{
    history::Bounds,
    input::ProcessId,
    lines::{Counts, Lined, Place},
};

use super::{Part, Restored};
use crate::columns::{Damage, Derived, PhaseCode, row};

row! {
    pub struct Row<'a> in "lines" {
        /// the interval
        interval: Bounds,
        /// the host
        host: Derived<&'a str>,
        /// the process
        process: ProcessId,
        /// source file of the program's own line, or the executable; null where no line is known
        file: Option<Cow<'a, str>>,
        /// the line; 0: the function alone is known
        line: Option<u32>,
        /// qualified name of its function
        function: Option<Cow<'a, str>>,
        /// source file of the innermost line, if it is another
        via_file: Option<Cow<'a, str>>,
        /// that line
        via_line: Option<u32>,
        /// qualified name of its function
        via_function: Option<Cow<'a, str>>,
        /// the file's phase as the kernel side assigned it; `none` without a file
        phase: PhaseCode,
        /// files opened by the line
        opens: u64,
        /// reads through these files, by whichever line
        reads: u64,
        /// writes
        writes: u64,
        /// other calls on them
        others: u64,
        /// bytes read
        bytes_read: u64,
        /// bytes written
        bytes_written: u64,
        /// time in all these calls, nanoseconds
        ns: u64,
        /// calls longer than 100 microseconds that the line itself made
        slow: u64,
        /// time in those, nanoseconds
        slow_ns: u64,
    }
}

/// The columns of a place.
fn columns(place: Option<&Arc<Place>>) -> (Option<Cow<'_, str>>, Option<u32>, Option<Cow<'_, str>>) {
    let file = place.map(|place| Cow::Borrowed(&*place.file));
    let function = place.map(|place| Cow::Borrowed(&*place.function));
    (file, place.map(|place| place.line), function)
}

/// Undoes [`columns`].
fn place(
    file: Option<Cow<'_, str>>,
    line: Option<u32>,
    function: Option<Cow<'_, str>>,
) -> Option<Arc<Place>> {
    Some(Arc::new(Place {
        file: (*file?).into(),
        line: line?,
        function: (*function?).into(),
    }))
}

pub fn rows<'a>(part: &'a Part<'_>) -> impl Iterator<Item = Row<'a>> {
    part.model.lines().interval().map(move |(key, counts)| {
        let (file, line, function) = columns(key.own.as_ref());
        let (via_file, via_line, via_function) = columns(key.via.as_ref());
        Row {
            interval: part.interval,
            host: Derived(&part.run.host),
            process: part.process(key.process),
            file,
            line,
            function,
            via_file,
            via_line,
            via_function,
            phase: PhaseCode(key.phase),
            opens: counts.opens,
            reads: counts.reads,
            writes: counts.writes,
            others: counts.others,
            bytes_read: counts.bytes_read,
            bytes_written: counts.bytes_written,
            ns: counts.ns,
            slow: counts.slow,
            slow_ns: counts.slow_ns,
        }
    })
}

pub fn restore(row: Row<'_>, into: &mut Restored<'_>) -> Result<(), Damage> {
    into.model.add_lined(&Lined {
        process: row.process,
        own: place(row.file, row.line, row.function),
        via: place(row.via_file, row.via_line, row.via_function),
        phase: row.phase.0,
        counts: Counts {
            opens: row.opens,
            reads: row.reads,
            writes: row.writes,
            others: row.others,
            bytes_read: row.bytes_read,
            bytes_written: row.bytes_written,
            ns: row.ns,
            slow: row.slow,
            slow_ns: row.slow_ns,
        },
    });
    into.cover(row.interval);
    Ok(())
}
