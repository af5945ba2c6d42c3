//! The data of the page, and the lists that are short.

use serde::Serialize;

use super::{
    columns::Head,
    files::{Directories, Files, Folded, Listed, Use},
    operations::Operations,
    over_time::{Heat, Series},
    tables::PageSection,
};
use crate::{
    Report,
    json::{Summary, entries::seconds},
    sections::{
        page_sections,
        processes::Processes,
        waits::{Lane, lanes},
    },
    text::escape,
};
use iotrace_model::counters::{saturating_add, shown::COLUMNS};

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
    cpu: Option<Cpu>,
    /// The operation trace, if the recording has one; or why it cannot be read.
    operations: Option<Operations>,
    operations_error: Option<String>,
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

/// CPU time of all processes; only where it is known on every node.
#[derive(Serialize)]
struct Cpu {
    seconds: f64,
    /// How long, at least, some thread was on a CPU and in no call.
    computing_seconds_at_least: f64,
}

impl Cpu {
    fn new(report: &Report<'_>) -> Option<Self> {
        let computing = report.model.computing();
        let mut by_node = vec![0; report.computing_nodes()? as usize];
        for computed in computing.history() {
            if let Some(sum) = by_node.get_mut(computed.node as usize) {
                saturating_add(sum, computed.at_least_ns);
            }
        }
        let least = by_node.into_iter().max().unwrap_or(0);
        let cpu = computing.of_processes(report.process_order.iter().copied())?;
        Some(Self {
            seconds: seconds(cpu),
            computing_seconds_at_least: seconds(least.min(report.run.duration_ns)),
        })
    }
}

impl<'a> Data<'a> {
    pub fn new(report: &'a Report<'a>, complete: bool) -> Self {
        let (processes, places) = Processes::new(report);
        let (series, heat) = Series::new(report.run, &report.analysis().series.slices, &places);
        let listed = Listed::new(report);
        let (operations, operations_error) = match Operations::read(report, &listed.places) {
            Ok(operations) => (operations, None),
            Err(error) => (None, Some(escape(error.to_string().as_bytes()))),
        };
        Self {
            complete,
            report: Summary(report),
            phases: PHASES,
            series,
            heat,
            cpu: Cpu::new(report),
            operations,
            operations_error,
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
