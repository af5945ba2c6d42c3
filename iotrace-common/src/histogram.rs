//! Histograms over all traced threads: how long operations took, and how much each read and write moved.
//!
//! The sizes have the bounds of [`crate::bucket`]. A bound is inclusive, as Prometheus's `le` is.

use core::mem::size_of;

use crate::{bucket::SIZES, op::class};

/// Number of buckets of a duration.
pub const DURATIONS: usize = 16;

/// Inclusive upper bound of each bucket of durations but the last, nanoseconds.
pub const DURATION_BOUNDS: [u64; DURATIONS - 1] = [
    1_000,
    3_000,
    10_000,
    30_000,
    100_000,
    300_000,
    1_000_000,
    3_000_000,
    10_000_000,
    30_000_000,
    100_000_000,
    300_000_000,
    1_000_000_000,
    3_000_000_000,
    10_000_000_000,
];

/// Bucket of an operation that took `ns` nanoseconds.
#[inline(always)]
pub const fn duration_bucket(ns: u64) -> usize {
    // Four comparisons, as in `bucket::size_bucket`.
    let b = &DURATION_BOUNDS;
    let mut bucket = if ns > b[7] { 8 } else { 0 };
    bucket += if ns > b[bucket + 3] { 4 } else { 0 };
    bucket += if ns > b[bucket + 1] { 2 } else { 0 };
    bucket + if ns > b[bucket] { 1 } else { 0 }
}

/// Durations of one class.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Durations {
    /// Operations by bucket.
    pub calls: [u64; DURATIONS],
    /// All of their time, nanoseconds.
    pub ns: u64,
}

/// Sizes of reads or writes. Reads of 0 bytes are in none.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Operations by bucket.
    pub calls: [u64; SIZES],
    /// All of their bytes.
    pub bytes: u64,
}

/// The histograms of one phase.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Histograms {
    /// By [`class`].
    pub durations: [Durations; class::COUNT],
    /// Of reads, and of writes.
    pub sizes: [Sizes; 2],
}

impl Histograms {
    /// Adds those of another CPU, or of another phase.
    pub fn add(&mut self, other: &Self) {
        self.each(other, |sum, count| *sum = sum.saturating_add(count));
    }

    /// What has come since they were `before`.
    pub fn since(mut self, before: &Self) -> Self {
        self.each(before, |now, then| *now = now.saturating_sub(then));
        self
    }

    fn each(&mut self, other: &Self, mut work: impl FnMut(&mut u64, u64)) {
        for (mine, theirs) in self.durations.iter_mut().zip(&other.durations) {
            mine.calls
                .iter_mut()
                .zip(theirs.calls)
                .for_each(|(a, b)| work(a, b));
            work(&mut mine.ns, theirs.ns);
        }
        for (mine, theirs) in self.sizes.iter_mut().zip(&other.sizes) {
            mine.calls
                .iter_mut()
                .zip(theirs.calls)
                .for_each(|(a, b)| work(a, b));
            work(&mut mine.bytes, theirs.bytes);
        }
    }
}

const _: () = assert!(size_of::<Histograms>() == 8 * (17 * class::COUNT + 11 * 2));

#[cfg(feature = "user")]
mod pod {
    // SAFETY: `repr(C)`, integers only, no padding (asserted above), every bit pattern valid.
    unsafe impl aya::Pod for super::Histograms {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_inclusive() {
        for (bucket, bound) in DURATION_BOUNDS.iter().enumerate() {
            assert_eq!(duration_bucket(*bound), bucket);
            assert_eq!(duration_bucket(bound + 1), bucket + 1);
        }
        assert_eq!(duration_bucket(0), 0);
        assert_eq!(duration_bucket(u64::MAX), DURATIONS - 1);
    }

    #[test]
    fn what_has_come_is_the_difference() {
        let mut before = Histograms::default();
        before.durations[class::SYNC].calls[3] = 2;
        before.sizes[1].bytes = 7;
        let mut now = before;
        now.add(&before);
        assert_eq!(now.durations[class::SYNC].calls[3], 4);
        assert_eq!(now.since(&before), before);
    }
}
