//! Whether saves survive a power cut, for each order of writes, syncs and renames.

use std::collections::BTreeSet;

use super::job::{Job, START_NS, id, used};
use crate::{
    durable::{Durability, Missing},
    findings::Severity,
};
use iotrace_common::key::FileId;
use iotrace_model::{
    counters::*,
    input::{Event, FileName, Place},
};

const MIB: u64 = 1 << 20;
const TEMPORARY: &str = "/out/model.pt.tmp";
const NAME: &str = "/out/model.pt";

/// What a program does, and when, milliseconds.
#[derive(Clone, Copy, Debug)]
enum Step {
    Write(u64),
    /// fsync of the file.
    Sync(u64),
    /// sync_file_range.
    Range(u64),
    Rename(u64),
    /// Another process renames the file.
    RenameByAnother(u64),
    /// fsync of the directory.
    Directory(u64),
    /// sync.
    All(u64),
    /// syncfs on the directory.
    Filesystem(u64),
    /// fsync of the file by another process.
    ByAnother(u64),
    /// msync.
    Memory(u64),
    /// A new use of the file.
    Reopen,
}
use Step::*;

/// A job of one process that saves by these steps.
fn job(path: &str, steps: &[Step]) -> Job {
    let mut job = Job::with_spans(60_000);
    job.program(1, 0);
    let file = job.file(path, 0);
    save(job, file, path, steps)
}

/// The same, of a file that is known.
fn save(mut job: Job, file: FileId, path: &str, steps: &[Step]) -> Job {
    let directory = directory(&mut job);
    let (mut span, mut is_opened) = (1, false);
    for (index, step) in steps.iter().enumerate() {
        let mut counters = Counters::ZERO;
        let mut set = |at: u64, values: &[(usize, u64)]| {
            let at = START_NS + at * 1_000_000;
            (counters.v[FIRST_OPERATION], counters.v[LAST_OPERATION]) = (at, at + 100);
            values.iter().for_each(|(index, value)| {
                counters.v[*index] = match *index {
                    LAST_WRITE => at + 50,
                    LAST_SYNC => at,
                    _ => *value,
                };
            });
        };
        let mut on = file;
        match *step {
            Write(at) => {
                is_opened = false;
                set(
                    at,
                    &[
                        (OPENS, 1),
                        (WRITES, 1),
                        (BYTES_WRITTEN, MIB),
                        (MAX_BYTE_WRITTEN, MIB - 1),
                        (LAST_WRITE, 1),
                    ],
                );
            }
            Sync(at) => {
                let opens = u64::from(std::mem::take(&mut is_opened));
                set(at, &[(OPENS, opens), (FSYNCS, 1), (LAST_SYNC, 1)]);
            }
            ByAnother(at) => {
                set(at, &[(OPENS, 1), (FSYNCS, 1), (LAST_SYNC, 1)]);
                job.program(2, 1);
                job.model.add(id(2), Place::File(file), &counters);
                job.model.add_span(id(2), file, 200, &counters);
                continue;
            }
            Memory(at) => set(at, &[(MSYNCS, 1)]),
            Range(at) => set(at, &[(SYNC_FILE_RANGES, 1)]),
            Directory(at) => {
                on = directory;
                set(at, &[(OPENS, 1), (FSYNCS, 1), (LAST_SYNC, 1)]);
            }
            Filesystem(at) => {
                on = directory;
                set(at, &[(OPENS, 1), (SYNCFS, 1), (LAST_SYNC, 1)]);
            }
            All(at) => {
                set(at, &[(SYNCS, 1), (LAST_SYNC, 1)]);
                job.model.add(id(1), Place::PathOnly, &counters);
                continue;
            }
            Reopen => {
                (span, is_opened) = (span + 1, true);
                continue;
            }
            Rename(at) | RenameByAnother(at) => {
                let by = match *step {
                    RenameByAnother(_) => 2,
                    _ => 1,
                };
                job.model.event(Event::Rename {
                    process: id(by),
                    time: START_NS + at * 1_000_000,
                    from: path.as_bytes().to_vec(),
                    to: NAME.as_bytes().to_vec(),
                    exchange: false,
                });
                set(at, &[(RENAMES, 1)]);
                job.model.add(id(by), Place::PathOnly, &counters);
                continue;
            }
        }
        let span = if on == file { span } else { 100 + index as u32 };
        job.model.add(id(1), Place::File(on), &counters);
        job.model.add_span(id(1), on, span, &counters);
    }
    job
}

