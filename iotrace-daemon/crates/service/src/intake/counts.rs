//! Counters of an interval into the totals.

use super::labels::directory_of;
use crate::totals::{Key, NO_MOUNT, Totals, UnitId, Value};
use iotrace_model::{
    IoTotals,
    counters::{
        Counters,
        shown::{METRICS, Source},
    },
};
use iotrace_phases::phase::Phase;

/// Counts for a unit, a phase and a mount.
pub fn count(totals: &mut Totals, key: Key, counters: &Counters) {
    for metric in &METRICS {
        if let Source::Counters(series) = metric.source {
            for one in series {
                totals.add(key, Value::Counter(one.counter), one.value(counters));
            }
        }
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
            .add((key.unit, key.phase, directory), IoTotals::of(counters));
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
