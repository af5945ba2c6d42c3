//! How long operations of units took, in metrics and job logs, against the program's own clock.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use iotrace_common::{latency::Latencies, limits::LATENCY_ENTRIES, value::Cell};
use serde_json::Value;
use tempfile::TempDir;

use super::jobs::{complete, service};
use crate::common::{
    self,
    daemon::{Daemon, Mounted, Sample, sum},
    directory,
    export::report_of,
    number, python,
    slow::{Slow, Speed},
    text,
};

const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/timed.py");
const COUNT: &str = "iotrace_latency_seconds_count";
const BUCKET: &str = "iotrace_latency_seconds_bucket";
/// What a read takes at least.
const READ: Duration = Duration::from_millis(20);

/// A directory whose files are read slowly, and one in memory that is written to.
struct Files {
    source: PathBuf,
    target: Mounted,
    _slow: Slow,
    _keep: TempDir,
}

impl Files {
    fn new() -> Self {
        common::need_root();
        let (keep, dir) = directory();
        let source = dir.join("train");
        let speed = Speed {
            read: READ,
            ..Speed::default()
        };
        Self {
            _slow: Slow::of_samples(&source, speed),
            target: Mounted::new(),
            source,
            _keep: keep,
        }
    }

    fn source(&self) -> &str {
        self.source.to_str().unwrap()
    }

    /// Runs the program, as a job; the nanoseconds of its reads and of its writes, in ascending order.
    fn run(&self, job: &str) -> [Vec<u64>; 2] {
        let truth = tempfile::NamedTempFile::new().unwrap();
        let status = Command::new(python())
            .arg(PROGRAM)
            .args([truth.path(), &self.source, &self.target.path])
            .env("SLURM_JOB_ID", job)
            .status();
        assert!(status.unwrap().success());
        let truth: Value = serde_json::from_slice(&fs::read(truth.path()).unwrap()).unwrap();
        ["reads", "writes"].map(|of| {
            let times = truth[of].as_array().unwrap().iter();
            let mut times: Vec<u64> = times.map(|time| time.as_u64().unwrap()).collect();
            times.sort_unstable();
            times
        })
    }
}

fn report(logs: &Path, unit: &str) -> Value {
    let log = complete(logs, unit);
    report_of(&[Path::new(text(&log, "directory"))])
}

/// Bounds of a histogram, nanoseconds, and how many operations took no more.
fn buckets(samples: &[Sample], labels: &[(&str, &str)]) -> Vec<(f64, u64)> {
    let is_of = |sample: &&Sample| {
        let mut labels = labels.iter();
        sample.name == BUCKET && labels.all(|(name, value)| sample.label(name) == *value)
    };
    let all = samples.iter().filter(is_of);
    let bound = |le: &str| match le {
        "+Inf" => f64::INFINITY,
        le => le.parse::<f64>().unwrap() * 1e9,
    };
    all.map(|sample| (bound(sample.label("le")), sample.value as u64))
        .collect()
}

/// What metrics have of the calls that a program timed. A call is a little shorter than by the program's clock.
#[track_caller]
fn are_as_timed(samples: &[Sample], labels: &[(&str, &str)], own: &[u64], shortest: u64) {
    let buckets = buckets(samples, labels);
    assert_eq!(buckets.len(), 22, "one histogram: {labels:?}");
    assert_eq!(buckets.last().unwrap().1, own.len() as u64, "{labels:?}");
    for (bound, calls) in buckets {
        let below = own.iter().filter(|time| (**time as f64) < bound).count() as u64;
        assert!(calls >= below, "{calls} and {below} below {bound} ns");
        assert!(
            calls == 0 || bound > shortest as f64,
            "{calls} in {bound} ns"
        );
    }
    let longest = sum(samples, "iotrace_latency_longest_seconds", labels) * 1e9;
    let range = shortest as f64..=*own.last().unwrap() as f64;
    assert!(range.contains(&longest), "{longest} ns of {range:?}");
    let seconds = sum(samples, "iotrace_latency_seconds_sum", labels);
    let all = own.iter().sum::<u64>() as f64 / 1e9;
    let least = (shortest * own.len() as u64) as f64 / 1e9;
    let range = least * 15.0 / 16.0..=all * 17.0 / 16.0;
    assert!(range.contains(&seconds), "{seconds} s of {range:?}");
}

/// The same of the rows of a report's section.
#[track_caller]
fn is_reported_as_timed(report: &Value, mount_point: &str, operation: &str, own: &[u64]) {
    let rows = report["latencies"]["by_phase_and_mount"].as_array();
    let mut rows = rows.expect("latencies").iter().filter(|row| {
        row["mount_point"].as_str() == Some(mount_point) && row["operation"] == operation
    });
    let row = rows.next().expect("a row of the mount");
    assert_eq!(number(row, "calls"), own.len() as u64, "{row}");
    for percent in [50, 95, 99] {
        let seconds = row[format!("p{percent}_at_most_seconds")].as_f64().unwrap();
        let exact = own[(own.len() * percent).div_ceil(100) - 1] as f64 / 1e9;
        assert!(
            seconds <= exact * 1.125,
            "{percent} %: {seconds} of {exact}"
        );
    }
    assert_eq!(rows.next(), None, "of one phase");
}

