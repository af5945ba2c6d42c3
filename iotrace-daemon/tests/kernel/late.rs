//! A recording ends at its time, and says what it waits for if it cannot.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::{
    common::{
        directory, need_root,
        run::{Background, wait_for},
    },
    disk::{Disk, Frozen},
};

const PATIENCE: Duration = Duration::from_secs(300);
/// How long the disk does not write once that is said.
const FROZEN: Duration = Duration::from_secs(4);

#[test]
fn a_disk_that_does_not_write_is_named_and_takes_no_time_of_the_run() {
    need_root();
    let (_keep, dir) = directory();
    let disk = Disk::new(&dir);
    disk.mount();
    let script = "while :; do : < /dev/null; sleep 0.01; done";
    let busy = Background(Command::new("sh").args(["-c", script]).spawn().expect("sh"));
    let (recording, report) = (disk.place.join("recording"), dir.join("report.json"));
    let mut iotrace = Command::new(env!("CARGO_BIN_EXE_iotrace"));
    iotrace.args(["record", "--standalone", "--map-entries", "4096"]);
    iotrace.args([
        "--duration",
        "3s",
        "--flush",
        "100ms",
        "--pid",
        &busy.0.id().to_string(),
    ]);
    iotrace
        .arg("--output")
        .arg(&recording)
        .arg("--report")
        .arg(&report);
    let mut iotrace = Background(iotrace.stderr(Stdio::piped()).spawn().expect("iotrace"));
    let mut said = BufReader::new(iotrace.0.stderr.take().expect("a pipe"));
    let started = Instant::now();
    while !recording.join("part-000001").exists() {
        assert!(started.elapsed() < PATIENCE, "no part is written");
        std::thread::sleep(Duration::from_millis(5));
    }
    let writing = format!("writing the recording to {}", recording.display());

    let frozen = Frozen::new(&disk.place);
    let mut line = String::new();
    said.read_line(&mut line).expect("a line");
    assert!(
        line.contains("time is up") && line.contains(&writing),
        "{line}"
    );
    std::thread::sleep(FROZEN);
    drop(frozen);

    let status = wait_for(&mut iotrace.0, PATIENCE);
    let mut rest = String::new();
    said.read_to_string(&mut rest).expect("text");
    assert!(status.success(), "{status}: {rest}");
    assert!(
        rest.contains(&format!("after its time: {writing} took")),
        "{rest}"
    );
    let report: Value = serde_json::from_slice(&fs::read(report).expect("a report")).expect("JSON");
    let duration = report["duration_seconds"].as_f64().expect("seconds");
    assert!(
        duration >= 3.0 && duration < 3.0 + FROZEN.as_secs_f64(),
        "{duration} s"
    );
    let meta = fs::read(recording.join("meta.json")).expect("a recording");
    let meta: Value = serde_json::from_slice(&meta).expect("JSON");
    assert_eq!(meta["complete"], true);
}

#[test]
fn a_recorder_below_the_process_that_it_records_leaves_itself_out() {
    need_root();
    let (_keep, dir) = directory();
    let record = format!(
        "{} record --standalone --pid $$ --duration 2s --flush 200ms --output out --report report.json &
         for _ in 1 2 3 4 5 6 7 8; do sleep 0.5; /bin/cat /etc/passwd > copy; done; wait",
        env!("CARGO_BIN_EXE_iotrace")
    );
    let shell = Command::new("sh")
        .args(["-c", &record])
        .current_dir(&dir)
        .output();
    let shell = shell.expect("sh");
    assert!(
        shell.status.success(),
        "{}",
        String::from_utf8_lossy(&shell.stderr)
    );
    let report = fs::read(dir.join("report.json")).expect("a report");
    let report: Value = serde_json::from_slice(&report).expect("JSON");
    let paths = report["files"].as_array().expect("files").iter();
    let paths: Vec<&str> = paths.filter_map(|file| file["path"].as_str()).collect();
    assert!(
        paths.iter().any(|path| path.ends_with("/copy")),
        "{paths:?}"
    );
    let own = dir.join("out");
    let is_own = |path: &&&str| path.starts_with(own.to_str().expect("UTF-8"));
    assert_eq!(paths.iter().find(is_own), None);
}
