//! What main threads waited for.

use std::io;

use super::checkpoints::{MAX_ROWS, inexact, rest};
use crate::Report;
use crate::json::entries::{moment, put_text, seconds};
use crate::text::{
    escape::{escape, shorten},
    table::{Page, Style, Table},
    units::{count, duration, share},
};
use iotrace_analysis::{
    epoch_waits::{ByEpoch, InEpoch, Within},
    waits::{Spent, Step, WAITS, Waiter, name, rank_of},
};
use iotrace_model::{counters::saturating_sum, waits::Leaf};
use serde::Serialize;
use serde_json::{Map, Value as Json, json};
use std::collections::BTreeMap;

/// Threads and files of a thread that are shown.
const MAX_WAITERS: usize = 16;

const MAX_FILES: usize = 8;

/// Kinds of waits that have a column of their own in the table of epochs.
const MAX_LEAVES: usize = 3;

/// A thread is shown if it has at least this share of the time of the longest.
const MIN_SHARE: f64 = 0.05;

/// What the main thread of each program or rank waited for.
pub fn text(report: &Report<'_>, page: &mut Page<'_>) -> io::Result<()> {
    let waiters = &report.analysis.waits.waiters;
    if waiters.is_empty() {
        return Ok(());
    }
    let longest = waiters
        .iter()
        .map(|waiter| waiter.spent.whole())
        .max()
        .unwrap_or(0);
    let is_long = |waiter: &&Waiter| waiter.spent.whole() as f64 >= longest as f64 * MIN_SHARE;
    let shown: Vec<&Waiter> = waiters.iter().filter(is_long).take(MAX_WAITERS).collect();
    for waiter in &shown {
        waiter_text(report, waiter, page)?;
    }
    match (waiters.len() - shown.len()) as u64 {
        0 => Ok(()),
        more => {
            let text = format!("{} more threads are in the JSON report.", count(more));
            page.prose(Style::Dim, &text)
        }
    }
}

fn waiter_text(report: &Report<'_>, waiter: &Waiter, page: &mut Page<'_>) -> io::Result<()> {
    let spent = &waiter.spent;
    let (whole, waiting) = (spent.whole(), spent.waiting());
    let process = &report.model.processes()[waiter.process as usize];
    let rank = rank_of(report.model, waiter.process);
    let rank = rank.map_or_else(String::new, |rank| format!("rank {rank}, "));
    let comm = escape(&process.about.comm);
    page.section(&format!(
        "Waits of {rank}{comm} {} (main thread): ran {} of {}, waited {} ({})",
        process.id.pid,
        duration(spent.of(Leaf::Running)),
        duration(whole),
        duration(waiting),
        share(waiting, whole),
    ))?;
    let mut table = Table::new(&["WAITED", "SHARE"]);
    let mut leaves = WAITS.to_vec();
    leaves.retain(|leaf| spent.of(*leaf) > 0);
    leaves.sort_by_key(|leaf| std::cmp::Reverse(spent.of(*leaf)));
    for leaf in &leaves {
        let ns = spent.of(*leaf);
        table.row(vec![duration(ns), share(ns, whole)]);
    }
    table.push_column(page, "FOR", |row, room| {
        shorten(meaning(leaves[row], waiter).as_bytes(), room)
    });
    page.table(table)?;
    files_text(report, waiter, page)?;
    match &waiter.by_epoch {
        Some(by_epoch) => epochs_text(report, by_epoch, &leaves, page),
        None => Ok(()),
    }
}

/// The files of which it waited for storage.
fn files_text(report: &Report<'_>, waiter: &Waiter, page: &mut Page<'_>) -> io::Result<()> {
    let (files, whole) = (waiter.files.len(), waiter.spent.whole());
    if files == 0 {
        return Ok(());
    }
    let shown = &waiter.files[..files.min(MAX_FILES)];
    let mut table = Table::new(&["STORAGE", "SHARE", "PHASE"]);
    for (_, phase, ns) in shown {
        table.row(vec![duration(*ns), share(*ns, whole), phase.name().into()]);
    }
    table.push_column(page, "FILE", |row, room| match shown[row].0 {
        Some(file) => shorten(report.model.file(file).path, room),
        None => "calls that name no open file".to_owned(),
    });
    page.table(table)?;
    match files - shown.len() {
        0 => Ok(()),
        more => page.prose(Style::Dim, &format!("{} more files", count(more as u64))),
    }
}

