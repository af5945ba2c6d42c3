//! Exports of jobs of several nodes and ranks, made by real programs with the variables that launchers set.

use std::{collections::BTreeMap, fs, process::Command};

use crate::common::{
    self, compare, directory,
    export::{
        by_pydarshan, by_python, export, exported, exported_all, refused, report_of, set_host,
    },
    golden, number, python, text,
};
use serde_json::Value;

#[test]
fn two_nodes_make_one_log_with_the_jobs_ranks() {
    let (_keep, dir) = directory();
    let nodes = ["ranks-0", "ranks-2"].map(golden::kept);
    let paths = [&*nodes[0].recording, &*nodes[1].recording];
    set_host(paths[0], "gpu-a");
    set_host(paths[1], "gpu-b");
    let report = report_of(&paths);
    let log = dir.join("log.darshan");
    exported_all(&paths, &["-f", "darshan", "-o", log.to_str().unwrap()]);
    let read = by_pydarshan(&log);
    assert_eq!(read["job"]["jobid"], 4242);
    let metadata = &read["job"]["metadata"];
    assert_eq!(text(metadata, "job"), "slurm:4242");
    assert_eq!(text(metadata, "hostname"), "gpu-a, gpu-b");
    assert_eq!(text(metadata, "first_ranks"), "RANK 0-3");
    let records = compare::list(&read, "records");
    // The process of a rank wrote and read its shard; its worker, a rank of its own, read it once more.
    for rank in 0..4 {
        let name = format!("/shard-{rank}.tar");
        let of_shard = records
            .iter()
            .filter(|record| text(record, "name").ends_with(&name));
        let bytes = 100_000 * (rank + 1);
        for record in of_shard.clone() {
            let is_rank = number(record, "rank") == rank;
            assert!(is_rank || number(record, "rank") > 3, "{record}");
            assert_eq!(number(record, "POSIX_BYTES_READ"), bytes);
            assert_eq!(
                number(record, "POSIX_BYTES_WRITTEN"),
                if is_rank { bytes } else { 0 }
            );
        }
        assert_eq!(of_shard.count(), 2, "{name}");
    }
    let sum = |name: &str| -> u64 { records.iter().map(|record| number(record, name)).sum() };
    for (ours, darshans) in [
        ("bytes_read", "POSIX_BYTES_READ"),
        ("bytes_written", "POSIX_BYTES_WRITTEN"),
    ] {
        assert_eq!(sum(darshans), number(&report["totals"], ours));
    }
    assert_eq!(read["heat"]["read"], report["totals"]["bytes_read"]);
    // Which rank ran where: two of the job's on each host, then the others.
    let hosts = text(metadata, "ranks_of_hosts");
    assert!(
        hosts.starts_with("gpu-a:0-1,") && hosts.contains(" gpu-b:2-3,"),
        "{hosts}"
    );
    let mut pids: Vec<u64> = text(metadata, "pids")
        .split(',')
        .map(|pid| pid.parse().unwrap())
        .collect();
    assert_eq!(read["job"]["nprocs"], pids.len());
    pids.dedup();
    assert_eq!(pids.len(), number(&read["job"], "nprocs") as usize);
}

