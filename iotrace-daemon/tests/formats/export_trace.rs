//! What exports have of the operation trace: against the trace, the counters, and what a program says that it did.

use std::{collections::BTreeMap, path::Path};

use crate::common::{
    compare, directory,
    export::{
        by_python, environment, export, export_all, exported, exported_all, gunzipped, refused,
        set_host, summary,
    },
    golden, number, text,
};
use iotrace_common::op;
use iotrace_recording::trace::{Row, Trace};
use serde_json::Value;

/// What PyDarshan reads of DXT_POSIX, and of POSIX to compare with.
const READ: &str = "import darshan, json, sys\n\
    report = darshan.DarshanReport(sys.argv[1], read_all=True)\n\
    posix = report.records['POSIX'].to_df()['counters']\n\
    of = {(c['id'], c['rank']): {k: int(v) for k, v in c.items()} for c in posix.to_dict('records')}\n\
    dxt = report.records['DXT_POSIX'].to_dict() if 'DXT_POSIX' in report.modules else []\n\
    print(json.dumps({'job': report.metadata['job'], 'modules': list(report.modules), 'posix': len(of),\n\
        'run': report.metadata['job']['run_time'],\n\
        'dxt': [{**r, 'posix': of[r['id'], r['rank']], 'name': report.name_records[r['id']]} for r in dxt]},\n\
        default=lambda value: value.item() if hasattr(value, 'item') else str(value)))";

/// The same, of a log that is exported.
pub fn darshan<P: AsRef<std::ffi::OsStr>>(recordings: &[P], log: &Path) -> Value {
    exported_all(recordings, &["-f", "darshan", "-o", log.to_str().unwrap()]);
    by_python(&environment("darshan"), READ, &[log])
}

/// All rows of a trace, and its successful reads and writes.
fn rows(recording: &Path) -> (Vec<Row>, Vec<Row>) {
    let trace = Trace::open(recording).unwrap().expect("a trace");
    let rows: Vec<Row> = trace.rows().collect::<Result<_, _>>().unwrap();
    assert_eq!(rows.len() as u64, trace.operations);
    let moves = |row: &&Row| matches!(row.op as usize, op::READ | op::WRITE) && row.result >= 0;
    let moved = rows.iter().filter(moves).copied().collect();
    (rows, moved)
}

/// Segments of a kind: offset, length, start and end in nanoseconds.
fn segments(record: &Value, kind: &str) -> Vec<[i64; 4]> {
    let segments = compare::list(record, kind).iter();
    let segments = segments.map(|segment| {
        let ns = |name: &str| (segment[name].as_f64().unwrap() * 1e9).round() as i64;
        let [offset, length] = ["offset", "length"].map(|name| segment[name].as_i64().unwrap());
        [offset, length, ns("start_time"), ns("end_time")]
    });
    segments.collect()
}

