//! The report as one JSON object, written row by row: `docs/reference/report-json.md` is its schema.

mod analysis;
mod block;
mod diff;
mod entries;
mod library;
pub(super) mod phases;
mod view;
mod waits;

use std::{
    collections::BTreeMap,
    io::{self, BufWriter, Write},
};

use analysis::{analysis_entries, series};
pub use diff::diff_json;
use entries::{
    counter_entries, failure_entries, flat, seconds, sum_entries, table_entries, text_entries,
};
use iotrace_common::diag;
pub(super) use phases::NAMES as PHASE_NAMES;
use phases::{PhasesJson, row_entries};
use serde::{
    Serialize, Serializer,
    ser::{SerializeMap, SerializeSeq},
};
pub use view::view_json;

use super::{FORMAT_VERSION, Report};
use iotrace_model::{
    Process, Row,
    counters::{self, Counters},
    input::Place,
    run::{Target, TraceMissing, TraceRun, rfc3339},
};

/// Writes the report as one JSON object and a newline.
pub fn json(report: &Report<'_>, out: impl Write) -> io::Result<()> {
    let mut out = BufWriter::with_capacity(1 << 16, out);
    serde_json::to_writer(&mut out, report)?;
    out.write_all(b"\n")?;
    out.flush()
}

/// As [`json()`], without the lists of processes, files and intervals.
pub fn summary_json(report: &Report<'_>, out: impl Write) -> io::Result<()> {
    let mut out = BufWriter::new(out);
    serde_json::to_writer(&mut out, &Summary(report))?;
    out.write_all(b"\n")?;
    out.flush()
}

/// The operation trace, as far as it is there.
#[derive(Serialize)]
struct TraceJson<'a> {
    operations: u64,
    bytes: u64,
    parts: u32,
    filter: &'a [String],
    max_bytes: Option<u64>,
    lost: u64,
    lost_share: f64,
    left_out: u64,
    /// By process.
    missing: &'a [TraceMissing],
}

impl<'a> TraceJson<'a> {
    fn of(trace: &'a TraceRun) -> Self {
        Self {
            operations: trace.operations,
            bytes: trace.bytes,
            parts: trace.parts,
            filter: &trace.filter,
            max_bytes: trace.most_bytes,
            lost: trace.lost(),
            lost_share: trace.lost_share(),
            left_out: trace.left_out(),
            missing: &trace.missing,
        }
    }
}

/// The report without its long lists.
pub(super) struct Summary<'a>(pub &'a Report<'a>);

impl Serialize for Summary<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        self.0.head_entries(&mut map, false)?;
        self.0.tail_entries(&mut map, false)?;
        map.end()
    }
}

impl Report<'_> {
    /// What stands before the lists; `is_whole` as in [`Self::tail_entries`].
    fn head_entries<M: SerializeMap>(&self, map: &mut M, is_whole: bool) -> Result<(), M::Error> {
        let run = self.run;
        map.serialize_entry("format_version", &FORMAT_VERSION)?;
        map.serialize_entry("iotrace_version", &run.iotrace_version)?;
        map.serialize_entry("host", &run.host)?;
        map.serialize_entry("kernel", &run.kernel)?;
        map.serialize_entry("hook", &run.hook)?;
        map.serialize_entry("detail", &run.detail)?;
        map.serialize_entry("merged_time", &run.merged_time)?;
        match &run.target {
            Target::Command(command) => map.serialize_entry("command", command)?,
            Target::Pids(pids) => map.serialize_entry("pids", pids)?,
            Target::All(all) => map.serialize_entry("all", all)?,
        }
        map.serialize_entry("exit_code", &run.exit_code)?;
        map.serialize_entry("start_time", &rfc3339(run.start_unix_ns))?;
        map.serialize_entry("duration_seconds", &seconds(run.duration_ns))?;
        map.serialize_entry("verdict", &analysis::verdict(self))?;
        map.serialize_entry("totals", &Totals(self))?;
        map.serialize_entry("phases", &PhasesJson::whole(self))?;
        map.serialize_entry("waits", &waits::waits(self, is_whole))?;
        analysis_entries(map, self)?;
        if self.has_nodes() {
            map.serialize_entry("nodes", &analysis::nodes(self))?;
        }
        map.serialize_entry("file_counts", &analysis::file_counts(self))?;
        map.serialize_entry("in_flight", &analysis::in_flight(self.run))?;
        map.serialize_entry("remarks", &self.remarks())
    }

    /// What stands behind them; `is_whole`: with lists that may be long.
    fn tail_entries<M: SerializeMap>(&self, map: &mut M, is_whole: bool) -> Result<(), M::Error> {
        map.serialize_entry("losses", &self.losses(true))?;
        map.serialize_entry("notes", &self.losses(false))?;
        map.serialize_entry("not_seen", &self.unseen())?;
        if let Some(trace) = &self.run.trace {
            map.serialize_entry("trace", &TraceJson::of(trace))?;
        }
        let uprobes = library::Uprobes(self);
        if uprobes.are_there() {
            map.serialize_entry("uprobes", &uprobes)?;
        }
        let block = block::Block {
            report: self,
            is_whole,
        };
        if block.is_there() {
            map.serialize_entry("block", &block)?;
        }
        Ok(())
    }
}

