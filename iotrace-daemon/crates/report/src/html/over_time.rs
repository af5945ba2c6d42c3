//! What was done over time: by phase for the timeline, by process for the heat map.
//!
//! Each phase of a step of the recording is drawn from its first call there to its last, evenly: when between them it moved
//! its bytes is not known.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{columns::Columns, data::PHASES};
use crate::Report;
use iotrace_analysis::series::{Extent, Flow, Slice};
use iotrace_model::IoTotals;
use iotrace_phases::phase::Phase;

/// Bins of the timeline, at most: more would be narrower than a pixel.
const MAX_BINS: i64 = 2_000;
/// Shortest bin, nanoseconds.
const MIN_BIN_NS: i64 = 1_000_000;

/// Bins in order, and what was done in each. Where nothing was done there is none.
#[derive(Serialize)]
pub struct Series {
    /// Seconds since the start of the run.
    start: Vec<f64>,
    end: Vec<f64>,
    /// The longest step of the recording that is drawn, seconds.
    longest_step: f64,
    by_phase: BTreeMap<&'static str, Columns>,
}

/// What each process did in each bin: only where it did anything.
#[derive(Default, Serialize)]
pub struct Heat {
    /// Place in the list of processes.
    process: Vec<u32>,
    /// Bin of the series.
    bin: Vec<u32>,
    #[serde(flatten)]
    sums: Columns,
}

/// Bins by their bounds, nanoseconds since the start of the run.
struct Bins(Vec<(i64, i64)>);

impl Bins {
    /// Bins that begin and end where these extents do.
    fn new(mut extents: Vec<(i64, i64)>) -> Self {
        let edges = extents.iter().flat_map(|(start, end)| [*start, *end]);
        let mut edges: Vec<i64> = edges.collect();
        edges.sort_unstable();
        edges.dedup();
        extents.sort_unstable();
        let mut extents = extents.into_iter().peekable();
        let mut until = i64::MIN;
        let bins = edges.windows(2).map(|pair| (pair[0], pair[1]));
        let bins = bins.filter(|(start, end)| {
            while let Some((_, reached)) = extents.next_if(|(from, _)| from <= start) {
                until = until.max(reached);
            }
            *end <= until
        });
        Self(bins.collect())
    }

    /// The bins that lie between two moments, with the parts of `sum` that fall on them evenly.
    fn spread(&self, (start, end): (i64, i64), sum: IoTotals) -> Vec<(usize, IoTotals)> {
        let first = self.0.partition_point(|(_, bin_end)| *bin_end <= start);
        let inside = self.0.iter().enumerate().skip(first);
        let inside = inside.take_while(|(_, (bin_start, _))| *bin_start < end);
        let inside: Vec<(usize, i64)> = inside
            .map(|(bin, (from, to))| (bin, to.min(&end) - from.max(&start)))
            .collect();
        let whole: i64 = inside.iter().map(|(_, length)| length).sum();
        let mut passed = 0;
        let mut given = IoTotals::default();
        let parts = inside.into_iter().map(|(bin, length)| {
            passed += length;
            let upto = part_of(&sum, passed, whole);
            let part = upto.since(&given);
            given = upto;
            (bin, part)
        });
        parts.filter(|(_, part)| !part.is_zero()).collect()
    }
}

/// So many parts of a whole of a sum.
fn part_of(sum: &IoTotals, part: i64, whole: i64) -> IoTotals {
    let of = |value: u64| (i128::from(value) * i128::from(part) / i128::from(whole)) as u64;
    IoTotals {
        operations: of(sum.operations),
        bytes_read: of(sum.bytes_read),
        bytes_written: of(sum.bytes_written),
        ns: of(sum.ns),
        merged_ns: of(sum.merged_ns),
    }
}

impl Series {
    /// The series of `report`, if it has any. `places` are those of the processes in the page's list.
    pub fn new(report: &Report<'_>, places: &[u32]) -> (Option<Self>, Heat) {
        let slices = &report.analysis().series.slices;
        let mut heat = Heat::default();
        if slices.is_empty() {
            return (None, heat);
        }
        let mut reached = [0; Phase::ALL.len() + 1];
        let extents: Vec<Vec<Option<(i64, i64)>>> = {
            let of = |slice| extents_of(report, slice, &mut reached);
            slices.iter().map(of).collect()
        };
        let bins = Bins::new(extents.iter().flatten().copied().flatten().collect());
        let longest = slices.iter().map(|slice| slice.end_ns - slice.start_ns);
        let seconds = |ns: i64| ns as f64 / 1e9;
        let mut series = Self {
            start: bins.0.iter().map(|(start, _)| seconds(*start)).collect(),
            end: bins.0.iter().map(|(_, end)| seconds(*end)).collect(),
            longest_step: seconds(longest.max().unwrap_or(0)),
            by_phase: PHASES
                .map(|phase| (phase, Columns::zeros(bins.0.len())))
                .into(),
        };
        let mut cells = BTreeMap::new();
        for (slice, extents) in slices.iter().zip(&extents) {
            series.push(&bins, slice, extents);
            heat_of(&bins, slice, extents, places, &mut cells);
        }
        series.by_phase.retain(|_, sums| !sums.is_zero());
        for ((bin, place), sum) in cells {
            heat.process.push(place);
            heat.bin.push(bin);
            heat.sums.push(&sum.into());
        }
        (Some(series), heat)
    }

