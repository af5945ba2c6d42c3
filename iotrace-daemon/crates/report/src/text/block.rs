//! Block devices in the text report.

use std::{cmp::Reverse, io};

use super::{
    escape::{escape, shorten},
    table::{Page, Style, Table},
    units::{bytes, count, duration, rate, some, some_bytes},
};
use crate::{
    Report,
    block::{Moves, OfDevice, mean_in_flight, quantiles},
};

/// Files before the rest is counted.
const SHOWN: usize = 10;

/// What block devices did, and for which files.
pub fn block(report: &Report<'_>, page: &mut Page<'_>) -> io::Result<()> {
    let devices = report.devices();
    let moves = report.moves();
    if devices.is_empty() && moves.files.is_empty() {
        return Ok(());
    }
    page.section("Block devices")?;
    for_devices(report, &devices, page)?;
    let text = format!(
        "Of the whole host; rates and IN FLIGHT, the mean, are over the run. For traced processes and their files: {} \
         read and {} written, {} of it written back by the kernel.",
        bytes(moves.all.bytes_read),
        bytes(moves.all.bytes_written),
        bytes(moves.by_kernel.bytes_written),
    );
    page.prose(Style::Dim, &text)?;
    for_files(report, &moves, page)
}

fn for_devices(
    report: &Report<'_>,
    devices: &[OfDevice<'_>],
    page: &mut Page<'_>,
) -> io::Result<()> {
    let span_ns = report.run.duration_ns;
    let mut table = Table::new(&[
        "REQUESTS",
        "BYTES",
        "RATE",
        "MEAN",
        "P50",
        "P99",
        "IN FLIGHT",
        "MOST",
        "FAILED",
    ]);
    let mut names = Vec::new();
    for of in devices {
        for (class, requests) in of.named() {
            let [half, most] = quantiles(requests).map(|ns| match ns {
                Some(ns) => format!("<={}", duration(ns)),
                None => ">10 s".into(),
            });
            table.row(vec![
                count(requests.requests),
                some_bytes(requests.bytes),
                rate(requests.bytes, span_ns),
                duration(requests.ns / requests.requests.max(1)),
                half,
                most,
                format!("{:.2}", mean_in_flight(requests, span_ns)),
                count(requests.deepest),
                some(requests.failures),
            ]);
            let host = report.host_of(of.node).map(|host| format!(" of {host}"));
            names.push(format!(
                "{} {class}{}",
                of.device.name,
                host.unwrap_or_default()
            ));
        }
    }
    table.push_column(page, "DEVICE", |row, _| escape(names[row].as_bytes()));
    page.table(table)
}

fn for_files(report: &Report<'_>, moves: &Moves, page: &mut Page<'_>) -> io::Result<()> {
    if moves.files.is_empty() {
        return Ok(());
    }
    let mut files: Vec<_> = moves.files.iter().collect();
    let moved =
        |index: u32| moves.files[&index].all.bytes_read + moves.files[&index].all.bytes_written;
    files.sort_by_key(|(index, _)| (Reverse(moved(**index)), report.model.file(**index).path));
    let shown = &files[..files.len().min(SHOWN)];
    let mut table = Table::new(&["READ", "WRITTEN", "BY KERNEL"]);
    for (_, of) in shown {
        table.row(vec![
            some_bytes(of.all.bytes_read),
            some_bytes(of.all.bytes_written),
            some_bytes(of.by_kernel.bytes_read + of.by_kernel.bytes_written),
        ]);
    }
    table.push_column(page, "FILE", |row, room| {
        match report.model.file(*shown[row].0).path {
            [] => "(not known)".into(),
            path => shorten(path, room),
        }
    });
    page.table(table)?;
    if files.len() > shown.len() {
        let more = count((files.len() - shown.len()) as u64);
        page.line(Style::Dim, &format!("  and {more} more"))?;
    }
    Ok(())
}
