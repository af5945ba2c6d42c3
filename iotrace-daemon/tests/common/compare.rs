//! Counts, and how two of them differ.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    path::Path,
};

use serde_json::Value;

use super::{
    Iotrace, directory, number, text,
    truth::{self, Process},
};

/// Counters that count calls or bytes at every detail. Of each of them a report must say exactly what was done.
pub const COUNTERS: [&str; 32] = [
    "reads",
    "writes",
    "opens",
    "closes",
    "dups",
    "fsyncs",
    "fdatasyncs",
    "sync_file_ranges",
    "msyncs",
    "seeks",
    "stats",
    "accesses",
    "getdents",
    "truncates",
    "fallocates",
    "renames",
    "links",
    "symlinks",
    "unlinks",
    "mkdirs",
    "rmdirs",
    "mmaps",
    "transfer_reads",
    "transfer_writes",
    "close_ranges",
    "readlinks",
    "syncfs",
    "syncs",
    "zero_reads",
    "failures",
    "bytes_read",
    "bytes_written",
];

/// Counts by name, those that are not 0, and failed calls by error, and where known by operation and error.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub counters: BTreeMap<String, u64>,
    pub errors: BTreeMap<String, u64>,
    pub errors_by_operation: BTreeMap<String, u64>,
}

impl Counts {
    /// Adds to a counter.
    pub fn add(&mut self, name: &str, value: u64) {
        assert!(COUNTERS.contains(&name), "there is no counter {name}");
        if value != 0 {
            *self.counters.entry(name.into()).or_default() += value;
        }
    }

    /// Adds failed calls, not to the counter `failures`.
    pub fn add_error(&mut self, operation: &str, name: &str, calls: u64) {
        *self.errors.entry(name.into()).or_default() += calls;
        let key = format!("{operation} {name}");
        *self.errors_by_operation.entry(key).or_default() += calls;
    }

    /// Adds all of another.
    pub fn merge(&mut self, other: &Self) {
        for (mine, others) in [
            (&mut self.counters, &other.counters),
            (&mut self.errors, &other.errors),
            (&mut self.errors_by_operation, &other.errors_by_operation),
        ] {
            for (name, value) in others {
                *mine.entry(name.clone()).or_default() += value;
            }
        }
    }

    /// Takes the calls of msync out, and their errors.
    fn take_msyncs(&mut self) -> Self {
        let mut taken = Self::default();
        taken.add("msyncs", self.counters.remove("msyncs").unwrap_or(0));
        let errors = std::mem::take(&mut self.errors_by_operation);
        for (key, calls) in errors {
            let Some(error) = key.strip_prefix("msync ") else {
                self.errors_by_operation.insert(key, calls);
                continue;
            };
            taken.add_error("msync", error, calls);
            taken.add("failures", calls);
            *self.errors.entry(error.into()).or_default() -= calls;
            *self.counters.entry("failures".into()).or_default() -= calls;
        }
        taken
    }

    pub fn get(&self, name: &str) -> u64 {
        assert!(COUNTERS.contains(&name), "there is no counter {name}");
        self.counters.get(name).copied().unwrap_or(0)
    }

    pub fn is_empty(&self) -> bool {
        self.counters.is_empty() && self.errors.is_empty()
    }

    /// Of an object of a report.
    pub fn of(value: &Value) -> Self {
        let mut counts = Self::default();
        for name in COUNTERS {
            counts.add(name, number(value, name));
        }
        let calls = |value: &Value| value.as_u64().expect("a number of calls");
        for (error, value) in value["errors"].as_object().expect("errors") {
            counts.errors.insert(error.clone(), calls(value));
        }
        if let Some(operations) = value["errors_by_operation"].as_object() {
            for (operation, errors) in operations {
                for (error, value) in errors.as_object().expect("errors") {
                    let key = format!("{operation} {error}");
                    counts.errors_by_operation.insert(key, calls(value));
                }
            }
        }
        counts
    }

    /// What differs: one line per counter, empty where nothing does. Errors by operation where both have them.
    pub fn difference(&self, found: &Self) -> String {
        let mut lines = String::new();
        let mut compare = |kind: &str, done: &BTreeMap<String, u64>, found: &BTreeMap<_, u64>| {
            let names: BTreeSet<&String> = done.keys().chain(found.keys()).collect();
            for name in names {
                let (done, found) = (done.get(name).unwrap_or(&0), found.get(name).unwrap_or(&0));
                if done != found {
                    let _ = writeln!(lines, "    {kind}{name}: {done} done, {found} reported");
                }
            }
        };
        compare("", &self.counters, &found.counters);
        compare("error ", &self.errors, &found.errors);
        if !self.errors_by_operation.is_empty() && !found.errors_by_operation.is_empty() {
            compare(
                "error of ",
                &self.errors_by_operation,
                &found.errors_by_operation,
            );
        }
        lines
    }
}

