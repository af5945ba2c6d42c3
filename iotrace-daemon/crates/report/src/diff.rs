//! Two runs side by side, before and after a change: what each did, and which findings are gone and new.
//!
//! A pure function of two reports, written as text or as JSON. Nothing is judged but where less is plainly better (time)
//! or more (bandwidth).

use super::{Report, merged::Merged, sections::phases::NAMES};
use iotrace_analysis::{
    findings::{Finding, OF_WAITS, Value},
    saves::Event,
};
use iotrace_model::counters::{BYTES_READ, BYTES_WRITTEN, Counters, FAILURES, saturating_sum};

/// What a number is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Count,
    Bytes,
    /// Nanoseconds.
    Time,
    /// Bytes per second.
    Rate,
    /// Of one.
    Share,
}

/// Which way a change is for the better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    Less,
    More,
    /// Neither is.
    Untold,
}

/// One number of both runs; `None` where a run has none.
#[derive(Clone, Debug, PartialEq)]
pub struct Measure {
    /// As the JSON has it, with its unit where it has one.
    pub name: &'static str,
    pub unit: Unit,
    pub better: Better,
    pub before: Option<f64>,
    pub after: Option<f64>,
}

impl Measure {
    /// After by before; `None` where there is nothing to divide by.
    pub fn ratio(&self) -> Option<f64> {
        let before = self.before.filter(|before| *before > 0.0)?;
        Some(self.after? / before)
    }

    /// Whether neither run has any of it.
    pub fn is_empty(&self) -> bool {
        [self.before, self.after]
            .into_iter()
            .all(|value| value.is_none_or(|value| value == 0.0))
    }

    /// Whether it became better, or worse, by more than `tolerance` (a share).
    pub fn is_better(&self, tolerance: f64) -> Option<bool> {
        let ratio = self
            .ratio()
            .filter(|ratio| (ratio - 1.0).abs() > tolerance)?;
        match self.better {
            Better::Less => Some(ratio < 1.0),
            Better::More => Some(ratio > 1.0),
            Better::Untold => None,
        }
    }
}

/// Numbers of one subject.
#[derive(Clone, Debug, PartialEq)]
pub struct Section {
    /// `run`, a phase, `checkpoints`...
    pub name: &'static str,
    /// Whether it is a phase.
    pub is_phase: bool,
    pub measures: Vec<Measure>,
}

/// Two runs, compared.
pub struct Diff<'a> {
    pub before: &'a Report<'a>,
    pub after: &'a Report<'a>,
    pub sections: Vec<Section>,
}

impl<'a> Diff<'a> {
    /// Compares two runs. Sections of which neither run has anything are left out.
    pub fn new(before: &'a Report<'a>, after: &'a Report<'a>) -> Self {
        let mut sections = vec![section("run", [before, after].map(run))];
        for name in NAMES {
            let mut section = section(name, [before, after].map(|report| phase(report, name)));
            section.is_phase = true;
            sections.push(section);
        }
        let both = [before, after];
        sections.push(section(
            "checkpoints",
            both.map(|report| events(&report.analysis.checkpoints, true)),
        ));
        sections.push(section(
            "restores",
            both.map(|report| events(&report.analysis.restores, false)),
        ));
        sections.push(section("epochs", both.map(epochs)));
        sections.push(section("startup", both.map(startup)));
        let has_any = |section: &Section| {
            let mut measures = section.measures.iter();
            measures.any(|measure| {
                measure.before.or(Some(0.0)) != Some(0.0) || measure.after.unwrap_or(0.0) > 0.0
            })
        };
        sections.retain(has_any);
        Self {
            before,
            after,
            sections,
        }
    }

    /// Findings of the run before that the run after has not.
    pub fn gone(&self) -> impl Iterator<Item = &'a Finding> {
        without(self.before, self.after)
    }

    /// Findings of the later run that the earlier one does not have.
    pub fn new_ones(&self) -> impl Iterator<Item = &'a Finding> {
        without(self.after, self.before)
    }

    /// Findings of both, before and after.
    pub fn kept(&self) -> impl Iterator<Item = (&'a Finding, &'a Finding)> {
        let before = &self.before.analysis.findings;
        let after = self.after.analysis.findings.iter();
        after.filter_map(|one| {
            let same = before.iter().find(|other| key(other) == key(one));
            let part = || before.iter().find(|other| is_part_of(one, other));
            Some((same.or_else(part)?, one))
        })
    }

    /// What makes the two hard to compare, in sentences.
    pub fn remarks(&self) -> Vec<String> {
        let (before, after) = (self.before.run, self.after.run);
        let mut remarks = Vec::new();
        if before.detail != after.detail {
            remarks.push(format!(
                "The run before has detail {}, the one after {}",
                before.detail, after.detail
            ));
        }
        if before.target != after.target {
            remarks.push("The two runs are not of the same command".into());
        }
        if before.host != after.host {
            remarks.push(format!(
                "The run before was on {}, the one after on {}",
                before.host, after.host
            ));
        }
        let [is_before, is_after] = [self.before, self.after].map(knows_waits);
        if is_before != is_after {
            let which = if is_before { "before" } else { "after" };
            remarks.push(format!(
                "What main threads waited for is known of the run {which} alone: findings on it are not compared"
            ));
        }
        for (which, report) in [("Before", self.before), ("After", self.after)] {
            let of_run = report.remarks().into_iter();
            remarks
                .extend(of_run.map(|remark| format!("{which}: {}", remark.trim_end_matches('.'))));
        }
        remarks
    }
}

