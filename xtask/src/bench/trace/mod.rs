//! `cargo xtask bench trace`: what it costs to have every operation by itself, beside what other tools ask for it.
//!
//! All tracers are measured in turn, round by round, on a new program each: CPU time that its calls take, and bytes on
//! disk for each. Then two threads, one to a CPU, read at ever higher rates, and what the trace has of it is counted.
//!
//! - `program`: what is traced
//! - `tracers`: by what
//! - `limit`: how many operations a second are kept, and what sets that

mod limit;
pub mod program;
pub mod tracers;

use anyhow::Result;
use clap::Args;

use super::stats::Spread;
use super::worker::cpus;
use super::{Common, machine, scratch, table, unless_brief};
use program::{Pattern, Work};
use tracers::{Traced, Tracer};

/// Rounds, where nothing else is asked for.
const ROUNDS: u32 = 3;
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
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
}

/// Figures of one tracer, over the rounds.
#[derive(Default)]
struct Costs {
    /// Nanoseconds of CPU time that a call takes the program, and how many of them the tracer added.
    ns: Vec<f64>,
    added: Vec<f64>,
    bytes: Vec<f64>,
    /// Nanoseconds of CPU time that iotrace took for an operation, to read it and to write it.
    read: Vec<f64>,
    written: Vec<f64>,
}

/// Measures and prints.
pub fn run(options: &Options) -> Result<()> {
    super::install_tracers();
    machine::print();
    let scratch = scratch()?;
    let tracers: Vec<Tracer> = Tracer::ALL
        .into_iter()
        .filter(|tracer| tracer.lack().is_none())
        .collect();
    let mut costs: Vec<[Costs; 2]> = tracers.iter().map(|_| Default::default()).collect();
    let mut rates = limit::Rates::default();
    let rounds = options.common.rounds_or(ROUNDS);
    for round in 1..=rounds {
        eprintln!("round {round} of {rounds}, load {}", machine::load());
        for (at, pattern) in Pattern::ALL.into_iter().enumerate() {
            let work = Work::calls(pattern, unless_brief(CALLS, CALLS / 50));
            let mut plain = None;
            for (tracer, costs) in tracers.iter().zip(&mut costs) {
                let traced = tracer.run(work, &scratch)?;
                costs[at].add(&traced, *plain.get_or_insert(traced.done.cpu_ns));
            }
        }
        // Program and iotrace alike, so that what else runs takes less of the CPUs.
        cpus::prefer(HURRY);
        rates.measure(unless_brief(options.seconds, 1), &scratch)?;
        cpus::prefer(0);
    }
    for (at, pattern) in Pattern::ALL.into_iter().enumerate() {
        println!("\n{}", pattern.title());
        let rows = tracers.iter().zip(&costs);
        let rows = rows.map(|(tracer, costs)| costs[at].row(tracer.title()));
        let head = table::words("|ns of CPU time|added|quartiles|bytes on disk|quartiles");
        table::print(&[head].into_iter().chain(rows).collect::<Vec<_>>());
    }
    let of = |tracer: Tracer| {
        let at = tracers.iter().position(|one| *one == tracer);
        at.map(|at| &costs[at])
    };
    print_own(of(Tracer::Basic), of(Tracer::TraceBasic));
    rates.print();
    if let (Some(plain), Some(basic), Some(trace)) = (
        of(Tracer::Untraced),
        of(Tracer::Basic),
        of(Tracer::TraceBasic),
    ) {
        limit::explain([plain, basic, trace].map(|costs| &costs[Pattern::Random as usize]));
    }
    println!();
    for (tracer, lack) in Tracer::ALL.map(|tracer| (tracer, tracer.lack())) {
        if let Some(lack) = lack {
            println!("{} was not measured: {lack}", tracer.title());
        }
    }
    print_targets(of(Tracer::TraceBasic), rates.whole());
    Ok(())
}

/// What the trace adds to the counters, and what iotrace itself does with each operation.
fn print_own(basic: Option<&[Costs; 2]>, trace: Option<&[Costs; 2]>) {
    let Some((basic, trace)) = basic.zip(trace) else {
        return;
    };
    println!("\nof an operation that is kept, ns of CPU time");
    let mut rows = vec![table::words(
        "|the trace's own share of what is added|quartiles|iotrace reads it|quartiles|sorts, encodes, writes it|quartiles",
    )];
    for (at, pattern) in Pattern::ALL.into_iter().enumerate() {
        let rounds = trace[at].ns.iter().zip(&basic[at].ns);
        let share: Vec<f64> = rounds.map(|(with, without)| with - without).collect();
        let mut row = vec![format!("  {}", pattern.title())];
        for figures in [&share, &trace[at].read, &trace[at].written] {
            row.extend(cells(figures, 0, ""));
        }
        rows.push(row);
    }
    table::print(&rows);
}

fn print_targets(costs: Option<&[Costs; 2]>, whole: f64) {
    let mut rows = vec![table::words("target|limit|measured|")];
    let median = |figures: &[f64]| Spread::of(figures).map(|spread| spread.median);
    for (at, pattern) in Pattern::ALL.into_iter().enumerate() {
        let Some(costs) = costs.map(|costs| &costs[at]) else {
            continue;
        };
        for (what, figures, limit) in [
            ("ns added, counters and trace", &costs.added, LIMIT_NS),
            ("bytes", &costs.bytes, LIMIT_BYTES),
        ] {
            if let Some(median) = median(figures) {
                rows.push(vec![
                    format!("{what}, {}", pattern.title()),
                    format!("{limit}"),
                    format!("{median:.1}"),
                    table::verdict(median <= limit).into(),
                ]);
            }
        }
    }
    rows.push(vec![
        "operations a second, none missing in any round".into(),
        "1000000".into(),
        format!("{whole:.0}"),
        table::verdict(whole >= 1e6).into(),
    ]);
    table::print(&rows);
}

impl Costs {
    fn add(&mut self, traced: &Traced, plain: f64) {
        self.ns.push(traced.done.cpu_ns);
        self.added.push(traced.done.cpu_ns - plain);
        self.bytes.extend(traced.bytes_each());
        if let Some([read, written]) = traced.own_each() {
            self.read.push(read);
            self.written.push(written);
        }
    }

    fn row(&self, title: &str) -> Vec<String> {
        let mut row = vec![format!("  {title}")];
        row.push(Spread::of(&self.ns).map_or_else(String::new, |ns| format!("{:.0}", ns.median)));
        row.extend(cells(&self.added, 0, ""));
        row.extend(cells(&self.bytes, 2, ""));
        row
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
