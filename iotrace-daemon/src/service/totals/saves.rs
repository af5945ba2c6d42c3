//! Checkpoints of each unit: how many, how much, how long, and when the last was complete.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use super::{OTHER, UnitId};
use crate::analysis::saves::GAP;

/// Upper bounds of the durations that are counted together, seconds; longer ones follow.
pub const BOUNDS: [f64; 9] = [1.0, 5.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0];
/// Series of one unit: count, bytes, moment, and the histogram with its sum and count.
pub(super) const SERIES: usize = BOUNDS.len() + 6;

/// A part of a save: what one process wrote to one file since it was last looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    pub bytes: u64,
    /// Start of the first and end of the last operation, `CLOCK_MONOTONIC` nanoseconds.
    pub first: u64,
    pub last: u64,
}

/// The saves of a unit that are complete.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Saves {
    pub count: u64,
    pub bytes: u64,
    /// Saves by duration: [`BOUNDS`], and longer.
    pub durations: [u64; BOUNDS.len() + 1],
    pub seconds: f64,
    /// End of the last save, `CLOCK_MONOTONIC` nanoseconds.
    pub last: u64,
}

impl Saves {
    fn add(&mut self, save: Written) {
        let seconds = save.last.saturating_sub(save.first) as f64 / 1e9;
        let bucket = BOUNDS.iter().position(|bound| seconds <= *bound);
        self.durations[bucket.unwrap_or(BOUNDS.len())] += 1;
        self.count += 1;
        self.bytes += save.bytes;
        self.seconds += seconds;
        self.last = self.last.max(save.last);
    }
}

/// The saves of all units.
#[derive(Debug, Default)]
pub struct AllSaves {
    complete: BTreeMap<UnitId, Saves>,
    /// Saves that go on, and when they were last written to.
    open: BTreeMap<UnitId, (Written, Instant)>,
}

impl AllSaves {
    /// The saves that are complete.
    pub fn complete(&self) -> &BTreeMap<UnitId, Saves> {
        &self.complete
    }

    /// Takes a part of the save that goes on, or of a new one.
    pub(super) fn write(&mut self, unit: UnitId, part: Written, now: Instant) {
        match self.open.get_mut(&unit) {
            Some((save, touched)) => {
                *touched = now;
                save.bytes += part.bytes;
                save.first = save.first.min(part.first);
                save.last = save.last.max(part.last);
            }
            None => {
                self.open.insert(unit, (part, now));
            }
        }
    }

    /// Completes the saves that nobody has written to for [`GAP`]; returns how many series came with them, of those that
    /// there is `room` for.
    pub(super) fn complete_old(&mut self, now: Instant, mut room: usize) -> usize {
        let gap = Duration::from_nanos(GAP.unsigned_abs());
        let is_over = |touched: Instant| now.saturating_duration_since(touched) >= gap;
        let over: Vec<UnitId> = self
            .open
            .iter()
            .filter(|(_, (_, touched))| is_over(*touched))
            .map(|(unit, _)| *unit)
            .collect();
        let before = room;
        for unit in over {
            let Some((save, _)) = self.open.remove(&unit) else {
                continue;
            };
            let unit = match self.complete.contains_key(&unit) {
                false if unit != OTHER && room < SERIES => OTHER,
                false if unit != OTHER => {
                    room -= SERIES;
                    unit
                }
                _ => unit,
            };
            self.complete.entry(unit).or_default().add(save);
        }
        before - room
    }

    /// Units with checkpoints that are complete, and with one that goes on.
    pub(super) fn entries(&self) -> usize {
        self.complete.len() + self.open.len()
    }

    /// Takes out a unit; returns how many series go with it.
    pub(super) fn remove(&mut self, unit: UnitId) -> usize {
        self.open.remove(&unit);
        self.complete.remove(&unit).map_or(0, |_| SERIES)
    }
}
