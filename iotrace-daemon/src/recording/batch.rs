//! Rows of one table as columns: filled row by row and written, or read and taken row by row.
//!
//! Both ways go through the columns in the order of the schema, so the code that writes a row and the code that
//! reads it look alike. At most [`ROWS`] rows are held at a time.

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use parquet::{
    basic::Compression,
    column::{
        reader::{ColumnReader, ColumnReaderImpl},
        writer::ColumnWriterImpl,
    },
    data_type::{BoolType, ByteArray, ByteArrayType, DataType, Int64Type},
    errors::ParquetError,
    file::{
        properties::{EnabledStatistics, WriterProperties},
        reader::{FileReader, RowGroupReader, SerializedFileReader},
        writer::SerializedFileWriter,
    },
    schema::{parser::parse_message_type, types::ColumnPath},
};

use super::{
    Error,
    schema::{Kind, Schema},
};

/// Rows of a row group: what is held in memory while a table is written or read.
const ROWS: usize = 4_096;

/// The values of one Parquet column.
#[derive(Debug)]
enum Values {
    Ints(Vec<i64>),
    Bytes(Vec<ByteArray>),
    Flags(Vec<bool>),
}

/// One Parquet column: values, and where it has them the levels that say which are there.
#[derive(Debug)]
struct Leaf {
    values: Values,
    /// Integers before those in `values`, all 0: most counters are 0 for most files.
    zeros: usize,
    definitions: Vec<i16>,
    repetitions: Vec<i16>,
    /// Position of the next value and level to be taken.
    next_value: usize,
    next_level: usize,
}

/// Rows as columns.
#[derive(Debug)]
pub struct Batch {
    leaves: Vec<Leaf>,
    cursor: usize,
    rows: usize,
}

impl Batch {
    fn new(schema: &Schema) -> Self {
        let leaf = |kind| Leaf {
            values: match kind {
                Kind::Text | Kind::Bytes => Values::Bytes(Vec::new()),
                Kind::Flag => Values::Flags(Vec::new()),
                Kind::Int | Kind::Unsigned | Kind::Timestamp | Kind::Pairs(..) => {
                    Values::Ints(Vec::new())
                }
            },
            zeros: 0,
            definitions: Vec::new(),
            repetitions: Vec::new(),
            next_value: 0,
            next_level: 0,
        };
        let leaves = schema
            .fields
            .iter()
            .flat_map(|field| std::iter::repeat_n(field.kind, field.leaves()));
        Self {
            leaves: leaves.map(leaf).collect(),
            cursor: 0,
            rows: 0,
        }
    }

    fn next_leaf(&mut self) -> &mut Leaf {
        let leaf = &mut self.leaves[self.cursor];
        self.cursor += 1;
        leaf
    }

    /// Puts an integer; unsigned ones keep their bits.
    pub fn put(&mut self, value: i64) {
        self.next_leaf().push_int(value);
    }

    /// Puts an integer or nothing.
    pub fn put_option(&mut self, value: Option<i64>) {
        let leaf = self.next_leaf();
        leaf.definitions.push(value.is_some().into());
        value.into_iter().for_each(|value| leaf.push_int(value));
    }

    /// Puts text.
    pub fn put_text(&mut self, text: &str) {
        self.next_leaf().push_bytes(text.as_bytes());
    }

    /// Puts bytes.
    pub fn put_bytes(&mut self, bytes: &[u8]) {
        self.next_leaf().push_bytes(bytes);
    }

    /// Puts bytes or nothing.
    pub fn put_bytes_option(&mut self, bytes: Option<&[u8]>) {
        let leaf = self.next_leaf();
        leaf.definitions.push(bytes.is_some().into());
        bytes.into_iter().for_each(|bytes| leaf.push_bytes(bytes));
    }

    /// Puts a flag.
    pub fn put_flag(&mut self, flag: bool) {
        if let Values::Flags(values) = &mut self.next_leaf().values {
            values.push(flag);
        }
    }

    /// Puts a list of pairs.
    pub fn put_pairs(&mut self, pairs: &[(u64, u64)]) {
        for second in [false, true] {
            let leaf = self.next_leaf();
            for (index, pair) in pairs.iter().enumerate() {
                leaf.definitions.push(1);
                leaf.repetitions.push((index > 0).into());
                leaf.push_int(if second { pair.1 } else { pair.0 } as i64);
            }
            if pairs.is_empty() {
                leaf.definitions.push(0);
                leaf.repetitions.push(0);
            }
        }
    }

    /// Takes an integer.
    pub fn take(&mut self) -> i64 {
        self.next_leaf().next_int()
    }

    /// Takes an integer or nothing.
    pub fn take_option(&mut self) -> Option<i64> {
        let leaf = self.next_leaf();
        leaf.next_is_there().then(|| leaf.next_int())
    }

