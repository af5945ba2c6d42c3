//! The first screen: is the run bound by its I/O, where did the time go, what to change, and can this be trusted.

use std::io;

use super::{
    escape::{escape, shorten, width},
    overview::{command, target},
    rollup::rollup,
    table::{Page, Style},
    units::{bytes, count, duration, rate, share, shares, some_bytes},
};
use crate::{
    analysis::findings::{Finding, LOOKED_AT, Severity, not_looked_at},
    classify::phase::Phase,
    model::counters,
    report::{
        Report,
        merged::Merged,
        sum::Sum,
        verdict::{Judgement, Verdict},
    },
};

/// Lines of the screen; two more are left for where the recording is.
const LINES: usize = 22;
/// What is said of the recording as such.
const REMARKS: usize = 2;
/// Findings that are shown.
const FINDINGS: usize = 2;
/// Places that are shown.
const PLACES: usize = 3;
/// Programs that are shown of a machine.
const PROGRAMS: usize = 8;
/// Column at which the text of a finding begins.
const TEXT: usize = 10;
/// Columns of a bar.
const BAR: usize = 12;
/// An epoch that takes so many times as long as the median of the others is named.
const SLOW_EPOCH: f64 = 1.5;

/// Lines that belong together.
type Lines = Vec<(Style, String)>;

/// Writes the screen.
pub fn summary(report: &Report<'_>, page: &mut Page<'_>) -> io::Result<()> {
    let judgement = report.judge();
    let columns = page.width();
    let mut above: Lines = vec![(Style::Title, head(report, columns))];
    above.push(verdict(report, &judgement));
    for remark in report.remarks().iter().take(REMARKS) {
        let text = escape(remark.as_bytes());
        above.extend(wrapped(Style::Warning, &text, columns, 1, 2));
    }
    let mut told: Lines = Vec::new();
    match judgement.verdict {
        Verdict::NothingRecorded => {
            let text = "No traced process made a call on a file, or waited for a page of one.";
            above.push((Style::Plain, format!(" {text}")));
        }
        Verdict::NotOneJob => above.extend(programs(report, columns)),
        _ => {
            let lines = components(report, &judgement).into_iter();
            above.extend(lines.map(|(style, text)| (style, clipped(&text, columns))));
            told = events(report, columns);
        }
    }
    let trust = trust(report, &judgement, columns);
    let changes = |shown| match judgement.verdict {
        Verdict::NothingRecorded => Vec::new(),
        _ => findings(report, columns, shown),
    };
    let rest = LINES.saturating_sub(above.len() + trust.len());
    let mut below = changes(FINDINGS);
    if below.len() + told.len() > rest {
        below = changes(1);
    }
    told.truncate(rest.saturating_sub(below.len()));
    let room = rest.saturating_sub(told.len() + below.len());
    above.append(&mut told);
    // A heading without a line says nothing.
    if room > 1 && !matches!(judgement.verdict, Verdict::NotOneJob) {
        above.extend(places(report, columns, (room - 1).min(PLACES)));
    }
    for (style, text) in above.into_iter().chain(below).chain(trust) {
        page.line(style, &text)?;
    }
    Ok(())
}

/// What ran, for how long, and how it ended.
fn head(report: &Report<'_>, columns: usize) -> String {
    let run = report.run;
    let is_used = |sum: &&crate::report::ProcessSum| sum.sum.counters.operations() > 0;
    let processes = report.processes.iter().filter(is_used).count() as u64;
    let mut facts = vec![duration(run.duration_ns)];
    facts.extend(run.exit_code.map(|code| format!("exit {code}")));
    facts.push(match processes {
        1 => "1 process".to_owned(),
        many => format!("{} processes", count(many)),
    });
    facts.push(match report.has_nodes() {
        true => format!("{} nodes", report.nodes.len()),
        false => shorten(run.host.as_bytes(), 20),
    });
    let facts = facts.join("  ");
    let room = columns.saturating_sub(width(&facts) + 2);
    let what = shorten(target(run).as_bytes(), room);
    let gap = " ".repeat(columns.saturating_sub(width(&what) + width(&facts)));
    format!("{what}{gap}{facts}")
}

/// The verdict in one line.
fn verdict(report: &Report<'_>, judgement: &Judgement<'_>) -> (Style, String) {
    let style = match judgement.verdict {
        Verdict::NothingRecorded | Verdict::CallsHang | Verdict::LikelyIoBound => Style::Warning,
        Verdict::NotIoBound => Style::Good,
        Verdict::Unclear | Verdict::NotOneJob => Style::Plain,
    };
    (style, judgement.text(report))
}

