//! Files of tables: row groups of at most [`ROWS`] rows, written and read one after the other.

use std::{
    fs::File,
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::Arc,
};

use parquet::{
    basic::Compression,
    column::{
        reader::{ColumnReader, ColumnReaderImpl},
        writer::ColumnWriterImpl,
    },
    data_type::{BoolType, ByteArrayType, DataType, Int64Type},
    errors::ParquetError,
    file::{
        metadata::RowGroupMetaData,
        properties::{EnabledStatistics, WriterProperties},
        reader::{FileReader, RowGroupReader, SerializedFileReader},
        writer::SerializedFileWriter,
    },
    schema::{parser::parse_message_type, types::ColumnPath},
};

use super::{
    Error,
    batch::{Batch, Leaf, Values},
    open_file,
    schema::{Kind, Schema},
};
use crate::directory::Directory;

/// Rows of a row group: what is held in memory while a table is written or read. Fewer need more memory again, for
/// the description of every column of every group.
const ROWS: usize = 4_096;
/// Most rows of a group of any file that is read, and most bytes of it, decoded: whoever wrote a file may lie.
const MAX_ROWS: i64 = 1 << 20;
const MAX_GROUP_BYTES: i64 = 1 << 30;

/// A table that is being written.
pub struct TableWriter {
    path: PathBuf,
    writer: SerializedFileWriter<File>,
    batch: Batch,
}

impl TableWriter {
    /// Starts the table's file in `directory`.
    pub fn create(directory: &Directory, schema: &Schema) -> Result<Self, Error> {
        let path = directory.path().join(schema.file_name());
        let fail = |cause| write_error(&path, cause);
        let file = directory
            .create(schema.file_name())
            .map_err(|cause| Error::io("create", &path, cause))?;
        let message = Arc::new(parse_message_type(&schema.declaration()).map_err(fail)?);
        let writer =
            SerializedFileWriter::new(file, message, Arc::new(properties())).map_err(fail)?;
        Ok(Self {
            path,
            writer,
            batch: Batch::new(schema),
        })
    }

    /// Writes one row, which `fill` puts column by column.
    pub fn row(&mut self, fill: impl FnOnce(&mut Batch)) -> Result<(), Error> {
        fill(&mut self.batch);
        self.batch.end_row();
        self.batch.rows += 1;
        if self.batch.rows == ROWS {
            self.write_group()
        } else {
            Ok(())
        }
    }

    /// Writes what is left, and syncs the file.
    pub fn finish(mut self) -> Result<(), Error> {
        if self.batch.rows > 0 {
            self.write_group()?;
        }
        self.writer
            .finish()
            .map_err(|cause| write_error(&self.path, cause))?;
        self.writer
            .inner()
            .sync_all()
            .map_err(|cause| Error::io("write", &self.path, cause))
    }

    fn write_group(&mut self) -> Result<(), Error> {
        self.batch.rows = 0;
        self.try_write_group()
            .map_err(|cause| write_error(&self.path, cause))
    }

    fn try_write_group(&mut self) -> Result<(), ParquetError> {
        let mut group = self.writer.next_row_group()?;
        let mut whole = Vec::new();
        for leaf in &mut self.batch.leaves {
            let Some(mut column) = group.next_column()? else {
                break;
            };
            let (definitions, repetitions) = (&leaf.definitions, &leaf.repetitions);
            match &leaf.values {
                Values::Ints(v) => {
                    whole.clear();
                    whole.resize(leaf.zeros, 0);
                    whole.extend_from_slice(v);
                    write(
                        column.typed::<Int64Type>(),
                        &whole,
                        definitions,
                        repetitions,
                    )?;
                }
                Values::Bytes(v) => {
                    write(column.typed::<ByteArrayType>(), v, definitions, repetitions)?
                }
                Values::Flags(v) => write(column.typed::<BoolType>(), v, definitions, repetitions)?,
            }
            column.close()?;
            leaf.clear();
        }
        group.close()?;
        Ok(())
    }
}

fn write<T: DataType>(
    column: &mut ColumnWriterImpl<'_, T>,
    values: &[T::T],
    definitions: &[i16],
    repetitions: &[i16],
) -> Result<(), ParquetError> {
    column.write_batch(values, levels(definitions), levels(repetitions))?;
    Ok(())
}

/// Columns that always have a value have no levels.
fn levels(levels: &[i16]) -> Option<&[i16]> {
    (!levels.is_empty()).then_some(levels)
}

fn properties() -> WriterProperties {
    WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_created_by(concat!("iotrace ", env!("CARGO_PKG_VERSION")).to_owned())
        // A part has few pages: an index of them would be longer than what it saves.
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_offset_index_disabled(true)
        .build()
}

pub(super) fn write_error(path: &Path, error: ParquetError) -> Error {
    let cause = match error {
        ParquetError::External(cause) => match cause.downcast::<io::Error>() {
            Ok(cause) => *cause,
            Err(cause) => io::Error::other(cause),
        },
        other => io::Error::other(other),
    };
    Error::io("write", path, cause)
}

