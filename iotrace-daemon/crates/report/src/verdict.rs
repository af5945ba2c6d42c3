//! Whether a run is bound by its file I/O, as far as its recording tells.
//!
//! Where waits were kept, the verdict is what the main threads waited for. Else it rests on bounds: the run cannot have waited for
//! files for longer than some process was in a call on one. `NotIoBound` is a statement; `LikelyIoBound` rests on a finding; all
//! else is unclear. Programs of a machine (`programs`) are judged by the same function.

use super::{
    Report,
    json::entries::seconds,
    merged::{self, Merged},
    units::{count, duration, share, shares},
};
use iotrace_analysis::{
    findings::{Confidence, Finding, Severity, not_looked_at},
    waits::{Exposed, Spent},
};
use iotrace_model::{
    counters::{MAJOR_FAULT_NS, saturating_sum},
    run::Target,
    waits::Leaf,
};
use iotrace_phases::phase::Phase;
use serde_json::{Value as Json, json};

/// Share of the run up to which file I/O does not bound it.
const MAX_UNBOUND_SHARE: f64 = 0.1;
/// Share of the operations up to which lost ones do not put the bounds in doubt.
const MAX_LOST_SHARE: f64 = 0.01;

/// What is said of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// No call on a file was seen.
    NothingRecorded,
    /// Calls have not returned for long.
    CallsHang,
    LikelyIoBound,
    /// Main threads waited for storage, for their loader's computing, or for a CPU.
    WaitsForStorage,
    WaitsForLoader,
    WaitsForCpus,
    NotIoBound,
    /// File I/O took its part of the run, and whether the job waited for it is not known.
    Unclear,
    /// All processes of a machine are no one job.
    NotOneJob,
    /// A part of the files is not judged.
    PartOfFiles,
}

impl Verdict {
    /// As reports write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NothingRecorded => "nothing-recorded",
            Self::CallsHang => "calls-hang",
            Self::LikelyIoBound => "likely-io-bound",
            Self::WaitsForStorage => "waits-for-storage",
            Self::WaitsForLoader => "waits-for-loader",
            Self::WaitsForCpus => "waits-for-cpus",
            Self::NotIoBound => "not-io-bound",
            Self::Unclear => "unclear",
            Self::NotOneJob => "not-one-job",
            Self::PartOfFiles => "part-of-files",
        }
    }

    /// As the first words of a line for people.
    pub const fn label(self) -> &'static str {
        match self {
            Self::NothingRecorded => "NOTHING RECORDED",
            Self::CallsHang => "CALLS HANG",
            Self::LikelyIoBound => "LIKELY I/O-BOUND",
            Self::WaitsForStorage => "I/O-BOUND",
            Self::WaitsForLoader => "LOADER-BOUND",
            Self::WaitsForCpus => "TOO FEW CPUS",
            Self::NotIoBound => "NOT I/O-BOUND",
            Self::Unclear => "NOT CLEAR",
            Self::NotOneJob => "All processes of the machine",
            Self::PartOfFiles => "PART OF THE FILES",
        }
    }

    /// Whether it says that something is to be changed, or that nothing is; `None` if it says neither.
    pub const fn is_good(self) -> Option<bool> {
        match self {
            Self::NothingRecorded
            | Self::CallsHang
            | Self::LikelyIoBound
            | Self::WaitsForStorage
            | Self::WaitsForLoader
            | Self::WaitsForCpus => Some(false),
            Self::NotIoBound => Some(true),
            Self::Unclear | Self::NotOneJob | Self::PartOfFiles => None,
        }
    }
}

/// A verdict with its bounds, of a run or of one program of it.
#[derive(Clone, Copy, Debug)]
pub struct Judgement<'a> {
    pub verdict: Verdict,
    /// Length of the run, or lifetime of the program, nanoseconds.
    pub whole_ns: u64,
    /// Time in which some process was in a call on a file, or waited for a page of one, nanoseconds.
    pub at_least_ns: u64,
    pub at_most_ns: u64,
    /// What the verdict rests on, if it is a finding.
    pub finding: Option<&'a Finding>,
    /// What it rests on, if waits are known.
    pub exposed: Option<Exposed>,
}

