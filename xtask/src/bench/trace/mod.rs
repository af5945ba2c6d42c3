//! `cargo xtask bench trace`: what it costs to have every operation by itself, beside what other tools ask for it.
//!
//! All tracers are measured in turn, round by round, on a new program each: CPU time that its calls take, and bytes on
//! disk for each. Then two threads, one to a CPU, read at ever higher rates, and what the trace has of it is counted.
//!
//! - `program`: what is traced
//! - `tracers`: by what

pub mod program;
mod tracers;

use std::path::Path;

use anyhow::Result;
use clap::Args;

use super::stats::Spread;
use super::worker::cpus;
use super::{Common, machine, scratch, table};
use crate::setup::{self, Purpose};
use program::{Done, Pattern, Work};
use tracers::{Traced, Tracer};

/// Rates that two threads together are held to; 0: as many as they can.
const RATES: [u64; 7] = [
    250_000, 500_000, 750_000, 1_000_000, 1_250_000, 1_500_000, 0,
];
/// What the calls of one program are measured over.
const CALLS: u64 = 1_000_000;

/// Priority of what is measured at a rate: below that of the thread that empties iotrace's rings.
const HURRY: i32 = -8;

/// What an operation may cost: nanoseconds, bytes.
const LIMIT_NS: f64 = 300.0;
const LIMIT_BYTES: f64 = 10.0;

#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    pub common: Common,
    /// How long each rate is held in each round, seconds.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
}

/// Figures of one tracer, over the rounds.
#[derive(Default)]
struct Costs {
    /// Nanoseconds of CPU time that a call takes the program, and how many of them the tracer added.
    ns: Vec<f64>,
    added: Vec<f64>,
    bytes: Vec<f64>,
    /// Seconds of CPU time that iotrace itself took.
    own: Vec<f64>,
}

/// Figures of one rate, over the rounds.
#[derive(Default)]
struct Rates {
    /// Operations a second that were done, and the share that the trace has not, percent.
    reached: Vec<f64>,
    missing: Vec<f64>,
}

/// Measures and prints.
pub fn run(options: &Options) -> Result<()> {
    if let Err(error) = setup::ensure(&[Purpose::Tracers]) {
        eprintln!("other tracers cannot be installed, and are left out: {error:#}");
    }
    machine::print();
    let scratch = scratch()?;
    let tracers: Vec<Tracer> = Tracer::ALL
        .into_iter()
        .filter(|tracer| tracer.lack().is_none())
        .collect();
    let mut costs: Vec<[Costs; 2]> = tracers.iter().map(|_| Default::default()).collect();
    let mut rates: Vec<Rates> = RATES.iter().map(|_| Rates::default()).collect();
    for round in 1..=options.common.rounds {
        eprintln!(
            "round {round} of {}, load {}",
            options.common.rounds,
            machine::load()
        );
        for (at, pattern) in Pattern::ALL.into_iter().enumerate() {
            let work = Work::calls(pattern, CALLS);
            let mut plain = None;
            for (tracer, costs) in tracers.iter().zip(&mut costs) {
                let traced = tracer.run(work, &scratch)?;
                costs[at].add(&traced, *plain.get_or_insert(traced.done.cpu_ns));
            }
        }
        // Program and iotrace alike, so that what else runs takes less of the CPUs.
        cpus::prefer(HURRY);
        for (rate, rates) in RATES.iter().zip(&mut rates) {
            let work = Work::rate(*rate, options.seconds);
            rates.add(&Tracer::TraceBasic.run(work, &scratch)?);
        }
        cpus::prefer(0);
    }
    for (at, pattern) in Pattern::ALL.into_iter().enumerate() {
        println!("\n{}", pattern.title());
        let rows = tracers.iter().zip(&costs);
        let rows = rows.map(|(tracer, costs)| costs[at].row(tracer.title()));
        let head = table::words("|ns of CPU time|added|quartiles|bytes on disk|quartiles");
        table::print(&[head].into_iter().chain(rows).collect::<Vec<_>>());
    }
    print_rates(&rates);
    print_own(&tracers, &costs);
    println!();
    for (tracer, lack) in Tracer::ALL.map(|tracer| (tracer, tracer.lack())) {
        if let Some(lack) = lack {
            println!("{} was not measured: {lack}", tracer.title());
        }
    }
    let at = tracers.iter().position(|one| *one == Tracer::TraceBasic);
    print_targets(at.map(|at| &costs[at]), &rates);
    Ok(())
}

