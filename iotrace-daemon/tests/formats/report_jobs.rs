//! `iotrace report` of the recordings of several nodes, its tables, and recordings that are not as they should be.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use crate::common::made;
use iotrace_common::key::FileId;
use iotrace_model::{
    Model,
    counters::*,
    input::{Place, ProcessId},
    run::{Run, rfc3339},
};
use iotrace_recording::Recorder;
use serde_json::Value;

const SECOND: u64 = 1_000_000_000;
const MIB: u64 = 1 << 20;

/// A node whose clock says so much more than its monotonic one, in seconds.
fn run(host: &str, offset: i64) -> Run {
    made::run(host, offset, 20)
}

/// Reads a file from second `from` of the run on, for a second.
fn read(model: &mut Model, path: &str, file: FileId, from: u64) {
    model.event(made::seen(file, path.into(), 4 * MIB));
    let mut counters = Counters::ZERO;
    let start = (100 + from) * SECOND;
    for (index, value) in [
        (OPENS, 1),
        (CLOSES, 1),
        (READS, 4),
        (BYTES_READ, 4 * MIB),
        (READ_NS, SECOND / 2),
        (UNION_READ_NS, SECOND / 2),
        (FIRST_OPERATION, start),
        (LAST_OPERATION, start + SECOND),
        (FIRST_READ, start),
        (LAST_READ, start + SECOND),
    ] {
        counters.v[index] = value;
    }
    model.add(
        ProcessId { pid: 100, start: 7 },
        Place::File(file),
        &counters,
    );
}

/// Records a node that reads the even, or the odd, shards on Lustre in each of two epochs, and a file of its own.
fn record(directory: &Path, run: &Run, device: u32, odd: u64) {
    let mut model = Model::with_history();
    let mounts = format!(
        "1 1 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 0:{device} / /lustre rw - lustre mgs:/fs rw\n"
    );
    model.update_mounts(mounts.as_bytes());
    let mut recorder = Recorder::create(directory, run).unwrap();
    for epoch in 0..2 {
        for shard in 0..4_u64 {
            // The nodes change their shards with the epoch.
            if (shard + epoch) % 2 == odd {
                let file = FileId {
                    device,
                    generation: 1,
                    inode: 50 + shard,
                };
                read(
                    &mut model,
                    &format!("/lustre/data/shard-{shard}.tar"),
                    file,
                    epoch * 10 + shard,
                );
            }
        }
        recorder.flush(&mut model, run).unwrap();
    }
    let own = FileId {
        device: 8 << 20 | 1,
        generation: 1,
        inode: 9,
    };
    read(&mut model, "/models/a.safetensors", own, 15);
    recorder.finish(&mut model, run).unwrap();
}

fn report(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_iotrace"));
    command
        .arg("report")
        .args(args)
        .output()
        .expect("iotrace starts")
}

fn json(args: &[&str]) -> Value {
    let output = report(&[&["--format", "json"], args].concat());
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).unwrap()
}