impl Serialize for Report<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        self.head_entries(&mut map, true)?;
        map.serialize_entry("time_series", &series(self))?;
        map.serialize_entry(
            "processes",
            &Seq(|| {
                self.process_order.iter().map(|index| ProcessJson {
                    report: self,
                    index: *index,
                })
            }),
        )?;
        map.serialize_entry(
            "files",
            &Seq(|| {
                let rows = self
                    .row_order
                    .iter()
                    .map(|index| &self.model.rows()[*index as usize]);
                rows.map(|row| RowJson { report: self, row })
            }),
        )?;
        self.tail_entries(&mut map, true)?;
        map.end()
    }
}

impl Report<'_> {
    /// Every reason with its count, 0 included: those that lose something, or those that do not. Without the parts of one,
    /// which are among what is not seen.
    pub(super) fn losses(&self, lost: bool) -> BTreeMap<&str, u64> {
        let known = diag::NAMES
            .iter()
            .zip(diag::IS_LOSS)
            .filter(|(name, is_loss)| *is_loss == lost && !diag::is_part(name));
        let mut losses: BTreeMap<&str, u64> = known.map(|(name, _)| (*name, 0)).collect();
        if lost {
            losses.extend(diag::MISSES.map(|(name, _)| (name, 0)));
        }
        for (name, count) in &self.run.losses {
            if diag::is_loss(name) == lost && !diag::is_part(name) {
                losses.insert(name, *count);
            }
        }
        losses
    }

    /// A moment in seconds since the start of the run.
    fn at(&self, monotonic: u64) -> f64 {
        (self.run.clock.unix_ns(monotonic) - self.run.start_unix_ns) as f64 / 1e9
    }
}

/// A sequence that is made while it is written.
struct Seq<F>(F);

impl<I: Iterator<Item: Serialize>, F: Fn() -> I> Serialize for Seq<F> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut seq = serializer.serialize_seq(None)?;
        for item in (self.0)() {
            seq.serialize_element(&item)?;
        }
        seq.end()
    }
}

/// Bytes by way of access: what one has, no other has too.
#[derive(Serialize)]
struct ByAccess {
    read: u64,
    written: u64,
    mapped: u64,
    all: u64,
}

impl ByAccess {
    fn of(of: &Counters) -> Self {
        let [read, written, mapped] = [
            counters::BYTES_READ,
            counters::BYTES_WRITTEN,
            counters::MAPPED_BYTES,
        ]
        .map(|index| of.v[index]);
        Self {
            read,
            written,
            mapped,
            all: read + written + mapped,
        }
    }
}

struct Totals<'a>(&'a Report<'a>);

impl Serialize for Totals<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let report = self.0;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("processes", &report.processes.len())?;
        map.serialize_entry("files", &report.files.len())?;
        map.serialize_entry("directories", &report.directories.len())?;
        sum_entries(&mut map, report, &report.totals)?;
        map.serialize_entry("bytes_by_access", &ByAccess::of(&report.totals.counters))?;
        failure_entries(
            &mut map,
            report
                .failures
                .iter()
                .map(|((op, errno), count)| (*op, *errno, *count)),
            true,
        )?;
        map.end()
    }
}

struct ProcessJson<'a> {
    report: &'a Report<'a>,
    index: u32,
}

