//! What is known of a unit beside its sums: epochs, when it last read training data, open files, findings.

use std::collections::BTreeMap;

use iotrace_phases::phase::Phase;

use super::{
    latencies::{self, LatencyBuckets},
    mounts::MountId,
};

/// A finding as a label has it: code and severity.
pub type Finding = (&'static str, &'static str);

/// Gauges and counts of one unit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Beside {
    /// Passes over the training data that are complete; `None` where it read none.
    pub epochs: Option<u64>,
    /// End of the last read of training data, `CLOCK_MONOTONIC` nanoseconds; `None` where it read none.
    pub last_read: Option<u64>,
    /// Open descriptors of files; `None` where nobody has looked.
    pub open_files: Option<u64>,
    /// Findings of the last look at the unit, and how many subjects each has.
    pub findings: BTreeMap<Finding, u64>,
    /// Calls that have not returned, by operation and mount point: the oldest, nanoseconds.
    pub in_flight: BTreeMap<(String, String), u64>,
    /// What main threads of programs waited for, and the phase of files of storage, else none: nanoseconds.
    pub waits: BTreeMap<(&'static str, &'static str), u64>,
    /// For how long these threads ran or waited, nanoseconds; `None` where that is not kept.
    pub main_threads: Option<u64>,
    /// How long operations took, by the mount of their files, the phase that the files had by then, and class
    /// ([`iotrace_common::op::class`]).
    pub latencies: BTreeMap<(MountId, Phase, usize), LatencyBuckets>,
}

impl Beside {
    /// How many series that is.
    pub(super) fn series(&self) -> usize {
        usize::from(self.epochs.is_some())
            + usize::from(self.last_read.is_some())
            + usize::from(self.open_files.is_some())
            + self.findings.len()
            + self.in_flight.len()
            + self.waits.len()
            + usize::from(self.main_threads.is_some())
            + self.latencies.len() * latencies::SERIES
    }
}
