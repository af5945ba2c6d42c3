//! What is lost where it is hardest to lose nothing: threads that never rest, and a drain that never rests beside them.
//!
//! The kernel maps are so small that each round of new entries brings a drain about, so the two generations change
//! places all the time while programs run: a count that fell between them would show here.

mod common;

use common::{
    Iotrace,
    compare::{self, same},
    directory, number,
    truth::{self, Process},
};
use serde_json::Value;

const MILLISECONDS: &str = "2000";
/// Room for the entries of four threads with three files each, which is half full when they have theirs.
const ENTRIES: &str = "24";
/// The release from which on the kernel skips a program that it has preempted.
const SKIPS_FROM: (u32, u32) = (7, 2);

fn busy(hook: &str, detail: &str) -> (Value, Value) {
    let (_keep, dir) = directory();
    let finished = Iotrace::record()
        .entries(ENTRIES)
        .hook(hook)
        .args(["--detail", detail])
        .env("RUST_LOG", "info")
        .workload(["busy", dir.to_str().expect("UTF-8"), MILLISECONDS]);
    assert_eq!(finished.code(), 0, "{}", finished.stderr);
    let (truth, report) = finished.truth_and_report();
    let drains = drains(&finished.stderr);
    assert!(drains > 10, "{drains} drains: {}", finished.stderr);
    let processes = truth::processes(&truth);
    let [process] = &processes[..] else {
        panic!("{} processes", processes.len())
    };
    let (done, found) = (reads_of(process), reads_in(&report, process.pid));
    assert!(found <= done, "{found} calls counted of {done}");
    println!(
        "measured {done} calls, {} not counted, {} drains, {} runs skipped",
        done - found,
        drains,
        number(&report["losses"], "recursion_misses")
    );
    (truth, report)
}

/// The number in iotrace's log.
fn drains(log: &str) -> u64 {
    let mut words = log.split_whitespace().zip(log.split_whitespace().skip(1));
    let number = words.find_map(|(number, word)| (word == "drains").then(|| number.parse().ok()));
    number.flatten().unwrap_or(0)
}

fn reads_of(process: &Process<'_>) -> u64 {
    let files = process.files();
    files.values().map(|counts| counts.get("reads")).sum()
}

#[track_caller]
fn reads_in(report: &Value, pid: u64) -> u64 {
    number(&compare::process(report, pid)["totals"], "reads")
}

#[track_caller]
fn exact_or_counted(hook: &str, detail: &str) {
    let (truth, report) = busy(hook, detail);
    let processes = truth::processes(&truth);
    if release() < SKIPS_FROM {
        compare::nothing_lost(&report);
        processes.iter().for_each(|process| same(process, &report));
        return;
    }
    processes
        .iter()
        .for_each(|process| counted_as_lost(process, &report));
}

/// What is missing of a process is at most what the report says was lost.
#[track_caller]
fn counted_as_lost(process: &Process<'_>, report: &Value) {
    let (done, found) = (reads_of(process), reads_in(report, process.pid));
    let lost = number(&report["losses"], "recursion_misses");
    assert!(
        done - found <= lost,
        "{found} of {done} calls counted, {lost} lost by the report"
    );
}

fn release() -> (u32, u32) {
    let text = std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("the release");
    let mut numbers = text
        .split(|c: char| !c.is_ascii_digit())
        .map(|number| number.parse().expect("a number"));
    let mut next = || numbers.next().expect("two numbers");
    (next(), next())
}

#[test]
fn busy_threads_beside_a_busy_drain() {
    exact_or_counted("auto", "basic");
}

#[test]
fn busy_threads_beside_a_busy_drain_in_full() {
    exact_or_counted("auto", "full");
}

/// The kernel skips programs on these tracepoints, and some releases do not say so: never more than was done.
#[test]
fn busy_threads_by_tracepoints() {
    busy("tracepoint", "basic");
}
