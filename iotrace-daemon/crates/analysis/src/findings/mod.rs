//! Findings: what is wrong with a job's I/O, in numbers, and what to do. `docs/reference/findings.md` lists them.
//!
//! A finding says nothing where the data at hand does not tell: at detail `basic`, without a second epoch, without a mount
//! to compare with.

mod access;
mod audit;
mod causes;
mod facts;
mod hangs;
mod input;
mod long_call;
mod looked;
mod passes;
pub(crate) mod polls;
pub mod predictions;
mod saving;
mod starting;
mod storage;
pub mod thresholds;
mod waits;
mod workers;

use std::{cmp::Reverse, thread};

use crate::joined;

use facts::Facts;
use predictions::Predictions;
use thresholds::Thresholds;

pub use looked::{LOOKED_AT, not_looked_at};

use super::{Analysis, merged::of_slices, uses::Uses, waits::Exposed};
use iotrace_model::{Model, run::Run};
use iotrace_phases::{context::Sorted, phase::Phase};

/// How grave a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    Low,
    Medium,
    High,
}

impl Severity {
    /// As reports write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }

    /// By the share of the run that the advice saves at most.
    fn of_share(share: f64) -> Self {
        match share {
            share if share >= 0.2 => Self::High,
            share if share >= 0.05 => Self::Medium,
            _ => Self::Low,
        }
    }
}

/// How sure it is that the time would be saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Confidence {
    /// Foretold from the speed of something else in this run.
    Low,
    /// A bound: the job may have computed meanwhile.
    Medium,
    /// The job waited.
    High,
}

impl Confidence {
    /// As reports write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

/// What following the advice saves.
#[derive(Clone, Debug)]
pub struct Saving {
    /// Wall time of the run, nanoseconds, at most.
    pub at_most_ns: u64,
    /// By this time alone.
    pub severity: Severity,
    pub confidence: Confidence,
    /// What might make it less, and was not looked at.
    pub not_looked_at: &'static [&'static str],
    /// What a replay of the timeline says of the advised change.
    pub predictions: Predictions,
    /// Whether the job did not wait for what it would save.
    is_hidden: bool,
}

/// What is not known without tracing waits: reads may be ahead of their use.
const MAYBE_COMPUTING: &str = "whether the job computed meanwhile";
const OTHER_STORAGE_USERS: &str = "what else used the storage at that time";

/// A number that a finding rests on, or a word.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Count(u64),
    Bytes(u64),
    Seconds(f64),
    /// Of 1.
    Share(f64),
    /// Bytes per second.
    Rate(f64),
    Text(String),
}

/// What a finding is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A file, by its index.
    File(u32),
    /// A process, by its index.
    Process(u32),
    Directory(Vec<u8>),
    Mount(Vec<u8>),
}

/// One finding.
#[derive(Clone, Debug)]
pub struct Finding {
    pub code: &'static str,
    pub saving: Saving,
    /// In one sentence.
    pub title: String,
    /// By name, which says the unit.
    pub evidence: Vec<(&'static str, Value)>,
    pub subjects: Vec<Subject>,
    pub advice: String,
    /// Codes of findings on the same time that this one explains.
    pub also: Vec<&'static str>,
}

/// Findings that only a run can have of which it is known what main threads waited for.
pub const OF_WAITS: [&str; 5] = [
    "storage-bound",
    "startup-waits-for-storage",
    "decode-bound",
    "too-few-cpus",
    "loader-polls",
];

/// Share of the run below which the job did not wait.
const MIN_WAITED_SHARE: f64 = 0.01;

/// Subjects that a finding names.
const MAX_SUBJECTS: usize = 10;

/// What findings are made from.
pub(super) struct Data<'a> {
    pub model: &'a Model,
    pub run: &'a Run,
    pub sorted: &'a [Sorted],
    pub uses: &'a Uses,
    pub analysis: &'a Analysis,
    pub thresholds: &'a Thresholds,
}

impl Data<'_> {
    /// A threshold.
    fn limit(&self, index: usize) -> f64 {
        self.thresholds[index]
    }

    /// What main threads waited for, where that is known.
    fn exposed(&self) -> Option<Exposed> {
        self.analysis.waits.exposed(self.run)
    }

    /// As [`share_of`], of the run that is looked at.
    fn share_of_run(&self, ns: u64) -> f64 {
        share_of(self.run, ns)
    }

    /// Of time in calls of a phase, summed over threads, the wall time of the run that it took at most, nanoseconds.
    fn wall(&self, phase: Phase, ns: u64) -> u64 {
        let slices = &self.uses.series.slices;
        let duration = self.run.duration_ns;
        // Recordings of the first version have no merged time.
        match of_slices(slices, duration, |one| one == phase) {
            (_, 0) => ns.min(duration),
            (_, at_most) => ns.min(at_most).min(duration),
        }
    }

    /// The saving of a finding: `at_most_ns` nanoseconds of wall time, and no more than the run.
    fn saving(
        &self,
        at_most_ns: u64,
        confidence: Confidence,
        not_looked_at: &'static [&'static str],
    ) -> Saving {
        let mut at_most_ns = at_most_ns.min(self.run.duration_ns);
        let (mut confidence, mut not_looked_at) = (confidence, not_looked_at);
        let mut is_hidden = false;
        if let (Some(exposed), [MAYBE_COMPUTING, rest @ ..]) = (self.exposed(), not_looked_at) {
            // It is known whether the job computed meanwhile.
            at_most_ns = at_most_ns.min(exposed.improvable);
            not_looked_at = rest;
            is_hidden = self.share_of_run(at_most_ns) < MIN_WAITED_SHARE;
            if confidence == Confidence::Medium {
                confidence = Confidence::High;
            }
        }
        Saving {
            is_hidden,
            ..Saving::of(self.run, at_most_ns, confidence, not_looked_at)
        }
    }
}

