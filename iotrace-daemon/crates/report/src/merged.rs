//! Merged I/O time by phase: the union of the calls' times, as NERSC's TimeLogger takes it.
//!
//! Of one process it is measured, and over several where that was asked for ([`super::global_merged`]). Else it is known where
//! their times in the phase do not overlap, within one interval of the recording, and within bounds otherwise.

use super::Report;
use iotrace_analysis::merged::of_slices;
use iotrace_analysis::phases::PhaseSums;
use iotrace_model::{
    counters::{Counters, UNION_READ_NS, UNION_WRITE_NS, saturating_sum},
    run::CallInFlight,
};
use iotrace_phases::{
    context::Sorted,
    phase::{Direction, Phase},
};

/// Merged time of calls, nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Merged {
    pub at_least: u64,
    pub at_most: u64,
    /// In calls, summed over calls and threads.
    pub in_calls: u64,
    /// What it may be off, where it was kept over all processes.
    pub uncertain: Option<u64>,
}

impl Merged {
    /// Of one process.
    pub fn of(counters: &Counters) -> Self {
        let ns = counters.v[UNION_READ_NS].saturating_add(counters.v[UNION_WRITE_NS]);
        Self {
            at_least: ns,
            at_most: ns,
            in_calls: counters.nanoseconds(),
            uncertain: None,
        }
    }

    /// Whether it is known.
    pub fn is_exact(&self) -> bool {
        self.at_least == self.at_most
    }

    /// Bytes per second of it, or more if it is not exact; `None` without such time.
    pub fn bandwidth(&self, bytes: u64) -> Option<f64> {
        (self.at_most > 0).then(|| bytes as f64 * 1e9 / self.at_most as f64)
    }

    /// Calls that were in flight at one time, on average, or fewer if it is not exact; `None` without such time.
    pub fn concurrency(&self) -> Option<f64> {
        (self.at_least > 0).then(|| self.in_calls as f64 / self.at_least as f64)
    }
}

/// Share of the run; 0 for a run without time.
pub fn share(ns: u64, run_ns: u64) -> f64 {
    if run_ns == 0 {
        0.0
    } else {
        ns as f64 / run_ns as f64
    }
}

/// What a job's time went into, by merged time: TimeLogger's components.
#[derive(Clone, Copy, Debug, Default)]
pub struct Breakdown {
    /// All of it.
    pub whole_ns: u64,
    /// Reads of training data.
    pub read: Merged,
    /// Saves.
    pub checkpoint: Merged,
    /// Both together, where that is known.
    pub either: Option<Merged>,
}

impl Breakdown {
    /// Neither of the two, at least: they may overlap.
    pub fn rest_at_least(&self) -> u64 {
        let together = self.either.map(|either| either.at_most);
        let apart = self.read.at_most.saturating_add(self.checkpoint.at_most);
        self.whole_ns.saturating_sub(together.unwrap_or(apart))
    }

    /// Neither of the two, at most.
    pub fn rest_at_most(&self) -> u64 {
        let together = self.either.map(|either| either.at_least);
        let more = self.read.at_least.max(self.checkpoint.at_least);
        self.whole_ns.saturating_sub(together.unwrap_or(more))
    }
}

impl Report<'_> {
    /// The merged time of a phase of one process, by its name.
    pub(super) fn merged_of(&self, sums: &PhaseSums, name: &str) -> Merged {
        sums.named(name).map_or_else(Merged::default, |(sum, _)| {
            self.bounded(Merged::of(&sum.counters))
        })
    }

    /// The merged time of the phases that are chosen, over all processes.
    pub(super) fn merged(&self, is_chosen: impl Fn(Phase) -> bool) -> Merged {
        let chosen = Phase::ALL.into_iter().filter(|phase| is_chosen(*phase));
        let sums = chosen.filter_map(|phase| self.phases.get(phase));
        let in_calls = saturating_sum(sums.map(|sum| sum.sum.counters.nanoseconds()));
        let slices = &self.analysis.series.slices;
        let (at_least, at_most) = of_slices(slices, self.run.duration_ns, &is_chosen);
        let known = Merged {
            at_least,
            at_most,
            in_calls,
            uncertain: None,
        };
        self.measured(known, is_chosen)
    }

    /// Time in calls that had not returned, of the phase with this name, and of one process where one is given, summed.
    pub(super) fn in_flight_ns(&self, name: &str, process: Option<u32>) -> u64 {
        let pid = process.map(|index| self.model.processes()[index as usize].id.pid);
        let calls = self.run.in_flight.iter();
        let calls = calls.filter(|call| self.phase_of(call).name() == name);
        let calls = calls.filter(|call| pid.is_none_or(|pid| pid == call.pid));
        saturating_sum(calls.map(|call| call.ns))
    }

    /// The phase of a call that had not returned: as the kernel side sorted its file, else as its path says.
    fn phase_of(&self, call: &CallInFlight) -> Phase {
        if call.phase != 0 {
            return Phase::from_code(call.phase);
        }
        let path = call.path.as_deref().unwrap_or_default().as_bytes();
        let fs_type = call.fs_type.as_deref().unwrap_or_default();
        let sorted = Sorted::of(self.classifier.verdict(path, false, fs_type));
        sorted.phase(match call.operation.as_str() {
            "write" | "fsync" | "fdatasync" => Direction::Write,
            _ => Direction::Read,
        })
    }

    /// The components of the whole run.
    pub(super) fn breakdown(&self) -> Breakdown {
        let is_either = |phase| matches!(phase, Phase::Training | Phase::Checkpoint);
        let either = self.merged(is_either);
        Breakdown {
            whole_ns: self.run.duration_ns,
            read: self.merged(|phase| phase == Phase::Training),
            checkpoint: self.merged(|phase| phase == Phase::Checkpoint),
            either: Some(either).filter(|either| either.uncertain.is_some()),
        }
    }

    /// From when to when a process lived within the run, nanoseconds since 1970.
    pub(super) fn lifetime(&self, process: u32) -> (i64, i64) {
        let run = self.run;
        let about = &self.model.processes()[process as usize].about;
        let start = match about.start_boottime {
            0 => run.start_unix_ns,
            start => run.clock.unix_ns_of_boottime(start).max(run.start_unix_ns),
        };
        let run_end = run.end_unix_ns();
        let end = about
            .end
            .map_or(run_end, |end| run.clock.unix_ns(end).min(run_end));
        (start, end)
    }

    /// The components of one process, from its start, or that of the run, to its end.
    pub(super) fn breakdown_of(&self, process: u32) -> Breakdown {
        let (start, end) = self.lifetime(process);
        let phases = &self.processes[process as usize].phases;
        Breakdown {
            whole_ns: u64::try_from(end - start).unwrap_or(0),
            read: self.merged_of(phases, Phase::Training.name()),
            checkpoint: self.merged_of(phases, Phase::Checkpoint.name()),
            either: None,
        }
    }
}
