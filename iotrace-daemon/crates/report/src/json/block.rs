//! Block devices in the JSON report: the key `block`.

use iotrace_common::{
    block::{Requests, Transfers},
    histogram::DURATION_BOUNDS,
};
use serde::{Serialize, Serializer, ser::SerializeMap};

use super::{Report, Seq, entries::text_entries, seconds};
use crate::block::{OfDevice, OfFile, mean_in_flight, quantiles};

/// The key `block`; `files` and `processes` only in the whole report.
pub struct Block<'a> {
    pub report: &'a Report<'a>,
    pub is_whole: bool,
}

impl Block<'_> {
    /// Whether there is anything to say.
    pub fn is_there(&self) -> bool {
        let block = self.report.model.block();
        self.report.run.block
            || block.devices().next().is_some()
            || block.transfers().next().is_some()
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
