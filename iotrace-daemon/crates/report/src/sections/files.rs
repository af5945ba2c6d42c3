//! Files and directories.

use std::io;

use crate::json::entries::{
    CounterMap, Entries, Entry, Object, Text, entries, failure_entries, flat, path_entry,
    process_entries,
};
use crate::text::{
    escape::shorten,
    rollup::rollup,
    table::{Page, Table},
    units::{count, duration, share, some_bytes},
};
use crate::{FileSum, Report};
use iotrace_model::{IoTotals, Row, counters::Counters, input::Place};
use iotrace_phases::{phase::Direction, used::Used};
use serde::Serialize;

/// Rows of each table.
const MAX_FILES: usize = 10;
const MAX_DIRECTORIES: usize = 5;

/// The files that took the most time, those that moved the most bytes, and the busiest directories.
pub fn text(report: &Report<'_>, page: &mut Page<'_>) -> io::Result<()> {
    let by_time = report.largest(&report.files, MAX_FILES, |sum| sum.io.ns);
    let by_bytes = report.largest(&report.files, MAX_FILES, |sum| sum.io.bytes());
    file_table(report, page, "Files by time in calls", &by_time)?;
    file_table(report, page, "Files by bytes", &by_bytes)?;
    directory_table(report, page)
}

/// Directories with all that is below them.
fn directory_table(report: &Report<'_>, page: &mut Page<'_>) -> io::Result<()> {
    let directories = rollup(report, MAX_DIRECTORIES);
    if directories.is_empty() {
        return Ok(());
    }
    page.section("Directories by time in calls, with all below them")?;
    let whole = report.totals.counters.nanoseconds();
    let mut table = Table::new(&["TIME", "SHARE", "READ", "WRITTEN", "CALLS", "FILES"]);
    for below in &directories {
        let mut row = totals_cells(&below.io, whole);
        row.push(count(below.files));
        table.row(row);
    }
    table.push_column(page, "PATH", |row, room| {
        shorten(&directories[row].path, room)
    });
    page.table(table)
}

fn totals_cells(io: &IoTotals, whole: u64) -> Vec<String> {
    vec![
        duration(io.ns),
        share(io.ns, whole),
        some_bytes(io.bytes_read),
        some_bytes(io.bytes_written),
        count(io.operations),
    ]
}

fn file_table(
    report: &Report<'_>,
    page: &mut Page<'_>,
    title: &str,
    files: &[FileSum],
) -> io::Result<()> {
    if files.is_empty() {
        return Ok(());
    }
    page.section(title)?;
    let whole = report.totals.counters.nanoseconds();
    let mut table = Table::new(&["TIME", "SHARE", "READ", "WRITTEN", "CALLS", "PROCS"]);
    for sum in files {
        let mut row = totals_cells(&sum.io, whole);
        row.push(count(sum.processes.into()));
        table.row(row);
    }
    table.push_column(page, "PATH", |row, room| {
        path_of(report, files[row].file, room)
    });
    page.table(table)
}

fn path_of(report: &Report<'_>, index: u32, room: usize) -> String {
    let file = report.model.file(index);
    if file.path.is_empty() {
        return format!(
            "(no name: inode {} on {}:{})",
            file.id.inode,
            file.id.major(),
            file.id.minor()
        );
    }
    let mark = if file.deleted { " (gone)" } else { "" };
    let cut = if file.truncated { "…" } else { "" };
    format!(
        "{cut}{}{mark}",
        shorten(file.path, room.saturating_sub(mark.len() + cut.len()))
    )
}

/// The counters of one place, with its failures.
pub fn place_entries(
    report: &Report<'_>,
    process: u32,
    place: Place<u32>,
    counters: Counters,
) -> impl Entries {
    let failures = report.failures_at(process, place).map(flat);
    (
        CounterMap::new(report, counters),
        failure_entries(failures, false),
    )
}

/// A file as one process used it: an item of the key `files`.
pub fn row_json(report: &Report<'_>, row: &Row) -> impl Serialize {
    let file = report.model.file(row.file);
    let (mount_point, fs_type) = report.model.mount_of(&file);
    let kind = match file.is_directory() {
        true => "directory",
        false => "regular",
    };
    let device = format!("{}:{}", file.id.major(), file.id.minor());
    let counters = row.cell.total();
    let used = Used::new(&counters, &report.sorted[row.file as usize]);
    Object(entries![
        process_entries(report, row.process),
        path_entry(file.path),
        file.opened_as.map(|path| Text("opened_as", path)),
        file.truncated.then_some(Entry("path_truncated", true)),
        file.deleted.then_some(Entry("deleted", true)),
        Entry("type", kind),
        Entry("device", device),
        Entry("inode", file.id.inode),
        Entry("generation", file.id.generation),
        Text("mount_point", mount_point),
        Entry("fs_type", fs_type),
        Entry("block_size", file.block_size),
        Entry("size", file.size),
        phase_entries(report, row.file, used),
        place_entries(report, row.process, Place::File(row.file), counters),
    ])
}

/// The phase of a file as one process used it, and the rule that says so.
fn phase_entries(report: &Report<'_>, file: u32, used: Used) -> impl Entries {
    let sorted = &report.sorted[file as usize];
    let rule = |direction| {
        let rule = sorted.verdict.rule(direction)?;
        Some(report.classifier.rules().all()[rule].name.as_str())
    };
    let phase = sorted.phase(used.main);
    let reason = |direction: Direction| sorted.reasons[direction.index()];
    let read = used.reads_apart.then(|| reason(Direction::Read)).flatten();
    let of_reads = used.reads_apart.then(|| {
        let phase = sorted.phase(Direction::Read).name();
        let rule = rule(Direction::Read);
        (Entry("phase_read", phase), Entry("rule_read", rule))
    });
    let reason = reason(used.main).or(read);
    entries![
        Entry("phase", phase.name()),
        phase.class().map(|class| Entry("class", class.name())),
        Entry("rule", rule(used.main)),
        of_reads,
        reason.map(|reason| Entry("phase_reason", reason.name())),
    ]
}
