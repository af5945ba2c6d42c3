//! Whether a run is bound by its file I/O, as far as its recording tells.
//!
//! Where waits were kept, the verdict is what the main threads waited for. Else it rests on bounds: the run cannot have waited for
//! files for longer than some process was in a call on one. `NotIoBound` is a statement; `LikelyIoBound` rests on a finding; all
//! else is unclear.

use std::collections::BTreeMap;

use super::{
    Report,
    json::entries::seconds,
    merged::{self, Merged},
    units::{count, duration, share, shares},
};
use iotrace_analysis::{
    findings::{Confidence, Finding, Severity, not_looked_at},
    merged::by_group,
    waits::{Exposed, Spent},
};
use iotrace_model::{
    counters::{Counters, MAJOR_FAULT_NS, saturating_sum},
    groups::Groups,
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
}

/// A verdict with its bounds.
#[derive(Clone, Copy, Debug)]
pub struct Judgement<'a> {
    pub verdict: Verdict,
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
        let run = report.run.duration_ns;
        let taken = shares(self.at_least_ns, self.at_most_ns, run);
        match self.verdict {
            Verdict::NothingRecorded => {
                "NOTHING RECORDED: no traced process used a file".to_owned()
            }
            Verdict::CallsHang => {
                let calls = &report.run.in_flight;
                let longest = calls.iter().map(|call| call.ns).max().unwrap_or(0);
                let what = match calls.len() as u64 {
                    1 => "1 call has".to_owned(),
                    many => format!("{} calls have", count(many)),
                };
                let longest = duration(longest);
                format!("CALLS HANG: {what} not returned, the longest for {longest}")
            }
            Verdict::LikelyIoBound => format!("LIKELY I/O-BOUND: file I/O took {taken} of the run"),
            Verdict::WaitsForStorage => {
                let is_start = self.exposed.as_ref().is_some_and(Exposed::is_mostly_start);
                let what = match is_start {
                    true => "for storage, mostly at the start",
                    false => "for storage",
                };
                self.waited("I/O-BOUND", what, Spent::storage)
            }
            Verdict::WaitsForLoader => {
                let of = |spent: &Spent| spent.of(Leaf::Computing);
                self.waited("LOADER-BOUND", "for the loader's computing", of)
            }
            Verdict::WaitsForCpus => {
                let of = |spent: &Spent| spent.of(Leaf::RunQueue);
                self.waited("TOO FEW CPUS", "for a CPU", of)
            }
            Verdict::NotIoBound if self.exposed.is_some() => {
                self.waited("NOT I/O-BOUND", "for storage", Spent::storage)
            }
            Verdict::NotIoBound => {
                let most = share(self.at_most_ns, run);
                let most = match most.strip_prefix('<') {
                    Some(most) => format!("less than {most}"),
                    None => format!("at most {most}"),
                };
                format!("NOT I/O-BOUND: file I/O took {most} of the run")
            }
            Verdict::Unclear => {
                format!(
                    "NOT CLEAR: file I/O took {taken} of the run; whether the job waited is not known"
                )
            }
            Verdict::NotOneJob => {
                "All processes of the machine, each program by itself:".to_owned()
            }
            Verdict::PartOfFiles => {
                format!("PART OF THE FILES: I/O on them took {taken} of the run")
            }
        }
    }
}

