//! The sections of the text report, in the order in which they are read.

use std::{
    cmp::Reverse,
    io::{self, Write},
};

use iotrace_common::{bucket, diag, op};

use super::{
    escape::{escape, shorten},
    table::{PAGE, Page, Style, Table},
    units::{bytes, count, duration, rate, share, some, some_bytes},
};
use crate::{
    model::{
        FailureCount, Process,
        counters::{self, Counters},
        errno,
        run::{Target, rfc3339},
        top::commonest,
    },
    report::{FileSum, Report},
};

/// Rows of a table before the rest is summed up.
const PROCESSES: usize = 15;
const FILES: usize = 10;
const DIRECTORIES: usize = 5;
const FAILURES: usize = 12;
const MOUNTS: usize = 12;

/// What ran, where, how and for how long.
pub fn head(report: &Report<'_>, page: &mut Page<impl Write>) -> io::Result<()> {
    let run = report.run;
    let what = match &run.target {
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
    };
    page.line(Style::Title, &shorten(what.as_bytes(), PAGE))?;
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
    page.line(Style::Plain, &shorten(facts.join(", ").as_bytes(), PAGE))?;
    let how = format!(
        "iotrace {}, Linux {}, {} hooks, detail {}",
        run.iotrace_version, run.kernel, run.hook, run.detail
    );
    page.line(Style::Dim, &shorten(how.as_bytes(), PAGE))
}

