//! Without the kernel's type information: processes and operations are what was done, files are told by following
//! descriptors and by /proc, and every report says so.

use std::process::Command;

use crate::common::{
    Iotrace,
    compare::{self, Counts},
    directory,
    run::Finished,
    text, truth,
};
use serde_json::Value;

/// What each report says.
const SAID: &str = "has no type information (BTF)";

/// iotrace with the programs for kernels without type information.
fn untyped() -> Iotrace {
    Iotrace::record().env("IOTRACE_TEST_PROGRAMS", "nobtf")
}

/// Traces a mode of the counting program, compares every process of it, and makes sure that nothing was lost.
#[track_caller]
fn exact(mode: &str) -> Value {
    let (_, report) = compare::exact(untyped(), mode, &[]);
    compare::nothing_lost(&report);
    said(&report);
    report
}

/// Fails unless the report says how files were told.
#[track_caller]
fn said(report: &Value) {
    assert_eq!(text(report, "hook"), "raw");
    assert_eq!(text(report, "detail"), "basic");
    let remarks = compare::list(report, "remarks");
    let says = |remark: &Value| remark.as_str().is_some_and(|text| text.contains(SAID));
    assert!(remarks.iter().any(says), "{remarks:?}");
}

/// Fails where a process did anything else than the report says, whatever files it says that was done to.
#[track_caller]
fn same_in_all(process: &truth::Process<'_>, report: &Value) {
    let mut done = process.by_name();
    for counts in process.files().values() {
        done.merge(counts);
    }
    let found = Counts::of(&compare::process(report, process.pid)["totals"]);
    assert_eq!(done.difference(&found), "", "{}", process.role);
}

/// Some of its files are removed before they can be looked at, or opened by another name and removed: what they were is not
/// known then.
#[track_caller]
fn every_call_is_counted(iotrace: Iotrace) -> Finished {
    let (_keep, dir) = directory();
    let finished = iotrace.workload(["every-call", dir.to_str().expect("UTF-8")]);
    assert_eq!(finished.code(), 0, "{}", finished.stderr);
    let (truth, report) = finished.truth_and_report();
    compare::nothing_lost(&report);
    said(&report);
    let processes = truth::processes(&truth);
    assert!(!processes.is_empty());
    for process in processes {
        same_in_all(&process, &report);
    }
    finished
}

#[test]
fn every_call() {
    every_call_is_counted(untyped());
}

/// Files whose descriptors come by ways that no system call tells of are known where they can be looked at in time; what
/// was done to them is counted in any case.
#[test]
fn descriptors_by_dup_fork_socket_and_exec() {
    let (_keep, dir) = directory();
    let dir = dir.to_str().expect("UTF-8");
    let finished = untyped().workload(["descriptors", dir]);
    assert_eq!(finished.code(), 0, "{}", finished.stderr);
    let (truth, report) = finished.truth_and_report();
    compare::nothing_lost(&report);
    said(&report);
    for process in truth::processes(&truth) {
        if process.role == "receiver of a descriptor" {
            same_in_all(&process, &report);
        } else {
            compare::same(&process, &report);
        }
    }
}

#[test]
fn interrupted_calls_are_failures() {
    exact("interrupted");
}

#[test]
fn sixteen_threads_on_one_file() {
    exact("threads-on-one");
}

/// Each has one of few inode numbers, and is gone before it can be looked at.
#[test]
fn files_that_reuse_an_inode_are_told_apart() {
    const FILES: usize = 200;
    let (_keep, dir) = directory();
    let dir = dir.to_str().expect("UTF-8");
    let finished = untyped().workload(["reused-inodes", dir, &FILES.to_string()]);
    let (truth, report) = finished.truth_and_report();
    compare::nothing_lost(&report);
    let process = &truth::processes(&truth)[0];
    same_in_all(process, &report);
    for file in 0..FILES {
        let row = Counts::of(compare::row(&report, process.pid, &format!("{dir}/{file}")));
        for (counter, done) in [
            ("opens", 1),
            ("closes", 1),
            ("unlinks", 1),
            ("bytes_read", file as u64 + 1),
            ("bytes_written", file as u64 + 1),
        ] {
            assert_eq!(row.get(counter), done, "{counter} of {file}");
        }
    }
}

#[test]
fn workers_killed_in_mid_run_keep_what_they_did() {
    let (_keep, dir) = directory();
    let finished = untyped().workload(["killed", dir.to_str().expect("UTF-8")]);
    let (truth, report) = finished.truth_and_report();
    let lost = compare::skipped(&report);
    for worker in truth::processes(&truth) {
        let process = compare::process(&report, worker.pid);
        assert_eq!(process["exit_code"], Value::Null, "a signal is not seen");
        let totals = Counts::of(&process["totals"]);
        let found: u64 = ["opens", "reads", "writes"]
            .iter()
            .map(|name| totals.get(name))
            .sum();
        // A call that was in flight may have ended without the program's knowing.
        let (begun, counted) = worker.calls();
        assert!(
            (counted.saturating_sub(lost)..=begun).contains(&found),
            "{}: {counted} counted, {begun} begun, {found} reported",
            worker.role
        );
        if worker.role == "killed at rest" && lost == 0 {
            compare::same(&worker, &report);
        }
    }
}

/// Nothing makes iotrace choose but the kernel.
#[test]
fn hidden_type_information_is_done_without_and_every_report_says_so() {
    let finished = every_call_is_counted(Iotrace::record().without_btf());
    finished.says(&["no type information (BTF) of this kernel", "--btf FILE"]);
    for format in ["text", "json", "html"] {
        let output = Command::new(env!("CARGO_BIN_EXE_iotrace"))
            .args(["report", "--format", format])
            .args((format == "text").then_some("--full"))
            .arg(&finished.recording)
            .output()
            .expect("iotrace runs");
        let shown = String::from_utf8_lossy(&output.stdout);
        let shown = shown.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(shown.contains(SAID), "{format}");
    }
}

#[test]
fn a_copy_of_hidden_type_information_is_used() {
    let (keep, _) = directory();
    let copy = keep.path().join("vmlinux");
    std::fs::copy("/sys/kernel/btf/vmlinux", &copy).expect("the kernel's own");
    let copy = copy.to_str().expect("UTF-8");
    let finished = Iotrace::record()
        .without_btf()
        .args(["--btf", copy])
        .command(["true"]);
    assert_eq!(finished.code(), 0, "{}", finished.stderr);
    assert_eq!(text(&finished.report(), "hook"), "btf");
}

#[test]
fn what_is_left_out_is_refused_in_words() {
    for option in [["--hook", "tracepoint"], ["--uprobe", "stdio"]] {
        let finished = untyped().args(option).command(["true"]);
        finished.refused(77, &[option[0], "type information (BTF)", "--btf FILE"]);
    }
    let finished = untyped().args(["--trace"]).command(["true"]);
    finished.refused(77, &["--trace", "type information (BTF)", "--btf FILE"]);
}
