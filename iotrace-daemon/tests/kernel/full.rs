//! Detail full against Darshan's rules, worked out again from the counting program's own list of accesses.
//!
//! Darshan keeps one position per file; iotrace one per open file, so the rules apply to each open file.

use std::collections::BTreeMap;

use crate::common::{
    Iotrace,
    compare::{self, same},
    directory, number, text,
    truth::{self, Process},
};
use serde_json::Value;

/// Inclusive upper bounds of the buckets of access sizes.
const BUCKETS: [(&str, u64); 10] = [
    ("0_100", 100),
    ("100_1k", 1024),
    ("1k_10k", 10 * 1024),
    ("10k_100k", 100 * 1024),
    ("100k_1m", 1024 * 1024),
    ("1m_4m", 4 << 20),
    ("4m_10m", 10 << 20),
    ("10m_100m", 100 << 20),
    ("100m_1g", 1 << 30),
    ("1g_plus", u64::MAX),
];

/// One entry of the program's list.
struct Access<'a> {
    kind: &'a str,
    open: u64,
    offset: u64,
    bytes: u64,
    unaligned: bool,
    /// Before and after the call, nanoseconds.
    start: u64,
    end: u64,
}

/// The program's list, by file.
fn accesses(truth: &Value) -> BTreeMap<&str, Vec<Access<'_>>> {
    let mut files: BTreeMap<&str, Vec<Access<'_>>> = BTreeMap::new();
    for entry in compare::list(truth, "accesses") {
        files.entry(text(entry, "file")).or_default().push(Access {
            kind: text(entry, "kind"),
            open: number(entry, "open"),
            offset: number(entry, "offset"),
            bytes: number(entry, "bytes"),
            unaligned: entry["unaligned"].as_bool().unwrap(),
            start: number(entry, "start"),
            end: number(entry, "end"),
        });
    }
    files
}

/// What is kept of an open file: last byte read, last byte written, last direction.
#[derive(Clone, Copy, Default)]
struct State {
    last: [i64; 2],
    direction: Option<usize>,
}

