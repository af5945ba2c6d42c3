//! Predictions in findings: what reports, pages and tools quote is what `iotrace whatif` says.

use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
};

use iotrace_common::{key::FileId, rights::Rights};
use iotrace_model::{
    Model,
    counters::{BYTES_READ, Counters, OPENS, READ_NS, READS},
    input::{Event, Place, ProcessId},
    run::{Run, TimelineRun},
    timeline::{Cause, Segment},
    waits::{Leaf, Waited},
};
use iotrace_recording::Recorder;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{
    browser::Page,
    html::{no_faults, page_of},
    mcp::ask,
};
use crate::common::{directory, export::report_of, made};

const MS: u64 = 1_000_000;
/// When the run begins, by the monotonic clock.
const START: u64 = 100_000 * MS;
const SAMPLES: u64 = 40;
const MAIN: u32 = 10;
const WORKER: u32 = 20;

fn process(pid: u32) -> ProcessId {
    ProcessId { pid, start: pid }
}

/// A segment; times in milliseconds since the start.
fn segment(pid: u32, [off, on]: [u64; 2], cause: Cause, by: Option<u32>) -> Segment {
    Segment {
        process: process(pid),
        tid: pid,
        off: START + off * MS,
        woken: START + on * MS,
        on: START + on * MS,
        cause,
        by,
        file: None,
        phase: 0,
    }
}

/// A worker reads 20 ms and computes 5 ms for each sample, the main thread 10 ms.
fn segments() -> Vec<Segment> {
    let ended = |pid, time| segment(pid, [time; 2], Cause::Preempted, None);
    let mut all = vec![
        ended(MAIN, 0),
        segment(WORKER, [0, 0], Cause::Born, Some(MAIN)),
    ];
    for index in 0..SAMPLES {
        let (from, to) = (25 * index, 25 * (index + 1));
        let idle = if index == 0 { 0 } else { from + 10 };
        all.extend([
            segment(MAIN, [idle, to], Cause::Thread, Some(WORKER)),
            segment(WORKER, [from, from + 20], Cause::Storage, None),
        ]);
    }
    all.extend([ended(WORKER, 25 * SAMPLES), ended(MAIN, 25 * SAMPLES + 10)]);
    all
}

/// A recording of that loader on a host.
fn recording(host: &str, change: impl FnOnce(&mut Run)) -> (TempDir, PathBuf) {
    let (keep, dir) = directory();
    let recording = dir.join("recording");
    let mut model = Model::with_history();
    let mut run = made::run(host, 1_700_000_000, 1);
    run.timeline = Some(TimelineRun {
        cpus: 2,
        segments: segments().len() as u64,
        dropped: 0,
    });
    change(&mut run);
    let mut recorder = Recorder::create(&recording, &run).unwrap();
    for pid in [MAIN, WORKER] {
        model.event(Event::Exec {
            process: process(pid),
            start_boottime: START,
            parent: 1,
            rights: Rights::of_user(0),
            comm: b"python3".to_vec(),
            args: vec![b"train.py".to_vec()],
        });
    }
    let mut counters = Counters::ZERO;
    for (index, value) in [
        (OPENS, 40),
        (READS, 40),
        (BYTES_READ, 40 << 20),
        (READ_NS, 800 * MS),
    ] {
        counters.v[index] = value;
    }
    let file = FileId {
        device: 9,
        inode: 7,
        generation: 1,
    };
    model.event(made::seen(file, b"/opt/samples".to_vec(), 40 << 20));
    model.add(process(WORKER), Place::File(file), &counters);
    for (leaf, ns) in [(Leaf::Running, 400 * MS), (Leaf::Storage, 600 * MS)] {
        model.add_waited(&Waited {
            process: process(MAIN),
            leaf,
            by: None,
            file: None,
            phase: 0,
            ns,
        });
    }
    model.timeline_mut().add(segments());
    recorder.flush(&mut model, &run).unwrap();
    recorder.finish(&mut model, &run).unwrap();
    (keep, recording)
}

