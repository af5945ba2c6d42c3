//! What happened on which filesystem.

use std::io;

use crate::text::{
    escape::{escape, shorten},
    table::{Page, Style, Table},
    units::{bytes, count, duration, some, some_bytes},
};
use crate::{
    MountSum, Report,
    html::{Cell, PageSection, PageTable, Part},
};
use std::cmp::Reverse;

const MAX_ROWS: usize = 12;

/// I/O by mount point.
pub fn text(report: &Report<'_>, page: &mut Page<'_>) -> io::Result<()> {
    let mut mounts: Vec<_> = report.mounts.iter().collect();
    if mounts.is_empty() {
        return Ok(());
    }
    mounts.sort_by_key(|(key, sum)| (Reverse(sum.io.ns), *key));
    let (shown, rest) = mounts.split_at(mounts.len().min(MAX_ROWS));
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
            duration(sum.io.ns),
            some_bytes(sum.io.bytes_read),
            some_bytes(sum.io.bytes_written),
            count(sum.io.operations),
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

/// On the page: a row for each mount point, those with the most bytes first.
pub fn page(report: &Report<'_>) -> Option<PageSection> {
    let moved = |sum: &MountSum| sum.io.bytes();
    let mut mounts: Vec<_> = report.mounts.iter().collect();
    mounts.sort_by_key(|(_, sum)| Reverse(moved(sum)));
    let whole = mounts.first().map_or(0, |(_, sum)| moved(sum));
    let headings = [
        "<Mount point",
        "<Filesystem",
        "Files",
        "Operations",
        "Read",
        "Written",
        "Time in I/O",
        "<Bytes",
    ];
    let known = |name: String| {
        if name.is_empty() {
            "unknown".to_owned()
        } else {
            name
        }
    };
    let mut table = PageTable::new("Mounts", &headings);
    for ((mount_point, fs_type), sum) in mounts {
        let cells = [
            known(escape(mount_point)),
            known(fs_type.clone()),
            count(sum.files),
            count(sum.io.operations),
            bytes(sum.io.bytes_read),
            bytes(sum.io.bytes_written),
            duration(sum.io.ns),
        ];
        let part = moved(sum);
        let bar = Cell::Bar { part, whole };
        table.row(cells.map(Cell::from).into_iter().chain([bar]));
    }
    Some(PageSection {
        id: "mounts".into(),
        title: "Mounts".into(),
        parts: vec![Part::Table(table)],
    })
}
