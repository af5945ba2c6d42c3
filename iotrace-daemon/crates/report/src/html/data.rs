//! The data of the page, and the lists that are short.

use serde::Serialize;

use super::{
    columns::{Amount, Columns},
    files::{Directories, Files, Folded, Listed, Use},
    over_time::{Heat, Series},
    processes::Processes,
    waits::{Lane, lanes},
};
use crate::{Report, json::Summary, text::escape};

/// Phases in the order of the charts, and what has none: calls by path that opened no file, and overflow.
pub const PHASES: [&str; 6] = [
    "startup",
    "training",
    "checkpoint",
    "restore",
    "other",
    "by_name",
];

/// All that the page shows.
#[derive(Serialize)]
pub struct Data<'a> {
    complete: bool,
    report: Summary<'a>,
    phases: [&'static str; 6],
    /// None where no interval has anything.
    series: Option<Series>,
    heat: Heat,
    waits: Vec<Lane>,
    processes: Processes,
    /// Processes that are not listed.
    folded_processes: usize,
    mounts: Mounts,
    directories: Directories,
    files: Files,
    /// Files that are not listed.
    folded: Folded,
    /// What [`Files`] point to: combinations of phases, and names of rules.
    uses: Vec<Use>,
    rules: Vec<&'a str>,
}

impl<'a> Data<'a> {
    pub fn new(report: &'a Report<'a>, complete: bool) -> Self {
        let (processes, places) = Processes::new(report);
        let (series, heat) = Series::new(report, &places);
        let listed = Listed::new(report);
        Self {
            complete,
            report: Summary(report),
            phases: PHASES,
            series,
            heat,
            waits: lanes(report),
            folded_processes: report.processes.len() - processes.len(),
            processes,
            mounts: Mounts::new(report),
            directories: listed.directories,
            files: listed.files,
            folded: listed.folded,
            uses: listed.uses,
            rules: report
                .classifier
                .rules()
                .all()
                .iter()
                .map(|rule| rule.name.as_str())
                .collect(),
        }
    }
}

#[derive(Default, Serialize)]
struct Mounts {
    mount_point: Vec<String>,
    fs_type: Vec<String>,
    files: Vec<u64>,
    #[serde(flatten)]
    sums: Columns,
}

impl Mounts {
    fn new(report: &Report<'_>) -> Self {
        let mut mounts = Self::default();
        let mut sorted: Vec<_> = report.mounts.iter().collect();
        sorted.sort_by_key(|(_, sum)| std::cmp::Reverse(sum.bytes_read + sum.bytes_written));
        for ((mount_point, fs_type), sum) in sorted {
            mounts.mount_point.push(escape(mount_point));
            mounts.fs_type.push(fs_type.clone());
            mounts.files.push(sum.files);
            mounts.sums.push(&Amount {
                operations: sum.operations,
                bytes_read: sum.bytes_read,
                bytes_written: sum.bytes_written,
                ns: sum.ns,
                ..Amount::default()
            });
        }
        mounts
    }
}
