//! Event files, read by TensorBoard's own reader.

use std::{collections::BTreeMap, fs, path::Path};

use crate::common::{
    compare, directory,
    export::{by_python, environment, export, exported, exported_all, refused, set_host},
    golden::{self, Kept},
    number, text,
};
use serde_json::Value;

/// Curves by tag: wall time, step and value of each point; histograms: step, limits and counts.
fn read(logdir: &Path) -> Value {
    const SCRIPT: &str = r#"
import json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
events = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0, "histograms": 0})
events.Reload()
tags = events.Tags()
print(json.dumps({
    "scalars": {tag: [(e.wall_time, e.step, e.value) for e in events.Scalars(tag)] for tag in tags["scalars"]},
    "histograms": {
        tag: [(e.step, e.histogram_value.bucket_limit, e.histogram_value.bucket, e.histogram_value.max)
              for e in events.Histograms(tag)]
        for tag in tags["histograms"]},
    "first": events.FirstEventTimestamp(),
}))
"#;
    by_python(&environment("tensorboard"), SCRIPT, &[logdir])
}

/// The points of a curve: step and value.
fn curve<'a>(read: &'a Value, tag: &str) -> Vec<(u64, f64)> {
    let points = read["scalars"][tag]
        .as_array()
        .unwrap_or_else(|| panic!("no {tag}"));
    let point = |point: &'a Value| (point[1].as_u64().unwrap(), point[2].as_f64().unwrap());
    points.iter().map(point).collect()
}

#[test]
fn tensorboard_reads_the_recordings_numbers() {
    let (_keep, dir) = directory();
    let finished = golden::kept("epochs");
    let report = finished.report();
    let logdir = dir.join("runs/iotrace");
    exported(
        &finished.recording,
        &["-f", "tensorboard", "-o", logdir.to_str().unwrap()],
    );
    let read = read(&logdir);

    // Every point is what the table of intervals says, as a number of 32 bits.
    let table = exported(&finished.recording, &["-f", "json", "--by", "interval"]);
    let table: Value = serde_json::from_slice(&table).unwrap();
    let mut intervals: BTreeMap<(u64, u64), BTreeMap<&str, [u64; 3]>> = BTreeMap::new();
    let ns = |row: &Value, key: &str| (row[key].as_f64().unwrap().max(0.0) * 1e9).round() as u64;
    for row in compare::list(&table, "rows") {
        let interval = (ns(row, "interval_start"), ns(row, "interval_end"));
        let phases = intervals.entry(interval).or_default();
        for phase in [text(row, "phase"), "all"] {
            let sums = phases.entry(phase).or_default();
            for (sum, name) in sums
                .iter_mut()
                .zip(["bytes_read", "bytes_written", "operations"])
            {
                *sum += number(row, name);
            }
        }
    }
    assert!(intervals.len() > 3);
    let curves = [
        "read_bytes_per_second",
        "written_bytes_per_second",
        "operations_per_second",
    ];
    let mut compared = 0;
    for (index, name) in curves.iter().enumerate() {
        for phase in ["all", "training", "checkpoint"] {
            let mut points = curve(&read, &format!("{name}/{phase}"))
                .into_iter()
                .peekable();
            let mut until = 0;
            for ((start, end), phases) in &intervals {
                let sums = phases.get(phase).copied().unwrap_or_default();
                let start = (*start).max(until);
                until = (*end).max(start + 1);
                if points
                    .peek()
                    .is_some_and(|(step, rate)| *step <= start / 1_000_000 && *rate == 0.0)
                {
                    points.next(); // nothing happened before
                }
                let (step, rate) = points.next().unwrap();
                let expected = sums[index] as f64 / ((until - start) as f64 / 1e9);
                assert_eq!(step, until / 1_000_000);
                assert!(
                    (rate / expected - 1.0).abs() < 1e-5 || (rate, expected) == (0.0, 0.0),
                    "{rate} {expected}"
                );
                compared += 1;
            }
        }
    }
    assert!(compared > 30);
    for phase in ["training", "checkpoint"] {
        let merged: f64 = curve(&read, &format!("merged_seconds/{phase}"))
            .iter()
            .map(|(_, s)| s)
            .sum();
        let reported = report["phases"][phase]["merged_seconds"].as_f64().unwrap();
        assert!(
            (merged / reported - 1.0).abs() < 1e-5,
            "{phase}: {merged} of {reported}"
        );
    }
    let saves = compare::list(&report, "checkpoints");
    assert_eq!(saves.len(), 2);
    for (tag, name) in [
        ("seconds", "seconds"),
        ("bytes", "bytes_written"),
        ("bytes_per_second", "bandwidth_bytes_per_second"),
        ("fsync_seconds", "fsync_seconds"),
    ] {
        let points = curve(&read, &format!("checkpoint/{tag}"));
        assert_eq!(points.len(), saves.len());
        for ((step, value), save) in points.iter().zip(saves) {
            assert_eq!(*value as f32, save[name].as_f64().unwrap() as f32, "{tag}");
            assert_eq!(*step, (save["end"].as_f64().unwrap() * 1e3) as u64);
        }
    }
    assert_eq!(
        curve(&read, "epoch/seconds").len(),
        compare::list(&report, "epochs").len()
    );
    // The time of day, beside the curves of the training program.
    let start = read["first"].as_f64().unwrap();
    let last = &compare::list(&read["scalars"], "read_bytes_per_second/all");
    let last = last.last().unwrap();
    let since = last[0].as_f64().unwrap() - start;
    assert!(
        (since - last[1].as_f64().unwrap() / 1e3).abs() < 0.002,
        "{since}"
    );
    histograms(&read, &report);
}