/// What the time of the run went into.
fn components(report: &Report<'_>, judgement: &Judgement<'_>) -> Lines {
    let run = report.run.duration_ns;
    let mut lines = Vec::new();
    for (phase, name, facts) in [
        (Phase::Training, "training reads", training as Facts),
        (Phase::Checkpoint, "checkpoints", saves),
        (Phase::Restore, "model loads", loads),
        (Phase::Startup, "startup", startup),
    ] {
        let Some((sum, _)) = report.phases.named(phase.name()) else {
            continue;
        };
        let merged = report.file_time(|other| other == phase);
        if merged.at_most > 0 {
            lines.push(component(name, &merged, run, &facts(report, &sum)));
        }
    }
    let other = report.file_time(|phase| matches!(phase, Phase::Other(_)));
    let elsewhere = report.by_name.nanoseconds() + report.overflow.nanoseconds();
    let merged = Merged {
        at_most: (other.at_most + elsewhere).min(run),
        ..other
    };
    if merged.at_most > 0 {
        lines.push(component("other files", &merged, run, &others(report)));
    }
    let faults = report.processes.iter();
    let faults = faults.map(|process| process.sum.counters.v[counters::MAJOR_FAULT_NS]);
    let merged = Merged {
        at_least: faults.clone().max().unwrap_or(0).min(run),
        at_most: faults.sum::<u64>().min(run),
        ..Merged::default()
    };
    if merged.at_most > 0 {
        let faults = report.totals.counters.v[counters::TIMED_MAJOR_FAULTS];
        let fact = format!("{} waits for storage", count(faults));
        lines.push(component("page faults", &merged, run, &fact));
    }
    let rest = Merged {
        at_least: run - judgement.at_most_ns,
        at_most: run - judgement.at_least_ns,
        ..Merged::default()
    };
    let cpu: Option<u64> = {
        let computing = report.model.computing();
        let processes = 0..report.processes.len() as u32;
        processes.map(|index| computing.of_process(index)).sum()
    };
    let cpu = cpu.map(|ns| format!("CPU time {}", duration(ns)));
    lines.push(component(
        "everything else",
        &rest,
        run,
        &cpu.unwrap_or_default(),
    ));
    lines
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
    let columns = |ns: u64| (ns as f64 / whole.max(1) as f64 * BAR as f64).round() as usize;
    let (sure, all) = (columns(at_least).min(BAR), columns(at_most).min(BAR));
    let mut bar = "█".repeat(sure) + &"░".repeat(all - sure);
    if all == 0 && at_most > 0 {
        bar.push('▏');
    }
    let missing = BAR - width(&bar);
    bar + &" ".repeat(missing)
}

fn training(report: &Report<'_>, sum: &Sum) -> String {
    let read = sum.counters.v[counters::BYTES_READ];
    let cached = share(sum.counters.cached(), read);
    match report.analysis.knows_cache && !cached.is_empty() {
        true => format!("{} read, {cached} cached", bytes(read)),
        false => format!("{} read", bytes(read)),
    }
}

fn saves(report: &Report<'_>, sum: &Sum) -> String {
    let saves = report.analysis.checkpoints.len() as u64;
    let written = bytes(sum.counters.v[counters::BYTES_WRITTEN]);
    let saves = if saves == 1 {
        "1 save".into()
    } else {
        format!("{} saves", count(saves))
    };
    format!("{written} written, {saves}")
}

fn loads(report: &Report<'_>, sum: &Sum) -> String {
    let loads = report.analysis.restores.len() as u64;
    let read = bytes(sum.counters.v[counters::BYTES_READ]);
    let loads = if loads == 1 {
        "1 load".into()
    } else {
        format!("{} loads", count(loads))
    };
    format!("{read} read, {loads}")
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
    let by_name = report.by_name.operations();
    if by_name > 0 {
        facts.push(format!("{} calls by path", count(by_name)));
    }
    facts.join(", ")
}

/// Epochs and saves, one line each.
fn events(report: &Report<'_>, columns: usize) -> Lines {
    let mut lines = Vec::new();
    lines.extend(epochs(report));
    let saves = &report.analysis.checkpoints;
    if !saves.is_empty() {
        let mut times: Vec<u64> = saves.iter().map(|save| save.ns()).collect();
        times.sort_unstable();
        let (all, moved) = saves.iter().fold((0, 0), |(ns, moved), save| {
            (ns + save.ns(), moved + save.bytes)
        });
        let mut facts = vec![format!(
            "{} of {}",
            count(saves.len() as u64),
            bytes(moved / saves.len() as u64)
        )];
        if all > 0 {
            let (least, most) = (duration(times[0]), duration(times[times.len() - 1]));
            facts.push(match least == most {
                true => most,
                false => format!("{least} to {most}"),
            });
            let synced: u64 = saves.iter().map(|save| save.sync_ns).sum();
            if synced > 0 {
                facts.push(format!("{} of it in sync", share(synced.min(all), all)));
            }
            facts.push(rate(moved, all));
        }
        let text = format!(" Saves: {}", facts.join(", "));
        lines.push((Style::Plain, text));
    }
    lines
        .into_iter()
        .map(|(style, text)| (style, shorten(text.as_bytes(), columns)))
        .collect()
}