#[test]
fn pydarshan_reads_each_read_and_write() {
    let (_keep, dir) = directory();
    let finished = golden::kept("operations");
    let log = dir.join("log.darshan");
    let read = darshan(&[&finished.recording], &log);
    let (_, moved) = rows(&finished.recording);
    let mut found = [Vec::new(), Vec::new()];
    for record in compare::list(&read, "dxt") {
        let counters = &record["posix"];
        for (index, (kind, moved)) in [("read", "READ"), ("write", "WRITTEN")].iter().enumerate() {
            let of_kind = segments(record, &format!("{kind}_segments"));
            let calls = number(counters, &format!("POSIX_{}S", kind.to_uppercase()));
            assert_eq!(of_kind.len() as u64, calls, "{kind}s of {record}");
            let bytes: i64 = of_kind.iter().map(|segment| segment[1]).sum();
            assert_eq!(
                bytes as u64,
                number(counters, &format!("POSIX_BYTES_{moved}"))
            );
            found[index].extend(of_kind);
        }
    }
    for (op, found) in [op::READ, op::WRITE].into_iter().zip(&mut found) {
        let of_kind = moved.iter().filter(|row| row.op as usize == op);
        let mut traced: Vec<_> = of_kind
            .map(|row| (row.offset.unwrap(), row.result, row.duration))
            .collect();
        traced.sort_unstable();
        let mut found: Vec<_> = found
            .iter()
            .map(|[offset, length, start, end]| (*offset, *length, end - start))
            .collect();
        found.sort_unstable();
        assert_eq!(found.len(), traced.len());
        for (found, traced) in found.iter().zip(&traced) {
            assert_eq!((found.0, found.1), (traced.0, traced.1));
            assert!(
                (found.2 - traced.2).abs() <= 1,
                "{found:?}, {traced:?} in the trace"
            );
        }
    }
    // What the program says: of the first process, and of its child.
    let shared: Vec<&Value> = compare::list(&read, "dxt")
        .iter()
        .filter(|record| text(record, "name").ends_with("/shared.bin"))
        .collect();
    let of = |record: &Value, kind: &str| -> Vec<(i64, i64)> {
        let mut all: Vec<_> = segments(record, kind)
            .iter()
            .map(|segment| (segment[0], segment[1]))
            .collect();
        all.sort_unstable();
        all
    };
    let [first, child] = shared[..] else {
        panic!("{} records", shared.len());
    };
    let mut reads: Vec<(i64, i64)> = (0..50).map(|index| (index * 1000, 90)).collect();
    reads.push((1 << 20, 0));
    assert_eq!(of(first, "read_segments"), reads);
    let writes: Vec<(i64, i64)> = (0..50).map(|index| (index * 1000, 100 + index)).collect();
    assert_eq!(of(first, "write_segments"), writes);
    let reads: Vec<(i64, i64)> = (0..7).map(|index| (index, 500)).collect();
    assert_eq!(of(child, "read_segments"), reads);
    assert_eq!(of(child, "write_segments"), []);
    // Within the run, and one after the other as they were made.
    let run = (read["run"].as_f64().unwrap() * 1e9) as i64 + 1;
    let writes = segments(first, "write_segments");
    assert!(
        writes.windows(2).all(|pair| pair[0][3] <= pair[1][2]),
        "{writes:?}"
    );
    assert!(
        writes
            .iter()
            .all(|[.., start, end]| 0 <= *start && start <= end && *end <= run)
    );
    // Its own heat map is made of them.
    let summary = summary(&log, &dir, &["--enable_dxt_heatmap"]);
    assert!(summary.contains("Heat Map: DXT_POSIX"));
}

#[test]
fn without_a_trace_there_is_no_dxt() {
    let (_keep, dir) = directory();
    let finished = golden::kept("files");
    let read = darshan(&[&finished.recording], &dir.join("log.darshan"));
    assert!(number(&read, "posix") > 0);
    let modules = compare::list(&read, "modules");
    assert!(
        !modules.iter().any(|name| name == "DXT_POSIX"),
        "{modules:?}"
    );
}

#[test]
fn a_table_has_a_row_for_each_operation() {
    let finished = golden::kept("operations");
    let args = ["-f", "json", "--by", "operation"];
    let table: Value = serde_json::from_slice(&exported(&finished.recording, &args)).unwrap();
    assert_eq!(table["by"], "operation");
    let found = compare::list(&table, "rows");
    let all = rows(&finished.recording).0;
    assert_eq!(found.len(), all.len());
    for (found, row) in found.iter().zip(&all) {
        let known = |value: Option<i64>| value.map_or(Value::Null, Into::into);
        assert_eq!(number(found, "pid"), u64::from(row.pid));
        assert_eq!(number(found, "tid"), u64::from(row.tid));
        assert_eq!(text(found, "operation"), op::NAMES[row.op as usize]);
        assert_eq!(found["offset"], known(row.offset), "{found}");
        assert_eq!(found["length"], known(row.length), "{found}");
        assert_eq!(found["result"], row.result, "{found}");
        assert_eq!(found["error"].is_string(), row.result < 0, "{found}");
        let ns = found["duration_seconds"].as_f64().unwrap() * 1e9;
        assert_eq!(ns.round() as i64, row.duration, "{found}");
    }
    let of_file = |found: &&Value| text(found, "path").ends_with("/shared.bin");
    let reads = found.iter().filter(of_file);
    let reads = reads.filter(|found| text(found, "operation") == "read");
    assert_eq!(reads.count(), 50 + 2 + 7);
    assert!(found.iter().any(|found| text(found, "error") == "EBADF"));
    let csv = exported(&finished.recording, &["-f", "csv", "--by", "operation"]);
    let lines = csv.iter().filter(|byte| **byte == b'\n').count();
    assert_eq!(lines, all.len() + 1);
}

