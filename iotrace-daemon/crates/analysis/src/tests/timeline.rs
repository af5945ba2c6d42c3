//! Timelines that are made up, of main threads; times in milliseconds.

use super::job::id;
use iotrace_common::key::FileId;
use iotrace_model::timeline::{Cause, Segment};

/// Nanoseconds of a millisecond.
pub const MS: u64 = 1_000_000;
/// Process ids of the main process and of its worker.
pub const MAIN: u32 = 10;
pub const WORKER: u32 = 20;

pub fn file(inode: u64) -> FileId {
    FileId {
        device: 1,
        inode,
        generation: 1,
    }
}

/// A segment of the main thread of process `pid`.
pub fn segment(pid: u32, [off, woken, on]: [u64; 3], cause: Cause, by: Option<u32>) -> Segment {
    Segment {
        process: id(pid),
        tid: pid,
        off: off * MS,
        woken: woken * MS,
        on: on * MS,
        cause,
        by,
        file: (cause == Cause::Storage).then(|| file(1)),
        phase: 0,
    }
}

pub fn ended(pid: u32, time: u64) -> Segment {
    segment(pid, [time; 3], Cause::Preempted, None)
}

/// A worker waits for `cause` for 20 ms and computes for 5 ms on each of `count` samples; the main thread computes for 10 ms on
/// each.
pub fn pipeline(count: u64, cause: Cause) -> Vec<Segment> {
    let mut all = vec![
        ended(MAIN, 0),
        segment(WORKER, [0, 0, 0], Cause::Born, Some(MAIN)),
    ];
    for index in 0..count {
        let (from, to) = (25 * index, 25 * (index + 1));
        let idle = if index == 0 { 0 } else { from + 10 };
        all.push(segment(MAIN, [idle, to, to], Cause::Thread, Some(WORKER)));
        all.push(segment(WORKER, [from, from + 20, from + 20], cause, None));
    }
    all.extend([ended(WORKER, 25 * count), ended(MAIN, 25 * count + 10)]);
    all
}
