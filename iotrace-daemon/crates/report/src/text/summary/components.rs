//! What the time of the run went into, and its epochs and saves.

use std::cmp::Reverse;

use super::{
    super::{
        escape::{shorten, width},
        table::Style,
        units::{bytes, count, duration, rate, share, shares},
    },
    lines::{Lines, counted},
};
use crate::{Report, merged::Merged, sections::phases, verdict::Judgement};
use iotrace_analysis::sum::Sum;
use iotrace_analysis::{
    epochs::Epoch,
    saves::Event,
    waits::{Exposed, WAITS, label},
};
use iotrace_model::{counters, counters::saturating_sum, waits::Leaf};
use iotrace_phases::phase::Phase;

/// Columns of a bar.
const BAR_COLUMNS: usize = 12;
/// Share of a thread's time, or of the run, from which on what it did is shown.
const MIN_SHOWN_SHARE: f64 = 0.01;
/// A first epoch that takes this many times as long as the median of the others is named.
const MIN_SLOW_EPOCH: f64 = 1.5;
/// Epochs that are this many times as far apart as their reads take have both times named.
const MIN_REST: u64 = 10;

/// What the time of the run went into.
pub fn components(report: &Report<'_>, judgement: &Judgement<'_>) -> Lines {
    let run = report.run.duration_ns;
    let mut lines: Lines = judgement.exposed.iter().map(waited).collect();
    for (phase, facts) in [
        (Phase::Training, training as Facts),
        (Phase::Checkpoint, saves),
        (Phase::Restore, loads),
        (Phase::Startup, startup),
    ] {
        let Some((sum, _)) = report.phases.named(phase.name()) else {
            continue;
        };
        let merged = report.file_time(|other| other == phase);
        let facts = facts(report, &sum);
        // Looking for models, or opening what is not read, is worth a line only if it took time.
        let is_shown = !facts.is_empty() || merged.at_most as f64 >= run as f64 * MIN_SHOWN_SHARE;
        if merged.at_most > 0 && is_shown {
            lines.push(component(phases::label(phase), &merged, run, &facts));
        }
    }
    let other = report.file_time(|phase| matches!(phase, Phase::Other(_)));
    let merged = Merged {
        at_most: other.at_most.saturating_add(report.elsewhere_ns()).min(run),
        ..other
    };
    if merged.at_most > 0 {
        lines.push(component(
            phases::label(Phase::UNMATCHED),
            &merged,
            run,
            &others(report),
        ));
    }
    let merged = report.fault_time();
    if merged.at_most > 0 {
        let faults = report.totals.counters.v[counters::TIMED_MAJOR_FAULTS];
        let fact = counted(faults, "wait for storage", "waits for storage");
        lines.push(component("page faults", &merged, run, &fact));
    }
    let rest = Merged {
        at_least: run - judgement.at_most_ns,
        at_most: run - judgement.at_least_ns,
        ..Merged::default()
    };
    let processes = 0..report.processes.len() as u32;
    let cpu = report.model.computing().of_processes(processes);
    let cpu = cpu.map(|ns| format!("CPU time {}", duration(ns)));
    lines.push(component(
        "everything else",
        &rest,
        run,
        &cpu.unwrap_or_default(),
    ));
    lines
}

/// What the main threads did with their time, the longest first.
fn waited(exposed: &Exposed) -> (Style, String) {
    let spent = &exposed.spent;
    let mut leaves = vec![Leaf::Running];
    leaves.extend(WAITS);
    leaves.retain(|leaf| exposed.share(spent.of(*leaf)) >= MIN_SHOWN_SHARE);
    leaves.sort_by_key(|leaf| Reverse(spent.of(*leaf)));
    let parts = leaves.iter();
    let in_calls = match exposed.share(exposed.ran_in_calls) >= MIN_SHOWN_SHARE {
        true => format!(" ({} in calls)", share(exposed.ran_in_calls, spent.whole())),
        false => String::new(),
    };
    let part = |leaf: &Leaf| {
        let more = if *leaf == Leaf::Running {
            &*in_calls
        } else {
            ""
        };
        format!(
            "{} {}{more}",
            label(*leaf),
            share(spent.of(*leaf), spent.whole())
        )
    };
    let parts: Vec<String> = parts.map(part).collect();
    let who = match exposed.threads {
        1 => "main thread".to_owned(),
        threads => format!("{} main threads", count(threads)),
    };
    (Style::Plain, format!(" {who:<15} {}", parts.join(", ")))
}