#[test]
fn operations_that_nobody_kept_are_refused() {
    let (_keep, dir) = directory();
    let nodes = ["operations", "files"].map(golden::kept);
    let [with, without] = [&*nodes[0].recording, &*nodes[1].recording];
    set_host(with, "gpu-a");
    let file = dir.join("operations.csv");
    let args = [
        "-f",
        "csv",
        "--by",
        "operation",
        "-o",
        file.to_str().unwrap(),
    ];
    let name = without.to_str().unwrap();
    let words = [name, "has no operation trace", "`iotrace record --trace`"];
    refused(&export(without, &args), &words);
    refused(&export_all(&[with, without], &args), &words);
    assert!(!file.exists(), "nothing is written");
    let args = ["-f", "darshan", "--by", "operation"];
    refused(&export(with, &args), &["leave out --by", "csv or json"]);
}

#[test]
fn two_nodes_have_their_own_segments() {
    let (_keep, dir) = directory();
    let nodes = ["operations", "tables"].map(golden::kept);
    let paths = [&*nodes[0].recording, &*nodes[1].recording];
    set_host(paths[0], "gpu-a");
    set_host(paths[1], "gpu-b");
    let read = darshan(&paths, &dir.join("log.darshan"));
    for (path, host) in paths.into_iter().zip(["gpu-a", "gpu-b"]) {
        let of_host = compare::list(&read, "dxt")
            .iter()
            .filter(|record| text(record, "hostname") == host);
        let segments: u64 = of_host
            .map(|record| number(record, "read_count") + number(record, "write_count"))
            .sum();
        assert_eq!(segments, rows(path).1.len() as u64, "{host}");
    }
}

/// Operations by thread, kind, microseconds and result.
type Spans = BTreeMap<(u64, String, u64, i64), u64>;

#[test]
fn chrome_has_a_span_for_each_operation() {
    let finished = golden::kept("operations");
    let trace = exported(&finished.recording, &["-f", "chrome"]);
    let trace: Value = serde_json::from_slice(&gunzipped(&trace)).unwrap();
    let events = compare::list(&trace, "traceEvents");
    let mut spans = Spans::new();
    let mut threads = BTreeMap::new();
    for event in events {
        let (pid, lane) = (event["pid"].as_u64(), event["tid"].as_u64());
        if event["name"] == "thread_name" {
            threads.insert((pid, lane), text(&event["args"], "name"));
        }
        if event["cat"] == "operation" {
            let thread = threads[&(pid, lane)].strip_prefix("thread ").unwrap();
            let duration = (event["dur"].as_f64().unwrap() * 1e3).round() as u64;
            let result = event["args"]["result"].as_i64().unwrap();
            let key = (
                thread.parse().unwrap(),
                text(event, "name").to_owned(),
                duration,
                result,
            );
            *spans.entry(key).or_default() += 1;
        }
    }
    let mut traced = Spans::new();
    for row in rows(&finished.recording).0 {
        let name = op::NAMES[row.op as usize].to_owned();
        let key = (row.tid.into(), name, row.duration as u64, row.result);
        *traced.entry(key).or_default() += 1;
    }
    assert_eq!(spans, traced);
    // Where the file is known, it is named.
    let reads = events.iter().filter(|event| {
        event["cat"] == "operation"
            && event["name"] == "read"
            && event["args"]["file"]
                .as_str()
                .is_some_and(|path| path.ends_with("/shared.bin"))
    });
    assert_eq!(
        reads.count(),
        50 + 2 + 7,
        "with the one at the end and the one that failed"
    );
}