fn iotrace(args: &[&str], recordings: &[&Path]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_iotrace"));
    let output = command.args(args).args(recordings).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    output
}

fn text(args: &[&str], recording: &Path) -> String {
    String::from_utf8(iotrace(args, &[recording]).stdout).unwrap()
}

/// The only finding.
#[track_caller]
fn finding(report: &Value) -> Value {
    let findings = report["findings"].as_array().expect("findings");
    let codes: Vec<&Value> = findings.iter().map(|one| &one["code"]).collect();
    assert_eq!(codes, ["storage-bound"]);
    findings[0].clone()
}

#[test]
fn every_format_quotes_what_whatif_says() {
    let (_keep, recording) = recording("gpu-1", |_| ());
    let args = ["whatif", "--storage", "2x,infinite", "--format", "json"];
    let said: Value = serde_json::from_str(&text(&args, &recording)).unwrap();
    let quoted = finding(&report_of(&[&recording]));
    assert_eq!(quoted["predictions"], said["predictions"]);
    assert_eq!(quoted["recorded_seconds"], said["recorded_seconds"]);

    let asked = ask(&[&recording], json!([["findings", {}]]));
    assert_eq!(finding(&asked.objects()[0]), quoted);

    let full = text(&["report", "--section", "findings"], &recording);
    let full: Vec<&str> = full.split_whitespace().collect();
    let full = full.join(" ");
    let line = "Predicted instead of 1.01 s: storage 2x 610 ms (";
    assert!(full.contains(line), "{full}");
    assert!(
        full.contains(", limited by storage); storage infinite 405 ms ("),
        "{full}"
    );
    assert!(
        full.contains(", limited by main thread computing)"),
        "{full}"
    );

    let screen = text(&["report"], &recording);
    let line = "Predicted: 610 ms with storage 2x, 405 ms with storage infinite.";
    assert!(screen.contains(line), "{screen}");
    assert!(screen.lines().count() <= 24, "{screen}");

    let file = recording.with_file_name("page.html");
    page_of(&recording, &file);
    let mut page = Page::open(&file);
    page.eval("document.querySelector('[data-code=storage-bound]').open = true");
    let line = page.text("[data-predicted=storage-bound]");
    assert!(
        line.starts_with("Predicted instead of 1.01 s: storage 2x 610 ms ("),
        "{line}"
    );
    assert!(line.ends_with(", limited by main thread)."), "{line}");
    no_faults(&mut page);
}

#[test]
fn a_long_timeline_is_left_to_whatif() {
    let (_keep, recording) = recording("gpu-1", |run| {
        run.timeline.as_mut().unwrap().segments = 3_000_000;
    });
    let finding = finding(&report_of(&[&recording]));
    assert_eq!(finding.get("predictions"), None);
    let reason = finding["not_predicted"][0].as_str().expect("a reason");
    assert!(
        reason.contains("3000000 waits") && reason.contains("`iotrace whatif`"),
        "{reason}"
    );
    let full = text(&["report", "--section", "findings"], &recording);
    assert!(full.contains("Not predicted: the timeline"), "{full}");
}

#[test]
fn what_is_no_report_of_one_run_quotes_nothing() {
    let (_one, first) = recording("gpu-1", |_| ());
    let (_other, second) = recording("gpu-2", |_| ());
    let job = report_of(&[&first, &second]);
    for finding in job["findings"].as_array().expect("findings") {
        assert_eq!(finding.get("predictions"), None, "{finding:#}");
        assert_eq!(finding.get("not_predicted"), None, "{finding:#}");
    }
    let args = ["report", "--format", "json", "--exclude", "/none/*"];
    let part: Value = serde_json::from_str(&text(&args, &first)).unwrap();
    assert_eq!(part["findings"], json!([]));
    let diff = iotrace(&["diff", "--format", "json"], &[&first, &second]);
    let diff: Value = serde_json::from_slice(&diff.stdout).unwrap();
    assert!(!diff.to_string().contains("predictions"), "{diff:#}");
}
