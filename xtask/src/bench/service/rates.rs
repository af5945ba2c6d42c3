//! `cargo xtask bench daemon`: CPU time and memory of the service at several rates of reads, and what a read costs the
//! program with and without it.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use clap::Args;

use super::{MIB, Memory, Service, program};
use crate::bench::stats::Spread;
use crate::bench::{Common, machine, scratch, table, unless_brief};

/// Reads of 4 KiB a second.
const RATES: [u64; 4] = [0, 1000, 100_000, 500_000];

#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    pub common: Common,
    /// How long each rate is held in each round, seconds.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
}

/// What a rate gave, over the rounds.
#[derive(Default)]
struct Figures {
    /// Reads a second that were reached.
    reached: Vec<f64>,
    /// CPU time of a read without and with the service, nanoseconds.
    plain: Vec<f64>,
    traced: Vec<f64>,
    /// CPU of the service, percent of one CPU, and its memory, MiB.
    cpu: Vec<f64>,
    resident: Vec<f64>,
}

/// Measures and prints.
pub fn run(options: &Options) -> Result<()> {
    machine::print();
    let scratch = scratch()?;
    let memory = Memory::mount(&scratch)?;
    let length = Duration::from_secs(options.seconds);
    let length = unless_brief(length, length / 10);
    let mut all: Vec<Figures> = RATES.iter().map(|_| Figures::default()).collect();
    for round in 1..=options.common.rounds() {
        eprintln!(
            "round {round} of {}, load {}",
            options.common.rounds(),
            machine::load()
        );
        for (rate, figures) in RATES.iter().zip(&mut all) {
            if *rate > 0 {
                let [_, ns] = reads(&memory.0, *rate, length)?;
                figures.plain.push(ns);
            }
        }
        let service = Service::start(&scratch, &[])?;
        for (rate, figures) in RATES.iter().zip(&mut all) {
            let (started, before) = (Instant::now(), service.scrape()?.cpu());
            if *rate > 0 {
                let [done, ns] = reads(&memory.0, *rate, length)?;
                figures.traced.push(ns);
                figures.reached.push(done / length.as_secs_f64());
            } else {
                thread::sleep(length);
            }
            let after = service.scrape()?;
            let share = (after.cpu() - before) / started.elapsed().as_secs_f64();
            figures.cpu.push(share * 100.0);
            figures.resident.push(after.resident() / MIB);
        }
    }
    print(&all);
    Ok(())
}

fn print(all: &[Figures]) {
    let mut rows = vec![table::words(
        "reads a second|reached|CPU of the service|resident|a read without|with|slowdown",
    )];
    for (rate, figures) in RATES.iter().zip(all) {
        let median = |figures: &[f64]| Spread::of(figures).map(|spread| spread.median);
        let show = |value: Option<f64>, unit: &str, digits: usize| {
            value.map_or_else(String::new, |value| format!("{value:.digits$}{unit}"))
        };
        let (plain, traced) = (median(&figures.plain), median(&figures.traced));
        let slowdown = plain.zip(traced).map(|(plain, traced)| traced / plain);
        rows.push(vec![
            rate.to_string(),
            show(median(&figures.reached), "", 0),
            show(median(&figures.cpu), " %", 2),
            show(median(&figures.resident), " MiB", 0),
            show(plain, " ns", 0),
            show(traced, " ns", 0),
            show(slowdown, "", 2),
        ]);
    }
    table::print(&rows);
}

/// Reads at a rate: how many were done, and the CPU time of one, nanoseconds.
fn reads(dir: &Path, rate: u64, length: Duration) -> Result<[f64; 2]> {
    let output = program(77, "reads", dir, &[rate, length.as_millis() as u64])?.output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().last().unwrap_or_default();
    let mut numbers = line.split(' ').map(str::parse::<f64>);
    let mut next = || numbers.next().and_then(Result::ok);
    let done = next().context("the program says nothing")?;
    Ok([done, next().context("the program says too little")?])
}
