//! Calls of libraries and marked ranges in the text report.

use std::{cmp::Reverse, io};

use iotrace_common::library::NAMES;

use super::{
    escape::{escape, shorten},
    table::{Page, Style, Table},
    units::{bytes, count, duration, some, some_bytes},
};
use crate::{
    Report,
    library::{OfSubject, Subject},
};

/// Files of a library, and names of ranges, before the rest is counted.
const SHOWN: usize = 15;

/// What programs asked each library for.
pub fn libraries(report: &Report<'_>, page: &mut Page<'_>) -> io::Result<()> {
    for library in NAMES {
        let mut subjects = report.library_subjects(library);
        if !subjects.is_empty() {
            subjects.sort_by_key(|(subject, sum)| (Reverse(time(sum)), subject.clone()));
            of_library(library, &subjects, page)?;
        }
    }
    let probed = &report.run.uprobes;
    for late in probed.iter().filter(|probed| probed.late_ns > 0) {
        let text = format!(
            "The probes on {} came {} after it was mapped: calls until then are not counted.",
            escape(late.file.as_bytes()),
            duration(late.late_ns)
        );
        page.prose(Style::Warning, &text)?;
    }
    ranges(report, page)
}

fn of_library(
    library: &str,
    subjects: &[(Subject, OfSubject)],
    page: &mut Page<'_>,
) -> io::Result<()> {
    page.section(&format!("Calls of {library}"))?;
    let mut table = Table::new(&[
        "READS", "READ", "WRITES", "WRITTEN", "OTHERS", "FAILED", "TIME", "SYSCALLS",
    ]);
    let shown = &subjects[..subjects.len().min(SHOWN)];
    for (_, sum) in shown {
        let all = [&sum.reads, &sum.writes, &sum.others];
        table.row(vec![
            some(sum.reads.calls),
            some_bytes(sum.reads.bytes),
            some(sum.writes.calls),
            some_bytes(sum.writes.bytes),
            some(sum.others.calls),
            some(all.iter().map(|calls| calls.failures).sum()),
            duration(time(sum)),
            sum.system_calls.map(count).unwrap_or_default(),
        ]);
    }
    table.push_column(page, "FILE", |row, room| {
        let (subject, _) = &shown[row];
        let name = if subject.path.is_empty() {
            b"(not known)"
        } else {
            subject.path.as_slice()
        };
        if subject.object.is_empty() {
            return shorten(name, room);
        }
        shorten(&[name, b" ", &subject.object].concat(), room)
    });
    page.table(table)?;
    if subjects.len() > shown.len() {
        let more = count((subjects.len() - shown.len()) as u64);
        page.line(Style::Dim, &format!("  and {more} more"))?;
    }
    let moved = |pick: fn(&OfSubject) -> u64| subjects.iter().map(|(_, sum)| pick(sum)).sum();
    let text = format!(
        "{} read and {} written by calls of the library; SYSCALLS are the reads and writes of the same file by system \
         calls.",
        bytes(moved(|sum| sum.reads.bytes)),
        bytes(moved(|sum| sum.writes.bytes))
    );
    page.prose(Style::Dim, &text)
}

fn time(sum: &OfSubject) -> u64 {
    sum.reads.ns + sum.writes.ns + sum.others.ns
}

/// Ranges that programs marked, by name.
fn ranges(report: &Report<'_>, page: &mut Page<'_>) -> io::Result<()> {
    let names = report.range_names();
    if names.is_empty() {
        return Ok(());
    }
    page.section("Marked ranges")?;
    let mut table = Table::new(&[
        "TIMES", "TIME", "MEAN", "SHORTEST", "LONGEST", "READ", "WRITTEN", "CALLS", "IN CALLS",
    ]);
    let shown = &names[..names.len().min(SHOWN)];
    for name in shown {
        table.row(vec![
            count(name.count),
            duration(name.ns),
            duration(name.ns / name.count.max(1)),
            duration(name.shortest_ns),
            duration(name.longest_ns),
            some_bytes(name.bytes_read),
            some_bytes(name.bytes_written),
            some(name.operations),
            duration(name.calls_ns),
        ]);
    }
    table.push_column(page, "RANGE", |row, room| shorten(&shown[row].name, room));
    page.table(table)?;
    if names.len() > shown.len() {
        let more = count((names.len() - shown.len()) as u64);
        page.line(Style::Dim, &format!("  and {more} more names"))?;
    }
    page.prose(
        Style::Dim,
        "What is read and written is that of all traced processes while the range lasted.",
    )
}
