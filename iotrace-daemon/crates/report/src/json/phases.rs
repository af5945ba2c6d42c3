//! Phases in the JSON report: counters by phase, and the phase of a file.

use iotrace_analysis::{phases::PhaseSums, sum::Sum};
use serde::{Serialize, Serializer, ser::SerializeMap};

use super::entries::{seconds, sum_entries};
use crate::{
    Report,
    merged::{Merged, of_process, share},
    overlapped::Overlapped,
};
use iotrace_model::counters::Counters;
use iotrace_phases::{
    phase::{Class, Direction, Phase},
    used::Used,
};

pub const NAMES: [&str; 5] = ["startup", "training", "checkpoint", "restore", "other"];

/// Counters by name of the phase.
pub(super) struct PhasesJson<'a> {
    report: &'a Report<'a>,
    sums: &'a PhaseSums,
    /// The process; none: all of them, and phases without any operation are written too.
    process: Option<u32>,
}

impl<'a> PhasesJson<'a> {
    /// Over all processes.
    pub fn whole(report: &'a Report<'a>) -> Self {
        Self {
            report,
            sums: &report.phases,
            process: None,
        }
    }

    /// Of the process at `index`.
    pub fn of_process(report: &'a Report<'a>, index: u32) -> Self {
        Self {
            report,
            sums: &report.processes[index as usize].phases,
            process: Some(index),
        }
    }
}

impl Serialize for PhasesJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for name in NAMES {
            let is_whole = self.process.is_none();
            let named = self.sums.named(name).or(is_whole.then(Default::default));
            if let Some((sum, files)) = named {
                let merged = match self.process {
                    Some(_) => of_process(self.sums, name),
                    None => self.report.merged(|phase| phase.name() == name),
                };
                let whole_ns = match self.process {
                    Some(process) => self.report.breakdown_of(process).whole_ns,
                    None => self.report.run.duration_ns,
                };
                let phase = PhaseJson {
                    report: self.report,
                    sum: &sum,
                    files,
                    overlapped: match self.process {
                        Some(_) => None,
                        None => self
                            .report
                            .overlapped(&merged, |phase| phase.name() == name),
                    },
                    merged: Some((merged, whole_ns)),
                    in_flight_ns: self.report.in_flight_ns(name, self.process),
                    classes: (name == Phase::UNMATCHED.name()).then_some(self.sums),
                };
                map.serialize_entry(name, &phase)?;
            }
        }
        map.end()
    }
}

struct PhaseJson<'a> {
    report: &'a Report<'a>,
    sum: &'a Sum,
    files: u64,
    /// With the time that it is a share of, nanoseconds.
    merged: Option<(Merged, u64)>,
    /// Time in calls that have not returned, summed; in none of the counters.
    in_flight_ns: u64,
    /// Over all processes, where it is known.
    overlapped: Option<Overlapped>,
    /// Where its classes are, if it has any.
    classes: Option<&'a PhaseSums>,
}

impl Serialize for PhaseJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("files", &self.files)?;
        if let Some((merged, whole_ns)) = &self.merged {
            map.serialize_entry("merged_seconds", &seconds(merged.at_most))?;
            map.serialize_entry("merged_seconds_at_least", &seconds(merged.at_least))?;
            map.serialize_entry("merged_exact", &merged.is_exact())?;
            if let Some(uncertain) = merged.uncertain {
                map.serialize_entry("merged_uncertain_seconds", &seconds(uncertain))?;
            }
            if let Some(overlapped) = &self.overlapped {
                map.serialize_entry("overlapped_seconds", &seconds(overlapped.at_most))?;
                map.serialize_entry("overlapped_seconds_at_least", &seconds(overlapped.at_least))?;
            }
            let bandwidth = merged.bandwidth(self.sum.counters.bytes());
            map.serialize_entry("bandwidth_bytes_per_second", &bandwidth)?;
            map.serialize_entry("share_of_run", &share(merged.at_most, *whole_ns))?;
            map.serialize_entry("concurrency", &merged.concurrency())?;
        }
        if self.in_flight_ns > 0 {
            map.serialize_entry("in_flight_seconds", &seconds(self.in_flight_ns))?;
        }
        sum_entries(&mut map, self.report, self.sum)?;
        if let Some(sums) = self.classes {
            map.serialize_entry("classes", &Classes(self.report, sums))?;
        }
        map.end()
    }
}

struct Classes<'a>(&'a Report<'a>, &'a PhaseSums);

impl Serialize for Classes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for class in Class::ALL {
            if let Some(phase) = self.1.get(Phase::Other(Some(class))) {
                let phase = PhaseJson {
                    report: self.0,
                    sum: &phase.sum,
                    files: phase.files,
                    merged: None,
                    in_flight_ns: 0,
                    overlapped: None,
                    classes: None,
                };
                map.serialize_entry(class.name(), &phase)?;
            }
        }
        map.end()
    }
}

/// The phase of a file as one process used it, and the rule that says so.
pub(super) fn row_entries<M: SerializeMap>(
    map: &mut M,
    report: &Report<'_>,
    file: u32,
    counters: &Counters,
) -> Result<(), M::Error> {
    let sorted = &report.sorted[file as usize];
    let used = Used::new(counters, sorted);
    let rule = |direction| {
        let rule = sorted.verdict.rule(direction)?;
        Some(report.classifier.rules().all()[rule].name.as_str())
    };
    let phase = sorted.phase(used.main);
    map.serialize_entry("phase", phase.name())?;
    if let Some(class) = phase.class() {
        map.serialize_entry("class", class.name())?;
    }
    map.serialize_entry("rule", &rule(used.main))?;
    if used.reads_apart {
        map.serialize_entry("phase_read", sorted.phase(Direction::Read).name())?;
        map.serialize_entry("rule_read", &rule(Direction::Read))?;
    }
    let reason = |direction: Direction| sorted.reasons[direction.index()];
    let read = used.reads_apart.then(|| reason(Direction::Read)).flatten();
    match reason(used.main).or(read) {
        Some(reason) => map.serialize_entry("phase_reason", reason.name()),
        None => Ok(()),
    }
}