/// What a thread did in each epoch: of the leaves with the most time a column each, the others together.
fn epochs_text(
    report: &Report<'_>,
    by_epoch: &ByEpoch,
    leaves: &[Leaf],
    page: &mut Page<'_>,
) -> io::Result<()> {
    let (shown, others) = leaves.split_at(leaves.len().min(MAX_LEAVES));
    let mut headings = vec!["EPOCH", "TIME", "RAN"];
    headings.extend(shown.iter().map(|leaf| heading(*leaf)));
    if !others.is_empty() {
        headings.push("ANYTHING ELSE");
    }
    let mut table = Table::new(&headings);
    let mut row = |name: String, ns: u64, within: &Within| {
        let mut cells = vec![name, duration(ns), some_time(within, &[Leaf::Running])];
        cells.extend(shown.iter().map(|leaf| some_time(within, &[*leaf])));
        if !others.is_empty() {
            cells.push(some_time(within, others));
        }
        table.row(cells);
    };
    for epoch in by_epoch.epochs.iter().take(MAX_ROWS) {
        let length = epoch.end.abs_diff(epoch.start);
        row(epoch.number.to_string(), length, &epoch.within);
    }
    let outside = &by_epoch.outside;
    row("outside".to_owned(), outside.spent.whole(), outside);
    page.table(table)?;
    rest(page, by_epoch.epochs.len())?;
    if by_epoch
        .epochs
        .iter()
        .any(|epoch| epoch.within.uncertain() > 0)
    {
        let text = "Waits are recorded by interval: where an epoch begins or ends within one, the time is within bounds.";
        page.prose(Style::Dim, text)?;
    }
    let epochs = &report.analysis.epochs.epochs;
    inexact(page, epochs.iter().any(|epoch| !epoch.is_exact))
}

/// Time of some leaves together, within its bounds.
fn some_time(within: &Within, leaves: &[Leaf]) -> String {
    let sum = |spent: &Spent| saturating_sum(leaves.iter().map(|leaf| spent.of(*leaf)));
    let (least, most) = (sum(&within.at_least), sum(&within.at_most));
    let [from, to] = [least, most].map(duration);
    match (most, from == to) {
        (0, _) => String::new(),
        (_, true) => to,
        (_, false) => format!("{from} to {to}"),
    }
}

/// A leaf as the heading of a column.
fn heading(leaf: Leaf) -> &'static str {
    match leaf {
        Leaf::Storage => "STORAGE",
        Leaf::Computing => "LOADER",
        Leaf::ComputeThreads => "THREADS",
        Leaf::RunQueue => "CPU",
        Leaf::Sleep => "SLEEP",
        Leaf::PageFault => "PAGE FAULTS",
        Leaf::Network => "NETWORK",
        Leaf::Other => "OTHERS",
        Leaf::Unresolved => "NOT KNOWN",
        Leaf::Running | Leaf::OfThatForChild | Leaf::OfThatInCalls => "",
    }
}

fn meaning(leaf: Leaf, waiter: &Waiter) -> String {
    match leaf {
        Leaf::Storage => "operations on files, its own or its loader's".into(),
        Leaf::Computing => match waiter.loaders.len() as u64 {
            0 | 1 => "the loader, which computed".into(),
            many => format!("the loader, which computed in {} processes", count(many)),
        },
        Leaf::ComputeThreads => "its own threads, which computed and load no data".into(),
        Leaf::RunQueue => "a CPU".into(),
        Leaf::Sleep => "a time to pass: sleeps, polling".into(),
        Leaf::PageFault => "pages of memory or of mapped files".into(),
        Leaf::Network => "the network, or an interrupt".into(),
        Leaf::Other => "other processes, devices and locks".into(),
        Leaf::Unresolved => "what is not known".into(),
        Leaf::Running | Leaf::OfThatForChild | Leaf::OfThatInCalls => String::new(),
    }
}

/// Files of a thread in the JSON report; the others are summed up without a path.
const MAX_JSON_FILES: usize = 10_000;

/// Files of a thread in the JSON report without long lists.
const MAX_SUMMARY_JSON_FILES: usize = 20;

/// Epochs of a thread in the JSON report without long lists.
const MAX_SUMMARY_JSON_EPOCHS: usize = 100;

/// One object per waiting thread; null where waits were not kept. `is_whole`: with lists that may be long.
pub fn json(report: &Report<'_>, is_whole: bool) -> Json {
    if report.model.waits().is_empty() {
        return Json::Null;
    }
    let waiters = report.analysis.waits.waiters.iter();
    waiters
        .map(|waiter| waiter_json(report, waiter, is_whole))
        .collect()
}

