//! Checkpoints, restores and copies of files.

use std::io;

use crate::Report;
use crate::json::entries::{moment, object, pid, put_text, seconds};
use crate::text::{
    escape::shorten,
    table::{Page, Style, Table},
    units::{bytes, count, duration, some_rate},
};
use iotrace_analysis::saves::Event;
use iotrace_phases::copies::Copy;
use serde_json::{Map, Value as Json, json};

/// Rows of each table before the rest is summed up.
pub const MAX_ROWS: usize = 12;

/// Saves, then loads.
pub fn text(report: &Report<'_>, page: &mut Page<'_>) -> io::Result<()> {
    let saves = &report.analysis.checkpoints;
    if !saves.is_empty() {
        page.section(&format!("Checkpoints: {}", count(saves.len() as u64)))?;
        let mut table = Table::new(&[
            "START",
            "TIME",
            "SYNC",
            "WRITTEN",
            "FILES",
            "BYTES / TIME",
            "<READS",
        ]);
        for save in saves.iter().take(MAX_ROWS) {
            let reads = match save.training_stopped {
                Some(true) => "stopped",
                Some(false) => "went on",
                None => "",
            };
            let mut cells = event_cells(save);
            cells.insert(
                2,
                if save.syncs > 0 {
                    duration(save.sync_ns)
                } else {
                    String::new()
                },
            );
            cells.push(reads.into());
            table.row(cells);
        }
        name_column(page, &mut table, saves);
        page.table(table)?;
        rest(page, saves.len())?;
        inexact(page, saves.iter().any(|save| !save.is_exact))?;
    }
    copies(report, page)?;
    let loads = &report.analysis.restores;
    if loads.is_empty() {
        return Ok(());
    }
    page.section(&format!(
        "Loads of models and checkpoints: {}",
        count(loads.len() as u64)
    ))?;
    let mut table = Table::new(&["START", "TIME", "READ", "FILES", "BYTES / TIME"]);
    for load in loads.iter().take(MAX_ROWS) {
        let mut cells = event_cells(load);
        if load.mapped.files > 0 {
            cells[2] = format!("{} mapped", bytes(load.mapped.bytes));
        }
        table.row(cells);
    }
    name_column(page, &mut table, loads);
    page.table(table)?;
    rest(page, loads.len())?;
    if loads.iter().any(|load| load.mapped.files > 0) {
        let how = "What is read through a mapping makes no call: such a load may have lasted longer, and `mapped` is the size of \
                   its files.";
        page.prose(Style::Dim, how)?;
    }
    Ok(())
}

/// Copies of checkpoints and data to other files.
fn copies(report: &Report<'_>, page: &mut Page<'_>) -> io::Result<()> {
    let copies = &report.analysis.copies.all;
    if copies.is_empty() {
        return Ok(());
    }
    page.section(&format!("Copies: {}", count(copies.len() as u64)))?;
    let mut table = Table::new(&["START", "TIME", "COPIED", "BEHIND THE SAVE"]);
    for copy in copies.iter().take(MAX_ROWS) {
        table.row(vec![
            at(report.moment(copy.start)),
            duration(copy.end - copy.start),
            bytes(copy.bytes),
            report.lag_ns(copy).map(duration).unwrap_or_default(),
        ]);
    }
    table.push_column(page, "TO", |row, room| {
        shorten(report.model.file(copies[row].target).path, room)
    });
    page.table(table)?;
    rest(page, copies.len())?;
    if copies.iter().any(|copy| copy.is_inferred) {
        let how = "Copies by read and write are inferred: a process read as many bytes of one file as it wrote to \
                   another at that time.";
        page.prose(Style::Dim, how)?;
    }
    Ok(())
}

fn event_cells(event: &Event) -> Vec<String> {
    vec![
        at(event.start),
        duration(event.ns()),
        bytes(event.bytes),
        count(event.files.len() as u64),
        some_rate(event.bandwidth()),
    ]
}

fn name_column(page: &Page<'_>, table: &mut Table, events: &[Event]) {
    table.push_column(page, "NAME", |row, room| shorten(&events[row].name, room));
}

