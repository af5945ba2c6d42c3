//! One view in the text report.

use std::io::{self, Write};

use iotrace_model::counters::saturating_sum;

use super::{
    escape::shorten,
    head,
    table::{Layout, Page, Style, Table},
    units::{count, duration, rate, share, some, some_bytes},
};
use crate::{
    Report,
    view::{By, View, ViewRow},
};

/// Writes the head of the report and one table.
pub fn view_text(
    report: &Report<'_>,
    view: &View,
    layout: Layout,
    out: impl Write,
) -> io::Result<()> {
    let mut page = Page::new(out, layout);
    head::head(report, &mut page)?;
    let by = view.choice.by.name();
    let of_phase = view
        .choice
        .phase
        .map(|phase| format!(", phase {phase}"))
        .unwrap_or_default();
    page.section(&format!("By {by}{of_phase}"))?;
    let whole = report.totals.counters.nanoseconds();
    let has_merged = view.rows.iter().any(|row| row.merged.is_some());
    let mut headings = vec![
        "TIME",
        "SHARE",
        "READ",
        "WRITTEN",
        "CALLS",
        "FILES",
        "BYTES / TIME",
    ];
    headings.insert(
        5,
        if view.choice.by == By::Process {
            "PID"
        } else {
            "PROCS"
        },
    );
    if has_merged {
        headings.insert(2, "MERGED");
    }
    let mut table = Table::new(&headings);
    for row in &view.rows {
        table.row(cells(report, row, whole, has_merged));
    }
    table.push_column(&page, name_of(view.choice.by), |index, room| {
        let row = &view.rows[index];
        match row.process {
            Some(process) => {
                let process = &report.model.processes()[process as usize];
                let host = report.host_of(process.node).map(|host| format!("{host}: "));
                let host = host.unwrap_or_default();
                let room = room.saturating_sub(host.len());
                host + &shorten(&head::command(process), room)
            }
            None if row.name.is_empty() => "(no name)".into(),
            None => shorten(&row.name, room),
        }
    });
    page.table(table)?;
    if view.rest.0 > 0 {
        let (rows, flow) = (count(view.rest.0), &view.rest.1);
        let text = format!(
            "  and {rows} more: {} calls, {}.",
            count(flow.io.operations),
            duration(flow.io.ns)
        );
        page.line(Style::Dim, &text)?;
    }
    page.flush()
}

fn name_of(by: By) -> &'static str {
    match by {
        By::Process => "COMMAND",
        By::File | By::Directory => "PATH",
        By::Mount => "MOUNT POINT",
        By::Phase => "PHASE",
    }
}

fn cells(report: &Report<'_>, row: &ViewRow, whole: u64, has_merged: bool) -> Vec<String> {
    let flow = &row.flow;
    let fifth = match row.process {
        Some(process) => report.model.processes()[process as usize]
            .id
            .pid
            .to_string(),
        None => count(row.processes),
    };
    let data = saturating_sum([flow.read_ns, flow.write_ns, flow.sync_ns]);
    let mut cells = vec![
        duration(flow.io.ns),
        share(flow.io.ns, whole),
        some_bytes(flow.io.bytes_read),
        some_bytes(flow.io.bytes_written),
        count(flow.io.operations),
        fifth,
        some(row.files),
        rate(flow.io.bytes(), data),
    ];
    if has_merged {
        let merged = row.merged.unwrap_or_default();
        let bound = if merged.is_exact() { "" } else { "≤" };
        cells.insert(2, format!("{bound}{}", duration(merged.at_most)));
    }
    cells
}
