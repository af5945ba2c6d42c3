//! `cargo xtask bench syscall`: nanoseconds that a call takes longer under each tracer.
//!
//! All tracers are measured in turn, round by round, each with a worker of its own that stays on one
//! CPU; a figure is the median of many short pieces of a loop. So what changes slowly on the machine
//! changes for all, and the tables show medians over the rounds with their quartiles.
//!
//! - `results`: the figures, and what follows from them
//! - `report`: tables and targets

mod report;
mod results;

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;

use super::call::Call;
use super::machine::{self, Others};
use super::remote::{Places, Worker};
use super::tracer::Tracer;
use super::{Common, raw};
use results::Results;

/// How long the CPU's best speed is looked for, milliseconds.
const BEST_MILLIS: u64 = 4000;
/// How often a visit is repeated that was disturbed.
const TRIES: u32 = 5;

#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    pub common: Common,
}

/// Measures and prints.
pub fn run(options: &Options) -> Result<()> {
    machine::print();
    let tracers: Vec<_> = Tracer::ALL
        .into_iter()
        .filter(|tracer| tracer.lack().is_none())
        .collect();
    let disk = super::scratch()?;
    let places = Places::new(&disk);
    let mut bench = Bench {
        best: best(&places)?,
        places,
        scratch: disk,
        others: Others::look(),
        results: Results::default(),
        disturbed: 0,
    };
    for round in 1..=options.common.rounds {
        eprintln!(
            "round {round} of {}, load {}",
            options.common.rounds,
            machine::load()
        );
        for tracer in &tracers {
            bench.visit(*tracer)?;
        }
    }
    bench.others.print();
    if bench.disturbed > 0 {
        println!(
            "note:    {} visits were disturbed by other tracers",
            bench.disturbed
        );
    }
    report::print(&bench.results, &tracers);
    Ok(())
}

/// The CPU's best speed: a loop's nanoseconds.
fn best(places: &Places) -> Result<f64> {
    let mut worker = Worker::start(places, &[])?;
    worker.ask(&format!("best {BEST_MILLIS}"))?;
    Ok(worker.answer()?[0])
}

struct Bench {
    best: f64,
    places: Places,
    scratch: PathBuf,
    others: Others,
    results: Results,
    /// Visits that were taken though they were disturbed each time.
    disturbed: u32,
}

impl Bench {
    /// Measures all calls under one tracer; again where something disturbed it.
    fn visit(&mut self, tracer: Tracer) -> Result<()> {
        for left in (0..TRIES).rev() {
            let quiet = self.others.wait();
            let (figures, alone) = self.measure(tracer)?;
            let disturbed = !quiet || !alone;
            if disturbed && left > 0 {
                continue;
            }
            self.disturbed += u32::from(disturbed);
            self.results.add(tracer, &figures);
            break;
        }
        Ok(())
    }

    /// The figures of one visit, and whether nothing disturbed it.
    fn measure(&self, tracer: Tracer) -> Result<(Vec<(Call, f64)>, bool)> {
        let mut worker = tracer.worker(&self.places, &self.scratch)?;
        let attached = tracer.attach(&worker, &self.places, &self.scratch)?;
        let programs = raw::loaded();
        let mut alone = true;
        let mut figures = Vec::new();
        let mut reads = 0;
        for call in Call::ALL {
            worker.ask(&format!("call {} {}", call.word(), self.best))?;
            let [ns, calls, quiet] = worker.answer()?;
            if call.is_read() {
                reads += calls as u64;
            }
            figures.push((call, ns));
            alone &= raw::loaded() == programs && quiet == 1.0;
        }
        let outcome = attached.detach()?;
        if let (Some(outcome), Some(counts)) = (outcome, tracer.counts()) {
            let expected = if counts { reads } else { 0 };
            if outcome.reads != expected {
                println!(
                    "note:    {} counted {} of {expected} reads",
                    tracer.title(),
                    outcome.reads
                );
            }
        }
        drop::<Worker>(worker);
        Ok((figures, alone))
    }
}
