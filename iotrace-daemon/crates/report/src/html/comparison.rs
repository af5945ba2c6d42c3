//! Pages that compare runs: two of them before and after a change, or several at different sizes.

use std::io::{self, Write};

use serde::Serialize;

use super::{COMPARISON_SCRIPTS, Cell, PageSection, PageTable, Part, page};
use crate::{
    diff::{Diff, Section, Unit},
    scale::ScaleRow,
    text::{
        diff as words, escape, head,
        scale::{self, HEADINGS},
    },
};

/// What such a page shows.
#[derive(Serialize)]
struct Comparison {
    title: &'static str,
    notes: Vec<String>,
    sections: Vec<PageSection>,
}

/// Writes the comparison of two runs as a page.
pub fn diff_html(diff: &Diff<'_>, out: impl Write) -> io::Result<()> {
    let mut notes: Vec<String> = [("Before", diff.before), ("After", diff.after)]
        .map(|(which, report)| {
            let target = head::target(report.run);
            format!(
                "{which}: {} ({})",
                escape(target.as_bytes()),
                head::facts(report.run)
            )
        })
        .into();
    let remarks = diff.remarks().into_iter();
    notes.extend(remarks.map(|remark| format!("{}.", escape(remark.as_bytes()))));
    let numbers = diff.sections.iter().map(section);
    let comparison = Comparison {
        title: "Two runs compared",
        notes,
        sections: std::iter::once(findings(diff)).chain(numbers).collect(),
    };
    page(&comparison, &COMPARISON_SCRIPTS, out)
}

fn findings(diff: &Diff<'_>) -> PageSection {
    let mut table = PageTable::new(
        "Findings",
        &["<Change", "<Severity", "<Finding", "<What it says"],
    );
    for (word, severity, finding) in words::findings(diff) {
        let cells = [
            word.to_owned(),
            severity,
            finding.code.to_owned(),
            escape(finding.title.as_bytes()),
        ];
        table.row(cells.map(Cell::from));
    }
    let part = match table.is_empty() {
        true => Part::Note("None, before and after.".into()),
        false => Part::Table(table),
    };
    PageSection {
        id: "findings".into(),
        title: "Findings".into(),
        parts: vec![part],
    }
}

fn section(section: &Section) -> PageSection {
    let title = words::title(section);
    let mut table = PageTable::new(
        title.clone(),
        &["<Measure", "Before", "<", "After", "<", "Change"],
    );
    for measure in section.measures.iter().filter(|one| !one.is_empty()) {
        // A bar would mean nothing beside a count of findings or files.
        let has_bar = measure.unit != Unit::Count;
        let whole = measure
            .before
            .unwrap_or(0.0)
            .max(measure.after.unwrap_or(0.0));
        let bar = |value: Option<f64>| match value {
            Some(value) if has_bar && whole > 0.0 => Cell::Bar {
                part: (value / whole * 1e6) as u64,
                whole: 1_000_000,
            },
            _ => Cell::Text(String::new()),
        };
        table.row([
            words::label(section, measure.name).into(),
            words::shown(measure.unit, measure.before).into(),
            bar(measure.before),
            words::shown(measure.unit, measure.after).into(),
            bar(measure.after),
            words::change(measure).into(),
        ]);
    }
    PageSection {
        id: match section.is_phase {
            true => format!("phase-{}", section.name).into(),
            false => section.name.into(),
        },
        title: title.into(),
        parts: vec![Part::Table(table)],
    }
}

/// Writes the runs at different sizes as a page.
pub fn scale_html(rows: &[ScaleRow], out: impl Write) -> io::Result<()> {
    let headings: Vec<&str> = ["<Run"]
        .into_iter()
        .chain(HEADINGS.map(|(_, title)| title))
        .chain(["<"])
        .collect();
    let mut table = PageTable::new("Runs", &headings);
    for row in rows {
        let name = Cell::Text(escape(row.name.as_bytes()));
        let bar = row
            .efficiency
            .map_or(Cell::Text(String::new()), |share| Cell::Bar {
                part: (share.clamp(0.0, 1.0) * 1e6) as u64,
                whole: 1_000_000,
            });
        let cells = scale::cells(row).map(Cell::from);
        table.row([name].into_iter().chain(cells).chain([bar]));
    }
    let section = PageSection {
        id: "runs".into(),
        title: "Runs".into(),
        parts: vec![Part::Table(table), Part::Note(scale::EXPLANATION.into())],
    };
    let comparison = Comparison {
        title: "Runs at different sizes",
        notes: Vec::new(),
        sections: vec![section],
    };
    page(&comparison, &COMPARISON_SCRIPTS, out)
}
