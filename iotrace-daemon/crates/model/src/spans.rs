//! Spans: what one process did with one file, separately for each use, from the open to the last call.
//!
//! The kernel side numbers the uses of a file and counts each under its number (`iotrace_common::key::IoKey::span`), in the
//! phases of which saves, loads and copies are made. So the times of a span are those of its own first and last call,
//! however long the intervals are in which it was drained.

use std::collections::{HashMap, HashSet};

use iotrace_common::key::MAX_SPAN;

use super::{counters::*, forget::Moved, rows::Cell};

/// Counters of a span that are kept: the columns of `spans.parquet`.
pub const COUNTERS: [usize; count_of(flag::SPAN)] = indices_of(flag::SPAN);

/// Maximum number of spans, about 60 MB. Later ones are only in the counters of their files.
const MAX_SPANS: usize = 400_000;
/// Renames that are kept. Later ones are counted with their files, and their times are not known.
const MAX_RENAMES: usize = 100_000;
/// Numbers of renames come after those that the kernel side gives.
const RENAME_NUMBERS: u32 = u32::MAX - MAX_SPAN;

/// One use of a file by a process, by their indices.
#[derive(Debug)]
pub struct Span {
    pub process: u32,
    pub file: u32,
    /// Distinguishes the spans of a process and file; it has no order. Above [`MAX_SPAN`] it is that of a rename.
    pub number: u32,
    pub cell: Cell,
}

impl Span {
    /// Whether it is a rename of the file, which is no use of it.
    fn is_rename(&self) -> bool {
        self.number > MAX_SPAN
    }
}

/// All spans of a run.
#[derive(Debug, Default)]
pub struct Spans {
    all: Vec<Span>,
    index: HashMap<(u32, u32, u32), u32>,
    /// Spans with something in the interval.
    dirty: Vec<u32>,
    /// Whether there were more than [`MAX_SPANS`].
    overflowed: bool,
    /// Processes and files of which older spans were dropped.
    dropped: HashSet<(u32, u32)>,
    /// How many of `all` are renames.
    rename_count: usize,
}

/// One use of a file: its spans from an open to the next, however long it was idle between them.
#[derive(Debug)]
pub struct Use {
    pub process: u32,
    pub file: u32,
    pub counters: Counters,
    /// Its spans, by index, in order.
    pub pieces: Vec<u32>,
}

/// What says to which use a span belongs.
struct Piece {
    /// Process and file.
    place: (u32, u32),
    first: u64,
    index: u32,
    /// Whether a use begins with it.
    is_opened: bool,
}

impl Piece {
    fn new(index: u32, span: &Span) -> Self {
        let counters = span.cell.total();
        Self {
            place: (span.process, span.file),
            first: counters.v[FIRST_OPERATION],
            index,
            is_opened: counters.v[OPENS] > 0,
        }
    }
}

impl Spans {
    /// The spans put together, by process, file and time: what begins without an open goes on with the use before. Each
    /// is made when it is asked for: 50,000 of them at once would take 90 MB.
    pub fn uses(&self) -> impl Iterator<Item = Use> {
        let mut pieces: Vec<Piece> = (0..)
            .zip(&self.all)
            .filter(|(_, span)| !span.is_rename())
            .map(|(index, span)| Piece::new(index, span))
            .collect();
        pieces.sort_unstable_by_key(|piece| (piece.place, piece.first, piece.index));
        let mut pieces = pieces.into_iter().peekable();
        std::iter::from_fn(move || {
            let Piece { place, index, .. } = pieces.next()?;
            let mut one = Use {
                process: place.0,
                file: place.1,
                counters: self.all[index as usize].cell.total(),
                pieces: vec![index],
            };
            while let Some(next) = pieces.next_if(|next| next.place == place && !next.is_opened) {
                let mut counters = self.all[next.index as usize].cell.total();
                counters.absorb(&one.counters);
                one.counters = counters;
                one.pieces.push(next.index);
            }
            Some(one)
        })
    }

