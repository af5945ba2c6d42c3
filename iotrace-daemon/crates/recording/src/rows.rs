//! Rows of any table of a recording, by the names of their columns: for queries, whose columns are not known beforehand.
//!
//! ```text
//! for table in rows::tables() { .. }                               // names, columns and what they mean
//! rows::read(directory, "files", &["path", "reads"], take)?;        // one call of `take` per row
//! ```

use std::path::{Path, PathBuf};
use std::sync::Arc;

use iotrace_model::counters::TABLE;
use parquet::{
    errors::ParquetError,
    file::reader::FileReader as _,
    record::{Field as Parsed, reader::RowIter},
    schema::types::Type,
};

use crate::{
    Error, FORMAT_MINOR_VERSION, checksums,
    columns::{Field, Presence},
    meta::Meta,
    parts,
    table::{check_size, decode, file_name, open},
    tables::{self, Description},
    trace,
};

/// A table of recordings.
#[derive(Debug)]
pub struct Table {
    pub name: &'static str,
    pub columns: Vec<Column>,
}

/// A column of a table.
#[derive(Debug)]
pub struct Column {
    pub name: String,
    /// What it means; of columns that make one value together, what that is.
    pub meaning: String,
}

/// A value of a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    Null,
    /// Also 0 and 1 for a boolean, and the bits of an unsigned number.
    Integer(i64),
    /// Of a time: seconds since the Unix epoch.
    Real(f64),
    /// Also a list of pairs, as JSON.
    Text(String),
    /// Bytes that are not UTF-8.
    Bytes(Vec<u8>),
}

/// The tables, those of the operation trace last.
pub fn tables() -> Vec<Table> {
    described().into_iter().map(|(_, table)| table).collect()
}

/// What the tables are declared as, and what they are here.
fn described() -> Vec<(Description, Table)> {
    let of_parts = tables::descriptions().into_iter();
    let all = of_parts.chain(trace::descriptions());
    let with_table = |description: Description| {
        let columns = description.columns.iter().flat_map(|(fields, meaning)| {
            fields.iter().map(|field| Column {
                name: field.name.clone(),
                meaning: meaning_of(&field.name, meaning),
            })
        });
        let table = Table {
            name: description.name,
            columns: columns.collect(),
        };
        (description, table)
    };
    all.map(with_table).collect()
}

/// What a column means: of a counter, what that counts.
fn meaning_of(column: &str, meaning: &str) -> String {
    let counter = TABLE.iter().find(|counter| counter.column == column);
    counter.map_or(meaning, |counter| counter.doc).to_owned()
}

/// Reads a table of the recording in `directory`. `take` has the values of these columns of each row, in their order; it
/// says whether to go on. A table and columns that are not known have no rows and are null; so are those that came later
/// than the recording.
pub fn read(
    directory: &Path,
    table: &str,
    columns: &[&str],
    mut take: impl FnMut(&[Cell]) -> bool,
) -> Result<(), Error> {
    let known = described();
    let Some((description, _)) = known.iter().find(|(known, _)| known.name == table) else {
        return Ok(());
    };
    let meta = Meta::read(directory)?;
    let is_of_trace = trace::descriptions().iter().any(|one| one.name == table);
    let file = if is_of_trace {
        trace::file_name_of(table)
    } else {
        file_name(table)
    };
    let fields: Vec<&Field> = description
        .columns
        .iter()
        .flat_map(|(fields, _)| fields)
        .collect();
    let asked: Vec<Option<&Field>> = columns
        .iter()
        .map(|name| fields.iter().copied().find(|field| field.name == **name))
        .collect();
    let mut reading = Reading {
        asked,
        minor: meta.format_minor_version,
        take: &mut take,
        goes_on: true,
    };
    let read = if is_of_trace {
        reading.trace(trace::parts_in(directory, &meta), &file)
    } else {
        parts::each(directory, &meta, |part| {
            reading.file(&part.join(&file))?;
            Ok(reading.goes_on)
        })
    };
    read.map_err(|cause| cause.of_minor(meta.format_minor_version))
}

struct Reading<'a> {
    /// Nothing where no such column is known.
    asked: Vec<Option<&'a Field>>,
    minor: u32,
    take: &'a mut dyn FnMut(&[Cell]) -> bool,
    goes_on: bool,
}

