//! Writes the parts of a trace, within the size that it may take.

use std::collections::BTreeMap;

use super::{
    PART, files,
    operations::{GROUP_ROWS, StoredRow, file_properties},
};
use crate::{Directory, Error, recorder::put_part, table::write_table};
use hashbrown::HashMap;
use iotrace_common::{
    key::FileId,
    trace::{Missing, Operation},
};
use iotrace_model::{
    input::ProcessId,
    run::{Clock, TraceMissing, TraceRun},
};

/// Bytes that an operation takes, before the first part says so.
const ASSUMED_OPERATION_BYTES: u64 = 10;

/// Writes the parts of a trace.
pub struct TraceWriter {
    directory: Directory,
    clock: Clock,
    most_bytes: Option<u64>,
    files: FileNumbers,
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
            files: FileNumbers::default(),
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
        mut operations: Vec<Operation>,
        missing: Vec<(ProcessId, Missing)>,
    ) -> Result<(), Error> {
        self.missing = missing.into_iter().collect();
        operations.sort_by_key(|operation| operation.start);
        let room = self.room();
        if operations.len() as u64 > room {
            self.is_closed = true;
            for operation in operations.drain(room as usize..) {
                self.unwritten_of(&operation).left_out += 1;
            }
        }
        if operations.is_empty() {
            return Ok(());
        }
        let written = self.write_part(&operations);
        if written.is_err() {
            for operation in &operations {
                self.unwritten_of(operation).lost += 1;
            }
        }
        written
    }

    fn unwritten_of(&mut self, operation: &Operation) -> &mut Missing {
        let process = ProcessId::from(&operation.key);
        self.unwritten.entry(process).or_default()
    }

    /// Whether there is no more room: then nothing more should be recorded.
    pub fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// What was written so far, and what is missing.
    pub fn summary(&self) -> TraceRun {
        let mut missing = self.missing.clone();
        for (process, more) in &self.unwritten {
            missing.entry(*process).or_default().add(*more);
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
                    0 => ASSUMED_OPERATION_BYTES,
                    count => self.bytes.div_ceil(count).max(1),
                };
                most.saturating_sub(self.bytes) / each
            }
        }
    }

    fn write_part(&mut self, operations: &[Operation]) -> Result<(), Error> {
        let name = format!("{PART}{:06}", self.parts + 1);
        let (clock, files) = (&self.clock, &mut self.files);
        let bytes = put_part(&self.directory, &name, |unfinished| {
            write_files(operations, files, clock, unfinished)
        })?;
        self.files.new.clear();
        self.parts += 1;
        self.operations += operations.len() as u64;
        self.bytes += bytes;
        // The part is in its place whether or not its name is on the disk yet: it is not lost.
        if let Err(cause) = self.directory.sync() {
            log::warn!("{}", Error::io("write", self.directory.path(), cause));
        }
        Ok(())
    }
}

/// Writes both files of a part; their sizes, bytes.
fn write_files(
    operations: &[Operation],
    files: &mut FileNumbers,
    clock: &Clock,
    directory: &Directory,
) -> Result<u64, Error> {
    let rows = operations
        .iter()
        .map(|operation| StoredRow::new(operation, files.number(operation.key.file), clock));
    let bytes = write_table(directory, clock, file_properties, GROUP_ROWS, rows)?;
    let first = files.numbers.len() - files.new.len();
    let rows = (first as u32..).zip(&files.new);
    let rows = rows.map(|(number, file)| files::Row::new(number, *file));
    Ok(bytes + write_table(directory, clock, file_properties, GROUP_ROWS, rows)?)
}

/// Numbers of files in the recording.
#[derive(Default)]
struct FileNumbers {
    numbers: HashMap<FileId, u32>,
    /// Files that no part names yet.
    new: Vec<FileId>,
    /// The file of the operation before.
    last: Option<(FileId, u32)>,
}

impl FileNumbers {
    /// The number of a file; a new one if it has none.
    fn number(&mut self, file: FileId) -> Option<u32> {
        if file.is_none() {
            return None;
        }
        if let Some((last, number)) = self.last
            && last == file
        {
            return Some(number);
        }
        let next = self.numbers.len() as u32;
        let number = *self.numbers.entry(file).or_insert(next);
        if number == next {
            self.new.push(file);
        }
        self.last = Some((file, number));
        Some(number)
    }
}
