//! Which lines of Python programs did the I/O.

use std::{collections::BTreeMap, io};

use iotrace_model::{
    counters::saturating_add,
    lines::{Counts, Place},
};
use serde_json::{Value as Json, json};

use crate::{
    Report,
    html::{Cell, PageSection, PageTable, Part},
    json::entries::seconds,
    text::{
        escape::{escape, shorten},
        table::{Page, Style, Table},
        units::{bytes, count, duration, some, some_bytes},
    },
};

/// Lines that are shown, and those in the JSON report, whole and without long lists.
const MAX_ROWS: usize = 20;
const MAX_JSON: usize = 10_000;
const MAX_SUMMARY_JSON: usize = 20;

/// A line, over all processes and phases.
struct Line<'a> {
    place: &'a Place,
    /// The innermost line with the most time, if there is one.
    via: Option<&'a Place>,
    counts: Counts,
}

/// Lines, those with the most time first, and what was done by no known line.
fn lines<'a>(report: &Report<'a>) -> (Vec<Line<'a>>, Counts) {
    let mut none = Counts::default();
    let mut sums: BTreeMap<&Place, (Counts, BTreeMap<Option<&Place>, u64>)> = BTreeMap::new();
    for (key, counts) in report.model.lines().all() {
        let Some(own) = &key.own else {
            none.add(counts);
            continue;
        };
        let (sum, vias) = sums.entry(own).or_default();
        sum.add(counts);
        let time = counts.ns.saturating_add(counts.slow_ns);
        saturating_add(vias.entry(key.via.as_deref()).or_default(), time);
    }
    let mut lines: Vec<Line<'_>> = sums
        .into_iter()
        .map(|(place, (counts, vias))| Line {
            place,
            via: vias
                .into_iter()
                .max_by_key(|(_, ns)| *ns)
                .and_then(|(via, _)| via),
            counts,
        })
        .collect();
    lines.sort_by_key(|line| {
        let counts = &line.counts;
        std::cmp::Reverse((counts.ns.max(counts.slow_ns), counts.opens))
    });
    (lines, none)
}

/// The file, the line if it is known, and the function.
fn name(place: &Place) -> String {
    format!("{} {}", with_line(&place.file, place.line), place.function)
}

fn with_line(file: &str, line: u32) -> String {
    match line {
        0 => file.to_owned(),
        _ => format!("{file}:{line}"),
    }
}

/// The last directory, the file's name and the line.
fn end(place: &Place) -> String {
    let mut from_end = place.file.rmatch_indices('/').skip(1);
    let begin = from_end.next().map_or(0, |(at, _)| at + 1);
    with_line(&place.file[begin..], place.line)
}

fn short(place: &Place) -> String {
    escape(end(place).as_bytes())
}

/// The name in this many columns: directories go first, since a file's name and line say most.
fn fitted(place: &Place, room: usize) -> String {
    let end = end(place);
    let file = end.rsplit('/').next().unwrap_or(&end);
    let less = [&end, file].map(|place_in_file| format!("{place_in_file} {}", place.function));
    let mut names = std::iter::once(name(place)).chain(less);
    let fits = |name: &String| shorten(name.as_bytes(), room) == escape(name.as_bytes());
    let name = names
        .find(fits)
        .unwrap_or_else(|| format!("{file} {}", place.function));
    shorten(name.as_bytes(), room)
}

/// Lines by time.
pub fn text(report: &Report<'_>, page: &mut Page<'_>) -> io::Result<()> {
    if report.model.lines().is_empty() {
        return Ok(());
    }
    let (all, none) = lines(report);
    let shown = &all[..all.len().min(MAX_ROWS)];
    page.section("Lines and functions that opened the files")?;
    let mut table = Table::new(&[
        "TIME",
        "OPENS",
        "READ",
        "WRITTEN",
        "SLOW CALLS",
        "THEY TOOK",
        "<VIA",
    ]);
    let some_duration = |ns: u64| match ns {
        0 => String::new(),
        _ => duration(ns),
    };
    for line in shown {
        let counts = &line.counts;
        table.row(vec![
            some_duration(counts.ns),
            some(counts.opens),
            some_bytes(counts.bytes_read),
            some_bytes(counts.bytes_written),
            some(counts.slow),
            some_duration(counts.slow_ns),
            line.via.map_or_else(String::new, short),
        ]);
    }
    table.push_column(page, "LINE", |row, room| fitted(shown[row].place, room));
    page.table(table)?;
    if all.len() > shown.len() {
        let more = count((all.len() - shown.len()) as u64);
        page.line(Style::Dim, &format!("  and {more} more."))?;
    }
    if none.opens > 0 {
        let text = format!(
            "{} opens are of no known line: of other programs, or before a program was looked at.",
            count(none.opens)
        );
        page.prose(Style::Dim, &text)?;
    }
    Ok(())
}

