//! What was done over time: by phase for the timeline, by process for the heat map.
//!
//! Each phase of a step of the recording is drawn from its first call there to its last, evenly: when between them it moved
//! its bytes is not known. So is each process.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;

use super::{columns::Columns, data::PHASES};
use iotrace_analysis::series::{Extent, Flow, Slice};
use iotrace_model::{IoTotals, run::Run};
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
    /// The series of a run's steps, if it has any. `places` are those of the processes in the page's list.
    pub fn new(run: &Run, slices: &[Slice], places: &[u32]) -> (Option<Self>, Heat) {
        let mut heat = Heat::default();
        if slices.is_empty() {
            return (None, heat);
        }
        let mut drawn = Drawn::new(run);
        let extents: Vec<Extents> = slices.iter().map(|slice| drawn.extents(slice)).collect();
        let bins = Bins::new(extents.iter().flat_map(Extents::all).collect());
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
            series.push(&bins, slice, &extents.phases);
            heat_of(&bins, slice, &extents.processes, places, &mut cells);
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
        for one in &slice.processes {
            rest.add(&totals(&one.flow));
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

/// Adds what each process did in a step, from its first call to its last.
fn heat_of(
    bins: &Bins,
    slice: &Slice,
    extents: &[Option<(i64, i64)>],
    places: &[u32],
    cells: &mut BTreeMap<(u32, u32), IoTotals>,
) {
    for (one, extent) in slice.processes.iter().zip(extents) {
        let parts = extent
            .iter()
            .flat_map(|extent| bins.spread(*extent, totals(&one.flow)));
        for (bin, part) in parts {
            let place = places[one.process as usize];
            cells.entry((bin as u32, place)).or_default().add(&part);
        }
    }
}

/// From when to when to draw what was done in one step: nanoseconds since the start of the run, at whole bins.
struct Extents {
    /// By phase, and without a file.
    phases: Vec<Option<(i64, i64)>>,
    /// By process, in the order of the step.
    processes: Vec<Option<(i64, i64)>>,
}

impl Extents {
    fn all(&self) -> impl Iterator<Item = (i64, i64)> {
        self.phases.iter().chain(&self.processes).copied().flatten()
    }
}

/// Up to when the steps before are drawn.
struct Drawn<'a> {
    run: &'a Run,
    /// Width of a bin, nanoseconds.
    width: i64,
    phases: [i64; Phase::ALL.len() + 1],
    processes: HashMap<u32, i64>,
}

impl<'a> Drawn<'a> {
    fn new(run: &'a Run) -> Self {
        let length = i64::try_from(run.duration_ns).unwrap_or(i64::MAX);
        Self {
            run,
            width: (length / MAX_BINS).max(MIN_BIN_NS),
            phases: [0; Phase::ALL.len() + 1],
            processes: HashMap::new(),
        }
    }

    /// The extents of the next step.
    fn extents(&mut self, slice: &Slice) -> Extents {
        let (run, width) = (self.run, self.width);
        let bins = |extent, reached: &mut i64| {
            bounds(run, slice, extent).map(|bounds| at_bins(bounds, width, reached))
        };
        let phases = slice.extents.iter().zip(&mut self.phases);
        let processes = slice.processes.iter();
        let reached = &mut self.processes;
        Extents {
            phases: phases
                .map(|(extent, reached)| bins(*extent, reached))
                .collect(),
            processes: processes
                .map(|one| bins(one.extent, reached.entry(one.process).or_default()))
                .collect(),
        }
    }
}

/// Bounds of an extent in a step, nanoseconds since the start of the run.
fn bounds(run: &Run, slice: &Slice, extent: Extent) -> Option<(i64, i64)> {
    let at = |monotonic| {
        run.clock
            .unix_ns(monotonic)
            .saturating_sub(run.start_unix_ns)
    };
    match extent {
        Extent::Empty => None,
        Extent::Unknown => Some((slice.start_ns, slice.end_ns)),
        Extent::Known { first, last } => Some((at(first), at(last))),
    }
}

/// The bins that an extent touches, as one. A bin in which two steps of a phase or process meet is the earlier one's:
/// as both's it would be a peak that was none.
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
    use crate::tests::training::run;
    use iotrace_analysis::series::OfProcess;

    const MS: u64 = 1_000_000;

    fn read(bytes_read: u64) -> Flow {
        Flow {
            io: IoTotals {
                bytes_read,
                ..IoTotals::default()
            },
            ..Flow::default()
        }
    }

    /// A step in which processes read between two moments, milliseconds, in the phases of these places.
    fn slice(run: &Run, reads: &[(u32, usize, [u64; 2], u64)]) -> Slice {
        let start = run.clock.monotonic_ns(run.start_unix_ns);
        let mut slice = Slice {
            start_ns: 0,
            end_ns: 0,
            phases: [Flow::default(); Phase::ALL.len()],
            merged: Vec::new(),
            processes: Vec::new(),
            extents: [Extent::Empty; Phase::ALL.len() + 1],
        };
        for (process, phase, [first, last], bytes) in reads {
            let extent = Extent::Known {
                first: start + first * MS,
                last: start + last * MS,
            };
            slice.extents[*phase] = extent;
            slice.phases[*phase] = read(*bytes);
            slice.processes.push(OfProcess {
                process: *process,
                flow: read(*bytes),
                extent,
            });
        }
        slice
    }

    #[test]
    fn a_process_is_drawn_from_its_own_first_call_to_its_last() {
        let run = Run {
            duration_ns: 100 * MS,
            ..run()
        };
        // Process 1 saves from before the second step begins, which process 0 does nothing of.
        let slices = [
            slice(&run, &[(0, 1, [0, 50], 500)]),
            slice(&run, &[(0, 1, [50, 100], 500), (1, 2, [40, 100], 600)]),
        ];
        let (series, heat) = Series::new(&run, &slices, &[0, 1]);
        let series = series.expect("two steps");
        let bytes = serde_json::to_value(&heat.sums).expect("JSON")["bytes_read"].clone();
        let cells = heat
            .process
            .iter()
            .zip(&heat.bin)
            .zip(bytes.as_array().expect("a list"));
        let cells = cells.map(|((process, bin), bytes)| {
            let bin = *bin as usize;
            let ms = ((series.end[bin] - series.start[bin]) * 1e3).round() as u64;
            (*process, ms, bytes.as_u64().expect("a count"))
        });
        let cells: Vec<_> = cells.collect();
        // Nobody read more than 10 bytes in a millisecond at any time.
        assert!(
            cells.iter().all(|(_, ms, bytes)| *bytes == ms * 10),
            "{cells:?}"
        );
        let sum = |of| {
            let own = cells.iter().filter(|(process, _, _)| *process == of);
            own.map(|(_, _, bytes)| bytes).sum::<u64>()
        };
        assert_eq!([sum(0), sum(1)], [1_000, 600]);
    }

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
