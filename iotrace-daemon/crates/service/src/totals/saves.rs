//! Checkpoints of each unit: how many, how much, how long, and when the last was complete.

use std::collections::BTreeMap;

use iotrace_model::counters::saturating_add;

use super::{OTHER, UnitId};

/// Upper bounds of the durations that are counted together, seconds; longer ones follow.
pub const BOUNDS: [f64; 9] = [1.0, 5.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0];
/// Series of one unit: count, bytes, unsynced bytes, moment, and the histogram with its sum and count.
pub(super) const SERIES: usize = BOUNDS.len() + 7;

/// A save that is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Saved {
    pub bytes: u64,
    /// Bytes of it that a crash of the node may destroy, since nobody synced their files.
    pub unsynced_bytes: u64,
    /// Its start and its end, `CLOCK_MONOTONIC` nanoseconds.
    pub first: u64,
    pub last: u64,
}

/// The saves of a unit that are complete.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Saves {
    pub count: u64,
    pub bytes: u64,
    pub unsynced_bytes: u64,
    /// Saves by duration: [`BOUNDS`], and longer.
    pub durations: [u64; BOUNDS.len() + 1],
    pub seconds: f64,
    /// End of the last save, `CLOCK_MONOTONIC` nanoseconds.
    pub last: u64,
}

impl Saves {
    fn add(&mut self, save: Saved) {
        let seconds = save.last.saturating_sub(save.first) as f64 / 1e9;
        let bucket = BOUNDS.iter().position(|bound| seconds <= *bound);
        self.durations[bucket.unwrap_or(BOUNDS.len())] += 1;
        self.count += 1;
        saturating_add(&mut self.bytes, save.bytes);
        saturating_add(&mut self.unsynced_bytes, save.unsynced_bytes);
        self.seconds += seconds;
        self.last = self.last.max(save.last);
    }
}

/// The saves of all units.
#[derive(Debug, Default)]
pub struct AllSaves {
    complete: BTreeMap<UnitId, Saves>,
}

impl AllSaves {
    /// The saves that are complete.
    pub fn complete(&self) -> &BTreeMap<UnitId, Saves> {
        &self.complete
    }

    /// Takes a save; returns how many series came with it, of those that there is `room` for.
    pub(super) fn add(&mut self, unit: UnitId, save: Saved, room: usize) -> usize {
        let is_new = unit != OTHER && !self.complete.contains_key(&unit);
        let (unit, series) = match is_new {
            true if room < SERIES => (OTHER, 0),
            true => (unit, SERIES),
            false => (unit, 0),
        };
        self.complete.entry(unit).or_default().add(save);
        series
    }

    /// Units with checkpoints.
    pub(super) fn entries(&self) -> usize {
        self.complete.len()
    }

    /// Takes out a unit; returns how many series go with it.
    pub(super) fn remove(&mut self, unit: UnitId) -> usize {
        self.complete.remove(&unit).map_or(0, |_| SERIES)
    }
}