    fn push(&mut self, bins: &Bins, slice: &Slice, extents: &[Option<(i64, i64)>]) {
        let mut rest = IoTotals::default();
        for (_, flow) in &slice.processes {
            rest.add(&totals(flow));
        }
        let mut sums = Vec::new();
        for (phase, flow) in Phase::ALL.iter().zip(&slice.phases) {
            let sum = totals(flow);
            rest = rest.since(&sum);
            sums.push((phase.name(), sum));
        }
        sums.push(("by_name", rest));
        for ((phase, sum), extent) in sums.into_iter().zip(extents) {
            let Some(columns) = self.by_phase.get_mut(phase) else {
                continue;
            };
            for (bin, part) in extent.iter().flat_map(|extent| bins.spread(*extent, sum)) {
                columns.add(bin, &part.into());
            }
        }
    }
}

/// Adds what each process did in a step, from the first call of all to the last.
fn heat_of(
    bins: &Bins,
    slice: &Slice,
    extents: &[Option<(i64, i64)>],
    places: &[u32],
    cells: &mut BTreeMap<(u32, u32), IoTotals>,
) {
    let known = extents.iter().flatten().copied();
    let Some(extent) = known.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))) else {
        return;
    };
    for (process, flow) in &slice.processes {
        for (bin, part) in bins.spread(extent, totals(flow)) {
            let place = places[*process as usize];
            cells.entry((bin as u32, place)).or_default().add(&part);
        }
    }
}

/// From when to when to draw what was done in each phase of a step, and without a file: nanoseconds since the start of the
/// run, at whole bins. `reached`: the end of each in the steps before.
fn extents_of(report: &Report<'_>, slice: &Slice, reached: &mut [i64]) -> Vec<Option<(i64, i64)>> {
    let run = report.run;
    let length = i64::try_from(run.duration_ns).unwrap_or(i64::MAX);
    let width = (length / MAX_BINS).max(MIN_BIN_NS);
    let at = |monotonic| {
        run.clock
            .unix_ns(monotonic)
            .saturating_sub(run.start_unix_ns)
    };
    let extents = slice.extents.iter().zip(reached);
    let extents = extents.map(|(extent, reached)| {
        let (start, end) = match *extent {
            Extent::Empty => return None,
            Extent::Unknown => (slice.start_ns, slice.end_ns),
            Extent::Known { first, last } => (at(first), at(last)),
        };
        Some(at_bins((start, end), width, reached))
    });
    extents.collect()
}

/// The bins that an extent touches, as one. A bin in which two steps of a phase meet is the earlier one's: as both's it would
/// be a peak that was none.
fn at_bins((start, end): (i64, i64), width: i64, reached: &mut i64) -> (i64, i64) {
    let start = start.max(0) / width * width;
    let bins = (end - start).max(1) as u64;
    let bins = bins.div_ceil(width as u64) as i64;
    let end = start.saturating_add(bins.saturating_mul(width));
    let start = start.max((*reached).min(end - width));
    *reached = end.max(*reached);
    (start, end)
}

/// The sums of a flow that the page shows.
fn totals(flow: &Flow) -> IoTotals {
    IoTotals {
        merged_ns: 0,
        ..flow.io
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_that_meet_in_a_bin_do_not_add_up_in_it() {
        let mut reached = 0;
        let mut bins = |extent| at_bins(extent, 10, &mut reached);
        assert_eq!(bins((0, 25)), (0, 30));
        // A call that began before the step ended.
        assert_eq!(bins((18, 48)), (30, 50));
        // Nothing but what is in that bin.
        assert_eq!(bins((47, 49)), (40, 50));
        assert_eq!(bins((75, 75)), (70, 80));
    }

    #[test]
    fn bars_begin_and_end_with_what_was_done_and_nothing_is_lost() {
        // A burst, a pause, and two that overlap.
        let extents = [(0, 10), (100, 140), (120, 160)];
        let bins = Bins::new(extents.to_vec());
        assert_eq!(bins.0, [(0, 10), (100, 120), (120, 140), (140, 160)]);
        let read = |bytes_read| IoTotals {
            bytes_read,
            ..IoTotals::default()
        };
        let spread = |extent, bytes| {
            let parts = bins.spread(extent, read(bytes)).into_iter();
            parts
                .map(|(bin, part)| (bin, part.bytes_read))
                .collect::<Vec<_>>()
        };
        assert_eq!(spread((0, 10), 7), [(0, 7)]);
        assert_eq!(spread((100, 140), 11), [(1, 5), (2, 6)]);
        assert_eq!(spread((0, 160), 14), [(0, 2), (1, 4), (2, 4), (3, 4)]);
    }
}
