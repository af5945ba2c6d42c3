//! A recorder whose disk is full: it says so, leaves what was written whole, and goes on once there is room.

use std::{fs, process::Command};

use iotrace_common::key::FileId;
use iotrace_model::{
    Model,
    counters::{BYTES_READ, Counters, OPENS, READS, WRITES},
    input::{Place, ProcessId},
    run::Run,
};
use iotrace_recording::Recorder;
use iotrace_report::Report;
use serde_json::Value;

use super::bad_input::Tmpfs;
use crate::common::{directory, made};

const SECOND: u64 = 1_000_000_000;

/// More files, each used in another way.
fn use_files(model: &mut Model, pid: u32, numbers: std::ops::Range<u64>) {
    for inode in numbers {
        let file = FileId {
            device: 8 << 20 | 1,
            generation: 1,
            inode,
        };
        let path = format!("/data/train/{inode}.jpg").into_bytes();
        model.event(made::seen(file, path, inode));
        let mut counters = Counters::ZERO;
        for (counter, value) in [
            (OPENS, 1),
            (READS, inode),
            (BYTES_READ, inode * 7),
            (WRITES, 2),
        ] {
            counters.v[counter] = value;
        }
        model.add(ProcessId { pid, start: 7 }, Place::File(file), &counters);
    }
}

fn json(model: &Model, run: &Run) -> Value {
    let mut out = Vec::new();
    iotrace_report::json(&Report::new(model, run), &mut out).unwrap();
    serde_json::from_slice(&out).unwrap()
}

#[test]
fn a_full_disk_loses_nothing() {
    let (_keep, dir) = directory();
    let disk = Tmpfs::new(dir.join("disk"), "size=1m");
    let recording = disk.0.join("recording");
    let (mut model, mut run) = (Model::with_history(), made::run("gpu-7", 1_700_000_000, 0));
    let mut recorder = Recorder::create(&recording, &run).unwrap();
    // As if nothing more could be written.
    let said = Command::new(env!("CARGO_BIN_EXE_iotrace"))
        .arg("report")
        .arg(&recording)
        .output()
        .unwrap();
    let said = String::from_utf8(said.stdout).unwrap();
    assert!(
        said.contains("NOTHING RECORDED: the recording is not complete"),
        "{said}"
    );
    use_files(&mut model, 100, 1..500);
    run.duration_ns = 5 * SECOND;
    recorder.flush(&mut model, &run).unwrap();
    let filler = disk.0.join("filler");
    let _ = fs::write(&filler, vec![1; 1 << 20]); // up to the last page
    use_files(&mut model, 101, 1..700);
    run.duration_ns = 6 * SECOND;
    let error = recorder.flush(&mut model, &run).unwrap_err().to_string();
    for words in [
        "recording/part-000002",
        "No space left on device",
        "make room",
    ] {
        assert!(error.contains(words), "{error}");
    }
    let names = fs::read_dir(&recording).unwrap();
    let mut names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(
        names,
        ["meta.json", "part-000001"],
        "nothing is left of the part"
    );
    assert!(iotrace_recording::read(&recording).is_ok());
    fs::remove_file(&filler).unwrap();
    use_files(&mut model, 101, 900..901);
    run.duration_ns = 7 * SECOND;
    recorder.finish(&mut model, &run).unwrap();
    let recorded = iotrace_recording::read(&recording).unwrap();
    assert_eq!(json(&recorded.model, &recorded.run), json(&model, &run));
}
