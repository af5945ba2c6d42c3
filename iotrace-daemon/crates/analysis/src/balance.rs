//! Balance over workers and ranks: how evenly those that read training files at one time shared the work.

use std::collections::{BTreeMap, HashSet};

use super::{
    ranks::are_beside,
    uses::{Uses, Visit},
};
use iotrace_model::{
    Model,
    counters::{saturating_add, saturating_sum},
    groups::Groups,
    run::Run,
};

/// A worker that read less than this share of the mean is idle.
const IDLE_SHARE: f64 = 0.1;
/// Siblings that began at most this long before or after readers belong to their cohort.
const MAX_START_DISTANCE_NS: i64 = 5_000_000_000;

/// What one process, or one rank, read.
#[derive(Clone, Debug, Default)]
pub struct Share {
    /// Index of the process; of the first one of a rank.
    pub process: u32,
    pub bytes: u64,
    pub read_ns: u64,
    /// Nanoseconds since the start of the run.
    pub start: i64,
    pub end: i64,
}

/// Processes, or ranks, that read at one time.
#[derive(Clone, Debug)]
pub struct Cohort {
    pub start: i64,
    pub end: i64,
    /// In order of their bytes, the one with the most first.
    pub shares: Vec<Share>,
    /// Of them: those that read next to nothing.
    pub idle: Vec<u32>,
}

impl Cohort {
    /// How far the one with the most bytes is above the mean, as a share of the mean.
    pub fn imbalance(&self) -> f64 {
        let mean = self.bytes() as f64 / self.shares.len().max(1) as f64;
        let most = self.shares.first().map_or(0, |share| share.bytes);
        if mean > 0.0 {
            most as f64 / mean - 1.0
        } else {
            0.0
        }
    }

    /// Bytes of all.
    pub fn bytes(&self) -> u64 {
        saturating_sum(self.shares.iter().map(|share| share.bytes))
    }
}

/// Balance of a run.
#[derive(Clone, Debug, Default)]
pub struct Balance {
    /// Workers of one rank that read at one time, in order.
    pub workers: Vec<Cohort>,
    /// All ranks, where there are several: they run one program at one time.
    pub ranks: Option<Cohort>,
}

/// What was read, by whose it is: `of` says that of a process.
pub fn shares<'a>(
    visits: impl IntoIterator<Item = &'a Visit>,
    of: impl Fn(u32) -> u32,
) -> BTreeMap<u32, Share> {
    let mut shares: BTreeMap<u32, Share> = BTreeMap::new();
    for visit in visits {
        let process = of(visit.process);
        let share = shares.entry(process).or_insert(Share {
            process,
            start: visit.start,
            end: visit.end,
            ..Share::default()
        });
        saturating_add(&mut share.bytes, visit.bytes);
        saturating_add(&mut share.read_ns, visit.read_ns);
        share.start = share.start.min(visit.start);
        share.end = share.end.max(visit.end);
    }
    shares
}

/// Finds who read at one time, and how much each.
pub fn balance(model: &Model, run: &Run, uses: &Uses, groups: &Groups) -> Balance {
    let mut ranks: BTreeMap<u32, Vec<Share>> = BTreeMap::new();
    for share in shares(&uses.visits, |process| process).into_values() {
        let rank = groups.of(share.process);
        ranks.entry(rank).or_default().push(share);
    }
    let of_ranks = shares(&uses.visits, |process| groups.of(process));
    let mut of_ranks: Vec<Share> = of_ranks.into_values().collect();
    let most = of_ranks.iter().max_by_key(|share| share.bytes);
    if let Some(most) = most.map(|share| share.process) {
        of_ranks.retain(|share| are_beside(model, run, most, share.process));
    }
    Balance {
        ranks: (of_ranks.len() > 1).then(|| Cohort::new(model, of_ranks)),
        workers: ranks
            .into_values()
            .flat_map(|shares| cohorts(model, shares))
            .collect(),
    }
}

/// Workers whose times touch, in cohorts of at least two.
fn cohorts(model: &Model, mut shares: Vec<Share>) -> Vec<Cohort> {
    shares.sort_by_key(|share| (share.start, share.process));
    let mut cohorts: Vec<Vec<Share>> = Vec::new();
    let mut end = i64::MIN;
    for share in shares {
        if share.start > end || cohorts.is_empty() {
            cohorts.push(Vec::new());
        }
        end = end.max(share.end);
        cohorts
            .last_mut()
            .into_iter()
            .for_each(|cohort| cohort.push(share.clone()));
    }
    let known: HashSet<u32> = cohorts
        .iter()
        .flatten()
        .map(|share| share.process)
        .collect();
    for cohort in &mut cohorts {
        let idle = siblings(model, cohort, &known);
        cohort.extend(idle);
    }
    cohorts
        .into_iter()
        .filter(|cohort| cohort.len() > 1)
        .map(|shares| Cohort::new(model, shares))
        .collect()
}

/// Processes forked together with a cohort of at least two that read nothing.
fn siblings(model: &Model, cohort: &[Share], known: &HashSet<u32>) -> Vec<Share> {
    let about = |process: u32| &model.processes()[process as usize].about;
    let Some(first) = cohort.first().filter(|_| cohort.len() > 1) else {
        return Vec::new();
    };
    let model_about = about(first.process);
    let parent = model_about.parent;
    let started = model_about.start_boottime as i64;
    let are_siblings = cohort
        .iter()
        .all(|share| about(share.process).parent == parent && about(share.process).execs == 0);
    if !are_siblings || parent == 0 || started == 0 {
        return Vec::new();
    }
    let node = model.processes()[first.process as usize].node;
    let is_sibling = |index: &u32| {
        let (process, about) = (&model.processes()[*index as usize], about(*index));
        let near = (about.start_boottime as i64 - started).abs() <= MAX_START_DISTANCE_NS;
        // A shell's children before it became the program that trains have its process id as parent, too.
        let is_alike = (&about.exe, &about.args) == (&model_about.exe, &model_about.args);
        process.node == node && about.parent == parent && about.execs == 0 && near && is_alike
    };
    let all = 0..model.processes().len() as u32;
    let idle = all
        .filter(|index| !known.contains(index))
        .filter(is_sibling);
    idle.map(|process| Share {
        process,
        start: first.start,
        end: first.start,
        ..Share::default()
    })
    .collect()
}

impl Cohort {
    fn new(model: &Model, mut shares: Vec<Share>) -> Self {
        let pid = |process: u32| model.processes()[process as usize].id.pid;
        shares.sort_by_key(|share| (std::cmp::Reverse(share.bytes), pid(share.process)));
        let mut cohort = Self {
            start: shares.iter().map(|share| share.start).min().unwrap_or(0),
            end: shares.iter().map(|share| share.end).max().unwrap_or(0),
            shares,
            idle: Vec::new(),
        };
        let mean = cohort.bytes() as f64 / cohort.shares.len() as f64;
        let idle = cohort
            .shares
            .iter()
            .filter(|share| (share.bytes as f64) < mean * IDLE_SHARE);
        cohort.idle = idle.map(|share| share.process).collect();
        cohort
    }
}