/// The processes of a report with this pid.
pub fn processes_of(report: &Value, pid: u64) -> Vec<&Value> {
    list(report, "processes")
        .iter()
        .filter(|process| number(process, "pid") == pid)
        .collect()
}

/// The one process of a report with this pid.
#[track_caller]
pub fn process(report: &Value, pid: u64) -> &Value {
    match processes_of(report, pid)[..] {
        [process] => process,
        ref found => panic!("{} processes with pid {pid}", found.len()),
    }
}

/// The file rows of a process.
pub fn rows_of(report: &Value, pid: u64) -> Vec<&Value> {
    list(report, "files")
        .iter()
        .filter(|row| number(row, "pid") == pid && !is_mapped_only(row))
        .collect()
}

/// Whether a process did nothing to the file but use its pages, such as those of its own code.
fn is_mapped_only(row: &Value) -> bool {
    number(row, "faults") + number(row, "bytes_fetched") > 0 && Counts::of(row).is_empty()
}

/// The one row of a process with this path.
#[track_caller]
pub fn row<'a>(report: &'a Value, pid: u64, path: &str) -> &'a Value {
    let rows = rows_of(report, pid);
    let found: Vec<&Value> = rows
        .iter()
        .filter(|row| text(row, "path") == path)
        .copied()
        .collect();
    match found[..] {
        [row] => row,
        _ => panic!(
            "{} rows of {path} in process {pid}, among {:?}",
            found.len(),
            rows.iter().map(|row| text(row, "path")).collect::<Vec<_>>()
        ),
    }
}

/// A counter of a file, over all processes.
pub fn sum_of(report: &Value, path: &Path, counter: &str) -> u64 {
    let path = path.to_str().expect("UTF-8");
    let rows = list(report, "files").iter();
    rows.filter(|row| text(row, "path") == path)
        .map(|row| number(row, counter))
        .sum()
}

pub fn list<'a>(report: &'a Value, key: &str) -> &'a Vec<Value> {
    report[key]
        .as_array()
        .unwrap_or_else(|| panic!("no list {key}"))
}

/// Traces a mode of the counting program and compares every process of it; what the program says, and the report.
#[track_caller]
pub fn exact(iotrace: Iotrace, mode: &str, more: &[&str]) -> (Value, Value) {
    let (_keep, dir) = directory();
    let mut args = vec![mode, dir.to_str().expect("UTF-8")];
    args.extend(more);
    let finished = iotrace.workload(args);
    assert_eq!(finished.code(), 0, "{}", finished.stderr);
    let (truth, report) = finished.truth_and_report();
    let processes = truth::processes(&truth);
    assert!(!processes.is_empty());
    processes.iter().for_each(|process| same(process, &report));
    (truth, report)
}

/// Fails where a process of the counting program did anything else than the report says.
#[track_caller]
pub fn same(process: &Process<'_>, report: &Value) {
    let mut lines = String::new();
    let pid = process.pid;
    let rows = rows_of(report, pid);
    let mut total = process.by_name();
    let mut by_name = process.by_name();
    // A kernel that cannot tell of which file they are, which the report must say.
    let by_name_alone = number(&report["notes"], "unplaced_msyncs") > 0;
    let mut seen = BTreeSet::new();
    for (path, mut done) in process.files() {
        total.merge(&done);
        if by_name_alone {
            by_name.merge(&done.take_msyncs());
        }
        let found: Vec<&&Value> = rows
            .iter()
            .filter(|row| text(row, "path") == path)
            .collect();
        let [row] = found[..] else {
            let _ = writeln!(lines, "  {path}: {} rows", found.len());
            continue;
        };
        put(&mut lines, &path, &done.difference(&Counts::of(row)));
        seen.insert(path);
    }
    if process.is_whole() {
        for row in rows.iter().filter(|row| !seen.contains(text(row, "path"))) {
            let _ = writeln!(
                lines,
                "  a row that the program knows nothing of: {} {:?}",
                row["path"],
                Counts::of(row).counters
            );
        }
        let found = self::process(report, pid);
        put(
            &mut lines,
            "calls by name",
            &by_name.difference(&Counts::of(&found["by_name"])),
        );
        put(
            &mut lines,
            "overflow",
            &Counts::default().difference(&Counts::of(&found["overflow"])),
        );
        put(
            &mut lines,
            "totals",
            &total.difference(&Counts::of(&found["totals"])),
        );
    }
    assert!(lines.is_empty(), "{} (pid {pid}):\n{lines}", process.role);
}

