//! Which threads are loaders: waits of a main thread for another one, which computes.

use iotrace_common::{
    key::FileId,
    waits::{NO_CALL, Wait, flag},
};
use iotrace_model::{
    timeline::{Cause, Segment},
    waits::Leaf,
};

use super::resolve::Resolver;

const MAIN_TID: u32 = 1;
const OTHER_TID: u32 = 2;
const READER_TID: u32 = 3;
const WORKER_TID: u32 = 9;

/// A thread by its own id and its process's.
type Id = (u32, u32);

fn born(thread: Id, at: u64) -> Wait {
    Wait {
        off: at,
        woken: at,
        on: at,
        nr: NO_CALL,
        by_nr: NO_CALL,
        flags: flag::BORN,
        ..of(thread)
    }
}

fn of((tid, tgid): Id) -> Wait {
    Wait {
        tid,
        tgid,
        start: tgid,
        ..Wait::default()
    }
}

/// A thread waits on a futex from `off` until the other one wakes it.
fn waits(thread: Id, off: u64, on: u64, (by_tid, by_tgid): Id, flags: u32) -> Wait {
    let futex = libc::SYS_futex as i32;
    Wait {
        off,
        woken: on,
        on,
        state: 1,
        nr: futex,
        by_nr: futex,
        by_tid,
        by_tgid,
        flags,
        ..of(thread)
    }
}

/// Nanoseconds that the main thread of process 1 waited for computing: of its loader, and of its compute threads.
fn computing(records: &[Wait]) -> (u64, u64) {
    let mut resolver = Resolver::default();
    records.iter().for_each(|wait| resolver.add(wait));
    let sums = resolver.take();
    let of = |leaf| {
        let of_main = sums.iter().filter(|sum| sum.process.pid == MAIN_TID);
        of_main
            .filter(|sum| sum.leaf == leaf)
            .map(|sum| sum.ns)
            .sum()
    };
    (of(Leaf::Computing), of(Leaf::ComputeThreads))
}

/// The main thread and another of its process in turn: the other one waits for 10 ns, and works for 90. Its waits end by `waker`
/// with `flags`, its own records have `own`.
fn turns(count: u64, own: u32, waker: impl Fn(u64) -> (Id, u32)) -> Vec<Wait> {
    let (main, other) = ((MAIN_TID, MAIN_TID), (OTHER_TID, MAIN_TID));
    let mut records = vec![
        born(main, 0),
        born(other, 0),
        born((READER_TID, MAIN_TID), 0),
        born((WORKER_TID, WORKER_TID), 0),
    ];
    for turn in 0..count {
        let at = 100 * turn;
        let (by, flags) = waker(turn);
        records.push(waits(other, at, at + 10, by, own | flags));
        records.push(waits(main, at + 10, at + 100, other, 0));
    }
    records
}

/// The waker is a loader.
const BY_LOADER_FLAG: u32 = flag::WAKER_READS_DATA;

#[test]
fn a_thread_that_reads_nothing_computes_for_the_main_thread() {
    let by_main = turns(20, 0, |_| ((MAIN_TID, MAIN_TID), 0));
    assert_eq!(computing(&by_main), (0, 1_800));
    // A main thread that reads the data by itself hands it no data.
    let by_reading_main = turns(20, 0, |_| ((MAIN_TID, MAIN_TID), BY_LOADER_FLAG));
    assert_eq!(computing(&by_reading_main), (0, 1_800));
}

#[test]
fn a_thread_that_reads_data_is_a_loader() {
    let reads = turns(20, flag::READS_DATA, |_| ((MAIN_TID, MAIN_TID), 0));
    assert_eq!(computing(&reads), (1_800, 0));
}

#[test]
fn a_thread_that_works_on_what_loaders_read_is_a_loader() {
    for loader in [(READER_TID, MAIN_TID), (WORKER_TID, WORKER_TID)] {
        let decodes = turns(20, 0, |_| (loader, BY_LOADER_FLAG));
        assert_eq!(computing(&decodes), (1_800, 0), "{loader:?}");
        // Now and then it waits for the main thread, which takes too long.
        let is_held_up = turns(20, 0, |turn| match turn % 8 {
            0 => (loader, BY_LOADER_FLAG),
            _ => ((MAIN_TID, MAIN_TID), 0),
        });
        assert_eq!(computing(&is_held_up).1, 0, "{loader:?}");
        // A lock that loaders take, too, makes no loader.
        let meets = turns(100, 0, |turn| match turn % 20 {
            19 => (loader, BY_LOADER_FLAG),
            _ => ((MAIN_TID, MAIN_TID), 0),
        });
        assert_eq!(computing(&meets).0, 0, "{loader:?}");
    }
    // What reads no data passes none on.
    let others = turns(20, 0, |_| ((READER_TID, MAIN_TID), 0));
    assert_eq!(computing(&others), (0, 1_800));
}

