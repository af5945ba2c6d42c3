//! How evenly processes read the training data: JSON and page alone.

use crate::Report;
use crate::json::entries::{moment, pid, seconds};
use iotrace_analysis::balance::{Cohort, Share};
use serde_json::{Value as Json, json};

/// The key `balance`.
pub fn json(report: &Report<'_>) -> Json {
    let share = |share: &Share| {
        json!({
            "pid": pid(report, share.process),
            "bytes_read": share.bytes,
            "read_seconds": seconds(share.read_ns),
            "start": moment(share.start),
            "end": moment(share.end),
        })
    };
    let cohort = |cohort: &Cohort| {
        json!({
            "start": moment(cohort.start),
            "end": moment(cohort.end),
            "imbalance": cohort.imbalance(),
            "idle": cohort.idle.iter().map(|process| pid(report, *process)).collect::<Vec<_>>(),
            "processes": cohort.shares.iter().map(share).collect::<Vec<_>>(),
        })
    };
    let balance = &report.analysis.balance;
    json!({
        "workers": balance.workers.iter().map(cohort).collect::<Vec<_>>(),
        "ranks": balance.ranks.as_ref().map(cohort),
    })
}
