//! `iotrace mcp`, asked by the protocol's Python library: answers are those of `iotrace report`.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::common::{
    compare, directory,
    export::{by_python, environment},
    golden, number, text,
};
use serde_json::{Value, json};

/// Most bytes of an answer.
const MOST_BYTES: usize = 64 << 10;

/// Starts the server in a directory where nothing is, and calls tools one after the other; gives the tools, and what each call
/// said: whether it is an error, and its text.
const CLIENT: &str = r#"
import asyncio, json, sys
from mcp import ClientSession, MCPError
from mcp.client.stdio import StdioServerParameters, stdio_client

async def main():
    program, place, directories, calls = sys.argv[1], sys.argv[2], json.loads(sys.argv[3]), json.loads(sys.argv[4])
    server = StdioServerParameters(command=program, args=["mcp", *directories], cwd=place)
    async with stdio_client(server) as streams, ClientSession(*streams) as session:
        await session.initialize()
        listed = await session.list_tools()
        tools = [tool.model_dump(mode="json") for tool in listed.tools]
        results = []
        for name, arguments in calls:
            try:
                result = await session.call_tool(name, arguments)
                [content] = result.content
                results.append([bool(result.is_error), content.text])
            except MCPError as error:
                results.append(["refused", str(error)])
        print(json.dumps({"tools": tools, "results": results}))

asyncio.run(main())
"#;

pub struct Said {
    tools: Vec<Value>,
    results: Vec<(Value, String)>,
}

pub fn ask(directories: &[&Path], calls: Value) -> Said {
    let (_keep, place) = directory();
    let directories = json!(directories).to_string();
    let calls = calls.to_string();
    let args = [
        Path::new(env!("CARGO_BIN_EXE_iotrace")),
        &place,
        Path::new(&directories),
        Path::new(&calls),
    ];
    let said = by_python(&environment("mcp"), CLIENT, &args);
    let result = |result: &Value| (result[0].clone(), text_of(&result[1]));
    Said {
        tools: compare::list(&said, "tools").to_vec(),
        results: compare::list(&said, "results").iter().map(result).collect(),
    }
}

fn text_of(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

impl Said {
    /// The answers in order, each an object and no error.
    #[track_caller]
    pub fn objects(&self) -> Vec<Value> {
        let object = |(is_error, text): &(Value, String)| {
            assert_eq!(*is_error, json!(false), "{text}");
            assert!(text.len() <= MOST_BYTES, "{} bytes", text.len());
            serde_json::from_str(text).unwrap()
        };
        self.results.iter().map(object).collect()
    }

    /// The errors in order, each a tool's own.
    #[track_caller]
    fn errors(&self) -> Vec<&str> {
        let error = |(is_error, text): &'_ (Value, String)| {
            assert_eq!(*is_error, json!(true), "{text}");
        };
        self.results.iter().for_each(error);
        self.results.iter().map(|(_, text)| &**text).collect()
    }
}

