//! What each process did.

use std::io;

use super::{
    files::PlaceJson,
    phases::{PhasesJson, breakdown},
};
use crate::json::entries::{failure_entries, flat, seconds, sum_entries, text_entries};
use crate::text::{
    escape::{escape, shorten},
    table::{Page, Style, Table},
    units::{count, duration, some, some_bytes},
};
use crate::{
    Report,
    html::columns::{Amount, Columns},
    text::head,
};
use iotrace_model::{
    Process,
    counters::{self, Counters},
    input::Place,
    run::rfc3339,
};
use serde::{Serialize, Serializer, ser::SerializeMap};
use std::cmp::Reverse;

/// Processes before the rest is summed up.
const MAX_TEXT_ROWS: usize = 15;

/// A process has a row if it has at least one part in this many of the time in calls or of the bytes.
const ROW_PARTS: u64 = 100;

/// What each process did, those with the most time in calls first.
pub fn text(report: &Report<'_>, page: &mut Page<'_>) -> io::Result<()> {
    let mut order = report.process_order.clone();
    let of = |index: &u32| &report.processes[*index as usize].sum.counters;
    order.retain(|index| of(index).operations() > 0);
    if order.is_empty() {
        return Ok(());
    }
    order.sort_by_key(|index| Reverse(of(index).nanoseconds()));
    let all = &report.totals.counters;
    // Wrappers that look for a program and run it hardly do any I/O.
    let is_worth_a_row = |index: &u32| {
        let own = of(index);
        own.nanoseconds() * ROW_PARTS >= all.nanoseconds() || own.bytes() * ROW_PARTS >= all.bytes()
    };
    let (worth, small): (Vec<u32>, Vec<u32>) =
        order.iter().partition(|index| is_worth_a_row(index));
    let rows = worth.len().min(MAX_TEXT_ROWS);
    let order = [worth, small].concat();
    let (shown, rest) = order.split_at(rows);
    page.section("Processes")?;
    let computing = report.model.computing();
    let mut table = Table::new(&[
        "PID", "READ", "WRITTEN", "CALLS", "TIME", "CPU", "FAILED", "FILES", "EXIT",
    ])
    .dispensable(&["FAILED", "FILES"]);
    for index in shown {
        let Process { id, about, .. } = &report.model.processes()[*index as usize];
        let exit = about
            .exit_code()
            .map(|code| code.to_string())
            .unwrap_or_default();
        let files = report.processes[*index as usize].files;
        let cpu = computing.of_process(*index);
        table.row(process_cells(
            id.pid.to_string(),
            of(index),
            cpu,
            files,
            exit,
        ));
    }
    if !rest.is_empty() {
        let mut sum = Counters::ZERO;
        rest.iter().for_each(|index| sum.absorb(of(index)));
        let cpu = rest.iter().map(|index| computing.of_process(*index)).sum();
        let files = rest
            .iter()
            .map(|index| report.processes[*index as usize].files)
            .sum();
        table.styled_row(
            Style::Dim,
            process_cells("others".into(), &sum, cpu, files, String::new()),
        );
    }
    table.push_column(page, "COMMAND", |row, room| match shown.get(row) {
        Some(index) => shorten(
            &head::command(&report.model.processes()[*index as usize]),
            room,
        ),
        None => format!("{} more processes", count(rest.len() as u64)),
    });
    page.table(table)
}

fn process_cells(
    pid: String,
    counters: &Counters,
    cpu: Option<u64>,
    files: u64,
    exit: String,
) -> Vec<String> {
    let v = &counters.v;
    vec![
        pid,
        some_bytes(v[counters::BYTES_READ]),
        some_bytes(v[counters::BYTES_WRITTEN]),
        count(counters.operations()),
        duration(counters.nanoseconds()),
        cpu.map(duration).unwrap_or_default(),
        some(v[counters::FAILURES]),
        some(files),
        exit,
    ]
}

/// A process in the JSON report.
pub struct ProcessJson<'a> {
    pub report: &'a Report<'a>,
    pub index: u32,
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
        map.serialize_entry("breakdown", &breakdown(&components))?;
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

/// Processes that are listed; a page with more rows than this is slow to lay out.
const MAX_PAGE_ROWS: usize = 1_000;

#[derive(Default, Serialize)]
pub struct Processes {
    pid: Vec<u32>,
    ppid: Vec<u32>,
    name: Vec<String>,
    command: Vec<String>,
    /// Seconds since the start of the run.
    start: Vec<Option<f64>>,
    end: Vec<Option<f64>>,
    exit_code: Vec<Option<u32>>,
    files: Vec<u64>,
    #[serde(flatten)]
    sums: Columns,
}

impl Processes {
    /// The list, and for each process of the model its place in it; those that are not listed have the place behind it.
    pub fn new(report: &Report<'_>) -> (Self, Vec<u32>) {
        let ns = |index: &u32| report.processes[*index as usize].sum.counters.nanoseconds();
        let mut by_time = report.process_order.clone();
        by_time.sort_by_key(|index| Reverse(ns(index)));
        let unlisted = report.processes.len().min(MAX_PAGE_ROWS) as u32;
        let mut places = vec![unlisted; report.processes.len()];
        for index in by_time.iter().take(MAX_PAGE_ROWS) {
            places[*index as usize] = 0;
        }
        let mut listed = Self::default();
        for index in &report.process_order {
            let place = &mut places[*index as usize];
            if *place == 0 {
                *place = listed.pid.len() as u32;
                listed.push(report, *index as usize);
            }
        }
        (listed, places)
    }

    pub fn len(&self) -> usize {
        self.pid.len()
    }

    fn push(&mut self, report: &Report<'_>, index: usize) {
        let process = &report.model.processes()[index];
        let (about, sum) = (&process.about, &report.processes[index]);
        let clock = &report.run.clock;
        let since_start = |unix_ns: i64| (unix_ns - report.run.start_unix_ns) as f64 / 1e9;
        let start = (about.start_boottime != 0)
            .then(|| since_start(clock.unix_ns_of_boottime(about.start_boottime)));
        self.pid.push(process.id.pid);
        self.ppid.push(about.parent);
        self.name.push(escape(&about.comm));
        self.command.push(escape(&about.args.join(&b' ')));
        self.start.push(start);
        self.end
            .push(about.end.map(|end| since_start(clock.unix_ns(end))));
        self.exit_code.push(about.exit_code());
        self.files.push(sum.files);
        self.sums.push(&Amount::from(&sum.sum.counters));
    }
}
