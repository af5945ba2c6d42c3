//! The first screen: is the run bound by its I/O, where did the time go, what to change, and can this be trusted.

use std::io;

mod changes;
mod components;
mod lines;

use changes::findings;
use components::{components, events};
use lines::{Lines, counted, wrapped};

use super::{
    escape::{clipped, escape, shorten, width},
    head::target,
    rollup::rollup,
    table::{Page, Style},
    units::{count, duration, share, shares, some_bytes},
};
use crate::{
    Report,
    nodes::NOTHING_RECORDED,
    programs::Program,
    verdict::{Judgement, Verdict},
};
use iotrace_model::{counters::saturating_sum, run::Target};

/// Lines of the screen; two more are left for where the recording is.
const MAX_LINES: usize = 22;
/// Remarks on the recording that are shown.
const MAX_REMARKS: usize = 2;
/// Lines that say which files are chosen.
const MAX_SELECTION_LINES: usize = 4;
const MAX_FINDINGS: usize = 2;
const MAX_PLACES: usize = 3;
/// Of these, calls that have not returned, each at least this share of the run.
const MAX_HUNG: usize = 2;
const MIN_HUNG_SHARE: f64 = 0.01;
/// Bytes that belong to no known file are shown if they are one in this many.
const SHOWN_PART_DIVISOR: u64 = 100;
/// Programs of a machine that are shown.
const MAX_PROGRAMS: usize = 8;

/// Writes the screen.
pub fn summary(report: &Report<'_>, page: &mut Page<'_>) -> io::Result<()> {
    let judgement = report.judge();
    let columns = page.width();
    let mut above: Lines = vec![(Style::Title, head(report, columns))];
    above.push((verdict_style(judgement.verdict), judgement.text(report)));
    if let Some(selection) = &report.selection {
        let text = escape(selection.text().as_bytes());
        above.extend(wrapped(
            Style::Warning,
            &text,
            columns,
            1,
            MAX_SELECTION_LINES,
        ));
    }
    // The verdict says it.
    let remarks = report.remarks().into_iter();
    let remarks = remarks.filter(|remark| remark != NOTHING_RECORDED);
    for remark in remarks.take(MAX_REMARKS) {
        let text = escape(remark.as_bytes());
        above.extend(wrapped(Style::Warning, &text, columns, 1, 2));
    }
    let mut events_lines: Lines = Vec::new();
    match judgement.verdict {
        Verdict::NothingRecorded => {
            let text = nothing_advice(report);
            above.extend(wrapped(Style::Plain, text, columns, 1, 3));
        }
        Verdict::NotOneJob => above.extend(programs(report, columns)),
        _ => {
            let lines = components(report, &judgement).into_iter();
            above.extend(lines.map(|(style, text)| (style, clipped(&text, columns))));
            events_lines = events(report, columns);
        }
    }
    let trust = trust(report, &judgement, columns);
    let changes = |shown| match judgement.verdict {
        // Findings are of one job.
        Verdict::NothingRecorded | Verdict::PartOfFiles | Verdict::NotOneJob => Vec::new(),
        _ => findings(report, columns, shown),
    };
    let rest = MAX_LINES.saturating_sub(above.len() + trust.len());
    let mut below = changes((MAX_FINDINGS, true));
    for fewer in [(MAX_FINDINGS, false), (1, false)] {
        if below.len() + events_lines.len() > rest {
            below = changes(fewer);
        }
    }
    events_lines.truncate(rest.saturating_sub(below.len()));
    let room = rest.saturating_sub(events_lines.len() + below.len());
    above.append(&mut events_lines);
    // A heading without a line says nothing.
    if room > 1 && !matches!(judgement.verdict, Verdict::NotOneJob) {
        above.extend(places(report, columns, (room - 1).min(MAX_PLACES)));
    }
    for (style, text) in above.into_iter().chain(below).chain(trust) {
        page.line(style, &text)?;
    }
    Ok(())
}