fn text(args: &[&str]) -> String {
    let output = report(args);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

fn refused(args: &[&str], words: &[&str]) {
    let output = report(args);
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    words
        .iter()
        .for_each(|word| assert!(said.contains(word), "{word} in {said}"));
}

/// Recordings of two nodes, the second of which booted later and began a second later.
fn two_nodes() -> (tempfile::TempDir, [String; 2]) {
    let dir = tempfile::tempdir().unwrap();
    let paths: [PathBuf; 2] = ["n1", "n2"].map(|name| dir.path().join(name));
    record(&paths[0], &run("gpu-1", 1_700_000_000), 40, 0);
    record(&paths[1], &run("gpu-2", 1_700_000_001), 41, 1);
    (dir, paths.map(|path| path.to_string_lossy().into_owned()))
}

#[test]
fn nodes_make_one_job() {
    let (_dir, [first, second]) = two_nodes();
    let job = json(&[&first, &second]);
    assert_eq!(job["host"], "gpu-1, gpu-2");
    assert_eq!(
        job["duration_seconds"], 21.0,
        "from the first start to the last end"
    );
    let nodes = job["nodes"].as_array().unwrap();
    assert_eq!(
        nodes
            .iter()
            .map(|node| node["host"].as_str().unwrap())
            .collect::<Vec<_>>(),
        ["gpu-1", "gpu-2"]
    );
    assert_eq!(
        (&nodes[0]["start"], &nodes[1]["start"]),
        (&0.0.into(), &1.0.into())
    );
    assert_eq!(nodes[1]["bytes_read"], 20 * MIB);
    assert_eq!(job["totals"]["bytes_read"], 40 * MIB);
    // Four shards that both nodes have, and a file of each.
    assert_eq!(job["totals"]["files"], 6);
    assert_eq!(job["phases"]["training"]["files"], 4);
    let processes = job["processes"].as_array().unwrap();
    assert_eq!(
        processes
            .iter()
            .map(|process| (&process["host"], &process["pid"]))
            .collect::<Vec<_>>(),
        [
            (&Value::from("gpu-1"), &Value::from(100)),
            (&Value::from("gpu-2"), &Value::from(100))
        ]
    );
    assert!(
        job["files"]
            .as_array()
            .unwrap()
            .iter()
            .all(|file| file["host"].is_string())
    );
    // Each node alone read every shard once; together they passed over all of them twice.
    let epochs = job["epochs"].as_array().unwrap();
    assert_eq!(
        epochs
            .iter()
            .map(|epoch| (&epoch["files"], &epoch["complete"]))
            .collect::<Vec<_>>(),
        [(&4.into(), &true.into()); 2]
    );
    assert_eq!(
        (&epochs[0]["start"], &epochs[1]["end"]),
        (&0.0.into(), &14.0.into())
    );
    assert_eq!(json(&[&first])["epochs"].as_array().unwrap().len(), 1);
    let page = text(&["--full", &first, &second]);
    assert!(
        page.contains("Nodes: 2") && page.contains("gpu-1") && page.contains("gpu-2"),
        "{page}"
    );
    assert!(
        page.lines().all(|line| line.chars().count() <= 100),
        "{page}"
    );
    assert!(json(&[&first]).get("nodes").is_none());
}

#[test]
fn the_same_node_twice_is_refused() {
    let (_dir, [first, _]) = two_nodes();
    refused(&[&first, &first], &["gpu-1", "one recording of each node"]);
}

#[test]
fn one_table_by_anything() {
    let (_dir, [first, second]) = two_nodes();
    let rows = |by: &str| {
        json(&["--by", by, &first, &second])["rows"]
            .as_array()
            .unwrap()
            .clone()
    };
    assert_eq!(rows("process").len(), 2);
    assert_eq!(rows("process")[0]["host"], "gpu-1");
    let files = rows("file");
    assert_eq!(files.len(), 5, "one path on two nodes is one row");
    let model = files
        .iter()
        .find(|row| row["name"] == "/models/a.safetensors")
        .unwrap();
    assert_eq!(
        (&model["bytes_read"], &model["processes"], &model["files"]),
        (&(8 * MIB).into(), &2.into(), &2.into())
    );
    let directories = rows("directory");
    assert_eq!(directories[0]["name"], "/lustre/data");
    assert_eq!(
        (&directories[0]["files"], &directories[0]["bytes_read"]),
        (&4.into(), &(32 * MIB).into())
    );
    assert_eq!(rows("mount")[0]["name"], "/lustre (lustre)");
    let phases = rows("phase");
    assert_eq!(
        phases
            .iter()
            .map(|row| row["name"].as_str().unwrap())
            .collect::<Vec<_>>(),
        ["training", "restore"]
    );
    assert_eq!(
        phases[0]["merged_exact"], false,
        "two processes at one time"
    );
    let loads = json(&["--phase", "restore", &first]);
    assert_eq!(loads["rows"].as_array().unwrap().len(), 1);
    assert_eq!(
        (&loads["by"], &loads["phase"]),
        (&"file".into(), &"restore".into())
    );
    let one = json(&["--top", "1", &first]);
    assert_eq!(
        (one["rows"].as_array().unwrap().len(), &one["rest"]["rows"]),
        (1, &4.into())
    );
    assert_eq!(one["rest"]["bytes_read"], 16 * MIB);
    for by in ["process", "file", "directory", "mount", "phase"] {
        let page = text(&["--by", by, &first, &second]);
        assert!(page.contains(&format!("\nBy {by}\n")), "{page}");
        assert!(
            page.lines().all(|line| line.chars().count() <= 100),
            "{page}"
        );
    }
}

#[test]
fn a_report_goes_into_a_file() {
    let (dir, [first, _]) = two_nodes();
    let file = dir.path().join("report.json");
    let output = report(&["--format", "json", "-o", file.to_str().unwrap(), &first]);
    assert!(output.status.success() && output.stdout.is_empty());
    let report: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    assert_eq!(report["host"], "gpu-1");
    let nowhere = dir.path().join("no/such/report.json");
    refused(
        &["-o", nowhere.to_str().unwrap(), &first],
        &["no/such/report.json"],
    );
    refused(
        &["--format", "html", "--by", "file", &first],
        &["leave them out"],
    );
}

#[test]
fn what_is_wrong_with_a_recording_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let place = |name: &str| dir.path().join(name);
    let name = |name: &str| place(name).to_string_lossy().into_owned();
    // Nothing in it.
    let empty = run("gpu-1", 1_700_000_000);
    Recorder::create(&place("empty"), &empty)
        .unwrap()
        .finish(&mut Model::with_history(), &empty)
        .unwrap();
    assert!(text(&[&name("empty")]).contains("NOTHING RECORDED"));
    // Still being written.
    let mut model = Model::with_history();
    let mut recorder = Recorder::create(&place("open"), &empty).unwrap();
    read(
        &mut model,
        "/data/a.tar",
        FileId {
            device: 1,
            generation: 1,
            inode: 1,
        },
        1,
    );
    recorder.flush(&mut model, &empty).unwrap();
    let output = report(&[&name("open")]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("still being written"));
    assert!(String::from_utf8_lossy(&output.stdout).contains("is not complete"));
    assert_eq!(json(&[&name("open")])["totals"]["reads"], 4);
    // A clock that was set.
    let mut jumped = run("gpu-2", 1_700_000_000);
    jumped.clock_step_ns = -3_600 * SECOND as i64;
    record(&place("jumped"), &jumped, 40, 0);
    let remarks = json(&[&name("jumped")])["remarks"].to_string();
    assert!(
        remarks.contains("gpu-2 was set by -3600.000 s"),
        "{remarks}"
    );
    // A node of another day.
    record(&place("late"), &run("gpu-3", 1_700_100_000), 40, 0);
    let remarks = json(&[&name("jumped"), &name("late")])["remarks"].to_string();
    assert!(
        remarks.contains("gpu-3 recorded at another time"),
        "{remarks}"
    );
    // A part that is gone.
    fs::remove_dir_all(place("late").join("part-000001")).unwrap();
    refused(&[&name("late")], &["part-000001"]);
    refused(&[&name("nothing")], &["nothing"]);
}