/// Darshan's counters of one file.
#[derive(Default)]
struct Darshan {
    numbers: BTreeMap<&'static str, u64>,
    buckets: [BTreeMap<&'static str, u64>; 2],
    sizes: BTreeMap<u64, u64>,
    strides: BTreeMap<u64, u64>,
}

const NAMES: [[&str; 3]; 2] = [
    ["consecutive_reads", "sequential_reads", "max_byte_read"],
    [
        "consecutive_writes",
        "sequential_writes",
        "max_byte_written",
    ],
];

impl Darshan {
    fn of(accesses: &[Access<'_>], block: u64) -> Self {
        let mut all = Self::default();
        let mut states: BTreeMap<u64, State> = BTreeMap::new();
        for access in accesses {
            let direction = match access.kind {
                "read" => 0,
                "write" => 1,
                "open" => {
                    states.insert(access.open, State::default());
                    continue;
                }
                _ => continue,
            };
            let state = states.get_mut(&access.open).expect("an open file");
            all.access(access, direction, state, block);
        }
        all
    }

    fn access(&mut self, access: &Access<'_>, direction: usize, state: &mut State, block: u64) {
        let [consecutive, sequential, highest] = NAMES[direction];
        let (offset, bytes) = (access.offset as i64, access.bytes as i64);
        let bucket = BUCKETS
            .iter()
            .find(|(_, bound)| access.bytes <= *bound)
            .unwrap()
            .0;
        *self.buckets[direction].entry(bucket).or_default() += 1;
        if bytes != 0 {
            *self.sizes.entry(access.bytes).or_default() += 1;
        }
        let last = state.last[direction];
        if offset > last {
            self.count(sequential, true);
            self.count(consecutive, offset == last + 1);
            if offset != last + 1 && last != 0 && offset > 0 {
                *self.strides.entry((offset - last - 1) as u64).or_default() += 1;
            }
        }
        self.count(
            "read_write_switches",
            state.direction.is_some_and(|before| before != direction),
        );
        self.count("memory_unaligned", access.unaligned);
        self.count("file_unaligned", !access.offset.is_multiple_of(block));
        let end = offset + bytes - 1;
        let most = self.numbers.entry(highest).or_default();
        *most = (*most).max(end.max(0) as u64);
        state.last[direction] = end;
        state.direction = Some(direction);
    }

    fn count(&mut self, name: &'static str, so: bool) {
        *self.numbers.entry(name).or_default() += u64::from(so);
    }
}

/// The four commonest, ties by the larger value.
fn commonest(values: &BTreeMap<u64, u64>) -> Vec<(u64, u64)> {
    let mut all: Vec<(u64, u64)> = values
        .iter()
        .map(|(value, count)| (*value, *count))
        .collect();
    all.sort_by_key(|(value, count)| std::cmp::Reverse((*count, *value)));
    all.truncate(4);
    all
}

fn listed(row: &Value, list: &str, key: &str) -> Vec<(u64, u64)> {
    let list = row[list].as_array().map_or(&[][..], Vec::as_slice);
    list.iter()
        .map(|entry| (number(entry, key), number(entry, "count")))
        .collect()
}

/// Compares a row with Darshan's counters of its file; the tables of sizes and strides where they can hold all.
#[track_caller]
fn compare_row(row: &Value, accesses: &[Access<'_>], tables: bool) {
    let block = number(row, "block_size");
    assert!(block.is_power_of_two(), "{row}");
    let darshan = Darshan::of(accesses, block);
    let mut wrong = String::new();
    for (name, done) in &darshan.numbers {
        let found = number(row, name);
        if found != *done {
            wrong += &format!("  {name}: {done} by the rules, {found} reported\n");
        }
    }
    for (name, buckets) in ["read_sizes", "write_sizes"].iter().zip(&darshan.buckets) {
        for (bucket, _) in BUCKETS {
            let (done, found) = (
                buckets.get(bucket).copied().unwrap_or(0),
                number(&row[*name], bucket),
            );
            if done != found {
                wrong += &format!("  {name} {bucket}: {done} by the rules, {found} reported\n");
            }
        }
    }
    assert!(wrong.is_empty(), "{}:\n{wrong}", row["path"]);
    let (sizes, strides) = (
        listed(row, "access_sizes", "size"),
        listed(row, "strides", "stride"),
    );
    if tables {
        assert_eq!(sizes, commonest(&darshan.sizes), "sizes of {}", row["path"]);
        assert_eq!(
            strides,
            commonest(&darshan.strides),
            "strides of {}",
            row["path"]
        );
        assert_eq!(
            number(row, "access_sizes_other") + number(row, "strides_other"),
            0
        );
    } else {
        // Values that found no slot are counted together; none is counted twice.
        for (listed, all, others) in [
            (&sizes, &darshan.sizes, number(row, "access_sizes_other")),
            (&strides, &darshan.strides, number(row, "strides_other")),
        ] {
            let (sum, kept): (u64, u64) = (
                all.values().sum(),
                listed.iter().map(|(_, count)| count).sum(),
            );
            assert!(
                kept + others <= sum,
                "{kept} + {others} of {sum} in {}",
                row["path"]
            );
            for (value, count) in listed {
                assert!(
                    count <= all.get(value).unwrap_or(&0),
                    "{value}, {count} times, in {}",
                    row["path"]
                );
            }
        }
    }
    assert_eq!(number(row, "create_mode"), 0o644);
    times(row, accesses);
}

/// Moments and durations, each between the clock's readings just before and just after the call.
#[track_caller]
fn times(row: &Value, accesses: &[Access<'_>]) {
    let of = |kind: &str| {
        accesses
            .iter()
            .filter(move |access| access.kind == kind)
            .collect::<Vec<_>>()
    };
    let at = |name: &str| {
        row[name]
            .as_f64()
            .unwrap_or_else(|| panic!("no {name} in {row}"))
    };
    let first_open = of("open")[0];
    let base = at("first_open_at");
    let nanosecond = 1e-8;
    for kind in ["open", "read", "write", "close"] {
        let calls = of(kind);
        let ends = [
            (format!("first_{kind}_at"), calls[0]),
            (format!("last_{kind}_at"), calls[calls.len() - 1]),
        ];
        for (name, call) in ends {
            let since = at(&name) - base;
            let earliest = (call.start as i64 - first_open.end as i64) as f64 / 1e9;
            let latest = (call.end - first_open.start) as f64 / 1e9;
            assert!(
                (earliest - nanosecond..=latest + nanosecond).contains(&since),
                "{name} is {since} s behind the first open, not {earliest} to {latest}"
            );
        }
    }
    for (kind, seconds, slowest) in [
        ("read", "read_seconds", "slowest_read"),
        ("write", "write_seconds", "slowest_write"),
    ] {
        let calls = of(kind);
        let outside = calls.iter().map(|call| call.end - call.start);
        let total = outside.clone().sum::<u64>() as f64 / 1e9;
        let inside = at(seconds);
        assert!(
            inside > 0.0 && inside <= total,
            "{seconds} is {inside} of {total}"
        );
        // One thread never overlaps itself.
        let merged = at(&format!("merged_{seconds}"));
        assert!(
            (merged - inside).abs() < nanosecond,
            "merged {merged}, summed {inside}"
        );
        let longest = at(&format!("{slowest}_seconds"));
        let most = outside.max().unwrap() as f64 / 1e9;
        assert!(
            longest > 0.0 && longest <= most,
            "{slowest} took {longest}, not {most}"
        );
        let bytes = number(row, &format!("{slowest}_bytes"));
        assert!(
            calls
                .iter()
                .any(|call| call.bytes == bytes && (call.end - call.start) as f64 / 1e9 >= longest),
            "no {kind} of {bytes} bytes took {longest} s"
        );
    }
}

fn check(iotrace: Iotrace, args: &[&str], tables: bool) {
    let (_keep, dir) = directory();
    let mut all = vec![args[0], dir.to_str().unwrap()];
    all.extend(&args[1..]);
    let finished = iotrace.workload(all);
    assert_eq!(finished.code(), 0, "{}", finished.stderr);
    let (truth, report) = finished.truth_and_report();
    compare::nothing_lost(&report);
    let processes = truth::processes(&truth);
    let process: &Process<'_> = &processes[0];
    same(process, &report);
    for (file, accesses) in accesses(&truth) {
        compare_row(compare::row(&report, process.pid, file), &accesses, tables);
    }
}

#[test]
fn mixed_accesses_by_several_open_files() {
    for seed in ["1", "20", "4711"] {
        for hook in ["btf", "tracepoint"] {
            check(Iotrace::record().hook(hook), &["pattern", seed], false);
        }
    }
}

/// Each drain ends an interval: what is kept of the last access must not end with it.
#[test]
fn mixed_accesses_over_many_intervals() {
    check(Iotrace::record().flush("20ms"), &["steady"], true);
}

#[test]
fn few_sizes_and_strides_are_tabled_exactly() {
    check(Iotrace::record(), &["steady"], true);
}

#[test]
fn basic_has_none_of_it() {
    let (_keep, dir) = directory();
    let finished = Iotrace::record().args(["--detail", "basic"]).workload([
        "pattern",
        dir.to_str().unwrap(),
        "5",
    ]);
    let (truth, report) = finished.truth_and_report();
    let processes = truth::processes(&truth);
    same(&processes[0], &report);
    for row in compare::rows_of(&report, processes[0].pid) {
        for name in [
            "read_sizes",
            "access_sizes",
            "strides",
            "sequential_reads",
            "first_open_at",
            "merged_read_seconds",
            "max_byte_read",
        ] {
            assert!(row[name].is_null(), "{name} in {row}");
        }
        assert!(
            row["first_operation_at"].is_number() && row["read_seconds"].as_f64().unwrap() > 0.0
        );
    }
}

/// Threads on one file at one time: the merged time is no longer than the run, the summed time may be.
#[test]
fn overlapping_calls_are_counted_once_in_merged_times() {
    let (_keep, dir) = directory();
    let finished = Iotrace::record().workload(["threads-on-one", dir.to_str().unwrap()]);
    let (truth, report) = finished.truth_and_report();
    let pid = truth::processes(&truth)[0].pid;
    let rows = compare::rows_of(&report, pid);
    let row = rows[0];
    let seconds = |name: &str| {
        row[name]
            .as_f64()
            .unwrap_or_else(|| panic!("no {name} in {row}"))
    };
    for kind in ["read", "write"] {
        let (merged, summed) = (
            seconds(&format!("merged_{kind}_seconds")),
            seconds(&format!("{kind}_seconds")),
        );
        let span = seconds(&format!("last_{kind}_at")) - seconds(&format!("first_{kind}_at"));
        assert!(
            merged > 0.0 && merged <= summed + 1e-8,
            "{kind}: merged {merged}, summed {summed}"
        );
        assert!(
            merged <= span + 1e-8,
            "{kind}: merged {merged} in a span of {span}"
        );
    }
}
