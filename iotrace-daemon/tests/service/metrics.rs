//! The metrics as they leave: names, types and labels are held by a file, and by promtool.

use std::{fs, path::Path, sync::Arc, time::Duration};

use iotrace_common::{
    block::Requests,
    histogram::Durations,
    latency,
    op::{self, class},
};

use crate::common;
use iotrace_model::{
    IoTotals,
    block::{Classes, Device},
    counters::{BYTES_READ, BYTES_WRITTEN, READ_NS, WRITE_NS, ZERO_READS},
    latencies::Histogram,
    run::Clock,
};
use iotrace_phases::phase::Phase;
use iotrace_service::{
    attribution,
    config::Config,
    metrics::{Exporter, Format},
    own::{Front, Resources, Usage},
    shared::{Draining, Memory, Recordings, Service, Shared, State},
    totals::{Key, LatencyBuckets, Mount, NO_MOUNT, Saved, Totals, UNKNOWN, Value},
};
use iotrace_tracer::kernel::{ByPhase, HookState, ProgramRuns};

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/metrics.txt");

const JOB: &str = "0::/system.slice/slurmstepd.scope/job_4242/step_0\n";
const ENVIRONMENT: &[u8] = b"SLURM_JOB_ID=4242\0SLURM_JOB_USER=ada\0SLURM_JOB_ACCOUNT=physics\0\
      SLURM_JOB_PARTITION=gpu\0SLURM_JOB_NAME=a \"b\"\\c\n,d=}\0";

fn totals() -> Totals {
    let mut totals = Totals::new(1000);
    let slurm = attribution::unit(ENVIRONMENT, JOB, false);
    let pod = "0::/kubepods/pod3f1c2a4b-5d6e-4f70-8192-a3b4c5d6e7f8/\
               2fa1b5c8d9e00112233445566778899aabbccddeeff00112233445566778899a\n";
    let pod = attribution::unit(b"", pod, false);
    let lustre = totals.mount_id(&Mount {
        mountpoint: "/mnt/a \"b\"\\c\n".into(),
        fstype: "lustre".into(),
    });
    for (unit, scale) in [(slurm, 1), (pod, 10)] {
        let unit = totals.unit(&unit);
        totals.hold(unit);
        let key = |phase, mount| Key { unit, phase, mount };
        let training = key(Phase::Training, lustre);
        for (value, count) in [
            (Value::Counter(op::READ), 300),
            (Value::Counter(op::OPEN), 100),
            (Value::Counter(BYTES_READ), 1 << 40),
            (Value::Counter(ZERO_READS), 100),
            (Value::Counter(READ_NS), 1_500_000_000),
            (Value::FilesSeen, 100),
        ] {
            totals.add(training, value, count * scale);
        }
        let save = key(Phase::Checkpoint, lustre);
        totals.add(save, Value::Counter(op::WRITE), 7 * scale);
        totals.add(save, Value::Counter(BYTES_WRITTEN), 4096 * scale);
        totals.add(save, Value::Counter(WRITE_NS), scale);
        totals.add(
            key(Phase::Training, NO_MOUNT),
            Value::MergedTime,
            1_250_000_000 * scale,
        );
        let missing = Value::Error {
            op: op::OPEN as u32,
            errno: libc::ENOENT as u32,
        };
        totals.add(key(Phase::from_code(6), NO_MOUNT), missing, 3 * scale);
    }
    let slurm = totals.unit(&attribution::unit(b"", JOB, false));
    for (first, last) in [(100, 112), (200, 203)] {
        let save = Saved {
            bytes: 1 << 30,
            unsynced_bytes: 1 << 20,
            first: first * 1_000_000_000,
            last: last * 1_000_000_000,
        };
        totals.save(slurm, save);
    }
    let key = Key {
        unit: UNKNOWN,
        phase: Phase::UNMATCHED,
        mount: NO_MOUNT,
    };
    totals.add(key, Value::Counter(op::STAT), 1);
    totals.set_beside(slurm, |beside| {
        beside.epochs = Some(3);
        beside.last_read = Some(210_500_000_000);
        beside.open_files = Some(42);
        beside.findings.insert(("slow-mount", "high"), 1);
        beside.waits.insert(("storage", "training"), 1_500_000_000);
        beside.main_threads = Some(2_000_000_000);
        for (mount, class) in [(lustre, class::READ), (NO_MOUNT, class::METADATA)] {
            let mut buckets = LatencyBuckets::default();
            buckets.add(&took());
            beside
                .latencies
                .insert((mount, Phase::Training, class), buckets);
        }
        let call = ("read".to_owned(), "/lustre".to_owned());
        beside.in_flight.insert(call, 90_000_000_000);
    });
    totals.directories.set_limit(1);
    totals.processes.set_limit(1);
    let sums = IoTotals {
        operations: 12,
        bytes_read: 4096,
        bytes_written: 512,
        ns: 2_500_000_000,
        merged_ns: 2_500_000_000,
    };
    for (directory, pid) in [("/data/train", 4000), ("/tmp", 4001)] {
        let key = (slurm, Phase::Training, directory.to_owned());
        totals.directories.add(key, sums);
        totals.processes.add((slurm, pid), sums);
    }
    totals
}

/// Operations of 5 us, 3 ms and 10 s.
fn took() -> Histogram {
    let mut histogram = Histogram::default();
    for (ns, calls) in [(5_000, 20), (3_000_000, 2), (10_000_000_000, 1)] {
        histogram.add(latency::bucket(ns) as u8, calls, ns);
    }
    histogram
}

