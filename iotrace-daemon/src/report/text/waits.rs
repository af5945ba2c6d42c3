//! What main threads waited for, in the text report.

use std::io;

use super::{
    escape::{escape, shorten},
    table::{Page, Style, Table},
    units::{count, duration, share},
};
use crate::{
    analysis::waits::{Kind, Waiter, rank_of},
    report::Report,
};

/// Threads and files of a thread that are shown.
const MAX_WAITERS: usize = 16;
const MAX_FILES: usize = 8;
/// Share of the longest time that a thread is known from which others are shown.
const MIN_SHARE: f64 = 0.05;

/// What the main thread of each program or rank waited for.
pub fn waits(report: &Report<'_>, page: &mut Page<'_>) -> io::Result<()> {
    let waiters = &report.analysis.waits.waiters;
    if waiters.is_empty() {
        return Ok(());
    }
    let longest = waiters.iter().map(Waiter::whole).max().unwrap_or(0);
    let is_long = |waiter: &&Waiter| waiter.whole() as f64 >= longest as f64 * MIN_SHARE;
    let shown: Vec<&Waiter> = waiters.iter().filter(is_long).take(MAX_WAITERS).collect();
    for waiter in &shown {
        one(report, waiter, page)?;
    }
    match (waiters.len() - shown.len()) as u64 {
        0 => Ok(()),
        more => {
            let text = format!("{} more threads are in the JSON report.", count(more));
            page.prose(Style::Dim, &text)
        }
    }
}

fn one(report: &Report<'_>, waiter: &Waiter, page: &mut Page<'_>) -> io::Result<()> {
    let (whole, waiting) = (waiter.whole(), waiter.waiting());
    let process = &report.model.processes()[waiter.process as usize];
    let rank = rank_of(report.model, waiter.process);
    let rank = rank.map_or_else(String::new, |rank| format!("rank {rank}, "));
    let comm = escape(&process.about.comm);
    page.section(&format!(
        "Waits of {rank}{comm} {} (main thread): ran {} of {}, waited {} ({})",
        process.id.pid,
        duration(waiter.running),
        duration(whole),
        duration(waiting),
        share(waiting, whole),
    ))?;
    let mut table = Table::new(&["WAITED", "SHARE"]);
    let mut kinds: Vec<Kind> = Kind::ALL.to_vec();
    kinds.retain(|kind| waiter.of(*kind) > 0);
    kinds.sort_by_key(|kind| std::cmp::Reverse(waiter.of(*kind)));
    for kind in &kinds {
        let ns = waiter.of(*kind);
        table.row(vec![duration(ns), share(ns, whole)]);
    }
    table.push_column(page, "FOR", |row, room| {
        shorten(meaning(kinds[row], waiter).as_bytes(), room)
    });
    page.table(table)?;
    let files = waiter.files.len();
    if files == 0 {
        return Ok(());
    }
    let shown = &waiter.files[..files.min(MAX_FILES)];
    let mut table = Table::new(&["STORAGE", "SHARE", "PHASE"]);
    for (_, phase, ns) in shown {
        table.row(vec![duration(*ns), share(*ns, whole), phase.name().into()]);
    }
    table.push_column(page, "FILE", |row, room| match shown[row].0 {
        Some(file) => shorten(report.model.file(file).path, room),
        None => "calls that name no open file".to_owned(),
    });
    page.table(table)?;
    match files - shown.len() {
        0 => Ok(()),
        more => page.prose(Style::Dim, &format!("{} more files", count(more as u64))),
    }
}

fn meaning(kind: Kind, waiter: &Waiter) -> String {
    match kind {
        Kind::Storage => "operations on files, its own or its loader's".into(),
        Kind::LoaderCpu => match waiter.loaders.len() as u64 {
            0 | 1 => "the loader, which computed".into(),
            many => format!("the loader, which computed in {} processes", count(many)),
        },
        Kind::RunQueue => "a CPU".into(),
        Kind::Sleep => "a time to pass: sleeps, polling".into(),
        Kind::PageFault => "pages of memory or of mapped files".into(),
        Kind::Network => "the network, or an interrupt".into(),
        Kind::Other => "other processes, devices and locks".into(),
        Kind::Unresolved => "what is not known".into(),
    }
}
