//! The counters of one unit in one phase on one mount.

use std::collections::BTreeMap;

use iotrace_common::op;

/// Error number that stands for all that found no room.
pub const ERRNO_OTHER: u32 = u32::MAX;

/// One counter of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// Operations of a class that succeeded.
    Calls(usize),
    /// Reads of 0 bytes; in the reads as well.
    ZeroReads,
    BytesRead,
    BytesWritten,
    /// Bytes fetched from storage by reads, and by page faults.
    Fetched,
    FetchedMapped,
    /// Bytes that page faults mapped, and page faults without and with a wait for storage.
    Mapped,
    MinorFaults,
    MajorFaults,
    /// Time inside page faults that waited, nanoseconds, and the number of those.
    MajorFaultTime,
    TimedMajorFaults,
    /// Time inside operations of a group ([`Value::GROUPS`]), nanoseconds.
    Time(usize),
    /// Time in which at least one operation was under way in a process, nanoseconds.
    Merged,
    /// Files seen for the first time.
    Files,
    /// Operations of a class that failed with an error.
    Error {
        op: u32,
        errno: u32,
    },
}

const ZERO_READS: usize = op::COUNT;
const BYTES_READ: usize = ZERO_READS + 1;
const BYTES_WRITTEN: usize = BYTES_READ + 1;
const FETCHED: usize = BYTES_WRITTEN + 1;
const MAPPED: usize = FETCHED + 2;
const FAULTS: usize = MAPPED + 1;
const TIME: usize = FAULTS + 4;
const MERGED: usize = TIME + Value::GROUPS.len();
const FILES: usize = MERGED + 1;
const COUNT: usize = FILES + 1;

impl Value {
    /// Groups of operations whose time is summed together.
    pub const GROUPS: [&'static str; 5] = ["read", "write", "metadata", "sync", "failed"];

    fn index(self) -> Option<usize> {
        Some(match self {
            Self::Calls(op) => op,
            Self::ZeroReads => ZERO_READS,
            Self::BytesRead => BYTES_READ,
            Self::BytesWritten => BYTES_WRITTEN,
            Self::Fetched => FETCHED,
            Self::FetchedMapped => FETCHED + 1,
            Self::Mapped => MAPPED,
            Self::MinorFaults => FAULTS,
            Self::MajorFaults => FAULTS + 1,
            Self::MajorFaultTime => FAULTS + 2,
            Self::TimedMajorFaults => FAULTS + 3,
            Self::Time(group) => TIME + group,
            Self::Merged => MERGED,
            Self::Files => FILES,
            Self::Error { .. } => return None,
        })
    }
}

/// Counters that only grow.
#[derive(Clone, Debug)]
pub struct Cell {
    values: [u64; COUNT],
    errors: BTreeMap<(u32, u32), u64>,
}

impl Default for Cell {
    fn default() -> Self {
        Self {
            values: [0; COUNT],
            errors: BTreeMap::new(),
        }
    }
}

impl Cell {
    pub fn get(&self, value: Value) -> u64 {
        match (value.index(), value) {
            (Some(index), _) => self.values[index],
            (None, Value::Error { op, errno }) => {
                self.errors.get(&(op, errno)).copied().unwrap_or(0)
            }
            (None, _) => 0,
        }
    }

    pub(super) fn add(&mut self, value: Value, count: u64) {
        match (value.index(), value) {
            (Some(index), _) => self.values[index] += count,
            (None, Value::Error { op, errno }) => {
                *self.errors.entry((op, errno)).or_default() += count
            }
            (None, _) => {}
        }
    }

    /// Failed operations by class and errno.
    pub fn errors(&self) -> impl Iterator<Item = ((u32, u32), u64)> {
        self.errors.iter().map(|(key, count)| (*key, *count))
    }

    /// Values that are not 0.
    pub(super) fn series(&self) -> usize {
        self.values.iter().filter(|value| **value != 0).count() + self.errors.len()
    }
}
