//! `--include GLOB` and `--exclude GLOB` of `iotrace report` and `iotrace export`: a part of the files.

use std::{
    path::Path,
    process::{Command, Output},
};

use super::{browser::Page, html::no_faults};
use crate::common::{
    compare::{self, COUNTERS, Counts, list},
    directory,
    export::{by_pydarshan, export, exported, gunzipped, refused},
    golden::{self, ALL},
    number, text,
};
use serde_json::{Value, json};

/// `iotrace report` of a recording with these options.
fn report(recording: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_iotrace"))
        .arg("report")
        .arg(recording)
        .args(args)
        .output()
        .expect("iotrace starts")
}

/// What it prints, which must go well.
#[track_caller]
fn printed(recording: &Path, args: &[&str]) -> String {
    let out = report(recording, args);
    let errors = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success() && errors.is_empty(), "{errors}");
    String::from_utf8(out.stdout).expect("UTF-8")
}

/// Its JSON, whose sums agree.
#[track_caller]
fn selected(recording: &Path, args: &[&str]) -> Value {
    let args = [&["--format", "json"], args].concat();
    let report = serde_json::from_str(&printed(recording, &args)).expect("JSON");
    compare::conserved(&report);
    report
}

/// A counter of every phase.
fn phase_sums(report: &Value, counter: &str) -> Vec<u64> {
    let phases = report["phases"].as_object().expect("phases");
    phases
        .values()
        .map(|phase| number(phase, counter))
        .collect()
}

/// Operations over all intervals, of all phases.
fn over_time(report: &Value) -> u64 {
    let slices = list(report, "time_series").iter();
    let phases = slices.flat_map(|slice| slice["phases"].as_object().expect("phases").values());
    phases.map(|phase| number(phase, "operations")).sum()
}

#[test]
fn both_parts_are_the_whole() {
    for golden in ALL
        .iter()
        .filter(|golden| !["nothing", "waits"].contains(&golden.name))
    {
        let (name, kept) = (golden.name, golden::kept(golden.name));
        let glob = format!("{}/**", kept.place.display());
        let whole = kept.report();
        let inside = selected(&kept.recording, &["--include", &glob]);
        let outside = selected(&kept.recording, &["--exclude", &glob]);
        let parts = [&inside, &outside];
        // Calls by path and overflow are of no file.
        let mut sum = Counts::default();
        for part in parts {
            sum.merge(&Counts::of(&part["totals"]));
        }
        for process in list(&whole, "processes") {
            sum.merge(&Counts::of(&process["by_name"]));
            sum.merge(&Counts::of(&process["overflow"]));
        }
        // Of calls by path the report has errors alone.
        sum.errors_by_operation.clear();
        let difference = sum.difference(&Counts::of(&whole["totals"]));
        assert!(
            difference.is_empty(),
            "{name}: parts (done), whole:\n{difference}"
        );
        for counter in COUNTERS.into_iter().chain(["files"]) {
            let [one, other] = parts.map(|part| phase_sums(part, counter));
            let both: Vec<u64> = one.iter().zip(&other).map(|(a, b)| a + b).collect();
            assert_eq!(
                both,
                phase_sums(&whole, counter),
                "{name}: {counter} by phase"
            );
        }
        let times = parts.map(over_time);
        assert_eq!(
            times.iter().sum::<u64>(),
            over_time(&whole),
            "{name}: over time"
        );
        // Every row is as it was: its phase, too, even if what told it is not chosen.
        let rows = parts.map(|part| list(part, "files"));
        for row in rows.into_iter().flatten() {
            assert!(list(&whole, "files").contains(row), "{name}: {row}");
        }
        let [inner, outer] = rows.map(Vec::len);
        assert_eq!(inner + outer, list(&whole, "files").len(), "{name}");
        assert!(inner > 0 && outer > 0, "{name}: {inner} and {outer} rows");
        for row in rows[0] {
            assert!(
                Path::new(text(row, "path")).starts_with(&kept.place),
                "{row}"
            );
        }
        let recorded = &whole["totals"]["files"];
        for part in parts {
            let selection = &part["selection"];
            assert_eq!(selection["files"], part["totals"]["files"], "{name}");
            assert_eq!(&selection["recorded_files"], recorded, "{name}");
        }
        let files = parts.map(|part| number(&part["totals"], "files"));
        assert_eq!(Some(files.iter().sum()), recorded.as_u64(), "{name}");
        assert!(whole.get("selection").is_none(), "{name}");
    }
}

