//! What was counted in which interval, kept small: the deltas of each flush, packed in sequence.
//!
//! A model keeps none unless it is asked to (`Model::with_history`). What only the whole run needs (tables of sizes,
//! buckets, strides, extremes) is left out. Where the deltas of many intervals grow too large, neighbours are merged two
//! by two: sums stay exact, and intervals grow longer ([`History::is_coarse`]). `record` keeps less than what reads its
//! recording.

use std::collections::HashMap;

use super::{
    counters::{Counters, FIRST_OPERATION, Level, TABLE, flag},
    forget::Moved,
    input::Place,
    packed::{Bitmap, pack, put_varint, take_varint, unpack, unzigzag, zigzag},
};

/// Maximum size of all intervals while a run is recorded, bytes; if there are more, neighbours are merged.
pub const RECORDING_BYTES: usize = 64 << 20;
/// The same where a recording is read: some 25 million uses of small files.
pub const READING_BYTES: usize = 1 << 30;

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
    bounds: Bounds,
    /// What first operations are counted from, `CLOCK_MONOTONIC` nanoseconds.
    origin: u64,
    deltas: Vec<u8>,
}

/// Begin and end of an interval, nanoseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    pub start: i64,
    pub end: i64,
}

/// The intervals of a run, in order.
#[derive(Debug)]
pub struct History {
    intervals: Vec<Interval>,
    shapes: Shapes,
    /// Of all intervals.
    bytes: usize,
    most_bytes: usize,
    is_coarse: bool,
}

/// Which counters deltas have: there are few such sets, and each delta has the number of one.
#[derive(Debug, Default)]
struct Shapes {
    all: Vec<Bitmap>,
    numbers: HashMap<Bitmap, u32>,
}

impl Shapes {
    fn number(&mut self, shape: Bitmap) -> u32 {
        *self.numbers.entry(shape).or_insert_with(|| {
            self.all.push(shape);
            self.all.len() as u32 - 1
        })
    }
}

impl History {
    /// An empty history. It merges intervals where they take more than `most_bytes`.
    pub fn new(most_bytes: usize) -> Self {
        Self {
            intervals: Vec::new(),
            shapes: Shapes::default(),
            bytes: 0,
            most_bytes,
            is_coarse: false,
        }
    }

    /// Takes the intervals out.
    pub(super) fn take(&mut self) -> Self {
        let empty = Self::new(self.most_bytes);
        std::mem::replace(self, empty)
    }

    /// Whether neighbours had to be merged: then one interval may hold what was done minutes apart.
    pub fn is_coarse(&self) -> bool {
        self.is_coarse
    }

    /// Adds an interval. One in which nothing was counted is left out.
    pub fn push(&mut self, bounds: Bounds, deltas: impl Iterator<Item = (Key, Counters)>) {
        let interval = pack_interval(&mut self.shapes, bounds, deltas);
        if interval.deltas.is_empty() {
            return;
        }
        self.bytes += interval.deltas.len();
        self.intervals.push(interval);
        while self.bytes > self.most_bytes && self.intervals.len() > 1 {
            self.coarsen();
        }
    }

    /// The end of the last interval.
    pub fn end(&self) -> Option<i64> {
        self.intervals.last().map(|interval| interval.bounds.end)
    }

    /// The intervals with their deltas, in order.
    pub fn intervals(
        &self,
    ) -> impl Iterator<Item = (Bounds, impl Iterator<Item = (Key, Counters)>)> {
        self.intervals
            .iter()
            .map(|interval| (interval.bounds, self.deltas(interval)))
    }

    fn deltas<'a>(&'a self, interval: &'a Interval) -> impl Iterator<Item = (Key, Counters)> + 'a {
        Packets::of(interval).map(|packet| packet.unpack(&self.shapes.all))
    }

    /// Adds the intervals of another history, whose indices of rows and processes are shifted by `rows` and `processes`.
    pub fn append(&mut self, other: &Self, rows: u32, processes: u32) {
        self.is_coarse |= other.is_coarse;
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
            .sort_by_key(|interval| (interval.bounds.start, interval.bounds.end));
    }

    /// Leaves what is of the rows that have a new index. Intervals without any are left out.
    pub(super) fn select_rows(&mut self, rows: &Moved) {
        let all = self.take();
        self.is_coarse = all.is_coarse;
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
        self.is_coarse = true;
        let mut intervals = std::mem::take(&mut self.intervals).into_iter();
        while let Some(first) = intervals.next() {
            let merged = match intervals.next() {
                Some(second) => merge(&mut self.shapes, &first, &second),
                None => first,
            };
            self.intervals.push(merged);
        }
        let sizes = self.intervals.iter().map(|interval| interval.deltas.len());
        self.bytes = sizes.sum();
    }
}

/// Packs what was counted in an interval.
fn pack_interval(
    shapes: &mut Shapes,
    bounds: Bounds,
    deltas: impl Iterator<Item = (Key, Counters)>,
) -> Interval {
    let mut interval = Interval {
        bounds,
        origin: 0,
        deltas: Vec::new(),
    };
    let (mut previous, mut values) = (0, Vec::new());
    for (key, mut counters) in deltas {
        leave_kept(&mut counters);
        if counters.is_zero() {
            continue;
        }
        if interval.deltas.is_empty() {
            interval.origin = counters.v[FIRST_OPERATION];
        }
        values.clear();
        let shape = shapes.number(pack(&counters, interval.origin, &mut values));
        let number = number_of(key);
        let bytes = &mut interval.deltas;
        put_varint(bytes, zigzag(number.wrapping_sub(previous)));
        put_varint(bytes, u64::from(shape));
        put_varint(bytes, values.len() as u64);
        bytes.extend_from_slice(&values);
        previous = number;
    }
    interval.deltas.shrink_to_fit();
    interval
}

