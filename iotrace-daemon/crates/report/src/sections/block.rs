//! Block devices, and the bytes they moved for files.

use std::io;

use crate::html::{Cell, PageSection, PageTable, Part};
use crate::json::entries::{Seq, seconds, text_entries};
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
use serde::{Serialize, Serializer, ser::SerializeMap};
use std::cmp::Reverse;

/// Files before the rest is counted.
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
    let moved =
        |index: u32| moves.files[&index].all.bytes_read + moves.files[&index].all.bytes_written;
    files.sort_by_key(|(index, _)| (Reverse(moved(**index)), report.model.file(**index).path));
    let shown = &files[..files.len().min(MAX_FILES)];
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

/// The key `block`; `files` and `processes` only in the whole report.
pub struct Block<'a> {
    report: &'a Report<'a>,
    is_whole: bool,
}

impl<'a> Block<'a> {
    /// None if there is nothing to say.
    pub fn of(report: &'a Report<'a>, is_whole: bool) -> Option<Self> {
        let block = report.model.block();
        let is_there = report.run.block
            || block.devices().next().is_some()
            || block.transfers().next().is_some();
        is_there.then_some(Self { report, is_whole })
    }
}

impl Serialize for Block<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let report = self.report;
        let mut map = serializer.serialize_map(None)?;
        let devices = report.devices();
        let device = |of| DeviceJson { report, of };
        map.serialize_entry("devices", &Seq(|| devices.iter().map(device)))?;
        let moves = report.moves();
        map.serialize_entry("total", &Moved(&moves.all))?;
        map.serialize_entry("by_no_process", &Moved(&moves.by_kernel))?;
        map.serialize_entry("of_no_file", &Moved(&moves.of_no_file))?;
        if self.is_whole {
            let process = |(index, moved): (&u32, _)| ProcessJson {
                report,
                index: *index,
                moved,
            };
            map.serialize_entry("processes", &Seq(|| moves.processes.iter().map(process)))?;
            let file = |(index, moved): (&u32, _)| FileJson {
                report,
                index: *index,
                moved,
            };
            map.serialize_entry("files", &Seq(|| moves.files.iter().map(file)))?;
        }
        map.end()
    }
}

struct DeviceJson<'a> {
    report: &'a Report<'a>,
    of: &'a OfDevice<'a>,
}

impl Serialize for DeviceJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let span_ns = self.report.run.duration_ns;
        let all = self.of.all();
        let mut map = serializer.serialize_map(None)?;
        if let Some(host) = self.report.host_of(self.of.node) {
            map.serialize_entry("host", host)?;
        }
        map.serialize_entry("device", &self.of.device.numbers())?;
        map.serialize_entry("name", &self.of.device.name)?;
        map.serialize_entry("mean_in_flight", &mean_in_flight(&all, span_ns))?;
        map.serialize_entry("most_in_flight", &all.deepest)?;
        for (name, requests) in self.of.named() {
            map.serialize_entry(name, &ClassJson { requests, span_ns })?;
        }
        map.end()
    }
}

struct ClassJson<'a> {
    requests: &'a Requests,
    span_ns: u64,
}

impl Serialize for ClassJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let of = self.requests;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("requests", &of.requests)?;
        map.serialize_entry("bytes", &of.bytes)?;
        map.serialize_entry("failures", &of.failures)?;
        map.serialize_entry("seconds", &seconds(of.ns))?;
        let rate = of.bytes as f64 / seconds(self.span_ns);
        map.serialize_entry("bytes_per_second", &(self.span_ns > 0).then_some(rate))?;
        let mean = seconds(of.ns) / of.requests as f64;
        map.serialize_entry("mean_latency_seconds", &mean)?;
        let [half, most] = quantiles(of).map(|ns| ns.map(seconds));
        map.serialize_entry("p50_latency_at_most_seconds", &half)?;
        map.serialize_entry("p99_latency_at_most_seconds", &most)?;
        map.serialize_entry("mean_in_flight", &mean_in_flight(of, self.span_ns))?;
        let bounds = DURATION_BOUNDS.into_iter().map(Some).chain([None]);
        let buckets = bounds.zip(of.durations).filter(|(_, calls)| *calls > 0);
        let buckets: Vec<(Option<f64>, u64)> = buckets
            .map(|(bound, calls)| (bound.map(seconds), calls))
            .collect();
        map.serialize_entry("latency_buckets", &buckets)?;
        map.end()
    }
}

/// Entries of what was moved.
fn entries<M: SerializeMap>(map: &mut M, moved: &Transfers) -> Result<(), M::Error> {
    map.serialize_entry("device_reads", &moved.reads)?;
    map.serialize_entry("device_writes", &moved.writes)?;
    map.serialize_entry("device_bytes_read", &moved.bytes_read)?;
    map.serialize_entry("device_bytes_written", &moved.bytes_written)
}

struct Moved<'a>(&'a Transfers);

impl Serialize for Moved<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        entries(&mut map, self.0)?;
        map.end()
    }
}

struct ProcessJson<'a> {
    report: &'a Report<'a>,
    index: u32,
    moved: &'a Transfers,
}

impl Serialize for ProcessJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let process = &self.report.model.processes()[self.index as usize];
        let mut map = serializer.serialize_map(None)?;
        if let Some(host) = self.report.host_of(process.node) {
            map.serialize_entry("host", host)?;
        }
        map.serialize_entry("pid", &process.id.pid)?;
        entries(&mut map, self.moved)?;
        map.end()
    }
}

struct FileJson<'a> {
    report: &'a Report<'a>,
    index: u32,
    moved: &'a OfFile,
}

impl Serialize for FileJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let file = self.report.model.file(self.index);
        let mut map = serializer.serialize_map(None)?;
        match file.path {
            [] => map.serialize_entry("path", &None::<&str>)?,
            path => text_entries(&mut map, "path", "path_hex", path)?,
        }
        let device = format_args!("{}:{}", file.id.major(), file.id.minor());
        map.serialize_entry("device", &device)?;
        map.serialize_entry("inode", &file.id.inode)?;
        map.serialize_entry("generation", &file.id.generation)?;
        entries(&mut map, &self.moved.all)?;
        let of_none = &self.moved.by_kernel;
        map.serialize_entry("device_bytes_read_by_no_process", &of_none.bytes_read)?;
        map.serialize_entry("device_bytes_written_by_no_process", &of_none.bytes_written)?;
        map.end()
    }
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
                duration((requests.ns + requests.requests / 2) / requests.requests),
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
        id: "devices",
        title: "Block devices",
        parts: vec![Part::Note(note), Part::Table(table)],
    })
}
