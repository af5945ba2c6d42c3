//! Findings: what is wrong, in numbers, and what to do.

use std::io;

use crate::json::entries::{pid, put_text, seconds};
use crate::text::{
    escape::{escape, shorten},
    table::{Page, Style},
    units::{bytes, count, duration, share, some_rate},
};
use crate::{Report, merged, text::head, whatif::prediction_json};
use iotrace_analysis::{
    findings::{
        Finding, LOOKED_AT, Severity, Subject, Value,
        predictions::{Predictions, Quote},
    },
    whatif::Prediction,
};
use serde_json::{Map, Value as Json, json};

/// Subjects that are shown.
const MAX_SUBJECTS: usize = 3;

/// All findings, or that there are none.
pub fn text(report: &Report<'_>, page: &mut Page<'_>) -> io::Result<()> {
    if report.is_selection() {
        return Ok(());
    }
    page.section("Findings")?;
    let findings = &report.analysis.findings;
    if findings.is_empty() {
        let text = format!("Nothing to change in {}.", LOOKED_AT.join(", "));
        page.prose(Style::Good, &text)?;
    }
    for finding in findings {
        finding_lines(report, page, finding)?;
    }
    let unseen = report.not_looked_at().join(", ");
    page.prose(Style::Dim, &format!("Not looked at: {unseen}."))
}

fn finding_lines(report: &Report<'_>, page: &mut Page<'_>, finding: &Finding) -> io::Result<()> {
    let saving = &finding.saving;
    let style = match saving.severity {
        Severity::Low => Style::Plain,
        Severity::Medium | Severity::High => Style::Warning,
    };
    let title = escape(finding.title.as_bytes());
    page.prose(
        style,
        &format!("[{}] {}: {title}.", saving.severity.name(), finding.code),
    )?;
    let mut saves = format!(
        "Saves at most {}, {} of the run; confidence {}",
        duration(saving.at_most_ns),
        share(saving.at_most_ns, report.run.duration_ns),
        saving.confidence.name()
    );
    if !saving.not_looked_at.is_empty() {
        saves += &format!("; not known: {}", saving.not_looked_at.join(", "));
    }
    page.indented(Style::Plain, &saves)?;
    for line in predicted(&saving.predictions) {
        page.indented(Style::Plain, &line)?;
    }
    let evidence: Vec<String> = finding
        .evidence
        .iter()
        .map(|(name, value)| format!("{} {}", label(name), shown(value)))
        .collect();
    page.indented(Style::Plain, &evidence.join("; "))?;
    let shown = finding.subjects.iter().take(MAX_SUBJECTS);
    for subject in shown {
        let text = subject_text(report, subject, page.width() - 6);
        page.line(Style::Dim, &format!("      {text}"))?;
    }
    let rest = finding.subjects.len().saturating_sub(MAX_SUBJECTS);
    if rest > 0 {
        page.line(
            Style::Dim,
            &format!("      and {rest} more in the JSON report"),
        )?;
    }
    page.indented(Style::Good, &finding.advice)
}

/// What the changes give that were predicted, in one line, and which were not, in one each.
fn predicted(predictions: &Predictions) -> Vec<String> {
    let quotes: Vec<String> = predictions.quotes.iter().map(in_words).collect();
    let mut lines = Vec::new();
    if !quotes.is_empty() {
        let recorded = duration(predictions.recorded_ns);
        lines.push(format!(
            "Predicted instead of {recorded}: {}",
            quotes.join("; ")
        ));
    }
    let missing = predictions.missing.iter();
    lines.extend(missing.map(|reason| format!("Not predicted: {reason}")));
    lines
}

fn in_words(quote: &Quote) -> String {
    let Prediction {
        replayed,
        low,
        high,
        ..
    } = &quote.prediction;
    let limit = replayed.bottleneck();
    let limit = limit.map(|(part, _)| format!(", limited by {}", part.label()));
    format!(
        "{} {} ({} to {}{})",
        quote.change,
        duration(replayed.ns),
        duration(*low),
        duration(*high),
        limit.unwrap_or_default()
    )
}

/// The key `findings`.
pub fn json(report: &Report<'_>) -> Json {
    let findings = report.analysis.findings.iter();
    findings.map(|one| finding_json(report, one)).collect()
}

/// The name of a number without its unit, which its value has.
fn label(name: &str) -> String {
    let name = name.strip_suffix("_bytes_per_second").unwrap_or(name);
    name.replace('_', " ")
}

fn shown(value: &Value) -> String {
    match value {
        Value::Count(value) => count(*value),
        Value::Bytes(value) => bytes(*value),
        Value::Seconds(value) => duration((value * 1e9) as u64),
        Value::Share(value) => format!("{:.0} %", value * 100.0),
        Value::Rate(value) => some_rate(Some(*value)),
        Value::Text(text) => escape(text.as_bytes()),
    }
}

fn subject_text(report: &Report<'_>, subject: &Subject, room: usize) -> String {
    match subject {
        Subject::File(file) => shorten(report.model.file(*file).path, room),
        Subject::Process(index) => {
            let process = &report.model.processes()[*index as usize];
            let command = head::command(process);
            let pid = format!("process {} ", process.id.pid);
            let room = room.saturating_sub(pid.len());
            pid + &shorten(&command, room)
        }
        Subject::Directory(path) | Subject::Mount(path) => shorten(path, room),
    }
}

fn finding_json(report: &Report<'_>, finding: &Finding) -> Json {
    let evidence = finding.evidence.iter().map(|(name, value)| {
        let value = match value {
            Value::Count(value) | Value::Bytes(value) => json!(value),
            Value::Seconds(value) | Value::Share(value) | Value::Rate(value) => json!(value),
            Value::Text(text) => json!(text),
        };
        ((*name).to_owned(), value)
    });
    let saving = &finding.saving;
    let mut object = json!({
        "code": finding.code,
        "severity": saving.severity.name(),
        "saves_at_most_seconds": seconds(saving.at_most_ns),
        "saves_at_most_share": merged::share(saving.at_most_ns, report.run.duration_ns),
        "confidence": saving.confidence.name(),
        "not_looked_at": saving.not_looked_at,
        "title": finding.title,
        "evidence": evidence.collect::<Map<_, _>>(),
        "subjects": finding.subjects.iter().map(|of| subject_json(report, of)).collect::<Vec<_>>(),
        "advice": finding.advice,
        "also": finding.also,
    });
    let Predictions {
        recorded_ns,
        quotes,
        missing,
    } = &saving.predictions;
    if !quotes.is_empty() {
        let quotes = quotes.iter();
        let quotes = quotes.map(|one| prediction_json(&one.change.to_string(), &one.prediction));
        object["recorded_seconds"] = json!(seconds(*recorded_ns));
        object["predictions"] = quotes.collect();
    }
    if !missing.is_empty() {
        object["not_predicted"] = missing.iter().map(ToString::to_string).collect();
    }
    object
}

fn subject_json(report: &Report<'_>, subject: &Subject) -> Json {
    let mut object = Map::new();
    let (kind, name) = match subject {
        Subject::File(file) => ("file", report.model.file(*file).path),
        Subject::Process(process) => {
            object.insert("pid".into(), pid(report, *process).into());
            (
                "process",
                report.model.processes()[*process as usize]
                    .about
                    .comm
                    .as_slice(),
            )
        }
        Subject::Directory(path) => ("directory", path.as_slice()),
        Subject::Mount(path) => ("mount", path.as_slice()),
    };
    object.insert("kind".into(), kind.into());
    put_text(&mut object, "name", name);
    Json::Object(object)
}
