//! What the main threads of units wait for, in metrics and job logs, against the programs' own clocks.

use std::{
    process::Command,
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;

use super::jobs::{complete, service};
use crate::common::{
    self,
    daemon::{Daemon, sum},
    export::report_of,
    quiet, text,
    waits::{self, Program},
};

const WAITS: &str = "iotrace_exposed_wait_seconds_total";
const WHOLE: &str = "iotrace_main_threads_seconds_total";

/// Runs a program, of a job if it has a number.
fn run(program: &Program, job: Option<&str>) {
    let mut command = Command::new(&program.command[0]);
    command.args(&program.command[1..]);
    if let Some(job) = job {
        command.env("SLURM_JOB_ID", job);
    }
    assert!(command.status().unwrap().success());
}

/// Seconds of a metric of a unit, by leaf and phase.
fn seconds(daemon: &Daemon, metric: &str, unit: &str, labels: &[(&str, &str)]) -> f64 {
    let labels: Vec<_> = [("unit", unit)].iter().chain(labels).copied().collect();
    sum(&daemon.scrape(), metric, &labels)
}

#[test]
fn waits_of_units_are_those_of_the_programs_own_clocks() {
    let logs = tempfile::tempdir().unwrap();
    let keys = "least = \"0s\"\n[metrics]\nwaits = [\"slurm\"]";
    let (daemon, _config) = service(logs.path(), keys);
    let mut number = 7100;
    let (truth, unit) = quiet::measured(|| {
        number += 1;
        let program = Program::new("by_pipe", false);
        run(&program, Some(&number.to_string()));
        (program.truth(), format!("slurm:{number}"))
    });
    let told = |name: &str| truth[name].as_f64().unwrap();
    let whole = || seconds(&daemon, WHOLE, &unit, &[]);
    let started = Instant::now();
    while whole() < told("whole") && started.elapsed() < Duration::from_secs(10) {
        thread::sleep(Duration::from_millis(200));
    }
    assert!(whole() >= told("whole") * 0.99, "{} of {truth}", whole());
    let leaf = |leaf| seconds(&daemon, WAITS, &unit, &[("leaf", leaf)]);
    let (storage, queued) = (leaf("storage"), leaf("run_queue"));
    let near = waits::NEAR_SECONDS.max(told("storage") * waits::NEAR_SHARE);
    let range = told("storage") - near - queued..=told("storage") + near;
    assert!(
        range.contains(&storage),
        "{storage} s, {queued} s queued: {truth}"
    );
    let of_training = seconds(
        &daemon,
        WAITS,
        &unit,
        &[("leaf", "storage"), ("phase", "training")],
    );
    assert!(of_training > 0.9 * storage, "{of_training} of {storage} s");
    assert!(leaf("unresolved") < 0.01 * told("whole"));
    // The log ends with the job, and says the same.
    let log = complete(logs.path(), &unit);
    let report = report_of(&[std::path::Path::new(text(&log, "directory"))]);
    let found = waits::of(&report, &truth);
    let logged = found["leaves"]["storage"].as_f64().unwrap();
    assert!((logged - storage).abs() < 0.02, "{logged} and {storage} s");
    // A run is judged by a thread that is known for at least half of it; the log begins up to a second before the job.
    let is_judged = whole() > 0.6 * report["duration_seconds"].as_f64().unwrap();
    // Where others use the CPUs, it waits for them, too.
    let is_crowded = queued >= 0.1 * told("whole");
    let code = text(&report["verdict"], "code");
    assert!(
        code == "waits-for-storage"
            || is_crowded && code == "waits-for-cpus"
            || !is_judged && code == "unclear",
        "{code}: {report}"
    );
    // Who is of no such unit has none.
    let program = Program::new("own_reads", false);
    run(&program, None);
    thread::sleep(Duration::from_secs(3));
    let samples = daemon.scrape();
    let mut others = samples.iter().filter(|sample| sample.name == WAITS);
    assert!(
        others.all(|sample| sample.label("unit").starts_with("slurm:")),
        "{samples:#?}"
    );
}

#[test]
fn without_being_asked_for_units_have_no_waits() {
    common::need_root();
    let logs = tempfile::tempdir().unwrap();
    let (daemon, _config) = service(logs.path(), "least = \"0s\"");
    let program = Program::new("own_reads", false);
    run(&program, Some("7200"));
    let log = complete(logs.path(), "slurm:7200");
    assert_eq!(seconds(&daemon, WHOLE, "slurm:7200", &[]), 0.0);
    let report = report_of(&[std::path::Path::new(text(&log, "directory"))]);
    assert_eq!(report["waits"], Value::Null);
}
