//! Runs fio under iotrace, and compares what both say of its data files.

use std::{collections::BTreeMap, fs, path::Path, process::Command};

use serde_json::Value;

use super::{
    Iotrace,
    compare::{self, Counts},
    number,
    run::Finished,
    text, tool,
};

/// Lays the files of a job out, so that it can read them.
pub fn lay_out(dir: &Path, options: &[&str]) {
    let status = Command::new(tool("fio"))
        .args(["--name=job", "--directory"])
        .arg(dir)
        .args(options)
        .args(["--output=/dev/null"])
        .args(["--rw=write", "--ioengine=psync", "--end_fsync=1"])
        .status();
    assert!(status.expect("fio").success());
}

/// Runs a fio job in a directory; fio's report, iotrace's, and the run.
pub fn run(iotrace: Iotrace, dir: &Path, options: &[&str]) -> (Value, Value, Finished) {
    let output = dir.join("fio.json");
    let mut command = vec![tool("fio").into_os_string()];
    for option in [
        "--output-format=json",
        "--name=job",
        "--directory",
        path(dir),
        "--output",
        path(&output),
    ] {
        command.push(option.into());
    }
    command.extend(options.iter().map(Into::into));
    let finished = iotrace.command(command);
    assert_eq!(finished.code(), 0, "{}{}", finished.stdout, finished.stderr);
    let report = finished.report();
    let own = serde_json::from_slice(&fs::read(output).unwrap()).unwrap();
    (own, report, finished)
}

fn path(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// The rows of the data files: each job has one of its own, job.N.0.
pub fn rows(report: &Value) -> impl Iterator<Item = (&str, &Value)> {
    compare::list(report, "files").iter().filter_map(|row| {
        let name = text(row, "path").rsplit('/').next().unwrap_or_default();
        name.starts_with("job.").then_some((name, row))
    })
}

/// Compares the reads and writes of fio's jobs, all together, with those of its data files.
#[track_caller]
pub fn same(own: &Value, report: &Value, syncs: bool) {
    let mut jobs: Vec<[u64; 4]> = own["jobs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|job| {
            let (read, write) = (&job["read"], &job["write"]);
            [
                number(read, "total_ios"),
                number(read, "io_bytes"),
                number(write, "total_ios"),
                number(write, "io_bytes"),
            ]
        })
        .collect();
    let mut files = BTreeMap::<&str, Counts>::new();
    for (name, row) in rows(report) {
        files.entry(name).or_default().merge(&Counts::of(row));
    }
    let mut found: Vec<[u64; 4]> = files
        .values()
        .map(|counts| {
            ["reads", "bytes_read", "writes", "bytes_written"].map(|name| counts.get(name))
        })
        .collect();
    jobs.sort_unstable();
    found.sort_unstable();
    assert_eq!(
        jobs, found,
        "reads, bytes read, writes, bytes written of each job: fio's and iotrace's"
    );
    assert!(jobs.iter().all(|job| job[0] + job[2] > 0));
    if syncs {
        let done: u64 = own["jobs"]
            .as_array()
            .unwrap()
            .iter()
            .map(|job| number(&job["sync"]["lat_ns"], "N"))
            .sum();
        let found: u64 = files
            .values()
            .map(|counts| counts.get("fsyncs") + counts.get("fdatasyncs"))
            .sum();
        assert!(
            done > 0 && found >= done,
            "{done} syncs by fio, {found} by iotrace"
        );
    }
}
