//! What happened until training data was read first.

use std::io;

use crate::Report;
use crate::json::entries::{pid, put_text, seconds};
use crate::text::{
    escape::shorten,
    table::{Page, Style, Table},
    units::{bytes, count, duration},
};
use iotrace_analysis::startup::Searched;
use serde_json::{Map, Value as Json, json};

/// Directories with failed look-ups that are shown.
const MAX_TEXT_DIRECTORIES: usize = 6;

/// They are shown if one of them has this many.
const MIN_LOOK_UPS: u64 = 20;

/// Time to the first read of training data, and failed look-ups before it.
pub fn text(report: &Report<'_>, page: &mut Page<'_>) -> io::Result<()> {
    let startup = &report.analysis.startup;
    if startup.files == 0 && startup.not_found == 0 {
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
    searched_text(report, page)
}

/// Directories with many failed look-ups.
fn searched_text(report: &Report<'_>, page: &mut Page<'_>) -> io::Result<()> {
    let all = &report.analysis.startup.searched;
    if all.first().is_none_or(|most| most.calls < MIN_LOOK_UPS) {
        return Ok(());
    }
    let mut table = Table::new(&["NOT FOUND", "TIME", "<SEARCHED DIRECTORY"]);
    for searched in all.iter().take(MAX_TEXT_DIRECTORIES) {
        table.row(vec![
            count(searched.calls),
            duration(searched.ns),
            shorten(&searched.path, page.width() - 30),
        ]);
    }
    page.table(table)?;
    let rest = all.len().saturating_sub(MAX_TEXT_DIRECTORIES);
    if rest > 0 {
        let more = format!("  and {} more directories", count(rest as u64));
        page.line(Style::Dim, &more)?;
    }
    Ok(())
}

/// Directories with failed look-ups in the JSON report: those with the most.
const MAX_JSON_DIRECTORIES: usize = 100;

fn searched_json(searched: &Searched) -> Json {
    let mut object = Map::new();
    put_text(&mut object, "directory", &searched.path);
    object.insert("not_found".into(), searched.calls.into());
    object.insert("seconds".into(), seconds(searched.ns).into());
    object.insert("processes".into(), searched.processes.into());
    Json::Object(object)
}

/// The key `startup`.
pub fn json(report: &Report<'_>) -> Json {
    let startup = &report.analysis.startup;
    let processes: Vec<Json> = startup
        .by_process
        .iter()
        .map(|(process, calls)| json!({"pid": pid(report, *process), "not_found": calls}))
        .collect();
    json!({
        "first_training_read": startup.first_training_read_ns.map(seconds),
        "not_found": startup.not_found,
        "not_found_seconds": seconds(startup.not_found_ns),
        "not_found_unlisted": startup.unlisted(),
        "searched_directories": startup.searched.len(),
        "searched": startup.searched.iter().take(MAX_JSON_DIRECTORIES).map(searched_json).collect::<Vec<_>>(),
        "files": startup.files,
        "opens": startup.opens,
        "stats": startup.stats,
        "bytes_read": startup.bytes_read,
        "meta_seconds": seconds(startup.meta_ns),
        "read_seconds": seconds(startup.read_ns),
        "processes": processes,
    })
}
