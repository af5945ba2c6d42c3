//! Exports against the report of the same recording, read by readers that are not ours.

mod chrome;
mod darshan;

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::common::{
    compare, directory,
    export::{by_pydarshan, by_python, export, exported, gunzipped, refused},
    golden, number, python, text,
};
use serde_json::Value;

/// A table as JSON.
#[track_caller]
fn json_rows(recording: &Path, args: &[&str]) -> Vec<Value> {
    let args = [&["--format", "json"], args].concat();
    let table: Value = serde_json::from_slice(&exported(recording, &args)).unwrap();
    assert_eq!(table["format_version"], 1);
    table["rows"].as_array().unwrap().clone()
}

/// Fails unless a row of a table has every counter that the report's object has, and the same.
#[track_caller]
fn same_counters(row: &Value, reported: &Value) -> usize {
    let mut compared = 0;
    for (name, value) in reported.as_object().unwrap() {
        if value.is_number() && !["pid", "size", "generation"].contains(&name.as_str()) {
            assert_eq!(&row[name], value, "{name} of {reported}");
            compared += 1;
        }
    }
    for (kind, sizes) in [("read", "read_sizes"), ("write", "write_sizes")] {
        for (bucket, calls) in reported[sizes].as_object().into_iter().flatten() {
            assert_eq!(&row[format!("{kind}_size_{bucket}")], calls);
            compared += 1;
        }
    }
    for (rank, size) in reported["access_sizes"]
        .as_array()
        .into_iter()
        .flatten()
        .enumerate()
    {
        assert_eq!(row[format!("access_size_{}_bytes", rank + 1)], size["size"]);
        assert_eq!(
            row[format!("access_size_{}_calls", rank + 1)],
            size["count"]
        );
        compared += 1;
    }
    compared
}

#[test]
fn tables_of_files_are_the_report() {
    let finished = golden::kept("files");
    let report = finished.report();
    let rows = json_rows(&finished.recording, &[]);
    let of_files: Vec<_> = rows.iter().filter(|row| row["place"] == "file").collect();
    let reported = compare::list(&report, "files");
    assert_eq!(of_files.len(), reported.len());
    let mut compared = 0;
    for (row, reported) in of_files.iter().zip(reported) {
        for key in [
            "pid",
            "path",
            "path_hex",
            "device",
            "inode",
            "mount_point",
            "phase",
            "phase_read",
        ] {
            assert_eq!(row[key], reported[key], "{key} of {reported}");
        }
        compared += same_counters(row, reported);
    }
    assert!(compared > 500, "{compared}");
    let mut sums = compare::Counts::default();
    for row in &rows {
        for name in compare::COUNTERS {
            sums.add(name, number(row, name));
        }
    }
    let mut totals = compare::Counts::of(&report["totals"]);
    totals.errors.clear();
    totals.errors_by_operation.clear();
    assert_eq!(totals.difference(&sums), "", "all rows are the totals");
}

#[test]
fn csv_is_read_by_another_reader() {
    let (_keep, dir) = directory();
    let finished = golden::kept("files");
    for by in ["file", "interval"] {
        let csv = dir.join(by);
        exported(
            &finished.recording,
            &["-f", "csv", "--by", by, "-o", csv.to_str().unwrap()],
        );
        const SCRIPT: &str = "import csv, json, sys\n\
            rows = list(csv.DictReader(open(sys.argv[1], newline='', encoding='utf-8'), strict=True))\n\
            assert all(None not in row and None not in row.values() for row in rows)\n\
            print(json.dumps(rows))";
        let read = by_python(&python(), SCRIPT, &[&csv]);
        let read = read.as_array().unwrap();
        let rows = json_rows(&finished.recording, &["--by", by]);
        assert_eq!(read.len(), rows.len());
        for (read, row) in read.iter().zip(&rows) {
            for (name, field) in read.as_object().unwrap() {
                let field = field.as_str().unwrap();
                let same = match &row[name] {
                    Value::Null => field.is_empty(),
                    Value::String(text) => field == text,
                    Value::Bool(flag) => field == flag.to_string(),
                    number => field.parse::<f64>().ok() == number.as_f64(),
                };
                assert!(same, "{name} is {field} and {}", row[name]);
            }
        }
        assert!(
            by == "interval"
                || rows
                    .iter()
                    .any(|row| text(row, "path").contains("a,\"b\"\n c"))
        );
    }
}

#[test]
fn intervals_add_up_to_the_phases() {
    let finished = golden::kept("files");
    let report = finished.report();
    let rows = json_rows(&finished.recording, &["--by", "interval"]);
    let sum = |name: &str, phase: &str| -> u64 {
        let of_phase = rows.iter().filter(|row| text(row, "phase") == phase);
        of_phase.map(|row| number(row, name)).sum()
    };
    for (phase, reported) in report["phases"].as_object().unwrap() {
        for name in ["bytes_read", "bytes_written"] {
            assert_eq!(
                sum(name, phase),
                number(reported, name),
                "{name} of {phase}"
            );
        }
    }
    assert!(sum("bytes_written", "checkpoint") >= 3 << 20);
    let duration = report["duration_seconds"].as_f64().unwrap();
    let mut before = -1.0; // the first interval begins with the recorder, before the run
    for row in &rows {
        let [start, end] = ["interval_start", "interval_end"].map(|key| row[key].as_f64().unwrap());
        assert!(
            before <= start && start < end && end <= duration + 0.001,
            "{row}"
        );
        before = start;
    }
}

