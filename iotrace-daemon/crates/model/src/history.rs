//! What was counted in which interval, kept small: the deltas of each flush, packed in sequence.
//!
//! A model keeps none unless it is asked to (`Model::with_history`). What only the whole run needs (tables of sizes,
//! buckets, strides, extremes) is left out. Where the deltas of many intervals grow too large, neighbours are merged two
//! by two: sums stay exact, and intervals grow longer. The reader of a recording does the same with the same intervals,
//! so that a report of the recording equals the one of the run.

use std::collections::BTreeMap;

use super::{
    counters::{Counters, Level, TABLE, flag},
    forget::Moved,
    input::Place,
    packed::{Packed, put_varint, take_varint},
};

/// Maximum size of all intervals; if there are more, neighbours are merged.
const MAX_BYTES: usize = 64 << 20;

/// Where a delta belongs: a row of the model, or a process's calls by name or overflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// Index of the row.
    Row(u32),
    /// Index of the process.
    PathOnly(u32),
    /// Index of the process.
    Overflow(u32),
}

/// What one process did in one place in one interval.
#[derive(Clone, Debug)]
pub struct Delta {
    /// Index of the process.
    pub process: u32,
    pub place: Place<u32>,
    /// Index of the row, on files.
    pub row: Option<u32>,
    pub counters: Counters,
}

/// One interval.
#[derive(Debug)]
struct Interval {
    start: i64,
    end: i64,
    deltas: Vec<u8>,
}

/// Begin and end of an interval, nanoseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    pub start: i64,
    pub end: i64,
}

/// The intervals of a run, in order.
#[derive(Debug, Default)]
pub struct History {
    intervals: Vec<Interval>,
    bytes: usize,
}

impl History {
    /// Adds an interval. One in which nothing was counted is left out.
    pub fn push(&mut self, bounds: Bounds, deltas: impl Iterator<Item = (Key, Counters)>) {
        let mut bytes = Vec::new();
        deltas.for_each(|(key, counters)| put(&mut bytes, key, &counters));
        if bytes.is_empty() {
            return;
        }
        bytes.shrink_to_fit();
        self.bytes += bytes.len();
        self.intervals.push(Interval {
            start: bounds.start,
            end: bounds.end,
            deltas: bytes,
        });
        while self.bytes > MAX_BYTES && self.intervals.len() > 1 {
            self.coarsen();
        }
    }

    /// The end of the last interval.
    pub fn end(&self) -> Option<i64> {
        self.intervals.last().map(|interval| interval.end)
    }

    /// The intervals with their deltas, in order.
    pub fn intervals(
        &self,
    ) -> impl Iterator<Item = (Bounds, impl Iterator<Item = (Key, Counters)>)> {
        self.intervals.iter().map(|interval| {
            let bounds = Bounds {
                start: interval.start,
                end: interval.end,
            };
            (bounds, Deltas(&interval.deltas))
        })
    }

    /// Adds the intervals of another history, whose indices of rows and processes are shifted by `rows` and `processes`.
    pub fn append(&mut self, other: &Self, rows: u32, processes: u32) {
        for (bounds, deltas) in other.intervals() {
            let moved = deltas.map(|(key, counters)| {
                let key = match key {
                    Key::Row(index) => Key::Row(index + rows),
                    Key::PathOnly(index) => Key::PathOnly(index + processes),
                    Key::Overflow(index) => Key::Overflow(index + processes),
                };
                (key, counters)
            });
            self.push(bounds, moved);
        }
        self.intervals
            .sort_by_key(|interval| (interval.start, interval.end));
    }

    /// Leaves what is of the rows that have a new index. Intervals without any are left out.
    pub(super) fn select_rows(&mut self, rows: &Moved) {
        let all = std::mem::take(self);
        for (bounds, deltas) in all.intervals() {
            let of_rows = deltas.filter_map(|(key, counters)| match key {
                Key::Row(index) => Some((Key::Row(rows.get(index)?), counters)),
                Key::PathOnly(_) | Key::Overflow(_) => None,
            });
            self.push(bounds, of_rows);
        }
    }

    /// Merges every two neighbours.
    fn coarsen(&mut self) {
        let mut coarser = Vec::with_capacity(self.intervals.len().div_ceil(2));
        let mut intervals = std::mem::take(&mut self.intervals).into_iter();
        while let Some(first) = intervals.next() {
            coarser.push(match intervals.next() {
                Some(second) => merge(&first, &second),
                None => first,
            });
        }
        self.intervals = coarser;
        self.bytes = self
            .intervals
            .iter()
            .map(|interval| interval.deltas.len())
            .sum();
    }
}