    /// All of them, in order of first appearance.
    pub fn all(&self) -> &[Span] {
        &self.all
    }

    /// Those with something in the interval.
    pub fn interval(&self) -> impl Iterator<Item = &Span> {
        self.dirty.iter().map(|index| &self.all[*index as usize])
    }

    /// Processes and files whose uses are kept one by one.
    pub fn places(&self) -> impl Iterator<Item = (u32, u32)> {
        let kept = self.all.iter().filter(|span| !span.is_rename());
        let kept = kept.map(|span| (span.process, span.file));
        kept.chain(self.dropped.iter().copied())
    }

    /// Renames: process, file, and when, `CLOCK_MONOTONIC` nanoseconds.
    pub fn renames(&self) -> impl Iterator<Item = (u32, u32, u64)> {
        let renames = self.all.iter().filter(|span| span.is_rename());
        renames.map(|span| (span.process, span.file, span.cell.total().v[LAST_OPERATION]))
    }

    /// Whether every use of a file is here.
    pub fn are_complete(&self) -> bool {
        !self.overflowed
    }

    /// Adds to a span what of `counters` is kept.
    pub(super) fn add(&mut self, process: u32, file: u32, number: u32, counters: &Counters) {
        let mut kept = Counters::ZERO;
        for index in COUNTERS {
            kept.v[index] = counters.v[index];
        }
        if kept.is_zero() {
            return;
        }
        let Some(index) = self.intern(process, file, number) else {
            return;
        };
        let cell = &mut self.all[index as usize].cell;
        if cell.is_settled() {
            self.dirty.push(index);
        }
        cell.add(&kept);
    }

    /// Adds a rename of a file by a process at this time, `CLOCK_MONOTONIC` nanoseconds.
    pub(super) fn add_rename(&mut self, process: u32, file: u32, time: u64) {
        let mut counters = Counters::ZERO;
        (counters.v[FIRST_OPERATION], counters.v[LAST_OPERATION]) = (time, time);
        let number = MAX_SPAN + 1 + (time / 1_000 % u64::from(RENAME_NUMBERS)) as u32;
        self.add(process, file, number, &counters);
    }

    fn intern(&mut self, process: u32, file: u32, number: u32) -> Option<u32> {
        let key = (process, file, number);
        if let Some(index) = self.index.get(&key) {
            return Some(*index);
        }
        let span = Span {
            process,
            file,
            number,
            cell: Cell::default(),
        };
        if span.is_rename() {
            if self.rename_count >= MAX_RENAMES {
                return None;
            }
            self.rename_count += 1;
        } else if self.all.len() - self.rename_count >= MAX_SPANS {
            self.overflowed = true;
            return None;
        }
        let index = self.all.len() as u32;
        self.index.insert(key, index);
        self.all.push(span);
        Some(index)
    }

    /// Adds those of another model, whose processes and files have these indices here. They are not found by their key.
    pub(super) fn append(&mut self, other: Self, processes: u32, files: &[u32]) {
        self.overflowed |= other.overflowed;
        self.rename_count += other.rename_count;
        self.all.extend(other.all.into_iter().map(|span| Span {
            process: span.process + processes,
            file: files[span.file as usize],
            ..span
        }));
    }

    /// The spans, without what they are found by.
    pub(super) fn into_all(self) -> Vec<Span> {
        self.all
    }

    /// Drops all but the newest.
    pub(super) fn keep_newest(&mut self, count: usize) {
        let Some(over) = self.all.len().checked_sub(count).filter(|over| *over > 0) else {
            return;
        };
        let last = |span: &Span| span.cell.total().v[LAST_OPERATION];
        let mut ends: Vec<u64> = self.all.iter().map(last).collect();
        let (_, newest_dropped, _) = ends.select_nth_unstable(over - 1);
        let newest_dropped = *newest_dropped;
        let dropped = &mut self.dropped;
        self.all.retain(|span| {
            let keep = last(span) > newest_dropped;
            if !keep && !span.is_rename() {
                dropped.insert((span.process, span.file));
            }
            keep
        });
        self.index_anew();
    }

