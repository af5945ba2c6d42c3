//! What a report says of a run, in figures to compare with those that other tools publish.

use std::collections::BTreeMap;

use serde_json::Value;

use super::compare::number;

/// Prints them.
pub fn print(report: &Value, program: &Value) {
    let totals = &report["totals"];
    let framework = program["framework"].as_str().unwrap_or_default();
    let seconds = report["duration_seconds"].as_f64().unwrap_or(0.0);
    let operations = operations(totals);
    println!(
        "{framework}: {seconds:.1} s, {} processes",
        count(number(totals, "processes"))
    );
    println!(
        "  {} reads and writes; {} files, {} of them in one process",
        count(number(totals, "reads") + number(totals, "writes")),
        count(number(totals, "files")),
        count(most_files(report)),
    );
    println!(
        "  {:.3} s inside I/O calls over all threads, for {} calls ({} failed)",
        inside(totals),
        count(operations + number(totals, "failures")),
        count(number(totals, "failures")),
    );
    for (name, phase) in report["phases"].as_object().into_iter().flatten() {
        println!(
            "  {name:10} {:>6} files {:>8} opens {:>8} reads {:>6} writes {:>12} bytes read {:>10} written {:.3} s",
            count(number(phase, "files")),
            count(number(phase, "opens")),
            count(number(phase, "reads")),
            count(number(phase, "writes")),
            count(number(phase, "bytes_read")),
            count(number(phase, "bytes_written")),
            inside(phase),
        );
    }
    sizes(report);
    for finding in report["findings"].as_array().into_iter().flatten() {
        let text = |key: &str| finding[key].as_str().unwrap_or_default().to_owned();
        println!(
            "  finding {} ({}): {}",
            text("code"),
            text("severity"),
            text("title")
        );
    }
    println!();
}

/// The commonest size and the histograms, over all and by what the files are for.
fn sizes(report: &Value) {
    let commonest = |counters: &Value| {
        let first = counters["access_sizes"].get(0)?;
        let whole = number(counters, "reads") + number(counters, "writes");
        let calls = number(first, "count");
        Some(format!(
            "{} bytes in {} of {} calls ({:.0} %)",
            count(number(first, "size")),
            count(calls),
            count(whole),
            calls as f64 * 100.0 / whole.max(1) as f64
        ))
    };
    let parts = BTreeMap::from([
        ("all", &report["totals"]),
        ("checkpoint", &report["phases"]["checkpoint"]),
        ("log", &report["phases"]["other"]["classes"]["log"]),
        ("training", &report["phases"]["training"]),
    ]);
    for (name, counters) in parts {
        if let Some(text) = commonest(counters) {
            println!("  commonest size, {name}: {text}");
        }
        for kind in ["read_sizes", "write_sizes"] {
            let buckets = counters[kind].as_object().into_iter().flatten();
            let text: Vec<_> = buckets
                .map(|(bucket, calls)| format!("{bucket} {}", count(calls.as_u64().unwrap_or(0))))
                .collect();
            println!("  {}, {name}: {}", kind.replace('_', " "), text.join(", "));
        }
    }
}

/// The most files that one process used.
fn most_files(report: &Value) -> u64 {
    let processes = report["processes"].as_array().into_iter().flatten();
    let files = processes.map(|process| number(&process["totals"], "files"));
    files.max().unwrap_or(0)
}

/// Calls of all kinds that succeeded.
fn operations(counters: &Value) -> u64 {
    const CALLS: [&str; 28] = [
        "opens",
        "reads",
        "writes",
        "closes",
        "seeks",
        "stats",
        "mmaps",
        "fsyncs",
        "fdatasyncs",
        "renames",
        "unlinks",
        "dups",
        "sync_file_ranges",
        "msyncs",
        "accesses",
        "getdents",
        "truncates",
        "fallocates",
        "links",
        "symlinks",
        "mkdirs",
        "rmdirs",
        "transfer_reads",
        "transfer_writes",
        "close_ranges",
        "readlinks",
        "syncfs",
        "syncs",
    ];
    CALLS.iter().map(|key| number(counters, key)).sum()
}

/// Seconds inside calls of all kinds.
fn inside(counters: &Value) -> f64 {
    ["read", "write", "meta", "sync", "failed"]
        .iter()
        .map(|kind| counters[format!("{kind}_seconds")].as_f64().unwrap_or(0.0))
        .sum()
}

/// A count with its thousands apart: `1,234,567`.
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
