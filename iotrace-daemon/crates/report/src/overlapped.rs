//! How much of the I/O overlapped with computing of the same job: DFAnalyzer's overlapped I/O, in bounds.
//!
//! `docs/guide/phases.md` derives them. In a time T in which the job was in calls of a phase for M, and some thread was on a CPU
//! and in no call for at least B, both went on at one time for at least M + B - T. At most it was M, and the CPU time that
//! threads can have had outside of calls while another one was in a call.

use super::{Report, merged::Merged};
use iotrace_analysis::{merged::of_slices, series::Slice};
use iotrace_model::counters::saturating_add;
use iotrace_phases::phase::Phase;

/// How long calls of a phase and computing of other threads went on at one time, nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overlapped {
    pub at_least: u64,
    pub at_most: u64,
}

/// Some time of the run, nanoseconds since its start, and what is known of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Window {
    start: i64,
    end: i64,
    /// Between looks at the threads.
    looked: i64,
    /// One thread on a CPU and in no call, at least.
    computing: i64,
    /// CPU time outside of calls while another thread was in one, at most.
    beside: i64,
    /// Merged time of the calls that ended in it, and when the first of them can have begun.
    at_least: i64,
    at_most: i64,
    first: Option<i64>,
}

/// Calls that began before a window are part of it from this share of its length on: with the windows before it, it is one.
const LONG: i64 = 20;

impl Window {
    /// Both as one; this one is the earlier.
    fn join(self, later: Self) -> Self {
        Self {
            start: self.start.min(later.start),
            end: self.end.max(later.end),
            looked: self.looked.saturating_add(later.looked),
            computing: self.computing.saturating_add(later.computing),
            beside: self.beside.saturating_add(later.beside),
            at_least: self.at_least.saturating_add(later.at_least),
            at_most: self.at_most.saturating_add(later.at_most),
            first: match (self.first, later.first) {
                (Some(one), Some(other)) => Some(one.min(other)),
                (one, other) => one.or(other),
            },
        }
    }

    fn length(&self) -> i64 {
        self.looked.max(self.end - self.start)
    }

    /// Time of its calls that lies before it, at most.
    fn before(&self) -> i64 {
        self.first.map_or(0, |first| (self.start - first).max(0))
    }
}

/// Windows of which no two overlap, none with much time of calls that lies before it.
fn arrange(mut windows: Vec<Window>) -> Vec<Window> {
    windows.sort_by_key(|window| (window.start, window.end));
    let mut arranged: Vec<Window> = Vec::new();
    for mut window in windows {
        while let Some(last) = arranged.pop() {
            let is_long = window.before() * LONG > window.length();
            let reaches = window.first.is_some_and(|first| first < last.end);
            if window.start < last.end || is_long && reaches {
                window = last.join(window);
                continue;
            }
            if is_long {
                // Nothing was computed or called in between, as far as was looked.
                window.start = window.first.unwrap_or(window.start);
            }
            arranged.push(last);
            break;
        }
        arranged.push(window);
    }
    arranged
}

fn sum(windows: Vec<Window>) -> Overlapped {
    let (mut at_least, mut at_most, mut earlier) = (0_i64, 0_i64, 0);
    for window in arrange(windows) {
        let before = window.before();
        let both = window
            .at_least
            .saturating_sub(before)
            .saturating_add(window.computing)
            .saturating_sub(window.length());
        at_least = both.max(0).saturating_add(at_least);
        let beside = window.beside.saturating_add(before.min(earlier));
        at_most = window.at_most.min(beside).saturating_add(at_most);
        earlier = window.beside;
    }
    let at_most = at_most.max(0) as u64;
    Overlapped {
        at_least: (at_least as u64).min(at_most),
        at_most,
    }
}

/// A length with a sign.
fn signed(ns: u64) -> i64 {
    i64::try_from(ns).unwrap_or(i64::MAX)
}

