//! Steps: what was counted in which part of the interval since the last flush.
//!
//! A flush writes to a disk, and a step does not: so steps may be short, and they, not flushes, are what is known of time.
//! Each keeps the counters of what was used in it. A model that is told of none has one step for each flush.

use super::{
    counters::Counters,
    history::{Bounds, Key},
    packed::Packed,
};

/// Rows that steps keep until the next flush, about 15 MB. Beyond, the last step goes on until then.
const MAX_ROWS: usize = 100_000;

/// A step that has ended, in which something was counted.
#[derive(Debug)]
pub struct Step {
    pub bounds: Bounds,
    counts: Vec<(Key, Packed)>,
}

impl Step {
    pub(super) fn new(bounds: Bounds, counts: impl Iterator<Item = (Key, Counters)>) -> Self {
        let counts = counts.map(|(key, counters)| (key, Packed::from(&counters)));
        Self {
            bounds,
            counts: counts.collect(),
        }
    }

    /// What counted something.
    pub fn keys(&self) -> impl Iterator<Item = Key> {
        self.counts.iter().map(|(key, _)| *key)
    }

    /// What counted something, and its counters.
    pub fn counts(&self) -> impl Iterator<Item = (Key, Counters)> {
        let counts = self.counts.iter();
        counts.map(|(key, packed)| (*key, packed.unpack()))
    }
}

/// Those since the last flush.
#[derive(Debug, Default)]
pub struct Steps {
    ended: Vec<Step>,
    rows: usize,
    /// End of the last one, nanoseconds since the Unix epoch; none since the last flush.
    until: Option<i64>,
}

impl Steps {
    /// Those that have ended, in order.
    pub fn ended(&self) -> &[Step] {
        &self.ended
    }

    /// Whether a step with this number of rows fits into what may be kept.
    pub(super) fn has_room(&self, rows: usize) -> bool {
        self.rows + rows <= MAX_ROWS
    }

    /// What is left of an interval when the steps are over.
    pub fn rest(&self, interval: Bounds) -> Bounds {
        Bounds {
            start: self.until.unwrap_or(interval.start),
            ..interval
        }
    }

    pub(super) fn push(&mut self, step: Step) {
        self.until = Some(step.bounds.end);
        self.rows += step.counts.len();
        if !step.counts.is_empty() {
            self.ended.push(step);
        }
    }
}
