//! Copies among very many uses of one size.

use iotrace_common::key::FileId;
use iotrace_model::{
    Model,
    counters::*,
    input::{Place, ProcessId},
};

use super::named;
use crate::copies::Copies;

const PROCESS: ProcessId = ProcessId { pid: 1, start: 1 };
const SIZE: u64 = 4096;
const MS: u64 = 1_000_000;

/// Uses a file once, at this time, for half a millisecond.
fn add_use(model: &mut Model, (name, inode): (&str, u64), is_read: bool, time: u64) {
    let file = FileId {
        device: 1,
        generation: 0,
        inode,
    };
    model.event(named(file, &format!("/data/{name}-{inode}"), SIZE));
    let mut counters = Counters::ZERO;
    let (calls, bytes) = match is_read {
        true => (READS, BYTES_READ),
        false => (WRITES, BYTES_WRITTEN),
    };
    (counters.v[OPENS], counters.v[calls], counters.v[bytes]) = (1, 1, SIZE);
    counters.v[FIRST_OPERATION] = time;
    counters.v[LAST_OPERATION] = time + MS / 2;
    model.add(PROCESS, Place::File(file), &counters);
    model.add_span(PROCESS, file, 1, &counters);
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
    let copies = Copies::of(&model);
    assert_eq!(copies.all.len() as u64, COUNT / 2);
    // Of several sources the first is taken: one that was read within 20 ms before, or after.
    let mut sources: Vec<bool> = vec![true; COUNT as usize];
    for (position, copy) in copies.all.iter().enumerate() {
        assert!(copy.is_inferred && copy.bytes == SIZE);
        let source = &mut sources[copy.source as usize];
        assert!(std::mem::take(source), "{position}: a source of two copies");
        let index = u64::from(copy.target) - COUNT;
        assert_eq!(index % 2, 0, "{position}: a late file is no copy");
        let expected = (index / 2).max(index.saturating_sub(20));
        assert_eq!(u64::from(copy.source), expected, "{position}");
    }
}