/// Makes the directory `/out` known.
pub fn directory(job: &mut Job) -> FileId {
    let file = FileId {
        device: 8 << 20 | 1,
        generation: 1,
        inode: 1_000,
    };
    job.model.event(Event::File(FileName {
        file,
        path: b"/out".to_vec(),
        size: 4096,
        mode: 0o040_755,
        magic: 0xef53,
        block_size: 4096,
        truncated: false,
        deleted: false,
        existed: false,
    }));
    file
}

#[track_caller]
fn durability(job: &Job) -> Durability {
    let saves = job.analysis().checkpoints;
    assert_eq!(saves.len(), 1, "{saves:#?}");
    saves[0].durability.clone()
}

#[track_caller]
fn lacks(steps: &[Step], missing: &[Missing]) {
    let job = job(TEMPORARY, steps);
    let durability = durability(&job);
    assert_eq!(
        durability.missing,
        missing.iter().copied().collect::<BTreeSet<_>>(),
        "{steps:?}"
    );
    assert_eq!(durability.is_durable, Some(missing.is_empty()), "{steps:?}");
    let is_unsynced = missing.contains(&Missing::FileSync);
    assert_eq!(durability.unsynced_bytes > 0, is_unsynced);
    match missing {
        [] => job.finds_no("checkpoint-not-durable"),
        _ => drop(job.finds("checkpoint-not-durable")),
    }
}

#[test]
fn a_rename_counts_whoever_makes_it() {
    let synced = [Write(1_000), Sync(1_010), RenameByAnother(1_020)];
    lacks(&synced, &[Missing::DirectorySync]);
    let too_late = [Write(1_000), RenameByAnother(1_010), Sync(1_020)];
    lacks(&too_late, &[Missing::SyncBeforeRename]);
    let whole = [&synced[..], &[Directory(1_030)]].concat();
    lacks(&whole, &[]);
}

#[test]
fn who_renames_a_file_of_unknown_size_has_not_written_it_again() {
    let mut job = Job::with_spans(60_000);
    let file = job.file(TEMPORARY, 0);
    let at = |ms: u64| START_NS + ms * 1_000_000;
    let counters = |ms: u64, values: &[(usize, u64)]| {
        let mut counters = Counters::ZERO;
        (counters.v[FIRST_OPERATION], counters.v[LAST_OPERATION]) = (at(ms), at(ms) + 100);
        values
            .iter()
            .for_each(|(index, value)| counters.v[*index] = *value);
        counters
    };
    let values = [(OPENS, 1), (CLOSES, 1), (WRITES, 1), (BYTES_WRITTEN, 7_000)];
    let written = counters(1_000, &values);
    job.program(1, 0);
    job.model.add(id(1), Place::File(file), &written);
    job.model.add_span(id(1), file, 1, &written);
    job.program(2, 0);
    job.model.event(Event::Rename {
        process: id(2),
        time: at(4_000) + 100,
        from: TEMPORARY.into(),
        to: NAME.into(),
        exchange: false,
    });
    let renamed = counters(4_000, &[(RENAMES, 1)]);
    job.model.add(id(2), Place::PathOnly, &renamed);
    let saves = job.analysis().checkpoints;
    assert_eq!(
        saves.iter().map(|save| save.bytes).collect::<Vec<_>>(),
        [7_000]
    );
}

#[test]
fn nothing_is_known_of_what_may_have_another_name() {
    let steps = [Write(1_000), Sync(1_010)];
    assert_eq!(durability(&job(TEMPORARY, &steps)).is_durable, Some(true));
    // A rename below a symbolic link, by names that no file has.
    let mut job = job(TEMPORARY, &steps);
    let mut counters = Counters::ZERO;
    counters.v[RENAMES] = 1;
    job.model.add(id(1), Place::PathOnly, &counters);
    assert_eq!(durability(&job).is_durable, None);
}

#[test]
fn a_failed_attempt_is_no_save_and_the_next_one_is_whole() {
    let tries = [
        Write(1_000),
        Reopen,
        Write(2_000),
        Sync(2_010),
        Rename(2_020),
        Directory(2_030),
    ];
    lacks(&tries, &[]);
    // Under its final name the first attempt is a save, and the second one overwrites it.
    let in_place = [Write(1_000), Reopen, Write(2_000), Sync(2_010)];
    let saves = job(NAME, &in_place).analysis().checkpoints;
    assert_eq!(saves.len(), 2);
    assert!(saves[1].durability.missing.contains(&Missing::NewFile));
}

