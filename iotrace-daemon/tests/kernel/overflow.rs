//! Kernel maps that are too small: what finds no counter of its own is still in its process's totals.

use crate::common::{
    Iotrace,
    compare::{self, Counts},
    directory, text,
    truth::{self, Process},
};
use serde_json::Value;

/// The totals of a process are what it did; no file's counters are more than what was done to it.
#[track_caller]
fn conserved(process: &Process<'_>, report: &Value) {
    let mut done = process.by_name();
    let files = process.files();
    files.values().for_each(|counts| done.merge(counts));
    let found = compare::process(report, process.pid);
    let difference = done.difference(&Counts::of(&found["totals"]));
    assert_eq!(difference, "", "{} (pid {})", process.role, process.pid);
    for row in compare::rows_of(report, process.pid) {
        let done = &files[text(row, "path")];
        for (name, value) in Counts::of(row).counters {
            assert!(
                value <= done.get(&name),
                "{name} of {}: {value} of {}",
                row["path"],
                done.get(&name)
            );
        }
    }
}

#[track_caller]
fn overflows(entries: &str, detail: &str, mode: &str) -> Value {
    let (_keep, dir) = directory();
    let finished = Iotrace::record()
        .entries(entries)
        .flush("100ms")
        .args(["--detail", detail])
        .workload([mode, dir.to_str().expect("UTF-8")]);
    assert_eq!(finished.code(), 0, "{}", finished.stderr);
    let (truth, report) = finished.truth_and_report();
    truth::processes(&truth)
        .iter()
        .for_each(|process| conserved(process, &report));
    compare::nothing_lost(&report);
    report
}

/// Successful and failed calls that went to the overflow.
fn overflow(report: &Value) -> u64 {
    let processes = compare::list(report, "processes");
    let counts = processes
        .iter()
        .map(|process| Counts::of(&process["overflow"]));
    let calls = |counts: Counts| {
        let calls = counts.counters.iter();
        calls
            .filter(|(name, _)| !name.contains("bytes") && *name != "zero_reads")
            .map(|(_, n)| n)
            .sum::<u64>()
    };
    counts.map(calls).sum()
}

#[test]
fn maps_that_are_always_full_lose_nothing() {
    for detail in ["basic", "full"] {
        let report = overflows("3", detail, "threads-on-many");
        assert!(
            overflow(&report) > 1000,
            "nothing overflowed: {}",
            report["totals"]
        );
    }
}

/// Early drains may make room in time for all of one run, and not of all three.
#[test]
fn small_maps_lose_nothing() {
    let run = |entries| overflow(&overflows(entries, "full", "threads-on-many"));
    let calls: u64 = ["4", "7", "20"].map(run).iter().sum();
    assert!(calls > 0, "4 entries held everything");
}

#[test]
fn three_entries_for_sixteen_threads_of_one_file() {
    let report = overflows("3", "full", "threads-on-one");
    assert!(overflow(&report) > 1000);
}

/// Failures, names, transfers and the rest of them.
#[test]
fn every_call_with_three_entries() {
    for (hook, detail) in [("btf", "basic"), ("btf", "full"), ("tracepoint", "full")] {
        let (_keep, dir) = directory();
        let finished = Iotrace::record()
            .entries("3")
            .hook(hook)
            .args(["--detail", detail])
            .workload(["every-call", dir.to_str().expect("UTF-8")]);
        let (truth, report) = finished.truth_and_report();
        compare::nothing_lost(&report);
        let processes = truth::processes(&truth);
        let [process] = &processes[..] else {
            panic!("{} processes", processes.len())
        };
        let mut done = process.by_name();
        process
            .files()
            .values()
            .for_each(|counts| done.merge(counts));
        let found = compare::process(&report, process.pid);
        assert_eq!(
            done.difference(&Counts::of(&found["totals"])),
            "",
            "{hook} {detail}"
        );
        assert!(overflow(&report) > 0, "{hook} {detail}: nothing overflowed");
    }
}

#[test]
fn children_that_are_killed_overflow_too() {
    let (_keep, dir) = directory();
    let finished = Iotrace::record()
        .entries("3")
        .workload(["killed", dir.to_str().expect("UTF-8")]);
    let (truth, report) = finished.truth_and_report();
    let lost = compare::skipped(&report);
    for worker in truth::processes(&truth) {
        let totals = Counts::of(&compare::process(&report, worker.pid)["totals"]);
        let found: u64 = ["opens", "reads", "writes"]
            .iter()
            .map(|name| totals.get(name))
            .sum();
        let (begun, counted) = worker.calls();
        assert!(
            (counted.saturating_sub(lost)..=begun).contains(&found),
            "{counted} <= {found} <= {begun}"
        );
    }
}
