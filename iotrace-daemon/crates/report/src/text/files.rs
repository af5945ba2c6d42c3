//! Files, directories and mount points in the text report.

use std::{cmp::Reverse, io};

use super::{
    escape::{escape, shorten},
    table::{Page, Style, Table},
    units::{count, duration, share, some, some_bytes},
};
use crate::{FileSum, Report};

/// Rows of each table.
const FILES: usize = 10;
const DIRECTORIES: usize = 5;
const MOUNTS: usize = 12;

/// The files that took the most time, those that moved the most bytes, and the busiest directories.
pub fn files(report: &Report<'_>, page: &mut Page<'_>) -> io::Result<()> {
    let by_time = report.largest(&report.files, FILES, |sum| sum.ns);
    let by_bytes = report.largest(&report.files, FILES, |sum| {
        sum.bytes_read + sum.bytes_written
    });
    let directories = report.largest(&report.directories, DIRECTORIES, |sum| sum.ns);
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

/// What happened on which filesystem.
pub fn mounts(report: &Report<'_>, page: &mut Page<'_>) -> io::Result<()> {
    let mut mounts: Vec<_> = report.mounts.iter().collect();
    if mounts.is_empty() {
        return Ok(());
    }
    mounts.sort_by_key(|(key, sum)| (Reverse(sum.ns), *key));
    let (shown, rest) = mounts.split_at(mounts.len().min(MOUNTS));
    page.section("Mount points")?;
    let mut table = Table::new(&["<TYPE", "TIME", "READ", "WRITTEN", "CALLS", "FILES"]);
    for ((_, fs_type), sum) in shown {
        let fs_type = if fs_type.is_empty() {
            "unknown".into()
        } else {
            escape(fs_type.as_bytes())
        };
        table.row(vec![
            fs_type,
            duration(sum.ns),
            some_bytes(sum.bytes_read),
            some_bytes(sum.bytes_written),
            count(sum.operations),
            some(sum.files),
        ]);
    }
    table.push_column(page, "MOUNT POINT", |row, room| {
        match shown[row].0.0.as_slice() {
            [] => "(not mounted where it can be seen)".to_owned(),
            mount_point => shorten(mount_point, room),
        }
    });
    page.table(table)?;
    if !rest.is_empty() {
        page.line(
            Style::Dim,
            &format!("  and {} more.", count(rest.len() as u64)),
        )?;
    }
    let path_only = report.path_only.operations();
    if path_only > 0 {
        let time = duration(report.path_only.nanoseconds());
        let text = format!(
            "  Beside these, {} calls ({time}) named a path and opened no file.",
            count(path_only)
        );
        page.line(Style::Plain, &text)?;
    }
    Ok(())
}
