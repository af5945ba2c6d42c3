//! `iotrace record` of root: through the service by itself, with the counts that it has without it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use iotrace_common::counters::{Merge, TABLE, Unit};
use serde_json::Value;

use super::service::{OTHER, Process, Service, USER};
use crate::common::{
    self, Iotrace,
    compare::{self, same},
    number, quiet,
    run::{Finished, Running},
    text, trace, truth, waits,
};

/// Counters that differ from run to run: what the page cache has.
const BY_CHANCE: [&str; 7] = [
    "bytes_fetched",
    "mapped_bytes_fetched",
    "mapped_bytes",
    "mapped_bytes_dirtied",
    "faults",
    "major_faults",
    "timed_major_faults",
];

/// Records a mode of the counting program.
fn record(service: &Service, mode: &[&str], way: &[&str]) -> (tempfile::TempDir, Finished) {
    let (keep, dir) = common::directory();
    let iotrace = service.record(0).flush("1h").args(way);
    let mut words = vec![mode[0], dir.to_str().unwrap()];
    words.extend(&mode[1..]);
    let finished = iotrace.workload(words);
    assert_eq!(finished.code(), 0, "{}", finished.stderr);
    (keep, finished)
}

/// All counters of calls and bytes by file, summed over processes.
fn counters(report: &Value, dir: &Path) -> BTreeMap<String, BTreeMap<String, u64>> {
    let mut files: BTreeMap<String, BTreeMap<String, u64>> = BTreeMap::new();
    for process in compare::list(report, "processes") {
        for row in compare::rows_of(report, number(process, "pid")) {
            let Ok(name) = Path::new(text(row, "path")).strip_prefix(dir) else {
                continue;
            };
            let file = files.entry(name.display().to_string()).or_default();
            for sizes in ["read_sizes", "write_sizes"] {
                for (bucket, calls) in row[sizes].as_object().into_iter().flatten() {
                    let name = format!("{sizes} {bucket}");
                    *file.entry(name).or_default() += calls.as_u64().unwrap();
                }
            }
            for counter in &TABLE {
                let is_counted = matches!(counter.unit, Unit::Calls | Unit::Bytes)
                    && counter.merge != Merge::OfPeak
                    && !BY_CHANCE.contains(&counter.name);
                if is_counted {
                    let value = row[counter.key].as_u64().unwrap_or(0);
                    *file.entry(counter.key.to_owned()).or_default() += value;
                }
            }
        }
    }
    files
}

/// Programs that the service has attached.
fn links(service: &Service) -> usize {
    let descriptors = fs::read_dir(format!("/proc/{}/fd", service.daemon.child.id())).unwrap();
    let targets = descriptors.filter_map(|fd| fs::read_link(fd.unwrap().path()).ok());
    targets
        .filter(|to| to.as_os_str() == "anon_inode:bpf_link")
        .count()
}

