//! What is lost where it is hardest to lose nothing: threads that never rest, and a drain that never rests beside them.
//!
//! The kernel maps are so small that each round of new entries brings a drain about, so the two generations change
//! places all the time while programs run: a count that fell between them would show here.

use crate::common::{
    Iotrace,
    compare::{self, same},
    directory, number,
    truth::{self, Process},
    turn,
};
use serde_json::Value;

const MILLISECONDS: &str = "2000";
/// Room for the entries of four threads with three files each, which is half full when they have theirs.
const ENTRIES: &str = "24";

fn busy(hook: &str, detail: &str) -> (Value, Value) {
    let (_keep, dir) = directory();
    let finished = Iotrace::record()
        .entries(ENTRIES)
        // The program's own code is mapped as well, which would take some of them.
        .env("IOTRACE_TEST_OFFSET", "PAGE_CACHE=0")
        .hook(hook)
        .args(["--detail", detail])
        .env("RUST_LOG", "info")
        .workload(["busy", dir.to_str().expect("UTF-8"), MILLISECONDS]);
    assert_eq!(finished.code(), 0, "{}", finished.stderr);
    let (truth, report) = finished.truth_and_report();
    let drains = drains(&finished.stderr);
    // A flip waits for all CPUs: 20 ms, or a second where four threads share one that is emulated.
    assert!(drains > 2, "{drains} drains: {}", finished.stderr);
    let processes = truth::processes(&truth);
    let [process] = &processes[..] else {
        panic!("{} processes", processes.len())
    };
    let (done, found) = (reads_of(process), reads_in(&report, process.pid));
    assert!(found <= done, "{found} calls counted of {done}");
    // At the beginning of a line of its own, where `cargo xtask vm` looks for it.
    println!(
        "\nmeasured {done} calls, {} not counted, {} drains, {} runs skipped",
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

/// What is missing is what the report says was lost, and nothing where it says so.
#[track_caller]
fn exact_or_counted(hook: &str, detail: &str) {
    let (truth, report) = busy(hook, detail);
    let lost = compare::skipped(&report);
    for process in truth::processes(&truth) {
        if lost == 0 {
            same(&process, &report);
        }
        let (done, found) = (reads_of(&process), reads_in(&report, process.pid));
        assert!(
            done - found <= lost,
            "{found} of {done} calls counted, {lost} lost by the report"
        );
    }
}

#[test]
fn busy_threads_beside_a_busy_drain() {
    turn::alone();
    exact_or_counted("auto", "basic");
}

#[test]
fn busy_threads_beside_a_busy_drain_in_full() {
    turn::alone();
    exact_or_counted("auto", "full");
}

/// The kernel skips programs on these tracepoints, and some releases do not say so: never more than was done.
#[test]
fn busy_threads_by_tracepoints() {
    busy("tracepoint", "basic");
}
