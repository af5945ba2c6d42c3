//! I/O by phase, and the components of the run's time.

use std::io;

use crate::json::entries::{CounterMap, Entries, Entry, Object, entries, seconds};
use crate::text::{
    table::{Page, Style, Table},
    units::{bytes, count, duration, rate, share, some_bytes},
};
use crate::{
    Report,
    merged::{self, Breakdown, Merged},
    overlapped::Overlapped,
    text::units,
};
use iotrace_analysis::{phases::PhaseSums, sum::Sum};
use iotrace_model::counters::{self, Counters};
use iotrace_phases::phase::{Class, Phase};
use serde::{Serialize, Serializer, ser::SerializeMap};
use serde_json::{Value as Json, json};

/// A phase in a few words, as what time went into.
pub const fn label(phase: Phase) -> &'static str {
    match phase {
        Phase::Training => "training reads",
        Phase::Checkpoint => "checkpoints",
        Phase::Restore => "model loads",
        Phase::Startup => "startup",
        Phase::Other(_) => "other files",
    }
}

/// What was done in each phase.
pub fn text(report: &Report<'_>, page: &mut Page<'_>) -> io::Result<()> {
    let used: Vec<_> = Phase::ALL
        .into_iter()
        .filter_map(|phase| Some((phase, report.phases.get(phase)?)))
        .collect();
    if used.is_empty() {
        return Ok(());
    }
    page.section("Phases")?;
    let mut table = Table::new(&[
        "<",
        "READ",
        "WRITTEN",
        "CALLS",
        "TIME",
        "MERGED",
        "OF RUN",
        "BYTES / MERGED",
        "FILES",
    ])
    .dispensable(&["BYTES / MERGED", "CALLS"]);
    for (phase, sum) in used {
        let merged = report.merged(|other| other == phase);
        let counters = &sum.sum.counters;
        let cells = cells(report, phase.to_string(), counters, Some(merged), sum.files);
        table.row(cells);
    }
    let mut no_file = Sum::default();
    no_file.add(&report.path_only);
    no_file.add(&report.overflow);
    if no_file.counters.operations() > 0 {
        let cells = cells(report, "no file".into(), &no_file.counters, None, 0);
        table.styled_row(Style::Dim, cells);
    }
    page.table(table)?;
    components(report, page)?;
    overlapped(report, page)?;
    let unmatched = report
        .phases
        .get(Phase::UNMATCHED)
        .map_or(0, |sum| sum.sum.counters.bytes());
    if unmatched > 0 {
        let text = format!(
            "No rule matches the files of {}: `iotrace phases` lists the rules, and `--rules` takes more.",
            bytes(unmatched)
        );
        page.prose(Style::Dim, &text)?;
    }
    Ok(())
}

/// What the time of the run went into.
fn components(report: &Report<'_>, page: &mut Page<'_>) -> io::Result<()> {
    let run = report.run.duration_ns;
    let breakdown = report.breakdown();
    if run == 0 || breakdown.read.at_most.max(breakdown.checkpoint.at_most) == 0 {
        return Ok(());
    }
    let part = |merged: &Merged| {
        let (time, of_run) = (duration(merged.at_most), share(merged.at_most, run));
        format!("{}{time} ({of_run})", bound(merged))
    };
    let (least, most) = (breakdown.rest_at_least(), breakdown.rest_at_most());
    let rest = if least == most {
        duration(most)
    } else {
        format!("{} to {}", duration(least), duration(most))
    };
    let text = format!(
        "Of {}: reads of training data {}, checkpoints {}, the rest {rest}. Merged time counts what overlaps once{}.",
        duration(run),
        part(&breakdown.read),
        part(&breakdown.checkpoint),
        if breakdown.read.is_exact() && breakdown.checkpoint.is_exact() {
            ""
        } else {
            "; over processes that overlap it is known within bounds only (≤)"
        }
    );
    page.prose(Style::Plain, &text)
}

/// How much of reads and saves overlapped with computing.
fn overlapped(report: &Report<'_>, page: &mut Page<'_>) -> io::Result<()> {
    let named = [
        (Phase::Training, "reads of training data"),
        (Phase::Checkpoint, "checkpoints"),
    ];
    let parts = named.into_iter().filter_map(|(phase, name)| {
        let merged = report.merged(|other| other == phase);
        let both = report.overlapped(&merged, |other| other == phase)?;
        let (least, most) = (duration(both.at_least), duration(both.at_most));
        let time = match both.at_least == both.at_most {
            true => most,
            false => format!("{least} to {most}"),
        };
        (merged.at_most > 0).then(|| format!("{time} of {name}"))
    });
    let parts: Vec<String> = parts.collect();
    if parts.is_empty() {
        return Ok(());
    }
    let text = format!(
        "While other threads of the job computed: {}.",
        parts.join(", ")
    );
    page.prose(Style::Plain, &text)
}

