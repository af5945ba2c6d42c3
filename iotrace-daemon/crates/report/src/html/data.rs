//! The data of the page, and the lists that are short.

use serde::Serialize;

use super::{
    columns::Head,
    files::{Directories, Files, Folded, Listed, Use},
    over_time::{Heat, Series},
    tables::PageSection,
};
use crate::{
    Report,
    json::Summary,
    sections::{
        page_sections,
        processes::Processes,
        waits::{Lane, lanes},
    },
};
use iotrace_model::counters::shown::COLUMNS;

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
    /// Columns of counters, which tables have if some row has the counter.
    columns: Vec<Head>,
    processes: Processes,
    /// Processes that are not listed.
    folded_processes: usize,
    /// Sections that are notes and tables.
    sections: Vec<PageSection>,
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
        let (series, heat) = Series::new(report.run, &report.analysis().series.slices, &places);
        let listed = Listed::new(report);
        Self {
            complete,
            report: Summary(report),
            phases: PHASES,
            series,
            heat,
            waits: lanes(report),
            columns: COLUMNS.iter().map(Head::from).collect(),
            folded_processes: report.process_order.len() - processes.len(),
            processes,
            sections: page_sections(report),
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
