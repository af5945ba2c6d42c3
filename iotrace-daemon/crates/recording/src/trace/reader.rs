//! Reads the operations of a recording, in the order of their starts, without holding them all.
//!
//! The parts of a trace hardly overlap: only an operation that took long stands in a later part than others that began
//! after it. So a part is opened when the merge has come to its first start, and closed when it is read.

use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    fs::File,
    path::{Path, PathBuf},
};

use iotrace_common::key::FileId;
use iotrace_model::run::{Clock, TraceRun};
use parquet::file::{
    metadata::RowGroupMetaData,
    reader::{FileReader, SerializedFileReader},
    statistics::Statistics,
};

use super::{
    PART, files,
    operations::{Row, StoredRow},
};
use crate::{
    Error, checksums,
    columns::{Field, Row as _},
    meta::Meta,
    table::{file_name, open, read_group, read_table},
};

/// The operation trace of a recording.
#[derive(Debug)]
pub struct Trace {
    /// Minor version of the recording's format.
    minor: u32,
    parts: Vec<Part>,
    /// Files by their number.
    files: Vec<FileId>,
    /// What the recorder says of it; of a killed recorder, as of its last flush.
    pub about: TraceRun,
    /// Operations in the parts.
    pub operations: u64,
}

/// One part: its file, and the first start in it.
#[derive(Debug)]
struct Part {
    path: PathBuf,
    first: i64,
}

/// The parts of the trace in `directory`, in order; none where the recording has no trace.
pub(crate) fn parts_in(directory: &Path, meta: &Meta) -> impl Iterator<Item = PathBuf> {
    let about = meta.run.trace.as_ref().into_iter();
    about.flat_map(move |about| parts_behind(directory, about.parts))
}

/// The parts that `meta.json` knows, and those behind them that are there: they were written just before a kill.
fn parts_behind(directory: &Path, known: u32) -> impl Iterator<Item = PathBuf> {
    (1..)
        .map(move |number: u32| (number, directory.join(format!("{PART}{number:06}"))))
        .take_while(move |(number, part)| *number <= known || part.is_dir())
        .map(|(_, part)| part)
}

impl Trace {
    /// Opens the trace in `directory`; none where the recording has none.
    pub fn open(directory: &Path) -> Result<Option<Self>, Error> {
        let meta = Meta::read(directory)?;
        let (minor, Some(about)) = (meta.format_minor_version, meta.run.trace) else {
            return Ok(None);
        };
        let mut trace = Self {
            minor,
            parts: Vec::new(),
            files: Vec::new(),
            about,
            operations: 0,
        };
        for part in parts_behind(directory, trace.about.parts) {
            trace.add(&part).map_err(|cause| cause.of_minor(minor))?;
        }
        trace.parts.sort_by_key(|part| part.first);
        Ok(Some(trace))
    }

    fn add(&mut self, part: &Path) -> Result<(), Error> {
        checksums::check(part)?;
        let path = part.join(file_name(StoredRow::NAME));
        let reader = open(&path)?;
        self.operations += u64::try_from(reader.metadata().file_metadata().num_rows()).unwrap_or(0);
        if let Some(group) = reader.metadata().row_groups().first() {
            let first = first_start(group);
            let first =
                first.ok_or_else(|| Error::damaged(&path, "it does not say when it begins"))?;
            self.parts.push(Part { path, first });
        }
        read_table::<files::Row>(part, self.minor, |store| {
            let row = files::Row::load(store, &Clock::default())?;
            if row.file as usize != self.files.len() {
                return Err("a file before it is missing");
            }
            self.files.push(row.id());
            Ok(())
        })
    }

    /// The file of an operation.
    pub fn file(&self, row: &Row) -> Option<FileId> {
        self.files.get(row.file? as usize).copied()
    }

    /// Every operation, in the order of their starts.
    pub fn rows(&self) -> Rows<'_> {
        Rows {
            minor: self.minor,
            unopened: self.parts.iter(),
            next_part: None,
            open: BinaryHeap::new(),
            parts: Vec::new(),
        }
        .begin()
    }
}

/// Operations in the order of their starts. Ends at the first error.
pub struct Rows<'a> {
    minor: u32,
    unopened: std::slice::Iter<'a, Part>,
    next_part: Option<&'a Part>,
    /// The next start of each open part.
    open: BinaryHeap<Reverse<(i64, usize)>>,
    parts: Vec<Option<OpenPart>>,
}

impl Rows<'_> {
    fn begin(mut self) -> Self {
        self.next_part = self.unopened.next();
        self
    }

    fn try_next(&mut self) -> Result<Option<Row>, Error> {
        while let Some(part) = self.next_part {
            let until = self.open.peek().map(|Reverse((start, _))| *start);
            if until.is_some_and(|start| start < part.first) {
                break;
            }
            self.next_part = self.unopened.next();
            let opened = OpenPart::open(&part.path, self.minor)?;
            if let Some(row) = &opened.next {
                self.open.push(Reverse((row.start, self.parts.len())));
                self.parts.push(Some(opened));
            }
        }
        let Some(Reverse((_, index))) = self.open.pop() else {
            return Ok(None);
        };
        let Some(part) = &mut self.parts[index] else {
            return Ok(None);
        };
        let row = part.advance()?;
        match &part.next {
            Some(next) => self.open.push(Reverse((next.start, index))),
            None => self.parts[index] = None,
        }
        Ok(row)
    }
}

impl Iterator for Rows<'_> {
    type Item = Result<Row, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.try_next().map_err(|cause| cause.of_minor(self.minor));
        if next.is_err() {
            self.open.clear();
            self.next_part = None;
        }
        next.transpose()
    }
}

/// The columns of operations.
type Store = <StoredRow as crate::columns::Row<'static>>::Store;

/// A part that is being read, a row group at a time.
struct OpenPart {
    path: PathBuf,
    minor: u32,
    reader: SerializedFileReader<File>,
    fields: Vec<Field>,
    /// The row group, how many of its rows are left, and the number of the next one.
    store: Store,
    rows: usize,
    group: usize,
    /// The next row.
    next: Option<Row>,
}

impl OpenPart {
    fn open(path: &Path, minor: u32) -> Result<Self, Error> {
        let mut part = Self {
            path: path.into(),
            minor,
            reader: open(path)?,
            fields: StoredRow::fields(),
            store: Store::default(),
            rows: 0,
            group: 0,
            next: None,
        };
        part.advance()?;
        Ok(part)
    }

    /// Takes the next row.
    fn advance(&mut self) -> Result<Option<Row>, Error> {
        while self.rows == 0 && self.group < self.reader.num_row_groups() {
            self.store = Store::default();
            (self.store, self.rows) = read_group(
                &self.path,
                &self.reader,
                self.group,
                &self.fields,
                self.minor,
            )?;
            self.group += 1;
        }
        let mut next = None;
        if self.rows > 0 {
            let stored = StoredRow::load(&self.store, &Clock::default());
            let stored = stored.map_err(|cause| Error::damaged(&self.path, cause))?;
            next = Some(stored.into());
            self.rows -= 1;
        }
        Ok(std::mem::replace(&mut self.next, next))
    }
}

fn first_start(group: &RowGroupMetaData) -> Option<i64> {
    match group.columns().first()?.statistics()? {
        Statistics::Int64(values) => values.min_opt().copied(),
        _ => None,
    }
}
