//! Writes the parts of a trace, within the size that it may take.

use std::{collections::BTreeMap, fs::File};

use hashbrown::HashMap;
use iotrace_common::{
    key::FileId,
    trace::{Missing, NONE, Operation},
};
use parquet::{
    data_type::{ByteArray, ByteArrayType, Int64Type},
    errors::ParquetError,
    file::writer::SerializedFileWriter,
};

use super::{
    FILES, OPERATIONS, PART,
    columns::{self, GROUP, Row, Texts},
};
use crate::directory::Directory;
use crate::{Error, recorder::put_part, table::write_error, tables::device_name};
use iotrace_model::{
    input::ProcessId,
    run::{Clock, TraceMissing, TraceRun},
};

/// Bytes that an operation takes, before the first part says so.
const GUESS: u64 = 10;

/// Writes the parts of a trace.
pub struct TraceWriter {
    directory: Directory,
    clock: Clock,
    most_bytes: Option<u64>,
    texts: Texts,
    files: HashMap<FileId, u32>,
    /// Files that no part names yet.
    new_files: Vec<FileId>,
    /// The file of the operation before.
    last: (FileId, Option<u32>),
    parts: u32,
    operations: u64,
    bytes: u64,
    is_closed: bool,
    /// What the kernel side has not recorded, by process.
    missing: BTreeMap<ProcessId, Missing>,
    /// What was recorded and not written, by process.
    unwritten: BTreeMap<ProcessId, Missing>,
}

impl TraceWriter {
    /// Nothing is written before the first part. `most_bytes`: what all parts may take.
    pub fn new(directory: &Directory, clock: Clock, most_bytes: Option<u64>) -> Self {
        Self {
            directory: directory.clone(),
            clock,
            most_bytes,
            texts: Texts::new(),
            files: HashMap::new(),
            new_files: Vec::new(),
            last: (FileId::NONE, None),
            parts: 0,
            operations: 0,
            bytes: 0,
            is_closed: false,
            missing: BTreeMap::new(),
            unwritten: BTreeMap::new(),
        }
    }

    /// Writes a part, as far as there is room for it, and keeps what is missing. Operations that cannot be written
    /// are counted as lost.
    pub fn write(
        &mut self,
        operations: &[Operation],
        missing: Vec<(ProcessId, Missing)>,
    ) -> Result<(), Error> {
        self.missing = missing.into_iter().collect();
        let mut rows = self.rows(operations);
        let room = self.room();
        if (rows.len() as u64) > room {
            self.is_closed = true;
            for row in rows.drain(room as usize..) {
                self.unwritten.entry(process_of(&row)).or_default().left_out += 1;
            }
        }
        if rows.is_empty() {
            return Ok(());
        }
        let written = self.write_part(&rows);
        if written.is_err() {
            for row in &rows {
                self.unwritten.entry(process_of(row)).or_default().lost += 1;
            }
        }
        written
    }

    /// Whether there is no more room: then nothing more should be recorded.
    pub fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// What was written so far, and what is missing.
    pub fn summary(&self) -> TraceRun {
        let mut missing = self.missing.clone();
        for (process, more) in &self.unwritten {
            let sum = missing.entry(*process).or_default();
            sum.lost += more.lost;
            sum.left_out += more.left_out;
        }
        TraceRun {
            filter: Vec::new(),
            most_bytes: self.most_bytes,
            parts: self.parts,
            operations: self.operations,
            bytes: self.bytes,
            missing: missing
                .into_iter()
                .map(|(process, missing)| TraceMissing {
                    pid: process.pid,
                    start_key: process.start,
                    lost: missing.lost,
                    left_out: missing.left_out,
                })
                .collect(),
        }
    }

    /// Operations for which there is room.
    fn room(&self) -> u64 {
        match self.most_bytes {
            _ if self.is_closed => 0,
            None => u64::MAX,
            Some(most) => {
                let each = match self.operations {
                    0 => GUESS,
                    count => self.bytes.div_ceil(count).max(1),
                };
                most.saturating_sub(self.bytes) / each
            }
        }
    }

