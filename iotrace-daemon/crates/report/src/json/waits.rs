//! Waits in the JSON report: the key `waits`.

use serde_json::{Map, Value as Json, json};

use super::{Report, analysis::put_text, seconds};
use iotrace_analysis::waits::{Spent, Step, WAITS, Waiter, name, rank_of};
use iotrace_model::waits::Leaf;

/// Files of a thread that are told one by one; the others have no path.
const MAX_FILES: usize = 10_000;
/// The same without long lists.
const MAX_SUMMARY_FILES: usize = 20;

/// One object per waiting thread; null where waits were not kept. `is_whole`: with lists that may be long.
pub fn waits(report: &Report<'_>, is_whole: bool) -> Json {
    if report.model.waits().is_empty() {
        return Json::Null;
    }
    let waiters = report.analysis.waits.waiters.iter();
    waiters
        .map(|waiter| one(report, waiter, is_whole))
        .collect()
}

fn one(report: &Report<'_>, waiter: &Waiter, is_whole: bool) -> Json {
    let pid = report.model.processes()[waiter.process as usize].id.pid;
    let most = if is_whole {
        MAX_FILES
    } else {
        MAX_SUMMARY_FILES
    };
    let (told, rest) = waiter.files.split_at(waiter.files.len().min(most));
    let mut files: Vec<Json> = told
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
        let ns = rest.iter().map(|(_, _, ns)| ns).sum();
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

/// Seconds by what was waited for.
fn leaves(spent: &Spent) -> Json {
    let named = WAITS.map(|leaf| (name(leaf).to_owned(), json!(seconds(spent.of(leaf)))));
    Json::Object(Map::from_iter(named))
}
