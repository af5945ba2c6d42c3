//! The operation trace of a recording: parts of their own, one row per operation.
//!
//! ```text
//! let mut writer = TraceWriter::new(recorder.directory(), run.clock, most_bytes);
//! writer.write(operations, missing)?;            // one part, sorted by start
//! let trace = Trace::open(directory)?;            // where there is one
//! for row in trace.rows() { .. }                  // in the order of their starts
//! ```
//!
//! A part is made as those of the counters are: beside its place, synced, renamed into it.
//! `docs/reference/recording-format.md` describes the columns.

mod files;
mod operations;
mod reader;
mod writer;

pub use operations::Row;
pub(crate) use reader::parts_in;
pub use reader::{Rows, Trace};
pub use writer::TraceWriter;

use crate::{columns::Row as _, table::file_name, tables::Description};
use operations::StoredRow;

const PART: &str = "trace-";

/// The file of a table of a trace part: that of files has the name of another table.
pub(crate) fn file_name_of(table: &str) -> String {
    match table {
        FILES => file_name(files::Row::NAME),
        _ => file_name(table),
    }
}

/// The table of files, as pages and queries name it.
const FILES: &str = "trace_files";

/// The tables of a trace part.
pub fn descriptions() -> [Description; 2] {
    [
        Description::of::<StoredRow>("operations"),
        Description::of::<files::Row>(FILES),
    ]
}
