//! Failed calls by process, place, operation and errno.

use std::{collections::BTreeMap, ops::AddAssign};

use super::{
    forget::{Moved, moved},
    input::Place,
};

/// What one kind of failure belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FailureKey {
    /// Index of the process.
    pub process: u32,
    pub place: Place<u32>,
    /// Operation class, an index into `iotrace_common::op::NAMES`.
    pub op: u32,
    /// The error, positive.
    pub errno: u32,
}

/// Calls that failed in one way, and their time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FailureCount {
    pub calls: u64,
    /// Nanoseconds inside them.
    pub ns: u64,
}

impl AddAssign for FailureCount {
    /// Ends at the largest number, which only damaged counts reach.
    fn add_assign(&mut self, other: Self) {
        self.calls = self.calls.saturating_add(other.calls);
        self.ns = self.ns.saturating_add(other.ns);
    }
}

/// All failures.
#[derive(Debug, Default)]
pub struct Failures {
    /// Total, and the part of it that came since the last flush.
    counts: BTreeMap<FailureKey, (FailureCount, FailureCount)>,
}

impl Failures {
    /// Counts `calls` failures.
    pub fn add(&mut self, key: FailureKey, count: FailureCount) {
        let (total, interval) = self.counts.entry(key).or_default();
        for sum in [total, interval] {
            *sum += count;
        }
    }

    /// All failures, by process and place.
    pub fn all(&self) -> impl Iterator<Item = (&FailureKey, FailureCount)> {
        self.counts.iter().map(|(key, (total, _))| (key, *total))
    }

    /// Failures of one process in one place.
    pub fn at(
        &self,
        process: u32,
        place: Place<u32>,
    ) -> impl Iterator<Item = (&FailureKey, FailureCount)> {
        let first = FailureKey {
            process,
            place,
            op: 0,
            errno: 0,
        };
        let last = FailureKey {
            op: u32::MAX,
            errno: u32::MAX,
            ..first
        };
        self.counts
            .range(first..=last)
            .map(|(key, (total, _))| (key, *total))
    }

    /// Failures of one process.
    pub fn of(&self, process: u32) -> impl Iterator<Item = (&FailureKey, FailureCount)> {
        let first = FailureKey {
            process,
            place: Place::File(0),
            op: 0,
            errno: 0,
        };
        let last = FailureKey {
            process,
            place: Place::Overflow,
            op: u32::MAX,
            errno: u32::MAX,
        };
        self.counts
            .range(first..=last)
            .map(|(key, (total, _))| (key, *total))
    }

    /// Failures since the last [`Failures::settle`].
    pub fn interval(&self) -> impl Iterator<Item = (&FailureKey, FailureCount)> {
        let recent = self
            .counts
            .iter()
            .map(|(key, (_, interval))| (key, *interval));
        recent.filter(|(_, count)| count.calls > 0)
    }

    /// Takes out the failures of what is forgotten.
    pub fn forget(&mut self, processes: &Moved, files: &Moved) {
        let counts = std::mem::take(&mut self.counts);
        self.counts
            .extend(counts.into_iter().filter_map(|(key, count)| {
                let process = processes.get(key.process)?;
                let place = moved(key.place, files)?;
                let key = FailureKey {
                    process,
                    place,
                    ..key
                };
                Some((key, count))
            }));
    }

    /// Leaves the failures of files that are kept.
    pub(super) fn select_files(&mut self, is_kept: impl Fn(u32) -> bool) {
        self.counts
            .retain(|key, _| matches!(key.place, Place::File(file) if is_kept(file)));
    }

    /// Ends the interval.
    pub fn settle(&mut self) {
        self.counts
            .values_mut()
            .for_each(|(_, interval)| *interval = FailureCount::default());
    }
}
