//! Two runs side by side, as one JSON object: `docs/reference/report-json.md` has its schema.

use std::io::{self, Write};

use serde_json::{Map, Value as Json, json};

use crate::{
    FORMAT_VERSION, Report,
    diff::{Diff, Measure, Unit},
};
use iotrace_analysis::findings::Finding;
use iotrace_model::run::{Target, rfc3339};

/// Writes the comparison as one JSON object and a newline.
pub fn diff_json(diff: &Diff<'_>, mut out: impl Write) -> io::Result<()> {
    let mut object = Map::new();
    object.insert("format_version".into(), FORMAT_VERSION.into());
    object.insert("before".into(), about(diff.before));
    object.insert("after".into(), about(diff.after));
    object.insert("remarks".into(), diff.remarks().into());
    let mut phases = Map::new();
    for section in &diff.sections {
        let measures = section.measures.iter();
        let measures: Map<String, Json> = measures
            .map(|measure| (measure.name.to_owned(), pair(measure)))
            .collect();
        let into = if section.is_phase {
            &mut phases
        } else {
            &mut object
        };
        into.insert(section.name.into(), measures.into());
    }
    object.insert("phases".into(), phases.into());
    let finding = |one: &Finding| json!({"code": one.code, "severity": one.saving.severity.name(), "title": one.title});
    let kept = diff.kept().map(|(before, after)| {
        json!({
            "code": after.code,
            "severity_before": before.saving.severity.name(),
            "severity_after": after.saving.severity.name(),
            "title": after.title,
        })
    });
    let findings = json!({
        "gone": diff.gone().map(finding).collect::<Vec<_>>(),
        "new": diff.new_ones().map(finding).collect::<Vec<_>>(),
        "kept": kept.collect::<Vec<_>>(),
    });
    object.insert("findings".into(), findings);
    serde_json::to_writer(&mut out, &object)?;
    out.write_all(b"\n")
}

fn about(report: &Report<'_>) -> Json {
    let run = report.run;
    let mut about = json!({
        "host": run.host,
        "start_time": rfc3339(run.start_unix_ns),
        "detail": run.detail,
        "exit_code": run.exit_code,
    });
    let (key, target) = match &run.target {
        Target::Command(command) => ("command", json!(command)),
        Target::Pids(pids) => ("pids", json!(pids)),
        Target::All(all) => ("all", json!(all)),
        Target::Unit(unit) => ("unit", json!(unit)),
    };
    about[key] = target;
    about
}

/// Both numbers, as the report has them, and what the one is by the other.
fn pair(measure: &Measure) -> Json {
    let value = |value: Option<f64>| match (measure.unit, value) {
        (Unit::Count | Unit::Bytes, Some(value)) => json!(value.round() as u64),
        (Unit::Time, Some(ns)) => json!(ns / 1e9),
        (_, value) => json!(value),
    };
    json!({
        "before": value(measure.before),
        "after": value(measure.after),
        "ratio": measure.ratio(),
    })
}
