//! Files of tables: row groups, written and read one after the other.

use std::{
    cell::Cell,
    fs::File,
    io,
    panic::{self, AssertUnwindSafe, catch_unwind},
    path::Path,
    sync::{Arc, Once, mpsc::sync_channel},
    thread,
};

use iotrace_model::run::Clock;
use parquet::{
    basic::{Compression, Encoding as PageEncoding},
    errors::ParquetError,
    file::{
        metadata::{ColumnChunkMetaData, RowGroupMetaData},
        properties::{EnabledStatistics, WriterProperties, WriterPropertiesBuilder},
        reader::{FileReader, RowGroupReader, SerializedFileReader},
        statistics::Statistics,
        writer::SerializedFileWriter,
    },
    schema::{parser::parse_message_type, types::ColumnPath},
};

use super::{
    Error, FORMAT_MINOR_VERSION,
    columns::{Damage, Encoding, Field, Presence, Row, Store},
};
use crate::directory::Directory;
use iotrace_model::regular_file;

/// Rows of a row group: what is held in memory while a table is written or read. Fewer need more memory again, for
/// the description of every column of every group.
pub const GROUP_ROWS: usize = 4_096;
/// Most rows of a group of any file that is read, and most bytes of it, decoded: whoever wrote a file may lie.
const MAX_GROUP_ROWS: i64 = 1 << 20;
const MAX_GROUP_BYTES: i64 = 1 << 30;

/// The file of a table.
pub fn file_name(table: &str) -> String {
    format!("{table}.parquet")
}

/// A table as Parquet's schema language has it.
pub fn schema(table: &str, fields: &[Field]) -> String {
    let fields: Vec<_> = fields.iter().map(Field::declaration).collect();
    format!("message {table} {{ {} }}", fields.join(" "))
}

/// Writes a table into `directory`, without a row only if each part has it; the size of the file, bytes.
pub fn write_table<'a, R: Row<'a>>(
    directory: &Directory,
    clock: &Clock,
    properties: fn(&[Field]) -> WriterPropertiesBuilder,
    group_rows: usize,
    rows: impl Iterator<Item = R>,
) -> Result<u64, Error> {
    let mut rows = rows.peekable();
    if rows.peek().is_none() && !R::IN_EACH_PART {
        return Ok(0);
    }
    let name = file_name(R::NAME);
    let path = directory.path().join(&name);
    let file = directory.create(name);
    let file = file.map_err(|cause| Error::io("create", &path, cause))?;
    let write = || {
        let fields = R::fields();
        let schema = Arc::new(parse_message_type(&schema(R::NAME, &fields))?);
        let properties = Arc::new(properties(&fields).build());
        let mut writer = SerializedFileWriter::new(file, schema, properties)?;
        let mut store = R::Store::default();
        while rows.peek().is_some() {
            let group = rows.by_ref().take(group_rows);
            group.for_each(|row| row.put(&mut store, clock));
            write_group(&mut writer, &mut store)?;
        }
        writer.into_inner()
    };
    let file = write().map_err(|cause| write_error(&path, cause))?;
    let synced = file.sync_all().and_then(|()| file.metadata());
    let metadata = synced.map_err(|cause| Error::io("write", &path, cause))?;
    Ok(metadata.len())
}

/// Writes a row group, and forgets its values.
fn write_group(
    writer: &mut SerializedFileWriter<File>,
    store: &mut impl Store,
) -> Result<(), ParquetError> {
    let mut group = writer.next_row_group()?;
    let mut buffers = Vec::new();
    store.buffers(&mut buffers);
    for buffer in buffers {
        let column = group.next_column()?;
        let column =
            column.ok_or_else(|| ParquetError::General("the schema has fewer columns".into()))?;
        buffer.write(column)?;
    }
    group.close()?;
    Ok(())
}

/// How the tables of a part are written.
pub fn part_properties(fields: &[Field]) -> WriterPropertiesBuilder {
    properties(fields).set_statistics_enabled(EnabledStatistics::Chunk)
}

