//! One file used in every way by one process: each byte counts once, by the way that it went.

use std::{fs, os::unix::fs::MetadataExt as _};

use crate::common::{
    Iotrace,
    cache::drop_pages,
    compare::{conserved, list, nothing_lost, sum_of},
    compiled, directory,
    library::calls,
    number,
};
use iotrace_common::op;
use iotrace_recording::trace::Trace;
use serde_json::Value;

const SIZE: u64 = 1 << 20;

/// Ways of which each request is one call of the totals. A stream's calls are told apart from those that come of them.
const SYSTEM: [&str; 4] = ["calls", "uring", "aio", "of_stream"];

/// Calls and bytes of a way: read, and written.
fn said(truth: &Value, way: &str) -> [u64; 4] {
    std::array::from_fn(|index| truth[way][index].as_u64().expect("a number"))
}

#[test]
fn ways_of_access_add_up() {
    let (_keep, dir) = directory();
    let path = dir.join("data");
    fs::write(&path, vec![7_u8; SIZE as usize]).unwrap();
    let program = compiled("ways.c", &dir, &[]);
    drop_pages(&path);
    let run = Iotrace::record()
        .args(["--trace", "--uprobe", "stdio"])
        .command([&program, &path]);
    let (truth, report) = run.truth_and_report();
    nothing_lost(&report);

    // The file: each way once. What the stream was asked for is in none of it.
    let counters = ["reads", "bytes_read", "writes", "bytes_written"];
    let done: [u64; 4] =
        std::array::from_fn(|index| SYSTEM.iter().map(|way| said(&truth, way)[index]).sum());
    assert_eq!(counters.map(|name| sum_of(&report, &path, name)), done);
    assert_eq!(
        (done[1], done[3]),
        (4 * SIZE, 15 * 4096),
        "as the program has it"
    );
    assert_eq!(
        sum_of(&report, &path, "mapped_bytes"),
        said(&truth, "mapped")[1]
    );
    let stream = said(&truth, "stream");
    let seen = calls(&report, Some(&path), "");
    assert_eq!(seen["fread"], (stream[0], stream[1]));
    assert_eq!((seen["fopen"].0, seen["fclose"].0, seen.len()), (1, 1, 3));

    // The same operations, each by itself.
    let trace = Trace::open(&run.recording).unwrap().expect("a trace");
    let inode = fs::metadata(&path).unwrap().ino();
    let mut traced = [0; 4];
    for row in trace.rows() {
        let row = row.expect("an operation");
        let first = match row.op as usize {
            op::READ => 0,
            op::WRITE => 2,
            _ => continue,
        };
        if trace.file(&row).is_some_and(|file| file.inode == inode) {
            traced[first] += 1;
            traced[first + 1] += row.result as u64;
        }
    }
    assert_eq!(traced, done, "in the trace");

    // Processes, phases and ways are the totals.
    let totals = &report["totals"];
    for name in counters.iter().chain(&["mapped_bytes", "faults"]) {
        let of =
            |rows: &mut dyn Iterator<Item = &Value>| rows.map(|row| number(row, name)).sum::<u64>();
        let all = list(&report, "processes");
        let processes = of(&mut all.iter().map(|process| &process["totals"]));
        assert_eq!(processes, number(totals, name), "{name}");
        // What is of no file is of no phase: here the ring of libaio, which is mapped.
        let phases = of(&mut report["phases"].as_object().expect("phases").values());
        let by_name = of(&mut all.iter().map(|process| &process["by_name"]));
        assert_eq!(phases + by_name, number(totals, name), "{name}");
    }
    conserved(&report);
    let by = &totals["bytes_by_access"];
    let ways = ["read", "written", "mapped"].map(|way| number(by, way));
    let named = ["bytes_read", "bytes_written", "mapped_bytes"].map(|name| number(totals, name));
    assert_eq!(ways, named);
    assert_eq!(number(by, "all"), ways.iter().sum::<u64>());
}