#[test]
fn thresholds_of_a_file_hold() {
    let (dir, [first, _]) = two_nodes();
    let file = dir.path().join("mine.toml");
    fs::write(&file, "[thresholds]\nfaster = 'much'\n").unwrap();
    refused(
        &["--rules", file.to_str().unwrap(), &first],
        &["mine.toml:2", "faster"],
    );
    fs::write(&file, "[thresholds]\nsmall_files = 1\n\n[[rule]]\nname = 'mine'\nphase = 'other'\nglob = '/lustre/'\n").unwrap();
    assert_eq!(
        json(&["--rules", file.to_str().unwrap(), &first])["phases"]["training"]["files"],
        0
    );
}

/// A log of job 4242 and this program as the service leaves it.
fn job_log(
    logs: &Path,
    program: &str,
    host: &str,
    user: u32,
    seconds: u64,
    complete: bool,
) -> PathBuf {
    const START_UNIX_NS: i64 = 1_700_000_000_000_000_000;
    let start = rfc3339(START_UNIX_NS);
    let (date, time) = start.split_at(10);
    let time: String = time.chars().filter(char::is_ascii_digit).collect();
    let day = logs.join(date.replace('-', "/"));
    fs::create_dir_all(&day).unwrap();
    let directory = day.join(format!("{user}_{program}_slurm-4242_{host}_{time}.d"));
    record(&directory, &run(host, 1_700_000_000), 40, 0);
    let about = serde_json::json!({
        "unit": "slurm:4242", "kind": "job", "job": "4242", "step": "", "user": user, "host": host,
        "executable": program, "start_unix_ns": START_UNIX_NS,
        "duration_ns": seconds * SECOND, "bytes_read": 0, "bytes_written": 0, "operations": 0,
        "merged": 0, "complete": complete, "unit_ended": complete,
    });
    fs::write(directory.join("job.json"), about.to_string()).unwrap();
    directory
}

