//! Runs the examples of docs/guide/sql.md: totals must be those of `iotrace report`.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use crate::common::{
    compare, directory,
    export::{by_python, environment, exported, report_of},
    golden, number, text,
};
use serde_json::Value;

const DOCUMENT: &str = include_str!("../../../docs/guide/sql.md");

/// Nodes that are made from one recording.
const NODES: usize = 64;

/// The snippets of the document in one language, in order.
fn snippets(section: &str, language: &str) -> Vec<String> {
    let begin = DOCUMENT.find(&format!("## {section}\n")).unwrap() + 3;
    let rest = &DOCUMENT[begin..];
    let rest = &rest[..rest.find("\n## ").unwrap_or(rest.len())];
    let fence = format!("```{language}\n");
    let fences = rest.split(&fence).skip(1);
    let snippets: Vec<String> = fences
        .map(|fence| fence[..fence.find("```").unwrap()].to_owned())
        .collect();
    assert!(!snippets.is_empty(), "no {language} in {section}");
    snippets
}

/// Recordings of nodes, made from one by giving it other host names: in meta.json, and in each row.
fn nodes(recording: &Path, job: &Path) -> Vec<PathBuf> {
    const SCRIPT: &str = r#"
import glob, json, os, sys
import pyarrow, pyarrow.parquet as parquet
recording, job, nodes = sys.argv[1], sys.argv[2], int(sys.argv[3])
tables = {path: parquet.read_table(path) for path in glob.glob(recording + "/part-??????/*.parquet")}
meta = json.load(open(recording + "/meta.json"))
# It is of the file as iotrace wrote it.
del meta["checksum"]
for node in range(nodes):
    host = f"gpu-{node:03}"
    directory = f"{job}/{host}"
    for path, table in tables.items():
        place = os.path.join(directory, os.path.relpath(path, recording))
        os.makedirs(os.path.dirname(place), exist_ok=True)
        column = table.schema.get_field_index("host")
        hosts = pyarrow.array([host] * len(table), pyarrow.string())
        table = table.set_column(column, table.schema.field(column), hosts)
        parquet.write_table(table, place)
    meta.update(host=host, boot_id=f"boot of {host}")
    json.dump(meta, open(directory + "/meta.json", "w"))
print(json.dumps(sorted(os.listdir(job))))
"#;
    fs::create_dir_all(job).unwrap();
    let count = NODES.to_string();
    let names = by_python(
        &environment("analysis"),
        SCRIPT,
        &[recording, job, Path::new(&count)],
    );
    let names = names.as_array().unwrap();
    assert_eq!(names.len(), NODES);
    names
        .iter()
        .map(|name| job.join(name.as_str().unwrap()))
        .collect()
}

/// Rows that DuckDB gives for every query of a section.
fn by_duckdb(section: &str, recording: &Path, job: &Path) -> Vec<Vec<Value>> {
    const SCRIPT: &str = r#"
import duckdb, json, sys
results = []
for query in json.loads(sys.argv[1]):
    result = duckdb.sql(query)
    results.append([dict(zip(result.columns, row)) for row in result.fetchall()])
print(json.dumps(results, default=str))
"#;
    let queries: Vec<String> = snippets(section, "sql")
        .iter()
        .map(|query| placed(query, recording, job))
        .collect();
    let queries = serde_json::to_string(&queries).unwrap();
    let results = by_python(&environment("analysis"), SCRIPT, &[Path::new(&queries)]);
    serde_json::from_value(results).unwrap()
}

fn placed(snippet: &str, recording: &Path, job: &Path) -> String {
    snippet
        .replace("DIR", recording.to_str().unwrap())
        .replace("JOB", job.to_str().unwrap())
}

/// Runs snippets of Python, with an end that prints what they found as JSON.
fn by_snippets(section: &str, end: &str, recording: &Path, job: &Path) -> Value {
    // Spark for one machine: what is given to it in the environment is what spark-submit would be given.
    const SCRIPT: &str = "import contextlib, io, os, sys\n\
        os.environ.update(SPARK_LOCAL_IP='127.0.0.1', PYSPARK_SUBMIT_ARGS='--master local[2] \
        --conf spark.ui.enabled=false --conf spark.sql.shuffle.partitions=4 pyspark-shell')\n\
        with contextlib.redirect_stdout(io.StringIO()):\n    exec(sys.argv[1])\nexec(sys.argv[2])";
    let code = placed(&snippets(section, "python").join("\n"), recording, job);
    by_python(
        &environment("analysis"),
        SCRIPT,
        &[Path::new(&code), Path::new(end)],
    )
}

