//! What is not seen is counted and named: programs that use files and devices in such ways.

use std::{fs, process::Command};

use crate::common::{self, Iotrace, compare::nothing_lost, directory, number, python};
use serde_json::Value;

/// Maps a device, opens files around the page cache, and uses a socket, a pipe and a device.
const PROGRAM: &str = "
import mmap, os, socket, sys
unread, used = sys.argv[1:]
zero = os.open('/dev/zero', os.O_RDWR)
for pages in (3, 5):
    mmap.mmap(zero, pages * 4096, mmap.MAP_PRIVATE)
mmap.mmap(-1, 4096)
for _ in range(2):
    os.close(os.open(unread, os.O_RDONLY | os.O_DIRECT))
fd = os.open(used, os.O_RDONLY | os.O_DIRECT)
os.preadv(fd, [mmap.mmap(-1, 4096)], 0)
one, other = socket.socketpair()
one, other = one.detach(), other.detach()
for _ in range(5):
    os.write(one, b'x')
    os.read(other, 1)
os.close(one)
os.close(other)
one, other = os.pipe()
for _ in range(7):
    os.write(other, b'x')
    os.read(one, 1)
null = os.open('/dev/null', os.O_WRONLY)
for _ in range(9):
    os.write(null, b'x')
";

fn recorded() -> (common::run::Finished, Value, [String; 2], tempfile::TempDir) {
    let (keep, dir) = directory();
    let files = ["unread", "used"].map(|name| dir.join(name).display().to_string());
    for file in &files {
        fs::write(file, [0; 4096]).unwrap();
    }
    let python = python().display().to_string();
    let [unread, used] = &files;
    let finished = Iotrace::record().command([&python, "-c", PROGRAM, unread, used]);
    assert_eq!(finished.code(), 0, "{}", finished.stderr);
    let report = finished.report();
    nothing_lost(&report);
    (finished, report, files, keep)
}

#[test]
fn devices_direct_files_and_what_is_no_file() {
    let (finished, report, [unread, _], _keep) = recorded();
    let not_seen = &report["not_seen"];
    let zero = serde_json::json!([{"device": "/dev/zero", "mappings": 2, "bytes": 8 * 4096}]);
    assert_eq!(not_seen["mapped_devices"], zero);
    let direct = serde_json::json!({"files": 1, "opens": 2, "paths": [unread]});
    assert_eq!(not_seen["direct_files"], direct);
    assert_eq!(number(&report["totals"], "direct_opens"), 3);
    let skipped = &not_seen["skipped"];
    assert_eq!(number(skipped, "sockets"), 12, "{skipped}");
    // Its own streams may be pipes or devices, too.
    assert!(number(skipped, "pipes") >= 14, "{skipped}");
    // The mappings, writes, and the opens of both devices.
    assert!(number(skipped, "character_devices") >= 13, "{skipped}");
    let all = skipped.as_object().expect("kinds").values();
    let all: u64 = all.filter_map(Value::as_u64).sum();
    assert_eq!(all, number(&report["notes"], "skipped"));
    // The recording has it all, and so has the text.
    let text = Command::new(env!("CARGO_BIN_EXE_iotrace"))
        .args(["report", "--section", "unseen"])
        .arg(&finished.recording)
        .output()
        .unwrap();
    let text = String::from_utf8(text.stdout).unwrap();
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for said in [
        "Not seen",
        "/dev/zero was mapped 2 times, 32.0 KiB in all",
        "1 files were opened with O_DIRECT and used by no call that is seen",
        "12 on sockets",
    ] {
        assert!(text.contains(said), "{said}: {text}");
    }
}
