//! How long page faults on mapped files and msync take: within what the program's own clock says, and not below what the
//! storage takes at least.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use crate::common::{
    Iotrace,
    compare::{list, nothing_lost, sum_of},
    compiled, directory, number,
    slow::{Slow, Speed},
    text,
};
use serde_json::Value;

const PAGE: u64 = 4096;

/// A file of this many pages on the disk.
fn file(path: PathBuf, pages: u64) -> PathBuf {
    fs::write(&path, vec![7; (pages * PAGE) as usize]).unwrap();
    fs::File::open(&path).unwrap().sync_all().unwrap();
    path
}

/// What the program said that it did, and the report.
fn run(iotrace: Iotrace, program: &Path, way: &str, files: &[&Path]) -> (Value, Value) {
    let mut command = vec![program.as_os_str(), way.as_ref()];
    command.extend(files.iter().map(|file| file.as_os_str()));
    let finished = iotrace.command(command);
    assert_eq!(finished.code(), 0, "{}", finished.stderr);
    let (truth, report) = finished.truth_and_report();
    nothing_lost(&report);
    (truth, report)
}

/// A time of a file, over all of its rows, nanoseconds.
fn ns(report: &Value, path: &Path, counter: &str) -> u64 {
    let path = path.to_str().expect("UTF-8");
    let rows = list(report, "files").iter();
    let seconds: f64 = rows
        .filter(|row| text(row, "path") == path)
        .filter_map(|row| row[counter].as_f64())
        .sum();
    (seconds * 1e9).round() as u64
}

/// Every major fault of the file is timed, within the program's own clock, or said not to be: the kernel leaves the end of
/// one out where it has preempted something that reads or writes a map on that CPU. The last may be missing untold.
#[track_caller]
fn all_timed(truth: &Value, report: &Value, path: &Path, faults: bool) {
    let majors = number(truth, "majors");
    assert!(majors >= number(truth, "count"), "{truth}: it was cold");
    let timed = sum_of(report, path, "timed_major_faults");
    let told = timed + number(&report["notes"], "untimed_faults");
    assert!((majors - 1..=majors).contains(&told), "{told} of {majors}");
    assert!(timed > majors * 9 / 10, "{timed} of {majors} are timed");
    if faults {
        assert_eq!(sum_of(report, path, "major_faults"), number(truth, "count"));
    }
    let (timed, within) = (ns(report, path, "major_fault_seconds"), number(truth, "ns"));
    assert!(timed > 0 && timed <= within, "{timed} of {within} ns");
    // By process, too.
    let process: f64 = list(report, "processes")
        .iter()
        .filter_map(|process| process["totals"]["major_fault_seconds"].as_f64())
        .sum();
    assert!(process * 1e9 + 1.0 >= timed as f64, "{process} s");
}

#[test]
fn every_wait_is_timed() {
    let (_keep, dir) = directory();
    let program = compiled("mapped.c", &dir, &["-pthread"]);
    let data = file(dir.join("data"), 1024);
    for detail in ["basic", "full"] {
        for way in ["touch", "threads"] {
            let iotrace = Iotrace::record().args(["--detail", detail]);
            let (truth, report) = run(iotrace, &program, way, &[&data]);
            all_timed(&truth, &report, &data, true);
            assert_eq!(ns(&report, &data, "read_seconds"), 0);
        }
    }
}

/// As on kernels that have no tracepoint at the start of a fault.
#[test]
fn waits_begin_with_what_is_fetched() {
    let (_keep, dir) = directory();
    let program = compiled("mapped.c", &dir, &["-pthread"]);
    let data = file(dir.join("data"), 256);
    let iotrace = Iotrace::record().env("IOTRACE_TEST_OFFSET", "FAULTS_BY_FETCH=1");
    let (truth, report) = run(iotrace, &program, "touch", &[&data]);
    all_timed(&truth, &report, &data, true);
}

#[test]
fn the_kernel_waits_within_a_call() {
    let (_keep, dir) = directory();
    let program = compiled("mapped.c", &dir, &["-pthread"]);
    let data = file(dir.join("data"), 256);
    let out = dir.join("out");
    let (truth, report) = run(Iotrace::record(), &program, "write", &[&data, &out]);
    all_timed(&truth, &report, &data, true);
    // It is a part of the call's time, too.
    assert!(ns(&report, &out, "write_seconds") >= ns(&report, &data, "major_fault_seconds"));
}

#[test]
fn a_slow_storage_shows_in_the_time_of_faults() {
    let (_keep, dir) = directory();
    let program = compiled("mapped.c", &dir, &["-pthread"]);
    let pages = 64;
    let speed = Speed {
        read: Duration::from_secs(1),
        is_cached: true,
        ..Speed::default()
    };
    let slow = dir.join("slow");
    let _mounted = Slow::mount(&slow, &[("data", pages * PAGE, speed)], speed);
    let data = slow.join("data");
    let (truth, report) = run(Iotrace::record(), &program, "touch", &[&data]);
    all_timed(&truth, &report, &data, true);
    let faults = sum_of(&report, &data, "timed_major_faults");
    let least = faults * PAGE * 1_000_000_000 / (1 << 20);
    let timed = ns(&report, &data, "major_fault_seconds");
    assert!(timed >= least, "{timed} of {least} ns");
}

#[test]
fn what_the_kernel_populates_is_not_timed() {
    let (_keep, dir) = directory();
    let program = compiled("mapped.c", &dir, &["-pthread"]);
    let [data, other] = ["data", "other"].map(|name| file(dir.join(name), 64));
    let (truth, report) = run(Iotrace::record(), &program, "populate", &[&data, &other]);
    let majors = number(&truth, "majors");
    assert!(majors > 0, "{truth}");
    assert_eq!(sum_of(&report, &data, "timed_major_faults"), 0);
    assert_eq!(number(&report["notes"], "untimed_faults"), majors);
    assert!(sum_of(&report, &other, "major_faults") == 1);
}

#[test]
fn msync_is_of_its_file() {
    let (_keep, dir) = directory();
    let program = compiled("mapped.c", &dir, &["-pthread"]);
    let (first, second) = (file(dir.join("first"), 64), file(dir.join("second"), 16));
    for hook in ["btf", "tracepoint"] {
        let iotrace = Iotrace::record().hook(hook);
        let (truth, report) = run(iotrace, &program, "sync", &[&first, &second]);
        assert_eq!(sum_of(&report, &first, "msyncs"), number(&truth, "count"));
        assert_eq!(sum_of(&report, &second, "msyncs"), 2);
        assert_eq!(
            number(&report["totals"], "msyncs"),
            number(&truth, "count") + 2
        );
        let (synced, within) = (ns(&report, &first, "sync_seconds"), number(&truth, "ns"));
        assert!(synced > 0 && synced <= within, "{synced} of {within} ns");
    }
}