impl Serialize for ProcessJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Process {
            id,
            about,
            path_only,
            overflow,
            ..
        } = &self.report.model.processes()[self.index as usize];
        let clock = &self.report.run.clock;
        let start = (about.start_boottime != 0)
            .then(|| rfc3339(clock.unix_ns_of_boottime(about.start_boottime)));
        let mut map = serializer.serialize_map(None)?;
        if let Some(host) = self
            .report
            .host_of(self.report.model.processes()[self.index as usize].node)
        {
            map.serialize_entry("host", host)?;
        }
        map.serialize_entry("pid", &id.pid)?;
        map.serialize_entry("ppid", &about.parent)?;
        map.serialize_entry("uid", &about.uid)?;
        text_entries(&mut map, "comm", "comm_hex", &about.comm)?;
        text_entries(&mut map, "exe", "exe_hex", &about.exe)?;
        let command: Vec<_> = about
            .args
            .iter()
            .map(|arg| String::from_utf8_lossy(arg))
            .collect();
        map.serialize_entry("command", &command)?;
        map.serialize_entry("start_time", &start)?;
        map.serialize_entry(
            "end_time",
            &about.end.map(|end| rfc3339(clock.unix_ns(end))),
        )?;
        map.serialize_entry("exit_code", &about.exit_code())?;
        map.serialize_entry("execs", &about.execs)?;
        if let Some(ns) = self.report.model.computing().of_process(self.index) {
            map.serialize_entry("cpu_seconds", &seconds(ns))?;
        }
        if let Some(rank) = about.role.rank {
            map.serialize_entry("rank", &rank.number)?;
        }
        if let Some(job) = &about.role.job {
            map.serialize_entry("job", job)?;
        }
        map.serialize_entry(
            "totals",
            &ProcessTotals {
                report: self.report,
                index: self.index,
            },
        )?;
        map.serialize_entry("phases", &PhasesJson::of_process(self.report, self.index))?;
        let components = self.report.breakdown_of(self.index);
        map.serialize_entry("breakdown", &analysis::breakdown(&components))?;
        for (name, place, cell) in [
            ("by_name", Place::PathOnly, path_only),
            ("overflow", Place::Overflow, overflow),
        ] {
            let counters = cell.total();
            map.serialize_entry(
                name,
                &PlaceJson {
                    report: self.report,
                    process: self.index,
                    place,
                    counters,
                },
            )?;
        }
        map.end()
    }
}

struct ProcessTotals<'a> {
    report: &'a Report<'a>,
    index: u32,
}

impl Serialize for ProcessTotals<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        let process = &self.report.processes[self.index as usize];
        map.serialize_entry("files", &process.files)?;
        sum_entries(&mut map, self.report, &process.sum)?;
        let failures = self.report.model.failures().of(self.index);
        failure_entries(&mut map, failures.map(flat), true)?;
        map.end()
    }
}

/// The counters of one place, with its failures.
struct PlaceJson<'a> {
    report: &'a Report<'a>,
    process: u32,
    place: Place<u32>,
    counters: Counters,
}

impl PlaceJson<'_> {
    fn entries<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        counter_entries(map, self.report, &self.counters)?;
        table_entries(
            map,
            &self.counters,
            self.counters.sizes.entries(),
            self.counters.strides.entries(),
        )?;
        failure_entries(
            map,
            self.report.failures_at(self.process, self.place).map(flat),
            false,
        )
    }
}

impl Serialize for PlaceJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        self.entries(&mut map)?;
        map.end()
    }
}

struct RowJson<'a> {
    report: &'a Report<'a>,
    row: &'a Row,
}

impl Serialize for RowJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Row {
            process,
            file: index,
            cell,
        } = self.row;
        let model = self.report.model;
        let file = model.file(*index);
        let (mount_point, fs_type) = model.mount_of(&file);
        let mut map = serializer.serialize_map(None)?;
        let of = &model.processes()[*process as usize];
        if let Some(host) = self.report.host_of(of.node) {
            map.serialize_entry("host", host)?;
        }
        map.serialize_entry("pid", &of.id.pid)?;
        match file.path {
            [] => map.serialize_entry("path", &None::<&str>)?,
            path => text_entries(&mut map, "path", "path_hex", path)?,
        }
        if let Some(path) = file.opened_as {
            text_entries(&mut map, "opened_as", "opened_as_hex", path)?;
        }
        if file.truncated {
            map.serialize_entry("path_truncated", &true)?;
        }
        if file.deleted {
            map.serialize_entry("deleted", &true)?;
        }
        map.serialize_entry(
            "type",
            if file.is_directory() {
                "directory"
            } else {
                "regular"
            },
        )?;
        map.serialize_entry(
            "device",
            &format_args!("{}:{}", file.id.major(), file.id.minor()),
        )?;
        map.serialize_entry("inode", &file.id.inode)?;
        map.serialize_entry("generation", &file.id.generation)?;
        text_entries(&mut map, "mount_point", "mount_point_hex", mount_point)?;
        map.serialize_entry("fs_type", fs_type)?;
        map.serialize_entry("block_size", &file.block_size)?;
        map.serialize_entry("size", &file.size)?;
        let (place, counters) = (Place::File(*index), cell.total());
        row_entries(&mut map, self.report, *index, &counters)?;
        PlaceJson {
            report: self.report,
            process: *process,
            place,
            counters,
        }
        .entries(&mut map)?;
        map.end()
    }
}