/// How all tables are written.
pub fn properties(fields: &[Field]) -> WriterPropertiesBuilder {
    let mut properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_created_by(concat!("iotrace ", env!("CARGO_PKG_VERSION")).to_owned())
        // A part has few pages: an index of them would be longer than what it saves.
        .set_offset_index_disabled(true);
    for field in fields {
        let column = ColumnPath::from(&*field.name);
        if field.encoding != Encoding::Dictionary {
            let differences = PageEncoding::DELTA_BINARY_PACKED;
            properties = properties.set_column_encoding(column.clone(), differences);
        }
        if field.encoding == Encoding::Differences {
            properties = properties.set_column_dictionary_enabled(column, false);
        }
    }
    properties
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

/// Reads a table in `directory`: `take` takes one row from the columns. A table that not each part has may be missing; in a
/// recording of an older minor version, any table and column may.
pub fn read_table<'a, R: Row<'a>>(
    directory: &Path,
    minor: u32,
    mut take: impl FnMut(&R::Store) -> Result<(), Damage>,
) -> Result<(), Error> {
    let path = directory.join(file_name(R::NAME));
    if (is_older(minor) || !R::IN_EACH_PART) && !path.exists() {
        return Ok(());
    }
    let reader = open(&path)?;
    let fields = R::fields();
    let groups = reader.num_row_groups();
    let read = |index| read_group(&path, &reader, index, &fields, minor);
    let mut take_all = |(store, rows): (R::Store, usize)| {
        (0..rows).try_for_each(|_| take(&store).map_err(|cause| Error::damaged(&path, cause)))
    };
    if groups < 2 {
        return (0..groups).try_for_each(|index| take_all(read(index)?));
    }
    // The next group is decoded while the rows of one are taken.
    thread::scope(|scope| {
        let (to, from) = sync_channel(1);
        scope.spawn(move || {
            // After an error nobody takes the others.
            let _ = (0..groups).try_for_each(|index| to.send(read(index)));
        });
        from.into_iter().try_for_each(|group| take_all(group?))
    })
}

/// Whether a recording of this minor version may lack tables and columns that came later.
fn is_older(minor: u32) -> bool {
    minor < FORMAT_MINOR_VERSION
}

/// Opens a table's file.
pub fn open(path: &Path) -> Result<SerializedFileReader<File>, Error> {
    let file = regular_file::open(path).map_err(|cause| match cause.kind() {
        io::ErrorKind::NotFound => Error::damaged(path, "it is missing"),
        _ => Error::io("read", path, cause),
    })?;
    decode(|| SerializedFileReader::new(file)).map_err(|cause| Error::damaged(path, cause))
}

/// Reads a row group; its columns, and how many rows they have.
pub fn read_group<S: Store>(
    path: &Path,
    reader: &SerializedFileReader<File>,
    index: usize,
    fields: &[Field],
    minor: u32,
) -> Result<(S, usize), Error> {
    let read = || {
        let group = reader.get_row_group(index)?;
        check_size(group.metadata())?;
        let rows = usize::try_from(group.metadata().num_rows()).unwrap_or(0);
        let mut store = S::default();
        read_columns(group.as_ref(), fields, minor, rows, &mut store)?;
        Ok((store, rows))
    };
    decode(read).map_err(|cause| Error::damaged(path, cause))
}

thread_local! {
    /// Whether this thread is in [`decode`]. The hook is one for all threads, and others may panic in earnest.
    static DECODES: Cell<bool> = const { Cell::new(false) };
}

/// Decodes a part of a file. On some damage the parquet crate panics where it should fail; what it worked on is given
/// up with it. Such a panic prints nothing: the error says it.
pub fn decode<T>(work: impl FnOnce() -> Result<T, ParquetError>) -> Result<T, ParquetError> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let hook = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !DECODES.get() {
                hook(info);
            }
        }));
    });
    let outer = DECODES.replace(true);
    let done = catch_unwind(AssertUnwindSafe(work));
    DECODES.set(outer);
    done.unwrap_or_else(|_| Err(ParquetError::General("it cannot be decoded".into())))
}

/// Fails if a row group claims more than may be held.
pub fn check_size(group: &RowGroupMetaData) -> Result<(), ParquetError> {
    let columns = group.columns().iter();
    let is_too_large = group.num_rows() > MAX_GROUP_ROWS
        || columns
            .map(|column| column.uncompressed_size())
            .try_fold(0, i64::checked_add)
            .is_none_or(|bytes| bytes > MAX_GROUP_BYTES);
    if is_too_large {
        return Err(ParquetError::General("a row group is too large".into()));
    }
    Ok(())
}

