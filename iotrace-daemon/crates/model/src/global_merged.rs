//! Merged time over all processes of a node, where the kernel side kept it (`iotrace_common::global_merged`).

use std::collections::BTreeMap;

use iotrace_common::global_merged::{GROUPS, Time};

use super::{counters::saturating_add, history::Bounds};

/// Merged time by group of phases.
pub type Times = [Time; GROUPS];

/// Merged time over all processes, of each node that has it.
#[derive(Clone, Debug, Default)]
pub struct GlobalMerged {
    /// Since the last [`GlobalMerged::step`] or [`GlobalMerged::settle`].
    interval: Option<Times>,
    /// Steps since the last [`GlobalMerged::settle`].
    steps: Vec<(Bounds, Times)>,
    /// Of the whole run, by node.
    nodes: BTreeMap<u32, Times>,
    history: Vec<(Bounds, Times)>,
}

impl GlobalMerged {
    /// Adds what was measured since the last time, on the first node.
    pub fn add(&mut self, times: &Times) {
        absorb(self.interval.get_or_insert_default(), times);
        absorb(self.nodes.entry(0).or_default(), times);
    }

    /// Adds what a recording says of a step.
    pub fn restore(&mut self, bounds: Bounds, times: &Times) {
        match self.steps.iter_mut().find(|(of, _)| *of == bounds) {
            Some((_, known)) => absorb(known, times),
            None => self.steps.push((bounds, *times)),
        }
        absorb(self.nodes.entry(0).or_default(), times);
    }

    /// What was measured in the steps since the last [`GlobalMerged::settle`], the rest of the interval included; nothing
    /// where it is not kept.
    pub fn steps(&self, rest: Bounds) -> impl Iterator<Item = (Bounds, &Times)> {
        let steps = self.steps.iter().map(|(bounds, times)| (*bounds, times));
        steps.chain(self.interval.iter().map(move |times| (rest, times)))
    }

    /// Ends a step, which had these bounds.
    pub fn step(&mut self, bounds: Bounds) {
        self.steps
            .extend(self.interval.take().map(|times| (bounds, times)));
    }

    /// Ends the interval, the rest of which had these bounds.
    pub fn settle(&mut self, rest: Bounds) {
        self.step(rest);
        self.history.append(&mut self.steps);
    }

    /// Adds the data of another node.
    pub fn append(&mut self, other: &Self, node: u32) {
        let own = other.nodes.get(&0);
        self.nodes.extend(own.map(|times| (node, *times)));
        self.history.extend(&other.history);
    }

    /// Of each node, in one group.
    pub fn of_nodes(&self, group: usize) -> impl ExactSizeIterator<Item = Time> {
        self.nodes.values().map(move |times| times[group])
    }

    /// In one group between two moments, where there is one node; none where nothing is known of that time.
    pub fn between(&self, bounds: Bounds, group: usize) -> Option<Time> {
        let is_inside =
            |(of, _): &&(Bounds, Times)| of.start >= bounds.start && of.end <= bounds.end;
        let mut inside = self.history.iter().filter(is_inside).peekable();
        inside.peek().filter(|_| self.nodes.len() == 1)?;
        Some(inside.fold(Time::default(), |sum, (_, times)| Time {
            ns: sum.ns.saturating_add(times[group].ns),
            uncertain_ns: sum.uncertain_ns.saturating_add(times[group].uncertain_ns),
        }))
    }
}

fn absorb(sum: &mut Times, times: &Times) {
    for (sum, time) in sum.iter_mut().zip(times) {
        saturating_add(&mut sum.ns, time.ns);
        saturating_add(&mut sum.uncertain_ns, time.uncertain_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(ns: u64) -> Times {
        [Time {
            ns,
            uncertain_ns: 1,
        }; GROUPS]
    }

    #[test]
    fn intervals_add_up_and_nodes_stay_apart() {
        let bounds = |start, end| Bounds { start, end };
        let mut one = GlobalMerged::default();
        assert_eq!(one.steps(bounds(0, 10)).count(), 0);
        one.add(&times(5));
        one.add(&times(6));
        one.settle(bounds(0, 10));
        one.add(&times(1));
        one.settle(bounds(10, 20));
        assert_eq!(one.between(bounds(0, 10), 2).map(|time| time.ns), Some(11));
        assert_eq!(one.between(bounds(0, 20), 2).map(|time| time.ns), Some(12));
        assert_eq!(one.between(bounds(20, 30), 2), None);
        let mut job = GlobalMerged::default();
        job.append(&one, 0);
        job.append(&one, 1);
        let of_nodes: Vec<u64> = job.of_nodes(3).map(|time| time.ns).collect();
        assert_eq!(of_nodes, [12, 12]);
        assert_eq!(job.between(bounds(0, 20), 2), None);
    }
}