fn epochs(report: &Report<'_>) -> Option<(Style, String)> {
    let epochs = &report.analysis.epochs;
    if epochs.files == 0 {
        return None;
    }
    let data = format!("{} in {} files", bytes(epochs.bytes), count(epochs.files));
    if epochs.untold.is_some() || epochs.epochs.is_empty() {
        return Some((Style::Plain, format!(" Epochs: not known; data: {data}")));
    }
    let length = |epoch: &crate::analysis::epochs::Epoch| {
        u64::try_from(epoch.end - epoch.start).unwrap_or(0)
    };
    let whole = epochs.epochs.iter().filter(|epoch| epoch.is_complete());
    let (passes, parts) = (
        whole.clone().count(),
        epochs.epochs.len() - whole.clone().count(),
    );
    let mut later: Vec<u64> = whole.clone().skip(1).map(length).collect();
    later.sort_unstable();
    let median = later.get(later.len() / 2).copied();
    let first = whole.clone().next().map(length);
    let time = match (first, median) {
        (Some(first), Some(median)) if first as f64 >= median as f64 * SLOW_EPOCH => {
            let cold = epochs.knows_cache
                && whole
                    .clone()
                    .next()
                    .is_some_and(|one| one.fetched * 2 > one.bytes);
            let why = if cold { " (from storage)" } else { "" };
            format!(
                ": first {}{why}, then {}",
                duration(first),
                duration(median)
            )
        }
        (Some(_), Some(median)) => format!(", {} each", duration(median)),
        (Some(first), None) => format!(", {}", duration(first)),
        _ => String::new(),
    };
    let parts = match parts {
        0 => String::new(),
        1 => ", 1 in part".to_owned(),
        many => format!(", {many} in part"),
    };
    let text = format!(" Epochs: {passes}{parts} of {data}{time}");
    Some((Style::Plain, text))
}

/// Where the time in calls went.
fn places(report: &Report<'_>, columns: usize, rows: usize) -> Lines {
    let whole = report.totals.counters.nanoseconds();
    let places = rollup(report, rows);
    if places.is_empty() {
        return Vec::new();
    }
    let heading = format!(
        " {:<10} {:>5} {:>9} {:>9} {:>9}  WHERE",
        "IN CALLS", "", "READ", "WRITTEN", "FILES"
    );
    let mut lines = vec![(Style::Dim, heading)];
    for place in places {
        let text = format!(
            " {:<10} {:>5} {:>9} {:>9} {:>9}  ",
            duration(place.ns),
            share(place.ns, whole),
            some_bytes(place.bytes_read),
            some_bytes(place.bytes_written),
            count(place.files),
        );
        let path = shorten(&place.path, columns.saturating_sub(width(&text)));
        lines.push((Style::Plain, text + &path));
    }
    lines
}

/// What to change, or that there is nothing.
fn findings(report: &Report<'_>, columns: usize, shown: usize) -> Lines {
    let findings = &report.analysis.findings;
    if findings.is_empty() {
        let text = format!("Nothing to change in {}.", LOOKED_AT.join(", "));
        return wrapped(Style::Good, &text, columns, 1, 2);
    }
    let saves = "saves at most";
    let heading = "To change";
    let gap = " ".repeat(columns - 1 - width(heading) - saves.len());
    let mut lines = vec![(Style::Dim, format!(" {heading}{gap}{saves}"))];
    for (index, finding) in findings.iter().take(shown).enumerate() {
        lines.extend(finding_lines(report, finding, index + 1, columns));
    }
    let rest = findings.len().saturating_sub(shown);
    if rest > 0 {
        lines.push((
            Style::Dim,
            format!("   and {rest} more: --section findings"),
        ));
    }
    lines
}

