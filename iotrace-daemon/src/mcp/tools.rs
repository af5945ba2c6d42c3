//! The tools: a row of [`TOOLS`] each, and what it answers.

use std::{path::PathBuf, sync::Arc};

use anyhow::{Context as _, bail};
use iotrace_analysis::series::Flow;
use iotrace_model::run::{Target, rfc3339};
use iotrace_phases::{path_glob::PathGlob, phase::Phase};
use iotrace_recording::{Job, rows};
use iotrace_report::{
    Extent, Layout, Report, SECTIONS,
    diff::Diff,
    view::{By, Choice, View},
};
use rmcp::{
    handler::server::tool::schema_for_type,
    model::{self, JsonObject, ToolAnnotations},
    schemars::{self, JsonSchema},
};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};

use super::{
    Context,
    bound::{fitted, lines},
    recordings::check_links,
    sql,
};
use crate::quote::quote;

/// Rows, or lines, of an answer whose asker named no number.
const LIMIT: usize = 50;
const LINES: usize = 200;

/// What an assistant can ask.
pub struct Tool {
    pub name: &'static str,
    description: &'static str,
    arguments: fn() -> Arc<JsonObject>,
    /// The answer, of the arguments; an error says first what to do.
    pub answer: fn(&Context, Value) -> anyhow::Result<String>,
}

impl Tool {
    /// As the protocol has it.
    pub fn described(&self) -> model::Tool {
        let annotations = ToolAnnotations::new().read_only(true).open_world(false);
        model::Tool::new(self.name, self.description, (self.arguments)())
            .with_annotations(annotations)
    }
}

macro_rules! tools {
    ($($name:ident($arguments:ty): $description:expr;)+) => {
        /// All of them.
        pub const TOOLS: &[Tool] = &[$(Tool {
            name: stringify!($name),
            description: $description,
            arguments: schema_for_type::<$arguments>,
            answer: |context, arguments| $name(context, parsed::<$arguments>(arguments)?),
        }),+];
    };
}

tools! {
    list_recordings(Nothing): "The recordings that can be asked about: name, host, command, start, length, whether it is \
        complete, and whether it has an operation trace. The names are what `recordings` of the other tools takes.";
    summary(OfRecordings): "What a run did, in brief: verdict (was it bound by file I/O?), totals, phases, epochs, saves, \
        startup, findings, losses. Start here.";
    findings(OfRecordings): "Problems that were found and what helps, the largest saving first, with which data \
        was collected and which was not.";
    report_section(OfSection): "One section of the text report, by name.";
    files(OfFiles): "The files with the most time in calls or the most bytes, as far as they match a glob and belong to a \
        phase: operations, bytes and seconds of each, and the sum of the rest.";
    waits(OfRecordings): "What main threads waited for (storage, the data loader, CPUs...), and for which files. Only of \
        recordings that were made with --waits.";
    tables(OfTables): "The tables that `query` can read, or the columns of one, with what each means.";
    query(OfQuery): "One SELECT of SQLite's SQL over a recording's tables: processes, files (counters by process, file and \
        interval), errors, phases, spans, operations and others (see `tables`). Counters are differences over an interval: sum \
        them over any rows; max_* and slowest_* by max. Times are seconds since the Unix epoch, *_ns nanoseconds. A file is \
        (device, inode, generation), a process (host, pid, start_key). Lists such as access_sizes are JSON text, for json_each.";
    diff(OfDiff): "Two recordings side by side, before and after a change: numbers of both and their ratio, findings that are \
        gone, new and kept.";
}

/// No arguments.
#[derive(Deserialize, JsonSchema)]
#[schemars(crate = "schemars")]
#[serde(deny_unknown_fields)]
struct Nothing {}

#[derive(Deserialize, JsonSchema)]
#[schemars(crate = "schemars")]
#[serde(deny_unknown_fields)]
struct OfRecordings {
    /// Names from list_recordings; several are the nodes of one job. May be left out if there is one recording.
    #[serde(default)]
    recordings: Vec<String>,
}

