//! Passes over the training files.

use std::io;

use super::checkpoints::{MAX_ROWS, at, inexact, rest};
use crate::Report;
use crate::json::entries::{moment, pid, seconds};
use crate::text::{
    table::{Page, Style, Table},
    units::{bytes, count, duration, share, some_rate},
};
use iotrace_analysis::epochs::{Epoch, Epochs};
use serde_json::{Value as Json, json};

/// Passes over the training files.
pub fn text(report: &Report<'_>, page: &mut Page<'_>) -> io::Result<()> {
    let epochs = &report.analysis.epochs;
    if epochs.files == 0 {
        let Some(reason) = epochs.untold else {
            return Ok(());
        };
        page.section("Epochs")?;
        return page.prose(Style::Plain, &format!("Not told: {reason}."));
    }
    page.section(&format!("Epochs: {}", count(epochs.epochs.len() as u64)))?;
    let data = format!(
        "{} training files of {}",
        count(epochs.files),
        bytes(epochs.bytes)
    );
    if let Some(reason) = epochs.untold {
        return page.prose(
            Style::Plain,
            &format!("{data}; passes over them are not told: {reason}."),
        );
    }
    let mut table = Table::new(&[
        "EPOCH",
        "START",
        "TIME",
        "READ",
        "FROM STORAGE",
        "FILES",
        "TIME IN READS",
        "BYTES / TIME",
        "<ORDER",
        "<",
    ]);
    for epoch in epochs.epochs.iter().take(MAX_ROWS) {
        let ns = u64::try_from(epoch.end - epoch.start).unwrap_or(0);
        let part = (!epoch.is_complete()).then(|| {
            format!(
                "{} of the data",
                share((epoch.coverage * 1e6) as u64, 1_000_000)
            )
        });
        table.row(vec![
            epoch.number.to_string(),
            at(epoch.start),
            duration(ns),
            bytes(epoch.bytes),
            if epochs.knows_cache {
                bytes(epoch.fetched)
            } else {
                String::new()
            },
            count(epoch.files),
            duration(epoch.read_ns),
            some_rate(epoch.speed()),
            epoch
                .order
                .map(|order| order.name().to_owned())
                .unwrap_or_default(),
            part.unwrap_or_default(),
        ]);
    }
    page.table(table)?;
    rest(page, epochs.epochs.len())?;
    let copies = if epochs.copies > 1 {
        format!(", all of which each of {} ranks read", epochs.copies)
    } else {
        String::new()
    };
    page.prose(Style::Plain, &format!("{data}{copies}."))?;
    inexact(page, epochs.epochs.iter().any(|epoch| !epoch.is_exact))
}

/// The key `epochs`.
pub fn json(report: &Report<'_>) -> Json {
    let epochs = report.analysis.epochs.epochs.iter();
    epochs.map(|one| epoch(report, one)).collect()
}

/// The key `training_data`.
pub fn training_data_json(epochs: &Epochs) -> Json {
    json!({
        "files": epochs.files,
        "bytes": epochs.bytes,
        "mapped_files": epochs.mapped.files,
        "mapped_file_bytes": epochs.mapped.bytes,
        "copies": epochs.copies,
        "epochs_untold": epochs.untold,
    })
}

fn epoch(report: &Report<'_>, epoch: &Epoch) -> Json {
    let knows_cache = report.analysis.epochs.knows_cache;
    let mut shares: Vec<(u32, u64)> = epoch
        .by_process
        .iter()
        .map(|(process, bytes)| (pid(report, *process), *bytes))
        .collect();
    shares.sort_unstable();
    let processes: Vec<Json> = shares
        .iter()
        .map(|(pid, bytes)| json!({"pid": pid, "bytes_read": bytes}))
        .collect();
    json!({
        "number": epoch.number,
        "stage": epoch.stage,
        "start": moment(epoch.start),
        "end": moment(epoch.end),
        "files": epoch.files,
        "bytes_read": epoch.bytes,
        "bytes_fetched": knows_cache.then_some(epoch.fetched),
        "bytes_cached": knows_cache.then(|| epoch.cached()),
        "read_seconds": seconds(epoch.read_ns),
        "bandwidth_bytes_per_second": epoch.speed(),
        "share_of_data": epoch.coverage,
        "complete": epoch.is_complete(),
        "order": epoch.order.map(|order| order.name()),
        "exact": epoch.is_exact,
        "processes": processes,
    })
}
