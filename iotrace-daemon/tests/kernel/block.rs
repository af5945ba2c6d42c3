//! The block layer: bytes that a file's pages are known to be, and a device that nobody else uses, whose requests the
//! kernel counts by itself.

use std::{path::Path, process::Command};

use crate::common::{
    Iotrace,
    compare::list,
    directory,
    fio::{self, lay_out},
    number, python,
    run::Finished,
    text,
};
use crate::disk::Disk;
use serde_json::Value;

const SIZE: u64 = 4 << 20;

/// Uses files of a directory, each in one way.
const PROGRAM: &str = "
import ctypes, mmap, os, sys
place, ways = sys.argv[1], sys.argv[2:]
size = 4 << 20
buffer = mmap.mmap(-1, 1 << 20)
buffer[:] = b'x' * (1 << 20)
def spread(call, fd):
    for offset in range(0, size, 1 << 20):
        assert call(fd, [buffer], offset) == 1 << 20
for way in ways:
    path = os.path.join(place, way)
    direct = os.O_DIRECT if 'direct' in way else 0
    fd = os.open(path, os.O_RDWR | os.O_CREAT | direct, 0o644)
    if way in ('written', 'direct-written', 'flushed', 'dropped'):
        spread(os.pwritev, fd)
    if way == 'written':
        os.fsync(fd)
    elif way == 'flushed':
        # The kernel's flusher threads write back; this one waits.
        assert ctypes.CDLL(None, use_errno=True).syncfs(fd) == 0
    elif way == 'dropped':
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        spread(os.preadv, fd)
        spread(os.preadv, fd)
    elif way == 'direct-written':
        spread(os.preadv, fd)
    elif way == 'mapped':
        os.truncate(fd, size)
        memory = mmap.mmap(fd, size)
        for offset in range(0, size, 4096):
            memory[offset] = 1
        memory.flush()
        memory.close()
    os.close(fd)
";

/// The program's command line.
fn program(place: &Path, ways: &[&str]) -> Vec<String> {
    let python = python();
    let head = [path(&python), "-c", PROGRAM, path(place)];
    let all = head.into_iter().chain(ways.iter().copied());
    all.map(str::to_owned).collect()
}

