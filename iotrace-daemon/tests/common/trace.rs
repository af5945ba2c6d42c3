//! What an operation trace adds up to, and what its filters choose: the same whoever reads the rings.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::fs::MetadataExt as _,
    path::Path,
};

use super::Iotrace;
use iotrace_common::{key::FileId, op};
use iotrace_model::counters;
use iotrace_phases::phase::Phase;
use iotrace_recording::trace::{Row, Trace};

/// A process, and a file of it; none for calls by path.
pub type Place = (u32, u32, Option<FileId>);
/// Calls by operation, failures, bytes read and written, and nanoseconds in calls, of failed ones too.
pub type Sums = BTreeMap<Place, [u64; op::COUNT + 4]>;

pub const FAILURES: usize = op::COUNT;
const READ: usize = op::COUNT + 1;
const WRITTEN: usize = op::COUNT + 2;
const NS: usize = op::COUNT + 3;

pub fn open(recording: &Path) -> Trace {
    let trace = Trace::open(recording).unwrap_or_else(|error| panic!("{error}"));
    trace.expect("a trace")
}

pub fn rows(trace: &Trace) -> Vec<Row> {
    let rows: Result<Vec<_>, _> = trace.rows().collect();
    rows.unwrap_or_else(|error| panic!("{error}"))
}

/// What the trace adds up to.
pub fn sums_of_rows(trace: &Trace) -> Sums {
    let mut sums = Sums::new();
    let mut before = i64::MIN;
    for row in trace.rows() {
        let row = row.unwrap_or_else(|error| panic!("{error}"));
        assert!(row.start >= before, "not in the order of starts");
        before = row.start;
        let sum = sums
            .entry((row.pid, row.start_key, trace.file(&row)))
            .or_insert([0; op::COUNT + 4]);
        sum[NS] += row.duration as u64;
        if row.result < 0 {
            sum[FAILURES] += 1;
            continue;
        }
        sum[row.op as usize] += 1;
        match row.op as usize {
            op::READ | op::TRANSFER_READ => sum[READ] += row.result as u64,
            op::WRITE | op::TRANSFER_WRITE => sum[WRITTEN] += row.result as u64,
            _ => {}
        }
    }
    sums
}

/// What the counters of the same recording say.
pub fn sums_of_counters(recording: &Path) -> Sums {
    let model = iotrace_recording::read(recording).unwrap().model;
    let mut sums = Sums::new();
    let mut add = |place: Place, counters: &counters::Counters| {
        let sum = sums.entry(place).or_insert([0; op::COUNT + 4]);
        for (sum, calls) in sum.iter_mut().zip(&counters.v[..op::COUNT]) {
            *sum += calls;
        }
        let renames = std::mem::take(&mut sum[op::RENAME]);
        sum[FAILURES] += counters.v[counters::FAILURES];
        sum[READ] += counters.v[counters::BYTES_READ];
        sum[WRITTEN] += counters.v[counters::BYTES_WRITTEN];
        for ns in [
            counters::READ_NS,
            counters::WRITE_NS,
            counters::META_NS,
            counters::SYNC_NS,
            counters::FAILED_NS,
        ] {
            sum[NS] += counters.v[ns];
        }
        if renames > 0 {
            let by_name = (place.0, place.1, None);
            sums.entry(by_name).or_insert([0; op::COUNT + 4])[op::RENAME] += renames;
        }
    };
    // A rename names no open file, and the counters have it with the file that it was of.
    for row in model.rows() {
        let process = &model.processes()[row.process as usize].id;
        let file = Some(model.file(row.file).id);
        add((process.pid, process.start, file), &row.cell.total());
    }
    for process in model.processes() {
        let id = process.id;
        add((id.pid, id.start, None), &process.path_only.total());
        let overflow = process.overflow.total();
        assert_eq!(overflow.operations(), 0, "operations without a file");
    }
    sums.retain(|_, sum| *sum != [0; op::COUNT + 4]);
    sums
}

/// Fails unless both have the same sums.
#[track_caller]
pub fn same(trace: &Sums, counters: &Sums) {
    let places: BTreeSet<&Place> = trace.keys().chain(counters.keys()).collect();
    for place in places {
        let (traced, counted) = (trace.get(place), counters.get(place));
        assert_eq!(traced, counted, "{place:?}: in the trace, counted");
    }
}

/// Operations by process.
pub fn operations(sums: &Sums) -> BTreeMap<(u32, u32), u64> {
    let mut all = BTreeMap::new();
    for ((pid, start, _), sum) in sums {
        *all.entry((*pid, *start)).or_insert(0) += sum[..=FAILURES].iter().sum::<u64>();
    }
    all
}