fn histograms() -> ByPhase {
    let mut all = ByPhase::default();
    // Two numbers of the kernel side that are one phase here.
    for code in [0, Phase::UNMATCHED.code()] {
        all[usize::from(code)].durations[class::OPEN] = Durations {
            calls: std::array::from_fn(|bucket| u64::from(bucket == 1)),
            ns: 2500,
        };
    }
    let training = &mut all[usize::from(Phase::Training.code())];
    training.durations[class::READ].calls[0] = 250;
    training.durations[class::READ].calls[15] = 50;
    training.durations[class::READ].ns = 600_000_000_000;
    training.sizes[0].calls[2] = 40;
    training.sizes[0].calls[9] = 160;
    training.sizes[0].bytes = 1 << 40;
    all
}

/// A disk that was read, and flushed once.
fn device() -> (Device, Classes) {
    let disk = Device {
        number: 259 << 20,
        name: "nvme0n1".into(),
    };
    let mut classes = Classes::default();
    classes[0] = Requests {
        requests: 3,
        bytes: 12_288,
        failures: 1,
        ns: 250_000,
        deepest: 2,
        ..Requests::default()
    };
    (classes[0].durations[4], classes[0].durations[5]) = (2, 1);
    classes[2].requests = 1;
    classes[2].durations[0] = 1;
    (disk, classes)
}

fn exporter() -> Exporter {
    let hook = |name: &str, required, attached| HookState {
        name: name.into(),
        required,
        attached,
        reason: (!attached).then(|| "this kernel does not have it".into()),
    };
    let service = Service {
        version: "1.2.3",
        host: "node01".into(),
        kernel: "6.1.0".into(),
        started: "2025-11-20T23:53:00.000000Z".into(),
        hook: "btf".into(),
        detail: "basic".into(),
        hooks: vec![
            hook("sys_enter", true, true),
            hook("sched_process_exit", false, false),
        ],
        clock: Clock {
            realtime_minus_monotonic_ns: 1_700_000_000_000_000_000,
            ..Clock::default()
        },
        warnings: vec![],
        unaccounted: [
            ("lost_operations", 0),
            ("lost_bytes", 3),
            ("skipped", 12),
            ("damaged_events", 1),
        ]
        .map(|(reason, count)| (reason.into(), count))
        .into(),
        drain: Draining {
            drains: 10,
            entries: 1000,
            seconds: 0.25,
            longest_seconds: 0.125,
            map_entries: 90,
            map_entries_limit: 131_072,
            map_bytes: 1 << 20,
        },
        programs: vec![ProgramRuns {
            name: "sys_enter".into(),
            runs: 1_000_000,
            time: Duration::from_millis(250),
        }],
        memory: Memory {
            files: 100,
            processes: 4,
            forgotten_files: 5,
            findings_skipped: 1,
            crowded_out: 6,
            reads_given_up: 2,
            tables: [("mounts", 3), ("units", 4)].into(),
        },
        jobs: None,
        recordings: Recordings::default(),
        config: Config::default(),
    };
    let state = State {
        totals: totals(),
        histograms: Some(histograms()),
        devices: vec![device()],
        service,
    };
    let usage = |_: &_| Usage {
        own: Resources {
            cpu_seconds: 1.5,
            resident_bytes: 50 << 20,
            virtual_bytes: 1 << 30,
        },
        open_descriptors: 30,
        max_descriptors: 1024,
        front: Front {
            pid: 4001,
            restarts: 2,
            resources: Resources {
                cpu_seconds: 0.5,
                resident_bytes: 8 << 20,
                virtual_bytes: 1 << 26,
            },
        },
    };
    Exporter::with_usage(Arc::new(Shared::new(state)), usage)
}

/// `IOTRACE_BLESS=1 cargo test --test service metrics` writes the file.
#[test]
fn names_labels_and_values_are_those_of_the_file() {
    let text = exporter().encode(Format::OpenMetrics).unwrap();
    if std::env::var_os("IOTRACE_BLESS").is_some() {
        fs::create_dir_all(Path::new(GOLDEN).parent().unwrap()).unwrap();
        fs::write(GOLDEN, &text).unwrap();
    }
    let golden = fs::read_to_string(GOLDEN).unwrap();
    for (line, (now, then)) in text.lines().zip(golden.lines()).enumerate() {
        assert_eq!(now, then, "line {}", line + 1);
    }
    assert_eq!(text.lines().count(), golden.lines().count());
}

#[test]
fn both_formats_say_the_same() {
    let exporter = exporter();
    let samples = |format| {
        let text = exporter.encode(format).unwrap();
        text.lines()
            .filter(|line| !line.starts_with('#'))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(samples(Format::OpenMetrics), samples(Format::Text));
    assert!(
        exporter
            .encode(Format::OpenMetrics)
            .unwrap()
            .ends_with("\n# EOF\n")
    );
    let text = exporter.encode(Format::Text).unwrap();
    assert!(text.contains("# TYPE iotrace_io_seconds_total counter\n"));
    assert!(text.contains("# TYPE iotrace_unit_info gauge\n"));
    assert!(text.contains("# TYPE iotrace_series gauge\n"));
    assert!(!text.contains("# UNIT") && !text.contains("EOF"));
}

#[test]
fn promtool_finds_no_fault() {
    let text = exporter().encode(Format::Text).unwrap();
    common::daemon::promtool_finds_no_fault(&text);
}

#[test]
fn every_metric_is_documented() {
    const DOCUMENT: &str = include_str!("../../../docs/reference/metrics.md");
    let text = exporter().encode(Format::Text).unwrap();
    let names = text
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
    for name in names {
        assert!(
            DOCUMENT.contains(&format!("`{name}`")),
            "{name} is not in docs/reference/metrics.md"
        );
    }
}