/// The source text of a line and of those next to it, by number.
fn source(report: &Report<'_>, place: &Place) -> Vec<(u32, String)> {
    let lines = report.model.sources().around(&place.file, place.line);
    let shown = |text: &str| {
        let text = text.replace('\t', "    ");
        // As it is in the source, not as an escape.
        let pieces: Vec<String> = text
            .split('\\')
            .map(|piece| escape(piece.as_bytes()))
            .collect();
        pieces.join("\\")
    };
    let lines = lines.into_iter().map(|(line, text)| (line, shown(text)));
    lines.collect()
}

fn place_json(place: &Place) -> Json {
    json!({"file": &*place.file, "line": place.line, "function": &*place.function})
}

/// One object per line, and what is of none; null where no line is known.
pub fn json(report: &Report<'_>, is_whole: bool) -> Json {
    if report.model.lines().is_empty() {
        return Json::Null;
    }
    let (all, none) = lines(report);
    let most = if is_whole { MAX_JSON } else { MAX_SUMMARY_JSON };
    let listed = all.iter().take(most).map(|line| {
        let counts = &line.counts;
        let mut object = place_json(line.place);
        let source = report.model.sources();
        let source = source.around(&line.place.file, line.place.line);
        let own = source.iter().find(|(number, _)| *number == line.place.line);
        object["source"] = own.map_or(Json::Null, |(_, text)| text.trim().into());
        object["via"] = line.via.map_or(Json::Null, place_json);
        object["opens"] = counts.opens.into();
        object["reads"] = counts.reads.into();
        object["writes"] = counts.writes.into();
        object["other_calls"] = counts.others.into();
        object["bytes_read"] = counts.bytes_read.into();
        object["bytes_written"] = counts.bytes_written.into();
        object["seconds"] = json!(seconds(counts.ns));
        object["slow_calls"] = counts.slow.into();
        object["slow_seconds"] = json!(seconds(counts.slow_ns));
        object
    });
    json!({
        "lines": listed.collect::<Vec<_>>(),
        "left_out": all.len().saturating_sub(most),
        "opens_without_line": none.opens,
    })
}

/// On the page: a row for each line.
pub fn page(report: &Report<'_>) -> Option<PageSection> {
    if report.model.lines().is_empty() {
        return None;
    }
    let headings = [
        "<Line",
        "<Via",
        "Opens",
        "Reads",
        "Writes",
        "Read",
        "Written",
        "Time",
        "Slow calls",
        "They took",
    ];
    let mut table = PageTable::new("Lines", &headings);
    let (all, _) = lines(report);
    for line in all.iter().take(MAX_JSON) {
        let counts = &line.counts;
        let own = Cell::Source {
            name: escape(name(line.place).as_bytes()),
            line: line.place.line,
            source: source(report, line.place),
        };
        let cells = [
            line.via
                .map_or_else(String::new, |via| escape(name(via).as_bytes())),
            count(counts.opens),
            count(counts.reads),
            count(counts.writes),
            bytes(counts.bytes_read),
            bytes(counts.bytes_written),
            duration(counts.ns),
            count(counts.slow),
            duration(counts.slow_ns),
        ];
        table.row(std::iter::once(own).chain(cells.map(Cell::from)));
    }
    Some(PageSection {
        id: "lines".into(),
        title: "Lines and functions".into(),
        parts: vec![Part::Table(table)],
    })
}