/// Fails unless the trace and what is said to be missing in it are all operations, process by process.
#[track_caller]
pub fn whole(recording: &Path) -> Trace {
    let trace = open(recording);
    let mut found = operations(&sums_of_rows(&trace));
    for missing in &trace.about.missing {
        *found.entry((missing.pid, missing.start_key)).or_insert(0) +=
            missing.lost + missing.left_out;
    }
    assert_eq!(found, operations(&sums_of_counters(recording)));
    assert_eq!(trace.operations, trace.about.operations);
    trace
}

/// What is traced of a script with these filters.
fn filtered(iotrace: Iotrace, dir: &Path, filters: &[&str], script: &str) -> (Trace, Vec<Row>) {
    let filters = filters.iter().flat_map(|filter| ["--trace-filter", filter]);
    let run = iotrace
        .args(["--trace"])
        .args(filters)
        .current_dir(dir)
        .command(["sh", "-c", script]);
    assert_eq!(run.code(), 0, "{}", run.stderr);
    let trace = open(&run.recording);
    let rows = rows(&trace);
    (trace, rows)
}

/// Fails unless filters choose operations by path. `iotrace`: how it is run; `dir`: where what it runs may write.
pub fn filters_choose_paths(iotrace: &dyn Fn() -> Iotrace, dir: &Path) {
    fs::write(dir.join("a.pt"), vec![0; 100_000]).unwrap();
    let script = "head -c 100000 /dev/zero >b.txt; cat a.pt b.txt >out; wc -c <a.pt >out; cat missing.pt 2>/dev/null; \
                  mv b.txt c.pt; cat c.pt >out";
    let (trace, rows) = filtered(iotrace(), dir, &["path=*.pt"], script);
    let inode = |name: &str| fs::metadata(dir.join(name)).unwrap().ino();
    let mut by_inode: BTreeMap<u64, u64> = BTreeMap::new();
    for row in rows {
        *by_inode.entry(trace.file(&row).unwrap().inode).or_insert(0) += 1;
    }
    let inodes: BTreeSet<u64> = by_inode.keys().copied().collect();
    assert_eq!(inodes, [inode("a.pt"), inode("c.pt")].into());
    assert!(by_inode[&inode("a.pt")] >= 3, "{by_inode:?}");
    let (nothing, _) = filtered(iotrace(), dir, &["path=/nowhere/**"], "cat a.pt >out");
    assert_eq!(nothing.operations, 0);
}

/// Fails unless filters choose operations by phase. `iotrace`: how it is run; `dir`: where what it runs may write.
pub fn filters_choose_phases(iotrace: &dyn Fn() -> Iotrace, dir: &Path) {
    let script =
        "head -c 5000 /dev/zero >model.pt; cat model.pt >notes; cat /usr/lib/os-release >notes";
    let (_, rows) = filtered(iotrace(), dir, &["phase=checkpoint"], script);
    let writes = rows.iter().filter(|row| row.op as usize == op::WRITE);
    assert_eq!(writes.map(|row| row.result).sum::<i64>(), 5000);
    let code = u32::from(Phase::Checkpoint.code());
    assert!(rows.iter().all(|row| row.phase == code), "{rows:?}");
}

/// Fails unless filters choose operations by duration. `iotrace`: how it is run; `dir`: where what it runs may write.
pub fn filters_choose_durations(iotrace: &dyn Fn() -> Iotrace, dir: &Path) {
    let script =
        "for i in 1 2 3 4 5 6 7 8; do head -c 3000000 /dev/zero >big; sync big; cat big >out; done";
    let (_, rows) = filtered(iotrace(), dir, &["min-duration=300us"], script);
    assert!(!rows.is_empty(), "no call took so long");
    assert!(rows.iter().all(|row| row.duration >= 300_000));
    assert_eq!(filtered(iotrace(), dir, &["min-duration=1h"], script).1, []);
}

/// Fails unless filters choose operations by the name of the process. `iotrace`: how it is run; `dir`: where what it runs may write.
pub fn filters_choose_names(iotrace: &dyn Fn() -> Iotrace, dir: &Path) {
    fs::write(dir.join("a"), "a").unwrap();
    let filters = ["--trace-filter", "comm=hea*", "--trace-filter", "comm=wc"];
    let run = iotrace()
        .args(["--trace"])
        .args(filters)
        .current_dir(dir)
        .command(["sh", "-c", "cat a; head -c1 a; wc a; tail -c1 a"]);
    let trace = open(&run.recording);
    let model = iotrace_recording::read(&run.recording).unwrap().model;
    let names: BTreeSet<String> = rows(&trace)
        .iter()
        .map(|row| {
            let process = model.processes().iter().find(|p| p.id.pid == row.pid);
            String::from_utf8(process.unwrap().about.comm.clone()).unwrap()
        })
        .collect();
    assert_eq!(names, ["head".to_owned(), "wc".to_owned()].into());
}