fn read_columns(
    group: &dyn RowGroupReader,
    fields: &[Field],
    minor: u32,
    rows: usize,
    store: &mut impl Store,
) -> Result<(), ParquetError> {
    let mut buffers = Vec::new();
    store.buffers(&mut buffers);
    let mut buffers = buffers.into_iter();
    let columns = group.metadata().columns();
    for field in fields {
        for (path, buffer) in field.paths().iter().zip(&mut buffers) {
            let index = columns
                .iter()
                .position(|column| column.column_path() == path);
            let Some(index) = index else {
                // One that came later: the iotrace that wrote this did not know it.
                if is_older(minor) || field.presence == Presence::Optional {
                    buffer.fill(field.presence, rows);
                } else {
                    let cause = format!("it has no column {path}");
                    return Err(ParquetError::General(cause));
                }
                continue;
            };
            if columns[index].column_type() != field.physical {
                return Err(ParquetError::General("a column has another type".into()));
            }
            if field.presence == Presence::Required && is_zero(&columns[index], rows) {
                buffer.fill(field.presence, rows);
            } else if !field.is_derived {
                buffer.read(group.get_column_reader(index)?, field.presence, rows)?;
            }
        }
    }
    Ok(())
}

/// Whether the file says that a column of `rows` values has zeros alone, as those of most counters: it need not be decoded.
fn is_zero(column: &ColumnChunkMetaData, rows: usize) -> bool {
    let is_whole = usize::try_from(column.num_values()) == Ok(rows);
    let is_zero = matches!(column.statistics(), Some(Statistics::Int64(of_values))
        if of_values.min_opt() == Some(&0) && of_values.max_opt() == Some(&0));
    is_whole && is_zero
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        columns::{Buckets, row},
        tables, trace,
    };

    mod older {
        use super::row;

        row! {
            pub struct Row in each "things" {
                /// a count
                count: u64,
            }
        }
    }

    mod newer {
        use super::{Buckets, row};

        row! {
            pub struct Row in each "things" {
                /// a column that came later
                name: Option<u32>,
                /// another
                flag: bool,
                /// another
                sizes: Buckets<4>,
                /// a count
                count: u64,
            }
        }
    }

    #[test]
    fn columns_that_came_later_may_be_missing_in_an_older_recording() {
        let scratch = tempfile::tempdir().unwrap();
        let directory = Directory::open(scratch.path()).unwrap();
        let clock = Clock::default();
        let rows = (0..10_000).map(|count| older::Row { count });
        write_table(&directory, &clock, part_properties, GROUP_ROWS, rows).unwrap();
        let mut counts = Vec::new();
        let read = |minor, counts: &mut Vec<u64>| {
            read_table::<newer::Row>(scratch.path(), minor, |store| {
                let row = newer::Row::load(store, &clock)?;
                assert_eq!((row.name, row.flag, row.sizes.0), (None, false, [0; 4]));
                counts.push(row.count);
                Ok(())
            })
        };
        read(FORMAT_MINOR_VERSION - 1, &mut counts).unwrap();
        assert_eq!(counts, (0..10_000).collect::<Vec<_>>());
        let error = read(FORMAT_MINOR_VERSION, &mut counts).unwrap_err();
        assert!(error.to_string().contains("no column \"flag\""), "{error}");
        // What an older iotrace does not know, it ignores.
        let newer = tempfile::tempdir().unwrap();
        let directory = Directory::open(newer.path()).unwrap();
        let rows = (0..10).map(|count| newer::Row {
            name: Some(7),
            flag: true,
            sizes: Buckets([1; 4]),
            count,
        });
        write_table(&directory, &clock, part_properties, GROUP_ROWS, rows).unwrap();
        counts.clear();
        read_table::<older::Row>(newer.path(), FORMAT_MINOR_VERSION, |store| {
            counts.push(older::Row::load(store, &clock)?.count);
            Ok(())
        })
        .unwrap();
        assert_eq!(counts, (0..10).collect::<Vec<_>>());
    }

    #[test]
    fn parquet_takes_the_schemas() {
        for table in tables::descriptions().iter().chain(&trace::descriptions()) {
            let fields = table.columns.iter().flat_map(|(fields, _)| fields.clone());
            let fields: Vec<Field> = fields.collect();
            let parsed = parse_message_type(&schema(table.name, &fields)).unwrap();
            assert_eq!(parsed.get_fields().len(), fields.len(), "{}", table.name);
        }
    }
}
