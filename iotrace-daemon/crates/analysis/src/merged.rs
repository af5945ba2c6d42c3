//! Merged time over processes, from what each did in each interval: exact where they do not overlap, else within bounds.

use std::collections::{BTreeMap, HashMap};

use super::series::{Slice, Span};
use iotrace_model::counters::saturating_add;
use iotrace_phases::phase::Phase;

/// Of the phases that are chosen, over all processes of some intervals.
pub fn of_slices(slices: &[Slice], run_ns: u64, is_chosen: impl Fn(Phase) -> bool) -> (u64, u64) {
    let spans = apart(slices, is_chosen);
    over(spans.map(|(_, bounds)| bounds).collect(), run_ns)
}

/// From when to when the merged time of each process and interval lies, and how much it is. That of one process does not overlap
/// itself: what a call that an interval's end cuts adds to the next interval is after the last call that ended in this one.
fn apart(
    slices: &[Slice],
    is_chosen: impl Fn(Phase) -> bool,
) -> impl Iterator<Item = (u32, (u64, u64, u64))> {
    let mut ends: HashMap<u32, u64> = HashMap::new();
    let spans = slices
        .iter()
        .flat_map(move |slice| by_process(slice, &is_chosen));
    spans.map(move |(process, span)| {
        let (start, end, ns) = bounds(&span);
        let before = ends.entry(process).or_default();
        let start = start.max((*before).min(end - ns));
        *before = end.max(*before);
        (process, (start, end, ns))
    })
}

/// What each process did in an interval in the phases that are chosen.
fn by_process(slice: &Slice, is_chosen: impl Fn(Phase) -> bool) -> BTreeMap<u32, Span> {
    let mut spans: BTreeMap<u32, Span> = BTreeMap::new();
    for ((process, phase), span) in &slice.merged {
        if is_chosen(Phase::ALL[*phase]) {
            let entry = spans.entry(*process);
            entry.and_modify(|known| known.add(span)).or_insert(*span);
        }
    }
    spans
}

/// Over each group of processes, by its first process.
pub fn by_group(
    slices: &[Slice],
    run_ns: u64,
    group_of: impl Fn(u32) -> u32,
) -> BTreeMap<u32, (u64, u64)> {
    let mut spans: BTreeMap<u32, Vec<(u64, u64, u64)>> = BTreeMap::new();
    for (process, bounds) in apart(slices, |_| true) {
        spans.entry(group_of(process)).or_default().push(bounds);
    }
    let groups = spans.into_iter();
    groups
        .map(|(group, spans)| (group, over(spans, run_ns)))
        .collect()
}

/// From when to when a span's time lies, and how much it is.
fn bounds(span: &Span) -> (u64, u64, u64) {
    let (start, end) = span.bounds();
    (start, end.max(start.saturating_add(span.ns)), span.ns)
}

/// Over processes and intervals, each with the moments that its merged time lies between.
///
/// At least it is that of the best choice of spans that do not overlap. At most, of those that do, it is their sum, and
/// the time that they cover together.
pub fn over(mut spans: Vec<(u64, u64, u64)>, run_ns: u64) -> (u64, u64) {
    spans.sort_unstable_by_key(|(_, end, _)| *end);
    let mut by_start = spans.clone();
    by_start.sort_unstable();
    let mut at_most = 0_u64;
    // Of those that overlap each other: their sum, and from when to when they are.
    let (mut sum, mut from, mut reached) = (0_u64, 0_u64, 0_u64);
    for (start, end, ns) in by_start {
        if start >= reached {
            saturating_add(&mut at_most, sum.min(reached - from));
            (sum, from) = (0, start);
        }
        saturating_add(&mut sum, ns);
        reached = reached.max(end);
    }
    saturating_add(&mut at_most, sum.min(reached - from));
    // best[n]: of the first n by their end.
    let mut best = vec![0_u64; spans.len() + 1];
    for (index, (start, _, ns)) in spans.iter().enumerate() {
        let before = spans[..index].partition_point(|(_, end, _)| end <= start);
        best[index + 1] = best[index].max(best[before].saturating_add(*ns));
    }
    let at_least = best[spans.len()];
    if run_ns > 0 {
        at_most = at_most.min(run_ns);
    }
    (at_least, at_most.max(at_least))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process in phase 0 of an interval.
    fn slice(process: u32, first: u64, last: u64, ns: u64) -> Slice {
        Slice {
            start_ns: 0,
            end_ns: 0,
            phases: Default::default(),
            merged: vec![((process, 0), Span { first, last, ns })],
            processes: Vec::new(),
            extents: Default::default(),
        }
    }

    #[test]
    fn a_call_that_an_interval_cuts_does_not_overlap_its_own_process() {
        // Of two threads one is in a call from 7 to 20, and the interval ends at 11.
        let mut slices = vec![slice(1, 0, 10, 10), slice(1, 7, 30, 18)];
        assert_eq!(of_slices(&slices, 100, |_| true), (28, 28));
        assert_eq!(by_group(&slices, 100, |_| 5)[&5], (28, 28));
        // What others do at that time is known within bounds.
        slices.push(slice(2, 5, 30, 10));
        assert_eq!(of_slices(&slices, 100, |_| true), (28, 30));
    }

    #[test]
    fn processes_one_behind_the_other_add_up() {
        assert_eq!(
            over(vec![(0, 10, 5), (10, 20, 7), (30, 40, 1)], 100),
            (13, 13)
        );
    }

    #[test]
    fn processes_at_one_time_are_known_within_bounds() {
        // Two of ten that cover twelve: between the longer one and what they cover.
        assert_eq!(over(vec![(0, 10, 8), (2, 12, 9)], 100), (9, 12));
        // Two pairs in sequence.
        assert_eq!(
            over(vec![(0, 10, 3), (0, 10, 4), (20, 30, 2), (20, 30, 2)], 100),
            (6, 11)
        );
        assert_eq!(
            over(vec![(0, 100, 90), (0, 100, 90)], 50),
            (90, 90),
            "no less than was measured"
        );
        assert_eq!(over(Vec::new(), 100), (0, 0));
    }
}