fn put(lines: &mut String, what: &str, difference: &str) {
    if !difference.is_empty() {
        let _ = writeln!(lines, "  {what}:\n{difference}");
    }
}

/// The release from which on the kernel skips a program on system calls that it has preempted on the same CPU.
const SKIPS_CALLS_FROM: (u32, u32) = (7, 2);
/// And any other program.
const SKIPS_FROM: (u32, u32) = (7, 0);
/// The misses by which no operation is missing, but pages and requests of devices.
const OF_STORAGE: &str = "storage_recursion_misses";

/// Whether this kernel may skip programs of a reason for loss on a busy system, as the report then says.
fn may_skip(reason: &str) -> bool {
    let from = match reason {
        "recursion_misses" | "exit_missed" => SKIPS_CALLS_FROM,
        "process_recursion_misses" | OF_STORAGE => SKIPS_FROM,
        _ => return false,
    };
    let text = std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("the release");
    let numbers = text.split(|c: char| !c.is_ascii_digit());
    let numbers: Vec<u32> = numbers.flat_map(str::parse).collect();
    (numbers[0], numbers[1]) >= from
}

/// Calls that the kernel skipped, by the report; fails where it lost anything that this kernel does not skip.
#[track_caller]
pub fn skipped(report: &Value) -> u64 {
    for (name, lost) in report["losses"].as_object().expect("losses") {
        let is_none = lost.as_u64() == Some(0);
        assert!(is_none || may_skip(name), "lost: {name}: {lost}");
    }
    number(&report["losses"], "recursion_misses")
}

/// Fails unless every loss of a report is 0. Where the kernel may skip programs of storage, which any task on the system
/// then brings about by preempting another, their misses are none of what is compared.
#[track_caller]
pub fn nothing_lost(report: &Value) {
    let losses = report["losses"].as_object().expect("losses");
    let lost: Vec<_> = losses
        .iter()
        .filter(|(name, _)| *name != OF_STORAGE || !may_skip(name))
        .filter(|(_, count)| count.as_u64() != Some(0))
        .collect();
    assert!(lost.is_empty(), "lost: {lost:?}");
}

/// Fails unless, for each process, files, calls by name and overflow add up to its totals, and all processes to the
/// run's.
#[track_caller]
pub fn conserved(report: &Value) {
    let mut run = Counts::default();
    let mut of_rows: BTreeMap<u64, Counts> = BTreeMap::new();
    let mut files_of: BTreeMap<u64, u64> = BTreeMap::new();
    for row in list(report, "files") {
        let pid = number(row, "pid");
        of_rows.entry(pid).or_default().merge(&Counts::of(row));
        *files_of.entry(pid).or_default() += u64::from(text(row, "type") == "regular");
    }
    let mut by_pid: BTreeMap<u64, (Counts, Counts, u64)> = BTreeMap::new();
    for process in list(report, "processes") {
        let (parts, totals, files) = by_pid.entry(number(process, "pid")).or_default();
        parts.merge(&Counts::of(&process["by_name"]));
        parts.merge(&Counts::of(&process["overflow"]));
        let mut own = Counts::of(&process["totals"]);
        let by_operation = std::mem::take(&mut own.errors_by_operation);
        run.errors_by_operation = merged(run.errors_by_operation, by_operation);
        run.merge(&own);
        totals.merge(&own);
        *files += number(&process["totals"], "files");
    }
    for (pid, (mut parts, totals, files)) in by_pid {
        parts.merge(&of_rows.remove(&pid).unwrap_or_default());
        let difference = parts.difference(&totals);
        assert!(
            difference.is_empty(),
            "process {pid}: its parts (done) are not its totals (reported):\n{difference}"
        );
        assert_eq!(
            files,
            files_of.get(&pid).copied().unwrap_or(0),
            "files of process {pid}"
        );
        let failures: u64 = totals.errors.values().sum();
        assert_eq!(
            failures,
            totals.get("failures"),
            "errors and failures of process {pid}, notes {}",
            report["notes"]
        );
    }
    assert!(
        of_rows.is_empty(),
        "rows of processes that are not there: {:?}",
        of_rows.keys()
    );
    let difference = run.difference(&Counts::of(&report["totals"]));
    assert!(
        difference.is_empty(),
        "the processes (done) are not the totals (reported):\n{difference}"
    );
    assert_eq!(
        number(&report["totals"], "processes"),
        list(report, "processes").len() as u64
    );
}

fn merged(mut a: BTreeMap<String, u64>, b: BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    for (key, value) in b {
        *a.entry(key).or_default() += value;
    }
    a
}