fn section_names() -> String {
    let names = SECTIONS.iter().map(|section| section.name);
    names.collect::<Vec<_>>().join(", ")
}

#[derive(Deserialize, JsonSchema)]
#[schemars(crate = "schemars")]
#[serde(deny_unknown_fields)]
struct OfSection {
    /// Names from list_recordings; several are the nodes of one job. May be left out if there is one recording.
    #[serde(default)]
    recordings: Vec<String>,
    #[schemars(description = section_names())]
    name: String,
    /// Most lines [default: 200].
    limit: Option<usize>,
    /// Lines to leave out before.
    #[serde(default)]
    offset: usize,
}

#[derive(Deserialize, JsonSchema)]
#[schemars(crate = "schemars")]
#[serde(deny_unknown_fields)]
struct OfFiles {
    /// Names from list_recordings; several are the nodes of one job. May be left out if there is one recording.
    #[serde(default)]
    recordings: Vec<String>,
    /// The order of the files [default: time].
    #[serde(default)]
    by: Order,
    /// Only files whose path this glob matches, as .gitignore writes it: `*.pt`, `/data/**`.
    glob: Option<String>,
    /// Only what was done in this phase: startup, training, checkpoint, restore or other.
    phase: Option<String>,
    /// Most files [default: 50].
    limit: Option<usize>,
    /// Files to leave out before.
    #[serde(default)]
    offset: usize,
}

#[derive(Clone, Copy, Default, Deserialize, JsonSchema)]
#[schemars(crate = "schemars")]
#[serde(rename_all = "snake_case")]
enum Order {
    /// Time in calls.
    #[default]
    Time,
    /// Bytes read and written.
    Bytes,
}