impl Report<'_> {
    /// Number of nodes with CPU time; none where it is not known on every node.
    pub(super) fn computing_nodes(&self) -> Option<u32> {
        let nodes = self.model.computing().nodes();
        (nodes > 0 && nodes as usize >= self.nodes.len()).then_some(nodes)
    }

    /// How much of the merged time of the phases that are chosen overlapped with computing; none where CPU time is not
    /// known on every node.
    pub(super) fn overlapped(
        &self,
        merged: &Merged,
        is_chosen: impl Fn(Phase) -> bool,
    ) -> Option<Overlapped> {
        let mut all = Overlapped::default();
        for node in 0..self.computing_nodes()? {
            let one = sum(self.windows(node, &is_chosen));
            all.at_least = all.at_least.max(one.at_least);
            saturating_add(&mut all.at_most, one.at_most);
        }
        let at_most = all.at_most.min(merged.at_most);
        Some(Overlapped {
            at_least: all.at_least.min(at_most),
            at_most,
        })
    }

    fn windows(&self, node: u32, is_chosen: &impl Fn(Phase) -> bool) -> Vec<Window> {
        let start = self.run.start_unix_ns;
        let computed = self.model.computing().history().iter();
        let computed = computed.filter(|computed| computed.node == node);
        let mut windows: Vec<Window> = computed
            .map(|computed| Window {
                start: computed.bounds.start - start,
                end: computed.bounds.end - start,
                looked: signed(computed.length_ns),
                computing: signed(computed.at_least_ns),
                beside: signed(computed.beside_at_most_ns),
                at_least: 0,
                at_most: 0,
                first: None,
            })
            .collect();
        let slices = self.analysis.series.slices.iter();
        windows.extend(slices.filter_map(|slice| self.calls(slice, node, is_chosen)));
        windows
    }

    /// The calls of an interval on one node; none where there were none.
    fn calls(
        &self,
        slice: &Slice,
        node: u32,
        is_chosen: &impl Fn(Phase) -> bool,
    ) -> Option<Window> {
        let processes = self.model.processes();
        let merged = slice.merged.iter().filter(|((process, phase), _)| {
            processes[*process as usize].node == node && is_chosen(Phase::ALL[*phase])
        });
        let own = Slice {
            start_ns: slice.start_ns,
            end_ns: slice.end_ns,
            phases: Default::default(),
            merged: merged.copied().collect(),
            processes: Vec::new(),
            extents: slice.extents,
        };
        let spans = || own.merged.iter().map(|(_, span)| span);
        let first = spans().map(|span| span.bounds().0).min()?;
        let last = spans().map(|span| span.bounds().1).max()?;
        let known = of_slices(std::slice::from_ref(&own), 0, is_chosen);
        let (at_least, at_most) = self.measured_in(slice, known, is_chosen);
        let first = first.min(last.saturating_sub(at_most));
        Some(Window {
            start: slice.start_ns,
            end: slice.end_ns,
            looked: 0,
            computing: 0,
            beside: 0,
            at_least: signed(at_least),
            at_most: signed(at_most),
            first: Some(self.run.clock.unix_ns(first) - self.run.start_unix_ns),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(start: i64, end: i64) -> Window {
        Window {
            start,
            end,
            looked: end - start,
            computing: 0,
            beside: 0,
            at_least: 0,
            at_most: 0,
            first: None,
        }
    }

    fn calls(start: i64, end: i64, ns: i64, first: i64) -> Window {
        Window {
            looked: 0,
            at_least: ns,
            at_most: ns,
            first: Some(first),
            ..window(start, end)
        }
    }

    fn computing(start: i64, end: i64, ns: i64) -> Window {
        Window {
            computing: ns,
            beside: ns,
            ..window(start, end)
        }
    }

    fn bounds(windows: &[Window]) -> (u64, u64) {
        let overlapped = sum(windows.to_vec());
        (overlapped.at_least, overlapped.at_most)
    }

    #[test]
    fn two_that_fill_the_time_overlap() {
        assert_eq!(
            bounds(&[calls(0, 100, 90, 0), computing(0, 100, 80)]),
            (70, 80)
        );
        assert_eq!(
            bounds(&[calls(0, 100, 40, 0), computing(0, 100, 40)]),
            (0, 40)
        );
        assert_eq!(bounds(&[calls(0, 100, 40, 0)]), (0, 0));
    }

    #[test]
    fn a_long_call_counts_with_the_time_that_it_took() {
        let long = [
            computing(0, 100, 100),
            computing(100, 200, 100),
            calls(200, 300, 250, 40),
            computing(200, 300, 100),
        ];
        assert_eq!(bounds(&long), (250, 250));
        // The job computed, but before the call: only what was left of it may have overlapped.
        let before = [
            computing(0, 100, 100),
            window(100, 200),
            calls(200, 300, 150, 120),
        ];
        assert_eq!(bounds(&before), (0, 0));
    }

    #[test]
    fn a_little_before_an_interval_is_left_out() {
        let little = [
            computing(0, 100, 100),
            calls(100, 200, 52, 98),
            computing(100, 200, 100),
        ];
        assert_eq!(bounds(&little), (50, 52));
    }
}
