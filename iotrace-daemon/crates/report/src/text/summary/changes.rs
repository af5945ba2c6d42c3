//! What to change, and what that saves.

use super::{
    super::{
        escape::{escape, width},
        table::Style,
        units::{duration, share},
    },
    lines::{Lines, wrapped},
};
use crate::Report;
use iotrace_analysis::findings::{Finding, LOOKED_AT, Severity};

/// Column at which the text of a finding begins.
const TEXT_COLUMN: usize = 10;

/// What to change, or that there is nothing. `shown`: the number of findings; `with_predictions`: whether they quote them.
pub fn findings(
    report: &Report<'_>,
    columns: usize,
    (shown, with_predictions): (usize, bool),
) -> Lines {
    let findings = &report.analysis.findings;
    if findings.is_empty() {
        let text = format!("Nothing to change in {}.", LOOKED_AT.join(", "));
        return wrapped(Style::Good, &text, columns, 1, 2);
    }
    let saves = "saves at most";
    let heading = "To change";
    let gap = " ".repeat(columns - 1 - width(heading) - saves.len());
    let mut lines = vec![(Style::Dim, format!(" {heading}{gap}{saves}"))];
    for (index, finding) in findings.iter().take(shown).enumerate() {
        lines.extend(finding_lines(report, finding, index + 1, columns));
        if with_predictions {
            lines.extend(predicted(finding, columns));
        }
    }
    let rest = findings.len().saturating_sub(shown);
    if rest > 0 {
        lines.push((
            Style::Dim,
            format!("   and {rest} more: --section findings"),
        ));
    }
    lines
}

/// How long the run would take, in short.
fn predicted(finding: &Finding, columns: usize) -> Lines {
    let quotes = finding.saving.predictions.quotes.iter();
    let quotes: Vec<String> = quotes
        .map(|quote| {
            format!(
                "{} with {}",
                duration(quote.prediction.replayed.ns),
                quote.change
            )
        })
        .collect();
    if quotes.is_empty() {
        return Vec::new();
    }
    let text = format!("Predicted: {}.", quotes.join(", "));
    wrapped(Style::Plain, &text, columns, TEXT_COLUMN, 1)
}

fn finding_lines(report: &Report<'_>, finding: &Finding, number: usize, columns: usize) -> Lines {
    let saving = &finding.saving;
    let saves = match saving.at_most_ns {
        0 => "no time".to_owned(),
        ns => format!("{}, {}", duration(ns), share(ns, report.run.duration_ns)),
    };
    let style = match saving.severity {
        Severity::Low => Style::Plain,
        Severity::Medium | Severity::High => Style::Warning,
    };
    let room = columns.saturating_sub(width(&saves) + 2);
    let title = escape(finding.title.as_bytes());
    let mut lines = wrapped(style, &title, room, TEXT_COLUMN, 2);
    let first = &mut lines[0].1;
    let label = format!(" {number} {:<6} ", saving.severity.name());
    first.replace_range(..TEXT_COLUMN, &format!("{label:<TEXT_COLUMN$}"));
    let gap = columns.saturating_sub(width(first) + width(&saves));
    first.push_str(&" ".repeat(gap));
    first.push_str(&saves);
    // What follows from the first finding is the most.
    let rows = if number == 1 { 2 } else { 1 };
    lines.extend(wrapped(
        Style::Plain,
        &finding.advice,
        columns,
        TEXT_COLUMN,
        rows,
    ));
    lines
}
