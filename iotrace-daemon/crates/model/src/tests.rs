//! The model as `drain` feeds it: any order of arrival, flushes in between, nothing lost.

use iotrace_common::key::FileId;

use super::*;
use counters::*;
use history::Bounds;
use input::{Event, FileName, Place};

const P: ProcessId = ProcessId { pid: 100, start: 5 };
const Q: ProcessId = ProcessId { pid: 101, start: 6 };

fn file(inode: u64) -> FileId {
    FileId {
        device: 8 << 20 | 1,
        generation: 3,
        inode,
    }
}

fn named(inode: u64, path: &str) -> Event {
    Event::File(FileName {
        file: file(inode),
        path: path.into(),
        size: 0,
        mode: 0o100_644,
        magic: 0xef53,
        block_size: 4096,
        truncated: false,
        deleted: false,
        existed: false,
    })
}

fn count(values: &[(usize, u64)]) -> Counters {
    let mut counters = Counters::ZERO;
    values
        .iter()
        .for_each(|(index, value)| counters.v[*index] = *value);
    counters
}

fn rename(process: ProcessId, from: &str, to: &str) -> Event {
    Event::Rename {
        process,
        time: 77,
        from: from.into(),
        to: to.into(),
        exchange: false,
    }
}

/// Operations and nanoseconds of each process: the sum over its files, its calls by path and its overflow. All sums
/// together are the model's totals.
fn sums(model: &Model) -> Vec<(ProcessId, u64, u64)> {
    let of_process = |(index, process): (usize, &Process)| {
        let rows = model.rows().iter();
        let rows = rows.filter(|row| row.process as usize == index);
        let cells = rows.map(|row| &row.cell);
        let mut sum = IoTotals::default();
        for cell in cells.chain([&process.path_only, &process.overflow]) {
            sum.add(&IoTotals::of(&cell.total()));
        }
        (process.id, sum)
    };
    let processes = model.processes().iter().enumerate();
    let sums: Vec<_> = processes.map(of_process).collect();
    let mut whole = IoTotals::default();
    sums.iter().for_each(|(_, sum)| whole.add(sum));
    assert_eq!(whole, model.io_totals());
    let shown = sums.iter().map(|(id, sum)| (*id, sum.operations, sum.ns));
    shown.collect()
}

fn row(model: &Model, process: ProcessId, inode: u64) -> Counters {
    let found = model.rows().iter().find(|row| {
        model.processes()[row.process as usize].id == process
            && model.file(row.file).id == file(inode)
    });
    found.map_or(Counters::ZERO, |row| row.cell.total())
}

#[test]
fn counters_may_come_before_names_and_processes() {
    let mut model = Model::default();
    model.add(
        P,
        Place::File(file(1)),
        &count(&[(READS, 2), (BYTES_READ, 10)]),
    );
    model.add(P, Place::Overflow, &count(&[(READS, 1)]));
    assert_eq!(model.undescribed().collect::<Vec<_>>(), [P]);
    model.event(named(1, "/a"));
    let comm = b"python3".to_vec();
    model.event(Event::Exec {
        process: P,
        start_boottime: 9,
        parent: 1,
        rights: iotrace_common::rights::Rights::of_user(0),
        comm,
        args: vec![],
    });
    assert_eq!(model.undescribed().count(), 0);
    model.describe_process(
        P,
        About {
            comm: b"other".to_vec(),
            ..About::default()
        },
    );
    assert_eq!(
        model.processes()[0].about.comm,
        b"python3",
        "what the kernel told is kept"
    );
    assert_eq!(model.file(0).path, b"/a");
    assert_eq!(
        model.io_totals(),
        IoTotals {
            operations: 3,
            bytes_read: 10,
            ..IoTotals::default()
        }
    );
    assert_eq!(sums(&model), [(P, 3, 0)]);
}

#[test]
fn a_process_that_was_there_is_described_once() {
    let mut model = Model::default();
    model.event(Event::Exit {
        process: P,
        time: 50,
        status: 9,
    });
    model.describe_process(
        P,
        About {
            comm: b"old".to_vec(),
            ..About::default()
        },
    );
    let about = &model.processes()[0].about;
    assert_eq!(
        (about.comm.as_slice(), about.end, about.exit_code()),
        (b"old".as_slice(), Some(50), Some(137))
    );
}