/// Reads and writes by size are the report's.
fn histograms(read: &Value, report: &Value) {
    for (name, sizes) in [("read_sizes", "read_sizes"), ("write_sizes", "write_sizes")] {
        for phase in ["training", "checkpoint"] {
            let reported = &report["phases"][phase][sizes];
            let found = &read["histograms"][format!("{name}/{phase}")];
            let Some(reported) = reported.as_object() else {
                assert!(found.is_null());
                continue;
            };
            let counts: Vec<f64> = serde_json::from_value(found[0][2].clone()).unwrap();
            let counts: Vec<u64> = counts
                .into_iter()
                .map(|count| count as u64)
                .filter(|count| *count > 0)
                .collect();
            let mut expected: Vec<u64> = reported
                .values()
                .map(|count| count.as_u64().unwrap())
                .filter(|count| *count > 0)
                .collect();
            let mut sorted = counts.clone();
            sorted.sort_unstable();
            expected.sort_unstable();
            assert_eq!(sorted, expected, "{name} of {phase}");
        }
    }
    let training = &read["histograms"]["read_sizes/training"][0];
    assert_eq!(
        training[1].as_array().unwrap().last().unwrap(),
        102_400.0,
        "50,000 bytes a read"
    );
    let by_process = &read["histograms"]["bytes_by_process"];
    assert!(by_process.as_array().unwrap().len() > 2);
}

#[test]
fn nodes_have_curves_of_their_own() {
    let (_keep, dir) = directory();
    let nodes = ["epochs", "large-reads"].map(golden::kept);
    let paths = [&*nodes[0].recording, &*nodes[1].recording];
    let reports: Vec<Value> = nodes.iter().map(Kept::report).collect();
    set_host(paths[0], "gpu-a");
    set_host(paths[1], "gpu-b");
    let file = dir.join("my.tfevents.1");
    exported_all(&paths, &["-f", "tensorboard", "-o", file.to_str().unwrap()]);
    let read = read(&file);
    for (host, report) in ["gpu-a", "gpu-b"].iter().zip(reports) {
        let merged: f64 = curve(&read, &format!("{host}/merged_seconds/checkpoint"))
            .iter()
            .map(|(_, s)| s)
            .sum();
        let reported = report["phases"]["checkpoint"]["merged_seconds"]
            .as_f64()
            .unwrap();
        assert!((merged / reported - 1.0).abs() < 1e-5);
    }
    assert_eq!(curve(&read, "checkpoint/seconds").len(), 2 + 3);
}

#[test]
fn places_that_tensorboard_would_not_look_at_are_made() {
    let (_keep, dir) = directory();
    let finished = golden::kept("nothing");
    let args = ["-f", "tensorboard", "-o", dir.to_str().unwrap()];
    exported(&finished.recording, &args);
    let names: Vec<_> = fs::read_dir(&dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(names.len(), 1);
    assert!(
        names[0]
            .to_str()
            .unwrap()
            .starts_with("events.out.tfevents.")
    );
    refused(
        &export(&finished.recording, &args),
        &["is there already", "--force"],
    );
    let file = dir.join("file");
    fs::write(&file, "mine").unwrap();
    let args = ["-f", "tensorboard", "-o", file.to_str().unwrap()];
    refused(
        &export(&finished.recording, &args),
        &["cannot be made a directory", "tfevents"],
    );
}
