//! Findings on how fast training data arrive.

use std::collections::BTreeMap;

use super::{
    Confidence, Data, Finding, MAYBE_COMPUTING, Subject, Value, facts::Facts, largest, seconds,
    thresholds::*,
};
use crate::{balance::shares, merged::of_slices};
use iotrace_model::{counters::*, groups::Groups};
use iotrace_phases::phase::{Direction, Phase};

/// Readers in flight up to which more of them may help.
const FEW_READERS: f64 = 2.0;

/// Share of the time between their first and last reads for which workers are idle, up to which they may be what training waits
/// for: those that have read ahead wait until samples are taken.
const MAX_IDLE_SHARE: f64 = 0.1;

pub(super) const MORE_READERS: &str = "Read with more workers or threads at a time (DataLoader num_workers, tf.data interleave and \
    prefetch), as long as the storage is not busy: `--block` shows whether its devices are.";
const ENOUGH_READERS: &str = "Several readers wait at a time: stage the files on faster storage, read fewer bytes for a sample, or \
    keep the data in memory.";

/// A run that spends its time in reads of training data. Reads of the process that trains hold it up; those of loader
/// workers only where the workers hardly do anything else, and are hardly ever idle.
pub fn bound(data: &Data<'_>, facts: &Facts) -> Option<Finding> {
    let (at_least, at_most) = of_slices(&data.uses.series.slices, data.run.duration_ns, |phase| {
        phase == Phase::Training
    });
    let in_calls = saturating_sum(facts.of(Phase::Training).map(|fact| fact.read_ns));
    let groups = Groups::new(data.model);
    let mut readers: Vec<u32> = data.uses.visits.iter().map(|visit| visit.process).collect();
    readers.sort_unstable();
    readers.dedup();
    let only_workers = readers.iter().all(|reader| groups.of(*reader) != *reader);
    let needed = data.limit(if only_workers {
        WORKERS_SHARE
    } else {
        INPUT_SHARE
    });
    let share = data.share_of_run(at_least);
    let concurrency = in_calls as f64 / at_least.max(1) as f64;
    let is_busy = !only_workers
        || concurrency >= needed * readers.len() as f64
            && idle_share(data).is_none_or(|share| share <= MAX_IDLE_SHARE);
    if at_least == 0 || share < needed || !is_busy {
        return None;
    }
    let advice = if concurrency < FEW_READERS {
        MORE_READERS
    } else {
        ENOUGH_READERS
    };
    Some(Finding {
        code: "input-bound",
        saving: data.saving(
            at_most.min(in_calls),
            Confidence::Medium,
            &[MAYBE_COMPUTING],
        ),
        title: format!(
            "Reads of training data take {:.0} % of the run, by {concurrency:.1} readers at a time",
            share * 100.0
        ),
        evidence: vec![
            ("seconds", seconds(at_least)),
            ("share_of_run", Value::Share(share)),
            ("read_seconds", seconds(in_calls)),
            (
                "readers_at_a_time",
                Value::Text(format!("{concurrency:.1}")),
            ),
            ("processes", Value::Count(readers.len() as u64)),
        ],
        subjects: largest(
            data,
            facts.of(Phase::Training).filter(|fact| fact.read_ns > 0),
            |fact| fact.read_ns,
            |fact| Subject::File(fact.file),
        ),
        advice: advice.into(),
        also: Vec::new(),
    })
}

/// Share of the time between their first and last reads in which the readers of training data neither read nor used a CPU;
/// `None` where CPU time is not known on all nodes.
fn idle_share(data: &Data<'_>) -> Option<f64> {
    let processes = data.model.processes().iter();
    let nodes = processes.map(|process| process.node + 1).max()?;
    if data.model.computing().nodes() < nodes {
        return None;
    }
    let (mut busy, mut all) = (0, 0);
    for (process, read) in shares(&data.uses.visits, |process| process) {
        saturating_add(&mut busy, read.read_ns);
        saturating_add(&mut busy, data.model.computing().of_process(process)?);
        saturating_add(&mut all, u64::try_from(read.end - read.start).unwrap_or(0));
    }
    Some(1.0 - busy as f64 / all.max(1) as f64)
}

/// Page faults on mapped training data that wait for storage.
pub fn mapped_waits(data: &Data<'_>) -> Option<Finding> {
    let mut by_process = BTreeMap::new();
    let mut files = BTreeMap::new();
    let mut faults = 0;
    for row in data.model.rows_with(MAJOR_FAULT_NS) {
        let phase = data.sorted[row.file as usize].phase(Direction::Read);
        if matches!(phase, Phase::Training | Phase::Restore) {
            let total = row.cell.total();
            let ns = total.v[MAJOR_FAULT_NS];
            saturating_add(by_process.entry(row.process).or_insert(0_u64), ns);
            saturating_add(files.entry(row.file).or_insert(0_u64), ns);
            saturating_add(&mut faults, total.v[TIMED_MAJOR_FAULTS]);
        }
    }
    // Threads of a process may wait at a time: no more than the run.
    let ns = by_process
        .values()
        .copied()
        .max()?
        .min(data.run.duration_ns);
    let share = data.share_of_run(ns);
    if share < data.limit(MAPPED_SHARE) || (ns as f64) < data.limit(SAVE_SECONDS) * 1e9 {
        return None;
    }
    Some(Finding {
        code: "mapped-input-waits",
        saving: data.saving(ns, Confidence::Medium, &[MAYBE_COMPUTING]),
        title: format!("Page faults on mapped data wait for storage, {:.0} % of the run", share * 100.0),
        evidence: vec![
            ("seconds", seconds(ns)),
            ("share_of_run", Value::Share(share)),
            ("faults", Value::Count(faults)),
            ("files", Value::Count(files.len() as u64)),
        ],
        subjects: largest(data, files, |(_, ns)| *ns, |(file, _)| Subject::File(*file)),
        advice: "Read ahead of use: madvise(MADV_WILLNEED or MADV_POPULATE_READ), larger sequential reads in a worker, or a copy in \
                 memory."
            .into(),
        also: Vec::new(),
    })
}
