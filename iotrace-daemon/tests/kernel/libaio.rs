//! libaio: what programs and fio say that they did is what iotrace says.

use std::collections::BTreeMap;

use crate::common::{
    Iotrace,
    compare::{list, nothing_lost, sum_of},
    compiled, directory, fio, number, text,
};
use iotrace_common::op;
use iotrace_recording::trace::Trace;

const HOOKS: [&str; 2] = ["btf", "tracepoint"];

#[test]
fn every_request_is_counted_once() {
    let (_keep, dir) = directory();
    let program = compiled("aio.c", &dir, &[]);
    for hook in HOOKS {
        for detail in ["basic", "full"] {
            let run = Iotrace::record()
                .hook(hook)
                .args(["--detail", detail])
                .command([program.as_os_str(), dir.as_os_str()]);
            assert_eq!(run.code(), 0, "{}", run.stderr);
            let (truth, report) = run.truth_and_report();
            nothing_lost(&report);
            for (name, counts) in truth.as_object().expect("files") {
                for (counter, done) in counts.as_object().expect("counters") {
                    if counter == "within_ns" {
                        continue;
                    }
                    let found = sum_of(&report, &dir.join(name), counter);
                    assert_eq!(Some(found), done.as_u64(), "{counter} of {name} by {hook}");
                }
            }
            // From the submission to the result, as the program itself took the time around both.
            let called = dir.join("called").display().to_string();
            let rows = list(&report, "files").iter();
            let taken = rows
                .filter(|row| text(row, "path") == called)
                .map(|row| row["write_seconds"].as_f64().expect("a time"))
                .sum::<f64>();
            let within = number(&truth["called"], "within_ns") as f64 / 1e9;
            assert!(taken > 0.0 && taken <= within, "{taken} of {within} s");
        }
    }
}

#[test]
fn fio_counts_the_same() {
    for (hook, more) in HOOKS
        .into_iter()
        .zip([["--direct=0", "--numjobs=2"], ["--direct=1", "--thread"]])
    {
        for pattern in ["--rw=randwrite", "--rw=randread", "--rw=randrw"] {
            let (_keep, dir) = directory();
            let options = [
                &[
                    "--ioengine=libaio",
                    "--iodepth=16",
                    "--iodepth_batch_submit=8",
                    "--iodepth_batch_complete_max=8",
                    "--size=2m",
                    "--bs=4k",
                    "--fsync=32",
                    pattern,
                ],
                &more[..],
            ]
            .concat();
            fio::lay_out(&dir, &options);
            let (own, report, _) = fio::run(Iotrace::record().hook(hook), &dir, &options);
            fio::same(&own, &report, pattern != "--rw=randread");
        }
    }
}

/// fio takes the results out of the ring itself.
#[test]
fn results_that_no_call_returns() {
    let (_keep, dir) = directory();
    let options = [
        "--ioengine=libaio",
        "--userspace_reap",
        "--iodepth=32",
        "--rw=randrw",
        "--size=4m",
        "--bs=4k",
    ];
    fio::lay_out(&dir, &options);
    let (own, report, _) = fio::run(Iotrace::record(), &dir, &options);
    fio::same(&own, &report, false);
}

/// Every operation by itself, with the offset and the length that it was asked for.
#[test]
fn operations_are_traced() {
    let (_keep, dir) = directory();
    let options = [
        "--ioengine=libaio",
        "--iodepth=8",
        "--rw=write",
        "--size=1m",
        "--bs=4k",
        "--fallocate=none",
    ];
    let iotrace = Iotrace::record().args(["--trace"]);
    let (own, report, run) = fio::run(iotrace, &dir, &options);
    fio::same(&own, &report, false);
    let trace = Trace::open(&run.recording).unwrap().expect("a trace");
    let rows: Vec<_> = trace.rows().collect::<Result<_, _>>().unwrap();
    let mut written = BTreeMap::<_, Vec<_>>::new();
    for row in rows.iter().filter(|row| row.op as usize == op::WRITE) {
        let operation = (row.offset, row.length, row.result);
        written.entry(row.file).or_default().push(operation);
    }
    let expected: Vec<_> = (0..256)
        .map(|block| (Some(4096 * block), Some(4096), 4096))
        .collect();
    let files = written.values_mut().map(|operations| {
        operations.sort_unstable();
        &*operations
    });
    assert_eq!(files.filter(|file| **file == expected).count(), 1);
}
