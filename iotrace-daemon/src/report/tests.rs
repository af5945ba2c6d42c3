//! The report of a run like a small training job: its text on the page, its JSON against the schema.

use iotrace_common::{
    key::FileId,
    op,
    value::{Io, IoFull},
};
use serde_json::Value;

use super::*;
use crate::model::{
    counters::*,
    input::{Event, FileName, Place, ProcessId},
    run::{Clock, Target},
};

const SECOND: u64 = 1_000_000_000;

fn run() -> Run {
    Run {
        iotrace_version: "0.1.0".into(),
        host: "gpu-7".into(),
        kernel: "6.18.0".into(),
        boot_id: "b".into(),
        hook: "btf".into(),
        detail: "full".into(),
        target: Target::Command(vec!["python3".into(), "examples/train.py".into()]),
        exit_code: Some(0),
        start_unix_ns: 1_763_682_780 * SECOND as i64,
        duration_ns: 12_400_000_000,
        clock: Clock {
            realtime_minus_monotonic_ns: 1_763_682_000 * SECOND as i64,
            realtime_minus_boottime_ns: 1_763_682_000 * SECOND as i64,
        },
        losses: [
            ("skipped".to_owned(), 1234),
            ("recursion_misses".to_owned(), 0),
        ]
        .into(),
    }
}

fn process(pid: u32) -> ProcessId {
    ProcessId { pid, start: pid }
}

fn name(inode: u64, path: &[u8], mode: u32) -> Event {
    let file = FileId {
        device: 8 << 20 | 1,
        generation: 1,
        inode,
    };
    let path = path.to_vec();
    Event::File(FileName {
        file,
        path,
        size: 110_000,
        mode,
        magic: 0xef53,
        truncated: false,
        deleted: false,
    })
}

fn counted(values: &[(usize, u64)]) -> Counters {
    let mut counters = Counters::ZERO;
    values
        .iter()
        .for_each(|(index, value)| counters.v[*index] = *value);
    counters
}

/// Two workers that read shards, one trainer that writes a checkpoint, a hostile name, failures, a directory.
pub(crate) fn training() -> Model {
    let mut model = Model::default();
    model.update_mounts(
        b"1 1 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 0:40 / /data rw - lustre mgs:/fs rw",
    );
    let args = vec![b"python3".to_vec(), b"examples/train.py".to_vec()];
    let comm = b"python3".to_vec();
    let start_boottime = 779 * SECOND;
    model.event(Event::Exec {
        process: process(4242),
        start_boottime,
        parent: 1,
        uid: 0,
        comm,
        args,
    });
    model.event(Event::Exe {
        process: process(4242),
        path: b"/usr/bin/python3.13".to_vec(),
    });
    for worker in [4243, 4244] {
        model.event(Event::Fork {
            parent: process(4242),
            child: process(worker),
            child_start_boottime: 780 * SECOND,
            uid: 0,
            comm: b"python3".to_vec(),
        });
        model.event(Event::Exit {
            process: process(worker),
            time: 790 * SECOND,
            status: 9,
        });
        for shard in 0..30 {
            read_shard(&mut model, worker, shard);
        }
    }
    write_checkpoint(&mut model);
    model.event(name(900, b"/tmp/evil\n\x1b[31m\xff", 0o100_644));
    let evil = FileId {
        device: 8 << 20 | 1,
        generation: 1,
        inode: 900,
    };
    model.add(
        process(4242),
        Place::File(evil),
        &counted(&[(OPENS, 1), (META_NS, 190_000_000), (FIRST, 781 * SECOND)]),
    );
    model.event(name(901, b"/usr/lib/python3.13", 0o040_755));
    let directory = FileId {
        device: 8 << 20 | 1,
        generation: 1,
        inode: 901,
    };
    model.add(
        process(4242),
        Place::File(directory),
        &counted(&[(GETDENTS, 4), (STATS, 9), (META_NS, 40_000)]),
    );
    let by_name = [
        (STATS, 3_210),
        (RENAMES, 1),
        (FAILURES, 902),
        (META_NS, 3_000_000),
        (FAILED_NS, 1_100_000),
    ];
    model.add(process(4242), Place::ByName, &counted(&by_name));
    model.add_failures(
        process(4242),
        Place::ByName,
        op::OPEN as u32,
        2,
        700,
        900_000,
    );
    model.add_failures(
        process(4242),
        Place::ByName,
        op::STAT as u32,
        2,
        200,
        190_000,
    );
    model.add_failures(process(4242), Place::ByName, op::OPEN as u32, 13, 2, 10_000);
    model
}

