//! How long operations of a unit took, in the few buckets that a series each is worth.

use iotrace_model::{
    counters::{saturating_add, saturating_sum},
    latencies::Histogram,
};

/// Powers of two that the first and the last bound are, nanoseconds: 8 us and 8.6 s.
const FIRST_POWER: u32 = 13;
const LAST_POWER: u32 = 33;
/// Bounds of the buckets; the last bucket has none.
const BOUNDS: usize = (LAST_POWER - FIRST_POWER + 1) as usize;
/// Series of one histogram: its buckets, its sum, its count, and the longest operation.
pub(super) const SERIES: usize = BOUNDS + 4;

/// Operations by how long they took. Every bound is also one of the kernel's finer buckets, so each operation is counted where
/// it belongs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LatencyBuckets {
    calls: [u64; BOUNDS + 1],
    /// Of all of them, nanoseconds: [`Histogram::time`].
    ns: u64,
    /// The longest operation, nanoseconds.
    longest: u64,
}

impl LatencyBuckets {
    pub fn add(&mut self, done: &Histogram) {
        saturating_add(&mut self.ns, done.time());
        self.longest = self.longest.max(done.longest());
        for (longest, calls) in done.buckets() {
            let bucket = longest.map(|ns| (ns + 1).max(1 << FIRST_POWER).next_power_of_two());
            let bucket = bucket.map(|bound| (bound.ilog2() - FIRST_POWER) as usize);
            let bucket = bucket.unwrap_or(BOUNDS).min(BOUNDS);
            saturating_add(&mut self.calls[bucket], calls);
        }
    }

    /// Number of operations.
    pub fn count(&self) -> u64 {
        saturating_sum(self.calls)
    }

    /// Time of all operations, nanoseconds.
    pub fn ns(&self) -> u64 {
        self.ns
    }

    /// Time of the longest operation, nanoseconds.
    pub fn longest(&self) -> u64 {
        self.longest
    }

    /// Bound of each bucket, nanoseconds, `None` for the last; and the operations that took less, and not less than the bound
    /// before.
    pub fn buckets(&self) -> impl Iterator<Item = (Option<u64>, u64)> {
        let bounds = (FIRST_POWER..=LAST_POWER).map(|power| Some(1 << power));
        bounds.chain([None]).zip(self.calls)
    }
}

#[cfg(test)]
mod tests {
    use iotrace_common::latency::{BUCKET_COUNT, Latencies, bucket};

    use super::*;

    #[test]
    fn every_operation_is_below_its_bound_and_not_below_the_one_before() {
        let mut times: Vec<u64> = (0..2_000).map(|index| 3 + index * index * index).collect();
        times.extend([8_191, 8_192, 1 << 33, (1 << 33) - 1, 1 << 40]);
        let mut latencies = Latencies {
            longest: 1 << 40,
            calls: [0; BUCKET_COUNT],
        };
        for time in &times {
            latencies.calls[bucket(*time)] += 1;
        }
        let mut durations = LatencyBuckets::default();
        durations.add(&Histogram::from(&latencies));
        let mut begin = 0;
        for (bound, calls) in durations.buckets() {
            let end = bound.unwrap_or(u64::MAX);
            let exact = times.iter().filter(|time| (begin..end).contains(*time));
            assert_eq!(calls, exact.count() as u64, "{begin} to {end}");
            begin = end;
        }
        assert_eq!(durations.count(), times.len() as u64);
        assert_eq!(durations.longest(), 1 << 40);
    }
}