impl Judgement<'_> {
    /// What main threads waited for, in a line.
    fn waited(&self, verdict: &str, what: &str, of: impl Fn(&Spent) -> u64) -> String {
        let Some(exposed) = &self.exposed else {
            return verdict.to_owned();
        };
        let (ns, whole) = (of(&exposed.spent), exposed.spent.whole());
        let who = match exposed.threads {
            1 => "the main thread".to_owned(),
            threads => format!("{} main threads", count(threads)),
        };
        if ns == 0 {
            return format!("{verdict}: {who} did not wait {what}");
        }
        let part = share(ns, whole);
        format!("{verdict}: {who} waited {part} ({}) {what}", duration(ns))
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

/// A program of a machine-wide recording, with its workers.
pub struct Program {
    /// Its first process, by index.
    pub leader: u32,
    /// How long it lived within the run, nanoseconds.
    pub lifetime_ns: u64,
    /// Merged time in calls on files, nanoseconds.
    pub merged: Merged,
    pub counters: Counters,
}

impl Report<'_> {
    /// What findings do not rest on.
    pub(super) fn not_looked_at(&self) -> Vec<&'static str> {
        let has_waits = !self.model.waits().is_empty();
        not_looked_at(&self.totals.counters, self.run, has_waits)
    }

    /// Judges the run.
    pub(super) fn judge(&self) -> Judgement<'_> {
        let merged = self.file_time(|_| true);
        let faults = self.fault_time();
        let run = self.run.duration_ns;
        let inside = merged.at_most.saturating_add(faults.at_most);
        let at_most_ns = inside.saturating_add(self.elsewhere_ns()).min(run);
        let at_least_ns = merged.at_least.max(faults.at_least).min(at_most_ns);
        let findings = &self.analysis.findings;
        let hang = findings.iter().find(|finding| finding.code == "call-hangs");
        let worst = findings.iter().find(|finding| {
            let saving = &finding.saving;
            saving.severity == Severity::High && saving.confidence >= Confidence::Medium
        });
        let operations = self.totals.counters.operations();
        let is_recorded = operations > 0 || faults.at_most > 0 || !self.run.in_flight.is_empty();
        let lost = saturating_sum(self.losses(true).into_values());
        let is_known = lost as f64 <= operations as f64 * MAX_LOST_SHARE;
        let is_small = (at_most_ns as f64) < run as f64 * MAX_UNBOUND_SHARE;
        let exposed = self.analysis.waits.exposed(self.run);
        let waited = exposed.as_ref().filter(|_| is_known).map(by_waits);
        let waited = waited.filter(|verdict| is_recorded || *verdict != Verdict::NotIoBound);
        let (verdict, finding) = match (hang, waited, worst) {
            _ if self.is_selection() => (Verdict::PartOfFiles, None),
            (Some(hang), ..) => (Verdict::CallsHang, Some(hang)),
            _ if matches!(self.run.target, Target::All(_)) => (Verdict::NotOneJob, None),
            (None, Some(verdict), _) => (verdict, None),
            _ if !is_recorded => (Verdict::NothingRecorded, None),
            _ if is_small && is_known => (Verdict::NotIoBound, None),
            (None, None, Some(worst)) => (Verdict::LikelyIoBound, Some(worst)),
            (None, None, None) => (Verdict::Unclear, None),
        };
        Judgement {
            verdict,
            at_least_ns,
            at_most_ns,
            finding,
            exposed,
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

    /// The programs of the recording, those with the most time in calls first.
    pub(super) fn programs(&self) -> Vec<Program> {
        let groups = Groups::new(self.model);
        let slices = &self.analysis.series.slices;
        let merged = by_group(slices, self.run.duration_ns, |process| groups.of(process));
        let mut sums: BTreeMap<u32, Counters> = BTreeMap::new();
        for (index, process) in (0..).zip(&self.processes) {
            let sum = sums.entry(groups.of(index)).or_insert(Counters::ZERO);
            sum.absorb(&process.sum.counters);
        }
        let mut programs: Vec<Program> = Vec::new();
        for (leader, (at_least, at_most)) in merged {
            let counters = sums.remove(&leader).unwrap_or(Counters::ZERO);
            programs.push(Program {
                leader,
                lifetime_ns: self.breakdown_of(leader).whole_ns,
                merged: Merged {
                    at_least,
                    at_most,
                    in_calls: counters.nanoseconds(),
                    uncertain: None,
                },
                counters,
            });
        }
        programs.sort_by_key(|program| std::cmp::Reverse(program.merged.in_calls));
        programs
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