#[test]
fn a_save_with_a_pause_is_not_exact_if_data_were_read_in_it() {
    for (from, is_exact) in [(100, true), (1_100, false)] {
        let mut job = Job::with_spans(60_000);
        job.program(1, 0);
        let file = job.file(NAME, 2 * MIB);
        job = save(job, file, NAME, &[Write(1_000)]);
        let at = START_NS + 1_400 * 1_000_000;
        let mut counters = Counters::ZERO;
        for (index, value) in [
            (WRITES, 1),
            (BYTES_WRITTEN, MIB),
            (MAX_BYTE_WRITTEN, 2 * MIB - 1),
            (LAST_WRITE, at),
            (FIRST_OPERATION, at),
            (LAST_OPERATION, at),
        ] {
            counters.v[index] = value;
        }
        job.model.add(id(1), Place::File(file), &counters);
        job.model.add_span(id(1), file, 2, &counters);
        job.file("/data/train-000.tar", MIB);
        job.read(used(1, "/data/train-000.tar", from, from + 200), MIB);
        let saves = job.analysis().checkpoints;
        assert_eq!(saves.len(), 1);
        assert_eq!(saves[0].is_exact, is_exact);
    }
}

#[test]
fn each_order_of_a_save() {
    use Missing::*;
    lacks(
        &[Write(1_000), Sync(1_010), Rename(1_020), Directory(1_030)],
        &[],
    );
    lacks(
        &[Write(1_000), Sync(1_010), Rename(1_020)],
        &[DirectorySync],
    );
    lacks(
        &[Write(1_000), Sync(1_010), Directory(1_015), Rename(1_020)],
        &[DirectorySync],
    );
    lacks(
        &[Write(1_000), Rename(1_020), Directory(1_030)],
        &[FileSync],
    );
    lacks(&[Write(1_000), Rename(1_020)], &[FileSync, DirectorySync]);
    lacks(
        &[Write(1_000), Rename(1_020), Sync(1_030), Directory(1_040)],
        &[SyncBeforeRename],
    );
    lacks(
        &[Sync(990), Write(1_000), Rename(1_020), Directory(1_030)],
        &[FileSync],
    );
    lacks(
        &[Write(1_000), Range(1_010), Rename(1_020), Directory(1_030)],
        &[FileSync],
    );
    lacks(
        &[
            Write(1_000),
            Filesystem(1_010),
            Rename(1_020),
            Directory(1_030),
        ],
        &[],
    );
    lacks(&[Write(1_000), Sync(1_010), Rename(1_020), All(1_030)], &[]);
    // Synced again when it has its name: the first sync is known by its own use.
    let again = [
        Write(1_000),
        Sync(1_010),
        Rename(1_020),
        Reopen,
        Sync(1_030),
        Directory(1_040),
    ];
    lacks(&again, &[]);
    // Without a rename nothing more is needed.
    lacks(&[Write(1_000), Sync(1_010)], &[]);
    lacks(&[Write(1_000)], &[FileSync]);
    lacks(&[Write(1_000), All(1_010)], &[]);
    // Whoever syncs it, and whenever.
    lacks(&[Write(1_000), ByAnother(1_010)], &[]);
    lacks(&[Write(1_000), ByAnother(50_000)], &[]);
    lacks(&[ByAnother(990), Write(1_000)], &[FileSync]);
    // A sync of the file writes its new name, too.
    lacks(
        &[
            Write(1_000),
            Sync(1_010),
            Rename(1_020),
            Reopen,
            Sync(1_030),
        ],
        &[],
    );
}

#[test]
fn a_first_save_over_a_file_from_before() {
    let in_place = [Write(1_000), Sync(1_010)];
    let of = |path: &str, size: u64, steps: &[Step]| {
        let mut job = Job::with_spans(60_000);
        job.program(1, 0);
        let file = job.existing_file(path, size);
        durability(&save(job, file, path, steps)).missing
    };
    // Truncated by its open, and not.
    assert_eq!(of(NAME, 0, &in_place), [Missing::NewFile].into());
    assert_eq!(of(NAME, MIB, &in_place), [Missing::NewFile].into());
    // Continued, and not replaced.
    assert_eq!(of(NAME, 100 * MIB, &in_place), [].into());
    // A temporary file that another run left.
    let renamed = [Write(1_000), Sync(1_010), Rename(1_020), Directory(1_030)];
    assert_eq!(of(TEMPORARY, MIB, &renamed), [].into());
}