fn print_rates(rates: &[Rates]) {
    println!("\ntwo threads, one to a CPU, random reads: of what they did, the trace has not");
    let mut rows = vec![table::words(
        "operations a second|reached|quartiles|missing|quartiles",
    )];
    for (rate, rates) in RATES.iter().zip(rates) {
        let mut row = vec![match rate {
            0 => "as many as they can".to_owned(),
            rate => rate.to_string(),
        }];
        row.extend(cells(&rates.reached, 0, ""));
        row.extend(cells(&rates.missing, 3, " %"));
        rows.push(row);
    }
    table::print(&rows);
}

/// What iotrace itself does for an operation that it keeps: reads it, sorts it, encodes it and writes it. Of that and of
/// what a call takes the program follows how many two CPUs can bear.
fn print_own(tracers: &[Tracer], costs: &[[Costs; 2]]) {
    let of = |tracer| {
        let at = tracers.iter().position(|one| *one == tracer);
        at.map(|at| &costs[at])
    };
    let Some((without, with)) = of(Tracer::Basic).zip(of(Tracer::TraceBasic)) else {
        return;
    };
    println!("\niotrace itself, for an operation that it keeps");
    let mut rows = vec![table::words(
        "|ns of CPU time|quartiles|operations a second of two CPUs|quartiles",
    )];
    for (at, pattern) in Pattern::ALL.into_iter().enumerate() {
        let rounds = with[at].own.iter().zip(&without[at].own);
        let own: Vec<f64> = rounds
            .map(|(with, without)| (with - without).max(0.0) * 1e9 / CALLS as f64)
            .collect();
        let both = own.iter().zip(&with[at].ns);
        let most: Vec<f64> = both.map(|(own, ns)| 2e9 / (own + ns)).collect();
        let mut row = vec![format!("  {}", pattern.title())];
        row.extend(cells(&own, 0, ""));
        row.extend(cells(&most, 0, ""));
        rows.push(row);
    }
    table::print(&rows);
}

fn print_targets(costs: Option<&[Costs; 2]>, rates: &[Rates]) {
    let mut rows = vec![table::words("target|limit|measured|")];
    let median = |figures: &[f64]| Spread::of(figures).map(|spread| spread.median);
    let verdict = |is_reached: bool| if is_reached { "reached" } else { "missed" }.to_owned();
    for (at, pattern) in Pattern::ALL.into_iter().enumerate() {
        let Some(costs) = costs.map(|costs| &costs[at]) else {
            continue;
        };
        for (what, figures, limit) in [
            ("ns added", &costs.added, LIMIT_NS),
            ("bytes", &costs.bytes, LIMIT_BYTES),
        ] {
            if let Some(median) = median(figures) {
                rows.push(vec![
                    format!("{what}, {}", pattern.title()),
                    format!("{limit}"),
                    format!("{median:.1}"),
                    verdict(median <= limit),
                ]);
            }
        }
    }
    let whole = |rates: &&Rates| rates.missing.iter().all(|missing| *missing == 0.0);
    let whole = rates.iter().filter(whole);
    let best = whole
        .filter_map(|rates| median(&rates.reached))
        .fold(0.0, f64::max);
    rows.push(vec![
        "operations a second, none missing in any round".into(),
        "1000000".into(),
        format!("{best:.0}"),
        verdict(best >= 1e6),
    ]);
    table::print(&rows);
}

impl Costs {
    fn add(&mut self, traced: &Traced, plain: f64) {
        self.ns.push(traced.done.cpu_ns);
        self.added.push(traced.done.cpu_ns - plain);
        self.bytes.extend(traced.bytes_each());
        self.own.extend(traced.own_seconds);
    }

    fn row(&self, title: &str) -> Vec<String> {
        let mut row = vec![format!("  {title}")];
        row.push(Spread::of(&self.ns).map_or_else(String::new, |ns| format!("{:.0}", ns.median)));
        row.extend(cells(&self.added, 0, ""));
        row.extend(cells(&self.bytes, 2, ""));
        row
    }
}

impl Rates {
    fn add(&mut self, traced: &Traced) {
        let Done { calls, seconds, .. } = traced.done;
        self.reached.push(calls as f64 / seconds);
        let missing = calls.saturating_sub(traced.operations);
        self.missing.push(missing as f64 / calls as f64 * 100.0);
    }
}

/// The median and the quartiles.
fn cells(figures: &[f64], digits: usize, unit: &str) -> [String; 2] {
    Spread::of(figures).map_or_else(Default::default, |spread| {
        let Spread { low, median, high } = spread;
        [
            format!("{median:.digits$}{unit}"),
            format!("{low:.digits$} - {high:.digits$}"),
        ]
    })
}

/// A directory of its own, empty.
fn empty(directory: &Path) -> Result<()> {
    if directory.exists() {
        std::fs::remove_dir_all(directory)?;
    }
    Ok(std::fs::create_dir_all(directory)?)
}
