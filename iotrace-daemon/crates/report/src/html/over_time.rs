//! What was done over time: by phase for the timeline, by process for the heat map.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{columns::Columns, data::PHASES};
use crate::Report;
use iotrace_analysis::series::{Flow, Slice};
use iotrace_model::IoTotals;
use iotrace_phases::phase::Phase;

/// Steps of the timeline: more would be narrower than a pixel, so neighbours are merged.
const MAX_STEPS: usize = 2_000;

/// Steps in order, and what was done in each.
#[derive(Serialize)]
pub struct Series {
    /// Seconds since the start of the run.
    start: Vec<f64>,
    end: Vec<f64>,
    /// How many intervals of the recording a step is.
    merged: usize,
    by_phase: BTreeMap<&'static str, Columns>,
}

/// What each process did in each step: only where it did anything.
#[derive(Default, Serialize)]
pub struct Heat {
    /// Place in the list of processes.
    process: Vec<u32>,
    /// Step of the series.
    bin: Vec<u32>,
    #[serde(flatten)]
    sums: Columns,
}

impl Series {
    /// The series of `report`, if it has any. `places` are those of the processes in the page's list.
    pub fn new(report: &Report<'_>, places: &[u32]) -> (Option<Self>, Heat) {
        let slices = &report.analysis().series.slices;
        let mut heat = Heat::default();
        if slices.is_empty() {
            return (None, heat);
        }
        let merged = slices.len().div_ceil(MAX_STEPS);
        let steps = slices.len().div_ceil(merged);
        let mut series = Self {
            start: Vec::new(),
            end: Vec::new(),
            merged,
            by_phase: PHASES.map(|phase| (phase, Columns::zeros(steps))).into(),
        };
        for (step, slices) in slices.chunks(merged).enumerate() {
            series.push(step, slices);
            heat.push(step as u32, slices, places);
        }
        series.by_phase.retain(|_, sums| !sums.is_zero());
        (Some(series), heat)
    }

    fn push(&mut self, step: usize, slices: &[Slice]) {
        let seconds = |ns: i64| ns as f64 / 1e9;
        self.start.push(seconds(slices[0].start_ns));
        self.end.push(seconds(slices[slices.len() - 1].end_ns));
        for slice in slices {
            let mut rest = IoTotals::default();
            for (_, flow) in &slice.processes {
                rest.add(&totals(flow));
            }
            for (phase, flow) in Phase::ALL.map(Phase::name).iter().zip(&slice.phases) {
                let sum = totals(flow);
                rest = rest.since(&sum);
                self.add(phase, step, sum);
            }
            self.add("by_name", step, rest);
        }
    }

    fn add(&mut self, phase: &str, step: usize, sum: IoTotals) {
        if let Some(columns) = self.by_phase.get_mut(phase) {
            columns.add(step, &sum.into());
        }
    }
}

impl Heat {
    fn push(&mut self, step: u32, slices: &[Slice], places: &[u32]) {
        let mut sums: BTreeMap<u32, IoTotals> = BTreeMap::new();
        for (process, flow) in slices.iter().flat_map(|slice| &slice.processes) {
            let place = places[*process as usize];
            sums.entry(place).or_default().add(&totals(flow));
        }
        for (place, sum) in sums {
            self.process.push(place);
            self.bin.push(step);
            self.sums.push(&sum.into());
        }
    }
}

/// The sums of a flow that the page shows.
fn totals(flow: &Flow) -> IoTotals {
    IoTotals {
        merged_ns: 0,
        ..flow.io
    }
}