pub fn rest(page: &mut Page<'_>, all: usize) -> io::Result<()> {
    let rest = all.saturating_sub(MAX_ROWS);
    if rest == 0 {
        return Ok(());
    }
    page.line(Style::Dim, &format!("  and {} more.", count(rest as u64)))
}

pub fn inexact(page: &mut Page<'_>, is_inexact: bool) -> io::Result<()> {
    if !is_inexact {
        return Ok(());
    }
    let text = "Files were used several times between two flushes, so some times stand evenly between known ones. Where parts of \
                files are used again, the number may differ, too.";
    page.prose(Style::Dim, text)
}

/// A moment as the time since the start of the run.
pub fn at(ns: i64) -> String {
    match u64::try_from(ns) {
        Ok(ns) => duration(ns),
        Err(_) => "before".into(),
    }
}

/// The key `checkpoints`.
pub fn json(report: &Report<'_>) -> Json {
    let saves = report.analysis.checkpoints.iter();
    saves.map(|event| save(report, event)).collect()
}

/// The key `restores`.
pub fn restores_json(report: &Report<'_>) -> Json {
    let loads = report.analysis.restores.iter();
    loads.map(|event| load(report, event)).collect()
}

/// The key `copies`.
pub fn copies_json(report: &Report<'_>) -> Json {
    let copies = report.analysis.copies.all.iter();
    copies.map(|one| copy(report, one)).collect()
}

fn event(report: &Report<'_>, event: &Event) -> Map<String, Json> {
    let mut processes: Vec<u32> = event
        .processes
        .iter()
        .map(|process| pid(report, *process))
        .collect();
    processes.sort_unstable();
    let mut object = object(json!({
        "start": moment(event.start),
        "end": moment(event.end),
        "seconds": seconds(event.ns()),
        "files": event.files.len(),
        "bandwidth_bytes_per_second": event.bandwidth(),
        "data_seconds": seconds(event.data_ns),
        "meta_seconds": seconds(event.meta_ns),
        "processes": processes,
        "exact": event.is_exact,
    }));
    put_text(&mut object, "name", &event.name);
    put_text(&mut object, "directory", &event.directory);
    object
}

fn save(report: &Report<'_>, save: &Event) -> Json {
    let mut object = event(report, save);
    object.insert("bytes_written".into(), save.bytes.into());
    object.insert("fsyncs".into(), save.syncs.into());
    object.insert("fsync_seconds".into(), seconds(save.sync_ns).into());
    object.insert(
        "interval_seconds".into(),
        json!(save.interval_ns.map(seconds)),
    );
    object.insert("training_stopped".into(), json!(save.training_stopped));
    object.insert(
        "training_pause_seconds".into(),
        json!(save.training_pause_ns.map(seconds)),
    );
    let durability = &save.durability;
    let missing = durability.missing.iter().map(|missing| missing.name());
    object.insert("durable".into(), json!(durability.is_durable));
    object.insert("missing".into(), missing.collect());
    object.insert("unsynced_bytes".into(), durability.unsynced_bytes.into());
    Json::Object(object)
}

fn load(report: &Report<'_>, load: &Event) -> Json {
    let mut object = event(report, load);
    object.insert("bytes_read".into(), load.bytes.into());
    object.insert("mmaps".into(), load.mmaps.into());
    object.insert("mapped_file_bytes".into(), load.mapped.bytes.into());
    Json::Object(object)
}

/// A copy of a file.
fn copy(report: &Report<'_>, copy: &Copy) -> Json {
    let mut object = Map::new();
    for (key, file) in [("source", copy.source), ("target", copy.target)] {
        put_text(&mut object, key, report.model.file(file).path);
    }
    let at = |monotonic| moment(report.moment(monotonic));
    object.insert("start".into(), at(copy.start).into());
    object.insert("end".into(), at(copy.end).into());
    object.insert("bytes".into(), copy.bytes.into());
    object.insert("pid".into(), pid(report, copy.process).into());
    object.insert("inferred".into(), copy.is_inferred.into());
    let lag = report.lag_ns(copy).map(|ns| ns as f64 / 1e9);
    object.insert("lag_seconds".into(), lag.into());
    object.into()
}
