//! How many files a run used and how.

use std::io;

use crate::json::entries::{pid, put_text, seconds};
use crate::text::{
    escape::shorten,
    table::{Page, Style, Table},
    units::{bytes, count, duration, rate, share, some_bytes, some_rate},
};
use crate::{
    Report,
    file_counts::{Category, FileCounts, Share},
};
use serde_json::{Map, Value as Json, json};

/// Files by how they were used, by size, and the bandwidth that comes of it.
pub fn text(report: &Report<'_>, page: &mut Page<'_>) -> io::Result<()> {
    let counts = report.file_counts();
    if counts.all.files == 0 {
        return Ok(());
    }
    page.section("File counts")?;
    let mut table = Table::new(&["<", "FILES", "MEAN SIZE", "LARGEST", "READ", "WRITTEN"]);
    for (name, category) in [
        ("all", &counts.all),
        ("read only", &counts.read_only),
        ("written only", &counts.write_only),
        ("read and written", &counts.read_write),
        ("of one process", &counts.unique),
        ("of several processes", &counts.shared),
    ] {
        table.row(cells(name.into(), category));
    }
    page.table(table)?;
    let mut table = Table::new(&["<SIZE", "FILES", "SHARE", "READ", "WRITTEN"]);
    for class in &counts.sizes {
        let size = match class.to {
            Some(to) => format!("below {}", bytes(to)),
            None => format!("from {}", bytes(class.from)),
        };
        table.row(vec![
            size,
            count(class.sum.files),
            share(class.sum.files, counts.all.files),
            some_bytes(class.sum.bytes_read),
            some_bytes(class.sum.bytes_written),
        ]);
    }
    page.table(table)?;
    estimate(report, page, &counts)?;
    shared(report, page)
}

fn cells(name: String, category: &Category) -> Vec<String> {
    vec![
        name,
        count(category.files),
        some_bytes(category.mean_bytes()),
        some_bytes(category.largest_bytes),
        some_bytes(category.bytes_read),
        some_bytes(category.bytes_written),
    ]
}

fn estimate(report: &Report<'_>, page: &mut Page<'_>, counts: &FileCounts) -> io::Result<()> {
    let moved = counts
        .all
        .bytes_read
        .saturating_add(counts.all.bytes_written);
    let process = &report.model.processes()[counts.slowest.process as usize];
    let merged = report.file_time(|_| true);
    let text = format!(
        "{} at {} by the slowest process ({}, {} in calls on files), at {} by merged time.",
        bytes(moved),
        some_rate(counts.bandwidth()),
        process.id.pid,
        duration(counts.slowest.ns),
        rate(moved, merged.at_most),
    );
    if counts.slowest.ns > 0 && moved > 0 {
        page.prose(Style::Plain, &text)?;
    }
    let mean = |ns: u64| duration(ns / counts.processes.max(1));
    let text = format!(
        "Mean of {} processes: {} in reads, {} in writes and syncs, {} in other calls on files.",
        count(counts.processes),
        mean(counts.read_ns),
        mean(counts.write_ns),
        mean(counts.meta_ns),
    );
    page.prose(Style::Plain, &text)
}

/// Files that several processes used: who was slowest and who fastest.
fn shared(report: &Report<'_>, page: &mut Page<'_>) -> io::Result<()> {
    let files = report.shared.all();
    if files.is_empty() {
        return Ok(());
    }
    let mut table = Table::new(&[
        "PROCS", "SLOWEST", "PID", "MOVED", "FASTEST", "PID", "MOVED",
    ]);
    let pid = |share: &Share| report.model.processes()[share.process as usize].id.pid;
    for file in files {
        let mut cells = vec![count(file.processes.into())];
        for share in [&file.slowest, &file.fastest] {
            cells.extend([
                duration(share.ns),
                pid(share).to_string(),
                some_bytes(share.bytes),
            ]);
        }
        table.row(cells);
    }
    table.push_column(page, "SHARED FILE", |row, room| {
        shorten(report.model.file(files[row].file).path, room)
    });
    page.table(table)
}

/// The key `file_counts`.
pub fn json(report: &Report<'_>) -> Json {
    let counts = report.file_counts();
    let share = |share: &Share| json!({"pid": pid(report, share.process), "seconds": seconds(share.ns), "bytes": share.bytes});
    let shared = report.shared.all().iter().map(|shared| {
        let mut object = Map::new();
        put_text(&mut object, "path", report.model.file(shared.file).path);
        object.insert("processes".into(), shared.processes.into());
        object.insert("slowest".into(), share(&shared.slowest));
        object.insert("fastest".into(), share(&shared.fastest));
        Json::Object(object)
    });
    let slowest = (counts.slowest.ns > 0).then(|| pid(report, counts.slowest.process));
    let mean = |ns: u64| seconds(ns) / counts.processes.max(1) as f64;
    json!({
        "all": counts.all,
        "read_only": counts.read_only,
        "write_only": counts.write_only,
        "read_write": counts.read_write,
        "unique": counts.unique,
        "shared": counts.shared,
        "sizes": counts.sizes,
        "shared_files": shared.collect::<Vec<_>>(),
        "slowest_pid": slowest,
        "slowest_seconds": seconds(counts.slowest.ns),
        "bandwidth_by_slowest": counts.bandwidth(),
        "processes": counts.processes,
        "mean_read_seconds": mean(counts.read_ns),
        "mean_write_seconds": mean(counts.write_ns),
        "mean_meta_seconds": mean(counts.meta_ns),
    })
}
