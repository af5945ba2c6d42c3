//! `spans.parquet`: single uses of files, in the phases whose uses are counted one by one.

use iotrace_common::key::FileId;
use iotrace_model::{history::Bounds, input::ProcessId};

use super::{Part, Restored};
use crate::columns::{Damage, Derived, Name, SpanCounters, row};

row! {
    pub struct Row<'a> in "spans" {
        /// the interval
        interval: Bounds,
        /// the host
        host: Derived<&'a str>,
        /// the process
        process: ProcessId,
        /// distinguishes the spans of a process and file; not ordered
        span: u32,
        /// path of the file
        path: Derived<Name<'a>>,
        /// identity of the file
        file: Option<FileId>,
        /// counters of the span in the interval
        counters: SpanCounters,
    }
}

pub fn rows<'a>(part: &'a Part<'_>) -> impl Iterator<Item = Row<'a>> {
    let spans = part.model.spans().into_iter();
    spans.flat_map(|spans| spans.interval()).map(move |span| {
        let file = part.model.file(span.file);
        Row {
            interval: part.interval,
            host: Derived(&part.run.host),
            process: part.process(span.process),
            span: span.number,
            path: Derived(Name::unless_empty(file.path)),
            file: Some(file.id),
            counters: SpanCounters(span.cell.interval()),
        }
    })
}

pub fn restore(row: Row<'_>, into: &mut Restored<'_>) -> Result<(), Damage> {
    let file = row.file.ok_or("a span names no file")?;
    // Each service counts them from the beginning.
    let span = row.span.wrapping_add(into.restarts << 28);
    into.model
        .add_span(row.process, file, span, &row.counters.0);
    Ok(())
}
