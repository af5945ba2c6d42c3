//! Block devices, and the bytes they moved for files.

use std::io;

use crate::html::{Cell, PageSection, PageTable, Part};
use crate::json::entries::{Entries, Entry, Object, entries, path_entry, process_entries, seconds};
use crate::text::{
    escape::{escape, shorten},
    table::{Page, Style, Table},
    units::{bytes, count, duration, rate, some, some_bytes},
};
use crate::{
    Report,
    block::{Moves, OfDevice, OfFile, mean_in_flight, quantiles},
};
use iotrace_common::{
    block::{Requests, Transfers},
    histogram::DURATION_BOUNDS,
};
use serde::Serialize;
use std::cmp::Reverse;

/// Files in the text; further files are counted.
const MAX_FILES: usize = 10;

/// What block devices did, and for which files.
pub fn text(report: &Report<'_>, page: &mut Page<'_>) -> io::Result<()> {
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
    let moved = |index: u32| {
        let all = &moves.files[&index].all;
        all.bytes_read.saturating_add(all.bytes_written)
    };
    files.sort_by_key(|(index, _)| (Reverse(moved(**index)), report.model.file(**index).path));
    let shown = &files[..files.len().min(MAX_FILES)];
    let mut table = Table::new(&["READ", "WRITTEN", "BY KERNEL"]);
    for (_, of) in shown {
        table.row(vec![
            some_bytes(of.all.bytes_read),
            some_bytes(of.all.bytes_written),
            some_bytes(
                of.by_kernel
                    .bytes_read
                    .saturating_add(of.by_kernel.bytes_written),
            ),
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

/// The key `block`, if there is anything to say; `files` and `processes` only in the whole report.
pub fn json(report: &Report<'_>, is_whole: bool) -> Option<impl Serialize> {
    let block = report.model.block();
    let is_there =
        report.run.block || block.devices().next().is_some() || block.transfers().next().is_some();
    if !is_there {
        return None;
    }
    let devices = report.devices();
    let devices = devices.into_iter().map(|of| device_json(report, of));
    let moves = report.moves();
    let lists = is_whole.then(|| {
        let processes = moves.processes.iter();
        let processes = processes.map(|(process, moved)| {
            Object((process_entries(report, *process), transfer_entries(*moved)))
        });
        let files = moves.files.iter();
        let files = files.map(|(file, moved)| file_json(report, *file, *moved));
        (
            Entry("processes", processes.collect::<Vec<_>>()),
            Entry("files", files.collect::<Vec<_>>()),
        )
    });
    Some(Object(entries![
        Entry("devices", devices.collect::<Vec<_>>()),
        Entry("total", Object(transfer_entries(moves.all))),
        Entry("by_no_process", Object(transfer_entries(moves.by_kernel))),
        Entry("of_no_file", Object(transfer_entries(moves.of_no_file))),
        lists,
    ]))
}

fn device_json<'a>(report: &'a Report<'_>, of: OfDevice<'a>) -> impl Serialize {
    let span_ns = report.run.duration_ns;
    let all = of.all();
    let host = report.host_of(of.node);
    let classes = of.named();
    let classes = classes.map(|(name, requests)| Entry(name, class_json(*requests, span_ns)));
    Object(entries![
        host.map(|host| Entry("host", host)),
        Entry("device", of.device.numbers()),
        Entry("name", &of.device.name),
        Entry("mean_in_flight", mean_in_flight(&all, span_ns)),
        Entry("most_in_flight", all.deepest),
        classes.collect::<Vec<_>>(),
    ])
}

fn class_json(of: Requests, span_ns: u64) -> impl Serialize {
    let rate = of.bytes as f64 / seconds(span_ns);
    let [half, most] = quantiles(&of).map(|ns| ns.map(seconds));
    let bounds = DURATION_BOUNDS.into_iter().map(Some).chain([None]);
    let buckets = bounds.zip(of.durations).filter(|(_, calls)| *calls > 0);
    let buckets = buckets.map(|(bound, calls)| (bound.map(seconds), calls));
    Object(entries![
        Entry("requests", of.requests),
        Entry("bytes", of.bytes),
        Entry("failures", of.failures),
        Entry("seconds", seconds(of.ns)),
        Entry("bytes_per_second", (span_ns > 0).then_some(rate)),
        Entry("mean_latency_seconds", seconds(of.ns) / of.requests as f64),
        Entry("p50_latency_at_most_seconds", half),
        Entry("p99_latency_at_most_seconds", most),
        Entry("mean_in_flight", mean_in_flight(&of, span_ns)),
        Entry("latency_buckets", buckets.collect::<Vec<_>>()),
    ])
}

fn transfer_entries(moved: Transfers) -> impl Entries {
    entries![
        Entry("device_reads", moved.reads),
        Entry("device_writes", moved.writes),
        Entry("device_bytes_read", moved.bytes_read),
        Entry("device_bytes_written", moved.bytes_written),
    ]
}

fn file_json(report: &Report<'_>, file: u32, moved: OfFile) -> impl Serialize {
    let file = report.model.file(file);
    let (device, none) = (
        format!("{}:{}", file.id.major(), file.id.minor()),
        moved.by_kernel,
    );
    Object(entries![
        path_entry(file.path),
        Entry("device", device),
        Entry("inode", file.id.inode),
        Entry("generation", file.id.generation),
        transfer_entries(moved.all),
        Entry("device_bytes_read_by_no_process", none.bytes_read),
        Entry("device_bytes_written_by_no_process", none.bytes_written),
    ])
}

/// On the page: a row for each device and operation.
pub fn page(report: &Report<'_>) -> Option<PageSection> {
    let devices = report.devices();
    if devices.is_empty() {
        return None;
    }
    let (moves, span_ns) = (report.moves(), report.run.duration_ns);
    let headings = [
        "<Device",
        "<Operation",
        "Requests",
        "Bytes",
        "Bandwidth",
        "Mean latency",
        "Half",
        "99 %",
        "In flight",
        "Failed",
    ];
    let mut table = PageTable::new("Block devices", &headings);
    for of in &devices {
        let host = report.host_of(of.node).map(|host| format!("{host} "));
        let name = host.unwrap_or_default() + &of.device.name;
        for (class, requests) in of.named() {
            let [half, most] = quantiles(requests).map(|ns| match ns {
                Some(ns) => format!("≤ {}", duration(ns)),
                None => "> 10 s".into(),
            });
            let bandwidth = match span_ns {
                0 => "–".to_owned(),
                _ => rate(requests.bytes, span_ns),
            };
            let cells = [
                escape(name.as_bytes()),
                class.to_owned(),
                count(requests.requests),
                bytes(requests.bytes),
                bandwidth,
                duration(requests.ns.saturating_add(requests.requests / 2) / requests.requests),
                half,
                most,
                format!("{:.2}", mean_in_flight(requests, span_ns)),
                count(requests.failures),
            ];
            table.row(cells.map(Cell::from));
        }
    }
    let note = format!(
        "Requests of the whole host; bandwidth and the mean number in flight are over the run. For traced processes and \
         their files: {} read and {} written, {} of it written back by the kernel.",
        bytes(moves.all.bytes_read),
        bytes(moves.all.bytes_written),
        bytes(moves.by_kernel.bytes_written),
    );
    Some(PageSection {
        id: "devices".into(),
        title: "Block devices".into(),
        parts: vec![Part::Note(note), Part::Table(table)],
    })
}
