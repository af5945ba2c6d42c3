//! The programs for kernels before 5.15, which newer ones run as well: what they count is what was done, and what they leave
//! out is said.

use crate::common::{
    Iotrace,
    compare::{self, Counts},
    directory, text, truth,
};
use serde_json::Value;

/// iotrace with the programs for older kernels.
fn older() -> Iotrace {
    Iotrace::record().env("IOTRACE_TEST_PROGRAMS", "compat_510")
}

/// Traces a mode of the counting program, compares every process of it, and makes sure that nothing was lost.
#[track_caller]
fn exact(detail: &str, mode: &str, more: &[&str]) -> Value {
    let iotrace = older().hook("btf").args(["--detail", detail]);
    let (_, report) = compare::exact(iotrace, mode, more);
    compare::nothing_lost(&report);
    assert_eq!(text(&report, "detail"), detail);
    report
}

#[test]
fn every_call_in_full() {
    exact("full", "every-call", &[]);
}

#[test]
fn every_call_in_basic() {
    exact("basic", "every-call", &[]);
}

#[test]
fn descriptors_by_dup_fork_socket_and_exec() {
    exact("full", "descriptors", &[]);
}

#[test]
fn interrupted_calls_are_failures() {
    exact("full", "interrupted", &[]);
}

/// All of them change one word at both ends of each call.
#[test]
fn sixteen_threads_on_one_file() {
    for detail in ["basic", "full"] {
        let report = exact(detail, "threads-on-one", &[]);
        let merged = seconds(&report, &["merged_seconds"]);
        let kinds = ["read", "write", "meta", "sync"].map(|kind| format!("{kind}_seconds"));
        let time = seconds(&report, &kinds.each_ref().map(String::as_str));
        assert!(0.0 < merged && merged <= time, "{merged} of {time}");
    }
}

/// The sum of these times over all phases.
fn seconds(report: &Value, keys: &[&str]) -> f64 {
    let phases = report["phases"].as_object().expect("phases");
    let times = phases.values().flat_map(|phase| {
        let of_phase = |key: &&str| phase[*key].as_f64().expect("a time");
        keys.iter().map(of_phase)
    });
    times.sum()
}

/// Components that the walk over a path takes, the root of each mount among them.
const STEPS: usize = 64;

#[test]
fn a_path_is_whole_to_its_limit_and_said_not_to_be_beyond() {
    for (depth, truncated) in [(STEPS - 10, false), (STEPS + 10, true)] {
        let (_keep, dir) = directory();
        let directory = dir.to_str().expect("UTF-8");
        let finished = older().workload(["deep", directory, &depth.to_string(), "d"]);
        assert_eq!(finished.code(), 0, "{}", finished.stderr);
        let (truth, report) = finished.truth_and_report();
        let process = &truth::processes(&truth)[0];
        let rows = compare::rows_of(&report, process.pid);
        let [row] = rows[..] else {
            panic!("{} rows", rows.len())
        };
        assert_eq!(process.files()["leaf"].difference(&Counts::of(row)), "");
        let whole = format!("{directory}/{}leaf", "d/".repeat(depth));
        assert_eq!(text(row, "path") == whole, !truncated, "{row}");
        assert_eq!(row["path_truncated"] == true, truncated, "{row}");
        assert!(text(row, "path").ends_with("/d/d/leaf"), "{row}");
    }
}

#[test]
fn what_is_left_out_is_refused_in_words() {
    let finished = older().hook("tracepoint").command(["true"]);
    finished.refused(77, &["--hook tracepoint", "older kernels", "iotrace check"]);
    let finished = older().args(["--uprobe", "stdio"]).command(["true"]);
    finished.refused(77, &["--uprobe", "older kernels", "iotrace check"]);
    for filter in ["path=*.pt", "phase=training"] {
        let filtered = older().args(["--trace", "--trace-filter", filter]);
        filtered
            .command(["true"])
            .refused(77, &["--trace-filter", "bpf_loop"]);
    }
}
