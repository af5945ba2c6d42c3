//! When training files were read, next to saves: whether who trains waited for a save, and whether a pass over the data lies
//! between two.

use std::{cell::OnceCell, collections::HashSet};

use super::{
    evaluation::is_of_evaluation,
    passes::WHOLE_SHARE,
    saves::Event,
    uses::{Touch, Uses, Visit},
};
use iotrace_model::{Model, counters::saturating_sum};

/// Threads that read training data at the same time, at most.
const MAX_READERS: f64 = 256.0;

/// When training files were read.
pub struct Training<'a> {
    uses: &'a Uses,
    /// Of files whose first and last read is known: both moments and bytes, by start.
    exact: Vec<(i64, i64, u64)>,
    /// The last reads of these, in order.
    ends: Vec<i64>,
    /// Of all files, by start; with each the latest end of all up to it.
    spans: Vec<(i64, i64)>,
    /// Seldom needed, and as long as the data have files: reads of all of them, and of those for validation.
    reads: OnceCell<Reads>,
    validation: OnceCell<Reads>,
}

/// What is known of the reads of some training files, and the bytes of these files.
struct Reads {
    /// Those whose first and last read is known: both moments and bytes, by start.
    exact: Vec<(i64, i64, u64)>,
    /// Those that were put between known ones: when, and bytes, in order.
    placed: Vec<(i64, u64)>,
    /// When reads are known to have begun or ended, in order.
    moments: Vec<i64>,
    /// Bytes of the files.
    bytes: u64,
    /// Nanoseconds in reads that a pass over them takes, summed over threads.
    pass_ns: f64,
}

impl Reads {
    fn new(uses: &Uses, is_of: impl Fn(u32) -> bool) -> Self {
        let chosen = || uses.visits.iter().filter(|visit| is_of(visit.file));
        let mut reads = Self {
            exact: exact(chosen()),
            placed: Vec::new(),
            moments: Vec::new(),
            bytes: 0,
            pass_ns: 0.0,
        };
        for visit in chosen() {
            if !visit.is_exact {
                reads.placed.push((visit.start, visit.bytes));
            }
            // The first and the last read of several uses are known, too.
            if visit.is_exact || visit.opens > 1 {
                reads.moments.extend([visit.start, visit.end]);
            }
        }
        reads.placed.sort_unstable();
        reads.moments.sort_unstable();
        let files: HashSet<u32> = chosen().map(|visit| visit.file).collect();
        let sizes = files.iter().map(|file| uses.sizes[*file as usize]);
        reads.bytes = saturating_sum(sizes);
        let sum = |of: fn(&Visit) -> u64| saturating_sum(chosen().map(of)) as f64;
        let passes = sum(|visit| visit.bytes) / reads.bytes.max(1) as f64;
        reads.pass_ns = sum(|visit| visit.read_ns) / passes.max(1.0);
        reads
    }

    /// Bytes of the reads that were put between two moments.
    fn placed(&self, from: i64, to: i64) -> u64 {
        let placed = between(&self.placed, from, to, |(at, _)| *at).iter();
        saturating_sum(placed.map(|(_, bytes)| *bytes))
    }

    /// Whether training files were read between two moments. Of a single pass that was put there it is not known.
    fn go_on(&self, from: i64, to: i64) -> bool {
        !between(&self.moments, from, to, |at| *at).is_empty() || self.placed(from, to) > self.bytes
    }
}

/// Of visits whose first and last read is known: both moments and bytes, by start.
fn exact<'a>(visits: impl Iterator<Item = &'a Visit>) -> Vec<(i64, i64, u64)> {
    let exact = visits.filter(|visit| visit.is_exact);
    let mut exact: Vec<(i64, i64, u64)> = exact.map(|v| (v.start, v.end, v.bytes)).collect();
    exact.sort_unstable();
    exact
}

/// The part of a sorted list whose keys are from one to another, this one left out.
fn between<T>(sorted: &[T], from: i64, to: i64, key: impl Fn(&T) -> i64) -> &[T] {
    let place = |time: i64| sorted.partition_point(|one| key(one) < time);
    let (first, behind) = (place(from), place(to));
    &sorted[first..behind.max(first)]
}

impl<'a> Training<'a> {
    pub fn new(uses: &'a Uses) -> Self {
        let visits = &uses.visits;
        let exact = exact(visits.iter());
        let mut ends: Vec<i64> = exact.iter().map(|(_, end, _)| *end).collect();
        ends.sort_unstable();
        let mut spans: Vec<(i64, i64)> = visits.iter().map(|v| (v.start, v.end)).collect();
        spans.sort_unstable();
        let mut latest = i64::MIN;
        for (_, end) in &mut spans {
            latest = latest.max(*end);
            *end = latest;
        }
        Self {
            uses,
            exact,
            ends,
            spans,
            reads: OnceCell::new(),
            validation: OnceCell::new(),
        }
    }

    fn reads(&self) -> &Reads {
        self.reads.get_or_init(|| Reads::new(self.uses, |_| true))
    }

    /// Whether no training file can have been read from one moment to another.
    pub fn is_idle(&self, from: i64, to: i64) -> bool {
        self.longest_gap(from, to).0 >= to - from
    }