#[test]
fn a_selection_is_that_part_and_no_more() {
    let finished = golden::kept("files");
    let report = finished.report();
    assert!(json_rows(&finished.recording, &["--phase", "restore"]).is_empty());
    let other = json_rows(&finished.recording, &["--phase", "other"]);
    let row = other
        .iter()
        .find(|row| number(row, "bytes_read") == 3 << 20);
    let row = row.expect("what a child reads of its parent's save");
    assert!(other.iter().all(|row| row["phase"] == "other"));
    let (reader, writer) = (number(row, "pid"), number(&report["processes"][0], "pid"));
    assert_ne!(reader, writer);
    let rows = json_rows(&finished.recording, &["--process", &reader.to_string()]);
    assert!(rows.len() > 5 && rows.iter().all(|row| number(row, "pid") == reader));
    let totals = &compare::process(&report, reader)["totals"];
    let bytes: u64 = rows.iter().map(|row| number(row, "bytes_read")).sum();
    assert_eq!(bytes, number(totals, "bytes_read"));
}

#[test]
fn anonymous_exports_name_nothing() {
    let (_keep, dir) = directory();
    let finished = golden::kept("files");
    let host = finished.report()["host"].as_str().unwrap().to_owned();
    let rows = json_rows(&finished.recording, &["--anonymize"]);
    let plain = json_rows(&finished.recording, &[]);
    let names: Vec<_> = finished
        .place
        .to_str()
        .unwrap()
        .split('/')
        .filter(|name| name.len() > 3)
        .collect();
    let tell: Vec<&str> = [
        &["npy", "step_100", "checkpoints", "python", "files.py"],
        &names[..],
    ]
    .concat();
    for format in ["csv", "json"] {
        let out = exported(&finished.recording, &["--anonymize", "-f", format]);
        let out = String::from_utf8(out).unwrap();
        for word in tell.iter().chain([&host.as_str()]) {
            assert!(!out.contains(word), "{format} tells {word}");
        }
    }
    // What is compressed is looked into by its reader.
    let log = dir.join("log.darshan");
    let place = log.to_str().unwrap();
    exported(
        &finished.recording,
        &["--anonymize", "-f", "darshan", "-o", place],
    );
    let trace = exported(&finished.recording, &["--anonymize", "-f", "chrome"]);
    let trace = String::from_utf8(gunzipped(&trace)).unwrap();
    let events = exported(&finished.recording, &["--anonymize", "-f", "tensorboard"]);
    let events = String::from_utf8_lossy(&events).into_owned();
    for (format, out) in [
        ("darshan", by_pydarshan(&log).to_string()),
        ("chrome", trace),
        ("tensorboard", events),
    ] {
        // Names of phases are not the user's.
        let tell = tell.iter().filter(|word| **word != "checkpoints");
        for word in tell.chain([&host.as_str()]).filter(|word| word.len() > 3) {
            assert!(!out.contains(word), "{format} tells {word}");
        }
    }
    let file = |rows: &[Value], name: &str| -> Vec<String> {
        let of = rows
            .iter()
            .zip(&plain)
            .filter(|(_, plain)| text(plain, "path").ends_with(name));
        of.map(|(row, _)| text(row, "path").to_owned()).collect()
    };
    // Rows are in the same order, since processes are; the same file has the same name in both processes.
    let hidden = file(&rows, "/plain.npy");
    assert_eq!(hidden.len(), 2);
    assert_eq!(hidden[0], hidden[1]);
    assert_ne!(hidden, file(&plain, "/plain.npy"));
}

#[test]
fn bad_input_is_named() {
    let (_keep, dir) = directory();
    let finished = golden::kept("nothing");
    let recording: &PathBuf = &finished.recording;
    let there = dir.join("there.csv");
    fs::write(&there, "mine").unwrap();
    let there_text = there.to_str().unwrap();
    let csv = |args: &[&str]| export(recording, &[&["-f", "csv"], args].concat());
    refused(&csv(&["-o", there_text]), &["there.csv", "--force"]);
    assert_eq!(fs::read(&there).unwrap(), b"mine");
    assert!(csv(&["-o", there_text, "--force"]).status.success());
    assert!(fs::read(&there).unwrap().starts_with(b"host,"));
    assert_eq!(
        fs::read_dir(&dir).unwrap().count(),
        1,
        "nothing is left behind"
    );
    refused(&csv(&["-o", dir.to_str().unwrap()]), &["is a directory"]);
    let nowhere = dir.join("no/where.csv");
    refused(
        &csv(&["-o", nowhere.to_str().unwrap()]),
        &["no/where.csv", "No such file"],
    );
    refused(&csv(&["-o", "/dev/full"]), &["/dev/full", "No space left"]);
    refused(
        &csv(&["--phase", "save"]),
        &["\"save\"", "iotrace phases list"],
    );
    refused(&csv(&["--process", "999999999"]), &["no process 999999999"]);
    refused(&export(recording, &["-f", "xlsx"]), &["xlsx", "csv"]);
    refused(&export(&dir, &["-f", "csv"]), &["is no recording"]);
    let table = recording.join("part-000001/files.parquet");
    let whole = fs::read(&table).unwrap();
    fs::write(&table, &whole[..whole.len() / 2]).unwrap();
    let half = dir.join("half.csv");
    refused(
        &csv(&["-o", half.to_str().unwrap()]),
        &["files.parquet", "damaged"],
    );
    assert!(!half.exists(), "half an export");
}