/// Calls, bytes and time by kind of operation.
pub fn totals(report: &Report<'_>, page: &mut Page<impl Write>) -> io::Result<()> {
    let v = &report.totals.counters.v;
    page.section("Totals")?;
    let reads = v[counters::READS] + v[counters::TRANSFER_READS];
    let writes = v[counters::WRITES] + v[counters::TRANSFER_WRITES];
    let syncs = v[counters::FSYNCS]
        + v[counters::FDATASYNCS]
        + v[counters::SYNC_FILE_RANGES]
        + v[counters::MSYNCS];
    let all = report.totals.counters.operations();
    let meta = all - reads - writes - syncs - v[counters::FAILURES];
    let whole = report.totals.counters.nanoseconds();
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
    page.table(&table)?;
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

/// What each process did, those with the most time in calls first.
pub fn processes(report: &Report<'_>, page: &mut Page<impl Write>) -> io::Result<()> {
    let mut order = report.process_order.clone();
    let of = |index: &u32| &report.processes[*index as usize].sum.counters;
    order.retain(|index| of(index).operations() > 0);
    if order.is_empty() {
        return Ok(());
    }
    order.sort_by_key(|index| Reverse(of(index).nanoseconds()));
    let (shown, rest) = order.split_at(order.len().min(PROCESSES));
    page.section("Processes")?;
    let mut table = Table::new(&[
        "PID", "READ", "WRITTEN", "CALLS", "TIME", "FAILED", "FILES", "EXIT",
    ]);
    for index in shown {
        let Process { id, about, .. } = &report.model.processes()[*index as usize];
        let exit = about
            .exit_code()
            .map(|code| code.to_string())
            .unwrap_or_default();
        let files = report.processes[*index as usize].files;
        table.row(process_cells(id.pid.to_string(), of(index), files, exit));
    }
    if !rest.is_empty() {
        let mut sum = Counters::ZERO;
        rest.iter().for_each(|index| sum.absorb(of(index)));
        let files = rest
            .iter()
            .map(|index| report.processes[*index as usize].files)
            .sum();
        table.styled_row(
            Style::Dim,
            process_cells("others".into(), &sum, files, String::new()),
        );
    }
    table.push_column("COMMAND", |row, room| match shown.get(row) {
        Some(index) => shorten(&command(&report.model.processes()[*index as usize]), room),
        None => format!("{} more processes", count(rest.len() as u64)),
    });
    page.table(&table)
}

fn process_cells(pid: String, counters: &Counters, files: u64, exit: String) -> Vec<String> {
    let v = &counters.v;
    vec![
        pid,
        some_bytes(v[counters::BYTES_READ]),
        some_bytes(v[counters::BYTES_WRITTEN]),
        count(counters.operations()),
        duration(counters.nanoseconds()),
        some(v[counters::FAILURES]),
        some(files),
        exit,
    ]
}

/// The command line where it is known, else the program, else its short name.
fn command(process: &Process) -> Vec<u8> {
    let about = &process.about;
    match (about.args.is_empty(), about.exe.is_empty()) {
        (false, _) => about.args.join(&b' '),
        (true, false) => about.exe.clone(),
        (true, true) => about.comm.clone(),
    }
}

/// The files that took the most time, those that moved the most bytes, and the busiest directories.
pub fn files(report: &Report<'_>, page: &mut Page<impl Write>) -> io::Result<()> {
    let by_time = report.largest(&report.files, FILES, |sum| sum.ns);
    let by_bytes = report.largest(&report.files, FILES, |sum| {
        sum.bytes_read + sum.bytes_written
    });
    let directories = report.largest(&report.directories, DIRECTORIES, |sum| sum.ns);
    file_table(report, page, "Files by time in calls", &by_time)?;
    file_table(report, page, "Files by bytes", &by_bytes)?;
    file_table(report, page, "Directories by time in calls", &directories)
}

fn file_table(
    report: &Report<'_>,
    page: &mut Page<impl Write>,
    title: &str,
    files: &[FileSum],
) -> io::Result<()> {
    if files.is_empty() {
        return Ok(());
    }
    page.section(title)?;
    let whole = report.totals.counters.nanoseconds();
    let mut table = Table::new(&["TIME", "SHARE", "READ", "WRITTEN", "CALLS", "PROCS"]);
    for sum in files {
        table.row(vec![
            duration(sum.ns),
            share(sum.ns, whole),
            some_bytes(sum.bytes_read),
            some_bytes(sum.bytes_written),
            count(sum.operations),
            count(sum.processes.into()),
        ]);
    }
    table.push_column("PATH", |row, room| path_of(report, files[row].file, room));
    page.table(&table)
}

fn path_of(report: &Report<'_>, index: u32, room: usize) -> String {
    let file = report.model.file(index);
    if file.path.is_empty() {
        return format!(
            "(no name: inode {} on {}:{})",
            file.id.inode,
            file.id.major(),
            file.id.minor()
        );
    }
    let mark = if file.deleted { " (gone)" } else { "" };
    let cut = if file.truncated { "…" } else { "" };
    format!(
        "{cut}{}{mark}",
        shorten(file.path, room.saturating_sub(mark.len() + cut.len()))
    )
}

/// How often each operation was called, in three columns.
pub fn operations(report: &Report<'_>, page: &mut Page<impl Write>) -> io::Result<()> {
    let v = &report.totals.counters.v;
    let mut kinds: Vec<(u64, u64, &str)> = (0..op::COUNT)
        .map(|op| {
            let failed = report
                .failures
                .range((op as u32, 0)..=(op as u32, u32::MAX));
            (
                v[op],
                failed.map(|(_, count)| count.calls).sum(),
                op::NAMES[op],
            )
        })
        .filter(|(calls, failed, _)| calls + failed > 0)
        .collect();
    if kinds.is_empty() {
        return Ok(());
    }
    kinds.sort_by_key(|(calls, failed, name)| (Reverse(calls + failed), *name));
    page.section("Operations")?;
    let lines = kinds.len().div_ceil(3);
    let mut table = Table::new(&[
        "<", "CALLS", "FAILED", "<   ", "CALLS", "FAILED", "<   ", "CALLS", "FAILED",
    ]);
    for line in 0..lines {
        let mut cells = Vec::new();
        for (calls, failed, name) in kinds.iter().skip(line).step_by(lines) {
            let indent = if cells.is_empty() { "" } else { "   " };
            cells.extend([format!("{indent}{name}"), some(*calls), some(*failed)]);
        }
        table.row(cells);
    }
    page.table(&table)?;
    let eof = v[counters::ZERO_READS];
    if eof > 0 {
        page.line(
            Style::Plain,
            &format!(
                "  {} reads returned 0 bytes: the end of the file.",
                count(eof)
            ),
        )?;
    }
    Ok(())
}

/// Calls by size of access, the commonest sizes, and the pattern (detail `full`).
pub fn access_sizes(report: &Report<'_>, page: &mut Page<impl Write>) -> io::Result<()> {
    let v = &report.totals.counters.v;
    let reads = &v[counters::READ_SIZE_0_100..=counters::READ_SIZE_1G_PLUS];
    let writes = &v[counters::WRITE_SIZE_0_100..=counters::WRITE_SIZE_1G_PLUS];
    let (all_reads, all_writes) = (reads.iter().sum(), writes.iter().sum());
    if all_reads + all_writes == 0 {
        return Ok(());
    }
    page.section("Access sizes")?;
    let mut table = Table::new(&[
        "<BYTES IN A CALL",
        "READS",
        "SHARE",
        "<",
        "WRITES",
        "SHARE",
        "<",
    ]);
    for bucket in (0..bucket::SIZES).filter(|bucket| reads[*bucket] + writes[*bucket] > 0) {
        let mut cells = vec![SIZE_LABELS[bucket].to_owned()];
        for (calls, whole) in [(reads[bucket], all_reads), (writes[bucket], all_writes)] {
            let shown = if calls == 0 {
                String::new()
            } else {
                share(calls, whole)
            };
            cells.extend([count(calls), shown, bar(calls, whole)]);
        }
        table.row(cells);
    }
    page.table(&table)?;
    let common = commonest(
        report
            .totals
            .sizes
            .iter()
            .map(|(size, calls)| (*size, *calls)),
        4,
    );
    let common = common
        .iter()
        .map(|(size, calls)| format!("{} × {}", size_text(*size), count(*calls)));
    let common = common.collect::<Vec<_>>().join(", ");
    if !common.is_empty() {
        page.line(Style::Plain, &format!("  Commonest: {common}."))?;
    }
    for (name, all, sequential, consecutive) in [
        (
            "Reads",
            all_reads,
            v[counters::SEQUENTIAL_READS],
            v[counters::CONSECUTIVE_READS],
        ),
        (
            "Writes",
            all_writes,
            v[counters::SEQUENTIAL_WRITES],
            v[counters::CONSECUTIVE_WRITES],
        ),
    ] {
        if all > 0 {
            let (forward, right) = (share(sequential, all), share(consecutive, all));
            let text = format!(
                "  {name}: {forward} went forward in the file, {right} began where the one before ended."
            );
            page.line(Style::Plain, &text)?;
        }
    }
    Ok(())
}

const SIZE_LABELS: [&str; bucket::SIZES] = [
    "0 to 100 B",
    "to 1 KiB",
    "to 10 KiB",
    "to 100 KiB",
    "to 1 MiB",
    "to 4 MiB",
    "to 10 MiB",
    "to 100 MiB",
    "to 1 GiB",
    "above 1 GiB",
];

/// A size that is read as one: exact where rounding would hide something.
fn size_text(size: u64) -> String {
    let rounded = bytes(size);
    let is_whole = (0..6)
        .any(|unit| size >> (10 * unit) < 1024 && (size >> (10 * unit)) << (10 * unit) == size);
    if is_whole {
        rounded.replace(".00", "").replace(".0 ", " ")
    } else {
        format!("{} B", count(size))
    }
}

const BAR: u64 = 16;

fn bar(part: u64, whole: u64) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    if part == 0 || whole == 0 {
        return String::new();
    }
    let eighths = (part as f64 / whole as f64 * (BAR * 8) as f64)
        .round()
        .max(1.0) as usize;
    "█".repeat(eighths / 8) + EIGHTHS[eighths % 8]
}

