//! What a main thread waited for in each epoch.
//!
//! A recording has waits by interval, and counts each in the interval in which it ended. A thread always runs or waits, so
//! what ended in an interval covers a stretch of time without gaps that begins where the stretch before ended. Stretches
//! within an epoch are known; of one that an epoch's edge cuts, the part within the epoch is known within bounds.

use super::{
    epochs::Epoch,
    waits::{Spent, Step},
};
use iotrace_model::{counters::scaled, waits::Leaf};

/// What one thread did in some time, as far as that is known.
#[derive(Clone, Copy, Debug, Default)]
pub struct Within {
    /// Of stretches that an edge cuts, the share that lies within. These sum up to what the thread did in the run.
    pub spent: Spent,
    /// What is certain, and what is possible.
    pub at_least: Spent,
    pub at_most: Spent,
}

/// What one thread did in one epoch.
#[derive(Clone, Copy, Debug)]
pub struct InEpoch {
    /// Number of the epoch.
    pub number: u32,
    /// From its first read to its last, or to the first read of the next epoch; nanoseconds since the start of the run.
    pub start: i64,
    pub end: i64,
    pub within: Within,
}

/// What one thread did in each epoch, and outside of all.
#[derive(Clone, Debug, Default)]
pub struct ByEpoch {
    pub epochs: Vec<InEpoch>,
    pub outside: Within,
}

/// A stretch of time in which all is known of a thread but the order.
struct Stretch<'a> {
    start: i64,
    end: i64,
    spent: &'a Spent,
}

impl ByEpoch {
    /// Of a thread that did `steps`. `ended`: when it ended, nanoseconds since the start of the run, if it did.
    pub fn new(steps: &[Step], ended: Option<i64>, epochs: &[Epoch]) -> Self {
        let stretches = stretches(steps, ended);
        let mut outside = Within::of(steps);
        let nexts = epochs.iter().skip(1).map(|next| next.start);
        let windows = epochs.iter().zip(nexts.chain([i64::MAX]));
        let of = |(epoch, next): (&Epoch, i64)| {
            let (start, end) = (epoch.start, epoch.end.min(next).max(epoch.start));
            let within = Within::window(&stretches, start, end);
            outside.remove(&within);
            InEpoch {
                number: epoch.number,
                start,
                end,
                within,
            }
        };
        let epochs = windows.map(of).collect();
        Self { epochs, outside }
    }
}

/// The stretches of a thread's steps, one after the other.
fn stretches(steps: &[Step], ended: Option<i64>) -> Vec<Stretch<'_>> {
    let whole = |step: &Step| i64::try_from(step.spent.whole()).unwrap_or(i64::MAX);
    // When it began: no stretch ends after its interval, and none after the thread.
    let mut known = 0_i64;
    let mut began = i64::MAX;
    for step in steps {
        known = known.saturating_add(whole(step));
        began = began.min(step.end.saturating_sub(known));
    }
    if let Some(ended) = ended {
        began = began.min(ended.saturating_sub(known));
    }
    let mut stretches = Vec::new();
    for step in steps {
        let start = began;
        began = began.saturating_add(whole(step));
        stretches.push(Stretch {
            start,
            end: began,
            spent: &step.spent,
        });
    }
    stretches
}

impl Within {
    /// All that a thread did.
    fn of(steps: &[Step]) -> Self {
        let mut all = Spent::default();
        for (leaf, ns) in steps.iter().flat_map(|step| step.spent.parts()) {
            all.add(leaf, ns);
        }
        Self {
            spent: all,
            at_least: all,
            at_most: all,
        }
    }

