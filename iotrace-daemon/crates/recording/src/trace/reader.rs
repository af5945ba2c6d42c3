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

use hashbrown::HashMap;
use iotrace_common::{key::FileId, op};
use parquet::{
    column::reader::{ColumnReader, get_typed_column_reader},
    data_type::{ByteArray, ByteArrayType, DataType, Int64Type},
    errors::ParquetError,
    file::{
        metadata::RowGroupMetaData,
        reader::{FileReader, RowGroupReader, SerializedFileReader},
        statistics::Statistics,
    },
};

use super::{FILES, OPERATIONS, PART, columns::Row};
use crate::{
    Error, checksums,
    meta::Meta,
    open_file,
    table::{check_size, decode},
    tables::phase_code,
};
use iotrace_model::{mounts::parse_device, run::TraceRun};

/// The operation trace of a recording.
#[derive(Debug)]
pub struct Trace {
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

impl Trace {
    /// Opens the trace in `directory`; none where the recording has none.
    pub fn open(directory: &Path) -> Result<Option<Self>, Error> {
        let Some(about) = Meta::read(directory)?.run.trace else {
            return Ok(None);
        };
        let mut trace = Self {
            parts: Vec::new(),
            files: Vec::new(),
            about,
            operations: 0,
        };
        let mut number = 1;
        loop {
            let part = directory.join(format!("{PART}{number:06}"));
            // Those behind the last that meta.json knows were written just before a kill.
            if number > trace.about.parts && !part.is_dir() {
                break;
            }
            trace.add(&part)?;
            number += 1;
        }
        trace.parts.sort_by_key(|part| part.first);
        Ok(Some(trace))
    }

    fn add(&mut self, part: &Path) -> Result<(), Error> {
        checksums::check(part)?;
        let path = part.join(OPERATIONS);
        let reader = open(&path)?;
        self.operations += u64::try_from(reader.metadata().file_metadata().num_rows()).unwrap_or(0);
        if let Some(group) = reader.metadata().row_groups().first() {
            let first = first_start(group);
            let first =
                first.ok_or_else(|| Error::damaged(&path, "it does not say when it begins"))?;
            self.parts.push(Part { path, first });
        }
        let path = part.join(FILES);
        let reader = open(&path)?;
        let files = decode(|| read_files(&reader)).map_err(|cause| Error::damaged(&path, cause))?;
        for (number, file) in files {
            if number != self.files.len() as i64 {
                return Err(Error::damaged(&path, "a file before it is missing"));
            }
            self.files.push(file);
        }
        Ok(())
    }

    /// The file of an operation.
    pub fn file(&self, row: &Row) -> Option<FileId> {
        self.files.get(row.file? as usize).copied()
    }

    /// Every operation, in the order of their starts.
    pub fn rows(&self) -> Rows<'_> {
        Rows {
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
            let opened = OpenPart::open(&part.path)?;
            if let Some(start) = opened.start() {
                self.open.push(Reverse((start, self.parts.len())));
                self.parts.push(Some(opened));
            }
        }
        let Some(Reverse((_, index))) = self.open.pop() else {
            return Ok(None);
        };
        let Some(part) = &mut self.parts[index] else {
            return Ok(None);
        };
        let row = part.take()?;
        match part.start() {
            Some(start) => self.open.push(Reverse((start, index))),
            None => self.parts[index] = None,
        }
        Ok(row)
    }
}

impl Iterator for Rows<'_> {
    type Item = Result<Row, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.try_next();
        if next.is_err() {
            self.open.clear();
            self.next_part = None;
        }
        next.transpose()
    }
}

/// A part that is being read, a row group at a time.
struct OpenPart {
    path: PathBuf,
    reader: SerializedFileReader<File>,
    group: usize,
    rows: std::vec::IntoIter<Row>,
    names: Names,
}

impl OpenPart {
    fn open(path: &Path) -> Result<Self, Error> {
        let mut part = Self {
            path: path.into(),
            reader: open(path)?,
            group: 0,
            rows: Vec::new().into_iter(),
            names: Names::default(),
        };
        part.fill()?;
        Ok(part)
    }

    /// Start of the next row.
    fn start(&self) -> Option<i64> {
        self.rows.as_slice().first().map(|row| row.start)
    }

    fn take(&mut self) -> Result<Option<Row>, Error> {
        let row = self.rows.next();
        self.fill()?;
        Ok(row)
    }

    /// Reads the next row group where all rows are taken.
    fn fill(&mut self) -> Result<(), Error> {
        while self.rows.len() == 0 && self.group < self.reader.num_row_groups() {
            let rows = decode(|| {
                let group = self.reader.get_row_group(self.group)?;
                check_size(group.metadata())?;
                read_rows(group.as_ref(), &mut self.names)
            });
            let rows = rows.map_err(|cause| Error::damaged(&self.path, cause))?;
            self.rows = rows.into_iter();
            self.group += 1;
        }
        Ok(())
    }
}

/// Numbers of names, as they were met.
#[derive(Default)]
struct Names {
    operations: HashMap<Vec<u8>, u32>,
    phases: HashMap<Vec<u8>, u32>,
}

fn open(path: &Path) -> Result<SerializedFileReader<File>, Error> {
    let file = open_file(path).map_err(|cause| match cause.kind() {
        std::io::ErrorKind::NotFound => Error::damaged(path, "it is missing"),
        _ => Error::io("read", path, cause),
    })?;
    decode(|| SerializedFileReader::new(file)).map_err(|cause| Error::damaged(path, cause))
}