#[test]
fn merged_time_of_a_part_has_bounds() {
    for name in ["ranks-2", "training", "small-reads"] {
        let kept = golden::kept(name);
        let whole = kept.report();
        let part = selected(
            &kept.recording,
            &["--exclude", "*0.npy", "--exclude", "*0.bin"],
        );
        let seconds = |sum: &Value, key: &str| sum[key].as_f64().expect("seconds");
        for (phase, sum) in part["phases"].as_object().expect("phases") {
            let least = seconds(sum, "merged_seconds_at_least");
            let most = seconds(sum, "merged_seconds");
            let kinds = ["read", "write", "meta", "sync", "failed"];
            let in_calls = kinds.map(|kind| sum[format!("{kind}_seconds")].as_f64().unwrap_or(0.0));
            let in_calls: f64 = in_calls.iter().sum();
            assert!(
                least <= most && most <= in_calls.max(least) + 1e-6,
                "{name}, {phase}: {sum}"
            );
            let of_whole = seconds(&whole["phases"][phase], "merged_seconds");
            assert!(
                least <= of_whole + 1e-9,
                "{name}, {phase}: {least} of {of_whole}"
            );
        }
    }
}

#[test]
fn checkpoints_and_epochs_are_those_of_the_files() {
    let kept = golden::kept("epochs");
    let whole = kept.report();
    let lengths = |report: &Value| ["checkpoints", "epochs"].map(|key| list(report, key).len());
    assert_eq!(lengths(&whole), [2, 2]);
    let data = selected(&kept.recording, &["--include", "*.npy"]);
    assert_eq!(lengths(&data), [0, 2]);
    assert_eq!(data["training_data"], whole["training_data"]);
    let saves = selected(&kept.recording, &["--exclude", "*.npy"]);
    assert_eq!(lengths(&saves), [2, 0]);
    for (of_part, of_whole) in list(&saves, "checkpoints")
        .iter()
        .zip(list(&whole, "checkpoints"))
    {
        for key in ["name", "start", "end", "bytes_written", "files", "fsyncs"] {
            assert_eq!(of_part[key], of_whole[key], "{key}");
        }
        assert_eq!(
            of_part["durable"],
            Value::Null,
            "other files may have been synced"
        );
    }
    // What is of no file, or of the whole run, is not there.
    for report in [&data, &saves] {
        assert_eq!(report["verdict"]["code"], "part-of-files");
        for key in ["findings", "looked_at"] {
            assert_eq!(report[key], json!([]), "{key}");
        }
        let processes = list(report, "processes");
        assert_eq!(processes.len(), 1, "the interpreter");
        assert!(
            processes
                .iter()
                .all(|process| process.get("cpu_seconds").is_none())
        );
        assert_eq!(number(&report["startup"], "not_found"), 0);
    }
}

#[test]
fn exclude_beats_include() {
    let kept = golden::kept("epochs");
    let paths = |args: &[&str]| -> Vec<String> {
        let report = selected(&kept.recording, args);
        let rows = list(&report, "files").iter();
        let files = rows.filter(|row| text(row, "type") == "regular");
        let place = format!("{}/work/", kept.place.display());
        let names = files.map(|row| text(row, "path").trim_start_matches(&place).to_owned());
        names.collect()
    };
    let data = [
        "data/train/0.npy",
        "data/train/1.npy",
        "data/train/2.npy",
        "data/train/3.npy",
    ];
    assert_eq!(paths(&["--include", "*.npy"]), data);
    assert_eq!(
        paths(&["--include", "*.npy", "--exclude", "[12].npy"]),
        [data[0], data[3]]
    );
    let (below, within) = ("**/work/data/**", "**/work/data/*");
    assert_eq!(paths(&["--include", below]), data);
    assert_eq!(paths(&["--include", within]), [""; 0], "* stops at /");
    let both = [
        "--include",
        "0.npy",
        "--include",
        "step_1/",
        "--exclude",
        "step_0/",
    ];
    assert_eq!(paths(&both), ["checkpoints/step_1/model.pt", data[0]]);
    assert_eq!(
        paths(&["--include", "*.npy", "--exclude", "*.npy"]),
        [""; 0]
    );
}