#[derive(Deserialize, JsonSchema)]
#[schemars(crate = "schemars")]
#[serde(deny_unknown_fields)]
struct OfTables {
    /// The table whose columns are wanted; without it, the tables.
    table: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[schemars(crate = "schemars")]
#[serde(deny_unknown_fields)]
struct OfQuery {
    /// Names from list_recordings; the rows of several are in the same tables. May be left out if there is one recording.
    #[serde(default)]
    recordings: Vec<String>,
    /// One SELECT.
    sql: String,
    /// Most rows [default: 50].
    limit: Option<usize>,
}

#[derive(Deserialize, JsonSchema)]
#[schemars(crate = "schemars")]
#[serde(deny_unknown_fields)]
struct OfDiff {
    /// Name of the recording before the change.
    before: String,
    /// Name of the recording after it.
    after: String,
}

fn parsed<T: DeserializeOwned>(arguments: Value) -> anyhow::Result<T> {
    serde_json::from_value(arguments)
        .map_err(|error| anyhow::anyhow!("give arguments as the tool's schema has them: {error}"))
}

/// Gives the report of recordings, and where they are, to `answer`.
fn with_report<T>(
    context: &Context,
    names: &[String],
    answer: impl FnOnce(&mut Report<'_>, &[PathBuf]) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let recordings = context.recordings.named(names)?;
    let job = iotrace_recording::read_job(&recordings)?;
    answer(&mut report_of(context, &job), &recordings)
}

/// As [`with_report`], for answers that have findings.
fn with_findings<T>(
    context: &Context,
    names: &[String],
    answer: impl FnOnce(&Report<'_>) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    with_report(context, names, |report, recordings| {
        quote(report, recordings);
        answer(report)
    })
}

fn report_of<'a>(context: &'a Context, job: &'a Job) -> Report<'a> {
    let sorting = &context.sorting;
    Report::with(
        &job.model,
        &job.run,
        &sorting.classifier,
        &sorting.thresholds,
    )
    .of_nodes(&job.nodes)
}

/// What a writer of JSON writes, as an object.
fn object(
    write: impl FnOnce(&mut Vec<u8>) -> std::io::Result<()>,
) -> anyhow::Result<Map<String, Value>> {
    let mut text = Vec::new();
    write(&mut text)?;
    Ok(serde_json::from_slice(&text)?)
}

fn list_recordings(context: &Context, _: Nothing) -> anyhow::Result<String> {
    let about = |(name, directory): &(String, PathBuf)| {
        let read = || {
            check_links(directory)?;
            anyhow::Ok(iotrace_recording::about(directory)?)
        };
        let (run, is_complete) = match read() {
            Ok(found) => found,
            Err(error) => return json!({"name": name, "error": format!("{error:#}")}),
        };
        let target = match run.target {
            Target::Command(command) => json!({"command": command}),
            Target::Pids(pids) => json!({"pids": pids}),
            Target::All(all) => json!({"all": all}),
            Target::Unit(unit) => json!({"unit": unit}),
        };
        json!({
            "name": name,
            "host": run.host,
            "target": target,
            "start_time": rfc3339(run.start_unix_ns),
            "duration_seconds": run.duration_ns as f64 / 1e9,
            "exit_code": run.exit_code,
            "detail": run.detail,
            "is_complete": is_complete,
            "has_trace": run.trace.is_some(),
        })
    };
    let all: Vec<Value> = context.recordings.all().iter().map(about).collect();
    let answer = Map::from_iter([("recordings".into(), all.into())]);
    Ok(fitted(answer, "name fewer directories to `iotrace mcp`"))
}

fn summary(context: &Context, asked: OfRecordings) -> anyhow::Result<String> {
    with_findings(context, &asked.recordings, |report| {
        let answer = object(|out| iotrace_report::summary_json(report, out))?;
        Ok(fitted(
            answer,
            "ask report_section for a section, or query for rows",
        ))
    })
}

fn findings(context: &Context, asked: OfRecordings) -> anyhow::Result<String> {
    const KEYS: [&str; 4] = ["verdict", "findings", "looked_at", "not_looked_at"];
    with_findings(context, &asked.recordings, |report| {
        let mut answer = object(|out| iotrace_report::summary_json(report, out))?;
        answer.retain(|key, _| KEYS.contains(&&**key));
        Ok(fitted(
            answer,
            "ask report_section for the section findings",
        ))
    })
}

fn waits(context: &Context, asked: OfRecordings) -> anyhow::Result<String> {
    with_report(context, &asked.recordings, |report, _| {
        let mut answer = object(|out| iotrace_report::summary_json(report, out))?;
        answer.retain(|key, _| ["verdict", "waits"].contains(&&**key));
        if answer.get("waits").is_none_or(Value::is_null) {
            bail!(
                "record with `iotrace record --waits`: this recording does not say what was waited for"
            );
        }
        Ok(fitted(answer, "ask query for rows of the table waits"))
    })
}

fn report_section(context: &Context, asked: OfSection) -> anyhow::Result<String> {
    if !SECTIONS.iter().any(|section| section.name == asked.name) {
        bail!(
            "name one of the sections {}: there is no {:?}",
            section_names(),
            asked.name
        );
    }
    with_findings(context, &asked.recordings, |report| {
        let mut text = Vec::new();
        let extent = Extent::Sections(vec![asked.name.clone()]);
        iotrace_report::text(report, &extent, Layout::plain(Layout::MAX_WIDTH), &mut text)?;
        let text = String::from_utf8_lossy(&text);
        Ok(lines(&text, asked.offset, asked.limit.unwrap_or(LINES)))
    })
}

fn files(context: &Context, asked: OfFiles) -> anyhow::Result<String> {
    let phase = asked.phase.as_deref().map(phase_of).transpose()?;
    let glob = asked.glob.as_deref().map(matcher).transpose()?;
    with_report(context, &asked.recordings, |report, _| {
        let choice = Choice {
            by: By::File,
            phase,
            top: usize::MAX,
        };
        let mut view = View::new(report, choice);
        if let Some(glob) = &glob {
            view.rows.retain(|row| glob.matches(&row.name, false));
        }
        if let Order::Bytes = asked.by {
            view.rows.sort_by_key(|row| {
                let io = &row.flow.io;
                std::cmp::Reverse(io.bytes_read.saturating_add(io.bytes_written))
            });
        }
        let matching = view.rows.len();
        let from = asked.offset.min(matching);
        let end = from
            .saturating_add(asked.limit.unwrap_or(LIMIT))
            .min(matching);
        let mut rest = Flow::default();
        for row in view.rows.drain(end..) {
            rest.add(&row.flow);
        }
        view.rows.drain(..from);
        view.rest = ((matching - end) as u64, rest);
        let mut answer = object(|out| iotrace_report::view_json(report, &view, out))?;
        answer.insert("files".into(), matching.into());
        answer.insert("offset".into(), from.into());
        let mut text =
            "the same with a smaller \"limit\", and \"offset\" for what follows".to_owned();
        if end < matching {
            text = format!("the same with \"offset\": {end}; {text}");
            answer.insert("more".into(), text.clone().into());
        }
        Ok(fitted(answer, &text))
    })
}

fn phase_of(name: &str) -> anyhow::Result<&'static str> {
    let mut known = Phase::ALL.into_iter().map(Phase::name);
    known.find(|known| *known == name).with_context(|| {
        format!("name startup, training, checkpoint, restore or other: there is no phase {name:?}")
    })
}