#[test]
fn every_tool_answers_as_the_report_does() {
    let kept = golden::kept("training");
    let report = kept.report();
    let said = ask(
        &[&kept.recording],
        json!([
            ["list_recordings", {}],
            ["summary", {}],
            ["findings", {"recordings": [kept.recording]}],
            ["files", {"by": "bytes", "phase": "training", "limit": 3}],
            ["files", {"glob": "*.py"}],
            ["tables", {}],
            ["tables", {"table": "files"}],
            ["query", {"sql": "SELECT sum(reads) AS r, sum(bytes_written) FROM files"}],
            ["query", {"sql": "SELECT count(*) FROM processes"}],
            ["diff", {"before": kept.recording, "after": kept.recording}],
        ]),
    );
    for tool in &said.tools {
        assert_eq!(tool["annotations"]["read_only_hint"], json!(true), "{tool}");
    }
    let names: Vec<&str> = said.tools.iter().map(|tool| text(tool, "name")).collect();
    assert_eq!(
        names,
        [
            "list_recordings",
            "summary",
            "findings",
            "report_section",
            "files",
            "waits",
            "tables",
            "query",
            "diff"
        ]
    );
    let answers = said.objects();
    let [
        list,
        summary,
        findings,
        files,
        scripts,
        tables,
        columns,
        sums,
        processes,
        diff,
    ] = &answers[..]
    else {
        panic!("{} answers", answers.len());
    };
    let listed = &compare::list(list, "recordings")[0];
    assert_eq!(text(listed, "name"), kept.recording.to_str().unwrap());
    assert_eq!(
        (
            &listed["host"],
            &listed["target"]["command"],
            &listed["is_complete"]
        ),
        (&report["host"], &report["command"], &json!(true))
    );
    for (key, value) in summary.as_object().unwrap() {
        assert_eq!(value, &report[key], "{key}");
    }
    assert!(summary.get("epochs").is_some() && summary.get("files").is_none());
    assert_eq!(findings["findings"], report["findings"]);
    assert_eq!(findings["verdict"], report["verdict"]);

    let training = &report["phases"]["training"];
    assert_eq!(files["files"], training["files"]);
    let rows = compare::list(files, "rows");
    let bytes = |row: &Value| number(row, "bytes_read") + number(row, "bytes_written");
    let sum: u64 = rows.iter().map(bytes).sum();
    assert_eq!(sum + bytes(&files["rest"]), bytes(training));
    assert!(rows.len() == 3 && rows.is_sorted_by(|one, next| bytes(one) >= bytes(next)));
    assert!(text(files, "more").contains("\"offset\": 3"));
    let rows = compare::list(scripts, "rows");
    assert!(!rows.is_empty() && rows.iter().all(|row| text(row, "name").ends_with(".py")));

    assert!(compare::list(tables, "tables").contains(&json!("spans")));
    assert!(text(&columns["columns"], "reads").contains("Reads that succeeded"));
    let totals = &report["totals"];
    assert_eq!(sums["columns"][0], "r");
    assert_eq!(
        sums["rows"],
        json!([[totals["reads"], totals["bytes_written"]]])
    );
    assert_eq!(sums.get("more"), None);
    let rows = number(&json!({"n": processes["rows"][0][0]}), "n");
    assert!(rows >= compare::list(&report, "processes").len() as u64);
    for measure in ["before", "after"] {
        let found = &diff["phases"]["training"]["bytes_read"][measure];
        assert_eq!(found, &training["bytes_read"]);
    }
}

#[test]
fn sections_and_waits_are_those_of_the_report() {
    let kept = golden::kept("waits");
    let report = kept.report();
    let said = ask(
        &[&kept.recording],
        json!([
            ["waits", {}],
            ["report_section", {"name": "totals"}],
            ["report_section", {"name": "totals", "limit": 2, "offset": 1}],
            ["query", {"sql": "SELECT leaf, sum(ns) FROM waits GROUP BY leaf"}],
        ]),
    );
    let waits: Value = serde_json::from_str(&said.results[0].1).unwrap();
    let (found, reported) = (&waits["waits"][0], &report["waits"][0]);
    assert_eq!(found["leaves"], reported["leaves"]);
    assert_eq!(waits["verdict"], report["verdict"]);
    let (whole, part) = (&said.results[1].1, &said.results[2].1);
    assert!(whole.contains("Totals"), "{whole}");
    let lines: Vec<&str> = whole.lines().collect();
    assert!(part.starts_with(&lines[1..3].join("\n")), "{part}");
    assert!(part.contains("\"offset\": 3"), "{part}");
    let rows: Value = serde_json::from_str(&said.results[3].1).unwrap();
    let by_leaf: BTreeMap<String, f64> = compare::list(&rows, "rows")
        .iter()
        .map(|row| (text_of(&row[0]), row[1].as_f64().unwrap() / 1e9))
        .collect();
    let running = reported["running_seconds"].as_f64().unwrap();
    assert!((by_leaf["running"] - running).abs() < 1e-9, "{by_leaf:?}");
}