#[test]
fn a_glob_that_matches_nothing_leaves_an_empty_report() {
    let kept = golden::kept("files");
    let nothing = ["--include", "/nowhere/**"];
    let report = selected(&kept.recording, &nothing);
    assert_eq!(Counts::of(&report["totals"]), Counts::default());
    for key in [
        "files",
        "processes",
        "time_series",
        "checkpoints",
        "epochs",
        "remarks",
    ] {
        assert_eq!(report[key], json!([]), "{key}");
    }
    let selection = &report["selection"];
    assert_eq!(
        (number(selection, "files"), &selection["exclude"]),
        (0, &json!([]))
    );
    assert_eq!(selection["include"], json!(["/nowhere/**"]));
    let said = format!(
        "None of {} files: --include /nowhere/**.",
        selection["recorded_files"]
    );
    assert!(text(selection, "text").starts_with(&said), "{selection}");
    for more in [
        &[][..],
        &["--full"],
        &["--section", "totals"],
        &["--by", "file"],
    ] {
        let page = printed(&kept.recording, &[&nothing, more].concat());
        let page = page.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(page.contains(&said), "{more:?}: {page}");
    }
}

#[test]
fn every_format_says_that_it_is_a_part() {
    let kept = golden::kept("files");
    let options = ["--include", "*.npy", "--exclude", "plain.npy"];
    let with = |more: &[&str]| printed(&kept.recording, &[&options, more].concat());
    let said = "--include *.npy --exclude plain.npy.";
    let whole = kept.report();
    let number = number(&whole["totals"], "files");
    for more in [
        &[][..],
        &["--full"],
        &["--section", "files,findings"],
        &["--top", "3"],
    ] {
        let page = with(more);
        let page = page.split_whitespace().collect::<Vec<_>>().join(" ");
        let said = format!("Only 4 of {number} files: {said} Left out: ");
        assert!(page.contains(&said), "{more:?}: {page}");
        assert!(
            !page.contains("Nothing to change") && !page.contains("To change"),
            "{page}"
        );
        assert!(!page.contains("step_100.pt"), "{more:?}: {page}");
    }
    let view: Value = serde_json::from_str(&with(&["--by", "file", "-f", "json"])).expect("JSON");
    assert_eq!(view["selection"]["files"], 4);
    let (_keep, dir) = directory();
    let file = dir.join("report.html");
    with(&["-o", file.to_str().expect("UTF-8")]);
    let mut page = Page::open(&file);
    let text = page.text("#selection");
    assert!(
        text.starts_with("Only 4 of ") && text.contains(said),
        "{text}"
    );
    assert_eq!(
        page.eval("document.querySelectorAll('#findings').length"),
        0
    );
    no_faults(&mut page);
}

#[test]
fn what_cannot_be_is_refused() {
    let kept = golden::kept("nothing");
    let of = |args: &[&str]| {
        let out = report(&kept.recording, args);
        assert_eq!(out.status.code(), Some(2), "{args:?}");
        out
    };
    refused(
        &of(&["--include", "/data/[a"]),
        &["--include", "/data/[a", "[ is not closed"],
    );
    refused(&of(&["--exclude", ""]), &["--exclude", "the glob is empty"]);
    let large = format!("/{}a*", "?".repeat(40));
    refused(&of(&["--include", &large]), &["--include", "too large"]);
    refused(&of(&["--include", "*", "--scale"]), &["--scale"]);
    refused(
        &of(&["--exclude", "*", "--stage-to", "1G"]),
        &["--stage-to"],
    );
}

/// Rows of `iotrace export --format json` with these options.
#[track_caller]
fn rows(recording: &Path, args: &[&str]) -> Vec<Value> {
    let args = [&["--format", "json"], args].concat();
    let table: Value = serde_json::from_slice(&exported(recording, &args)).expect("JSON");
    list(&table, "rows").clone()
}

