//! fio's own numbers, for several of its engines, are iotrace's numbers for its data files.

use crate::common::{
    Iotrace,
    compare::list,
    directory,
    fio::{self, same},
    number, text,
};
use serde_json::Value;

/// Runs a fio job in a new directory; fio's report and iotrace's.
fn run(iotrace: Iotrace, options: &[&str]) -> (Value, Value) {
    let (_keep, dir) = directory();
    let (own, report, _) = fio::run(iotrace, &dir, options);
    (own, report)
}

/// Nothing is laid out before the run.
const SIZE: [&str; 3] = ["--size=4m", "--bs=4k", "--fallocate=none"];

#[test]
fn psync_in_order() {
    let options = [&SIZE[..], &["--ioengine=psync", "--rw=write"]].concat();
    let (own, report) = run(Iotrace::record(), &options);
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
    let (own, report) = run(Iotrace::record(), &[&SIZE[..], &more].concat());
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
        let (own, report) = run(Iotrace::record(), &[&SIZE[..], &more, mode].concat());
        same(&own, &report, mode.contains(&"--fdatasync=32"));
    }
}

#[test]
fn io_uring_reads_in_every_mode() {
    let modes: [&[&str]; 4] = [
        &["--registerfiles=1", "--fixedbufs=1"],
        &["--registerfiles=1", "--sqthread_poll=1"],
        &["--nonvectored=0", "--numjobs=2"],
        &["--direct=1", "--force_async=4"],
    ];
    for mode in modes {
        let (_keep, dir) = directory();
        let more = ["--ioengine=io_uring", "--iodepth=16", "--rw=randrw"];
        let options = [&SIZE[..], &more, mode].concat();
        fio::lay_out(&dir, &[&SIZE[..], &mode_of_files(mode)].concat());
        let (own, report, _) = fio::run(Iotrace::record(), &dir, &options);
        same(&own, &report, false);
    }
}

/// What says how many files there are.
fn mode_of_files<'a>(mode: &[&'a str]) -> Vec<&'a str> {
    let jobs = mode.iter().filter(|option| option.starts_with("--numjobs"));
    jobs.copied().collect()
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
        let (own, report) = run(Iotrace::record().hook(hook), &options);
        same(&own, &report, false);
    }
}

#[test]
fn pvsync2_in_one_thread() {
    let options = [&SIZE[..], &["--ioengine=pvsync2", "--rw=write"]].concat();
    let (own, report) = run(Iotrace::record().args(["--detail", "basic"]), &options);
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
        let (own, report) = run(Iotrace::record(), &options);
        if engine.ends_with("=sync") {
            same(&own, &report, false);
        } else {
            let bytes: u64 = own["jobs"]
                .as_array()
                .unwrap()
                .iter()
                .map(|job| number(&job["write"], "io_bytes"))
                .sum();
            let rows = list(&report, "files").iter();
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
        let engine = format!("--ioengine={engine}");
        let options = [
            &SIZE[..],
            &[engine.as_str(), "--rw=randrw", "--numjobs=3", "--thread"],
        ]
        .concat();
        fio::lay_out(&dir, &options);
        let (own, report, _) = fio::run(Iotrace::record(), &dir, &options);
        same(&own, &report, false);
    }
}
