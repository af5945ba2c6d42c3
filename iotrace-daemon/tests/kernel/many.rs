//! Far more files than the kernel's maps hold at one time: each counted, each named.

use std::{borrow::Cow, collections::BTreeMap, fs, path::PathBuf, process::Command};

use crate::common::{self, Iotrace, compare::Counts, directory, number, truth};
use serde::Deserialize;
use serde_json::Value;

const FILES: usize = 200_000;

/// Two gigabytes of small files need a filesystem of their own, in memory.
struct Tmpfs(PathBuf);

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

#[test]
fn two_hundred_thousand_files_are_each_counted() {
    common::need_root();
    let (_keep, dir) = directory();
    let mount = Tmpfs(dir.join("files"));
    fs::create_dir(&mount.0).unwrap();
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=4g,nr_inodes=1m", "tmpfs"])
        .arg(&mount.0)
        .status();
    assert!(mounted.unwrap().success(), "mount needs CAP_SYS_ADMIN");
    let files = mount.0.to_str().expect("UTF-8");
    // Iotrace's own map sizes and flush.
    let finished = Iotrace::bare().workload(["many", files, &FILES.to_string()]);
    assert_eq!(finished.code(), 0, "{}", finished.stderr);
    let (truth, report) = finished.stdout.split_once('\n').expect("two lines");
    let truth = serde_json::from_str(truth).expect("the program's output");
    let report: Report = serde_json::from_str(report).expect("the report");
    let lost: Vec<_> = report
        .losses
        .iter()
        .filter(|(_, count)| **count != 0)
        .collect();
    assert!(lost.is_empty(), "{lost:?}");
    let processes = truth::processes(&truth);
    let process = &processes[0];
    let found = report
        .processes
        .iter()
        .find(|found| number(found, "pid") == process.pid);
    let found = found.expect("the process");
    assert!(
        Counts::of(&found["overflow"]).is_empty(),
        "{}",
        found["overflow"]
    );
    let mut seen = vec![0_u8; FILES];
    // Its own code is mapped, and never opened.
    for row in report
        .files
        .iter()
        .filter(|row| row.pid == process.pid && row.opens > 0)
    {
        let name = row
            .path
            .rsplit_once('/')
            .map(|(_, name)| name.parse::<usize>());
        let Some(Ok(number)) = name else {
            panic!("a row without its name: {row:?}")
        };
        let bytes = number as u64 % 5000 + 1;
        let done = Row {
            pid: process.pid,
            path: format!("{files}/{}/{number}", number / 1000).into(),
            opens: 2,
            reads: 2,
            zero_reads: 1,
            writes: 1,
            closes: 2,
            bytes_read: bytes,
            bytes_written: bytes,
        };
        assert_eq!(*row, done);
        seen[number] += 1;
    }
    let missing = seen.iter().filter(|rows| **rows != 1).count();
    assert_eq!(missing, 0, "files without a row, or with several");
    let by_name = process.by_name();
    assert_eq!(by_name.difference(&Counts::of(&found["by_name"])), "");
    let mut done = process.files()["all of them"].clone();
    done.merge(&by_name);
    assert_eq!(done.difference(&Counts::of(&found["totals"])), "");
}

/// The part of a report that is looked at: a whole one takes long to read.
#[derive(Deserialize)]
struct Report<'a> {
    processes: Vec<Value>,
    #[serde(borrow)]
    files: Vec<Row<'a>>,
    losses: BTreeMap<String, u64>,
}

#[derive(Debug, Deserialize, PartialEq, Eq)]
struct Row<'a> {
    pid: u64,
    #[serde(borrow)]
    path: Cow<'a, str>,
    opens: u64,
    reads: u64,
    zero_reads: u64,
    writes: u64,
    closes: u64,
    bytes_read: u64,
    bytes_written: u64,
}