#[test]
fn tables_and_traces_tell_nodes_apart() {
    let (_keep, dir) = directory();
    let first = golden::kept("ranks-0");
    // The same recording as another node's: every process id is there twice.
    let second = dir.join("second");
    let status = Command::new("cp")
        .arg("-r")
        .args([&first.recording, &second])
        .status();
    assert!(status.unwrap().success());
    set_host(&first.recording, "gpu-a");
    set_host(&second, "gpu-b");
    let paths = [&*first.recording, &*second];
    let report = report_of(&paths);
    let table: Value = serde_json::from_slice(&exported_all(&paths, &["-f", "json"])).unwrap();
    assert_eq!(table["host"], "gpu-a, gpu-b");
    let mut read: BTreeMap<&str, u64> = BTreeMap::new();
    for row in compare::list(&table, "rows") {
        *read.entry(text(row, "host")).or_default() += number(row, "bytes_read");
    }
    let nodes = compare::list(&report, "nodes");
    let reported = nodes
        .iter()
        .map(|node| (text(node, "host"), number(node, "bytes_read")));
    assert_eq!(read, reported.collect());

    let trace = dir.join("trace.json.gz");
    exported_all(&paths, &["-f", "chrome", "-o", trace.to_str().unwrap()]);
    const SCRIPT: &str =
        "import gzip, sys; print(gzip.open(sys.argv[1], 'rt', encoding='utf-8').read())";
    let events = by_python(&python(), SCRIPT, &[&trace]);
    let mut tracks: BTreeMap<u64, (&str, u64)> = BTreeMap::new();
    for event in compare::list(&events, "traceEvents") {
        if event["name"] == "process_name" {
            let before = tracks.insert(number(event, "pid"), (text(&event["args"], "name"), 0));
            assert_eq!(before, None, "two tracks of one number");
        } else if event["ph"] == "X" && event["cat"] == "phase" {
            let track = tracks.get_mut(&number(event, "pid")).unwrap();
            track.1 += number(&event["args"], "bytes_read");
        }
    }
    let of_host = |host: &str| -> u64 {
        let of = tracks
            .values()
            .filter(|(name, _)| name.ends_with(&format!(" on {host}")));
        of.map(|(_, bytes)| bytes).sum()
    };
    for node in nodes {
        assert_eq!(of_host(text(node, "host")), number(node, "bytes_read"));
    }
    // Hosts are names as well.
    let hidden = String::from_utf8(exported_all(&paths, &["-f", "csv", "--anonymize"])).unwrap();
    assert!(!hidden.contains("gpu-"));

    // One that a newer iotrace wrote is no part of it.
    let meta = second.join("meta.json");
    let newer = fs::read_to_string(&meta)
        .unwrap()
        .replace("\"format_version\":1", "\"format_version\":9");
    fs::write(&meta, newer).unwrap();
    let out = common::export::export_all(&paths, &["-f", "csv"]);
    refused(&out, &["second", "format 9", "update iotrace"]);
    assert!(out.stdout.is_empty());
    let twins = [&*first.recording, &*first.recording];
    refused(
        &common::export::export_all(&twins, &["-f", "csv"]),
        &["are both of gpu-a"],
    );
}

#[test]
fn ranks_stand_in_the_recording() {
    let (_keep, dir) = directory();
    let finished = golden::kept("ranks-0");
    let report = finished.report();
    let ranks: Vec<&Value> = compare::list(&report, "processes")
        .iter()
        .map(|process| &process["rank"])
        .collect();
    // The launcher, rank 1 and its worker, rank 0 and its worker.
    assert_eq!(
        ranks,
        [&Value::Null, &1.into(), &1.into(), &0.into(), &0.into()]
    );
    assert_eq!(report["processes"][1]["job"], "slurm:4242");
    // And in a table: all that rank 1 and its worker read is of rank 1.
    let table = exported(&finished.recording, &["-f", "json"]);
    let table: Value = serde_json::from_slice(&table).unwrap();
    let shard = compare::list(&table, "rows")
        .iter()
        .filter(|row| text(row, "path").ends_with("/shard-1.tar"));
    let read: Vec<(u64, u64)> = shard
        .map(|row| (number(row, "rank"), number(row, "bytes_read")))
        .collect();
    assert_eq!(read, [(1, 200_000), (1, 200_000)]);
    let out = export(
        &finished.recording,
        &["-f", "darshan", "--process", "999999999"],
    );
    refused(&out, &["no process 999999999"]);
    // Of one rank alone the log has its processes.
    let pid = number(&report["processes"][1], "pid").to_string();
    let log = dir.join("one.darshan");
    let args = [
        "-f",
        "darshan",
        "--process",
        &pid,
        "-o",
        log.to_str().unwrap(),
    ];
    exported(&finished.recording, &args);
    let read = by_pydarshan(&log);
    assert_eq!(read["job"]["nprocs"], 1);
    assert_eq!(text(&read["job"]["metadata"], "first_ranks"), "RANK 1");
}
