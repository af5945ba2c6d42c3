//! Exports of large recordings: 300,000 files with odd names, many intervals, and exports that are interrupted.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    os::unix::{fs::MetadataExt as _, process::ExitStatusExt as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use super::export_trace::darshan;
use crate::common::{
    self, compare, directory,
    export::{by_python, environment, exported},
    made, number, python, text,
};
use iotrace_common::{
    key::{FileId, IoKey},
    op,
    trace::Operation,
};
use iotrace_model::{
    Model,
    counters::*,
    input::{Place, ProcessId},
    run::Run,
};
use iotrace_recording::{Directory, Recorder, trace::TraceWriter};
use serde_json::Value;

const SECOND: u64 = 1_000_000_000;
const FILES: u64 = 300_000;
/// Bytes read of each file: its number, and this.
const LEAST: u64 = 1000;

/// Names that no format likes.
const ODD: [&[u8]; 8] = [
    b"new\nline",
    b"re\rturn",
    b"\"quoted\", and so on",
    b"=HYPERLINK(\"x\")",
    b"\xff\xfe not UTF-8",
    b"\x1b[31mred\x07",
    "\u{202e}gpj.\u{e4}\u{1f600}".as_bytes(),
    b"%41 %s \\0 <b>&amp;",
];

fn run() -> Run {
    made::run("gpu-1", 1_699_999_900, 1000)
}

fn file(index: u64) -> FileId {
    FileId {
        device: 8 << 20 | 1,
        generation: 1,
        inode: 1000 + index,
    }
}

fn read(model: &mut Model, pid: u32, index: u64, at: u64) {
    let mut path = format!("/data/train/{}/{index}.", index % 1000).into_bytes();
    path.extend(ODD[index as usize % ODD.len()]);
    let file = file(index);
    model.event(made::seen(file, path, LEAST + index));
    let mut counters = Counters::ZERO;
    let start = (100 + at) * SECOND;
    for (counter, value) in [
        (OPENS, 1),
        (READS, 1),
        (CLOSES, 1),
        (BYTES_READ, LEAST + index),
        (READ_NS, 1000 + index % 977),
        (FIRST_OPERATION, start),
        (LAST_OPERATION, start + SECOND / 2),
    ] {
        counters.v[counter] = value;
    }
    model.add(ProcessId { pid, start: 7 }, Place::File(file), &counters);
}

/// A recording of two processes with so many files in all, in so many parts that each have all of them.
fn record(directory: &Path, files: u64, parts: u64) {
    let mut model = Model::with_history();
    model.update_mounts(b"1 1 8:1 / / rw - ext4 /dev/sda1 rw\n");
    let mut run = run();
    let mut recorder = Recorder::create(directory, &run).unwrap();
    for part in 0..parts {
        for index in 0..files {
            read(&mut model, 100 + (index % 2) as u32, index, part);
        }
        run.duration_ns = (part + 1) * SECOND;
        recorder.flush(&mut model, &run).unwrap();
    }
    recorder.finish(&mut model, &run).unwrap();
}

/// Exports, and how much memory it took at most, bytes. (What wait4(2) tells would be that of the test, from before the
/// exec.)
fn peak(recording: &Path, args: &[&str]) -> u64 {
    most(recording, args, "VmHWM:")
}

