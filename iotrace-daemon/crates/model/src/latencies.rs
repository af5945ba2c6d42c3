//! How long operations took, by process, device, phase and class.

use std::collections::BTreeMap;

use super::{counters::saturating_sum, forget::Moved};
use iotrace_common::latency::{self, BUCKET_COUNT};

/// Which operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Operations {
    /// The device of their files (`FileId::device`); 0: they name no open file.
    pub device: u32,
    /// `Phase::code`; 0: none.
    pub phase: u16,
    /// One of [`iotrace_common::op::class`].
    pub class: u8,
}

/// How many operations took how long.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    /// Buckets ([`latency::bucket`]) that have operations, in order, and how many.
    buckets: Vec<(u8, u64)>,
    /// Time of the longest operation, nanoseconds.
    longest: u64,
}

impl Histogram {
    /// Adds operations of a bucket.
    pub fn add(&mut self, bucket: u8, calls: u64, longest: u64) {
        self.longest = self.longest.max(longest);
        match self
            .buckets
            .binary_search_by_key(&bucket, |(bucket, _)| *bucket)
        {
            Ok(place) => self.buckets[place].1 = self.buckets[place].1.saturating_add(calls),
            Err(place) => self.buckets.insert(place, (bucket, calls)),
        }
    }

    /// Adds those of another one.
    pub fn absorb(&mut self, other: &Self) {
        for (bucket, calls) in &other.buckets {
            self.add(*bucket, *calls, other.longest);
        }
    }

    /// Buckets that have operations, in order: the longest time of each, nanoseconds, `None` for the last bucket of all; and
    /// how many.
    pub fn buckets(&self) -> impl Iterator<Item = (Option<u64>, u64)> {
        let bound = |(bucket, calls): &(u8, u64)| (latency::longest((*bucket).into()), *calls);
        self.buckets.iter().map(bound)
    }

    /// Number of operations.
    pub fn calls(&self) -> u64 {
        saturating_sum(self.buckets.iter().map(|(_, calls)| *calls))
    }

    /// Time of the longest operation, nanoseconds.
    pub fn longest(&self) -> u64 {
        self.longest
    }

    /// The time, nanoseconds, that `percent` of the operations did not exceed (nearest rank): the bound of its bucket, at most
    /// an eighth above it. 0 if there are no operations.
    pub fn percentile(&self, percent: u64) -> u64 {
        let rank = (u128::from(self.calls()) * u128::from(percent))
            .div_ceil(100)
            .max(1);
        let mut below = 0;
        for (bound, calls) in self.buckets() {
            below += u128::from(calls);
            if below >= rank {
                return bound.map_or(self.longest, |bound| bound.min(self.longest));
            }
        }
        0
    }

    /// All of their time, nanoseconds, estimated: each operation took as long as the middle of its bucket, which is off by a
    /// sixteenth at most.
    pub fn time(&self) -> u64 {
        let times = self.buckets.iter().map(|(bucket, calls)| {
            let bucket = usize::from(*bucket);
            let begin = bucket.checked_sub(1).and_then(latency::longest);
            let begin = begin.map_or(0, |longest| longest + 1);
            let end = latency::longest(bucket).unwrap_or(self.longest);
            (begin + end.saturating_sub(begin) / 2).saturating_mul(*calls)
        });
        saturating_sum(times)
    }
}

impl From<&latency::Latencies> for Histogram {
    fn from(latencies: &latency::Latencies) -> Self {
        let mut histogram = Self::default();
        for (bucket, calls) in (0_u8..).zip(latencies.calls) {
            if calls > 0 {
                histogram.add(bucket, calls.into(), latencies.longest);
            }
        }
        histogram
    }
}

/// Histograms by process.
#[derive(Debug, Default)]
pub struct Latencies {
    all: BTreeMap<(u32, Operations), Histogram>,
    /// The part since the last flush.
    interval: BTreeMap<(u32, Operations), Histogram>,
}

impl Latencies {
    /// Adds what a process did.
    pub(super) fn add(&mut self, process: u32, of: Operations, done: &Histogram) {
        for sums in [&mut self.all, &mut self.interval] {
            sums.entry((process, of)).or_default().absorb(done);
        }
    }

    /// Adds what a recording says of a bucket, with the longest operation of its histogram.
    pub(super) fn restore(
        &mut self,
        process: u32,
        of: Operations,
        bucket: u8,
        calls: u64,
        longest: u64,
    ) {
        let sum = self.all.entry((process, of)).or_default();
        sum.add(bucket.min(BUCKET_COUNT as u8 - 1), calls, longest);
    }

    /// Of the whole run, by the index of the process.
    pub fn all(&self) -> impl Iterator<Item = (u32, Operations, &Histogram)> {
        self.all
            .iter()
            .map(|((process, of), sum)| (*process, *of, sum))
    }

    /// The same, taken apart.
    pub(super) fn into_all(self) -> impl Iterator<Item = (u32, Operations, Histogram)> {
        let all = self.all.into_iter();
        all.map(|((process, of), sum)| (process, of, sum))
    }