impl Judgement<'_> {
    /// The verdict in one line.
    pub fn text(&self, report: &Report<'_>) -> String {
        let (verdict, run) = (self.verdict.label(), self.whole_ns);
        let taken = shares(self.at_least_ns, self.at_most_ns, run);
        match self.verdict {
            Verdict::NothingRecorded if report.is_incomplete() => {
                format!("{verdict}: the recording is not complete")
            }
            Verdict::NothingRecorded => format!("{verdict}: no traced process used a file"),
            Verdict::CallsHang => {
                let calls = &report.run.in_flight;
                let longest = calls.iter().map(|call| call.ns).max().unwrap_or(0);
                let what = match calls.len() as u64 {
                    1 => "1 call has".to_owned(),
                    many => format!("{} calls have", count(many)),
                };
                let longest = duration(longest);
                format!("{verdict}: {what} not returned, the longest for {longest}")
            }
            Verdict::LikelyIoBound => format!("{verdict}: file I/O took {taken} of the run"),
            Verdict::WaitsForStorage => {
                let is_start = self.exposed.as_ref().is_some_and(Exposed::is_mostly_start);
                let what = match is_start {
                    true => "for storage, mostly at the start",
                    false => "for storage",
                };
                self.waited(what, Spent::storage)
            }
            Verdict::WaitsForLoader => {
                let of = |spent: &Spent| spent.of(Leaf::Computing);
                self.waited("for the loader's computing", of)
            }
            Verdict::WaitsForCpus => {
                let of = |spent: &Spent| spent.of(Leaf::RunQueue);
                self.waited("for a CPU", of)
            }
            Verdict::NotIoBound if self.exposed.is_some() => {
                self.waited("for storage", Spent::storage)
            }
            Verdict::NotIoBound => {
                let most = share(self.at_most_ns, run);
                let most = match most.strip_prefix('<') {
                    Some(most) => format!("less than {most}"),
                    None => format!("at most {most}"),
                };
                format!("{verdict}: file I/O took {most} of the run")
            }
            Verdict::Unclear if self.exposed.is_some() => self.in_calls(),
            Verdict::Unclear => {
                format!(
                    "{verdict}: file I/O took {taken} of the run; whether the job waited is not known"
                )
            }
            Verdict::NotOneJob => format!("{verdict}, each program by itself:"),
            Verdict::PartOfFiles => format!("{verdict}: I/O on them took {taken} of the run"),
        }
    }

    /// How long main threads ran in calls on files, in a line.
    fn in_calls(&self) -> String {
        let verdict = self.verdict.label();
        let Some(exposed) = &self.exposed else {
            return verdict.to_owned();
        };
        let whole = exposed.spent.whole();
        let (waited, ran) = (
            share(exposed.spent.storage(), whole),
            share(exposed.ran_in_calls, whole),
        );
        let who = who(exposed);
        format!("{verdict}: {who} ran {ran} in calls on files, waited {waited} for storage")
    }

    /// What main threads waited for, in a line.
    fn waited(&self, what: &str, of: impl Fn(&Spent) -> u64) -> String {
        let verdict = self.verdict.label();
        let Some(exposed) = &self.exposed else {
            return verdict.to_owned();
        };
        let (ns, whole) = (of(&exposed.spent), exposed.spent.whole());
        let who = who(exposed);
        if ns == 0 {
            return format!("{verdict}: {who} did not wait {what}");
        }
        let part = share(ns, whole);
        format!("{verdict}: {who} waited {part} ({}) {what}", duration(ns))
    }
}

/// The threads that a run is judged by.
fn who(exposed: &Exposed) -> String {
    match exposed.threads {
        1 => "the main thread".to_owned(),
        threads => format!("{} main threads", count(threads)),
    }
}

/// The verdict by what main threads waited for: what they waited for longest, if that is worth a word.
fn by_waits(exposed: &Exposed) -> Verdict {
    let waited = [
        (exposed.spent.storage(), Verdict::WaitsForStorage),
        (exposed.spent.of(Leaf::Computing), Verdict::WaitsForLoader),
        (exposed.spent.of(Leaf::RunQueue), Verdict::WaitsForCpus),
    ];
    let longest = waited.into_iter().max_by_key(|(ns, _)| *ns);
    match longest {
        Some((ns, verdict)) if exposed.share(ns) >= MAX_UNBOUND_SHARE => verdict,
        _ => Verdict::NotIoBound,
    }
}

/// What a verdict rests on.
pub struct Evidence {
    /// Whether anything was counted.
    pub is_recorded: bool,
    /// Merged time in calls on files.
    pub calls: Merged,
    /// Time in page faults that waited for storage.
    pub faults: Merged,
    /// Time in calls that belong to no file, nanoseconds.
    pub elsewhere_ns: u64,
    /// Length of the run, or lifetime of the program, nanoseconds.
    pub whole_ns: u64,
    /// What main threads waited for, if that is known.
    pub exposed: Option<Exposed>,
    /// Whether reads or saves take so much of it that it is likely bound by them.
    pub is_likely: bool,
}