#[test]
fn both_parts_of_a_table_are_the_whole() {
    for (name, by, key) in [
        ("files", "file", "path"),
        ("ranks-2", "file", "path"),
        ("operations", "operation", "path"),
        ("files", "interval", "phase"),
    ] {
        let kept = golden::kept(name);
        let glob = format!("{}/**", kept.place.display());
        let of = |args: &[&str]| rows(&kept.recording, &[&["--by", by], args].concat());
        let parts = [of(&["--include", &glob]), of(&["--exclude", &glob])];
        assert!(parts.iter().all(|part| !part.is_empty()), "{name} by {by}");
        // What is of no file is in neither.
        let mut whole = of(&[]);
        whole.retain(|row| row.get(key).is_some_and(|value| !value.is_null()));
        for row in parts.iter().flatten().filter(|_| by != "interval") {
            assert!(whole.contains(row), "{name} by {by}: {row}");
        }
        for (part, is_inside) in parts.iter().zip([true, false]).filter(|_| by != "interval") {
            let is_there = |row: &Value| Path::new(text(row, "path")).starts_with(&kept.place);
            assert!(
                part.iter().all(|row| is_there(row) == is_inside),
                "{name} by {by}"
            );
        }
        if by != "interval" {
            let number = parts.iter().map(Vec::len).sum::<usize>();
            assert_eq!(number, whole.len(), "{name} by {by}");
            continue;
        }
        // An interval has rows in both parts.
        for counter in ["operations", "bytes_read", "bytes_written"] {
            let sum = |rows: &[Value]| -> u64 { rows.iter().map(|row| number(row, counter)).sum() };
            assert_eq!(sum(&parts.concat()), sum(&whole), "{counter}");
        }
    }
}

#[test]
fn other_formats_have_the_chosen_files_alone() {
    let kept = golden::kept("operations");
    let choice = ["--include", "*.bin"];
    let (_keep, dir) = directory();
    let is_chosen = |path: &str| path.ends_with(".bin");
    let chosen = rows(&kept.recording, &choice);
    assert!(!chosen.is_empty() && chosen.iter().all(|row| is_chosen(text(row, "path"))));

    let log = dir.join("log.darshan");
    let place = ["-f", "darshan", "-o", log.to_str().expect("UTF-8")];
    exported(&kept.recording, &[&choice[..], &place].concat());
    let read = by_pydarshan(&log);
    let records = list(&read, "records");
    assert!(!records.is_empty() && records.iter().all(|record| is_chosen(text(record, "name"))));
    let sum = |rows: &[Value], counter: &str| -> u64 {
        rows.iter()
            .map(|row| row[counter].as_f64().expect("a number") as u64)
            .sum()
    };
    assert_eq!(sum(records, "POSIX_BYTES_READ"), sum(&chosen, "bytes_read"));
    assert_eq!(read["heat"]["read"], sum(&chosen, "bytes_read"));
    assert_eq!(read["job"]["metadata"]["selected_files_only"], "1");

    let trace = exported(&kept.recording, &[&choice[..], &["-f", "chrome"]].concat());
    let trace: Value = serde_json::from_slice(&gunzipped(&trace)).expect("JSON");
    let events = list(&trace, "traceEvents");
    let mut files = events
        .iter()
        .filter_map(|event| event["args"]["file"].as_str())
        .peekable();
    assert!(files.peek().is_some() && files.all(is_chosen));

    let curves = |more: &[&str]| {
        let events = exported(&kept.recording, &[&["-f", "tensorboard"], more].concat());
        String::from_utf8_lossy(&events).into_owned()
    };
    let (whole, part) = (curves(&[]), curves(&choice));
    for (tag, is_of_part) in [
        ("read_bytes_per_second/all", true),
        ("operations_per_second/no open file", false),
        ("merged_seconds/", false),
    ] {
        assert!(whole.contains(tag), "{tag}");
        assert_eq!(part.contains(tag), is_of_part, "{tag}");
    }
}

#[test]
fn an_export_of_nothing_is_refused() {
    let kept = golden::kept("files");
    let (_keep, dir) = directory();
    let place = dir.join("out.csv");
    for format in ["csv", "json", "darshan", "chrome", "tensorboard"] {
        let place = place.to_str().expect("UTF-8");
        let options = ["-f", format, "-o", place, "--include", "/nowhere/**"];
        let words = [
            "write other globs",
            "--include",
            "none of the recorded files",
        ];
        refused(&export(&kept.recording, &options), &words);
    }
    assert!(!place.exists());
    let all = export(
        &kept.recording,
        &["-f", "csv", "--include", "*.npy", "--exclude", "*"],
    );
    refused(&all, &["none of the recorded files"]);
    let wrong = export(&kept.recording, &["-f", "csv", "--exclude", "/data/[a"]);
    assert_eq!(wrong.status.code(), Some(2));
    refused(&wrong, &["--exclude", "[ is not closed"]);
}