fn merge(first: &Interval, second: &Interval) -> Interval {
    let mut sums: BTreeMap<Key, Counters> = Deltas(&first.deltas).collect();
    for (key, newer) in Deltas(&second.deltas) {
        match sums.get_mut(&key) {
            Some(older) => {
                let mut sum = newer;
                sum.absorb(older);
                *older = sum;
            }
            None => {
                sums.insert(key, newer);
            }
        }
    }
    let mut deltas = Vec::new();
    sums.iter()
        .for_each(|(key, counters)| put(&mut deltas, *key, counters));
    deltas.shrink_to_fit();
    Interval {
        start: first.start.min(second.start),
        end: first.end.max(second.end),
        deltas,
    }
}

/// Whether a counter is of use within one interval.
fn is_kept(index: usize) -> bool {
    TABLE[index].level == Level::Basic || TABLE[index].has(flag::INTERVAL)
}

fn put(bytes: &mut Vec<u8>, key: Key, counters: &Counters) {
    let mut kept = Counters::ZERO;
    for (index, value) in counters
        .v
        .iter()
        .enumerate()
        .filter(|(index, _)| is_kept(*index))
    {
        kept.v[index] = *value;
    }
    let packed = Packed::from(&kept);
    if packed.is_empty() {
        return;
    }
    let (kind, index) = match key {
        Key::Row(index) => (0, index),
        Key::PathOnly(index) => (1, index),
        Key::Overflow(index) => (2, index),
    };
    put_varint(bytes, u64::from(index) * 3 + kind);
    put_varint(bytes, packed.bytes().len() as u64);
    bytes.extend_from_slice(packed.bytes());
}

/// Reads what [`put`] wrote.
struct Deltas<'a>(&'a [u8]);

impl Iterator for Deltas<'_> {
    type Item = (Key, Counters);

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let key = take_varint(&mut self.0);
        let length = take_varint(&mut self.0) as usize;
        let (packed, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        let index = (key / 3) as u32;
        let key = match key % 3 {
            0 => Key::Row(index),
            1 => Key::PathOnly(index),
            _ => Key::Overflow(index),
        };
        Some((key, Packed::unpack_bytes(packed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::{BYTES_READ, FIRST_OPERATION, LAST_OPERATION, READS, SLOWEST_READ_NS};

    fn read(calls: u64, time: u64) -> Counters {
        let mut counters = Counters::ZERO;
        (counters.v[READS], counters.v[BYTES_READ]) = (calls, calls << 20);
        (counters.v[FIRST_OPERATION], counters.v[LAST_OPERATION]) = (time, time + 5);
        counters.v[SLOWEST_READ_NS] = 3;
        counters.sizes.add(1 << 20, calls);
        counters
    }

    #[test]
    fn intervals_come_back_without_what_only_the_run_needs() {
        let mut history = History::default();
        let bounds = Bounds { start: 10, end: 20 };
        let deltas = [
            (Key::Row(7), read(2, 100)),
            (Key::PathOnly(1), read(1, 90)),
            (Key::Overflow(0), Counters::ZERO),
        ];
        history.push(bounds, deltas.into_iter());
        history.push(Bounds { start: 20, end: 30 }, std::iter::empty());
        let all: Vec<_> = history
            .intervals()
            .map(|(b, deltas)| (b, deltas.collect::<Vec<_>>()))
            .collect();
        assert_eq!(all.len(), 1, "an empty interval is left out");
        assert_eq!(all[0].0, bounds);
        let [(Key::Row(7), row), (Key::PathOnly(1), path_only)] = all[0].1.as_slice() else {
            panic!("{:?}", all[0].1);
        };
        assert_eq!(
            (row.v[READS], row.v[FIRST_OPERATION], row.v[LAST_OPERATION]),
            (2, 100, 105)
        );
        assert_eq!((row.v[SLOWEST_READ_NS], row.sizes.entries().len()), (0, 0));
        assert_eq!(path_only.v[BYTES_READ], 1 << 20);
    }

    #[test]
    fn merged_neighbours_keep_the_sums() {
        let mut history = History::default();
        for index in 0..5_u64 {
            let bounds = Bounds {
                start: index as i64,
                end: index as i64 + 1,
            };
            let deltas = [
                (Key::Row(0), read(1, 10 + index)),
                (Key::Row(index as u32 + 1), read(1, 10)),
            ];
            history.push(bounds, deltas.into_iter());
        }
        history.coarsen();
        let bounds: Vec<_> = history
            .intervals()
            .map(|(bounds, _)| (bounds.start, bounds.end))
            .collect();
        assert_eq!(bounds, [(0, 2), (2, 4), (4, 5)]);
        let calls: u64 = history
            .intervals()
            .flat_map(|(_, deltas)| {
                deltas
                    .map(|(_, counters)| counters.v[READS])
                    .collect::<Vec<_>>()
            })
            .sum();
        assert_eq!(calls, 10);
        let first = history
            .intervals()
            .next()
            .map(|(_, mut deltas)| deltas.next());
        let (key, counters) = first.flatten().unwrap();
        assert_eq!(
            (key, counters.v[READS], counters.v[LAST_OPERATION]),
            (Key::Row(0), 2, 16)
        );
    }
}