#[test]
fn severity_says_whether_the_save_before_is_in_danger() {
    let found = job(TEMPORARY, &[Write(1_000), Sync(1_010), Rename(1_020)]);
    let found = found.finds("checkpoint-not-durable");
    assert_eq!(
        (found.saving.severity, found.saving.at_most_ns),
        (Severity::Low, 0)
    );
    let found = job(
        TEMPORARY,
        &[Write(1_000), Rename(1_020), Sync(1_030), Directory(1_040)],
    );
    let found = found.finds("checkpoint-not-durable");
    assert_eq!(found.saving.severity, Severity::Medium);
}

#[test]
fn what_cannot_be_known_is_not_judged() {
    // A server has a cache of its own.
    let shared = durability(&job("/lustre/out/model.pt", &[Write(1_000)]));
    assert_eq!((shared.is_durable, shared.unsynced_bytes), (None, 0));
    // Several syncs in one use, of which only the last is known.
    let several = [
        Write(1_000),
        Sync(1_010),
        Rename(1_020),
        Sync(1_030),
        Directory(1_040),
    ];
    assert_eq!(durability(&job(TEMPORARY, &several)).is_durable, None);
    // What msync of which part of the file wrote.
    let msynced = job(NAME, &[Write(1_000), Memory(1_010)]);
    assert_eq!(durability(&msynced).is_durable, None);
    // Recorded before the times of syncs were.
    let mut old = job(NAME, &[Write(1_000)]);
    old.model.lack_syncs();
    assert_eq!(durability(&old).is_durable, None);
    // Without types of the kernel O_DSYNC is not known.
    let mut untyped = job(TEMPORARY, &[Write(1_000)]);
    untyped.run.hook = iotrace_model::run::RAW.into();
    assert_eq!(durability(&untyped).is_durable, None);
    // Written through memory too.
    let mut mapped = job(NAME, &[Write(1_000), Sync(1_010)]);
    let file = mapped.model.file(0).id;
    let mut counters = Counters::ZERO;
    counters.v[MAPPED_BYTES_DIRTIED] = 4096;
    mapped.model.add(id(1), Place::File(file), &counters);
    assert_eq!(durability(&mapped).is_durable, None);
}

#[test]
fn a_save_in_memory_is_staged() {
    let job = job("/dev/shm/ckpt/model.pt", &[Write(1_000), Sync(1_010)]);
    let durability = durability(&job);
    assert_eq!(durability.is_durable, Some(false));
    assert_eq!(durability.missing, [Missing::Storage].into());
    job.finds_no("checkpoint-not-durable");
}

#[test]
fn a_file_that_is_written_over_is_no_whole_one_meanwhile() {
    let steps = [
        Write(1_000),
        Sync(1_010),
        Reopen,
        Write(31_000),
        Sync(31_010),
    ];
    let job = job("/out/model.pt", &steps);
    let saves = job.analysis().checkpoints;
    let missing: Vec<_> = saves
        .iter()
        .map(|save| save.durability.missing.clone())
        .collect();
    assert_eq!(missing, [[].into(), [Missing::NewFile].into()]);
}

#[test]
fn the_save_before_is_whole_where_two_files_are_written_in_turn() {
    let in_turn = |files: [usize; 3]| {
        let paths = ["/out/ckpt_0.pt", "/out/ckpt_1.pt"];
        let mut job = Job::with_spans(600_000);
        job.program(1, 0);
        let known = paths.map(|path| job.file(path, 0));
        for (from, file) in [(1_000, files[0]), (11_000, files[1]), (21_000, files[2])] {
            let steps = [Write(from), Sync(from + 10), Reopen];
            // The first use of a file has the first of these.
            let skipped = vec![Reopen; (from / 10_000) as usize];
            let steps = [skipped.as_slice(), &steps].concat();
            job = save(job, known[file], paths[file], &steps);
        }
        let saves = job.analysis().checkpoints;
        saves
            .into_iter()
            .map(|save| save.durability.missing)
            .collect::<Vec<_>>()
    };
    let in_place = || BTreeSet::from([Missing::NewFile]);
    assert_eq!(in_turn([0, 1, 0]), [[].into(), [].into(), [].into()]);
    assert_eq!(in_turn([0, 1, 1]), [[].into(), [].into(), in_place()]);
}

