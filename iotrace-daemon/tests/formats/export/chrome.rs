//! Trace events against the report of the same recording.

use std::{collections::BTreeMap, path::Path};

use serde_json::Value;

use super::json_rows;
use crate::common::{
    compare, directory,
    export::{by_python, exported},
    golden, number, python, text,
};

#[test]
fn a_trace_has_every_process_and_phase() {
    let (_keep, dir) = directory();
    let finished = golden::kept("files");
    let report = finished.report();
    let trace = dir.join("trace.json.gz");
    exported(
        &finished.recording,
        &["-f", "chrome", "-o", trace.to_str().unwrap()],
    );
    const SCRIPT: &str =
        "import gzip, sys; print(gzip.open(sys.argv[1], 'rt', encoding='utf-8').read())";
    let read = by_python(&python(), SCRIPT, &[&trace]);
    let events = compare::list(&read, "traceEvents");
    let of =
        |kind: &str| -> Vec<&Value> { events.iter().filter(|event| event["ph"] == kind).collect() };
    let at = |event: &Value, key: &str| event[key].as_f64().unwrap_or_else(|| panic!("{event}"));
    // Names of the tracks come first, then all else in the order of time.
    let timed: Vec<f64> = events
        .iter()
        .skip_while(|event| event["ph"] == "M")
        .map(|event| at(event, "ts"))
        .collect();
    assert!(timed.len() > 10 && timed.is_sorted() && timed[0] >= 0.0);
    let end = report["duration_seconds"].as_f64().unwrap() * 1e6;
    let spans = of("X");
    let mut lanes: BTreeMap<(u64, u64), f64> = BTreeMap::new();
    for span in &spans {
        let (start, duration) = (at(span, "ts"), at(span, "dur"));
        assert!(
            duration >= 0.0 && start + duration <= end + 1e3,
            "{span} in a run of {end}"
        );
        let before = lanes
            .entry((number(span, "pid"), number(span, "tid")))
            .or_insert(0.0);
        assert!(start >= *before - 1e-3, "{span} begins before {before}");
        *before = start + duration;
    }
    let names = of("M");
    for process in compare::list(&report, "processes") {
        let pid = number(process, "pid");
        let named =
            |event: &&&Value| event["name"] == "process_name" && number(event, "pid") == pid;
        assert_eq!(
            names.iter().find(named).unwrap()["args"]["name"],
            process["comm"]
        );
        let of_process = spans.iter().filter(|span| number(span, "pid") == pid);
        for name in ["operations", "bytes_read", "bytes_written"] {
            let sum: u64 = of_process
                .clone()
                .map(|span| number(&span["args"], name))
                .sum();
            if name != "operations" {
                assert_eq!(sum, number(&process["totals"], name), "{name} of {pid}");
            }
            assert!(sum > 0 || name != "operations");
        }
    }
    spans_are_intervals(&finished.recording, &spans);
    let saves: Vec<_> = spans
        .iter()
        .filter(|span| span["cat"] == "checkpoint")
        .collect();
    let reported = compare::list(&report, "checkpoints");
    assert_eq!((saves.len(), reported.len()), (2, 2));
    for (save, reported) in saves.into_iter().zip(reported) {
        assert_eq!(save["args"]["bytes"], reported["bytes_written"]);
        assert!((at(save, "dur") / 1e6 - reported["seconds"].as_f64().unwrap()).abs() < 1e-6);
    }
    // The area below the counters is what was moved, and the time in calls.
    let mut moved: BTreeMap<(u64, String), (f64, f64, f64)> = BTreeMap::new();
    for counter in of("C") {
        for (name, value) in counter["args"].as_object().unwrap() {
            let key = (number(counter, "pid"), name.clone());
            let (sum, rate, since) = moved.entry(key).or_default();
            *sum += *rate * (at(counter, "ts") - *since) / 1e6;
            (*rate, *since) = (value.as_f64().unwrap(), at(counter, "ts"));
        }
    }
    assert!(
        moved.values().all(|(_, rate, _)| *rate == 0.0),
        "they end at 0"
    );
    let seconds = [
        "read_seconds",
        "write_seconds",
        "meta_seconds",
        "sync_seconds",
        "failed_seconds",
    ];
    let in_calls = seconds.map(|name| report["totals"][name].as_f64().unwrap_or(0.0));
    for (counter, total) in [
        ("written", number(&report["totals"], "bytes_written") as f64),
        ("read", number(&report["totals"], "bytes_read") as f64),
        ("calls", in_calls.iter().sum()),
    ] {
        let of_counter = moved.iter().filter(|((_, name), _)| name == counter);
        let area: f64 = of_counter.map(|(_, (sum, ..))| sum).sum();
        assert!(
            (area / total - 1.0).abs() < 0.01,
            "{counter}: {area} of {total}"
        );
    }
}

/// A span has what the table of intervals has in a row.
#[track_caller]
fn spans_are_intervals(recording: &Path, spans: &[&Value]) {
    let rows = json_rows(recording, &["--by", "interval"]);
    let mut expected: Vec<String> = Vec::new();
    for row in &rows {
        let numbers = ["operations", "bytes_read", "bytes_written"].map(|name| number(row, name));
        let class = row["class"].as_str().map(|class| format!(" ({class})"));
        let phase = row["phase"].as_str().unwrap_or("no open file");
        let phase = format!("{phase}{}", class.unwrap_or_default());
        expected.push(format!("{} {phase} {numbers:?}", number(row, "pid")));
    }
    let mut found: Vec<String> = Vec::new();
    for span in spans.iter().filter(|span| span["cat"] == "phase") {
        let numbers =
            ["operations", "bytes_read", "bytes_written"].map(|name| number(&span["args"], name));
        let (pid, phase) = (number(span, "pid"), text(span, "name"));
        found.push(format!("{pid} {phase} {numbers:?}"));
    }
    expected.sort();
    found.sort();
    assert_eq!(found, expected);
}