#[test]
fn a_rename_of_a_known_file_is_its_own() {
    let mut model = Model::default();
    model.event(named(1, "/ckpt.tmp"));
    model.add(P, Place::File(file(1)), &count(&[(WRITES, 4)]));
    model.event(rename(P, "/ckpt.tmp", "/ckpt")); // before its count
    assert_eq!(row(&model, P, 1).v[RENAMES], 0);
    model.add(P, Place::PathOnly, &count(&[(RENAMES, 2), (META_NS, 50)]));
    assert_eq!(row(&model, P, 1).v[RENAMES], 1);
    assert_eq!(row(&model, P, 1).v[LAST_OPERATION], 77);
    assert_eq!(model.processes()[0].path_only.total().v[RENAMES], 1);
    model.event(rename(P, "/ckpt", "/best")); // behind its count
    assert_eq!(row(&model, P, 1).v[RENAMES], 2);
    assert_eq!(model.processes()[0].path_only.total().v[RENAMES], 0);
    assert_eq!(model.file(0).opened_as, Some(b"/ckpt.tmp".as_slice()));
    assert_eq!(sums(&model), [(P, 6, 50)]);
}

#[test]
fn counts_are_moved_by_process_and_never_below_zero() {
    let mut model = Model::default();
    model.event(named(1, "/a"));
    model.event(Event::Unlink {
        process: P,
        time: 7,
        path: b"/a".to_vec(),
    });
    model.add(Q, Place::PathOnly, &count(&[(UNLINKS, 1)]));
    assert_eq!(
        model.processes()[1].path_only.total().v[UNLINKS],
        1,
        "another process's removal"
    );
    model.add(P, Place::PathOnly, &count(&[(UNLINKS, 1)]));
    assert_eq!(row(&model, P, 1).v[UNLINKS], 1);
    assert!(model.file(0).deleted);
    assert_eq!(sums(&model), [(P, 1, 0), (Q, 1, 0)]);
}

#[test]
fn a_flushed_count_stays_where_it_was_flushed() {
    let mut model = Model::default();
    model.event(named(1, "/a"));
    model.add(P, Place::PathOnly, &count(&[(UNLINKS, 1)]));
    model.settle(Bounds { start: 0, end: 1 });
    model.event(Event::Unlink {
        process: P,
        time: 7,
        path: b"/a".to_vec(),
    });
    assert_eq!(model.processes()[0].path_only.total().v[UNLINKS], 1);
    assert!(model.dirty_rows().next().is_none());
    assert_eq!(sums(&model), [(P, 1, 0)]);
}

#[test]
fn failures_are_kept_by_place() {
    let mut model = Model::default();
    model.add_failures(P, Place::PathOnly, 2, 2, 5, 500);
    model.settle(Bounds { start: 0, end: 1 });
    model.add_failures(P, Place::PathOnly, 2, 2, 1, 100);
    model.add_failures(P, Place::File(file(1)), 0, 5, 1, 10);
    let at = |place| {
        model
            .failures()
            .at(0, place)
            .map(|(key, count)| (key.errno, count.calls))
            .collect::<Vec<_>>()
    };
    assert_eq!(at(Place::PathOnly), [(2, 6)]);
    assert_eq!(at(Place::File(0)), [(5, 1)]);
    assert_eq!(at(Place::Overflow), []);
    assert_eq!(
        model
            .failures()
            .interval()
            .map(|(_, count)| count.calls)
            .sum::<u64>(),
        2
    );
    assert_eq!(
        model.rows().len(),
        1,
        "a file where only failures happened has its row"
    );
}

#[test]
fn the_filesystem_is_known_without_a_mount() {
    let mut model = Model::default();
    model.event(named(1, "/mnt/a"));
    assert_eq!(model.mount_of(&model.file(0)), (b"".as_slice(), "ext4"));
    model.update_mounts(b"1 1 8:1 / /mnt rw - ext3 /dev/sda1 rw");
    assert_eq!(model.mount_of(&model.file(0)), (b"/mnt".as_slice(), "ext3"));
}