/// Failed calls by operation and error.
pub fn failures(report: &Report<'_>, page: &mut Page<impl Write>) -> io::Result<()> {
    let mut kinds: Vec<(&(u32, u32), &FailureCount)> = report.failures.iter().collect();
    if kinds.is_empty() {
        return Ok(());
    }
    kinds.sort_by_key(|(key, count)| (Reverse(count.calls), **key));
    let (shown, rest) = kinds.split_at(kinds.len().min(FAILURES));
    page.section("Failures")?;
    let mut table = Table::new(&["CALLS", "TIME", "<OPERATION", "<ERROR"]);
    for ((op, errno), failed) in shown {
        let operation = op::NAMES.get(*op as usize).copied().unwrap_or("unknown");
        table.row(vec![
            count(failed.calls),
            duration(failed.ns),
            operation.into(),
            errno::name(*errno).into(),
        ]);
    }
    if !rest.is_empty() {
        let calls = rest.iter().map(|(_, failed)| failed.calls).sum();
        let ns = rest.iter().map(|(_, failed)| failed.ns).sum();
        table.styled_row(
            Style::Dim,
            vec![count(calls), duration(ns), "others".into(), String::new()],
        );
    }
    table.push_column("", |row, room| {
        shown
            .get(row)
            .map(|((_, errno), _)| shorten(meaning(*errno).as_bytes(), room))
            .unwrap_or_default()
    });
    page.table(&table)
}

