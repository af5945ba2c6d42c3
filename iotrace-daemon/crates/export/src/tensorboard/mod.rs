//! TensorBoard's event files: what a job did over time as scalars, and how its accesses were distributed as histograms.
//!
//! An event has a step, milliseconds since the start of the run, and the time of day, by which its curves stand beside
//! those of the training program. `docs/guide/exports.md` lists the tags.

mod event;
mod record;

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, Write},
};

use event::{Histogram, Value};
use iotrace_common::bucket::SIZE_BOUNDS;

use super::{Activity, Export, Interval};
use iotrace_analysis::saves::Event;
use iotrace_model::counters::{Counters, READ_SIZE_0_100, WRITE_SIZE_0_100, saturating_add};
use iotrace_phases::phase::Phase;

/// All phases together.
const ALL: &str = "all";
/// Upper bound that stands for none: what one call can move at most.
const MOST_OF_A_CALL: u64 = 1 << 31;

/// Values by their moment, nanoseconds since the start of the run.
type Points = BTreeMap<i64, Vec<(String, Value)>>;

/// Writes the events in the order of time.
pub fn write(export: &Export<'_>, mut out: impl Write) -> io::Result<()> {
    let mut points = Points::new();
    let intervals = export.intervals();
    for node in 0..export.nodes.len() {
        over_time(export, &intervals, node, &mut points);
    }
    events(export, &mut points);
    let end = i64::try_from(export.run.duration_ns).unwrap_or(i64::MAX);
    points.entry(end).or_default().extend(access_sizes(export));

    let wall_time = |at: i64| export.run.start_unix_ns.saturating_add(at) as f64 / 1e9;
    record::write(&event::version(wall_time(0)), &mut out)?;
    for (at, values) in points.iter().filter(|(_, values)| !values.is_empty()) {
        let step = at.max(&0) / 1_000_000;
        record::write(&event::summary(wall_time(*at), step, values), &mut out)?;
    }
    Ok(())
}

/// A file's name, as TensorBoard looks for it.
pub fn file_name(export: &Export<'_>) -> String {
    let seconds = export.run.start_unix_ns.div_euclid(1_000_000_000);
    let host = export
        .nodes
        .first()
        .map(|node| export.names.text(&node.run.host));
    let host: String = host
        .unwrap_or_default()
        .chars()
        .filter(|c| *c != '/')
        .collect();
    format!("events.out.tfevents.{seconds}.{host}.iotrace")
}

/// Whether a name is one that TensorBoard looks for.
pub fn is_file_name(name: &str) -> bool {
    name.contains("tfevents")
}

/// Bandwidth, operations and merged time of one node by phase: a point at the end of each interval, and 0 between
/// intervals in which nothing happened.
fn over_time(export: &Export<'_>, intervals: &[Interval], node: usize, points: &mut Points) {
    let nodes: Vec<usize> = export
        .processes()
        .map(|process| process.node as usize)
        .collect();
    let prefix = match export.nodes.len() {
        1 => String::new(),
        _ => format!("{}/", export.names.text(&export.nodes[node].run.host)),
    };
    let of_node = |interval: &Interval| -> Vec<(usize, &'static str, Activity)> {
        let activities = interval.activities.iter();
        activities
            .filter(|((place, _), _)| nodes[*place] == node)
            .map(|((place, phase), activity)| (*place, phase_name(*phase), *activity))
            .collect()
    };
    let used = intervals.iter().flat_map(of_node);
    let mut phases: BTreeSet<&str> = used.map(|(_, phase, _)| phase).collect();
    phases.insert(ALL);
    let mut until = 0;
    for interval in intervals {
        let activities = of_node(interval);
        if activities.is_empty() {
            continue;
        }
        // As in a trace: the clocks of two parts may overlap a little.
        let start = interval.start.max(until);
        let end = interval.end.max(start + 1);
        let mut put = |at: i64, activities: &[(usize, &'static str, Activity)], seconds: f64| {
            let point = points.entry(at).or_default();
            for phase in &phases {
                let of_phase = activities
                    .iter()
                    .filter(|(_, of, _)| [of, &ALL].contains(&phase));
                let mut sum = Activity::default();
                of_phase.for_each(|(_, _, activity)| {
                    sum.flow.add(&activity.flow);
                });
                let merged_ns = (!export.is_by_file()).then_some(sum.flow.io.merged_ns);
                let rates = [
                    (
                        "read_bytes_per_second",
                        sum.flow.io.bytes_read as f64 / seconds,
                    ),
                    (
                        "written_bytes_per_second",
                        sum.flow.io.bytes_written as f64 / seconds,
                    ),
                    (
                        "operations_per_second",
                        sum.flow.io.operations as f64 / seconds,
                    ),
                ];
                // Calls on other files may have overlapped those on the chosen ones.
                let merged = merged_ns.map(|ns| ("merged_seconds", ns as f64 / 1e9));
                for (name, value) in rates.into_iter().chain(merged) {
                    let tag = format!("{prefix}{name}/{phase}");
                    point.push((tag, Value::Scalar(value as f32)));
                }
            }
        };
        if until < start {
            put(start, &[], 1.0);
        }
        put(end, &activities, (end - start) as f64 / 1e9);
        let mut bytes: BTreeMap<usize, u64> = BTreeMap::new();
        for (place, _, activity) in &activities {
            saturating_add(bytes.entry(*place).or_default(), activity.flow.io.bytes());
        }
        let bytes: Vec<u64> = bytes.into_values().collect();
        let histogram = Value::Histogram(Histogram::of(&bytes));
        points
            .entry(end)
            .or_default()
            .push((format!("{prefix}bytes_by_process"), histogram));
        until = end;
    }
}

/// The phase's name; what it has no part in has its own.
fn phase_name(code: u16) -> &'static str {
    match code {
        0 => "no open file",
        code => Phase::from_code(code).name(),
    }
}