#[test]
fn files_that_nobody_waits_for_any_more_are_forgotten() {
    const FILES: u64 = 200_000;
    let (main, reader) = ((MAIN_TID, MAIN_TID), (WORKER_TID, WORKER_TID));
    let mut resolver = Resolver::default();
    [born(main, 0), born(reader, 0)]
        .iter()
        .for_each(|wait| resolver.add(wait));
    let file = |inode| FileId {
        device: 1,
        generation: 0,
        inode,
    };
    for inode in 0..FILES {
        // The worker reads for 5 ns, and the main thread waits for it.
        let at = 10 * inode;
        resolver.add(&Wait {
            off: at,
            woken: at + 5,
            on: at + 5,
            state: 2,
            file: file(inode),
            flags: flag::IN_OPERATION,
            ..of(reader)
        });
        resolver.add(&waits(main, at, at + 6, reader, 0));
        if inode % 1000 == 999 {
            let sums = resolver.take();
            let of_storage = sums.iter().filter(|sum| sum.leaf == Leaf::Storage);
            let of_main = of_storage.filter(|sum| sum.process.pid == MAIN_TID);
            let mut of_files: Vec<_> = of_main.map(|sum| (sum.file, sum.ns)).collect();
            of_files.sort();
            let told = (inode - 999..=inode).map(|inode| (Some(file(inode)), 5));
            assert_eq!(of_files, told.collect::<Vec<_>>());
        }
    }
    // Those that are left are of pieces that are kept of the worker.
    assert!(
        resolver.source_count() < FILES as usize,
        "{}",
        resolver.source_count()
    );
}

/// Nanoseconds that the main thread of process 1 waited, by leaf.
fn leaves(resolver: &mut Resolver) -> Vec<(Leaf, u64)> {
    let mut by_leaf = std::collections::BTreeMap::<Leaf, u64>::new();
    for sum in resolver.take() {
        if sum.process.pid == MAIN_TID && sum.leaf != Leaf::Running {
            *by_leaf.entry(sum.leaf).or_default() += sum.ns;
        }
    }
    by_leaf.into_iter().collect()
}

const MAIN_ID: Id = (MAIN_TID, MAIN_TID);
const WORKER_ID: Id = (WORKER_TID, WORKER_TID);

/// What the main thread waited for in this wait of 1,000 ns, in which the worker read for 900 ns.
fn waited_for(wait: &Wait) -> Vec<(Leaf, u64)> {
    let mut resolver = Resolver::default();
    let reads = reads(WORKER_ID, 0, 900);
    let records = [&born(MAIN_ID, 0), &born(WORKER_ID, 0), &reads, wait];
    records.into_iter().for_each(|wait| resolver.add(wait));
    leaves(&mut resolver)
}

/// What [`waited_for`] finds where the main thread waited for the worker.
const OF_WORKER: [(Leaf, u64); 2] = [(Leaf::Storage, 900), (Leaf::Computing, 100)];

#[test]
fn who_opens_a_fifo_waits_for_the_other_end() {
    let opens = |state, by_nr, flags| Wait {
        state,
        nr: libc::SYS_openat as i32,
        by_nr,
        ..waits(MAIN_ID, 0, 1_000, WORKER_ID, flag::IN_OPERATION | flags)
    };
    assert_eq!(waited_for(&opens(1, NO_CALL, 0)), OF_WORKER);
    // By a process that is not recorded.
    let unknown = (WORKER_ID.0 + 1_000, WORKER_ID.1 + 1_000);
    let by_other = Wait {
        by_tid: unknown.0,
        by_tgid: unknown.1,
        ..opens(1, libc::SYS_openat as i32, 0)
    };
    assert_eq!(waited_for(&by_other), [(Leaf::Other, 1_000)]);
    // The lock of a directory, a filesystem in user space, one in the kernel.
    let storage = [(Leaf::Storage, 1_000)];
    for wait in [
        opens(2, NO_CALL, 0),
        opens(1, libc::SYS_writev as i32, 0),
        opens(1, NO_CALL, flag::BY_KERNEL),
    ] {
        assert_eq!(waited_for(&wait), storage, "{wait:?}");
    }
}

#[test]
fn a_worker_may_wake_by_locks_queues_and_signals() {
    for (nr, by_nr) in [
        (libc::SYS_flock, libc::SYS_flock),
        (libc::SYS_fcntl, libc::SYS_fcntl),
        (libc::SYS_semtimedop, libc::SYS_semop),
        (libc::SYS_msgrcv, libc::SYS_msgsnd),
        (libc::SYS_mq_timedreceive, libc::SYS_mq_timedsend),
        (libc::SYS_rt_sigtimedwait, libc::SYS_rt_sigqueueinfo),
        (libc::SYS_read, libc::SYS_tee),
    ] {
        let wait = Wait {
            nr: nr as i32,
            by_nr: by_nr as i32,
            ..waits(MAIN_ID, 0, 1_000, WORKER_ID, 0)
        };
        assert_eq!(waited_for(&wait), OF_WORKER, "{nr} {by_nr}");
    }
    // It was interrupted in a call that wakes nobody.
    let interrupted = Wait {
        by_nr: libc::SYS_getpid as i32,
        ..waits(MAIN_ID, 0, 1_000, WORKER_ID, 0)
    };
    assert_eq!(waited_for(&interrupted), [(Leaf::Other, 1_000)]);
}