#[track_caller]
fn same(found: &Value, totals: &Value, names: &[&str], times: u64) {
    for name in names {
        assert_eq!(number(found, name), number(totals, name) * times, "{name}");
    }
}

/// Whole counters that the snippets sum.
const TOTALS: [&str; 6] = [
    "reads",
    "writes",
    "opens",
    "bytes_read",
    "bytes_written",
    "failures",
];

#[test]
fn duckdb_and_pandas_find_the_reports_numbers() {
    let (_keep, dir) = directory();
    let finished = golden::kept("tables");
    let (report, recording) = (finished.report(), &finished.recording);
    let totals = &report["totals"];
    // One node is a job too.
    let job = dir.join("job");
    fs::create_dir(&job).unwrap();
    std::os::unix::fs::symlink(recording, job.join("node")).unwrap();
    let results = by_duckdb("DuckDB", recording, &job);
    let [
        sums,
        files,
        processes,
        over_time,
        phases,
        errors,
        sizes,
        hosts,
    ] = &results[..]
    else {
        panic!("{} queries", results.len());
    };
    same(&sums[0], totals, &TOTALS, 1);
    let seconds = sums[0]["read_seconds"].as_f64().unwrap();
    assert!((seconds - totals["read_seconds"].as_f64().unwrap()).abs() < 1e-9);

    let mut by_file: BTreeMap<(&str, u64), (&str, u64)> = BTreeMap::new();
    for row in compare::list(&report, "files") {
        let key = (text(row, "device"), number(row, "inode"));
        let sum = by_file.entry(key).or_insert((text(row, "path"), 0));
        sum.1 += number(row, "bytes_read");
    }
    let mut by_file: Vec<(&str, u64)> = by_file.into_values().collect();
    by_file.sort_by_key(|(path, bytes)| (std::cmp::Reverse(*bytes), *path));
    assert_eq!(files.len(), 10.min(by_file.len()));
    for (row, (path, bytes)) in files.iter().zip(by_file) {
        assert_eq!(
            (text(row, "path"), number(row, "bytes_read")),
            (path, bytes)
        );
    }

    for row in processes {
        let process = compare::process(&report, number(row, "pid"));
        same(row, &process["totals"], &["bytes_read", "bytes_written"], 1);
        let command: Vec<&str> = compare::list(process, "command")
            .iter()
            .map(|word| word.as_str().unwrap())
            .collect();
        assert_eq!(text(row, "command"), command.join(" "));
    }
    assert_eq!(processes.len(), compare::list(&report, "processes").len());
    assert!(
        over_time.len() > 2
            && over_time
                .iter()
                .all(|row| row["read_bytes_per_second"].is_number())
    );
    let bytes: u64 = phases.iter().map(|row| number(row, "bytes")).sum();
    assert_eq!(
        bytes,
        number(totals, "bytes_read") + number(totals, "bytes_written")
    );
    let training = phases
        .iter()
        .find(|row| text(row, "phase") == "training")
        .unwrap();
    let merged = report["phases"]["training"]["merged_seconds"]
        .as_f64()
        .unwrap();
    let at_most = training["at_most"].as_f64().unwrap();
    assert!(
        merged > 0.0 && merged <= at_most + 1e-9,
        "{merged} of {at_most}"
    );

    let mut reported: BTreeMap<&str, u64> = BTreeMap::new();
    for row in errors {
        *reported.entry(text(row, "error")).or_default() += number(row, "calls");
    }
    for (error, calls) in totals["errors"].as_object().unwrap() {
        assert_eq!(reported.remove(error.as_str()), calls.as_u64(), "{error}");
    }
    assert!(reported.is_empty());
    let commonest: Vec<(u64, u64)> = compare::list(totals, "access_sizes")
        .iter()
        .map(|size| (number(size, "size"), number(size, "count")))
        .collect();
    assert_eq!(
        (number(&sizes[0], "size"), number(&sizes[0], "accesses")),
        commonest[0]
    );
    same(&hosts[0], totals, &["bytes_read", "bytes_written"], 1);

    const END: &str = "import json\n\
        print(json.dumps({**{name: int(value) for name, value in totals.items()},\n\
            'paths': int(by_path['bytes_read'].sum()), 'over_time': int(over_time['bytes_written'].sum())}))";
    let found = by_snippets("pandas", END, recording, &job);
    same(
        &found,
        totals,
        &["reads", "writes", "bytes_read", "bytes_written"],
        1,
    );
    assert_eq!(found["over_time"], totals["bytes_written"]);
    assert_eq!(found["paths"], totals["bytes_read"]);
}

