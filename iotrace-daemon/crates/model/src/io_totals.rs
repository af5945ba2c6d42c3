//! The sums that most lists show: operations, bytes, and time in calls.

use iotrace_common::library::Progress;
use serde::{Deserialize, Serialize};

use super::counters::{
    BYTES_READ, BYTES_WRITTEN, Counters, UNION_READ_NS, UNION_WRITE_NS, saturating_add,
};

/// A sum of I/O.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IoTotals {
    /// Calls of all kinds, failed ones included.
    pub operations: u64,
    pub bytes_read: u64,
    pub bytes_written: u64,
    /// Nanoseconds inside calls, summed over calls.
    pub ns: u64,
    /// Nanoseconds inside calls, those that overlap in one process and phase counted once.
    pub merged_ns: u64,
}

impl IoTotals {
    /// The sums of one block of counters.
    pub fn of(counters: &Counters) -> Self {
        Self {
            operations: counters.operations(),
            bytes_read: counters.v[BYTES_READ],
            bytes_written: counters.v[BYTES_WRITTEN],
            ns: counters.nanoseconds(),
            merged_ns: counters.v[UNION_READ_NS].saturating_add(counters.v[UNION_WRITE_NS]),
        }
    }

    /// Adds another sum.
    pub fn add(&mut self, other: &Self) {
        saturating_add(&mut self.operations, other.operations);
        saturating_add(&mut self.bytes_read, other.bytes_read);
        saturating_add(&mut self.bytes_written, other.bytes_written);
        saturating_add(&mut self.ns, other.ns);
        saturating_add(&mut self.merged_ns, other.merged_ns);
    }

    /// What is more in this sum than in an earlier one, or than in a part of it.
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            operations: self.operations.saturating_sub(earlier.operations),
            bytes_read: self.bytes_read.saturating_sub(earlier.bytes_read),
            bytes_written: self.bytes_written.saturating_sub(earlier.bytes_written),
            ns: self.ns.saturating_sub(earlier.ns),
            merged_ns: self.merged_ns.saturating_sub(earlier.merged_ns),
        }
    }

    /// Bytes read and written.
    pub fn bytes(&self) -> u64 {
        self.bytes_read.saturating_add(self.bytes_written)
    }

    /// Whether nothing is in it.
    pub fn is_zero(&self) -> bool {
        *self == Self::default()
    }
}

impl From<Progress> for IoTotals {
    fn from(progress: Progress) -> Self {
        Self {
            operations: progress.operations,
            bytes_read: progress.bytes_read,
            bytes_written: progress.bytes_written,
            ns: progress.ns,
            merged_ns: 0,
        }
    }
}