impl Report<'_> {
    /// What findings do not rest on.
    pub(super) fn not_looked_at(&self) -> Vec<&'static str> {
        // A part of the files has no waits even if they were recorded: what it is of says so.
        let has_waits = self.is_selection() || !self.model.waits().is_empty();
        not_looked_at(&self.totals.counters, self.run, has_waits)
    }

    /// Judges the run.
    pub(super) fn judge(&self) -> Judgement<'_> {
        let findings = &self.analysis.findings;
        let hang = findings.iter().find(|finding| finding.code == "call-hangs");
        let worst = findings.iter().find(|finding| {
            let saving = &finding.saving;
            saving.severity == Severity::High && saving.confidence >= Confidence::Medium
        });
        let faults = self.fault_time();
        let evidence = Evidence {
            is_recorded: self.totals.counters.operations() > 0
                || faults.at_most > 0
                || !self.run.in_flight.is_empty(),
            calls: self.file_time(|_| true),
            faults,
            elsewhere_ns: self.elsewhere_ns(),
            whole_ns: self.run.duration_ns,
            exposed: self.analysis.waits.exposed(self.run),
            is_likely: worst.is_some(),
        };
        let judged = self.judge_by(&evidence);
        let (verdict, finding) = match (hang, judged.verdict) {
            _ if self.is_selection() => (Verdict::PartOfFiles, None),
            (Some(hang), _) => (Verdict::CallsHang, Some(hang)),
            (None, Verdict::NothingRecorded) => (Verdict::NothingRecorded, None),
            _ if matches!(self.run.target, Target::All(_)) => (Verdict::NotOneJob, None),
            (None, Verdict::LikelyIoBound) => (Verdict::LikelyIoBound, worst),
            (None, verdict) => (verdict, None),
        };
        Judgement {
            verdict,
            finding,
            ..judged
        }
    }

    /// The verdict of a run, or of a program.
    pub(super) fn judge_by(&self, evidence: &Evidence) -> Judgement<'static> {
        let Evidence {
            is_recorded,
            calls,
            faults,
            ..
        } = evidence;
        let whole = evidence.whole_ns;
        let inside = calls.at_most.saturating_add(faults.at_most);
        let at_most_ns = inside.saturating_add(evidence.elsewhere_ns).min(whole);
        let at_least_ns = calls.at_least.max(faults.at_least).min(at_most_ns);
        let lost = saturating_sum(self.losses(true).into_values());
        let recorded = self.totals.counters.operations();
        let is_known = lost as f64 <= recorded as f64 * MAX_LOST_SHARE;
        let is_small = (at_most_ns as f64) < whole as f64 * MAX_UNBOUND_SHARE;
        let waited = evidence.exposed.as_ref().filter(|_| is_known).map(by_waits);
        let waited = waited.filter(|verdict| *is_recorded || *verdict != Verdict::NotIoBound);
        // It did not wait much: its calls on files took CPU time.
        let is_in_calls = evidence.exposed.as_ref().is_some_and(|exposed| {
            let spent = exposed.spent.storage().saturating_add(exposed.ran_in_calls);
            exposed.share(spent) >= MAX_UNBOUND_SHARE
        });
        let verdict = match waited {
            Some(Verdict::NotIoBound) if is_in_calls && evidence.is_likely => {
                Verdict::LikelyIoBound
            }
            Some(Verdict::NotIoBound) if is_in_calls => Verdict::Unclear,
            Some(verdict) => verdict,
            None if !is_recorded => Verdict::NothingRecorded,
            None if is_small && is_known => Verdict::NotIoBound,
            None if evidence.is_likely => Verdict::LikelyIoBound,
            None => Verdict::Unclear,
        };
        Judgement {
            verdict,
            whole_ns: whole,
            at_least_ns,
            at_most_ns,
            finding: None,
            exposed: evidence.exposed,
        }
    }

    /// Time in page faults on mapped files that waited for storage: that of the process that waited most, and of all.
    pub(super) fn fault_time(&self) -> Merged {
        let processes = self.processes.iter();
        let faults = processes.map(|process| process.sum.counters.v[MAJOR_FAULT_NS]);
        let run = self.run.duration_ns;
        Merged {
            at_least: faults.clone().max().unwrap_or(0).min(run),
            at_most: saturating_sum(faults).min(run),
            ..Merged::default()
        }
    }

    /// Time in calls that belong to no file, nanoseconds, summed: they are in no phase.
    pub(super) fn elsewhere_ns(&self) -> u64 {
        self.path_only.nanoseconds() + self.overflow.nanoseconds()
    }

    /// Merged time of the phases that are chosen, with a bound in recordings of the first version, too, which have none.
    pub(super) fn file_time(&self, is_chosen: impl Fn(Phase) -> bool) -> Merged {
        let merged = self.merged(is_chosen);
        match merged.at_most {
            0 => Merged {
                at_most: merged.in_calls.min(self.run.duration_ns),
                ..merged
            },
            _ => merged,
        }
    }
}

/// The key `verdict`.
pub fn json(report: &Report<'_>) -> Json {
    let judgement = report.judge();
    let run = report.run.duration_ns;
    json!({
        "code": judgement.verdict.name(),
        "text": judgement.text(report),
        "finding": judgement.finding.map(|finding| finding.code),
        "file_io_seconds_at_least": seconds(judgement.at_least_ns),
        "file_io_seconds_at_most": seconds(judgement.at_most_ns),
        "share_of_run_at_least": merged::share(judgement.at_least_ns, run),
        "share_of_run_at_most": merged::share(judgement.at_most_ns, run),
    })
}
