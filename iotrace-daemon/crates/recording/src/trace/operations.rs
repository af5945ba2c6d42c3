//! `operations.parquet`: one row per operation, sorted by start.
//!
//! Differences of starts are small; what has few values has a dictionary; all else is stored as differences, in as many
//! bits as a few rows need. Pages are compressed on top of that.

use iotrace_common::{
    op,
    trace::{NONE, Operation},
};
use iotrace_model::{input::ProcessId, run::Clock};
use parquet::{
    file::properties::{EnabledStatistics, WriterPropertiesBuilder},
    schema::types::ColumnPath,
};

use crate::{
    columns::{Derived, ErrorName, Field, OperationClass, PhaseCode, row},
    table::properties,
};

/// Rows of a row group: what a reader holds of one part at a time.
pub const GROUP_ROWS: usize = 1 << 16;
/// If a dictionary is longer than this, differences take its place, bytes.
const MAX_DICTIONARY_BYTES: usize = 16 << 10;
/// Stored for a length that is not known, where null stands for what was moved.
const UNKNOWN_LENGTH: i64 = -1;

row! {
    pub struct StoredRow in each "operations" {
        /// start
        start_unix_ns: i64 as Differences,
        /// duration
        duration_ns: i64 as Differences,
        /// the process
        process: ProcessId,
        /// the thread
        tid: u32,
        /// as in `errors.parquet`; a sendfile, copy_file_range or splice is two operations, the first of which has the
        /// time
        operation: OperationClass,
        /// phase of the file as the call used it, as in `phases.parquet`
        phase: PhaseCode,
        /// number of the file in this recording; null for calls by path that opened no file
        file: Option<u32> as Differences,
        /// start in the file (reads, writes, transfers, `mmap`, `fallocate`, `sync_file_range`) or the resulting position
        /// (`lseek`), else null. Without an explicit offset it is derived from the position after the call, which threads
        /// that share a descriptor may shift
        offset: Option<i64> as Differences,
        /// bytes requested, or the new size of a truncated file. For reads, writes and transfers null if equal to
        /// `result`, and -1 if unknown (`splice`, more than 8 vectors, buffers chosen by io_uring), so use
        /// `nullif(coalesce(length, result), -1)`
        length: Option<i64> as DictionaryOrDifferences,
        /// return value: bytes, a descriptor, an address, 0; a negative error number on failure
        result: i64 as DictionaryOrDifferences,
        /// name of the error; null on success
        error: Derived<Option<ErrorName>>,
    }
}

impl StoredRow {
    /// An operation on the file with this number.
    pub fn new(operation: &Operation, file: Option<u32>, clock: &Clock) -> Self {
        let Operation { key, result, .. } = *operation;
        let known = |value: u64| (value != NONE).then_some(value as i64);
        let error = u32::try_from(result.wrapping_neg()).unwrap_or(u32::MAX);
        Self {
            start_unix_ns: clock.unix_ns(operation.start),
            duration_ns: operation.end.wrapping_sub(operation.start) as i64,
            process: ProcessId::from(&key),
            tid: key.tid,
            operation: OperationClass(operation.op),
            phase: PhaseCode(key.phase as u16),
            file,
            offset: known(operation.offset),
            length: stored_length(operation.op, known(operation.length), result),
            result,
            error: Derived((result < 0).then_some(ErrorName(error))),
        }
    }
}

/// One operation, as it is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// Nanoseconds since the Unix epoch.
    pub start: i64,
    pub duration: i64,
    pub pid: u32,
    pub start_key: u32,
    pub tid: u32,
    /// Operation class ([`op`]).
    pub op: u32,
    pub phase: u32,
    /// Number of the file in this recording.
    pub file: Option<u32>,
    pub offset: Option<i64>,
    /// Bytes that were asked for, if the call says how many and they are known.
    pub length: Option<i64>,
    /// What the call returned; a negative error number if it failed.
    pub result: i64,
}

impl From<StoredRow> for Row {
    fn from(stored: StoredRow) -> Self {
        let op = stored.operation.0;
        Self {
            start: stored.start_unix_ns,
            duration: stored.duration_ns,
            pid: stored.process.pid,
            start_key: stored.process.start,
            tid: stored.tid,
            op,
            phase: stored.phase.0.into(),
            file: stored.file,
            offset: stored.offset,
            length: restored_length(op, stored.length, stored.result),
            result: stored.result,
        }
    }
}

/// Whether an operation moves bytes: then it mostly moves as many as were asked for, which are not stored twice.
fn moves_bytes(code: u32) -> bool {
    op::moves_bytes(code as usize)
}

/// The length as it is stored: none if it is the result.
fn stored_length(op: u32, length: Option<i64>, result: i64) -> Option<i64> {
    if moves_bytes(op) {
        let length = length.unwrap_or(UNKNOWN_LENGTH);
        (length != result).then_some(length)
    } else {
        length
    }
}

/// Undoes [`stored_length`].
fn restored_length(op: u32, stored: Option<i64>, result: i64) -> Option<i64> {
    if moves_bytes(op) {
        let length = stored.unwrap_or(result);
        (length != UNKNOWN_LENGTH).then_some(length)
    } else {
        stored
    }
}

/// How the file is written: of the starts their bounds are kept, so that readers can order parts.
pub fn file_properties(fields: &[Field]) -> WriterPropertiesBuilder {
    let start = ColumnPath::from("start_unix_ns");
    properties(fields)
        .set_statistics_enabled(EnabledStatistics::None)
        .set_column_statistics_enabled(start, EnabledStatistics::Chunk)
        .set_dictionary_page_size_limit(MAX_DICTIONARY_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_that_is_the_result_is_not_stored() {
        for (op, length, result, stored) in [
            (op::READ, Some(4096), 4096, None),
            (op::READ, Some(4096), 100, Some(4096)),
            (op::READ, Some(0), 0, None),
            (op::WRITE, None, 4096, Some(UNKNOWN_LENGTH)),
            (op::WRITE, Some(7), -28, Some(7)),
            (op::TRANSFER_READ, None, -1, None),
            (op::FSYNC, None, 0, None),
            (op::TRUNCATE, Some(0), 0, Some(0)),
        ] {
            let op = op as u32;
            assert_eq!(stored_length(op, length, result), stored, "{op} {length:?}");
            assert_eq!(
                restored_length(op, stored, result),
                length,
                "{op} {stored:?}"
            );
        }
    }
}
