//! Exports against the report of the same recording, read by readers that are not ours.

mod common;

use std::{
    collections::BTreeMap,
    fs,
    io::Read as _,
    path::{Path, PathBuf},
    process::Command,
};

use common::{
    Iotrace, compare, directory,
    export::{by_pydarshan, by_python, environment, export, exported, refused},
    number, python,
    run::Finished,
    text,
};
use serde_json::Value;

/// Files of several phases, with names that no format likes, used by two processes.
const PROGRAM: &str = r#"
import os, sys
root = os.fsencode(sys.argv[1])
data = root + b"/data/train"
for path in (data, root + b"/checkpoints"):
    os.makedirs(path)
def write(path, sizes):
    with open(path, "wb", buffering=0) as file:
        for size in sizes:
            file.write(b"x" * size)
        os.fsync(file.fileno())
def read(path, size):
    fd = os.open(path, os.O_RDONLY)
    while os.read(fd, size):
        pass
    os.close(fd)
names = [b"plain.npy", b"a,\"b\"\n c.npy", b"\xff\xfe.npy", b"=1+1.npy", "\u00e4\u20ac.npy".encode()]
for index, name in enumerate(names):
    write(data + b"/" + name, [4096] * 3 + [1000 * (index + 1)])
write(root + b"/checkpoints/step_100.pt", [1 << 20] * 3)
if os.fork() == 0:
    for name in names:
        read(data + b"/" + name, 1000)
    read(root + b"/checkpoints/step_100.pt", 300000)
    os._exit(0)
os.wait()
"#;

/// Runs the program under iotrace, with many flushes.
fn record(dir: &Path, args: &[&str]) -> Finished {
    fs::create_dir_all(dir).unwrap();
    let program = dir.join("program.py");
    fs::write(&program, PROGRAM).unwrap();
    let finished = Iotrace::record().flush("50ms").args(args).command([
        python().as_path(),
        &program,
        &dir.join("work"),
    ]);
    assert_eq!(finished.code(), 0, "{}", finished.stderr);
    finished
}

fn gunzipped(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    flate2::read::GzDecoder::new(bytes)
        .read_to_end(&mut out)
        .unwrap();
    out
}

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
    let (_keep, dir) = directory();
    let finished = record(&dir, &[]);
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
    let finished = record(&dir, &[]);
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
    let (_keep, dir) = directory();
    let finished = record(&dir, &[]);
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
    let (_keep, dir) = directory();
    let finished = record(&dir, &[]);
    let report = finished.report();
    let restore = json_rows(&finished.recording, &["--phase", "restore"]);
    let [row] = &restore[..] else {
        panic!("{restore:?}");
    };
    assert_eq!(number(row, "bytes_read"), 3 << 20);
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
    let finished = record(&dir, &[]);
    let host = finished.report()["host"].as_str().unwrap().to_owned();
    let rows = json_rows(&finished.recording, &["--anonymize"]);
    let plain = json_rows(&finished.recording, &[]);
    let names: Vec<_> = dir
        .to_str()
        .unwrap()
        .split('/')
        .filter(|name| name.len() > 3)
        .collect();
    let tell: Vec<&str> = [
        &["npy", "step_100", "checkpoints", "python", "program"],
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

/// A counter of the report and what Darshan calls it, where it is the same.
const SAME: [(&str, &str); 20] = [
    ("dups", "POSIX_DUPS"),
    ("reads", "POSIX_READS"),
    ("writes", "POSIX_WRITES"),
    ("seeks", "POSIX_SEEKS"),
    ("stats", "POSIX_STATS"),
    ("mmaps", "POSIX_MMAPS"),
    ("fsyncs", "POSIX_FSYNCS"),
    ("fdatasyncs", "POSIX_FDSYNCS"),
    ("create_mode", "POSIX_MODE"),
    ("bytes_read", "POSIX_BYTES_READ"),
    ("bytes_written", "POSIX_BYTES_WRITTEN"),
    ("max_byte_read", "POSIX_MAX_BYTE_READ"),
    ("max_byte_written", "POSIX_MAX_BYTE_WRITTEN"),
    ("consecutive_reads", "POSIX_CONSEC_READS"),
    ("consecutive_writes", "POSIX_CONSEC_WRITES"),
    ("sequential_reads", "POSIX_SEQ_READS"),
    ("sequential_writes", "POSIX_SEQ_WRITES"),
    ("read_write_switches", "POSIX_RW_SWITCHES"),
    ("file_unaligned", "POSIX_FILE_NOT_ALIGNED"),
    ("slowest_read_bytes", "POSIX_MAX_READ_TIME_SIZE"),
];

const SAME_TIMES: [(&str, &str); 9] = [
    ("merged_read_seconds", "POSIX_F_READ_TIME"),
    ("merged_write_seconds", "POSIX_F_WRITE_TIME"),
    ("merged_meta_seconds", "POSIX_F_META_TIME"),
    ("slowest_read_seconds", "POSIX_F_MAX_READ_TIME"),
    ("first_open_at", "POSIX_F_OPEN_START_TIMESTAMP"),
    ("first_write_at", "POSIX_F_WRITE_START_TIMESTAMP"),
    ("last_open_at", "POSIX_F_OPEN_END_TIMESTAMP"),
    ("last_read_at", "POSIX_F_READ_END_TIMESTAMP"),
    ("last_close_at", "POSIX_F_CLOSE_END_TIMESTAMP"),
];

#[test]
fn pydarshan_reads_the_recordings_numbers() {
    let (_keep, dir) = directory();
    let finished = record(&dir, &[]);
    let report = finished.report();
    let log = dir.join("log.darshan");
    exported(
        &finished.recording,
        &["-f", "darshan", "-o", log.to_str().unwrap()],
    );
    let read = by_pydarshan(&log);
    let records = compare::list(&read, "records");
    let files: Vec<_> = compare::list(&report, "files")
        .iter()
        .filter(|row| text(row, "type") == "regular")
        .collect();
    assert_eq!(records.len(), files.len());
    let mut pids: Vec<u64> = files.iter().map(|row| number(row, "pid")).collect();
    pids.dedup();
    assert_eq!(read["job"]["nprocs"], pids.len());
    assert!(text(&read, "exe").contains("program.py"), "{}", read["exe"]);
    let job = &read["job"]["metadata"];
    assert!(text(job, "lib_ver").starts_with("iotrace "), "{job}");
    let listed: Vec<String> = pids.iter().map(u64::to_string).collect();
    assert_eq!(text(job, "pids"), listed.join(","));
    for row in files {
        let name = text(row, "path")
            .replace('\n', "%0A")
            .replace("\u{fffd}\u{fffd}", "%FF%FE");
        let rank = pids
            .iter()
            .position(|pid| *pid == number(row, "pid"))
            .unwrap();
        let found = records
            .iter()
            .find(|record| text(record, "name") == name && record["rank"] == rank);
        let record = found.unwrap_or_else(|| panic!("no record of {name} and rank {rank}"));
        for (ours, darshans) in SAME {
            assert_eq!(
                number(record, darshans),
                number(row, ours),
                "{darshans} of {name}"
            );
        }
        assert_eq!(
            number(record, "POSIX_OPENS"),
            number(row, "opens") + number(row, "dups")
        );
        for (ours, darshans) in SAME_TIMES {
            assert_eq!(
                record[darshans].as_f64(),
                Some(row[ours].as_f64().unwrap_or(0.0)),
                "{darshans} of {name}"
            );
        }
        for (kind, sizes) in [("READ", "read_sizes"), ("WRITE", "write_sizes")] {
            for (bucket, calls) in row[sizes].as_object().into_iter().flatten() {
                let name = format!("POSIX_SIZE_{kind}_{}", bucket.to_uppercase());
                assert_eq!(&record[&name], calls, "{name}");
            }
        }
        for (rank, size) in row["access_sizes"]
            .as_array()
            .into_iter()
            .flatten()
            .enumerate()
        {
            assert_eq!(
                record[format!("POSIX_ACCESS{}_ACCESS", rank + 1)],
                size["size"]
            );
            assert_eq!(
                record[format!("POSIX_ACCESS{}_COUNT", rank + 1)],
                size["count"]
            );
        }
    }
    // All bytes are in the heat map, whatever its bins are.
    assert_eq!(read["heat"]["read"], report["totals"]["bytes_read"]);
    assert_eq!(read["heat"]["write"], report["totals"]["bytes_written"]);
    let html = dir.join("summary.html");
    let out = Command::new(environment("darshan"))
        .args(["-m", "darshan", "summary", "--output"])
        .args([&html, &log])
        .current_dir(&dir)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&out.stderr);
    assert!(
        out.status.success() && !errors.contains("Error"),
        "{errors}"
    );
    let summary = fs::read_to_string(&html).unwrap();
    assert!(summary.contains("Heat Map: HEATMAP POSIX"));
}

