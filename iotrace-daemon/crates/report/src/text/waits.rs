//! What main threads waited for, in the text report.

use std::io;

use super::{
    escape::{escape, shorten},
    table::{Page, Style, Table},
    units::{count, duration, share},
};
use crate::Report;
use iotrace_analysis::waits::{WAITS, Waiter, rank_of};
use iotrace_model::waits::Leaf;

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
    let longest = waiters
        .iter()
        .map(|waiter| waiter.spent.whole())
        .max()
        .unwrap_or(0);
    let is_long = |waiter: &&Waiter| waiter.spent.whole() as f64 >= longest as f64 * MIN_SHARE;
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
    let spent = &waiter.spent;
    let (whole, waiting) = (spent.whole(), spent.waiting());
    let process = &report.model.processes()[waiter.process as usize];
    let rank = rank_of(report.model, waiter.process);
    let rank = rank.map_or_else(String::new, |rank| format!("rank {rank}, "));
    let comm = escape(&process.about.comm);
    page.section(&format!(
        "Waits of {rank}{comm} {} (main thread): ran {} of {}, waited {} ({})",
        process.id.pid,
        duration(spent.of(Leaf::Running)),
        duration(whole),
        duration(waiting),
        share(waiting, whole),
    ))?;
    let mut table = Table::new(&["WAITED", "SHARE"]);
    let mut leaves = WAITS.to_vec();
    leaves.retain(|leaf| spent.of(*leaf) > 0);
    leaves.sort_by_key(|leaf| std::cmp::Reverse(spent.of(*leaf)));
    for leaf in &leaves {
        let ns = spent.of(*leaf);
        table.row(vec![duration(ns), share(ns, whole)]);
    }
    table.push_column(page, "FOR", |row, room| {
        shorten(meaning(leaves[row], waiter).as_bytes(), room)
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

fn meaning(leaf: Leaf, waiter: &Waiter) -> String {
    match leaf {
        Leaf::Storage => "operations on files, its own or its loader's".into(),
        Leaf::Computing => match waiter.loaders.len() as u64 {
            0 | 1 => "the loader, which computed".into(),
            many => format!("the loader, which computed in {} processes", count(many)),
        },
        Leaf::RunQueue => "a CPU".into(),
        Leaf::Sleep => "a time to pass: sleeps, polling".into(),
        Leaf::PageFault => "pages of memory or of mapped files".into(),
        Leaf::Network => "the network, or an interrupt".into(),
        Leaf::Other => "other processes, devices and locks".into(),
        Leaf::Unresolved => "what is not known".into(),
        Leaf::Running | Leaf::OfThatForChild => String::new(),
    }
}