fn read_shard(model: &mut Model, worker: u32, shard: u64) {
    let file = FileId {
        device: 40,
        generation: 1,
        inode: 100 + shard,
    };
    let path =
        format!("/data/imagenet/train/a-directory-with-a-long-name/epoch/shard-{shard:06}.tar")
            .into_bytes();
    model.event(Event::File(FileName {
        file,
        path,
        size: 0,
        mode: 0o100_644,
        magic: 0,
        truncated: false,
        deleted: false,
    }));
    let mut full = IoFull {
        io: Io {
            bytes_read: 10 << 20,
            first: 781 * SECOND,
            last: 789 * SECOND,
            ..Io::ZERO
        },
        read_sizes: [1, 0, 0, 0, 10, 0, 0, 0, 0, 0],
        write_sizes: [0; 10],
        size: [1 << 20, 4097, 0, 0, 0, 0, 0, 0],
        size_calls: [9, 1, 0, 0, 0, 0, 0, 0],
        size_other: 0,
        stride_other: 0,
        stride: [512, 0, 0, 0],
        stride_calls: [3, 0, 0, 0],
        consecutive_reads: 8,
        consecutive_writes: 0,
        sequential_reads: 9,
        sequential_writes: 0,
        switches: 0,
        memory_unaligned: 0,
        file_unaligned: 1,
        mode: 0,
        max_byte_read: (10 << 20) - 1,
        max_byte_written: 0,
        slowest_read_ns: 9_000_000 + shard,
        slowest_read_bytes: 1 << 20,
        slowest_write_ns: 0,
        slowest_write_bytes: 0,
        first_start: [781 * SECOND, 782 * SECOND, 0, 789 * SECOND],
        last_end: [782 * SECOND, 788 * SECOND, 0, 789 * SECOND],
        merged_ns: [40_000_000, 0, 80_000],
    };
    full.io.calls[op::OPEN] = 1;
    full.io.calls[op::READ] = 11;
    full.io.calls[op::CLOSE] = 1;
    full.io.zero_reads = 1;
    full.io.ns = [45_000_000 + shard * 1_000_000, 0, 90_000, 0];
    model.add(process(worker), Place::File(file), &Counters::from(&full));
}

fn write_checkpoint(model: &mut Model) {
    model.event(name(500, b"/ckpt/model.pt.tmp", 0o100_644));
    let file = FileId {
        device: 8 << 20 | 1,
        generation: 1,
        inode: 500,
    };
    let mut counters = counted(&[
        (OPENS, 1),
        (WRITES, 64),
        (FSYNCS, 1),
        (CLOSES, 1),
        (BYTES_WRITTEN, 64 << 20),
        (WRITE_NS, 31_000_000),
        (SYNC_NS, 240_000_000),
        (WRITE_SIZE_100K_1M, 64),
        (SEQUENTIAL_WRITES, 63),
        (CONSECUTIVE_WRITES, 63),
        (CREATE_MODE, 0o644),
    ]);
    counters.sizes.add(1 << 20, 64);
    model.add(process(4242), Place::File(file), &counters);
    let (from, to) = (b"/ckpt/model.pt.tmp".to_vec(), b"/ckpt/model.pt".to_vec());
    model.event(Event::Rename {
        process: process(4242),
        time: 790 * SECOND,
        from,
        to,
    });
}

fn as_text(model: &Model, run: &Run, color: bool) -> String {
    let mut out = Vec::new();
    text(&Report::new(model, run), color, &mut out).unwrap();
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
    let text = as_text(&training(), &run(), false);
    println!("{text}");
    for line in text.lines() {
        assert!(unicode_width::UnicodeWidthStr::width(line) <= 100, "{line}");
        assert_eq!(line.trim_end(), line);
    }
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
    let mut top = keys(&json);
    top.sort();
    let mut expected = [
        "format_version",
        "iotrace_version",
        "host",
        "kernel",
        "hook",
        "detail",
        "command",
        "exit_code",
        "start_time",
        "duration_seconds",
        "totals",
        "processes",
        "files",
        "losses",
        "notes",
    ];
    expected.sort_unstable();
    assert_eq!(top, expected);
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
fn every_key_is_documented() {
    fn visit(value: &Value, text: &str) {
        match value {
            Value::Object(map) => map.iter().for_each(|(key, value)| {
                let is_data = key.starts_with(|c: char| c.is_ascii_uppercase())
                    || op::NAMES.contains(&key.as_str());
                let is_reason = iotrace_common::diag::NAMES.contains(&key.as_str())
                    || key == "recursion_misses";
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
    let text = include_str!("../../../docs/report-json.md");
    visit(&as_json(&training(), &run()), text);
    for descriptor in &TABLE[..READ_SIZE_0_100] {
        assert!(
            text.contains(&format!("`{}", descriptor.name)),
            "{}",
            descriptor.name
        );
    }
}