fn merge(shapes: &mut Shapes, first: &Interval, second: &Interval) -> Interval {
    let mut packets: Vec<Packet<'_>> = Packets::of(first).chain(Packets::of(second)).collect();
    // Stable: of one place the older one stays first.
    packets.sort_by_key(|packet| packet.number);
    let known = shapes.all.clone();
    let of_places = packets.chunk_by(|a, b| a.number == b.number);
    let sums = of_places.map(|packets| {
        let mut newest_first = packets.iter().rev().map(|packet| packet.unpack(&known));
        let (key, mut sum) = newest_first.next().expect("a chunk is not empty");
        newest_first.for_each(|(_, older)| sum.absorb(&older));
        (key, sum)
    });
    let bounds = Bounds {
        start: first.bounds.start.min(second.bounds.start),
        end: first.bounds.end.max(second.bounds.end),
    };
    pack_interval(shapes, bounds, sums)
}

/// Whether a counter is of use within one interval.
fn is_kept(index: usize) -> bool {
    TABLE[index].level == Level::Basic || TABLE[index].has(flag::INTERVAL)
}

/// Leaves of `counters` what is of use within one interval.
fn leave_kept(counters: &mut Counters) {
    let values = counters.v.iter_mut().enumerate();
    for (_, value) in values.filter(|(index, _)| !is_kept(*index)) {
        *value = 0;
    }
    (counters.sizes, counters.strides) = (Counters::ZERO.sizes, Counters::ZERO.strides);
}

/// A key as one number.
fn number_of(key: Key) -> u64 {
    let (kind, index) = match key {
        Key::Row(index) => (0, index),
        Key::PathOnly(index) => (1, index),
        Key::Overflow(index) => (2, index),
    };
    u64::from(index) * 3 + kind
}

/// A delta of an interval, packed.
struct Packet<'a> {
    /// [`number_of`] its key.
    number: u64,
    shape: u32,
    origin: u64,
    values: &'a [u8],
}

impl Packet<'_> {
    fn unpack(&self, shapes: &[Bitmap]) -> (Key, Counters) {
        let index = (self.number / 3) as u32;
        let key = match self.number % 3 {
            0 => Key::Row(index),
            1 => Key::PathOnly(index),
            _ => Key::Overflow(index),
        };
        let mut counters = Counters::ZERO;
        let shape = &shapes[self.shape as usize];
        unpack(shape, self.values, self.origin, &mut counters);
        (key, counters)
    }
}

/// Reads what [`pack_interval`] wrote.
struct Packets<'a> {
    bytes: &'a [u8],
    previous: u64,
    origin: u64,
}

impl<'a> Packets<'a> {
    fn of(interval: &'a Interval) -> Self {
        Self {
            bytes: &interval.deltas,
            previous: 0,
            origin: interval.origin,
        }
    }
}

impl<'a> Iterator for Packets<'a> {
    type Item = Packet<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.bytes.is_empty() {
            return None;
        }
        let step = unzigzag(take_varint(&mut self.bytes));
        let shape = take_varint(&mut self.bytes) as u32;
        let length = take_varint(&mut self.bytes) as usize;
        let (values, rest) = self.bytes.split_at_checked(length)?;
        self.bytes = rest;
        self.previous = self.previous.wrapping_add(step);
        Some(Packet {
            number: self.previous,
            shape,
            origin: self.origin,
            values,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::{
        BYTES_READ, FIRST_OPERATION, FIRST_READ, LAST_OPERATION, READS, SLOWEST_READ_NS,
    };

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
        let mut history = History::new(RECORDING_BYTES);
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
        let mut history = History::new(RECORDING_BYTES);
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
        assert!(!history.is_coarse());
        history.coarsen();
        assert!(history.is_coarse());
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

    #[test]
    fn intervals_of_many_files_take_few_bytes_for_each() {
        let mut history = History::new(RECORDING_BYTES);
        let t = 13 * 86_400 * 1_000_000_000; // two weeks after boot
        let file = |index: u32| {
            let mut counters = read(2, t + u64::from(index) * 1_000_000);
            counters.v[FIRST_READ] = counters.v[FIRST_OPERATION] + 1;
            (Key::Row(index * 977 % 1000), counters)
        };
        let bounds = Bounds { start: 0, end: 1 };
        history.push(bounds, (0..1000).map(file));
        assert!(history.bytes < 20 * 1000, "{} bytes", history.bytes);
        let (_, deltas) = history.intervals().next().unwrap();
        for ((key, expected), (found, counters)) in (0..1000).map(file).zip(deltas) {
            assert_eq!(key, found);
            for index in [
                READS,
                BYTES_READ,
                FIRST_OPERATION,
                LAST_OPERATION,
                FIRST_READ,
            ] {
                assert_eq!(counters.v[index], expected.v[index]);
            }
        }
    }
}
