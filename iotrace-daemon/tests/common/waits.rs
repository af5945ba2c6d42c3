//! Programs whose main threads wait, and say for what and how long.

use std::{fs, path::PathBuf, process::Command, time::Duration};

use serde_json::Value;
use tempfile::TempDir;

use super::{
    Iotrace, directory,
    export::report_of,
    python,
    slow::{Slow, Speed},
    turn,
};

const PROGRAMS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/waits.py");
/// How far a time may be from the program's own, seconds, and as a share of it.
pub const NEAR_SECONDS: f64 = 0.03;
pub const NEAR_SHARE: f64 = 0.08;

/// A program, with its files on a filesystem of which a read takes 20 ms.
pub struct Program {
    pub command: Vec<String>,
    truth: PathBuf,
    _slow: Slow,
    _keep: TempDir,
}

impl Program {
    pub fn new(name: &str, is_cached: bool) -> Self {
        turn::alone();
        let (keep, dir) = directory();
        let speed = Speed {
            read: Duration::from_millis(20),
            is_cached,
            ..Speed::default()
        };
        let data = dir.join("train");
        let slow = Slow::of_samples(&data, speed);
        let truth = dir.join("truth.json");
        let python = python();
        // What the interpreter reads at its start is in no truth: without this it may come from a slow disk.
        let modules =
            "import hashlib, json, mmap, multiprocessing.popen_fork, queue, socket, threading";
        let warm = Command::new(&python)
            .args(["-c", modules])
            .status()
            .unwrap();
        assert!(warm.success());
        let words = [
            python.to_str().unwrap(),
            PROGRAMS,
            name,
            truth.to_str().unwrap(),
            data.to_str().unwrap(),
        ];
        Self {
            command: words.map(Into::into).into(),
            truth,
            _slow: slow,
            _keep: keep,
        }
    }

    /// What it says, once it has ended.
    pub fn truth(&self) -> Value {
        serde_json::from_slice(&fs::read(&self.truth).unwrap()).unwrap()
    }
}

/// Records a program; what it says, the report's object of its main thread, the whole report, and that of the recording.
pub fn waited(
    iotrace: Iotrace,
    program: &str,
    is_cached: bool,
    flush: &str,
) -> (Value, Value, Value) {
    let program = Program::new(program, is_cached);
    let iotrace = iotrace.flush(flush).args(["--waits"]);
    let finished = iotrace.command(&program.command);
    assert_eq!(finished.code(), 0, "{}", finished.stderr);
    let report = finished.report();
    assert_eq!(report["notes"]["waits_lost"], 0);
    let truth = program.truth();
    let found = of(&report, &truth);
    assert_eq!(
        found,
        of(&report_of(&[&finished.recording]), &truth),
        "the recording says the same"
    );
    (truth, found, report)
}

/// The report's object of the program's main thread.
pub fn of(report: &Value, truth: &Value) -> Value {
    let waits = report["waits"].as_array().expect("waits");
    let mut of_program = waits.iter().filter(|waiter| waiter["pid"] == truth["pid"]);
    of_program
        .next()
        .expect("the program's main thread")
        .clone()
}

/// What differs between the program's word and the report.
pub fn differences(program: &str, truth: &Value, found: &Value) -> Vec<String> {
    let seconds = |value: &Value| value.as_f64().expect("seconds");
    let mut differences = Vec::new();
    let leaves = found["leaves"].as_object().expect("leaves");
    let waiting = seconds(&found["waiting_seconds"]);
    let known = waiting + seconds(&found["running_seconds"]);
    let queued = seconds(&leaves["run_queue"]);
    for (kind, told) in truth.as_object().expect("truth") {
        if ["pid", "whole", "running", "epochs"].contains(&kind.as_str()) {
            continue;
        }
        let (told, found) = (seconds(told), seconds(&leaves[kind]));
        let near = NEAR_SECONDS.max(told * NEAR_SHARE);
        // What the program measures has its time on the run queue in it, and its start is not measured.
        let range = match kind.as_str() {
            "run_queue" => told - near..=told + near + known - seconds(&truth["whole"]),
            _ => told - near - queued..=told + near,
        };
        if !range.contains(&found) {
            differences.push(format!(
                "{program}: {kind} is {told:.3} s, not {found:.3} s ({queued:.3} s on the run queue)"
            ));
        }
    }
    let sum: f64 = leaves.values().map(seconds).sum();
    if (sum - waiting).abs() > 1e-6 {
        differences.push(format!(
            "{program}: {sum} s of leaves in {waiting} s of waiting"
        ));
    }
    // The interpreter's start is not in what the program measured.
    let (whole, running) = (seconds(&truth["whole"]), seconds(&truth["running"]));
    let found_running = seconds(&found["running_seconds"]);
    if found_running < running * 0.99 || waiting + found_running < whole * 0.99 {
        differences.push(format!(
            "{program}: {found_running} s of running and {waiting} s of waiting in {whole} s, of which it ran {running}"
        ));
    }
    if seconds(&leaves["unresolved"]) > 0.01 * whole {
        differences.push(format!("{program}: {} s unresolved", leaves["unresolved"]));
    }
    differences
}