#[test]
fn the_operation_trace_is_found_as_it_was_asked_for() {
    let (_keep, dir) = directory();
    let finished = golden::kept("tables");
    let recording = &finished.recording;
    let results = by_duckdb("The operation trace", recording, &dir);
    let [sums, slowest] = &results[..] else {
        panic!("{} queries", results.len());
    };
    let found = |name: &str| sums.iter().find(|row| text(row, "operation") == name);
    let (read, written) = (found("read").unwrap(), found("write").unwrap());
    let report = finished.report();
    let totals = &report["totals"];
    assert_eq!(read["bytes"], totals["bytes_read"]);
    assert_eq!(written["bytes"], totals["bytes_written"]);
    assert_eq!(written["bytes_asked"], totals["bytes_written"]);
    // What the program asked for in its child, and all that was asked for by the export.
    let rows = exported(recording, &["-f", "json", "--by", "operation"]);
    let rows: Value = serde_json::from_slice(&rows).unwrap();
    let (mut in_child, mut in_all) = (0, 0);
    for row in compare::list(&rows, "rows") {
        if text(row, "operation") == "read" {
            let asked = number(row, "length");
            in_all += asked;
            let is_data = row["path"]
                .as_str()
                .is_some_and(|path| path.ends_with(".npy"));
            in_child += if is_data { asked } else { 0 };
        }
    }
    let reads: u64 = (1..=6)
        .map(|size: u64| (size * 100_000).div_ceil(4096) + 1)
        .sum();
    assert_eq!(in_child, 4096 * reads);
    assert_eq!(number(read, "bytes_asked"), in_all);
    // The last two of each file got less.
    assert!(number(read, "short") >= 12);
    assert_eq!(slowest.len(), 20);

    const END: &str = "import json\nprint(json.dumps(\
        {name: int(bytes) for name, bytes in asked[asked >= 0].groupby(moving['operation']).sum().items()}))";
    let found = by_snippets("The operation trace", END, recording, &dir);
    assert_eq!(number(&found, "read"), in_all);
    assert_eq!(found["write"], totals["bytes_written"]);
}

#[test]
fn spark_finds_the_reports_numbers_of_many_nodes() {
    let (_keep, dir) = directory();
    let finished = golden::kept("tables");
    let job = dir.join("job");
    let nodes = nodes(&finished.recording, &job);
    let report = report_of(&nodes);
    // The job is what one node did, so many times.
    let once = &finished.report()["totals"];
    same(&report["totals"], once, &TOTALS, NODES as u64);
    const END: &str = "import json\n\
        found = totals.first().asDict()\n\
        found['by_host'] = [row.asDict() for row in by_host.collect()]\n\
        found['by_phase'] = {row['phase']: row.asDict() for row in by_phase.collect()}\n\
        found['slowest'] = slowest.count()\n\
        spark.stop()\n\
        print(json.dumps(found))";
    let found = by_snippets("Spark", END, &finished.recording, &job);
    let totals = &report["totals"];
    same(&found, totals, &TOTALS, 1);
    let read_ns = (totals["read_seconds"].as_f64().unwrap() * 1e9).round() as u64;
    assert_eq!(number(&found, "read_ns"), read_ns);
    let by_host = compare::list(&found, "by_host");
    assert_eq!((by_host.len(), &found["slowest"]), (NODES, &NODES.into()));
    for (host, reported) in compare::list(&report, "nodes")
        .iter()
        .map(|node| (text(node, "host"), node))
    {
        let row = by_host
            .iter()
            .find(|row| text(row, "host") == host)
            .unwrap();
        same(row, reported, &["bytes_read", "bytes_written"], 1);
    }
    let training = &found["by_phase"]["training"];
    assert!(number(training, "at_least_ns") * NODES as u64 <= number(training, "at_most_ns"));
}
