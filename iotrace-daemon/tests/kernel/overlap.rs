//! Merged time over all processes, where it is kept: the union of the operations in the trace of the same run. And how
//! much of the I/O overlapped with computing: programs whose calls last until they have computed for so long.

use std::{collections::BTreeMap, path::Path};

use crate::common::{Iotrace, directory, export::report_of, number, text};
use iotrace_recording::trace::Trace;
use serde_json::Value;

const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/overlap.py");
const PHASES: [&str; 5] = ["startup", "training", "checkpoint", "restore", "other"];

/// Starts and ends of all operations on files, nanoseconds since the Unix epoch, by phase without its class.
fn spans(recording: &Path) -> BTreeMap<&'static str, Vec<(i64, i64)>> {
    use iotrace_phases::phase::Phase;
    let trace = Trace::open(recording).unwrap_or_else(|error| panic!("{error}"));
    let mut spans: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for row in trace.expect("a trace").rows() {
        let row = row.unwrap_or_else(|error| panic!("{error}"));
        if row.phase != 0 {
            let span = (row.start, row.start + row.duration);
            let phase = Phase::from_code(row.phase as u16).name();
            spans.entry(phase).or_default().push(span);
        }
    }
    spans
}

/// Nanoseconds in any of them.
fn union(mut spans: Vec<(i64, i64)>) -> u64 {
    spans.sort_unstable();
    let (mut union, mut covered) = (0, i64::MIN);
    for (start, end) in spans {
        union += (end - start.max(covered)).max(0);
        covered = covered.max(end);
    }
    union as u64
}

fn ns(value: &Value, key: &str) -> u64 {
    let seconds = value[key].as_f64();
    (seconds.unwrap_or_else(|| panic!("{key} of {value}")) * 1e9).round() as u64
}

#[test]
fn it_is_the_union_of_all_operations() {
    let (_keep, dir) = directory();
    let finished = Iotrace::record()
        .flush("100ms")
        .args(["--merged-time", "exact", "--trace"])
        .command([
            "python3".as_ref(),
            PROGRAM.as_ref(),
            "processes".as_ref(),
            dir.as_os_str(),
        ]);
    assert_eq!(finished.code(), 0, "{}", finished.stderr);
    let (truth, live) = finished.truth_and_report();
    let read = report_of(&[&finished.recording]);
    assert_eq!(text(&live, "merged_time"), "exact");
    assert_eq!(number(&live["losses"], "unmerged_calls"), 0);
    let spans = spans(&finished.recording);
    for name in PHASES {
        let phase = &live["phases"][name];
        assert_eq!(phase, &read["phases"][name], "live and read");
        assert_eq!(phase["merged_exact"], true, "{name}: {phase}");
        let merged = ns(phase, "merged_seconds");
        assert_eq!(merged, ns(phase, "merged_seconds_at_least"));
        let own = spans.get(name).cloned().unwrap_or_default();
        let off = merged.abs_diff(union(own));
        let uncertain = ns(phase, "merged_uncertain_seconds");
        assert!(
            off <= uncertain,
            "{name}: off by {off} ns, {uncertain} uncertain"
        );
        let series = live["time_series"].as_array().expect("a series").iter();
        let sum: u64 = series
            .filter(|slice| slice["phases"][name].is_object())
            .map(|slice| ns(&slice["phases"][name], "merged_seconds"))
            .sum();
        // What ends while the counters are taken can stand in an interval in which nothing else was done.
        assert!(sum <= merged, "{name}: {sum} {merged}");
    }
    // The three that were let end lasted at one time, and as long as each other's reads.
    let processes = live["processes"].as_array().expect("processes");
    let stuck = truth["stuck"].as_array().expect("pids");
    let of = |pid: &Value| {
        let process = processes.iter().find(|process| &process["pid"] == pid);
        ns(
            &process.expect("the process")["phases"]["training"],
            "merged_seconds",
        )
    };
    let longest = stuck.iter().map(of).max().expect("some");
    let sum: u64 = stuck.iter().map(of).sum();
    let training = ns(&live["phases"]["training"], "merged_seconds");
    assert!(
        training >= longest && training < sum,
        "{longest} {training} {sum}"
    );
    // What is neither is the rest, exactly.
    let either = [spans["training"].clone(), spans["checkpoint"].clone()].concat();
    let rest = &live["breakdown"]["rest"];
    let whole = ns(&live["breakdown"], "seconds");
    assert_eq!(rest["seconds"], rest["seconds_at_least"]);
    let uncertain = ["training", "checkpoint"]
        .map(|name| ns(&live["phases"][name], "merged_uncertain_seconds"));
    let off = (whole - ns(rest, "seconds")).abs_diff(union(either));
    assert!(off <= uncertain.iter().sum(), "the rest is off by {off} ns");
}

