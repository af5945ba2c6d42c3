//! `merged.parquet`: merged time over all processes, by phases.

use iotrace_common::global_merged::Time;
use iotrace_model::{history::Bounds, global_merged::Times};

use super::{Part, Restored};
use crate::columns::{Damage, Derived, MergedPhases, row};

row! {
    pub struct Row<'a> in "merged" {
        /// the interval
        interval: Bounds,
        /// the host
        host: Derived<&'a str>,
        /// the phases merged: each as in `phases.parquet`, `training+checkpoint`, and `other` with all its classes
        phases: MergedPhases,
        /// time in which any process had a call of them in flight; the part that ended in the interval
        merged_ns: u64,
        /// possible error in nanoseconds
        uncertain_ns: u64,
    }
}

pub fn rows<'a>(part: &'a Part<'_>) -> impl Iterator<Item = Row<'a>> {
    let steps = part.model.global_merged().steps(part.rest());
    steps.flat_map(move |(interval, times)| {
        times.iter().enumerate().map(move |(group, time)| Row {
            interval,
            host: Derived(&part.run.host),
            phases: MergedPhases(group),
            merged_ns: time.ns,
            uncertain_ns: time.uncertain_ns,
        })
    })
}

pub fn restore(row: Row<'_>, into: &mut Restored<'_>) -> Result<(), Damage> {
    let mut times = Times::default();
    times[row.phases.0] = Time {
        ns: row.merged_ns,
        uncertain_ns: row.uncertain_ns,
    };
    into.model.global_merged_mut().restore(row.interval, &times);
    Ok(())
}
