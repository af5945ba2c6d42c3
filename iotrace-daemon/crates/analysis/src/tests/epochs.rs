//! Epochs, balance and the series.

use super::job::{Job, START_NS, id, ms, used};
use crate::{
    epochs::{Epoch, Epochs},
    evaluation::is_of_evaluation,
    order::Order,
};
use iotrace_common::phases::code;
use iotrace_model::{IoTotals, counters::*, input::Place};
use iotrace_phases::phase::Phase;

const MIB: u64 = 1 << 20;

/// One pass of each of `pids` over its share of `shards` files of 4 MiB, one file after the other, from `from` on.
fn pass(job: &mut Job, pids: &[u32], shards: &[u64], from: u64) {
    for (turn, shard) in shards.iter().enumerate() {
        let pid = pids[turn % pids.len()];
        let start = from + (turn / pids.len()) as u64 * 100;
        let path = format!("/data/shard-{shard:03}.tar");
        job.read(used(pid, &path, start, start + 90), 4 * MIB);
    }
}

fn known(job: &mut Job, shards: u64) {
    (0..shards).for_each(|shard| {
        job.file(&format!("/data/shard-{shard:03}.tar"), 4 * MIB);
    });
}

fn shuffled(count: u64, seed: u64) -> Vec<u64> {
    let mut order: Vec<u64> = (0..count).collect();
    let mut state = seed + 1;
    for index in (1..order.len()).rev() {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        order.swap(index, (state >> 33) as usize % (index + 1));
    }
    order
}

/// A training reads all data twice, and another program reads it once, from millisecond `from` on.
fn with_another(program: &str, from: u64) -> Job {
    let mut job = Job::new(5_000);
    known(&mut job, 10);
    for (pid, exe) in [(1, "/usr/bin/python3"), (2, program)] {
        job.program(pid, 0);
        job.runs(pid, exe);
    }
    pass(&mut job, &[2], &shuffled(10, 0), from);
    pass(&mut job, &[1], &shuffled(10, 1), 1_000);
    pass(&mut job, &[1], &shuffled(10, 2), 2_000);
    job
}

/// One file of 150 MiB that a process opens, reads whole and closes from each of these moments on, for 1.5 s, in intervals of a
/// second.
fn in_intervals(starts: &[u64]) -> Job {
    let mut job = Job::new(10_000);
    job.program(1, 0);
    let file = job.file("/data/train.jsonl", 150 * MIB);
    let at = |ms: u64| START_NS + ms * 1_000_000;
    for interval in 0..10_u64 {
        let (begin, end) = (interval * 1_000, interval * 1_000 + 1_000);
        let mut counters = Counters::ZERO;
        for start in starts {
            let (from, to) = ((*start).max(begin), (start + 1_500).min(end));
            if from >= to {
                continue;
            }
            counters.v[BYTES_READ] += (to - from) * 150 * MIB / 1_500;
            counters.v[READS] += to - from;
            counters.v[READ_NS] += (to - from) * 1_000_000;
            let mut moment = |first: usize, last: usize, at: u64| {
                if counters.v[first] == 0 {
                    counters.v[first] = at;
                }
                counters.v[last] = at;
            };
            if from == *start {
                moment(FIRST_OPEN, LAST_OPEN, at(from));
            }
            moment(FIRST_READ, LAST_READ, at(from) + 1);
            moment(FIRST_READ, LAST_READ, at(to) - 2);
            if to == start + 1_500 {
                moment(FIRST_CLOSE, LAST_CLOSE, at(to) - 1);
            }
            moment(FIRST_OPERATION, LAST_OPERATION, at(from));
            moment(FIRST_OPERATION, LAST_OPERATION, at(to) - 1);
            counters.v[OPENS] += u64::from(from == *start);
            counters.v[CLOSES] += u64::from(to == start + 1_500);
        }
        if counters.v[READS] > 0 {
            job.model.add(id(1), Place::File(file), &counters);
        }
        job.flush(end);
    }
    job
}

#[test]
fn a_file_that_is_read_over_the_ends_of_intervals_is_cut_where_it_was_closed() {
    // The second opens 5 ms, 2 % and a third of an interval before its end.
    for starts in [
        [300, 1_995, 3_600],
        [300, 1_970, 3_600],
        [300, 2_666, 4_300],
    ] {
        let epochs = in_intervals(&starts).analysis().epochs.epochs;
        assert_eq!(epochs.len(), 3, "{starts:?}");
        for (epoch, start) in epochs.iter().zip(starts) {
            let start = i64::try_from(start).unwrap();
            let apart = [ms(epoch.start) - start, ms(epoch.end) - start - 1_499];
            assert!(epoch.is_exact, "{starts:?}: {epoch:?}");
            assert_eq!(apart, [0, 0], "{starts:?}: {epoch:?}");
            assert!(
                epoch.bytes.abs_diff(150 * MIB) <= 1,
                "{starts:?}: {epoch:?}"
            );
        }
    }
}

#[test]
fn programs_that_check_the_data_before_make_no_epoch() {
    let epochs = |program, from| with_another(program, from).analysis().epochs.epochs.len();
    assert_eq!(epochs("/usr/bin/sha256sum", 0), 2);
    assert_eq!(epochs("/usr/bin/sha256sum", 3_000), 2);
    // The same program may train on.
    assert_eq!(epochs("/opt/bin/python3", 3_000), 3);
}

