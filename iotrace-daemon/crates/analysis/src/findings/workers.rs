//! Findings on workers and ranks.

use std::collections::BTreeMap;

use super::{Confidence, Data, Finding, MAYBE_COMPUTING, Subject, Value, seconds, thresholds::*};
use crate::balance::Cohort;
use iotrace_model::{
    counters::{saturating_add, saturating_sum},
    waits::Leaf,
};
use iotrace_phases::phase::Phase;

/// A worker decodes if it computes more than one of this many parts of the workers' mean.
const DECODER_PARTS: u64 = 2;

/// Workers of one rank, or ranks, of which one reads far more than the mean.
pub fn unbalanced(data: &Data<'_>) -> Vec<Finding> {
    let balance = &data.analysis.balance;
    let is_large = |cohort: &&Cohort| cohort.bytes() as f64 >= data.limit(BALANCE_BYTES);
    // Those without workers that do nothing, which are a finding of their own.
    let active = |cohort: &Cohort| {
        let mut cohort = cohort.clone();
        let idle = std::mem::take(&mut cohort.idle);
        cohort.shares.retain(|share| !idle.contains(&share.process));
        cohort
    };
    let workers: Vec<Cohort> = balance
        .workers
        .iter()
        .filter(is_large)
        .map(active)
        .collect();
    let uneven =
        |cohort: &&Cohort| cohort.shares.len() > 1 && cohort.imbalance() >= data.limit(IMBALANCE);
    let mut findings = Vec::new();
    let unbalanced: Vec<&Cohort> = workers.iter().filter(uneven).collect();
    // Once in many epochs is chance.
    if unbalanced.len() * 2 > workers.len()
        && let Some(worst) = unbalanced
            .into_iter()
            .max_by(|a, b| a.imbalance().total_cmp(&b.imbalance()))
    {
        findings.push(finding(
            data,
            worst,
            "unbalanced-workers",
            "worker",
            workers.len(),
        ));
    }
    let ranks = balance
        .ranks
        .iter()
        .filter(is_large)
        .find(|cohort| uneven(cohort));
    findings.extend(ranks.map(|ranks| finding(data, ranks, "unbalanced-ranks", "rank", 1)));
    findings
}

fn finding(
    data: &Data<'_>,
    cohort: &Cohort,
    code: &'static str,
    what: &str,
    groups: usize,
) -> Finding {
    let (most, least) = (cohort.shares.first(), cohort.shares.last());
    let imbalance = cohort.imbalance();
    // With the mean of the bytes, the one with the most would have read for less.
    let most_ns = most.map_or(0, |share| share.read_ns);
    let excess = most_ns as f64 * imbalance / (1.0 + imbalance);
    Finding {
        code,
        saving: data.saving(
            data.wall(Phase::Training, excess as u64),
            Confidence::Medium,
            &[MAYBE_COMPUTING],
        ),
        title: format!(
            "One {what} reads {:.0} % more than the mean of {}",
            imbalance * 100.0,
            cohort.shares.len()
        ),
        evidence: vec![
            ("readers", Value::Count(cohort.shares.len() as u64)),
            ("groups", Value::Count(groups as u64)),
            (
                "most_bytes",
                Value::Bytes(most.map_or(0, |share| share.bytes)),
            ),
            (
                "least_bytes",
                Value::Bytes(least.map_or(0, |share| share.bytes)),
            ),
            ("imbalance", Value::Share(imbalance)),
            (
                "most_read_seconds",
                seconds(most.map_or(0, |share| share.read_ns)),
            ),
            (
                "least_read_seconds",
                seconds(least.map_or(0, |share| share.read_ns)),
            ),
        ],
        subjects: most
            .into_iter()
            .chain(least)
            .map(|share| Subject::Process(share.process))
            .collect(),
        advice: format!(
            "Give every {what} the same bytes: cut the data into shards of one size, and at least as many, and a multiple, as there \
             are {what}s."
        ),
        also: Vec::new(),
    }
}

/// How long each process computed while a main thread waited for it, nanoseconds.
fn computed(data: &Data<'_>) -> BTreeMap<u32, u64> {
    let mut computed = BTreeMap::new();
    for (key, ns) in data.model.waits().all() {
        if let (Leaf::Computing | Leaf::ComputeThreads, Some(by)) = (key.leaf, key.by) {
            saturating_add(computed.entry(by).or_default(), ns);
        }
    }
    computed
}

/// Workers that read next to nothing while others read.
pub fn idle(data: &Data<'_>) -> Option<Finding> {
    let cohorts = &data.analysis.balance.workers;
    let is_large = |cohort: &&Cohort| cohort.bytes() as f64 >= data.limit(BALANCE_BYTES);
    let large: Vec<&Cohort> = cohorts.iter().filter(is_large).collect();
    let computed = computed(data);
    let of = |process: u32| computed.get(&process).copied().unwrap_or(0);
    // One that decodes what others read is not idle.
    let decodes = |cohort: &Cohort, process: u32| {
        let all = saturating_sum(cohort.shares.iter().map(|share| of(share.process)));
        let mean = all / cohort.shares.len().max(1) as u64;
        of(process) > mean / DECODER_PARTS
    };
    let idle_of = |cohort: &&Cohort| -> Vec<u32> {
        let idle = cohort.idle.iter().copied();
        idle.filter(|process| !decodes(cohort, *process)).collect()
    };
    let idle: Vec<(&Cohort, Vec<u32>)> = large
        .iter()
        .map(|cohort| (*cohort, idle_of(cohort)))
        .filter(|(_, idle)| !idle.is_empty())
        .collect();
    if idle.is_empty() || idle.len() * 2 <= large.len() {
        return None;
    }
    let workers: usize = idle.iter().map(|(cohort, _)| cohort.shares.len()).sum();
    let without: Vec<u32> = idle.into_iter().flat_map(|(_, idle)| idle).collect();
    let busy = large.iter().flat_map(|cohort| &cohort.shares);
    let wall = data.wall(
        Phase::Training,
        saturating_sum(busy.map(|share| share.read_ns)),
    );
    Some(Finding {
        code: "idle-workers",
        saving: data.saving(wall * without.len() as u64 / workers.max(1) as u64, Confidence::Low, &[MAYBE_COMPUTING]),
        title: format!("{} of {workers} workers read next to nothing", without.len()),
        evidence: vec![
            ("workers", Value::Count(workers as u64)),
            ("idle", Value::Count(without.len() as u64)),
            ("groups", Value::Count(large.len() as u64)),
        ],
        subjects: without.into_iter().take(super::MAX_SUBJECTS).map(Subject::Process).collect(),
        advice: "Use fewer workers, or cut the data into more shards: a worker without a shard has nothing to read.".into(),
        also: Vec::new(),
    })
}
