//! fio's own numbers, for several of its engines, are iotrace's numbers for its data files.

mod common;

use std::{fs, path::Path};

use common::{
    Iotrace,
    compare::{self, Counts},
    directory, number, text,
};
use serde_json::Value;

/// Runs a fio job in a new directory; fio's report and iotrace's.
fn fio(iotrace: Iotrace, options: &[&str]) -> (Value, Value) {
    let (_keep, dir) = directory();
    let output = dir.join("fio.json");
    let mut command = vec![common::tool("fio").into_os_string()];
    for option in [
        "--output-format=json",
        "--name=job",
        "--directory",
        path(&dir),
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
    (own, report)
}

fn path(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// Compares the reads and writes of fio's jobs, all together, with those of its data files.
#[track_caller]
fn same(own: &Value, report: &Value, syncs: bool) {
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
    // By file: each job has a file of its own, job.N.0.
    let mut files = std::collections::BTreeMap::<String, Counts>::new();
    for row in compare::list(report, "files") {
        let name = text(row, "path").rsplit('/').next().unwrap_or_default();
        if name.starts_with("job.") {
            files
                .entry(name.into())
                .or_default()
                .merge(&Counts::of(row));
        }
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

/// Nothing is laid out before the run.
const SIZE: [&str; 3] = ["--size=4m", "--bs=4k", "--fallocate=none"];

#[test]
fn psync_in_order() {
    let options = [&SIZE[..], &["--ioengine=psync", "--rw=write"]].concat();
    let (own, report) = fio(Iotrace::record(), &options);
    same(&own, &report, false);
}

#[test]
fn psync_with_syncs_by_several_processes() {
    let more = [
        "--ioengine=psync",
        "--rw=randwrite",
        "--numjobs=4",
        "--fdatasync=8",
    ];
    let (own, report) = fio(Iotrace::record(), &[&SIZE[..], &more].concat());
    same(&own, &report, true);
}

#[test]
fn io_uring_in_every_mode() {
    let modes: [&[&str]; 5] = [
        &["--rw=write"],
        &["--rw=randwrite", "--registerfiles=1", "--fixedbufs=1"],
        &["--rw=randwrite", "--registerfiles=1", "--sqthread_poll=1"],
        &["--rw=randwrite", "--force_async=1", "--numjobs=3"],
        &["--rw=randwrite", "--direct=1", "--fdatasync=32"],
    ];
    for mode in modes {
        let more = ["--ioengine=io_uring", "--iodepth=16"];
        let (own, report) = fio(Iotrace::record(), &[&SIZE[..], &more, mode].concat());
        same(&own, &report, mode.contains(&"--fdatasync=32"));
    }
}

#[test]
fn pvsync_by_several_threads() {
    for hook in ["btf", "tracepoint"] {
        let more = [
            "--ioengine=pvsync",
            "--rw=randwrite",
            "--numjobs=4",
            "--thread",
            "--bsrange=1k-64k",
        ];
        let options = [&["--size=4m", "--fallocate=none"][..], &more].concat();
        let (own, report) = fio(Iotrace::record().hook(hook), &options);
        same(&own, &report, false);
    }
}

#[test]
fn pvsync2_in_one_thread() {
    let options = [&SIZE[..], &["--ioengine=pvsync2", "--rw=write"]].concat();
    let (own, report) = fio(Iotrace::record().args(["--detail", "basic"]), &options);
    same(&own, &report, false);
}

#[test]
fn sync_with_seeks_and_vsync() {
    for engine in ["sync", "vsync"] {
        let engine = format!("--ioengine={engine}");
        // vsync joins neighbours into one call.
        let pattern = if engine.ends_with("vsync") {
            "--rw=randwrite"
        } else {
            "--rw=write"
        };
        let options = [
            &SIZE[..],
            &[engine.as_str(), pattern, "--numjobs=2", "--thread"],
        ]
        .concat();
        let (own, report) = fio(Iotrace::record(), &options);
        if engine.ends_with("=sync") {
            same(&own, &report, false);
        } else {
            let bytes: u64 = own["jobs"]
                .as_array()
                .unwrap()
                .iter()
                .map(|job| number(&job["write"], "io_bytes"))
                .sum();
            let rows = compare::list(&report, "files").iter();
            let data = rows.filter(|row| {
                text(row, "path")
                    .rsplit('/')
                    .next()
                    .is_some_and(|name| name.starts_with("job."))
            });
            assert_eq!(
                data.map(|row| number(row, "bytes_written")).sum::<u64>(),
                bytes
            );
        }
    }
}

/// Reads need their files first: laid out by a run that is not traced.
#[test]
fn reads_of_files_that_are_there() {
    for engine in ["psync", "pvsync", "sync"] {
        let (_keep, dir) = directory();
        let output = dir.join("fio.json");
        let engine = format!("--ioengine={engine}");
        let options = [
            "--name=job",
            "--directory",
            path(&dir),
            "--size=4m",
            "--bs=4k",
            engine.as_str(),
            "--numjobs=3",
            "--thread",
        ];
        let laid_out = std::process::Command::new(common::tool("fio"))
            .args(options)
            .args(["--rw=write", "--output=/dev/null"])
            .status();
        assert!(laid_out.unwrap().success());
        let mut command: Vec<String> = vec![path(&common::tool("fio")).into()];
        command.extend(options.iter().map(|option| (*option).to_owned()));
        for option in [
            "--rw=randrw",
            "--output-format=json",
            "--output",
            path(&output),
        ] {
            command.push(option.into());
        }
        let finished = Iotrace::record().command(&command);
        assert_eq!(finished.code(), 0, "{}", finished.stderr);
        let report = finished.report();
        let own: Value = serde_json::from_slice(&fs::read(&output).unwrap()).unwrap();
        same(&own, &report, false);
    }
}