#[test]
fn an_open_that_reads_nothing_is_no_pass() {
    let epochs = |first_close: u64, first_read: u64| {
        let mut job = Job::new(1_000);
        job.program(1, 0);
        let file = job.file("/data/train.db", 30 * MIB);
        let at = |ms: u64| START_NS + ms * 1_000_000;
        let mut counters = Counters::ZERO;
        for (counter, value) in [
            (OPENS, 2),
            (CLOSES, 2),
            (READS, 24_000),
            (BYTES_READ, 89 * MIB),
            (READ_NS, 60_000_000),
            (FIRST_OPERATION, at(10)),
            (FIRST_OPEN, at(10)),
            (FIRST_CLOSE, at(first_close)),
            (LAST_OPEN, at(first_close + 1)),
            (FIRST_READ, at(first_read)),
            (LAST_READ, at(900)),
            (LAST_CLOSE, at(901)),
            (LAST_OPERATION, at(901)),
            (CONSECUTIVE_READS, 14_000),
            (SEQUENTIAL_READS, 15_000),
        ] {
            counters.v[counter] = value;
        }
        job.model.add(id(1), Place::File(file), &counters);
        job.flush(1_000);
        job.analysis().epochs.epochs.len()
    };
    assert_eq!(epochs(11, 13), 3);
    // Both opens read a part.
    assert_eq!(epochs(400, 11), 2);
}

#[test]
fn a_script_that_only_tries_the_model_makes_no_epoch() {
    let epochs = |script, saves: bool| {
        let mut job = with_another("/usr/bin/python3", 3_000);
        job.script(1, "/job/train.py");
        job.script(2, script);
        if saves {
            let done = IoTotals {
                operations: 1,
                bytes_written: 1,
                ..IoTotals::default()
            };
            job.model.add_done(id(2), code::CHECKPOINT, &done);
        }
        job.analysis().epochs.epochs.len()
    };
    assert_eq!(epochs("/job/eval.py", false), 2);
    // It trains on, as the same script does.
    assert_eq!(epochs("/job/finetune.py", true), 3);
    assert_eq!(epochs("/job/train.py", false), 3);
    // As a first stage that saves nothing may do.
    assert_eq!(epochs("/job/stage2.py", false), 3);
}

#[test]
fn passes_over_mapped_files_are_not_told() {
    let mut job = Job::new(5_000);
    known(&mut job, 1);
    job.program(1, 0);
    for from in [100, 2_000] {
        let used = used(1, "/data/shard-000.tar", from, from + 500);
        job.count(
            used,
            &[(OPENS, 1), (MMAPS, 1), (FAULTS, 7), (MAPPED_BYTES, 4 * MIB)],
        );
        job.flush(from + 1_000);
    }
    let found = job.analysis().epochs;
    assert_eq!((found.files, found.epochs.len()), (0, 0));
    assert!(found.untold.is_some_and(|reason| reason.contains("mapped")));
}

/// A job that reads all data within its first second, and then makes `saves` saves, one every `apart` milliseconds.
fn read_once_and_saved(saves: u64, apart: u64) -> Epochs {
    let mut job = Job::new(10_000);
    known(&mut job, 10);
    job.program(1, 0);
    pass(&mut job, &[1], &shuffled(10, 1), 0);
    for save in 1..=saves {
        let from = 1_000 + save * apart;
        let path = format!("/out/epoch_{save}.pt");
        job.write(used(1, &path, from, from + 50), 4 * MIB, 0);
    }
    job.analysis().epochs
}

#[test]
fn data_that_may_be_kept_in_memory_make_no_epoch() {
    let found = |saves, apart| {
        let found = read_once_and_saved(saves, apart);
        (found.epochs.len(), found.untold.is_some())
    };
    assert_eq!(found(4, 1_000), (0, true));
    // Saved once at the end of a training in memory.
    assert_eq!(found(1, 8_000), (0, true));
    // The checkpoint of the epoch and the final model, and a model alone.
    assert_eq!(found(2, 300), (1, false));
    assert_eq!(found(1, 1_500), (1, false));
}

#[test]
fn a_sample_that_is_tried_several_times_is_of_no_epoch() {
    let mut job = Job::new(10_000);
    known(&mut job, 30);
    job.program(1, 0);
    for from in [0, 200] {
        pass(&mut job, &[1], &[3], from);
        job.flush(from + 100);
    }
    for epoch in 0..2 {
        let from = 1_000 + epoch * 4_000;
        pass(&mut job, &[1], &shuffled(30, epoch), from);
        job.flush(from + 3_000);
    }
    let found = job.analysis().epochs;
    let epochs: Vec<_> = found
        .epochs
        .iter()
        .map(|e| (ms(e.start), e.files))
        .collect();
    assert_eq!(epochs, [(1_000, 30), (5_000, 30)]);
    assert!(
        found
            .epochs
            .iter()
            .all(|epoch| epoch.is_complete() && epoch.sequences.is_some())
    );
}

