//! CPU time by process, and bounds on what a job computed outside calls: they show how much of its I/O overlapped with
//! other work. `docs/guide/phases.md` has the definition.

use std::collections::BTreeMap;

use super::{
    counters::{saturating_add, saturating_sum},
    history::Bounds,
};

/// CPU time of a process, or of several, over some time; nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTime {
    /// Of all threads.
    pub cpu_ns: u64,
    /// How long, at least, one of its threads was on a CPU and in no call.
    pub computing_at_least_ns: u64,
    /// CPU time of its threads outside of calls while another thread was in one, at most, summed over threads.
    pub beside_at_most_ns: u64,
}

impl CpuTime {
    /// Adds what came later.
    pub fn add(&mut self, later: &Self) {
        saturating_add(&mut self.cpu_ns, later.cpu_ns);
        saturating_add(&mut self.computing_at_least_ns, later.computing_at_least_ns);
        saturating_add(&mut self.beside_at_most_ns, later.beside_at_most_ns);
    }
}

/// What all processes of a node computed between two samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Computed {
    pub bounds: Bounds,
    pub node: u32,
    /// From before the first sample to after the last, nanoseconds.
    pub length_ns: u64,
    /// Of the process that computed most.
    pub at_least_ns: u64,
    /// Summed over processes.
    pub beside_at_most_ns: u64,
}

/// CPU time by process.
#[derive(Clone, Debug, Default)]
pub struct Computing {
    /// Time between the samples of the interval.
    length_ns: u64,
    /// By index of the process, since the last [`Computing::settle`].
    interval: BTreeMap<u32, CpuTime>,
    totals: BTreeMap<u32, u64>,
    history: Vec<Computed>,
    /// Nodes on which CPU time is known.
    nodes: u32,
}

impl Computing {
    /// Adds the time since the previous sample.
    pub fn add_length(&mut self, length_ns: u64) {
        saturating_add(&mut self.length_ns, length_ns);
    }

    /// Adds what the process at `index` did since the previous sample.
    pub fn add(&mut self, index: u32, time: &CpuTime) {
        self.nodes = 1;
        self.interval.entry(index).or_default().add(time);
        saturating_add(self.totals.entry(index).or_default(), time.cpu_ns);
    }

    /// Time between the samples of the interval; 0 if there was none.
    pub fn length_ns(&self) -> u64 {
        self.length_ns
    }

    /// By process, since the last [`Computing::settle`].
    pub fn interval(&self) -> impl Iterator<Item = (u32, &CpuTime)> {
        self.interval.iter().map(|(index, time)| (*index, time))
    }

    /// CPU time of a process; none where it is not known at all.
    pub fn of_process(&self, index: u32) -> Option<u64> {
        (self.nodes > 0).then(|| self.totals.get(&index).copied().unwrap_or(0))
    }

    /// The same, of several processes together.
    pub fn of_processes(&self, mut indices: impl Iterator<Item = u32>) -> Option<u64> {
        indices.try_fold(0_u64, |sum, index| {
            Some(sum.saturating_add(self.of_process(index)?))
        })
    }

    /// Nodes on which CPU time is known.
    pub fn nodes(&self) -> u32 {
        self.nodes
    }

    /// Settled intervals.
    pub fn history(&self) -> &[Computed] {
        &self.history
    }

    /// Ends the interval, which had these bounds.
    pub fn settle(&mut self, bounds: Bounds) {
        let times = std::mem::take(&mut self.interval);
        let length_ns = std::mem::take(&mut self.length_ns);
        if !times.is_empty() {
            let each = |of: fn(&CpuTime) -> u64| times.values().map(of);
            self.history.push(Computed {
                bounds,
                node: 0,
                length_ns,
                at_least_ns: each(|time| time.computing_at_least_ns).max().unwrap_or(0),
                beside_at_most_ns: saturating_sum(each(|time| time.beside_at_most_ns)),
            });
        }
    }

    /// Adds that of another node, whose process indices are shifted by `processes`.
    pub fn append(&mut self, other: &Self, node: u32, processes: u32) {
        self.nodes += other.nodes;
        let totals = other.totals.iter();
        self.totals
            .extend(totals.map(|(index, ns)| (index + processes, *ns)));
        let history = other.history.iter();
        self.history
            .extend(history.map(|computed| Computed { node, ..*computed }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_has_the_most_and_the_sum() {
        let mut computing = Computing::default();
        assert_eq!(computing.of_process(0), None);
        let time = |ns| CpuTime {
            cpu_ns: ns,
            computing_at_least_ns: ns / 2,
            beside_at_most_ns: ns / 4,
        };
        computing.add_length(50);
        computing.add(0, &time(8));
        computing.add(1, &time(40));
        computing.add_length(50);
        computing.add(1, &time(4));
        let bounds = Bounds { start: 0, end: 100 };
        computing.settle(bounds);
        assert_eq!(computing.of_process(1), Some(44));
        assert_eq!(computing.of_process(2), Some(0));
        let expected = Computed {
            bounds,
            node: 0,
            length_ns: 100,
            at_least_ns: 22,
            beside_at_most_ns: 13,
        };
        assert_eq!(computing.history(), [expected]);
    }
}