    /// The operations as rows, by start.
    fn rows(&mut self, operations: &[Operation]) -> Vec<Row> {
        let mut rows: Vec<Row> = operations.iter().map(|one| self.row(one)).collect();
        rows.sort_by_key(|row| row.start);
        rows
    }

    fn row(&mut self, operation: &Operation) -> Row {
        let Operation { key, .. } = operation;
        if self.last.0 != key.file {
            self.last = (key.file, self.number(key.file));
        }
        let known = |value: u64| (value != NONE).then_some(value as i64);
        Row {
            start: self.clock.unix_ns(operation.start),
            duration: operation.end.wrapping_sub(operation.start) as i64,
            pid: key.tgid,
            start_key: key.start,
            tid: key.tid,
            op: operation.op,
            phase: key.phase,
            file: self.last.1,
            offset: known(operation.offset),
            length: known(operation.length),
            result: operation.result,
        }
    }

    /// Number of a file in this recording.
    fn number(&mut self, file: FileId) -> Option<u32> {
        if file.is_none() {
            return None;
        }
        let next = self.files.len() as u32;
        let number = *self.files.entry(file).or_insert(next);
        if number == next {
            self.new_files.push(file);
        }
        Some(number)
    }

    fn write_part(&mut self, rows: &[Row]) -> Result<(), Error> {
        let name = format!("{PART}{:06}", self.parts + 1);
        let bytes = put_part(&self.directory, &name, |unfinished| {
            self.write_files(rows, unfinished)
        })?;
        self.new_files.clear();
        self.parts += 1;
        self.operations += rows.len() as u64;
        self.bytes += bytes;
        // The part is in its place whether or not its name is on the disk yet: it is not lost.
        if let Err(cause) = self.directory.sync() {
            log::warn!("{}", Error::io("write", self.directory.path(), cause));
        }
        Ok(())
    }

    /// Writes both files of a part; their sizes, bytes.
    fn write_files(&self, rows: &[Row], directory: &Directory) -> Result<u64, Error> {
        let operations = write_file(directory, OPERATIONS, columns::OPERATIONS, |writer| {
            rows.chunks(GROUP)
                .try_for_each(|rows| columns::write_rows(writer, rows, &self.texts))
        })?;
        let first = self.files.len() - self.new_files.len();
        let files = write_file(directory, FILES, columns::FILES, |writer| {
            write_new_files(writer, first as i64, &self.new_files)
        })?;
        Ok(operations + files)
    }
}

fn write_new_files(
    writer: &mut SerializedFileWriter<File>,
    first: i64,
    files: &[FileId],
) -> Result<(), ParquetError> {
    let mut group = writer.next_row_group()?;
    let ints = |value: fn(&FileId) -> i64| files.iter().map(value).collect();
    let numbers = (first..first + files.len() as i64).collect();
    columns::put::<Int64Type>(&mut group, numbers, None)?;
    let devices = files
        .iter()
        .map(|file| ByteArray::from(device_name(*file).into_bytes()));
    columns::put::<ByteArrayType>(&mut group, devices.collect(), None)?;
    columns::put::<Int64Type>(&mut group, ints(|file| file.inode as i64), None)?;
    columns::put::<Int64Type>(&mut group, ints(|file| file.generation.into()), None)?;
    group.close()?;
    Ok(())
}

/// Writes and syncs one file; its size, bytes.
fn write_file(
    directory: &Directory,
    name: &str,
    schema: &str,
    fill: impl FnOnce(&mut SerializedFileWriter<File>) -> Result<(), ParquetError>,
) -> Result<u64, Error> {
    let path = &directory.path().join(name);
    let file = directory.create(name);
    let file = file.map_err(|cause| Error::io("create", path, cause))?;
    let write = || {
        let mut writer = columns::create(file, schema)?;
        fill(&mut writer)?;
        writer.into_inner()
    };
    let file = write().map_err(|cause| write_error(path, cause))?;
    file.sync_all()
        .and_then(|()| file.metadata())
        .map(|metadata| metadata.len())
        .map_err(|cause| Error::io("write", path, cause))
}

fn process_of(row: &Row) -> ProcessId {
    ProcessId {
        pid: row.pid,
        start: row.start_key,
    }
}