/// Starts of epochs, why there are none, and what files and bytes they have.
type Found = (Vec<i64>, Option<&'static str>, u64, u64);

/// Three epochs over shards 0 to 9, one every two seconds, and a pass over shards 10 to 12 by this process at each of these moments.
fn with_evaluations(evaluator: u32, at: &[u64]) -> Found {
    with_evaluations_and_saves(evaluator, at, &[])
}

/// The same with saves at these moments.
fn with_evaluations_and_saves(evaluator: u32, at: &[u64], saves: &[u64]) -> Found {
    let mut job = Job::new(10_000);
    for save in saves {
        job.write(used(1, "/out/model.pt", *save, save + 50), MIB, 0);
    }
    known(&mut job, 13);
    job.program(1, 0);
    job.worker(2, 1);
    let epochs = (0..3).map(|epoch| (1_000 + epoch * 2_000, 1, shuffled(10, epoch)));
    let mut passes: Vec<_> = epochs.collect();
    passes.extend(at.iter().map(|from| (*from, evaluator, vec![10, 11, 12])));
    passes.sort();
    for (from, pid, shards) in passes {
        pass(&mut job, &[pid], &shards, from);
        job.flush(from + shards.len() as u64 * 100);
    }
    let found = job.analysis().epochs;
    let starts = found.epochs.iter().map(|epoch| ms(epoch.start));
    (starts.collect(), found.untold, found.files, found.bytes)
}

#[test]
fn what_is_read_between_the_epochs_alone_is_for_evaluation() {
    let evaluated = (vec![1_000, 3_000, 5_000], None, 10, 40 * MIB);
    // Tried before the first epoch, and after each; after each second one.
    assert_eq!(with_evaluations(2, &[0, 2_100, 4_100, 6_100]), evaluated);
    assert_eq!(with_evaluations(2, &[2_100, 4_100]), evaluated);
    // A test after the training alone; reads during an epoch, which may be of it; a training that stops in an epoch.
    assert_ne!(with_evaluations(2, &[6_100]), evaluated);
    assert_ne!(with_evaluations(2, &[1_500, 4_100]), evaluated);
    assert_ne!(with_evaluations(1, &[2_100, 4_100]), evaluated);
}

#[test]
fn a_small_test_after_the_last_save_is_of_no_epoch() {
    let mut job = Job::new(20_000);
    known(&mut job, 41);
    for epoch in 0..3 {
        let from = epoch * 5_000;
        pass(&mut job, &[1], &shuffled(40, epoch), from);
        job.write(used(1, "/out/model.pt", from + 4_100, from + 4_200), MIB, 0);
        job.flush(from + 4_500);
    }
    pass(&mut job, &[1], &[40], 17_000);
    let found = job.analysis().epochs;
    let ends: Vec<i64> = found.epochs.iter().map(|epoch| ms(epoch.end)).collect();
    assert_eq!((ends, found.files), (vec![3_989, 8_989, 13_989], 40));
}

#[test]
fn what_is_read_once_after_the_last_save_is_a_test() {
    let evaluated = (vec![1_000, 3_000, 5_000], None, 10, 40 * MIB);
    let found = |evaluator, saves: &[u64]| with_evaluations_and_saves(evaluator, &[6_500], saves);
    for evaluator in [1, 2] {
        assert_eq!(found(evaluator, &[2_100, 4_100, 6_100]), evaluated);
        // The last stage of a training may be on other data: saved later, or maybe not at all.
        for saves in [&[2_100, 4_100, 6_100, 7_000][..], &[2_100, 4_100], &[]] {
            assert_ne!(found(evaluator, saves), evaluated, "{saves:?}");
        }
        let twice = with_evaluations_and_saves(evaluator, &[6_500, 7_500], &[6_100]);
        assert_ne!(twice, evaluated);
    }
}

/// Two epochs over ten shards and then two over as many others, a second each, with saves after these; number and stage of each
/// that is found.
fn in_stages(saves: &[u64]) -> Vec<(u32, u32)> {
    let mut job = Job::new(20_000);
    known(&mut job, 20);
    for turn in 0..4 {
        let from = 1_000 + turn * 2_000;
        let shards = shuffled(10, turn);
        let shards: Vec<u64> = shards.iter().map(|shard| shard + turn / 2 * 10).collect();
        pass(&mut job, &[1], &shards, from);
        if saves.contains(&turn) {
            job.write(used(1, "/out/model.pt", from + 1_200, from + 1_300), MIB, 0);
        }
        job.flush(from + 1_500);
    }
    let found = job.analysis().epochs;
    let epochs = found.epochs.iter();
    epochs.map(|epoch| (epoch.number, epoch.stage)).collect()
}

#[test]
fn a_training_that_goes_on_with_other_files_has_stages() {
    let stages = [(1, 1), (2, 1), (3, 2), (4, 2)];
    assert_eq!(in_stages(&[0, 1, 2, 3]), stages);
    // A test, perhaps, which is done twice.
    assert_eq!(in_stages(&[0, 1]), []);
    assert_eq!(in_stages(&[0, 1, 3]), []);
}

#[test]
fn workers_that_live_on_read_everything_again() {
    let mut job = Job::new(20_000);
    known(&mut job, 20);
    job.program(1, 0);
    [2, 3].into_iter().for_each(|pid| job.worker(pid, 1));
    for epoch in 0..3 {
        pass(&mut job, &[2, 3], &shuffled(20, epoch + 7), epoch * 5_000);
        job.flush((epoch + 1) * 5_000);
    }
    let found = job.analysis().epochs;
    let epochs: Vec<_> = found
        .epochs
        .iter()
        .map(|e| (e.number, ms(e.start), ms(e.end), e.files, e.bytes))
        .collect();
    assert_eq!(
        epochs,
        [
            (1, 0, 989, 20, 80 * MIB),
            (2, 5_000, 5_989, 20, 80 * MIB),
            (3, 10_000, 10_989, 20, 80 * MIB)
        ]
    );
    assert!(
        found
            .epochs
            .iter()
            .all(|epoch| epoch.is_complete() && epoch.is_exact)
    );
    assert!(
        found
            .epochs
            .iter()
            .all(|epoch| epoch.order == Some(Order::Shuffled))
    );
    assert_eq!((found.files, found.bytes, found.copies), (20, 80 * MIB, 1));
}

#[test]
fn two_epochs_between_two_flushes_are_still_told_apart() {
    let mut job = Job::new(20_000);
    known(&mut job, 10);
    job.program(1, 0);
    for epoch in 0..2 {
        pass(&mut job, &[1], &(0..10).collect::<Vec<_>>(), epoch * 2_000);
    }
    let found = job.analysis().epochs;
    assert_eq!(
        found
            .epochs
            .iter()
            .map(|e| (ms(e.start), ms(e.end)))
            .collect::<Vec<_>>(),
        [(0, 989), (2_000, 2_989)]
    );
    assert!(
        found
            .epochs
            .iter()
            .all(|epoch| epoch.is_exact && epoch.order == Some(Order::Sequential))
    );
    pass(&mut job, &[1], &(0..10).collect::<Vec<_>>(), 4_000);
    let found = job.analysis().epochs;
    assert_eq!(found.epochs.len(), 3, "how often is exact");
    assert!(!found.epochs[1].is_exact, "when the second was is not");
}

#[test]
fn the_last_epoch_may_be_a_part() {
    let mut job = Job::new(20_000);
    known(&mut job, 20);
    job.program(1, 0);
    pass(&mut job, &[1], &shuffled(20, 3), 0);
    job.flush(5_000);
    pass(&mut job, &[1], &shuffled(20, 5)[..8], 5_000);
    let found = job.analysis().epochs.epochs;
    assert_eq!(
        found
            .iter()
            .map(|e| (e.files, e.is_complete()))
            .collect::<Vec<_>>(),
        [(20, true), (8, false)]
    );
    assert_eq!((found[1].coverage * 100.0).round(), 40.0);
}

/// Reads some of 40 files in each pass, in another order each time. `passes`: the number of files, and the millisecond of the start.
/// Returns the same of the passes that are found.
fn parts(passes: &[(usize, i64)]) -> Vec<(i64, u64)> {
    let mut job = Job::new(60_000);
    known(&mut job, 40);
    job.program(1, 0);
    for (index, (files, from)) in (0..).zip(passes) {
        let from = u64::try_from(*from).unwrap();
        pass(&mut job, &[1], &shuffled(40, index)[..*files], from);
        job.flush(from + 4_500);
    }
    let found = job.analysis().epochs.epochs;
    let passes = found.iter().map(|epoch| (ms(epoch.start), epoch.files));
    passes.collect()
}

#[test]
fn a_part_that_is_read_before_a_pause_is_in_no_epoch() {
    let epochs = [(30_000, 40), (35_000, 40), (40_000, 40)];
    let peeked = [vec![(0, 8)], epochs.to_vec()].concat();
    assert_eq!(
        parts(&[(8, 0), (40, 30_000), (40, 35_000), (40, 40_000)]),
        peeked
    );
    // Resumed in an epoch, with a pause after each.
    let resumed = [(0, 14), (14_000, 40), (28_000, 40), (42_000, 40)];
    assert_eq!(
        parts(&[(14, 0), (40, 14_000), (40, 28_000), (40, 42_000)]),
        resumed
    );
    // Broken off after a pause, and without one.
    for last in [20_000, 12_500] {
        let broken_off = [(0, 40), (5_000, 40), (last, 8)];
        assert_eq!(parts(&[(40, 0), (40, 5_000), (8, last)]), broken_off);
    }
}

#[test]
fn an_epoch_that_was_broken_off_puts_no_pass_into_another() {
    let mut job = Job::new(20_000);
    known(&mut job, 40);
    job.program(1, 0);
    let all: Vec<u64> = (0..40).collect();
    // The second breaks off: of three uses of a file in one interval only the first and the last are known.
    pass(&mut job, &[1], &all, 0);
    pass(&mut job, &[1], &all[..20], 4_100);
    pass(&mut job, &[1], &all, 6_200);
    job.flush(10_250);
    pass(&mut job, &[1], &all, 10_300);
    let found = job.analysis().epochs;
    assert_eq!((found.epochs.len(), found.untold), (4, None));
}

#[test]
fn passes_of_which_only_the_number_is_known_lie_in_no_other() {
    let mut job = Job::new(20_000);
    job.program(1, 0);
    // Copies that are read slowly once and quickly four times, all in one interval.
    let mut from = 0;
    for (duration, is_write) in [(50, true), (100, false)]
        .into_iter()
        .chain([(10, false); 4])
    {
        for shard in 0..8 {
            let path = format!("/data/shard-{shard:03}.tar");
            match is_write {
                true => job.write(used(1, &path, from, from + duration - 1), 4 * MIB, 0),
                false => job.read(used(1, &path, from, from + duration - 1), 4 * MIB),
            }
            from += duration;
        }
    }
    let found = job.analysis().epochs;
    assert_eq!((found.epochs.len(), found.untold), (5, None));
}

#[test]
fn an_epoch_may_leave_some_files_out_and_the_next_others() {
    let mut job = Job::new(20_000);
    known(&mut job, 40);
    job.program(1, 0);
    for epoch in 0..3 {
        let order = shuffled(40, epoch + 3);
        pass(&mut job, &[1], &order[..39], epoch * 5_000);
        job.flush((epoch + 1) * 5_000);
    }
    let found = job.analysis().epochs.epochs;
    let told = |epoch: &Epoch| (ms(epoch.start), ms(epoch.end), epoch.files);
    assert_eq!(
        found.iter().map(told).collect::<Vec<_>>(),
        [(0, 3_889, 39), (5_000, 8_889, 39), (10_000, 13_889, 39)]
    );
    assert!(found.iter().all(Epoch::is_complete));
}

#[test]
fn ranks_that_share_the_data_and_ranks_that_all_read_it() {
    let shared = {
        let mut job = Job::new(20_000);
        known(&mut job, 20);
        [10, 20].into_iter().for_each(|pid| job.program(pid, 1));
        for epoch in 0..3 {
            pass(
                &mut job,
                &[10, 20],
                &shuffled(20, epoch * 3 + 1),
                epoch * 5_000,
            );
            job.flush((epoch + 1) * 5_000);
        }
        job.analysis().epochs
    };
    assert_eq!((shared.epochs.len(), shared.copies), (3, 1));
    let copied = {
        let mut job = Job::new(20_000);
        known(&mut job, 20);
        [10, 20].into_iter().for_each(|pid| job.program(pid, 1));
        for epoch in 0..3 {
            pass(&mut job, &[10], &shuffled(20, epoch * 3 + 1), epoch * 5_000);
            pass(
                &mut job,
                &[20],
                &shuffled(20, epoch * 5 + 2),
                epoch * 5_000 + 20,
            );
            job.flush((epoch + 1) * 5_000);
        }
        job.analysis().epochs
    };
    assert_eq!((copied.epochs.len(), copied.copies), (3, 2));
    assert_eq!(
        (copied.epochs[0].files, copied.epochs[0].bytes),
        (20, 160 * MIB)
    );
}

#[test]
fn one_file_that_stays_open_is_passed_over_by_its_bytes() {
    use iotrace_model::counters::*;
    let mut job = Job::new(60_000);
    job.file("/data/train.bin", 100 * MIB);
    job.program(1, 0);
    for interval in 0..10_u64 {
        let used = used(
            1,
            "/data/train.bin",
            interval * 5_000,
            interval * 5_000 + 4_900,
        );
        job.count(
            used,
            &[
                (OPENS, u64::from(interval == 0)),
                (READS, 25),
                (BYTES_READ, 25 * MIB),
                (READ_NS, 1_000),
            ],
        );
        job.flush((interval + 1) * 5_000);
    }
    let found = job.analysis().epochs.epochs;
    assert_eq!(
        found
            .iter()
            .map(|e| (e.bytes / MIB, e.is_complete()))
            .collect::<Vec<_>>(),
        [(100, true), (100, true), (50, false)]
    );
    // Without the order of the reads it may be one part, again and again.
    job.run.detail = "basic".into();
    let found = job.analysis().epochs;
    assert!(found.epochs.is_empty() && found.untold.is_some());
}

#[test]
fn random_reads_that_are_no_whole_passes_have_no_epochs() {
    use iotrace_model::counters::*;
    // Intervals with a quarter of the file each, and sequential reads of 25.
    for (intervals, sequential, epochs, is_told) in [
        (10, 12, 0, false),
        (8, 12, 2, true),
        (10, 24, 3, true),
        (10, 0, 3, true),
    ] {
        let mut job = Job::new(60_000);
        job.file("/data/train.h5", 100 * MIB);
        job.program(1, 0);
        for interval in 0..intervals {
            let used = used(
                1,
                "/data/train.h5",
                interval * 5_000,
                interval * 5_000 + 4_900,
            );
            let counted = [
                (OPENS, u64::from(interval == 0)),
                (READS, 25),
                (SEQUENTIAL_READS, sequential),
                (BYTES_READ, 25 * MIB),
            ];
            job.count(used, &counted);
            job.flush((interval + 1) * 5_000);
        }
        let found = job.analysis().epochs;
        let found = (found.epochs.len(), found.untold.is_none());
        assert_eq!(found, (epochs, is_told), "{intervals} {sequential}");
    }
}

/// Reads a file, which stays open, three times in random order. `reads`: sizes of calls, and their number in each epoch. Returns the
/// number of epochs, if it is known.
fn in_random_order(path: &str, size: u64, reads: &[(u64, u64)]) -> Option<usize> {
    let mut job = Job::new(60_000);
    let file = job.file(path, size);
    job.program(1, 0);
    for epoch in 0..3 {
        let mut counters = Counters::ZERO;
        for (size, calls) in reads {
            counters.sizes.add(*size, *calls);
            counters.v[READS] += calls;
            counters.v[BYTES_READ] += size * calls;
        }
        counters.v[SEQUENTIAL_READS] = counters.v[READS] / 2;
        counters.v[OPENS] = u64::from(epoch == 0);
        let from = START_NS + epoch * 5_000_000_000;
        counters.v[FIRST_OPEN] = counters.v[OPENS] * from;
        (counters.v[FIRST_READ], counters.v[LAST_READ]) = (from + 1, from + 4_000_000_000);
        job.model.add(id(1), Place::File(file), &counters);
        job.flush((epoch + 1) * 5_000);
    }
    let found = job.analysis().epochs;
    found.untold.is_none().then_some(found.epochs.len())
}

#[test]
fn what_hdf5_reads_by_its_buffer_is_of_no_number_of_passes() {
    let path = "/data/train.h5";
    // Samples of 37,632 bytes, and labels from one to the last.
    let buffered = [(65_536, 3_000), (12_000, 3_000)];
    assert_eq!(in_random_order(path, 112_922_048, &buffered), None);
    let with_labels = [(16_384, 4_000), (16_000, 4_000)];
    assert_eq!(in_random_order(path, 65_765_032, &with_labels), None);
    // Samples that are larger than the buffer, chunks that are compressed, and records without HDF5.
    let large = [(150_528, 1_500), (6_000, 1_500)];
    assert_eq!(in_random_order(path, 225_806_048, &large), Some(3));
    let chunks: Vec<(u64, u64)> = (0..30).map(|chunk| (20_000 + chunk, 4)).collect();
    assert_eq!(in_random_order(path, 2_401_740, &chunks), Some(3));
    let records = [(65_536, 2_000)];
    assert_eq!(
        in_random_order("/data/train.bin", 131_072_000, &records),
        Some(3)
    );
    assert_eq!(in_random_order(path, 131_072_000, &records), None);
}

#[test]
fn many_passes_in_random_order_are_a_whole_number() {
    let found = |reads| in_random_order("/data/train.bin", 16 * MIB, &[(1 << 16, reads)]);
    // 24 passes in each, and 0.05 more.
    assert_eq!(found(24 * 256), Some(72));
    assert_eq!(found(24 * 256 + 13), None);
}

/// Reads of a file of 100 MiB, an open each: bytes, calls, and how many of them began where the one before ended.
/// When the passes over it begin, in milliseconds.
fn opens(parts: &[(u64, u64, u64)]) -> Vec<i64> {
    use iotrace_model::counters::*;
    let mut job = Job::new(60_000);
    job.file("/data/shard.tar", 100 * MIB);
    job.program(1, 0);
    for (index, (bytes, reads, consecutive)) in (0..).zip(parts) {
        let used = used(1, "/data/shard.tar", index * 5_000, index * 5_000 + 4_900);
        let counted = [
            (OPENS, 1),
            (CLOSES, 1),
            (READS, *reads),
            (SEQUENTIAL_READS, *reads),
            (CONSECUTIVE_READS, *consecutive),
            (BYTES_READ, bytes * MIB),
        ];
        job.count(used, &counted);
        job.flush((index + 1) * 5_000);
    }
    let epochs = job.analysis().epochs.epochs;
    epochs.iter().map(|epoch| ms(epoch.start)).collect()
}

#[test]
fn headers_that_are_read_before_the_members_are_no_epoch() {
    let pass = (100, 25, 25);
    assert_eq!(
        opens(&[(14, 100, 0), pass, pass, pass]),
        [0, 10_000, 15_000]
    );
    // A part that is read in one go may have been trained on, and so may all of it.
    assert_eq!(opens(&[(14, 100, 99), pass, pass, pass]).len(), 4);
    assert_eq!(opens(&[(97, 100, 0), pass, pass]), [0, 5_000, 10_000]);
    // The end of a table, of which its schema is known, by one call.
    assert_eq!(opens(&[(15, 1, 0), pass, pass]), [0, 10_000]);
    assert_eq!(opens(&[pass, (15, 1, 0), pass]), [0, 5_000]);
    // As many bytes as a pass has.
    assert_eq!(opens(&[(20, 1, 0), (80, 20, 20), pass]), [0, 10_000]);
    // What is read last was the begin of a pass, if more is read than headers are.
    assert_eq!(opens(&[pass, pass, (30, 8, 7)]).len(), 3);
}

#[test]
fn what_is_closed_in_a_later_interval_was_read_once() {
    use iotrace_model::counters::*;
    let mut job = Job::new(60_000);
    job.file("/data/train.h5", 100 * MIB);
    job.program(1, 0);
    for pass in 0..3_u64 {
        let used = |half: u64| {
            used(
                1,
                "/data/train.h5",
                pass * 10_000 + half * 5_000,
                pass * 10_000 + half * 5_000 + 4_000,
            )
        };
        // The end is read first, and once more.
        let read = [(OPENS, 1), (READS, 120), (BYTES_READ, 120 * MIB)];
        job.count(used(0), &read);
        job.flush(pass * 10_000 + 5_000);
        job.count(used(1), &[(CLOSES, 1)]);
        job.flush(pass * 10_000 + 10_000);
    }
    assert_eq!(job.analysis().epochs.epochs.len(), 3);
}

/// The bytes of each pass over a file of 10 MiB that one process used so in intervals of 250 ms: writes and reads of 1 MiB,
/// opens and closes.
fn passes_in_intervals(intervals: &[[u64; 4]]) -> Vec<u64> {
    use iotrace_model::counters::*;
    let mut job = Job::new(1_000);
    job.file("/data/train.tar", 10 * MIB);
    job.program(1, 0);
    for (from, [written, read, opens, closes]) in (0..).step_by(250).zip(intervals) {
        let used = used(1, "/data/train.tar", from, from + 240);
        let values = [
            (OPENS, *opens),
            (WRITES, *written),
            (BYTES_WRITTEN, written * MIB),
            (READS, *read),
            (BYTES_READ, read * MIB),
            (CLOSES, *closes),
        ];
        job.count(used, &values);
        job.flush(from + 250);
    }
    let found = job.analysis().epochs;
    assert_eq!(found.untold, None);
    found.epochs.iter().map(|epoch| epoch.bytes / MIB).collect()
}

/// A file whose footer is read once more is read three times, and intervals end where they will.
#[test]
fn what_is_open_at_the_end_of_an_interval_goes_on_in_the_next() {
    let intervals = [[0, 18, 2, 1], [0, 7, 1, 1], [0, 8, 0, 1]];
    assert_eq!(passes_in_intervals(&intervals), [11, 11, 11]);
}

/// The first pass begins in the interval in which the file is written, and each lasts longer than an interval.
#[test]
fn the_close_of_the_writer_ends_no_pass() {
    let intervals = [[10, 8, 2, 1], [0, 8, 1, 1], [0, 8, 1, 1], [0, 6, 0, 1]];
    assert_eq!(passes_in_intervals(&intervals), [10, 10, 10]);
}

#[test]
fn a_writer_that_opened_in_an_earlier_interval_takes_no_open_of_a_reader() {
    use iotrace_model::counters::*;
    let path = "/data/train.tar";
    // What sendfile writes has no first write.
    for [first, last] in [[FIRST_WRITE, LAST_WRITE], [FIRST_OPERATION, LAST_OPERATION]] {
        let mut job = Job::new(1_000);
        job.program(1, 0);
        job.add(used(1, path, 0, 240), &[(OPENS, 1)], first, last);
        job.flush(250);
        let written = [
            (WRITES, 10),
            (BYTES_WRITTEN, 10 * MIB),
            (CLOSES, 1),
            (MAX_BYTE_WRITTEN, 10 * MIB - 1),
        ];
        job.add(used(1, path, 250, 300), &written, first, last);
        let read = [(OPENS, 1), (CLOSES, 1), (READS, 10), (BYTES_READ, 10 * MIB)];
        for pass in 0..6 {
            let from = 300 + pass * 30;
            job.count(used(1, path, from, from + 29), &read);
        }
        job.flush(500);
        let found = job.analysis().epochs.epochs;
        let bytes: Vec<u64> = found.iter().map(|epoch| epoch.bytes / MIB).collect();
        assert_eq!(bytes, [10; 6]);
    }
}

#[test]
fn validation_is_no_part_of_an_epoch() {
    let mut job = Job::new(20_000);
    known(&mut job, 10);
    job.file("/data/val/v.tar", 4 * MIB);
    job.program(1, 0);
    for epoch in 0..3 {
        pass(&mut job, &[1], &shuffled(10, epoch + 1), epoch * 5_000);
        for index in 0..5 {
            let from = epoch * 5_000 + 2_000 + index * 100;
            job.read(used(1, "/data/val/v.tar", from, from + 90), 4 * MIB);
        }
        job.flush((epoch + 1) * 5_000);
    }
    let found = job.analysis().epochs;
    assert_eq!((found.epochs.len(), found.files), (3, 10));
}

#[test]
fn files_that_are_drawn_anew_each_time_have_no_epochs() {
    let mut job = Job::new(60_000);
    known(&mut job, 20);
    job.program(1, 0);
    for draw in 0..40_u64 {
        let shard = (draw * draw * 7 + draw * 3) % 20;
        job.read(
            used(
                1,
                &format!("/data/shard-{shard:03}.tar"),
                draw * 100,
                draw * 100 + 90,
            ),
            4 * MIB,
        );
        job.flush(draw * 100 + 100);
    }
    let found = job.analysis().epochs;
    assert!(
        found.epochs.is_empty() && found.untold.is_some(),
        "{:?}",
        found.epochs
    );
}

#[test]
fn the_series_sums_up_to_the_run() {
    let mut job = Job::new(20_000);
    known(&mut job, 4);
    for epoch in 0..2 {
        pass(&mut job, &[1], &[0, 1, 2, 3], epoch * 5_000);
        job.write(
            used(
                9,
                "/out/step_1.ckpt",
                epoch * 5_000 + 1_000,
                epoch * 5_000 + 1_100,
            ),
            MIB,
            10,
        );
        job.flush((epoch + 1) * 5_000);
    }
    let slices = job.analysis().series.slices;
    assert_eq!(
        slices
            .iter()
            .map(|s| (ms(s.start_ns), ms(s.end_ns)))
            .collect::<Vec<_>>(),
        [(0, 5_000), (5_000, 10_000)]
    );
    let training = usize::from(Phase::Training.code()) - 1;
    let checkpoint = usize::from(Phase::Checkpoint.code()) - 1;
    for slice in &slices {
        assert_eq!(slice.phases[training].io.bytes_read, 16 * MIB);
        assert_eq!(slice.phases[checkpoint].io.bytes_written, MIB);
        assert_eq!(
            slice
                .processes
                .iter()
                .map(|one| one.flow.io.bytes())
                .sum::<u64>(),
            17 * MIB
        );
    }
    let operations: u64 = slices
        .iter()
        .flat_map(|s| s.phases)
        .map(|flow| flow.io.operations)
        .sum();
    assert_eq!(operations, job.model.io_totals().operations);
}

#[test]
fn the_innermost_name_says_what_data_are_for() {
    for path in [
        "/data/imagenet/val/n01440764/1.jpg",
        "/data/train/validation-00000-of-00128",
        "/data/Test2/1.png",
        "/data/val/n01440764/left/1.png",
        "/scratch/train_job/eval/1.bin",
    ] {
        assert!(is_of_evaluation(path.as_bytes()), "{path}");
    }
    for path in [
        "/home/test/data/1.bin",
        "/dev/shm/data/1.bin",
        "/data/test-cluster/imagenet/train/1.jpg",
        "/data/train_test_split/1.bin",
        "/data/latest/contest/1.bin",
        "/home/test",
        "/srv/dev/project/data/2024/1.bin",
    ] {
        assert!(!is_of_evaluation(path.as_bytes()), "{path}");
    }
}

#[test]
fn a_part_that_is_read_again_and_again_is_no_pass_over_the_file() {
    let found = |part: u64, times: u64| {
        let mut job = Job::new(60_000);
        job.file("/data/train.bin", 8 * MIB);
        job.program(1, 0);
        // All of it in one interval.
        for time in 0..times {
            let used = used(1, "/data/train.bin", time * 100, time * 100 + 50);
            job.read(used, part * MIB);
        }
        let found = job.analysis().epochs;
        (found.epochs.len(), found.untold.is_some())
    };
    assert_eq!(found(4, 2), (0, true));
    assert_eq!(found(4, 3), (0, true));
    assert_eq!(found(4, 1), (1, false));
    assert_eq!(found(8, 2), (2, false));
    // A footer is not read.
    assert_eq!(found(7, 2), (2, false));
}

/// Three epochs over 20 files of 4 MiB, one file every 100 ms, and each for so many milliseconds: opens, and MiB of all of them.
/// The number of epochs; `None` where they are not told.
fn read_at_once(opens: u64, mib: u64, length: u64) -> Option<usize> {
    use iotrace_model::counters::*;
    let mut job = Job::new(60_000);
    known(&mut job, 20);
    job.program(1, 0);
    for epoch in 0..3 {
        for (turn, shard) in (0..).zip(shuffled(20, epoch + 3)) {
            let from = epoch * 5_000 + turn * 100;
            let path = format!("/data/shard-{shard:03}.tar");
            let counted = [
                (OPENS, opens),
                (CLOSES, opens),
                (READS, mib),
                (BYTES_READ, mib * MIB),
            ];
            job.count(used(1, &path, from, from + length), &counted);
        }
        job.flush(epoch * 5_000 + 4_000);
    }
    let found = job.analysis().epochs;
    found.untold.is_none().then_some(found.epochs.len())
}

#[test]
fn what_is_read_several_times_before_another_file_is_one_pass() {
    assert_eq!(read_at_once(1, 4, 90), Some(3));
    // A decoder that opens each file twice; headers that are read again.
    for (opens, mib) in [(2, 8), (1, 9), (1, 8)] {
        assert_eq!(read_at_once(opens, mib, 90), Some(3), "{opens} {mib}");
        // Other files are read meanwhile: what is of one use is not known.
        assert_eq!(read_at_once(opens, mib, 150), None, "{opens} {mib}");
    }
    assert_eq!(read_at_once(1, 4, 150), Some(3));
}

#[test]
fn files_without_a_size_have_no_known_epochs() {
    use iotrace_model::counters::*;
    // At detail basic the size of a file that the run makes is not measured.
    let found = |size: u64| {
        let mut job = Job::new(20_000);
        job.program(1, 0);
        for shard in 0..8 {
            job.file(&format!("/data/shard-{shard:03}.tar"), size);
        }
        for epoch in 0..2 {
            for shard in 0..8 {
                let path = format!("/data/shard-{shard:03}.tar");
                let from = epoch * 5_000 + shard * 100;
                let read = [(OPENS, 1), (READS, 4), (BYTES_READ, 4 * MIB), (CLOSES, 1)];
                job.count(used(1, &path, from, from + 90), &read);
            }
            job.flush(epoch * 5_000 + 4_000);
        }
        let found = job.analysis().epochs;
        (found.epochs.len(), found.untold.is_some())
    };
    assert_eq!((found(4 * MIB), found(0)), ((2, false), (0, true)));
}

/// Three epochs over 20 files, two seconds after other uses of a file: starts of epochs in ms, and files.
fn with_small_file(path: &str, size: u64, uses: &[(u64, bool)]) -> (Vec<i64>, u64) {
    let mut job = Job::new(60_000);
    known(&mut job, 20);
    job.file(path, size);
    job.program(1, 0);
    for second in 0..16 {
        for (at, is_write) in uses.iter().filter(|(at, _)| at / 1_000 == second) {
            match is_write {
                true => job.write(used(1, path, *at, at + 2), size, 0),
                false => job.read(used(1, path, *at, at + 2), size),
            }
        }
        if [2, 6, 10].contains(&second) {
            pass(&mut job, &[1], &shuffled(20, second), second * 1_000 + 10);
        }
        job.flush((second + 1) * 1_000);
    }
    let found = job.analysis().epochs;
    let starts = found.epochs.iter().map(|epoch| ms(epoch.start));
    (starts.collect(), found.files)
}

#[test]
fn small_files_of_another_kind_that_are_read_before_begin_no_epoch() {
    let epochs = vec![2_010, 6_010, 10_010];
    // A list of labels that is read at the start; one that is read with each epoch is part of the data.
    let found = with_small_file("/data/train.csv", 800, &[(0, false)]);
    assert_eq!(found, (epochs.clone(), 20));
    let each = [(2_001, false), (6_001, false), (10_001, false)];
    let found = with_small_file("/data/train.csv", 800, &each);
    assert_eq!(found, (vec![2_001, 6_001, 10_001], 21));
    // What may be a sample, and what is no small part of the data.
    let found = with_small_file("/data/first.tar", 800, &[(0, false)]);
    assert_eq!(found.1, 21);
    let found = with_small_file("/data/train.csv", 10 * MIB, &[(0, false)]);
    assert_ne!(found, (epochs, 20));
}

#[test]
fn small_files_that_the_run_writes_after_it_read_them_are_of_no_epoch() {
    let uses = [(4_000, false), (4_100, true), (8_000, false), (8_100, true)];
    let found = with_small_file("/data/history.csv", 800, &uses);
    assert_eq!(found, (vec![2_010, 6_010, 10_010], 20));
}

#[test]
fn tables_that_are_kept_open_may_be_read_for_some_columns() {
    use iotrace_model::counters::*;
    let found = |path: &str, opens_each: u64, sequential: u64| {
        let mut job = Job::new(60_000);
        job.file(path, 100 * MIB);
        job.program(1, 0);
        // As many bytes as two passes have.
        for interval in 0..4 {
            let from = interval * 5_000;
            let counted = [
                (OPENS, if interval == 0 { 1 } else { opens_each }),
                (CLOSES, opens_each),
                (READS, 50),
                (SEQUENTIAL_READS, sequential),
                (CONSECUTIVE_READS, sequential / 2),
                (BYTES_READ, 50 * MIB),
            ];
            job.count(used(1, path, from, from + 4_900), &counted);
            job.flush(from + 5_000);
        }
        let found = job.analysis().epochs;
        (found.epochs.len(), found.untold.is_some())
    };
    // Row groups in random order, and columns that are left out.
    assert_eq!(found("/data/day.parquet", 0, 25), (0, true));
    assert_eq!(found("/data/day.parquet", 0, 46), (0, true));
    // Samples in random order, and tables without jumps.
    assert_eq!(found("/data/day.h5", 0, 25), (2, false));
}
