//! Timelines whose answer is known.

use super::*;
use iotrace_model::timeline::{Cause, Segment};

const MS: u64 = 1_000_000;
const MAIN: u32 = 10;
const WORKER: u32 = 20;

fn process(pid: u32) -> ProcessId {
    ProcessId { pid, start: 1 }
}

fn file(inode: u64) -> FileId {
    FileId {
        device: 1,
        inode,
        generation: 1,
    }
}

/// A segment of the main thread of process `tid`; times in milliseconds.
fn segment(tid: u32, [off, woken, on]: [u64; 3], cause: Cause, by: Option<u32>) -> Segment {
    Segment {
        process: process(tid),
        tid,
        off: off * MS,
        woken: woken * MS,
        on: on * MS,
        cause,
        by,
        file: (cause == Cause::Storage).then(|| file(1)),
        phase: 0,
    }
}

fn ended(tid: u32, time: u64) -> Segment {
    segment(tid, [time; 3], Cause::Preempted, None)
}

fn whatif(segments: Vec<Segment>, cpus: u32) -> WhatIf {
    WhatIf::new(Program::new(segments, cpus), &[process(MAIN)], cpus).unwrap()
}

#[track_caller]
fn predicted(whatif: &WhatIf, change: &Change) -> u64 {
    let prediction = whatif.predict(change).unwrap();
    let ns = prediction.replayed.ns;
    assert!(prediction.low <= ns && ns <= prediction.high);
    let sum: u64 = prediction.replayed.parts.values().sum();
    assert!(sum.abs_diff(ns) <= MS / 100, "{prediction:?}");
    (ns + MS / 2) / MS
}

fn storage(factor: f64) -> Change {
    Change {
        storage: factor,
        ..Change::default()
    }
}

/// Both compute for 100 ms; then the main thread waits for the other.
fn two_computing() -> Vec<Segment> {
    vec![
        ended(MAIN, 0),
        segment(MAIN, [100, 101, 101], Cause::Thread, Some(WORKER)),
        ended(MAIN, 101),
        segment(WORKER, [0, 0, 0], Cause::Born, Some(MAIN)),
        ended(WORKER, 101),
    ]
}

/// A worker whose reads take 20 ms and its decoding 5 ms; the main thread computes 10 ms on each of `count` samples.
fn pipeline(count: u64) -> Vec<Segment> {
    let mut all = vec![
        ended(MAIN, 0),
        segment(WORKER, [0, 0, 0], Cause::Born, Some(MAIN)),
    ];
    for index in 0..count {
        let (from, to) = (25 * index, 25 * (index + 1));
        let idle = if index == 0 { 0 } else { from + 10 };
        all.push(segment(MAIN, [idle, to, to], Cause::Thread, Some(WORKER)));
        all.push(segment(
            WORKER,
            [from, from + 20, from + 20],
            Cause::Storage,
            None,
        ));
    }
    all.push(ended(WORKER, 25 * count));
    all.push(ended(MAIN, 25 * count + 10));
    all
}

#[test]
fn threads_share_the_cpus_that_there_are() {
    let whatif = whatif(two_computing(), 2);
    assert_eq!(whatif.recorded_ns, 101 * MS);
    assert_eq!(predicted(&whatif, &Change::default()), 101);
    let one = Change {
        cpus: Some(1),
        ..Change::default()
    };
    assert_eq!(predicted(&whatif, &one), 201);
    let parts = whatif.predict(&one).unwrap().replayed.parts;
    assert!(parts[&Part::RunQueue] >= 99 * MS, "{parts:?}");
    let many = Change {
        cpus: Some(64),
        ..Change::default()
    };
    assert_eq!(predicted(&whatif, &many), 101);
}

#[test]
fn the_limit_moves_from_storage_to_computing() {
    let whatif = whatif(pipeline(40), 2);
    assert_eq!(whatif.recorded_ns, 1_010 * MS);
    assert!(whatif.model_error().abs() < 1e-6);
    for (factor, expected, bottleneck) in [
        (0.5, 40 * 45 + 10, Part::Storage),
        (1.0, 1_010, Part::Storage),
        (2.0, 40 * 15 + 10, Part::Storage),
        (4.0, 40 * 10 + 10, Part::Main),
        (8.0, 40 * 10 + 8, Part::Main),
        (f64::INFINITY, 40 * 10 + 5, Part::Main),
    ] {
        let change = storage(factor);
        let found = predicted(&whatif, &change);
        assert!(found.abs_diff(expected) <= 1, "{factor}: {found}");
        let found = whatif.predict(&change).unwrap().replayed.bottleneck();
        if factor != 4.0 {
            assert_eq!(found.unwrap().0, bottleneck, "{factor}");
        }
    }
    // On one CPU the worker decodes while the main thread computes: 15 ms a sample.
    let one = Change {
        cpus: Some(1),
        ..storage(f64::INFINITY)
    };
    assert!(predicted(&whatif, &one).abs_diff(600) <= 10);
}