    /// What a thread did from `start` to `end`.
    fn window(stretches: &[Stretch<'_>], start: i64, end: i64) -> Self {
        let mut found = Self::default();
        for stretch in stretches {
            let within = stretch
                .end
                .min(end)
                .saturating_sub(stretch.start.max(start));
            let within = u64::try_from(within).unwrap_or(0);
            let length = stretch.end.abs_diff(stretch.start);
            if within == 0 {
                continue;
            }
            for (leaf, ns) in stretch.spent.parts() {
                found.spent.add(leaf, scaled(ns, within, length));
                found.at_least.add(leaf, ns.saturating_sub(length - within));
                found.at_most.add(leaf, ns.min(within));
            }
        }
        found
    }

    /// Leaves out a part.
    fn remove(&mut self, part: &Self) {
        for leaf in Leaf::ALL {
            self.spent.take(leaf, part.spent.of(leaf));
            self.at_least.take(leaf, part.at_most.of(leaf));
            self.at_most.take(leaf, part.at_least.of(leaf));
        }
    }

    /// Largest distance between what is certain and what is possible of one kind, nanoseconds.
    pub fn uncertain(&self) -> u64 {
        let parts = self.at_most.parts();
        let distances = parts.map(|(leaf, ns)| ns.saturating_sub(self.at_least.of(leaf)));
        distances.max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn step(start: i64, end: i64, parts: &[(Leaf, u64)]) -> Step {
        let mut spent = Spent::default();
        parts.iter().for_each(|(leaf, ns)| spent.add(*leaf, *ns));
        Step { start, end, spent }
    }

    fn epoch(number: u32, start: i64, end: i64) -> Epoch {
        Epoch {
            stage: 1,
            number,
            start,
            end,
            files: 1,
            bytes: 1,
            fetched: 0,
            read_ns: 0,
            coverage: 1.0,
            order: None,
            is_exact: true,
            by_process: BTreeMap::new(),
            sequences: None,
            is_in_last_order: false,
            directory_changes: 0.0,
        }
    }

    /// Shared, certain and possible time of a kind in the epoch.
    fn of(epoch: &InEpoch, leaf: Leaf) -> [u64; 3] {
        let within = &epoch.within;
        [&within.spent, &within.at_least, &within.at_most].map(|spent| spent.of(leaf))
    }

    #[test]
    fn intervals_within_an_epoch_are_certain() {
        let steps = [
            step(0, 100, &[(Leaf::Storage, 80), (Leaf::Running, 20)]),
            step(100, 200, &[(Leaf::Running, 100)]),
        ];
        let epochs = [epoch(1, 0, 100), epoch(2, 100, 200)];
        let found = ByEpoch::new(&steps, Some(200), &epochs);
        let [first, second] = &found.epochs[..] else {
            panic!("two epochs");
        };
        assert_eq!(of(first, Leaf::Storage), [80; 3]);
        assert_eq!(of(first, Leaf::Running), [20; 3]);
        assert_eq!(of(second, Leaf::Storage), [0; 3]);
        assert_eq!(
            (first.within.uncertain(), found.outside.spent.whole()),
            (0, 0)
        );
    }

    #[test]
    fn an_interval_that_an_edge_cuts_gives_bounds() {
        let steps = [
            step(0, 100, &[(Leaf::Storage, 90), (Leaf::Running, 10)]),
            step(100, 200, &[(Leaf::Sleep, 100)]),
        ];
        // Epochs overlap by read-ahead: the second begins where its first read does.
        let epochs = [epoch(1, 20, 70), epoch(2, 60, 150)];
        let found = ByEpoch::new(&steps, Some(200), &epochs);
        let [first, second] = &found.epochs[..] else {
            panic!("two epochs");
        };
        assert_eq!((first.start, first.end, second.start), (20, 60, 60));
        assert_eq!(of(first, Leaf::Storage), [36, 30, 40]);
        assert_eq!(of(first, Leaf::Running), [4, 0, 10]);
        assert_eq!(of(second, Leaf::Storage), [36, 30, 40]);
        assert_eq!(of(second, Leaf::Sleep), [50; 3]);
        let outside = [
            found.outside.at_least,
            found.outside.spent,
            found.outside.at_most,
        ];
        assert_eq!(outside.map(|spent| spent.of(Leaf::Storage)), [10, 18, 30]);
        let all = found.epochs.iter().map(|epoch| epoch.within.spent.whole());
        assert_eq!(all.sum::<u64>() + found.outside.spent.whole(), 200);
        assert!(second.within.at_least.whole() <= 90 && second.within.at_most.whole() >= 90);
    }

    #[test]
    fn a_wait_over_several_intervals_is_where_it_was() {
        // From 40 to 230, known when it ended; the thread was born at 10.
        let steps = [
            step(0, 100, &[(Leaf::Running, 30)]),
            step(200, 300, &[(Leaf::Network, 190), (Leaf::Running, 70)]),
        ];
        let found = ByEpoch::new(&steps, None, &[epoch(1, 10, 40), epoch(2, 40, 300)]);
        assert_eq!(of(&found.epochs[0], Leaf::Running), [30; 3]);
        assert_eq!(of(&found.epochs[1], Leaf::Network), [190; 3]);
    }
}
