//! Waits in the JSON report: the key `waits`.

use serde_json::{Map, Value as Json, json};

use super::{Report, analysis::put_text, seconds};
use crate::analysis::waits::{Kind, Waiter, rank_of};

/// Files of a thread that are told one by one; the others have no path.
const MAX_FILES: usize = 10_000;

/// One object per waiting thread; null where waits were not kept.
pub fn waits(report: &Report<'_>) -> Json {
    if report.model.waits().is_empty() {
        return Json::Null;
    }
    let waiters = report.analysis.waits.waiters.iter();
    waiters.map(|waiter| one(report, waiter)).collect()
}

fn one(report: &Report<'_>, waiter: &Waiter) -> Json {
    let pid = report.model.processes()[waiter.process as usize].id.pid;
    let leaves = Kind::ALL.map(|kind| (kind.name().to_owned(), json!(seconds(waiter.of(kind)))));
    let (told, rest) = waiter.files.split_at(waiter.files.len().min(MAX_FILES));
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
    json!({
        "pid": pid,
        "tid": pid,
        "rank": rank_of(report.model, waiter.process),
        "running_seconds": seconds(waiter.running),
        "waiting_seconds": seconds(waiter.waiting()),
        "leaves": leaves.into_iter().collect::<Map<_, _>>(),
        "files": files,
    })
}
