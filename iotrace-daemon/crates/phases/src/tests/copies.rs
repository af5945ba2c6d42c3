//! Copies among very many uses of one size, and of files whose uses are not known one by one.

use iotrace_common::key::FileId;
use iotrace_model::{
    Model,
    counters::*,
    input::{Place, ProcessId},
    run::Clock,
};

use super::named;
use crate::copies::Copies;

const PROCESS: ProcessId = ProcessId { pid: 1, start: 1 };
const SIZE: u64 = 4096;
const MS: u64 = 1_000_000;

/// Uses a file once, at this time, for half a millisecond.
fn add_use(model: &mut Model, (name, inode): (&str, u64), is_read: bool, time: u64) {
    let (file, counters) = add_row(
        model,
        &format!("/data/{name}-{inode}"),
        inode,
        is_read,
        time,
    );
    model.add_span(PROCESS, file, 1, &counters);
}

/// The same, of a phase whose uses are not kept one by one.
fn add_row(
    model: &mut Model,
    path: &str,
    inode: u64,
    is_read: bool,
    time: u64,
) -> (FileId, Counters) {
    let file = FileId {
        device: 1,
        generation: 0,
        inode,
    };
    model.event(named(file, path, SIZE));
    let mut counters = Counters::ZERO;
    let (calls, bytes) = match is_read {
        true => (READS, BYTES_READ),
        false => (WRITES, BYTES_WRITTEN),
    };
    (counters.v[OPENS], counters.v[calls], counters.v[bytes]) = (1, 1, SIZE);
    counters.v[FIRST_OPERATION] = time;
    counters.v[LAST_OPERATION] = time + MS / 2;
    model.add(PROCESS, Place::File(file), &counters);
    (file, counters)
}

#[test]
fn a_file_of_one_name_and_size_is_a_copy_if_it_was_written_meanwhile() {
    // Milliseconds from the last read of the source to the first write; whether it is a copy.
    let cases = [(-1_i64, true), (10, true), (25, false), (5_000, false)];
    for (pause, is_copy) in cases {
        let mut model = Model::with_spans();
        let read_at = 10_000 * MS;
        let written_at = (read_at + MS / 2).saturating_add_signed(pause * MS as i64);
        add_row(&mut model, "/data/train/1.jpg", 1, true, read_at);
        add_row(&mut model, "/local/train/1.jpg", 2, false, written_at);
        add_row(&mut model, "/local/train/2.jpg", 3, false, written_at);
        let copies = Copies::of(&model, Clock::default()).all;
        let pairs: Vec<_> = copies
            .iter()
            .map(|copy| (copy.source, copy.target))
            .collect();
        let expected: &[(u32, u32)] = if is_copy { &[(0, 1)] } else { &[] };
        assert_eq!(pairs, expected, "after {pause} ms");
    }
}

#[test]
fn files_of_one_name_that_are_no_copies_take_no_long_search() {
    let mut model = Model::with_spans();
    for index in 0..20_000 {
        let time = MS;
        add_row(&mut model, &format!("/in/{index}/x"), index, true, time);
        // The same process made the source, so that its name tells nothing.
        add_row(&mut model, &format!("/in/{index}/x"), index, false, time);
        add_row(
            &mut model,
            &format!("/out/{index}/x"),
            20_000 + index,
            false,
            time,
        );
    }
    // Four hundred million comparisons would take a minute.
    assert_eq!(Copies::of(&model, Clock::default()).all, []);
}

#[test]
fn twenty_thousand_uses_of_one_size_are_paired_by_time() {
    const COUNT: u64 = 20_000;
    let mut model = Model::with_spans();
    for index in 0..COUNT {
        add_use(&mut model, ("in", index), true, MS * (index + 1));
    }
    // Every second file is copied at once; the others are like nothing that was read at their time.
    for index in 0..COUNT {
        let time = MS * (index + 1) + MS / 4;
        let late = COUNT * 2 * MS;
        let time = time + if index % 2 == 0 { 0 } else { late };
        add_use(&mut model, ("out", COUNT + index), false, time);
    }
    let copies = Copies::of(&model, Clock::default());
    assert_eq!(copies.all.len() as u64, COUNT / 2);
    for (position, copy) in copies.all.iter().enumerate() {
        assert!(copy.is_inferred && copy.bytes == SIZE);
        let index = u64::from(copy.target) - COUNT;
        assert_eq!(index % 2, 0, "{position}: a late file is no copy");
        let source = u64::from(copy.source);
        assert_eq!(source, index, "{position}: that was read then");
    }
}
