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
    findings(diff, &mut page)?;
    for section in &diff.sections {
        numbers(section, &mut page)?;
    }
    page.flush()
}

fn findings(diff: &Diff<'_>, page: &mut Page<'_>) -> io::Result<()> {
    page.section("Findings")?;
    let kept: Vec<_> = diff.kept().collect();
    let line = |page: &mut Page<'_>, style, word: &str, severity: &str, finding: &Finding| {
        let title = escape(finding.title.as_bytes());
        page.prose(
            style,
            &format!("{word} [{severity}] {}: {title}", finding.code),
        )
    };
    for finding in diff.gone() {
        line(
            page,
            Style::Good,
            "gone",
            finding.saving.severity.name(),
            finding,
        )?;
    }
    for finding in diff.new_ones() {
        line(
            page,
            Style::Warning,
            "new",
            finding.saving.severity.name(),
            finding,
        )?;
    }
    for (before, after) in &kept {
        let severity = match (before.saving.severity.name(), after.saving.severity.name()) {
            (before, after) if before == after => after.to_owned(),
            (before, after) => format!("{before}, now {after}"),
        };
        line(page, Style::Plain, "still", &severity, after)?;
    }
    if kept.is_empty() && diff.gone().next().is_none() && diff.new_ones().next().is_none() {
        page.line(Style::Dim, "  none, before and after")?;
    }
    Ok(())
}

fn numbers(section: &Section, page: &mut Page<'_>) -> io::Result<()> {
    let mut title = section.name.to_owned();
    title[..1].make_ascii_uppercase();
    page.section(&match section.is_phase {
        true => format!("Phase {}", section.name),
        false => title,
    })?;
    let mut table = Table::new(&["<", "BEFORE", "AFTER", "CHANGE"]);
    for measure in &section.measures {
        let is_empty = |value: Option<f64>| value.is_none_or(|value| value == 0.0);
        if is_empty(measure.before) && is_empty(measure.after) {
            continue;
        }
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
fn label(section: &Section, name: &str) -> String {
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

fn shown(unit: Unit, value: Option<f64>) -> String {
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
fn change(measure: &Measure) -> String {
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