#[test]
fn records_beyond_the_most_are_folded_by_directory() {
    let (_keep, dir) = directory();
    let finished = record(&dir, &[]);
    let report = finished.report();
    let log = dir.join("log.darshan");
    exported(
        &finished.recording,
        &[
            "-f",
            "darshan",
            "--max-records",
            "8",
            "-o",
            log.to_str().unwrap(),
        ],
    );
    let read = by_pydarshan(&log);
    let records = compare::list(&read, "records");
    let sum = |name: &str| -> u64 { records.iter().map(|record| number(record, name)).sum() };
    for (ours, darshans) in [
        ("bytes_read", "POSIX_BYTES_READ"),
        ("bytes_written", "POSIX_BYTES_WRITTEN"),
    ] {
        assert_eq!(sum(darshans), number(&report["totals"], ours));
    }
    assert!(records.len() <= 8, "{}", records.len());
    assert!(
        records
            .iter()
            .any(|record| text(record, "name").ends_with("/*"))
    );
    assert!(
        records
            .iter()
            .any(|record| text(record, "name").ends_with("/step_100.pt"))
    );
    let folded: u64 = text(&read["job"]["metadata"], "folded_files")
        .parse()
        .unwrap();
    assert!(folded > 5, "{folded}");
}

#[test]
fn a_darshan_log_needs_detail_full_and_files() {
    let (_keep, dir) = directory();
    let finished = record(&dir, &["--detail", "basic"]);
    let out = export(&finished.recording, &["-f", "darshan"]);
    refused(&out, &["detail basic", "--detail full"]);
    assert!(out.stdout.is_empty());
    let finished = record(&dir.join("more"), &[]);
    let out = export(&finished.recording, &["-f", "darshan", "--phase", "log"]);
    refused(&out, &["no selected process used a file"]);
}

#[test]
fn a_trace_has_every_process_and_phase() {
    let (_keep, dir) = directory();
    let finished = record(&dir, &[]);
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
    assert_eq!((saves.len(), reported.len()), (1, 1));
    assert_eq!(saves[0]["args"]["bytes"], reported[0]["bytes_written"]);
    assert!((at(saves[0], "dur") / 1e6 - reported[0]["seconds"].as_f64().unwrap()).abs() < 1e-6);
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

#[test]
fn bad_input_is_named() {
    let (_keep, dir) = directory();
    let finished = Iotrace::record().command(["true"]);
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