/// A thread waits for a descriptor from `off` until its timeout.
fn times_out(thread: Id, off: u64, on: u64) -> Wait {
    let poll = libc::SYS_ppoll as i32;
    Wait {
        nr: poll,
        flags: flag::BY_TIMER,
        ..waits(thread, off, on, (0, 0), 0)
    }
}

/// The same, until another thread writes to it.
fn is_sent_to(thread: Id, off: u64, on: u64, by: Id) -> Wait {
    Wait {
        nr: libc::SYS_ppoll as i32,
        by_nr: libc::SYS_write as i32,
        ..waits(thread, off, on, by, 0)
    }
}

fn reads(thread: Id, off: u64, on: u64) -> Wait {
    Wait {
        off,
        woken: on,
        on,
        state: 2,
        flags: flag::IN_OPERATION | flag::READS_DATA,
        ..of(thread)
    }
}

#[test]
fn a_wait_that_is_repeated_after_its_timeout_is_one_wait() {
    const MS: u64 = 1_000_000;
    let (main, worker) = ((MAIN_TID, MAIN_TID), (WORKER_TID, WORKER_TID));
    let start = [born(main, 0), born(worker, 0)];
    // The worker reads for 12 s. The main thread looks every 5 s whether it lives, and loses its CPU once.
    let read = reads(worker, 0, 12_000 * MS);
    let looks = [
        times_out(main, 0, 5_000 * MS),
        times_out(main, 5_502 * MS, 10_000 * MS),
    ];
    let preempted = Wait {
        state: 0,
        woken: 5_001 * MS,
        ..times_out(main, 5_001 * MS, 5_501 * MS)
    };
    let sent = is_sent_to(main, 10_001 * MS, 12_001 * MS, worker);
    let resolve = |records: &[&Wait]| {
        let mut resolver = Resolver::default();
        resolver.keep_timeline();
        start.iter().for_each(|wait| resolver.add(wait));
        records.iter().for_each(|wait| resolver.add(wait));
        resolver
    };
    let mut resolver = resolve(&[&looks[0], &preempted, &looks[1]]);
    // Nothing is known yet of the wait, but of the run queue.
    assert_eq!(leaves(&mut resolver), [(Leaf::RunQueue, 500 * MS)]);
    resolver.add(&read);
    resolver.add(&sent);
    assert_eq!(
        leaves(&mut resolver),
        [(Leaf::Storage, 11_497 * MS), (Leaf::Computing, MS)]
    );
    let of_main = |segment: &Segment| segment.tid == MAIN_TID && segment.cause != Cause::Born;
    let segments: Vec<_> = resolver
        .take_segments()
        .into_iter()
        .filter(of_main)
        .collect();
    let [whole] = segments[..] else {
        panic!("{segments:#?}");
    };
    assert_eq!((whole.off, whole.on), (0, 12_001 * MS));
    assert_eq!((whole.cause, whole.by), (Cause::Thread, Some(WORKER_TID)));

    // What it does else after a timeout shows that it slept: it computes, waits for something else by time, or ends.
    let computes = is_sent_to(main, 10_200 * MS, 12_001 * MS, worker);
    let sleeps = Wait {
        nr: libc::SYS_futex as i32,
        ..times_out(main, 10_000 * MS + 10, 12_001 * MS)
    };
    let ends = Wait {
        off: 10_000 * MS + 10,
        woken: 10_000 * MS + 10,
        on: 10_000 * MS + 10,
        ..of(main)
    };
    for other in [&computes, &sleeps, &ends] {
        let mut resolver = resolve(&[&looks[0], &preempted, &looks[1], &read, other]);
        let found = leaves(&mut resolver);
        let slept = (Leaf::Sleep, 9_498 * MS);
        assert!(found.contains(&slept), "{other:?}: {found:?}");
    }
    let mut resolver = resolve(&[&looks[0], &preempted, &looks[1]]);
    assert_eq!(leaves(&mut resolver), [(Leaf::RunQueue, 500 * MS)]);
    resolver.end();
    assert_eq!(leaves(&mut resolver), [(Leaf::Sleep, 9_498 * MS)]);
    assert_eq!(
        resolver
            .take_segments()
            .iter()
            .filter(|one| of_main(one))
            .count(),
        3
    );
}

#[test]
fn a_loop_without_end_is_sleep() {
    const TIMES: u64 = 10_000;
    let main = (MAIN_TID, MAIN_TID);
    let mut resolver = Resolver::default();
    resolver.keep_timeline();
    resolver.add(&born(main, 0));
    for time in 0..TIMES {
        resolver.add(&times_out(main, 100 * time, 100 * time + 90));
    }
    // What is held back is bounded.
    let slept = leaves(&mut resolver);
    assert!(slept[0].1 > 90 * TIMES / 2, "{slept:?}");
    let told = resolver.take_segments().len() as u64;
    assert_eq!(told - 1, slept[0].1 / 90);
    resolver.end();
    let rest = leaves(&mut resolver);
    assert_eq!(slept[0].1 + rest[0].1, 90 * TIMES);
    assert_eq!(told + resolver.take_segments().len() as u64, TIMES + 1);
}
