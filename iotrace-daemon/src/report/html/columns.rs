//! What many lists of the page have: the same sums, a column for each.

use serde::Serialize;

use crate::model::counters::{BYTES_READ, BYTES_WRITTEN, Counters};

/// Sums of many things, by column. Durations are nanoseconds, so that they add up.
#[derive(Default, Serialize)]
pub struct Columns {
    operations: Vec<u64>,
    bytes_read: Vec<u64>,
    bytes_written: Vec<u64>,
    ns: Vec<u64>,
}

/// One of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Amount {
    pub operations: u64,
    pub bytes_read: u64,
    pub bytes_written: u64,
    /// Nanoseconds inside calls, summed over threads.
    pub ns: u64,
}

impl Columns {
    /// Columns of `length` zeros.
    pub fn zeros(length: usize) -> Self {
        let zeros = || vec![0; length];
        Self {
            operations: zeros(),
            bytes_read: zeros(),
            bytes_written: zeros(),
            ns: zeros(),
        }
    }

    pub fn push(&mut self, amount: &Amount) {
        self.operations.push(amount.operations);
        self.bytes_read.push(amount.bytes_read);
        self.bytes_written.push(amount.bytes_written);
        self.ns.push(amount.ns);
    }

    /// Adds to what stands at `index`.
    pub fn add(&mut self, index: usize, amount: &Amount) {
        self.operations[index] += amount.operations;
        self.bytes_read[index] += amount.bytes_read;
        self.bytes_written[index] += amount.bytes_written;
        self.ns[index] += amount.ns;
    }

    /// Whether nothing was added.
    pub fn is_zero(&self) -> bool {
        let Self {
            operations,
            bytes_read,
            bytes_written,
            ns,
        } = self;
        [operations, bytes_read, bytes_written, ns]
            .iter()
            .all(|column| column.iter().all(|value| *value == 0))
    }
}

impl Amount {
    pub fn add(&mut self, other: &Self) {
        self.operations += other.operations;
        self.bytes_read += other.bytes_read;
        self.bytes_written += other.bytes_written;
        self.ns += other.ns;
    }

    /// Takes a part of it away.
    pub fn take(&mut self, part: &Self) {
        self.operations = self.operations.saturating_sub(part.operations);
        self.bytes_read = self.bytes_read.saturating_sub(part.bytes_read);
        self.bytes_written = self.bytes_written.saturating_sub(part.bytes_written);
        self.ns = self.ns.saturating_sub(part.ns);
    }
}

impl From<&Counters> for Amount {
    fn from(counters: &Counters) -> Self {
        Self {
            operations: counters.operations(),
            bytes_read: counters.v[BYTES_READ],
            bytes_written: counters.v[BYTES_WRITTEN],
            ns: counters.nanoseconds(),
        }
    }
}
