//! The head of the text report: what ran, the totals, the processes.

use std::{cmp::Reverse, io};

use iotrace_common::op;

use super::{
    escape::shorten,
    table::{Page, Style, Table},
    units::{bytes, count, duration, rate, share, some, some_bytes},
};
use crate::Report;
use iotrace_model::{
    Process,
    counters::{self, Counters},
    run::{MergedTime, Run, Target, rfc3339},
};

/// Processes before the rest is summed up.
const PROCESSES: usize = 15;
/// A process has a row if it has at least one part in this many of the time in calls or of the bytes.
const ROW_PARTS: u64 = 100;

/// What was traced.
pub fn target(run: &Run) -> String {
    match &run.target {
        Target::Command(command) => command.join(" "),
        Target::Pids(pids) if pids.len() == 1 => format!("process {}", pids[0]),
        Target::Pids(pids) => {
            format!(
                "processes {}",
                pids.iter()
                    .map(u32::to_string)
                    .collect::<Vec<_>>()
                    .join(", ")
            )
        }
        Target::All(_) => "all processes".to_owned(),
    }
}

/// What ran, where, how and for how long.
pub fn head(report: &Report<'_>, page: &mut Page<'_>) -> io::Result<()> {
    let run = report.run;
    let what = target(run);
    page.line(Style::Title, &shorten(what.as_bytes(), page.width()))?;
    let start = rfc3339(run.start_unix_ns);
    let start = start.get(..19).unwrap_or(&start).replace('T', " ");
    let mut facts = vec![
        duration(run.duration_ns),
        format!("from {start} UTC"),
        format!("on {}", run.host),
    ];
    facts.insert(
        1,
        run.exit_code
            .map(|code| format!("exit code {code}"))
            .unwrap_or_default(),
    );
    facts.retain(|fact| !fact.is_empty());
    page.line(
        Style::Plain,
        &shorten(facts.join(", ").as_bytes(), page.width()),
    )?;
    let mut how = format!(
        "iotrace {}, Linux {}, {} hooks, detail {}",
        run.iotrace_version, run.kernel, run.hook, run.detail
    );
    if run.merged_time == MergedTime::Exact {
        how += ", merged time exact";
    }
    page.line(Style::Dim, &shorten(how.as_bytes(), page.width()))
}

/// Calls, bytes and time by kind of operation.
pub fn totals(report: &Report<'_>, page: &mut Page<'_>) -> io::Result<()> {
    let counters = &report.totals.counters;
    let v = &counters.v;
    page.section("Totals")?;
    let (reads, writes) = (counters.calls(op::is_read), counters.calls(op::is_write));
    let syncs = counters.calls(op::is_sync);
    let all = counters.operations();
    let meta = all - reads - writes - syncs - v[counters::FAILURES];
    let whole = counters.nanoseconds();
    let mut table = Table::new(&[
        "<",
        "CALLS",
        "BYTES",
        "TIME IN CALLS",
        "SHARE",
        "BYTES / TIME",
    ]);
    for (name, calls, moved, ns) in [
        ("read", reads, v[counters::BYTES_READ], v[counters::READ_NS]),
        (
            "write",
            writes,
            v[counters::BYTES_WRITTEN],
            v[counters::WRITE_NS],
        ),
        ("sync", syncs, 0, v[counters::SYNC_NS]),
        ("metadata", meta, 0, v[counters::META_NS]),
        ("failed", v[counters::FAILURES], 0, v[counters::FAILED_NS]),
    ] {
        let moved_text = if name == "read" || name == "write" {
            bytes(moved)
        } else {
            String::new()
        };
        table.row(vec![
            name.into(),
            count(calls),
            moved_text,
            duration(ns),
            share(ns, whole),
            rate(moved, ns),
        ]);
    }
    let moved = report.totals.counters.bytes();
    table.row(vec![
        "all".into(),
        count(all),
        bytes(moved),
        duration(whole),
        String::new(),
        String::new(),
    ]);
    page.table(table)?;
    from_storage(report, page)?;
    let kinds = [
        (report.processes.len(), "process", "processes"),
        (report.files.len(), "file", "files"),
        (report.directories.len(), "directory", "directories"),
    ];
    let kinds = kinds
        .map(|(n, one, many)| format!("{} {}", count(n as u64), if n == 1 { one } else { many }));
    page.line(
        Style::Plain,
        &format!(
            "  {}. Time in calls is summed over threads.",
            kinds.join(", ")
        ),
    )
}

/// What came from storage and what from the page cache, and how files were used as memory.
fn from_storage(report: &Report<'_>, page: &mut Page<'_>) -> io::Result<()> {
    let counters = &report.totals.counters;
    let v = &counters.v;
    let (fetched, by_reads) = (v[counters::BYTES_FETCHED], counters.fetched_by_reads());
    if fetched > 0 {
        let cached = share(counters.cached(), v[counters::BYTES_READ]);
        let cached = match cached.as_str() {
            "" => String::new(),
            _ if !report.analysis.knows_cache => String::new(),
            cached => format!("; about {cached} of what was read was in the page cache"),
        };
        let text = format!(
            "From storage: {} by reads and readahead, {} by page faults{cached}.",
            bytes(by_reads),
            bytes(fetched - by_reads),
        );
        page.prose(Style::Plain, &text)?;
    }
    let waited = match v[counters::TIMED_MAJOR_FAULTS] {
        0 => String::new(),
        faults => format!(
            "{} waited {} for storage",
            count(faults),
            duration(v[counters::MAJOR_FAULT_NS])
        ),
    };
    if v[counters::FAULTS] == 0 {
        // Older kernels tell no more of them.
        return match waited.as_str() {
            "" => Ok(()),
            waited => page.prose(
                Style::Plain,
                &format!("Page faults on mapped files: {waited}."),
            ),
        };
    }
    let dirtied = match v[counters::MAPPED_BYTES_DIRTIED] {
        0 => String::new(),
        dirtied => format!("; stores changed {}", bytes(dirtied)),
    };
    let waited = match waited.as_str() {
        "" => String::new(),
        waited => format!("; {waited}"),
    };
    let text = format!(
        "Mapped files: {} page faults, {} of them major, on at least {}{dirtied}{waited}. None of it is in the table.",
        count(v[counters::FAULTS]),
        count(v[counters::MAJOR_FAULTS]),
        bytes(v[counters::MAPPED_BYTES]),
    );
    page.prose(Style::Plain, &text)
}

/// What each process did, those with the most time in calls first.
pub fn processes(report: &Report<'_>, page: &mut Page<'_>) -> io::Result<()> {
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
    let rows = worth.len().min(PROCESSES);
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
        Some(index) => shorten(&command(&report.model.processes()[*index as usize]), room),
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

/// The command line where it is known, else the program, else its short name.
pub fn command(process: &Process) -> Vec<u8> {
    let about = &process.about;
    match (about.args.is_empty(), about.exe.is_empty()) {
        (false, _) => about.args.join(&b' '),
        (true, false) => about.exe.clone(),
        (true, true) => about.comm.clone(),
    }
}
