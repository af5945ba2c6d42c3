//! The report of a run like a small training job: its text on the page, its JSON against the schema.

mod phases;
mod selection;
mod summary;
pub mod training;

use iotrace_common::{diag, op};
use serde_json::Value;
use training::{run, training};

use super::*;
use iotrace_model::counters::{READ_SIZE_0_100, TABLE};

fn as_text(model: &Model, run: &Run, color: bool) -> String {
    let layout = Layout {
        color,
        ..Layout::plain(Layout::FULL_WIDTH)
    };
    written(model, run, &Extent::Full, layout)
}

fn written(model: &Model, run: &Run, extent: &Extent, layout: Layout) -> String {
    let mut out = Vec::new();
    text(&Report::new(model, run), extent, layout, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn as_json(model: &Model, run: &Run) -> Value {
    let mut out = Vec::new();
    json(&Report::new(model, run), &mut out).unwrap();
    assert_eq!(
        out.iter().filter(|byte| **byte == b'\n').count(),
        1,
        "one line"
    );
    serde_json::from_slice(&out).unwrap()
}

#[test]
fn text_fits_the_page_and_hides_nothing_hostile() {
    for width in [80, 120, 200] {
        let text = written(&training(), &run(), &Extent::Full, Layout::plain(width));
        for line in text.lines() {
            assert!(
                unicode_width::UnicodeWidthStr::width(line) <= width,
                "{line}"
            );
            assert_eq!(line.trim_end(), line);
        }
    }
    let text = as_text(&training(), &run(), false);
    println!("{text}");
    assert!(text.chars().all(|c| c == '\n' || !c.is_control()));
    for wanted in [
        "/tmp/evil\\n\\x1b[31m\\xff",
        "/ckpt/model.pt",
        "ENOENT",
        "lustre",
        "Nothing lost",
        "137",
    ] {
        assert!(text.contains(wanted), "{wanted}");
    }
    assert!(
        !text.contains("model.pt.tmp"),
        "the file is known by its last name"
    );
}

#[test]
fn colour_is_only_what_the_caller_asked_for() {
    let (plain, coloured) = (
        as_text(&training(), &run(), false),
        as_text(&training(), &run(), true),
    );
    assert!(!plain.contains('\x1b') && coloured.contains("\x1b[1;36m"));
    let mut stripped = coloured;
    for code in ["\x1b[1;36m", "\x1b[2m", "\x1b[33m", "\x1b[32m", "\x1b[0m"] {
        stripped = stripped.replace(code, "");
    }
    assert_eq!(stripped, plain);
}

#[test]
fn an_empty_run_and_losses_are_said() {
    let mut run = run();
    let empty = as_text(&Model::default(), &run, false);
    assert!(empty.contains("0 files") && empty.contains("Nothing lost"));
    run.losses.insert("lost_operations".into(), 7);
    run.losses.insert("something_new".into(), 1);
    let text = as_text(&Model::default(), &run, false);
    assert!(!text.contains("Nothing lost"));
    assert!(text.contains("7 lost_operations: ") && text.contains("1 something_new:"));
}

#[test]
fn json_has_the_schema() {
    let json = as_json(&training(), &run());
    let keys = |value: &Value| {
        value
            .as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect::<Vec<_>>()
    };
    let top = keys(&json);
    for expected in [
        "format_version",
        "iotrace_version",
        "host",
        "kernel",
        "hook",
        "detail",
        "merged_time",
        "command",
        "exit_code",
        "start_time",
        "duration_seconds",
        "verdict",
        "waits",
        "lines",
        "latencies",
        "file_counts",
        "totals",
        "phases",
        "breakdown",
        "checkpoints",
        "restores",
        "copies",
        "epochs",
        "training_data",
        "balance",
        "startup",
        "findings",
        "looked_at",
        "not_looked_at",
        "time_series",
        "remarks",
        "in_flight",
        "processes",
        "files",
        "losses",
        "not_seen",
        "notes",
    ] {
        assert!(top.iter().any(|key| key == expected), "{expected}");
    }
    assert_eq!(json["start_time"], "2025-11-20T23:53:00.000000Z");
    assert_eq!(json["losses"]["recursion_misses"], 0);
    assert_eq!(json["losses"]["lost_operations"], 0);
    assert_eq!(json["notes"]["skipped"], 1234);
    for process in json["processes"].as_array().unwrap() {
        for key in [
            "pid",
            "ppid",
            "uid",
            "comm",
            "exe",
            "command",
            "start_time",
            "end_time",
            "exit_code",
        ] {
            assert!(process.get(key).is_some(), "{key}");
        }
        ["totals", "by_name", "overflow"]
            .iter()
            .for_each(|place| assert_counters(&process[*place]));
    }
    for file in json["files"].as_array().unwrap() {
        for key in [
            "pid",
            "path",
            "type",
            "device",
            "inode",
            "generation",
            "mount_point",
            "fs_type",
            "size",
        ] {
            assert!(file.get(key).is_some(), "{key}");
        }
        assert_counters(file);
    }
    assert_counters(&json["totals"]);
}

fn assert_counters(value: &Value) {
    for key in [
        "opens",
        "reads",
        "zero_reads",
        "writes",
        "closes",
        "seeks",
        "stats",
        "mmaps",
        "fsyncs",
        "fdatasyncs",
        "renames",
        "unlinks",
        "bytes_read",
        "bytes_written",
        "read_seconds",
        "write_seconds",
        "meta_seconds",
        "sync_seconds",
    ] {
        assert!(value[key].is_number(), "{key} in {value}");
    }
    assert!(value["errors"].is_object());
}

#[test]
fn json_says_what_happened() {
    let json = as_json(&training(), &run());
    let files = json["files"].as_array().unwrap();
    let shard = files.iter().find(|file| file["pid"] == 4243).unwrap();
    assert_eq!(
        shard["path"],
        "/data/imagenet/train/a-directory-with-a-long-name/epoch/shard-000000.tar"
    );
    assert_eq!(
        (&shard["mount_point"], &shard["fs_type"]),
        (&"/data".into(), &"lustre".into())
    );
    assert_eq!(
        (&shard["device"], &shard["reads"]),
        (&"0:40".into(), &11.into())
    );
    assert_eq!(shard["first_open_at"], 1.0);
    assert_eq!(
        shard["read_sizes"],
        serde_json::json!({"0_100": 1, "100k_1m": 10})
    );
    assert_eq!(
        shard["access_sizes"][0],
        serde_json::json!({"size": 1 << 20, "count": 9})
    );
    assert_eq!(
        shard["strides"],
        serde_json::json!([{"stride": 512, "count": 3}])
    );
    assert_eq!(shard["slowest_read_bytes"], 1 << 20);
    assert_eq!(shard["merged_read_seconds"], 0.04);
    let evil = files
        .iter()
        .find(|file| file["path_hex"].is_string())
        .unwrap();
    assert_eq!(evil["path_hex"], "2f746d702f6576696c0a1b5b33316dff");
    let checkpoint = files
        .iter()
        .find(|file| file["path"] == "/ckpt/model.pt")
        .unwrap();
    assert_eq!(
        (&checkpoint["opened_as"], &checkpoint["renames"]),
        (&"/ckpt/model.pt.tmp".into(), &1.into())
    );
    let directory = files
        .iter()
        .find(|file| file["type"] == "directory")
        .unwrap();
    assert_eq!(directory["getdents"], 4);
    let totals = &json["totals"];
    assert_eq!(
        totals["errors"],
        serde_json::json!({"ENOENT": 900, "EACCES": 2})
    );
    assert_eq!(totals["errors_by_operation"]["stat"]["ENOENT"], 200);
    assert_eq!(totals["bytes_read"], 60 * (10 << 20));
    assert_eq!(json["processes"][1]["exit_code"], 137);
    assert_eq!(json["processes"][1]["exe"], "/usr/bin/python3.13");
}

#[test]
fn every_loss_is_explained() {
    let mut run = run();
    let names = diag::NAMES
        .into_iter()
        .chain(diag::MISSES.map(|(name, _)| name));
    run.losses = names.map(|name| (name.to_owned(), 7)).collect();
    let text = as_text(&training(), &run, false);
    for name in run.losses.keys().filter(|name| !diag::is_part(name)) {
        let line = text
            .lines()
            .find(|line| line.contains(&format!(" 7 {name}:")));
        let line = line.unwrap_or_else(|| panic!("{name} is not in {text}"));
        assert!(!line.ends_with(':'), "{line}");
    }
}

#[test]
fn every_key_is_documented() {
    fn visit(value: &Value, text: &str) {
        match value {
            Value::Object(map) => map.iter().for_each(|(key, value)| {
                let is_data = key.starts_with(|c: char| c.is_ascii_uppercase())
                    || op::NAMES.contains(&key.as_str());
                let is_reason = diag::NAMES.contains(&key.as_str())
                    || diag::MISSES.iter().any(|(name, _)| name == key);
                assert!(
                    is_data || is_reason || text.contains(&format!("`{key}`")),
                    "{key}"
                );
                visit(value, text);
            }),
            Value::Array(values) => values.iter().for_each(|value| visit(value, text)),
            _ => {}
        }
    }
    let text = concat!(
        include_str!("../../../../../docs/reference/report-json.md"),
        include_str!("../../../../../docs/reference/counters.md"),
    );
    visit(&as_json(&training(), &run()), text);
    visit(&selection::part_of_training(), text);
    for descriptor in &TABLE[..READ_SIZE_0_100] {
        assert!(
            text.contains(&format!("`{}", descriptor.name)),
            "{}",
            descriptor.name
        );
    }
}
