//! The data that findings use, and what they do not cover.

use iotrace_common::diag;
use iotrace_model::{
    counters::{Counters, FAULTS, MMAPS, TIMED_MAJOR_FAULTS},
    run::{Run, Target},
};

/// What is looked at in every run.
pub const LOOKED_AT: [&str; 5] = [
    "reads and writes",
    "syncs",
    "opens and look-ups",
    "page faults on mapped files",
    "calls that have not returned",
];

/// What was not looked at in a run with these totals.
pub fn not_looked_at(totals: &Counters, run: &Run, waits: bool) -> Vec<&'static str> {
    let is_mapped = totals.v[MMAPS] > 0;
    let tells_faults = totals.v[FAULTS] > 0 || totals.v[TIMED_MAJOR_FAULTS] > 0;
    let privileged = diag::NAMES[diag::PRIVILEGED as usize];
    let conditions = [
        (true, "the GPU"),
        (!waits, "what threads waited for (--waits)"),
        (true, "sockets"),
        (
            run.detail != "full",
            "sizes of reads and writes (--detail full)",
        ),
        (is_mapped && !tells_faults, "waits for mapped files"),
        (!run.block, "how busy the devices were (--block)"),
        (
            run.losses.get(privileged).is_some_and(|count| *count > 0),
            "programs with other rights (setuid)",
        ),
        (
            !matches!(run.target, Target::All(_)),
            "other processes (--all)",
        ),
    ];
    let unseen = conditions.into_iter().filter(|(is_so, _)| *is_so);
    unseen.map(|(_, what)| what).collect()
}
