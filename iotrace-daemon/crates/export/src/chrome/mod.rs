//! Chrome's Trace Event format, gzipped: what Perfetto and TensorBoard's trace viewer show.
//!
//! One track for each process, with a lane for each phase: a span from the first operation of each interval of the
//! recording to its last, and counters of bandwidth and of calls in flight. Where the recording has a trace, each of its
//! operations is a span on the lane of its thread; where it has a timeline, each thread has a lane of its states.
//! Checkpoints, loads and epochs are on a track of the job.

mod states;

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, BufWriter, Write},
};

use flate2::{Compression, write::GzEncoder};
use iotrace_common::op;
use serde_json::{Value, json};

use crate::{Export, Interval, operations::Operation};
use iotrace_analysis::{Analysis, saves::Event};
use iotrace_model::{Process, counters::saturating_add, run::rfc3339};
use iotrace_phases::phase::Phase;

/// The track of the job, and the first of its lanes.
const JOB: u64 = 0;
const LANES: [&str; 3] = ["checkpoints", "loads", "epochs"];
/// Linux gives out no larger process ids.
const MOST_PIDS: u64 = 1 << 22;
/// Lanes of threads lie behind those of phases: thread ids from here.
const THREADS: u64 = MOST_PIDS;
/// Lanes of one kind of event, where events overlap.
const MOST_LANES: u64 = 100;

/// The events, each with its moment, nanoseconds since the start of the run.
type Events = Vec<(i64, Value)>;

/// Writes the trace.
pub fn write(export: &Export<'_>, out: impl Write) -> io::Result<()> {
    let intervals = export.intervals();
    let mut events = Events::new();
    spans(export, &intervals, &mut events);
    counters(export, &intervals, &mut events);
    job(export, &export.analysis(), &mut events);
    marks(export, &mut events);
    events.sort_by_key(|(at, _)| *at);

    // JSON comes in small pieces.
    let mut out = BufWriter::new(GzEncoder::new(out, Compression::default()));
    let run = export.run;
    let about = json!({
        "writer": format!("iotrace {}", env!("CARGO_PKG_VERSION")),
        "host": export.hosts(),
        "start_time": rfc3339(run.start_unix_ns),
        "duration_seconds": run.duration_ns as f64 / 1e9,
        "complete": export.complete,
    });
    write!(
        out,
        "{{\"displayTimeUnit\":\"ms\",\"otherData\":{about},\"traceEvents\":["
    )?;
    let mut separator = "\n";
    let tracks = tracks(export, &events);
    for event in tracks.iter().chain(events.iter().map(|(_, event)| event)) {
        out.write_all(separator.as_bytes())?;
        serde_json::to_writer(&mut out, event)?;
        separator = ",\n";
    }
    // They are written as they are read: there may be many.
    let mut written = Ok(());
    let mut put = |event: &Value| {
        if written.is_ok() {
            written = out.write_all(separator.as_bytes());
        }
        if written.is_ok() {
            written = serde_json::to_writer(&mut out, event).map_err(io::Error::from);
        }
    };
    operations(export, &mut put)?;
    states::write(export, &mut put)?;
    written?;
    out.write_all(b"\n]}\n")?;
    out.into_inner()?.finish()?;
    Ok(())
}

