//! Experiments of published studies, on storage whose speed is set, against the programs' own clocks. `cargo xtask experiments`
//! makes tables of them.

use std::{
    ffi::{OsStr, OsString},
    fs,
    path::Path,
    time::Duration,
};

use crate::common::{
    Iotrace,
    compare::list,
    compiled, directory,
    experiment::{
        NEAR_SECONDS, NEAR_SHARE,
        Number::{Bandwidth, Count, Mean, Seconds},
        compare, keep,
    },
    number, python, quiet,
    slow::{Slow, Speed},
    turn,
};
use serde_json::Value;

const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/experiments.py");

/// Records a program that writes what it says to the path that is given to `command`: what it says, and the report.
fn run(args: &[&str], command: impl Fn(&Path) -> Vec<OsString>) -> (Value, Value) {
    quiet::measured(|| {
        let (_keep, dir) = directory();
        let truth = dir.join("truth.json");
        let iotrace = Iotrace::bare().entries("4096").args(args);
        let finished = iotrace.command(command(&truth));
        assert_eq!(finished.code(), 0, "{}", finished.stderr);
        let truth = fs::read(truth).expect("what the program says");
        let truth = serde_json::from_slice(&truth).expect("JSON");
        (truth, finished.report())
    })
}

/// The Python program with these arguments.
fn experiment(name: &str, truth: &Path, rest: &[&OsStr]) -> Vec<OsString> {
    let first = [python().into(), PROGRAM.into(), name.into(), truth.into()];
    let rest = rest.iter().map(|arg| (*arg).to_owned());
    first.into_iter().chain(rest).collect()
}

fn seconds(value: &Value) -> f64 {
    value.as_f64().expect("a number")
}

/// Mounts `count` samples of `bytes` each, and returns their paths. A MiB takes `ms` milliseconds to read from the first, third
/// and so on, and `between` from the others.
fn samples(at: &Path, count: usize, bytes: u64, [ms, between]: [u64; 2]) -> (Slow, Vec<OsString>) {
    let names: Vec<String> = (0..count).map(|at| format!("img-{at:04}.jpg")).collect();
    let speed = |index: usize| Speed {
        read: Duration::from_millis(if index.is_multiple_of(2) { ms } else { between }),
        ..Speed::default()
    };
    let files = names.iter().enumerate();
    let files: Vec<_> = files
        .map(|(index, name)| (name.as_str(), bytes, speed(index)))
        .collect();
    let mounted = Slow::mount(at, &files, Speed::default());
    (
        mounted,
        names.iter().map(|name| at.join(name).into()).collect(),
    )
}

/// More threads read more at a time, as long as storage serves them.
#[test]
fn threads_and_bandwidth() {
    let (_keep, dir) = directory();
    // Images of 110 KiB, 13 ms each.
    let (_mounted, paths) = samples(&dir.join("train"), 160, 110 << 10, [120, 120]);
    let program = compiled("readers.c", &dir, &["-pthread"]);
    for threads in ["1", "2", "4", "8"] {
        let (truth, report) = run(&[], |truth| {
            let command = [program.clone().into(), truth.into(), threads.into()];
            command.into_iter().chain(paths.clone()).collect()
        });
        let training = &report["phases"]["training"];
        let bytes = number(training, "bytes_read") as f64;
        let reading = seconds(&training["merged_seconds"]);
        let in_flight = seconds(&training["concurrency"]);
        compare(
            "Threads that read images",
            threads,
            &[
                Bandwidth("bandwidth", seconds(&truth["bandwidth"]), bytes / reading),
                Seconds("reading", seconds(&truth["reading"]), reading),
                Mean("in flight", seconds(&truth["in_flight"]), in_flight),
            ],
        );
    }
}

/// A loader that is ahead hides what storage takes.
#[test]
fn samples_ahead_and_waits() {
    turn::alone();
    let (_keep, dir) = directory();
    // 8 and 30 ms in turn: less than the 25 ms of computing on average.
    let (_mounted, paths) = samples(&dir.join("train"), 60, 1 << 20, [8, 30]);
    for ahead in ["0", "1", "8"] {
        let (truth, report) = run(&["--waits"], |truth| {
            let mut command = experiment("prefetch", truth, &[ahead.as_ref()]);
            command.extend(paths.clone());
            command
        });
        let waits = list(&report, "waits").iter();
        let mut of_program = waits.filter(|waits| waits["pid"] == truth["pid"]);
        let found = of_program.next().expect("the program's main thread");
        let leaf = |leaf: &str| seconds(&found["leaves"][leaf]);
        let (told, found) = (
            seconds(&truth["waited"]),
            leaf("storage") + leaf("loader_cpu"),
        );
        let line = keep(
            "Samples that a loader is ahead",
            ahead,
            &[Seconds("waited for samples", told, found)],
        );
        // What the program measures has the time of both processes on the run queue in it.
        let near = NEAR_SECONDS.max(told * NEAR_SHARE);
        let range = found - near..=found + near + leaf("run_queue");
        assert!(range.contains(&told), "{line} {}", leaf("run_queue"));
    }
}

/// What a save takes on a slow tier, on a fast one, and when it has reached the slow one.
#[test]
fn tiers_of_checkpoints() {
    let (_keep, dir) = directory();
    let slow = dir.join("project");
    let speed = Speed {
        write: Duration::from_millis(30),
        fsync: Duration::from_millis(40),
        ..Speed::default()
    };
    let _mounted = Slow::mount(&slow, &[], speed);
    for tier in ["slow", "fast", "copied"] {
        let fast = dir.join(tier);
        fs::create_dir(&fast).unwrap();
        let rest = [tier.as_ref(), fast.as_os_str(), slow.as_os_str()];
        let (truth, report) = run(&[], |truth| experiment("checkpoints", truth, &rest));
        let saves = list(&report, "checkpoints");
        let saving = saves.iter().map(|save| seconds(&save["seconds"])).sum();
        let mut numbers = vec![
            Seconds("saving", seconds(&truth["saving"]), saving),
            Count("saves", number(&truth, "saves"), saves.len() as u64),
        ];
        if tier == "copied" {
            let copies = list(&report, "copies");
            let lags = copies.iter().map(|copy| seconds(&copy["lag_seconds"]));
            let lag = lags.sum::<f64>() / copies.len() as f64;
            let told = seconds(&truth["lag"]);
            numbers.push(Seconds("on the slow tier after", told, lag));
        }
        compare("Tiers of checkpoints", tier, &numbers);
    }
}