/// The sign before a merged time that is not exact.
fn bound(merged: &Merged) -> &'static str {
    if merged.is_exact() { "" } else { "≤" }
}

fn cells(
    report: &Report<'_>,
    name: String,
    counters: &Counters,
    merged: Option<Merged>,
    files: u64,
) -> Vec<String> {
    let v = &counters.v;
    let merged = merged.unwrap_or_default();
    let known = merged.at_most > 0;
    let some = |text: String| if known { text } else { String::new() };
    let at_least = if merged.is_exact() { "" } else { "≥" };
    let rate = rate(counters.bytes(), merged.at_most);
    vec![
        name,
        some_bytes(v[counters::BYTES_READ]),
        some_bytes(v[counters::BYTES_WRITTEN]),
        count(counters.operations()),
        duration(counters.nanoseconds()),
        some(format!("{}{}", bound(&merged), duration(merged.at_most))),
        some(share(merged.at_most, report.run.duration_ns)),
        if rate.is_empty() {
            rate
        } else {
            format!("{at_least}{rate}")
        },
        units::some(files),
    ]
}

/// Names of the phases, in the order of the reports.
pub const NAMES: [&str; 5] = ["startup", "training", "checkpoint", "restore", "other"];

/// Counters by name of the phase.
pub struct PhasesJson<'a> {
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
                    Some(_) => self.report.merged_of(self.sums, name),
                    None => self.report.merged(|phase| phase.name() == name),
                };
                let whole_ns = match self.process {
                    Some(process) => self.report.breakdown_of(process).whole_ns,
                    None => self.report.run.duration_ns,
                };
                let overlapped = match self.process {
                    Some(_) => None,
                    None => self
                        .report
                        .overlapped(&merged, |phase| phase.name() == name),
                };
                let in_flight_ns = self.report.in_flight_ns(name, self.process);
                let has_classes = name == Phase::UNMATCHED.name();
                let phase = Object(entries![
                    Entry("files", files),
                    merged_entries(&merged, overlapped, &sum, whole_ns),
                    (in_flight_ns > 0).then(|| Entry("in_flight_seconds", seconds(in_flight_ns))),
                    CounterMap::of_sum(self.report, &sum),
                    has_classes.then(|| Entry("classes", classes_json(self.report, self.sums))),
                ]);
                map.serialize_entry(name, &phase)?;
            }
        }
        map.end()
    }
}

/// What merged time says of a phase; `whole_ns` is the time that it is a share of.
fn merged_entries(
    merged: &Merged,
    overlapped: Option<Overlapped>,
    sum: &Sum,
    whole_ns: u64,
) -> impl Entries {
    let uncertain = merged.uncertain;
    let bandwidth = merged.bandwidth(sum.counters.bytes());
    entries![
        Entry("merged_seconds", seconds(merged.at_most)),
        Entry("merged_seconds_at_least", seconds(merged.at_least)),
        Entry("merged_exact", merged.is_exact()),
        uncertain.map(|ns| Entry("merged_uncertain_seconds", seconds(ns))),
        overlapped.map(|overlapped| (
            Entry("overlapped_seconds", seconds(overlapped.at_most)),
            Entry("overlapped_seconds_at_least", seconds(overlapped.at_least)),
        )),
        Entry("bandwidth_bytes_per_second", bandwidth),
        Entry("share_of_run", merged::share(merged.at_most, whole_ns)),
        Entry("concurrency", merged.concurrency()),
    ]
}

/// The key `classes`: files that no rule matches, by class.
fn classes_json<'a>(report: &'a Report<'a>, sums: &'a PhaseSums) -> impl Serialize {
    let classes = Class::ALL.into_iter().filter_map(|class| {
        let phase = sums.get(Phase::Other(Some(class)))?;
        let counters = CounterMap::of_sum(report, &phase.sum);
        let object = Object((Entry("files", phase.files), counters));
        Some(Entry(class.name(), object))
    });
    Object(classes.collect::<Vec<_>>())
}

/// The components of a run, or of one process.
pub fn breakdown(breakdown: &Breakdown) -> Json {
    let whole = breakdown.whole_ns;
    let component = |at_most: u64, at_least: u64| {
        json!({
            "seconds": seconds(at_most),
            "seconds_at_least": seconds(at_least),
            "share_of_run": merged::share(at_most, whole),
        })
    };
    json!({
        "seconds": seconds(whole),
        "read": component(breakdown.read.at_most, breakdown.read.at_least),
        "checkpoint": component(breakdown.checkpoint.at_most, breakdown.checkpoint.at_least),
        "rest": component(breakdown.rest_at_most(), breakdown.rest_at_least()),
    })
}
