//! Timelines whose answer is known.

use super::*;
use crate::tests::{
    job::id,
    timeline::{MAIN, MS, WORKER, ended, file, pipeline, segment},
};
use iotrace_model::timeline::{Cause, Segment};

fn whatif(segments: Vec<Segment>, cpus: u32) -> WhatIf {
    try_whatif(segments, cpus).unwrap()
}

fn try_whatif(segments: Vec<Segment>, cpus: u32) -> Result<WhatIf, CannotTell> {
    WhatIf::new(Program::new(segments, &[id(MAIN)], cpus), cpus)
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
    let whatif = whatif(pipeline(40, Cause::Storage), 2);
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
    let mut all = pipeline(40, Cause::Storage);
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
    let whatif = whatif(pipeline(100, Cause::Storage), 4);
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

/// Before its first switch nothing is known of a thread but that it made others.
#[test]
fn workers_that_were_born_before_the_main_thread_was_met() {
    let mut all = Vec::new();
    for worker in WORKER..WORKER + 4 {
        all.extend([
            segment(worker, [0, 0, 0], Cause::Born, Some(MAIN)),
            segment(worker, [1, 101, 101], Cause::Storage, None),
            ended(worker, 102),
        ]);
    }
    let last = WORKER + 3;
    all.extend([
        segment(MAIN, [2, 102, 102], Cause::Thread, Some(last)),
        ended(MAIN, 103),
    ]);
    let whatif = whatif(all, 8);
    assert_eq!(whatif.recorded_ns, 103 * MS);
    let one = Change {
        workers: Some(1),
        ..Change::default()
    };
    let found = predicted(&whatif, &one);
    assert!((400..=420).contains(&found), "{found}");
    // Each read takes a quarter of the time if the four shared the bandwidth of the storage.
    let (low, ms, high, is_unknown) = range(&whatif, &one);
    assert!((90..=110).contains(&low), "{low}");
    assert!(high < ms + ms / 10 && !is_unknown, "{ms} {high}");
    for workers in [4, 8] {
        let change = Change {
            workers: Some(workers),
            ..Change::default()
        };
        let (low, ms, ..) = range(&whatif, &change);
        assert!(low >= ms - ms / 10, "{workers}: {low} {ms}");
    }
}

/// Two processes compute for 600 ms; for `storage` of it the first one waits for storage. A third one computes for `other` ms.
fn two_workers(storage: u64, other: u64) -> Vec<Segment> {
    let helper = 30;
    let mut all = vec![
        ended(MAIN, 0),
        segment(MAIN, [1, 601, 601], Cause::Thread, Some(WORKER + 1)),
        ended(MAIN, 602),
        segment(WORKER, [1, 1 + storage, 1 + storage], Cause::Storage, None),
        segment(helper, [other, 600, 600], Cause::Sleep, None),
    ];
    for pid in [WORKER, WORKER + 1, helper] {
        all.push(segment(pid, [0, 0, 0], Cause::Born, Some(MAIN)));
    }
    all.extend([
        ended(WORKER, 600),
        ended(WORKER + 1, 601),
        ended(helper, 600),
    ]);
    all
}

#[test]
fn workers_that_find_their_files_in_the_page_cache_share_the_work() {
    let one = Change {
        workers: Some(1),
        ..Change::default()
    };
    for storage in [1, 300] {
        let whatif = whatif(two_workers(storage, 5), 4);
        assert_eq!(whatif.workers(), Ok(2));
        assert_eq!(predicted(&whatif, &one), 1_203);
    }
    let nobody_waits = whatif(two_workers(0, 5), 4);
    assert_eq!(nobody_waits.workers(), Err(CannotTell::NoWorkers));
    // The birth of the second one was not recorded.
    let mut all = two_workers(1, 5);
    all.retain(|one| one.tid != WORKER + 1 || one.cause != Cause::Born);
    all.push(ended(WORKER + 1, 1));
    let workers = |parent: u32| {
        let program = Program::new(all.clone(), &[id(MAIN)], 4);
        let program = program.with_parents(|process| (process.pid != MAIN).then_some(parent));
        WhatIf::new(program, 4)?.workers()
    };
    assert_eq!((workers(MAIN), workers(1)), (Ok(2), Ok(1)));
    // What another process does is not known.
    let uneven = whatif(two_workers(1, 200), 4);
    assert_eq!(uneven.workers(), Err(CannotTell::UnevenWorkers));
}

#[test]
fn workers_that_are_not_understood_are_refused() {
    let more = Change {
        workers: Some(4),
        ..Change::default()
    };
    let alone = whatif(two_computing(), 2);
    assert_eq!(alone.predict(&more).unwrap_err(), CannotTell::NoWorkers);
    let mut all = pipeline(40, Cause::Storage);
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
    let refused = try_whatif(all, 2).err();
    assert_eq!(refused, Some(CannotTell::Contradiction));
    let none = try_whatif(Vec::new(), 2).err();
    assert_eq!(none, Some(CannotTell::NoMainThread));
}

/// A worker that reads for 10 ms of 15 and then waits for the main thread, or another one, to wake it, so often; the main
/// thread never has to wait.
fn loader_that_is_early(count: u64, waker: u32) -> Vec<Segment> {
    let mut all = vec![
        ended(MAIN, 0),
        segment(WORKER, [0, 0, 0], Cause::Born, Some(MAIN)),
    ];
    for index in 0..count {
        let [from, read, to] = [15 * index, 15 * index + 10, 15 * (index + 1)];
        all.push(segment(WORKER, [from, read, read], Cause::Storage, None));
        all.push(segment(WORKER, [read, to, to], Cause::Thread, Some(waker)));
    }
    all
}

/// What slower storage is predicted to take: at least, at most, and whether that is not predictable; milliseconds.
#[track_caller]
fn range(whatif: &WhatIf, change: &Change) -> (u64, u64, u64, bool) {
    let ms = predicted(whatif, change);
    let found = whatif.predict(change).unwrap();
    (found.low / MS, ms, found.high / MS, !found.is_predictable)
}

#[test]
fn a_worker_that_ended_before_it_was_waited_for_is_waited_for() {
    // It ends at 100 ms; at some time until 200 ms the main thread sees that it has.
    let all = vec![
        ended(MAIN, 0),
        segment(WORKER, [0, 0, 0], Cause::Born, Some(MAIN)),
        segment(WORKER, [0, 100, 100], Cause::Storage, None),
        ended(WORKER, 100),
        ended(MAIN, 200),
    ];
    let whatif = whatif(all, 2);
    assert_eq!(whatif.recorded_ns, 200 * MS);
    let (low, ms, high, is_unknown) = range(&whatif, &storage(0.25));
    assert_eq!(ms, 400);
    // It may not wait at all, or need the worker at once and compute for 100 ms after that.
    assert!(low <= 200 && high >= 500 && is_unknown, "{low} to {high}");
    let parts = whatif.predict(&storage(0.25)).unwrap().replayed.parts;
    assert_eq!(parts[&Part::Storage], 400 * MS);
    for factor in [1.0, 2.0, f64::INFINITY] {
        let (low, ms, high, is_unknown) = range(&whatif, &storage(factor));
        assert_eq!((ms, is_unknown), (200, false));
        assert!(low >= 193 && high <= 207, "{low} to {high}");
    }
}

#[test]
fn producers_that_were_early_can_be_too_late() {
    let mut all = loader_that_is_early(40, MAIN);
    all.push(ended(MAIN, 600));
    let whatif = whatif(all, 2);
    assert_eq!(whatif.recorded_ns, 600 * MS);
    let (low, ms, high, is_unknown) = range(&whatif, &storage(0.25));
    // If the main thread needs each sample, it takes 40 ms for each, and computes 15 ms after the last.
    assert_eq!(ms, 600);
    assert!(low <= 600 && high >= 1_615 && is_unknown, "{low} to {high}");
    // It computes for at most 5 ms of a sample before it needs the next.
    assert!(high <= 40 * 45 * 104 / 100, "{high}");
    for factor in [1.0, 2.0, f64::INFINITY] {
        let (low, ms, high, is_unknown) = range(&whatif, &storage(factor));
        assert_eq!((ms, is_unknown), (600, false));
        assert!(low >= 580 && high <= 620, "{low} to {high}");
    }
}

#[test]
fn producers_are_late_through_other_threads() {
    // A thread passes on what the main thread wants.
    let feeder = 30;
    let mut all = loader_that_is_early(40, feeder);
    all.push(segment(feeder, [0, 0, 0], Cause::Born, Some(MAIN)));
    for index in 0..40 {
        let off = if index == 0 { 1 } else { 15 * index };
        let to = 15 * index + 14;
        all.push(segment(feeder, [off, to, to], Cause::Thread, Some(MAIN)));
    }
    all.push(ended(MAIN, 600));
    let (_, ms, high, is_unknown) = range(&whatif(all, 2), &storage(0.25));
    assert_eq!(ms, 600);
    assert!(high >= 1_615 && is_unknown, "{high}");
}

#[test]
fn work_after_the_last_sample_does_not_hide_a_late_producer() {
    // The worker is idle while the main thread evaluates for a second, and then is told to end.
    let mut all = loader_that_is_early(10, MAIN);
    all.retain(|one| one.woken < 150 * MS);
    all.extend([
        segment(WORKER, [145, 1_150, 1_150], Cause::Thread, Some(MAIN)),
        ended(WORKER, 1_151),
        segment(MAIN, [1_150, 1_151, 1_151], Cause::Thread, Some(WORKER)),
        ended(MAIN, 1_151),
    ]);
    let whatif = whatif(all, 2);
    let (_, ms, high, is_unknown) = range(&whatif, &storage(0.25));
    // The worker reads for 400 ms, so the evaluation may begin as late as that.
    assert_eq!(ms, 1_151);
    assert!(high >= 1_400 && is_unknown, "{high}");
}

#[test]
fn workers_that_never_wait_can_be_too_late() {
    // The recorder came later than the worker, which reads 10 ms and computes 2 ms, and never waits for the main thread.
    let mut all = vec![ended(MAIN, 0), ended(MAIN, 600), ended(WORKER, 0)];
    for index in 0..40 {
        let (from, read) = (12 * index, 12 * index + 10);
        all.push(segment(WORKER, [from, read, read], Cause::Storage, None));
    }
    let still_there = [
        all.clone(),
        vec![segment(WORKER, [480, 610, 610], Cause::Sleep, None)],
    ];
    all.push(ended(WORKER, 480));
    for all in [all, still_there.concat()] {
        let whatif = whatif(all, 2);
        assert_eq!(whatif.recorded_ns, 600 * MS);
        let (_, ms, high, is_unknown) = range(&whatif, &storage(0.25));
        assert_eq!(ms, 600);
        assert!(high >= 40 * 42 && is_unknown, "{high}");
        assert!(!range(&whatif, &storage(2.0)).3);
    }
}

#[test]
fn faster_storage_can_uncover_a_producer_that_was_early() {
    // The main thread waits for what one worker reads, and another one, which computes, is always done by then.
    let computing = 30;
    let mut all = vec![
        ended(MAIN, 0),
        segment(WORKER, [0, 0, 0], Cause::Born, Some(MAIN)),
        segment(computing, [0, 0, 0], Cause::Born, Some(MAIN)),
    ];
    for index in 0..40 {
        let [from, to] = [20 * index, 20 * (index + 1)];
        let idle = if index == 0 { 0 } else { from + 1 };
        all.push(segment(MAIN, [idle, to, to], Cause::Thread, Some(WORKER)));
        all.push(segment(WORKER, [from, to, to], Cause::Storage, None));
        all.push(segment(
            computing,
            [from + 11, to + 1, to + 1],
            Cause::Thread,
            Some(MAIN),
        ));
    }
    all.push(ended(MAIN, 801));
    let whatif = whatif(all, 4);
    let (_, ms, high, is_unknown) = range(&whatif, &storage(f64::INFINITY));
    assert_eq!(ms, 40);
    assert!(high >= 400 && is_unknown, "{high}");
    assert!(!range(&whatif, &storage(0.5)).3);
}

#[test]
fn a_recorded_order_is_not_doubted() {
    let mut all = pipeline(40, Cause::Storage);
    let [end] = all
        .extract_if(.., |one| {
            one.tid == WORKER && one.off == one.on && one.off > 0
        })
        .collect::<Vec<_>>()[..]
    else {
        panic!("one end")
    };
    // The main thread tells the worker to end, and waits for that.
    let at = end.off / MS + 10;
    all.extend([
        segment(WORKER, [at - 10, at, at], Cause::Thread, Some(MAIN)),
        ended(WORKER, at + 1),
        segment(MAIN, [at, at + 1, at + 1], Cause::Thread, Some(WORKER)),
        ended(MAIN, at + 1),
    ]);
    for all in [pipeline(40, Cause::Storage), all] {
        let whatif = whatif(all, 2);
        for factor in [0.1, 0.25, 0.5, 0.9, 1.0, 2.0, 4.0, f64::INFINITY] {
            let found = whatif.predict(&storage(factor)).unwrap();
            assert!(found.is_predictable, "{factor}: {found:?}");
            let most = found.replayed.ns as f64 * 1.07;
            assert!((found.high as f64) < most, "{factor}: {found:?}");
            let least = found.replayed.ns as f64 * 0.93;
            assert!(found.low as f64 > least, "{factor}: {found:?}");
        }
    }
}

/// Timelines that no kernel recorded: threads wake each other at any times, and before they are born.
#[test]
fn any_timeline_is_replayed_or_refused() {
    let mut random = 1_u64;
    let mut below = |limit: u64| {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % limit
    };
    let mut replayed = 0;
    for _ in 0..3_000 {
        let count = 1 + below(60);
        let threads = 2 + below(5);
        let all = (0..count)
            .map(|_| {
                let off = below(200);
                let woken = off + below(3) * below(20);
                let on = woken + below(2) * below(5);
                let cause = Cause::ALL[below(Cause::ALL.len() as u64) as usize];
                let by = (below(2) == 0).then(|| MAIN + below(threads) as u32);
                segment(MAIN + below(threads) as u32, [off, woken, on], cause, by)
            })
            .collect();
        let Ok(whatif) = try_whatif(all, 2) else {
            continue;
        };
        for factor in [0.25, 1.0, f64::INFINITY] {
            let found = whatif.predict(&storage(factor)).unwrap();
            let range = found.low..=found.high;
            assert!(range.contains(&found.replayed.ns), "{found:?}");
            replayed += 1;
        }
    }
    assert!(replayed > 1_000, "{replayed}");
}