/// Waits until so many programs are attached.
#[track_caller]
fn until_links(service: &Service, count: usize) {
    let started = Instant::now();
    while links(service) != count {
        assert!(
            started.elapsed() < Duration::from_secs(30),
            "{} programs are attached, not {count}",
            links(service)
        );
        thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn the_programs_of_waits_are_attached_while_a_recording_has_waits() {
    /// A switch, a wake-up, and begin and end of a timer's function.
    const PROGRAMS: usize = 4;
    let service = Service::start(&[]);
    let before = links(&service);
    let start = |user: u32, args: &[&str]| {
        let iotrace = service.record(user).args(args);
        iotrace.start_command(["sh", "-c", "while :; do sleep 0.01; done"])
    };
    let check = |running: Running| {
        running.signal(libc::SIGINT);
        let report = running.wait().report();
        let waits = report["waits"].as_array().map_or(0.0, |waits| {
            let seconds = |of: &Value| of["waiting_seconds"].as_f64().unwrap();
            waits.iter().map(seconds).sum()
        });
        compare::nothing_lost(&report);
        waits
    };
    let without = start(OTHER, &["--waits=off"]);
    service.until_running(1);
    assert_eq!(links(&service), before);
    let first = start(USER, &["--waits"]);
    service.until_running(2);
    until_links(&service, before + PROGRAMS);
    let second = start(USER, &["--waits=timeline"]);
    service.until_running(3);
    assert!(check(first) > 0.0);
    service.until_running(2);
    assert_eq!(
        links(&service),
        before + PROGRAMS,
        "another recording has waits"
    );
    assert!(check(second) > 0.0);
    until_links(&service, before);
    assert_eq!(check(without), 0.0);
    // Attached again, the programs do not take up what they knew before.
    let again = start(USER, &["--waits"]);
    service.until_running(1);
    until_links(&service, before + PROGRAMS);
    assert!(check(again) > 0.0);
}

#[test]
fn waits_through_the_service_are_those_of_the_programs_own_clocks() {
    let service = Service::start(&[]);
    for program in ["by_pipe", "by_chain", "own_reads"] {
        let before = begun(&service);
        let iotrace = || {
            let socket = service.socket.to_str().unwrap();
            Iotrace::bare().env("IOTRACE_SOCKET", socket)
        };
        let record = || waits::waited(iotrace(), program, false, "250ms");
        let (truth, found, report) = quiet::measured(record);
        let differences = waits::differences(program, &truth, &found);
        assert!(
            differences.is_empty(),
            "{differences:#?}\n{found:#}\n{truth:#}"
        );
        assert_eq!(text(&report["verdict"], "code"), "waits-for-storage");
        assert!(begun(&service) > before, "the service recorded it");
        let without = iotrace().args(["--waits=off"]).command(["true"]);
        assert_eq!(without.report()["waits"], Value::Null);
    }
}

/// The pids of a trace's operations.
fn traced(finished: &Finished) -> BTreeSet<u32> {
    let rows = trace::rows(&trace::whole(&finished.recording));
    rows.iter().map(|row| row.pid).collect()
}

#[test]
fn operations_through_the_service_are_those_that_are_counted() {
    let service = Service::start(&[]);
    for (mode, users) in [
        // Some of its calls end otherwise for a user.
        ("every-call", &[0][..]),
        ("threads-on-many", &[0, USER]),
        ("descriptors", &[0, USER]),
    ] {
        for user in users.iter().copied() {
            let home = service.home(user);
            let dir = home.path().to_owned().into_os_string();
            let before = begun(&service);
            let iotrace = service.record(user).args(["--trace"]);
            let run = iotrace.workload([mode.into(), dir]);
            assert_eq!(run.code(), 0, "{}", run.stderr);
            assert_eq!(begun(&service), before + 1);
            let trace = trace::open(&run.recording);
            let (rows, counters) = (
                trace::sums_of_rows(&trace),
                trace::sums_of_counters(&run.recording),
            );
            trace::same(&rows, &counters);
            assert_eq!((trace.about.lost(), trace.about.left_out()), (0, 0));
        }
    }
}

#[test]
fn filters_choose_operations_that_the_service_tells() {
    let service = Service::start(&[]);
    // A user may start five recordings at once.
    for (user, filters_choose) in [
        (
            USER,
            trace::filters_choose_paths as fn(&dyn Fn() -> Iotrace, &Path),
        ),
        (USER, trace::filters_choose_phases),
        (OTHER, trace::filters_choose_durations),
        (OTHER, trace::filters_choose_names),
    ] {
        let home = service.home(user);
        fs::set_permissions(home.path(), fs::Permissions::from_mode(0o777)).unwrap();
        filters_choose(&|| service.record(user), home.path());
    }
}

#[test]
fn each_recording_has_the_operations_of_its_own_processes() {
    let service = Service::start(&[]);
    let start = |user: u32, args: &[&str]| {
        let iotrace = service.record(user).args(args);
        let shell = "i=0; while :; do : $((i+=1)); cat /etc/hostname >/dev/null; done";
        iotrace.start_command(["sh", "-c", shell])
    };
    let running = [
        start(USER, &["--trace"]),
        start(USER, &[]),
        start(OTHER, &["--trace"]),
        start(OTHER, &["--trace", "--trace-max-size", "2000"]),
    ];
    service.until_running(4);
    thread::sleep(Duration::from_secs(2));
    running.iter().for_each(|one| one.signal(libc::SIGINT));
    let [first, without, other, small] = running.map(Running::wait);
    let without = without.report();
    assert_eq!(without["trace"], Value::Null);
    let reports = [&first, &other, &small].map(|run| (traced(run), run.report()));
    for (pids, report) in &reports {
        let own = compare::list(report, "processes").iter();
        let own: BTreeSet<u32> = own.map(|process| number(process, "pid") as u32).collect();
        assert!(!pids.is_empty() && pids.is_subset(&own), "{pids:?}");
        compare::nothing_lost(report);
    }
    assert!(reports[0].0.is_disjoint(&reports[1].0));
    assert!(number(&reports[2].1["trace"], "left_out") > 0);
}

#[test]
fn the_trace_of_a_busy_process_begins_and_ends_with_its_counters() {
    let service = Service::start(&[]);
    let busy =
        "import os\nfd = os.open('/etc/hostname', os.O_RDONLY)\nwhile True: os.pread(fd, 10, 0)";
    let busy = Process::new(Command::new("/usr/bin/python3").args(["-c", busy]));
    let pid = busy.pid().to_string();
    for _ in 0..3 {
        let iotrace = service.record(0);
        let iotrace = iotrace.args(["--trace", "--duration", "2", "--pid", &pid]);
        let run = iotrace.start().wait();
        let trace = trace::open(&run.recording);
        let traced = trace.operations + trace.about.lost();
        let counted = trace::operations(&trace::sums_of_counters(&run.recording));
        let counted: u64 = counted.values().sum();
        // At each end, the call that ends while the counters are taken.
        assert!(
            traced > 1000 && traced.abs_diff(counted) <= 2,
            "{traced}, {counted}"
        );
    }
}

/// Recordings that the service has begun.
pub fn begun(service: &Service) -> u64 {
    // The status is that of the last second or so.
    thread::sleep(Duration::from_millis(2500));
    service.status()["recordings"]["begun"].as_u64().unwrap()
}

#[test]
fn the_service_counts_for_root_what_root_counts_alone() {
    let service = Service::start(&[]);
    for (mode, is_ordered) in [
        (&["descriptors"][..], true),
        (&["pattern", "4711"], true),
        (&["every-call"], false),
        (&["threads-on-one"], false),
    ] {
        let before = begun(&service);
        let ways = [&["--standalone"][..], &[]].map(|way| {
            let (keep, finished) = record(&service, mode, way);
            let (truth, report) = finished.truth_and_report();
            let processes = truth::processes(&truth);
            assert!(!processes.is_empty());
            processes.iter().for_each(|process| same(process, &report));
            compare::nothing_lost(&report);
            assert_eq!(report["detail"], "full");
            let main = compare::process(&report, processes[0].pid);
            let cpu = main["cpu_seconds"].as_f64().expect("CPU time");
            assert!(cpu > 0.0 || mode[0] != "threads-on-one", "{main}");
            (counters(&report, keep.path()), report)
        });
        assert_eq!(begun(&service), before + 1, "one of both ways");
        let [(alone, first), (shared, second)] = &ways;
        assert!(
            !alone.is_empty() && alone.keys().eq(shared.keys()),
            "{mode:?}"
        );
        if is_ordered {
            assert_eq!(alone, shared, "{mode:?}");
        }
        let sorted = |files: &BTreeMap<String, BTreeMap<String, u64>>| {
            let sizes = |file: &BTreeMap<String, u64>| {
                let sizes = file
                    .iter()
                    .filter(|(name, _)| name.starts_with("read_sizes "));
                sizes.map(|(_, calls)| calls).sum::<u64>()
            };
            files.values().map(sizes).sum::<u64>()
        };
        assert!(
            sorted(alone) > 0 && sorted(alone) == sorted(shared),
            "{mode:?}"
        );
        let lookups = |report: &Value| report["startup"]["not_found"].clone();
        assert_eq!(lookups(first), lookups(second), "{mode:?}");
        if mode[0] == "every-call" {
            assert!(lookups(first).as_u64().unwrap() > 0, "{first}");
        }
    }
}

#[test]
fn what_the_service_does_not_give_is_recorded_without_it() {
    let service = Service::start(&[]);
    let dir = tempfile::tempdir().unwrap();
    let run = |name: &str, args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_iotrace"));
        command.env("IOTRACE_SOCKET", &service.socket);
        command
            .args(["-v", "record", "-o"])
            .arg(dir.path().join(name));
        let out = command.args(args).args(["--", "true"]).output().unwrap();
        assert!(out.status.success(), "{out:?}");
        String::from_utf8_lossy(&out.stderr).into_owned()
    };
    const WITHOUT: &str = "recording without the service at";
    let said = run("trace-buffer", &["--trace", "--trace-buffer", "1MiB"]);
    assert!(
        said.contains(WITHOUT) && said.contains("it does not give --trace-buffer"),
        "{said}"
    );
    let rules = dir.path().join("rules.toml");
    fs::write(
        &rules,
        "[[rule]]\nname = \"mine\"\nphase = \"checkpoint\"\nglob = \"/of-mine/**\"\n",
    )
    .unwrap();
    let said = run("rules", &["--rules", rules.to_str().unwrap()]);
    assert!(
        said.contains(WITHOUT) && said.contains("by other rules"),
        "{said}"
    );
    let said = run("shared", &[]);
    assert!(!said.contains(WITHOUT), "{said}");
}