/// Nanoseconds as a share of a run; 0 for a run without time.
fn share_of(run: &Run, ns: u64) -> f64 {
    if run.duration_ns == 0 {
        0.0
    } else {
        ns as f64 / run.duration_ns as f64
    }
}

impl Saving {
    /// `at_most_ns` nanoseconds of wall time that the job waited, and no more than the run.
    fn of(
        run: &Run,
        at_most_ns: u64,
        confidence: Confidence,
        not_looked_at: &'static [&'static str],
    ) -> Self {
        let at_most_ns = at_most_ns.min(run.duration_ns);
        Self {
            at_most_ns,
            severity: Severity::of_share(share_of(run, at_most_ns)),
            confidence,
            not_looked_at,
            predictions: Predictions::default(),
            is_hidden: false,
        }
    }
}

/// All findings, those that save the most time first; of one cause, one.
pub(super) fn find(data: &Data<'_>) -> Vec<Finding> {
    let mut findings = thread::scope(|scope| {
        let of_order = scope.spawn(|| by_order(data));
        let mut findings = by_counts(data);
        findings.extend(joined(of_order));
        findings
    });
    findings.extend(waits::storage_bound(data));
    findings.extend(waits::slow_start(data));
    findings.extend(waits::of_loader(data));
    findings.extend(waits::too_few_cpus(data));
    findings.retain(|finding: &Finding| !finding.saving.is_hidden);
    let mut findings = causes::merge(data, findings);
    sort(&mut findings);
    findings
}

/// What counts and times say.
fn by_counts(data: &Data<'_>) -> Vec<Finding> {
    let facts = Facts::new(data);
    let usual = saving::usual_pause(data);
    let mut findings = Vec::new();
    findings.extend(hangs::call_hangs(data));
    findings.extend(long_call::long_call(data, &facts));
    findings.extend(input::bound(data, &facts));
    findings.extend(input::mapped_waits(data));
    findings.extend(access::tiny(data, &facts));
    findings.extend(access::frequent_syncs(data, &facts));
    findings.extend(access::small_files(data, &facts));
    findings.extend(access::open_per_sample(data, &facts));
    findings.extend(starting::metadata_storm(data));
    findings.extend(saving::fsync_bound(data, usual));
    findings.extend(saving::one_writer(data, usual));
    findings.extend(saving::stalled(data, usual));
    let is_of_saves = |finding: &Finding| causes::HELD_UP_BY_SAVES.contains(&finding.code);
    if !findings.iter().any(is_of_saves) {
        findings.extend(saving::by_main_threads(data));
    }
    findings.extend(saving::not_durable(data));
    findings.extend(saving::cut_off(data));
    findings.extend(workers::unbalanced(data));
    findings.extend(workers::idle(data));
    findings.extend(storage::stage(data, &facts));
    findings.extend(storage::reread(data));
    findings.extend(storage::slow_file(data, &facts));
    findings.extend(storage::slow_mount(data, &facts));
    findings.extend(storage::bandwidth_reached(data, &facts));
    findings.extend(passes::cold_first_epoch(data));
    findings.extend(passes::read_again_by_ranks(data, &facts));
    findings.extend(passes::read_amplification(data));
    findings
}

/// What the order of reads says.
fn by_order(data: &Data<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !data.uses.is_coarse {
        findings.extend(audit::same_order(data));
        findings.extend(audit::ranks_read_the_same(data));
        findings.extend(audit::samples_never_read(data));
        findings.extend(audit::validation_in_training(data));
    }
    findings
}

/// Adds a finding.
pub(super) fn add(findings: &mut Vec<Finding>, finding: Finding) {
    findings.push(finding);
    sort(findings);
}

/// Puts those first that save the most time.
fn sort(findings: &mut [Finding]) {
    findings.sort_by_key(|finding| Reverse(finding.saving.at_most_ns));
}

/// The largest of `items` by `key`, as subjects; those of one size by their names.
fn largest<T>(
    data: &Data<'_>,
    items: impl IntoIterator<Item = T>,
    key: impl Fn(&T) -> u64,
    subject: impl Fn(&T) -> Subject,
) -> Vec<Subject> {
    let name = |subject: &Subject| match subject {
        Subject::File(file) => data.model.file(*file).path.to_vec(),
        Subject::Process(process) => {
            let id = data.model.processes()[*process as usize].id;
            id.pid.to_be_bytes().to_vec()
        }
        Subject::Directory(path) | Subject::Mount(path) => path.clone(),
    };
    let items = items.into_iter();
    let mut ranked: Vec<_> = items.map(|item| (Reverse(key(&item)), item)).collect();
    if ranked.len() > MAX_SUBJECTS {
        let (_, (least, _), _) =
            ranked.select_nth_unstable_by_key(MAX_SUBJECTS - 1, |(key, _)| *key);
        let least = *least;
        ranked.retain(|(key, _)| *key <= least);
    }
    let ranked = ranked.into_iter().map(|(key, item)| (key, subject(&item)));
    let mut ranked: Vec<_> = ranked.collect();
    ranked.sort_by_cached_key(|(key, subject)| (*key, name(subject)));
    ranked.truncate(MAX_SUBJECTS);
    ranked.into_iter().map(|(_, subject)| subject).collect()
}

fn seconds(ns: u64) -> Value {
    Value::Seconds(ns as f64 / 1e9)
}
