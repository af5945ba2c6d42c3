//! Two runs side by side, for people.

use std::io::{self, Write};

use super::{
    escape::escape,
    head,
    table::{Layout, Page, Style, Table},
    units::{bytes, count, duration},
};
use crate::diff::{Diff, Measure, Section, Unit};
use iotrace_analysis::findings::Finding;

/// A change by less than this share is not coloured.
const TOLERANCE: f64 = 0.05;

/// Writes the comparison as text.
pub fn diff_text(diff: &Diff<'_>, layout: Layout, out: impl Write) -> io::Result<()> {
    let mut page = Page::new(out, layout);
    for (title, report) in [("Before", diff.before), ("After", diff.after)] {
        page.line(Style::Dim, title)?;
        head::head(report, &mut page)?;
    }
    for remark in diff.remarks() {
        page.prose(Style::Warning, &format!("{}.", escape(remark.as_bytes())))?;
    }
    write_findings(diff, &mut page)?;
    for section in &diff.sections {
        numbers(section, &mut page)?;
    }
    page.flush()
}

/// Each finding of either run: whether it is gone, new or still there, its severity, and itself.
pub fn findings<'a>(diff: &Diff<'a>) -> Vec<(&'static str, String, &'a Finding)> {
    let alone = |word| move |one: &'a Finding| (word, one.saving.severity.name().to_owned(), one);
    let kept = diff.kept().map(|(before, after)| {
        let [old, new] = [before, after].map(|one| one.saving.severity.name());
        let severity = match old == new {
            true => new.to_owned(),
            false => format!("{old}, now {new}"),
        };
        ("still", severity, after)
    });
    let gone = diff.gone().map(alone("gone"));
    gone.chain(diff.new_ones().map(alone("new")))
        .chain(kept)
        .collect()
}

fn write_findings(diff: &Diff<'_>, page: &mut Page<'_>) -> io::Result<()> {
    page.section("Findings")?;
    let findings = findings(diff);
    for (word, severity, finding) in &findings {
        let style = match *word {
            "gone" => Style::Good,
            "new" => Style::Warning,
            _ => Style::Plain,
        };
        let title = escape(finding.title.as_bytes());
        let line = format!("{word} [{severity}] {}: {title}", finding.code);
        page.prose(style, &line)?;
    }
    if findings.is_empty() {
        page.line(Style::Dim, "  none, before and after")?;
    }
    Ok(())
}

/// The heading of a section.
pub fn title(section: &Section) -> String {
    let mut title = section.name.to_owned();
    title[..1].make_ascii_uppercase();
    match section.is_phase {
        true => format!("Phase {}", section.name),
        false => title,
    }
}

fn numbers(section: &Section, page: &mut Page<'_>) -> io::Result<()> {
    page.section(&title(section))?;
    let mut table = Table::new(&["<", "BEFORE", "AFTER", "CHANGE"]);
    for measure in section.measures.iter().filter(|one| !one.is_empty()) {
        let style = match measure.is_better(TOLERANCE) {
            Some(true) => Style::Good,
            Some(false) => Style::Warning,
            None => Style::Plain,
        };
        let cells = vec![
            label(section, measure.name),
            shown(measure.unit, measure.before),
            shown(measure.unit, measure.after),
            change(measure),
        ];
        table.styled_row(style, cells);
    }
    page.table(table)
}

/// The name in words.
pub fn label(section: &Section, name: &str) -> String {
    // Of saves and loads it is the time from start to end.
    let is_event = ["checkpoints", "restores"].contains(&section.name);
    let words = match name {
        "seconds" if is_event => "time",
        "seconds" => "time in calls",
        "merged_seconds" => "merged time",
        "bandwidth_bytes_per_second" => "bandwidth",
        "duration_seconds" => "duration",
        "mean_seconds" => "time, mean",
        "longest_seconds" => "time, longest",
        "fsync_seconds" => "time in fsync",
        "read_seconds" => "time in reads",
        "training_pause_seconds" => "training stopped",
        "first_seconds" => "first epoch",
        "later_mean_seconds" => "later epochs, mean",
        "not_found_seconds" => "time of not found",
        name => return name.replace('_', " "),
    };
    words.to_owned()
}

pub fn shown(unit: Unit, value: Option<f64>) -> String {
    let Some(value) = value else {
        return "-".into();
    };
    let whole = value.round() as u64;
    match unit {
        Unit::Count => count(whole),
        Unit::Bytes => bytes(whole),
        Unit::Time => duration(whole),
        Unit::Rate => format!("{}/s", bytes(whole)),
        Unit::Share => format!("{:.1} %", value * 100.0),
    }
}

/// `-53 %`, `+12 %`, or by how much it is more where it more than doubled.
pub fn change(measure: &Measure) -> String {
    match measure.ratio() {
        None => String::new(),
        Some(ratio) if ratio >= 2.0 => format!("x{ratio:.1}"),
        Some(ratio) => {
            let percent = (ratio - 1.0) * 100.0;
            match percent.abs() < 0.5 {
                true => "=".into(),
                false => format!("{percent:+.0} %"),
            }
        }
    }
}
