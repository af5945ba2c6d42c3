//! The counters of one unit in one phase on one mount.

use std::collections::BTreeMap;

use iotrace_model::counters::{
    self, saturating_add,
    shown::{METRICS, Source},
};

/// Error number that stands for all that found no room.
pub const ERRNO_OTHER: u32 = u32::MAX;

/// One counter of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// A counter that a metric exports, by its index.
    Counter(usize),
    /// Time in which at least one operation was under way in a process, nanoseconds.
    MergedTime,
    /// Files seen for the first time.
    FilesSeen,
    /// Operations of a class that failed with an error.
    Error { op: u32, errno: u32 },
}

/// Of each counter its place among the values of a cell, if a metric exports it; and the number of those.
const SLOTS: ([Option<usize>; counters::COUNT], usize) = {
    let (mut slots, mut count) = ([None; counters::COUNT], 0);
    let mut metric = 0;
    while metric < METRICS.len() {
        if let Source::Counters(series) = METRICS[metric].source {
            let mut nth = 0;
            while nth < series.len() {
                assert!(slots[series[nth].counter].is_none());
                slots[series[nth].counter] = Some(count);
                (nth, count) = (nth + 1, count + 1);
            }
        }
        metric += 1;
    }
    (slots, count)
};
const MERGED_TIME: usize = SLOTS.1;
const FILES_SEEN: usize = MERGED_TIME + 1;
const COUNT: usize = FILES_SEEN + 1;

impl Value {
    fn index(self) -> Option<usize> {
        match self {
            Self::Counter(index) => SLOTS.0[index],
            Self::MergedTime => Some(MERGED_TIME),
            Self::FilesSeen => Some(FILES_SEEN),
            Self::Error { .. } => None,
        }
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
            (Some(index), _) => saturating_add(&mut self.values[index], count),
            (None, Value::Error { op, errno }) => {
                saturating_add(self.errors.entry((op, errno)).or_default(), count);
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