#[test]
fn storage_that_was_hidden_can_become_the_limit() {
    // The worker reads 2 ms and is done long before the main thread, which waits for nothing but its end.
    let mut all = vec![
        ended(MAIN, 0),
        segment(WORKER, [0, 0, 0], Cause::Born, Some(MAIN)),
    ];
    for index in 0..50 {
        let at = 10 * index;
        all.push(segment(WORKER, [at, at + 2, at + 2], Cause::Storage, None));
        all.push(segment(
            WORKER,
            [at + 2, at + 10, at + 10],
            Cause::Thread,
            Some(MAIN),
        ));
    }
    all.push(segment(MAIN, [499, 501, 501], Cause::Thread, Some(WORKER)));
    all.extend([ended(WORKER, 501), ended(MAIN, 501)]);
    let whatif = whatif(all, 2);
    assert_eq!(predicted(&whatif, &storage(f64::INFINITY)), 500);
    assert_eq!(predicted(&whatif, &storage(0.1)), 1_001);
}

#[test]
fn a_slow_file_can_be_as_fast_as_others() {
    let mut all = pipeline(40);
    let reads = all.iter_mut().filter(|one| one.cause == Cause::Storage);
    for (index, read) in (0..).zip(reads) {
        read.file = Some(file(index));
    }
    let is_later = |one: &Segment| one.off >= 500 * MS;
    for one in &mut all {
        let is_read = one.cause == Cause::Storage && one.off == 500 * MS;
        let is_wait = one.cause == Cause::Thread && one.woken == 525 * MS;
        if is_read || is_wait {
            one.woken += 400 * MS;
            one.on += 400 * MS;
        } else if is_later(one) {
            one.off += 400 * MS;
            one.woken += 400 * MS;
            one.on += 400 * MS;
        }
    }
    let whatif = whatif(all, 2);
    assert_eq!(whatif.recorded_ns, 1_410 * MS);
    let files = |speed| Change {
        files: HashMap::from([(file(20), speed)]),
        ..Change::default()
    };
    assert_eq!(predicted(&whatif, &files(Speed::Typical)), 1_010);
    assert_eq!(predicted(&whatif, &files(Speed::Times(42.0))), 1_000);
    let all_files = Change {
        files: (0..40).map(|index| (file(index), Speed::Typical)).collect(),
        ..Change::default()
    };
    assert_eq!(
        whatif.predict(&all_files).unwrap_err(),
        CannotTell::NothingTypical
    );
}

#[test]
fn workers_share_their_work() {
    let whatif = whatif(pipeline(100), 4);
    let workers = |count| Change {
        workers: Some(count),
        ..Change::default()
    };
    assert_eq!(predicted(&whatif, &workers(1)), 2_510);
    assert_eq!(predicted(&whatif, &workers(2)), 1_260);
    // Then the main thread is the limit: 1,000 ms, and at most 25 ms for the first sample.
    let found = predicted(&whatif, &workers(8));
    assert!((1_000..=1_025).contains(&found), "{found}");
}

#[test]
fn workers_that_are_not_understood_are_refused() {
    let more = Change {
        workers: Some(4),
        ..Change::default()
    };
    let alone = whatif(two_computing(), 2);
    assert_eq!(alone.predict(&more).unwrap_err(), CannotTell::NoWorkers);
    let mut all = pipeline(40);
    all.extend([
        segment(30, [0, 0, 0], Cause::Born, Some(MAIN)),
        segment(30, [1, 400, 400], Cause::Storage, None),
        ended(30, 401),
    ]);
    let uneven = whatif(all, 2);
    assert_eq!(
        uneven.predict(&more).unwrap_err(),
        CannotTell::UnevenWorkers
    );
}

#[test]
fn cpus_that_others_used_stay_used() {
    // It is ready for 30 ms while no traced thread runs.
    let all = vec![
        ended(MAIN, 0),
        segment(MAIN, [10, 20, 50], Cause::Sleep, None),
        ended(MAIN, 60),
    ];
    let whatif = whatif(all, 2);
    assert_eq!(predicted(&whatif, &Change::default()), 60);
    assert_eq!(predicted(&whatif, &storage(f64::INFINITY)), 60);
}

#[test]
fn wake_ups_that_cannot_be_are_refused() {
    let all = vec![
        segment(MAIN, [0, 5, 5], Cause::Thread, Some(WORKER)),
        segment(WORKER, [0, 5, 5], Cause::Thread, Some(MAIN)),
    ];
    let program = Program::new(all, 2);
    let refused = WhatIf::new(program, &[process(MAIN)], 2).err();
    assert_eq!(refused, Some(CannotTell::Contradiction));
    let none = WhatIf::new(Program::new(Vec::new(), 2), &[process(MAIN)], 2).err();
    assert_eq!(none, Some(CannotTell::NoMainThread));
}
