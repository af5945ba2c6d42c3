//! Columns of sums, which many lists of the page have.

use serde::{Serialize, Serializer, ser::SerializeMap as _};

use iotrace_model::counters::{
    BYTES_READ, BYTES_WRITTEN, Counters, TABLE, Unit,
    shown::{COLUMNS, Column},
};

/// Number of counters that have a column in each list.
const LISTED: usize = {
    let (mut index, mut count) = (0, 0);
    while index < COLUMNS.len() {
        count += COLUMNS[index].in_lists as usize;
        index += 1;
    }
    count
};

/// Their indices.
fn listed() -> impl Iterator<Item = usize> {
    let listed = COLUMNS.iter().filter(|column| column.in_lists);
    listed.map(|column| column.counter)
}

/// What the page has to know of the column of a counter.
#[derive(Serialize)]
pub struct Head {
    title: &'static str,
    /// Its key in the lists, where durations are nanoseconds, and in objects of the report.
    column: &'static str,
    key: &'static str,
    /// The page's function that formats it.
    format: &'static str,
    in_lists: bool,
}

impl From<&Column> for Head {
    fn from(column: &Column) -> Self {
        let descriptor = &TABLE[column.counter];
        Self {
            title: column.title,
            column: descriptor.column,
            key: descriptor.key,
            format: match descriptor.unit {
                Unit::Bytes => "bytes",
                Unit::Nanoseconds => "duration",
                Unit::Calls | Unit::Moment | Unit::Mode => "count",
            },
            in_lists: column.in_lists,
        }
    }
}

/// Columns of these, of which those that are 0 throughout are left out.
#[derive(Default)]
struct PageColumns([Vec<u64>; LISTED]);

impl Serialize for PageColumns {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (counter, column) in listed().zip(&self.0) {
            if column.iter().any(|value| *value != 0) {
                map.serialize_entry(TABLE[counter].column, column)?;
            }
        }
        map.end()
    }
}

/// Sums of many things, by column. Durations are nanoseconds, so that they add up.
#[derive(Default, Serialize)]
pub struct Columns {
    operations: Vec<u64>,
    bytes_read: Vec<u64>,
    bytes_written: Vec<u64>,
    ns: Vec<u64>,
    #[serde(flatten)]
    pages: PageColumns,
}

/// One of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Amount {
    pub operations: u64,
    pub bytes_read: u64,
    pub bytes_written: u64,
    /// Nanoseconds inside calls, summed over threads.
    pub ns: u64,
    /// Counters that the lists show where there are any.
    #[serde(skip)]
    pub pages: [u64; LISTED],
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
            pages: PageColumns(std::array::from_fn(|_| zeros())),
        }
    }

    pub fn push(&mut self, amount: &Amount) {
        self.operations.push(amount.operations);
        self.bytes_read.push(amount.bytes_read);
        self.bytes_written.push(amount.bytes_written);
        self.ns.push(amount.ns);
        for (column, value) in self.pages.0.iter_mut().zip(amount.pages) {
            column.push(value);
        }
    }

    /// Adds to the row at `index`.
    pub fn add(&mut self, index: usize, amount: &Amount) {
        self.operations[index] += amount.operations;
        self.bytes_read[index] += amount.bytes_read;
        self.bytes_written[index] += amount.bytes_written;
        self.ns[index] += amount.ns;
        for (column, value) in self.pages.0.iter_mut().zip(amount.pages) {
            column[index] += value;
        }
    }

    /// Whether nothing was added.
    pub fn is_zero(&self) -> bool {
        let Self {
            operations,
            bytes_read,
            bytes_written,
            ns,
            pages: _,
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
        for (sum, value) in self.pages.iter_mut().zip(other.pages) {
            *sum += value;
        }
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
        let mut pages = [0; LISTED];
        for (value, counter) in pages.iter_mut().zip(listed()) {
            *value = counters.v[counter];
        }
        Self {
            operations: counters.operations(),
            bytes_read: counters.v[BYTES_READ],
            bytes_written: counters.v[BYTES_WRITTEN],
            ns: counters.nanoseconds(),
            pages,
        }
    }
}
