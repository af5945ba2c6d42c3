//! Checkpoints, loads, epochs and the start in the text report.

use std::io;

use super::{
    escape::shorten,
    table::{Page, Style, Table},
    units::{bytes, count, duration, share, some_rate},
};
use crate::Report;
use iotrace_analysis::saves::Event;

/// Rows of each table before the rest is summed up.
const ROWS: usize = 12;
/// Directories that are shown of those that were searched in vain.
const SEARCHED: usize = 6;
/// Look-ups in one of them from which on they are shown.
const WORTH_A_TABLE: u64 = 20;

/// When training data was read first, and what was looked for in vain before.
pub fn startup(report: &Report<'_>, page: &mut Page<'_>) -> io::Result<()> {
    let startup = &report.analysis.startup;
    if startup.files + startup.not_found == 0 {
        return Ok(());
    }
    page.section("Startup")?;
    let mut facts = vec![format!(
        "{} files of programs and libraries, {} opens, {} read in {}",
        count(startup.files),
        count(startup.opens),
        bytes(startup.bytes_read),
        duration(startup.read_ns)
    )];
    if startup.not_found > 0 {
        facts.push(format!(
            "{} look-ups found nothing ({})",
            count(startup.not_found),
            duration(startup.not_found_ns)
        ));
    }
    if let Some(first) = startup.first_training_read_ns {
        facts.push(format!(
            "the first training file was read after {}",
            duration(first)
        ));
    }
    page.prose(Style::Plain, &format!("{}.", facts.join("; ")))?;
    searched(report, page)
}

/// Directories that were searched in vain, where that is more than a few.
fn searched(report: &Report<'_>, page: &mut Page<'_>) -> io::Result<()> {
    let all = &report.analysis.startup.searched;
    if all.first().is_none_or(|most| most.calls < WORTH_A_TABLE) {
        return Ok(());
    }
    let mut table = Table::new(&["NOT FOUND", "TIME", "<SEARCHED DIRECTORY"]);
    for searched in all.iter().take(SEARCHED) {
        table.row(vec![
            count(searched.calls),
            duration(searched.ns),
            shorten(&searched.path, page.width() - 30),
        ]);
    }
    page.table(table)?;
    let rest = all.len().saturating_sub(SEARCHED);
    if rest > 0 {
        let more = format!("  and {} more directories", count(rest as u64));
        page.line(Style::Dim, &more)?;
    }
    Ok(())
}

/// Saves, then loads.
pub fn checkpoints(report: &Report<'_>, page: &mut Page<'_>) -> io::Result<()> {
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
        for save in saves.iter().take(ROWS) {
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
    for load in loads.iter().take(ROWS) {
        table.row(event_cells(load));
    }
    name_column(page, &mut table, loads);
    page.table(table)?;
    rest(page, loads.len())
}

/// Copies of checkpoints and data to other files.
fn copies(report: &Report<'_>, page: &mut Page<'_>) -> io::Result<()> {
    let copies = &report.analysis.copies.all;
    if copies.is_empty() {
        return Ok(());
    }
    page.section(&format!("Copies: {}", count(copies.len() as u64)))?;
    let mut table = Table::new(&["START", "TIME", "COPIED", "BEHIND THE SAVE"]);
    for copy in copies.iter().take(ROWS) {
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

/// Passes over the training files.
pub fn epochs(report: &Report<'_>, page: &mut Page<'_>) -> io::Result<()> {
    let epochs = &report.analysis.epochs;
    if epochs.files == 0 {
        let Some(reason) = epochs.untold else {
            return Ok(());
        };
        page.section("Epochs")?;
        return page.prose(Style::Plain, &format!("Not told: {reason}."));
    }
    page.section(&format!("Epochs: {}", count(epochs.epochs.len() as u64)))?;
    let data = format!(
        "{} training files of {}",
        count(epochs.files),
        bytes(epochs.bytes)
    );
    if let Some(reason) = epochs.untold {
        return page.prose(
            Style::Plain,
            &format!("{data}; passes over them are not told: {reason}."),
        );
    }
    let mut table = Table::new(&[
        "EPOCH",
        "START",
        "TIME",
        "READ",
        "FROM STORAGE",
        "FILES",
        "TIME IN READS",
        "BYTES / TIME",
        "<ORDER",
        "<",
    ]);
    for epoch in epochs.epochs.iter().take(ROWS) {
        let ns = u64::try_from(epoch.end - epoch.start).unwrap_or(0);
        let part = (!epoch.is_complete()).then(|| {
            format!(
                "{} of the data",
                share((epoch.coverage * 1e6) as u64, 1_000_000)
            )
        });
        table.row(vec![
            epoch.number.to_string(),
            at(epoch.start),
            duration(ns),
            bytes(epoch.bytes),
            if epochs.knows_cache {
                bytes(epoch.fetched)
            } else {
                String::new()
            },
            count(epoch.files),
            duration(epoch.read_ns),
            some_rate(epoch.speed()),
            epoch
                .order
                .map(|order| order.name().to_owned())
                .unwrap_or_default(),
            part.unwrap_or_default(),
        ]);
    }
    page.table(table)?;
    rest(page, epochs.epochs.len())?;
    let copies = if epochs.copies > 1 {
        format!(", all of which each of {} ranks read", epochs.copies)
    } else {
        String::new()
    };
    page.prose(Style::Plain, &format!("{data}{copies}."))?;
    inexact(page, epochs.epochs.iter().any(|epoch| !epoch.is_exact))
}

fn rest(page: &mut Page<'_>, all: usize) -> io::Result<()> {
    let rest = all.saturating_sub(ROWS);
    if rest == 0 {
        return Ok(());
    }
    page.line(Style::Dim, &format!("  and {} more.", count(rest as u64)))
}

fn inexact(page: &mut Page<'_>, is_inexact: bool) -> io::Result<()> {
    if !is_inexact {
        return Ok(());
    }
    let text = "Files were used several times between two flushes: how often is exact, some of the times stand evenly between \
                known ones.";
    page.prose(Style::Dim, text)
}

/// A moment as the time since the start of the run.
fn at(ns: i64) -> String {
    match u64::try_from(ns) {
        Ok(ns) => duration(ns),
        Err(_) => "before".into(),
    }
}