/// Runs `iotrace` on these logs.
fn on_logs(logs: &Path, words: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_iotrace"));
    let output = command.args(words).arg("--dir").arg(logs).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(said).unwrap())
}

#[test]
fn a_service_that_was_started_again_is_reported_since_its_last_start() {
    let dir = tempfile::tempdir().unwrap();
    let logs = dir.path().join("logs");
    let rename = |log: PathBuf| {
        let name = log.file_name().unwrap().to_str().unwrap();
        let own = log.with_file_name(name.replace("slurm-4242", "systemd-train.service"));
        fs::rename(&log, &own).unwrap();
        let about = fs::read_to_string(own.join("job.json")).unwrap();
        let mut about: Value = serde_json::from_str(&about).unwrap();
        about["unit"] = "systemd:train.service".into();
        about["kind"] = "systemd".into();
        about["job"] = "".into();
        fs::write(own.join("job.json"), about.to_string()).unwrap();
        own
    };
    let first = rename(job_log(&logs, "first", "gpu-1", 7, 90, true));
    let last = rename(job_log(&logs, "last", "gpu-1", 7, 2, true));
    let (code, said) = on_logs(&logs, &["report", "job:systemd:train.service"]);
    let earlier = format!("its last start. Earlier ones: {}", first.display());
    assert!(code == Some(0) && said.contains(&earlier), "{said}");
    assert!(!said.contains("the longest"), "{said}");
    // It ended with iotrace's own service: what follows may go on with it.
    let about = fs::read_to_string(first.join("job.json")).unwrap();
    let about = about.replace("\"unit_ended\":true", "\"unit_ended\":false");
    fs::write(first.join("job.json"), about).unwrap();
    let (_, said) = on_logs(&logs, &["report", "job:systemd:train.service"]);
    let longest = format!("the longest, {}", first.display());
    assert!(said.contains(&longest), "{said}");
    assert!(last.exists());
}

#[test]
fn a_job_may_have_several_logs_of_a_node() {
    let dir = tempfile::tempdir().unwrap();
    let logs = dir.path().join("logs");
    let (code, said) = on_logs(&logs, &["jobs"]);
    assert!(
        code == Some(1) && said.contains("cannot read the logs in"),
        "{said}"
    );
    let report = || on_logs(&logs, &["report", "job:4242"]);
    let all = [
        job_log(&logs, "first", "gpu-1", 7, 30, true),
        job_log(&logs, "killed", "gpu-1", 7, 90, false),
        job_log(&logs, "last", "gpu-1", 7, 2, true),
    ];
    let (code, said) = report();
    let longest = format!("the longest, {}", all[1].display());
    assert!(code == Some(0) && said.contains(&longest), "{said}");
    // Somebody else who says that he is of the job.
    job_log(&logs, "other", "gpu-1", 8, 500, true);
    let (code, said) = report();
    assert!(
        code == Some(1) && said.contains("user 8, 500.0 s"),
        "{said}"
    );
    // One whose user writes that it is of this job, which its name does not say.
    let forged = job_log(&logs, "forged", "gpu-1", 7, 900, true);
    let name = forged.file_name().unwrap().to_str().unwrap();
    let own = forged.with_file_name(name.replace("4242", "17"));
    fs::rename(&forged, &own).unwrap();
    let (_, said) = report();
    assert!(!said.contains("900.0 s"), "{said}");
    // What may be being written stays.
    let (code, said) = on_logs(&logs, &["jobs", "rm", "4242"]);
    assert!(code == Some(1) && said.contains("--unfinished"), "{said}");
    assert_eq!(all.each_ref().map(|log| log.exists()), [false, true, false]);
    let (code, said) = on_logs(&logs, &["jobs", "rm", "4242", "--unfinished"]);
    assert!(code == Some(0) && !all[1].exists(), "{said}");
}