type Facts = fn(&Report<'_>, &Sum) -> String;

fn component(name: &str, time: &Merged, run: u64, facts: &str) -> (Style, String) {
    let bound = if time.is_exact() { "" } else { "≤" };
    let text = format!(
        " {name:<15} {:>8}  {}  {:>8}  {facts}",
        shares(time.at_least, time.at_most, run),
        bar(time.at_least, time.at_most, run),
        format!("{bound}{}", duration(time.at_most)),
    );
    (Style::Plain, text)
}

/// A bar of what is sure, and lighter what is not.
fn bar(at_least: u64, at_most: u64, whole: u64) -> String {
    let columns = |ns: u64| (ns as f64 / whole.max(1) as f64 * BAR_COLUMNS as f64).round() as usize;
    let (sure, all) = (
        columns(at_least).min(BAR_COLUMNS),
        columns(at_most).min(BAR_COLUMNS),
    );
    let mut bar = "█".repeat(sure) + &"░".repeat(all - sure);
    if all == 0 && at_most > 0 {
        bar.push('▏');
    }
    let missing = BAR_COLUMNS - width(&bar);
    bar + &" ".repeat(missing)
}

fn training(report: &Report<'_>, sum: &Sum) -> String {
    let read = sum.counters.v[counters::BYTES_READ];
    let cached = share(sum.counters.cached(), read);
    match moved(read, report.analysis.epochs.mapped.bytes) {
        Some(moved) => moved,
        None if report.analysis.knows_cache && !cached.is_empty() => {
            format!("{} read, {cached} cached", bytes(read))
        }
        None if read > 0 => format!("{} read", bytes(read)),
        None => String::new(),
    }
}

/// Describes what was read by calls, and the size of mapped files; leaves out the one that is less than a hundredth of the other.
/// `None` if that is the mapped files, or there are none.
fn moved(read: u64, mapped: u64) -> Option<String> {
    const NEGLIGIBLE_PARTS: u64 = 100;
    if mapped <= read / NEGLIGIBLE_PARTS {
        return None;
    }
    let mapped_part = format!("{} mapped", bytes(mapped));
    Some(match read <= mapped / NEGLIGIBLE_PARTS {
        true => mapped_part,
        false => format!("{} read, {mapped_part}", bytes(read)),
    })
}

fn saves(report: &Report<'_>, sum: &Sum) -> String {
    let saves = report.analysis.checkpoints.len() as u64;
    let written = bytes(sum.counters.v[counters::BYTES_WRITTEN]);
    format!("{written} written, {}", counted(saves, "save", "saves"))
}

fn loads(report: &Report<'_>, sum: &Sum) -> String {
    let loads = report.analysis.restores.len() as u64;
    let of = |index: usize| sum.counters.v[index];
    let files = report.analysis.restores.iter();
    let files = saturating_sum(files.map(|load| load.mapped.bytes));
    let read = of(counters::BYTES_READ);
    let what = match (moved(read, files), of(counters::MAPPED_BYTES)) {
        (Some(moved), _) => moved,
        (None, 0) if read == 0 && loads == 0 => return String::new(),
        (None, faulted) if read == 0 && faulted > 0 => {
            format!("at least {} mapped", bytes(faulted))
        }
        (None, _) => format!("{} read", bytes(read)),
    };
    format!("{what}, {}", counted(loads, "load", "loads"))
}

fn startup(report: &Report<'_>, _: &Sum) -> String {
    let startup = &report.analysis.startup;
    let files = count(startup.files);
    match startup.not_found {
        0 => format!("{files} files"),
        missing => format!("{files} files, {} not found", count(missing)),
    }
}

fn others(report: &Report<'_>) -> String {
    let sum = report.phases.named(Phase::UNMATCHED.name());
    let v = sum.map_or([0; 2], |(sum, _)| {
        [counters::BYTES_READ, counters::BYTES_WRITTEN].map(|index| sum.counters.v[index])
    });
    let mut facts: Vec<String> = Vec::new();
    for (moved, what) in v.into_iter().zip(["read", "written"]) {
        if moved > 0 {
            facts.push(format!("{} {what}", bytes(moved)));
        }
    }
    let path_only = report.path_only.operations();
    if path_only > 0 {
        facts.push(format!("{} calls by path", count(path_only)));
    }
    facts.join(", ")
}

/// Epochs and saves, one line each.
pub fn events(report: &Report<'_>, columns: usize) -> Lines {
    let mut lines: Vec<String> = epochs_line(report).into_iter().collect();
    lines.extend(saves_line(report));
    let clip = |text: String| (Style::Plain, shorten(text.as_bytes(), columns));
    lines.into_iter().map(clip).collect()
}

fn saves_line(report: &Report<'_>) -> Option<String> {
    let saves = &report.analysis.checkpoints;
    let mut times: Vec<u64> = saves.iter().map(Event::ns).collect();
    times.sort_unstable();
    let (least, most) = (*times.first()?, *times.last()?);
    let all = saturating_sum(times.iter().copied());
    let moved = saturating_sum(saves.iter().map(|save| save.bytes));
    let number = count(saves.len() as u64);
    let mut facts = vec![match moved {
        // What is stored to a mapping is not counted in bytes.
        0 => format!("{number} to mapped files"),
        _ => format!("{number} of {}", bytes(moved / saves.len() as u64)),
    }];
    if all > 0 {
        let (least, most) = (duration(least), duration(most));
        facts.push(match least == most {
            true => most,
            false => format!("{least} to {most}"),
        });
        let synced = saturating_sum(saves.iter().map(|save| save.sync_ns));
        if synced > 0 {
            facts.push(format!("{} of it in sync", share(synced.min(all), all)));
        }
        facts.extend((moved > 0).then(|| rate(moved, all)));
    }
    Some(format!(" Saves: {}", facts.join(", ")))
}

/// The upper one of the two in the middle; `None` of none.
fn median(values: impl IntoIterator<Item = u64>) -> Option<u64> {
    let mut values: Vec<u64> = values.into_iter().collect();
    values.sort_unstable();
    values.get(values.len() / 2).copied()
}

fn epochs_line(report: &Report<'_>) -> Option<String> {
    let epochs = &report.analysis.epochs;
    let mapped = epochs.mapped;
    let files = [
        (epochs.bytes, epochs.files, ["file", "files"]),
        (mapped.bytes, mapped.files, ["mapped file", "mapped files"]),
    ];
    let files = files.iter().filter(|(_, files, _)| *files > 0);
    let files = files.map(|(sum, files, [one, many])| {
        format!("{} in {}", bytes(*sum), counted(*files, one, many))
    });
    let data = files.collect::<Vec<_>>().join(", ");
    if data.is_empty() {
        return None;
    }
    if epochs.untold.is_some() || epochs.epochs.is_empty() {
        return Some(format!(" Epochs: not known; data: {data}"));
    }
    let stages: Vec<&[Epoch]> = epochs
        .epochs
        .chunk_by(|one, next| one.stage == next.stage)
        .collect();
    if stages.len() > 1 {
        let stages = stages.iter().map(|stage| {
            let files = counted(stage[0].files, "file", "files");
            format!("{} of {} in {files}", stage.len(), bytes(stage[0].bytes))
        });
        let stages: Vec<String> = stages.collect();
        return Some(format!(" Epochs: {}", stages.join(", then ")));
    }
    let whole: Vec<&Epoch> = epochs
        .epochs
        .iter()
        .filter(|epoch| epoch.is_complete())
        .collect();
    let times: Vec<u64> = whole
        .iter()
        .map(|epoch| u64::try_from(epoch.end - epoch.start).unwrap_or(0))
        .collect();
    let later = median(times.iter().skip(1).copied());
    let starts = whole.windows(2).map(|pair| pair[1].start - pair[0].start);
    let every = median(starts.map(|apart| u64::try_from(apart).unwrap_or(0)));
    let time = match (times.first(), later) {
        // Of each, start and end are put between known moments, and may overlap: all of them together are known.
        (Some(_), Some(_)) if whole.iter().any(|epoch| !epoch.is_exact) => {
            let all = whole[whole.len() - 1].end - whole[0].start;
            let every = u64::try_from(all).unwrap_or(0) / whole.len() as u64;
            format!(", about one every {}", duration(every))
        }
        // Data that are read at once and then trained on: the read does not tell the epoch's length.
        (Some(first), Some(median))
            if every > Some(median.max(*first).saturating_mul(MIN_REST)) =>
        {
            let every = duration(every.unwrap_or_default());
            format!(", each read in {}, one every {every}", duration(median))
        }
        (Some(first), Some(median)) if *first as f64 >= median as f64 * MIN_SLOW_EPOCH => {
            let is_cold = epochs.knows_cache && whole[0].fetched > whole[0].bytes / 2;
            let why = if is_cold { " (from storage)" } else { "" };
            let (first, median) = (duration(*first), duration(median));
            format!(": first {first}{why}, then {median}")
        }
        (Some(_), Some(median)) => format!(", {} each", duration(median)),
        (Some(first), None) => format!(", {}", duration(*first)),
        _ => String::new(),
    };
    let parts = match epochs.epochs.len() - whole.len() {
        0 => String::new(),
        parts => format!("; and {parts} in part"),
    };
    Some(format!(" Epochs: {} of {data}{time}{parts}", whole.len()))
}
