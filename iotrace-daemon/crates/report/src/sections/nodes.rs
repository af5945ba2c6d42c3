//! The nodes of a job, and remarks on their recordings.

use std::io;

use crate::Report;
use crate::json::entries::{moment, seconds};
use crate::text::{
    escape::{escape, shorten},
    table::{Page, Style, Table},
    units::{count, duration, share, some_bytes},
};
use serde_json::{Value as Json, json};

/// What is to be said of the recordings as such.
pub fn remarks(report: &Report<'_>, page: &mut Page<'_>) -> io::Result<()> {
    for remark in report.remarks() {
        page.prose(Style::Warning, &escape(remark.as_bytes()))?;
    }
    Ok(())
}

/// What each node did, where there are several.
pub fn text(report: &Report<'_>, page: &mut Page<'_>) -> io::Result<()> {
    if !report.has_nodes() {
        return Ok(());
    }
    page.section(&format!("Nodes: {}", report.nodes.len()))?;
    let whole = report.totals.counters.nanoseconds();
    let sums = report.node_sums();
    let mut table = Table::new(&[
        "START",
        "LASTED",
        "PROCS",
        "CALLS",
        "TIME",
        "SHARE",
        "TRAINING READ",
        "CHECKPOINTS",
    ]);
    for (node, sum) in report.nodes.iter().zip(&sums) {
        let late_ns = node.run.start_unix_ns - report.run.start_unix_ns;
        table.row(vec![
            format!("+{}", duration(u64::try_from(late_ns).unwrap_or(0))),
            duration(node.run.duration_ns),
            count(sum.processes),
            count(sum.flow.io.operations),
            duration(sum.flow.io.ns),
            share(sum.flow.io.ns, whole),
            some_bytes(sum.training_read),
            some_bytes(sum.checkpoint_written),
        ]);
    }
    table.push_column(page, "HOST", |row, room| {
        shorten(report.nodes[row].run.host.as_bytes(), room)
    });
    page.table(table)
}

/// What each node did.
pub fn json(report: &Report<'_>) -> Json {
    let nodes = report
        .nodes
        .iter()
        .zip(report.node_sums())
        .map(|(node, sum)| {
            let run = &node.run;
            json!({
                "host": run.host,
                "start": moment(run.start_unix_ns - report.run.start_unix_ns),
                "duration_seconds": seconds(run.duration_ns),
                "complete": node.is_complete(),
                "clock_step_seconds": moment(run.clock_step_ns),
                "exit_code": run.exit_code,
                "processes": sum.processes,
                "operations": sum.flow.io.operations,
                "bytes_read": sum.flow.io.bytes_read,
                "bytes_written": sum.flow.io.bytes_written,
                "seconds": seconds(sum.flow.io.ns),
                "training_bytes_read": sum.training_read,
                "checkpoint_bytes_written": sum.checkpoint_written,
            })
        });
    Json::Array(nodes.collect())
}