/// Checkpoints, loads and epochs, each at its end.
fn events(export: &Export<'_>, points: &mut Points) {
    let places = export.places();
    let analysis = export.analysis();
    let mut put = |at: i64, name: &str, values: &[(&str, Option<f64>)]| {
        for (what, value) in values {
            if let Some(value) = value {
                let value = Value::Scalar(*value as f32);
                points
                    .entry(at)
                    .or_default()
                    .push((format!("{name}/{what}"), value));
            }
        }
    };
    let seconds = |ns: u64| Some(ns as f64 / 1e9);
    let kinds = [
        (Phase::Checkpoint, &analysis.checkpoints),
        (Phase::Restore, &analysis.restores),
    ];
    for (phase, of_kind) in kinds {
        let is_selected = |event: &&Event| {
            let mut processes = event.processes.iter();
            processes.any(|process| places[*process as usize].is_some())
        };
        let of_kind = of_kind.iter().filter(is_selected);
        for event in of_kind.filter(|_| export.has_phase(phase)) {
            let stopped = event.training_pause_ns.and_then(seconds);
            let values = [
                ("seconds", seconds(event.ns())),
                ("bytes", Some(event.bytes as f64)),
                ("bytes_per_second", event.bandwidth()),
                ("fsync_seconds", seconds(event.sync_ns)),
                ("training_pause_seconds", stopped),
            ];
            put(event.end, phase.name(), &values);
        }
    }
    for epoch in &analysis.epochs.epochs {
        if export.has_phase(Phase::Training) {
            let ns = u64::try_from(epoch.end - epoch.start).unwrap_or(0);
            let values = [
                ("seconds", seconds(ns)),
                ("bytes", Some(epoch.bytes as f64)),
                ("read_seconds", seconds(epoch.read_ns)),
            ];
            put(epoch.end, "epoch", &values);
        }
    }
}

/// Reads and writes of the whole run by size and phase, where the recording has them.
fn access_sizes(export: &Export<'_>) -> Vec<(String, Value)> {
    let mut sums: BTreeMap<&str, Counters> = BTreeMap::new();
    for (_, row) in export.rows() {
        for (phase, counters) in export.counters_by_phase(row) {
            for name in [phase.name(), ALL] {
                sums.entry(name).or_insert(Counters::ZERO).absorb(&counters);
            }
        }
    }
    let mut values = Vec::new();
    for (phase, counters) in sums {
        for (name, first) in [
            ("read_sizes", READ_SIZE_0_100),
            ("write_sizes", WRITE_SIZE_0_100),
        ] {
            let bounds = SIZE_BOUNDS.into_iter().chain([MOST_OF_A_CALL]);
            let counts = bounds.zip(counters.v[first..].iter().copied());
            let histogram = Histogram::of_counts(counts);
            if !histogram.buckets.is_empty() {
                values.push((format!("{name}/{phase}"), Value::Histogram(histogram)));
            }
        }
    }
    values
}