/// Reads the table's file in `directory`: `take` takes one row, column by column.
pub fn read_table(
    directory: &Path,
    schema: &Schema,
    mut take: impl FnMut(&mut Batch) -> Result<(), &'static str>,
) -> Result<(), Error> {
    let path = directory.join(schema.file_name());
    let file = open_file(&path).map_err(|cause| match cause.kind() {
        io::ErrorKind::NotFound => Error::damaged(&path, "it is missing"),
        _ => Error::io("read", &path, cause),
    })?;
    let damaged = |cause: ParquetError| Error::damaged(&path, cause);
    let reader = decode(|| SerializedFileReader::new(file)).map_err(damaged)?;
    for index in 0..reader.num_row_groups() {
        let group = || read_group(reader.get_row_group(index)?.as_ref(), schema);
        let mut batch = decode(group).map_err(damaged)?;
        for _ in 0..batch.rows {
            take(&mut batch).map_err(|cause| Error::damaged(&path, cause))?;
            batch.end_row();
        }
    }
    Ok(())
}

/// As [`read_table`], of a table that is only there where it has rows.
pub fn read_table_if_there(
    directory: &Path,
    schema: &Schema,
    take: impl FnMut(&mut Batch) -> Result<(), &'static str>,
) -> Result<(), Error> {
    if directory.join(schema.file_name()).exists() {
        read_table(directory, schema, take)
    } else {
        Ok(())
    }
}

/// Decodes a part of a file. On some damage the parquet crate panics where it should fail; what it worked on is given
/// up with it.
pub(super) fn decode<T>(work: impl FnOnce() -> Result<T, ParquetError>) -> Result<T, ParquetError> {
    catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|_| Err(ParquetError::General("it cannot be decoded".into())))
}

/// Fails where a row group claims more than may be held.
pub(super) fn check_size(group: &RowGroupMetaData) -> Result<(), ParquetError> {
    let columns = group.columns().iter();
    let is_too_large = group.num_rows() > MAX_ROWS
        || columns
            .map(|column| column.uncompressed_size())
            .try_fold(0, i64::checked_add)
            .is_none_or(|bytes| bytes > MAX_GROUP_BYTES);
    if is_too_large {
        return Err(ParquetError::General("a row group is too large".into()));
    }
    Ok(())
}

fn read_group(group: &dyn RowGroupReader, schema: &Schema) -> Result<Batch, ParquetError> {
    check_size(group.metadata())?;
    let mut batch = Batch::new(schema);
    batch.rows = usize::try_from(group.metadata().num_rows()).unwrap_or(0);
    let columns = group.metadata().columns();
    let mut leaves = batch.leaves.iter_mut();
    for field in &schema.fields {
        let paths = match field.kind {
            Kind::Pairs(first, second) => [first, second]
                .map(|member| {
                    vec![
                        field.name.clone(),
                        "list".into(),
                        "element".into(),
                        member.into(),
                    ]
                })
                .to_vec(),
            _ => vec![vec![field.name.clone()]],
        };
        for (path, leaf) in paths.into_iter().map(ColumnPath::new).zip(&mut leaves) {
            let index = columns
                .iter()
                .position(|column| *column.column_path() == path);
            match index {
                Some(index) => read_leaf(group.get_column_reader(index)?, leaf, batch.rows)?,
                // One that came later: the iotrace that wrote this did not know it.
                None if field.optional => leaf.definitions.resize(batch.rows, 0),
                None => {
                    return Err(ParquetError::General(format!("it has no column {path}")));
                }
            }
        }
    }
    Ok(batch)
}

fn read_leaf(reader: ColumnReader, leaf: &mut Leaf, rows: usize) -> Result<(), ParquetError> {
    let Leaf {
        values,
        definitions,
        repetitions,
        ..
    } = leaf;
    let read_rows = match (reader, values) {
        (ColumnReader::Int64ColumnReader(reader), Values::Ints(v)) => {
            read(reader, v, definitions, repetitions, rows)?
        }
        (ColumnReader::ByteArrayColumnReader(reader), Values::Bytes(v)) => {
            read(reader, v, definitions, repetitions, rows)?
        }
        (ColumnReader::BoolColumnReader(reader), Values::Flags(v)) => {
            read(reader, v, definitions, repetitions, rows)?
        }
        _ => return Err(ParquetError::General("a column has another type".into())),
    };
    if read_rows == rows {
        Ok(())
    } else {
        Err(ParquetError::EOF("a column ends early".into()))
    }
}

fn read<T: DataType>(
    mut reader: ColumnReaderImpl<T>,
    values: &mut Vec<T::T>,
    definitions: &mut Vec<i16>,
    repetitions: &mut Vec<i16>,
    rows: usize,
) -> Result<usize, ParquetError> {
    Ok(reader
        .read_records(rows, Some(definitions), Some(repetitions), values)?
        .0)
}
