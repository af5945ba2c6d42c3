//! The values of one Parquet column: pushed row by row and written, or read and taken row by row.

use std::cell::Cell;

use bytes::Bytes;
use parquet::{
    column::reader::{ColumnReader, get_typed_column_reader},
    data_type::{ByteArray, ByteArrayType, DataType},
    errors::ParquetError,
    file::writer::SerializedColumnWriter,
};

use super::{Damage, Presence};

/// A column ends before its rows do.
const ENDS_EARLY: Damage = "a column ends early";

/// Values of one column, and if some may be missing the levels that say which are there.
pub struct Buffer<T: DataType> {
    /// Defaults (0, false) before those in `values`: most counters are 0 for most files.
    defaults: usize,
    values: Vec<T::T>,
    /// The default, of a column that was read and has no other value.
    all: Option<T::T>,
    definitions: Vec<i16>,
    repetitions: Vec<i16>,
    /// Positions of the next value and level to be taken.
    next_value: Cell<usize>,
    next_level: Cell<usize>,
}

impl<T: DataType> Default for Buffer<T> {
    fn default() -> Self {
        Self {
            defaults: 0,
            values: Vec::new(),
            all: None,
            definitions: Vec::new(),
            repetitions: Vec::new(),
            next_value: Cell::new(0),
            next_level: Cell::new(0),
        }
    }
}

impl<T: DataType> Buffer<T> {
    /// Adds a value.
    pub fn push(&mut self, value: T::T) {
        if self.values.is_empty() && value == T::T::default() {
            self.defaults += 1;
        } else {
            self.values.push(value);
        }
    }

    /// Says whether the next row of an optional column has a value.
    pub fn push_presence(&mut self, is_present: bool) {
        self.definitions.push(is_present.into());
    }

    /// Whether a column that was read has no value but the default.
    pub fn is_zero(&self) -> bool {
        let all = self.all.as_ref();
        self.values.is_empty() && all.is_none_or(|value| *value == T::T::default())
    }

    /// Adds one row of a list.
    pub fn push_list(&mut self, list: impl IntoIterator<Item = T::T>) {
        let before = self.definitions.len();
        for value in list {
            self.repetitions
                .push((self.definitions.len() > before).into());
            self.definitions.push(1);
            self.push(value);
        }
        if self.definitions.len() == before {
            self.definitions.push(0);
            self.repetitions.push(0);
        }
    }

    /// Takes the next value.
    pub fn next(&self) -> Result<&T::T, Damage> {
        if let Some(value) = &self.all {
            return Ok(value);
        }
        let index = self.next_value.replace(self.next_value.get() + 1);
        self.values.get(index).ok_or(ENDS_EARLY)
    }

    /// Whether the next row of an optional column has a value.
    pub fn next_presence(&self) -> bool {
        let index = self.next_level.replace(self.next_level.get() + 1);
        self.definitions.get(index) == Some(&1)
    }

    /// Takes the next row of a list.
    pub fn next_list(&self) -> Result<Vec<&T::T>, Damage> {
        let mut list = Vec::new();
        loop {
            if self.next_presence() {
                list.push(self.next()?);
            }
            if self.repetitions.get(self.next_level.get()) != Some(&1) {
                return Ok(list);
            }
        }
    }
}

impl Buffer<ByteArrayType> {
    /// Adds bytes. Neighbours that are equal, such as the host of all rows, are kept once.
    pub fn push_bytes(&mut self, bytes: &[u8]) {
        let last = self.values.last();
        let shared = last.filter(|last| last.data() == bytes).cloned();
        self.values
            .push(shared.unwrap_or_else(|| ByteArray::from(bytes.to_vec())));
    }

    /// Adds a text that lives as long as the program, without a copy.
    pub fn push_static(&mut self, text: &'static str) {
        self.values.push(Bytes::from_static(text.as_bytes()).into());
    }

    /// Takes the next bytes.
    pub fn next_bytes(&self) -> Result<&[u8], Damage> {
        self.next().map(ByteArray::data)
    }
}

/// A column of a type that is not known: what writers and readers of files do with it.
pub trait AnyBuffer {
    /// Writes the values, and forgets them.
    fn write(&mut self, column: SerializedColumnWriter<'_>) -> Result<(), ParquetError>;

    /// Reads `rows` rows.
    fn read(
        &mut self,
        column: ColumnReader,
        presence: Presence,
        rows: usize,
    ) -> Result<(), ParquetError>;

    /// Takes `rows` rows without a value: nothing, or the default if the column always has one.
    fn fill(&mut self, presence: Presence, rows: usize);
}

impl<T: DataType> AnyBuffer for Buffer<T> {
    fn write(&mut self, mut column: SerializedColumnWriter<'_>) -> Result<(), ParquetError> {
        let defaults = std::iter::repeat_n(T::T::default(), std::mem::take(&mut self.defaults));
        self.values.splice(..0, defaults);
        column.typed::<T>().write_batch(
            &self.values,
            some(&self.definitions),
            some(&self.repetitions),
        )?;
        self.values.clear();
        self.definitions.clear();
        self.repetitions.clear();
        column.close()
    }

    fn read(
        &mut self,
        column: ColumnReader,
        presence: Presence,
        rows: usize,
    ) -> Result<(), ParquetError> {
        let (definitions, repetitions) = (&mut self.definitions, &mut self.repetitions);
        let (read, values, _) = get_typed_column_reader::<T>(column).read_records(
            rows,
            Some(definitions),
            Some(repetitions),
            &mut self.values,
        )?;
        if read != rows || presence == Presence::Required && values != rows {
            return Err(ParquetError::EOF(ENDS_EARLY.into()));
        }
        if presence == Presence::Optional && definitions.is_empty() {
            definitions.resize(rows, 1); // the file's column always has a value
        }
        Ok(())
    }

    fn fill(&mut self, presence: Presence, rows: usize) {
        match presence {
            Presence::Required => self.all = Some(T::T::default()),
            Presence::Optional => self.definitions.resize(rows, 0),
            Presence::List => {
                self.definitions.resize(rows, 0);
                self.repetitions.resize(rows, 0);
            }
        }
    }
}

/// Columns that always have a value have no levels.
fn some(levels: &[i16]) -> Option<&[i16]> {
    (!levels.is_empty()).then_some(levels)
}
