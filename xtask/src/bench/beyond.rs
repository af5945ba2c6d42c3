//! `cargo xtask bench mmap`, `uring`, `uprobe`, `block` and `waits`: what iotrace adds where no plain system call is seen.
//!
//! Each measures one thing that a worker does over and over, under all variants in turn, round by round, as `bench
//! syscall` does: a page fault on a mapped file that is in the page cache, a read by io_uring, an `fread` of one byte, a
//! direct read from the disk, a round trip between two threads.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Args;

use super::call::Call;
use super::iotrace::{Recording, WITH_WAITS};
use super::machine;
use super::others::Others;
use super::remote::{Places, Worker};
use super::stats::Spread;
use super::{Common, table, unless_brief};

/// Rounds, unless another number is asked for: less than three minutes.
const ROUNDS: u32 = 5;
/// How often what was disturbed is measured.
const TRIES: u32 = 3;
/// How long others are waited for.
const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    pub common: Common,
}

/// What is measured, and what it is called.
pub struct Subject {
    call: Call,
    variants: &'static [Variant],
}

/// One way to trace, or not to.
struct Variant {
    title: &'static str,
    who: Who,
    detail: &'static str,
    more: &'static [&'static str],
}

/// Whom iotrace traces.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Who {
    Nobody,
    Worker,
    Another,
}

const fn variant(
    title: &'static str,
    who: Who,
    detail: &'static str,
    more: &'static [&'static str],
) -> Variant {
    Variant {
        title,
        who,
        detail,
        more,
    }
}

const UNTRACED: Variant = variant("untraced", Who::Nobody, "", &[]);
const BASIC: Variant = variant("iotrace basic", Who::Worker, "basic", &[]);
const FULL: Variant = variant("iotrace full", Who::Worker, "full", &[]);
const ELSEWHERE: Variant = variant("iotrace basic, elsewhere", Who::Another, "basic", &[]);

pub const MMAP: Subject = Subject {
    call: Call::Fault,
    variants: &[
        UNTRACED,
        BASIC,
        FULL,
        variant(
            "iotrace basic, --no-page-cache",
            Who::Worker,
            "basic",
            &["--no-page-cache"],
        ),
        ELSEWHERE,
    ],
};

pub const URING: Subject = Subject {
    call: Call::UringRead,
    variants: &[UNTRACED, BASIC, FULL, ELSEWHERE],
};

const STDIO: &[&str] = &["--uprobe", "stdio"];

pub const UPROBE: Subject = Subject {
    call: Call::Fread,
    variants: &[
        UNTRACED,
        BASIC,
        variant("iotrace basic, --uprobe stdio", Who::Worker, "basic", STDIO),
        variant("the same, elsewhere", Who::Another, "basic", STDIO),
    ],
};

const REQUESTS: &[&str] = &["--block"];

pub const BLOCK: Subject = Subject {
    call: Call::DirectRead,
    variants: &[
        UNTRACED,
        BASIC,
        variant("iotrace basic, --block", Who::Worker, "basic", REQUESTS),
        variant("the same, elsewhere", Who::Another, "basic", REQUESTS),
    ],
};

const KEEP_WAITS: &[&str] = &[WITH_WAITS];

pub const WAITS: Subject = Subject {
    call: Call::Wake,
    variants: &[
        UNTRACED,
        BASIC,
        variant("iotrace basic, --waits", Who::Worker, "basic", KEEP_WAITS),
        ELSEWHERE,
        variant("the same, --waits", Who::Another, "basic", KEEP_WAITS),
    ],
};

/// Measures and prints.
pub fn run(options: &Options, subject: &Subject) -> Result<()> {
    machine::print();
    let scratch = super::scratch()?;
    let places = Places::new(&scratch);
    let mut others = Others::look(&places)?;
    let mut figures = vec![Vec::new(); subject.variants.len()];
    let mut busy = 0;
    let rounds = options.common.rounds_or(ROUNDS);
    for round in 1..=rounds {
        eprintln!("round {round} of {rounds}, load {}", machine::load());
        for (variant, figures) in subject.variants.iter().zip(&mut figures) {
            gone();
            let (ns, quiet) = variant.measure(subject.call, &places, &scratch, &mut others)?;
            busy += u32::from(!quiet);
            figures.push(ns);
        }
    }
    if busy > 0 {
        println!("note:    {busy} figures are from a busy CPU core");
    }
    println!("\n{}", subject.call.title());
    table::print(&rows(subject, &figures));
    Ok(())
}

/// Waits until nobody takes probes off any more, which the kernel lets take a while: calls trap until then.
fn gone() {
    let end = Instant::now() + unless_brief(PATIENCE, Duration::from_secs(1));
    while Instant::now() < end && is_running("iotrace") {
        thread::sleep(Duration::from_millis(200));
    }
}

/// Whether a process of this name is there that has not ended.
fn is_running(name: &str) -> bool {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut stats = entries.filter_map(|entry| fs::read_to_string(entry.path().join("stat")).ok());
    // proc(5): number, name, state.
    stats.any(|stat| {
        let (before, after) = stat.rsplit_once(") ").unwrap_or_default();
        before.split_once(" (").is_some_and(|(_, of)| of == name) && !after.starts_with('Z')
    })
}

impl Variant {
    /// Nanoseconds, and whether the CPU core was quiet.
    fn measure(
        &self,
        call: Call,
        places: &Places,
        scratch: &Path,
        others: &mut Others,
    ) -> Result<(f64, bool)> {
        let mut worker = Worker::start(places, &[])?;
        let another = match self.who {
            Who::Another => Some(Worker::start(places, &[])?),
            _ => None,
        };
        let traced = another.as_ref().unwrap_or(&worker).pid();
        let recording = match self.who {
            Who::Nobody => None,
            _ => Some(Recording::start_trace(
                scratch,
                &[traced],
                self.detail,
                self.more,
            )?),
        };
        let (mut ns, mut quiet) = (0.0, false);
        for _ in 0..unless_brief(TRIES, 1) {
            worker.ask(&format!("call {} {}", call.word(), others.best()))?;
            let [now, _, is_quiet, best] = worker.answer()?;
            others.saw(best);
            (ns, quiet) = (now, is_quiet == 1.0);
            if quiet {
                break;
            }
        }
        if let Some(recording) = recording {
            recording.stop()?;
        }
        Ok((ns, quiet))
    }
}

/// Differences and ratios are taken within a round.
fn rows(subject: &Subject, figures: &[Vec<f64>]) -> Vec<Vec<String>> {
    let mut rows = vec![table::words(
        "|ns|quartiles|added|quartiles|x untraced|quartiles",
    )];
    for (variant, of) in subject.variants.iter().zip(figures) {
        let untraced = || figures[0].iter();
        let added: Vec<_> = of
            .iter()
            .zip(untraced())
            .map(|(ns, bare)| ns - bare)
            .collect();
        let ratio: Vec<_> = of
            .iter()
            .zip(untraced())
            .map(|(ns, bare)| ns / bare)
            .collect();
        let mut row = vec![format!("  {}", variant.title)];
        row.extend(cells(of, 1));
        if variant.who != Who::Nobody {
            row.extend(cells(&added, 1));
            row.extend(cells(&ratio, 2));
        }
        rows.push(row);
    }
    rows
}

/// The median and the quartiles.
fn cells(figures: &[f64], digits: usize) -> Vec<String> {
    Spread::of(figures).map_or(vec![], |Spread { low, median, high }| {
        vec![
            format!("{median:.digits$}"),
            format!("{low:.digits$} - {high:.digits$}"),
        ]
    })
}
