//! Files and directories.

use std::io;

use crate::json::entries::{counter_entries, failure_entries, flat, table_entries, text_entries};
use crate::text::{
    escape::shorten,
    table::{Page, Table},
    units::{count, duration, share, some_bytes},
};
use crate::{FileSum, Report};
use iotrace_model::{Row, counters::Counters, input::Place};
use iotrace_phases::{phase::Direction, used::Used};
use serde::{Serialize, Serializer, ser::SerializeMap};

/// Rows of each table.
const MAX_FILES: usize = 10;

const MAX_DIRECTORIES: usize = 5;

/// The files that took the most time, those that moved the most bytes, and the busiest directories.
pub fn text(report: &Report<'_>, page: &mut Page<'_>) -> io::Result<()> {
    let by_time = report.largest(&report.files, MAX_FILES, |sum| sum.ns);
    let by_bytes = report.largest(&report.files, MAX_FILES, |sum| {
        sum.bytes_read + sum.bytes_written
    });
    let directories = report.largest(&report.directories, MAX_DIRECTORIES, |sum| sum.ns);
    file_table(report, page, "Files by time in calls", &by_time)?;
    file_table(report, page, "Files by bytes", &by_bytes)?;
    file_table(report, page, "Directories by time in calls", &directories)
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
        table.row(vec![
            duration(sum.ns),
            share(sum.ns, whole),
            some_bytes(sum.bytes_read),
            some_bytes(sum.bytes_written),
            count(sum.operations),
            count(sum.processes.into()),
        ]);
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
pub struct PlaceJson<'a> {
    pub report: &'a Report<'a>,
    pub process: u32,
    pub place: Place<u32>,
    pub counters: Counters,
}

impl PlaceJson<'_> {
    fn entries<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        counter_entries(map, self.report, &self.counters)?;
        table_entries(
            map,
            &self.counters,
            self.counters.sizes.entries(),
            self.counters.strides.entries(),
        )?;
        failure_entries(
            map,
            self.report.failures_at(self.process, self.place).map(flat),
            false,
        )
    }
}

impl Serialize for PlaceJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        self.entries(&mut map)?;
        map.end()
    }
}

/// A file as one process used it, in the JSON report.
pub struct RowJson<'a> {
    pub report: &'a Report<'a>,
    pub row: &'a Row,
}

impl Serialize for RowJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Row {
            process,
            file: index,
            cell,
        } = self.row;
        let model = self.report.model;
        let file = model.file(*index);
        let (mount_point, fs_type) = model.mount_of(&file);
        let mut map = serializer.serialize_map(None)?;
        let of = &model.processes()[*process as usize];
        if let Some(host) = self.report.host_of(of.node) {
            map.serialize_entry("host", host)?;
        }
        map.serialize_entry("pid", &of.id.pid)?;
        match file.path {
            [] => map.serialize_entry("path", &None::<&str>)?,
            path => text_entries(&mut map, "path", "path_hex", path)?,
        }
        if let Some(path) = file.opened_as {
            text_entries(&mut map, "opened_as", "opened_as_hex", path)?;
        }
        if file.truncated {
            map.serialize_entry("path_truncated", &true)?;
        }
        if file.deleted {
            map.serialize_entry("deleted", &true)?;
        }
        map.serialize_entry(
            "type",
            if file.is_directory() {
                "directory"
            } else {
                "regular"
            },
        )?;
        map.serialize_entry(
            "device",
            &format_args!("{}:{}", file.id.major(), file.id.minor()),
        )?;
        map.serialize_entry("inode", &file.id.inode)?;
        map.serialize_entry("generation", &file.id.generation)?;
        text_entries(&mut map, "mount_point", "mount_point_hex", mount_point)?;
        map.serialize_entry("fs_type", fs_type)?;
        map.serialize_entry("block_size", &file.block_size)?;
        map.serialize_entry("size", &file.size)?;
        let (place, counters) = (Place::File(*index), cell.total());
        row_entries(&mut map, self.report, *index, &counters)?;
        PlaceJson {
            report: self.report,
            process: *process,
            place,
            counters,
        }
        .entries(&mut map)?;
        map.end()
    }
}

/// The phase of a file as one process used it, and the rule that says so.
fn row_entries<M: SerializeMap>(
    map: &mut M,
    report: &Report<'_>,
    file: u32,
    counters: &Counters,
) -> Result<(), M::Error> {
    let sorted = &report.sorted[file as usize];
    let used = Used::new(counters, sorted);
    let rule = |direction| {
        let rule = sorted.verdict.rule(direction)?;
        Some(report.classifier.rules().all()[rule].name.as_str())
    };
    let phase = sorted.phase(used.main);
    map.serialize_entry("phase", phase.name())?;
    if let Some(class) = phase.class() {
        map.serialize_entry("class", class.name())?;
    }
    map.serialize_entry("rule", &rule(used.main))?;
    if used.reads_apart {
        map.serialize_entry("phase_read", sorted.phase(Direction::Read).name())?;
        map.serialize_entry("rule_read", &rule(Direction::Read))?;
    }
    let reason = |direction: Direction| sorted.reasons[direction.index()];
    let read = used.reads_apart.then(|| reason(Direction::Read)).flatten();
    match reason(used.main).or(read) {
        Some(reason) => map.serialize_entry("phase_reason", reason.name()),
        None => Ok(()),
    }
}
