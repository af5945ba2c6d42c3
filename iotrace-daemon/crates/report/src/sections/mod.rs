//! The sections of the report: a file each, with the section's text, its JSON and its tables of the page.
//!
//! A new section is a file here, a row of [`SECTIONS`] and, if it has JSON, a line of [`json_entries`].

mod balance;
mod block;
mod checkpoints;
mod epochs;
mod failures;
mod file_counts;
mod files;
mod findings;
mod in_flight;
mod latencies;
mod libraries;
mod lines;
mod losses;
mod mounts;
pub mod nodes;
mod operations;
pub mod phases;
pub mod processes;
mod sizes;
mod startup;
mod time_series;
mod totals;
mod unseen;
pub mod waits;

use std::io;

use serde::ser::SerializeMap;

use crate::{Report, html::PageSection, json::entries::Seq, programs, text::table::Page, verdict};
use iotrace_model::run::Target;

/// A part of the text report that can be asked for by its name.
pub struct Section {
    pub name: &'static str,
    pub(crate) text: fn(&Report<'_>, &mut Page<'_>) -> io::Result<()>,
    /// The options of `record` that keep what it is about, if one must be given.
    kept_by: Option<&'static str>,
    /// Its tables on the page, if the page needs no script for it.
    page: fn(&Report<'_>) -> Option<PageSection>,
}

/// All sections, in the order of the text report and of the tables of the page.
pub const SECTIONS: &[Section] = &[
    section("findings", findings::text),
    section("in-flight", in_flight::text),
    section("nodes", nodes::text),
    section("waits", waits::text).kept_by("--waits"),
    section("lines", lines::text)
        .kept_by("--lines or --stacks")
        .with_page(lines::page),
    section("phases", phases::text),
    section("checkpoints", checkpoints::text),
    section("epochs", epochs::text),
    section("startup", startup::text),
    section("totals", totals::text),
    section("processes", processes::text),
    section("files", files::text),
    section("file-counts", file_counts::text),
    section("operations", operations::text),
    section("sizes", sizes::text),
    section("latencies", latencies::text)
        .kept_by("--latencies")
        .with_page(latencies::page),
    section("failures", failures::text),
    section("mounts", mounts::text).with_page(mounts::page),
    section("block", block::text)
        .kept_by("--block")
        .with_page(block::page),
    section("libraries", libraries::text).kept_by("--uprobe"),
    section("unseen", unseen::text),
    section("losses", losses::text),
];

/// The JSON of all sections, in the order of the JSON report; lists that may be long only if `is_whole`.
pub fn json_entries<M: SerializeMap>(
    map: &mut M,
    report: &Report<'_>,
    is_whole: bool,
) -> Result<(), M::Error> {
    let (run, analysis) = (report.run, &report.analysis);
    map.serialize_entry("verdict", &verdict::json(report))?;
    if matches!(run.target, Target::All(_)) {
        map.serialize_entry("programs", &programs::json(report, is_whole))?;
    }
    map.serialize_entry("totals", &totals::json(report))?;
    map.serialize_entry("phases", &phases::PhasesJson::whole(report))?;
    map.serialize_entry("waits", &waits::json(report, is_whole))?;
    map.serialize_entry("lines", &lines::json(report, is_whole))?;
    map.serialize_entry("latencies", &latencies::json(report, is_whole))?;
    map.serialize_entry("breakdown", &phases::breakdown(&report.breakdown()))?;
    map.serialize_entry("checkpoints", &checkpoints::json(report))?;
    map.serialize_entry("restores", &checkpoints::restores_json(report))?;
    map.serialize_entry("copies", &checkpoints::copies_json(report))?;
    map.serialize_entry("epochs", &epochs::json(report))?;
    map.serialize_entry(
        "training_data",
        &epochs::training_data_json(&analysis.epochs),
    )?;
    map.serialize_entry("balance", &balance::json(report))?;
    map.serialize_entry("startup", &startup::json(report))?;
    map.serialize_entry("findings", &findings::json(report))?;
    map.serialize_entry("looked_at", report.looked_at())?;
    map.serialize_entry("not_looked_at", &report.not_looked_at())?;
    if report.has_nodes() {
        map.serialize_entry("nodes", &nodes::json(report))?;
    }
    map.serialize_entry("file_counts", &file_counts::json(report))?;
    map.serialize_entry("in_flight", &in_flight::json(run))?;
    map.serialize_entry("remarks", &report.remarks())?;
    if is_whole {
        map.serialize_entry("time_series", &time_series::json(report))?;
        let process = |index: &u32| processes::json(report, *index);
        let processes = Seq(|| report.process_order.iter().map(process));
        map.serialize_entry("processes", &processes)?;
        let rows = report.rows_in_order();
        let rows = Seq(|| rows.iter().map(|row| files::row_json(report, row)));
        map.serialize_entry("files", &rows)?;
    }
    map.serialize_entry("losses", &report.losses(true))?;
    map.serialize_entry("notes", &report.losses(false))?;
    map.serialize_entry("not_seen", &report.unseen())?;
    if let Some(trace) = &run.trace {
        map.serialize_entry("trace", &losses::TraceJson::of(trace))?;
    }
    if let Some(uprobes) = libraries::json(report) {
        map.serialize_entry("uprobes", &uprobes)?;
    }
    if let Some(block) = block::json(report, is_whole) {
        map.serialize_entry("block", &block)?;
    }
    Ok(())
}

/// The sections of the page that need no script.
pub fn page_sections(report: &Report<'_>) -> Vec<PageSection> {
    let sections = SECTIONS.iter();
    sections.filter_map(|one| (one.page)(report)).collect()
}

const fn section(
    name: &'static str,
    text: fn(&Report<'_>, &mut Page<'_>) -> io::Result<()>,
) -> Section {
    Section {
        name,
        text,
        kept_by: None,
        page: |_| None,
    }
}

impl Section {
    const fn with_page(self, page: fn(&Report<'_>) -> Option<PageSection>) -> Self {
        Self { page, ..self }
    }

    const fn kept_by(self, options: &'static str) -> Self {
        Self {
            kept_by: Some(options),
            ..self
        }
    }

    /// What is said instead of it where there is nothing to say.
    pub(crate) fn absent(&self) -> String {
        let name = self.name;
        match self.kept_by {
            Some(options) => format!("{name}: none; record with {options} to keep them"),
            None => format!("{name}: none"),
        }
    }
}
