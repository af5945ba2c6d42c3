//! The service says what a report says: of programs that are recorded while a daemon runs, both have the same bytes in each
//! phase, the same saves and the same epochs.

use std::{path::Path, process::Command, thread};

use crate::common::{
    Iotrace,
    daemon::{self, Daemon, Sample, sum},
    directory, python,
};
use serde_json::Value;

const PROGRAMS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/corpus");
/// Programs of the corpus, by their script.
const CORPUS: [(&str, &[&str]); 3] = [
    (
        "saves",
        &[
            "overwrite",
            "step_directories",
            "renamed",
            "set_aside",
            "ranks",
            "tensorflow",
            "best_by_copy",
            "tiers",
            "verified",
            "logs_only",
        ],
    ),
    (
        "loads",
        &[
            "resumed",
            "resumed_and_saved",
            "shards",
            "evaluated_by_another",
            "handed_to_tools",
        ],
    ),
    (
        "epochs",
        &[
            "shuffled",
            "staged",
            "staged_by_its_maker",
            "workers",
            "with_saves",
            "clips",
            "one_epoch",
            "unknown_kept_in_memory",
        ],
    ),
];
/// Series of a node with this many jobs, at most.
const MAX_SERIES: usize = 2_500;
const JOBS: usize = 8;
/// Programs that are recorded at a time, at most.
const MAX_RECORDERS: usize = 4;
/// Phases that are compared; what a program needs to start begins before it is of its job.
const PHASES: [&str; 3] = ["training", "checkpoint", "restore"];

/// One program: its job, and what the report says of it.
struct Run {
    program: String,
    job: String,
    report: Value,
}

fn record_program(script: &str, program: &str, job: u32) -> Run {
    let (_keep, dir) = directory();
    let script = format!("{PROGRAMS}/{script}.py");
    let mut prepare = Command::new(python());
    prepare.args([&script, "--prepare", program]);
    assert!(prepare.current_dir(&dir).status().unwrap().success());
    record(&dir, &[&script, program], job)
}

/// The README's example.
fn record_example(job: u32) -> Run {
    const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/train.py");
    let (_keep, dir) = directory();
    record(&dir, &[EXAMPLE, "--data", "data", "--epochs", "4"], job)
}

/// Runs a program of Python as a job.
fn record(dir: &Path, args: &[&str], job: u32) -> Run {
    let (python, variable) = (python(), format!("SLURM_JOB_ID={job}"));
    // What the program prints would stand before the report.
    let quietly = ["sh", "-c", "exec \"$0\" \"$@\" > /dev/null"];
    let command = ["env", &variable].into_iter().chain(quietly);
    let command = command.chain([python.to_str().unwrap()]);
    let finished = Iotrace::record()
        .entries("32768")
        .current_dir(dir)
        .env("TRUTH", dir.join("truth.json").to_str().unwrap())
        .command(command.chain(args.iter().copied()));
    assert_eq!(finished.code(), 0, "{args:?}: {}", finished.stderr);
    Run {
        program: args[1].into(),
        job: format!("slurm:{job}"),
        report: finished.report(),
    }
}

/// What differs between a report and the samples of its job.
fn differences(run: &Run, samples: &[Sample]) -> Vec<String> {
    let mut differences = Vec::new();
    let mut compare = |what: String, reported: f64, served: f64| {
        if reported != served {
            let program = &run.program;
            differences.push(format!(
                "{program}: {what}: {reported} reported, {served} served"
            ));
        }
    };
    let of = |name: &str, labels: &[(&str, &str)]| {
        let labels: Vec<_> = labels
            .iter()
            .copied()
            .chain([("unit", &*run.job)])
            .collect();
        sum(samples, name, &labels)
    };
    for phase in PHASES {
        for (operation, key) in [("read", "bytes_read"), ("write", "bytes_written")] {
            let reported = run.report["phases"][phase][key].as_f64().unwrap_or(0.0);
            let labels = [("phase", phase), ("operation", operation)];
            let served = of("iotrace_bytes_total", &labels);
            compare(format!("{phase} {key}"), reported, served);
        }
    }
    let empty = Vec::new();
    let saves = run.report["checkpoints"].as_array().unwrap_or(&empty);
    let bytes = saves
        .iter()
        .map(|save| save["bytes_written"].as_f64().unwrap());
    let served = of("iotrace_checkpoints_total", &[]);
    compare("saves".into(), saves.len() as f64, served);
    let served = of("iotrace_checkpoint_bytes_total", &[]);
    compare("bytes of saves".into(), bytes.sum(), served);
    let epochs = run.report["epochs"].as_array().unwrap_or(&empty);
    let complete = epochs.iter().filter(|epoch| epoch["complete"] == true);
    let served = of("iotrace_epochs_total", &[]);
    compare("epochs".into(), complete.count() as f64, served);
    differences
}

/// A node with the jobs that have the most series.
fn has_few_series(runs: &[Run], samples: &[Sample]) {
    let of_job = |run: &Run| {
        let is_of = |sample: &&Sample| sample.label("unit") == run.job;
        samples.iter().filter(is_of).count()
    };
    let mut of_jobs: Vec<usize> = runs.iter().map(of_job).collect();
    // Other jobs are those of other tests.
    let is_of_node = |sample: &&Sample| !sample.label("unit").starts_with("slurm:");
    let of_node = samples.iter().filter(is_of_node).count();
    of_jobs.sort_unstable_by_key(|series| std::cmp::Reverse(*series));
    let series = of_node + of_jobs[..JOBS].iter().sum::<usize>();
    println!("{series} series, {of_node} of the node, {of_jobs:?} of jobs");
    assert!(
        series <= MAX_SERIES,
        "{series} series, {of_node} of the node, {of_jobs:?} of jobs"
    );
}

#[test]
fn the_service_says_what_the_report_says() {
    let daemon = Daemon::start(&mut daemon::command());
    let programs = CORPUS.iter().flat_map(|(script, programs)| {
        let programs = programs.iter();
        programs.map(move |program| (*script, *program))
    });
    let programs: Vec<_> = programs.zip(7000..).collect();
    let mut runs: Vec<Run> = thread::scope(|scope| {
        let some = programs.chunks(programs.len().div_ceil(MAX_RECORDERS));
        let recorders = some.map(|some| {
            scope.spawn(|| -> Vec<Run> {
                let some = some.iter();
                some.map(|((script, program), job)| record_program(script, program, *job))
                    .collect()
            })
        });
        let recorders: Vec<_> = recorders.collect();
        recorders
            .into_iter()
            .flat_map(|recorder| recorder.join().expect("recordings"))
            .collect()
    });
    runs.push(record_example(6999));
    let of_example = &runs[runs.len() - 1].report;
    assert_eq!(of_example["checkpoints"].as_array().unwrap().len(), 4);
    // Epochs are complete when nothing was read for a minute.
    let started = std::time::Instant::now();
    loop {
        let samples = daemon.scrape();
        let differences: Vec<_> = runs
            .iter()
            .flat_map(|run| differences(run, &samples))
            .collect();
        if differences.is_empty() {
            has_few_series(&runs, &samples);
            return;
        }
        assert!(
            started.elapsed().as_secs() < 150,
            "{}",
            differences.join("\n")
        );
        thread::sleep(std::time::Duration::from_secs(2));
    }
}
