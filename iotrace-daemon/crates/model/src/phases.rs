//! What a process did by phase, as the kernel side sorted it while it was done.
//!
//! A report may sort files otherwise, by other rules, by what the whole run tells or by a later name; the counters of
//! its files can go with them. Merged time cannot: it is exact for the phases that the kernel side knew, which stand
//! in here.

use std::time::Duration;

use iotrace_common::phases::COUNT;
use serde::{Deserialize, Serialize};

use super::counters::{BYTES_READ, BYTES_WRITTEN, Counters, UNION_READ_NS, UNION_WRITE_NS};

/// What was done in one phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Done {
    /// Calls of all kinds, failed ones included.
    pub operations: u64,
    pub bytes_read: u64,
    pub bytes_written: u64,
    /// Nanoseconds inside calls, summed over calls.
    pub ns: u64,
    /// Nanoseconds inside calls, those that overlap in one process counted once.
    pub merged_ns: u64,
}

impl Done {
    /// What one block of counters holds.
    pub fn of(counters: &Counters) -> Self {
        Self {
            operations: counters.operations(),
            bytes_read: counters.v[BYTES_READ],
            bytes_written: counters.v[BYTES_WRITTEN],
            ns: counters.nanoseconds(),
            merged_ns: counters.v[UNION_READ_NS] + counters.v[UNION_WRITE_NS],
        }
    }

    /// What was done since an earlier sum.
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            operations: self.operations.saturating_sub(earlier.operations),
            bytes_read: self.bytes_read.saturating_sub(earlier.bytes_read),
            bytes_written: self.bytes_written.saturating_sub(earlier.bytes_written),
            ns: self.ns.saturating_sub(earlier.ns),
            merged_ns: self.merged_ns.saturating_sub(earlier.merged_ns),
        }
    }

    /// Adds what another holds.
    pub fn add(&mut self, other: &Self) {
        self.operations += other.operations;
        self.bytes_read += other.bytes_read;
        self.bytes_written += other.bytes_written;
        self.ns += other.ns;
        self.merged_ns += other.merged_ns;
    }
}

/// What one process did, by the number of the phase (`Phase::code`); 0: calls that named no open file, and files that
/// could not be sorted.
#[derive(Clone, Debug, Default)]
pub struct ByPhase {
    settled: [Done; COUNT],
    interval: [Done; COUNT],
}

impl ByPhase {
    /// Adds to the interval. A phase that there is not counts as 0.
    pub fn add(&mut self, phase: u32, done: &Done) {
        let phase = phase as usize;
        self.interval[if phase < COUNT { phase } else { 0 }].add(done);
    }

    /// All that was done in a phase.
    pub fn total(&self, phase: u16) -> Done {
        let phase = usize::from(phase);
        let mut total = self.settled.get(phase).copied().unwrap_or_default();
        total.add(&self.interval.get(phase).copied().unwrap_or_default());
        total
    }

    /// What was done since the last [`ByPhase::settle`], by phase, where there was anything.
    pub fn interval(&self) -> impl Iterator<Item = (u16, &Done)> {
        let phases = self.interval.iter().enumerate();
        phases
            .filter(|(_, done)| **done != Done::default())
            .map(|(phase, done)| (phase as u16, done))
    }

    /// Ends the interval.
    pub fn settle(&mut self) {
        for (settled, interval) in self.settled.iter_mut().zip(&mut self.interval) {
            settled.add(&std::mem::take(interval));
        }
    }
}

/// Merged time over all processes. Those that overlap are known one by one only, so it is known within bounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Merged {
    /// That of the process with the most.
    pub at_least: Duration,
    /// The sum over all processes.
    pub at_most: Duration,
}

impl Merged {
    /// Of the merged times of each process.
    pub fn of(each: impl Iterator<Item = Duration>) -> Self {
        each.fold(Self::default(), |merged, one| Self {
            at_least: merged.at_least.max(one),
            at_most: merged.at_most + one,
        })
    }

    /// The same within a run that lasted this long.
    pub fn within(self, run: Duration) -> Self {
        Self {
            at_least: self.at_least.min(run),
            at_most: self.at_most.min(run),
        }
    }

    /// Whether it is exact, as where one process alone did anything.
    pub fn is_exact(&self) -> bool {
        self.at_least == self.at_most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(merged_ns: u64) -> Done {
        Done {
            operations: 1,
            merged_ns,
            ..Done::default()
        }
    }

    #[test]
    fn intervals_add_up() {
        let mut phases = ByPhase::default();
        phases.add(2, &done(5));
        phases.settle();
        phases.add(2, &done(7));
        phases.add(99, &done(1));
        assert_eq!(
            phases.total(2),
            Done {
                operations: 2,
                ..done(12)
            }
        );
        let interval = phases
            .interval()
            .map(|(phase, done)| (phase, done.merged_ns));
        let interval: Vec<_> = interval.collect();
        assert_eq!(interval, [(0, 1), (2, 7)]);
    }

    #[test]
    fn bounds_meet_where_one_process_did_all() {
        let ms = Duration::from_millis;
        let merged = |each: &[u64]| Merged::of(each.iter().map(|time| ms(*time)));
        assert!(merged(&[0, 7, 0]).is_exact());
        let two = merged(&[5, 7]);
        assert_eq!((two.at_least, two.at_most), (ms(7), ms(12)));
        assert_eq!(two.within(ms(10)).at_most, ms(10));
    }
}