#[test]
fn sql_reads_lists_the_trace_and_names_of_any_bytes() {
    let kept = golden::kept("tables");
    let hostile = golden::kept("hostile-names");
    let sizes = "SELECT value ->> 'size', sum(value ->> 'count') AS n FROM files, json_each(access_sizes) \
                 GROUP BY 1 ORDER BY n DESC, 1 LIMIT 1";
    let operations = "SELECT sum(max(result, 0)) FROM operations WHERE operation = 'write'";
    let joined = "SELECT count(*) FROM operations o JOIN trace_files USING (file) JOIN \
                  (SELECT DISTINCT device, inode, generation FROM files) USING (device, inode, generation)";
    let one = [&kept.recording];
    let said = ask(
        &[&kept.recording, &hostile.recording],
        json!([
            ["query", {"recordings": one, "sql": sizes}],
            ["query", {"recordings": one, "sql": operations}],
            ["query", {"recordings": one, "sql": joined}],
            ["query", {"recordings": one, "sql": "SELECT count(*) FROM operations NATURAL JOIN trace_files"}],
            ["query", {"recordings": one, "sql": "SELECT count(file) FROM operations"}],
            ["query", {"recordings": [hostile.recording], "sql":
        "SELECT coalesce(path_raw, path) FROM files WHERE path LIKE '%/h%'"}],
        ]),
    );
    let answers = said.objects();
    let report = kept.report();
    let totals = &report["totals"];
    let most_common = &totals["access_sizes"][0];
    assert_eq!(
        answers[0]["rows"],
        json!([[most_common["size"], most_common["count"]]])
    );
    assert_eq!(answers[1]["rows"], json!([[totals["bytes_written"]]]));
    assert!(answers[2]["rows"][0][0].as_u64().unwrap() > 0);
    // Each operation's file has one number, and all numbers are listed.
    assert_eq!(answers[3]["rows"], answers[4]["rows"]);
    let paths = compare::list(&answers[5], "rows");
    let is_there = |wanted: &[u8]| {
        paths.iter().any(|row| match &row[0] {
            Value::String(path) => path.as_bytes().ends_with(wanted),
            blob => {
                let hex: String = wanted.iter().map(|byte| format!("{byte:02x}")).collect();
                text(blob, "bytes").ends_with(&hex)
            }
        })
    };
    for name in golden::HOSTILE {
        assert!(is_there(name), "{name:?}: {paths:?}");
    }
    // What programs chose is in no description.
    let tools = Value::from(said.tools.clone()).to_string();
    assert!(!tools.contains("alert(") && !tools.contains(kept.recording.to_str().unwrap()));
}

#[test]
fn an_answer_that_is_too_long_is_cut_and_says_so() {
    let kept = golden::kept("training");
    let endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000) \
                   SELECT i, printf('%.100c', 'x') FROM n";
    let said = ask(
        &[&kept.recording],
        json!([
            ["query", {"sql": endless, "limit": 100_000}],
            ["query", {"sql": "SELECT * FROM files", "limit": 100_000}],
            ["query", {"sql": "SELECT printf('%.200000c', 'x')"}],
            ["files", {"limit": 1}],
        ]),
    );
    let answers = said.objects();
    let rows = compare::list(&answers[0], "rows");
    assert!(rows.len() > 100 && rows[9][0] == json!(10));
    assert_eq!(answers[0]["cut"][0]["at"], "/rows");
    assert!(text(&answers[0], "more").contains("LIMIT"));
    let shown = number(&answers[1]["cut"][0], "shown");
    assert_eq!(compare::list(&answers[1], "rows").len() as u64, shown);
    assert!(text(&answers[1], "rest").contains("fewer columns"));
    assert_eq!(answers[2]["cut"][0]["of"], json!(200_000));
    assert_eq!(compare::list(&answers[3], "rows").len(), 1);
    assert!(number(&answers[3]["rest"], "rows") > 0);
}

