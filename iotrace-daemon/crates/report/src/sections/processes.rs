//! What each process did.

use std::io;

use super::{
    files::place_entries,
    phases::{PhasesJson, breakdown},
};
use crate::json::entries::{
    CounterMap, Entry, Object, Text, entries, failure_entries, flat, process_entries, seconds,
};
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
use serde::Serialize;
use std::cmp::Reverse;

/// Rows of the text; the other processes are summed up.
const MAX_TEXT_ROWS: usize = 15;

/// A process has a row if it has at least this fraction (one part in so many) of the time in calls or of the bytes.
const MIN_ROW_FRACTION: u64 = 100;

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
    let folded = report.folded();
    let is_large = |index: &u32| {
        let own = of(index);
        folded.of(*index) == *index
            && (own.nanoseconds().saturating_mul(MIN_ROW_FRACTION) >= all.nanoseconds()
                || own.bytes().saturating_mul(MIN_ROW_FRACTION) >= all.bytes())
    };
    let (large, small): (Vec<u32>, Vec<u32>) = order.iter().partition(|index| is_large(index));
    let rows = large.len().min(MAX_TEXT_ROWS);
    let order = [large, small].concat();
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
        let cpu = computing.of_processes(rest.iter().copied());
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

/// A process: an item of the key `processes`.
pub fn json(report: &Report<'_>, index: u32) -> impl Serialize {
    let process = &report.model.processes()[index as usize];
    let (about, clock) = (&process.about, &report.run.clock);
    let start = (about.start_boottime != 0)
        .then(|| rfc3339(clock.unix_ns_of_boottime(about.start_boottime)));
    let command = about.args.iter().map(|arg| String::from_utf8_lossy(arg));
    let computing = report.model.computing().of_process(index);
    let sums = &report.processes[index as usize];
    let failures = report.model.failures().of(index);
    let totals = entries![
        Entry("files", sums.files),
        CounterMap::of_sum(report, &sums.sum),
        failure_entries(failures.map(flat), true),
    ];
    let place = |place, counters| Object(place_entries(report, index, place, counters));
    Object(entries![
        process_entries(report, index),
        Entry("ppid", about.parent),
        Entry("uid", about.uid),
        Text("comm", &about.comm),
        Text("exe", &about.exe),
        Entry("command", command.collect::<Vec<_>>()),
        Entry("start_time", start),
        Entry("end_time", about.end.map(|end| rfc3339(clock.unix_ns(end)))),
        Entry("exit_code", about.exit_code()),
        Entry("execs", about.execs),
        computing.map(|ns| Entry("cpu_seconds", seconds(ns))),
        about.role.rank.map(|rank| Entry("rank", rank.number)),
        about.role.job.as_ref().map(|job| Entry("job", job)),
        Entry("totals", Object(totals)),
        Entry("phases", PhasesJson::of_process(report, index)),
        Entry("breakdown", breakdown(&report.breakdown_of(index))),
        Entry("by_name", place(Place::PathOnly, process.path_only.total())),
        Entry("overflow", place(Place::Overflow, process.overflow.total())),
    ])
}

/// Processes on the page; more rows are slow to lay out.
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
    /// The list, and for each process of the model its index in it; unlisted processes have the index after the last.
    pub fn new(report: &Report<'_>) -> (Self, Vec<u32>) {
        let ns = |index: &u32| report.processes[*index as usize].sum.counters.nanoseconds();
        let mut by_time = report.process_order.clone();
        by_time.sort_by_key(|index| Reverse(ns(index)));
        let unlisted = report.process_order.len().min(MAX_PAGE_ROWS) as u32;
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