/// What to do first if nothing was recorded.
fn nothing_advice(report: &Report<'_>) -> &'static str {
    match &report.run.target {
        _ if report.is_incomplete() => {
            "If it is still being written, wait for its end; else record again, to a directory with room (-o)."
        }
        Target::Pids(_) => {
            "So it waited for none in this time. Record for longer, or the program from its start: `iotrace record -- PROGRAM`. If another process does the work, \
             record that one, or all: `iotrace record --all`."
        }
        Target::Command(_) | Target::All(_) | Target::Unit(_) => {
            "Find out which process does the work: a command that asks a service for it (docker, sbatch, ssh) uses no file \
             itself. Record that process, `iotrace record --pid PID`, or all: `iotrace record --all`."
        }
    }
}

/// What ran, for how long, and how it ended.
fn head(report: &Report<'_>, columns: usize) -> String {
    let run = report.run;
    let processes = report.shown_processes();
    let mut facts = vec![duration(run.duration_ns)];
    facts.extend(run.exit_code.map(|code| format!("exit {code}")));
    facts.push(counted(processes, "process", "processes"));
    facts.push(match report.has_nodes() {
        true => format!("{} nodes", report.nodes.len()),
        false => shorten(run.host.as_bytes(), 20),
    });
    let facts = facts.join("  ");
    let room = columns.saturating_sub(width(&facts) + 2);
    let command = report.command(room);
    let what = command.unwrap_or_else(|| shorten(target(run).as_bytes(), room));
    let gap = " ".repeat(columns.saturating_sub(width(&what) + width(&facts)));
    format!("{what}{gap}{facts}")
}

/// Where the time in calls went.
fn places(report: &Report<'_>, columns: usize, rows: usize) -> Lines {
    let whole = report.totals.counters.nanoseconds();
    // A call that hangs is in no counter.
    let hung = report.run.in_flight.iter().filter(|call| {
        let is_long = call.ns as f64 >= report.run.duration_ns as f64 * MIN_HUNG_SHARE;
        is_long && call.path.is_some()
    });
    let hung: Vec<_> = hung.take(MAX_HUNG.min(rows)).collect();
    let places = rollup(report, rows - hung.len());
    if places.is_empty() && hung.is_empty() {
        return Vec::new();
    }
    let heading = format!(
        " {:<10} {:>5} {:>9} {:>9} {:>9}  WHERE",
        "IN CALLS", "", "READ", "WRITTEN", "FILES"
    );
    let mut lines = vec![(Style::Dim, heading)];
    for call in hung {
        let what = format!("in {}, not returned", call.operation);
        let text = format!(" {:<10} {what:>35}  ", duration(call.ns));
        let path = call.path.as_deref().unwrap_or_default();
        let path = shorten(path.as_bytes(), columns.saturating_sub(width(&text)));
        lines.push((Style::Warning, text + &path));
    }
    for place in places {
        let text = format!(
            " {:<10} {:>5} {:>9} {:>9} {:>9}  ",
            duration(place.io.ns),
            share(place.io.ns, whole),
            some_bytes(place.io.bytes_read),
            some_bytes(place.io.bytes_written),
            count(place.files),
        );
        let path = shorten(&place.path, columns.saturating_sub(width(&text)));
        lines.push((Style::Plain, text + &path));
    }
    lines
}

/// What was not looked at, and whether anything is missing.
fn trust(report: &Report<'_>, judgement: &Judgement<'_>, columns: usize) -> Lines {
    let unseen = report.not_looked_at().join(", ");
    let lost = saturating_sum(report.losses(true).into_values());
    let calls = report.run.in_flight.len() as u64;
    let mut lines = Vec::new();
    if calls > 0 && judgement.verdict != Verdict::CallsHang {
        let what = counted(calls, "call had", "calls had");
        let text = format!(" {what} not returned at the end: --section in-flight");
        lines.push((Style::Warning, text));
    }
    let (no_file, all) = (report.overflow.bytes(), report.totals.counters.bytes());
    if no_file > 0 && no_file >= all / SHOWN_PART_DIVISOR {
        let text = format!(
            " {} read and written belong to no known file: --section losses",
            some_bytes(no_file)
        );
        lines.push((Style::Warning, text));
    }
    let lost = match lost {
        // What came after the last flush is said above.
        0 if report.is_incomplete() => "Nothing else lost.".to_owned(),
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
        " {:<16} {:>8} {:>8} {:>5}  {:<16}  PROGRAM",
        "VERDICT", "FILE I/O", "LIFETIME", "PROCS", "MOSTLY"
    );
    let mut lines = vec![(Style::Dim, heading)];
    for program in programs.iter().take(MAX_PROGRAMS) {
        let (at_least, at_most) = program.in_files();
        let judgement = &program.judgement;
        let text = format!(
            " {:<16} {:>8} {:>8} {:>5}  {:<16}  ",
            judgement.verdict.label(),
            shares(at_least, at_most, program.whole_ns()),
            duration(judgement.whole_ns),
            count(program.processes),
            program.cause.unwrap_or_default(),
        );
        let job = match program.job {
            Some(job) => escape(job.as_bytes()) + " ",
            None => String::new(),
        };
        let room = columns.saturating_sub(width(&text) + width(&job));
        let called = match program.job {
            Some(_) => shorten(program.name.script(), room),
            None => program.name.fit(room),
        };
        let style = verdict_style(judgement.verdict);
        lines.push((style, text + &job + &called));
    }
    let rest = programs.len().saturating_sub(MAX_PROGRAMS);
    if rest > 0 {
        let text = format!(
            " and {} more: --section processes, or `programs` with --format json",
            count(rest as u64)
        );
        lines.push((Style::Dim, text));
    }
    let is_good = |program: &Program<'_>| program.judgement.verdict.is_good() == Some(true);
    if !programs.iter().all(is_good) {
        let text = " For what to change, record one of them: iotrace record --pid PID";
        lines.push((Style::Dim, text.to_owned()));
    }
    lines
}

/// Whether a verdict is good.
fn verdict_style(verdict: Verdict) -> Style {
    match verdict.is_good() {
        Some(true) => Style::Good,
        Some(false) => Style::Warning,
        None => Style::Plain,
    }
}
