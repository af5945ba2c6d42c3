//! I/O by interval of the recording: JSON and page alone.

use super::phases::NAMES;
use crate::Report;
use crate::json::entries::{moment, pid, seconds};
use iotrace_analysis::{
    merged::of_slices,
    series::{Flow, Slice},
};
use iotrace_phases::phase::Phase;
use serde_json::{Map, Value as Json, json};

/// The key `time_series`.
pub fn json(report: &Report<'_>) -> Json {
    report
        .analysis
        .series
        .slices
        .iter()
        .map(|of| slice(report, of))
        .collect()
}

fn slice(report: &Report<'_>, slice: &Slice) -> Json {
    let mut phases: Map<String, Json> = Map::new();
    for name in NAMES {
        let mut sum = Flow::default();
        for (phase, flow) in Phase::ALL.iter().zip(&slice.phases) {
            if phase.name() == name {
                sum.add(flow);
            }
        }
        if sum.io.operations > 0 {
            let slices = std::slice::from_ref(slice);
            let is_named = |phase: Phase| phase.name() == name;
            let known = of_slices(slices, 0, is_named);
            let (least, most) = report.measured_in(slice, known, is_named);
            let flow = json!({
                "operations": sum.io.operations,
                "failures": sum.failures,
                "bytes_read": sum.io.bytes_read,
                "bytes_written": sum.io.bytes_written,
                "bytes_fetched": sum.bytes_fetched,
                "mapped_bytes": sum.mapped_bytes,
                "seconds": seconds(sum.io.ns),
                "merged_seconds": seconds(most),
                "merged_seconds_at_least": seconds(least),
            });
            phases.insert(name.into(), flow);
        }
    }
    let processes = slice.processes.iter().map(|one| {
        json!({
            "pid": pid(report, one.process),
            "operations": one.flow.io.operations,
            "failures": one.flow.failures,
            "bytes_read": one.flow.io.bytes_read,
            "bytes_written": one.flow.io.bytes_written,
            "seconds": seconds(one.flow.io.ns),
        })
    });
    json!({
        "start": moment(slice.start_ns),
        "end": moment(slice.end_ns),
        "phases": phases,
        "processes": processes.collect::<Vec<_>>(),
    })
}