fn first_start(group: &RowGroupMetaData) -> Option<i64> {
    match group.columns().first()?.statistics()? {
        Statistics::Int64(values) => values.min_opt().copied(),
        _ => None,
    }
}

fn damaged(cause: &str) -> ParquetError {
    ParquetError::General(cause.into())
}

/// Reads a column: its values, and with `optional` which rows have one.
fn column<T: DataType>(
    group: &dyn RowGroupReader,
    name: &str,
    optional: bool,
) -> Result<(Vec<T::T>, Vec<i16>), ParquetError> {
    let rows = usize::try_from(group.metadata().num_rows()).unwrap_or(0);
    let columns = group.metadata().columns();
    let index = columns
        .iter()
        .position(|column| column.column_path().string() == name)
        .ok_or_else(|| damaged(&format!("it has no column {name}")))?;
    let (mut values, mut there) = (Vec::with_capacity(rows), Vec::new());
    let reader: ColumnReader = group.get_column_reader(index)?;
    let mut reader = get_typed_column_reader::<T>(reader);
    let levels = optional.then_some(&mut there);
    let (read, ..) = reader.read_records(rows, levels, None, &mut values)?;
    if read != rows || !optional && values.len() != rows {
        return Err(damaged("a column ends early"));
    }
    Ok((values, there))
}

fn ints(group: &dyn RowGroupReader, name: &str) -> Result<Vec<i64>, ParquetError> {
    Ok(column::<Int64Type>(group, name, false)?.0)
}

fn optional_ints(
    group: &dyn RowGroupReader,
    name: &str,
) -> Result<impl Iterator<Item = Option<i64>>, ParquetError> {
    let (values, there) = column::<Int64Type>(group, name, true)?;
    let mut values = values.into_iter();
    Ok(there
        .into_iter()
        .map(move |level| if level > 0 { values.next() } else { None }))
}

/// Reads a column of names as the numbers that `number` gives them.
fn numbers(
    group: &dyn RowGroupReader,
    name: &str,
    known: &mut HashMap<Vec<u8>, u32>,
    number: impl Fn(&[u8]) -> Option<u32>,
) -> Result<Vec<u32>, ParquetError> {
    let (values, _) = column::<ByteArrayType>(group, name, false)?;
    let find = |value: ByteArray| {
        if let Some(number) = known.get(value.data()) {
            return Ok(*number);
        }
        let unknown = || damaged(&format!("a name in {name} is not known to this iotrace"));
        let found = number(value.data()).ok_or_else(unknown)?;
        known.insert(value.data().to_vec(), found);
        Ok(found)
    };
    values.into_iter().map(find).collect()
}

fn read_rows(group: &dyn RowGroupReader, names: &mut Names) -> Result<Vec<Row>, ParquetError> {
    let start = ints(group, "start_unix_ns")?;
    let mut duration = ints(group, "duration_ns")?.into_iter();
    let mut pid = ints(group, "pid")?.into_iter();
    let mut start_key = ints(group, "start_key")?.into_iter();
    let mut tid = ints(group, "tid")?.into_iter();
    let operation = |name: &[u8]| {
        let known = op::NAMES.iter().position(|known| known.as_bytes() == name);
        known.map(|index| index as u32)
    };
    let mut ops = numbers(group, "operation", &mut names.operations, operation)?.into_iter();
    let phase = |name: &[u8]| phase_code(name).map(u32::from);
    let mut phases = numbers(group, "phase", &mut names.phases, phase)?.into_iter();
    let mut file = optional_ints(group, "file")?;
    let mut offset = optional_ints(group, "offset")?;
    let mut length = optional_ints(group, "length")?;
    let mut result = ints(group, "result")?.into_iter();
    let mut rows = Vec::with_capacity(start.len());
    for start in start {
        let next = |column: &mut std::vec::IntoIter<i64>| column.next().unwrap_or_default();
        let file = file.next().flatten();
        let row = Row {
            start,
            duration: next(&mut duration),
            pid: next(&mut pid) as u32,
            start_key: next(&mut start_key) as u32,
            tid: next(&mut tid) as u32,
            op: ops.next().unwrap_or_default(),
            phase: phases.next().unwrap_or_default(),
            file: file.and_then(|number| u32::try_from(number).ok()),
            offset: offset.next().flatten(),
            length: length.next().flatten(),
            result: next(&mut result),
        };
        rows.push(row.restored());
    }
    Ok(rows)
}

fn read_files(reader: &SerializedFileReader<File>) -> Result<Vec<(i64, FileId)>, ParquetError> {
    let mut files = Vec::new();
    for index in 0..reader.num_row_groups() {
        let group = reader.get_row_group(index)?;
        let group = group.as_ref();
        check_size(group.metadata())?;
        let number = ints(group, "file")?;
        let (device, _) = column::<ByteArrayType>(group, "device", false)?;
        let (inode, generation) = (ints(group, "inode")?, ints(group, "generation")?);
        for (((number, device), inode), generation) in
            number.into_iter().zip(device).zip(inode).zip(generation)
        {
            let device = std::str::from_utf8(device.data())
                .ok()
                .and_then(parse_device);
            let device = device.ok_or_else(|| damaged("a device is no device"))?;
            let file = FileId {
                device,
                generation: generation as u32,
                inode: inode as u64,
            };
            files.push((number, file));
        }
    }
    Ok(files)
}
