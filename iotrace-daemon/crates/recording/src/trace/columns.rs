//! The columns of a trace, and how each is encoded.
//!
//! Rows are sorted by start, so differences of starts are small; what has few values has a dictionary; all else is
//! stored as differences, in as many bits as a few rows need. Pages are compressed on top of that.

use std::{fs::File, sync::Arc};

use iotrace_common::op;
use parquet::{
    basic::{Compression, Encoding},
    data_type::{ByteArray, ByteArrayType, DataType, Int64Type},
    errors::ParquetError,
    file::{
        properties::{EnabledStatistics, WriterProperties},
        writer::{SerializedFileWriter, SerializedRowGroupWriter},
    },
    schema::{parser::parse_message_type, types::ColumnPath},
};

use crate::tables::{PHASES, phase_name};
use iotrace_model::errno;

/// Rows of a row group: what a reader holds of one part at a time.
pub const GROUP: usize = 1 << 16;

/// Names, types and order of the columns of `operations.parquet`.
pub const OPERATIONS: &str = "message operations {
    required int64 start_unix_ns;
    required int64 duration_ns;
    required int64 pid;
    required int64 start_key;
    required int64 tid;
    required binary operation (STRING);
    required binary phase (STRING);
    optional int64 file;
    optional int64 offset;
    optional int64 length;
    required int64 result;
    optional binary error (STRING);
}";
/// Those of `files.parquet`.
pub const FILES: &str = "message files {
    required int64 file;
    required binary device (STRING);
    required int64 inode (INTEGER(64,false));
    required int64 generation;
}";
/// Columns of many values, which are stored as differences.
const DIFFERENCES: [&str; 6] = [
    "start_unix_ns",
    "duration_ns",
    "file",
    "offset",
    "inode",
    "generation",
];
/// Columns of few values in most traces, for which a dictionary is tried first.
const EITHER: [&str; 2] = ["length", "result"];
/// Where a dictionary is longer than this, differences take its place, bytes.
const DICTIONARY: usize = 16 << 10;

/// One operation, as the columns have it.
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
    /// Bytes that were asked for, where the call says how many and they are known.
    pub length: Option<i64>,
    /// What the call returned; a negative error number where it failed.
    pub result: i64,
}

/// In the place of a length that is not known, where none would be what was moved.
const UNKNOWN: i64 = -1;

impl Row {
    /// Whether it moves bytes: then it mostly moves as many as were asked for, which are not stored twice.
    fn moves_bytes(&self) -> bool {
        op::moves_bytes(self.op as usize)
    }

    /// The length as it is stored: none where it is the result.
    fn stored_length(&self) -> Option<i64> {
        if self.moves_bytes() {
            let length = self.length.unwrap_or(UNKNOWN);
            (length != self.result).then_some(length)
        } else {
            self.length
        }
    }

    /// The same row, whose length is as it was stored.
    pub fn restored(mut self) -> Self {
        if self.moves_bytes() {
            let length = self.length.unwrap_or(self.result);
            self.length = (length != UNKNOWN).then_some(length);
        }
        self
    }
}

/// Texts of the columns, each made once.
pub struct Texts {
    operations: Vec<ByteArray>,
    phases: Vec<ByteArray>,
    errors: Vec<ByteArray>,
}

/// Error numbers that have a text made beforehand.
const ERRORS: i64 = 600;

impl Texts {
    pub fn new() -> Self {
        Self {
            operations: op::NAMES
                .iter()
                .map(|name| ByteArray::from(*name))
                .collect(),
            phases: (0..PHASES)
                .map(|code| ByteArray::from(phase_name(code)))
                .collect(),
            errors: (0..ERRORS as u32)
                .map(|number| ByteArray::from(errno::name(number).as_bytes().to_vec()))
                .collect(),
        }
    }

    fn error(&self, result: i64) -> ByteArray {
        let known = usize::try_from(-result).ok();
        let known = known.and_then(|number| self.errors.get(number)).cloned();
        known.unwrap_or_else(|| ByteArray::from(format!("{}", -result).into_bytes()))
    }
}