#[test]
fn threads_forks_and_killed_processes_are_merged() {
    let (_keep, dir) = directory();
    let finished = Iotrace::record()
        .args(["--merged-time", "exact", "--trace"])
        .workload(["merged".as_ref(), dir.as_os_str()]);
    assert_eq!(finished.code(), 0, "{}", finished.stderr);
    let (_, live) = finished.truth_and_report();
    assert_eq!(number(&live["losses"], "unmerged_calls"), 0);
    for (name, spans) in spans(&finished.recording) {
        let phase = &live["phases"][name];
        let off = ns(phase, "merged_seconds").abs_diff(union(spans));
        let uncertain = ns(phase, "merged_uncertain_seconds");
        assert!(
            off <= uncertain,
            "{name}: off by {off} ns, {uncertain} uncertain"
        );
    }
}

#[test]
fn it_is_kept_where_it_is_asked_for() {
    let (_keep, dir) = directory();
    let finished = Iotrace::record().command([
        "python3".as_ref(),
        PROGRAM.as_ref(),
        "processes".as_ref(),
        dir.as_os_str(),
    ]);
    assert_eq!(finished.code(), 0, "{}", finished.stderr);
    let (_, live) = finished.truth_and_report();
    assert_eq!(text(&live, "merged_time"), "bounds");
    let training = &live["phases"]["training"];
    assert_eq!(training["merged_exact"], false, "{training}");
    assert!(training["merged_uncertain_seconds"].is_null());
}

/// Runs a case of the program; what it says, and the report.
fn overlapped(case: &str) -> (Value, Value) {
    let (_keep, dir) = directory();
    let finished = Iotrace::record().flush("200ms").command([
        "python3".as_ref(),
        PROGRAM.as_ref(),
        case.as_ref(),
        dir.as_os_str(),
    ]);
    assert_eq!(finished.code(), 0, "{}", finished.stderr);
    assert!(!finished.stderr.contains("CPU time"), "{}", finished.stderr);
    let (truth, live) = finished.truth_and_report();
    let read = report_of(&[&finished.recording]);
    assert_eq!(live["phases"], read["phases"], "live and read");
    assert_eq!(live["processes"], read["processes"], "live and read");
    (truth, live)
}

/// Between what and what the reads of training data overlapped with computing.
fn of_training(report: &Value) -> (f64, f64) {
    let training = &report["phases"]["training"];
    let seconds = |key: &str| {
        training[key]
            .as_f64()
            .unwrap_or_else(|| panic!("{key}: {training}"))
    };
    let both = (
        seconds("overlapped_seconds_at_least"),
        seconds("overlapped_seconds"),
    );
    assert!(
        both.0 <= both.1 && both.1 <= seconds("merged_seconds"),
        "{training}"
    );
    both
}

fn cpu(report: &Value) -> f64 {
    let processes = report["processes"].as_array().expect("processes").iter();
    processes
        .filter_map(|process| process["cpu_seconds"].as_f64())
        .sum()
}

#[test]
fn one_thread_overlaps_with_nothing() {
    let (truth, report) = overlapped("alone");
    let own = report["processes"].as_array().expect("processes").iter();
    let others = own.filter(|process| process["pid"] != report["processes"][0]["pid"]);
    // What other processes of the job (a wrapper of the interpreter) did is all that can have been beside it.
    let others: f64 = others
        .map(|process| process["cpu_seconds"].as_f64().unwrap_or(0.0))
        .sum();
    let (least, most) = of_training(&report);
    assert!(
        least <= 0.0 && most <= others + 0.02,
        "{least} {most} {others}"
    );
    let spun = truth["cpu"].as_f64().expect("seconds");
    assert!(cpu(&report) > 0.9 * spun - 0.02, "{} {spun}", cpu(&report));
}

#[test]
fn computing_beside_a_long_read_overlaps() {
    for case in ["reader", "worker"] {
        let (truth, report) = overlapped(case);
        let spun = truth["spun"].as_f64().expect("seconds");
        let (least, most) = of_training(&report);
        // It computed for so long, all of it in the call. What else there was of time may have been without the one or
        // without the other; and of a thread that runs, each look may miss the CPU time since the last scheduler tick,
        // and on a busy machine what passes while the one who looks waits for a CPU.
        let reading = report["phases"]["training"]["merged_seconds_at_least"].as_f64();
        let whole = report["duration_seconds"].as_f64().expect("seconds");
        let expected = spun + reading.expect("seconds") - whole - 0.03 * (whole / 0.2 + 10.0);
        assert!(least > expected, "{case}: {least} {most} {expected}");
        assert!(most > spun - 0.02, "{case}: {most} {spun}");
        assert!(cpu(&report) > spun - 0.02, "{case}: {}", cpu(&report));
    }
}

#[test]
fn computing_before_and_behind_a_read_does_not_overlap() {
    let (truth, report) = overlapped("idle");
    let (least, most) = of_training(&report);
    assert!(truth["worker"].is_u64() && least < 0.1, "{least} {most}");
}