/// Exports, and the most that a line of its status said while it ran, bytes.
fn most(recording: &Path, args: &[&str], line: &str) -> u64 {
    let mut child = Command::new(env!("CARGO_BIN_EXE_iotrace"))
        .arg("export")
        .arg(recording)
        .args(args)
        .env("TMPDIR", "/var/tmp")
        .spawn()
        .unwrap();
    let status = format!("/proc/{}/status", child.id());
    let mut most = 0;
    loop {
        let text = fs::read_to_string(&status).unwrap_or_default();
        let now = text
            .lines()
            .find_map(|said| said.strip_prefix(line)?.split_whitespace().next());
        most = most.max(now.map_or(0, |kib| kib.parse::<u64>().unwrap()) << 10);
        if let Some(status) = child.try_wait().unwrap() {
            assert!(status.success());
            return most;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn every_one_of_300_000_files_is_in_every_format() {
    let (_keep, dir) = directory();
    let recording = dir.join("recording");
    record(&recording, FILES, 1);
    let total: u64 = (0..FILES).map(|index| LEAST + index).sum();
    let csv = dir.join("files.csv");
    let memory = peak(&recording, &["-f", "csv", "-o", csv.to_str().unwrap()]);
    println!("csv: {} MiB", memory >> 20);
    assert!(memory < 300 << 20, "{} MiB", memory >> 20);
    const CSV: &str = "import csv, json, sys\n\
        rows = list(csv.DictReader(open(sys.argv[1], newline='', encoding='utf-8'), strict=True))\n\
        names = {bytes.fromhex(row['path_hex']) if row['path_hex'] else row['path'].encode() for row in rows}\n\
        print(json.dumps([len(rows), len(names), sum(int(row['bytes_read']) for row in rows)]))";
    let found = by_python(&python(), CSV, &[&csv]);
    assert_eq!(found, serde_json::json!([FILES, FILES, total]));

    // On a terminal a line says how far it is.
    const TERMINAL: &str = "import os, pty, sys\npty.spawn(sys.argv[1:])";
    let out = Command::new(python())
        .args(["-c", TERMINAL, env!("CARGO_BIN_EXE_iotrace"), "export"])
        .arg(&recording)
        .args(["-f", "csv", "--force", "-o", csv.to_str().unwrap()])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&out.stdout);
    assert!(
        said.contains("writing ") && said.ends_with("\r\x1b[K"),
        "{said:?}"
    );

    let json = dir.join("files.json");
    exported(&recording, &["-f", "json", "-o", json.to_str().unwrap()]);
    const JSON: &str = "import json, sys\n\
        rows = json.load(open(sys.argv[1]))['rows']\n\
        print(json.dumps([len(rows), sum(row['bytes_read'] for row in rows)]))";
    let found = by_python(&python(), JSON, &[&json]);
    assert_eq!(found, serde_json::json!([FILES, total]));

    let log = dir.join("log.darshan");
    let memory = peak(&recording, &["-f", "darshan", "-o", log.to_str().unwrap()]);
    println!("darshan: {} MiB", memory >> 20);
    assert!(memory < 600 << 20, "{} MiB", memory >> 20);
    const DARSHAN: &str = "import darshan, json, sys\n\
        report = darshan.DarshanReport(sys.argv[1], read_all=True)\n\
        records = report.records['POSIX'].to_df()['counters']\n\
        names = set(report.name_records.values())\n\
        folded = report.metadata['job']['metadata']['folded_files']\n\
        print(json.dumps([len(records), int(records['POSIX_BYTES_READ'].sum()), int(folded),\n\
            sum(1 for name in names if '\\n' in name)]))";
    let found = by_python(&environment("darshan"), DARSHAN, &[&log]);
    let number = |index: usize| found[index].as_u64().unwrap();
    assert!(number(0) <= 100_000 && number(0) > 50_000, "{found}");
    assert_eq!(
        (number(1), number(2), number(3)),
        (total, FILES - 50_000, 0)
    );

    for (format, name) in [("chrome", "trace.json.gz"), ("tensorboard", "x.tfevents")] {
        let file = dir.join(name);
        let memory = peak(&recording, &["-f", format, "-o", file.to_str().unwrap()]);
        println!("{format}: {} MiB", memory >> 20);
        assert!(memory < 400 << 20, "{format}: {} MiB", memory >> 20);
        assert!(fs::metadata(&file).unwrap().len() > 100);
    }
}

#[test]
fn what_is_more_than_the_memory_that_it_may_take_is_on_disk() {
    let (_keep, dir) = directory();
    let recording = dir.join("recording");
    record(&recording, FILES, 1);
    for format in ["csv", "json", "darshan", "chrome", "tensorboard"] {
        let [free, bounded] = ["free", "bounded"].map(|name| dir.join(format!("{name}.tfevents")));
        let args = ["-f", format, "--force", "-o"];
        exported(&recording, &[&args[..], &[free.to_str().unwrap()]].concat());
        let args = [&args[..], &[bounded.to_str().unwrap(), "--memory", "16M"]].concat();
        let memory = most(&recording, &args, "RssAnon:");
        println!("{format}: {} MiB of memory", memory >> 20);
        // Of what is on disk the system keeps in memory what there is room for.
        assert!(memory < 48 << 20, "{format}: {} MiB", memory >> 20);
        let is_same = fs::read(&free).unwrap() == fs::read(&bounded).unwrap();
        assert!(is_same, "{format} is another one");
    }
    // Where there is no disk, there is memory, and a word.
    let out = Command::new(env!("CARGO_BIN_EXE_iotrace"))
        .arg("export")
        .arg(&recording)
        .args(["-f", "csv", "--memory", "16M"])
        .env("TMPDIR", "/dev/shm")
        .output()
        .unwrap();
    assert!(out.status.success());
    let lines = out.stdout.iter().filter(|byte| **byte == b'\n').count() as u64;
    assert!(lines > FILES, "{lines} lines");
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(said.contains("/dev/shm has no room"), "{said}");
}

#[test]
fn memory_does_not_grow_with_the_time_that_was_recorded() {
    let (_keep, dir) = directory();
    let [short, long] = [10, 200].map(|parts| {
        let recording = dir.join(parts.to_string());
        record(&recording, 2000, parts);
        recording
    });
    let rows = |recording: &Path| {
        let csv = exported(recording, &["-f", "csv", "--by", "interval"]);
        csv.iter().filter(|byte| **byte == b'\n').count()
    };
    assert!(rows(&long) > 10 * rows(&short));
    for args in [
        &["-f", "csv"][..],
        &["-f", "csv", "--by", "interval"],
        &["-f", "chrome"],
        &["-f", "darshan"],
    ] {
        let file = dir.join("out");
        let args = [args, &["--force", "-o", file.to_str().unwrap()]].concat();
        let [short, long] = [&short, &long].map(|recording| peak(recording, &args) >> 20);
        // Intervals take 64 MiB at most, however many there are.
        assert!(
            long < short + 100,
            "{args:?}: {short} MiB, and {long} MiB of 20 times as much"
        );
    }
}

/// Adds a trace to a recording of `record`: reads of its files in turn, by one thread of each process.
fn add_trace(directory: &Path, operations: u64, files: u64) {
    let clock = run().clock;
    let mut writer = TraceWriter::new(&Directory::open(directory).unwrap(), clock, None);
    let row = |index: u64| {
        let start = 100 * SECOND + index * 300;
        Operation {
            key: IoKey {
                file: file(index % files),
                tgid: 100 + (index % files % 2) as u32,
                start: 7,
                tid: 100 + (index % files % 2) as u32,
                phase: 0,
            },
            start,
            end: start + 100 + index % 100,
            offset: index / files * 4096,
            length: 4096,
            result: 4096,
            op: op::READ as u32,
            epoch: 0,
        }
    };
    let mut next = 0;
    while next < operations {
        let end = operations.min(next + (1 << 19));
        let piece: Vec<Operation> = (next..end).map(row).collect();
        writer.write(piece, vec![]).unwrap();
        next = end;
    }
    let path = directory.join("meta.json");
    let mut meta: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    meta["trace"] = serde_json::to_value(writer.summary()).unwrap();
    fs::write(&path, meta.to_string()).unwrap();
}

#[test]
fn memory_does_not_grow_with_the_operations_that_were_traced() {
    const OPERATIONS: [u64; 2] = [100_000, 3_000_000];
    let (_keep, dir) = directory();
    let recordings = OPERATIONS.map(|operations| {
        let recording = dir.join(operations.to_string());
        record(&recording, 1000, 1);
        add_trace(&recording, operations, 1000);
        recording
    });
    for (args, allowed) in [
        (&["-f", "csv", "--by", "operation"][..], 64),
        (&["-f", "json", "--by", "operation"], 64),
        (&["-f", "chrome"], 64),
        // Its log is made in memory, with 500,000 operations at most.
        (&["-f", "darshan"], 200),
    ] {
        let file = dir.join("out");
        let args = [args, &["--force", "-o", file.to_str().unwrap()]].concat();
        let [few, many] = recordings.each_ref().map(|one| peak(one, &args) >> 20);
        println!("{args:?}: {few} MiB, and {many} MiB of 30 times as many");
        assert!(many < few + allowed, "{args:?}: {few} MiB, and {many} MiB");
    }
    // All of them are there.
    let mut child = Command::new(env!("CARGO_BIN_EXE_iotrace"))
        .arg("export")
        .arg(&recordings[1])
        .args(["-f", "csv", "--by", "operation"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let lines = lines.map(Result::unwrap).skip(1);
    let good = lines.filter(|line| line.ends_with(",4096,4096,") && line.contains(",read,"));
    // Of those with an odd name one in eight takes two lines.
    assert_eq!(good.count() as u64, OPERATIONS[1] * 7 / 8);
    assert!(child.wait().unwrap().success());
}

#[test]
fn segments_beyond_the_most_are_counted() {
    const OPERATIONS: u64 = 600_000;
    let (_keep, dir) = directory();
    let recording = dir.join("recording");
    record(&recording, 1000, 1);
    add_trace(&recording, OPERATIONS, 1000);
    let read = darshan(&[&recording], &dir.join("log.darshan"));
    let segments: u64 = compare::list(&read, "dxt")
        .iter()
        .map(|record| number(record, "read_count") + number(record, "write_count"))
        .sum();
    assert_eq!(segments, 500_000);
    let left_out: u64 = text(&read["job"]["metadata"], "dxt_left_out")
        .parse()
        .unwrap();
    assert_eq!(segments + left_out, OPERATIONS);
}

/// Waits until a process has written something that no name leads to yet.
fn until_it_writes(child: &mut Child) {
    let started = Instant::now();
    let writes = |fd: PathBuf| {
        let is_ours = fs::read_link(&fd).is_ok_and(|to| to.to_string_lossy().contains("/#"));
        is_ours && fs::metadata(&fd).is_ok_and(|meta| meta.nlink() == 0 && meta.len() > 0)
    };
    loop {
        let fds = fs::read_dir(format!("/proc/{}/fd", child.id()));
        if fds
            .into_iter()
            .flatten()
            .any(|fd| writes(fd.unwrap().path()))
        {
            return;
        }
        assert_eq!(
            child.try_wait().unwrap(),
            None,
            "it ended before it was interrupted"
        );
        assert!(
            started.elapsed() < Duration::from_secs(100),
            "it does not write"
        );
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn an_interrupted_export_leaves_nothing() {
    let (_keep, dir) = directory();
    let recording = dir.join("recording");
    record(&recording, 100_000, 1);
    let place = dir.join("place");
    fs::create_dir(&place).unwrap();
    let file = place.join("files.json");
    let names = || -> Vec<_> {
        let names = fs::read_dir(&place)
            .unwrap()
            .map(|entry| entry.unwrap().file_name());
        names.collect()
    };
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGKILL] {
        for before in [None, Some("what was there")] {
            if let Some(text) = before {
                fs::write(&file, text).unwrap();
            }
            let args = ["-f", "json", "--force", "-o", file.to_str().unwrap()];
            let mut command = Command::new(env!("CARGO_BIN_EXE_iotrace"));
            command.arg("export").arg(&recording).args(args);
            common::run::take_interrupts(&mut command);
            let mut child = command.spawn().unwrap();
            until_it_writes(&mut child);
            // SAFETY: a child that was not waited for.
            unsafe { libc::kill(child.id() as i32, signal) };
            assert_eq!(child.wait().unwrap().signal(), Some(signal));
            match before {
                None => assert!(names().is_empty(), "{:?}", names()),
                Some(text) => {
                    assert_eq!(fs::read_to_string(&file).unwrap(), text);
                    assert_eq!(names(), ["files.json"]);
                    fs::remove_file(&file).unwrap();
                }
            }
        }
    }
    let table: Value = serde_json::from_slice(&exported(&recording, &["-f", "json"])).unwrap();
    assert_eq!(
        table["rows"].as_array().unwrap().len(),
        100_000,
        "the recording is as it was"
    );
}