fn path(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// Runs a command with the block layer counted; what is said of it.
fn run<S: AsRef<std::ffi::OsStr>>(command: impl IntoIterator<Item = S>) -> (Value, Finished) {
    let finished = Iotrace::record().args(["--block"]).command(command);
    assert_eq!(finished.code(), 0, "{}", finished.stderr);
    (finished.report()["block"].clone(), finished)
}

/// Bytes read from and written to devices for a file, and the part that was written by no process.
fn moved(block: &Value, path: &Path) -> [u64; 3] {
    let row = list(block, "files")
        .iter()
        .find(|row| Path::new(text(row, "path")) == path)
        .unwrap_or_else(|| panic!("no {} in {block}", path.display()));
    [
        "device_bytes_read",
        "device_bytes_written",
        "device_bytes_written_by_no_process",
    ]
    .map(|key| number(row, key))
}

#[test]
fn a_files_bytes_are_told_however_they_come_to_the_device() {
    let (_keep, dir) = directory();
    let ways = ["written", "direct-written", "dropped", "mapped"];
    let (block, finished) = run(program(&dir, &ways));
    assert_eq!(moved(&block, &dir.join("written")), [0, SIZE, 0]);
    assert_eq!(moved(&block, &dir.join("direct-written")), [SIZE, SIZE, 0]);
    assert_eq!(moved(&block, &dir.join("dropped")), [SIZE, SIZE, 0]);
    assert_eq!(moved(&block, &dir.join("mapped")), [0, SIZE, 0]);
    // One process did all of it.
    let [process] = &list(&block, "processes")[..] else {
        panic!("{block}");
    };
    assert!(
        number(process, "device_bytes_written") >= 4 * SIZE,
        "{process}"
    );
    assert!(
        number(process, "device_bytes_read") >= 2 * SIZE,
        "{process}"
    );
    // What a report of the recording says is the same.
    let mut again = Command::new(env!("CARGO_BIN_EXE_iotrace"));
    let again = again
        .args(["report", "--format", "json"])
        .arg(&finished.recording)
        .output()
        .expect("iotrace report");
    let again: Value = serde_json::from_slice(&again.stdout).expect("JSON");
    assert_eq!(again["block"], block);
}

#[test]
fn what_the_kernel_writes_back_is_the_files_and_no_processs() {
    let (_keep, dir) = directory();
    let (block, _) = run(program(&dir, &["flushed"]));
    let [read, written, by_none] = moved(&block, &dir.join("flushed"));
    assert_eq!((read, written), (0, SIZE));
    // Another process may have synced first, and the pages' own thread may have been made to help.
    assert!(by_none > 0, "{block}");
    assert_eq!(
        number(&block["by_no_process"], "device_bytes_written"),
        by_none
    );
}

#[test]
fn asynchronous_direct_io_is_its_files() {
    for engine in ["libaio", "io_uring"] {
        let (_keep, dir) = directory();
        let size = ["--size=4m", "--bs=64k", "--direct=1"];
        lay_out(&dir, &["--size=4m", "--bs=64k"]);
        let engine = [
            "--rw=randrw",
            "--iodepth=8",
            &format!("--ioengine={engine}"),
        ];
        let iotrace = Iotrace::record().args(["--block"]);
        let (own, report, _) = fio::run(iotrace, &dir, &[&size[..], &engine].concat());
        let job = &own["jobs"][0];
        let truth = ["read", "write"].map(|kind| number(&job[kind], "io_bytes"));
        assert!(truth.iter().all(|bytes| *bytes > 0), "{job}");
        let file = dir.join("job.0.0");
        let [read, written, by_none] = moved(&report["block"], &file);
        assert_eq!(([read, written], by_none), (truth, 0), "{engine:?}");
    }
}

#[test]
fn without_the_option_nothing_is_there() {
    let finished = Iotrace::record().command(["true"]);
    assert_eq!(finished.code(), 0, "{}", finished.stderr);
    assert!(finished.report().get("block").is_none());
    Iotrace::record()
        .args(["--block", "--no-page-cache"])
        .command(["true"])
        .refused(2, &["--block", "--no-page-cache"]);
}

#[test]
fn a_devices_requests_are_those_that_the_kernel_counts() {
    let (_keep, dir) = directory();
    let disk = Disk::new(&dir);
    let before = disk.statistics();
    // All that uses the device: nothing has it mounted before or after.
    let script = "device=$0 place=$1; shift; mount $device $place && \"$@\" && umount $place";
    let command = program(
        &disk.place,
        &["written", "direct-written", "dropped", "mapped"],
    );
    let head = ["sh", "-c", script, path(&disk.device), path(&disk.place)];
    let head = head.map(str::to_owned).into_iter();
    let (block, _) = run(head.chain(command));
    let after = disk.statistics();
    let name = disk.device.file_name().and_then(|name| name.to_str());
    let device = list(&block, "devices")
        .iter()
        .find(|device| Some(text(device, "name")) == name)
        .unwrap_or_else(|| panic!("no {name:?} in {block}"));
    let of = |class: &str, key: &str| number(&device[class], key);
    let classes = ["read", "write", "discard", "flush"];
    let requests = [0, 1, 2, 3].map(|index| after.0[index] - before.0[index]);
    let bytes = [0, 1, 2].map(|index| after.1[index] - before.1[index]);
    assert_eq!(
        [0, 1, 2].map(|index| of(classes[index], "bytes")),
        bytes,
        "{device}"
    );
    assert_eq!(of("read", "requests"), requests[0], "{device}");
    assert_eq!(of("flush", "requests"), requests[3], "{device}");
    // The kernel counts a flush that was asked for by itself as a write of nothing, too.
    let writes = of("write", "requests");
    assert!(
        writes <= requests[1] && requests[1] <= writes + requests[3],
        "{device}"
    );
    for class in ["read", "write"] {
        let of = &device[class];
        let buckets = list(of, "latency_buckets").iter();
        let timed: u64 = buckets.map(|bucket| bucket[1].as_u64().unwrap()).sum();
        assert_eq!(timed, number(of, "requests"), "{of}");
        assert!(of["seconds"].as_f64().unwrap() > 0.0);
        let quantile = |key: &str| of[key].as_f64().unwrap_or(f64::INFINITY);
        assert!(quantile("p50_latency_at_most_seconds") <= quantile("p99_latency_at_most_seconds"));
        assert_eq!(number(of, "failures"), 0);
    }
    assert!(number(device, "most_in_flight") >= 1);
    assert!(device["mean_in_flight"].as_f64().unwrap() > 0.0);
    // Files of the device are told as those of any other, and what is the image's is not theirs.
    assert_eq!(moved(&block, &disk.place.join("written")), [0, SIZE, 0]);
    assert_eq!(
        moved(&block, &disk.place.join("direct-written")),
        [SIZE, SIZE, 0]
    );
}
