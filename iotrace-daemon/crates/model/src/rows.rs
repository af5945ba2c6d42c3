//! One row per process and file: what was flushed, and what came since.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

use super::{counters::Counters, forget::Moved, packed::Packed};

/// Counters of one place: those up to the last flush, and those of the interval since.
#[derive(Debug, Default)]
pub struct Cell {
    settled: Packed,
    interval: Packed,
}

impl Cell {
    /// Adds to the interval.
    pub fn add(&mut self, counters: &Counters) {
        if self.interval.is_empty() {
            self.interval = Packed::from(counters);
        } else {
            let mut newer = counters.clone();
            self.interval.add_to(&mut newer);
            self.interval = Packed::from(&newer);
        }
    }

    /// Everything counted.
    pub fn total(&self) -> Counters {
        if self.interval.is_empty() {
            return self.settled.unpack();
        }
        let mut counters = self.interval.unpack();
        self.settled.add_to(&mut counters);
        counters
    }

    /// Whether a counter of [`Cell::total`] is not 0, or was before a higher peak came. It unpacks nothing.
    pub fn has(&self, index: usize) -> bool {
        self.settled.has(index) || self.interval.has(index)
    }

    /// What was counted since the last [`Cell::settle`].
    pub fn interval(&self) -> Counters {
        self.interval.unpack()
    }

    /// Whether nothing was counted since the last [`Cell::settle`].
    pub fn is_settled(&self) -> bool {
        self.interval.is_empty()
    }

    /// Ends the interval.
    pub fn settle(&mut self) {
        if self.settled.is_empty() {
            self.settled = std::mem::take(&mut self.interval);
        } else if !self.interval.is_empty() {
            let total = self.total();
            *self = Self::default(); // before the new one is made, so that it can have the place of an old one
            self.settled = Packed::from(&total);
        }
    }

    /// Takes up to `wanted` of counter `index` out of the interval, and returns how many.
    pub fn take(&mut self, index: usize, wanted: u64) -> u64 {
        let mut counters = self.interval.unpack();
        let taken = wanted.min(counters.v[index]);
        if taken > 0 {
            counters.v[index] -= taken;
            self.interval = Packed::from(&counters);
        }
        taken
    }
}

/// One process on one file, by their indices.
#[derive(Debug)]
pub struct Row {
    pub process: u32,
    pub file: u32,
    pub cell: Cell,
}

/// All rows.
#[derive(Debug, Default)]
pub struct Rows {
    rows: Vec<Row>,
    hasher: DefaultHashBuilder,
    index: HashTable<u32>,
    /// Rows with something in the interval.
    dirty: Vec<u32>,
}

impl Rows {
    /// All rows, in order of first appearance.
    pub fn all(&self) -> &[Row] {
        &self.rows
    }

    /// Indices of the rows that counted something since the last [`Rows::settle`].
    pub fn dirty(&self) -> &[u32] {
        &self.dirty
    }

    /// Adds to the row of `process` and `file`.
    pub fn add(&mut self, process: u32, file: u32, counters: &Counters) {
        if counters.is_zero() {
            return;
        }
        let index = self.intern(process, file);
        let cell = &mut self.rows[index as usize].cell;
        if cell.is_settled() {
            self.dirty.push(index);
        }
        cell.add(counters);
    }

    /// The rows, without what they are found by.
    pub fn into_all(self) -> Vec<Row> {
        self.rows
    }

    /// Adds a row of another model; it is not found by its process and file.
    pub fn push(&mut self, process: u32, file: u32, cell: Cell) {
        self.rows.push(Row {
            process,
            file,
            cell,
        });
    }

    /// Ends the interval.
    pub fn settle(&mut self) {
        for index in self.dirty.drain(..) {
            self.rows[index as usize].cell.settle();
        }
    }

    /// Takes out the rows of what is forgotten.
    pub fn forget(&mut self, processes: &Moved, files: &Moved) {
        self.rows.retain_mut(|row| {
            let (Some(process), Some(file)) = (processes.get(row.process), files.get(row.file))
            else {
                return false;
            };
            (row.process, row.file) = (process, file);
            true
        });
        self.rows.shrink_to_fit();
        self.dirty.clear();
        let (rows, hasher) = (&self.rows, &self.hasher);
        let hash_of = |index: &u32| {
            let row = &rows[*index as usize];
            hasher.hash_one((row.process, row.file))
        };
        self.index = HashTable::with_capacity(rows.len());
        for index in 0..rows.len() as u32 {
            self.index.insert_unique(hash_of(&index), index, hash_of);
        }
    }

    /// Index of the row of `process` and `file`, which is made.
    pub fn intern(&mut self, process: u32, file: u32) -> u32 {
        let key = (process, file);
        let hash = self.hasher.hash_one(key);
        let (rows, hasher) = (&self.rows, &self.hasher);
        let key_of = |index: &u32| (rows[*index as usize].process, rows[*index as usize].file);
        if let Some(index) = self.index.find(hash, |index| key_of(index) == key) {
            return *index;
        }
        let index = rows.len() as u32;
        // The hash is computed from existing rows, so the new row may be added afterwards.
        self.index
            .insert_unique(hash, index, |index| hasher.hash_one(key_of(index)));
        self.rows.push(Row {
            process,
            file,
            cell: Cell::default(),
        });
        index
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::{OPENS, READS};

    fn count(index: usize, value: u64) -> Counters {
        let mut counters = Counters::ZERO;
        counters.v[index] = value;
        counters
    }

    #[test]
    fn settling_keeps_the_total() {
        let mut rows = Rows::default();
        rows.add(0, 7, &count(READS, 2));
        rows.add(0, 7, &count(READS, 3));
        rows.add(1, 7, &count(OPENS, 1));
        rows.add(1, 8, &Counters::ZERO);
        assert_eq!(rows.all().len(), 2);
        assert_eq!(rows.dirty(), [0, 1]);
        rows.settle();
        assert!(rows.dirty().is_empty());
        rows.add(0, 7, &count(READS, 10));
        assert_eq!(rows.dirty(), [0]);
        let cell = &rows.all()[0].cell;
        assert_eq!(cell.interval().v[READS], 10);
        assert_eq!(cell.total().v[READS], 15);
    }

    #[test]
    fn takes_no_more_than_the_interval_has() {
        let mut cell = Cell::default();
        cell.add(&count(READS, 2));
        cell.settle();
        cell.add(&count(READS, 3));
        assert_eq!(cell.take(READS, 2), 2);
        assert_eq!(cell.take(READS, 2), 1);
        assert_eq!(cell.take(READS, 2), 0);
        assert_eq!(cell.total().v[READS], 2);
    }
}