    /// Takes bytes or text.
    pub fn take_bytes(&mut self) -> Vec<u8> {
        self.next_leaf().next_bytes()
    }

    /// Takes bytes or text, or nothing.
    pub fn take_bytes_option(&mut self) -> Option<Vec<u8>> {
        let leaf = self.next_leaf();
        leaf.next_is_there().then(|| leaf.next_bytes())
    }

    /// Takes a flag.
    pub fn take_flag(&mut self) -> bool {
        let leaf = self.next_leaf();
        leaf.next_value += 1;
        matches!(&leaf.values, Values::Flags(values) if values.get(leaf.next_value - 1) == Some(&true))
    }

    /// Takes a list of pairs.
    pub fn take_pairs(&mut self) -> Vec<(u64, u64)> {
        let first = self.next_leaf().next_list();
        let second = self.next_leaf().next_list();
        first.into_iter().zip(second).collect()
    }

    /// Passes a column by.
    pub fn skip(&mut self) {
        let leaf = self.next_leaf();
        if leaf.definitions.is_empty() || leaf.next_is_there() {
            leaf.next_value += 1;
        }
    }

    /// Ends a row that was put or taken.
    pub fn end_row(&mut self) {
        debug_assert_eq!(self.cursor, self.leaves.len(), "columns of the row");
        self.cursor = 0;
    }
}

impl Leaf {
    fn push_int(&mut self, value: i64) {
        if let Values::Ints(values) = &mut self.values {
            if value == 0 && values.is_empty() {
                self.zeros += 1;
            } else {
                values.push(value);
            }
        }
    }

    fn push_bytes(&mut self, bytes: &[u8]) {
        if let Values::Bytes(values) = &mut self.values {
            // Rows of one part share their host, place and the like: those are kept once.
            let shared = values.last().filter(|last| last.data() == bytes).cloned();
            values.push(shared.unwrap_or_else(|| ByteArray::from(bytes.to_vec())));
        }
    }

    fn next_is_there(&mut self) -> bool {
        self.next_level += 1;
        self.definitions.get(self.next_level - 1) == Some(&1)
    }

    fn next_int(&mut self) -> i64 {
        self.next_value += 1;
        match &self.values {
            Values::Ints(values) => values.get(self.next_value - 1).copied().unwrap_or(0),
            Values::Bytes(_) | Values::Flags(_) => 0,
        }
    }

    fn next_bytes(&mut self) -> Vec<u8> {
        self.next_value += 1;
        match &self.values {
            Values::Bytes(values) => values
                .get(self.next_value - 1)
                .map(|bytes| bytes.data().to_vec())
                .unwrap_or_default(),
            Values::Ints(_) | Values::Flags(_) => Vec::new(),
        }
    }

    fn next_list(&mut self) -> Vec<u64> {
        let mut list = Vec::new();
        loop {
            if self.next_is_there() {
                list.push(self.next_int() as u64);
            }
            if self.repetitions.get(self.next_level) != Some(&1) {
                return list;
            }
        }
    }

    fn clear(&mut self) {
        match &mut self.values {
            Values::Ints(values) => values.clear(),
            Values::Bytes(values) => values.clear(),
            Values::Flags(values) => values.clear(),
        }
        self.zeros = 0;
        self.definitions.clear();
        self.repetitions.clear();
    }
}

/// A table that is being written.
pub struct TableWriter {
    path: PathBuf,
    writer: SerializedFileWriter<File>,
    batch: Batch,
}

impl TableWriter {
    /// Starts the table's file in `directory`.
    pub fn create(directory: &Path, schema: &Schema) -> Result<Self, Error> {
        let path = directory.join(schema.file_name());
        let fail = |cause| write_error(&path, cause);
        let file = File::create(&path).map_err(|cause| Error::io("create", &path, cause))?;
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

fn write_error(path: &Path, error: ParquetError) -> Error {
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
    let file = File::open(&path).map_err(|cause| match cause.kind() {
        io::ErrorKind::NotFound => Error::damaged(&path, "it is missing"),
        _ => Error::io("read", &path, cause),
    })?;
    let damaged = |cause: ParquetError| Error::damaged(&path, cause);
    let reader = SerializedFileReader::new(file).map_err(damaged)?;
    for index in 0..reader.num_row_groups() {
        let group = reader.get_row_group(index).map_err(damaged)?;
        let mut batch = read_group(group.as_ref(), schema).map_err(damaged)?;
        for _ in 0..batch.rows {
            take(&mut batch).map_err(|cause| Error::damaged(&path, cause))?;
            batch.end_row();
        }
    }
    Ok(())
}

fn read_group(group: &dyn RowGroupReader, schema: &Schema) -> Result<Batch, ParquetError> {
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
            let missing = || ParquetError::General(format!("it has no column {path}"));
            read_leaf(
                group.get_column_reader(index.ok_or_else(missing)?)?,
                leaf,
                batch.rows,
            )?;
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