impl Reading<'_> {
    /// Reads a file of each part of a trace. There may be said to be any number of parts.
    fn trace(&mut self, parts: impl Iterator<Item = PathBuf>, file: &str) -> Result<(), Error> {
        for part in parts {
            if !self.goes_on {
                break;
            }
            if !part.is_dir() {
                return Err(Error::damaged(part, "it is missing"));
            }
            checksums::check(&part)?;
            self.file(&part.join(file))?;
        }
        Ok(())
    }

    /// Reads one file; a part without rows of a table may have none.
    fn file(&mut self, path: &Path) -> Result<(), Error> {
        if !path.exists() {
            return Ok(());
        }
        let reader = open(path)?;
        for index in 0..reader.num_row_groups() {
            if !self.goes_on {
                break;
            }
            let group = decode(|| {
                let group = reader.get_row_group(index)?;
                check_size(group.metadata())?;
                let schema = reader.metadata().file_metadata().schema();
                let there = self.project(schema)?;
                self.rows(group.metadata().num_rows(), &there, || {
                    RowIter::from_row_group(Some(there.schema.clone()), group.as_ref())
                })
            });
            group.map_err(|cause| Error::damaged(path, cause))?;
        }
        Ok(())
    }

    /// The columns of a file that are asked for.
    fn project(&self, schema: &Type) -> Result<Projection, ParquetError> {
        let mut fields = Vec::new();
        let mut places = Vec::new();
        for asked in &self.asked {
            let Some(field) = asked else {
                places.push(None);
                continue;
            };
            let of_name = |one: &&Arc<Type>| one.name() == field.name;
            match schema.get_fields().iter().find(of_name) {
                Some(found) => {
                    let is_same = found.is_group() || found.get_physical_type() == field.physical;
                    if !is_same {
                        return Err(ParquetError::General("a column has another type".into()));
                    }
                    let known = fields
                        .iter()
                        .position(|one: &Arc<Type>| one.name() == found.name());
                    places.push(Some(known.unwrap_or(fields.len())));
                    if known.is_none() {
                        fields.push(Arc::clone(found));
                    }
                }
                None if self.minor < FORMAT_MINOR_VERSION
                    || field.presence == Presence::Optional =>
                {
                    places.push(None);
                }
                None => {
                    let cause = format!("it has no column {}", field.name);
                    return Err(ParquetError::General(cause));
                }
            }
        }
        let schema = Type::group_type_builder(schema.name()).with_fields(fields);
        Ok(Projection {
            schema: schema.build()?,
            places,
        })
    }

    fn rows<'r>(
        &mut self,
        rows: i64,
        there: &Projection,
        iterate: impl FnOnce() -> Result<RowIter<'r>, ParquetError>,
    ) -> Result<(), ParquetError> {
        let mut cells = vec![Cell::Null; there.places.len()];
        if there.schema.get_fields().is_empty() {
            for _ in 0..rows {
                self.goes_on = self.goes_on && (self.take)(&cells);
            }
            return Ok(());
        }
        for row in iterate()? {
            let parsed = row?.into_columns();
            for (cell, place) in cells.iter_mut().zip(&there.places) {
                let value = place.and_then(|place| parsed.get(place));
                *cell = value.map_or(Cell::Null, |(_, value)| cell_of(value));
            }
            self.goes_on = (self.take)(&cells);
            if !self.goes_on {
                break;
            }
        }
        Ok(())
    }
}

/// The columns of a file that are read.
struct Projection {
    schema: Type,
    /// Where the value of each column that is asked for is in a row, if the file has it.
    places: Vec<Option<usize>>,
}

fn cell_of(parsed: &Parsed) -> Cell {
    match parsed {
        Parsed::Bool(value) => Cell::Integer((*value).into()),
        Parsed::Long(value) => Cell::Integer(*value),
        Parsed::ULong(value) => Cell::Integer(value.cast_signed()),
        Parsed::TimestampMicros(value) => Cell::Real(*value as f64 / 1e6),
        Parsed::Str(text) => Cell::Text(text.clone()),
        Parsed::Bytes(bytes) => match std::str::from_utf8(bytes.data()) {
            Ok(text) => Cell::Text(text.to_owned()),
            Err(_) => Cell::Bytes(bytes.data().to_vec()),
        },
        Parsed::ListInternal(list) => {
            let pairs = list.elements().iter().map(pair).collect();
            Cell::Text(serde_json::Value::Array(pairs).to_string())
        }
        // No column has another type.
        _ => Cell::Null,
    }
}

/// An element of a list, as an object.
fn pair(element: &Parsed) -> serde_json::Value {
    let Parsed::Group(row) = element else {
        return serde_json::Value::Null;
    };
    let members = row.get_column_iter().map(|(name, value)| {
        let value = match value {
            Parsed::Long(value) => (*value).into(),
            _ => serde_json::Value::Null,
        };
        (name.clone(), value)
    });
    serde_json::Value::Object(members.collect())
}