fn matcher(text: &str) -> anyhow::Result<PathGlob> {
    text.parse::<PathGlob>()
        .with_context(|| format!("write another glob than {text:?}"))
}

fn tables(_: &Context, asked: OfTables) -> anyhow::Result<String> {
    let all = rows::tables();
    let names: Vec<&str> = all.iter().map(|table| table.name).collect();
    let Some(name) = asked.table else {
        let answer = Map::from_iter([("tables".into(), names.into())]);
        return Ok(fitted(answer, ""));
    };
    let table = all.iter().find(|table| table.name == name);
    let table = table.with_context(|| {
        format!(
            "name one of the tables {}: there is no {name:?}",
            names.join(", ")
        )
    })?;
    let columns = table.columns.iter();
    let columns: Map<String, Value> = columns
        .map(|column| (column.name.clone(), column.meaning.clone().into()))
        .collect();
    Ok(fitted(
        Map::from_iter([("columns".into(), columns.into())]),
        "",
    ))
}

fn query(context: &Context, asked: OfQuery) -> anyhow::Result<String> {
    let directories = context.recordings.named(&asked.recordings)?;
    let limit = asked.limit.unwrap_or(LIMIT);
    let found = sql::query(&directories, &asked.sql, limit)?;
    let mut answer = Map::new();
    let shown = found.rows.len();
    answer.insert("columns".into(), found.columns.into());
    answer.insert("rows".into(), found.rows.into());
    let rest = "name fewer columns, or add ORDER BY, LIMIT and OFFSET";
    if found.has_more {
        let more = format!("there are more than these {shown} rows: raise \"limit\", or {rest}");
        answer.insert("more".into(), more.into());
    }
    Ok(fitted(answer, rest))
}

fn diff(context: &Context, asked: OfDiff) -> anyhow::Result<String> {
    let read = |name: &str| {
        anyhow::Ok(iotrace_recording::read_job(&[context
            .recordings
            .one(name)?])?)
    };
    let (before, after) = (read(&asked.before)?, read(&asked.after)?);
    let (before, after) = (report_of(context, &before), report_of(context, &after));
    let diff = Diff::new(&before, &after);
    let answer = object(|out| iotrace_report::diff_json(&diff, out))?;
    Ok(fitted(answer, "ask findings of each recording"))
}