/// Names of the tracks and their lanes, in their order.
fn tracks(export: &Export<'_>, events: &Events) -> Vec<Value> {
    let mut lanes: BTreeMap<(u64, u64), String> = BTreeMap::new();
    for (_, event) in events {
        if let (Some(pid), Some(tid)) = (event["pid"].as_u64(), event["tid"].as_u64()) {
            lanes.entry((pid, tid)).or_insert_with(|| match pid {
                JOB => LANES[(tid / MOST_LANES) as usize].to_owned(),
                _ if tid >= THREADS => format!("thread {}", tid - THREADS),
                _ => phase_name(tid as u16),
            });
        }
    }
    let name = |pid: u64, order: usize, name: String| {
        [
            json!({"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}}),
            json!({"ph": "M", "name": "process_sort_index", "pid": pid, "args": {"sort_index": order}}),
        ]
    };
    let mut tracks = name(JOB, 0, "job".into()).to_vec();
    let pids = pids(export);
    for (order, process) in export.processes().enumerate() {
        let comm = export.names.word(&process.about.comm);
        let mut about = String::from_utf8_lossy(&comm).into_owned();
        if export.nodes.len() > 1 {
            about = format!("{about} {} on {}", process.id.pid, export.host(process));
        }
        tracks.extend(name(pids[order], order + 1, about));
    }
    tracks.extend(
        lanes
            .into_iter()
            .map(|(lane, name)| thread_name(lane, &name)),
    );
    tracks
}

/// What was done, by process and phase.
fn spans(export: &Export<'_>, intervals: &[Interval], events: &mut Events) {
    let pids = pids(export);
    let mut ends: BTreeMap<(usize, u16), i64> = BTreeMap::new();
    for interval in intervals {
        for ((place, phase), activity) in &interval.activities {
            // A call that began in the interval before may overlap with what ended there.
            let end_before = ends.entry((*place, *phase)).or_insert(0);
            let start = activity.first.max(*end_before);
            let end = activity.last.max(start);
            *end_before = end;
            let flow = &activity.flow;
            let event = json!({
                "ph": "X",
                "cat": "phase",
                "name": phase_name(*phase),
                "pid": pids[*place],
                "tid": phase,
                "ts": micros(start),
                "dur": micros(end - start),
                "args": {
                    "operations": flow.io.operations,
                    "bytes_read": flow.io.bytes_read,
                    "bytes_written": flow.io.bytes_written,
                    "seconds_in_calls": flow.io.ns as f64 / 1e9,
                },
            });
            events.push((start, event));
        }
    }
}

/// Each operation of the trace, on the lane of its thread.
fn operations(export: &Export<'_>, put: &mut impl FnMut(&Value)) -> io::Result<()> {
    let pids = pids(export);
    let mut lanes = BTreeSet::new();
    let visited = export.each_operation(|operation| {
        let lane = (
            pids[operation.place],
            THREADS + u64::from(operation.traced.tid),
        );
        if lanes.insert(lane) {
            let name = format!("thread {}", operation.traced.tid);
            put(&thread_name(lane, &name));
        }
        put(&span(export, &operation, lane));
    });
    visited.map_err(io::Error::other).map(drop)
}

/// The span of an operation; what it has not is absent.
fn span(export: &Export<'_>, operation: &Operation<'_>, (pid, tid): (u64, u64)) -> Value {
    let traced = operation.traced;
    let mut args = serde_json::Map::new();
    if let Some(row) = operation.row {
        let path = export.names.path(export.model.file(row.file).path);
        args.insert("file".into(), String::from_utf8_lossy(&path).into());
    }
    let numbers = [("offset", traced.offset), ("length", traced.length)];
    for (name, number) in numbers.into_iter().chain([("result", Some(traced.result))]) {
        args.extend(number.map(|number| (name.to_owned(), number.into())));
    }
    json!({
        "ph": "X",
        "cat": "operation",
        "name": op::NAMES.get(traced.op as usize),
        "pid": pid,
        "tid": tid,
        "ts": micros(operation.start),
        "dur": micros(traced.duration),
        "args": args,
    })
}

fn thread_name((pid, tid): (u64, u64), name: &str) -> Value {
    json!({"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": name}})
}

/// Counters of one process: bytes read and written per second, and calls in flight.
type Rates = [f64; 3];

/// Bytes per second and calls in flight by process, in steps of the intervals.
fn counters(export: &Export<'_>, intervals: &[Interval], events: &mut Events) {
    let pids = pids(export);
    let nodes: Vec<u32> = export.processes().map(|process| process.node).collect();
    // Intervals of several nodes overlap, those of one do not.
    for node in 0..export.nodes.len() as u32 {
        let of_node = |place: usize| nodes[place] == node;
        counters_of(intervals, of_node, &pids, events);
    }
}

/// The same of the processes of one node.
fn counters_of(
    intervals: &[Interval],
    of_node: impl Fn(usize) -> bool,
    pids: &[u64],
    events: &mut Events,
) {
    let mut shown: BTreeMap<usize, Rates> = BTreeMap::new();
    let mut until = 0;
    for interval in intervals {
        let mut activities = interval.activities.iter();
        if !activities.any(|((place, _), _)| of_node(*place)) {
            continue;
        }
        let start = interval.start.max(until);
        if until < start {
            step(until, &mut shown, BTreeMap::new(), pids, events);
        }
        let mut sums: BTreeMap<usize, [u64; 3]> = BTreeMap::new();
        let activities = interval.activities.iter();
        for ((place, _), activity) in activities.filter(|((place, _), _)| of_node(*place)) {
            let sum = sums.entry(*place).or_default();
            saturating_add(&mut sum[0], activity.flow.io.bytes_read);
            saturating_add(&mut sum[1], activity.flow.io.bytes_written);
            saturating_add(&mut sum[2], activity.flow.io.ns);
        }
        // Over the time that is drawn: the clocks of two parts may overlap a little.
        let end = interval.end.max(start + 1);
        let ns = (end - start) as f64;
        // Time in calls by time is the number of calls in flight, on average.
        let rates = sums.into_iter().map(|(place, [read, written, in_calls])| {
            let rates = [read as f64 * 1e9, written as f64 * 1e9, in_calls as f64];
            (place, rates.map(|sum| sum / ns))
        });
        step(start, &mut shown, rates.collect(), pids, events);
        until = end;
    }
    step(until, &mut shown, BTreeMap::new(), pids, events);
}

/// Puts down rates that are other than those `shown` before.
fn step(
    at: i64,
    shown: &mut BTreeMap<usize, Rates>,
    rates: BTreeMap<usize, Rates>,
    pids: &[u64],
    events: &mut Events,
) {
    let gone = shown.keys().filter(|place| !rates.contains_key(place));
    let gone: Vec<_> = gone.map(|place| (*place, Rates::default())).collect();
    for (place, rate) in gone.into_iter().chain(rates.clone()) {
        let [read, written, in_flight] = rate;
        let before = shown.get(&place).copied().unwrap_or_default();
        let mut put = |name: &str, args: Value| {
            let event = json!({"ph": "C", "name": name, "pid": pids[place], "ts": micros(at), "args": args});
            events.push((at, event));
        };
        if before[..2] != rate[..2] {
            put(
                "bytes per second",
                json!({"read": read, "written": written}),
            );
        }
        if before[2] != in_flight {
            put("calls in flight", json!({"calls": in_flight}));
        }
    }
    *shown = rates;
}

/// Checkpoints, loads and epochs.
fn job(export: &Export<'_>, analysis: &Analysis, events: &mut Events) {
    let places = export.places();
    let kinds = [
        (0, Phase::Checkpoint, &analysis.checkpoints),
        (1, Phase::Restore, &analysis.restores),
    ];
    for (kind, phase, of_kind) in kinds {
        let is_selected = |event: &&Event| {
            let mut processes = event.processes.iter();
            processes.any(|process| places[*process as usize].is_some())
        };
        let selected = of_kind.iter().filter(is_selected);
        let spans = selected.map(|event| {
            let name = String::from_utf8_lossy(&export.names.path(&event.name)).into_owned();
            let args = json!({
                "files": event.files.len(),
                "bytes": event.bytes,
                "fsync_seconds": event.sync_ns as f64 / 1e9,
                "training_stopped": event.training_stopped,
                "exact": event.is_exact,
            });
            (event.start, event.end, name, args)
        });
        if export.has_phase(phase) {
            lanes(kind, phase.name(), spans, events);
        }
    }
    let epochs = analysis.epochs.epochs.iter().map(|epoch| {
        let args = json!({"files": epoch.files, "bytes_read": epoch.bytes});
        (
            epoch.start,
            epoch.end,
            format!("epoch {}", epoch.number),
            args,
        )
    });
    if export.has_phase(Phase::Training) {
        lanes(2, "epoch", epochs, events);
    }
}

/// Spans of the job, each on the first lane that is free.
fn lanes(
    kind: u64,
    category: &str,
    spans: impl Iterator<Item = (i64, i64, String, Value)>,
    events: &mut Events,
) {
    let mut ends: Vec<i64> = Vec::new();
    for (start, end, name, args) in spans {
        let (start, end) = (start.max(0), end.max(start.max(0)));
        let free = ends.iter().position(|end| *end <= start);
        let lane = free.unwrap_or(ends.len());
        match free {
            Some(lane) => ends[lane] = end,
            None => ends.push(end),
        }
        let event = json!({
            "ph": "X",
            "cat": category,
            "name": name,
            "pid": JOB,
            "tid": kind * MOST_LANES + (lane as u64).min(MOST_LANES - 1),
            "ts": micros(start),
            "dur": micros(end - start),
            "args": args,
        });
        events.push((start, event));
    }
}

/// Ranges and moments that programs marked, on the lanes of their threads.
fn marks(export: &Export<'_>, events: &mut Events) {
    let (pids, places) = (pids(export), export.places());
    for range in export.model.libraries().ranges() {
        let (Some(place), Some(end)) = (places[range.process as usize], range.end) else {
            continue;
        };
        let start = export.moment(range.start);
        let name = export.names.word(&range.name);
        let mut event = json!({
            "cat": "mark",
            "name": String::from_utf8_lossy(&name),
            "pid": pids[place],
            "tid": THREADS + u64::from(range.tid),
            "ts": micros(start),
        });
        if range.is_mark {
            (event["ph"], event["s"]) = ("i".into(), "t".into());
        } else {
            (event["ph"], event["dur"]) = ("X".into(), micros(export.moment(end) - start).into());
            event["args"] = json!({
                "operations": range.done.operations,
                "bytes_read": range.done.bytes_read,
                "bytes_written": range.done.bytes_written,
                "seconds_in_calls": range.done.ns as f64 / 1e9,
            });
        }
        events.push((start, event));
    }
}

/// The number of each process's track: its process id, or one beyond all process ids where another process has it, on
/// another node or before its time.
fn pids(export: &Export<'_>) -> Vec<u64> {
    let mut taken = BTreeSet::new();
    let free = |process: &Process| {
        let pid = u64::from(process.id.pid);
        let mut numbers = (0..).map(|turn| pid + turn * MOST_PIDS);
        numbers.find(|number| taken.insert(*number))
    };
    export.processes().map_while(free).collect()
}

fn phase_name(code: u16) -> String {
    if code == 0 {
        return "no open file".into();
    }
    let phase = Phase::from_code(code);
    match phase.class() {
        Some(class) => format!("{} ({})", phase.name(), class.name()),
        None => phase.name().into(),
    }
}

fn micros(ns: i64) -> f64 {
    ns as f64 / 1e3
}