/// Writes rows, which are sorted, as a row group.
pub fn write_rows(
    writer: &mut SerializedFileWriter<File>,
    rows: &[Row],
    texts: &Texts,
) -> Result<(), ParquetError> {
    let mut group = writer.next_row_group()?;
    let ints: [fn(&Row) -> i64; 5] = [
        |row| row.start,
        |row| row.duration,
        |row| row.pid.into(),
        |row| row.start_key.into(),
        |row| row.tid.into(),
    ];
    for column in ints {
        put::<Int64Type>(&mut group, rows.iter().map(column).collect(), None)?;
    }
    let text = |texts: &[ByteArray], index: u32| {
        let known = texts.get(index as usize).or(texts.first());
        known.cloned().unwrap_or_default()
    };
    let names = rows.iter().map(|row| text(&texts.operations, row.op));
    put::<ByteArrayType>(&mut group, names.collect(), None)?;
    let phases = rows.iter().map(|row| text(&texts.phases, row.phase));
    put::<ByteArrayType>(&mut group, phases.collect(), None)?;
    let options: [fn(&Row) -> Option<i64>; 3] = [
        |row| row.file.map(i64::from),
        |row| row.offset,
        Row::stored_length,
    ];
    for column in options {
        let there = rows.iter().map(|row| i16::from(column(row).is_some()));
        let there: Vec<i16> = there.collect();
        let values = rows.iter().filter_map(column).collect();
        put::<Int64Type>(&mut group, values, Some(&there))?;
    }
    put::<Int64Type>(
        &mut group,
        rows.iter().map(|row| row.result).collect(),
        None,
    )?;
    let there: Vec<i16> = rows.iter().map(|row| i16::from(row.result < 0)).collect();
    let errors = rows.iter().filter(|row| row.result < 0);
    let errors = errors.map(|row| texts.error(row.result)).collect();
    put::<ByteArrayType>(&mut group, errors, Some(&there))?;
    group.close()?;
    Ok(())
}

/// Writes the next column.
pub fn put<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, File>,
    values: Vec<T::T>,
    there: Option<&[i16]>,
) -> Result<(), ParquetError> {
    let column = group.next_column()?;
    let mut column =
        column.ok_or_else(|| ParquetError::General("the schema has fewer columns".into()))?;
    column.typed::<T>().write_batch(&values, there, None)?;
    column.close()
}

/// Starts a file of columns.
pub fn create(file: File, schema: &str) -> Result<SerializedFileWriter<File>, ParquetError> {
    let schema = Arc::new(parse_message_type(schema)?);
    SerializedFileWriter::new(file, schema, Arc::new(properties()))
}

fn properties() -> WriterProperties {
    let mut properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_created_by(concat!("iotrace ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_statistics_enabled(EnabledStatistics::None)
        .set_column_statistics_enabled(ColumnPath::from("start_unix_ns"), EnabledStatistics::Chunk)
        .set_offset_index_disabled(true)
        .set_dictionary_page_size_limit(DICTIONARY);
    for name in DIFFERENCES.iter().chain(&EITHER) {
        properties =
            properties.set_column_encoding(ColumnPath::from(*name), Encoding::DELTA_BINARY_PACKED);
    }
    for name in DIFFERENCES {
        properties = properties.set_column_dictionary_enabled(ColumnPath::from(name), false);
    }
    properties.build()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_that_is_the_result_is_not_stored() {
        let row = |op: usize, length, result| Row {
            op: op as u32,
            length,
            result,
            ..Row::default()
        };
        let rows = [
            (row(op::READ, Some(4096), 4096), None),
            (row(op::READ, Some(4096), 100), Some(4096)),
            (row(op::READ, Some(0), 0), None),
            (row(op::WRITE, None, 4096), Some(UNKNOWN)),
            (row(op::WRITE, Some(7), -28), Some(7)),
            (row(op::TRANSFER_READ, None, -1), None),
            (row(op::FSYNC, None, 0), None),
            (row(op::TRUNCATE, Some(0), 0), Some(0)),
        ];
        for (row, stored) in rows {
            assert_eq!(row.stored_length(), stored, "{row:?}");
            let length = stored;
            assert_eq!(Row { length, ..row }.restored(), row);
        }
    }
}