    /// Whether most of the training data were read between a save and what was written after it, and none during either: who
    /// trains wrote them, and no thread in the background. `None` if that cannot be known.
    pub fn has_pass_between(&self, save: &Event, next: &Touch) -> Option<bool> {
        self.has_pass(self.reads(), save.span(), next.span())
    }

    /// The same between two saves, whichever was the first.
    pub fn has_pass_between_saves(&self, one: &Event, other: &Event) -> Option<bool> {
        let first = one.span().min(other.span());
        self.has_pass(self.reads(), first, one.span().max(other.span()))
    }

    /// The same of the data for validation.
    pub fn has_validation_between(
        &self,
        model: &Model,
        save: &Event,
        next: &Touch,
    ) -> Option<bool> {
        let is_of = |file| is_of_evaluation(model.file(file).path);
        let validation = self.validation.get_or_init(|| Reads::new(self.uses, is_of));
        self.has_pass(validation, save.span(), next.span())
    }

    /// Whether training files are known to have been read between a save and what was written after it, and cannot have been
    /// during either; by start and end of both.
    pub fn has_reads_between(&self, save: (i64, i64), next: (i64, i64)) -> bool {
        !self.uses.is_coarse
            && self.reads().go_on(save.1, next.0)
            && self.is_idle(save.0, save.1)
            && self.is_idle(next.0, next.1)
    }

    /// By start and end of a save and of what was written after it.
    fn has_pass(&self, reads: &Reads, save: (i64, i64), next: (i64, i64)) -> Option<bool> {
        if self.uses.is_coarse {
            return None;
        }
        let all = self.reads();
        if all.go_on(save.0, save.1) || all.go_on(next.0, next.1) {
            return Some(false);
        }
        let behind = between(&reads.exact, save.1, next.0, |(start, _, _)| *start);
        let within = behind.iter().filter(|(_, end, _)| *end <= next.0);
        let read = saturating_sum(within.map(|(_, _, bytes)| *bytes));
        let is_pass = |bytes: u64| bytes > 0 && bytes as f64 >= reads.bytes as f64 * WHOLE_SHARE;
        if is_pass(read) {
            return Some(true);
        }
        let possible = read.saturating_add(reads.placed(save.0, next.1));
        let pause = (next.0 - save.1) as f64;
        let is_possible = is_pass(possible) && pause * MAX_READERS >= reads.pass_ns;
        (!is_possible).then_some(false)
    }

    /// Whether training reads stopped for half of an event, and then for how long ([`Event::training_pause_ns`]).
    pub fn stopped(&self, event: &Event) -> (Option<bool>, Option<u64>) {
        if self.spans.is_empty() {
            return (None, None);
        }
        let (start, end) = (event.start, event.end);
        let is_half = |ns: i64| ns >= (end - start + 1) / 2;
        let (gap, pause) = self.longest_gap(start, end);
        if is_half(gap) {
            return (Some(true), pause);
        }
        let mut reached = start;
        let goes_on = self.known_reads(start, end).into_iter().all(|(from, to)| {
            let gap = from - reached;
            reached = reached.max(to);
            !is_half(gap)
        });
        (goes_on.then_some(false), None)
    }

    /// When training files are known to have been read between two moments, by start, and the second moment. What was used for
    /// longer than that may have been read meanwhile or not: only its ends are known.
    fn known_reads(&self, start: i64, end: i64) -> Vec<(i64, i64)> {
        let length = end - start;
        let first = |visit: &(i64, i64, u64)| visit.0;
        let near = between(&self.exact, start.saturating_sub(length), end, first).iter();
        let mut known: Vec<(i64, i64)> = near
            .map(|(from, to, _)| match to - from <= length {
                true => (*from, *to),
                false => (*from, *from),
            })
            .collect();
        let ends = between(&self.ends, start, end, |end| *end);
        known.extend(ends.iter().map(|end| (*end, *end)));
        known.retain(|(_, to)| *to > start);
        known.sort_unstable();
        known.push((end, end));
        known
    }

    /// The longest time in which no training file can have been read: nanoseconds of it within two moments, and nanoseconds
    /// from the last read before it to the first one after it, which may lie outside of them, if there is one of each.
    fn longest_gap(&self, start: i64, end: i64) -> (i64, Option<u64>) {
        // Spans are in order of their starts, and so are the latest ends.
        let mut at = self.spans.partition_point(|(from, _)| *from <= start);
        let mut reached = at.checked_sub(1).map(|before| self.spans[before].1);
        let mut longest = (i64::MIN, None);
        loop {
            let next = self.spans.get(at).copied();
            let from = reached.unwrap_or(i64::MIN).max(start);
            let gap = next.map_or(end, |(next, _)| next.min(end)) - from;
            if gap > longest.0 {
                let pause = reached.zip(next);
                longest = (gap, pause.map(|(before, (next, _))| (next - before) as u64));
            }
            match next {
                Some((next, latest)) if next < end => reached = Some(latest),
                _ => return longest,
            }
            at += 1;
        }
    }
}
