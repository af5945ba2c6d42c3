//! What one unit did in an interval, for the thread that writes its log.

use std::{
    collections::{HashMap, HashSet},
    path::PathBuf,
};

use iotrace_common::key::FileId;
use tokio::sync::oneshot;

use crate::{attribution::Unit, totals::UnitId};
use iotrace_model::{
    About, FailureCount, IoTotals, PhaseSet,
    counters::{Counters, saturating_add},
    input::{FileName, Place, ProcessId},
    latencies::{Histogram, Operations},
    mounts::Mount,
    waits::Waited,
};

/// Processes of one log that are kept one by one between two flushes. Beyond, they are kept as [`OTHERS`].
pub const MAX_PROCESSES: usize = 20_000;
/// All processes that found no room.
pub const OTHERS: ProcessId = ProcessId { pid: 0, start: 0 };

/// What begins a log.
pub struct Begin {
    pub unit: Unit,
    pub start_unix_ns: i64,
}

/// The end of a log.
#[derive(Clone, Copy, Debug)]
pub struct End {
    /// Nanoseconds since the Unix epoch.
    pub at: i64,
    /// Whether it ends because its unit has no process.
    pub unit_ended: bool,
}

/// What one unit did.
#[derive(Default)]
pub struct Note {
    pub unit: UnitId,
    pub begin: Option<Begin>,
    /// Whose it is if it ends now; none: root's.
    pub user: Option<u32>,
    /// Whose it will be, unless a process makes it root's.
    pub candidate: Option<u32>,
    /// The user's.
    pub groups: Vec<u32>,
    pub processes: Vec<(ProcessId, About)>,
    pub mounts: Vec<Mount>,
    pub names: Vec<(FileName, Option<Vec<u8>>, PhaseSet)>,
    pub counts: Vec<(ProcessId, Place, Counters)>,
    /// Counts without their file.
    pub overflow: HashMap<ProcessId, Counters>,
    pub spans: Vec<(ProcessId, FileId, u32, Counters)>,
    pub failures: Vec<(ProcessId, Place, u32, u32, FailureCount)>,
    pub phases: Vec<(ProcessId, u16, IoTotals)>,
    pub waits: Vec<Waited>,
    pub latencies: HashMap<(ProcessId, Operations), Histogram>,
    /// Processes that no more counts come of.
    pub gone: Vec<ProcessId>,
    /// How many of `overflow` had a file.
    pub merged: u64,
    /// Nanoseconds since the Unix epoch.
    pub now: i64,
    pub end: Option<End>,
    /// Who waits for the end.
    pub told: Vec<oneshot::Sender<Option<PathBuf>>>,
}

impl Note {
    pub fn add_overflow(&mut self, process: ProcessId, mut counters: Counters) {
        if let Some(before) = self.overflow.get(&process) {
            counters.absorb(before);
        }
        self.overflow.insert(process, counters);
    }

    /// Leaves the files out of what is here; of how many counts.
    pub fn merge(&mut self) -> u64 {
        let mut merged = 0;
        for (process, place, counters) in std::mem::take(&mut self.counts) {
            merged += u64::from(matches!(place, Place::File(_)));
            self.add_overflow(process, counters);
        }
        let mut failures: HashMap<_, FailureCount> = HashMap::new();
        for (process, _, op, errno, count) in std::mem::take(&mut self.failures) {
            *failures.entry((process, op, errno)).or_default() += count;
        }
        self.failures = failures
            .into_iter()
            .map(|((process, op, errno), count)| (process, Place::Overflow, op, errno, count))
            .collect();
        let mut phases: HashMap<_, IoTotals> = HashMap::new();
        for (process, phase, done) in std::mem::take(&mut self.phases) {
            phases.entry((process, phase)).or_default().add(&done);
        }
        let phases = phases.into_iter();
        self.phases = phases
            .map(|((process, phase), done)| (process, phase, done))
            .collect();
        let processes: HashMap<_, _> = std::mem::take(&mut self.processes).into_iter().collect();
        self.processes = processes.into_iter().collect();
        self.names = Vec::new();
        self.mounts = Vec::new();
        self.spans = Vec::new();
        self.merge_waits();
        self.merged += merged;
        let tables = [
            self.processes.len(),
            self.overflow.len(),
            self.failures.len(),
            self.phases.len(),
            self.waits.len(),
            self.latencies.len(),
        ];
        if tables.into_iter().any(|entries| entries > MAX_PROCESSES) {
            self.fold();
        }
        merged
    }

    fn merge_waits(&mut self) {
        let mut waits: HashMap<_, u64> = HashMap::new();
        for one in std::mem::take(&mut self.waits) {
            let key = (one.process, one.leaf, one.by, one.phase);
            saturating_add(waits.entry(key).or_default(), one.ns);
        }
        let waits = waits.into_iter();
        self.waits = waits
            .map(|((process, leaf, by, phase), ns)| Waited {
                process,
                leaf,
                by,
                file: None,
                phase,
                ns,
            })
            .collect();
    }

    /// Keeps what is merged as that of [`OTHERS`]; what they waited for is not kept.
    fn fold(&mut self) {
        self.waits = Vec::new();
        let unsent: HashSet<ProcessId> = self.processes.drain(..).map(|(id, _)| id).collect();
        self.gone.retain(|process| !unsent.contains(process));
        self.gone.truncate(MAX_PROCESSES);
        self.processes.push((OTHERS, others()));
        for (_, counters) in std::mem::take(&mut self.overflow) {
            self.add_overflow(OTHERS, counters);
        }
        for ((_, of), done) in std::mem::take(&mut self.latencies) {
            let others = self.latencies.entry((OTHERS, of));
            others.or_default().absorb(&done);
        }
        let mut failures: HashMap<_, FailureCount> = HashMap::new();
        for (_, _, op, errno, count) in std::mem::take(&mut self.failures) {
            *failures.entry((op, errno)).or_default() += count;
        }
        let failures = failures.into_iter();
        self.failures = failures
            .map(|((op, errno), count)| (OTHERS, Place::Overflow, op, errno, count))
            .collect();
        let mut phases: HashMap<u16, IoTotals> = HashMap::new();
        for (_, phase, done) in std::mem::take(&mut self.phases) {
            phases.entry(phase).or_default().add(&done);
        }
        let phases = phases.into_iter();
        self.phases = phases.map(|(phase, done)| (OTHERS, phase, done)).collect();
    }
}

/// What a log says of [`OTHERS`].
pub fn others() -> About {
    About {
        comm: b"others".to_vec(),
        ..About::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_merged_is_bounded_by_processes_and_loses_no_count() {
        let mut note = Note::default();
        let count = MAX_PROCESSES as u32 + 5;
        for pid in 1..=count {
            let process = ProcessId { pid, start: 1 };
            note.processes.push((process, About::default()));
            let mut counters = Counters::ZERO;
            counters.v[iotrace_model::counters::BYTES_WRITTEN] = 3;
            note.add_overflow(process, counters);
        }
        note.merge();
        assert_eq!((note.processes.len(), note.overflow.len()), (1, 1));
        let bytes = IoTotals::of(&note.overflow[&OTHERS]).bytes_written;
        assert_eq!(bytes, 3 * u64::from(count));
    }
}