/// Findings of a run that the other one could have, and has not.
fn without<'a>(these: &'a Report<'a>, those: &'a Report<'a>) -> impl Iterator<Item = &'a Finding> {
    let are_waits_known = knows_waits(those);
    let can_have = move |one: &&Finding| are_waits_known || !OF_WAITS.contains(&one.code);
    let is_missing = |one: &&Finding| {
        let mut others = those.analysis.findings.iter();
        !others.any(|other| key(other) == key(one) || is_part_of(one, other))
    };
    let findings = these.analysis.findings.iter();
    findings.filter(can_have).filter(is_missing)
}

/// Whether another finding explains this one, and so has it as a part.
fn is_part_of(one: &Finding, other: &Finding) -> bool {
    other.also.contains(&one.code)
}

fn knows_waits(report: &Report<'_>) -> bool {
    report.analysis.waits.exposed(report.run).is_some()
}

/// What makes two findings the same one: some are there for each phase.
fn key(finding: &Finding) -> (&str, Option<&Value>) {
    let mut evidence = finding.evidence.iter();
    let phase = evidence.find(|(name, _)| *name == "phase");
    (finding.code, phase.map(|(_, phase)| phase))
}

/// A number of one run, before it meets the other's.
type Number = (&'static str, Unit, Better, Option<f64>);

/// Both runs have the same numbers in the same order.
fn section(name: &'static str, [before, after]: [Vec<Number>; 2]) -> Section {
    let pairs = before.into_iter().zip(after);
    let measures = pairs.map(|((name, unit, better, before), (.., after))| Measure {
        name,
        unit,
        better,
        before,
        after,
    });
    Section {
        name,
        is_phase: false,
        measures: measures.collect(),
    }
}

fn run(report: &Report<'_>) -> Vec<Number> {
    let counters = &report.totals.counters;
    let duration = Some(report.run.duration_ns as f64);
    let mut numbers = vec![("duration_seconds", Unit::Time, Better::Less, duration)];
    numbers.extend(done(counters));
    numbers.extend([
        count("failures", counters.v[FAILURES]),
        count("files", report.files.len() as u64),
    ]);
    numbers
}

fn phase(report: &Report<'_>, name: &str) -> Vec<Number> {
    let (sum, files) = report.phases.named(name).unwrap_or_default();
    let merged = report.merged(|phase| phase.name() == name);
    let is_there = merged != Merged::default();
    let of_run = merged.at_most as f64 / report.run.duration_ns.max(1) as f64;
    let share = is_there.then_some(of_run);
    let rate = merged.bandwidth(sum.counters.bytes());
    let rate = rate.filter(|rate| *rate > 0.0);
    let at_most = Some(merged.at_most as f64);
    let mut numbers = vec![
        ("merged_seconds", Unit::Time, Better::Less, at_most),
        ("share_of_run", Unit::Share, Better::Less, share),
        ("bandwidth_bytes_per_second", Unit::Rate, Better::More, rate),
    ];
    numbers.extend(done(&sum.counters));
    numbers.push(count("files", files));
    numbers
}

/// What any counters say was done.
fn done(counters: &Counters) -> [Number; 4] {
    let bytes = |name, index: usize| {
        (
            name,
            Unit::Bytes,
            Better::Untold,
            Some(counters.v[index] as f64),
        )
    };
    let seconds = Some(counters.nanoseconds() as f64);
    [
        ("seconds", Unit::Time, Better::Less, seconds),
        count("operations", counters.operations()),
        bytes("bytes_read", BYTES_READ),
        bytes("bytes_written", BYTES_WRITTEN),
    ]
}

fn count(name: &'static str, number: u64) -> Number {
    (name, Unit::Count, Better::Untold, Some(number as f64))
}

/// Saves or loads.
fn events(events: &[Event], are_saves: bool) -> Vec<Number> {
    let sum = |of: fn(&Event) -> u64| saturating_sum(events.iter().map(of));
    let ns = sum(Event::ns);
    let there = |value: f64| (!events.is_empty()).then_some(value);
    let rate = sum(|event| event.bytes) as f64 * 1e9 / ns.max(1) as f64;
    let longest = events.iter().map(Event::ns).max().unwrap_or(0);
    let mut numbers = vec![
        (
            "number",
            Unit::Count,
            Better::Untold,
            Some(events.len() as f64),
        ),
        (
            "bytes",
            Unit::Bytes,
            Better::Untold,
            there(sum(|event| event.bytes) as f64),
        ),
        ("seconds", Unit::Time, Better::Less, there(ns as f64)),
        (
            "mean_seconds",
            Unit::Time,
            Better::Less,
            there(ns as f64 / events.len() as f64),
        ),
        (
            "longest_seconds",
            Unit::Time,
            Better::Less,
            there(longest as f64),
        ),
        (
            "bandwidth_bytes_per_second",
            Unit::Rate,
            Better::More,
            there(rate).filter(|_| ns > 0),
        ),
    ];
    if are_saves {
        let pauses = events.iter().filter_map(|event| event.training_pause_ns);
        let pauses = pauses.reduce(u64::saturating_add);
        numbers.extend([
            (
                "fsync_seconds",
                Unit::Time,
                Better::Less,
                there(sum(|event| event.sync_ns) as f64),
            ),
            (
                "training_pause_seconds",
                Unit::Time,
                Better::Less,
                pauses.map(|ns| ns as f64),
            ),
        ]);
    }
    numbers
}

fn epochs(report: &Report<'_>) -> Vec<Number> {
    let epochs = &report.analysis.epochs.epochs;
    // Those that were put between known ones have no times to compare.
    let ns = |index: usize| {
        let epoch = epochs.get(index).filter(|epoch| epoch.is_exact)?;
        u64::try_from(epoch.end - epoch.start).ok()
    };
    let later: Vec<u64> = (1..epochs.len()).filter_map(ns).collect();
    let mean = (!later.is_empty())
        .then(|| saturating_sum(later.iter().copied()) as f64 / later.len() as f64);
    let bytes = saturating_sum(epochs.iter().map(|epoch| epoch.bytes));
    let read_ns = saturating_sum(epochs.iter().map(|epoch| epoch.read_ns));
    let there = |value: f64| (!epochs.is_empty()).then_some(value);
    vec![
        (
            "number",
            Unit::Count,
            Better::Untold,
            Some(epochs.len() as f64),
        ),
        (
            "first_seconds",
            Unit::Time,
            Better::Less,
            ns(0).map(|ns| ns as f64),
        ),
        ("later_mean_seconds", Unit::Time, Better::Less, mean),
        (
            "bytes_read",
            Unit::Bytes,
            Better::Untold,
            there(bytes as f64),
        ),
        (
            "read_seconds",
            Unit::Time,
            Better::Less,
            there(read_ns as f64),
        ),
    ]
}

fn startup(report: &Report<'_>) -> Vec<Number> {
    let startup = &report.analysis.startup;
    let first = startup.first_training_read_ns.map(|ns| ns as f64);
    let some = |value: u64| Some(value as f64);
    vec![
        ("first_training_read", Unit::Time, Better::Less, first),
        ("opens", Unit::Count, Better::Untold, some(startup.opens)),
        (
            "not_found",
            Unit::Count,
            Better::Less,
            some(startup.not_found),
        ),
        (
            "not_found_seconds",
            Unit::Time,
            Better::Less,
            some(startup.not_found_ns),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measure(better: Better, before: Option<f64>, after: Option<f64>) -> Measure {
        Measure {
            name: "x",
            unit: Unit::Time,
            better,
            before,
            after,
        }
    }

    #[test]
    fn changes_are_judged_where_they_can_be() {
        let time = measure(Better::Less, Some(4.0), Some(2.0));
        assert_eq!(
            (time.ratio(), time.is_better(0.05)),
            (Some(0.5), Some(true))
        );
        let rate = measure(Better::More, Some(4.0), Some(2.0));
        assert_eq!(rate.is_better(0.05), Some(false));
        assert_eq!(
            measure(Better::Less, Some(1.0), Some(1.01)).is_better(0.05),
            None
        );
        assert_eq!(
            measure(Better::Untold, Some(1.0), Some(9.0)).is_better(0.05),
            None
        );
        assert_eq!(measure(Better::Less, Some(0.0), Some(9.0)).ratio(), None);
        assert_eq!(measure(Better::Less, None, Some(9.0)).ratio(), None);
    }
}