#[test]
fn a_save_that_was_cut_short_is_not_judged() {
    let killed = |at: u64, status: u32| {
        let mut job = job(NAME, &[Write(1_000)]);
        job.model.event(Event::Exit {
            process: id(1),
            time: START_NS + at * 1_000_000,
            status,
        });
        durability(&job).is_durable
    };
    // By SIGKILL soon after, and long after.
    assert_eq!(killed(3_000, 9), None);
    assert_eq!(killed(30_000, 9), Some(false));
    // At its own end.
    assert_eq!(killed(2_000, 0), Some(false));
    assert_eq!(killed(2_000, 1 << 8), Some(false));
    // The recording ended while it ran.
    let running = durability(&job(NAME, &[Write(59_000)]));
    assert_eq!((running.is_durable, running.unsynced_bytes), (None, 0));
}

#[test]
fn losses_may_hide_a_sync() {
    let lossy = |name: &str| {
        let mut job = job(NAME, &[Write(1_000)]);
        job.run.losses.insert(name.into(), 1);
        durability(&job).is_durable
    };
    assert_eq!(lossy("lost_operations"), None);
    assert_eq!(lossy("untraced_processes"), None);
    assert_eq!(lossy("aio_requests_unreported"), None);
    // These hide none.
    assert_eq!(lossy("skipped"), Some(false));
    assert_eq!(lossy("block_requests_lost"), Some(false));
    // Counted by process, of no file.
    let mut job = job(NAME, &[Write(1_000)]);
    let mut counters = Counters::ZERO;
    counters.v[FSYNCS] = 1;
    job.model.add(id(1), Place::Overflow, &counters);
    assert_eq!(durability(&job).is_durable, None);
}

#[test]
fn a_file_that_is_not_known_hides_no_other() {
    for files in [["/out/a.pt", "/out/b.pt"], ["/out/b.pt", "/out/a.pt"]] {
        let mut job = Job::with_spans(60_000);
        job.program(1, 0);
        for path in files {
            let file = job.file(path, 0);
            let mut counters = Counters::ZERO;
            (
                counters.v[OPENS],
                counters.v[WRITES],
                counters.v[BYTES_WRITTEN],
            ) = (1, 1, MIB);
            let at = START_NS + 1_000_000_000;
            counters.v[FIRST_OPERATION] = at;
            (counters.v[LAST_OPERATION], counters.v[LAST_WRITE]) = (at + 100, at + 50);
            // Of one of them it is not known what reached storage.
            counters.v[MAPPED_BYTES_DIRTIED] = if path.contains('a') { 4096 } else { 0 };
            job.model.add(id(1), Place::File(file), &counters);
            job.model.add_span(id(1), file, 1, &counters);
        }
        let saves = job.analysis().checkpoints;
        let found: Vec<_> = saves.iter().map(|save| &save.durability).collect();
        assert!(
            found
                .iter()
                .any(|durability| durability.is_durable == Some(false))
        );
        let unsynced: u64 = found
            .iter()
            .map(|durability| durability.unsynced_bytes)
            .sum();
        assert_eq!(unsynced, MIB);
    }
}

#[test]
fn a_file_that_was_set_aside_has_the_name_of_the_later_saves() {
    let mut job = Job::with_spans(60_000);
    job.program(1, 0);
    for start in [1_000, 2_000, 3_000] {
        if start > 1_000 {
            job.model.event(Event::Rename {
                process: id(1),
                time: START_NS + (start + 15) * 1_000_000,
                from: NAME.as_bytes().to_vec(),
                to: b"/out/prev.pt".to_vec(),
                exchange: false,
            });
            let mut counters = Counters::ZERO;
            counters.v[RENAMES] = 1;
            job.model.add(id(1), Place::PathOnly, &counters);
        }
        let file = job.file(TEMPORARY, 0);
        let steps = [Write(start), Sync(start + 10), Rename(start + 20)];
        job = save(job, file, TEMPORARY, &steps);
    }
    let saves = job.analysis().checkpoints;
    let names: Vec<_> = saves
        .iter()
        .map(|save| String::from_utf8_lossy(&save.name).into_owned())
        .collect();
    assert_eq!(names, [NAME; 3]);
}
