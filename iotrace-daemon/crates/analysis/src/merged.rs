//! Merged time over processes, from what each did in each interval: exact where they do not overlap, else within bounds.

use std::collections::BTreeMap;

use super::series::{Slice, Span};
use iotrace_phases::phase::Phase;

/// Of the phases that are chosen, over all processes of some intervals.
pub fn of_slices(slices: &[Slice], run_ns: u64, is_chosen: impl Fn(Phase) -> bool) -> (u64, u64) {
    let spans = slices
        .iter()
        .flat_map(|slice| by_process(slice, &is_chosen));
    over(spans.map(|(_, span)| bounds(&span)).collect(), run_ns)
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
    for slice in slices {
        for (process, span) in by_process(slice, |_| true) {
            spans
                .entry(group_of(process))
                .or_default()
                .push(bounds(&span));
        }
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
            at_most += sum.min(reached - from);
            (sum, from) = (0, start);
        }
        sum += ns;
        reached = reached.max(end);
    }
    at_most += sum.min(reached - from);
    // best[n]: of the first n by their end.
    let mut best = vec![0_u64; spans.len() + 1];
    for (index, (start, _, ns)) in spans.iter().enumerate() {
        let before = spans[..index].partition_point(|(_, end, _)| end <= start);
        best[index + 1] = best[index].max(best[before] + ns);
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