fn meaning(errno: u32) -> String {
    if errno >= 512 {
        return "Interrupted by a signal".to_owned();
    }
    let text = io::Error::from_raw_os_error(errno as i32).to_string();
    text.split(" (os error")
        .next()
        .unwrap_or_default()
        .to_owned()
}

/// What happened on which filesystem.
pub fn mounts(report: &Report<'_>, page: &mut Page<impl Write>) -> io::Result<()> {
    let mut mounts: Vec<_> = report.mounts.iter().collect();
    if mounts.is_empty() {
        return Ok(());
    }
    mounts.sort_by_key(|(key, sum)| (Reverse(sum.ns), *key));
    let (shown, rest) = mounts.split_at(mounts.len().min(MOUNTS));
    page.section("Mount points")?;
    let mut table = Table::new(&["<TYPE", "TIME", "READ", "WRITTEN", "CALLS", "FILES"]);
    for ((_, fs_type), sum) in shown {
        let fs_type = if fs_type.is_empty() {
            "unknown".into()
        } else {
            escape(fs_type.as_bytes())
        };
        table.row(vec![
            fs_type,
            duration(sum.ns),
            some_bytes(sum.bytes_read),
            some_bytes(sum.bytes_written),
            count(sum.operations),
            some(sum.files),
        ]);
    }
    table.push_column("MOUNT POINT", |row, room| match shown[row].0.0.as_slice() {
        [] => "(not mounted where it can be seen)".to_owned(),
        mount_point => shorten(mount_point, room),
    });
    page.table(&table)?;
    if !rest.is_empty() {
        page.line(
            Style::Dim,
            &format!("  and {} more.", count(rest.len() as u64)),
        )?;
    }
    let by_name = report.by_name.operations();
    if by_name > 0 {
        let time = duration(report.by_name.nanoseconds());
        let text = format!(
            "  Beside these, {} calls ({time}) named a path and opened no file.",
            count(by_name)
        );
        page.line(Style::Plain, &text)?;
    }
    Ok(())
}

/// What was not counted, always said; and what was left out on purpose.
pub fn losses(report: &Report<'_>, page: &mut Page<impl Write>) -> io::Result<()> {
    page.section("Losses")?;
    let lost = report.losses(true);
    if lost.values().all(|count| *count == 0) {
        page.line(Style::Good, "  Nothing lost: every operation is counted.")?;
    }
    for (style, reasons) in [(Style::Warning, lost), (Style::Dim, report.losses(false))] {
        for (name, times) in reasons.into_iter().filter(|(_, times)| *times > 0) {
            let known = diag::NAMES.iter().position(|known| *known == name);
            let meaning = known.map_or("", |index| diag::MEANINGS[index]);
            page.prose(style, &format!("{} {name}: {meaning}", count(times)))?;
        }
    }
    let overflow = report.overflow.operations();
    if overflow > 0 {
        let text = format!(
            "{} overflow: Operations counted exactly to their process, but to no file, because the \
             counters of files were full.",
            count(overflow)
        );
        page.prose(Style::Warning, &text)?;
    }
    Ok(())
}
