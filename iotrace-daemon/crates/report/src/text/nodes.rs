//! Nodes in the text report, and what is to be said of their recordings.

use std::io;

use super::{
    escape::shorten,
    table::{Page, Style, Table},
    units::{count, duration, share, some_bytes},
};
use crate::Report;

/// What is to be said of the recordings as such.
pub fn remarks(report: &Report<'_>, page: &mut Page<'_>) -> io::Result<()> {
    for remark in report.remarks() {
        page.prose(Style::Warning, &super::escape(remark.as_bytes()))?;
    }
    Ok(())
}

/// What each node did, where there are several.
pub fn nodes(report: &Report<'_>, page: &mut Page<'_>) -> io::Result<()> {
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
        let behind = node.run.start_unix_ns - report.run.start_unix_ns;
        table.row(vec![
            format!("+{}", duration(u64::try_from(behind).unwrap_or(0))),
            duration(node.run.duration_ns),
            count(sum.processes),
            count(sum.flow.operations),
            duration(sum.flow.ns()),
            share(sum.flow.ns(), whole),
            some_bytes(sum.training_read),
            some_bytes(sum.checkpoint_written),
        ]);
    }
    table.push_column(page, "HOST", |row, room| {
        shorten(report.nodes[row].run.host.as_bytes(), room)
    });
    page.table(table)
}
