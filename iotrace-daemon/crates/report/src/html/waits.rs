//! What main threads waited for over time.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::Report;
use iotrace_analysis::waits::{WAITS, Waiter, name};
use iotrace_model::waits::Leaf;

/// Threads that have a chart, and steps of one: neighbours are put together.
const LANES: usize = 16;
const STEPS: usize = 400;

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
    let judged = report.analysis().waits.judged().iter().take(LANES);
    judged.map(|waiter| lane(report, waiter)).collect()
}

fn lane(report: &Report<'_>, waiter: &Waiter) -> Lane {
    let mut lane = Lane {
        pid: report.model.processes()[waiter.process as usize].id.pid,
        start: Vec::new(),
        end: Vec::new(),
        seconds: BTreeMap::new(),
    };
    let merged = waiter.steps.len().div_ceil(STEPS).max(1);
    for steps in waiter.steps.chunks(merged) {
        lane.start.push(steps[0].start as f64 / 1e9);
        lane.end.push(steps[steps.len() - 1].end as f64 / 1e9);
        for leaf in [Leaf::Running].into_iter().chain(WAITS) {
            let ns: u64 = steps.iter().map(|step| step.spent.of(leaf)).sum();
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