#[test]
fn errors_say_what_to_do_first() {
    let kept = golden::kept("nothing");
    let other = golden::kept("files");
    let name = kept.recording.to_str().unwrap();
    let outside = "SELECT * FROM pragma_database_list";
    let slow =
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n";
    let cases = [
        (json!(["summary", {}]), "name a recording of"),
        (
            json!(["summary", {"recordings": ["/etc"]}]),
            "name a recording of",
        ),
        (
            json!(["diff", {"before": name, "after": "../other"}]),
            "name a recording of",
        ),
        (
            json!(["summary", {"recording": name}]),
            "give arguments as the tool's schema has them",
        ),
        (
            json!(["waits", {"recordings": [name]}]),
            "record with `iotrace record --waits`",
        ),
        (
            json!(["report_section", {"recordings": [name], "name": "nothing"}]),
            "name one of the sections findings",
        ),
        (
            json!(["files", {"recordings": [name], "phase": "nothing"}]),
            "name startup",
        ),
        (
            json!(["files", {"recordings": [name], "glob": "["}]),
            "write another glob",
        ),
        (
            json!(["tables", {"table": "nothing"}]),
            "name one of the tables processes",
        ),
        (
            json!(["query", {"recordings": [name], "sql": "SELECT 1 FROM nowhere"}]),
            "name one of the tables processes",
        ),
        (
            json!(["query", {"recordings": [name], "sql": "SELECT nowhere FROM files"}]),
            "ask the tool `tables`",
        ),
        (
            json!(["query", {"recordings": [name], "sql": "SELECT 1; SELECT 2"}]),
            "write one SELECT",
        ),
        (
            json!(["query", {"recordings": [name], "sql": "DELETE FROM files"}]),
            "write one SELECT",
        ),
        (
            json!(["query", {"recordings": [name], "sql": "ATTACH '/tmp/other' AS other"}]),
            "write one SELECT",
        ),
        (
            json!(["query", {"recordings": [name], "sql": "PRAGMA temp_store_directory = '/tmp'"}]),
            "write one SELECT",
        ),
        (
            json!(["query", {"recordings": [name], "sql": "SELECT load_extension('x')"}]),
            "write one SELECT",
        ),
        (
            json!(["query", {"recordings": [name], "sql": outside}]),
            "write one SELECT",
        ),
        (
            json!(["query", {"recordings": [name], "sql": slow}]),
            "ask for less",
        ),
    ];
    let calls: Vec<&Value> = cases.iter().map(|(call, _)| call).collect();
    let said = ask(&[&kept.recording, &other.recording], json!(calls));
    for ((call, beginning), error) in cases.iter().zip(said.errors()) {
        assert!(error.starts_with(beginning), "{call}: {error}");
    }
    let said = ask(&[&kept.recording], json!([["delete", {}]]));
    let (is_error, text) = &said.results[0];
    assert_eq!(*is_error, json!("refused"));
    assert!(text.contains("name one of these tools"), "{text}");
}

/// The first part of a recording.
fn first_part(recording: &Path) -> PathBuf {
    recording.join("part-000001")
}

#[test]
fn a_broken_recording_is_an_error_of_the_call() {
    let kept = golden::kept("files");
    let sound = golden::kept("nothing");
    let broken = first_part(&kept.recording).join("files.parquet");
    let mut bytes = fs::read(&broken).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&broken, bytes).unwrap();
    let calls = json!([
        ["summary", {"recordings": [kept.recording]}],
        ["query", {"recordings": [kept.recording], "sql": "SELECT path FROM files"}],
        ["query", {"recordings": [kept.recording], "sql": "SELECT count(*) FROM operations"}],
        ["diff", {"before": sound.recording, "after": kept.recording}],
        ["summary", {"recordings": [sound.recording]}],
    ]);
    let said = ask(&[&kept.recording, &sound.recording], calls);
    for index in [0, 1, 3] {
        let (is_error, text) = &said.results[index];
        assert_eq!(*is_error, json!(true), "{text}");
        assert!(text.contains("files.parquet is damaged"), "{text}");
    }
    for index in [2, 4] {
        assert_eq!(
            said.results[index].0,
            json!(false),
            "{}",
            said.results[index].1
        );
    }
}

#[test]
fn nothing_outside_of_the_recordings_is_read() {
    let kept = golden::kept("files");
    let (_keep, dir) = directory();
    let table = first_part(&kept.recording).join("errors.parquet");
    fs::rename(&table, dir.join("errors.parquet")).unwrap();
    symlink(dir.join("errors.parquet"), &table).unwrap();
    let calls = json!([
        ["summary", {}],
        ["query", {"sql": "SELECT * FROM errors"}],
        ["list_recordings", {}],
    ]);
    let said = ask(&[&kept.recording], calls);
    for (_, text) in &said.results {
        assert!(text.contains("replace "), "{text}");
        assert!(
            text.contains("errors.parquet by what it leads to"),
            "{text}"
        );
    }
}

#[test]
fn what_is_no_recording_is_refused_at_the_start() {
    let (_keep, dir) = directory();
    for (args, word) in [
        (vec![dir.clone()], "has no meta.json"),
        (vec![dir.join("missing")], "missing"),
        (vec![], "name a recording"),
    ] {
        let out = Command::new(env!("CARGO_BIN_EXE_iotrace"))
            .arg("mcp")
            .args(&args)
            .current_dir(&dir)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(1), "{errors}");
        assert!(errors.contains(word), "{errors}");
        assert!(out.stdout.is_empty());
    }
}