    /// The same since the last [`Latencies::settle`].
    pub fn interval(&self) -> impl Iterator<Item = (u32, Operations, &Histogram)> {
        self.interval
            .iter()
            .map(|((process, of), sum)| (*process, *of, sum))
    }

    /// Ends the interval.
    pub(super) fn settle(&mut self) {
        self.interval.clear();
    }

    /// Forgets those of processes that are forgotten.
    pub(super) fn forget(&mut self, processes: &Moved) {
        for sums in [&mut self.all, &mut self.interval] {
            let kept = std::mem::take(sums).into_iter();
            *sums = kept
                .filter_map(|((process, of), sum)| Some(((processes.get(process)?, of), sum)))
                .collect();
        }
    }

    /// Adds those of another node, whose processes begin at `processes` here.
    pub(super) fn append(&mut self, other: Self, processes: u32) {
        for ((process, of), sum) in other.all {
            self.all
                .entry((process + processes, of))
                .or_default()
                .absorb(&sum);
        }
    }
}

#[cfg(test)]
mod tests {
    use iotrace_common::op::class;

    use super::*;

    const READS: Operations = Operations {
        device: 7,
        phase: 2,
        class: class::READ as u8,
    };

    /// Operations that took these nanoseconds.
    fn took(times: &[u64]) -> Histogram {
        let mut latencies = latency::Latencies {
            longest: times.iter().copied().max().unwrap_or(0),
            calls: [0; BUCKET_COUNT],
        };
        for time in times {
            latencies.calls[latency::bucket(*time)] += 1;
        }
        Histogram::from(&latencies)
    }

    #[test]
    fn the_time_of_all_is_off_by_a_sixteenth_at_most() {
        let times: Vec<u64> = (130..2_000).map(|index| index * index).collect();
        let sum: u64 = times.iter().sum();
        let off = took(&times).time().abs_diff(sum);
        assert!(off <= sum / 16, "{off} of {sum}");
        for time in [140, 150, 1 << 20, (1 << 21) - 1] {
            let off = took(&[time]).time().abs_diff(time);
            assert!(off <= time / 16 + 1, "{off} of {time}");
        }
    }

    #[test]
    fn processes_that_are_forgotten_have_none_and_the_others_keep_theirs() {
        let mut latencies = Latencies::default();
        for process in 0..3 {
            latencies.add(process, READS, &took(&[u64::from(process) * 1_000 + 500]));
        }
        latencies.forget(&Moved::new([false, true, true].into_iter()));
        for kept in [latencies.all.clone(), latencies.interval.clone()] {
            let longest = kept
                .iter()
                .map(|((process, _), sum)| (*process, sum.longest()));
            assert_eq!(longest.collect::<Vec<_>>(), [(0, 1_500), (1, 2_500)]);
        }
    }

    #[test]
    fn percentiles_are_in_the_bucket_of_the_operation_of_that_rank() {
        let mut times: Vec<u64> = (1..=1_000).map(|index| index * index * 37).collect();
        let mut latencies = Latencies::default();
        // In any order, by several threads.
        times.reverse();
        latencies.add(0, READS, &took(&times[..500]));
        latencies.add(0, READS, &took(&times[500..]));
        times.sort_unstable();
        let (_, _, sum) = latencies.all().next().unwrap();
        for percent in [1, 50, 95, 99, 100] {
            let exact = times[percent as usize * 10 - 1];
            let found = sum.percentile(percent);
            assert_eq!(
                latency::bucket(found),
                latency::bucket(exact),
                "{percent} %"
            );
            assert!(
                found >= exact && found <= exact + exact / 5,
                "{found} for {exact}"
            );
        }
        assert_eq!((sum.calls(), sum.longest()), (1_000, 37_000_000));
        assert_eq!(sum.percentile(100), 37_000_000);
    }

    #[test]
    fn the_last_bucket_has_the_longest_for_its_bound() {
        let mut latencies = Latencies::default();
        latencies.add(0, READS, &took(&[500, 1 << 40]));
        let (_, _, sum) = latencies.all().next().unwrap();
        assert_eq!((sum.percentile(50) / 100, sum.percentile(99)), (5, 1 << 40));
        assert_eq!(Histogram::default().percentile(99), 0);
    }

    #[test]
    fn intervals_and_nodes_add_up() {
        let mut latencies = Latencies::default();
        latencies.add(1, READS, &took(&[100, 200]));
        latencies.settle();
        assert_eq!(latencies.interval().count(), 0);
        latencies.add(1, READS, &took(&[300]));
        let (_, _, recent) = latencies.interval().next().unwrap();
        assert_eq!((recent.calls(), recent.longest()), (1, 300));
        let mut job = Latencies::default();
        job.append(latencies, 10);
        let all: Vec<_> = job
            .all()
            .map(|(process, _, sum)| (process, sum.calls()))
            .collect();
        assert_eq!(all, [(11, 3)]);
    }
}