fn waiter_json(report: &Report<'_>, waiter: &Waiter, is_whole: bool) -> Json {
    let pid = report.model.processes()[waiter.process as usize].id.pid;
    let most = if is_whole {
        MAX_JSON_FILES
    } else {
        MAX_SUMMARY_JSON_FILES
    };
    let (listed, rest) = waiter.files.split_at(waiter.files.len().min(most));
    let mut files: Vec<Json> = listed
        .iter()
        .map(|(file, phase, ns)| {
            let mut object = Map::new();
            match file {
                Some(file) => put_text(&mut object, "path", report.model.file(*file).path),
                None => drop(object.insert("path".into(), Json::Null)),
            }
            object.insert("phase".into(), phase.name().into());
            object.insert("seconds".into(), json!(seconds(*ns)));
            Json::Object(object)
        })
        .collect();
    if !rest.is_empty() {
        let ns = saturating_sum(rest.iter().map(|(_, _, ns)| *ns));
        files.push(json!({"path": null, "phase": null, "seconds": seconds(ns)}));
    }
    let mut object = json!({
        "pid": pid,
        "tid": pid,
        "rank": rank_of(report.model, waiter.process),
        "running_seconds": seconds(waiter.spent.of(Leaf::Running)),
        "waiting_seconds": seconds(waiter.spent.waiting()),
        "leaves": leaves(&waiter.spent),
        "files": files,
    });
    if let Some(by_epoch) = &waiter.by_epoch {
        let epochs = by_epoch.epochs.iter();
        let most = if is_whole {
            usize::MAX
        } else {
            MAX_SUMMARY_JSON_EPOCHS
        };
        object["epochs"] = epochs.take(most).map(epoch_json).collect();
        object["outside_epochs"] = Json::Object(within_json(&by_epoch.outside));
    }
    if is_whole && !waiter.steps.is_empty() {
        let step = |step: &Step| {
            json!({
                "start": step.start as f64 / 1e9,
                "end": step.end as f64 / 1e9,
                "running_seconds": seconds(step.spent.of(Leaf::Running)),
                "leaves": leaves(&step.spent),
            })
        };
        object["intervals"] = waiter.steps.iter().map(step).collect();
    }
    object
}

fn epoch_json(epoch: &InEpoch) -> Json {
    let mut object = within_json(&epoch.within);
    object.insert("number".into(), epoch.number.into());
    object.insert("start".into(), json!(moment(epoch.start)));
    object.insert("end".into(), json!(moment(epoch.end)));
    Json::Object(object)
}

/// What a thread did, and what of it is certain and possible.
fn within_json(within: &Within) -> Map<String, Json> {
    let spent = |spent: &Spent| {
        let mut object = Map::new();
        object.insert(
            "running_seconds".into(),
            json!(seconds(spent.of(Leaf::Running))),
        );
        object.insert("leaves".into(), leaves(spent));
        object
    };
    let mut object = spent(&within.spent);
    object.insert(
        "waiting_seconds".into(),
        json!(seconds(within.spent.waiting())),
    );
    object.insert("at_least".into(), Json::Object(spent(&within.at_least)));
    object.insert("at_most".into(), Json::Object(spent(&within.at_most)));
    object
}

/// Seconds by what was waited for.
fn leaves(spent: &Spent) -> Json {
    let named = WAITS.map(|leaf| (name(leaf).to_owned(), json!(seconds(spent.of(leaf)))));
    Json::Object(Map::from_iter(named))
}

/// Threads with a chart, and steps of a chart: neighbours are merged.
const MAX_LANES: usize = 16;

const MAX_STEPS_OF_LANE: usize = 400;

/// What one thread did in each step.
#[derive(Serialize)]
pub struct Lane {
    pid: u32,
    /// Seconds since the start of the run.
    start: Vec<f64>,
    end: Vec<f64>,
    /// Seconds by what they went to, `running` included; only what took any.
    seconds: BTreeMap<&'static str, Vec<f64>>,
}

/// The threads that the run is judged by.
pub fn lanes(report: &Report<'_>) -> Vec<Lane> {
    let judged = report.analysis().waits.judged().iter().take(MAX_LANES);
    judged.map(|waiter| lane(report, waiter)).collect()
}

fn lane(report: &Report<'_>, waiter: &Waiter) -> Lane {
    let mut lane = Lane {
        pid: report.model.processes()[waiter.process as usize].id.pid,
        start: Vec::new(),
        end: Vec::new(),
        seconds: BTreeMap::new(),
    };
    let merged = waiter.steps.len().div_ceil(MAX_STEPS_OF_LANE).max(1);
    for steps in waiter.steps.chunks(merged) {
        lane.start.push(steps[0].start as f64 / 1e9);
        lane.end.push(steps[steps.len() - 1].end as f64 / 1e9);
        for leaf in [Leaf::Running].into_iter().chain(WAITS) {
            let ns = saturating_sum(steps.iter().map(|step| step.spent.of(leaf)));
            lane.seconds
                .entry(name(leaf))
                .or_default()
                .push(ns as f64 / 1e9);
        }
    }
    lane.seconds
        .retain(|_, seconds| seconds.iter().any(|one| *one > 0.0));
    lane
}
