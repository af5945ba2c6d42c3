//! Counters of an interval into the totals.

use iotrace_common::op;

use super::labels::directory_of;
use crate::totals::{Key, NO_MOUNT, Sums, Totals, UnitId, Value};
use iotrace_model::counters::*;
use iotrace_phases::phase::Phase;

/// Counts for a unit, a phase and a mount.
pub fn count(totals: &mut Totals, key: Key, counters: &Counters) {
    let v = &counters.v;
    for (op, calls) in v[..op::COUNT].iter().enumerate() {
        totals.add(key, Value::Calls(op), *calls);
    }
    totals.add(key, Value::ZeroReads, v[ZERO_READS]);
    totals.add(key, Value::BytesRead, v[BYTES_READ]);
    totals.add(key, Value::BytesWritten, v[BYTES_WRITTEN]);
    totals.add(key, Value::Fetched, counters.fetched_by_reads());
    totals.add(key, Value::FetchedMapped, v[MAPPED_BYTES_FETCHED]);
    totals.add(key, Value::Mapped, v[MAPPED_BYTES]);
    totals.add(
        key,
        Value::MinorFaults,
        v[FAULTS].saturating_sub(v[MAJOR_FAULTS]),
    );
    totals.add(key, Value::MajorFaults, v[MAJOR_FAULTS]);
    totals.add(key, Value::MajorFaultTime, v[MAJOR_FAULT_NS]);
    totals.add(key, Value::TimedMajorFaults, v[TIMED_MAJOR_FAULTS]);
    let times = [READ_NS, WRITE_NS, META_NS, SYNC_NS, FAILED_NS];
    for (group, index) in times.into_iter().enumerate() {
        totals.add(key, Value::Time(group), v[index]);
    }
}

/// Counts for a file's directory, where those that do the most are wanted.
pub fn count_directory(
    totals: &mut Totals,
    key: Key,
    (path, is_directory): (&[u8], bool),
    counters: &Counters,
) {
    if totals.directories.is_on() {
        let directory = directory_of(path, is_directory);
        totals
            .directories
            .add((key.unit, key.phase, directory), Sums::of(counters));
    }
}

/// Calls that belong to no file.
pub fn without_file(unit: UnitId) -> Key {
    Key {
        unit,
        phase: Phase::UNMATCHED,
        mount: NO_MOUNT,
    }
}