fn finding_lines(report: &Report<'_>, finding: &Finding, number: usize, columns: usize) -> Lines {
    let saving = &finding.saving;
    let saves = match saving.at_most_ns {
        0 => "no time".to_owned(),
        ns => format!("{}, {}", duration(ns), share(ns, report.run.duration_ns)),
    };
    let style = match saving.severity {
        Severity::Low => Style::Plain,
        Severity::Medium | Severity::High => Style::Warning,
    };
    let room = columns.saturating_sub(width(&saves) + 2);
    let title = escape(finding.title.as_bytes());
    let mut lines = wrapped(style, &title, room, TEXT, 2);
    let first = &mut lines[0].1;
    let label = format!(" {number} {:<6} ", saving.severity.name());
    first.replace_range(..TEXT, &format!("{label:<TEXT$}"));
    let gap = columns.saturating_sub(width(first) + width(&saves));
    first.push_str(&" ".repeat(gap));
    first.push_str(&saves);
    // What follows from the first finding is the most.
    let rows = if number == 1 { 2 } else { 1 };
    lines.extend(wrapped(Style::Plain, &finding.advice, columns, TEXT, rows));
    lines
}

/// What was not looked at, and whether anything is missing.
fn trust(report: &Report<'_>, judgement: &Judgement<'_>, columns: usize) -> Lines {
    let unseen = not_looked_at(&report.totals.counters, report.run).join(", ");
    let lost: u64 = report.losses(true).values().sum();
    let calls = report.run.in_flight.len() as u64;
    let mut lines = Vec::new();
    if calls > 0 && judgement.verdict != Verdict::CallsHang {
        let what = match calls {
            1 => "1 call had".to_owned(),
            many => format!("{} calls had", count(many)),
        };
        let text = format!(" {what} not returned at the end: --section in-flight");
        lines.push((Style::Warning, text));
    }
    let lost = match lost {
        0 => "Nothing lost.".to_owned(),
        lost => {
            let text = format!(
                " {} operations or records LOST: --section losses",
                count(lost)
            );
            lines.push((Style::Warning, text));
            String::new()
        }
    };
    lines.extend(wrapped(
        Style::Dim,
        &format!("{lost} Not looked at: {unseen}."),
        columns,
        1,
        2,
    ));
    lines
}

/// The programs of a machine, each judged by itself.
fn programs(report: &Report<'_>, columns: usize) -> Lines {
    let programs = report.programs();
    let heading = format!(
        " {:>9} {:>9} {:>9} {:>9} {:>9}  PROGRAM",
        "OF ITS", "LIFETIME", "IN FILES", "READ", "WRITTEN"
    );
    let mut lines = vec![(Style::Dim, heading)];
    for program in programs.iter().take(PROGRAMS) {
        let merged = &program.merged;
        let lifetime = program.lifetime_ns;
        let v = &program.counters.v;
        let bound = if merged.is_exact() { "" } else { "≤" };
        let text = format!(
            " {:>9} {:>9} {:>9} {:>9} {:>9}  ",
            shares(
                merged.at_least.min(lifetime),
                merged.at_most.min(lifetime),
                lifetime
            ),
            duration(lifetime),
            format!("{bound}{}", duration(merged.at_most)),
            some_bytes(v[counters::BYTES_READ]),
            some_bytes(v[counters::BYTES_WRITTEN]),
        );
        let process = &report.model.processes()[program.leader as usize];
        let job = process.about.role.job.as_deref();
        let job = job
            .map(|job| format!("job {} ", escape(job.as_bytes())))
            .unwrap_or_default();
        let room = columns.saturating_sub(width(&text) + width(&job));
        lines.push((
            Style::Plain,
            text + &job + &shorten(&command(process), room),
        ));
    }
    let rest = programs.len().saturating_sub(PROGRAMS);
    if rest > 0 {
        lines.push((
            Style::Dim,
            format!(" and {} more: --section processes", count(rest as u64)),
        ));
    }
    lines
}

/// Words on at most so many lines, indented; what does not fit is left out behind an ellipsis.
fn wrapped(style: Style, text: &str, columns: usize, indent: usize, most: usize) -> Lines {
    let margin = " ".repeat(indent);
    let mut lines: Vec<String> = vec![margin.clone()];
    for word in text.split_whitespace() {
        let last = lines.len() - 1;
        let is_first = lines[last].len() == indent;
        let needed = width(&lines[last]) + usize::from(!is_first) + width(word);
        if needed <= columns {
            if !is_first {
                lines[last].push(' ');
            }
            lines[last].push_str(word);
        } else if lines.len() < most {
            lines.push(format!("{margin}{word}"));
        } else {
            let clipped = clipped(&format!("{} {word}", lines[last]), columns);
            lines[last] = clipped;
            break;
        }
    }
    lines.into_iter().map(|line| (style, line)).collect()
}

/// The beginning of a text, up to a word, if it is wider than the room.
fn clipped(text: &str, room: usize) -> String {
    if width(text) <= room {
        return text.to_owned();
    }
    let mut end = 0;
    for (at, _) in text.char_indices().filter(|(_, c)| *c == ' ') {
        if width(&text[..at]) < room {
            end = at;
        }
    }
    format!("{}…", text[..end].trim_end())
}