    /// Takes out the spans of what is forgotten. The interval must be settled.
    pub(super) fn forget(&mut self, processes: &Moved, files: &Moved) {
        let moved = |(process, file)| Some((processes.get(process)?, files.get(file)?));
        self.all.retain_mut(|span| {
            let place = moved((span.process, span.file));
            if let Some((process, file)) = place {
                (span.process, span.file) = (process, file);
            }
            place.is_some()
        });
        let dropped = std::mem::take(&mut self.dropped).into_iter();
        self.dropped = dropped.filter_map(moved).collect();
        self.index_anew();
    }

    fn index_anew(&mut self) {
        let keys = self.all.iter().map(|s| (s.process, s.file, s.number));
        self.index = keys.zip(0..).collect();
        self.rename_count = self.all.iter().filter(|span| span.is_rename()).count();
        let unsettled = (0..).zip(&self.all);
        let unsettled = unsettled.filter(|(_, span)| !span.cell.is_settled());
        self.dirty = unsettled.map(|(index, _)| index).collect();
    }

    /// Ends the interval.
    pub(super) fn settle(&mut self) {
        for index in self.dirty.drain(..) {
            self.all[index as usize].cell.settle();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_one_over_all_intervals() {
        let mut spans = Spans::default();
        let written = |bytes, first, last| {
            let mut counters = Counters::ZERO;
            (counters.v[WRITES], counters.v[BYTES_WRITTEN]) = (1, bytes);
            (counters.v[FIRST_OPERATION], counters.v[LAST_OPERATION]) = (first, last);
            // Not kept.
            counters.v[SEEKS] = 1;
            counters
        };
        spans.add(0, 1, 7, &written(10, 100, 110));
        spans.add(0, 1, 8, &written(5, 300, 310));
        spans.settle();
        spans.add(0, 1, 7, &written(20, 120, 140));
        assert_eq!(spans.interval().count(), 1);
        let total = spans.all()[0].cell.total();
        assert_eq!((total.v[BYTES_WRITTEN], total.v[SEEKS]), (30, 0));
        assert_eq!(
            (total.v[FIRST_OPERATION], total.v[LAST_OPERATION]),
            (100, 140)
        );
        assert_eq!(spans.all().len(), 2);
    }

    #[test]
    fn a_rename_is_no_use_of_a_file() {
        let mut spans = Spans::default();
        spans.add_rename(0, 1, 5_000_000);
        spans.add_rename(0, 1, 9_000_000);
        assert_eq!((spans.uses().count(), spans.places().count()), (0, 0));
        let renames: Vec<_> = spans.renames().collect();
        assert_eq!(renames, [(0, 1, 5_000_000), (0, 1, 9_000_000)]);
        spans.keep_newest(1);
        assert_eq!(spans.places().count(), 0);
        assert_eq!(spans.renames().count(), 1);
    }

    #[test]
    fn the_newest_are_kept_and_the_others_known_of() {
        let mut spans = Spans::default();
        for number in 0..10 {
            let mut counters = Counters::ZERO;
            (counters.v[WRITES], counters.v[LAST_OPERATION]) = (1, u64::from(number) + 1);
            spans.add(0, number / 5, number, &counters);
        }
        spans.keep_newest(3);
        let numbers: Vec<u32> = spans.all().iter().map(|span| span.number).collect();
        assert_eq!(numbers, [7, 8, 9]);
        let places: HashSet<_> = spans.places().collect();
        assert_eq!(places, [(0, 0), (0, 1)].into());
        // What goes on is found.
        let mut more = Counters::ZERO;
        more.v[WRITES] = 1;
        spans.add(0, 1, 8, &more);
        assert_eq!(spans.all()[1].cell.total().v[WRITES], 2);
    }
}
