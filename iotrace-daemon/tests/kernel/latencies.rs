//! How long operations took, against the operation trace of the same run: operation for operation.

use std::{collections::BTreeMap, path::Path};

use iotrace_common::{
    latency::bucket,
    op::{class, class_of},
};
use iotrace_recording::trace::Trace;
use serde_json::Value;

use crate::common::{Iotrace, directory, number, workload};

/// Nanoseconds of every operation by process, device of the file (0: none) and class, in ascending order.
type Times = BTreeMap<(u32, u32, u8), Vec<u64>>;

fn times_of_trace(recording: &Path) -> Times {
    let trace = Trace::open(recording).unwrap().expect("a trace");
    let mut times = Times::new();
    for row in trace.rows() {
        let row = row.unwrap_or_else(|error| panic!("{error}"));
        let class = match row.result {
            ..0 => class::FAILED,
            _ => class_of(row.op as usize),
        };
        let device = trace.file(&row).map_or(0, |file| file.device);
        let of = times.entry((row.pid, device, class as u8)).or_default();
        of.push(row.duration as u64);
    }
    times.values_mut().for_each(|of| of.sort_unstable());
    times
}

/// The bound of the bucket of the operation of that rank, if it is not the longest.
#[track_caller]
fn same_percentile(found: u64, sorted: &[u64], percent: usize) {
    let exact = sorted[(sorted.len() * percent).div_ceil(100) - 1];
    assert_eq!(
        bucket(found),
        bucket(exact),
        "{percent} %: {found} for {exact}"
    );
    assert!(found >= exact && found <= sorted[sorted.len() - 1]);
}

/// Records a mode of the workload with latencies and trace, and compares them.
fn compare(hook: &str, mode: &[&str]) {
    let (_keep, dir) = directory();
    let mut args = vec![mode[0].to_owned(), dir.to_str().unwrap().to_owned()];
    args.extend(mode[1..].iter().map(|arg| (*arg).to_owned()));
    let record = Iotrace::record()
        .hook(hook)
        .args(["--latencies", "--trace", "--detail", "basic"]);
    let finished = record.workload(args);
    assert_eq!(finished.code(), 0, "{}", finished.stderr);
    let times = is_as_traced(&finished.recording);
    let (_, report) = finished.truth_and_report();
    agrees_by_operation(&report, &times);
}

/// Compares what a recording has of each process, device and class with its trace, of which the times are returned.
fn is_as_traced(recording: &Path) -> Times {
    let times = times_of_trace(recording);
    let model = iotrace_recording::read(recording).unwrap().model;
    let mut found: BTreeMap<_, iotrace_model::latencies::Histogram> = BTreeMap::new();
    for (process, of, histogram) in model.latencies().all() {
        let pid = model.processes()[process as usize].id.pid;
        let key = (pid, of.device, of.class);
        found.entry(key).or_default().absorb(histogram);
    }
    assert!(times.len() > 3);
    assert_eq!(
        found.keys().collect::<Vec<_>>(),
        times.keys().collect::<Vec<_>>()
    );
    for (key, sorted) in &times {
        let histogram = &found[key];
        assert_eq!(histogram.calls(), sorted.len() as u64, "{key:?}");
        assert_eq!(histogram.longest(), sorted[sorted.len() - 1], "{key:?}");
        for percent in [1, 50, 95, 99, 100] {
            same_percentile(histogram.percentile(percent as u64), sorted, percent);
        }
        for (bound, calls) in histogram.buckets() {
            let of = bucket(bound.unwrap_or(u64::MAX));
            let exact = sorted.iter().filter(|time| bucket(**time) == of);
            assert_eq!(exact.count() as u64, calls, "{key:?} {bound:?}");
        }
    }
    times
}

/// The report's percentiles over all processes.
fn agrees_by_operation(report: &Value, times: &Times) {
    let by_operation = report["latencies"]["by_operation"].as_array().unwrap();
    assert!(by_operation.len() > 2);
    for of in by_operation {
        let named = |key: &&(u32, u32, u8)| of["operation"] == class::NAMES[usize::from(key.2)];
        let of_class = times.iter().filter(|(key, _)| named(key));
        let mut sorted: Vec<u64> = of_class.flat_map(|(_, times)| times).copied().collect();
        sorted.sort_unstable();
        assert_eq!(number(of, "calls"), sorted.len() as u64);
        for percent in [50, 95, 99] {
            let seconds = of[format!("p{percent}_at_most_seconds")].as_f64().unwrap();
            same_percentile((seconds * 1e9).round() as u64, &sorted, percent);
        }
    }
}

#[test]
fn percentiles_of_every_call_are_those_of_the_trace() {
    for hook in ["btf", "tracepoint"] {
        compare(hook, &["every-call"]);
    }
}

#[test]
fn threads_of_a_process_are_one() {
    compare("auto", &["threads-on-one"]);
}

/// Requests of io_uring end in a state of their CPU, not of a thread.
#[test]
fn requests_of_processes_on_one_cpu_are_told_apart() {
    let (_keep, dir) = directory();
    let script = "for i in 1 2 3; do mkdir $1/$i; \"$0\" uring $1/$i > $1/$i.txt & done; wait";
    let workload = workload();
    let finished = Iotrace::record()
        .args(["--latencies", "--trace", "--detail", "basic"])
        .command([
            "taskset".as_ref(),
            "-c".as_ref(),
            "0".as_ref(),
            "sh".as_ref(),
            "-c".as_ref(),
            script.as_ref(),
            workload.as_os_str(),
            dir.as_os_str(),
        ]);
    assert_eq!(finished.code(), 0, "{}", finished.stderr);
    let times = is_as_traced(&finished.recording);
    assert!(times.len() > 12);
}

#[test]
fn devices_are_told_apart() {
    let (_keep, dir) = directory();
    let script = format!(
        "for i in 1 2 3; do echo x > {0}/a$i; echo y > /dev/shm/iotrace-latencies-$$; done; rm /dev/shm/iotrace-latencies-$$",
        dir.display()
    );
    let finished = Iotrace::record()
        .args(["--latencies"])
        .command(["sh", "-c", &script]);
    let report = finished.report();
    let rows = report["latencies"]["by_phase_and_mount"]
        .as_array()
        .unwrap();
    let writes = |mount: &str| -> u64 {
        let of = rows.iter().filter(|row| {
            row["operation"] == "write" && row["mount_point"].as_str() == Some(mount)
        });
        of.map(|row| number(row, "calls")).sum()
    };
    assert_eq!(writes("/dev/shm"), 3);
    let all: u64 = report["latencies"]["by_operation"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|of| of["operation"] == "write")
        .map(|of| number(of, "calls"))
        .sum();
    assert_eq!(all, 6);
}

#[test]
fn nothing_is_kept_that_was_not_asked_for() {
    let (_keep, dir) = directory();
    let finished = Iotrace::record().workload(["every-call", dir.to_str().unwrap()]);
    let (_, report) = finished.truth_and_report();
    assert_eq!(report["latencies"], Value::Null);
    let model = iotrace_recording::read(&finished.recording).unwrap().model;
    assert_eq!(model.latencies().all().count(), 0);
}
