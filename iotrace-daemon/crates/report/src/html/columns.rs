//! Columns of sums, which many lists of the page have.

use serde::{Serialize, Serializer, ser::SerializeMap as _};

use iotrace_model::{
    IoTotals,
    counters::{
        Counters, TABLE, Unit, saturating_add,
        shown::{COLUMNS, Column},
    },
};

/// Number of counters that have a column in each list.
const LISTED_COUNTERS: usize = {
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

/// A row's sums. Durations are nanoseconds, so that they add up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    pub io: IoTotals,
    /// Counters that the lists show where there are any.
    pages: [u64; LISTED_COUNTERS],
}

impl Amount {
    pub fn add(&mut self, other: &Self) {
        self.io.add(&other.io);
        for (sum, value) in self.pages.iter_mut().zip(other.pages) {
            saturating_add(sum, value);
        }
    }
}

impl From<&Counters> for Amount {
    fn from(counters: &Counters) -> Self {
        let mut pages = [0; LISTED_COUNTERS];
        for (value, counter) in pages.iter_mut().zip(listed()) {
            *value = counters.v[counter];
        }
        let io = IoTotals::of(counters);
        Self { io, pages }
    }
}

impl From<IoTotals> for Amount {
    fn from(io: IoTotals) -> Self {
        Self {
            io,
            ..Self::default()
        }
    }
}

/// The sums of many rows, written by column.
#[derive(Clone, Default)]
pub struct Columns(Vec<Amount>);

impl Columns {
    /// Columns of `length` zeros.
    pub fn zeros(length: usize) -> Self {
        Self(vec![Amount::default(); length])
    }

    pub fn push(&mut self, amount: &Amount) {
        self.0.push(*amount);
    }

    /// Adds to the row at `index`.
    pub fn add(&mut self, index: usize, amount: &Amount) {
        self.0[index].add(amount);
    }

    /// Whether no row has operations, bytes or time.
    pub fn is_zero(&self) -> bool {
        self.0.iter().all(|amount| amount.io.is_zero())
    }

    fn column(&self, value: impl Fn(&Amount) -> u64) -> Vec<u64> {
        self.0.iter().map(value).collect()
    }
}

impl Serialize for Columns {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("operations", &self.column(|amount| amount.io.operations))?;
        map.serialize_entry("bytes_read", &self.column(|amount| amount.io.bytes_read))?;
        map.serialize_entry(
            "bytes_written",
            &self.column(|amount| amount.io.bytes_written),
        )?;
        map.serialize_entry("ns", &self.column(|amount| amount.io.ns))?;
        for (place, counter) in listed().enumerate() {
            let column = self.column(|amount| amount.pages[place]);
            if column.iter().any(|value| *value != 0) {
                map.serialize_entry(TABLE[counter].column, &column)?;
            }
        }
        map.end()
    }
}