#[test]
fn latencies_of_units_are_those_of_the_programs_own_clock() {
    let files = Files::new();
    let logs = tempfile::tempdir().unwrap();
    let keys = "least = \"0s\"\nlatencies = true\n[metrics]\nlatencies = [\"slurm\"]";
    let (daemon, _config) = service(logs.path(), keys);
    let [reads, writes] = files.run("7300");
    let unit = ("unit", "slurm:7300");
    let report = report(logs.path(), unit.1);
    let samples = daemon.scrape();
    let of = |mount, operation| [unit, ("mountpoint", mount), ("operation", operation)];
    let shortest = READ.as_nanos() as u64;
    are_as_timed(&samples, &of(files.source(), "read"), &reads, shortest);
    let of_phase = sum(
        &samples,
        COUNT,
        &[unit, ("phase", "training"), ("operation", "read")],
    );
    assert_eq!(of_phase as usize, reads.len(), "all are of the data");
    are_as_timed(&samples, &of(files.target.name(), "write"), &writes, 1);
    is_reported_as_timed(&report, files.source(), "read", &reads);
    is_reported_as_timed(&report, files.target.name(), "write", &writes);
    let row = &report["latencies"]["by_phase_and_mount"][0];
    assert_eq!(row["mount_point"], files.source(), "most of the time");
    assert!(
        row["p50_at_most_seconds"].as_f64() >= Some(READ.as_secs_f64()),
        "{row}"
    );
    // Metrics and log have the same operations, and no others than the counters.
    let by_operation = report["latencies"]["by_operation"].as_array().unwrap();
    let logged: u64 = by_operation.iter().map(|of| number(of, "calls")).sum();
    assert_eq!(sum(&samples, COUNT, &[unit]) as u64, logged);
    // Some counters wait until their phase is decided.
    daemon.until("as many operations as latencies", |samples| {
        let counted = ["iotrace_operations_total", "iotrace_errors_total"];
        let counted = counted.map(|name| sum(samples, name, &[unit]) as u64);
        (counted.iter().sum::<u64>() == logged).then_some(())
    });
    // No unit of another kind has any.
    let others = samples.iter().filter(|sample| sample.name == COUNT);
    for other in others {
        assert!(other.label("unit").starts_with("slurm:"), "{other:?}");
    }
}

/// Bytes of the kernel side's maps.
fn map_bytes(daemon: &Daemon) -> u64 {
    sum(&daemon.scrape(), "iotrace_map_bytes", &[]) as u64
}

#[test]
fn who_is_not_to_be_told_of_latencies_has_none() {
    let files = Files::new();
    // Neither: there is not even room for them.
    let logs = tempfile::tempdir().unwrap();
    let (off, _config) = service(logs.path(), "least = \"0s\"");
    files.run("7310");
    assert_eq!(report(logs.path(), "slurm:7310")["latencies"], Value::Null);
    assert_eq!(sum(&off.scrape(), COUNT, &[]), 0.0);
    let bytes = map_bytes(&off);
    drop(off);
    // Logs, and no metrics.
    let logs = tempfile::tempdir().unwrap();
    let (daemon, _config) = service(logs.path(), "least = \"0s\"\nlatencies = true");
    files.run("7311");
    let report_of_log = report(logs.path(), "slurm:7311");
    assert!(report_of_log["latencies"].is_object(), "{report_of_log}");
    assert_eq!(sum(&daemon.scrape(), COUNT, &[]), 0.0);
    let cells = 2 * u64::from(LATENCY_ENTRIES) * size_of::<Cell<Latencies>>() as u64;
    let more = map_bytes(&daemon) - bytes;
    // Without them, there is a page.
    assert!(more > cells / 2, "{more} of {cells} bytes");
    drop(daemon);
    // Metrics of one unit, and no logs.
    let logs = tempfile::tempdir().unwrap();
    let keys = "least = \"0s\"\n[metrics]\nlatencies = [\"slurm:7312\"]";
    let (daemon, _config) = service(logs.path(), keys);
    files.run("7312");
    files.run("7313");
    assert_eq!(report(logs.path(), "slurm:7312")["latencies"], Value::Null);
    assert_eq!(report(logs.path(), "slurm:7313")["latencies"], Value::Null);
    let samples = daemon.scrape();
    assert!(sum(&samples, COUNT, &[("unit", "slurm:7312")]) >= 64.0);
    assert_eq!(sum(&samples, COUNT, &[("unit", "slurm:7313")]), 0.0);
}
